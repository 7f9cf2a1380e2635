/* test_grammar_pattern.c - regular expressions of requests and schemas: random ones against PCRE2, every
 * construct by hand, limits, and what is refused.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "shorttexts.h"
#include "text/grammar/automata/pattern.h"

enum { MEMORY = 64 << 20, STEPS = 1 << 22 };

/* ---- random expressions ---- */

struct writer {
    char text[4096];
    size_t n;
};

static void put(struct writer *w, const char *text)
{
    size_t n = strlen(text);

    assert_true(w->n + n < sizeof(w->text));
    memcpy(w->text + w->n, text, n + 1);
    w->n += n;
}

static void write_choice(struct writer *w, int depth);

static void write_atom(struct writer *w, int depth)
{
    static const char *const one[] = {"a",   "b",   "-",   ".",       "[ab]",  "[^a]",  "\\w",
                                      "\\W", "\\d", "\\D", "[^\\W-]", "[a-b]", "\\x61", "(?:)"},
                             *const group[] = {"(", "(?:", "(?<n>", "(?=", "(?!"};
    static unsigned names;
    uint32_t kind = short_dice(depth > 0 ? 3 : 1);

    if (kind == 0) {
        put(w, one[short_dice(sizeof(one) / sizeof(*one))]);
        return;
    }
    kind = short_dice(5);
    put(w, group[kind]);
    if (kind == 2) { /* names must differ */
        w->n -= 2;
        snprintf(w->text + w->n, sizeof(w->text) - w->n, "n%u>", ++names);
        w->n += strlen(w->text + w->n);
    }
    write_choice(w, depth - 1);
    put(w, ")");
}

static void write_sequence(struct writer *w, int depth)
{
    static const char *const quantifier[] = {"*",    "+",   "?",     "{2}", "{1,2}", "{0,3}",
                                             "{2,}", "{3}", "{3,4}", "*?",  "+?",    "{0}"},
                             *const assertion[] = {"^", "$", "\\b", "\\B"};

    for (uint32_t n = short_dice(4); n > 0; n--) {
        size_t at = w->n;

        if (short_dice(6) == 0) {
            put(w, assertion[short_dice(4)]);
            continue;
        }
        write_atom(w, depth);
        if (short_dice(3) == 0 && strncmp(w->text + at, "(?=", 3) != 0 &&
            strncmp(w->text + at, "(?!", 3) != 0)
            put(w, quantifier[short_dice(sizeof(quantifier) / sizeof(*quantifier))]);
    }
}

static void write_choice(struct writer *w, int depth)
{
    write_sequence(w, depth);
    while (short_dice(3) == 0) {
        put(w, "|");
        write_sequence(w, depth);
    }
}

/* The texts that PCRE2 accepts, with B in place of the letter b. */
static uint64_t texts_of_pcre2(const char *pattern, bool is_search, char b)
{
    int code;
    PCRE2_SIZE at;
    uint64_t out = 0;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);

    if (!re)
        fail_msg("PCRE2 refuses %s: %d at %zu", pattern, code, at);
    for (unsigned i = 0; i < SHORT_TEXTS; i++) {
        char text[SHORT_LONGEST];
        size_t n = short_text(i, text);

        for (size_t k = 0; k < n; k++)
            text[k] = text[k] == 'b' ? b : text[k];
        if (pcre2_match(re, (PCRE2_SPTR)text, n, 0, is_search ? 0 : PCRE2_ANCHORED | PCRE2_ENDANCHORED, match,
                        NULL) >= 0)
            out |= UINT64_C(1) << i;
    }
    pcre2_match_data_free(match);
    pcre2_code_free(re);
    return out;
}

static void random_expressions_accept_what_pcre2_accepts(void **state)
{
    int n_read = 0;

    for (int round = 0; round < 2500; round++) {
        struct writer w = {.n = 0};
        struct regex_store s;
        struct err e = {0};
        uint32_t r;
        char b = short_dice(2) ? 'b' : '-';
        bool is_search = short_dice(2);
        uint64_t found = 0;
        int code;

        write_choice(&w, (int)short_dice(4));
        w.text[w.n] = '\0';
        assert_int_equal(regex_open(&s, MEMORY, STEPS), 0);
        code = pattern_read(&s, w.text, w.n, regex_characters, is_search ? PATTERN_SEARCH : PATTERN_WHOLE, &r,
                            &e);
        if (code != 0 && !strstr(e.msg, "word boundary"))
            fail_msg("%s: %s", w.text, e.msg);
        for (unsigned i = 0; i < SHORT_TEXTS; i++) {
            char text[SHORT_LONGEST];
            size_t n = short_text(i, text);

            for (size_t k = 0; k < n; k++)
                text[k] = text[k] == 'b' ? b : text[k];
            found |= (uint64_t)regex_matches(&s, r, text, n) << i;
        }
        if (code == 0 && found != texts_of_pcre2(w.text, is_search, b))
            fail_msg("%s (%s, %c): %" PRIx64 ", PCRE2 %" PRIx64, w.text, is_search ? "search" : "whole", b,
                     found, texts_of_pcre2(w.text, is_search, b));
        n_read += code == 0;
        regex_close(&s);
    }
    assert_in_range(n_read, 1800, 2500);
}

/* ---- constructs by hand ---- */

static const struct {
    char how; /* s: PATTERN_SEARCH, w: PATTERN_WHOLE */
    const char *pattern, *yes[4], *no[4];
} constructs[] = {
    {'s', "", {"", "x", "\n"}, {NULL}},
    {'s', "b", {"b", "abc", "\nb"}, {"", "a", "B"}},
    {'s', "^a", {"a", "ab"}, {"ba", "\na"}},
    {'s', "a$", {"a", "ba"}, {"ab", "a\n"}},
    {'s', "^a|b$", {"ax", "xb", "a"}, {"xa", "bx"}},
    {'s', "(^|,)x(,|$)", {"x", "a,x", "x,b", "a,x,b"}, {"xx", "ax", "xb"}},
    {'s', "^(\\d+(,|$))+$", {"1", "1,2", "1,2,33,"}, {",", "1,,2", "a"}},
    {'w', "(^a|b){2}", {"ab", "bb"}, {"abb", "a", "ba"}},
    {'w', "(a|b$){2,3}", {"aab", "ab"}, {"aaab", "b"}},
    {'s', "(^|a){3}b", {"b", "ab", "aab", "xaaab"}, {"xb", "xab", "xaab"}},
    {'s', "a(b|$){3}", {"a", "xabb", "abbbc"}, {"abc", "abbc"}},
    {'s', "^$", {""}, {" "}},
    {'s', "a^", {NULL}, {"", "a", "a^"}},
    {'s', "\\^\\$", {"^$", "a^$b"}, {"", "^"}},
    {'s', "^.$", {"a", "\xc3\xa9", "\xf0\x9f\x98\x80"}, {"\n", "\r", "\xe2\x80\xa8", "ab"}},
    {'s', "^[^]$", {"a", "\n"}, {"", "ab"}},
    {'s', "[]", {NULL}, {"", "a", "]"}},
    {'s', "^[a-c-]$", {"a", "b", "-"}, {"d", ","}},
    {'s', "^[\\w-]$", {"a", "_", "-"}, {"\xc3\xa9", "+"}},
    {'s', "^[^\\s]$", {"a"}, {" ", "\xc2\xa0", "\xef\xbb\xbf", "\t"}},
    {'s', "^\\s$", {"\xe2\x80\xa9", "\x0b", "\xe3\x80\x80"}, {"\x1c", "\xe2\x80\x8b", "a"}},
    {'s', "^\\d$", {"0", "9"}, {"\xd9\xa0", "a"}},
    {'s', "^\\D$", {"\xd9\xa0", "a"}, {"0"}},
    {'s', "^[\\b]$", {"\b"}, {"b"}},
    {'s', "^\\x41\\u00e9\\u{1F600}\\uD83D\\uDE00$", {"A\xc3\xa9\xf0\x9f\x98\x80\xf0\x9f\x98\x80"}, {"A"}},
    {'s', "^[\\u{1F600}-\\u{1F64F}]$", {"\xf0\x9f\x98\x81"}, {"\xf0\x9f\x9a\x80"}},
    {'s', "^\\cA\\0\\t\\n\\v\\f\\r$", {NULL}, {"cA"}},
    {'s', "^\\-\\_\\/\\.\\@\\ $", {"-_/.@ "}, {"a"}},
    {'s',
     "^\\p{Lu}\\P{Lu}\\p{gc=Nd}$",
     {"Ab1", "\xc3\x89"
             "a\xd9\xa0"},
     {"ab1", "AB1"}},
    {'s',
     "^\\p{Letter}cole$",
     {"\xc3\x89"
      "cole"},
     {"1cole"}},
    {'s', "^[\\p{L}\\p{M}']+$", {"d'\xc3\xa9"}, {"1", ""}},
    {'s', "^(?<year>\\d{4})-(?:\\d\\d)$", {"2024-12"}, {"2024-1"}},
    {'s', "x{2", {"x{2"}, {"xx"}},
    {'s', "^x{,2}$", {"x{,2}"}, {"x", ""}},
    {'s', "^a{2,3}?$", {"aa", "aaa"}, {"a", "aaaa"}},
    {'s', "^(?=.*\\d)(?=.*[a-z])[a-z\\d]{3,}$", {"ab1", "1bc"}, {"abc", "111", "a1", "a1!"}},
    {'s', "^(?!.*foo).*$", {"", "fo", "bar"}, {"foo", "a foo b"}},
    /* look-ahead that looks back; the first one is that of pydantic's Decimal */
    {'s', "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", {"0", "-12.50", "+.5", "00."}, {"", "-", "+.", "1e5"}},
    {'s', "a(?!^b)b", {"ab", "xab"}, {"b", "a"}},
    {'s', "(?!^a)a", {"ba", "aa"}, {"a", "ab", "b"}},
    {'w', "(?!\\bcat\\b)\\w+", {"cats", "concat", "ca"}, {"cat", ""}},
    {'s', "^\\W?(?!\\bcat)\\w+$", {"dog", "-dog", "scat"}, {"cat", "-cat", "cats"}},
    {'s', "x(?!\\Ba)", {"x", "x-a", "xb"}, {"xa", "a"}},
    {'s', "(?!(?!^)b)..", {"ba", "ab", "-a"}, {"a", "b"}},
    {'s', "\\bcat\\b", {"cat", "a cat.", "cat-like"}, {"cats", "concat"}},
    {'s',
     "(?i)stra\xc3\x9f"
     "e",
     {"STRA\xc3\x9f"
      "E",
      "stra\xc3\x9f"
      "e"},
     {"strase"}},
    {'s', "(?i:k)K", {"kK", "KK", "\xe2\x84\xaaK"}, {"kk"}},
    {'s', "^(?i)[^\xcf\x83]$", {"s"}, {"\xcf\x83", "\xce\xa3", "\xcf\x82"}},
    {'s', "^([a-z]|[0-9])+$", {"a1"}, {"", "A"}},
    {'w', "ab", {"ab"}, {"abc", "xab", ""}},
    {'w', "a|bc", {"a", "bc"}, {"ac", "abc"}},
    {'w', "^a$", {"a"}, {"a\n", ""}},
    {'w', "\\Aa\\Z", {"a"}, {"aa"}},
    {'w', "[]a]+", {"]a"}, {""}},
    {'w', "[^]]", {"a"}, {"]"}},
    {'w', "x{,2}", {"", "xx"}, {"xxx"}},
    {'w', "x{,}", {"", "xxx"}, {"{"}},
    {'w', "(?P<n>a)(?#b)c", {"ac"}, {"abc"}},
    {'w', "\\141\\07\\a\\U0001F600", {"a\a\a\xf0\x9f\x98\x80"}, {"a"}},
    {'w', "\\w", {"a"}, {"\xc3\xa9", "+"}},
    {'w', "\\W", {"+"}, {"a", "\xc3\xa9"}},
    {'w', "[^\\w]", {"+"}, {"a", "\xc3\xa9"}},
    {'w', "[^\\W]", {"a"}, {"+", "\xc3\xa9"}},
    {'w', "\\D\\S", {"a."}, {"1.", "\xd9\xa0.", "a\xc2\xa0"}},
    {'w', "(?s).(?-s:.)", {"\na"}, {"\n\n"}},
    {'w', "(\\+|-)?[1-9]\\d*|0", {"0", "-12", "+5"}, {"00", "-0"}},
};

static bool accepts(char how, const char *pattern, const char *text)
{
    struct regex_store s;
    struct err e = {0};
    uint32_t r;
    bool yes;

    assert_int_equal(regex_open(&s, MEMORY, STEPS), 0);
    if (pattern_read(&s, pattern, strlen(pattern), regex_characters,
                     how == 's' ? PATTERN_SEARCH : PATTERN_WHOLE, &r, &e) != 0)
        fail_msg("%s: %s", pattern, e.msg);
    yes = regex_matches(&s, r, text, strlen(text));
    assert_int_equal(s.fault, REGEX_FINE);
    regex_close(&s);
    return yes;
}

static void every_construct_means_what_its_dialect_says(void **state)
{
    for (size_t i = 0; i < sizeof(constructs) / sizeof(*constructs); i++)
        for (size_t k = 0; k < 4; k++) {
            if (constructs[i].yes[k] &&
                !accepts(constructs[i].how, constructs[i].pattern, constructs[i].yes[k]))
                fail_msg("%s refuses \"%s\"", constructs[i].pattern, constructs[i].yes[k]);
            if (constructs[i].no[k] && accepts(constructs[i].how, constructs[i].pattern, constructs[i].no[k]))
                fail_msg("%s accepts \"%s\"", constructs[i].pattern, constructs[i].no[k]);
        }
}

/* Long ranges of one category are not looked at one by one: they must be what utf8proc says. */
static void categories_are_those_of_every_character(void **state)
{
    for (unsigned k = 0; k < 30; k++) {
        struct pattern_set set = {0};

        pattern_set_add_categories(&set, 1u << k);
        pattern_set_sort(&set);
        for (uint32_t c = 0; c <= PATTERN_LAST_CHARACTER; c += c < 0x40000 || c > 0xdffff ? 1 : 0x101)
            if (pattern_set_has(&set, c) != (utf8proc_category((utf8proc_int32_t)c) == k))
                fail_msg("U+%04X, category %u", c, k);
        pattern_set_fini(&set);
    }
}

static const struct {
    char how;
    const char *pattern;
    int code;
    const char *says;
} refused[] = {
    {'s', "a(b", ERR_INPUT, "offset 1 of the regular expression: a group without )"},
    {'s', "ab)", ERR_INPUT, "offset 2 of the regular expression: a ) without a group"},
    {'s', "[a", ERR_INPUT, "offset 2 of the regular expression: a character class without ]"},
    {'s', "[z-a]", ERR_INPUT,
     "offset 1 of the regular expression: a range whose first character is above its last"},
    {'s', "*a", ERR_INPUT, "offset 0 of the regular expression: a quantifier with nothing to repeat"},
    {'s', "a**", ERR_INPUT, "offset 2 of the regular expression: a quantifier behind a quantifier"},
    {'s', "^*", ERR_INPUT, "offset 1 of the regular expression: a quantifier behind an assertion"},
    {'s', "a{3,2}", ERR_INPUT, "offset 1 of the regular expression: a quantifier whose first count is above"},
    {'s', "a{1000001}", ERR_NOSPACE,
     "offset 1 of the regular expression: a count above the limit of 1000000"},
    {'s', "\\", ERR_INPUT, "offset 0 of the regular expression: a backslash at the end"},
    {'s', "\\xg1", ERR_INPUT, "offset 0 of the regular expression: expected 2 hexadecimal digits"},
    {'s', "\\u{110000}", ERR_INPUT, "offset 0 of the regular expression: expected \\u{...}"},
    {'s', "\\a", ERR_INPUT, "offset 0 of the regular expression: the escape \\a is unknown"},
    {'s', "x\\Z", ERR_INPUT,
     "offset 1 of the regular expression: the escape \\Z is unknown; expected ^ or $"},
    {'s', "(a)\\1", ERR_UNSUPPORTED, "offset 3 of the regular expression: a back reference is not supported"},
    {'w', "(?P<x>a)(?P=x)", ERR_UNSUPPORTED, "offset 8 of the regular expression: a back reference"},
    {'s', "(?<=a)b", ERR_UNSUPPORTED, "offset 0 of the regular expression: look-behind is not supported"},
    {'w', "(?>a)b", ERR_UNSUPPORTED, "offset 0 of the regular expression: an atomic group is not supported"},
    {'w', "a++", ERR_UNSUPPORTED,
     "offset 1 of the regular expression: a possessive quantifier is not supported"},
    {'w', "(?m)a", ERR_UNSUPPORTED, "offset 0 of the regular expression: a group that begins with \"(?m\""},
    {'s', "\\p{Script=Greek}", ERR_UNSUPPORTED,
     "offset 0 of the regular expression: the property \"Script=Greek\""},
    {'s', "\\p", ERR_INPUT, "offset 0 of the regular expression: a property without a name"},
    {'s', "(\\ba)*", ERR_UNSUPPORTED,
     "offset 0 of the regular expression: a word boundary or look-ahead inside"},
    {'s', "a\xff", ERR_INPUT, "offset 1 of the regular expression: a byte that is not UTF-8"},
};

static void what_cannot_be_served_is_refused_by_name_and_place(void **state)
{
    char deep[1000];

    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        struct regex_store s;
        struct err e = {0};
        uint32_t r = 7;

        assert_int_equal(regex_open(&s, MEMORY, STEPS), 0);
        assert_int_equal(pattern_read(&s, refused[i].pattern, strlen(refused[i].pattern), regex_characters,
                                      refused[i].how == 's' ? PATTERN_SEARCH : PATTERN_WHOLE, &r, &e),
                         refused[i].code);
        assert_int_equal(r, REGEX_NOTHING);
        if (strncmp(e.msg, refused[i].says, strlen(refused[i].says)) != 0)
            fail_msg("%s: \"%s\"", refused[i].pattern, e.msg);
        regex_close(&s);
    }
    for (size_t depth = PATTERN_MOST_DEPTH; depth <= PATTERN_MOST_DEPTH + 1; depth++) {
        struct regex_store s;
        uint32_t r;

        memset(deep, '(', depth);
        memset(deep + depth, ')', depth);
        assert_int_equal(regex_open(&s, MEMORY, STEPS), 0);
        assert_int_equal(pattern_read(&s, deep, 2 * depth, regex_characters, PATTERN_WHOLE, &r, NULL),
                         depth > PATTERN_MOST_DEPTH ? ERR_NOSPACE : 0);
        regex_close(&s);
    }
}

/* What cannot change the answer is cut off, so that a state does not count every place where a match began. */
static void a_search_keeps_few_states_whatever_its_counts_are(void **state)
{
    static const char *const pattern[] = {".{1,1000}", "[a-z]*", "x(a?){1000}", "(b|a{0,1000})", "a+$|^b+"};

    for (size_t i = 0; i < sizeof(pattern) / sizeof(*pattern); i++) {
        struct regex_store s;
        uint32_t r;
        size_t n;

        assert_int_equal(regex_open(&s, MEMORY, STEPS), 0);
        assert_int_equal(
            pattern_read(&s, pattern[i], strlen(pattern[i]), regex_characters, PATTERN_SEARCH, &r, NULL), 0);
        n = s.n;
        for (int k = 0; k < 500; k++)
            r = regex_next(&s, r, "xa"[k > 0]);
        assert_in_range(s.n - n, 0, 20);
        assert_true(regex_matches_empty(&s, r));
        regex_close(&s);
    }
}

/* Whether a text still completes an intersection is found by a search. What one search found must serve the next
 * ones: this needed 3.3 times as many steps for eight letters before it did. */
static void states_of_an_intersection_are_searched_once(void **state)
{
    static const char pattern[] = "^(?=.*[A-Z])(?=.*[a-z])(?=.*\\d)(?=.*[@$!%*?&])[A-Za-z\\d@$!%*?&]{8,64}$";
    struct regex_store s;
    uint32_t r;

    assert_int_equal(regex_open(&s, MEMORY, STEPS), 0);
    assert_int_equal(pattern_read(&s, pattern, strlen(pattern), regex_characters, PATTERN_SEARCH, &r, NULL),
                     0);
    assert_true(regex_matches(&s, r, "abcDEF1!", 8));
    assert_false(regex_matches(&s, r, "abcDEF12", 8));
    assert_in_range(s.steps, 0, 120000);
    regex_close(&s);
}

static void many_large_classes_are_refused(void **state)
{
    static char text[1 << 20];
    struct regex_store s;
    struct err e = {0};
    uint32_t r;

    for (size_t i = 0; i + 5 <= sizeof(text); i += 5)
        memcpy(text + i, "\\p{L}", 5);
    assert_int_equal(regex_open(&s, MEMORY, STEPS), 0);
    assert_int_equal(pattern_read(&s, text, sizeof(text) / 5 * 5, regex_characters, PATTERN_SEARCH, &r, &e),
                     ERR_NOSPACE);
    assert_non_null(strstr(e.msg, "all character classes together have more than 300000 ranges"));
    regex_close(&s);
}

static void counters_and_long_alternations_are_cheap(void **state)
{
    static char text[900000];
    size_t n = 0;
    struct regex_store s;
    uint32_t r;

    assert_int_equal(regex_open(&s, MEMORY, STEPS), 0);
    assert_int_equal(
        pattern_read(&s, "((a{1000}){1000}){1000}", 23, regex_characters, PATTERN_WHOLE, &r, NULL), 0);
    assert_in_range(s.bytes, 0, 1 << 20);
    for (int i = 0; i < 100000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%06d", i ? "|" : "", i);
    assert_int_equal(pattern_read(&s, text, n, regex_characters, PATTERN_WHOLE, &r, NULL), 0);
    assert_true(regex_matches(&s, r, "012345", 6));
    assert_false(regex_matches(&s, r, "100000", 6));
    assert_int_equal(s.fault, REGEX_FINE);
    regex_close(&s);
}

static void limits_and_failed_allocations_are_reported(void **state)
{
    static const char pattern[] = "(?i)^(a|\\p{L}|$)*[^\\s\xc3\xa9]{2,5}(?=x|y)\\b.*(b|cd)+";
    struct regex_store s;
    struct err e = {0};
    uint32_t r;

    assert_int_equal(regex_open(&s, 20000, STEPS), 0);
    assert_int_equal(pattern_read(&s, pattern, strlen(pattern), regex_characters, PATTERN_SEARCH, &r, &e),
                     ERR_NOSPACE);
    assert_string_equal(e.msg, "the regular expression is too complex: the limit of memory is reached");
    regex_close(&s);
    for (long at = 1;; at++) {
        int code;

        assert_int_equal(regex_open(&s, MEMORY, STEPS), 0);
        mem_fail_at(at);
        code = pattern_read(&s, pattern, strlen(pattern), regex_characters, PATTERN_SEARCH, &r, &e);
        if (!mem_failed()) {
            mem_fail_at(0);
            assert_int_equal(code, 0);
            regex_close(&s);
            assert_in_range(at, 20, 2000);
            break;
        }
        mem_fail_at(0);
        assert_int_equal(code, ERR_NOMEM);
        assert_int_equal(r, REGEX_NOTHING);
        regex_close(&s);
    }
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_expressions_accept_what_pcre2_accepts),
        cmocka_unit_test(every_construct_means_what_its_dialect_says),
        cmocka_unit_test(categories_are_those_of_every_character),
        cmocka_unit_test(what_cannot_be_served_is_refused_by_name_and_place),
        cmocka_unit_test(a_search_keeps_few_states_whatever_its_counts_are),
        cmocka_unit_test(states_of_an_intersection_are_searched_once),
        cmocka_unit_test(many_large_classes_are_refused),
        cmocka_unit_test(counters_and_long_alternations_are_cheap),
        cmocka_unit_test(limits_and_failed_allocations_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
