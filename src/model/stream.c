/* stream.c - finds the descriptions of linears that model_pack() has kept, and reads by them. */
#include "model/stream.h"

#include "base/files/map.h"
#include "ckpt/weights.h"

static const struct model_todo *todo_of(const struct model *m, const struct linear *l)
{
    for (size_t i = 0; i < m->n_todo; i++)
        if (m->todo[i].linear == l)
            return model_streams(m, &m->todo[i]) ? &m->todo[i] : NULL;
    return NULL;
}

bool stream_has(const struct model *m, const struct linear *l)
{
    return todo_of(m, l) != NULL;
}

int stream_begin(const struct model *m, const struct linear *l, struct pool *pool, struct err *e)
{
    const struct model_todo *t = todo_of(m, l);
    struct linear opened;
    int rc;

    if (!t || l->dtype != DT_I8)
        return 0;
    opened = *t->linear;
    if ((rc = linear_pack(t->linear, t->desc, pool, e)) == 0)
        return 0;
    opened.bias = NULL; /* linear_pack() has closed the linear */
    *t->linear = opened;
    linear_read_bias(t->linear, t->desc, NULL);
    return rc;
}

void stream_end(const struct model *m, const struct linear *l)
{
    const struct model_todo *t = todo_of(m, l);

    if (t && t->linear->packed) {
        map_region_free(t->linear->packed, t->linear->packed_bytes);
        t->linear->packed = NULL;
    }
    stream_drop(m, l);
}

void stream_row(const struct model *m, const struct linear *l, size_t i, float *out)
{
    linear_elements(todo_of(m, l)->desc, linear_column_of_row(l, i), 0, l->k, out);
}

void stream_drop(const struct model *m, const struct linear *l)
{
    const struct model_todo *t = todo_of(m, l);

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
    return m->opt.streams && !m->checkpoint->pack ? weights_checked(m->weights, rc, e) : rc;
}
