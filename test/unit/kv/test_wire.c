/* test_wire.c - saved rows: the same bytes whatever cache they come from, back in any other; and every way in
 * which they can be cut, damaged, or belong to something else is refused with a sentence that names them.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "caches.h"
#include "kv/kv_wire.h"

enum { N = 75, MODEL = 4711 };

/* ---- calls that bring a file to the disk, in the place of libc's ---- */

static char calls[16]; /* f: fsync of a file, d: of a folder, r: rename */
static int fail_fsync; /* errno of the next one */

int fsync(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    strncat(calls, S_ISDIR(st.st_mode) ? "d" : "f", sizeof(calls) - strlen(calls) - 1);
    errno = fail_fsync;
    fail_fsync = 0;
    return errno ? -1 : 0;
}

int rename(const char *from, const char *to)
{
    strncat(calls, "r", sizeof(calls) - strlen(calls) - 1);
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static const size_t windows[3] = {0, 20, 64}, sinks[3] = {0, 5, 3}, dims[3] = {18, 5, 33};

static struct kv_limits limits(enum dtype dtype, size_t block, enum kv_layout layout)
{
    return (struct kv_limits){.n_layers = 3,
                              .n_kv = 2,
                              .head_dim = 33,
                              .dtype = dtype,
                              .max_seqs = 2,
                              .max_len = 128,
                              .pool_tokens = 256,
                              .block = block,
                              .layout = layout,
                              .window = windows,
                              .sink = sinks,
                              .dim = dims};
}

static void fill(struct kv *c, size_t seq)
{
    assert_int_equal(kv_reserve(c, seq, N), 0);
    for (size_t pos = 0; pos < N; pos++)
        caches_write(c, seq, pos, 17 * (uint32_t)pos + 5);
}

static bool is_filled(struct kv *c, size_t seq)
{
    for (size_t l = 0; l < 3; l++)
        for (size_t pos = 0; pos < N; pos++)
            if ((pos < sinks[l] || pos >= kv_first_row(windows[l], N)) &&
                !caches_is(c, seq, l, pos, 17 * (uint32_t)pos + 5, true))
                return false;
    return true;
}

/* The bytes of N rows from a cache of this kind; free(). */
static char *saved(const char *type, struct kv_limits lim, size_t *len)
{
    struct kv c;
    char *p;

    caches_open(&c, type, lim);
    fill(&c, 1);
    *len = kv_wire_bytes(&c, N);
    p = malloc(*len);
    assert_int_equal(kv_wire_save(&c, 1, N, MODEL, p), 0);
    kv_close(&c);
    return p;
}

static void every_cache_saves_the_same_bytes_and_reads_those_of_others(void **state)
{
    static const enum dtype dtypes[] = {DT_F32, DT_BF16, DT_I8};

    for (int d = 0; d < 3; d++) {
        size_t len, want_len;
        char *want = saved("slab_pool", limits(dtypes[d], 16, KV_HEAD_MAJOR), &want_len);

        for (size_t t = 0; kv_type_name(t); t++)
            for (size_t block = 16; block <= 64; block *= 2)
                for (int layout = 0; layout < 2; layout++) {
                    struct kv_limits lim = limits(dtypes[d], block, (enum kv_layout)layout);
                    char *p = saved(kv_type_name(t), lim, &len);
                    struct kv_view v;
                    struct kv c;
                    size_t n = 0;

                    assert_true(len == want_len && memcmp(p, want, len) == 0);
                    free(p);
                    caches_open(&c, kv_type_name(t), lim);
                    fill(&c, 0); /* what lay there before must not shine through */
                    kv_release(&c, 0);
                    assert_int_equal(kv_wire_load(&c, 0, MODEL, want, want_len, "x", &n, NULL), 0);
                    assert_true(n == N && is_filled(&c, 0) && kv_check(&c, NULL) == 0);
                    v = kv_view(&c, 0);
                    *caches_tile(&v, 0, 1, 40, false) ^= 1;
                    assert_false(is_filled(&c, 0)); /* the comparison: dim 0 of row 32 is damaged */
                    kv_close(&c);
                }
        free(want);
    }
}

/* Loading P into a fresh cache is refused; the sentence begins with the name and holds WHAT. */
static void refuse(struct kv *c, const char *p, size_t len, uint64_t model, const char *what)
{
    struct err e = {0};
    size_t n = 12345;
    int rc = kv_wire_load(c, 0, model, p, len, "rows.kv", &n, &e);

    if (rc != ERR_INPUT || n != 12345 || strncmp(e.msg, "rows.kv: ", 9) != 0 || !strstr(e.msg, what))
        fail_msg("expected \"%s\", got code %d: %s", what, rc, e.msg);
    assert_int_equal(kv_held_bytes(c, 0), 0);
}

static void every_cut_and_every_changed_bit_is_refused(void **state)
{
    size_t len;
    char *p = saved("paged", limits(DT_BF16, 16, KV_HEAD_MAJOR), &len);
    struct kv c;

    caches_open(&c, "slab_pool", limits(DT_BF16, 32, KV_HEAD_MAJOR));
    for (size_t n = 0; n < len; n += n < 200 ? 1 : 97) {
        char *cut = malloc(n ? n : 1);

        memcpy(cut, p, n);
        refuse(&c, cut, n, MODEL, "");
        free(cut);
    }
    for (size_t i = 0; i < len; i += i < 300 ? 1 : 13) {
        p[i] = (char)(p[i] ^ 1 << i % 8);
        refuse(&c, p, len, MODEL, "");
        p[i] = (char)(p[i] ^ 1 << i % 8);
    }
    assert_int_equal(kv_wire_load(&c, 0, MODEL, p, len, "x", &(size_t){0}, NULL), 0);
    kv_close(&c);
    free(p);
}

/* Puts VALUE [n bytes] at AT and makes the checksum fit, as somebody with bad intentions would. */
static void forge(char *p, size_t len, size_t at, uint64_t value, size_t n)
{
    uint64_t sum;

    memcpy(p + at, &value, n);
    sum = kv_wire_sum(p, len);
    memcpy(p + 56, &sum, 8);
}

static void what_belongs_to_something_else_is_refused_by_its_name(void **state)
{
    static const struct {
        size_t at, n;
        uint64_t value;
        const char *what;
    } forged[] = {{0, 1, 'X', "not saved rows"},
                  {8, 4, 1, "version 1"},
                  {12, 4, 0, "of type fp32, this cache holds bf16"},
                  {12, 4, 9, "of type unknown"},
                  {24, 8, 0, "0 rows"},
                  {24, 8, 129, "129 rows"},
                  {24, 8, UINT64_MAX, "18446744073709551615 rows"},
                  {24, 8, N - 1, "cut short or damaged"},
                  {32, 4, 1, "cut short or damaged"},
                  {36, 4, 4, "layers: 4, expected is 3"},
                  {40, 4, 0xffffffff, "kv heads: 4294967295"},
                  {44, 4, 17, "head size of 17"},
                  {48, 8, UINT64_MAX, "cut short or damaged"},
                  {64 + 8, 4, 3, "layer 1 was saved from row 3 on, this model needs it from 56"},
                  {64 + 12, 4, 6, "layer 1 was saved with a sink of 6 rows, this cache has 5"}};
    size_t len;
    char *p = saved("slab_pool", limits(DT_BF16, 16, KV_HEAD_MAJOR), &len), *q = malloc(len);
    struct kv c;

    caches_open(&c, "dynamic", limits(DT_BF16, 16, KV_HEAD_MAJOR));
    refuse(&c, p, len, MODEL + 1, "another model");
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        memcpy(q, p, len);
        forge(q, len, forged[i].at, forged[i].value, forged[i].n);
        refuse(&c, q, len, MODEL, forged[i].what);
    }
    kv_close(&c);
    free(p);
    free(q);
}

static void a_full_cache_says_so_and_stays_as_it_was(void **state)
{
    static const char *const types[] = {"slab_pool", "paged", "dynamic", "bmc"};
    size_t len;
    char *p = saved("slab_pool", limits(DT_F32, 16, KV_HEAD_MAJOR), &len);

    for (int t = 0; t < 4; t++) {
        struct kv_limits lim = limits(DT_F32, 16, KV_HEAD_MAJOR);
        struct err e = {0};
        size_t n = 0;
        struct kv c;

        lim.pool_tokens = 64;
        caches_open(&c, types[t], lim);
        assert_int_equal(kv_wire_load(&c, 0, MODEL, p, len, "rows", &n, &e), ERR_NOSPACE);
        assert_non_null(strstr(e.msg, "75 rows"));
        assert_int_equal(kv_check(&c, NULL), 0);
        assert_int_equal(kv_reserve(&c, 0, 64), 0); /* from its first row on */
        assert_int_equal(kv_truncate(&c, 0, 1), 0);
        kv_close(&c);
    }
    free(p);
}

/* A pool that holds no more than windows need can take a long sequence in. */
static void loading_takes_no_more_than_windows_show(void **state)
{
    struct kv_limits lim = limits(DT_F32, 16, KV_HEAD_MAJOR);
    size_t only[3] = {20, 20, 20}, n = 0, len;
    struct kv from, to;
    char *p;

    lim.window = only;
    lim.sink = NULL;
    caches_open(&from, "dynamic", lim);
    assert_int_equal(kv_reserve(&from, 0, 120), 0);
    for (size_t pos = 0; pos < 120; pos++)
        caches_write(&from, 0, pos, 1 + (uint32_t)pos);
    len = kv_wire_bytes(&from, 120);
    assert_int_equal(len, 64 + 3 * 8 + 19 * 2 * 2 * (18 + 5 + 33) * 4);
    p = malloc(len);
    assert_int_equal(kv_wire_save(&from, 0, 120, MODEL, p), 0);
    lim.pool_tokens = 32;
    caches_open(&to, "paged", lim);
    assert_int_equal(kv_wire_load(&to, 1, MODEL, p, len, "x", &n, NULL), 0);
    assert_true(caches_is(&to, 1, 2, 101, 102, true) && caches_is(&to, 1, 0, 119, 120, true));
    assert_int_equal(kv_truncate(&to, 1, 119), KV_GONE); /* row 100 was not saved */
    kv_close(&from);
    kv_close(&to);
    free(p);
}

static void scales_that_no_row_can_have_are_refused(void **state)
{
    static const float scales[] = {-1e-30f, INFINITY, NAN};
    struct kv_limits lim = limits(DT_I8, 16, KV_HEAD_MAJOR);
    size_t len, n = 0, row = lim.head_dim + sizeof(float);
    char *p = saved("slab_pool", lim, &len);
    struct err e = {0};
    struct kv c;

    caches_open(&c, "slab_pool", lim);
    for (size_t i = 0; i < 3; i++) {
        float was;
        uint64_t sum;

        memcpy(&was, p + len - row, sizeof(was)); /* of the last row */
        memcpy(p + len - row, &scales[i], sizeof(was));
        sum = kv_wire_sum(p, len);
        memcpy(p + 56, &sum, sizeof(sum));
        assert_int_equal(kv_wire_load(&c, 0, MODEL, p, len, "x", &n, &e), ERR_INPUT);
        assert_non_null(strstr(e.msg, "scale"));
        memcpy(p + len - row, &was, sizeof(was));
    }
    kv_close(&c);
    free(p);
}

static void files_are_written_whole_and_faults_name_them(void **state)
{
    struct err e = {0};
    struct kv c;
    size_t n = 0;

    caches_open(&c, "slab_pool", limits(DT_I8, 16, KV_HEAD_MAJOR));
    fill(&c, 0);
    assert_int_equal(kv_wire_write(&c, 0, N, MODEL, "test_wire.kv", &e), 0);
    assert_int_equal(glob("test_wire.kv.*", 0, NULL, &(glob_t){0}), GLOB_NOMATCH);
    assert_int_equal(kv_wire_read(&c, 1, MODEL, "test_wire.kv", &n, &e), 0);
    assert_true(n == N && is_filled(&c, 1));
    kv_release(&c, 1);
    assert_int_equal(truncate("test_wire.kv", 500), 0);
    assert_int_equal(kv_wire_read(&c, 1, MODEL, "test_wire.kv", &n, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "test_wire.kv: "));
    assert_int_equal(truncate("test_wire.kv", 0), 0);
    assert_int_equal(kv_wire_read(&c, 1, MODEL, "test_wire.kv", &n, &e), ERR_INPUT);
    unlink("test_wire.kv");
    assert_int_equal(kv_wire_read(&c, 1, MODEL, "test_wire.kv", &n, &e), ERR_OS);
    assert_int_equal(kv_wire_write(&c, 0, N, MODEL, "no/such/folder/x.kv", &e), ERR_OS);
    assert_non_null(strstr(e.msg, "no/such/folder/x.kv"));
    kv_advance(&c, 0, N);
    assert_int_equal(kv_wire_write(&c, 0, 30, MODEL, "test_wire.kv", &e), KV_GONE);
    assert_non_null(strstr(e.msg, "dropped"));
    mem_fail_at(1);
    assert_int_equal(kv_wire_write(&c, 0, N, MODEL, "test_wire.kv", &e), ERR_NOMEM);
    mem_fail_at(0);
    kv_close(&c);
}

static void a_file_is_on_the_disk_before_it_has_its_name(void **state)
{
    struct err e = {0};
    struct kv c;

    caches_open(&c, "slab_pool", limits(DT_F32, 16, KV_HEAD_MAJOR));
    fill(&c, 0);
    calls[0] = 0;
    assert_int_equal(kv_wire_write(&c, 0, N, MODEL, "test_wire.kv", &e), 0);
    assert_string_equal(calls, "frd");
    fail_fsync = EIO;
    calls[0] = 0;
    unlink("test_wire.kv");
    assert_int_equal(kv_wire_write(&c, 0, N, MODEL, "test_wire.kv", &e), ERR_OS);
    assert_string_equal(calls, "f"); /* what may not be there gets no name */
    assert_non_null(strstr(e.msg, "test_wire.kv"));
    assert_int_not_equal(access("test_wire.kv", F_OK), 0);
    assert_int_equal(glob("test_wire.kv.*", 0, NULL, &(glob_t){0}), GLOB_NOMATCH);
    assert_int_equal(mkdir("wire.d", 0777) != 0 && errno != EEXIST, 0);
    calls[0] = 0;
    assert_int_equal(kv_wire_write(&c, 0, N, MODEL, "wire.d/rows.kv", &e), 0);
    assert_string_equal(calls, "frd");
    unlink("wire.d/rows.kv");
    rmdir("wire.d");
    kv_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cache_saves_the_same_bytes_and_reads_those_of_others),
        cmocka_unit_test(every_cut_and_every_changed_bit_is_refused),
        cmocka_unit_test(what_belongs_to_something_else_is_refused_by_its_name),
        cmocka_unit_test(a_full_cache_says_so_and_stays_as_it_was),
        cmocka_unit_test(loading_takes_no_more_than_windows_show),
        cmocka_unit_test(scales_that_no_row_can_have_are_refused),
        cmocka_unit_test(files_are_written_whole_and_faults_name_them),
        cmocka_unit_test(a_file_is_on_the_disk_before_it_has_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
