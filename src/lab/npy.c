/* npy.c - writes and reads .npy files. */
#include <stdbool.h>
#include <string.h>

#include "app/input.h"
#include "app/save.h"
#include "base/buf.h"
#include "base/mem.h"
#include "lab/npy.h"

enum { PREFIX = 10, ALIGN = 64 };

int npy_create(struct save *out, const char *path, const size_t *shape, int n_dims, struct err *e)
{
    char head[256] = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
    size_t len = strlen(head), total;
    unsigned char prefix[PREFIX] = "\x93NUMPY\x01";
    int rc;

    for (int d = 0; d < n_dims; d++)
        len +=
            (size_t)snprintf(head + len, sizeof(head) - len, "%zu,%s", shape[d], d + 1 < n_dims ? " " : "");
    len += (size_t)snprintf(head + len, sizeof(head) - len, "), }");
    total = (PREFIX + len + 1 + ALIGN - 1) / ALIGN * ALIGN - PREFIX;
    memset(head + len, ' ', total - len - 1);
    head[total - 1] = '\n';
    prefix[8] = (unsigned char)(total & 255);
    prefix[9] = (unsigned char)(total >> 8);
    if ((rc = save_open(out, path, true, e)) == 0 && (rc = save_write(out, prefix, PREFIX, e)) == 0)
        rc = save_write(out, head, total, e);
    return rc;
}

/* ---- reading ---- */

/* A parser of the header, which is the text of a Python dictionary with exactly three keys. */
struct header {
    const char *path, *p, *end;
    struct npy_array *out;
    struct err *e;
};

static void skip_blanks(struct header *h)
{
    while (h->p < h->end && (*h->p == ' ' || *h->p == '\n'))
        h->p++;
}

/* Skips blanks and then WORD. Returns false if other text follows the blanks. */
static bool npy_take(struct header *h, const char *word)
{
    size_t n = strlen(word);

    skip_blanks(h);
    if ((size_t)(h->end - h->p) < n || memcmp(h->p, word, n) != 0)
        return false;
    h->p += n;
    return true;
}

/* Reads a quoted string into out[size]. Returns false if there is no string or it does not fit. */
static bool take_string(struct header *h, char *out, size_t size)
{
    char quote = npy_take(h, "'") ? '\'' : npy_take(h, "\"") ? '"' : 0;
    const char *close = quote ? memchr(h->p, quote, (size_t)(h->end - h->p)) : NULL;

    if (!close || (size_t)(close - h->p) >= size)
        return false;
    memcpy(out, h->p, (size_t)(close - h->p));
    out[close - h->p] = 0;
    h->p = close + 1;
    return true;
}

static bool take_number(struct header *h, size_t *out)
{
    const char *begin;

    skip_blanks(h);
    begin = h->p;
    for (*out = 0; h->p < h->end && *h->p >= '0' && *h->p <= '9'; h->p++)
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, (size_t)(*h->p - '0'), out))
            return false;
    return h->p > begin;
}

/* Reads a shape as Python writes tuples: "(3, 4)", "(4,)" or "()". */
static int read_shape(struct header *h)
{
    struct npy_array *a = h->out;
    bool comma = true;

    a->count = 1;
    if (!npy_take(h, "("))
        return err_set(h->e, ERR_INPUT, "%s: the shape in the header is not a tuple of integers", h->path);
    for (; !npy_take(h, ")"); a->n_dims++) {
        if (a->n_dims == NPY_MAX_DIMS)
            return err_set(h->e, ERR_INPUT, "%s: the shape has more than %d dimensions", h->path,
                           NPY_MAX_DIMS);
        if (!comma || !take_number(h, &a->shape[a->n_dims]))
            return err_set(h->e, ERR_INPUT, "%s: the shape in the header is not a tuple of integers",
                           h->path);
        if (__builtin_mul_overflow(a->count, a->shape[a->n_dims], &a->count) || a->count > SIZE_MAX / 4)
            return err_set(h->e, ERR_INPUT, "%s: the number of elements in the shape overflows", h->path);
        comma = npy_take(h, ",");
    }
    if (a->n_dims == 1 && !comma)
        return err_set(h->e, ERR_INPUT, "%s: the shape in the header is not a tuple of integers", h->path);
    return 0;
}

/* Reads the value of KEY, "shape", "descr" or "fortran_order", and checks that the array is supported. */
static int read_value(struct header *h, const char *key)
{
    char text[64];

    if (strcmp(key, "shape") == 0)
        return read_shape(h);
    if (strcmp(key, "descr") == 0) {
        if (take_string(h, text, sizeof(text)) && strcmp(text, "<f4") == 0)
            return 0;
        return err_set(h->e, ERR_INPUT, "%s: the header's descr is not '<f4' (little-endian float32)",
                       h->path);
    }
    if (npy_take(h, "False"))
        return 0;
    return err_set(h->e, ERR_INPUT, "%s: the header's fortran_order is not False (C order)", h->path);
}

static int read_header(struct header *h)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    bool seen[3] = {0}, more = true;
    char key[32];
    int rc, k;

    if (!npy_take(h, "{"))
        return err_set(h->e, ERR_INPUT, "%s: the header does not begin with {", h->path);
    while (!npy_take(h, "}")) {
        if (!more || !take_string(h, key, sizeof(key)) || !npy_take(h, ":"))
            return err_set(h->e, ERR_INPUT, "%s: the header is not a Python dictionary", h->path);
        for (k = 0; k < 3 && strcmp(key, keys[k]) != 0;)
            k++;
        if (k == 3 || seen[k])
            return err_set(h->e, ERR_INPUT, "%s: the header has %s key %s", h->path,
                           k < 3 ? "a repeated" : "an unknown", key);
        seen[k] = true;
        if ((rc = read_value(h, key)) != 0)
            return rc;
        more = npy_take(h, ",");
    }
    for (k = 0; k < 3; k++)
        if (!seen[k])
            return err_set(h->e, ERR_INPUT, "%s: the header has no %s", h->path, keys[k]);
    skip_blanks(h);
    if (h->p != h->end || h->end[-1] != '\n')
        return err_set(h->e, ERR_INPUT, "%s: the header does not end with }, blanks and a new line", h->path);
    return 0;
}

static int read_array(const char *path, const struct buf *file, struct npy_array *out, struct err *e)
{
    size_t len =
        file->len >= PREFIX ? (unsigned char)file->data[8] | (size_t)(unsigned char)file->data[9] << 8 : 0;
    struct header h = {.path = path, .out = out, .e = e};
    int rc;

    if (file->len < PREFIX || memcmp(file->data, "\x93NUMPY\x01", 8) != 0)
        return err_set(e, ERR_INPUT, "%s: this is not a .npy file of version 1.0", path);
    if (len > file->len - PREFIX)
        return err_set(e, ERR_INPUT, "%s: the header announces %zu bytes, but the file has only %zu", path,
                       len, file->len);
    h.p = file->data + PREFIX;
    h.end = h.p + len;
    if ((rc = read_header(&h)) != 0)
        return rc;
    if (out->count * sizeof(float) != file->len - PREFIX - len)
        return err_set(e, ERR_INPUT, "%s: the file has %zu bytes of data, but its shape needs %zu", path,
                       file->len - PREFIX - len, out->count * sizeof(float));
    out->x = mem_zalloc(out->count + 1, sizeof(float), MEM_APP);
    if (!out->x)
        return err_nomem(e, path);
    memcpy(out->x, h.end, out->count * sizeof(float));
    return 0;
}

int npy_read(const char *path, struct npy_array *out, struct err *e)
{
    struct buf file;
    int rc;

    *out = (struct npy_array){0};
    buf_init(&file, MEM_APP);
    if ((rc = input_file(path, &file, e)) == 0)
        rc = read_array(path, &file, out, e);
    buf_fini(&file);
    return rc;
}

const char *npy_shape_text(const struct npy_array *a, char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "[");

    for (int d = 0; d < a->n_dims && len < size; d++)
        len += (size_t)snprintf(out + len, size - len, d ? ", %zu" : "%zu", a->shape[d]);
    if (len < size)
        snprintf(out + len, size - len, "]");
    return out;
}
