/* shared.h - memory that two processes share: a file without a name (memfd_create(2)), which each of them maps.
 *
 * The memory only grows, so that no process can take away pages that the other one has mapped. Its size is the largest
 * that one of the processes has reserved.
 */
#ifndef GALLOP_BASE_FILES_SHARED_H
#define GALLOP_BASE_FILES_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct shared {
    int fd; /* passed to the other process */
    char *bytes;
    size_t n_mapped; /* mapped bytes at BYTES */
};

/* Makes empty memory. The descriptor is close-on-exec. */
int shared_new(struct shared *s, struct err *e);

/* Initializes S with FD, the descriptor that the other process has sent, and takes ownership of it. Maps nothing
 * yet. */
void shared_take(struct shared *s, int fd);

/* Grows the memory to at least N bytes, if it is smaller, and maps them. S->bytes may change; new bytes are zeros. */
int shared_reserve(struct shared *s, size_t n, struct err *e);

/* Maps at least N bytes that the other process has reserved. S->bytes may change. False: the memory is smaller, or
 * cannot be mapped. */
bool shared_reach(struct shared *s, size_t n);

/* Frees all pages that begin at byte FROM or later; their bytes then read as zeros. */
void shared_drop(struct shared *s, size_t from);

void shared_close(struct shared *s); /* once for each shared_new() or shared_take() */

#endif
