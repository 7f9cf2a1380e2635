/* test_shapes.c - the shapes of `gallop synth`: each has as many parameters as the model whose name it has,
 * every architecture has one, and each opens and computes a token. For that the shapes are reduced to two
 * layers, one group of heads and a small vocabulary; names, config and proportions stay. */
#include <jansson.h>
#include <unistd.h>

#include "base/buf.h"
#include "engine/engine.h"
#include "files.h"
#include "gallop.h"
#include "lab/shapes.h"
#include "model/model.h"

static size_t elements(const struct shapes_tensor *t)
{
    size_t n = t->fill == SYNTH_NIBBLES ? 2 : 1; /* Two weights are in a byte. */

    for (int d = 0; d < 4 && t->shape[d]; d++)
        n *= t->shape[d];
    return n;
}

static int count(void *ctx, const struct shapes_tensor *t)
{
    if (t->fill != SYNTH_SCALES)
        *(size_t *)ctx += elements(t);
    return 0;
}

/* Parameters of the models' own tensors. Shared weights count once. */
static void a_shape_has_as_many_parameters_as_its_model(void **state)
{
    static const struct {
        const char *name;
        size_t n;
    } known[] = {
        {"llama-3.2-1b", 1235814400},    {"llama-3.2-3b", 3212749824},
        {"llama-3.1-8b", 8030261248},    {"llama-3.1-70b", 70553706496},
        {"llama-2-7b", 6738415616},      {"smollm2-135m", 134515008},
        {"tinyllama-1.1b", 1100048384},  {"gpt2", 124439808},
        {"gpt2-medium", 354823168},      {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},         {"qwen2.5-0.5b", 494032768},
        {"qwen2.5-7b", 7615616512},      {"qwen3-0.6b", 596049920},
        {"mistral-7b-v0.1", 7241732096}, {"phi-4-mini", 3836021760},
        {"gemma-3-1b", 999885952},       {"opt-1.3b", 1315758080},
        {"gpt-j-6b", 6050882784},        {"mixtral-8x7b", 46702792704},
        {"qwen3-30b-a3b", 30532122624},  {"gpt-oss-20b", 20914757184},
        {"gpt-oss-120b", 116829156672},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const struct shape *s = shapes_of_name(known[i].name);
        size_t n = 0;

        if (!s)
            fail_msg("there is no shape %s", known[i].name);
        assert_int_equal(shapes_tensors(s, s->layers, count, &n), 0);
        if (n != known[i].n)
            fail_msg("%s has %zu parameters, the model has %zu", s->name, n, known[i].n);
    }
}

/* The class of a model without a head: its tensors are those of the class with a head. */
static bool is_without_head(const char *name)
{
    size_t n = strlen(name), model = strlen("Model"), head = strlen("LMHeadModel");

    return n > model && strcmp(name + n - model, "Model") == 0 &&
           !(n > head && strcmp(name + n - head, "LMHeadModel") == 0);
}

/* Models that also read images have the same file for the text. */
static void every_architecture_has_a_shape(void **state)
{
    static const char with_pictures[] = "ForConditionalGeneration";
    char names[2048], *at = names;

    model_arch_names(names, sizeof(names));
    for (char *name; (name = strsep(&at, ", ")) != NULL;) {
        char *tail = strstr(name, with_pictures);
        bool found = false;

        if (!*name || is_without_head(name))
            continue;
        if (tail)
            strcpy(tail, "ForCausalLM");
        for (size_t i = 0; i < shapes_n() && !found; i++) {
            json_t *c = shapes_config(shapes_at(i), 2, "bfloat16");
            json_t *class_name = json_array_get(json_object_get(c, "architectures"), 0);

            found = strcmp(json_string_value(class_name), name) == 0;
            json_decref(c);
        }
        if (!found)
            fail_msg("no shape has the architecture %s", name);
    }
}

static struct shape shrunk(const struct shape *s)
{
    struct shape t = *s;

    t.heads = s->heads > s->kv ? 2 : 1;
    t.kv = 1;
    t.hidden = t.heads * t.head_dim;
    t.inner = strcmp(s->family, "gpt2") == 0 ? 4 * t.hidden : 128; /* Its config does not contain it. */
    t.vocab = 320;
    t.context = s->context < 131072 ? s->context : 131072;
    t.experts = s->experts ? s->top_k + 2 : 0;
    return t;
}

struct file {
    struct buf head, data;
};

static int add(void *ctx, const struct shapes_tensor *t)
{
    struct file *f = ctx;
    bool bytes = t->fill == SYNTH_NIBBLES || t->fill == SYNTH_SCALES;
    size_t begin = f->data.len, n = t->fill == SYNTH_NIBBLES ? elements(t) / 2 : elements(t);

    buf_fmt(&f->head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", begin ? "," : "", t->name,
            bytes ? "U8" : "BF16");
    for (int d = 0; d < 4 && t->shape[d]; d++)
        buf_fmt(&f->head, d ? ",%zu" : "%zu", t->shape[d]);
    for (size_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)(f->data.len + i) * 2654435761u;
        char v[2] = {(char)(x >> 16), (char)(x >> 31 << 7 | 0x3c)}; /* from +-0.008 to 0.03 */

        buf_add(&f->data, bytes ? "\x77" : v, bytes ? 1 : 2);
    }
    buf_fmt(&f->head, "],\"data_offsets\":[%zu,%zu]}", begin, f->data.len);
    return 0;
}

static void put(const char *dir, const char *name, const void *bytes, size_t n, const void *more,
                size_t n_more)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fwrite(more, 1, n_more, f), n_more);
    assert_int_equal(fclose(f), 0);
}

static void write_model(const char *dir, const struct shape *s, size_t layers)
{
    json_t *c = shapes_config(s, layers, "bfloat16");
    char *text = json_dumps(c, 0);
    struct file f;
    uint64_t len;

    assert_non_null(text);
    put(dir, "config.json", text, strlen(text), "", 0);
    free(text);
    json_decref(c);
    buf_init(&f.head, MEM_APP);
    buf_init(&f.data, MEM_APP);
    buf_str(&f.head, "12345678{"); /* The first eight bytes are the length. */
    assert_int_equal(shapes_tensors(s, layers, add, &f), 0);
    buf_str(&f.head, "}");
    len = f.head.len - 8;
    memcpy(f.head.data, &len, 8);
    put(dir, "model.safetensors", f.head.data, f.head.len, f.data.data, f.data.len);
    buf_fini(&f.head);
    buf_fini(&f.data);
}

/* Returns the message of a failure, or "". */
static const char *compute_a_token(const char *dir, char err[GALLOP_ERR_SIZE])
{
    static const int32_t ids[] = {5, 6, 7};
    struct gallop_options o;
    struct gallop_request r;
    struct gallop_event ev;
    struct gallop *g = NULL;
    int tokens = 0;

    gallop_options_init(&o);
    gallop_request_init(&r);
    o.model = dir;
    o.threads = 1;
    o.max_model_len = 64;
    r.ids = ids;
    r.n_ids = 3;
    r.sampling.max_new_tokens = 1;
    r.sampling.ignore_eos = 1;
    if (gallop_open(&g, &o, err) != 0 || gallop_submit(g, &r, NULL, err) != 0) {
        gallop_close(g);
        return err;
    }
    while (gallop_next(g, &ev))
        tokens += ev.type == GALLOP_TOKEN;
    gallop_close(g);
    return tokens == 1 ? "" : "no token came";
}

static void every_shape_opens_and_computes_a_token(void **state)
{
    const char *dir = files_folder();
    char err[GALLOP_ERR_SIZE];

    for (size_t i = 0; i < shapes_n(); i++) {
        struct shape s = shrunk(shapes_at(i));
        /* Two layers of Gemma 4 use the rows of others. */
        size_t most = strcmp(s.family, "gemma4") == 0 ? 17 : 2;

        for (size_t layers = 1; layers <= most; layers += most - 1) {
            const char *fault;

            write_model(dir, &s, layers);
            if (*(fault = compute_a_token(dir, err)))
                fail_msg("%s with %zu layers: %s", s.name, layers, fault);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shape_has_as_many_parameters_as_its_model),
        cmocka_unit_test(every_architecture_has_a_shape),
        cmocka_unit_test(every_shape_opens_and_computes_a_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
