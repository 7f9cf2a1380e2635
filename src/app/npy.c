/* npy.c - writes and reads .npy. */
#include "app/npy.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"

enum { PREFIX = 10, ALIGN = 64 };

int npy_create(struct output *out, const char *path, const size_t *shape, int n_dims, struct err *e)
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
    if ((rc = output_open(out, path, true, e)) == 0 && (rc = output_write(out, prefix, PREFIX, e)) == 0)
        rc = output_write(out, head, total, e);
    return rc;
}

int npy_read(const char *path, float **x, size_t *count, struct err *e)
{
    struct map_file m;
    size_t head;
    int rc = map_file_open(&m, path, e);

    *x = NULL;
    if (rc)
        return rc;
    head = m.len >= PREFIX
               ? PREFIX + (size_t)(unsigned char)m.bytes[8] + ((size_t)(unsigned char)m.bytes[9] << 8)
               : 0;
    if (m.len < PREFIX || memcmp(m.bytes, "\x93NUMPY\x01", 7) != 0 || head > m.len)
        rc = err_set(e, ERR_INPUT, "%s: this is not a .npy file of version 1", path);
    else if (!memmem(m.bytes, head, "'<f4'", 5) || memmem(m.bytes, head, "'fortran_order': True", 21) ||
             (m.len - head) % 4)
        rc = err_set(e, ERR_INPUT, "%s: a little-endian float32 array in C order is expected", path);
    if (rc == 0) {
        *count = (m.len - head) / 4;
        *x = mem_alloc(m.len - head, MEM_APP);
        if (*x)
            memcpy(*x, m.bytes + head, m.len - head);
        else
            rc = err_nomem(e, path);
    }
    map_file_close(&m);
    return rc;
}
