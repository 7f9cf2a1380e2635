/* pattern.c - translates an Oniguruma pattern (Ruby syntax) to PCRE2 in one pass, compiles it and matches.
 *
 * The two dialects agree on most constructs that tokenizers use. The translation rewrites the differences and
 * refuses unknown constructs, so that no pattern silently gets another meaning. Rewritten are: \s (PCRE2 also
 * counts U+180E), \w, \b, scripts (\p{Han} would mean Script_Extensions), nested and intersected classes
 * (PCRE2 10.42 miscompiles &&), {,n} and {n}? and {n,m}+ (in Ruby: optional, repeated). The result is for
 * PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE with newline = LF, which give ^ $ and . their meaning in Ruby.
 *
 * All texts are valid UTF-8, so matching skips PCRE2's own check. The JIT stack grows to 16 MiB (the default
 * of 32 KiB fails on long runs of one character). The match limit turns excessive backtracking into an error.
 * Without JIT (a kernel that forbids executable pages) PCRE2's interpreter matches instead.
 */
#include "text/tok/pattern.h"

#include <stdio.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tok/steps.h"

struct reader {
    const char *begin, *p, *end; /* the pattern; P is the read position */
    struct buf *out;             /* the translated pattern */
    struct err *e;
    int depth; /* nesting depth of groups and classes */
};

/* The meaning of an escape: a character, or a set as the contents of a PCRE2 class. */
struct escape {
    uint32_t ch;
    const char *set;   /* NULL: the escape is the character CH */
    char property[32]; /* the memory of SET for a property \p{...} */
};

/* The sets of \s and \w in Oniguruma, and their complements. */
#define ONIG_SPACE \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define ONIG_NOT_SPACE                                                                        \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}" \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
/* Oniguruma's word characters: letters, marks, digits, letter numbers, connectors, and symbols with the
 * property Alphabetic. Outside a class, six Latin-1 characters count as word characters, too. */
#define ONIG_WORD                                                                                    \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}" \
    "\\x{1f170}-\\x{1f189}"
#define ONIG_LATIN "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
/* The complement of ONIG_WORD inside a class. Ranges with symbols but no word characters are listed. */
#define ONIG_NOT_WORD                                                                                 \
    "\\p{No}\\p{Pd}\\p{Ps}\\p{Pe}\\p{Pi}\\p{Pf}\\p{Po}\\p{Sm}\\p{Sc}\\p{Sk}\\p{Z}\\p{C}"              \
    "\\x{80}-\\x{a9}\\x{ab}-\\x{b4}\\x{482}\\x{589}-\\x{590}\\x{5f3}-\\x{60f}\\x{6dd}-\\x{6de}"       \
    "\\x{6e9}\\x{6fd}-\\x{6fe}\\x{7f6}-\\x{7f9}\\x{9f2}-\\x{9fb}\\x{b70}\\x{bf0}-\\x{bff}"            \
    "\\x{c70}-\\x{c7f}\\x{d4f}-\\x{d53}\\x{d70}-\\x{d79}\\x{f01}-\\x{f17}\\x{f1a}-\\x{f1f}"           \
    "\\x{f2a}-\\x{f34}\\x{f36}\\x{f38}\\x{fbd}-\\x{fc5}\\x{fc7}-\\x{fff}\\x{109e}-\\x{109f}"          \
    "\\x{1390}-\\x{139f}\\x{166d}-\\x{166e}\\x{193c}-\\x{1945}\\x{19da}-\\x{19ff}\\x{1b5a}-\\x{1b6a}" \
    "\\x{1b74}-\\x{1b7f}\\x{20f1}-\\x{2101}\\x{2103}-\\x{2106}\\x{2108}-\\x{2109}\\x{2114}"           \
    "\\x{2116}-\\x{2118}\\x{211e}-\\x{2123}\\x{2125}\\x{2127}\\x{2129}\\x{212e}\\x{213a}-\\x{213b}"   \
    "\\x{214a}-\\x{214d}\\x{214f}-\\x{215f}\\x{2189}-\\x{24b5}\\x{24ea}-\\x{2bff}\\x{2ce5}-\\x{2cea}" \
    "\\x{2e30}-\\x{3004}\\x{3008}-\\x{3020}\\x{3036}-\\x{3037}\\x{303d}-\\x{3040}\\x{318f}-\\x{319f}" \
    "\\x{31c0}-\\x{31ef}\\x{3200}-\\x{33ff}\\x{4dc0}-\\x{4dff}\\x{a48d}-\\x{a4cf}\\x{a828}-\\x{a82b}" \
    "\\x{a82d}-\\x{a83f}\\x{aa77}-\\x{aa79}\\x{fd3e}-\\x{fd4f}\\x{fdc8}-\\x{fdef}\\x{fdfc}-\\x{fdff}" \
    "\\x{ffdd}-\\x{ffff}\\x{100fb}-\\x{1013f}\\x{10175}-\\x{101fc}\\x{10877}-\\x{1087f}\\x{10ac8}"    \
    "\\x{1173a}-\\x{1173f}\\x{11fb1}-\\x{11fff}\\x{16b37}-\\x{16b3f}\\x{16b44}-\\x{16b4f}"            \
    "\\x{1bc9a}-\\x{1bc9c}\\x{1cf47}-\\x{1d164}\\x{1d16a}-\\x{1d16c}\\x{1d183}-\\x{1d184}"            \
    "\\x{1d18c}-\\x{1d1a9}\\x{1d1ae}-\\x{1d241}\\x{1d245}-\\x{1d3ff}\\x{1d800}-\\x{1d9ff}"            \
    "\\x{1da37}-\\x{1da3a}\\x{1da6d}-\\x{1da74}\\x{1da76}-\\x{1da83}\\x{1da85}-\\x{1da9a}"            \
    "\\x{1e14f}-\\x{1e28f}\\x{1e95a}-\\x{1edff}\\x{1eebc}-\\x{1f12f}\\x{1f14a}-\\x{1f14f}"            \
    "\\x{1f16a}-\\x{1f16f}\\x{1f18a}-\\x{1fbef}"

/* The general categories and scripts that are supported. A script name alone means Script in Oniguruma, but
 * Script_Extensions in PCRE2 10.40 and later, so it is written as "sc:NAME". */
static const char categories[] =
    " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp Cc Cf Co ";
static const char scripts[] =
    " Arabic Armenian Bengali Bopomofo Common Cyrillic Devanagari Ethiopic Georgian Greek Gujarati "
    "Gurmukhi Han Hangul Hebrew Hiragana Inherited Kannada Katakana Khmer Lao Latin Malayalam "
    "Mongolian Myanmar Oriya Sinhala Tamil Telugu Thai Tibetan ";

static bool find_property(const char *name, size_t n, bool negated, char *out, size_t size)
{
    bool is_script = tok_is_among(scripts, name, n);

    if (!is_script && !tok_is_among(categories, name, n))
        return false;
    snprintf(out, size, "\\%c{%s%.*s}", negated ? 'P' : 'p', is_script ? "sc:" : "", (int)n, name);
    return true;
}

/* Fails because WHAT at the read position is not supported. */
static int fail_at(const struct reader *r, const char *what)
{
    return err_set(r->e, ERR_UNSUPPORTED, "%s at byte %zu of the pattern %.*s is not supported", what,
                   (size_t)(r->p - r->begin), (int)(r->end - r->begin > 300 ? 300 : r->end - r->begin),
                   r->begin);
}

static bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Writes the character S of N bytes, escaped if necessary to be a literal inside and outside a class. */
static void put_char(struct buf *b, const char *s, size_t n)
{
    if (n == 1 && (unsigned char)*s < 0x20) {
        buf_fmt(b, "\\x{%x}", (unsigned)*s);
        return;
    }
    if (n == 1 && !is_alphanumeric(*s) && *s < 0x7f)
        buf_char(b, '\\');
    buf_add(b, s, n);
}

static void put_code(struct buf *b, uint32_t c)
{
    char s[4];

    put_char(b, s, utf8_encode(c, s));
}

/* Reads LO to HI hexadecimal digits as *V. False: there are fewer, or *V is not a code point. */
static bool take_hex(struct reader *r, int lo, int hi, uint32_t *v)
{
    int n = 0;

    for (*v = 0; n < hi && r->p < r->end; n++, r->p++) {
        int digit = utf8_hex_digit(*r->p);

        if (digit < 0)
            break;
        *v = (*v << 4) | (uint32_t)digit;
    }
    return n >= lo && *v <= 0x10ffff && (*v < 0xd800 || *v > 0xdfff);
}

/* Reads the code point of \xHH, \x{...} or \uHHHH after its LETTER. */
static int read_code(struct reader *r, char letter, struct escape *x)
{
    bool ok;

    if (letter == 'u') {
        ok = take_hex(r, 4, 4, &x->ch);
    } else if (r->p < r->end && *r->p == '{') {
        r->p++;
        ok = take_hex(r, 1, 8, &x->ch) && r->p < r->end && *r->p++ == '}';
    } else {
        ok = take_hex(r, 1, 2, &x->ch) && x->ch < 0x80;
    }
    return ok ? 0 : fail_at(r, "the character code");
}

static int read_property(struct reader *r, bool negated, struct escape *x)
{
    const char *name, *close;

    if (r->p == r->end || *r->p != '{')
        return fail_at(r, "a property without braces");
    name = r->p + 1;
    close = memchr(name, '}', (size_t)(r->end - name));
    if (!close)
        return fail_at(r, "a property without its closing brace");
    if (name < close && *name == '^') {
        negated = !negated;
        name++;
    }
    x->set = x->property;
    if (!find_property(name, (size_t)(close - name), negated, x->property, sizeof(x->property)))
        return fail_at(r, "the property");
    r->p = close + 1;
    return 0;
}

/* Reads an escape that has the same meaning inside and outside a class. */
static int read_escape(struct reader *r, struct escape *x)
{
    static const char plain[] = "tnrfvae", value[] = "\t\n\r\f\v\a\x1b";
    static const struct {
        char letter;
        const char *set;
    } sets[] = {{'s', ONIG_SPACE},    {'S', ONIG_NOT_SPACE}, {'w', ONIG_WORD},
                {'W', ONIG_NOT_WORD}, {'d', "\\p{Nd}"},      {'D', "\\P{Nd}"}};
    const char *at_plain;
    size_t len;
    char c;

    *x = (struct escape){0};
    if (r->end - r->p < 2)
        return fail_at(r, "a backslash at the end");
    c = r->p[1];
    if ((unsigned char)c >= 0x80) {
        x->ch = utf8_decode(r->p + 1, &len);
        r->p += 1 + len;
        return 0;
    }
    r->p += 2;
    at_plain = c ? strchr(plain, c) : NULL;
    if (at_plain) {
        x->ch = (uint32_t)value[at_plain - plain];
        return 0;
    }
    if (c == 'x' || c == 'u')
        return read_code(r, c, x);
    if (c == 'p' || c == 'P')
        return read_property(r, c == 'P', x);
    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
        if (c == sets[i].letter) {
            x->set = sets[i].set;
            return 0;
        }
    x->ch = (unsigned char)c;
    if (!is_alphanumeric(c))
        return 0;
    r->p -= 2;
    return fail_at(r, "the escape");
}

/* Limits of nesting, repeat counts and bytes of a pattern. NO_MOST: the interval {n,} is unbounded. */
enum { MAX_DEPTH = 64, MAX_REPEAT = 1000, NO_MOST = 1000000, MAX_PATTERN = 65536 };

static bool at(const struct reader *r, const char *s)
{
    size_t n = strlen(s);

    return (size_t)(r->end - r->p) >= n && memcmp(r->p, s, n) == 0;
}

/* Puts the output from offset START on into a group. */
static void group(struct buf *b, size_t start)
{
    static const char open[] = "(?:";
    size_t n = sizeof(open) - 1, old = b->len;

    buf_str(b, open);
    if (b->oom)
        return;
    memmove(b->data + start + n, b->data + start, old - start);
    memcpy(b->data + start, open, n);
    buf_char(b, ')');
}

/* Reads one character or one set of a class. */
static int read_class_member(struct reader *r, struct escape *x)
{
    size_t len;

    if (*r->p == '\\') {
        if (r->end - r->p > 1 && (r->p[1] == 'b' || r->p[1] == 'R' || r->p[1] == 'X'))
            return fail_at(r, "the escape");
        return read_escape(r, x);
    }
    *x = (struct escape){.ch = utf8_decode(r->p, &len)};
    r->p += len;
    return 0;
}

static int read_member_or_range(struct reader *r, struct buf *flat)
{
    struct escape lo, hi;
    int rc = read_class_member(r, &lo);

    if (rc)
        return rc;
    if (lo.set) {
        buf_str(flat, lo.set);
        return 0;
    }
    put_code(flat, lo.ch);
    if (r->end - r->p < 2 || r->p[0] != '-' || r->p[1] == ']' || at(r, "-&&"))
        return 0;
    if (r->p[1] == '[')
        return fail_at(r, "a range that ends in a class");
    r->p++;
    if ((rc = read_class_member(r, &hi)) != 0)
        return rc;
    if (hi.set || hi.ch < lo.ch)
        return fail_at(r, "the range that ends here");
    buf_char(flat, '-');
    put_code(flat, hi.ch);
    return 0;
}

static int read_inner_class(struct reader *r, struct buf *flat);

/* Reads the members of a class up to "&&" or "]", which stay unread, as the contents of a PCRE2 class. */
static int read_members(struct reader *r, struct buf *flat)
{
    bool first = true;
    int rc;

    while (r->p < r->end && !at(r, "&&") && (*r->p != ']' || first)) {
        if (at(r, "[:"))
            return fail_at(r, "a POSIX bracket");
        if (at(r, "[^"))
            return fail_at(r, "a negated class beside other members");
        rc = *r->p == '[' ? read_inner_class(r, flat) : read_member_or_range(r, flat);
        if (rc)
            return rc;
        first = false;
    }
    if (r->p == r->end)
        return fail_at(r, "a class without its closing bracket");
    return first ? fail_at(r, "an empty class") : 0;
}

/* Reads a class inside a class, and adds its members to the outer class. */
static int read_inner_class(struct reader *r, struct buf *flat)
{
    int rc;

    if (++r->depth > MAX_DEPTH)
        return fail_at(r, "a class nested this deep");
    r->p += at(r, "[^") ? 2 : 1;
    if ((rc = read_members(r, flat)) != 0)
        return rc;
    if (*r->p != ']')
        return fail_at(r, "an intersection inside a class");
    r->p++;
    r->depth--;
    return 0;
}

/* Reads an operand of &&: members, or one negated class, which PCRE2 cannot combine with members. */
static int read_operand(struct reader *r, struct buf *flat, bool *negated)
{
    int rc;

    *negated = at(r, "[^");
    rc = *negated ? read_inner_class(r, flat) : read_members(r, flat);
    if (rc == 0 && *negated && !at(r, "&&") && !at(r, "]"))
        return fail_at(r, r->p == r->end ? "a class without its closing bracket"
                                         : "a negated class beside other members");
    return rc;
}

/* Reads "[...]". An intersection becomes look-aheads in front of the last operand. */
static int class_atom(struct reader *r)
{
    struct buf all = {.tag = MEM_TEXT}, flat = {.tag = MEM_TEXT};
    bool negated, inner, more = true;
    size_t n = 0;
    int rc = 0;

    if (++r->depth > MAX_DEPTH)
        return fail_at(r, "a class nested this deep");
    r->p++;
    negated = at(r, "^");
    for (r->p += negated; more && (rc = read_operand(r, &flat, &inner)) == 0; n++) {
        more = at(r, "&&");
        r->p += more ? 2 : 1;
        if (n == 0 && !more) { /* a class without an intersection */
            inner = inner != negated;
            negated = false;
        }
        buf_fmt(&all, "%s[%s", more ? "(?=" : "", inner ? "^" : "");
        buf_add(&all, flat.data, flat.len);
        buf_str(&all, more ? "])" : "]");
        all.oom |= flat.oom;
        buf_clear(&flat);
    }
    if (rc == 0 && all.oom)
        rc = err_nomem(r->e, "pattern");
    buf_str(r->out, negated ? "(?:(?!" : n > 1 ? "(?:" : "");
    buf_add(r->out, all.data, all.len);
    buf_str(r->out, negated ? ")(?s:.))" : n > 1 ? ")" : "");
    buf_fini(&all);
    buf_fini(&flat);
    r->depth--;
    return rc;
}

static int escape_atom(struct reader *r)
{
    static const char in[] = "(?<=[" ONIG_WORD ONIG_LATIN "])", not_in[] = "(?<![" ONIG_WORD ONIG_LATIN "])",
                      next[] = "(?=[" ONIG_WORD ONIG_LATIN "])",
                      not_next[] = "(?![" ONIG_WORD ONIG_LATIN "])";
    struct escape x;
    char c = r->end - r->p > 1 ? r->p[1] : 0;
    int rc;

    if (c == 'A' || c == 'z' || c == 'Z') {
        buf_add(r->out, r->p, 2);
        r->p += 2;
        return 0;
    }
    if (c == 'b' || c == 'B') {
        buf_fmt(r->out, "(?:%s%s|%s%s)", in, c == 'b' ? not_next : next, not_in, c == 'b' ? next : not_next);
        r->p += 2;
        return 0;
    }
    if ((rc = read_escape(r, &x)) != 0)
        return rc;
    if (c == 'w' || c == 'W')
        buf_fmt(r->out, c == 'w' ? "[%s]" : "[^%s]", ONIG_WORD ONIG_LATIN);
    else if (x.set)
        buf_fmt(r->out, "[%s]", x.set);
    else
        put_code(r->out, x.ch);
    return 0;
}

static int alternatives(struct reader *r, bool inside);

/* Reads the options of (?i-m:...). Ruby's option m is PCRE2's option s. */
static int group_options(struct reader *r)
{
    buf_str(r->out, "(?");
    for (r->p += 2; r->p < r->end && *r->p != ':' && *r->p != ')'; r->p++) {
        if (*r->p == 'i' || *r->p == '-')
            buf_char(r->out, *r->p);
        else if (*r->p == 'm')
            buf_char(r->out, 's');
        else
            return fail_at(r, "the group");
    }
    if (r->p == r->end)
        return fail_at(r, "a group without its closing parenthesis");
    if (*r->p == ')')
        return fail_at(r, "an option without a group of its own");
    buf_char(r->out, *r->p++);
    return 0;
}

static int group_atom(struct reader *r)
{
    static const char *const kind[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    size_t k;
    int rc = 0;

    if (++r->depth > MAX_DEPTH)
        return fail_at(r, "a group nested this deep");
    for (k = 0; k < sizeof(kind) / sizeof(*kind) && !at(r, kind[k]); k++)
        ;
    if (k < sizeof(kind) / sizeof(*kind)) {
        buf_str(r->out, kind[k]);
        r->p += strlen(kind[k]);
    } else if (at(r, "(?")) {
        rc = group_options(r);
    } else if (at(r, "(*")) {
        rc = fail_at(r, "the group");
    } else {
        buf_str(r->out, "(?:"); /* only the whole match is used, so groups need not capture */
        r->p++;
    }
    if (rc == 0)
        rc = alternatives(r, true);
    r->depth--;
    return rc;
}

static int atom(struct reader *r)
{
    size_t len;

    switch (*r->p) {
    case '(': return group_atom(r);
    case '[': return class_atom(r);
    case '\\': return escape_atom(r);
    case '.':
    case '^':
    case '$': buf_char(r->out, *r->p++); return 0;
    case '*':
    case '+':
    case '?': return fail_at(r, "a quantifier without an operand");
    default: break;
    }
    utf8_decode(r->p, &len);
    put_char(r->out, r->p, len);
    r->p += len;
    return 0;
}

/* Reads the digits at *P as a number; reading stops once the number exceeds MAX_REPEAT. False: no digit. */
static bool read_count(const struct reader *r, const char **p, unsigned *v)
{
    const char *begin = *p;

    for (*v = 0; *p < r->end && **p >= '0' && **p <= '9' && *v <= MAX_REPEAT; (*p)++)
        *v = *v * 10 + (unsigned)(**p - '0');
    return *p > begin;
}

/* Reads {n,m}; *HI is NO_MOST for {n,}. *EXACT: {n}. False: the brace is an ordinary character. */
static bool read_interval(struct reader *r, unsigned *lo, unsigned *hi, bool *exact)
{
    const char *p = r->p + 1;
    bool has_lo = read_count(r, &p, lo), has_hi = has_lo;

    *exact = p < r->end && *p == '}';
    *hi = *lo;
    if (p < r->end && *p == ',') {
        p++;
        has_hi = read_count(r, &p, hi);
    }
    if ((!has_lo && !has_hi) || p == r->end || *p != '}')
        return false;
    if (!has_hi)
        *hi = NO_MOST;
    r->p = p + 1;
    return true;
}

static int put_interval(struct reader *r, unsigned lo, unsigned hi)
{
    if (lo > MAX_REPEAT || hi < lo || (hi > MAX_REPEAT && hi != NO_MOST))
        return fail_at(r, "the interval that ends here");
    if (hi == NO_MOST)
        buf_fmt(r->out, "{%u,}", lo);
    else
        buf_fmt(r->out, "{%u,%u}", lo, hi);
    return 0;
}

/* Reads all quantifiers of the atom that was written from offset START on. In Ruby, {n}? makes the atom
 * optional, and {n,m}+ repeats the atom with its interval. */
static int repeats(struct reader *r, size_t start)
{
    unsigned lo, hi;
    bool exact;

    for (bool again = false; r->p < r->end && memchr("*+?{", *r->p, 4); again = true) {
        bool brace = *r->p == '{';
        const char *may_follow = "+?";

        if (brace && !read_interval(r, &lo, &hi, &exact))
            return 0;
        if (again)
            group(r->out, start);
        if (brace) {
            int rc = put_interval(r, lo, hi);

            if (rc)
                return rc;
            may_follow = exact ? "" : "?";
        } else {
            buf_char(r->out, *r->p++);
        }
        if (r->p < r->end && *r->p && strchr(may_follow, *r->p))
            buf_char(r->out, *r->p++);
    }
    return 0;
}

static int alternatives(struct reader *r, bool inside)
{
    int rc;

    while (r->p < r->end && *r->p != ')') {
        size_t start = r->out->len;

        if (*r->p == '|') {
            buf_char(r->out, *r->p++);
            continue;
        }
        if ((rc = atom(r)) != 0 || (rc = repeats(r, start)) != 0)
            return rc;
        if (r->out->oom)
            return err_nomem(r->e, "pattern");
        if (r->out->len > 4 * MAX_PATTERN)
            return fail_at(r, "a pattern this long");
    }
    if (inside && r->p == r->end)
        return fail_at(r, "a group without its closing parenthesis");
    if (inside)
        buf_char(r->out, *r->p++);
    return 0;
}

static int translate(const char *pattern, size_t n, struct buf *out, struct err *e)
{
    struct reader r = {.begin = pattern, .p = pattern, .end = pattern + n, .out = out, .e = e};
    int rc;

    if (n > MAX_PATTERN)
        return err_set(e, ERR_UNSUPPORTED, "a pattern has %zu bytes; the maximum is %d", n, (int)MAX_PATTERN);
    rc = alternatives(&r, false);
    if (rc == 0 && r.p != r.end)
        rc = fail_at(&r, "a closing parenthesis without its opening one");
    if (rc == 0 && out->oom)
        rc = err_nomem(e, "pattern");
    return rc;
}

enum {
    JIT_STACK_FIRST = 64 << 10,
    JIT_STACK_MOST = 16 << 20,
    MATCH_LIMIT = 50000000,
    HEAP_LIMIT_KB = 256 << 10
};

struct pattern {
    struct pattern *next;
    pcre2_code *code;
    bool jit;
    char *source; /* the pattern before translation, for messages */
    size_t n_source;
};

struct pattern_work {
    pcre2_general_context *general;
    pcre2_match_context *match;
    pcre2_match_data *data;
    pcre2_jit_stack *stack;
};

static void *hook_alloc(size_t bytes, void *unused)
{
    (void)unused;
    return mem_lib_alloc(bytes);
}

static void hook_free(void *p, void *unused)
{
    (void)unused;
    mem_free(p);
}

/* Sets the error for PCRE2's CODE: ERR_NOMEM if memory ran out, else RC. */
static int failed(const struct pattern *re, int code, int rc, const char *what, struct err *e)
{
    PCRE2_UCHAR why[160];

    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED)
        return err_nomem(e, "pattern");
    pcre2_get_error_message(code, why, sizeof(why));
    return err_set(e, rc, "the pattern %.*s %s: %s", (int)(re->n_source < 300 ? re->n_source : 300),
                   re->source, what, (const char *)why);
}

static int compile(struct pattern *r, const char *pattern, size_t n, struct err *e)
{
    pcre2_general_context *general = pcre2_general_context_create(hook_alloc, hook_free, NULL);
    pcre2_compile_context *cc = general ? pcre2_compile_context_create(general) : NULL;
    PCRE2_SIZE where = 0;
    int code = PCRE2_ERROR_NOMEMORY, rc = 0;

    if (cc) {
        pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
        r->code =
            pcre2_compile((PCRE2_SPTR)pattern, n, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &where, cc);
    }
    if (r->code)
        r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    else
        rc = failed(r, code, ERR_UNSUPPORTED, "cannot be compiled", e);
    pcre2_compile_context_free(cc);
    pcre2_general_context_free(general);
    return rc;
}

int pattern_add(struct pattern **list, const char *source, size_t n, struct err *e)
{
    struct pattern *r = mem_zalloc(1, sizeof(*r), MEM_TEXT);
    struct buf translated = {.tag = MEM_TEXT};
    int rc;

    if (!r || !(r->source = mem_strndup(source, n, MEM_TEXT))) {
        mem_free(r);
        return err_nomem(e, "pattern");
    }
    r->n_source = n;
    rc = translate(source, n, &translated, e);
    if (rc == 0)
        rc = compile(r, translated.data ? translated.data : "", translated.len, e);
    buf_fini(&translated);
    if (rc) {
        pattern_free(r);
        return rc;
    }
    r->next = *list;
    *list = r;
    return 0;
}

void pattern_free(struct pattern *list)
{
    while (list) {
        struct pattern *r = list;

        list = r->next;
        pcre2_code_free(r->code);
        mem_free(r->source);
        mem_free(r);
    }
}

struct pattern_work *pattern_work_new(void)
{
    struct pattern_work *w = mem_zalloc(1, sizeof(*w), MEM_TEXT);

    if (!w)
        return NULL;
    w->general = pcre2_general_context_create(hook_alloc, hook_free, NULL);
    if (w->general) {
        w->match = pcre2_match_context_create(w->general);
        w->data = pcre2_match_data_create(1, w->general);
        w->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, w->general); /* NULL: no JIT */
    }
    if (!w->match || !w->data) {
        pattern_work_free(w);
        return NULL;
    }
    pcre2_set_match_limit(w->match, MATCH_LIMIT);
    pcre2_set_heap_limit(w->match, HEAP_LIMIT_KB);
    pcre2_jit_stack_assign(w->match, NULL, w->stack);
    return w;
}

void pattern_work_free(struct pattern_work *w)
{
    if (!w)
        return;
    pcre2_jit_stack_free(w->stack);
    pcre2_match_data_free(w->data);
    pcre2_match_context_free(w->match);
    pcre2_general_context_free(w->general);
    mem_free(w);
}

void pattern_start(struct pattern_iter *it, const struct step *p, struct pattern_work *work, const char *s,
                   size_t n)
{
    *it = (struct pattern_iter){.p = p, .work = work, .s = n ? s : "", .n = n};
}

static int next_string(struct pattern_iter *it, size_t *begin, size_t *end)
{
    const struct json_str *find = &it->p->find;
    const char *hit = it->at < it->n ? memmem(it->s + it->at, it->n - it->at, find->s, find->n) : NULL;

    if (!hit)
        return 0;
    *begin = (size_t)(hit - it->s);
    *end = it->at = *begin + find->n;
    return 1;
}

int pattern_next(struct pattern_iter *it, size_t *begin, size_t *end, struct err *e)
{
    const struct pattern_work *w = it->work;
    const struct pattern *re = it->p->re;
    const PCRE2_SIZE *range;

    if (!re)
        return next_string(it, begin, end);
    range = pcre2_get_ovector_pointer(w->data);
    while (it->at <= it->n) {
        int code = re->jit && w->stack
                       ? pcre2_jit_match(re->code, (PCRE2_SPTR)it->s, it->n, it->at, 0, w->data, w->match)
                       : pcre2_match(re->code, (PCRE2_SPTR)it->s, it->n, it->at, PCRE2_NO_UTF_CHECK, w->data,
                                     w->match);

        if (code == PCRE2_ERROR_NOMATCH)
            return 0;
        if (code < 0)
            return -failed(re, code, ERR_INPUT, "exceeded its limit on this text", e);
        if (range[0] != range[1] || !it->any || it->last != range[1]) {
            *begin = range[0];
            *end = it->at = it->last = range[1];
            it->any = true;
            return 1;
        }
        do /* an empty match right after the last one: search on from the next character */
            it->at++;
        while (it->at < it->n && ((unsigned char)it->s[it->at] & 0xc0) == 0x80);
    }
    return 0;
}

/* Replaces each byte FROM by the string TO, in two passes over the text. */
static void replace_byte(char from, struct json_str to, struct json_str in, struct buf *out)
{
    size_t count = 0, need;
    char *o;

    for (size_t i = 0; i < in.n; i++)
        count += in.s[i] == from;
    if (__builtin_mul_overflow(count, to.n, &need) || __builtin_add_overflow(need, in.n + 1, &need) ||
        __builtin_add_overflow(need, out->len, &need) ||
        !mem_grow((void **)&out->data, &out->cap, need, 1, MEM_TEXT)) {
        out->oom = true;
        return;
    }
    o = out->data + out->len;
    for (size_t i = 0; i < in.n; i++) {
        if (in.s[i] != from) {
            *o++ = in.s[i];
            continue;
        }
        for (size_t k = 0; k < to.n; k++)
            *o++ = to.s[k];
    }
    *o = 0;
    out->len = (size_t)(o - out->data);
}

int pattern_replace(const struct step *p, struct pattern_work *work, struct json_str s, struct buf *out,
                    size_t *done, size_t *start, struct err *e)
{
    struct pattern_iter it;
    size_t begin, end, from = out->len, first = start ? *start : 0;
    bool passed = !start;
    int more;

    *done = 0;
    if (!p->re && p->find.n == 1) {
        for (size_t i = 0; i < first; i++)
            *start += (s.s[i] == *p->find.s) * (p->text.n - 1);
        replace_byte(*p->find.s, p->text, s, out);
        *done = s.n;
        return 0;
    }
    pattern_start(&it, p, work, s.s, s.n);
    while ((more = pattern_next(&it, &begin, &end, e)) > 0) {
        if (!passed && end > first) {
            *start = out->len - from + (first < begin ? first : begin) - *done;
            passed = true;
        }
        buf_add(out, s.s + *done, begin - *done);
        buf_add(out, p->text.s, p->text.n);
        *done = end;
    }
    if (!passed)
        *start = out->len - from + first - *done;
    return -more;
}
