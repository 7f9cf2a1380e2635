/* file.c - reads the head of a GGUF file (counts, metadata, tensor descriptions) and checks the positions of the
 * tensors.
 *
 * All bytes are read through one cursor, which checks the end of the file. Tables grow with the entries that are read,
 * each of which has bytes in the file, so that no number in the file decides how much memory is allocated.
 */
#include "base/arena.h"
#include "ckpt/gguf/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "ckpt/little_endian.h"
#include "ckpt/tensor_file.h"

enum { DEFAULT_ALIGNMENT = 32, MAX_NAME = 65535 };

static const struct {
    const char *name;
    size_t bytes; /* 0: values have different lengths */
} types[GGUF_N_TYPES] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8}};

/* The names and dtypes of ggml_type, including types that ggml has removed. */
static const struct {
    const char *name;
    int dtype; /* -1: not supported */
} tensor_types[] = {
#define QUANT(name, gguf, ...) [gguf] = {#name, DT_##name},
#include "tensor/quant.def"
    [0] = {"F32", DT_F32},     [1] = {"F16", DT_F16},     [4] = {"Q4_2", -1},        [5] = {"Q4_3", -1},
    [9] = {"Q8_1", -1},        [15] = {"Q8_K", -1},       [16] = {"IQ2_XXS", -1},    [17] = {"IQ2_XS", -1},
    [18] = {"IQ3_XXS", -1},    [19] = {"IQ1_S", -1},      [21] = {"IQ3_S", -1},      [22] = {"IQ2_S", -1},
    [24] = {"I8", DT_I8},      [25] = {"I16", DT_I16},    [26] = {"I32", DT_I32},    [27] = {"I64", DT_I64},
    [28] = {"F64", DT_F64},    [29] = {"IQ1_M", -1},      [30] = {"BF16", DT_BF16},  [31] = {"Q4_0_4_4", -1},
    [32] = {"Q4_0_4_8", -1},   [33] = {"Q4_0_8_8", -1},   [34] = {"TQ1_0", -1},      [35] = {"TQ2_0", -1},
    [36] = {"IQ4_NL_4_4", -1}, [37] = {"IQ4_NL_4_8", -1}, [38] = {"IQ4_NL_8_8", -1}, [40] = {"NVFP4", -1},
    [41] = {"Q1_0", -1},
};

enum { N_TENSOR_TYPES = sizeof(tensor_types) / sizeof(*tensor_types) };

static bool type_dtype(uint32_t type, enum dtype *t)
{
    if (type >= N_TENSOR_TYPES || tensor_types[type].dtype < 0)
        return false;
    *t = (enum dtype)tensor_types[type].dtype;
    return true;
}

static const char *type_name(uint32_t type)
{
    return type < N_TENSOR_TYPES ? tensor_types[type].name : "an unknown type";
}

/* The supported types of weights, for messages. */
static const char supported[] = "F32, F16, BF16"
#define QUANT(name, ...) ", " #name
#include "tensor/quant.def"
    ;

struct reader {
    struct gguf *g;
    const char *bytes;
    size_t len, at;
    size_t alignment;
    char what[160]; /* the part that is being read, for messages */
    struct err *e;
};

bool gguf_is(const char *bytes, size_t len)
{
    return len >= 4 && memcmp(bytes, "GGUF", 4) == 0;
}

/* ---- the cursor ---- */

/* Returns the next N bytes, or sets an error and returns NULL. */
static const char *take_bytes(struct reader *r, uint64_t n)
{
    const char *p = r->bytes + r->at;

    if (n > r->len - r->at) {
        err_set(r->e, ERR_INPUT, "%s: %s needs %" PRIu64 " bytes at byte %zu, the file has %zu left",
                r->g->path, r->what, n, r->at, r->len - r->at);
        return NULL;
    }
    r->at += (size_t)n;
    return p;
}

static bool take_u32(struct reader *r, uint32_t *v)
{
    const char *p = take_bytes(r, 4);

    *v = p ? little_u32(p) : 0;
    return p != NULL;
}

static bool take_u64(struct reader *r, uint64_t *v)
{
    const char *p = take_bytes(r, 8);

    *v = p ? little_u64(p) : 0;
    return p != NULL;
}

static bool take_str(struct reader *r, struct json_str *s)
{
    uint64_t n;

    if (!take_u64(r, &n) || !(s->s = take_bytes(r, n)))
        return false;
    s->n = (size_t)n;
    return true;
}

/* Reads the name of a key or tensor, which must be UTF-8 without control characters. */
static int take_name(struct reader *r, struct json_str *s)
{
    if (!take_str(r, s))
        return ERR_INPUT;
    if (s->n == 0 || s->n > MAX_NAME)
        return err_set(r->e, ERR_INPUT, "%s: %s: its name has %zu bytes, expected 1 to %d", r->g->path,
                       r->what, s->n, MAX_NAME);
    if (utf8_valid_prefix(s->s, s->n) != s->n)
        return err_set(r->e, ERR_INPUT, "%s: %s: its name is not UTF-8", r->g->path, r->what);
    for (size_t i = 0; i < s->n; i++)
        if ((unsigned char)s->s[i] < 0x20 || s->s[i] == 0x7f)
            return err_set(r->e, ERR_INPUT, "%s: %s: its name has a control character", r->g->path, r->what);
    return 0;
}

static void say_what(struct reader *r, const char *what, const struct json_str *name)
{
    snprintf(r->what, sizeof(r->what), "%s %.*s", what, name->n < 100 ? (int)name->n : 100, name->s);
}

/* ---- metadata ---- */

static int bad_type(struct reader *r, uint32_t type)
{
    return err_set(r->e, ERR_INPUT, "%s: %s has a value of type %" PRIu32 ", expected 0 to %d", r->g->path,
                   r->what, type, GGUF_N_TYPES - 1);
}

/* Sets KV to the N elements at the cursor, and skips them. */
static int read_elements(struct reader *r, struct gguf_kv *kv, uint64_t n)
{
    struct json_str s;
    size_t bytes = types[kv->type].bytes, all;

    kv->data = r->bytes + r->at;
    kv->n = (size_t)n;
    if (bytes) {
        if (__builtin_mul_overflow(n, bytes, &all))
            all = SIZE_MAX;
        if (!take_bytes(r, all))
            return ERR_INPUT;
        for (size_t i = 0; kv->type == GGUF_BOOL && i < kv->n; i++)
            if (kv->data[i] != 0 && kv->data[i] != 1)
                return err_set(r->e, ERR_INPUT, "%s: %s has a bool of the value %u, expected 0 or 1",
                               r->g->path, r->what, (unsigned char)kv->data[i]);
        return 0;
    }
    for (uint64_t i = 0; i < n; i++)
        if (!take_str(r, &s))
            return ERR_INPUT;
    return 0;
}

static int read_value(struct reader *r, struct gguf_kv *kv)
{
    uint32_t type;
    uint64_t n = 1;

    if (!take_u32(r, &type))
        return ERR_INPUT;
    if (type >= GGUF_N_TYPES)
        return bad_type(r, type);
    if (type == GGUF_ARRAY) {
        kv->is_array = true;
        if (!take_u32(r, &type) || !take_u64(r, &n))
            return ERR_INPUT;
        if (type >= GGUF_N_TYPES)
            return bad_type(r, type);
        if (type == GGUF_ARRAY)
            return err_set(r->e, ERR_UNSUPPORTED, "%s: %s is an array of arrays", r->g->path, r->what);
    }
    kv->type = (enum gguf_type)type;
    return read_elements(r, kv, n);
}

static int read_kv(struct reader *r)
{
    struct gguf *g = r->g;
    struct gguf_kv kv = {.n = 0};
    int rc, put;

    snprintf(r->what, sizeof(r->what), "metadata entry %zu", g->n_kv);
    if ((rc = take_name(r, &kv.key)) != 0)
        return rc;
    say_what(r, "key", &kv.key);
    if ((rc = read_value(r, &kv)) != 0)
        return rc;
    if (!mem_grow((void **)&g->kv, &g->cap_kv, g->n_kv + 1, sizeof(*g->kv), MEM_CKPT) ||
        (put = strmap_put(&g->key, kv.key.s, kv.key.n, g->n_kv)) < 0)
        return err_nomem(r->e, g->path);
    if (put == 0)
        return err_set(r->e, ERR_INPUT, "%s: %s is there twice", g->path, r->what);
    g->kv[g->n_kv++] = kv;
    return 0;
}

static int read_alignment(struct reader *r)
{
    int64_t a;
    int rc = gguf_int(r->g, "general.alignment", DEFAULT_ALIGNMENT, 1, 1 << 30, &a, r->e);

    if (rc == 0 && (a & (a - 1)) != 0)
        rc = err_set(r->e, ERR_INPUT, "%s: general.alignment is %" PRId64 ", expected a power of two",
                     r->g->path, a);
    r->alignment = (size_t)a;
    return rc;
}

/* ---- tensors ---- */

/* Reads a shape, whose dimensions are stored innermost first. */
static int read_shape(struct reader *r, struct view *v)
{
    uint32_t n_dims;
    uint64_t dim;
    size_t elements;

    if (!take_u32(r, &n_dims))
        return ERR_INPUT;
    if (n_dims == 0 || n_dims > GGUF_MAX_DIMS)
        return err_set(r->e, ERR_INPUT, "%s: %s has %" PRIu32 " dimensions, expected 1 to %d", r->g->path,
                       r->what, n_dims, GGUF_MAX_DIMS);
    v->n_dims = (int)n_dims;
    for (int d = v->n_dims - 1; d >= 0; d--) {
        if (!take_u64(r, &dim))
            return ERR_INPUT;
        v->shape[d] = (size_t)dim;
    }
    if (!tensor_file_elements(v->shape, v->n_dims, &elements))
        return err_set(r->e, ERR_INPUT, "%s: %s: its shape has more elements than an address can count",
                       r->g->path, r->what);
    return 0;
}

static int read_type(struct reader *r, struct view *v)
{
    size_t row = v->shape[v->n_dims - 1];
    uint32_t type;

    if (!take_u32(r, &type))
        return ERR_INPUT;
    if (!type_dtype(type, &v->dtype))
        return err_set(r->e, ERR_UNSUPPORTED,
                       "%s: %s is stored as type %" PRIu32 " (%s), which is not supported; supported are %s",
                       r->g->path, r->what, type, type_name(type), supported);
    if (row % dtype_group(v->dtype) != 0)
        return err_set(r->e, ERR_INPUT, "%s: %s has rows of %zu elements, but %s needs multiples of %zu",
                       r->g->path, r->what, row, dtype_name(v->dtype), dtype_group(v->dtype));
    return 0;
}

static int read_tensor(struct reader *r)
{
    struct gguf *g = r->g;
    struct gguf_tensor t = {.view = {.n_dims = 0}};
    uint64_t offset;
    int rc;

    snprintf(r->what, sizeof(r->what), "tensor %zu", g->n_tensors);
    if ((rc = take_name(r, &t.name)) != 0)
        return rc;
    say_what(r, "tensor", &t.name);
    if ((rc = read_shape(r, &t.view)) != 0 || (rc = read_type(r, &t.view)) != 0)
        return rc;
    if (!take_u64(r, &offset))
        return ERR_INPUT;
    if (offset % r->alignment != 0)
        return err_set(r->e, ERR_INPUT,
                       "%s: %s has the offset %" PRIu64 ", expected a multiple of the alignment %zu", g->path,
                       r->what, offset, r->alignment);
    if (offset > r->len)
        return err_set(r->e, ERR_INPUT, "%s: %s has the offset %" PRIu64 ", but the file has %zu bytes",
                       g->path, r->what, offset, r->len);
    view_set_contiguous(&t.view);
    /* relative to the data section; place_tensors() adds the section's offset */
    t.view.data = r->bytes + offset;
    if (!mem_grow((void **)&g->tensor, &g->cap_tensors, g->n_tensors + 1, sizeof(*g->tensor), MEM_CKPT))
        return err_nomem(r->e, g->path);
    g->tensor[g->n_tensors++] = t;
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    size_t nx = view_bytes(&x->view), ny = view_bytes(&y->view);

    if (x->view.data != y->view.data)
        return (const char *)x->view.data < (const char *)y->view.data ? -1 : 1;
    return nx != ny ? (nx < ny ? -1 : 1) : 0;
}

/* Adds the offset of the data section, which begins after the cursor, to the positions of the tensors, and
 * checks that the tensors are inside the file and do not overlap. */
static int place_tensors(struct reader *r)
{
    struct gguf *g = r->g;
    size_t begin = (r->at + r->alignment - 1) / r->alignment * r->alignment, from = 0;

    if (g->n_tensors == 0)
        return 0;
    qsort(g->tensor, g->n_tensors, sizeof(*g->tensor), by_place);
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensor[i];
        size_t offset = (size_t)((const char *)t->view.data - r->bytes), bytes = view_bytes(&t->view);
        int put;

        say_what(r, "tensor", &t->name);
        if (begin > r->len || offset > r->len - begin || bytes > r->len - begin - offset)
            return err_set(r->e, ERR_INPUT,
                           "%s: %s has %zu bytes at offset %zu of the data, which begin at byte %zu; "
                           "the file has %zu bytes",
                           g->path, r->what, bytes, offset, begin, r->len);
        if (offset < from)
            return err_set(r->e, ERR_INPUT, "%s: %s overlaps tensor %.*s", g->path, r->what,
                           t[-1].name.n < 100 ? (int)t[-1].name.n : 100, t[-1].name.s);
        from = offset + bytes;
        t->view.data = r->bytes + begin + offset;
        put = strmap_put(&g->name, t->name.s, t->name.n, i);
        if (put < 0)
            return err_nomem(r->e, g->path);
        if (put == 0)
            return err_set(r->e, ERR_INPUT, "%s: %s is there twice", g->path, r->what);
    }
    return 0;
}

/* ---- the file ---- */

static int read_head(struct reader *r, uint64_t *n_tensors, uint64_t *n_kv)
{
    const char *magic;

    snprintf(r->what, sizeof(r->what), "the head");
    if (!gguf_is(r->bytes, r->len))
        return err_set(r->e, ERR_INPUT, "%s: this is not a GGUF file: it does not begin with GGUF",
                       r->g->path);
    magic = take_bytes(r, 4);
    if (!magic || !take_u32(r, &r->g->version))
        return ERR_INPUT;
    if ((r->g->version & 0xffff) == 0 && r->g->version >> 16)
        return err_set(r->e, ERR_UNSUPPORTED, "%s: the file is big-endian, expected little-endian GGUF",
                       r->g->path);
    if (r->g->version != 2 && r->g->version != 3)
        return err_set(r->e, ERR_UNSUPPORTED,
                       "%s: GGUF version %" PRIu32 " is not supported, expected 2 or 3", r->g->path,
                       r->g->version);
    return take_u64(r, n_tensors) && take_u64(r, n_kv) ? 0 : ERR_INPUT;
}

static int read_gguf(struct reader *r)
{
    uint64_t n_tensors, n_kv;
    int rc = read_head(r, &n_tensors, &n_kv);

    for (uint64_t i = 0; rc == 0 && i < n_kv; i++)
        rc = read_kv(r);
    r->g->kv_end = r->at;
    if (rc == 0)
        rc = read_alignment(r);
    for (uint64_t i = 0; rc == 0 && i < n_tensors; i++)
        rc = read_tensor(r);
    return rc ? rc : place_tensors(r);
}

int gguf_read(struct gguf *g, const char *bytes, size_t len, const char *path, struct err *e)
{
    struct err own;
    struct reader r = {.g = g, .bytes = bytes, .len = len, .e = e ? e : &own};
    int rc;

    *g = (struct gguf){.path = path};
    strmap_init(&g->key, MEM_CKPT);
    strmap_init(&g->name, MEM_CKPT);
    if ((rc = read_gguf(&r)) != 0)
        gguf_close(g);
    return rc;
}

void gguf_close(struct gguf *g)
{
    mem_free(g->kv);
    mem_free(g->tensor);
    strmap_fini(&g->key);
    strmap_fini(&g->name);
    *g = (struct gguf){0};
}

/* ---- getters ---- */

const struct gguf_kv *gguf_get(struct gguf *g, const char *key)
{
    uint64_t at;

    if (!strmap_get(&g->key, key, strlen(key), &at))
        return NULL;
    g->kv[at].asked = true;
    return &g->kv[at];
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name)
{
    uint64_t at;

    return strmap_get(&g->name, name, strlen(name), &at) ? &g->tensor[at] : NULL;
}

static bool int_at(const struct gguf_kv *kv, size_t i, int64_t *v)
{
    const char *p = kv->data + i * types[kv->type].bytes;

    switch (kv->type) {
    case GGUF_U8: *v = *(const unsigned char *)p; return true;
    case GGUF_I8: *v = *(const signed char *)p; return true;
    case GGUF_U16: *v = little_u16(p); return true;
    case GGUF_I16: *v = (int16_t)little_u16(p); return true;
    case GGUF_U32: *v = little_u32(p); return true;
    case GGUF_I32: *v = (int32_t)little_u32(p); return true;
    case GGUF_I64: *v = (int64_t)little_u64(p); return true;
    case GGUF_U64: *v = (int64_t)little_u64(p); return *v >= 0;
    default: return false;
    }
}

static bool float_at(const struct gguf_kv *kv, double *v)
{
    uint64_t wide;
    uint32_t bits;
    int64_t i;
    float f;

    if (kv->type == GGUF_F32) {
        bits = little_u32(kv->data);
        memcpy(&f, &bits, 4);
        *v = (double)f;
    } else if (kv->type == GGUF_F64) {
        wide = little_u64(kv->data);
        memcpy(v, &wide, 8);
    } else if (int_at(kv, 0, &i)) {
        *v = (double)i;
    } else {
        return false;
    }
    return isfinite(*v);
}

/* Writes the shortest text that parses to F. IS_F32: F is a float. */
static void put_float_text(double f, bool is_f32, char *out, size_t size)
{
    int digits = 6;

    do
        snprintf(out, size, "%.*g", digits, f);
    while ((is_f32 ? (double)strtof(out, NULL) : strtod(out, NULL)) != f && ++digits <= 17);
}

const char *gguf_kv_text(const struct gguf_kv *kv, char *out, size_t size)
{
    int64_t i;
    double f;

    if (kv->is_array)
        snprintf(out, size, "an array of %zu %s", kv->n, types[kv->type].name);
    else if (kv->type == GGUF_STRING)
        snprintf(out, size, "a string");
    else if (kv->type == GGUF_BOOL)
        snprintf(out, size, "%s", *kv->data ? "true" : "false");
    else if (int_at(kv, 0, &i))
        snprintf(out, size, "%" PRId64, i);
    else if (float_at(kv, &f))
        put_float_text(f, kv->type == GGUF_F32, out, size);
    else
        snprintf(out, size, "a number of type %s", types[kv->type].name);
    return out;
}

/* Sets the sentence "PATH: KEY is FOUND, expected EXPECTED". */
static int wrong(const struct gguf *g, const struct gguf_kv *kv, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int wrong(const struct gguf *g, const struct gguf_kv *kv, struct err *e, const char *fmt, ...)
{
    char found[80];
    ERR_SENTENCE(expected, fmt);

    return err_set(e, ERR_INPUT, "%s: %.*s is %s, expected %s", g->path,
                   kv->key.n < 100 ? (int)kv->key.n : 100, kv->key.s, gguf_kv_text(kv, found, sizeof(found)),
                   expected);
}

int gguf_int(struct gguf *g, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v, struct err *e)
{
    const struct gguf_kv *kv = gguf_get(g, key);
    int64_t other;

    *v = def;
    if (!kv)
        return 0;
    if (kv->n == 0 || !int_at(kv, 0, v) || *v < lo || *v > hi) {
        *v = def;
        return wrong(g, kv, e, "an integer from %" PRId64 " to %" PRId64, lo, hi);
    }
    for (size_t i = 1; i < kv->n; i++)
        if (!int_at(kv, i, &other) || other != *v)
            return err_set(e, ERR_UNSUPPORTED, "%s: %s differs from layer to layer, which is not supported",
                           g->path, key);
    return 0;
}

int gguf_float(struct gguf *g, const char *key, double def, double *v, struct err *e)
{
    const struct gguf_kv *kv = gguf_get(g, key);

    *v = def;
    if (!kv || (!kv->is_array && float_at(kv, v)))
        return 0;
    *v = def;
    return wrong(g, kv, e, "a finite number");
}

int gguf_bool(struct gguf *g, const char *key, bool def, bool *v, struct err *e)
{
    const struct gguf_kv *kv = gguf_get(g, key);

    *v = def;
    if (!kv)
        return 0;
    if (kv->is_array || kv->type != GGUF_BOOL)
        return wrong(g, kv, e, "true or false");
    *v = *kv->data;
    return 0;
}

int gguf_text(struct gguf *g, const char *key, struct json_str *v, struct err *e)
{
    const struct gguf_kv *kv = gguf_get(g, key);

    *v = (struct json_str){.s = NULL};
    if (!kv)
        return 0;
    if (kv->is_array || kv->type != GGUF_STRING)
        return wrong(g, kv, e, "a string");
    v->n = (size_t)little_u64(kv->data);
    v->s = kv->data + 8;
    if (memchr(v->s, 0, v->n) || utf8_valid_prefix(v->s, v->n) != v->n)
        return err_set(e, ERR_INPUT, "%s: %s is not UTF-8, or has a NUL character", g->path, key);
    return 0;
}

int gguf_strs(struct gguf *g, const char *key, struct arena *a, const struct json_str **v, size_t *n,
              struct err *e)
{
    const struct gguf_kv *kv = gguf_get(g, key);
    const char *p = kv ? kv->data : NULL;
    struct json_str *list;

    *v = NULL;
    *n = 0;
    if (!kv)
        return 0;
    if (!kv->is_array || kv->type != GGUF_STRING)
        return wrong(g, kv, e, "an array of strings");
    list = arena_zalloc(a, kv->n, sizeof(*list));
    if (!list)
        return err_nomem(e, g->path);
    for (size_t i = 0; i < kv->n; i++) {
        list[i] = (struct json_str){p + 8, (size_t)little_u64(p)};
        p += 8 + list[i].n;
    }
    *v = list;
    *n = kv->n;
    return 0;
}

int gguf_words(struct gguf *g, const char *key, enum gguf_type type, const char **v, size_t *n, struct err *e)
{
    const struct gguf_kv *kv = gguf_get(g, key);

    ASSERT(types[type].bytes == 4);
    *v = NULL;
    *n = 0;
    if (!kv)
        return 0;
    if (!kv->is_array || kv->type != type)
        return wrong(g, kv, e, "an array of %s", types[type].name);
    *v = kv->data;
    *n = kv->n;
    return 0;
}
