/* tokcomp.h - the fields of one component of a tokenizer.json ({"type": ..., ...}), read before its type is
 * known, since JSON does not promise that the type comes first. Strings are borrowed from the text or the
 * reader's arena.
 */
#ifndef GALLOP_TEXT_TOKCOMP_H
#define GALLOP_TEXT_TOKCOMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json_pull.h"

enum tokcomp_flag { TOKCOMP_UNSET = -1, TOKCOMP_NO, TOKCOMP_YES }; /* null counts as unset */

struct tokcomp { /* a string that is missing or null has s NULL */
    struct json_str type;
    struct json_str literal, regex; /* "pattern": {"String": ...} or {"Regex": ...} */
    struct json_str content, prepend, replacement, prepend_scheme, behavior, suffix, delimiter, charsmap;
    enum tokcomp_flag add_prefix_space, use_regex, individual_digits, split, invert, strip_left, strip_right;
    enum tokcomp_flag clean_text, handle_chinese_chars, strip_accents, lowercase;
    int64_t start, stop;
    struct json_str list;                             /* members of a Sequence, as JSON text */
    struct json_str single, special_tokens, sep, cls; /* of post-processors, as JSON text */
};

/* Reads the object at J. Fields that no component knows are passed over, as Hugging Face's reader does. */
void tokcomp_read(struct json_pull *j, struct tokcomp *c);

/* Makes RC the reader's error: for what a part said that knows no JSON. ERR gets the file and SECTION in
 * front. */
void tokcomp_stop(struct json_pull *j, int rc, const char *section);

/* The error for a component of SECTION that is not understood. */
int tokcomp_unknown(struct json_pull *j, const char *section, const struct tokcomp *c);

/* Calls READ for each member of the list C->list. */
void tokcomp_each(struct json_pull *j, const struct tokcomp *c,
                  void (*read)(struct json_pull *member, void *ctx), void *ctx);

/* "Removed", "Isolated", ... as the enum of pretok.h, in the order written there; -1: another name. */
int tokcomp_behavior(const struct json_str *s);

/* The one character of S; false: none, or more than one. */
bool tokcomp_char(const struct json_str *s, uint32_t *c);

#endif
