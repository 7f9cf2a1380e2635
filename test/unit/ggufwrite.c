/* ggufwrite.c - see ggufwrite.h. */
#include "ggufwrite.h"

#include "files.h"

#include "base/buf.h"

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

void ggufwrite_init(struct ggufwrite *w)
{
    *w = (struct ggufwrite){.version = 3, .alignment = 32};
    buf_init(&w->kv, MEM_BASE);
    buf_init(&w->info, MEM_BASE);
    buf_init(&w->data, MEM_BASE);
}

void ggufwrite_fini(struct ggufwrite *w)
{
    buf_fini(&w->kv);
    buf_fini(&w->info);
    buf_fini(&w->data);
}

static void add_str(struct buf *b, const char *s)
{
    uint64_t n = strlen(s);

    buf_add(b, &n, 8);
    buf_add(b, s, n);
}

void ggufwrite_key(struct ggufwrite *w, const char *key, uint32_t type)
{
    add_str(&w->kv, key);
    buf_add(&w->kv, &type, 4);
    w->n_kv++;
}

void ggufwrite_raw(struct ggufwrite *w, const void *bytes, size_t n)
{
    buf_add(&w->kv, bytes, n);
}

void ggufwrite_u32(struct ggufwrite *w, const char *key, uint32_t v)
{
    ggufwrite_key(w, key, U32);
    ggufwrite_raw(w, &v, 4);
}

void ggufwrite_f32(struct ggufwrite *w, const char *key, float v)
{
    ggufwrite_key(w, key, F32);
    ggufwrite_raw(w, &v, 4);
}

void ggufwrite_bool(struct ggufwrite *w, const char *key, int v)
{
    char byte = (char)v;

    ggufwrite_key(w, key, BOOL);
    ggufwrite_raw(w, &byte, 1);
}

void ggufwrite_str(struct ggufwrite *w, const char *key, const char *v)
{
    ggufwrite_key(w, key, STRING);
    add_str(&w->kv, v);
}

static void array(struct ggufwrite *w, const char *key, uint32_t type, uint64_t n)
{
    ggufwrite_key(w, key, ARRAY);
    ggufwrite_raw(w, &type, 4);
    ggufwrite_raw(w, &n, 8);
}

void ggufwrite_strs(struct ggufwrite *w, const char *key, const char *const *v, size_t n)
{
    array(w, key, STRING, n);
    for (size_t i = 0; i < n; i++)
        add_str(&w->kv, v[i]);
}

void ggufwrite_i32s(struct ggufwrite *w, const char *key, const int32_t *v, size_t n)
{
    array(w, key, I32, n);
    ggufwrite_raw(w, v, 4 * n);
}

void ggufwrite_f32s(struct ggufwrite *w, const char *key, const float *v, size_t n)
{
    array(w, key, F32, n);
    ggufwrite_raw(w, v, 4 * n);
}

void ggufwrite_info(struct ggufwrite *w, const char *name, uint32_t type, const uint64_t *dim,
                    uint32_t n_dims, uint64_t offset)
{
    add_str(&w->info, name);
    buf_add(&w->info, &n_dims, 4);
    for (uint32_t d = n_dims; d > 0; d--)
        buf_add(&w->info, &dim[d - 1], 8);
    buf_add(&w->info, &type, 4);
    buf_add(&w->info, &offset, 8);
    w->n_tensors++;
}

void ggufwrite_tensor(struct ggufwrite *w, const char *name, uint32_t type, const size_t *dim,
                      const void *bytes, size_t len)
{
    uint64_t wide[8];
    uint32_t n = 0;

    for (; dim[n]; n++)
        wide[n] = dim[n];
    while (w->data.len % w->alignment)
        buf_char(&w->data, 0);
    ggufwrite_info(w, name, type, wide, n, w->data.len);
    for (size_t i = 0; !bytes && i < len; i++)
        buf_char(&w->data, 0);
    if (bytes)
        buf_add(&w->data, bytes, len);
}

void ggufwrite_f32_tensor(struct ggufwrite *w, const char *name, const size_t *dim, const float *v)
{
    struct buf values;
    size_t n = 1;

    for (size_t d = 0; dim[d]; d++)
        n *= dim[d];
    buf_init(&values, MEM_BASE);
    for (size_t i = 0; i < n; i++) {
        float x = v ? v[i] : 0.01f * (float)i;

        buf_add(&values, &x, 4);
    }
    ggufwrite_tensor(w, name, 0, dim, values.data, values.len);
    buf_fini(&values);
}

void ggufwrite_finish(const struct ggufwrite *w, struct buf *out)
{
    size_t start = out->len;

    buf_add(out, "GGUF", 4);
    buf_add(out, &w->version, 4);
    buf_add(out, &w->n_tensors, 8);
    buf_add(out, &w->n_kv, 8);
    if (w->kv.len)
        buf_add(out, w->kv.data, w->kv.len);
    if (w->info.len)
        buf_add(out, w->info.data, w->info.len);
    while ((out->len - start) % w->alignment)
        buf_char(out, 0);
    if (w->data.len)
        buf_add(out, w->data.data, w->data.len);
    if (out->oom)
        abort();
}

void ggufwrite_file(const struct ggufwrite *w, const char *dir, const char *name)
{
    struct buf b;

    buf_init(&b, MEM_BASE);
    ggufwrite_finish(w, &b);
    files_write_in(dir, name, b.data, b.len);
    buf_fini(&b);
}
