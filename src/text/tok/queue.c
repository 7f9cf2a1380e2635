/* queue.c - the first filling is sorted by rank with a radix sort, which leaves equal ranks in the order
 * of positions; a later key goes behind the pile whose end is nearest below it, or into a 4-ary heap.
 */
#include "text/tok/model.h"

#include <string.h>

#include "base/mem.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

void queue_fini(struct queue *q)
{
    for (int i = 0; i < QUEUE_PILES; i++)
        mem_free(q->pile[i].key);
    mem_free(q->heap);
    mem_free(q->spare);
    *q = (struct queue){0};
}

void queue_clear(struct queue *q)
{
    for (int i = 0; i < QUEUE_PILES; i++)
        q->pile[i].head = q->pile[i].n = 0;
    q->n_heap = 0;
}

bool queue_reserve(struct queue *q, size_t n)
{
    return mem_grow((void **)&q->pile[0].key, &q->pile[0].cap, n, sizeof(*q->spare), MEM_TEXT) &&
           mem_grow((void **)&q->spare, &q->spare_cap, n, sizeof(*q->spare), MEM_TEXT);
}

void queue_fill(struct queue *q, uint64_t key)
{
    q->pile[0].key[q->pile[0].n++] = key;
}

/* One pass over the digit at SHIFT. */
static void distribute(const uint64_t *from, uint64_t *to, size_t n, unsigned shift)
{
    size_t start[DIGITS + 1] = {0};

    for (size_t i = 0; i < n; i++)
        start[(from[i] >> shift & (DIGITS - 1)) + 1]++;
    for (size_t d = 0; d < DIGITS; d++)
        start[d + 1] += start[d];
    for (size_t i = 0; i < n; i++)
        to[start[from[i] >> shift & (DIGITS - 1)]++] = from[i];
}

static void insertion_sort(uint64_t *key, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t x = key[i];
        size_t j = i;

        for (; j > 0 && key[j - 1] > x; j--)
            key[j] = key[j - 1];
        key[j] = x;
    }
}

void queue_sort(struct queue *q)
{
    struct queue_pile *p = &q->pile[0];
    uint64_t all = 0;

    if (p->n <= 128) {
        insertion_sort(p->key, p->n);
        return;
    }
    for (size_t i = 0; i < p->n; i++)
        all |= p->key[i] >> 32;
    for (unsigned shift = 32; shift < 64 && all >> (shift - 32); shift += DIGIT_BITS) {
        uint64_t *from = p->key;
        size_t cap = p->cap;

        distribute(from, q->spare, p->n, shift);
        p->key = q->spare;
        p->cap = q->spare_cap;
        q->spare = from;
        q->spare_cap = cap;
    }
}

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t x = heap[i];

    for (;;) {
        size_t child = 4 * i + 1, least = child, last = child + 4 < n ? child + 4 : n;

        if (child >= n)
            break;
        for (size_t k = child + 1; k < last; k++)
            if (heap[k] < heap[least])
                least = k;
        if (heap[least] >= x)
            break;
        heap[i] = heap[least];
        i = least;
    }
    heap[i] = x;
}

static bool push_heap(struct queue *q, uint64_t key)
{
    size_t i = q->n_heap;

    if (!mem_grow((void **)&q->heap, &q->heap_cap, i + 1, sizeof(*q->heap), MEM_TEXT))
        return false;
    q->n_heap++;
    while (i > 0 && q->heap[(i - 1) / 4] > key) {
        q->heap[i] = q->heap[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    q->heap[i] = key;
    return true;
}

bool queue_push(struct queue *q, uint64_t key)
{
    struct queue_pile *best = NULL;

    for (int i = 1; i < QUEUE_PILES; i++) { /* the first pile is long; nothing belongs behind it */
        struct queue_pile *p = &q->pile[i];

        if (p->head == p->n)
            p->head = p->n = 0;
        if (p->n == 0) {
            best = best ? best : p;
            continue;
        }
        if (p->key[p->n - 1] <= key && (!best || best->n == 0 || best->key[best->n - 1] < p->key[p->n - 1]))
            best = p;
    }
    if (!best)
        return push_heap(q, key);
    if (!mem_grow((void **)&best->key, &best->cap, best->n + 1, sizeof(*best->key), MEM_TEXT))
        return false;
    best->key[best->n++] = key;
    return true;
}

bool queue_pop(struct queue *q, uint64_t *key)
{
    struct queue_pile *best = NULL;

    for (int i = 0; i < QUEUE_PILES; i++) {
        struct queue_pile *p = &q->pile[i];

        if (p->head < p->n && (!best || p->key[p->head] < best->key[best->head]))
            best = p;
    }
    if (q->n_heap && (!best || q->heap[0] < best->key[best->head])) {
        *key = q->heap[0];
        q->heap[0] = q->heap[--q->n_heap];
        if (q->n_heap)
            sift_down(q->heap, q->n_heap, 0);
        return true;
    }
    if (best)
        *key = best->key[best->head++];
    return best != NULL;
}
