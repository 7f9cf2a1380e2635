/* app.h - verbs and their options. */
#include <stddef.h>

enum { PARAM_TEXT };

struct opt_row {
    const char *name;
    char letter;
    int type;
    const char *value, *help;
};

struct verb {
    const struct opt_row *const *options;
};

extern const struct opt_row options_model[];
