/* keys.h - API keys: which there are, whose a request is, and how much each may ask. Only digests are kept,
 * and what a stranger sends is compared with all of them in full, so that the time says nothing of them. A
 * key that is given twice is one key, with the limits of both.
 *
 * A limit is a bucket that holds as much as a minute allows and fills up steadily. A request takes its place
 * when it comes; its tokens, of which nobody knows the number then, when it ends: a key that has used up more
 * than it had waits for longer.
 */
#ifndef GALLOP_API_HTTP_KEYS_H
#define GALLOP_API_HTTP_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"

enum { KEYS_DIGEST = DIGEST_BYTES, KEYS_MAX_BYTES = 4096, KEYS_NAME = 17 };

enum { KEYS_MAX_LIMIT = 1000000000 };

/* Of requests or of tokens. */
struct keys_bucket {
    double most; /* in a minute; 0: no limit */
    double left; /* below zero: more were used than there were */
    double at_s; /* clock: when that was so */
};

struct keys {
    uint8_t (*digest)[KEYS_DIGEST];  /* SHA-256 */
    struct keys_bucket (*bucket)[2]; /* of requests, of tokens; the thread of keys_take() alone */
    size_t n, cap, cap_buckets;
    bool closed; /* one is needed also where there is none: nobody may ask */
};

/* One key: 1 to KEYS_MAX_BYTES printable ASCII characters without blanks. ERR_INPUT does not repeat it.
 * WHERE: what gave it, for messages. */
int keys_add(struct keys *k, const char *key, const char *where, struct err *e);
/* Keys of TEXT [n], one a line, perhaps none; empty lines and those that begin with # are passed over. Behind
 * a key may stand requests_per_minute=N and tokens_per_minute=N, N from 1 to KEYS_MAX_LIMIT. WHERE: for
 * messages. */
int keys_add_lines(struct keys *k, const char *text, size_t n, const char *where, struct err *e);
void keys_fini(struct keys *k); /* a zeroed one is fine */

bool keys_overlap(const struct keys *a, const struct keys *b); /* they have a key in common */
bool keys_needed(const struct keys *k);                        /* who asks has to have one; NULL is fine */

/* The key in AUTHORIZATION ("Bearer KEY"; NULL: none) or in X_API_KEY (NULL: none) is one of K. Its name,
 * which tells keys apart and gives none away, to NAME. */
bool keys_allow(const struct keys *k, const char *authorization, const char *x_api_key, char name[KEYS_NAME]);

/* Keys of K that are also in OLD have used what they had there. */
void keys_keep_used(struct keys *k, const struct keys *old);

/* What the limits of the key NAME leave at NOW_S, requests first; most 0: there is no such limit, or no such
 * key. RESET_S: until it is full again. */
struct keys_state {
    double most, left, reset_s;
};
void keys_look(struct keys *k, const char *name, double now_s, struct keys_state state[2]);

bool keys_have_limits(const struct keys *k); /* at least one of them */

/* A request of the key NAME comes. 0: it may; otherwise the seconds until one may. */
double keys_take(struct keys *k, const char *name, double now_s);

/* N tokens were read or made for the key NAME. */
void keys_charge(struct keys *k, const char *name, double n, double now_s);

#endif
