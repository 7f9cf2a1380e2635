/* json_tree.h - jansson trees whose integers may have any size, and writing them as text.
 *
 * Jansson's integers have 64 bits. A larger one is represented by an object with one member: its key is a
 * byte that no JSON text contains, its value the digits of the integer. json_pull_load_large() and
 * json_pull_load_exact() make such objects. Code that writes a tree whose content came from outside must use
 * buf_json_tree().
 */
#ifndef GALLOP_BASE_JSON_TREE_H
#define GALLOP_BASE_JSON_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum {
    JSON_LARGE_DIGITS = 4300, /* Python's limit for the digits of an integer */
    JSON_REAL_TEXT = 32       /* bytes of a number as text, with the NUL */
};

/* Makes the tree of the integer TEXT [n]. NULL: out of memory. */
json_t *json_large(const char *text, size_t n);

/* The digits of V, terminated, and their number in *N. NULL: V is no such integer. */
const char *json_large_text(const json_t *v, size_t *n);

/* The shortest digits that read back as the finite F, in the form of Python's repr(). */
void json_real_text(double f, char text[JSON_REAL_TEXT]);

/* Appends V as text. SPACED: with a space after each comma and colon, like Python's json. */
void buf_json_tree(struct buf *b, const json_t *v, bool spaced);

#endif
