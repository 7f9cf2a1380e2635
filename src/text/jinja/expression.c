/* expression.c - evaluates expressions: a walk over the tree, and Python's arithmetic in 64 bits.
 *
 * An integer that grows beyond 64 bits is an error, and so is what would be a complex number.
 */
#include <math.h>
#include <string.h>

#include "text/jinja/tree.h"

enum { FEW = 4 };

/* Evaluated arguments; few of them need no memory. */
struct evaluated {
    struct arguments arguments;
    struct value few[FEW];
    struct keyword few_keywords[FEW];
};

/* Arithmetic */

/* Quotient and remainder as CPython's float_divmod() has them: the remainder has the sign of B. */
static struct value divide_floats(double a, double b, bool remainder)
{
    double m = fmod(a, b), d = (a - m) / b, whole;

    if (m == 0) {
        m = copysign(0.0, b);
    } else if ((b < 0) != (m < 0)) {
        m += b;
        d -= 1;
    }
    if (remainder)
        return jinja_float(m);
    whole = d == 0 ? copysign(0.0, a / b) : floor(d);
    return jinja_float(d != 0 && d - whole > 0.5 ? whole + 1 : whole);
}

static struct value raise_float(struct rendering *r, double a, double b)
{
    double f;

    if (a == 0 && b < 0)
        return jinja_fail(r, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return jinja_fail(
            r, "a negative number to a fractional power is complex, and complex numbers are not offered");
    f = pow(a, b);
    if (isinf(f) && isfinite(a) && isfinite(b))
        return jinja_fail(r, "the result of ** is too large for a float");
    return jinja_float(f);
}

static struct value calculate_floats(struct rendering *r, enum operation op, double a, double b)
{
    switch (op) {
    case ADD: return jinja_float(a + b);
    case SUBTRACT: return jinja_float(a - b);
    case MULTIPLY: return jinja_float(a * b);
    case POWER: return raise_float(r, a, b);
    default: break;
    }
    if (b == 0)
        return jinja_fail(r, op == DIVIDE         ? "float division by zero"
                             : op == FLOOR_DIVIDE ? "float floor division by zero"
                                                  : "float modulo");
    return op == DIVIDE ? jinja_float(a / b) : divide_floats(a, b, op == MODULO);
}

/* A to the power of B, which is not negative. True: the result has more than 64 bits. */
static bool raise_integer(int64_t a, int64_t b, int64_t *out)
{
    bool over = false;

    if (a >= -1 && a <= 1 && b > 3) /* what other bases need few rounds for, these do not */
        b = 2 + (b & 1);
    for (*out = 1; b > 0 && !over; b--)
        over = __builtin_mul_overflow(*out, a, out);
    return over;
}

static struct value divide_integers(struct rendering *r, enum operation op, int64_t a, int64_t b)
{
    int64_t q, m;

    if (b == 0)
        return jinja_fail(r, op == DIVIDE ? "division by zero" : "integer division or modulo by zero");
    if (op == DIVIDE) /* long double holds both, so that the quotient is rounded once */
        return jinja_float((double)((long double)a / (long double)b));
    if (b == -1) {
        if (op == MODULO)
            return jinja_integer(0);
        if (a == INT64_MIN)
            return jinja_fail(r, "an integer grows beyond 64 bits");
        return jinja_integer(-a);
    }
    q = a / b;
    m = a % b;
    if (m != 0 && (m < 0) != (b < 0)) {
        q--;
        m += b;
    }
    return jinja_integer(op == MODULO ? m : q);
}

static struct value calculate_integers(struct rendering *r, enum operation op, int64_t a, int64_t b)
{
    bool over = false;
    int64_t out = 0;

    switch (op) {
    case ADD: over = __builtin_add_overflow(a, b, &out); break;
    case SUBTRACT: over = __builtin_sub_overflow(a, b, &out); break;
    case MULTIPLY: over = __builtin_mul_overflow(a, b, &out); break;
    case POWER:
        if (b < 0)
            return raise_float(r, (double)a, (double)b);
        over = raise_integer(a, b, &out);
        break;
    default: return divide_integers(r, op, a, b);
    }
    return over ? jinja_fail(r, "an integer grows beyond 64 bits") : jinja_integer(out);
}

static struct value add_strings(struct rendering *r, struct value a, struct value b)
{
    bool escaped = a.mark == ESCAPED || b.mark == ESCAPED;
    struct value v;

    if (escaped) {
        a = jinja_escape(r, a);
        b = jinja_escape(r, b);
    }
    v = r->rc ? none : jinja_join(r, a, b);
    if (v.kind == STRING)
        v.mark = escaped ? ESCAPED : PLAIN;
    return v;
}

static struct value add_lists(struct rendering *r, struct value a, struct value b)
{
    size_t n = a.size, m = b.size;
    struct value v = jinja_list(r, (enum kind)a.kind, NULL, n + m);

    if (r->rc)
        return v;
    memcpy(v.items, a.items, n * sizeof(v));
    memcpy(v.items + n, b.items, m * sizeof(v));
    return v;
}

/* A string, list or tuple, several times over. */
static struct value repeat(struct rendering *r, struct value a, int64_t times)
{
    size_t n = times > 0 ? (size_t)times : 0, total;
    struct text t = {.r = r};
    struct value v;

    if (a.kind == STRING) {
        jinja_put_times(&t, a, n);
        v = jinja_finish(&t);
        v.mark = v.kind == STRING ? a.mark : PLAIN;
        return v;
    }
    if (__builtin_mul_overflow(a.size, n, &total))
        total = SIZE_MAX;
    v = jinja_list(r, (enum kind)a.kind, NULL, total);
    for (size_t i = 0; v.kind == a.kind && i < total; i++)
        v.items[i] = a.items[i % a.size];
    return v;
}

struct value jinja_calculate(struct rendering *r, enum operation op, struct value a, struct value b)
{
    static const char *const sign[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
    bool series_a = a.kind == STRING || jinja_is_sequence(a),
         series_b = b.kind == STRING || jinja_is_sequence(b);

    if (r->rc)
        return none;
    if (op == JOIN) /* a plain string, whatever its parts are */
        return jinja_join(r, jinja_to_string(r, a), jinja_to_string(r, b));
    if (jinja_is_integer(a) && jinja_is_integer(b))
        return calculate_integers(r, op, jinja_to_integer(a), jinja_to_integer(b));
    if (jinja_is_number(a) && jinja_is_number(b) && a.kind != FLOAT && b.kind != FLOAT && op != DIVIDE)
        return jinja_fail(r, "integers beyond 64 bits are not computed with");
    if (jinja_is_number(a) && jinja_is_number(b))
        return jinja_step(r, (a.kind == LARGE ? a.size / LARGE_STEP : 0) +
                                 (b.kind == LARGE ? b.size / LARGE_STEP : 0))
                   ? calculate_floats(r, op, jinja_to_float(a), jinja_to_float(b))
                   : none;
    if (op == MODULO && a.kind == STRING)
        return jinja_fail(r, "the operator %% on a string is not offered");
    if (a.kind == UNDEFINED || b.kind == UNDEFINED)
        return jinja_fail_undefined(r, a.kind == UNDEFINED ? a : b);
    if (op == ADD && a.kind == STRING && b.kind == STRING)
        return add_strings(r, a, b);
    if (op == ADD && jinja_is_sequence(a) && a.kind == b.kind)
        return add_lists(r, a, b);
    if (op == MULTIPLY && series_a && jinja_is_integer(b))
        return repeat(r, a, jinja_to_integer(b));
    if (op == MULTIPLY && series_b && jinja_is_integer(a))
        return repeat(r, b, jinja_to_integer(a));
    if (op == ADD && series_a)
        jinja_fail(r, "can only concatenate %s (not \"%s\") to %s", jinja_type(a), jinja_type(b),
                   jinja_type(a));
    else
        jinja_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", sign[op], jinja_type(a),
                   jinja_type(b));
    return none;
}

static struct value apply_sign(struct rendering *r, bool minus, struct value v)
{
    if (r->rc)
        return none;
    if (v.kind == UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.kind == FLOAT)
        return jinja_float(minus ? -v.number : v.number);
    if (v.kind == LARGE)
        return minus ? jinja_negative(r, v) : v;
    if (jinja_is_integer(v))
        return calculate_integers(r, minus ? SUBTRACT : ADD, 0, jinja_to_integer(v));
    return jinja_fail(r, "bad operand type for unary %c: '%s'", minus ? '-' : '+', jinja_type(v));
}

/* Calls */

/* The arguments of a call; CALLER, unless missing, is one more by that name. */
static bool evaluate_arguments(struct rendering *r, const struct call *c, struct value caller,
                               struct evaluated *e)
{
    size_t n = c->arguments.n, named = c->n_keywords, more = caller.kind != MISSING;
    struct value *values = e->few, list = missing, dict = missing;
    struct keyword *keywords = e->few_keywords;

    if (c->list && (list = jinja_to_list(r, jinja_evaluate(r, c->list))).kind == LIST)
        n += list.size;
    if (c->dict && (dict = jinja_evaluate(r, c->dict)).kind == DICT)
        more += dict.dict->count;
    else if (c->dict)
        jinja_fail(r, "argument after ** must be a mapping, not %s", jinja_type(dict));
    if (n > FEW)
        values = jinja_allocate_array(r, n, sizeof(*values));
    if (named + more > FEW)
        keywords = jinja_allocate_array(r, named + more, sizeof(*keywords));
    if (!values || !keywords || r->rc)
        return false;
    for (size_t i = 0; i < n; i++)
        values[i] =
            i < c->arguments.n ? jinja_evaluate(r, c->arguments.v[i]) : list.items[i - c->arguments.n];
    for (size_t i = 0; i < named; i++)
        keywords[i] = (struct keyword){c->keywords[i].name, jinja_evaluate(r, c->keywords[i].value)};
    for (uint32_t i = 0; dict.kind == DICT && i < dict.dict->count; i++) {
        if (dict.dict->pairs[i].key.kind != STRING)
            jinja_fail(r, "keywords must be strings");
        keywords[named++] = (struct keyword){dict.dict->pairs[i].key, dict.dict->pairs[i].value};
    }
    if (caller.kind != MISSING)
        keywords[named++] = (struct keyword){jinja_literal("caller"), caller};
    e->arguments = (struct arguments){values, n, keywords, named};
    return r->rc == 0;
}

static struct value apply(struct rendering *r, struct value callee, const struct arguments *a)
{
    switch ((enum kind)callee.kind) {
    case METHOD: return jinja_apply(r, callee.bound->row, callee.bound->self, a);
    case MACRO: return jinja_call_macro(r, callee.macro, a);
    case UNDEFINED: return jinja_fail_undefined(r, callee);
    case FUNCTION: return jinja_apply(r, callee.function, none, a);
    default: return jinja_fail(r, "'%s' object is not callable", jinja_type(callee));
    }
}

struct value jinja_evaluate_call(struct rendering *r, const struct node *n, struct value caller)
{
    const struct call *c = n->call;
    struct value of = jinja_evaluate(r, c->of);
    struct evaluated e;

    if (r->rc || !evaluate_arguments(r, c, caller, &e))
        return none;
    r->line = n->line;
    if (n->kind == CALL)
        return apply(r, of, &e.arguments);
    if (c->row)
        return jinja_apply(r, c->row, of, &e.arguments);
    return jinja_fail(r, "No %s named %s.", n->kind == FILTERED ? "filter" : "test", jinja_brief(r, c->name));
}

/* The other expressions */

static struct value evaluate_items(struct rendering *r, const struct node *n)
{
    struct value v = jinja_list(r, n->kind == LIST_OF ? LIST : TUPLE, NULL, n->items.n);

    for (size_t i = 0; !r->rc && i < n->items.n; i++)
        v.items[i] = jinja_evaluate(r, n->items.v[i]);
    return r->rc ? none : v;
}

static struct value evaluate_dict(struct rendering *r, const struct node *n)
{
    struct dict *d = jinja_dict(r);

    for (size_t i = 0; i + 1 < n->items.n && !r->rc; i += 2) {
        struct value key = jinja_evaluate(r, n->items.v[i]), v = jinja_evaluate(r, n->items.v[i + 1]);

        if (r->rc)
            break;
        r->line = n->line;
        jinja_dict_set(r, d, key, v);
    }
    return r->rc ? none : jinja_dict_value(d, DICT);
}

static struct value evaluate_comparison(struct rendering *r, const struct node *n)
{
    struct value left = jinja_evaluate(r, n->part[0]), right;

    for (const struct node *c = n; c; c = c->part[2]) {
        right = jinja_evaluate(r, c->part[1]);
        if (r->rc)
            return none;
        r->line = n->line;
        if (!jinja_compare(r, (enum comparison)c->op, left, right))
            return jinja_boolean(false);
        left = right;
    }
    return jinja_boolean(true);
}

static struct value evaluate_conditional(struct rendering *r, const struct node *n)
{
    const struct node *chosen = n->part[jinja_true(jinja_evaluate(r, n->part[0])) ? 1 : 2];

    if (!r->rc && chosen)
        return jinja_evaluate(r, chosen);
    return jinja_undefined("the inline if-expression evaluated to false and no else section was defined.");
}

/* Operators, subscripts, attributes and slices. */
static struct value evaluate_operands(struct rendering *r, const struct node *n)
{
    struct value v[4] = {none};

    for (int i = 0; i < 4 && n->part[i]; i++)
        v[i] = jinja_evaluate(r, n->part[i]);
    if (r->rc)
        return none;
    r->line = n->line;
    switch ((enum node_kind)n->kind) {
    case ELEMENT: return jinja_member(r, v[0], v[1], false);
    case ATTRIBUTE: return jinja_member(r, v[0], v[1], true);
    case SLICE: return jinja_slice(r, v[0], v[1], v[2], v[3]);
    case SIGN: return apply_sign(r, n->op == '-', v[0]);
    default: return jinja_calculate(r, (enum operation)n->op, v[0], v[1]);
    }
}

static struct value evaluate_logic(struct rendering *r, const struct node *n)
{
    struct value v = jinja_evaluate(r, n->part[0]);

    if (n->kind == NOT)
        return jinja_boolean(!jinja_true(v));
    return !r->rc && jinja_true(v) == (n->kind == AND) ? jinja_evaluate(r, n->part[1]) : v;
}

static struct value evaluate_tree(struct rendering *r, const struct node *n)
{
    switch ((enum node_kind)n->kind) {
    case NOT:
    case AND:
    case OR: return evaluate_logic(r, n);
    case ELEMENT:
    case ATTRIBUTE:
    case SIGN:
    case SLICE:
    case CALCULATION: return evaluate_operands(r, n);
    case TUPLE_OF:
    case LIST_OF: return evaluate_items(r, n);
    case DICT_OF: return evaluate_dict(r, n);
    case COMPARISON: return evaluate_comparison(r, n);
    case CONDITIONAL: return evaluate_conditional(r, n);
    case CALL:
    case FILTERED:
    case TESTED: return jinja_evaluate_call(r, n, missing);
    case BLOCK_TEXT: return r->block;
    default: break;
    }
    ASSERT(false, "node %d is no expression", n->kind);
    return none;
}

struct value jinja_evaluate(struct rendering *r, const struct node *n)
{
    struct value v;

    if (n->kind == CONSTANT)
        return n->constant;
    if (n->kind == VARIABLE) {
        v = jinja_variable(r, n->variable.number);
        return v.kind == MISSING ? jinja_undefined_name(n->variable.name) : v;
    }
    if (!jinja_step(r, 0) || !jinja_enter(r))
        return none;
    v = evaluate_tree(r, n);
    jinja_leave(r);
    return v;
}
