/* test_random.c - every cache type against an array oracle: random reserve, write, truncate, fork, release,
 * advance, move, publish, adopt and exhaustion. Rows keep their contents as long as a query can see them, no
 * block is lost or held more often than it is counted, and exhaustion is a code that changes nothing.
 *
 * GALLOP_KV_OPERATIONS is the number of operations for each cache (10000).
 */

#include "base/files/map.h"
#include "base/mem.h"
#include "base/rng.h"
#include "caches.h"
#include "kern/kern.h"
#include "pairs.h"
#include "tiles.h"

enum { SEQS = 5, MAX_LEN = 208, LAYERS = 3, HEADS = 2, DIM = 18, PREFIXES = 8 };

static const size_t windows[LAYERS + 1] = {0, 24, 70, 9},
                                     /* the last layer may share the rows of another */
    sinks[LAYERS + 1] = {0, 5, 33, 0};

/* The expected contents of each row of each sequence: a stamp, from which the contents of all layers and
 * heads follow. */
struct oracle {
    uint32_t stamp[SEQS][MAX_LEN];
    size_t len[SEQS];
    size_t pos[SEQS]; /* There are no more queries before it. */
    struct {
        uint32_t stamp[MAX_LEN];
        size_t rows;
    } prefix[PREFIXES]; /* rows that were published, some of them long ago */
    uint32_t next_stamp;
    size_t n_full, n_gone, n_forked, n_moved, n_adopted, n_dropped, n_refused;
};

struct trial {
    struct kv c;
    struct oracle *o;
};

/* Returns whether a query at POS sees row ROW of LAYER. */
static bool sees(const struct kv *c, size_t layer, size_t row, size_t pos)
{
    size_t window = c->lim.window ? c->lim.window[layer] : 0, sink = c->lim.sink ? c->lim.sink[layer] : 0;

    return !window || row + window > pos || row < sink || pos < sink + window;
}

static void check_rows(struct trial *t, size_t seq, bool every)
{
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t pos = 0; pos < t->o->len[seq]; pos++)
            if (sees(&t->c, l, pos, t->o->pos[seq]) &&
                !caches_is(&t->c, seq, l, pos, t->o->stamp[seq][pos], every))
                fail_msg("%s: sequence %zu of %zu rows lost row %zu of layer %zu", t->c.type->name, seq,
                         t->o->len[seq], pos, l);
}

/* The stamps are the tokens. */
static const int32_t *tokens(const uint32_t *stamp)
{
    return (const int32_t *)(const void *)stamp;
}

static void write_rows(struct trial *t, size_t seq, size_t n)
{
    for (size_t pos = t->o->len[seq]; pos < n; pos++) {
        t->o->stamp[seq][pos] = ++t->o->next_stamp;
        caches_write(&t->c, seq, pos, t->o->next_stamp);
        kv_set_tokens(&t->c, seq, pos, tokens(&t->o->stamp[seq][pos]), 1);
    }
    t->o->len[seq] = n;
}

/* If blocks are not shared, no two positions of any sequences are in the same slot of a tile. */
static void check_apart(struct trial *t)
{
    char *seen[SEQS * (MAX_LEN / KERN_TILE + 1)];
    size_t n = 0;

    for (size_t s = 0; s < SEQS; s++) {
        struct kv_view v = kv_view(&t->c, s);

        for (size_t pos = 0; pos < t->o->len[s]; pos += KERN_TILE) {
            char *tile = caches_tile(&v, 0, 0, pos, false);

            for (size_t i = 0; i < n; i++)
                if (seen[i] == tile)
                    fail_msg("%s: a tile belongs to two", t->c.type->name);
            seen[n++] = tile;
        }
    }
}

static void check_all(struct trial *t, const size_t touched[2])
{
    struct err e = {0};

    check_rows(t, touched[0], false);
    check_rows(t, touched[1], false);
    if (kv_check(&t->c, &e) != 0)
        fail_msg("%s: %s", t->c.type->name, e.msg);
    if (!kv_type_pooled(t->c.type->name))
        check_apart(t);
}

/* ---- operations: on SEQ, with another sequence OTHER and a number U ---- */

static void grow(struct trial *t, size_t seq, uint32_t u)
{
    size_t n = t->o->len[seq] + u % 40;
    int rc;

    n = n > MAX_LEN ? MAX_LEN : n;
    rc = kv_reserve(&t->c, seq, n);
    assert_true(rc == 0 || rc == ERR_NOSPACE);
    t->o->n_full += rc == ERR_NOSPACE;
    if (rc == 0)
        write_rows(t, seq, n);
}

/* kv_has_room() must be right, except that paged counts a copy for each sequence that shares a block. */
static void grow_together(struct trial *t, size_t seq, size_t other, uint32_t u)
{
    size_t n[2] = {t->o->len[seq] + u % 90, t->o->len[other] + u / 90 % 90};
    struct kv_want want[2];
    size_t n_wants = 1 + (seq != other), n_done = 0;
    const char *type = t->c.type->name;
    bool said, pooled = kv_type_pooled(type);

    for (size_t i = 0; i < n_wants; i++)
        want[i] = (struct kv_want){i ? other : seq, n[i] < MAX_LEN ? n[i] : MAX_LEN};
    said = kv_has_room(&t->c, want, n_wants);
    t->o->n_refused += !said;
    for (size_t i = 0; i < n_wants; i++)
        if (kv_reserve(&t->c, want[i].seq, want[i].n) == 0) {
            write_rows(t, want[i].seq,
                       want[i].n > t->o->len[want[i].seq] ? want[i].n : t->o->len[want[i].seq]);
            n_done++;
        }
    if ((said && n_done < n_wants) || (!said && n_done == n_wants && !pooled))
        fail_msg("%s: %zu of %zu sequences got their rows, but it was said that %s can", type, n_done,
                 n_wants, said ? "all" : "not all");
}

static void truncate_to(struct trial *t, size_t seq, size_t n)
{
    int rc = kv_truncate(&t->c, seq, n);

    if (rc && (rc != KV_GONE || !t->c.lim.window || n == 0 || n >= t->o->pos[seq]))
        fail_msg("%s: code %d for going back from %zu to %zu, advanced to %zu", t->c.type->name, rc,
                 t->o->len[seq], n, t->o->pos[seq]);
    t->o->n_gone += rc == KV_GONE;
    if (rc)
        return;
    t->o->len[seq] = n;
    if (t->o->pos[seq] > n)
        t->o->pos[seq] = n;
}

static void take_over(struct oracle *o, size_t seq, const uint32_t *stamp, size_t n)
{
    memmove(o->stamp[seq], stamp, n * sizeof(*stamp));
    o->len[seq] = o->pos[seq] = n;
}

static void fork_at(struct trial *t, size_t seq, size_t n, size_t other)
{
    int rc;

    if (seq == other || t->o->len[other])
        return;
    rc = kv_fork(&t->c, seq, n, other);
    assert_true(rc == 0 || rc == ERR_NOSPACE || (rc == KV_GONE && n < t->o->pos[seq]));
    t->o->n_full += rc == ERR_NOSPACE;
    if (rc)
        return;
    take_over(t->o, other, t->o->stamp[seq], n);
    t->o->n_forked += n > 0;
}

static void advance(struct trial *t, size_t seq, uint32_t u)
{
    size_t pos = t->o->len[seq] - u % (t->o->len[seq] / 4 + 1);

    if (pos < t->o->pos[seq])
        return;
    kv_advance(&t->c, seq, pos);
    t->o->pos[seq] = pos;
    t->o->n_dropped += !sees(&t->c, 1, 10, pos);
}

/* Rows come from another cache: of windows, only the visible ones. */
static void move(struct trial *t, size_t seq, size_t other)
{
    size_t n = t->o->len[seq];
    int rc;

    if (n == 0 || other == seq || t->o->len[other])
        return;
    rc = tiles_move(&t->c, seq, n, &t->c, other);
    assert_true(rc == 0 || rc == ERR_NOSPACE);
    if (rc)
        return;
    take_over(t->o, other, t->o->stamp[seq], n);
    for (size_t pos = 0; pos < n; pos++)
        if (pos >= kv_group_first(&t->c.group[0], n) || pos < t->c.group[0].sink)
            kv_set_tokens(&t->c, other, pos, tokens(&t->o->stamp[other][pos]), 1);
    check_rows(t, other, true);
    t->o->n_moved++;
}

static const struct prefix_key seed = {{1, 2}};

static void publish(struct trial *t, size_t seq, uint32_t u)
{
    size_t n = t->o->len[seq];

    kv_publish(&t->c, seq, tokens(t->o->stamp[seq]), n, u & 1);
    memcpy(t->o->prefix[u % PREFIXES].stamp, t->o->stamp[seq], n * sizeof(uint32_t));
    t->o->prefix[u % PREFIXES].rows = n;
}

static void adopt(struct trial *t, size_t seq, uint32_t u)
{
    size_t n = t->o->prefix[u % PREFIXES].rows, found;

    if (t->o->len[seq])
        return;
    found = kv_adopt(&t->c, seq, seed, tokens(t->o->prefix[u % PREFIXES].stamp), n);
    assert_true(found <= n);
    take_over(t->o, seq, t->o->prefix[u % PREFIXES].stamp, found);
    t->o->n_adopted += found > 0;
}

static void one_operation(struct trial *t, uint64_t i)
{
    uint32_t u[4];
    size_t seq, other, len;

    rng_block(5, 0, i, u);
    seq = u[0] % SEQS;
    other = u[2] % SEQS;
    len = t->o->len[seq];
    switch (u[1] % 16) {
    case 0:
    case 1: truncate_to(t, seq, len ? u[3] % len : 0); break;
    case 2:
        kv_release(&t->c, seq);
        t->o->len[seq] = t->o->pos[seq] = 0;
        break;
    case 3:
    case 4: fork_at(t, seq, len ? u[3] % (len + 1) : 0, other); break;
    case 5:
    case 6: advance(t, seq, u[3]); break;
    case 7: move(t, seq, other); break;
    case 8: publish(t, seq, u[3]); break;
    case 9:
    case 10: adopt(t, seq, u[3]); break;
    case 11:
    case 12: grow_together(t, seq, other, u[3]); break;
    default: grow(t, seq, u[3]);
    }
    check_all(t, (const size_t[2]){seq, other});
}

/* After all sequences are released, the promised number of rows can be reserved. In types that grow,
 * capacities may be twice what is filled. */
static void nothing_is_lost(struct trial *t)
{
    size_t share = t->c.lim.pool_tokens / SEQS / (kv_type_pooled(t->c.type->name) ? 1 : 2);
    size_t n = share / t->c.lim.block * t->c.lim.block;

    for (size_t s = 0; s < SEQS; s++)
        kv_release(&t->c, s);
    for (size_t s = 0; s < SEQS; s++) {
        t->o->len[s] = t->o->pos[s] = 0;
        assert_int_equal(kv_reserve(&t->c, s, n), 0);
        write_rows(t, s, n);
    }
    for (size_t s = 0; s < SEQS; s++)
        check_rows(t, s, true);
}

enum { TYPE, WINDOWS, ROWS, BLOCK, LAYOUT, SHARED, N_DIMENSIONS };

static void random_operations(const size_t at[N_DIMENSIONS])
{
    static const enum dtype dtypes[] = {DT_F32, DT_BF16, DT_I8, DT_I4};
    const char *type = kv_type_name(at[TYPE]);
    bool windowed = at[WINDOWS] > 0;
    const struct kv_limits lim = {.n_layers = LAYERS,
                                  .n_shared = at[SHARED],
                                  .n_kv = HEADS,
                                  .head_dim = DIM,
                                  .dtype = dtypes[at[ROWS]],
                                  .max_seqs = SEQS,
                                  .max_len = MAX_LEN,
                                  .pool_tokens = 400,
                                  .block = (size_t)16 << at[BLOCK],
                                  .layout = (enum kv_layout)at[LAYOUT],
                                  .keep_prefixes = true,
                                  .prefix_index = at[BLOCK] % 2 ? PREFIX_RADIX : PREFIX_HASH,
                                  .window = windowed ? windows : NULL,
                                  .sink = at[WINDOWS] > 1 ? sinks : NULL};
    const char *env = getenv("GALLOP_KV_OPERATIONS");
    uint64_t n = env ? strtoull(env, NULL, 10) : 10000;
    struct trial t = {.o = calloc(1, sizeof(*t.o))};
    bool pooled = kv_type_pooled(type);
    struct err e = {0};

    if (kv_open(&t.c, type, &lim, &e) != 0)
        fail_msg("%s", e.msg);
    for (uint64_t i = 0; i < n; i++)
        one_operation(&t, i);
    for (size_t s = 0; s < SEQS; s++)
        check_rows(&t, s, true);
    nothing_is_lost(&t);
    if (n >= 10000) { /* Every operation was tried. */
        assert_true(t.o->n_full > 0 && t.o->n_forked > 0 && t.o->n_moved > 0 && t.o->n_refused > 0);
        assert_true((t.o->n_adopted > 0) == pooled);
        assert_true((t.o->n_dropped > 0) == windowed);
        assert_true((t.o->n_gone > 0) == windowed);
    }
    kv_close(&t.c);
    assert_int_equal(mem_tag_bytes(MEM_KV), 0);
    assert_int_equal(map_region_live_bytes(), 0);
    free(t.o);
}

static void a_type_loses_a_row_that_can_be_seen(void **state)
{
    size_t size[N_DIMENSIONS] = {0, 3, 3, 2, 2, 2}, n;
    struct pairs_row *row;

    while (kv_type_name(size[TYPE]))
        size[TYPE]++;
    row = pairs_cover(size, N_DIMENSIONS, 1u << TYPE | 1u << WINDOWS, &n);
    for (size_t i = 0; i < n; i++)
        random_operations(row[i].at);
    free(row);
}

/* N sequences grow to N_ROWS together, in steps of 24 rows, and release what windows do not show. */
static bool run_to(struct kv *c, size_t n, size_t n_rows)
{
    size_t len[SEQS] = {0};
    bool whole = true, more = true;

    while (whole && more) {
        size_t left = 24;

        more = false;
        for (size_t s = 0; s < n && whole; s++) {
            size_t step = n_rows - len[s] < left ? n_rows - len[s] : left;

            whole = kv_reserve(c, s, len[s] + step) == 0;
            len[s] += step;
            left -= step;
            more = more || len[s] < n_rows;
        }
        for (size_t s = 0; s < n && whole; s++)
            kv_advance(c, s, len[s]);
    }
    for (size_t s = 0; s < n; s++)
        kv_release(c, s);
    return whole;
}

/* Where all layers have windows a cache need not hold the rows of whole sequences. */
static void sequences_run_to_their_end_where_windows_leave_room_for_them(void **state)
{
    static const size_t narrow[LAYERS] = {24, 24, 40}, all[LAYERS] = {0, 24, 40};
    size_t n_runs = 0, n_refused = 0, n_small = 0;

    for (int keeps = 0; keeps < 2; keeps++)
        for (int paged = 0; paged < 2; paged++)
            for (size_t tokens = 16; tokens <= 640; tokens += 16)
                for (size_t n = 1; n <= 3; n++) {
                    const char *type = paged ? "paged" : "slab_pool";
                    struct kv_limits lim = {.n_layers = LAYERS,
                                            .n_kv = 1,
                                            .head_dim = 8,
                                            .max_seqs = SEQS,
                                            .max_len = MAX_LEN,
                                            .pool_tokens = tokens,
                                            .block = 16,
                                            .step_tokens = 24,
                                            .window = keeps ? all : narrow};
                    struct kv_want want[3] = {{0, MAX_LEN}, {1, MAX_LEN}, {2, MAX_LEN}};
                    struct kv c;
                    bool said;

                    assert_int_equal(kv_open(&c, type, &lim, NULL), 0);
                    said = kv_has_room(&c, want, n);
                    if (said != (tokens >= kv_least_tokens(type, &lim)) && n == 1)
                        fail_msg("%s of %zu tokens: one sequence has %s room, but %zu are the least it needs",
                                 type, tokens, said ? "" : "no", kv_least_tokens(type, &lim));
                    if (said && !run_to(&c, n, MAX_LEN))
                        fail_msg("%s of %zu tokens: room for %zu sequences was promised", type, tokens, n);
                    n_runs += said;
                    n_refused += !said;
                    n_small += said && tokens < n * MAX_LEN;
                    kv_close(&c);
                }
    assert_true(n_runs > 50 && n_refused > 50 && n_small > 50);
}

static void unknown_types_and_odd_blocks_are_refused_with_a_sentence(void **state)
{
    struct kv_limits lim = {
        .n_layers = 1, .n_kv = 1, .head_dim = 8, .max_seqs = 1, .max_len = 16, .pool_tokens = 16};
    struct err e = {0};
    struct kv c;

    assert_int_equal(kv_open(&c, "heap", &lim, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "heap"));
    lim.block = 24;
    assert_int_equal(kv_open(&c, "slab_pool", &lim, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "24"));
    lim.block = 512;
    assert_int_equal(kv_open(&c, "paged", &lim, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "512"));
    lim.block = 0;
    lim.dtype = DT_F16;
    assert_int_equal(kv_open(&c, "paged", &lim, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "F16"));
    lim.dtype = DT_F32;
    lim.splits = 17;
    assert_int_equal(kv_open(&c, "bmc", &lim, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "17 splits"));
    kv_close(&c); /* a cache that never opened */
}

static void a_failing_allocation_leaves_nothing_behind(void **state)
{
    struct kv_limits lim = {.n_layers = LAYERS,
                            .n_kv = 1,
                            .head_dim = 8,
                            .max_seqs = 2,
                            .max_len = 100,
                            .pool_tokens = 200,
                            .window = windows};

    for (size_t i = 0; kv_type_name(i); i++)
        for (long n = 1;; n++) {
            struct err e = {0};
            struct kv c;
            int rc;

            mem_fail_at(n);
            rc = kv_open(&c, kv_type_name(i), &lim, &e);
            if (rc == 0) {
                int made = kv_reserve(&c, 0, 90);

                made = made ? made : kv_fork(&c, 0, 50, 1);
                assert_true(made == 0 || made == ERR_NOMEM);
            } else {
                assert_true(strlen(e.msg) > 10);
            }
            if (rc == 0)
                kv_close(&c);
            assert_int_equal(mem_tag_bytes(MEM_KV), 0);
            assert_int_equal(map_region_live_bytes(), 0);
            if (!mem_failed())
                break;
        }
    mem_fail_at(0);
}

static void a_comparison_of_rows_fails_on_one_changed_byte(void **state)
{
    static const enum dtype dtype[] = {DT_F32, DT_BF16, DT_I8, DT_I4};

    for (size_t t = 0; t < 4; t++) {
        const struct kv_limits lim = {.n_layers = 2,
                                      .n_kv = 2,
                                      .head_dim = DIM,
                                      .dtype = dtype[t],
                                      .max_seqs = 1,
                                      .max_len = 64,
                                      .pool_tokens = 64};
        struct kv_view v;
        struct kv c;
        char *p;

        assert_int_equal(kv_open(&c, "slab_pool", &lim, NULL), 0);
        assert_int_equal(kv_reserve(&c, 0, 40), 0);
        for (size_t pos = 0; pos < 40; pos++)
            caches_write(&c, 0, pos, (uint32_t)pos + 1);
        assert_true(caches_is(&c, 0, 1, 33, 34, true));
        assert_false(caches_is(&c, 0, 1, 33, 35, true)); /* another stamp */
        v = kv_view(&c, 0);
        p = caches_tile(&v, 1, 1, 33, true);
        for (size_t b = 0; b < c.tile_bytes; b++)
            p[b] ^= 1; /* every byte of the tile, including those of row 33 */
        assert_false(caches_is(&c, 0, 1, 33, 34, true));
        assert_false(caches_is(&c, 0, 1, 33, 34, false));
        assert_true(caches_is(&c, 0, 0, 33, 34, true));
        kv_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comparison_of_rows_fails_on_one_changed_byte),
        cmocka_unit_test(a_type_loses_a_row_that_can_be_seen),
        cmocka_unit_test(sequences_run_to_their_end_where_windows_leave_room_for_them),
        cmocka_unit_test(unknown_types_and_odd_blocks_are_refused_with_a_sentence),
        cmocka_unit_test(a_failing_allocation_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
