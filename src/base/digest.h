/* digest.h - SHA-256, which OpenSSL computes. */
#ifndef GALLOP_BASE_DIGEST_H
#define GALLOP_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { DIGEST_BYTES = 32, DIGEST_HEX = 2 * DIGEST_BYTES + 1 };

/* The SHA-256 of DATA [n] (FIPS 180-4). ERR_NOMEM: OpenSSL had no memory for its state. */
int digest_sha256(const void *data, size_t n, uint8_t out[DIGEST_BYTES], struct err *e);

/* The same as lower-case hexadecimal digits, which end with 0. */
int digest_sha256_hex(const void *data, size_t n, char out[DIGEST_HEX], struct err *e);

#endif
