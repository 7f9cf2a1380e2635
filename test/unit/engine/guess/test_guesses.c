/* test_guesses.c - speculative decoding by lookup: answers are those without it, the counts of guesses are those that
 * follow from the tokens, tokens of one client are not guessed for another, and malformed configurations are
 * refused.
 */
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/guess/config.h"
#include "engine/guess/oracle.h"
#include "engine/llm.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "engines.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"
#include "ways.h"

enum { N = 6, LONGEST = 320 };

static struct gallop *open_with(const char *config, int64_t seqs)
{
    struct gallop_options o = engines_options(seqs, 64, LONGEST);

    o.speculative_config = config;
    return engines_open("demo", &o);
}

/* Submits text number WHICH twice in a row as a prompt, so that lookup finds its tokens. */
static void submit(struct gallop *g, size_t which, const char *salt)
{
    static const double temperatures[] = {0, 1, .7};
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    int32_t ids[80];

    engines_text(which, 0, 40, ids);
    engines_text(which, 0, 40, ids + 40);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 80;
    r.sampling.max_new_tokens = 60 + (int64_t)which;
    r.sampling.ignore_eos = which % 2 == 0;
    r.sampling.do_sample = which % 3 != 0;
    r.sampling.temperature = temperatures[which % 3];
    r.sampling.repetition_penalty = which == 4 ? 1.1 : 1;
    r.sampling.dry_multiplier = which == 0 || which == 2 ? 1.5 : 0;
    r.sampling.dry_allowed_length = 4;
    r.sampling.typical_p = which == 1 ? .95 : 1;
    r.sampling.xtc_probability = which == 5 ? .3 : 0;
    r.sampling.top_n_sigma = which == 5 ? 2 : 0;
    r.sampling.logprobs = 0;
    r.sampling.has_seed = 1;
    r.sampling.seed = which;
    r.cache_salt = salt;
    r.user = (void *)which;
    if (gallop_submit(g, &r, NULL, err) != 0)
        fail_msg("%s", err);
}

static void run_all(struct gallop *g, struct engines_answer *out, bool together)
{
    memset(out, 0, N * sizeof(*out));
    for (size_t i = 0; i < N; i++) {
        submit(g, i, NULL);
        if (!together)
            engines_run(g, out);
    }
    engines_run(g, out);
}

/* Sanitizers are slow: they get a part of the cases. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { THIN = 3 };
#else
enum { THIN = 1 };
#endif

static void answers_are_those_without_guesses(void **state)
{
    static const char *const configs[] = {
        "{\"method\":\"ngram\"}",
        "{\"method\":\"ngram\",\"num_speculative_tokens\":1,\"adaptive\":false}",
        "{\"method\":\"suffix\",\"adaptive\":false}",
        "{\"method\":\"suffix,ngram\",\"num_speculative_tokens_per_batch_size\":[[1,2,12],[3,null,1]]}",
        "{\"model\":\"" GALLOP_SOURCE_DIR "/models/demo-draft\",\"num_speculative_tokens\":4}",
        "{\"method\":\"ngram,draft_model\",\"model\":\"" GALLOP_SOURCE_DIR
        "/models/demo-draft\",\"adaptive\":false}",
        "{\"method\":\"self\",\"num_speculative_tokens\":3}",
        "{\"method\":\"suffix,self\",\"adaptive\":false}",
        "{\"method\":\"ngram\",\"num_speculative_tokens_per_batch_size\":[[1,4096,0]]}",
        "{\"method\":\"self\",\"num_speculative_tokens_per_batch_size\":[[1,4096,0]]}",
        "{\"model\":\"" GALLOP_SOURCE_DIR
        "/models/demo-draft\",\"num_speculative_tokens_per_batch_size\":[[1,4096,0]]}"};
    static struct engines_answer plain[N], got[N];
    struct gallop *g = open_with(NULL, 8);
    char says[256];

    run_all(g, plain, false);
    gallop_close(g);
    for (size_t c = 0; c < sizeof(configs) / sizeof(configs[0]); c += THIN)
        for (int together = 0; together < 2; together++) {
            struct gallop_stats s;

            g = open_with(configs[c], 8);
            run_all(g, got, together);
            if (engines_differ(got, plain, N, says))
                fail_msg("%s: %s", configs[c], says);
            engines_check_cache(g);
            s = engines_stats(g);
            assert_true(s.n_accepted_tokens > 0 || !strstr(configs[c], "\"adaptive\":false"));
            assert_true(s.n_draft_tokens == 0 || !strstr(configs[c], "[[1,4096,0]]"));
            gallop_close(g);
        }
}

static void int4_weights_guess_behind_rows_of_every_cache(void **state)
{
    static const char *const models[] = {"llama3-rope",   "gemma3",        "gpt-oss",
                                         "phi3-longrope", "llama-dynamic", "qwen3-moe"};
    static struct engines_answer plain[N], got[N];
    uint64_t n_right = 0;
    char says[256];

    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m += THIN)
        for (size_t t = 0; t < 5; t++) {
            struct gallop_options o = engines_options(4, 32, LONGEST);
            struct engines_answer *out = t ? got : plain;
            struct gallop *g;

            o.dtype = "bf16";
            o.kv_cache_type = t ? ways_types[t - 1] : NULL;
            o.kv_cache_dtype = m % 2 ? "int8" : NULL;
            o.kv_cache_tokens = t % 2 ? 400 : 0; /* Requests are preempted. */
            o.speculative_config =
                t ? "{\"method\":\"self\",\"num_speculative_tokens\":6,\"adaptive\":false}" : NULL;
            g = engines_open(models[m], &o);
            memset(out, 0, N * sizeof(*out));
            for (size_t i = 0; i < N; i++)
                engines_submit_text(g, 20 + 30 * i, 30, i);
            engines_run(g, out);
            if (t && engines_differ(got, plain, N, says))
                fail_msg("%s, %s: %s", models[m], o.kv_cache_type, says);
            engines_check_cache(g);
            n_right += engines_stats(g).n_accepted_tokens;
            gallop_close(g);
        }
    assert_true(n_right > 500 / THIN);
}

/* Finds the longest suffix of TOKEN [n] with at most LONGEST_MATCH tokens that occurred before, and its most recent
 * occurrence. Returns its length, and the end of the occurrence in *END. */
static size_t naive_match(const int32_t *token, size_t n, size_t longest_match, size_t *end)
{
    size_t best = 0;

    for (size_t at = n; at-- > 1;) {
        size_t len = 0;

        while (len < at && len < longest_match && token[at - 1 - len] == token[n - 1 - len])
            len++;
        if (len > best) {
            best = len;
            *end = at;
        }
    }
    return best;
}

static void check_counts_of_ngram(size_t longest_match)
{
    static struct engines_answer got[N];
    char config[128];
    struct gallop *g;

    snprintf(
        config, sizeof(config),
        "{\"method\":\"ngram\",\"num_speculative_tokens\":4,\"adaptive\":false,\"prompt_lookup_max\":%zu}",
        longest_match);
    g = open_with(config, 1);
    run_all(g, got, true);
    for (size_t q = 0; q < N; q++) {
        const struct gallop_speculation *found = &got[q].end.speculation;
        struct gallop_speculation want = {.n_steps = 1, .n_positions = 4};
        size_t limit = 60 + q, n = 1;
        int32_t token[LONGEST];

        engines_text(q, 0, 40, token);
        engines_text(q, 0, 40, token + 40);
        memcpy(token + 80, got[q].token, got[q].n * sizeof(*token));
        while (n < got[q].n) {
            size_t end = 0, len = naive_match(token, 80 + n, longest_match, &end),
                   most = 2 * len < 4 ? 2 * len : 4, k = 0, right = 0;

            most = most < limit - n - 1 ? most : limit - n - 1;
            for (; k < most && end + k < 80 + n; k++)
                if (right == k && n + k < got[q].n && token[end + k] == token[80 + n + k])
                    want.accepted_per_pos[right++]++;
            want.n_steps++;
            want.n_drafts += k > 0;
            want.n_draft_tokens += k;
            want.n_accepted_tokens += right;
            n += right + 1;
        }
        assert_int_equal(found->n_accepted_tokens, want.n_accepted_tokens);
        assert_memory_equal(found->accepted_per_pos, want.accepted_per_pos, sizeof(want.accepted_per_pos));
        assert_true(got[q].end.finish == GALLOP_FINISH_LENGTH || q % 2);
        assert_int_equal(found->n_steps, want.n_steps);
        if (got[q].end.finish != GALLOP_FINISH_LENGTH)
            continue; /* guesses behind a guessed end token are not computed */
        assert_int_equal(found->n_drafts, want.n_drafts);
        assert_int_equal(found->n_draft_tokens, want.n_draft_tokens);
        assert_int_equal(found->n_positions, want.n_positions);
    }
    gallop_close(g);
}

static void counts_of_ngram_follow_from_the_tokens(void **state)
{
    check_counts_of_ngram(128);
    check_counts_of_ngram(1);
}

/* Asks for N_NEW tokens behind a long prompt, which are the same token. */
static void submit_long(struct gallop *g, int64_t n_new)
{
    static const int32_t same = 7;
    static const float bias = 100;
    static int32_t ids[5000];
    struct gallop_request r;

    for (size_t i = 0; i < 5000; i++)
        ids[i] = 3 + (int32_t)(i % 50);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 5000;
    r.sampling.max_new_tokens = n_new;
    r.sampling.bias_id = &same;
    r.sampling.bias = &bias;
    r.sampling.n_bias = 1;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
}

/* Before a step at most 2048 tokens of long prompts are indexed, so that other sequences hardly wait. */
static void a_long_prompt_is_indexed_in_several_steps(void **state)
{
    static const int64_t n_new[] = {3, 40}; /* The index is complete before the fourth token. */
    static struct engines_answer got[1];
    struct gallop_options o = engines_options(2, 512, 5100);
    struct gallop *g;

    o.speculative_config = "{\"method\":\"suffix\",\"adaptive\":false}";
    g = engines_open("llama3-rope", &o);
    for (int k = 0; k < 2; k++) {
        memset(got, 0, sizeof(got));
        submit_long(g, n_new[k]);
        engines_run(g, got);
        assert_int_equal(got->n, n_new[k]);
        assert_true(k == 0 ? got->end.speculation.n_draft_tokens == 0
                           : got->end.speculation.n_accepted_tokens > 20);
    }
    gallop_close(g);
}

/* Answers to one prompt have the guesses that each would have alone, and the prompt is indexed once. */
static void answers_to_one_prompt_share_its_index(void **state)
{
    enum { PROMPT = 3000, ANSWERS = 4 };
    static struct engines_answer got[ANSWERS], alone[ANSWERS];
    struct gallop_options o = engines_options(ANSWERS, 512, PROMPT + 100);
    size_t before, most = 0;
    char says[256];

    for (int k = 0; k < 2; k++) {
        struct engines_answer *out = k ? alone : got;
        struct gallop *g;

        o.speculative_config = "{\"method\":\"ngram\",\"adaptive\":false}";
        g = engines_open("llama3-rope", &o);
        memset(out, 0, sizeof(got));
        before = mem_tag_bytes(MEM_ENGINE);
        for (size_t i = 0; i < (k ? ANSWERS : 1); i++) {
            static int32_t ids[PROMPT];
            struct gallop_request r;
            struct gallop_event ev;

            engines_text(1, 0, PROMPT, ids);
            gallop_request_init(&r);
            r.ids = ids;
            r.n_ids = PROMPT;
            r.n = k ? 1 : ANSWERS;
            r.user = (void *)i;
            r.sampling.max_new_tokens = 60;
            r.sampling.ignore_eos = 1;
            r.sampling.do_sample = 1;
            r.sampling.has_seed = 1;
            r.sampling.seed = 5 + i;
            r.sampling.logprobs = 0;
            assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
            while (gallop_step(g, 0)) {
                size_t bytes = mem_tag_bytes(MEM_ENGINE) - before;

                most = k == 0 && bytes > most ? bytes : most;
                while (gallop_take(g, &ev))
                    engines_take(out, &ev);
            }
        }
        gallop_close(g);
    }
    if (engines_differ(got, alone, ANSWERS, says))
        fail_msg("%s", says);
    for (size_t i = 0; i < ANSWERS; i++) {
        assert_int_equal(got[i].end.speculation.n_accepted_tokens,
                         alone[i].end.speculation.n_accepted_tokens);
        assert_int_equal(got[i].end.speculation.n_draft_tokens, alone[i].end.speculation.n_draft_tokens);
    }
    print_message("%zu bytes for %d answers\n", most, ANSWERS);
    assert_true(most < 56 * PROMPT + ANSWERS * (4 * PROMPT + 60 * 1024));
}

static const int32_t *right_answer(void *ctx, const struct seq *s, size_t *n)
{
    const struct engines_answer *a = (const struct engines_answer *)ctx + (size_t)(uintptr_t)s->user;

    *n = a->n;
    return a->token;
}

/* Guesses use only rows that no known token needs. */
static void wrong_guesses_preempt_no_sequence(void **state)
{
    static struct engines_answer plain[8], got[8];
    struct gallop_stats stats[2];
    char says[256];

    for (int k = 0; k < 2; k++) {
        struct gallop_options o = engines_options(8, 256, LONGEST);
        struct oracle oracle = {.ctx = plain, .answer = right_answer};
        struct gallop *g;

        o.kv_cache_tokens = 400;
        g = engines_open("llama3-rope", &o);
        oracle.n_vocab = engine_llm(g)->model.info.vocab;
        oracle_init(&oracle, 24);
        engine_loop(g)->guesser = k ? &oracle.guesser : NULL;
        memset(k ? got : plain, 0, sizeof(got));
        for (size_t i = 0; i < 8; i++)
            engines_submit_text(g, 5 + 3 * i, 90, i);
        engines_run(g, k ? got : plain);
        stats[k] = engines_stats(g);
        gallop_close(g);
    }
    if (engines_differ(got, plain, 8, says))
        fail_msg("%s", says);
    assert_true(stats[0].n_preempted > 0 && stats[1].n_draft_tokens > 1000);
    assert_int_equal(stats[1].n_preempted, stats[0].n_preempted);
    assert_int_equal(stats[1].n_steps, stats[0].n_steps);
}

/* As in vLLM, a guess is accepted if it is the token that was drawn, also if this token ends the answer. */
static void a_guessed_end_token_is_accepted(void **state)
{
    static struct engines_answer plain[1], got[1];
    const float bias = 100;
    int32_t eos = -1;

    for (int k = 0; k < 2; k++) {
        struct gallop_options o = engines_options(1, 64, LONGEST);
        struct oracle oracle = {.accept = 1, .ctx = plain, .answer = right_answer};
        struct gallop_request r;
        struct gallop *g = engines_open("demo", &o);

        oracle.n_vocab = engine_llm(g)->model.info.vocab;
        oracle_init(&oracle, GUESS_MOST);
        engine_loop(g)->guesser = k ? &oracle.guesser : NULL;
        memset(k ? got : plain, 0, sizeof(got));
        gallop_request_init(&r);
        r.text = "Once";
        eos = engine_info(g)->defaults->eos[0];
        r.sampling.max_new_tokens = 30;
        r.sampling.min_new_tokens = 6; /* and then the end token */
        r.sampling.bias_id = &eos;
        r.sampling.bias = &bias;
        r.sampling.n_bias = 1;
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        engines_run(g, k ? got : plain);
        gallop_close(g);
    }
    assert_int_equal(got->end.finish, GALLOP_FINISH_STOP);
    assert_true(got->n == 7 && got->token[6] == eos);
    assert_int_equal(got->end.speculation.n_steps, 2); /* of the prompt, and of all guesses */
    assert_int_equal(got->end.speculation.n_draft_tokens, got->n - 1);
    assert_int_equal(got->end.speculation.n_accepted_tokens, got->n - 1);
}

static void an_answer_of_one_token_has_no_guesses(void **state)
{
    static struct engines_answer got[1];
    struct gallop *g = open_with("{\"method\":\"suffix\",\"adaptive\":false}", 1);

    memset(got, 0, sizeof(got));
    engines_submit_text(g, 20, 1, 0);
    engines_run(g, got);
    assert_int_equal(got->end.speculation.n_positions, 0);
    assert_int_equal(got->end.speculation.n_steps, 1);
    gallop_close(g);
}

/* Returns how many guesses were right when request 0 was repeated with the salt AGAIN. */
static uint64_t right_in_repetition(const char *first, const char *again)
{
    static struct engines_answer got[N];
    struct gallop *g = open_with("{\"method\":\"suffix\",\"adaptive\":false}", 1);
    uint64_t before;

    memset(got, 0, sizeof(got));
    submit(g, 0, first);
    engines_run(g, got);
    before = engines_stats(g).n_accepted_tokens;
    memset(got, 0, sizeof(got));
    submit(g, 0, again);
    engines_run(g, got);
    before = engines_stats(g).n_accepted_tokens - before;
    gallop_close(g);
    return before;
}

static void tokens_of_one_client_are_not_guessed_for_another(void **state)
{
    uint64_t own = right_in_repetition("a", "a"), other = right_in_repetition("a", "b");

    assert_true(own > 50); /* of 60 tokens */
    assert_true(other < own);
    assert_int_equal(other, right_in_repetition("b", "a"));
    assert_int_equal(right_in_repetition(NULL, NULL), own);
    assert_int_equal(right_in_repetition(NULL, "a"), other);
    assert_int_equal(right_in_repetition("a", NULL), other);
}

static void a_request_can_ask_for_no_guesses(void **state)
{
    static struct engines_answer got[1];
    struct gallop *g = open_with("{\"method\":\"ngram\",\"adaptive\":false}", 1);
    int32_t ids[40];
    struct gallop_request r;

    memset(got, 0, sizeof(got));
    engines_text(0, 0, 20, ids);
    engines_text(0, 0, 20, ids + 20);
    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = 40;
    r.sampling.max_new_tokens = 30;
    r.sampling.ignore_eos = 1;
    r.speculative = 0;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    engines_run(g, got);
    assert_int_equal(got->end.speculation.n_positions, 0);
    assert_int_equal(got->end.speculation.n_steps, 30);
    assert_int_equal(engines_stats(g).n_draft_tokens, 0);
    gallop_close(g);
}

static void tokens_that_a_schema_forces_are_guessed(void **state)
{
    static struct engines_answer got[2];
    uint64_t n_steps[2];
    char says[256];

    for (int k = 0; k < 2; k++) {
        struct gallop *g =
            open_with(k ? "{\"method\":\"ngram\",\"prompt_lookup_min\":100,\"adaptive\":false}" : NULL, 1);
        struct gallop_request r;

        gallop_request_init(&r);
        r.text = "Once";
        r.sampling.max_new_tokens = 200;
        r.sampling.do_sample = 1;
        r.sampling.temperature = 1;
        r.sampling.has_seed = 1; /* 0 */
        r.structured_outputs.json =
            "{\"type\":\"object\",\"properties\":{\"the first name of the person\":{\"type\":\"boolean\"},"
            "\"the second name of the person\":{\"const\":\"a long text that has no choice\"}},"
            "\"required\":[\"the first name of the person\",\"the second name of the person\"],"
            "\"additionalProperties\":false}";
        r.structured_outputs.disable_any_whitespace = 1;
        r.user = (void *)(uintptr_t)k;
        assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
        engines_run(g, got);
        n_steps[k] = got[k].end.speculation.n_steps;
        assert_int_equal(got[k].end.finish, GALLOP_FINISH_STOP);
        gallop_close(g);
    }
    if (engines_differ(&got[1], &got[0], 1, says))
        fail_msg("%s", says);
    assert_true(strstr(got[0].text, "a long text that has no choice") != NULL);
    assert_int_equal(n_steps[0], got[0].n);
    assert_true(2 * n_steps[1] <
                n_steps[0]); /* the demo model has hardly a preference, and takes long tokens, too */
}

/* Asks for "x", and then for "a" many times, with the constraint GRAMMAR. Lookup guesses OTHER behind "x". */
static void submit_misleading(struct gallop *g, const char *grammar, const char *other)
{
    const struct tok *tok = engine_llm(g)->tok;
    struct tok_ids ids = {0}, a = {0}, x = {0};
    const float bias = 100;
    struct gallop_request r;
    int32_t prompt[128];

    assert_int_equal(tok_encode(tok, other, strlen(other), 0, &ids, NULL), 0);
    assert_int_equal(tok_encode(tok, "a", 1, 0, &a, NULL), 0);
    assert_int_equal(tok_encode(tok, "x", 1, 0, &x, NULL), 0);
    assert_true(ids.n > 32 && ids.n <= 90 && a.n == 1 && x.n == 1);
    engines_text(0, 0, 16, prompt);
    prompt[16] = x.id[0];
    memcpy(prompt + 17, ids.id, ids.n * sizeof(*prompt));
    engines_text(0, 0, 16, prompt + 17 + ids.n);
    gallop_request_init(&r);
    r.ids = prompt;
    r.n_ids = 33 + ids.n;
    r.sampling.max_new_tokens = 40;
    r.sampling.ignore_eos = 1;
    r.sampling.bias_id = a.id;
    r.sampling.bias = &bias;
    r.sampling.n_bias = 1;
    r.structured_outputs.grammar = grammar;
    assert_int_equal(gallop_submit(g, &r, NULL, NULL), 0);
    tok_ids_fini(&ids);
    tok_ids_fini(&a);
    tok_ids_fini(&x);
}

/* The masks behind "b" take more work with each token, and the 22nd exceeds the limit. */
static void wrong_guesses_bring_no_constraint_to_its_limit(void **state)
{
    static const char grammar[] = "root ::= \"x\" (\"a\" [a-z]* | \"b\" s)\n"
                                  "s ::= s t | t s | t t t | v u | [a-z ]\n"
                                  "t ::= s s | u t | t u | v s | [a-z ] s\n"
                                  "u ::= s s s | t t | v v | \"\" | [a-z ]\n"
                                  "v ::= s t u | t u v | u v w | v w s | [a-z ] v\n"
                                  "w ::= w v u t s | s t u v w | [a-z ]\n";
    static const char other[] =
        "b the the the the the the the the the the the the the the the the the the the "
        "the the the the the the the the the the the the the the the the";
    static struct engines_answer plain[1], got[1];
    char says[256];

    for (int k = 0; k < 2; k++) {
        struct gallop *g = open_with(
            k ? "{\"method\":\"ngram\",\"num_speculative_tokens\":32,\"adaptive\":false}" : NULL, 1);

        memset(k ? got : plain, 0, sizeof(got));
        submit_misleading(g, grammar, other);
        engines_run(g, k ? got : plain);
        gallop_close(g);
    }
    assert_int_equal(plain->end.finish, GALLOP_FINISH_LENGTH);
    if (engines_differ(got, plain, 1, says))
        fail_msg("%s", says);
    assert_true(got->end.speculation.n_accepted_tokens > 10);
}

static void malformed_configurations_are_refused_by_name(void **state) /* long: a table */
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "the text: at byte 0"},
        {"[]", "expected a JSON object"},
        {"{}", "the member method is missing"},
        {"{\"method\":3}", "method is not a string"},
        {"{\"method\":\"\"}", "found the method \"\""},
        {"{\"method\":\"ngram,\"}", "found the method \"\""},
        {"{\"method\":\"ngram,ngram\"}", "method ngram is given twice"},
        {"{\"method\":\"eagle3\"}", "method \"eagle3\" is not supported"},
        {"{\"method\":\"mtp\"}", "method \"mtp\" is not supported"},
        {"{\"method\":\"medusa\"}", "method \"medusa\" is not supported"},
        {"{\"method\":\"draft_model\"}", "needs the member model"},
        {"{\"method\":\"self,ngram\"}", "method self must be the last one"},
        {"{\"method\":\"ngram\",\"model\":\"x\"}", "model is given"},
        {"{\"method\":\"ngram\",\"num_speculative_tokens\":0}",
         "num_speculative_tokens: found 0, expected a whole number in [1,32]"},
        {"{\"method\":\"ngram\",\"num_speculative_tokens\":33}",
         "found 33, expected a whole number in [1,32]"},
        {"{\"method\":\"ngram\",\"num_speculative_tokens\":2.5}",
         "num_speculative_tokens: found 2.5, expected"},
        {"{\"method\":\"ngram\",\"prompt_lookup_min\":3,\"prompt_lookup_max\":2}", "prompt_lookup_min is 3"},
        {"{\"method\":\"ngram\",\"prompt_lookup_max\":0}", "prompt_lookup_max: found 0, expected"},
        {"{\"method\":\"ngram\",\"prompt_lookup_min\":129}",
         "prompt_lookup_min: found 129, expected a whole number in [1,128]"},
        {"{\"method\":\"suffix\",\"suffix_decoding_min_token_prob\":1.5}",
         "found 1.5, expected a number in [0,1]"},
        {"{\"method\":\"suffix\",\"adaptive\":1}", "adaptive: found 1, expected true or false"},
        {"{\"method\":\"ngram\",\"draft_tensor_parallel_size\":2}",
         "draft_tensor_parallel_size: expected 1, since nothing else is supported"},
        {"{\"method\":\"ngram\",\"draft_tensor_parallel_size\":\"1\"}",
         "draft_tensor_parallel_size: expected 1,"},
        {"{\"method\":\"ngram\",\"draft_tensor_parallel_size\":11}",
         "draft_tensor_parallel_size: expected 1,"},
        {"{\"method\":\"ngram\",\"rejection_sample_method\":\"synthetic\"}",
         "rejection_sample_method: expected \"standard\","},
        {"{\"method\":\"ngram\",\"draft_sample_method\":\"x\"}",
         "draft_sample_method: expected \"greedy\" or \"probabilistic\","},
        {"{\"method\":\"ngram\",\"enforce_eager\":1}", "enforce_eager: expected true or false,"},
        {"{\"method\":\"ngram\",\"enable_adaptive_verification\":true}", "expected false,"},
        {"{\"method\":\"ngram\",\"kv_cache_dtype\":\"fp8_with_a_name_of_more_than_the_64_bytes_that_a_value_has\"}",
         "kv_cache_dtype: expected \"auto\","},
        {"{\"method\":\"ngram\",\"moe_backend\":[\"auto\"]}", "moe_backend: expected \"auto\","},
        {"{\"method\":\"ngram\",\"depth\":1}", "the member \"depth\" is not known"},
        {"{\"method\":\"ngram\",\"num_speculative_tokens_per_batch_size\":[[1,4,3],[4,8,1]]}", "ascending"},
        {"{\"method\":\"ngram\",\"num_speculative_tokens_per_batch_size\":[[0,4,3]]}", "ascending"},
        {"{\"method\":\"ngram\",\"num_speculative_tokens_per_batch_size\":[[1,4,33]]}", "ascending"},
        {"{\"method\":\"ngram\",\"num_speculative_tokens_per_batch_size\":[1]}", "ascending"},
        {"{\"method\":\"ngram\",\"method\":\"suffix\"}", "method"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct guess_config c;
        struct err e = {0};
        struct arena a;

        arena_init(&a, MEM_ENGINE);
        assert_true(guess_config_read(&c, bad[i].text, &a, &e) != 0);
        if (!strstr(e.msg, bad[i].says))
            fail_msg("%s: says \"%s\", expected \"%s\"", bad[i].text, e.msg, bad[i].says);
        assert_string_equal(e.subject, "speculative_config");
        arena_fini(&a);
    }
}

static void members_have_vllms_and_paces_names(void **state)
{
    struct guess_config c;
    struct err e = {0};
    struct arena a;

    arena_init(&a, MEM_ENGINE);
    assert_int_equal(
        guess_config_read(&c,
                          "{\"type\":\"pard\",\"model_name\":\"m\",\"num_speculative_tokens\":12,"
                          "\"draft_kv_cache_memory_gb\":0.5,\"revision\":null}",
                          &a, &e),
        0);
    assert_true(c.n_methods == 1 && c.method[0] == GUESS_DRAFT && c.most == 12 && c.adaptive &&
                c.is_parallel);
    assert_string_equal(c.model, "m");
    assert_true(c.kv_memory == 0.5 && !c.revision);
    for (int k = 0; k < 2; k++)
        assert_int_equal(
            guess_config_read(
                &c,
                k ? "{\"method\":\"ngram\",\"draft_tensor_parallel_size\":1,"
                    "\"rejection_sample_method\":\"standard\",\"draft_sample_method\":\"greedy\","
                    "\"enforce_eager\":true,\"disable_padded_drafter_batch\":false,"
                    "\"use_local_argmax_reduction\":true,\"enable_adaptive_verification\":false,"
                    "\"kv_cache_dtype\":\"auto\",\"moe_backend\":\"auto\"}"
                  : "{\"method\":\"ngram\",\"draft_sample_method\":\"probabilistic\","
                    "\"enforce_eager\":false,\"moe_backend\":null}",
                &a, &e),
            0);
    assert_true(c.n_methods == 1 && c.method[0] == GUESS_NGRAM && c.adaptive && !c.model);
    assert_int_equal(guess_config_read(&c, "{\"model\":\"m\"}", &a, &e), 0);
    assert_int_equal(guess_config_most(&c, GUESS_DRAFT, 1), 5);
    assert_int_equal(guess_config_most(&c, GUESS_PARD, 1), 12);
    assert_int_equal(guess_config_read(&c,
                                       "{\"method\":\"suffix, ngram\",\"prompt_lookup_min\":5,"
                                       "\"num_speculative_tokens_per_batch_size\":[[1,16,3],[32,null,0]]}",
                                       &a, &e),
                     0);
    assert_true(c.n_methods == 2 && c.method[1] == GUESS_NGRAM && c.lookup_min == 5 && c.lookup_max == 24);
    assert_int_equal(guess_config_most(&c, GUESS_NGRAM, 16), 3);
    assert_int_equal(guess_config_most(&c, GUESS_NGRAM, 17), 5);
    assert_int_equal(guess_config_most(&c, GUESS_SUFFIX, 17), 12);
    assert_int_equal(guess_config_most(&c, GUESS_SUFFIX, 4000), 0);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_without_guesses),
        cmocka_unit_test(int4_weights_guess_behind_rows_of_every_cache),
        cmocka_unit_test(counts_of_ngram_follow_from_the_tokens),
        cmocka_unit_test(a_long_prompt_is_indexed_in_several_steps),
        cmocka_unit_test(wrong_guesses_preempt_no_sequence),
        cmocka_unit_test(answers_to_one_prompt_share_its_index),
        cmocka_unit_test(a_guessed_end_token_is_accepted),
        cmocka_unit_test(an_answer_of_one_token_has_no_guesses),
        cmocka_unit_test(tokens_of_one_client_are_not_guessed_for_another),
        cmocka_unit_test(a_request_can_ask_for_no_guesses),
        cmocka_unit_test(tokens_that_a_schema_forces_are_guessed),
        cmocka_unit_test(wrong_guesses_bring_no_constraint_to_its_limit),
        cmocka_unit_test(malformed_configurations_are_refused_by_name),
        cmocka_unit_test(members_have_vllms_and_paces_names),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
