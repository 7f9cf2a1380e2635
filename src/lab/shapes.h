/* shapes.h - the shapes of real models by name, for `gallop synth` and `gallop simulate`: their tensors and configs. */
#ifndef GALLOP_LAB_SHAPES_H
#define GALLOP_LAB_SHAPES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct shape {
    const char *name;
    const char *family; /* the family of src/model */
    size_t layers, hidden, inner, heads, kv, head_dim, vocab, context;
    double theta, eps;
    bool tied;
    double llama3;         /* factor of the RoPE of Llama 3.1 and later; 0: another RoPE */
    size_t experts, top_k; /* of mixtures of experts, where INNER is that of an expert */
};

size_t shapes_n(void);
const struct shape *shapes_at(size_t i);
const struct shape *shapes_of_name(const char *name); /* NULL: unknown */

/* Returns config.json of S with LAYERS layers and the stored DTYPE ("bfloat16", ...). NULL: out of memory. */
json_t *shapes_config(const struct shape *s, size_t layers, const char *dtype);

/* Nibbles and scales are MXFP4, with the spread of the other weights; they are always stored as U8. */
enum shapes_fill { SYNTH_RANDOM, SYNTH_ONES, SYNTH_ZEROS, SYNTH_NIBBLES, SYNTH_SCALES };

struct shapes_tensor {
    const char *name;
    size_t shape[4]; /* ends with the first 0 */
    enum shapes_fill fill;
};

/* Calls FN for each tensor. Stops at the first return that is not 0 and returns it. */
typedef int shapes_fn(void *ctx, const struct shapes_tensor *t);
int shapes_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx);

#endif
