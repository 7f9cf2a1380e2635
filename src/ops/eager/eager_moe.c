/* eager_moe.c - mixture of experts of the eager sink: routes rows, groups them by expert, computes the groups
 * and adds the results.
 *
 * The rows of one expert are adjacent in the grouped buffers: experts ascending, and tokens ascending within
 * an expert. The panels of all experts are one list, from which threads take parts that become smaller
 * towards its end. So a decode step of a few tokens has as many barriers as a dense MLP, and the threads
 * finish together. The activation is part of the epilogue of gate and up, unless it has limits. One thread
 * adds all results of a token, in ascending order of the experts' indices. Neither the batch nor the number
 * of threads can change a bit, because each element of a linear has the same sum on every thread.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/files/map.h"
#include "kern/kern.h"
#include "kern/kmath.h"
#include "ops/eager/eager_priv.h"
#include "ops/moe.h"

/* Maximum tokens of one pass. A larger step makes several passes, so that the scratch is bounded. */
enum { PASS_TOKENS = 1024 };

/* The buffers in the scratch. P is the maximum number of tokens of a pass, R = P * top_k. */
struct buffers {
    /* The results of the router, [P, n_experts]. */
    float *logits;
    /* The weights of the chosen experts, [P, top_k]. */
    float *weight;
    /* The chosen experts of a token, [P, top_k], ascending. */
    uint32_t *chosen;
    /* The indices of a token's rows in the grouped buffers, [P, top_k]. */
    uint32_t *row;
    /* The first row of each expert in the grouped buffers, [n_experts + 1]. */
    uint32_t *first;
    /* The experts that have rows, ascending; at most [n_experts]. */
    uint32_t *hit;
    /* The grouped inputs, [R, E], in the form that the up linears read. */
    void *in;
    /* Gate and up, [R, 2 I], if an activation with limits is computed between the linears; the result of the
     * activation, [R, I], if linear_put() rounds it row by row. */
    float *up;
    /* The result of the activation, [R, I], in the form that the down linears read. */
    void *middle;
    /* The results of the experts, [R, E]. */
    float *out;
};

struct moe_job {
    struct eager *g;
    const struct moe *w;
    struct buffers b;
    /* The input and the result of this pass, [P, E] each. */
    const float *h;
    float *r;
    /* Number of experts that have rows, and number of panels of one linear of an expert. */
    size_t n_hit, panels;
    /* True while the down linears are computed. */
    bool down;
    /* The next panel of the list that no thread has taken. */
    atomic_size_t next;
};

static size_t lay_out(const struct eager_limits *l, char *base, struct buffers *b)
{
    size_t T = l->max_tokens < PASS_TOKENS ? l->max_tokens : PASS_TOKENS, R = T * l->top_k, at = 0;

    b->logits = map_carve(base, &at, T * l->n_experts * 4);
    b->weight = map_carve(base, &at, R * 4);
    b->chosen = map_carve(base, &at, R * 4);
    b->row = map_carve(base, &at, R * 4);
    b->first = map_carve(base, &at, (l->n_experts + 1) * 4);
    b->hit = map_carve(base, &at, l->n_experts * 4);
    b->in = map_carve(base, &at, R * linear_in_bytes(l->hidden));
    b->up = map_carve(base, &at, R * 2 * l->expert_inner * 4);
    b->middle = map_carve(base, &at, R * linear_in_bytes(l->expert_inner));
    b->out = map_carve(base, &at, R * l->hidden * 4);
    return at;
}

size_t eager_moe_bytes(const struct eager_limits *lim)
{
    struct buffers b;

    return lim->n_experts ? lay_out(lim, NULL, &b) : 0;
}

/* ---- routing ---- */

/* Writes the indices of the K largest of N LOGITs to TOP, largest first; of equal logits, the lower index
 * comes first. A NaN never moves up, but K experts are always chosen. */
static void choose_experts(const float *logit, size_t n, size_t k, uint32_t *top)
{
    size_t have = 0;

    for (uint32_t x = 0; x < n; x++) {
        size_t at = have;

        while (at > 0 && logit[x] > logit[top[at - 1]])
            at--;
        if (at == k)
            continue;
        have += have < k;
        for (size_t i = have - 1; i > at; i--)
            top[i] = top[i - 1];
        top[at] = x;
    }
}

static void weigh_experts(const struct kern *k, const struct moe *w, const float *logit, const uint32_t *top,
                          float *weight)
{
    float max = logit[top[0]], sum = 0;

    if (w->gate == MOE_SOFTMAX_ALL)
        sum = k->exp_sum(logit, w->n_experts, max);
    for (size_t i = 0; i < w->top_k; i++) {
        float x = logit[top[i]];

        weight[i] = w->gate == MOE_SIGMOID ? 1.0f / (1.0f + kmath_exp(-x)) : kmath_exp(x - max);
        if (w->gate == MOE_SOFTMAX_CHOSEN)
            sum += weight[i];
    }
    for (size_t i = 0; i < w->top_k && w->gate != MOE_SIGMOID; i++)
        weight[i] /= sum;
    sum = 0;
    for (size_t i = 0; i < w->top_k; i++)
        sum += weight[i];
    for (size_t i = 0; i < w->top_k; i++) {
        if (w->renorm)
            weight[i] /= sum;
        if (w->expert_scale)
            weight[i] *= w->expert_scale[top[i]];
    }
}

static void route_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct moe_job *j = ctx;
    const struct moe *w = j->w;
    size_t k = w->top_k;

    (void)thread;
    for (size_t t = begin; t < end; t++) {
        uint32_t *top = j->b.chosen + t * k;
        float *weight = j->b.weight + t * k;

        choose_experts(j->b.logits + t * w->n_experts, w->n_experts, k, top);
        weigh_experts(j->g->kern, w, j->b.logits + t * w->n_experts, top, weight);
        for (size_t i = 1; i < k; i++) { /* sort by expert, in which order the results are added */
            uint32_t x = top[i];
            float a = weight[i];
            size_t at = i;

            for (; at > 0 && top[at - 1] > x; at--) {
                top[at] = top[at - 1];
                weight[at] = weight[at - 1];
            }
            top[at] = x;
            weight[at] = a;
        }
    }
}

/* Counts the rows of each expert, and gives each token and chosen expert a row of the grouped buffers. */
static void group_rows(struct moe_job *j, size_t T)
{
    const struct buffers *b = &j->b;
    size_t n = j->w->n_experts, R = T * j->w->top_k;

    memset(b->first, 0, (n + 1) * sizeof(*b->first));
    for (size_t i = 0; i < R; i++)
        b->first[b->chosen[i] + 1]++;
    j->n_hit = 0;
    for (uint32_t x = 0; x < n; x++) {
        if (b->first[x + 1])
            b->hit[j->n_hit++] = x;
        b->first[x + 1] += b->first[x];
    }
    for (size_t i = 0; i < R; i++)
        b->row[i] = b->first[b->chosen[i]]++;
    for (size_t x = n; x > 0; x--) /* undo the shift by one expert that the loop above made */
        b->first[x] = b->first[x - 1];
    b->first[0] = 0;
}

/* ---- the experts ---- */

/* Writes X as row ROW of the grouped buffers, in the form that the up (DOWN: down) linear of EXPERT reads. */
static void put_row(const struct moe_job *j, int thread, size_t expert, bool down, size_t row, const float *x)
{
    const struct buffers *b = &j->b;
    const struct linear *l = down ? &j->w->expert[expert].down : &j->w->expert[expert].up;
    size_t first = b->first[expert], m = b->first[expert + 1] - first;

    linear_put(l, j->g->pool, thread, (char *)(down ? b->middle : b->in) + first * linear_in_bytes(l->k), x,
               row - first, m);
}

static void gather_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct moe_job *j = ctx;
    const struct moe *w = j->w;
    size_t E = j->g->lim.hidden;

    for (size_t t = begin; t < end; t++)
        for (size_t i = 0; i < w->top_k; i++) {
            size_t row = j->b.row[t * w->top_k + i];
            float *scaled = j->b.out + row * E; /* scratch: the buffer holds no results yet */
            const float *src = j->h + t * E;

            if (w->scale_input) {
                memcpy(scaled, src, E * sizeof(float));
                j->g->kern->scale(scaled, j->b.weight[t * w->top_k + i], E);
                src = scaled;
            }
            put_row(j, thread, j->b.chosen[t * w->top_k + i], false, row, src);
        }
}

/* Returns true if the epilogue of gate and up writes the form that the down linears read. */
static bool is_fused(const struct moe *w)
{
    return w->expert[0].up.paired && linear_leads_into(&w->expert[0].up, &w->expert[0].down);
}

/* Computes the panels [p0, p1) of expert X's up linear, or of its down linear if j->down. */
static void run_panels(const struct moe_job *j, int thread, uint32_t x, size_t p0, size_t p1)
{
    const struct buffers *b = &j->b;
    const struct moe_expert *w = &j->w->expert[x];
    size_t E = j->g->lim.hidden, I = j->w->inner, row = b->first[x], m = b->first[x + 1] - row;
    const void *in = (const char *)b->in + row * linear_in_bytes(E);
    void *middle = (char *)b->middle + row * linear_in_bytes(I);

    if (j->down)
        linear_run_panels(&w->down, j->g->pool, thread, middle, b->out + row * E, E, m, p0, p1);
    else if (is_fused(j->w))
        linear_run_panels_into(&w->up, j->g->pool, thread, in, middle, j->w->act, m, p0, p1);
    else if (w->up.paired)
        linear_run_panels_act(&w->up, j->g->pool, thread, in, b->up + row * I, I, j->w->act, m, p0, p1);
    else
        linear_run_panels(&w->up, j->g->pool, thread, in, b->up + row * 2 * I, 2 * I, m, p0, p1);
}

/* Takes the next range of panels of the list, which has TOTAL, as [*begin, *end). Returns false if all are
 * taken. */
static bool take_panels(struct moe_job *j, size_t total, int n_threads, size_t *begin, size_t *end)
{
    size_t at = atomic_load(&j->next), share;

    do {
        if (at >= total)
            return false;
        share = (total - at) / (4 * (size_t)n_threads) + 1;
    } while (!atomic_compare_exchange_weak(&j->next, &at, at + share));
    *begin = at;
    *end = at + share;
    return true;
}

/* Takes panels from the list and computes them until none are left. The list has the panels of all experts
 * with rows, experts ascending. */
static void panels_share(void *ctx, int thread, int n_threads)
{
    struct moe_job *j = ctx;
    size_t at, end;

    while (take_panels(j, j->n_hit * j->panels, n_threads, &at, &end))
        while (at < end) {
            size_t p0 = at % j->panels, n = j->panels - p0 < end - at ? j->panels - p0 : end - at;

            run_panels(j, thread, j->b.hit[at / j->panels], p0, p0 + n);
            at += n;
        }
}

static void run_experts(struct moe_job *j, bool down)
{
    const struct moe_expert *any = &j->w->expert[0];

    j->down = down;
    j->panels = (linear_columns(down ? &any->down : &any->up) + KERN_NR - 1) / KERN_NR;
    atomic_store(&j->next, 0);
    pool_run(j->g->pool, panels_share, j);
}

/* Clamps gate and up, and scales them so that silu(gate) * up gives the activation of GPT-OSS: (up + 1) *
 * gate * sigmoid(alpha gate) = silu(alpha gate) * (up + 1) / alpha. */
static void clamp_row(const struct moe *w, float *gate, float *up)
{
    for (size_t i = 0; i < w->inner; i++)
        gate[i] = (gate[i] > w->limit ? w->limit : gate[i]) * w->alpha;
    for (size_t i = 0; i < w->inner; i++) {
        float u = up[i] > w->limit ? w->limit : up[i];

        up[i] = ((u < -w->limit ? -w->limit : u) + 1.0f) / w->alpha;
    }
}

static void act_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct moe_job *j = ctx;
    const struct moe *w = j->w;
    size_t I = w->inner, expert = 0;

    for (size_t i = begin; i < end; i++) {
        float *gate = j->b.up + i * (w->expert[0].up.paired ? I : 2 * I);

        while (j->b.first[expert + 1] <= i)
            expert++;
        if (w->limit > 0)
            clamp_row(w, gate, gate + I);
        if (!w->expert[0].up.paired)
            j->g->mlp_k->glu(gate, gate, gate + I, I, w->limit > 0 ? KERN_SILU : w->act);
        put_row(j, thread, expert, true, i, gate);
    }
}

static void add_up_rows(void *ctx, int thread, size_t begin, size_t end)
{
    const struct moe_job *j = ctx;
    size_t E = j->g->lim.hidden, k = j->w->top_k;

    (void)thread;
    for (size_t t = begin; t < end; t++) {
        memset(j->r + t * E, 0, E * sizeof(float));
        for (size_t i = t * k; i < (t + 1) * k; i++)
            j->g->kern->scale_add(j->r + t * E, j->b.out + j->b.row[i] * E,
                                  j->w->scale_input ? 1.0f : j->b.weight[i], E);
    }
}

void eager_moe(const struct op_sink *o, float *r, const struct moe *w, const float *h, const float *route,
               size_t T)
{
    struct eager *g = o->ctx;
    struct moe_job j = {.g = g, .w = w};
    size_t E = g->lim.hidden;

    ASSERT(E <= g->lim.linear_k && w->n_experts <= g->lim.n_experts && w->top_k <= g->lim.top_k &&
               w->inner <= g->lim.expert_inner && w->top_k <= w->n_experts && w->router.k == E &&
               !(w->expert[0].up.paired && w->limit > 0),
           "%s", w->router.name);
    lay_out(&g->lim, g->moe, &j.b);
    for (size_t t = 0; t < T; t += PASS_TOKENS) {
        size_t n = T - t < PASS_TOKENS ? T - t : PASS_TOKENS;

        j.h = h + t * E;
        j.r = r + t * E;
        linear_put_all(&w->router, g->pool, g->in, (route ? route : h) + t * E, n);
        linear_run(&w->router, g->pool, g->in, j.b.logits, w->n_experts, n);
        eager_rows(g, n, route_rows, &j);
        group_rows(&j, n);
        eager_rows(g, n, gather_rows, &j);
        run_experts(&j, false);
        if (!is_fused(w))
            eager_rows(g, n * w->top_k, act_rows, &j);
        run_experts(&j, true);
        eager_rows(g, n, add_up_rows, &j);
    }
}
