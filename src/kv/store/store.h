/* store.h - the KV store: keeps KV blocks outside the memory, as records in a folder or on a Redis server.
 *
 * A thread of the store does all that may block: it writes records that the engine has copied into a slot,
 * and reads records that the engine will need. The engine's thread takes no lock and never waits. Slots are
 * allocated at open; when all are in use, a block is not stored (and counted), or computed instead of read.
 * The store checks that a record is whole (record.h); the caller checks that it has the right tokens. The
 * list of keys that a medium holds is read again every few seconds, so that several processes may share it.
 * folder.c and redis.c define the media that this header declares.
 *
 * A medium that fails is not used for STORE_REST_S seconds, which is logged once until it works again. A
 * failure costs cache hits, never an answer.
 */
#ifndef GALLOP_KV_STORE_STORE_H
#define GALLOP_KV_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/prefix.h"

enum { STORE_MOST_SLOTS = 64, STORE_LEAST_SLOTS = 4, STORE_REST_S = 5 };

/* A medium keeps records. Its functions are called from one thread at a time and may take up to a few
 * seconds. Those that can fail return 0, or a code with a sentence in E. */
typedef void store_found_fn(void *ctx, struct prefix_key key);
struct store_medium {
    /* WHERE is "DIR", or "redis://host[:port][/db]". ERR_UNSUPPORTED: the place holds data of another program
     * or version, which is left alone. */
    int (*open)(void **m, const char *where, uint64_t limit_bytes, struct err *e);
    /* Reads the record KEY into OUT [cap]. *N is its length; 0 if there is none or it is longer than CAP. */
    int (*get)(void *m, struct prefix_key key, void *out, size_t cap, size_t *n, struct err *e);
    int (*put)(void *m, struct prefix_key key, const void *bytes, size_t n, struct err *e);
    void (*remove)(void *m, struct prefix_key key);
    int (*list)(void *m, store_found_fn *found, void *ctx, struct err *e); /* calls FOUND with each key */
    void (*close)(void *m);                                                /* NULL is fine */
};

extern const struct store_medium store_folder;
extern const struct store_medium store_redis; /* only if built with hiredis */

struct store_options {
    const char *where;
    uint64_t limit_bytes;              /* of a folder */
    size_t record_bytes;               /* of the longest record */
    const struct store_medium *medium; /* NULL: chosen by the form of WHERE */
};

struct store_stats {
    uint64_t n_written, written_bytes, n_read, read_bytes; /* records */
    /* Records that were not written, because no slot was free or the medium rested. */
    uint64_t n_dropped;
    uint64_t n_missed;  /* records that were asked for and not there */
    uint64_t n_damaged; /* records that differ from what was written */
    double write_s, read_s;
};

struct store;

/* Bytes of the slots of a store whose records have up to RECORD_BYTES. */
size_t store_slot_bytes(size_t record_bytes);

/* Opens a store. ERR_UNSUPPORTED as for store_medium; other errors are those of the medium. */
int store_open(struct store **s, const struct store_options *o, struct err *e);
/* Writes all records that were given to it first. NULL is fine. */
void store_close(struct store *s);

/* ---- for the engine's thread ---- */

bool store_has(struct store *s, struct prefix_key key); /* may be wrong, see known.h */

/* Returns a slot for a record that is to be stored under KEY; store_put() then has it written. NULL: the
 * store has the record or is writing it, or it cannot take it. */
void *store_take(struct store *s, struct prefix_key key);
void store_put(struct store *s, void *record, size_t n);

/* Begins to read a record. Returns the number of its slot; -1: no slot is free. */
int store_read(struct store *s, struct prefix_key key);

enum store_state { STORE_BUSY, STORE_HERE, STORE_MISSED };
enum store_state store_look(const struct store *s, int slot);
const void *store_record(const struct store *s, int slot); /* of a slot in state STORE_HERE */
void store_drop(struct store *s, int slot);                /* frees the slot, whatever its state */

/* Waits until a record that was asked for is here or missed, at most SECONDS. */
void store_wait(struct store *s, double seconds);

/* Tests: waits until everything is written. */
void store_flush(struct store *s);

void store_stats(const struct store *s, struct store_stats *out); /* callable from any thread */

#endif
