/* added.c - finds added tokens in a text: a trie gives the longest pattern that matches at each offset. */
#include "text/tok/added.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tok/unicode.h"

void tok_added_fini(struct tok_added_set *a)
{
    mem_free(a->token);
    mem_free(a->by_id);
    vocab_trie_fini(&a->raw.trie);
    vocab_trie_fini(&a->normalized.trie);
    vocab_fini(&a->names);
    *a = (struct tok_added_set){0};
}

int tok_added_add(struct tok_added_set *a, struct tok_added t, const char *content, size_t n, struct err *e)
{
    uint32_t old;
    int rc;

    if (vocab_find(&a->names, content, n, &old) && old == t.id)
        return 0;
    if ((rc = vocab_add(&a->names, content, n, t.id, e)) != 0)
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

int tok_added_index(struct tok_added_set *a, size_t i, const char *pattern, size_t n, struct err *e)
{
    struct tok_added_patterns *p = a->token[i].normalized ? &a->normalized : &a->raw;

    if (n == 0) {
        p->empty = p->empty ? p->empty : i + 1;
        return 0;
    }
    p->begins[(unsigned char)pattern[0]] = true;
    p->longest = n > p->longest ? n : p->longest;
    return vocab_trie_add(&p->trie, pattern, n, (uint32_t)i) ? 0 : err_nomem(e, "added tokens");
}

const struct tok_added *tok_added_get(const struct tok_added_set *a, size_t id)
{
    return id < a->n_by_id && a->by_id[id] ? &a->token[a->by_id[id] - 1] : NULL;
}

void tok_added_start(struct tok_added_iter *it, const struct tok_added_set *a, bool normalized, bool plain,
                     const char *s, size_t n)
{
    *it = (struct tok_added_iter){
        .a = a, .patterns = normalized ? &a->normalized : &a->raw, .s = s, .n = n, .plain = plain};
}

/* True if the empty pattern matches at offset I: between characters, but not where the last match ended. */
static bool is_empty_match(const struct tok_added_iter *it, size_t i)
{
    return it->patterns->empty && !(it->matched && i == it->at) &&
           (i == it->n || ((unsigned char)it->s[i] & 0xc0) != 0x80);
}

/* Finds the next match of any pattern at or after it->at. Returns its token, or NULL if there is none. */
static const struct tok_added *find_pattern(struct tok_added_iter *it, size_t *begin, size_t *end)
{
    const struct vocab_trie *x = &it->patterns->trie;

    for (size_t i = it->at; i < it->n + (it->patterns->empty != 0); i++) {
        uint32_t node = 0, token = VOCAB_NONE;

        if (is_empty_match(it, i)) {
            token = (uint32_t)it->patterns->empty - 1;
            *end = i;
        }
        if (i < it->n && it->patterns->begins[(unsigned char)it->s[i]])
            for (size_t k = i; k < it->n && vocab_trie_step(x, &node, it->s[k]); k++)
                if (x->value[node] != VOCAB_NONE) {
                    token = x->value[node];
                    *end = k + 1;
                }
        if (token != VOCAB_NONE) {
            *begin = i;
            it->at = *end;
            it->matched = true;
            return &it->a->token[token];
        }
    }
    it->at = it->n;
    return NULL;
}

static bool is_single_word(const char *s, size_t n, size_t begin, size_t end)
{
    size_t len;

    if (begin > 0 && unicode_is_word(utf8_decode(s + utf8_before(s, begin), &len)))
        return false;
    return end == n || !unicode_is_word(utf8_decode(s + end, &len));
}

/* Extends the range by the blanks that the token includes (lstrip, rstrip), except blanks that belong to an
 * earlier token. */
static void widen(const struct tok_added_iter *it, const struct tok_added *t, size_t *begin, size_t *end)
{
    size_t len;

    while (t->lstrip && *begin > it->done) {
        size_t at = utf8_before(it->s, *begin);

        if (!unicode_is_space(utf8_decode(it->s + at, &len)))
            break;
        *begin = at;
    }
    if (t->lstrip && *begin < it->done) /* the earlier token includes the first of these blanks */
        *begin = it->done;
    while (t->rstrip && *end < it->n && unicode_is_space(utf8_decode(it->s + *end, &len)))
        *end += len;
}

/* True if the special token at s[begin, end) stays text: in plain mode, or if a byte comes from a user. */
static bool stays(const struct tok_added_iter *it, size_t begin, size_t end)
{
    if (it->plain || !it->origin)
        return it->plain;
    while (begin < end && !it->origin[begin])
        begin++;
    return begin < end;
}

bool tok_added_next(struct tok_added_iter *it, struct tok_added_cut *cut)
{
    const struct tok_added *t;
    size_t begin, end;

    if (it->have) {
        *cut = it->next;
        it->have = false;
        return true;
    }
    while ((t = find_pattern(it, &begin, &end)) != NULL) {
        size_t from = it->done;

        if ((t->special && stays(it, begin, end)) ||
            (t->single_word && !is_single_word(it->s, it->n, begin, end)))
            continue;
        widen(it, t, &begin, &end);
        if (begin > end) /* the token is blank, and the earlier token includes all of it */
            continue;
        *cut = (struct tok_added_cut){t, begin, end};
        it->done = end;
        if (from < begin) {
            it->next = *cut;
            it->have = begin < end;
            *cut = (struct tok_added_cut){NULL, from, begin};
        }
        if (cut->begin < cut->end)
            return true;
    }
    if (it->done >= it->n)
        return false;
    *cut = (struct tok_added_cut){NULL, it->done, it->n};
    it->done = it->n;
    return true;
}
