/* test_limits.c - zero, one, the largest value and one more for everything that a caller of gallop.h can set:
 * each is accepted as the header says, or refused with a sentence that names it. Nothing may crash. */
#include <math.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/sampling/sampling.h"
#include "engines.h"
#include "files.h"
#include "gallop.h"

enum { LONGEST = 64, VOCAB = 192, EOS = 2 };

static struct gallop *open_ids(void) /* the model without a tokenizer */
{
    struct gallop_options o = engines_options(2, 0, LONGEST);

    return engines_open("llama3-rope", &o);
}

static struct gallop *open_text(void)
{
    struct gallop_options o = engines_options(2, 0, LONGEST);

    o.prefix_index = "hash"; /* A short prompt is computed each time. */
    return engines_open("demo", &o);
}

static const int32_t prompt[LONGEST + 1] = {5, 6, 7, 8, 9}; /* Token 0 follows these tokens. */

static struct gallop_request request(size_t n)
{
    struct gallop_request r;

    gallop_request_init(&r);
    r.ids = prompt;
    r.n_ids = n;
    r.sampling.ignore_eos = 1;
    return r;
}

/* Returns the answer to R, which runs alone. */
static struct engines_answer run(struct gallop *g, const struct gallop_request *r)
{
    struct engines_answer a = {0};
    char err[GALLOP_ERR_SIZE];

    if (gallop_submit(g, r, NULL, err) != 0)
        fail_msg("%s", err);
    engines_run(g, &a);
    assert_true(a.ended && a.n <= LONGEST);
    return a;
}

/* R is refused with a sentence that contains WHAT, and the engine continues to work. */
static void refuse(struct gallop *g, const struct gallop_request *r, const char *what)
{
    struct gallop_event ev;
    char err[GALLOP_ERR_SIZE] = "";

    assert_int_equal(gallop_submit(g, r, NULL, err), GALLOP_BAD_INPUT);
    if (!strstr(err, what))
        fail_msg("\"%s\" is expected in: %s", what, err);
    assert_int_equal(gallop_submit(g, r, NULL, NULL), GALLOP_BAD_INPUT);
    assert_int_equal(gallop_next(g, &ev), 0);
}

/* ---- lengths ---- */

static void no_new_token_computes_the_prompt_and_ends(void **state)
{
    static const char *const stop[] = {"x"};
    struct gallop *g = open_text();
    struct gallop_request r;

    for (int way = 0; way < 6; way++) {
        struct gallop_stats before, after;
        struct engines_answer o;

        gallop_stats(g, &before);
        r = request(5);
        r.sampling.max_new_tokens = 0;
        if (way == 1)
            r.sampling.repetition_penalty = 1.2;
        if (way == 2)
            r.sampling.frequency_penalty = r.sampling.presence_penalty = 0.5;
        if (way == 3)
            r.sampling.logprobs = 3;
        if (way == 4) {
            r.sampling.stop = stop;
            r.sampling.n_stop = 1;
        }
        if (way == 5) {
            r.text = "Once upon a time";
            r.ids = NULL;
            r.n_ids = 0;
        }
        o = run(g, &r);
        gallop_stats(g, &after);
        assert_int_equal(o.end.finish, GALLOP_FINISH_LENGTH);
        assert_int_equal(o.n, 0);
        assert_int_equal(o.end.context_full, 0);
        assert_string_equal(o.text, "");
        assert_int_equal(after.n_steps - before.n_steps, 1);
        assert_int_equal(after.n_prompt_tokens - before.n_prompt_tokens, o.end.n_prompt);
        assert_int_equal(after.n_output_tokens, 0);
        assert_int_equal(after.n_finished, way + 1);
        assert_int_equal(after.n_running + after.n_waiting, 0);
        assert_true(o.end.prefill_s > 0 && o.end.decode_s == 0);
    }
    gallop_close(g);
}

/* Other requests run, the prompt is in chunks, and another request may occupy the only slot. */
static void no_new_token_leaves_the_company_alone(void **state)
{
    struct gallop_options o = engines_options(2, 0, LONGEST);
    struct gallop *g;
    struct engines_answer alone;
    struct gallop_request r = request(40), none = request(50);
    struct gallop_event ev;
    size_t n = 0, n_ends = 0;
    struct gallop_stats s;

    o.max_batched_tokens = 7;
    o.prefix_index = "none"; /* This counts the rows that are computed. */
    g = engines_open("llama3-rope", &o);
    r.sampling.max_new_tokens = 9;
    none.sampling.max_new_tokens = 0;
    none.user = &n;
    alone = run(g, &r);
    assert_int_equal(gallop_submit(g, &none, NULL, NULL), 0);
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    assert_int_equal(gallop_submit(g, &none, NULL, NULL), 0);
    while (gallop_next(g, &ev)) {
        if (ev.type == GALLOP_TOKEN) {
            assert_ptr_equal(ev.user, NULL);
            assert_int_equal(ev.token, alone.token[n]);
            n++;
        } else if (ev.type == GALLOP_FINISHED) {
            assert_int_equal(ev.finish, GALLOP_FINISH_LENGTH);
            n_ends++;
        }
    }
    assert_int_equal(n, 9);
    assert_int_equal(n_ends, 3);
    gallop_stats(g, &s);
    assert_int_equal(s.n_prompt_tokens, 40 + 50 + 40 + 50); /* all of each prompt */
    gallop_close(g);
}

static void a_prompt_may_fill_the_context_when_no_token_is_asked_for(void **state)
{
    struct gallop *g = open_ids();
    struct gallop_request r = request(LONGEST);
    struct engines_answer o;

    refuse(g, &r, "the prompt has 64 tokens");
    r.sampling.max_new_tokens = 1;
    refuse(g, &r, "the prompt has 64 tokens");
    r.sampling.max_new_tokens = 0;
    o = run(g, &r);
    assert_int_equal(o.end.finish, GALLOP_FINISH_LENGTH);
    assert_int_equal(o.end.n_prompt, LONGEST);
    assert_int_equal(o.end.context_full, 0);
    r.n_ids = LONGEST + 1;
    refuse(g, &r, "the prompt has 65 tokens");
    r.n_ids = LONGEST - 1;
    r.sampling.max_new_tokens = -1;
    o = run(g, &r);
    assert_int_equal(o.n, 1);
    assert_int_equal(o.end.context_full, 1);
    gallop_close(g);
}

static void the_context_is_said_to_be_full_when_it_ended_the_text_and_only_then(void **state)
{
    static const struct {
        int64_t max_new;
        size_t n;
        int full;
    } cases[] = {{-1, LONGEST - 5, 1},
                 {INT64_MAX, LONGEST - 5, 1},
                 {LONGEST - 4, LONGEST - 5, 1},
                 {LONGEST - 5, LONGEST - 5, 0},
                 {LONGEST - 6, LONGEST - 6, 0}};
    struct gallop *g = open_ids();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gallop_request r = request(5);
        struct engines_answer o;

        r.sampling.max_new_tokens = cases[i].max_new;
        o = run(g, &r);
        assert_int_equal(o.end.finish, GALLOP_FINISH_LENGTH);
        assert_int_equal(o.n, cases[i].n);
        assert_int_equal(o.end.context_full, cases[i].full);
    }
    gallop_close(g);
}

static void more_tokens_at_least_than_at_most_are_refused(void **state)
{
    struct gallop *g = open_ids();
    struct gallop_request r = request(5);
    struct engines_answer o;

    r.sampling.min_new_tokens = 4;
    r.sampling.max_new_tokens = 3;
    refuse(g, &r, "min_new_tokens");
    r.sampling.max_new_tokens = 0;
    refuse(g, &r, "min_new_tokens");
    r.sampling.max_new_tokens = 4;
    assert_int_equal(run(g, &r).n, 4);
    r.sampling.min_new_tokens = INT64_MAX; /* The context length ends the answer earlier. */
    r.sampling.max_new_tokens = -1;
    o = run(g, &r);
    assert_int_equal(o.n, LONGEST - 5);
    assert_int_equal(o.end.finish, GALLOP_FINISH_LENGTH);
    gallop_close(g);
}

/* ---- prompts ---- */

static void token_ids_end_with_the_vocabulary(void **state)
{
    const int32_t last[] = {0, VOCAB - 1}, above[] = {5, VOCAB}, below[] = {-1, 5}, largest[] = {INT32_MAX};
    struct gallop *g = open_ids();
    struct gallop_request r = request(2);

    r.sampling.max_new_tokens = 1;
    r.ids = last;
    assert_int_equal(run(g, &r).n, 1);
    r.ids = above;
    refuse(g, &r, "token 192 at position 1 is outside the vocabulary of 192");
    r.ids = below;
    refuse(g, &r, "token -1 at position 0");
    r.ids = largest;
    r.n_ids = 1;
    refuse(g, &r, "token 2147483647 at position 0");
    gallop_close(g);
}

static void a_prompt_that_is_not_there_is_refused(void **state)
{
    struct gallop *g = open_ids(), *t = open_text();
    struct gallop_request r = request(0);

    refuse(g, &r, "the prompt is empty");
    r.ids = NULL;
    refuse(g, &r, "the prompt is empty");
    r.n_ids = 3;
    refuse(g, &r, "ids is NULL");
    r.n_ids = SIZE_MAX;
    refuse(g, &r, "ids is NULL");
    r = request(3);
    r.text = "text";
    refuse(t, &r, "as text and as ids");
    r.n_ids = 0;
    r.ids = NULL;
    refuse(g, &r, "needs a tokenizer");
    gallop_close(g);
    gallop_close(t);
}

static void text_ends_where_its_length_says_or_at_its_zero(void **state)
{
    struct gallop *g = open_text();
    struct gallop_request r = request(0);
    struct engines_answer whole, part;

    r.ids = NULL;
    r.sampling.max_new_tokens = 3;
    r.text = "Once upon a time";
    whole = run(g, &r);
    r.text_len = 16;
    part = run(g, &r);
    assert_int_equal(part.end.n_prompt, whole.end.n_prompt);
    assert_memory_equal(part.token, whole.token, sizeof(whole.token));
    r.text_len = 4;
    part = run(g, &r);
    r.text = "Once";
    r.text_len = SIZE_MAX;
    whole = run(g, &r);
    assert_int_equal(part.end.n_prompt, whole.end.n_prompt);
    r.text_len = 0; /* a BOS alone */
    assert_int_equal(run(g, &r).end.n_prompt, 1);
    r.no_special = 1;
    refuse(g, &r, "the prompt is empty");
    r.text = "";
    r.text_len = SIZE_MAX;
    refuse(g, &r, "the prompt is empty");
    gallop_close(g);
}

static void a_mask_is_zeros_and_then_ones(void **state)
{
    static const int8_t left[] = {0, 0, 1, 1, 1}, all[] = {1, 1, 1, 1, 1}, none[] = {0, 0, 0, 0, 0},
                        hole[] = {0, 1, 1, 0, 1}, right[] = {1, 1, 1, 1, 0}, other[] = {0, 0, -1, 127, 1},
                        second[] = {1, 0, 1, 1, 1};
    struct gallop *g = open_ids();
    struct gallop_request r = request(3);
    struct engines_answer want, got;

    r.sampling.max_new_tokens = 4;
    r.ids = prompt + 2;
    want = run(g, &r);
    r.ids = prompt;
    r.n_ids = 5;
    r.mask = left;
    got = run(g, &r);
    assert_int_equal(got.end.n_prompt, 3);
    assert_memory_equal(got.token, want.token, 4 * sizeof(int32_t));
    r.mask = other; /* all tokens but 0 */
    got = run(g, &r);
    assert_int_equal(got.end.n_prompt, 3);
    r.mask = all;
    got = run(g, &r);
    assert_int_equal(got.end.n_prompt, 5);
    r.mask = none;
    refuse(g, &r, "the prompt is empty");
    r.mask = hole;
    refuse(g, &r, "a 0 at position 3");
    r.mask = right;
    refuse(g, &r, "a 0 at position 4");
    r.mask = second;
    refuse(g, &r, "a 0 at position 1");
    gallop_close(g);
}

/* ---- sampling ---- */

static void lists_that_are_not_there_are_refused(void **state)
{
    static const int32_t id[] = {3};
    static const float bias[] = {1};
    static const char *const null_stop[] = {"a", NULL}, *const empty_stop[] = {""};
    static char long_stop[1026];
    static const char *const longest[] = {long_stop + 1}, *const longer[] = {long_stop};
    struct gallop *g = open_ids();
    struct gallop_request r;

    memset(long_stop, 'x', 1025);
#define REFUSE(what, ...)    \
    do {                     \
        r = request(3);      \
        __VA_ARGS__;         \
        refuse(g, &r, what); \
    } while (0)
    REFUSE("bias_id", r.sampling.n_bias = 1);
    REFUSE("bias", r.sampling.n_bias = 1; r.sampling.bias_id = id);
    REFUSE("bias_id", r.sampling.n_bias = 1; r.sampling.bias = bias);
    REFUSE("bias_id", r.sampling.n_bias = SIZE_MAX; r.sampling.bias_id = id; r.sampling.bias = bias);
    REFUSE("stop:", r.sampling.n_stop = 1);
    REFUSE("stop:", r.sampling.n_stop = 2; r.sampling.stop = null_stop);
    REFUSE("stop:", r.sampling.n_stop = 1; r.sampling.stop = empty_stop);
    REFUSE("stop:", r.sampling.n_stop = 1; r.sampling.stop = longer);
    REFUSE("stop:", r.sampling.n_stop = 65; r.sampling.stop = longest);
    REFUSE("stop:", r.sampling.n_stop = SIZE_MAX; r.sampling.stop = longest);
    REFUSE("stop_token", r.sampling.n_stop_token = 1);
    REFUSE("stop_token", r.sampling.n_stop_token = SIZE_MAX; r.sampling.stop_token = id);
    r = request(3);
    r.sampling.max_new_tokens = 1;
    r.sampling.stop = longest;
    r.sampling.n_stop = 1;
    r.sampling.bias_id = r.sampling.stop_token = id; /* The lists are empty. */
    r.sampling.bias = bias;
    assert_int_equal(run(g, &r).n, 1);
    gallop_close(g);
}

static void ids_of_lists_end_with_the_vocabulary_and_come_in_any_order(void **state)
{
    static const int32_t order[] = {191, 0, 7, 7}, above[] = {0, 192}, below[] = {-1, 0};
    static const float bias[] = {1e6f, 5, 7}, infinite[] = {INFINITY}, none[] = {NAN};
    struct gallop *g = open_ids();
    struct gallop_request r;
    struct engines_answer o;

    r = request(3);
    r.sampling.max_new_tokens = 4;
    r.sampling.bias_id = order;
    r.sampling.bias = bias;
    r.sampling.n_bias = 3;
    assert_int_equal(run(g, &r).token[0], 191);
    r.sampling.stop_token = order; /* 191 precedes smaller ids. */
    r.sampling.n_stop_token = 4;
    o = run(g, &r);
    assert_int_equal(o.n, 1);
    assert_int_equal(o.end.finish, GALLOP_FINISH_STOP);
    assert_int_equal(o.end.stop_token, 191);
    REFUSE("logit_bias: token 7 appears twice", r.sampling.bias_id = order + 2; r.sampling.bias = bias;
           r.sampling.n_bias = 2);
    REFUSE("logit_bias: found token 192", r.sampling.bias_id = above; r.sampling.bias = bias;
           r.sampling.n_bias = 2);
    REFUSE("logit_bias: found token -1", r.sampling.bias_id = below; r.sampling.bias = bias;
           r.sampling.n_bias = 2);
    REFUSE("finite", r.sampling.bias_id = order; r.sampling.bias = infinite; r.sampling.n_bias = 1);
    REFUSE("finite", r.sampling.bias_id = order; r.sampling.bias = none; r.sampling.n_bias = 1);
    REFUSE("stop_token: found token 192", r.sampling.stop_token = above; r.sampling.n_stop_token = 2);
    REFUSE("stop_token: found token -1", r.sampling.stop_token = below; r.sampling.n_stop_token = 2);
    gallop_close(g);
}

static void numbers_outside_their_range_are_refused_by_name(void **state)
{
    static const double bad[] = {INFINITY, -INFINITY, -0.5};
    static const char *const breakers[] = {"x"};
    char why[GALLOP_ERR_SIZE];
    static const int64_t negative[] = {-2, INT64_MIN};
    struct gallop *g = open_ids();
    struct gallop_request r;

    for (size_t i = 0; i < 3; i++) {
        REFUSE("temperature", r.sampling.temperature = bad[i]);
        REFUSE("top_p", r.sampling.top_p = bad[i]);
        REFUSE("min_p", r.sampling.min_p = bad[i]);
        REFUSE("repetition_penalty", r.sampling.repetition_penalty = bad[i]);
        REFUSE("typical_p", r.sampling.typical_p = bad[i]);
        REFUSE("xtc_probability", r.sampling.xtc_probability = bad[i]);
        REFUSE("xtc_threshold", r.sampling.xtc_threshold = bad[i]);
        REFUSE("dry_multiplier", r.sampling.dry_multiplier = bad[i]);
        REFUSE("dry_base", r.sampling.dry_base = bad[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        REFUSE("frequency_penalty", r.sampling.frequency_penalty = bad[i]);
        REFUSE("presence_penalty", r.sampling.presence_penalty = bad[i]);
        REFUSE("max_new_tokens", r.sampling.max_new_tokens = negative[i]);
        REFUSE("min_new_tokens", r.sampling.min_new_tokens = negative[i]);
        REFUSE("thinking_token_budget", r.sampling.thinking_token_budget = negative[i]);
        REFUSE("top_k", r.sampling.top_k = negative[i]);
        REFUSE("dry_allowed_length", r.sampling.dry_allowed_length = negative[i]);
        REFUSE("dry_penalty_last_n", r.sampling.dry_penalty_last_n = negative[i]);
        REFUSE("logprobs", r.sampling.logprobs = negative[i]);
    }
    REFUSE("do_sample", r.sampling.do_sample = -2);
    REFUSE("ignore_eos", r.sampling.ignore_eos = INT32_MIN);
    REFUSE("top_p", r.sampling.top_p = 0);
    REFUSE("top_p", r.sampling.top_p = 1.0001);
    REFUSE("min_p", r.sampling.min_p = 1.0001);
    REFUSE("repetition_penalty", r.sampling.repetition_penalty = 0);
    REFUSE("typical_p", r.sampling.typical_p = 0);
    REFUSE("typical_p", r.sampling.typical_p = 1.0001);
    REFUSE("top_n_sigma", r.sampling.top_n_sigma = -1.0001);
    REFUSE("top_n_sigma", r.sampling.top_n_sigma = INFINITY);
    REFUSE("xtc_probability", r.sampling.xtc_probability = 1.0001);
    REFUSE("xtc_threshold", r.sampling.xtc_threshold = 1.0001);
    REFUSE("dry_base", r.sampling.dry_base = 0.9999);
    REFUSE("dry_allowed_length", r.sampling.dry_allowed_length = 1025);
    REFUSE("dry_penalty_last_n", r.sampling.dry_penalty_last_n = 2147483648);
    REFUSE("suffix: the text before the gap", r.suffix = "x");
    r = request(3);
    r.sampling.dry_sequence_breakers = breakers;
    r.sampling.n_dry_sequence_breakers = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, why), GALLOP_UNSUPPORTED);
    assert_string_equal(why, "dry_sequence_breakers: this model has no tokenizer");
    REFUSE("needs a tokenizer", r.suffix = "x"; r.text = "y"; r.ids = NULL; r.n_ids = 0);
    REFUSE("logprobs", r.sampling.logprobs = 1025);
    REFUSE("logprobs", r.sampling.logprobs = INT64_MAX);
    gallop_close(g);
}

static void log_probabilities_of_none_of_some_and_of_more_than_there_are(void **state)
{
    static const size_t k[] = {0, 1, 20, VOCAB - 1, VOCAB, 1024}, n[] = {0, 1, 20, VOCAB - 1, VOCAB, VOCAB};
    struct gallop *g = open_ids();

    for (size_t i = 0; i < 6; i++) {
        struct gallop_request r = request(5);

        r.sampling.max_new_tokens = 2;
        r.sampling.logprobs = (int64_t)k[i];
        assert_int_equal(run(g, &r).n_top, n[i]);
    }
    gallop_close(g);
}

/* Each leaves one token to choose from, or all of them. Greedy or not, the answer has four tokens. */
static void extremes_of_sampling_choose_a_token(void **state)
{
    struct gallop *g = open_ids();
    struct gallop_request r = request(5);
    struct engines_answer greedy, o;

    r.sampling.max_new_tokens = 4;
    greedy = run(g, &r);
#define CHOOSES(same, ...)                                                   \
    do {                                                                     \
        r = request(5);                                                      \
        r.sampling.max_new_tokens = 4;                                       \
        r.sampling.do_sample = 1;                                            \
        __VA_ARGS__;                                                         \
        o = run(g, &r);                                                      \
        assert_int_equal(o.n, 4);                                            \
        if (same)                                                            \
            assert_memory_equal(o.token, greedy.token, 4 * sizeof(int32_t)); \
    } while (0)
    CHOOSES(true, r.sampling.temperature = 0);
    CHOOSES(true, r.sampling.temperature = 1e-6);
    CHOOSES(true, r.sampling.top_k = 1);
    CHOOSES(true, r.sampling.min_p = 1);
    CHOOSES(true, r.sampling.top_p = 1e-9);
    CHOOSES(true, r.sampling.top_n_sigma = 1e-9);
    CHOOSES(false, r.sampling.top_n_sigma = -1);
    CHOOSES(false, r.sampling.top_n_sigma = 1e300);
    CHOOSES(false, r.sampling.typical_p = 1e-300);
    CHOOSES(false, r.sampling.typical_p = 1);
    CHOOSES(false, r.sampling.xtc_probability = 1; r.sampling.xtc_threshold = 0);
    CHOOSES(false, r.sampling.xtc_probability = 1; r.sampling.xtc_threshold = 1);
    CHOOSES(false, r.sampling.dry_multiplier = 1e300; r.sampling.dry_base = 1e300;
            r.sampling.dry_allowed_length = 0);
    CHOOSES(true, r.sampling.do_sample = 0; r.sampling.dry_multiplier = 1e300;
            r.sampling.dry_penalty_last_n = 0);
    CHOOSES(true, r.sampling.do_sample = 0; r.sampling.temperature = 1e300);
    CHOOSES(false, r.sampling.top_k = 0);
    CHOOSES(false, r.sampling.top_k = VOCAB);
    CHOOSES(false, r.sampling.top_k = VOCAB + 1);
    CHOOSES(false, r.sampling.top_k = INT64_MAX);
    CHOOSES(false, r.sampling.top_p = 1);
    CHOOSES(false, r.sampling.min_p = 0);
    CHOOSES(false, r.sampling.temperature = 1e300);
    CHOOSES(false, r.sampling.repetition_penalty = 1e300);
    CHOOSES(false, r.sampling.repetition_penalty = 1e-300);
    CHOOSES(false, r.sampling.frequency_penalty = -1e300);
    CHOOSES(false, r.sampling.presence_penalty = 1e300);
    CHOOSES(false, r.sampling.has_seed = 1; r.sampling.seed = UINT64_MAX);
    gallop_close(g);
}

static void a_list_of_choices_with_a_hole_is_refused(void **state)
{
    static const char *const holes[] = {"yes", NULL}, *const whole[] = {"yes", "no"};
    struct gallop *g = open_text();
    const struct {
        const char *const *choice;
        size_t n;
        bool good;
    } cases[] = {{whole, 2, true}, {holes, 1, true}, {holes, 2, false},
                 {NULL, 2, false}, {NULL, 1, false}, {NULL, 0, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gallop_request r = request(4);
        char why[GALLOP_ERR_SIZE] = "";

        r.sampling.max_new_tokens = 4;
        r.structured_outputs.choice = cases[i].choice;
        r.structured_outputs.n_choice = cases[i].n;
        assert_int_equal(gallop_submit(g, &r, NULL, why), cases[i].good ? 0 : GALLOP_BAD_INPUT);
        if (!cases[i].good)
            assert_true(strstr(why, "choice") && strstr(why, "NULL"));
    }
    gallop_close(g);
}

static void a_request_that_forbids_every_token_is_refused(void **state)
{
    struct gallop *g = open_ids();
    struct gallop_request all = request(5);
    int32_t every[VOCAB];
    char why[GALLOP_ERR_SIZE];

    for (int32_t i = 0; i < VOCAB; i++)
        every[i] = i;
    all.sampling.stop_token = every;
    all.sampling.min_new_tokens = 1;
    all.sampling.max_new_tokens = 3;
    for (int left = 0; left < 2; left++) {
        all.sampling.n_stop_token = (size_t)(VOCAB - left);
        assert_int_equal(gallop_submit(g, &all, NULL, why) == 0, left);
    }
    assert_int_equal(strncmp(why, "stop_token: ", 12), 0);
    all.sampling.n_stop_token = VOCAB;
    all.sampling.min_new_tokens = 0; /* The ends may come immediately, */
    assert_int_equal(gallop_submit(g, &all, NULL, NULL), 0);
    all.sampling.min_new_tokens = 3; /* or there may be none. */
    all.sampling.max_new_tokens = 0;
    assert_int_not_equal(gallop_submit(g, &all, NULL, why), 0);
    assert_non_null(strstr(why, "min_new_tokens"));
    gallop_close(g);
}

/* ---- events ---- */

static void what_the_caller_gave_may_be_overwritten_behind_the_submit(void **state)
{
    char never[] = "never", space[] = " ", text[] = "Once upon a time";
    const char *stop[] = {never, space};
    struct gallop *g = open_text();
    struct gallop_request r = request(0);
    struct gallop_event ev;
    char err[GALLOP_ERR_SIZE];

    r.ids = NULL;
    r.text = text;
    r.sampling.stop = stop;
    r.sampling.n_stop = 2;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
    memset(text, 'x', strlen(text));
    memset(space, 'x', strlen(space));
    stop[0] = stop[1] = NULL;
    do
        assert_int_equal(gallop_next(g, &ev), 1);
    while (ev.type != GALLOP_FINISHED);
    assert_int_equal(ev.finish, GALLOP_FINISH_STOP);
    assert_string_equal(ev.stop_string, " "); /* the second of the two */
    assert_int_equal(ev.stop_token, -1);
    gallop_close(g);
}

/* A list of sampling parameters, in memory of the caller. */
struct lists {
    struct sampling_bias bias;
    int32_t stop, chosen;
    char word[8];
    struct sampling_str bad;
};

enum { OF_BIAS, OF_STOP, OF_BAD, OF_CHOSEN, OF_NONE };

/* Writes list WHICH to L, with its other value if IS_OTHER, and sets it in S. */
static void set_list(struct sampling *s, struct lists *l, int which, bool is_other, int32_t first)
{
    *l = (struct lists){.bias = {is_other ? 300 : 400, 1e6f},
                        .stop = is_other ? first + 1 : first,
                        .chosen = is_other ? 7 : 9};
    snprintf(l->word, sizeof(l->word), "%s", is_other ? "qq" : "was");
    l->bad = (struct sampling_str){l->word, strlen(l->word)};
    s->bias = &l->bias;
    s->n_bias = which == OF_BIAS;
    s->stop_token = &l->stop;
    s->n_stop_token = which == OF_STOP;
    s->bad_words = &l->bad;
    s->n_bad_words = which == OF_BAD;
    s->logprob_id = &l->chosen;
    s->n_logprob_ids = which == OF_CHOSEN;
    if (which == OF_BIAS)
        sampling_mark(s, SAMPLING_LOGIT_BIAS);
    if (which == OF_STOP)
        sampling_mark(s, SAMPLING_STOP_TOKEN);
    if (which == OF_BAD)
        sampling_mark(s, SAMPLING_BAD_WORDS);
}

/* Returns a hash of the tokens of an answer with list WHICH and of the tokens that are reported with them. ASKS: its
 * value is the other one. OVERWRITES: the list has the other value behind the submit. *FIRST: the first token. */
static uint64_t answer_to(struct gallop *g, int which, bool asks, bool overwrites, int32_t *first)
{
    struct gallop_request r = request(0);
    struct lists *l = mem_alloc(sizeof(*l), MEM_APP);
    struct sampling s;
    struct gallop_event ev;
    uint64_t hash = 0, id;
    struct err e = {0};

    r.ids = NULL;
    r.text = "Once upon a time";
    sampling_default(&s);
    s.max_new_tokens = 12;
    s.logprobs = 1;
    s.ignore_eos = true;
    sampling_mark(&s, SAMPLING_MAX_NEW_TOKENS);
    sampling_mark(&s, SAMPLING_LOGPROBS);
    sampling_mark(&s, SAMPLING_IGNORE_EOS);
    set_list(&s, l, which, asks, *first);
    if (engine_submit(g, &r, &s, &id, &e) != 0)
        fail_msg("%s", e.msg);
    if (overwrites)
        set_list(&s, l, which, !asks, *first);
    while (gallop_next(g, &ev))
        if (ev.type == GALLOP_TOKEN) {
            *first = hash ? *first : ev.token;
            hash = hash * 31 + (uint64_t)ev.token * 7 + (ev.n_top ? (uint64_t)ev.top[0].id : 0) + 1;
        }
    mem_free(l);
    return hash;
}

/* Lists of sampling parameters, which servers and callers of the library keep in their own memory. */
static void lists_of_a_request_may_be_overwritten_behind_the_submit(void **state)
{
    struct gallop *g = open_text();
    int32_t first = 0;

    answer_to(g, OF_NONE, false, false, &first);
    for (int which = OF_BIAS; which < OF_NONE; which++) {
        int32_t token = first;
        uint64_t kept = answer_to(g, which, false, false, &token);

        token = first;
        assert_true(kept != answer_to(g, which, true, false, &token)); /* the list has an effect */
        token = first;
        assert_int_equal(kept, answer_to(g, which, false, true, &token));
    }
    gallop_close(g);
}

static void special_tokens_are_written_where_they_are_asked_for(void **state)
{
    static const int32_t eos[] = {EOS}, word[] = {500};
    static const float bias[] = {1e6f};
    struct gallop *g = open_text();
    struct gallop_request r = request(3);
    struct engines_answer o;

    r.sampling.max_new_tokens = 2;
    r.sampling.bias_id = eos;
    r.sampling.bias = bias;
    r.sampling.n_bias = 1;
    assert_string_equal(run(g, &r).text, "");
    r.keep_special = 1;
    assert_true(strlen(run(g, &r).text) > 4);
    r.sampling.ignore_eos = 0; /* The end token is not part of the text. */
    o = run(g, &r);
    assert_string_equal(o.text, "");
    assert_int_equal(o.n, 1);
    assert_int_equal(o.end.stop_token, -1);
    r.sampling.ignore_eos = 1; /* A stop token neither. */
    r.sampling.bias_id = r.sampling.stop_token = word;
    r.sampling.n_stop_token = 1;
    o = run(g, &r);
    assert_string_equal(o.text, "");
    assert_int_equal(o.end.stop_token, word[0]);
    r.sampling.n_stop_token = 0;
    assert_true(strlen(run(g, &r).text) > 2);
    gallop_close(g);
}

static void what_was_put_out_is_penalised(void **state)
{
    struct gallop *g = open_ids();
    struct gallop_request r = request(5);

    for (int way = 0; way < 3; way++) {
        bool seen[VOCAB] = {false};
        struct engines_answer o;

        r = request(5);
        r.sampling.max_new_tokens = 50;
        if (way == 0)
            r.sampling.frequency_penalty = 1e6;
        else if (way == 1)
            r.sampling.presence_penalty = 1e6;
        else
            r.sampling.repetition_penalty = 1e30;
        o = run(g, &r);
        for (size_t i = 0; i < o.n; i++) {
            if (seen[o.token[i]])
                fail_msg("penalty %d: token %d comes twice", way, o.token[i]);
            seen[o.token[i]] = true;
        }
    }
    gallop_close(g);
}

static void the_log_probability_of_a_greedy_token_is_the_first_of_the_likeliest(void **state)
{
    struct gallop *g = open_ids();
    struct gallop_request r = request(5);
    struct gallop_event ev;
    size_t n = 0;

    r.sampling.max_new_tokens = 3;
    r.sampling.logprobs = 2;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    while (gallop_next(g, &ev))
        if (ev.type == GALLOP_TOKEN) {
            assert_int_equal(ev.n_top, 2);
            assert_int_equal(ev.top[0].id, ev.token);
            assert_true(ev.top[0].logprob == ev.logprob && ev.logprob < 0);
            assert_true(ev.top[1].logprob <= ev.logprob);
            n++;
        }
    assert_int_equal(n, 3);
    gallop_close(g);
}

static void an_engine_lends_its_seed_to_requests_without_one(void **state)
{
    struct engines_answer o[4];

    for (size_t i = 0; i < 4; i++) {
        struct gallop_options opt = engines_options(2, 0, LONGEST);
        struct gallop_request r = request(5);
        struct gallop *g;

        opt.has_seed = 1;
        opt.seed = i == 1 ? 8 : 7;
        g = engines_open("llama3-rope", &opt);
        r.sampling.max_new_tokens = 20;
        r.sampling.do_sample = 1;
        r.sampling.temperature = 5;
        r.sampling.has_seed = i == 3;
        r.sampling.seed = 8;
        o[i] = run(g, &r);
        gallop_close(g);
    }
    assert_memory_equal(o[0].token, o[2].token, 20 * sizeof(int32_t));
    assert_memory_equal(o[1].token, o[3].token, 20 * sizeof(int32_t));
    assert_memory_not_equal(o[0].token, o[1].token, 20 * sizeof(int32_t));
}

/* Equal requests without a seed draw with fresh ones, in an engine and in the next. With a seed, even 0, they do not.
 * */
static void requests_without_a_seed_draw_with_fresh_ones(void **state)
{
    struct engines_answer o[6];

    for (size_t i = 0; i < 6; i += 2) {
        struct gallop_options opt = engines_options(2, 0, LONGEST);
        struct gallop_request r = request(5);
        struct gallop *g;

        opt.has_seed = i == 4;
        opt.seed = 0;
        g = engines_open("llama3-rope", &opt);
        r.sampling.max_new_tokens = 20;
        r.sampling.do_sample = 1;
        r.sampling.temperature = 5;
        o[i] = run(g, &r);
        o[i + 1] = run(g, &r);
        gallop_close(g);
    }
    for (size_t i = 0; i < 5; i++)
        for (size_t j = i + 1; j < 5; j++)
            assert_memory_not_equal(o[i].token, o[j].token, 20 * sizeof(int32_t));
    assert_memory_equal(o[4].token, o[5].token, 20 * sizeof(int32_t));
}

/* The parts of a request's time do not overlap. */
static void the_times_of_a_request_add_up(void **state)
{
    struct gallop *g = open_text();
    struct gallop_request r = request(40);
    double start = clock_seconds(), whole;
    struct engines_answer o;

    r.sampling.max_new_tokens = 20;
    o = run(g, &r);
    whole = clock_seconds() - start;
    if (o.end.prefill_s <= 0 || o.end.decode_s <= 0 || o.end.prefill_s + o.end.decode_s > whole)
        fail_msg("%g s to the first token and %g s from there, of %g s in all", o.end.prefill_s,
                 o.end.decode_s, whole);
    gallop_close(g);
}

/* ---- the model's files ---- */

static const char *model; /* the folder of the copy */

/* Opens the golden with EOS in config.json, and GENERATION as its generation config (NULL: none). */
static struct gallop *open_model(const char *eos, const char *generation)
{
    struct gallop_options o = engines_options(2, 0, LONGEST);
    const char *golden = engines_path("llama3-rope"), *key = "\"eos_token_id\": 2";
    char path[4096], *config, *at;
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "%s/config.json", golden);
    config = files_read(path, &n);
    assert_non_null(at = strstr(config, key));
    snprintf(path, sizeof(path), "%s/config.json", model);
    assert_non_null(f = fopen(path, "w"));
    fprintf(f, "%.*s\"eos_token_id\": %s%s", (int)(at - config), config, eos, at + strlen(key));
    assert_int_equal(fclose(f), 0);
    free(config);
    snprintf(path, sizeof(path), "%s/generation_config.json", model);
    remove(path);
    if (generation)
        files_write_text(path, generation);
    snprintf(path, sizeof(path), "%s/model.safetensors", golden);
    files_copy(path, model);
    return engines_open(model, &o);
}

static void end_tokens_come_from_the_config_where_the_generation_config_names_none(void **state)
{
    static const struct {
        const char *eos, *generation;
        int32_t token;
        size_t n;
    } cases[] = {{"2", NULL, 2, 1},
                 {"[9, 2]", NULL, 2, 1},
                 {"[9, 2]", NULL, 9, 1},
                 {"[9, 192, -1, 191]", NULL, 191, 1}, /* An id outside the vocabulary ends nothing. */
                 {"2", "{}", 2, 1},
                 {"2", "{\"eos_token_id\": 7}", 7, 1},
                 {"2", "{\"eos_token_id\": [7, 100000]}", 7, 1},
                 {"2", "{\"eos_token_id\": 7}", 2, 4},
                 {"2", NULL, 5, 4}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gallop *g = open_model(cases[i].eos, cases[i].generation);
        struct gallop_request r = request(3);
        const float bias = 1e6f;
        struct engines_answer o;

        r.sampling.ignore_eos = -1;
        r.sampling.max_new_tokens = 4;
        r.sampling.bias_id = &cases[i].token;
        r.sampling.bias = &bias;
        r.sampling.n_bias = 1;
        o = run(g, &r);
        if (o.n != cases[i].n)
            fail_msg("config.json %s, generation config %s: token %d comes %zu times, expected %zu",
                     cases[i].eos, cases[i].generation ? cases[i].generation : "none", cases[i].token, o.n,
                     cases[i].n);
        assert_int_equal(o.end.finish, o.n == 4 ? GALLOP_FINISH_LENGTH : GALLOP_FINISH_STOP);
        gallop_close(g);
    }
}

static void suppressed_tokens_of_the_model_are_not_generated(void **state)
{
    static const struct {
        const char *generation;
        /* the tokens of which the first is preferred to the second, and that to all others */
        int32_t biased[2];
        size_t beams;
        int32_t want[3];
    } cases[] = {{"{}", {7, 9}, 1, {7, 7, 7}},
                 {"{\"suppress_tokens\": [7, 100000]}", {7, 9}, 1, {9, 9, 9}},
                 {"{\"suppress_tokens\": [7]}", {7, 9}, 2, {9, 9, 9}},
                 {"{\"begin_suppress_tokens\": [7]}", {7, 9}, 1, {9, 7, 7}},
                 {"{\"begin_suppress_tokens\": [7]}", {7, 9}, 2, {9, 7, 7}},
                 {"{\"eos_token_id\": 7, \"suppress_tokens\": [7]}", {7, 9}, 1, {9, 9, 9}}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gallop *g = open_model("2", cases[i].generation);
        struct gallop_request r = request(3);
        const float bias[] = {2e6f, 1e6f};
        struct engines_answer o;

        r.sampling.max_new_tokens = 3;
        r.sampling.bias_id = cases[i].biased;
        r.sampling.bias = bias;
        r.sampling.n_bias = 2;
        r.sampling.num_beams = (int64_t)cases[i].beams;
        o = run(g, &r);
        assert_int_equal(o.n, 3);
        assert_memory_equal(o.token, cases[i].want, sizeof(cases[i].want));
        gallop_close(g);
    }
}

static void a_model_that_suppresses_every_first_token_refuses_requests(void **state)
{
    static const char *const fields[] = {"suppress_tokens", "begin_suppress_tokens"};

    for (size_t k = 0; k < 2; k++)
        for (size_t n = 191; n <= 192; n++) {
            struct gallop_request r = request(3);
            char text[2000], err[GALLOP_ERR_SIZE] = "";
            size_t len = (size_t)snprintf(text, sizeof(text), "{\"%s\": [0", fields[k]);
            struct gallop *g;
            int rc;

            for (size_t i = 1; i < n; i++)
                len += (size_t)snprintf(text + len, sizeof(text) - len, ",%zu", i);
            strcat(text, "]}");
            g = open_model("2", text);
            rc = gallop_submit(g, &r, NULL, err);
            assert_int_equal(rc, n == 192 ? GALLOP_BAD_INPUT : 0);
            assert_true(rc == 0 || strstr(err, "suppress_tokens of the model's generation config"));
            gallop_close(g);
        }
}

static void max_length_of_the_model_counts_prompt_and_answer(void **state)
{
    static const struct {
        const char *generation;
        int64_t max_new;
        size_t n_prompt, n;
    } cases[] = {{"{\"max_length\": 20}", -1, 5, 15},
                 {"{\"max_length\": 20}", -1, 19, 1},
                 {"{\"max_length\": 20}", 3, 5, 3},
                 {"{\"max_length\": 20}", 30, 5, 30},
                 {"{\"max_length\": 20}", 2, 30, 2},
                 {"{\"max_length\": 20}", 0, 30, 0},
                 {"{\"max_length\": 20, \"max_new_tokens\": 4}", -1, 5, 4},
                 {"{\"max_length\": 20, \"max_new_tokens\": 4}", -1, 30, 4},
                 {"{\"max_length\": 20, \"max_new_tokens\": 4}", 6, 30, 6},
                 {"{\"max_length\": null}", -1, 5, LONGEST - 5},
                 {"{\"max_length\": 4096}", -1, 5, LONGEST - 5}};
    struct gallop_request r;
    struct gallop *g;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct engines_answer o;

        g = open_model("2", cases[i].generation);
        r = request(cases[i].n_prompt);
        r.sampling.max_new_tokens = cases[i].max_new;
        o = run(g, &r);
        if (o.n != cases[i].n || o.end.finish != GALLOP_FINISH_LENGTH)
            fail_msg("%s, max_new_tokens %d, a prompt of %zu: %zu tokens came, expected %zu",
                     cases[i].generation, (int)cases[i].max_new, cases[i].n_prompt, o.n, cases[i].n);
        assert_int_equal(o.end.context_full, cases[i].n == LONGEST - 5);
        gallop_close(g);
    }
    g = open_model("2", "{\"max_length\": 20}");
    REFUSE("max_length", r.n_ids = 20);
    REFUSE("max_length", r.n_ids = 21);
    gallop_close(g);
}

/* ---- options ---- */

/* Calls gallop_open() with the demo model. */
static int try_open(struct gallop **g, struct gallop_options *o, char *err)
{
    if (!o->model)
        o->model = GALLOP_SOURCE_DIR "/models/demo";
    err[0] = 0;
    *g = (struct gallop *)err; /* This text must be overwritten. */
    return gallop_open(g, o, err);
}

static void options_that_are_not_known_or_out_of_range_are_refused_by_name(void **state)
{
    struct gallop_options o;
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

#define REFUSE_OPTION(what, ...)                                                         \
    do {                                                                                 \
        o = engines_options(2, 0, LONGEST);                                              \
        __VA_ARGS__;                                                                     \
        if (try_open(&g, &o, err) == 0 || g || !strstr(err, what))                       \
            fail_msg("\"%s\" is expected, found: %s", what, g ? "an open engine" : err); \
        assert_true(gallop_open(&g, &o, NULL) != 0);                                     \
    } while (0)
    REFUSE_OPTION("dtype: found 'fp16', expected one of auto|fp32|bf16", o.dtype = "fp16");
    REFUSE_OPTION("dtype: found '', expected", o.dtype = "");
    REFUSE_OPTION("kv_cache_type: found 'x'", o.kv_cache_type = "x");
    REFUSE_OPTION("kv_cache_type: found '', ", o.kv_cache_type = "");
    REFUSE_OPTION("kv_cache_dtype: found 'fp16'", o.kv_cache_dtype = "fp16");
    REFUSE_OPTION("kv_cache_layout: found 'row_major', expected one of head_major|block_major",
                  o.kv_cache_layout = "row_major");
    REFUSE_OPTION("flash", o.attention_backend = "flash");
    REFUSE_OPTION("no is not a backend of norm", o.op_config = "{\"norm\":\"no\"}");
    REFUSE_OPTION("op_config: at byte 0", o.op_config = "");
    REFUSE_OPTION("avx10", o.isa = "avx10");
    REFUSE_OPTION("kv_sparse: found", o.kv_sparse = "window");
    REFUSE_OPTION("threads: found -1, expected a whole number in [1,1024]", o.threads = -1);
    REFUSE_OPTION("threads: found 1025", o.threads = 1025);
    REFUSE_OPTION("max_model_len: found -1", o.max_model_len = -1);
    REFUSE_OPTION("max_model_len: found 1,", o.max_model_len = 1);
    REFUSE_OPTION("max_model_len: found 2147483648", o.max_model_len = INT64_C(2147483648));
    REFUSE_OPTION("max_num_seqs: found -1", o.max_num_seqs = -1);
    REFUSE_OPTION("max_num_seqs: found 4097", o.max_num_seqs = 4097);
    REFUSE_OPTION("max_batched_tokens: found -1", o.max_batched_tokens = -1);
    REFUSE_OPTION("max_batched_tokens: found 65537", o.max_batched_tokens = 65537);
    REFUSE_OPTION("kv_cache_memory: found -1, expected a number in (0,1048576]", o.kv_cache_memory = -1);
    REFUSE_OPTION("kv_cache_memory", o.kv_cache_memory = NAN);
    REFUSE_OPTION("kv_cache_memory", o.kv_cache_memory = INFINITY);
    REFUSE_OPTION("kv_cache_tokens: found -1, expected a whole number in [1,inf)", o.kv_cache_tokens = -1);
    REFUSE_OPTION("block_size: found -9", o.block_size = INT64_MIN);
    REFUSE_OPTION("bmc_splits: found -1", o.bmc_splits = -1);
    REFUSE_OPTION("block_size: found 8, expected a whole number in [16,256]", o.block_size = 8);
    REFUSE_OPTION("KV block size is 17 rows", o.block_size = 17);
    REFUSE_OPTION("block_size: found 512", o.block_size = 512);
    REFUSE_OPTION("block_size: found 9", o.block_size = INT64_MAX);
    REFUSE_OPTION("65 splits", o.kv_cache_type = "bmc"; o.bmc_splits = LONGEST + 1);
    REFUSE_OPTION("cannot hold one sequence", o.kv_cache_tokens = 1);
    REFUSE_OPTION("cannot hold one sequence", o.kv_cache_tokens = LONGEST - 16);
    o = engines_options(2, 0, LONGEST);
    assert_int_equal(gallop_open(&g, &o, err), GALLOP_BAD_INPUT);
    assert_non_null(strstr(err, "name or path of a model is missing"));
    gallop_close(NULL);
}

static void the_smallest_and_largest_options_that_are_allowed_answer(void **state)
{
    struct gallop_options o;
    char err[GALLOP_ERR_SIZE];
    struct gallop *g;

#define ANSWERS(...)                          \
    do {                                      \
        struct gallop_request r = request(4); \
                                              \
        o = engines_options(2, 0, LONGEST);   \
        __VA_ARGS__;                          \
        if (try_open(&g, &o, err) != 0)       \
            fail_msg("%s", err);              \
        r.sampling.max_new_tokens = 12;       \
        assert_int_equal(run(g, &r).n, 12);   \
        gallop_close(g);                      \
    } while (0)
    ANSWERS(o.max_num_seqs = 1; o.max_batched_tokens = 1);
    ANSWERS(o.max_num_seqs = 4096; o.kv_cache_tokens = 1024);
    ANSWERS(o.max_batched_tokens = 65536);
    ANSWERS(o.max_model_len = 16; o.kv_cache_tokens = 16); /* one block */
    ANSWERS(o.max_model_len = 16; o.kv_cache_tokens = 1);  /* rounded up to one block */
    ANSWERS(o.kv_cache_type = "paged"; o.max_model_len = 16; o.kv_cache_tokens = 16);
    ANSWERS(o.kv_cache_type = "dynamic"; o.max_model_len = 16; o.kv_cache_tokens = 16);
    ANSWERS(o.kv_cache_type = "bmc"; o.max_model_len = 16; o.kv_cache_tokens = 16; o.bmc_splits = 16);
    ANSWERS(o.block_size = 256);
    ANSWERS(o.block_size = 0);
    ANSWERS(o.kv_sparse = "sink=0,window=1");
    ANSWERS(o.threads = 0);
    ANSWERS(o.isa = "ref"; o.attention_backend = "native");
    ANSWERS(o.op_config = "{}");
    o = engines_options(2, 0, LONGEST);
    o.max_model_len = 2;
    if (try_open(&g, &o, err) != 0)
        fail_msg("%s", err);
    assert_int_equal(
        run(g, &(struct gallop_request){.ids = prompt, .n_ids = 1, .sampling = request(1).sampling}).n, 1);
    gallop_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_new_token_computes_the_prompt_and_ends),
        cmocka_unit_test(no_new_token_leaves_the_company_alone),
        cmocka_unit_test(a_prompt_may_fill_the_context_when_no_token_is_asked_for),
        cmocka_unit_test(the_context_is_said_to_be_full_when_it_ended_the_text_and_only_then),
        cmocka_unit_test(more_tokens_at_least_than_at_most_are_refused),
        cmocka_unit_test(token_ids_end_with_the_vocabulary),
        cmocka_unit_test(a_prompt_that_is_not_there_is_refused),
        cmocka_unit_test(text_ends_where_its_length_says_or_at_its_zero),
        cmocka_unit_test(a_mask_is_zeros_and_then_ones),
        cmocka_unit_test(lists_that_are_not_there_are_refused),
        cmocka_unit_test(ids_of_lists_end_with_the_vocabulary_and_come_in_any_order),
        cmocka_unit_test(numbers_outside_their_range_are_refused_by_name),
        cmocka_unit_test(log_probabilities_of_none_of_some_and_of_more_than_there_are),
        cmocka_unit_test(extremes_of_sampling_choose_a_token),
        cmocka_unit_test(a_list_of_choices_with_a_hole_is_refused),
        cmocka_unit_test(a_request_that_forbids_every_token_is_refused),
        cmocka_unit_test(what_the_caller_gave_may_be_overwritten_behind_the_submit),
        cmocka_unit_test(lists_of_a_request_may_be_overwritten_behind_the_submit),
        cmocka_unit_test(special_tokens_are_written_where_they_are_asked_for),
        cmocka_unit_test(what_was_put_out_is_penalised),
        cmocka_unit_test(the_log_probability_of_a_greedy_token_is_the_first_of_the_likeliest),
        cmocka_unit_test(an_engine_lends_its_seed_to_requests_without_one),
        cmocka_unit_test(requests_without_a_seed_draw_with_fresh_ones),
        cmocka_unit_test(the_times_of_a_request_add_up),
        cmocka_unit_test(end_tokens_come_from_the_config_where_the_generation_config_names_none),
        cmocka_unit_test(suppressed_tokens_of_the_model_are_not_generated),
        cmocka_unit_test(a_model_that_suppresses_every_first_token_refuses_requests),
        cmocka_unit_test(max_length_of_the_model_counts_prompt_and_answer),
        cmocka_unit_test(options_that_are_not_known_or_out_of_range_are_refused_by_name),
        cmocka_unit_test(the_smallest_and_largest_options_that_are_allowed_answer),
    };

    log_set_level(LOG_ERROR);
    model = files_folder();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
