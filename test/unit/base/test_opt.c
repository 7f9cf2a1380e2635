/* test_opt.c - the option table: the sources of values, the errors and their messages, and what the table
 * prints. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/opt.h"

enum { USUAL, NUMBERS };

static const char *const headings[] = {[USUAL] = "Usual", [NUMBERS] = "Numbers", NULL};

static const struct opt_word words[] = {{"bfloat16", "bf16", NULL},
                                        {"float32", "fp32", NULL},
                                        {"half", NULL, "but that is no type here"},
                                        {NULL, NULL, NULL}};

enum dtype_choice { FP32, BF16 };

/* What the options of this test are read into: two arrays of rows, each with a struct of its own. */
struct usual {
    const char *model, *dtype, *place, *watch;
    enum opt_source model_source, dtype_source;
    struct param_list stop, stop_token;
    bool greedy, json, watch_given;
};

struct numbers {
    size_t max_new_tokens;
    enum opt_source tokens_source;
    double temperature, top_p, half, positive;
    uint64_t seed;
    int64_t offset;
    int small; /* an option of half its width */
    enum dtype_choice choice;
    bool is_bf16;
    uint64_t given; /* bit 3: the seed, 63: small */
};

#define INTO(member)  OPT_INTO(struct usual, member)
#define COUNT(member) OPT_INTO(struct numbers, member)

static const struct opt_row usual[] = {
    {"model", 'm', PARAM_TEXT, "X", USUAL, .help = "checkpoint folder | file", .env = "GALLOP_TEST_MODEL",
     INTO(model), OPT_SOURCE(struct usual, model_source)},
    {"dtype", 0, PARAM_CHOICE, NULL, USUAL, .help = "computing type", .values = "fp32|bf16", .words = words,
     .fallback = "bf16", .env = "GALLOP_TEST_DTYPE", INTO(dtype), OPT_SOURCE(struct usual, dtype_source)},
    {"stop", 0, PARAM_TEXT, NULL, USUAL, .help = "ends the text", .repeat = true, INTO(stop)},
    {"stop-token", 0, PARAM_INT, "ID", NUMBERS, .help = "ends the text", .values = "[0,2147483647]",
     .repeat = true, INTO(stop_token)},
    {"greedy", 0, PARAM_FLAG, NULL, USUAL, .help = "the likeliest token", .env = "GALLOP_TEST_GREEDY",
     INTO(greedy)},
    {"json", 'j', PARAM_FLAG, NULL, USUAL, .help = "machine-readable output", INTO(json)},
    {"place", 'p', PARAM_TEXT, "[P]", USUAL, .help = "where", .bare = true, .aliases = "where-it-is|spot",
     INTO(place)},
    {"watch", 0, PARAM_TEXT, "[FILE]", USUAL, .help = "what is watched", .bare = true, INTO(watch),
     OPT_SOURCE(struct usual, watch_given)},
    {0}};

static const struct opt_row numbers[] = {
    {"max-new-tokens", 'n', PARAM_INT, NULL, USUAL, .help = "most tokens to generate",
     .values = "[0,1000000]", .fallback = "16", .env = "GALLOP_TEST_TOKENS", COUNT(max_new_tokens),
     OPT_SOURCE(struct numbers, tokens_source)},
    {"temperature", 0, PARAM_REAL, NULL, NUMBERS, .help = "divides logits", .values = "[0,inf)",
     .fallback = "1", COUNT(temperature)},
    {"top-p", 0, PARAM_REAL, NULL, NUMBERS, .help = "nucleus", .values = "(0,1]", COUNT(top_p)},
    {"half", 0, PARAM_REAL, NULL, NUMBERS, .help = "below one", .values = "[0.5,1)", .otherwise = "one half",
     COUNT(half)},
    {"positive", 0, PARAM_REAL, NULL, NUMBERS, .help = "a factor", .values = "(0,inf)", COUNT(positive)},
    {"seed", 0, PARAM_BITS, NULL, NUMBERS, .help = "of the random numbers", COUNT(seed),
     OPT_MARK(struct numbers, given, 3)},
    {"offset", 0, PARAM_INT, NULL, NUMBERS, .help = "anything", COUNT(offset)},
    {"small", 0, PARAM_INT, NULL, NUMBERS, .help = "what 32 bits hold", .values = "[-2147483648,2147483647]",
     .env = "GALLOP_TEST_SMALL", COUNT(small), OPT_MARK(struct numbers, given, 63)},
    {"choice", 0, PARAM_CHOICE, NULL, NUMBERS, .help = "by its index", .values = "fp32|bf16", COUNT(choice)},
    {"is-bf16", 0, PARAM_CHOICE, NULL, NUMBERS, .help = "the first or the second", .values = "fp32|bf16",
     COUNT(is_bf16)},
    {0}};

static struct options {
    struct numbers numbers;
    struct usual usual;
} o;

static const struct opt_part table[] = {
    OPT_PART(struct options, usual, usual), OPT_PART(struct options, numbers, numbers), {0}};

static struct opt_values v;
static struct err e;

#define PARSE(...) parse((char *[]){"gallop", __VA_ARGS__, NULL})

static int parse(char **argv)
{
    int argc = 0, rc;

    while (argv[argc])
        argc++;
    opt_fini(&v);
    e = (struct err){0};
    o = (struct options){0};
    if ((rc = opt_parse(table, argc, argv, &v, &e)) == 0)
        opt_read(&v, &o, sizeof(o));
    return rc;
}

static int setup(void **state)
{
    unsetenv("GALLOP_TEST_MODEL");
    unsetenv("GALLOP_TEST_TOKENS");
    unsetenv("GALLOP_TEST_DTYPE");
    unsetenv("GALLOP_TEST_GREEDY");
    return 0;
}

static int teardown(void **state)
{
    opt_fini(&v);
    return 0;
}

static void without_arguments_defaults_hold(void **state)
{
    assert_int_equal(parse((char *[]){"gallop", NULL}), 0);
    assert_int_equal(o.numbers.max_new_tokens, 16);
    assert_int_equal(o.numbers.tokens_source, OPT_DEFAULT);
    assert_string_equal(o.usual.dtype, "bf16");
    assert_null(o.usual.model);
    assert_int_equal(o.usual.model_source, OPT_NONE);
    assert_int_equal(o.usual.stop.n, 0);
    assert_false(o.usual.greedy);
    assert_true(o.numbers.top_p == 0 && o.numbers.seed == 0);
    assert_int_equal(v.n_args, 0);
}

static void every_way_of_writing_an_option_is_read(void **state)
{
    assert_int_equal(PARSE("-mdir", "--max-new-tokens=5", "--temperature", "0.25", "-j", "--dtype", "fp32"),
                     0);
    assert_string_equal(o.usual.model, "dir");
    assert_int_equal(o.numbers.max_new_tokens, 5);
    assert_true(o.numbers.temperature == 0.25);
    assert_true(o.usual.json && !o.usual.greedy);
    assert_int_equal(o.usual.dtype_source, OPT_GIVEN);
    /* Short options are joined, and a long one is abbreviated. */
    assert_int_equal(PARSE("-jn", "7", "--temp", "2"), 0);
    assert_true(o.usual.json && o.numbers.max_new_tokens == 7 && o.numbers.temperature == 2);
}

static void positional_arguments_keep_their_order_and_a_double_dash_ends_options(void **state)
{
    assert_int_equal(PARSE("one", "-n", "3", "two words", "--", "--json", "-5"), 0);
    assert_int_equal(v.n_args, 4);
    assert_string_equal(v.args[0], "one");
    assert_string_equal(v.args[1], "two words");
    assert_string_equal(v.args[2], "--json");
    assert_string_equal(v.args[3], "-5");
    assert_false(o.usual.json);
}

static void a_negative_number_is_a_value_and_not_an_option(void **state)
{
    assert_int_equal(PARSE("--offset", "-9223372036854775808"), 0);
    assert_true(o.numbers.offset == INT64_MIN);
}

static void an_unsigned_number_has_all_its_64_bits(void **state)
{
    static char *const bad[] = {"-1", " -1", "18446744073709551616", "1.5", "0x10", ""};

    assert_int_equal(PARSE("--seed", "0"), 0);
    assert_true(o.numbers.given == 8 && o.numbers.seed == 0);
    assert_int_equal(PARSE("--seed", "9223372036854775808"), 0);
    assert_true(o.numbers.seed == UINT64_C(9223372036854775808));
    assert_int_equal(PARSE("--seed", "18446744073709551615"), 0);
    assert_true(o.numbers.seed == UINT64_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(PARSE("--seed", bad[i]), ERR_USAGE);
        assert_non_null(strstr(e.msg, "--seed"));
        assert_non_null(strstr(e.msg, "18446744073709551615"));
    }
}

static void repeated_options_collect_and_others_take_the_last(void **state)
{
    assert_int_equal(
        PARSE("--stop", "a", "--stop=b", "--stop", "", "-n", "1", "-n", "2", "--stop", "d", "--stop", "e"),
        0);
    assert_int_equal(o.usual.stop.n, 5);
    assert_string_equal(o.usual.stop.value[0].text, "a");
    assert_string_equal(o.usual.stop.value[1].text, "b");
    assert_string_equal(o.usual.stop.value[2].text, "");
    assert_string_equal(o.usual.stop.value[4].text, "e");
    assert_int_equal(o.numbers.max_new_tokens, 2);
    assert_int_equal(PARSE("--stop-token", "3", "--stop-token", "1"), 0);
    assert_true(o.usual.stop_token.value[0].i == 3 && o.usual.stop_token.value[1].i == 1);
}

static void a_value_that_may_be_left_out_is_empty_then(void **state)
{
    assert_int_equal(PARSE("--watch", "--json"), 0);
    assert_string_equal(o.usual.watch, "");
    assert_true(o.usual.watch_given && o.usual.json);
    assert_int_equal(PARSE("--json", "--watch"), 0);
    assert_string_equal(o.usual.watch, "");
    assert_int_equal(PARSE("--watch", "file", "--json", "word"), 0);
    assert_string_equal(o.usual.watch, "file");
    assert_true(o.usual.json && v.n_args == 1);
    assert_int_equal(PARSE("--watch=--json", "--watc=x"), 0);
    assert_string_equal(o.usual.watch, "x");
    assert_int_equal(PARSE("-j"), 0);
    assert_null(o.usual.watch);
}

static void the_environment_comes_second(void **state)
{
    setenv("GALLOP_TEST_TOKENS", "99", 1);
    setenv("GALLOP_TEST_DTYPE", "fp32", 1);
    setenv("GALLOP_TEST_GREEDY", "Yes", 1);
    setenv("GALLOP_TEST_MODEL", "", 1); /* An empty variable counts as unset. */
    assert_int_equal(PARSE("--dtype", "bf16"), 0);
    assert_int_equal(o.numbers.max_new_tokens, 99);
    assert_int_equal(o.numbers.tokens_source, OPT_ENV);
    assert_int_equal(o.usual.dtype_source, OPT_GIVEN);
    assert_true(o.usual.greedy);
    assert_null(o.usual.model);
    setenv("GALLOP_TEST_GREEDY", "off", 1);
    assert_int_equal(PARSE("x"), 0);
    assert_false(o.usual.greedy);
}

#define REFUSED(sentence, ...)                           \
    do {                                                 \
        assert_int_equal(PARSE(__VA_ARGS__), ERR_USAGE); \
        assert_string_equal(e.msg, sentence);            \
    } while (0)

static void bad_values_are_named_with_what_was_expected(void **state)
{
    REFUSED("--max-new-tokens: found 'many', expected a whole number in [0,1000000]", "-n", "many");
    REFUSED("--max-new-tokens: found '1000001', expected a whole number in [0,1000000]", "-n1000001");
    REFUSED("--max-new-tokens: found '-1', expected a whole number in [0,1000000]", "-n", "-1");
    REFUSED("--max-new-tokens: found '5.5', expected a whole number in [0,1000000]", "-n", "5.5");
    REFUSED("--max-new-tokens: found '', expected a whole number in [0,1000000]", "--max-new-tokens=");
    REFUSED("--seed: found '18446744073709551616', expected a whole number from 0 to 18446744073709551615",
            "--seed", "18446744073709551616");
    REFUSED("--top-p: found '0', expected a number in (0,1]", "--top-p", "0");
    REFUSED("--top-p: found '1.01', expected a number in (0,1]", "--top-p", "1.01");
    REFUSED("--temperature: found 'inf', expected a number in [0,inf)", "--temperature", "inf");
    REFUSED("--temperature: found 'nan', expected a number in [0,inf)", "--temperature", "nan");
    REFUSED("--temperature: found '1e999', expected a number in [0,inf)", "--temperature", "1e999");
    REFUSED("--temperature: found '0.5x', expected a number in [0,inf)", "--temperature", "0.5x");
    REFUSED("--dtype: found 'fp3', expected one of fp32|bf16; did you mean fp32?", "--dtype", "fp3");
    REFUSED("--dtype: found 'bfloat61', expected one of fp32|bf16; did you mean bfloat16?", "--dtype",
            "bfloat61");
    REFUSED("--dtype: found 'HALF', but that is no type here", "--dtype", "HALF");
    REFUSED("--dtype: found 'fp32|bf16', expected one of fp32|bf16", "--dtype", "fp32|bf16");
    REFUSED("--dtype: found '', expected one of fp32|bf16", "--dtype", "");
    setenv("GALLOP_TEST_TOKENS", "lots", 1);
    REFUSED("GALLOP_TEST_TOKENS in the environment: found 'lots', expected a whole number in [0,1000000]",
            "x");
    setup(NULL);
    setenv("GALLOP_TEST_GREEDY", "perhaps", 1);
    REFUSED("GALLOP_TEST_GREEDY in the environment: found 'perhaps', expected 1 or 0", "x");
}

static void bad_options_are_named(void **state)
{
    REFUSED("--tepmerature: there is no such option; did you mean --temperature?", "--tepmerature", "1");
    REFUSED("--tepmerature: there is no such option; did you mean --temperature?", "--tepmerature=1");
    REFUSED("-x: there is no such option; --help all lists them", "-x");
    REFUSED("-x: there is no such option; --help all lists them", "-jx");
    REFUSED("--tx: there is no such option; --help all lists them", "a", "-j", "--tx=1", "--json", "b");
}

static void ambiguous_missing_and_superfluous_values_are_named(void **state)
{
    REFUSED("--t: several options begin like this; --help all lists them", "--t", "1");
    REFUSED("--model: found nothing after it, expected X", "-m");
    REFUSED("--max-new-tokens: found nothing after it, expected N", "--max-new-tokens");
    REFUSED("--dtype: found nothing after it, expected fp32|bf16", "--dtype");
    REFUSED("--json: found '--json=1', but it takes no value", "--json=1");
}

static void aliases_and_other_spellings_are_taken(void **state)
{
    assert_int_equal(PARSE("--dtype", "Float32", "--spot", "here"), 0);
    assert_string_equal(o.usual.dtype, "fp32");
    assert_string_equal(o.usual.place, "here");
    assert_int_equal(PARSE("--where-it-is=there", "--dtype=BFLOAT16"), 0);
    assert_string_equal(o.usual.place, "there");
    /* A short option has the same value, and its value may be missing as well. */
    assert_int_equal(PARSE("-p", "near", "--spo"), 0);
    assert_string_equal(o.usual.place, "");
    assert_int_equal(PARSE("-p", "near"), 0);
    assert_string_equal(o.usual.place, "near");
    setenv("GALLOP_TEST_DTYPE", "float32", 1);
    assert_int_equal(PARSE("x"), 0);
    assert_string_equal(o.usual.dtype, "fp32");
    REFUSED("--sopt: there is no such option; did you mean --spot?", "--sopt");
    REFUSED("--zzzz: there is no such option; --help all lists them", "--zzzz");
}

static void one_parse_does_not_disturb_the_next(void **state)
{
    assert_int_equal(PARSE("-j", "-x", "-n"), ERR_USAGE); /* getopt stops in the middle of the word. */
    assert_int_equal(PARSE("a", "-n", "4", "b"), 0);
    assert_int_equal(v.n_args, 2);
    assert_int_equal(o.numbers.max_new_tokens, 4);
}

static void expect_line(const struct buf *page, const char *line)
{
    if (!strstr(page->data, line))
        fail_msg("the page lacks \"%s\":\n%s", line, page->data);
}

static void rows_behind_the_full_groups_have_one_line_each(void **state)
{
    struct buf b;

    buf_init(&b, MEM_APP);
    opt_help(table, headings, 1, &b);
    expect_line(&b, "  -p, --place [P]         where; also --where-it-is, --spot\n");
    expect_line(&b, "\n\nNumbers:\n"
                    "  --stop-token ID         ends the text\n"
                    "  --temperature X         divides logits\n");
    expect_line(&b, "  --seed N                of the random numbers\n");
    expect_line(&b, "  --choice fp32|bf16      by its index\n");
    expect_line(&b, "  --is-bf16 fp32|bf16     the first or the second\n");
    assert_null(strstr(b.data, "ends the text; may be repeated (0"));
    assert_int_equal(opt_count_rows(table), 18);
    buf_fini(&b);
}

static void help_shows_every_row_below_its_heading_and_stays_in_its_columns(void **state)
{
    struct buf b;
    size_t column = 0;

    buf_init(&b, MEM_APP);
    opt_help(table, headings, 2, &b);
    for (const struct opt_part *a = table; a->rows; a++)
        for (const struct opt_row *r = a->rows; r->name; r++) {
            expect_line(&b, r->name);
            if (r->env)
                expect_line(&b, r->env);
        }
    assert_memory_equal(b.data, "Usual:\n  -m, --model X ", 22);
    expect_line(&b,
                "\n\nNumbers:\n      --stop-token ID     ends the text; may be repeated (0 to 2147483647)\n"
                "      --temperature X ");
    assert_true(strstr(b.data, "--max-new-tokens") < strstr(b.data, "Numbers:"));
    for (size_t i = 0; i < b.len; i++) {
        column = b.data[i] == '\n' ? 0 : column + 1;
        assert_true(column <= 80);
    }
    buf_fini(&b);
}

static void defaults_and_ranges_are_said_in_words(void **state)
{
    struct buf b;

    buf_init(&b, MEM_APP);
    opt_help(table, headings, 2, &b);
    expect_line(&b, "  -n, --max-new-tokens N  most tokens to generate (default 16, 0 to 1000000,\n"
                    "                          $GALLOP_TEST_TOKENS)\n");
    expect_line(&b, "      --stop TEXT         ends the text; may be repeated\n");
    expect_line(&b, "      --dtype fp32|bf16   computing type (default bf16, $GALLOP_TEST_DTYPE)\n");
    expect_line(&b, "      --greedy            the likeliest token ($GALLOP_TEST_GREEDY)\n");
    expect_line(&b, "      --temperature X     divides logits (default 1, 0 or more)\n");
    expect_line(&b, "      --top-p X           nucleus (more than 0, at most 1)\n");
    expect_line(&b, "      --half X            below one (default one half; at least 0.5, less than\n"
                    "                          1)\n");
    expect_line(&b, "      --positive X        a factor (more than 0)\n");
    expect_line(&b, "      --offset N          anything\n");
    buf_fini(&b);
}

static void a_short_row_ends_with_the_first_clause(void **state)
{
    static const struct opt_row some[] = {
        {"quiet", 'q', PARAM_FLAG, NULL, NUMBERS, .help = "print nothing; not even warnings"},
        {"a-name-of-many-words", 0, PARAM_INT, NULL, NUMBERS, .help = "at most a:b (one): of two"},
        {"a-name-of-many-words-and-more", 0, PARAM_INT, NULL, NUMBERS,
         .help = "some of these: one (two); three"},
        {0}};
    struct buf b;

    buf_init(&b, MEM_APP);
    opt_help((const struct opt_part[]){OPT_OTHER(some), {0}}, headings, 1, &b);
    assert_string_equal(b.data, "Numbers:\n"
                                "  -q, --quiet             print nothing\n"
                                "  --a-name-of-many-words  at most a:b\n"
                                "  --a-name-of-many-words-and-more  some of these\n");
    buf_fini(&b);
}

static void long_help_wraps_under_itself(void **state)
{
    static const struct opt_row one[] = {
        {"a-very-long-name-of-an-option", 0, PARAM_TEXT, "SOMETHING", USUAL,
         .help = "words words words words words words words words words words words words words words words "
                 "words words"},
        {0}};
    struct buf b;

    buf_init(&b, MEM_APP);
    opt_help((const struct opt_part[]){OPT_OTHER(one), {0}}, headings, 2, &b);
    assert_string_equal(b.data,
                        "Usual:\n"
                        "      --a-very-long-name-of-an-option SOMETHING\n"
                        "                          words words words words words words words words words\n"
                        "                          words words words words words words words words\n");
    buf_fini(&b);
}

static void running_out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    size_t blocks;
    bool failed = true;
    long n;

    opt_fini(&v);
    blocks = mem_live_blocks();
    for (n = 1; failed; n++) {
        struct buf b;
        int rc;

        mem_fail_at(n);
        rc = PARSE("a", "--stop", "b", "--stop", "c", "-n", "5", "--stop", "d");
        if (rc == 0) {
            buf_init(&b, MEM_APP);
            opt_help(table, headings, 2, &b);
            failed = mem_failed();
            assert_int_equal(b.oom, failed);
            buf_fini(&b);
        } else {
            failed = mem_failed();
            assert_true(failed);
            assert_int_equal(rc, ERR_NOMEM);
        }
        mem_fail_at(0);
        opt_fini(&v);
        assert_int_equal(mem_live_blocks(), blocks);
    }
    assert_true(n > 3);
}

static void members_of_every_kind_are_filled_and_others_keep_what_they_have(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--small", "-2147483648", "--choice", "bf16", "--is-bf16", "bf16"), 0);
    assert_true(o.numbers.small == INT32_MIN && o.numbers.choice == BF16 && o.numbers.is_bf16);
    assert_true(o.numbers.given == UINT64_C(1) << 63);
    assert_int_equal(PARSE("--is-bf16", "fp32"), 0);
    assert_true(!o.numbers.is_bf16 && o.numbers.given == 0);
    o = (struct options){.numbers = {.small = 7, .choice = BF16, .is_bf16 = true, .half = 0.75, .given = 1}};
    opt_read(&v, &o, sizeof(o));
    assert_true(o.numbers.small == 7 && o.numbers.choice == BF16 && !o.numbers.is_bf16);
    assert_true(o.numbers.half == 0.75 && o.numbers.given == 1);
    setenv("GALLOP_TEST_SMALL", "3", 1);
    assert_int_equal(PARSE("x"), 0);
    assert_true(o.numbers.small == 3 && o.numbers.given == UINT64_C(1) << 63);
    unsetenv("GALLOP_TEST_SMALL");
}

static void one_array_is_read_by_itself(void **state)
{
    struct usual alone = {.greedy = true};

    (void)state;
    assert_int_equal(PARSE("--stop", "a", "--stop", "b", "-m", "x"), 0);
    opt_read_rows(&v, usual, &alone);
    assert_true(alone.greedy && alone.stop.n == 2 && alone.model_source == OPT_GIVEN);
    assert_string_equal(alone.stop.value[1].text, "b");
}

/* A table that contradicts itself is a bug, which is found at the first parse. */
static int parse_in_child(const struct opt_row *rows)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct opt_values out;

        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        opt_parse((const struct opt_part[]){OPT_OTHER(rows), {0}}, 1, (char *[]){"gallop", NULL}, &out, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void a_table_with_mistakes_is_a_bug(void **state)
{
    struct opt_row two[3] = {{"a", 'a', PARAM_INT, NULL, USUAL, .help = "h"},
                             {"b", 'b', PARAM_TEXT, NULL, USUAL, .help = "h"}};

    assert_int_equal(parse_in_child(two), 0);
    two[1].name = "a";
    assert_int_equal(parse_in_child(two), 6);
    two[1].name = "b", two[1].aliases = "c|a";
    assert_int_equal(parse_in_child(two), 6);
    two[1].aliases = NULL, two[1].brief = 'a';
    assert_int_equal(parse_in_child(two), 6);
    two[1] = (struct opt_row){0};
    two[0] = (struct opt_row){"a", 0, PARAM_INT, NULL, USUAL, .values = "[1,2}", .help = "h"};
    assert_int_equal(parse_in_child(two), 6);
    two[0] =
        (struct opt_row){"a", 0, PARAM_INT, NULL, USUAL, .values = "[1,2]", .fallback = "3", .help = "h"};
    assert_int_equal(parse_in_child(two), 6);
    two[0] = (struct opt_row){"a", 0, PARAM_CHOICE, NULL, USUAL, .help = "h"};
    assert_int_equal(parse_in_child(two), 6);
    two[0] = (struct opt_row){"a", 0, PARAM_INT, NULL, USUAL, .help = NULL};
    assert_int_equal(parse_in_child(two), 6);
}

/* A value that its member cannot hold would be cut, and one of another type would be read as garbage. */
static void a_member_that_does_not_fit_its_row_is_a_bug(void **state)
{
    static const struct opt_row bad[] = {
        {"a", 0, PARAM_INT, NULL, USUAL, .help = "h", .values = "[0,inf)", COUNT(small)},
        {"a", 0, PARAM_INT, NULL, USUAL, .help = "h", .values = "[0,2147483648]", COUNT(small)},
        {"a", 0, PARAM_INT, NULL, USUAL, .help = "h", COUNT(max_new_tokens)},
        {"a", 0, PARAM_BITS, NULL, USUAL, .help = "h", COUNT(small)},
        {"a", 0, PARAM_REAL, NULL, USUAL, .help = "h", COUNT(small)},
        {"a", 0, PARAM_TEXT, NULL, USUAL, .help = "h", INTO(json)},
        {"a", 0, PARAM_TEXT, NULL, USUAL, .help = "h", .repeat = true, INTO(place)},
        {"a", 0, PARAM_FLAG, NULL, USUAL, .help = "h", INTO(place)},
        {"a", 0, PARAM_CHOICE, NULL, USUAL, .help = "h", .values = "x|y|z", INTO(json)},
        {"a", 0, PARAM_FLAG, NULL, USUAL, .help = "h", INTO(json),
         OPT_SOURCE(struct options, usual.watch_given)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse_in_child((struct opt_row[]){bad[i], {0}}) != 6)
            fail_msg("row %zu is taken", i);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(without_arguments_defaults_hold),
        TEST(every_way_of_writing_an_option_is_read),
        TEST(positional_arguments_keep_their_order_and_a_double_dash_ends_options),
        TEST(a_negative_number_is_a_value_and_not_an_option),
        TEST(an_unsigned_number_has_all_its_64_bits),
        TEST(repeated_options_collect_and_others_take_the_last),
        TEST(a_value_that_may_be_left_out_is_empty_then),
        TEST(the_environment_comes_second),
        TEST(bad_values_are_named_with_what_was_expected),
        TEST(bad_options_are_named),
        TEST(ambiguous_missing_and_superfluous_values_are_named),
        TEST(aliases_and_other_spellings_are_taken),
        TEST(rows_behind_the_full_groups_have_one_line_each),
        TEST(one_parse_does_not_disturb_the_next),
        TEST(help_shows_every_row_below_its_heading_and_stays_in_its_columns),
        TEST(defaults_and_ranges_are_said_in_words),
        TEST(a_short_row_ends_with_the_first_clause),
        TEST(long_help_wraps_under_itself),
        TEST(running_out_of_memory_is_reported_and_leaks_nothing),
        TEST(members_of_every_kind_are_filled_and_others_keep_what_they_have),
        TEST(one_array_is_read_by_itself),
        TEST(a_table_with_mistakes_is_a_bug),
        TEST(a_member_that_does_not_fit_its_row_is_a_bug),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
