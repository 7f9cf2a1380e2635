/* structured_options.h - the options that constrain an answer: --json-schema, --regex, --grammar, --choice. */
#ifndef GALLOP_APP_STRUCTURED_OPTIONS_H
#define GALLOP_APP_STRUCTURED_OPTIONS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/opt.h"
#include "gallop.h"

/* Values of the options, borrowed from the command line; NULL: not given. */
struct structured_options {
    const char *schema, *grammar; /* names of files */
    const char *regex, *choice;
};

extern const struct opt_row structured_rows[];

/* Sets *S from the options O: reads the files of --json-schema and --grammar, and splits the list of
 * --choice. The texts are allocated in A. ERR_USAGE: more than one of the options is given. */
int structured_options_read(const struct structured_options *o, struct gallop_structured_outputs *s,
                            struct arena *a, struct err *e);

#endif
