/* unigram.h - the unigram language model: of all ways to cut a word into pieces, it chooses the one with the
 * highest sum of scores (Kudo 2018; Viterbi over the pieces that begin at each position, as SentencePiece and
 * Hugging Face do it).
 *
 * A sealed model is immutable; each thread encodes with a struct unigram_work of its own.
 */
#ifndef GALLOP_TEXT_TOK_UNIGRAM_H
#define GALLOP_TEXT_TOK_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tok/tok.h"
#include "text/tok/vocabulary.h"

/* Zeroed, then the settings are set, then unigram_seal() is called. */
struct unigram {
    bool has_unk, byte_fallback;
    bool single; /* sums are float, as in SentencePiece; else double, as in Hugging Face */
    uint32_t unk;
    double *score; /* [n_score] by id; owned */
    bool *usable;  /* [n_score] false: never chosen (control, byte); owned; NULL: all are usable */
    size_t n_score, score_cap;

    const struct vocab *vocab; /* borrowed; set by unigram_seal() */
    uint32_t fallback[256];
    double unk_score;
    struct vocab_trie trie; /* of the usable pieces; the values are their ids */
};

/* A position in a word, with the last piece of the best path to it. */
struct unigram_place {
    double sum;
    uint32_t from, piece; /* the position where the piece begins; VOCAB_NONE: no path ends here */
    uint32_t next;        /* the next position on the best path of the whole word */
};

/* Zeroed = empty. */
struct unigram_work {
    struct unigram_place *place;
    size_t cap;
};

/* Builds the trie of V (which must outlive U). ERR_INPUT when V and the scores do not fit, ERR_NOMEM. */
int unigram_seal(struct unigram *u, const struct vocab *v, struct err *e);
void unigram_fini(struct unigram *u); /* a zeroed U is fine */
void unigram_work_fini(struct unigram_work *w);

/* Appends the ids of the word S (valid UTF-8). ERR_NOMEM; ERR_INPUT for a character that no piece covers in a
 * model without an unknown piece, or a word of 2 GiB. */
int unigram_encode(const struct unigram *u, struct unigram_work *w, const char *s, size_t n,
                   struct tok_ids *out, struct err *e);

#endif
