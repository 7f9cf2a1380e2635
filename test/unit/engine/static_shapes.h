/* static_shapes.h - an executor of static shapes, which drives an engine in place of its own: prompts one at
 * a time, whole and padded to a bucket, decoding in full frames of all slots, the two never in one step, and
 * padding that can write into no live slot.
 */
#ifndef GALLOP_TEST_ENGINE_STATIC_SHAPES_H
#define GALLOP_TEST_ENGINE_STATIC_SHAPES_H

#include "engine/engine_priv.h"

enum { STATIC_LONGEST = 2304 }; /* rows of the largest bucket */

/* Wraps an executor that allows everything. Its last slot is the scratch that padding writes into. */
struct static_shapes {
    const struct executor *inner;
    struct executor x;
    size_t n_prompts, n_frames, n_padding; /* steps of a prompt, of a frame; rows of padding */
};

/* G, which has no request yet and at least two slots, computes in static shapes from now on. F outlives
 * it. */
void static_shapes_drive(struct static_shapes *f, struct gallop *g);

#endif
