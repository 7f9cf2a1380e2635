/* calculate.c - Python's arithmetic, on 64-bit integers.
 *
 * An integer beyond 64 bits or a complex number as the result is an error.
 */
#include "text/jinja/value/calculate.h"

#include <math.h>
#include <string.h>

#include "text/jinja/value/print.h"
#include "text/jinja/value/rendering.h"
#include "text/jinja/value/text.h"

/* Computes a // b or (REMAINDER) a % b as CPython's float_divmod(): the remainder has the sign of B. */
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
            r, "a negative number to a fractional power is complex; complex numbers are not supported");
    f = pow(a, b);
    if (isinf(f) && isfinite(a) && isfinite(b))
        return jinja_fail(r, "the result of ** is too large for a float");
    return jinja_float(f);
}

static struct value calculate_floats(struct rendering *r, enum calculate_op op, double a, double b)
{
    switch (op) {
    case CALCULATE_ADD: return jinja_float(a + b);
    case CALCULATE_SUBTRACT: return jinja_float(a - b);
    case CALCULATE_MULTIPLY: return jinja_float(a * b);
    case CALCULATE_POWER: return raise_float(r, a, b);
    default: break;
    }
    if (b == 0)
        return jinja_fail(r, op == CALCULATE_DIVIDE         ? "float division by zero"
                             : op == CALCULATE_FLOOR_DIVIDE ? "float floor division by zero"
                                                            : "float modulo");
    return op == CALCULATE_DIVIDE ? jinja_float(a / b) : divide_floats(a, b, op == CALCULATE_MODULO);
}

/* Raises A to the power of B, which is not negative. Returns true if the result has more than 64 bits. */
static bool raise_integer(int64_t a, int64_t b, int64_t *out)
{
    bool over = false;

    if (a >= -1 && a <= 1 && b > 3) /* other bases overflow after at most 63 iterations */
        b = 2 + (b & 1);
    for (*out = 1; b > 0 && !over; b--)
        over = __builtin_mul_overflow(*out, a, out);
    return over;
}

static struct value divide_integers(struct rendering *r, enum calculate_op op, int64_t a, int64_t b)
{
    int64_t q, m;

    if (b == 0)
        return jinja_fail(r,
                          op == CALCULATE_DIVIDE ? "division by zero" : "integer division or modulo by zero");
    /* Long double holds both operands exactly, so the quotient is rounded only once. */
    if (op == CALCULATE_DIVIDE)
        return jinja_float((double)((long double)a / (long double)b));
    if (b == -1) {
        if (op == CALCULATE_MODULO)
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
    return jinja_integer(op == CALCULATE_MODULO ? m : q);
}

static struct value calculate_integers(struct rendering *r, enum calculate_op op, int64_t a, int64_t b)
{
    bool over = false;
    int64_t out = 0;

    switch (op) {
    case CALCULATE_ADD: over = __builtin_add_overflow(a, b, &out); break;
    case CALCULATE_SUBTRACT: over = __builtin_sub_overflow(a, b, &out); break;
    case CALCULATE_MULTIPLY: over = __builtin_mul_overflow(a, b, &out); break;
    case CALCULATE_POWER:
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
    bool escaped = a.mark == VALUE_ESCAPED || b.mark == VALUE_ESCAPED;
    struct value v;

    if (escaped) {
        a = jinja_escape(r, a);
        b = jinja_escape(r, b);
    }
    v = r->rc ? value_none : jinja_join(r, a, b);
    if (v.kind == VALUE_STRING)
        v.mark = escaped ? VALUE_ESCAPED : VALUE_PLAIN;
    return v;
}

static struct value add_lists(struct rendering *r, struct value a, struct value b)
{
    size_t n = a.size, m = b.size;
    struct value v = jinja_list(r, (enum value_kind)a.kind, NULL, n + m);

    if (r->rc)
        return v;
    memcpy(v.items, a.items, n * sizeof(v));
    memcpy(v.items + n, b.items, m * sizeof(v));
    return v;
}

/* Repeats a string, list or tuple. */
static struct value repeat(struct rendering *r, struct value a, int64_t times)
{
    size_t n = times > 0 ? (size_t)times : 0, total;
    struct text t = {.r = r};
    struct value v;

    if (a.kind == VALUE_STRING) {
        jinja_put_times(&t, a, n);
        v = jinja_finish(&t);
        v.mark = v.kind == VALUE_STRING ? a.mark : VALUE_PLAIN;
        return v;
    }
    if (__builtin_mul_overflow(a.size, n, &total))
        total = SIZE_MAX;
    v = jinja_list(r, (enum value_kind)a.kind, NULL, total);
    for (size_t i = 0; v.kind == a.kind && i < total; i++)
        v.items[i] = a.items[i % a.size];
    return v;
}

struct value jinja_calculate(struct rendering *r, enum calculate_op op, struct value a, struct value b)
{
    static const char *const sign[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
    bool series_a = a.kind == VALUE_STRING || jinja_is_sequence(a),
         series_b = b.kind == VALUE_STRING || jinja_is_sequence(b);

    if (r->rc)
        return value_none;
    if (op == CALCULATE_JOIN) /* ~ gives a plain string even if an operand is escaped */
        return jinja_join(r, jinja_to_string(r, a), jinja_to_string(r, b));
    if (jinja_is_integer(a) && jinja_is_integer(b))
        return calculate_integers(r, op, jinja_to_integer(a), jinja_to_integer(b));
    if (jinja_is_number(a) && jinja_is_number(b) && a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT &&
        op != CALCULATE_DIVIDE)
        return jinja_fail(r, "arithmetic on integers beyond 64 bits is not supported");
    if (jinja_is_number(a) && jinja_is_number(b))
        return jinja_step(r, (a.kind == VALUE_LARGE ? a.size / VALUE_LARGE_STEP : 0) +
                                 (b.kind == VALUE_LARGE ? b.size / VALUE_LARGE_STEP : 0))
                   ? calculate_floats(r, op, jinja_to_float(a), jinja_to_float(b))
                   : value_none;
    if (op == CALCULATE_MODULO && a.kind == VALUE_STRING)
        return jinja_fail(r, "the operator %% on a string is not supported");
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, a.kind == VALUE_UNDEFINED ? a : b);
    if (op == CALCULATE_ADD && a.kind == VALUE_STRING && b.kind == VALUE_STRING)
        return add_strings(r, a, b);
    if (op == CALCULATE_ADD && jinja_is_sequence(a) && a.kind == b.kind)
        return add_lists(r, a, b);
    if (op == CALCULATE_MULTIPLY && series_a && jinja_is_integer(b))
        return repeat(r, a, jinja_to_integer(b));
    if (op == CALCULATE_MULTIPLY && series_b && jinja_is_integer(a))
        return repeat(r, b, jinja_to_integer(a));
    if (op == CALCULATE_ADD && series_a)
        jinja_fail(r, "can only concatenate %s (not \"%s\") to %s", jinja_type(a), jinja_type(b),
                   jinja_type(a));
    else
        jinja_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", sign[op], jinja_type(a),
                   jinja_type(b));
    return value_none;
}

struct value jinja_apply_sign(struct rendering *r, bool minus, struct value v)
{
    if (r->rc)
        return value_none;
    if (v.kind == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.kind == VALUE_FLOAT)
        return jinja_float(minus ? -v.number : v.number);
    if (v.kind == VALUE_LARGE)
        return minus ? jinja_negative(r, v) : v;
    if (jinja_is_integer(v))
        return calculate_integers(r, minus ? CALCULATE_SUBTRACT : CALCULATE_ADD, 0, jinja_to_integer(v));
    return jinja_fail(r, "bad operand type for unary %c: '%s'", minus ? '-' : '+', jinja_type(v));
}
