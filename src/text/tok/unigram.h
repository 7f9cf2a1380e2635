/* unigram.h - the unigram language model: of all ways to cut a word into pieces, the one with the highest sum
 * of scores (Kudo 2018; Viterbi over the pieces that begin at each place, as SentencePiece and Hugging Face
 * do it).
 */
#ifndef GALLOP_TEXT_TOK_UNIGRAM_H
#define GALLOP_TEXT_TOK_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tok/tok.h"
#include "text/tok/vocabulary.h"

struct unigram { /* zeroed, then the settings, then unigram_seal() */
    bool has_unk, byte_fallback;
    bool single; /* sums are taken in float, as sentencepiece does; else in double, as Hugging Face does */
    uint32_t unk;
    double *score; /* [n_score] by id; owned */
    bool *usable;  /* [n_score] false: never chosen (control, byte); owned, NULL: all are usable */
    size_t n_score, score_cap;

    const struct vocab *vocab; /* borrowed; set by unigram_seal() */
    uint32_t fallback[256];
    double unk_score;
    struct vocab_trie trie; /* of the usable pieces, to their ids */
};

struct unigram_work { /* zeroed = empty; one a thread */
    double *best;
    uint32_t *from, *piece, *ids;
    size_t best_cap, from_cap, piece_cap, ids_cap;
};

/* Builds the trie of V (which must outlive U). ERR_INPUT when V and the scores do not fit, ERR_NOMEM. */
int unigram_seal(struct unigram *u, const struct vocab *v, struct err *e);
void unigram_fini(struct unigram *u); /* a zeroed one is fine */
void unigram_work_fini(struct unigram_work *w);

/* Appends the ids of the word S (good UTF-8). ERR_NOMEM; ERR_INPUT for a character that no piece covers in a
 * model without an unknown piece, or a word of 2 GiB. */
int unigram_encode(const struct unigram *u, struct unigram_work *w, const char *s, size_t n,
                   struct tok_ids *out, struct err *e);

#endif
