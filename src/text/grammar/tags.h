/* tags.h - reads structural tags: text in which marks begin parts that have a form.
 *
 * Both spellings of vLLM are read: {"structures": [{begin, schema, end}], "triggers": [...]} and, as xgrammar 0.2
 * defines it, {"format": {"type": ...}} with const_string, json_schema, regex, grammar, any_text, sequence, or,
 * optional, plus, star, repeat, tag, triggered_tags, tags_with_separator and dispatch. Text is free up to the
 * first place where a trigger is complete; from there on it is the rest of a tag that begins so. Free text in
 * the content of a tag does not have the tag's end in it.
 *
 * Refused by name: formats over tokens instead of texts, styles of json_schema but "json", and fields that are
 * not known.
 */
#ifndef GALLOP_TEXT_GRAMMAR_TAGS_H
#define GALLOP_TEXT_GRAMMAR_TAGS_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "text/grammar/automata/grammar.h"

/* Adds to G what a JSON Schema describes: *START is the expression of whole texts. Returns an error's code. */
typedef int tags_schema(void *context, struct grammar *g, const json_t *schema, uint32_t *start,
                        struct err *e);

/* Adds to G the texts of TAG, the object of a structural tag; *START is their expression. SCHEMA reads the
 * schemas in it. ERR_INPUT, ERR_UNSUPPORTED: the JSON pointer into TAG, what was found and what was expected.
 * ERR_NOSPACE: a limit of G is reached. ERR_NOMEM. */
int tags_read(struct grammar *g, const json_t *tag, tags_schema *schema, void *context, uint32_t *start,
              struct err *e);

#endif
