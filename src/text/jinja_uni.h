/* jinja_uni.h - single characters as Python classifies them and changes their case. Strings are
 * jinja_case.h's. */
#ifndef GALLOP_TEXT_JINJA_UNI_H
#define GALLOP_TEXT_JINJA_UNI_H

#include <stdbool.h>
#include <stdint.h>

bool jinja_uni_space(uint32_t c);      /* str.isspace(), \\s of regular expressions, what strip() removes */
bool jinja_uni_line_break(uint32_t c); /* ends a line for str.splitlines() */
bool jinja_uni_alpha(uint32_t c);
bool jinja_uni_decimal(uint32_t c);
bool jinja_uni_digit(uint32_t c);
bool jinja_uni_numeric(uint32_t c);
bool jinja_uni_alnum(uint32_t c);
bool jinja_uni_lower(uint32_t c);
bool jinja_uni_upper(uint32_t c);
bool jinja_uni_titlecase(uint32_t c);
bool jinja_uni_cased(uint32_t c);
bool jinja_uni_case_ignorable(uint32_t c);
bool jinja_uni_printable(uint32_t c);  /* repr() shows it as it is */
bool jinja_uni_name_start(uint32_t c); /* may begin an identifier */
bool jinja_uni_name(uint32_t c);       /* may continue one */

/* The full case mapping of one character without its context; returns how many characters it has become. */
int jinja_uni_to_upper(uint32_t c, uint32_t out[3]);
int jinja_uni_to_title(uint32_t c, uint32_t out[3]);
int jinja_uni_to_lower(uint32_t c, uint32_t out[3]);
int jinja_uni_to_fold(uint32_t c, uint32_t out[8]);

#endif
