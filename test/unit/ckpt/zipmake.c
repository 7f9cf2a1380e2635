/* zipmake.c - see zipmake.h. */
#include "zipmake.h"

#include "base/buf.h"

static void put(struct buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_char(b, (char)(v >> (8 * i)));
}

static void put_local(struct buf *b, const struct zipmake_member *m)
{
    const char *name = m->local_name ? m->local_name : m->name;

    put(b, 0x04034b50, 4);
    put(b, 20, 2);
    put(b, m->flags, 2);
    put(b, m->method, 2);
    put(b, 0, 8);
    put(b, m->bytes, 4);
    put(b, m->bytes, 4);
    put(b, strlen(name), 2);
    put(b, 3, 2);
    buf_str(b, name);
    buf_add(b, "pad", 3);
    buf_add(b, m->data, m->bytes);
}

static void put_central(struct buf *b, const struct zipmake_member *m, size_t at)
{
    put(b, 0x02014b50, 4);
    put(b, 20, 2);
    put(b, 20, 2);
    put(b, m->flags, 2);
    put(b, m->method, 2);
    put(b, 0, 8);
    put(b, m->bytes + m->more_bytes, 4);
    put(b, m->bytes + m->more_bytes + m->more_unpacked, 4);
    put(b, strlen(m->name), 2);
    put(b, 0, 2);
    put(b, 0, 2);
    put(b, 0, 8);
    put(b, m->local_at ? m->local_at : at, 4);
    buf_str(b, m->name);
}

void zipmake(struct buf *b, const struct zipmake_member *member, size_t n, const struct zipmake_end *end)
{
    static const struct zipmake_end right;
    size_t at[16], dir;

    end = end ? end : &right;
    for (size_t i = 0; i < n; i++) {
        at[i] = b->len;
        put_local(b, &member[i]);
    }
    dir = b->len;
    for (size_t i = 0; i < n; i++)
        put_central(b, &member[i], at[i]);
    put(b, 0x06054b50, 4);
    put(b, end->disk, 2);
    put(b, 0, 2);
    put(b, n, 2);
    put(b, n + (size_t)end->more_members, 2);
    put(b, b->len - dir - 12, 4);
    put(b, end->dir_at ? end->dir_at : dir, 4);
    put(b, end->comment ? strlen(end->comment) : 0, 2);
    if (end->comment)
        buf_str(b, end->comment);
}
