/* spmbuild.h - a sentencepiece vocabulary becomes a tokenizer, whatever file it came in (a .model, a GGUF).
 *
 * A BPE model merges the two neighbours whose union is the piece with the highest score: each way to cut a
 * piece into two pieces becomes a rule, and pieces of equal score have equal rank. A unigram model sums its
 * scores in float. Control and user-defined pieces are cut out of the text first, as transformers does with
 * such a model; sentencepiece itself would read control pieces as plain text.
 */
#ifndef GALLOP_TEXT_SPMBUILD_H
#define GALLOP_TEXT_SPMBUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tok;

/* The first six are numbered as in sentencepiece_model.proto and in GGUF. */
enum spmbuild_type {
    SPMBUILD_NORMAL = 1,
    SPMBUILD_UNKNOWN,
    SPMBUILD_CONTROL,
    SPMBUILD_USER_DEFINED,
    SPMBUILD_UNUSED, /* neither made by merging nor found in a text */
    SPMBUILD_BYTE,
    SPMBUILD_BLANKS, /* a user-defined run of the marker for spaces: merged before everything else */
};

struct spmbuild {
    struct tok *t;             /* its vocabulary holds the pieces, by number */
    const float *score;        /* [n] */
    const unsigned char *type; /* [n] enum spmbuild_type */
    size_t n;
    bool unigram, byte_fallback;
    bool dummy_prefix;      /* a space in front of the text, */
    bool every_stretch;     /* and behind each special token in it */
    bool squeeze;           /* runs of spaces become one */
    int64_t unk_id;         /* -1: none */
    int64_t bos_id, eos_id; /* put around a text; -1: not */
    const char *map;        /* precompiled_charsmap */
    size_t n_map;
    const char *path; /* for messages */
    struct err *e;
};

/* Gives b->t its model, normalizer, pre-tokenizer, decoder, added tokens and what stands around a text. The
 * caller adds what it knows beyond that and seals. */
int spmbuild_run(const struct spmbuild *b);

#endif
