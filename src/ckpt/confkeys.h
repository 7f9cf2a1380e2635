/* confkeys.h - what the name of a config key says about it. */
#ifndef GALLOP_CKPT_CONFKEYS_H
#define GALLOP_CKPT_CONFKEYS_H

#include <stdbool.h>

enum confkey {
    CONFKEY_BOOKKEEPING, /* about training, generation, labels or files: no effect on the logits */
    CONFKEY_QUANT,       /* says that the weights are stored quantised */
    CONFKEY_MATHS,       /* looks as if it changes what is computed */
    CONFKEY_UNKNOWN,
};

/* Judges the name alone. */
enum confkey confkeys_kind(const char *name);

/* True if NAME with the integer value 1 means "as usual", whatever its name looks like. */
bool confkeys_one_is_neutral(const char *name);

#endif
