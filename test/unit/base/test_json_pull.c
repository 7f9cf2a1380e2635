/* test_json_pull.c - the pull reader of JSON: its own promises, and the same acceptance and values as jansson
 * on random texts. */
#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/json/json_tree.h"
#include "base/mem.h"

/* Opens TEXT as the tests below do. The arena belongs to the caller. */
static void open_text(struct json_pull *j, const char *text, struct arena *a, struct err *e)
{
    arena_init(a, MEM_BASE);
    assert_int_equal(json_pull_open(j, text, strlen(text), "some.json", a, e), 0);
}

static void an_object_is_read_key_by_key(void **state)
{
    int64_t i = 0, list = 0;
    double f = 0;
    bool b = false;
    struct json_str key, s = {0}, raw = {0};
    struct arena a;
    struct err e;
    struct json_pull j;

    open_text(&j,
              " { \"i\" : -5 , \"f\":2.5e-1,\"b\":true,\"n\":null,\"s\":\"x\\ty\\u00e9\",\"l\":[1,2,[3]],"
              "\"o\":{\"p\":{}},\"r\": [ 1 ] } \n",
              &a, &e);
    for (json_pull_enter_object(&j); json_pull_key(&j, &key);) {
        if (json_str_is(&key, "i")) {
            assert_true(json_pull_i64(&j, &i));
        } else if (json_str_is(&key, "f")) {
            assert_true(json_pull_f64(&j, &f));
        } else if (json_str_is(&key, "b")) {
            assert_true(json_pull_bool(&j, &b));
        } else if (json_str_is(&key, "n")) {
            assert_true(json_pull_null(&j));
        } else if (json_str_is(&key, "s")) {
            assert_false(json_pull_null(&j)); /* This consumes nothing. */
            assert_true(json_pull_string(&j, &s));
        } else if (json_str_is(&key, "l")) {
            for (json_pull_enter_array(&j); json_pull_elem(&j); list++)
                json_pull_skip(&j);
        } else if (json_str_is(&key, "r")) {
            raw = json_pull_raw(&j);
        } else {
            assert_true(json_str_is(&key, "o"));
            json_pull_skip(&j);
        }
    }
    assert_int_equal(json_pull_finish(&j), 0);
    assert_true(i == -5 && f == 0.25 && b && list == 3);
    assert_int_equal(s.n, 5);
    assert_memory_equal(s.s, "x\ty\xc3\xa9", 5);
    assert_true(json_str_is(&raw, "[ 1 ]"));
    assert_false(json_str_is(&raw, "[ 1 "));
    assert_false(json_str_is(&raw, "[ 1 ]]"));
    arena_fini(&a);
}

static void plain_strings_are_not_copied(void **state)
{
    const char *text = "[\"plain\",\"es\\u0063aped\"]";
    struct json_str s;
    struct arena a;
    struct err e;
    struct json_pull j;

    open_text(&j, text, &a, &e);
    json_pull_enter_array(&j);
    assert_true(json_pull_elem(&j) && json_pull_string(&j, &s));
    assert_ptr_equal(s.s, text + 2);
    assert_int_equal(mem_live_blocks(), 0);
    assert_true(json_pull_elem(&j) && json_pull_string(&j, &s));
    assert_true(json_str_is(&s, "escaped"));
    assert_false(json_pull_elem(&j));
    assert_int_equal(json_pull_finish(&j), 0);
    arena_fini(&a);
}

/* long: a table of cases */
static void broken_texts_are_refused_with_file_and_place(void **state)
{
    static const struct {
        const char *text, *word;
    } c[] = {
        {"", "byte 0: the text ends"},
        {"  ", "byte 2: the text ends"},
        {"[", "ends inside an array"},
        {"[1", "ends inside an array"},
        {"[1,", "the text ends where a value"},
        {"[1,]", "byte 3: a value cannot begin with byte 0x5d"},
        {"[,1]", "cannot begin"},
        {"[1 2]", "byte 3: a comma or ']'"},
        {"[1}", "a comma or ']'"},
        {"{\"a\"}", "a colon"},
        {"{\"a\":}", "cannot begin"},
        {"{\"a\":1,}", "cannot begin"},
        {"{1:2}", "a string is expected"},
        {"{\"a\":1]", "a comma or '}'"},
        {"{\"a\"", "a colon"},
        {"[01]", "not a JSON number"},
        {"[-]", "not a JSON number"},
        {"[1.]", "not a JSON number"},
        {"[1e]", "not a JSON number"},
        {"[1e+]", "not a JSON number"},
        {"[.5]", "cannot begin"},
        {"[+1]", "cannot begin"},
        {"[1x]", "a comma or ']'"},
        {"[tru]", "not a JSON value"},
        {"[True]", "cannot begin"},
        {"[nul", "not a JSON value"},
        {"[falsey]", "a comma or ']'"},
        {"[NaN]", "cannot begin"},
        {"\"abc", "ends inside a string"},
        {"\"abc\\", "escape or control character"},
        {"\"a\nb\"", "control character"},
        {"\"\\n\nb\"", "escape or control character"},
        {"\"\\x41\"", "escape or control character"},
        {"\"\\u12\"", "escape or control character"},
        {"\"\\u12g4\"", "escape or control character"},
        {"\"\\ud800\"", "escape or control character"},
        {"\"\\ud800\\u0041\"", "escape or control character"},
        {"\"\\udc00\"", "escape or control character"},
        {"1 1", "byte 2: text follows"},
        {"{}}", "text follows"},
    };

    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct arena a;
        struct err e;
        struct json_pull j;

        open_text(&j, c[i].text, &a, &e);
        json_pull_skip(&j);
        if (json_pull_finish(&j) != ERR_INPUT || !strstr(e.msg, "some.json: at byte ") ||
            !strstr(e.msg, c[i].word))
            fail_msg("%s: %s", c[i].text, json_pull_rc(&j) ? e.msg : "accepted");
        assert_int_equal(json_pull_peek(&j), JSON_PULL_NONE);
        json_pull_enter_array(&j);
        assert_false(json_pull_elem(&j)); /* The reader reads nothing more. */
        arena_fini(&a);
    }
}

static void bytes_that_are_not_utf8_are_refused_before_anything_is_read(void **state)
{
    struct arena a;
    struct err e;
    struct json_pull j;

    arena_init(&a, MEM_BASE);
    assert_int_equal(json_pull_open(&j, "[1,\"\xc3\"]", 7, "some.json", &a, &e), ERR_INPUT);
    assert_string_equal(e.msg, "some.json: at byte 4: the text is not UTF-8: found byte 0xc3");
    assert_false(json_pull_elem(&j));
    assert_int_equal(json_pull_finish(&j), ERR_INPUT);
    assert_int_equal(json_pull_open(&j, NULL, 0, "some.json", &a, &e), 0); /* The file is empty. */
    assert_int_equal(json_pull_peek(&j), JSON_PULL_NONE);
    assert_int_equal(json_pull_finish(&j), ERR_INPUT);
    arena_fini(&a);
}

static void values_of_another_type_are_refused(void **state)
{
    struct json_str s;
    struct arena a;
    struct err e;
    struct json_pull j;
    int64_t i;
    uint64_t u;
    double f;
    bool b;

#define REFUSES(text, call, word)                      \
    do {                                               \
        open_text(&j, text, &a, &e);                   \
        assert_false(call);                            \
        assert_int_equal(json_pull_rc(&j), ERR_INPUT); \
        if (!strstr(e.msg, word))                      \
            fail_msg("%s: %s", text, e.msg);           \
        arena_fini(&a);                                \
    } while (0)
    REFUSES("1.0", json_pull_i64(&j, &i), "1.0 is not an integer");
    REFUSES("1e3", json_pull_i64(&j, &i), "1e3 is not an integer");
    REFUSES("9223372036854775808", json_pull_i64(&j, &i), "not an integer of 64 bits");
    REFUSES("-9223372036854775809", json_pull_i64(&j, &i), "not an integer of 64 bits");
    REFUSES("\"1\"", json_pull_i64(&j, &i), "a number is expected");
    REFUSES("-1", json_pull_u64(&j, &u), "not a non-negative");
    REFUSES("-0", json_pull_u64(&j, &u), "not a non-negative");
    REFUSES("18446744073709551616", json_pull_u64(&j, &u), "not a non-negative");
    REFUSES("1000000000000000000000000000000000000000000000000000000000000000000000", json_pull_u64(&j, &u),
            "too long");
    REFUSES("1e999", json_pull_f64(&j, &f), "too large");
    REFUSES("null", json_pull_f64(&j, &f), "a number is expected");
    REFUSES("1", json_pull_bool(&j, &b), "true or false");
    REFUSES("null", json_pull_string(&j, &s), "a string is expected");
    REFUSES("[]", (json_pull_enter_object(&j), json_pull_key(&j, &s)), "an object is expected");
    REFUSES("{}", (json_pull_enter_array(&j), json_pull_elem(&j)), "an array is expected");
    REFUSES("nule", json_pull_null(&j), "not a JSON value");
    REFUSES("trve", json_pull_bool(&j, &b), "not a JSON value");
#undef REFUSES
}

static void numbers_keep_their_value(void **state)
{
    static const char *const text[] = {"0",
                                       "-0.0",
                                       "1e-400",
                                       "4.9e-324",
                                       "1.7976931348623157e308",
                                       "0.1",
                                       "123456789012345678901234567890",
                                       "2.2250738585072011e-308",
                                       "1E+2",
                                       "9007199254740993"};
    struct arena a;
    struct err e;
    struct json_pull j;
    int64_t i;
    uint64_t u;
    double f;

    for (size_t k = 0; k < sizeof(text) / sizeof(text[0]); k++) {
        open_text(&j, text[k], &a, &e);
        assert_true(json_pull_f64(&j, &f) && f == strtod(text[k], NULL) && json_pull_finish(&j) == 0);
        arena_fini(&a);
    }
    open_text(&j, "[-9223372036854775808,9223372036854775807,18446744073709551615,-0]", &a, &e);
    json_pull_enter_array(&j);
    assert_true(json_pull_elem(&j) && json_pull_i64(&j, &i) && i == INT64_MIN);
    assert_true(json_pull_elem(&j) && json_pull_i64(&j, &i) && i == INT64_MAX);
    assert_true(json_pull_elem(&j) && json_pull_u64(&j, &u) && u == UINT64_MAX);
    assert_true(json_pull_elem(&j) && json_pull_i64(&j, &i) && i == 0);
    assert_false(json_pull_elem(&j));
    assert_int_equal(json_pull_finish(&j), 0);
    arena_fini(&a);
}

/* A program with a German locale must read 0.5 as one half; skipped where no such locale is installed. */
static void numbers_do_not_depend_on_the_locale(void **state)
{
    static const char *const name[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ru_RU.UTF-8", "de_DE"};
    bool set = false;
    struct arena a;
    struct err e;
    struct json_pull j;
    double f;

    for (size_t i = 0; i < 5 && !set; i++)
        set = setlocale(LC_NUMERIC, name[i]) && localeconv()->decimal_point[0] == ',';
    if (!set)
        skip();
    open_text(&j, "0.5", &a, &e);
    assert_true(json_pull_f64(&j, &f) && f == 0.5);
    arena_fini(&a);
    setlocale(LC_NUMERIC, "C");
}

static void nesting_is_limited_and_skipping_does_not_recurse(void **state)
{
    static char text[2 * JSON_PULL_MAX_DEPTH + 3];
    struct arena a;
    struct err e;
    struct json_pull j;

    for (int depth = JSON_PULL_MAX_DEPTH; depth <= JSON_PULL_MAX_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = 0;
        open_text(&j, text, &a, &e);
        json_pull_skip(&j);
        assert_int_equal(json_pull_finish(&j), depth == JSON_PULL_MAX_DEPTH ? 0 : ERR_INPUT);
        arena_fini(&a);
    }
    assert_non_null(strstr(e.msg, "nested deeper than 128"));
}

static void the_first_error_stays(void **state)
{
    struct arena a;
    struct err e;
    struct json_pull j;

    open_text(&j, "[1]", &a, &e);
    assert_int_equal(json_pull_fail(&j, "value %d", 7), ERR_INPUT);
    assert_int_equal(json_pull_fail(&j, "another"), ERR_INPUT);
    assert_string_equal(e.msg, "some.json: at byte 0: value 7");
    assert_int_equal(json_pull_raw(&j).n, 0);
    arena_fini(&a);
}

static void lack_of_memory_is_no_bad_input(void **state)
{
    struct json_str s;
    struct arena a;
    struct err e;
    struct json_pull j;

    open_text(&j, "\"\\n\"", &a, &e);
    mem_fail_at(1);
    assert_false(json_pull_string(&j, &s));
    mem_fail_at(0);
    assert_int_equal(json_pull_finish(&j), ERR_NOMEM);
    arena_fini(&a);
}

/* --- against jansson --- */

static uint64_t seed = 0x2545f4914f6cdd1d;

static unsigned draw(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 11) % n;
}

/* Appends a random value; keys are unique within an object, because jansson keeps the last of equal ones. */
static void random_value(struct buf *b, int depth)
{
    static const char *const scalar[] = {"true",
                                         "false",
                                         "null",
                                         "0",
                                         "-1",
                                         "12345678901234567",
                                         "1.5",
                                         "-0.25e3",
                                         "1E-7",
                                         "\"\"",
                                         "\"plain\"",
                                         "\"\\u00e9\\n\\\"\\\\\\/\"",
                                         "\"\xf0\x9f\x98\x80\"",
                                         "\"\\ud83d\\ude00x\"",
                                         "\"\\u0000\""};
    static const char *const blank[] = {"", "", "", " ", "\n\t ", "\r"};
    unsigned kind = depth > 5 ? 2 + draw(2) : draw(4), n = draw(5);

    buf_str(b, blank[draw(6)]);
    if (kind >= 2) {
        buf_str(b, scalar[draw(sizeof(scalar) / sizeof(scalar[0]))]);
    } else {
        buf_char(b, kind ? '[' : '{');
        for (unsigned i = 0; i < n; i++) {
            buf_str(b, i ? "," : blank[draw(6)]);
            if (!kind)
                buf_fmt(b, "%s\"%s%u\"%s:", blank[draw(6)], draw(2) ? "k\\t" : "k", i, blank[draw(6)]);
            random_value(b, depth + 1);
        }
        buf_char(b, kind ? ']' : '}');
    }
    buf_str(b, blank[draw(6)]);
}

/* Returns true if the next value of J is V. */
static bool same(struct json_pull *j, const json_t *v)
{
    struct json_str s;
    size_t n = 0;
    int64_t i;
    double f;
    bool b;

    switch (json_typeof(v)) {
    case JSON_OBJECT:
        for (json_pull_enter_object(j); json_pull_key(j, &s); n++) {
            const json_t *member = json_object_getn(v, s.s, s.n);
            if (!member || !same(j, member))
                return false;
        }
        return json_pull_rc(j) == 0 && n == json_object_size(v);
    case JSON_ARRAY:
        for (json_pull_enter_array(j); json_pull_elem(j); n++)
            if (n >= json_array_size(v) || !same(j, json_array_get(v, n)))
                return false;
        return json_pull_rc(j) == 0 && n == json_array_size(v);
    case JSON_STRING:
        return json_pull_string(j, &s) && s.n == json_string_length(v) &&
               memcmp(s.s, json_string_value(v), s.n) == 0;
    case JSON_INTEGER: return json_pull_i64(j, &i) && i == json_integer_value(v);
    case JSON_REAL: return json_pull_f64(j, &f) && f == json_real_value(v);
    case JSON_NULL: return json_pull_null(j);
    default: return json_pull_bool(j, &b) && b == json_is_true(v);
    }
}

/* Compares both readers on the same bytes: both accept or both refuse, and accepted values are equal. Returns
 * whether they accept. */
static bool compare(const char *text, size_t len)
{
    json_error_t where;
    json_t *v = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &where);
    struct arena a;
    struct err e;
    struct json_pull j;
    int rc;

    arena_init(&a, MEM_BASE);
    rc = json_pull_open(&j, text, len, "random", &a, &e);
    json_pull_skip(&j);
    rc = json_pull_finish(&j);
    if ((rc == 0) != (v != NULL))
        fail_msg("%.*s: jansson says %s, the pull reader %s", (int)len, text, v ? "yes" : where.text,
                 rc ? e.msg : "yes");
    if (v) {
        assert_int_equal(json_pull_open(&j, text, len, "random", &a, &e), 0);
        if (!same(&j, v) || json_pull_finish(&j) != 0)
            fail_msg("%.*s is read differently", (int)len, text);
    }
    json_decref(v);
    arena_fini(&a);
    return rc == 0;
}

static void random_texts_are_read_as_jansson_reads_them(void **state)
{
    size_t good = 0, bad = 0;
    struct buf b;

    buf_init(&b, MEM_TEXT);
    for (int round = 0; round < 4000; round++) {
        buf_clear(&b);
        random_value(&b, 0);
        assert_true(!b.oom && compare(b.data, b.len));
        /* One byte is changed, which usually makes the text invalid. */
        for (int k = 0; k < 6 && b.len; k++) {
            static const char value[] = "\"\\{}[],:0-. e\x01\x80\xff"
                                        "ntu";
            size_t at = draw((unsigned)b.len);
            char old = b.data[at], change = value[draw(sizeof(value) - 1)];
            bool accepted;

            if (change == '0' || change == 'e' || change == '-')
                /* jansson refuses numbers beyond 64 bits, which the reader leaves to its caller. */
                change = 'x';
            b.data[at] = change;
            accepted = compare(b.data, b.len);
            good += accepted;
            bad += !accepted;
            b.data[at] = old;
        }
    }
    assert_true(good > 1000 && bad > 10000);
    buf_fini(&b);
}

static void a_difference_would_be_seen(void **state)
{
    static const char *const text[][2] = {
        {"{\"a\":1}", "{\"a\":2}"},         {"[1,2]", "[1]"},  {"[1]", "[1,2]"}, {"\"a\"", "\"b\""},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}"}, {"true", "false"}, {"null", "0"},    {"1.5", "1.25"}};

    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        json_t *v = json_loads(text[i][0], JSON_DECODE_ANY, NULL);
        struct arena a;
        struct err e;
        struct json_pull j;

        open_text(&j, text[i][1], &a, &e);
        assert_non_null(v);
        assert_false(same(&j, v) && json_pull_finish(&j) == 0);
        json_decref(v);
        arena_fini(&a);
    }
}

/* What jansson accepts is read with the same values, and what it refuses is refused. */
static void a_tree_is_jansson_s(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        " {\"a\" : [1, -0, 1.5e3, -2E-2, true, false, null, \"\", {\"b\": {}}]} ",
        "\"a\\u00e4\\ud83d\\ude00\\n\\u0000z\"",
        "9223372036854775807",
        "-9223372036854775808",
        "1e400",
        "1.0",
        "01",
        "+1",
        "-",
        ".5",
        "1.",
        "{\"a\":1,\"a\":2}",
        "{\"a\\u0000\":1}",
        "{\"a\":1,}",
        "[1,]",
        "{a:1}",
        "{",
        "[",
        "",
        "  ",
        "[1] 2",
        "nul",
        "NaN",
        "Infinity",
        "\"\\ud800\"",
        "\"\\x\"",
        "\"\n\"",
        "\"\xff\"",
        "'a'",
        "[1 2]",
        "{\"a\" 1}",
        "\"abc"};

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *wanted =
                   json_loads(texts[i], JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL),
               *v;
        struct err e = {0};
        int rc = json_pull_load(&v, texts[i], strlen(texts[i]), "t", &e);

        if (rc != (wanted ? 0 : ERR_INPUT) || !json_equal(v, wanted) != !wanted)
            fail_msg("%s: %s", texts[i], rc ? e.msg : "another tree");
        json_decref(wanted);
        json_decref(v);
    }
}

static json_t *load_as(const char *text,
                       int (*load)(json_t **out, const char *text, size_t n, const char *path, struct err *e))
{
    struct err e = {0};
    json_t *v;

    if (load(&v, text, strlen(text), "t", &e) != 0)
        fail_msg("%s: %s", text, e.msg);
    return v;
}

static void written_as(const json_t *v, bool spaced, const char *wanted)
{
    struct buf b = {.tag = MEM_BASE};

    buf_json_tree(&b, v, spaced);
    assert_string_equal(b.data, wanted);
    buf_fini(&b);
}

static int load_large(json_t **out, const char *text, size_t n, const char *path, struct err *e)
{
    return json_pull_load_large(out, text, n, path, NULL, e);
}

/* Reads an integer in a tree that keeps all digits, and below the members of a tree that does not. */
static void integer_is_kept(const char *text)
{
    char deep[100], member[100];
    json_t *v;

    v = load_as(text, json_pull_load_exact);
    written_as(v, false, text);
    json_decref(v);
    snprintf(deep, sizeof(deep), "{\"a\": [%s], \"b\": {\"c\": %s}}", text, text);
    v = load_as(deep, load_large);
    written_as(v, true, deep);
    json_decref(v);
    snprintf(member, sizeof(member), "{\"a\":%s}", text);
    v = load_as(member, load_large);
    assert_true(json_is_number(json_object_get(v, "a")));
    json_decref(v);
    v = load_as(member, json_pull_load_exact);
    written_as(v, false, member);
    json_decref(v);
}

/* As in Python, where a text of a client or of a model has a key twice; files are refused. */
static void the_last_of_equal_keys_counts(void **state)
{
    const char *text = "{\"a\":1,\"b\":{\"c\":2,\"c\":[3]},\"a\":{\"d\":4}}";
    json_t *v = load_as(text, json_pull_load_exact);
    struct err e = {0};

    (void)state;
    written_as(v, false, "{\"a\":{\"d\":4},\"b\":{\"c\":[3]}}");
    json_decref(v);
    v = load_as(text, load_large);
    written_as(v, false, "{\"a\":{\"d\":4},\"b\":{\"c\":[3]}}");
    json_decref(v);
    assert_int_equal(json_pull_load(&v, text, strlen(text), "t", &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "duplicate key \"c\""));
}

static void an_integer_has_more_digits_than_are_read(void **state)
{
    char text[4400];
    struct err e = {0};
    json_t *v;
    size_t n;

    memset(text, '7', sizeof(text));
    assert_int_equal(json_pull_load_exact(&v, text, 4300, "t", &e), 0);
    assert_non_null(json_large_text(v, &n));
    assert_int_equal(n, 4300);
    json_decref(v);
    assert_int_equal(json_pull_load_exact(&v, text, 4301, "t", &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, "the integer has 4301 digits, expected at most 4300"));
}

static void a_tree_is_written_otherwise_than_python_writes_it(void **state)
{
    static const char text[] =
        "{\"a\": [1, 1.0, 100000.0, 0.1, 0.30000000000000004, 1e+16, 1e-07, -0.0, 5e-324, "
        "1.7976931348623157e+308], \"b\": {}, \"c\": [], \"d\": [true, false, null], "
        "\"\xc3\xa9\": \"\xe2\x80\xa8\\n\\t\\r\\b\\f\\\"\\\\\\u0000\\u001f\x7f/\"}";
    json_t *v = load_as(text, json_pull_load);

    written_as(v, true, text);
    json_decref(v);
    v = load_as("[1, {\"a\": 2}]", json_pull_load);
    written_as(v, false, "[1,{\"a\":2}]");
    json_decref(v);
}

/* Integers are read as jansson reads them, as reals, or as their digits. */
static void integers_beyond_64_bits_are_refused_unless_they_may_be_reals(void **state)
{
    static const struct {
        const char *text;
        double value; /* 0: an integer */
    } cases[] = {{"9223372036854775807", 0},
                 {"9223372036854775808", 0x1p63},
                 {"-9223372036854775808", 0},
                 {"-9223372036854775809", -0x1p63},
                 {"100000000000000000000000000000", 1e29}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err e = {0};
        json_t *v;

        assert_int_equal(json_pull_load(&v, cases[i].text, strlen(cases[i].text), "t", &e),
                         cases[i].value == 0 ? 0 : ERR_INPUT);
        json_decref(v);
        assert_int_equal(load_large(&v, cases[i].text, strlen(cases[i].text), "t", &e), 0);
        assert_true(cases[i].value == 0 ? json_is_integer(v)
                                        : json_is_real(v) && json_real_value(v) == cases[i].value);
        json_decref(v);
        integer_is_kept(cases[i].text);
    }
}

/* The seed of a request is the one field whose 64 bits count; a member of that name further inside is like any other.
 * */
static void one_member_keeps_its_digits(void **state)
{
    static const char text[] =
        "{\"a\":18446744073709551615,\"seed\":18446744073709551615,\"b\":18446744073709551615,"
        "\"c\":{\"seed\":18446744073709551615},\"seeds\":18446744073709551616}";
    struct err e = {0};
    uint64_t bits;
    json_t *v;

    assert_int_equal(json_pull_load_large(&v, text, strlen(text), "t", "seed", &e), 0);
    assert_true(json_is_real(json_object_get(v, "a")) && json_is_real(json_object_get(v, "b")));
    assert_true(json_is_real(json_object_get(v, "seeds")));
    assert_true(json_bits(json_object_get(v, "seed"), &bits) && bits == UINT64_MAX);
    assert_true(json_bits(json_object_get(json_object_get(v, "c"), "seed"), &bits) && bits == UINT64_MAX);
    json_decref(v);
}

static void seeds_of_64_bits_survive_a_round_trip(void **state)
{
    static const struct {
        const char *text;
        uint64_t bits;
        bool good;
    } cases[] = {{"0", 0, true},
                 {"-1", UINT64_MAX, true},
                 {"-9223372036854775808", UINT64_C(1) << 63, true},
                 {"9223372036854775807", INT64_MAX, true},
                 {"9223372036854775808", UINT64_C(1) << 63, true},
                 {"18446744073709551611", UINT64_MAX - 4, true},
                 {"18446744073709551615", UINT64_MAX, true},
                 {"18446744073709551616", 0, false},
                 {"-9223372036854775809", 0, false},
                 {"1.0", 0, false},
                 {"\"5\"", 0, false},
                 {"{}", 0, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *v = load_as(cases[i].text, json_pull_load_exact), *back;
        struct buf text = {.tag = MEM_BASE};
        uint64_t bits = 1;

        assert_int_equal(json_bits(v, &bits), cases[i].good);
        if (cases[i].good) {
            assert_true(bits == cases[i].bits);
            back = json_unsigned(bits);
            buf_json_tree(&text, back, false);
            buf_char(&text, 0);
            assert_true(strtoull(text.data, NULL, 10) == bits && text.data[0] != '-');
            json_decref(back);
            buf_fini(&text);
        }
        json_decref(v);
    }
}

static void rounded_reals_stay_reals(void **state)
{
    json_t *v = load_as("[1, 2.0, -0.1234567891234, 1e20, 1e-7, 18446744073709551615]", json_pull_load_exact);
    struct buf text = {.tag = MEM_BASE};

    json_tree_put_rounded(&text, v, 9);
    buf_char(&text, 0);
    assert_string_equal(text.data, "[1,2.0,-0.123456789,1e+20,1e-07,18446744073709551615]");
    buf_fini(&text);
    json_decref(v);
}

/* Strings of every length fill the buffers of a reader at every byte, including the closing quote. */
static void memory_that_runs_out_gives_no_tree(void **state)
{
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    for (size_t len = 0; len < 70; len++) {
        size_t live = mem_live_blocks();
        char text[300];
        bool failed = true;
        int n;

        n = snprintf(text, sizeof(text), "{\"%.*s\":[\"%.*s\\n\",{\"a\":1.5}],\"b\":[[7]]}", (int)len,
                     "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk", (int)len,
                     "ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss");
        for (long at = 1; failed; at++) {
            struct err e = {0};
            json_t *v;
            int rc;

            mem_fail_at(at);
            rc = json_pull_load(&v, text, (size_t)n, "t", &e);
            failed = mem_failed();
            mem_fail_at(0);
            assert_int_equal(rc, failed ? ERR_NOMEM : 0);
            assert_true(!v == failed);
            json_decref(v);
            assert_int_equal(mem_live_blocks(), live);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_read_key_by_key),
        cmocka_unit_test(plain_strings_are_not_copied),
        cmocka_unit_test(broken_texts_are_refused_with_file_and_place),
        cmocka_unit_test(bytes_that_are_not_utf8_are_refused_before_anything_is_read),
        cmocka_unit_test(values_of_another_type_are_refused),
        cmocka_unit_test(numbers_keep_their_value),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(nesting_is_limited_and_skipping_does_not_recurse),
        cmocka_unit_test(the_first_error_stays),
        cmocka_unit_test(lack_of_memory_is_no_bad_input),
        cmocka_unit_test(random_texts_are_read_as_jansson_reads_them),
        cmocka_unit_test(a_difference_would_be_seen),
        cmocka_unit_test(a_tree_is_jansson_s),
        cmocka_unit_test(integers_beyond_64_bits_are_refused_unless_they_may_be_reals),
        cmocka_unit_test(one_member_keeps_its_digits),
        cmocka_unit_test(seeds_of_64_bits_survive_a_round_trip),
        cmocka_unit_test(rounded_reals_stay_reals),
        cmocka_unit_test(the_last_of_equal_keys_counts),
        cmocka_unit_test(an_integer_has_more_digits_than_are_read),
        cmocka_unit_test(a_tree_is_written_otherwise_than_python_writes_it),
        cmocka_unit_test(memory_that_runs_out_gives_no_tree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
