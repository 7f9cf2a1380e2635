/* read.c - opens packed checkpoints. Every length and position is checked against the files before it is
 * used. The hashes prove that the bytes were not changed. */
#include <inttypes.h>
#include <xxhash.h>

#include "base/arena.h"
#include "base/json/json_pull.h"
#include "ckpt/pack/form.h"

struct reader {
    struct pack *p;
    struct json_pull j;
    size_t cap_files, cap_linears, cap_tensors;
    struct folder_member *member;
    struct pack_blob *member_blob;
    size_t cap_blobs;
    uint64_t n_parts;
    struct err *e;
};

/* Returns the path of file PART of P. TEXT is memory for the path. */
static const char *path_of(const struct pack *p, size_t part, char text[FOLDER_PATH_MAX])
{
    if (part)
        snprintf(text, FOLDER_PATH_MAX, "%s.%zu", p->path, part);
    return part ? text : p->path;
}

static int altered(const struct pack *p, size_t part, const char *what, struct err *e)
{
    char path[FOLDER_PATH_MAX];

    return err_set(
        e, ERR_INPUT,
        "%s: %s not as it was written: the file was altered or is incomplete; pack the checkpoint again "
        "(gallop pack)",
        path_of(p, part, path), what);
}

/* ---- the first page ---- */

static bool begins_so(const struct map_file *m)
{
    return m->len >= PACK_ALIGN && memcmp(m->bytes, PACK_MAGIC, strlen(PACK_MAGIC)) == 0;
}

bool pack_means(struct folder in)
{
    char path[FOLDER_PATH_MAX];
    struct map_file m;
    bool yes = !in.archive && folder_map(&m, path, in, NULL, NULL) == 0;

    if (yes) {
        yes = begins_so(&m);
        map_file_close(&m);
    }
    return yes;
}

static int check_head(const struct pack *p, const struct map_file *m, size_t part, struct err *e)
{
    char page[PACK_ALIGN], said[64] = "", path[FOLDER_PATH_MAX];
    unsigned version = 0, no = 0;

    pack_head(page, part);
    if (m->len >= PACK_ALIGN && memcmp(m->bytes, page, PACK_ALIGN) == 0)
        return 0;
    if (begins_so(m))
        memcpy(said, m->bytes + strlen(PACK_MAGIC), sizeof(said) - 1);
    if (sscanf(said, "version %u\npart %u\n", &version, &no) == 2 && version != PACK_VERSION)
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s: this packed checkpoint has version %u, this gallop reads %d; pack the checkpoint again "
            "(gallop pack)",
            path_of(p, part, path), version, PACK_VERSION);
    if (version && no && !part)
        return err_set(e, ERR_INPUT,
                       "%s: this is part %u of a packed checkpoint; name the first one, without .%u", p->path,
                       no, no);
    return altered(p, part, "its first page is", e);
}

/* ---- the directory ---- */

static const char *kept(struct reader *r, const struct json_str *s)
{
    const char *copy = arena_strndup(&r->p->arena, s->s, s->n);

    if (!copy)
        err_nomem(r->e, r->p->path);
    return copy;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void read_sum(struct json_pull *j, uint64_t *sum)
{
    struct json_str s;

    *sum = 0;
    if (!json_pull_string(j, &s))
        return;
    for (size_t i = 0; i < s.n && s.n == 16; i++) {
        int digit = digit_of(s.s[i]);

        if (digit < 0)
            s.n = 0;
        *sum = (*sum << 4) | (uint64_t)digit;
    }
    if (s.n != 16)
        json_pull_fail(j, "a hash is not 16 hexadecimal digits");
}

static void read_end(struct json_pull *j, unsigned char end[PACK_END_BYTES])
{
    struct json_str s;

    if (!json_pull_string(j, &s))
        return;
    if (s.n != 2 * PACK_END_BYTES)
        json_pull_fail(j, "the end of a tensor is not %d bytes", PACK_END_BYTES);
    for (size_t i = 0; i < PACK_END_BYTES && json_pull_rc(j) == 0; i++) {
        int high = digit_of(s.s[2 * i]), low = digit_of(s.s[2 * i + 1]);

        if (high < 0 || low < 0)
            json_pull_fail(j, "the end of a tensor is not %d bytes", PACK_END_BYTES);
        else
            end[i] = (unsigned char)((high << 4) | low);
    }
}

/* Reads KEY if it is one of the four members of a blob. False: KEY is another member. */
static bool read_blob(struct json_pull *j, const struct json_str *key, struct pack_blob *b)
{
    uint64_t v;

    if (json_str_is(key, "sum")) {
        read_sum(j, &b->sum);
        return true;
    }
    if (!json_str_is(key, "part") && !json_str_is(key, "at") && !json_str_is(key, "bytes"))
        return false;
    if (json_pull_u64(j, &v))
        *(json_str_is(key, "part") ? &b->part : json_str_is(key, "at") ? &b->at : &b->bytes) = (size_t)v;
    return true;
}

static void read_dtype(struct json_pull *j, enum dtype *t)
{
    struct json_str s;

    if (!json_pull_string(j, &s))
        return;
    for (int i = 0; i < DT_N; i++)
        if (json_str_is(&s, dtype_name((enum dtype)i))) {
            *t = (enum dtype)i;
            return;
        }
    json_pull_fail(j, "unknown dtype");
}

/* Reads an array of at most MOST sizes into V. Returns their number. */
static int read_sizes(struct json_pull *j, size_t *v, int most)
{
    uint64_t size;
    int n = 0;

    for (json_pull_enter_array(j); json_pull_elem(j);) {
        if (n == most) {
            json_pull_fail(j, "found more than %d sizes", most);
            return n;
        }
        if (json_pull_u64(j, &size))
            v[n++] = (size_t)size;
    }
    return n;
}

static int read_file(struct reader *r)
{
    struct pack_blob blob = {.part = 0};
    struct json_str key, name = {.s = ""};
    size_t n = r->p->files.n;

    for (json_pull_enter_object(&r->j); json_pull_key(&r->j, &key);)
        if (json_str_is(&key, "name"))
            json_pull_string(&r->j, &name);
        else if (!read_blob(&r->j, &key, &blob))
            json_pull_fail(&r->j, "%.*s is not known", key.n < 40 ? (int)key.n : 40, key.s);
    if (json_pull_rc(&r->j))
        return json_pull_rc(&r->j);
    if (!mem_grow((void **)&r->member, &r->cap_files, n + 1, sizeof(*r->member), MEM_CKPT) ||
        !mem_grow((void **)&r->member_blob, &r->cap_blobs, n + 1, sizeof(*r->member_blob), MEM_CKPT))
        return err_nomem(r->e, r->p->path);
    r->member[n] = (struct folder_member){.name = kept(r, &name)};
    r->member_blob[n] = blob;
    r->p->files.n++;
    return r->member[n].name ? 0 : ERR_NOMEM;
}

/* Checks that the strides of V do not overflow, and that its shape needs BYTES bytes (0: not stored). */
static int check_view(struct reader *r, struct view *v, int n_strides, size_t bytes)
{
    size_t elements, last = 1, block = dtype_group(v->dtype);
    bool fits = tensor_file_elements(v->shape, v->n_dims, &elements);

    if (n_strides && n_strides != v->n_dims)
        fits = false;
    for (int d = 0; d < v->n_dims && fits && n_strides; d++) {
        size_t far;

        fits = !__builtin_mul_overflow(v->shape[d] ? v->shape[d] - 1 : 0, v->stride[d], &far) &&
               !__builtin_add_overflow(last, far, &last) && last < SIZE_MAX / 16;
    }
    if (fits && v->zipped)
        fits = v->n_dims > 0 && v->zipped % 2 == 0 && v->shape[0] % v->zipped == 0;
    if (fits && block > 1) { /* quantization groups lie along the dimension of stride 1 */
        bool along = false;

        for (int d = 0; d < v->n_dims; d++) {
            size_t stride = n_strides ? v->stride[d] : d == v->n_dims - 1 ? 1 : block;

            along |= stride == 1 && v->shape[d] % block == 0;
            fits = fits && (stride == 1 || stride % block == 0);
        }
        fits = fits && along;
    }
    if (!fits)
        return json_pull_fail(&r->j, "a tensor's shape or strides are invalid");
    if (!n_strides)
        view_set_contiguous(v);
    return bytes == 0 || bytes == view_span_bytes(v)
               ? 0
               : json_pull_fail(&r->j, "a tensor's shape and number of bytes differ");
}

static int read_tensor(struct reader *r)
{
    struct pack_tensor t = {.sum = 0};
    struct view v = {.dtype = DT_F32};
    struct json_str key, name = {.s = ""};
    size_t n = r->p->tensors.n;
    int n_strides = 0, rc;

    for (json_pull_enter_object(&r->j); json_pull_key(&r->j, &key);)
        if (json_str_is(&key, "name"))
            json_pull_string(&r->j, &name);
        else if (json_str_is(&key, "dtype"))
            read_dtype(&r->j, &v.dtype);
        else if (json_str_is(&key, "shape"))
            v.n_dims = read_sizes(&r->j, v.shape, VIEW_MAX_DIMS);
        else if (json_str_is(&key, "stride"))
            n_strides = read_sizes(&r->j, v.stride, VIEW_MAX_DIMS);
        else if (json_str_is(&key, "zipped"))
            read_sizes(&r->j, &v.zipped, 1);
        else if (json_str_is(&key, "first") || json_str_is(&key, "last"))
            read_end(&r->j, t.end[json_str_is(&key, "last")]);
        else if (json_str_is(&key, "all"))
            read_sum(&r->j, &t.sum);
        else if (!read_blob(&r->j, &key, &t.blob))
            json_pull_fail(&r->j, "%.*s is not known", key.n < 40 ? (int)key.n : 40, key.s);
    if ((rc = json_pull_rc(&r->j)) != 0 || (rc = check_view(r, &v, n_strides, t.blob.bytes)) != 0)
        return rc;
    if (!mem_grow((void **)&r->p->tensor, &r->cap_tensors, n + 1, sizeof(*r->p->tensor), MEM_CKPT))
        return err_nomem(r->e, r->p->path);
    r->p->tensor[n] = t;
    return tensor_file_add(&r->p->tensors, name.s, name.n, v, r->e);
}

static int read_linear(struct reader *r)
{
    struct pack_linear l = {.dtype = DT_F32};
    struct json_str key, name = {.s = ""}, layout = {.s = ""};
    size_t size[2] = {0};

    for (json_pull_enter_object(&r->j); json_pull_key(&r->j, &key);)
        if (json_str_is(&key, "name"))
            json_pull_string(&r->j, &name);
        else if (json_str_is(&key, "form"))
            json_pull_string(&r->j, &layout);
        else if (json_str_is(&key, "dtype"))
            read_dtype(&r->j, &l.dtype);
        else if (json_str_is(&key, "size"))
            read_sizes(&r->j, size, 2);
        else if (json_str_is(&key, "paired"))
            json_pull_bool(&r->j, &l.paired);
        else if (!read_blob(&r->j, &key, &l.blob))
            json_pull_fail(&r->j, "%.*s is not known", key.n < 40 ? (int)key.n : 40, key.s);
    if (json_pull_rc(&r->j))
        return json_pull_rc(&r->j);
    l.n = size[0];
    l.k = size[1];
    l.name = kept(r, &name);
    l.layout = kept(r, &layout);
    if (!l.name || !l.layout)
        return ERR_NOMEM;
    if (!mem_grow((void **)&r->p->linear, &r->cap_linears, r->p->n_linears + 1, sizeof(l), MEM_CKPT))
        return err_nomem(r->e, r->p->path);
    r->p->linear[r->p->n_linears++] = l;
    return 0;
}

static int read_list(struct reader *r, int (*one)(struct reader *r))
{
    int rc = 0;

    for (json_pull_enter_array(&r->j); rc == 0 && json_pull_elem(&r->j);)
        rc = one(r);
    return rc ? rc : json_pull_rc(&r->j);
}

/* Returns a replacement for the calibration hash, which old files lack: a hash of the weights' hashes. */
static uint64_t sum_of_linears(const struct pack *p)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->n_linears; i++)
        sum = XXH3_64bits_withSeed(&p->linear[i].blob.sum, sizeof(p->linear[i].blob.sum), sum);
    return sum;
}

static int read_members(struct reader *r)
{
    struct json_str key, quant = {.s = "none", .n = 4};
    bool says_calibration = false;
    int rc = 0;

    for (json_pull_enter_object(&r->j); rc == 0 && json_pull_key(&r->j, &key);)
        if (json_str_is(&key, "dtype"))
            read_dtype(&r->j, &r->p->dtype);
        else if (json_str_is(&key, "quant"))
            json_pull_string(&r->j, &quant);
        else if (json_str_is(&key, "calibration")) {
            read_sum(&r->j, &r->p->calibration);
            says_calibration = true;
        } else if (json_str_is(&key, "files"))
            rc = read_list(r, read_file);
        else if (json_str_is(&key, "tensors"))
            rc = read_list(r, read_tensor);
        else if (json_str_is(&key, "linears"))
            rc = read_list(r, read_linear);
        else if (json_str_is(&key, "parts"))
            json_pull_u64(&r->j, &r->n_parts);
        else
            rc = json_pull_fail(&r->j, "%.*s is not known", key.n < 40 ? (int)key.n : 40, key.s);
    if (rc || (rc = json_pull_finish(&r->j)) != 0)
        return rc;
    if (!says_calibration)
        r->p->calibration = sum_of_linears(r->p);
    r->p->quant = kept(r, &quant);
    return r->p->quant ? tensor_file_seal(&r->p->tensors, r->e) : ERR_NOMEM;
}

static int find_directory(struct pack *p, const char **text, size_t *n, struct err *e)
{
    const struct map_file *m = &p->part[0];
    struct pack_tail tail;

    if (m->len < PACK_ALIGN + sizeof(tail))
        return altered(p, 0, "its end is", e);
    memcpy(&tail, m->bytes + m->len - sizeof(tail), sizeof(tail));
    if (memcmp(tail.magic, PACK_TAIL_MAGIC, sizeof(tail.magic)) != 0 ||
        tail.own_sum != XXH3_64bits(&tail, offsetof(struct pack_tail, own_sum)) || tail.at > m->len ||
        tail.bytes != m->len - sizeof(tail) - tail.at)
        return altered(p, 0, "its end is", e);
    p->end = (size_t)tail.at;
    *text = m->bytes + tail.at;
    *n = (size_t)tail.bytes;
    return XXH3_64bits(*text, *n) == tail.sum ? 0 : altered(p, 0, "its directory is", e);
}

/* ---- the files ---- */

static int open_parts(struct pack *p, struct folder in, uint64_t n, struct err *e)
{
    char name[FOLDER_PATH_MAX], path[FOLDER_PATH_MAX];
    struct map_file *all;
    int rc = 0;

    if (n < 1 || n > PACK_MAX_PARTS)
        return altered(p, 0, "its directory is", e);
    if (!(all = mem_zalloc((size_t)n, sizeof(*all), MEM_CKPT)))
        return err_nomem(e, p->path);
    all[0] = p->part[0];
    mem_free(p->part);
    p->part = all;
    for (; p->n_parts < n && rc == 0; p->n_parts++) {
        struct folder other = {.path = name, .allow_links = in.allow_links};

        if ((size_t)snprintf(name, sizeof(name), "%s.%zu", in.path, p->n_parts) >= sizeof(name))
            return err_set(e, ERR_INPUT, "%.200s...: the path is too long", in.path);
        if ((rc = folder_map(&p->part[p->n_parts], path, other, NULL, e)) != 0)
            return rc;
        rc = check_head(p, &p->part[p->n_parts], p->n_parts, e);
    }
    return rc;
}

static int place_blob(const struct pack *p, struct pack_blob *b, struct err *e)
{
    size_t end;

    if (b->part >= p->n_parts)
        return altered(p, 0, "its directory or length is", e);
    end = b->part ? p->part[b->part].len : p->end;
    if (b->at % PACK_ALIGN || b->at > end || b->bytes > end - b->at)
        return altered(p, b->part, "its directory or length is", e);
    b->data = p->part[b->part].bytes + b->at;
    return 0;
}

static int prove(const struct pack *p, const struct pack_blob *b, const char *what, struct pool *pool,
                 struct err *e)
{
    char text[300];
    uint64_t sum;
    int rc = pack_sum(&sum, b->data, b->bytes, pool, e);

    snprintf(text, sizeof(text), "%.200s in it is", what);
    return rc ? rc : sum == b->sum ? 0 : altered(p, b->part, text, e);
}

static int place_all(struct reader *r)
{
    struct pack *p = r->p;
    int rc = 0;

    for (size_t i = 0; i < p->files.n && rc == 0; i++) {
        struct pack_blob *b = &r->member_blob[i];

        if ((rc = place_blob(p, b, r->e)) == 0)
            rc = prove(p, b, r->member[i].name, NULL, r->e);
        r->member[i].bytes = b->data;
        r->member[i].len = b->bytes;
    }
    for (size_t i = 0; i < p->tensors.n && rc == 0; i++)
        if (p->tensor[i].blob.bytes && (rc = place_blob(p, &p->tensor[i].blob, r->e)) == 0)
            p->tensors.tensor[i].data = p->tensor[i].blob.data;
    for (size_t i = 0; i < p->n_linears && rc == 0; i++)
        rc = place_blob(p, &p->linear[i].blob, r->e);
    return rc;
}

static int read_pack(struct reader *r, struct folder in)
{
    struct pack *p = r->p;
    const char *text = NULL;
    size_t n = 0;
    int rc;

    if ((rc = check_head(p, &p->part[0], 0, r->e)) != 0 || (rc = find_directory(p, &text, &n, r->e)) != 0 ||
        (rc = json_pull_open(&r->j, text, n, p->path, &p->arena, r->e)) != 0 || (rc = read_members(r)) != 0 ||
        (rc = open_parts(p, in, r->n_parts, r->e)) != 0)
        return rc;
    return place_all(r);
}

static int pack_init(struct pack *p, const char *path, struct err *e)
{
    *p = (struct pack){.n_parts = 0};
    arena_init(&p->arena, MEM_CKPT);
    p->path = arena_strndup(&p->arena, path, strlen(path));
    p->part = mem_zalloc(1, sizeof(*p->part), MEM_CKPT);
    return p->path && p->part ? 0 : err_nomem(e, path);
}

/* Reads the checkpoint, whose first file is mapped. */
static int read_mapped(struct pack *p, struct folder in, struct err *e)
{
    struct reader r = {.p = p, .e = e};
    int rc;

    p->n_parts = 1;
    if ((rc = tensor_file_open_bytes(&p->tensors, p->part[0].bytes, p->part[0].len, in.path, e)) == 0) {
        p->tensors.kind = "gallop pack";
        rc = read_pack(&r, in);
    }
    p->files.member = r.member;
    mem_free(r.member_blob);
    return rc;
}

int pack_open(struct pack *p, struct folder in, struct err *e)
{
    char path[FOLDER_PATH_MAX];
    int rc;

    if ((rc = pack_init(p, in.path, e)) == 0 && (rc = folder_map(&p->part[0], path, in, NULL, e)) == 0)
        rc = read_mapped(p, in, e);
    if (rc)
        pack_close(p);
    return rc;
}

int pack_open_bytes(struct pack *p, const char *bytes, size_t len, const char *path, struct err *e)
{
    int rc = pack_init(p, path, e);

    p->borrowed = true;
    if (rc == 0) {
        p->part[0] = (struct map_file){.bytes = bytes, .len = len};
        rc = read_mapped(p, folder_at(path), e);
    }
    if (rc)
        pack_close(p);
    return rc;
}

int pack_prove(struct pack *p, struct pool *pool, struct err *e)
{
    int rc = 0;

    for (size_t i = p->borrowed; i < p->n_parts; i++)
        map_file_expect(&p->part[i]);
    for (size_t i = 0; i < p->tensors.n && rc == 0; i++)
        if (p->tensor[i].blob.bytes)
            rc = prove(p, &p->tensor[i].blob, p->tensors.tensor[i].name, pool, e);
    for (size_t i = 0; i < p->n_linears && rc == 0; i++)
        rc = prove(p, &p->linear[i].blob, p->linear[i].name, pool, e);
    for (size_t i = p->borrowed; i < p->n_parts && rc == 0; i++) {
        char name[FOLDER_PATH_MAX];

        snprintf(name, sizeof(name), i ? "%s.%zu" : "%s", p->path, i);
        if ((rc = map_file_check(&p->part[i], name, e)) == 0)
            map_file_trust(&p->part[i]);
    }
    return rc;
}

void pack_close(struct pack *p)
{
    tensor_file_close(&p->tensors);
    for (size_t i = p->borrowed; i < p->n_parts; i++)
        map_file_close(&p->part[i]);
    mem_free(p->part);
    mem_free((void *)(uintptr_t)p->files.member);
    mem_free(p->tensor);
    mem_free(p->linear);
    arena_fini(&p->arena);
    *p = (struct pack){.n_parts = 0};
}

const struct pack_tensor *pack_tensor_of(const struct pack *p, const struct view *v)
{
    ASSERT(v >= p->tensors.tensor && v < p->tensors.tensor + p->tensors.n);
    return &p->tensor[v - p->tensors.tensor];
}
