/* schema_formats.c - the formats, as regular expressions over characters. */
#include "text/grammar/schema/schema_formats.h"

#include <string.h>

#include "text/grammar/automata/pattern.h"

/* Sets *SET to strings with a match of the regex TEXT. ERR_NOMEM and ERR_NOSPACE also set c->rc. */
static int read_pattern(struct schema_compiler *c, const char *text, size_t n, uint32_t *set, struct err *e)
{
    int rc;

    if (c->rc)
        return c->rc;
    rc = pattern_read(c->s, text, n, json_text_characters, PATTERN_SEARCH, set, e);
    if (rc == ERR_NOMEM)
        schema_no_memory(c);
    if (rc == ERR_NOSPACE && schema_work(c, 0))
        schema_over_limit(c, "pattern", "%.200s", e->msg);
    return c->rc ? c->rc : rc;
}

bool schema_pattern_text(struct schema_compiler *c, const json_t *at, const char *keyword, const char *text,
                         size_t n, uint32_t *set)
{
    struct err e = {0};
    int rc = read_pattern(c, text, n, set, &e);

    if (rc && !c->rc)
        schema_unserved(c, at, keyword, "%.200s", e.msg);
    return rc == 0;
}

bool schema_pattern(struct schema_compiler *c, const json_t *at, const char *keyword, const json_t *v,
                    uint32_t *set)
{
    if (json_is_string(v))
        return schema_pattern_text(c, at, keyword, json_string_value(v), json_string_length(v), set);
    schema_wrong(c, at, keyword, "expected a string");
    return false;
}

/* A date: 29 February of a leap year, or any other day. */
#define DATE                                                                               \
    "(?!0000)((\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29|" \
    "\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8])))"
#define CLOCK  "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?"
#define OFFSET "([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL  "[A-Za-z0-9](-?[A-Za-z0-9]){0,62}"
#define HOST   LABEL "(\\." LABEL ")*"
#define BYTE   "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4   BYTE "(\\." BYTE "){3}"
#define H16    "[0-9A-Fa-f]{1,4}"
#define LS32   "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                \
    "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16 ":){0,1}" H16 \
    ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16       \
    ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16 ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16    \
    ":){0,6}" H16 ")?::)"
#define ESCAPED "%[0-9A-Fa-f]{2}"
/* In these macros, MORE is empty for URIs, and lists the characters beyond ASCII for IRIs. */
#define UCS         "\\u00a1-\\ud7ff"
#define PCHAR(MORE) "([A-Za-z0-9._~!$&'()*+,;=:@" MORE "-]|" ESCAPED ")"
#define TAIL(MORE)  "(\\?(" PCHAR(MORE) "|[/?])*)?(#(" PCHAR(MORE) "|[/?])*)?"
#define AUTHORITY(MORE)                                                                                    \
    "(([A-Za-z0-9._~!$&'()*+,;=:" MORE "-]|" ESCAPED ")*@)?(\\[" IPV6 "\\]|([A-Za-z0-9._~!$&'()*+,;=" MORE \
    "-]|" ESCAPED ")*)(:\\d*)?"
#define ROOTED(MORE) "//" AUTHORITY(MORE) "(/" PCHAR(MORE) "*)*|/(" PCHAR(MORE) "+(/" PCHAR(MORE) "*)*)?"
#define PATH(MORE)   "(" ROOTED(MORE) "|" PCHAR(MORE) "+(/" PCHAR(MORE) "*)*|)"
/* The first segment of a relative path has no colon. */
#define RELATIVE(MORE) \
    "(" ROOTED(MORE) "|([A-Za-z0-9._~!$&'()*+,;=@" MORE "-]|" ESCAPED ")+(/" PCHAR(MORE) "*)*|)"
#define SCHEME        "[A-Za-z][A-Za-z0-9+.-]*:"
#define POINTER       "(/([^~/]|~[01])*)*"
#define VARIABLE_CHAR "([A-Za-z0-9_]|" ESCAPED ")"
#define VARIABLE      VARIABLE_CHAR "(\\.?" VARIABLE_CHAR ")*(:[1-9]\\d{0,3}|\\*)?"
/* The format `regex`, with groups nested at most twice, and with ordered bounds of ranges and counts. */
#define RANGE   "(0-[1-9]|1-[2-9]|a-[b-z]|A-[B-Z]|\\\\u00[0-7][0-9A-F]-\\\\uFFFF)"
#define QUOTED  "\\\\([dDwWsSnrtfv]|[!-/:-@[-`{-~]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})"
#define CLASS   "\\[\\^?-?(" RANGE "|" QUOTED "|[^\\]\\[\\\\^-])+-?\\]"
#define COUNTS  "\\d{1,4},?|[01],[1-9]|2,[2-9]|3,[3-9]|4,[4-9]|5,[5-9]|\\d,[1-9]\\d{1,3}|\\d\\d,[1-9]\\d{2,3}"
#define COUNTED "([*+?]|\\{(" COUNTS ")\\})\\??"
#define PIECES(GROUP) \
    "((" GROUP "[^\\[\\](){}^$\\\\*+?|]|" QUOTED "|" CLASS ")(" COUNTED ")?|[|^$]|\\\\[bB])*"
#define IN_GROUP(PIECES_) "\\((\\?[:=!])?" PIECES_ "\\)|"

/* The formats. SET: pattern of strings of the format. BOUND: pattern that is found in every string of the
 * format; NULL: SET matches all strings of the format. */
static const struct {
    const char *name, *set, *bound;
    /* Not enforced if `$schema` selects a draft in which formats are annotations (2020-12 and later):
     * applications with such a schema seldom check these formats. */
    bool is_rare;
} format[] = {
    {"date", DATE, NULL, false},
    {"time", CLOCK OFFSET, "\\d\\d:\\d\\d:\\d\\d", false},
    {"date-time", DATE "[Tt]" CLOCK OFFSET, "^\\d{4}-\\d\\d-\\d\\d.*\\d\\d:\\d\\d:\\d\\d", false},
    {"duration",
     "P(\\d+W|(\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)(T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))?|"
     "T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))",
     "^P", false},
    {"email", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" HOST, "@", false},
    {"hostname", "(?=.{1,253}$)(?!.*[^.]{64})" HOST, "", true},
    {"ipv4", IPV4, NULL, false},
    {"ipv6", IPV6, ":", false},
    {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", NULL, false},
    {"uri", SCHEME PATH("") TAIL(""), ":", false},
    {"uri-reference", "(" SCHEME PATH("") "|" RELATIVE("") ")" TAIL(""), "", true},
    {"uri-template",
     "([^\\x00- \"'%<>\\\\^`{|}\\x7f]|" ESCAPED "|\\{[+#./;?&=,!@|]?" VARIABLE "(," VARIABLE ")*\\})*", "",
     true},
    {"iri", SCHEME PATH(UCS) TAIL(UCS), ":", true},
    {"iri-reference", "(" SCHEME PATH(UCS) "|" RELATIVE(UCS) ")" TAIL(UCS), "", true},
    {"regex", PIECES(IN_GROUP(PIECES(IN_GROUP(PIECES(""))))), "", true},
    {"json-pointer", POINTER, NULL, true},
    {"relative-json-pointer", "(0|[1-9]\\d*)(#|" POINTER ")", "^\\d", true},
};

bool schema_format(struct schema_compiler *c, const json_t *at, const json_t *v, uint32_t *set,
                   uint32_t *bound)
{
    const char *name = json_string_value(v);
    char text[4096];

    if (!name)
        schema_wrong(c, at, "format", "expected a string");
    for (size_t i = 0; name && i < sizeof(format) / sizeof(*format) && schema_work(c, 1); i++) {
        struct err e = {0};
        size_t n = strlen(format[i].set);

        if (strcmp(format[i].name, name) != 0)
            continue;
        if (format[i].is_rare && c->has_draft && c->draft >= SCHEMA_2020_12)
            return false;
        ASSERT(n + 7 < sizeof(text), "%zu", n);
        memcpy(text, "^(?:", 4);
        memcpy(text + 4, format[i].set, n);
        memcpy(text + 4 + n, ")$", 2);
        *bound = 0;
        if (read_pattern(c, text, n + 6, set, &e) ||
            (format[i].bound && read_pattern(c, format[i].bound, strlen(format[i].bound), bound, &e))) {
            ASSERT(c->rc, "%s: %s", name, e.msg);
            return false;
        }
        *bound = format[i].bound ? *bound : *set;
        return true;
    }
    return false;
}
