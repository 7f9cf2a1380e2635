/* openai.h - what OpenAI's chat completions and completions have in common. */
#ifndef GALLOP_API_DIALECT_OPENAI_H
#define GALLOP_API_DIALECT_OPENAI_H

#include <stddef.h>
#include <stdint.h>

#include "api/dialect/dialect.h"
#include "api/request.h"

struct buf;
struct schema;

extern const struct schema openai_usage_schema, openai_finish_schema;

/* Writes the members of an answer up to its list of choices, which is left open. */
void openai_put_head(const struct request *q, const char *object, struct buf *out);

/* Writes `usage` of prompts of N_PROMPT tokens, of which N_CACHED were cached, and answers of N_OUTPUT. */
void openai_put_usage(size_t n_prompt, size_t n_output, size_t n_cached, struct buf *out);
void openai_put_all_usage(const struct dialect_writer *w, struct buf *out);

/* Writes `finish_reason` and `stop_reason`. */
void openai_put_finish(const struct answer_choice *h, struct buf *out);

/* Write lists of token ids: ID [n] under NAME, and those of T as `token_ids`. */
void openai_put_ids(const char *name, const int32_t *id, size_t n, struct buf *out);
void openai_put_token_ids(const struct answer_tokens *t, struct buf *out);

/* Ends a stream of events of the kind OBJECT. */
void openai_put_end(const struct dialect_writer *w, const char *object, int status, const char *sentence,
                    struct buf *out);

#endif
