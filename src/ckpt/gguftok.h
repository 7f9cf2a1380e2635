/* gguftok.h - what the metadata of a GGUF checkpoint say beside the model: tokenizer, chat template, how to
 * generate. */
#ifndef GALLOP_CKPT_GGUFTOK_H
#define GALLOP_CKPT_GGUFTOK_H

#include <jansson.h>
#include <stdbool.h>

#include "ckpt/ggufset.h"
#include "text/tok.h"

/* True if the metadata hold a tokenizer: a model other than "none" and "no_vocab" is named. */
bool gguftok_has(struct ggufset *s);

/* The tokenizer; free of S when this returns. */
int gguftok_open(struct tok **out, struct ggufset *s, struct err *e);

/* A new object like tokenizer_config.json: chat_template, the special tokens, add_bos_token,
 * add_eos_token. */
int gguftok_config(json_t **out, struct ggufset *s, struct err *e);

/* A new object like generation_config.json: bos_token_id, every token that ends a text as eos_token_id, and
 * the sampling that general.sampling.* recommend. */
int gguftok_generation(json_t **out, struct ggufset *s, struct err *e);

#endif
