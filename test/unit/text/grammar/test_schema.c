/* test_schema.c - JSON Schemas and the texts that are valid under them: what each keyword allows, its complement,
 * what is refused by name, and the limits.
 */
#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/mem.h"
#include "schematexts.h"

static void check_examples(const struct example *example, size_t n)
{
    schematexts_check(example, n, &schematexts_valid);
}

static void types_and_values_are_compared_as_json_compares_them(void **state)
{
    static const struct example example[] = {
        {"true", {"1", "null", "[]", "{}", "[{\"a\":[]}]", NULL, "", "nul", "[,]", "{a:1}", "01", NULL}},
        {"{\"type\":\"integer\"}",
         {"0", "-7", "-0", "12345678901234567890123", NULL, "1.0", "1e2", "1.5e1", "2E+05", "1.5", "01",
          "-01", "-", "\"1\"", NULL}},
        {"{\"type\":[\"null\",\"boolean\"]}", {"null", "true", "false", NULL, "0", "\"\"", NULL}},
        {"{\"const\":1}", {"1", "1.0", "1e0", "1.0E+00", NULL, "true", "10", "1.01", "-1", NULL}},
        {"{\"const\":-2.50}", {"-2.5", "-2.500", "-2.5e0", NULL, "2.5", "-2.51", "-2.5e1", NULL}},
        {"{\"const\":0}", {"0", "-0", "0.00", NULL, "1", "0.01", NULL}},
        {"{\"enum\":[\"a\\u00e9/\",[1,{\"b\":null}],false]}",
         {"\"a\xc3\xa9/\"", "\"a\\u00E9\\/\"", "[ 1.0,{\"b\": null}]", "false", NULL, "\"a\"", "[1,{}]", "0",
          "\"\\u0061\xc3\xa9/\"", NULL}},
        {"{\"enum\":[\"ab\",\"abc\",\"b\",\"\",\"a\xc3\xa9\",\"a\xc3\xa8\"]}",
         {"\"ab\"", "\"abc\"", "\"b\"", "\"\"", "\"a\xc3\xa9\"", "\"a\xc3\xa8\"", NULL, "\"a\"", "\"abcd\"",
          NULL}},
        {"{\"const\":\"\xf0\x9f\x98\x80\"}",
         {"\"\xf0\x9f\x98\x80\"", "\"\\ud83d\\uDE00\"", NULL, "\"\\ud83d\"", "\"\\ude00\\ud83d\"", NULL}},
    };

    check_examples(example, sizeof(example) / sizeof(*example));
}

static void numbers_are_limited_by_value(void **state)
{
    static const struct example example[] = {
        {"{\"minimum\":1.1}",
         {"1.1", "1.10", "2", "1e1", "1.1e0", "\"\"", NULL, "1.09", "1", "-2", "1e-1", NULL}},
        {"{\"exclusiveMinimum\":-3}", {"-2.9", "0", "-0", "-2.99e0", NULL, "-3", "-3.0", "-4", "-1e1", NULL}},
        {"{\"maximum\":300}",
         {"300", "299.97", "-5", "3e2", "0.5", NULL, "300.5", "301", "3.01e2", "1000", NULL}},
        {"{\"exclusiveMaximum\":0}", {"-0.1", "-1e-5", NULL, "0", "-0.0", "1", NULL}},
        {"{\"minimum\":2,\"maximum\":4,\"type\":\"integer\"}",
         {"2", "3", "4", NULL, "1", "5", "3.5", "4.0", "3e0", NULL}},
        {"{\"multipleOf\":0.01}", {"1", "1.2", "-1.25", "1.250", "0", NULL, "1.255", "0.001", NULL}},
        {"{\"multipleOf\":1.5}", {"3", "4.5", "1.50", "0.0", NULL, "1", "1.05", NULL}},
        /* digits behind the point end, so that an answer does */
        {"{\"const\":1}",
         {"1.00000000000000000000000000000000", NULL, "1.000000000000000000000000000000000", NULL}},
        {"{\"multipleOf\":7}", {"14", "-21.0", "0", NULL, "15", "14.7", NULL}},
        {"{\"minimum\":100000000000000000000000000}",
         {"100000000000000000000000000", "1e27", NULL, "99999999999999999999999999", NULL}},
        {"{\"not\":{\"type\":\"integer\"},\"type\":\"number\",\"minimum\":2}",
         {"2.5", "2.1e0", NULL, "3", "3.0", "3e0", "2.5e1", "0.5", NULL}},
    };

    check_examples(example, sizeof(example) / sizeof(*example));
}

static void arrays_are_checked_by_index_and_count(void **state)
{
    static const struct example example[] = {
        {"{\"items\":{\"type\":\"null\"}}",
         {"[]", "[ null, null ]", "3", NULL, "[1]", "[null,1]", "[null,]", "[null ,null]", NULL}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false}",
         {"[]", "[1]", "[1,2]", NULL, "[2]", "[1,2,3]", NULL}},
        {"{\"items\":[{\"const\":1}],\"additionalItems\":{\"const\":2},\"minItems\":2,\"maxItems\":3}",
         {"[1,2]", "[1,2,2]", NULL, "[1]", "[1,2,2,2]", "[1,1]", NULL}},
        {"{\"contains\":{\"const\":1},\"minContains\":2,\"maxContains\":3,\"maxItems\":5}",
         {"[1,1]", "[0,1,0,1]", "[1,1,0,1]", NULL, "[1,0]", "[1,1,1,1]", "[1,1,0,0,0,0]", NULL}},
        {"{\"type\":\"array\",\"not\":{\"items\":{\"type\":\"null\"}}}",
         {"[1]", "[null,2]", NULL, "[]", "[null]", NULL}},
        {"{\"items\":{\"enum\":[\"a\",\"b\",1,1.0]},\"uniqueItems\":true,\"minItems\":1}",
         {"[1]", "[\"a\",\"b\"]", "[\"b\",1,\"a\"]", NULL, "[]", "[\"a\",\"a\"]", "[1,1.0]", NULL}},
    };

    check_examples(example, sizeof(example) / sizeof(*example));
}

static void objects_have_members_in_order_and_then_others(void **state)
{
    static const struct example example[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},\"required\":[\"b\"]}",
         {"{\"a\":1,\"b\":2}", "{\"b\":[]}", "{\n  \"b\": 1,\n  \"z\": 2\n}", NULL, "{\"a\":1}",
          "{\"b\":1,\"a\":1}", "{\"a\":\"\",\"b\":1}", "{\"b\":1,\"b\":1}", "{\n\n\"b\":1}", NULL}},
        {"{\"properties\":{\"a\":true,\"b\":true},\"additionalProperties\":false,\"maxProperties\":1}",
         {"{}", "{\"a\":1}", "{\"b\":1}", "[]", NULL, "{\"a\":1,\"b\":1}", "{\"c\":1}", NULL}},
        /* no property may come, of names that are many enough for a tree */
        {"{\"properties\":{\"a\":true,\"b\":true,\"c\":true,\"d\":true},\"maxProperties\":0}",
         {"{}", "{ }", "1", NULL, "{\"a\":1}", "{\"e\":1}", NULL}},
        {"{\"type\":\"object\",\"minProperties\":2,\"properties\":{\"a\":true}}",
         {"{\"a\":1,\"b\":2}", "{\"c\":1,\"b\":2}", NULL, "{\"a\":1}", "{}", NULL}},
        {"{\"dependentRequired\":{\"a\":[\"b\"]}}",
         {"{}", "{\"b\":1}", "{\"b\":1,\"a\":1}", "7", NULL, "{\"a\":1}", NULL}},
        {"{\"type\":\"object\",\"not\":{\"required\":[\"a\"]}}",
         {"{}", "{\"b\":1}", NULL, "{\"a\":1}", "{\"b\":0,\"a\":1}", "1", NULL}},
        {"{\"type\":\"object\",\"not\":{\"properties\":{\"a\":true},\"additionalProperties\":false}}",
         {"{\"b\":1}", "{\"a\":1,\"b\":1}", NULL, "{}", "{\"a\":1}", NULL}},
        {"{\"propertyNames\":{\"maxLength\":2}}", {"{\"ab\":1}", "{}", NULL, "{\"abc\":1}", NULL}},
        {"{\"const\":{\"a\":[1],\"b\":{}}}",
         {"{\"a\":[1],\"b\":{}}", NULL, "{\"a\":[1]}", "{\"a\":[1],\"b\":{},\"c\":1}", NULL}},
    };

    check_examples(example, sizeof(example) / sizeof(*example));
}

static void subschemas_are_joined(void **state)
{
    static const struct example example[] = {
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}",
         {"1", "2.5", "\"\"", NULL, "3", "1.5", NULL}},
        {"{\"allOf\":[{\"minLength\":2},{\"maxLength\":3}],\"type\":\"string\"}",
         {"\"ab\"", "\"a\\n\xc3\xa9\"", "\"\\ud83d\\ude00b\"", NULL, "\"a\"", "\"abcd\"", NULL}},
        {"{\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
         "\"then\":{\"required\":[\"x\"]},"
         "\"else\":{\"required\":[\"y\"]},\"type\":\"object\"}",
         {"{\"k\":1,\"x\":2}", "{\"k\":2,\"y\":2}", "{\"y\":0}", NULL, "{\"k\":1}", "{\"k\":1,\"y\":2}",
          "{\"x\":1}", NULL}},
        {"{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}}}",
         {"[]", "[[],[[]]]", NULL, "1", "[1]", "[[]", NULL}},
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"leaf\"}},"
         "\"required\":[\"kind\"]},"
         "{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"node\"},\"child\":{\"$ref\":\"#\"}},"
         "\"required\":[\"kind\",\"child\"]}]}",
         {"{\"kind\":\"node\",\"child\":{\"kind\":\"leaf\"}}", NULL, "{\"kind\":\"node\"}",
          "{\"kind\":\"x\"}", NULL}},
    /* alternatives that only an optional property tells apart, too many for exact complements */
#define KIND(name)                                              \
    "{\"properties\":{\"kind\":{\"const\":\"" name              \
    "\"},\"v\":{\"type\":\"string\"},\"w\":{\"minLength\":1}}," \
    "\"required\":[\"w\"],\"type\":\"object\",\"additionalProperties\":false}"
        {"{\"oneOf\":[" KIND("a") "," KIND("b") "," KIND("c") "," KIND("d") "]}",
         {"{\"kind\":\"a\",\"v\":\"\",\"w\":\"x\"}", "{\"kind\":\"d\",\"w\":2}", NULL, "{\"w\":2}",
          "{\"kind\":\"d\",\"w\":\"\"}", "{\"kind\":\"e\",\"w\":2}", NULL}},
#undef KIND
        {"{\"$id\":\"http://x.y/a/b\",\"$ref\":\"c#/$defs/d\",\"$defs\":{\"q\":{\"$id\":\"c\","
         "\"$defs\":{\"d\":"
         "{\"$ref\":\"#e\"},\"e\":{\"$anchor\":\"e\",\"const\":5}}}}}",
         {"5", NULL, "6", NULL}},
    };

    check_examples(example, sizeof(example) / sizeof(*example));
}

/* Each property refers to another schema, by an anchor, a URI, a dynamic anchor, or an anchor within a URI. */
static void hundreds_of_references_find_their_schemas(void **state)
{
    enum { N = 400 };
    static const char *const name[] = {"$anchor\":\"a", "$id\":\"http://x.y/d", "$dynamicAnchor\":\"a",
                                       "$id\":\"http://x.y/d"},
                             *const reference[] = {"$ref\":\"#a", "$ref\":\"d", "$dynamicRef\":\"#a",
                                                   "$ref\":\"/d"};
    struct buf b = {.tag = MEM_TEXT};
    struct example example = {.schema = NULL};
    char yes[4][40], no[4][40];

    buf_fmt(&b, "{\"$id\":\"http://x.y/\",\"$defs\":{\"z\":{}");
    for (int i = 0; i < N; i++)
        buf_fmt(&b,
                ",\"d%d\":{\"%s%d\",\"const\":%d,\"$defs\":{\"q\":{\"$anchor\":\"in%d\",\"const\":\"%d\"}}}",
                i, name[i % 4], i, i, i % 4 == 3 ? 0 : i, i);
    buf_fmt(&b, "},\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < N; i++)
        buf_fmt(&b, "%s\"p%d\":{\"%s%d%s\"}", i ? "," : "", i, reference[i % 4], i, i % 4 == 3 ? "#in0" : "");
    buf_fmt(&b, "}}");
    buf_add(&b, "", 1);
    assert_false(b.oom);
    example.schema = b.data;
    for (int i = 0; i < 4; i++) {
        snprintf(yes[i], sizeof(yes[i]), i < 3 ? "{\"p%d\":%d}" : "{\"p%d\":\"%d\"}", 100 + i, 100 + i);
        snprintf(no[i], sizeof(no[i]), i < 3 ? "{\"p%d\":%d}" : "{\"p%d\":\"%d\"}", 100 + i, 104 + i);
        example.text[i] = yes[i];
        example.text[5 + i] = no[i];
    }
    check_examples(&example, 1);
    buf_fini(&b);
}

static void strings_are_limited_by_patterns_and_formats(void **state)
{
    static const struct example example[] = {
        /* the pattern of pydantic's Decimal */
        {"{\"pattern\":\"^(?!^[-+.]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$\",\"type\":\"string\"}",
         {"\"12.50\"", "\"-0\"", "\".5\"", NULL, "\"\"", "\"-.\"", "\"1.2.3\"", "\"1e5\"", "1", NULL}},
        {"{\"pattern\":\"^a+$\"}", {"\"aa\"", "1", NULL, "\"ab\"", "\"\"", NULL}},
        {"{\"pattern\":\"\\u00e9.\",\"maxLength\":3,\"type\":\"string\"}",
         {"\"x\\u00e9\\\\\"", "\"\xc3\xa9/\"", NULL, "\"x\xc3\xa9\"", "\"xx\xc3\xa9y\"", "\"x\\u00e8y\"",
          NULL}},
        {"{\"not\":{\"pattern\":\"n\"},\"type\":\"string\"}",
         {"\"a\\nb\"", "\"\\u00f1\"", NULL, "\"ana\"", NULL}},
        {"{\"properties\":{\"xy\":true},\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{\"minimum\":5}}}",
         {"{\"xy\":5}", NULL, "{\"xy\":4}", "{\"xy\":5.5}", NULL}},
        {"{\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{\"minimum\":5}},"
         "\"additionalProperties\":false,\"properties\":{\"xx\":{\"maximum\":7}}}",
         {"{\"xx\":7,\"xy\":6,\"y\":5.5}", "{\"x\":1}", NULL, "{\"xx\":8}", "{\"xy\":4}", "{\"xy\":5.5}",
          "{\"z\":1}", NULL}},
        {"{\"format\":\"date\"}",
         {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\"", NULL, "\"2023-02-29\"", "\"1900-02-29\"",
          "\"2023-04-31\"", "\"2023-4-1\"", NULL}},
        {"{\"format\":\"date-time\"}",
         {"\"2024-02-29T23:59:59.5Z\"", "\"2024-01-01t00:00:00+01:30\"", NULL, "\"2024-01-01T24:00:00Z\"",
          "\"2024-01-01T00:00:00\"", NULL}},
        {"{\"format\":\"ipv6\"}",
         {"\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"::ffff:1.2.3.4\"", "\"1::\"", NULL, "\"1::2::3\"",
          "\"12345::\"", "\"1:2:3:4:5:6:7\"", NULL}},
        {"{\"format\":\"hostname\"}", {"\"a-b.example\"", NULL, "\"-a\"", "\"a_b\"", "\"a..b\"", NULL}},
        {"{\"format\":\"email\"}", {"\"a.b+c@d.example\"", NULL, "\"a@\"", "\"@b\"", "\"a b@c\"", NULL}},
        {"{\"format\":\"duration\"}",
         {"\"P1Y2M\"", "\"PT5M\"", "\"P2W\"", NULL, "\"P\"", "\"PT1D\"", "\"P1YT\"", NULL}},
        {"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"format\":\"duration\"}",
         {"\"PT5M\"", NULL, "\"5 min\"", NULL}},
        {"{\"format\":\"uri\"}",
         {"\"http://a.b/c?d#e\"", "\"urn:x:y\"", "\"http://[::1]:80/\"", NULL, "\"//a\"", "\"a b\"",
          "\"http://a b\"", NULL}},
        /* the complement of a format is not the complement of the part of it that is written */
        {"{\"not\":{\"format\":\"email\"},\"type\":\"string\"}", {"\"a\"", NULL, "\"a b@c\"", NULL}},
        {"{\"format\":\"color\"}", {"\"x\"", NULL, "\"", NULL}},
        {"{\"format\":\"iri\"}",
         {"\"http://\\u00e9.b/\\u00e9?d\"", "\"urn:x\"", NULL, "\"a\"", "\"http://a b\"", NULL}},
        {"{\"format\":\"uri-template\"}",
         {"\"http://a/{b,c:3}{?d*}\"", "\"\"", NULL, "\"a/{\"", "\"{}\"", "\"a b\"", "\"}\"", NULL}},
        {"{\"format\":\"regex\"}",
         {"\"^(a|(?:b[^a-z-]{3,16}?)+)*\\\\d$\"", "\"\"", "\"(?=(x))\"", NULL, "\"*\"", "\"a**\"", "\"\\\\\"",
          "\"(a\"", "\"a)\"", "\"[b-a]\"", "\"x{2,1}\"", NULL}},
        {"{\"propertyNames\":{\"format\":\"regex\"}}", {"{\"a+\":1}", NULL, "{\"+\":1}", NULL}},
    };

    check_examples(example, sizeof(example) / sizeof(*example));
}

/* Names come in the order in which the schema has them first, and those that it only requires where they have a
 * place, or anywhere. */
static void properties_come_in_the_order_of_the_schema(void **state)
{
    static const struct example example[] = {
        {"{\"$defs\":{\"x\":{\"properties\":{\"c\":true,\"a\":true}}},"
         "\"properties\":{\"a\":true,\"b\":true},\"allOf\":[{\"$ref\":\"#/$defs/x\"}]}",
         {"{\"a\":1,\"b\":1,\"c\":1}", NULL, "{\"c\":1,\"a\":1}", NULL}},
        {"{\"allOf\":[{\"properties\":{\"x\":true}},{\"properties\":{\"y\":true}}],"
         "\"anyOf\":[{\"properties\":{\"z\":true}},{\"required\":[\"a\"]}],\"properties\":{\"a\":true}}",
         {"{\"x\":1,\"y\":1,\"z\":1,\"a\":1}", "{\"y\":1,\"a\":1}", NULL, "{\"y\":1,\"x\":1}",
          "{\"a\":1,\"x\":1}", NULL}},
        {"{\"required\":[\"c\",\"a\"],\"$ref\":\"#/$defs/x\","
         "\"$defs\":{\"x\":{\"properties\":{\"a\":true,\"b\":true,\"c\":true}}}}",
         {"{\"a\":1,\"b\":1,\"c\":1}", "{\"a\":1,\"c\":1}", NULL, "{\"c\":1,\"a\":1}", "{\"a\":1}", NULL}},
        {"{\"$ref\":\"#/$defs/x\",\"properties\":{\"a\":true},"
         "\"$defs\":{\"x\":{\"properties\":{\"b\":true}}}}",
         {"{\"a\":1,\"b\":1}", NULL, "{\"b\":1,\"a\":1}", NULL}},
    };

    check_examples(example, sizeof(example) / sizeof(*example));
}

/* In draft 4 an integer has neither a point nor an exponent. */
static void integers_of_draft_4_are_numerals(void **state)
{
    static const struct example example[] = {
        {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\",\"maximum\":20}",
         {"1", "-10", "20", NULL, "1.0", "1e0", "21", NULL}},
        {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"not\":{\"type\":\"integer\"}}",
         {"1.0", "1e1", "1.5", NULL, "1", NULL}},
        {"{\"$schema\":\"http://json-schema.org/draft-06/schema#\",\"type\":\"integer\"}",
         {"1", "0", "-3", NULL, "1.0", "1.5", NULL}},
        {"{\"$schema\":\"http://json-schema.org/draft-06/schema#\",\"not\":{\"type\":\"integer\"}}",
         {"1.5", NULL, "1", "1.0", "1e0", NULL}},
    };

    check_examples(example, sizeof(example) / sizeof(*example));
}

static void what_no_keyword_looks_at_is_checked(void **state)
{
    static const struct example example[] = {
        {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":true}}],\"properties\":{\"b\":true},"
         "\"unevaluatedProperties\":false}",
         {"{\"a\":1,\"b\":1}", "{}", NULL, "{\"c\":1}", NULL}},
        {"{\"properties\":{\"k\":true},"
         "\"anyOf\":[{\"properties\":{\"k\":{\"const\":1},\"a\":true},\"required\":[\"k\"]},"
         "{\"properties\":{\"b\":true},\"required\":[\"b\"]}],\"unevaluatedProperties\":{\"type\":\"null\"}}",
         {"{\"k\":1,\"a\":2}", "{\"k\":2,\"b\":1,\"a\":null}", "7", NULL, "{\"k\":2,\"b\":1,\"a\":2}",
          "{\"k\":1,\"c\":1}", NULL}},
        {"{\"prefixItems\":[true],\"contains\":{\"type\":\"null\"},\"unevaluatedItems\":false}",
         {"[1,null]", "[null]", NULL, "[1]", "[1,null,2]", NULL}},
        {"{\"unevaluatedItems\":false,\"dependentSchemas\":{\"a\":{\"items\":true}}}",
         {"[]", "1", NULL, "[1]", NULL}},
    };

    check_examples(example, sizeof(example) / sizeof(*example));
}

/* An answer has each value of `enum` and `const`, and each name, in the spelling of the schema, and integers in
 * digits. */
static void an_answer_has_the_spelling_of_the_schema(void **state)
{
    static const struct example example[] = {
        {"{\"const\":\"\\u001f\\u007f\\/\"}",
         {"\"\\u001f\x7f/\"", NULL, "\"\\u001F\x7f/\"", "\"\\u001f\\u007f/\"", NULL}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[\"\\u00e9\",\"b\",\"c\"]}}",
         {"[\"b\",\"\xc3\xa9\"]", NULL, "[\"b\",\"\\u00e9\"]", "[\"b\",\"b\"]", NULL}},
        /* another spelling of a name is no other name */
        {"{\"properties\":{\"\\u00e9\":{\"type\":\"null\"}},\"additionalProperties\":true}",
         {"{\"\xc3\xa9\":null}", "{\"\\u00e8\":1}", NULL, "{\"\\u00e9\":1}", "{\"\\u00e9\":null}", NULL}},
        {"{\"prefixItems\":[{\"const\":[1e23]},{\"multipleOf\":1}]}",
         {"[[100000000000000000000000],1]", NULL, "[[1e+23],1]", NULL}},
        {"{\"enum\":[1,2.50,-3,1e2,1e23,12345678901234567890123,0]}",
         {"1", "2.5", "-3", "100.0", "1e+23", "12345678901234567890123", "0", NULL, "1.0", "1e0", "2.50",
          "-3.0", NULL}},
        {"{\"const\":1.0}", {"1.0", NULL, "1", "1.00", "1e0", NULL}},
        {"{\"enum\":[\"a\\u00e9/\",\"\\u2028\\n\\u0001\\\"\\\\\",\"\",\"aa\"]}",
         {"\"a\xc3\xa9/\"", "\"\xe2\x80\xa8\\n\\u0001\\\"\\\\\"", "\"\"", "\"aa\"", NULL, "\"a\\u00e9/\"",
          "\"a\xc3\xa9\\/\"", "\"\\u2028\\n\\u0001\\\"\\\\\"", "\"\xe2\x80\xa8\\u000a\\u0001\\\"\\\\\"",
          "\"a\"", NULL}},
        {"{\"const\":\"\\u00e8\\t\"}", {"\"\xc3\xa8\\t\"", NULL, "\"\\u00e8\\t\"", NULL}},
        {"{\"const\":{\"\\u00e9/\":[1,{\"b\":null}]}}",
         {"{\"\xc3\xa9/\":[1,{\"b\":null}]}", "{ \"\xc3\xa9/\": [1, {\"b\": null}]}", NULL,
          "{\"\\u00e9/\":[1,{\"b\":null}]}", "{\"\xc3\xa9/\":[1.0,{\"b\":null}]}",
          "{\"\xc3\xa9/\" :[1,{\"b\":null}]}", NULL}},
        {"{\"properties\":{\"\\u00e9<\":true,\"a\":true,\"b\":true,\"c\":true}}",
         {"{\"\xc3\xa9<\":1}", "{\"a\":1,\"c\": 2}", NULL, "{\"\\u00e9<\":1}", "{\"\xc3\xa9\\u003c\":1}",
          "{\"a\" :1}", "{\"a\":1 ,\"c\":2}", NULL}},
        /* what is not named keeps every spelling */
        {"{\"type\":[\"string\",\"number\"]}", {"\"\\u00e9\"", "1.0", "1e0", "3.50", NULL, "1.", NULL}},
    };

    (void)state;
    schematexts_check(example, sizeof(example) / sizeof(*example), NULL);
}

/* The spellings of two keywords may contradict each other where their values do not. */
static void no_value_is_lost_by_its_spelling(void **state)
{
    static const struct example example[] = {
        {"{\"type\":\"integer\",\"enum\":[1.0,2,2.5,3e0]}", {"1", "2", "3", NULL, "1.0", "2.5", NULL}},
        {"{\"allOf\":[{\"type\":\"integer\"},{\"const\":4.0}]}", {"4", NULL, "4.0", "4e0", NULL}},
        {"{\"allOf\":[{\"const\":4},{\"const\":4.0}]}", {"4", NULL, "4.0", NULL}},
        {"{\"allOf\":[{\"const\":4.5},{\"enum\":[4.5,5]}]}", {"4.5", NULL, "5", "4.50", NULL}},
        {"{\"type\":\"integer\",\"multipleOf\":3,\"minimum\":-3,\"exclusiveMaximum\":6}",
         {"-3", "0", "-0", "3", NULL, "6", "3.0", "1", NULL}},
        {"{\"type\":[\"integer\",\"null\"],\"maximum\":-1}", {"-1", "-20", "null", NULL, "0", "-1.0", NULL}},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", {"1", "\"\"", NULL, "1.0", NULL}},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"number\",\"minimum\":0.5}]}",
         {"1", "1.0", "-1", NULL, "-1.0", "0.0", NULL}},
        {"{\"type\":[\"integer\",\"number\"]}", {"1", "1.0", "1.5", NULL}},
        {"{\"type\":\"integer\",\"not\":{\"enum\":[1,2]}}", {"3", "0", NULL, "1", "2", "3.0", NULL}},
        {"{\"type\":\"number\",\"not\":{\"const\":1}}", {"1.5", "2.0", NULL, "1", "1.0", "1e0", NULL}},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}",
         {"1", "2.5", "\"\"", NULL, "3", "3.0", "1.0", NULL}},
        /* where `multipleOf` occurs, no number has an exponent */
        {"{\"prefixItems\":[{\"const\":1e23},{\"multipleOf\":1}]}",
         {"[100000000000000000000000,1.0]", NULL, "[1e+23,1]", NULL}},
    };

    (void)state;
    schematexts_check(example, sizeof(example) / sizeof(*example), NULL);
}

/* An object has the properties that a keyword describes, wherever the schemas that apply to it describe them. */
static void an_answer_has_the_properties_of_the_schema(void **state)
{
    static const struct example example[] = {
        {"{\"properties\":{\"a\":true,\"b\":true},\"minProperties\":2}",
         {"{\"a\":1,\"b\":1}", NULL, "{\"a\":1,\"c\":1}", "{\"a\":1}", NULL}},
        {"{\"type\":\"object\",\"properties\":{\"a\":true}}",
         {"{}", "{\"a\":1}", NULL, "{\"b\":1}", "{\"a\":1,\"b\":1}", NULL}},
        {"{\"properties\":{}}", {"{}", "1", NULL, "{\"a\":1}", NULL}},
        {"{\"patternProperties\":{\"^x\":true}}", {"{}", "{\"x\":1,\"xy\":1}", NULL, "{\"a\":1}", NULL}},
        {"{\"properties\":{\"a\":true},\"patternProperties\":{\"^x\":{\"type\":\"null\"}}}",
         {"{\"a\":1}", "{\"a\":1,\"x\":null}", NULL, "{\"x\":1}", "{\"b\":1}", NULL}},
        /* schemas that name no properties, or allow others */
        {"{\"type\":\"object\"}", {"{}", "{\"a\":1}", NULL, "1", NULL}},
        {"{\"type\":\"object\",\"required\":[\"a\"]}", {"{\"a\":1}", "{\"a\":1,\"b\":1}", NULL, "{}", NULL}},
        {"{\"minProperties\":1,\"propertyNames\":{\"maxLength\":1}}",
         {"{\"a\":1}", "{\"a\":1,\"b\":1}", NULL, "{}", NULL}},
        {"{\"properties\":{\"a\":true},\"additionalProperties\":true}",
         {"{\"a\":1,\"b\":1}", NULL, "1.", NULL}},
        {"{\"properties\":{\"a\":true},\"additionalProperties\":{\"type\":\"null\"}}",
         {"{\"a\":1,\"b\":null}", NULL, "{\"a\":1,\"b\":1}", NULL}},
        {"{\"properties\":{\"a\":true},\"unevaluatedProperties\":true}",
         {"{\"a\":1,\"b\":1}", NULL, "1.", NULL}},
        {"{\"properties\":{\"a\":true},\"unevaluatedProperties\":{\"type\":\"null\"}}",
         {"{\"a\":1,\"b\":null}", NULL, "{\"a\":1,\"b\":1}", NULL}},
        {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"properties\":{\"a\":true},"
         "\"unevaluatedProperties\":true}",
         {"{\"a\":1}", NULL, "{\"a\":1,\"b\":1}", NULL}},
        /* properties that are required or that must be there are written, wherever they are named */
        {"{\"properties\":{\"a\":true},\"required\":[\"x\"]}",
         {"{\"x\":1}", "{\"a\":1,\"x\":1}", NULL, "{\"a\":1}", "{\"x\":1,\"y\":1}", NULL}},
        {"{\"properties\":{\"a\":true},\"dependentRequired\":{\"a\":[\"b\"]}}",
         {"{}", "{\"a\":1,\"b\":1}", NULL, "{\"a\":1}", "{\"a\":1,\"b\":1,\"c\":1}", NULL}},
        {"{\"properties\":{\"a\":true},\"minProperties\":1}",
         {"{\"a\":1}", NULL, "{}", "{\"b\":1}", "{\"a\":1,\"b\":1}", NULL}},
        {"{\"properties\":{\"a\":true},\"minProperties\":2}",
         {"{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}", NULL, "{\"a\":1}", NULL}},
        {"{\"properties\":{\"a\":{\"enum\":[]},\"b\":true},\"minProperties\":2}",
         {"{\"b\":1,\"c\":1}", NULL, "{\"a\":1,\"b\":1}", "{\"b\":1}", NULL}},
        {"{\"properties\":{\"a\":false,\"b\":true},\"minProperties\":2}",
         {"{\"b\":1,\"c\":1}", NULL, "{\"a\":1,\"b\":1}", NULL}},
        {"{\"type\":\"object\",\"properties\":{\"a\":true},\"not\":{\"properties\":{\"a\":true},"
         "\"additionalProperties\":false}}",
         {"{\"b\":1}", "{\"a\":1,\"b\":1}", NULL, "{}", "{\"a\":1}", NULL}},
        {"{\"properties\":{\"a\":true},\"type\":\"object\",\"not\":{\"required\":[\"b\"]}}",
         {"{}", "{\"a\":1}", NULL, "{\"b\":1}", "{\"c\":1}", NULL}},
    };
    static const struct schema_options open = {.is_open = true};
    struct compiled x;

    (void)state;
    schematexts_check(example, sizeof(example) / sizeof(*example), NULL);
    schematexts_compile(&x, example[0].schema, &open);
    assert_true(recognizer_matches(&x.recognizer, "{\"a\":1,\"b\":1}", 13));
    assert_false(recognizer_matches(&x.recognizer, "{\"b\":1,\"a\":1}", 13));
    schematexts_drop(&x);
}

/* A branch does not forbid what its siblings describe. */
static void schemas_of_one_object_are_closed_together(void **state)
{
    static const struct example example[] = {
        {"{\"properties\":{},\"allOf\":[{\"required\":[\"a\"]}]}",
         {"{\"a\":1}", NULL, "{}", "{\"a\":1,\"b\":1}", NULL}},
        {"{\"allOf\":[{\"properties\":{\"a\":true}},{\"properties\":{\"b\":true}}]}",
         {"{\"a\":1,\"b\":1}", "{\"b\":1}", NULL, "{\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}", NULL}},
        {"{\"properties\":{\"a\":true},\"allOf\":[{\"additionalProperties\":true}]}",
         {"{\"a\":1,\"c\":1}", NULL, "1.", NULL}},
        {"{\"properties\":{\"a\":true},\"allOf\":[{\"properties\":{\"b\":true},"
         "\"additionalProperties\":{\"type\":\"null\"}}]}",
         {"{\"a\":null,\"b\":1,\"c\":null}", NULL, "{\"c\":1}", "{\"a\":1}", NULL}},
        {"{\"$ref\":\"#/$defs/x\",\"properties\":{\"a\":true},"
         "\"$defs\":{\"x\":{\"properties\":{\"b\":true}}}}",
         {"{\"a\":1,\"b\":1}", NULL, "{\"c\":1}", NULL}},
        {"{\"properties\":{\"k\":true},\"anyOf\":[{\"properties\":{\"a\":true}}"
         ",{\"properties\":{\"b\":true}}]}",
         {"{\"k\":1,\"a\":1}", "{\"k\":1,\"b\":1}", "{}", NULL, "{\"k\":1,\"c\":1}", NULL}},
        /* the first branch allows every object; it must not hide what the others describe */
        {"{\"properties\":{\"k\":true},\"anyOf\":[{\"properties\":{\"k\":true}}"
         ",{\"properties\":{\"b\":true}}]}",
         {"{\"k\":1}", "{\"k\":1,\"b\":1}", NULL, "{\"c\":1}", NULL}},
        {"{\"properties\":{\"k\":true},\"anyOf\":[{\"properties\":{\"k\":true}}"
         ",{\"patternProperties\":{\"^b\":true}}]}",
         {"{\"k\":1}", "{\"k\":1,\"b\":1}", NULL, "{\"c\":1}", NULL}},
        {"{\"anyOf\":[{\"type\":\"object\"},{\"properties\":{\"k\":{\"type\":\"null\"}}}]}",
         {"{\"a\":1}", "{\"k\":null}", NULL, "1.", NULL}},
        {"{\"oneOf\":[{\"properties\":{\"t\":{\"const\":1},\"a\":true},\"required\":[\"t\"]},"
         "{\"properties\":{\"t\":{\"const\":2},\"b\":true},\"required\":[\"t\"]}],\"type\":\"object\"}",
         {"{\"t\":1,\"a\":1}", "{\"t\":2,\"b\":1}", NULL, "{\"t\":1,\"b\":1}", "{\"t\":1,\"c\":1}", NULL}},
        {"{\"type\":\"object\",\"properties\":{\"k\":true},\"if\":{\"properties\":{\"k\":{\"const\":1}},"
         "\"required\":[\"k\"]},"
         "\"then\":{\"properties\":{\"x\":true}},\"else\":{\"properties\":{\"y\":true}}}",
         {"{\"k\":1,\"x\":2}", "{\"k\":2,\"y\":2}", "{\"y\":2}", NULL, "{\"k\":1,\"y\":2}",
          "{\"k\":2,\"x\":2}", "{\"z\":1}", NULL}},
        {"{\"properties\":{\"a\":true},\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":true}}}}",
         {"{}", "{\"a\":1}", "{\"a\":1,\"b\":1}", NULL, "{\"a\":1,\"c\":1}", NULL}},
        {"{\"properties\":{\"o\":{\"properties\":{\"a\":true}},"
         "\"l\":{\"items\":{\"properties\":{\"b\":true}}}},\"additionalProperties\":true}",
         {"{\"o\":{\"a\":1},\"l\":[{\"b\":1}],\"z\":{\"c\":1}}", NULL, "{\"o\":{\"b\":1}}",
          "{\"l\":[{\"a\":1}]}", NULL}},
        {"{\"allOf\":[{\"properties\":{\"a\":true}}],\"properties\":{\"b\":true},"
         "\"unevaluatedProperties\":{\"type\":\"null\"}}",
         {"{\"a\":1,\"b\":1,\"c\":null}", NULL, "{\"c\":1}", NULL}},
    };

    (void)state;
    schematexts_check(example, sizeof(example) / sizeof(*example), NULL);
}

/* A name that the schema has comes once in an object, in whatever spelling. Others may come again and again, and count
 * each time. */
static void a_name_of_the_schema_comes_once(void **state)
{
    static const struct example example[] = {
        {"{\"properties\":{\"a\":true,\"\\u00e9\":true},\"additionalProperties\":true}",
         {"{\"a\":1,\"b\":1,\"c\":1}", "{\"b\":1,\"b\":1}", NULL, "{\"a\":1,\"a\":1}",
          "{\"a\":1,\"b\":1,\"a\":1}", "{\"a\":1,\"b\":1,\"\\u0061\":1}", "{\"\xc3\xa9\":1,\"\\u00e9\":1}",
          NULL}},
        {"{\"properties\":{\"a\":true},\"patternProperties\":{\"^a\":true}}",
         {"{\"a\":1,\"ab\":1}", NULL, "{\"a\":1,\"ab\":1,\"a\":1}", NULL}},
        {"{\"required\":[\"a\",\"b\"]}",
         {"{\"c\":1,\"b\":1,\"c\":1,\"a\":1}", NULL, "{\"b\":1,\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1,\"a\":1}",
          NULL}},
        {"{\"const\":{\"a\":1,\"b\":1}}", {"{\"a\":1,\"b\":1}", NULL, "{\"a\":1,\"b\":1,\"a\":1}", NULL}},
        {"{\"type\":\"object\",\"minProperties\":2}",
         {"{\"a\":1,\"b\":1}", "{\"a\":1,\"a\":1}", NULL, "{\"a\":1}", NULL}},
        {"{\"type\":\"object\",\"maxProperties\":2}",
         {"{\"a\":1,\"a\":1}", NULL, "{\"a\":1,\"a\":1,\"a\":1}", NULL}},
        {"{\"properties\":{\"a\":true},\"additionalProperties\":true,\"minProperties\":2}",
         {"{\"a\":1,\"b\":1}", "{\"b\":1,\"b\":1}", NULL, "{\"a\":1}", "{\"a\":1,\"a\":1}", NULL}},
        {"{\"propertyNames\":{\"enum\":[\"a\"]},\"type\":\"object\",\"minProperties\":2}",
         {"{\"a\":1,\"a\":1}", NULL, "{\"a\":1}", "{\"a\":1,\"b\":1}", NULL}},
    };

    (void)state;
    schematexts_check(example, sizeof(example) / sizeof(*example), NULL);
}

/* What is refused, with the keyword and the place. */
static void what_is_not_served_is_refused_by_name(void **state)
{
    static const struct {
        const char *schema, *keyword, *pointer;
        int code;
    } refused[] = {
        {"{\"items\":[true,{\"uniqueItems\":true}]}", "uniqueItems", "/items/1", ERR_UNSUPPORTED},
        {"{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}", "uniqueItems", "", ERR_UNSUPPORTED},
        {"{\"properties\":{\"a/b\":{\"multipleOf\":1234567}}}", "multipleOf", "/properties/a~1b",
         ERR_UNSUPPORTED},
        {"{\"$ref\":\"http://x.y/z\"}", "$ref", "", ERR_UNSUPPORTED},
        {"{\"$recursiveRef\":\"#\",\"$recursiveAnchor\":true,\"$defs\":{\"a\":{\"$id\":\"http://x.y/z\"}}}",
         "$recursiveRef", "", ERR_UNSUPPORTED},
        {"{\"$ref\":\"#/$defs/a\"}", "$ref", "", ERR_INPUT},
        {"{\"$ref\":\"#\"}", "$ref", "", ERR_INPUT},
        {"{\"not\":{\"type\":\"text\"}}", "type", "/not", ERR_INPUT},
        {"{\"minLength\":-1}", "minLength", "", ERR_INPUT},
        {"{\"required\":\"a\"}", "required", "", ERR_INPUT},
        {"{\"pattern\":\"(?<=a)b\"}", "pattern", "", ERR_UNSUPPORTED},
        {"{\"minimum\":true}", "minimum", "", ERR_INPUT},
        {"{\"multipleOf\":false}", "multipleOf", "", ERR_INPUT},
        {"{\"exclusiveMaximum\":\"1\"}", "exclusiveMaximum", "", ERR_INPUT},
        {"{\"type\":\"any\"}", "type", "", ERR_INPUT},
        /* keywords of draft 3 */
        {"{\"properties\":{\"a\":{\"type\":\"string\",\"required\":true}}}", "required", "/properties/a",
         ERR_UNSUPPORTED},
        {"{\"items\":{\"divisibleBy\":2}}", "divisibleBy", "/items", ERR_UNSUPPORTED},
        {"{\"divisibleBy\":0.5}", "divisibleBy", "", ERR_UNSUPPORTED},
        {"{\"disallow\":\"string\"}", "disallow", "", ERR_UNSUPPORTED},
        {"{\"disallow\":[\"string\"]}", "disallow", "", ERR_UNSUPPORTED},
        {"{\"disallow\":{\"type\":\"string\"}}", "disallow", "", ERR_UNSUPPORTED},
        {"{\"extends\":{\"type\":\"string\"}}", "extends", "", ERR_UNSUPPORTED},
        {"{\"extends\":[{\"type\":\"string\"}]}", "extends", "", ERR_UNSUPPORTED},
        {"{\"type\":[\"null\",{\"type\":\"string\"}]}", "type", "", ERR_UNSUPPORTED},
        /* no value is valid */
        {"false", "", "", ERR_INPUT},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":1}", "", "", ERR_INPUT},
        {"{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"array\",\"minItems\":1,"
         "\"items\":{\"enum\":[]}}}}",
         "", "", ERR_INPUT},
        {"{\"anyOf\":[]}", "anyOf", "", ERR_INPUT},
        {"[]", "", "", ERR_INPUT},
    };
    struct schema_options loose = {.is_loose = true};

    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        struct compiled x;

        schematexts_compile(&x, refused[i].schema, NULL);
        if (x.rc != refused[i].code)
            fail_msg("%s: %d %s", refused[i].schema, x.rc, x.e.msg);
        assert_string_equal(x.report.fault.keyword, refused[i].keyword);
        assert_string_equal(x.report.fault.pointer, refused[i].pointer);
        schematexts_drop(&x);
        schematexts_compile(&x, refused[i].schema, &loose);
        assert_int_equal(x.rc, refused[i].code == ERR_UNSUPPORTED ? 0 : refused[i].code);
        assert_int_equal(x.report.n, refused[i].code == ERR_UNSUPPORTED);
        if (x.report.n)
            assert_string_equal(x.report.warning[0].keyword, refused[i].keyword);
        schematexts_drop(&x);
    }
}

/* Words that only look like keywords of draft 3, and a form that asks for nothing. */
static void annotations_are_no_keywords_of_draft_3(void **state)
{
    static const struct example example[] = {
        {"{\"type\":\"null\",\"required\":false,\"extends\":\"base.json\",\"disallow\":true,"
         "\"divisibleBy\":\"2\"}",
         {"null", NULL, "1", NULL}},
        {"{\"properties\":{\"disallow\":{\"type\":\"null\"},\"extends\":true},\"required\":[\"extends\"]}",
         {"{\"disallow\":null,\"extends\":1}", NULL, "{\"disallow\":null}", "{\"disallow\":1,\"extends\":1}",
          NULL}},
        {"{\"minimum\":1,\"exclusiveMinimum\":false,\"maximum\":3,\"exclusiveMaximum\":true,\"type\":\"integer\"}",
         {"1", "2", NULL, "0", "3", NULL}},
        /* draft 3 and 4: a single name, or a list of names */
        {"{\"dependencies\":{\"a\":\"b\"},\"maxProperties\":2}",
         {"{}", "{\"b\":1,\"a\":1}", NULL, "{\"a\":1}", NULL}},
        {"{\"dependencies\":{\"a\":[\"b\"]},\"maxProperties\":2}",
         {"{}", "{\"b\":1,\"a\":1}", NULL, "{\"a\":1}", NULL}},
    };

    (void)state;
    schematexts_check(example, sizeof(example) / sizeof(*example), NULL);
}

/* Options that demand objects say so where the schema allows none. */
static void arguments_are_objects(void **state)
{
    static const struct schema_options o = {.pointer = "/tools/0/function/parameters", .is_object = true};
    static const struct {
        const char *schema, *sentence;
    } wrong[] = {
        {"{\"type\":\"string\"}",
         "schema at /tools/0/function/parameters: no text matches the schema, which must "
         "allow an object"},
        {"{\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}",
         "schema at /tools/0/function/parameters: no text matches the schema"},
    };
    struct compiled x;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        schematexts_compile(&x, wrong[i].schema, &o);
        assert_int_equal(x.rc, ERR_INPUT);
        assert_string_equal(x.e.msg, wrong[i].sentence);
        schematexts_drop(&x);
    }
    schematexts_compile(&x, "{\"type\":[\"string\",\"object\"],\"properties\":{\"a\":true}}", &o);
    assert_int_equal(x.rc, 0);
    assert_true(recognizer_matches(&x.recognizer, "{\"a\":1}", 7));
    assert_false(recognizer_matches(&x.recognizer, "\"\"", 2));
    schematexts_drop(&x);
}

static void white_space_is_what_the_options_say(void **state)
{
    static const char schema[] = "{\"type\":\"array\",\"items\":{\"type\":\"null\"}}";
    static const struct {
        struct schema_options o;
        const char *accepted, *refused;
    } example[] = {
        {{0}, "[\r\n\t  null,\n null\n]", "[\n\nnull]"},
        {{0}, "[null, null ]", "[null ,null]"},
        {{.without_space = true}, "[null,null]", "[ null]"},
        {{.space_pattern = "[ x]{1,2}"}, "[ null,  null ]", "[null]"},
        {{.space_pattern = "[ x]{1,2}"}, "[ null, null ]", "[ null , null ]"},
        {{.space_pattern = " ?"}, "[null, null]", "[  null]"},
        {{.space_pattern = "\\n|"}, "[null,\nnull\n]", "[ null]"},
    };
    struct schema_options bad = {.space_pattern = "x"};
    struct compiled x;

    for (size_t i = 0; i < sizeof(example) / sizeof(*example); i++) {
        schematexts_compile(&x, schema, &example[i].o);
        assert_int_equal(x.rc, 0);
        assert_true(recognizer_matches(&x.recognizer, example[i].accepted, strlen(example[i].accepted)));
        assert_false(recognizer_matches(&x.recognizer, example[i].refused, strlen(example[i].refused)));
        schematexts_drop(&x);
    }
    schematexts_compile(&x, schema, &bad);
    assert_int_equal(x.rc, ERR_INPUT);
    assert_non_null(strstr(x.e.msg, "white space"));
    schematexts_drop(&x);
}

/* Schemas that are small and whose combinations are many are refused; those that only look like it are served. */
static void combinations_are_limited(void **state)
{
    char text[4096], *at = text;
    struct compiled x;

    at += sprintf(at, "{\"allOf\":[");
    for (int i = 0; i < 30; i++)
        at += sprintf(at, "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}", i ? "," : "",
                      i, i);
    sprintf(at, "]}");
    schematexts_compile(&x, text, NULL);
    assert_int_equal(x.rc, ERR_NOSPACE);
    schematexts_drop(&x);

    at = text +
         sprintf(text, "{\"type\":\"object\",\"properties\":{\"k\":{\"type\":\"integer\"}},\"allOf\":[");
    for (int i = 0; i < 20; i++)
        at += sprintf(at,
                      "%s{\"if\":{\"properties\":{\"k\":{\"const\":%d}},\"required\":[\"k\"]},"
                      "\"then\":{\"required\":[\"r%d\"]}}",
                      i ? "," : "", i, i);
    sprintf(at, "]}");
    schematexts_compile(&x, text, NULL);
    assert_int_equal(x.rc, 0);
    assert_true(recognizer_matches(&x.recognizer, "{\"k\":7,\"r7\":0}", 14));
    assert_true(recognizer_matches(&x.recognizer, "{\"k\":27}", 8));
    assert_false(recognizer_matches(&x.recognizer, "{\"k\":7,\"r8\":0}", 14));
    schematexts_drop(&x);
}

/* Appends a property for each of STEP apart of N names, which have common prefixes. NAMES: a schema as the value. */
static void add_properties(struct buf *b, int n, int step, bool is_schema)
{
    buf_char(b, '{');
    for (int i = 0; i < n; i += step)
        buf_fmt(b, "%s\"%s_%d\":%s", i ? "," : "", i % 3 ? "option" : "opt\xc3\xa9", i,
                is_schema ? "{\"type\":\"integer\"}" : "12");
    buf_char(b, '}');
}

/* An object may have 1000 of thousands of optional properties. The states of a position with N alternatives took N
 * times the memory. */
static void thousands_of_optional_properties_take_little(void **state)
{
    static const struct {
        int n;
        const char *more;
    } size[] = {{2000, "\"additionalProperties\":false"},
                {10000, "\"additionalProperties\":false"},
                {10000, "\"minProperties\":1"},
                {2000, "\"required\":[\"x\"]"},
                {2000, "\"required\":[\"option_1000\"]"}};

    (void)state;
    for (size_t i = 0; i < sizeof(size) / sizeof(*size); i++) {
        struct buf schema = {.tag = MEM_TEXT}, text = {.tag = MEM_TEXT};
        struct compiled x;
        int n = size[i].n;

        buf_str(&schema, "{\"type\":\"object\",\"properties\":");
        add_properties(&schema, n, 1, true);
        buf_fmt(&schema, ",%s}", size[i].more);
        buf_char(&schema, 0);
        schematexts_compile(&x, schema.data, NULL);
        assert_int_equal(x.rc, 0);
        add_properties(&text, n, n / 1000, false);
        if (strstr(size[i].more, "\"x\"")) {
            assert_false(recognizer_matches(&x.recognizer, text.data, text.len));
            text.len--;
            buf_str(&text, ",\"x\":null}");
        }
        if (!recognizer_matches(&x.recognizer, text.data, text.len))
            fail_msg("%d optional properties and %s: fault %d", n, size[i].more, x.grammar.regex.fault);
        text.data[text.len - 1] = ',';
        buf_str(&text, "\"option_1\":1}"); /* in its place it would be valid */
        assert_int_equal(recognizer_matches(&x.recognizer, text.data, text.len), false);
        assert_int_equal(x.grammar.regex.fault, REGEX_FINE);
        schematexts_drop(&x);
        buf_fini(&schema);
        buf_fini(&text);
    }
}

/* Names that begin with another name, that end in the middle of a character of another one, and the empty name. */
static void names_with_common_prefixes_are_told_apart(void **state)
{
    static const struct example example[] = {
        {"{\"properties\":{\"\":true,\"ab\":true,\"a\":true,\"abc\":true,\"\u00e9\":true,\"\u00e8x\":true,"
         "\"a\\\"b\":true},\"additionalProperties\":false,\"required\":[\"a\"]}",
         {"{\"a\":1}", "{\"\":1,\"ab\":1,\"a\":1}",
          "{\"ab\":1,\"a\":1,\"abc\":2,\"\\u00e9\":3,\"\xc3\xa8x\":4}", "{\"a\": 1, \"a\\\"b\": 2}", NULL,
          "{}", "{\"ab\":1}", "{\"a\":1,\"ab\":1}", "{\"a\":1,\"\":1}", "{\"a\":1,\"a\":1}",
          "{\"a\":1,\"\xc3\xa8\":1}", "{\"a\":1,\"abcd\":1}", NULL}},
        {"{\"properties\":{\"aa\":true,\"ab\":true,\"ac\":true,\"b\":true},\"additionalProperties\":false,"
         "\"minProperties\":2,\"maxProperties\":3}",
         {"{\"aa\":1,\"b\":1}", "{\"ab\":1,\"ac\":1,\"b\":1}", NULL, "{\"aa\":1}", "{}",
          "{\"aa\":1,\"ab\":1,\"ac\":1,\"b\":1}", "{\"ab\":1,\"aa\":1}", NULL}},
    };

    (void)state;
    check_examples(example, sizeof(example) / sizeof(*example));
}

static void every_allocation_may_fail(void **state)
{
    static const char schema[] =
        "{\"$id\":\"http://x.y/z\",\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,\"x\","
        "\"y\",{\"b\":[null]}]},"
        "\"c\":{\"$ref\":\"#\"},\"d\":{\"oneOf\":[{\"minimum\":3},{\"maxLength\":4,\"pattern\":\"a[^b]\"}],"
        "\"not\":{\"required\":[\"q\"]}},\"e\":true,\"cd\":true},"
        "\"items\":{\"contains\":{\"multipleOf\":0.5}},\"uniqueItems\":false}";
    struct schema_options loose = {.is_loose = true};

    for (long n = 1;; n++) {
        size_t blocks = mem_live_blocks();
        struct compiled x = {0};
        uint32_t start;

        assert_int_equal(json_pull_load_exact(&x.json, schema, strlen(schema), "schema", &x.e), 0);
        mem_fail_at(n);
        x.rc = grammar_open(&x.grammar, SCHEMATEXTS_MEMORY, SCHEMATEXTS_STEPS);
        if (x.rc == 0)
            x.rc = schema_compile(&x.grammar, x.json, &loose, &start, &x.report, &x.e);
        if (x.rc == 0)
            x.rc = grammar_finish(&x.grammar, start, &x.e);
        if (x.rc == 0)
            x.rc = recognizer_open(&x.recognizer, &x.grammar, &x.e);
        if (!mem_failed()) {
            mem_fail_at(0);
            assert_int_equal(x.rc, 0);
            schematexts_drop(&x);
            break;
        }
        mem_fail_at(0);
        if (x.rc != ERR_NOMEM)
            fail_msg("allocation %ld: %d %s", n, x.rc, x.e.msg);
        schematexts_drop(&x);
        assert_int_equal(mem_live_blocks(), blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_and_values_are_compared_as_json_compares_them),
        cmocka_unit_test(numbers_are_limited_by_value),
        cmocka_unit_test(arrays_are_checked_by_index_and_count),
        cmocka_unit_test(objects_have_members_in_order_and_then_others),
        cmocka_unit_test(subschemas_are_joined),
        cmocka_unit_test(hundreds_of_references_find_their_schemas),
        cmocka_unit_test(strings_are_limited_by_patterns_and_formats),
        cmocka_unit_test(properties_come_in_the_order_of_the_schema),
        cmocka_unit_test(integers_of_draft_4_are_numerals),
        cmocka_unit_test(what_no_keyword_looks_at_is_checked),
        cmocka_unit_test(an_answer_has_the_spelling_of_the_schema),
        cmocka_unit_test(no_value_is_lost_by_its_spelling),
        cmocka_unit_test(an_answer_has_the_properties_of_the_schema),
        cmocka_unit_test(schemas_of_one_object_are_closed_together),
        cmocka_unit_test(a_name_of_the_schema_comes_once),
        cmocka_unit_test(what_is_not_served_is_refused_by_name),
        cmocka_unit_test(annotations_are_no_keywords_of_draft_3),
        cmocka_unit_test(arguments_are_objects),
        cmocka_unit_test(white_space_is_what_the_options_say),
        cmocka_unit_test(combinations_are_limited),
        cmocka_unit_test(thousands_of_optional_properties_take_little),
        cmocka_unit_test(names_with_common_prefixes_are_told_apart),
        cmocka_unit_test(every_allocation_may_fail),
    };

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
