/* kvgrow.h - caches in which each sequence has one region of its own that is replaced by a larger one: what
 * dynamic and bmc share.
 *
 * Region: [L][K, V][n_kv][capacity] tiles; the tile table is the identity, so the rows of a head are
 * neighbours. Copying happens only when a region grows, and the old one gives its pages back plane by plane
 * meanwhile. All rows are kept, also those below a window, but a sequence that is advanced while it is empty
 * (kv_wire_load()) never has the first ones. The capacities of all sequences together stay within the budget.
 */
#ifndef GALLOP_KV_KVGROW_H
#define GALLOP_KV_KVGROW_H

#include "kv/kv.h"

/* The capacity wanted for NEED rows where there is one of HAVE rows. */
typedef size_t kvgrow_fn(const struct kv *c, size_t have, size_t need);

int kvgrow_open(struct kv *c, kvgrow_fn *capacity, struct err *e);
int kvgrow_reserve(struct kv *c, size_t seq, size_t n);
bool kvgrow_has_room(const struct kv *c, const struct kv_want *want, size_t n);
int kvgrow_truncate(struct kv *c, size_t seq, size_t n); /* frees the region with the last row */
void kvgrow_advance(struct kv *c, size_t seq, size_t pos);
bool kvgrow_sees(const struct kv *c, size_t seq, size_t n);
int kvgrow_fork(struct kv *c, size_t from, size_t n, size_t to);
struct kv_view kvgrow_view(const struct kv *c, size_t seq);
size_t kvgrow_bytes(const struct kv *c);
size_t kvgrow_held(const struct kv *c, size_t seq);
int kvgrow_check(const struct kv *c, struct err *e);
void kvgrow_close(struct kv *c);

#endif
