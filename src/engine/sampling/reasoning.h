/* reasoning.h - limits the tokens of reasoning: detects reasoning in an answer, and forces its end when the budget is
 * used up.
 *
 * A model marks its reasoning with two texts, "<think>" and "</think>" for instance. A parser of text/markup, which
 * reads the text of all tokens, tells whether the answer is inside reasoning, by the same rules by which the answer is
 * parsed later: reasoning opens only before content, and a tool call ends it, too. While it is undecided whether a text
 * is a tool call, nothing is forced.
 *
 * The budget counts the tokens between the marks, over all reasoning of an answer together. When the budget is used up,
 * the tokens of the closing mark are generated next, whatever tokens the model would choose. The forced tokens depend
 * only on the earlier tokens of the answer.
 */
#ifndef GALLOP_ENGINE_REASONING_H
#define GALLOP_ENGINE_REASONING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "text/markup/parser.h"

enum {
    REASONING_MAX_MARK = 64, /* maximum bytes of a mark */
    REASONING_CALLS = 2,     /* maximum number of marks that open tool calls */
    REASONING_PATIENCE =
        1024, /* maximum number of tokens for which it may be undecided whether a tool call follows */
};

/* The reasoning limit of a request; constant after reasoning_init(). */
struct reasoning {
    const struct tok *tok; /* borrowed; NULL: there is no budget */
    /* MARKS: the marks of the request; BEGUN: the same for an answer that begins inside reasoning */
    struct markup_reasoning marks, begun;
    struct markup_calls calls;
    bool begins_inside;
    const int32_t *forced; /* [n_forced] tokens of the closing mark */
    size_t n_forced;
    size_t budget;
};

/* The state of one answer. */
struct reasoning_run {
    const struct reasoning *r; /* NULL: there is no budget */
    struct tok_stream *stream;
    struct parser *parser;
    struct buf text, special; /* scratch */
    enum parser_place place;
    size_t n_spent; /* tokens of reasoning */
    /* n_spent when the mark of a tool call began; if a tool call follows, the tokens since do not count */
    size_t n_before_call;
    size_t n_forced; /* number of tokens of the closing mark that were forced so far */
};

/* The arguments of a request that limit its reasoning. All zero: no limit. */
struct reasoning_request {
    bool is_limited;
    size_t budget;            /* maximum number of reasoning tokens */
    const char *open, *close; /* NULL: not known */
    /* Marks of tool calls; NULL: not known. A model without CALL_CLOSE writes names right after CALL. */
    const char *call[REASONING_CALLS], *call_close;
    bool begun; /* the answer begins inside reasoning, even without OPEN at the prompt's end */
};

/* Initializes R for answers to the prompt IDS [n]; its arrays are allocated in A. ERR_INPUT, ERR_UNSUPPORTED
 * or ERR_NOMEM. */
int reasoning_init(struct reasoning *r, const struct reasoning_request *q, const int32_t *ids, size_t n,
                   const struct tok *tok, struct arena *a, struct err *e);

/* Initializes S for a new answer. Returns 0 or ERR_NOMEM. */
int reasoning_run_open(struct reasoning_run *s, const struct reasoning *r);
void reasoning_run_close(struct reasoning_run *s); /* S may be zeroed */

/* Returns the token that must be generated next, or -1 if any token may be. If a different token is added
 * instead, the whole closing mark is forced again. */
int32_t reasoning_run_forced(const struct reasoning_run *s);

/* Returns a number of tokens that can be generated next, whatever they are, before a token is forced. SIZE_MAX: no
 * token will ever be forced. */
size_t reasoning_run_free(const struct reasoning_run *s);

/* Adds the generated token ID. Returns 0 or ERR_NOMEM. */
int reasoning_run_add(struct reasoning_run *s, int32_t id, struct err *e);

#endif
