/* slots.c - implements functions of struct executor with functions of struct kv. */
#include "engine/slots.h"

#include <string.h>
#include <xxhash.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/executor.h"
#include "kv/kv.h"
#include "kv/prefix.h"

int slots_open(struct slots *s, struct kv *kv, struct err *e)
{
    *s = (struct slots){.kv = kv};
    s->want = mem_zalloc(kv->lim.max_seqs, sizeof(*s->want), MEM_ENGINE);
    return s->want ? 0 : err_nomem(e, "the slots of sequences");
}

void slots_close(struct slots *s)
{
    mem_free(s->want);
    *s = (struct slots){0};
}

bool slots_has_room(struct slots *s, const struct executor_want *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->want[i] = (struct kv_want){want[i].slot, want[i].n};
    return kv_has_room(s->kv, s->want, n);
}

struct prefix_key slots_key(const struct executor_prefix *p, uint64_t regime)
{
    struct {
        uint8_t salt[16];
        uint64_t has_salt, regime;
    } all = {.has_salt = p->salt != NULL, .regime = regime};
    XXH128_hash_t h;

    if (p->salt)
        memcpy(all.salt, p->salt, sizeof(all.salt));
    h = XXH3_128bits(&all, sizeof(all));
    return (struct prefix_key){{h.low64, h.high64}};
}

size_t slots_begin(struct slots *s, size_t slot, const struct executor_prefix *p, uint64_t regime)
{
    return kv_adopt(s->kv, slot, slots_key(p, regime), p->id, p->n_shared);
}

_Static_assert((int)EXECUTOR_NOTHING == (int)KV_READ_AHEAD_NOTHING &&
                   (int)EXECUTOR_LATER == (int)KV_READ_AHEAD_LATER,
               "the results of kv_read_ahead() are returned unchanged");

int slots_read_ahead(struct slots *s, const struct executor_prefix *p, uint64_t regime, size_t *from,
                     size_t *to)
{
    return kv_read_ahead(s->kv, slots_key(p, regime), p->id, p->n_shared, from, to);
}

void slots_run(struct slots *s, const struct executor_rows *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        kv_set_tokens(s->kv, rows[i].slot, rows[i].pos, rows[i].id, rows[i].n);
}

void slots_release(struct slots *s, size_t slot, const int32_t *token, size_t n)
{
    if (token)
        kv_publish(s->kv, slot, token, n, true);
    kv_release(s->kv, slot);
}

void slots_settle(struct slots *s, size_t slot, const int32_t *token, size_t n)
{
    int rc = kv_truncate(s->kv, slot, n);

    ASSERT(rc == 0, "slot %zu cannot be truncated to %zu rows", slot, n);
    if (token)
        kv_publish(s->kv, slot, token, n, false);
    kv_advance(s->kv, slot, n);
}
