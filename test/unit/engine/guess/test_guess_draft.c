/* test_guess_draft.c - guesses of a draft model: answers are those without it, drafts with the noise of the target are
 * often right, and models that cannot be drafts are refused.
 */
#include <jansson.h>

#include "base/err.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/guess/draft.h"
#include "engine/guess/sources.h"
#include "engine/guess/vocabulary.h"
#include "engine/llm.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"
#include "kv/kv.h"
#include "ops/linear_backend.h"
#include "text/grammar/constraint.h"
#include "ways.h"

static const char draft_path[] = GALLOP_SOURCE_DIR "/models/demo-draft",
                  parallel_path[] = GALLOP_SOURCE_DIR "/models/demo-pard";

/* An engine on a model with a draft. */
struct pair {
    struct gallop *g;
    struct draft *d;
    struct guess_maker maker;
    /* [n_known] output tokens of the first sequence at each call of propose(), and its guesses */
    size_t known[64], guessed[64], n_known;
    size_t n_allowed, n_forbidden; /* guesses for answers with a constraint */
};

/* Counts the guesses for S that its constraint allows, and those behind them. */
static void count_allowed(struct pair *p, struct seq *s)
{
    size_t n = s->run.n, k = 0;

    while (k < s->guess.n && constraint_run_add(&s->run, s->token[s->n_known + k]))
        k++;
    constraint_run_truncate(&s->run, n);
    p->n_allowed += k;
    p->n_forbidden += s->guess.n - k;
}

static void propose(void *ctx, struct seq **seq, size_t n)
{
    struct pair *p = ctx;

    draft_propose(p->d, seq, n);
    if (p->n_known < 64) {
        p->known[p->n_known] = seq_n_output(seq[0]);
        p->guessed[p->n_known++] = seq[0]->guess.n;
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(seq[i]->guess.n <= seq[i]->guess.most && seq[i]->guess.n <= draft_most(p->d));
        if (seq[i]->mask)
            count_allowed(p, seq[i]);
    }
}

static void leave(void *ctx, const struct seq *seq)
{
    struct pair *p = ctx;

    draft_leave(p->d, seq);
}

/* Opens the model NAME with the draft O, whose model is demo-draft unless it has one. O NULL: without a draft. */
static void open_pair(struct pair *p, const char *name, const struct gallop_options *of_engine,
                      const struct draft_options *o)
{
    struct draft_options with;
    struct err e = {0};

    *p = (struct pair){.g = engines_open(name, of_engine)};
    if (!o)
        return;
    with = *o;
    with.engine = of_engine;
    with.model = o->model ? o->model : draft_path;
    if (draft_open(&p->d, &with, engine_llm(p->g), &e) != 0)
        fail_msg("%s: %s", e.subject, e.msg);
    p->maker = (struct guess_maker){.ctx = p, .most = draft_most(p->d), .propose = propose, .leave = leave};
    engine_loop(p->g)->guesser = &p->maker;
}

static void close_pair(struct pair *p)
{
    struct err e = {0};

    if (p->d && kv_check(&draft_llm(p->d)->kv, &e) != 0)
        fail_msg("%s", e.msg);
    gallop_close(p->g);
    draft_close(p->d);
}

/* ---- folders of models ---- */

static json_t *load(const char *folder, const char *name)
{
    char path[4096];
    json_t *v;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_non_null(v = json_load_file(path, 0, NULL));
    return v;
}

static void save(json_t *v, const char *folder, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(json_dump_file(v, path, 0), 0);
    json_decref(v);
}

/* Copies the model FROM into a new folder, with the member NAME (NULL: none) of config.json set to VALUE. */
static const char *model_with(const char *from, const char *name, int value)
{
    const char *folder = files_folder();
    json_t *config;

    files_copy_all(from, folder);
    config = load(folder, "config.json");
    if (name)
        json_object_set_new(config, name, json_integer(value));
    save(config, folder, "config.json");
    return folder;
}

/* Appends EXTRA tokens to the vocabulary of the model FOLDER, but not to its tokenizer. Their embeddings are those of
 * tokens 300 and following. */
static void extend(const char *folder, size_t extra)
{
    static const char name[] = "model.embed_tokens.weight";
    char path[4096];
    json_t *config = load(folder, "config.json"), *header, *table, *tensor;
    size_t n, n_header, row = 2 * (size_t)json_integer_value(json_object_get(config, "hidden_size")), begin,
                        end, vocab;
    const char *key;
    char *file, *text, *data, *out;

    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    file = files_read(path, &n);
    memcpy(&n_header, file, 8);
    assert_non_null(header = json_loadb(file + 8, n_header, 0, NULL));
    data = file + 8 + n_header;
    n -= 8 + n_header;
    table = json_object_get(header, name);
    begin = (size_t)json_integer_value(json_array_get(json_object_get(table, "data_offsets"), 0));
    end = (size_t)json_integer_value(json_array_get(json_object_get(table, "data_offsets"), 1));
    vocab = (end - begin) / row;
    json_object_foreach(header, key, tensor)
    {
        json_t *at = json_object_get(tensor, "data_offsets");

        for (size_t i = 0; i < 2 && at; i++) {
            size_t offset = (size_t)json_integer_value(json_array_get(at, i));

            json_array_set_new(at, i,
                               json_integer((json_int_t)(offset < end ? offset : offset + extra * row)));
        }
    }
    json_array_set_new(json_object_get(table, "data_offsets"), 1,
                       json_integer((json_int_t)(end + extra * row)));
    json_array_set_new(json_object_get(table, "shape"), 0, json_integer((json_int_t)(vocab + extra)));
    json_object_set_new(config, "vocab_size", json_integer((json_int_t)(vocab + extra)));
    save(config, folder, "config.json");
    text = json_dumps(header, JSON_COMPACT);
    n_header = strlen(text);
    assert_non_null(out = malloc(8 + n_header + n + extra * row));
    memcpy(out, &n_header, 8);
    memcpy(out + 8, text, n_header);
    memcpy(out + 8 + n_header, data, end);
    memcpy(out + 8 + n_header + end, data + begin + 300 * row, extra * row);
    memcpy(out + 8 + n_header + end + extra * row, data + end, n - end);
    files_write(path, out, 8 + n_header + n + extra * row);
    free(out);
    mem_free(text);
    free(file);
    json_decref(header);
}

/* ---- answers ---- */

enum { PENALTIES = 3, SCHEMA = 4, CHOICES = 5, LONG = 8, N = 9 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":12},\"n\":{\"type\":"
    "\"integer\"}},\"required\":[\"city\",\"n\"],\"additionalProperties\":false}";

static void submit(struct gallop *g, size_t which)
{
    static const char *const texts[] = {"Once upon a time",         "One sunny day, Lily",
                                        "12 + 7 = 19. 45 - 6 =",    "Once upon a time there was a dragon",
                                        "The capital of France is", "There once was a clever mouse named"};
    static char long_text[] =
        "Once upon a time there was a clever mouse. The mouse was clever. One day, the mouse "
        "saw a clever cat. The cat saw the clever mouse, and the mouse saw the cat. ";
    static const int32_t bias_id[] = {20, 30};
    static const float bias[] = {3, -3};
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];

    if (which > CHOICES && which < LONG)
        return; /* a further answer of CHOICES */
    gallop_request_init(&r);
    r.text = which == LONG ? long_text : texts[which];
    r.sampling.max_new_tokens = which == LONG ? 60 : 40;
    r.sampling.ignore_eos = which != 2 && which != SCHEMA;
    r.sampling.do_sample = which > 0 && which != SCHEMA;
    r.sampling.temperature = which == 1 ? .7 : 1;
    r.sampling.top_p = which == 1 ? .9 : 1;
    r.sampling.logprobs = which % 3 == 0 ? 2 : -1;
    r.sampling.has_seed = 1;
    r.sampling.seed = 100 + which;
    if (which == PENALTIES) {
        r.sampling.repetition_penalty = 1.3;
        r.sampling.presence_penalty = .5;
        r.sampling.frequency_penalty = .2;
        r.sampling.bias_id = bias_id;
        r.sampling.bias = bias;
        r.sampling.n_bias = 2;
    }
    r.structured_outputs.json = which == SCHEMA ? schema : NULL;
    r.n = which == CHOICES ? 3 : 0;
    r.user = (void *)which;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%zu: %s", which, err);
}

static struct gallop_options options(int64_t step, int threads, int64_t budget)
{
    struct gallop_options o = engines_options(8, step, 256);

    o.threads = threads;
    o.kv_cache_tokens = budget;
    return o;
}

/* Computes the answers of MODEL without a draft, one by one, into USUAL [N]. */
static void answer_alone(const char *model, struct engines_answer *usual)
{
    const struct gallop_options o = options(64, 1, 0);
    struct pair p;

    memset(usual, 0, N * sizeof(*usual));
    open_pair(&p, model, &o, NULL);
    for (size_t i = 0; i < N; i++) {
        submit(p.g, i);
        engines_run(p.g, usual);
    }
    close_pair(&p);
}

/* Sanitizers are slow: they get a part of the cases, and the thread sanitizer those with two threads. */
#if defined(__SANITIZE_THREAD__)
enum { FIRST = 2, THIN = 6 };
#elif defined(__SANITIZE_ADDRESS__)
enum { FIRST = 0, THIN = 5 };
#else
enum { FIRST = 0, THIN = 1 };
#endif

static void a_draft_changes_no_token(void **state)
{
    static struct engines_answer got[N], want[N];
    static const size_t mosts[] = {4, 1, 12};
    uint64_t preempted = 0, accepted = 0, rejected = 0, masked = 0;
    char says[256];

    answer_alone("demo", want);
    for (int i = FIRST; i < 16; i += THIN) {
        const char *type = ways_types[i % 4];
        struct gallop_options o = options(i / 4 % 2 ? 16 : 64, i % 3 == 2 ? 2 : 1, i / 4 == 2 ? 320 : 0);
        /* Some drafts have so few rows that sequences are cut. */
        struct draft_options with = {
            .most = mosts[i % 3], .is_parallel = true, .max_model_len = i % 5 == 4 ? 40 : 0};
        struct pair p;

        o.kv_cache_type = type;
        with.model = i >= 12 ? parallel_path : NULL;
        open_pair(&p, "demo", &o, &with);
        for (int round = 0; round < 2; round++) {
            memset(got, 0, sizeof(got));
            for (size_t k = 0; k < N; k++)
                submit(p.g, k);
            engines_run(p.g, got);
            if (engines_differ(got, want, N, says))
                fail_msg("case %d, %s, %zu guesses, round %d: %s", i, type, with.most, round, says);
        }
        engines_check_cache(p.g);
        preempted += engines_stats(p.g).n_preempted;
        accepted += engine_loop(p.g)->guess_counts.n_accepted;
        rejected += engine_loop(p.g)->guess_counts.n_guessed - engine_loop(p.g)->guess_counts.n_accepted;
        masked += i >= 12 ? engine_loop(p.g)->guess_counts.n_guessed : 0;
        close_pair(&p);
    }
    print_message("%d times a request was preempted, %d right and %d wrong guesses, %d of mask tokens\n",
                  (int)preempted, (int)accepted, (int)rejected, (int)masked);
    assert_true((preempted > 0 || THIN > 1) && accepted > 1000 / THIN && rejected > 500 / THIN &&
                masked > 500 / THIN);
}

/* Each guess is drawn under the mask of its own place, so that no guess is computed that the schema forbids. */
static void guesses_of_a_draft_obey_the_schema(void **state)
{
    static struct engines_answer got[N];

    for (int parallel = 0; parallel < 2; parallel++) {
        const struct gallop_options o = options(64, 2, 0);
        const struct draft_options with = {
            .model = parallel ? parallel_path : NULL, .most = 4, .is_parallel = true};
        struct pair p;

        memset(got, 0, sizeof(got));
        open_pair(&p, "demo", &o, &with);
        for (size_t k = 0; k < 3; k++) {
            submit(p.g, SCHEMA);
            submit(p.g, k);
            engines_run(p.g, got);
            memset(got, 0, sizeof(got));
        }
        print_message("%d guesses that the schema allows, %d that it forbids\n", (int)p.n_allowed,
                      (int)p.n_forbidden);
        assert_true(p.n_allowed > 40);
        assert_int_equal(p.n_forbidden, 0);
        close_pair(&p);
    }
}

/* ---- how often guesses are right ---- */

/* Returns the tokens of a step of answers at TEMPERATURE, with MOST guesses of DRAFT. */
static double tokens_of_a_step(const char *draft, size_t most, double temperature)
{
    static const char *const texts[] = {"Once upon a time",
                                        "One sunny day, Lily",
                                        "There once was a clever mouse named",
                                        "Once upon a time there was a dragon",
                                        "Tom has 5 apples.",
                                        "What is the capital of Norway?"};
    static struct engines_answer got[6];
    struct gallop_options o = options(64, 1, 0);
    const struct draft_options with = {.model = draft, .most = most, .is_parallel = true};
    const struct guess_counts *n;
    struct pair p;
    double tokens;

    memset(got, 0, sizeof(got));
    open_pair(&p, "demo", &o, &with);
    for (size_t i = 0; i < 6; i++) {
        struct gallop_request r;

        gallop_request_init(&r);
        r.text = texts[i];
        r.sampling.max_new_tokens = 120;
        r.sampling.do_sample = temperature > 0;
        r.sampling.temperature = temperature;
        r.sampling.has_seed = 1;
        r.sampling.seed = (uint64_t)i;
        r.user = (void *)i;
        assert_int_equal(gallop_submit(p.g, &r, NULL, NULL), 0);
    }
    engines_run(p.g, got);
    n = &engine_loop(p.g)->guess_counts;
    tokens = 1 + (double)n->n_accepted / (double)n->n_drafts;
    print_message("%s, %zu guesses, temperature %g: %.2f tokens a step\n", draft ? "parallel" : "one by one",
                  most, temperature, tokens);
    close_pair(&p);
    return tokens;
}

static void guesses_are_often_right(void **state)
{
    test_of_one_thread();
    assert_true(tokens_of_a_step(NULL, 4, 0) >= 3.6);
    assert_true(tokens_of_a_step(NULL, 4, 1) >= 3.6);
    assert_true(tokens_of_a_step(parallel_path, 4, 0) >= 2.2);
    assert_true(tokens_of_a_step(parallel_path, 12, 1) >= 2.2);
}

/* A step computes few of the missing rows of a long prompt, and guesses follow when there are all. The second time the
 * prefix cache has them. */
static void a_long_prompt_delays_its_own_guesses_only(void **state)
{
    enum { LENGTH = 2 * DRAFT_CATCH_UP + 60 };
    static struct engines_answer got[3], long_one;
    const struct gallop_options o = engines_options(4, 0, 1024);
    const struct draft_options with = {.most = 4};
    struct pair p;

    test_of_one_thread();
    open_pair(&p, "demo", &o, &with);
    memset(&long_one, 0, sizeof(long_one));
    engines_submit_text(p.g, LENGTH, 16, 0);
    engines_run(p.g, &long_one);
    assert_true(p.n_known > 2 && p.guessed[0] == 0 && p.guessed[1] == 0 && p.guessed[2] == 4);
    p.n_known = 0;
    memset(got, 0, sizeof(got));
    engines_submit_text(p.g, LENGTH, 16, 0);
    engines_run(p.g, got);
    assert_memory_equal(got[0].token, long_one.token, sizeof(got[0].token));
    assert_int_equal(p.guessed[0], 4);
    p.n_known = 0;
    memset(got, 0, sizeof(got));
    engines_submit_text(p.g, 20, 30, 1); /* its first step is that of the others */
    engines_submit_text(p.g, LENGTH, 16, 2);
    engines_run(p.g, got);
    for (size_t i = 0; i < p.n_known && p.known[i] + 5 < 30; i++)
        assert_int_equal(p.guessed[i], 4);
    close_pair(&p);
}

/* ---- the runs of right guesses of test/golden/demo/draft.json ---- */

/* Computes an answer to PROMPT with the draft of P, and compares the number of right guesses of every step. */
static void check_runs(struct pair *p, const json_t *prompt, const json_t *runs, const char *draft, int which)
{
    static struct engines_answer got;
    size_t known = 1;
    int32_t ids[64];
    size_t n = json_array_size(prompt);

    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(prompt, i));
    memset(&got, 0, sizeof(got));
    p->n_known = 0;
    engines_submit(p->g, ids, n, 48, 0);
    engines_run(p->g, &got);
    for (size_t i = 0; i < json_array_size(runs); i++) {
        if (i >= p->n_known || p->known[i] != known)
            fail_msg("%s, prompt %d: %zu tokens before step %zu of guesses, expected %zu", draft, which,
                     i < p->n_known ? p->known[i] : 0, i, known);
        known += 1 + (size_t)json_integer_value(json_array_get(runs, i));
    }
    assert_int_equal(p->n_known, json_array_size(runs));
}

static void guesses_are_right_as_often_as_those_of_transformers(void **state)
{
    const struct gallop_options o = engines_options(2, 0, 128);
    json_t *prompts = load(GALLOP_SOURCE_DIR "/test/golden/demo", "prompts.json"),
           *drafts = load(GALLOP_SOURCE_DIR "/test/golden/demo", "draft.json");
    size_t i, k, n = 0;
    const json_t *draft, *answer;

    test_of_one_thread();
    json_array_foreach(drafts, i, draft)
    {
        char path[4096];
        const struct draft_options with = {.model = path,
                                           .quant = "none",
                                           .is_parallel = true,
                                           .most =
                                               (size_t)json_integer_value(json_object_get(draft, "guesses"))};
        struct pair p;

        if (i % THIN)
            continue;
        snprintf(path, sizeof(path), "%s/models/%s", GALLOP_SOURCE_DIR,
                 json_string_value(json_object_get(draft, "draft")));
        open_pair(&p, "demo", &o, &with);
        assert_int_equal(draft_source(p.d), strstr(path, "pard") ? GUESS_PARD : GUESS_DRAFT);
        json_array_foreach(json_object_get(draft, "answers"), k, answer)
        {
            int which = (int)json_integer_value(json_object_get(answer, "prompt"));

            check_runs(&p, json_array_get(prompts, (size_t)which), json_object_get(answer, "runs"), path,
                       which);
            n++;
        }
        close_pair(&p);
    }
    assert_true(n > 30 / THIN);
    json_decref(prompts);
    json_decref(drafts);
}

/* ---- vocabularies ---- */

/* Checks that the answers of TARGET with DRAFT are those without it. */
static void compare(const char *target, const char *draft)
{
    static struct engines_answer want[N], got[N];
    const struct gallop_options o = options(64, 2, 0);
    const struct draft_options with = {.model = draft, .most = 4, .is_parallel = true};
    char says[256];
    struct pair p;

    answer_alone(target, want);
    open_pair(&p, target, &o, &with);
    memset(got, 0, sizeof(got));
    for (size_t k = 0; k < N; k++)
        submit(p.g, k);
    engines_run(p.g, got);
    if (engines_differ(got, want, N, says))
        fail_msg("%s with %s: %s", target, draft, says);
    assert_true(engine_loop(p.g)->guess_counts.n_accepted > 100);
    close_pair(&p);
}

static void tables_of_one_tokenizer_may_differ_in_size(void **state)
{
    const char *target = model_with(engines_path("demo"), NULL, 0), *draft = model_with(draft_path, NULL, 0),
               *parallel = model_with(draft_path, "ptd_token_id", 2050);

    extend(target, 16);
    extend(draft, 16);
    extend(parallel, 16);
    compare(target, draft_path);
    compare("demo", draft);
    compare("demo", parallel); /* whose mask token is beyond the vocabulary of the target */
}

/* Checks that DRAFT cannot be a draft of TARGET, with a sentence that contains SAYS. */
static void refused(const char *target, const struct draft_options *o, const char *says)
{
    const struct gallop_options of_engine = options(64, 1, 0);
    struct draft_options with = *o;
    struct pair p;
    struct err e = {0};

    open_pair(&p, target, &of_engine, NULL);
    with.engine = &of_engine;
    assert_int_not_equal(draft_open(&p.d, &with, engine_llm(p.g), &e), 0);
    assert_null(p.d);
    assert_string_equal(e.subject, "speculative_config");
    if (!strstr(e.msg, says))
        fail_msg("found \"%s\", expected \"%s\"", e.msg, says);
    close_pair(&p);
}

static void a_backend_whose_bits_depend_on_the_rows_has_no_guesses(void **state)
{
    struct gallop_options o = options(64, 1, 0);
    struct gallop *g = engines_open("demo", &o);
    struct linear *l = engine_llm(g)->model.linear[3];
    const struct linear_backend *own = l->backend;
    struct linear_backend loose = *own; /* the backend jit is not in every build */
    struct guess_sources *sources;
    struct err e = {0};

    o.speculative_config = "{\"method\":\"ngram\"}";
    loose.name = "jit";
    loose.flags |= LINEAR_LOOSE;
    l->backend = &loose;
    assert_int_equal(guess_sources_open(&sources, &o, engine_llm(g), &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "not supported with the backend jit"));
    l->backend = own;
    assert_int_equal(guess_sources_open(&sources, &o, engine_llm(g), &e), 0);
    guess_sources_close(sources);
    gallop_close(g);
}

/* Exchanges the ids of two tokens of the tokenizer of FOLDER. */
static void exchange(const char *folder, const char *a, const char *b)
{
    json_t *all = load(folder, "tokenizer.json"),
           *vocab = json_object_get(json_object_get(all, "model"), "vocab");
    json_int_t of_a = json_integer_value(json_object_get(vocab, a));

    assert_true(of_a > 0);
    json_object_set_new(vocab, a, json_integer(json_integer_value(json_object_get(vocab, b))));
    json_object_set_new(vocab, b, json_integer(of_a));
    save(all, folder, "tokenizer.json");
}

/* The draft is the target itself, so that every guess is right, but the step computes only two of five. The token
 * behind
 * them is the third guess, whose row the draft has already: without its logits there would be no guess from then on. */
static void propose_two(void *ctx, struct seq **seq, size_t n)
{
    propose(ctx, seq, n);
    for (size_t i = 0; i < n; i++)
        seq[i]->guess.n = seq[i]->guess.n < 2 ? seq[i]->guess.n : 2;
}

static void a_draft_stops_guessing_behind_a_guess_that_was_not_computed(void **state)
{
    enum { STEPS = 10, NEW_TOKENS = 1 + 3 * STEPS };
    static struct engines_answer got[2];
    const struct gallop_options o = options(64, 1, 0);
    const struct draft_options same = {.model = engines_path("demo"), .quant = "none", .most = 5};
    struct guess_counts counts;
    struct pair p;

    for (size_t with = 0; with < 2; with++) {
        open_pair(&p, "demo", &o, with ? &same : NULL);
        p.maker.propose = propose_two;
        engines_submit_text(p.g, 40, NEW_TOKENS, with);
        engines_run(p.g, got);
        counts = engine_loop(p.g)->guess_counts;
        if (p.d)
            for (size_t i = 0; i < 8; i++)
                assert_int_equal(kv_held_bytes(&draft_llm(p.d)->kv, i), 0);
        close_pair(&p);
    }
    assert_int_equal(p.n_known, STEPS);
    for (size_t i = 0; i < STEPS; i++) {
        assert_int_equal(p.known[i], 1 + 3 * i);
        assert_int_equal(p.guessed[i], i < STEPS - 1 ? 5 : 2); /* a guess has a token behind it */
    }
    assert_int_equal(counts.n_drafts, STEPS);
    assert_int_equal(counts.n_guessed, 2 * STEPS);
    assert_int_equal(counts.n_accepted, 2 * STEPS);
    assert_int_equal(got[1].end.speculation.n_accepted_tokens, 2 * STEPS);
    assert_int_equal(got[0].n, NEW_TOKENS);
}

static void models_that_cannot_be_drafts_are_refused(void **state)
{
    const char *other = model_with(draft_path, NULL, 0), *mask = model_with(draft_path, "pard_token", 2048);

    exchange(other, "x", "y");
    refused("demo", &(struct draft_options){.model = other}, "is \"y\", expected \"x\"");
    refused("demo", &(struct draft_options){.model = mask, .is_parallel = true},
            "mask token is 2048, expected less than its vocabulary of 2048 tokens");
    refused("llama3-rope", &(struct draft_options){.model = draft_path},
            "its vocabulary has 2048 tokens, expected");
    refused(
        "demo", &(struct draft_options){.model = draft_path, .max_model_len = 17},
        "has 17 rows for each sequence, of which 8 may run, expected at least 18 (members \"max_model_len\" and ");
    refused("demo", &(struct draft_options){.model = draft_path, .quant = "int3"}, "quant: found");
    refused("demo", &(struct draft_options){.model = "/nowhere/at/all"}, "no such folder");
    refused("demo",
            &(struct draft_options){.model = draft_path, .is_parallel = true, .must_be_parallel = true},
            "parallel_drafting is true, but the model names no mask token");
}

static void an_engine_survives_a_draft_without_memory(void **state)
{
    const struct gallop_options of_engine = options(64, 1, 0);
    const struct draft_options o = {.engine = &of_engine, .model = draft_path};
    size_t blocks, regions;
    bool failed = true;
    struct pair p;
    long n;

    test_of_one_thread();
    open_pair(&p, "demo", &of_engine, &o); /* libraries allocate what they keep now */
    draft_close(p.d);
    engine_loop(p.g)->guesser = NULL;
    blocks = mem_live_blocks();
    regions = map_region_live_bytes();
    for (n = 0; failed; n += THIN) {
        struct err e = {0};
        int rc;

        mem_fail_at(n + 1);
        rc = draft_open(&p.d, &o, engine_llm(p.g), &e);
        failed = mem_failed();
        mem_fail_at(0);
        draft_close(p.d); /* NULL, unless the allocation was not needed */
        if (rc && strlen(e.msg) < 10)
            fail_msg("allocation %ld: code %d, \"%s\"", n, rc, e.msg);
        if (mem_live_blocks() != blocks || map_region_live_bytes() != regions)
            fail_msg("allocation %ld: %zu blocks and %zu region bytes leak (%s)", n,
                     mem_live_blocks() - blocks, map_region_live_bytes() - regions, e.msg);
    }
    print_message("%ld allocations\n", n - THIN);
    assert_true(n > 100);
    gallop_close(p.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses_of_a_draft_obey_the_schema),
        cmocka_unit_test(guesses_are_often_right),
        cmocka_unit_test(a_draft_changes_no_token),
        cmocka_unit_test(a_long_prompt_delays_its_own_guesses_only),
        cmocka_unit_test(guesses_are_right_as_often_as_those_of_transformers),
        cmocka_unit_test(tables_of_one_tokenizer_may_differ_in_size),
        cmocka_unit_test(a_backend_whose_bits_depend_on_the_rows_has_no_guesses),
        cmocka_unit_test(a_draft_stops_guessing_behind_a_guess_that_was_not_computed),
        cmocka_unit_test(models_that_cannot_be_drafts_are_refused),
        cmocka_unit_test(an_engine_survives_a_draft_without_memory),
    };

    json_set_alloc_funcs(mem_lib_alloc, mem_free); /* as the program does */
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
