/* view.h - a view of a stored tensor: pointer, dtype, shape, strides. It owns nothing.
 *
 * The function that fills a view has checked that every element of the view lies in the mapped storage, so
 * that readers need no checks. Strides are in elements and may be 0 or arbitrary (torch views); they are
 * never negative. A view of a quantized dtype (quant.h) begins with a stored group; one of its strides is 1,
 * and all others are whole groups.
 */
#ifndef GALLOP_TENSOR_VIEW_H
#define GALLOP_TENSOR_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/dtype.h"

enum { VIEW_MAX_DIMS = 8 };

struct view {
    /* The tensor's name in the checkpoint, and the checkpoint's file, for messages; borrowed. */
    const char *name;
    const char *file;
    /* The first element; borrowed. The address may be unaligned, so readers use memcpy. */
    const void *data;
    enum dtype dtype;
    /* Number of dimensions; 0: a scalar. */
    int n_dims;
    size_t shape[VIEW_MAX_DIMS];
    size_t stride[VIEW_MAX_DIMS];
    /* Even length of the runs in which dimension 0 is interleaved, as GGUF stores q and k; 0: not
     * interleaved. Element I of half S of a run is stored at index 2 I + S of the run. */
    size_t zipped;
};

/* Returns the index at which row I of dimension 0 is stored (see zipped). */
size_t view_stored_row(const struct view *v, size_t i);

/* Returns the number of elements, which fits into size_t because the opener checked it. */
size_t view_elements(const struct view *v);

/* Returns the bytes of all elements, without the gaps that strides leave. */
size_t view_bytes(const struct view *v);

/* Returns the bytes from the first to the last element, including gaps. */
size_t view_span_bytes(const struct view *v);

/* Returns true if the elements are stored in row-major order without gaps. */
bool view_is_contiguous(const struct view *v);

/* Sets stride[] for row-major order without gaps. */
void view_set_contiguous(struct view *v);

/* Returns the transposed view of a 2-D view. */
struct view view_transposed(const struct view *v);

/* Returns element I of dimension 0 as a view with one dimension less. I must be in range; in a quantized
 * dtype the element must begin with a stored group. */
struct view view_at(const struct view *v, size_t i);

/* Returns a view of the N elements FIRST, FIRST + STEP, ... of dimension 0, which must be in range. */
struct view view_slice(const struct view *v, size_t first, size_t step, size_t n);

/* Writes the shape as text, such as "[3, 4]", to OUT, cut to SIZE bytes. Returns OUT. */
const char *view_shape_text(const struct view *v, char *out, size_t size);

/* Converts elements [k0, k0 + n) of row R of a 2-D view (1-D: R is 0) to fp32. dtype_is_weight() must
 * hold. */
void view_part_f32(const struct view *v, size_t r, size_t k0, size_t n, float *dst);

/* Converts row R of a 2-D view, or a whole 1-D view with R 0, to fp32 in dst[shape[last]]. */
void view_row_f32(const struct view *v, size_t r, float *dst);

#endif
