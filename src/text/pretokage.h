/* pretokage.h - characters that are younger than the Unicode tables of PCRE2 (see pretokage.c). */
#ifndef GALLOP_TEXT_PRETOKAGE_H
#define GALLOP_TEXT_PRETOKAGE_H

#include <stdbool.h>
#include <stddef.h>

/* True when S (good UTF-8) has a character that PCRE2 takes for unassigned although it is not any more. */
bool pretokage_is_newer(const char *s, size_t n);

/* Replaces each of them in place by an older one of the same kind; lengths stay. */
void pretokage_make_older(char *s, size_t n);

#endif
