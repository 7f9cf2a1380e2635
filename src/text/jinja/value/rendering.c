/* rendering.c - counts the steps, memory and nesting of a rendering, and keeps its first error. */
#include "text/jinja/value/rendering.h"

#include <string.h>

#include "base/arena.h"

struct value jinja_fail(struct rendering *r, const char *format, ...)
{
    ERR_SENTENCE(text, format);

    if (r->rc)
        return value_none;
    /* messages of raise_exception() and of filters may repeat variables */
    r->rc = err_quote(r->e, ERR_INPUT, text, "%s line %u", r->name, r->line);
    return value_none;
}

bool jinja_step(struct rendering *r, size_t cost)
{
    if (r->rc)
        return false;
    r->steps += 1 + (uint64_t)cost;
    if (r->steps <= r->limit.steps)
        return true;
    jinja_fail(r, "the template exceeds the limit of %llu steps", (unsigned long long)r->limit.steps);
    return false;
}

bool jinja_enter(struct rendering *r)
{
    if (r->rc)
        return false;
    if (r->depth >= r->limit.depth) {
        jinja_fail(r, "macros, values or expressions are nested deeper than %d levels", r->limit.depth);
        return false;
    }
    r->depth++;
    return true;
}

void jinja_leave(struct rendering *r)
{
    r->depth--;
}

bool jinja_charge(struct rendering *r, size_t bytes)
{
    size_t cost = (bytes | 15) + 1; /* the arena may round up to 16 bytes */

    if (r->rc)
        return false;
    if (cost < bytes || cost > r->limit.bytes || r->bytes > r->limit.bytes - cost) {
        jinja_fail(r, "the template exceeds the limit of %zu bytes of memory", r->limit.bytes);
        return false;
    }
    if (!jinja_step(r, bytes / 64))
        return false;
    r->bytes += cost;
    return true;
}

void *jinja_allocate(struct rendering *r, size_t bytes)
{
    void *p = jinja_charge(r, bytes) ? arena_alloc(&r->arena, bytes) : NULL;

    if (!p && !r->rc)
        r->rc = err_nomem(r->e, "rendering a template");
    return p;
}

void *jinja_allocate_array(struct rendering *r, size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (__builtin_mul_overflow(n, size, &bytes))
        bytes = SIZE_MAX;
    p = jinja_allocate(r, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *jinja_room(struct rendering *r, void *v, size_t n, size_t *room, size_t size)
{
    size_t twice = *room ? 2 * *room : 4;
    void *grown;

    if (n < *room)
        return v;
    grown = jinja_allocate(r, twice * size);
    if (!grown)
        return NULL;
    if (n)
        memcpy(grown, v, n * size);
    *room = twice;
    return grown;
}
