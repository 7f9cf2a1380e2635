/* store.h - blocks of KV rows beyond the memory: a folder or a Redis server that keeps records under keys.
 *
 * A thread of the store does all that can wait: it writes behind what the engine has copied into a slot, and
 * reads ahead what the engine will ask for. The engine's side takes no lock and never waits: slots are laid
 * out at open, and when all are in use a block is not stored (and counted), or is computed instead of read.
 * Records are opaque here but for what proves them (record.h); whether a record is of the right tokens is
 * for who asked to say, before it is used. What a medium holds is known from a list that is looked at again
 * every few seconds, so that several processes may share it.
 *
 * A medium that fails is left alone for STORE_REST_S, and said so once until it works again; it costs hits
 * and never an answer.
 */
#ifndef GALLOP_KV_STORE_STORE_H
#define GALLOP_KV_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/prefix.h"

enum { STORE_MOST_SLOTS = 64, STORE_LEAST_SLOTS = 4, STORE_REST_S = 5 };

/* What keeps records. Calls come from one thread at a time and may take a while, each at most a few seconds.
 * Those that can fail return 0 or a code with a sentence. */
typedef void store_found_fn(void *ctx, struct prefix_key key);
struct store_medium {
    /* WHERE is "DIR", or "redis://host[:port][/db]". ERR_UNSUPPORTED: what lies there is another's, or of
     * another version, and will be left alone. */
    int (*open)(void **m, const char *where, uint64_t limit_bytes, struct err *e);
    /* The record KEY into OUT [cap]; *n is its length, 0 if there is none or it is longer than CAP. */
    int (*get)(void *m, struct prefix_key key, void *out, size_t cap, size_t *n, struct err *e);
    int (*put)(void *m, struct prefix_key key, const void *bytes, size_t n, struct err *e);
    void (*remove)(void *m, struct prefix_key key);
    int (*list)(void *m, store_found_fn *found, void *ctx, struct err *e); /* all keys */
    void (*close)(void *m);                                                /* NULL is fine */
};

extern const struct store_medium store_folder;
extern const struct store_medium store_redis; /* only where hiredis was found */

struct store_options {
    const char *where;
    uint64_t limit_bytes;              /* of a folder */
    size_t record_bytes;               /* of the longest record */
    const struct store_medium *medium; /* NULL: by the form of WHERE */
};

struct store_stats {
    uint64_t n_written, written_bytes, n_read, read_bytes; /* records */
    uint64_t n_dropped; /* not written: no slot was free, or the medium was at rest */
    uint64_t n_missed;  /* asked for and not there */
    uint64_t n_damaged; /* and not what was written */
    double write_s, read_s;
};

struct store;

/* Bytes of slots of a store with records of up to RECORD_BYTES. */
size_t store_slot_bytes(size_t record_bytes);

/* ERR_UNSUPPORTED: see store_medium; others as they come. */
int store_open(struct store **s, const struct store_options *o, struct err *e);
void store_close(struct store *s); /* writes what it was given; NULL is fine */

/* ---- the engine's side: one thread ---- */

bool store_has(struct store *s, struct prefix_key key); /* probably */

/* A slot for a record that shall be kept under KEY; NULL: it is there or on its way, or cannot be taken. The
 * record is written after store_put(). */
void *store_take(struct store *s, struct prefix_key key);
void store_put(struct store *s, void *record, size_t n);

/* Begins to read; returns the number of a slot, or -1: none is free. */
int store_read(struct store *s, struct prefix_key key);

enum store_state { STORE_BUSY, STORE_HERE, STORE_MISSED };
enum store_state store_look(const struct store *s, int slot);
const void *store_record(const struct store *s, int slot); /* which is here, and whole */
void store_drop(struct store *s, int slot);                /* whatever its state */

/* Until something that was asked for is here or missed, at most SECONDS. */
void store_wait(struct store *s, double seconds);

/* Tests: until nothing is left to be written. */
void store_flush(struct store *s);

void store_stats(const struct store *s, struct store_stats *out); /* any thread */

#endif
