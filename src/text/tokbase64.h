/* tokbase64.h - reading base64 (RFC 4648). */
#ifndef GALLOP_TEXT_TOKBASE64_H
#define GALLOP_TEXT_TOKBASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the bytes of S to OUT, which has room for N; false: that is no base64. Padding may be missing. */
bool tokbase64_read(const char *s, size_t n, char *out, size_t *n_out);

#endif
