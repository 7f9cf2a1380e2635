/* read.c - makes views of the tensors in a pickled state dict.
 *
 * A file has one of two forms. Zip (torch 1.6 and later): the member data.pkl has the dict, the member data/KEY the
 * bytes of a storage. Stream (older versions, and the original GPT-2 file): five pickles (magic number, protocol,
 * system, the dict, the list of storage keys), then for each key an element count of eight bytes and the elements,
 * without padding. A view is made only if its last element is in the storage and the storage in the file. Several
 * tensors may share a storage. No bytes are copied. Format: torch/serialization.py, _save() and _legacy_save().
 */
#include "ckpt/torch/torch.h"

#include <inttypes.h>
#include <string.h>

#include "ckpt/little_endian.h"
#include "ckpt/tensor_file.h"
#include "ckpt/torch/unpickle.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

enum { PROTOCOL = 1001, MAX_KEY = 200 };

static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"; /* 0x1950a86a20f9469cfc6c */

struct reader {
    struct tensor_file *f;
    struct arena values;    /* memory of the pickled values */
    struct torch_zip zip;   /* zip form: the members with the storages */
    struct strmap dtypes;   /* stream form: key -> dtype, from the pickle */
    struct strmap storages; /* stream form: key -> offset of its element count in the file */
    size_t expanded_bytes;  /* total bytes of the views that repeat elements */
    struct err *e;
};

static int shown(size_t n)
{
    return n < MAX_KEY ? (int)n : MAX_KEY;
}

/* Sets *DATA to the BYTES bytes of storage S in the archive. NAME [name_len] is the tensor, for messages. */
static int zip_storage(const struct reader *r, const struct unpickle_storage *s, size_t bytes,
                       const char *name, size_t name_len, const char **data)
{
    const struct torch_zip_member *m;
    char member[MAX_KEY + 8] = "data/";
    int n = shown(s->key_len);

    memcpy(member + 5, s->key, (size_t)n);
    m = s->key_len <= MAX_KEY ? torch_zip_get(&r->zip, member, s->key_len + 5) : NULL;
    if (!m)
        return err_set(r->e, ERR_INPUT, "%s: tensor %.*s: storage data/%.*s is not in the archive",
                       r->f->path, shown(name_len), name, n, s->key);
    if (m->bytes != bytes)
        return err_set(r->e, ERR_INPUT,
                       "%s: tensor %.*s: storage data/%.*s has %zu bytes, its %zu elements of %s need %zu",
                       r->f->path, shown(name_len), name, n, s->key, m->bytes, s->n, dtype_name(s->dtype),
                       bytes);
    *data = m->data;
    return 0;
}

/* Sets *DATA to the elements of storage S in the stream. NAME [name_len] is the tensor, for messages. */
static int stream_storage(const struct reader *r, const struct unpickle_storage *s, const char *name,
                          size_t name_len, const char **data)
{
    uint64_t at, n;

    if (!strmap_get(&r->storages, s->key, s->key_len, &at))
        return err_set(r->e, ERR_INPUT, "%s: tensor %.*s: storage %.*s is missing after the pickle",
                       r->f->path, shown(name_len), name, shown(s->key_len), s->key);
    n = little_u64(r->f->map.bytes + at);
    if (n != s->n)
        return err_set(r->e, ERR_INPUT,
                       "%s: tensor %.*s: storage %.*s has %" PRIu64 " elements, the pickle says %zu",
                       r->f->path, shown(name_len), name, shown(s->key_len), s->key, n, s->n);
    *data = r->f->map.bytes + at + 8;
    return 0;
}

/* Returns whether all elements of T are inside its storage. Sets *ELEMENTS to their number. */
static bool fits(const struct unpickle_tensor *t, size_t *elements)
{
    size_t last = t->offset, step;

    if (!tensor_file_elements(t->shape, t->n_dims, elements))
        return false;
    if (*elements == 0)
        return true;
    for (int d = 0; d < t->n_dims; d++)
        if (__builtin_mul_overflow(t->shape[d] - 1, t->stride[d], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    return last < t->storage->view_n;
}

/* Adds the bytes of a view that repeats elements to the sum of all such views. The sum may not exceed the
 * size of the file, so that packing a small file cannot need much memory. */
static int charge_expansion(struct reader *r, const struct unpickle_tensor *t, size_t elements,
                            const char *name, int n)
{
    size_t bytes =
        elements * dtype_bytes(t->storage->dtype); /* tensor_file_elements() has checked this product */

    if (elements <= t->storage->view_n)
        return 0;
    if (bytes > r->f->map.len || r->expanded_bytes > r->f->map.len - bytes)
        return err_set(r->e, ERR_UNSUPPORTED,
                       "%s: tensor %.*s repeats a storage of %zu elements to %zu, more than the whole file",
                       r->f->path, n, name, t->storage->view_n, elements);
    r->expanded_bytes += bytes;
    return 0;
}

static int add_tensor(struct reader *r, const char *name, size_t name_len, const struct unpickle_tensor *t)
{
    const struct unpickle_storage *s = t->storage;
    struct view v = {.dtype = s->dtype, .n_dims = t->n_dims};
    size_t elements, bytes;
    const char *data = NULL;
    char shape[256];
    int rc;

    memcpy(v.shape, t->shape, sizeof(v.shape));
    memcpy(v.stride, t->stride, sizeof(v.stride));
    if (!fits(t, &elements))
        return err_set(
            r->e, ERR_INPUT,
            "%s: tensor %.*s: shape %s with its strides at offset %zu exceeds its storage of %zu elements",
            r->f->path, shown(name_len), name, view_shape_text(&v, shape, sizeof(shape)), t->offset,
            s->view_n);
    if (__builtin_mul_overflow(s->n, dtype_bytes(s->dtype), &bytes))
        return err_set(r->e, ERR_INPUT,
                       "%s: the storage of tensor %.*s has more elements than an address can count",
                       r->f->path, shown(name_len), name);
    rc = r->zip.n ? zip_storage(r, s, bytes, name, name_len, &data)
                  : stream_storage(r, s, name, name_len, &data);
    if (rc != 0 || (rc = charge_expansion(r, t, elements, name, shown(name_len))) != 0)
        return rc;
    v.data = data + (s->first + (elements ? t->offset : 0)) * dtype_bytes(s->dtype);
    return tensor_file_add(r->f, name, name_len, v, r->e);
}

static bool has_tensors(const struct unpickle_value *dict)
{
    for (size_t i = 0; i < dict->n; i += 2)
        if (dict->u.item[i + 1]->kind == UNPICKLE_TENSOR)
            return true;
    return false;
}

/* Returns the state dict of a pickled object: the object itself, or its member "state_dict" or "model". NULL:
 * the object is not a dict. */
static const struct unpickle_value *find_dict(const struct unpickle_value *v)
{
    static const char *const member[] = {"state_dict", "model"};

    if (v->kind != UNPICKLE_DICT || has_tensors(v))
        return v->kind == UNPICKLE_DICT ? v : NULL;
    for (size_t i = 0; i < sizeof(member) / sizeof(member[0]); i++) {
        const struct unpickle_value *inner = torch_dict_get(v, member[i]);
        if (inner && inner->kind == UNPICKLE_DICT && has_tensors(inner))
            return inner;
    }
    return v;
}

static int add_dict(struct reader *r, const struct unpickle_value *object)
{
    const struct unpickle_value *dict = find_dict(object);

    if (!dict)
        return err_set(r->e, ERR_INPUT, "%s: the object in this file is not a dict of tensors", r->f->path);
    for (size_t i = 0; i < dict->n; i += 2) {
        const struct unpickle_value *key = dict->u.item[i], *value = dict->u.item[i + 1];
        int rc;

        if (key->kind != UNPICKLE_STR || value->kind != UNPICKLE_TENSOR)
            continue;
        if ((rc = add_tensor(r, key->u.s, key->n, value->u.tensor)) != 0)
            return rc;
    }
    return tensor_file_seal(r->f, r->e);
}

static int read_zip(struct reader *r)
{
    struct tensor_file *f = r->f;
    const struct torch_zip_member *pickle, *order;
    struct unpickle u;
    int rc;

    f->kind = "torch zip";
    if ((rc = torch_zip_open(&r->zip, f->map.bytes, f->map.len, f->path, r->e)) != 0)
        return rc;
    if (!(pickle = torch_zip_get(&r->zip, "data.pkl", 8)))
        return err_set(r->e, ERR_INPUT, "%s: the archive has no data.pkl: torch did not write it", f->path);
    order = torch_zip_get(&r->zip, "byteorder", 9);
    if (order && (order->bytes != 6 || memcmp(order->data, "little", 6) != 0))
        return err_set(r->e, ERR_UNSUPPORTED, "%s: the byte order of this file is not \"little\"", f->path);
    if ((rc = unpickle_run(&u, pickle->data, pickle->bytes, &r->values, f->path, "data.pkl", r->e)) != 0)
        return rc;
    return add_dict(r, u.object);
}

/* Runs the pickle at offset *AT of the stream, and advances *AT past it. */
static int next_pickle(struct reader *r, size_t *at, const char *what, struct unpickle *u)
{
    struct tensor_file *f = r->f;
    int rc = unpickle_run(u, f->map.bytes + *at, f->map.len - *at, &r->values, f->path, what, r->e);

    *at += u->bytes;
    return rc;
}

static int read_stream_head(struct reader *r, size_t *at)
{
    const struct unpickle_value *v;
    struct unpickle u;
    int rc;

    if ((rc = next_pickle(r, at, "the magic number", &u)) != 0)
        return rc;
    v = u.object;
    if (v->kind != UNPICKLE_BIG || v->n != sizeof(magic) - 1 || memcmp(v->u.s, magic, v->n) != 0)
        return err_set(r->e, ERR_INPUT,
                       "%s: this is a pickle, but it does not begin with torch's magic number", r->f->path);
    if ((rc = next_pickle(r, at, "the protocol number", &u)) != 0)
        return rc;
    if (u.object->kind != UNPICKLE_INT || u.object->u.i != PROTOCOL)
        return err_set(r->e, ERR_UNSUPPORTED, "%s: the protocol of this file is not %d", r->f->path,
                       PROTOCOL);
    if ((rc = next_pickle(r, at, "the system description", &u)) != 0)
        return rc;
    v = u.object->kind == UNPICKLE_DICT ? torch_dict_get(u.object, "little_endian") : NULL;
    if (!v || v->kind != UNPICKLE_BOOL || !v->u.i)
        return err_set(r->e, ERR_UNSUPPORTED, "%s: the byte order of this file is not little endian",
                       r->f->path);
    return 0;
}

/* Records the dtype of every storage, because the stream has only element counts. */
static int collect_dtypes(struct reader *r, const struct unpickle_storage *s)
{
    for (; s; s = s->older) {
        uint64_t dtype = s->dtype;
        int put;

        if (s->key_len > MAX_KEY)
            return err_set(r->e, ERR_INPUT, "%s: the key of a storage has %zu bytes, which is too long",
                           r->f->path, s->key_len);
        put = strmap_put(&r->dtypes, s->key, s->key_len, s->dtype);
        if (put < 0)
            return err_nomem(r->e, r->f->path);
        if (put == 0 && strmap_get(&r->dtypes, s->key, s->key_len, &dtype) && dtype != s->dtype)
            return err_set(r->e, ERR_INPUT, "%s: storage %.*s is used with two element types", r->f->path,
                           shown(s->key_len), s->key);
    }
    return 0;
}

/* Records the storage KEY at offset *AT, and advances *AT past it. */
static int read_storage(struct reader *r, const struct unpickle_value *key, size_t *at)
{
    const char *path = r->f->path;
    size_t left = r->f->map.len - *at, bytes;
    uint64_t dtype, n;
    int put;

    if (key->kind != UNPICKLE_STR || !strmap_get(&r->dtypes, key->u.s, key->n, &dtype))
        return err_set(r->e, ERR_INPUT, "%s: the list of storages has a key that no tensor uses", path);
    if (left < 8)
        return err_set(r->e, ERR_INPUT, "%s: the file ends before storage %.*s", path, shown(key->n),
                       key->u.s);
    n = little_u64(r->f->map.bytes + *at);
    if (__builtin_mul_overflow(n, dtype_bytes((enum dtype)dtype), &bytes) || bytes > left - 8)
        return err_set(r->e, ERR_INPUT,
                       "%s: storage %.*s has %" PRIu64 " elements of %s, %zu bytes are left in the file",
                       path, shown(key->n), key->u.s, n, dtype_name((enum dtype)dtype), left - 8);
    put = strmap_put(&r->storages, key->u.s, key->n, *at);
    if (put < 0)
        return err_nomem(r->e, path);
    if (put == 0)
        return err_set(r->e, ERR_INPUT, "%s: storage %.*s appears twice", path, shown(key->n), key->u.s);
    *at += 8 + bytes;
    return 0;
}

static int read_stream(struct reader *r)
{
    const struct unpickle_value *list;
    struct unpickle dict, keys;
    size_t at = 0;
    int rc;

    r->f->kind = "torch stream";
    if ((rc = read_stream_head(r, &at)) != 0 || (rc = next_pickle(r, &at, "the state dict", &dict)) != 0 ||
        (rc = next_pickle(r, &at, "the list of storages", &keys)) != 0 ||
        (rc = collect_dtypes(r, dict.newest)) != 0)
        return rc;
    list = keys.object;
    if (list->kind != UNPICKLE_LIST)
        return err_set(r->e, ERR_INPUT, "%s: the list of storages is not a list", r->f->path);
    for (size_t i = 0; i < list->n; i++)
        if ((rc = read_storage(r, list->u.item[i], &at)) != 0)
            return rc;
    if (at != r->f->map.len)
        return err_set(r->e, ERR_INPUT, "%s: %zu bytes follow the last storage", r->f->path,
                       r->f->map.len - at);
    return add_dict(r, dict.object);
}

int torch_read(struct tensor_file *f, struct err *e)
{
    struct reader r = {.f = f, .e = e};
    int rc;

    arena_init(&r.values, MEM_CKPT);
    strmap_init(&r.dtypes, MEM_CKPT);
    strmap_init(&r.storages, MEM_CKPT);
    if (torch_zip_is(f->map.bytes, f->map.len))
        rc = read_zip(&r);
    else if (f->map.len >= 2 && (unsigned char)f->map.bytes[0] == 0x80)
        rc = read_stream(&r);
    else
        rc = err_set(e, ERR_INPUT, "%s: this is neither a zip archive nor a stream of torch.save", f->path);
    arena_fini(&r.values);
    torch_zip_close(&r.zip);
    strmap_fini(&r.dtypes);
    strmap_fini(&r.storages);
    return rc;
}
