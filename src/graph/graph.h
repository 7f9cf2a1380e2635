/* graph.h - a forward pass as a graph: the operators of a step of fixed sizes, and the values between them.
 *
 * Every node computes one value from earlier values, and no value changes: an operator that works in place
 * makes a new value. Nodes are in the order of computation. The graph contains no data: it borrows the weights
 * of the model, whose sizes are known before they are read. record.h makes a graph.
 */
#ifndef GALLOP_GRAPH_GRAPH_H
#define GALLOP_GRAPH_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "kern/vector.h"

struct op_attn;
struct op_embed;
struct op_mlp;
struct op_norm;

enum graph_op {
#define GRAPH_OP(name, text, n_in, weights) GRAPH_##name,
#include "graph/ops.def"
#undef GRAPH_OP
    GRAPH_N_OPS
};

enum { GRAPH_MAX_INPUTS = 2 };

/* An operator and the value that it computes: fp32 numbers [rows, n], or i32 for inputs of the graph. */
struct graph_node {
    enum graph_op op;
    /* The nodes whose values are read: graph_n_inputs(op) of them. */
    uint32_t in[GRAPH_MAX_INPUTS];
    size_t rows, n;
    /* The weights; the table ops.def says which member is set. */
    union {
        const void *any;
        const struct op_embed *embed;
        const struct op_norm *norm;
        const struct linear *linear;
        const struct op_attn *attn;
        const struct op_mlp *mlp;
        const struct moe *moe;
    } w;
    /* ATTN: the layer of the cache. COLUMNS: the first column. */
    size_t at;
    /* SCALE: the factor. SOFTCAP: the cap. */
    float number;
    /* GLU: the activation function. */
    enum kern_act act;
};

struct graph {
    struct graph_node *node;
    size_t n_nodes, cap_nodes;
    /* The node with the result: logits, or hidden states of a model without a head. */
    uint32_t result;
};

/* Returns the name of OP in printed graphs. */
const char *graph_op_name(enum graph_op op);
size_t graph_n_inputs(enum graph_op op);

/* Appends NODE and returns its number, or UINT32_MAX if memory is exhausted. */
uint32_t graph_add(struct graph *g, const struct graph_node *node);

/* Appends the graph as text to OUT: one line for each node, with its shape, operator, inputs and weights. */
void graph_print(const struct graph *g, struct buf *out);

/* Appends the graph to OUT as a JSON object on one line. Member "nodes" has an object for each node: "op", "shape",
 * "in" (numbers of nodes), "weights" (names of tensors), and the numbers of the operator. "result" is the number of
 * a node. */
void graph_json(const struct graph *g, struct buf *out);

/* Frees the memory. G may be zeroed. */
void graph_fini(struct graph *g);

#endif
