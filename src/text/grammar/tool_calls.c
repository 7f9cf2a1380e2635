/* tool_calls.c - grammars of tool calls in the forms of the rows of markup. */
#include "text/grammar/tool_calls.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "text/grammar/automata/pattern.h"
#include "text/grammar/free_text.h"
#include "text/grammar/preface.h"

enum {
    MOST_DEPTH = 20, /* depth of objects and lists in arguments that are not JSON */
    MOST_MARK = 64   /* bytes of the mark that ends a value */
};

bool tool_calls_markup_named(const char *name, struct tool_calls_markup *markup)
{
    const struct markup_calls *row = markup_calls_named(name);
    bool is_python = row && row->shapes & MARKUP_PYTHON;
    size_t n;

    *markup = (struct tool_calls_markup){.row = row, .name = row ? row->name : NULL};
    if (!row || row->channels)
        return row != NULL;
    n = strlen(row->form.open);
    markup->separator = row->separator                                 ? row->separator
                        : n && row->form.open[n - 1] == '['            ? ", "
                        : row->shapes & (MARKUP_NAMED | MARKUP_BRACES) ? ""
                                                                       : "\n";
    markup->comma = is_python ? ", " : row->quote ? "," : "";
    markup->quote = row->quote ? row->quote : "";
    markup->value_mark = is_python                   ? "\\/" /* the backslash of \/ counts */
                         : row->quote                ? row->quote
                         : row->shapes & MARKUP_TREE ? row->key_open[0]
                                                     : row->value_close;
    markup->is_last = row->shapes & MARKUP_NAMED && !row->call_close[0] && !row->close[0];
    if (row->shapes == MARKUP_LIST && !row->bare) { /* without '[', the mark is plain text */
        markup->mark = row->form.open;
        markup->spaced = row->open[0];
    } else if (!row->bare) {
        markup->mark = row->open[0] ? row->open[0] : row->call[0];
    }
    return true;
}

/* The state of writing the grammar of one answer. */
struct writer {
    struct grammar *g;
    const struct token_trie *trie;
    const struct tool_calls *calls;
    const struct tool_calls_markup *markup;
    const struct markup_calls *row; /* the markup's row */
    tool_calls_schema *schema;
    void *context;
    char value_mark[MOST_MARK]; /* the form's mark, cut before MARKUP_ANY */
    uint32_t function;          /* expression of a call of any function, from the function's name on */
};

static uint32_t literal(struct regex_store *s, const char *text)
{
    return regex_literal(s, text, strlen(text));
}

/* Returns the regular expression PATTERN, a constant of this file. */
static uint32_t word(struct regex_store *s, const char *pattern)
{
    uint32_t x = REGEX_NOTHING;

    if (pattern_read(s, pattern, strlen(pattern), regex_characters, PATTERN_WHOLE, &x, NULL) != 0)
        s->fault = s->fault ? s->fault : REGEX_NO_MEMORY; /* the patterns are valid: memory ran out */
    return x;
}

/* Returns the expression of TEXT, a text of markup_calls.form. KEY (NULL: none) replaces MARKUP_ANY, and TYPE
 * replaces MARKUP_TYPE. */
static uint32_t text_with(const struct writer *w, const char *text, const char *key, const char *type)
{
    static const char special[] = {MARKUP_ANY, MARKUP_TYPE, MARKUP_NUMBER, 0};
    struct regex_store *s = &w->g->regex;
    struct buf part = {.tag = MEM_TEXT};
    uint32_t x = REGEX_EMPTY;

    for (;; text++) {
        size_t n = strcspn(text, special);

        buf_add(&part, text, n);
        text += n;
        if (*text == MARKUP_TYPE || (*text == MARKUP_ANY && key)) {
            buf_str(&part, *text == MARKUP_TYPE ? type : key);
            continue;
        }
        if (*text == MARKUP_ANY && text[1] == '>') { /* the suffix of a mark */
            buf_char(&part, *text);
            continue;
        }
        if (part.oom)
            s->fault = REGEX_NO_MEMORY;
        else if (part.len)
            x = regex_concat(s, x, preface_mark(s, w->trie, part.data));
        buf_clear(&part);
        if (!*text)
            break;
        x = regex_concat(s, x, word(s, *text == MARKUP_NUMBER ? "0|[1-9][0-9]{0,5}" : "[A-Za-z0-9_-]{1,40}"));
        text += *text == MARKUP_NUMBER;
    }
    buf_fini(&part);
    return grammar_term(w->g, x);
}

static uint32_t text_of(const struct writer *w, const char *text)
{
    return text_with(w, text, NULL, NULL);
}

/* ---- functions ---- */

/* Returns whether calls of ROW have the function's name as a JSON string. */
static bool has_json_name(const struct markup_calls *row)
{
    return !(row->channels || row->shapes & (MARKUP_NAMED | MARKUP_XML | MARKUP_PYTHON | MARKUP_BRACES));
}

/* Returns the expression of the function name NAME: plain, or escaped as in a JSON string. */
static uint32_t name_text(const struct writer *w, const char *name)
{
    struct buf text = {.tag = MEM_TEXT};
    uint32_t x;

    if (!has_json_name(w->row))
        return grammar_text(w->g, name);
    buf_json_str(&text, name, strlen(name));
    if (text.oom)
        w->g->regex.fault = REGEX_NO_MEMORY;
    x = text.oom ? REGEX_NOTHING : regex_literal(&w->g->regex, text.data + 1, text.len - 2);
    buf_fini(&text);
    return grammar_term(w->g, x);
}

/* Returns whether KEY, a key or a function's name, has only bytes that the parser accepts without JSON
 * quotes. */
static bool is_plain(const char *key)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

    return strspn(key, plain) == strlen(key);
}

/* ---- arguments that are not JSON ---- */

/* Returns whether the schema V has only the keywords TEXTS [n], its type and annotations. */
static bool has_only(const json_t *v, const char *const *texts, size_t n)
{
    static const char *const harmless[] = {"type", "description", "title", "default", "examples"};
    const char *keyword;
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)v, keyword, member)
    {
        bool found = false;

        for (size_t k = 0; k < sizeof(harmless) / sizeof(*harmless); k++)
            found |= strcmp(keyword, harmless[k]) == 0;
        for (size_t k = 0; k < n; k++)
            found |= strcmp(keyword, texts[k]) == 0;
        if (!found)
            return false;
    }
    return true;
}

/* Returns the expression of X between quotes. */
static uint32_t quoted(const struct writer *w, uint32_t x)
{
    uint32_t quote = text_of(w, w->markup->quote);

    return grammar_sequence(w->g, quote, grammar_sequence(w->g, grammar_term(w->g, x), quote));
}

/* Returns the expression of text without the marks that end or change a value, between quotes. */
static uint32_t any_text(const struct writer *w)
{
    struct regex_store *s = &w->g->regex;
    uint32_t marks = literal(s, w->value_mark);

    if (w->row->shapes & MARKUP_XML)
        marks = regex_or(s, marks, literal(s, "<![CDATA["));
    return quoted(w, free_text(s, marks));
}

/* Sets *OUT to the expression of a string as the schema V says: text, or one of the texts of `enum`. Returns false if
 * V has a keyword that a text without quotes cannot obey. */
static bool text_value(const struct writer *w, const json_t *v, uint32_t *out)
{
    static const char *const keywords[] = {"enum"};
    struct regex_store *s = &w->g->regex;
    uint32_t x = REGEX_NOTHING;
    json_t *member;
    size_t i;

    *out = any_text(w);
    json_array_foreach(json_object_get(v, "enum"), i, member)
    {
        const char *text = json_string_value(member);

        if (!text || !*text || strstr(text, w->value_mark) || strlen(text) != json_string_length(member))
            return false;
        x = regex_or(s, x, literal(s, text));
    }
    if (i)
        *out = quoted(w, x);
    return has_only(v, keywords, 1);
}

/* Returns whether V contains a reference to a schema, is nested too deeply, or has the mark CLOSE in a key or
 * string. */
static bool is_beyond(const json_t *v, const char *close, int depth)
{
    const char *key;
    json_t *member;
    size_t i;
    bool found = depth > 64 || json_object_get(v, "$ref") || json_object_get(v, "$dynamicRef") ||
                 (json_is_string(v) && strstr(json_string_value(v), close));

    json_object_foreach((json_t *)(uintptr_t)v, key, member) found =
        found || strstr(key, close) || is_beyond(member, close, depth + 1);
    json_array_foreach(v, i, member) found = found || is_beyond(member, close, depth + 1);
    return found;
}

/* Returns the expression of a member, or of an item of a list in MARKUP_TREE, whose value has the type TYPE.
 * KEY is the expression of the key, and NAME its text if the key is fixed. */
static uint32_t member_of(const struct writer *w, uint32_t key, const char *name, const char *type,
                          uint32_t value)
{
    const struct markup_calls *row = w->row;
    struct grammar *g = w->g;
    uint32_t x = GRAMMAR_END;

    if (row->type_attribute && strcmp(row->type_attribute, "string") == 0)
        type = strcmp(type, "string") == 0 ? "true" : "false";
    else if (strcmp(type, "integer") == 0)
        type = "number";
    if (row->value_after)
        x = text_with(w, row->value_after, row->shapes & MARKUP_TREE ? name : NULL, type);
    x = grammar_sequence(
        g, key,
        grammar_sequence(g, text_with(w, row->key_between, NULL, type), grammar_sequence(g, value, x)));
    if (*row->key_between == '"') /* an attribute */
        x = grammar_sequence(g, grammar_text(g, "\""), x);
    return row->key_open[0] ? grammar_sequence(g, text_of(w, row->key_open[0]), x) : x;
}

/* Returns the expression of any number of X with commas between them. */
static uint32_t list_of(const struct writer *w, uint32_t x)
{
    struct grammar *g = w->g;
    uint32_t more = grammar_sequence(g, text_of(w, w->markup->comma), x);

    return grammar_either(g, GRAMMAR_END,
                          grammar_sequence(g, x, grammar_repeat(g, more, 0, GRAMMAR_NO_LIMIT)));
}

static int add_members(const struct writer *w, const struct tool_calls_function *f, const json_t *v,
                       int depth, uint32_t *out, struct err *e);

/* Sets *OUT to the expression of a value with the schema V in the function F. */
static int add_value(const struct writer *w, const struct tool_calls_function *f, const json_t *v, int depth,
                     uint32_t *out, struct err *e)
{
    static const char *const list_keywords[] = {"items"};
    const char *type = json_string_value(json_object_get(v, "type"));
    bool is_braces = w->row->shapes & MARKUP_BRACES,
         is_nested = w->row->shapes & (MARKUP_TREE | MARKUP_BRACES);
    struct tool_calls_function value = *f;
    struct grammar *g = w->g;
    uint32_t x = GRAMMAR_NEVER;
    int rc;

    value.parameters = v;
    value.value_close = w->value_mark;
    if (w->row->shapes & MARKUP_PYTHON) /* these models write the arguments as JSON values */
        return w->schema(w->context, g, &value, out, e);
    if (depth > MOST_DEPTH || !type || is_beyond(v, value.value_close, 0))
        return ERR_UNSUPPORTED;
    if (strcmp(type, "string") == 0)
        return text_value(w, v, out) ? 0 : ERR_UNSUPPORTED;
    if (is_nested && strcmp(type, "object") == 0) {
        if ((rc = add_members(w, f, v, depth + 1, &x, e)) != 0)
            return rc;
    } else if (is_nested && strcmp(type, "array") == 0) {
        const json_t *items = json_object_get(v, "items");
        const char *item = json_string_value(json_object_get(items, "type"));

        if (!has_only(v, list_keywords, 1))
            return ERR_UNSUPPORTED;
        if (!items)
            x = any_text(w);
        else if ((rc = add_value(w, f, items, depth + 1, &x, e)) != 0)
            return rc;
        if (!is_braces)
            x = member_of(w, grammar_text(g, "item"), "item", item ? item : "string", x);
        x = list_of(w, x);
    } else {
        return w->schema(w->context, g, &value, out, e);
    }
    if (is_braces)
        x = grammar_sequence(g, grammar_text(g, *type == 'o' ? "{" : "["),
                             grammar_sequence(g, x, grammar_text(g, *type == 'o' ? "}" : "]")));
    *out = x;
    return 0;
}

/* Returns the expression of any keys with any texts. */
static uint32_t any_members(const struct writer *w)
{
    struct regex_store *s = &w->g->regex;
    uint32_t text =
        w->row->shapes & MARKUP_PYTHON ? grammar_term(w->g, word(s, "\"[A-Za-z0-9_.-]*\"")) : any_text(w);

    if (w->row->shapes & MARKUP_TREE)
        return GRAMMAR_END;
    return list_of(w, member_of(w, grammar_term(w->g, word(s, "[A-Za-z0-9_.-]+")), NULL, "string", text));
}

/* Sets *OUT to a new object whose members are the required properties of V, each of which must have a schema. */
static int read_required(const json_t *v, json_t **out, struct err *e)
{
    const json_t *properties = json_object_get(v, "properties"), *name;
    size_t i;

    *out = json_object();
    json_array_foreach(json_object_get(v, "required"), i, name)
    {
        const char *key = json_string_value(name);

        if (!key || !json_object_get(properties, key))
            return err_set(e, ERR_UNSUPPORTED,
                           "the required parameter \"%.100s\" is not among the properties", key ? key : "");
        if (json_object_set_new(*out, key, json_true()) != 0)
            return err_nomem(e, "tool calls");
    }
    return *out ? 0 : err_nomem(e, "tool calls");
}

/* The expressions of an object's members from some member on. FIRST: no member precedes them. NEXT: members
 * precede them, so that they begin with a comma. */
struct members {
    uint32_t first, next;
};

/* Prepends the property KEY, whose schema is V, to the members M. */
static int add_member(const struct writer *w, const struct tool_calls_function *f, const char *key,
                      const json_t *v, bool is_required, int depth, struct members *m, struct err *e)
{
    struct grammar *g = w->g;
    const char *type = json_string_value(json_object_get(v, "type"));
    bool is_text = w->row->shapes & MARKUP_XML && !(w->row->shapes & MARKUP_TREE),
         is_key = *key && (is_text ? !strpbrk(key, "<>\"'& \t\r\n\\") : is_plain(key));
    uint32_t x;
    int rc = is_key ? add_value(w, f, v, depth, &x, e) : ERR_UNSUPPORTED;

    if (rc == ERR_UNSUPPORTED && e && !e->code)
        err_set(
            e, ERR_UNSUPPORTED,
            "the parameter \"%.100s\" cannot be enforced in this model's markup; expected one type, and of a "
            "string no keyword but `enum`",
            key);
    if (rc)
        return rc;
    x = grammar_sequence(g, member_of(w, grammar_text(g, key), key, type ? type : "", x), m->next);
    m->first = is_required ? x : grammar_either(g, m->first, x);
    x = grammar_sequence(g, text_of(w, w->markup->comma), x);
    m->next = is_required ? x : grammar_either(g, m->next, x);
    return 0;
}

/* Sets *OUT to the expression of the members of an object with the schema V in the function F: all that are required
 * and any others, in the order of the schema. */
static int add_members(const struct writer *w, const struct tool_calls_function *f, const json_t *v,
                       int depth, uint32_t *out, struct err *e)
{
    static const char *const others[] = {"$ref",
                                         "anyOf",
                                         "oneOf",
                                         "allOf",
                                         "if",
                                         "not",
                                         "patternProperties",
                                         "dependentRequired",
                                         "dependentSchemas",
                                         "minProperties"};
    json_t *properties = json_object_get(v, "properties"), *required;
    struct members m = {GRAMMAR_END, GRAMMAR_END};
    size_t n = 0, at;
    const char **key;
    int rc;

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (json_object_get(v, others[i]))
            return err_set(e, ERR_UNSUPPORTED, "`%s` of parameters cannot be enforced in this model's markup",
                           others[i]);
    rc = read_required(v, &required, e);
    key = mem_zalloc(json_object_size(properties) + 1, sizeof(*key), MEM_TEXT);
    for (void *i = json_object_iter(properties); key && i; i = json_object_iter_next(properties, i))
        key[n++] = json_object_iter_key(i);
    rc = rc || key ? rc : err_nomem(e, "tool calls");
    for (at = n; rc == 0 && at-- > 0;)
        rc = add_member(w, f, key[at], json_object_get(properties, key[at]),
                        json_object_get(required, key[at]) != NULL, depth, &m, e);
    json_decref(required);
    mem_free(key);
    *out = properties || json_is_false(json_object_get(v, "additionalProperties")) ? m.first : any_members(w);
    return rc;
}

/* Sets *OUT to the expression of a tool call of function I: a harmony message, or the function's name, the
 * text BETWEEN, the arguments and the text AFTER of the markup. */
static int add_function(const struct writer *w, size_t i, uint32_t *out, struct err *e)
{
    const struct tool_calls_function *f = &w->calls->function[i];
    struct grammar *g = w->g;
    uint32_t arguments = GRAMMAR_NEVER, name;
    int code = 0;

    *out = GRAMMAR_NEVER;
    if (!has_json_name(w->row) && !is_plain(f->name))
        code = err_set(
            e, ERR_UNSUPPORTED,
            "the name has other characters than letters, digits, _, - and ., which this model's markup "
            "cannot write");
    if (code == 0)
        code = w->row->key_between ? add_members(w, f, f->parameters, 0, &arguments, e)
                                   : w->schema(w->context, g, f, &arguments, e);
    if (code && code != ERR_NOMEM && e)
        err_prefix(e, "function \"%s\"", f->name);
    if (code)
        return code;
    name = name_text(w, f->name);
    if (w->row->channels)
        *out = grammar_sequence(g, preface_call_header(g, w->trie, name), arguments);
    else
        *out = grammar_sequence(
            g, name,
            grammar_sequence(g, text_of(w, w->row->form.between),
                             grammar_sequence(g, arguments, text_of(w, w->row->form.after))));
    return 0;
}

static int add_functions(struct writer *w, struct err *e)
{
    uint32_t *of = mem_zalloc(w->calls->n, sizeof(*of), MEM_TEXT);
    int code = of ? 0 : err_nomem(e, "a grammar of tool calls");

    for (size_t i = 0; i < w->calls->n && code == 0; i++)
        code = add_function(w, i, &of[i], e);
    w->function = code ? GRAMMAR_NEVER : grammar_choice(w->g, of, w->calls->n);
    mem_free(of);
    return code;
}

/* ---- answers ---- */

/* Returns the expression of one tool call or, if IS_PARALLEL, of one or more. The first SKIPPED bytes of the
 * markup's texts OPEN and BEFORE are omitted, because the caller has already matched them. */
static uint32_t some_calls(const struct writer *w, size_t skipped, bool is_parallel)
{
    const char *open = w->row->form.open, *before = w->row->form.before;
    struct grammar *g = w->g;
    size_t in_open = strlen(open) < skipped ? strlen(open) : skipped;
    uint32_t more, x = grammar_sequence(g, text_of(w, before + (skipped - in_open)), w->function);

    if (is_parallel) {
        more = grammar_sequence(g, text_of(w, w->markup->separator),
                                grammar_sequence(g, text_of(w, before), w->function));
        x = grammar_sequence(g, x, grammar_repeat(g, more, 0, GRAMMAR_NO_LIMIT));
    }
    return grammar_sequence(g, text_of(w, open + in_open),
                            grammar_sequence(g, x, text_of(w, w->row->form.close)));
}

/* Returns the expression of an answer that consists of tool calls only. */
static uint32_t whole(const struct writer *w)
{
    uint32_t x = some_calls(w, 0, w->calls->is_parallel);

    if (!w->row->bare || !w->row->open[0])
        return x;
    return grammar_sequence(w->g, grammar_either(w->g, GRAMMAR_END, text_of(w, w->row->open[0])), x);
}

uint32_t tool_calls_marks(struct regex_store *s, const struct tool_calls_markup *markup)
{
    const struct markup_calls *row = markup->row;
    uint32_t marks = markup->mark ? preface_plain(s, markup->mark) : REGEX_NOTHING;

    for (size_t i = 0; i < MARKUP_MAX_OPEN; i++)
        if (row->open[i] && row->open[i] != markup->spaced)
            marks = regex_or(s, marks, preface_plain(s, row->open[i]));
    for (size_t i = 0; i < MARKUP_MAX_MARKS && row->call[i]; i++)
        marks = regex_or(s, marks, preface_plain(s, row->call[i]));
    if (markup->spaced)
        marks = regex_or(s, marks, regex_concat(s, literal(s, markup->spaced), word(s, "\\s+\\[")));
    return marks;
}

/* Returns the expression of an answer that is either tool calls, or text that does not begin with `bare`. */
static uint32_t whole_or_text(const struct writer *w)
{
    struct regex_store *s = &w->g->regex;
    uint32_t blank = regex_repeat(s, regex_or(s, regex_range(s, '\t', '\r'), regex_range(s, ' ', ' ')), 0,
                                  REGEX_NO_LIMIT),
             bare =
                 regex_concat(s, blank, regex_concat(s, regex_literal(s, &w->row->bare, 1), REGEX_ANYTHING)),
             text = free_text(s, tool_calls_marks(s, w->markup));

    return grammar_either(w->g, whole(w), grammar_term(w->g, regex_and(s, text, regex_not(s, bare))));
}

/* Returns the expression of free text that contains tool calls. A mark precedes each tool call. */
static uint32_t among_text(const struct writer *w)
{
    struct grammar *g = w->g;
    struct regex_store *s = &g->regex;
    const struct tool_calls_markup *markup = w->markup;
    bool is_repeated = w->calls->is_parallel && !*w->row->form.close && !markup->is_last;
    uint32_t text = free_text(s, tool_calls_marks(s, markup)), rule = grammar_rule(g),
             until = grammar_sequence(g, grammar_term(g, text), text_of(w, markup->mark)),
             calls = some_calls(w, strlen(markup->mark), w->calls->is_parallel && !is_repeated),
             more = markup->is_last         ? GRAMMAR_END
                    : w->calls->is_parallel ? grammar_call(g, rule)
                                            : grammar_term(g, text);

    /* Each further tool call begins with the mark again, except inside a list, which `close` ends. */
    grammar_define(g, rule,
                   grammar_either(g, grammar_term(g, text),
                                  grammar_sequence(g, until, grammar_sequence(g, calls, more))));
    return grammar_call(g, rule);
}

/* Returns the expression of harmony messages. The last message is a tool call or, if tool calls are optional, a
 * message of the channel `final`. */
static uint32_t among_messages(const struct writer *w)
{
    struct grammar *g = w->g;
    bool has_content = w->calls->content != GRAMMAR_NEVER;
    uint32_t x = w->function, content;

    if (w->calls->is_free) {
        content = has_content ? w->calls->content : preface_message_text(g);
        x = grammar_either(g, x, preface_final(g, w->trie, content));
    }
    return preface_messages(g, w->trie, w->calls->is_free && !has_content, x);
}

int tool_calls_grammar(struct grammar *g, const struct tool_calls *calls, const struct token_trie *trie,
                       tool_calls_schema *schema, void *context, uint32_t *start, struct err *e)
{
    const char *mark = calls->markup.value_mark;
    struct writer w = {.g = g,
                       .trie = trie,
                       .calls = calls,
                       .markup = &calls->markup,
                       .row = calls->markup.row,
                       .schema = schema,
                       .context = context};
    uint32_t x;
    int code;

    for (size_t i = 0; mark && mark[i] && mark[i] != MARKUP_ANY; i++)
        w.value_mark[i] = mark[i];
    code = add_functions(&w, e);

    *start = GRAMMAR_NEVER;
    if (code)
        return code;
    if (w.row->channels)
        x = among_messages(&w);
    else if (!calls->is_free)
        x = whole(&w);
    else if (calls->content != GRAMMAR_NEVER)
        x = grammar_either(g, whole(&w), calls->content);
    else
        x = w.markup->mark ? among_text(&w) : whole_or_text(&w);
    code = grammar_fault(g, e);
    *start = code ? GRAMMAR_NEVER : x;
    return code;
}

/* ---- from JSON ---- */

static int read_function(const json_t *v, size_t i, struct tool_calls_function *out, struct err *e)
{
    const json_t *name = json_object_get(v, "name"), *parameters = json_object_get(v, "parameters");

    if (!json_is_string(name) || json_string_length(name) == 0 ||
        strlen(json_string_value(name)) != json_string_length(name))
        return err_set(e, ERR_INPUT, "functions[%zu].name: expected a text that is not empty", i);
    if (parameters && !json_is_object(parameters))
        return err_set(e, ERR_INPUT, "functions[%zu].parameters: expected a JSON Schema, an object", i);
    *out = (struct tool_calls_function){.name = json_string_value(name),
                                        .parameters = parameters,
                                        .pointer = json_string_value(json_object_get(v, "pointer")),
                                        .is_lax = json_is_false(json_object_get(v, "strict"))};
    return 0;
}

int tool_calls_read(struct grammar *g, const json_t *v, const struct token_trie *trie,
                    tool_calls_schema *schema, void *context, struct tool_calls *calls, uint32_t *start,
                    struct err *e)
{
    const char *markup = json_string_value(json_object_get(v, "markup"));
    const json_t *list = json_object_get(v, "functions");
    struct tool_calls_function *function;
    int code = 0;

    *start = GRAMMAR_NEVER;
    calls->n = json_array_size(list);
    calls->is_free = !json_is_true(json_object_get(v, "required"));
    calls->is_parallel = json_is_true(json_object_get(v, "parallel"));
    if (!markup || !tool_calls_markup_named(markup, &calls->markup))
        return err_set(e, ERR_INPUT, "markup: expected the name of a tool call parser");
    if (calls->n == 0)
        return err_set(e, ERR_INPUT, "functions: expected a list of one or more functions");
    calls->function = function = mem_zalloc(calls->n, sizeof(*function), MEM_TEXT);
    if (!function)
        return err_nomem(e, "a grammar of tool calls");
    for (size_t i = 0; i < calls->n && code == 0; i++)
        code = read_function(json_array_get(list, i), i, &function[i], e);
    code = code ? code : tool_calls_grammar(g, calls, trie, schema, context, start, e);
    mem_free(function);
    calls->function = NULL;
    return code;
}
