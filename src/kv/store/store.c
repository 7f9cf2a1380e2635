/* store.c - the slots of a store, and the thread that writes and reads records.
 *
 * The state of a slot decides which thread owns it; it changes by compare and exchange. A slot belongs to the
 * store's thread from the request until the read or write has finished, and otherwise to the engine's thread.
 * The store's thread serves reads before writes, and each of them in the order of their requests.
 */
#include "kv/store/store.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/threads/thread.h"
#include "kv/store/known.h"
#include "kv/store/record.h"

enum { SIDE_BYTES = 64 << 20, LOOK_S = 2, LOOK_SHARE = 20 };

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_ASKED, SLOT_WORKING, SLOT_UNWANTED, SLOT_HERE, SLOT_MISSED };

struct slot {
    atomic_int state;
    /* Number of the request. Both threads may access it at the same time. */
    _Atomic uint64_t order;
    struct prefix_key key;
    char *bytes;
    size_t n;
};

/* All slots for writing records, or all slots for reading records. */
struct side {
    struct slot slot[STORE_MOST_SLOTS];
    _Atomic double rest_until; /* clock time until which the failed medium is not used */
    _Atomic uint64_t n_done, done_bytes;
    _Atomic double seconds;
    bool said; /* the current failure was logged */
};

struct store {
    const struct store_medium *medium;
    void *m;
    char *region;
    size_t region_bytes, slot_bytes, n_slots; /* n_slots: of each side */
    struct side reads, writes;
    uint64_t order; /* next sequence number; used by the engine's thread */
    struct known known;
    _Atomic uint64_t n_dropped, n_missed, n_damaged;
    bool said_damage;
    double next_look; /* clock time of the next listing of keys */
    struct thread thread;
    bool runs;
    atomic_bool ends;
    sem_t asked, done;
};

/* ---- open and close ---- */

static size_t slot_bytes_of(size_t record_bytes)
{
    return record_bytes > SIZE_MAX / 4 ? SIZE_MAX : (record_bytes + 4095) / 4096 * 4096;
}

static size_t slots_of(size_t slot_bytes)
{
    size_t n = SIDE_BYTES / slot_bytes;

    return n < STORE_LEAST_SLOTS ? STORE_LEAST_SLOTS : n > STORE_MOST_SLOTS ? STORE_MOST_SLOTS : n;
}

size_t store_slot_bytes(size_t record_bytes)
{
    size_t one = slot_bytes_of(record_bytes), all;

    return one == SIZE_MAX || __builtin_mul_overflow(one, 2 * slots_of(one), &all) ? SIZE_MAX : all;
}

static int medium_of(const char *where, const struct store_medium **medium, struct err *e)
{
    *medium = &store_folder;
    if (!strstr(where, "://"))
        return 0;
    if (strncmp(where, "redis://", 8) != 0)
        return err_set(e, ERR_INPUT,
                       "KV store %s: expected a folder or redis://host[:port][/db] (TLS is not supported)",
                       where);
#ifdef GALLOP_HIREDIS
    *medium = &store_redis;
    return 0;
#else
    return err_set(e, ERR_INPUT, "KV store %s: this program was built without hiredis", where);
#endif
}

static void add_found(void *ctx, struct prefix_key key)
{
    known_add(ctx, key);
}

/* Replaces the keys in s->known by the keys of all records in the medium (the folder or Redis server), and
 * sets the time of the next listing. */
static int look(struct store *s, struct err *e)
{
    double begin = clock_seconds(), took;
    struct known fresh;
    int rc = known_open(&fresh, e);

    if (rc == 0 && (rc = s->medium->list(s->m, add_found, &fresh, e)) == 0)
        known_replace(&s->known, &fresh);
    known_close(&fresh);
    took = clock_seconds() - begin;
    s->next_look = clock_seconds() + (LOOK_SHARE * took > LOOK_S ? LOOK_SHARE * took : LOOK_S);
    return rc;
}

static void *store_run(void *ctx);

/* Starts the store's thread. It blocks signals, so that SIGPIPE and SIGXFSZ become error codes. */
static int store_start(struct store *s, struct err *e)
{
    errno = thread_start(&s->thread, store_run, s);
    s->runs = errno == 0;
    return s->runs ? 0 : err_os(e, "start the thread of", "the KV store");
}

static void rest(struct side *side, const struct err *e)
{
    if (!side->said)
        log_warn("%s; the KV store is not used for %d s", e->msg, STORE_REST_S);
    side->said = true;
    atomic_store(&side->rest_until, clock_seconds() + STORE_REST_S);
}

static int open_slots(struct store *s, size_t record_bytes, struct err *e)
{
    s->slot_bytes = slot_bytes_of(record_bytes);
    s->region_bytes = store_slot_bytes(record_bytes);
    s->region = s->region_bytes < SIZE_MAX ? map_region_new(s->region_bytes) : NULL;
    if (!s->region)
        return err_set(e, ERR_NOMEM, "out of memory: %zu bytes of slots of the KV store", s->region_bytes);
    s->n_slots = slots_of(s->slot_bytes);
    for (size_t i = 0; i < s->n_slots; i++) {
        s->reads.slot[i].bytes = s->region + 2 * i * s->slot_bytes;
        s->writes.slot[i].bytes = s->region + (2 * i + 1) * s->slot_bytes;
    }
    return 0;
}

int store_open(struct store **out, const struct store_options *o, struct err *e)
{
    struct store *s = *out = mem_zalloc(1, sizeof(*s), MEM_KV);
    struct err why = {0};
    int rc;

    if (!s)
        return err_nomem(e, "the KV store");
    sem_init(&s->asked, 0, 0);
    sem_init(&s->done, 0, 0);
    s->medium = o->medium;
    if ((s->medium || (rc = medium_of(o->where, &s->medium, e)) == 0) &&
        (rc = open_slots(s, o->record_bytes, e)) == 0 && (rc = known_open(&s->known, e)) == 0 &&
        (rc = s->medium->open(&s->m, o->where, o->limit_bytes, e)) == 0) {
        if ((rc = look(s, &why)) == ERR_OS) {
            rest(&s->reads, &why); /* the medium may work again later */
            rc = 0;
        } else if (rc && e) {
            *e = why;
        }
        if (rc == 0)
            rc = store_start(s, e);
    }
    if (rc) {
        store_close(s);
        *out = NULL;
    }
    return rc;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    if (s->runs) {
        atomic_store(&s->ends, true);
        sem_post(&s->asked);
        thread_join(&s->thread);
    }
    if (s->m)
        s->medium->close(s->m);
    known_close(&s->known);
    map_region_free(s->region, s->region_bytes);
    sem_destroy(&s->asked);
    sem_destroy(&s->done);
    mem_free(s);
}

/* ---- the store's thread ---- */

static bool pass(struct slot *t, int from, int to)
{
    return atomic_compare_exchange_strong(&t->state, &from, to);
}

/* Claims the slot of SIDE with the oldest request for the store's thread. NULL: there is no request. */
static struct slot *next_of(const struct store *s, struct side *side)
{
    for (;;) {
        struct slot *first = NULL;

        for (size_t i = 0; i < s->n_slots; i++)
            if (atomic_load(&side->slot[i].state) == SLOT_ASKED &&
                (!first || side->slot[i].order < first->order))
                first = &side->slot[i];
        if (!first || pass(first, SLOT_ASKED, SLOT_WORKING))
            return first;
    }
}

static void count(struct side *side, size_t bytes, double seconds)
{
    atomic_fetch_add(&side->n_done, 1);
    atomic_fetch_add(&side->done_bytes, bytes);
    atomic_store(&side->seconds, atomic_load(&side->seconds) + seconds);
    side->said = false;
}

static bool rests(const struct side *side)
{
    return atomic_load(&side->rest_until) > clock_seconds();
}

static bool fetch(struct store *s, struct slot *t)
{
    double begin = clock_seconds();
    struct err e = {0};

    if (rests(&s->reads))
        return false;
    if (s->medium->get(s->m, t->key, t->bytes, s->slot_bytes, &t->n, &e) != 0) {
        rest(&s->reads, &e);
        return false;
    }
    if (t->n == 0) {
        known_remove(&s->known, t->key);
        return false;
    }
    if (!record_is_whole(t->bytes, t->n, t->key)) {
        known_remove(&s->known, t->key);
        s->medium->remove(s->m, t->key);
        atomic_fetch_add(&s->n_damaged, 1);
        if (!s->said_damage)
            log_warn(
                "a block of the KV store is damaged and is not used; further damaged blocks are not logged");
        s->said_damage = true;
        return false;
    }
    count(&s->reads, t->n, clock_seconds() - begin);
    return true;
}

static void do_read(struct store *s, struct slot *t)
{
    bool here = fetch(s, t);

    if (!here)
        atomic_fetch_add(&s->n_missed, 1);
    /* The exchange fails if the engine dropped the slot meanwhile. */
    if (!pass(t, SLOT_WORKING, here ? SLOT_HERE : SLOT_MISSED))
        atomic_store(&t->state, SLOT_FREE);
    sem_post(&s->done);
}

static void do_write(struct store *s, struct slot *t)
{
    double begin = clock_seconds();
    struct err e = {0};

    record_seal(t->bytes);
    if (rests(&s->writes)) {
        atomic_fetch_add(&s->n_dropped, 1);
    } else if (s->medium->put(s->m, t->key, t->bytes, t->n, &e) != 0) {
        rest(&s->writes, &e);
        atomic_fetch_add(&s->n_dropped, 1);
    } else {
        known_add(&s->known, t->key);
        count(&s->writes, t->n, clock_seconds() - begin);
    }
    atomic_store(&t->state, SLOT_FREE);
}

/* Serves one request. False: there was no request. */
static bool do_next(struct store *s)
{
    struct slot *t;

    if ((t = next_of(s, &s->reads)) != NULL)
        do_read(s, t);
    else if ((t = next_of(s, &s->writes)) != NULL)
        do_write(s, t);
    return t != NULL;
}

static void wait_until(sem_t *sem, double clock)
{
    struct timespec until = clock_at(clock);

    while (sem_clockwait(sem, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
        ;
    /* Clears the remaining posts of the semaphore, because the caller looks at all slots anyway. */
    while (sem_trywait(sem) == 0)
        ;
}

static void *store_run(void *ctx)
{
    struct store *s = ctx;

    for (;;) {
        bool ends = atomic_load(&s->ends), busy = do_next(s);

        if (ends && !busy)
            return NULL;
        /* lists keys on time even under constant load */
        if (!ends && clock_seconds() >= s->next_look) {
            struct err e = {0};

            if (look(s, &e) != 0)
                rest(&s->reads, &e);
        } else if (!busy) {
            wait_until(&s->asked, s->next_look);
        }
    }
}

/* ---- the engine's thread ---- */

bool store_has(struct store *s, struct prefix_key key)
{
    return !rests(&s->reads) && known_has(&s->known, key);
}

static struct slot *free_slot(const struct store *s, struct side *side)
{
    for (size_t i = 0; i < s->n_slots; i++)
        if (atomic_load(&side->slot[i].state) == SLOT_FREE)
            return &side->slot[i];
    return NULL;
}

static bool is_on_its_way(const struct store *s, struct prefix_key key)
{
    for (size_t i = 0; i < s->n_slots; i++)
        if (atomic_load(&s->writes.slot[i].state) != SLOT_FREE &&
            memcmp(&s->writes.slot[i].key, &key, sizeof(key)) == 0)
            return true;
    return false;
}

void *store_take(struct store *s, struct prefix_key key)
{
    struct slot *t;

    if (known_has(&s->known, key) || is_on_its_way(s, key))
        return NULL;
    if (rests(&s->writes) || !(t = free_slot(s, &s->writes))) {
        atomic_fetch_add(&s->n_dropped, 1);
        return NULL;
    }
    t->key = key;
    atomic_store(&t->state, SLOT_FILLING);
    return t->bytes;
}

static void ask(struct store *s, struct slot *t)
{
    t->order = s->order++;
    atomic_store(&t->state, SLOT_ASKED);
    sem_post(&s->asked);
}

void store_put(struct store *s, void *record, size_t n)
{
    struct slot *t = &s->writes.slot[(size_t)((char *)record - s->region) / (2 * s->slot_bytes)];

    ASSERT(t->bytes == record && n <= s->slot_bytes, "%zu bytes in a slot of %zu", n, s->slot_bytes);
    t->n = n;
    ask(s, t);
}

int store_read(struct store *s, struct prefix_key key)
{
    struct slot *t = free_slot(s, &s->reads);

    if (!t)
        return -1;
    t->key = key;
    ask(s, t);
    return (int)(t - s->reads.slot);
}

enum store_state store_look(const struct store *s, int slot)
{
    int state = atomic_load(&s->reads.slot[slot].state);

    return state == SLOT_HERE ? STORE_HERE : state == SLOT_MISSED ? STORE_MISSED : STORE_BUSY;
}

const void *store_record(const struct store *s, int slot)
{
    return s->reads.slot[slot].bytes;
}

void store_drop(struct store *s, int slot)
{
    struct slot *t = &s->reads.slot[slot];

    if (!pass(t, SLOT_ASKED, SLOT_FREE) && !pass(t, SLOT_WORKING, SLOT_UNWANTED))
        atomic_store(&t->state, SLOT_FREE);
}

void store_wait(struct store *s, double seconds)
{
    wait_until(&s->done, clock_seconds() + seconds);
}

void store_flush(struct store *s)
{
    for (size_t i = 0; i < s->n_slots; i++)
        while (atomic_load(&s->writes.slot[i].state) != SLOT_FREE)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void store_stats(const struct store *s, struct store_stats *out)
{
    *out = (struct store_stats){.n_written = atomic_load(&s->writes.n_done),
                                .written_bytes = atomic_load(&s->writes.done_bytes),
                                .n_read = atomic_load(&s->reads.n_done),
                                .read_bytes = atomic_load(&s->reads.done_bytes),
                                .n_dropped = atomic_load(&s->n_dropped),
                                .n_missed = atomic_load(&s->n_missed),
                                .n_damaged = atomic_load(&s->n_damaged),
                                .write_s = atomic_load(&s->writes.seconds),
                                .read_s = atomic_load(&s->reads.seconds)};
}
