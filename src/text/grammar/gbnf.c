/* gbnf.c - parses a grammar into a tree, and builds its rules bottom-up: each rule after the rules
 * to which it refers.
 *
 * A small rule that does not recur is inlined where it is referred to, so that an identifier, a number or
 * white space is a single regular expression. All other rules become rules of the grammar.
 */
#include "text/grammar/gbnf.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strmap.h"
#include "base/utf8.h"
#include "text/grammar/automata/cursor.h"
#include "text/grammar/automata/pattern.h"

enum kind { EMPTY, ONE, REFERENCE, SEQUENCE, CHOICE, REPEAT };

/* Maximum number of parts of a regular expression that is inlined. */
enum { MOST_INLINED = 2000 };

/* A node of the tree. Members of a sequence or choice are linked from the last to the first. */
struct part {
    uint8_t kind;
    uint16_t depth; /* number of quantifiers that are nested in the part */
    /* ONE: a regular expression. REFERENCE: a rule. SEQUENCE, CHOICE: last member. REPEAT: the part. */
    uint32_t a;
    uint32_t before; /* index of the previous member; 0: this is the first member */
    uint32_t least, most;
};

/* The compiled form of a part: a regular expression that has SIZE parts, or an expression of the grammar. */
struct value {
    bool is_regex;
    uint32_t number;
    size_t size;
};

struct rule {
    uint32_t body;    /* index of the part; 0: the rule is not defined */
    size_t at;        /* offset of the rule's name, where it first occurs */
    size_t n_waiting; /* number of references in the body to rules that are not yet built */
    bool is_built;
    bool has_number; /* NUMBER is set */
    uint32_t number; /* number of the rule in the grammar */
    struct value value;
};

/* A reference in rule FROM to rule TO. */
struct reference {
    uint32_t from, to;
};

struct reader {
    struct cursor in;
    int depth;
    struct grammar *g;
    struct part *part; /* [n_parts] nodes; index 0 is unused */
    size_t n_parts, cap_parts;
    struct rule *rule; /* [n_rules] */
    size_t n_rules, cap_rules;
    struct reference *reference; /* [n_references] */
    size_t n_references, cap_references;
    uint32_t *work; /* [n_work] stack: alternatives under construction */
    size_t n_work, cap_work;
    struct strmap names; /* name of a rule -> index */
    uint32_t current;    /* index of the rule that is being read */
    struct err *e;
};

/* ---- errors and memory ---- */

__attribute__((format(printf, 4, 5))) static uint32_t fail(struct reader *r, int code, size_t at,
                                                           const char *format, ...)
{
    size_t line = 1, column = 1;
    ERR_SENTENCE(sentence, format);

    if (r->in.code)
        return 0;
    for (size_t i = 0; i < at && i < r->in.n; i++) {
        column = r->in.text[i] == '\n' ? 1 : column + ((r->in.text[i] & 0xc0) != 0x80);
        line += r->in.text[i] == '\n';
    }
    r->in.code = err_set(r->e, code, "line %zu, column %zu of the grammar: %s", line, column, sentence);
    return 0;
}

static bool no_memory(struct reader *r)
{
    if (!r->in.code)
        r->in.code = err_nomem(r->e, "a grammar");
    return false;
}

static bool reserve(struct reader *r, void **array, size_t *cap, size_t n, size_t size)
{
    return !r->in.code && (mem_grow(array, cap, n, size, MEM_TEXT) || no_memory(r));
}

static uint32_t add_part(struct reader *r, struct part x)
{
    if (!reserve(r, (void **)&r->part, &r->cap_parts, r->n_parts + 1, sizeof(*r->part)))
        return 0;
    r->part[r->n_parts] = x;
    return (uint32_t)r->n_parts++;
}

/* ---- tokens ---- */

static void skip_blanks(struct reader *r)
{
    while (!cursor_at_end(&r->in) && (utf8_is_blank(cursor_next(&r->in)) || cursor_next(&r->in) == '#')) {
        const char *end = cursor_next(&r->in) == '#' ? memchr(r->in.text + r->in.at, '\n', r->in.n - r->in.at)
                                                     : r->in.text + r->in.at;

        r->in.at = end ? (size_t)(end - r->in.text) + 1 : r->in.n;
    }
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* Returns the length of the name at offset AT; 0: there is no name. */
static size_t name_length(const struct reader *r, size_t at)
{
    size_t n = 0;

    if (at < r->in.n && r->in.text[at] == '.') /* a dot alone means any character */
        return 0;
    while (at + n < r->in.n && is_name_byte(r->in.text[at + n]))
        n++;
    return n;
}

/* True if ::= follows the name of N bytes at the read position, so that the name begins a rule. */
static bool is_rule_head(const struct reader *r, size_t n)
{
    struct reader ahead = *r;

    ahead.in.at += n;
    if (cursor_next(&ahead.in) == '[') { /* options of a rule, or a class */
        const char *end = memchr(r->in.text + ahead.in.at, ']', r->in.n - ahead.in.at);

        ahead.in.at = end ? (size_t)(end - r->in.text) + 1 : ahead.in.at;
    }
    skip_blanks(&ahead);
    return n > 0 && ahead.in.n - ahead.in.at >= 3 && memcmp(ahead.in.text + ahead.in.at, "::=", 3) == 0;
}

/* Consumes the name of N bytes, and returns the index of its rule. A new name adds a rule. */
static uint32_t take_rule(struct reader *r, size_t n)
{
    uint64_t index;

    if (strmap_get(&r->names, r->in.text + r->in.at, n, &index)) {
        r->in.at += n;
        return (uint32_t)index;
    }
    if (r->n_rules == GBNF_MOST_RULES)
        return fail(r, ERR_NOSPACE, r->in.at, "more than %d rules", GBNF_MOST_RULES);
    if (!reserve(r, (void **)&r->rule, &r->cap_rules, r->n_rules + 1, sizeof(*r->rule)))
        return 0;
    if (strmap_put(&r->names, r->in.text + r->in.at, n, r->n_rules) < 0)
        return no_memory(r);
    r->rule[r->n_rules] = (struct rule){.at = r->in.at};
    r->in.at += n;
    return (uint32_t)r->n_rules++;
}

/* ---- characters ---- */

static uint32_t read_hex(struct reader *r, int n, size_t at)
{
    uint32_t v = 0;

    for (int i = 0; i < n; i++) {
        int digit = cursor_at_end(&r->in) ? -1 : utf8_hex_digit(r->in.text[r->in.at]);

        if (digit < 0)
            return fail(r, ERR_INPUT, at, "expected %d hexadecimal digits after the escape", n);
        v = v << 4 | (uint32_t)digit;
        r->in.at++;
    }
    if (n == 2 && !cursor_at_end(&r->in) && utf8_hex_digit(cursor_next(&r->in)) >= 0)
        return fail(r, ERR_UNSUPPORTED, at,
                    "\\x with more than 2 digits is not supported; expected \\u or \\U");
    if ((v >= 0xd800 && v <= 0xdfff) || v > PATTERN_LAST_CHARACTER)
        return fail(r, ERR_INPUT, at, "the escape is not a character; expected one up to \\U0010FFFF");
    return v;
}

/* Reads the next character of a literal or class. */
static uint32_t read_character(struct reader *r)
{
    static const char names[] = "nrtbfav0e", values[] = "\n\r\t\b\f\a\v\0\033";
    size_t at = r->in.at, len;
    const char *found;
    char c;

    if (!cursor_skip(&r->in, "\\")) {
        uint32_t character = utf8_decode(r->in.text + r->in.at, &len);

        r->in.at += len;
        return character;
    }
    c = cursor_next(&r->in);
    if (cursor_at_end(&r->in))
        return fail(r, ERR_INPUT, at, "a backslash at the end of the grammar");
    r->in.at++;
    if (c == 'x' || c == 'u' || c == 'U')
        return read_hex(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, at);
    if (c && (found = strchr(names, c)))
        return (uint32_t)(unsigned char)values[found - names];
    if (c && strchr("\"'\\/?^$.*+()[]{}|-", c))
        return (uint32_t)c;
    return fail(r, ERR_INPUT, at, "an unknown escape; expected one of \\n \\t \\\" \\\\ \\xHH \\uHHHH");
}

/* Reads a literal after its opening quote, as a regular expression. */
static uint32_t read_literal(struct reader *r)
{
    size_t at = r->in.at - 1, n = 0, cap = 0;
    char *text = NULL;
    uint32_t one = REGEX_EMPTY;

    while (!cursor_at_end(&r->in) && cursor_next(&r->in) != '"') {
        if (!reserve(r, (void **)&text, &cap, n + 4, 1))
            break;
        n += utf8_encode(read_character(r), text + n);
    }
    if (!cursor_skip(&r->in, "\""))
        fail(r, ERR_INPUT, at, "a literal without its closing quote");
    if (!r->in.code)
        one = regex_literal(&r->g->regex, n ? text : "", n);
    mem_free(text);
    return one;
}

/* Reads a class after its opening bracket, as a regular expression. */
static uint32_t read_class(struct reader *r)
{
    size_t at = r->in.at - 1;
    bool is_not = cursor_skip(&r->in, "^");
    struct pattern_set set = {0};
    uint32_t one = REGEX_NOTHING;

    if (!is_not && cursor_next(&r->in) == ']')
        return fail(r, ERR_INPUT, at, "an empty class");
    while (!cursor_at_end(&r->in) && cursor_next(&r->in) != ']') {
        size_t from = r->in.at;
        uint32_t low = read_character(r), high = low;

        if (cursor_next(&r->in) == '-' && r->in.at + 1 < r->in.n && r->in.text[r->in.at + 1] != ']') {
            r->in.at++;
            high = read_character(r);
        }
        if (low > high)
            fail(r, ERR_INPUT, from, "a range whose first character is above its last one");
        pattern_set_add(&set, low, high);
    }
    if (!cursor_skip(&r->in, "]"))
        fail(r, ERR_INPUT, at, "a class without ]");
    if (is_not)
        pattern_set_negate(&set);
    if (!r->in.code)
        one = pattern_set_regex(&set, &r->g->regex, regex_characters);
    pattern_set_fini(&set);
    return one;
}

/* Reads the rest of Regex("..."), after the parenthesis, as a regular expression. */
static uint32_t read_regex(struct reader *r, size_t at)
{
    size_t n = 0, cap = 0;
    char *text = NULL;
    uint32_t one = REGEX_NOTHING;
    struct err inner = {0};
    int code;

    skip_blanks(r);
    if (!cursor_skip(&r->in, "\""))
        return fail(r, ERR_INPUT, at, "expected Regex(\"...\")");
    while (!cursor_at_end(&r->in) && cursor_next(&r->in) != '"') {
        if (!reserve(r, (void **)&text, &cap, n + 4, 1))
            break;
        if (r->in.text[r->in.at] == '\\' && r->in.at + 1 < r->in.n &&
            !strchr("\"\\", r->in.text[r->in.at + 1]))
            text[n++] = r->in.text[r->in.at++]; /* an escape of the regular expression itself */
        else
            n += utf8_encode(read_character(r), text + n);
    }
    if (!cursor_skip(&r->in, "\"") || (skip_blanks(r), !cursor_skip(&r->in, ")")))
        fail(r, ERR_INPUT, at, "expected Regex(\"...\") without other arguments");
    if (!r->in.code) {
        code = pattern_read(&r->g->regex, n ? text : "", n, regex_characters, PATTERN_WHOLE, &one, &inner);
        if (code == ERR_NOMEM)
            no_memory(r);
        else if (code)
            fail(r, code, at, "%s", inner.msg);
    }
    mem_free(text);
    return one;
}

/* ---- parts ---- */

static uint32_t read_choice(struct reader *r);

static uint32_t read_bound(struct reader *r, bool *is_there)
{
    uint32_t v = 0;

    skip_blanks(r);
    for (*is_there = false; cursor_next(&r->in) >= '0' && cursor_next(&r->in) <= '9';
         r->in.at++, *is_there = true)
        v = v > GBNF_MOST_COUNT ? v : v * 10 + (uint32_t)(cursor_next(&r->in) - '0');
    skip_blanks(r);
    return v;
}

/* Reads the quantifiers after PART. Returns the quantified part. */
static uint32_t read_quantifiers(struct reader *r, uint32_t part)
{
    for (;;) {
        struct part x = {.kind = REPEAT, .a = part, .most = GRAMMAR_NO_LIMIT};
        size_t at;
        bool has_least, has_most = true;

        skip_blanks(r);
        at = r->in.at;
        x.depth = r->part[part].depth + 1;
        if (cursor_skip(&r->in, "?")) {
            x.most = 1;
        } else if (cursor_skip(&r->in, "+")) {
            x.least = 1;
        } else if (cursor_skip(&r->in, "{")) {
            x.least = x.most = read_bound(r, &has_least);
            if (cursor_skip(&r->in, ",")) {
                x.most = read_bound(r, &has_most);
                x.most = has_most ? x.most : GRAMMAR_NO_LIMIT;
            }
            if (!cursor_skip(&r->in, "}") || !has_least)
                return fail(r, ERR_INPUT, at, "expected {m}, {m,} or {m,n}");
            if (x.least > GBNF_MOST_COUNT || (has_most && x.most > GBNF_MOST_COUNT))
                return fail(r, ERR_NOSPACE, at, "a count above the limit of %d", GBNF_MOST_COUNT);
            if (x.least > x.most)
                return fail(r, ERR_INPUT, at, "a count whose first number is above its second one");
        } else if (!cursor_skip(&r->in, "*")) {
            return part;
        }
        if (x.depth > GBNF_MOST_DEPTH)
            return fail(r, ERR_NOSPACE, at, "quantifiers are nested deeper than %d", GBNF_MOST_DEPTH);
        part = add_part(r, x);
    }
}

static uint32_t one_part(struct reader *r, uint32_t regex)
{
    return add_part(r, (struct part){.kind = ONE, .a = regex});
}

static uint32_t read_group(struct reader *r)
{
    size_t at = r->in.at - 1;
    uint32_t part;

    if (cursor_next(&r->in) == '=')
        return fail(r, ERR_UNSUPPORTED, at, "look-ahead, (= ...), is not supported");
    if (++r->depth > GBNF_MOST_DEPTH)
        return fail(r, ERR_NOSPACE, at, "groups are nested deeper than %d", GBNF_MOST_DEPTH);
    part = read_choice(r);
    r->depth--;
    if (!cursor_skip(&r->in, ")"))
        fail(r, ERR_INPUT, at, "a group without )");
    /* The group needs a part of its own, which is linked as a member of the enclosing sequence. */
    return add_part(
        r, (struct part){.kind = REPEAT, .depth = r->part[part].depth, .a = part, .least = 1, .most = 1});
}

/* Reads a name of N bytes: a reference to a rule, or a macro. */
static uint32_t read_name(struct reader *r, size_t n)
{
    static const char *const macro[] = {"TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken"};
    size_t at = r->in.at;
    uint32_t rule;

    if (at + n < r->in.n && r->in.text[at + n] == '(' && n == strlen("Regex") &&
        memcmp(r->in.text + at, "Regex", n) == 0) {
        r->in.at += n + 1;
        return one_part(r, read_regex(r, at));
    }
    for (size_t i = 0; at + n < r->in.n && r->in.text[at + n] == '(' && i < sizeof(macro) / sizeof(*macro);
         i++)
        if (strlen(macro[i]) == n && memcmp(r->in.text + at, macro[i], n) == 0)
            return fail(r, ERR_UNSUPPORTED, at, "the macro \"%s\" is not supported", macro[i]);
    rule = take_rule(r, n);
    if (!reserve(r, (void **)&r->reference, &r->cap_references, r->n_references + 1, sizeof(*r->reference)))
        return 0;
    r->reference[r->n_references++] = (struct reference){r->current, rule};
    return add_part(r, (struct part){.kind = REFERENCE, .a = rule});
}

/* Reads the next element of a sequence: a name, literal, class or group. Returns 0 if the sequence ends. */
static uint32_t read_element(struct reader *r)
{
    size_t n = name_length(r, r->in.at), at = r->in.at;

    if (n > 0)
        return is_rule_head(r, n) ? 0 : read_name(r, n);
    if (cursor_skip(&r->in, "\""))
        return one_part(r, read_literal(r));
    if (cursor_skip(&r->in, "["))
        return one_part(r, read_class(r));
    if (cursor_skip(&r->in, "("))
        return read_group(r);
    if (cursor_skip(&r->in, "."))
        return one_part(r, regex_characters(&r->g->regex, 0, PATTERN_LAST_CHARACTER));
    if (cursor_next(&r->in) == '<' || cursor_next(&r->in) == '!')
        return fail(r, ERR_UNSUPPORTED, at,
                    "tokens, <token> or <[7]>, are not supported; expected their text");
    return 0;
}

/* Appends PART to the members of X, a sequence or choice. */
static void add_member(struct reader *r, struct part *x, uint32_t part)
{
    struct part *p = &r->part[part];

    p->before = x->a;
    x->a = part;
    x->depth = p->depth > x->depth ? p->depth : x->depth;
}

static uint32_t read_sequence(struct reader *r)
{
    struct part x = {.kind = SEQUENCE};

    for (;;) {
        uint32_t part;

        skip_blanks(r);
        part = read_element(r);
        part = part ? read_quantifiers(r, part) : 0;
        if (!part || r->in.code)
            break;
        add_member(r, &x, part);
    }
    x.kind = x.a ? SEQUENCE : EMPTY;
    return add_part(r, x);
}

static uint32_t read_choice(struct reader *r)
{
    struct part x = {.kind = CHOICE};
    uint32_t n = 0;

    do {
        uint32_t part = read_sequence(r);

        if (r->in.code)
            return 0;
        add_member(r, &x, part);
        n++;
    } while (cursor_skip(&r->in, "|"));
    return n == 1 ? x.a : add_part(r, x);
}

static void read_rules(struct reader *r)
{
    for (skip_blanks(r); !cursor_at_end(&r->in); skip_blanks(r)) {
        size_t n = name_length(r, r->in.at), at = r->in.at;

        if (n > 0 && at + n < r->in.n && r->in.text[at + n] == '[')
            fail(r, ERR_UNSUPPORTED, at + n, "options of a rule are not supported; expected ::=");
        else if (!is_rule_head(r, n))
            fail(r, ERR_INPUT, at, "expected a rule: a name and ::=");
        r->current = r->in.code ? 0 : take_rule(r, n);
        if (r->in.code)
            return;
        if (r->rule[r->current].body)
            fail(r, ERR_INPUT, at, "the rule \"%.*s\" is defined twice", n > 60 ? 60 : (int)n,
                 r->in.text + at);
        skip_blanks(r);
        cursor_skip(&r->in, "::=");
        n = read_choice(r);
        if (r->in.code)
            return;
        r->rule[r->current].body = (uint32_t)n;
    }
}

/* ---- building ---- */

static void push_work(struct reader *r, uint32_t x)
{
    if (reserve(r, (void **)&r->work, &r->cap_work, r->n_work + 1, sizeof(*r->work)))
        r->work[r->n_work++] = x;
}

static uint32_t as_expression(struct reader *r, struct value v)
{
    return v.is_regex ? grammar_term(r->g, v.number) : v.number;
}

static uint32_t call_rule(struct reader *r, struct rule *rule)
{
    if (!rule->has_number)
        rule->number = grammar_rule(r->g);
    rule->has_number = true;
    return grammar_call(r->g, rule->number);
}

static struct value build(struct reader *r, uint32_t i);

static struct value build_sequence(struct reader *r, uint32_t last)
{
    struct value run = {true, REGEX_EMPTY, 0}, v;
    uint32_t rest = GRAMMAR_END;
    bool has_rest = false;

    for (uint32_t m = last; m && !r->in.code; m = r->part[m].before) {
        v = build(r, m);
        if (v.is_regex && run.size + v.size <= MOST_INLINED) {
            run.number = regex_concat(&r->g->regex, v.number, run.number);
            run.size += v.size;
            continue;
        }
        rest = grammar_sequence(r->g, grammar_term(r->g, run.number), rest);
        has_rest = true;
        run = (struct value){true, REGEX_EMPTY, 0};
        if (v.is_regex)
            run = v;
        else
            rest = grammar_sequence(r->g, v.number, rest);
    }
    if (!has_rest)
        return run;
    return (struct value){false, grammar_sequence(r->g, grammar_term(r->g, run.number), rest), 0};
}

static struct value build_choice(struct reader *r, uint32_t last)
{
    size_t start = r->n_work, n_regex = 0, n = 0;
    struct value regular = {true, REGEX_NOTHING, 0}, v;
    uint32_t out;

    /* r->work has two numbers for each alternative: whether it is a regular expression, and its number. */
    for (uint32_t m = last; m && !r->in.code; m = r->part[m].before, n++) {
        v = build(r, m);
        if (v.is_regex && regular.size + v.size <= MOST_INLINED) {
            regular.size += v.size + 1;
            push_work(r, true);
            push_work(r, v.number);
            n_regex++;
        } else {
            push_work(r, false);
            push_work(r, as_expression(r, v));
        }
    }
    for (size_t i = 0; i < n && !r->in.code; i++)
        if (r->work[start + 2 * i])
            push_work(r, r->work[start + 2 * i + 1]);
    if (!r->in.code)
        regular.number = regex_union(&r->g->regex, r->work + start + 2 * n, n_regex);
    r->n_work = r->in.code ? r->n_work : start + 2 * n;
    if (n_regex < n) {
        push_work(r, as_expression(r, regular));
        for (size_t i = 0; i < n && !r->in.code; i++)
            if (!r->work[start + 2 * i])
                push_work(r, r->work[start + 2 * i + 1]);
        out = r->in.code ? GRAMMAR_NEVER
                         : grammar_choice(r->g, r->work + start + 2 * n, r->n_work - start - 2 * n);
        regular = (struct value){false, out, 0};
    }
    r->n_work = start;
    return regular;
}

/* Compiles part I. References to rules that are not built yet become calls of these rules. */
static struct value build(struct reader *r, uint32_t i)
{
    struct part x = r->part[i];
    struct value v = {true, REGEX_EMPTY, 0};

    switch ((enum kind)x.kind) {
    case EMPTY: return v;
    case ONE: return (struct value){true, x.a, 1};
    case REFERENCE:
        if (r->rule[x.a].is_built && r->rule[x.a].value.is_regex)
            return r->rule[x.a].value;
        return (struct value){false, call_rule(r, &r->rule[x.a]), 0};
    case SEQUENCE: return build_sequence(r, x.a);
    case CHOICE: return build_choice(r, x.a);
    case REPEAT:
        v = build(r, x.a);
        if (x.least != 1 || x.most != 1)
            v.number = v.is_regex ? regex_repeat(&r->g->regex, v.number, x.least, x.most)
                                  : grammar_repeat(r->g, v.number, x.least, x.most);
        return v;
    }
    return v;
}

static void build_rule(struct reader *r, uint32_t i)
{
    struct value v = build(r, r->rule[i].body);

    if (!v.is_regex || r->rule[i].has_number) {
        uint32_t body = as_expression(r, v);

        v = (struct value){false, call_rule(r, &r->rule[i]), 0};
        grammar_define(r->g, r->rule[i].number, body);
    }
    r->rule[i].value = v;
    r->rule[i].is_built = true;
}

static int compare_references(const void *a, const void *b)
{
    uint32_t x = ((const struct reference *)a)->to, y = ((const struct reference *)b)->to;

    return (x > y) - (x < y);
}

/* Builds first the rules that depend on no recursive rule, in topological order, then the others. */
static void build_rules(struct reader *r)
{
    uint32_t *ready, *first;
    size_t n_ready = 0;

    if (r->n_references > 1)
        qsort(r->reference, r->n_references, sizeof(*r->reference), compare_references);
    ready = mem_zalloc(r->n_rules, sizeof(*ready), MEM_TEXT);
    first = mem_zalloc(r->n_rules + 1, sizeof(*first), MEM_TEXT);
    if (!ready || !first)
        no_memory(r);
    for (size_t i = 0; i < r->n_references && !r->in.code; i++) {
        r->rule[r->reference[i].from].n_waiting++;
        first[r->reference[i].to + 1] = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < r->n_rules && !r->in.code; i++) {
        if (first[i + 1] == 0) /* no rule refers to rule i: its range is empty */
            first[i + 1] = first[i];
        if (r->rule[i].n_waiting == 0)
            ready[n_ready++] = (uint32_t)i;
    }
    for (size_t k = 0; k < n_ready && !r->in.code; k++) {
        build_rule(r, ready[k]);
        for (uint32_t i = first[ready[k]]; i < first[ready[k] + 1]; i++)
            if (--r->rule[r->reference[i].from].n_waiting == 0)
                ready[n_ready++] = r->reference[i].from;
    }
    for (size_t i = 0; i < r->n_rules && !r->in.code; i++)
        if (!r->rule[i].is_built)
            build_rule(r, (uint32_t)i);
    mem_free(ready);
    mem_free(first);
}

static void check_rules(struct reader *r)
{
    uint64_t root;

    for (size_t i = 0; i < r->n_rules && !r->in.code; i++) {
        size_t n = name_length(r, r->rule[i].at);

        if (!r->rule[i].body)
            fail(r, ERR_INPUT, r->rule[i].at, "the rule \"%.*s\" is not defined", n > 60 ? 60 : (int)n,
                 r->in.text + r->rule[i].at);
    }
    if (!r->in.code && !strmap_get(&r->names, "root", 4, &root))
        r->in.code = err_set(r->e, ERR_INPUT, "the grammar has no rule \"root\"");
}

int gbnf_read(struct grammar *g, const char *text, size_t n, uint32_t *start, struct err *e)
{
    struct reader r = {.in = {.text = text, .n = n}, .g = g, .e = e};
    size_t valid = utf8_valid_prefix(text, n);
    uint64_t root = 0;

    *start = GRAMMAR_NEVER;
    strmap_init(&r.names, MEM_TEXT);
    add_part(&r, (struct part){0});
    if (n > GBNF_MOST_BYTES)
        r.in.code =
            err_set(e, ERR_NOSPACE, "the grammar has %zu bytes; the maximum is %d", n, GBNF_MOST_BYTES);
    if (valid < n)
        fail(&r, ERR_INPUT, valid, "a byte that is not UTF-8");
    if (!r.in.code)
        read_rules(&r);
    if (!r.in.code)
        check_rules(&r);
    if (!r.in.code)
        build_rules(&r);
    if (!r.in.code && strmap_get(&r.names, "root", 4, &root))
        *start = as_expression(&r, r.rule[root].value);
    if (!r.in.code)
        r.in.code = grammar_fault(g, e);
    if (r.in.code)
        *start = GRAMMAR_NEVER;
    mem_free(r.part);
    mem_free(r.rule);
    mem_free(r.reference);
    mem_free(r.work);
    strmap_fini(&r.names);
    return r.in.code;
}
