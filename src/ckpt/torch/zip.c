/* zip.c - reads the central directory of a zip archive, including zip64, and checks the position of each stored member.
 *
 * torch never compresses members, so nothing is decompressed, and no size in the archive leads to an allocation. Memory
 * grows with the directory entries that the file really has. Sizes are read from the central directory, because torch
 * leaves them empty in the local headers. The offset of the data follows from the lengths of name and extra field in
 * the local header. Format: PKWARE APPNOTE 6.3, sections 4.3.7 (local), 4.3.12 (central), 4.3.14-16 (ends).
 */
#include "ckpt/torch/torch.h"

#include <string.h>

#include "ckpt/little_endian.h"

enum {
    LOCAL_SIG = 0x04034b50,
    CENTRAL_SIG = 0x02014b50,
    END_SIG = 0x06054b50,
    END64_SIG = 0x06064b50,
    LOC64_SIG = 0x07064b50,
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOC64_BYTES = 20,
    MAX_COMMENT = 65535,
    ZIP64_EXTRA = 1,
    FLAG_ENCRYPTED = 1,
};

struct reader {
    struct torch_zip *z;
    const char *bytes, *path;
    size_t len;
    uint64_t dir_at, dir_bytes, n_members; /* the central directory */
    const char *top;                       /* the top folder of all members, with its '/' */
    size_t top_len;
    struct err *e;
};

/* An entry of the central directory. */
struct entry {
    const char *name;
    size_t name_len;
    uint64_t packed, bytes, local_at;
    unsigned flags, method, disk;
};

bool torch_zip_is(const char *bytes, size_t len)
{
    return len >= 4 && little_u32(bytes) == LOCAL_SIG;
}

/* Returns the end record, which only a comment may follow. NULL: the file has no end record. */
static const char *find_end(const struct reader *r)
{
    size_t furthest = END_BYTES + MAX_COMMENT;

    for (size_t back = END_BYTES; back <= r->len && back <= furthest; back++) {
        const char *p = r->bytes + r->len - back;
        if (little_u32(p) == END_SIG && little_u16(p + 20) == back - END_BYTES)
            return p;
    }
    return NULL;
}

static int bad(const struct reader *r, const char *what)
{
    return err_set(r->e, ERR_INPUT, "%s: the zip archive is damaged: %s", r->path, what);
}

/* Reads the zip64 end record, if its locator precedes END. Its numbers replace the numbers in the record END. */
static int read_end64(struct reader *r, const char *end)
{
    size_t end_at = (size_t)(end - r->bytes);
    const char *p = end - LOC64_BYTES;
    uint64_t at;

    if (end_at < LOC64_BYTES || little_u32(p) != LOC64_SIG)
        return 0;
    at = little_u64(p + 8);
    if (end_at - LOC64_BYTES < END64_BYTES || at > end_at - LOC64_BYTES - END64_BYTES)
        return bad(r, "its zip64 end record lies outside the file");
    p = r->bytes + at;
    if (little_u32(p) != END64_SIG)
        return bad(r, "its zip64 locator does not point to a zip64 end record");
    if (little_u32(p + 16) != 0 || little_u32(p + 20) != 0)
        return bad(r, "it is one of several parts");
    r->n_members = little_u64(p + 32);
    r->dir_bytes = little_u64(p + 40);
    r->dir_at = little_u64(p + 48);
    return 0;
}

static int read_end(struct reader *r)
{
    const char *end = find_end(r);
    int rc;

    if (!end)
        return bad(r, "it has no end record (the file is cut off)");
    r->n_members = little_u16(end + 10);
    r->dir_bytes = little_u32(end + 12);
    r->dir_at = little_u32(end + 16);
    if ((rc = read_end64(r, end)) != 0)
        return rc;
    if (little_u16(end + 4) != 0 && little_u16(end + 4) != 0xffff)
        return bad(r, "it is one of several parts");
    if (r->dir_at > r->len || r->dir_bytes > r->len - r->dir_at)
        return bad(r, "its directory lies outside the file");
    return 0;
}

/* Replaces the fields of T that are UINT32_MAX by the values in the zip64 extra field. */
static int read_zip64_extra(const struct reader *r, struct entry *t, const char *p, size_t left)
{
    uint64_t *const field[3] = {&t->bytes, &t->packed, &t->local_at}; /* in the order of the extra field */
    size_t size;

    for (; left >= 4; p += size, left -= size) {
        size = little_u16(p + 2) + (size_t)4;
        if (size > left)
            return bad(r, "an extra field is longer than its entry");
        if (little_u16(p) != ZIP64_EXTRA)
            continue;
        for (size_t i = 0, at = 4; i < 3; i++) {
            if (*field[i] != UINT32_MAX)
                continue;
            if (at + 8 > size)
                return bad(r, "a zip64 field is too short");
            *field[i] = little_u64(p + at);
            at += 8;
        }
        return 0;
    }
    return 0;
}

/* Reads the directory entry at *P and advances *P past it. */
static int read_central(const struct reader *r, const char **p, size_t *left, struct entry *t)
{
    size_t name, extra, comment, size;
    const char *c = *p;

    if (*left < CENTRAL_BYTES || little_u32(c) != CENTRAL_SIG)
        return bad(r, "its directory ends too early");
    name = little_u16(c + 28);
    extra = little_u16(c + 30);
    comment = little_u16(c + 32);
    size = CENTRAL_BYTES + name + extra + comment;
    if (size > *left)
        return bad(r, "a directory entry is cut off");
    *t = (struct entry){
        .name = c + CENTRAL_BYTES,
        .name_len = name,
        .flags = little_u16(c + 8),
        .method = little_u16(c + 10),
        .packed = little_u32(c + 20),
        .bytes = little_u32(c + 24),
        .disk = little_u16(c + 34),
        .local_at = little_u32(c + 42),
    };
    *p += size;
    *left -= size;
    return read_zip64_extra(r, t, t->name + name, extra);
}

static int shown(const struct entry *t)
{
    return t->name_len < 200 ? (int)t->name_len : 200;
}

/* Sets *DATA to the data of T, after a check that it is inside the archive. */
static int locate(const struct reader *r, const struct entry *t, const char **data)
{
    const char *local;
    uint64_t at;

    if (t->method != 0)
        return err_set(r->e, ERR_UNSUPPORTED,
                       "%s: member %.*s is compressed (method %u), expected uncompressed members", r->path,
                       shown(t), t->name, t->method);
    if (t->flags & FLAG_ENCRYPTED)
        return err_set(r->e, ERR_UNSUPPORTED, "%s: member %.*s is encrypted", r->path, shown(t), t->name);
    if (t->packed != t->bytes || (t->disk != 0 && t->disk != 0xffff))
        return err_set(r->e, ERR_INPUT,
                       "%s: member %.*s is damaged: it is not compressed, but its two sizes differ", r->path,
                       shown(t), t->name);
    if (t->local_at > r->dir_at || r->dir_at - t->local_at < LOCAL_BYTES)
        return err_set(r->e, ERR_INPUT, "%s: member %.*s begins outside the archive", r->path, shown(t),
                       t->name);
    local = r->bytes + t->local_at;
    if (little_u32(local) != LOCAL_SIG || little_u16(local + 8) != 0)
        return err_set(r->e, ERR_INPUT, "%s: member %.*s has no header where the directory points", r->path,
                       shown(t), t->name);
    at = t->local_at + LOCAL_BYTES + little_u16(local + 26) + little_u16(local + 28);
    if (at > r->dir_at || t->bytes > r->dir_at - at)
        return err_set(r->e, ERR_INPUT, "%s: member %.*s has %llu bytes and reaches beyond the archive",
                       r->path, shown(t), t->name, (unsigned long long)t->bytes);
    if (little_u16(local + 26) != t->name_len || memcmp(local + LOCAL_BYTES, t->name, t->name_len) != 0)
        return err_set(r->e, ERR_INPUT, "%s: member %.*s has another name in its own header", r->path,
                       shown(t), t->name);
    *data = r->bytes + at;
    return 0;
}

/* Checks that a member is in the top folder of the first member, and removes the folder from its name. */
static int cut_top(struct reader *r, const struct entry *t, struct torch_zip_member *m)
{
    if (!r->top) {
        const char *slash = memchr(t->name, '/', t->name_len);

        r->top = t->name;
        r->top_len = slash ? (size_t)(slash - t->name) + 1 : 0;
    }
    if (t->name_len < r->top_len || memcmp(t->name, r->top, r->top_len) != 0 || r->top_len == 0)
        return err_set(
            r->e, ERR_INPUT,
            "%s: member %.*s is not in the folder of the other members: torch did not write this archive",
            r->path, shown(t), t->name);
    m->name = t->name + r->top_len;
    m->name_len = t->name_len - r->top_len;
    return 0;
}

static int add_member(struct reader *r, const struct entry *t)
{
    struct torch_zip *z = r->z;
    struct torch_zip_member m = {.bytes = (size_t)t->bytes};
    int rc;

    if ((rc = locate(r, t, &m.data)) != 0 || (rc = cut_top(r, t, &m)) != 0)
        return rc;
    if (!mem_grow((void **)&z->member, &z->cap, z->n + 1, sizeof(m), MEM_CKPT))
        return err_nomem(r->e, r->path);
    rc = strmap_put(&z->index, m.name, m.name_len, z->n);
    if (rc < 0)
        return err_nomem(r->e, r->path);
    if (rc == 0)
        return err_set(r->e, ERR_INPUT, "%s: member %.*s appears twice", r->path, shown(t), t->name);
    z->member[z->n++] = m;
    return 0;
}

static int read_directory(struct reader *r)
{
    const char *p = r->bytes + r->dir_at;
    size_t left = (size_t)r->dir_bytes;
    int rc;

    for (uint64_t i = 0; i < r->n_members; i++) {
        struct entry t;

        if ((rc = read_central(r, &p, &left, &t)) != 0 || (rc = add_member(r, &t)) != 0)
            return rc;
    }
    return left ? bad(r, "its directory is longer than its entries") : 0;
}

int torch_zip_open(struct torch_zip *z, const char *bytes, size_t len, const char *path, struct err *e)
{
    struct reader r = {.z = z, .bytes = bytes, .len = len, .path = path, .e = e};
    int rc;

    *z = (struct torch_zip){0};
    strmap_init(&z->index, MEM_CKPT);
    if ((rc = read_end(&r)) != 0 || (rc = read_directory(&r)) != 0)
        torch_zip_close(z);
    return rc;
}

const struct torch_zip_member *torch_zip_get(const struct torch_zip *z, const char *name, size_t len)
{
    uint64_t at;

    return strmap_get(&z->index, name, len, &at) ? &z->member[at] : NULL;
}

void torch_zip_close(struct torch_zip *z)
{
    mem_free(z->member);
    strmap_fini(&z->index);
    *z = (struct torch_zip){0};
}
