/* eager_attn.c - attention of the eager sink: stores the new rows, then scores them chunk by chunk.
 *
 * Keys are cut into chunks of 256 absolute positions. Each chunk gives (max, sum, output) for a row, and
 * chunks are folded in ascending order by one formula. For a sequence with few rows (decode, guesses,
 * short continuations) the chunks may be divided among threads and folded afterwards; else its heads and
 * tiles of rows are divided among threads. Both ways give the same bits, because the result of a chunk
 * does not depend on the thread. The rows of the query heads that share a KV head are stacked, so that each K
 * and V tile is loaded once for all of them. All rows are stored before any row is read, because sequences of
 * a batch may share KV blocks that this step computes.
 *
 * A layer with a sink (struct eager_limits) always sees the first rows of a sequence. While the window of a
 * query row touches the sink, both are one range of keys. For later rows the keys of the sink are chunks of
 * their own, cut at the same positions, with a query that is rotated for the sink; they are folded before the
 * chunks of the window. Such a chunk, of the window or of the sink, is called a piece.
 */
#include <math.h>
#include <string.h>

#include "kern/format/attn_i4.h"
#include "kern/format/kv.h"
#include "kern/kern.h"
#include "ops/batch.h"
#include "ops/eager/eager_priv.h"

enum {
    MAX_DIM = KERN_ATTN_DIM,
    /* Maximum stacked rows in a row tile. */
    ROWS = KERN_ATTN_ROWS,
    /* Maximum stacked rows of a sequence whose chunks are divided among threads. One task computes a chunk
     * for all rows, so that it is read once. */
    SPLIT_ROWS = 128,
    /* Number of tasks of equal work per thread with which all threads stay busy. */
    TASKS_A_THREAD = 4,
};

/* ---- the job of all phases ---- */

struct attn_job {
    struct eager *g;
    const struct op_attn *w;
    const struct batch *b;
    const float *qkv;
    float *a;
    /* Index of the layer. */
    size_t index;
    /* Lengths of the window and of the sink in rows, from struct op_attn or struct eager_limits; window 0:
     * all rows are seen, sink 0: no sink. */
    size_t window, sink;
    /* The queries for the keys of the sink: eager.sink_q, or eager.q if they need no rotation of their
     * own. */
    float *sink_q;
    /* The plans of the sequences, [n_seqs]. */
    const struct eager_attn_plan *plan;
    /* Number of scoring tasks of all sequences. */
    size_t n_tasks;
};

/* The plan for one sequence in one layer. All threads read it. */
struct eager_attn_plan {
    /* Number of stacked rows: n rows times G query heads for each KV head. */
    size_t rows;
    /* Number of row tiles into which the stacked rows are cut, and rows of each (the last may have fewer). */
    size_t tiles, tile_rows;
    /* Number of pieces (chunks of keys) into which the sink is cut. */
    size_t sinks;
    /* The first chunk that any row sees. */
    size_t first_chunk;
    /* Number of pieces: the pieces of the sink, and the chunks from first_chunk to the last chunk. */
    size_t pieces;
    /* If split: the index of the sequence's first partial result. */
    size_t partial;
    /* The number of store tasks (phase one) and of scoring tasks (phase two) of this sequence and those
     * before. */
    size_t store_end;
    size_t task_end;
    /* True if the pieces are divided among threads. */
    bool split;
};

size_t eager_attn_plan_bytes(const struct eager_limits *lim)
{
    return lim->max_seqs * sizeof(struct eager_attn_plan);
}

/* Returns true if the window of a row at POS no longer touches the sink: there are rows between them. */
static bool past_sink(const struct attn_job *j, size_t pos)
{
    return j->window && pos + 1 > j->sink + j->window;
}

/* Returns the position of the first key that a row at POS sees; keys of a sink before its window do not
 * count. */
static size_t lowest_key(const struct attn_job *j, size_t pos)
{
    if (j->w->chunk)
        return pos / j->w->chunk * j->w->chunk;
    return past_sink(j, pos) ? pos + 1 - j->window : 0;
}

/* Returns the number of pieces (chunks of keys) into which the sink is cut, or 0 if the window of a row at
 * POS still touches it. */
static size_t sink_pieces(const struct attn_job *j, size_t pos)
{
    return past_sink(j, pos) ? (j->sink + KERN_CHUNK - 1) / KERN_CHUNK : 0;
}

/* Returns the number of KV tiles in which new rows of Q are stored. */
static size_t tiles_of(const struct batch_seq *q)
{
    return (q->pos + q->n - 1) / KERN_TILE - q->pos / KERN_TILE + 1;
}

/* Returns the number of pairs of a new query row of Q and a key that it sees, without regard to windows. */
static size_t work_of(const struct batch_seq *q)
{
    return q->n * (q->pos + q->n);
}

/* Returns the largest number of such pairs that a task may have if there are to be enough tasks for all
 * threads. */
static size_t largest_task(const struct attn_job *j)
{
    size_t work = 0;

    for (size_t s = 0; s < j->b->n_seqs; s++)
        work += j->w->n_kv * work_of(&j->b->seq[s]);
    return work / (TASKS_A_THREAD * (size_t)pool_threads(j->g->pool));
}

/* Plans all sequences of the batch. Returns the number of partial results that they need. A sequence with one row is
 * split if possible. A sequence with a few rows (guesses that are verified) is split only if it has too few heads to
 * keep all threads busy, because each row then has a partial result to write and to fold. */
static size_t plan(struct attn_job *j, struct eager_attn_plan *p)
{
    size_t G = j->w->n_heads / j->w->n_kv, n_kv = j->w->n_kv, partials = 0, stored = 0, want;
    size_t most = largest_task(j);

    j->plan = p;
    for (size_t s = 0; s < j->b->n_seqs; s++, p++) {
        const struct batch_seq *q = &j->b->seq[s];
        size_t last = q->pos + q->n - 1;
        bool whole = work_of(q) <= most;

        p->rows = q->n * G;
        p->sinks = sink_pieces(j, last);
        p->first_chunk = lowest_key(j, q->pos) / KERN_CHUNK;
        p->pieces = p->sinks + last / KERN_CHUNK + 1 - p->first_chunk;
        want = p->rows * n_kv * p->pieces;
        p->split = p->pieces > 1 && p->rows <= SPLIT_ROWS && partials + want <= j->g->n_partials &&
                   (q->n == 1 || !whole);
        p->tiles = p->split || (whole && p->rows <= SPLIT_ROWS) ? 1 : (p->rows + ROWS - 1) / ROWS;
        p->tile_rows = (p->rows + p->tiles - 1) / p->tiles;
        p->partial = partials;
        partials += p->split ? want : 0;
        p->store_end = stored += tiles_of(q) * n_kv;
        p->task_end = j->n_tasks += n_kv * p->tiles * (p->split ? p->pieces : 1);
    }
    return partials;
}

/* ---- phase one: store k and v, pack q ---- */

/* Writes a row of keys, N words of adjacent dims, to column SLOT of its tile KT. See kern/attention.h. */
static void put_words(char *kt, size_t slot, const void *row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(kt + (i * KERN_TILE + slot) * 4, (const char *)row + 4 * i, 4);
}

/* Copies each of N values of BYTES bytes to one of N adjacent words of 4 bytes, at offset PLACE * BYTES in
 * the word. Inline, so that a copy is one store. */
static inline void put_parts(char *words, size_t place, const void *row, size_t n, size_t bytes)
{
    for (size_t i = 0; i < n; i++)
        memcpy(words + 4 * i + place * bytes, (const char *)row + i * bytes, bytes);
}

static void put_f32(const struct attn_job *j, char *kt, char *vt, size_t slot, const float *k, const float *v)
{
    put_words(kt, slot, k, j->w->d);
    memcpy(vt + slot * j->w->dp * sizeof(float), v, j->w->d * sizeof(float));
}

static void put_bf16(const struct attn_job *j, char *kt, char *vt, size_t slot, const float *k,
                     const float *v)
{
    uint16_t row[MAX_DIM + 1];
    size_t d = j->w->d;

    j->g->attn_k->to_bf16(row, k, d);
    row[d] = 0;
    put_words(kt, slot, row, (d + 1) / 2);
    j->g->attn_k->to_bf16(row, v, d);
    put_parts(vt + slot / 2 * j->w->dp * 4, slot % 2, row, d, 2);
}

static void put_i8(const struct attn_job *j, char *kt, char *vt, size_t slot, const float *k, const float *v)
{
    int8_t row[MAX_DIM + 3];
    size_t d = j->w->d, dp = j->w->dp;
    float *k_scale = (float *)(void *)(kt + KERN_TILE * dp),
          *v_scale = (float *)(void *)(vt + KERN_TILE * dp);

    j->g->attn_k->to_i8(row, &k_scale[slot], k, d);
    memset(row + d, 0, 3);
    put_words(kt, slot, row, (d + 3) / 4);
    j->g->attn_k->to_i8(row, &v_scale[slot], v, d);
    put_parts(vt + slot / 4 * dp * 4, slot % 4, row, d, 1);
}

/* Returns true if rows are rotated (Hadamard) before they are stored. */
static bool is_rotated(const struct attn_job *j)
{
    return j->g->lim.kv_dtype == DT_I8 || j->g->lim.kv_dtype == DT_I4;
}

static void put_i4(const struct attn_job *j, char *tile, size_t slot, const float *x, bool values)
{
    uint8_t code[MAX_DIM], factor[MAX_DIM / KERN_I4_GROUP];
    uint16_t scale;

    j->g->attn_k->to_i4(code, factor, &scale, x, j->w->d);
    i4_put_row(tile, j->w->dp, slot, values, code, factor, scale);
}

/* Copies a row X to ROTATED, rotates it and returns it. */
static const float *rotate(const struct attn_job *j, float *rotated, const float *x)
{
    memcpy(rotated, x, j->w->d * sizeof(float));
    j->g->attn_k->hadamard(rotated, j->w->d);
    return rotated;
}

/* Returns true if all elements of the row X are finite as elements of the cache, too. */
static bool is_finite(const struct attn_job *j, const float *x)
{
    const int32_t most =
        j->g->lim.kv_dtype == DT_BF16 ? 0x7f7f7fff : 0x7f7fffff; /* largest |x| that stays finite */
    int32_t over = 0, bits;

    for (size_t i = 0; i < j->w->d; i++) {
        memcpy(&bits, x + i, sizeof(bits));
        over |= (bits & 0x7fffffff) > most;
    }
    return !over;
}

/* Marks the key in column SLOT of the tile KT, whose elements are zeros, so that its scores are NaN. */
static void mark_key(const struct attn_job *j, char *kt, size_t slot)
{
    const uint32_t nan = 0x7fc07fc0; /* a NaN in fp32, and two in bf16 */
    size_t dp = j->w->dp;

    switch (j->g->lim.kv_dtype) {
    case DT_I4: memcpy(kt + kern_i4_tile_bytes(dp) - (KERN_TILE - slot) * 2, &nan, 2); break; /* the scale */
    case DT_I8: memcpy(kt + KERN_TILE * dp + slot * 4, &nan, 4); break;
    default: memcpy(kt + slot * 4, &nan, 4); /* the first dims */
    }
}

/* Stores the key K and the value V of a token. If an element is not finite, stores zeros and marks the key
 * (mark_key()). Queries that see the token then get NaN, and their sequences end with an error. Other queries
 * that read the tile give the token the weight 0 and are not affected: those of sequences that share other
 * rows of the tile, or for which the token was a wrong guess. */
static void put_row(const struct attn_job *j, char *kt, char *vt, size_t slot, const float *k, const float *v)
{
    static const float zeros[MAX_DIM];
    float rotated_k[MAX_DIM], rotated_v[MAX_DIM];
    bool is_marked;

    if (is_rotated(j)) {
        k = rotate(j, rotated_k, k);
        v = rotate(j, rotated_v, v);
    }
    is_marked = !is_finite(j, k) || !is_finite(j, v);
    if (is_marked)
        k = v = zeros;
    switch (j->g->lim.kv_dtype) {
    case DT_I4:
        put_i4(j, kt, slot, k, false);
        put_i4(j, vt, slot, v, true);
        break;
    case DT_I8: put_i8(j, kt, vt, slot, k, v); break;
    case DT_BF16: put_bf16(j, kt, vt, slot, k, v); break;
    default: put_f32(j, kt, vt, slot, k, v);
    }
    if (is_marked)
        mark_key(j, kt, slot);
}

/* Returns the address, in PACKED [K, T G, dp], of the first of row T's query heads that share KV head
 * HEAD. */
static float *packed_at(const struct attn_job *j, float *packed, size_t t, size_t head)
{
    return packed + (head * j->b->n_tokens + t) * (j->w->n_heads / j->w->n_kv) * j->w->dp;
}

/* Writes the query heads of row T that share KV head HEAD to DST. SINK: rotates them for the sink. */
static void pack_q(const struct attn_job *j, float *dst, size_t t, size_t head, const float *row, bool sink)
{
    const struct op_attn *w = j->w;
    size_t G = w->n_heads / w->n_kv;

    for (size_t g = 0; g < G; g++, dst += w->dp) {
        memcpy(dst, row + (head * G + g) * w->d, w->d * sizeof(float));
        if (sink)
            eager_attn_rope_to_sink(j->g, w, dst, t);
        if (is_rotated(j))
            j->g->attn_k->hadamard(dst, w->d);
        memset(dst + w->d, 0, (w->dp - w->d) * sizeof(float));
    }
}

/* Stores the new rows of sequence Q in tile TI of its positions, for KV head HEAD. A tile is cleared when its
 * first row is stored, so that it holds no rows of another sequence. */
static void store_keys(const struct attn_job *j, const struct batch_seq *q, size_t ti, size_t head)
{
    const struct op_attn *w = j->w;
    const struct kv_layer *l = &q->kv.layer[j->index];
    uint32_t tile = q->kv.tile[l->group][ti];
    char *kt = kv_layer_tile(l, l->k, tile, head), *vt = kv_layer_tile(l, l->v, tile, head);
    size_t from = ti * KERN_TILE > q->pos ? ti * KERN_TILE : q->pos, to = (ti + 1) * KERN_TILE;

    if (to > q->pos + q->n)
        to = q->pos + q->n;
    if (from % KERN_TILE == 0) {
        memset(kt, 0, l->tile_bytes);
        memset(vt, 0, l->tile_bytes);
    }
    for (size_t pos = from; pos < to; pos++) {
        size_t t = q->first + (pos - q->pos);
        const float *k = j->qkv + t * eager_attn_width(w) + (w->n_heads + head) * w->d;

        put_row(j, kt, vt, pos % KERN_TILE, k, k + w->n_kv * w->d);
    }
}

/* Stores the new rows of sequence Q in tile TI, and packs their queries, for KV head HEAD. */
static void store_tile(const struct attn_job *j, const struct batch_seq *q, size_t ti, size_t head)
{
    size_t from = ti * KERN_TILE > q->pos ? ti * KERN_TILE : q->pos, to = (ti + 1) * KERN_TILE;

    if (!j->w->shared)
        store_keys(j, q, ti, head);
    for (size_t pos = from; pos < to && pos < q->pos + q->n; pos++) {
        size_t t = q->first + (pos - q->pos);
        const float *row = j->qkv + t * eager_attn_width(j->w);

        pack_q(j, packed_at(j, j->g->q, t, head), t, head, row, false);
        if (j->sink_q != j->g->q && past_sink(j, pos))
            pack_q(j, packed_at(j, j->g->sink_q, t, head), t, head, row, true);
    }
}

/* Computes the tasks [begin, end) of phase one. */
static void store_tasks(const struct attn_job *j, size_t begin, size_t end)
{
    size_t s = 0, first = 0; /* first task of sequence S */

    for (size_t at = begin; at < end; at++) {
        const struct batch_seq *q;

        for (; at >= j->plan[s].store_end; s++)
            first = j->plan[s].store_end;
        q = &j->b->seq[s];
        store_tile(j, q, q->pos / KERN_TILE + (at - first) % tiles_of(q), (at - first) / tiles_of(q));
    }
}

static size_t n_store_tasks(const struct attn_job *j)
{
    return j->plan[j->b->n_seqs - 1].store_end;
}

static void store_share(void *ctx, int thread, int n_threads)
{
    const struct attn_job *j = ctx;
    size_t begin, end;

    pool_share(n_store_tasks(j), 1, thread, n_threads, &begin, &end);
    store_tasks(j, begin, end);
}

/* ---- phase two: chunks ---- */

struct thread_buffers {
    float *scores, *out, *acc, *zero;
    float *max, *sum, *acc_max, *acc_sum;
    int32_t *lo, *hi;
    const void **k, **v, **next;
};

/* Returns the bytes of scratch of an attention kernel. The size does not depend on the layer's dp, so that
 * the buffers after the scratch have the same addresses in all layers. */
static size_t score_bytes(const struct eager_limits *lim)
{
    if (lim->kv_dtype == DT_I4)
        return kern_i4_scratch_bytes((lim->head_dim + 15) / 16 * 16);
    return (size_t)ROWS * KERN_CHUNK * sizeof(float) * 2;
}

size_t eager_attn_thread_bytes(const struct eager_limits *lim)
{
    size_t dp = (lim->head_dim + 15) / 16 * 16;

    size_t bytes = score_bytes(lim) + 2 * SPLIT_ROWS * dp * 4 + dp * 4 + 6 * SPLIT_ROWS * 4 +
                   3 * KERN_CHUNK_TILES * sizeof(void *);

    return (bytes + 4095) & ~(size_t)4095; /* so that threads share no cache line and few pages */
}

static struct thread_buffers thread_buffers(const struct eager *g, int thread, size_t dp)
{
    char *p = g->thread_scratch + (size_t)thread * g->thread_bytes;
    struct thread_buffers t;

    t.zero = (float *)(void *)p; /* stays zero: no layer writes to it, whatever its dp */
    t.scores = t.zero + (g->lim.head_dim + 15) / 16 * 16;
    t.out = t.scores + score_bytes(&g->lim) / sizeof(float);
    t.acc = t.out + SPLIT_ROWS * dp;
    t.max = t.acc + SPLIT_ROWS * dp;
    t.sum = t.max + SPLIT_ROWS;
    t.acc_max = t.sum + SPLIT_ROWS;
    t.acc_sum = t.acc_max + SPLIT_ROWS;
    t.lo = (int32_t *)(void *)(t.acc_sum + SPLIT_ROWS);
    t.hi = t.lo + SPLIT_ROWS;
    t.k = (const void **)(void *)(t.hi + SPLIT_ROWS);
    t.v = t.k + KERN_CHUNK_TILES;
    t.next = t.v + KERN_CHUNK_TILES;
    return t;
}

static void score_chunk(const struct eager *g, const struct kern_attn *a)
{
    switch (g->lim.kv_dtype) {
    case DT_I4: g->attn_k->attn_i4(a); break;
    case DT_I8: g->attn_k->attn_i8(a); break;
    case DT_BF16: g->attn_k->attn_bf16(a); break;
    default: g->attn_k->attn_f32(a);
    }
}

/* A piece of attention: the stacked rows [row, row + rows) of a sequence and KV head against one chunk of
 * keys. SINK: only against the keys of the sink in that chunk. */
struct piece {
    const struct batch_seq *q;
    size_t head, row, rows, chunk;
    bool sink;
};

/* Sets P to the chunk of piece number I; the pieces of the sink come first. */
static void set_piece(struct piece *p, size_t i, size_t sinks, size_t first_chunk)
{
    p->sink = i < sinks;
    p->chunk = p->sink ? i : first_chunk + i - sinks;
}

/* Sets [*LO, *HI) to the tokens of the chunk that stacked row R sees. */
static void seen(const struct attn_job *j, const struct piece *p, size_t r, size_t *lo, size_t *hi)
{
    size_t pos = p->q->pos + r / (j->w->n_heads / j->w->n_kv), low = lowest_key(j, pos), end = pos + 1;
    size_t start = p->chunk * KERN_CHUNK, all = p->q->pos + p->q->n;

    if (j->w->two_sided)
        end = j->window && pos + j->window < all ? pos + j->window : all;

    if (p->sink) {
        low = 0;
        end = past_sink(j, pos) ? j->sink : 0;
    }
    *hi = end <= start ? 0 : end - start < KERN_CHUNK ? end - start : KERN_CHUNK;
    *lo = low > start ? low - start : 0;
    if (*lo > *hi)
        *lo = *hi;
}

/* Writes the addresses of the key tiles that the rows of P see to K, by position. Returns their number. */
static size_t keys_of(const struct attn_job *j, const struct piece *p, const void **k)
{
    const struct kv_layer *l = &p->q->kv.layer[j->index];
    const uint32_t *tile = p->q->kv.tile[l->group] + p->chunk * (KERN_CHUNK / KERN_TILE);
    size_t lo, hi, last_lo, last_hi;

    seen(j, p, p->row, &lo, &hi);
    seen(j, p, p->row + p->rows - 1, &last_lo, &last_hi);
    lo /= KERN_TILE;
    hi = (last_hi + KERN_TILE - 1) / KERN_TILE;
    for (size_t i = lo; i < hi; i++)
        k[i - lo] = kv_layer_tile(l, l->k, tile[i], p->head);
    return lo < hi ? hi - lo : 0;
}

/* Computes piece P: the maximum scores MAX, the sums of weights SUM, and the weighted sums of values OUT.
 * NEXT is the next piece of this thread, whose keys are prefetched, or NULL. */
static void chunk(const struct attn_job *j, const struct piece *p, const struct piece *next,
                  const struct thread_buffers *t, float *out, float *max, float *sum)
{
    const struct op_attn *w = j->w;
    const struct kv_layer *l = &p->q->kv.layer[j->index];
    const uint32_t *table = p->q->kv.tile[l->group] + p->chunk * (KERN_CHUNK / KERN_TILE);
    size_t tiles = 0, first = KERN_CHUNK_TILES;
    struct kern_attn a = {.k_tile = t->k,
                          .v_tile = t->v,
                          .next = t->next,
                          .n_next = next ? keys_of(j, next, t->next) : 0,
                          .lo = t->lo,
                          .hi = t->hi,
                          .out = out,
                          .max = max,
                          .sum = sum,
                          .scratch = t->scores,
                          .m = p->rows,
                          .dp = w->dp,
                          .scale = w->scale,
                          .softcap = w->softcap};

    a.q = packed_at(j, p->sink ? j->sink_q : j->g->q, p->q->first, p->head) + p->row * w->dp;
    for (size_t r = 0; r < p->rows; r++) {
        size_t lo, hi;

        seen(j, p, p->row + r, &lo, &hi);
        t->lo[r] = (int32_t)lo;
        t->hi[r] = (int32_t)hi;
        if ((hi + KERN_TILE - 1) / KERN_TILE > tiles)
            tiles = (hi + KERN_TILE - 1) / KERN_TILE;
        if (lo < hi && lo / KERN_TILE < first)
            first = lo / KERN_TILE;
    }
    for (
        size_t i = 0; i < tiles;
        i++) { /* tiles before the window may be freed; no row sees them, so their address only has to be valid */
        uint32_t tile = table[i < first && first < tiles ? first : i];

        t->k[i] = kv_layer_tile(l, l->k, tile, p->head);
        t->v[i] = kv_layer_tile(l, l->v, tile, p->head);
    }
    a.n_tiles = tiles;
    score_chunk(j->g, &a);
}

/* Folds the head's sink logit, undoes the rotation, divides by the sum, and writes the result of row R. */
static void finish_row(const struct attn_job *j, const struct batch_seq *q, size_t head, size_t r, float *m,
                       float *l, float *o, const float *zero)
{
    const struct op_attn *w = j->w;
    const struct kern *k = j->g->attn_k;
    size_t G = w->n_heads / w->n_kv, t = q->first + r / G, h = head * G + r % G;

    if (w->sinks)
        k->attn_fold(m, l, o, w->sinks[h], 1.0f, zero, w->d);
    if (is_rotated(j))
        k->hadamard(o, w->d);
    k->attn_finish(j->a + (t * w->n_heads + h) * w->d, o, *l, w->d);
}

/* A task of phase two, for one KV head: all pieces of one row tile or, in a split sequence, one piece of all
 * stacked rows. */
struct task {
    const struct eager_attn_plan *plan;
    /* The first piece of the task. */
    struct piece p;
    /* For a sequence that is not split: as in struct eager_attn_plan, but for the rows of this task. */
    size_t sinks, first_chunk, pieces;
    /* For a split sequence: the index of the piece in the plan. */
    size_t piece;
};

static void whole_task(const struct attn_job *j, const struct task *u, const struct task *next,
                       const struct thread_buffers *t)
{
    size_t dp = j->w->dp;
    struct piece p = u->p, after;

    for (size_t i = 0; i < u->pieces; i++, p = after) {
        bool first = i == 0; /* the other pieces are folded into the first one */

        after = p;
        set_piece(&after, i + 1, u->sinks, u->first_chunk);
        chunk(j, &p,
              i + 1 < u->pieces ? &after
              : next            ? &next->p
                                : NULL,
              t, first ? t->acc : t->out, first ? t->acc_max : t->max, first ? t->acc_sum : t->sum);
        for (size_t r = 0; r < p.rows && !first; r++)
            j->g->attn_k->attn_fold(&t->acc_max[r], &t->acc_sum[r], t->acc + r * dp, t->max[r], t->sum[r],
                                    t->out + r * dp, dp);
    }
    for (size_t r = 0; r < p.rows; r++)
        finish_row(j, p.q, p.head, p.row + r, &t->acc_max[r], &t->acc_sum[r], t->acc + r * dp, t->zero);
}

/* Computes one piece of a split sequence and stores its results as partial results [head][row][piece]. */
static void split_task(const struct attn_job *j, const struct task *u, const struct task *next,
                       const struct thread_buffers *t)
{
    struct eager *g = j->g;
    const struct piece *p = &u->p;
    size_t dp = j->w->dp;

    chunk(j, p, next ? &next->p : NULL, t, t->out, t->max, t->sum);
    for (size_t r = 0; r < p->rows; r++) {
        size_t at = u->plan->partial + (p->head * u->plan->rows + p->row + r) * u->plan->pieces + u->piece;

        g->partial_m[at] = t->max[r];
        g->partial_l[at] = t->sum[r];
        memcpy(g->partial_o + at * dp, t->out + r * dp, dp * sizeof(float));
    }
}

/* Sets U to task number ITEM of the job, and *SEQ to the index of its sequence; the search starts at the old
 * *SEQ, which must not be higher. Tasks of a head follow each other: in a sequence that is not split, its
 * keys and values stay in L2 for all rows, and the tiles with the most keys come first; in a split sequence,
 * chunks are read in order. */
static void find_task(const struct attn_job *j, size_t *seq, size_t item, struct task *u)
{
    size_t i, last, G = j->w->n_heads / j->w->n_kv;
    const struct eager_attn_plan *plan;
    const struct batch_seq *q;

    while (item >= j->plan[*seq].task_end)
        ++*seq;
    plan = u->plan = &j->plan[*seq];
    q = &j->b->seq[*seq];
    i = item - (*seq ? plan[-1].task_end : 0);
    u->p = (struct piece){.q = q};
    if (plan->split) {
        u->piece = i % plan->pieces;
        u->p.head = i / plan->pieces;
        u->p.rows = plan->rows;
        set_piece(&u->p, u->piece, plan->sinks, plan->first_chunk);
        return;
    }
    u->p.head = i / plan->tiles;
    u->p.row = (plan->tiles - 1 - i % plan->tiles) * plan->tile_rows;
    u->p.rows = plan->rows - u->p.row < plan->tile_rows ? plan->rows - u->p.row : plan->tile_rows;
    last = q->pos + (j->w->two_sided ? q->n - 1 : (u->p.row + u->p.rows - 1) / G);
    u->sinks = sink_pieces(j, last);
    u->first_chunk = lowest_key(j, q->pos + u->p.row / G) / KERN_CHUNK;
    u->pieces = u->sinks + last / KERN_CHUNK + 1 - u->first_chunk;
    set_piece(&u->p, 0, u->sinks, u->first_chunk);
}

/* Computes the tasks [begin, end). The kernel gets the keys of the next task to prefetch them; if another
 * thread computes that task, the prefetches are lost. */
static void chunks_range(void *ctx, int thread, size_t begin, size_t end, size_t end_of_range)
{
    const struct attn_job *j = ctx;
    struct thread_buffers t = thread_buffers(j->g, thread, j->w->dp);
    struct task task[2];
    size_t seq = 0;

    find_task(j, &seq, begin, &task[begin % 2]);
    for (size_t at = begin; at < end; at++) {
        const struct task *u = &task[at % 2], *next = NULL;

        if (at + 1 < end_of_range) {
            find_task(j, &seq, at + 1, &task[(at + 1) % 2]);
            next = &task[(at + 1) % 2];
        }
        if (u->plan->split)
            split_task(j, u, next, &t);
        else
            whole_task(j, u, next, &t);
    }
}

/* ---- phase three: fold split sequences ---- */

/* Folds the pieces of stacked row I, of all KV heads, of the split sequence S. */
static void fold_row(const struct attn_job *j, size_t s, size_t i, const struct thread_buffers *t)
{
    const struct eager_attn_plan *p = &j->plan[s];
    const struct eager *g = j->g;
    size_t first = p->partial + i * p->pieces, dp = j->w->dp;
    float m = -INFINITY, l = 0;

    memset(t->acc, 0, dp * sizeof(float));
    for (size_t c = first; c < first + p->pieces; c++)
        g->attn_k->attn_fold(&m, &l, t->acc, g->partial_m[c], g->partial_l[c], g->partial_o + c * dp, dp);
    finish_row(j, &j->b->seq[s], i / p->rows, i % p->rows, &m, &l, t->acc, t->zero);
}

static void fold_share(void *ctx, int thread, int n_threads)
{
    struct attn_job *j = ctx;
    struct thread_buffers t = thread_buffers(j->g, thread, j->w->dp);
    size_t at = 0;

    for (size_t s = 0; s < j->b->n_seqs; s++)
        for (size_t i = 0; j->plan[s].split && i < j->plan[s].rows * j->w->n_kv; i++, at++)
            if (at % (size_t)n_threads == (size_t)thread)
                fold_row(j, s, i, &t);
}

/* Returns the job for a layer. */
static struct attn_job job_of(struct eager *g, float *a, const float *qkv, const struct op_attn *w,
                              const struct batch *b, size_t layer)
{
    struct attn_job j = {.g = g, .w = w, .b = b, .qkv = qkv, .a = a, .index = layer, .window = w->window};

    if (g->lim.sink && !w->chunk) {
        j.window = g->lim.window[layer];
        j.sink = g->lim.sink[layer];
    }
    j.sink_q = j.sink && w->rope >= 0 ? g->sink_q : g->q;
    ASSERT(w->d <= MAX_DIM && w->dp % 16 == 0, "head size %zu", w->d);
    return j;
}

void eager_attn(const struct op_sink *o, float *a, const float *qkv, const struct op_attn *w,
                const struct batch *b, size_t layer)
{
    struct eager *g = o->ctx;
    struct attn_job j = job_of(g, a, qkv, w, b, layer);
    size_t partials;

    if (b->n_seqs == 0)
        return;
    partials = plan(&j, g->plan);
    pool_run(g->pool, store_share, &j);
    pool_run_ranges(g->pool, j.n_tasks, chunks_range, &j);
    if (partials)
        pool_run(g->pool, fold_share, &j);
}
