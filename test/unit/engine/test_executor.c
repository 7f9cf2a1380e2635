/* test_executor.c - the contract of the public executor: its description of itself; the batches and options
 * that it refuses, with a sentence and without a change; and picks, which are those of an engine.
 * test_outer.c compares the bits of its results. */
#include <math.h>

#include "base/rng.h"
#include "engines.h"

enum { LONGEST = 96, SEQS = 4, ROWS = 40, BLOCK = 16, BLOCKS = 12, V = 192 };

static struct gallop_options options(const char *type)
{
    struct gallop_options o = engines_options(SEQS, ROWS, LONGEST);

    o.model = engines_path("llama3-rope");
    o.kv_cache_type = type;
    if (strcmp(type, "extern") == 0)
        o.kv_cache_tokens = BLOCKS * BLOCK;
    return o;
}

static struct gallop_executor *open_executor(const struct gallop_options *o)
{
    struct gallop_executor *x;
    char err[GALLOP_ERR_SIZE];

    if (gallop_executor_open(&x, GALLOP_EXECUTOR_VERSION, o, err) != 0)
        fail_msg("%s", err);
    return x;
}

static void records_are_those_of_version_1(void **state)
{
    /* A record that grows needs a new GALLOP_EXECUTOR_VERSION. */
    assert_int_equal(GALLOP_EXECUTOR_VERSION, 1);
    assert_int_equal(sizeof(struct gallop_executor_caps), 168);
    assert_int_equal(sizeof(struct gallop_rows), 80);
    assert_int_equal(sizeof(struct gallop_pick), 8);
    assert_int_equal(sizeof(struct gallop_outcome), 16);
    assert_int_equal(sizeof(struct gallop_choice), 88);
}

static void an_executor_tells_what_it_allows(void **state)
{
    struct gallop_options o = options("extern");
    struct gallop_executor *x = open_executor(&o);
    struct gallop_executor_caps c;

    gallop_executor_describe(x, &c);
    assert_int_equal(c.vocab_size, V);
    assert_int_equal(c.max_model_len, LONGEST);
    assert_int_equal(c.max_seqs, SEQS);
    assert_int_equal(c.max_rows, ROWS);
    assert_true(c.max_wanted >= SEQS);
    assert_true(c.mixes && c.chunks && c.picks && c.max_prompts == 0);
    assert_int_equal(c.n_slots, 0);
    assert_int_equal(c.n_blocks, BLOCKS);
    assert_int_equal(c.block_size, BLOCK);
    assert_int_equal(c.kv_bytes, c.n_blocks * c.block_bytes);
    assert_string_equal(c.kv_cache_type, "extern");
    assert_string_equal(c.kv_cache_dtype, "fp32");
    assert_string_equal(c.dtype, "fp32");
    gallop_executor_close(x);
    o = options("paged");
    x = open_executor(&o);
    gallop_executor_describe(x, &c);
    assert_int_equal(c.n_slots, SEQS);
    assert_int_equal(c.n_blocks, 0);
    gallop_executor_close(x);
    gallop_executor_close(NULL);
}

static void as_many_rows_of_logits_come_as_were_asked_for(void **state)
{
    static const int64_t asked[] = {0, 1, SEQS + 1, ROWS};
    static const size_t given[] = {SEQS + 16, SEQS, SEQS + 1, ROWS};

    for (size_t i = 0; i < 4; i++) {
        static int32_t ids[ROWS];
        struct gallop_options o = options("slab_pool");
        struct gallop_rows r = {.ids = ids, .n = ROWS, .n_wanted = given[i]};
        struct gallop_executor_caps c;
        struct gallop_outcome out;
        char err[GALLOP_ERR_SIZE];

        o.max_logits = asked[i];
        struct gallop_executor *x = open_executor(&o);

        gallop_executor_describe(x, &c);
        assert_int_equal(c.max_wanted, given[i]);
        assert_int_equal(gallop_executor_run(x, &r, 1, &out, err), 0);
        assert_true(isfinite(out.logits[given[i] * V - 1]));
        r.n_wanted++;
        assert_int_equal(gallop_executor_run(x, &r, 1, &out, err), GALLOP_BAD_INPUT);
        gallop_executor_close(x);
    }
}

/* ---- options ---- */

static void must_not_open(const struct gallop_options *o, int version, const char *says)
{
    struct gallop_executor *x;
    char err[GALLOP_ERR_SIZE] = "";

    assert_int_not_equal(gallop_executor_open(&x, version, o, err), 0);
    assert_null(x);
    if (!strstr(err, says))
        fail_msg("\"%s\" does not say \"%s\"", err, says);
}

static void options_of_what_it_does_not_have_are_refused_by_name(void **state)
{
    struct gallop_options good = options("extern"), o;

#define REFUSED(member, value)                                                                               \
    do {                                                                                                     \
        o = good;                                                                                            \
        o.member = value;                                                                                    \
        must_not_open(&o, GALLOP_EXECUTOR_VERSION, #member ": must not be given: an executor has no queue"); \
    } while (0)
    REFUSED(prefix_index, "hash");
    REFUSED(kv_store, "folder");
    REFUSED(scheduling_policy, "fcfs");
    REFUSED(scheduler, "iterative");
    REFUSED(admission, "optimistic");
    REFUSED(tpot_target_ms, 10);
    REFUSED(max_num_queued_reqs, 1);
    REFUSED(max_num_queued_tokens, 1);
#undef REFUSED
    must_not_open(&good, GALLOP_EXECUTOR_VERSION + 1, "VERSION 2");
    must_not_open(&good, 0, "VERSION 0");
    o = good;
    o.kv_cache_tokens = LONGEST; /* Block 0 is an additional block. */
    must_not_open(&o, GALLOP_EXECUTOR_VERSION, "cannot hold one sequence");
    o = good;
    o.max_logits = -1;
    must_not_open(&o, GALLOP_EXECUTOR_VERSION, "max_logits: found -1");
    o.max_logits = 65537;
    must_not_open(&o, GALLOP_EXECUTOR_VERSION, "max_logits: found 65537");
    o = good;
    o.kv_cache_type = "external";
    must_not_open(&o, GALLOP_EXECUTOR_VERSION, "external");
}

static void an_engine_does_not_open_with_tables_of_others(void **state)
{
    struct gallop_options o = options("extern");
    struct gallop *g;
    char err[GALLOP_ERR_SIZE];

    assert_int_equal(gallop_open(&g, &o, err), GALLOP_BAD_INPUT);
    assert_non_null(strstr(err, "gallop_executor_open()"));
    assert_null(g);
}

/* ---- batches ---- */

/* A sequence of 20 rows and one of 30, each of which continues with its next row. */
struct scene {
    struct gallop_executor *x;
    bool blocks;
    int32_t text[2][LONGEST], table[2][8];
    struct gallop_rows rows[SEQS + 1];
    size_t n;
    float want[2][V];
};

static void next_rows(struct scene *s)
{
    static const size_t pos[2] = {20, 30};

    memset(s->rows, 0, sizeof(s->rows));
    for (size_t i = 0; i < 2; i++) {
        s->rows[i] = (struct gallop_rows){.ids = s->text[i] + pos[i], .n = 1, .pos = pos[i], .n_wanted = 1};
        if (s->blocks) {
            s->rows[i].blocks = s->table[i];
            s->rows[i].n_blocks = 3;
        } else
            s->rows[i].slot = i + 1;
    }
    s->n = 2;
}

/* Computes the next rows, which must be the same as the first time. */
static void go_on(struct scene *s, bool first)
{
    struct gallop_outcome out;
    char err[GALLOP_ERR_SIZE];

    next_rows(s);
    if (gallop_executor_run(s->x, s->rows, 2, &out, err) != 0)
        fail_msg("%s", err);
    if (first)
        memcpy(s->want, out.logits, sizeof(s->want));
    assert_memory_equal(out.logits, s->want, sizeof(s->want));
}

static void open_scene(struct scene *s, const char *type)
{
    static const int32_t tables[2][8] = {{5, 2}, {9, 1, 4}};
    struct gallop_options o = options(type);
    struct gallop_outcome out;
    char err[GALLOP_ERR_SIZE];

    *s = (struct scene){.blocks = strcmp(type, "extern") == 0};
    s->x = open_executor(&o);
    memcpy(s->table, tables, sizeof(tables));
    for (size_t i = 0; i < 2; i++) {
        engines_text(i, 0, LONGEST, s->text[i]);
        for (size_t at = 0; at < 20 + i * 10; at += 10) { /* Table 1 needs its third block later. */
            next_rows(s);
            s->rows[i].ids = s->text[i] + at;
            s->rows[i].pos = at;
            s->rows[i].n = 10;
            assert_int_equal(gallop_executor_run(s->x, &s->rows[i], 1, &out, err), 0);
            assert_int_equal(out.picks[0].id, -1);
        }
    }
    go_on(s, true);
}

/* The plan of S is refused with a sentence that contains SAYS, and nothing has changed. */
static void must_refuse(struct scene *s, const char *says)
{
    struct gallop_outcome out;
    char err[GALLOP_ERR_SIZE] = "";
    int rc = gallop_executor_run(s->x, s->rows, s->n, &out, err);

    if (rc != GALLOP_BAD_INPUT || !strstr(err, says))
        fail_msg("code %d, \"%s\" does not say \"%s\"", rc, err, says);
    assert_null(out.logits);
    assert_null(out.picks);
    assert_int_not_equal(gallop_executor_run(s->x, s->rows, s->n, &out, NULL), 0);
    go_on(s, false);
    next_rows(s);
}

static void refuse_what_any_cache_refuses(struct scene *s)
{
    static const int32_t strange[2][1] = {{-1}, {V}};
    static int32_t many[LONGEST];

    next_rows(s);
    s->n = 0;
    must_refuse(s, "found a run of 0 sequences, expected 1 to 4");
    s->n = SEQS + 1;
    must_refuse(s, "found a run of 5 sequences, expected 1 to 4");
    s->rows[1].n = 0;
    must_refuse(s, "sequence 1 has no tokens");
    s->rows[1].ids = NULL;
    must_refuse(s, "sequence 1 has no tokens");
    s->rows[0].ids = strange[0];
    must_refuse(s, "sequence 0: token -1 at position 20 is outside the vocabulary of 192");
    s->rows[1].ids = strange[1];
    must_refuse(s, "sequence 1: token 192 at position 30");
    s->rows[1].pos = LONGEST;
    must_refuse(s, "sequence 1 has 1 rows from position 96 on, but max_model_len is 96");
    s->rows[1].pos = SIZE_MAX;
    must_refuse(s, "but max_model_len is 96");
    s->rows[1].n = SIZE_MAX;
    must_refuse(s, "but max_model_len is 96");
    s->rows[1].n_wanted = 2;
    must_refuse(s, "sequence 1: n_wanted is 2, but it has 1 rows");
    s->rows[0].ids = many;
    s->rows[0].pos = 0;
    s->rows[0].n = ROWS;
    must_refuse(s, "found a run of 41 rows, expected at most max_batched_tokens, 40");
    s->rows[0].ids = many;
    s->rows[0].pos = 0;
    s->rows[0].n_wanted = s->rows[0].n = 39;
    must_refuse(s, "found 40 wanted rows of logits, expected at most max_logits, 20");
}

static void refuse_picks(struct scene *s)
{
    static const int32_t tokens[LONGEST] = {[7] = V};
    struct gallop_request init;
    struct gallop_sampling p;

    gallop_request_init(&init);
#define PICK(member, value, says) \
    do {                          \
        p = init.sampling;        \
        p.member = value;         \
        s->rows[1].pick = &p;     \
        must_refuse(s, says);     \
    } while (0)
    next_rows(s);
    PICK(max_new_tokens, 5, "sequence 1: its pick has max_new_tokens");
    PICK(n_bias, 1, "bias");
    PICK(n_stop, 1, "stop");
    PICK(n_stop_token, 1, "stop_token");
    PICK(n_bad_words, 1, "bad_words");
    PICK(n_dry_sequence_breakers, 1, "dry_sequence_breakers");
    PICK(dry_multiplier, 1, "sequence 1: its pick has a penalty, which needs the member tokens");
    PICK(logprobs, 1, "logprobs above 0");
    PICK(top_p, 1.5, "sequence 1: top_p");
    PICK(top_k, -2, "sequence 1: top_k");
    PICK(presence_penalty, 1, "sequence 1: its pick has a penalty, which needs the member tokens");
    s->rows[1].tokens = tokens;
    PICK(repetition_penalty, 2, "sequence 1: token 192 at position 7");
    s->rows[1].n_wanted = 0;
    PICK(top_k, 1, "sequence 1 has a pick, which needs n_wanted");
    s->rows[1].n_prompt = 32;
    PICK(top_k, 1, "sequence 1: n_prompt is 32, but it has only 31 tokens");
#undef PICK
}

static void wrong_batches_are_refused_and_change_nothing(void **state)
{
    static const char *const types[] = {"extern", "slab_pool", "paged", "dynamic", "bmc"};

    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        struct scene s;

        open_scene(&s, types[t]);
        refuse_what_any_cache_refuses(&s);
        refuse_picks(&s);
        gallop_executor_close(s.x);
    }
}

static void wrong_tables_are_refused(void **state)
{
    char err[GALLOP_ERR_SIZE];
    struct scene s;

    open_scene(&s, "extern");
    next_rows(&s);
    s.rows[0].slot = 1;
    must_refuse(&s, "sequence 0 has slot 1, but this cache has blocks");
    s.rows[0].blocks = NULL;
    must_refuse(&s, "sequence 0 has a list of 0 blocks, but its 21 rows need 2");
    s.rows[0].n_blocks = 1;
    must_refuse(&s, "sequence 0 has a list of 1 blocks, but its 21 rows need 2");
    s.rows[0].blocks = (const int32_t[]){5, -1, 3};
    must_refuse(&s, "sequence 0: entry 1 of its list is block -1, expected a number below 12");
    s.rows[0].blocks = (const int32_t[]){12, 2, 3};
    must_refuse(&s, "sequence 0: entry 0 of its list is block 12, expected a number below 12");
    s.rows[0].blocks = (const int32_t[]){5, 0, 3};
    must_refuse(&s,
                "sequence 0: entry 1 of its list is block 0, but its rows are written from position 20 on");
    s.rows[0].blocks = (const int32_t[]){0, 2, 3};
    must_refuse(&s, "sequence 0: entry 0 of its list is block 0, but its rows are seen from position 20 on");
    s.rows[0].blocks = (const int32_t[]){5, 1, 3};
    must_refuse(&s, "sequences 0 and 1 write into the same block 1");
    s.rows[0].ids = s.rows[1].ids = s.text[0]; /* Each is the last row of a block. */
    s.rows[0].pos = s.rows[1].pos = 15;
    s.rows[1].blocks = s.rows[0].blocks;
    must_refuse(&s, "sequences 0 and 1 write into the same block 5");
    s.rows[0].pos = 15;
    s.rows[0].blocks = (const int32_t[]){0};
    must_refuse(&s, "entry 0 of its list is block 0, but its rows are written from position 15 on");
    s.rows[0].ids = s.text[0];
    s.rows[0].pos = 0;
    s.rows[0].n = 20;
    s.rows[0].blocks = (const int32_t[]){5, 5, 3};
    must_refuse(&s, "sequences 0 and 0 write into the same block 5");
    assert_int_equal(gallop_executor_copy_block(s.x, 5, 12, err), GALLOP_BAD_INPUT);
    assert_int_equal(gallop_executor_copy_block(s.x, 12, 5, err), GALLOP_BAD_INPUT);
    assert_int_equal(gallop_executor_copy_block(s.x, 5, 0, err), GALLOP_BAD_INPUT);
    assert_int_equal(gallop_executor_copy_block(s.x, 5, 5, err), 0);
    assert_int_equal(gallop_executor_truncate(s.x, 1, 0, err), GALLOP_BAD_INPUT);
    go_on(&s, false);
    gallop_executor_close(s.x);
}

static void wrong_slots_are_refused(void **state)
{
    char err[GALLOP_ERR_SIZE];
    struct scene s;

    open_scene(&s, "slab_pool");
    next_rows(&s);
    s.rows[0].blocks = s.table[0];
    must_refuse(&s, "sequence 0 has a list of blocks, but this cache has slots");
    s.rows[0].slot = SEQS;
    must_refuse(&s, "sequence 0 has slot 4, expected a number below 4");
    s.rows[0].slot = 2;
    must_refuse(&s, "sequences 0 and 1 have the same slot 2");
    s.rows[0].pos = 22;
    must_refuse(&s, "sequence 0 begins at position 22, but its slot 1 has 21 rows");
    s.rows[0].slot = 0;
    must_refuse(&s, "sequence 0 begins at position 20, but its slot 0 has 0 rows");
    assert_int_equal(gallop_executor_truncate(s.x, 1, 22, err), GALLOP_BAD_INPUT);
    assert_int_equal(gallop_executor_truncate(s.x, SEQS, 0, err), GALLOP_BAD_INPUT);
    assert_int_equal(gallop_executor_copy_block(s.x, 1, 2, err), GALLOP_BAD_INPUT);
    go_on(&s, false);
    assert_int_equal(gallop_executor_truncate(s.x, 1, 20, err), 0);
    go_on(&s, false);
    gallop_executor_close(s.x);
}

static void a_full_cache_refuses_and_keeps_what_it_has(void **state)
{
    static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"};

    for (size_t t = 0; t < 4; t++) {
        struct gallop_options o = options(types[t]);
        int32_t text[LONGEST];
        struct gallop_rows r[2];
        struct gallop_outcome out;
        char err[GALLOP_ERR_SIZE];
        float before[V];

        o.kv_cache_tokens = 160;
        struct gallop_executor *x = open_executor(&o);

        engines_text(0, 0, LONGEST, text);
        r[0] = (struct gallop_rows){.ids = text, .n = 30, .n_wanted = 1};
        assert_int_equal(gallop_executor_run(x, r, 1, &out, err), 0);
        r[0] = (struct gallop_rows){.ids = text + 30, .pos = 30, .n = 2, .n_wanted = 1};
        assert_int_equal(gallop_executor_run(x, r, 1, &out, err), 0);
        memcpy(before, out.logits, sizeof(before));
        for (size_t slot = 1; slot < SEQS; slot++) {
            int rc;

            r[1] = (struct gallop_rows){.slot = slot, .ids = text, .n = 38, .n_wanted = 1};
            rc = gallop_executor_run(x, r, 2, &out, err);
            if (rc == 0) {
                assert_memory_equal(out.logits, before, sizeof(before));
                continue;
            }
            assert_int_equal(rc, GALLOP_NO_SPACE);
            assert_non_null(strstr(err, "no room for 40 rows of 2 sequences"));
            assert_int_equal(gallop_executor_run(x, r, 1, &out, err), 0);
            assert_memory_equal(out.logits, before, sizeof(before));
            for (size_t empty = 1; empty < slot; empty++)
                assert_int_equal(gallop_executor_truncate(x, empty, 0, err), 0);
            assert_int_equal(gallop_executor_run(x, r, 2, &out, err), 0);
            assert_memory_equal(out.logits, before, sizeof(before));
            r[0].slot = SIZE_MAX; /* The slot was full before. */
            break;
        }
        assert_true(r[0].slot == SIZE_MAX);
        gallop_executor_close(x);
    }
}

/* Computes N rows of SLOT from POS, of which the last one is wanted. */
static int run_slot(struct gallop_executor *x, size_t slot, size_t pos, size_t n, char *err)
{
    static const int32_t ids[LONGEST];
    struct gallop_rows r = {.ids = ids, .slot = slot, .pos = pos, .n = n, .n_wanted = 1};
    struct gallop_outcome out;

    return gallop_executor_run(x, &r, 1, &out, err);
}

static void rows_that_are_refused_or_gone_hold_no_room(void **state)
{
    static const int32_t ids[LONGEST];
    struct gallop_options o = options("slab_pool");
    struct gallop_rows r[2] = {{.slot = 1, .ids = ids, .n = 16}, {.slot = 2, .ids = ids, .n = 17}};
    struct gallop_outcome out;
    char err[GALLOP_ERR_SIZE];

    o.kv_cache_tokens = LONGEST; /* six blocks */
    struct gallop_executor *x = open_executor(&o);

    assert_int_equal(run_slot(x, 0, 0, 40, err), 0);
    assert_int_equal(run_slot(x, 0, 40, 24, err), 0);
    assert_int_equal(gallop_executor_run(x, r, 2, &out, err), GALLOP_NO_SPACE);
    assert_int_equal(run_slot(x, 3, 0, 32, err), 0); /* the rows that slot 1 nearly got */
    assert_int_equal(run_slot(x, 1, 0, 1, err), GALLOP_NO_SPACE);
    assert_int_equal(run_slot(x, 0, 10, 6, err), 0); /* One of four blocks stays. */
    assert_int_equal(gallop_executor_run(x, r, 2, &out, err), 0);
    gallop_executor_close(x);
}

static void a_slot_does_not_go_back_to_what_a_window_has_dropped(void **state)
{
    struct gallop_options o = options("slab_pool");
    char err[GALLOP_ERR_SIZE];
    size_t back = 0;

    o.model = engines_path("mistral"); /* All layers see 21 rows. */
    struct gallop_executor *x = open_executor(&o);

    assert_int_equal(run_slot(x, 0, 0, 40, err), 0);
    assert_int_equal(run_slot(x, 0, 40, 40, err), 0);
    while (run_slot(x, 0, back, 1, err) != 0) {
        assert_non_null(strstr(err, "goes back from 80 rows to position"));
        assert_int_equal(gallop_executor_truncate(x, 0, back ? back : 1, err), GALLOP_BAD_INPUT);
        assert_non_null(strstr(err, "a window has dropped"));
        back++;
    }
    /* Block 3 is the first block that is held. A query in it sees rows from 48. */
    assert_int_equal(back, 48 + 20);
    assert_int_equal(gallop_executor_truncate(x, 0, back, err), 0);
    assert_int_equal(gallop_executor_truncate(x, 0, 0, err), 0);
    assert_int_equal(run_slot(x, 0, 0, 1, err), 0);
    gallop_executor_close(x);
}

/* Block 0 replaces one block of the first 40 rows at a time. */
static void block_0_stands_for_what_no_layer_sees(void **state)
{
    static const struct {
        const char *model, *sparse;
        size_t sink, window; /* the window of the layer that sees most */
    } cases[] = {{"mistral", NULL, 0, 21},
                 {"llama3-rope", "sink=17,window=30", 17, 30},
                 {"gemma3", "sink=4,window=40", 4, 40},
                 {"gemma3", NULL, 0, LONGEST}};
    static const int32_t ids[LONGEST];

    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct gallop_options o = options("extern");
        struct gallop_outcome out;
        char err[GALLOP_ERR_SIZE];

        o.model = engines_path(cases[k].model);
        o.kv_sparse = cases[k].sparse;
        struct gallop_executor *x = open_executor(&o);

        for (size_t pos = 0; pos < LONGEST; pos++)
            for (size_t i = 0; i < LONGEST / BLOCK; i++) {
                int32_t table[] = {1, 2, 3, 4, 5, 6};
                struct gallop_rows r = {.ids = ids, .n = 1, .pos = pos, .blocks = table, .n_blocks = 6};
                bool below = i * BLOCK > pos,
                     seen = i * BLOCK < cases[k].sink || (i + 1) * BLOCK + cases[k].window > pos + 1;

                table[i] = 0;
                assert_int_equal(gallop_executor_run(x, &r, 1, &out, err) == 0, below || !seen);
            }
        gallop_executor_close(x);
    }
}

/* Returns the next random number below N of SEED. */
static size_t drawn(uint64_t seed, uint64_t *at, double n)
{
    return (size_t)(rng_uniform(seed, (*at)++) * n);
}

/* Any numbers must give an error or rows, and never a crash. */
static void no_batch_is_fatal(void **state)
{
    static const char *const types[] = {"extern", "paged"};

    for (uint64_t t = 0; t < 2; t++) {
        static int32_t ids[LONGEST];
        struct gallop_options o = options(types[t]);
        struct gallop_executor *x = open_executor(&o);
        size_t good = 0;

        for (uint64_t i = 0; i < 3000; i++) {
            struct gallop_rows r[SEQS];
            int32_t table[SEQS][8];
            struct gallop_outcome out;
            char err[GALLOP_ERR_SIZE] = "";
            uint64_t at = 0;
            size_t n = 1 + drawn(i, &at, SEQS);

            for (size_t s = 0; s < n; s++) {
                for (size_t b = 0; b < 8; b++)
                    table[s][b] = (int32_t)(rng_uniform(i, at++) * 1.02 * BLOCKS);
                r[s] = (struct gallop_rows){.ids = ids,
                                            .n = drawn(i, &at, 12),
                                            .pos = drawn(i, &at, 60),
                                            .slot = t ? drawn(i, &at, SEQS + 1) : 0,
                                            .blocks = t ? NULL : table[s],
                                            .n_blocks = t ? 0 : drawn(i, &at, 8),
                                            .n_wanted = drawn(i, &at, 3)};
                if (t && rng_uniform(i, at++) < .5)
                    r[s].pos = 0;
            }
            if (gallop_executor_run(x, r, n, &out, err) == 0)
                good++;
            else
                assert_true(strlen(err) > 10);
        }
        assert_true(good > 100 && good < 2900);
        gallop_executor_close(x);
    }
}

/* ---- picks ---- */

enum { PROMPT = 25, NEW = 20, CASES = 5 };

static struct gallop_sampling sampling(size_t i)
{
    struct gallop_request r;

    gallop_request_init(&r);
    r.sampling.ignore_eos = 1;
    r.sampling.logprobs = 0;
    if (i) {
        r.sampling.do_sample = 1;
        r.sampling.temperature = .5 + (double)i;
    }
    if (i == 1 || i == 3) {
        r.sampling.has_seed = 1;
        r.sampling.seed = 77 + i;
        r.sampling.top_k = 30;
        r.sampling.min_p = .01;
        r.sampling.typical_p = .95;
        r.sampling.xtc_probability = .5;
    }
    if (i == 2 || i == 3) {
        r.sampling.dry_multiplier = 2;
        r.sampling.dry_allowed_length = 1;
        r.sampling.top_n_sigma = 3;
    }
    if (i == 2)
        r.sampling.min_new_tokens = 5;
    if (i >= 3) {
        r.sampling.repetition_penalty = 1.3;
        r.sampling.frequency_penalty = .5;
        r.sampling.presence_penalty = .25;
        r.sampling.top_p = .95;
    }
    return r.sampling;
}

/* The choices of a run equal its picks, also if a mask allows little more than the pick. */
static void choices_equal_picks(struct gallop_executor *x, const struct gallop_rows *r,
                                const struct gallop_outcome *out)
{
    struct gallop_choice c[2 * CASES];
    uint32_t allowed[CASES][V / 32] = {{0}};
    struct gallop_logprob top[2 * CASES][3];
    char err[GALLOP_ERR_SIZE];

    for (size_t i = 0; i < 2 * CASES; i++) {
        size_t k = i % CASES;

        c[i] = (struct gallop_choice){.logits = out->logits + k * V,
                                      .sampling = r[k].pick,
                                      .allowed = i < CASES ? NULL : allowed[k],
                                      .n_tokens = r[k].pos + r[k].n,
                                      .n_prompt = r[k].n_prompt,
                                      .tokens = r[k].tokens,
                                      .logprobs = 3,
                                      .top = top[i]};
        allowed[k][out->picks[k].id / 32] |= UINT32_C(1) << out->picks[k].id % 32;
    }
    if (gallop_executor_choose(x, c, 2 * CASES, err) != 0)
        fail_msg("%s", err);
    for (size_t i = 0; i < 2 * CASES; i++) {
        assert_int_equal(c[i].id, out->picks[i % CASES].id);
        assert_memory_equal(&c[i].logprob, &out->picks[i % CASES].logprob, sizeof(float));
        assert_int_equal(c[i].n_top, 3);
        assert_true(top[i][0].logprob >= top[i][1].logprob && top[i][1].logprob >= top[i][2].logprob);
        if (c[i].rank <= 3)
            assert_true(top[i][c[i].rank - 1].logprob == c[i].logprob);
        else
            assert_true(top[i][2].logprob >= c[i].logprob);
        c[i].sampling = NULL;
        c[i].logprobs = i < CASES ? 0 : -1;
    }
    assert_int_equal(gallop_executor_choose(x, c, 2 * CASES, err), 0);
    for (size_t i = 0; i < 2 * CASES; i++) {
        assert_int_equal(c[i].id, out->picks[i % CASES].id);
        assert_int_equal(c[i].n_top, 0);
        assert_true(i < CASES ? c[i].logprob == out->picks[i].logprob : isnan(c[i].logprob));
        assert_int_equal(c[i].rank == 0, i >= CASES);
    }
}

/* Gets the tokens and log-probabilities of an engine. */
static void run_engine(struct engines_answer *all)
{
    struct gallop_options o = options("paged");
    struct gallop_request r;
    struct gallop *g;

    o.has_seed = 1;
    o.seed = 9;
    g = engines_open("llama3-rope", &o);

    for (size_t i = 0; i < CASES; i++) {
        int32_t ids[PROMPT];

        engines_text(i, 0, PROMPT, ids);
        gallop_request_init(&r);
        r.ids = ids;
        r.n_ids = PROMPT;
        r.sampling = sampling(i);
        r.sampling.max_new_tokens = NEW;
        r.user = (void *)i;
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    }
    engines_run(g, all);
    gallop_close(g);
}

static void picks_are_those_of_an_engine(void **state)
{
    static struct engines_answer all[CASES];
    struct gallop_options o = options("slab_pool");
    struct gallop_sampling s[CASES];
    int32_t token[CASES][PROMPT + NEW];
    struct gallop_executor *x;

    memset(all, 0, sizeof(all));
    run_engine(all);
    o.has_seed = 1;
    o.seed = 9;
    o.max_num_seqs = CASES;
    o.max_batched_tokens = CASES * PROMPT;
    o.threads = 2;
    x = open_executor(&o);
    for (size_t i = 0; i < CASES; i++) {
        engines_text(i, 0, PROMPT, token[i]);
        s[i] = sampling(i);
    }
    for (size_t n = PROMPT; n < PROMPT + NEW; n++) {
        struct gallop_rows r[CASES];
        struct gallop_outcome out;
        char err[GALLOP_ERR_SIZE];

        for (size_t i = 0; i < CASES; i++) {
            size_t pos = n == PROMPT ? 0 : n - 1;

            r[i] = (struct gallop_rows){.ids = token[i] + pos,
                                        .pos = pos,
                                        .n = n - pos,
                                        .slot = CASES - 1 - i,
                                        .n_wanted = 1,
                                        .pick = &s[i],
                                        .n_prompt = PROMPT,
                                        .tokens = i < 2 ? NULL : token[i]};
        }
        if (gallop_executor_run(x, r, CASES, &out, err) != 0)
            fail_msg("%s", err);
        choices_equal_picks(x, r, &out);
        for (size_t i = 0; i < CASES; i++) {
            token[i][n] = out.picks[i].id;
            assert_int_equal(out.picks[i].id, all[i].token[n - PROMPT]);
            assert_memory_equal(&out.picks[i].logprob, &all[i].logprob[n - PROMPT], sizeof(float));
        }
    }
    gallop_executor_close(x);
}

/* Choice 1 of two with the member set to a value is refused with a sentence, and choice 0 is not made. */
static void wrong_choices_are_refused_and_write_nothing(void **state)
{
    static const int32_t tokens[LONGEST] = {[7] = V};
    static float logits[V];
    struct gallop_options o = options("extern");
    struct gallop_executor *x = open_executor(&o);
    struct gallop_request init;
    struct gallop_sampling p;
    struct gallop_logprob top[1024];
    struct gallop_choice good, c[2];
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&init);
    p = init.sampling;
    good = (struct gallop_choice){
        .logits = logits, .sampling = &p, .n_tokens = 8, .n_prompt = 8, .top = top, .id = -9};
#define CHOICE(member, value, says)                                               \
    do {                                                                          \
        c[0] = c[1] = good;                                                       \
        c[1].member = value;                                                      \
        assert_int_equal(gallop_executor_choose(x, c, 2, err), GALLOP_BAD_INPUT); \
        if (!strstr(err, says))                                                   \
            fail_msg("\"%s\" does not say \"%s\"", err, says);                    \
        assert_int_equal(c[0].id, -9);                                            \
        assert_int_not_equal(gallop_executor_choose(x, c, 2, NULL), 0);           \
    } while (0)
    CHOICE(logits, NULL, "choice 1: logits is NULL");
    CHOICE(logprobs, -2, "choice 1: logprobs is -2, expected -1 to 1024");
    CHOICE(logprobs, 1025, "choice 1: logprobs is 1025");
    CHOICE(sampling, NULL, "choice 1: token -9 is outside the vocabulary of 192 tokens");
    CHOICE(n_tokens, LONGEST + 1, "choice 1: n_tokens is 97, but max_model_len is 96");
    CHOICE(n_prompt, 9, "choice 1: n_prompt is 9, but n_tokens is only 8");
    good.logprobs = 1;
    CHOICE(top, NULL, "choice 1: logprobs is 1, but top is NULL");
    p.top_p = 2;
    CHOICE(id, 0, "choice 0: top_p");
    p = init.sampling;
    p.n_bad_words = 1;
    CHOICE(id, 0, "choice 0: its sampling has bad_words");
    p = init.sampling;
    p.presence_penalty = 1;
    CHOICE(id, 0, "choice 0: its sampling has a penalty, which needs the member tokens");
    good.tokens = tokens;
    CHOICE(id, 0, "choice 0: token 192 at position 7");
#undef CHOICE
    gallop_executor_close(x);
}

static void choices_without_a_possible_token_are_none(void **state)
{
    static float logits[V], bad[V] = {[3] = NAN};
    static const uint32_t nothing[V / 32] = {0};
    struct gallop_options o = options("slab_pool");
    struct gallop_executor *x = open_executor(&o);
    struct gallop_request init;
    struct gallop_logprob top[1024];
    struct gallop_choice c[2];
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&init);
    c[0] = (struct gallop_choice){.logits = bad, .sampling = &init.sampling, .logprobs = 1, .top = top};
    c[1] = c[0];
    c[1].logits = logits;
    c[1].allowed = nothing;
    assert_int_equal(gallop_executor_choose(x, c, 0, err), 0);
    assert_int_equal(gallop_executor_choose(x, c, 2, err), 0);
    assert_true(c[0].id == -1 && c[1].id == -1 && isnan(c[0].logprob) && isnan(c[1].logprob));
    c[0].sampling = NULL;
    c[0].id = 3;
    c[1].allowed = NULL;
    c[1].logprobs = 1024; /* more than the vocabulary has */
    assert_int_equal(gallop_executor_choose(x, c, 2, err), 0);
    assert_true(c[0].id == 3 && isnan(c[0].logprob) && c[0].rank == 0);
    assert_int_equal(c[1].id, 0);
    assert_int_equal(c[1].n_top, V);
    assert_int_equal(c[1].rank, V);
    gallop_executor_close(x);
}

/* Returns the number of resident bytes of this process. */
static size_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t all = 0, pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &all, &pages), 2);
    fclose(f);
    return pages * 4096;
}

static void blocks_take_memory_when_they_are_written(void **state)
{
    struct gallop_options o = options("extern");
    size_t before = resident();
    struct gallop_executor_caps c;
    struct gallop_executor *x;

    o.kv_cache_tokens = 2 << 20;
    x = open_executor(&o);
    gallop_executor_describe(x, &c);
    assert_true(c.kv_bytes > 128 << 20);
    assert_true(resident() < before + c.kv_bytes / 2);
    gallop_executor_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_those_of_version_1),
        cmocka_unit_test(an_executor_tells_what_it_allows),
        cmocka_unit_test(as_many_rows_of_logits_come_as_were_asked_for),
        cmocka_unit_test(options_of_what_it_does_not_have_are_refused_by_name),
        cmocka_unit_test(an_engine_does_not_open_with_tables_of_others),
        cmocka_unit_test(wrong_batches_are_refused_and_change_nothing),
        cmocka_unit_test(wrong_tables_are_refused),
        cmocka_unit_test(wrong_slots_are_refused),
        cmocka_unit_test(a_full_cache_refuses_and_keeps_what_it_has),
        cmocka_unit_test(rows_that_are_refused_or_gone_hold_no_room),
        cmocka_unit_test(a_slot_does_not_go_back_to_what_a_window_has_dropped),
        cmocka_unit_test(block_0_stands_for_what_no_layer_sees),
        cmocka_unit_test(no_batch_is_fatal),
        cmocka_unit_test(picks_are_those_of_an_engine),
        cmocka_unit_test(wrong_choices_are_refused_and_write_nothing),
        cmocka_unit_test(choices_without_a_possible_token_are_none),
        cmocka_unit_test(blocks_take_memory_when_they_are_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
