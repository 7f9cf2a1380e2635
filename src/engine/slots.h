/* slots.h - functions of struct executor for KV rows, shared by the executors that have a struct kv. */
#ifndef GALLOP_ENGINE_SLOTS_H
#define GALLOP_ENGINE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct executor_prefix;
struct executor_rows;
struct executor_want;
struct kv;
struct kv_want;

struct slots {
    struct kv *kv;        /* borrowed */
    struct kv_want *want; /* [max_seqs] */
};

int slots_open(struct slots *s, struct kv *kv, struct err *e);
void slots_close(struct slots *s); /* S may be zeroed */

/* Returns the seed (prefix.h) under which the prefix cache has the rows of P: a hash of its salt and REGIME. */
struct prefix_key slots_key(const struct executor_prefix *p, uint64_t regime);

/* Implementations of functions of struct executor. REGIME is a hash of all settings that KV rows depend on besides
 * tokens, salt and model; only sequences with equal REGIME share rows. */
bool slots_has_room(struct slots *s, const struct executor_want *want, size_t n);
size_t slots_begin(struct slots *s, size_t slot, const struct executor_prefix *p, uint64_t regime);
int slots_read_ahead(struct slots *s, const struct executor_prefix *p, uint64_t regime, size_t *from,
                     size_t *to);
/* Tells the cache the tokens from which ROWS [n] are computed. */
void slots_run(struct slots *s, const struct executor_rows *rows, size_t n);
void slots_release(struct slots *s, size_t slot, const int32_t *token, size_t n);
void slots_settle(struct slots *s, size_t slot, const int32_t *token, size_t n);

#endif
