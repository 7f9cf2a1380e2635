/* model.c - opens a checkpoint, packs its weights, runs the forward pass of its architecture. */
#include "model/model.h"
#include "base/threads/pool.h"
#include "ckpt/checkpoint.h"
#include "ckpt/config.h"
#include "ckpt/pack/pack.h"
#include "ckpt/weights.h"
#include "kern/kern.h"
#include "model/calibration.h"
#include "ops/linear_backend.h"
#include "ops/op.h"
#include "tensor/dtype.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/xxh3.h"
#include "ckpt/quantised.h"
#include "model/bind.h"

static const struct model_arch archs[] = {
#define MODEL_ARCH(class_name, model_type, open) {class_name, model_type, open},
#include "model/archs.def"
#undef MODEL_ARCH
};
enum { N_ARCHS = sizeof(archs) / sizeof(archs[0]) };

const char *model_arch_names(char *out, size_t size)
{
    size_t at = 0;

    out[0] = 0;
    for (int i = 0; i < N_ARCHS && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, i ? ", %s" : "%s", archs[i].class_name);
    return out;
}

bool model_arch_known(const char *class_name)
{
    for (int i = 0; i < N_ARCHS; i++)
        if (strcmp(archs[i].class_name, class_name) == 0)
            return true;
    return false;
}

/* Finds the architecture by architectures[0], or by model_type if the config has no architectures. */
static int find_arch(struct model *m, struct err *e)
{
    const char *name[8], *type;
    char known[512];
    size_t n;
    int rc;

    if ((rc = config_strs(m->config, "architectures", name, 8, &n, e)) != 0 ||
        (rc = config_str(m->config, "model_type", NULL, &type, e)) != 0)
        return rc;
    if (n == 0 && !type)
        return err_set(e, ERR_INPUT,
                       "%s: found neither architectures nor model_type, expected the model's class",
                       config_path(m->config));
    for (int i = 0; i < N_ARCHS; i++)
        if (n ? strcmp(archs[i].class_name, name[0]) == 0 : strcmp(archs[i].model_type, type) == 0) {
            m->arch = &archs[i];
            return 0;
        }
    return err_set(e, ERR_UNSUPPORTED, "%s: architecture %s is not supported (known: %s)",
                   config_path(m->config), n ? name[0] : type, model_arch_names(known, sizeof(known)));
}

/* Config keys that have no effect on inference with models of MODEL_TYPE. */
static const struct {
    const char *model_type;
    const char *key[8];
} without_effect[] = {
    /* keys of classification heads, and keys that only early versions of the config class in transformers
     * had */
    {"gpt2",
     {"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "n_special",
      "predict_special_tokens"}},
    {"gptj", {"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"}},
    /* keys of training */
    {"mixtral", {"router_jitter_noise", "router_aux_loss_coef"}},
    {"qwen3_moe", {"router_aux_loss_coef"}},
    {"gpt_oss", {"router_aux_loss_coef"}},
    {"llama4", {"router_jitter_noise", "router_aux_loss_coef"}},
    {"llama4_text", {"router_jitter_noise", "router_aux_loss_coef"}},
};

static void ignore_keys(struct model *m)
{
    for (size_t i = 0; i < sizeof(without_effect) / sizeof(without_effect[0]); i++)
        for (size_t k = 0; without_effect[i].key[k]; k++)
            if (strcmp(without_effect[i].model_type, m->arch->model_type) == 0)
                config_ignore(m->config, without_effect[i].key[k]);
}

/* Marks a model with attention in both directions as headless, because it cannot predict the next token. */
static void note_direction(struct model *m)
{
    if (!m->bidirectional)
        return;
    m->info.headless = true;
    snprintf(
        m->headless, sizeof(m->headless),
        "%.300s: this model's attention goes in both directions: it cannot generate text, its embeddings can "
        "be served (gallop serve, /v1/embeddings)",
        config_path(m->config_file));
}

static void report_unused(struct model *m)
{
    const char *first[3];
    size_t n = weights_unused(m->weights, first, 3);

    if (n)
        log_warn("%zu tensor%s of the checkpoint %s not used: %s%s%s%s%s%s", n, n == 1 ? "" : "s",
                 n == 1 ? "is" : "are", first[0], n > 1 ? ", " : "", n > 1 ? first[1] : "", n > 2 ? ", " : "",
                 n > 2 ? first[2] : "", n > 3 ? ", ..." : "");
}

enum kern_fn model_gemm(const struct model *m)
{
    static const enum kern_fn of[QUANT_N][2] = {
        [QUANT_AS_STORED] = {KERN_FN_gemm_f32, KERN_FN_gemm_bf16},
        [QUANT_NONE] = {KERN_FN_gemm_f32, KERN_FN_gemm_bf16},
        [QUANT_INT8] = {KERN_FN_gemm_i8, KERN_FN_gemm_i8},
        [QUANT_INT8_STATIC] = {KERN_FN_gemm_i8, KERN_FN_gemm_i8},
        [QUANT_INT4] = {KERN_FN_gemm_i4, KERN_FN_gemm_i4},
        [QUANT_INT4_128] = {KERN_FN_gemm_i4, KERN_FN_gemm_i4},
        [QUANT_MXFP4] = {KERN_FN_gemm_mx4_f32, KERN_FN_gemm_blocks},
    };

    return m->has_stored_groups ? KERN_FN_gemm_blocks : of[m->opt.quant.of[OP_MLP]][m->opt.dtype == DT_BF16];
}

/* Checks that a packed checkpoint has the dtype and quantization of the options. */
static int fit_pack(struct model *m, struct err *e)
{
    const struct pack *p = m->checkpoint->pack;
    struct model_options *o = &m->opt;
    char asked[QUANT_TEXT_MAX];
    int rc;

    m->calibration = p ? p->calibration : o->scales ? o->scales->sum : 0;
    if (!p)
        return 0;
    o->dtype = o->dtype_open ? p->dtype : o->dtype;
    if (quant_is(&o->quant, QUANT_AS_STORED) && strcmp(p->quant, "gguf") != 0 &&
        (rc = quant_read(&o->quant, p->quant, e)) != 0) {
        err_prefix(e, "%s", p->path);
        return rc;
    }
    quant_text(&o->quant, "gguf", asked);
    if (o->save)
        return err_set(
            e, ERR_INPUT,
            "%s: this checkpoint is already packed; expected the checkpoint from which it was made", p->path);
    if (o->dtype != p->dtype || strcmp(p->quant, asked) != 0)
        return err_set(
            e, ERR_INPUT,
            "%s: this checkpoint is packed for dtype %s and quant %s, expected dtype %s and quant %s; pack it "
            "again (gallop pack)",
            p->path, p->dtype == DT_F32 ? "fp32" : "bf16", p->quant, o->dtype == DT_F32 ? "fp32" : "bf16",
            asked);
    return 0;
}

/* Opens the checkpoint, its config and its weights, and finds the architecture. */
static int open_files(struct model *m, const char *dir, struct err *e)
{
    const struct model_options *o = &m->opt;
    int rc = 0;

    if (!o->checkpoint && !(m->own = arena_zalloc(&m->arena, 1, sizeof(*m->own))))
        return err_nomem(e, "the model");
    m->checkpoint = m->own ? m->own : o->checkpoint;
    if (m->own)
        rc = checkpoint_open(m->own, (struct folder){.path = dir, .allow_links = o->allow_links}, e);
    if (rc == 0)
        rc = checkpoint_check(m->checkpoint, e);
    if (rc == 0)
        rc = fit_pack(m, e);
    if (rc == 0)
        rc = checkpoint_config(&m->config_file, m->checkpoint, e);
    if (rc)
        return rc;
    m->config = m->config_file;
    rc = find_arch(m, e);
    if (rc == 0)
        rc = checkpoint_weights(&m->weights, m->checkpoint, e);
    if (rc == 0)
        rc = quantised_open(&m->quantised, m->checkpoint->pack ? NULL : m->weights, m->config_file,
                            m->checkpoint->in, m->pool, e);
    return rc;
}

int model_open(struct model *m, const char *dir, const struct model_options *opt, struct pool *pool,
               struct err *e)
{
    int rc;

    *m = (struct model){.opt = *opt, .pool = pool, .e = e};
    arena_init(&m->arena, MEM_MODEL);
    arena_init(&m->todo_arena, MEM_MODEL);
    rc = open_files(m, dir, e);
    if (rc)
        goto fail;
    if (m->quantised && quantised_unpacked(m->quantised))
        log_warn(
            "%s: %zu matrices of %s are expanded to fp32: their groups are not multiples of 32 neighbours, or "
            "their scales are not fp16",
            weights_path(m->weights), quantised_unpacked(m->quantised), quantised_method(m->quantised));
    bind_direction(m);
    m->arch->open(m);
    ignore_keys(m);
    note_direction(m);
    if ((rc = weights_checked(m->weights, m->rc, e)) != 0 || (rc = config_finish(m->config_file, e)) != 0)
        goto fail;
    m->e = NULL;
    quant_text(&m->opt.quant, m->has_stored_groups ? "gguf" : "none", m->quant);
    report_unused(m);
    return 0;
fail:
    model_close(m);
    return rc;
}

struct look_job {
    const struct view *table;
    atomic_bool refused;
};

static void look_share(void *ctx, int thread, int n_threads)
{
    enum { N = 256 };
    struct look_job *j = ctx;
    const struct view *v = j->table;
    size_t k = v->shape[1], begin, end;
    bool finite = true, plain = view_is_contiguous(v) && !dtype_is_grouped(v->dtype);
    float x[N];

    pool_share(v->shape[0], 1, thread, n_threads, &begin, &end);
    if (plain && begin < end)
        finite = dtype_all_finite((const char *)v->data + begin * k * dtype_bytes(v->dtype),
                                  (end - begin) * k, v->dtype);
    for (size_t r = begin; r < end && !plain; r++)
        for (size_t i = 0; i < k; i += N) {
            size_t n = k - i < N ? k - i : N;

            view_part_f32(v, r, i, n, x);
            finite &= dtype_all_finite(x, n, DT_F32);
        }
    if (!finite)
        atomic_store(&j->refused, true);
}

struct copy_job {
    char *to;
    const char *from;
    size_t n;
};

/* Bytes of a file that are read at a time. Their pages are released afterwards. */
static const size_t piece_bytes = (size_t)4 << 20;

static void copy_share(void *ctx, int thread, int n_threads)
{
    const struct copy_job *j = ctx;
    size_t begin, end;

    pool_share(j->n, 4096, thread, n_threads, &begin, &end);
    for (size_t at = begin; at < end; at += piece_bytes) {
        size_t n = end - at < piece_bytes ? end - at : piece_bytes;

        memcpy(j->to + at, j->from + at, n);
        map_file_drop(j->from + at, n);
    }
}

/* Copies the elements of V on the pool's threads, and lets V point to the copy. */
static int keep_table(struct model *m, struct view *v, struct err *e)
{
    struct copy_job job = {.from = v->data, .n = view_span_bytes(v)};

    if (!mem_grow((void **)&m->table, &m->cap_tables, m->n_tables + 1, sizeof(*m->table), MEM_MODEL))
        return err_nomem(e, "the list of tables");
    if (!(job.to = map_region_new(job.n)))
        return err_set(e, ERR_NOMEM, "out of memory: %zu bytes for the table %s", job.n, v->name);
    m->table[m->n_tables++] = (struct model_table){job.to, job.n};
    pool_run(m->pool, copy_share, &job);
    v->data = job.to;
    return 0;
}

/* Keeps the first and last bytes of T for model_identity(), because the files will be closed. */
static void keep_ends(const struct model *m, struct model_tensor *t)
{
    size_t bytes = view_bytes(t->view), n = bytes < MODEL_END_BYTES ? bytes : MODEL_END_BYTES;

    if (m->checkpoint->pack) {
        const struct pack_tensor *kept = pack_tensor_of(m->checkpoint->pack, t->view);

        memcpy(t->end, kept->end, sizeof(t->end));
        t->sum = m->opt.all_bytes ? kept->sum : 0;
        return;
    }
    if (n == 0 || !view_is_contiguous(t->view))
        return;
    memcpy(t->end[0], t->view->data, n);
    memcpy(t->end[1], (const char *)t->view->data + bytes - n, n);
}

/* Returns the hash of all bytes of V, which is not empty. */
static uint64_t sum_of(const struct view *v)
{
    size_t n = view_span_bytes(v);
    uint64_t sum = 0;

    for (size_t at = 0; at < n; at += piece_bytes) {
        const char *p = (const char *)v->data + at;
        size_t bytes = n - at < piece_bytes ? n - at : piece_bytes;

        sum = XXH3_64bits_withSeed(p, bytes, sum);
        map_file_drop(p, bytes);
    }
    return sum;
}

struct sum_job {
    struct model *m;
    atomic_size_t next;
};

static void sum_share(void *ctx, int thread, int n_threads)
{
    struct sum_job *job = ctx;

    (void)thread;
    (void)n_threads;
    for (size_t t; (t = atomic_fetch_add(&job->next, 1)) < job->m->n_tensors;) {
        const struct view *v = job->m->tensor[t].view;

        if (view_bytes(v))
            job->m->tensor[t].sum = sum_of(v);
    }
}

static int refuse_number(const struct view *v, struct err *e)
{
    return err_set(e, ERR_INPUT, "%s: tensor %s holds an infinity or NaN, expected finite numbers", v->file,
                   v->name);
}

bool model_streams(const struct model *m, const struct model_todo *t)
{
    return m->opt.streams && !m->checkpoint->pack && t->linear &&
           !(t->desc->is_expert && t->linear->dtype == DT_I8);
}

static int do_embed(struct model *m, const struct model_todo *t, struct err *e)
{
    struct look_job look = {.table = &t->embed->table};
    int rc;

    if (m->checkpoint->pack) /* `gallop pack` checked the table, and the file stays mapped */
        return 0;
    rc = m->opt.streams ? 0 : keep_table(m, &t->embed->table, e);
    if (rc || !t->look)
        return rc;
    pool_run(m->pool, look_share, &look);
    map_file_drop(look.table->data, view_span_bytes(look.table));
    return atomic_load(&look.refused) ? refuse_number(look.table, e) : 0;
}

/* Maps linear I of the packed checkpoint as t->linear. */
static int take_packed(struct model *m, const struct model_todo *t, size_t i, struct err *e)
{
    const struct pack *p = m->checkpoint->pack;
    const struct pack_linear *found = i < p->n_linears ? &p->linear[i] : NULL;
    const struct linear *l = t->linear;

    if (!found || strcmp(found->name, t->desc->name) != 0 || strcmp(found->layout, l->backend->layout) != 0 ||
        found->n != l->n || found->k != l->k || found->dtype != l->dtype || found->paired != l->paired ||
        found->blob.bytes != l->packed_bytes)
        return err_set(
            e, ERR_INPUT,
            "%s: linear %s is packed in another form than backend %s of this gallop reads; pack the checkpoint again "
            "(gallop pack)",
            p->path, t->desc->name, l->backend->name);
    return linear_map(t->linear, t->desc, found->blob.data, m->pool, e);
}

static int do_one(struct model *m, const struct model_todo *t, size_t *n_linears, struct err *e)
{
    if (model_streams(m, t))
        return linear_read_bias(t->linear, t->desc, e);
    if (t->linear)
        return m->checkpoint->pack ? take_packed(m, t, (*n_linears)++, e)
                                   : linear_pack(t->linear, t->desc, m->pool, e);
    if (t->embed)
        return do_embed(m, t, e);
    if (t->vector) {
        size_t n = view_elements(t->vector);

        view_row_f32(t->vector, 0, t->out);
        for (size_t i = 0; i < n; i++)
            t->out[i] = t->out[i] * t->times + t->add;
        return dtype_all_finite(t->out, n, DT_F32) ? 0 : refuse_number(t->vector, e);
    }
    if (t->layers && m->opt.progress)
        m->opt.progress(m->opt.progress_ctx, t->layers, m->info.n_layers);
    return 0;
}

/* ---- packed checkpoints ---- */

_Static_assert((int)MODEL_END_BYTES == (int)PACK_END_BYTES,
               "packed checkpoints keep the same number of bytes");

/* Returns whether V is needed by itself, and not only as a weight that is packed into a linear. A view of a
 * part of a tensor has the same name pointer as the tensor. */
static bool is_read(const struct model *m, const struct view *v)
{
    for (size_t i = 0; i < m->n_todo; i++) {
        const struct model_todo *t = &m->todo[i];

        if ((t->vector && t->vector->name == v->name) || (t->embed && t->embed->table.name == v->name))
            return true;
        for (size_t p = 0; t->linear && p < t->desc->n_parts; p++)
            if (t->desc->bias[p] && t->desc->bias[p]->name == v->name)
                return true;
    }
    return false;
}

/* Checks that a packed checkpoint has the bytes of all tensors for which is_read() is true. */
static int check_there(const struct model *m, struct err *e)
{
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct view *v = m->tensor[i].view;

        if (!v->data && view_bytes(v) && is_read(m, v))
            return err_set(
                e, ERR_INPUT,
                "%s: the bytes of tensor %s are missing: the file was altered; pack the checkpoint "
                "again (gallop pack)",
                m->checkpoint->pack->path, v->name);
    }
    return 0;
}

static int save_tensor(struct model *m, const struct model_tensor *t, struct err *e)
{
    struct pack_tensor about = {.sum = t->sum};

    memcpy(about.end, t->end, sizeof(about.end));
    return pack_view(m->opt.save, t->view, &about, is_read(m, t->view), e);
}

static int save_linear(struct model *m, const struct model_todo *t, struct err *e)
{
    const struct linear *l = t->linear;
    const struct pack_linear about = {.name = t->desc->name,
                                      .layout = l->backend->layout,
                                      .n = l->n,
                                      .k = l->k,
                                      .dtype = l->dtype,
                                      .paired = l->paired};

    return pack_packed(m->opt.save, &about, l->packed, l->packed_bytes, e);
}

/* Writes the packed checkpoint, before the original files are closed. */
static int save_pack(struct model *m, struct err *e)
{
    int rc;

    m->opt.save->pool = m->pool;
    rc = pack_begin(m->opt.save, m->opt.dtype, m->quant, m->calibration, e);
    if (rc == 0)
        rc = checkpoint_pack_files(m->checkpoint, m->opt.save, e);
    for (size_t i = 0; i < m->n_tensors && rc == 0; i++)
        rc = save_tensor(m, &m->tensor[i], e);
    for (size_t i = 0; i < m->n_todo && rc == 0; i++)
        if (m->todo[i].linear)
            rc = save_linear(m, &m->todo[i], e);
    return rc ? rc : pack_end(m->opt.save, e);
}

static void forget_todo(struct model *m)
{
    mem_free(m->todo);
    m->todo = NULL;
    m->n_todo = m->cap_todo = 0;
    arena_fini(&m->todo_arena);
}

int model_pack(struct model *m, struct err *e)
{
    size_t n_linears = 0;
    int rc = 0;

    if (m->checkpoint->pack && (rc = check_there(m, e)) == 0)
        rc = pack_prove(m->checkpoint->pack, m->pool, e);
    for (size_t i = 0; i < m->n_todo && rc == 0; i++)
        rc = do_one(m, &m->todo[i], &n_linears, e);
    for (size_t i = 0; i < m->n_tensors && rc == 0; i++)
        keep_ends(m, &m->tensor[i]);
    if (rc == 0 && !m->checkpoint->pack && (m->opt.all_bytes || m->opt.save))
        pool_run(m->pool, sum_share, &(struct sum_job){.m = m});
    if (rc == 0 && m->opt.save)
        rc = save_pack(m, e);
    rc = weights_checked(m->weights, rc, e);
    if (rc == 0 && m->opt.streams)
        return 0;
    forget_todo(m);
    weights_let_go(m->weights);
    quantised_let_go(m->quantised);
    return rc ? rc : checkpoint_let_go(m->checkpoint, e);
}

void model_close(struct model *m)
{
    if (m->impl)
        m->close(m);
    for (size_t i = 0; i < m->info.n_ropes; i++)
        rope_close(&m->info.rope[i]);
    forget_todo(m);
    for (size_t i = 0; i < m->n_tables; i++)
        map_region_free(m->table[i].p, m->table[i].bytes);
    mem_free(m->table);
    mem_free(m->tensor);
    mem_free(m->linear);
    weights_close(m->weights);
    quantised_close(m->quantised);
    config_close(m->config_file);
    if (m->own)
        checkpoint_close(m->own);
    arena_fini(&m->arena);
    *m = (struct model){0};
}

int model_check_length(const struct model *m, size_t len, struct err *e)
{
    if (m->info.fixed_positions && len > m->info.max_len)
        return err_set(e, ERR_INPUT,
                       "the requested length is %zu tokens, but the model has only %zu learned positions",
                       len, m->info.max_len);
    return 0;
}

void model_layers(const struct model *m, const struct op_sink *o, const struct batch *b, struct model_work *s)
{
    m->forward(m, o, b, s);
}

void model_tail(const struct model *m, const struct op_sink *o, const struct batch *b, struct model_work *s)
{
    m->tail(m, o, b, s);
}

void model_forward(const struct model *m, const struct op_sink *o, const struct batch *b,
                   struct model_work *s)
{
    model_layers(m, o, b, s);
    model_tail(m, o, b, s);
}

/* ---- identity: an XXH3-64 hash of everything that determines the model's results ---- */

static uint64_t mix_bytes(uint64_t h, const void *p, size_t n)
{
    return XXH3_64bits_withSeed(p, n, h);
}

static uint64_t mix_tensor(uint64_t h, const struct model_tensor *t)
{
    const struct view *v = t->view;
    uint64_t shape[VIEW_MAX_DIMS + 2] = {(uint64_t)v->dtype, (uint64_t)v->n_dims};
    size_t bytes = view_bytes(v), n = bytes < MODEL_END_BYTES ? bytes : MODEL_END_BYTES;

    for (int d = 0; d < v->n_dims; d++)
        shape[2 + d] = v->shape[d];
    h = mix_bytes(h, v->name, strlen(v->name));
    h = mix_bytes(h, shape, sizeof(shape));
    h = mix_bytes(h, &t->sum, sizeof(t->sum));
    if (!view_is_contiguous(v))
        return h;
    h = mix_bytes(h, t->end[0], n);
    return mix_bytes(h, t->end[1], n);
}

static uint64_t mix_rope(uint64_t h, const struct rope *r)
{
    uint64_t kind[2] = {(uint64_t)r->type, r->dim};
    double number[4] = {r->theta, r->factor, r->original, (double)r->attention_factor};

    h = mix_bytes(h, kind, sizeof(kind));
    h = mix_bytes(h, number, sizeof(number));
    if (r->inv)
        h = mix_bytes(h, r->inv, r->half * sizeof(float));
    if (r->inv_long)
        h = mix_bytes(h, r->inv_long, r->half * sizeof(float));
    return h;
}

uint64_t model_identity(const struct model *m)
{
    const struct model_info *i = &m->info;
    uint64_t size[] = {i->n_layers,   i->hidden, i->n_heads, i->n_kv,
                       i->head_dim,   i->inner,  i->vocab,   config_sum(m->config_file),
                       m->calibration};
    uint64_t h = mix_bytes(0, m->arch->class_name, strlen(m->arch->class_name));

    h = mix_bytes(h, size, sizeof(size));
    for (size_t l = 0; l < i->n_layers && i->window; l++)
        h = mix_bytes(h, &i->window[l], sizeof(i->window[l]));
    for (size_t l = 0; l < i->n_layers && i->sink; l++)
        h = mix_bytes(h, &i->sink[l], sizeof(i->sink[l]));
    for (size_t r = 0; r < i->n_ropes; r++)
        h = mix_rope(h, &i->rope[r]);
    for (size_t t = 0; t < m->n_tensors; t++)
        h = mix_tensor(h, &m->tensor[t]);
    return h;
}

/* ---- buffers ---- */

static size_t lay_out(struct model_work *s, const struct model *m, size_t T, size_t wanted, char *base)
{
    const struct model_info *i = &m->info;
    size_t at = 0;

    s->x = map_carve(base, &at, T * i->hidden * 4);
    s->r = map_carve(base, &at, T * i->hidden * 4);
    s->r2 = map_carve(base, &at, T * i->hidden * 4);
    s->h = map_carve(base, &at, T * i->hidden * 4);
    s->extra = map_carve(base, &at, T * i->extra * 4);
    s->qkv = map_carve(base, &at, T * (i->n_heads + 2 * i->n_kv) * i->head_dim * 4);
    s->a = map_carve(base, &at, T * i->n_heads * i->head_dim * 4);
    s->xw = map_carve(base, &at, wanted * i->hidden * 4);
    s->rw = map_carve(base, &at, wanted * i->hidden * 4);
    s->hw = map_carve(base, &at, wanted * i->hidden * 4);
    return at;
}

int model_work_open(struct model_work *s, const struct model *m, size_t max_tokens, size_t max_wanted,
                    struct err *e)
{
    *s = (struct model_work){0};
    s->region_bytes = lay_out(s, m, max_tokens, max_wanted, NULL);
    s->region = map_region_new(s->region_bytes);
    if (!s->region)
        return err_set(e, ERR_NOMEM, "out of memory: %zu bytes of activations for steps of %zu tokens",
                       s->region_bytes, max_tokens);
    lay_out(s, m, max_tokens, max_wanted, s->region);
    return 0;
}

void model_work_close(struct model_work *s)
{
    map_region_free(s->region, s->region_bytes);
    *s = (struct model_work){0};
}
