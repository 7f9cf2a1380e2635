/* jinja_split.c - pieces of strings. They share the bytes of the string they come from. */
#include "text/jinja_split.h"

#include "text/jinja_str.h"
#include "text/jinja_uni.h"

static void push(struct jgrow *g, struct jv v, size_t from, size_t to)
{
    jinja_val_push(g, jinja_str_sub(g->r, v, from, to));
}

/* By runs of white space; leading ones give nothing. */
static void split_blank(struct jgrow *g, struct jv v, int64_t max)
{
    const char *p = v.u.str->p;
    size_t n = v.u.str->n, i = 0, from;

    while (!g->r->rc) {
        while (i < n && jinja_uni_space(jinja_str_char(p + i)))
            i += jinja_str_step(p + i);
        if (i >= n)
            return;
        if (max-- == 0)
            break;
        from = i;
        while (i < n && !jinja_uni_space(jinja_str_char(p + i)))
            i += jinja_str_step(p + i);
        push(g, v, from, i);
    }
    push(g, v, i, n);
}

static void rsplit_blank(struct jgrow *g, struct jv v, int64_t max)
{
    const char *p = v.u.str->p;
    size_t i = v.u.str->n, to;

    while (!g->r->rc) {
        while (i > 0 && jinja_uni_space(jinja_str_char(p + i - jinja_str_back(p, i))))
            i -= jinja_str_back(p, i);
        if (i == 0)
            return;
        if (max-- == 0)
            break;
        to = i;
        while (i > 0 && !jinja_uni_space(jinja_str_char(p + i - jinja_str_back(p, i))))
            i -= jinja_str_back(p, i);
        push(g, v, i, to);
    }
    push(g, v, 0, i);
}

static void split_at(struct jgrow *g, struct jv v, const struct jstr *sep, int64_t max)
{
    const char *p = v.u.str->p;
    size_t n = v.u.str->n, from = 0, hit;

    while (max-- != 0 && !g->r->rc) {
        hit = jinja_str_find(p + from, n - from, sep->p, sep->n);
        if (hit == SIZE_MAX)
            break;
        push(g, v, from, from + hit);
        from += hit + sep->n;
    }
    push(g, v, from, n);
}

static void rsplit_at(struct jgrow *g, struct jv v, const struct jstr *sep, int64_t max)
{
    size_t to = v.u.str->n, hit;

    while (max-- != 0 && !g->r->rc) {
        hit = jinja_str_rfind(g->r, v.u.str->p, to, sep->p, sep->n);
        if (hit == SIZE_MAX)
            break;
        push(g, v, hit + sep->n, to);
        to = hit;
    }
    push(g, v, 0, to);
}

static void reverse(struct jgrow *g)
{
    for (size_t i = 0; i < g->n / 2; i++) {
        struct jv v = g->v[i];

        g->v[i] = g->v[g->n - 1 - i];
        g->v[g->n - 1 - i] = v;
    }
}

static struct jv split(struct jrun *r, struct jv self, const struct jargs *a, const char *name,
                       bool from_right)
{
    struct jgrow g = {.r = r};
    const struct jstr *sep = NULL;
    int64_t max = -1;
    struct jv p[2];

    if (!jinja_args_bind(r, name, a, "sep maxsplit", 0, p) || !jinja_args_index(r, name, p[1], &max))
        return jv_none();
    if (!jv_is(p[0], JV_NONE) && !jinja_args_str(r, name, p[0], &sep))
        return jv_none();
    if (sep && sep->n == 0)
        jinja_run_fail(r, "empty separator");
    if (!jinja_run_step(r, self.u.str->n / 8))
        return jv_none();
    if (max < 0)
        max = INT64_MAX;
    if (!sep && from_right)
        rsplit_blank(&g, self, max);
    else if (!sep)
        split_blank(&g, self, max);
    else if (from_right)
        rsplit_at(&g, self, sep, max);
    else
        split_at(&g, self, sep, max);
    if (from_right)
        reverse(&g);
    return jinja_val_done(&g, JV_LIST);
}

struct jv jinja_split_split(struct jrun *r, struct jv self, const struct jargs *a)
{
    return split(r, self, a, "split", false);
}

struct jv jinja_split_rsplit(struct jrun *r, struct jv self, const struct jargs *a)
{
    return split(r, self, a, "rsplit", true);
}

void jinja_split_put_lines(struct jgrow *g, struct jv v, bool keep)
{
    const char *p = v.u.str->p;
    size_t n = v.u.str->n, from = 0, i = 0;

    if (!jinja_run_step(g->r, n / 16))
        return;
    while (i < n && !g->r->rc) {
        size_t end = i, len = jinja_str_step(p + i);

        i += len;
        if (!jinja_uni_line_break(jinja_str_char(p + end)))
            continue;
        if (p[end] == '\r' && i < n && p[i] == '\n')
            i++;
        push(g, v, from, keep ? i : end);
        from = i;
    }
    if (from < n)
        push(g, v, from, n);
}

struct jv jinja_split_lines(struct jrun *r, struct jv self, const struct jargs *a)
{
    struct jgrow g = {.r = r};
    struct jv p[1];
    int64_t keep = 0;

    if (!jinja_args_bind(r, "splitlines", a, "keepends", 0, p) ||
        !jinja_args_index(r, "splitlines", p[0], &keep))
        return jv_none();
    jinja_split_put_lines(&g, self, keep != 0);
    return jinja_val_done(&g, JV_LIST);
}

static struct jv partition(struct jrun *r, struct jv self, const struct jargs *a, const char *name, bool last)
{
    const struct jstr *sep = NULL;
    size_t n = self.u.str->n, hit;
    struct jv p[1], part[3];

    if (!jinja_args_bind(r, name, a, "sep /", 1, p) || !jinja_args_str(r, name, p[0], &sep))
        return jv_none();
    if (sep->n == 0) {
        jinja_run_fail(r, "empty separator");
        return jv_none();
    }
    hit = last ? jinja_str_rfind(r, self.u.str->p, n, sep->p, sep->n)
               : jinja_str_find(self.u.str->p, n, sep->p, sep->n);
    if (hit == SIZE_MAX) {
        part[0] = jinja_str_sub(r, self, 0, last ? 0 : n);
        part[1] = jinja_str_sub(r, self, 0, 0);
        part[2] = jinja_str_sub(r, self, 0, last ? n : 0);
    } else {
        part[0] = jinja_str_sub(r, self, 0, hit);
        part[1] = jinja_str_sub(r, self, hit, hit + sep->n);
        part[2] = jinja_str_sub(r, self, hit + sep->n, n);
    }
    return r->rc ? jv_none() : jinja_val_tuple(r, part, 3);
}

struct jv jinja_split_partition(struct jrun *r, struct jv self, const struct jargs *a)
{
    return partition(r, self, a, "partition", false);
}

struct jv jinja_split_rpartition(struct jrun *r, struct jv self, const struct jargs *a)
{
    return partition(r, self, a, "rpartition", true);
}
