/* keys.c - a set of SHA-256 digests that are compared in constant time, and the token bucket of each. */
#include "api/http/keys.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/mem.h"

/* Adds KEY [n], unless the set contains it. *AT gets its index. */
static int keys_insert(struct keys *k, const char *key, size_t n, size_t *at, const char *where,
                       struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)key[i] <= 0x20 || (unsigned char)key[i] >= 0x7f)
            return err_set(e, ERR_INPUT, "%s: a key consists of printable ASCII characters without blanks",
                           where);
    if (n == 0 || n > KEYS_MAX_BYTES)
        return err_set(e, ERR_INPUT, "%s: a key of %zu characters, expected 1 to %d", where, n,
                       KEYS_MAX_BYTES);
    if (!mem_grow((void **)&k->digest, &k->cap, k->n + 1, sizeof(*k->digest), MEM_API) ||
        !mem_grow((void **)&k->bucket, &k->cap_buckets, k->n + 1, sizeof(*k->bucket), MEM_API) ||
        digest_sha256(key, n, k->digest[k->n], NULL) != 0)
        return err_nomem(e, "keys");
    for (*at = 0; *at < k->n; (*at)++)
        if (memcmp(k->digest[*at], k->digest[k->n], KEYS_DIGEST) == 0)
            return 0;
    memset(k->bucket[k->n], 0, sizeof(k->bucket[k->n]));
    k->n++;
    return 0;
}

/* Reads TEXT [n], one word such as tokens_per_minute=N, as a limit of the key with index KEY. */
static int add_limit(struct keys *k, size_t key, const char *text, size_t n, const char *where, struct err *e)
{
    static const char *const names[2] = {"requests_per_minute=", "tokens_per_minute="};
    double most = 0;

    for (int i = 0; i < 2; i++) {
        size_t skip = strlen(names[i]), at = skip;

        if (n <= skip || memcmp(text, names[i], skip) != 0)
            continue;
        while (at < n && text[at] >= '0' && text[at] <= '9' && most <= KEYS_MAX_LIMIT)
            most = 10 * most + (text[at++] - '0');
        if (at < n || most < 1 || most > KEYS_MAX_LIMIT || k->bucket[key][i].most > 0)
            return err_set(e, ERR_INPUT, "%s: key %zu: %s is expected once, with a number from 1 to %d",
                           where, key + 1, names[i], KEYS_MAX_LIMIT);
        k->bucket[key][i] = (struct keys_bucket){.most = most, .left = most};
        return 0;
    }
    return err_set(e, ERR_INPUT,
                   "%s: key %zu: behind a key, requests_per_minute=N or tokens_per_minute=N is expected",
                   where, key + 1);
}

/* Adds the key and the limits in the line TEXT [n]. */
static int add_line(struct keys *k, const char *text, size_t n, const char *where, struct err *e)
{
    size_t word = 0, key = 0;
    int rc = 0;

    for (size_t at = 0; at < n && rc == 0; at += word) {
        bool is_key = at == 0;

        word = 0;
        while (at + word < n && text[at + word] != ' ')
            word++;
        rc = is_key ? keys_insert(k, text, word, &key, where, e)
             : word ? add_limit(k, key, text + at, word, where, e)
                    : 0;
        while (at + word < n && text[at + word] == ' ')
            word++;
    }
    return rc;
}

int keys_add(struct keys *k, const char *key, const char *where, struct err *e)
{
    size_t at;

    return keys_insert(k, key, strlen(key), &at, where, e);
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
            rc = add_line(k, text, length, where, e);
        line += end != NULL;
        text += line;
        n -= line;
    }
    return rc;
}

bool keys_overlap(const struct keys *a, const struct keys *b)
{
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++)
            if (memcmp(a->digest[i], b->digest[k], KEYS_DIGEST) == 0)
                return true;
    return false;
}

bool keys_needed(const struct keys *k)
{
    return k && (k->n || k->closed);
}

void keys_fini(struct keys *k)
{
    mem_free(k->digest);
    mem_free(k->bucket);
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
    if (digest_sha256(key, strlen(key), digest, NULL) != 0)
        return false;
    for (size_t i = 0; i < k->n; i++)
        same |= CRYPTO_memcmp(k->digest[i], digest, KEYS_DIGEST) == 0;
    if (same)
        digest_hex(digest, (KEYS_NAME - 1) / 2, name);
    return same;
}

/* ---- limits ---- */

/* Refills the buckets of the key NAME up to NOW_S and returns them; NULL: the key is unknown. */
static struct keys_bucket *buckets_of(struct keys *k, const char *name, double now_s)
{
    uint64_t wanted = strtoull(name, NULL, 16);

    for (size_t i = 0; i < k->n; i++) {
        uint64_t own = 0;

        for (int byte = 0; byte < (KEYS_NAME - 1) / 2; byte++)
            own = own << 8 | k->digest[i][byte];
        if (own != wanted)
            continue;
        for (int b = 0; b < 2; b++) {
            struct keys_bucket *q = &k->bucket[i][b];
            double left = q->left + (now_s - q->at_s) * q->most / 60;

            q->left = left < q->most ? left : q->most;
            q->at_s = now_s;
        }
        return k->bucket[i];
    }
    return NULL;
}

void keys_keep_used(struct keys *k, const struct keys *old)
{
    for (size_t i = 0; i < k->n; i++)
        for (size_t o = 0; o < old->n; o++) {
            if (memcmp(k->digest[i], old->digest[o], KEYS_DIGEST) != 0)
                continue;
            for (int b = 0; b < 2; b++) {
                struct keys_bucket *q = &k->bucket[i][b];
                const struct keys_bucket *before = &old->bucket[o][b];

                if (q->most > 0 && before->most > 0) {
                    q->left = before->left < q->most ? before->left : q->most;
                    q->at_s = before->at_s;
                }
            }
        }
}

void keys_look(struct keys *k, const char *name, double now_s, struct keys_state state[2])
{
    const struct keys_bucket *q = buckets_of(k, name, now_s);

    for (int b = 0; b < 2; b++)
        state[b] = q && q[b].most > 0 ? (struct keys_state){q[b].most, q[b].left > 0 ? q[b].left : 0,
                                                            (q[b].most - q[b].left) * 60 / q[b].most}
                                      : (struct keys_state){0, 0, 0};
}

double keys_take(struct keys *k, const char *name, double now_s)
{
    struct keys_bucket *q = buckets_of(k, name, now_s);
    double wait_s = 0;

    for (int b = 0; q && b < 2; b++)
        if (q[b].most > 0 && q[b].left < 1 && (1 - q[b].left) * 60 / q[b].most > wait_s)
            wait_s = (1 - q[b].left) * 60 / q[b].most;
    if (q && wait_s == 0)
        q[0].left -= 1;
    return wait_s;
}

void keys_charge(struct keys *k, const char *name, double n, double now_s)
{
    struct keys_bucket *q = buckets_of(k, name, now_s);

    if (q)
        q[1].left -= n;
}

bool keys_have_limits(const struct keys *k)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->bucket[i][0].most > 0 || k->bucket[i][1].most > 0)
            return true;
    return false;
}
