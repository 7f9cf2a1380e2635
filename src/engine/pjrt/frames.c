/* frames.c - see frames.h. */
#include "engine/pjrt/frames.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/threads/errand.h"
#include "engine/pjrt/artifacts.h"
#include "engine/pjrt/weights.h"
#include "graph/record.h"

/* A compiled program and its sizes. */
struct program {
    struct pjrt_loaded *loaded;
    size_t n_seqs, rows, seen;
};

/* The rows that a slot holds: those of a running sequence, or what the last one left. */
struct slot {
    int32_t *id; /* [context] */
    size_t n;
    bool has_salt;
    uint8_t salt[16];
};

struct frames {
    struct plugin plugin;
    struct llm *m;
    struct frames_options o;
    size_t n_slots, context, most_rows, max_wanted;
    enum dtype dtype;
    struct program *program; /* [n_programs] */
    size_t n_programs;
    struct pjrt_buffer **arg; /* [1 + n_caches + n_weights] inputs, caches, weights */
    struct pjrt_buffer **out; /* [n_caches + 1] */
    size_t n_caches, n_weights;
    struct stablehlo_cache *layer; /* [n_caches / 2] */
    struct slot *slot;             /* [n_slots] */
    int32_t *in;                   /* inputs of the largest frame */
    float *logits, *one;           /* [max_wanted, V], and the logits of a frame */
    size_t n_logits;               /* rows of logits so far in this step */
    void *zero;                    /* zeros for the largest cache */
    struct frames_stats stats;
    struct artifact_counts artifacts;
    /* Opening again after an error, on a thread of its own. What it changes is left alone meanwhile. */
    struct errand reopening;
    bool is_down;            /* a run has failed, and the device is not open again */
    bool is_suspect;         /* no run has succeeded since the device was opened again */
    _Atomic bool is_closing; /* the thread is to end soon */
};

/* ---- buckets ---- */

int frames_read_buckets(struct frames_buckets *b, const char *text, const char *name, size_t most,
                        struct err *e)
{
    const char *p = text;
    size_t last = 0;

    for (b->n = 0; *p; b->n++) {
        char *end;
        unsigned long long x = strtoull(p, &end, 10);

        if (end == p || *p < '0' || *p > '9' || (*end && (*end != ',' || !end[1])) || x <= last || x > most ||
            b->n == FRAMES_MAX_BUCKETS)
            return err_about(
                e, ERR_INPUT, name,
                "found \"%s\", expected up to %d ascending numbers from 1 to %zu, such as 16,128", text,
                FRAMES_MAX_BUCKETS, most);
        b->size[b->n] = last = (size_t)x;
        p = *end ? end + 1 : end;
    }
    if (b->n == 0)
        return err_about(e, ERR_INPUT, name, "found no number, expected ascending numbers such as 16,128");
    return 0;
}

/* Sets the default buckets FIRST, FIRST x STEP, ... up to MOST if B has none, and adds MOST. */
static void complete(struct frames_buckets *b, size_t first, size_t step, size_t most)
{
    if (b->n == 0)
        for (size_t x = first; x < most && b->n < FRAMES_MAX_BUCKETS; x *= step)
            b->size[b->n++] = x;
    if (b->n == 0 || b->size[b->n - 1] < most)
        b->size[b->n++] = most;
}

/* ---- opening ---- */

static void add_program(struct frames *f, size_t n_seqs, size_t rows, size_t seen)
{
    f->program[f->n_programs++] = (struct program){.n_seqs = n_seqs, .rows = rows, .seen = seen};
}

/* Lists the programs, longest first, so that a device without enough memory is found out early. */
static int list_programs(struct frames *f, struct err *e)
{
    const struct frames_buckets *p = &f->o.prompts, *b = &f->o.batches, *c = &f->o.contexts;

    f->program = mem_zalloc((p->n + b->n) * c->n, sizeof(*f->program), MEM_ENGINE);
    if (!f->program)
        return err_nomem(e, "the programs");
    for (size_t k = c->n; k-- > 0;) {
        for (size_t i = p->n; i-- > 0;)
            if (p->size[i] <= c->size[k])
                add_program(f, 1, p->size[i], c->size[k]);
        for (size_t i = b->n; i-- > 0;)
            if (b->size[i] > 1 || p->size[0] > 1)
                add_program(f, b->size[i], 1, c->size[k]);
    }
    return 0;
}

/* Returns the bytes of cache I and writes its shape to DIMS; 0: too large. */
static size_t cache_bytes(const struct frames *f, size_t i, size_t dims[4])
{
    const struct stablehlo_cache *c = &f->layer[i / 2];
    size_t bytes = dtype_bytes(f->dtype);

    dims[0] = f->n_slots + 1;
    dims[1] = c->n_kv;
    dims[2] = f->context + 1;
    dims[3] = c->d;
    for (int d = 0; d < 4; d++)
        if (__builtin_mul_overflow(bytes, dims[d], &bytes))
            return 0;
    return bytes;
}

/* Makes caches of zeros on the device, instead of those that are there. */
static int make_caches(struct frames *f, struct err *e)
{
    size_t dims[4];
    int rc = 0;

    for (size_t i = 0; i < f->n_caches && rc == 0; i++) {
        cache_bytes(f, i, dims);
        plugin_free_buffer(&f->plugin, f->arg[1 + i]);
        f->arg[1 + i] = NULL;
        rc = plugin_upload(&f->plugin, f->zero, f->dtype, dims, 4, &f->arg[1 + i], e);
    }
    return rc;
}

static int open_caches(struct frames *f, struct err *e)
{
    size_t dims[4], largest = 0;

    for (size_t i = 0; i < f->n_caches; i++) {
        size_t bytes = cache_bytes(f, i, dims);

        if (bytes == 0)
            return err_nomem(e, "a cache");
        largest = bytes > largest ? bytes : largest;
        f->stats.cache_bytes += bytes;
    }
    if (!f->zero && !(f->zero = mem_zalloc(largest ? largest : 1, 1, MEM_ENGINE)))
        return err_nomem(e, "a cache");
    return make_caches(f, e);
}

/* Copies weights and caches to the device, as program P, the first, wants them. */
static int open_arguments(struct frames *f, const struct stablehlo *p, struct err *e)
{
    int rc;

    f->n_caches = 2 * p->n_caches;
    f->n_weights = p->n_weights;
    f->stats.weight_bytes = f->stats.cache_bytes = 0;
    f->arg = mem_zalloc(1 + f->n_caches + f->n_weights, sizeof(struct pjrt_buffer *), MEM_ENGINE);
    f->out = mem_zalloc(f->n_caches + 1, sizeof(struct pjrt_buffer *), MEM_ENGINE);
    f->layer = mem_zalloc(p->n_caches ? p->n_caches : 1, sizeof(*f->layer), MEM_ENGINE);
    if (!f->arg || !f->out || !f->layer)
        return err_nomem(e, "the arguments of programs");
    memcpy(f->layer, p->cache, p->n_caches * sizeof(*f->layer));
    for (size_t i = 0; i < p->n_weights; i++) {
        size_t bytes = dtype_bytes(p->weight[i].dtype);

        if ((rc = weights_upload(&f->plugin, &p->weight[i], f->context, &f->arg[1 + f->n_caches + i], e)) !=
            0)
            return rc;
        for (int d = 0; d < p->weight[i].n_dims; d++)
            bytes *= p->weight[i].shape[d];
        f->stats.weight_bytes += bytes;
    }
    return open_caches(f, e);
}

/* Compiles program I, or takes it from the cache folder. */
static int open_program(struct frames *f, size_t i, struct err *e)
{
    struct program *p = &f->program[i];
    struct stablehlo_frame frame = {.n_seqs = p->n_seqs,
                                    .rows = p->rows,
                                    .n_wanted = p->n_seqs,
                                    .n_slots = f->n_slots,
                                    .context = f->context,
                                    .seen = p->seen,
                                    .dtype = f->dtype,
                                    .kv_dtype = f->dtype};
    struct graph g = {0};
    struct stablehlo text = {0};
    int rc = graph_record(&g, &f->m->model, p->n_seqs * p->rows, p->n_seqs, e);

    if (rc == 0)
        rc = stablehlo_write(&text, &g, &f->m->model, &frame, e);
    if (rc == 0 && i == 0)
        rc = open_arguments(f, &text, e);
    ASSERT(rc || text.n_weights == f->n_weights, "%zu weights", text.n_weights);
    if (rc == 0) {
        uint64_t begin = clock_ns();

        rc = artifacts_open(&f->plugin, &text.text, &p->loaded, &f->artifacts, e);
        f->stats.compile_s += (double)(clock_ns() - begin) * 1e-9;
    }
    stablehlo_fini(&text);
    graph_fini(&g);
    return rc;
}

static int open_slots(struct frames *f, struct err *e)
{
    size_t V = f->m->model.info.vocab, rows = f->o.batches.size[f->o.batches.n - 1];
    int32_t *ids;

    if (rows < f->most_rows)
        rows = f->most_rows;
    f->slot = mem_zalloc(f->n_slots, sizeof(*f->slot), MEM_ENGINE);
    ids = mem_zalloc(f->n_slots * f->context, sizeof(*ids), MEM_ENGINE);
    f->in = mem_zalloc(6 * rows + 2, sizeof(*f->in), MEM_ENGINE);
    f->logits = mem_zalloc(f->max_wanted * V, sizeof(float), MEM_ENGINE);
    f->one = mem_zalloc(f->n_slots * V, sizeof(float), MEM_ENGINE);
    if (!f->slot || !ids) {
        mem_free(ids);
        return err_nomem(e, "the slots");
    }
    for (size_t i = 0; i < f->n_slots; i++)
        f->slot[i].id = ids + i * f->context;
    return f->in && f->logits && f->one ? 0 : err_nomem(e, "the slots");
}

static int check_model(const struct llm *m, struct err *e)
{
    if (kv_n_blocks(&m->kv))
        return err_about(e, ERR_UNSUPPORTED, "kv_cache_type",
                         "executor \"pjrt\" stores rows in slots, not in blocks of the caller (extern)");
    if (m->kv_dtype != m->model.opt.dtype)
        return err_about(e, ERR_UNSUPPORTED, "kv_cache_dtype",
                         "executor \"pjrt\" stores KV rows in the format of dtype; leave it out");
    if (m->model.info.headless)
        return err_set(e, ERR_UNSUPPORTED, "pjrt: %s", m->model.headless);
    if (m->sparse.window)
        return err_set(e, ERR_UNSUPPORTED, "pjrt: kv_sparse is not served");
    if (m->store)
        return err_set(e, ERR_UNSUPPORTED, "pjrt: kv_store is not served");
    return weights_check(&m->model, e);
}

/* Frees everything that is on the device. F->program lists the programs without them. */
static void close_device(struct frames *f)
{
    for (size_t i = 0; i < f->n_programs; i++) {
        plugin_free_program(&f->plugin, f->program[i].loaded);
        f->program[i].loaded = NULL;
    }
    for (size_t i = 0; f->arg && i < 1 + f->n_caches + f->n_weights; i++)
        plugin_free_buffer(&f->plugin, f->arg[i]);
    plugin_close(&f->plugin);
    mem_free(f->arg);
    mem_free(f->out);
    mem_free(f->layer);
    f->arg = f->out = NULL;
    f->layer = NULL;
    f->n_caches = f->n_weights = 0;
}

/* Opens the plugin, all programs of F->program, and with the first of them weights and caches. PROGRESS may be NULL. */
static int open_device(struct frames *f, void (*progress)(void *ctx, size_t done, size_t total),
                       struct err *e)
{
    int rc = plugin_open(&f->plugin, f->o.source, e);

    for (size_t i = 0; i < f->n_programs && rc == 0; i++) {
        if (progress)
            progress(f->o.progress_ctx, i, f->n_programs);
        rc = atomic_load(&f->is_closing) ? err_set(e, ERR_CANCELLED, "pjrt: closing") : open_program(f, i, e);
    }
    if (rc == 0 && progress)
        progress(f->o.progress_ctx, f->n_programs, f->n_programs);
    return rc;
}

/* Makes a device that had an error usable: by new caches, or by opening everything again if they cannot be made, or if
 * they did not help. */
static int open_again(void *ctx, struct err *e)
{
    struct frames *f = ctx;

    int rc = f->arg && !f->is_suspect ? make_caches(f, e) : -1;

    f->is_suspect = true;
    if (rc == 0)
        return 0;
    close_device(f);
    return open_device(f, NULL, e);
}

int frames_open(struct frames **out, struct llm *m, const struct frames_options *o, struct err *e)
{
    struct frames *f;
    int rc = check_model(m, e);

    *out = NULL;
    if (rc)
        return rc;
    if (!(f = mem_zalloc(1, sizeof(*f), MEM_ENGINE)))
        return err_nomem(e, "the executor");
    errand_init(&f->reopening);
    f->m = m;
    f->o = *o;
    f->n_slots = m->max_seqs;
    f->context = m->max_len;
    f->max_wanted = m->max_wanted;
    f->dtype = m->model.opt.dtype;
    complete(&f->o.prompts, 16, 4, m->max_tokens < f->context ? m->max_tokens : f->context);
    complete(&f->o.batches, 1, 4, f->n_slots);
    complete(&f->o.contexts, 512, 4, f->context);
    f->most_rows = f->o.prompts.size[f->o.prompts.n - 1];
    if ((rc = open_slots(f, e)) == 0 && (rc = list_programs(f, e)) == 0)
        rc = open_device(f, o->progress, e);
    if (rc)
        frames_close(f);
    else
        *out = f;
    return rc;
}

void frames_close(struct frames *f)
{
    if (!f)
        return;
    atomic_store(&f->is_closing, true);
    errand_fini(&f->reopening);
    close_device(f);
    if (f->slot)
        mem_free(f->slot[0].id);
    mem_free(f->slot);
    mem_free(f->program);
    mem_free(f->in);
    mem_free(f->logits);
    mem_free(f->one);
    mem_free(f->zero);
    mem_free(f);
}

/* ---- frames ---- */

/* Returns the program for N_SEQS sequences of up to ROWS rows that reads at least SEEN rows of the slots. */
static const struct program *fit(const struct frames *f, size_t n_seqs, size_t rows, size_t seen)
{
    const struct program *best = NULL;

    for (size_t i = 0; i < f->n_programs; i++) {
        const struct program *p = &f->program[i];

        if (p->n_seqs < n_seqs || p->rows < rows || p->seen < seen || (rows > 1 && p->n_seqs > 1))
            continue;
        if (!best || p->n_seqs * p->rows < best->n_seqs * best->rows ||
            (p->n_seqs * p->rows == best->n_seqs * best->rows && p->seen < best->seen))
            best = p;
    }
    ASSERT(best, "no program for %zu sequences of %zu rows that read %zu", n_seqs, rows, seen);
    return best;
}

/* Runs P with f->in and copies its logits to f->one. */
static int run_program(struct frames *f, const struct program *p, struct err *e)
{
    size_t T = p->n_seqs * p->rows, n = 4 * T + 2 * p->n_seqs, V = f->m->model.info.vocab;
    int rc = plugin_upload(&f->plugin, f->in, DT_I32, &n, 1, &f->arg[0], e);

    if (rc)
        return rc;
    rc =
        plugin_run(&f->plugin, p->loaded, f->arg, 1 + f->n_caches + f->n_weights, f->out, f->n_caches + 1, e);
    plugin_free_buffer(&f->plugin, f->arg[0]);
    f->arg[0] = NULL;
    if (rc)
        return rc;
    for (size_t i = 0; i < f->n_caches; i++) {
        plugin_free_buffer(&f->plugin,
                           f->arg[1 + i]); /* the handle of the memory that the result took over */
        f->arg[1 + i] = f->out[i];
    }
    rc = plugin_download(&f->plugin, f->out[f->n_caches], f->one, p->n_seqs * V * sizeof(float), e);
    plugin_free_buffer(&f->plugin, f->out[f->n_caches]);
    return rc;
}

/* Writes row I of the T rows of a frame: token ID at position POS of SLOT. SLOT n_slots: padding. */
static void put_row(struct frames *f, size_t T, size_t i, int32_t id, size_t slot, size_t pos)
{
    bool real = slot < f->n_slots;

    f->in[i] = real ? id : 0;
    f->in[T + i] = real ? (int32_t)pos : 0;
    f->in[2 * T + i] = (int32_t)slot;
    f->in[3 * T + i] = real ? (int32_t)pos : (int32_t)f->context;
}

static void keep_rows(struct frames *f, const struct executor_rows *r)
{
    struct slot *s = &f->slot[r->slot];

    memcpy(s->id + r->pos, r->id, r->n * sizeof(*r->id));
    s->n = r->pos + r->n;
}

/* Adds logits row I of the last frame to those of the step. */
static void take_logits(struct frames *f, size_t i)
{
    size_t V = f->m->model.info.vocab;

    ASSERT(f->n_logits < f->max_wanted, "%zu rows of logits", f->n_logits);
    memcpy(f->logits + f->n_logits++ * V, f->one + i * V, V * sizeof(float));
}

/* Computes the prompt rows R in the smallest frame, once for each wanted row, of which a frame has one. */
static int run_prompt(struct frames *f, const struct executor_rows *r, struct err *e)
{
    const struct program *p = fit(f, 1, r->n, r->pos + r->n);
    size_t T = p->rows, n_runs = r->n_wanted ? r->n_wanted : 1;
    int rc = 0;

    for (size_t i = 0; i < T; i++)
        put_row(f, T, i, i < r->n ? r->id[i] : 0, i < r->n ? r->slot : f->n_slots, r->pos + i);
    f->in[4 * T] = (int32_t)r->slot;
    for (size_t w = 0; w < n_runs && rc == 0; w++) {
        f->in[4 * T + 1] = (int32_t)(r->n - n_runs + w);
        if ((rc = run_program(f, p, e)) == 0 && r->n_wanted)
            take_logits(f, 0);
    }
    return rc;
}

/* Computes one row of each of the sequences ROWS [n]. */
static int run_decode(struct frames *f, const struct executor_rows *rows, size_t n, struct err *e)
{
    const struct program *p;
    size_t seen = 0, B;
    int rc;

    for (size_t i = 0; i < n; i++)
        seen = rows[i].pos + 1 > seen ? rows[i].pos + 1 : seen;
    p = fit(f, n, 1, seen);
    B = p->n_seqs;
    for (size_t i = 0; i < B; i++) {
        size_t slot = i < n ? rows[i].slot : f->n_slots;

        put_row(f, B, i, i < n ? rows[i].id[0] : 0, slot, i < n ? rows[i].pos : 0);
        f->in[4 * B + i] = (int32_t)slot;
        f->in[5 * B + i] = (int32_t)i;
    }
    rc = run_program(f, p, e);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (rows[i].n_wanted)
            take_logits(f, i);
    return rc;
}

static int run(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    struct frames *f = ctx;
    size_t n_prompts = 0;
    int rc = 0;

    f->n_logits = 0;
    for (size_t i = 0; i < n; i++) {
        n_prompts += rows[i].n > 1;
        keep_rows(f, &rows[i]);
    }
    if (n_prompts == 0)
        rc = run_decode(f, rows, n, e);
    for (size_t i = 0; i < n && n_prompts && rc == 0; i++)
        rc = run_prompt(f, &rows[i], e);
    for (size_t i = 0; i < f->n_slots && rc; i++)
        f->slot[i].n = 0;
    f->is_suspect = rc && f->is_suspect;
    f->is_down = rc != 0;
    return rc;
}

static int reopen(void *ctx, struct err *e)
{
    struct frames *f = ctx;
    int rc = f->reopening.runs ? 0 : errand_start(&f->reopening, open_again, f, e);

    if (rc)
        return rc;
    if (!errand_wait(&f->reopening, 0))
        return EXECUTOR_LATER;
    rc = errand_take(&f->reopening, e);
    f->is_down = rc != 0;
    return rc;
}

static void reopen_wait(void *ctx, double seconds)
{
    struct frames *f = ctx;

    if (f->reopening.runs)
        errand_wait(&f->reopening, seconds);
    else
        clock_sleep(seconds);
}

/* ---- slots ---- */

static bool has_room(void *ctx, const struct executor_want *want, size_t n)
{
    const struct frames *f = ctx;

    for (size_t i = 0; i < n; i++)
        if (want[i].n > f->context)
            return false;
    return true;
}

static size_t begin(void *ctx, size_t slot, const struct executor_prefix *p)
{
    struct frames *f = ctx;
    struct slot *s = &f->slot[slot];
    size_t n = 0;

    if (s->has_salt == (p->salt != NULL) && (!p->salt || memcmp(s->salt, p->salt, sizeof(s->salt)) == 0))
        while (n < s->n && n < p->n_shared && s->id[n] == p->id[n])
            n++;
    s->n = n;
    s->has_salt = p->salt != NULL;
    if (p->salt)
        memcpy(s->salt, p->salt, sizeof(s->salt));
    return n;
}

static int reserve_rows(void *ctx, size_t slot, size_t n)
{
    const struct frames *f = ctx;

    (void)slot;
    return n <= f->context ? 0 : ERR_NOSPACE;
}

/* Rows cannot be copied from slot to slot; the engine computes them again. */
static int fork_rows(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p)
{
    (void)ctx, (void)from, (void)n, (void)to, (void)p;
    return ERR_UNSUPPORTED;
}

/* The rows stay in the slot for a sequence that continues them. TOKEN NULL: they are not to be used again. */
static void release(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct frames *f = ctx;

    if (!token || n < f->slot[slot].n)
        f->slot[slot].n = token ? n : 0;
}

static bool is_stale(void *ctx, size_t computed, size_t last_total, size_t total)
{
    (void)ctx, (void)computed, (void)last_total, (void)total;
    return false;
}

static void settle(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct frames *f = ctx;

    (void)token;
    if (n < f->slot[slot].n)
        f->slot[slot].n = n;
}

static bool sees(void *ctx, size_t slot, size_t n)
{
    const struct frames *f = ctx;

    return n <= f->slot[slot].n;
}

static void truncate_rows(void *ctx, size_t slot, size_t n)
{
    settle(ctx, slot, NULL, n);
}

static const float *logits(void *ctx, size_t first, size_t n)
{
    const struct frames *f = ctx;

    ASSERT(first + n <= f->n_logits, "%zu rows of logits of %zu", first + n, f->n_logits);
    return f->logits + first * f->m->model.info.vocab;
}

static double clock_s(void *ctx)
{
    (void)ctx;
    return (double)clock_ns() * 1e-9;
}

void frames_executor(struct frames *f, struct executor *x)
{
    *x = (struct executor){.caps = {.n_slots = f->n_slots,
                                    .max_len = f->context,
                                    .max_tokens = f->most_rows > f->n_slots ? f->most_rows : f->n_slots,
                                    .max_wanted = f->max_wanted,
                                    .max_logits = f->max_wanted,
                                    .max_prompts = 1,
                                    .mixes = false,
                                    .chunks = true,
                                    .block = 1,
                                    .n_vocab = f->m->model.info.vocab},
                           .ctx = f,
                           .pool = f->m->pool,
                           .kern = f->m->kern,
                           .has_room = has_room,
                           .begin = begin,
                           .reserve = reserve_rows,
                           .fork = fork_rows,
                           .release = release,
                           .is_stale = is_stale,
                           .run = run,
                           .reopen = reopen,
                           .reopen_wait = reopen_wait,
                           .settle = settle,
                           .logits = logits,
                           .clock_s = clock_s,
                           .sees = sees,
                           .truncate = truncate_rows};
}

void frames_stats(const struct frames *f, struct frames_stats *s)
{
    *s = f->stats;
    s->plugin = f->o.source->path;
    s->n_programs = f->n_programs;
    s->n_compiled = (size_t)atomic_load(&f->artifacts.n_compiled);
    s->n_loaded = (size_t)atomic_load(&f->artifacts.n_loaded);
    s->n_kept = (size_t)atomic_load(&f->artifacts.n_kept);
    s->platform = s->version = s->kind = "";
    if (f->is_down)
        return;
    s->platform = f->plugin.platform;
    s->version = f->plugin.version;
    s->kind = f->plugin.kind;
    s->n_devices = f->plugin.n_devices;
    s->memory_bytes = plugin_memory(&f->plugin);
}
