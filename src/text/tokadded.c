/* tokadded.c - a trie of bytes; at each place of the text that could begin a pattern, the longest one is
 * sought. */
#include "text/tokadded.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tokchar.h"

struct tokadded_node {
    uint32_t child, sibling; /* 0: none (node 0 is unused) */
    uint32_t token;          /* index + 1; 0: no pattern ends here */
    unsigned char byte;
};

void tokadded_init(struct tokadded *a)
{
    *a = (struct tokadded){0};
    tokvocab_init(&a->names);
}

void tokadded_fini(struct tokadded *a)
{
    mem_free(a->token);
    mem_free(a->by_id);
    mem_free(a->raw.node);
    mem_free(a->normalized.node);
    tokvocab_fini(&a->names);
    *a = (struct tokadded){0};
}

int tokadded_add(struct tokadded *a, struct tokadded_token t, const char *content, size_t n, struct err *e)
{
    uint32_t old;
    int rc;

    if (tokvocab_find(&a->names, content, n, &old) && old == t.id)
        return 0;
    if ((rc = tokvocab_add(&a->names, content, n, t.id, e)) != 0)
        return rc;
    if (!mem_grow((void **)&a->token, &a->cap, a->n + 1, sizeof(*a->token), MEM_TEXT) ||
        !mem_grow((void **)&a->by_id, &a->by_id_cap, (size_t)t.id + 1, sizeof(*a->by_id), MEM_TEXT))
        return err_nomem(e, "added tokens");
    while (a->n_by_id <= t.id)
        a->by_id[a->n_by_id++] = 0;
    a->token[a->n++] = t;
    a->by_id[t.id] = (uint32_t)a->n;
    return 0;
}

static uint32_t new_node(struct tokadded_trie *x, unsigned char byte)
{
    if (!mem_grow((void **)&x->node, &x->cap, x->n_nodes + 2, sizeof(*x->node), MEM_TEXT))
        return 0;
    if (x->n_nodes == 0)
        x->node[x->n_nodes++] = (struct tokadded_node){0};
    x->node[x->n_nodes] = (struct tokadded_node){.byte = byte};
    return (uint32_t)x->n_nodes++;
}

static uint32_t child_of(const struct tokadded_trie *x, uint32_t node, unsigned char byte)
{
    uint32_t c = x->node[node].child;

    while (c && x->node[c].byte != byte)
        c = x->node[c].sibling;
    return c;
}

int tokadded_index(struct tokadded *a, size_t i, const char *pattern, size_t n, struct err *e)
{
    struct tokadded_trie *x = a->token[i].normalized ? &a->normalized : &a->raw;
    uint32_t at;

    if (n == 0)
        return 0;
    at = x->root[(unsigned char)pattern[0]];
    if (!at && !(at = x->root[(unsigned char)pattern[0]] = new_node(x, (unsigned char)pattern[0])))
        return err_nomem(e, "added tokens");
    for (size_t k = 1; k < n; k++) {
        uint32_t c = child_of(x, at, (unsigned char)pattern[k]);

        if (!c) {
            if (!(c = new_node(x, (unsigned char)pattern[k])))
                return err_nomem(e, "added tokens");
            x->node[c].sibling = x->node[at].child;
            x->node[at].child = c;
        }
        at = c;
    }
    if (!x->node[at].token)
        x->node[at].token = (uint32_t)i + 1;
    return 0;
}

const struct tokadded_token *tokadded_get(const struct tokadded *a, size_t id)
{
    return id < a->n_by_id && a->by_id[id] ? &a->token[a->by_id[id] - 1] : NULL;
}

void tokadded_start(struct tokadded_iter *it, const struct tokadded *a, bool normalized, bool plain,
                    const char *s, size_t n)
{
    *it = (struct tokadded_iter){
        .a = a, .trie = normalized ? &a->normalized : &a->raw, .s = s, .n = n, .plain = plain};
}

/* The next occurrence of any pattern from it->at on. */
static const struct tokadded_token *find(struct tokadded_iter *it, size_t *begin, size_t *end)
{
    const struct tokadded_trie *x = it->trie;

    if (x->n_nodes == 0)
        return NULL;
    for (size_t i = it->at; i < it->n; i++) {
        uint32_t node = x->root[(unsigned char)it->s[i]], token = 0;

        for (size_t k = i + 1; node; k++) {
            if (x->node[node].token) {
                token = x->node[node].token;
                *end = k;
            }
            node = k < it->n ? child_of(x, node, (unsigned char)it->s[k]) : 0;
        }
        if (token) {
            *begin = i;
            it->at = *end;
            return &it->a->token[token - 1];
        }
    }
    it->at = it->n;
    return NULL;
}

static size_t char_before(const char *s, size_t at)
{
    do
        at--;
    while (((unsigned char)s[at] & 0xc0) == 0x80);
    return at;
}

static bool is_single_word(const char *s, size_t n, size_t begin, size_t end)
{
    size_t len;

    if (begin > 0 && tokchar_is_word(utf8_decode(s + char_before(s, begin), &len)))
        return false;
    return end == n || !tokchar_is_word(utf8_decode(s + end, &len));
}

/* Blanks beside the token that it swallows, but none that an earlier token has taken. */
static void widen(const struct tokadded_iter *it, const struct tokadded_token *t, size_t *begin, size_t *end)
{
    size_t len;

    while (t->lstrip && *begin > it->done) {
        size_t at = char_before(it->s, *begin);

        if (!tokchar_is_space(utf8_decode(it->s + at, &len)))
            break;
        *begin = at;
    }
    while (t->rstrip && *end < it->n && tokchar_is_space(utf8_decode(it->s + *end, &len)))
        *end += len;
}

bool tokadded_next(struct tokadded_iter *it, struct tokadded_cut *cut)
{
    const struct tokadded_token *t;
    size_t begin, end;

    if (it->have) {
        *cut = it->next;
        it->have = false;
        return true;
    }
    while ((t = find(it, &begin, &end)) != NULL) {
        size_t from = it->done;

        if ((it->plain && t->special) || (t->single_word && !is_single_word(it->s, it->n, begin, end)))
            continue;
        widen(it, t, &begin, &end);
        *cut = (struct tokadded_cut){t, begin, end};
        it->done = end;
        if (from < begin) {
            it->next = *cut;
            it->have = true;
            *cut = (struct tokadded_cut){NULL, from, begin};
        }
        return true;
    }
    if (it->done >= it->n)
        return false;
    *cut = (struct tokadded_cut){NULL, it->done, it->n};
    it->done = it->n;
    return true;
}
