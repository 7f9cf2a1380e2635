/* arena.c - allocates chunks of 4 KiB to 1 MiB, doubling each time; larger allocations get own chunks. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

enum { FIRST_BYTES = 4096, LARGEST_BYTES = 1 << 20 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t bytes; /* bytes of data[] */
    _Alignas(16) char data[];
};

void arena_init(struct arena *a, enum mem_tag tag)
{
    *a = (struct arena){.tag = tag};
}

static int add_chunk(struct arena *a, size_t need)
{
    size_t bytes = a->chunk ? a->chunk->bytes * 2 : FIRST_BYTES;
    struct arena_chunk *c;

    if (bytes > LARGEST_BYTES)
        bytes = LARGEST_BYTES;
    if (bytes < need)
        bytes = need;
    if (bytes > SIZE_MAX - sizeof(*c))
        return -1;
    c = mem_alloc(sizeof(*c) + bytes, a->tag);
    if (!c)
        return -1;
    c->next = a->chunk;
    c->bytes = bytes;
    a->chunk = c;
    a->used = 0;
    return 0;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    size_t need = (bytes + 15) & ~(size_t)15;
    void *p;

    if (need < bytes)
        return NULL;
    if ((!a->chunk || a->chunk->bytes - a->used < need) && add_chunk(a, need) != 0)
        return NULL;
    p = a->chunk->data + a->used;
    a->used += need;
    return p;
}

void *arena_zalloc(struct arena *a, size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (__builtin_mul_overflow(n, size, &bytes))
        return NULL;
    p = arena_alloc(a, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *d = n < SIZE_MAX ? arena_alloc(a, n + 1) : NULL;

    if (d) {
        memcpy(d, s, n);
        d[n] = 0;
    }
    return d;
}

void arena_fini(struct arena *a)
{
    while (a->chunk) {
        struct arena_chunk *next = a->chunk->next;
        mem_free(a->chunk);
        a->chunk = next;
    }
    a->used = 0;
}
