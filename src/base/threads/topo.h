/* topo.h - the processors that this process may use, with their cores and NUMA nodes, and the control group's
 * limits of processor time and memory.
 *
 * The machine and the allowed processors are read once, at the first call (about 10 ms), so that a later
 * binding of the calling thread does not reduce the set. Limits of control groups (versions 1 and 2) are read
 * at each call. Binding moves threads, but not memory.
 */
#ifndef GALLOP_BASE_THREADS_TOPO_H
#define GALLOP_BASE_THREADS_TOPO_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { TOPO_MAX_CPUS = 4096 }; /* the operating system numbers processors 0 .. TOPO_MAX_CPUS - 1 */

/* A processor: a hardware thread. */
struct topo_cpu {
    int os;     /* number in the operating system */
    int core;   /* 0 .. n_cores - 1; hardware threads of a core have the same number */
    int node;   /* number of the NUMA node in the operating system */
    int thread; /* 0 for the first allowed hardware thread of its core, 1 for the second, ... */
};

struct topo {
    /* [n_cpus] The first hardware threads of all cores, then the second hardware threads, and so on; each of
     * these groups is sorted by node, core and os. */
    struct topo_cpu *cpu;
    int n_cpus, n_cores, n_nodes; /* counted in the allowed set */
    /* Processor time per time that the control group grants (1.5: one and a half processors). 0: no limit. */
    double quota_cpus;
    /* The number of physical cores, at most the quota rounded up; at least 1. */
    int default_threads;
};

/* The limits of control groups. */
struct topo_limits {
    double cpus;         /* 0: no limit */
    size_t memory_bytes; /* SIZE_MAX: no limit */
};

/* Lists the processors that this process might use at the first call. ERR_OS, ERR_NOMEM: *T is closed. */
int topo_open(struct topo *t, struct err *e);

/* Lists the processors in SET, which has BYTES as in sched_getaffinity() and must not be empty. */
int topo_open_set(struct topo *t, const cpu_set_t *set, size_t bytes, struct err *e);
void topo_close(struct topo *t); /* T may be zeroed */

/* Binds the calling thread to the processor OS. False: the system call failed. */
bool topo_bind(int os);

/* Lets the calling thread run on every allowed processor. */
void topo_unbind(void);

/* Returns the bytes of memory that this process may use: the machine's, or the control group's limit. */
size_t topo_memory_limit_bytes(void);

/* Sets *L to the lowest limits of the groups in the file PROC_CGROUP ("/proc/self/cgroup") and of all their ancestors,
 * in the hierarchy mounted at MOUNT ("/sys/fs/cgroup"). A file that cannot be read sets no limit. */
void topo_limits_at(struct topo_limits *l, const char *proc_cgroup, const char *mount);

#endif
