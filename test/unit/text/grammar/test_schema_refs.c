/* test_schema_refs.c - what references and identifiers resolve to, and which properties and elements each keyword
 * evaluates, with the values that are found behind references.
 */
#include "base/mem.h"
#include "schematexts.h"

#define CHECK(example) schematexts_check(example, sizeof(example) / sizeof(*(example)), &schematexts_valid)

static void pointers_are_decoded(void **state)
{
    static const struct example example[] = {
        {"{\"$ref\":\"#/$defs/a~1b~0c\",\"$defs\":{\"a/b~c\":{\"const\":1},\"a~1b~0c\":{\"const\":2}}}",
         {"1", NULL, "2", NULL}},
        {"{\"$ref\":\"#/$defs/a%20b%25\",\"$defs\":{\"a b%\":{\"const\":1}}}", {"1", NULL, "2", NULL}},
        {"{\"$ref\":\"#/$defs/%4a%4B\",\"$defs\":{\"JK\":{\"const\":1}}}", {"1", NULL, "2", NULL}},
        {"{\"$ref\":\"#/$defs/50%\",\"$defs\":{\"50%\":{\"const\":1}}}", {"1", NULL, "2", NULL}},
        {"{\"$ref\":\"#/$defs/%zz\",\"$defs\":{\"%zz\":{\"const\":1}}}", {"1", NULL, "2", NULL}},
        {"{\"$ref\":\"#/$defs/x/anyOf/1\",\"$defs\":{\"x\":{\"anyOf\":[{\"const\":0},{\"const\":1}]}}}",
         {"1", NULL, "0", NULL}},
        {"{\"$ref\":\"#/$defs/x/anyOf/10\",\"$defs\":{\"x\":{\"anyOf\":[{},{},{},{},{},{},{},{},{},{"
         "},{\"const\":1}]}}}",
         {"1", NULL, "0", NULL}},
        {"{\"$ref\":\"#/$defs/\",\"$defs\":{\"\":{\"const\":1}}}", {"1", NULL, "0", NULL}},
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
         {"{\"a\":{\"a\":{}}}", NULL, "{\"a\":{\"b\":{}}}", NULL}},
    };
    static const char *const missing[] = {"#/$defs/b",          "#/$defs/a/anyOf/2", "#/$defs/a/anyOf/x",
                                          "#/$defs/a/anyOf/-1", "#/$defs/a/anyOf/",  "#a",
                                          "#/$defs/a/const/b"};
    char text[256];

    (void)state;
    CHECK(example);
    for (size_t i = 0; i < sizeof(missing) / sizeof(*missing); i++) {
        struct compiled x;

        snprintf(text, sizeof(text),
                 "{\"$ref\":\"%s\",\"$defs\":{\"a\":{\"anyOf\":[{\"const\":0},{\"const\":1}],\"const\":1}}}",
                 missing[i]);
        schematexts_compile(&x, text, NULL);
        if (x.rc != ERR_INPUT || strcmp(x.report.fault.keyword, "$ref") != 0 ||
            !strstr(x.e.msg, "does not exist"))
            fail_msg("%s: %d %s", text, x.rc, x.e.msg);
        schematexts_drop(&x);
    }
}

/* The schema with the identifier ID is the constant 1, and REF of the root with the identifier BASE refers to it. */
static void identifiers_are_resolved_against_their_base(void **state)
{
    static const struct {
        const char *base, *id, *ref;
        bool is_same;
    } row[] = {
        {"http://h/a/b", "c", "c", true},
        {"http://h/a/b", "c", "http://h/a/c", true},
        {"http://h/a/b", "/c", "http://h/c", true},
        {"http://h/a/b", "../c", "http://h/c", true},
        {"http://h/a/b", "../../c", "http://h/c", true},
        {"http://h/a/b/", "./c", "http://h/a/b/c", true},
        {"http://h/a/b", "x/../c", "http://h/a/c", true},
        {"http://h/a/b", "x/./c", "http://h/a/x/c", true},
        {"http://h/a/b", "//g/c", "http://g/c", true},
        {"http://h", "c", "http://h/c", true},
        {"http://h/a?q=1", "c", "http://h/c", true},
        {"urn:x:y", "urn:x:z", "urn:x:z", true},
        {"http://h/a/b", "http://i/c", "http://i/c", true},
        {"", "http://i/c", "http://i/c", true},
        {"http://h/a/b", "c", "http://h/c", false},
        {"http://h/a/b", "c", "http://h/a/b/c", false},
        {"http://h/a/b", "/c", "http://h/a/c", false},
        {"http://h/a/b", "../c", "http://h/a/c", false},
        {"http://h/a/b", "//g/c", "http://h/c", false},
    };
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
        struct compiled x;

        snprintf(text, sizeof(text),
                 "{\"$id\":\"%s\",\"$ref\":\"%s\",\"$defs\":{\"q\":{\"$id\":\"%s\",\"const\":1}}}",
                 row[i].base, row[i].ref, row[i].id);
        schematexts_compile(&x, text, NULL);
        if ((x.rc == 0) != row[i].is_same || (x.rc && x.rc != ERR_UNSUPPORTED))
            fail_msg("%s: %d %s", text, x.rc, x.e.msg);
        if (x.rc == 0 && (!schematexts_accepts(&x, "1") || schematexts_accepts(&x, "2")))
            fail_msg("%s: another schema was found", text);
        schematexts_drop(&x);
    }
}

static void anchors_belong_to_their_schema(void **state)
{
    static const struct example example[] = {
        {"{\"$ref\":\"#n\",\"$defs\":{\"q\":{\"$anchor\":\"n\",\"const\":1}}}", {"1", NULL, "2", NULL}},
        {"{\"$id\":\"http://h/a\",\"$ref\":\"b#n\",\"$defs\":{\"p\":{\"$anchor\":\"n\",\"const\":2},"
         "\"q\":{\"$id\":\"b\",\"$defs\":{\"r\":{\"$anchor\":\"n\",\"const\":1}}}}}",
         {"1", NULL, "2", NULL}},
        /* a reference inside of another resource is resolved there */
        {"{\"$id\":\"http://h/a\",\"$ref\":\"b\",\"$defs\":{\"x\":{\"const\":2},\"q\":{\"$id\":\"b"
         "\",\"allOf\":[{\"$ref\":"
         "\"#/$defs/x\"}],\"$defs\":{\"x\":{\"const\":1}}}}}",
         {"1", NULL, "2", NULL}},
        {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$ref\":\"#n\",\"const\":3,"
         "\"definitions\":{\"q\":{\"$id\":\"#n\",\"const\":1}}}",
         {"1", NULL, "3", NULL}},
        {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"id\":\"http://h/a\",\"$ref\":\"b\","
         "\"definitions\":{\"q\":{\"id\":\"b\",\"enum\":[1]}}}",
         {"1", NULL, "2", NULL}},
        {"{\"$dynamicRef\":\"#n\",\"$defs\":{\"q\":{\"$dynamicAnchor\":\"n\",\"const\":1}}}",
         {"1", NULL, "2", NULL}},
        {"{\"type\":\"array\",\"items\":{\"$recursiveRef\":\"#\"}}", {"[[],[[]]]", NULL, "[1]", NULL}},
        /* since 2019-09 a reference stands beside other keywords */
        {"{\"$ref\":\"#/$defs/x\",\"maximum\":5,\"$defs\":{\"x\":{\"minimum\":3,\"type\":\"integer\"}}}",
         {"3", "5", NULL, "2", "6", NULL}},
    };
    static const char two[] =
        "{\"$dynamicRef\":\"#n\",\"$defs\":{\"p\":{\"$id\":\"http://h/p\",\"$dynamicAnchor\":\"n\"},"
        "\"q\":{\"$id\":\"http://h/q\",\"$dynamicAnchor\":\"n\"}}}";
    struct compiled x;

    (void)state;
    CHECK(example);
    schematexts_compile(&x, two, NULL);
    assert_int_equal(x.rc, ERR_UNSUPPORTED);
    assert_string_equal(x.report.fault.keyword, "$dynamicRef");
    schematexts_drop(&x);
}

static void each_keyword_evaluates_properties(void **state)
{
#define REST "\"type\":\"object\",\"unevaluatedProperties\":false"
    static const struct example example[] = {
        {"{" REST
         ",\"$ref\":\"#/$defs/x\",\"properties\":{\"b\":true},\"$defs\":{\"x\":{\"properties\":{\"a\":true}}}}",
         {"{\"b\":1}", "{\"b\":1,\"a\":1}", NULL, "{\"c\":1}", NULL}},
        {"{" REST
         ",\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},\"then\":{\"properties\":{\"t\":"
         "true}},\"else\":{\"properties\":{\"e\":true}}}",
         {"{\"k\":1}", "{\"k\":1,\"t\":1}", "{\"e\":1}", "{}", NULL, "{\"t\":1}", "{\"k\":1,\"e\":1}",
          "{\"k\":2}", NULL}},
        {"{" REST ",\"if\":{\"required\":[\"k\"]},\"then\":{\"properties\":{\"k\":true,\"t\":true}}}",
         {"{}", "{\"k\":1,\"t\":1}", NULL, "{\"t\":1}", "{\"x\":1}", NULL}},
        {"{" REST ",\"patternProperties\":{\"^x\":true}}", {"{\"x\":1,\"xy\":1}", NULL, "{\"y\":1}", NULL}},
        {"{" REST ",\"allOf\":[{\"patternProperties\":{\"^x\":{\"type\":\"null\"}}}]}",
         {"{\"x\":null}", NULL, "{\"x\":1}", "{\"y\":null}", NULL}},
        {"{" REST
         ",\"oneOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},{\"properties\":{\"b\":{"
         "\"const\":1}},\"required\":[\"b\"]}]}",
         {"{\"a\":1}", "{\"b\":1}", NULL, "{}", "{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}", NULL}},
        {"{" REST ",\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":true}}},\"properties\":{\"a\":true}}",
         {"{}", "{\"a\":1,\"b\":1}", NULL, "{\"b\":1}", "{\"c\":1}", NULL}},
        /* each case of a branch holds only where the branch does */
        {"{" REST
         ",\"properties\":{\"t\":true},\"anyOf\":[{},{\"required\":[\"t\"],\"oneOf\":[{\"properties\":{\"a\":true},"
         "\"required\":[\"a\"]},{\"properties\":{\"b\":true},\"required\":[\"b\"]}]}]}",
         {"{}", "{\"t\":1,\"a\":1}", "{\"t\":1,\"b\":1}", NULL, "{\"b\":1}", "{\"a\":1}",
          "{\"t\":1,\"a\":1,\"b\":1}", NULL}},
        {"{" REST ",\"allOf\":[{\"additionalProperties\":true}]}", {"{\"a\":1}", NULL, "[]", NULL}},
        {"{" REST ",\"allOf\":[{\"unevaluatedProperties\":true}]}", {"{\"a\":1}", NULL, "[]", NULL}},
        {"{\"type\":\"object\",\"unevaluatedProperties\":{\"type\":\"null\"},\"anyOf\":[{\"properties\":{\"a\":true},"
         "\"required\":[\"a\"]},{\"properties\":{\"b\":true},\"required\":[\"b\"]}]}",
         {"{\"a\":1}", "{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":null}", NULL, "{\"c\":null}", "{\"a\":1,\"c\":1}",
          NULL}},
    };
#undef REST

    (void)state;
    CHECK(example);
}

static void each_keyword_evaluates_elements(void **state)
{
#define REST "\"type\":\"array\",\"unevaluatedItems\":false"
    static const struct example example[] = {
        {"{" REST "}", {"[]", NULL, "[1]", NULL}},
        {"{" REST ",\"prefixItems\":[true,true]}", {"[]", "[1]", "[1,1]", NULL, "[1,1,1]", NULL}},
        {"{" REST ",\"items\":{\"const\":1}}", {"[1,1]", NULL, "[2]", NULL}},
        {"{" REST ",\"allOf\":[{\"prefixItems\":[true]},{\"prefixItems\":[true,{\"const\":1}]}]}",
         {"[2,1]", "[1]", NULL, "[1,2]", "[1,1,1]", NULL}},
        {"{" REST ",\"allOf\":[{\"items\":true}]}", {"[1,2]", NULL, "1", NULL}},
        {"{" REST ",\"allOf\":[{\"unevaluatedItems\":true}]}", {"[1,2]", NULL, "1", NULL}},
        {"{" REST ",\"contains\":{\"const\":1}}", {"[1,1]", NULL, "[1,2]", "[]", NULL}},
        {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\"," REST
         ",\"items\":[true],\"additionalItems\":"
         "{\"const\":1}}",
         {"[2,1,1]", NULL, "[2,2]", NULL}},
        {"{\"$schema\":\"https://json-schema.org/draft/2019-09/schema\"," REST ",\"items\":[true]}",
         {"[2]", NULL, "[2,2]", NULL}},
        {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\"," REST ",\"items\":[true]}",
         {"[2]", "[2,2]", NULL, "2", NULL}},
        {"{\"type\":\"array\",\"unevaluatedItems\":{\"const\":1},\"if\":{\"prefixItems\":[{\"const"
         "\":0}],\"minItems\":1},"
         "\"then\":{\"prefixItems\":[true,true]}}",
         {"[0,2,1]", "[1,1]", "[]", NULL, "[0,2,2]", "[2]", "[1,2]", NULL}},
    };
#undef REST

    (void)state;
    CHECK(example);
}

/* The values of elements that must differ may be those of other keywords and schemas. */
static void values_are_found_behind_keywords(void **state)
{
    static const char *const values[] = {
        "{\"$ref\":\"#/$defs/x\"}",
        "{\"allOf\":[{\"type\":\"integer\"},{\"$ref\":\"#/$defs/x\"}]}",
        "{\"anyOf\":[{\"const\":1},{\"const\":2}]}",
        "{\"oneOf\":[{\"const\":1},{\"$ref\":\"#/$defs/two\"}]}",
        "{\"anyOf\":[{\"anyOf\":[{\"const\":2}]},{\"enum\":[1]}]}",
        "{\"type\":[\"number\"],\"enum\":[1,2]}",
    };
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        struct compiled x;

        snprintf(text, sizeof(text),
                 "{\"type\":\"array\",\"uniqueItems\":true,\"items\":%s,\"$defs\":{\"x\":{\"enum\":[1,2]},"
                 "\"two\":{\"const\":2}}}",
                 values[i]);
        schematexts_compile(&x, text, &schematexts_valid);
        if (x.rc || !schematexts_accepts(&x, "[2,1]") || !schematexts_accepts(&x, "[2]") ||
            schematexts_accepts(&x, "[2,2]") || schematexts_accepts(&x, "[3]") ||
            schematexts_accepts(&x, "[1,2,1]"))
            fail_msg("%s: %d %s", text, x.rc, x.e.msg);
        schematexts_drop(&x);
    }
    /* a list of both, by an intersection and a union of terms */
    static const struct example example[] = {
        {"{\"type\":\"array\",\"uniqueItems\":true,\"allOf\":[{\"items\":{\"enum\":[1,2,3]}},{\"item"
         "s\":{\"minimum\":2}}]}",
         {"[3,2]", NULL, "[1]", "[2,2]", NULL}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"allOf\":[{\"items\":{\"minimum\":2}},{\"items"
         "\":{\"enum\":[1,2,3]}}]}",
         {"[3,2]", NULL, "[1]", "[2,2]", NULL}},
        {"{\"enum\":[\"a\",\"ab\",\"a\",\"ab\",\"a\"]}", {"\"a\"", "\"ab\"", NULL, "\"aa\"", "\"\"", NULL}},
    };

    CHECK(example);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_are_decoded),
        cmocka_unit_test(identifiers_are_resolved_against_their_base),
        cmocka_unit_test(anchors_belong_to_their_schema),
        cmocka_unit_test(each_keyword_evaluates_properties),
        cmocka_unit_test(each_keyword_evaluates_elements),
        cmocka_unit_test(values_are_found_behind_keywords),
    };

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
