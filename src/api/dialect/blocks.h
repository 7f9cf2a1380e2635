/* blocks.h - answers as a row of blocks, each of reasoning, of text, or of one tool call, as Anthropic's
 * Messages and OpenAI's Responses have them.
 */
#ifndef GALLOP_API_DIALECT_BLOCKS_H
#define GALLOP_API_DIALECT_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "api/dialect/dialect.h"

enum blocks_kind { BLOCKS_NONE, BLOCKS_REASONING, BLOCKS_TEXT, BLOCKS_CALL };

struct blocks {
    enum blocks_kind kind; /* of the block that is open */
    size_t n;              /* blocks that are closed */
    bool is_last;          /* the block that is being closed is the answer's last */
};

/* How a dialect writes a block. ID and NAME are those of a tool call. */
struct blocks_writer {
    void (*open)(const struct dialect_writer *w, const char *id, const char *name, struct buf *out);
    void (*add)(const struct dialect_writer *w, const char *text, size_t n, struct buf *out);
    void (*close)(const struct dialect_writer *w, struct buf *out);
};

/* Writes what choice H has that was not sent; the last block stays open unless H has ended. */
void blocks_put(const struct dialect_writer *w, struct blocks *b, const struct blocks_writer *to,
                const struct answer_choice *h, struct buf *out);

#endif
