/* planned.c - the sinks of a team: what each thread computes of an operator, and when the threads meet. */
#include "ops/planned/planned.h"

#include <string.h>

#include "base/clock.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "ops/eager_priv.h"

enum {
    SPANS = 16,       /* spans that are remembered between two meetings, and in own memory */
    LEAST_TIMES = 32, /* planned.times */
    MOST_TIMES = 1024,
    CALM = 256,  /* jobs after which planned.times is halved */
    EVERYONE = 0 /* struct span.rows: any thread may write or read each part */
};

/* Floats in memory that were read or written. */
struct span {
    const char *begin, *end;
    /* The number of rows, of which each thread has its pool_share(); or EVERYONE. */
    size_t rows;
};

struct spans {
    struct span at[SPANS];
    size_t n;
};

/* A thread of the team. Walkers share no cache line. */
struct walker {
    _Alignas(64) struct op_sink sink;
    struct planned *p;
    struct eager *g;
    int thread;
    /* Spans written and read since the threads last met. Floats in own memory are not listed. */
    struct spans written, read;
    /* Solo steps: spans of the buffers whose current floats are in OWN, the thread's copy of the buffers. */
    struct spans mine;
    char *own;
    /* Solo steps: the input of the current linear in the form of its backend. Else: a row of an embedding. */
    void *in;
    struct eager_attn_team attn;
    /* Attention that the model has asked for and that is computed together with the operator after it; A NULL: none. */
    struct {
        float *a;
        const float *qkv;
        const struct op_attn *w;
        const struct batch *b;
        size_t layer;
    } asked;
    /* The result of the last linear, if it has said which panels are computed; or NULL. */
    const float *counted;
    /* The table of tiles for which attn.alone is right; -1: none. */
    int group;
};

struct planned {
    struct eager *g;
    struct team *team;
    struct walker *walker; /* [threads] */
    char *buffers;
    size_t buffer_bytes;
    void *region;
    size_t region_bytes;
    atomic_uint *finished, *row, *panel; /* struct eager_attn_team */
    size_t n_panels;
    /* The current step. */
    bool solo;
    const struct op_sink *first;
    planned_walk *walk;
    void *walk_ctx;
    /* The time until which steps are left to the eager sink; after the next job in which a thread sleeps, so many times
     * its duration; jobs since the last one in which a thread has slept. */
    uint64_t pause_until_ns, times;
    size_t calm;
    uint64_t sleeps;
    bool insists;
};

/* ---- what threads touch ---- */

static void meet(struct walker *w)
{
    team_meet(w->p->team, w->thread);
    w->written.n = w->read.n = 0;
}

/* Returns true if a thread may have touched a part of [BEGIN, END) that another thread has if it is divided as ROWS. */
static bool is_touched(const struct spans *s, const char *begin, const char *end, size_t rows)
{
    for (size_t i = 0; i < s->n; i++)
        if (begin < s->at[i].end && s->at[i].begin < end && (rows == EVERYONE || s->at[i].rows != rows))
            return true;
    return false;
}

static void note(struct walker *w, struct spans *s, const char *begin, const char *end, size_t rows)
{
    if (s->n == SPANS)
        meet(w);
    s->at[s->n++] = (struct span){begin, end, rows};
}

/* Says that the threads will read the N floats at P. They meet if another thread has written some of them. */
static void will_read(struct walker *w, const void *p, size_t n, size_t rows)
{
    const char *begin = p, *end = begin + n * sizeof(float);

    if (is_touched(&w->written, begin, end, rows))
        meet(w);
    note(w, &w->read, begin, end, rows);
}

/* Says that the threads will write the N floats at P. */
static void will_write(struct walker *w, const void *p, size_t n, size_t rows)
{
    const char *begin = p, *end = begin + n * sizeof(float);

    if (is_touched(&w->written, begin, end, rows) || is_touched(&w->read, begin, end, rows))
        meet(w);
    note(w, &w->written, begin, end, rows);
}

/* ---- own memory ---- */

static float *copy_of(const struct walker *w, const float *p)
{
    return (float *)(void *)(w->own + ((const char *)p - w->p->buffers));
}

/* Forgets the copies of the N floats at P. */
static void drop(struct walker *w, const float *p, size_t n)
{
    const char *begin = (const char *)p, *end = (const char *)(p + n);
    size_t kept = 0;

    for (size_t i = 0; i < w->mine.n; i++)
        if (end <= w->mine.at[i].begin || w->mine.at[i].end <= begin)
            w->mine.at[kept++] = w->mine.at[i];
    w->mine.n = kept;
}

static bool is_mine(const struct walker *w, const float *p)
{
    for (size_t i = 0; i < w->mine.n; i++)
        if ((const char *)p >= w->mine.at[i].begin && (const char *)p < w->mine.at[i].end)
            return true;
    return false;
}

/* Returns the address where this thread reads the N floats at P, of which it has its share of ROWS rows. */
static const float *to_read(struct walker *w, const float *p, size_t n, size_t rows)
{
    if (w->p->solo && is_mine(w, p))
        return copy_of(w, p);
    will_read(w, p, n, w->p->solo ? EVERYONE : rows);
    return p;
}

/* Returns the address where this thread writes the N floats at P. KEEP: it reads them, too. */
static float *to_write(struct walker *w, float *p, size_t n, size_t rows, bool keep)
{
    if (!w->p->solo) {
        if (keep)
            will_read(w, p, n, rows);
        will_write(w, p, n, rows);
        return p;
    }
    if (keep && !is_mine(w, p)) {
        will_read(w, p, n, EVERYONE);
        if (!team_is_away(w->p->team, w->thread))
            memcpy(copy_of(w, p), p, n * sizeof(float));
    }
    drop(w, p, n);
    ASSERT(w->mine.n < SPANS && (char *)p >= w->p->buffers &&
               (char *)(p + n) <= w->p->buffers + w->p->buffer_bytes,
           "%zu floats outside of the buffers", n);
    w->mine.at[w->mine.n++] = (struct span){(char *)p, (char *)(p + n), 0};
    return copy_of(w, p);
}

/* Sets [*BEGIN, *END) to the rows of T that this thread computes. */
static void rows_of(const struct walker *w, size_t T, size_t *begin, size_t *end)
{
    *begin = 0;
    *end = team_is_away(w->p->team, w->thread) ? 0 : T;
    if (!w->p->solo)
        team_share(w->p->team, w->thread, T, begin, end);
}

/* ---- attention ---- */

/* Returns true if Q reads rows of table GROUP that OTHER computes in this step. */
static bool reads_new_rows(const struct batch_seq *q, const struct batch_seq *other, int group)
{
    const uint32_t *tile = q->kv.tile[group], *written = other->kv.tile[group];
    size_t last = (other->pos + other->n - 1) / KERN_TILE, end = (q->pos + q->n - 1) / KERN_TILE;

    for (size_t ti = other->pos / KERN_TILE; ti <= last && ti <= end; ti++)
        if (tile[ti] == written[ti])
            return true;
    return false;
}

/* Returns true if no sequence reads rows of table GROUP that another one computes in this step. */
static bool is_alone(struct walker *w, const struct batch *b, int group)
{
    bool alone = true;

    if (w->group == group)
        return w->attn.alone;
    for (size_t i = 0; i < b->n_seqs; i++)
        for (size_t k = 0; k < b->n_seqs && alone; k++)
            alone = i == k || !reads_new_rows(&b->seq[i], &b->seq[k], group);
    w->group = group;
    return alone;
}

/* Says that attention reads qkv and writes A and, if OUT is not NULL, the input of OUT. COUNTED: its tasks wait for the
 * panels of qkv that they read. A row of the input is written after all panels, which read what it held. */
static void will_attend(struct walker *w, const struct linear *out, bool counted)
{
    const struct op_attn *at = w->asked.w;
    size_t T = w->asked.b->n_tokens, floats = out ? T * linear_in_bytes(out->k) / sizeof(float) : 0;

    if (at->rope >= 0)
        will_read(w, w->g->cos[at->rope], T * w->g->lim.rope_half[at->rope], EVERYONE);
    if (!counted)
        will_read(w, w->asked.qkv, T * eager_attn_width(at), EVERYONE);
    will_write(w, w->asked.a, T * at->n_heads * at->d, EVERYONE);
    if (out && counted)
        note(w, &w->written, (char *)w->g->in, (char *)w->g->in + floats * sizeof(float), EVERYONE);
    else if (out)
        will_write(w, w->g->in, floats, EVERYONE);
}

/* Computes the attention that the model has asked for. OUT: the linear that reads its result next, whose input is
 * written, too; or NULL. */
static void attend(struct walker *w, const struct linear *out)
{
    const struct op_attn *at = w->asked.w;
    const struct batch *b = w->asked.b;
    size_t layer = w->asked.layer;
    bool counted;

    w->attn.alone = is_alone(w, b, b->seq[0].kv.layer[layer].group);
    counted = w->counted == w->asked.qkv && eager_attn_is_fused(w->g, w->attn.alone, at, b, layer);
    will_attend(w, out, counted);
    drop(w, w->asked.a, b->n_tokens * at->n_heads * at->d);
    w->attn.out = out;
    w->attn.in = w->g->in;
    w->attn.panel = counted ? w->p->panel : NULL;
    if (eager_attn_in_team(w->g, &w->attn, w->asked.a, w->asked.qkv, at, b, layer)) {
        w->written.n = w->read.n = 0;
        will_attend(w, out, true);
    }
    w->attn.ops.n = 0;
    w->asked.a = NULL;
}

/* Returns the walker of sink O for an operator that does not read the result of attention as a linear does. */
static struct walker *walker_of(const struct op_sink *o)
{
    struct walker *w = o->ctx;

    if (w->asked.a)
        attend(w, NULL);
    return w;
}

static void on_heads(const struct op_sink *o, bool is_rope)
{
    struct eager_on_heads *ops = &walker_of(o)->attn.ops;

    ASSERT(ops->n < EAGER_ON_HEADS);
    ops->is_rope[ops->n++] = is_rope;
}

static void op_heads(const struct op_sink *o, float *qkv, const struct op_attn *a, size_t T)
{
    (void)qkv, (void)a, (void)T;
    on_heads(o, false);
}

static void op_rope(const struct op_sink *o, float *qkv, const struct op_attn *a, size_t T)
{
    (void)qkv, (void)T;
    if (a->rope >= 0)
        on_heads(o, true);
}

static void op_attn(const struct op_sink *o, float *a, const float *qkv, const struct op_attn *at,
                    const struct batch *b, size_t layer)
{
    struct walker *w = walker_of(o);

    if (b->n_seqs == 0)
        return;
    w->asked.a = a;
    w->asked.qkv = qkv;
    w->asked.w = at;
    w->asked.b = b;
    w->asked.layer = layer;
}

/* ---- operators on rows ---- */

static void op_begin(const struct op_sink *o, const struct rope *ropes, size_t n_ropes, const struct batch *b)
{
    struct walker *w = walker_of(o);
    struct eager *g = w->g;
    size_t begin, end, T = b->n_tokens;

    team_share(w->p->team, w->thread, T, &begin, &end);
    for (size_t i = 0; i < n_ropes; i++) {
        will_write(w, g->cos[i], T * g->lim.rope_half[i], T);
        if (begin < end)
            eager_begin_rope(g, ropes, i, b, begin, end);
    }
}

static void op_embed(const struct op_sink *o, float *x, const struct op_embed *e, const int32_t *index,
                     bool add, size_t T)
{
    struct walker *w = walker_of(o);
    size_t n = e->table.shape[1], begin, end;
    float *to = to_write(w, x, T * n, T, add);

    ASSERT(!add || n <= w->g->lim.linear_k, "%s", e->table.name);
    rows_of(w, T, &begin, &end);
    for (size_t t = begin; t < end; t++)
        eager_embed_row(w->g, to + t * n, e, index[t], add ? w->in : NULL);
}

static void op_norm(const struct op_sink *o, float *h, float *x, const float *r, const struct op_norm *norm,
                    size_t T)
{
    struct walker *w = walker_of(o);
    const struct kern *k = w->g->norm_k;
    size_t n = norm->n, begin, end;
    const float *add = r ? to_read(w, r, T * n, T) : NULL;
    float *from = r ? to_write(w, x, T * n, T, true) : (float *)(uintptr_t)to_read(w, x, T * n, T);
    float *to = to_write(w, h, T * n, T, false);

    rows_of(w, T, &begin, &end);
    for (size_t t = begin; t < end; t++) {
        const float *more = add ? add + t * n : NULL;

        if (norm->layer)
            k->layer_norm(to + t * n, from + t * n, more, norm->w, norm->b, n, norm->eps);
        else
            k->rms_norm(to + t * n, from + t * n, more, norm->w, n, norm->eps);
    }
}

static void op_add(const struct op_sink *o, float *x, const float *r, size_t n, size_t T)
{
    struct walker *w = walker_of(o);
    size_t begin, end;
    const float *from = to_read(w, r, T * n, T);
    float *to = to_write(w, x, T * n, T, true);

    rows_of(w, T, &begin, &end);
    w->g->kern->add(to + begin * n, from + begin * n, (end - begin) * n);
}

static void op_scale(const struct op_sink *o, float *x, float a, size_t n, size_t T)
{
    struct walker *w = walker_of(o);
    size_t begin, end;
    float *to = to_write(w, x, T * n, T, true);

    rows_of(w, T, &begin, &end);
    w->g->kern->scale(to + begin * n, a, (end - begin) * n);
}

static void op_glu(const struct op_sink *o, float *out, const float *gate, size_t ldg, const float *up,
                   size_t ldu, enum kern_act f, size_t n, size_t T)
{
    struct walker *w = walker_of(o);
    size_t begin, end;
    const float *a = to_read(w, gate, (T - 1) * ldg + n, T), *b = to_read(w, up, (T - 1) * ldu + n, T);
    float *to = to_write(w, out, T * n, T, false);

    rows_of(w, T, &begin, &end);
    for (size_t t = begin; t < end; t++)
        w->g->mlp_k->glu(to + t * n, a + t * ldg, b + t * ldu, n, f);
}

static void op_rows(const struct op_sink *o, float *dst, const float *src, const uint32_t *index, size_t n,
                    size_t n_rows)
{
    struct walker *w = walker_of(o);
    size_t begin, end, last = 0;
    const float *from;
    float *to;

    for (size_t i = 0; i < n_rows; i++)
        last = index[i] > last ? index[i] : last;
    from = to_read(w, src, (last + 1) * n, EVERYONE);
    to = to_write(w, dst, n_rows * n, n_rows, false);
    rows_of(w, n_rows, &begin, &end);
    for (size_t i = begin; i < end; i++)
        memcpy(to + i * n, from + index[i] * n, n * sizeof(float));
}

/* One row of logits is enough work for all threads. */
static void op_softcap(const struct op_sink *o, float *x, float cap, size_t n, size_t T)
{
    struct walker *w = walker_of(o);
    size_t begin, end;

    will_read(w, x, n * T, EVERYONE);
    will_write(w, x, n * T, EVERYONE);
    team_share(w->p->team, w->thread, n * T, &begin, &end);
    if (begin < end)
        w->g->kern->softcap(x + begin, cap, end - begin);
}

static void op_tap(const struct op_sink *o, size_t layer, const float *x, const float *r, const float *h,
                   size_t T)
{
    (void)o, (void)layer, (void)x, (void)r, (void)h, (void)T;
}

/* ---- linears ---- */

/* Writes X [T, k] as the input of L, and returns the input. */
static const void *put_rows(struct walker *w, const struct linear *l, const float *x, size_t T)
{
    struct linear uncounted;
    const float *from = to_read(w, x, T * l->k, T);
    void *in = w->p->solo ? w->in : w->g->in;
    size_t begin, end;

    if (l->seen && w->p->solo && w->thread > 0) { /* calibration counts a row once */
        uncounted = *l;
        uncounted.seen = NULL;
        l = &uncounted;
    }
    if (!w->p->solo)
        will_write(w, in, T * linear_in_bytes(l->k) / sizeof(float), T);
    rows_of(w, T, &begin, &end);
    for (size_t t = begin; t < end; t++)
        linear_put(l, w->g->pool, w->thread, in, from + t * l->k, t, T);
    return in;
}

/* A run of q, k and v that says which panels are computed. */
struct counted_job {
    struct linear_job job;
    const struct walker *w;
};

static void counted_range(void *ctx, int thread, size_t begin, size_t end, size_t end_of_range)
{
    struct counted_job *c = ctx;

    linear_job_range(&c->job, thread, begin, end, end_of_range);
    team_say(c->w->p->team, c->w->p->panel + begin, end - begin, c->w->attn.number);
}

/* Computes tasks of L for the input IN, and writes the results as END says: N floats. */
static void multiply(struct walker *w, const struct linear *l, const void *in, const struct linear_end *end,
                     size_t n, size_t T)
{
    struct counted_job c = {{.l = l, .pool = w->g->pool, .in = in, .end = *end, .m = T}, w};
    size_t tasks = linear_job_open(&c.job);
    bool counts = l->kind == OP_QKV && !w->p->solo && c.job.parts == 1 && c.job.panels <= w->p->n_panels;

    if (in != w->in)
        will_read(w, in, T * linear_in_bytes(l->k) / sizeof(float), EVERYONE);
    will_write(w, end->y ? (const void *)end->y : end->next, n, EVERYONE);
    if (end->y)
        drop(w, end->y, n);
    w->counted = counts ? end->y : NULL;
    w->attn.number += counts;
    team_tasks(w->p->team, w->thread, tasks, counts ? counted_range : linear_job_range, &c);
}

static void op_linear(const struct op_sink *o, float *y, const struct linear *l, const float *x, size_t T)
{
    struct walker *w = o->ctx;
    const void *in = w->g->in;

    ASSERT(l->k <= w->g->lim.linear_k, "%s", l->name);
    if (T == 0)
        return;
    if (w->asked.a == x && !w->p->solo && !l->seen)
        attend(w, l);
    else
        in = put_rows(walker_of(o), l, x, T);
    multiply(w, l, in, &(struct linear_end){.y = y, .ldy = l->n}, T * l->n, T);
}

static void op_mlp(const struct op_sink *o, float *r, const struct op_mlp *m, const float *h, size_t T)
{
    struct walker *w = walker_of(o);
    struct eager *g = w->g;
    const struct linear *down = &m->down;
    size_t floats = T * linear_in_bytes(down->k) / sizeof(float);
    struct linear_end end = {.activated = true, .act = m->act};
    const void *in;

    ASSERT(m->up.k <= g->lim.linear_k && down->k <= g->lim.linear_k && down->k <= g->lim.inner, "%s",
           m->up.name);
    in = put_rows(w, &m->up, h, T);
    if (linear_leads_into(&m->up, down)) {
        end.next = g->middle;
        multiply(w, &m->up, in, &end, floats, T);
        in = g->middle;
    } else {
        end.y = g->middle;
        end.ldy = down->k;
        multiply(w, &m->up, in, &end, floats, T);
        in = put_rows(w, down, g->middle, T);
    }
    multiply(w, down, in, &(struct linear_end){.y = r, .ldy = down->n}, T * down->n, T);
}

static void op_moe(const struct op_sink *o, float *r, const struct moe *m, const float *h, const float *route,
                   size_t T)
{
    (void)o, (void)r, (void)m, (void)h, (void)route, (void)T;
    ASSERT(false, "mixtures of experts are computed by the eager sink");
}

/* ---- a step ---- */

static void walk_share(void *ctx, int thread, int n_threads)
{
    struct planned *p = ctx;
    struct walker *w = &p->walker[thread];

    (void)n_threads;
    w->written.n = w->read.n = w->mine.n = 0;
    w->attn.ops.n = 0;
    w->group = -1;
    w->asked.a = NULL;
    w->counted = NULL;
    p->walk(p->walk_ctx, thread == 0 ? p->first : &w->sink);
    walker_of(&w->sink);
}

bool planned_is_solo(size_t rows)
{
    return rows <= PLANNED_SOLO;
}

/* Leaves steps to the eager sink if a thread has slept in the job that began at BEGIN_NS: for so long that such jobs
 * take a small share of the time. */
static void note_sleeps(struct planned *p, uint64_t begin_ns)
{
    uint64_t sleeps = team_sleeps(p->team), now = clock_ns();

    if (sleeps != p->sleeps) {
        p->pause_until_ns = now + (now - begin_ns) * p->times;
        p->times = p->times * 2 < MOST_TIMES ? p->times * 2 : MOST_TIMES;
        p->calm = 0;
    } else if (++p->calm % CALM == 0 && p->times > LEAST_TIMES) {
        p->times /= 2;
    }
    p->sleeps = sleeps;
}

void planned_run(struct planned *p, size_t rows, const struct op_sink *first, planned_walk *walk, void *ctx)
{
    uint64_t begin_ns = clock_ns();

    p->solo = planned_is_solo(rows);
    p->first = first;
    p->walk = walk;
    p->walk_ctx = ctx;
    team_begin(p->team);
    pool_run(p->g->pool, walk_share, p);
    note_sleeps(p, begin_ns);
}

void planned_copy(const struct planned *p, float *to, const float *from, size_t n)
{
    const struct walker *w = &p->walker[0];

    memcpy(to, is_mine(w, from) ? copy_of(w, from) : from, n * sizeof(float));
}

bool planned_takes(struct planned *p, const struct batch *b, bool tail)
{
    const struct eager *g = p->g;
    bool fits = !g->hidden && !g->lim.n_experts;

    if (p->pause_until_ns && !p->insists && clock_ns() < p->pause_until_ns)
        return false;
    if (tail)
        return fits && b->n_wanted && b->n_wanted <= PLANNED_ROWS;
    fits &= b->n_tokens <= PLANNED_ROWS && b->n_tokens > 0;
    for (size_t s = 0; s < b->n_seqs; s++)
        fits &= b->seq[s].n <= PLANNED_SEQ;
    if (fits)
        p->g->batch = b;
    return fits;
}

const struct op_sink *planned_sink(const struct planned *p)
{
    return &p->walker[0].sink;
}

size_t planned_bytes(const struct planned *p)
{
    return p->region_bytes;
}

uint64_t planned_meetings(const struct planned *p)
{
    return team_meetings(p->team);
}

void planned_insist(struct planned *p)
{
    p->insists = true;
}

/* ---- open, close ---- */

static size_t lay_out_walkers(struct planned *p, char *base)
{
    const struct eager_limits *l = &p->g->lim;
    size_t at = 0, dp = (l->head_dim + 15) / 16 * 16, k = l->linear_k > l->inner ? l->linear_k : l->inner;

    p->n_panels = ((l->n_heads + 2 * l->n_kv) * l->head_dim + KERN_NR - 1) / KERN_NR;
    p->panel = map_carve(base, &at, p->n_panels * sizeof(*p->panel));
    p->row = map_carve(base, &at, PLANNED_ROWS * sizeof(*p->row));
    p->finished = map_carve(base, &at, l->max_seqs * l->n_kv * sizeof(*p->finished));
    p->walker = map_carve(base, &at, (size_t)pool_threads(p->g->pool) * sizeof(*p->walker));
    for (int t = 0; t < pool_threads(p->g->pool); t++) {
        struct walker here = {0}, *w = base ? &p->walker[t] : &here;

        w->own = map_carve(base, &at, p->buffer_bytes);
        w->in = map_carve(base, &at, PLANNED_SOLO * linear_in_bytes(k));
        w->attn.plan = map_carve(base, &at, eager_attn_plan_bytes(l));
        w->attn.q = map_carve(base, &at, eager_attn_task_rows() * dp * sizeof(float));
    }
    return at;
}

static void open_walker(struct planned *p, int thread)
{
    struct walker *w = &p->walker[thread];

    w->p = p;
    w->g = p->g;
    w->thread = thread;
    w->attn.team = p->team;
    w->attn.thread = thread;
    w->attn.finished = p->finished;
    w->attn.row = p->row;
    w->sink = (struct op_sink){.begin = op_begin,
                               .embed = op_embed,
                               .norm = op_norm,
                               .linear = op_linear,
                               .heads = op_heads,
                               .rope = op_rope,
                               .attn = op_attn,
                               .mlp = op_mlp,
                               .moe = op_moe,
                               .glu = op_glu,
                               .scale = op_scale,
                               .softcap = op_softcap,
                               .add = op_add,
                               .rows = op_rows,
                               .logits = op_linear,
                               .tap = op_tap,
                               .ctx = w};
}

int planned_new(struct planned **out, struct eager *g, char *buffers, size_t bytes, struct err *e)
{
    struct planned *p = mem_zalloc(1, sizeof(*p), MEM_ENGINE);
    int rc;

    *out = NULL;
    if (!p)
        return err_nomem(e, "the operator sinks of threads");
    *p = (struct planned){.g = g, .buffers = buffers, .buffer_bytes = bytes, .times = LEAST_TIMES};
    if ((rc = team_new(&p->team, g->pool, e)) != 0) {
        planned_free(p);
        return rc;
    }
    p->region_bytes = lay_out_walkers(p, NULL);
    p->region = map_region_new(p->region_bytes);
    if (!p->region) {
        planned_free(p);
        return err_nomem(e, "the operator sinks of threads");
    }
    lay_out_walkers(p, p->region);
    for (int t = 0; t < pool_threads(g->pool); t++)
        open_walker(p, t);
    *out = p;
    return 0;
}

void planned_free(struct planned *p)
{
    if (!p)
        return;
    team_free(p->team);
    map_region_free(p->region, p->region_bytes);
    mem_free(p);
}
