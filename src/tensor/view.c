/* view.c - arithmetic on shapes and strides. */
#include "tensor/view.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "tensor/quant.h"

size_t view_elements(const struct view *v)
{
    size_t n = 1;

    for (int d = 0; d < v->n_dims; d++)
        n *= v->shape[d];
    return n;
}

size_t view_bytes(const struct view *v)
{
    return view_elements(v) / dtype_group(v->dtype) * dtype_bytes(v->dtype);
}

size_t view_span_bytes(const struct view *v)
{
    size_t last = 0, group = dtype_group(v->dtype);

    if (view_elements(v) == 0)
        return 0;
    for (int d = 0; d < v->n_dims; d++)
        last += (v->shape[d] - 1) * v->stride[d];
    return (last / group + 1) * dtype_bytes(v->dtype);
}

void view_set_contiguous(struct view *v)
{
    size_t n = 1;

    for (int d = v->n_dims - 1; d >= 0; d--) {
        v->stride[d] = n;
        n *= v->shape[d];
    }
}

bool view_is_contiguous(const struct view *v)
{
    size_t n = 1;

    if (view_elements(v) == 0)
        return true;
    if (v->zipped)
        return false;
    for (int d = v->n_dims - 1; d >= 0; d--) {
        if (v->shape[d] != 1 && v->stride[d] != n)
            return false;
        n *= v->shape[d];
    }
    return true;
}

struct view view_transposed(const struct view *v)
{
    struct view t = *v;

    t.shape[0] = v->shape[1];
    t.shape[1] = v->shape[0];
    t.stride[0] = v->stride[1];
    t.stride[1] = v->stride[0];
    return t;
}

/* Returns the address of the element that is stored AT elements after the first element of V. */
static const void *address_of(const struct view *v, size_t at)
{
    ASSERT(at % dtype_group(v->dtype) == 0, "%s", v->name);
    return (const char *)v->data + at / dtype_group(v->dtype) * dtype_bytes(v->dtype);
}

struct view view_at(const struct view *v, size_t i)
{
    struct view t = *v;

    ASSERT(v->n_dims > 0 && i < v->shape[0] && !v->zipped, "%s", v->name);
    t.data = address_of(v, i * v->stride[0]);
    t.n_dims--;
    memmove(t.shape, t.shape + 1, sizeof(t.shape) - sizeof(t.shape[0]));
    memmove(t.stride, t.stride + 1, sizeof(t.stride) - sizeof(t.stride[0]));
    return t;
}

struct view view_slice(const struct view *v, size_t first, size_t step, size_t n)
{
    struct view t = *v;

    ASSERT(v->n_dims > 0 && n > 0 && first + (n - 1) * step < v->shape[0] && !v->zipped, "%s", v->name);
    t.data = address_of(v, first * v->stride[0]);
    t.shape[0] = n;
    t.stride[0] *= step;
    return t;
}

const char *view_shape_text(const struct view *v, char *out, size_t size)
{
    size_t at = 0;

    if (size)
        out[0] = 0;
    at += (size_t)snprintf(out, size, "[");
    for (int d = 0; d < v->n_dims && at < size; d++)
        at += (size_t)snprintf(out + at, size - at, d ? ", %zu" : "%zu", v->shape[d]);
    if (at < size)
        snprintf(out + at, size - at, "]");
    return out;
}

/* Returns the index at which index I of dimension 0 is stored if the dimension is zipped in runs of RUN
 * (view.zipped). */
static size_t unzip(size_t i, size_t run)
{
    size_t half = run / 2, at = i % run;

    return i - at + at % half * 2 + at / half;
}

size_t view_stored_row(const struct view *v, size_t i)
{
    return v->zipped ? unzip(i, v->zipped) : i;
}

/* Converts N elements, beginning AT elements after the first and STRIDE elements apart, to fp32. */
static void read_elements(const struct view *v, size_t at, size_t stride, size_t n, float *dst)
{
    if (!dtype_is_grouped(v->dtype))
        dtype_to_f32(dst, (const char *)v->data + at * dtype_bytes(v->dtype), v->dtype, n, stride);
    else if (stride == 1)
        quant_to_f32(dst, v->data, v->dtype, at, n);
    else
        for (size_t i = 0; i < n; i++)
            quant_to_f32(dst + i, v->data, v->dtype, at + i * stride, 1);
}

void view_part_f32(const struct view *v, size_t r, size_t k0, size_t n, float *dst)
{
    ASSERT(v->n_dims <= 2, "%s", v->name);
    if (v->n_dims == 0)
        read_elements(v, 0, 1, n, dst);
    else if (v->n_dims == 2)
        read_elements(v, view_stored_row(v, r) * v->stride[0] + k0 * v->stride[1], v->stride[1], n, dst);
    else if (!v->zipped)
        read_elements(v, k0 * v->stride[0], v->stride[0], n, dst);
    else
        for (size_t i = 0; i < n; i++)
            read_elements(v, unzip(k0 + i, v->zipped) * v->stride[0], 1, 1, dst + i);
}

void view_row_f32(const struct view *v, size_t r, float *dst)
{
    view_part_f32(v, r, 0, v->n_dims ? v->shape[v->n_dims - 1] : 1, dst);
}
