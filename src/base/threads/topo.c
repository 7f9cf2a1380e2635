/* topo.c - reads the allowed processors from sched_getaffinity(), cores and NUMA nodes from hwloc, and limits
 * from cgroupfs.
 *
 * A processor that hwloc does not know counts as a separate core on node 0. The tables below are written once
 * under pthread_once() and are const afterwards.
 */
#include "base/threads/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { SET_BYTES = TOPO_MAX_CPUS / 8 };

struct place {
    int core, node; /* core -1: unknown */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct place place[TOPO_MAX_CPUS];
static union {
    cpu_set_t set;
    unsigned char bytes[SET_BYTES];
} allowed;
static int allowed_errno; /* error of sched_getaffinity() */

static void read_places(void)
{
    hwloc_topology_t t;

    for (int i = 0; i < TOPO_MAX_CPUS; i++)
        place[i] = (struct place){.core = -1};
    if (hwloc_topology_init(&t) != 0)
        return;
    /* no type filter: hwloc needs packages and groups to find the NUMA node of a processor */
    if (hwloc_topology_load(t) == 0) {
        hwloc_obj_t pu = NULL;

        while ((pu = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PU, pu)) != NULL) {
            hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_CORE, pu);
            int node = pu->nodeset ? hwloc_bitmap_first(pu->nodeset) : 0;

            if (pu->os_index < TOPO_MAX_CPUS)
                place[pu->os_index] =
                    (struct place){.core = core ? (int)core->logical_index : -1, .node = node > 0 ? node : 0};
        }
    }
    hwloc_topology_destroy(t);
}

static void read_machine(void)
{
    if (sched_getaffinity(0, sizeof(allowed), &allowed.set) != 0)
        allowed_errno = errno;
    read_places();
}

static int by_place(const void *x, const void *y)
{
    const struct topo_cpu *a = x, *b = y;

    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->core != b->core)
        return a->core < b->core ? -1 : 1;
    return a->os < b->os ? -1 : a->os > b->os;
}

/* Sets core, thread and node of all processors of T, and counts cores and nodes. */
static void number_cores(struct topo *t)
{
    bool node_seen[TOPO_MAX_CPUS] = {false};

    for (int i = 0; i < t->n_cpus; i++) {
        struct topo_cpu *c = &t->cpu[i];
        const struct place *p = &place[c->os];

        c->node = p->node;
        c->core = -1;
        for (int j = 0; j < i && p->core >= 0; j++)
            if (place[t->cpu[j].os].core == p->core) {
                c->core = t->cpu[j].core;
                c->thread++;
            }
        if (c->core < 0)
            c->core = t->n_cores++;
        if (c->node < TOPO_MAX_CPUS && !node_seen[c->node]) {
            node_seen[c->node] = true;
            t->n_nodes++;
        }
    }
}

int topo_open_set(struct topo *t, const cpu_set_t *set, size_t bytes, struct err *e)
{
    struct topo_limits l;
    int n = CPU_COUNT_S(bytes, set);

    *t = (struct topo){0};
    pthread_once(&once, read_machine);
    ASSERT(n > 0 && bytes <= SET_BYTES, "%d processors in %zu bytes", n, bytes);
    t->cpu = mem_zalloc((size_t)n, sizeof(*t->cpu), MEM_BASE);
    if (!t->cpu)
        return err_nomem(e, "table of processors");
    for (int os = 0; os < (int)bytes * 8; os++)
        if (CPU_ISSET_S((size_t)os, bytes, set))
            t->cpu[t->n_cpus++].os = os;
    number_cores(t);
    qsort(t->cpu, (size_t)n, sizeof(*t->cpu), by_place);
    topo_limits_at(&l, "/proc/self/cgroup", "/sys/fs/cgroup");
    t->quota_cpus = l.cpus;
    t->default_threads = t->n_cores;
    if (l.cpus > 0 && ceil(l.cpus) < t->default_threads)
        t->default_threads = (int)ceil(l.cpus);
    return 0;
}

int topo_open(struct topo *t, struct err *e)
{
    *t = (struct topo){0};
    pthread_once(&once, read_machine);
    if (allowed_errno != 0) {
        errno = allowed_errno;
        return err_os(e, "read the allowed processors of", "this process");
    }
    return topo_open_set(t, &allowed.set, sizeof(allowed), e);
}

void topo_close(struct topo *t)
{
    mem_free(t->cpu);
    *t = (struct topo){0};
}

bool topo_bind(int os)
{
    union {
        cpu_set_t set;
        unsigned char bytes[SET_BYTES];
    } one = {.bytes = {0}};

    if (os < 0 || os >= TOPO_MAX_CPUS)
        return false;
    CPU_SET_S((size_t)os, sizeof(one), &one.set);
    return sched_setaffinity(0, sizeof(one), &one.set) == 0;
}

void topo_unbind(void)
{
    pthread_once(&once, read_machine);
    if (allowed_errno == 0 && sched_setaffinity(0, sizeof(allowed), &allowed.set) != 0)
        return; /* the allowed set has shrunk: the thread stays bound */
}

/* Reads a small file into TEXT [size] as a string. False: it is empty or unreadable. */
static bool topo_read_file(const char *path, char *text, size_t size)
{
    size_t n = 0;
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    while (n + 1 < size && (got = read(fd, text + n, size - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    text[n] = 0;
    return n > 0;
}

static bool read_in(const char *dir, const char *file, char *text, size_t size)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, file);

    return n > 0 && (size_t)n < sizeof(path) && topo_read_file(path, text, size);
}

static void limit_cpus(struct topo_limits *l, double quota, double period)
{
    if (quota > 0 && period > 0 && (l->cpus <= 0 || quota / period < l->cpus))
        l->cpus = quota / period;
}

static void limit_memory(struct topo_limits *l, const char *text)
{
    unsigned long long v;

    if (text[0] < '0' || text[0] > '9') /* the file contains "max" */
        return;
    errno = 0;
    v = strtoull(text, NULL, 10);
    if (errno == 0 && v < l->memory_bytes)
        l->memory_bytes = (size_t)v;
}

/* Lowers L to the limits of the group DIR, of control groups version 1 or 2. */
static void read_group(struct topo_limits *l, const char *dir)
{
    char text[128], period[128];
    double quota;
    char *end;

    if (read_in(dir, "cpu.max", text, sizeof(text)) && text[0] >= '0' && text[0] <= '9') {
        quota = strtod(text, &end);
        limit_cpus(l, quota, strtod(end, NULL));
    }
    if (read_in(dir, "cpu.cfs_quota_us", text, sizeof(text)) &&
        read_in(dir, "cpu.cfs_period_us", period, sizeof(period)))
        limit_cpus(l, strtod(text, NULL), strtod(period, NULL));
    if (read_in(dir, "memory.max", text, sizeof(text)) ||
        read_in(dir, "memory.limit_in_bytes", text, sizeof(text)))
        limit_memory(l, text);
}

/* Lowers L to the limits of the group MOUNT/SUB/GROUP and its ancestors up to MOUNT/SUB. Inside a container
 * GROUP may be missing below MOUNT. */
static void climb(struct topo_limits *l, const char *mount, const char *sub, const char *group)
{
    char dir[PATH_MAX];
    int n = snprintf(dir, sizeof(dir), "%s%s%s", mount, *sub ? "/" : "", sub);
    size_t root;

    if (n < 0 || (size_t)n >= sizeof(dir))
        return;
    root = (size_t)n;
    n = snprintf(dir + root, sizeof(dir) - root, "%s", group);
    if (n < 0 || (size_t)n >= sizeof(dir) - root)
        return;
    for (;;) {
        char *slash;

        read_group(l, dir);
        slash = strrchr(dir + root, '/');
        if (!slash)
            break;
        *slash = 0;
    }
}

/* Returns whether NAME is in the comma-separated LIST. */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == 0))
            return true;
    }
    return false;
}

void topo_limits_at(struct topo_limits *l, const char *proc_cgroup, const char *mount)
{
    char text[8192], *line, *rest;

    *l = (struct topo_limits){.memory_bytes = SIZE_MAX};
    if (!topo_read_file(proc_cgroup, text, sizeof(text)))
        return;
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!group)
            continue;
        controllers++;
        *group++ = 0;
        if (*controllers == 0) { /* version 2, alone or together with version 1 */
            climb(l, mount, "", group);
            climb(l, mount, "unified", group);
        } else if (listed(controllers, "cpu")) {
            climb(l, mount, "cpu", group);
        } else if (listed(controllers, "memory")) {
            climb(l, mount, "memory", group);
        }
    }
}

size_t topo_memory_limit_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t machine = SIZE_MAX;
    struct topo_limits l;

    if (pages > 0 && page > 0)
        machine = (size_t)pages * (size_t)page;
    topo_limits_at(&l, "/proc/self/cgroup", "/sys/fs/cgroup");
    return l.memory_bytes < machine ? l.memory_bytes : machine;
}
