/* sentence.h - the text of an error as users of the library see it. */
#ifndef GALLOP_TEST_SENTENCE_H
#define GALLOP_TEST_SENTENCE_H

#include "base/err.h"

/* Returns "SUBJECT: SENTENCE" of E. The text is valid until the next call. */
static inline const char *sentence_of(const struct err *e)
{
    static char text[sizeof(*e)];

    err_text(e, text, sizeof(text));
    return text;
}

#endif
