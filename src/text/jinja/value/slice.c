/* slice.c - computes slices, as Python does. */
#include "text/jinja/value/slice.h"

#include "text/jinja/value/characters.h"
#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"
#include "text/jinja/value/walk.h"

struct extent {
    int64_t start, stop, step;
    size_t count; /* number of elements */
};

static int64_t clamp(struct value v, int64_t n, int64_t least, int64_t most)
{
    int64_t i = jinja_to_integer(v);

    i += i < 0 ? n : 0;
    return i < least ? least : i > most ? most : i;
}

/* Computes the extent of v[0]:v[1]:v[2] (integers or None) for a sequence of N elements. */
static bool read_extent(struct rendering *r, const struct value *v, int64_t n, struct extent *x)
{
    int64_t least, most, step = v[2].kind == VALUE_NONE ? 1 : jinja_to_integer(v[2]);

    for (int i = 0; i < 3; i++)
        if (v[i].kind != VALUE_NONE && !jinja_is_integer(v[i]))
            jinja_fail(r, "slice indices must be integers or None or have an __index__ method");
    if (step == 0)
        jinja_fail(r, "slice step cannot be zero");
    if (r->rc)
        return false;
    step = step < -n - 1 ? -n - 1 : step > n + 1 ? n + 1 : step; /* longer steps select the same elements */
    least = step < 0 ? -1 : 0;
    most = step < 0 ? n - 1 : n;
    x->step = step;
    x->start = v[0].kind != VALUE_NONE ? clamp(v[0], n, least, most) : step < 0 ? most : least;
    x->stop = v[1].kind != VALUE_NONE ? clamp(v[1], n, least, most) : step < 0 ? least : most;
    if (step < 0)
        x->count = x->start > x->stop ? (size_t)((x->start - x->stop - 1) / -step) + 1 : 0;
    else
        x->count = x->stop > x->start ? (size_t)((x->stop - x->start - 1) / step) + 1 : 0;
    return true;
}

static struct value slice_string(struct rendering *r, struct value s, const struct extent *x)
{
    struct text t = {.r = r};
    struct value v;
    size_t at;

    if (x->count == 0 || !jinja_step(r, s.size / 16))
        return jinja_part(s, 0, 0);
    at = jinja_offset(s, (size_t)x->start);
    if (x->step == 1)
        return jinja_part(s, at, at + jinja_offset(jinja_part(s, at, s.size), x->count));
    for (size_t i = 0; i < x->count && !r->rc; i++) {
        jinja_put(&t, s.bytes + at, jinja_width(s.bytes + at));
        for (int64_t k = 0; k < x->step && i + 1 < x->count; k++)
            at += jinja_width(s.bytes + at);
        for (int64_t k = 0; k > x->step && i + 1 < x->count; k--)
            at -= jinja_width_before(s.bytes, at);
    }
    v = jinja_finish(&t);
    v.mark = v.kind == VALUE_STRING ? s.mark : VALUE_PLAIN;
    return v;
}

struct value jinja_slice(struct rendering *r, struct value object, struct value start, struct value stop,
                         struct value step)
{
    const struct value bounds[3] = {start, stop, step};
    struct extent x;
    struct value v;
    size_t n;

    if (object.kind == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, object);
    if (!jinja_is_sequence(object) && object.kind != VALUE_STRING && object.kind != VALUE_RANGE)
        return jinja_fail(r, "'%s' object cannot be sliced", jinja_type(object));
    if (!jinja_length(r, object, &n) || !read_extent(r, bounds, (int64_t)n, &x))
        return value_none;
    if (object.kind == VALUE_STRING)
        return slice_string(r, object, &x);
    object = object.kind == VALUE_RANGE ? jinja_to_list(r, object) : object;
    v = jinja_list(r, (enum value_kind)object.kind, NULL, x.count);
    for (size_t i = 0; !r->rc && i < x.count; i++)
        v.items[i] = object.items[x.start + (int64_t)i * x.step];
    return v;
}
