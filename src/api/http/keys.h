/* keys.h - a set of API keys and their rate limits.
 *
 * The set stores SHA-256 digests and no keys. A key from a client is compared with all digests in constant
 * time, so that the response time reveals nothing about a key. A key that is added by two lines is
 * stored once, with the limits of both lines.
 *
 * A limit is a token bucket: its capacity is the limit of one minute, and it is refilled continuously. A
 * request is charged when it arrives. Its tokens are charged when it ends, since their number is unknown
 * before. The bucket may then fall below zero, and the key's next requests are refused until it is
 * refilled. */
#ifndef GALLOP_API_HTTP_KEYS_H
#define GALLOP_API_HTTP_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"

struct err;

enum { KEYS_DIGEST = DIGEST_BYTES, KEYS_MAX_BYTES = 4096, KEYS_NAME = 17 };

enum { KEYS_MAX_LIMIT = 1000000000 };

/* The token bucket of a key for requests or for tokens. */
struct keys_bucket {
    double most; /* the limit per minute, which is also the bucket's capacity; 0: no limit */
    double left; /* amount left at AT_S; negative if a request used more than was left */
    double at_s; /* clock in seconds at which LEFT was computed */
};

struct keys {
    uint8_t (*digest)[KEYS_DIGEST]; /* SHA-256 of each key, [n] */
    /* [n] the two buckets of each key: [0] for requests, [1] for tokens. Only the thread that calls
     * keys_take() uses them. */
    struct keys_bucket (*bucket)[2];
    size_t n, cap, cap_buckets;
    bool closed; /* keys are required even if the set is empty: then every client is refused */
};

/* Adds KEY: 1 to KEYS_MAX_BYTES printable ASCII characters without blanks. Otherwise ERR_INPUT, whose
 * message does not contain the key. WHERE names the source of the key in messages. */
int keys_add(struct keys *k, const char *key, const char *where, struct err *e);
/* Adds the keys in TEXT [n], one per line. Empty lines and lines that begin with # are skipped. A key may
 * be followed by requests_per_minute=N and tokens_per_minute=N, with N from 1 to KEYS_MAX_LIMIT. WHERE
 * names the source in messages. */
int keys_add_lines(struct keys *k, const char *text, size_t n, const char *where, struct err *e);
void keys_fini(struct keys *k); /* frees K; a zeroed set is allowed */

bool keys_overlap(const struct keys *a, const struct keys *b); /* whether A and B share a key */
bool keys_needed(const struct keys *k);                        /* whether clients need a key; K may be NULL */

/* Returns whether K contains the key in AUTHORIZATION ("Bearer KEY") or, without one, in X_API_KEY. Either
 * header may be NULL. NAME gets a name of the key that does not reveal it. */
bool keys_allow(const struct keys *k, const char *authorization, const char *x_api_key, char name[KEYS_NAME]);

/* Copies the buckets of the keys that are in both K and OLD from OLD to K, so that a reload of the keys
 * does not reset their limits. */
void keys_keep_used(struct keys *k, const struct keys *old);

/* The state of a bucket. MOST is 0 if the key is unknown or has no such limit. RESET_S: seconds until the
 * bucket is full. keys_look() gets the buckets of the key NAME at the time NOW_S, first for requests, then
 * for tokens. */
struct keys_state {
    double most, left, reset_s;
};
void keys_look(struct keys *k, const char *name, double now_s, struct keys_state state[2]);

bool keys_have_limits(const struct keys *k); /* whether any key has a limit */

/* Charges one request to the key NAME. Returns 0 if the request is allowed, otherwise the seconds until the
 * next request is allowed. */
double keys_take(struct keys *k, const char *name, double now_s);

/* Charges N tokens, processed or generated, to the key NAME. */
void keys_charge(struct keys *k, const char *name, double n, double now_s);

#endif
