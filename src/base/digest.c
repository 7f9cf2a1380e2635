/* digest.c - calls OpenSSL for SHA-256, and prints digests. */
#include "base/digest.h"
#include "base/err.h"

#include <openssl/evp.h>
#include <stdio.h>

int digest_sha256(const void *data, size_t n, uint8_t out[DIGEST_BYTES], struct err *e)
{
    return EVP_Digest(data, n, out, NULL, EVP_sha256(), NULL) == 1 ? 0 : err_nomem(e, "a hash");
}

void digest_hex(const uint8_t *digest, size_t n, char *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
