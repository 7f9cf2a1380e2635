/* keys.h - API keys: which there are, and whose a request is. Only digests are kept, and every comparison
 * looks at all keys in full, so that its time says nothing of them.
 */
#ifndef GALLOP_API_KEYS_H
#define GALLOP_API_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { KEYS_DIGEST = 32, KEYS_MAX_BYTES = 4096, KEYS_NAME = 17 };

struct keys {
    uint8_t (*digest)[KEYS_DIGEST]; /* SHA-256 */
    size_t n, cap;
};

/* One key: 1 to KEYS_MAX_BYTES printable ASCII characters without blanks. ERR_INPUT does not repeat it. */
int keys_add(struct keys *k, const char *key, struct err *e);
/* Keys of TEXT [n], one a line; empty lines and those that begin with # are passed over. WHERE: for
 * messages. */
int keys_add_lines(struct keys *k, const char *text, size_t n, const char *where, struct err *e);
void keys_fini(struct keys *k); /* a zeroed one is fine */

/* The key in AUTHORIZATION ("Bearer KEY"; NULL: none) or in X_API_KEY (NULL: none) is one of K. Its name,
 * which tells keys apart and gives none away, to NAME. */
bool keys_allow(const struct keys *k, const char *authorization, const char *x_api_key, char name[KEYS_NAME]);

#endif
