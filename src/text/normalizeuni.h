/* normalizeuni.h - the four Unicode normal forms (UAX #15). */
#ifndef GALLOP_TEXT_NORMALIZEUNI_H
#define GALLOP_TEXT_NORMALIZEUNI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

enum normalizeuni_form { NORMALIZEUNI_NFC, NORMALIZEUNI_NFD, NORMALIZEUNI_NFKC, NORMALIZEUNI_NFKD };

struct normalizeuni_work { /* zeroed = empty */
    int32_t *cp, *sorted;
    size_t cap, sorted_cap;
};

void normalizeuni_work_fini(struct normalizeuni_work *w);

/* True when S (good UTF-8) is in the form already, by a test that needs no tables to say yes to plain text;
 * false only means that it may not be. */
bool normalizeuni_is_plain(enum normalizeuni_form form, const char *s, size_t n);

/* Appends S in FORM to OUT (whose oom flag tells of failure). Time is linear in N, whatever marks S holds. */
void normalizeuni_apply(enum normalizeuni_form form, struct normalizeuni_work *w, const char *s, size_t n,
                        struct buf *out);

/* A character that came after Unicode 9 and that no form touches (see normalizeuni.c). */
bool normalizeuni_is_young(uint32_t c);

#endif
