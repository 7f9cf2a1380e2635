/* tokshared.h - reference data of the large test data, some of it packed by gzip. Tests that need it are
 * skipped without it. */
#ifndef GALLOP_TEST_TOKSHARED_H
#define GALLOP_TEST_TOKSHARED_H

#include "text/tok/tok.h"

bool tokshared_exists(void);

/* Returns the bytes of the file NAME, or of NAME.gz unpacked, followed by a zero byte. free(). NULL: neither
 * exists. */
char *tokshared_read(const char *name, size_t *n);

/* Opens the tokenizer NAME of data/tokenizers; a packed one is first unpacked into the working folder. The
 * test fails if it cannot be opened. NULL: it does not exist. */
struct tok *tokshared_open(const char *name);

#endif
