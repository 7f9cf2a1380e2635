/* stream.c - finds the descriptions of linears that model_pack() has kept, and reads by them. */
#include "model/stream.h"

#include "base/files/map.h"
#include "ckpt/checkpoint.h"
#include "ckpt/weights.h"
#include "model/calibration.h"
#include "model/model.h"
#include "ops/linear.h"
#include "ops/linear_backend.h"
#include "ops/op.h"
#include "tensor/view.h"

const struct model_todo *stream_of(const struct model *m, const struct linear *l)
{
    for (size_t i = 0; i < m->n_todo; i++)
        if (m->todo[i].linear == l)
            return model_streams(m, &m->todo[i]) ? &m->todo[i] : NULL;
    return NULL;
}

int stream_pack(const struct model_todo *t, struct pool *pool, struct err *e)
{
    struct linear opened = *t->linear;
    int rc = opened.packed ? 0 : linear_pack(t->linear, t->desc, pool, e);

    if (rc == 0)
        return 0;
    opened.bias = NULL; /* linear_pack() has closed the linear */
    *t->linear = opened;
    linear_read_bias(t->linear, t->desc, NULL);
    return rc;
}

void stream_unpack(const struct model_todo *t)
{
    struct linear *l = t->linear;

    if (l->packed)
        map_region_free(l->packed, l->packed_bytes);
    l->packed = NULL;
}

void stream_row(const struct model_todo *t, size_t i, float *out)
{
    linear_elements(t->desc, linear_column_of_row(t->linear, i), 0, t->linear->k, out);
}

void stream_drop(const struct linear *l, const struct model_todo *t)
{
    for (size_t p = 0; t && p < t->desc->n_parts; p++)
        map_file_drop(t->desc->part[p]->data, view_span_bytes(t->desc->part[p]));
    if (l->mapped)
        map_pages_drop(l->packed, l->packed_bytes);
}

void stream_drop_table(const struct model *m, const struct op_embed *embed)
{
    if (m->opt.streams)
        map_pages_drop(embed->table.data, view_span_bytes(&embed->table));
}

int stream_checked(const struct model *m, int rc, struct err *e)
{
    if (m->opt.streams && !m->checkpoint->pack)
        rc = weights_checked(m->weights, rc, e);
    return m->opt.scales ? calibration_checked(m->opt.scales, rc, e) : rc;
}
