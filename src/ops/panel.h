/* panel.h - the packed weight format that the gemm kernels of kern.h read: panels of 32 columns, K
 * ascending. */
#ifndef GALLOP_OPS_PANEL_H
#define GALLOP_OPS_PANEL_H

#include "ops/linear.h"

size_t panel_bytes(size_t n, size_t k, enum dtype t);

/* Fills the panels of the rows [begin, end) of W; columns beyond N of the last panel stay zero (the region
 * is zeroed). False: a weight is an infinity or NaN, or becomes an infinity in bf16. */
bool panel_pack(struct linear *l, const struct linear_desc *d, size_t begin, size_t end);

#endif
