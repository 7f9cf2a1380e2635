/* history.h - a ring of the tokens of this process's sequences, in which later sequences find where their last tokens
 * occurred before.
 *
 * Sequences write their tokens, prompt and output, in chunks of HISTORY_CHUNK, each linked with the chunk before it of
 * the same sequence; the chunks of concurrent sequences may alternate. The newest chunk overwrites the oldest one.
 * Every token is in two hash chains, newest first: those of the last HISTORY_SHORT and of the last HISTORY_LONG tokens.
 * A search follows the long chain and then, if it has found nothing, the short one, for at most HISTORY_STEPS links
 * each, and compares the texts: its result is the longest match among those tokens. A match of less than HISTORY_SHORT
 * tokens is not found.
 *
 * Tokens of a realm are found by sequences of the same realm only; otherwise a guess that is right would tell one
 * client what another one wrote. Nothing is allocated after opening. The result is a function of what was written since
 * the history was opened. A history belongs to one thread at a time.
 */
#ifndef GALLOP_ENGINE_GUESS_HISTORY_H
#define GALLOP_ENGINE_GUESS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    HISTORY_BYTES = 64 << 20, /* default size: about three million tokens */
    HISTORY_MIN_BYTES = 64 << 10,
    HISTORY_CHUNK = 32,
    HISTORY_SHORT = 3,
    HISTORY_LONG = 8,
    HISTORY_STEPS = 32,
    HISTORY_MAX_SEQUENCES = 10000, /* default number of sequences in which to search */
};

struct history_chunk;

struct history {
    struct history_chunk *chunk; /* [n_chunks] */
    uint32_t *head[2];           /* [1 << head_bits] newest position of each chain, plus 1; 0: none */
    size_t n_chunks, head_bits;
    size_t next_chunk;               /* the chunk that is written next */
    uint64_t n_written, n_sequences; /* number of chunks, and of sequences, that were ever written */
    size_t max_sequences;
    uint64_t seed;
};

/* A sequence that writes into the history. */
struct history_writer {
    uint64_t realm[2];
    uint64_t sequence; /* number of the sequence, from 1; 0: it has not written yet */
    size_t n_written;  /* tokens of the sequence that are written or skipped */
    size_t last;       /* its newest chunk */
    uint64_t born;     /* the number of that chunk; 0: none */
};

/* A position in the history. */
struct history_place {
    const struct history_chunk *chunk; /* NULL: no position */
    size_t at;                         /* index in the chunk */
};

/* Allocates a history of at most BYTES >= HISTORY_MIN_BYTES. The tokens of the newest MAX_SEQUENCES sequences can be
 * found. SEED seeds the hashes. ERR_NOMEM: H is zeroed. */
int history_open(struct history *h, size_t bytes, size_t max_sequences, uint64_t seed, struct err *e);
void history_close(struct history *h); /* H may be zeroed */

/* Returns the number of tokens that fit into H. */
size_t history_capacity(const struct history *h);

/* Returns the writer of a sequence. REALM is a hash of everything that must be equal for sequences to share tokens. The
 * first N_SKIPPED tokens are not written (another sequence writes the same prompt). */
struct history_writer history_writer(const uint64_t realm[2], size_t n_skipped);

/* Writes those of the sequence's tokens TOKEN [n] that are not written yet, in whole chunks. ENDS: writes the
 * incomplete last chunk, too. */
void history_write(struct history *h, struct history_writer *w, const int32_t *token, size_t n, bool ends);

/* Searches the history of other sequences of W's realm for the last tokens of TOKEN [n], at most MAX_LENGTH. Returns
 * the length of the longest match found, at least HISTORY_SHORT, or 0; writes the positions of the last tokens of its
 * occurrences to PLACE [n_most], newest first, and their number to *N_PLACES. */
size_t history_find(const struct history *h, const struct history_writer *w, const int32_t *token, size_t n,
                    size_t max_length, struct history_place *place, size_t n_most, size_t *n_places);

/* Moves PLACE to the next token of its sequence and writes the token to *TOKEN. False: the history does not have it,
 * and place->chunk is NULL now. */
bool history_next(const struct history *h, struct history_place *place, int32_t *token);

#endif
