/* llm.c - opens model, tokenizer, scratch and KV cache, and implements struct executor. The parts are opened in this
 * order, because each needs sizes of the earlier ones. */
#include "engine/llm.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "base/threads/topo.h"
#include "ckpt/checkpoint.h"
#include "engine/executor.h"
#include "engine/op_config.h"
#include "gallop.h"
#include "kern/kern.h"
#include "kv/store/store.h"
#include "model/calibration.h"
#include "ops/batch.h"
#include "ops/eager/eager.h"
#include "ops/linear_backend.h"
#include "text/tok/tok.h"

enum {
    DEFAULT_SEQS = 32,
    DEFAULT_TOKENS = 512,
    WHOLE_TOKENS = 2048, /* default maximum rows of a step of a model with bidirectional attention */
    SCORED = 16          /* default rows of logits for scored prompts, in addition to one for each sequence */
};

static const size_t default_kv_bytes = (size_t)4 << 30;
static const uint64_t default_store_bytes = (uint64_t)16 << 30;

/* Converts GiB to bytes. A positive size gives at least 1 byte, because 0 means the default. */
static size_t bytes_of(double gib)
{
    size_t bytes = (size_t)(gib * 1073741824.0);

    return gib > 0 && bytes == 0 ? 1 : bytes;
}

static int open_threads(struct llm *m, const struct gallop_options *o, struct pool *shared, struct err *e)
{
    enum cpu_isa cap = cpu_best();
    int threads = o->threads, rc = 0;

    if (o->isa)
        cpu_isa_of_name(o->isa, &cap);
    m->kern = kern_table(cap);
    if (shared && threads && threads != pool_threads(shared))
        return err_set(e, ERR_INPUT, "threads is %d, but the engine whose threads are shared has %d", threads,
                       pool_threads(shared));
    if (shared) {
        m->pool = pool_join(shared);
        return 0;
    }
    if (threads == 0) {
        struct topo t;

        if ((rc = topo_open(&t, e)) != 0)
            return rc;
        threads = t.default_threads;
        topo_close(&t);
    }
    return pool_new(&m->pool, threads, e);
}

/* Opens the tokenizer. A checkpoint without a tokenizer is not an error; requests with text get the reason later. */
static int open_tok(struct llm *m, struct err *e)
{
    int rc = checkpoint_tokenizer(&m->tok, m->model.checkpoint, &m->tok_missing);

    if (rc == ERR_NOMEM || (rc && checkpoint_has_tokenizer(m->model.checkpoint))) {
        if (e)
            *e = m->tok_missing;
        return rc;
    }
    return 0;
}

/* Sets the number format of the KV cache; "auto" is the dtype of the model. */
static int read_kv_dtype(struct llm *m, const struct gallop_options *o, struct err *e)
{
    static const struct {
        const char *name;
        enum dtype dtype;
    } known[] = {{"fp32", DT_F32}, {"bf16", DT_BF16}, {"int8", DT_I8}, {"int4", DT_I4}};

    m->kv_dtype = m->model.opt.dtype;
    if (!o->kv_cache_dtype || strcmp(o->kv_cache_dtype, "auto") == 0)
        return 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, o->kv_cache_dtype) == 0) {
            m->kv_dtype = known[i].dtype;
            return 0;
        }
    return err_about(e, ERR_INPUT, "kv_cache_dtype", "found \"%s\", expected auto, fp32, bf16, int8 or int4",
                     o->kv_cache_dtype);
}

/* Opens the op sinks (op.h) and the scratch memory of steps. */
static int open_sink(struct llm *m, struct err *e)
{
    const struct model_info *i = &m->model.info;
    struct eager_limits lim = {.max_tokens = m->max_tokens,
                               .max_seqs = m->max_seqs,
                               .max_len = m->max_len,
                               .n_heads = i->n_heads,
                               .n_kv = i->n_kv,
                               .head_dim = i->head_dim,
                               .inner = i->inner,
                               .linear_k = i->linear_k,
                               .n_experts = i->n_experts,
                               .top_k = i->top_k,
                               .expert_inner = i->expert_inner,
                               .hidden = i->hidden,
                               .kv_dtype = m->kv_dtype,
                               .kern = m->kern,
                               .window = i->window,
                               .sink = i->sink,
                               .seen = m->sparse.sink ? m->sparse.sink + m->sparse.window : 0};
    int rc;

    for (size_t r = 0; r < i->n_ropes; r++)
        lim.rope_half[r] = i->rope[r].half;
    for (int k = 0; k < OP_N_KINDS; k++)
        lim.native[k] = m->ops.backend[k] && strcmp(m->ops.backend[k], "native") == 0;
    if ((rc = eager_new(&m->eager, &lim, m->pool, e)) != 0 ||
        (rc = model_work_open(&m->work, &m->model, m->max_tokens, m->max_wanted, e)) != 0)
        return rc;
    timed_open(&m->timed, eager_sink(m->eager), m->kv_dtype, i->window, i->sink);
    m->timed.pool = m->pool;
    m->logits_bytes = i->headless ? sizeof(float) : m->max_wanted * i->vocab * sizeof(float);
    m->logits = map_region_new(m->logits_bytes);
    m->id = mem_zalloc(m->max_tokens, sizeof(*m->id), MEM_ENGINE);
    m->pos = mem_zalloc(m->max_tokens, sizeof(*m->pos), MEM_ENGINE);
    m->wanted = mem_zalloc(m->max_tokens, sizeof(*m->wanted), MEM_ENGINE);
    m->seq = mem_zalloc(m->max_seqs, sizeof(*m->seq), MEM_ENGINE);
    if (!m->logits || !m->id || !m->pos || !m->wanted || !m->seq)
        return err_nomem(e, "the batch");
    return 0;
}

/* Returns the bytes that the KV cache may take: the memory limit less 1/32 for the process itself, less the
 * memory of other engines, weights, scratch and the store's buffers. */
static size_t kv_room(const struct llm *m)
{
    size_t all = topo_memory_limit_bytes(), limit = all - all / 32,
           used = m->other_bytes + m->model.packed_bytes + m->model.table_bytes + llm_scratch_bytes(m) +
                  m->store_bytes;

    return limit > used ? limit - used : 0;
}

/* Sets the error for a KV cache of BYTES that does not fit into memory, with the largest size that fits. */
static int refuse_kv(const struct llm *m, const char *type, const struct kv_limits *lim, size_t bytes,
                     struct err *e)
{
    size_t room = kv_room(m), fit = kv_pool_fit(type, *lim, room);
    const double gib = 1 << 30, weights = (double)(m->model.packed_bytes + m->model.table_bytes) / gib;
    const int digits = room < (size_t)1 << 30 ? 6 : 2; /* decimals of the size in the message, rounded down */
    const double unit = digits == 6 ? 1e6 : 1e2;
    char others[64] = "";

    if (m->other_bytes)
        snprintf(others, sizeof(others), ", other engines (%.2f GiB)", (double)m->other_bytes / gib);

    if (fit == 0)
        return err_set(
            e, ERR_NOMEM,
            "weights (%.2f GiB)%s and scratch (%.2f GiB) leave no room for a KV cache in %.2f GiB of "
            "memory",
            weights, others, (double)llm_scratch_bytes(m) / gib, (double)topo_memory_limit_bytes() / gib);
    return err_about(
        e, ERR_NOMEM, "kv_cache_memory",
        "weights (%.2f GiB)%s, scratch (%.2f GiB) and a KV cache of %zu tokens (%.2f GiB) do not fit "
        "into %.2f GiB of memory; the largest cache that fits has %zu tokens (kv_cache_memory %.*f)",
        weights, others, (double)llm_scratch_bytes(m) / gib, lim->pool_tokens, (double)bytes / gib,
        (double)topo_memory_limit_bytes() / gib, fit, digits,
        (double)(size_t)((double)room / gib * unit) / unit);
}

/* Returns the default number of KV rows: enough for all sequences at the context length, limited to half of ROOM bytes
 * and, unless UNBOUNDED, to default_kv_bytes, but at least for one sequence. There is a limit because the prefix cache
 * of a server fills its pool sooner or later. */
static size_t default_kv(const struct llm *m, bool unbounded, const char *type, const struct kv_limits *lim,
                         size_t room)
{
    size_t one = m->max_len + KV_MAX_BLOCK, most = kv_pool_fit(type, *lim, room / 2), all, usual;

    if (most < one) {
        most = kv_pool_fit(type, *lim, room);
        most = most < one ? most : one;
    }
    if (__builtin_mul_overflow(m->max_seqs, one, &all) || all > most)
        all = most;
    if (unbounded)
        return all;
    usual = kv_pool_fit(type, *lim, default_kv_bytes);
    usual = usual > one ? usual : one;
    return all < usual ? all : usual;
}

/* Refuses a cache of BYTES that cannot hold one sequence of max_len rows. */
static int check_one_fits(const char *type, const struct kv_limits *lim, size_t bytes, struct err *e)
{
    size_t block = kv_type_pooled(type) ? kv_block(type, lim) : 1, least = kv_least_tokens(type, lim), needs;
    struct kv_limits one = *lim;
    const double gib = 1 << 30;
    int digits;

    if (lim->pool_tokens > least - block) /* the pool is rounded up to whole blocks */
        return 0;
    one.pool_tokens = least;
    needs = kv_budget_bytes(type, &one);
    digits = needs < (size_t)1 << 30 ? 6 : 2;
    return err_about(
        e, ERR_INPUT, "kv_cache_memory",
        "a KV cache of %zu tokens (%.*f GiB) cannot hold one sequence of max_model_len %zu, which "
        "takes %zu tokens (%.*f GiB); kv_cache_memory %.*f or more, or max_model_len %zu or less, is expected",
        lim->pool_tokens, digits, (double)bytes / gib, lim->max_len, least, digits, (double)needs / gib,
        digits, (double)needs / gib + (digits == 6 ? 1e-6 : 1e-2), lim->pool_tokens);
}

/* Sets lim->pool_tokens: as the options say, if that fits into memory, or to the default. */
static int size_kv(const struct llm *m, const struct gallop_options *o, const char *type,
                   struct kv_limits *lim, struct err *e)
{
    size_t room = kv_room(m), given = bytes_of(o->kv_cache_memory), bytes;

    lim->pool_tokens = given                ? kv_pool_fit(type, *lim, given)
                       : o->kv_cache_tokens ? (size_t)o->kv_cache_tokens
                                            : default_kv(m, o->kv_cache_unbounded != 0, type, lim, room);
    if (given && lim->pool_tokens == 0)
        return err_set(
            e, ERR_INPUT,
            "kv_cache_memory is %zu bytes, less than one KV block: a token takes %zu bytes, and a block has %zu tokens",
            given, kv_token_bytes(lim), kv_block(type, lim));
    bytes = kv_budget_bytes(type, lim);
    if (bytes > room || lim->pool_tokens == 0)
        return refuse_kv(m, type, lim, bytes, e);
    return check_one_fits(type, lim, bytes, e);
}

/* Computes the memory of the KV store's buffers. Refuses a KV store for a cache without a prefix cache. */
static int size_store(struct llm *m, const struct gallop_options *o, bool keeps_prefixes, const char *type,
                      const struct kv_limits *lim, struct err *e)
{
    if (!o->kv_store)
        return 0;
    if (kv_record_bytes(type, lim) == 0)
        return err_about(e, ERR_INPUT, "kv_store", "expected the KV cache type slab_pool or paged, found %s",
                         type);
    if (m->model.bidirectional)
        return err_about(e, ERR_UNSUPPORTED, "kv_store",
                         "not supported, because rows of a model with bidirectional attention depend on "
                         "the whole prompt");
    if (!keeps_prefixes)
        return err_about(e, ERR_INPUT, "kv_store", "expected the prefix_index radix or hash, found none");
    m->store_bytes = store_slot_bytes(kv_record_bytes(type, lim));
    return m->store_bytes < SIZE_MAX ? 0 : err_nomem(e, "the buffers of the KV store");
}

static XXH128_hash_t mix(XXH128_hash_t h, const void *p, size_t n)
{
    const XXH128_hash_t part[2] = {h, XXH3_128bits(p, n)};

    return XXH3_128bits(part, sizeof(part));
}

/* Returns a hash of the weights and the settings that determine the bits of KV rows, besides tokens. */
static struct prefix_key store_context(const struct llm *m)
{
    const uint64_t number[] = {model_identity(&m->model), (uint64_t)m->model.opt.dtype,
                               (uint64_t)m->kv_dtype};
    XXH128_hash_t h =
        mix(mix((XXH128_hash_t){0}, number, sizeof(number)), m->model.quant, strlen(m->model.quant));

    for (int f = 0; f < KERN_N_FUNCTIONS; f++) {
        const char *class = kern_class(m->kern, (enum kern_fn)f);

        h = mix(h, class, strlen(class));
    }
    for (int k = 0; k < OP_N_KINDS; k++) {
        const char *backend = m->ops.backend[k] ? m->ops.backend[k] : "auto";

        h = mix(h, backend, strlen(backend));
    }
    return (struct prefix_key){{h.low64, h.high64}};
}

static int open_store(struct llm *m, const struct gallop_options *o, const char *type, struct kv_limits *lim,
                      struct err *e)
{
    const struct store_options so = {.where = o->kv_store,
                                     .limit_bytes = bytes_of(o->kv_store_size) ? bytes_of(o->kv_store_size)
                                                                               : default_store_bytes,
                                     .record_bytes = kv_record_bytes(type, lim)};
    struct err why = {0};
    int rc;

    if (!o->kv_store)
        return 0;
    if ((rc = store_open(&m->store, &so, &why)) == ERR_UNSUPPORTED) {
        log_warn("%s", why.msg);
        return 0;
    }
    if (rc)
        return err_set(e, rc, "%s", why.msg);
    lim->store = m->store;
    lim->store_context = store_context(m);
    return 0;
}

static int open_kv(struct llm *m, const struct gallop_options *o, bool no_prefixes, struct err *e)
{
    const bool keeps = !no_prefixes && !(o->prefix_index && strcmp(o->prefix_index, "none") == 0);
    const char *type = o->kv_cache_type ? o->kv_cache_type : "slab_pool";
    const bool touches = o->kv_cache_memory > 0 || (o->kv_cache_tokens && !kv_type_extern(type));
    const struct model_info *i = &m->model.info;
    struct kv_limits lim = {.n_layers = i->n_layers - i->n_shared,
                            .n_shared = i->n_shared,
                            .n_kv = i->n_kv,
                            .head_dim = i->head_dim,
                            .dtype = m->kv_dtype,
                            .max_seqs = m->max_seqs,
                            .max_len = m->max_len,
                            .block = (size_t)o->block_size,
                            .splits = (size_t)o->bmc_splits,
                            .keep_prefixes = keeps && !m->model.bidirectional,
                            .prefix_index = PREFIX_RADIX,
                            .step_tokens = m->max_tokens,
                            .window = kv_type_extern(type) ? NULL : i->window, /* "extern" keeps all rows */
                            .sink = kv_type_extern(type) ? NULL : i->sink,
                            .dim = i->dim,
                            .touch = touches ? m->pool : NULL};
    int rc;

    if (o->kv_cache_layout)
        kv_layout_of_name(o->kv_cache_layout, &lim.layout);
    if (o->prefix_index)
        prefix_kind_of_name(o->prefix_index, &lim.prefix_index);
    if ((rc = kv_check_limits(type, &lim, e)) != 0 || (rc = size_store(m, o, keeps, type, &lim, e)) != 0 ||
        (rc = size_kv(m, o, type, &lim, e)) != 0)
        return rc;
    if ((rc = model_pack(&m->model, e)) !=
        0) /* weights are read only now, when all sizes are known to fit into memory */
        return rc;
    if ((rc = open_store(m, o, type, &lim, e)) != 0)
        return rc;
    rc = kv_open(&m->kv, type, &lim, e);
    return rc ? rc : slots_open(&m->slots, &m->kv, e);
}

static int read_types(const struct gallop_options *o, struct model_options *mo, struct err *e)
{
    mo->dtype = o->dtype && strcmp(o->dtype, "fp32") == 0 ? DT_F32 : DT_BF16;
    mo->dtype_open = !o->dtype || strcmp(o->dtype, "auto") == 0;
    return quant_read(&mo->quant, o->quant, e);
}

static int open_scales(struct llm *m, const char *path, struct err *e)
{
    m->scales = mem_zalloc(1, sizeof(*m->scales), MEM_MODEL);
    return m->scales ? calibration_open(m->scales, path, e) : err_nomem(e, "the model");
}

static void close_scales(struct llm *m)
{
    if (m->scales)
        calibration_close(m->scales);
    mem_free(m->scales);
    m->scales = NULL;
}

/* Warns if a calibration file is given that the quantization does not use. */
static void say_unused(const struct model_options *mo)
{
    const struct calibration *s = mo->scales;
    bool used = false;

    for (int k = 0; k < OP_N_KINDS && s; k++) {
        enum quant q = mo->quant.of[k];

        used |= q == QUANT_INT8_STATIC || (!s->linears && (q == QUANT_INT4 || q == QUANT_INT4_128));
    }
    if (s && !used)
        log_warn("%s is not used: it was calibrated for quant %s", s->path,
                 s->linears ? "int8-static" : "int4");
}

/* Raises the default rows of a step for models with bidirectional attention, which compute a prompt in one step. */
static void fit_whole_prompts(struct llm *m, const struct gallop_options *o)
{
    if (!m->model.bidirectional || o->max_batched_tokens)
        return;
    m->max_tokens = m->model.info.max_len < WHOLE_TOKENS ? m->model.info.max_len : WHOLE_TOKENS;
    if (m->max_tokens < m->max_seqs)
        m->max_tokens = m->max_seqs;
}

int llm_open(struct llm *m, const struct gallop_options *o, const struct llm_source *s, struct err *e)
{
    double start = clock_seconds();
    struct model_options mo = {.allow_links = o->allow_links != 0,
                               .all_bytes = o->kv_store != NULL,
                               .checkpoint = s->checkpoint,
                               .save = s->save,
                               .streams = o->executor && strcmp(o->executor, "pjrt") == 0,
                               .progress = o->progress,
                               .progress_ctx = o->progress_ctx};
    int rc;

    *m = (struct llm){.max_seqs = o->max_num_seqs ? (size_t)o->max_num_seqs : DEFAULT_SEQS,
                      .max_tokens = o->max_batched_tokens ? (size_t)o->max_batched_tokens : DEFAULT_TOKENS};
    m->other_bytes = map_region_live_bytes();
    m->max_wanted = o->max_logits ? (size_t)o->max_logits : m->max_seqs + SCORED;
    if (m->max_tokens < m->max_seqs)
        m->max_tokens = m->max_seqs; /* a step must have a row for each decoding sequence */
    if (m->max_wanted < m->max_seqs)
        m->max_wanted = m->max_seqs;
    if ((rc = read_types(o, &mo, e)) != 0 || (rc = kv_sparse_read(&m->sparse, o->kv_sparse, e)) != 0 ||
        (rc = op_config_read(&m->ops, o->op_config, o->attention_backend, e)) != 0 ||
        (rc = open_threads(m, o, s->pool, e)) != 0)
        goto fail;
    op_config_fit_attention(&m->ops, o->kv_cache_type ? o->kv_cache_type : "slab_pool");
    if (o->scales && (rc = open_scales(m, o->scales, e)) != 0)
        goto fail;
    mo.scales = m->scales;
    say_unused(&mo);
    mo.kern = m->kern;
    for (int k = 0; k < OP_N_KINDS; k++)
        mo.backend[k] = m->ops.backend[k];
    rc = model_open(&m->model, s->path, &mo, m->pool, e);
    if (rc == 0)
        fit_whole_prompts(m, o);
    if (rc || (rc = kv_sparse_apply(&m->sparse, &m->model, e)) != 0 || (rc = open_tok(m, e)) != 0)
        goto fail;
    if ((size_t)o->max_model_len > m->model.info.max_len)
        log_warn("max_model_len %zu is longer than the model's context length %zu; answers may get worse",
                 (size_t)o->max_model_len, m->model.info.max_len);
    m->max_len = o->max_model_len ? (size_t)o->max_model_len : m->model.info.max_len;
    if (s->most_len && s->most_len < m->max_len && !o->max_model_len)
        m->max_len = s->most_len;
    if ((rc = model_check_length(&m->model, m->max_len, e)) != 0 || (rc = read_kv_dtype(m, o, e)) != 0 ||
        (rc = open_sink(m, e)) != 0 || (rc = open_kv(m, o, s->no_prefixes, e)) != 0)
        goto fail;
    if (m->scales && (rc = calibration_checked(m->scales, 0, e)) != 0)
        goto fail;
    if (!mo.streams) {
        m->model.opt.scales = NULL;
        close_scales(m);
    }
    m->isa = cpu_isa_name(kern_isa(m->kern, model_gemm(&m->model)));
    m->load_s = clock_seconds() - start;
    return 0;
fail:
    llm_close(m);
    return rc;
}

void llm_close(struct llm *m)
{
    map_region_free(m->logits, m->logits_bytes);
    mem_free(m->id);
    mem_free(m->pos);
    mem_free(m->wanted);
    mem_free(m->seq);
    slots_close(&m->slots);
    model_work_close(&m->work);
    eager_free(m->eager);
    kv_close(&m->kv);
    store_close(m->store);
    tok_close(m->tok);
    model_close(&m->model);
    close_scales(m);
    pool_free(m->pool);
    op_config_fini(&m->ops);
    *m = (struct llm){0};
}

/* Returns the sequence length that RoPE uses for a sequence of TOTAL tokens. With kv_sparse it is at most
 * sink + window. */
static size_t rope_total(const struct llm *m, size_t total)
{
    size_t kept = m->sparse.sink + m->sparse.window;

    return m->sparse.window && total > kept ? kept : total;
}

static void fill_batch(struct llm *m, struct batch *b, const struct executor_rows *rows, size_t n)
{
    *b = (struct batch){
        .id = m->id, .pos = m->pos, .seq = m->seq, .wanted = m->wanted, .logits = m->logits, .n_seqs = n};
    for (size_t s = 0; s < n; s++) {
        const struct executor_rows *r = &rows[s];

        ASSERT(b->n_tokens + r->n <= m->max_tokens && r->n_wanted <= r->n, "%zu rows", r->n);
        if (r->block)
            kv_lend(&m->kv, r->slot, r->block, r->n_blocks);
        m->seq[s] = (struct batch_seq){.kv = kv_view(&m->kv, r->slot),
                                       .first = b->n_tokens,
                                       .n = r->n,
                                       .pos = r->pos,
                                       .n_prompt = r->n_prompt,
                                       .n_total = rope_total(m, r->n_total)};
        for (size_t i = 0; i < r->n; i++) {
            m->id[b->n_tokens + i] = r->id[i];
            m->pos[b->n_tokens + i] = (int32_t)(r->pos + i);
        }
        for (size_t i = r->n - r->n_wanted; i < r->n; i++)
            m->wanted[b->n_wanted++] = (uint32_t)(b->n_tokens + i);
        b->n_tokens += r->n;
    }
}

void llm_forward(struct llm *m, const struct executor_rows *rows, size_t n)
{
    struct batch b;

    ASSERT(n <= m->max_seqs);
    fill_batch(m, &b, rows, n);
    ASSERT(b.n_wanted <= m->max_wanted, "%zu rows of logits", b.n_wanted);
    mem_guard_up();
    model_forward(&m->model, &m->timed.sink, &b, &m->work);
    mem_guard_down();
}

void llm_layers(struct llm *m, const struct model *with, struct model_work *work,
                const struct executor_rows *rows, size_t n)
{
    struct batch b;

    ASSERT(n <= m->max_seqs);
    fill_batch(m, &b, rows, n);
    m->n_wanted = b.n_wanted;
    model_layers(with, &m->timed.sink, &b, work);
}

/* Computes the final norm of the wanted rows FIRST to FIRST + N - 1 of the last run and, unless LOGITS is NULL, their
 * logits. */
static void run_tail(struct llm *m, const struct model *with, struct model_work *work, size_t first, size_t n,
                     float *logits)
{
    const struct batch b = {
        .wanted = m->wanted + first, .n_wanted = n, .logits = logits, .hidden_only = !logits};

    ASSERT(first + n <= m->n_wanted && n <= m->max_wanted, "%zu and %zu of %zu rows", first, n, m->n_wanted);
    model_tail(with, &m->timed.sink, &b, work);
}

void llm_tail(struct llm *m, const struct model *with, struct model_work *work, size_t first, size_t n)
{
    run_tail(m, with, work, first, n, m->logits);
}

int llm_check_computes(const struct llm *m, struct err *e)
{
    return m->model.opt.streams
               ? err_about(e, ERR_UNSUPPORTED, "executor",
                           "expected \"eager\": weights on the device of a PJRT plugin cannot be "
                           "used for this")
               : 0;
}

const char *llm_loose_backend(const struct llm *m)
{
    for (size_t i = 0; i < m->model.n_linears; i++)
        if (linear_is_loose(m->model.linear[i]))
            return m->model.linear[i]->backend->name;
    return NULL;
}

const char *llm_kv_dtype(const struct llm *m)
{
    return m->kv_dtype == DT_F32  ? "fp32"
           : m->kv_dtype == DT_I8 ? "int8"
           : m->kv_dtype == DT_I4 ? "int4"
                                  : "bf16";
}

void llm_describe(const struct llm *m, struct gallop_model_info *info)
{
    const struct model_info *sizes = &m->model.info;

    *info = (struct gallop_model_info){.bos_id = -1, .eos_id = -1, .unk_id = -1, .pad_id = -1};
    info->path = m->model.checkpoint ? m->model.checkpoint->in.path : NULL;
    info->architecture = m->model.arch->class_name;
    info->model_type = m->model.arch->model_type;
    info->n_params = m->model.n_params;
    info->weight_bytes = m->model.packed_bytes;
    info->n_layers = sizes->n_layers;
    info->hidden_size = sizes->hidden;
    info->intermediate_size = sizes->inner;
    info->n_heads = sizes->n_heads;
    info->n_kv_heads = sizes->n_kv;
    info->vocab_size = sizes->vocab;
    info->context_length = sizes->max_len;
    info->max_model_len = m->max_len;
    info->max_step_tokens = m->max_tokens;
    info->dtype = m->model.opt.dtype == DT_F32 ? "fp32" : "bf16";
    info->quant = m->model.quant;
    info->kv_cache_type = m->kv.type->name;
    info->kv_cache_dtype = llm_kv_dtype(m);
    info->isa = m->isa;
    info->threads = pool_threads(m->pool);
    info->no_generation = sizes->headless ? m->model.headless : NULL;
    info->no_tokenizer = m->tok ? NULL : m->tok_missing.msg;
}

/* Returns the bytes of the KV cache that running sequences hold. */
static size_t kv_used_bytes(const struct kv *kv)
{
    size_t held = 0, all = kv_bytes(kv);

    for (size_t i = 0; i < kv->lim.max_seqs; i++)
        held += kv_held_bytes(kv, i);
    return held < all ? held : all; /* HELD counts a shared block once for each sequence that has it */
}

void llm_stats(const struct llm *m, struct gallop_stats *s)
{
    struct store_stats store = {0};

    if (m->store)
        store_stats(m->store, &store);
    *s = (struct gallop_stats){.n_store_written = store.n_written,
                               .n_store_read = store.n_read,
                               .n_store_dropped = store.n_dropped,
                               .n_store_damaged = store.n_damaged,
                               .weight_bytes = m->model.packed_bytes,
                               .kv_bytes = kv_bytes(&m->kv),
                               .kv_used_bytes = kv_used_bytes(&m->kv),
                               .kv_budget_bytes = kv_budget_bytes(m->kv.type->name, &m->kv.lim),
                               .scratch_bytes = llm_scratch_bytes(m),
                               .max_model_len = m->max_len,
                               .vocab_size = m->model.info.vocab,
                               .load_s = m->load_s,
                               .waited_s = m->timed.waited_seconds,
                               .threads = pool_threads(m->pool),
                               .dtype = m->model.opt.dtype == DT_F32 ? "fp32" : "bf16",
                               .quant = m->model.quant,
                               .isa = m->isa};
    for (int i = 0; i < TIMED_N_KINDS; i++) {
        const struct timed_kind *k = &m->timed.kind[i];

        s->operators[i] = (struct gallop_operator){timed_name(i), k->seconds, k->bytes, k->flops};
    }
}

_Static_assert((int)GALLOP_N_OPERATORS == (int)TIMED_N_KINDS, "gallop.h has the number of operator kinds");

size_t llm_scratch_bytes(const struct llm *m)
{
    return eager_bytes(m->eager) + m->work.region_bytes + m->logits_bytes;
}

/* ---- the executor ---- */

static bool has_room(void *ctx, const struct executor_want *want, size_t n)
{
    struct llm *m = ctx;

    return slots_has_room(&m->slots, want, n);
}

/* Returns a number for the RoPE frequencies of P. Sequences with different numbers must not share KV rows. */
static uint64_t regime(const struct llm *m, const struct executor_prefix *p)
{
    return rope_regime(m->model.info.rope, m->model.info.n_ropes, p->n_prompt, rope_total(m, p->n));
}

static size_t begin(void *ctx, size_t slot, const struct executor_prefix *p)
{
    struct llm *m = ctx;

    return slots_begin(&m->slots, slot, p, regime(m, p));
}

static int read_ahead(void *ctx, const struct executor_prefix *p, size_t *from, size_t *to)
{
    struct llm *m = ctx;

    return slots_read_ahead(&m->slots, p, regime(m, p), from, to);
}

static bool read_ahead_go_on(void *ctx, int place)
{
    struct llm *m = ctx;

    return kv_read_ahead_go_on(&m->kv, place);
}

static void read_ahead_end(void *ctx, int place)
{
    struct llm *m = ctx;

    kv_read_ahead_end(&m->kv, place);
}

static void read_ahead_wait(void *ctx, double seconds)
{
    struct llm *m = ctx;

    kv_read_ahead_wait(&m->kv, seconds);
}

static int reserve(void *ctx, size_t slot, size_t n)
{
    struct llm *m = ctx;

    return kv_reserve(&m->kv, slot, n);
}

static int fork_rows(void *ctx, size_t from, size_t n, size_t to, const struct executor_prefix *p)
{
    struct llm *m = ctx;

    (void)p;
    return kv_fork(&m->kv, from, n, to);
}

static void release(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct llm *m = ctx;

    slots_release(&m->slots, slot, token, n);
}

static bool is_stale(void *ctx, size_t computed, size_t last_total, size_t total)
{
    const struct llm *m = ctx;

    return computed && rope_is_stale(m->model.info.rope, m->model.info.n_ropes, rope_total(m, last_total),
                                     rope_total(m, total));
}

static int llm_run(void *ctx, const struct executor_rows *rows, size_t n, struct err *e)
{
    struct llm *m = ctx;

    (void)e;
    mem_guard_up();
    slots_run(&m->slots, rows, n);
    llm_layers(m, &m->model, &m->work, rows, n);
    mem_guard_down();
    return 0;
}

static void settle(void *ctx, size_t slot, const int32_t *token, size_t n)
{
    struct llm *m = ctx;

    slots_settle(&m->slots, slot, token, n);
}

static const float *logits_of(void *ctx, size_t first, size_t n)
{
    struct llm *m = ctx;

    mem_guard_up();
    run_tail(m, &m->model, &m->work, first, n, m->logits);
    mem_guard_down();
    return m->logits;
}

static const float *hidden(void *ctx, size_t first, size_t n)
{
    struct llm *m = ctx;

    mem_guard_up();
    run_tail(m, &m->model, &m->work, first, n, NULL);
    mem_guard_down();
    return m->work.hw;
}

static double clock_s(void *ctx)
{
    (void)ctx;
    return clock_seconds();
}

static bool sees(void *ctx, size_t slot, size_t n)
{
    struct llm *m = ctx;

    return kv_sees(&m->kv, slot, n);
}

static void truncate_rows(void *ctx, size_t slot, size_t n)
{
    struct llm *m = ctx;
    int rc = kv_truncate(&m->kv, slot, n);

    ASSERT(rc == 0, "slot %zu cannot be truncated to %zu rows", slot, n);
}

static void copy_block(void *ctx, size_t from, size_t to)
{
    struct llm *m = ctx;

    kv_copy_block(&m->kv, from, to);
}

void llm_executor(struct llm *m, struct executor *x)
{
    *x = (struct executor){.caps = {.n_slots = m->max_seqs,
                                    .max_len = m->max_len,
                                    .max_tokens = m->max_tokens,
                                    .max_wanted = m->max_tokens,
                                    .max_logits = m->max_wanted,
                                    .mixes = true,
                                    .chunks = !m->model.bidirectional,
                                    .guesses = !m->model.bidirectional,
                                    .shares = kv_type_pooled(m->kv.type->name),
                                    .block = m->kv.lim.block,
                                    .pool_rows = kv_most_rows(&m->kv),
                                    .n_blocks = kv_n_blocks(&m->kv),
                                    .n_vocab = m->model.info.vocab,
                                    .n_hidden = m->model.info.hidden},
                           .ctx = m,
                           .pool = m->pool,
                           .kern = m->kern,
                           .has_room = has_room,
                           .begin = begin,
                           .reserve = reserve,
                           .fork = fork_rows,
                           .release = release,
                           .is_stale = is_stale,
                           .run = llm_run,
                           .settle = settle,
                           .logits = logits_of,
                           .hidden = hidden,
                           .clock_s = clock_s,
                           .sees = sees,
                           .truncate = truncate_rows,
                           .copy_block = kv_n_blocks(&m->kv) ? copy_block : NULL};
    if (m->store) {
        x->read_ahead = read_ahead;
        x->read_ahead_go_on = read_ahead_go_on;
        x->read_ahead_end = read_ahead_end;
        x->read_ahead_wait = read_ahead_wait;
    }
}
