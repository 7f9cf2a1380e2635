/* test_gbnf.c - grammars of the kinds that people use, what their syntax means, and what is refused. */
#include "base/mem.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/gbnf.h"

enum { MEMORY = 64 << 20, STEPS = 1 << 24 };

/* 1: TEXT is a text of the grammar, 0: it is not. */
static int accepts(const char *source, const char *text)
{
    struct grammar g;
    struct recognizer r;
    struct err e = {0};
    uint32_t start;
    bool yes;

    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    if (gbnf_read(&g, source, strlen(source), &start, &e) != 0 || grammar_finish(&g, start, &e) != 0 ||
        recognizer_open(&r, &g, &e) != 0)
        fail_msg("%s: %s", source, e.msg);
    yes = recognizer_matches(&r, text, strlen(text));
    assert_int_equal(g.regex.fault, REGEX_FINE);
    recognizer_close(&r);
    grammar_close(&g);
    return yes;
}

static const char
    sums[] = "root ::= (sum \"=\" blank product \"\\n\")+\n"
             "sum ::= product ([-+*/] product)*\n"
             "product ::= name | digits | \"(\" blank sum \")\" blank\n"
             "name ::= [a-z] [a-z0-9_]* blank\n"
             "digits ::= [0-9]+ blank\n"
             "blank ::= [ \\t\\n]*\n",
    program[] = "root ::= function*\n"
                "function ::= kind word \"(\" argument? \")\" \"{\" line* \"}\"\n"
                "kind ::= \"int\" gap | \"char\" gap\n"
                "word ::= [a-zA-Z_] [a-zA-Z_0-9]*\n"
                "argument ::= kind word\n"
                "line ::=\n"
                "    ( kind word gap \"=\" gap value \";\" ) |\n"
                "    ( \"while\" \"(\" value \")\" \"{\" line* \"}\" ) |\n"
                "    ( note )\n"
                "value ::= factor((\"*\" | \"/\") factor)*\n"
                "factor ::= word | [0-9]+ | \"-\" factor | \"(\" gap value gap \")\"\n"
                "note ::= \"/*\" ( [^*] | (\"*\" [^/]) )* \"*/\"\n"
                "gap ::= ([ \\t\\n]+)\n",
    moves[] = "# first move, then more\n"
              "root ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\n"
              "move ::= (pawn | piece | castle) [+#]?\n"
              "# a piece\n"
              "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
              "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
              "castle ::= \"O-O\" \"-O\"?",
    english[] = "root ::= letter+ ([ \\t\\n] letter+)*\nletter ::= [a-z] | sign # a comment\n"
                "sign ::= [!\"#$%&'()*+,-./:;<=>?@[\\\\\\]^_`{|}~]\n",
    kana[] = "root ::= [\xe3\x81\x81-\xe3\x82\x9f]+ | han\nhan ::= [\\u4e00-\\u9fff] | \"\\U0001F600\"",
    json[] = "root ::= object\n"
             "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
             "object ::=\n  \"{\" ws (\n    string \":\" ws value\n    (\",\" ws string \":\" ws value)*\n"
             "  )? \"}\" ws\n"
             "array ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"
             "string ::=\n  \"\\\"\" (\n    [^\"\\\\\\x7F\\x00-\\x1F] |\n"
             "    \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}) # escapes\n  )* \"\\\"\" ws\n"
             "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ws\n"
             "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
    list[] = "root ::= item+\nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\u0085\\u2028\\u2029]+ \"\\n\"\n";

static const struct {
    const char *source, *yes[4], *no[4];
} grammars[] = {
    {sums, {"a=1\n", "(a+2)*b = c\nx=y\n", "a*(b-(c))=7\n"}, {"", "a=\n", "a=1", "(a=1\n"}},
    {program, {"", "int f(){}", "int f(char x){char y = -( a*2 );while(b){/* * / */}}"}, {"int f(", "f(){}"}},
    {moves,
     {"1. e4 e5\n2. Nf3 Nc6\n", "1. e4 exd5\n10. O-O-O+ a8=Q#\n"},
     {"1. e4 e5\n", "2. e4 e5\n", "1. e9 e5\n1. e4 e5\n"}},
    {english, {"hello, you!", "a\\b ]["}, {"", " a", "A"}},
    {kana,
     {"\xe3\x81\x82\xe3\x81\x84", "\xe4\xb8\x80", "\xf0\x9f\x98\x80"},
     {"", "a", "\xe4\xb8\x80\xe4\xb8\x80"}},
    {json,
     {"{}", "{\"a\": [1, -2.5, {\"b\": \"\\u00e9\xc3\xa9\"}]}\n  ", "{\"a\":\n\tnull}"},
     {"[]", "{\"a\":01}", "{\"a\":\"\x01\"}", "{\"a\":1"}},
    {list, {"- a\n- b c\n"}, {"- \n", "a\n", "- a"}},
    /* what the syntax means */
    {"root ::= \"a\"\n  | \"b\" |\n \"c\"\n", {"a", "b", "c"}, {"ab", ""}},
    {"a ::= \"x\" root ::= a a", {"xx"}, {"x"}},
    {"root ::= root \"a\" | \"a\"", {"a", "aaaa"}, {"", "ab"}},
    {"root ::= root root | \"a\"", {"a", "aaaaa"}, {""}},
    {"root ::= \"(\" root \")\" | ", {"", "(())"}, {"(", "())"}},
    {"root ::= a b\na ::= \"x\" a | \nb ::= b \"y\" | \"\"", {"", "xxyy"}, {"yx"}},
    {"root ::= () \"a\" ( )", {"a"}, {""}},
    {"root ::= \"\\x41\\n\\t\\\"\\\\\\u00e9\\/\\'\" [\\]\\-\\[] [a\\-z]", {"A\n\t\"\\\xc3\xa9/']-"}, {"A"}},
    {"root ::= [^] . [^a-z]", {"\na\n"}, {"aaa"}},
    {"root ::= \"ab\"{2} [x]{1,} \"y\"{0,2}", {"ababx", "ababxxyy"}, {"abx", "ababxyyy"}},
    {"root ::= (\"a\"+)+ \"b\"* *", {"aa", "aabb"}, {"b"}},
    {"root ::= item-1.b item_2\nitem-1.b ::= \"1\"\nitem_2 ::= \"2\"", {"12"}, {"1"}},
    {"root ::= Regex(\"[0-9]{2}\\.\\w\") \"!\"", {"12.a!"}, {"12xa!", "1.a!"}},
    {"root ::= \"a\"", {"a"}, {"aa"}},
};

static void grammars_accept_their_texts_and_no_others(void **state)
{
    for (size_t i = 0; i < sizeof(grammars) / sizeof(*grammars); i++)
        for (size_t k = 0; k < 4; k++) {
            if (grammars[i].yes[k] && !accepts(grammars[i].source, grammars[i].yes[k]))
                fail_msg("%s refuses \"%s\"", grammars[i].source, grammars[i].yes[k]);
            if (grammars[i].no[k] && accepts(grammars[i].source, grammars[i].no[k]))
                fail_msg("%s accepts \"%s\"", grammars[i].source, grammars[i].no[k]);
        }
}

static const struct {
    const char *source;
    int code;
    const char *says;
} refused[] = {
    {"", ERR_INPUT, "the grammar has no rule \"root\""},
    {"start: \"a\"", ERR_INPUT, "line 1, column 1 of the grammar: expected a rule: a name and ::="},
    {"root ::= \"a\"\n  \xc3\xa9 b", ERR_INPUT, "line 2, column 3 of the grammar: expected a rule"},
    {"root ::= \"\xc3\xa9\" b", ERR_INPUT, "line 1, column 14 of the grammar: the rule \"b\" is not defined"},
    {"root ::= \"a\"\nroot ::= \"b\"", ERR_INPUT,
     "line 2, column 1 of the grammar: the rule \"root\" is defined twice"},
    {"root ::= \"a", ERR_INPUT, "line 1, column 10 of the grammar: a literal without its closing quote"},
    {"root ::= [a", ERR_INPUT, "line 1, column 10 of the grammar: a class without ]"},
    {"root ::= []", ERR_INPUT, "line 1, column 10 of the grammar: an empty class"},
    {"root ::= [b-a]", ERR_INPUT, "line 1, column 11 of the grammar: a range whose first"},
    {"root ::= (\"a\"", ERR_INPUT, "line 1, column 10 of the grammar: a group without )"},
    {"root ::= \"a\")", ERR_INPUT, "line 1, column 13 of the grammar: expected a rule"},
    {"root ::= \"\\q\"", ERR_INPUT, "line 1, column 11 of the grammar: an unknown escape"},
    {"root ::= [\\d]", ERR_INPUT, "line 1, column 11 of the grammar: an unknown escape"},
    {"root ::= \"\\x1F600\"", ERR_UNSUPPORTED,
     "line 1, column 11 of the grammar: \\x with more than 2 digits"},
    {"root ::= \"\\ud800\"", ERR_INPUT, "line 1, column 11 of the grammar: the escape is not a character"},
    {"root ::= \"a\"{,2}", ERR_INPUT, "line 1, column 13 of the grammar: expected {m}, {m,} or {m,n}"},
    {"root ::= \"a\"{3,2}", ERR_INPUT, "line 1, column 13 of the grammar: a count whose first"},
    {"root ::= \"a\"{1000001}", ERR_NOSPACE, "line 1, column 13 of the grammar: a count above the limit"},
    {"root ::= <think>", ERR_UNSUPPORTED, "line 1, column 10 of the grammar: tokens, <token> or <[7]>"},
    {"root ::= (=\"a\")", ERR_UNSUPPORTED, "line 1, column 10 of the grammar: look-ahead"},
    {"root ::= a\na[lazy] ::= \"b\"", ERR_UNSUPPORTED, "line 2, column 2 of the grammar: options of a rule"},
    {"root ::= TagDispatch((\"a\", b))", ERR_UNSUPPORTED,
     "line 1, column 10 of the grammar: the macro \"TagDispatch\""},
    {"root ::= Regex(\"(a\")", ERR_INPUT,
     "line 1, column 10 of the grammar: offset 0 of the regular expression: a group without )"},
    {"root ::= \"\xff\"", ERR_INPUT, "line 1, column 11 of the grammar: a byte that is not UTF-8"},
};

static int read_code(const char *source, size_t n, struct err *e)
{
    struct grammar g;
    uint32_t start = 7;
    int code;

    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    code = gbnf_read(&g, source, n, &start, e);
    if (code)
        assert_int_equal(start, GRAMMAR_NEVER);
    grammar_close(&g);
    return code;
}

static void what_cannot_be_served_is_refused_by_name_and_place(void **state)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        struct err e = {0};

        assert_int_equal(read_code(refused[i].source, strlen(refused[i].source), &e), refused[i].code);
        if (strncmp(e.msg, refused[i].says, strlen(refused[i].says)) != 0)
            fail_msg("%s: \"%s\"", refused[i].source, e.msg);
    }
}

static void limits_hold(void **state)
{
    static char text[GBNF_MOST_BYTES + 2];
    struct err e = {0};
    size_t n;

    memset(text, ' ', sizeof(text));
    memcpy(text, "root::=\"\"", 9);
    assert_int_equal(read_code(text, GBNF_MOST_BYTES, &e), 0);
    assert_int_equal(read_code(text, GBNF_MOST_BYTES + 1, &e), ERR_NOSPACE);
    for (int depth = GBNF_MOST_DEPTH; depth <= GBNF_MOST_DEPTH + 1; depth++) {
        memset(text + 7, '(', (size_t)depth);
        memset(text + 7 + depth, ')', (size_t)depth);
        assert_int_equal(read_code(text, 7 + 2 * (size_t)depth, &e),
                         depth > GBNF_MOST_DEPTH ? ERR_NOSPACE : 0);
    }
    for (int rules = GBNF_MOST_RULES; rules <= GBNF_MOST_RULES + 1; rules++) {
        n = (size_t)snprintf(text, sizeof(text), "root ::= \"a\" r1\n");
        for (int i = 1; i < rules; i++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "r%d ::= \"b\" r%d|[c]\n", i,
                                  i + 1 < rules ? i + 1 : 1);
        assert_int_equal(read_code(text, n, &e), rules > GBNF_MOST_RULES ? ERR_NOSPACE : 0);
    }
}

/* Quantifiers are nested in each other, so that functions recurse by their number, in groups as well. */
static void a_tower_of_quantifiers_is_refused(void **state)
{
    static const char *const quantifier[] = {"?", "*", "+", "{2}", "{1,3}"};
    static char text[GBNF_MOST_BYTES];
    struct err e = {0};

    for (size_t i = 0; i < sizeof(quantifier) / sizeof(*quantifier); i++)
        for (int in_groups = 0; in_groups < 2; in_groups++)
            for (int depth = GBNF_MOST_DEPTH; depth <= 120000;
                 depth += depth > GBNF_MOST_DEPTH ? 119749 : 1) {
                size_t n_groups = in_groups ? GBNF_MOST_DEPTH : 0, n = 8;

                memcpy(text, "root ::=", n);
                memset(text + n, '(', n_groups);
                n += n_groups;
                n += (size_t)snprintf(text + n, sizeof(text) - n, "\"a\"");
                for (int k = 0; k < depth; k++)
                    n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", (size_t)k < n_groups ? ")" : "",
                                          quantifier[i]);
                assert_int_equal(read_code(text, n, &e), depth > GBNF_MOST_DEPTH ? ERR_NOSPACE : 0);
            }
    assert_string_equal(e.msg, "line 1, column 1762 of the grammar: quantifiers are nested deeper than 250");
}

/* Every member of a sequence or choice counts, whether it is the first, in the middle or the last one. */
static void quantifiers_of_each_member_are_counted(void **state)
{
    static const char *const around[][2] = {{"(", " \"b\")"}, {"(\"b\" ", ")"}, {"(\"b\" ", " \"c\")"},
                                            {"(", "|\"b\")"}, {"(\"b\"|", ")"}, {"(\"b\"|", "|\"c\")"}};
    static char text[16000];
    struct err e = {0};

    for (size_t i = 0; i < sizeof(around) / sizeof(*around); i++)
        for (int depth = GBNF_MOST_DEPTH; depth <= GBNF_MOST_DEPTH + 2; depth += 2) {
            size_t n = (size_t)snprintf(text, sizeof(text), "root ::= ");

            for (int k = 0; k < depth; k += 2)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", around[i][0]);
            n += (size_t)snprintf(text + n, sizeof(text) - n, "\"a\"");
            for (int k = 0; k < depth; k += 2)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "{2}{2}%s", around[i][1]);
            assert_int_equal(read_code(text, n, &e), depth > GBNF_MOST_DEPTH ? ERR_NOSPACE : 0);
        }
    assert_non_null(strstr(e.msg, "quantifiers are nested deeper than 250"));
}

/* Rules that are put into each other nest their quantifiers. */
static void a_tower_of_rules_is_refused(void **state)
{
    static char text[GBNF_MOST_BYTES];
    struct err e = {0};

    for (int depth = REGEX_MOST_DEPTH - 1; depth <= REGEX_MOST_DEPTH; depth++) {
        size_t n = (size_t)snprintf(text, sizeof(text), "root ::= r1\n");

        for (int i = 1; i < depth; i++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "r%d ::= r%d{2}\n", i, i + 1);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "r%d ::= \"a\"{2}\n", depth);
        assert_int_equal(read_code(text, n, &e), depth < REGEX_MOST_DEPTH ? 0 : ERR_NOSPACE);
    }
    assert_string_equal(e.msg, "the grammar is nested deeper than 1200");
}

/* Each rule writes the next one twice: put into each other, they would have 2^40 parts. */
static void rules_that_double_do_not_grow(void **state)
{
    static char text[4000];
    size_t n = (size_t)snprintf(text, sizeof(text), "root ::= r0\n");
    struct grammar g;
    uint32_t start;

    for (int i = 0; i < 40; i++)
        n +=
            (size_t)snprintf(text + n, sizeof(text) - n, "r%d ::= r%d [x%d] r%d?\n", i, i + 1, i % 10, i + 1);
    n += (size_t)snprintf(text + n, sizeof(text) - n, "r40 ::= \"a\" | \"b\" \"c\"");
    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    assert_int_equal(gbnf_read(&g, text, n, &start, NULL), 0);
    assert_in_range(g.regex.bytes, 0, 2 << 20);
    grammar_close(&g);
}

/* What matches the empty text is found once for each use of a rule, not once for each rule of a chain. */
static void long_chains_of_rules_are_finished_quickly(void **state)
{
    static char text[GBNF_MOST_BYTES];
    size_t n = (size_t)snprintf(text, sizeof(text), "root ::= r1\n");
    struct grammar g;
    uint32_t start;

    for (int i = 1; i < GBNF_MOST_RULES - 1; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "r%d ::= r%d \"a\"? r%d?\n", i, i + 1, i + 1);
    n += (size_t)snprintf(text + n, sizeof(text) - n, "r%d ::= \"(\" root \")\" |", GBNF_MOST_RULES - 1);
    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    assert_int_equal(gbnf_read(&g, text, n, &start, NULL), 0);
    assert_int_equal(grammar_finish(&g, start, NULL), 0);
    assert_true(grammar_may_end(&g, start));
    grammar_close(&g);
}

static void failed_allocations_are_reported(void **state)
{
    static const char source[] =
        "root ::= (a | \"x\" root)* # c\na ::= [a-z\\u00e9]{2,3} | Regex(\"a|b\") b\nb ::= \"\"|\"q\"";

    for (long at = 1;; at++) {
        struct grammar g;
        struct err e = {0};
        uint32_t start;
        int code;

        assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
        mem_fail_at(at);
        code = gbnf_read(&g, source, strlen(source), &start, &e);
        if (!mem_failed()) {
            mem_fail_at(0);
            assert_int_equal(code, 0);
            grammar_close(&g);
            assert_in_range(at, 20, 1000);
            break;
        }
        mem_fail_at(0);
        assert_int_equal(code, ERR_NOMEM);
        grammar_close(&g);
    }
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammars_accept_their_texts_and_no_others),
        cmocka_unit_test(what_cannot_be_served_is_refused_by_name_and_place),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(a_tower_of_quantifiers_is_refused),
        cmocka_unit_test(quantifiers_of_each_member_are_counted),
        cmocka_unit_test(a_tower_of_rules_is_refused),
        cmocka_unit_test(rules_that_double_do_not_grow),
        cmocka_unit_test(long_chains_of_rules_are_finished_quickly),
        cmocka_unit_test(failed_allocations_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
