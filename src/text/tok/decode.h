/* decode.h - the decoder: a chain of steps that runs on tokens as they arrive.
 *
 * A step receives whole tokens unless an earlier step joins tokens (ByteLevel, Fuse). Steps after a joining
 * step receive a single token in fragments, and only a Strip may follow. A step holds back text that later
 * tokens may still change, so the joined output equals that of Hugging Face's decoder. The usual chains hold
 * back little. Without steps, tokens are written one after the other.
 */
#ifndef GALLOP_TEXT_TOK_DECODE_H
#define GALLOP_TEXT_TOK_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct steps;

/* Returns 0 or ERR_UNSUPPORTED: a step other than Strip follows a step that joins tokens. */
int decode_check(const struct steps *c, struct err *e);

/* Appends the bytes of TOKEN to OUT if the chain turns tokens into bytes and these bytes are an incomplete
 * character. Otherwise returns false, and OUT does not change. */
bool decode_part_of_character(const struct steps *c, const char *token, size_t n, struct buf *out);

/* Writes the bytes that TOKEN stands for inside a text to OUT [SIZE], without allocating. Returns their
 * number; a text that is longer is cut to SIZE bytes, or is empty. */
size_t decode_inside(const struct steps *c, const char *token, size_t n, char *out, size_t size);

/* The state of the decoder for one sequence. */
struct decode_run;

/* Returns a new state, or NULL: out of memory. WHOLE: a run of byte pieces that is not UTF-8 becomes U+FFFD for each
 * byte, as in a whole text of Hugging Face's library; otherwise each character of a run is passed on when it is
 * complete, and U+FFFD begins at the first byte that is not part of a character. */
struct decode_run *decode_run_new(const struct steps *c, bool whole);
void decode_run_free(struct decode_run *r); /* may be NULL */

/* Decodes one token (valid UTF-8) and appends the text that is final to OUT. SPECIAL: it is a special token.
 * Fails with ERR_NOMEM, or if a pattern exceeds its match limit. */
int decode_put(struct decode_run *r, const char *token, size_t n, bool special, struct buf *out,
               struct err *e);

/* Returns how many bytes at the end of the text that the last decode_put() or decode_end() appended come from a special
 * token. */
size_t decode_n_special(const struct decode_run *r);

/* Ends the sequence: appends the text that was held back, and resets R for another sequence. */
int decode_end(struct decode_run *r, struct buf *out, struct err *e);

/* Makes TO, a run of the same chain, a copy of the state of FROM. The only possible error is ERR_NOMEM. */
int decode_copy(struct decode_run *to, const struct decode_run *from, struct err *e);

#endif
