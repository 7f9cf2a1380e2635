/* logprobs.h - writes log-probabilities in three formats: `logprobs` of chat completions, `logprobs` of
 * completions, and vLLM's `prompt_logprobs`. */
#ifndef GALLOP_CHAT_DIALECT_LOGPROBS_H
#define GALLOP_CHAT_DIALECT_LOGPROBS_H

#include <stddef.h>

#include "base/buf.h"
#include "chat/answer.h"

struct request;
struct tok_stream;

/* The elements of the four arrays in a completion's `logprobs`, as JSON without the brackets. */
struct logprobs_lists {
    struct buf offset, logprob, token, top;
};

/* State of logprobs_add(): the position of the next token in the text of the prompt or of the answer. */
struct logprobs_place {
    struct tok_stream *stream; /* decodes tokens; NULL before the first token; owned */
    size_t at;                 /* number of characters before the next token */
    const struct buf *prompt;  /* text of the prompt whose tokens are listed; NULL: an answer's are */
    size_t n_bytes;            /* bytes of `prompt` before the next token */
    size_t most;               /* maximum number of alternatives to write for each token */
};

/* Writes the member `logprobs` of a choice of a chat completion. */
void logprobs_put_chat(const struct request *q, const struct answer_tokens *t, struct buf *out);

/* Writes `prompt_logprobs`: for each prompt token an object of token id to log-probability, which begins with the
 * prompt token itself. */
void logprobs_put_prompt(const struct request *q, const struct answer_prompt *p, struct buf *out);

/* Appends token V of T to the lists L. T NULL: V is the first token of a prompt, which has no log-probability. */
void logprobs_add(const struct request *q, struct logprobs_lists *l, struct logprobs_place *p,
                  const struct answer_tokens *t, const struct answer_token *v);

/* Writes the member `logprobs` of a completion: the lists PROMPT of the prompt (NULL: none), followed by the lists L.
 * Releases L. */
void logprobs_put_lists(const struct logprobs_lists *prompt, struct logprobs_lists *l, struct buf *out);

void logprobs_init_lists(struct logprobs_lists *l);
void logprobs_fini_lists(struct logprobs_lists *l);

/* Frees logprobs_place.stream, which may be NULL. */
void logprobs_free_stream(struct tok_stream *stream);

/* Returns the number of characters of UTF-8 TEXT. */
size_t logprobs_n_characters(const struct buf *text);

#endif
