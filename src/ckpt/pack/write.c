/* write.c - writes packed checkpoints sequentially: first the blobs, then the directory. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/threads/pool.h"
#include "base/xxh3.h"
#include "ckpt/pack/form.h"
#include "ckpt/pack/pack.h"

enum { FILES, TENSORS, LINEARS, N_LISTS };

/* ---- hashes ---- */

struct sum_job {
    const char *p;
    size_t n, n_pieces;
    uint64_t *sum;
};

static void sum_share(void *ctx, int thread, int n_threads)
{
    const struct sum_job *j = ctx;
    size_t begin, end;

    pool_share(j->n_pieces, 1, thread, n_threads, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        size_t at = i * PACK_PIECE;

        j->sum[i] = XXH3_64bits(j->p + at, j->n - at < PACK_PIECE ? j->n - at : PACK_PIECE);
    }
}

int pack_sum(uint64_t *sum, const void *p, size_t n, struct pool *pool, struct err *e)
{
    struct sum_job j = {.p = p, .n = n, .n_pieces = (n + PACK_PIECE - 1) / PACK_PIECE};
    uint64_t one = 0;

    j.sum = j.n_pieces > 1 ? mem_zalloc(j.n_pieces, sizeof(*j.sum), MEM_CKPT) : &one;
    if (!j.sum)
        return err_nomem(e, "hashes of a packed checkpoint");
    if (pool && j.n_pieces > 1)
        pool_run(pool, sum_share, &j);
    else
        sum_share(&j, 0, 1);
    *sum = XXH3_64bits(j.sum, j.n_pieces * sizeof(*j.sum));
    if (j.n_pieces > 1)
        mem_free(j.sum);
    return 0;
}

/* ---- blobs ---- */

static int put_bytes(struct pack_writer *w, size_t part, size_t *at, const void *p, size_t n, struct err *e)
{
    *at += n;
    return n ? w->write(w->ctx, part, p, n, e) : 0;
}

static int fill_up(struct pack_writer *w, size_t part, size_t *at, struct err *e)
{
    static const char zeros[PACK_ALIGN];

    return put_bytes(w, part, at, zeros, (PACK_ALIGN - *at % PACK_ALIGN) % PACK_ALIGN, e);
}

static int begin_part(struct pack_writer *w, size_t part, size_t *at, struct err *e)
{
    char page[PACK_ALIGN];

    pack_head(page, part);
    *at = 0;
    return put_bytes(w, part, at, page, sizeof(page), e);
}

/* Starts another file if the next N bytes of weights do not fit into the current one. */
static int make_room(struct pack_writer *w, size_t n, struct err *e)
{
    if (!w->split_bytes || (w->part && (w->at + n <= w->split_bytes || w->at == PACK_ALIGN)))
        return 0;
    if (++w->part == PACK_MAX_PARTS)
        return err_set(e, ERR_INPUT, "the packed checkpoint would have more than %d files", PACK_MAX_PARTS);
    return begin_part(w, w->part, &w->at, e);
}

/* Writes the bytes P [n] to file PART, and their position and hash to the directory. */
static int add_blob(struct pack_writer *w, size_t part, size_t *at, const void *p, size_t n, struct err *e)
{
    uint64_t sum;
    int rc = pack_sum(&sum, p, n, w->pool, e);

    if (rc)
        return rc;
    buf_json_key(&w->directory, "part");
    buf_json_int(&w->directory, (int64_t)part);
    buf_json_key(&w->directory, "at");
    buf_json_int(&w->directory, (int64_t)*at);
    buf_json_key(&w->directory, "bytes");
    buf_json_int(&w->directory, (int64_t)n);
    buf_json_key(&w->directory, "sum");
    buf_fmt(&w->directory, "\"%016" PRIx64 "\"", sum);
    rc = put_bytes(w, part, at, p, n, e);
    return rc ? rc : fill_up(w, part, at, e);
}

static int add_weights(struct pack_writer *w, const void *p, size_t n, struct err *e)
{
    int rc = make_room(w, n, e);

    return rc ? rc : add_blob(w, w->part, w->part ? &w->at : &w->at_0, p, n, e);
}

/* ---- the directory ---- */

static void go_to_list(struct pack_writer *w, int list)
{
    static const char *const name[] = {"files", "tensors", "linears"};

    for (; w->list < list; w->list++) {
        if (w->list >= 0)
            buf_json_end(&w->directory, ']');
        buf_json_key(&w->directory, name[w->list + 1]);
        buf_json_begin(&w->directory, '[');
    }
}

static void add_string(struct pack_writer *w, const char *key, const char *s)
{
    buf_json_key(&w->directory, key);
    buf_json_str(&w->directory, s, strlen(s));
}

int pack_begin(struct pack_writer *w, enum dtype dtype, const char *quant, uint64_t calibration,
               struct err *e)
{
    buf_init(&w->directory, MEM_CKPT);
    w->list = -1;
    w->part = w->at = 0;
    buf_json_begin(&w->directory, '{');
    add_string(w, "dtype", dtype_name(dtype));
    add_string(w, "quant", quant);
    buf_json_key(&w->directory, "calibration");
    buf_fmt(&w->directory, "\"%016" PRIx64 "\"", calibration);
    return begin_part(w, 0, &w->at_0, e);
}

int pack_file(struct pack_writer *w, const char *name, const void *bytes, size_t n, struct err *e)
{
    int rc;

    go_to_list(w, FILES);
    buf_json_begin(&w->directory, '{');
    add_string(w, "name", name);
    rc = add_blob(w, 0, &w->at_0, bytes, n, e);
    buf_json_end(&w->directory, '}');
    return rc;
}

static void add_sizes(struct pack_writer *w, const char *key, const size_t *v, int n)
{
    buf_json_key(&w->directory, key);
    buf_json_begin(&w->directory, '[');
    for (int i = 0; i < n; i++)
        buf_json_int(&w->directory, (int64_t)v[i]);
    buf_json_end(&w->directory, ']');
}

static void add_end(struct pack_writer *w, const char *key, const unsigned char end[PACK_END_BYTES])
{
    buf_json_key(&w->directory, key);
    buf_char(&w->directory, '"');
    for (size_t i = 0; i < PACK_END_BYTES; i++)
        buf_fmt(&w->directory, "%02x", end[i]);
    buf_char(&w->directory, '"');
}

int pack_view(struct pack_writer *w, const struct view *v, const struct pack_tensor *t, bool with_bytes,
              struct err *e)
{
    int rc = 0;

    go_to_list(w, TENSORS);
    buf_json_begin(&w->directory, '{');
    add_string(w, "name", v->name);
    add_string(w, "dtype", dtype_name(v->dtype));
    add_sizes(w, "shape", v->shape, v->n_dims);
    if (!view_is_contiguous(v))
        add_sizes(w, "stride", v->stride, v->n_dims);
    if (v->zipped)
        add_sizes(w, "zipped", &v->zipped, 1);
    add_end(w, "first", t->end[0]);
    add_end(w, "last", t->end[1]);
    buf_json_key(&w->directory, "all");
    buf_fmt(&w->directory, "\"%016" PRIx64 "\"", t->sum);
    if (with_bytes)
        rc = add_weights(w, v->data, view_span_bytes(v), e);
    buf_json_end(&w->directory, '}');
    return rc;
}

int pack_packed(struct pack_writer *w, const struct pack_linear *l, const void *bytes, size_t n,
                struct err *e)
{
    const size_t size[] = {l->n, l->k};
    int rc;

    go_to_list(w, LINEARS);
    buf_json_begin(&w->directory, '{');
    add_string(w, "name", l->name);
    add_string(w, "form", l->layout);
    add_string(w, "dtype", dtype_name(l->dtype));
    add_sizes(w, "size", size, 2);
    buf_json_key(&w->directory, "paired");
    buf_json_bool(&w->directory, l->paired);
    rc = add_weights(w, bytes, n, e);
    buf_json_end(&w->directory, '}');
    return rc;
}

int pack_end(struct pack_writer *w, struct err *e)
{
    struct pack_tail tail = {.magic = PACK_TAIL_MAGIC};
    int rc;

    go_to_list(w, LINEARS);
    buf_json_end(&w->directory, ']');
    buf_json_key(&w->directory, "parts");
    buf_json_int(&w->directory, (int64_t)w->part + 1);
    buf_json_end(&w->directory, '}');
    if (w->directory.oom)
        return err_nomem(e, "the directory of a packed checkpoint");
    tail.at = w->at_0;
    tail.bytes = w->directory.len;
    tail.sum = XXH3_64bits(w->directory.data, w->directory.len);
    tail.own_sum = XXH3_64bits(&tail, offsetof(struct pack_tail, own_sum));
    rc = put_bytes(w, 0, &w->at_0, w->directory.data, w->directory.len, e);
    return rc ? rc : put_bytes(w, 0, &w->at_0, &tail, sizeof(tail), e);
}

void pack_abort(struct pack_writer *w)
{
    buf_fini(&w->directory);
}
