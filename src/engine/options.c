/* options.c - checks struct gallop_options by the rows of options.def. */
#include "engine/options.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kv/kv.h"

enum type { TEXT, SWITCH, CHOICE, COUNT, REAL };

struct row {
    const char *name;
    size_t at, size; /* offset and size of the member in struct gallop_options */
    enum type type;
    const char *choices; /* CHOICE: "a|b|c" */
    double lo, hi;       /* range of a number, inclusive; HI may be INFINITY */
    bool open_lo;        /* LO itself is excluded */
    bool is_for_engines; /* executors do not have the option */
};

/* clang-format off */
#define TEXT()           TEXT, NULL, 0, 0, false
#define SWITCH()         SWITCH, NULL, 0, 0, false
#define CHOICE(names)    CHOICE, names, 0, 0, false
#define COUNT(range)     COUNT, NULL, range
#define REAL(range)      REAL, NULL, range
#define FROM(lo)         lo, INFINITY, false
#define FROM_TO(lo, hi)  lo, hi, false
#define ABOVE_TO(lo, hi) lo, hi, true
#define BOTH             false
#define ENGINE           true
#define MEMBER(name, member, ...) \
    {name, offsetof(struct gallop_options, member), sizeof(((struct gallop_options *)0)->member), __VA_ARGS__},
#define ENGINE_MEMBER(member, type, place)                 MEMBER(#member, member, type, place)
#define ENGINE_OPTION(member, type, place, help, flag)     MEMBER(#member, member, type, place)
#define SOURCE_OPTION(member, type, place, help, flag)     MEMBER(#member, member, type, place)
#define SCHEDULING_OPTION(member, type, place, help, flag) MEMBER(#member, member, type, place)
static const struct row rows[] = {
#include "engine/options.def"
};
/* clang-format on */
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static const char *text_of(const struct gallop_options *o, const struct row *r)
{
    return *(const char *const *)(const void *)((const char *)o + r->at);
}

static double number_of(const struct gallop_options *o, const struct row *r)
{
    const void *at = (const char *)o + r->at;

    return r->type == REAL          ? *(const double *)at
           : r->size == sizeof(int) ? *(const int *)at
                                    : (double)*(const int64_t *)at;
}

static bool is_given(const struct gallop_options *o, const struct row *r)
{
    return r->type == TEXT || r->type == CHOICE ? text_of(o, r) != NULL : number_of(o, r) != 0;
}

static bool is_choice(const char *choices, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == '|' || p[n] == 0))
            return true;
    return false;
}

/* Writes CHOICES, "a|b|c", to out[size] as "a, b or c". */
static void list_choices(const char *choices, char *out, size_t size)
{
    const char *last = strrchr(choices, '|');
    size_t at = 0;

    for (const char *p = choices; *p && at + 6 < size; p++)
        at += (size_t)snprintf(out + at, size - at, p == last ? " or " : *p == '|' ? ", " : "%c", *p);
}

static int check_number(const struct row *r, double v, struct err *e)
{
    const char *above = r->open_lo ? "more than " : "", *to = r->open_lo ? ", at most " : " to ";

    if (v == 0 || ((r->open_lo ? v > r->lo : v >= r->lo) && v <= r->hi))
        return 0;
    if (isinf(r->hi))
        return err_about(e, ERR_INPUT, r->name, "found %.15g, expected %.15g or more", v, r->lo);
    return err_about(e, ERR_INPUT, r->name, "found %.15g, expected %s%.15g%s%.15g", v, above, r->lo, to,
                     r->hi);
}

static int check_row(const struct gallop_options *o, const struct row *r, bool is_executor, struct err *e)
{
    char names[160];

    if (is_executor && r->is_for_engines)
        return err_about(e, ERR_INPUT, r->name,
                         "must not be given: an executor has no queue, scheduler and prefix cache");
    if (r->type == COUNT || r->type == REAL)
        return check_number(r, number_of(o, r), e);
    if (r->type != CHOICE || is_choice(r->choices, text_of(o, r)))
        return 0;
    list_choices(r->choices, names, sizeof(names));
    return err_about(e, ERR_INPUT, r->name, "found %.80s, expected %s", text_of(o, r), names);
}

int engine_options_check(const struct gallop_options *o, bool is_executor, struct err *e)
{
    int rc = 0;

    for (int i = 0; i < N_ROWS && rc == 0; i++) {
        const struct row *r = &rows[i];
        bool is_extern = r->at == offsetof(struct gallop_options, kv_cache_type) && o->kv_cache_type &&
                         kv_type_extern(o->kv_cache_type);

        if (is_extern && !is_executor)
            rc = err_about(e, ERR_INPUT, r->name, "%s is supported by gallop_executor_open() only",
                           o->kv_cache_type);
        else if (!is_extern && is_given(o, r))
            rc = check_row(o, r, is_executor, e);
    }
    return rc;
}
