/* param.c - intervals, lists of names, and the members of structs that have the values of parameters. */
#include "base/param/param.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int param_index(const char *names, const char *name, size_t n)
{
    int i = 0;

    for (const char *p = names; p; i++) {
        size_t len = strcspn(p, "|");

        if (len == n && memcmp(p, name, n) == 0)
            return i;
        p = p[len] ? p + len + 1 : NULL;
    }
    return -1;
}

bool param_range(const char *text, struct param_range *r)
{
    char *end;

    *r = (struct param_range){.lo = -INFINITY, .hi = INFINITY};
    if (!text)
        return true;
    r->open_lo = text[0] == '(';
    if (text[0] != '(' && text[0] != '[')
        return false;
    r->lo = strtod(text + 1, &end);
    if (end == text + 1 || *end != ',')
        return false;
    text = end + 1;
    r->hi = strtod(text, &end);
    r->open_hi = *end == ')';
    return end != text && (*end == ')' || *end == ']') && end[1] == 0 && r->lo <= r->hi;
}

bool param_in_range(const char *range, double v)
{
    struct param_range r;

    return isfinite(v) && param_range(range, &r) && (r.open_lo ? v > r.lo : v >= r.lo) &&
           (r.open_hi ? v < r.hi : v <= r.hi);
}

const char *param_expected(const struct param *p, char *out, size_t size)
{
    static const char *const type[] = {"true or false", "a whole number", "a whole number of 64 bits",
                                       "a number",      "a string",       "one of "};
    bool is_number = p->type == PARAM_INT || p->type == PARAM_REAL;

    snprintf(out, size, "%s%s%s", type[p->type], is_number && p->values ? " in " : "",
             p->values && p->type != PARAM_TEXT ? p->values : "");
    return out;
}

bool param_fits(const struct param *p)
{
    const struct param_member *m = &p->into;
    double most = ldexp(1, (int)m->size * 8 - (m->kind == PARAM_TO_SIGNED));
    struct param_range r;

    switch (p->type) {
    case PARAM_FLAG: return m->kind == PARAM_TO_BOOL || m->kind == PARAM_TO_SIGNED;
    case PARAM_INT:
        return param_range(p->values, &r) &&
               ((m->kind == PARAM_TO_SIGNED && (m->size == 8 || (r.lo >= -most && r.hi < most))) ||
                (m->kind == PARAM_TO_UNSIGNED && r.lo >= 0 && (m->size == 8 || r.hi < most)));
    case PARAM_BITS: return m->kind == PARAM_TO_UNSIGNED && m->size == 8;
    case PARAM_REAL: return m->kind == PARAM_TO_DOUBLE;
    case PARAM_CHOICE:
        return m->kind != PARAM_TO_DOUBLE &&
               (m->kind != PARAM_TO_BOOL || strchr(p->values, '|') == strrchr(p->values, '|'));
    default: return m->kind == PARAM_TO_TEXT;
    }
}

void param_store(const struct param *p, const struct param_value *v, void *into)
{
    char *at = (char *)into + p->into.at;
    const uint32_t narrow = (uint32_t)v->i;

    switch (p->into.kind) {
    case PARAM_TO_BOOL: *(bool *)at = v->i != 0; break;
    case PARAM_TO_DOUBLE: *(double *)(void *)at = v->f; break;
    case PARAM_TO_TEXT: *(const char **)(void *)at = v->text; break;
    default:
        ASSERT(p->into.size == sizeof(v->i) || p->into.size == sizeof(narrow), "%s: an integer of %zu bytes",
               p->name, p->into.size);
        memcpy(at, p->into.size == sizeof(v->i) ? (const void *)&v->i : &narrow, p->into.size);
    }
}

struct param_value param_load(const struct param *p, const void *from)
{
    const void *at = (const char *)from + p->into.at;
    bool is_wide = p->into.size == sizeof(int64_t);
    struct param_value v = {0};

    switch (p->into.kind) {
    case PARAM_TO_BOOL: v.i = *(const bool *)at; break;
    case PARAM_TO_SIGNED: v.i = is_wide ? *(const int64_t *)at : *(const int32_t *)at; break;
    case PARAM_TO_UNSIGNED: v.i = is_wide ? *(const int64_t *)at : *(const uint32_t *)at; break;
    case PARAM_TO_DOUBLE: v.f = *(const double *)at; return v;
    default: v.text = *(const char *const *)at; return v;
    }
    v.f = p->into.kind == PARAM_TO_UNSIGNED ? (double)(uint64_t)v.i : (double)v.i;
    return v;
}

/* Returns whether V, which was loaded from a member of a struct, is a value that P allows. */
static bool is_value(const struct param *p, const struct param_value *v)
{
    size_t n_choices = 1;

    switch (p->type) {
    case PARAM_FLAG: return v->i >= 0;
    case PARAM_INT:
    case PARAM_REAL: return param_in_range(p->values, v->f);
    case PARAM_CHOICE:
        for (const char *c = p->values; *c; c++)
            n_choices += *c == '|';
        return v->text ? param_index(p->values, v->text, strlen(v->text)) >= 0
                       : v->i >= 0 && (uint64_t)v->i < n_choices;
    default: return true;
    }
}

int param_check(const struct param *p, const void *from, struct err *e)
{
    const struct param_value v = param_load(p, from);
    char expected[160], found[96];

    if (is_value(p, &v))
        return 0;
    if (v.text)
        snprintf(found, sizeof(found), "'%.80s'", v.text);
    else
        snprintf(found, sizeof(found), "%.15g", v.f);
    return err_about(e, ERR_INPUT, p->name, "found %s, expected %s", found,
                     param_expected(p, expected, sizeof(expected)));
}
