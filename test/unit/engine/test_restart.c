/* test_restart.c - one process computes and saves its rows, another goes on: the same tokens and the same
 * bits of logits as without the break, between all cache types; and a process that cannot go on says why.
 *
 * The program calls itself: as a child it computes steps [from, to) of one greedy answer, from the prompt or
 * from saved rows, and leaves a token and its logits a step. The parent never opens an engine.
 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/gallop_in.h"
#include "engine/identity.h"
#include "goldens.h"
#include "kv/kv_wire.h"

enum { PROMPT = 150, BREAK = 6, STEPS = 14, CHUNK = 48, LONGEST = 320, MAX_VOCAB = 4096 };

struct way {
    const char *type, *layout, *block, *threads;
};

static const struct way ways[] = {{"slab_pool", "head_major", "0", "1"},
                                  {"paged", "block_major", "16", "2"},
                                  {"dynamic", "head_major", "0", "1"},
                                  {"bmc", "head_major", "0", "1"},
                                  {"slab_pool", "block_major", "64", "1"}};
enum { N_WAYS = sizeof(ways) / sizeof(ways[0]) };

struct record { /* of one step */
    int32_t token;
    float logits[MAX_VOCAB]; /* zeros behind the vocabulary */
};

/* ---- the child ---- */

struct task {
    const char *model, *dtype, *kv_dtype;
    struct way way;
    size_t from, to;
    const char *rows;   /* file of rows: read where FROM is not 0, written where TO is not STEPS */
    const char *before; /* file of the records in front of FROM */
    const char *out;
};

static _Noreturn void give_up(const char *sentence)
{
    fprintf(stderr, "%s\n", sentence);
    exit(1);
}

static struct gallop *open_task(const struct task *t)
{
    struct gallop_options o;
    struct gallop *g;
    char err[GALLOP_ERR_SIZE];

    gallop_options_init(&o);
    o.dtype = t->dtype;
    o.kv_cache_dtype = t->kv_dtype;
    o.kv_cache_type = t->way.type;
    o.kv_cache_layout = t->way.layout;
    o.block_size = atoi(t->way.block);
    o.threads = atoi(t->way.threads);
    o.max_batched_tokens = CHUNK;
    o.max_num_seqs = 2;
    o.max_model_len = LONGEST;
    if (golden_try_open(&g, t->model, &o, err) != 0)
        give_up(err);
    return g;
}

/* Computes N tokens from position POS on; the greedy choice behind the last into R. */
static void compute(struct llm *m, const int32_t *ids, size_t pos, size_t n, struct record *r)
{
    size_t best = 0;

    for (size_t at = 0; at < n;) {
        size_t len = n - at < CHUNK ? n - at : CHUNK;
        struct llm_rows rows = {.id = ids + at,
                                .n = len,
                                .pos = pos + at,
                                .n_prompt = PROMPT,
                                .n_total = pos + n,
                                .n_wanted = at + len == n};

        if (kv_reserve(&m->kv, 0, pos + at + len) != 0)
            give_up("no room");
        llm_forward(m, &rows, 1);
        at += len;
        kv_advance(&m->kv, 0, pos + at);
    }
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
    FILE *f = fopen(t->before, "rb");
    struct err e = {0};
    int32_t token;
    size_t n = 0;

    if (!f || fseek(f, (long)((t->from - 1) * sizeof(struct record)), SEEK_SET) != 0 ||
        fread(&token, sizeof(token), 1, f) != 1)
        give_up("no records of the process before");
    fclose(f);
    if (kv_wire_read(&m->kv, 0, identity_of(&m->model), t->rows, &n, &e) != 0)
        give_up(e.msg);
    if (n != PROMPT + t->from - 1)
        give_up("another number of rows");
    return token;
}

static int child(const struct task *t)
{
    static struct record r;
    struct gallop *g = open_task(t);
    struct llm *m = gallop_llm(g);
    int32_t ids[PROMPT], token = t->from ? take_up(t, m) : 0;
    FILE *f = fopen(t->out, "wb");
    struct err e = {0};

    if (!f || m->model.info.vocab > MAX_VOCAB)
        give_up("no place for records");
    for (size_t i = 0; i < PROMPT; i++)
        ids[i] = (int32_t)(3 + (i * i * 5 + i * 37) % 150);
    for (size_t s = t->from; s < t->to; s++) {
        if (s == 0)
            compute(m, ids, 0, PROMPT, &r);
        else
            compute(m, &token, PROMPT + s - 1, 1, &r);
        token = r.token;
        if (fwrite(&r, sizeof(r), 1, f) != 1)
            give_up("no place for a record");
    }
    fclose(f);
    if (t->to < STEPS &&
        kv_wire_write(&m->kv, 0, PROMPT + t->to - 1, identity_of(&m->model), t->rows, &e) != 0)
        give_up(e.msg);
    gallop_close(g);
    return 0;
}

/* ---- the parent ---- */

/* Runs T in a process of its own, whose complaints go to the file "said"; its exit status. */
static int run(const struct task *t)
{
    char from[24], to[24];
    char *argv[] = {(char *)"test_restart",
                    (char *)(uintptr_t)t->model,
                    (char *)(uintptr_t)t->dtype,
                    (char *)(uintptr_t)t->kv_dtype,
                    (char *)(uintptr_t)t->way.type,
                    (char *)(uintptr_t)t->way.layout,
                    (char *)(uintptr_t)t->way.block,
                    (char *)(uintptr_t)t->way.threads,
                    from,
                    to,
                    (char *)(uintptr_t)t->rows,
                    (char *)(uintptr_t)t->before,
                    (char *)(uintptr_t)t->out,
                    NULL};
    int status = 0;
    pid_t pid;

    snprintf(from, sizeof(from), "%zu", t->from);
    snprintf(to, sizeof(to), "%zu", t->to);
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

/* All of the file PATH; free(). */
static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *p = malloc(STEPS * sizeof(struct record) + 1);

    assert_true(f && p);
    *n = fread(p, 1, STEPS * sizeof(struct record), f);
    p[*n] = 0;
    fclose(f);
    return p;
}

static void must_run(const struct task *t)
{
    size_t n;

    if (run(t) != 0)
        fail_msg("%s %s %s, %s, steps %zu to %zu: %s", t->model, t->dtype, t->kv_dtype, t->way.type, t->from,
                 t->to, slurp("said", &n));
}

/* The records that T left are those of WANT from its first step on. */
static bool same(const struct task *t, const char *want)
{
    size_t n, expected = (t->to - t->from) * sizeof(struct record);
    char *got = slurp(t->out, &n);
    bool equal = n == expected && memcmp(got, want + t->from * sizeof(struct record), n) == 0;

    free(got);
    return equal;
}

/* Each way hands on to each of the next N_NEXT, itself the last. */
static void break_everywhere(const char *model, const char *dtype, const char *kv_dtype, size_t n_next)
{
    struct task whole = {model, dtype, kv_dtype, ways[0], 0, STEPS, "rows", "before", "whole"};
    size_t n;
    char *want;

    must_run(&whole);
    want = slurp("whole", &n);
    assert_int_equal(n, STEPS * sizeof(struct record));
    for (size_t a = 0; a < N_WAYS; a++) {
        struct task first = {model, dtype, kv_dtype, ways[a], 0, BREAK, "rows", "before", "first"};

        must_run(&first);
        if (!same(&first, want))
            fail_msg("%s %s %s: %s differs before the break", model, dtype, kv_dtype, ways[a].type);
        assert_false(same(&first, want + sizeof(struct record))); /* the ruler: a step too late */
        for (size_t k = 1; k <= n_next; k++) {
            size_t b = (a + k) % N_WAYS;
            struct task second = {model, dtype, kv_dtype, ways[b], BREAK, STEPS, "rows", "first", "second"};

            must_run(&second);
            if (!same(&second, want))
                fail_msg("%s %s %s: from %s to %s, what comes behind the break differs", model, dtype,
                         kv_dtype, ways[a].type, ways[b].type);
        }
    }
    free(want);
}

static void llama_goes_on_in_another_process_in_fp32_bf16_and_int8(void **state)
{
    break_everywhere("llama3-rope", "fp32", "auto", 2);
    break_everywhere("llama3-rope", "bf16", "auto", N_WAYS);
    break_everywhere("llama3-rope", "bf16", "int8", 2);
}

static void gemma_goes_on_in_another_process_behind_its_windows(void **state)
{
    break_everywhere("gemma3", "bf16", "auto", 2);
    break_everywhere("gemma3", "fp32", "int8", 2);
}

static void layers_that_share_rows_go_on_in_another_process(void **state)
{
    break_everywhere("gemma4", "bf16", "auto", N_WAYS);
    break_everywhere("gemma4", "fp32", "int8", 2);
}

/* T cannot go on, and its one sentence holds WHAT. */
static void must_refuse(const struct task *t, const char *what)
{
    int status = run(t);
    size_t n;
    char *said = slurp("said", &n);

    if (status != 1 || !strstr(said, what) || !strstr(said, t->rows))
        fail_msg("status %d, expected \"%s\": %s", status, what, said);
    free(said);
}

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    unsigned char c = 0;

    assert_true(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c ^= 16;
    assert_true(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

static void rows_of_another_model_or_type_and_damaged_ones_are_refused_by_the_next_process(void **state)
{
    struct task t = {"llama3-rope", "bf16", "auto", ways[0], 0, BREAK, "some.rows", "before", "first"};
    struct task other;

    must_run(&t);
    t = (struct task){"llama3-rope", "bf16", "auto", ways[1], BREAK, STEPS, "some.rows", "first", "second"};
    must_run(&t);
    other = t;
    other.model = "mistral";
    must_refuse(&other, "another model");
    other = t;
    other.kv_dtype = "int8";
    must_refuse(&other, "bf16");
    flip("some.rows", 3000);
    must_refuse(&t, "damaged");
    flip("some.rows", 3000);
    flip("some.rows", 9); /* the version */
    must_refuse(&t, "version");
    flip("some.rows", 9);
    must_run(&t);
    assert_int_equal(truncate("some.rows", 5000), 0);
    must_refuse(&t, "cut short");
    assert_int_equal(truncate("some.rows", 20), 0);
    must_refuse(&t, "not saved rows");
    unlink("some.rows");
    must_refuse(&t, "No such file");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_goes_on_in_another_process_in_fp32_bf16_and_int8),
        cmocka_unit_test(gemma_goes_on_in_another_process_behind_its_windows),
        cmocka_unit_test(layers_that_share_rows_go_on_in_another_process),
        cmocka_unit_test(rows_of_another_model_or_type_and_damaged_ones_are_refused_by_the_next_process),
    };

    log_set_level(LOG_ERROR);
    if (argc == 13)
        return child(&(struct task){argv[1],
                                    argv[2],
                                    argv[3],
                                    {argv[4], argv[5], argv[6], argv[7]},
                                    (size_t)atoi(argv[8]),
                                    (size_t)atoi(argv[9]),
                                    argv[10],
                                    argv[11],
                                    argv[12]});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
