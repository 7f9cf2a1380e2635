/* dense.h - the Dense modules of sentence-transformers: linears with an activation, which transform a pooled
 * hidden state before it is normalized.
 *
 * The format is that of sentence_transformers/models/Dense: FOLDER/config.json and FOLDER/model.safetensors
 * (or pytorch_model.bin) with linear.weight [out, in] and linear.bias [out]. Sums are computed in double, in
 * ascending order. A struct dense is constant after it is opened.
 */
#ifndef GALLOP_ENGINE_EMBEDDINGS_DENSE_H
#define GALLOP_ENGINE_EMBEDDINGS_DENSE_H

#include <stddef.h>

#include "base/err.h"
#include "base/files/folder.h"

enum { DENSE_MAX = 4, DENSE_MAX_FEATURES = 65536 };

enum dense_act { DENSE_IDENTITY, DENSE_TANH, DENSE_RELU, DENSE_SIGMOID, DENSE_SILU, DENSE_GELU };

struct dense_layer {
    size_t in, out;
    float *w, *b; /* weight [out, in]; bias [out] or NULL */
    enum dense_act act;
};

struct dense {
    struct dense_layer layer[DENSE_MAX];
    size_t n; /* 0: the model has no Dense modules */
};

/* Appends the module in the folder PATH of IN; its input is the output of the previous module. Errors name
 * the file. The caller calls dense_close() also after an error. */
int dense_add(struct dense *d, struct folder in, const char *path, struct err *e);

/* Checks that the first module has N inputs. */
int dense_check(const struct dense *d, size_t n, struct err *e);

/* Returns the number of outputs of the last module, or N if there is none. D may be NULL. */
size_t dense_features(const struct dense *d, size_t n);

/* Returns the outputs [dense_features()] for the inputs X [n], or NULL if memory is exhausted. N has passed
 * dense_check(). The caller frees the result with mem_free(). */
float *dense_apply(const struct dense *d, const float *x, size_t n);

void dense_close(struct dense *d); /* D may be zeroed */

#endif
