/* origin.c - stores strings in chunks with an origin byte for each byte. */
#include "text/jinja/value/origin.h"

#include <string.h>

#include "text/jinja/value/rendering.h"

enum { FIRST_CHUNK = 64 << 10 };

/* Returns the chunk that contains the byte AT, or NULL. */
static struct origin_chunk *chunk_of(const struct rendering *r, const char *at)
{
    struct origin_map *o = r->origins;

    for (size_t i = o ? o->n : 0; i-- > 0;)
        if ((uintptr_t)at >= (uintptr_t)o->chunk[i].bytes &&
            (uintptr_t)at < (uintptr_t)o->chunk[i].bytes + o->chunk[i].room)
            return &o->chunk[i];
    return NULL;
}

static struct origin_chunk *add_chunk(struct rendering *r, size_t least)
{
    struct origin_map *o = r->origins;
    size_t room = o->n ? 2 * o->chunk[o->n - 1].room : FIRST_CHUNK;
    struct origin_chunk *c = &o->chunk[o->n];

    room = room < least ? least : room;
    *c = (struct origin_chunk){.bytes = mem_zalloc(2, room, MEM_TEXT), .room = room};
    if (!c->bytes || o->n == ORIGIN_CHUNKS - 1) {
        mem_free(c->bytes);
        r->rc = err_nomem(r->e, "rendering a template");
        return NULL;
    }
    c->origin = c->bytes + room;
    o->n++;
    return c;
}

char *jinja_allocate_text(struct rendering *r, size_t n)
{
    struct origin_map *o = r->origins;
    struct origin_chunk *c;

    if (!o)
        return jinja_allocate(r, n);
    if (!jinja_charge(r, n))
        return NULL;
    c = o->n ? &o->chunk[o->n - 1] : NULL;
    if ((!c || n > c->room - c->used) && !(c = add_chunk(r, n + !n)))
        return NULL;
    c->used += n;
    return c->bytes + c->used - n;
}

void jinja_copy(struct rendering *r, char *to, const char *from, size_t n, char otherwise)
{
    struct origin_chunk *c = n ? chunk_of(r, to) : NULL;
    const struct origin_chunk *of = c ? chunk_of(r, from) : NULL;

    if (n)
        memcpy(to, from, n);
    if (of)
        memcpy(c->origin + (to - c->bytes), of->origin + (from - of->bytes), n);
    else if (c)
        memset(c->origin + (to - c->bytes), otherwise, n);
}

char jinja_origin(const struct rendering *r, const char *at)
{
    const struct origin_chunk *c = chunk_of(r, at);

    return c ? c->origin[at - c->bytes] : 0;
}

struct value jinja_from_context(struct rendering *r, struct value s)
{
    char *copy;

    if (!r->origins || r->origins->trusted)
        return s;
    copy = jinja_allocate_text(r, s.size);
    if (!copy)
        return jinja_literal("");
    jinja_copy(r, copy, s.bytes, s.size, 1);
    s.bytes = copy;
    return s;
}

void jinja_origins_fini(struct origin_map *o)
{
    for (size_t i = 0; i < o->n; i++)
        mem_free(o->chunk[i].bytes);
    o->n = 0;
}
