/* values.h - what shells complete after an option, and the quoting of the scripts. */
#ifndef GALLOP_APP_COMPLETION_VALUES_H
#define GALLOP_APP_COMPLETION_VALUES_H

#include <stddef.h>

#include "base/buf.h"
#include "base/opt.h"

/* What shells complete after an option. */
enum completion_kind {
    COMPLETION_NONE,   /* the option takes no value */
    COMPLETION_TEXT,   /* a text or a number, of which shells know nothing */
    COMPLETION_WORDS,  /* one of completion_words() */
    COMPLETION_FILE,   /* a file or folder */
    COMPLETION_FOLDER, /* a folder */
};
enum completion_kind completion_kind(const struct opt_row *row);
const char *completion_words(const struct opt_row *row); /* "a|b" */

/* Appends the names of LIST, "a|b", with blanks between them. */
void completion_list(struct buf *out, const char *list);

/* Appends TEXT [n] with a backslash before each of the characters SPECIAL. */
void completion_escape(struct buf *out, const char *text, size_t n, const char *special);

#endif
