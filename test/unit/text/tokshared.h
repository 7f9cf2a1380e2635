/* tokshared.h - reference data that lies beside the repository on some machines: the folder named by
 * GALLOP_SHARED, or ../shared. Tests that need it are skipped without it.
 */
#ifndef GALLOP_TEST_TOKSHARED_H
#define GALLOP_TEST_TOKSHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "text/tok/tok.h"

bool tokshared_exists(void);

/* The bytes of the file NAME below it, or of NAME.gz unpacked; zero-terminated, for free(). NULL: neither is
 * there. */
char *tokshared_read(const char *name, size_t *n);

/* Opens the tokenizer NAME below data/tokenizers (a packed one is unpacked into the working folder first).
 * The test fails if it cannot be opened; NULL: it is not there. */
struct tok *tokshared_open(const char *name);

#endif
