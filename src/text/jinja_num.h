/* jinja_num.h - numbers: Python's arithmetic on bool, int and float, reading them from text, printing
 * floats. */
#ifndef GALLOP_TEXT_JINJA_NUM_H
#define GALLOP_TEXT_JINJA_NUM_H

#include "text/jinja_val.h"

struct jbuf;

enum jop { JOP_ADD, JOP_SUB, JOP_MUL, JOP_DIV, JOP_FLOORDIV, JOP_MOD, JOP_POW };

bool jinja_num_is(struct jv v);     /* bool, int (of any size) or float */
bool jinja_num_is_int(struct jv v); /* bool or int (of any size) */

/* A OP B for two numbers. */
struct jv jinja_num_binary(struct jrun *r, enum jop op, struct jv a, struct jv b);
struct jv jinja_num_negate(struct jrun *r, struct jv a);
struct jv jinja_num_abs(struct jrun *r, struct jv a);

/* The number as a double; sets an error when an integer is too large. */
double jinja_num_double(struct jrun *r, struct jv v);

/* -1, 0, 1; 2 when a nan is involved. Exact also between int and float. */
int jinja_num_cmp(struct jv a, struct jv b);

/* Python's round(v, digits). WITH_DIGITS false: round(v), an int. */
struct jv jinja_num_round(struct jrun *r, struct jv v, int64_t digits, bool with_digits);

/* int(v) of a float; an error for inf and nan. */
struct jv jinja_num_truncate(struct jrun *r, double f);

/* int(text, base) and float(text): false when the text is no such number (no error is set for that). BASE
 * 0 reads prefixes. */
bool jinja_num_parse_int(struct jrun *r, const char *p, size_t n, unsigned base, struct jv *out);
bool jinja_num_parse_float(const char *p, size_t n, double *out);

/* repr(f): the shortest digits that read back as F. */
void jinja_num_put_float(struct jbuf *b, double f);

#endif
