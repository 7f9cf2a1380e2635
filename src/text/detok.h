/* detok.h - ids back to text, one id at a time, as a streamer shows it.
 *
 * The pieces that come out, joined, are tok_decode() of all ids byte for byte (tok_decode() runs this same
 * machine). Every piece is valid UTF-8, and what is held back is only what a later id could still change: the
 * beginning of a character, a run of byte pieces (<0xE2>...) that only its end proves to be text, blanks a
 * decoder strips at the end. Not thread safe; the tokenizer must outlive it.
 */
#ifndef GALLOP_TEXT_DETOK_H
#define GALLOP_TEXT_DETOK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

struct tok;
struct detok;

/* Starts one sequence. ERR_NOMEM is the only failure. */
int detok_new(struct detok **out, const struct tok *t, bool skip_special, struct err *e);

/* Appends to OUT what can be shown now that ID has come; unknown ids are skipped. */
int detok_put(struct detok *d, int32_t id, struct buf *out, struct err *e);

/* Appends what was held back; the next detok_put() begins a new sequence. */
int detok_end(struct detok *d, struct buf *out, struct err *e);

void detok_free(struct detok *d); /* NULL is fine */

#endif
