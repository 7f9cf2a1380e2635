/* test_store.c - the store below the cache: records prove each of their bytes; slots are allocated, filled
 * and taken back whatever the medium does; and the known keys stay right while their table grows. */
#include <fcntl.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "files.h"
#include "kv/store/known.h"
#include "kv/store/record.h"
#include "kv/store/store.h"

enum { TOKENS = 20, TILES = 300 };

static struct prefix_key key_of(uint64_t i)
{
    return prefix_chain((struct prefix_key){{i, 7}}, (const int32_t[]){1}, 1);
}

static const int32_t *tokens(void)
{
    static int32_t t[TOKENS];

    for (int i = 0; i < TOKENS; i++)
        t[i] = 1000 + i;
    return t;
}

static struct record_name name_of(uint64_t i)
{
    return (struct record_name){
        .context = {{1, 2}}, .seed = {{3, 4}}, .key = key_of(i), .n_tokens = TOKENS, .n_bytes = TILES};
}

/* Writes a sealed record to OUT. Returns its length. */
static size_t make_record(char *out, uint64_t i)
{
    const struct record_name r = name_of(i);

    record_begin(out, &r);
    memcpy(out + RECORD_HEADER, tokens(), TOKENS * sizeof(int32_t));
    memset(out + record_tiles(TOKENS), (int)i + 1, TILES);
    record_seal(out);
    return record_bytes(&r);
}

/* ---- records ---- */

static void each_bit_of_a_record_is_proved(void **state)
{
    char record[1024], shorter[1024];
    size_t n = make_record(record, 5);

    assert_true(record_is_whole(record, n, key_of(5)));
    assert_false(record_is_whole(record, n, key_of(6)));
    for (size_t bit = 0; bit < 8 * n; bit++) {
        record[bit / 8] ^= (char)(1 << bit % 8);
        if (record_is_whole(record, n, key_of(5)))
            fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
        record[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t len = 0; len < n; len++) {
        memcpy(shorter, record, len);
        assert_false(record_is_whole(shorter, len, key_of(5)));
    }
    assert_true(record_is_whole(record, n, key_of(5)));
}

static void a_record_of_others_is_told_by_what_it_says(void **state)
{
    struct record_name r = name_of(5), other;
    int32_t t[TOKENS];
    char record[1024];

    make_record(record, 5);
    memcpy(t, tokens(), sizeof(t));
    assert_true(record_is_of(record, &r, t));
    for (int i = 0; i < TOKENS; i++) {
        t[i]++;
        assert_false(record_is_of(record, &r, t));
        t[i]--;
    }
#define OTHER(field)                                   \
    do {                                               \
        other = r;                                     \
        other.field++;                                 \
        assert_false(record_is_of(record, &other, t)); \
    } while (0)
    OTHER(context.w[0]);
    OTHER(context.w[1]);
    OTHER(seed.w[0]);
    OTHER(seed.w[1]);
    OTHER(key.w[0]);
    OTHER(key.w[1]);
    OTHER(n_bytes);
#undef OTHER
    other = r;
    other.n_tokens--;
    assert_false(record_is_of(record, &other, t));
}

static void sizes_beyond_an_address_are_none(void **state)
{
    struct record_name r = name_of(0);

    r.n_bytes = SIZE_MAX - 10;
    assert_true(record_bytes(&r) == SIZE_MAX);
    r = name_of(0);
    r.n_tokens = SIZE_MAX / 4;
    assert_true(record_bytes(&r) == SIZE_MAX);
    assert_true(store_slot_bytes(SIZE_MAX) == SIZE_MAX);
    assert_true(store_slot_bytes(SIZE_MAX / 8) == SIZE_MAX);
}

/* ---- keys ---- */

static void known_keys_are_found_while_the_table_grows_and_is_replaced(void **state)
{
    enum { KEYS = 5000 };
    struct known k, fresh;

    assert_int_equal(known_open(&k, NULL), 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_false(known_has(&k, key_of(i)));
        known_add(&k, key_of(i));
        known_add(&k, key_of(i));
        assert_true(known_has(&k, key_of(i / 2)));
    }
    for (uint64_t i = 0; i < KEYS; i += 2)
        known_remove(&k, key_of(i));
    known_remove(&k, key_of(KEYS + 1));
    for (uint64_t i = 0; i < KEYS; i++)
        assert_int_equal(known_has(&k, key_of(i)), i % 2);
    for (uint64_t i = 0; i < KEYS; i++)
        known_add(&k, key_of(i));
    for (uint64_t i = 0; i < KEYS; i++)
        assert_true(known_has(&k, key_of(i)));
    assert_int_equal(known_open(&fresh, NULL), 0);
    known_add(&fresh, (struct prefix_key){{0, 0}}); /* The marks of cells are not keys. */
    known_add(&fresh, (struct prefix_key){{1, 0}});
    known_replace(&k, &fresh);
    known_close(&fresh);
    assert_true(known_has(&k, (struct prefix_key){{0, 0}}) && known_has(&k, (struct prefix_key){{1, 0}}));
    assert_false(known_has(&k, key_of(3)));
    known_close(&k);
}

static void a_table_that_cannot_grow_keeps_what_it_has(void **state)
{
    size_t blocks = mem_live_blocks();
    uint64_t n = 0;
    struct known k;

    assert_int_equal(known_open(&k, NULL), 0);
    for (mem_fail_at(1); !mem_failed(); n++)
        known_add(&k, key_of(n));
    mem_fail_at(0);
    assert_false(known_has(&k, key_of(n - 1)));
    for (uint64_t i = 0; i < n - 1; i++)
        assert_true(known_has(&k, key_of(i)));
    known_add(&k, key_of(n - 1)); /* Memory is available again. */
    for (uint64_t i = 0; i < n; i++)
        assert_true(known_has(&k, key_of(i)));
    known_close(&k);
    assert_int_equal(mem_live_blocks(), blocks);
}

/* ---- a medium that does what the test sets ---- */

enum { MOST = 200 };

static struct {
    sem_t go; /* each call takes one, unless it is FREE */
    bool free, slow;
    int fail; /* the code of the next calls */
    int n_calls;
    atomic_int n_lists;
    uint64_t bend; /* flip this byte of what is read */
    size_t n;
    struct {
        struct prefix_key key;
        char bytes[1024];
        size_t n;
    } kept[MOST];
} medium;

static void turn(void)
{
    if (!medium.free)
        sem_wait(&medium.go);
    if (medium.slow)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    medium.n_calls++;
}

static int fake_open(void **m, const char *where, uint64_t limit, struct err *e)
{
    (void)where;
    (void)limit;
    (void)e;
    *m = &medium;
    return 0;
}

static int fake_get(void *m, struct prefix_key key, void *out, size_t cap, size_t *n, struct err *e)
{
    (void)m;
    (void)cap;
    turn();
    *n = 0;
    if (medium.fail)
        return err_set(e, medium.fail, "it fails");
    for (size_t i = 0; i < medium.n; i++)
        if (memcmp(&medium.kept[i].key, &key, sizeof(key)) == 0) {
            memcpy(out, medium.kept[i].bytes, *n = medium.kept[i].n);
            if (medium.bend)
                ((char *)out)[medium.bend] ^= 1;
        }
    return 0;
}

static int fake_put(void *m, struct prefix_key key, const void *bytes, size_t n, struct err *e)
{
    (void)m;
    turn();
    if (medium.fail)
        return err_set(e, medium.fail, "it fails");
    assert_true(medium.n < MOST);
    medium.kept[medium.n].key = key;
    memcpy(medium.kept[medium.n].bytes, bytes, n);
    medium.kept[medium.n++].n = n;
    return 0;
}

static void fake_remove(void *m, struct prefix_key key)
{
    (void)m;
    for (size_t i = 0; i < medium.n; i++)
        if (memcmp(&medium.kept[i].key, &key, sizeof(key)) == 0)
            medium.kept[i] = medium.kept[--medium.n];
}

static int fake_list(void *m, store_found_fn *found, void *ctx, struct err *e)
{
    (void)m;
    (void)e;
    atomic_fetch_add(&medium.n_lists, 1);
    for (size_t i = 0; i < medium.n; i++)
        found(ctx, medium.kept[i].key);
    return 0;
}

static void fake_close(void *m)
{
    (void)m;
}

static const struct store_medium fake = {.open = fake_open,
                                         .get = fake_get,
                                         .put = fake_put,
                                         .remove = fake_remove,
                                         .list = fake_list,
                                         .close = fake_close};

static struct store *open_fake(bool free)
{
    const struct store_options o = {.where = "", .record_bytes = 1000, .medium = &fake};
    struct err e = {0};
    struct store *s;

    sem_init(&medium.go, 0, 0);
    medium.free = free;
    medium.fail = medium.n_calls = 0;
    medium.bend = 0;
    if (store_open(&s, &o, &e) != 0)
        fail_msg("%s", e.msg);
    return s;
}

static bool put(struct store *s, uint64_t i)
{
    char *out = store_take(s, key_of(i));

    if (out)
        store_put(s, out, make_record(out, i));
    return out != NULL;
}

static enum store_state await(struct store *s, int slot)
{
    while (store_look(s, slot) == STORE_BUSY)
        store_wait(s, 1);
    return store_look(s, slot);
}

static struct store_stats stats(const struct store *s)
{
    struct store_stats t;

    store_stats(s, &t);
    return t;
}

/* ---- slots ---- */

static void what_is_put_is_read_again_in_another_store(void **state)
{
    struct store *s;

    medium.n = 0;
    s = open_fake(true);
    for (uint64_t i = 0; i < 20; i++) {
        assert_true(put(s, i));
        store_flush(s);
        assert_true(store_has(s, key_of(i)));
        assert_false(put(s, i)); /* The block is already stored. */
    }
    assert_int_equal(stats(s).n_written, 20);
    store_close(s);
    s = open_fake(true);
    for (uint64_t i = 0; i < 21; i++) {
        int slot = store_read(s, key_of(i));
        struct record_name r = name_of(i);

        assert_int_equal(await(s, slot), i < 20 ? STORE_HERE : STORE_MISSED);
        if (i < 20)
            assert_true(record_is_of(store_record(s, slot), &r, tokens()));
        store_drop(s, slot);
    }
    assert_int_equal(stats(s).n_read, 20);
    assert_int_equal(stats(s).n_missed, 1);
    store_close(s);
}

static void a_slow_medium_costs_blocks_and_no_time(void **state)
{
    struct store *s;
    uint64_t i = 0;

    medium.n = 0;
    s = open_fake(false);
    while (put(s, i))
        i++;
    assert_int_equal(i, STORE_MOST_SLOTS);
    assert_int_equal(stats(s).n_dropped, 1);
    assert_false(put(s, 0)); /* This block is in transit, and does not count. */
    assert_int_equal(stats(s).n_dropped, 1);
    for (int k = 0; k < STORE_MOST_SLOTS; k++)
        sem_post(&medium.go);
    store_flush(s);
    assert_true(put(s, i));
    sem_post(&medium.go);
    store_close(s); /* The thread writes this block. */
    assert_int_equal(medium.n, STORE_MOST_SLOTS + 1);
}

static void a_block_overtakes_those_that_were_put_before(void **state)
{
    enum { EARLY = 3, ALL = STORE_MOST_SLOTS + EARLY };
    struct store *s;

    medium.n = 0;
    s = open_fake(false);
    for (uint64_t i = 0; i < STORE_MOST_SLOTS; i++)
        assert_true(put(s, i));
    for (int i = 0; i < EARLY; i++)
        sem_post(&medium.go);
    /* They go into the slots of the first blocks, which become free one by one. */
    for (uint64_t i = STORE_MOST_SLOTS; i < ALL;)
        i += put(s, i);
    for (int i = EARLY; i < ALL; i++)
        sem_post(&medium.go);
    store_flush(s);
    assert_int_equal(medium.n, ALL);
    for (uint64_t i = 0; i < ALL; i++) {
        struct prefix_key key = key_of(i);

        assert_memory_equal(&medium.kept[i].key, &key, sizeof(key));
    }
    store_close(s);
}

static void reads_can_be_dropped_whatever_their_state_and_go_before_writes(void **state)
{
    int slot[STORE_MOST_SLOTS];
    struct store *s;

    medium.n = 0;
    s = open_fake(true);
    put(s, 1);
    store_flush(s);
    medium.free = false;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < STORE_MOST_SLOTS; i++)
            assert_true((slot[i] = store_read(s, key_of(1))) >= 0);
        assert_int_equal(store_read(s, key_of(1)), -1);
        for (int i = 0; i < STORE_MOST_SLOTS; i++)
            store_drop(s, slot[i]); /* One of them is being read. */
        sem_post(&medium.go);
        while ((slot[0] = store_read(s, key_of(1))) < 0)
            ;
        sem_post(&medium.go);
        sem_post(&medium.go);
        assert_int_equal(await(s, slot[0]), STORE_HERE);
        store_drop(s, slot[0]);
        while (sem_trywait(&medium.go) == 0)
            ;
    }
    medium.free = true;
    sem_post(&medium.go);
    store_close(s);
}

static void damage_is_seen_removed_and_counted(void **state)
{
    struct store *s;
    int slot;

    medium.n = 0;
    s = open_fake(true);
    put(s, 1);
    store_flush(s);
    medium.bend = 400;
    log_set_level(LOG_ERROR);
    slot = store_read(s, key_of(1));
    assert_int_equal(await(s, slot), STORE_MISSED);
    log_set_level(LOG_WARN);
    store_drop(s, slot);
    assert_int_equal(stats(s).n_damaged, 1);
    assert_int_equal(medium.n, 0);
    assert_false(store_has(s, key_of(1)));
    assert_true(put(s, 1));
    store_close(s);
    assert_int_equal(medium.n, 1);
}

/* Otherwise records of other processes would never be seen. */
static void a_store_that_is_always_busy_looks_at_its_medium_all_the_same(void **state)
{
    double until = clock_seconds() + 300;
    struct store *s;
    int before;

    medium.n = 0;
    s = open_fake(true);
    put(s, 1);
    store_flush(s);
    medium.slow = true;
    before = atomic_load(&medium.n_lists);
    while (atomic_load(&medium.n_lists) == before && clock_seconds() < until)
        for (int i = 0; i < STORE_MOST_SLOTS; i++)
            if (store_read(s, key_of(1)) < 0 && store_look(s, i) != STORE_BUSY)
                store_drop(s, i);
    assert_true(atomic_load(&medium.n_lists) > before);
    for (int i = 0; i < STORE_MOST_SLOTS; i++)
        store_drop(s, i);
    store_close(s);
    medium.slow = false;
}

static void a_medium_that_fails_rests_and_is_not_asked_meanwhile(void **state)
{
    struct store *s;
    int slot, calls;

    medium.n = 0;
    s = open_fake(true);
    put(s, 1);
    store_flush(s);
    medium.fail = ERR_OS;
    log_set_level(LOG_ERROR);
    slot = store_read(s, key_of(1));
    assert_int_equal(await(s, slot), STORE_MISSED);
    store_drop(s, slot);
    assert_false(store_has(s, key_of(1)));
    put(s, 2);
    store_flush(s);
    calls = medium.n_calls;
    assert_false(put(s, 3)); /* Writes pause as well. */
    slot = store_read(s, key_of(1));
    assert_int_equal(await(s, slot), STORE_MISSED);
    assert_int_equal(medium.n_calls, calls);
    log_set_level(LOG_WARN);
    store_close(s);
}

/* the thread's own scan, every few seconds */
static void a_look_without_memory_costs_hits_and_nothing_else(void **state)
{
    double until = clock_seconds() + 300;
    size_t blocks;
    struct store *s;

    medium.n = 0;
    blocks = mem_live_blocks();
    s = open_fake(true);
    put(s, 1);
    store_flush(s);
    assert_true(store_has(s, key_of(1)));
    log_set_level(LOG_ERROR);
    mem_fail_at(1);
    while (store_has(s, key_of(1)) && clock_seconds() < until)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_true(mem_failed());
    mem_fail_at(0);
    assert_false(store_has(s, key_of(1))); /* Reads pause. */
    assert_true(put(s, 2));
    store_flush(s);
    assert_int_equal(stats(s).n_written, 2);
    store_close(s);
    log_set_level(LOG_WARN);
    assert_int_equal(mem_live_blocks(), blocks);
}

/* ---- folders ---- */

enum { FILE_BYTES = 1000 };

static char place[256];

static int new_place(void **state)
{
    static int n;

    snprintf(place, sizeof(place), "%s/store-%d", files_folder(), n++);
    return mkdir(place, 0700);
}

static void *open_folder(uint64_t limit)
{
    struct err e = {0};
    void *m;

    if (store_folder.open(&m, place, limit, &e) != 0)
        fail_msg("%s", e.msg);
    return m;
}

/* Returns the file of key_of(I), or with NAME another file of the folder. */
static const char *path_of(uint64_t i, const char *name)
{
    static char path[400];
    struct prefix_key k = key_of(i);

    if (name)
        snprintf(path, sizeof(path), "%s/%s", place, name);
    else
        snprintf(path, sizeof(path), "%s/%016llx%016llx.kv", place, (unsigned long long)k.w[0],
                 (unsigned long long)k.w[1]);
    return path;
}

static void put_file(void *m, uint64_t i)
{
    static const char bytes[FILE_BYTES] = {0};
    struct err e = {0};

    if (store_folder.put(m, key_of(i), bytes, FILE_BYTES, &e) != 0)
        fail_msg("%s", e.msg);
}

/* Returns the length of the record. A failure would make the whole folder pause. */
static size_t get_file(void *m, uint64_t i)
{
    char out[FILE_BYTES];
    struct err e = {0};
    size_t n;

    if (store_folder.get(m, key_of(i), out, sizeof(out), &n, &e) != 0)
        fail_msg("%s", e.msg);
    return n;
}

static void what_was_not_used_for_longest_goes_first(void **state)
{
    void *m = open_folder(10 * FILE_BYTES);

    for (uint64_t i = 0; i < 10; i++) {
        struct timespec time[2] = {{.tv_sec = 1000000 + (time_t)i}, {.tv_sec = 1000000 + (time_t)i}};

        put_file(m, i);
        assert_int_equal(utimensat(AT_FDCWD, path_of(i, NULL), time, 0), 0);
    }
    assert_int_equal(get_file(m, 0), FILE_BYTES); /* The oldest record is used. */
    assert_int_equal(get_file(m, 2), FILE_BYTES);
    put_file(m, 10); /* This takes its room, and a tenth more. */
    for (uint64_t i = 0; i < 11; i++)
        assert_int_equal(access(path_of(i, NULL), F_OK) == 0, i != 1 && i != 3);
    store_folder.close(m);
}

static void a_folder_without_its_version_keeps_to_its_size(void **state)
{
    void *m = open_folder(10 * FILE_BYTES);
    size_t n = 0;

    assert_int_equal(unlink(path_of(0, "gallop-kv-store")), 0);
    for (uint64_t i = 0; i < 40; i++)
        put_file(m, i);
    for (uint64_t i = 0; i < 40; i++)
        n += access(path_of(i, NULL), F_OK) == 0;
    assert_in_range(n, 1, 10);
    store_folder.close(m);
}

static void a_pipe_where_the_version_stands_is_another_store(void **state)
{
    struct err e = {0};
    void *m;

    assert_int_equal(mkfifo(path_of(0, "gallop-kv-store"), 0600), 0);
    assert_int_equal(store_folder.open(&m, place, 1 << 20, &e), ERR_UNSUPPORTED);
}

static void what_is_no_file_of_ours_is_missed_and_fails_nothing(void **state)
{
    void *m = open_folder(1 << 20);
    char target[400];

    put_file(m, 0);
    snprintf(target, sizeof(target), "%s", path_of(0, NULL));
    assert_int_equal(symlink(target, path_of(1, NULL)), 0);
    assert_int_equal(symlink(path_of(2, NULL), path_of(2, NULL)), 0);
    assert_int_equal(mkdir(path_of(3, NULL), 0700), 0);
    assert_int_equal(mkfifo(path_of(4, NULL), 0600), 0);
    put_file(m, 5);
    assert_int_equal(truncate(path_of(5, NULL), (off_t)1 << 40), 0);
    assert_int_equal(get_file(m, 0), FILE_BYTES);
    for (uint64_t i = 1; i < 7; i++)
        assert_int_equal(get_file(m, i), 0);
    store_folder.close(m);
}

/* Puts PUTS records into a store with room for a dozen, reads those that it has, and counts those that were
 * kept or given up. */
static void fill_and_read(struct store *s, uint64_t puts)
{
    for (uint64_t i = 0; i < puts; i++) {
        struct record_name r = name_of(i);
        int slot;

        put(s, i);
        store_flush(s);
        slot = store_read(s, key_of(i));
        if (await(s, slot) == STORE_HERE)
            assert_true(record_is_of(store_record(s, slot), &r, tokens()));
        store_drop(s, slot);
    }
    assert_int_equal(stats(s).n_written + stats(s).n_dropped, puts);
    assert_int_equal(stats(s).n_damaged, 0);
}

static void every_allocation_of_making_room_may_fail(void **state)
{
    enum { PUTS = 40 };
    struct record_name r = name_of(0);
    const struct store_options o = {
        .where = place, .record_bytes = 1000, .limit_bytes = 12 * record_bytes(&r)};
    size_t blocks = mem_live_blocks(), n_dropped = 0;
    bool failed = true;
    long n;

    log_set_level(LOG_ERROR);
    for (n = 0; failed; n++) {
        struct store *s;

        assert_int_equal(store_open(&s, &o, NULL), 0);
        mem_fail_at(n + 1);
        fill_and_read(s, PUTS);
        n_dropped += stats(s).n_dropped;
        assert_true(stats(s).n_dropped == 0 || mem_failed());
        store_close(s);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(mem_live_blocks(), blocks);
        for (uint64_t i = 0; i < PUTS; i++)
            unlink(path_of(i, NULL));
    }
    log_set_level(LOG_WARN);
    print_message("%ld allocations; %zu records were given up\n", n - 1, n_dropped);
    assert_true(n > 10 && n_dropped > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bit_of_a_record_is_proved),
        cmocka_unit_test(a_record_of_others_is_told_by_what_it_says),
        cmocka_unit_test(sizes_beyond_an_address_are_none),
        cmocka_unit_test(known_keys_are_found_while_the_table_grows_and_is_replaced),
        cmocka_unit_test(a_table_that_cannot_grow_keeps_what_it_has),
        cmocka_unit_test(what_is_put_is_read_again_in_another_store),
        cmocka_unit_test(a_slow_medium_costs_blocks_and_no_time),
        cmocka_unit_test(a_block_overtakes_those_that_were_put_before),
        cmocka_unit_test(reads_can_be_dropped_whatever_their_state_and_go_before_writes),
        cmocka_unit_test(damage_is_seen_removed_and_counted),
        cmocka_unit_test(a_store_that_is_always_busy_looks_at_its_medium_all_the_same),
        cmocka_unit_test(a_medium_that_fails_rests_and_is_not_asked_meanwhile),
        cmocka_unit_test(a_look_without_memory_costs_hits_and_nothing_else),
        cmocka_unit_test_setup(what_was_not_used_for_longest_goes_first, new_place),
        cmocka_unit_test_setup(a_folder_without_its_version_keeps_to_its_size, new_place),
        cmocka_unit_test_setup(a_pipe_where_the_version_stands_is_another_store, new_place),
        cmocka_unit_test_setup(what_is_no_file_of_ours_is_missed_and_fails_nothing, new_place),
        cmocka_unit_test_setup(every_allocation_of_making_room_may_fail, new_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
