/* dense.h - the Dense modules of sentence-transformers: linears with an activation that a pooled hidden state
 * passes before it is normalized.
 *
 * Format: sentence_transformers, models/Dense: FOLDER/config.json and FOLDER/model.safetensors (or
 * pytorch_model.bin) with linear.weight [out, in] and linear.bias [out]. Computed in double, summed in
 * ascending order. An opened chain is const.
 */
#ifndef GALLOP_ENGINE_DENSE_H
#define GALLOP_ENGINE_DENSE_H

#include <stddef.h>

#include "base/err.h"
#include "base/files/folder.h"

enum { DENSE_MAX = 4, DENSE_MAX_FEATURES = 65536 };

enum dense_act { DENSE_IDENTITY, DENSE_TANH, DENSE_RELU, DENSE_SIGMOID, DENSE_SILU, DENSE_GELU };

struct dense_layer {
    size_t in, out;
    float *w, *b; /* [out, in]; [out] or NULL */
    enum dense_act act;
};

struct dense {
    struct dense_layer layer[DENSE_MAX];
    size_t n; /* 0: the model has no such modules */
};

/* Adds the module in the folder PATH of IN, whose input is the output of the module added before it.
 * ERR_INPUT and ERR_UNSUPPORTED name the file and what is wrong; the caller still has to close D. */
int dense_add(struct dense *d, struct folder in, const char *path, struct err *e);

/* Checks that the first module takes N numbers. */
int dense_check(const struct dense *d, size_t n, struct err *e);

/* The number of outputs for N inputs. D NULL: N. */
size_t dense_features(const struct dense *d, size_t n);

/* [dense_features()] outputs for the inputs X [N], which passed dense_check(). The caller frees them with
 * mem_free(). NULL: out of memory. */
float *dense_apply(const struct dense *d, const float *x, size_t n);

void dense_close(struct dense *d); /* a zeroed one is fine */

#endif
