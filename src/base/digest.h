/* digest.h - SHA-256 (computed by OpenSSL), and the hexadecimal text of any digest. */
#ifndef GALLOP_BASE_DIGEST_H
#define GALLOP_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum { DIGEST_BYTES = 32, DIGEST_HEX = 2 * DIGEST_BYTES + 1 };

/* Writes the SHA-256 of DATA [n] (FIPS 180-4) to OUT. ERR_NOMEM: OpenSSL had no memory for its state. */
int digest_sha256(const void *data, size_t n, uint8_t out[DIGEST_BYTES], struct err *e);

/* Writes DIGEST [n] as lower-case hexadecimal digits to OUT [2 n + 1], terminated by a zero byte. */
void digest_hex(const uint8_t *digest, size_t n, char *out);

#endif
