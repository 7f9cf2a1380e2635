/* sample.c - the stages of sampling over one row of logits, without a full sort and without allocating.
 *
 * top_k, top_p, min_p and the K likeliest tokens skip slices of 64 logits whose maximum is too small. Thresholds are
 * found by quickselect on copies; the list of candidates stays in order of ids. If no stage drops tokens, there is no
 * list of candidates. The tokens that top_n_sigma and xtc drop get the logit -infinity.
 *
 * All exponentials, also of single tokens, are computed by the kernels, so that a pick is the same on every machine of
 * an arithmetic class.
 */
#include "engine/sampling/sample.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/sampling/dry.h"
#include "engine/sampling/sampling.h"
#include "kern/kern.h"

/* find_best() makes all passes over PAGE logits (16 KB) before the next PAGE, so that they stay in the level
 * 1 cache. */
enum { MAX_SLICE = 64, SUM_SLICE = SAMPLE_SELECT_SLICE, PAGE = 4096 };

/* ---- history ---- */

/* The hash table has open addressing with linear probing and is at most half full. Entries are never removed;
 * a count may return to 0. */
int sample_history_reserve(struct sample_history *h, size_t cap, struct arena *a, struct err *e)
{
    *h = (struct sample_history){0};
    h->n_slots = 2;
    while (h->n_slots < 2 * cap)
        h->n_slots *= 2;
    h->id = arena_zalloc(a, cap, sizeof(*h->id));
    h->count = arena_zalloc(a, cap, sizeof(*h->count));
    h->in_prompt = arena_zalloc(a, cap, sizeof(*h->in_prompt));
    h->slot = arena_zalloc(a, h->n_slots, sizeof(*h->slot));
    if (!h->id || !h->count || !h->in_prompt || !h->slot) {
        *h = (struct sample_history){0};
        return err_nomem(e, "token counts of a sequence");
    }
    h->cap = cap;
    return 0;
}

bool sample_history_counts(const struct sampling *p)
{
    return p->repetition_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0;
}

void sample_history_begin(struct sample_history *h, const struct sampling *p, const int32_t *prompt, size_t n)
{
    if (h->cap == 0)
        return;
    memset(h->count, 0, h->n * sizeof(*h->count));
    memset(h->in_prompt, 0, h->n * sizeof(*h->in_prompt));
    memset(h->slot, 0, h->n_slots * sizeof(*h->slot));
    h->n = 0;
    for (size_t i = 0; i < n && p->repetition_penalty != 1; i++) {
        sample_history_add(h, prompt[i]);
        h->in_prompt[h->n - 1] = true;
    }
    memset(h->count, 0, h->n * sizeof(*h->count));
}

int sample_allowed(uint32_t **out, const struct sampling *p, size_t n_vocab, struct arena *a)
{
    uint32_t *bits;

    *out = NULL;
    if (p->n_allowed == 0)
        return 0;
    bits = arena_zalloc(a, (n_vocab + 31) / 32, sizeof(*bits));
    for (size_t i = 0; bits && i < p->n_allowed; i++)
        bits[p->allowed[i] / 32] |= UINT32_C(1) << p->allowed[i] % 32;
    *out = bits;
    return bits ? 0 : ERR_NOMEM;
}

size_t sample_history_cap(size_t n_prompt, size_t max_new, size_t n_vocab)
{
    size_t cap;

    return __builtin_add_overflow(n_prompt, max_new, &cap) || cap > n_vocab ? n_vocab : cap;
}

int sample_history_init(struct sample_history *h, const struct sampling *p, const int32_t *prompt,
                        size_t n_prompt, size_t max_new, size_t n_vocab, struct arena *a, struct err *e)
{
    uint32_t *allowed;
    int rc = 0;

    *h = (struct sample_history){0};
    if (sample_allowed(&allowed, p, n_vocab, a) != 0)
        return err_nomem(e, "a request");
    if (sample_history_counts(p) &&
        (rc = sample_history_reserve(h, sample_history_cap(n_prompt, max_new, n_vocab), a, e)) == 0)
        sample_history_begin(h, p, prompt, n_prompt);
    h->allowed = allowed;
    return rc;
}

/* Returns the slot of ID, or the free slot in which ID is to be inserted. */
static uint32_t *find_slot(const struct sample_history *h, int32_t id)
{
    size_t mask = h->n_slots - 1, at = ((uint32_t)id * UINT32_C(2654435769)) >> 7 & mask;

    while (h->slot[at] && h->id[h->slot[at] - 1] != id)
        at = (at + 1) & mask;
    return &h->slot[at];
}

void sample_history_add(struct sample_history *h, int32_t id)
{
    uint32_t *slot;

    if (h->cap == 0)
        return;
    slot = find_slot(h, id);
    if (!*slot) {
        ASSERT(h->n < h->cap, "token %d exceeds the capacity of %zu distinct tokens", id, h->cap);
        h->id[h->n] = id;
        *slot = (uint32_t)++h->n;
    }
    h->count[*slot - 1]++;
}

void sample_history_undo(struct sample_history *h, int32_t id)
{
    uint32_t *slot;

    if (h->cap == 0)
        return;
    slot = find_slot(h, id);
    ASSERT(*slot && h->count[*slot - 1] > 0, "token %d is not in the output", id);
    /* A token that only a guess has added is removed again, so that guesses do not fill the list. Tokens that were
     * added later have been removed before, so no probe sequence passes its slot. */
    if (--h->count[*slot - 1] == 0 && *slot == h->n && !h->in_prompt[*slot - 1]) {
        h->n--;
        *slot = 0;
    }
}

void sample_history_copy(struct sample_history *to, const struct sample_history *from)
{
    ASSERT(to->cap == from->cap, "histories of %zu and %zu tokens", to->cap, from->cap);
    if (from->cap == 0)
        return;
    to->n = from->n;
    memcpy(to->id, from->id, from->n * sizeof(*from->id));
    memcpy(to->count, from->count, from->n * sizeof(*from->count));
    memcpy(to->in_prompt, from->in_prompt, from->n * sizeof(*from->in_prompt));
    memcpy(to->slot, from->slot, from->n_slots * sizeof(*from->slot));
}

/* ---- order statistics ---- */

/* Returns the next index of a pivot below N. The linear congruential sequence is fixed, so that results are
 * reproducible and sorted input is not slow. */
static size_t pivot_at(uint32_t *state, size_t n)
{
    *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
    return (size_t)(((uint64_t)*state * n) >> 32);
}

/* Partitions X [n] without branches: values larger than V move to the front of X, smaller values are copied
 * to SCRATCH, and both are counted. */
static void split(float *x, float *scratch, size_t n, float v, size_t *n_larger, size_t *n_smaller)
{
    size_t larger = 0, smaller = 0;

    for (size_t i = 0; i < n; i++) {
        float one = x[i];

        x[larger] = one;
        scratch[smaller] = one;
        larger += one > v;
        smaller += one < v;
    }
    *n_larger = larger;
    *n_smaller = smaller;
}

static void swap_arrays(float **a, float **b)
{
    float *old = *a;

    *a = *b;
    *b = old;
}

float sample_select_kth(float *x, float *scratch, size_t n, size_t k)
{
    uint32_t state = 1;

    for (;;) {
        float v = x[pivot_at(&state, n)];
        size_t larger, smaller;

        split(x, scratch, n, v, &larger, &smaller);
        if (k <= larger) {
            n = larger;
        } else if (k <= n - smaller) {
            return v;
        } else {
            k -= n - smaller;
            n = smaller;
            swap_arrays(&x, &scratch);
        }
    }
}

/* Returns the sum of exp(x - MAX) over X [n], in slices whose sums are added in double. */
static double sum_slices(const struct kern *k, const float *x, size_t n, float max)
{
    double sum = 0;

    for (size_t i = 0; i < n; i += SUM_SLICE)
        sum += k->exp_sum(x + i, n - i < SUM_SLICE ? n - i : SUM_SLICE, max);
    return sum;
}

double sample_select_sum(const struct kern *k, const float *y, size_t n)
{
    return sum_slices(k, y, n, 0);
}

/* Each iteration either keeps all values from a pivot upwards, or drops the pivot and all values below it. */
struct sample_select_cut sample_select_mass(const struct kern *k, float *y, float *scratch, size_t n,
                                            double mass)
{
    struct sample_select_cut cut = {.n_equal = SIZE_MAX};
    uint32_t state = 1;
    double front = 0;

    while (n > 0 && front < mass) {
        float v = y[pivot_at(&state, n)];
        size_t larger, smaller, equal;
        double sum, weight;

        split(y, scratch, n, v, &larger, &smaller);
        sum = front + sample_select_sum(k, y, larger);
        if (sum >= mass) {
            n = larger;
            continue;
        }
        weight = k->exp_sum(&v, 1, 0);
        equal = n - larger - smaller;
        for (size_t i = 0; i < equal; i++) {
            if (sum >= mass)
                return (struct sample_select_cut){.value = v, .n_equal = i};
            sum += weight;
        }
        cut.value = v;
        front = sum;
        n = smaller;
        swap_arrays(&y, &scratch);
    }
    return cut;
}

/* Partitions X [n] as split() does, by the distance from 0: values with |x| < V move to the front of X, those
 * with |x| > V are copied to SCRATCH. Counts both, and the values that are V and -V. */
static void split_near(float *x, float *scratch, size_t n, float v, size_t *n_near, size_t *n_far,
                       size_t n_at[2])
{
    size_t near = 0, far = 0;

    n_at[0] = n_at[1] = 0;
    for (size_t i = 0; i < n; i++) {
        float one = x[i], distance = fabsf(one);

        x[near] = one;
        scratch[far] = one;
        near += distance < v;
        far += distance > v;
        n_at[0] += one == v;
        n_at[1] += one == -v;
    }
    *n_near = near;
    *n_far = far;
}

float sample_select_near(const struct kern *k, float *v, float *scratch, size_t n, float centre, double mass)
{
    float t = 0;
    uint32_t state = 1;
    double front = 0;

    while (n > 0 && front < mass) {
        float at = fabsf(v[pivot_at(&state, n)]), pair[2] = {at, -at};
        size_t near, far, n_at[2];
        double sum;

        split_near(v, scratch, n, at, &near, &far, n_at);
        sum = front + sum_slices(k, v, near, -centre);
        if (sum >= mass) {
            n = near;
            continue;
        }
        t = at;
        front = sum + (double)n_at[0] * k->exp_sum(&pair[0], 1, -centre);
        front += at != 0 ? (double)n_at[1] * k->exp_sum(&pair[1], 1, -centre) : 0;
        n = far;
        swap_arrays(&v, &scratch);
    }
    return t;
}

/* ---- the chain of stages ---- */

/* The state of one run of all stages. */
struct chain {
    struct sample_scratch *s;
    const struct sampling *p;
    const struct sample_history *h;
    const float *logits; /* [n] the raw logits */
    const float *x;      /* [n] the logits after the stages so far: `logits`, or s->x if they were modified */
    size_t n;            /* size of the vocabulary */
    size_t n_output;
    size_t best;   /* greedy: the index of the largest x, the lowest index of equal ones */
    float max;     /* the largest x */
    float inverse; /* 1 / temperature */
    /* No stage has dropped tokens: every token is a candidate, and s->x replaces the list s->y. */
    bool all;
    size_t n_left;              /* length of the list of candidates, if `all` is false */
    struct sample_stage *stage; /* NULL: stages are not recorded */
    size_t n_stages;
};

static size_t slices_of(size_t n, size_t size)
{
    return (n + size - 1) / size;
}

int sample_open(struct sample_scratch *s, const struct kern *k, size_t n_vocab, struct err *e)
{
    size_t v = slices_of(n_vocab, SUM_SLICE) * SUM_SLICE, words;
    float *at;

    *s = (struct sample_scratch){0};
    if (n_vocab == 0 || n_vocab > INT32_MAX)
        return err_set(e, ERR_INPUT,
                       "cannot sample from a vocabulary of %zu tokens; 1 to 2147483647 are expected",
                       n_vocab);
    words = 5 * v + v / MAX_SLICE + 2 * SAMPLING_MAX_LOGPROBS;
    s->memory = mem_alloc(words * sizeof(float), MEM_ENGINE);
    if (!s->memory)
        return err_nomem(e, "sampler");
    s->kern = k;
    s->n_vocab = n_vocab;
    at = s->memory;
    s->x = at;
    s->y = at + v;
    s->work[0] = at + 2 * v;
    s->work[1] = at + 3 * v;
    s->id = (int32_t *)(at + 4 * v);
    s->slice_max = at + 5 * v;
    s->top = (struct sample_top *)(s->slice_max + v / MAX_SLICE);
    return 0;
}

void sample_close(struct sample_scratch *s)
{
    mem_free(s->memory);
    *s = (struct sample_scratch){0};
}

/* ---- stages that change single logits ---- */

/* Converts V to float, limited to the finite range. */
static float to_finite(double v)
{
    return v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : (float)v;
}

/* Returns true if end tokens and stop tokens are forbidden, because fewer than min_new_tokens were generated. */
static bool holds_back_end(const struct chain *c)
{
    return c->n_output < c->p->min_new_tokens && c->p->n_eos + c->p->n_stop_token > 0;
}

/* Returns true if the model's generation config suppresses tokens at this position: everywhere, or as the first output
 * token. */
static bool suppresses(const struct chain *c)
{
    return c->p->n_suppress > 0 || (c->n_output == 0 && c->p->n_begin_suppress > 0);
}

static void forbid(float *x, size_t n, const int32_t *ids, size_t n_ids)
{
    for (size_t i = 0; i < n_ids; i++)
        if ((size_t)ids[i] < n)
            x[ids[i]] = -INFINITY;
}

/* Forbids the last token of each bad word whose other tokens are at the end of the output. */
static void forbid_words(float *x, size_t n, const struct sample_history *h, size_t n_output)
{
    for (size_t i = 0; i < h->n_bad; i++) {
        const struct sample_word *w = &h->bad[i];
        size_t before = w->n - 1;

        if (before <= n_output && (size_t)w->id[before] < n &&
            memcmp(h->output + n_output - before, w->id, before * sizeof(*w->id)) == 0)
            x[w->id[before]] = -INFINITY;
    }
}

static void penalise_repetition(float *x, const struct sample_history *h, double r)
{
    for (size_t i = 0; i < h->n; i++) {
        float *v = &x[h->id[i]];

        if ((h->count[i] > 0 || h->in_prompt[i]) && *v > -INFINITY)
            *v = to_finite(*v > 0 ? *v / r : *v * r);
    }
}

static void penalise_output(float *x, const struct sample_history *h, double frequency, double presence)
{
    for (size_t i = 0; i < h->n; i++) {
        float *v = &x[h->id[i]];

        if (h->count[i] > 0 && *v > -INFINITY)
            *v = to_finite(*v - (frequency * h->count[i] + presence));
    }
}

/* Records the number of remaining tokens after the stage NAME, for sample_explain(). */
static void note(struct chain *c, const char *name)
{
    size_t left = c->n_left;

    if (!c->stage)
        return;
    if (c->all) {
        left = 0;
        for (size_t i = 0; i < c->n; i++)
            left += c->x[i] > -INFINITY;
    }
    c->stage[c->n_stages++] = (struct sample_stage){.name = name, .survivors = left};
}

/* Forbids the tokens whose bits in ALLOWED are 0. Most words of masks are all zeros or all ones. */
static void keep_allowed(float *x, size_t n, const uint32_t *allowed)
{
    for (size_t i = 0; i < n; i += 32) {
        uint32_t word = allowed[i / 32];
        size_t end = n - i < 32 ? n - i : 32;

        for (size_t k = 0; k < end && word == 0; k++)
            x[i + k] = -INFINITY;
        for (size_t k = 0; k < end && word != 0 && word != UINT32_MAX; k++)
            x[i + k] = word >> k & 1 ? x[i + k] : -INFINITY;
    }
}

/* Returns true if a stage from logit_bias to bad words may change a logit. */
static bool may_change(const struct chain *c)
{
    const struct sample_history *h = c->h;

    return holds_back_end(c) || suppresses(c) || c->p->n_bias > 0 ||
           (h && (h->allowed || h->n_bad > 0 || (h->n > 0 && sample_history_counts(c->p)) ||
                  (h->output && dry_is_on(c->p))));
}

/* Runs the stages from logit_bias to bad words, and sets c->x to the result. Logits are copied only if a stage is
 * active. */
static void change_logits(struct chain *c)
{
    const struct sampling *p = c->p;
    bool repetition = c->h && c->h->n > 0 && p->repetition_penalty != 1;
    bool output = c->h && c->h->n > 0 && (p->frequency_penalty != 0 || p->presence_penalty != 0);
    const uint32_t *allowed = c->h ? c->h->allowed : NULL;
    bool words = c->h && c->h->n_bad > 0, dry = c->h && c->h->output && dry_is_on(p);
    float *x = c->s->x;

    c->x = c->logits;
    if (may_change(c)) {
        memcpy(x, c->logits, c->n * sizeof(*x));
        c->x = x;
    }
    for (size_t i = 0; i < p->n_bias; i++)
        if (x[p->bias[i].id] > -INFINITY)
            x[p->bias[i].id] = to_finite((double)x[p->bias[i].id] + p->bias[i].value);
    note(c, "logit_bias");
    if (holds_back_end(c)) {
        forbid(x, c->n, p->eos, p->n_eos);
        forbid(x, c->n, p->stop_token, p->n_stop_token);
    }
    if (suppresses(c)) { /* -infinity is not changed by the later stages */
        forbid(x, c->n, p->suppress, p->n_suppress);
        forbid(x, c->n, p->begin_suppress, c->n_output == 0 ? p->n_begin_suppress : 0);
    }
    note(c, "min_new_tokens");
    if (repetition)
        penalise_repetition(x, c->h, p->repetition_penalty);
    note(c, "repetition_penalty");
    if (output)
        penalise_output(x, c->h, p->frequency_penalty, p->presence_penalty);
    note(c, "frequency_and_presence_penalty");
    if (dry)
        dry_penalise(p, c->h->tok, c->h->output - c->h->n_before, c->h->n_before + c->n_output, x, c->n,
                     c->s->id);
    if (dry_is_on(p))
        note(c, "dry");
    if (allowed)
        keep_allowed(x, c->n, allowed);
    if (words)
        forbid_words(x, c->n, c->h, c->n_output);
    if (allowed || words)
        note(c, "masks");
}

/* Returns true if no logit is NaN or +infinity. The compiler vectorizes the inner loop over whole slices. */
static bool all_below_infinity(const float *x, size_t n)
{
    size_t i = 0;
    int bad = 0;

    for (; i + MAX_SLICE <= n && !bad; i += MAX_SLICE)
        for (size_t j = 0; j < MAX_SLICE; j++)
            bad |= !(x[i + j] <= FLT_MAX);
    for (; i < n; i++)
        bad |= !(x[i] <= FLT_MAX);
    return !bad;
}

/* Finds the largest logit (greedy decoding) and checks the raw logits, in one pass. */
static int find_best(struct chain *c)
{
    const struct kern *k = c->s->kern;

    c->max = -INFINITY;
    for (size_t i = 0; i < c->n; i += PAGE) {
        size_t n = c->n - i < PAGE ? c->n - i : PAGE;
        float max;

        if (!all_below_infinity(c->logits + i, n))
            return ERR_INPUT;
        max = k->max(c->x + i, n);
        if (max > c->max) {
            c->max = max;
            c->best = i + k->argmax(c->x + i, n);
        }
    }
    return c->max > -INFINITY ? 0 : ERR_NOSPACE;
}

/* ---- candidates ---- */

/* Computes the maximum of each slice of X [n]. Returns the largest. */
static float find_maxima(struct sample_scratch *s, const float *x, size_t n)
{
    size_t n_slices = slices_of(n, MAX_SLICE);

    for (size_t b = 0; b < n_slices; b++)
        s->slice_max[b] = s->kern->max(x + b * MAX_SLICE, b + 1 < n_slices ? MAX_SLICE : n - b * MAX_SLICE);
    return s->kern->max(s->slice_max, n_slices);
}

/* Makes all tokens with x[i] >= FLOOR, except -infinity, candidates, in order of ids. Returns their number.
 * s->slice_max holds the maxima of X. */
static size_t gather(struct sample_scratch *s, const float *x, size_t n, float floor)
{
    size_t m = 0;

    for (size_t b = 0; b * MAX_SLICE < n; b++) {
        size_t end = (b + 1) * MAX_SLICE < n ? (b + 1) * MAX_SLICE : n;

        if (!(s->slice_max[b] >= floor))
            continue;
        for (size_t i = b * MAX_SLICE; i < end; i++) {
            s->id[m] = (int32_t)i;
            s->y[m] = x[i];
            m += x[i] >= floor && x[i] > -INFINITY;
        }
    }
    return m;
}

/* Makes the K tokens with the largest X [n], and all tokens equal to the K-th, candidates. The K-th largest
 * maximum of a slice is a lower bound of the K-th largest value, so smaller values are skipped. */
static size_t gather_top(struct sample_scratch *s, const float *x, size_t n, size_t k)
{
    size_t n_slices = slices_of(n, MAX_SLICE), m, kept = 0;
    float floor = -INFINITY;

    if (k <= n_slices / 2) {
        memcpy(s->work[0], s->slice_max, n_slices * sizeof(float));
        floor = sample_select_kth(s->work[0], s->work[1], n_slices, k);
    }
    m = gather(s, x, n, floor);
    if (m <= k)
        return m;
    memcpy(s->work[0], s->y, m * sizeof(float));
    floor = sample_select_kth(s->work[0], s->work[1], m, k);
    for (size_t i = 0; i < m; i++) {
        s->id[kept] = s->id[i];
        s->y[kept] = s->y[i];
        kept += s->y[i] >= floor;
    }
    return kept;
}

/* ---- stages that drop tokens ---- */

/* Sums for a standard deviation, in 16 lanes, which the compiler adds in vectors without changing a bit. */
enum { LANES = 16 };
struct moments {
    double sum[LANES], square[LANES], count[LANES];
};

static void add_moment(struct moments *m, size_t lane, float x, float near)
{
    double one = x > -INFINITY ? 1 : 0, d = x > -INFINITY ? (double)x - (double)near : 0;

    m->count[lane] += one;
    m->sum[lane] += d;
    m->square[lane] += d * d;
}

/* Returns the standard deviation of the logits X [n] without those that are -infinity. The sums are of
 * differences to NEAR. */
static double standard_deviation(const float *x, size_t n, float near)
{
    struct moments m = {{0}, {0}, {0}};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            add_moment(&m, lane, x[i + lane], near);
    for (; i < n; i++)
        add_moment(&m, i % LANES, x[i], near);
    for (size_t lane = 1; lane < LANES; lane++) {
        m.sum[0] += m.sum[lane];
        m.square[0] += m.square[lane];
        m.count[0] += m.count[lane];
    }
    return sqrt(fmax(m.square[0] - m.sum[0] * m.sum[0] / m.count[0], 0) / m.count[0]);
}

/* Drops tokens whose logit is more than top_n_sigma standard deviations below the largest. */
static void cut_top_n_sigma(struct chain *c)
{
    struct sample_scratch *s = c->s;
    double least = (double)c->max - c->p->top_n_sigma * standard_deviation(c->logits, c->n, c->max);

    for (size_t b = 0; b * MAX_SLICE < c->n; b++) {
        size_t end = (b + 1) * MAX_SLICE < c->n ? (b + 1) * MAX_SLICE : c->n;

        for (size_t i = b * MAX_SLICE; i < end; i++)
            s->x[i] = (double)c->x[i] >= least ? c->x[i] : -INFINITY;
        s->slice_max[b] = (double)s->slice_max[b] >= least ? s->slice_max[b] : -INFINITY;
    }
    c->x = s->x;
}

/* Sets s->x to (x - max) / temperature, and scales the maxima of slices in the same way. */
static void scale_all(struct chain *c)
{
    struct sample_scratch *s = c->s;
    size_t n_slices = slices_of(c->n, MAX_SLICE);

    for (size_t i = 0; i < c->n; i++)
        s->x[i] = (c->x[i] - c->max) * c->inverse;
    for (size_t b = 0; b < n_slices; b++)
        s->slice_max[b] = (s->slice_max[b] - c->max) * c->inverse;
    c->x = s->x;
}

static void cut_top_k(struct chain *c)
{
    struct sample_scratch *s = c->s;

    c->n_left = gather_top(s, c->x, c->n, c->p->top_k);
    for (size_t i = 0; i < c->n_left; i++)
        s->y[i] = (s->y[i] - c->max) * c->inverse;
    c->all = false;
}

/* Keeps the likeliest tokens with a total probability of top_p. If every token is a candidate, gathers
 * candidates with decreasing floors until their probability suffices. */
static void cut_top_p(struct chain *c)
{
    static const float depth[] = {-4, -8, -16, -32, -INFINITY};
    struct sample_scratch *s = c->s;
    size_t kept = 0, n_equal = 0;
    struct sample_select_cut cut;
    double mass;

    if (c->all) {
        mass = c->p->top_p * sample_select_sum(s->kern, s->x, c->n);
        for (size_t i = 0; i < sizeof(depth) / sizeof(*depth); i++) {
            c->n_left = gather(s, s->x, c->n, depth[i]);
            if (sample_select_sum(s->kern, s->y, c->n_left) >= mass)
                break;
        }
        c->all = false;
    } else {
        mass = c->p->top_p * sample_select_sum(s->kern, s->y, c->n_left);
    }
    memcpy(s->work[0], s->y, c->n_left * sizeof(float));
    cut = sample_select_mass(s->kern, s->work[0], s->work[1], c->n_left, mass);
    for (size_t i = 0; i < c->n_left; i++) {
        bool stays = s->y[i] > cut.value;

        if (s->y[i] == cut.value)
            stays = n_equal++ < cut.n_equal;
        s->id[kept] = s->id[i];
        s->y[kept] = s->y[i];
        kept += stays;
    }
    c->n_left = kept;
}

/* Keeps tokens whose probability is at least min_p times the largest, compared as logarithms. */
static void cut_min_p(struct chain *c)
{
    struct sample_scratch *s = c->s;
    float least = (float)log(c->p->min_p);
    size_t kept = 0;

    if (c->all)
        c->n_left = gather(s, s->x, c->n, least);
    c->all = false;
    for (size_t i = 0; i < c->n_left; i++) {
        bool stays = s->y[i] >= least;

        s->id[kept] = s->id[i];
        s->y[kept] = s->y[i];
        kept += stays;
    }
    c->n_left = kept;
}

/* Returns the sum of exp(y) y over Y [n], y <= 0. */
static double weighted_sum(const struct kern *k, const float *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i += SUM_SLICE)
        sum += k->exp_dot(y + i, n - i < SUM_SLICE ? n - i : SUM_SLICE, 0);
    return sum;
}

/* Keeps the tokens whose -log(p) is nearest to the entropy, with a total probability of typical_p. Since
 * -log(p) is log(sum) - y and the entropy is log(sum) - E[y], these are the tokens whose y is nearest to
 * E[y]. If every token is a candidate, gathers candidates with decreasing floors until those above the floor,
 * and not farther away than it, suffice. */
static void cut_typical(struct chain *c)
{
    static const float depth[] = {4, 8, 16, 32, INFINITY};
    struct sample_scratch *s = c->s;
    const float *y = c->all ? s->x : s->y;
    size_t n = c->all ? c->n : c->n_left, kept = 0, n_near = 0;
    double sum = sample_select_sum(s->kern, y, n), mass = c->p->typical_p * sum;
    float centre = (float)(weighted_sum(s->kern, y, n) / sum), most;

    for (size_t k = 0; c->all && k < sizeof(depth) / sizeof(*depth); k++) {
        n = gather(s, s->x, c->n, centre - depth[k]);
        n_near = 0;
        for (size_t i = 0; i < n; i++)
            if (s->y[i] - centre <= depth[k])
                s->work[0][n_near++] = s->y[i];
        if (sample_select_sum(s->kern, s->work[0], n_near) >= mass)
            break;
    }
    c->all = false;
    for (size_t i = 0; i < n; i++)
        s->work[0][i] = s->y[i] - centre;
    most = sample_select_near(s->kern, s->work[0], s->work[1], n, centre, mass);
    for (size_t i = 0; i < n; i++) {
        bool stays = fabsf(s->y[i] - centre) <= most;

        s->id[kept] = s->id[i];
        s->y[kept] = s->y[i];
        kept += stays;
    }
    c->n_left = kept;
}

/* Returns the next index of Y, from I on, whose value is LEAST or more, and above -infinity; N: there is
 * none. If every token is a candidate, skips slices whose maximum is smaller. */
static size_t next_likely(const struct chain *c, const float *y, size_t n, size_t i, float least)
{
    for (; i < n; i++) {
        if (c->all && i % MAX_SLICE == 0 && c->s->slice_max[i / MAX_SLICE] < least)
            i += MAX_SLICE - 1;
        else if (y[i] >= least && y[i] > -INFINITY)
            return i;
    }
    return n;
}

/* With xtc_probability, drops the tokens whose probability is at least xtc_threshold, except the least likely
 * of them. */
static void cut_xtc(struct chain *c)
{
    struct sample_scratch *s = c->s;
    float *y = c->all ? s->x : s->y, least;
    size_t n = c->all ? c->n : c->n_left, last = n, kept = 0;

    if (rng_uniform(c->p->seed, c->n_output) >= c->p->xtc_probability)
        return;
    least = (float)log(c->p->xtc_threshold * sample_select_sum(s->kern, y, n)); /* threshold 0: -infinity */
    for (size_t i = next_likely(c, y, n, 0, least); i < n; i = next_likely(c, y, n, i + 1, least))
        last = last == n || y[i] < y[last] ? i : last;
    for (size_t i = next_likely(c, y, n, 0, least); i < n; i = next_likely(c, y, n, i + 1, least))
        y[i] = i == last ? y[i] : -INFINITY;
    for (size_t i = 0; i < n && !c->all; i++) {
        s->id[kept] = s->id[i];
        y[kept] = y[i];
        kept += y[i] > -INFINITY;
    }
    c->n_left = kept;
}

/* Returns 1 / TEMPERATURE as a normal finite float. With 0 or infinity, the product with a logit of -infinity or with
 * the largest, which is 0 then, would be NaN. */
static float inverse_of(double temperature)
{
    float inverse = to_finite(1 / temperature);

    return inverse < FLT_MIN ? FLT_MIN : inverse;
}

/* Runs the stages from top_n_sigma to xtc. */
static void cut_tail(struct chain *c)
{
    const struct sampling *p = c->p;

    if (p->top_n_sigma > 0) {
        cut_top_n_sigma(c);
        note(c, "top_n_sigma");
    }
    c->inverse = inverse_of(p->temperature);
    note(c, "temperature");
    if (p->top_k > 0 && p->top_k < c->n)
        cut_top_k(c);
    else
        scale_all(c);
    note(c, "top_k");
    if (p->top_p < 1)
        cut_top_p(c);
    note(c, "top_p");
    if (p->min_p > 0)
        cut_min_p(c);
    note(c, "min_p");
    if (p->typical_p < 1) {
        cut_typical(c);
        note(c, "typical_p");
    }
    if (p->xtc_probability > 0) {
        cut_xtc(c);
        note(c, "xtc");
    }
}

/* ---- the pick ---- */

/* Sorts T [n] by descending log-probability, then by ascending id (Shell sort). */
static void sort_top(struct sample_top *t, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            struct sample_top one = t[i];
            size_t j = i;

            for (; j >= gap && (t[j - gap].logprob < one.logprob ||
                                (t[j - gap].logprob == one.logprob && t[j - gap].id > one.id));
                 j -= gap)
                t[j] = t[j - gap];
            t[j] = one;
        }
}

static size_t find_rank(const float *logits, size_t n_vocab, int32_t id)
{
    float own = logits[id];
    size_t n = 0;

    for (size_t i = 0; i < n_vocab; i++)
        n += logits[i] >= own;
    return n;
}

/* Sets r->logprob to the log-softmax of LOGITS at r->id. Returns the logarithm of the softmax's denominator. */
static double find_logprob(struct sample_scratch *s, const float *logits, size_t n_vocab,
                           struct sample_result *r)
{
    float max = find_maxima(s, logits, n_vocab);
    double log_sum = log(sum_slices(s->kern, logits, n_vocab, max)) + max;

    r->logprob = (float)(logits[r->id] - log_sum);
    return log_sum;
}

/* Sets r->logprob, and r->top to the log-probabilities of the tokens ID [N_IDS] in their order. */
static void find_chosen(struct sample_scratch *s, const float *logits, size_t n_vocab, const int32_t *id,
                        size_t n_ids, struct sample_result *r)
{
    double log_sum = find_logprob(s, logits, n_vocab, r);

    for (size_t i = 0; i < n_ids; i++)
        s->top[i] = (struct sample_top){.id = id[i], .logprob = (float)(logits[id[i]] - log_sum)};
    r->top = s->top;
    r->n_top = n_ids;
}

/* Sets r->top to the K tokens with the largest X [n], whose log-probabilities are x - LOG_SUM. s->slice_max
 * holds the maxima of X. */
static void take_top(struct sample_scratch *s, const float *x, size_t n_vocab, size_t k, double log_sum,
                     struct sample_result *r)
{
    size_t m = gather_top(s, x, n_vocab, k), taken = 0, n = 0;
    float least = INFINITY;

    for (size_t i = 0; i < m; i++)
        least = s->y[i] < least ? s->y[i] : least;
    for (size_t i = 0; i < m; i++)
        taken += s->y[i] > least;
    for (size_t i = 0; i < m;
         i++) { /* of the tokens with the smallest kept logit, keeps those with the lowest ids */
        if (s->y[i] == least && taken >= k)
            continue;
        taken += s->y[i] == least;
        s->top[n++] = (struct sample_top){.id = s->id[i], .logprob = (float)(s->y[i] - log_sum)};
    }
    sort_top(s->top, n);
    r->top = s->top;
    r->n_top = n;
}

/* Sets r->logprob, and r->top to the K likeliest tokens. */
static void find_logprobs(struct sample_scratch *s, const float *logits, size_t n_vocab, size_t k,
                          struct sample_result *r)
{
    double log_sum = find_logprob(s, logits, n_vocab, r);

    if (k > 0)
        take_top(s, logits, n_vocab, k, log_sum, r);
}

/* ---- all stages ---- */

/* Runs all stages before the pick; for greedy decoding finds the largest logit. Errors are those of sample_pick(). */
static int run_chain(struct chain *c)
{
    ASSERT(c->n > 0 && c->n <= c->s->n_vocab, "%zu logits for a sampler of %zu", c->n, c->s->n_vocab);
    c->all = true;
    change_logits(c);
    if (sampling_is_greedy(c->p))
        return find_best(c);
    if (!all_below_infinity(c->logits, c->n))
        return ERR_INPUT;
    c->max = find_maxima(c->s, c->x, c->n);
    if (!(c->max > -INFINITY))
        return ERR_NOSPACE;
    cut_tail(c);
    return 0;
}

/* Adds the log-probabilities that P requests. */
static void add_logprobs(struct sample_scratch *s, const struct sampling *p, const float *logits,
                         size_t n_vocab, struct sample_result *r)
{
    if (p->n_logprob_ids)
        find_chosen(s, logits, n_vocab, p->logprob_id, p->n_logprob_ids, r);
    else if (p->logprobs >= 0)
        find_logprobs(s, logits, n_vocab, (size_t)p->logprobs, r);
}

int sample_forced(struct sample_scratch *s, const struct sampling *p, const float *logits, size_t n_vocab,
                  int32_t id, struct sample_result *r)
{
    *r = (struct sample_result){.id = id};
    if (!all_below_infinity(logits, n_vocab))
        return ERR_INPUT;
    add_logprobs(s, p, logits, n_vocab, r);
    return 0;
}

int sample_pick(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                const float *logits, size_t n_vocab, size_t n_output, struct sample_result *r)
{
    struct chain c = {.s = s, .p = p, .h = h, .logits = logits, .n = n_vocab, .n_output = n_output};
    int rc = run_chain(&c);

    *r = (struct sample_result){.id = -1};
    if (rc != 0)
        return rc;
    if (sampling_is_greedy(p)) {
        r->id = (int32_t)c.best;
    } else {
        uint32_t key[2];
        size_t at;

        rng_key(p->seed, n_output, key);
        ASSERT(c.all || c.n_left > 0, "no token of %zu is left", c.n);
        at = c.all ? s->kern->gumbel_argmax(s->x, c.n, NULL, key)
                   : s->kern->gumbel_argmax(s->y, c.n_left, s->id, key);
        r->id = c.all ? (int32_t)at : s->id[at];
    }
    add_logprobs(s, p, logits, n_vocab, r);
    return 0;
}

bool sample_is_plain(const struct sampling *p, const struct sample_history *h, size_t n_output)
{
    const struct chain c = {.p = p, .h = h, .n_output = n_output};

    return sampling_is_greedy(p) && p->logprobs < 0 && p->n_logprob_ids == 0 && !may_change(&c);
}

int sample_probs(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                 const float *logits, size_t n_vocab, size_t n_output, float *out)
{
    struct chain c = {.s = s, .p = p, .h = h, .logits = logits, .n = n_vocab, .n_output = n_output};
    int rc = run_chain(&c);
    bool is_greedy = sampling_is_greedy(p), is_list = !is_greedy && !c.all;
    const float *y = is_greedy ? c.x : is_list ? s->y : s->x;
    double sum = 0, max = is_greedy ? (double)c.max : 0;
    size_t n = is_list ? c.n_left : n_vocab;

    if (rc)
        return rc;
    if (is_list)
        memset(out, 0, n_vocab * sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        double one = exp((double)y[i] - max);

        out[is_list ? (size_t)s->id[i] : i] = (float)one;
        sum += one;
    }
    for (size_t i = 0; i < n; i++)
        out[is_list ? (size_t)s->id[i] : i] *= (float)(1 / sum);
    return 0;
}

int sample_ranked(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                  const float *logits, size_t n_vocab, size_t n_output, size_t k, struct sample_result *r)
{
    struct chain c = {.s = s, .p = p, .h = h, .logits = logits, .n = n_vocab, .n_output = n_output};
    double log_sum;

    *r = (struct sample_result){.id = -1};
    if (!all_below_infinity(logits, n_vocab))
        return ERR_INPUT;
    r->id = 0;
    log_sum = find_logprob(s, logits, n_vocab, r);
    if (may_change(&c)) {
        for (size_t i = 0; i < n_vocab; i++)
            s->y[i] = (float)(logits[i] - log_sum);
        c.logits = s->y;
        log_sum = 0;
    }
    change_logits(&c);
    if (!(find_maxima(s, c.x, n_vocab) > -INFINITY))
        return ERR_NOSPACE;
    take_top(s, c.x, n_vocab, k, log_sum, r);
    return 0;
}

int sample_score(struct sample_scratch *s, const float *logits, size_t n_vocab, int32_t id, int k,
                 struct sample_result *r)
{
    *r = (struct sample_result){.id = id};
    if (!all_below_infinity(logits, n_vocab))
        return ERR_INPUT;
    find_logprobs(s, logits, n_vocab, (size_t)k, r);
    r->rank = find_rank(logits, n_vocab, id);
    return 0;
}

int sample_explain(struct sample_scratch *s, const struct sampling *p, const struct sample_history *h,
                   const float *logits, size_t n_vocab, size_t n_output,
                   struct sample_stage stages[SAMPLE_MAX_STAGES], size_t *n_stages, struct sample_prob *probs,
                   size_t *n_probs)
{
    struct chain c = {
        .s = s, .p = p, .h = h, .logits = logits, .n = n_vocab, .n_output = n_output, .stage = stages};
    int rc = run_chain(&c);
    double sum = 0;
    size_t n = 0;

    *n_stages = c.n_stages;
    *n_probs = 0;
    if (rc != 0)
        return rc;
    if (sampling_is_greedy(p)) {
        probs[0] = (struct sample_prob){.id = (int32_t)c.best, .p = 1};
        stages[(*n_stages)++] = (struct sample_stage){.name = "greedy", .survivors = 1};
        *n_probs = 1;
        return 0;
    }
    if (c.all)
        c.n_left = gather(s, s->x, c.n, -INFINITY);
    for (size_t i = 0; i < c.n_left; i++)
        sum += exp((double)s->y[i]);
    for (size_t i = 0; i < c.n_left; i++) {
        double q = exp((double)s->y[i]) / sum;

        if ((float)q > 0)
            probs[n++] = (struct sample_prob){.id = s->id[i], .p = q};
    }
    *n_probs = n;
    return 0;
}
