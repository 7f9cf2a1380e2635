/* tensor_file.c - the parts that tensor files of all formats share: the map, the names, the index. */
#include "ckpt/tensor_file.h"

#include <string.h>

#include "base/utf8.h"

static int file_init(struct tensor_file *f, const char *path, struct err *e)
{
    *f = (struct tensor_file){0};
    arena_init(&f->arena, MEM_CKPT);
    strmap_init(&f->index, MEM_CKPT);
    f->path = arena_strndup(&f->arena, path, strlen(path));
    return f->path ? 0 : err_nomem(e, path);
}

int tensor_file_open(struct tensor_file *f, struct folder in, const char *file, struct err *e)
{
    char path[FOLDER_PATH_MAX];
    struct map_file map;
    int rc = folder_map(&map, path, in, file, e);

    *f = (struct tensor_file){0};
    if (rc)
        return rc;
    rc = file_init(f, path, e);
    f->map = map;
    if (rc)
        tensor_file_close(f);
    return rc;
}

int tensor_file_open_bytes(struct tensor_file *f, const char *bytes, size_t len, const char *path,
                           struct err *e)
{
    int rc = file_init(f, path, e);

    if (rc != 0) {
        tensor_file_close(f);
        return rc;
    }
    f->map = (struct map_file){.bytes = bytes, .len = len};
    f->borrowed = true;
    return 0;
}

int tensor_file_checked(const struct tensor_file *f, size_t n, int rc, struct err *e)
{
    int changed = 0;

    for (size_t i = 0; i < n && !changed; i++)
        if (f[i].map.bytes && !f[i].borrowed)
            changed = map_file_check(&f[i].map, f[i].path, e);
    return changed ? changed : rc;
}

void tensor_file_let_go(struct tensor_file *f)
{
    for (size_t i = 0; i < f->n; i++)
        f->tensor[i].data = NULL;
    if (!f->borrowed)
        map_file_close(&f->map);
    f->map = (struct map_file){0};
}

void tensor_file_close(struct tensor_file *f)
{
    tensor_file_let_go(f);
    mem_free(f->tensor);
    strmap_fini(&f->index);
    arena_fini(&f->arena);
    *f = (struct tensor_file){0};
}

bool tensor_file_elements(const size_t *shape, int n_dims, size_t *n)
{
    size_t bytes = 8; /* the size of the largest element type */

    *n = 1;
    for (int d = 0; d < n_dims; d++) {
        if (__builtin_mul_overflow(bytes, shape[d] ? shape[d] : 1, &bytes))
            return false;
        *n *= shape[d];
    }
    return true;
}

int tensor_file_add(struct tensor_file *f, const char *name, size_t len, struct view v, struct err *e)
{
    if (utf8_valid_prefix(name, len) != len)
        return err_set(e, ERR_INPUT, "%s: the name of tensor %zu is not UTF-8", f->path, f->n);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return err_set(e, ERR_INPUT, "%s: the name of tensor %zu has a control character", f->path, f->n);
    if (len > UINT32_MAX)
        return err_set(e, ERR_INPUT, "%s: the name of tensor %zu has %zu bytes", f->path, f->n, len);
    v.file = f->path;
    v.name = arena_strndup(&f->arena, name, len);
    if (!v.name || !mem_grow((void **)&f->tensor, &f->cap, f->n + 1, sizeof(*f->tensor), MEM_CKPT))
        return err_nomem(e, f->path);
    f->tensor[f->n++] = v;
    return 0;
}

int tensor_file_seal(struct tensor_file *f, struct err *e)
{
    if (!strmap_reserve(&f->index, f->n))
        return err_nomem(e, f->path);
    for (size_t i = 0; i < f->n; i++) {
        const char *name = f->tensor[i].name;
        int put = strmap_put(&f->index, name, strlen(name), i);

        if (put < 0)
            return err_nomem(e, f->path);
        if (put == 0)
            return err_set(e, ERR_INPUT, "%s: tensor %.300s appears twice", f->path, name);
    }
    return 0;
}

const struct view *tensor_file_get(const struct tensor_file *f, const char *name, size_t len)
{
    uint64_t at;

    return strmap_get(&f->index, name, len, &at) ? &f->tensor[at] : NULL;
}
