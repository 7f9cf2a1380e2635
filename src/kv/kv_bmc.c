/* kv_bmc.c - balanced memory and compute: capacity grows in splits of ceil(max_len / splits) rows, so that a
 * sequence is copied at most `splits` times and holds at most one split more than it fills. Attention touches
 * filled rows only. The middle way of floor(sqrt(max_len)) splits is AMD PACE's. Regions and copying:
 * kvgrow.h. */
#include "kv/kvgrow.h"

static size_t root(size_t n)
{
    size_t r = 1;

    while ((r + 1) * (r + 1) <= n)
        r++;
    return r;
}

static size_t capacity(const struct kv *c, size_t have, size_t need)
{
    size_t splits = c->lim.splits ? c->lim.splits : root(c->lim.max_len);
    size_t split = (c->lim.max_len + splits - 1) / splits;

    (void)have;
    return (need + split - 1) / split * split;
}

static int bmc_open(struct kv *c, struct err *e)
{
    return kvgrow_open(c, capacity, e);
}

const struct kv_type kv_bmc = {.name = "bmc",
                               .open = bmc_open,
                               .reserve = kvgrow_reserve,
                               .has_room = kvgrow_has_room,
                               .truncate = kvgrow_truncate,
                               .fork = kvgrow_fork,
                               .advance = kvgrow_advance,
                               .sees = kvgrow_sees,
                               .view = kvgrow_view,
                               .bytes = kvgrow_bytes,
                               .held = kvgrow_held,
                               .check = kvgrow_check,
                               .close = kvgrow_close};
