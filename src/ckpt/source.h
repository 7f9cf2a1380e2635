/* source.h - what stands beside the weights of a model, whatever its path means: a folder of Hugging Face's
 * or a GGUF checkpoint. (The weights themselves: weights.h.)
 */
#ifndef GALLOP_CKPT_SOURCE_H
#define GALLOP_CKPT_SOURCE_H

#include "base/err.h"
#include "base/mem.h"
#include "ckpt/config.h"
#include "text/chat.h"
#include "text/tok/tok.h"

/* config.json, or its like. */
int source_conf(struct config **out, struct folder in, struct err *e);

/* The tokenizer; IN may also be any file that tok_open() takes. */
int source_tok(struct tok **out, struct folder in, struct err *e);

/* True if IN has a tokenizer that must open: a failure of source_tok() then is not merely the lack of
 * one. */
bool source_has_tok(struct folder in);

/* The chat template and special tokens. */
int source_chat(struct chat **out, struct folder in, struct err *e);

/* The text of a generation_config.json appended to OUT where IN has no such file but says what one would;
 * else nothing. */
int source_generation(struct folder in, struct buf *out, struct err *e);

#endif
