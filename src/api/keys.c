/* keys.c - SHA-256 digests, compared in constant time. */
#include "api/keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

static bool hash(const char *key, size_t n, uint8_t out[KEYS_DIGEST])
{
    return EVP_Digest(key, n, out, NULL, EVP_sha256(), NULL) == 1;
}

static int add(struct keys *k, const char *key, size_t n, const char *where, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)key[i] <= 0x20 || (unsigned char)key[i] >= 0x7f)
            return err_set(e, ERR_INPUT, "%s: a key consists of printable ASCII characters without blanks",
                           where);
    if (n == 0 || n > KEYS_MAX_BYTES)
        return err_set(e, ERR_INPUT, "%s: a key of %zu characters, expected 1 to %d", where, n,
                       KEYS_MAX_BYTES);
    if (!mem_grow((void **)&k->digest, &k->cap, k->n + 1, sizeof(*k->digest), MEM_API) ||
        !hash(key, n, k->digest[k->n]))
        return err_nomem(e, "keys");
    k->n++;
    return 0;
}

int keys_add(struct keys *k, const char *key, struct err *e)
{
    return add(k, key, strlen(key), "--api-key", e);
}

int keys_add_lines(struct keys *k, const char *text, size_t n, const char *where, struct err *e)
{
    int rc = 0;

    while (n && rc == 0) {
        const char *end = memchr(text, '\n', n);
        size_t line = end ? (size_t)(end - text) : n, length = line;

        while (length && (text[length - 1] == '\r' || text[length - 1] == ' '))
            length--;
        if (length && text[0] != '#')
            rc = add(k, text, length, where, e);
        line += end != NULL;
        text += line;
        n -= line;
    }
    return rc || k->n ? rc : err_set(e, ERR_INPUT, "%s: there is no key in it", where);
}

void keys_fini(struct keys *k)
{
    mem_free(k->digest);
    *k = (struct keys){.digest = NULL};
}

bool keys_allow(const struct keys *k, const char *authorization, const char *x_api_key, char name[KEYS_NAME])
{
    const char *key = x_api_key ? x_api_key : "";
    uint8_t digest[KEYS_DIGEST];
    int same = 0;

    name[0] = 0;
    if (authorization && strncasecmp(authorization, "Bearer ", 7) == 0)
        key = authorization + 7 + strspn(authorization + 7, " ");
    if (!hash(key, strlen(key), digest))
        return false;
    for (size_t i = 0; i < k->n; i++)
        same |= CRYPTO_memcmp(k->digest[i], digest, KEYS_DIGEST) == 0;
    for (int i = 0; same && i < (KEYS_NAME - 1) / 2; i++)
        snprintf(name + 2 * i, 3, "%02x", digest[i]);
    return same;
}
