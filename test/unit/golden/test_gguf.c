/* test_gguf.c - the goldens of the tree as llama.cpp's converter writes them (test/data/gguf, made by
 * test/make/gguf-models): the same bits of logits as from Hugging Face's folder, in fp32 and in bf16. */
#include <dirent.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/llm.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "goldfile.h"

static const char data[] = GALLOP_SOURCE_DIR "/test/data/gguf", goldens[] = GALLOP_SOURCE_DIR "/test/golden";

/* Returns all rows of logits of a prompt, from a model that is opened for it. free(). */
static float *logits_of(const char *path, enum dtype dtype, const int32_t *ids, size_t n, size_t *vocab)
{
    struct gallop_options o = {
        .dtype = dtype == DT_F32 ? "fp32" : "bf16", .max_num_seqs = 1, .max_logits = 64, .threads = 1};
    struct llm_source source = {.no_prefixes = false};
    struct err e;
    struct llm m;
    float *x;

    snprintf(source.path, sizeof(source.path), "%s", path);
    if (llm_open(&m, &o, &source, &e) != 0)
        fail_msg("%s", e.msg);
    *vocab = m.model.info.vocab;
    x = engines_logits(&m, ids, n, n, 0, NULL);
    llm_close(&m);
    return x;
}

/* Returns the first prompt that is long enough to fill a window of the golden, and its length *n. free(). */
static int32_t *prompt_of(const char *folder, size_t *n)
{
    json_t *prompts = goldfile_json(folder, "prompts.json");
    int32_t *ids;

    assert_true(json_array_size(prompts) > 3);
    ids = goldfile_ids(json_array_get(prompts, 3), n);
    json_decref(prompts);
    return ids;
}

/* Makes FOLDER a copy without query_pre_attn_scalar, which GGUF cannot express and which the golden of Gemma
 * 3 sets to an unusual value. */
static void make_usual(char *folder, size_t size)
{
    const char *usual = files_folder();
    char path[1200];
    json_t *config;

    files_copy_all(folder, usual);
    snprintf(path, sizeof(path), "%s/config.json", usual);
    config = json_load_file(path, 0, NULL);
    assert_non_null(config);
    assert_int_equal(json_object_set(config, "query_pre_attn_scalar", json_object_get(config, "head_dim")),
                     0);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
    snprintf(folder, size, "%s", usual);
}

static bool same_logits(const char *a, const char *b, const int32_t *ids, size_t n, enum dtype dtype)
{
    size_t va, vb;
    float *x = logits_of(a, dtype, ids, n, &va), *y = logits_of(b, dtype, ids, n, &vb);
    bool same = va == vb && memcmp(x, y, n * va * sizeof(float)) == 0;

    free(x);
    free(y);
    return same;
}

static void converted_goldens_compute_the_same_bits(void **state)
{
    DIR *d = opendir(data);
    const struct dirent *x;
    int found = 0;

    assert_non_null(d);
    while ((x = readdir(d)) != NULL) {
        size_t len = strlen(x->d_name), n;
        char file[1024], folder[1024];
        int32_t *ids;

        if (len < 6 || strcmp(x->d_name + len - 5, ".gguf") != 0)
            continue;
        snprintf(file, sizeof(file), "%s/%s", data, x->d_name);
        snprintf(folder, sizeof(folder), "%s/%.*s", goldens, (int)len - 5, x->d_name);
        ids = prompt_of(folder, &n);
        if (strcmp(x->d_name, "gemma3.gguf") == 0)
            make_usual(folder, sizeof(folder));
        for (int t = 0; t < 2; t++)
            if (!same_logits(file, folder, ids, n, t ? DT_BF16 : DT_F32))
                fail_msg("%s: other logits than %s in %s", file, folder, t ? "bf16" : "fp32");
        free(ids);
        found++;
    }
    closedir(d);
    assert_true(found >= 9);
}

/* The comparison above must be able to fail: other weights with the same vocabulary give other logits. */
static void other_models_are_told_apart(void **state)
{
    char a[1024], b[1024];
    int32_t ids[2] = {5, 6};

    snprintf(a, sizeof(a), "%s/llama-dynamic", goldens);
    snprintf(b, sizeof(b), "%s/qwen2", goldens);
    assert_true(same_logits(a, a, ids, 2, DT_F32));
    assert_false(same_logits(a, b, ids, 2, DT_F32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(converted_goldens_compute_the_same_bits),
        cmocka_unit_test(other_models_are_told_apart),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests_name("golden/gguf", tests, NULL, NULL);
}
