/* param_json.c - reads the values of parameters from JSON, and describes JSON values in errors. */
#include "base/param/param_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json_tree.h"
#include "base/param/param.h"

const char *param_found(const json_t *v, char out[PARAM_FOUND_BYTES])
{
    const char *digits;
    size_t n;

    switch (json_typeof(v)) {
    case JSON_OBJECT:
        if (!(digits = json_large_text(v, &n)))
            return "an object";
        snprintf(out, PARAM_FOUND_BYTES, "%.30s", digits);
        return out;
    case JSON_ARRAY: return json_array_size(v) ? "a list" : "an empty list";
    case JSON_STRING: return json_string_length(v) ? "a string" : "an empty string";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    case JSON_INTEGER: snprintf(out, PARAM_FOUND_BYTES, "%lld", (long long)json_integer_value(v)); return out;
    default: json_real_text(json_real_value(v), out); return out;
    }
}

bool param_whole(const json_t *v, int64_t *out)
{
    double x = json_real_value(v);

    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    if (!json_is_real(v) || x != floor(x) || fabs(x) > 9007199254740992.0)
        return false;
    *out = (int64_t)x;
    return true;
}

/* Converts V to *OUT, whose text is borrowed from V. Returns false if it is not a value of P. */
static bool value_of(const struct param *p, const json_t *v, struct param_value *out)
{
    uint64_t bits = 0;

    switch (p->type) {
    case PARAM_FLAG: out->i = json_is_true(v); return json_is_boolean(v);
    case PARAM_INT: return param_whole(v, &out->i) && param_in_range(p->values, (double)out->i);
    case PARAM_BITS:
        if (!json_bits(v, &bits))
            return param_whole(v, &out->i);
        out->i = (int64_t)bits;
        return true;
    case PARAM_REAL:
        out->f = json_number_value(v);
        return json_is_number(v) && param_in_range(p->values, out->f);
    default:
        out->text = json_string_value(v);
        if (json_is_boolean(v) && p->type == PARAM_CHOICE)
            out->text = json_is_true(v) ? "true" : "false";
        if (!out->text || strlen(out->text) < json_string_length(v)) /* a NUL in the text */
            return false;
        out->i = p->type == PARAM_CHOICE ? param_index(p->values, out->text, strlen(out->text)) : 0;
        return out->i >= 0;
    }
}

int param_read_json(const struct param *p, const json_t *v, void *into, struct arena *a, struct err *e)
{
    char found[PARAM_FOUND_BYTES], expected[160];
    struct param_value value = {0};

    if (!value_of(p, v, &value))
        return err_about(e, ERR_INPUT, p->name, "found %s, expected %s",
                         p->type == PARAM_TEXT && json_is_string(v) ? "a NUL character in a string"
                                                                    : param_found(v, found),
                         param_expected(p, expected, sizeof(expected)));
    if (p->into.kind == PARAM_TO_TEXT && !(value.text = arena_strndup(a, value.text, strlen(value.text))))
        return err_nomem(e, p->name);
    param_store(p, &value, into);
    return 0;
}
