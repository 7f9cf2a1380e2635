/* digest.c - see digest.h. */
#include "base/digest.h"

#include <openssl/evp.h>
#include <stdio.h>

int digest_sha256(const void *data, size_t n, uint8_t out[DIGEST_BYTES], struct err *e)
{
    return EVP_Digest(data, n, out, NULL, EVP_sha256(), NULL) == 1 ? 0 : err_nomem(e, "a hash");
}

int digest_sha256_hex(const void *data, size_t n, char out[DIGEST_HEX], struct err *e)
{
    uint8_t hash[DIGEST_BYTES];
    int rc = digest_sha256(data, n, hash, e);

    for (size_t i = 0; i < DIGEST_BYTES && rc == 0; i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
    return rc;
}
