/* topo.h - the processors this process may use: which they are, which share a core, on which NUMA node
 * they sit, and what the control group grants of their time and of memory.
 *
 * The machine and the allowed set are read once a process (at the first call, which costs about ten
 * milliseconds), so threads that are bound later do not narrow what others see. Limits of control groups
 * (version 2, and 1) are read afresh. Binding moves threads, never memory.
 */
#ifndef GALLOP_BASE_THREADS_TOPO_H
#define GALLOP_BASE_THREADS_TOPO_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { TOPO_MAX_CPUS = 4096 }; /* processor numbers the operating system may use: 0 .. TOPO_MAX_CPUS - 1 */

/* One hardware thread. */
struct topo_cpu {
    int os;     /* its number for the operating system */
    int core;   /* 0 .. n_cores - 1; hardware threads of one core share it */
    int node;   /* NUMA node number of the operating system */
    int thread; /* 0 for the first allowed hardware thread of its core, 1 for the second, ... */
};

struct topo {
    struct topo_cpu
        *cpu; /* [n_cpus] first threads of all cores first, each round ordered by node, core, number */
    int n_cpus, n_cores, n_nodes; /* of the allowed set */
    double quota_cpus;   /* processors' worth of time the control group grants; 0: as many as there are */
    int default_threads; /* physical cores, at most the quota rounded up; at least 1 */
};

/* What control groups grant. */
struct topo_limits {
    double cpus;         /* 0: no limit */
    size_t memory_bytes; /* SIZE_MAX: no limit */
};

/* The processors this process was allowed when it first asked. ERR_OS, ERR_NOMEM; *t is then closed. */
int topo_open(struct topo *t, struct err *e);

/* The same for the processors in SET (BYTES long, as in sched_getaffinity()), which must not be empty. */
int topo_open_set(struct topo *t, const cpu_set_t *set, size_t bytes, struct err *e);
void topo_close(struct topo *t); /* a zeroed one is fine */

/* Binds the calling thread to processor OS; false if the system refuses. */
bool topo_bind(int os);

/* Lets the calling thread run on every allowed processor again. */
void topo_unbind(void);

/* Bytes of memory this process may use: the machine's or the control group's, the smaller. */
size_t topo_memory_limit_bytes(void);

/* The tightest limits on the way from the group named in the file PROC_CGROUP ("/proc/self/cgroup") up to
 * the root of the hierarchy mounted at MOUNT ("/sys/fs/cgroup"). What cannot be read does not limit. */
void topo_limits_at(struct topo_limits *l, const char *proc_cgroup, const char *mount);

#endif
