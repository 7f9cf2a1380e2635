/* methods.c - calls of rows, attributes, elements and slices of values, the methods of lists and dicts, and
 * the functions of the environment.
 *
 * Look-ups never fail for want of an element: they give an undefined value that remembers what it was. An
 * attribute is looked for before an element, x['y'] the other way round, as in Jinja. What Python has beyond
 * the rows with a function here is refused by its name when it is called.
 */
#include <string.h>
#include <time.h>

#include "base/utf8.h"
#include "text/jinja/tree.h"

enum { RANGE_MAX = 100000, DATE_MAX = 1024, MESSAGE_MAX = 800 };

/* Calls of rows */

/* Refuses a value of another type than a parameter may have: $ a string, # an integer, % either. */
static void check_type(struct rendering *r, const struct row *row, char type, struct value v)
{
    if (v.kind == MISSING || (v.kind == STRING && type != '#') || (jinja_is_integer(v) && type != '$'))
        return;
    if (type == '$')
        jinja_fail(r, "%s(): the argument must be str, not %s", row->name, jinja_type(v));
    else if (v.kind == UNDEFINED)
        jinja_fail_undefined(r, v);
    else
        jinja_fail(r, "%s(): '%s' object cannot be interpreted as an integer", row->name, jinja_type(v));
}

/* Puts the arguments of a call in the order of the parameters. */
static bool bind(struct rendering *r, const struct row *row, const struct arguments *a, struct value *out)
{
    const char *name = row->parameters;
    size_t i, taken = 0;

    for (i = 0; *name; i++, name += *name == ' ') {
        struct value parameter = jinja_string(name, strcspn(name, " $#%?"));

        ASSERT(i < PARAMETERS_MAX, "%s: %s", row->name, row->parameters);
        name += parameter.size;
        if (i < a->count)
            out[i] = a->values[i];
        for (size_t k = 0; k < a->n_keywords && !row->positional; k++)
            if (jinja_same(a->keywords[k].name, parameter)) {
                if (out[i].kind != MISSING)
                    jinja_fail(r, "%s() got multiple values for argument %s", row->name,
                               jinja_brief(r, parameter));
                out[i] = a->keywords[k].value;
                taken++;
            }
        if (i < row->required && out[i].kind == MISSING)
            jinja_fail(r, "%s() misses the argument %s", row->name, jinja_brief(r, parameter));
        if (*name == '?' && out[i].kind == NONE)
            out[i] = missing;
        name += *name == '?';
        if (*name && *name != ' ')
            check_type(r, row, *name++, out[i]);
    }
    if (a->count > i)
        jinja_fail(r, "%s() takes at most %zu arguments (%zu given)", row->name, i, a->count);
    if (taken < a->n_keywords)
        jinja_fail(r, "%s() got a keyword argument that it does not take", row->name);
    return r->rc == 0;
}

struct value jinja_apply(struct rendering *r, const struct row *row, struct value v,
                         const struct arguments *a)
{
    struct given g = {.all = a, .name = row->name, .how = row->how};

    if (row->parameters && (a->count || a->n_keywords || row->required) && !bind(r, row, a, g.p))
        return none;
    return r->rc ? none : row->call(r, v, &g);
}

int64_t jinja_given_integer(const struct given *g, size_t i, int64_t otherwise)
{
    return g->p[i].kind == MISSING ? otherwise : jinja_to_integer(g->p[i]);
}

struct value jinja_blanks(struct rendering *r, const struct given *g, size_t i, int64_t otherwise)
{
    struct text t = {.r = r};
    int64_t n;

    if (g->p[i].kind == STRING)
        return g->p[i];
    n = jinja_given_integer(g, i, otherwise);
    jinja_put_times(&t, jinja_literal(" "), n > 0 ? (size_t)n : 0);
    return jinja_finish(&t);
}

/* Methods of lists and dicts */

/* The place of an element, or with HOW their number. */
static struct value search_list(struct rendering *r, struct value self, const struct given *g)
{
    int64_t n = 0;

    for (size_t i = 0; i < self.size && jinja_step(r, 0); i++)
        if (jinja_equal(r, self.items[i], g->p[0])) {
            if (!g->how)
                return jinja_integer((int64_t)i);
            n++;
        }
    if (g->how)
        return jinja_integer(n);
    return jinja_fail(r, "%s is not in list", jinja_brief(r, g->p[0]));
}

static struct value get(struct rendering *r, struct value self, const struct given *g)
{
    struct value v;
    uint32_t hash;

    if (!jinja_hash(r, g->p[0], &hash))
        jinja_fail(r, "unhashable type: '%s'", jinja_type(g->p[0]));
    if (jinja_dict_get(r, self.dict, g->p[0], &v))
        return v;
    return g->p[1].kind == MISSING ? none : g->p[1];
}

/* The list behind keys(), values() and items(), as HOW says. */
static struct value view(struct rendering *r, struct value self, const struct given *g)
{
    struct value v = jinja_list(r, LIST, NULL, self.dict->count);

    for (uint32_t i = 0; i < self.dict->count && !r->rc; i++) {
        const struct pair *p = &self.dict->pairs[i];

        v.items[i] = g->how == KEYS     ? p->key
                     : g->how == VALUES ? p->value
                                        : jinja_list(r, TUPLE, (const struct value *)p, 2);
    }
    v.mark = r->rc ? PLAIN : (uint8_t)g->how;
    return v;
}

static const struct row list_methods[] = {
    {"count", search_list, "value", 1, true, true},
    {"index", search_list, "value", 1, false, true},
    {.name = NULL},
};

static const struct row dict_methods[] = {
    {"get", get, "key default", 1, 0, true},
    {"items", view, "", 0, ITEMS, 0},
    {"keys", view, "", 0, KEYS, 0},
    {"values", view, "", 0, VALUES, 0},
    {.name = NULL},
};

/* Methods that would change the value. */
static const char changing_list[] = "append clear extend insert pop remove reverse sort";
static const char changing_dict[] = "clear pop popitem setdefault update";
/* Attributes and elements */

static struct value unsafe(struct rendering *r, struct value object, struct value name)
{
    struct text t = {.r = r};

    jinja_put_literal(&t, "access to attribute ");
    jinja_print_repr(&t, name);
    jinja_put_format(&t, " of '%s' object is unsafe.", jinja_type(object));
    return jinja_undefined(jinja_finish_terminated(&t));
}

/* A method of OBJECT, or missing. What changes the value gives an undefined one, as in the sandbox. */
static struct value find_method(struct rendering *r, struct value object, struct value name)
{
    bool string = object.kind == STRING, dict = object.kind == DICT;
    const struct row *row = string ? jinja_string_methods : dict ? dict_methods : list_methods;
    struct bound *b;

    row = jinja_find_row(row, name);
    if (row) {
        b = jinja_allocate(r, sizeof(*b));
        if (!b)
            return none;
        *b = (struct bound){object, row};
        return (struct value){.kind = METHOD, .bound = b};
    }
    if (!string && jinja_is_among(name, dict ? changing_dict : changing_list))
        return unsafe(r, object, name);
    return missing;
}

static struct value macro_attribute(struct rendering *r, const struct macro_node *m, struct value name)
{
    struct value v;

    if (jinja_is(name, "name"))
        return m->name;
    if (!jinja_is(name, "arguments"))
        return missing;
    v = jinja_list(r, TUPLE, NULL, m->parameters.n);
    for (size_t i = 0; v.kind == TUPLE && i < m->parameters.n; i++)
        v.items[i] = m->parameters.v[i]->variable.name;
    return v;
}

/* What Python's getattr() finds, or missing. */
static struct value own_attribute(struct rendering *r, struct value object, struct value name)
{
    struct value v = missing;

    if (name.size == 0)
        return v;
    if (object.kind == STRING || object.kind == DICT || jinja_is_sequence(object))
        v = find_method(r, object, name);
    else if (object.kind == LOOP)
        v = jinja_loop_attribute(r, object.loop, name);
    else if (object.kind == MACRO)
        v = macro_attribute(r, object.macro->node, name);
    else if (object.kind == NAMESPACE && !jinja_dict_get(r, object.dict, name, &v))
        v = missing;
    if (object.kind == LOOP && jinja_is_among(name, "changed cycle depth depth0"))
        jinja_fail(r, "loop.%.*s is not offered", (int)name.size, name.bytes);
    if (v.kind == MISSING && name.size > 4 && memcmp(name.bytes, "__", 2) == 0 &&
        memcmp(name.bytes + name.size - 2, "__", 2) == 0)
        v = unsafe(r, object, name);
    return v;
}

/* object[key] as Python has it; missing where Python raises TypeError or LookupError. */
static struct value subscript(struct rendering *r, struct value object, struct value key)
{
    struct value v;
    int64_t i;
    size_t n;

    if (object.kind == DICT)
        return jinja_dict_get(r, object.dict, key, &v) ? v : missing;
    if (!jinja_is_sequence(object) && object.kind != STRING && object.kind != RANGE)
        return missing;
    if (!jinja_is_integer(key) || !jinja_length(r, object, &n))
        return missing;
    i = jinja_to_integer(key);
    i += i < 0 ? (int64_t)n : 0;
    if (i < 0 || (size_t)i >= n)
        return missing;
    if (object.kind == STRING) {
        n = jinja_offset(object, (size_t)i);
        return jinja_step(r, n / 16) ? jinja_part(object, n, n + jinja_width(object.bytes + n)) : none;
    }
    return jinja_element(object, (size_t)i);
}

struct value jinja_member(struct rendering *r, struct value object, struct value key, bool attribute)
{
    struct value v;

    if (object.kind == UNDEFINED)
        return jinja_fail_undefined(r, object);
    v = attribute ? own_attribute(r, object, key) : subscript(r, object, key);
    if (v.kind == MISSING && attribute)
        v = subscript(r, object, key);
    else if (v.kind == MISSING && key.kind == STRING)
        v = own_attribute(r, object, key);
    return v.kind == MISSING ? jinja_undefined_item(r, object, key) : v;
}

/* Slices */

struct extent {
    int64_t start, stop, step;
    size_t count; /* elements chosen */
};

static int64_t clamp(struct value v, int64_t n, int64_t least, int64_t most)
{
    int64_t i = jinja_to_integer(v);

    i += i < 0 ? n : 0;
    return i < least ? least : i > most ? most : i;
}

/* What start, stop and step, each none or an integer, choose of N elements. */
static bool read_extent(struct rendering *r, const struct value *v, int64_t n, struct extent *x)
{
    int64_t least, most, step = v[2].kind == NONE ? 1 : jinja_to_integer(v[2]);

    for (int i = 0; i < 3; i++)
        if (v[i].kind != NONE && !jinja_is_integer(v[i]))
            jinja_fail(r, "slice indices must be integers or None or have an __index__ method");
    if (step == 0)
        jinja_fail(r, "slice step cannot be zero");
    if (r->rc)
        return false;
    step = step < -n - 1 ? -n - 1 : step > n + 1 ? n + 1 : step; /* a longer one chooses the same */
    least = step < 0 ? -1 : 0;
    most = step < 0 ? n - 1 : n;
    x->step = step;
    x->start = v[0].kind != NONE ? clamp(v[0], n, least, most) : step < 0 ? most : least;
    x->stop = v[1].kind != NONE ? clamp(v[1], n, least, most) : step < 0 ? least : most;
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
    v.mark = v.kind == STRING ? s.mark : PLAIN;
    return v;
}

struct value jinja_slice(struct rendering *r, struct value object, struct value start, struct value stop,
                         struct value step)
{
    const struct value bounds[3] = {start, stop, step};
    struct extent x;
    struct value v;
    size_t n;

    if (object.kind == UNDEFINED)
        return jinja_fail_undefined(r, object);
    if (!jinja_is_sequence(object) && object.kind != STRING && object.kind != RANGE)
        return jinja_fail(r, "'%s' object cannot be sliced", jinja_type(object));
    if (!jinja_length(r, object, &n) || !read_extent(r, bounds, (int64_t)n, &x))
        return none;
    if (object.kind == STRING)
        return slice_string(r, object, &x);
    object = object.kind == RANGE ? jinja_to_list(r, object) : object;
    v = jinja_list(r, (enum kind)object.kind, NULL, x.count);
    for (size_t i = 0; !r->rc && i < x.count; i++)
        v.items[i] = object.items[x.start + (int64_t)i * x.step];
    return v;
}

/* Functions */

static struct value make_range(struct rendering *r, struct value nothing, const struct given *given)
{
    struct range *g = jinja_allocate(r, sizeof(*g));
    bool one = given->p[1].kind == MISSING; /* argument: where to stop */
    uint64_t span, step;

    (void)nothing;
    if (!g)
        return none;
    *g = (struct range){.start = one ? 0 : jinja_to_integer(given->p[0]),
                        .stop = jinja_to_integer(given->p[one ? 0 : 1]),
                        .step = jinja_given_integer(given, 2, 1)};
    if (g->step == 0)
        return jinja_fail(r, "range() arg 3 must not be zero");
    if (g->step > 0 ? g->stop > g->start : g->stop < g->start) {
        span = g->step > 0 ? (uint64_t)g->stop - (uint64_t)g->start : (uint64_t)g->start - (uint64_t)g->stop;
        step = g->step > 0 ? (uint64_t)g->step : 0 - (uint64_t)g->step;
        g->count = (size_t)((span - 1) / step + 1);
    }
    if (g->count > RANGE_MAX)
        jinja_fail(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", RANGE_MAX);
    return (struct value){.kind = RANGE, .range = g};
}

/* A dict or a namespace: the pairs of another dict, and the named arguments. */
static struct value make_dict(struct rendering *r, struct value nothing, const struct given *g)
{
    const struct arguments *a = g->all;
    struct dict *d = jinja_dict(r);

    (void)nothing;
    if (a->count > 1 || (a->count && a->values[0].kind != DICT))
        jinja_fail(r, "%s(): the argument must be a dict, not %s", g->name, jinja_type(a->values[0]));
    for (uint32_t i = 0; a->count && !r->rc && i < a->values[0].dict->count; i++)
        jinja_dict_set(r, d, a->values[0].dict->pairs[i].key, a->values[0].dict->pairs[i].value);
    for (size_t i = 0; i < a->n_keywords && !r->rc; i++)
        jinja_dict_set(r, d, a->keywords[i].name, a->keywords[i].value);
    for (uint32_t i = 0; g->how == NAMESPACE && !r->rc && i < d->count; i++)
        if (d->pairs[i].key.kind == STRING && d->pairs[i].key.size && d->pairs[i].key.bytes[0] == '_')
            jinja_fail(r, "cannot store the attribute %s, which begins with an underscore, on a namespace",
                       jinja_brief(r, d->pairs[i].key));
    return r->rc ? none : jinja_dict_value(d, (enum kind)g->how);
}

static struct value raise_exception(struct rendering *r, struct value nothing, const struct given *g)
{
    struct value text = jinja_to_string(r, g->p[0]);

    jinja_fail(r, "%.*s", text.size < MESSAGE_MAX ? (int)text.size : MESSAGE_MAX, text.bytes);
    return nothing;
}

/* The format without what C knows otherwise than Python's datetime: microseconds, and a time without zone. */
static const char *date_format(struct rendering *r, struct value format)
{
    struct text t = {.r = r};

    for (size_t i = 0; i < format.size; i++) {
        const char *p = format.bytes + i;
        bool two = *p == '%' && i + 1 < format.size;

        if (two && p[1] == 'f')
            jinja_put_literal(&t, "000000");
        else if (two && p[1] != 'z' && p[1] != 'Z')
            jinja_put(&t, p, 2);
        else if (!two)
            jinja_put_byte(&t, *p ? *p : ' ');
        i += two;
    }
    return jinja_finish_terminated(&t);
}

static struct value strftime_now(struct rendering *r, struct value nothing, const struct given *g)
{
    struct tm tm = *r->now;
    char text[DATE_MAX];
    struct text t = {.r = r};
    const char *format;
    size_t n;

    (void)nothing;
    if (g->p[0].size == 0 || !jinja_step(r, 16 + 4 * (size_t)g->p[0].size))
        return g->p[0];
    timegm(&tm); /* the day of the week and of the year follow from the date */
    tm.tm_isdst = r->now->tm_isdst;
    format = date_format(r, g->p[0]);
    n = r->rc ? 0 : strftime(text, sizeof(text), format, &tm);
    if (n == 0 && 2 * strlen(format) >= sizeof(text))
        jinja_fail(r, "strftime_now: the date is longer than %d bytes", DATE_MAX);
    if (utf8_valid_prefix(text, n) != n)
        jinja_fail(r, "strftime_now: the date is not UTF-8");
    jinja_step(r, n / 4);
    jinja_put(&t, text, n);
    return jinja_finish(&t);
}

const struct row jinja_functions[] = {
    {"range", make_range, "start# stop# step#", 1, 0, true},
    {"dict", make_dict, NULL, 0, DICT, 0},
    {"namespace", make_dict, NULL, 0, NAMESPACE, 0},
    {"raise_exception", raise_exception, "message", 1, 0, false},
    {"strftime_now", strftime_now, "format$", 1, 0, false},
    {.name = NULL},
};
