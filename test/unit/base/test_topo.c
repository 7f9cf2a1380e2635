/* test_topo.c - the topology of machines that hwloc builds from a description, control groups in a temporary
 * folder, and the real machine.
 *
 * The machine is read once in a process, so tests of other machines run in a child.
 */
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/threads/topo.h"
#include "files.h"

#define CHECK(cond)                                            \
    do {                                                       \
        if (!(cond)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #cond); \
            return 1;                                          \
        }                                                      \
    } while (0)

static int run_child(int (*body)(void), const char *machine)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        if (machine)
            setenv("HWLOC_SYNTHETIC", machine, 1);
        _exit(body());
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status;
}

static void fill_set(cpu_set_t *set, int from, int to)
{
    CPU_ZERO(set);
    for (int i = from; i < to; i++)
        CPU_SET((size_t)i, set);
}

/* Two nodes have four cores of two threads each. Numbers run over all first threads before the second
 * ones. */
static int two_sockets(void)
{
    struct topo t;
    cpu_set_t set;
    struct err e;

    fill_set(&set, 0, 16);
    CHECK(topo_open_set(&t, &set, sizeof(set), &e) == 0);
    CHECK(t.n_cpus == 16 && t.n_cores == 8 && t.n_nodes == 2);
    for (int i = 0; i < 16; i++)
        CHECK(t.cpu[i].thread == i / 8 && t.cpu[i].core == i % 8 && t.cpu[i].node == i % 8 / 4 &&
              t.cpu[i].os == i % 8 * 2 + i / 8);
    CHECK(t.quota_cpus > 0 || t.default_threads == 8);
    topo_close(&t);
    return 0;
}

/* The set has both threads of one core, only the second thread of another, and two cores of the second
 * node. */
static int part_of_it(void)
{
    static const int os[] = {0, 1, 3, 8, 10};
    struct topo t;
    cpu_set_t set;
    struct err e;

    CPU_ZERO(&set);
    for (size_t i = 0; i < 5; i++)
        CPU_SET((size_t)os[i], &set);
    CHECK(topo_open_set(&t, &set, sizeof(set), &e) == 0);
    CHECK(t.n_cpus == 5 && t.n_cores == 4 && t.n_nodes == 2);
    CHECK(t.cpu[0].os == 0 && t.cpu[1].os == 3 && t.cpu[2].os == 8 && t.cpu[3].os == 10 && t.cpu[4].os == 1);
    CHECK(t.cpu[4].thread == 1 && t.cpu[4].core == t.cpu[0].core && t.cpu[3].thread == 0 &&
          t.cpu[3].node == 1);
    topo_close(&t);
    return 0;
}

/* hwloc knows four processors, and the system has six. */
static int unknown_processors(void)
{
    struct topo t;
    cpu_set_t set;
    struct err e;

    fill_set(&set, 0, 6);
    CHECK(topo_open_set(&t, &set, sizeof(set), &e) == 0);
    CHECK(t.n_cpus == 6 && t.n_cores == 6 && t.n_nodes == 1);
    topo_close(&t);
    return 0;
}

static void cores_are_told_from_their_threads(void **state)
{
    assert_int_equal(run_child(two_sockets, "pack:2 numa:1 core:4 pu:2"), 0);
    assert_int_equal(run_child(part_of_it, "pack:2 numa:1 core:4 pu:2"), 0);
}

static void processors_that_hwloc_does_not_know_are_cores_of_their_own(void **state)
{
    assert_int_equal(run_child(unknown_processors, "core:4 pu:1"), 0);
}

static void *look(void *arg)
{
    struct topo t;
    struct err e;

    if (topo_open(&t, &e) == 0)
        *(int *)arg = t.n_cpus;
    topo_close(&t);
    return NULL;
}

/* A bound thread and the threads that it starts still see all processors that the process may use. Then the
 * thread is unbound. */
static int bound(void)
{
    cpu_set_t before, now;
    int seen = 0, n;
    pthread_t thread;
    struct topo t;
    struct err e;

    CHECK(sched_getaffinity(0, sizeof(before), &before) == 0);
    CHECK(topo_open(&t, &e) == 0);
    n = t.n_cpus;
    CHECK(n == CPU_COUNT(&before));
    CHECK(topo_bind(t.cpu[n - 1].os));
    CHECK(sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_COUNT(&now) == 1);
    CHECK(pthread_create(&thread, NULL, look, &seen) == 0);
    pthread_join(thread, NULL);
    CHECK(seen == n);
    topo_unbind();
    CHECK(sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &before));
    CHECK(!topo_bind(-1) && !topo_bind(TOPO_MAX_CPUS) && !topo_bind(TOPO_MAX_CPUS - 1));
    topo_close(&t);
    return 0;
}

/* Only the processors that taskset allows count. */
static int narrowed(void)
{
    cpu_set_t set, one;
    struct topo t;
    struct err e;
    size_t first = 0;

    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
    while (!CPU_ISSET(first, &set))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
    CHECK(topo_open(&t, &e) == 0);
    CHECK(t.n_cpus == 1 && t.n_cores == 1 && t.default_threads == 1 && t.cpu[0].os == (int)first);
    topo_close(&t);
    return 0;
}

static void a_bound_thread_still_knows_the_whole_set(void **state)
{
    assert_int_equal(run_child(bound, NULL), 0);
}

static void a_narrowed_process_counts_only_what_it_has(void **state)
{
    assert_int_equal(run_child(narrowed, NULL), 0);
}

static void this_machine_makes_sense(void **state)
{
    struct topo t;
    struct err e;

    assert_int_equal(topo_open(&t, &e), 0);
    assert_true(t.n_cpus >= 1 && t.n_cores >= 1 && t.n_cores <= t.n_cpus && t.n_nodes >= 1);
    assert_true(t.default_threads >= 1 && t.default_threads <= t.n_cores);
    topo_close(&t);
    topo_close(&t);
    assert_true(topo_memory_limit_bytes() > (size_t)16 << 20);
    assert_true(topo_memory_limit_bytes() <= (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
}

static void running_out_of_memory_is_reported(void **state)
{
    size_t blocks = mem_live_blocks();
    struct topo t;
    struct err e;

    mem_fail_at(1);
    assert_int_equal(topo_open(&t, &e), ERR_NOMEM);
    mem_fail_at(0);
    assert_null(t.cpu);
    assert_int_equal(mem_live_blocks(), blocks);
}

/* ---- control groups in a folder ---- */

static const char *root;

static int make_root(void **state)
{
    root = files_folder();
    return 0;
}

/* Writes TEXT to root/PATH and makes the folders of the path. */
static const char *put(const char *path, const char *text)
{
    static char full[512];

    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = 0;
        mkdir(full, 0700);
        *p = '/';
    }
    files_write_text(full, text);
    return full;
}

static struct topo_limits limits(const char *groups, const char *mount)
{
    struct topo_limits l;
    char where[300], file[512];

    snprintf(where, sizeof(where), "%s/%s", root, mount);
    snprintf(file, sizeof(file), "%s", put("groups", groups));
    topo_limits_at(&l, file, where);
    return l;
}

static void the_tightest_group_on_the_way_up_counts(void **state)
{
    struct topo_limits l;

    put("v2/a/b/cpu.max", "max 100000\n");
    put("v2/a/b/memory.max", "8000000000\n");
    put("v2/a/cpu.max", "150000 100000\n");
    put("v2/a/memory.max", "9000000000\n");
    put("v2/memory.max", "max\n");
    l = limits("0::/a/b\n", "v2");
    assert_true(l.cpus == 1.5 && l.memory_bytes == 8000000000);
    put("v2/a/b/cpu.max", "50000 100000\n");
    l = limits("0::/a/b\n", "v2");
    assert_true(l.cpus == 0.5);
}

static void in_a_container_the_named_group_may_not_be_there(void **state)
{
    struct topo_limits l;

    put("box/cpu.max", "300000 100000\n");
    put("box/memory.max", "1073741824\n");
    l = limits("0::/host/side/name\n", "box");
    assert_true(l.cpus == 3 && l.memory_bytes == 1073741824);
    l = limits("0::/\n", "box");
    assert_true(l.cpus == 3 && l.memory_bytes == 1073741824);
}

static void version_1_and_hybrid_hierarchies_are_read(void **state)
{
    struct topo_limits l;

    put("v1/cpu/x/cpu.cfs_quota_us", "250000\n");
    put("v1/cpu/x/cpu.cfs_period_us", "100000\n");
    put("v1/cpu/cpu.cfs_quota_us", "-1\n");
    put("v1/cpu/cpu.cfs_period_us", "100000\n");
    put("v1/memory/y/memory.limit_in_bytes", "2147483648\n");
    put("v1/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("v1/cpuset/x/cpu.cfs_quota_us", "1\n");
    put("v1/cpuset/x/cpu.cfs_period_us", "100000\n");
    put("v1/unified/z/memory.max", "1147483648\n");
    l = limits("7:cpuset:/x\n4:memory:/y\n3:cpu,cpuacct:/x\n", "v1");
    assert_true(l.cpus == 2.5 && l.memory_bytes == 2147483648);
    l = limits("4:memory:/y\n0::/z\n", "v1");
    assert_true(l.cpus == 0 && l.memory_bytes == 1147483648);
}

static void what_cannot_be_read_does_not_limit(void **state)
{
    static const char *const bad[] = {
        "", "\n", "0:", "::", "0::", "x", "0::/no/such\n", "3:cpu:\n4:memory\n"};
    struct topo_limits l;
    char path[4200];

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        l = limits(bad[i], "nowhere");
        assert_true(l.cpus == 0 && l.memory_bytes == SIZE_MAX);
    }
    put("odd/cpu.max", "banana 100000\n");
    put("odd/memory.max", "\n");
    l = limits("0::/\n", "odd");
    assert_true(l.cpus == 0 && l.memory_bytes == SIZE_MAX);
    put("odd/cpu.max", "100000\n"); /* The period is missing. */
    put("odd/memory.max", "99999999999999999999999\n");
    l = limits("0::/\n", "odd");
    assert_true(l.cpus == 0 && l.memory_bytes == SIZE_MAX);
    memset(path, 'a', sizeof(path));
    memcpy(path, "0::/", 4);
    path[sizeof(path) - 1] = 0;
    l = limits(path, "odd");
    assert_true(l.cpus == 0);
    topo_limits_at(&l, "/no/such/file", root);
    assert_true(l.cpus == 0 && l.memory_bytes == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* Tests in children are first, because they need a process that has not read its machine yet. */
        cmocka_unit_test(cores_are_told_from_their_threads),
        cmocka_unit_test(processors_that_hwloc_does_not_know_are_cores_of_their_own),
        cmocka_unit_test(a_bound_thread_still_knows_the_whole_set),
        cmocka_unit_test(a_narrowed_process_counts_only_what_it_has),
        cmocka_unit_test(this_machine_makes_sense),
        cmocka_unit_test(running_out_of_memory_is_reported),
        cmocka_unit_test(the_tightest_group_on_the_way_up_counts),
        cmocka_unit_test(in_a_container_the_named_group_may_not_be_there),
        cmocka_unit_test(version_1_and_hybrid_hierarchies_are_read),
        cmocka_unit_test(what_cannot_be_read_does_not_limit),
    };

    return cmocka_run_group_tests(tests, make_root, NULL);
}
