/* test_names.c - the names of an object are distinct: texts, and token masks along random answers against a reader of
 * JSON that knows nothing of grammars.
 */
#include <time.h>

#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "shorttexts.h"
#include "text/grammar/constraint.h"
#include "text/grammar/names.h"
#include "text/grammar/schema/json_names.h"
#include "text/grammar/schema/json_text.h"
#include "text/grammar/schema/schema.h"

enum { MEMORY = 64 << 20, STEPS = 1 << 24, MOST_TEXT = 4096 };

/* A grammar of the values of a schema, without a look at names. */
struct plain {
    json_t *json;
    struct grammar g;
    struct recognizer r;
};

static void plain_open(struct plain *p, const char *schema)
{
    struct schema_report report = {0};
    struct err e = {0};
    uint32_t start;

    if (json_pull_load_exact(&p->json, schema, strlen(schema), "schema", &e) ||
        grammar_open(&p->g, MEMORY, STEPS) || schema_compile(&p->g, p->json, NULL, &start, &report, &e) ||
        grammar_finish(&p->g, start, &e) || recognizer_open(&p->r, &p->g, &e))
        fail_msg("%s: %s", schema, e.msg);
    schema_report_fini(&report);
}

static void plain_close(struct plain *p)
{
    recognizer_close(&p->r);
    grammar_close(&p->g);
    json_decref(p->json);
}

static const struct example {
    const char *schema, *text;
    bool yes;
} distinct[] = {
    {"{}", "{\"a\":1,\"b\":1,\"\":1,\"ab\":1}", true},
    {"{}", "{\"a\":1,\"b\":1,\"a\":2}", false},
    {"{}", "{\"\":1,\"\":1}", false},
    {"{}", "{\"a\":1,\"b\":{\"a\":1,\"b\":[{\"a\":1},{\"a\":1}]},\"c\":1}", true},
    {"{}", "{\"a\":1,\"b\":{\"a\":1,\"b\":[{\"a\":1,\"c\":[],\"a\":1}]},\"c\":1}", false},
    {"{}", "{\"b\":{\"a\":1,\"c\":[]},\"b\":1}", false},
    {"[]", "[[{\"a\":1},{\"a\":1}]]", true},
    {"{}", "{\"a\" : \"a\" , \"c\" : \"b\" ,\n\"b\":1}", true},
    {"{}", "{\"a\" : \"a\" , \"b\" : \"b\" ,\n\"a\":1}", false},
    /* marks inside strings */
    {"{}", "{\"a\":\"{\",\"b\":\"}\",\"c\":\",\\\"b\\\":\",\"d\":1}", true},
    {"{}", "{\"a\":\"{\",\"b\":\"}\",\"c\":\",\\\"b\\\":\",\"b\":1}", false},
    {"{}", "{\"a\\\\\":\"\\\\\",\"a\\\"\":\"\\\\\\\"\",\"a\":1}", true},
    {"{}", "{\"a\\\\\":\"\\\\\",\"a\\\"\":\"\\\\\\\"\",\"a\\\\\":1}", false},
    {"{}", "{\"a\\\\\":\"\\\\\",\"a\\\"\":\"\\\\\\\"\",\"a\\\"\":1}", false},
    /* equal values in other spellings */
    {"{}", "{\"\xc3\xa9\":1,\"\\u00e9\":1}", false},
    {"{}", "{\"\\u00E9x\":1,\"\\u00e9y\":1}", true},
    {"{}", "{\"\\u00E9\":1,\"\\u00e9\":1}", false},
    {"{}", "{\"/\":1,\"\\/\":1}", false},
    {"{}", "{\"\\n\":1,\"\\u000A\":1}", false},
    {"{}", "{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\uDE00\":1}", false},
    {"{}", "{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\uDE01\":1}", true},
    {"{}", "{\"\\u00e9\":1,\"\xc3\":1}", false}, /* not UTF-8 */
    /* names of the schema and others */
    {"{\"properties\":{\"a\":{}}}", "{\"a\":1,\"b\":1,\"c\":1}", true},
    {"{\"properties\":{\"a\":{}}}", "{\"a\":1,\"b\":1,\"b\":1}", false},
    {"{\"properties\":{\"a\":{}}}", "{\"a\":1,\"b\":1,\"a\":1}", false},
    {"{\"patternProperties\":{\"^a\":{},\"b$\":{}}}", "{\"a\":1,\"ab\":1,\"b\":1,\"c\":1}", true},
    {"{\"patternProperties\":{\"^a\":{},\"b$\":{}}}", "{\"a\":1,\"ab\":1,\"b\":1,\"ab\":1}", false},
    {"{\"required\":[\"a\",\"b\"]}", "{\"c\":1,\"b\":1,\"a\":1,\"d\":1}", true},
    {"{\"required\":[\"a\",\"b\"]}", "{\"c\":1,\"b\":1,\"a\":1,\"c\":1}", false},
    {"{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
     "{\"minProperties\":2}]}",
     "{\"a\":1,\"a\":1}", false},
    {"{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
     "{\"minProperties\":2}]}",
     "{\"b\":1,\"a\":2}", true},
    {"{\"not\":{\"additionalProperties\":{\"type\":\"integer\"}}}", "{\"a\":1,\"b\":\"\",\"c\":1}", true},
    {"{\"not\":{\"additionalProperties\":{\"type\":\"integer\"}}}", "{\"a\":1,\"b\":\"\",\"b\":1}", false},
    {"{\"unevaluatedProperties\":{\"type\":\"integer\"},\"properties\":{\"a\":{}}}",
     "{\"a\":1,\"b\":1,\"c\":1}", true},
    {"{\"unevaluatedProperties\":{\"type\":\"integer\"},\"properties\":{\"a\":{}}}",
     "{\"a\":1,\"b\":1,\"b\":1}", false},
    /* distinct elements */
    {"{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}", "[\"a\",\"b\",\"\",\"ab\"]", true},
    {"{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}", "[\"a\",\"b\",\"\",\"a\"]", false},
    {"{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}", "[\"\\u00e9\",\"\xc3\xa9\"]", false},
    {"{\"uniqueItems\":true,\"items\":{\"type\":\"string\"},\"minItems\":3}", "[\"a\",\"b\"]", false},
    {"{\"items\":{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}}", "[[\"a\"],[\"a\"]]", true},
    {"{\"items\":{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}}", "[[\"a\",\"a\"]]", false},
    {"{\"additionalProperties\":{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}}",
     "{\"a\":[\"a\",\"b\"],\"b\":[\"b\"]}", true},
    {"{\"additionalProperties\":{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}}",
     "{\"a\":[\"a\",\"b\"],\"a\":[\"b\"]}", false},
    {"{\"anyOf\":[{\"uniqueItems\":true,\"items\":{\"type\":\"string\"}},{\"items\":{\"const\":\"a\"}}]}",
     "[\"a\",\"a\"]", true},
};

static void texts_with_equal_names_are_refused(void **state)
{

    (void)state;
    for (size_t i = 0; i < sizeof(distinct) / sizeof(*distinct); i++) {
        const char *schema = *distinct[i].schema == '[' ? "{}" : distinct[i].schema;
        struct plain p;

        plain_open(&p, schema);
        if (names_match(&p.r, distinct[i].text, strlen(distinct[i].text)) != distinct[i].yes)
            fail_msg("%s: %s is %s", schema, distinct[i].text, distinct[i].yes ? "refused" : "accepted");
        plain_close(&p);
    }
}

/* minProperties counts names, each once, and a number of names that cannot be reached allows no object. */
static void few_names_are_counted(void **state)
{
    static const struct example example[] = {
        {"{\"type\":\"object\",\"minProperties\":2}", "{\"a\":1,\"a\":2}", false},
        {"{\"type\":\"object\",\"minProperties\":2}", "{\"a\":1,\"b\":2}", true},
        {"{\"propertyNames\":{\"enum\":[\"a\",\"b\"]}}", "{\"b\":1,\"a\":2}", true},
        {"{\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"minProperties\":2}", "{\"b\":1,\"a\":2}", true},
        {"{\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"minProperties\":3}", "{\"b\":1,\"a\":2,\"a\":1}",
         false},
        {"{\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"minProperties\":3}", "3", true},
        {"{\"propertyNames\":{\"enum\":[\"a\"]},\"maxProperties\":5}", "{\"a\":1}", true},
        {"{\"propertyNames\":{\"maxLength\":0}}", "{\"\":1}", true},
        {"{\"propertyNames\":{\"maxLength\":0}}", "{}", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(example) / sizeof(*example); i++) {
        struct plain p;

        plain_open(&p, example[i].schema);
        if (names_match(&p.r, example[i].text, strlen(example[i].text)) != example[i].yes)
            fail_msg("%s: %s is %s", example[i].schema, example[i].text,
                     example[i].yes ? "refused" : "accepted");
        plain_close(&p);
    }
}

/* More strings are demanded than are counted. */
static void long_arrays_of_distinct_strings_are_possible(void **state)
{
    static const char schema[] =
        "{\"uniqueItems\":true,\"minItems\":1002,\"items\":{\"type\":\"string\",\"minLength\":1}}";
    enum { MOST = 1003 };
    struct plain p;
    char text[MOST * 8];

    (void)state;
    for (int n = MOST - 2; n <= MOST; n++) {
        int at = 0;

        for (int i = 0; i < n; i++)
            at += snprintf(text + at, sizeof(text) - (size_t)at, "%c\"%d\"", i ? ',' : '[', i);
        snprintf(text + at, sizeof(text) - (size_t)at, "]");
        plain_open(&p, schema);
        if (names_match(&p.r, text, strlen(text)) != (n >= 1002))
            fail_msg("%d strings are %s", n, n >= 1002 ? "refused" : "accepted");
        plain_close(&p);
    }
}

static void names_of_an_expression_are_counted_by_value(void **state)
{
    struct grammar g;
    struct json_text j;
    struct json_string name[] = {{"a", 1}, {"a/b", 3}, {"\xc3\xa9", 2}, {"\n", 1}, {"\x01", 1}, {"\"\\", 2}};
    uint32_t two;

    (void)state;
    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    json_text_init(&j, &g.regex, false);
    assert_int_equal(json_names_count(&g.regex, REGEX_NOTHING, 9), 0);
    assert_int_equal(json_names_count(&g.regex, REGEX_EMPTY, 9), 1);
    assert_int_equal(json_names_count(&g.regex, json_text_one_of(&j, name, 6), 9), 6);
    assert_int_equal(json_names_count(&g.regex, json_text_one_of(&j, name, 6), 6), 6);
    assert_int_equal(json_names_count(&g.regex, json_text_one_of(&j, name, 6), 5), 6);
    assert_int_equal(json_names_count(&g.regex, j.string, 99), 100);
    two = regex_repeat(&g.regex, json_text_characters(&g.regex, 0, 0x2f), 1, 2);
    assert_int_equal(json_names_count(&g.regex, two, 9999), 48 + 48 * 48);
    two = regex_repeat(&g.regex, json_text_characters(&g.regex, 0xfffe, 0x10001), 1, 1);
    assert_int_equal(json_names_count(&g.regex, two, 9999), 4);
    grammar_close(&g);
}

/* ---- a reader of JSON that is cut anywhere ---- */

static uint32_t hex(const char *s)
{
    char digits[5] = {s[0], s[1], s[2], s[3]};

    return (uint32_t)strtoul(digits, NULL, 16);
}

/* Decodes the contents S [n] of a string, as far as they go. Returns the bytes. */
static size_t decoded(const char *s, size_t n, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t c = 0, low = 0;

        if (s[i] != '\\') {
            out[len++] = s[i];
            continue;
        }
        if (++i < n && s[i] != 'u') {
            out[len++] = to[strchr(from, s[i]) - from];
            continue;
        }
        if (i + 4 >= n)
            break;
        c = hex(s + i + 1);
        i += 4;
        if (c >= 0xd800 && c < 0xe000) {
            if (i + 6 >= n)
                break;
            low = hex(s + i + 3);
            i += 6;
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        }
        len += utf8_encode(c, out + len);
    }
    return len;
}

struct names_seen {
    char text[64][MOST_TEXT / 8];
    size_t len[64], n;
};

static bool are_elements_distinct; /* strings in arrays are compared, too */

/* True if an object of TEXT [n], which may be incomplete, has two equal names. */
static bool has_equal_names(const char *text, size_t n)
{
    static struct names_seen level[64];
    static bool is_object[64];
    int depth = 0;
    bool at_name = false;

    for (size_t i = 0; i < n; i++) {
        struct names_seen *x = &level[depth];
        size_t end = i + 1;

        if (text[i] == '{' || text[i] == '[') {
            depth++;
            is_object[depth] = text[i] == '{';
            at_name = is_object[depth] || are_elements_distinct;
            level[depth].n = 0;
        } else if (text[i] == '}' || text[i] == ']') {
            depth--;
            at_name = false;
        } else if (text[i] == ',') {
            at_name = is_object[depth] || are_elements_distinct;
        } else if (text[i] == '"') {
            while (end < n && text[end] != '"')
                end += text[end] == '\\' ? 2 : 1;
            if (end >= n)
                return false;
            if (at_name) {
                x->len[x->n] = decoded(text + i + 1, end - i - 1, x->text[x->n]);
                for (size_t k = 0; k < x->n; k++)
                    if (x->len[k] == x->len[x->n] && memcmp(x->text[k], x->text[x->n], x->len[k]) == 0)
                        return true;
                x->n++;
            }
            at_name = false;
            i = end;
        }
    }
    return false;
}

/* ---- random answers ---- */

enum { IDS = 190, MOST_TOKEN = 12 };

/* Opens a byte-level vocabulary of the texts TOKEN [n]. */
static struct constraint_vocabulary *open_vocabulary(char (*token)[MOST_TOKEN + 1], size_t n)
{
    struct constraint_vocabulary *v = NULL;
    struct buf json = {.tag = MEM_TEXT};
    struct err e = {0};
    struct tok *tok;

    buf_str(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (size_t i = 0; i < n; i++) {
        buf_str(&json, i ? ",\"" : "\"");
        for (const char *p = token[i]; *p; p++) {
            char wide[5] = {0};

            wide[utf8_encode(*p == ' ' ? 0x120 : (unsigned char)*p, wide)] = 0;
            buf_str(&json, *p == '"' || *p == '\\' ? "\\" : "");
            buf_str(&json, wide);
        }
        buf_fmt(&json, "\":%zu", i);
    }
    buf_str(&json, "},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                   "\"decoder\":{\"type\":\"ByteLevel\"}}");
    if (tok_open_json(&tok, json.data, json.len, "t", &e) || constraint_vocabulary_new(&v, tok, &e))
        fail_msg("%s", e.msg);
    tok_close(tok);
    buf_fini(&json);
    return v;
}

/* A vocabulary of single bytes and of random pieces of objects. */
static struct constraint_vocabulary *make_vocabulary(char token[IDS][MOST_TOKEN + 1])
{
    static const char *const piece[] = {
        "\"", "\"", "\"",      "\":", "\":1",     "\",\"", ",\"",   "{\"", "\"}", ",", "a", "b", "1", "{",
        "}",  " ",  "\\u00e9", "\\",  "\xc3\xa9", "\\n",   "\"a\"", ":",   "/",   "u", "0", "[", "]"};
    static const char bytes[] = "{}[]\"ab1:,\\un0e9/ \xc3\xa9"
                                "2fFAElrts";

    for (size_t i = 0; i < IDS; i++) {
        char *t = token[i];
        bool is_new;

        do {
            int n = 2 + (int)short_dice(4);

            *t = 0;
            if (i < sizeof(bytes) - 1)
                sprintf(t, "%c", bytes[i]);
            while (i >= sizeof(bytes) - 1 && n-- > 0) {
                const char *next = piece[short_dice(sizeof(piece) / sizeof(*piece))];

                if (strlen(t) + strlen(next) <= MOST_TOKEN)
                    strcat(t, next);
            }
            is_new = true;
            for (size_t k = 0; k < i && is_new; k++)
                is_new = strcmp(token[k], t) != 0;
        } while (!is_new);
    }
    return open_vocabulary(token, IDS);
}

/* True if TEXT [n], which leads to ROW inside a name, can be continued to the end of a name that is new. */
static bool may_end_name(struct recognizer *r, uint32_t row, char *text, size_t n, int most)
{
    static const char order[] = "\"ab\\un/0e9\xc3\xa9rtf\\c2345678d1FAE";

    for (size_t i = 0; i < sizeof(order) - 1; i++) {
        bool escaped = false;
        uint32_t to = recognizer_next(r, row, (uint8_t)order[i]);

        for (size_t k = n; k > 0 && text[k - 1] == '\\'; k--)
            escaped = !escaped;
        if (to == RECOGNIZER_DEAD)
            continue;
        text[n] = order[i];
        if (order[i] == '"' && !escaped ? !has_equal_names(text, n + 1)
                                        : most > 0 && may_end_name(r, to, text, n + 1, most - 1))
            return true;
    }
    return false;
}

/* True if TEXT ends inside a string. */
static bool is_in_string(const char *text, size_t n)
{
    bool is_in = false;

    for (size_t i = 0; i < n; i++)
        if (text[i] == '"')
            is_in = !is_in;
        else if (text[i] == '\\' && is_in)
            i++;
    return is_in;
}

/* Compares the mask of RUN, whose tokens are TEXT [n], with the definition. Returns the number of tokens. */
static size_t check_mask(struct constraint_run *run, struct recognizer *r, uint32_t row, char *text, size_t n,
                         char token[IDS][MOST_TOKEN + 1], uint32_t *mask)
{
    size_t n_allowed, n_bits = 0, n_tokens = run->n;
    struct err e = {0};

    memset(mask, 0, (IDS + 31) / 32 * sizeof(*mask));
    n_allowed = constraint_run_mask(run, mask, &e);
    for (int32_t id = 0; id < IDS; id++) {
        bool allowed = mask[id / 32] >> id % 32 & 1, added = constraint_run_add(run, id), expected;
        size_t len = strlen(token[id]);
        uint32_t to = row;

        constraint_run_truncate(run, n_tokens);
        memcpy(text + n, token[id], len);
        for (size_t i = 0; i < len; i++)
            to = recognizer_next(r, to, (uint8_t)token[id][i]);
        expected = to != RECOGNIZER_DEAD && !has_equal_names(text, n + len) &&
                   (!recognizer_in_name(r, to) || !is_in_string(text, n + len) ||
                    may_end_name(r, to, text, n + len, 12));
        if (allowed != expected || added != expected)
            fail_msg("%.*s: the token %s is %s, added: %d, expected: %d", (int)n, text, token[id],
                     allowed ? "allowed" : "left out", added, expected);
        n_bits += allowed;
    }
    assert_int_equal(n_allowed, n_bits);
    return n_allowed;
}

static int32_t pick(const uint32_t *mask, char token[IDS][MOST_TOKEN + 1], size_t n_text)
{
    int32_t id = (int32_t)short_dice(IDS);

    /* prefers what ends or begins names; later only what closes */
    for (int tries = 0; tries < 200; tries++, id = (int32_t)short_dice(IDS))
        if (mask[id / 32] >> id % 32 & 1 &&
            (tries > 100 || (n_text > 150 ? strpbrk(token[id], "}]") != NULL && !strpbrk(token[id], "{[")
                                          : tries > 20 || strpbrk(token[id], "\",") != NULL)))
            return id;
    while (!(mask[id / 32] >> id % 32 & 1))
        id = (id + 1) % IDS;
    return id;
}

/* Writes a random answer, with steps back, and compares all masks. */
static void write_answer(struct constraint *c, struct plain *p, char token[IDS][MOST_TOKEN + 1])
{
    enum { LENGTH = 60 };
    uint32_t row[LENGTH + 1] = {RECOGNIZER_BEGIN}, mask[(IDS + 31) / 32];
    size_t end[LENGTH + 1] = {0}, n = 0, n_back = 0;
    char text[MOST_TEXT];
    struct constraint_run run;
    json_t *value = NULL;
    struct err e = {0};

    assert_int_equal(constraint_run_open(&run, c, LENGTH, &e), 0);
    for (;;) {
        int32_t id;

        if (check_mask(&run, &p->r, row[n], text, end[n], token, mask) == 0 || n == LENGTH - 1) {
            if (!constraint_run_may_end(&run) && n < LENGTH - 1)
                fail_msg("%.*s: a dead end", (int)end[n], text);
            break;
        }
        if (n > 3 && n_back < 10 && short_dice(6) == 0) {
            n_back++;
            n -= 1 + short_dice(3);
            constraint_run_truncate(&run, n);
            continue;
        }
        id = pick(mask, token, end[n]);
        memcpy(text + end[n], token[id], strlen(token[id]));
        assert_true(constraint_run_add(&run, id));
        row[n + 1] = row[n];
        for (const char *t = token[id]; *t; t++)
            row[n + 1] = recognizer_next(&p->r, row[n + 1], (uint8_t)*t);
        end[n + 1] = end[n] + strlen(token[id]);
        n++;
    }
    if (constraint_run_may_end(&run) && json_pull_load(&value, text, end[n], "text", &e) != 0 &&
        !strstr(e.msg, "integer") && !strstr(e.msg, "number"))
        fail_msg("%.*s: %s", (int)end[n], text, e.msg);
    json_decref(value);
    constraint_run_close(&run);
}

static void masks_allow_no_name_twice(void **state)
{
    static const char *const schema[] = {
        "{\"type\":\"object\"}",
        "{}",
        "{\"type\":\"object\",\"minProperties\":4,\"additionalProperties\":{\"type\":\"integer\"}}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":{}},\"required\":[\"a\"],"
        "\"minProperties\":3}",
        "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\",\"ab\",\"\xc3\xa9\"]},\"minProperties\":3}",
        "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"/\",\"\\n\",\"\\\"\",\"\xc3\xa9\",\"\xc3\xa9/\"]},"
        "\"minProperties\":5,\"additionalProperties\":{\"const\":1}}",
        "{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[ab]{0,2}$\"},\"minProperties\":7,"
        "\"additionalProperties\":{\"const\":1}}",
        "{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"const\":1},\"b$\":{}},"
        "\"additionalProperties\":false}",
        "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
        "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},\"minProperties\":2}]}",
        "{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^(a|b.*)$\"},"
        "\"additionalProperties\":{\"enum\":[1,{}]}}",
        "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"additionalProperties\":{\"const\":1}}}",
        "{\"type\":\"object\",\"required\":[\"a\",\"b\"],\"additionalProperties\":{\"const\":1}}",
        "{\"type\":\"object\",\"required\":[\"a\"],\"propertyNames\":{\"enum\":[\"a\",\"b\",\"ab\"]},"
        "\"additionalProperties\":{\"const\":1}}",
        "{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"const\":1}},\"minProperties\":2,"
        "\"propertyNames\":{\"enum\":[\"a\",\"b\",\"ab\"]},\"additionalProperties\":{\"enum\":[1,2]}}",
        "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"},\"minItems\":3}",
        "{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":12,\"items\":{\"enum\":[\"a\",\"b\",\"ab\",\"ba\","
        "\"aa\",\"bb\",\"/\",\"\\n\",\"\xc3\xa9\",\"\",\"1\",\"a\xc3\xa9\"]}}",
        "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"array\",\"uniqueItems\":true,"
        "\"items\":{\"type\":\"string\",\"pattern\":\"^[ab]\"}}}",
    };

    (void)state;
    for (size_t round = 0; round < 136; round++) {
        char token[IDS][MOST_TOKEN + 1];
        struct constraint_vocabulary *v = make_vocabulary(token);
        const char *text = schema[round % (sizeof(schema) / sizeof(*schema))];
        struct constraint_source source = {.kind = CONSTRAINT_JSON_SCHEMA, .text = text, .n = strlen(text)};
        struct constraint *c = NULL;
        struct plain p;
        struct err e = {0};

        are_elements_distinct = strstr(text, "uniqueItems") != NULL;
        plain_open(&p, text);
        if (constraint_new(&c, &source, v, NULL, &e))
            fail_msg("%s: %s", text, e.msg);
        for (int i = 0; i < 4; i++)
            write_answer(c, &p, token);
        assert_int_equal(constraint_error(c, &e), 0);
        constraint_free(c);
        constraint_vocabulary_free(v);
        plain_close(&p);
    }
}

/* Writes an object of bytes, which closes as late as possible, and checks that each beginning can be continued. */
static void write_long(struct constraint *c, const char *schema, const char *bytes, size_t n)
{
    enum { LENGTH = 4000 };
    const uint32_t close = UINT32_C(1) << (strchr(bytes, '}') - bytes);
    char text[LENGTH + 1];
    struct constraint_run run;
    struct err e = {0};
    size_t at = 0;

    assert_int_equal(constraint_run_open(&run, c, LENGTH, &e), 0);
    for (; at < LENGTH; at++) {
        int32_t id = (int32_t)short_dice((uint32_t)n);
        uint32_t mask = 0;

        if (constraint_run_mask(&run, &mask, &e) == 0)
            break;
        if (mask != close)
            mask &= ~close;
        while (!(mask >> id & 1))
            id = (id + 1) % (int32_t)n;
        text[at] = bytes[id];
        if (!constraint_run_add(&run, id))
            fail_msg("%s: %.*s: %d %s", schema, (int)at, text, constraint_error(c, &e), e.msg);
    }
    if (at == LENGTH || !constraint_run_may_end(&run))
        fail_msg("%s: %.*s: %s %s", schema, (int)at, text, at == LENGTH ? "no end" : "a dead end", e.msg);
    constraint_run_close(&run);
}

/* Where an object has all names that are possible, no comma follows. */
static void objects_with_all_names_can_be_closed(void **state)
{
    static const char *const schema[] = {
        /* 16, 17 and 81 names beside required ones that may come anywhere */
        "{\"type\":\"object\",\"required\":[\"x\"],\"propertyNames\":{\"pattern\":\"^([ab]{4}|x)$\"},"
        "\"additionalProperties\":{\"const\":1}}",
        "{\"type\":\"object\",\"required\":[\"x\"],\"propertyNames\":{\"pattern\":\"^([ab]{4}|y|x)$\"},"
        "\"additionalProperties\":{\"const\":1}}",
        "{\"type\":\"object\",\"required\":[\"x\",\"y\",\"z\",\"xx\"],"
        "\"propertyNames\":{\"pattern\":\"^([abc]{4}|x|y|z|xx)$\"},\"additionalProperties\":{\"const\":1}}",
        "{\"type\":\"object\",\"required\":[\"x\",\"y\",\"z\",\"xx\"],"
        "\"propertyNames\":{\"pattern\":\"^([ab]{8}|x|y|z|xx)$\"},\"additionalProperties\":{\"const\":1}}",
        /* a property that must not satisfy a schema; it may have few or many names */
        "{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"const\":1}},"
        "\"propertyNames\":{\"pattern\":\"^[abc]{4}$\"},\"additionalProperties\":{\"enum\":[1,2]}}",
        "{\"type\":\"object\",\"not\":{\"patternProperties\":{\"^a\":{\"const\":1}}},"
        "\"propertyNames\":{\"pattern\":\"^[ab]$\"},\"additionalProperties\":{\"enum\":[1,2]}}",
        "{\"type\":\"object\",\"not\":{\"patternProperties\":{\"^aa\":{\"const\":1}}},"
        "\"propertyNames\":{\"pattern\":\"^[abc]{4}$\"},\"additionalProperties\":{\"enum\":[1,2]}}",
    };
    static const char bytes[] = "{}\"abcxyz:,12";
    static char token[sizeof(bytes)][MOST_TOKEN + 1];
    struct constraint_vocabulary *v;

    (void)state;
    for (size_t i = 0; bytes[i]; i++)
        token[i][0] = bytes[i];
    v = open_vocabulary(token, sizeof(bytes) - 1);
    for (size_t i = 0; i < sizeof(schema) / sizeof(*schema); i++) {
        struct constraint_source source = {
            .kind = CONSTRAINT_JSON_SCHEMA, .text = schema[i], .n = strlen(schema[i]), .is_compact = true};
        struct constraint *c = NULL;
        struct err e = {0};

        if (constraint_new(&c, &source, v, NULL, &e))
            fail_msg("%s: %s", schema[i], e.msg);
        write_long(c, schema[i], bytes, sizeof(bytes) - 1);
        constraint_free(c);
    }
    constraint_vocabulary_free(v);
}

/* Writes an object with names that are few, and computes the mask before each byte. */
static void write_bytes(struct constraint *c, const char *text, const char token[IDS][MOST_TOKEN + 1])
{
    struct constraint_run run;
    uint32_t mask[(IDS + 31) / 32];
    struct err e = {0};

    if (constraint_run_open(&run, c, strlen(text), &e) != 0)
        return;
    for (size_t i = 0; text[i]; i++) {
        int32_t id = 0;

        memset(mask, 0, sizeof(mask));
        constraint_run_mask(&run, mask, &e);
        while (token[id][0] != text[i] || token[id][1])
            id++;
        if (!constraint_run_add(&run, id))
            break;
    }
    constraint_run_close(&run);
}

/* ---- work ---- */

enum { ESCAPED = 600, WHOLE = 1500, CLOSING = 6000, MOST_IDS = WHOLE + CLOSING + 100 };

/* Tokens of single bytes, of whole names, and of texts that end a name but are no rest of an escape. The first whole
 * name is that of the first string of the test. */
static size_t list_tokens(char (*token)[MOST_TOKEN + 1])
{
    static const char bytes[] = "[]\"\\u0123456789abcdef,";
    size_t n = 0;

    for (; bytes[n]; n++)
        sprintf(token[n], "%c", bytes[n]);
    sprintf(token[n++], "\"\xc3\xa9"
                        "0\"");
    for (unsigned i = 0; i < WHOLE; i++)
        sprintf(token[n++], "\"k%u\"", i);
    for (unsigned i = 0; i < CLOSING; i++)
        sprintf(token[n++], "g%u\"", i);
    return n;
}

static void add_bytes(struct constraint_run *run, const char *text, char (*token)[MOST_TOKEN + 1])
{
    for (; *text; text++) {
        int32_t id = 0;

        while (token[id][0] != *text || token[id][1])
            id++;
        assert_true(constraint_run_add(run, id));
    }
}

/* Returns the processor time of 10 masks in milliseconds. */
static double masks_ms(struct constraint_run *run, uint32_t *mask, size_t n_words)
{
    struct timespec from, to;
    struct err e = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < 10; i++) {
        memset(mask, 0, n_words * sizeof(*mask));
        if (constraint_run_mask(run, mask, &e) == 0)
            fail_msg("no token is allowed: %s", e.msg);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) * 1e-6;
}

/* Masks cost no trial of each token against each earlier string, and no walk over the vocabulary for each of them. */
static void many_strings_with_escapes_take_little_work(void **state)
{
    static const char schema[] = "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}";
    const struct constraint_source source = {
        .kind = CONSTRAINT_JSON_SCHEMA, .text = schema, .n = sizeof(schema) - 1};
    static char token[MOST_IDS][MOST_TOKEN + 1];
    uint32_t mask[(MOST_IDS + 31) / 32];
    size_t n = list_tokens(token), first = strlen("[]\"\\u0123456789abcdef,");
    struct constraint_vocabulary *v = open_vocabulary(token, n);
    struct constraint *c = NULL;
    struct constraint_run run;
    struct err e = {0};
    char text[32];

    (void)state;
    assert_int_equal(constraint_new(&c, &source, v, NULL, &e), 0);
    assert_int_equal(constraint_run_open(&run, c, ESCAPED * 16, &e), 0);
    for (unsigned i = 0; i < ESCAPED; i++) {
        snprintf(text, sizeof(text), "%s\"\\u00e9%u\"", i ? "," : "[", i);
        add_bytes(&run, text, token);
    }
    add_bytes(&run, ",", token);
    assert_true(masks_ms(&run, mask, sizeof(mask) / sizeof(*mask)) < 300);
    assert_false(mask[first / 32] >> first % 32 & 1);
    assert_true(mask[(first + 1) / 32] >> (first + 1) % 32 & 1);
    add_bytes(&run, "\"\\u00", token);
    assert_true(masks_ms(&run, mask, sizeof(mask) / sizeof(*mask)) < 100);
    constraint_run_close(&run);
    constraint_free(c);
    constraint_vocabulary_free(v);
}

/* Names are counted within the limit of steps. */
static void counting_names_is_charged(void **state)
{
    struct grammar g;
    struct json_text j;
    uint32_t many;
    size_t before;

    (void)state;
    assert_int_equal(grammar_open(&g, MEMORY, STEPS), 0);
    json_text_init(&j, &g.regex, false);
    many = regex_repeat(&g.regex, json_text_characters(&g.regex, 0x21, 0x2e), 1, 9);
    json_names_count(&g.regex, many, 1 << 20);
    before = g.regex.steps;
    json_names_count(&g.regex, many, 1 << 20); /* all states are known */
    assert_true(g.regex.steps - before > 100000);
    g.regex.max_steps = g.regex.steps + 1000;
    assert_int_equal(json_names_count(&g.regex, many, 9), 10);
    assert_int_equal(json_names_count(&g.regex, many, 1 << 20), (1 << 20) + 1);
    assert_int_equal(g.regex.fault, REGEX_OVER_WORK);
    grammar_close(&g);
}

static void every_allocation_may_fail(void **state)
{
    static const char schema[] =
        "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\",\"ab\"]},\"minProperties\":3}";
    const struct constraint_source source = {
        .kind = CONSTRAINT_JSON_SCHEMA, .text = schema, .n = sizeof(schema) - 1};
    char token[IDS][MOST_TOKEN + 1];
    struct constraint_vocabulary *v = make_vocabulary(token);
    bool is_done = false;

    (void)state;
    for (long n = 1; !is_done; n++) {
        size_t blocks = mem_live_blocks();
        struct constraint *c = NULL;
        struct err e = {0};

        mem_fail_at(n);
        if (constraint_new(&c, &source, v, NULL, &e) == 0)
            write_bytes(c, "{\"a\":1,\"b\":1,\"ab\":1}", token);
        is_done = !mem_failed();
        mem_fail_at(0);
        constraint_free(c);
        assert_int_equal(mem_live_blocks(), blocks);
    }
    constraint_vocabulary_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_with_equal_names_are_refused),
        cmocka_unit_test(few_names_are_counted),
        cmocka_unit_test(long_arrays_of_distinct_strings_are_possible),
        cmocka_unit_test(names_of_an_expression_are_counted_by_value),
        cmocka_unit_test(masks_allow_no_name_twice),
        cmocka_unit_test(objects_with_all_names_can_be_closed),
        cmocka_unit_test(many_strings_with_escapes_take_little_work),
        cmocka_unit_test(counting_names_is_charged),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
