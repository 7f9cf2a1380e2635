/* bpe.c - building: the rule table, the symbols, and the junctions where a word may be cut.
 *
 * Cutting: a merge can only span the boundary between characters x and y if some rule's left part ends in x
 * and its right part begins with y. Where no rule does, the two sides encode independently, so a text without
 * a pre-tokenizer (Llama 2) falls into short words that a cache can hold. That needs every character to have
 * symbols of its own, hence only with a complete set of byte fallbacks.
 */
#include "text/bpe.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/utf8.h"
#include "text/bpehash.h"
#include "text/tokbytes.h"

int bpe_add_rule(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t merged, struct err *e)
{
    if (!mem_grow((void **)&b->added, &b->added_cap, b->n_added + 1, sizeof(*b->added), MEM_TEXT))
        return err_nomem(e, "merges");
    b->added[b->n_added++] = (struct bpe_rule){left, right, rank, merged};
    return 0;
}

/* The hash table of all rules, at a load of at most 1/2. */
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
                &b->rule[bpehash_pair(b->added[k + AHEAD].left, b->added[k + AHEAD].right) & (want - 1)]);
        r.left++; /* a zeroed slot is a free one */
        to = bpehash_slot(b->rule, want, r.left, r.right);
        *to = r;
    }
    mem_free(b->added);
    b->added = NULL;
    b->n_added = b->added_cap = 0;
    return 0;
}

int bpe_derive(struct bpe *b, const struct tokvocab *v, const uint32_t *rank, struct err *e)
{
    int rc = 0;

    for (size_t id = 0; id < v->n_ids && rc == 0; id++) {
        const char *s;
        size_t n;

        if (rank[id] == BPE_NONE || !tokvocab_str(v, id, &s, &n))
            continue;
        for (size_t at = 0, len; at < n && rc == 0;) {
            uint32_t left, right;

            utf8_decode(s + at, &len);
            at += len;
            if (at < n && tokvocab_find(v, s, at, &left) && rank[left] != BPE_NONE &&
                tokvocab_find(v, s + at, n - at, &right) && rank[right] != BPE_NONE)
                rc = bpe_add_rule(b, left, right, rank[id], (uint32_t)id, e);
        }
    }
    return rc;
}

static void find_symbols(struct bpe *b, const struct tokvocab *v)
{
    b->all_fallback = b->byte_fallback;
    for (unsigned c = 0; c < 256; c++) {
        char s[8];
        size_t n = utf8_encode(b->byte_level ? tokbytes_letter((unsigned char)c) : c, s);

        b->symbol[c] = BPE_NONE;
        b->fallback[c] = BPE_NONE;
        if (b->byte_level || c < 0x80)
            tokvocab_find(v, s, n, &b->symbol[c]);
        snprintf(s, sizeof(s), "<0x%02X>", c);
        if (!b->byte_fallback || !tokvocab_find(v, s, 6, &b->fallback[c]))
            b->all_fallback = false;
    }
}

static uint32_t last_char(const char *s, size_t n)
{
    size_t at = n - 1, len;

    while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80)
        at--;
    return utf8_decode(s + at, &len);
}

static int mark_junctions(struct bpe *b, const struct tokvocab *v, struct err *e)
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

        if (r->left == 0 || !tokvocab_str(v, r->left - 1, &l, &nl) || !tokvocab_str(v, r->right, &m, &nm) ||
            nl == 0 || nm == 0)
            continue;
        bit = bpehash_junction(last_char(l, nl), utf8_decode(m, &len)) & b->junction_mask;
        b->junction[bit / 64] |= (uint64_t)1 << bit % 64;
    }
    return 0;
}

int bpe_seal(struct bpe *b, const struct tokvocab *v, struct err *e)
{
    int rc = build_table(b, e);

    b->vocab = v;
    find_symbols(b, v);
    if (rc == 0 && !b->byte_level && b->all_fallback && !b->prefix && !b->suffix)
        rc = mark_junctions(b, v, e);
    return rc;
}

void bpe_fini(struct bpe *b)
{
    mem_free(b->prefix);
    mem_free(b->suffix);
    mem_free(b->added);
    map_region_free(b->rule, b->n_slots * sizeof(*b->rule));
    mem_free(b->junction);
    *b = (struct bpe){0};
}
