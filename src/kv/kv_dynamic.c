/* kv_dynamic.c - a cache that grows with each sequence: capacity doubles, so that copying is amortised to a
 * constant a row. Regions and copying: kvgrow.h. */
#include "kern/kern.h"
#include "kv/kvgrow.h"

static size_t capacity(const struct kv *c, size_t have, size_t need)
{
    size_t want = have ? 2 * have : 4 * KERN_TILE;

    (void)c;
    return want < need ? need : want;
}

static int dynamic_open(struct kv *c, struct err *e)
{
    return kvgrow_open(c, capacity, e);
}

const struct kv_type kv_dynamic = {.name = "dynamic",
                                   .open = dynamic_open,
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
