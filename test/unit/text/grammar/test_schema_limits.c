/* test_schema_limits.c - limits that values, and schemas themselves, meet exactly: the last that is served, and the
 * first that is not.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "schematexts.h"

#define CHECK(example) schematexts_check(example, sizeof(example) / sizeof(*(example)), &schematexts_valid)

/* The schema SCHEMA is served if CODE is 0; otherwise it is refused with CODE and the keyword KEYWORD. */
static void expect_limit(const char *schema, int code, const char *keyword)
{
    struct compiled x;

    schematexts_compile(&x, schema, &schematexts_valid);
    if (x.rc != code || (code && strcmp(x.report.fault.keyword, keyword) != 0))
        fail_msg("%.200s: %d %s, keyword %s", schema, x.rc, x.e.msg, x.report.fault.keyword);
    schematexts_drop(&x);
}

static void lengths_of_arrays_are_met_exactly(void **state)
{
    static const struct example example[] = {
        {"{\"type\":\"array\",\"maxItems\":0}", {"[]", "[ ]", NULL, "[1]", NULL}},
        {"{\"type\":\"array\",\"minItems\":1,\"maxItems\":1}", {"[1]", NULL, "[]", "[1,1]", NULL}},
        {"{\"type\":\"array\",\"minItems\":2,\"items\":{\"const\":1}}",
         {"[1,1]", "[1,1,1]", NULL, "[1]", "[1,1,2]", NULL}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3},\"minItems\":1,"
         "\"maxItems\":3}",
         {"[1]", "[1,2]", "[1,2,3]", NULL, "[]", "[1,2,3,3]", "[1,3]", "[2]", NULL}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2},{\"const\":3}],\"maxItems\":2}",
         {"[]", "[1,2]", NULL, "[1,2,3]", NULL}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2},{\"const\":3}],\"minItems\":3,"
         "\"maxItems\":3}",
         {"[1,2,3]", NULL, "[1,2]", "[1,2,3,4]", NULL}},
        {"{\"type\":\"array\",\"prefixItems\":[true,false],\"minItems\":1}",
         {"[1]", NULL, "[]", "[1,1]", NULL}},
        {"{\"type\":\"array\",\"not\":{\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":2}}}",
         {"[3]", "[1,3]", "[1,2,1]", NULL, "[]", "[1]", "[1,2]", "[1,2,2]", NULL}},
        {"{\"type\":\"array\",\"not\":{\"minItems\":2,\"maxItems\":3}}",
         {"[]", "[1]", "[1,2,3,4]", NULL, "[1,2]", "[1,2,3]", NULL}},
    };

    (void)state;
    CHECK(example);
    expect_limit("{\"type\":\"array\",\"items\":false,\"minItems\":0}", 0, "");
    expect_limit("{\"type\":\"array\",\"items\":false,\"minItems\":1}", ERR_INPUT, "");
    expect_limit("{\"type\":\"array\",\"minItems\":2,\"maxItems\":1}", ERR_INPUT, "");
}

static void matching_elements_are_counted_exactly(void **state)
{
    static const struct example example[] = {
        {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":0}",
         {"[]", "[2]", NULL, "[,]", NULL}},
        {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":0,\"maxContains\":1}",
         {"[]", "[2,1,2]", NULL, "[1,1]", NULL}},
        {"{\"type\":\"array\",\"contains\":{\"const\":1},\"maxContains\":1}",
         {"[1]", "[2,1]", NULL, "[]", "[2]", "[1,1]", NULL}},
        {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":2,\"minItems\":3,\"maxItems\":4}",
         {"[1,1,0]", "[0,1,0,1]", "[1,1,1,1]", NULL, "[1,1]", "[1,0,0]", "[0,1,1,0,0]", NULL}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":0}],\"contains\":{\"const\":1},"
         "\"minContains\":2}",
         {"[1,0,1]", "[1,0,2,1]", NULL, "[1,0]", "[1,1]", "[1,0,0]", NULL}},
        /* counts belong to 2019-09 and later drafts */
        {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"array\",\"contains\":{\"const\":1},"
         "\"minContains\":2,\"maxContains\":2}",
         {"[1]", "[1,1,1]", NULL, "[]", "[2]", NULL}},
        {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\",\"type\":\"array\","
         "\"contains\":{\"const\":1},\"minContains\":2,\"maxContains\":2}",
         {"[1,1]", NULL, "[1]", "[1,1,1]", NULL}},
        {"{\"type\":\"array\",\"allOf\":[{\"contains\":{\"const\":1}},{\"contains\":{\"const\":2}},{\"contains\":"
         "{\"const\":3}}]}",
         {"[1,2,3]", "[3,3,2,1,0]", NULL, "[1,2]", "[1,2,2]", NULL}},
    };

    (void)state;
    CHECK(example);
    expect_limit(
        "{\"allOf\":[{\"contains\":{\"const\":1}},{\"contains\":{\"const\":2}},{\"contains\":{\"const\":3}},"
        "{\"contains\":{\"const\":4}}]}",
        ERR_UNSUPPORTED, "contains");
    expect_limit("{\"type\":\"array\",\"contains\":{\"const\":1},\"maxItems\":1000}", 0, "");
    expect_limit("{\"type\":\"array\",\"contains\":{\"const\":1},\"maxItems\":1001}", ERR_NOSPACE,
                 "contains");
    /* states: 1000 elements, or 199 + 1 counts of 99 + 1 elements */
    expect_limit("{\"type\":\"array\",\"contains\":{\"const\":1},\"maxContains\":199,\"maxItems\":99}", 0,
                 "");
    expect_limit("{\"type\":\"array\",\"contains\":{\"const\":1},\"maxContains\":200,\"maxItems\":99}",
                 ERR_NOSPACE, "contains");
}

/* Distinct values of a small set, of which an array has each at most once. */
static void distinct_values_of_a_set(void **state)
{
    static const struct example example[] = {
        {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}",
         {"[]", "[[1]]", "[{}]", NULL, "[1,2]", NULL}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2,3]},\"minItems\":1,\"maxItems\":2}",
         {"[3]", "[2,1]", NULL, "[]", "[1,1]", "[1,2,3]", "[4]", NULL}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2]},\"minItems\":2}",
         {"[1,2]", "[2,1]", NULL, "[1]", "[1,1]", "[1,2,1]", NULL}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"prefixItems\":[{\"enum\":[1,2]},{\"enum\":[2,3]}],"
         "\"items\":false}",
         {"[]", "[1,2]", "[2,3]", "[1]", NULL, "[2,2]", "[3]", "[1,1]", "[1,2,3]", NULL}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":[\"boolean\",\"null\"]}}",
         {"[]", "[null,true,false]", NULL, "[true,true]", "[1]", NULL}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"anyOf\":[{\"const\":1},{\"enum\":[2,1.0]}]}}",
         {"[1,2]", "[2,1]", NULL, "[1,1]", "[1,1.0]", "[1,2,1]", NULL}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[[1],[1.0],[2],{\"a\":1},{\"a\":2}]}}",
         {"[[1],[2],{\"a\":2}]", NULL, "[[1],[1]]", "[[1],[1.0]]", "[{\"a\":1},{\"a\":1}]", NULL}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[0,1,2,3,4,5,6,7,8,9]},\"minItems\":10}",
         {"[9,8,7,6,5,4,3,2,1,0]", NULL, "[9,8,7,6,5,4,3,2,1]", "[9,8,7,6,5,4,3,2,1,1]", NULL}},
    };

    (void)state;
    CHECK(example);
    expect_limit("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[0,1,2,3,4,5,6,7,8,9,10]}}",
                 ERR_UNSUPPORTED, "uniqueItems");
    expect_limit(
        "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"pattern\":\"^[ab]$\",\"type\":\"string\"}}",
        ERR_UNSUPPORTED, "uniqueItems");
    expect_limit(
        "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2]},\"contains\":{\"const\":1}}",
        ERR_UNSUPPORTED, "uniqueItems");
    expect_limit("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2]},\"minItems\":3}",
                 ERR_UNSUPPORTED, "");
    expect_limit("{\"not\":{\"uniqueItems\":true,\"maxItems\":1}}", 0, "");
    expect_limit("{\"not\":{\"uniqueItems\":true,\"maxItems\":2}}", ERR_UNSUPPORTED, "uniqueItems");
}

/* `not` demands one property with a value that is no integer: it may stand behind others, in front of them, and
 * between. */
static void properties_stand_around_the_one_that_not_demands(void **state)
{
#define SOME "\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"integer\"}}"
    static const struct example example[] = {
        {"{" SOME "}",
         {"{\"a\":\"\"}", "{\"a\":1,\"b\":2,\"c\":\"\"}", "{\"a\":\"\",\"b\":2,\"c\":3}",
          "{\"a\":1,\"b\":\"\",\"c\":\"\"}", NULL, "{}", "{\"a\":1}", "{\"a\":1,\"b\":2}", NULL}},
        {"{" SOME ",\"maxProperties\":1}",
         {"{\"a\":\"\"}", NULL, "{\"a\":1}", "{\"a\":1,\"b\":\"\"}", "{}", NULL}},
        {"{" SOME ",\"maxProperties\":2}",
         {"{\"a\":\"\"}", "{\"a\":1,\"b\":\"\"}", "{\"a\":\"\",\"b\":1}", NULL, "{\"a\":1,\"b\":2}",
          "{\"a\":1,\"b\":\"\",\"c\":1}", "{\"a\":1,\"b\":1,\"c\":\"\"}", NULL}},
        {"{" SOME ",\"minProperties\":2}",
         {"{\"a\":1,\"b\":\"\"}", "{\"a\":\"\",\"b\":1}", "{\"a\":1,\"b\":1,\"c\":\"\"}",
          "{\"a\":\"\",\"b\":1,\"c\":1}", NULL, "{\"a\":\"\"}", "{\"a\":1,\"b\":1}", NULL}},
        {"{" SOME ",\"minProperties\":3,\"maxProperties\":3}",
         {"{\"a\":1,\"b\":1,\"c\":\"\"}", "{\"a\":1,\"b\":\"\",\"c\":1}", "{\"a\":\"\",\"b\":1,\"c\":1}",
          NULL, "{\"a\":1,\"b\":\"\"}", "{\"a\":1,\"b\":\"\",\"c\":1,\"d\":1}", "{\"a\":1,\"b\":1,\"c\":1}",
          NULL}},
        {"{" SOME ",\"propertyNames\":{\"enum\":[\"a\",\"b\"]}}",
         {"{\"a\":\"\"}", "{\"b\":1,\"a\":\"\"}", "{\"a\":\"\",\"b\":1}", NULL, "{\"a\":1,\"b\":1}",
          "{\"c\":\"\"}", NULL}},
        {"{" SOME ",\"properties\":{\"k\":true}}",
         {"{\"k\":\"\"}", "{\"k\":1,\"a\":\"\"}", "{\"a\":1,\"b\":\"\"}", NULL, "{\"k\":1}",
          "{\"k\":1,\"a\":1}", "{}", NULL}},
        {"{" SOME ",\"properties\":{\"j\":true,\"k\":{\"type\":[\"string\",\"integer\"]}}}",
         {"{\"j\":\"\"}", "{\"j\":1,\"k\":\"\"}", "{\"k\":\"\",\"a\":1}", NULL, "{\"j\":1,\"k\":1}",
          "{\"k\":null}", NULL}},
        {"{\"type\":\"object\",\"properties\":{\"k\":true},\"not\":{\"properties\":{\"k\":true},"
         "\"additionalProperties\":{\"type\":\"integer\"}},\"minProperties\":2}",
         {"{\"k\":\"\",\"a\":\"\"}", "{\"a\":1,\"b\":\"\"}", "{\"k\":1,\"a\":1,\"b\":\"\"}", NULL,
          "{\"a\":\"\"}", "{\"k\":\"\",\"a\":1}", "{\"k\":\"\"}", NULL}},
    };

    (void)state;
    CHECK(example);
    expect_limit("{" SOME ",\"maxProperties\":64}", 0, "");
    expect_limit("{" SOME ",\"maxProperties\":65}", ERR_NOSPACE, "minProperties");
    expect_limit(
        "{\"type\":\"object\",\"allOf\":[{\"not\":{\"additionalProperties\":{\"type\":\"integer\"}}},{\"not\":"
        "{\"additionalProperties\":{\"type\":\"string\"}}}]}",
        ERR_UNSUPPORTED, "not");
#undef SOME
}

/* Up to four required properties that `properties` does not name come in any order. */
static void required_names_without_a_place(void **state)
{
    static const struct example example[] = {
        {"{\"required\":[\"a\",\"b\",\"c\",\"d\"]}",
         {"{\"a\":1,\"b\":1,\"c\":1,\"d\":1}", "{\"d\":1,\"x\":1,\"c\":1,\"b\":1,\"y\":1,\"a\":1,\"z\":1}",
          NULL, "{\"d\":1,\"c\":1,\"b\":1}", "{}", NULL}},
        {"{\"required\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}",
         {"{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1}", "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"x\":1}",
          NULL, "{\"a\":1,\"b\":1,\"c\":1,\"d\":1}", NULL}},
        {"{\"required\":[\"x\"],\"properties\":{\"a\":true,\"b\":true},\"additionalProperties\":{\"const\":1}}",
         {"{\"x\":1}", "{\"x\":1,\"a\":2,\"b\":2}", "{\"a\":2,\"x\":1,\"b\":2}",
          "{\"a\":2,\"b\":2,\"y\":1,\"x\":1}", NULL, "{\"a\":2}", "{\"x\":2}", "{\"b\":2,\"x\":1,\"a\":2}",
          NULL}},
        {"{\"required\":[\"x\"],\"propertyNames\":{\"enum\":[\"x\",\"y\"]},\"type\":\"object\"}",
         {"{\"x\":1}", "{\"y\":1,\"x\":1}", "{\"x\":1,\"y\":1}", NULL, "{\"y\":1}", "{}", "{\"x\":1,\"z\":1}",
          NULL}},
        {"{\"required\":[\"x\"],\"minProperties\":3,\"properties\":{\"a\":true}}",
         {"{\"a\":1,\"x\":1,\"y\":1}", "{\"x\":1,\"y\":1,\"z\":1}", NULL, "{\"a\":1,\"x\":1}",
          "{\"a\":1,\"y\":1,\"z\":1}", NULL}},
    };

    (void)state;
    CHECK(example);
}

/* A `const`, or an `enum` of at most four values, tells alternatives apart where there are too many for an exact
 * complement; without required properties the first two optional ones do. */
static void alternatives_are_told_apart_by_few_properties(void **state)
{
#define KIND(values)                                                           \
    "{\"properties\":{\"v\":{\"type\":\"string\"},\"kind\":{\"enum\":[" values \
    "]},\"w\":{\"minLength\":1}},"                                             \
    "\"required\":[\"w\"],\"type\":\"object\",\"additionalProperties\":false}"
#define OPTIONAL(value)                                                                            \
    "{\"properties\":{\"p\":{\"const\":0},\"q\":{\"const\":" value "},\"r\":{\"type\":\"null\"}}," \
    "\"type\":\"object\",\"additionalProperties\":false}"
#define THIRD(value)                                                                         \
    "{\"properties\":{\"p\":{\"const\":0},\"q\":{\"const\":0},\"r\":{\"const\":" value "}}," \
    "\"type\":\"object\",\"additionalProperties\":false}"
    static const struct example example[] = {
        {"{\"oneOf\":[" KIND("1,2,3,4") "," KIND("5,6,7,8") "," KIND("9,10,11,12") "," KIND(
             "13,14,15,16") "]}",
         {"{\"v\":\"\",\"kind\":4,\"w\":\"x\"}", "{\"kind\":13,\"w\":2}", NULL, "{\"w\":2}",
          "{\"kind\":17,\"w\":2}", "{\"kind\":4,\"w\":\"\"}", NULL}},
        /* five values do not: what is valid is left out rather than something else let in */
        {"{\"oneOf\":[" KIND("1,2,3,4,0") "," KIND("5,6,7,8,-1") "," KIND("9,10,11,12,-2") "," KIND(
             "13,14,15,16,-3") ",{\"type\":\"null\"}]}",
         {"null", NULL, "{\"kind\":13,\"w\":\"x\"}", "{\"w\":2}", NULL}},
        {"{\"oneOf\":[" OPTIONAL("1") "," OPTIONAL("2") "," OPTIONAL("3") "," OPTIONAL("4") "," OPTIONAL(
             "5") "]}",
         {"{\"q\":1}", "{\"p\":0,\"q\":5,\"r\":null}", NULL, "{}", "{\"q\":6}", "{\"p\":0}", NULL}},
        {"{\"oneOf\":[" THIRD("1") "," THIRD("2") "," THIRD("3") "," THIRD("4") "," THIRD(
             "5") ",{\"type\":\"null\"}]}",
         {"null", NULL, "{\"r\":1}", "{}", NULL}},
    };

    (void)state;
    CHECK(example);
#undef KIND
#undef OPTIONAL
#undef THIRD
}

static void spellings_of_numbers_end(void **state)
{
    static const struct example example[] = {
        {"{\"type\":\"number\"}",
         {"1.12345678901234567e1", "1e307", "-1e-307", "0.12345678901234567890123456789012", "-0", "1E+07",
          NULL, "1.123456789012345678e1", "1e308", "1e-308", "0.123456789012345678901234567890123", "01",
          "1.e1", "10e1", NULL}},
        {"{\"type\":\"number\"}",
         {"1e9", "1e10", "1e019", "1e99", "1e100", "1e199", "1e299", "1e300", "1e-42", "1e-100", "1e+00",
          NULL, "1e310", "1e1000", "1e", NULL}},
        {"{\"type\":\"number\",\"minimum\":1e+20,\"maximum\":1e+120}",
         {"1e20", "2e99", "1e100", "1e120", "9e119", "100000000000000000000", NULL, "9e19", "1e19", "1e2",
          "2e120", "1e121", "99999999999999999999", NULL}},
        {"{\"const\":-0.0}", {"0", "-0", "0.0", NULL, "1", "0.1", NULL}},
        {"{\"type\":\"number\",\"minimum\":-0.0}", {"0", "-0", "0.5", "1e-5", NULL, "-1", "-0.5", NULL}},
        {"{\"type\":\"number\",\"multipleOf\":0.5,\"minimum\":-1,\"exclusiveMaximum\":1}",
         {"-1", "-0.5", "0.0", "0.5", "0.50", NULL, "1", "-1.5", "0.25", "5e-1", NULL}},
        {"{\"type\":\"number\",\"multipleOf\":10}", {"0", "-20", "30.0", NULL, "5", "10.5", NULL}},
        {"{\"type\":\"number\",\"multipleOf\":4096}", {"0", "8192", NULL, "4095", "4097", NULL}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":0.5,\"maximum\":2.5}", {"1", "2", NULL, "0", "3", NULL}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":11}",
         {"10", NULL, "9", "11", "1", NULL}},
        {"{\"type\":\"integer\",\"minimum\":-100,\"maximum\":-99}",
         {"-100", "-99", NULL, "-98", "-101", "99", NULL}},
        {"{\"type\":\"number\",\"minimum\":0.05,\"maximum\":0.1}",
         {"0.05", "0.1", "5e-2", "0.0999", "9.9e-2", "1e-1", NULL, "0.049", "0.11", "4.9e-2", "1.01e-1", "0",
          NULL}},
    };

    (void)state;
    CHECK(example);
    expect_limit("{\"multipleOf\":1048577}", ERR_UNSUPPORTED, "multipleOf");
    expect_limit("{\"multipleOf\":0}", ERR_INPUT, "multipleOf");
    expect_limit("{\"multipleOf\":-1}", ERR_INPUT, "multipleOf");
    expect_limit("{\"multipleOf\":0.00000000000000001}", 0, ""); /* 17 places */
    expect_limit("{\"multipleOf\":0.000000000000000001}", ERR_UNSUPPORTED, "multipleOf");
}

/* A minimum or constant may have 400 digits. */
static void large_limits_are_refused_by_name(void **state)
{
    struct buf b = {.tag = MEM_TEXT};

    (void)state;
    for (int n = 400; n <= 401; n++)
        for (int k = 0; k < 2; k++) {
            b.len = 0;
            buf_fmt(&b, "{\"%s\":", k ? "minimum" : "const");
            for (int i = 0; i < n; i++)
                buf_char(&b, '9');
            buf_str(&b, "}");
            buf_char(&b, 0);
            expect_limit(b.data, n > 400 ? ERR_UNSUPPORTED : 0, k ? "minimum" : "const");
        }
    buf_fini(&b);
}

static void white_space_ends(void **state)
{
    struct compiled x;
    char text[128];

    (void)state;
    schematexts_compile(&x, "{\"type\":\"array\"}", &schematexts_valid);
    for (int n = 39; n <= 41; n++) {
        snprintf(text, sizeof(text), "[\r\n%*s1,\n%*s2]", n, "", n, "");
        if (schematexts_accepts(&x, text) != (n <= 40))
            fail_msg("%d blanks", n);
    }
    schematexts_drop(&x);
}

/* Appends N copies of TEXT, in which %d is the number of the copy, with commas. */
static void repeat(struct buf *b, int n, const char *text)
{
    for (int i = 0; i < n; i++) {
        char one[256];

        snprintf(one, sizeof(one), text, i, i);
        buf_fmt(b, "%s%s", i ? "," : "", one);
    }
}

static void expect_repeated(const char *begin, int n, const char *text, const char *end, int code,
                            const char *keyword)
{
    struct buf b = {.tag = MEM_TEXT};

    buf_str(&b, begin);
    repeat(&b, n, text);
    buf_str(&b, end);
    buf_char(&b, 0);
    expect_limit(b.data, code, keyword);
    buf_fini(&b);
}

static void many_alternatives_are_refused_by_name(void **state)
{
    static const char branch[] = "{\"properties\":{\"a%d\":true},\"required\":[\"a%d\"]}";

    (void)state;
    expect_repeated("{\"oneOf\":[", 300, "{\"const\":%d}", "]}", 0, "");
    expect_repeated("{\"oneOf\":[", 301, "{\"const\":%d}", "]}", ERR_NOSPACE, "oneOf");
    /* six branches that may hold or not are 64 cases */
    expect_repeated("{\"type\":\"object\",\"unevaluatedProperties\":false,\"anyOf\":[", 6, branch, "]}", 0,
                    "");
    expect_repeated("{\"type\":\"object\",\"unevaluatedProperties\":false,\"anyOf\":[", 7, branch, "]}",
                    ERR_NOSPACE, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_of_arrays_are_met_exactly),
        cmocka_unit_test(matching_elements_are_counted_exactly),
        cmocka_unit_test(distinct_values_of_a_set),
        cmocka_unit_test(properties_stand_around_the_one_that_not_demands),
        cmocka_unit_test(required_names_without_a_place),
        cmocka_unit_test(alternatives_are_told_apart_by_few_properties),
        cmocka_unit_test(spellings_of_numbers_end),
        cmocka_unit_test(large_limits_are_refused_by_name),
        cmocka_unit_test(white_space_ends),
        cmocka_unit_test(many_alternatives_are_refused_by_name),
    };

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
