/* weights.c - chooses the weight files of a folder, opens them and joins their tensors in one index.
 *
 * If the checkpoint has shards, each tensor in the index file must be in the shard that the index gives for
 * it. Tensors that are missing in the index are also used, if no two shards have a tensor of the same name.
 */
#include "ckpt/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/strmap.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/gguf/set.h"
#include "ckpt/pack/pack.h"
#include "ckpt/safetensors.h"
#include "ckpt/shards.h"
#include "ckpt/tensor_file.h"
#include "ckpt/torch/torch.h"

typedef int read_fn(struct tensor_file *f, struct err *e);

struct weights {
    struct tensor_file *file;
    size_t n_files;
    bool lent;                /* FILE is borrowed */
    const struct view **view; /* tensors, borrowed from the files */
    bool *used;
    size_t n, cap_view, cap_used;
    struct strmap index; /* name -> index into view[] */
    char kind[64];
    char path[FOLDER_PATH_MAX]; /* path of the only file, or of the index */
};

/* Opens the N files NAME of the folder IN. */
static int open_files(struct weights *w, struct folder in, const char *const *name, size_t n, read_fn *read,
                      struct err *e)
{
    int rc = 0;

    w->file = mem_zalloc(n, sizeof(*w->file), MEM_CKPT);
    if (!w->file)
        return err_nomem(e, in.path);
    w->n_files = n;
    for (size_t i = 0; i < n && rc == 0; i++)
        if ((rc = tensor_file_open(&w->file[i], in, name[i], e)) == 0)
            rc = read(&w->file[i], e);
    return rc;
}

static int add_view(struct weights *w, const struct view *v, struct err *e)
{
    int put = strmap_put(&w->index, v->name, strlen(v->name), w->n);

    if (put < 0)
        return err_nomem(e, v->file);
    if (put == 0)
        return err_set(e, ERR_INPUT,
                       "%s: tensor %.300s is also in another shard, and the index does not name it", v->file,
                       v->name);
    w->view[w->n++] = v;
    return 0;
}

/* Makes one index of the tensors of all open files. If S gives the file of a tensor, tensors of that name in
 * other files are ignored. */
static int join(struct weights *w, const struct shards *s, struct err *e)
{
    const char *path = s ? s->path : w->file[0].path;
    size_t n = 0;
    int rc = 0;

    for (size_t i = 0; i < w->n_files; i++)
        n += w->file[i].n;
    w->cap_view = w->cap_used = n;
    w->view = mem_zalloc(n, sizeof(*w->view), MEM_CKPT);
    w->used = mem_zalloc(n, sizeof(*w->used), MEM_CKPT);
    if (!w->view || !w->used || !strmap_reserve(&w->index, n))
        return err_nomem(e, path);
    for (size_t i = 0; i < w->n_files; i++)
        for (size_t t = 0; t < w->file[i].n && rc == 0; t++) {
            const struct view *v = &w->file[i].tensor[t];
            uint64_t at;

            if (!s || !strmap_get(&s->where, v->name, strlen(v->name), &at) || at == i)
                rc = add_view(w, v, e);
        }
    snprintf(w->kind, sizeof(w->kind), s || w->n_files > 1 ? "%s, %zu shards" : "%s", w->file[0].kind,
             w->n_files);
    snprintf(w->path, sizeof(w->path), "%s", path);
    return rc;
}

static int open_single(struct weights *w, struct folder in, const char *name, read_fn *read, struct err *e)
{
    int rc = open_files(w, in, &name, 1, read, e);

    return rc ? rc : join(w, NULL, e);
}

static bool matches(const char *pattern, const char *name);

/* Returns whether an index may name the tensor NAME although no shard has it: a head that is tied to the
 * embedding, or a buffer that is never read. A model that needs such a tensor reports it as missing. */
static bool may_be_missing(const char *name)
{
    static const char *const pattern[] = {"*lm_head.weight", "*rotary_emb.inv_freq", "*.attn.bias",
                                          "*.attn.masked_bias"};

    for (size_t i = 0; i < sizeof(pattern) / sizeof(pattern[0]); i++)
        if (matches(pattern[i], name))
            return true;
    return false;
}

/* Checks that each tensor of the index is in the shard that the index gives for it. */
static int check_map(const struct weights *w, const struct shards *s, struct err *e)
{
    for (size_t i = 0; i < s->n; i++) {
        size_t len = strlen(s->name[i]);
        uint64_t at = 0;

        if (strmap_get(&s->where, s->name[i], len, &at) && !tensor_file_get(&w->file[at], s->name[i], len) &&
            !may_be_missing(s->name[i]))
            return err_set(e, ERR_INPUT, "%s: tensor %.300s is missing in %s, the file that the index gives",
                           s->path, s->name[i], s->file[at]);
    }
    return 0;
}

static int open_shards(struct weights *w, struct folder in, const char *index, read_fn *read, struct err *e)
{
    struct shards s;
    int rc;

    if ((rc = shards_open(&s, in, index, e)) != 0)
        return rc;
    if ((rc = open_files(w, in, s.file, s.n_files, read, e)) != 0)
        err_prefix(e, "%s", index);
    else if ((rc = check_map(w, &s, e)) == 0)
        rc = join(w, &s, e);
    shards_close(&s);
    return rc;
}

/* Fails if the folder, which has no other weights, has a file whose name ends in SUFFIX. */
static int say_other(struct folder in, const char *suffix, const char *what_to_do, struct err *e)
{
    struct folder_names l;
    int rc = folder_list(&l, in, NULL, suffix, e);

    if (rc == 0 && l.n)
        rc = err_set(e, ERR_INPUT,
                     "%s: the folder has neither .safetensors files nor pytorch_model.bin, but "
                     "%s/%.200s: %s",
                     in.path, in.path, l.name[0], what_to_do);
    folder_names_fini(&l);
    return rc;
}

/* Opens the only .safetensors file of a folder that has no weight files with usual names. */
static int open_unusual(struct weights *w, struct folder in, struct err *e)
{
    static const char other[] =
        "weights of TensorFlow and Flax are not supported; save the model as safetensors";
    struct folder_names l;
    int rc;

    if ((rc = folder_list(&l, in, NULL, ".safetensors", e)) != 0)
        return rc;
    if (l.n == 0) {
        if ((rc = say_other(in, ".gguf", "name that file instead of the folder", e)) == 0 &&
            (rc = say_other(in, ".pth",
                            "fetch the model in the format of Hugging Face, or convert it with "
                            "convert_llama_weights_to_hf.py of transformers",
                            e)) == 0 &&
            (rc = say_other(in, ".h5", other, e)) == 0 && (rc = say_other(in, ".msgpack", other, e)) == 0)
            rc = err_set(e, ERR_INPUT,
                         "%s: the folder has no weights: found neither model.safetensors nor "
                         "pytorch_model.bin nor an index of shards",
                         in.path);
    } else if (l.n == 1 && strncmp(l.name[0], "consolidated", 12) == 0)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: %.200s is a model in its vendor's own format, expected model.safetensors or its "
                     "shards with Hugging Face's tensor names",
                     in.path, l.name[0]);
    else if (l.n > 1)
        rc = err_set(e, ERR_INPUT,
                     "%s: there are %zu .safetensors files, none is named model.safetensors, and there is no "
                     "model.safetensors.index.json",
                     in.path, l.n);
    else
        rc = open_single(w, in, l.name[0], safetensors_read, e);
    folder_names_fini(&l);
    return rc;
}

static int choose_files(struct weights *w, struct folder in, struct err *e)
{
    if (folder_has(in, "model.safetensors"))
        return open_single(w, in, "model.safetensors", safetensors_read, e);
    if (folder_has(in, "model.safetensors.index.json"))
        return open_shards(w, in, "model.safetensors.index.json", safetensors_read, e);
    if (folder_has(in, "pytorch_model.bin"))
        return open_single(w, in, "pytorch_model.bin", torch_read, e);
    if (folder_has(in, "pytorch_model.bin.index.json"))
        return open_shards(w, in, "pytorch_model.bin.index.json", torch_read, e);
    return open_unusual(w, in, e);
}

static int take_gguf(struct weights *w, struct gguf_set *s, struct err *e)
{
    const struct gguf_arch *arch;
    int rc;

    w->file = s->file;
    w->n_files = s->n;
    w->lent = true;
    if ((rc = gguf_arch_of(&arch, s, e)) == 0 && (rc = gguf_names_fill(s, arch, e)) == 0)
        rc = join(w, NULL, e);
    return rc;
}

static int take_pack(struct weights *w, struct pack *p, struct err *e)
{
    w->file = &p->tensors;
    w->n_files = 1;
    w->lent = true;
    return join(w, NULL, e);
}

/* Opens the weights of the folder IN, the GGUF files S or the packed file P; two of them are NULL. */
static int open_any(struct weights **out, const struct folder *in, struct gguf_set *s, struct pack *p,
                    struct err *e)
{
    struct weights *w = mem_zalloc(1, sizeof(*w), MEM_CKPT);
    int rc;

    *out = NULL;
    if (!w)
        return err_nomem(e, in ? in->path : s ? s->file[0].path : p->path);
    strmap_init(&w->index, MEM_CKPT);
    rc = in ? choose_files(w, *in, e) : s ? take_gguf(w, s, e) : take_pack(w, p, e);
    if ((rc = weights_checked(w, rc, e)) != 0)
        weights_close(w);
    else
        *out = w;
    return rc;
}

int weights_open(struct weights **out, struct folder in, struct err *e)
{
    return open_any(out, &in, NULL, NULL, e);
}

int weights_of_gguf(struct weights **out, struct gguf_set *s, struct err *e)
{
    return open_any(out, NULL, s, NULL, e);
}

int weights_of_pack(struct weights **out, struct pack *p, struct err *e)
{
    return open_any(out, NULL, NULL, p, e);
}

const struct view *weights_get(struct weights *w, const char *name)
{
    uint64_t at;

    if (!strmap_get(&w->index, name, strlen(name), &at))
        return NULL;
    w->used[at] = true;
    return w->view[at];
}

size_t weights_count(const struct weights *w)
{
    return w->n;
}

const struct view *weights_nth(const struct weights *w, size_t i)
{
    return w->view[i];
}

int weights_add(struct weights *w, const struct view *v, struct err *e)
{
    uint64_t at;

    if (strmap_get(&w->index, v->name, strlen(v->name), &at)) {
        w->view[at] = v;
        w->used[at] = false;
        return 0;
    }
    if (!mem_grow((void **)&w->view, &w->cap_view, w->n + 1, sizeof(*w->view), MEM_CKPT) ||
        !mem_grow((void **)&w->used, &w->cap_used, w->n + 1, sizeof(*w->used), MEM_CKPT))
        return err_nomem(e, v->file);
    w->used[w->n] = false;
    return add_view(w, v, e);
}

bool weights_has(const struct weights *w, const char *name)
{
    uint64_t at;

    return name &&
           strmap_get(&w->index, name, strlen(name), &at); /* NAME is NULL if there was no memory for it */
}

size_t weights_unused(const struct weights *w, const char **first, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n; i++) {
        if (w->used[i])
            continue;
        if (n < max)
            first[n] = w->view[i]->name;
        n++;
    }
    return n;
}

/* Matches NAME with PATTERN. After a mismatch only the text of the last '*' is extended, because extending an
 * earlier '*' cannot help. So the time is bounded by the product of the lengths. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = name;

    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

void weights_skip(struct weights *w, const char *pattern)
{
    for (size_t i = 0; i < w->n; i++)
        if (!w->used[i])
            w->used[i] = matches(pattern, w->view[i]->name);
}

const char *weights_path(const struct weights *w)
{
    return w->path;
}

const char *weights_kind(const struct weights *w)
{
    return w->kind;
}

int weights_checked(const struct weights *w, int rc, struct err *e)
{
    return w->file ? tensor_file_checked(w->file, w->n_files, rc, e) : rc;
}

void weights_let_go(struct weights *w)
{
    for (size_t i = 0; i < w->n_files && !w->lent; i++)
        tensor_file_let_go(&w->file[i]);
}

void weights_close(struct weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_files && !w->lent; i++)
        tensor_file_close(&w->file[i]);
    if (!w->lent)
        mem_free(w->file);
    mem_free(w->view);
    mem_free(w->used);
    strmap_fini(&w->index);
    mem_free(w);
}
