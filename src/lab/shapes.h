/* shapes.h - the shapes of real models by name, for `gallop synth` and `gallop simulate`: their tensors and configs. */
#ifndef GALLOP_LAB_SHAPES_H
#define GALLOP_LAB_SHAPES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The sizes of a model. */
struct shape {
    const char *name;
    const char *family; /* the name of the family's row in shapes.c */
    size_t layers, hidden, inner, heads, kv, head_dim, vocab, context;
    double theta, eps;
    bool tied;             /* the language model head is the embedding */
    double llama3;         /* factor of RoPE scaling "llama3" (Llama 3.1 and later); 0: no such scaling */
    size_t experts, top_k; /* mixture of experts, with `inner` as the size of one expert; else 0 */
};

size_t shapes_n(void);
const struct shape *shapes_at(size_t i);
const struct shape *shapes_of_name(const char *name); /* NULL: unknown */

/* Returns config.json of S with LAYERS layers and the stored DTYPE ("bfloat16", ...), or NULL if memory is
 * exhausted. */
json_t *shapes_config(const struct shape *s, size_t layers, const char *dtype);

/* Contents of a tensor. NIBBLES and SCALES are the U8 tensors of MXFP4 weights, whose values have the
 * standard deviation of RANDOM ones. */
enum shapes_fill { SYNTH_RANDOM, SYNTH_ONES, SYNTH_ZEROS, SYNTH_NIBBLES, SYNTH_SCALES };

struct shapes_tensor {
    const char *name;
    size_t shape[4]; /* dimensions; unused ones are 0 */
    enum shapes_fill fill;
};

/* Calls FN for each tensor of a checkpoint of S with LAYERS layers. Stops at the first result of FN that is
 * not 0 and returns it. */
typedef int shapes_fn(void *ctx, const struct shapes_tensor *t);
int shapes_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx);

#endif
