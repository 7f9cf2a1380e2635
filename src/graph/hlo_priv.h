/* hlo_priv.h - the state of the writer of a StableHLO program (stablehlo.h), and the functions that its files share.
 * Only stablehlo.c and the files hlo_*.c include it.
 *
 * Most functions append operators to the program and return the value of the last one. After an error (w->rc)
 * they may still be called; their values are then not used.
 */
#ifndef GALLOP_GRAPH_HLO_PRIV_H
#define GALLOP_GRAPH_HLO_PRIV_H

#include "graph/stablehlo.h"
#include "model/model.h"
#include "ops/linear_ints.h"
#include "tensor/dtype.h"

struct moe;

enum { HLO_MAX_DIMS = 5 };

struct hlo_shape {
    enum dtype type; /* DT_F32, DT_BF16, DT_I32, DT_I8, or DT_BOOL for conditions */
    int n;
    size_t d[HLO_MAX_DIMS];
};

/* A value of the program: %id. */
struct hlo_value {
    unsigned id;
    struct hlo_shape s;
};

struct hlo_writer {
    struct stablehlo *p;
    const struct graph *g;
    const struct model *m;
    const struct stablehlo_frame *f;
    struct hlo_value *node;   /* [n_nodes] the values of the graph */
    struct hlo_value *weight; /* values of the weights so far, parallel to p->weight */
    size_t cap_weight;
    struct hlo_value *k, *v; /* [n_caches] the current values of the caches */
    struct hlo_value ids, positions, wanted;
    struct hlo_value cos[MODEL_MAX_ROPES], sin[MODEL_MAX_ROPES]; /* fp32 [T, half], if they are inputs */
    uint32_t hidden[STABLEHLO_MAX_HIDDEN]; /* [p->n_hidden] nodes whose wanted rows go to the head */
    size_t n_body;                         /* nodes before the head */
    struct hlo_value places;               /* i32 [T, 2]: where each row is stored: slot, row of the cache */
    struct hlo_value reads;                /* i32 [n_seqs, 1]: slots that are read */
    unsigned next;                         /* the number of the next value */
    size_t layer;                          /* the layer of the last attention, for messages */
    int rc;
    char why[200];
};

/* ---- hlo_text.c: shapes, values, and plain operators ---- */

/* Sets w->rc to ERR_UNSUPPORTED and w->why to a sentence about LAYER, unless there is an error already. */
void hlo_refuse(struct hlo_writer *w, size_t layer, const char *why);

struct hlo_text {
    char s[128];
};

struct hlo_text hlo_type_text(struct hlo_shape s);

/* Returns the shape of N dims: the first N of A to E. */
struct hlo_shape hlo_shape_of(enum dtype type, int n, size_t a, size_t b, size_t c, size_t d, size_t e);

/* Returns the shape of fp32 numbers [rows, n]. */
struct hlo_shape hlo_matrix_shape(size_t rows, size_t n);

/* Appends "%id = " and the formatted operator. Returns the value with the shape S. */
__attribute__((format(printf, 3, 4))) struct hlo_value hlo_emit(struct hlo_writer *w, struct hlo_shape s,
                                                                const char *fmt, ...);

/* Return a constant of the shape S, all of whose elements are X. */
struct hlo_value hlo_number(struct hlo_writer *w, float x, struct hlo_shape s);
struct hlo_value hlo_integer(struct hlo_writer *w, long x, struct hlo_shape s);

/* Apply the elementwise operator OP, such as "floor" or "add". */
struct hlo_value hlo_unary(struct hlo_writer *w, const char *op, struct hlo_value x);
struct hlo_value hlo_binary(struct hlo_writer *w, const char *op, struct hlo_value a, struct hlo_value b);
struct hlo_value hlo_with_constant(struct hlo_writer *w, const char *op, struct hlo_value x, float c);

struct hlo_value hlo_convert(struct hlo_writer *w, struct hlo_value x, enum dtype type);

/* Returns X with the dims of S. */
struct hlo_value hlo_reshape(struct hlo_writer *w, struct hlo_value x, struct hlo_shape s);

/* Copies X along new dims: dim i of X becomes dim at[i] of S. */
struct hlo_value hlo_broadcast(struct hlo_writer *w, struct hlo_value x, struct hlo_shape s, const int *at);

/* Returns X with dim order[i] of X as dim i. */
struct hlo_value hlo_transpose(struct hlo_writer *w, struct hlo_value x, const int *order);

/* Returns the elements [from, from + n) of dim DIM. */
struct hlo_value hlo_slice(struct hlo_writer *w, struct hlo_value x, int dim, size_t from, size_t n);

struct hlo_value hlo_concatenate(struct hlo_writer *w, struct hlo_value a, struct hlo_value b, int dim);

/* Reduces the last dim by OP, "add", "maximum" or "minimum", beginning with the scalar INIT. */
struct hlo_value hlo_reduce_from(struct hlo_writer *w, struct hlo_value x, const char *op,
                                 struct hlo_value init);

/* Reduces the last dim of fp32 numbers by OP, beginning with INIT, the neutral element of OP. */
struct hlo_value hlo_reduce(struct hlo_writer *w, struct hlo_value x, const char *op, float init);

/* Copies X, whose shape is S without the last dim, along this dim. Returns the value of shape S. */
struct hlo_value hlo_spread_last(struct hlo_writer *w, struct hlo_value x, struct hlo_shape s);

/* Returns X [n] copied to all rows of S, whose last dim is n. */
struct hlo_value hlo_spread_rows(struct hlo_writer *w, struct hlo_value x, struct hlo_shape s);

/* Sums the products of A and B over dim CA of A and dim CB of B. The first N_BATCH dims of both are the same. The
 * result has fp32 numbers. */
struct hlo_value hlo_dot(struct hlo_writer *w, struct hlo_value a, struct hlo_value b, int n_batch, int ca,
                         int cb);

/* Returns the rows of TABLE (its first dim) at the indexes INDEX [n, 1]. LIMIT: only the first LIMIT elements of dim
 * 2 are taken; 0: all. */
struct hlo_value hlo_gather_rows(struct hlo_writer *w, struct hlo_value table, struct hlo_value index,
                                 size_t limit);

/* Compares A and B by HOW: "EQ", "LE", "LT" or "GT". Returns a condition. */
struct hlo_value hlo_compare(struct hlo_writer *w, const char *how, struct hlo_value a, struct hlo_value b);

/* Returns A where CONDITION is true, and B elsewhere. */
struct hlo_value hlo_choose(struct hlo_writer *w, struct hlo_value condition, struct hlo_value a,
                            struct hlo_value b);

/* ---- hlo_weights.c: weights as arguments, and products with them ---- */

/* Returns the argument for the weight X, which is added on its first use. */
struct hlo_value hlo_weight(struct hlo_writer *w, struct stablehlo_weight x);

/* Returns the argument for the fp32 vector X [n]. */
struct hlo_value hlo_vector(struct hlo_writer *w, const float *x, size_t n);

/* The weights of a matrix [.., n, k]: floats, or integers with a scale for each row, [.., n]. */
struct hlo_matrix {
    struct hlo_value numbers; /* int4: codes, two in a byte */
    struct hlo_value multiples, offsets, scales;
    enum linear_ints ints;
    size_t k, group;
};

/* Returns the matrix [n, k] of the weight X, with the sizes and the type of L; if N_EXPERTS is not 0, so many
 * such matrices, [n_experts, n, k]. */
struct hlo_matrix hlo_matrix_of(struct hlo_writer *w, struct stablehlo_weight x, const struct linear *l,
                                size_t n_experts);

struct hlo_matrix hlo_matrix_of_linear(struct hlo_writer *w, const struct linear *l);

/* Returns X [T, k] times M, fp32 [T, n]. M is one matrix if N_BATCH is 0, or a matrix for each row, [T, n,
 * k], if it is 1. */
struct hlo_value hlo_product(struct hlo_writer *w, struct hlo_value x, const struct hlo_matrix *m,
                             int n_batch);

/* ---- hlo_ops.c: embeddings, norms, linears, activations and MLPs ---- */

struct hlo_value hlo_embed(struct hlo_writer *w, const struct graph_node *n, struct hlo_value index);

/* Applies the norm N to the last dim of X. */
struct hlo_value hlo_norm(struct hlo_writer *w, struct hlo_value x, const struct op_norm *n);

struct hlo_value hlo_linear(struct hlo_writer *w, struct hlo_value x, const struct linear *l);
struct hlo_value hlo_act(struct hlo_writer *w, struct hlo_value x, enum kern_act act);

/* Returns act(gate) * up, or act(y), for the results Y of an up linear. */
struct hlo_value hlo_middle(struct hlo_writer *w, struct hlo_value y, bool paired, enum kern_act act);

struct hlo_value hlo_mlp(struct hlo_writer *w, const struct op_mlp *mlp, struct hlo_value h);

/* ---- hlo_attention.c: heads and attention ---- */

struct hlo_value hlo_heads(struct hlo_writer *w, const struct op_attn *a, struct hlo_value qkv);
struct hlo_value hlo_rope(struct hlo_writer *w, const struct op_attn *a, struct hlo_value qkv);

/* Stores the keys and values of QKV in the caches, and returns the attention of its queries to them. */
struct hlo_value hlo_attn(struct hlo_writer *w, const struct graph_node *n, struct hlo_value qkv);

/* ---- hlo_moe.c: mixtures of experts ---- */

/* Returns the weighted sum of the results of the experts that are chosen for H. ROUTE is the router's
 * input. */
struct hlo_value hlo_moe(struct hlo_writer *w, const struct moe *m, struct hlo_value h,
                         struct hlo_value route);

#endif
