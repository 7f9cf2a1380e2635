/* tokgpt2.h - reads vocab.json and merges.txt, the form of GPT-2, OPT and Qwen2 checkpoints without a
 * tokenizer.json. */
#ifndef GALLOP_TEXT_TOKGPT2_H
#define GALLOP_TEXT_TOKGPT2_H

#include "base/err.h"
#include "base/folder.h"
#include "text/tokconf.h"

struct tok;

/* Fills and seals the new T from the two files of the folder IN. How words are cut is known from CONF's
 * tokenizer_class or model type; without either it is GPT-2's way, an unknown one is ERR_UNSUPPORTED. T must
 * be freed on failure. */
int tokgpt2_read(struct tok *t, struct folder in, const struct tokconf *conf, struct err *e);

#endif
