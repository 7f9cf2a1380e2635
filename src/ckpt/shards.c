/* shards.c - reads an index of shards: {"metadata": ..., "weight_map": {"tensor name": "file name", ...}}.
 *
 * Every file name must be a plain name without folders. weights.c checks later that the file has the tensor.
 */
#include "ckpt/shards.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json/json_pull.h"

enum { MAX_FILES = 4096 };

struct reader {
    struct shards *s;
    struct strmap files; /* file name -> its index before sort_files() */
    struct json_pull j;
    struct err *e;
};

/* Returns a terminated copy of TEXT. A NUL character is an error, because it could make two names equal. */
static const char *keep(struct reader *r, const struct json_str *text)
{
    char *copy;

    if (memchr(text->s, 0, text->n)) {
        json_pull_fail(&r->j, "a name has a NUL character");
        return NULL;
    }
    copy = arena_strndup(&r->s->arena, text->s, text->n);
    if (!copy)
        r->j.rc = err_nomem(r->e, r->s->path);
    return copy;
}

/* Sets *AT to the index of the file NAME, which is checked and added if it is new. */
static int add_file(struct reader *r, const struct json_str *name, uint64_t *at)
{
    struct shards *s = r->s;
    const char *copy;

    if (strmap_get(&r->files, name->s, name->n, at))
        return 0;
    if (!(copy = keep(r, name)))
        return json_pull_rc(&r->j);
    if (!folder_name_is_plain(copy))
        return err_set(r->e, ERR_INPUT, "%s: \"%.200s\" is not the name of a file in this folder", s->path,
                       copy);
    if (s->n_files == MAX_FILES)
        return err_set(r->e, ERR_UNSUPPORTED, "%s: the index names more than %d files", s->path, MAX_FILES);
    if (!mem_grow((void **)&s->file, &s->cap_files, s->n_files + 1, sizeof(*s->file), MEM_CKPT) ||
        strmap_put(&r->files, copy, name->n, s->n_files) < 0)
        return err_nomem(r->e, s->path);
    *at = s->n_files;
    s->file[s->n_files++] = copy;
    return 0;
}

static int read_map(struct reader *r)
{
    struct shards *s = r->s;
    struct json_str name, file;

    for (json_pull_enter_object(&r->j); json_pull_key(&r->j, &name);) {
        const char *copy = keep(r, &name);
        uint64_t at;
        int rc;

        if (!copy || !json_pull_string(&r->j, &file))
            break;
        if ((rc = add_file(r, &file, &at)) != 0)
            return rc;
        rc = strmap_put(&s->where, copy, name.n, at);
        if (rc < 0 || !mem_grow((void **)&s->name, &s->cap, s->n + 1, sizeof(*s->name), MEM_CKPT))
            return err_nomem(r->e, s->path);
        if (rc == 0)
            return json_pull_fail(&r->j, "tensor %.300s appears twice in weight_map", copy);
        s->name[s->n++] = copy;
    }
    return json_pull_rc(&r->j);
}

static int read_index(struct reader *r)
{
    bool seen = false;
    struct json_str key;
    int rc;

    for (json_pull_enter_object(&r->j); json_pull_key(&r->j, &key);) {
        if (!json_str_is(&key, "weight_map")) {
            json_pull_skip(&r->j);
            continue;
        }
        if (seen)
            return json_pull_fail(&r->j, "weight_map appears twice");
        if (json_pull_peek(&r->j) != JSON_PULL_OBJECT)
            return json_pull_fail(&r->j, "weight_map must be an object of tensor and file names");
        seen = true;
        if ((rc = read_map(r)) != 0)
            return rc;
    }
    if ((rc = json_pull_finish(&r->j)) != 0)
        return rc;
    if (r->s->n == 0)
        return err_set(r->e, ERR_INPUT, "%s: weight_map is missing or empty", r->s->path);
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the files and updates the file indices of the tensors. */
static int sort_files(struct reader *r)
{
    struct shards *s = r->s;
    uint64_t *place = mem_zalloc(s->n_files, sizeof(*place), MEM_CKPT), old;

    if (!place)
        return err_nomem(r->e, s->path);
    qsort(s->file, s->n_files, sizeof(*s->file), by_text);
    for (size_t i = 0; i < s->n_files; i++)
        if (strmap_get(&r->files, s->file[i], strlen(s->file[i]), &old))
            place[old] = i;
    for (size_t i = 0; i < s->n; i++) {
        size_t len = strlen(s->name[i]);
        if (strmap_get(&s->where, s->name[i], len, &old) &&
            !strmap_set(&s->where, s->name[i], len, place[old]))
            ASSERT(false, "no memory is needed to change a value");
    }
    mem_free(place);
    return 0;
}

int shards_open_text(struct shards *s, const char *text, size_t len, const char *path, struct err *e)
{
    struct reader r = {.s = s, .e = e};
    struct arena scratch; /* memory of unescaped strings; checked names are copied */
    int rc;

    *s = (struct shards){0};
    arena_init(&s->arena, MEM_CKPT);
    arena_init(&scratch, MEM_CKPT);
    strmap_init(&s->where, MEM_CKPT);
    strmap_init(&r.files, MEM_CKPT);
    s->path = arena_strndup(&s->arena, path, strlen(path));
    if (!s->path)
        rc = err_nomem(e, path);
    else if ((rc = json_pull_open(&r.j, text, len, s->path, &scratch, e)) == 0 && (rc = read_index(&r)) == 0)
        rc = sort_files(&r);
    strmap_fini(&r.files);
    arena_fini(&scratch);
    if (rc != 0)
        shards_close(s);
    return rc;
}

int shards_open(struct shards *s, struct folder in, const char *index, struct err *e)
{
    struct folder_text f;
    int rc;

    *s = (struct shards){0};
    if ((rc = folder_read(&f, in, index, NULL, e)) != 0)
        return rc;
    rc = shards_open_text(s, f.bytes, f.len, f.path, e);
    folder_text_fini(&f);
    return rc;
}

void shards_close(struct shards *s)
{
    mem_free(s->file);
    mem_free(s->name);
    strmap_fini(&s->where);
    arena_fini(&s->arena);
    *s = (struct shards){0};
}
