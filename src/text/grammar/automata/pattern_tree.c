/* pattern_tree.c - parses regular expressions by recursive descent, with one function for each level of
 * precedence. After the first error, which is recorded, functions return 0 or false. */
#include "text/grammar/automata/pattern_tree.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/grammar/automata/cursor.h"

/* Maximum number of ranges in all classes of a pattern together. \p{L} has 650 ranges and takes 0.5 ms. */
enum { MOST_RANGES = 300000 };

struct reader {
    struct cursor in;
    bool is_python; /* the dialect is PATTERN_WHOLE */
    bool ignores_case, dot_is_all;
    int depth;
    struct regex_store *s;
    pattern_alphabet *alphabet;
    struct pattern_tree *tree;
    struct pattern_cases cases;
    size_t n_ranges; /* number of ranges in all classes so far */
    struct err *e;
};

__attribute__((format(printf, 4, 5))) static uint32_t fail(struct reader *r, int code, size_t at,
                                                           const char *format, ...)
{
    ERR_SENTENCE(sentence, format);

    if (r->in.code)
        return 0;
    r->in.code = err_set(r->e, code, "offset %zu of the regular expression: %s", at, sentence);
    return 0;
}

static uint32_t add_part(struct reader *r, struct pattern_part x)
{
    struct pattern_tree *t = r->tree;

    if (r->in.code)
        return 0;
    if (t->n >= UINT32_MAX / 2 ||
        !mem_grow((void **)&t->part, &t->cap, t->n + 1, sizeof(*t->part), MEM_TEXT)) {
        r->in.code = err_nomem(r->e, "a regular expression");
        return 0;
    }
    t->part[t->n] = x;
    return (uint32_t)t->n++;
}

static uint32_t take_character(struct reader *r)
{
    size_t len;
    uint32_t c = utf8_decode(r->in.text + r->in.at, &len);

    r->in.at += len;
    return c;
}

/* ---- sets ---- */

/* Makes a part that matches one character of SET, and frees SET. */
static uint32_t set_part(struct reader *r, struct pattern_set *set, size_t at)
{
    uint32_t one = REGEX_NOTHING;

    r->n_ranges += set->n;
    if (r->n_ranges > MOST_RANGES)
        fail(r, ERR_NOSPACE, at, "all character classes together have more than %d ranges", MOST_RANGES);
    if (!r->in.code)
        one = pattern_set_regex(set, r->s, r->alphabet);
    pattern_set_fini(set);
    return add_part(r, (struct pattern_part){.kind = PATTERN_ONE, .a = one, .at = (uint32_t)at});
}

static void fold(struct reader *r, struct pattern_set *set, size_t at)
{
    if (r->ignores_case && !pattern_set_fold(set, &r->cases))
        fail(r, ERR_NOSPACE, at,
             "the expression has too many characters beyond ASCII in parts that ignore case");
}

static uint32_t character_part(struct reader *r, uint32_t c, size_t at)
{
    struct pattern_set set = {0};

    if (!r->ignores_case)
        return add_part(
            r, (struct pattern_part){.kind = PATTERN_ONE, .a = r->alphabet(r->s, c, c), .at = (uint32_t)at});
    pattern_set_add(&set, c, c);
    fold(r, &set, at);
    return set_part(r, &set, at);
}

static uint32_t dot_part(struct reader *r, size_t at)
{
    struct pattern_set set = {0};

    if (!r->dot_is_all) {
        pattern_set_add(&set, '\n', '\n');
        pattern_set_add(&set, '\r', '\r');
        pattern_set_add(&set, 0x2028, 0x2029);
    }
    pattern_set_negate(&set);
    return set_part(r, &set, at);
}

/* Adds the characters of \s in ECMA-262. */
static void add_ecma_spaces(struct pattern_set *set)
{
    static const struct pattern_range spaces[] = {
        {9, 13},          {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};

    pattern_set_add_all(set, spaces, sizeof(spaces) / sizeof(*spaces));
}

static void read_property(struct reader *r, struct pattern_set *set, size_t at)
{
    const char *name = r->in.text + r->in.at, *end;

    if (cursor_next(&r->in) != '{') {
        fail(r, ERR_INPUT, at, "a property without a name; expected \\p{...}");
        return;
    }
    name++;
    end = memchr(name, '}', r->in.n - r->in.at - 1);
    if (!end)
        fail(r, ERR_INPUT, at, "\\p{ without }");
    else if (!pattern_set_add_property(set, name, (size_t)(end - name)))
        fail(r, ERR_UNSUPPORTED, at,
             "the property \"%.*s\" is not supported; expected a general category such as L, Lu, Nd or P",
             end - name > 60 ? 60 : (int)(end - name), name);
    else
        r->in.at = (size_t)(end - r->in.text) + 1;
}

/* Adds the characters of an escape such as \d to SET. AT is the offset of the backslash, which is already
 * consumed. IN_NOT: the escape is inside a negated class. False: the escape is not a set. */
static bool read_set(struct reader *r, bool in_not, struct pattern_set *set, size_t at)
{
    char kind = (char)(cursor_next(&r->in) | 32);
    bool negated = cursor_next(&r->in) != kind;
    struct pattern_set one = {0};

    if (kind != 'd' && kind != 'w' && kind != 's' && kind != 'p')
        return false;
    r->in.at++;
    if (kind == 'p')
        read_property(r, &one, at);
    else if (kind == 's' && !r->is_python)
        add_ecma_spaces(&one);
    else
        pattern_set_add_kind(&one, kind, r->is_python && negated != in_not);
    if (r->ignores_case && kind == 'p')
        fold(r, &one, at);
    if (negated)
        pattern_set_negate(&one);
    pattern_set_join(set, &one);
    pattern_set_fini(&one);
    return true;
}

/* ---- escapes of one character ---- */

/* Reads N hexadecimal digits. */
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
    return v;
}

/* Reads the rest of \u: four digits, two such escapes for a surrogate pair, or digits in braces. */
static uint32_t read_unicode(struct reader *r, size_t at)
{
    uint32_t c = 0, second;
    size_t mark;

    if (!r->is_python && cursor_skip(&r->in, "{")) {
        for (mark = r->in.at; !cursor_at_end(&r->in) && utf8_hex_digit(cursor_next(&r->in)) >= 0 &&
                              c <= PATTERN_LAST_CHARACTER;)
            c = c << 4 | (uint32_t)utf8_hex_digit(r->in.text[r->in.at++]);
        if (r->in.at == mark || !cursor_skip(&r->in, "}") || c > PATTERN_LAST_CHARACTER)
            return fail(r, ERR_INPUT, at, "expected \\u{...} with a number up to 10FFFF");
        return c;
    }
    c = read_hex(r, 4, at);
    mark = r->in.at;
    if (c < 0xd800 || c > 0xdbff || !cursor_skip(&r->in, "\\u") || cursor_next(&r->in) == '{')
        second = 0;
    else
        second = read_hex(r, 4, at);
    if (second >= 0xdc00 && second <= 0xdfff)
        return 0x10000 + ((c - 0xd800) << 10) + (second - 0xdc00);
    r->in.at = mark;
    return c;
}

/* Reads the rest of Python's octal escapes \0 to \377, after the first digit LETTER. */
static uint32_t read_octal(struct reader *r, char letter, size_t at)
{
    uint32_t c = (uint32_t)(letter - '0');
    int n = 1;

    for (; n < 3 && cursor_next(&r->in) >= '0' && cursor_next(&r->in) <= '7'; n++)
        c = c << 3 | (uint32_t)(r->in.text[r->in.at++] - '0');
    if (c > 0377 || (letter != '0' && n < 3))
        return fail(r, ERR_UNSUPPORTED, at, "a back reference is not supported");
    return c;
}

/* Reads an escape of one character, such as \n, after its backslash. AT: offset of the backslash. */
static uint32_t read_escape(struct reader *r, size_t at)
{
    static const char names[] = "tnvfr", values[] = "\t\n\v\f\r";
    const char *found;
    uint32_t c;

    if (cursor_at_end(&r->in))
        return fail(r, ERR_INPUT, at, "a backslash at the end; expected an escape");
    c = take_character(r);
    if (c < 0x80 && c && (found = strchr(names, (int)c)))
        return (uint32_t)values[found - names];
    if (c == 'x')
        return read_hex(r, 2, at);
    if (c == 'u')
        return read_unicode(r, at);
    if (r->is_python && c == 'a')
        return '\a';
    if (r->is_python && c == 'U')
        return (c = read_hex(r, 8, at)) <= PATTERN_LAST_CHARACTER
                   ? c
                   : fail(r, ERR_INPUT, at, "expected \\U with a number up to 0010FFFF");
    if (c == 'c' && !r->is_python && (cursor_next(&r->in) | 32) >= 'a' && (cursor_next(&r->in) | 32) <= 'z')
        return (uint32_t)(r->in.text[r->in.at++] & 31);
    if (c >= '0' && c <= '7' && r->is_python)
        return read_octal(r, (char)c, at);
    if (c == '0' && !(cursor_next(&r->in) >= '0' && cursor_next(&r->in) <= '9'))
        return 0;
    if ((c >= '1' && c <= '9') || c == 'k')
        return fail(r, ERR_UNSUPPORTED, at, "a back reference is not supported");
    if ((c | 32) >= 'a' && (c | 32) <= 'z' && c < 0x80)
        return fail(r, ERR_INPUT, at, "the escape \\%c is unknown%s", (char)c,
                    c == 'A' || c == 'Z' || c == 'z' ? "; expected ^ or $" : "");
    if (c == '0')
        return fail(r, ERR_INPUT, at, "an octal escape; expected \\x and two digits");
    return c;
}

/* ---- classes ---- */

/* Reads a member of a class. True: it is a character, stored in *C. False: it is a set, added to SET. */
static bool read_class_atom(struct reader *r, bool is_not, struct pattern_set *set, uint32_t *c)
{
    size_t at = r->in.at;

    if (cursor_at_end(&r->in))
        return fail(r, ERR_INPUT, at, "a character class without ]") != 0;
    if (!cursor_skip(&r->in, "\\")) {
        *c = take_character(r);
        return true;
    }
    if (read_set(r, is_not, set, at))
        return false;
    *c = cursor_skip(&r->in, "b") ? '\b' : read_escape(r, at);
    return !r->in.code;
}

static uint32_t class_part(struct reader *r)
{
    size_t at = r->in.at - 1, first;
    bool is_not = cursor_skip(&r->in, "^");
    struct pattern_set set = {0}, sets = {0};

    for (first = r->in.at;
         !r->in.code && !(cursor_next(&r->in) == ']' && (r->in.at > first || !r->is_python));) {
        uint32_t low, high;
        size_t from = r->in.at;
        bool has_low = read_class_atom(r, is_not, &sets, &low), has_high;

        if (cursor_next(&r->in) != '-' || r->in.at + 1 >= r->in.n || r->in.text[r->in.at + 1] == ']') {
            if (has_low)
                pattern_set_add(&set, low, low);
            continue;
        }
        r->in.at++;
        has_high = read_class_atom(r, is_not, &sets, &high);
        if (has_low && has_high && low > high)
            fail(r, ERR_INPUT, from, "a range whose first character is above its last one");
        if (has_low && has_high) {
            pattern_set_add(&set, low, high);
            continue;
        }
        pattern_set_add(&set, '-', '-'); /* a hyphen beside a set is a literal */
        if (has_low || has_high)
            pattern_set_add(&set, has_low ? low : high, has_low ? low : high);
    }
    r->in.at += !r->in.code;
    if (set.n > 0)
        fold(r, &set, at);
    pattern_set_join(&set, &sets);
    pattern_set_fini(&sets);
    if (is_not)
        pattern_set_negate(&set);
    return set_part(r, &set, at);
}

/* ---- groups ---- */

static uint32_t read_choice(struct reader *r);

/* Reads the flags of (?is-is) or (?is-is:...). True: the group continues after a colon; false: it ends. */
static bool read_flags(struct reader *r, size_t at)
{
    bool on = true;

    for (;; r->in.at++) {
        char c = cursor_next(&r->in);

        if (c == ':' || c == ')') {
            r->in.at++;
            return c == ':';
        }
        if (c == '-' && on)
            on = false;
        else if (c == 'i')
            r->ignores_case = on;
        else if (c == 's')
            r->dot_is_all = on;
        else if (cursor_at_end(&r->in) || (c != 'a' && c != 'u')) {
            fail(r, ERR_UNSUPPORTED, at, "a group that begins with \"(?%.*s\" is not supported",
                 r->in.at + 1 > r->in.n ? 0 : 1, r->in.text + (r->in.at < r->in.n ? r->in.at : 0));
            return false;
        }
    }
}

/* Skips the name of a group and the > after it. */
static void skip_name(struct reader *r, size_t at)
{
    const char *end = memchr(r->in.text + r->in.at, '>', r->in.n - r->in.at);

    if (!end || end == r->in.text + r->in.at)
        fail(r, ERR_INPUT, at, "a group without a name; expected (?<name>...)");
    else
        r->in.at = (size_t)(end - r->in.text) + 1;
}

/* Reads the text after "(?". Sets *KIND to a look-ahead or PATTERN_EMPTY. False: the group has ended. */
static bool read_group_kind(struct reader *r, size_t at, enum pattern_kind *kind)
{
    const char *end;

    if (cursor_skip(&r->in, "="))
        *kind = PATTERN_AHEAD;
    else if (cursor_skip(&r->in, "!"))
        *kind = PATTERN_NOT_AHEAD;
    else if (cursor_skip(&r->in, "<=") || cursor_skip(&r->in, "<!"))
        fail(r, ERR_UNSUPPORTED, at, "look-behind is not supported");
    else if (cursor_skip(&r->in, ">"))
        fail(r, ERR_UNSUPPORTED, at, "an atomic group is not supported");
    else if (cursor_skip(&r->in, "P=") || cursor_skip(&r->in, "("))
        fail(r, ERR_UNSUPPORTED, at, "a back reference is not supported");
    else if (cursor_skip(&r->in, "P<") || cursor_skip(&r->in, "<"))
        skip_name(r, at);
    else if (r->is_python && cursor_skip(&r->in, "#")) {
        end = memchr(r->in.text + r->in.at, ')', r->in.n - r->in.at);
        r->in.at = end ? (size_t)(end - r->in.text) + 1 : r->in.n;
        if (!end)
            fail(r, ERR_INPUT, at, "a comment without )");
        return false;
    } else if (!cursor_skip(&r->in, ":"))
        return read_flags(r, at);
    return !r->in.code;
}

static uint32_t group_part(struct reader *r)
{
    size_t at = r->in.at - 1;
    bool ignores_case = r->ignores_case, dot_is_all = r->dot_is_all;
    enum pattern_kind kind = PATTERN_EMPTY;
    uint32_t inner;

    if (++r->depth > PATTERN_MOST_DEPTH)
        return fail(r, ERR_NOSPACE, at, "groups are nested deeper than %d", PATTERN_MOST_DEPTH);
    if (cursor_skip(&r->in, "?") && !read_group_kind(r, at, &kind)) {
        r->depth--;
        return add_part(r, (struct pattern_part){.kind = PATTERN_EMPTY, .may_be_empty = true});
    }
    inner = read_choice(r);
    if (!cursor_skip(&r->in, ")"))
        return fail(r, ERR_INPUT, at, "a group without )");
    r->depth--;
    r->ignores_case = ignores_case;
    r->dot_is_all = dot_is_all;
    if (kind == PATTERN_EMPTY)
        return inner;
    return add_part(r,
                    (struct pattern_part){
                        .kind = (uint8_t)kind, .a = inner, .asks = PATTERN_ASKS_CONTEXT, .at = (uint32_t)at});
}

/* ---- sequences ---- */

/* Reads an assertion, and returns its part. 0: no assertion follows. */
static uint32_t read_assertion(struct reader *r)
{
    static const struct {
        const char *text;
        bool python_only;
        enum pattern_kind kind;
        enum pattern_asks asks;
    } row[] = {
        {"^", false, PATTERN_START, PATTERN_ASKS_EDGES},
        {"$", false, PATTERN_END, PATTERN_ASKS_EDGES},
        {"\\A", true, PATTERN_START, PATTERN_ASKS_EDGES},
        {"\\Z", true, PATTERN_END, PATTERN_ASKS_EDGES},
        {"\\b", false, PATTERN_BOUNDARY, PATTERN_ASKS_CONTEXT},
        {"\\B", false, PATTERN_INSIDE, PATTERN_ASKS_CONTEXT},
    };
    size_t at = r->in.at;

    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++)
        if ((r->is_python || !row[i].python_only) && cursor_skip(&r->in, row[i].text))
            return add_part(r, (struct pattern_part){.kind = (uint8_t)row[i].kind,
                                                     .asks = (uint8_t)row[i].asks,
                                                     .at = (uint32_t)at});
    return 0;
}

static uint32_t read_bound(struct reader *r, size_t *n_digits)
{
    uint32_t v = 0;

    for (*n_digits = 0; cursor_next(&r->in) >= '0' && cursor_next(&r->in) <= '9'; ++*n_digits, r->in.at++)
        v = v > PATTERN_MOST_COUNT ? v : v * 10 + (uint32_t)(r->in.text[r->in.at] - '0');
    return v;
}

/* Reads a quantifier in braces, {least,most}. False: the brace is a literal, and nothing was consumed. */
static bool read_counts(struct reader *r, uint32_t *least, uint32_t *most)
{
    size_t at = r->in.at, n_least, n_most = 0;
    bool has_most;

    if (!cursor_skip(&r->in, "{"))
        return false;
    *least = *most = read_bound(r, &n_least);
    has_most = cursor_skip(&r->in, ",");
    if (has_most) {
        *most = read_bound(r, &n_most);
        *most = n_most ? *most : REGEX_NO_LIMIT;
    }
    if (!cursor_skip(&r->in, "}") || (n_least == 0 && (!r->is_python || !has_most))) {
        r->in.at = at;
        return false;
    }
    if (*least > PATTERN_MOST_COUNT || (n_most && *most > PATTERN_MOST_COUNT))
        fail(r, ERR_NOSPACE, at, "a count above the limit of %d", PATTERN_MOST_COUNT);
    else if (*least > *most)
        fail(r, ERR_INPUT, at, "a quantifier whose first count is above its second one");
    return true;
}

/* Reads a quantifier. False: no quantifier follows. */
static bool read_quantifier(struct reader *r, uint32_t *least, uint32_t *most)
{
    char c = cursor_next(&r->in);

    *least = c == '+';
    *most = c == '?' ? 1 : REGEX_NO_LIMIT;
    if (c != '*' && c != '+' && c != '?')
        return read_counts(r, least, most);
    r->in.at++;
    return true;
}

/* Reads the quantifiers of PART, which began at offset AT. Returns the quantified part. */
static uint32_t quantified(struct reader *r, uint32_t part, size_t at)
{
    struct pattern_part x = {.kind = PATTERN_REPEAT, .a = part, .at = (uint32_t)at};
    size_t mark = r->in.at;
    const struct pattern_part *inner;

    if (r->in.code || !read_quantifier(r, &x.least, &x.most) || r->in.code)
        return part;
    inner = &r->tree->part[part];
    if (inner->kind >= PATTERN_START)
        return fail(r, ERR_INPUT, mark,
                    "a quantifier behind an assertion; expected it behind a character or group");
    if (cursor_next(&r->in) == '+')
        return fail(r, ERR_UNSUPPORTED, mark, "a possessive quantifier is not supported");
    cursor_skip(&r->in, "?");
    if (cursor_next(&r->in) == '*' || cursor_next(&r->in) == '+' || cursor_next(&r->in) == '?')
        return fail(r, ERR_INPUT, r->in.at, "a quantifier behind a quantifier");
    x.asks = inner->asks;
    x.may_be_empty = x.least == 0 || inner->may_be_empty;
    return add_part(r, x);
}

static uint32_t read_atom(struct reader *r)
{
    size_t at = r->in.at;
    char c = cursor_next(&r->in);
    struct pattern_set set = {0};
    uint32_t part = read_assertion(r);

    if (part || r->in.code)
        return part;
    if (cursor_skip(&r->in, "("))
        return group_part(r);
    if (cursor_skip(&r->in, "["))
        return class_part(r);
    if (cursor_skip(&r->in, "."))
        return dot_part(r, at);
    if (c == '*' || c == '+' || c == '?' || (c == '{' && read_counts(r, &(uint32_t){0}, &(uint32_t){0})))
        return fail(r, ERR_INPUT, at, "a quantifier with nothing to repeat");
    if (!cursor_skip(&r->in, "\\"))
        return character_part(r, take_character(r), at);
    if (read_set(r, false, &set, at))
        return set_part(r, &set, at);
    return character_part(r, read_escape(r, at), at);
}

static uint32_t read_sequence(struct reader *r)
{
    struct pattern_part x = {.kind = PATTERN_SEQUENCE, .may_be_empty = true, .at = (uint32_t)r->in.at};
    bool leads = true;

    while (!cursor_at_end(&r->in) && cursor_next(&r->in) != '|' && cursor_next(&r->in) != ')') {
        size_t at = r->in.at;
        uint32_t part = read_atom(r);
        struct pattern_part *p;

        part = quantified(r, part, at);
        if (r->in.code)
            return 0;
        p = &r->tree->part[part];
        p->before = x.a;
        p->leads = leads;
        leads = leads && p->may_be_empty && p->asks == PATTERN_ASKS_NOTHING;
        x.a = part;
        x.asks = p->asks > x.asks ? p->asks : x.asks;
        x.may_be_empty = x.may_be_empty && p->may_be_empty;
    }
    if (x.a == 0)
        x.kind = PATTERN_EMPTY;
    return add_part(r, x);
}

static uint32_t read_choice(struct reader *r)
{
    struct pattern_part x = {.kind = PATTERN_CHOICE, .at = (uint32_t)r->in.at};
    uint32_t n = 0;

    do {
        uint32_t part = read_sequence(r);
        struct pattern_part *p = &r->tree->part[part];

        if (r->in.code)
            return 0;
        p->before = x.a;
        x.a = part;
        x.asks = p->asks > x.asks ? p->asks : x.asks;
        x.may_be_empty = x.may_be_empty || p->may_be_empty;
        n++;
    } while (cursor_skip(&r->in, "|"));
    return n == 1 ? x.a : add_part(r, x);
}

int pattern_tree_read(struct pattern_tree *tree, struct regex_store *s, const char *text, size_t n,
                      pattern_alphabet *alphabet, enum pattern_dialect dialect, struct err *e)
{
    struct reader r = {.in = {.text = text, .n = n},
                       .is_python = dialect == PATTERN_WHOLE,
                       .s = s,
                       .alphabet = alphabet,
                       .tree = tree,
                       .e = e};
    size_t valid = utf8_valid_prefix(text, n);

    *tree = (struct pattern_tree){0};
    add_part(&r, (struct pattern_part){0});
    if (n > UINT32_MAX / 2)
        fail(&r, ERR_NOSPACE, 0, "the regular expression is longer than 2 GiB");
    if (valid < n)
        fail(&r, ERR_INPUT, valid, "a byte that is not UTF-8");
    if (!r.in.code)
        tree->root = read_choice(&r);
    if (!cursor_at_end(&r.in))
        fail(&r, ERR_INPUT, r.in.at, "a ) without a group");
    pattern_cases_fini(&r.cases);
    return r.in.code;
}

void pattern_tree_fini(struct pattern_tree *tree)
{
    mem_free(tree->part);
    *tree = (struct pattern_tree){0};
}
