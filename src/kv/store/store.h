/* store.h - the KV store: keeps copies of KV blocks as records in a folder or on a Redis server.
 *
 * The store's thread does all I/O: it writes records that the engine has copied into a slot, and reads
 * records that the engine will need. The engine's thread takes no lock and never waits. Slots are allocated
 * at open. When all are in use, a block is not stored (and counted as dropped), or is computed instead of
 * read. The store checks that a record is undamaged (record.h); the caller checks that it has the right
 * tokens. The store lists the keys of the medium again every few seconds, so that several processes may share
 * a medium. The media declared here are defined in folder.c and redis.c.
 *
 * A medium that fails is not used for STORE_REST_S seconds. A warning is logged for the first of several
 * failures. A failure costs cache hits, but never changes an answer.
 */
#ifndef GALLOP_KV_STORE_STORE_H
#define GALLOP_KV_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/prefix.h"

enum { STORE_MOST_SLOTS = 64, STORE_LEAST_SLOTS = 4, STORE_REST_S = 5 };

/* A medium is a place that keeps records: a folder or a Redis server. Its functions are called from one thread at a
 * time and may take up to a few seconds. Functions that return int return 0, or an error code with a sentence in E. */
typedef void store_found_fn(void *ctx, struct prefix_key key);
struct store_medium {
    /* WHERE is the path of a folder, or "redis://host[:port][/db]". ERR_UNSUPPORTED: the folder or server
     * holds data of another program or version; the data is not changed. */
    int (*open)(void **m, const char *where, uint64_t limit_bytes, struct err *e);
    /* Reads the record KEY into OUT [cap] and sets *N to its length; 0: it is missing or longer than CAP. */
    int (*get)(void *m, struct prefix_key key, void *out, size_t cap, size_t *n, struct err *e);
    int (*put)(void *m, struct prefix_key key, const void *bytes, size_t n, struct err *e);
    void (*remove)(void *m, struct prefix_key key);
    int (*list)(void *m, store_found_fn *found, void *ctx, struct err *e); /* calls FOUND for each key */
    void (*close)(void *m);                                                /* M may be NULL */
};

extern const struct store_medium store_folder;
extern const struct store_medium store_redis; /* only in builds with hiredis */

struct store_options {
    const char *where;
    uint64_t limit_bytes;              /* maximum size of a folder; Redis ignores it */
    size_t record_bytes;               /* bytes of the longest record */
    const struct store_medium *medium; /* NULL: chosen by the syntax of WHERE */
};

struct store_stats {
    uint64_t n_written, written_bytes, n_read, read_bytes; /* records, bytes */
    /* Records that were not written because no slot was free, or the medium had failed. */
    uint64_t n_dropped;
    uint64_t n_missed;  /* records that were requested but not found */
    uint64_t n_damaged; /* records with a wrong checksum or header */
    double write_s, read_s;
};

struct store;

/* Bytes of all slots of a store whose records have up to RECORD_BYTES. */
size_t store_slot_bytes(size_t record_bytes);

/* Opens a store. Passes the errors of the medium on, such as ERR_UNSUPPORTED. */
int store_open(struct store **s, const struct store_options *o, struct err *e);
/* Writes all pending records, then closes the store. S may be NULL. */
void store_close(struct store *s);

/* ---- for the engine's thread ---- */

bool store_has(struct store *s, struct prefix_key key); /* The store probably has the record; see known.h. */

/* Returns the memory of a slot, which the caller fills with the record of KEY and passes to store_put().
 * NULL: the store has the record, is writing it, has no free slot, or its medium has failed. */
void *store_take(struct store *s, struct prefix_key key);
void store_put(struct store *s, void *record, size_t n);

/* Requests the record KEY. Returns the number of the slot that will receive it; -1: no slot is free. */
int store_read(struct store *s, struct prefix_key key);

enum store_state { STORE_BUSY, STORE_HERE, STORE_MISSED };
enum store_state store_look(const struct store *s, int slot);
const void *store_record(const struct store *s, int slot); /* SLOT is in state STORE_HERE */
void store_drop(struct store *s, int slot);                /* frees SLOT in any state */

/* Waits until a requested record is in state STORE_HERE or STORE_MISSED, at most SECONDS. */
void store_wait(struct store *s, double seconds);

/* For tests: waits until all pending records are written. */
void store_flush(struct store *s);

void store_stats(const struct store *s, struct store_stats *out); /* callable from any thread */

#endif
