/* tokshared.h - reference data beside the repository on some machines: in the folder GALLOP_SHARED, or
 * ../shared. Tests that need it are skipped without it. */
#ifndef GALLOP_TEST_TOKSHARED_H
#define GALLOP_TEST_TOKSHARED_H

#include "text/tok/tok.h"

bool tokshared_exists(void);

/* The bytes of the file NAME in that folder, or of NAME.gz unpacked; zero-terminated, for free(). NULL:
 * neither exists. */
char *tokshared_read(const char *name, size_t *n);

/* Opens the tokenizer NAME in data/tokenizers (a packed one is unpacked into the working folder first). The
 * test fails if it cannot be opened; NULL: it does not exist. */
struct tok *tokshared_open(const char *name);

#endif
