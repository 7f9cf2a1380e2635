/* test_store.c - KV blocks that outlive an engine: blocks that are read from a store give the tokens and bits
 * of computed ones, for models, indexes, layouts and dtypes of rows. A store that was truncated, damaged,
 * filled up, killed or belongs to another model costs hits, and never an answer. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "kv/store/store.h"

enum { REQUESTS = 12, PROMPT = 100, WHOLE = 96, MOST = 200 };

static char at[256]; /* the folder of the store */

static int new_folder(void **state)
{
    static int n;

    snprintf(at, sizeof(at), "%s/store-%d", files_folder(), n++);
    return 0;
}

/* ---- requests ---- */

/* Makes request number I: a beginning that it shares with others, then its own text. */
static size_t make_prompt(size_t i, int32_t *ids)
{
    static const size_t shared[] = {0, 33, 64, 100};
    size_t same = shared[i % 4], own = 5 + i * 7 % 40;

    engines_text(1, 0, same, ids);
    engines_text(10 + i % 5, same, own, ids + same);
    return same + own;
}

static void submit(struct gallop *g, size_t i, const int32_t *ids, size_t n, const char *salt)
{
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = n;
    r.user = (void *)i;
    r.cache_salt = salt;
    r.sampling.max_new_tokens = (int64_t)(3 + i * 5 % 30);
    r.sampling.ignore_eos = 1;
    r.sampling.logprobs = 0;
    r.sampling.do_sample = i % 3 == 0;
    r.sampling.has_seed = 1;
    r.sampling.seed = i;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

static void run_all(struct gallop *g, struct engines_answer *a)
{
    memset(a, 0, REQUESTS * sizeof(*a));
    for (size_t i = 0; i < REQUESTS; i++) {
        int32_t ids[MOST];

        submit(g, i, ids, make_prompt(i, ids), NULL);
    }
    engines_run(g, a);
    engines_check_cache(g);
}

static size_t stored_of(const struct engines_answer *a)
{
    size_t sum = 0;

    for (size_t i = 0; i < REQUESTS; i++)
        sum += a[i].end.n_stored;
    return sum;
}

static struct gallop_options options(void)
{
    struct gallop_options o = engines_options(8, 64, 256);

    o.kv_store = at;
    return o;
}

/* Runs one prompt of PROMPT tokens, and returns how many of them were read from the store. */
static size_t ask_once(const char *model, const struct gallop_options *o, struct engines_answer *a)
{
    static struct engines_answer own;
    struct gallop *g = engines_open(model, o);
    int32_t ids[PROMPT];

    a = a ? a : &own;
    memset(a, 0, sizeof(*a));
    engines_text(1, 0, PROMPT, ids);
    submit(g, 0, ids, PROMPT, NULL);
    engines_run(g, a);
    engines_check_cache(g);
    gallop_close(g);
    assert_true(a->end.n_stored <= a->end.n_cached);
    return a->end.n_stored;
}

/* Repeats this until all whole blocks were read: on a busy machine a request may have waited long enough. */
static size_t ask_until(const char *model, const struct gallop_options *o, struct engines_answer *a)
{
    size_t n = 0;

    for (int i = 0; i < 50 && n < WHOLE; i++)
        n = ask_once(model, o, a);
    return n;
}

/* ---- the same bits ---- */

static void what_is_read_after_a_restart_changes_no_token_and_no_bit(void **state)
{
    static const struct {
        const char *model, *index, *layout, *dtype, *kv_dtype;
        int64_t pool;
    } way[] = {{"llama3-rope", "hash", "head_major", "fp32", "auto", 0},
               {"llama3-rope", "radix", "block_major", "bf16", "auto", 0},
               {"llama3-rope", "hash", "block_major", "bf16", "int8", 512},
               {"gemma3", "hash", "head_major", "fp32", "auto", 0},
               {"gemma3", "radix", "block_major", "bf16", "int8", 0},
               {"gpt-oss", "hash", "head_major", "bf16", "auto", 0},
               {"gpt-oss", "radix", "head_major", "fp32", "int8", 0},
               {"llama3-rope", "radix", "block_major", "bf16", "int4", 512},
               {"mistral", "hash", "head_major", "bf16", "auto", 0},
               {"phi3-longrope", "radix", "head_major", "fp32", "auto", 0},
               {"gemma4", "hash", "head_major", "fp32", "auto", 0}};
    static struct engines_answer alone[REQUESTS], got[REQUESTS];

    for (size_t w = 0; w < sizeof(way) / sizeof(way[0]); w++) {
        struct gallop_options o = engines_options(8, 64, 256);
        struct gallop *g;
        char says[256];

        new_folder(state);
        o.dtype = way[w].dtype;
        o.kv_cache_dtype = way[w].kv_dtype;
        o.prefix_index = "none";
        g = engines_open(way[w].model, &o);
        run_all(g, alone);
        gallop_close(g);
        o.prefix_index = way[w].index;
        o.kv_cache_layout = way[w].layout;
        o.kv_store = at;
        o.kv_cache_tokens = way[w].pool;
        for (int again = 0, tries = 0; again < 3; again++) {
            if (again == 2) /* The records do not depend on it. */
                o.kv_cache_layout = strcmp(way[w].layout, "head_major") == 0 ? "block_major" : "head_major";
            g = engines_open(way[w].model, &o);
            run_all(g, got);
            if (engines_differ(alone, got, REQUESTS, says))
                fail_msg("way %zu, engine %d: %s", w, again, says);
            assert_int_equal(engines_stats(g).n_store_damaged, 0);
            gallop_close(g);
            if (again && stored_of(got) == 0) { /* A busy machine may not wait for the disk. */
                again--;
                if (++tries == 50)
                    fail_msg("way %zu, engine %d: nothing was read", w, again);
            }
        }
    }
}

/* Returns the number of steps of eight prompts that arrive together, none of which is stored. */
static uint64_t steps_of_eight(const struct gallop_options *o)
{
    static struct engines_answer a[8];
    struct gallop *g = engines_open("llama3-rope", o);
    uint64_t n;

    memset(a, 0, sizeof(a));
    for (size_t i = 0; i < 8; i++)
        engines_submit_text(g, 7, 3, i);
    engines_run(g, a);
    n = engines_stats(g).n_steps;
    gallop_close(g);
    return n;
}

static void prompts_that_come_together_share_a_step_beside_a_store(void **state)
{
    struct gallop_options o = options();
    uint64_t n = steps_of_eight(&o);

    o.kv_store = NULL;
    assert_int_equal(n, steps_of_eight(&o));
    assert_int_equal(n, 3);
}

/* Returns whether the first of two requests had all its blocks in time. Then both must be counted
 * correctly. */
static bool are_counted_apart(void)
{
    static struct engines_answer a[2];
    struct gallop_options o = options();
    struct gallop *g = engines_open("llama3-rope", &o);
    struct gallop_stats s;
    int32_t ids[PROMPT];
    bool in_time;

    memset(a, 0, sizeof(a));
    engines_text(1, 0, PROMPT, ids);
    for (size_t i = 0; i < 2; i++) {
        submit(g, i, ids, PROMPT, NULL);
        engines_run(g, a);
    }
    s = engines_stats(g);
    in_time = a[0].end.n_stored == WHOLE;
    assert_int_equal(a[1].end.n_cached, PROMPT - 1);
    assert_int_equal(a[1].end.n_stored, 0); /* These were in memory. */
    assert_int_equal(s.n_cached_tokens, a[0].end.n_cached + PROMPT - 1);
    assert_int_equal(s.n_stored_tokens, a[0].end.n_stored);
    if (in_time) {
        assert_int_equal(a[0].end.n_cached, WHOLE);
        assert_int_equal(s.n_store_read, WHOLE / 16);
    }
    gallop_close(g);
    return in_time;
}

static void hits_from_the_store_are_counted_apart(void **state)
{
    struct gallop_options o = options();
    int i = 0;

    assert_int_equal(ask_once("llama3-rope", &o, NULL), 0);
    while (!are_counted_apart())
        assert_true(++i < 50);
}

/* ---- the model of the rows ---- */

/* Changes a number of config.json that affects no weight and no size. */
static void change_epsilon(const char *folder)
{
    char path[512], *text, *at_key;
    size_t n;

    snprintf(path, sizeof(path), "%s/config.json", folder);
    text = files_read(path, &n);
    at_key = strstr(text, "\"rms_norm_eps\": ");
    assert_non_null(at_key);
    at_key[strlen("\"rms_norm_eps\": ")] = '9';
    files_write_text(path, text);
    free(text);
}

static void other_salts_types_models_and_blocks_find_nothing(void **state)
{
    struct gallop_options o = options();
    const char *copy = files_folder();
    char path[512];
    struct gallop *g;
    struct engines_answer a[1];
    int32_t ids[PROMPT];

    assert_int_equal(ask_once("llama3-rope", &o, NULL), 0);
    o.dtype = "bf16";
    assert_int_equal(ask_once("llama3-rope", &o, NULL), 0);
    o = options();
    o.kv_cache_dtype = "int8";
    assert_int_equal(ask_once("llama3-rope", &o, NULL), 0);
    o = options();
    o.block_size = 32;
    assert_int_equal(ask_once("llama3-rope", &o, NULL), 0);
    o = options();
    o.op_config = "{\"attention\":\"native\"}";
    assert_int_equal(ask_once("llama3-rope", &o, NULL), 0);
    o = options();
    assert_int_equal(ask_until("llama3-rope", &o, NULL), WHOLE);

    g = engines_open("llama3-rope", &o);
    engines_text(1, 0, PROMPT, ids);
    memset(a, 0, sizeof(a));
    submit(g, 0, ids, PROMPT, "another's");
    engines_run(g, a);
    assert_int_equal(a[0].end.n_stored, 0);
    gallop_close(g);

    files_copy_all(engines_path("llama3-rope"), copy); /* one bit of one weight, far from the ends */
    snprintf(path, sizeof(path), "%s/model.safetensors", copy);
    files_flip(path, -1000, 1);
    assert_int_equal(ask_once(copy, &o, NULL), 0);
    files_flip(path, -1000, 1);
    assert_int_equal(ask_until(copy, &o, NULL), WHOLE);
    change_epsilon(copy);
    assert_int_equal(ask_once(copy, &o, NULL), 0);
}

/* ---- damage ---- */

/* Calls FN for each record file. Returns the number of files. */
static size_t each_record(void (*fn)(const char *path, void *ctx), void *ctx)
{
    const struct dirent *d;
    DIR *dir = opendir(at);
    size_t n = 0;

    assert_non_null(dir);
    while ((d = readdir(dir)) != NULL) {
        char path[600];

        if (strlen(d->d_name) != 35 || strcmp(d->d_name + 32, ".kv") != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", at, d->d_name);
        n++;
        if (fn)
            fn(path, ctx);
    }
    closedir(dir);
    return n;
}

static void flip(const char *path, void *ctx)
{
    files_flip(path, *(const long *)ctx, 1);
}

static void cut(const char *path, void *ctx)
{
    assert_int_equal(truncate(path, *(const long *)ctx), 0);
}

static void check_mode(const char *path, void *ctx)
{
    struct stat st;

    assert_true(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    *(uint64_t *)ctx += (uint64_t)st.st_size;
}

static void damaged_blocks_are_ignored_and_written_again(void **state)
{
    static const long places[] = {0, 8, 20, 33, 50, 70, 90, 120, 130, 300, 1000, 2000, -1};
    static struct engines_answer want, got;
    struct gallop_options o = options();
    char says[256];

    ask_once("llama3-rope", &o, &want);
    log_set_level(LOG_ERROR);
    for (size_t p = 0; p < 2 * sizeof(places) / sizeof(places[0]); p++) {
        long place = places[p / 2];

        each_record(p % 2 ? cut : flip, p % 2 && place < 0 ? &(long){100} : &place);
        assert_int_equal(ask_once("llama3-rope", &o, &got), 0);
        if (engines_differ(&want, &got, 1, says))
            fail_msg("byte %ld: %s", place, says);
        assert_int_equal(ask_until("llama3-rope", &o, &got), WHOLE); /* The damaged records were replaced. */
    }
    log_set_level(LOG_WARN);
}

static void a_store_of_another_version_is_left_alone(void **state)
{
    struct gallop_options o = options();
    char path[512], *text;
    size_t n;

    assert_int_equal(mkdir(at, 0700), 0);
    snprintf(path, sizeof(path), "%s/gallop-kv-store", at);
    files_write_text(path, "2 aes-gcm\n");
    log_set_level(LOG_ERROR);
    ask_once("llama3-rope", &o, NULL);
    assert_int_equal(ask_once("llama3-rope", &o, NULL), 0);
    log_set_level(LOG_WARN);
    assert_int_equal(each_record(NULL, NULL), 0);
    text = files_read(path, &n);
    assert_string_equal(text, "2 aes-gcm\n");
    free(text);
}

static void what_does_not_fit_is_refused_in_a_sentence(void **state)
{
    static const struct {
        const char *type, *index, *store, *says;
    } way[] = {
        {"dynamic", NULL, NULL, "kv_store: expected the KV cache type slab_pool or paged, found dynamic"},
        {"bmc", NULL, NULL, "kv_store: expected the KV cache type slab_pool or paged, found bmc"},
        {NULL, "none", NULL, "kv_store: expected the prefix_index radix or hash, found none"},
        {NULL, NULL, "rediss://host", "(TLS is not supported)"},
        {NULL, NULL, "/no/such/folder/here", "/no/such/folder/here"}};

    for (size_t w = 0; w < sizeof(way) / sizeof(way[0]); w++) {
        struct gallop_options o = options();
        char err[GALLOP_ERR_SIZE];
        struct gallop *g;

        o.kv_cache_type = way[w].type;
        o.prefix_index = way[w].index;
        o.kv_store = way[w].store ? way[w].store : at;
        assert_int_not_equal(engines_try(&g, "llama3-rope", &o, err), 0);
        if (!strstr(err, way[w].says))
            fail_msg("%s", err);
    }
}

/* ---- limits of the folder ---- */

static void a_folder_keeps_to_its_size_and_what_was_used_last(void **state)
{
    struct gallop_options o = options();
    static struct engines_answer all[REQUESTS];
    const struct timespec tick = {.tv_nsec = 20000000}; /* The times of files are not exact. */
    uint64_t bytes = 0, limit;
    struct gallop *g;

    ask_once("llama3-rope", &o, NULL);
    each_record(check_mode, &bytes);
    limit = 2 * bytes;
    o.kv_store_size = (double)limit / 1073741824.0;
    for (int i = 0; i < 3; i++) {
        g = engines_open("llama3-rope", &o); /* much more than the limit of the folder */
        run_all(g, all);
        gallop_close(g);
        bytes = 0;
        assert_true(each_record(check_mode, &bytes) > 0);
        assert_true(bytes <= limit);
        nanosleep(&tick, NULL);
        assert_int_equal(ask_until("llama3-rope", &o, NULL), WHOLE);
    }
}

/* ---- processes ---- */

static int count_lines(const char *path, const char *with)
{
    size_t n, lines = 0;
    char *text = files_read(path, &n);

    for (const char *p = text; (p = strstr(p, with)) != NULL; p++)
        lines++;
    free(text);
    return (int)lines;
}

/* Runs FN in a child process, whose standard error goes to the file "said". */
static pid_t begin_child(void (*fn)(void))
{
    pid_t pid;

    fflush(NULL);
    if ((pid = fork()) == 0) {
        int fd = open("said", O_WRONLY | O_CREAT | O_TRUNC, 0666);

        if (fd >= 0 && dup2(fd, 2) >= 0)
            fn();
        _exit(9);
    }
    assert_true(pid > 0);
    return pid;
}

static int end_child(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static struct engines_answer alone[REQUESTS], got[REQUESTS];

static void compute_alone(void)
{
    struct gallop_options o = engines_options(8, 64, 256);
    struct gallop *g = engines_open("llama3-rope", &o);

    run_all(g, alone);
    gallop_close(g);
}

/* Runs all requests ROUNDS times with the store of this test. The exit status is 0 if they get what they get
 * alone. */
static int run_with_store(int rounds)
{
    int differ = 0;

    for (int i = 0; i < rounds; i++) {
        struct gallop_options o = options();
        struct gallop *g;
        char says[256];

        o.kv_cache_tokens = 512;
        g = engines_open("llama3-rope", &o);
        run_all(g, got);
        differ += engines_differ(alone, got, REQUESTS, says) || engines_stats(g).n_store_damaged;
        gallop_close(g);
    }
    return differ;
}

static void share(void)
{
    _exit(run_with_store(10));
}

static void two_processes_share_a_folder(void **state)
{
    pid_t child;

    compute_alone();
    child = begin_child(share);
    assert_int_equal(run_with_store(10), 0);
    assert_int_equal(end_child(child), 0);
    for (int i = 0; i < 50 && stored_of(got) == 0; i++)
        assert_int_equal(run_with_store(1), 0);
    assert_true(stored_of(got) > 0);
}

static void write_on(void)
{
    for (;;) {
        char path[600];
        struct dirent *d;
        DIR *dir;

        if (run_with_store(1))
            _exit(1);
        dir = opendir(at); /* so that there is something to write */
        while (dir && (d = readdir(dir)) != NULL) {
            snprintf(path, sizeof(path), "%s/%s", at, d->d_name);
            if (strstr(d->d_name, ".kv"))
                unlink(path);
        }
        closedir(dir);
    }
}

static void a_process_killed_while_it_writes_leaves_whole_blocks(void **state)
{
    compute_alone();
    for (int i = 0; i < 12; i++) {
        pid_t child = begin_child(write_on);

        nanosleep(&(struct timespec){.tv_nsec = 10000000 + i * 7000000}, NULL);
        kill(child, SIGKILL);
        assert_int_equal(end_child(child), 128 + SIGKILL);
        assert_int_equal(run_with_store(1), 0); /* Nothing is damaged either. */
    }
}

static void fill_disk(void)
{
    struct gallop_options o = options();
    struct gallop *g;
    char says[256];
    bool good;

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){2000, 2000}); /* No block is this small. */
    g = engines_open("llama3-rope", &o);
    run_all(g, got);
    store_flush(engine_llm(g)->store);
    good = !engines_differ(alone, got, REQUESTS, says) && engines_stats(g).n_store_dropped > 10 &&
           engines_stats(g).n_store_written == 0;
    gallop_close(g);
    _exit(!good);
}

static void a_full_disk_is_said_once_and_serving_goes_on(void **state)
{
    compute_alone();
    assert_int_equal(end_child(begin_child(fill_disk)), 0);
    assert_int_equal(each_record(NULL, NULL), 0);
    assert_int_equal(count_lines("said", "the KV store is not used for"), 1);
}

/* ---- memory ---- */

static void every_allocation_of_opening_may_fail(void **state)
{
    struct gallop_options o = options();
    size_t blocks;
    long n = 1;

    ask_once("llama3-rope", &o, NULL);
    blocks = mem_live_blocks();
    log_set_level(LOG_ERROR);
    for (;; n++) {
        char err[GALLOP_ERR_SIZE] = "";
        struct gallop *g;
        int rc;

        mem_fail_at(n);
        rc = engines_try(&g, "llama3-rope", &o, err);
        gallop_close(g);
        if (!mem_failed()) {
            mem_fail_at(0);
            assert_int_equal(rc, 0);
            break;
        }
        mem_fail_at(0);
        if ((rc && strlen(err) < 10) || mem_live_blocks() != blocks)
            fail_msg("allocation %ld: code %d, %zu blocks leak: %s", n, rc, mem_live_blocks() - blocks, err);
    }
    log_set_level(LOG_WARN);
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_read_after_a_restart_changes_no_token_and_no_bit, new_folder),
        cmocka_unit_test_setup(prompts_that_come_together_share_a_step_beside_a_store, new_folder),
        cmocka_unit_test_setup(hits_from_the_store_are_counted_apart, new_folder),
        cmocka_unit_test_setup(other_salts_types_models_and_blocks_find_nothing, new_folder),
        cmocka_unit_test_setup(damaged_blocks_are_ignored_and_written_again, new_folder),
        cmocka_unit_test_setup(a_store_of_another_version_is_left_alone, new_folder),
        cmocka_unit_test_setup(what_does_not_fit_is_refused_in_a_sentence, new_folder),
        cmocka_unit_test_setup(a_folder_keeps_to_its_size_and_what_was_used_last, new_folder),
        cmocka_unit_test_setup(two_processes_share_a_folder, new_folder),
        cmocka_unit_test_setup(a_process_killed_while_it_writes_leaves_whole_blocks, new_folder),
        cmocka_unit_test_setup(a_full_disk_is_said_once_and_serving_goes_on, new_folder),
        cmocka_unit_test_setup(every_allocation_of_opening_may_fail, new_folder),
    };

    files_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
