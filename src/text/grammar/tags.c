/* tags.c - compiles structural tags, with one function for each format. */
#include "text/grammar/tags.h"

#include <stdio.h>
#include <string.h>

#include "base/json/json_pull.h"
#include "base/mem.h"
#include "text/grammar/automata/pattern.h"
#include "text/grammar/free_text.h"
#include "text/grammar/gbnf.h"

enum { POINTER_BYTES = 400, MOST_DEPTH = 100, MOST_COUNT = 1000000 };

struct reader {
    struct grammar *g;
    tags_schema *schema;
    void *context;
    char pointer[POINTER_BYTES]; /* JSON pointer to the current value, cut if it is long */
    int depth;
    uint32_t ends; /* regular expression of the end marks of the enclosing tag */
    int code;      /* the code of the first error */
    struct err *e;
};

__attribute__((format(printf, 3, 4))) static uint32_t refuse(struct reader *r, int code, const char *format,
                                                             ...)
{
    ERR_SENTENCE(sentence, format);

    if (r->code)
        return GRAMMAR_NEVER;
    r->code = err_set(r->e, code, "%s: %s", *r->pointer ? r->pointer : "the structural tag", sentence);
    return GRAMMAR_NEVER;
}

/* Extends the pointer by the member KEY or, if KEY is NULL, element I. Returns the argument for leave(). */
static size_t enter(struct reader *r, const char *key, size_t i)
{
    size_t n = strlen(r->pointer);

    if (key)
        snprintf(r->pointer + n, sizeof(r->pointer) - n, "/%s", key);
    else
        snprintf(r->pointer + n, sizeof(r->pointer) - n, "/%zu", i);
    return n;
}

static void leave(struct reader *r, size_t n)
{
    r->pointer[n] = '\0';
}

/* ---- fields ---- */

/* Refuses members of OBJECT that are not in KNOWN, a list of names with a space before and after each. */
static void check_fields(struct reader *r, const json_t *object, const char *known)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        char name[40];
        bool is_long = strlen(key) > sizeof(name) - 3 || strchr(key, ' ');

        snprintf(name, sizeof(name), " %s ", is_long ? "?" : key);
        if (is_long || !strstr(known, name))
            refuse(r, ERR_UNSUPPORTED, "the field \"%.60s\" is not known; expected one of%s", key, known);
    }
}

static const json_t *need(struct reader *r, const json_t *object, const char *key, json_type type,
                          const char *what)
{
    const json_t *v = json_object_get(object, key);

    if (v && json_typeof(v) == type)
        return v;
    refuse(r, ERR_INPUT, "%s \"%s\"; expected %s", v ? "a wrong type of" : "lacks", key, what);
    return NULL;
}

static bool read_switch(struct reader *r, const json_t *object, const char *key, bool preset)
{
    const json_t *v = json_object_get(object, key);

    if (v && !json_is_boolean(v))
        refuse(r, ERR_INPUT, "a wrong type of \"%s\"; expected true or false", key);
    return v ? json_is_true(v) : preset;
}

static uint32_t literal(struct reader *r, const json_t *text)
{
    return regex_literal(&r->g->regex, json_string_value(text), json_string_length(text));
}

/* Returns a regular expression for the strings in V: an array of strings, one string, or NULL. */
static uint32_t read_marks(struct reader *r, const json_t *v, const char *key)
{
    uint32_t marks = REGEX_NOTHING;
    size_t n = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;

    for (size_t i = 0; i < n && !r->code; i++) {
        const json_t *text = json_is_array(v) ? json_array_get(v, i) : v;

        if (!json_is_string(text) || json_string_length(text) == 0)
            return refuse(r, ERR_INPUT, "a wrong value in \"%s\"; expected texts that are not empty", key);
        marks = regex_or(&r->g->regex, marks, literal(r, text));
    }
    return marks;
}

static uint32_t text_of(struct reader *r, const json_t *text)
{
    return grammar_term(r->g, literal(r, text));
}

/* ---- primitive formats ---- */

static uint32_t read_format(struct reader *r, const json_t *v);

/* Reads the format that is the member KEY of OBJECT. */
static uint32_t read_member(struct reader *r, const json_t *object, const char *key)
{
    const json_t *v = need(r, object, key, JSON_OBJECT, "a format, an object with \"type\"");
    size_t n = enter(r, key, 0);
    uint32_t x = v ? read_format(r, v) : GRAMMAR_NEVER;

    leave(r, n);
    return x;
}

static uint32_t read_schema(struct reader *r, const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key), *parsed = NULL;
    size_t n = enter(r, key, 0);
    uint32_t x = GRAMMAR_NEVER;
    struct err inner = {0};
    int code = 0;

    if (json_is_string(v))
        code = json_pull_load_exact(&parsed, json_string_value(v), json_string_length(v), "schema", &inner);
    if (!code && !json_is_object(parsed ? parsed : v) && !json_is_boolean(parsed ? parsed : v))
        refuse(r, ERR_INPUT, "expected a JSON Schema, an object or boolean");
    else if (!code && !r->code)
        code = r->schema(r->context, r->g, parsed ? parsed : v, &x, &inner);
    if (code && !r->code) {
        if (r->e)
            *r->e = inner;
        r->code = code == ERR_NOMEM ? code : (err_prefix(r->e, "%s", r->pointer), code);
    }
    json_decref(parsed);
    leave(r, n);
    return x;
}

static uint32_t read_json_schema(struct reader *r, const json_t *v)
{
    const json_t *style = json_object_get(v, "style"), *excludes = json_object_get(v, "excludes");

    check_fields(r, v, " type json_schema style any_order max_whitespace_cnt excludes ");
    if (style && (!json_is_string(style) || strcmp(json_string_value(style), "json") != 0))
        return refuse(r, ERR_UNSUPPORTED, "the \"style\" is not supported; expected \"json\"");
    if (read_switch(r, v, "any_order", false))
        return refuse(r, ERR_UNSUPPORTED, "\"any_order\" is not supported; expected false");
    if (json_is_integer(json_object_get(v, "max_whitespace_cnt")) || json_array_size(excludes) > 0)
        return refuse(r, ERR_UNSUPPORTED, "\"max_whitespace_cnt\" and \"excludes\" are not supported here");
    return read_schema(r, v, "json_schema");
}

static uint32_t read_const_string(struct reader *r, const json_t *v)
{
    const json_t *text = need(r, v, "value", JSON_STRING, "a text");

    check_fields(r, v, " type value ");
    return text ? text_of(r, text) : GRAMMAR_NEVER;
}

/* Reads a regular expression or a grammar. The member KEY of V is its source text. */
static uint32_t read_source(struct reader *r, const json_t *v, const char *key)
{
    const json_t *text = need(r, v, key, JSON_STRING, "a text");
    uint32_t x = GRAMMAR_NEVER;
    struct err inner = {0};
    int code;

    check_fields(r, v, strcmp(key, "pattern") == 0 ? " type pattern " : " type grammar ");
    if (r->code)
        return x;
    if (strcmp(key, "pattern") == 0) {
        code = pattern_read(&r->g->regex, json_string_value(text), json_string_length(text), regex_characters,
                            PATTERN_WHOLE, &x, &inner);
        x = code ? GRAMMAR_NEVER : grammar_term(r->g, x);
    } else {
        code = gbnf_read(r->g, json_string_value(text), json_string_length(text), &x, &inner);
    }
    if (code == ERR_NOMEM)
        r->code = err_nomem(r->e, "a structural tag");
    else if (code)
        refuse(r, code, "%s", inner.msg);
    return x;
}

static uint32_t read_any_text(struct reader *r, const json_t *v)
{
    struct regex_store *s = &r->g->regex;
    const json_t *most = json_object_get(v, "max_chars"), *tokens = json_object_get(v, "max_tokens");
    uint32_t marks = regex_or(s, r->ends, read_marks(r, json_object_get(v, "excludes"), "excludes")), x;

    check_fields(r, v, " type excludes max_tokens max_chars ");
    if (tokens && !json_is_null(tokens))
        return refuse(r, ERR_UNSUPPORTED, "\"max_tokens\" is not supported; expected \"max_chars\"");
    if (most && !json_is_null(most) &&
        (!json_is_integer(most) || json_integer_value(most) < 0 || json_integer_value(most) > INT32_MAX))
        return refuse(r, ERR_INPUT, "a wrong \"max_chars\"; expected a count from 0 to 2147483647");
    if (r->code)
        return GRAMMAR_NEVER;
    x = free_text(s, marks);
    if (most && !json_is_null(most))
        x = regex_and(s, x,
                      regex_repeat(s, regex_characters(s, 0, PATTERN_LAST_CHARACTER), 0,
                                   (uint32_t)json_integer_value(most)));
    return grammar_term(r->g, x);
}

/* ---- compositions ---- */

static uint32_t read_elements(struct reader *r, const json_t *v, bool is_sequence)
{
    const json_t *list = need(r, v, "elements", JSON_ARRAY, "an array of formats");
    size_t n = json_array_size(list), from = enter(r, "elements", 0);
    uint32_t *of = mem_zalloc(n, sizeof(*of), MEM_TEXT), x = GRAMMAR_END;

    check_fields(r, v, " type elements ");
    if (!of && !r->code)
        r->code = err_nomem(r->e, "a structural tag");
    if (n == 0)
        refuse(r, ERR_INPUT, "an empty array; expected formats");
    for (size_t i = 0; i < n && !r->code; i++) {
        size_t at = enter(r, NULL, i);

        of[i] = read_format(r, json_array_get(list, i));
        leave(r, at);
    }
    for (size_t i = n; is_sequence && i > 0 && !r->code; i--)
        x = grammar_sequence(r->g, of[i - 1], x);
    if (!is_sequence && !r->code)
        x = grammar_choice(r->g, of, n);
    mem_free(of);
    leave(r, from);
    return r->code ? GRAMMAR_NEVER : x;
}

static uint32_t read_times(struct reader *r, const json_t *v, uint32_t least, uint32_t most)
{
    uint32_t x = read_member(r, v, "content");

    check_fields(r, v, " type content ");
    return grammar_repeat(r->g, x, least, most);
}

static uint32_t read_repeat(struct reader *r, const json_t *v)
{
    const json_t *least = need(r, v, "min", JSON_INTEGER, "a count"),
                 *most = need(r, v, "max", JSON_INTEGER, "a count, or -1 for no limit");
    json_int_t m = json_integer_value(least), n = json_integer_value(most);
    uint32_t x = read_member(r, v, "content");

    check_fields(r, v, " type min max content ");
    if (m < 0 || n < -1 || m > MOST_COUNT || n > MOST_COUNT || (n >= 0 && m > n))
        refuse(r, ERR_INPUT, "wrong counts; expected 0 <= min <= max <= %d, or a max of -1", MOST_COUNT);
    if (r->code)
        return GRAMMAR_NEVER;
    return grammar_repeat(r->g, x, (uint32_t)m, n < 0 ? GRAMMAR_NO_LIMIT : (uint32_t)n);
}

/* ---- tags ---- */

/* Reads the content of TAG and its end marks. LEGACY: the member "schema" describes the content. */
static uint32_t read_inside(struct reader *r, const json_t *tag, bool legacy)
{
    const json_t *end = json_object_get(tag, "end");
    uint32_t around = r->ends, x = GRAMMAR_NEVER, after;
    bool is_empty = json_is_string(end) && json_string_length(end) == 0;

    if (json_is_object(end))
        return refuse(r, ERR_UNSUPPORTED, "an \"end\" that is a token is not supported; expected a text");
    if (!json_is_string(end) && !(json_is_array(end) && json_array_size(end) > 0))
        return refuse(r, ERR_INPUT, "lacks \"end\"; expected a text or an array of texts");
    r->ends = is_empty ? REGEX_NOTHING : read_marks(r, end, "end");
    after = is_empty ? GRAMMAR_END : grammar_term(r->g, r->ends);
    if (!legacy)
        x = read_member(r, tag, "content");
    else if (json_is_null(json_object_get(tag, "schema")))
        r->code = r->code ? r->code : r->schema(r->context, r->g, json_true(), &x, r->e);
    else
        x = read_schema(r, tag, "schema");
    r->ends = around;
    return r->code ? GRAMMAR_NEVER : grammar_sequence(r->g, x, after);
}

/* Returns the text with which TAG begins, or NULL after an error. */
static const json_t *read_begin(struct reader *r, const json_t *tag, bool legacy)
{
    const json_t *type = json_object_get(tag, "type");

    if (!json_is_object(tag) ||
        (!legacy && type && (!json_is_string(type) || strcmp(json_string_value(type), "tag"))))
        refuse(r, ERR_INPUT, "expected a tag, an object with \"begin\" and \"end\"");
    else if (json_is_object(json_object_get(tag, "begin")))
        refuse(r, ERR_UNSUPPORTED, "a \"begin\" that is a token is not supported; expected a text");
    check_fields(r, tag, legacy ? " begin schema end " : " type begin content end ");
    return r->code ? NULL : need(r, tag, "begin", JSON_STRING, "a text");
}

static uint32_t read_tag(struct reader *r, const json_t *tag)
{
    const json_t *begin = read_begin(r, tag, false);
    uint32_t inside = begin ? read_inside(r, tag, false) : GRAMMAR_NEVER;

    return r->code ? GRAMMAR_NEVER : grammar_sequence(r->g, text_of(r, begin), inside);
}

/* Returns the index of the only trigger that is a prefix of TEXT. None or several are an error. */
static size_t trigger_of(struct reader *r, const json_t *triggers, const json_t *text)
{
    size_t found = SIZE_MAX, n = json_array_size(triggers);

    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_array_get(triggers, i);

        if (json_string_length(t) > json_string_length(text) ||
            memcmp(json_string_value(t), json_string_value(text), json_string_length(t)) != 0)
            continue;
        if (found != SIZE_MAX)
            refuse(r, ERR_INPUT, "two triggers begin \"%.60s\"; expected one", json_string_value(text));
        found = i;
    }
    if (found == SIZE_MAX)
        refuse(r, ERR_INPUT, "no trigger begins \"%.60s\"; expected one", json_string_value(text));
    return found;
}

/* Free text without a match of EXCLUDED, in which each mark begins a part with a format. */
struct dispatch {
    uint32_t marks, excluded; /* regular expressions */
    bool loops;               /* free text follows again after such a part */
    bool has_first;           /* the answer must begin with a mark */
    uint32_t first;           /* expression: a mark and the part that it begins */
    uint32_t ways;            /* expression: free text up to a mark, and the part that it begins */
};

static uint32_t finish_dispatch(struct reader *r, const struct dispatch *d)
{
    struct grammar *g = r->g;
    uint32_t rule = grammar_rule(g), more = grammar_call(g, rule),
             rest = grammar_term(g, free_text(&g->regex, regex_or(&g->regex, d->marks, d->excluded)));

    grammar_define(g, rule, grammar_either(g, rest, d->loops ? grammar_sequence(g, d->ways, more) : d->ways));
    if (!d->has_first)
        return more;
    return d->loops ? grammar_sequence(g, d->first, more) : d->first;
}

/* Reads TAG, and adds the expression that follows its trigger to BEHIND [index of the trigger]. */
static void read_triggered_tag(struct reader *r, const json_t *tag, const json_t *triggers, bool legacy,
                               uint32_t *behind, struct dispatch *d)
{
    const json_t *begin = read_begin(r, tag, legacy), *mark;
    size_t k = begin ? trigger_of(r, triggers, begin) : 0, n;
    uint32_t inside = r->code ? GRAMMAR_NEVER : read_inside(r, tag, legacy), rest;

    if (r->code)
        return;
    mark = json_array_get(triggers, k);
    n = json_string_length(mark);
    rest = grammar_term(
        r->g, regex_literal(&r->g->regex, json_string_value(begin) + n, json_string_length(begin) - n));
    behind[k] = grammar_either(r->g, behind[k], grammar_sequence(r->g, rest, inside));
    d->first = grammar_either(r->g, d->first, grammar_sequence(r->g, text_of(r, begin), inside));
}

/* Reads TAGS, each of which begins with one of TRIGGERS. */
static void read_tags(struct reader *r, const json_t *tags, const json_t *triggers, bool legacy,
                      struct dispatch *d)
{
    struct grammar *g = r->g;
    size_t n = json_array_size(tags), n_triggers = json_array_size(triggers),
           from = enter(r, legacy ? "structures" : "tags", 0);
    uint32_t *behind = mem_alloc(n_triggers * sizeof(*behind), MEM_TEXT), until;

    if (!behind)
        r->code = err_nomem(r->e, "a structural tag");
    for (size_t k = 0; k < n_triggers && !r->code; k++)
        behind[k] = GRAMMAR_NEVER;
    if (n == 0)
        refuse(r, ERR_INPUT, "an empty array; expected tags");
    for (size_t i = 0; i < n && !r->code; i++) {
        size_t at = enter(r, NULL, i);

        read_triggered_tag(r, json_array_get(tags, i), triggers, legacy, behind, d);
        leave(r, at);
    }
    for (size_t k = 0; k < n_triggers && !r->code; k++) {
        until = free_text_until(&g->regex, literal(r, json_array_get(triggers, k)), d->marks, d->excluded);
        d->ways = grammar_either(g, d->ways, grammar_sequence(g, grammar_term(g, until), behind[k]));
    }
    mem_free(behind);
    leave(r, from);
}

static uint32_t read_triggered_tags(struct reader *r, const json_t *v, bool legacy)
{
    const json_t *triggers = need(r, v, "triggers", JSON_ARRAY, "an array of texts"),
                 *tags = need(r, v, legacy ? "structures" : "tags", JSON_ARRAY, "an array of tags");
    struct dispatch d = {.first = GRAMMAR_NEVER, .ways = GRAMMAR_NEVER};

    check_fields(r, v,
                 legacy ? " type structures triggers "
                        : " type triggers tags at_least_one stop_after_first excludes ");
    if (json_array_size(triggers) == 0)
        refuse(r, ERR_INPUT, "no \"triggers\"; expected texts");
    d.has_first = read_switch(r, v, "at_least_one", false);
    d.loops = !read_switch(r, v, "stop_after_first", false);
    d.marks = read_marks(r, triggers, "triggers");
    d.excluded = regex_or(&r->g->regex, r->ends, read_marks(r, json_object_get(v, "excludes"), "excludes"));
    if (!r->code)
        read_tags(r, tags, triggers, legacy, &d);
    return r->code ? GRAMMAR_NEVER : finish_dispatch(r, &d);
}

static uint32_t read_dispatch(struct reader *r, const json_t *v)
{
    const json_t *rules = need(r, v, "rules", JSON_ARRAY, "an array of [text, format]");
    struct dispatch d = {.ways = GRAMMAR_NEVER, .loops = read_switch(r, v, "loop", true)};
    size_t n = json_array_size(rules), from;
    struct grammar *g = r->g;

    check_fields(r, v, " type rules loop excludes ");
    d.excluded = regex_or(&g->regex, r->ends, read_marks(r, json_object_get(v, "excludes"), "excludes"));
    from = enter(r, "rules", 0);
    if (n == 0)
        refuse(r, ERR_INPUT, "an empty array; expected [text, format]");
    for (size_t i = 0; i < n && !r->code; i++) {
        const json_t *text = json_array_get(json_array_get(rules, i), 0);

        if (json_array_size(json_array_get(rules, i)) != 2 || !json_is_string(text) ||
            json_string_length(text) == 0)
            refuse(r, ERR_INPUT, "a wrong rule; expected [text, format]");
        else
            d.marks = regex_or(&g->regex, d.marks, literal(r, text));
    }
    for (size_t i = 0; i < n && !r->code; i++) {
        const json_t *rule = json_array_get(rules, i);
        size_t at = enter(r, NULL, i);
        uint32_t x = read_format(r, json_array_get(rule, 1)),
                 until = free_text_until(&g->regex, literal(r, json_array_get(rule, 0)), d.marks, d.excluded);

        d.ways = grammar_either(g, d.ways, grammar_sequence(g, grammar_term(g, until), x));
        leave(r, at);
    }
    leave(r, from);
    return r->code ? GRAMMAR_NEVER : finish_dispatch(r, &d);
}

static uint32_t read_separated_tags(struct reader *r, const json_t *v)
{
    const json_t *tags = need(r, v, "tags", JSON_ARRAY, "an array of tags"),
                 *separator = need(r, v, "separator", JSON_STRING, "a text");
    bool at_least_one = read_switch(r, v, "at_least_one", false),
         stops = read_switch(r, v, "stop_after_first", false);
    uint32_t one = GRAMMAR_NEVER;
    size_t n = json_array_size(tags), from = enter(r, "tags", 0);

    check_fields(r, v, " type tags separator at_least_one stop_after_first ");
    if (n == 0)
        refuse(r, ERR_INPUT, "an empty array; expected tags");
    for (size_t i = 0; i < n && !r->code; i++) {
        size_t at = enter(r, NULL, i);

        one = grammar_either(r->g, one, read_tag(r, json_array_get(tags, i)));
        leave(r, at);
    }
    leave(r, from);
    if (r->code)
        return GRAMMAR_NEVER;
    if (!stops)
        one = grammar_sequence(
            r->g, one,
            grammar_repeat(r->g, grammar_sequence(r->g, text_of(r, separator), one), 0, GRAMMAR_NO_LIMIT));
    return at_least_one ? one : grammar_either(r->g, GRAMMAR_END, one);
}

static uint32_t read_format_of(struct reader *r, const json_t *v, const char *type)
{
    if (strcmp(type, "const_string") == 0)
        return read_const_string(r, v);
    if (strcmp(type, "json_schema") == 0)
        return read_json_schema(r, v);
    if (strcmp(type, "regex") == 0)
        return read_source(r, v, "pattern");
    if (strcmp(type, "grammar") == 0)
        return read_source(r, v, "grammar");
    if (strcmp(type, "any_text") == 0)
        return read_any_text(r, v);
    if (strcmp(type, "sequence") == 0 || strcmp(type, "or") == 0)
        return read_elements(r, v, *type == 's');
    if (strcmp(type, "optional") == 0)
        return read_times(r, v, 0, 1);
    if (strcmp(type, "plus") == 0 || strcmp(type, "star") == 0)
        return read_times(r, v, *type == 'p', GRAMMAR_NO_LIMIT);
    if (strcmp(type, "repeat") == 0)
        return read_repeat(r, v);
    if (strcmp(type, "tag") == 0)
        return read_tag(r, v);
    if (strcmp(type, "triggered_tags") == 0)
        return read_triggered_tags(r, v, false);
    if (strcmp(type, "tags_with_separator") == 0)
        return read_separated_tags(r, v);
    if (strcmp(type, "dispatch") == 0)
        return read_dispatch(r, v);
    return refuse(r, ERR_UNSUPPORTED, "the format \"%.60s\" is not supported", type);
}

static uint32_t read_format(struct reader *r, const json_t *v)
{
    const json_t *type = json_object_get(v, "type");
    uint32_t x;

    if (!json_is_object(v) || !json_is_string(type))
        return refuse(r, ERR_INPUT, "expected a format, an object with \"type\"");
    if (r->depth >= MOST_DEPTH)
        return refuse(r, ERR_NOSPACE, "formats are nested deeper than %d", MOST_DEPTH);
    r->depth++;
    x = read_format_of(r, v, json_string_value(type));
    r->depth--;
    return r->code ? GRAMMAR_NEVER : x;
}

int tags_read(struct grammar *g, const json_t *tag, tags_schema *schema, void *context, uint32_t *start,
              struct err *e)
{
    struct reader r = {.g = g, .schema = schema, .context = context, .ends = REGEX_NOTHING, .e = e};

    if (!json_is_object(tag))
        refuse(&r, ERR_INPUT, "expected an object");
    else if (json_object_get(tag, "format")) {
        check_fields(&r, tag, " type format ");
        *start = r.code ? GRAMMAR_NEVER : read_member(&r, tag, "format");
    } else if (json_object_get(tag, "structures"))
        *start = read_triggered_tags(&r, tag, true);
    else
        refuse(&r, ERR_INPUT, "expected \"format\", or \"structures\" and \"triggers\"");
    if (!r.code)
        r.code = grammar_fault(g, e);
    if (r.code)
        *start = GRAMMAR_NEVER;
    return r.code;
}
