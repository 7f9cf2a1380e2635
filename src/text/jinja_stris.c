/* jinja_stris.c - questions about all characters of a string. An empty string is none of these, but ASCII
 * and printable. */
#include "text/jinja_stris.h"

#include "text/jinja_str.h"
#include "text/jinja_uni.h"

static struct jv all(struct jrun *r, struct jv self, const struct jargs *a, const char *name, bool when_empty,
                     bool (*is)(uint32_t c))
{
    const struct jstr *s = self.u.str;

    if (!jinja_args_bind(r, name, a, "", 0, NULL) || !jinja_run_step(r, s->n / 16))
        return jv_none();
    for (size_t i = 0; i < s->n; i += jinja_str_step(s->p + i))
        if (!is(jinja_str_char(s->p + i)))
            return jv_bool(false);
    return jv_bool(s->n ? true : when_empty);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

struct jv jinja_stris_alnum(struct jrun *r, struct jv self, const struct jargs *a)
{
    return all(r, self, a, "isalnum", false, jinja_uni_alnum);
}

struct jv jinja_stris_alpha(struct jrun *r, struct jv self, const struct jargs *a)
{
    return all(r, self, a, "isalpha", false, jinja_uni_alpha);
}

struct jv jinja_stris_ascii(struct jrun *r, struct jv self, const struct jargs *a)
{
    return all(r, self, a, "isascii", true, is_ascii);
}

struct jv jinja_stris_decimal(struct jrun *r, struct jv self, const struct jargs *a)
{
    return all(r, self, a, "isdecimal", false, jinja_uni_decimal);
}

struct jv jinja_stris_digit(struct jrun *r, struct jv self, const struct jargs *a)
{
    return all(r, self, a, "isdigit", false, jinja_uni_digit);
}

struct jv jinja_stris_numeric(struct jrun *r, struct jv self, const struct jargs *a)
{
    return all(r, self, a, "isnumeric", false, jinja_uni_numeric);
}

struct jv jinja_stris_printable(struct jrun *r, struct jv self, const struct jargs *a)
{
    return all(r, self, a, "isprintable", true, jinja_uni_printable);
}

struct jv jinja_stris_space(struct jrun *r, struct jv self, const struct jargs *a)
{
    return all(r, self, a, "isspace", false, jinja_uni_space);
}

struct jv jinja_stris_identifier(struct jrun *r, struct jv self, const struct jargs *a)
{
    const struct jstr *s = self.u.str;

    if (s->n && !jinja_uni_name_start(jinja_str_char(s->p)))
        return jv_bool(false);
    return all(r, self, a, "isidentifier", false, jinja_uni_name);
}

/* At least one cased character, and none of the other case. */
static bool all_of_case(struct jrun *r, const struct jstr *s, bool (*good)(uint32_t c),
                        bool (*bad)(uint32_t c))
{
    bool some = false;

    if (!jinja_run_step(r, s->n / 16))
        return false;
    for (size_t i = 0; i < s->n; i += jinja_str_step(s->p + i)) {
        uint32_t c = jinja_str_char(s->p + i);

        if (bad(c) || jinja_uni_titlecase(c))
            return false;
        some |= good(c);
    }
    return some;
}

bool jinja_stris_is_lower(struct jrun *r, const struct jstr *s)
{
    return all_of_case(r, s, jinja_uni_lower, jinja_uni_upper);
}

bool jinja_stris_is_upper(struct jrun *r, const struct jstr *s)
{
    return all_of_case(r, s, jinja_uni_upper, jinja_uni_lower);
}

struct jv jinja_stris_lower(struct jrun *r, struct jv self, const struct jargs *a)
{
    return jinja_args_bind(r, "islower", a, "", 0, NULL) ? jv_bool(jinja_stris_is_lower(r, self.u.str))
                                                         : jv_none();
}

struct jv jinja_stris_upper(struct jrun *r, struct jv self, const struct jargs *a)
{
    return jinja_args_bind(r, "isupper", a, "", 0, NULL) ? jv_bool(jinja_stris_is_upper(r, self.u.str))
                                                         : jv_none();
}

struct jv jinja_stris_title(struct jrun *r, struct jv self, const struct jargs *a)
{
    const struct jstr *s = self.u.str;
    bool some = false, inside = false;

    if (!jinja_args_bind(r, "istitle", a, "", 0, NULL) || !jinja_run_step(r, s->n / 16))
        return jv_none();
    for (size_t i = 0; i < s->n; i += jinja_str_step(s->p + i)) {
        uint32_t c = jinja_str_char(s->p + i);
        bool upper = jinja_uni_upper(c) || jinja_uni_titlecase(c), lower = jinja_uni_lower(c);

        if ((upper && inside) || (lower && !inside))
            return jv_bool(false);
        inside = upper || lower;
        some |= inside;
    }
    return jv_bool(some);
}
