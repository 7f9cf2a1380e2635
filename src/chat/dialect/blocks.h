/* blocks.h - writes an answer as a list of blocks: reasoning, text, or one tool call. Anthropic's Messages API and
 * OpenAI's Responses API have this structure.
 */
#ifndef GALLOP_CHAT_DIALECT_BLOCKS_H
#define GALLOP_CHAT_DIALECT_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "chat/dialect/dialect.h"

enum blocks_kind { BLOCKS_NONE, BLOCKS_REASONING, BLOCKS_TEXT, BLOCKS_CALL };

struct blocks {
    enum blocks_kind kind; /* kind of the open block; BLOCKS_NONE: no block is open */
    size_t n;              /* number of closed blocks */
    bool is_last;          /* whether the block that is being closed is the answer's last one */
};

/* The functions with which a dialect writes a block. ID and NAME belong to a tool call; NULL for other blocks. */
struct blocks_writer {
    void (*open)(const struct dialect_writer *w, const char *id, const char *name, struct buf *out);
    void (*add)(const struct dialect_writer *w, const char *text, size_t n, struct buf *out);
    void (*close)(const struct dialect_writer *w, struct buf *out);
};

/* Writes the unsent reasoning, text and tool calls of choice H. The last block stays open unless H has ended. */
void blocks_put(const struct dialect_writer *w, struct blocks *b, const struct blocks_writer *to,
                const struct answer_choice *h, struct buf *out);

#endif
