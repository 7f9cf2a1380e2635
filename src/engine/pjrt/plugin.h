/* plugin.h - a PJRT plugin: its client and a device of it, programs that are compiled for the device, and buffers in
 * its memory. The plugin is in this process, or in one of its own (remote.h).
 *
 * Every call returns 0 or an error code with one sentence that contains the plugin's own message. After an error of
 * plugin_run() the arguments whose memory the program reuses (donated buffers) are lost; all other objects stay valid.
 * Calls wait until the plugin has finished. One thread at a time may use a plugin.
 */
#ifndef GALLOP_ENGINE_PJRT_PLUGIN_H
#define GALLOP_ENGINE_PJRT_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "tensor/dtype.h"

struct pjrt_api;
struct pjrt_buffer;
struct pjrt_loaded;
struct plugin_source;

struct plugin {
    const char *path, *options; /* borrowed from the source; OPTIONS is "" if there are none */
    void *library;
    const struct pjrt_api *api;
    struct pjrt_client *client;
    struct pjrt_device *device;
    /* the plugin's process; the three members above are then NULL. NULL: the plugin is in this process */
    struct remote *remote;
    size_t device_number, n_devices;
    size_t memory_bytes, free_bytes; /* memory of the device and its free part when the plugin was opened */
    char platform[64], version[256], kind[128]; /* names of platform and device */
};

/* Loads the shared library of S, which is borrowed, creates a client with its options, and takes its device. If S says
 * so, the library is loaded in a process of its own. ERR_INPUT: the file is not a plugin, or the device does not exist;
 * ERR_UNSUPPORTED: its interface has another major version or lacks functions. */
int plugin_open(struct plugin *p, const struct plugin_source *s, struct err *e);

/* Frees the client; the library stays loaded, because plugins leave threads behind. P may be zeroed. */
void plugin_close(struct plugin *p);

/* Returns true if the plugin had a process of its own, which has ended. */
bool plugin_is_dead(const struct plugin *p);

/* Return the bytes of the device's memory, and the bytes that were free when the plugin was opened. 0: the plugin does
 * not report them. */
size_t plugin_memory(const struct plugin *p);
size_t plugin_free_memory(const struct plugin *p);

/* Returns the options with which all programs are compiled, *N bytes. */
const char *plugin_compile_options(size_t *n);

/* Compiles the StableHLO program TEXT [n]. WHAT names it in errors. */
int plugin_compile(struct plugin *p, const char *text, size_t n, const char *what, struct pjrt_loaded **out,
                   struct err *e);

/* plugin_serialize() writes the compiled PROGRAM to OUT, and plugin_load() loads a program from such bytes. */
int plugin_serialize(struct plugin *p, struct pjrt_loaded *program, struct buf *out, struct err *e);
int plugin_load(struct plugin *p, const void *bytes, size_t n, struct pjrt_loaded **out, struct err *e);
void plugin_free_program(struct plugin *p, struct pjrt_loaded *program); /* PROGRAM may be NULL */

/* Returns memory for the data of the next upload. If the plugin is in a process of its own, it is shared memory, so
 * that the data need not be copied. No other function of P may be called between plugin_staging(), plugin_upload() and
 * plugin_free_staging(). NULL: memory is exhausted, or the process has ended. */
void *plugin_staging(struct plugin *p, size_t bytes);
void plugin_free_staging(struct plugin *p, void *staging); /* STAGING may be NULL */

/* Copies DATA, dense with the shape DIMS [n_dims], to a new buffer on the device. TYPE is DT_F32, DT_BF16, DT_I32 or
 * DT_I8. */
int plugin_upload(struct plugin *p, const void *data, enum dtype type, const size_t *dims, int n_dims,
                  struct pjrt_buffer **out, struct err *e);

/* Copies BYTES bytes, the whole of BUFFER, to TO. */
int plugin_download(struct plugin *p, struct pjrt_buffer *buffer, void *to, size_t bytes, struct err *e);
void plugin_free_buffer(struct plugin *p, struct pjrt_buffer *buffer); /* BUFFER may be NULL */

/* Runs PROGRAM with the arguments ARG [n_args] and writes its N_OUT results, new buffers, to OUT. The program must have
 * exactly N_OUT results. */
int plugin_run(struct plugin *p, struct pjrt_loaded *program, struct pjrt_buffer *const *arg, size_t n_args,
               struct pjrt_buffer **out, size_t n_out, struct err *e);

#endif
