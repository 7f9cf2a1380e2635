/* tokcharage.h - characters whose kind depends on the age of the Unicode tables (see tokcharage.c). */
#ifndef GALLOP_TEXT_TOKCHARAGE_H
#define GALLOP_TEXT_TOKCHARAGE_H

#include <stdbool.h>
#include <stdint.h>

enum tokcharage_kind {
    TOKCHARAGE_PUNCTUATION,
    TOKCHARAGE_NONSPACING,
    TOKCHARAGE_CONTROL,
    TOKCHARAGE_NUMERIC,
    TOKCHARAGE_WORD,
};

/* True where the library that defines our answers says the opposite of utf8proc about C. */
bool tokcharage_differs(enum tokcharage_kind kind, uint32_t c);

#endif
