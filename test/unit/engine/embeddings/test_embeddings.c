/* test_embeddings.c - GALLOP_POOL_AUTO and gallop_embedding(): each file of sentence-transformers has its
 * effect on the tokens whose states are pooled and on the vector, what is not supported is refused only where
 * it is asked for, and reading and encoding survive every allocation that fails. */
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "engine/embeddings/embed.h"
#include "engine/embeddings/embedder.h"
#include "engines.h"
#include "files.h"
#include "help.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

#define TEXT        "Once upon a time there was a kind fox"
#define TRANSFORMER "{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"\"}"
#define POOLING     "{\"type\":\"sentence_transformers.models.Pooling\",\"path\":\"1_Pooling\"}"
#define DENSE       "{\"type\":\"sentence_transformers.models.Dense\",\"path\":\"2_Dense\"}"
#define MODULES     "[" TRANSFORMER "," POOLING "]"
#define MEAN        "{\"pooling_mode\":\"mean\"}"

enum { HIDDEN = 192, OUTPUTS = 5, MOST = 128 };

static char err[GALLOP_ERR_SIZE];

/* The texts of the files that are put beside the demo model. NULL: there is no such file. */
struct beside {
    const char *modules, *pooling, *bert, *about, *dense;
};

/* Returns the path of a new folder with the demo model and FILES. */
static const char *folder_with(const struct beside *files)
{
    static char dir[512];
    static size_t n;
    const char *const content[][2] = {{"modules.json", files->modules},
                                      {"1_Pooling/config.json", files->pooling},
                                      {"sentence_bert_config.json", files->bert},
                                      {"config_sentence_transformers.json", files->about},
                                      {"2_Dense/config.json", files->dense}};
    char path[1024];

    snprintf(dir, sizeof(dir), "%s/%zu", files_folder(), n++);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof(path), "%s/1_Pooling", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/2_Dense", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    files_copy_all(engines_path("demo"), dir);
    for (size_t i = 0; i < sizeof(content) / sizeof(content[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, content[i][0]);
        if (content[i][1])
            files_write_text(path, content[i][1]);
    }
    return dir;
}

static float weight(size_t out, size_t in)
{
    return (float)((int)((out * 31 + in * 7) % 23) - 11) / 64;
}

/* Writes the weights [OUTPUTS, N] of the Dense module in DIR. */
static void write_dense(const char *dir, size_t n)
{
    size_t bytes = OUTPUTS * n * sizeof(float);
    char path[1024], head[256];
    uint64_t length = (uint64_t)snprintf(
        head, sizeof(head),
        "{\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%zu],\"data_offsets\":[0,%zu]}}", OUTPUTS, n,
        bytes);
    char *all = malloc(8 + length + bytes);

    memcpy(all, &length, 8);
    memcpy(all + 8, head, length);
    for (size_t i = 0; i < OUTPUTS * n; i++) {
        float w = weight(i / n, i % n);

        memcpy(all + 8 + length + i * sizeof(w), &w, sizeof(w));
    }
    snprintf(path, sizeof(path), "%s/2_Dense/model.safetensors", dir);
    files_write(path, all, 8 + length + bytes);
    free(all);
}

static struct gallop *open_with(const struct beside *files)
{
    struct gallop_options o = engines_options(2, 64, MOST);
    const char *dir = folder_with(files);

    if (files->dense)
        write_dense(dir, HIDDEN);
    return engines_open(dir, &o);
}

/* What an embedding is asked of: TEXT, or IDS [n] if it is NULL. */
struct asked {
    const char *text;
    const int32_t *ids;
    size_t n;
    enum gallop_pooling pooling;
    bool normalize;
};

/* Returns a gallop_code, and writes the embedding to V [HIDDEN] and its length to *N. */
static int embed(struct gallop *g, const struct asked *a, float *v, size_t *n)
{
    struct gallop_request r;
    struct gallop_event ev;
    float *made = NULL;
    int rc;

    gallop_request_init(&r);
    r.text = a->text;
    r.ids = a->ids;
    r.n_ids = a->n;
    r.pooling = a->pooling;
    r.sampling.max_new_tokens = 0;
    *n = 0;
    if ((rc = gallop_submit(g, &r, NULL, err)) != 0)
        return rc;
    while (gallop_next(g, &ev))
        if (ev.type == GALLOP_EMBEDDING) {
            assert_int_equal(ev.n_embedding, HIDDEN);
            rc = gallop_embedding(g, a->pooling, ev.embedding, a->normalize, &made, n, err);
            assert_true((rc == 0) == (made != NULL) && *n <= HIDDEN);
            memcpy(v, made ? made : v, *n * sizeof(*v));
            gallop_free(made);
        }
    return rc;
}

/* Checks that the embedding of what A asks is WANT [n]. */
static void assert_embeds(struct gallop *g, struct asked a, const float *want, size_t n, const char *what)
{
    float v[HIDDEN];
    size_t n_found;

    if (embed(g, &a, v, &n_found) != 0)
        fail_msg("%s: %s", what, err);
    assert_int_equal(n_found, n);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&v[i], &want[i], sizeof(*v)) != 0)
            fail_msg("%s: element %zu is %.9g, expected %.9g", what, i, (double)v[i], (double)want[i]);
}

/* Checks that AUTO embeds TEXT as MEAN embeds IDS [n]. */
static void assert_is_mean_of(struct gallop *g, const char *text, const int32_t *ids, size_t n,
                              const char *what)
{
    float want[HIDDEN];
    size_t n_want;

    assert_int_equal(
        embed(g, &(struct asked){.ids = ids, .n = n, .pooling = GALLOP_POOL_MEAN}, want, &n_want), 0);
    assert_embeds(g, (struct asked){.text = text, .pooling = GALLOP_POOL_AUTO}, want, n_want, what);
}

/* Sets *IDS and *N to the tokens of TEXT. gallop_free(). */
static void tokens_of(struct gallop *g, const char *text, int32_t **ids, size_t *n)
{
    assert_int_equal(gallop_tokenize(g, text, SIZE_MAX, GALLOP_ADD_SPECIAL, ids, n, err), 0);
}

/* ---- the steps ---- */

static void the_files_choose_the_pooling(void **state)
{
    static const struct {
        struct beside files;
        enum gallop_pooling is;
    } cases[] = {{{0}, GALLOP_POOL_LAST},
                 {{.pooling = MEAN}, GALLOP_POOL_MEAN},
                 {{.pooling = "{\"pooling_mode\":\"lasttoken\"}", .modules = MODULES}, GALLOP_POOL_LAST},
                 {{.pooling = MEAN, .modules = "[" TRANSFORMER "]"}, GALLOP_POOL_LAST}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gallop *g = open_with(&cases[i].files);
        float want[HIDDEN];
        size_t n;

        assert_int_equal(embed(g, &(struct asked){.text = TEXT, .pooling = cases[i].is}, want, &n), 0);
        assert_embeds(g, (struct asked){.text = TEXT, .pooling = GALLOP_POOL_AUTO}, want, HIDDEN,
                      "the pooling of the files");
        gallop_close(g);
    }
}

static void texts_get_the_default_prompt(void **state)
{
    static const char about[] = "{\"default_prompt_name\":\"query\",\"prompts\":{\"query\":\"query: \"}}";
    struct gallop *g = open_with(&(struct beside){.modules = MODULES, .pooling = MEAN, .about = about});
    int32_t *ids;
    size_t n;

    tokens_of(g, "query: " TEXT, &ids, &n);
    assert_is_mean_of(g, TEXT, ids, n, "a text with a prompt");
    gallop_free(ids);
    gallop_close(g);
}

/* The chat template renders texts, and the prompt as a message of the system. */
static void texts_are_rendered_by_the_chat_template(void **state)
{
    static const char bert[] = "{\"modality_config\":{\"message\":{\"format\":\"flat\"}}}";
    static const char *const about[] = {
        NULL, "{\"default_prompt_name\":\"query\",\"prompts\":{\"query\":\"query: \"}}"};
    static const char *const messages[] = {
        "[{\"role\":\"user\",\"content\":\"" TEXT "\"}]",
        "[{\"role\":\"system\",\"content\":\"query: \"},{\"role\":\"user\",\"content\":\"" TEXT "\"}]"};

    for (int i = 0; i < 2; i++) {
        struct gallop *g =
            open_with(&(struct beside){.modules = MODULES, .pooling = MEAN, .bert = bert, .about = about[i]});
        struct gallop_prompt p;
        struct gallop_chat c;
        float v[HIDDEN];
        size_t n;

        gallop_chat_init(&c);
        c.messages = messages[i];
        c.no_generation_prompt = c.verbatim = 1;
        assert_int_equal(gallop_render(g, &c, &p, err), 0);
        assert_is_mean_of(g, TEXT, p.ids, p.n_ids, messages[i]);
        gallop_prompt_fini(&p);
        assert_int_equal(embed(g, &(struct asked){.text = "\xff", .pooling = GALLOP_POOL_AUTO}, v, &n),
                         GALLOP_BAD_INPUT);
        gallop_close(g);
    }
}

static void texts_and_ids_are_cut(void **state)
{
    struct gallop *g =
        open_with(&(struct beside){.modules = MODULES, .pooling = MEAN, .bert = "{\"max_seq_length\":6}"});
    float want[HIDDEN];
    int32_t *ids;
    size_t n;

    tokens_of(g, TEXT, &ids, &n);
    assert_true(n > 6);
    assert_is_mean_of(g, TEXT, ids, 6, "a text that is cut");
    assert_int_equal(embed(g, &(struct asked){.ids = ids, .n = 6, .pooling = GALLOP_POOL_MEAN}, want, &n), 0);
    assert_embeds(g, (struct asked){.ids = ids, .n = 9, .pooling = GALLOP_POOL_AUTO}, want, HIDDEN,
                  "ids that are cut");
    gallop_free(ids);
    gallop_close(g);
}

static void the_vector_passes_dense_modules_is_cut_and_scaled(void **state)
{
    struct gallop *g =
        open_with(&(struct beside){.modules = "[" TRANSFORMER "," POOLING "," DENSE "]",
                                   .pooling = MEAN,
                                   .about = "{\"truncate_dim\":3}",
                                   .dense = "{\"in_features\":192,\"out_features\":5,\"bias\":false,"
                                            "\"activation_function\":\"torch.nn.modules.linear.Identity\"}"});
    float state_of[HIDDEN], want[3], scaled[3];
    double square = 0;
    size_t n;

    assert_int_equal(embed(g, &(struct asked){.text = TEXT, .pooling = GALLOP_POOL_MEAN}, state_of, &n), 0);
    assert_int_equal(n, HIDDEN);
    for (size_t o = 0; o < 3; o++) {
        double sum = 0;

        for (size_t i = 0; i < HIDDEN; i++)
            sum += (double)weight(o, i) * (double)state_of[i];
        want[o] = (float)sum;
        square += (double)want[o] * (double)want[o];
    }
    for (size_t o = 0; o < 3; o++)
        scaled[o] = (float)((double)want[o] * (1 / sqrt(square)));
    assert_embeds(g, (struct asked){.text = TEXT, .pooling = GALLOP_POOL_AUTO}, want, 3,
                  "three of five elements");
    assert_embeds(g, (struct asked){.text = TEXT, .pooling = GALLOP_POOL_AUTO, .normalize = true}, scaled, 3,
                  "elements of length 1");
    gallop_close(g);
}

/* ---- errors ---- */

static void what_is_not_supported_is_refused_where_it_is_asked_for(void **state)
{
    static const struct {
        struct beside files;
        int code;
        const char *says;
    } cases[] = {
        {{.pooling = "{\"pooling_mode\":\"cls\"}"}, GALLOP_UNSUPPORTED, "1_Pooling/config.json: pooling cls"},
        {{.about = "{\"default_prompt_name\":\"odd\"}"}, GALLOP_BAD_INPUT, "prompts: \"odd\""},
        {{.about = "{\"default_prompt_name\":\"a\",\"prompts\":{\"a\":\"a: \"}}",
          .pooling = "{\"pooling_mode\":\"mean\",\"include_prompt\":false}"},
         GALLOP_UNSUPPORTED,
         "include_prompt"},
        {{.modules = "[" TRANSFORMER "," POOLING "," DENSE "]",
          .dense = "{\"in_features\":100,\"out_features\":5,\"bias\":false}"},
         GALLOP_BAD_INPUT,
         "the first Dense module has 100 inputs"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gallop_options o = engines_options(2, 64, MOST);
        const char *dir = folder_with(&cases[i].files);
        struct gallop *g;
        float v[HIDDEN];
        size_t n;

        write_dense(dir, 100);
        g = engines_open(dir, &o);
        assert_int_equal(embed(g, &(struct asked){.text = TEXT, .pooling = GALLOP_POOL_AUTO}, v, &n),
                         cases[i].code);
        if (!strstr(err, cases[i].says))
            fail_msg("\"%s\", expected \"%s\" in it", err, cases[i].says);
        assert_int_equal(embed(g, &(struct asked){.text = TEXT, .pooling = GALLOP_POOL_MEAN}, v, &n), 0);
        gallop_close(g);
    }
}

static void a_vector_of_no_pooling_is_refused(void **state)
{
    struct gallop *g = open_with(&(struct beside){0});
    float zeros[HIDDEN] = {0}, *v;
    size_t n;

    assert_int_equal(gallop_embedding(g, GALLOP_POOL_NONE, zeros, 1, &v, &n, err), GALLOP_BAD_INPUT);
    assert_true(!v && n == 0 && strstr(err, "pooling: found 0"));
    assert_int_equal(gallop_embedding(g, GALLOP_POOL_AUTO, zeros, 1, &v, &n, err), 0);
    assert_true(n == HIDDEN && memcmp(v, zeros, sizeof(zeros)) == 0);
    gallop_free(v);
    gallop_close(g);
}

static struct checkpoint checkpoint;
static struct tok *tok;

static int open_and_embed(void *arg, struct err *e)
{
    const float pooled[HIDDEN] = {1};
    struct tok_ids ids = {0};
    struct embedder x;
    size_t n_cut;
    int rc;

    if ((rc = embedder_open(&x, &checkpoint, e)) == 0 &&
        (rc = embed_text(&x, tok, TEXT, strlen(TEXT), true, &ids, &n_cut, e)) == 0) {
        float *v = embed_vector(&x, pooled, HIDDEN, true);

        rc = v ? 0 : err_nomem(e, "a vector");
        assert_true(!v || (ids.n == 9 && n_cut));
        mem_free(v);
    }
    tok_ids_fini(&ids);
    embedder_close(&x);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    static const char *const bert[] = {"{\"max_seq_length\":9}",
                                       "{\"max_seq_length\":9,\"modality_config\":{\"message\":{}},"
                                       "\"processing_kwargs\":{\"chat_template\":{\"a\":1}}}"};

    for (int i = 0; i < 2; i++) {
        const char *dir = folder_with(&(struct beside){
            .modules = "[" TRANSFORMER "," POOLING "," DENSE "]",
            .pooling = MEAN,
            .bert = bert[i],
            .about = "{\"default_prompt_name\":\"query\",\"prompts\":{\"query\":\"query: \"}}",
            .dense = "{\"in_features\":192,\"out_features\":5,\"bias\":false}"});

        write_dense(dir, HIDDEN);
        assert_int_equal(checkpoint_open(&checkpoint, folder_at(dir), NULL), 0);
        assert_int_equal(checkpoint_tokenizer(&tok, &checkpoint, NULL), 0);
        assert_int_equal(open_and_embed(NULL, NULL), 0); /* the tokenizer keeps memory for the next text */
        help_every_allocation(open_and_embed, NULL);
        tok_close(tok);
        checkpoint_close(&checkpoint);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_files_choose_the_pooling),
        cmocka_unit_test(texts_get_the_default_prompt),
        cmocka_unit_test(texts_are_rendered_by_the_chat_template),
        cmocka_unit_test(texts_and_ids_are_cut),
        cmocka_unit_test(the_vector_passes_dense_modules_is_cut_and_scaled),
        cmocka_unit_test(what_is_not_supported_is_refused_where_it_is_asked_for),
        cmocka_unit_test(a_vector_of_no_pooling_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
