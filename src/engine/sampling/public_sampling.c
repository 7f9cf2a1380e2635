/* public_sampling.c - converts struct gallop_sampling with code that is generated from the rows of sampling.def. */
#include "engine/sampling/public_sampling.h"

#include <math.h>
#include <string.h>

#include "base/param/param.h"
#include "engine/sampling/sampling.h"
#include "gallop.h"

_Static_assert((int)GALLOP_EARLY_NEVER == (int)SAMPLING_EARLY_NEVER, "the numbers of early_stopping");

/* The column ACCESS of sampling.def: PUBLIC applies the macro `row` to the other arguments, PRIVATE expands to
 * nothing. */
#define PUBLIC(row, ...) row(__VA_ARGS__)
#define PRIVATE(...)

/* [SAMPLING_N_FIELDS] The members of struct gallop_sampling that are not lists; the name of other fields is NULL. */
/* clang-format off */
#define SCALAR(field, member, type, values) \
    [SAMPLING_##field] = {#member, type, values, PARAM_MEMBER(struct gallop_sampling, member)},
#define SAMPLING_FIELD(field, member, draws, kind, type, values, neutral, access, ...) \
    access(SCALAR, field, member, type, values)
static const struct param scalars[SAMPLING_N_FIELDS] = {
#include "engine/sampling/sampling.def"
};
/* clang-format on */

void public_sampling_init(struct gallop_sampling *p)
{
    static const struct param_value not_given = {.i = -1, .f = NAN};

    *p = (struct gallop_sampling){0};
    for (int f = 0; f < SAMPLING_N_FIELDS; f++)
        if (scalars[f].name)
            param_store(&scalars[f], &not_given, p);
}

static int read_scalars(const struct gallop_sampling *p, struct sampling *s, struct err *e)
{
    for (int f = 0; f < SAMPLING_N_FIELDS; f++) {
        const struct param *r = &scalars[f];
        struct param_value v;
        int rc;

        if (!r->name)
            continue;
        v = param_load(r, p);
        if (r->type == PARAM_REAL ? isnan(v.f) : v.i == -1)
            continue;
        if ((rc = param_check(r, p, e)) != 0)
            return rc;
        param_store(&sampling_row[f].param, &v, s);
        sampling_mark(s, (enum sampling_field)f);
    }
    if (p->has_seed) {
        s->seed = p->seed;
        sampling_mark(s, SAMPLING_SEED);
    }
    return 0;
}

/* Checks that LIST [n], the value of the member NAME, is not NULL and has at most MOST entries. */
static int check_list(const char *name, const void *list, size_t n, size_t most, struct err *e)
{
    if (n > most)
        return err_about(e, ERR_INPUT, name, "found %zu entries, expected at most %zu", n, most);
    if (n && !list)
        return err_about(e, ERR_INPUT, name, "the number of entries is %zu, but the list is NULL", n);
    return 0;
}

/* Copies LIST [n], strings or ids, to the list F of S, allocated in A; the bytes of strings are borrowed. */
static int copy_list(struct sampling *s, enum sampling_field f, const void *list, size_t n, struct arena *a,
                     struct err *e)
{
    const struct sampling_row *r = &sampling_row[f];
    const char *const *text = list;
    struct sampling_str *strings;
    void *copy;
    int rc = check_list(r->param.name, list, n, r->most, e);

    if (rc || n == 0)
        return rc;
    copy = strings = arena_zalloc(a, n, r->list == SAMPLING_IDS ? sizeof(int32_t) : sizeof(*strings));
    if (!copy)
        return err_nomem(e, "a request");
    if (r->list == SAMPLING_IDS)
        memcpy(copy, list, n * sizeof(int32_t));
    for (size_t i = 0; i < n && r->list == SAMPLING_STRINGS; i++) {
        if (!text[i])
            return err_about(e, ERR_INPUT, r->param.name, "string %zu of %zu is NULL", i, n);
        strings[i] = (struct sampling_str){text[i], strlen(text[i])};
    }
    memcpy((char *)s + r->param.into.at, &copy, sizeof(copy));
    memcpy((char *)s + r->n_at, &n, sizeof(n));
    sampling_mark(s, f);
    return 0;
}

static int read_biases(const struct gallop_sampling *p, struct sampling *s, struct arena *a, struct err *e)
{
    int rc = check_list("bias_id", p->bias_id, p->n_bias, SAMPLING_MAX_BIASES, e);

    if (rc || (rc = check_list("bias", p->bias, p->n_bias, SAMPLING_MAX_BIASES, e)) != 0 || p->n_bias == 0)
        return rc;
    s->bias = arena_zalloc(a, p->n_bias, sizeof(*s->bias));
    if (!s->bias)
        return err_nomem(e, "a request");
    for (size_t i = 0; i < p->n_bias; i++)
        s->bias[s->n_bias++] = (struct sampling_bias){p->bias_id[i], p->bias[i]};
    sampling_mark(s, SAMPLING_LOGIT_BIAS);
    return 0;
}

int public_sampling_read(const struct gallop_sampling *p, struct sampling *s, struct arena *a, struct err *e)
{
    int rc;

    sampling_default(s);
    if ((rc = read_scalars(p, s, e)) != 0 || (rc = read_biases(p, s, a, e)) != 0)
        return rc;
#define LIST(field, member)                                                         \
    if ((rc = copy_list(s, SAMPLING_##field, p->member, p->n_##member, a, e)) != 0) \
        return rc;
#define SAMPLING_LIST(field, name, member, kind, most, bytes, access, ...) access(LIST, field, member)
#include "engine/sampling/sampling.def"
    if (p->dry_sequence_breakers && !p->n_dry_sequence_breakers)
        sampling_mark(s, SAMPLING_DRY_SEQUENCE_BREAKERS); /* an empty list: there are no breakers */
    return 0;
}
