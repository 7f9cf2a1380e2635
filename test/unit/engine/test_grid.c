/* test_grid.c - the same bits of logits and the same tokens for every model, however they are computed and
 * cached: dtypes of numbers and of rows, full or sparse caches, every way of a cache, chunks of a prompt,
 * threads, neighbours in the step, and every origin of the sequence: new, a fork, a truncated one, or rows
 * that another cache has computed.
 *
 * There is one table of dimensions. Every pair of values is tested together, and some combinations completely
 * (pairs.h). Each row of the grid is compared with the result of the same model, in the same dtypes, for one
 * chunk, alone, in a dynamic cache. Tokens go through llm_forward() itself, so that the chunks are exactly
 * those of the table; test_company.c does the same with requests.
 */
#include <dirent.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/log.h"
#include "check.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engines.h"
#include "kern/kern.h"
#include "model/model.h"
#include "pairs.h"
#include "tiles.h"
#include "ways.h"

enum { PROMPT = 530, NEW = 4, LONGEST = 600, MOST_VOCAB = 512, MOST_MODELS = 64, N_NEIGHBOURS = 3 };

#if defined(__SANITIZE_ADDRESS__)
enum { THIN = 7 }; /* Then every load of a vector is a call. */
#else
enum { THIN = 1 };
#endif

enum { MODEL, TYPES, WAY, THREADS, CHUNK, COMPANY, ORIGIN, N_DIMENSIONS };

static char models[MOST_MODELS][64]; /* every golden */
static size_t n_models;
#define SPARSE "sink=4,window=48"
static const struct types {
    const char *dtype, *rows, *sparse;
} types[] = {{"bf16", "auto", NULL}, {"bf16", "int8", NULL},   {"bf16", "auto", SPARSE},
             {"fp32", "auto", NULL}, {"fp32", "int8", SPARSE}, {"fp32", "bf16", SPARSE},
             {"bf16", "fp32", NULL}, {"bf16", "int4", NULL},   {"fp32", "int4", SPARSE}};
/* Most cases have one thread, because waking other threads costs most of the time. */
static const int thread_counts[] = {1, 1, 1, 1, 2, 3, 4};
static const size_t chunks[] = {1, 7, 64, 512, PROMPT};
enum origin { NOTHING, FORK, FORKED, BACK, MOVED, TAKEN, N_ORIGINS };
static const char *const origin_names[] = {"from nothing",
                                           "in a fork",
                                           "where it was forked",
                                           "after a step back",
                                           "from rows it has computed, in a dynamic cache",
                                           "from rows that a dynamic cache has computed"};

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

/* ---- one engine and one answer ---- */

/* A greedy answer: the logits after the prompt and after each new token except the last. */
struct answer {
    float logits[NEW][MOST_VOCAB];
    int32_t token[NEW];
};

struct runner {
    struct gallop *g;
    struct llm *m;
    size_t n_prompt;               /* as many layers as a model can have */
    bool company;                  /* ragged neighbours before and after the sequence that is compared */
    size_t computed[N_NEIGHBOURS]; /* the lengths of slots 2, 3, 4 */
    int32_t id[N_NEIGHBOURS][32];
};

/* Models whose rows cannot be moved have no sparse cache, and are computed without one. */
static void open_runner(struct runner *c, const struct pairs_row *r, const struct way *w, int threads)
{
    struct gallop_options o = engines_options(2 + N_NEIGHBOURS, 1024, LONGEST);
    const struct types *t = &types[r->at[TYPES]];
    char err[GALLOP_ERR_SIZE];
    int rc;

    *c = (struct runner){.company = false};
    o.dtype = t->dtype;
    o.kv_cache_dtype = t->rows;
    o.kv_sparse = t->sparse;
    o.threads = threads;
    ways_set(&o, w);
    if ((rc = engines_try(&c->g, models[r->at[MODEL]], &o, err)) == GALLOP_UNSUPPORTED && o.kv_sparse) {
        o.kv_sparse = NULL;
        rc = engines_try(&c->g, models[r->at[MODEL]], &o, err);
    }
    if (rc == GALLOP_BAD_INPUT && strstr(err, "learned positions")) { /* the same number of positions */
        o.max_model_len = 0;
        rc = engines_try(&c->g, models[r->at[MODEL]], &o, err);
    }
    if (rc != 0)
        fail_msg("%s: %s", models[r->at[MODEL]], err);
    c->m = engine_llm(c->g);
    c->n_prompt = c->m->max_len < PROMPT + NEW ? c->m->max_len - NEW : PROMPT;
    assert_true(c->m->model.info.vocab <= MOST_VOCAB);
}

/* The part of the I-th neighbour in a step: 1, 17 or 5 tokens. It starts again when it has become long. */
static struct executor_rows neighbour(struct runner *c, size_t i)
{
    static const size_t tokens[N_NEIGHBOURS] = {1, 17, 5};
    struct executor_rows r = {.slot = 2 + i, .id = c->id[i], .n = tokens[i], .n_wanted = i != 2};

    if (c->computed[i] + r.n > c->n_prompt * 5 / 8) {
        kv_release(&c->m->kv, r.slot);
        c->computed[i] = 0;
    }
    r.pos = c->computed[i];
    r.n_prompt = r.n_total = r.pos + r.n;
    engines_text(i + 1, r.pos, r.n, c->id[i]);
    return r;
}

/* Computes N tokens IDS of SLOT at POS, and returns the logits of the last row if they are WANTED. */
static const float *step(struct runner *c, size_t slot, const int32_t *ids, size_t pos, size_t n, bool wanted)
{
    struct executor_rows r[N_NEIGHBOURS + 1];
    size_t n_rows = 0, logits = 0;

    if (c->company) /* one neighbour before the sequence, and the others after it */
        r[n_rows++] = neighbour(c, 0);
    logits = n_rows ? r[0].n_wanted : 0;
    r[n_rows++] = (struct executor_rows){.slot = slot,
                                         .id = ids,
                                         .n = n,
                                         .pos = pos,
                                         .n_prompt = c->n_prompt,
                                         .n_total = pos + n > c->n_prompt ? pos + n : c->n_prompt,
                                         .n_wanted = wanted};
    for (size_t i = 1; i < N_NEIGHBOURS && c->company; i++)
        r[n_rows++] = neighbour(c, i);
    for (size_t i = 0; i < n_rows; i++)
        assert_int_equal(kv_reserve(&c->m->kv, r[i].slot, r[i].pos + r[i].n), 0);
    llm_forward(c->m, r, n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        kv_advance(&c->m->kv, r[i].slot, r[i].pos + r[i].n);
        if (r[i].slot >= 2)
            c->computed[r[i].slot - 2] += r[i].n;
    }
    return c->m->logits + logits * c->m->model.info.vocab;
}

/* Computes the rows of the prompt up to TO, in chunks. */
static const float *prefill(struct runner *c, size_t slot, size_t pos, size_t to, size_t chunk)
{
    const float *x = NULL;
    int32_t ids[PROMPT];

    engines_text(0, 0, c->n_prompt, ids);
    for (size_t n; pos < to; pos += n) {
        n = to - pos < chunk ? to - pos : chunk;
        x = step(c, slot, ids + pos, pos, n, pos + n == c->n_prompt);
    }
    return x;
}

/* Returns the answer of SLOT, which has POS rows; the rest of the prompt is computed in chunks. */
static void answer(struct runner *c, size_t slot, size_t pos, size_t chunk, struct answer *a)
{
    size_t V = c->m->model.info.vocab;
    const float *x = prefill(c, slot, pos, c->n_prompt, chunk);

    memset(a, 0, sizeof(*a));
    for (size_t k = 0; k < NEW; k++) {
        size_t best = 0;

        for (size_t i = 1; i < V; i++)
            if (x[i] > x[best])
                best = i;
        memcpy(a->logits[k], x, V * sizeof(float));
        a->token[k] = (int32_t)best;
        if (k + 1 < NEW)
            x = step(c, slot, &a->token[k], c->n_prompt + k, 1, true);
    }
}

/* Returns the first of the NEW tokens whose bits differ. NEW: no bit differs. */
static size_t first_difference(const struct answer *got, const struct answer *want)
{
    size_t k = 0;

    while (k < NEW && check_differs(got->logits[k], want->logits[k], MOST_VOCAB) == MOST_VOCAB &&
           got->token[k] == want->token[k])
        k++;
    return k;
}

/* ---- the origin of a sequence ---- */

/* Moves N rows of slot 0 of FROM to slot 1 of TO. */
static void hand_over(struct runner *from, struct runner *to, size_t n)
{
    assert_true(model_identity(&to->m->model) == model_identity(&from->m->model));
    assert_int_equal(tiles_move(&from->m->kv, 0, n, &to->m->kv, 1), 0);
}

/* Computes the answer of a row of the grid. PLAIN is the answer with which it is compared. */
static void answer_of(struct runner *c, struct runner *plain, const struct pairs_row *r, struct answer *a)
{
    size_t chunk = chunks[r->at[CHUNK]], n = c->n_prompt, from;
    size_t spot =
        /* There are few of the small steps, each of which wakes threads. */
        chunk < 64 ? n - 5 * chunk - 3 : n * 5 / 8;
    int rc;

    c->company = r->at[COMPANY];
    switch ((enum origin)r->at[ORIGIN]) {
    case NOTHING:
        from = chunk < 64 && (c->company || thread_counts[r->at[THREADS]] > 1) ? spot : 0;
        prefill(c, 1, 0, from, PROMPT);
        answer(c, 1, from, chunk, a);
        break;
    case FORK:
    case FORKED:
        prefill(c, 0, 0, spot, PROMPT);
        assert_int_equal(kv_fork(&c->m->kv, 0, spot, 1), 0);
        answer(c, r->at[ORIGIN] == FORK ? 1 : 0, spot, chunk, a);
        break;
    case BACK:
        answer(c, 1, 0, PROMPT, a);
        rc = kv_truncate(&c->m->kv, 1, from = n - 20);
        assert_true(rc == 0 || (rc == KV_GONE && c->m->model.info.window));
        if (rc)
            kv_release(&c->m->kv, 1);
        answer(c, 1, rc ? 0 : from, chunk, a);
        break;
    case MOVED:
        prefill(c, 0, 0, spot, chunk < 64 ? PROMPT : chunk);
        hand_over(c, plain, spot);
        answer(plain, 1, spot, chunk, a);
        break;
    default:
        prefill(plain, 0, 0, spot, PROMPT);
        hand_over(plain, c, spot);
        answer(c, 1, spot, chunk, a);
    }
    for (size_t slot = 0; slot < 2 + N_NEIGHBOURS; slot++) {
        kv_release(&c->m->kv, slot);
        kv_release(&plain->m->kv, slot);
    }
    memset(c->computed, 0, sizeof(c->computed));
}

/* ---- the grid ---- */

static bool same_engine(const struct pairs_row *a, const struct pairs_row *b, size_t n_dimensions)
{
    return memcmp(a->at, b->at, n_dimensions * sizeof(a->at[0])) == 0;
}

/* Computes ROWS [n]. Rows that follow each other share their engines. */
static void walk(const struct pairs_row *row, size_t n)
{
    static struct answer want, got;
    struct runner c = {0}, plain = {0};
    const struct pairs_row *last = NULL;

    for (size_t i = 0; i < n; i += THIN) {
        const struct pairs_row *r = &row[i];
        size_t k;

        if (!last || !same_engine(r, last, WAY)) {
            gallop_close(plain.g);
            open_runner(&plain, r, &ways[0], 1);
            answer(&plain, 0, 0, PROMPT, &want);
            kv_release(&plain.m->kv, 0);
        }
        if (!last || !same_engine(r, last, CHUNK)) {
            gallop_close(c.g);
            open_runner(&c, r, &ways[r->at[WAY]], thread_counts[r->at[THREADS]]);
        }
        answer_of(&c, &plain, r, &got);
        if ((k = first_difference(&got, &want)) < NEW)
            fail_msg("%s %s, rows %s, %s: bits of token %zu differ %s, in %s, chunks of %zu, %d threads%s",
                     models[r->at[MODEL]], types[r->at[TYPES]].dtype, types[r->at[TYPES]].rows,
                     c.m->sparse.window ? "sparse" : "whole", k, origin_names[r->at[ORIGIN]],
                     ways_name(&ways[r->at[WAY]]), chunks[r->at[CHUNK]], thread_counts[r->at[THREADS]],
                     r->at[COMPANY] ? ", in company" : "");
        engines_check_cache(c.g);
        engines_check_cache(plain.g);
        last = r;
    }
    gallop_close(plain.g);
    gallop_close(c.g);
}

static void size_of_the_grid(size_t size[N_DIMENSIONS])
{
    const size_t of[N_DIMENSIONS] = {n_models, COUNT(types), n_ways, COUNT(thread_counts), COUNT(chunks),
                                     2,        N_ORIGINS};

    memcpy(size, of, sizeof(of));
}

static void some_model_gives_other_bits_somewhere_in_the_grid(void **state)
{
    size_t size[N_DIMENSIONS], n;
    struct pairs_row *row;

    size_of_the_grid(size);
    row = pairs_cover(size, N_DIMENSIONS, 0, &n);
    print_message("%zu combinations\n", n);
    walk(row, n);
    free(row);
}

/* Chunks, neighbours and cache types together, where the risk is highest: fp32 rows, int8 rows, windows that
 * drop rows, layers that share rows, and a sink with a window. */
static void a_corner_of_the_grid_gives_other_bits(void **state)
{
    static const struct {
        const char *model;
        size_t types;
    } corner[] = {{"llama3-rope", 0}, {"llama3-rope", 1}, {"gemma3", 0}, {"gemma4", 1}, {"gpt-oss", 2}};

    for (size_t i = 0; i < COUNT(corner); i++) {
        size_t size[N_DIMENSIONS], n, model = 0;
        struct pairs_row *row;

        while (strcmp(models[model], corner[i].model) != 0)
            assert_true(++model < n_models);
        size_of_the_grid(size);
        size[MODEL] = size[TYPES] = size[THREADS] = 1;
        row = pairs_cover(size, N_DIMENSIONS, 1u << WAY | 1u << CHUNK | 1u << COMPANY, &n);
        for (size_t k = 0; k < n; k++) {
            row[k].at[MODEL] = model;
            row[k].at[TYPES] = corner[i].types;
            row[k].at[THREADS] = row[k].at[WAY] % 4 == 3 ? 4 + row[k].at[WAY] / 4 % 3 : 0;
        }
        walk(row, n);
        free(row);
    }
}

static void a_comparison_of_answers_overlooks_a_bit(void **state)
{
    static struct answer a, b;

    assert_int_equal(first_difference(&a, &b), NEW);
    b.token[NEW - 1] = 1;
    assert_int_equal(first_difference(&a, &b), NEW - 1);
    b.logits[2][MOST_VOCAB - 1] = -0.0f;
    assert_int_equal(first_difference(&a, &b), 2);
}

/* ---- instruction sets ---- */

/* Instruction sets of the arithmetic class of the portable kernels give their bits. "bf16 dot" is another
 * class. */
static void an_instruction_set_gives_other_bits_than_its_class(void **state)
{
    for (int d = 0; d < 2; d++) {
        enum kern_fn gemm = d ? KERN_FN_gemm_bf16 : KERN_FN_gemm_f32;
        struct gallop_options o = engines_options(1, 0, LONGEST);
        int32_t ids[300];
        float *want = NULL;
        const char *class = NULL;
        size_t n_compared = 0;

        engines_text(6, 0, 300, ids);
        o.dtype = d ? "bf16" : "fp32";
        o.threads = 2;
        for (enum cpu_isa isa = CPU_REF; isa < CPU_N_ISAS; isa++) {
            struct gallop *g;
            float *x;

            if (!cpu_has(isa))
                continue;
            o.isa = cpu_isa_name(isa);
            g = engines_open("llama3-rope", &o);
            x = engines_logits(engine_llm(g), ids, 300, 1, 0, NULL);
            if (!want) {
                want = x;
                class = kern_class(engine_llm(g)->kern, gemm);
            } else if (strcmp(kern_class(engine_llm(g)->kern, gemm), class) == 0) {
                check_same(x, want, engine_llm(g)->model.info.vocab, "%s on %s", o.dtype, o.isa);
                n_compared++;
            }
            if (x != want)
                free(x);
            gallop_close(g);
        }
        assert_true(n_compared > 0 || !cpu_has(CPU_AVX2));
        free(want);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int list_models(void **state)
{
    DIR *d = opendir(GALLOP_SOURCE_DIR "/test/golden");
    const struct dirent *x;

    while (d && (x = readdir(d)) != NULL && n_models < MOST_MODELS) {
        char path[4096];

        snprintf(path, sizeof(path), GALLOP_SOURCE_DIR "/test/golden/%s/config.json", x->d_name);
        if (access(path, R_OK) == 0)
            snprintf(models[n_models++], sizeof(models[0]), "%.63s", x->d_name);
    }
    closedir(d);
    qsort(models, n_models, sizeof(models[0]), by_name);
    return n_models < 20;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comparison_of_answers_overlooks_a_bit),
        cmocka_unit_test(some_model_gives_other_bits_somewhere_in_the_grid),
        cmocka_unit_test(a_corner_of_the_grid_gives_other_bits),
        cmocka_unit_test(an_instruction_set_gives_other_bits_than_its_class),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, list_models, NULL);
}
