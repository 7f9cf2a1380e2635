/* tags.h - reads structural tags: free text in which marks begin parts with a format.
 *
 * Both notations of vLLM are supported: {"structures": [{begin, schema, end}], "triggers": [...]} and, as
 * defined by xgrammar 0.2, {"format": {"type": ...}} with const_string, json_schema, regex, grammar,
 * any_text, sequence, or, optional, plus, star, repeat, tag, triggered_tags, tags_with_separator and
 * dispatch. Text is free until a trigger is complete; then the rest of a tag that begins with this trigger
 * must follow. Free text inside a tag does not contain the tag's end.
 *
 * An error names what is not supported: formats over tokens instead of text, styles of json_schema other than
 * "json", and unknown fields.
 */
#ifndef GALLOP_TEXT_GRAMMAR_TAGS_H
#define GALLOP_TEXT_GRAMMAR_TAGS_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/grammar.h"

/* Compiles a JSON Schema: adds its texts to G and sets *START to their expression. Returns an error code. */
typedef int tags_schema(void *context, struct grammar *g, const json_t *schema, uint32_t *start,
                        struct err *e);

/* Adds the texts of the structural tag TAG (a JSON object) to G, and sets *START to their expression. SCHEMA
 * compiles the schemas in TAG. ERR_INPUT, ERR_UNSUPPORTED: the message has the JSON pointer into TAG, what
 * was found and what was expected. ERR_NOSPACE: a limit of G is reached. */
int tags_read(struct grammar *g, const json_t *tag, tags_schema *schema, void *context, uint32_t *start,
              struct err *e);

#endif
