/* unigram.c - a search over the places of a word for the best path to each, and the way back along it. */
#include "text/tok/model.h"

#include <string.h>

#include "base/utf8.h"

enum { UNK_PENALTY = 10 };

int unigram_seal(struct unigram *u, const struct vocab *v, struct err *e)
{
    double least = 0;
    bool any = false;

    u->vocab = v;
    if (v->n_ids != u->n_score)
        return err_set(e, ERR_INPUT, "the unigram model has %zu scores for %zu pieces", u->n_score, v->n_ids);
    if (u->has_unk && u->unk >= v->n_ids)
        return err_set(e, ERR_INPUT, "the unknown piece %u is not in the vocabulary of %zu", u->unk,
                       v->n_ids);
    if (!vocab_trie_add(&u->trie, "", 0, VOCAB_NONE)) /* a root, if there is no piece at all */
        return err_nomem(e, "vocabulary");
    for (size_t id = 0; id < v->n_ids; id++) {
        const char *s;
        size_t n;

        if ((u->usable && !u->usable[id]) || !vocab_str(v, id, &s, &n))
            continue;
        if (!any || u->score[id] < least)
            least = u->score[id];
        any = true;
        if (!vocab_trie_add(&u->trie, s, n, (uint32_t)id))
            return err_nomem(e, "vocabulary");
    }
    u->unk_score = u->single ? (double)((float)least - UNK_PENALTY) : least - UNK_PENALTY;
    if (u->byte_fallback)
        vocab_find_bytes(v, u->fallback);
    return 0;
}

void unigram_fini(struct unigram *u)
{
    mem_free(u->score);
    mem_free(u->usable);
    vocab_trie_fini(&u->trie);
    *u = (struct unigram){0};
}

void unigram_work_fini(struct unigram_work *w)
{
    mem_free(w->best);
    mem_free(w->from);
    mem_free(w->piece);
    mem_free(w->ids);
    *w = (struct unigram_work){0};
}

static double add(const struct unigram *u, double sum, double score)
{
    return u->single ? (double)((float)sum + (float)score) : score + sum;
}

/* Offers the piece [from, to) to the best path that ends at TO. */
static void offer(struct unigram_work *w, size_t from, size_t to, uint32_t piece, double sum)
{
    if (w->from[to] != VOCAB_NONE && !(sum > w->best[to]))
        return;
    w->best[to] = sum;
    w->from[to] = (uint32_t)from;
    w->piece[to] = piece;
}

static bool search(const struct unigram *u, struct unigram_work *w, const char *s, size_t n)
{
    size_t len;

    w->best[0] = 0;
    for (size_t i = 0; i <= n; i++)
        w->from[i] = VOCAB_NONE;
    for (size_t i = 0; i < n; i += len) {
        uint32_t node = 0;
        bool covered = false;

        utf8_decode(s + i, &len);
        for (size_t k = i; k < n && vocab_trie_step(&u->trie, &node, s[k]); k++) {
            uint32_t id = u->trie.value[node];

            if (id == VOCAB_NONE)
                continue;
            offer(w, i, k + 1, id, add(u, w->best[i], u->score[id]));
            covered = covered || k + 1 - i == len;
        }
        if (covered)
            continue;
        if (!u->has_unk)
            return false;
        offer(w, i, i + len, u->unk, add(u, w->best[i], u->unk_score));
    }
    return true;
}

/* A stretch of unknown characters: perhaps a piece after all, else bytes, else the unknown piece. */
static bool add_unknown(const struct unigram *u, const char *s, size_t n, struct tok_ids *out)
{
    uint32_t id;
    bool all = u->byte_fallback;

    if (!u->usable && vocab_find(u->vocab, s, n, &id))
        return tok_ids_add(out, &id, 1);
    for (size_t i = 0; all && i < n; i++)
        all = u->fallback[(unsigned char)s[i]] != VOCAB_NONE;
    if (!all)
        return tok_ids_add(out, &u->unk, 1);
    for (size_t i = 0; i < n; i++)
        if (!tok_ids_add(out, &u->fallback[(unsigned char)s[i]], 1))
            return false;
    return true;
}

/* The best path from its end to its beginning, reversed into w->ids as (end of piece) marks. */
static bool write_path(const struct unigram *u, struct unigram_work *w, const char *s, size_t n,
                       struct tok_ids *out)
{
    size_t m = 0, unknown = 0; /* UNKNOWN: bytes of unknown characters not yet written */
    bool ok = true;

    for (size_t at = n; at > 0; at = w->from[at])
        w->ids[m++] = (uint32_t)at;
    while (ok && m-- > 0) {
        size_t end = w->ids[m], begin = w->from[end];

        if (u->has_unk && w->piece[end] == u->unk) {
            unknown += end - begin;
            continue;
        }
        if (unknown)
            ok = add_unknown(u, s + begin - unknown, unknown, out);
        unknown = 0;
        ok = ok && tok_ids_add(out, &w->piece[end], 1);
    }
    if (ok && unknown)
        ok = add_unknown(u, s + n - unknown, unknown, out);
    return ok;
}

int unigram_encode(const struct unigram *u, struct unigram_work *w, const char *s, size_t n,
                   struct tok_ids *out, struct err *e)
{
    if (n >= INT32_MAX)
        return err_set(e, ERR_INPUT, "a word of %zu bytes is too long to encode", n);
    if (!mem_grow((void **)&w->best, &w->best_cap, n + 1, sizeof(*w->best), MEM_TEXT) ||
        !mem_grow((void **)&w->from, &w->from_cap, n + 1, sizeof(*w->from), MEM_TEXT) ||
        !mem_grow((void **)&w->piece, &w->piece_cap, n + 1, sizeof(*w->piece), MEM_TEXT) ||
        !mem_grow((void **)&w->ids, &w->ids_cap, n + 1, sizeof(*w->ids), MEM_TEXT))
        return err_nomem(e, "word");
    if (!search(u, w, s, n))
        return err_set(e, ERR_INPUT,
                       "the text has a character that is not in the vocabulary, and the unigram model has "
                       "no unknown piece");
    return write_path(u, w, s, n, out) ? 0 : err_nomem(e, "ids");
}
