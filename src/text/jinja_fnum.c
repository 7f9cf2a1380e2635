/* jinja_fnum.c - int and float fall back on a default where Python raises ValueError or TypeError, and on
 * nothing else. */
#include "text/jinja_fnum.h"

#include <math.h>

#include "text/jinja_int.h"
#include "text/jinja_num.h"
#include "text/jinja_ops.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"

struct jv jinja_fnum_abs(struct jrun *r, struct jv v, const struct jargs *a)
{
    if (!jinja_args_bind(r, "abs", a, "", 0, NULL))
        return jv_none();
    if (jinja_num_is(v))
        return jinja_num_abs(r, v);
    jinja_run_fail(r, "bad operand type for abs(): '%s'", jinja_val_type(v));
    return jv_none();
}

struct jv jinja_fnum_int(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[2], out;
    int64_t base = 10;
    double f;

    if (!jinja_args_bind(r, "int", a, "default base", 0, p) || !jinja_args_index(r, "int", p[1], &base))
        return jv_none();
    if (jv_is(p[0], JV_MISSING))
        p[0] = jv_int(0);
    if (jv_is(v, JV_UNDEF))
        return jinja_val_undef_fail(r, v);
    if (jinja_num_is_int(v))
        return jv_is(v, JV_BOOL) ? jv_int(v.u.b) : v;
    if (jv_is(v, JV_FLOAT)) {
        if (isnan(v.u.f))
            return p[0];
        return jinja_num_truncate(r, v.u.f);
    }
    if (!jv_is(v, JV_STR))
        return p[0];
    if ((base == 0 || (base >= 2 && base <= 36)) &&
        jinja_num_parse_int(r, v.u.str->p, v.u.str->n, (unsigned)base, &out))
        return out;
    if (!r->rc && jinja_num_parse_float(v.u.str->p, v.u.str->n, &f) && isfinite(f))
        return jinja_num_truncate(r, f);
    return p[0];
}

struct jv jinja_fnum_float(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[1];
    double f;

    if (!jinja_args_bind(r, "float", a, "default", 0, p))
        return jv_none();
    if (jv_is(v, JV_UNDEF))
        return jinja_val_undef_fail(r, v);
    if (jinja_num_is(v)) {
        f = jinja_num_double(r, v);
        return jv_float(f);
    }
    if (jv_is(v, JV_STR) && jinja_num_parse_float(v.u.str->p, v.u.str->n, &f))
        return jv_float(f);
    return jv_is(p[0], JV_MISSING) ? jv_float(0) : p[0];
}

/* ceil or floor of v * 10^precision, over 10^precision. */
static struct jv round_towards(struct jrun *r, struct jv v, struct jv precision, bool up)
{
    struct jv unit = jinja_ops_binary(r, JOP_POW, jv_int(10), precision);
    struct jv scaled = jinja_ops_binary(r, JOP_MUL, v, unit);

    if (r->rc)
        return jv_none();
    if (jv_is(scaled, JV_FLOAT))
        scaled = jinja_num_truncate(r, up ? ceil(scaled.u.f) : floor(scaled.u.f));
    return jinja_ops_binary(r, JOP_DIV, scaled, unit);
}

struct jv jinja_fnum_round(struct jrun *r, struct jv v, const struct jargs *a)
{
    struct jv p[2];
    int64_t digits = 0;
    bool with_digits;

    if (!jinja_args_bind(r, "round", a, "precision method", 0, p))
        return jv_none();
    if (!jv_is(p[1], JV_MISSING) && !jinja_str_is(p[1], "common") && !jinja_str_is(p[1], "ceil") &&
        !jinja_str_is(p[1], "floor")) {
        jinja_run_fail(r, "method must be common, ceil or floor");
        return jv_none();
    }
    with_digits = !jv_is(p[0], JV_NONE);
    if (with_digits && !jinja_args_index(r, "round", p[0], &digits))
        return jv_none();
    if (jv_is(v, JV_UNDEF) || !jinja_num_is(v)) {
        jinja_run_fail(r, "type %s doesn't define __round__ method", jinja_val_type(v));
        return jv_none();
    }
    if (jinja_str_is(p[1], "ceil") || jinja_str_is(p[1], "floor"))
        return round_towards(r, v, jv_int(digits), jinja_str_is(p[1], "ceil"));
    return jinja_num_round(r, v, digits, with_digits);
}

struct jv jinja_fnum_filesizeformat(struct jrun *r, struct jv v, const struct jargs *a)
{
    static const char *const unit[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                           {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    struct jbuf b = {.r = r};
    struct jv p[1], f;
    double bytes, base, size;
    bool binary;
    int i = 0;

    if (!jinja_args_bind(r, "filesizeformat", a, "binary", 0, p))
        return jv_none();
    f = jinja_fnum_float(r, v, &(struct jargs){.n = 0});
    if (r->rc ||
        (!jinja_num_is(v) && !(jv_is(v, JV_STR) && jinja_num_parse_float(v.u.str->p, v.u.str->n, &bytes)))) {
        jinja_run_fail(r, "could not convert %s to float", jinja_repr_brief(r, v));
        return jv_none();
    }
    bytes = f.u.f;
    binary = jinja_args_true(p[0], false);
    base = binary ? 1024 : 1000;
    if (bytes == 1) {
        jinja_str_puts(&b, "1 Byte");
    } else if (bytes < base) {
        jinja_repr_put(&b, jinja_num_truncate(r, bytes));
        jinja_str_puts(&b, " Bytes");
    } else {
        for (size = base * base; i < 7 && bytes >= size; i++)
            size *= base;
        jinja_str_putf(&b, "%.1f %s", base * bytes / size, unit[binary][i]);
    }
    return jinja_str_done(&b);
}
