/* stablehlo.h - a graph as a StableHLO program of fixed shapes, for compilers behind PJRT.
 *
 * The program computes a frame: `rows` new tokens of each of `n_seqs` sequences. Every sequence has a slot of
 * the caches; the program stores the new keys and values in place and attends to the first `seen` rows of the
 * slots. Text and arguments depend on nothing but the model and the frame, byte for byte. It uses plain operators
 * only, whose text every plugin of PJRT accepts: https://openxla.org/stablehlo/spec.
 *
 * Arguments of the program, in this order, with T = n_seqs x rows:
 *   inputs    i32 [stablehlo_n_inputs()]: ids [T], positions [T], slots [T] and rows [T] of the cache where
 *             keys and values are stored, slots [n_seqs] that are read; for each rope whose frequencies
 *             depend on the length of a sequence, the bits of fp32 cosines [T, half] and sines [T, half];
 *             indexes of the wanted rows [n_wanted]
 *   caches    for each layer that stores keys and values: K, then V, [n_slots + 1, heads, context + 1, D].
 *             Slot n_slots and row `context` are scratch, where padding is stored; they are never read for a
 *             row that is wanted
 *   weights   struct stablehlo_weight, in order
 * Results: the caches, which take over the memory of the arguments; logits, fp32 [n_wanted, V]; tokens, i32
 * [n_wanted], the argmax of each row's logits (of equal ones the lowest id), or -1 if a logit is NaN or +infinity or
 * all are -infinity. Other programs (enum stablehlo_part):
 *   PROMPT  has as further results the hidden states, fp32 [T, E] each
 *   HEAD    computes logits of other rows from them. Arguments: i32 [n_wanted], the indexes of the rows, the hidden
 *           states, weights. Results: logits and tokens
 *   COPY    copies the first `seen` rows of one slot to another. Arguments: i32 [2], both slots, the caches. Results:
 *           the caches
 */
#ifndef GALLOP_GRAPH_STABLEHLO_H
#define GALLOP_GRAPH_STABLEHLO_H

#include "base/buf.h"
#include "base/err.h"
#include "graph/graph.h"
#include "tensor/dtype.h"

struct model;

/* What a program computes. */
enum stablehlo_part {
    STABLEHLO_STEP,   /* the frame, and logits of the wanted rows */
    STABLEHLO_PROMPT, /* the same, and the hidden states of all rows */
    STABLEHLO_HEAD,   /* logits of the wanted rows of hidden states */
    STABLEHLO_COPY    /* a copy of the rows of one slot to another */
};

enum { STABLEHLO_MAX_HIDDEN = 2 };

/* The sizes of a program. */
struct stablehlo_frame {
    enum stablehlo_part part;
    /* Number of sequences, and number of rows of each; the graph has n_seqs x rows rows. */
    size_t n_seqs, rows;
    /* Rows of logits; the number for which the graph was recorded. */
    size_t n_wanted;
    /* Slots of the caches, rows of a slot, and the number of these rows that the program reads. */
    size_t n_slots, context, seen;
    /* Types of the arithmetic of linears and of the caches: DT_F32 or DT_BF16. */
    enum dtype dtype, kv_dtype;
};

enum stablehlo_kind {
    STABLEHLO_LINEAR,  /* the joined matrix of a linear, [n, k] */
    STABLEHLO_EXPERTS, /* the matrices of the up or down linears of all experts, [n_experts, n, k] */
    STABLEHLO_BIAS,    /* the bias of a linear, fp32 [n] */
    STABLEHLO_VECTOR,  /* an fp32 vector */
    STABLEHLO_TABLE,   /* the table of an embedding */
    STABLEHLO_COS,     /* cosines for all positions of a rope that is not an input, fp32 [context, half] */
    STABLEHLO_SIN,     /* sines of the same */
    STABLEHLO_SIGNS,   /* fp32 [n], the signs of a rotation (ops/rotate.h) */
    STABLEHLO_HADAMARD /* fp32 [n, n], a normalized Hadamard matrix */
};

/* The arrays of a matrix, each an argument of its own. Matrices of integers (ops/linear_ints.h) have
 * several. */
enum stablehlo_piece {
    STABLEHLO_NUMBERS, /* fp32, bf16, or the integers of int8 */
    STABLEHLO_CODES, /* int4: [.., n, (k + 1) / 2] bytes with the codes of element i and, in the upper half, of
                          * element i + (k + 1) / 2 */
    STABLEHLO_MULTIPLES, /* int4: [.., n, groups] */
    STABLEHLO_OFFSETS,   /* int4: [.., n, groups] */
    STABLEHLO_SCALES     /* fp32 [.., n] */
};

/* A weight, which is an argument of the program. */
struct stablehlo_weight {
    enum stablehlo_kind kind;
    /* LINEAR, BIAS: struct linear; EXPERTS: struct moe; VECTOR: the floats; TABLE: struct op_embed; COS, SIN: struct
     * rope. Borrowed from the model. */
    const void *of;
    enum stablehlo_piece piece; /* LINEAR, EXPERTS */
    /* EXPERTS: false for the up linears, true for the down linears. */
    bool down;
    size_t shape[3];
    int n_dims;
    enum dtype dtype;
};

/* The caches of a layer that stores keys and values. */
struct stablehlo_cache {
    size_t layer; /* the number in graph_node.at */
    size_t n_kv, d;
};

struct stablehlo {
    struct buf text;
    struct stablehlo_weight *weight;
    size_t n_weights, cap_weights;
    struct stablehlo_cache *cache; /* none in a program of STABLEHLO_HEAD */
    size_t n_caches, cap_caches;
    size_t n_hidden; /* the number of hidden states, each [n_seqs x rows, E], at most STABLEHLO_MAX_HIDDEN */
};

/* Writes the program of G, a graph of M for f->n_seqs x f->rows rows, to *P. Returns 0; ERR_NOMEM; or
 * ERR_UNSUPPORTED with a sentence that names the layer and the reason. The caller calls stablehlo_fini() in any
 * case. */
int stablehlo_write(struct stablehlo *p, const struct graph *g, const struct model *m,
                    const struct stablehlo_frame *f, struct err *e);

/* Returns the number of elements of `inputs` for a frame of M. stablehlo_n_rows_inputs() returns how many of
 * them come before the cosines of ropes. */
size_t stablehlo_n_inputs(const struct model *m, size_t n_seqs, size_t rows, size_t n_wanted);

static inline size_t stablehlo_n_rows_inputs(size_t n_seqs, size_t rows)
{
    return 4 * n_seqs * rows + n_seqs;
}

/* Returns whether A and B are the same weight. */
static inline bool stablehlo_is_same(const struct stablehlo_weight *a, const struct stablehlo_weight *b)
{
    return a->kind == b->kind && a->piece == b->piece && a->of == b->of && a->down == b->down &&
           a->shape[0] == b->shape[0];
}

/* P may be zeroed. */
void stablehlo_fini(struct stablehlo *p);

#endif
