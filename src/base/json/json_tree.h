/* json_tree.h - jansson trees with integers of any size, and a writer for such trees.
 *
 * Jansson's integers have 64 bits. A larger integer is represented by an object with one member: its key is a byte that
 * no JSON text contains, its value the digits of the integer. json_pull_load_large() and json_pull_load_exact() make
 * such objects. Code that writes trees from clients or files must therefore use buf_json_tree().
 */
#ifndef GALLOP_BASE_JSON_TREE_H
#define GALLOP_BASE_JSON_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum {
    JSON_LARGE_DIGITS = 4300, /* maximum digits of an integer, as in Python */
    JSON_REAL_TEXT = 32       /* maximum bytes of a real as text, with the terminating zero byte */
};

/* Returns the object for the integer with the digits TEXT [n]. NULL: out of memory. */
json_t *json_large(const char *text, size_t n);

/* Returns the digits of the large integer V, terminated, and their number in *N. NULL: V is another value. */
const char *json_large_text(const json_t *v, size_t *n);

/* Returns the tree of the integer X. NULL: out of memory. */
json_t *json_unsigned(uint64_t x);

/* Sets *OUT to the 64 bits of the integer V, from -2^63 to 2^64 - 1; a negative one as its two's complement. Returns
 * false if V is another value. */
bool json_bits(const json_t *v, uint64_t *out);

/* Writes the shortest text that parses to the finite number F, in the format of Python's repr(). */
void json_real_text(double f, char text[JSON_REAL_TEXT]);

/* Appends V as JSON text. SPACED: with a space after each comma and colon, like Python's json module. */
void buf_json_tree(struct buf *b, const json_t *v, bool spaced);

/* The same without spaces, with reals of N_DIGITS significant digits. */
void json_tree_put_rounded(struct buf *b, const json_t *v, int n_digits);

#endif
