/* quantised.c - converts codes, zero points and scales of each format to groups of GGUF's formats. */
#include "ckpt/quantised.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/map.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/threads/pool.h"
#include "ckpt/config.h"
#include "ckpt/weights.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

/* WORD: number of 4-bit codes in a 32-bit word. GROUP: number of weights in a group of GGUF's formats. */
enum { WORD = 8, GROUP = 32, NAME_MAX_BYTES = 400 };

enum method { GPTQ, AWQ, COMPRESSED };
static const char *const method_names[] = {"gptq", "awq", "compressed-tensors"};

struct matrix {
    struct view view; /* X.weight, with DATA as its data */
    void *data;       /* memory from map_region_new() */
    size_t bytes;
};

struct quantised {
    enum method method;
    int64_t bits, group; /* BITS of a code; GROUP size along K, -1: all of K */
    bool bytes;          /* codes are int8, not packed into words */
    bool asymmetric;     /* compressed-tensors: groups have zero points */
    uint32_t zero_more;  /* GPTQ: number to add to each word of zero points */
    bool symmetric;      /* GPTQ: all zero points must be the middle code */
    struct matrix *matrix;
    size_t n, cap, n_unpacked;
    struct arena names;
    struct pool *pool;
};

/* The parts of a matrix X [n, k] to convert. Views may have any alignment. */
struct source {
    const struct quantised *q;
    /* zeros NULL: no zero points; order NULL: k is in group k / group */
    const struct view *codes, *scales, *zeros, *order;
    size_t n, k, group, groups;
    enum dtype to;
    char *out;
    size_t row_bytes;
    atomic_bool refused; /* set if a scale is not finite */
    /* with q->symmetric: a zero point that is not the middle code, plus 1; 0: none found */
    int odd_zero;
};

/* ---- the layouts of the formats ---- */

static uint32_t word_at(const struct view *v, size_t i)
{
    uint32_t w;

    memcpy(&w, (const char *)v->data + i * sizeof(w), sizeof(w));
    return w;
}

/* Returns the nibble of a word in which AWQ stores COLUMN. */
static unsigned awq_nibble(size_t column)
{
    static const unsigned char at[WORD] = {0, 4, 1, 5, 2, 6, 3, 7};

    return at[column % WORD];
}

/* Returns the code of weight [N, K] as an unsigned number; 128 is added to int8 codes. */
static int code_at(const struct source *s, size_t n, size_t k)
{
    size_t per = s->q->bits == 8 ? 4 : WORD;
    unsigned bits = (unsigned)s->q->bits, mask = (1u << bits) - 1;

    if (s->q->bytes)
        return ((const int8_t *)s->codes->data)[n * s->k + k] + 128;
    switch (s->q->method) {
    case GPTQ: return (int)((word_at(s->codes, k / per * s->n + n) >> (bits * (k % per))) & mask);
    case AWQ: return (int)((word_at(s->codes, k * (s->n / WORD) + n / WORD) >> (4 * awq_nibble(n))) & 15);
    default:
        return (int)((word_at(s->codes, n * ((s->k + WORD - 1) / WORD) + k / WORD) >> (4 * (k % WORD))) & 15);
    }
}

/* Returns the zero point of group G in row N: the code that means 0. */
static int zero_at(const struct source *s, size_t n, size_t g)
{
    size_t per = s->q->bits == 8 ? 4 : WORD, words = (s->n + per - 1) / per;
    unsigned bits = (unsigned)s->q->bits, mask = (1u << bits) - 1;

    if (!s->zeros)
        return 1 << (bits - 1);
    switch (s->q->method) {
    case GPTQ:
        /* Format "gptq" has subtracted 1 from all fields of the word at once, with borrows. */
        return (int)(((word_at(s->zeros, g * words + n / per) + s->q->zero_more) >> (bits * (n % per))) &
                     mask);
    case AWQ: return (int)((word_at(s->zeros, g * words + n / WORD) >> (4 * awq_nibble(n))) & 15);
    default: return (int)((word_at(s->zeros, n / WORD * s->groups + g) >> (4 * (n % WORD))) & 15);
    }
}

static float scale_at(const struct source *s, size_t n, size_t g)
{
    size_t i = s->q->method == COMPRESSED ? n * s->groups + g : g * s->n + n;
    float x;

    dtype_to_f32(&x, (const char *)s->scales->data + i * dtype_bytes(s->scales->dtype), s->scales->dtype, 1,
                 1);
    return x;
}

static size_t group_of(const struct source *s, size_t k)
{
    int32_t g;

    if (!s->order)
        return k / s->group;
    memcpy(&g, (const char *)s->order->data + k * sizeof(g), sizeof(g));
    return (size_t)g;
}

/* ---- groups ---- */

static void put_group(const struct source *s, size_t n, size_t k, uint8_t *to)
{
    size_t g = k / s->group;
    uint16_t d = dtype_f32_to_f16(scale_at(s, n, g));
    int zero = zero_at(s, n, g);
    uint32_t fifth = 0;

    memcpy(to, &d, sizeof(d));
    to += sizeof(d);
    if (s->to == DT_Q8_0) {
        for (size_t i = 0; i < GROUP; i++)
            to[i] = (uint8_t)(int8_t)(code_at(s, n, k + i) - zero);
        return;
    }
    if (s->to == DT_Q5_0)
        to += sizeof(fifth);
    for (size_t i = 0; i < GROUP / 2; i++) {
        unsigned more = s->to == DT_Q5_0 ? 16 : 8;
        unsigned low = (unsigned)(code_at(s, n, k + i) - zero) + more;
        unsigned high = (unsigned)(code_at(s, n, k + GROUP / 2 + i) - zero) + more;

        to[i] = (uint8_t)((low & 15) | ((high & 15) << 4));
        fifth |= ((low >> 4) & 1) << i;
        fifth |= (uint32_t)((high >> 4) & 1) << (i + GROUP / 2);
    }
    if (s->to == DT_Q5_0)
        memcpy(to - sizeof(fifth), &fifth, sizeof(fifth));
}

static void put_floats(const struct source *s, size_t n, float *to)
{
    for (size_t k = 0; k < s->k; k++) {
        size_t g = group_of(s, k);

        to[k] = scale_at(s, n, g) * (float)(code_at(s, n, k) - zero_at(s, n, g));
    }
}

/* Converts the rows of this thread, 16 rows at a time, because a word may hold codes of several rows. */
static void convert_share(void *ctx, int thread, int n_threads)
{
    struct source *s = ctx;
    size_t begin, end;

    pool_share(s->n, 16, thread, n_threads, &begin, &end);
    for (size_t n = begin; n < end && s->to == DT_F32; n++)
        put_floats(s, n, (float *)(void *)(s->out + n * s->row_bytes));
    for (size_t first = begin; first < end && s->to != DT_F32; first += 16)
        for (size_t k = 0; k < s->k; k += GROUP)
            for (size_t n = first; n < first + 16 && n < end; n++)
                put_group(s, n, k, (uint8_t *)s->out + n * s->row_bytes + k / GROUP * dtype_bytes(s->to));
}

/* Returns the GGUF format that holds exactly the numbers of S, or DT_F32. Sets s->refused and s->odd_zero. */
static enum dtype type_for(struct source *s)
{
    bool plain = true, halves = true;
    int middle = 1 << (s->q->bits - 1);

    for (size_t n = 0; n < s->n; n++)
        for (size_t g = 0; g < s->groups; g++) {
            float d = scale_at(s, n, g);

            if (!isfinite(d))
                atomic_store(&s->refused, true);
            plain &= zero_at(s, n, g) == middle;
            if (s->q->symmetric && zero_at(s, n, g) != middle)
                s->odd_zero = zero_at(s, n, g) + 1;
            halves &= dtype_f16_to_f32(dtype_f32_to_f16(d)) == d;
        }
    if (!halves || s->order || s->k % GROUP || s->group % GROUP || (s->q->bits == 8 && !plain))
        return DT_F32;
    return s->q->bits == 8 ? DT_Q8_0 : plain ? DT_Q4_0 : DT_Q5_0;
}

/* ---- binding ---- */

static int fail_tensor(const struct view *v, const char *expected, struct err *e)
{
    char found[128];

    return err_set(e, ERR_INPUT, "%s: tensor %.300s is %s %s, expected %s", v->file, v->name,
                   dtype_name(v->dtype), view_shape_text(v, found, sizeof(found)), expected);
}

/* Sets *OUT to the tensor BASE.NAME, which must have the dtype T (DT_F32: any float type) and the shape [ROWS, COLS],
 * or [ROWS] if COLS is 0. *OUT is NULL if the tensor is missing, which is an error if NEEDED. */
static int part(const struct view **out, struct weights *w, const char *base, const char *name, enum dtype t,
                size_t rows, size_t cols, bool needed, struct err *e)
{
    char full[NAME_MAX_BYTES + 40], expected[96];
    const struct view *v;

    snprintf(full, sizeof(full), "%s.%s", base, name);
    *out = v = weights_get(w, full);
    if (!v)
        return needed ? err_set(e, ERR_INPUT, "%s: tensor %.300s is missing", weights_path(w), full) : 0;
    if (cols)
        snprintf(expected, sizeof(expected), "%s [%zu, %zu]",
                 t == DT_F32 ? "F16, BF16 or F32" : dtype_name(t), rows, cols);
    else
        snprintf(expected, sizeof(expected), "%s [%zu]", dtype_name(t), rows);
    if ((t == DT_F32 ? v->dtype != DT_F32 && v->dtype != DT_F16 && v->dtype != DT_BF16 : v->dtype != t) ||
        v->n_dims != (cols ? 2 : 1) || v->shape[0] != rows || (cols && v->shape[1] != cols) ||
        !view_is_contiguous(v))
        return fail_tensor(v, expected, e);
    return 0;
}

/* Checks s->order, which holds the group of each k. Sets it to NULL if each group consists of neighbours. */
static int check_order(struct source *s, struct err *e)
{
    bool neighbours = true, none = s->q->method == COMPRESSED;

    for (size_t k = 0; s->order && none && k < s->k; k++)
        none = (int32_t)group_of(s, k) == -1;
    if (none) /* all -1: the weights are not reordered */
        s->order = NULL;
    for (size_t k = 0; s->order && k < s->k; k++) {
        size_t g = group_of(s, k);

        if (g >= s->groups)
            return err_set(e, ERR_INPUT, "%s: tensor %.300s has %lld at index %zu, expected 0 to %zu",
                           s->order->file, s->order->name, (long long)(int32_t)g, k, s->groups - 1);
        neighbours &= g == k / s->group;
    }
    if (neighbours)
        s->order = NULL;
    return 0;
}

/* Computes the sizes of S from the shape of its codes. */
static int sizes(struct source *s, struct err *e)
{
    const struct quantised *q = s->q;
    const struct view *v = s->codes;
    size_t per = q->bits == 8 ? 4 : WORD;

    if (v->n_dims != 2 || v->dtype != (q->bytes ? DT_I8 : DT_I32) || !view_is_contiguous(v) || !v->shape[0] ||
        !v->shape[1])
        return fail_tensor(v, q->bytes ? "I8 of two dimensions" : "I32 of two dimensions", e);
    s->n = q->method == GPTQ || q->bytes ? v->shape[q->method == GPTQ] : v->shape[q->method == AWQ];
    s->k = v->shape[q->method == COMPRESSED];
    if (q->method == AWQ)
        s->n *= WORD;
    else if (!q->bytes)
        s->k *= per;
    s->group = q->group < 0 ? s->k : (size_t)q->group;
    if (s->k % s->group)
        return err_set(e, ERR_INPUT,
                       "%s: tensor %.300s has %zu columns, expected a multiple of the group size %zu",
                       v->file, v->name, s->k, s->group);
    s->groups = s->k / s->group;
    return 0;
}

static int parts(struct source *s, struct weights *w, const char *base, struct err *e)
{
    const struct quantised *q = s->q;
    size_t per = q->bits == 8 ? 4 : WORD, words = (s->n + per - 1) / per;
    const struct view *shape;
    int rc;

    if (q->method != COMPRESSED) {
        if ((rc = part(&s->scales, w, base, "scales", DT_F32, s->groups, s->n, true, e)) != 0 ||
            (rc = part(&s->zeros, w, base, "qzeros", DT_I32, s->groups, words, true, e)) != 0 ||
            (rc = q->method == GPTQ ? part(&s->order, w, base, "g_idx", DT_I32, s->k, 0, false, e) : 0) != 0)
            return rc;
        return check_order(s, e);
    }
    if ((rc = part(&s->scales, w, base, "weight_scale", DT_F32, s->n, s->groups, true, e)) != 0 || q->bytes)
        return rc;
    if ((rc = q->asymmetric ? part(&s->zeros, w, base, "weight_zero_point", DT_I32, words, s->groups, true, e)
                            : 0) != 0 ||
        (rc = part(&s->order, w, base, "weight_g_idx", DT_I32, s->k, 0, false, e)) != 0 ||
        (rc = part(&shape, w, base, "weight_shape", DT_I64, 2, 0, true, e)) != 0)
        return rc;
    for (int d = 0; d < 2; d++) {
        int64_t size;

        memcpy(&size, (const char *)shape->data + (size_t)d * sizeof(size), sizeof(size));
        if (d && size > (int64_t)s->k - WORD && size < (int64_t)s->k)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: tensor %.300s gives %lld columns, expected a multiple of %d", shape->file,
                           shape->name, (long long)size, WORD);
        if (size != (int64_t)(d ? s->k : s->n))
            return err_set(e, ERR_INPUT, "%s: tensor %.300s gives the size %lld, expected %zu", shape->file,
                           shape->name, (long long)size, d ? s->k : s->n);
    }
    return check_order(s, e);
}

static int convert(struct quantised *q, struct weights *w, const struct view *codes, const char *base,
                   struct err *e)
{
    struct source s = {.q = q, .codes = codes};
    struct matrix *m;
    char name[NAME_MAX_BYTES + 40];
    int rc;

    if ((rc = sizes(&s, e)) != 0 || (rc = parts(&s, w, base, e)) != 0)
        return rc;
    s.to = type_for(&s);
    if (atomic_load(&s.refused))
        return err_set(e, ERR_INPUT, "%s: tensor %.300s holds an infinity or NaN, expected finite numbers",
                       s.scales->file, s.scales->name);
    if (s.odd_zero)
        return err_set(e, ERR_INPUT,
                       "%s: tensor %.300s has the zero point %d, expected %d because sym is true: the file "
                       "has another checkpoint_format (gptq or gptq_v2) than its config says",
                       s.zeros->file, s.zeros->name, s.odd_zero - 1, 1 << (q->bits - 1));
    if (!mem_grow((void **)&q->matrix, &q->cap, q->n + 1, sizeof(*q->matrix), MEM_CKPT))
        return err_nomem(e, base);
    m = &q->matrix[q->n];
    snprintf(name, sizeof(name), "%s.weight", base);
    s.row_bytes = s.k / dtype_group(s.to) * dtype_bytes(s.to);
    *m = (struct matrix){.bytes = s.n * s.row_bytes};
    m->view = (struct view){.name = arena_strndup(&q->names, name, strlen(name)),
                            .file = codes->file,
                            .dtype = s.to,
                            .n_dims = 2,
                            .shape = {s.n, s.k}};
    if (!m->view.name || !(m->data = map_region_new(m->bytes)))
        return err_nomem(e, base);
    q->n++;
    q->n_unpacked += s.to == DT_F32;
    m->view.data = s.out = m->data;
    view_set_contiguous(&m->view);
    pool_run(q->pool, convert_share, &s);
    return 0;
}

/* Converts all matrices of W, which are found by the ends of tensor names, and adds them to W. */
static int convert_all(struct quantised *q, struct weights *w, struct err *e)
{
    const char *end = q->method != COMPRESSED ? ".qweight" : q->bytes ? ".weight_scale" : ".weight_packed";
    size_t n = weights_count(w);
    char base[NAME_MAX_BYTES];
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct view *v = weights_nth(w, i);
        size_t len = strlen(v->name), tail = strlen(end);
        char codes[NAME_MAX_BYTES + 16];

        if (len <= tail || len - tail >= sizeof(base) || strcmp(v->name + len - tail, end) != 0)
            continue;
        snprintf(base, sizeof(base), "%.*s", (int)(len - tail), v->name);
        snprintf(codes, sizeof(codes), "%s%s", base, q->bytes ? ".weight" : end);
        v = weights_get(w, codes);
        rc = v ? convert(q, w, v, base, e)
               : err_set(e, ERR_INPUT, "%s: tensor %.300s is missing", weights_path(w), codes);
    }
    for (size_t i = 0; i < q->n && rc == 0; i++) /* after the loop, because q->matrix moves while it grows */
        rc = weights_add(w, &q->matrix[i].view, e);
    return rc;
}

/* ---- the config ---- */

static int unsupported(const struct config *c, const char *key, const char *found, const char *expected,
                       struct err *e)
{
    bool own = folder_name_ends(config_path(c), "/quantize_config.json") ||
               folder_name_ends(config_path(c), "/quant_config.json");

    return err_set(e, ERR_UNSUPPORTED, "%s: %s%s: found %.100s, expected %s", config_path(c),
                   own ? "" : "quantization_config.", key, found, expected);
}

/* Sets the error that KEY has the unsupported value BITS. */
static int unsupported_bits(const struct config *c, const char *key, int64_t bits, const char *expected,
                            struct err *e)
{
    char found[24];

    snprintf(found, sizeof(found), "%lld", (long long)bits);
    return unsupported(c, key, found, expected, e);
}

static int read_common(struct quantised *q, struct config *c, struct err *e)
{
    int rc;

    /* w_bit and q_group_size are AutoAWQ's names */
    const char *bits = config_has(c, "w_bit") ? "w_bit" : "bits",
               *group = config_has(c, "q_group_size") ? "q_group_size" : "group_size";

    if ((rc = config_need_int(c, bits, 1, 16, &q->bits, e)) != 0 ||
        (rc = config_int(c, group, -1, -1, 1 << 20, &q->group, e)) != 0)
        return rc;
    if (q->bits != 4 && (q->bits != 8 || q->method == AWQ))
        return unsupported_bits(c, bits, q->bits, q->method == AWQ ? "4" : "4 or 8", e);
    return q->group == 0 ? unsupported(c, "group_size", "0", "-1 or a size", e) : 0;
}

static int read_gptq(struct quantised *q, struct config *c, struct err *e)
{
    const char *format;
    int rc;

    if ((rc = read_common(q, c, e)) != 0 || (rc = config_str(c, "format", "gptq", &format, e)) != 0 ||
        (rc = config_str(c, "checkpoint_format", format, &format, e)) != 0)
        return rc;
    if (config_has(c, "sym") && (rc = config_bool(c, "sym", false, &q->symmetric, e)) != 0)
        return rc;
    if (config_has(c, "adapter"))
        return unsupported(c, "adapter", "an object", "none", e);
    if (strcmp(format, "gptq") == 0)
        q->zero_more = q->bits == 8 ? 0x01010101 : 0x11111111;
    return q->zero_more || strcmp(format, "gptq_v2") == 0
               ? 0
               : unsupported(c, "checkpoint_format", format, "gptq or gptq_v2", e);
}

static int read_awq(struct quantised *q, struct config *c, struct err *e)
{
    const char *version;
    bool zeros;
    int rc;

    if ((rc = read_common(q, c, e)) != 0 || (rc = config_str(c, "version", "gemm", &version, e)) != 0 ||
        (rc = config_bool(c, "zero_point", true, &zeros, e)) != 0)
        return rc;
    if (strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0)
        return unsupported(c, "version", version, "gemm", e);
    return zeros ? 0 : unsupported(c, "zero_point", "false", "true", e);
}

static int read_weights(struct quantised *q, struct config *c, struct err *e)
{
    const char *type, *strategy;
    bool symmetric;
    int rc;

    if ((rc = config_need_int(c, "num_bits", 1, 16, &q->bits, e)) != 0 ||
        (rc = config_str(c, "type", "int", &type, e)) != 0 ||
        (rc = config_str(c, "strategy", "", &strategy, e)) != 0 ||
        (rc = config_bool(c, "symmetric", true, &symmetric, e)) != 0 ||
        (rc = config_int(c, "group_size", -1, -1, 1 << 20, &q->group, e)) != 0)
        return rc;
    q->asymmetric = !symmetric;
    if (strcmp(type, "int") != 0)
        return unsupported(c, "config_groups.weights.type", type, "int", e);
    if (strcmp(strategy, "channel") == 0)
        q->group = -1;
    else if (strcmp(strategy, "group") != 0 || q->group <= 0 || q->bytes)
        return unsupported(c, "config_groups.weights.strategy", strategy,
                           q->bytes ? "channel" : "channel, or group with its group_size", e);
    if (q->bits != (q->bytes ? 8 : 4))
        return unsupported_bits(c, "config_groups.weights.num_bits", q->bits, q->bytes ? "8" : "4", e);
    return q->bytes && q->asymmetric ? unsupported(c, "config_groups.weights.symmetric", "false", "true", e)
                                     : 0;
}

/* Fails if the checkpoint has static scales of inputs, which other programs use in the computation. */
static int read_inputs(struct config *inputs, struct err *e)
{
    bool dynamic = true;
    int rc = inputs ? config_bool(inputs, "dynamic", true, &dynamic, e) : 0;

    return rc || dynamic ? rc
                         : unsupported(inputs, "config_groups.input_activations.dynamic", "false", "true", e);
}

/* Checks the settings outside of config_groups. kv_cache_scheme is not used, because the type of KV rows is
 * an option of the engine. */
static int read_beside(struct config *c, struct err *e)
{
    struct config *transform = config_sub(c, "transform_config"),
                  *sparsity = config_sub(c, "sparsity_config");
    const char *format = "dense";
    int rc = sparsity ? config_str(sparsity, "format", "dense", &format, e) : 0;

    if (rc)
        return rc;
    if (strcmp(format, "dense") != 0)
        return unsupported(c, "sparsity_config.format", format, "dense", e);
    if (config_has(c, "kv_cache_scheme"))
        log_warn("%s: quantization_config.kv_cache_scheme is not used: the option kv-cache-dtype decides",
                 config_path(c));
    return transform && config_count(transform) > 0
               ? unsupported(c, "transform_config", "transforms of inputs", "none", e)
               : 0;
}

static int read_compressed(struct quantised *q, struct config *c, struct err *e)
{
    struct config *groups = config_sub(c, "config_groups"), *group, *weights;
    const char *format;
    int rc = config_str(c, "format", "", &format, e);

    if (rc)
        return rc;
    q->bytes = strcmp(format, "int-quantized") == 0;
    if (!q->bytes && strcmp(format, "pack-quantized") != 0)
        return unsupported(c, "format", format, "pack-quantized or int-quantized", e);
    if (!groups || !(group = config_sub(groups, "group_0")) || !(weights = config_sub(group, "weights")))
        return unsupported(c, "config_groups", "no group_0 with weights", "one", e);
    if (config_count(groups) > 1)
        return unsupported(c, "config_groups", "several", "group_0 alone", e);
    if (config_has(group, "output_activations"))
        return unsupported(c, "config_groups.output_activations", "an object", "null", e);
    if ((rc = read_beside(c, e)) != 0)
        return rc;
    rc = read_inputs(config_sub(group, "input_activations"), e);
    return rc ? rc : read_weights(q, weights, e);
}

/* ---- opening ---- */

static int open_with(struct quantised *q, struct weights *w, struct config *about, struct err *e)
{
    static int (*const read[])(struct quantised *, struct config *, struct err *) = {read_gptq, read_awq,
                                                                                     read_compressed};
    int rc = read[q->method](q, about, e);

    return rc ? rc : convert_all(q, w, e);
}

/* Opens quantize_config.json or quant_config.json, which old programs wrote instead of a quantization_config,
 * and sets *NAME to its method. *OUT is NULL if no such file exists, or W has no tensor *.qweight. */
static int read_beside_config(struct config **out, const char **name, struct folder in,
                              const struct weights *w, struct err *e)
{
    static const char *const files[] = {"quantize_config.json", "quant_config.json"};
    bool stored = false;
    int rc;

    *out = NULL;
    for (size_t i = 0; w && i < weights_count(w) && !stored; i++)
        stored = folder_name_ends(weights_nth(w, i)->name, ".qweight");
    for (size_t i = 0; stored && i < sizeof(files) / sizeof(files[0]); i++) {
        if (!folder_has(in, files[i]))
            continue;
        if ((rc = config_open(out, in, files[i], e)) != 0 ||
            (rc = config_str(*out, "quant_method", i || config_has(*out, "w_bit") ? "awq" : "gptq", name,
                             e)) != 0) {
            config_close(*out);
            *out = NULL;
            return rc;
        }
        return 0;
    }
    return 0;
}

/* Opens a checkpoint with the method NAME. Its settings are in BESIDE or, if BESIDE is NULL, in
 * quantization_config of C. */
static int open_method(struct quantised **out, const char *name, struct weights *w, struct config *c,
                       struct config *beside, struct pool *pool, struct err *e)
{
    struct config *about = beside;
    struct quantised *q;
    size_t method = 0;
    int rc;

    while (name && method <= COMPRESSED && strcmp(name, method_names[method]) != 0)
        method++;
    if (!name || strcmp(name, "mxfp4") == 0) /* gpt_oss.c reads it */
        return 0;
    if (method > COMPRESSED)
        return unsupported(c, "quant_method", name, "gptq, awq, compressed-tensors or mxfp4", e);
    if (!beside) {
        about = config_sub(c, "quantization_config");
        config_ignore(c, "quantization_config"); /* other keys describe how the weights were quantized */
    }
    if (!w)
        return 0;
    if (!(q = mem_zalloc(1, sizeof(*q), MEM_CKPT)))
        return err_nomem(e, config_path(c));
    q->method = (enum method)method;
    q->pool = pool;
    arena_init(&q->names, MEM_CKPT);
    if ((rc = open_with(q, w, about, e)) != 0)
        quantised_close(q);
    else
        *out = q;
    return rc;
}

int quantised_open(struct quantised **out, struct weights *w, struct config *c, struct folder in,
                   struct pool *pool, struct err *e)
{
    const char *name = config_quant_method(c);
    struct config *beside = NULL;
    int rc = config_peek(c, "quantization_config") || config_peek(c, "compression_config")
                 ? 0
                 : read_beside_config(&beside, &name, in, w, e);

    *out = NULL;
    if (rc == 0)
        rc = open_method(out, name, w, c, beside, pool, e);
    config_close(beside);
    return rc;
}

void quantised_let_go(struct quantised *q)
{
    for (size_t i = 0; q && i < q->n; i++) {
        map_region_free(q->matrix[i].data, q->matrix[i].bytes);
        q->matrix[i].data = NULL;
        q->matrix[i].view.data = NULL;
    }
}

size_t quantised_unpacked(const struct quantised *q)
{
    return q->n_unpacked;
}

const char *quantised_method(const struct quantised *q)
{
    return method_names[q->method];
}

void quantised_close(struct quantised *q)
{
    if (!q)
        return;
    quantised_let_go(q);
    mem_free(q->matrix);
    arena_fini(&q->names);
    mem_free(q);
}
