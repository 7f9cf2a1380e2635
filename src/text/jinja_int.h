/* jinja_int.h - integers without bound, up to a limit: Python's int, of which 64 bits are the common case.
 *
 * A JV_BIG never holds a number that a JV_INT could. More than 16384 bits are refused (Python itself refuses
 * to print an integer of more than 4300 digits, about 14285 bits). Division rounds towards minus infinity, as
 * Python's does.
 */
#ifndef GALLOP_TEXT_JINJA_INT_H
#define GALLOP_TEXT_JINJA_INT_H

#include "text/jinja_val.h"

struct jbuf;

enum { JINT_MAX_BITS = 16384 };

struct jbig {
    bool negative;
    uint32_t n; /* digits in base 2^32, least significant first; the last one is not zero */
    uint32_t d[];
};

/* A and B are JV_INT, JV_BIG or JV_BOOL. Division by zero is the caller's error to report. */
struct jv jinja_int_add(struct jrun *r, struct jv a, struct jv b);
struct jv jinja_int_sub(struct jrun *r, struct jv a, struct jv b);
struct jv jinja_int_mul(struct jrun *r, struct jv a, struct jv b);
void jinja_int_divmod(struct jrun *r, struct jv a, struct jv b, struct jv *quotient, struct jv *remainder);
struct jv jinja_int_pow(struct jrun *r, struct jv base, uint64_t exponent);
struct jv jinja_int_neg(struct jrun *r, struct jv a);

int jinja_int_cmp(struct jv a, struct jv b);         /* -1, 0, 1 */
int jinja_int_cmp_double(struct jv a, double whole); /* WHOLE: finite, without fraction */
bool jinja_int_negative(struct jv a);
bool jinja_int_zero(struct jv a);
double jinja_int_to_double(struct jv a); /* infinite when it does not fit */
uint32_t jinja_int_hash(struct jv a);
size_t jinja_int_bits(struct jv a); /* int.bit_length() */

/* A finite double without fraction. */
struct jv jinja_int_from_double(struct jrun *r, double f);

/* N digits of BASE (2..36), all valid, most significant first; A is where the value lives when it is big. */
struct jv jinja_int_parse(struct jrun *r, const char *digits, size_t n, unsigned base, bool negative);

/* The absolute value in BASE 2, 8, 10 or 16 (lower case). Sets an error beyond 4300 decimal digits. */
void jinja_int_put(struct jbuf *b, struct jv a, unsigned base);

#endif
