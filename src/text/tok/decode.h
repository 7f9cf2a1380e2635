/* decode.h - the decoder of a tokenizer as a chain of steps, run on tokens as they come.
 *
 * A step gets whole tokens until one in front of it joins them (ByteLevel, Fuse); behind that there is one
 * token, which comes in fragments. Steps that cannot work on fragments collect them until the end, so every
 * chain gives what Hugging Face's decoder gives, and the usual ones give it at once.
 */
#ifndef GALLOP_TEXT_TOK_DECODE_H
#define GALLOP_TEXT_TOK_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json_pull.h"
#include "base/mem.h"
#include "text/tok/pattern.h"

enum decode_kind {
    DECODE_BYTE_LEVEL,    /* letters of the GPT-2 alphabet to bytes; joins; ill-formed parts become U+FFFD */
    DECODE_BYTE_FALLBACK, /* runs of <0xAB> to text, or to one U+FFFD each if the run is none */
    DECODE_FUSE,          /* joins */
    DECODE_REPLACE,       /* literal find or matches of re become text */
    DECODE_STRIP,         /* up to start characters ch at the front and stop at the back of a token */
    DECODE_METASPACE,     /* ch becomes a space; dropped in the first token if drop_first */
    DECODE_SUFFIX,        /* find becomes a space, and nothing in the last token (BPEDecoder) */
    DECODE_JOIN,          /* a space between tokens (no decoder at all) */
};

struct decode_step { /* what it points to is borrowed */
    enum decode_kind kind;
    struct json_str find, text;
    const struct pattern *re;
    uint32_t ch;
    size_t start, stop;
    bool drop_first;
};

struct decode { /* zeroed = tokens are written one after the other */
    struct decode_step *step;
    size_t n, cap;
};

struct decode_run; /* one sequence on its way through the chain */

int decode_add(struct decode *c, struct decode_step step, struct err *e); /* ERR_NOMEM */
void decode_fini(struct decode *c);

struct decode_run *decode_run_new(const struct decode *c); /* NULL: out of memory */
void decode_run_free(struct decode_run *r);                /* NULL is fine */

/* One token (good UTF-8) in; what is certain now is appended to OUT. ERR_NOMEM, or a pattern that gives
 * up. */
int decode_put(struct decode_run *r, const char *token, size_t n, struct buf *out, struct err *e);

/* The end of the sequence: appends what was held back and makes R ready for another one. */
int decode_end(struct decode_run *r, struct buf *out, struct err *e);

#endif
