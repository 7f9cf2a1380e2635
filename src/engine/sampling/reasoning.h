/* reasoning.h - limits the tokens of reasoning: detects reasoning in an answer, and forces its end when the
 * budget is used up.
 *
 * A model marks its reasoning with two texts, "<think>" and "</think>" for instance. The marks are searched
 * in the text of all tokens, including special tokens, and may span several tokens. A mark that is a special token
 * counts only where this token was generated. Reasoning opens only
 * before the content of an answer, because content may mention the mark. It ends at its closing mark, and
 * also at a tool call, which models write without closing their reasoning: at the mark of tool calls with
 * a name and arguments behind it (text/markup/call_head.h). The parser of answers in text/markup has the same
 * rules. As long as it is open whether a text is a tool call, nothing is forced.
 *
 * The budget counts the tokens between the marks, over all reasoning of an answer together. When the budget
 * is used up, the tokens of the closing mark are generated next, whatever tokens the model would choose. The
 * forced tokens depend only on the earlier tokens of the answer. */
#ifndef GALLOP_ENGINE_REASONING_H
#define GALLOP_ENGINE_REASONING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "text/markup/call_head.h"
#include "text/tok/tok.h"

enum {
    REASONING_MAX_MARK = 64, /* maximum bytes of a mark */
    REASONING_CALLS = 2,     /* maximum number of marks that open tool calls */
};

/* A mark that is searched. */
struct reasoning_mark {
    const char *text; /* in the arena; NULL: the model does not have this mark */
    size_t n_special; /* number of its first bytes that a special token must have written */
};

/* The reasoning limit of a request; constant after reasoning_init(). */
struct reasoning {
    const struct tok *tok; /* borrowed; NULL: there is no budget */
    struct reasoning_mark open, close;
    struct reasoning_mark call[REASONING_CALLS], call_close; /* the marks of tool calls */
    const int32_t *forced;                                   /* [n_forced] tokens of CLOSE */
    size_t n_forced;
    size_t budget;
    bool begins_inside;
};

enum reasoning_place {
    REASONING_AT_MARK, /* a mark may follow: in reasoning, or where the answer has no content yet */
    REASONING_AT_CALL, /* after the mark of tool calls: what follows shows whether it is a tool call */
    REASONING_IN_CALL, /* in a tool call, which has ended the reasoning */
    REASONING_CONTENT, /* the content has begun: no reasoning follows */
};

/* The state of one answer. */
struct reasoning_run {
    const struct reasoning *r; /* NULL: there is no budget */
    struct tok_stream *stream;
    struct buf text, special; /* scratch; SPECIAL: whether a special token wrote the byte of `held` */
    enum reasoning_place place;
    bool is_inside; /* the next token is reasoning, or part of the closing mark */
    /* For each mark that is searched: number of its first bytes that the text ends with. */
    size_t matched[1 + REASONING_CALLS];
    size_t n_begun;        /* outside of reasoning: number of bytes that may be the beginning of a mark */
    struct call_head head; /* after the mark of tool calls */
    struct buf held;       /* the bytes after this mark, which are searched again if it was only mentioned */
    size_t at;             /* offset of the next byte in `held` */
    size_t n_spent;        /* tokens of reasoning */
    /* n_spent at the mark of tool calls, whose tokens do not count if a tool call follows */
    size_t n_before_call;
    size_t n_forced; /* number of tokens of the closing mark that were forced so far */
};

/* The arguments of a request that limit its reasoning. All zero: no limit. */
struct reasoning_request {
    bool is_limited;
    size_t budget;            /* tokens */
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

/* Returns a number of tokens after which no token is forced, whatever tokens they are. SIZE_MAX: no token will ever be
 * forced. */
size_t reasoning_run_free(const struct reasoning_run *s);

/* Adds the generated token ID. Returns 0 or ERR_NOMEM. */
int reasoning_run_add(struct reasoning_run *s, int32_t id, struct err *e);

#endif
