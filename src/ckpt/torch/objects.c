/* objects.c - makes tensors, storages and ordered dicts from the arguments in a torch pickle.
 *
 * A pickle may name only the objects in the table below. This file checks the kinds and signs of arguments;
 * read.c checks that a tensor is inside its storage. Format: torch/_utils.py (_rebuild_*),
 * torch/serialization.py (persistent ids).
 */
#include "base/arena.h"
#include "ckpt/torch/torch.h"
#include "ckpt/torch/unpickle.h"
#include "tensor/dtype.h"

#include <string.h>

enum object { ORDERED_DICT, SIZE, TENSOR, PARAMETER, STORAGE };

static const struct {
    const char *module, *name;
    enum object what;
    enum dtype dtype; /* the element type of a storage */
} allowed[] = {
    {"collections", "OrderedDict", ORDERED_DICT, DT_N},
    {"torch", "Size", SIZE, DT_N},
    {"torch._utils", "_rebuild_tensor_v2", TENSOR, DT_N},
    {"torch._utils", "_rebuild_tensor", TENSOR, DT_N},
    {"torch._utils", "_rebuild_parameter", PARAMETER, DT_N},
    {"torch", "FloatStorage", STORAGE, DT_F32},
    {"torch", "HalfStorage", STORAGE, DT_F16},
    {"torch", "BFloat16Storage", STORAGE, DT_BF16},
    {"torch", "DoubleStorage", STORAGE, DT_F64},
    {"torch", "LongStorage", STORAGE, DT_I64},
    {"torch", "IntStorage", STORAGE, DT_I32},
    {"torch", "ShortStorage", STORAGE, DT_I16},
    {"torch", "CharStorage", STORAGE, DT_I8},
    {"torch", "ByteStorage", STORAGE, DT_U8},
    {"torch", "BoolStorage", STORAGE, DT_BOOL},
};
enum { N_ALLOWED = sizeof(allowed) / sizeof(allowed[0]) };

int64_t torch_object_find(const char *module, size_t n_module, const char *name, size_t n_name)
{
    for (int i = 0; i < N_ALLOWED; i++)
        if (strlen(allowed[i].module) == n_module && memcmp(allowed[i].module, module, n_module) == 0 &&
            strlen(allowed[i].name) == n_name && memcmp(allowed[i].name, name, n_name) == 0)
            return i;
    return -1;
}

static bool value_is(const struct unpickle_value *v, const char *text)
{
    return v->kind == UNPICKLE_STR && v->n == strlen(text) && memcmp(v->u.s, text, v->n) == 0;
}

struct unpickle_value *torch_dict_get(const struct unpickle_value *dict, const char *key)
{
    /* searches from the end, because the last of equal keys counts in Python */
    for (size_t i = dict->n; i >= 2; i -= 2)
        if (value_is(dict->u.item[i - 2], key))
            return dict->u.item[i - 1];
    return NULL;
}

static bool as_size(const struct unpickle_value *v, size_t *n)
{
    if (v->kind != UNPICKLE_INT || v->u.i < 0)
        return false;
    *n = (size_t)v->u.i;
    return true;
}

static bool is_sequence(const struct unpickle_value *v)
{
    return v->kind == UNPICKLE_TUPLE || v->kind == UNPICKLE_LIST;
}

/* Allocates a value of KIND, and a body of BYTES zeroed bytes in *BODY. */
static struct unpickle_value *make(struct arena *a, enum unpickle_kind kind, size_t bytes, void **body)
{
    struct unpickle_value *v = arena_zalloc(a, 1, sizeof(*v));

    *body = v ? arena_zalloc(a, 1, bytes) : NULL;
    if (!*body)
        return NULL;
    v->kind = kind;
    return v;
}

/* Reads the last member of an old persistent id: (view key, first, count), which selects a part of the storage. */
static bool read_view(const struct unpickle_value *v, struct unpickle_storage *s)
{
    if (v->kind == UNPICKLE_NONE)
        return true;
    if (v->kind != UNPICKLE_TUPLE || v->n != 3 || !as_size(v->u.item[1], &s->first) ||
        !as_size(v->u.item[2], &s->view_n) || s->first > s->n)
        return false;
    if (s->view_n > s->n - s->first)
        s->view_n = s->n - s->first; /* clipped like a Python slice */
    return true;
}

/* Makes a storage. ID is the tuple ("storage", storage class, key, device, elements[, view]). */
struct unpickle_value *torch_object_storage(const struct unpickle_value *id, struct arena *a,
                                            const char **why)
{
    struct unpickle_value *v, **x = id->u.item;
    struct unpickle_storage s = {0};
    void *body;

    *why = "the persistent id does not name a torch storage";
    if (id->kind != UNPICKLE_TUPLE || id->n < 5 || id->n > 6 || !value_is(x[0], "storage") ||
        x[1]->kind != UNPICKLE_GLOBAL || allowed[x[1]->u.i].what != STORAGE || x[2]->kind != UNPICKLE_STR ||
        x[3]->kind != UNPICKLE_STR || !as_size(x[4], &s.n))
        return NULL;
    s.key = x[2]->u.s;
    s.key_len = x[2]->n;
    s.dtype = allowed[x[1]->u.i].dtype;
    s.view_n = s.n;
    if (id->n == 6 && !read_view(x[5], &s))
        return NULL;
    *why = NULL;
    if ((v = make(a, UNPICKLE_STORAGE, sizeof(s), &body))) {
        v->u.storage = body;
        *v->u.storage = s;
    }
    return v;
}

/* Makes a tensor. ARGS is the tuple (storage, offset, shape, strides, ...); further arguments are ignored. */
static struct unpickle_value *make_tensor(const struct unpickle_value *args, struct arena *a,
                                          const char **why)
{
    struct unpickle_value *v, **x = args->u.item;
    struct unpickle_tensor t = {0};
    void *body;

    *why = "the arguments of a tensor are invalid";
    if (args->n < 4 || x[0]->kind != UNPICKLE_STORAGE || !as_size(x[1], &t.offset) || !is_sequence(x[2]) ||
        !is_sequence(x[3]) || x[2]->n != x[3]->n)
        return NULL;
    if (x[2]->n > VIEW_MAX_DIMS) {
        *why = "a tensor has more dimensions than are supported";
        return NULL;
    }
    for (size_t d = 0; d < x[2]->n; d++)
        if (!as_size(x[2]->u.item[d], &t.shape[d]) || !as_size(x[3]->u.item[d], &t.stride[d]))
            return NULL;
    t.n_dims = (int)x[2]->n;
    t.storage = x[0]->u.storage;
    *why = NULL;
    if ((v = make(a, UNPICKLE_TENSOR, sizeof(t), &body))) {
        v->u.tensor = body;
        *v->u.tensor = t;
    }
    return v;
}

/* Makes an OrderedDict. ARGS is () or, as Python 2 wrote it, a tuple of one list of pairs. */
static struct unpickle_value *make_dict(const struct unpickle_value *args, struct arena *a, const char **why)
{
    const struct unpickle_value *list = args->n ? args->u.item[0] : NULL;
    size_t n = list ? list->n : 0;
    struct unpickle_value *v;
    void *body;

    *why = "the argument of OrderedDict is not a list of pairs";
    if (args->n > 1 || (list && !is_sequence(list)))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!is_sequence(list->u.item[i]) || list->u.item[i]->n != 2)
            return NULL;
    *why = NULL;
    if (!(v = make(a, UNPICKLE_DICT, 2 * n * sizeof(*v->u.item), &body)))
        return NULL;
    v->u.item = body;
    v->n = v->cap = 2 * n;
    for (size_t i = 0; i < n; i++)
        memcpy(v->u.item + 2 * i, list->u.item[i]->u.item, 2 * sizeof(*v->u.item));
    return v;
}

size_t torch_object_cost(int64_t row, const struct unpickle_value *args)
{
    bool listed = allowed[row].what == ORDERED_DICT && args->n && is_sequence(args->u.item[0]);

    return listed ? 1 + args->u.item[0]->n : 1;
}

struct unpickle_value *torch_object_call(int64_t row, const struct unpickle_value *args, struct arena *a,
                                         const char **why)
{
    struct unpickle_value *first = args->n ? args->u.item[0] : NULL;

    switch (allowed[row].what) {
    case TENSOR: return make_tensor(args, a, why);
    case ORDERED_DICT: return make_dict(args, a, why);
    case PARAMETER: /* ARGS is (tensor, requires_grad, hooks) */
        *why = "the argument of a parameter is not a tensor";
        return first && first->kind == UNPICKLE_TENSOR ? first : NULL;
    case SIZE: /* ARGS is (sequence) */
        *why = "the argument of Size is not a sequence";
        return first && is_sequence(first) ? first : NULL;
    case STORAGE: break;
    }
    *why = "a storage class cannot be called";
    return NULL;
}
