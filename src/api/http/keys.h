/* keys.h - a set of API keys and their limits.
 *
 * Only digests are kept. A key that a client sends is compared with all of them in full, so that the time of
 * the comparison does not depend on how much of it is right. A key that is given twice is one key with the
 * limits of both.
 *
 * A limit is a bucket that holds what a minute allows and fills up steadily. A request is charged when it
 * arrives, and its tokens, whose number is not known then, when it ends: a key that has used more than its
 * bucket held waits for longer.
 */
#ifndef GALLOP_API_HTTP_KEYS_H
#define GALLOP_API_HTTP_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"

struct err;

enum { KEYS_DIGEST = DIGEST_BYTES, KEYS_MAX_BYTES = 4096, KEYS_NAME = 17 };

enum { KEYS_MAX_LIMIT = 1000000000 };

/* The limit of a key for requests or for tokens. */
struct keys_bucket {
    double most; /* that a minute allows; 0: no limit */
    double left; /* below zero: more was used than the bucket held */
    double at_s; /* clock: when LEFT was computed */
};

struct keys {
    uint8_t (*digest)[KEYS_DIGEST]; /* SHA-256 */
    struct keys_bucket (
        *bucket)[2]; /* for requests and for tokens; they belong to the thread of keys_take() */
    size_t n, cap, cap_buckets;
    bool closed; /* a key is needed even if the set is empty: no client may ask */
};

/* Adds a key of 1 to KEYS_MAX_BYTES printable ASCII characters without blanks. ERR_INPUT does not repeat it.
 * WHERE is the source of the key, for messages. */
int keys_add(struct keys *k, const char *key, const char *where, struct err *e);
/* Adds the keys of TEXT [n], one on each line. Empty lines and lines that begin with # are skipped. A key may
 * be followed by requests_per_minute=N and tokens_per_minute=N, with N from 1 to KEYS_MAX_LIMIT. WHERE is the
 * source, for messages. */
int keys_add_lines(struct keys *k, const char *text, size_t n, const char *where, struct err *e);
void keys_fini(struct keys *k); /* a zeroed one is fine */

bool keys_overlap(const struct keys *a, const struct keys *b); /* they have a key in common */
bool keys_needed(const struct keys *k);                        /* clients have to show a key; NULL is fine */

/* Returns whether the key in AUTHORIZATION ("Bearer KEY"; NULL: none) or in X_API_KEY (NULL: none) is one of
 * K. NAME gets a name that identifies the key without revealing it. */
bool keys_allow(const struct keys *k, const char *authorization, const char *x_api_key, char name[KEYS_NAME]);

/* Keys of K that are also in OLD keep what they have used of their limits there. */
void keys_keep_used(struct keys *k, const struct keys *old);

/* What the limits of the key NAME leave at NOW_S, for requests and for tokens. MOST 0: there is no such
 * limit, or no such key. RESET_S: the time until the bucket is full again. */
struct keys_state {
    double most, left, reset_s;
};
void keys_look(struct keys *k, const char *name, double now_s, struct keys_state state[2]);

bool keys_have_limits(const struct keys *k); /* at least one of them */

/* A request of the key NAME arrives. 0: it is allowed; otherwise the seconds until one is. */
double keys_take(struct keys *k, const char *name, double now_s);

/* N tokens were processed or generated for the key NAME. */
void keys_charge(struct keys *k, const char *name, double n, double now_s);

#endif
