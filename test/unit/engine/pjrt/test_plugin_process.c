/* test_plugin_process.c - a PJRT plugin in a process of its own (test/pjrt/fake.c): its calls, its end, and what it may
 * not do to the engine. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/files/shared.h"
#include "base/log.h"
#include "base/mem.h"
#include "children.h"
#include "engine/pjrt/channel.h"
#include "engine/pjrt/plugin.h"
#include "engine/pjrt/process.h"
#include "engine/pjrt/remote.h"
#include "gallop.h"

/* A program with two results, the last of which has 2 x 3 numbers. */
static const char program_text[] = "{tf.aliasing_output = 0} -> (tensor<9xf32>, tensor<2x3xf32>) {\n";

/* Calls of the plugin that plugin_open() and use() make, and numbers of two of them. */
enum { CALL_OF_MEMORY = 8, CALL_OF_RUN = 12, N_CALLS = 17 };

static int clear(void **state)
{
    static const char *const names[] = {"FAKE_PJRT_FAIL", "FAKE_PJRT_HOW", "FAKE_PJRT_KEEP", "FAKE_PJRT_LIE"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    if (getenv("GALLOP_BIN"))
        setenv("GALLOP_PROGRAM", getenv("GALLOP_BIN"), 1);
    return 0;
}

static struct plugin_source source(const char *options)
{
    struct plugin_source s;

    assert_int_equal(plugin_source_read(&s, FAKE_PJRT, options, 0, NULL), 0);
    s.has_process = true;
    s.step_seconds = 20;
    return s;
}

static void fail_call(long n, const char *how)
{
    char text[24];

    snprintf(text, sizeof(text), "%ld", n);
    setenv("FAKE_PJRT_FAIL", text, 1);
    setenv("FAKE_PJRT_HOW", how, 1);
}

/* Compiles, uploads, runs and downloads. Returns the first error. */
static int use(struct plugin *p, struct err *e)
{
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    const size_t dims[] = {2, 3};
    struct pjrt_loaded *program = NULL;
    struct pjrt_buffer *in = NULL, *out[2] = {NULL, NULL};
    float y[6] = {7};
    int rc = plugin_compile(p, program_text, sizeof(program_text), "a program", &program, e);

    if (rc == 0)
        rc = plugin_upload(p, x, DT_F32, dims, 2, &in, e);
    if (rc == 0)
        rc = plugin_run(p, program, &in, 1, out, 2, e);
    if (rc == 0 && (rc = plugin_download(p, out[1], y, sizeof(y), e)) == 0)
        assert_true(y[0] == 0 && y[5] == 0);
    if (rc == 0 && (rc = plugin_download(p, in, y, sizeof(y), e)) == 0)
        assert_memory_equal(x, y, sizeof(x));
    plugin_free_buffer(p, out[0]);
    plugin_free_buffer(p, out[1]);
    plugin_free_buffer(p, in);
    plugin_free_program(p, program);
    return rc;
}

/* Returns whether process PID is there and not a zombie. */
static bool is_alive(pid_t pid)
{
    char path[64], state = 'Z';
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    if (!(f = fopen(path, "r")))
        return false;
    if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(f);
    return state != 'Z' && state != 'X';
}

static size_t files_of(pid_t pid)
{
    char path[64];
    size_t n = 0;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%ld/fd", (long)pid);
    assert_non_null(d = opendir(path));
    for (struct dirent *f; (f = readdir(d)) != NULL;)
        n += f->d_name[0] != '.';
    closedir(d);
    return n - (pid == getpid()); /* the folder itself */
}

static void calls_return_what_the_plugin_returns(void **state)
{
    struct plugin_source s = source("{\"a\":[1,2],\"b\":\"c\"}");
    struct pjrt_loaded *program, *again;
    struct plugin p;
    struct err e = {0};
    struct buf bytes;
    size_t files = files_of(getpid());

    setenv("FAKE_PJRT_KEEP", "1", 1);
    if (plugin_open(&p, &s, &e) != 0)
        fail_msg("%s", e.msg);
    assert_string_equal(p.platform, "fake");
    assert_string_equal(p.kind, "fake");
    assert_string_equal(p.version, "fake a=[1,2 b='c'");
    assert_int_equal(p.n_devices, 1);
    assert_string_equal(p.path, FAKE_PJRT);
    for (int i = 0; i < 3; i++)
        assert_int_equal(use(&p, &e), 0);
    buf_init(&bytes, MEM_ENGINE);
    assert_int_equal(plugin_compile(&p, program_text, sizeof(program_text), "x", &program, &e), 0);
    assert_int_equal(plugin_serialize(&p, program, &bytes, &e), 0);
    assert_string_equal(bytes.data, "caches 1 copies 0 sees 0 rows 0 fake 36 9 fake 24 2 ");
    assert_int_equal(plugin_load(&p, bytes.data, bytes.len, &again, &e), 0);
    assert_ptr_not_equal(program, again);
    plugin_free_program(&p, program);
    plugin_free_program(&p, again);
    assert_int_equal(plugin_load(&p, "xxx", 3, &again, &e), ERR_OS);
    assert_string_equal(e.msg, "pjrt: artifact: no program");
    buf_fini(&bytes);
    plugin_close(&p);
    assert_int_equal(files_of(getpid()), files);
    assert_int_equal(children_first(getpid()), 0);
    plugin_source_fini(&s);
}

static void options_may_be_long(void **state)
{
    size_t n = 100000;
    char *json = malloc(n + 20);
    struct plugin_source s;
    struct plugin p;
    struct err e = {0};

    assert_non_null(json);
    snprintf(json, 20, "{\"a\":\"");
    memset(json + 6, 'x', n);
    snprintf(json + 6 + n, 14, "\",\"b\":7}");
    s = source(json);
    assert_int_equal(plugin_open(&p, &s, &e), 0);
    assert_int_equal(strlen(p.version), 199); /* the plugin cuts it off */
    assert_int_equal(strncmp(p.version, "fake a='xxx", 11), 0);
    plugin_close(&p);
    plugin_source_fini(&s);
    free(json);
}

static void large_tensors_are_whole(void **state)
{
    const size_t dims[] = {3, 17, 1 << 20}, bytes = dims[0] * dims[1] * dims[2];
    struct plugin_source s = source(NULL);
    unsigned char *x = malloc(bytes), *y = malloc(bytes);
    struct pjrt_buffer *b;
    struct plugin p;
    struct err e = {0};

    assert_true(x && y);
    for (size_t i = 0; i < bytes; i++)
        x[i] = (unsigned char)(i * 7 + (i >> 12));
    assert_int_equal(plugin_open(&p, &s, &e), 0);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(plugin_upload(&p, x, DT_I8, dims, 3, &b, &e), 0);
        memset(y, 0, bytes);
        assert_int_equal(plugin_download(&p, b, y, bytes, &e), 0);
        assert_memory_equal(x, y, bytes);
        plugin_free_buffer(&p, b);
    }
    for (int turn = 0; turn < 2; turn++) { /* the same from memory that both processes have */
        unsigned char *staging = plugin_staging(&p, bytes);

        assert_non_null(staging);
        for (size_t i = 0; i < bytes; i++)
            staging[i] = (unsigned char)(x[i] + turn);
        assert_int_equal(plugin_upload(&p, staging, DT_I8, dims, 3, &b, &e), 0);
        plugin_free_staging(&p, staging);
        assert_int_equal(plugin_download(&p, b, y, bytes, &e), 0);
        for (size_t i = 0; i < bytes; i++)
            if (y[i] != (unsigned char)(x[i] + turn))
                fail_msg("byte %zu", i);
        plugin_free_buffer(&p, b);
    }
    plugin_close(&p);
    assert_null(plugin_staging(&p, SIZE_MAX));
    plugin_source_fini(&s);
    free(x);
    free(y);
}

/* After the death of the process each call says the same, and the plugin can be opened again. */
static void every_call_may_end_the_process(void **state)
{
    static const char *const how[] = {"crash", "exit"};
    static const char *const says[] = {"ended by signal 9", "ended with status 3"};
    struct plugin_source s = source(NULL);
    size_t live = mem_live_blocks(), files = files_of(getpid());
    struct plugin p;
    struct err e, again;
    int rc = 1;

    for (long n = 1; rc; n++) {
        fail_call(n, how[n % 2]);
        memset(&e, 0, sizeof(e));
        if ((rc = plugin_open(&p, &s, &e)) == 0) {
            rc = use(&p, &e);
            if (rc) {
                assert_int_equal(use(&p, &again), rc);
                assert_string_equal(again.msg, e.msg);
            }
            plugin_close(&p);
        }
        if (rc &&
            (rc != ERR_OS || !strstr(e.msg, "pjrt: the plugin's process ") || !strstr(e.msg, says[n % 2])))
            fail_msg("call %ld: %s", n, e.msg);
        assert_int_equal(rc == 0, n > N_CALLS);
        assert_int_equal(mem_live_blocks(), live);
        assert_int_equal(files_of(getpid()), files);
    }
    plugin_source_fini(&s);
}

static void every_call_may_fail(void **state)
{
    struct plugin_source s = source(NULL);
    size_t live = mem_live_blocks();
    struct plugin p;

    for (long n = 1; n <= N_CALLS; n++) {
        struct err e = {0};
        char what[40];
        int rc;

        fail_call(n, "error");
        if ((rc = plugin_open(&p, &s, &e)) == 0) {
            rc = use(&p, &e);
            if (rc)
                assert_int_equal(use(&p, NULL), 0); /* the process lives */
            plugin_close(&p);
        }
        snprintf(what, sizeof(what), "call %ld failed", n);
        if (n == CALL_OF_MEMORY ? rc != 0 : rc != ERR_OS || !strstr(e.msg, what))
            fail_msg("call %ld: %s", n, e.msg);
        assert_int_equal(mem_live_blocks(), live);
    }
    plugin_source_fini(&s);
}

static void a_plugin_that_hangs_is_killed(void **state)
{
    struct plugin_source s = source(NULL);
    struct plugin p;
    struct err e = {0};
    double begin;
    pid_t pid;

    s.step_seconds = 0.3;
    fail_call(CALL_OF_RUN, "hang");
    for (int tries = 0; plugin_open(&p, &s, &e) != 0;
         tries++) /* starting may take longer beside other tests */
        assert_true(tries < 20);
    pid = children_first(getpid());
    begin = clock_seconds();
    assert_int_equal(use(&p, &e), ERR_OS);
    if (!strstr(e.msg, "did not answer the call \"") || !strstr(e.msg, "within 0.3 s and was killed"))
        fail_msg("%s", e.msg);
    assert_true(clock_seconds() - begin >= 0.3);
    assert_false(is_alive(pid));
    plugin_close(&p);
    plugin_source_fini(&s);
}

static void *stop_soon(void *s)
{
    usleep(50000);
    atomic_store(&((struct plugin_source *)s)->is_stopped, true);
    return NULL;
}

/* Calls may last half an hour while a plugin is opened. */
static void a_call_that_hangs_ends_when_it_is_stopped(void **state)
{
    for (long n = 1; n <= N_CALLS; n += 3) {
        struct plugin_source s = source(NULL);
        double begin = clock_seconds();
        struct plugin p = {0};
        struct err e = {0};
        pthread_t thread;

        s.step_seconds = 1000;
        fail_call(n, "hang");
        assert_int_equal(pthread_create(&thread, NULL, stop_soon, &s), 0);
        if (plugin_open(&p, &s, &e) == 0)
            while (use(&p, &e) == 0) /* until it hangs or is stopped */
                ;
        pthread_join(thread, NULL);
        if (!strstr(e.msg, "because the engine is closed") && !strstr(e.msg, "pjrt: the engine is closed"))
            fail_msg("call %ld: %s", n, e.msg);
        plugin_close(&p);
        assert_true(clock_seconds() - begin < 100); /* it would be 1000 */
        assert_int_equal(children_first(getpid()), 0);
        plugin_source_fini(&s);
    }
}

/* Between calls nothing needs to be killed. */
static void an_idle_process_ends_by_itself_when_it_is_stopped(void **state)
{
    struct plugin_source s = source(NULL);
    struct plugin p;
    struct err e = {0};
    pid_t pid;

    assert_int_equal(plugin_open(&p, &s, &e), 0);
    assert_int_equal(use(&p, &e), 0);
    pid = children_first(getpid());
    atomic_store(&s.is_stopped, true);
    assert_int_equal(use(&p, &e), ERR_CANCELLED);
    assert_string_equal(e.msg, "pjrt: the engine is closed");
    assert_false(plugin_is_dead(&p));
    assert_true(is_alive(pid));
    plugin_close(&p);
    assert_false(is_alive(pid));
    plugin_source_fini(&s);
}

static void a_process_that_is_killed_from_outside_is_an_error(void **state)
{
    struct plugin_source s = source(NULL);
    struct plugin p;
    struct err e = {0};
    char what[80];

    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(plugin_open(&p, &s, &e), 0);
        assert_int_equal(use(&p, &e), 0);
        assert_int_equal(kill(children_first(getpid()), turn == 0 ? SIGABRT : SIGKILL), 0);
        assert_int_equal(use(&p, &e), ERR_OS);
        snprintf(what, sizeof(what), "pjrt: the plugin's process ended by signal %d (", turn == 0 ? 6 : 9);
        assert_non_null(strstr(e.msg, what));
        plugin_close(&p);
    }
    assert_int_equal(children_first(getpid()), 0);
    plugin_source_fini(&s);
}

static void signals_that_ask_for_an_end_are_the_engines(void **state)
{
    struct plugin_source s = source(NULL);
    struct plugin p;
    struct err e = {0};

    assert_int_equal(plugin_open(&p, &s, &e), 0);
    kill(children_first(getpid()), SIGTERM);
    kill(children_first(getpid()), SIGINT);
    assert_int_equal(use(&p, &e), 0);
    plugin_close(&p);
    plugin_source_fini(&s);
}

static void sizes_that_are_lies_end_no_more_than_the_process(void **state)
{
    struct plugin_source s = source(NULL);
    struct pjrt_loaded *program;
    struct plugin p;
    struct err e = {0};
    struct buf bytes;

    setenv("FAKE_PJRT_KEEP", "1", 1);
    setenv("FAKE_PJRT_LIE", "1", 1);
    assert_int_equal(plugin_open(&p, &s, &e), 0);
    assert_int_equal(plugin_compile(&p, program_text, sizeof(program_text), "x", &program, &e), 0);
    buf_init(&bytes, MEM_ENGINE);
    assert_true(plugin_serialize(&p, program, &bytes, &e) != 0);
    assert_int_equal(bytes.len, 0);
    buf_fini(&bytes);
    plugin_close(&p);
    plugin_source_fini(&s);
}

static void the_process_has_no_file_of_the_engine(void **state)
{
    struct plugin_source s = source(NULL);
    struct plugin p;
    struct err e = {0};
    int open_here = dup(2); /* without close-on-exec */

    assert_int_equal(plugin_open(&p, &s, &e), 0);
    assert_int_equal(files_of(children_first(getpid())), 5);
    plugin_close(&p);
    plugin_source_fini(&s);
    close(open_here);
}

/* A fork of the engine has the socket, too, so that the socket alone does not tell. */
static void the_process_ends_with_its_parent(void **state)
{
    struct plugin_source s = source(NULL);
    int told[2];
    pid_t engine, pid[2] = {0};

    assert_int_equal(pipe(told), 0);
    if ((engine = fork()) == 0) {
        struct plugin p;

        if (plugin_open(&p, &s, NULL) != 0)
            _exit(1);
        pid[0] = children_first(getpid());
        if ((pid[1] = fork()) == 0)
            for (;;)
                pause();
        if (write(told[1], pid, sizeof(pid)) != sizeof(pid))
            _exit(1);
        raise(SIGKILL);
    }
    close(told[1]);
    assert_int_equal(read(told[0], pid, sizeof(pid)), sizeof(pid));
    waitpid(engine, NULL, 0);
    for (int i = 0; is_alive(pid[0]) && i < 2000; i++)
        usleep(10000);
    assert_false(is_alive(pid[0]));
    kill(pid[1], SIGKILL);
    close(told[0]);
    plugin_source_fini(&s);
}

static void a_program_that_is_missing_or_another_is_named(void **state)
{
    struct plugin_source s = source(NULL);
    size_t files = files_of(getpid());
    struct plugin p;
    struct err e = {0};

    setenv("GALLOP_PROGRAM", "/nowhere/gallop", 1);
    assert_int_equal(plugin_open(&p, &s, &e), ERR_OS);
    assert_string_equal(
        e.msg, "pjrt: the program /nowhere/gallop, in which the plugin is to run, cannot be started: No such "
               "file or directory; the environment variable GALLOP_PROGRAM may name it");
    setenv("GALLOP_PROGRAM", "/bin/true", 1);
    assert_int_equal(plugin_open(&p, &s, &e), ERR_OS);
    assert_string_equal(e.msg, "pjrt: the plugin's process ended with status 0");
    assert_int_equal(files_of(getpid()), files);
    plugin_source_fini(&s);
}

static void every_allocation_may_fail(void **state)
{
    struct plugin_source s = source(NULL);
    size_t live = mem_live_blocks();
    struct plugin p;
    struct err e = {0};

    for (long n = 1;; n++) {
        int rc;

        mem_fail_at(n);
        rc = plugin_open(&p, &s, &e);
        mem_fail_at(0);
        if (rc == 0)
            break;
        assert_int_equal(rc, ERR_NOMEM);
        assert_int_equal(mem_live_blocks(), live);
    }
    plugin_close(&p);
    plugin_source_fini(&s);
}

/* ---- numbers of objects ---- */

/* A process whose calls are answered in this one. */
struct inside {
    struct process process;
    struct shared memory; /* as the engine maps it */
    uint64_t n_calls;
};

static struct channel_message ask(struct inside *in, struct channel_message call)
{
    struct channel_message a;

    call.version = CHANNEL_VERSION;
    call.number = ++in->n_calls;
    assert_int_equal(shared_reserve(&in->memory, call.bytes + sizeof(uint64_t), NULL), 0);
    process_answer(&in->process, &call, &a);
    return a;
}

static void open_inside(struct inside *in)
{
    size_t n = strlen(FAKE_PJRT);
    struct channel_message a;

    memset(in, 0, sizeof(*in));
    assert_int_equal(shared_new(&in->memory, NULL), 0);
    process_init(&in->process, dup(in->memory.fd));
    assert_int_equal(shared_reserve(&in->memory, n, NULL), 0);
    memcpy(in->memory.bytes, FAKE_PJRT, n);
    a = ask(in, (struct channel_message){.kind = CHANNEL_OPEN, .n = {n}, .bytes = n});
    assert_int_equal(a.code, 0);
}

static void close_inside(struct inside *in)
{
    process_fini(&in->process);
    shared_close(&in->memory);
}

static uint64_t new_buffer(struct inside *in)
{
    struct channel_message a =
        ask(in, (struct channel_message){
                    .kind = CHANNEL_UPLOAD, .type = DT_F32, .n_dims = 1, .dims = {2}, .bytes = 8});

    assert_int_equal(a.code, 0);
    return a.object;
}

static uint64_t new_program(struct inside *in)
{
    struct channel_message a;

    assert_int_equal(shared_reserve(&in->memory, sizeof(program_text), NULL), 0);
    memcpy(in->memory.bytes, program_text, sizeof(program_text));
    a = ask(in, (struct channel_message){.kind = CHANNEL_COMPILE, .bytes = sizeof(program_text)});
    assert_int_equal(a.code, 0);
    return a.object;
}

static uint32_t free_number(struct inside *in, uint64_t number)
{
    memcpy(in->memory.bytes, &number, sizeof(number));
    return ask(in, (struct channel_message){.kind = CHANNEL_FREE, .n = {1}, .bytes = sizeof(number)}).code;
}

static uint32_t run_number(struct inside *in, uint64_t program, uint64_t argument)
{
    memcpy(in->memory.bytes, &argument, sizeof(argument));
    return ask(in,
               (struct channel_message){
                   .kind = CHANNEL_RUN, .object = program, .n = {1, 2}, .bytes = sizeof(argument)})
        .code;
}

static uint32_t use_number(struct inside *in, enum channel_kind kind, uint64_t number)
{
    return ask(in, (struct channel_message){.kind = kind,
                                            .object = number,
                                            .bytes = kind == CHANNEL_DOWNLOAD ? 8 : 0})
        .code;
}

/* The place of a freed object is used again, and its number is not. */
static void numbers_of_freed_objects_are_refused(void **state)
{
    uint64_t old[2], number[2];
    struct inside in;
    size_t n_objects;

    open_inside(&in);
    for (int is_program = 0; is_program < 2; is_program++)
        for (int next_is_program = 0; next_is_program < 2; next_is_program++) {
            old[0] = is_program ? new_program(&in) : new_buffer(&in);
            n_objects = in.process.n_objects;
            assert_int_equal(free_number(&in, old[0]), 0);
            number[0] = next_is_program ? new_program(&in) : new_buffer(&in);
            assert_int_equal(in.process.n_objects, n_objects);
            assert_true(number[0] != old[0] && (uint32_t)number[0] == (uint32_t)old[0]);
            assert_int_equal(use_number(&in, CHANNEL_DOWNLOAD, old[0]), ERR_INPUT);
            assert_int_equal(use_number(&in, CHANNEL_SERIALIZE, old[0]), ERR_INPUT);
            assert_int_equal(free_number(&in, old[0]), ERR_INPUT);
            assert_int_equal(use_number(&in, CHANNEL_DOWNLOAD, number[0]), next_is_program ? ERR_INPUT : 0);
            assert_int_equal(use_number(&in, CHANNEL_SERIALIZE, number[0]), next_is_program ? 0 : ERR_INPUT);
            assert_int_equal(free_number(&in, number[0]), 0);
            assert_int_equal(free_number(&in, number[0]), ERR_INPUT);
        }
    for (int i = 0; i < 2; i++) /* all places are used again */
        old[i] = new_buffer(&in);
    n_objects = in.process.n_objects;
    for (int i = 0; i < 2; i++)
        assert_int_equal(free_number(&in, old[i]), 0);
    number[0] = new_program(&in);
    number[1] = new_buffer(&in);
    assert_int_equal(in.process.n_objects, n_objects);
    assert_int_equal(run_number(&in, number[0], number[1]), 0);
    assert_int_equal(run_number(&in, number[1], number[1]), ERR_INPUT);
    assert_int_equal(run_number(&in, number[0], number[0]), ERR_INPUT);
    assert_int_equal(free_number(&in, number[1]), 0);
    assert_int_equal(run_number(&in, number[0], number[1]), ERR_INPUT);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(use_number(&in, CHANNEL_DOWNLOAD, i << 32 | (i == 1 ? UINT32_MAX : 0)), ERR_INPUT);
    close_inside(&in);
}

/* Serves the socket of ARG until its other end is closed. */
static void *serve(void *arg)
{
    struct inside *in = arg;
    struct channel_message call, a;
    int socket = (int)in->n_calls;

    while (channel_receive(socket, &call, -1, NULL) == CHANNEL_GOOD) {
        process_answer(&in->process, &call, &a);
        if (channel_send(socket, &a) != CHANNEL_GOOD)
            break;
    }
    process_fini(&in->process);
    close(socket);
    return NULL;
}

/* Freed objects are collected and are freed with the next call, or when there are 512. */
static void freed_objects_leave_the_process(void **state)
{
    enum { N = 1100 };
    static struct pjrt_buffer *buffer[N];
    void *library = dlopen(FAKE_PJRT, RTLD_NOW), *symbol = dlsym(library, "fake_pjrt_objects");
    struct plugin_source s = source(NULL);
    struct channel_facts facts;
    struct plugin p = {.path = "x"};
    long (*objects)(void), before, with_all;
    const size_t dims[] = {2};
    pthread_t thread;
    struct inside in = {0};
    struct shared memory;
    int sockets[2];
    float x[2] = {1, 2};

    assert_non_null(symbol);
    memcpy(&objects, &symbol, sizeof(symbol));
    before = objects();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    assert_int_equal(shared_new(&memory, NULL), 0);
    process_init(&in.process, dup(memory.fd));
    in.n_calls = (uint64_t)sockets[1];
    assert_int_equal(pthread_create(&thread, NULL, serve, &in), 0);
    assert_int_equal(remote_attach(&p.remote, sockets[0], dup(memory.fd), &s, &facts, NULL), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(plugin_upload(&p, x, DT_F32, dims, 1, &buffer[i], NULL), 0);
    with_all = objects();
    assert_int_equal(with_all, before + N);
    for (int i = 1; i < N; i++)
        plugin_free_buffer(&p, buffer[i]);
    assert_int_equal(objects(), with_all - 2 * 512);
    assert_int_equal(plugin_download(&p, buffer[0], x, sizeof(x), NULL), 0);
    assert_true(x[0] == 1 && x[1] == 2);
    assert_int_equal(objects(), before + 1);
    plugin_close(&p);
    pthread_join(thread, NULL);
    assert_int_equal(objects(), before);
    shared_close(&memory);
    plugin_source_fini(&s);
    dlclose(library);
}

/* ---- answers that no process of ours gives ---- */

struct liar {
    int socket[2]; /* the engine's, and the other end */
    int memory;
    struct shared data;
    uint64_t n; /* answers that were sent */
};

static void begin_lies(struct liar *l)
{
    *l = (struct liar){.n = 0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, l->socket), 0);
    assert_int_equal(shared_new(&l->data, NULL), 0);
    assert_int_equal(shared_reserve(&l->data, 4096, NULL), 0);
    l->memory = dup(l->data.fd);
}

static void end_lies(struct liar *l)
{
    close(l->socket[1]);
    shared_close(&l->data);
}

static struct channel_message answer(struct liar *l, enum channel_kind kind)
{
    return (struct channel_message){.version = CHANNEL_VERSION, .kind = kind, .number = ++l->n};
}

static void tell(const struct liar *l, const void *m, size_t n)
{
    assert_int_equal(send(l->socket[1], m, n, 0), n);
}

/* Answers the greeting. */
static void greet(struct liar *l)
{
    struct channel_message m = answer(l, CHANNEL_HELLO);

    tell(l, &m, sizeof(m));
}

static void expect_wrong(struct liar *l, const char *call)
{
    struct plugin_source s = source(NULL);
    struct channel_facts facts;
    struct remote *r;
    struct err e = {0};
    char what[80];

    s.step_seconds = 0.2;
    assert_int_equal(remote_attach(&r, l->socket[0], l->memory, &s, &facts, &e), ERR_OS);
    snprintf(what, sizeof(what),
             "pjrt: the plugin's process gave a wrong answer to the call \"%s\" and ended", call);
    assert_string_equal(e.msg, what);
    assert_null(r);
    plugin_source_fini(&s);
    end_lies(l);
}

static void wrong_answers_are_refused(void **state)
{
    struct channel_message m;
    struct liar l;

    begin_lies(&l);
    tell(&l, "short", 5);
    expect_wrong(&l, "hello");
    for (int what = 0; what < 6; what++) {
        begin_lies(&l);
        m = answer(&l, CHANNEL_HELLO);
        m.version += what == 0;
        m.kind += what == 1;
        m.number += what == 2;
        m.code = what == 3 ? 99 : what == 4 ? ERR_OS : 0;
        m.bytes = what == 4 ? 1024 : what == 5 ? 1 << 30 : 0;
        tell(&l, &m, sizeof(m));
        expect_wrong(&l, "hello");
    }
    for (int what = 0; what < 2; what++) { /* facts of another size, and a name without an end */
        begin_lies(&l);
        greet(&l);
        m = answer(&l, CHANNEL_OPEN);
        m.bytes = sizeof(struct channel_facts) - (what == 0);
        memset(l.data.bytes, what ? 'x' : 0, sizeof(struct channel_facts));
        tell(&l, &m, sizeof(m));
        expect_wrong(&l, "open");
    }
}

/* Opens a plugin that no process serves. The answers to its calls follow. */
static struct plugin attach(struct liar *l)
{
    static struct plugin_source s; /* borrowed by the result */
    struct channel_message m;
    struct channel_facts facts;
    struct plugin p = {.path = "x"};

    s = source(NULL);
    begin_lies(l);
    greet(l);
    m = answer(l, CHANNEL_OPEN);
    m.bytes = sizeof(facts);
    tell(l, &m, sizeof(m));
    assert_int_equal(remote_attach(&p.remote, l->socket[0], l->memory, &s, &facts, NULL), 0);
    plugin_source_fini(&s);
    return p;
}

static void an_object_without_a_number_is_refused(void **state)
{
    static const enum channel_kind kind[] = {CHANNEL_COMPILE, CHANNEL_LOAD, CHANNEL_UPLOAD, CHANNEL_RUN,
                                             CHANNEL_DOWNLOAD};
    struct liar l;

    for (size_t i = 0; i < sizeof(kind) / sizeof(kind[0]); i++) {
        struct plugin p = attach(&l);
        struct channel_message m = answer(&l, kind[i]);
        struct pjrt_loaded *program = NULL;
        struct pjrt_buffer *out[2] = {NULL, NULL};
        struct err e = {0};
        char y[8] = {0};
        int rc = 0;

        memset(l.data.bytes, 0, 64);
        m.bytes = kind[i] == CHANNEL_RUN ? 2 * sizeof(uint64_t) : 0;
        tell(&l, &m, sizeof(m));
        switch (kind[i]) {
        case CHANNEL_COMPILE: rc = plugin_compile(&p, "x", 1, "x", &program, &e); break;
        case CHANNEL_LOAD: rc = plugin_load(&p, "x", 1, &program, &e); break;
        case CHANNEL_UPLOAD: rc = plugin_upload(&p, "1234", DT_F32, NULL, 0, out, &e); break;
        case CHANNEL_RUN: rc = plugin_run(&p, (struct pjrt_loaded *)&l, NULL, 0, out, 2, &e); break;
        default: rc = plugin_download(&p, (struct pjrt_buffer *)&l, y, sizeof(y), &e); break;
        }
        assert_int_equal(rc, ERR_OS);
        assert_non_null(strstr(e.msg, "gave a wrong answer to the call"));
        assert_true(!program && !out[0] && !out[1]);
        assert_int_equal(plugin_load(&p, "x", 1, &program, &e), ERR_OS);
        plugin_close(&p);
        end_lies(&l);
    }
}

static void a_sentence_of_the_process_is_one_printable_line(void **state)
{
    static const char says[] = {'a', '\n', 'b', 27, '[', '1', 'm', (char)0xff, 'c'};
    struct liar l;
    struct plugin p = attach(&l);
    struct channel_message m = answer(&l, CHANNEL_SERIALIZE);
    struct err e = {0};
    struct buf bytes;

    m.code = ERR_UNSUPPORTED;
    m.bytes = sizeof(says);
    memcpy(l.data.bytes, says, sizeof(says));
    tell(&l, &m, sizeof(m));
    buf_init(&bytes, MEM_ENGINE);
    assert_int_equal(plugin_serialize(&p, (struct pjrt_loaded *)&l, &bytes, &e), ERR_UNSUPPORTED);
    assert_string_equal(e.msg, "a b?[1m?c");
    plugin_close(&p);
    end_lies(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(calls_return_what_the_plugin_returns, clear),
        cmocka_unit_test_setup(options_may_be_long, clear),
        cmocka_unit_test_setup(large_tensors_are_whole, clear),
        cmocka_unit_test_setup(every_call_may_end_the_process, clear),
        cmocka_unit_test_setup(every_call_may_fail, clear),
        cmocka_unit_test_setup(a_plugin_that_hangs_is_killed, clear),
        cmocka_unit_test_setup(a_call_that_hangs_ends_when_it_is_stopped, clear),
        cmocka_unit_test_setup(an_idle_process_ends_by_itself_when_it_is_stopped, clear),
        cmocka_unit_test_setup(a_process_that_is_killed_from_outside_is_an_error, clear),
        cmocka_unit_test_setup(signals_that_ask_for_an_end_are_the_engines, clear),
        cmocka_unit_test_setup(sizes_that_are_lies_end_no_more_than_the_process, clear),
        cmocka_unit_test_setup(the_process_has_no_file_of_the_engine, clear),
        cmocka_unit_test_setup(the_process_ends_with_its_parent, clear),
        cmocka_unit_test_setup(a_program_that_is_missing_or_another_is_named, clear),
        cmocka_unit_test_setup(every_allocation_may_fail, clear),
        cmocka_unit_test_setup(numbers_of_freed_objects_are_refused, clear),
        cmocka_unit_test_setup(freed_objects_leave_the_process, clear),
        cmocka_unit_test_setup(wrong_answers_are_refused, clear),
        cmocka_unit_test_setup(an_object_without_a_number_is_refused, clear),
        cmocka_unit_test_setup(a_sentence_of_the_process_is_one_printable_line, clear),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
