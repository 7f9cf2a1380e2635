/* decode.h - the decoder: a chain of steps that runs on tokens as they arrive.
 *
 * A step gets whole tokens until a step before it joins them (ByteLevel, Fuse); after that step there is one
 * token, which arrives in fragments, and only a Strip may follow. A step keeps what it cannot decide yet, so
 * every chain gives what Hugging Face's decoder gives, and the usual chains give it at once. Without steps,
 * tokens are written one after the other.
 */
#ifndef GALLOP_TEXT_TOK_DECODE_H
#define GALLOP_TEXT_TOK_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/tok/steps.h"

/* ERR_UNSUPPORTED: a step other than Strip follows a step that joins tokens. */
int decode_check(const struct steps *c, struct err *e);

/* Appends the bytes of TOKEN to OUT if the chain has a step that turns tokens into bytes, and the bytes are
 * only a part of a character. False: OUT does not change. */
bool decode_part_of_character(const struct steps *c, const char *token, size_t n, struct buf *out);

/* The state of the chain for one sequence. */
struct decode_run;

struct decode_run *decode_run_new(const struct steps *c); /* NULL: out of memory */
void decode_run_free(struct decode_run *r);               /* NULL is fine */

/* Decodes one token (valid UTF-8) and appends the text that is certain now to OUT. ERR_NOMEM, or a pattern
 * that exceeds its limit. */
int decode_put(struct decode_run *r, const char *token, size_t n, struct buf *out, struct err *e);

/* The end of the sequence: appends the text that was kept back, and resets R for another sequence. */
int decode_end(struct decode_run *r, struct buf *out, struct err *e);

#endif
