/* channel.h - the messages between the engine and the process of a PJRT plugin.
 *
 * The engine sends a call, and the process answers it; there is never more than one call. All messages have one fixed
 * size and travel over a pair of SOCK_SEQPACKET sockets. The data of a call or an answer lie in memory that both
 * processes share (base/files/shared.h), from its first byte. The process numbers programs and buffers. Both sides run
 * the same program on one machine, so that structs are sent as they are in memory.
 *
 * Each side checks every number of a message before it uses it: a faulty plugin may have overwritten the memory of its
 * process.
 */
#ifndef GALLOP_ENGINE_PJRT_CHANNEL_H
#define GALLOP_ENGINE_PJRT_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CHANNEL_VERSION = 2, /* incremented when the messages change */
    CHANNEL_DIMS = 8,
    CHANNEL_MOST_OBJECTS = 1 << 20, /* most arguments and results of a call */
    CHANNEL_MOST_PROGRAM = 1 << 30, /* most bytes of a compiled program */
    /* File descriptors in the process */
    CHANNEL_SOCKET = 3,
    CHANNEL_MEMORY = 4
};

/* The hidden verb of `gallop` that serves the calls (process.h). */
#define CHANNEL_VERB "plugin-process"

/* The kinds of calls. A comment names the members of struct channel_message that the call and its answer use. */
enum channel_kind {
    CHANNEL_HELLO,     /* what: the version of Gallop */
    CHANNEL_OPEN,      /* object: device, n: bytes of the path, bytes of the options or 0; data: both texts.
                          Answer: struct channel_facts */
    CHANNEL_COMPILE,   /* what: name for errors; data: the program's text. Answer: object */
    CHANNEL_LOAD,      /* data: a compiled program. Answer: object */
    CHANNEL_SERIALIZE, /* object. Answer: data */
    CHANNEL_UPLOAD,    /* type, n_dims, dims; data. Answer: object */
    CHANNEL_DOWNLOAD,  /* object, bytes. Answer: data */
    CHANNEL_RUN, /* object, n: arguments, results; data: numbers of the arguments. Answer: numbers of the results */
    CHANNEL_FREE, /* n: objects; data: their numbers */
    CHANNEL_N_KINDS
};

struct channel_message {
    uint32_t version, kind;
    uint64_t number; /* number of the call, from 1; the answer repeats kind and number */
    uint32_t code;   /* answers: enum err_code; if it is not 0, the data are the sentence */
    uint32_t type;   /* enum dtype */
    uint64_t bytes;  /* length of the data */
    uint64_t object, n[2], n_dims, dims[CHANNEL_DIMS];
    char what[32]; /* terminated */
};

/* The facts of an open plugin (struct plugin) that the engine needs. */
struct channel_facts {
    uint64_t n_devices, memory_bytes, free_bytes;
    char platform[64], version[256], kind[128]; /* terminated */
};

enum channel_result { CHANNEL_GOOD, CHANNEL_CLOSED, CHANNEL_LATE, CHANNEL_STOPPED, CHANNEL_WRONG };

/* Sends M. CHANNEL_CLOSED: the other side has ended. */
enum channel_result channel_send(int socket, const struct channel_message *m);

/* Waits for a message. CHANNEL_LATE: none came within SECONDS; negative: waits for ever. CHANNEL_STOPPED: none came
 * until another thread set *STOP, which may be NULL. CHANNEL_WRONG: a message of another size or version. */
enum channel_result channel_receive(int socket, struct channel_message *m, double seconds,
                                    const _Atomic bool *stop);

#endif
