/* test_cut.c - weights that are truncated or changed while a model is opened: an error that names the file,
 * no signal, and no leak. Once a model is open, its files do not matter any more. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/files/map.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "ckpt/checkpoint.h"
#include "ckpt/weights.h"
#include "files.h"
#include "gallop.h"
#include "kern/kern.h"
#include "model/model.h"
#include "tensor/view.h"

#define GOLDEN GALLOP_SOURCE_DIR "/test/golden/"
#define GGUF   GALLOP_SOURCE_DIR "/test/data/gguf/"

/* Checkpoints by their formats, and the file that is truncated. */
static const struct {
    const char *from, *file;
} formats[] = {
    {GOLDEN "llama3-rope", "model.safetensors"},
    {GOLDEN "llama2-bin", "pytorch_model-00002-of-00002.bin"}, /* zip */
    {GOLDEN "gpt2-orig-bin", "pytorch_model.bin"},             /* stream */
    {GGUF "llama3-rope.gguf", "llama3-rope.gguf"},
    {GOLDEN "gpt-oss", "model.safetensors"}, /* stacked experts */
};

enum { SCRATCH = 1 << 20 }; /* bytes of a thread's scratch: more than any packing of these models reserves */
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]) };

static struct pool *pool;
static const char *dir; /* the copied checkpoint, and the file that is truncated */
static char path[200];

static void copy(size_t format)
{
    dir = files_folder();
    assert_int_equal(pool_reserve(pool, SCRATCH, NULL),
                     0); /* packing adds nothing to the pool's memory then */
    if (strstr(formats[format].from, ".gguf"))
        files_copy(formats[format].from, dir);
    else
        files_copy_all(formats[format].from, dir);
    snprintf(path, sizeof(path), "%s/%s", dir, formats[format].file);
}

static long cut_to; /* the new size in bytes; -1: the old size, but the file is touched */

static void cut(void *ctx, size_t done, size_t total)
{
    (void)ctx;
    (void)total;
    if (done != 1)
        return;
    if (cut_to >= 0) {
        assert_int_equal(truncate(path, cut_to), 0);
        return;
    }
    usleep(20000); /* This lets the clock of the file system advance. */
    files_flip(path, -1, 1);
}

static void expect_refused(size_t format, long bytes, const char *why)
{
    const struct model_options opt = {.dtype = DT_BF16, .kern = kern_table(cpu_best()), .progress = cut};
    size_t blocks, regions;
    struct err e = {0};
    struct model m;
    int rc;

    copy(format);
    blocks = mem_live_blocks();
    regions = map_region_live_bytes();
    cut_to = bytes;
    if ((rc = model_open(&m, dir, &opt, pool, &e)) == 0 && (rc = model_pack(&m, &e)) != 0)
        model_close(&m);
    if (rc != ERR_INPUT || !strstr(e.msg, path) || !strstr(e.msg, why))
        fail_msg("%s cut to %ld bytes behind the first layer: code %d, \"%s\"", path, bytes, rc, e.msg);
    assert_int_equal(mem_live_blocks(), blocks);
    assert_int_equal(map_region_live_bytes(), regions);
}

static void a_file_cut_while_it_is_packed_is_named(void **state)
{
    for (size_t f = 0; f < N_FORMATS; f++) {
        expect_refused(f, 0, "was truncated while it was read");
        expect_refused(f, 8192, "was truncated while it was read");
    }
}

static void a_file_written_to_while_it_is_packed_is_named(void **state)
{
    for (size_t f = 0; f < N_FORMATS; f++)
        expect_refused(f, -1, "was changed or replaced while it was read");
}

/* Views exist and nothing has been read. Bytes that were lost by then read as zeros and are reported. */
static void a_file_cut_before_it_is_packed_is_named(void **state)
{
    for (size_t f = 0; f < N_FORMATS; f++) {
        struct checkpoint c;
        struct weights *w;
        const char *name;
        struct err e = {0};
        size_t sum = 0;

        copy(f);
        if (checkpoint_open(&c, folder_at(dir), &e) != 0 || checkpoint_weights(&w, &c, &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(weights_checked(w, 0, &e), 0);
        assert_int_equal(truncate(path, 0), 0);
        while (weights_unused(w, &name, 1)) {
            const struct view *v = weights_get(w, name);

            for (size_t b = 0; b < view_bytes(v) && strstr(v->file, formats[f].file); b++)
                sum += ((const unsigned char *)v->data)[b];
        }
        assert_int_equal(sum, 0);
        if (weights_checked(w, 0, &e) != ERR_INPUT || !strstr(e.msg, path) || !strstr(e.msg, "was truncated"))
            fail_msg("\"%s\" does not say that %s was cut", e.msg, path);
        weights_close(w);
        checkpoint_close(&c);
    }
}

static void *open_blocked(void *err)
{
    struct gallop_options o;
    struct gallop *g;
    sigset_t all, now;
    int rc;

    gallop_options_init(&o);
    o.model = dir;
    o.threads = 2;
    o.progress = cut;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    rc = gallop_open(&g, &o, err);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (rc == 0 || !sigismember(&now, SIGBUS))
        snprintf(err, GALLOP_ERR_SIZE, "code %d, SIGBUS is blocked: %d", rc, sigismember(&now, SIGBUS));
    return NULL;
}

/* The threads of a host program may block every signal. A blocked fault would end the process without calling
 * a handler. */
static void a_thread_that_blocks_signals_gets_the_error_too(void **state)
{
    char err[GALLOP_ERR_SIZE] = "";
    pthread_t thread;

    copy(0);
    cut_to = 0;
    assert_int_equal(pthread_create(&thread, NULL, open_blocked, err), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (!strstr(err, path) || !strstr(err, "was truncated"))
        fail_msg("\"%s\" does not say that %s was cut", err, path);
}

static void an_open_model_needs_its_files_no_more(void **state)
{
    const struct model_options opt = {.dtype = DT_BF16, .kern = kern_table(cpu_best())};
    struct err e = {0};

    for (size_t f = 0; f < N_FORMATS; f++) {
        struct model m, again;
        struct checkpoint c;
        struct weights *w;
        const char *name;

        copy(f);
        if (model_open(&m, dir, &opt, pool, &e) != 0 || model_pack(&m, &e) != 0 ||
            model_open(&again, dir, &opt, pool, &e) != 0 || model_pack(&again, &e) != 0 ||
            checkpoint_open(&c, folder_at(dir), &e) != 0 || checkpoint_weights(&w, &c, &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(truncate(path, 0), 0);
        while (weights_unused(w, &name, 1)) {
            assert_non_null(weights_get(w, name)->data);
            assert_null(weights_get(m.weights, name)->data);
        }
        weights_close(w);
        checkpoint_close(&c);
        assert_true(map_region_live_bytes() >= m.packed_bytes + m.table_bytes);
        assert_true(model_identity(&m) == model_identity(&again));
        model_close(&m);
        model_close(&again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_cut_while_it_is_packed_is_named),
        cmocka_unit_test(a_file_written_to_while_it_is_packed_is_named),
        cmocka_unit_test(a_file_cut_before_it_is_packed_is_named),
        cmocka_unit_test(a_thread_that_blocks_signals_gets_the_error_too),
        cmocka_unit_test(an_open_model_needs_its_files_no_more),
    };
    struct err e;
    int rc;

    if (pool_new(&pool, 2, &e) != 0)
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pool_free(pool);
    return rc;
}
