/* bpeword.c - cache, symbols, merging.
 *
 * Short words merge by scanning an array for the lowest rank; long ones (a hostile megabyte without a blank)
 * by a queue of candidates over a linked list, O(n log n) at worst. Both do the same merges in the same
 * order. Words of up to 30 bytes with up to 8 ids are remembered in a direct-mapped cache, one line of memory
 * each.
 */
#include "text/bpeword.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/utf8.h"
#include "text/bpehash.h"
#include "text/bpequeue.h"
#include "text/tokbytes.h"
#include "text/tokids.h"

enum { LEAST_SLOTS = 256, MOST_SLOTS = 1 << 14, KEY_MAX = 30, CACHED_IDS = 8, SHORT_WORD = 48 };

#define NO_MERGE UINT64_MAX

struct cached { /* 64 bytes */
    uint32_t id[CACHED_IDS];
    uint8_t n, n_ids; /* n 0: free */
    char key[KEY_MAX];
};
_Static_assert(sizeof(struct cached) == 64, "a cached word is one line");

struct bpeword_work {
    struct cached *cache;
    size_t slot_mask;
    const struct bpe *owner; /* whose words the cache holds */
    uint32_t *id, *next, *prev;
    uint64_t *found; /* rank << 32 | merged, of a symbol with its right neighbour */
    struct bpequeue queue;
    size_t id_cap, next_cap, prev_cap, found_cap;
};

struct bpeword_work *bpeword_work_new(const struct bpe *b)
{
    struct bpeword_work *w = mem_zalloc(1, sizeof(*w), MEM_TEXT);
    size_t slots = LEAST_SLOTS;

    if (!w)
        return NULL;
    while (slots < b->vocab->n && slots < MOST_SLOTS)
        slots *= 2;
    w->owner = b;
    w->slot_mask = slots - 1;
    w->cache = mem_zalloc(slots, sizeof(*w->cache), MEM_TEXT);
    if (!w->cache) {
        mem_free(w);
        w = NULL;
    }
    return w;
}

void bpeword_work_free(struct bpeword_work *w)
{
    if (!w)
        return;
    mem_free(w->cache);
    mem_free(w->id);
    mem_free(w->next);
    mem_free(w->prev);
    mem_free(w->found);
    bpequeue_fini(&w->queue);
    mem_free(w);
}

static inline uint64_t find_merge(const struct bpe *b, uint32_t left, uint32_t right)
{
    const struct bpe_rule *r = bpehash_slot(b->rule, b->n_slots, left + 1, right);

    return r->left == 0 ? NO_MERGE : (uint64_t)r->rank << 32 | r->merged;
}

/* Merges id[0..n), n <= SHORT_WORD, in place; returns how many are left. */
static size_t merge_short(const struct bpe *b, uint32_t *id, size_t n)
{
    uint64_t found[SHORT_WORD];

    for (size_t i = 0; i + 1 < n; i++)
        found[i] = find_merge(b, id[i], id[i + 1]);
    while (n > 1) {
        size_t at = 0;

        for (size_t i = 1; i + 1 < n; i++)
            if (found[i] >> 32 < found[at] >> 32)
                at = i;
        if (found[at] == NO_MERGE)
            break;
        id[at] = (uint32_t)found[at];
        n--;
        memmove(id + at + 1, id + at + 2, (n - at - 1) * sizeof(*id));
        if (at + 1 < n) {
            memmove(found + at + 1, found + at + 2, (n - at - 2) * sizeof(*found));
            found[at] = find_merge(b, id[at], id[at + 1]);
        }
        if (at > 0)
            found[at - 1] = find_merge(b, id[at - 1], id[at]);
    }
    return n;
}

static inline uint64_t candidate(uint64_t found, size_t at)
{
    return (found & 0xffffffff00000000u) | at;
}

/* The list of N symbols and the queue of its candidates. */
static bool fill_queue(const struct bpe *b, struct bpeword_work *w, size_t n)
{
    if (!mem_grow((void **)&w->next, &w->next_cap, n, sizeof(*w->next), MEM_TEXT) ||
        !mem_grow((void **)&w->prev, &w->prev_cap, n, sizeof(*w->prev), MEM_TEXT) ||
        !mem_grow((void **)&w->found, &w->found_cap, n, sizeof(*w->found), MEM_TEXT) ||
        !bpequeue_reserve(&w->queue, n))
        return false;
    bpequeue_clear(&w->queue);
    for (size_t i = 0; i < n; i++) {
        w->next[i] = (uint32_t)(i + 1);
        w->prev[i] = (uint32_t)(i - 1);
        w->found[i] = i + 1 < n ? find_merge(b, w->id[i], w->id[i + 1]) : NO_MERGE;
        if (w->found[i] != NO_MERGE)
            bpequeue_fill(&w->queue, candidate(w->found[i], i));
    }
    bpequeue_sort(&w->queue);
    return true;
}

static bool renew(const struct bpe *b, struct bpeword_work *w, size_t at, size_t right)
{
    w->found[at] = find_merge(b, w->id[at], w->id[right]);
    return w->found[at] == NO_MERGE || bpequeue_push(&w->queue, candidate(w->found[at], at));
}

/* Merges w->id[0..*n) in place. false: out of memory. */
static bool merge_long(const struct bpe *b, struct bpeword_work *w, size_t *n)
{
    size_t kept = 0;
    uint64_t top;

    if (!fill_queue(b, w, *n))
        return false;
    while (bpequeue_pop(&w->queue, &top)) {
        size_t at = (uint32_t)top, right, after;

        if (w->found[at] == NO_MERGE || w->found[at] >> 32 != top >> 32)
            continue; /* one of the two has merged since */
        right = w->next[at];
        after = w->next[right];
        w->id[at] = (uint32_t)w->found[at];
        w->next[at] = (uint32_t)after;
        w->found[right] = w->found[at] = NO_MERGE;
        if (after < *n) {
            w->prev[after] = (uint32_t)at;
            if (!renew(b, w, at, after))
                return false;
        }
        if (at > 0 && !renew(b, w, w->prev[at], at))
            return false;
    }
    for (size_t i = 0; i < *n; i = w->next[i])
        w->id[kept++] = w->id[i];
    *n = kept;
    return true;
}

/* One symbol while a word is read: the ids so far and an unknown that waits for its neighbours. */
struct symbols {
    uint32_t *id;
    size_t n;
    bool unk_waits;
};

static void flush_unk(const struct bpe *b, struct symbols *y)
{
    if (y->unk_waits)
        y->id[y->n++] = b->unk;
    y->unk_waits = false;
}

static void add_unknown(const struct bpe *b, struct symbols *y, const char *s, size_t n)
{
    if (b->byte_fallback) {
        bool all = true;

        for (size_t i = 0; i < n; i++)
            all = all && b->fallback[(unsigned char)s[i]] != BPE_NONE;
        if (all) { /* a waiting unknown stays behind these, as it does in Hugging Face's */
            for (size_t i = 0; i < n; i++)
                y->id[y->n++] = b->fallback[(unsigned char)s[i]];
            return;
        }
    }
    if (!b->has_unk)
        return;
    if (y->unk_waits && !b->fuse_unk)
        flush_unk(b, y);
    y->unk_waits = true;
}

static void add_symbol(const struct bpe *b, struct symbols *y, uint32_t id)
{
    flush_unk(b, y);
    y->id[y->n++] = id;
}

/* The character at S with the prefix and suffix of its place in the word. */
static bool find_affixed(const struct bpe *b, const char *s, size_t n, bool first, bool last,
                         struct buf *full)
{
    buf_clear(full);
    if (!first && b->prefix)
        buf_add(full, b->prefix, b->n_prefix);
    buf_add(full, s, n);
    if (last && b->suffix)
        buf_add(full, b->suffix, b->n_suffix);
    return !full->oom;
}

static bool read_affixed(const struct bpe *b, struct symbols *y, const char *s, size_t n)
{
    struct buf full = {.tag = MEM_TEXT};
    bool ok = true;

    for (size_t i = 0, len; ok && i < n; i += len) {
        uint32_t id;

        utf8_decode(s + i, &len);
        ok = find_affixed(b, s + i, len, i == 0, i + len == n, &full);
        if (ok && tokvocab_find(b->vocab, full.data, full.len, &id))
            add_symbol(b, y, id);
        else if (ok)
            add_unknown(b, y, full.data, full.len);
    }
    buf_fini(&full);
    return ok;
}

static void read_bytes(const struct bpe *b, struct symbols *y, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t id = b->symbol[(unsigned char)s[i]];

        if (id != BPE_NONE) {
            add_symbol(b, y, id);
        } else {
            char letter[4];

            add_unknown(b, y, letter, utf8_encode(tokbytes_letter((unsigned char)s[i]), letter));
        }
    }
}

static void read_chars(const struct bpe *b, struct symbols *y, const char *s, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c = utf8_decode(s + i, &len), id = BPE_NONE;

        if (c < 0x80)
            id = b->symbol[c];
        else
            tokvocab_find(b->vocab, s + i, len, &id);
        if (id != BPE_NONE)
            add_symbol(b, y, id);
        else
            add_unknown(b, y, s + i, len);
    }
}

/* Room for the symbols of a word of N bytes: each byte one (two, if its letter falls back to bytes), plus
 * what affixes can add when they do, plus an unknown. */
static size_t most_symbols(const struct bpe *b, size_t n)
{
    return n * (b->byte_level ? 2 : 1 + b->n_prefix) + b->n_suffix + 1;
}

/* Is the word of bytes S an entry of the vocabulary? Its id goes to w->id[0]. The array serves for the
 * spelling too. */
static bool find_whole(const struct bpe *b, struct bpeword_work *w, const char *s, size_t n)
{
    size_t m;

    if (n > b->vocab->longest)
        return false;
    m = tokbytes_spell(s, n, (char *)w->id);
    return tokvocab_find(b->vocab, (const char *)w->id, m, &w->id[0]);
}

/* The ids of one word into w->id; *n_ids of them. */
static int encode_word(const struct bpe *b, struct bpeword_work *w, const char *s, size_t n, size_t *n_ids,
                       struct err *e)
{
    struct symbols y = {0};
    bool ok = true;

    if (n >= INT32_MAX)
        return err_set(e, ERR_INPUT, "a word of %zu bytes is too long to encode", n);
    if (!mem_grow((void **)&w->id, &w->id_cap, most_symbols(b, n), sizeof(*w->id), MEM_TEXT))
        return err_nomem(e, "word");
    y.id = w->id;
    if (b->byte_level && b->ignore_merges && find_whole(b, w, s, n)) {
        *n_ids = 1;
        return 0;
    }
    if (b->prefix || b->suffix)
        ok = read_affixed(b, &y, s, n);
    else if (b->byte_level)
        read_bytes(b, &y, s, n);
    else
        read_chars(b, &y, s, n);
    flush_unk(b, &y);
    for (size_t i = 0; b->has_unk && b->unk == BPE_NONE && i < y.n; i++)
        if (w->id[i] == BPE_NONE)
            return err_set(
                e, ERR_INPUT,
                "the text has a character that is not in the vocabulary, and neither is the unk_token");
    if (ok && y.n <= SHORT_WORD)
        y.n = merge_short(b, w->id, y.n);
    else if (ok)
        ok = merge_long(b, w, &y.n);
    *n_ids = y.n;
    return ok ? 0 : err_nomem(e, "word");
}

/* One word through the cache. */
static int cached_word(const struct bpe *b, struct bpeword_work *w, const char *s, size_t n,
                       struct tok_ids *out, struct err *e)
{
    struct cached *c = NULL;
    size_t n_ids = 0;
    int rc;

    if (n <= KEY_MAX) {
        c = &w->cache[XXH3_64bits(s, n) & w->slot_mask];
        if (c->n == n && memcmp(c->key, s, n) == 0)
            return tokids_add(out, c->id, c->n_ids) ? 0 : err_nomem(e, "ids");
    }
    if ((rc = encode_word(b, w, s, n, &n_ids, e)) != 0)
        return rc;
    if (c && n_ids <= CACHED_IDS) {
        c->n = (uint8_t)n;
        c->n_ids = (uint8_t)n_ids;
        memcpy(c->key, s, n);
        memcpy(c->id, w->id, n_ids * sizeof(*c->id));
    }
    return tokids_add(out, w->id, n_ids) ? 0 : err_nomem(e, "ids");
}

static int encode_cut(const struct bpe *b, struct bpeword_work *w, const char *s, size_t n,
                      struct tok_ids *out, struct err *e)
{
    size_t begin = 0, i, len;
    uint32_t c = utf8_decode(s, &len);
    int rc;

    for (i = len; i < n; i += len) {
        uint32_t next = utf8_decode(s + i, &len);
        size_t bit = bpehash_junction(c, next) & b->junction_mask;

        c = next;
        if (b->junction[bit / 64] >> bit % 64 & 1)
            continue;
        if ((rc = cached_word(b, w, s + begin, i - begin, out, e)) != 0)
            return rc;
        begin = i;
    }
    return cached_word(b, w, s + begin, n - begin, out, e);
}

int bpeword_encode(const struct bpe *b, struct bpeword_work *w, const char *s, size_t n, struct tok_ids *out,
                   struct err *e)
{
    uint32_t id;

    ASSERT(w->owner == b, "a cache belongs to one tokenizer");
    if (n == 0)
        return 0;
    if (b->ignore_merges && !b->byte_level && tokvocab_find(b->vocab, s, n, &id))
        return tokids_add(out, &id, 1) ? 0 : err_nomem(e, "ids");
    return b->junction ? encode_cut(b, w, s, n, out, e) : cached_word(b, w, s, n, out, e);
}
