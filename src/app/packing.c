/* packing.c - writes packed checkpoints, and manages the cache of --pack-cache. */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "app/load.h"
#include "app/packing.h"
#include "app/print.h"
#include "app/save.h"
#include "base/files/cache.h"
#include "base/mem.h"
#include "ckpt/gguf/set.h"
#include "ckpt/pack/pack.h"
#include "engine/engine.h"
#include "engine/llm.h"
#include "engine/open/open.h"

/* Files are written in aligned blocks of this many bytes, so that the operating system caches and maps them
 * in huge pages (ext4, XFS). With small pages decoding takes a tenth longer. */
enum { PIECE = 2 << 20 };

/* A file of a packed checkpoint that is being written, and the buffer of its stdio stream. */
struct part {
    struct save file;
    char buffer[PIECE];
};

struct packing {
    struct part **part; /* [n]; part[0] holds the directory of the tensors */
    size_t n, cap, bytes;
    const char *path;
    bool force;
};

static int open_next(struct packing *k, struct err *e)
{
    char name[SAVE_PATH_MAX];
    struct part *p;
    int rc;

    if ((size_t)snprintf(name, sizeof(name), k->n ? "%s.%zu" : "%s", k->path, k->n) >= sizeof(name))
        return err_set(e, ERR_INPUT, "%.200s...: the name is too long", k->path);
    if (!mem_grow((void **)&k->part, &k->cap, k->n + 1, sizeof(*k->part), MEM_APP) ||
        !(p = mem_alloc(sizeof(*p), MEM_APP)))
        return err_nomem(e, name);
    if ((rc = save_open(&p->file, name, k->force, e)) != 0) {
        mem_free(p);
        return rc;
    }
    setvbuf(p->file.f, p->buffer, _IOFBF, sizeof(p->buffer));
    k->part[k->n++] = p;
    return 0;
}

static int write_part(void *ctx, size_t part, const void *p, size_t n, struct err *e)
{
    struct packing *k = ctx;
    int rc = 0;

    while (part >= k->n && rc == 0)
        rc = open_next(k, e);
    k->bytes += n;
    return rc ? rc : save_write(&k->part[part]->file, p, n, e);
}

/* Renames the finished files from their temporary names to their own. The first file comes last, so that a
 * program that opens it finds the other files, too. */
static int commit(struct packing *k, struct err *e)
{
    int rc = 0;

    for (size_t i = k->n; i-- > 0 && rc == 0;)
        rc = save_commit(&k->part[i]->file, e);
    return rc;
}

static void discard(struct packing *k)
{
    for (size_t i = 0; i < k->n; i++) {
        save_abort(&k->part[i]->file);
        mem_free(k->part[i]);
    }
    mem_free(k->part);
}

/* Opens the model with the smallest possible KV cache, and writes its packed weights to K while they are
 * read. */
static int write_model(struct packing *k, const struct load *l, double split_gib, struct packing_result *done,
                       struct err *e)
{
    struct pack_writer w = {.write = write_part, .ctx = k, .split_bytes = (size_t)(split_gib * 1073741824.0)};
    struct print_bar bar = {.what = "packing"};
    struct gallop_options own = l->o;
    struct llm_source source;
    struct llm m = {0};
    int rc;

    own.max_num_seqs = 1;
    own.max_model_len = 2;
    own.kv_store = NULL;
    own.executor = NULL; /* "pjrt" would stream the weights instead of packing them */
    own.kv_cache_memory = 0;
    own.progress = print_progress;
    own.progress_ctx = &bar;
    if ((rc = engine_read_source(&own, false, &source, e)) != 0)
        return rc;
    source.save = &w;
    rc = llm_open(&m, &own, &source, e);
    print_bar_end(&bar);
    if (rc == 0 && (rc = commit(k, e)) == 0) {
        *done = (struct packing_result){
            .n_files = k->n, .bytes = k->bytes, .dtype = m.model.opt.dtype == DT_F32 ? "fp32" : "bf16"};
        memcpy(done->quant, m.model.quant, sizeof(done->quant));
    }
    pack_abort(&w);
    llm_close(&m);
    return rc;
}

int packing_write(const struct load *l, const char *path, double split_gib, bool force,
                  struct packing_result *done, struct err *e)
{
    struct packing k = {.path = path, .force = force};
    int rc = write_model(&k, l, split_gib, done, e);

    discard(&k);
    return rc;
}

/* ---- --pack-cache ---- */

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    return XXH3_64bits_withSeed(p, n, h);
}

static uint64_t mix_text(uint64_t h, const char *s)
{
    return s ? mix(h, s, strlen(s) + 1) : h + 1;
}

/* Returns the hash H, updated with the name, size and modification time of the file NAME in the folder DIR.
 * If DIR is NULL, NAME is a path. */
static uint64_t mix_file(uint64_t h, const char *dir, const char *name)
{
    char path[FOLDER_PATH_MAX];
    struct stat st;
    int64_t about[3] = {0};

    snprintf(path, sizeof(path), "%s%s%s", dir ? dir : "", dir ? "/" : "", name);
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        about[0] = st.st_size;
        about[1] = st.st_mtim.tv_sec;
        about[2] = st.st_mtim.tv_nsec;
    }
    return mix(mix_text(h, name), about, sizeof(about));
}

/* Updates the hash *H with the names, sizes and modification times of the files of the checkpoint PATH. These
 * are all files of a folder, or one file; if the file is one of several GGUF files of a split model, all GGUF
 * files in its folder. */
static int mix_checkpoint(uint64_t *h, const char *path, struct err *e)
{
    char dir[FOLDER_PATH_MAX];
    const char *slash = strrchr(path, '/');
    struct folder_names l;
    struct stat st;
    int64_t no, count;
    int rc;

    if (stat(path, &st) != 0)
        return err_os(e, "open", path);
    if (!S_ISDIR(st.st_mode) && !gguf_set_split_name(path, &no, &count)) {
        *h = mix_file(*h, NULL, path);
        return 0;
    }
    snprintf(dir, sizeof(dir), "%.*s", S_ISDIR(st.st_mode) ? (int)strlen(path) : (int)(slash - path), path);
    if ((rc = folder_list(&l, folder_at(dir), NULL, S_ISDIR(st.st_mode) ? "" : ".gguf", e)) != 0)
        return rc;
    for (size_t i = 0; i < l.n; i++)
        *h = mix_file(*h, dir, l.name[i]);
    folder_names_fini(&l);
    return 0;
}

/* Writes the path of the packed copy of SOURCE, packed/NAME-NUMBER.gallop in the cache folder, to OUT [size], and
 * creates its folders. */
static int cached_path(char *out, size_t size, const char *source, uint64_t number, struct err *e)
{
    const char *slash = strrchr(source, '/');
    char name[NAME_MAX + 1];
    int rc;

    if ((size_t)snprintf(name, sizeof(name), "%s-%016llx.gallop", slash ? slash + 1 : source,
                         (unsigned long long)number) >= sizeof(name))
        return err_set(e, ERR_INPUT, "%.200s...: the name is too long", slash ? slash + 1 : source);
    rc = cache_path(out, size, "packed", name, e);
    return rc ? err_subject(e, "pack_cache") : cache_make_folders(out, e);
}

static bool opens(const char *path)
{
    struct pack p;
    bool whole = access(path, F_OK) == 0 && pack_open(&p, folder_at(path), NULL) == 0;

    if (whole)
        pack_close(&p);
    return whole;
}

int packing_cache(struct load *l, struct err *e)
{
    const struct gallop_options *o = &l->o;
    const bool fp32 = o->dtype && strcmp(o->dtype, "fp32") == 0;
    uint64_t number = PACK_VERSION * 2 + (uint64_t)fp32;
    char source[FOLDER_PATH_MAX], path[sizeof(l->path)];
    struct packing_result done;
    int rc;

    if (pack_means(folder_at(l->path)))
        return 0;
    if (!realpath(l->path, source))
        return err_os(e, "resolve", l->path);
    number = mix_text(mix_text(mix_text(number, source), o->op_config), o->quant);
    if (o->scales)
        number = mix_file(number, NULL, o->scales);
    if ((rc = mix_checkpoint(&number, source, e)) != 0 ||
        (rc = cached_path(path, sizeof(path), source, number, e)) != 0)
        return rc;
    if (!opens(path) && (rc = packing_write(l, path, 0, true, &done, e)) != 0)
        return rc;
    memcpy(l->path, path, sizeof(path));
    return 0;
}
