/* infill.h - fill-in-the-middle prompts: the text before a gap (prefix) and the text after it (suffix), with the tokens
 * around them that the model was trained with.
 *
 * The tokens are those that a GGUF file names, or else those of the first family whose names are in the vocabulary:
 * Qwen, StarCoder, SantaCoder, CodeLlama, DeepSeek and GLM (tokens before the prefix, before the suffix, at the end),
 * and Codestral, whose suffix comes first.
 */
#ifndef GALLOP_TEXT_TOK_INFILL_H
#define GALLOP_TEXT_TOK_INFILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tok;
struct tok_ids;

/* Returns true if the vocabulary has fill-in-the-middle tokens. */
bool infill_is_known(const struct tok *t);

/* Sets E to the error about a vocabulary without such tokens: ERR_UNSUPPORTED, about "suffix". */
int infill_refuse(struct err *e);

/* Appends the ids of the fill-in-the-middle prompt with PREFIX and SUFFIX to OUT, which failures do not change. With
 * TOK_ADD_SPECIAL, the ids that precede a text (BOS) are added, but not those that follow it. ERR_UNSUPPORTED: the
 * error of infill_refuse(). */
int infill_encode(const struct tok *t, const char *prefix, size_t n_prefix, const char *suffix,
                  size_t n_suffix, unsigned flags, struct tok_ids *out, struct err *e);

/* Writes the tokens that, besides the model's end tokens, end the generated middle (<EOT>, <|fim_pad|>, <|file_sep|>
 * ...) to ID. Returns their number. */
enum { INFILL_MAX_ENDS = 16 };
size_t infill_ends(const struct tok *t, int32_t id[INFILL_MAX_ENDS]);

#endif
