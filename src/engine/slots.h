/* slots.h - the KV rows of running sequences, for executors that have a KV cache of ours. */
#ifndef GALLOP_ENGINE_SLOTS_H
#define GALLOP_ENGINE_SLOTS_H

#include "engine/executor.h"
#include "kv/kv.h"

struct slots {
    struct kv *kv;        /* borrowed */
    struct kv_want *want; /* [max_seqs] */
};

int slots_open(struct slots *s, struct kv *kv, struct err *e);
void slots_close(struct slots *s); /* a zeroed one is fine */

/* Functions of struct executor. REGIME: what rows depend on besides tokens, salt and model. */
bool slots_has_room(struct slots *s, const struct executor_want *want, size_t n);
size_t slots_begin(struct slots *s, size_t slot, const struct executor_prefix *p, uint64_t regime);
int slots_ahead(struct slots *s, const struct executor_prefix *p, uint64_t regime, size_t *from, size_t *to);
void slots_release(struct slots *s, size_t slot, const int32_t *token, size_t n);
/* to be called after a run */
void slots_computed(struct slots *s, const struct executor_rows *rows, size_t n);

#endif
