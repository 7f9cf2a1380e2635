/* process.h - runs in the process of a PJRT plugin: answers the calls of channel.h.
 *
 * The process ends when the other side of its socket closes, or the process that started it ends: a call that the
 * plugin is executing then gets 5 seconds. It ignores the signals that ask programs to end, because the engine, which
 * gets them too, still computes its last steps.
 */
#ifndef GALLOP_ENGINE_PJRT_PROCESS_H
#define GALLOP_ENGINE_PJRT_PROCESS_H

#include "base/files/shared.h"
#include "engine/pjrt/plugin.h"
#include "engine/pjrt/plugin_source.h"

struct channel_message;
struct process_object;

struct process {
    struct shared memory;
    struct plugin_source source;
    struct plugin plugin;
    bool is_open;
    struct process_object *object; /* [n_objects] programs and buffers */
    size_t n_objects, objects_cap;
    size_t first_free; /* list of unused objects; n_objects: none */
};

/* Initializes P, which takes ownership of the shared memory with the descriptor MEMORY. */
void process_init(struct process *p, int memory);
void process_fini(struct process *p);

/* Executes CALL and writes the answer to *ANSWER. An invalid call is answered with an error. */
void process_answer(struct process *p, const struct channel_message *call, struct channel_message *answer);

/* Serves the descriptors CHANNEL_SOCKET and CHANNEL_MEMORY until the other side closes. */
int process_run(struct err *e);

#endif
