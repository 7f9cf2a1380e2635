/* spmproto.c - https://protobuf.dev/programming-guides/encoding/; groups (wire 3 and 4) are refused. */
#include "text/spmproto.h"

#include <string.h>

static bool varint(struct spmproto *m, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; shift < 64 && m->p < m->end; shift += 7) {
        unsigned char b = (unsigned char)*m->p++;

        *v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return true;
    }
    return false;
}

static bool fixed(struct spmproto *m, size_t n, uint64_t *v)
{
    *v = 0;
    if ((size_t)(m->end - m->p) < n)
        return false;
    memcpy(v, m->p, n); /* little endian, like the machine */
    m->p += n;
    return true;
}

static bool read_field(struct spmproto *m, struct spmproto_field *f)
{
    uint64_t key, n;

    if (!varint(m, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return false;
    *f = (struct spmproto_field){.number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7)};
    switch (f->wire) {
    case 0: return varint(m, &f->value);
    case 1: return fixed(m, 8, &f->value);
    case 5: return fixed(m, 4, &f->value);
    case 2:
        if (!varint(m, &n) || n > (uint64_t)(m->end - m->p))
            return false;
        f->s = m->p;
        f->n = (size_t)n;
        m->p += n;
        return true;
    default: return false;
    }
}

bool spmproto_next(struct spmproto *m, struct spmproto_field *f)
{
    if (m->bad || m->p == m->end)
        return false;
    m->bad = !read_field(m, f);
    return !m->bad;
}

float spmproto_float(const struct spmproto_field *f)
{
    uint32_t bits = (uint32_t)f->value;
    float v;

    memcpy(&v, &bits, 4);
    return v;
}
