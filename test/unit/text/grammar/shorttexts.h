/* shorttexts.h - sets of short texts over the letters a and b, with which tests compute languages by
 * definition.
 */
#ifndef GALLOP_TEST_TEXT_SHORTTEXTS_H
#define GALLOP_TEST_TEXT_SHORTTEXTS_H

#include <stddef.h>
#include <stdint.h>

/* All texts of at most SHORT_LONGEST letters have a number, by length, then alphabetically. A set of them has
 * bit i for text number i. */
enum { SHORT_LONGEST = 5, SHORT_TEXTS = (2 << SHORT_LONGEST) - 1 };
#define SHORT_ALL (UINT64_MAX >> (64 - SHORT_TEXTS))

/* Writes text NUMBER to OUT, which is not terminated. Returns its length. */
size_t short_text(unsigned number, char out[SHORT_LONGEST]);
unsigned short_number(const char *text, size_t n);

/* The texts of A followed by those of B, and A repeated, as far as they are short. */
uint64_t short_concat(uint64_t a, uint64_t b);
uint64_t short_repeat(uint64_t a, unsigned least, unsigned most);

/* A pseudorandom number below N, the same in each run of a test. */
uint32_t short_dice(uint32_t n);

#endif
