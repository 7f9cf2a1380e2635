/* test_restart.c - one process generates with a KV store, and another process continues the answer from the
 * blocks in the store: the tokens and the bits of log-probabilities are the same as without the interruption.
 * test_store.c has damaged records, and records that must not be found.
 *
 * The program calls itself: as a child it generates tokens [from, to) of one greedy answer and writes a
 * record for each token. The parent never opens an engine.
 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engines.h"
#include "files.h"
#include "pairs.h"
#include "ways.h"

enum { PROMPT = 150, BREAK = 6, STEPS = 14, LONGEST = 320, MOST_VOCAB = 1024, NOTHING_READ = 3 };

static const struct setup {
    const char *model, *dtype, *kv_dtype;
} setups[] = {{"llama3-rope", "bf16", "auto"},
              {"llama3-rope", "bf16", "int8"},
              /* This answer continues after the windows of the model. */
              {"llama3-rope", "fp32", "auto"},
              {"gemma3", "bf16", "auto"},
              /* The layers of this model share rows. */
              {"gemma3", "fp32", "int8"},
              {"gemma4", "bf16", "auto"},
              {"gemma4", "fp32", "int8"},
              {"mistral", "bf16", "auto"},
              {"gemma3", "bf16", "int4"}};
enum { N_SETUPS = 9, N_CACHES = 4 };
static const size_t caches[N_CACHES] = {2, 5, 9, 11}; /* the ways of ways.h, all with blocks of 16 rows */

struct record { /* the record of one token */
    int32_t token;
    float logprob[MOST_VOCAB]; /* the log-probability of every id, with zeros after the vocabulary */
};

struct task {
    size_t setup, cache;
    size_t from, to;
    const char *store; /* the folder of the store; "-": none */
};

/* Names the file with the records of a task. A task after the interruption continues those of "first". */
static const char *records_of(const struct task *t)
{
    return t->from ? "second" : t->to < STEPS ? "first" : "whole";
}

/* ---- the child ---- */

static _Noreturn void give_up(const char *sentence)
{
    fprintf(stderr, "%s\n", sentence);
    exit(1);
}

static struct gallop *open_task(const struct task *t)
{
    const struct setup *s = &setups[t->setup];
    struct gallop_options o = engines_options(2, 48, LONGEST);
    struct gallop *g;
    char err[GALLOP_ERR_SIZE];

    o.dtype = s->dtype;
    o.kv_cache_dtype = s->kv_dtype;
    o.threads = t->cache == 1 ? 2 : 1;
    ways_set(&o, &ways[caches[t->cache]]);
    o.kv_store = strcmp(t->store, "-") == 0 ? NULL : t->store;
    if (engines_try(&g, s->model, &o, err) != 0)
        give_up(err);
    return g;
}

/* Reads the prompt and the tokens before T from the records of "first". */
static size_t make_prompt(const struct task *t, int32_t *ids)
{
    engines_text(0, 0, PROMPT, ids);
    if (t->from) {
        size_t n;
        char *records = files_read("first", &n);

        for (size_t i = 0; i < t->from; i++)
            memcpy(&ids[PROMPT + i], records + i * sizeof(struct record), sizeof(*ids));
        free(records);
    }
    return PROMPT + t->from;
}

static void submit(struct gallop *g, const struct task *t)
{
    int32_t ids[PROMPT + STEPS];
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    gallop_request_init(&r);
    r.n_ids = make_prompt(t, ids);
    r.ids = ids;
    r.sampling.max_new_tokens = (int64_t)(t->to - t->from);
    r.sampling.ignore_eos = 1;
    r.sampling.do_sample = 0;
    r.sampling.logprobs = (int64_t)engines_stats(g).vocab_size;
    if (gallop_submit(g, &r, NULL, err) != 0)
        give_up(err);
}

static int child(const struct task *t)
{
    static struct record r;
    struct gallop *g = open_task(t);
    FILE *f = fopen(records_of(t), "wb");
    struct gallop_event ev;
    size_t n_stored = 0;

    submit(g, t);
    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_FINISHED)
            n_stored = ev.n_stored;
        if (ev.type != GALLOP_TOKEN)
            continue;
        memset(&r, 0, sizeof(r));
        r.token = ev.token;
        for (size_t i = 0; i < ev.n_top; i++)
            r.logprob[ev.top[i].id] = ev.top[i].logprob;
        if (ev.n_top != engines_stats(g).vocab_size || !f || fwrite(&r, sizeof(r), 1, f) != 1)
            give_up("no place for a record, or not all of it");
    }
    fclose(f);
    gallop_close(g);
    return t->from && n_stored == 0 ? NOTHING_READ : 0;
}

/* ---- the parent ---- */

/* Runs T in a child process, whose standard error goes to the file "said". Returns its exit status. */
static int run(const struct task *t)
{
    char number[4][24], store[512],
        *argv[] = {(char[]){"test_restart"}, number[0], number[1], number[2], number[3], store, NULL};
    int status = 0;
    pid_t pid;

    snprintf(number[0], sizeof(number[0]), "%zu", t->setup);
    snprintf(number[1], sizeof(number[1]), "%zu", t->cache);
    snprintf(number[2], sizeof(number[2]), "%zu", t->from);
    snprintf(number[3], sizeof(number[3]), "%zu", t->to);
    snprintf(store, sizeof(store), "%s", t->store);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int fd = open("said", O_WRONLY | O_CREAT | O_TRUNC, 0666);

        if (fd < 0 || dup2(fd, 2) < 0)
            _exit(99);
        execv("/proc/self/exe", argv);
        _exit(98);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

/* On a busy machine a request may have waited long enough for its blocks, and computes them. */
static void must_run(const struct task *t)
{
    const struct setup *s = &setups[t->setup];
    int rc = NOTHING_READ;
    size_t n;

    for (int i = 0; i < 50 && rc == NOTHING_READ; i++)
        rc = run(t);
    if (rc != 0)
        fail_msg("%s %s %s, %s, steps %zu to %zu: status %d %s", s->model, s->dtype, s->kv_dtype,
                 ways_name(&ways[caches[t->cache]]), t->from, t->to, rc, files_read("said", &n));
}

/* Checks that the records of T are those of WANT from its first step. */
static bool same(const struct task *t, const char *want)
{
    size_t n, expected = (t->to - t->from) * sizeof(struct record);
    char *got = files_read(records_of(t), &n);
    bool equal = n == expected && memcmp(got, want + t->from * sizeof(struct record), n) == 0;

    free(got);
    return equal;
}

/* Every pooled cache hands its rows to every other, and each does so in each setup. */
static void an_answer_goes_on_in_another_process_with_other_bits(void **state)
{
    const size_t size[] = {N_SETUPS, N_CACHES, N_CACHES};
    size_t n;
    struct pairs_row *row = pairs_cover(size, 3, 0, &n);
    char *want = NULL, store[300];

    for (size_t i = 0; i < n; i++) {
        size_t setup = row[i].at[0], a = row[i].at[1], b = row[i].at[2], length;
        struct task whole = {setup, 0, 0, STEPS, "-"}, first = {setup, a, 0, BREAK, store},
                    second = {setup, b, BREAK, STEPS, store};
        const struct setup *s = &setups[setup];

        snprintf(store, sizeof(store), "%s/%zu", files_folder(), i);
        if (i == 0 || row[i - 1].at[0] != setup) {
            free(want);
            must_run(&whole);
            want = files_read("whole", &length);
            assert_int_equal(length, STEPS * sizeof(struct record));
        }
        must_run(&first);
        if (!same(&first, want))
            fail_msg("%s %s %s: %s differs before the break", s->model, s->dtype, s->kv_dtype,
                     ways_name(&ways[caches[a]]));
        /* the comparison, with a step that is too late */
        assert_false(same(&first, want + sizeof(struct record)));
        must_run(&second);
        if (!same(&second, want))
            fail_msg("%s %s %s: from %s to %s, what comes behind the break differs", s->model, s->dtype,
                     s->kv_dtype, ways_name(&ways[caches[a]]), ways_name(&ways[caches[b]]));
    }
    free(want);
    free(row);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_goes_on_in_another_process_with_other_bits),
    };

    log_set_level(LOG_ERROR);
    if (argc == 6)
        return child(&(struct task){(size_t)atoi(argv[1]), (size_t)atoi(argv[2]), (size_t)atoi(argv[3]),
                                    (size_t)atoi(argv[4]), argv[5]});
    files_enter(); /* The children inherit this. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
