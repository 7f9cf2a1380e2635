/* frames.c - opens the device and computes steps on it as frames, and implements struct executor. */
#include "engine/pjrt/frames.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/threads/errand.h"
#include "base/threads/pool.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engine/pjrt/artifacts.h"
#include "engine/pjrt/needs.h"
#include "engine/pjrt/plugin.h"
#include "engine/pjrt/plugin_source.h"
#include "engine/pjrt/weights.h"
#include "graph/record.h"
#include "graph/stablehlo.h"
#include "kv/prefix.h"
#include "ops/batch.h"
#include "tensor/dtype.h"

enum {
    MAX_ROWS = 3,  /* number of row counts per decoding sequence for which programs are compiled */
    HEAD_ROWS = 32 /* rows of a scored prompt whose logits are computed together */
};

#define CLOSE_S 1.8 /* seconds that frames_close() waits for calls of the plugin */

/* A compiled program and its sizes. */
struct program {
    struct pjrt_loaded *loaded;
    enum stablehlo_part part;
    size_t n_seqs, rows, seen, n_wanted;
    _Atomic uint64_t n_runs, n_padding; /* runs so far, and rows of padding in them */
};

/* The results of the last run on the device. */
struct result {
    const struct program *p;
    struct pjrt_buffer *logits, *best, *hidden[STABLEHLO_MAX_HIDDEN];
    /* N: number of wanted rows; FROM: index of the first of them among the rows of a prompt */
    size_t n, from;
    bool has_best, has_logits; /* the results were copied to f->best and f->logits */
};

/* The KV rows of a slot: of a running sequence, or left by the last one. */
struct slot {
    int32_t *id; /* [context] */
    size_t n;
    /* salt and RoPE regime (slots_key()), which a sequence must share to use the rows */
    struct prefix_key key;
};

struct frames {
    struct plugin plugin;
    struct llm *m;
    struct frames_options o;
    struct pool *pool; /* borrowed; packs linears while the device is opened */
    size_t n_slots, context, max_tokens, max_logits;
    enum dtype dtype;
    struct program *program; /* [n_programs] */
    size_t n_programs;
    size_t decode_rows[MAX_ROWS], n_decode_rows; /* numbers of rows of a decoding sequence, ascending */
    struct pjrt_buffer **arg;                    /* [1 + n_caches + n_weights] inputs, caches, weights */
    struct pjrt_buffer **out;                    /* [n_caches + 2 + n_hidden] */
    size_t n_caches, n_weights, n_hidden;
    struct stablehlo_weight *weight; /* [n_weights] descriptions of the weights */
    /* [1 + n_hidden + n_head] arguments of the head programs; weights are shared with `arg` */
    struct pjrt_buffer **head;
    size_t n_head;
    struct stablehlo_cache *layer; /* [n_caches / 2] */
    struct slot *slot;             /* [n_slots] */
    int32_t *in;                   /* inputs of the largest frame */
    struct batch_seq *seq;         /* [n_slots] the sequences of a frame, for RoPE */
    float *logits;                 /* [most_logits, V] */
    int32_t *best;                 /* argmax tokens of the wanted rows of the last run */
    struct result result;
    size_t most_logits;
    void *zero; /* zeros for the largest cache */
    struct frames_stats stats;
    struct artifact_counts artifacts;
    /* Opens the device again after an error, on a thread of its own. While it runs, no other code uses the members that
     * it changes. */
    struct errand reopening;
    struct err failure; /* the error of fork_rows(), logits() or best() */
    bool is_down;       /* a run has failed, and the device is not open again */
    bool is_suspect;    /* no run has succeeded since the device was opened again */
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

static void add_program(struct frames *f, enum stablehlo_part part, size_t n_seqs, size_t rows, size_t seen)
{
    size_t n_wanted = part == STABLEHLO_STEP ? n_seqs * rows : 1;

    if (n_wanted > f->max_tokens) /* a step has at most so many rows */
        n_wanted = f->max_tokens;
    if (part == STABLEHLO_HEAD)
        n_wanted = rows < HEAD_ROWS ? rows : HEAD_ROWS;
    if (part == STABLEHLO_STEP && n_wanted > f->most_logits)
        f->most_logits = n_wanted;
    f->program[f->n_programs++] =
        (struct program){.part = part, .n_seqs = n_seqs, .rows = rows, .seen = seen, .n_wanted = n_wanted};
}

/* Sets f->decode_rows to the numbers of rows per decoding sequence for which there are programs: one, one more than the
 * maximum number of guesses, and a number between them. */
static void list_rows(struct frames *f)
{
    size_t most = f->o.most_guesses < f->context ? f->o.most_guesses : f->context - 1;

    f->decode_rows[f->n_decode_rows++] = 1;
    if (most > 4)
        f->decode_rows[f->n_decode_rows++] = 1 + most / 2;
    if (most > 0)
        f->decode_rows[f->n_decode_rows++] = 1 + most;
}

/* Fills f->program, largest first, so that a device with too little memory is found out early. The first program
 * computes prompts and has all arguments. */
static int list_programs(struct frames *f, struct err *e)
{
    const struct frames_buckets *p = &f->o.prompts, *b = &f->o.batches, *c = &f->o.contexts;

    list_rows(f);
    f->program =
        mem_zalloc((p->n + f->n_decode_rows * b->n + 1) * c->n + p->n, sizeof(*f->program), MEM_ENGINE);
    if (!f->program)
        return err_nomem(e, "the programs");
    for (size_t k = c->n; k-- > 0;) {
        for (size_t i = p->n; i-- > 0;)
            if (p->size[i] <= c->size[k])
                add_program(f, STABLEHLO_PROMPT, 1, p->size[i], c->size[k]);
        for (size_t r = f->n_decode_rows; r-- > 0;)
            for (size_t i = b->n; i-- > 0;)
                if (f->decode_rows[r] <= c->size[k])
                    add_program(f, STABLEHLO_STEP, b->size[i], f->decode_rows[r], c->size[k]);
    }
    for (size_t i = p->n; i-- > 0;)
        if (p->size[i] > 1)
            add_program(f, STABLEHLO_HEAD, 1, p->size[i], 1);
    for (size_t k = c->n; k-- > 0 && f->n_slots > 1;)
        add_program(f, STABLEHLO_COPY, 1, 1, c->size[k]);
    return 0;
}

/* Returns the bytes of cache I and writes its shape to DIMS. 0: the product overflows. */
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

/* Replaces the caches on the device by new ones with zeros. */
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

/* Sets the bytes of weights and caches that the first program P needs. */
static int count_bytes(struct frames *f, const struct stablehlo *p, struct err *e)
{
    size_t dims[4];

    f->stats.weight_bytes = f->stats.cache_bytes = 0;
    for (size_t i = 0; i < p->n_weights; i++) {
        size_t bytes = dtype_bytes(p->weight[i].dtype);

        for (int d = 0; d < p->weight[i].n_dims; d++)
            bytes *= p->weight[i].shape[d];
        f->stats.weight_bytes += bytes;
    }
    for (size_t i = 0; i < f->n_caches; i++) {
        size_t bytes = cache_bytes(f, i, dims);

        if (bytes == 0 || __builtin_add_overflow(f->stats.cache_bytes, bytes, &f->stats.cache_bytes))
            return err_nomem(e, "a cache");
    }
    return 0;
}

static int open_caches(struct frames *f, struct err *e)
{
    size_t dims[4], largest = 0;

    for (size_t i = 0; i < f->n_caches; i++) {
        size_t bytes = cache_bytes(f, i, dims);

        largest = bytes > largest ? bytes : largest;
    }
    if (!f->zero && !(f->zero = mem_zalloc(largest ? largest : 1, 1, MEM_ENGINE)))
        return err_nomem(e, "a cache");
    return make_caches(f, e);
}

/* Allocates the arguments of all programs as P, the first program, has them, and copies weights and caches to the
 * device. */
static int open_arguments(struct frames *f, const struct stablehlo *p, struct err *e)
{
    struct needs n;
    int rc;

    f->n_caches = 2 * p->n_caches;
    f->n_weights = p->n_weights;
    f->n_hidden = p->n_hidden;
    f->arg = mem_zalloc(1 + f->n_caches + f->n_weights, sizeof(struct pjrt_buffer *), MEM_ENGINE);
    f->head = mem_zalloc(1 + f->n_hidden + f->n_weights, sizeof(struct pjrt_buffer *), MEM_ENGINE);
    f->out = mem_zalloc(f->n_caches + 2 + f->n_hidden, sizeof(struct pjrt_buffer *), MEM_ENGINE);
    f->layer = mem_zalloc(p->n_caches ? p->n_caches : 1, sizeof(*f->layer), MEM_ENGINE);
    f->weight = mem_zalloc(f->n_weights ? f->n_weights : 1, sizeof(*f->weight), MEM_ENGINE);
    if (!f->arg || !f->head || !f->out || !f->layer || !f->weight)
        return err_nomem(e, "the arguments of programs");
    memcpy(f->layer, p->cache, p->n_caches * sizeof(*f->layer));
    memcpy(f->weight, p->weight, p->n_weights * sizeof(*f->weight));
    if ((rc = count_bytes(f, p, e)) != 0)
        return rc;
    n = (struct needs){.weight_bytes = f->stats.weight_bytes,
                       .cache_bytes = f->stats.cache_bytes,
                       .n_slots = f->n_slots,
                       .context = f->context,
                       .memory_bytes = plugin_memory(&f->plugin),
                       .free_bytes = plugin_free_memory(&f->plugin)};
    if ((rc = needs_check(&n, e)) != 0)
        return rc;
    for (size_t i = 0; i < p->n_weights && rc == 0; i++)
        rc = weights_upload(&f->plugin, &f->m->model, p, i, f->context, f->pool, &f->arg[1 + f->n_caches + i],
                            e);
    if (rc == 0)
        rc = open_caches(f, e);
    if (rc == ERR_OS)
        needs_add(&n, e);
    return rc;
}

/* Sets f->head to the weights of P, a program of the kind STABLEHLO_HEAD; they are on the device already. */
static void take_head(struct frames *f, const struct stablehlo *p)
{
    for (f->n_head = 0; f->n_head < p->n_weights; f->n_head++) {
        size_t i = 0;

        while (i < f->n_weights && !stablehlo_is_same(&f->weight[i], &p->weight[f->n_head]))
            i++;
        ASSERT(i < f->n_weights, "weight %zu of a head", f->n_head);
        f->head[1 + f->n_hidden + f->n_head] = f->arg[1 + f->n_caches + i];
    }
}

/* Checks that P has the arguments of the first program. */
static void check_arguments(const struct frames *f, const struct stablehlo *p)
{
    ASSERT(p->n_weights == f->n_weights && 2 * p->n_caches == f->n_caches, "%zu weights", p->n_weights);
    for (size_t i = 0; i < p->n_weights; i++)
        ASSERT(stablehlo_is_same(&p->weight[i], &f->weight[i]), "weight %zu", i);
}

/* Compiles program I, or loads it from the cache folder. */
static int open_program(struct frames *f, size_t i, struct err *e)
{
    struct program *p = &f->program[i];
    struct stablehlo_frame frame = {.part = p->part,
                                    .n_seqs = p->n_seqs,
                                    .rows = p->rows,
                                    .n_wanted = p->n_wanted,
                                    .n_slots = f->n_slots,
                                    .context = f->context,
                                    .seen = p->seen,
                                    .dtype = f->dtype,
                                    .kv_dtype = f->dtype};
    struct graph g = {0};
    struct stablehlo text = {0};
    int rc = graph_record(&g, &f->m->model, p->n_seqs * p->rows, p->n_wanted, e);

    if (rc == 0)
        rc = stablehlo_write(&text, &g, &f->m->model, &frame, e);
    if (rc == 0 && i == 0)
        rc = open_arguments(f, &text, e);
    if (rc == 0 && p->part == STABLEHLO_HEAD)
        take_head(f, &text);
    else if (rc == 0 && p->part != STABLEHLO_COPY)
        check_arguments(f, &text);
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
    size_t V = f->m->model.info.vocab, n_in = 0;
    int32_t *ids;

    for (size_t i = 0; i < f->n_programs; i++) {
        const struct program *p = &f->program[i];
        size_t n = stablehlo_n_inputs(&f->m->model, p->n_seqs, p->rows, p->n_wanted);

        n_in = n > n_in ? n : n_in;
    }
    f->slot = mem_zalloc(f->n_slots, sizeof(*f->slot), MEM_ENGINE);
    ids = mem_zalloc(f->n_slots * f->context, sizeof(*ids), MEM_ENGINE);
    f->in = mem_zalloc(n_in, sizeof(*f->in), MEM_ENGINE);
    f->seq = mem_zalloc(f->n_slots, sizeof(*f->seq), MEM_ENGINE);
    if (f->most_logits < f->max_logits + HEAD_ROWS)
        f->most_logits = f->max_logits + HEAD_ROWS;
    f->logits = mem_zalloc(f->most_logits * V, sizeof(float), MEM_ENGINE);
    f->best = mem_zalloc(f->max_tokens + f->most_logits, sizeof(*f->best), MEM_ENGINE);
    if (!f->slot || !ids) {
        mem_free(ids);
        return err_nomem(e, "the slots");
    }
    for (size_t i = 0; i < f->n_slots; i++)
        f->slot[i].id = ids + i * f->context;
    return f->in && f->seq && f->logits && f->best ? 0 : err_nomem(e, "the slots");
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

static void free_result(struct frames *f)
{
    plugin_free_buffer(&f->plugin, f->result.logits);
    plugin_free_buffer(&f->plugin, f->result.best);
    for (size_t k = 0; k < f->n_hidden; k++)
        plugin_free_buffer(&f->plugin, f->result.hidden[k]);
    f->result = (struct result){0};
}

/* Frees everything on the device. The sizes in f->program stay. */
static void close_device(struct frames *f)
{
    free_result(f);
    for (size_t i = 0; i < f->n_programs; i++) {
        plugin_free_program(&f->plugin, f->program[i].loaded);
        f->program[i].loaded = NULL;
    }
    for (size_t i = 0; f->arg && i < 1 + f->n_caches + f->n_weights; i++)
        plugin_free_buffer(&f->plugin, f->arg[i]);
    plugin_close(&f->plugin);
    mem_free(f->arg);
    mem_free(f->head);
    mem_free(f->out);
    mem_free(f->layer);
    mem_free(f->weight);
    f->arg = f->head = f->out = NULL;
    f->layer = NULL;
    f->weight = NULL;
    f->n_caches = f->n_weights = 0;
}

/* Opens the plugin and all programs of f->program, and with the first one the weights and caches. PROGRESS may be
 * NULL. */
static int open_device(struct frames *f, void (*progress)(void *ctx, size_t done, size_t total),
                       struct err *e)
{
    int rc = plugin_open(&f->plugin, f->o.source, e);

    for (size_t i = 0; i < f->n_programs && rc == 0; i++) {
        if (progress)
            progress(f->o.progress_ctx, i, f->n_programs);
        rc = atomic_load(&f->o.source->is_stopped) ? err_set(e, ERR_CANCELLED, "pjrt: closing")
                                                   : open_program(f, i, e);
    }
    if (rc == 0 && progress)
        progress(f->o.progress_ctx, f->n_programs, f->n_programs);
    return rc;
}

/* Makes the device usable after an error: makes new caches, or, if that fails or has not helped the last time, closes
 * the device and opens it again. */
static int open_again(void *ctx, struct err *e)
{
    struct frames *f = ctx;
    int rc = f->arg && !f->is_suspect ? make_caches(f, e) : -1;

    f->is_suspect = true;
    if (rc == 0)
        return 0;
    close_device(f);
    /* this thread must not use the engine's pool */
    if ((rc = pool_new(&f->pool, 1, e)) != 0)
        return rc;
    rc = open_device(f, NULL, e);
    pool_free(f->pool);
    f->pool = NULL;
    return rc;
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
    f->pool = m->pool;
    f->o = *o;
    f->n_slots = m->max_seqs;
    f->context = m->max_len;
    f->dtype = m->model.opt.dtype;
    f->max_logits = m->max_wanted > HEAD_ROWS ? m->max_wanted : HEAD_ROWS;
    complete(&f->o.prompts, 16, 4, o->most_rows);
    complete(&f->o.batches, 1, 4, f->n_slots);
    complete(&f->o.contexts, 512, 4, f->context);
    f->max_tokens = f->o.prompts.size[f->o.prompts.n - 1];
    f->max_tokens = f->max_tokens > f->n_slots ? f->max_tokens : f->n_slots;
    if ((rc = list_programs(f, e)) == 0 && (rc = open_slots(f, e)) == 0)
        rc = open_device(f, o->progress, e);
    f->pool = NULL;
    if (rc)
        frames_close(f); /* an abandoned call of the plugin uses nothing of M and O */
    else
        *out = f;
    return rc;
}

static int close_on_thread(void *ctx, struct err *e)
{
    (void)e;
    close_device(ctx);
    return 0;
}

/* Stops all calls into the plugin and closes the device. Returns false if that takes longer than CLOSE_S. */
static bool leave_device(struct frames *f)
{
    double end = clock_seconds() + CLOSE_S, left;

    atomic_store(&f->o.source->is_stopped, true);
    if (!errand_wait(&f->reopening, CLOSE_S))
        return false;
    if (f->reopening.runs)
        errand_take(&f->reopening, NULL);
    if (errand_start(&f->reopening, close_on_thread, f, NULL) != 0) {
        close_device(f);
        return true;
    }
    left = end - clock_seconds();
    return errand_wait(&f->reopening, left > 0 ? left : 0);
}

bool frames_close(struct frames *f)
{
    if (!f)
        return true;
    if (!leave_device(f)) {
        log_warn(
            "pjrt: a call of the plugin has not returned within %g s after the engine was closed; its thread "
            "and the memory of the engine are left behind",
            CLOSE_S);
        errand_leave(&f->reopening);
        return false;
    }
    errand_fini(&f->reopening);
    if (f->slot)
        mem_free(f->slot[0].id);
    mem_free(f->slot);
    mem_free(f->program);
    mem_free(f->in);
    mem_free(f->seq);
    mem_free(f->logits);
    mem_free(f->best);
    mem_free(f->zero);
    mem_free(f);
    return true;
}

/* ---- frames ---- */

/* Returns the smallest program of the kind PART for N_SEQS sequences of up to ROWS rows that reads at least SEEN cached
 * rows of each slot. */
static const struct program *fit(const struct frames *f, enum stablehlo_part part, size_t n_seqs, size_t rows,
                                 size_t seen)
{
    const struct program *best = NULL;

    for (size_t i = 0; i < f->n_programs; i++) {
        const struct program *p = &f->program[i];

        if (p->part != part || p->n_seqs < n_seqs || p->rows < rows || p->seen < seen)
            continue;
        if (!best || p->n_seqs * p->rows < best->n_seqs * best->rows ||
            (p->n_seqs * p->rows == best->n_seqs * best->rows && p->seen < best->seen))
            best = p;
    }
    ASSERT(best, "no program for %zu sequences of %zu rows that read %zu", n_seqs, rows, seen);
    return best;
}

/* Counts a run of P, in which N_ROWS of the N rows of the frame are not padding. */
static void count_run(struct frames *f, const struct program *p, size_t n_rows, size_t n)
{
    struct program *counted = &f->program[p - f->program];

    atomic_fetch_add_explicit(&counted->n_runs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counted->n_padding, n - n_rows, memory_order_relaxed);
}

/* Runs the program P with f->in [N] and the other arguments ARG [n_args] and writes its results to f->out [N_OUT]. */
static int run_with(struct frames *f, const struct program *p, size_t n, struct pjrt_buffer **arg,
                    size_t n_args, size_t n_out, struct err *e)
{
    int rc = plugin_upload(&f->plugin, f->in, DT_I32, &n, 1, &arg[0], e);

    if (rc)
        return rc;
    rc = plugin_run(&f->plugin, p->loaded, arg, n_args, f->out, n_out, e);
    plugin_free_buffer(&f->plugin, arg[0]);
    arg[0] = NULL;
    return rc;
}

/* Replaces the caches by the first results of the run: the program has updated them in place. */
static void take_caches(struct frames *f)
{
    for (size_t i = 0; i < f->n_caches; i++) {
        plugin_free_buffer(&f->plugin, f->arg[1 + i]);
        f->arg[1 + i] = f->out[i];
    }
}

/* Runs P with the inputs f->in, and sets f->result, which has N_WANTED rows. */
static int run_program(struct frames *f, const struct program *p, size_t n_wanted, struct err *e)
{
    size_t n_hidden = p->part == STABLEHLO_PROMPT ? f->n_hidden : 0, at = f->n_caches + 2;
    int rc = run_with(f, p, stablehlo_n_inputs(&f->m->model, p->n_seqs, p->rows, p->n_wanted), f->arg,
                      1 + f->n_caches + f->n_weights, at + n_hidden, e);

    if (rc)
        return rc;
    take_caches(f);
    f->result = (struct result){
        .p = p, .logits = f->out[f->n_caches], .best = f->out[f->n_caches + 1], .n = n_wanted};
    for (size_t k = 0; k < n_hidden; k++)
        f->result.hidden[k] = f->out[at + k];
    return 0;
}

/* Writes the inputs of row I of a frame of T rows: token ID at position POS of SLOT. SLOT n_slots: padding. */
static void put_row(struct frames *f, size_t T, size_t i, int32_t id, size_t slot, size_t pos)
{
    bool real = slot < f->n_slots;

    f->in[i] = real ? id : 0;
    f->in[T + i] = real ? (int32_t)pos : 0;
    f->in[2 * T + i] = (int32_t)slot;
    f->in[3 * T + i] = real ? (int32_t)pos : (int32_t)f->context;
}

/* Writes the inputs of the rows of R (NULL: none) and padding to rows [at, at + ROWS) of a frame of T rows. */
static void put_rows(struct frames *f, size_t T, size_t at, const struct executor_rows *r, size_t rows)
{
    size_t n = r ? r->n : 0;

    for (size_t i = 0; i < rows; i++)
        put_row(f, T, at + i, i < n ? r->id[i] : 0, i < n ? r->slot : f->n_slots, i < n ? r->pos + i : 0);
}

/* Writes the slots of the sequences ROWS [n] to the inputs of P, and then the cosines and sines of RoPE for all rows,
 * if they depend on the lengths of sequences (zeros for padding). Returns the address of the next inputs. */
static int32_t *put_sequences(struct frames *f, const struct program *p, const struct executor_rows *rows,
                              size_t n)
{
    const struct model_info *info = &f->m->model.info;
    size_t T = p->n_seqs * p->rows;
    struct batch b = {.n_tokens = T, .n_seqs = n, .seq = f->seq};
    int32_t *at = f->in + stablehlo_n_rows_inputs(p->n_seqs, p->rows);

    for (size_t i = 0; i < p->n_seqs; i++)
        f->in[4 * T + i] = (int32_t)(i < n ? rows[i].slot : f->n_slots);
    for (size_t i = 0; i < n; i++)
        f->seq[i] = (struct batch_seq){.first = i * p->rows,
                                       .n = rows[i].n,
                                       .pos = rows[i].pos,
                                       .n_prompt = rows[i].n_prompt,
                                       .n_total = rows[i].n_total};
    for (size_t r = 0; r < info->n_ropes; r++) {
        size_t n_cos = T * info->rope[r].half;

        if (!rope_by_length(&info->rope[r]))
            continue;
        memset(at, 0, 2 * n_cos * sizeof(*at));
        rope_fill(&info->rope[r], &b, 0, T, (float *)at, (float *)(at + n_cos));
        at += 2 * n_cos;
    }
    return at;
}

static void keep_rows(struct frames *f, const struct executor_rows *r)
{
    struct slot *s = &f->slot[r->slot];

    memcpy(s->id + r->pos, r->id, r->n * sizeof(*r->id));
    s->n = r->pos + r->n;
}

/* Computes the prompt rows R in the smallest frame that fits. */
static int run_prompt(struct frames *f, const struct executor_rows *r, struct err *e)
{
    const struct program *p = fit(f, STABLEHLO_PROMPT, 1, r->n, r->pos + r->n);
    size_t T = p->rows, from = r->n - (r->n_wanted ? r->n_wanted : 1);
    int rc;

    put_rows(f, T, 0, r, T);
    *put_sequences(f, p, r, 1) = (int32_t)from;
    if ((rc = run_program(f, p, r->n_wanted, e)) == 0) {
        f->result.from = from;
        count_run(f, p, r->n, T);
    }
    return rc;
}

/* Computes the rows of the decoding sequences ROWS [n]: those of the last token and of the guesses after it. */
static int run_decode(struct frames *f, const struct executor_rows *rows, size_t n, struct err *e)
{
    const struct program *p;
    size_t seen = 0, most = 1, T, n_wanted = 0, n_rows = 0;
    int32_t *wanted;
    int rc;

    for (size_t i = 0; i < n; i++) {
        seen = rows[i].pos + rows[i].n > seen ? rows[i].pos + rows[i].n : seen;
        most = rows[i].n > most ? rows[i].n : most;
        n_rows += rows[i].n;
    }
    p = fit(f, STABLEHLO_STEP, n, most, seen);
    T = p->n_seqs * p->rows;
    wanted = put_sequences(f, p, rows, n);
    for (size_t i = 0; i < p->n_seqs; i++) {
        const struct executor_rows *r = i < n ? &rows[i] : NULL;

        put_rows(f, T, i * p->rows, r, p->rows);
        for (size_t k = r ? r->n - r->n_wanted : 0; r && k < r->n; k++)
            wanted[n_wanted++] = (int32_t)(i * p->rows + k);
    }
    for (size_t i = n_wanted; i < p->n_wanted; i++)
        wanted[i] = 0;
    if ((rc = run_program(f, p, n_wanted, e)) == 0)
        count_run(f, p, n_rows, T);
    return rc;
}

/* Notes that the device has failed, so that the rows of all slots are lost. */
static void lose_slots(struct frames *f)
{
    for (size_t i = 0; i < f->n_slots; i++)
        f->slot[i].n = 0;
    f->is_down = true;
}

/* Returns whether R is a part of a prompt, and not the last known token of a decoding sequence with its guesses. */
static bool is_prompt(const struct frames *f, const struct executor_rows *r)
{
    return r->n > f->decode_rows[f->n_decode_rows - 1] || (r->n > 1 && r->pos + 1 < r->n_total);
}

static int frames_run(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    struct frames *f = ctx;
    int rc = 0;

    ASSERT(n == 1 || !is_prompt(f, &rows[0]), "%zu sequences beside a prompt", n - 1);
    if (f->is_down) { /* an earlier fork_rows() has failed */
        *e = f->failure;
        return ERR_OS;
    }
    free_result(f);
    for (size_t i = 0; i < n; i++)
        keep_rows(f, &rows[i]);
    rc = is_prompt(f, &rows[0]) ? run_prompt(f, &rows[0], e) : run_decode(f, rows, n, e);
    if (rc)
        lose_slots(f);
    else if (f->result.n == 0)
        f->is_suspect = false; /* otherwise cleared when the results are copied (end_results()) */
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

/* ---- results ---- */

/* Handles the result RC of copying results to the host: on failure, all slots are lost and logits() or best() fails
 * with E. */
static void end_results(struct frames *f, int rc, const struct err *e)
{
    if (rc) {
        f->failure = *e;
        lose_slots(f);
    } else {
        f->is_suspect = false;
    }
}

/* Copies BUFFER, which has BYTES bytes, from the device to TO. */
static int download(struct frames *f, struct pjrt_buffer *buffer, void *to, size_t bytes, struct err *e)
{
    f->stats.down_bytes += bytes;
    return plugin_download(&f->plugin, buffer, to, bytes, e);
}

/* Returns whether the logits of the last run are computed by a head program: several rows of a prompt are wanted. */
static bool has_head(const struct frames *f)
{
    return f->result.p->part == STABLEHLO_PROMPT && f->result.n > 1;
}

/* Computes the logits of rows [FROM, FROM + N) of the last prompt, N at most HEAD_ROWS, into TO, which has room for
 * HEAD_ROWS rows. */
static int run_head(struct frames *f, size_t from, size_t n, float *to, struct err *e)
{
    const struct program *p = fit(f, STABLEHLO_HEAD, 1, f->result.p->rows, 0);
    int rc;

    for (size_t i = 0; i < p->n_wanted; i++)
        f->in[i] = (int32_t)(from + (i < n ? i : 0));
    for (size_t k = 0; k < f->n_hidden; k++)
        f->head[1 + k] = f->result.hidden[k];
    if ((rc = run_with(f, p, p->n_wanted, f->head, 1 + f->n_hidden + f->n_head, 2, e)) != 0)
        return rc;
    count_run(f, p, n, p->n_wanted);
    rc = download(f, f->out[0], to, p->n_wanted * f->m->model.info.vocab * sizeof(float), e);
    plugin_free_buffer(&f->plugin, f->out[0]);
    plugin_free_buffer(&f->plugin, f->out[1]);
    return rc;
}

/* Copies the logits of all rows of a frame to the host at the first call. */
static const float *logits(void *ctx, size_t first, size_t n)
{
    struct frames *f = ctx;
    struct result *r = &f->result;
    size_t V = f->m->model.info.vocab, at = first;
    struct err e = {0};
    int rc = 0;

    if (n == 0)
        return f->logits;
    ASSERT(first + n <= r->n, "logits of rows %zu to %zu of %zu", first, first + n, r->n);
    for (size_t i = 0; i < n && has_head(f) && rc == 0; i += HEAD_ROWS)
        rc = run_head(f, r->from + first + i, n - i < HEAD_ROWS ? n - i : HEAD_ROWS, f->logits + i * V, &e);
    if (has_head(f)) {
        at = 0;
    } else if (!r->has_logits) {
        rc = download(f, r->logits, f->logits, r->p->n_wanted * V * sizeof(float), &e);
        r->has_logits = true;
    }
    end_results(f, rc, &e);
    return rc ? NULL : f->logits + at * V;
}

static const int32_t *best(void *ctx, size_t first, size_t n)
{
    struct frames *f = ctx;
    struct result *r = &f->result;
    struct err e = {0};
    int rc = 0;

    ASSERT(first + n <= r->n, "tokens of rows %zu to %zu of %zu", first, first + n, r->n);
    if (!r->has_best && !has_head(f))
        rc = download(f, r->best, f->best, r->p->n_wanted * sizeof(*f->best), &e);
    for (size_t i = 0; i < r->n && has_head(f); i++)
        f->best[i] = -1;
    r->has_best = true;
    end_results(f, rc, &e);
    return rc ? NULL : f->best + first;
}

static void failure(void *ctx, struct err *e)
{
    const struct frames *f = ctx;

    *e = f->failure;
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
    const struct model_info *info = &f->m->model.info;
    struct prefix_key key = slots_key(p, rope_regime(info->rope, info->n_ropes, p->n_prompt, p->n));
    size_t n = 0;

    if (memcmp(&s->key, &key, sizeof(key)) == 0)
        while (n < s->n && n < p->n_shared && s->id[n] == p->id[n])
            n++;
    s->n = n;
    s->key = key;
    return n;
}

static int reserve_rows(void *ctx, size_t slot, size_t n)
{
    const struct frames *f = ctx;

    (void)slot;
    return n <= f->context ? 0 : ERR_NOSPACE;
}

/* Copies the KV rows on the device. If the plugin fails, all slots are lost, which the next run() reports. */
static int fork_rows(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *prefix)
{
    struct frames *f = ctx;
    struct slot *a = &f->slot[from], *b = &f->slot[to];
    const struct program *p = fit(f, STABLEHLO_COPY, 1, 1, n);

    (void)prefix; /* FROM has the same salt and RoPE frequencies */
    if (f->is_down)
        return ERR_OS;
    ASSERT(n <= a->n && from != to, "%zu of %zu rows from slot %zu to %zu", n, a->n, from, to);
    f->in[0] = (int32_t)from;
    f->in[1] = (int32_t)to;
    if (run_with(f, p, 2, f->arg, 1 + f->n_caches, f->n_caches, &f->failure) != 0) {
        lose_slots(f);
        return ERR_OS;
    }
    take_caches(f);
    count_run(f, p, 1, 1);
    memcpy(b->id, a->id, n * sizeof(*a->id));
    b->n = n;
    b->key = a->key;
    return 0;
}

/* The KV rows stay in the slot for a later sequence that begins with the same tokens. TOKEN NULL: they are dropped. */
static void release(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct frames *f = ctx;

    if (!token || n < f->slot[slot].n)
        f->slot[slot].n = token ? n : 0;
}

static bool is_stale(void *ctx, size_t computed, size_t last_total, size_t total)
{
    const struct frames *f = ctx;

    return computed && rope_is_stale(f->m->model.info.rope, f->m->model.info.n_ropes, last_total, total);
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

static double clock_s(void *ctx)
{
    (void)ctx;
    return (double)clock_ns() * 1e-9;
}

void frames_executor(struct frames *f, struct executor *x)
{
    *x = (struct executor){.caps = {.n_slots = f->n_slots,
                                    .max_len = f->context,
                                    .max_tokens = f->max_tokens,
                                    .max_wanted = f->max_tokens,
                                    .max_logits = f->max_logits,
                                    .max_prompts = 1,
                                    .mixes = false,
                                    .chunks = true,
                                    .guesses = f->o.most_guesses > 0,
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
                           .run = frames_run,
                           .reopen = reopen,
                           .reopen_wait = reopen_wait,
                           .settle = settle,
                           .logits = logits,
                           .best = best,
                           .failure = failure,
                           .clock_s = clock_s,
                           .sees = sees,
                           .truncate = truncate_rows};
}

void frames_state(const struct frames *f, struct engine_executor *s)
{
    const struct artifact_counts *n = &f->artifacts;

    s->n_programs = f->n_programs;
    s->n_compiled = atomic_load(&n->n_compiled);
    s->n_loaded = atomic_load(&n->n_loaded);
    s->n_kept = atomic_load(&n->n_kept);
    s->n_damaged = atomic_load(&n->n_damaged);
    s->compile_s = (double)atomic_load(&n->compile_ns) * 1e-9;
}

void frames_program(const struct frames *f, size_t i, struct engine_program *p)
{
    static const char *const kind[] = {[STABLEHLO_PROMPT] = "prompt",
                                       [STABLEHLO_STEP] = "decode",
                                       [STABLEHLO_HEAD] = "head",
                                       [STABLEHLO_COPY] = "copy"};
    const struct program *q = &f->program[i];

    *p = (struct engine_program){.kind = kind[q->part],
                                 .n_seqs = q->n_seqs,
                                 .n_rows = q->rows,
                                 .n_seen = q->seen,
                                 .n_runs = atomic_load(&q->n_runs),
                                 .n_padding_rows = atomic_load(&q->n_padding)};
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
