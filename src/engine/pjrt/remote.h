/* remote.h - implements the functions of plugin.h for a plugin in a process of its own.
 *
 * plugin.c calls the function here with the same name. A pointer to an object is the number that the process gave it
 * (channel.h), cast to a pointer. If the process ends, or does not answer in time and is killed, or gives an invalid
 * answer, this call and all later ones fail with an error that says so. Calls make system calls, even inside a step,
 * and allocate nothing through mem.h.
 */
#ifndef GALLOP_ENGINE_PJRT_REMOTE_H
#define GALLOP_ENGINE_PJRT_REMOTE_H

#include "base/buf.h"
#include "tensor/dtype.h"

struct channel_facts;
struct err;
struct pjrt_buffer;
struct pjrt_loaded;
struct plugin_source;

/* How long a call may last before the process is killed, in seconds. */
enum {
    REMOTE_STEP_SECONDS = 120, /* run, upload, download, free */
    REMOTE_OPEN_SECONDS = 1800 /* open, compile, load, serialize */
};

struct remote;

/* Starts a process that opens the plugin of S. */
int remote_open(struct remote **out, const struct plugin_source *s, struct channel_facts *facts,
                struct err *e);

/* For tests: like remote_open(), but instead of starting a process, uses SOCKET and MEMORY of one that answers; takes
 * ownership of both. */
int remote_attach(struct remote **out, int socket, int memory, const struct plugin_source *s,
                  struct channel_facts *facts, struct err *e);
void remote_close(struct remote *r); /* R may be NULL */
bool remote_is_dead(const struct remote *r);

int remote_compile(struct remote *r, const char *text, size_t n, const char *what, struct pjrt_loaded **out,
                   struct err *e);
int remote_serialize(struct remote *r, struct pjrt_loaded *program, struct buf *out, struct err *e);
int remote_load(struct remote *r, const void *bytes, size_t n, struct pjrt_loaded **out, struct err *e);
/* Returns shared memory for the data of the next upload. */
void *remote_staging(struct remote *r, size_t bytes);
int remote_upload(struct remote *r, const void *data, enum dtype type, const size_t *dims, int n_dims,
                  struct pjrt_buffer **out, struct err *e);
int remote_download(struct remote *r, struct pjrt_buffer *buffer, void *to, size_t bytes, struct err *e);
int remote_run(struct remote *r, struct pjrt_loaded *program, struct pjrt_buffer *const *arg, size_t n_args,
               struct pjrt_buffer **out, size_t n_out, struct err *e);

/* Frees OBJECT, a program or a buffer, at the latest before the next call. */
void remote_free(struct remote *r, const void *object);

#endif
