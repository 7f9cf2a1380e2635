/* view.c - arithmetic on shapes and strides. */
#include "tensor/view.h"

#include <stdio.h>

size_t view_elements(const struct view *v)
{
    size_t n = 1;

    for (int d = 0; d < v->n_dims; d++)
        n *= v->shape[d];
    return n;
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

void view_row_f32(const struct view *v, size_t r, float *dst)
{
    int last = v->n_dims - 1;
    const char *row = v->data;

    if (last < 0) {
        dtype_to_f32(dst, row, v->dtype, 1, 1);
        return;
    }
    if (last > 0)
        row += r * v->stride[0] * dtype_bytes(v->dtype);
    dtype_to_f32(dst, row, v->dtype, v->shape[last], v->stride[last]);
}
