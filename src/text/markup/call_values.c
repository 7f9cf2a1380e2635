/* call_values.c - writes the arguments of a call as JSON: keys, strings, and texts as values of the types
 * that the function's JSON Schema allows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json/json_pull.h"
#include "base/utf8.h"
#include "text/markup/parser_priv.h"

enum {
    MAX_REFERENCES = 16, /* references that are followed one after the other */
    /* schemas that are examined for the types of one value: they may refer to each other */
    MAX_SCHEMAS = 1000,
    MAX_NUMBER = 512,
};

/* ---- schemas ---- */

unsigned call_type_named(const char *word, size_t n)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {{"string", VALUE_STRING}, {"null", VALUE_NULL},       {"integer", VALUE_INTEGER},
                 {"number", VALUE_NUMBER}, {"boolean", VALUE_BOOLEAN}, {"object", VALUE_OBJECT},
                 {"array", VALUE_ARRAY},   {"str", VALUE_STRING},      {"int", VALUE_INTEGER},
                 {"float", VALUE_NUMBER},  {"bool", VALUE_BOOLEAN},    {"dict", VALUE_OBJECT},
                 {"list", VALUE_ARRAY}};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strlen(types[i].name) == n && memcmp(types[i].name, word, n) == 0)
            return types[i].type;
    return 0;
}

static unsigned type_of(const json_t *value)
{
    return json_is_string(value)    ? VALUE_STRING
           : json_is_integer(value) ? VALUE_INTEGER
           : json_is_real(value)    ? VALUE_NUMBER
           : json_is_boolean(value) ? VALUE_BOOLEAN
           : json_is_object(value)  ? VALUE_OBJECT
           : json_is_array(value)   ? VALUE_ARRAY
                                    : VALUE_NULL;
}

/* Returns the schema to which SCHEMA refers by "$ref": "#/...", or SCHEMA itself if it has no such
 * reference. */
static const json_t *resolve(const json_t *root, const json_t *schema)
{
    for (int i = 0; i < MAX_REFERENCES; i++) {
        const char *p = json_string_value(json_object_get(schema, "$ref"));
        const json_t *at = root;

        if (!p || *p != '#')
            break;
        for (p++; at && *p == '/'; p += strcspn(p, "/")) {
            size_t n = strcspn(++p, "/");

            at = json_object_getn(at, p, n);
        }
        if (!at)
            break;
        schema = at;
    }
    return schema;
}

/* Like known_types(), but examines at most *LEFT schemas, and subtracts their number from *LEFT. */
static unsigned types_within(const json_t *root, const json_t *schema, size_t *left)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    const json_t *type, *v;
    unsigned types = 0;
    size_t i;

    if (*left == 0)
        return 0;
    --*left;
    schema = resolve(root, schema);
    type = json_object_get(schema, "type");
    if (json_is_string(type))
        types |= call_type_named(json_string_value(type), json_string_length(type));
    json_array_foreach(type, i, v) types |= call_type_named(json_string_value(v), json_string_length(v));
    if (!type) {
        json_array_foreach(json_object_get(schema, "enum"), i, v) types |= type_of(v);
        if ((v = json_object_get(schema, "const")) != NULL)
            types |= type_of(v);
        if (json_object_get(schema, "properties"))
            types |= VALUE_OBJECT;
        if (json_object_get(schema, "items"))
            types |= VALUE_ARRAY;
    }
    for (size_t k = 0; k < 3; k++)
        json_array_foreach(json_object_get(schema, lists[k]), i, v) types |= types_within(root, v, left);
    return types;
}

/* Returns the types that SCHEMA allows; 0: its keywords do not restrict the type. */
static unsigned known_types(const json_t *root, const json_t *schema)
{
    size_t left = MAX_SCHEMAS;

    return types_within(root, schema, &left);
}

unsigned call_types(const json_t *root, const json_t *schema)
{
    unsigned types = known_types(root, schema);

    return types ? types : VALUE_STRING;
}

/* Returns the schema of the member KEY [n] of an object, or of the items of a list; NULL: unknown. */
static const json_t *inner(const json_t *root, const json_t *schema, bool is_list, const char *key, size_t n)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    const json_t *found, *v;
    size_t i;

    schema = resolve(root, schema);
    if (is_list)
        found = json_object_get(schema, "items");
    else if (!(found = json_object_getn(json_object_get(schema, "properties"), key, n)))
        found = json_object_get(schema, "additionalProperties");
    for (size_t k = 0; k < 3 && !json_is_object(found); k++)
        json_array_foreach(json_object_get(schema, lists[k]), i, v)
        {
            v = resolve(root, v);
            if (!json_is_object(found))
                found = is_list ? json_object_get(v, "items")
                                : json_object_getn(json_object_get(v, "properties"), key, n);
        }
    return json_is_object(found) ? found : NULL;
}

/* ---- structure ---- */

void call_levels(struct parser *a)
{
    struct parser_call *c = &a->call;
    const json_t *tool;
    size_t i;

    c->depth = 1;
    c->level[0] = (struct parser_level){.close = '}'};
    json_array_foreach(a->o.tools, i, tool)
    {
        const json_t *f = json_object_get(tool, "function"), *name = json_object_get(f, "name");

        if (json_string_length(name) == c->name.len &&
            memcmp(json_string_value(name), c->name.data, c->name.len) == 0)
            c->level[0].schema = json_object_get(f, "parameters");
    }
}

void call_open(struct parser *a)
{
    if (a->call.begun)
        return;
    parser_begin_call(a);
    parser_args(a, "{", 1);
}

bool call_push(struct parser *a, char open, char close, char end)
{
    struct parser_call *c = &a->call;

    if (c->depth == PARSER_MAX_DEPTH)
        return false;
    c->level[c->depth++] = (struct parser_level){.schema = c->schema, .close = close, .end = end};
    if (open)
        parser_args(a, &open, 1);
    return true;
}

void call_release(struct parser *a)
{
    struct parser_call *c = &a->call;

    c->holds = 0;
    if (c->held.len)
        parser_args(a, c->held.data, c->held.len);
    c->held.len = 0;
}

void call_pop(struct parser *a)
{
    struct parser_call *c = &a->call;
    const struct parser_level *l = &c->level[c->depth - 1];

    if (l->is_repeated)
        parser_args(a, "]", 1);
    parser_args(a, &l->close, 1);
    if (c->depth-- == c->holds)
        call_release(a);
}

/* Returns whether the key S [n] repeats the last key of the object L, whose text is in c->held. If so, that
 * key's value becomes the first element of a list. Always false if c->holds is 0. */
static bool repeats(struct parser *a, struct parser_level *l, const char *s, size_t n)
{
    struct buf *held = &a->call.held;

    if (!a->call.holds || !l->has_member || held->oom || l->n_key != n ||
        memcmp(held->data + l->key, s, n) != 0)
        return false;
    if (!l->is_repeated) {
        buf_char(held, ' ');
        if (held->oom)
            return false;
        memmove(held->data + l->value + 1, held->data + l->value, held->len - l->value - 1);
        held->data[l->value] = '[';
    }
    return l->is_repeated = true;
}

void call_key(struct parser *a, const char *s, size_t n)
{
    struct parser_call *c = &a->call;
    struct parser_level *l = &c->level[c->depth - 1];
    const json_t *root = c->level[0].schema;
    bool is_list = l->close == ']', is_again = !is_list && repeats(a, l, s, n);

    if (l->is_repeated && !is_again)
        parser_args(a, "]", 1);
    l->is_repeated = is_again;
    if (l->has_member)
        parser_args(a, ", ", 2);
    l->has_member = true;
    if (!is_list && !is_again) {
        parser_args(a, "\"", 1);
        l->key = c->held.len;
        l->n_key = n;
        call_string(a, s, n);
        parser_args(a, "\": ", 3);
        l->value = c->held.len;
    }
    c->schema = inner(root, l->schema, is_list, s, n);
    c->types = known_types(root, c->schema);
    if (!c->types)
        c->schema = NULL; /* a schema that does not restrict the type is treated as unknown */
    c->types = c->types ? c->types : VALUE_STRING;
}

/* ---- values ---- */

void call_string(struct parser *a, const char *s, size_t n)
{
    size_t from = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        static const char plain[] = "\"\\\n\r\t\b\f", letter[] = "\"\\nrtbf", hex[] = "0123456789abcdef";
        const char *found = c ? strchr(plain, s[i]) : NULL;
        char escaped[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

        if (c >= ' ' && !found)
            continue;
        parser_args(a, s + from, i - from);
        if (found)
            escaped[1] = letter[found - plain];
        parser_args(a, escaped, found ? 2 : 6);
        from = i + 1;
    }
    parser_args(a, s + from, n - from);
}

/* Writes S [n] as an integer. Returns false if it is not an integer. */
static bool put_integer(struct parser *a, const char *s, size_t n)
{
    size_t i = n && (*s == '-' || *s == '+');

    if (i == n)
        return false;
    for (size_t k = i; k < n; k++)
        if (s[k] < '0' || s[k] > '9')
            return false;
    if (n && *s == '-')
        parser_args(a, "-", 1);
    while (i + 1 < n && s[i] == '0')
        i++;
    parser_args(a, s + i, n - i);
    return true;
}

/* Returns whether S [n] is JSON. */
static bool is_json(const char *s, size_t n)
{
    struct json_pull j;
    struct arena arena; /* memory for strings with escapes */
    struct err e;
    bool is_valid;

    arena_init(&arena, MEM_TEXT);
    is_valid = json_pull_open(&j, s, n, "", &arena, &e) == 0;
    if (is_valid) {
        json_pull_skip(&j);
        is_valid = json_pull_finish(&j) == 0;
    }
    arena_fini(&arena);
    return is_valid;
}

/* Writes S [n] as a number, without a fraction if it is whole. Returns false if it is not a number. */
static bool put_number(struct parser *a, const char *s, size_t n)
{
    struct buf out = {.tag = MEM_TEXT};
    char copy[MAX_NUMBER + 1], *end;
    double v;

    if (n == 0 || n > MAX_NUMBER)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!s[i] || !strchr("0123456789+-.eE", s[i]))
            return false;
    if (put_integer(a, s, n))
        return true;
    memcpy(copy, s, n);
    copy[n] = 0;
    v = strtod(copy, &end);
    if (*end || !isfinite(v))
        return false;
    if (v != floor(v) && is_json(s, n)) {
        parser_args(a, s, n);
        return true;
    }
    if (v == floor(v) && fabs(v) < 1e15)
        buf_fmt(&out, "%.0f", v);
    else
        buf_json_real(&out, v);
    a->out.oom |= out.oom;
    parser_args(a, out.data ? out.data : "", out.len);
    buf_fini(&out);
    return true;
}

/* Returns whether S [n] is WORD, in any case. */
static bool is_word(const char *s, size_t n, const char *word)
{
    size_t i = 0;

    while (i < n && word[i] && (s[i] | 32) == word[i])
        i++;
    return i == n && !word[i];
}

static bool put_boolean(struct parser *a, const char *s, size_t n, bool has_digits)
{
    bool yes = is_word(s, n, "true") || (has_digits && n == 1 && *s == '1');

    if (!yes && !is_word(s, n, "false") && !(has_digits && n == 1 && *s == '0'))
        return false;
    parser_args(a, yes ? "true" : "false", yes ? 4 : 5);
    return true;
}

bool call_literal(struct parser *a, const char *s, size_t n)
{
    if (put_boolean(a, s, n, false) || put_number(a, s, n))
        return true;
    if (!is_word(s, n, "null") && !is_word(s, n, "none"))
        return false;
    parser_args(a, "null", 4);
    return true;
}

void call_value(struct parser *a, unsigned types, const char *text, size_t n_text)
{
    const char *s = text;
    size_t n = n_text;

    for (; n && utf8_is_blank(*s); s++)
        n--;
    while (n && utf8_is_blank(s[n - 1]))
        n--;
    if (types & VALUE_NULL && is_word(s, n, "null"))
        parser_args(a, "null", 4);
    else if ((types & VALUE_INTEGER && put_integer(a, s, n)) ||
             (types & VALUE_NUMBER && put_number(a, s, n)) ||
             (types & VALUE_BOOLEAN && put_boolean(a, s, n, true)))
        return;
    else if (n &&
             ((*s == '{' && types & VALUE_OBJECT) || (*s == '[' && types & VALUE_ARRAY) ||
              (*s == '"' && types == VALUE_ANY)) &&
             is_json(s, n))
        parser_args(a, s, n);
    else if (n == 0 && !(types & VALUE_STRING) && types & (VALUE_OBJECT | VALUE_ARRAY))
        parser_args(a, types & VALUE_OBJECT ? "{}" : "[]", 2);
    else {
        parser_args(a, "\"", 1);
        call_string(a, text, n_text);
        parser_args(a, "\"", 1);
    }
}

/* ---- texts that are read byte by byte ---- */

void call_text_begin(struct parser *a, bool is_held)
{
    struct parser_call *c = &a->call;

    c->is_led = c->has_line_end = false;
    c->is_held = is_held;
    c->word.len = 0;
    if (!is_held)
        parser_args(a, "\"", 1);
}

/* Emits the text in c->word, which was held back, as the beginning of a JSON string. */
static void release(struct parser *a)
{
    struct parser_call *c = &a->call;

    c->is_held = false;
    parser_args(a, "\"", 1);
    for (size_t i = 0; i < c->word.len; i++)
        call_text(a, c->word.data[i]);
}

void call_text(struct parser *a, char ch)
{
    struct parser_call *c = &a->call;

    if (c->is_held) {
        buf_char(&c->word, ch);
        /* with the types string and null, the value is a string as soon as the text cannot become `null` */
        if (c->types == (VALUE_STRING | VALUE_NULL) && !utf8_is_blank(ch) &&
            (c->word.len > 4 || memcmp("null", c->word.data ? c->word.data : "", c->word.len) != 0))
            release(a);
        return;
    }
    if (c->has_line_end)
        call_string(a, "\n", 1);
    c->has_line_end = c->is_led && ch == '\n'; /* it may belong to the markup */
    if (!c->has_line_end)
        call_string(a, &ch, 1);
}

void call_text_end(struct parser *a)
{
    struct parser_call *c = &a->call;
    size_t n = c->word.len;

    if (!c->is_held) {
        parser_args(a, "\"", 1);
        return;
    }
    n -= c->is_led && n && c->word.data[n - 1] == '\n';
    call_value(a, c->types, c->word.data ? c->word.data : "", n);
}

void call_text_cut(struct parser *a)
{
    struct parser_call *c = &a->call;

    if (!c->is_held || !c->word.len)
        return;
    if (c->types & VALUE_STRING)
        release(a);
    else
        parser_args(a, c->word.data, c->word.len);
}
