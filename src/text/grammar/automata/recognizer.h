/* recognizer.h - reads texts of a grammar byte by byte, and remembers every state that it has been in.
 *
 * This is Earley's algorithm (1970) over bytes: a state, called a row, is the set of positions in rules at
 * which the text so far can be. A position inside a regular expression holds the state of that expression.
 * Instead of the row at which its rule was begun it holds that row's frame: what waits for the rules that begin
 * there. Equal rows and equal frames have one number: an array of strings has the same row in each of its
 * strings, so that edges and token masks of a row are computed once. Right recursion takes no more rows than
 * repetition does.
 *
 * A row is never a dead end: some text completes it. Faults are those of the grammar's store; after one, every
 * row is RECOGNIZER_DEAD. Not thread-safe.
 */
#ifndef GALLOP_TEXT_GRAMMAR_RECOGNIZER_H
#define GALLOP_TEXT_GRAMMAR_RECOGNIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/edges.h"
#include "text/grammar/automata/grammar.h"
#include "text/grammar/automata/tuples.h"

/* Rows that every recognizer has. */
enum { RECOGNIZER_DEAD, RECOGNIZER_BEGIN };

struct recognizer_row;
struct recognizer_frame;

/* A hash table of rows or frames. */
struct recognizer_table {
    uint32_t *slot; /* [n] a number, or 0 */
    size_t n;
};

struct recognizer {
    struct grammar *g;
    struct recognizer_row *row; /* [n] */
    size_t n, cap;
    struct recognizer_frame *frame; /* [n_frames] */
    size_t n_frames, cap_frames;
    struct tuple *tuple; /* [n_tuples] the positions of all rows and frames */
    size_t n_tuples, cap_tuples;
    struct recognizer_table rows, frames;
    struct edges_tables tables;
    /* The row that is being made: positions at which a rule goes on, at which a rule waits for another one,
     * and inside regular expressions. */
    struct tuples position, waiting, scanning;
};

/* A position inside a regular expression. */
struct recognizer_scan {
    uint32_t rule;   /* whose text is being read */
    uint32_t rest;   /* of the rule after the expression: a position of the grammar */
    uint32_t term;   /* state of the regular expression */
    uint32_t origin; /* frame of the row at which the rule was begun; 0: that of this row */
};

/* G is borrowed and must be finished. ERR_NOMEM, ERR_NOSPACE. */
int recognizer_open(struct recognizer *r, struct grammar *g, struct err *e);
void recognizer_close(struct recognizer *r); /* a zeroed one is fine */

/* The row after BYTE. RECOGNIZER_DEAD: no text of the grammar goes on so. */
uint32_t recognizer_next(struct recognizer *r, uint32_t row, uint8_t byte);

/* True if the text may end at ROW. */
bool recognizer_may_end(const struct recognizer *r, uint32_t row);

/* The positions of ROW inside regular expressions, in *SCANS [n], borrowed until the next call. */
size_t recognizer_scans(const struct recognizer *r, uint32_t row, const struct recognizer_scan **scans);

/* The row whose positions are SCANS [n], which are some of those of ROW. It may not be a row that a text leads
 * to. */
uint32_t recognizer_part(struct recognizer *r, uint32_t row, const struct recognizer_scan *scans, size_t n);

/* The row that stands for all rows which the next MOST bytes cannot tell from ROW by repetition counts. */
uint32_t recognizer_clamp(struct recognizer *r, uint32_t row, uint32_t most);

/* Reads TEXT from the beginning. True if it is a text of the grammar. */
bool recognizer_matches(struct recognizer *r, const char *text, size_t n);

#endif
