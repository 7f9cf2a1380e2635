/* test_pack.c - binding reads no weight, and packing checks each of them: a number that is not finite in any
 * tensor of any kind of model is refused by the tensor's name, and so are bytes that a packed checkpoint
 * lacks. */
#include <jansson.h>
#include <xxhash.h>

#include "base/buf.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/threads/pool.h"
#include "ckpt/pack/form.h"
#include "engines.h"
#include "files.h"
#include "kern/kern.h"
#include "model/model.h"

static struct pool *pool;
static const char *scratch; /* the folder of a copied checkpoint */
static size_t n_progress;

static void count_progress(void *ctx, size_t done, size_t total)
{
    (void)ctx;
    assert_true(done <= total);
    n_progress++;
}

static int open_model(struct model *m, const char *dir, struct err *e)
{
    struct model_options opt = {.dtype = DT_BF16, .kern = kern_table(cpu_best()), .progress = count_progress};

    *e = (struct err){0};
    return model_open(m, dir, &opt, pool, e);
}

static void binding_packs_nothing_and_knows_all_sizes(void **state)
{
    static const char *const names[] = {"llama3-rope", "gpt-oss", "mixtral", "gemma4", "opt", "gpt2"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        size_t before = map_region_live_bytes(), bytes, scratch_bytes;
        struct model m;
        struct err e;

        n_progress = 0;
        if (open_model(&m, engines_path(names[i]), &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(n_progress, 0);
        assert_int_equal(map_region_live_bytes(), before);
        assert_true(m.packed_bytes > 0);
        bytes = m.packed_bytes;
        scratch_bytes = pool_scratch_bytes(pool);
        if (model_pack(&m, &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(n_progress, m.info.n_layers);
        assert_int_equal(m.packed_bytes, bytes);
        assert_true(map_region_live_bytes() - before >= bytes);
        model_close(&m);
        assert_true(map_region_live_bytes() - before <= 2 * (pool_scratch_bytes(pool) - scratch_bytes));
    }
}

/* Finds the offset, the length and the dtype of the tensor NAME in the safetensors file F. */
static long find_tensor(FILE *f, const char *name, long *bytes, const char **type, json_t **header)
{
    uint64_t n;
    char *text;
    json_t *range;

    rewind(f);
    assert_int_equal(fread(&n, sizeof(n), 1, f), 1);
    text = malloc(n);
    assert_int_equal(fread(text, 1, n, f), n);
    *header = json_loadb(text, n, 0, NULL);
    free(text);
    range = json_object_get(json_object_get(*header, name), "data_offsets");
    assert_non_null(range);
    *type = json_string_value(json_object_get(json_object_get(*header, name), "dtype"));
    *bytes =
        (long)(json_integer_value(json_array_get(range, 1)) - json_integer_value(json_array_get(range, 0)));
    return (long)(sizeof(n) + n) + (long)json_integer_value(json_array_get(range, 0));
}

/* Writes a number of TYPE that is not finite to BYTES. Returns its size, or 0 if the dtype has none. */
static size_t not_finite(const char *type, int which, uint8_t bytes[4])
{
    static const uint32_t of[] = {0x7f800000, 0xff800000, 0x7fc00000};
    static const uint16_t half[] = {0x7c00, 0xfc00, 0x7e00};

    if (strcmp(type, "F32") == 0)
        return memcpy(bytes, &of[which], 4), 4;
    if (strcmp(type, "BF16") == 0)
        return memcpy(bytes, (const char *)&of[which] + 2, 2), 2;
    if (strcmp(type, "F16") == 0)
        return memcpy(bytes, &half[which], 2), 2;
    bytes[0] = 255;
    return 1;
}

/* Spoils one number of the tensor T of the copied checkpoint. It must be refused, and no other. */
static void poke(const char *golden, const char *tensor, int which)
{
    char path[4096], says[512];
    uint8_t was[4], bad[4];
    long at, bytes;
    const char *type;
    json_t *header;
    struct model m;
    struct err e;
    size_t size;
    FILE *f;
    int rc;

    snprintf(path, sizeof(path), "%s/model.safetensors", scratch);
    assert_non_null(f = fopen(path, "r+"));
    at = find_tensor(f, tensor, &bytes, &type, &header);
    size = not_finite(type, which, bad);
    at += which % 2 ? 0 : bytes - (long)size;
    fseek(f, at, SEEK_SET);
    assert_int_equal(fread(was, 1, size, f), size);
    fseek(f, at, SEEK_SET);
    fwrite(bad, 1, size, f);
    fflush(f);
    if ((rc = open_model(&m, scratch, &e)) == 0) {
        rc = model_pack(&m, &e);
        model_close(&m);
    }
    snprintf(says, sizeof(says), "model.safetensors: tensor %s holds", tensor);
    if (rc != ERR_INPUT || !strstr(e.msg, says))
        fail_msg("%s: %s with a number that is not finite: code %d, expected its name: \"%s\"", golden,
                 tensor, rc, e.msg);
    fseek(f, at, SEEK_SET);
    fwrite(was, 1, size, f);
    fclose(f);
    json_decref(header);
}

static void every_tensor_of(const char *golden)
{
    const char **name;
    struct model m;
    struct err e;
    size_t n;

    files_copy_all(engines_path(golden), scratch);
    if (open_model(&m, scratch, &e) != 0)
        fail_msg("%s", e.msg);
    n = m.n_tensors;
    name = calloc(n, sizeof(*name));
    for (size_t i = 0; i < n; i++)
        name[i] = m.tensor[i].view->dtype == DT_U8 && strcmp(m.tensor[i].use, "scales") != 0
                      ? NULL /* Nibbles are always finite. */
                      : strdup(m.tensor[i].view->name);
    model_close(&m);
    for (size_t i = 0; i < n; i++) {
        if (name[i])
            poke(golden, name[i], (int)(i % 3));
        free((void *)(uintptr_t)name[i]);
    }
    free(name);
}

static void a_number_that_is_not_finite_is_refused_in_every_tensor(void **state)
{
    static const char *const goldens[] = {"qwen2",   "gpt2",   "opt-postln-proj", "gptj",      "gpt-oss",
                                          "mixtral", "llama4", "gemma4",          "gemma4-moe"};

    for (size_t i = 0; i < sizeof(goldens) / sizeof(*goldens); i++)
        every_tensor_of(goldens[i]);
}

static int write_packed(void *ctx, size_t part, const void *p, size_t n, struct err *e)
{
    buf_add(ctx, p, n);
    return part || ((struct buf *)ctx)->oom ? err_nomem(e, "a test") : 0;
}

static void pack_golden(struct buf *out, const char *golden)
{
    struct pack_writer w = {.write = write_packed, .ctx = out};
    struct model_options opt = {.dtype = DT_BF16, .kern = kern_table(cpu_best()), .save = &w};
    struct model m;
    struct err e;

    if (model_open(&m, engines_path(golden), &opt, pool, &e) != 0 || model_pack(&m, &e) != 0)
        fail_msg("%s", e.msg);
    model_close(&m);
    pack_abort(&w);
}

/* Opens the packed checkpoint after the LEN bytes of its directory at AT have changed. */
static int open_resealed(struct buf *b, size_t at, size_t len, struct err *e)
{
    char path[4096], *end = b->data + b->len - sizeof(struct pack_tail);
    struct pack_tail tail;
    struct model m;
    int rc;

    memcpy(&tail, end, sizeof(tail));
    tail.sum = XXH3_64bits(b->data + at, len);
    tail.own_sum = XXH3_64bits(&tail, offsetof(struct pack_tail, own_sum));
    memcpy(end, &tail, sizeof(tail));
    snprintf(path, sizeof(path), "%s/model.gallop", scratch);
    files_write(path, b->data, b->len);
    if ((rc = open_model(&m, path, e)) == 0) {
        rc = model_pack(&m, e);
        model_close(&m);
    }
    return rc;
}

static void a_packed_tensor_without_its_bytes_is_refused(void **state)
{
    static const char *const goldens[] = {"opt-postln-proj", "gpt-oss", "gemma4"};

    for (size_t i = 0; i < sizeof(goldens) / sizeof(*goldens); i++) {
        struct buf b = {.tag = MEM_CKPT};
        char *bytes, *stop;
        size_t at, len, n = 0;
        struct err e;

        pack_golden(&b, goldens[i]);
        memcpy(&at, b.data + b.len - sizeof(struct pack_tail), sizeof(at));
        len = b.len - sizeof(struct pack_tail) - at;
        bytes = strstr(b.data + at, "\"tensors\"");
        stop = strstr(b.data + at, "\"linears\"");
        assert_true(bytes && stop);
        assert_int_equal(open_resealed(&b, at, len, &e), 0);
        while ((bytes = strstr(bytes, "\"bytes\":")) != NULL && bytes < stop) {
            char was[24];
            size_t digits = strspn(bytes += strlen("\"bytes\":"), "0123456789");

            memcpy(was, bytes, digits);
            memset(bytes, ' ', digits);
            *bytes = '0';
            if (open_resealed(&b, at, len, &e) != ERR_INPUT || !strstr(e.msg, "the bytes of tensor "))
                fail_msg("%s, tensor %zu: \"%s\"", goldens[i], n, e.msg);
            memcpy(bytes, was, digits);
            n++;
        }
        assert_true(n > 5);
        buf_fini(&b);
    }
}

static int start(void **state)
{
    struct err e = {0};

    log_set_level(LOG_ERROR);
    scratch = files_folder();
    return pool_new(&pool, 2, &e);
}

static int end(void **state)
{
    pool_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binding_packs_nothing_and_knows_all_sizes),
        cmocka_unit_test(a_number_that_is_not_finite_is_refused_in_every_tensor),
        cmocka_unit_test(a_packed_tensor_without_its_bytes_is_refused),
    };

    return cmocka_run_group_tests(tests, start, end);
}
