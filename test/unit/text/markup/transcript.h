/* transcript.h - what comes out of an answer, as one line of text that tests compare:
 *
 *     [reasoning]...[content]...[call NAME]ARGUMENTS[end]      [cut] instead of [end]: not complete
 *
 * Pieces of one kind are joined, so two transcripts are equal when the answers are, however they were cut.
 */
#ifndef GALLOP_TEST_TEXT_TRANSCRIPT_H
#define GALLOP_TEST_TEXT_TRANSCRIPT_H

#include "base/buf.h"
#include "text/markup/parser.h"

struct transcript {
    struct buf text;
    enum parser_kind last;
    bool begun;
    unsigned n_calls;
};

/* Adds what can be taken of A. Aborts the process when pieces break their order: arguments outside of a call,
 * numbers that are not consecutive, an empty piece of text. */
void transcript_take(struct transcript *t, struct parser *a);

/* The whole of TEXT[n], cut before each byte for which CUT says so; a name ends in "[CUT]" if CUT_SHORT.
 * Returns a string to be freed with mem_free(), or NULL when memory ran out on the way. */
char *transcript_of(const struct parser_options *o, const char *text, size_t n,
                    bool (*cut)(const void *ctx, size_t at), const void *ctx, bool cut_short);

#endif
