/* jinja_run.c - memory, limits and the sticky error of a rendering. */
#include "text/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void jinja_run_fail(struct jrun *r, const char *fmt, ...)
{
    char text[900];
    va_list ap;

    if (r->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    r->rc = err_set(r->e, ERR_INPUT, "%s line %u: %s", r->name, r->line, text);
}

void *jinja_run_alloc(struct jrun *r, size_t bytes)
{
    void *p;

    if (r->rc)
        return NULL;
    if (bytes > r->limit.bytes || r->bytes > r->limit.bytes - bytes) {
        jinja_run_fail(r, "the template needs more than the %zu bytes of memory it may use", r->limit.bytes);
        return NULL;
    }
    if (!jinja_run_step(r, bytes / 64))
        return NULL;
    p = arena_alloc(&r->arena, bytes);
    if (!p) {
        r->rc = err_nomem(r->e, "rendering a template");
        return NULL;
    }
    r->bytes += bytes;
    return p;
}

void *jinja_run_zalloc(struct jrun *r, size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (__builtin_mul_overflow(n, size, &bytes))
        bytes = SIZE_MAX;
    p = jinja_run_alloc(r, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

bool jinja_run_step(struct jrun *r, size_t cost)
{
    if (r->rc)
        return false;
    r->steps += 1 + (uint64_t)cost;
    if (r->steps > r->limit.steps) {
        jinja_run_fail(r, "the template takes more than the %llu steps it may take",
                       (unsigned long long)r->limit.steps);
        return false;
    }
    return true;
}

bool jinja_run_enter(struct jrun *r)
{
    if (r->rc)
        return false;
    if (r->depth >= r->limit.depth) {
        jinja_run_fail(r, "macros, values or expressions are nested deeper than %d levels", r->limit.depth);
        return false;
    }
    r->depth++;
    return true;
}

void jinja_run_leave(struct jrun *r)
{
    r->depth--;
}
