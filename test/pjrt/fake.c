/* fake.c - a PJRT plugin for tests, whose call of a chosen number fails. It computes no model: results are zeros.
 *
 * With FAKE_PJRT_FRAMES in the environment it knows the arguments of frames (frames.c): the rows of the first
 * cache are the tokens that were stored there, mixed with the cosines and sines of their rows if these are
 * inputs of the frame, and the token that follows a row is a hash of the rows of its slot up to it. A row
 * that was lost gives another token. fake_pjrt_inputs() gives the inputs of the last frame. Caches that a
 * failed run had taken over must not be used again.
 *
 * FAKE_PJRT_FAIL=N lets the N-th call that may fail return an error, or with FAKE_PJRT_HOW crash, exit, or hang until
 * fake_pjrt_let_go(), and with FAKE_PJRT_TIMES=M the M - 1 calls behind it. With FAKE_PJRT_STAY the end of a client
 * hangs. FAKE_PJRT_MAJOR gives the table another major version, and FAKE_PJRT_SMALL a smaller size. With FAKE_PJRT_KEEP
 * programs can be serialized; FAKE_PJRT_LIE makes their size wrong. With FAKE_PJRT_UNSURE, frames give logits only and
 * -1 as tokens. fake_pjrt_calls() and fake_pjrt_objects() tell the test how many calls there were and how many objects
 * exist, fake_pjrt_runs() how many runs of programs there were. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/pjrt/api.h"

enum { MAX_RESULTS = 128 };

/* An object of any type: an error, a buffer, a program, ... */
struct object {
    char text[2000];
    size_t bytes;                          /* of a buffer */
    size_t n_results, result[MAX_RESULTS]; /* of a program: bytes of its results */
    size_t rows[MAX_RESULTS];              /* of a program: the first dims of its results */
    size_t n_caches;                       /* of a program: the results that take over arguments */
    size_t n_copied;                       /* of a program that copies a slot: the rows */
    size_t n_frame;                        /* of a program of a frame: its rows, of all sequences together */
    size_t seen;                           /* of a program: the rows of a slot that it reads; 0: all */
    void *data;                            /* [bytes] of a buffer; NULL: zeros */
    int32_t *ids;                          /* of the first cache: [slots, rows] tokens */
    size_t n_slots, n_rows;                /* of a cache, or rows of hidden states */
    bool is_lost;                          /* a cache that was taken over */
};

static long n_calls, n_objects, n_runs;
static int client, device;
static const struct object *last_program; /* of which the executable was asked for last */
static char version[200];                 /* "fake" and the options of the client */
static int32_t inputs[1 << 16];           /* [n_inputs] of the last frame */
static size_t n_inputs;
static _Atomic int n_hanging; /* calls */
static _Atomic bool may_go;

long fake_pjrt_calls(void);
long fake_pjrt_objects(void);
long fake_pjrt_runs(void);
void fake_pjrt_reset(void);
int fake_pjrt_let_go(bool yes);
const int32_t *fake_pjrt_inputs(size_t *n);
const struct pjrt_api *GetPjrtApi(void);

long fake_pjrt_calls(void)
{
    return n_calls;
}

long fake_pjrt_objects(void)
{
    return n_objects;
}

long fake_pjrt_runs(void)
{
    return n_runs;
}

void fake_pjrt_reset(void)
{
    n_calls = n_runs = 0;
}

const int32_t *fake_pjrt_inputs(size_t *n)
{
    *n = n_inputs;
    return inputs;
}

static struct object *new_object(void)
{
    n_objects++;
    return calloc(1, sizeof(struct object));
}

static void free_object(void *p)
{
    if (p) {
        n_objects--;
        free(((struct object *)p)->data);
        free(((struct object *)p)->ids);
    }
    free(p);
}

static void hang(void)
{
    atomic_fetch_add(&n_hanging, 1);
    while (!atomic_load(&may_go))
        poll(NULL, 0, 1);
    atomic_fetch_sub(&n_hanging, 1);
}

/* Lets calls that hang return, for YES. Returns how many hang. */
int fake_pjrt_let_go(bool yes)
{
    atomic_store(&may_go, yes);
    return atomic_load(&n_hanging);
}

/* Returns an error if this call is to fail. */
static struct pjrt_error *fails(void)
{
    const char *n = getenv("FAKE_PJRT_FAIL"), *how = getenv("FAKE_PJRT_HOW"),
               *times = getenv("FAKE_PJRT_TIMES");
    long first = n ? atol(n) : 0;
    struct object *e;

    n_calls++;
    if (!first || n_calls < first || n_calls >= first + (times ? atol(times) : 1))
        return NULL;
    if (how && strcmp(how, "crash") == 0)
        raise(SIGKILL);
    if (how && strcmp(how, "exit") == 0)
        _exit(3);
    if (how && strcmp(how, "hang") == 0)
        hang();
    e = new_object();
    snprintf(e->text, sizeof(e->text), "call %ld\nfailed", n_calls);
    return (struct pjrt_error *)e;
}

static struct pjrt_error *error_destroy(void *args)
{
    free_object(((struct pjrt_error_destroy *)args)->error);
    return NULL;
}

static struct pjrt_error *error_message(void *args)
{
    struct pjrt_error_message *a = args;

    a->message = ((const struct object *)a->error)->text;
    a->message_size = strlen(a->message);
    return NULL;
}

static struct pjrt_error *nothing(void *args)
{
    (void)args;
    return fails();
}

static struct pjrt_error *event_destroy(void *args)
{
    free_object(((struct pjrt_event_call *)args)->event);
    return NULL;
}

/* Adds option O of the client to the text of the version. */
static void show_option(const struct pjrt_named *o)
{
    size_t at = strlen(version), room = sizeof(version) - at;

    if (o->name_size + 3 > room)
        return;
    at += (size_t)snprintf(version + at, room, " %.*s=", (int)o->name_size, o->name);
    room = sizeof(version) - at;
    switch (o->type) {
    case PJRT_NAMED_STRING: snprintf(version + at, room, "'%.*s'", (int)o->value_size, o->value.text); break;
    case PJRT_NAMED_INT64: snprintf(version + at, room, "%lld", (long long)o->value.integer); break;
    case PJRT_NAMED_FLOAT: snprintf(version + at, room, "%gf", (double)o->value.number); break;
    case PJRT_NAMED_BOOL: snprintf(version + at, room, o->value.flag ? "yes" : "no"); break;
    case PJRT_NAMED_INT64S:
        for (size_t i = 0; i < o->value_size; i++) {
            snprintf(version + at, sizeof(version) - at, "%c%lld", i ? ',' : '[',
                     (long long)o->value.integers[i]);
            at += strlen(version + at);
        }
        break;
    }
}

static struct pjrt_error *client_create(void *args)
{
    struct pjrt_client_create *a = args;
    struct pjrt_error *e = fails();

    if (e)
        return e;
    a->client = (struct pjrt_client *)&client;
    snprintf(version, sizeof(version), "fake");
    for (size_t i = 0; i < a->n_options; i++)
        show_option(&a->options[i]);
    return NULL;
}

static struct pjrt_error *client_destroy(void *args)
{
    (void)args;
    if (getenv("FAKE_PJRT_STAY"))
        hang();
    return NULL;
}

static struct pjrt_error *client_text(void *args)
{
    struct pjrt_client_text *a = args;

    a->text = "fake";
    a->size = 4;
    return fails();
}

static struct pjrt_error *client_version(void *args)
{
    struct pjrt_client_text *a = args;

    a->text = version;
    a->size = strlen(version);
    return fails();
}

static struct pjrt_error *client_devices(void *args)
{
    static struct pjrt_device *list[] = {(struct pjrt_device *)&device};
    struct pjrt_client_devices *a = args;

    a->devices = list;
    a->n_devices = 1;
    return fails();
}

static struct pjrt_error *device_description(void *args)
{
    ((struct pjrt_device_description *)args)->description = (struct pjrt_description *)&device;
    return fails();
}

static struct pjrt_error *refuse(struct object *o, const char *why)
{
    snprintf(o->text, sizeof(o->text), "%s", why);
    return (struct pjrt_error *)o;
}

/* FAKE_PJRT_MEMORY=SIZE,USED tells bytes of the device. */
static struct pjrt_error *device_memory(void *args)
{
    struct pjrt_device_memory *a = args;
    const char *text = getenv("FAKE_PJRT_MEMORY");
    struct pjrt_error *e = fails();
    long size, used;

    if (e || !text || sscanf(text, "%ld,%ld", &size, &used) != 2)
        return e;
    a->limit = size;
    a->limit_is_set = true;
    a->bytes_in_use = used;
    return NULL;
}

/* Returns the bytes of a type such as "tensor<2x8xbf16>" at P. */
static size_t type_bytes(const char *p)
{
    size_t bytes = 1;
    char *end;

    for (p += strlen("tensor<"); *p >= '0' && *p <= '9'; p = end + 1)
        bytes *= strtoul(p, &end, 10);
    return bytes * (strncmp(p, "bf16", 4) == 0 ? 2 : *p == 'i' ? strtoul(p + 1, &end, 10) / 8 : 4);
}

/* Reads the results of a program from the type of its function. */
static struct pjrt_error *compile(void *args)
{
    struct pjrt_client_compile *a = args;
    struct pjrt_error *e = fails();
    char *text, *p, *end;
    struct object *o;

    if (e)
        return e;
    o = new_object();
    if (!(text = calloc(a->program->code_size + 1, 1)))
        return refuse(o, "no memory");
    memcpy(text, a->program->code, a->program->code_size);
    for (const char *q = text; (q = strstr(q, "tf.aliasing_output")) != NULL; q++)
        o->n_caches++;
    if (strstr(text, "stablehlo.dynamic_update_slice") && (p = strstr(text, "sizes = [1, ")) != NULL)
        sscanf(p, "sizes = [1, %*u, %zu,", &o->n_copied);
    for (p = text; !o->seen && (p = strstr(p, "array<i64: 1, ")) != NULL; p++)
        if (sscanf(p, "array<i64: 1, %*u, %zu, %*u", &o->seen) != 1)
            o->seen = 0;
    if ((p = strstr(text, "stablehlo.slice %")) != NULL) /* the first input, which is the ids of all rows */
        sscanf(p, "stablehlo.slice %%%*u [0:%zu]", &o->n_frame);
    p = strstr(text, "-> (");
    for (end = p ? strstr(p, ") {\n") : NULL; end && (p = strstr(p, "tensor<")) != NULL && p < end; p++) {
        if (o->n_results == MAX_RESULTS)
            abort();
        o->rows[o->n_results] = strtoul(p + strlen("tensor<"), NULL, 10);
        o->result[o->n_results++] = type_bytes(p);
    }
    free(text);
    if (o->n_results == 0)
        return refuse(o, "no program");
    a->executable = (struct pjrt_loaded *)o;
    return NULL;
}

static struct pjrt_error *from_host(void *args)
{
    struct pjrt_from_host *a = args;
    struct pjrt_error *e = fails();
    struct object *o;

    if (e)
        return e;
    o = new_object();
    o->bytes = a->type == PJRT_S8 ? 1 : a->type == PJRT_BF16 ? 2 : 4;
    for (size_t i = 0; i < a->n_dims; i++)
        o->bytes *= (size_t)a->dims[i];
    if ((o->data = malloc(o->bytes ? o->bytes : 1)) != NULL)
        memcpy(o->data, a->data, o->bytes);
    if (a->n_dims == 4) {
        o->n_slots = (size_t)a->dims[0];
        o->n_rows = (size_t)a->dims[2];
    }
    a->buffer = (struct pjrt_buffer *)o;
    a->done = (struct pjrt_event *)new_object();
    return NULL;
}

static struct pjrt_error *free_program(void *args)
{
    free_object(((struct pjrt_loaded_call *)args)->executable);
    return NULL;
}

static struct pjrt_error *get_executable(void *args)
{
    struct pjrt_error *e = fails();

    if (e)
        return e;
    last_program = (const struct object *)((struct pjrt_loaded_executable *)args)->loaded;
    ((struct pjrt_loaded_executable *)args)->executable = (struct pjrt_executable *)new_object();
    return NULL;
}

static void free_serialized(struct pjrt_serialized *s)
{
    free_object(s);
}

/* Writes what compile() has found as text. */
static struct pjrt_error *serialize(void *args)
{
    const struct object *program = ((struct pjrt_serialize *)args)->executable ? last_program : NULL;
    struct pjrt_serialize *a = args;
    struct pjrt_error *e = fails();
    struct object *o;

    if (e || !getenv("FAKE_PJRT_KEEP"))
        return e;
    o = new_object();
    snprintf(o->text, sizeof(o->text), "caches %zu copies %zu sees %zu rows %zu ", program->n_caches,
             program->n_copied, program->seen, program->n_frame);
    for (size_t i = 0; i < program->n_results; i++)
        snprintf(o->text + strlen(o->text), sizeof(o->text) - strlen(o->text), "fake %zu %zu ",
                 program->result[i], program->rows[i]);
    a->bytes = o->text;
    a->size = getenv("FAKE_PJRT_LIE") ? (size_t)1 << 40 : strlen(o->text);
    a->serialized = (struct pjrt_serialized *)o;
    a->free_it = free_serialized;
    return NULL;
}

static struct pjrt_error *deserialize(void *args)
{
    struct pjrt_deserialize *a = args;
    struct pjrt_error *e = fails();
    struct object *o;
    char text[2000];
    const char *p = text;
    int n = 0;

    if (e)
        return e;
    o = new_object();
    snprintf(text, sizeof(text), "%.*s", (int)a->size, a->bytes);
    if (sscanf(p, "caches %zu copies %zu sees %zu rows %zu %n", &o->n_caches, &o->n_copied, &o->seen,
               &o->n_frame, &n) == 4)
        p += n;
    while (o->n_results < MAX_RESULTS &&
           sscanf(p, "fake %zu %zu %n", &o->result[o->n_results], &o->rows[o->n_results], &n) == 2) {
        o->n_results++;
        p += n;
    }
    if (o->n_results) {
        a->executable = (struct pjrt_loaded *)o;
        return NULL;
    }
    return refuse(o, "no program");
}

static struct pjrt_error *free_executable(void *args)
{
    free_object(((struct pjrt_executable_call *)args)->executable);
    return NULL;
}

/* ---- frames ---- */

/* The objects of a run. */
struct frame {
    const struct object *program;
    struct object **arg, **out;
    /* [n_in] ids, positions, slots and rows of T rows; slots; cosines and sines; wanted rows [n_wanted] */
    const int32_t *in;
    size_t n_in, T, n_wanted;
};

/* Takes over the caches of F. A cache that was taken over before is an error of the engine. */
static void take_caches(struct frame *f)
{
    for (size_t i = 0; i < f->program->n_caches; i++) {
        struct object *from = f->arg[1 + i], *to = f->out ? f->out[i] : NULL;

        if (from->is_lost)
            abort();
        from->is_lost = true;
        if (!to)
            continue;
        to->n_slots = from->n_slots;
        to->n_rows = from->n_rows;
        to->ids = from->ids;
        from->ids = NULL;
    }
}

/* Returns a hash of the first N rows of SLOT, as far as PROGRAM reads them. */
static uint64_t hash_of(const struct object *program, const struct object *cache, size_t slot, size_t n)
{
    uint64_t h = 1;

    for (size_t i = 0; i < n && (!program->seen || i < program->seen); i++)
        h = (h ^ (uint32_t)cache->ids[slot * cache->n_rows + i]) * 0x9e3779b97f4a7c15u + 1;
    return h;
}

/* Writes logits and best tokens of row W, whose hash is H. */
static void put_token(struct frame *f, size_t w, uint64_t h)
{
    struct object *logits = f->out[f->program->n_caches], *best = f->out[f->program->n_caches + 1];
    size_t V = logits->bytes / 4 / f->n_wanted, id = (size_t)(h >> 40) % V;

    if (!logits->data)
        logits->data = calloc(1, logits->bytes);
    if (!best->data)
        best->data = calloc(1, best->bytes);
    ((float *)logits->data)[w * V + id] = 100;
    ((int32_t *)best->data)[w] = (int32_t)id;
}

/* Returns a hash of the cosines [T, half] and sines [T, half] of row I, which lie before the wanted rows; 0:
 * there are none. There are at least as many rows as sequences. */
static uint32_t hash_of_angles(const struct frame *f, size_t i)
{
    size_t half = (f->n_in - 4 * f->T - f->n_wanted - 1) / f->T / 2;
    const int32_t *cos = f->in + f->n_in - f->n_wanted - 2 * half * f->T;
    uint32_t h = 0;

    for (size_t k = 0; k < half; k++) {
        h = (h ^ (uint32_t)cos[i * half + k]) * 0x9e3779b1u;
        h = (h ^ (uint32_t)cos[(f->T + i) * half + k]) * 0x85ebca77u;
    }
    return h;
}

/* Stores the tokens of the T rows, and computes the wanted rows. Hidden states begin with the hash of their
 * row. */
static void compute_rows(struct frame *f)
{
    struct object *cache = f->out[0];
    size_t n_caches = f->program->n_caches, n_hidden = f->program->n_results - n_caches - 2;

    if (!cache->ids)
        cache->ids = calloc(cache->n_slots * cache->n_rows, sizeof(*cache->ids));
    f->T = f->program->n_frame;
    if (f->T == 0)
        abort();
    n_inputs = f->n_in < sizeof(inputs) / sizeof(inputs[0]) ? f->n_in : 0;
    memcpy(inputs, f->in, n_inputs * sizeof(*inputs));
    for (size_t i = 0; i < f->T; i++) {
        size_t slot = (size_t)f->in[2 * f->T + i], row = (size_t)f->in[3 * f->T + i];

        if (slot >= cache->n_slots || row >= cache->n_rows)
            abort();
        cache->ids[slot * cache->n_rows + row] = (int32_t)((uint32_t)f->in[i] ^ hash_of_angles(f, i));
    }
    for (size_t w = 0; w < f->n_wanted; w++) {
        size_t row = (size_t)f->in[f->n_in - f->n_wanted + w];

        put_token(f, w,
                  hash_of(f->program, cache, (size_t)f->in[2 * f->T + row], 1 + (size_t)f->in[f->T + row]));
    }
    for (size_t k = 0; k < n_hidden; k++) {
        struct object *hidden = f->out[n_caches + 2 + k];
        size_t row_bytes = hidden->bytes / f->T;

        hidden->data = calloc(1, hidden->bytes);
        hidden->n_rows = f->T;
        for (size_t i = 0; i < f->T; i++) {
            uint64_t h = hash_of(f->program, cache, (size_t)f->in[2 * f->T + i], 1 + (size_t)f->in[f->T + i]);

            memcpy((char *)hidden->data + i * row_bytes, &h, sizeof(h));
        }
    }
}

static void copy_slot(struct frame *f)
{
    struct object *cache = f->out[0];

    if (cache->ids)
        memcpy(cache->ids + (size_t)f->in[1] * cache->n_rows, cache->ids + (size_t)f->in[0] * cache->n_rows,
               f->program->n_copied * sizeof(*cache->ids));
}

/* Computes the wanted rows of hidden states. */
static void compute_head(struct frame *f)
{
    const struct object *hidden = f->arg[1];
    size_t row_bytes = hidden->bytes / hidden->n_rows;

    for (size_t w = 0; w < f->n_wanted; w++) {
        uint64_t h;

        memcpy(&h, (const char *)hidden->data + (size_t)f->in[w] * row_bytes, sizeof(h));
        put_token(f, w, h);
    }
}

static struct pjrt_error *execute(void *args)
{
    struct pjrt_execute *a = args;
    const struct object *program = (const struct object *)a->executable;
    struct pjrt_error *e = fails();
    struct frame f = {.program = program, .arg = (struct object **)(uintptr_t)a->arguments[0]};
    bool is_frame = getenv("FAKE_PJRT_FRAMES") != NULL;

    if (e) {
        if (is_frame)
            take_caches(&f);
        return e;
    }
    n_runs++;
    f.out = (struct object **)a->outputs[0];
    for (size_t i = 0; i < program->n_results; i++) {
        f.out[i] = new_object();
        f.out[i]->bytes = program->result[i];
    }
    if (is_frame) {
        f.in = f.arg[0]->data;
        f.n_in = f.arg[0]->bytes / 4;
        f.n_wanted = program->result[program->n_caches + 1] / 4;
        take_caches(&f);
        if (program->n_copied)
            copy_slot(&f);
        else if (program->n_caches)
            compute_rows(&f);
        else
            compute_head(&f);
    }
    if (is_frame && !program->n_copied && getenv("FAKE_PJRT_UNSURE"))
        memset(f.out[program->n_caches + 1]->data, 0xff, program->result[program->n_caches + 1]);
    if (a->complete)
        a->complete[0] = (struct pjrt_event *)new_object();
    return NULL;
}

static struct pjrt_error *free_buffer(void *args)
{
    free_object(((struct pjrt_buffer_call *)args)->buffer);
    return NULL;
}

static struct pjrt_error *to_host(void *args)
{
    struct pjrt_to_host *a = args;
    struct pjrt_error *e = fails();

    if (e)
        return e;
    if (a->size != ((const struct object *)a->from)->bytes)
        return refuse(new_object(), "another size");
    if (((const struct object *)a->from)->data)
        memcpy(a->to, ((const struct object *)a->from)->data, a->size);
    else
        memset(a->to, 0, a->size);
    a->event = (struct pjrt_event *)new_object();
    return NULL;
}

const struct pjrt_api *GetPjrtApi(void)
{
    static struct pjrt_api api = {.function = {[PJRT_ERROR_DESTROY] = error_destroy,
                                               [PJRT_ERROR_MESSAGE] = error_message,
                                               [PJRT_PLUGIN_INITIALIZE] = nothing,
                                               [PJRT_EVENT_DESTROY] = event_destroy,
                                               [PJRT_EVENT_AWAIT] = nothing,
                                               [PJRT_CLIENT_CREATE] = client_create,
                                               [PJRT_CLIENT_DESTROY] = client_destroy,
                                               [PJRT_CLIENT_PLATFORM_NAME] = client_text,
                                               [PJRT_CLIENT_PLATFORM_VERSION] = client_version,
                                               [PJRT_CLIENT_ADDRESSABLE_DEVICES] = client_devices,
                                               [PJRT_CLIENT_COMPILE] = compile,
                                               [PJRT_CLIENT_BUFFER_FROM_HOST] = from_host,
                                               [PJRT_DESCRIPTION_KIND] = client_text,
                                               [PJRT_DEVICE_DESCRIPTION] = device_description,
                                               [PJRT_DEVICE_MEMORY_STATS] = device_memory,
                                               [PJRT_EXECUTABLE_DESTROY] = free_executable,
                                               [PJRT_EXECUTABLE_SERIALIZE] = serialize,
                                               [PJRT_LOADED_DESTROY] = free_program,
                                               [PJRT_LOADED_EXECUTABLE] = get_executable,
                                               [PJRT_LOADED_EXECUTE] = execute,
                                               [PJRT_DESERIALIZE_AND_LOAD] = deserialize,
                                               [PJRT_BUFFER_DESTROY] = free_buffer,
                                               [PJRT_BUFFER_TO_HOST] = to_host}};
    const char *major = getenv("FAKE_PJRT_MAJOR");

    api.struct_size = getenv("FAKE_PJRT_SMALL") ? 200 : sizeof(api);
    api.version.major = major ? atoi(major) : PJRT_MAJOR;
    return &api;
}
