/* shared.h - memory that two processes share: a file without a name (memfd_create(2)), which each of them maps.
 *
 * The memory only grows, so that no process can take away pages that the other one has mapped. It is as large as the
 * larger of both processes has wanted it. */
#ifndef GALLOP_BASE_FILES_SHARED_H
#define GALLOP_BASE_FILES_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct shared {
    int fd; /* passed to the other process */
    char *bytes;
    size_t n_mapped; /* BYTES has at least so many */
};

/* Makes empty memory. The descriptor is closed in programs that are executed. */
int shared_new(struct shared *s, struct err *e);

/* Takes the descriptor FD, which the other process made. */
void shared_take(struct shared *s, int fd);

/* Makes N bytes accessible. S->bytes may change; new bytes are zeros. */
int shared_reserve(struct shared *s, size_t n, struct err *e);

/* Makes N bytes accessible that the other process has reserved. False: there are not so many. */
bool shared_reach(struct shared *s, size_t n);

/* Gives the memory of all pages after byte FROM back; they then read as zeros. */
void shared_drop(struct shared *s, size_t from);

void shared_close(struct shared *s); /* once for each shared_new() or shared_take() */

#endif
