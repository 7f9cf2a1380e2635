/* test_pattern.c - patterns in the syntax of Oniguruma: their translation, their matches, and the patterns
 * that are refused. */
#include "base/buf.h"
#include "base/mem.h"
#include "text/tok/pattern.h"
#include "text/tok/steps.h"

/* Appends all matches of PATTERN in TEXT to a buffer, each followed by '|'. */
static void find_all(const char *pattern, const char *text, size_t n, struct buf *out)
{
    struct pattern_work *work = pattern_work_new();
    struct pattern_iter it;
    struct step p = {0};
    struct pattern *re = NULL;
    struct err e = {0};
    size_t begin, end;
    int more;

    assert_non_null(work);
    if (pattern_add(&re, pattern, strlen(pattern), &e) != 0)
        fail_msg("%s", e.msg);
    p.re = re;
    pattern_start(&it, &p, work, text, n);
    while ((more = pattern_next(&it, &begin, &end, &e)) > 0) {
        buf_char(out, '|');
        buf_add(out, text + begin, end - begin);
    }
    assert_int_equal(more, 0);
    pattern_free(re);
    pattern_work_free(work);
}

static void expect(const char *pattern, const char *text, const char *want)
{
    struct buf out = {.tag = MEM_TEXT};

    find_all(pattern, text, strlen(text), &out);
    if (strcmp(out.data ? out.data : "", want) != 0)
        fail_msg("%s on \"%s\": %s, not %s", pattern, text, out.data ? out.data : "", want);
    buf_fini(&out);
}

static void rewritten_constructs_mean_what_they_mean_in_ruby(void **state)
{
    expect("\\s+",
           "a\xe1\xa0\x8e"
           "b \xe3\x80\x80 c",
           "| \xe3\x80\x80 "); /* U+180E is not a blank. */
    expect("\\S+",
           "a\xe1\xa0\x8e"
           "b c",
           "|a\xe1\xa0\x8e"
           "b|c");
    expect("\\p{Han}+", "\xe3\x80\x81\xe9\xa6\xac\xe9\xa6\xac\xe3\x80\x81",
           "|\xe9\xa6\xac\xe9\xa6\xac"); /* U+3001 does not match. */
    expect("[a-z&&[^aeiou]]+", "stream", "|str|m");
    expect("[^a-z&&[^aeiou]]+", "stream-", "|ea|-");
    expect("[a-f&&b-z&&[^d]]+", "abcdef", "|bc|ef");
    expect("[^(\\s|[.,!?])]+", "a(b c|d.e", "|a|b|c|d|e");
    expect("[[^a-z]]+", "ax1b", "|1");
    expect("[^[^a-z]]+", "ax1b", "|ax|b");
    expect("[^[^a-z]&&b]+", "b1", "|b1");
    expect("[\\S\n]+[\\W\\d]", "a_\n 1", "|a_\n ");
    expect("[\\D\\P{Lu}]+", "aB1", "|aB1");
    expect("[[ab]c]+", "xabcx", "|abc");
    expect("a{1,2}+", "aaaaa", "|aaaaa"); /* repeated and not possessive */
    expect("a{2}?", "aaa", "|aa|");       /* optional and not lazy */
    expect("a{,2}b", "aaab", "|aab");
    expect("a{2,}?", "aaaa", "|aa|aa");
    expect("[\\a-\\r]|\\e|\\f", "b\a\f\x1b", "|\a|\f|\x1b");
    expect("a{2,3}?b?", "aa}aab", "|aa|aab");
    expect("a{x", "a{x", "|a{x");
    expect("a++b?", "aab", "|aab");
    expect("(?:ab)*+c", "ababc", "|ababc");
    expect("a+*", "aaab", "|aaa|");
    expect("\\bth", "the other th", "|th|th");
    expect("\\Bth", "the other th", "|th");
    expect("\\w+", "a\xcc\x81_1 \xe2\x91\xa0", "|a\xcc\x81_1");
    expect("(?m:a.b)", "a\nb", "|a\nb"); /* With Ruby's m the dot matches a line end. */
    expect("a.b", "a\nb", "");
    expect("^b$", "a\nb\nc", "|b");
    expect("(?i:'s)", "'S 's '\xc5\xbf", "|'S|'s|'\xc5\xbf");
    expect("\\x41\\x{42}\\u0043", "ABC", "|ABC");
    expect("\\p{^L}+\\P{L}", "a123b", "|123");
    expect("\\p{Ll}+", "abC", "|ab");
    expect("[\\-\\]a^]+", "x-]a^", "|-]a^");
    expect("[]a]+", "x]a", "|]a");
    expect("[a-]+", "x-a", "|-a");
    expect("(a)(b)", "abab", "|ab|ab");
}

/* These are the matches of tokenizers 0.23. Word characters are letters, marks, digits, numbers that are
 * letters, connectors and alphabetic symbols; outside a class also the superscript digits and fractions of
 * Latin-1. */
static const char word[] = "aZ_5\303\251\314\201\340\245\247\342\205\243\342\223\220\360\237\204"
                           "\260\360\237\205\260\342\200\277\302\262\302\276\302\252\343\200\241"
                           "\342\206\202\342\261\240";
static const char other[] = "-\342\202\254\342\221\240\342\204\227\302\251\360\237\206\216\342\200"
                            "\215\342\206\211\302\240\360\237\230\200\342\201\204\340\274\203";
static const char mixed[] = "a\302\262a \342\223\220a-\302\275a a\342\202\254a";
static const struct {
    const char *pattern, *text, *found;
} words[] = {
    {"\\w", word,
     "|a|Z|_|5|\303\251|\314\201|\340\245\247|\342\205\243|\342\223\220|\360"
     "\237\204\260|\360\237\205\260|\342\200\277|\302\262|\302\276|\302\252|"
     "\343\200\241|\342\206\202|\342\261\240"},
    {"\\w", other, ""},
    {"\\w", mixed, "|a|\302\262|a|\342\223\220|a|\302\275|a|a|a"},
    {"\\W", word, ""},
    {"\\W", other,
     "|-|\342\202\254|\342\221\240|\342\204\227|\302\251|\360\237\206\216|"
     "\342\200\215|\342\206\211|\302\240|\360\237\230\200|\342\201\204|\340"
     "\274\203"},
    {"\\W", mixed, "| |-| |\342\202\254"},
    {"[\\w]", word,
     "|a|Z|_|5|\303\251|\314\201|\340\245\247|\342\205\243|\342\223\220|\360"
     "\237\204\260|\360\237\205\260|\342\200\277|\302\252|\343\200\241|\342"
     "\206\202|\342\261\240"},
    {"[\\w]", other, ""},
    {"[\\w]", mixed, "|a|a|\342\223\220|a|a|a|a"},
    {"[\\W]", word, "|\302\262|\302\276"},
    {"[\\W]", other,
     "|-|\342\202\254|\342\221\240|\342\204\227|\302\251|\360\237\206\216|"
     "\342\200\215|\342\206\211|\302\240|\360\237\230\200|\342\201\204|\340"
     "\274\203"},
    {"[\\W]", mixed, "|\302\262| |-|\302\275| |\342\202\254"},
    {"[^\\w]", word, "|\302\262|\302\276"},
    {"[^\\w]", other,
     "|-|\342\202\254|\342\221\240|\342\204\227|\302\251|\360\237\206\216|"
     "\342\200\215|\342\206\211|\302\240|\360\237\230\200|\342\201\204|\340"
     "\274\203"},
    {"[^\\w]", mixed, "|\302\262| |-|\302\275| |\342\202\254"},
    {"[^\\W]", word,
     "|a|Z|_|5|\303\251|\314\201|\340\245\247|\342\205\243|\342\223\220|\360"
     "\237\204\260|\360\237\205\260|\342\200\277|\302\252|\343\200\241|\342"
     "\206\202|\342\261\240"},
    {"[^\\W]", other, ""},
    {"[^\\W]", mixed, "|a|a|\342\223\220|a|a|a|a"},
    {"[\\w-]+", word,
     "|aZ_5\303\251\314\201\340\245\247\342\205\243\342\223\220\360\237\204"
     "\260\360\237\205\260\342\200\277|\302\252\343\200\241\342\206\202\342"
     "\261\240"},
    {"[\\w-]+", other, "|-"},
    {"[\\w-]+", mixed, "|a|a|\342\223\220a-|a|a|a"},
    {"\\w+\\b", word,
     "|aZ_5\303\251\314\201\340\245\247\342\205\243\342\223\220\360\237\204"
     "\260\360\237\205\260\342\200\277\302\262\302\276\302\252\343\200\241"
     "\342\206\202\342\261\240"},
    {"\\w+\\b", other, ""},
    {"\\w+\\b", mixed, "|a\302\262a|\342\223\220a|\302\275a|a|a"},
    {"\\b\\w", word, "|a"},
    {"\\b\\w", other, ""},
    {"\\b\\w", mixed, "|a|\342\223\220|\302\275|a|a"},
    {"\\Ba", word, ""},
    {"\\Ba", other, ""},
    {"\\Ba", mixed, "|a|a|a"},
    {"a\\B", word, "|a"},
    {"a\\B", other, ""},
    {"a\\B", mixed, "|a"},
    {"\\b\\W", word, ""},
    {"\\b\\W", other, ""},
    {"\\b\\W", mixed, "| |-| |\342\202\254"},
    {"\\B\\W", word, ""},
    {"\\B\\W", other,
     "|-|\342\202\254|\342\221\240|\342\204\227|\302\251|\360\237\206\216|"
     "\342\200\215|\342\206\211|\302\240|\360\237\230\200|\342\201\204|\340"
     "\274\203"},
    {"\\B\\W", mixed, ""},
};

static void words_are_those_of_oniguruma(void **state)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        expect(words[i].pattern, words[i].text, words[i].found);
}

static void empty_matches_do_not_follow_a_match(void **state)
{
    expect("a*", "baac", "||aa|");
    expect("",
           "\xc3\xa9"
           "b",
           "|||");
    expect("x?", "", "|");
}

static void what_is_not_understood_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *pattern, *why;
    } bad[] = {
        {"(?<name>a)", "the group at byte 2"},
        {"a(?x:b)", "the group at byte 3"},
        {"(*UTF)a", "the group at byte 0"},
        {"(?i)a", "an option without a group"},
        {"\\p{Klingon}", "the property"},
        {"\\p{Lowercase_Letter}", "the property"},
        {"\\p{}", "the property"},
        {"\\pL", "a property without braces"},
        {"[[:alpha:]]", "a POSIX bracket"},
        {"(a)\\1", "the escape at byte 3"},
        {"\\Ra", "the escape at byte 0"},
        {"\\Ka", "the escape"},
        {"(a", "closing parenthesis"},
        {"a)", "opening one"},
        {"[a", "closing bracket"},
        {"[]", "closing bracket"},
        {"[a&&]", "closing bracket"},
        {"[z-a]", "the range"},
        {"[a-\\s]", "the range"},
        {"a{2000}", "the interval"},
        {"a{3,1}", "the interval"},
        {"*a", "a quantifier without an operand"},
        {"a\\", "a backslash"},
        {"\\x{110000}", "the character code"},
        {"\\xff", "the character code"},
        {"\\ud800", "the character code"},
        {"(?>", "closing parenthesis"},
        {"[\\b]", "the escape"},
        {"\\h", "the escape at byte 0"},
        {"[x[^a-z]]", "a negated class beside other members at byte 2"},
        {"[[^a-z]x]", "a negated class beside other members at byte 7"},
        {"[a[b&&c]]", "an intersection inside a class at byte 4"},
        {"[[^a", "closing bracket"},
        {"[a&&[^b]", "closing bracket"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct pattern *re = NULL;
        struct err e = {0};
        int rc = pattern_add(&re, bad[i].pattern, strlen(bad[i].pattern), &e);

        if (rc != ERR_UNSUPPORTED || !strstr(e.msg, bad[i].why) || re)
            fail_msg("%s: code %d, \"%s\" lacks \"%s\"", bad[i].pattern, rc, e.msg, bad[i].why);
    }
}

static void deep_nesting_is_refused(void **state)
{
    char deep[1000];
    struct pattern *re = NULL;
    struct err e = {0};

    memset(deep, '(', sizeof(deep));
    assert_int_equal(pattern_add(&re, deep, sizeof(deep), &e), ERR_UNSUPPORTED);
    memset(deep, '[', sizeof(deep));
    assert_int_equal(pattern_add(&re, deep, sizeof(deep), &e), ERR_UNSUPPORTED);
}

static void endless_backtracking_becomes_an_error(void **state)
{
    static const char pattern[] = "(?:a+)+b|c";
    struct pattern_work *work = pattern_work_new();
    struct pattern_iter it;
    struct step p = {0};
    struct pattern *re = NULL;
    struct err e = {0};
    size_t begin, end;
    char text[200];

    memset(text, 'a', sizeof(text));
    if (pattern_add(&re, pattern, strlen(pattern), &e) != 0)
        fail_msg("%s", e.msg);
    p.re = re;
    pattern_start(&it, &p, work, text, sizeof(text));
    assert_int_equal(pattern_next(&it, &begin, &end, &e), -ERR_INPUT);
    assert_non_null(strstr(e.msg, pattern));
    pattern_free(re);
    pattern_work_free(work);
    assert_int_equal(mem_live_blocks(), 0);
}

static void a_long_run_of_one_character_fits_the_stack(void **state)
{
    static char text[1 << 20];
    struct buf out = {.tag = MEM_TEXT};

    memset(text, 'A', sizeof(text));
    find_all("[^\\r\\n\\p{L}]?[\\p{Lu}\\p{Lo}]*[\\p{Ll}\\p{Lo}]+|(?:[A-Z])+", text, sizeof(text), &out);
    assert_int_equal(out.len, sizeof(text) + 1);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewritten_constructs_mean_what_they_mean_in_ruby),
        cmocka_unit_test(words_are_those_of_oniguruma),
        cmocka_unit_test(empty_matches_do_not_follow_a_match),
        cmocka_unit_test(what_is_not_understood_is_refused_with_its_place),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(endless_backtracking_becomes_an_error),
        cmocka_unit_test(a_long_run_of_one_character_fits_the_stack),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
