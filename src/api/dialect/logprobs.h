/* logprobs.h - log-probabilities in the forms of chat completions, of completions, and of vLLM's
 * prompt_logprobs. */
#ifndef GALLOP_API_DIALECT_LOGPROBS_H
#define GALLOP_API_DIALECT_LOGPROBS_H

#include <stddef.h>

#include "api/answer.h"
#include "base/buf.h"

struct request;
struct tok_stream;

/* The four lists of a completion's log-probabilities, as JSON without brackets. */
struct logprobs_lists {
    struct buf offset, logprob, token, top;
};

/* Where the tokens of a list are in the text. */
struct logprobs_place {
    struct tok_stream *stream; /* turns tokens into text; NULL before the first token; owned */
    size_t at;                 /* characters before the next token */
    size_t most;               /* alternatives to write for each token */
};

/* Writes member `logprobs` of a choice of a chat. */
void logprobs_put_chat(const struct request *q, const struct answer_tokens *t, struct buf *out);

/* Writes `prompt_logprobs`: for each token of the prompt an object of token id to log-probability, its own
 * first. */
void logprobs_put_prompt(const struct request *q, const struct answer_prompt *p, struct buf *out);

/* Adds token V of T to the lists; T NULL: V is the first token of a prompt, which has no log-probability. */
void logprobs_add(const struct request *q, struct logprobs_lists *l, struct logprobs_place *p,
                  const struct answer_tokens *t, const struct answer_token *v);

/* Writes member `logprobs` of a completion: the lists of its PROMPT, or NULL, followed by those of L, which
 * are released. */
void logprobs_put_lists(const struct logprobs_lists *prompt, struct logprobs_lists *l, struct buf *out);

void logprobs_init_lists(struct logprobs_lists *l);
void logprobs_fini_lists(struct logprobs_lists *l);

/* Counts the characters of UTF-8 text. */
size_t logprobs_n_characters(const struct buf *text);

#endif
