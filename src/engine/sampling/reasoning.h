/* reasoning.h - the budget of tokens for reasoning: where an answer reasons, and when the end of it is forced.
 *
 * A model marks its reasoning with two texts, "<think>" and "</think>" for instance. The marks are found in the text of
 * the tokens, special ones included, however it is cut into tokens. Tokens between them count, those of all
 * reasoning of an answer together; when the budget is spent, the tokens of the closing mark come next, whatever
 * the model would choose. What is forced is a function of the tokens of the answer alone.
 */
#ifndef GALLOP_ENGINE_REASONING_H
#define GALLOP_ENGINE_REASONING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "text/tok/tok.h"

enum { REASONING_MAX_MARK = 64 /* bytes of a mark */ };

/* What a request says. It never changes. */
struct reasoning {
    const struct tok *tok;    /* borrowed; NULL: there is no budget */
    const char *open, *close; /* in the arena */
    const int32_t *forced;    /* [n_forced] tokens of CLOSE */
    size_t n_forced;
    size_t budget;
    bool begins_inside;
};

/* The state of one answer. */
struct reasoning_run {
    const struct reasoning *r; /* NULL: there is no budget */
    struct tok_stream *stream;
    struct buf text; /* scratch */
    bool is_inside;  /* the next token is reasoning, or closes it */
    size_t matched;  /* bytes of the mark that is looked for, at the end of the text */
    size_t n_spent;  /* tokens of reasoning */
    size_t n_forced; /* tokens of the closing mark that are forced already */
};

/* How a request limits its reasoning. Zeroed: it does not. */
struct reasoning_request {
    bool is_limited;
    size_t budget;            /* tokens */
    const char *open, *close; /* NULL: not known */
    bool begun;               /* the prompt has opened reasoning, whatever its end */
};

/* Fills R, whose arrays lie in A, for answers to the prompt IDS [n]. ERR_INPUT, ERR_UNSUPPORTED or ERR_NOMEM. */
int reasoning_init(struct reasoning *r, const struct reasoning_request *q, const int32_t *ids, size_t n,
                   const struct tok *tok, struct arena *a, struct err *e);

/* Begins an answer. ERR_NOMEM. */
int reasoning_run_open(struct reasoning_run *s, const struct reasoning *r);
void reasoning_run_close(struct reasoning_run *s); /* a zeroed one is fine */

/* The token that is to come next, or -1: any may. If another one comes all the same, the mark is forced again. */
int32_t reasoning_run_forced(const struct reasoning_run *s);

/* Adds a token of the answer. ERR_NOMEM. */
int reasoning_run_add(struct reasoning_run *s, int32_t id, struct err *e);

#endif
