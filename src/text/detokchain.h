/* detokchain.h - the decoder of a tokenizer as a chain of steps, run on tokens as they come.
 *
 * A step gets whole tokens until one in front of it joins them (ByteLevel, Fuse); behind that there is one
 * token, which comes in fragments. Steps that cannot work on fragments collect them until the end, so every
 * chain gives what Hugging Face's decoder gives, and the usual ones give it at once.
 */
#ifndef GALLOP_TEXT_DETOKCHAIN_H
#define GALLOP_TEXT_DETOKCHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/pretokre.h"

enum detokchain_kind {
    DETOKCHAIN_BYTE_LEVEL, /* letters of the GPT-2 alphabet to bytes; joins; ill-formed parts become U+FFFD */
    DETOKCHAIN_BYTE_FALLBACK, /* runs of <0xAB> to text, or to one U+FFFD each if the run is none */
    DETOKCHAIN_FUSE,          /* joins */
    DETOKCHAIN_REPLACE,       /* literal find or matches of re become text */
    DETOKCHAIN_STRIP,         /* up to start characters ch at the front and stop at the back of a token */
    DETOKCHAIN_METASPACE,     /* ch becomes a space; dropped in the first token if drop_first */
    DETOKCHAIN_SUFFIX,        /* find becomes a space, and nothing in the last token (BPEDecoder) */
    DETOKCHAIN_JOIN,          /* a space between tokens (no decoder at all) */
};

struct detokchain_step {
    enum detokchain_kind kind;
    char *find, *text;
    size_t n_find, n_text;
    struct pretokre *re;
    uint32_t ch;
    size_t start, stop;
    bool drop_first;
};

struct detokchain { /* zeroed = tokens are written one after the other */
    struct detokchain_step *step;
    size_t n, cap;
};

struct detokchain_run; /* one sequence on its way through the chain */

/* Adds STEP and takes what it points to, also on failure (ERR_NOMEM). */
int detokchain_add(struct detokchain *c, struct detokchain_step step, struct err *e);
void detokchain_fini(struct detokchain *c);

struct detokchain_run *detokchain_run_new(const struct detokchain *c); /* NULL: out of memory */
void detokchain_run_free(struct detokchain_run *r);                    /* NULL is fine */

/* One token (good UTF-8) in; what is certain now is appended to OUT. ERR_NOMEM, or a pattern that gives
 * up. */
int detokchain_put(struct detokchain_run *r, const char *token, size_t n, struct buf *out, struct err *e);

/* The end of the sequence: appends what was held back and makes R ready for another one. */
int detokchain_end(struct detokchain_run *r, struct buf *out, struct err *e);

#endif
