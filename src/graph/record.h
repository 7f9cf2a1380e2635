/* record.h - records the operators of a forward pass as a graph (graph.h).
 *
 * The recorder is an op sink: the model runs once with it, computes nothing and reads no weights. A read of a buffer
 * refers to the node that wrote the buffer last. A model cannot be recorded if it reads floats that no operator has
 * written, or a part of a buffer other than some columns of all its rows.
 */
#ifndef GALLOP_GRAPH_RECORD_H
#define GALLOP_GRAPH_RECORD_H

#include "base/err.h"

struct graph;
struct model;

/* Records the forward pass of M for ROWS rows, of which N_WANTED (1 to ROWS) give logits, or hidden states if
 * the model has no head. Returns 0; ERR_NOMEM; or ERR_UNSUPPORTED with the operator that cannot be recorded.
 * After an error G is empty. The graph borrows from M. */
int graph_record(struct graph *g, const struct model *m, size_t rows, size_t n_wanted, struct err *e);

#endif
