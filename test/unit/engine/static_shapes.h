/* static_shapes.h - an executor of static shapes for an engine: prompts run one at a time, whole and padded
 * to a bucket; decoding runs in full frames of all slots; the two are never in one step; and padding cannot
 * write into a live slot. */
#ifndef GALLOP_TEST_ENGINE_STATIC_SHAPES_H
#define GALLOP_TEST_ENGINE_STATIC_SHAPES_H

#include "engine/engine_priv.h"
#include "engine/executor.h"

enum { STATIC_LONGEST = 2304 }; /* the rows of the largest bucket */

/* Wraps an executor that allows everything. Its last slot is the scratch slot, into which padding writes. Or wraps one
 * that does not mix prompts and decoding, which then pads by itself; only its runs are checked. */
struct static_shapes {
    const struct executor *inner;
    struct executor x;
    size_t n_prompts, n_frames, n_padding; /* steps of a prompt and of a frame, and rows of padding */
};

/* From now on G, which has no request yet and at least two slots, computes in static shapes. F outlives G. */
void static_shapes_drive(struct static_shapes *f, struct gallop *g);

#endif
