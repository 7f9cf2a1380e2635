/* ggufmake.c - getters and setters with one sticky error. */
#include "ckpt/ggufmake.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const char *full(const struct ggufmake *m, const char *key, char *out, size_t size)
{
    snprintf(out, size, "%s.%s", m->a->name, key);
    return out;
}

void ggufmake_fail(struct ggufmake *m, int code, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (m->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    m->rc = err_set(m->e, code, "%s: %s", m->s->part[0].path, text);
}

int64_t ggufmake_int(struct ggufmake *m, const char *key, int64_t def, int64_t lo, int64_t hi)
{
    int64_t v = 0;

    if (m->rc == 0)
        m->rc = ggufarch_int(m->a, m->s, key, def, lo, hi, &v, m->e);
    return m->rc ? 0 : v;
}

int64_t ggufmake_need(struct ggufmake *m, const char *key, int64_t hi)
{
    int64_t v = ggufmake_int(m, key, 0, 1, hi);

    if (v == 0)
        ggufmake_fail(m, ERR_INPUT, "%s.%s is missing", m->a->name, key);
    return v;
}

double ggufmake_float(struct ggufmake *m, const char *key, double def)
{
    char name[96];
    double v = 0;

    if (m->rc == 0)
        m->rc = gguf_float(&m->s->part[0], full(m, key, name, sizeof(name)), def, &v, m->e);
    return m->rc ? 0 : v;
}

bool ggufmake_has(struct ggufmake *m, const char *key)
{
    char name[96];

    return gguf_get(&m->s->part[0], full(m, key, name, sizeof(name))) != NULL;
}

struct jp_str ggufmake_text(struct ggufmake *m, const char *key)
{
    struct jp_str v = {.s = NULL};
    char name[96];

    if (m->rc == 0)
        m->rc = gguf_text(&m->s->part[0], full(m, key, name, sizeof(name)), &v, m->e);
    return v;
}

void ggufmake_put(struct ggufmake *m, const char *key, json_t *v)
{
    if (m->rc)
        json_decref(v);
    else if (json_object_set_new(m->o, key, v) != 0)
        m->rc = err_nomem(m->e, "a config");
}

void ggufmake_put_int(struct ggufmake *m, const char *key, int64_t v)
{
    ggufmake_put(m, key, json_integer(v));
}

void ggufmake_put_float(struct ggufmake *m, const char *key, double v)
{
    ggufmake_put(m, key, json_real(v));
}

void ggufmake_put_bool(struct ggufmake *m, const char *key, bool v)
{
    ggufmake_put(m, key, json_boolean(v));
}

void ggufmake_put_str(struct ggufmake *m, const char *key, const char *v)
{
    ggufmake_put(m, key, json_string(v));
}
