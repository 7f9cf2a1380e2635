/* test_outer.c - a scheduler outside the engine drives the public executor in every way that is allowed, and
 * every row of logits has the bits that the engine computes for that text alone. Blocks come in any order;
 * full blocks are shared, also while another sequence writes them; shared blocks are copied before they are
 * written; prompts run in random chunks, with single tokens in the same step; sequences are truncated,
 * evicted and computed again elsewhere; blocks that no layer sees are replaced by block 0; and tables are
 * padded with arbitrary numbers. */
#include "base/rng.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engines.h"
#include "kv/kv.h"

enum { LONGEST = 150, JOBS = 6, TEXTS = 6, COMMON = 50, BLOCK = 16, BLOCKS = 24, ROWS = 44, STEPS = 120 };
enum { TABLE = (LONGEST + BLOCK - 1) / BLOCK + 2 };

struct job {
    bool live, in_run;
    size_t text, len, n; /* the number of rows that are computed, or that the run will compute */
    size_t floor;        /* The sequence cannot be truncated below this, because earlier rows were dropped. */
    int32_t block[TABLE];
    size_t n_blocks;
};

struct outer {
    struct gallop_executor *x;
    struct gallop_executor_caps caps;
    size_t window; /* the window of all layers; 0: one layer sees all rows */
    size_t sink;   /* the first rows that the layers see in addition */
    int32_t text[TEXTS][LONGEST];
    float *want[TEXTS]; /* [LONGEST, V] */
    uint64_t seed, draws;
    unsigned refs[BLOCKS];
    int32_t free[BLOCKS];
    size_t n_free;
    struct job job[JOBS];
    struct gallop_rows rows[JOBS];
    int32_t table[JOBS][TABLE];
    size_t n, n_rows, n_wanted; /* the rows of the planned run */
    size_t shared, in_flight, copied, preempted, back, mixed, nulls, refused, compared;
};

static size_t draw(struct outer *o, size_t n)
{
    return (size_t)(rng_uniform(o->seed, o->draws++) * (double)n);
}

/* Texts 0 to 2 begin alike, and so do texts 3 to 5. */
static void make_texts(struct outer *o)
{
    for (size_t t = 0; t < TEXTS; t++) {
        engines_text(t / 3, 0, COMMON, o->text[t]);
        engines_text(10 + t, COMMON, LONGEST - COMMON, o->text[t] + COMMON);
    }
}

/* Computes what the engine gives for each text alone, with the text padded to the longest length. */
static void compute_references(struct outer *o, const char *model, const struct gallop_options *with)
{
    struct gallop_options own = *with;
    struct gallop *g;
    struct llm *m;

    own.kv_cache_type = NULL;
    own.kv_cache_layout = NULL;
    own.kv_cache_tokens = 0;
    g = engines_open(model, &own);
    m = engine_llm(g);
    for (size_t t = 0; t < TEXTS; t++) {
        size_t V = m->model.info.vocab;

        assert_non_null(o->want[t] = malloc(LONGEST * V * sizeof(float)));
        for (size_t at = 0; at < LONGEST; at += 10) {
            struct executor_rows r = {.id = o->text[t] + at, .pos = at, .n = 10, .n_wanted = 10};

            r.n_prompt = r.n_total = LONGEST;
            assert_int_equal(kv_reserve(&m->kv, 0, at + 10), 0);
            llm_forward(m, &r, 1);
            memcpy(o->want[t] + at * V, m->logits, 10 * V * sizeof(float));
            kv_advance(&m->kv, 0, at + 10);
        }
        kv_release(&m->kv, 0);
    }
    o->window = m->model.info.window ? m->model.info.window[0] : 0;
    for (size_t l = 1; o->window && l < m->model.info.n_layers; l++) {
        size_t w = m->model.info.window[l];

        o->window = w == 0 || w > o->window ? w : o->window;
    }
    gallop_close(g);
}

/* ---- common parts of blocks and slots ---- */

/* Chooses a random number of rows of JOB [i] for the next run, of which a random number is wanted. */
static void plan(struct outer *o, size_t i, size_t n)
{
    struct job *j = &o->job[i];
    struct gallop_rows *r = &o->rows[o->n];
    size_t most = n < o->caps.max_wanted - o->n_wanted ? n : o->caps.max_wanted - o->n_wanted;

    *r = (struct gallop_rows){.ids = o->text[j->text] + j->n, .n = n, .pos = j->n};
    r->n_wanted = draw(o, 3) ? draw(o, most + 1) : most;
    o->n_wanted += r->n_wanted;
    o->n_rows += n;
    o->n++;
    j->in_run = true;
}

/* Returns how many rows J may compute now. */
static size_t chunk(struct outer *o, const struct job *j)
{
    size_t n = draw(o, 2) ? 1 : 1 + draw(o, 25), left = j->len - j->n, room = ROWS - o->n_rows;

    n = n < left ? n : left;
    return n < room ? n : room;
}

static void compare(struct outer *o, const struct gallop_outcome *out, const size_t text[JOBS])
{
    size_t V = o->caps.vocab_size, at = 0, ones = 0;

    for (size_t s = 0; s < o->n; s++) {
        const struct gallop_rows *r = &o->rows[s];

        ones += r->n == 1;
        for (size_t i = r->n - r->n_wanted; i < r->n; i++, at++, o->compared++)
            if (memcmp(out->logits + at * V, o->want[text[s]] + (r->pos + i) * V, V * sizeof(float)) != 0)
                fail_msg("text %zu: the logits at position %zu (of %zu rows from %zu on) are others", text[s],
                         r->pos + i, r->n, r->pos);
        assert_int_equal(out->picks[s].id, -1);
    }
    assert_int_equal(at, o->n_wanted);
    o->mixed += ones > 0 && ones < o->n;
}

static void start(struct outer *o, struct job *j)
{
    *j = (struct job){.live = true, .text = draw(o, TEXTS), .len = 10 + draw(o, LONGEST - 9)};
}

/* Makes the rows of the run and their owners, in another order. */
static void shuffle(struct outer *o, size_t who[JOBS])
{
    for (size_t i = o->n; i > 1; i--) {
        size_t k = draw(o, i), w = who[k];
        struct gallop_rows r = o->rows[k];

        o->rows[k] = o->rows[i - 1];
        who[k] = who[i - 1];
        o->rows[i - 1] = r;
        who[i - 1] = w;
    }
}

/* ---- blocks ---- */

static void put(struct outer *o, int32_t b)
{
    if (b && --o->refs[b] == 0) {
        size_t at = draw(o, o->n_free + 1); /* The block is anywhere among the free ones. */

        o->free[o->n_free] = o->free[at];
        o->free[at] = b;
        o->n_free++;
    }
}

static void keep_blocks(struct outer *o, struct job *j, size_t n)
{
    while (j->n_blocks > n)
        put(o, j->block[--j->n_blocks]);
}

/* Returns a free block. If there is none, another job that is not in the run loses its blocks. 0: no block
 * can be freed. */
static int32_t take(struct outer *o, const struct job *but)
{
    for (size_t k = 0; o->n_free == 0 && k < JOBS; k++) {
        struct job *j = &o->job[k];

        if (j != but && !j->in_run && j->n_blocks) {
            keep_blocks(o, j, 0);
            j->n = j->floor = 0;
            o->preempted++;
        }
    }
    if (o->n_free == 0)
        return 0;
    o->refs[o->free[--o->n_free]] = 1;
    return o->free[o->n_free];
}

static size_t common(const struct job *a, const struct job *b)
{
    return a->text == b->text ? LONGEST : a->text / 3 == b->text / 3 ? COMMON : 0;
}

/* J, which is new, shares full blocks of another sequence that begins alike, also those that are being
 * written. */
static void share(struct outer *o, struct job *j)
{
    for (size_t k = 0; k < JOBS && j->n_blocks == 0; k++) {
        const struct job *a = &o->job[k];
        size_t n = common(a, j) < a->n ? common(a, j) : a->n;

        if (a == j || !a->live || a->floor)
            continue;
        n = n < j->len - 1 ? n : j->len - 1;
        for (n = draw(o, n / BLOCK + 1); j->n_blocks < n; j->n_blocks++)
            o->refs[j->block[j->n_blocks] = a->block[j->n_blocks]]++;
        j->n = n * BLOCK;
        o->shared += n > 0;
        o->in_flight += n > 0 && a->in_run;
    }
}

static void go_back(struct outer *o, struct job *j)
{
    size_t n = j->n - draw(o, j->n - j->floor + 1);

    o->back += n < j->n;
    j->n = n;
    keep_blocks(o, j, (n + BLOCK - 1) / BLOCK);
}

/* Gives J its own block for its next rows. */
static bool own(struct outer *o, struct job *j)
{
    size_t i = j->n / BLOCK;
    char err[GALLOP_ERR_SIZE];
    int32_t b;

    if (j->n % BLOCK == 0 || o->refs[j->block[i]] == 1)
        return true;
    if ((b = take(o, j)) == 0)
        return false;
    assert_int_equal(gallop_executor_copy_block(o->x, (size_t)j->block[i], (size_t)b, err), 0);
    put(o, j->block[i]);
    j->block[i] = b;
    o->copied++;
    return true;
}

/* Where all layers have windows, blocks before the windows are not needed. */
static void drop_unseen(struct outer *o, struct job *j)
{
    size_t first = o->window && j->n + 1 > o->window ? j->n + 1 - o->window : 0;

    for (size_t i = (o->sink + BLOCK - 1) / BLOCK; i < first / BLOCK; i++)
        if (j->block[i]) {
            put(o, j->block[i]);
            j->block[i] = 0;
            j->floor = j->n;
            o->nulls++;
        }
}

static void plan_job(struct outer *o, size_t i, size_t who[JOBS])
{
    struct job *j = &o->job[i];
    size_t n;

    if (!j->live) {
        start(o, j);
        share(o, j);
    } else if (draw(o, 6) == 0)
        go_back(o, j);
    if (draw(o, 4) == 0)
        drop_unseen(o, j);
    if ((n = chunk(o, j)) == 0 || !own(o, j))
        return;
    while (j->n_blocks < (j->n + n + BLOCK - 1) / BLOCK) {
        int32_t b = take(o, j);

        if (b == 0)
            return;
        j->block[j->n_blocks++] = b;
    }
    who[o->n] = i;
    plan(o, i, n);
    j->n += n;
}

static void run_blocks(struct outer *o)
{
    size_t who[JOBS], text[JOBS], first = draw(o, JOBS);
    struct gallop_outcome out;
    char err[GALLOP_ERR_SIZE];

    o->n = o->n_rows = o->n_wanted = 0;
    for (size_t k = 0; k < JOBS; k++)
        o->job[k].in_run = false;
    for (size_t k = 0; k < JOBS; k++)
        if (draw(o, 8))
            plan_job(o, (first + k) % JOBS, who);
    if (o->n == 0)
        return;
    shuffle(o, who);
    for (size_t s = 0; s < o->n; s++) {
        const struct job *j = &o->job[who[s]];

        text[s] = j->text;
        for (size_t i = 0; i < TABLE; i++)
            o->table[s][i] = i < j->n_blocks ? j->block[i] : draw(o, 2) ? 0 : 77777;
        o->rows[s].blocks = o->table[s];
        o->rows[s].n_blocks = draw(o, 2) ? TABLE : j->n_blocks;
    }
    if (gallop_executor_run(o->x, o->rows, o->n, &out, err) != 0)
        fail_msg("%s", err);
    compare(o, &out, text);
    for (size_t k = 0; k < JOBS; k++)
        if (o->job[k].live && o->job[k].n == o->job[k].len) {
            keep_blocks(o, &o->job[k], 0);
            o->job[k].live = false;
        }
}

/* ---- slots ---- */

static void empty(struct outer *o, size_t slot)
{
    char err[GALLOP_ERR_SIZE];

    assert_int_equal(gallop_executor_truncate(o->x, slot, 0, err), 0);
    o->job[slot].n = 0;
}

static void run_slots(struct outer *o)
{
    size_t who[JOBS], text[JOBS];
    struct gallop_outcome out;
    char err[GALLOP_ERR_SIZE];
    int rc;

    o->n = o->n_rows = o->n_wanted = 0;
    for (size_t k = 0; k < JOBS; k++) {
        struct job *j = &o->job[k];
        size_t n;

        if (!j->live)
            start(o, j);
        if (draw(o, 8) == 0) {
            j->n -= draw(o, j->n + 1);
            o->back++;
        }
        if (draw(o, 8) && (n = chunk(o, j)) > 0) {
            who[o->n] = k;
            plan(o, k, n);
        }
    }
    shuffle(o, who);
    for (size_t s = 0; s < o->n; s++) {
        o->rows[s].slot = who[s];
        text[s] = o->job[who[s]].text;
    }
    while (o->n && (rc = gallop_executor_run(o->x, o->rows, o->n, &out, err)) != 0) {
        size_t s = o->n - 1;

        if (rc == GALLOP_BAD_INPUT) { /* A sequence was truncated too far for its windows. */
            assert_non_null(strstr(err, "a window has dropped"));
            for (s = 0; o->rows[s].slot != strtoul(strstr(err, "slot ") + 5, NULL, 10); s++)
                assert_true(s < o->n);
            o->refused++;
        } else
            assert_int_equal(rc, GALLOP_NO_SPACE);
        o->preempted += rc == GALLOP_NO_SPACE;
        empty(o, who[s]);
        o->n--;
        o->n_wanted -= o->rows[s].n_wanted;
        o->rows[s] = o->rows[o->n];
        who[s] = who[o->n];
        text[s] = text[o->n];
    }
    if (o->n)
        compare(o, &out, text);
    for (size_t s = 0; s < o->n; s++) {
        struct job *j = &o->job[who[s]];

        j->n = o->rows[s].pos + o->rows[s].n;
        if (j->n == j->len) {
            empty(o, who[s]);
            j->live = false;
        }
    }
}

/* ---- the campaigns ---- */

static void open_outer(struct outer *o, const char *model, const struct gallop_options *with)
{
    struct gallop_options own = *with;
    char err[GALLOP_ERR_SIZE];

    make_texts(o);
    compute_references(o, model, with);
    own.model = engines_path(model);
    if (gallop_executor_open(&o->x, GALLOP_EXECUTOR_VERSION, &own, err) != 0)
        fail_msg("%s: %s", model, err);
    gallop_executor_describe(o->x, &o->caps);
}

static void close_outer(struct outer *o)
{
    gallop_executor_close(o->x);
    for (size_t t = 0; t < TEXTS; t++)
        free(o->want[t]);
}

static struct gallop_options options(const char *type, const char *dtype, const char *kv_dtype)
{
    struct gallop_options o = engines_options(JOBS, ROWS, LONGEST);

    o.kv_cache_type = type;
    o.dtype = dtype;
    o.kv_cache_dtype = kv_dtype;
    return o;
}

static size_t steps(void)
{
    const char *n = getenv("GALLOP_OUTER_STEPS");

    return n ? strtoul(n, NULL, 10) : STEPS;
}

static void blocks_of_a_caller(const char *model, const char *dtype, const char *kv_dtype, const char *layout,
                               const char *sparse)
{
    struct gallop_options with = options("extern", dtype, kv_dtype);
    static struct outer o;

    o = (struct outer){.seed = strlen(model) * 7 + (unsigned char)kv_dtype[0]};
    with.kv_cache_layout = layout;
    with.kv_sparse = sparse;
    o.sink = sparse ? 20 : 0;
    with.kv_cache_tokens = BLOCKS * BLOCK;
    open_outer(&o, model, &with);
    assert_int_equal(o.caps.n_blocks, BLOCKS);
    assert_int_equal(o.caps.n_slots, 0);
    for (int32_t b = 1; b < BLOCKS; b++) {
        o.refs[b] = 1;
        put(&o, b);
    }
    for (size_t i = steps(); i-- > 0;)
        run_blocks(&o);
    if (!(o.shared && o.in_flight && o.copied && (o.preempted || o.window) && o.back > 5 && o.mixed > 10 &&
          o.compared > 500 && (o.nulls > 0) == (o.window > 0)))
        fail_msg(
            "%s: %zu shared, %zu in flight, %zu copied, %zu preempted, %zu back, %zu mixed, %zu nulls, %zu rows",
            model, o.shared, o.in_flight, o.copied, o.preempted, o.back, o.mixed, o.nulls, o.compared);
    close_outer(&o);
}

static void rows_in_blocks_of_a_caller_have_the_bits_of_the_engine(void **state)
{
    static const struct {
        const char *model, *dtype, *kv, *layout;
    } cases[] = {
        {"llama3-rope", "fp32", "fp32", "head_major"},    {"llama3-rope", "bf16", "int8", "block_major"},
        {"qwen3", "bf16", "bf16", "block_major"},         {"gemma3", "fp32", "fp32", "block_major"},
        {"gemma3", "bf16", "int8", "head_major"},         {"gpt-oss", "bf16", "bf16", "head_major"},
        {"gpt-oss", "fp32", "int8", "block_major"},       {"gptj", "fp32", "fp32", "head_major"},
        {"gpt2", "bf16", "bf16", "block_major"},          {"phi3-longrope", "fp32", "fp32", "head_major"},
        {"llama-dynamic", "fp32", "int8", "block_major"}, {"mistral", "fp32", "fp32", "head_major"},
        {"mistral", "bf16", "int8", "block_major"},       {"gemma4", "fp32", "fp32", "head_major"},
        {"llama4", "fp32", "fp32", "block_major"},        {"gemma3", "bf16", "int4", "block_major"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        blocks_of_a_caller(cases[i].model, cases[i].dtype, cases[i].kv, cases[i].layout, NULL);
    blocks_of_a_caller("llama3-rope", "fp32", "fp32", "head_major", "sink=20,window=24");
    blocks_of_a_caller("qwen3", "bf16", "int8", "block_major", "sink=20,window=24");
}

static void rows_in_slots_have_the_bits_of_the_engine(void **state)
{
    static const char *const models[] = {"llama3-rope", "gemma3", "mistral", "phi3-longrope"};

    for (size_t i = 0; i < 8; i++) {
        const char *type = kv_type_name(i % 4);
        struct gallop_options with = options(type, i % 2 ? "bf16" : "fp32", i % 3 ? "auto" : "int8");
        static struct outer o;

        o = (struct outer){.seed = 100 + i};
        with.kv_cache_tokens = 2 * LONGEST + 3 * BLOCK;
        open_outer(&o, models[(i + i / 4) % 4], &with);
        assert_int_equal(o.caps.n_blocks, 0);
        assert_int_equal(o.caps.n_slots, JOBS);
        for (size_t n = steps(); n-- > 0;)
            run_slots(&o);
        if (!(o.back > 5 && o.mixed > 10 && o.compared > 500 &&
              (o.preempted || o.window || strstr(models[(i + i / 4) % 4], "gemma"))))
            fail_msg("%s: %zu preempted, %zu back, %zu mixed, %zu rows", type, o.preempted, o.back, o.mixed,
                     o.compared);
        close_outer(&o);
    }
}

static void the_comparison_sees_a_row_of_another_text(void **state)
{
    struct gallop_options with = options("extern", "fp32", "fp32");
    struct gallop_outcome out;
    char err[GALLOP_ERR_SIZE];
    static const int32_t blocks[] = {3, 7};
    static struct outer o;
    struct gallop_rows r;

    o = (struct outer){0};
    open_outer(&o, "llama3-rope", &with);
    r = (struct gallop_rows){.ids = o.text[0], .n = 20, .blocks = blocks, .n_blocks = 2, .n_wanted = 1};
    assert_int_equal(gallop_executor_run(o.x, &r, 1, &out, err), 0);
    assert_memory_equal(out.logits, o.want[0] + 19 * o.caps.vocab_size, o.caps.vocab_size * sizeof(float));
    assert_memory_not_equal(out.logits, o.want[3] + 19 * o.caps.vocab_size,
                            o.caps.vocab_size * sizeof(float));
    assert_memory_not_equal(out.logits, o.want[0] + 18 * o.caps.vocab_size,
                            o.caps.vocab_size * sizeof(float));
    close_outer(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_blocks_of_a_caller_have_the_bits_of_the_engine),
        cmocka_unit_test(rows_in_slots_have_the_bits_of_the_engine),
        cmocka_unit_test(the_comparison_sees_a_row_of_another_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
