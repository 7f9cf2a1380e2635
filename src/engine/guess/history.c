/* history.c - writes and searches the ring of history.h. */
#include "engine/guess/history.h"

#include <string.h>

#include "base/mem.h"

struct history_chunk {
    uint64_t realm[2];
    uint64_t sequence;
    uint64_t born; /* number of the chunk, from 1; 0: the chunk is empty */
    uint32_t previous,
        next; /* neighbours in the sequence, plus 1; 0: none. They may have been overwritten. */
    uint32_t n;
    int32_t token[HISTORY_CHUNK];
    /* the next older position in each of the token's two chains, plus 1; 0: none */
    uint32_t older[2][HISTORY_CHUNK];
};

static const size_t gram[2] = {HISTORY_LONG, HISTORY_SHORT};

int history_open(struct history *h, size_t bytes, size_t max_sequences, uint64_t seed, struct err *e)
{
    size_t bits = 4, most = (size_t)UINT32_MAX / HISTORY_CHUNK - 1, heads, n;

    ASSERT(bytes >= HISTORY_MIN_BYTES, "%zu bytes", bytes);
    n = bytes / (sizeof(*h->chunk) + 2 * HISTORY_CHUNK * sizeof(uint32_t));
    n = n < most ? n : most;
    while (((size_t)2 << bits) <= n * HISTORY_CHUNK)
        bits++;
    heads = (size_t)1 << bits;
    n = (bytes - 2 * heads * sizeof(uint32_t)) / sizeof(*h->chunk);
    *h = (struct history){
        .n_chunks = n < most ? n : most, .head_bits = bits, .max_sequences = max_sequences, .seed = seed};
    h->chunk = mem_zalloc(h->n_chunks, sizeof(*h->chunk), MEM_ENGINE);
    h->head[0] = mem_zalloc(2 * heads, sizeof(uint32_t), MEM_ENGINE);
    if (!h->chunk || !h->head[0]) {
        history_close(h);
        return err_set(e, ERR_NOMEM, "out of memory for a history of %zu bytes", bytes);
    }
    h->head[1] = h->head[0] + heads;
    return 0;
}

void history_close(struct history *h)
{
    mem_free(h->chunk);
    mem_free(h->head[0]);
    *h = (struct history){0};
}

size_t history_capacity(const struct history *h)
{
    return h->n_chunks * HISTORY_CHUNK;
}

struct history_writer history_writer(const uint64_t realm[2], size_t n_skipped)
{
    return (struct history_writer){.realm = {realm[0], realm[1]}, .n_written = n_skipped};
}

/* Returns the index of the hash chain of the N tokens before TOKEN_END in REALM. */
static size_t hash(const struct history *h, const uint64_t realm[2], const int32_t *token_end, size_t n)
{
    uint64_t x = realm[0] ^ realm[1] ^ h->seed;

    for (size_t i = 1; i <= n; i++) {
        x = (x ^ (uint32_t)token_end[-(ptrdiff_t)i]) * 0x9e3779b97f4a7c15u;
        x ^= x >> 32 ^ h->seed;
    }
    return (x * 0xd6e8feb86659fd93u) >> (64 - h->head_bits);
}

/* Takes the oldest chunk of the ring for the next tokens of W. */
static struct history_chunk *chunk_take(struct history *h, struct history_writer *w)
{
    size_t at = h->next_chunk, last = w->last;
    struct history_chunk *c = &h->chunk[at];
    bool linked = w->born && h->chunk[last].born == w->born && last != at;

    h->next_chunk = at + 1 < h->n_chunks ? at + 1 : 0;
    c->realm[0] = w->realm[0];
    c->realm[1] = w->realm[1];
    c->sequence = w->sequence;
    c->born = w->born = ++h->n_written;
    c->previous = linked ? (uint32_t)last + 1 : 0;
    c->next = 0;
    if (linked)
        h->chunk[last].next = (uint32_t)at + 1;
    w->last = at;
    return c;
}

void history_write(struct history *h, struct history_writer *w, const int32_t *token, size_t n, bool ends)
{
    while (w->n_written < n && (ends || n - w->n_written >= HISTORY_CHUNK)) {
        struct history_chunk *c;
        size_t from = w->n_written, n_new = n - from < HISTORY_CHUNK ? n - from : HISTORY_CHUNK;

        if (w->sequence == 0)
            w->sequence = ++h->n_sequences;
        c = chunk_take(h, w);
        c->n = (uint32_t)n_new;
        memcpy(c->token, token + from, n_new * sizeof(*token));
        for (size_t i = 0; i < n_new; i++)
            for (size_t k = 0; k < 2; k++) {
                uint32_t *first;

                c->older[k][i] = 0;
                if (from + i + 1 < gram[k])
                    continue;
                first = &h->head[k][hash(h, w->realm, token + from + i + 1, gram[k])];
                c->older[k][i] = *first;
                *first = (uint32_t)(w->last * HISTORY_CHUNK + i) + 1;
            }
        w->n_written += n_new;
    }
}

/* Returns the chunk before C of its sequence, or NULL. */
static const struct history_chunk *previous(const struct history *h, const struct history_chunk *c)
{
    const struct history_chunk *p = c->previous ? &h->chunk[c->previous - 1] : NULL;

    return p && p->sequence == c->sequence && p->born && p->born < c->born ? p : NULL;
}

/* Returns the chunk after C of its sequence, or NULL. */
static const struct history_chunk *next(const struct history *h, const struct history_chunk *c)
{
    const struct history_chunk *p = c->next ? &h->chunk[c->next - 1] : NULL;

    return p && p->sequence == c->sequence && p->born > c->born ? p : NULL;
}

/* Returns the number of tokens, at most MOST, before TOKEN_END that equal the tokens up to and including index AT of
 * C. */
static size_t common(const struct history *h, const struct history_chunk *c, size_t at,
                     const int32_t *token_end, size_t most)
{
    size_t n = 0;

    while (n < most && c->token[at] == token_end[-1 - (ptrdiff_t)n]) {
        n++;
        if (at > 0)
            at--;
        else if ((c = previous(h, c)) != NULL)
            at = c->n - 1;
        else
            break;
    }
    return n;
}

/* Returns whether the sequence of W may see the tokens of C. */
static bool may_see(const struct history *h, const struct history_writer *w, const struct history_chunk *c)
{
    return c->realm[0] == w->realm[0] && c->realm[1] == w->realm[1] && c->sequence != w->sequence &&
           h->n_sequences - c->sequence < h->max_sequences;
}

/* The longest matches that a search has found so far. */
struct finds {
    size_t length; /* length of the longest match */
    struct history_place *place;
    size_t n, n_most;
};

/* Prefetches the cache lines that the search reads at position AT. */
static void prefetch(const struct history *h, uint32_t at, size_t kind)
{
    const struct history_chunk *c = &h->chunk[at / HISTORY_CHUNK];

    __builtin_prefetch(c);
    __builtin_prefetch(&c->token[at % HISTORY_CHUNK]);
    __builtin_prefetch(&c->older[kind][at % HISTORY_CHUNK]);
}

/* Searches chain KIND for the longest match of the tokens before TOKEN_END, at most MOST. */
static void search(const struct history *h, const struct history_writer *w, size_t kind,
                   const int32_t *token_end, size_t most, struct finds *f)
{
    uint32_t at = h->head[kind][hash(h, w->realm, token_end, gram[kind])];
    uint64_t born = UINT64_MAX;

    for (size_t step = 0; at && step < HISTORY_STEPS; step++) {
        size_t i = (at - 1) % HISTORY_CHUNK, length;
        const struct history_chunk *c = &h->chunk[(at - 1) / HISTORY_CHUNK];

        if (c->born > born || i >= c->n) /* the older chunk was overwritten */
            break;
        born = c->born;
        at = c->older[kind][i];
        if (at)
            prefetch(h, at - 1, kind);
        length = may_see(h, w, c) ? common(h, c, i, token_end, most) : 0;
        if (length < gram[kind] || length < f->length)
            continue;
        if (length > f->length)
            f->n = 0;
        f->length = length;
        if (f->n < f->n_most)
            f->place[f->n++] = (struct history_place){c, i};
    }
}

size_t history_find(const struct history *h, const struct history_writer *w, const int32_t *token, size_t n,
                    size_t max_length, struct history_place *place, size_t n_most, size_t *n_places)
{
    size_t most = n < max_length ? n : max_length;
    struct finds f = {.place = place, .n_most = n_most};

    for (size_t k = 0; k < 2 && f.length == 0; k++)
        if (most >= gram[k])
            search(h, w, k, token + n, most, &f);
    *n_places = f.n;
    return f.length;
}

bool history_next(const struct history *h, struct history_place *place, int32_t *token)
{
    if (place->chunk && place->at + 1 < place->chunk->n)
        place->at++;
    else
        *place = (struct history_place){place->chunk ? next(h, place->chunk) : NULL, 0};
    if (place->chunk)
        *token = place->chunk->token[place->at];
    return place->chunk != NULL;
}
