/* bpe.c - builds the tables of a BPE model and encodes words.
 *
 * Short words merge by scanning an array for the lowest rank. Long words (a hostile megabyte without a blank) merge by
 * a heap of candidates over a linked list, O(n log n) in the worst case. Both do the same merges in the same order.
 * Words of up to 30 bytes with up to 8 ids are kept in a direct-mapped cache, one cache line each.
 *
 * Cutting: a merge can only span the boundary between characters x and y if some rule's left part ends in x and its
 * right part begins with y. If no rule does, the two sides encode independently, so a text without a pre-tokenizer
 * (Llama 2) is cut into short words that a cache can hold. This requires that every character has symbols of its own,
 * hence a complete set of byte fallbacks.
 */
#include "text/tok/bpe.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/files/map.h"
#include "base/utf8.h"
#include "text/tok/ids.h"
#include "text/tok/unicode.h"

static inline size_t hash_pair(uint32_t left, uint32_t right)
{
    uint64_t h = (((uint64_t)left << 32) | right) * 0x9e3779b97f4a7c15u;

    return (size_t)((h ^ h >> 32) * 0xd6e8feb86659fd93u >> 32);
}

/* Returns the slot of the pair, or the free slot for it. N_SLOTS is a power of two. LEFT is the id + 1. */
static inline struct bpe_rule *slot_of(struct bpe_rule *rule, size_t n_slots, uint32_t left, uint32_t right)
{
    size_t mask = n_slots - 1, i = hash_pair(left - 1, right) & mask;

    while (rule[i].left != 0 && (rule[i].left != left || rule[i].right != right))
        i = (i + 1) & mask;
    return &rule[i];
}

static inline size_t hash_junction(uint32_t x, uint32_t y)
{
    return (size_t)((x * 0x9e3779b1u ^ y * 0x85ebca77u) * (uint64_t)0xd6e8feb86659fd93u >> 40);
}

int bpe_add_rule(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t merged, struct err *e)
{
    if (!mem_grow((void **)&b->added, &b->added_cap, b->n_added + 1, sizeof(*b->added), MEM_TEXT))
        return err_nomem(e, "merges");
    b->added[b->n_added++] = (struct bpe_rule){left, right, rank, merged};
    return 0;
}

/* Moves all rules into a hash table with a load of at most 1/2. */
static int build_table(struct bpe *b, struct err *e)
{
    enum { AHEAD = 16 };
    size_t want = 64;

    while (want < 2 * b->n_added)
        want *= 2;
    b->rule = map_region_new(want * sizeof(*b->rule));
    if (!b->rule)
        return err_nomem(e, "merges");
    b->n_slots = want;
    for (size_t k = 0; k < b->n_added; k++) {
        struct bpe_rule r = b->added[k], *to;

        if (k + AHEAD < b->n_added)
            __builtin_prefetch(
                &b->rule[hash_pair(b->added[k + AHEAD].left, b->added[k + AHEAD].right) & (want - 1)]);
        r.left++; /* id + 1: a zeroed slot is free */
        to = slot_of(b->rule, want, r.left, r.right);
        *to = r;
    }
    mem_free(b->added);
    b->added = NULL;
    b->n_added = b->added_cap = 0;
    return 0;
}

int bpe_derive(struct bpe *b, const struct vocab *v, const uint32_t *rank, struct err *e)
{
    int rc = 0;

    for (size_t id = 0; id < v->n_ids && rc == 0; id++) {
        uint32_t own = rank ? rank[id] : (uint32_t)id;
        const char *s;
        size_t n;

        if (own == VOCAB_NONE || !vocab_str(v, id, &s, &n))
            continue;
        for (size_t at = 0, len; at < n && rc == 0;) {
            uint32_t left, right;

            utf8_decode(s + at, &len);
            at += len;
            if (at < n && vocab_find(v, s, at, &left) && vocab_find(v, s + at, n - at, &right) &&
                (!rank || (rank[left] != VOCAB_NONE && rank[right] != VOCAB_NONE)))
                rc = bpe_add_rule(b, left, right, own, (uint32_t)id, e);
        }
    }
    return rc;
}

static void find_symbols(struct bpe *b, const struct vocab *v)
{
    for (unsigned c = 0; c < 256; c++) {
        char s[4];
        size_t n = utf8_encode(b->byte_level ? unicode_letter_of((unsigned char)c) : c, s);

        b->symbol[c] = VOCAB_NONE;
        if (b->byte_level || c < 0x80)
            vocab_find(v, s, n, &b->symbol[c]);
    }
    b->all_fallback = b->byte_fallback && vocab_find_bytes(v, b->fallback);
}

static int mark_junctions(struct bpe *b, const struct vocab *v, struct err *e)
{
    size_t bits = b->n_slots > 200000 ? (size_t)1 << 20 : (size_t)1 << 18, len;

    b->junction = mem_zalloc(bits / 64, sizeof(*b->junction), MEM_TEXT);
    if (!b->junction)
        return err_nomem(e, "merges");
    b->junction_mask = bits - 1;
    for (size_t k = 0; k < b->n_slots; k++) {
        const struct bpe_rule *r = &b->rule[k];
        const char *l, *m;
        size_t nl, nm, bit;

        if (r->left == 0 || !vocab_str(v, r->left - 1, &l, &nl) || !vocab_str(v, r->right, &m, &nm) ||
            nl == 0 || nm == 0)
            continue;
        bit =
            hash_junction(utf8_decode(l + utf8_before(l, nl), &len), utf8_decode(m, &len)) & b->junction_mask;
        b->junction[bit / 64] |= (uint64_t)1 << bit % 64;
    }
    return 0;
}

int bpe_seal(struct bpe *b, const struct vocab *v, struct err *e)
{
    int rc = build_table(b, e);

    b->vocab = v;
    find_symbols(b, v);
    if (rc == 0 && !b->byte_level && b->all_fallback && !b->suffix.n)
        rc = mark_junctions(b, v, e);
    return rc;
}

void bpe_fini(struct bpe *b)
{
    mem_free(b->added);
    map_region_free(b->rule, b->n_slots * sizeof(*b->rule));
    mem_free(b->junction);
    *b = (struct bpe){0};
}

void bpe_merges_init(struct bpe_merges *m, struct bpe *b, const struct vocab *v)
{
    *m = (struct bpe_merges){.bpe = b, .vocab = v};
    buf_init(&m->whole, MEM_TEXT);
}

void bpe_merges_fini(struct bpe_merges *m)
{
    buf_fini(&m->whole);
}

static int not_there(const char *s, size_t n, struct err *e)
{
    return err_set(e, ERR_INPUT, "the token \"%.*s\" of a merge is not in the vocabulary",
                   (int)(n < 60 ? n : 60), s);
}

/* Finds the id of LEFT followed by RIGHT. Files mostly list merges in the order of the ids that they produce,
 * so the last id and the next one are tried first. */
static bool find_result(struct bpe_merges *m, const char *left, size_t n_left, const char *right,
                        size_t n_right)
{
    for (uint32_t id = m->last; id <= m->last + 1; id++) {
        const char *s;
        size_t n;

        if (vocab_str(m->vocab, id, &s, &n) && n == n_left + n_right && memcmp(s, left, n_left) == 0 &&
            memcmp(s + n_left, right, n_right) == 0) {
            m->last = id;
            return true;
        }
    }
    buf_clear(&m->whole);
    buf_add(&m->whole, left, n_left);
    buf_add(&m->whole, right, n_right);
    return !m->whole.oom && vocab_find(m->vocab, m->whole.data, m->whole.len, &m->last);
}

int bpe_merges_end(struct bpe_merges *m, struct err *e)
{
    int rc = 0;

    vocab_find_all(m->vocab, m->part, m->n);
    for (size_t i = 0; i < m->n && rc == 0; i += 2) {
        const struct vocab_query *l = &m->part[i], *r = l + 1;

        if (l->id == VOCAB_NONE)
            rc = not_there(l->s, l->n, e);
        else if (r->id == VOCAB_NONE)
            rc = not_there(r->s, r->n, e);
        else if (find_result(m, l->s, l->n, r->s, r->n))
            rc = bpe_add_rule(m->bpe, l->id, r->id, m->rank++, m->last, e);
        else
            rc = m->whole.oom ? err_nomem(e, "merges") : not_there(m->whole.data, m->whole.len, e);
    }
    m->n = 0;
    return rc;
}

int bpe_merges_add(struct bpe_merges *m, const char *left, size_t n_left, const char *right, size_t n_right,
                   struct err *e)
{
    m->part[m->n++] = (struct vocab_query){.s = left, .n = n_left};
    m->part[m->n++] = (struct vocab_query){.s = right, .n = n_right};
    return m->n + 2 > VOCAB_BATCH ? bpe_merges_end(m, e) : 0;
}

int bpe_merges_add_line(struct bpe_merges *m, const char *s, size_t n, struct err *e)
{
    const char *blank = n > 1 ? memchr(s + 1, ' ', n - 1) : NULL, *right = blank ? blank + 1 : s + n;

    if (right == s + n)
        return err_set(e, ERR_INPUT, "the merge \"%.*s\" is not two tokens separated by a blank",
                       (int)(n < 60 ? n : 60), s);
    return bpe_merges_add(m, s, (size_t)(blank - s), right, n - (size_t)(right - s), e);
}

enum { LEAST_SLOTS = 256, MOST_SLOTS = 1 << 14, KEY_MAX = 30, CACHED_IDS = 8, SHORT_WORD = 48 };

#define NO_MERGE UINT64_MAX

/* A word and its ids, in one cache line. */
struct cached {
    uint32_t id[CACHED_IDS];
    uint8_t n, n_ids; /* bytes of KEY and elements of ID; N 0: the slot is free */
    char key[KEY_MAX];
};
_Static_assert(sizeof(struct cached) == 64, "a cached word fills one cache line");

struct link {
    uint64_t found; /* the merge of this symbol with the next one: rank << 32 OR merged id; NO_MERGE: none */
    uint32_t next, prev;
};

struct bpe_work {
    struct cached *cache;
    size_t slot_mask;
    const struct bpe *owner; /* the model that the cached words were encoded with */
    uint32_t *id;            /* [id_cap] the symbols of the current word */
    struct link *link;       /* [n] links of a long word */
    /* [n_heap] 4-ary min-heap of candidate merges: rank << 32 OR position of the left symbol. */
    uint64_t *heap;
    size_t id_cap, link_cap, n_heap, heap_cap;
};

struct bpe_work *bpe_work_new(const struct bpe *b)
{
    struct bpe_work *w = mem_zalloc(1, sizeof(*w), MEM_TEXT);
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

void bpe_work_free(struct bpe_work *w)
{
    if (!w)
        return;
    mem_free(w->cache);
    mem_free(w->id);
    mem_free(w->link);
    mem_free(w->heap);
    mem_free(w);
}

/* Returns the merge of two ids as rank << 32 OR merged id, or NO_MERGE. */
static inline uint64_t find_merge(const struct bpe *b, uint32_t left, uint32_t right)
{
    const struct bpe_rule *r = slot_of(b->rule, b->n_slots, left + 1, right);

    return r->left == 0 ? NO_MERGE : ((uint64_t)r->rank << 32) | r->merged;
}

/* Merges id[0..n), n <= SHORT_WORD, in place. Returns the number of ids that remain. */
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

/* Adds a candidate to the heap, in which the parent of i is (i - 1) / 4. Appending stays cheap for a hostile
 * run of one character, whose keys arrive in ascending order. */
static bool push(struct bpe_work *w, uint64_t found, size_t at)
{
    uint64_t key = (found & 0xffffffff00000000u) | at;
    size_t i = w->n_heap;

    if (!mem_grow((void **)&w->heap, &w->heap_cap, i + 1, sizeof(*w->heap), MEM_TEXT))
        return false;
    w->n_heap++;
    while (i > 0 && w->heap[(i - 1) / 4] > key) {
        w->heap[i] = w->heap[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    w->heap[i] = key;
    return true;
}

static bool pop(struct bpe_work *w, uint64_t *key)
{
    uint64_t *heap = w->heap, last;
    size_t i = 0;

    if (w->n_heap == 0)
        return false;
    *key = heap[0];
    last = heap[--w->n_heap];
    for (;;) {
        size_t first = 4 * i + 1, least = first, end = first + 4 < w->n_heap ? first + 4 : w->n_heap;

        if (first >= w->n_heap)
            break;
        for (size_t k = first + 1; k < end; k++)
            if (heap[k] < heap[least])
                least = k;
        if (heap[least] >= last)
            break;
        heap[i] = heap[least];
        i = least;
    }
    heap[i] = last;
    return true;
}

/* Builds the linked list of N symbols and the heap of its candidate merges. */
static bool link_symbols(const struct bpe *b, struct bpe_work *w, size_t n)
{
    if (!mem_grow((void **)&w->link, &w->link_cap, n, sizeof(*w->link), MEM_TEXT))
        return false;
    w->n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t found = i + 1 < n ? find_merge(b, w->id[i], w->id[i + 1]) : NO_MERGE;

        w->link[i] = (struct link){found, (uint32_t)(i + 1), (uint32_t)(i - 1)};
        if (found != NO_MERGE && !push(w, found, i))
            return false;
    }
    return true;
}

static bool renew(const struct bpe *b, struct bpe_work *w, size_t at, size_t right)
{
    uint64_t found = w->link[at].found = find_merge(b, w->id[at], w->id[right]);

    return found == NO_MERGE || push(w, found, at);
}

/* Merges w->id[0..*n) in place. False: out of memory. */
static bool merge_long(const struct bpe *b, struct bpe_work *w, size_t *n)
{
    size_t kept = 0;
    uint64_t top;

    if (!link_symbols(b, w, *n))
        return false;
    while (pop(w, &top)) {
        size_t at = (uint32_t)top, right, after;
        struct link *l = &w->link[at];

        if (l->found == NO_MERGE || l->found >> 32 != top >> 32)
            continue; /* stale: one of the two symbols has merged since */
        right = l->next;
        after = w->link[right].next;
        w->id[at] = (uint32_t)l->found;
        l->next = (uint32_t)after;
        w->link[right].found = l->found = NO_MERGE;
        if (after < *n) {
            w->link[after].prev = (uint32_t)at;
            if (!renew(b, w, at, after))
                return false;
        }
        if (at > 0 && !renew(b, w, l->prev, at))
            return false;
    }
    for (size_t i = 0; i < *n; i = w->link[i].next)
        w->id[kept++] = w->id[i];
    *n = kept;
    return true;
}

/* The symbols of a word while it is read. An unknown symbol is pending until the next symbol is known. */
struct symbols {
    uint32_t *id;
    size_t n;
    bool unk_pending;
};

static void flush_unk(const struct bpe *b, struct symbols *y)
{
    if (y->unk_pending)
        y->id[y->n++] = b->unk;
    y->unk_pending = false;
}

static void add_unknown(const struct bpe *b, struct symbols *y, const char *s, size_t n)
{
    bool all = b->byte_fallback;

    for (size_t i = 0; all && i < n; i++)
        all = b->fallback[(unsigned char)s[i]] != VOCAB_NONE;
    for (size_t i = 0; all && i < n; i++)
        y->id[y->n++] = b->fallback[(unsigned char)s[i]];
    if (all || !b->has_unk)
        return;
    if (y->unk_pending && !b->fuse_unk)
        flush_unk(b, y);
    y->unk_pending = true;
}

static void add_symbol(const struct bpe *b, struct symbols *y, uint32_t id)
{
    flush_unk(b, y);
    y->id[y->n++] = id;
}

static void read_bytes(const struct bpe *b, struct symbols *y, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t id = b->symbol[(unsigned char)s[i]];

        if (id != VOCAB_NONE) {
            add_symbol(b, y, id);
        } else {
            char letter[4];

            add_unknown(b, y, letter, utf8_encode(unicode_letter_of((unsigned char)s[i]), letter));
        }
    }
}

/* Reads the symbols of a word of characters; the suffix is appended to the last character. */
static void read_chars(const struct bpe *b, struct symbols *y, const char *s, size_t n)
{
    char last[4 + BPE_MAX_SUFFIX];

    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c = utf8_decode(s + i, &len), id = VOCAB_NONE;
        struct json_str piece = {s + i, len};

        if (b->suffix.n && i + len == n) {
            memcpy(last, s + i, len);
            memcpy(last + len, b->suffix.s, b->suffix.n);
            piece = (struct json_str){last, len + b->suffix.n};
        }
        if (c < 0x80 && piece.n == 1)
            id = b->symbol[c];
        else
            vocab_find(b->vocab, piece.s, piece.n, &id);
        if (id != VOCAB_NONE)
            add_symbol(b, y, id);
        else
            add_unknown(b, y, piece.s, piece.n);
    }
}

/* True if the vocabulary has the word S (bytes) as an entry; its id goes to w->id[0]. The array w->id also
 * serves as the buffer for the word's spelling. */
static bool find_whole(const struct bpe *b, struct bpe_work *w, const char *s, size_t n)
{
    size_t m;

    if (n > b->vocab->longest)
        return false;
    m = unicode_spell(s, n, (char *)w->id);
    return vocab_find(b->vocab, (const char *)w->id, m, &w->id[0]);
}

/* Encodes one word into w->id, and sets *N_IDS to the number of ids. */
static int encode_word(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, size_t *n_ids,
                       struct err *e)
{
    /* Each byte is one symbol, or two if the letter that spells it falls back to bytes; the suffix's bytes
     * and one unknown symbol come on top. */
    size_t most = n * (b->byte_level ? 2 : 1) + b->suffix.n + 1;
    struct symbols y = {0};
    bool ok = true;

    if (n >= INT32_MAX)
        return err_set(e, ERR_INPUT, "a word of %zu bytes is too long to encode", n);
    if (!mem_grow((void **)&w->id, &w->id_cap, most, sizeof(*w->id), MEM_TEXT))
        return err_nomem(e, "word");
    y.id = w->id;
    if (b->byte_level && b->ignore_merges && find_whole(b, w, s, n)) {
        *n_ids = 1;
        return 0;
    }
    if (b->byte_level)
        read_bytes(b, &y, s, n);
    else
        read_chars(b, &y, s, n);
    flush_unk(b, &y);
    for (size_t i = 0; b->has_unk && b->unk == VOCAB_NONE && i < y.n; i++)
        if (w->id[i] == VOCAB_NONE)
            return err_set(e, ERR_INPUT,
                           "the vocabulary lacks a character of the text, and the unk_token as well");
    if (y.n <= SHORT_WORD)
        y.n = merge_short(b, w->id, y.n);
    else
        ok = merge_long(b, w, &y.n);
    *n_ids = y.n;
    return ok ? 0 : err_nomem(e, "word");
}

/* Encodes one word, from the cache if possible. */
static int cached_word(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct tok_ids *out,
                       struct err *e)
{
    struct cached *c = NULL;
    size_t n_ids = 0;
    int rc;

    if (n <= KEY_MAX) {
        c = &w->cache[XXH3_64bits(s, n) & w->slot_mask];
        if (c->n == n && memcmp(c->key, s, n) == 0)
            return tok_ids_add(out, c->id, c->n_ids) ? 0 : err_nomem(e, "ids");
    }
    if ((rc = encode_word(b, w, s, n, &n_ids, e)) != 0)
        return rc;
    if (c && n_ids <= CACHED_IDS) {
        c->n = (uint8_t)n;
        c->n_ids = (uint8_t)n_ids;
        memcpy(c->key, s, n);
        memcpy(c->id, w->id, n_ids * sizeof(*c->id));
    }
    return tok_ids_add(out, w->id, n_ids) ? 0 : err_nomem(e, "ids");
}

static int encode_cut(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct tok_ids *out,
                      struct err *e)
{
    size_t begin = 0, i, len;
    uint32_t c = utf8_decode(s, &len);
    int rc;

    for (i = len; i < n; i += len) {
        uint32_t next = utf8_decode(s + i, &len);
        size_t bit = hash_junction(c, next) & b->junction_mask;

        c = next;
        if ((b->junction[bit / 64] >> (bit % 64)) & 1)
            continue;
        if ((rc = cached_word(b, w, s + begin, i - begin, out, e)) != 0)
            return rc;
        begin = i;
    }
    return cached_word(b, w, s + begin, n - begin, out, e);
}

int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct tok_ids *out,
               struct err *e)
{
    uint32_t id;

    ASSERT(w->owner == b, "a word cache must not be used with another model");
    if (n == 0)
        return 0;
    if (b->ignore_merges && !b->byte_level && vocab_find(b->vocab, s, n, &id))
        return tok_ids_add(out, &id, 1) ? 0 : err_nomem(e, "ids");
    return b->junction ? encode_cut(b, w, s, n, out, e) : cached_word(b, w, s, n, out, e);
}
