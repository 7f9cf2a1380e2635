/* process.c - executes the calls of the engine in the process of a plugin. */
#include "engine/pjrt/process.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/threads/thread.h"
#include "engine/pjrt/channel.h"

enum { SECONDS_TO_END = 5 };

enum object_kind { OBJECT_NONE, OBJECT_PROGRAM, OBJECT_BUFFER };

/* A program or a buffer. Its number has the index in process.object + 1 in the low half and its generation in the high
 * half, so that a number is never given twice. */
struct process_object {
    enum object_kind kind;
    uint32_t generation;
    union {
        struct pjrt_loaded *program;
        struct pjrt_buffer *buffer;
        size_t next_free;
    } of;
};

/* ---- objects ---- */

/* Reserves an element of p->object. Returns its index, or SIZE_MAX if memory is exhausted. */
static size_t new_object(struct process *p)
{
    size_t i = p->first_free;

    if (i < p->n_objects) {
        p->first_free = p->object[i].of.next_free;
        return i;
    }
    if (i >= UINT32_MAX - 1 ||
        !mem_grow((void **)&p->object, &p->objects_cap, i + 1, sizeof(*p->object), MEM_ENGINE))
        return SIZE_MAX;
    p->object[i] = (struct process_object){.kind = OBJECT_NONE};
    p->first_free = ++p->n_objects;
    return i;
}

static void put_back(struct process *p, size_t i)
{
    p->object[i].kind = OBJECT_NONE;
    p->object[i].generation++;
    p->object[i].of.next_free = p->first_free;
    p->first_free = i;
}

static uint64_t object_number(const struct process *p, size_t i)
{
    return (uint64_t)p->object[i].generation << 32 | (uint64_t)(i + 1);
}

/* Returns the index in p->object of the object NUMBER, or SIZE_MAX if no object of this KIND has the number. */
static size_t place_of(const struct process *p, uint64_t number, enum object_kind kind)
{
    size_t i = (size_t)(number & UINT32_MAX) - 1;

    return i < p->n_objects && p->object[i].kind == kind && object_number(p, i) == number ? i : SIZE_MAX;
}

static void free_object(struct process *p, size_t i)
{
    struct process_object *o = &p->object[i];

    if (o->kind == OBJECT_PROGRAM)
        plugin_free_program(&p->plugin, o->of.program);
    else if (o->kind == OBJECT_BUFFER)
        plugin_free_buffer(&p->plugin, o->of.buffer);
    if (o->kind != OBJECT_NONE)
        put_back(p, i);
}

static uint64_t keep_buffer(struct process *p, size_t i, struct pjrt_buffer *buffer)
{
    p->object[i].kind = OBJECT_BUFFER;
    p->object[i].of.buffer = buffer;
    return object_number(p, i);
}

/* ---- the process ---- */

void process_init(struct process *p, int memory)
{
    *p = (struct process){.is_open = false};
    shared_take(&p->memory, memory);
}

static void close_plugin(struct process *p)
{
    for (size_t i = 0; i < p->n_objects; i++)
        free_object(p, i);
    plugin_close(&p->plugin);
    plugin_source_fini(&p->source);
    p->is_open = false;
}

void process_fini(struct process *p)
{
    close_plugin(p);
    mem_free(p->object);
    shared_close(&p->memory);
    *p = (struct process){.memory.fd = -1};
}

/* ---- calls ---- */

static int no_sense(struct err *e, const char *what)
{
    return err_set(e, ERR_INPUT, "pjrt: the plugin's process got a call with a wrong %s", what);
}

static int hello(const struct channel_message *call, struct err *e)
{
    if (strcmp(call->what, GALLOP_VERSION) == 0)
        return 0;
    return err_set(e, ERR_INPUT, "pjrt: the plugin's process is gallop %s, expected %s", GALLOP_VERSION,
                   call->what);
}

/* Opens the plugin. Path and options are copied first, because the other side may change shared memory meanwhile. */
static int open_plugin(struct process *p, const struct channel_message *call, struct channel_message *answer,
                       struct err *e)
{
    struct channel_facts facts = {0};
    char *text;
    int rc;

    if (p->is_open)
        return err_set(e, ERR_INPUT, "pjrt: the plugin's process has a plugin already");
    if (call->n[0] == 0 || call->n[0] > call->bytes || call->n[1] != call->bytes - call->n[0])
        return no_sense(e, "length");
    if (!(text = mem_zalloc(call->bytes + 2, 1, MEM_ENGINE)))
        return err_nomem(e, "the plugin's process");
    memcpy(text, p->memory.bytes, call->n[0]);
    memcpy(text + call->n[0] + 1, p->memory.bytes + call->n[0], call->n[1]);
    rc = plugin_source_read(&p->source, text, call->n[1] ? text + call->n[0] + 1 : NULL, (size_t)call->object,
                            e);
    mem_free(text);
    if (rc || (rc = plugin_open(&p->plugin, &p->source, e)) != 0) {
        plugin_source_fini(&p->source);
        return rc;
    }
    p->is_open = true;
    facts.n_devices = p->plugin.n_devices;
    facts.memory_bytes = plugin_memory(&p->plugin);
    facts.free_bytes = plugin_free_memory(&p->plugin);
    memcpy(facts.platform, p->plugin.platform, sizeof(facts.platform));
    memcpy(facts.version, p->plugin.version, sizeof(facts.version));
    memcpy(facts.kind, p->plugin.kind, sizeof(facts.kind));
    if ((rc = shared_reserve(&p->memory, sizeof(facts), e)) != 0)
        return rc;
    memcpy(p->memory.bytes, &facts, sizeof(facts));
    answer->bytes = sizeof(facts);
    return 0;
}

/* Answers CHANNEL_COMPILE and CHANNEL_LOAD. */
static int make_program(struct process *p, const struct channel_message *call, struct channel_message *answer,
                        struct err *e)
{
    struct pjrt_loaded *program;
    size_t i;
    int rc;

    if (call->bytes == 0)
        return no_sense(e, "length");
    if ((i = new_object(p)) == SIZE_MAX)
        return err_nomem(e, "a program");
    if (call->kind == CHANNEL_COMPILE)
        rc = plugin_compile(&p->plugin, p->memory.bytes, call->bytes, call->what, &program, e);
    else
        rc = plugin_load(&p->plugin, p->memory.bytes, call->bytes, &program, e);
    if (rc) {
        put_back(p, i);
        return rc;
    }
    p->object[i].kind = OBJECT_PROGRAM;
    p->object[i].of.program = program;
    answer->object = object_number(p, i);
    return 0;
}

static int serialize(struct process *p, const struct channel_message *call, struct channel_message *answer,
                     struct err *e)
{
    size_t i = place_of(p, call->object, OBJECT_PROGRAM);
    struct buf bytes;
    int rc;

    if (i == SIZE_MAX)
        return no_sense(e, "program");
    buf_init(&bytes, MEM_ENGINE);
    if ((rc = plugin_serialize(&p->plugin, p->object[i].of.program, &bytes, e)) == 0 &&
        (rc = shared_reserve(&p->memory, bytes.len, e)) == 0 && bytes.len) {
        memcpy(p->memory.bytes, bytes.data, bytes.len);
        answer->bytes = bytes.len;
    }
    buf_fini(&bytes);
    return rc;
}

/* Returns the bytes of a tensor of the shape in CALL; SIZE_MAX: the shape or the type is wrong. */
static size_t upload_bytes(const struct channel_message *call)
{
    size_t n;

    if (call->type != DT_F32 && call->type != DT_BF16 && call->type != DT_I32 && call->type != DT_I8)
        return SIZE_MAX;
    n = dtype_bytes((enum dtype)call->type);
    for (size_t d = 0; d < call->n_dims; d++)
        if (d == CHANNEL_DIMS || __builtin_mul_overflow(n, call->dims[d], &n))
            return SIZE_MAX;
    return n;
}

static int upload(struct process *p, const struct channel_message *call, struct channel_message *answer,
                  struct err *e)
{
    size_t dims[CHANNEL_DIMS], i;
    struct pjrt_buffer *buffer;
    int rc;

    if (call->bytes == 0 || upload_bytes(call) != call->bytes)
        return no_sense(e, "shape");
    if ((i = new_object(p)) == SIZE_MAX)
        return err_nomem(e, "a buffer");
    for (size_t d = 0; d < call->n_dims; d++)
        dims[d] = call->dims[d];
    if ((rc = plugin_upload(&p->plugin, p->memory.bytes, (enum dtype)call->type, dims, (int)call->n_dims,
                            &buffer, e)) != 0)
        put_back(p, i);
    else
        answer->object = keep_buffer(p, i, buffer);
    return rc;
}

static int download(struct process *p, const struct channel_message *call, struct channel_message *answer,
                    struct err *e)
{
    size_t i = place_of(p, call->object, OBJECT_BUFFER);
    int rc;

    if (i == SIZE_MAX || call->bytes == 0)
        return no_sense(e, i == SIZE_MAX ? "buffer" : "length");
    rc = plugin_download(&p->plugin, p->object[i].of.buffer, p->memory.bytes, call->bytes, e);
    answer->bytes = rc ? 0 : call->bytes;
    return rc;
}

/* Runs program I of p->object with the arguments ARG [n_args], whose numbers are in shared memory. Makes the results
 * OUT [n_out] objects and writes their numbers to shared memory. */
static int run_with(struct process *p, size_t i, struct pjrt_buffer **arg, size_t n_args,
                    struct pjrt_buffer **out, size_t n_out, struct err *e)
{
    int rc;

    for (size_t k = 0; k < n_args; k++) {
        uint64_t number;
        size_t at;

        memcpy(&number, p->memory.bytes + k * sizeof(number), sizeof(number));
        if ((at = place_of(p, number, OBJECT_BUFFER)) == SIZE_MAX)
            return no_sense(e, "argument");
        arg[k] = p->object[at].of.buffer;
    }
    if ((rc = plugin_run(&p->plugin, p->object[i].of.program, arg, n_args, out, n_out, e)) != 0)
        return rc;
    for (size_t k = 0; k < n_out; k++) {
        size_t at = new_object(p);
        uint64_t number = 0;

        if (at != SIZE_MAX)
            number = keep_buffer(p, at, out[k]);
        else
            /* the results, and with them the caches, are lost; the engine makes new caches */
            rc = err_nomem(e, "a buffer");
        if (!out[k])
            rc = no_sense(e, "number of results");
        memcpy(p->memory.bytes + k * sizeof(number), &number, sizeof(number));
    }
    return rc;
}

static int run_program(struct process *p, const struct channel_message *call, struct channel_message *answer,
                       struct err *e)
{
    size_t i = place_of(p, call->object, OBJECT_PROGRAM), n_args = call->n[0], n_out = call->n[1];
    struct pjrt_buffer **buffer;
    int rc;

    if (i == SIZE_MAX)
        return no_sense(e, "program");
    if (n_args > CHANNEL_MOST_OBJECTS || n_out > CHANNEL_MOST_OBJECTS ||
        call->bytes != n_args * sizeof(uint64_t))
        return no_sense(e, "number of arguments");
    if (!(buffer = mem_zalloc(n_args + n_out + 1, sizeof(struct pjrt_buffer *), MEM_ENGINE)))
        return err_nomem(e, "the arguments of a program");
    if ((rc = shared_reserve(&p->memory, n_out * sizeof(uint64_t), e)) == 0 &&
        (rc = run_with(p, i, buffer, n_args, buffer + n_args, n_out, e)) == 0)
        answer->bytes = n_out * sizeof(uint64_t);
    mem_free(buffer);
    return rc;
}

static int free_objects(struct process *p, const struct channel_message *call, struct err *e)
{
    if (call->n[0] > CHANNEL_MOST_OBJECTS || call->bytes != call->n[0] * sizeof(uint64_t))
        return no_sense(e, "number of objects");
    for (size_t k = 0; k < call->n[0]; k++) {
        uint64_t number;
        size_t i;

        memcpy(&number, p->memory.bytes + k * sizeof(number), sizeof(number));
        if ((i = place_of(p, number, OBJECT_BUFFER)) == SIZE_MAX &&
            (i = place_of(p, number, OBJECT_PROGRAM)) == SIZE_MAX)
            return no_sense(e, "object");
        free_object(p, i);
    }
    return 0;
}

static int do_call(struct process *p, const struct channel_message *call, struct channel_message *answer,
                   struct err *e)
{
    if (!shared_reach(&p->memory, call->bytes))
        return no_sense(e, "length");
    if (call->kind == CHANNEL_HELLO)
        return hello(call, e);
    if (call->kind == CHANNEL_OPEN)
        return open_plugin(p, call, answer, e);
    if (!p->is_open)
        return err_set(e, ERR_INPUT, "pjrt: the plugin's process has no plugin yet");
    switch ((enum channel_kind)call->kind) {
    case CHANNEL_COMPILE:
    case CHANNEL_LOAD: return make_program(p, call, answer, e);
    case CHANNEL_SERIALIZE: return serialize(p, call, answer, e);
    case CHANNEL_UPLOAD: return upload(p, call, answer, e);
    case CHANNEL_DOWNLOAD: return download(p, call, answer, e);
    case CHANNEL_RUN: return run_program(p, call, answer, e);
    case CHANNEL_FREE: return free_objects(p, call, e);
    default: return no_sense(e, "kind");
    }
}

void process_answer(struct process *p, const struct channel_message *call, struct channel_message *answer)
{
    struct err e = {0}, none = {0};

    *answer =
        (struct channel_message){.version = CHANNEL_VERSION, .kind = call->kind, .number = call->number};
    answer->code = (uint32_t)do_call(p, call, answer, &e);
    if (answer->code == 0)
        return;
    answer->bytes = answer->object = 0;
    if (shared_reserve(&p->memory, sizeof(e.msg), &none) == 0) {
        answer->bytes = strlen(e.msg);
        memcpy(p->memory.bytes, e.msg, answer->bytes);
    }
}

/* ---- the life of the process ---- */

/* Ends the process SECONDS_TO_END after the other side has closed its socket or has ended. Watching the socket alone
 * does not suffice, because a fork of the other process may keep it open. */
static void *watch(void *arg)
{
    struct pollfd p = {.fd = CHANNEL_SOCKET, .events = POLLRDHUP};
    pid_t parent = *(const pid_t *)arg;

    while (poll(&p, 1, 1000) <= 0 && getppid() == parent)
        ;
    alarm(SECONDS_TO_END);
    shutdown(CHANNEL_SOCKET, SHUT_RDWR); /* wakes process_run() */
    return NULL;
}

static bool is_socket(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int process_run(struct err *e)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct channel_message call, answer;
    pid_t parent = getppid();
    struct thread watcher;
    struct process p;

    if (!is_socket(CHANNEL_SOCKET))
        return err_set(e, ERR_INPUT, "the verb " CHANNEL_VERB " is for engines, which start it");
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    if (thread_start(&watcher, watch, &parent) != 0)
        return err_set(e, ERR_OS, "pjrt: the plugin's process cannot start a thread");
    process_init(&p, CHANNEL_MEMORY);
    while (channel_receive(CHANNEL_SOCKET, &call, -1, NULL) == CHANNEL_GOOD) {
        process_answer(&p, &call, &answer);
        if (channel_send(CHANNEL_SOCKET, &answer) != CHANNEL_GOOD)
            break;
    }
    shutdown(CHANNEL_SOCKET, SHUT_RDWR);
    process_fini(&p);
    thread_join(&watcher);
    return 0;
}
