/* sample_history.c - distinct tokens in a list, found through an open-addressing table of indices (linear
 * probing, at most half full). Nothing is ever removed: a count may fall back to zero.
 */
#include "engine/sample_history.h"

#include <string.h>

int sample_history_init(struct sample_history *h, const struct sampling *p, const int32_t *prompt,
                        size_t n_prompt, size_t max_new, size_t n_vocab, struct arena *a, struct err *e)
{
    bool with_prompt = p->repetition_penalty != 1;
    size_t cap;

    *h = (struct sample_history){0};
    if (!with_prompt && p->frequency_penalty == 0 && p->presence_penalty == 0)
        return 0;
    if (__builtin_add_overflow(n_prompt, max_new, &cap) || cap > n_vocab)
        cap = n_vocab;
    h->n_slots = 2;
    while (h->n_slots < 2 * cap)
        h->n_slots *= 2;
    h->id = arena_zalloc(a, cap, sizeof(*h->id));
    h->count = arena_zalloc(a, cap, sizeof(*h->count));
    h->in_prompt = arena_zalloc(a, cap, sizeof(*h->in_prompt));
    h->slot = arena_zalloc(a, h->n_slots, sizeof(*h->slot));
    if (!h->id || !h->count || !h->in_prompt || !h->slot) {
        *h = (struct sample_history){0};
        return err_nomem(e, "token counts of a sequence");
    }
    h->cap = cap;
    for (size_t i = 0; i < n_prompt && with_prompt; i++) {
        sample_history_add(h, prompt[i]);
        h->in_prompt[h->n - 1] = true;
    }
    if (with_prompt)
        memset(h->count, 0, h->n * sizeof(*h->count));
    return 0;
}

/* The slot of ID, or the free one where it would go. */
static uint32_t *find_slot(const struct sample_history *h, int32_t id)
{
    size_t mask = h->n_slots - 1, at = ((uint32_t)id * UINT32_C(2654435769)) >> 7 & mask;

    while (h->slot[at] && h->id[h->slot[at] - 1] != id)
        at = (at + 1) & mask;
    return &h->slot[at];
}

void sample_history_add(struct sample_history *h, int32_t id)
{
    uint32_t *slot;

    if (h->cap == 0)
        return;
    slot = find_slot(h, id);
    if (!*slot) {
        ASSERT(h->n < h->cap, "token %d is one more than the %zu a sequence may have", id, h->cap);
        h->id[h->n] = id;
        *slot = (uint32_t)++h->n;
    }
    h->count[*slot - 1]++;
}

void sample_history_undo(struct sample_history *h, int32_t id)
{
    uint32_t *slot;

    if (h->cap == 0)
        return;
    slot = find_slot(h, id);
    ASSERT(*slot && h->count[*slot - 1] > 0, "token %d was not put out", id);
    h->count[*slot - 1]--;
}
