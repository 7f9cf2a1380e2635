/* unigram.c - finds the best path through a word (Viterbi), and writes its pieces. */
#include "text/tok/unigram.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tok/ids.h"

enum { UNK_PENALTY = 10 }; /* SentencePiece's distance of the unknown piece's score below the lowest score */

int unigram_seal(struct unigram *u, const struct vocab *v, struct err *e)
{
    double least = 0;
    bool any = false;

    u->vocab = v;
    if (v->n_ids != u->n_score)
        return err_set(e, ERR_INPUT, "the unigram model has %zu scores, but %zu pieces", u->n_score,
                       v->n_ids);
    if (u->has_unk && u->unk >= v->n_ids)
        return err_set(e, ERR_INPUT, "the id of the unknown piece is %u, but the vocabulary has %zu ids",
                       u->unk, v->n_ids);
    if (!vocab_trie_add(&u->trie, "", 0, VOCAB_NONE)) /* creates the root even if there is no piece */
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
    mem_free(w->place);
    *w = (struct unigram_work){0};
}

static double add_score(const struct unigram *u, double sum, double score)
{
    return u->single ? (double)((float)sum + (float)score) : score + sum;
}

/* Makes the path over PIECE, which begins at FROM, the best path to TO if its score SUM is higher. */
static void offer(struct unigram_place *to, size_t from, uint32_t piece, double sum)
{
    if (to->from == VOCAB_NONE || sum > to->sum)
        *to = (struct unigram_place){.sum = sum, .from = (uint32_t)from, .piece = piece};
}

/* Finds the best path to each position, in PLACE [n + 1]. False: some character has no piece. */
static bool search(const struct unigram *u, struct unigram_place *place, const char *s, size_t n)
{
    size_t len;

    for (size_t i = 0; i <= n; i++)
        place[i] = (struct unigram_place){.from = VOCAB_NONE};
    for (size_t i = 0; i < n; i += len) {
        uint32_t node = 0;
        bool covered = false;

        utf8_decode(s + i, &len);
        for (size_t k = i; k < n && vocab_trie_step(&u->trie, &node, s[k]); k++) {
            uint32_t id = u->trie.value[node];

            if (id == VOCAB_NONE)
                continue;
            offer(&place[k + 1], i, id, add_score(u, place[i].sum, u->score[id]));
            covered = covered || k + 1 - i == len;
        }
        if (covered)
            continue;
        if (!u->has_unk)
            return false;
        offer(&place[i + len], i, u->unk, add_score(u, place[i].sum, u->unk_score));
    }
    return true;
}

/* Appends the ids of a run of unknown characters: the id of a piece that equals the run, else the byte
 * pieces, else the unknown piece. */
static bool add_unknown(const struct unigram *u, const char *s, size_t n, struct tok_ids *out)
{
    bool all = u->byte_fallback;
    uint32_t id;

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

/* Writes the ids of the best path. The links FROM lead from its end to its start; this function sets the
 * links NEXT, which lead from its start to its end. */
static bool write_path(const struct unigram *u, struct unigram_place *place, const char *s, size_t n,
                       struct tok_ids *out)
{
    size_t unknown = 0; /* bytes of the pending run of unknown characters */
    bool ok = true;

    for (size_t at = n; at > 0; at = place[at].from)
        place[place[at].from].next = (uint32_t)at;
    for (size_t begin = 0, end; ok && begin < n; begin = end) {
        end = place[begin].next;
        if (u->has_unk && place[end].piece == u->unk) {
            unknown += end - begin;
            continue;
        }
        if (unknown)
            ok = add_unknown(u, s + begin - unknown, unknown, out);
        unknown = 0;
        ok = ok && tok_ids_add(out, &place[end].piece, 1);
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
    if (!mem_grow((void **)&w->place, &w->cap, n + 1, sizeof(*w->place), MEM_TEXT))
        return err_nomem(e, "word");
    if (!search(u, w->place, s, n))
        return err_set(e, ERR_INPUT,
                       "the text has a character that is not in the vocabulary, and the unigram model has "
                       "no unknown piece");
    return write_path(u, w->place, s, n, out) ? 0 : err_nomem(e, "ids");
}
