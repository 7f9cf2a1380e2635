/* remote.c - sends the calls of plugin.h to the process of a plugin. */
#include "engine/pjrt/remote.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/files/shared.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/pjrt/channel.h"
#include "engine/pjrt/child.h"
#include "engine/pjrt/plugin_source.h"

enum {
    MOST_FREED = 512,
    KEPT_BYTES = 32 << 20, /* after a call, shared memory beyond this size is freed */
};

/* Time limits in seconds for the process to end, before it is killed: CLOSE_S after the engine has closed the socket,
 * DEATH_S after the process has closed it. */
#define CLOSE_S 0.8
#define DEATH_S 1.0

struct remote {
    struct child child;
    struct shared memory;
    uint64_t number; /* number of the last call */
    uint64_t freed[MOST_FREED];
    size_t n_freed; /* objects to be freed before the next call */
    double step_seconds;
    const _Atomic bool *is_stopped; /* borrowed from the source */
    bool is_dead;
    struct err why; /* why the process has ended */
};

static const char *const names[CHANNEL_N_KINDS] = {
    [CHANNEL_HELLO] = "hello",         [CHANNEL_OPEN] = "open",
    [CHANNEL_COMPILE] = "compile",     [CHANNEL_LOAD] = "load",
    [CHANNEL_SERIALIZE] = "serialize", [CHANNEL_UPLOAD] = "upload",
    [CHANNEL_DOWNLOAD] = "download",   [CHANNEL_RUN] = "run",
    [CHANNEL_FREE] = "free",
};

/* ---- a call ---- */

static int dead(const struct remote *r, struct err *e)
{
    return err_set(e, ERR_OS, "%s", r->why.msg);
}

/* Ends the process and keeps the reason in r->why: a call of KIND, with a limit of SECONDS, had the RESULT. */
static void die(struct remote *r, enum channel_result result, uint32_t kind, double seconds)
{
    char how[96];

    child_end(&r->child, result == CHANNEL_CLOSED ? DEATH_S : 0, how, sizeof(how));
    r->is_dead = true;
    if (result == CHANNEL_LATE)
        err_set(&r->why, ERR_OS,
                "pjrt: the plugin's process did not answer the call \"%s\" within %g s and %s", names[kind],
                seconds, how);
    else if (result == CHANNEL_STOPPED)
        err_set(&r->why, ERR_OS,
                "pjrt: the plugin's process %s during the call \"%s\", because the engine is closed", how,
                names[kind]);
    else if (result == CHANNEL_WRONG)
        err_set(&r->why, ERR_OS, "pjrt: the plugin's process gave a wrong answer to the call \"%s\" and %s",
                names[kind], how);
    else
        err_set(&r->why, ERR_OS, "pjrt: the plugin's process %s", how);
}

/* Returns whether A is a valid answer to M, and maps its data. */
static bool is_answer(struct remote *r, const struct channel_message *m, const struct channel_message *a)
{
    if (a->kind != m->kind || a->number != m->number || a->code > ERR_CANCELLED)
        return false;
    if (a->code)
        return a->bytes < sizeof(r->why.msg) && shared_reach(&r->memory, a->bytes);
    return a->bytes <= SIZE_MAX / 2 && shared_reach(&r->memory, a->bytes);
}

/* Sets E to the error that the answer A reports. */
static int take_error(const struct remote *r, const struct channel_message *a, struct err *e)
{
    char text[sizeof(e->msg)];
    size_t n = a->bytes;

    if (n)
        memcpy(text, r->memory.bytes, n);
    text[n] = 0;
    utf8_one_line(text); /* errors are one line */
    return err_set(e, (int)a->code, "%s", *text ? text : "pjrt: the plugin's process gave no reason");
}

/* Sends the call M, whose data are in shared memory, waits up to SECONDS, and overwrites M with the answer. */
static int call_remote(struct remote *r, struct channel_message *m, double seconds, struct err *e)
{
    enum channel_result result;
    struct channel_message a;
    int rc = 0;

    if (r->is_dead)
        return dead(r, e);
    if (atomic_load(r->is_stopped)) /* the process is idle, and ends by itself in remote_close() */
        return err_set(e, ERR_CANCELLED, "pjrt: the engine is closed");
    m->version = CHANNEL_VERSION;
    m->number = ++r->number;
    if ((result = channel_send(r->child.socket, m)) == CHANNEL_GOOD)
        result = channel_receive(r->child.socket, &a, seconds, r->is_stopped);
    if (result == CHANNEL_GOOD && !is_answer(r, m, &a))
        result = CHANNEL_WRONG;
    if (result != CHANNEL_GOOD) {
        die(r, result, m->kind, seconds);
        return dead(r, e);
    }
    if (a.code)
        rc = take_error(r, &a, e);
    *m = a;
    return rc;
}

/* Frees the objects of remote_free() in the process. If that fails, the process is ended, because it does not know its
 * own numbers. */
static int free_collected(struct remote *r, struct err *e)
{
    struct channel_message m = {
        .kind = CHANNEL_FREE, .n = {r->n_freed}, .bytes = r->n_freed * sizeof(r->freed[0])};
    int rc;

    if (r->is_dead)
        return dead(r, e);
    if (r->n_freed == 0)
        return 0;
    if ((rc = shared_reserve(&r->memory, m.bytes, e)) != 0)
        return rc;
    memcpy(r->memory.bytes, r->freed, m.bytes);
    r->n_freed = 0;
    if ((rc = call_remote(r, &m, r->step_seconds, e)) != 0 && !r->is_dead && !atomic_load(r->is_stopped))
        die(r, CHANNEL_WRONG, CHANNEL_FREE, 0);
    return rc;
}

/* Prepares a call with BYTES bytes of data: copies DATA, unless it is NULL, to shared memory. */
static int begin_call(struct remote *r, const void *data, size_t bytes, struct err *e)
{
    int rc = free_collected(r, e);

    if (rc || (rc = shared_reserve(&r->memory, bytes, e)) != 0)
        return rc;
    if (data && bytes)
        memcpy(r->memory.bytes, data, bytes);
    return 0;
}

/* Ends the process after an incomplete answer to a call of KIND. */
static int refuse_answer(struct remote *r, enum channel_kind kind, struct err *e)
{
    die(r, CHANNEL_WRONG, kind, 0);
    return dead(r, e);
}

/* ---- the process ---- */

static bool is_terminated(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

/* Sends CHANNEL_HELLO and CHANNEL_OPEN, and receives the plugin's facts. */
static int open_plugin(struct remote *r, const struct plugin_source *s, struct channel_facts *facts,
                       struct err *e)
{
    size_t n_path = strlen(s->path), n_json = s->json ? strlen(s->json) : 0;
    struct channel_message m = {.kind = CHANNEL_HELLO};
    int rc;

    snprintf(m.what, sizeof(m.what), "%s", GALLOP_VERSION);
    if ((rc = call_remote(r, &m, r->step_seconds, e)) != 0)
        return rc;
    m = (struct channel_message){
        .kind = CHANNEL_OPEN, .object = s->device, .n = {n_path, n_json}, .bytes = n_path + n_json};
    if ((rc = begin_call(r, NULL, m.bytes, e)) != 0)
        return rc;
    memcpy(r->memory.bytes, s->path, n_path);
    if (n_json)
        memcpy(r->memory.bytes + n_path, s->json, n_json);
    if ((rc = call_remote(r, &m, REMOTE_OPEN_SECONDS, e)) != 0)
        return rc;
    if (m.bytes != sizeof(*facts))
        return refuse_answer(r, CHANNEL_OPEN, e);
    memcpy(facts, r->memory.bytes, sizeof(*facts));
    if (!is_terminated(facts->platform, sizeof(facts->platform)) ||
        !is_terminated(facts->version, sizeof(facts->version)) ||
        !is_terminated(facts->kind, sizeof(facts->kind)))
        return refuse_answer(r, CHANNEL_OPEN, e);
    utf8_printable(facts->platform);
    utf8_printable(facts->version);
    utf8_printable(facts->kind);
    return 0;
}

static struct remote *new_remote(const struct plugin_source *s)
{
    struct remote *r = mem_zalloc(1, sizeof(*r), MEM_ENGINE);

    if (!r)
        return NULL;
    r->child = (struct child){.socket = -1, .output = -1};
    r->memory.fd = -1;
    r->is_stopped = &s->is_stopped;
    r->step_seconds = s->step_seconds > 0 ? s->step_seconds : REMOTE_STEP_SECONDS;
    return r;
}

int remote_open(struct remote **out, const struct plugin_source *s, struct channel_facts *facts,
                struct err *e)
{
    struct remote *r = new_remote(s);
    int rc;

    *out = NULL;
    if (!r)
        return err_nomem(e, "the plugin's process");
    if ((rc = shared_new(&r->memory, e)) == 0 && (rc = child_start(&r->child, r->memory.fd, e)) == 0)
        rc = open_plugin(r, s, facts, e);
    if (rc)
        remote_close(r);
    else
        *out = r;
    return rc;
}

int remote_attach(struct remote **out, int socket, int memory, const struct plugin_source *s,
                  struct channel_facts *facts, struct err *e)
{
    struct remote *r = new_remote(s);
    int rc;

    *out = NULL;
    if (!r)
        return err_nomem(e, "the plugin's process");
    shared_take(&r->memory, memory);
    r->child.socket = socket;
    if ((rc = open_plugin(r, s, facts, e)) != 0)
        remote_close(r);
    else
        *out = r;
    return rc;
}

void remote_close(struct remote *r)
{
    if (!r)
        return;
    child_end(&r->child, CLOSE_S, NULL, 0);
    shared_close(&r->memory);
    mem_free(r);
}

/* ---- programs ---- */

/* Sets *OUT to the object in M, the answer to a call of KIND. */
static int take_object(struct remote *r, const struct channel_message *m, void **out, struct err *e)
{
    if (m->object == 0)
        return refuse_answer(r, (enum channel_kind)m->kind, e);
    *out = (void *)(uintptr_t)m->object;
    return 0;
}

static int make_program(struct remote *r, struct channel_message *m, const void *data, size_t n,
                        struct pjrt_loaded **out, struct err *e)
{
    void *object = NULL;
    int rc;

    m->bytes = n;
    if ((rc = begin_call(r, data, n, e)) == 0 && (rc = call_remote(r, m, REMOTE_OPEN_SECONDS, e)) == 0)
        rc = take_object(r, m, &object, e);
    *out = object;
    shared_drop(&r->memory, KEPT_BYTES);
    return rc;
}

int remote_compile(struct remote *r, const char *text, size_t n, const char *what, struct pjrt_loaded **out,
                   struct err *e)
{
    struct channel_message m = {.kind = CHANNEL_COMPILE};

    snprintf(m.what, sizeof(m.what), "%s", what);
    return make_program(r, &m, text, n, out, e);
}

int remote_load(struct remote *r, const void *bytes, size_t n, struct pjrt_loaded **out, struct err *e)
{
    struct channel_message m = {.kind = CHANNEL_LOAD};

    return make_program(r, &m, bytes, n, out, e);
}

int remote_serialize(struct remote *r, struct pjrt_loaded *program, struct buf *out, struct err *e)
{
    struct channel_message m = {.kind = CHANNEL_SERIALIZE, .object = (uintptr_t)program};
    int rc = begin_call(r, NULL, 0, e);

    if (rc || (rc = call_remote(r, &m, REMOTE_OPEN_SECONDS, e)) != 0)
        return rc;
    if (m.bytes > CHANNEL_MOST_PROGRAM)
        return refuse_answer(r, CHANNEL_SERIALIZE, e);
    if (m.bytes)
        buf_add(out, r->memory.bytes, m.bytes);
    shared_drop(&r->memory, KEPT_BYTES);
    return out->oom ? err_nomem(e, "a compiled program") : 0;
}

/* ---- buffers ---- */

void *remote_staging(struct remote *r, size_t bytes)
{
    return begin_call(r, NULL, bytes, NULL) == 0 ? r->memory.bytes : NULL;
}

int remote_upload(struct remote *r, const void *data, enum dtype type, const size_t *dims, int n_dims,
                  struct pjrt_buffer **out, struct err *e)
{
    struct channel_message m = {.kind = CHANNEL_UPLOAD, .type = (uint32_t)type, .n_dims = (uint64_t)n_dims};
    size_t bytes = dtype_bytes(type);
    void *object = NULL;
    int rc = 0;

    *out = NULL;
    for (int d = 0; d < n_dims; d++) {
        if (d == CHANNEL_DIMS || __builtin_mul_overflow(bytes, dims[d], &bytes))
            return err_nomem(e, "a buffer");
        m.dims[d] = dims[d];
    }
    m.bytes = bytes;
    /* otherwise the data are in shared memory already (remote_staging()) */
    if (!data || data != r->memory.bytes)
        rc = begin_call(r, data, bytes, e);
    if (rc == 0 && (rc = call_remote(r, &m, r->step_seconds, e)) == 0)
        rc = take_object(r, &m, &object, e);
    *out = object;
    if (bytes > KEPT_BYTES)
        shared_drop(&r->memory, KEPT_BYTES);
    return rc;
}

int remote_download(struct remote *r, struct pjrt_buffer *buffer, void *to, size_t bytes, struct err *e)
{
    struct channel_message m = {.kind = CHANNEL_DOWNLOAD, .object = (uintptr_t)buffer, .bytes = bytes};
    int rc = begin_call(r, NULL, bytes, e);

    if (rc || (rc = call_remote(r, &m, r->step_seconds, e)) != 0)
        return rc;
    if (m.bytes != bytes)
        return refuse_answer(r, CHANNEL_DOWNLOAD, e);
    memcpy(to, r->memory.bytes, bytes);
    return 0;
}

int remote_run(struct remote *r, struct pjrt_loaded *program, struct pjrt_buffer *const *arg, size_t n_args,
               struct pjrt_buffer **out, size_t n_out, struct err *e)
{
    struct channel_message m = {.kind = CHANNEL_RUN,
                                .object = (uintptr_t)program,
                                .n = {n_args, n_out},
                                .bytes = n_args * sizeof(uint64_t)};
    uint64_t number;
    int rc;

    memset(out, 0, n_out * sizeof(*out));
    if ((rc = begin_call(r, NULL, m.bytes, e)) != 0)
        return rc;
    for (size_t i = 0; i < n_args; i++) {
        number = (uintptr_t)arg[i];
        memcpy(r->memory.bytes + i * sizeof(number), &number, sizeof(number));
    }
    if ((rc = call_remote(r, &m, r->step_seconds, e)) != 0)
        return rc;
    if (m.bytes != n_out * sizeof(number))
        return refuse_answer(r, CHANNEL_RUN, e);
    for (size_t i = 0; i < n_out; i++) {
        memcpy(&number, r->memory.bytes + i * sizeof(number), sizeof(number));
        out[i] = (struct pjrt_buffer *)(uintptr_t)number;
    }
    for (size_t i = 0; i < n_out; i++)
        if (!out[i]) {
            memset(out, 0, n_out * sizeof(*out));
            return refuse_answer(r, CHANNEL_RUN, e);
        }
    return 0;
}

bool remote_is_dead(const struct remote *r)
{
    return r->is_dead;
}

void remote_free(struct remote *r, const void *object)
{
    if (r->is_dead)
        return;
    if (r->n_freed == MOST_FREED)
        free_collected(r, NULL);
    if (r->n_freed < MOST_FREED)
        r->freed[r->n_freed++] = (uintptr_t)object;
}
