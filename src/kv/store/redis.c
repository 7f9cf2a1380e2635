/* redis.c - implements the KV store that keeps its records on a Redis server. A record is a string whose
 * Redis key is "gallop:kv:1:" and the record's key in hex.
 *
 * The server limits its memory and evicts records (maxmemory, allkeys-lru). The string "gallop:kv:format"
 * holds the version. The socket does not block, and each exchange has a deadline. After a timeout or a
 * malformed reply the connection is closed; the next exchange connects again. hiredis parses the replies
 * (https://redis.io/docs/reference/protocol-spec); commands are sent directly from the caller's memory.
 */
#include "kv/store/redis.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"

enum { PORT = 6379, MOST_WORDS = 6, KEYS_A_SCAN = 1000 };

static const double connect_s = 1, exchange_s = 1, list_s = 5;
/* Minimum rate in bytes per second: the deadline of an exchange grows by its bytes divided by this rate. */
static const double least_rate = 50e6;

static const char prefix[] = "gallop:kv:1:", mark[] = "gallop:kv:format", version[] = "1";
enum { KEY = sizeof(prefix) - 1 + 32 };

struct place {
    char where[512], host[256];
    int port;
    uint64_t db;
    redisContext *c; /* NULL: not connected */
    struct redis_limit limit;
};

struct word {
    const void *bytes;
    size_t n;
};

static struct word text(const char *s)
{
    return (struct word){s, strlen(s)};
}

/* ---- the address ---- */

/* Parses redis://host[:port][/db]; an IPv6 address is written in brackets. */
static bool read_address(struct place *p, const char *where)
{
    const char *at = where + strlen("redis://"), *end;
    bool bracket = *at == '[';
    size_t n = bracket ? strcspn(++at, "]") : strcspn(at, ":/");
    char *stop = NULL;

    if (n == 0 || n >= sizeof(p->host) || (bracket && at[n] != ']') || memchr(at, '@', n))
        return false;
    memcpy(p->host, at, n);
    end = at + n + bracket;
    p->port = PORT;
    if (*end == ':') {
        long port = strtol(end + 1, &stop, 10);

        if (stop == end + 1 || port < 1 || port > 65535)
            return false;
        p->port = (int)port;
        end = stop;
    }
    if (*end == '/' && end[1]) {
        if (strspn(end + 1, "0123456789") != strlen(end + 1) || strlen(end + 1) > 9)
            return false;
        p->db = strtoull(end + 1, NULL, 10);
        return true;
    }
    return *end == 0 || (*end == '/' && end[1] == 0);
}

/* ---- an exchange ---- */

static int lost(struct place *p, struct err *e, const char *what)
{
    /* uses WHAT first, because it may point into the connection */
    err_set(e, ERR_OS, "KV store %s: %s", p->where, what);
    if (p->c)
        redisFree(p->c);
    p->c = NULL;
    return ERR_OS;
}

static bool is_ready(const struct place *p, short events, double deadline)
{
    struct pollfd f = {.fd = p->c->fd, .events = events};
    double left = deadline - clock_seconds();

    return left > 0 && poll(&f, 1, (int)(left * 1000) + 1) > 0;
}

static int send_all(struct place *p, struct word w, double deadline, struct err *e)
{
    const char *at = w.bytes;

    for (size_t n = w.n; n;) {
        ssize_t sent = send(p->c->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (!is_ready(p, POLLOUT, deadline))
                return lost(p, e, "the server did not accept the command in time");
            continue;
        }
        if (sent < 0)
            return lost(p, e, strerror(errno));
        at += sent;
        n -= (size_t)sent;
    }
    return 0;
}

/* Sends the command W [n] as an array of bulk strings. */
static int send_words(struct place *p, const struct word *w, size_t n, double deadline, struct err *e)
{
    char head[64];
    int rc;

    snprintf(head, sizeof(head), "*%zu\r\n", n);
    rc = send_all(p, text(head), deadline, e);
    for (size_t i = 0; i < n && rc == 0; i++) {
        snprintf(head, sizeof(head), "$%zu\r\n", w[i].n);
        if ((rc = send_all(p, text(head), deadline, e)) == 0 && (rc = send_all(p, w[i], deadline, e)) == 0)
            rc = send_all(p, text("\r\n"), deadline, e);
    }
    return rc;
}

/* Reads the next reply, of at most MOST bytes, into *OUT. The caller frees it with freeReplyObject(). */
static int read_reply(struct place *p, size_t most, double deadline, redisReply **out, struct err *e)
{
    void *reply = NULL;

    for (;;) {
        if (redisGetReplyFromReader(p->c, &reply) != REDIS_OK)
            return lost(p, e, p->c->errstr);
        if (reply)
            break;
        if (p->c->reader->len > most)
            return lost(p, e, "the server's reply is too long");
        if (!is_ready(p, POLLIN, deadline))
            return lost(p, e, "the server did not reply in time");
        if (redisBufferRead(p->c) != REDIS_OK)
            return lost(p, e, p->c->errstr);
    }
    *out = reply;
    if ((*out)->type == REDIS_REPLY_ERROR) {
        err_set(e, ERR_OS, "KV store %s: %s", p->where, (*out)->str);
        freeReplyObject(*out);
        return ERR_OS;
    }
    return 0;
}

static int exchange_open(struct place *p, const struct word *w, size_t n, size_t most, redisReply **out,
                         struct err *e)
{
    double deadline = clock_seconds() + exchange_s;
    int rc;

    for (size_t i = 0; i < n; i++)
        deadline += (double)w[i].n / least_rate;
    deadline += (double)most / least_rate;
    rc = send_words(p, w, n, deadline, e);
    return rc ? rc : read_reply(p, most, deadline, out, e);
}

/* Selects the database, stores the version there if it has none, and checks it. */
static int greet(struct place *p, struct err *e)
{
    char number[24];
    redisReply *r;
    bool ours;
    int rc;

    snprintf(number, sizeof(number), "%llu", (unsigned long long)p->db);
    if ((rc = exchange_open(p, (struct word[]){text("SELECT"), text(number)}, 2, 4096, &r, e)) != 0)
        return rc;
    freeReplyObject(r);
    if ((rc = exchange_open(p, (struct word[]){text("SETNX"), text(mark), text(version)}, 3, 4096, &r, e)) !=
        0)
        return rc;
    freeReplyObject(r);
    if ((rc = exchange_open(p, (struct word[]){text("GET"), text(mark)}, 2, 4096, &r, e)) != 0)
        return rc;
    ours = r->type == REDIS_REPLY_STRING && r->str && strcmp(r->str, version) == 0;
    if (!ours)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "KV store %s: found a store of version '%.40s', expected %s; it is not used", p->where,
                     r->type == REDIS_REPLY_STRING && r->str ? r->str : "", version);
    freeReplyObject(r);
    return rc;
}

static int connect_to(struct place *p, struct err *e)
{
    int code = 0;
    socklen_t n = sizeof(code);

    p->c = redisConnectNonBlock(p->host, p->port);
    if (!p->c)
        return err_nomem(e, "the connection of the KV store");
    if (p->c->err)
        return lost(p, e, p->c->errstr);
    if (!is_ready(p, POLLOUT, clock_seconds() + connect_s))
        return lost(p, e, "the server did not accept the connection in time");
    if (getsockopt(p->c->fd, SOL_SOCKET, SO_ERROR, &code, &n) != 0 || code)
        return lost(p, e, strerror(code ? code : errno));
    p->c->flags |= REDIS_CONNECTED;
    redis_limit(&p->limit, p->c->reader);
    if ((code = greet(p, e)) != 0 && p->c) { /* the server replied with an error or another version */
        redisFree(p->c);
        p->c = NULL;
    }
    return code;
}

static int exchange(struct place *p, const struct word *w, size_t n, size_t most, redisReply **out,
                    struct err *e)
{
    int rc = p->c ? 0 : connect_to(p, e);

    return rc ? rc : exchange_open(p, w, n, most, out, e);
}

/* ---- replies ---- */

static void *limited_array(const redisReadTask *task, int n)
{
    const struct redis_limit *own = task->privdata;

    return n <= REDIS_MOST_ELEMENTS ? own->array(task, n) : NULL;
}

void redis_limit(struct redis_limit *own, redisReader *r)
{
    own->fn = *r->fn;
    own->array = r->fn->createArray;
    own->fn.createArray = limited_array;
    r->fn = &own->fn;
    r->privdata = own;
}

static bool key_of(const redisReply *r, struct prefix_key *key)
{
    char half[17] = "";

    if (!r || r->type != REDIS_REPLY_STRING || (size_t)r->len != KEY || strlen(r->str) != KEY ||
        memcmp(r->str, prefix, sizeof(prefix) - 1) != 0 ||
        strspn(r->str + sizeof(prefix) - 1, "0123456789abcdef") != 32)
        return false;
    for (int w = 0; w < 2; w++) {
        memcpy(half, r->str + sizeof(prefix) - 1 + (size_t)w * 16, 16);
        key->w[w] = strtoull(half, NULL, 16);
    }
    return true;
}

bool redis_read_keys(const redisReply *r, uint64_t *cursor, store_found_fn *found, void *ctx)
{
    const redisReply *keys;
    struct prefix_key key;

    if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 2 || !r->element[0] || !r->element[1] ||
        r->element[0]->type != REDIS_REPLY_STRING || r->element[1]->type != REDIS_REPLY_ARRAY ||
        r->element[0]->len == 0 || strspn(r->element[0]->str, "0123456789") != (size_t)r->element[0]->len)
        return false;
    *cursor = strtoull(r->element[0]->str, NULL, 10);
    keys = r->element[1];
    for (size_t i = 0; i < keys->elements; i++)
        if (key_of(keys->element[i], &key))
            found(ctx, key);
    return true;
}

/* ---- the functions of struct store_medium ---- */

static const char *name_of(struct prefix_key key, char out[KEY + 1])
{
    snprintf(out, KEY + 1, "%s%016llx%016llx", prefix, (unsigned long long)key.w[0],
             (unsigned long long)key.w[1]);
    return out;
}

static void redis_close(void *m)
{
    struct place *p = m;

    if (p && p->c)
        redisFree(p->c);
    mem_free(p);
}

/* Opens the store at the address WHERE. Succeeds also if the server cannot be reached, because the server may
 * be reachable later. */
static int redis_open(void **m, const char *where, uint64_t limit, struct err *e)
{
    struct place *p = mem_zalloc(1, sizeof(*p), MEM_KV);
    struct err why = {0};
    int rc;

    (void)limit;
    if (!p)
        return err_nomem(e, "the KV store");
    *m = p;
    if ((size_t)snprintf(p->where, sizeof(p->where), "%s", where) >= sizeof(p->where) ||
        !read_address(p, where))
        return err_set(e, ERR_INPUT, "KV store %.200s: expected redis://host[:port][/db]", where);
    rc = connect_to(p, &why);
    return rc == ERR_OS ? 0 : rc ? err_set(e, rc, "%s", why.msg) : 0;
}

static int redis_get(void *m, struct prefix_key key, void *out, size_t cap, size_t *n, struct err *e)
{
    char name[KEY + 1];
    redisReply *r;
    int rc = exchange(m, (struct word[]){text("GET"), text(name_of(key, name))}, 2, cap + 4096, &r, e);

    *n = 0;
    if (rc)
        return rc;
    if (r->type == REDIS_REPLY_STRING && (size_t)r->len <= cap) {
        memcpy(out, r->str, (size_t)r->len);
        *n = (size_t)r->len;
    }
    freeReplyObject(r);
    return 0;
}

static int redis_put(void *m, struct prefix_key key, const void *bytes, size_t n, struct err *e)
{
    char name[KEY + 1];
    redisReply *r;
    int rc = exchange(m, (struct word[]){text("SET"), text(name_of(key, name)), {bytes, n}}, 3, 4096, &r, e);

    if (rc == 0)
        freeReplyObject(r);
    return rc;
}

static void redis_remove(void *m, struct prefix_key key)
{
    char name[KEY + 1];
    redisReply *r;

    if (exchange(m, (struct word[]){text("DEL"), text(name_of(key, name))}, 2, 4096, &r, NULL) == 0)
        freeReplyObject(r);
}

static int redis_list(void *m, store_found_fn *found, void *ctx, struct err *e)
{
    double until = clock_seconds() + list_s; /* keys that are not listed in time cost cache hits only */
    uint64_t cursor = 0;
    bool good;

    do {
        char number[24], count[24], pattern[sizeof(prefix) + 1];
        redisReply *r;
        int rc;

        snprintf(number, sizeof(number), "%llu", (unsigned long long)cursor);
        snprintf(count, sizeof(count), "%d", KEYS_A_SCAN);
        snprintf(pattern, sizeof(pattern), "%s*", prefix);
        rc = exchange(m,
                      (struct word[]){text("SCAN"), text(number), text("MATCH"), text(pattern), text("COUNT"),
                                      text(count)},
                      MOST_WORDS, 1 << 24, &r, e);
        if (rc)
            return rc;
        good = redis_read_keys(r, &cursor, found, ctx);
        freeReplyObject(r);
    } while (good && cursor && clock_seconds() < until);
    return good ? 0 : lost(m, e, "the server's reply to SCAN is malformed");
}

const struct store_medium store_redis = {.open = redis_open,
                                         .get = redis_get,
                                         .put = redis_put,
                                         .remove = redis_remove,
                                         .list = redis_list,
                                         .close = redis_close};
