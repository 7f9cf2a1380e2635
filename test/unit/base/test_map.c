/* test_map.c - mapped files and page regions: what can be opened, that changed files are reported, and exact
 * accounting. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/folder.h"
#include "base/files/map.h"
#include "base/mem.h"

/* Makes a file of N bytes, in which byte I is I, and writes its name to path[64]. */
static void make_file(char *path, size_t n)
{
    int fd;

    strcpy(path, "/tmp/gallop-map-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)i;
        assert_int_equal(write(fd, &c, 1), 1);
    }
    close(fd);
}

/* Opens a file as the files of a checkpoint are opened. */
static int open_file(struct map_file *m, const char *path, struct err *e)
{
    char where[FOLDER_PATH_MAX];

    return folder_map(m, where, folder_at(path), NULL, e);
}

static void a_file_is_mapped_as_it_is(void **state)
{
    struct map_file m;
    char path[64];
    struct err e;

    make_file(path, 10000);
    assert_int_equal(open_file(&m, path, &e), 0);
    assert_int_equal(m.len, 10000);
    for (size_t i = 0; i < m.len; i++)
        assert_int_equal((unsigned char)m.bytes[i], i & 0xff);
    assert_int_equal(map_file_check(&m, path, &e), 0);
    map_file_close(&m);
    assert_null(m.bytes);
    map_file_close(&m);
    unlink(path);
}

static void an_empty_file_opens_with_nothing_in_it(void **state)
{
    struct map_file m;
    char path[64];
    struct err e;

    make_file(path, 0);
    assert_int_equal(open_file(&m, path, &e), 0);
    assert_true(m.bytes == NULL && m.len == 0);
    assert_int_equal(map_file_check(&m, path, &e), 0);
    map_file_close(&m);
    unlink(path);
}

static void what_is_no_regular_file_is_named_and_does_not_block(void **state)
{
    char path[64];
    struct map_file m;
    struct err e;

    assert_int_equal(open_file(&m, "/tmp", &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "/tmp: this is not a regular file"));
    assert_int_equal(open_file(&m, "/dev/zero", &e), ERR_INPUT);
    assert_int_equal(open_file(&m, "/no/such/file", &e), ERR_OS);
    assert_non_null(strstr(e.msg, "/no/such/file: cannot open: No such file"));
    make_file(path, 0);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(300); /* A FIFO without a writer would block an ordinary open(). */
    assert_int_equal(open_file(&m, path, &e), ERR_INPUT);
    alarm(0);
    unlink(path);
    assert_int_equal(open_file(&m, "/no/such/file", NULL), ERR_OS);
}

/* Makes and maps a file of 3.5 pages. */
static void open_pages(struct map_file *m, char *path)
{
    struct err e;

    make_file(path, 3 * 4096 + 2048);
    if (open_file(m, path, &e) != 0)
        fail_msg("%s", e.msg);
}

static void expect_fault(const struct map_file *m, const char *path, const char *why)
{
    struct err e = {0};

    if (map_file_check(m, path, &e) != ERR_INPUT || !strstr(e.msg, path) || !strstr(e.msg, why))
        fail_msg("\"%s\" does not name %s and say \"%s\"", e.msg, path, why);
}

static void a_file_cut_under_its_map_reads_as_zeros_and_is_named(void **state)
{
    struct map_file m, other;
    char path[64], path2[64];
    struct err e;

    open_pages(&m, path);
    open_pages(&other, path2);
    assert_int_equal(truncate(path, 4096 + 100), 0);
    assert_int_equal((unsigned char)m.bytes[4096 + 99], (4096 + 99) & 0xff);
    assert_int_equal(m.bytes[3 * 4096 + 5], 0); /* The last page is touched first, then the one before it. */
    assert_int_equal(m.bytes[2 * 4096 + 5], 0);
    assert_int_equal(m.bytes[m.len - 1], 0);
    expect_fault(&m, path, "was truncated while it was read: it had 14336 bytes, now it has 4196");
    /* The file has its old length and other contents. */
    assert_int_equal(truncate(path, 3 * 4096 + 2048), 0);
    expect_fault(&m, path, "changed or replaced");
    assert_int_equal(map_file_check(&other, path2, &e), 0);
    assert_int_equal((unsigned char)other.bytes[3 * 4096 + 5], 5);
    map_file_close(&m);
    assert_int_equal(unlink(path2), 0);
    expect_fault(&other, path2, "was removed");
    map_file_close(&other);
    unlink(path);
}

static sigjmp_buf back;
static volatile int n_foreign;

static void foreign_fault(int sig)
{
    (void)sig;
    n_foreign++;
    siglongjmp(back, 1);
}

/* A fault in the host program's own memory must reach its handler, also while a file is mapped. */
static void faults_elsewhere_go_to_the_handler_that_was_there(void **state)
{
    struct sigaction host = {.sa_handler = foreign_fault}, before, now;
    struct map_file m;
    char path[64], own[64];
    const volatile char *p;
    int fd;

    assert_int_equal(sigaction(SIGBUS, &host, &before), 0);
    make_file(own, 4096);
    fd = open(own, O_RDONLY);
    assert_true(fd >= 0);
    p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(p != MAP_FAILED);
    open_pages(&m, path);
    assert_int_equal(truncate(own, 0), 0);
    if (sigsetjmp(back, 1) == 0)
        fail_msg("a byte of a file that is gone was read as %d", p[0]);
    assert_int_equal(n_foreign, 1);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(m.bytes[4096], 0); /* Faults in a mapped file are still handled. */
    assert_int_equal(n_foreign, 1);
    map_file_close(&m);
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    assert_true(now.sa_handler == foreign_fault); /* Closing the last map removes the handler. */
    sigaction(SIGBUS, &before, NULL);
    munmap((void *)(uintptr_t)p, 4096);
    close(fd);
    unlink(own);
    unlink(path);
}

static void regions_are_zeroed_aligned_and_counted(void **state)
{
    static const size_t size[] = {0, 1, 4096, 4097, 100000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 9 << 20};
    size_t blocks = mem_live_blocks();

    for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
        char *p = map_region_new(size[i]);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % (size[i] >= 2 << 20 ? 2 << 20 : 4096), 0);
        assert_true(map_region_live_bytes() >= size[i] &&
                    map_region_live_bytes() < size[i] + (2 << 20) + 4096);
        for (size_t k = 0; k < size[i]; k += 1000)
            assert_int_equal(p[k], 0);
        if (size[i])
            p[size[i] - 1] = 1;
        map_region_free(p, size[i]);
        assert_int_equal(map_region_live_bytes(), 0);
    }
    map_region_free(NULL, 100);
    assert_int_equal(mem_live_blocks(), blocks);
}

static void untouched_regions_cost_nothing_and_impossible_ones_fail(void **state)
{
    void *p = map_region_new((size_t)1 << 40);

    if (p) /* A machine may limit the address space of a process. */
        map_region_free(p, (size_t)1 << 40);
    assert_null(map_region_new(SIZE_MAX));
    assert_null(map_region_new(SIZE_MAX - (4 << 20)));
    assert_null(map_region_new((size_t)1 << 60));
    mem_fail_at(1);
    assert_null(map_region_new(4096));
    assert_true(mem_failed());
    mem_fail_at(0);
    assert_int_equal(map_region_live_bytes(), 0);
}

/* Returns the number of bytes of files that are resident in this process. */
static size_t mapped_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*s %*s %zu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void what_was_read_of_a_file_is_given_back_and_nothing_else(void **state)
{
    enum { N = 4 << 20 };
    char path[64], *own = malloc(N);
    unsigned sum[2] = {0};
    struct map_file m;
    struct err e;
    size_t most;

    make_file(path, 1);
    assert_int_equal(truncate(path, N), 0);
    memset(own, 7, N);
    map_file_drop(own, N); /* No file is mapped. */
    assert_int_equal(open_file(&m, path, &e), 0);
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < N; i++)
            sum[again] += (unsigned char)m.bytes[i] + 1u;
        most = mapped_bytes();
        map_file_drop(m.bytes + N / 2, N / 2 + 1); /* The range reaches beyond the mapping. */
        map_file_drop(m.bytes, 0);
        map_file_drop(own, N);
        assert_true(most - mapped_bytes() < N / 8 || mapped_bytes() >= most);
        map_file_drop(m.bytes + 1, N - 1);
        assert_true(most - mapped_bytes() > N / 2);
    }
    assert_int_equal(sum[0], sum[1]);
    assert_int_equal(map_file_check(&m, path, &e), 0);
    map_file_close(&m);
    map_file_drop(own, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(own[i], 7);
    free(own);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_mapped_as_it_is),
        cmocka_unit_test(what_was_read_of_a_file_is_given_back_and_nothing_else),
        cmocka_unit_test(an_empty_file_opens_with_nothing_in_it),
        cmocka_unit_test(what_is_no_regular_file_is_named_and_does_not_block),
        cmocka_unit_test(a_file_cut_under_its_map_reads_as_zeros_and_is_named),
        cmocka_unit_test(faults_elsewhere_go_to_the_handler_that_was_there),
        cmocka_unit_test(regions_are_zeroed_aligned_and_counted),
        cmocka_unit_test(untouched_regions_cost_nothing_and_impossible_ones_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
