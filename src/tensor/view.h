/* view.h - a stored tensor as somebody else's bytes: pointer, dtype, shape, strides. Owns nothing.
 *
 * Whoever fills a view has proved that every element it can address lies in the mapped storage, so that
 * readers need no checks. Strides are in elements and may be 0 or arbitrary (torch views); they are never
 * negative. A view of a block type (quant.h) begins with a block, and one of its strides is 1, all others are
 * whole blocks.
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
    /* 0, or even: dimension 0 comes in groups of so many whose halves lie interleaved, as GGUF stores q and
     * k: place I of half S of a group is stored at 2 I + S of it. */
    size_t zipped;
};

/* Where row I of dimension 0 lies, in rows. */
size_t view_stored_row(const struct view *v, size_t i);

size_t view_elements(const struct view *v);        /* cannot overflow: the opener proved it */
size_t view_bytes(const struct view *v);           /* of its elements, without gaps */
size_t view_span_bytes(const struct view *v);      /* from its first to its last element, gaps included */
bool view_is_contiguous(const struct view *v);     /* row-major without gaps */
void view_set_contiguous(struct view *v);          /* fills stride[] from shape[] */
struct view view_transposed(const struct view *v); /* of a 2-D view */

/* Element I of dimension 0: one dimension less. I is inside; a block type's elements begin with a block. */
struct view view_at(const struct view *v, size_t i);

/* The N elements FIRST, FIRST + STEP, ... of dimension 0. They are inside. */
struct view view_slice(const struct view *v, size_t first, size_t step, size_t n);

/* "[3, 4]" into out; returns out. */
const char *view_shape_text(const struct view *v, char *out, size_t size);

/* Elements [k0, k0 + n) of row R of a 2-D view (of a 1-D one with R 0) as fp32. The dtype is a weight's. */
void view_part_f32(const struct view *v, size_t r, size_t k0, size_t n, float *dst);

/* Row R of a 2-D view (or the whole of a 1-D one with R 0) as fp32 into dst[shape[last]]. */
void view_row_f32(const struct view *v, size_t r, float *dst);

#endif
