/* recognizer.h - parses texts of a grammar byte by byte (Earley 1970), and interns every parser state.
 *
 * A state, called a row, is an Earley set: the items that match the text so far. An item is a rule, the
 * rest of its body, and its origin. Terminals are regular expressions, so an item inside a terminal also has
 * a state (derivative) of that expression. The origin is not the row where the rule was predicted, but the
 * frame of that row: its items whose next symbol is a rule. Equal rows have one number, and equal frames have
 * one number. An array of strings therefore has the same row inside each of its strings, and edges and token
 * masks of a row are computed once. Right recursion needs as few rows as repetition.
 *
 * A row is never a dead end: some text completes it. Faults are those of the grammar's store; after a fault,
 * every row is RECOGNIZER_DEAD. Not thread-safe.
 */
#ifndef GALLOP_TEXT_GRAMMAR_RECOGNIZER_H
#define GALLOP_TEXT_GRAMMAR_RECOGNIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar/automata/edges.h"
#include "text/grammar/automata/grammar.h"
#include "text/grammar/automata/tuples.h"

/* Predefined rows: the row without items, and the row before the first byte. */
enum { RECOGNIZER_DEAD, RECOGNIZER_BEGIN };

struct recognizer_row;
struct recognizer_frame;

/* A hash table of rows or of frames. */
struct recognizer_table {
    uint32_t *slot; /* [n] the number of a row or frame; 0: free */
    size_t n;
};

struct recognizer {
    struct grammar *g;
    struct recognizer_row *row; /* [n] */
    size_t n, cap;
    struct recognizer_frame *frame; /* [n_frames] */
    size_t n_frames, cap_frames;
    struct tuple *tuple; /* [n_tuples] the items of all rows and frames */
    size_t n_tuples, cap_tuples;
    struct recognizer_table rows, frames;
    struct edges_tables tables;
    uint32_t clamp_most; /* the argument of recognizer_clamp() for which results are kept; 0: none */
    /* Items of the row under construction. POSITION: items that are still to be expanded; WAITING: items whose next
     * symbol is a rule; SCANNING: items whose next symbol is a terminal, or that are inside one. */
    struct tuples position, waiting, scanning;
};

/* An Earley item whose next symbol is a terminal, or that has matched the first bytes of a terminal. */
struct recognizer_scan {
    uint32_t rule;   /* the item's rule */
    uint32_t rest;   /* the position in the rule after the terminal */
    uint32_t term;   /* the state of the terminal's regular expression */
    uint32_t origin; /* the frame where the rule was predicted; 0: this row's own frame */
};

/* Makes the first row. G is borrowed and must be finished. ERR_NOMEM, ERR_NOSPACE. */
int recognizer_open(struct recognizer *r, struct grammar *g, struct err *e);
void recognizer_close(struct recognizer *r); /* R may be zeroed */

/* Returns the row after BYTE. RECOGNIZER_DEAD: no text of the grammar continues with BYTE. */
uint32_t recognizer_next(struct recognizer *r, uint32_t row, uint8_t byte);

/* True if the text may end at ROW. */
bool recognizer_may_end(const struct recognizer *r, uint32_t row);

/* Sets *SCANS, valid until the next call, to ROW's items at or inside a terminal. Returns their number. */
size_t recognizer_scans(const struct recognizer *r, uint32_t row, const struct recognizer_scan **scans);

/* Returns the row that has only the items SCANS [n] of ROW's items. Possibly no text leads to this row. */
uint32_t recognizer_part(struct recognizer *r, uint32_t row, const struct recognizer_scan *scans, size_t n);

/* Returns one row that represents ROW and all rows that allow the same next MOST bytes, because they differ from ROW
 * only in large repetition counts. */
uint32_t recognizer_clamp(struct recognizer *r, uint32_t row, uint32_t most);

/* True if the grammar matches TEXT as a whole. */
bool recognizer_matches(struct recognizer *r, const char *text, size_t n);

#endif
