/* set.c - finds the files of a GGUF checkpoint by its path.
 * 
 * The names of the other files are made from the given name, never from the contents of a file.
 */
#include "ckpt/gguf/gguf.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "base/files/map.h"
#include "base/mem.h"
#include "ckpt/gguf/set.h"
#include "ckpt/tensor_file.h"

enum { MAX_PARTS = 99999, TAIL = 20 /* "-00001-of-00002.gguf" */ };

static bool digits5(const char *s, int64_t *v)
{
    *v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        *v = 10 * *v + (s[i] - '0');
    }
    return true;
}

bool gguf_set_split_name(const char *path, int64_t *no, int64_t *count)
{
    size_t n = strlen(path);
    const char *t = path + n - TAIL;

    return n > TAIL && t[0] == '-' && digits5(t + 1, no) && strncmp(t + 6, "-of-", 4) == 0 &&
           digits5(t + 10, count) && strcmp(t + 15, ".gguf") == 0;
}

bool gguf_set_part_name(char *out, size_t size, const char *path, size_t no, size_t count)
{
    int n = snprintf(out, size, "%.*s-%05zu-of-%05zu.gguf", (int)strlen(path) - TAIL, path, no, count);

    return n > 0 && (size_t)n < size;
}

/* Returns whether the file IN, of any name, begins like a GGUF file. */
static bool begins_as_gguf(struct folder in)
{
    char path[FOLDER_PATH_MAX];
    struct map_file m;
    bool yes = folder_map(&m, path, in, NULL, NULL) == 0 && gguf_is(m.bytes, m.len);

    map_file_close(&m);
    return yes;
}

/* Implements gguf_set_means(). Writes the name of the first file in IN to NAME, or "" if IN is a file. */
static bool find_first(struct folder in, char *name, size_t size, int *rc, struct err *e)
{
    struct folder_names l;
    int64_t no, count;
    struct stat st;
    bool yes;

    *rc = 0;
    *name = 0;
    if (stat(in.path, &st) != 0 || !S_ISDIR(st.st_mode))
        return folder_name_ends(in.path, ".gguf") || begins_as_gguf(in);
    if (folder_has(in, "config.json"))
        return false;
    if ((*rc = folder_list(&l, in, NULL, ".gguf", e)) != 0) {
        yes = *rc == ERR_NOMEM; /* other code reports an unreadable folder */
        *rc = yes ? *rc : 0;
        return yes;
    }
    yes = l.n > 0;
    if (yes && snprintf(name, size, "%s", l.name[0]) >= (int)size)
        *rc = err_set(e, ERR_INPUT, "%s: a file name is longer than %zu bytes", in.path, size);
    else if (l.n > 1 && !(gguf_set_split_name(name, &no, &count) && no == 1 && (size_t)count == l.n))
        *rc = err_set(e, ERR_INPUT, "%s: this folder has %zu .gguf files; name one of them", in.path, l.n);
    folder_names_fini(&l);
    return yes;
}

bool gguf_set_means(struct folder in, int *rc, struct err *e)
{
    char name[FOLDER_PATH_MAX];

    return find_first(in, name, sizeof(name), rc, e);
}

static int open_part(struct gguf_set *s, size_t i, struct folder in, const char *name, struct err *e)
{
    struct tensor_file *f = &s->file[i];
    int rc = tensor_file_open(f, in, name, e);

    if (rc)
        return rc;
    f->kind = "GGUF";
    return gguf_read(&s->part[i], f->map.bytes ? f->map.bytes : "", f->map.len, f->path, e);
}

/* Checks that split.no of part I is I, and that split.count is N. */
static int check_part(struct gguf_set *s, size_t i, size_t n, struct err *e)
{
    struct gguf *g = &s->part[i];
    int64_t no, count;
    int rc;

    if ((rc = gguf_int(g, "split.no", 0, 0, MAX_PARTS, &no, e)) != 0 ||
        (rc = gguf_int(g, "split.count", 1, 0, MAX_PARTS, &count, e)) != 0)
        return rc;
    if ((size_t)no != i || (size_t)(count ? count : 1) != n)
        return err_set(e, ERR_INPUT, "%s: split.no is %lld and split.count %lld, expected %zu and %zu",
                       g->path, (long long)no, (long long)count, i, n);
    return 0;
}

static bool reserve_parts(struct gguf_set *s, size_t n)
{
    s->file = mem_zalloc(n, sizeof(*s->file), MEM_CKPT);
    s->part = mem_zalloc(n, sizeof(*s->part), MEM_CKPT);
    s->n = n;
    return s->file && s->part;
}

/* Opens the COUNT files of a checkpoint in the folder IN. FIRST is the name of any of the files. */
static int open_split(struct gguf_set *s, struct folder in, const char *first, size_t count, struct err *e)
{
    char name[FOLDER_PATH_MAX];
    size_t n_tensors = 0;
    int64_t stated;
    int rc;

    if (count == 0)
        return err_set(e, ERR_INPUT, "%s/%s: the name gives a checkpoint of 0 files", in.path, first);
    if (!reserve_parts(s, count))
        return err_nomem(e, first);
    for (size_t i = 0; i < count; i++) {
        if (!gguf_set_part_name(name, sizeof(name), first, i + 1, count))
            return err_set(e, ERR_INPUT, "%.200s...: the path is too long", first);
        if ((rc = open_part(s, i, in, name, e)) != 0 || (rc = check_part(s, i, count, e)) != 0)
            return rc;
        n_tensors += s->part[i].n_tensors;
    }
    if ((rc = gguf_int(&s->part[0], "split.tensors.count", (int64_t)n_tensors, 0, INT64_MAX, &stated, e)) !=
        0)
        return rc;
    if ((size_t)stated != n_tensors)
        return err_set(e, ERR_INPUT, "%s: split.tensors.count is %lld, but the %zu files have %zu tensors",
                       s->file[0].path, (long long)stated, count, n_tensors);
    return 0;
}

/* Opens the file NAME in the folder IN, or the file IN if NAME is NULL. */
static int open_single(struct gguf_set *s, struct folder in, const char *name, struct err *e)
{
    int64_t count;
    int rc;

    if (!reserve_parts(s, 1))
        return err_nomem(e, in.path);
    if ((rc = open_part(s, 0, in, name, e)) != 0)
        return rc;
    if ((rc = gguf_int(&s->part[0], "split.count", 1, 0, MAX_PARTS, &count, e)) == 0 && count > 1)
        rc = err_set(e, ERR_INPUT,
                     "%s: split.count is %lld, but the name does not end in -00001-of-%05lld.gguf",
                     s->file[0].path, (long long)count, (long long)count);
    return rc;
}

static int open_files(struct gguf_set *s, struct folder in, const char *name, struct err *e)
{
    char dir[FOLDER_PATH_MAX];
    const char *slash;
    int64_t no, count;

    if (*name)
        return gguf_set_split_name(name, &no, &count) ? open_split(s, in, name, (size_t)count, e)
                                                      : open_single(s, in, name, e);
    if (!gguf_set_split_name(in.path, &no, &count))
        return open_single(s, in, NULL, e);
    slash = strrchr(in.path, '/'); /* IN is one of several files in the same folder */
    if (snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - in.path) + 1 : 2, slash ? in.path : "./") >=
        (int)sizeof(dir))
        return err_set(e, ERR_INPUT, "%.200s...: the path is longer than %zu bytes", in.path, sizeof(dir));
    return open_split(s, (struct folder){.path = dir, .allow_links = in.allow_links},
                      slash ? slash + 1 : in.path, (size_t)count, e);
}

int gguf_set_open(struct gguf_set *s, struct folder in, struct err *e)
{
    char name[FOLDER_PATH_MAX];
    int rc;

    *s = (struct gguf_set){.n = 0};
    if (!find_first(in, name, sizeof(name), &rc, e))
        return err_set(e, ERR_INPUT, "%s: found no GGUF checkpoint", in.path);
    if (rc == 0)
        rc = gguf_set_checked(s, open_files(s, in, name, e), e);
    if (rc)
        gguf_set_close(s);
    return rc;
}

int gguf_set_checked(const struct gguf_set *s, int rc, struct err *e)
{
    return s->file ? tensor_file_checked(s->file, s->n, rc, e) : rc;
}

int gguf_set_open_bytes(struct gguf_set *s, const char *bytes, size_t len, const char *path, struct err *e)
{
    int rc;

    *s = (struct gguf_set){.n = 0};
    if (!reserve_parts(s, 1))
        rc = err_nomem(e, path);
    else if ((rc = tensor_file_open_bytes(&s->file[0], bytes, len, path, e)) == 0)
        rc = gguf_read(&s->part[0], bytes, len, s->file[0].path, e);
    if (rc)
        gguf_set_close(s);
    return rc;
}

int gguf_metadata(struct buf *out, const struct gguf_set *s, struct err *e)
{
    const uint64_t no_tensors = 0;
    size_t before = out->len;

    buf_add(out, s->file[0].map.bytes, s->part[0].kv_end);
    if (out->oom)
        return err_nomem(e, s->file[0].path);
    memcpy(out->data + before + 8, &no_tensors, sizeof(no_tensors)); /* offset 8: after magic and version */
    return 0;
}

void gguf_set_let_go(struct gguf_set *s)
{
    for (size_t i = 0; i < s->n; i++) {
        gguf_close(&s->part[i]);
        tensor_file_let_go(&s->file[i]);
    }
}

void gguf_set_close(struct gguf_set *s)
{
    for (size_t i = 0; i < s->n && s->part; i++)
        gguf_close(&s->part[i]);
    for (size_t i = 0; i < s->n && s->file; i++)
        tensor_file_close(&s->file[i]);
    mem_free(s->part);
    mem_free(s->file);
    *s = (struct gguf_set){.n = 0};
}

const struct gguf_tensor *gguf_set_tensor(const struct gguf_set *s, const char *name)
{
    const struct gguf_tensor *t = NULL;

    for (size_t i = 0; i < s->n && !t; i++)
        t = gguf_tensor(&s->part[i], name);
    return t;
}
