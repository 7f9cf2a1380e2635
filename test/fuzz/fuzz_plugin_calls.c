/* fuzz_plugin_calls.c - both ends of the channel to the process of a PJRT plugin. If the first byte of an input is
 * even, the rest is calls to the process, which has the plugin test/pjrt/fake.c; otherwise it is answers to an engine,
 * with any contents of the shared memory. The process must answer each call and free all objects in the end; the
 * engine must return an error or what was asked for. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/pjrt/channel.h"
#include "engine/pjrt/plugin.h"
#include "engine/pjrt/process.h"
#include "engine/pjrt/remote.h"

enum { MOST_CALLS = 100, MOST_SEEN = 64, MEMORY = 1 << 16 };

/* The bytes of an input; zeros come after its end. */
struct input {
    const uint8_t *at, *end;
};

static uint64_t take(struct input *in, size_t n_bytes)
{
    uint64_t x = 0;

    for (size_t i = 0; i < n_bytes && in->at < in->end; i++)
        x = x << 8 | *in->at++;
    return x;
}

static void fill(struct input *in, void *to, size_t n)
{
    size_t left = (size_t)(in->end - in->at);

    memset(to, 0, n);
    memcpy(to, in->at, n < left ? n : left);
    in->at += n < left ? n : left;
}

/* ---- calls to the process ---- */

static const char program_text[] = "{tf.aliasing_output = 0} -> (tensor<9xf32>, tensor<2x3xf32>) {\n";

/* Numbers that the process has given. */
struct seen {
    uint64_t number[MOST_SEEN];
    size_t n;
};

static uint64_t any_object(struct input *in, const struct seen *s)
{
    size_t which = (size_t)take(in, 1);

    return which < 250 && s->n ? s->number[which % s->n] : take(in, 8);
}

static void make_data(struct input *in, const struct seen *s, struct channel_message *m, char *bytes)
{
    const char *text = m->kind == CHANNEL_COMPILE ? program_text : "fake 36 9 fake 24 2 ";
    uint64_t number;

    switch (m->kind) {
    case CHANNEL_OPEN:
        m->n[0] = strlen(FAKE_PJRT);
        memcpy(bytes, FAKE_PJRT, m->n[0]);
        m->n[1] = take(in, 1);
        fill(in, bytes + m->n[0], m->n[1]);
        m->bytes = m->n[0] + m->n[1];
        m->object = take(in, 1) & 1;
        break;
    case CHANNEL_COMPILE:
    case CHANNEL_LOAD:
        m->bytes = strlen(text);
        memcpy(bytes, text, m->bytes);
        break;
    case CHANNEL_RUN:
    case CHANNEL_FREE:
        m->n[0] = take(in, 1) & 15;
        m->n[1] = 2 + (take(in, 1) & 1); /* the program writes two */
        m->bytes = m->n[0] * sizeof(number);
        for (size_t i = 0; i < m->n[0]; i++) {
            number = any_object(in, s);
            memcpy(bytes + i * sizeof(number), &number, sizeof(number));
        }
        break;
    case CHANNEL_UPLOAD:
        m->type = (uint32_t)take(in, 1) % 8;
        m->n_dims = take(in, 1) % 10;
        for (size_t d = 0; d < CHANNEL_DIMS; d++)
            m->dims[d] = d < m->n_dims ? take(in, 1) : 0;
        m->bytes = take(in, 2);
        break;
    default: m->bytes = take(in, 2); break;
    }
}

static void check_answer(const struct process *p, const struct channel_message *call,
                         const struct channel_message *answer)
{
    ASSERT(answer->kind == call->kind && answer->number == call->number &&
           answer->version == CHANNEL_VERSION);
    ASSERT(answer->code <= ERR_CANCELLED && answer->bytes <= p->memory.n_mapped);
    if (answer->code)
        ASSERT(answer->bytes > 0 && answer->bytes < 1024 && answer->object == 0);
}

/* A call whose numbers mean nothing. The data are what lies there, and no program but ours is compiled or run. */
static bool make_wild(struct input *in, struct channel_message *m)
{
    struct channel_message wild;

    fill(in, &wild, sizeof(wild));
    wild.kind = m->kind;
    wild.what[sizeof(wild.what) - 1] = 0; /* as channel_receive() has checked */
    wild.bytes &= take(in, 1) & 1 ? UINT64_MAX : MEMORY - 1;
    *m = wild;
    return m->kind != CHANNEL_COMPILE && m->kind != CHANNEL_LOAD && m->kind != CHANNEL_RUN &&
           m->kind != CHANNEL_OPEN;
}

static void call_process(struct input *in)
{
    struct channel_message call, answer;
    struct seen seen = {.n = 0};
    struct shared memory;
    struct process p;

    ASSERT(shared_new(&memory, NULL) == 0 && shared_reserve(&memory, MEMORY, NULL) == 0);
    process_init(&p, dup(memory.fd));
    for (uint64_t n = 1; n <= MOST_CALLS && in->at < in->end; n++) {
        uint64_t kind = take(in, 1);

        call =
            (struct channel_message){.version = CHANNEL_VERSION, .kind = (uint32_t)(kind & 15), .number = n};
        if (n == 1)
            call.kind = CHANNEL_OPEN;
        call.object = any_object(in, &seen);
        if (kind & 128 && n > 1) {
            if (!make_wild(in, &call))
                continue;
        } else {
            make_data(in, &seen, &call, memory.bytes);
        }
        process_answer(&p, &call, &answer);
        check_answer(&p, &call, &answer);
        if (answer.object)
            seen.number[seen.n++ % MOST_SEEN] = answer.object;
        for (size_t i = 0; call.kind == CHANNEL_RUN && i < answer.bytes / sizeof(uint64_t) && !answer.code;
             i++)
            memcpy(&seen.number[seen.n++ % MOST_SEEN], p.memory.bytes + i * sizeof(uint64_t),
                   sizeof(uint64_t));
        seen.n = seen.n > MOST_SEEN ? MOST_SEEN : seen.n;
    }
    process_fini(&p);
    shared_close(&memory);
}

/* ---- answers to the engine ---- */

static void ask(struct plugin *p)
{
    static const float x[6];
    const size_t dims[] = {2, 3};
    struct pjrt_loaded *program = NULL;
    struct pjrt_buffer *in = NULL, *out[2] = {NULL, NULL};
    struct err e = {0};
    struct buf bytes;
    float y[6];
    int rc = plugin_compile(p, program_text, sizeof(program_text), "x", &program, &e);

    ASSERT((rc == 0) == (program != NULL) && (rc == 0 || (e.msg[0] && !strchr(e.msg, '\n'))));
    rc = plugin_upload(p, x, DT_F32, dims, 2, &in, &e);
    ASSERT((rc == 0) == (in != NULL));
    rc = plugin_run(p, program, &in, 1, out, 2, &e);
    ASSERT((rc == 0) == (out[0] != NULL) && (rc == 0) == (out[1] != NULL));
    rc = plugin_download(p, out[0], y, sizeof(y), &e);
    buf_init(&bytes, MEM_ENGINE);
    rc = plugin_serialize(p, program, &bytes, &e);
    ASSERT(rc == 0 || bytes.len == 0);
    buf_fini(&bytes);
    plugin_free_buffer(p, in);
    plugin_free_program(p, program);
    rc = plugin_load(p, "x", 1, &program, &e);
    ASSERT((rc == 0) == (program != NULL));
}

/* Sends answers in the order of ask(), most of which fit. */
static void send_answers(struct input *in, int socket)
{
    static const enum channel_kind order[] = {CHANNEL_HELLO,     CHANNEL_OPEN, CHANNEL_COMPILE,
                                              CHANNEL_UPLOAD,    CHANNEL_RUN,  CHANNEL_DOWNLOAD,
                                              CHANNEL_SERIALIZE, CHANNEL_FREE, CHANNEL_LOAD};
    static const size_t bytes[] = {0, sizeof(struct channel_facts), 0, 0, 16, 24, 100, 0, 0};
    char sent[256] = {0}; /* a message may be longer, too */

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && in->at < in->end; i++) {
        struct channel_message m = {.version = CHANNEL_VERSION,
                                    .kind = order[i],
                                    .number = i + 1,
                                    .bytes = bytes[i],
                                    .object = i + 1};
        uint64_t how = take(in, 1);

        if (how & 1)
            m.code = (uint32_t)take(in, 1) % 10;
        if (how & 2)
            m.bytes = take(in, how & 64 ? 8 : 2);
        if (how & 4)
            m.object = take(in, 8);
        if (how & 8)
            m.number = take(in, 8);
        if (how & 16)
            fill(in, &m, sizeof(m));
        memcpy(sent, &m, sizeof(m));
        if (send(socket, sent, how & 32 ? (size_t)take(in, 1) : sizeof(m), MSG_DONTWAIT) < 0)
            return;
    }
}

static void answer_engine(struct input *in)
{
    struct plugin_source s = {.path = "x", .step_seconds = 1};
    struct channel_facts facts;
    struct plugin p = {.path = "x"};
    struct shared memory;
    struct err e = {0};
    int sockets[2];

    ASSERT(shared_new(&memory, NULL) == 0 && shared_reserve(&memory, MEMORY, NULL) == 0);
    ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    send_answers(in, sockets[1]);
    shutdown(sockets[1], SHUT_WR); /* after the last answer the process has ended */
    if (take(in, 1) & 1)
        fill(in, memory.bytes, 2000);
    if (remote_attach(&p.remote, sockets[0], dup(memory.fd), &s, &facts, &e) == 0) {
        fill(in, memory.bytes, 2000);
        ask(&p);
        plugin_close(&p);
    } else {
        ASSERT(p.remote == NULL && e.msg[0] && !strchr(e.msg, '\n'));
    }
    close(sockets[1]);
    shared_close(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static long (*objects)(void);
    struct input in = {.at = data, .end = data + size};
    long before;

    if (!objects) {
        void *library = dlopen(FAKE_PJRT, RTLD_NOW), *symbol;

        ASSERT(library && (symbol = dlsym(library, "fake_pjrt_objects")) != NULL, "%s", FAKE_PJRT);
        memcpy(&objects, &symbol, sizeof(symbol));
        setenv("FAKE_PJRT_KEEP", "1", 1);
    }
    before = objects();
    if (take(&in, 1) & 1)
        answer_engine(&in);
    else
        call_process(&in);
    ASSERT(objects() == before, "%ld objects are left", objects() - before);
    return 0;
}
