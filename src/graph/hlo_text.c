/* hlo_text.c - the text of a StableHLO program: values, their shapes, and plain operators. */
#include "graph/hlo_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void hlo_refuse(struct hlo_writer *w, size_t layer, const char *why)
{
    if (w->rc)
        return;
    w->rc = ERR_UNSUPPORTED;
    snprintf(w->why, sizeof(w->why), "layer %zu: %s", layer, why);
}

struct hlo_text hlo_type_text(struct hlo_shape s)
{
    struct hlo_text t;
    size_t at = (size_t)snprintf(t.s, sizeof(t.s), "tensor<");

    for (int i = 0; i < s.n; i++)
        at += (size_t)snprintf(t.s + at, sizeof(t.s) - at, "%zux", s.d[i]);
    snprintf(t.s + at, sizeof(t.s) - at, "%s>",
             s.type == DT_F32    ? "f32"
             : s.type == DT_BF16 ? "bf16"
             : s.type == DT_I32  ? "i32"
             : s.type == DT_I8   ? "i8"
                                 : "i1");
    return t;
}

static struct hlo_text dims_text(const int *d, int n)
{
    struct hlo_text t = {""};
    size_t at = 0;

    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(t.s + at, sizeof(t.s) - at, "%s%d", i ? ", " : "", d[i]);
    return t;
}

struct hlo_shape hlo_shape_of(enum dtype type, int n, size_t a, size_t b, size_t c, size_t d, size_t e)
{
    return (struct hlo_shape){type, n, {a, b, c, d, e}};
}

struct hlo_shape hlo_matrix_shape(size_t rows, size_t n)
{
    return hlo_shape_of(DT_F32, 2, rows, n, 0, 0, 0);
}

struct hlo_value hlo_emit(struct hlo_writer *w, struct hlo_shape s, const char *fmt, ...)
{
    char line[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    buf_fmt(&w->p->text, "    %%%u = %s\n", w->next, line);
    return (struct hlo_value){w->next++, s};
}

struct hlo_value hlo_number(struct hlo_writer *w, float x, struct hlo_shape s)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return hlo_emit(w, s, "stablehlo.constant dense<0x%08X> : %s", bits, hlo_type_text(s).s);
}

struct hlo_value hlo_integer(struct hlo_writer *w, long x, struct hlo_shape s)
{
    return hlo_emit(w, s, "stablehlo.constant dense<%ld> : %s", x, hlo_type_text(s).s);
}

struct hlo_value hlo_unary(struct hlo_writer *w, const char *op, struct hlo_value x)
{
    return hlo_emit(w, x.s, "stablehlo.%s %%%u : %s", op, x.id, hlo_type_text(x.s).s);
}

struct hlo_value hlo_binary(struct hlo_writer *w, const char *op, struct hlo_value a, struct hlo_value b)
{
    return hlo_emit(w, a.s, "stablehlo.%s %%%u, %%%u : %s", op, a.id, b.id, hlo_type_text(a.s).s);
}

struct hlo_value hlo_with_constant(struct hlo_writer *w, const char *op, struct hlo_value x, float c)
{
    return hlo_binary(w, op, x, hlo_number(w, c, x.s));
}

struct hlo_value hlo_convert(struct hlo_writer *w, struct hlo_value x, enum dtype type)
{
    struct hlo_shape s = x.s;

    s.type = type;
    if (x.s.type == type)
        return x;
    return hlo_emit(w, s, "stablehlo.convert %%%u : (%s) -> %s", x.id, hlo_type_text(x.s).s,
                    hlo_type_text(s).s);
}

struct hlo_value hlo_reshape(struct hlo_writer *w, struct hlo_value x, struct hlo_shape s)
{
    s.type = x.s.type;
    return hlo_emit(w, s, "stablehlo.reshape %%%u : (%s) -> %s", x.id, hlo_type_text(x.s).s,
                    hlo_type_text(s).s);
}

struct hlo_value hlo_broadcast(struct hlo_writer *w, struct hlo_value x, struct hlo_shape s, const int *at)
{
    s.type = x.s.type;
    return hlo_emit(w, s, "stablehlo.broadcast_in_dim %%%u, dims = [%s] : (%s) -> %s", x.id,
                    dims_text(at, x.s.n).s, hlo_type_text(x.s).s, hlo_type_text(s).s);
}

struct hlo_value hlo_transpose(struct hlo_writer *w, struct hlo_value x, const int *order)
{
    struct hlo_shape s = x.s;

    for (int i = 0; i < s.n; i++)
        s.d[i] = x.s.d[order[i]];
    return hlo_emit(w, s, "stablehlo.transpose %%%u, dims = [%s] : (%s) -> %s", x.id, dims_text(order, s.n).s,
                    hlo_type_text(x.s).s, hlo_type_text(s).s);
}

struct hlo_value hlo_slice(struct hlo_writer *w, struct hlo_value x, int dim, size_t from, size_t n)
{
    struct hlo_shape s = x.s;
    struct hlo_text t = {""};
    size_t at = 0;

    if (from == 0 && n == x.s.d[dim])
        return x;
    s.d[dim] = n;
    for (int i = 0; i < s.n; i++)
        at += (size_t)snprintf(t.s + at, sizeof(t.s) - at, "%s%zu:%zu", i ? ", " : "",
                               i == dim ? from : (size_t)0, i == dim ? from + n : s.d[i]);
    return hlo_emit(w, s, "stablehlo.slice %%%u [%s] : (%s) -> %s", x.id, t.s, hlo_type_text(x.s).s,
                    hlo_type_text(s).s);
}

struct hlo_value hlo_concatenate(struct hlo_writer *w, struct hlo_value a, struct hlo_value b, int dim)
{
    struct hlo_shape s = a.s;

    s.d[dim] += b.s.d[dim];
    return hlo_emit(w, s, "stablehlo.concatenate %%%u, %%%u, dim = %d : (%s, %s) -> %s", a.id, b.id, dim,
                    hlo_type_text(a.s).s, hlo_type_text(b.s).s, hlo_type_text(s).s);
}

struct hlo_value hlo_reduce_from(struct hlo_writer *w, struct hlo_value x, const char *op,
                                 struct hlo_value init)
{
    struct hlo_shape s = x.s;

    s.n--;
    return hlo_emit(w, s,
                    "stablehlo.reduce(%%%u init: %%%u) applies stablehlo.%s across dimensions = [%d] : (%s, "
                    "%s) -> %s",
                    x.id, init.id, op, s.n, hlo_type_text(x.s).s, hlo_type_text(init.s).s,
                    hlo_type_text(s).s);
}

struct hlo_value hlo_reduce(struct hlo_writer *w, struct hlo_value x, const char *op, float init)
{
    return hlo_reduce_from(w, x, op, hlo_number(w, init, hlo_shape_of(DT_F32, 0, 0, 0, 0, 0, 0)));
}

struct hlo_value hlo_spread_last(struct hlo_writer *w, struct hlo_value x, struct hlo_shape s)
{
    static const int at[] = {0, 1, 2, 3};

    return hlo_broadcast(w, x, s, at);
}

struct hlo_value hlo_spread_rows(struct hlo_writer *w, struct hlo_value x, struct hlo_shape s)
{
    const int at[] = {s.n - 1};

    return hlo_broadcast(w, x, s, at);
}

struct hlo_value hlo_dot(struct hlo_writer *w, struct hlo_value a, struct hlo_value b, int n_batch, int ca,
                         int cb)
{
    static const int batch[] = {0, 1, 2};
    const char *precise = a.s.type == DT_F32 ? ", precision = [HIGHEST, HIGHEST]" : "";
    struct hlo_shape s = {.type = DT_F32};
    struct hlo_text batches = dims_text(batch, n_batch), both = {""};

    for (int i = 0; i < a.s.n; i++)
        if (i != ca)
            s.d[s.n++] = a.s.d[i];
    for (int i = n_batch; i < b.s.n; i++)
        if (i != cb)
            s.d[s.n++] = b.s.d[i];
    if (n_batch)
        snprintf(both.s, sizeof(both.s), "batching_dims = [%.40s] x [%.40s], ", batches.s, batches.s);
    return hlo_emit(
        w, s, "stablehlo.dot_general %%%u, %%%u, %scontracting_dims = [%d] x [%d]%s : (%s, %s) -> %s", a.id,
        b.id, both.s, ca, cb, precise, hlo_type_text(a.s).s, hlo_type_text(b.s).s, hlo_type_text(s).s);
}

struct hlo_value hlo_gather_rows(struct hlo_writer *w, struct hlo_value table, struct hlo_value index,
                                 size_t limit)
{
    struct hlo_shape s = table.s;
    struct hlo_text sizes = {""};
    size_t at = 0;
    static const int offsets[] = {1, 2, 3, 4};

    s.d[0] = index.s.d[0];
    if (limit)
        s.d[2] = limit;
    for (int i = 0; i < s.n; i++)
        at += (size_t)snprintf(sizes.s + at, sizeof(sizes.s) - at, "%s%zu", i ? ", " : "",
                               i ? s.d[i] : (size_t)1);
    return hlo_emit(
        w, s,
        "\"stablehlo.gather\"(%%%u, %%%u) <{dimension_numbers = #stablehlo.gather<offset_dims = [%s], "
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = "
        "array<i64: %s>}> : (%s, %s) -> %s",
        table.id, index.id, dims_text(offsets, s.n - 1).s, sizes.s, hlo_type_text(table.s).s,
        hlo_type_text(index.s).s, hlo_type_text(s).s);
}

struct hlo_value hlo_compare(struct hlo_writer *w, const char *how, struct hlo_value a, struct hlo_value b)
{
    struct hlo_shape s = a.s;

    s.type = DT_BOOL;
    return hlo_emit(w, s, "stablehlo.compare %s, %%%u, %%%u, %s : (%s, %s) -> %s", how, a.id, b.id,
                    a.s.type == DT_I32 ? "SIGNED" : "FLOAT", hlo_type_text(a.s).s, hlo_type_text(b.s).s,
                    hlo_type_text(s).s);
}

struct hlo_value hlo_choose(struct hlo_writer *w, struct hlo_value condition, struct hlo_value a,
                            struct hlo_value b)
{
    return hlo_emit(w, a.s, "stablehlo.select %%%u, %%%u, %%%u : %s, %s", condition.id, a.id, b.id,
                    hlo_type_text(condition.s).s, hlo_type_text(a.s).s);
}
