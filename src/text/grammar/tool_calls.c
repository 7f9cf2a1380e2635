/* tool_calls.c - the forms of tool calls that grammars write, made from the rows of markup, and a grammar for each. */
#include "text/grammar/tool_calls.h"

#include <string.h>

#include "base/mem.h"
#include "text/grammar/automata/pattern.h"
#include "text/grammar/free_text.h"
#include "text/grammar/preface.h"

/* ---- forms made from rows ---- */

/* A form that is being made from the example of ROW. */
struct maker {
    const struct markup_calls *row;
    struct tool_calls_form *f;
    const char *mark[MARKUP_MOST_MARKS];
    size_t n_marks, at; /* AT: bytes of f->text */
};

/* Returns the longest mark of the row at S [n], and its length in *LEN; NULL: none. Fixed text is preferred. */
static const char *mark_at(const struct maker *m, const char *s, size_t n, size_t *len)
{
    const char *found = NULL;
    bool more;

    *len = 0;
    for (size_t i = 0; i < m->n_marks; i++) {
        size_t k = markup_match(s, n, m->mark[i], &more);

        if (k > *len || (k && k == *len && markup_is_fixed(m->mark[i]) && !markup_is_fixed(found))) {
            found = m->mark[i];
            *len = k;
        }
    }
    return found;
}

static void keep_bytes(struct maker *m, const char *s, size_t n)
{
    ASSERT(m->at + n < sizeof(m->f->text));
    memcpy(m->f->text + m->at, s, n);
    m->at += n;
}

/* Returns the part [s, end) of the example as a text of the form: marks as in the row, and numbers and blanks before a
 * list as they may be. */
static const char *text_from(struct maker *m, const char *s, const char *end)
{
    static const char number[] = {TOOL_CALLS_NUMBER, 0}, blank[] = {TOOL_CALLS_BLANK, 0};
    const char *text = m->f->text + m->at;
    size_t n;

    while (s < end) {
        const char *mark = mark_at(m, s, (size_t)(end - s), &n);

        if (mark)
            keep_bytes(m, mark, strlen(mark));
        else if ((n = strspn(s, "0123456789")) > 0)
            keep_bytes(m, number, 1);
        else if (s[0] == ' ' && s[1] == '[')
            keep_bytes(m, blank, n = 1);
        else
            keep_bytes(m, s, n = 1);
        s += n;
    }
    keep_bytes(m, "", 1);
    return text;
}

/* Returns the end of the first text in S that matches MARK (NULL: S). *BEGIN: where it begins. NULL: none. */
static const char *behind(const char *s, const char *mark, const char **begin)
{
    size_t n;
    bool more;

    for (*begin = s; mark && *s; s++)
        if ((n = markup_match(s, strlen(s), mark, &more)) > 0) {
            *begin = s;
            return s + n;
        }
    return mark ? NULL : s;
}

/* Returns the name in the example behind a mark that opens a call, which begins at *ITEM; NULL: none. */
static const char *name_behind(const char *example, const char *mark, const char *prefix, const char **item)
{
    const char *name = example;

    while (mark && (name = behind(name, mark, item)) != NULL) {
        name += *name == '"';
        if (prefix && strncmp(name, prefix, strlen(prefix)) == 0)
            name += strlen(prefix);
        if (*name == 'f')
            return name;
        name = *item + 1;
    }
    return NULL;
}

/* Makes the form of keys and values between marks. */
static void make_values(struct maker *m)
{
    const struct markup_calls *row = m->row;
    const char *e = row->example, *end = e + strlen(e), *item, *name, *key, *value, *close, *rest, *begin;
    struct tool_calls_form *f = m->f;
    char *type;

    name = name_behind(e, row->call[0], NULL, &item);
    ASSERT(name);
    value = behind(name, row->key_open[0], &key) + (row->quoted && !(row->shapes & MARKUP_TREE));
    begin = value;
    rest = behind(value, row->value_open ? row->value_open : row->key_end, &close);
    value = rest + strcspn(rest, "1");
    rest = behind(value, row->call_close[0], &close);
    if (!row->needs_open) { /* each call has all marks */
        item = e;
        rest = end;
    }
    f->open = text_from(m, e, item);
    f->before = text_from(m, item, name);
    f->between = text_from(m, name + 1, key);
    f->key_before = text_from(m, key, begin);
    f->key_between = text_from(m, begin + 1, value);
    f->value_after = text_from(m, value + 1, close);
    f->after = text_from(m, close, rest);
    f->close = text_from(m, rest, end);
    f->separator = strchr(e, '\n') ? "\n" : "";
    f->comma = f->quote = "";
    f->values = row->shapes & MARKUP_TREE ? TOOL_CALLS_TREE : TOOL_CALLS_TEXTS;
    begin = row->shapes & MARKUP_TREE ? row->key_open[0] : row->value_close;
    f->value_marks[0] = text_from(m, begin, begin + strcspn(begin, (char[]){MARKUP_ANY, 0}));
    f->value_marks[1] = "<![CDATA[";
    if (!row->type_attribute)
        return;
    type = f->text + (strstr(f->key_between, row->type_attribute) - f->text);
    type += strlen(row->type_attribute) + strlen("=\"");
    memmove(type + 1, strchr(type, '"'), strlen(strchr(type, '"')) + 1);
    *type = TOOL_CALLS_TYPE;
    f->has_string_flag = strcmp(row->type_attribute, "string") == 0;
}

/* Makes the form of calls as in Python, and of those in braces. */
static void make_words(struct maker *m)
{
    const char *e = m->row->example, *end = e + strlen(e), *name, *key;
    bool is_python = m->row->shapes & MARKUP_PYTHON;
    struct tool_calls_form *f = m->f;

    name = strstr(e, is_python ? "f(a=1)" : "f{a:1}");
    ASSERT(name);
    key = name + strlen("f(");
    f->open = is_python ? text_from(m, e, name) : "";
    f->before = is_python ? "" : text_from(m, e, name);
    f->between = text_from(m, name + 1, key);
    f->key_before = f->value_after = "";
    f->key_between = text_from(m, key + 1, key + 2);
    f->after = text_from(m, key + 3, is_python ? key + 4 : end);
    f->close = is_python ? text_from(m, key + 4, end) : "";
    f->separator = !is_python ? "" : name > e && name[-1] == '[' ? ", " : "\n";
    f->comma = is_python ? ", " : ",";
    f->quote = m->row->quote;
    f->values = is_python ? TOOL_CALLS_PYTHON : TOOL_CALLS_BRACES;
    f->value_marks[0] = is_python ? "\\/" : f->quote; /* in Python, the backslash of \/ counts */
}

/* Returns the end of the last of MARKS that stand at S one after another, with line ends between them. */
static const char *behind_marks(const char *s, const char *const *marks)
{
    for (const char *p = s;;) {
        size_t n = 0;

        p += strspn(p, "\n");
        for (size_t i = 0; i < MARKUP_MAX_MARKS && marks[i] && !n; i++)
            n = strncmp(p, marks[i], strlen(marks[i])) == 0 ? strlen(marks[i]) : 0;
        if (!n)
            return s;
        s = p += n;
    }
}

/* Makes the form of calls whose arguments are JSON. */
static void make_json(struct maker *m)
{
    static const char arguments[] = "{\"a\": 1}";
    const struct markup_calls *row = m->row;
    const char *e = row->example, *end = e + strlen(e), *args = strstr(e, arguments), *item, *name,
               *args_end = args + strlen(arguments), *rest = args_end;
    bool is_named = row->shapes & MARKUP_NAMED && !strstr(e, "\"f\""), is_list;
    struct tool_calls_form *f = m->f;

    ASSERT(args);
    if (is_named) {
        name = name_behind(e, row->call[0] ? row->call[0] : row->open[0], row->name_open, &item);
        rest = behind_marks(rest, row->call_close);
    } else {
        item = name = strstr(e, "\"f\"") + 1;
        while (item > e && *item != '{')
            item--;
        rest++; /* the bracket of the object */
    }
    ASSERT(name);
    is_list = !is_named && item > e && item[-1] == '[';
    if (!is_list && !(is_named && row->open[0])) { /* each call has all marks */
        item = e;
        rest = end;
    }
    f->is_json_name = !is_named;
    f->open = text_from(m, e, item);
    f->before = text_from(m, item, name);
    f->between = text_from(m, name + 1, args);
    f->after = text_from(m, args_end, rest);
    f->close = text_from(m, rest, end);
    f->separator = is_list ? ", " : is_named ? "" : "\n";
    f->is_last = is_named && !*f->after && !*f->close;
    if (is_list && row->shapes == MARKUP_LIST && !row->bare) { /* without '[', the mark is plain text */
        f->mark = f->open;
        f->spaced = row->open[0];
    }
}

/* Adds the marks to FORM that the parser of ROW reads besides form->mark. */
static void add_others(const struct markup_calls *row, struct tool_calls_form *form)
{
    size_t n = 0;

    for (size_t i = 0; i < MARKUP_MAX_OPEN; i++)
        if (row->open[i] && row->open[i] != form->mark && row->open[i] != form->spaced)
            form->others[n++] = row->open[i];
    for (size_t i = 0; i < MARKUP_MAX_MARKS; i++)
        if (row->call[i] && row->call[i] != form->mark)
            form->others[n++] = row->call[i];
}

bool tool_calls_form_named(const char *name, struct tool_calls_form *form)
{
    const struct markup_calls *row = markup_calls_named(name);
    struct maker m = {.row = row, .f = form};

    *form = (struct tool_calls_form){.name = row ? row->name : NULL};
    if (!row || row->channels) {
        form->has_channels = row != NULL;
        return row != NULL;
    }
    m.n_marks = markup_calls_marks(row, m.mark);
    if (row->shapes & MARKUP_XML)
        make_values(&m);
    else if (row->shapes & (MARKUP_PYTHON | MARKUP_BRACES))
        make_words(&m);
    else
        make_json(&m);
    if (row->separator)
        form->separator = row->separator;
    if (row->bare) {
        form->bare = text_from(&m, &row->bare, &row->bare + 1);
        form->optional = row->open[0];
    } else if (!form->mark) {
        form->mark = row->open[0] ? row->open[0] : row->call[0];
    }
    add_others(row, form);
    return true;
}

enum {
    MOST_SUFFIX = MARKUP_MOST_ANY,
    MOST_DEPTH = 20 /* of objects and lists in arguments that are no JSON */
};

/* The state of writing the grammar of one answer. */
struct writer {
    struct grammar *g;
    const struct token_trie *trie;
    const struct tool_calls *calls;
    const struct tool_calls_form *form;
    tool_calls_schema *schema;
    void *context;
    uint32_t function; /* expression of a call of any function, from the function's name on */
};

static uint32_t literal(struct regex_store *s, const char *text)
{
    return regex_literal(s, text, strlen(text));
}

/* Returns one or more letters and the like. */
static uint32_t word(struct regex_store *s, const char *pattern)
{
    uint32_t x = REGEX_NOTHING;

    if (pattern_read(s, pattern, strlen(pattern), regex_characters, PATTERN_WHOLE, &x, NULL) != 0)
        s->fault = s->fault ? s->fault : REGEX_NO_MEMORY; /* these patterns are constants */
    return x;
}

/* Returns the expression of TEXT of the form. KEY (NULL: none) stands for TOOL_CALLS_ANY, and TYPE for
 * TOOL_CALLS_TYPE. */
static uint32_t text_with(const struct writer *w, const char *text, const char *key, const char *type)
{
    static const char special[] = {TOOL_CALLS_ANY, TOOL_CALLS_TYPE, TOOL_CALLS_NUMBER, 0};
    struct regex_store *s = &w->g->regex;
    struct buf part = {.tag = MEM_TEXT};
    uint32_t x = REGEX_EMPTY;

    for (;; text++) {
        size_t n = strcspn(text, special);

        buf_add(&part, text, n);
        text += n;
        if (*text == TOOL_CALLS_TYPE || (*text == TOOL_CALLS_ANY && key)) {
            buf_str(&part, *text == TOOL_CALLS_TYPE ? type : key);
            continue;
        }
        if (*text == TOOL_CALLS_ANY && text[1] == '>') { /* the suffix of a mark */
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
        x = regex_concat(s, x,
                         word(s, *text == TOOL_CALLS_NUMBER ? "0|[1-9][0-9]{0,5}" : "[A-Za-z0-9_-]{1,40}"));
    }
    buf_fini(&part);
    return grammar_term(w->g, x);
}

static uint32_t text_of(const struct writer *w, const char *text)
{
    return text_with(w, text, NULL, NULL);
}

/* ---- functions ---- */

/* Returns the expression of the function name NAME in FORM: plain, or escaped as in a JSON string. */
static uint32_t name_text(struct grammar *g, const struct tool_calls_form *form, const char *name)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t x = REGEX_EMPTY;

    if (!form->is_json_name)
        return grammar_text(g, name);
    for (; *name; name++) {
        char escaped[7] = {'\\', *name}, plain[2] = {*name};
        unsigned char c = (unsigned char)*name;

        if (c < 0x20)
            memcpy(escaped, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], 0}, sizeof(escaped));
        x = regex_concat(&g->regex, x,
                         literal(&g->regex, c < 0x20 || c == '"' || c == '\\' ? escaped : plain));
    }
    return grammar_term(g, x);
}

/* Returns whether a parser of FORM can find the end of the function name NAME. */
static bool is_writable(const struct tool_calls_form *form, const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

    return form->is_json_name || strspn(name, plain) == strlen(name);
}

/* ---- arguments that are no JSON ---- */

/* Returns whether V has no keyword but those of TEXTS and those that allow every value. */
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

/* Returns the expression of text without the marks that end or change a value, between quotes. */
static uint32_t any_text(const struct writer *w)
{
    struct regex_store *s = &w->g->regex;
    uint32_t marks = REGEX_NOTHING, quote = text_of(w, w->form->quote);

    for (size_t k = 0; k < 2 && w->form->value_marks[k]; k++)
        marks = regex_or(s, marks, literal(s, w->form->value_marks[k]));
    return grammar_sequence(w->g, quote,
                            grammar_sequence(w->g, grammar_term(w->g, free_text(s, marks)), quote));
}

/* Sets *OUT to the expression of a string as the schema V says: text, or one of the texts of `enum`. Returns false if
 * V has a keyword that a text without quotes cannot obey. */
static bool text_value(const struct writer *w, const json_t *v, uint32_t *out)
{
    static const char *const keywords[] = {"enum"};
    struct regex_store *s = &w->g->regex;
    uint32_t x = REGEX_NOTHING, quote = text_of(w, w->form->quote);
    json_t *member;
    size_t i;

    *out = any_text(w);
    json_array_foreach(json_object_get(v, "enum"), i, member)
    {
        const char *text = json_string_value(member);

        if (!text || !*text || strstr(text, w->form->value_marks[0]) ||
            strlen(text) != json_string_length(member))
            return false;
        x = regex_or(s, x, literal(s, text));
    }
    if (i)
        *out = grammar_sequence(w->g, quote, grammar_sequence(w->g, grammar_term(w->g, x), quote));
    return has_only(v, keywords, 1);
}

/* Returns whether V, or a schema within it, refers to another one, or has a text with the mark CLOSE. */
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

/* Returns the expression of a member, or of an item of a list in TOOL_CALLS_TREE, whose value has the type TYPE. KEY is
 * an expression, and NAME its text if it is one. */
static uint32_t member_of(const struct writer *w, uint32_t key, const char *name, const char *type,
                          uint32_t value)
{
    const struct tool_calls_form *f = w->form;
    struct grammar *g = w->g;
    bool is_string = strcmp(type, "string") == 0;
    uint32_t x;

    if (f->has_string_flag)
        type = is_string ? "true" : "false";
    else if (strcmp(type, "integer") == 0)
        type = "number";
    x = text_with(w, f->value_after, f->values == TOOL_CALLS_TREE ? name : NULL, type);
    x = grammar_sequence(g, text_with(w, f->key_between, NULL, type), grammar_sequence(g, value, x));
    return grammar_sequence(g, text_of(w, f->key_before), grammar_sequence(g, key, x));
}

/* Returns the expression of any number of X with commas between them. */
static uint32_t list_of(const struct writer *w, uint32_t x)
{
    struct grammar *g = w->g;
    uint32_t more = grammar_sequence(g, text_of(w, w->form->comma), x);

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
    enum tool_calls_values values = w->form->values;
    bool is_nested = values == TOOL_CALLS_TREE || values == TOOL_CALLS_BRACES,
         is_braces = values == TOOL_CALLS_BRACES;
    struct tool_calls_function value = *f;
    struct grammar *g = w->g;
    uint32_t x = GRAMMAR_NEVER;
    int rc;

    value.parameters = v;
    value.value_close = w->form->value_marks[0];
    if (values == TOOL_CALLS_PYTHON)
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
    uint32_t text = w->form->values == TOOL_CALLS_PYTHON ? grammar_term(w->g, word(s, "\"[A-Za-z0-9_.-]*\""))
                                                         : any_text(w);

    if (w->form->values == TOOL_CALLS_TREE)
        return GRAMMAR_END;
    return list_of(w, member_of(w, grammar_term(w->g, word(s, "[A-Za-z0-9_.-]+")), NULL, "string", text));
}

/* Returns whether KEY can be written in the form. */
static bool is_key(const struct tool_calls_form *form, const char *key)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

    return *key && (form->values == TOOL_CALLS_TEXTS ? strcspn(key, "<>\"'& \t\r\n\\")
                                                     : strspn(key, plain)) == strlen(key);
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

/* The expressions of the members of an object from one on: where it is the first that is written, and behind others. */
struct members {
    uint32_t first, next;
};

/* Puts the property KEY, with the schema V, before the members M. */
static int add_member(const struct writer *w, const struct tool_calls_function *f, const char *key,
                      const json_t *v, bool is_required, int depth, struct members *m, struct err *e)
{
    struct grammar *g = w->g;
    const char *type = json_string_value(json_object_get(v, "type"));
    uint32_t x;
    int rc = is_key(w->form, key) ? add_value(w, f, v, depth, &x, e) : ERR_UNSUPPORTED;

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
    x = grammar_sequence(g, text_of(w, w->form->comma), x);
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
 * text BETWEEN, the arguments and the text AFTER of the form. */
static int add_function(const struct writer *w, size_t i, uint32_t *out, struct err *e)
{
    const struct tool_calls_function *f = &w->calls->function[i];
    struct grammar *g = w->g;
    uint32_t arguments = GRAMMAR_NEVER, name;
    int code = 0;

    *out = GRAMMAR_NEVER;
    if (!is_writable(w->form, f->name))
        code = err_set(
            e, ERR_UNSUPPORTED,
            "the name has other characters than letters, digits, _, - and ., which this model's markup "
            "cannot write");
    if (code == 0)
        code = w->form->key_before ? add_members(w, f, f->parameters, 0, &arguments, e)
                                   : w->schema(w->context, g, f, &arguments, e);
    if (code && code != ERR_NOMEM && e)
        err_prefix(e, "function \"%s\"", f->name);
    if (code)
        return code;
    name = name_text(g, w->form, f->name);
    if (w->form->has_channels)
        *out = grammar_sequence(g, preface_call_header(g, w->trie, name), arguments);
    else
        *out = grammar_sequence(g, name,
                                grammar_sequence(g, text_of(w, w->form->between),
                                                 grammar_sequence(g, arguments, text_of(w, w->form->after))));
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
 * form's texts OPEN and BEFORE are omitted, because the caller has already matched them. */
static uint32_t some_calls(const struct writer *w, size_t skipped, bool is_parallel)
{
    const struct tool_calls_form *form = w->form;
    struct grammar *g = w->g;
    size_t in_open = strlen(form->open) < skipped ? strlen(form->open) : skipped;
    uint32_t more, x = grammar_sequence(g, text_of(w, form->before + (skipped - in_open)), w->function);

    if (is_parallel) {
        more = grammar_sequence(g, text_of(w, form->separator),
                                grammar_sequence(g, text_of(w, form->before), w->function));
        x = grammar_sequence(g, x, grammar_repeat(g, more, 0, GRAMMAR_NO_LIMIT));
    }
    return grammar_sequence(g, text_of(w, form->open + in_open),
                            grammar_sequence(g, x, text_of(w, form->close)));
}

/* Returns the expression of an answer that consists of tool calls only. */
static uint32_t whole(const struct writer *w)
{
    uint32_t x = some_calls(w, 0, w->calls->is_parallel);

    if (!w->form->optional)
        return x;
    return grammar_sequence(w->g, grammar_either(w->g, GRAMMAR_END, text_of(w, w->form->optional)), x);
}

uint32_t tool_calls_marks(struct regex_store *s, const struct tool_calls_form *form)
{
    const char *const own[] = {form->mark, form->optional};
    uint32_t marks = REGEX_NOTHING;

    for (size_t i = 0; i < 2; i++)
        marks = own[i] ? regex_or(s, marks, preface_plain(s, own[i])) : marks;
    for (size_t i = 0; i < TOOL_CALLS_OTHERS && form->others[i]; i++)
        marks = regex_or(s, marks, preface_plain(s, form->others[i]));
    if (form->spaced)
        marks = regex_or(s, marks, regex_concat(s, literal(s, form->spaced), word(s, "\\s+\\[")));
    return marks;
}

/* Returns the expression of an answer that is either tool calls, or text that does not begin with `bare`. */
static uint32_t whole_or_text(const struct writer *w)
{
    struct regex_store *s = &w->g->regex;
    uint32_t blank = regex_repeat(s, regex_or(s, regex_range(s, '\t', '\r'), regex_range(s, ' ', ' ')), 0,
                                  REGEX_NO_LIMIT),
             bare = regex_concat(s, blank, regex_concat(s, literal(s, w->form->bare), REGEX_ANYTHING)),
             text = free_text(s, tool_calls_marks(s, w->form));

    return grammar_either(w->g, whole(w), grammar_term(w->g, regex_and(s, text, regex_not(s, bare))));
}

/* Returns the expression of free text that contains tool calls. A mark precedes each tool call. */
static uint32_t among_text(const struct writer *w)
{
    struct grammar *g = w->g;
    struct regex_store *s = &g->regex;
    const struct tool_calls_form *form = w->form;
    bool is_repeated = w->calls->is_parallel && !*form->close && !form->is_last;
    uint32_t text = free_text(s, tool_calls_marks(s, form)), rule = grammar_rule(g),
             until = grammar_sequence(g, grammar_term(g, text), text_of(w, form->mark)),
             calls = some_calls(w, strlen(form->mark), w->calls->is_parallel && !is_repeated),
             more = form->is_last           ? GRAMMAR_END
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
    struct writer w = {
        .g = g, .trie = trie, .calls = calls, .form = &calls->form, .schema = schema, .context = context};
    int code = add_functions(&w, e);
    uint32_t x;

    *start = GRAMMAR_NEVER;
    if (code)
        return code;
    if (w.form->has_channels)
        x = among_messages(&w);
    else if (!calls->is_free)
        x = whole(&w);
    else if (calls->content != GRAMMAR_NEVER)
        x = grammar_either(g, whole(&w), calls->content);
    else
        x = w.form->mark ? among_text(&w) : whole_or_text(&w);
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
    if (!markup || !tool_calls_form_named(markup, &calls->form))
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
