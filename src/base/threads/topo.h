/* topo.h - the processors that this process may use: which they are, which of them share a core, their NUMA
 * nodes, and the limits of the control group on processor time and memory.
 *
 * The machine and the allowed set are read once a process (at the first call, which takes about ten
 * milliseconds), so that threads which are bound later do not narrow what others see. Limits of control
 * groups (version 2, and 1) are read at each call. Binding moves threads, never memory.
 */
#ifndef GALLOP_BASE_THREADS_TOPO_H
#define GALLOP_BASE_THREADS_TOPO_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { TOPO_MAX_CPUS = 4096 }; /* processor numbers of the operating system: 0 .. TOPO_MAX_CPUS - 1 */

/* One hardware thread. */
struct topo_cpu {
    int os;     /* number of the operating system */
    int core;   /* 0 .. n_cores - 1; hardware threads of one core share it */
    int node;   /* NUMA node, by the number of the operating system */
    int thread; /* 0 for the first allowed hardware thread of its core, 1 for the second, ... */
};

struct topo {
    /* [n_cpus] The first hardware threads of all cores, then the second ones, and so on; each ordered by
     * node, core and number. */
    struct topo_cpu *cpu;
    int n_cpus, n_cores, n_nodes; /* in the allowed set */
    /* Processors' worth of time that the control group grants. 0: no limit. */
    double quota_cpus;
    /* Physical cores, limited to the quota rounded up; at least 1. */
    int default_threads;
};

/* The limits of control groups. */
struct topo_limits {
    double cpus;         /* 0: no limit */
    size_t memory_bytes; /* SIZE_MAX: no limit */
};

/* Opens the processors that this process was allowed at the first call. ERR_OS or ERR_NOMEM: *T is closed. */
int topo_open(struct topo *t, struct err *e);

/* The same for the processors in SET, which has BYTES as in sched_getaffinity() and must not be empty. */
int topo_open_set(struct topo *t, const cpu_set_t *set, size_t bytes, struct err *e);
void topo_close(struct topo *t); /* a zeroed one is fine */

/* Binds the calling thread to processor OS. False: the system refuses. */
bool topo_bind(int os);

/* Lets the calling thread run on every allowed processor. */
void topo_unbind(void);

/* Bytes of memory that this process may use: the smaller of the machine's memory and the control group's
 * limit. */
size_t topo_memory_limit_bytes(void);

/* The tightest limits of the group that the file PROC_CGROUP ("/proc/self/cgroup") names and of all groups
 * above it, in the hierarchy mounted at MOUNT ("/sys/fs/cgroup"). A file that cannot be read sets no
 * limit. */
void topo_limits_at(struct topo_limits *l, const char *proc_cgroup, const char *mount);

#endif
