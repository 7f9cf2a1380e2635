/* test_restart.c - one process computes and saves its rows, another goes on: the same tokens and the same
 * bits of logits as without the break; and a process that cannot go on says why. test_grid.c has more caches,
 * within one process.
 *
 * The program calls itself: as a child it computes steps [from, to) of one greedy answer, from the prompt or
 * from saved rows, and leaves a token and its logits a step. The parent never opens an engine.
 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "engines.h"
#include "files.h"
#include "kv/kv_wire.h"
#include "pairs.h"
#include "ways.h"

enum { PROMPT = 150, BREAK = 6, STEPS = 14, CHUNK = 48, LONGEST = 320, MOST_VOCAB = 4096 };

static const struct setup {
    const char *model, *dtype, *kv_dtype;
} setups[] = {{"llama3-rope", "bf16", "auto"}, {"llama3-rope", "bf16", "int8"},
              {"llama3-rope", "fp32", "auto"}, {"gemma3", "bf16", "auto"}, /* goes on behind its windows */
              {"gemma3", "fp32", "int8"},      {"gemma4", "bf16", "auto"}, /* layers that share rows */
              {"gemma4", "fp32", "int8"},      {"mistral", "bf16", "auto"}};
enum { INT8 = 1, MISTRAL = 7, N_SETUPS = 8, N_CACHES = 5 };
static const size_t caches[N_CACHES] = {1, 11, 0, 14, 5}; /* of ways.h */

struct record { /* of one step */
    int32_t token;
    float logits[MOST_VOCAB]; /* zeros behind the vocabulary */
};

struct task {
    size_t setup, cache;
    size_t from, to;
};

/* The file of a task's records. A task that begins behind the break takes up what "first" did. */
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
    struct gallop_options o = engines_options(2, CHUNK, LONGEST);
    struct gallop *g;
    char err[GALLOP_ERR_SIZE];

    o.dtype = s->dtype;
    o.kv_cache_dtype = s->kv_dtype;
    o.threads = t->cache == 1 ? 2 : 1;
    ways_set(&o, &ways[caches[t->cache]]);
    if (engines_try(&g, s->model, &o, err) != 0)
        give_up(err);
    return g;
}

/* The greedy choice of a step. */
static void choose(const struct llm *m, struct record *r)
{
    size_t best = 0;

    memset(r, 0, sizeof(*r));
    memcpy(r->logits, m->logits, m->model.info.vocab * sizeof(float));
    for (size_t i = 1; i < m->model.info.vocab; i++)
        if (r->logits[i] > r->logits[best])
            best = i;
    r->token = (int32_t)best;
}

/* The last token of the records in front of T, and its saved rows. */
static int32_t take_up(const struct task *t, struct llm *m)
{
    struct err e = {0};
    size_t n = 0;
    char *records;
    int32_t token;

    if (kv_wire_read(&m->kv, 0, model_identity(&m->model), "rows.kv", &n, &e) != 0)
        give_up(e.msg);
    if (n != PROMPT + t->from - 1)
        give_up("another number of rows");
    records = files_read("first", &n);
    memcpy(&token, records + (t->from - 1) * sizeof(struct record), sizeof(token));
    free(records);
    return token;
}

static int child(const struct task *t)
{
    static struct record r;
    struct gallop *g = open_task(t);
    struct llm *m = gallop_llm(g);
    int32_t ids[PROMPT], token = t->from ? take_up(t, m) : 0;
    FILE *f = fopen(records_of(t), "wb");
    struct err e = {0};

    if (!f || m->model.info.vocab > MOST_VOCAB)
        give_up("no place for records");
    engines_text(0, 0, PROMPT, ids);
    for (size_t s = t->from; s < t->to; s++) {
        if (s == 0)
            engines_compute(m, 0, ids, 0, PROMPT, CHUNK, PROMPT);
        else
            engines_compute(m, 0, &token, PROMPT + s - 1, 1, 1, PROMPT + s);
        choose(m, &r);
        token = r.token;
        if (fwrite(&r, sizeof(r), 1, f) != 1)
            give_up("no place for a record");
    }
    fclose(f);
    if (t->to < STEPS &&
        kv_wire_write(&m->kv, 0, PROMPT + t->to - 1, model_identity(&m->model), "rows.kv", &e) != 0)
        give_up(e.msg);
    gallop_close(g);
    return 0;
}

/* ---- the parent ---- */

/* Runs T in a process of its own, whose complaints go to the file "said"; its exit status. */
static int run(const struct task *t)
{
    char number[4][24],
        *argv[] = {(char[]){"test_restart"}, number[0], number[1], number[2], number[3], NULL};
    int status = 0;
    pid_t pid;

    snprintf(number[0], sizeof(number[0]), "%zu", t->setup);
    snprintf(number[1], sizeof(number[1]), "%zu", t->cache);
    snprintf(number[2], sizeof(number[2]), "%zu", t->from);
    snprintf(number[3], sizeof(number[3]), "%zu", t->to);
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

static void must_run(const struct task *t)
{
    const struct setup *s = &setups[t->setup];
    size_t n;

    if (run(t) != 0)
        fail_msg("%s %s %s, %s, steps %zu to %zu: %s", s->model, s->dtype, s->kv_dtype,
                 ways_name(&ways[caches[t->cache]]), t->from, t->to, files_read("said", &n));
}

/* The records that T left are those of WANT from its first step on. */
static bool same(const struct task *t, const char *want)
{
    size_t n, expected = (t->to - t->from) * sizeof(struct record);
    char *got = files_read(records_of(t), &n);
    bool equal = n == expected && memcmp(got, want + t->from * sizeof(struct record), n) == 0;

    free(got);
    return equal;
}

/* Every type of cache hands on to every other, and each does so in each setup. */
static void an_answer_goes_on_in_another_process_with_other_bits(void **state)
{
    const size_t size[] = {MISTRAL, N_CACHES, N_CACHES};
    size_t n;
    struct pairs_row *row = pairs_cover(size, 3, 0, &n);
    char *want = NULL;

    for (size_t i = 0; i < n; i++) {
        size_t setup = row[i].at[0], a = row[i].at[1], b = row[i].at[2], length;
        struct task whole = {setup, 0, 0, STEPS}, first = {setup, a, 0, BREAK},
                    second = {setup, b, BREAK, STEPS};
        const struct setup *s = &setups[setup];

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
        assert_false(same(&first, want + sizeof(struct record))); /* the comparison: a step too late */
        must_run(&second);
        if (!same(&second, want))
            fail_msg("%s %s %s: from %s to %s, what comes behind the break differs", s->model, s->dtype,
                     s->kv_dtype, ways_name(&ways[caches[a]]), ways_name(&ways[caches[b]]));
    }
    free(want);
    free(row);
}

/* T cannot go on, and its one sentence holds WHAT. */
static void must_refuse(const struct task *t, const char *what)
{
    int status = run(t);
    size_t n;
    char *said = files_read("said", &n);

    if (status != 1 || !strstr(said, what) || !strstr(said, "rows.kv"))
        fail_msg("status %d, expected \"%s\": %s", status, what, said);
    free(said);
}

static void rows_of_another_model_or_type_or_damaged_ones_are_taken_by_the_next_process(void **state)
{
    const struct task first = {0, 0, 0, BREAK}, second = {0, 1, BREAK, STEPS};

    must_run(&first);
    must_run(&second);
    must_refuse(&(struct task){MISTRAL, 1, BREAK, STEPS}, "another model");
    must_refuse(&(struct task){INT8, 1, BREAK, STEPS}, "bf16");
    files_flip("rows.kv", 3000, 16);
    must_refuse(&second, "damaged");
    files_flip("rows.kv", 3000, 16);
    files_flip("rows.kv", 9, 16); /* the version */
    must_refuse(&second, "version");
    files_flip("rows.kv", 9, 16);
    must_run(&second);
    assert_int_equal(truncate("rows.kv", 5000), 0);
    must_refuse(&second, "cut short");
    assert_int_equal(truncate("rows.kv", 20), 0);
    must_refuse(&second, "not saved rows");
    unlink("rows.kv");
    must_refuse(&second, "No such file");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_goes_on_in_another_process_with_other_bits),
        cmocka_unit_test(rows_of_another_model_or_type_or_damaged_ones_are_taken_by_the_next_process),
    };

    log_set_level(LOG_ERROR);
    if (argc == 5)
        return child(&(struct task){(size_t)atoi(argv[1]), (size_t)atoi(argv[2]), (size_t)atoi(argv[3]),
                                    (size_t)atoi(argv[4])});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
