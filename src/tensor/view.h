/* view.h - a stored tensor as somebody else's bytes: pointer, dtype, shape, strides. Owns nothing.
 *
 * Whoever fills a view has proved that every element it can address lies in the mapped storage, so that readers need
 * no checks. Strides are in elements and may be 0 or arbitrary (torch views); they are never negative.
 */
#ifndef GALLOP_TENSOR_VIEW_H
#define GALLOP_TENSOR_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/dtype.h"

enum { VIEW_MAX_DIMS = 8 };

struct view {
    const char *name; /* borrowed; the checkpoint's tensor name */
    const char *file; /* borrowed; for messages */
    const void *
        data; /* borrowed; first element; need not be aligned to the element for hostile files: copy with memcpy */
    enum dtype dtype;
    int n_dims; /* 0: a scalar */
    size_t shape[VIEW_MAX_DIMS];
    size_t stride[VIEW_MAX_DIMS];
};

size_t view_elements(const struct view *v);        /* cannot overflow: the opener proved it */
bool view_is_contiguous(const struct view *v);     /* row-major without gaps */
void view_set_contiguous(struct view *v);          /* fills stride[] from shape[] */
struct view view_transposed(const struct view *v); /* of a 2-D view */

/* "[3, 4]" into out; returns out. */
const char *view_shape_text(const struct view *v, char *out, size_t size);

/* Row R of a 2-D view (or the whole of a 1-D one with R 0) as fp32 into dst[shape[last]]. */
void view_row_f32(const struct view *v, size_t r, float *dst);

#endif
