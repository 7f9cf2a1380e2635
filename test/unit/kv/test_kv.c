/* test_kv.c - every cache type against an array oracle: random reserve, write, truncate, fork, release and
 * exhaustion. Rows keep what was written, no tile is shared, and exhaustion is a code that changes nothing.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kern/kern.h"
#include "kv/kv.h"

enum { SEQS = 5, MAX_LEN = 200, LAYERS = 2, HEADS = 3, DIM = 16, OPERATIONS = 20000 };

/* What each row of each sequence should hold: one stamp, written to all layers and heads (made different by
 * them). */
struct oracle {
    uint32_t stamp[SEQS][MAX_LEN];
    size_t len[SEQS]; /* rows written */
    size_t reserved[SEQS];
};

static char *tile(const struct kv_view *v, size_t layer, size_t head, size_t pos, bool value)
{
    const struct kv_layer *l = &v->layer[layer];
    uint32_t t = v->tile[l->group][pos / KERN_TILE];

    return (value ? l->v : l->k) + (size_t)(t >> l->block_shift) * l->block_bytes + head * l->head_bytes +
           (t & ((1u << l->block_shift) - 1)) * l->tile_bytes;
}

/* The place of a row's first element in a K tile [dp][16] or V tile [16][dp] of fp32. */
static float *cell(const struct kv_view *v, size_t layer, size_t head, size_t pos, bool value)
{
    float *t = (float *)(void *)tile(v, layer, head, pos, value);

    return value ? t + pos % KERN_TILE * DIM : t + pos % KERN_TILE;
}

static float mark(uint32_t stamp, size_t layer, size_t head, bool value)
{
    return (float)(stamp % 100003) * 16 + (float)(layer * 8 + head * 2 + value);
}

static void write_rows(struct kv *c, struct oracle *o, size_t seq, size_t n, uint32_t *stamp)
{
    struct kv_view v = kv_view(c, seq);

    for (size_t pos = o->len[seq]; pos < n; pos++) {
        o->stamp[seq][pos] = ++*stamp;
        for (size_t l = 0; l < LAYERS; l++)
            for (size_t h = 0; h < HEADS; h++) {
                *cell(&v, l, h, pos, false) = mark(*stamp, l, h, false);
                *cell(&v, l, h, pos, true) = mark(*stamp, l, h, true);
            }
    }
    o->len[seq] = n;
}

static void check_rows(struct kv *c, const struct oracle *o, size_t seq)
{
    struct kv_view v = kv_view(c, seq);

    for (size_t pos = 0; pos < o->len[seq]; pos++)
        for (size_t l = 0; l < LAYERS; l++)
            for (size_t h = 0; h < HEADS; h++)
                if (*cell(&v, l, h, pos, false) != mark(o->stamp[seq][pos], l, h, false) ||
                    *cell(&v, l, h, pos, true) != mark(o->stamp[seq][pos], l, h, true))
                    fail_msg("%s: sequence %zu lost row %zu of layer %zu, head %zu", c->type->name, seq, pos,
                             l, h);
}

/* No two positions of any sequences lie in the same tile slot. */
static void check_sharing(struct kv *c, const struct oracle *o)
{
    char *seen[SEQS * (MAX_LEN / KERN_TILE + 1)];
    size_t n = 0;

    for (size_t s = 0; s < SEQS; s++) {
        struct kv_view v = kv_view(c, s);

        for (size_t pos = 0; pos < o->reserved[s]; pos += KERN_TILE) {
            char *t = tile(&v, 0, 0, pos, false);

            for (size_t i = 0; i < n; i++)
                if (seen[i] == t)
                    fail_msg("%s: a tile belongs to two", c->type->name);
            seen[n++] = t;
        }
    }
}

static void one_operation(struct kv *c, struct oracle *o, uint64_t i, uint32_t *stamp, size_t *n_full)
{
    uint32_t u[4];
    size_t seq, n;
    int rc;

    rng_block(5, 0, i, u);
    seq = u[0] % SEQS;
    switch (u[1] % 8) {
    default:
        n = o->len[seq] + u[2] % 40;
        n = n > MAX_LEN ? MAX_LEN : n;
        rc = kv_reserve(c, seq, n);
        *n_full += rc == ERR_NOSPACE;
        assert_true(rc == 0 || rc == ERR_NOSPACE);
        if (rc == 0) {
            o->reserved[seq] = n > o->reserved[seq] ? n : o->reserved[seq];
            write_rows(c, o, seq, n, stamp);
        }
        break;
    case 5:
        n = o->len[seq] ? u[2] % o->len[seq] : 0;
        kv_truncate(c, seq, n);
        o->len[seq] = n;
        o->reserved[seq] = n;
        break;
    case 6:
        kv_release(c, seq);
        o->len[seq] = o->reserved[seq] = 0;
        break;
    case 7:
        if (seq == u[2] % SEQS || o->len[u[2] % SEQS])
            break;
        n = o->len[seq] ? u[3] % (o->len[seq] + 1) : 0;
        rc = kv_fork(c, seq, n, u[2] % SEQS);
        assert_true(rc == 0 || rc == ERR_NOSPACE);
        if (rc == 0) {
            memcpy(o->stamp[u[2] % SEQS], o->stamp[seq], n * sizeof(o->stamp[seq][0]));
            o->len[u[2] % SEQS] = o->reserved[u[2] % SEQS] = n;
        }
    }
    check_rows(c, o, seq);
    check_rows(c, o, u[2] % SEQS);
    check_sharing(c, o);
}

static void random_operations(const char *type, size_t block)
{
    const struct kv_limits lim = {.n_layers = LAYERS,
                                  .n_kv = HEADS,
                                  .head_dim = DIM,
                                  .dtype = DT_F32,
                                  .max_seqs = SEQS,
                                  .max_len = MAX_LEN,
                                  .pool_tokens = 512,
                                  .block = block};
    struct oracle *o = calloc(1, sizeof(*o));
    struct err e = {0};
    struct kv c;
    uint32_t stamp = 0;
    size_t n_full = 0;

    assert_int_equal(kv_open(&c, type, &lim, &e), 0);
    for (uint64_t i = 0; i < OPERATIONS; i++)
        one_operation(&c, o, i, &stamp, &n_full);
    for (size_t s = 0; s < SEQS; s++)
        check_rows(&c, o, s);
    if (strcmp(type, "dynamic") != 0)
        assert_true(n_full > 0); /* the pool was made small enough to run out */
    kv_close(&c);
    assert_int_equal(mem_tag_bytes(MEM_KV), 0);
    free(o);
}

static void every_type_keeps_every_row(void **state)
{
    (void)state;
    for (size_t i = 0; kv_type_name(i); i++) {
        random_operations(kv_type_name(i), 16);
        random_operations(kv_type_name(i), 64);
    }
}

static void unknown_types_and_odd_blocks_are_refused_with_a_sentence(void **state)
{
    struct kv_limits lim = {
        .n_layers = 1, .n_kv = 1, .head_dim = 8, .max_seqs = 1, .max_len = 16, .pool_tokens = 16};
    struct err e = {0};
    struct kv c;

    (void)state;
    assert_int_equal(kv_open(&c, "heap", &lim, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "heap"));
    lim.block = 24;
    assert_int_equal(kv_open(&c, "slab_pool", &lim, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "24"));
    kv_close(&c); /* of one that never opened */
}

static void a_token_costs_what_its_padded_rows_hold(void **state)
{
    struct kv_limits lim = {.n_layers = 3, .n_kv = 2, .head_dim = 20, .dtype = DT_BF16};

    (void)state;
    assert_int_equal(kv_token_bytes(&lim), 3 * 2 * 2 * 32 * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_keeps_every_row),
        cmocka_unit_test(unknown_types_and_odd_blocks_are_refused_with_a_sentence),
        cmocka_unit_test(a_token_costs_what_its_padded_rows_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
