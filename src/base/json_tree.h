/* json_tree.h - trees of jansson's whose integers may have any size, and the text of such trees.
 *
 * Jansson's integers have 64 bits. A larger one is an object with one member: its key is a byte that no JSON
 * text can hold, its value the digits as they were written. json_pull_load_large() and json_pull_load_exact()
 * make them; everything that writes a tree whose content came from outside uses buf_json_tree().
 */
#ifndef GALLOP_BASE_JSON_TREE_H
#define GALLOP_BASE_JSON_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum {
    JSON_LARGE_DIGITS = 4300, /* Python's own limit for the digits of an integer */
    JSON_REAL_TEXT = 32       /* bytes of a number's text, with the NUL */
};

/* A new tree for the integer TEXT [n], or NULL: no memory. */
json_t *json_large(const char *text, size_t n);

/* The digits of V, terminated, with their number in *N; NULL: V is no such integer. */
const char *json_large_text(const json_t *v, size_t *n);

/* The shortest digits that read back as the finite F, written as Python's repr() writes them. */
void json_real_text(double f, char text[JSON_REAL_TEXT]);

/* Appends the text of V. SPACED: with a blank behind each comma and colon, as Python's json does. */
void buf_json_tree(struct buf *b, const json_t *v, bool spaced);

#endif
