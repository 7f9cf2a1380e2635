/* child.h - starts the process of a PJRT plugin and ends it.
 *
 * The process is the program `gallop` with a hidden verb. It inherits a socket to the engine and shared memory, and no
 * other open file. The lines that it writes to standard output and standard error are logged.
 */
#ifndef GALLOP_ENGINE_PJRT_CHILD_H
#define GALLOP_ENGINE_PJRT_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/threads/thread.h"

struct child {
    pid_t pid;  /* 0: none */
    int socket; /* socket to the process; -1: none */
    int output; /* standard output and standard error of the process; -1: none */
    bool has_reader;
    struct thread reader;
};

/* Starts the process, which inherits the shared memory with the descriptor MEMORY. The program is the first of these
 * that exists: $GALLOP_PROGRAM; the running program if its name is `gallop`; `gallop` beside the library or the
 * program, or in a folder `bin` there or one or two folders above; `gallop` in PATH. C must not move until child_end().
 * ERR_OS: there is no such program, or it cannot be started. */
int child_start(struct child *c, int memory, struct err *e);

/* Closes the socket and waits up to SECONDS for the process to end. If it does not, kills it and waits a second more.
 * Writes to HOW how it ended, such as "ended by signal 11 (Segmentation fault)". */
void child_end(struct child *c, double seconds, char *how, size_t size);

#endif
