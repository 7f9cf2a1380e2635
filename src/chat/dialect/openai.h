/* openai.h - writes the parts of answers that chat completions and completions of OpenAI's API share. */
#ifndef GALLOP_CHAT_DIALECT_OPENAI_H
#define GALLOP_CHAT_DIALECT_OPENAI_H

#include <stddef.h>
#include <stdint.h>

#include "chat/dialect/dialect.h"
#include "chat/request.h"

struct buf;
struct schema;

extern const struct schema openai_usage_schema, openai_finish_schema;

/* Writes an answer of the type OBJECT up to and including the `[` of its list of choices. */
void openai_put_head(const struct request *q, const char *object, struct buf *out);

/* Writes the members content, tool_calls, and the reasoning as REASONING_FIELD, except for empty ones. IS_PART: M is a
 * part of a stream. WITH_CONTENT: empty content is written too, as null if there is reasoning or a tool call, else as
 * an empty string. */
void openai_put_message(const struct message *m, const char *reasoning_field, bool is_part, bool with_content,
                        struct buf *out);

/* Writes `usage` of all choices together. For chats with a model whose reasoning is parsed, it includes the
 * number of reasoning tokens. */
void openai_put_all_usage(const struct dialect_writer *w, struct buf *out);

/* Writes `finish_reason` and `stop_reason` of choice H, and the scores of a result of beam search. */
void openai_put_finish(const struct answer_choice *h, struct buf *out);

/* Write a list of token ids: ID [n] as the member NAME, or the ids of T as the member `token_ids`. */
void openai_put_ids(const char *name, const int32_t *id, size_t n, struct buf *out);
void openai_put_token_ids(const struct answer_tokens *t, struct buf *out);

/* Write the beginning and the end of an SSE event, an object of the type OBJECT with choice I: all up to the
 * choice's index, and all after the list of choices. BEGINS: the choice has no token yet. */
void openai_begin_event(const struct request *q, const char *object, size_t i, struct buf *out);
void openai_end_event(const struct dialect_writer *w, size_t i, bool begins, struct buf *out);

/* Writes the last events of a stream of OBJECT objects. STATUS and SENTENCE: as in struct dialect. */
void openai_put_end(const struct dialect_writer *w, const char *object, int status, const char *sentence,
                    struct buf *out);

#endif
