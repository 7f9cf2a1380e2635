/* test_adopt.c - sequences that begin like others adopt their rows: the right rows, as many as the cache has,
 * and never rows of other tokens. No block is lost or held twice, in any order of events. The contents of a
 * row follow from all tokens up to it, as in a model. */
#include <xxhash.h>

#include "base/rng.h"
#include "caches.h"
#include "files.h"
#include "help.h"
#include "kv/store/record.h"
#include "kv/store/store.h"

enum { SEQS = 6, LEN = 192, BLOCK = 16 };

static const struct prefix_key seeds[] = {{{7, 7}}, {{7, 8}}};

/* A cache, and the expected contents of its sequences. */
struct frame {
    struct kv c;
    struct {
        int32_t token[LEN];
        size_t n;
        bool open;
        int seed;
    } seq[SEQS];
    size_t window[3], sink[3];
};

static void open_cache(struct frame *f, const char *type, enum prefix_kind index, size_t window, size_t sink,
                       bool all_windows, size_t pool)
{
    struct kv_limits lim = {.n_layers = 3,
                            .n_kv = 2,
                            .head_dim = 16,
                            .dtype = DT_F32,
                            .max_seqs = SEQS,
                            .max_len = LEN,
                            .block = BLOCK,
                            .pool_tokens = pool,
                            .step_tokens = 64,
                            .keep_prefixes = true,
                            .prefix_index = index};
    struct err e = {0};

    *f = (struct frame){0};
    for (size_t l = 0; l < 3; l++) {
        f->window[l] = l || all_windows ? window : 0;
        f->sink[l] = f->window[l] ? sink : 0;
    }
    lim.window = f->window;
    lim.sink = f->sink;
    if (kv_open(&f->c, type, &lim, &e) != 0)
        fail_msg("%s", e.msg);
}

static uint32_t stamp(const struct frame *f, size_t seq, size_t pos)
{
    struct prefix_key k = seeds[f->seq[seq].seed];

    for (size_t i = 0; i <= pos; i++)
        k = prefix_chain(k, &f->seq[seq].token[i], 1);
    return (uint32_t)k.w[0];
}

/* Checks that a query after the last row of SEQ sees what was written. */
static void check_rows(const struct frame *f, size_t seq)
{
    size_t n = f->seq[seq].n;

    for (size_t l = 0; l < 3; l++)
        for (size_t pos = 0; pos < n; pos++) {
            size_t first = kv_first_row(f->window[l], n);

            if (pos >= f->sink[l] && pos < first)
                continue;
            if (!caches_is(&f->c, seq, l, pos, stamp(f, seq, pos), false))
                fail_msg("sequence %zu of %zu rows, layer %zu: row %zu is another's", seq, n, l, pos);
        }
}

static void check_cache(const struct frame *f)
{
    struct err e = {0};

    if (kv_check(&f->c, &e) != 0)
        fail_msg("%s", e.msg);
}

/* Begins SEQ with TOKEN [n] and checks the adopted rows. Returns their number. */
static size_t begin(struct frame *f, size_t seq, int seed, const int32_t *token, size_t n)
{
    memcpy(f->seq[seq].token, token, n * sizeof(*token));
    f->seq[seq].open = true;
    f->seq[seq].seed = seed;
    f->seq[seq].n = kv_adopt(&f->c, seq, seeds[seed], token, n);
    assert_true(f->seq[seq].n <= n);
    check_rows(f, seq);
    return f->seq[seq].n;
}

/* Adds N rows to SEQ, whose tokens are set. */
static int grow(struct frame *f, size_t seq, size_t n)
{
    size_t from = f->seq[seq].n;
    int rc = kv_reserve(&f->c, seq, from + n);

    if (rc)
        return rc;
    for (size_t i = from; i < from + n; i++)
        caches_write(&f->c, seq, i, stamp(f, seq, i));
    kv_set_tokens(&f->c, seq, from, f->seq[seq].token + from, n);
    f->seq[seq].n += n;
    kv_publish(&f->c, seq, f->seq[seq].token, from + n, false);
    kv_advance(&f->c, seq, from + n);
    return 0;
}

static void release(struct frame *f, size_t seq)
{
    kv_publish(&f->c, seq, f->seq[seq].token, f->seq[seq].n, true);
    kv_release(&f->c, seq);
    f->seq[seq].n = 0;
    f->seq[seq].open = false;
}

static const int32_t *text(int which, size_t same)
{
    static int32_t t[LEN];

    for (size_t i = 0; i < LEN; i++)
        t[i] = i < same ? 100 + (int32_t)i : 1000 * (which + 1) + (int32_t)i;
    return t;
}

/* ---- which rows are found ---- */

static void the_next_one_finds_whole_blocks_by_hash_and_every_row_by_radix(void **state)
{
    static const char *const types[] = {"slab_pool", "paged"};

    for (int t = 0; t < 2; t++)
        for (int index = PREFIX_HASH; index <= PREFIX_RADIX; index++) {
            struct frame f;

            open_cache(&f, types[t], (enum prefix_kind)index, 0, 0, false, 1024);
            assert_int_equal(begin(&f, 0, 0, text(0, 70), 150), 0);
            assert_int_equal(grow(&f, 0, 150), 0);
            assert_int_equal(begin(&f, 1, 0, text(1, 70), 150),
                             index == PREFIX_HASH ? 64 : 70); /* while it runs */
            release(&f, 0);
            assert_int_equal(begin(&f, 2, 0, text(0, 70), 149),
                             index == PREFIX_HASH ? 144 : 149);     /* after it was released */
            assert_int_equal(begin(&f, 3, 1, text(0, 70), 150), 0); /* another seed */
            assert_int_equal(begin(&f, 4, 0, text(2, 0), 150), 0);
            assert_int_equal(begin(&f, 5, 0, text(0, 70), 10), index == PREFIX_HASH ? 0 : 10);
            check_cache(&f);
            kv_close(&f.c);
        }
}

static void the_tail_of_a_sequence_that_ended_within_a_block_is_found_by_radix(void **state)
{
    struct frame f;

    open_cache(&f, "paged", PREFIX_RADIX, 0, 0, false, 1024);
    begin(&f, 0, 0, text(0, 70), 150);
    assert_int_equal(grow(&f, 0, 75), 0);
    release(&f, 0);
    assert_int_equal(begin(&f, 1, 0, text(0, 70), 150), 75);
    assert_int_equal(grow(&f, 1, 75), 0); /* after the rows that it copied */
    check_rows(&f, 1);
    assert_int_equal(begin(&f, 2, 0, text(0, 70), 150), 150 / BLOCK * BLOCK);
    check_cache(&f);
    kv_close(&f.c);
}

static void an_index_that_is_off_finds_nothing(void **state)
{
    struct frame f;
    struct kv_limits lim;
    struct err e;

    open_cache(&f, "paged", PREFIX_RADIX, 0, 0, false, 1024);
    lim = f.c.lim;
    kv_close(&f.c);
    lim.keep_prefixes = false;
    assert_int_equal(kv_open(&f.c, "paged", &lim, &e), 0);
    begin(&f, 0, 0, text(0, 70), 150);
    assert_int_equal(grow(&f, 0, 150), 0);
    assert_int_equal(begin(&f, 1, 0, text(0, 70), 150), 0);
    kv_close(&f.c);
}

/* There are 12 blocks. The first prefix of 8 blocks is used again, then another one of 8 is added. The end of
 * the least recently used prefix is evicted first, and its beginning last. */
static void tails_are_given_away_before_heads(void **state)
{
    struct frame f;

    open_cache(&f, "paged", PREFIX_HASH, 0, 0, false, 12 * BLOCK);
    begin(&f, 0, 0, text(0, 0), 128);
    assert_int_equal(grow(&f, 0, 128), 0);
    release(&f, 0);
    begin(&f, 1, 0, text(1, 0), 64);
    assert_int_equal(grow(&f, 1, 64), 0);
    release(&f, 1);
    begin(&f, 2, 0, text(2, 0), 80); /* The prefix has five blocks, and none is free. */
    assert_int_equal(grow(&f, 2, 80), 0);
    assert_int_equal(begin(&f, 3, 0, text(0, 0), 128), 3 * BLOCK);
    assert_int_equal(begin(&f, 4, 0, text(1, 0), 64), 64);
    check_cache(&f);
    kv_close(&f.c);
}

/* Group 1 sees 32 rows. Its earlier blocks are released and cached while the sequence grows. */
static void windows_find_what_a_query_behind_the_prefix_sees(void **state)
{
    for (int all = 0; all < 2; all++) {
        struct frame f;

        open_cache(&f, "paged", PREFIX_HASH, 32, 0, all, 1024);
        begin(&f, 0, 0, text(0, 100), 160);
        for (size_t i = 0; i < 160; i += 16)
            assert_int_equal(grow(&f, 0, 16), 0);
        assert_int_equal(begin(&f, 1, 0, text(1, 100), 160), 96);
        assert_int_equal(grow(&f, 1, 40), 0);
        check_rows(&f, 1);
        release(&f, 0);
        assert_int_equal(begin(&f, 2, 0, text(0, 100), 160), 160);
        check_cache(&f);
        kv_close(&f.c);
    }
}

/* A prefix of 88 rows is found, whose last 8 rows are in a block that must be copied. Without a block for the
 * copy 80 rows would be adopted, after which a window of 24 sees one more earlier block. Other sequences,
 * which hold three blocks each, allocate one block after another, until that block is evicted and none is
 * left for the copy. */
static void a_prefix_that_is_cut_for_lack_of_a_block_is_what_windows_see(void **state)
{
    size_t n_found[LEN] = {0};

    for (int all = 0; all < 2; all++)
        for (size_t others = 0; others <= 4 * LEN; others += 4) {
            static const size_t by[] = {1, 3, 4, 5};
            struct frame f;
            size_t n, rows = 0;

            open_cache(&f, "paged", PREFIX_RADIX, 24, 0, all, 12 * BLOCK);
            begin(&f, 0, 0, text(0, 0), 88);
            for (size_t i = 0; i < 88; i += 8)
                assert_int_equal(grow(&f, 0, 8), 0);
            release(&f, 0);
            for (size_t k = 0; k < 4; k++)
                begin(&f, by[k], 0, text((int)k + 1, 0), LEN);
            for (size_t k = 0; k < 4; k++)
                while (rows < others && f.seq[by[k]].n < 36 && grow(&f, by[k], 4) == 0)
                    rows += 4;
            n = begin(&f, 2, 0, text(0, 0), 90);
            n_found[n]++;
            check_cache(&f);
            for (size_t k = 0; k < 4; k++) {
                check_rows(&f, by[k]);
                release(&f, by[k]);
            }
            assert_int_equal(grow(&f, 2, 90 - n), 0);
            check_rows(&f, 2);
            check_cache(&f);
            kv_close(&f.c);
        }
    assert_true(n_found[88] > 0 && n_found[80] > 0 && n_found[0] > 0);
}

/* ---- stores: a medium that keeps nothing but the head of the latest record ---- */

static char latest[RECORD_HEADER];

static int sink_open(void **m, const char *where, uint64_t limit, struct err *e)
{
    (void)where;
    (void)limit;
    (void)e;
    *m = (void *)seeds;
    return 0;
}

static int sink_get(void *m, struct prefix_key key, void *out, size_t cap, size_t *n, struct err *e)
{
    (void)m;
    (void)key;
    (void)out;
    (void)cap;
    (void)e;
    *n = 0;
    return 0;
}

static int sink_put(void *m, struct prefix_key key, const void *bytes, size_t n, struct err *e)
{
    (void)m;
    (void)key;
    (void)e;
    assert_true(n >= sizeof(latest));
    memcpy(latest, bytes, sizeof(latest));
    return 0;
}

static void sink_remove(void *m, struct prefix_key key)
{
    (void)m;
    (void)key;
}

static int sink_list(void *m, store_found_fn *found, void *ctx, struct err *e)
{
    (void)m;
    (void)found;
    (void)ctx;
    (void)e;
    return 0;
}

static void sink_close(void *m)
{
    (void)m;
}

static struct store_stats stats_of(struct store *s)
{
    struct store_stats t;

    store_flush(s);
    store_stats(s, &t);
    return t;
}

static uint64_t n_written(struct store *s)
{
    return stats_of(s).n_written;
}

/* Opens a cache in F with a store, which is returned. */
static struct store *open_cache_with_store(struct frame *f)
{
    static const struct store_medium medium = {sink_open,   sink_get,  sink_put,
                                               sink_remove, sink_list, sink_close};
    struct store_options o = {.where = "", .medium = &medium};
    struct kv_limits lim;
    struct store *s;
    struct err e = {0};

    open_cache(f, "paged", PREFIX_HASH, 0, 0, false, 12 * BLOCK);
    lim = f->c.lim;
    kv_close(&f->c);
    lim.store_context = (struct prefix_key){{3, 4}};
    o.record_bytes = kv_record_bytes("paged", &lim);
    assert_int_equal(store_open(&s, &o, &e), 0);
    lim.store = s;
    assert_int_equal(kv_open(&f->c, "paged", &lim, &e), 0);
    return s;
}

/* Returns the context of the records of the cache C in VERSION. */
static struct prefix_key context_in(const struct kv *c, uint64_t version)
{
    const uint64_t size[] = {version,      3, 4, DT_F32, c->lim.n_layers, c->lim.n_kv, c->lim.head_dim, BLOCK,
                             c->tile_bytes};
    XXH128_hash_t part[2] = {XXH3_128bits(size, sizeof(size)), {0}};

    for (size_t l = 0; l < c->lim.n_layers; l++) {
        const uint64_t layer[] = {part[1].low64, part[1].high64, l, kv_layer_dim(&c->lim, l)};

        part[1] = XXH3_128bits(layer, sizeof(layer));
    }
    part[0] = XXH3_128bits(part, sizeof(part));
    return (struct prefix_key){{part[0].low64, part[0].high64}};
}

/* Rows that another version has stored may be wrong: version 1 stored rows under tokens of other hypotheses of a beam
 * search. The context of a record has the version, which is 2; what has another context is not read. */
static void rows_of_another_version_have_another_context(void **state)
{
    struct prefix_key found, wanted;
    struct frame f;
    struct store *s = open_cache_with_store(&f);

    begin(&f, 0, 0, text(0, 0), BLOCK);
    assert_int_equal(grow(&f, 0, BLOCK), 0);
    assert_int_equal(n_written(s), 1);
    memcpy(&found, latest + 32, sizeof(found));
    for (uint64_t version = 0; version < 5; version++) {
        wanted = context_in(&f.c, version);
        assert_int_equal(memcmp(&found, &wanted, sizeof(found)) == 0, version == 2);
    }
    kv_close(&f.c);
    store_close(s);
}

/* All slots of the store are taken while the blocks of sequence 0 are filled. */
static void a_block_that_the_store_could_not_take_is_tried_again_when_it_is_given_away(void **state)
{
    const struct record_name name = {.n_tokens = 1, .n_bytes = 16};
    char *taken[STORE_MOST_SLOTS + 1];
    struct frame f;
    struct store *s = open_cache_with_store(&f);
    size_t n = 0;
    uint64_t before;

    while ((taken[n] = store_take(s, (struct prefix_key){{n, 5}})) != NULL)
        assert_true(++n <= STORE_MOST_SLOTS);
    begin(&f, 0, 0, text(0, 0), 64);
    assert_int_equal(grow(&f, 0, 64), 0);
    release(&f, 0);
    for (size_t i = 0; i < n; i++) {
        record_begin(taken[i], &name);
        store_put(s, taken[i], record_bytes(&name));
    }
    before = n_written(s);
    begin(&f, 1, 0, text(1, 0), 12 * BLOCK);
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(grow(&f, 1, BLOCK), 0);
        assert_int_equal(n_written(s) - before,
                         i + 1 + (i < 8 ? 0 : i - 7)); /* Four blocks are evicted at the end. */
    }
    kv_close(&f.c);
    store_close(s);
}

/* ---- blocks before those that are read from a store ---- */

/* Begins a sequence of N rows with the text WHICH, and releases it. */
static void pass(struct frame *f, size_t seq, int which, size_t n)
{
    assert_int_equal(begin(f, seq, 0, text(which, 0), n), 0);
    assert_int_equal(grow(f, seq, n), 0);
    release(f, seq);
}

/* Opens a cache of 16 blocks with a store that has all 4 blocks of text 0, of which the cache has 2. */
static struct store *open_beside_store(struct frame *f)
{
    struct store_options o = {.where = files_folder(), .limit_bytes = 1 << 30};
    struct kv_limits lim;
    struct store *s;
    struct err e = {0};

    open_cache(f, "paged", PREFIX_HASH, 0, 0, false, 16 * BLOCK);
    lim = f->c.lim;
    kv_close(&f->c);
    o.record_bytes = kv_record_bytes("paged", &lim);
    assert_int_equal(store_open(&s, &o, &e), 0);
    lim.store = s;
    assert_int_equal(kv_open(&f->c, "paged", &lim, &e), 0);
    pass(f, 0, 0, 4 * BLOCK);
    assert_int_equal(n_written(s), 4);
    kv_close(&f->c);
    assert_int_equal(kv_open(&f->c, "paged", &lim, &e), 0);
    pass(f, 0, 0, 2 * BLOCK);
    return s;
}

/* The blocks in the pool count as used when the others are requested. Once these have arrived, the last block
 * of all is evicted first. */
static void blocks_in_front_of_those_that_are_read_are_given_away(void **state)
{
    int32_t prompt[4 * BLOCK];
    size_t from, to;
    struct frame f;
    struct store *s = open_beside_store(&f);
    int place;

    pass(&f, 1, 1, 4 * BLOCK);
    memcpy(prompt, text(0, 0), sizeof(prompt));
    place = kv_read_ahead(&f.c, seeds[0], prompt, 4 * BLOCK, &from, &to);
    assert_true(place >= 0);
    assert_int_equal(from, 2 * BLOCK);
    assert_int_equal(to, 4 * BLOCK);
    assert_int_equal(begin(&f, 2, 0, text(2, 0), 12 * BLOCK), 0);
    /* They go into the 10 free blocks and 2 blocks of text 1. */
    assert_int_equal(grow(&f, 2, 12 * BLOCK), 0);
    while (!kv_read_ahead_go_on(&f.c, place))
        kv_read_ahead_wait(&f.c, 1);
    assert_int_equal(stats_of(s).n_read, 2); /* No block was evicted that then had to be read. */
    assert_int_equal(begin(&f, 4, 0, text(3, 0), BLOCK), 0);
    assert_int_equal(grow(&f, 4, BLOCK), 0);
    assert_int_equal(begin(&f, 3, 0, prompt, 4 * BLOCK), 3 * BLOCK);
    kv_close(&f.c);
    store_close(s);
}

/* ---- random operations in random order ---- */

static void step(struct frame *f, const uint32_t r[4])
{
    size_t seq = r[0] % SEQS, other = r[1] % SEQS, n;
    int32_t token[LEN];

    if (!f->seq[seq].open) { /* Texts have two different tokens, so that many begin alike. */
        for (size_t i = 0; i < LEN; i++)
            token[i] = (int32_t)(i % 23 == 22 ? r[2] >> i / 23 & 1 : 0);
        begin(f, seq, r[3] % 8 == 0, token, r[3] >> 8 & 1 ? LEN : 1 + (r[3] >> 9) % LEN);
        memcpy(f->seq[seq].token, token, sizeof(token));
        return;
    }
    switch (r[2] % 8) {
    case 0: release(f, seq); break;
    case 1: /* The sequence is truncated. */
        n = f->seq[seq].n ? (r[3] >> 4) % f->seq[seq].n : 0;
        if (n == 0) {
            release(f, seq);
        } else if (kv_truncate(&f->c, seq, n) == 0) {
            f->seq[seq].n = n;
            for (size_t i = n; i < LEN; i++)
                f->seq[seq].token[i] = (int32_t)(r[3] >> i % 32 & 1);
            check_rows(f, seq);
        }
        break;
    case 2: /* A fork continues with other tokens. */
        n = f->seq[seq].n ? 1 + (r[3] >> 4) % f->seq[seq].n : 0;
        if (f->seq[other].open || n == 0 || kv_fork(&f->c, seq, n, other) != 0)
            break;
        f->seq[other] = f->seq[seq];
        f->seq[other].n = n;
        for (size_t i = n; i < LEN; i++)
            f->seq[other].token[i] = (int32_t)(r[3] >> i % 32 & 1);
        check_rows(f, other);
        break;
    default:
        n = 1 + (r[3] >> 4) % 40;
        n = n < LEN - f->seq[seq].n ? n : LEN - f->seq[seq].n;
        if (n && grow(f, seq, n) == ERR_NOSPACE && f->seq[other].open)
            release(f, other);
        check_rows(f, seq);
    }
}

static void random_operations_never_show_the_rows_of_others(void **state)
{
    static const struct {
        const char *type;
        enum prefix_kind index;
        size_t window, sink;
        bool all;
        size_t pool;
    } way[] = {
        {"paged", PREFIX_HASH, 0, 0, false, 1024},     {"paged", PREFIX_RADIX, 0, 0, false, 1024},
        {"slab_pool", PREFIX_RADIX, 0, 0, false, 400}, {"paged", PREFIX_HASH, 40, 0, false, 512},
        {"paged", PREFIX_RADIX, 40, 0, false, 512},    {"paged", PREFIX_HASH, 33, 0, true, 512},
        {"paged", PREFIX_RADIX, 33, 0, true, 300},     {"paged", PREFIX_RADIX, 32, 5, true, 512},
        {"paged", PREFIX_HASH, 20, 20, false, 512},
    };

    for (size_t w = 0; w < sizeof(way) / sizeof(way[0]); w++) {
        size_t found = 0, asked = 0;
        struct frame f;

        open_cache(&f, way[w].type, way[w].index, way[w].window, way[w].sink, way[w].all, way[w].pool);
        for (uint64_t i = 0; i < 1000; i++) {
            uint32_t r[4];
            bool was_open;

            rng_block(21, w, i, r);
            was_open = f.seq[r[0] % SEQS].open;
            step(&f, r);
            asked += !was_open;
            found += !was_open && f.seq[r[0] % SEQS].n;
            if (i % 16 == 0)
                check_cache(&f);
        }
        check_cache(&f);
        if (found * 3 < asked) /* Otherwise the test would show little. */
            fail_msg("way %zu: of %zu sequences only %zu found rows", w, asked, found);
        kv_close(&f.c);
    }
}

/* ---- rows under other tokens ---- */

static struct frame renamed;

/* Publishes sequence 0, one of whose tokens has another name than when its row was computed. */
static void publish_renamed(void)
{
    kv_publish(&renamed.c, 0, renamed.seq[0].token, renamed.seq[0].n, true);
}

/* Whatever copied the rows (a fork that was written to, an adoption, a store), they keep the tokens that they were
 * computed from, and are not found under others. */
static void rows_are_published_under_tokens_that_they_were_not_computed_from(void **state)
{
    struct frame *f = &renamed;
    static const char says[] = "the rows of block 1 were computed from other tokens";
    int32_t ids[LEN];

    for (int32_t i = 0; i < LEN; i++)
        ids[i] = i;
    for (int way = 0; way < 4; way++) {
        size_t last = 20;

        open_cache(f, "paged", PREFIX_RADIX, 0, 0, false, 1024);
        begin(f, 0, 0, ids, last);
        if (way == 1) { /* the block was computed by another sequence, and is copied */
            begin(f, 1, 0, ids, 18);
            assert_int_equal(grow(f, 1, 18), 0);
            release(f, 1);
            assert_int_equal(begin(f, 0, 0, ids, last), 18);
        } else if (way == 2) { /* it was forked, and is copied when its last rows are written */
            begin(f, 1, 0, ids, 18);
            assert_int_equal(grow(f, 1, 18), 0);
            assert_int_equal(kv_fork(&f->c, 1, 18, 0), 0);
            f->seq[0].n = 18;
        } else if (way == 3) { /* the rows were computed in two steps */
            assert_int_equal(grow(f, 0, 17), 0);
        }
        assert_int_equal(grow(f, 0, last - f->seq[0].n), 0);
        assert_false(help_aborts(publish_renamed, says));
        for (size_t i = BLOCK; i < last; i++) {
            f->seq[0].token[i]++;
            assert_true(help_aborts(publish_renamed, says));
            f->seq[0].token[i]--;
        }
        assert_false(help_aborts(publish_renamed, says));
        release(f, 0);
        kv_close(&f->c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_one_finds_whole_blocks_by_hash_and_every_row_by_radix),
        cmocka_unit_test(the_tail_of_a_sequence_that_ended_within_a_block_is_found_by_radix),
        cmocka_unit_test(a_prefix_that_is_cut_for_lack_of_a_block_is_what_windows_see),
        cmocka_unit_test(rows_of_another_version_have_another_context),
        cmocka_unit_test(a_block_that_the_store_could_not_take_is_tried_again_when_it_is_given_away),
        cmocka_unit_test(blocks_in_front_of_those_that_are_read_are_given_away),
        cmocka_unit_test(an_index_that_is_off_finds_nothing),
        cmocka_unit_test(tails_are_given_away_before_heads),
        cmocka_unit_test(windows_find_what_a_query_behind_the_prefix_sees),
        cmocka_unit_test(random_operations_never_show_the_rows_of_others),
        cmocka_unit_test(rows_are_published_under_tokens_that_they_were_not_computed_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
