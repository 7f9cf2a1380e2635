/* unigram.h - the unigram language model: cuts a word into the pieces with the highest sum of scores (Kudo 2018), by
 * the Viterbi algorithm over the pieces that begin at each position, as SentencePiece and Hugging Face do it.
 *
 * A sealed model is immutable; each thread encodes with a struct unigram_work of its own.
 */
#ifndef GALLOP_TEXT_TOK_UNIGRAM_H
#define GALLOP_TEXT_TOK_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tok/vocabulary.h"

struct tok_ids;

/* A unigram model. Zero it, set the members up to SCORE_CAP, then call unigram_seal(). */
struct unigram {
    bool has_unk, byte_fallback;
    bool single; /* sums are float, as in SentencePiece; false: double, as in Hugging Face */
    uint32_t unk;
    double *score; /* [n_score] score of each id; owned */
    bool *usable;  /* [n_score] false: a control or byte piece, never chosen; owned; NULL: all are usable */
    size_t n_score, score_cap;

    const struct vocab *vocab; /* borrowed; set by unigram_seal() */
    uint32_t fallback[256];
    double unk_score;
    struct vocab_trie trie; /* the usable pieces -> their ids */
};

/* A position in a word, and the last piece of the best path to it. */
struct unigram_place {
    double sum;
    uint32_t from;  /* the position where the piece begins; VOCAB_NONE: no path ends here */
    uint32_t piece; /* the piece's id */
    uint32_t next;  /* the next position on the best path of the whole word */
};

/* The array of one thread. Zeroed = empty. */
struct unigram_work {
    struct unigram_place *place;
    size_t cap;
};

/* Builds the trie of V (which must outlive U). ERR_INPUT: V and the scores do not match. */
int unigram_seal(struct unigram *u, const struct vocab *v, struct err *e);
void unigram_fini(struct unigram *u); /* U may be zeroed */
void unigram_work_fini(struct unigram_work *w);

/* Appends the ids of the word S (valid UTF-8) to OUT. ERR_INPUT: no piece covers a character and the model
 * has no unknown piece, or the word has 2 GiB or more. */
int unigram_encode(const struct unigram *u, struct unigram_work *w, const char *s, size_t n,
                   struct tok_ids *out, struct err *e);

#endif
