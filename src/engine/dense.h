/* dense.h - the Dense modules of sentence-transformers: linears, each with an activation, that a pooled
 * hidden state passes in front of its normalization.
 *
 * Format: sentence_transformers, models/Dense: FOLDER/config.json and FOLDER/model.safetensors (or
 * pytorch_model.bin) with linear.weight [out, in] and linear.bias [out]. Computed in double, summed in
 * ascending order. An opened chain is const.
 */
#ifndef GALLOP_ENGINE_DENSE_H
#define GALLOP_ENGINE_DENSE_H

#include <stddef.h>

#include "base/err.h"
#include "base/folder.h"

enum { DENSE_MAX = 4, DENSE_MAX_FEATURES = 65536 };

enum dense_act { DENSE_IDENTITY, DENSE_TANH, DENSE_RELU, DENSE_SIGMOID, DENSE_SILU, DENSE_GELU };

struct dense_layer {
    size_t in, out;
    float *w, *b; /* [out, in]; [out] or NULL */
    enum dense_act act;
};

struct dense {
    struct dense_layer layer[DENSE_MAX];
    size_t n; /* 0: there are none */
};

/* Adds the module in the folder PATH of IN, which takes what the one before it gives. ERR_INPUT and
 * ERR_UNSUPPORTED name the file and what is wrong; D stays the caller's to close. */
int dense_add(struct dense *d, struct folder in, const char *path, struct err *e);

/* Proves that the first module takes N numbers. */
int dense_check(const struct dense *d, size_t n, struct err *e);

/* As many as N numbers become; D NULL: N. */
size_t dense_features(const struct dense *d, size_t n);

/* V [dense_features()] from X, [N], as many as dense_check() proved; NULL: no memory. mem_free() it.
 */
float *dense_apply(const struct dense *d, const float *x, size_t n);

void dense_close(struct dense *d); /* a zeroed one is fine */

#endif
