/* safetensors.c - reads a .safetensors file: eight bytes of header length, a JSON header, then the bytes of the
 * tensors.
 *
 * The whole header is checked before any tensor is used: dtypes are known, the byte range of a tensor has the size of
 * its shape and dtype, and the ranges cover the data without overlap or gap. Data is never copied. It may be unaligned,
 * because the format does not require alignment. Format: https://github.com/huggingface/safetensors (README, "Format").
 */
#include "ckpt/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/json/json_pull.h"
#include "ckpt/little_endian.h"
#include "ckpt/tensor_file.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

enum {
    LENGTH_BYTES = 8,
    MAX_HEADER_BYTES = 100 * 1000 * 1000
}; /* MAX_HEADER_BYTES: the limit of the reference implementation */

/* A tensor's entry in the header. */
struct entry {
    struct json_str name, dtype;
    struct view view;
    uint64_t begin, end;
    bool has_dtype, has_shape, has_offsets;
};

struct header {
    struct tensor_file *f;
    const char *data; /* the bytes of the tensors, after the header */
    size_t data_bytes;
    struct json_pull j;
    struct err *e;
};

static void read_shape(struct json_pull *j, struct view *v)
{
    uint64_t dim;

    for (json_pull_enter_array(j); json_pull_elem(j);) {
        if (v->n_dims == VIEW_MAX_DIMS) {
            json_pull_fail(j, "a shape has more than %d dimensions", VIEW_MAX_DIMS);
            return;
        }
        if (json_pull_u64(j, &dim))
            v->shape[v->n_dims++] = (size_t)dim;
    }
}

static void read_offsets(struct json_pull *j, struct entry *t)
{
    int n = 0;

    for (json_pull_enter_array(j); json_pull_elem(j); n++)
        if (!json_pull_u64(j, n == 0 ? &t->begin : &t->end))
            return;
    if (n != 2)
        json_pull_fail(j, "data_offsets has %d numbers, expected 2", n);
}

/* Reads an entry of the header into T. Errors stay in J. */
static void read_entry(struct json_pull *j, struct entry *t)
{
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        bool *seen = json_str_is(&key, "dtype")          ? &t->has_dtype
                     : json_str_is(&key, "shape")        ? &t->has_shape
                     : json_str_is(&key, "data_offsets") ? &t->has_offsets
                                                         : NULL;

        if (!seen) {
            json_pull_skip(j);
            continue;
        }
        if (*seen) {
            json_pull_fail(j, "%.*s appears twice in one tensor", (int)key.n, key.s);
            return;
        }
        *seen = true;
        if (seen == &t->has_dtype)
            json_pull_string(j, &t->dtype);
        else if (seen == &t->has_shape)
            read_shape(j, &t->view);
        else
            read_offsets(j, t);
    }
}

/* Returns the number of bytes of S that a message shows. */
static int shown_bytes(const struct json_str *s)
{
    return s->n < 200 ? (int)s->n : 200;
}

static int check_entry(struct header *h, struct entry *t)
{
    const char *path = h->f->path, *name = t->name.s;
    int n = shown_bytes(&t->name);
    size_t elements;
    char shape[256];

    if (!t->has_dtype || !t->has_shape || !t->has_offsets)
        return err_set(h->e, ERR_INPUT, "%s: tensor %.*s has no %s", path, n, name,
                       !t->has_dtype   ? "dtype"
                       : !t->has_shape ? "shape"
                                       : "data_offsets");
    if (!dtype_of_name(t->dtype.s, t->dtype.n, &t->view.dtype))
        return err_set(h->e, ERR_UNSUPPORTED, "%s: tensor %.*s has the unknown dtype %.*s", path, n, name,
                       t->dtype.n < 40 ? (int)t->dtype.n : 40, t->dtype.s);
    if (!tensor_file_elements(t->view.shape, t->view.n_dims, &elements))
        return err_set(h->e, ERR_INPUT,
                       "%s: tensor %.*s: its shape %s has more elements than an address can count", path, n,
                       name, view_shape_text(&t->view, shape, sizeof(shape)));
    if (t->end < t->begin || t->end > h->data_bytes)
        return err_set(h->e, ERR_INPUT,
                       "%s: tensor %.*s has the bytes %" PRIu64 "..%" PRIu64
                       ", the file has %zu bytes of data",
                       path, n, name, t->begin, t->end, h->data_bytes);
    if (t->end - t->begin != elements * dtype_bytes(t->view.dtype))
        return err_set(h->e, ERR_INPUT,
                       "%s: tensor %.*s has %" PRIu64 " bytes, its shape %s and dtype %s need %zu", path, n,
                       name, t->end - t->begin, view_shape_text(&t->view, shape, sizeof(shape)),
                       dtype_name(t->view.dtype), elements * dtype_bytes(t->view.dtype));
    view_set_contiguous(&t->view);
    t->view.data = h->data + t->begin;
    return tensor_file_add(h->f, name, t->name.n, t->view, h->e);
}

static int by_place(const void *a, const void *b)
{
    const struct view *x = a, *y = b;
    size_t nx, ny;

    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    nx = view_bytes(x);
    ny = view_bytes(y);
    return nx != ny ? (nx < ny ? -1 : 1) : 0; /* empty tensors come before the tensor at the same offset */
}

/* Checks that the sorted tensors cover the data from its first to its last byte. */
static int check_cover(const struct header *h)
{
    const char *at = h->data;

    for (size_t i = 0; i < h->f->n; i++) {
        const struct view *v = &h->f->tensor[i];

        if ((const char *)v->data < at)
            return err_set(h->e, ERR_INPUT, "%s: tensors %.300s and %.300s overlap", h->f->path, v[-1].name,
                           v->name);
        if ((const char *)v->data > at)
            return err_set(h->e, ERR_INPUT, "%s: %zu bytes before tensor %.300s belong to no tensor",
                           h->f->path, (size_t)((const char *)v->data - at), v->name);
        at += view_bytes(v);
    }
    if (at != h->data + h->data_bytes)
        return err_set(h->e, ERR_INPUT, "%s: the last %zu bytes of data belong to no tensor", h->f->path,
                       (size_t)(h->data + h->data_bytes - at));
    return 0;
}

static int read_header(struct header *h, const char *text, size_t len)
{
    struct json_pull *j = &h->j;
    struct json_str name;
    int rc;

    /* JSON errors do not name the file, so the path, and the tensor if any, is put before them here. */
    if ((rc = json_pull_open(j, text, len, NULL, &h->f->arena, h->e)) != 0)
        err_prefix(h->e, "%s", h->f->path);
    for (json_pull_enter_object(j); rc == 0 && json_pull_key(j, &name);) {
        struct entry t = {.name = name};

        if (json_str_is(&name, "__metadata__")) {
            json_pull_skip(j);
            continue;
        }
        read_entry(j, &t);
        if ((rc = json_pull_rc(j)) != 0)
            err_prefix(h->e, "%s: tensor %.*s", h->f->path, shown_bytes(&name), name.s);
        else
            rc = check_entry(h, &t);
    }
    if (rc == 0 && (rc = json_pull_finish(j)) != 0)
        err_prefix(h->e, "%s", h->f->path);
    return rc;
}

int safetensors_read(struct tensor_file *f, struct err *e)
{
    struct header h = {.f = f, .e = e};
    uint64_t len;
    int rc;

    f->kind = "safetensors";
    if (f->map.len < LENGTH_BYTES)
        return err_set(e, ERR_INPUT,
                       "%s: the file has %zu bytes, a safetensors file begins with %d bytes of header length",
                       f->path, f->map.len, LENGTH_BYTES);
    len = little_u64(f->map.bytes);
    if (len > f->map.len - LENGTH_BYTES)
        return err_set(e, ERR_INPUT,
                       "%s: the header should have %" PRIu64 " bytes, the file has %zu after the length",
                       f->path, len, f->map.len - LENGTH_BYTES);
    if (len > MAX_HEADER_BYTES)
        return err_set(e, ERR_INPUT, "%s: the header has %" PRIu64 " bytes, at most %d are allowed", f->path,
                       len, MAX_HEADER_BYTES);
    h.data = f->map.bytes + LENGTH_BYTES + len;
    h.data_bytes = f->map.len - LENGTH_BYTES - (size_t)len;
    if ((rc = read_header(&h, f->map.bytes + LENGTH_BYTES, (size_t)len)) != 0)
        return rc;
    if (f->n) /* qsort() needs a pointer even for no elements */
        qsort(f->tensor, f->n, sizeof(*f->tensor), by_place);
    if ((rc = tensor_file_seal(f, e)) != 0)
        return rc;
    return check_cover(&h);
}
