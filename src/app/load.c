/* load.c - finds the model that the options name, and opens its files or an engine. */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "app/load.h"
#include "app/options.h"
#include "app/packing.h"
#include "app/print.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/utf8.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "engine/open/find_model.h"
#include "kv/kv.h"

/* The progress bar of a download: one line for the current file, in megabytes. */
struct fetch_bar {
    struct print_bar bar;
    char what[96];
};

static int show_fetch(void *ctx, const char *file, uint64_t done, uint64_t total)
{
    struct fetch_bar *f = ctx;
    char what[sizeof(f->what)];

    snprintf(what, sizeof(what), "fetching %.60s, MB", file);
    utf8_printable(what); /* the name comes from the hub */
    if (strcmp(what, f->what) != 0) {
        print_bar_end(&f->bar);
        memcpy(f->what, what, sizeof(what));
    }
    print_progress(&f->bar, (size_t)(done / 1000000), (size_t)((total + 999999) / 1000000));
    return 0;
}

/* Writes the path of the file REST, which is relative to the folder of the program EXE, to PATH. Returns
 * whether the file can be read. */
static bool is_beside(char *path, size_t size, const char *exe, const char *rest)
{
    const char *slash = strrchr(exe, '/');

    return slash && (size_t)snprintf(path, size, "%.*s/%s", (int)(slash - exe), exe, rest) < size &&
           access(path, R_OK) == 0;
}

static int demo_path(char *path, size_t size, struct err *e)
{
    static const char *const places[] = {"../models/demo", "../../models/demo",
                                         "../share/gallop/models/demo"};
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[n > 0 ? n : 0] = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (is_beside(path, size, exe, places[i]))
            return 0;
    return err_set(
        e, ERR_INPUT,
        "-m: found no model, and the bundled demo model is not beside the program; expected -m MODEL");
}

static int find_model(const struct load *l, enum hub_want want, char *path, size_t size, struct err *e)
{
    struct fetch_bar f = {.what = ""};
    const char *revision = l->o.revision ? l->o.revision : l->revision;
    const struct find_model_options o = {
        .revision = revision, .want = want, .progress = show_fetch, .progress_ctx = &f};
    int rc;

    if (!l->name)
        return revision ? err_set(e, ERR_USAGE, "--revision needs -m: the demo model has no revisions")
                        : demo_path(path, size, e);
    f.bar.what = f.what;
    rc = find_model_path(path, size, l->name, &o, e);
    print_bar_end(&f.bar);
    return rc;
}

static struct folder folder_of(const struct load *l, const char *path)
{
    return (struct folder){.path = path, .allow_links = l->o.allow_links != 0};
}

int load_text(const struct load *l, struct checkpoint *model, struct err *e)
{
    char path[4096];
    int rc;

    if (model->in.path)
        return 0;
    rc = find_model(l, HUB_TEXT, path, sizeof(path), e);
    return rc ? rc : checkpoint_open(model, folder_of(l, path), e);
}

int load_checkpoint(const struct load *l, struct checkpoint *model, struct err *e)
{
    return checkpoint_open(model, folder_of(l, l->path), e);
}

void load_init(struct load *l)
{
    *l = (struct load){.o = {0}};
    gallop_options_init(&l->o);
    l->o.kv_cache_unbounded = 1;
}

/* Warns about given options that have no effect with the chosen type of KV cache. */
static void warn_of_cache(const struct load *l)
{
    const char *type = l->o.kv_cache_type;
    const bool pooled = kv_type_pooled(type), bmc = strcmp(type, "bmc") == 0;
    const struct {
        enum opt_source source;
        bool counts;
        const char *name, *types;
    } own[] = {{l->block_size_source, pooled, "block-size", "slab_pool and paged"},
               {l->layout_source, pooled, "kv-cache-layout", "slab_pool and paged"},
               {l->splits_source, bmc, "bmc-splits", "bmc"}};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (own[i].source == OPT_GIVEN && !own[i].counts)
            log_warn("--%s changes nothing with --kv-cache-type %s, only with %s", own[i].name, type,
                     own[i].types);
}

int load_prepare(struct load *l, struct err *e)
{
    int rc;

    if ((rc = options_check_engine(&l->o, e)) != 0 ||
        (rc = find_model(l, HUB_MODEL, l->path, sizeof(l->path), e)) != 0)
        return rc;
    warn_of_cache(l);
    l->revision = l->o.revision; /* the engine gets a path, which has no revision, unlike a name on the hub */
    l->o.revision = NULL;
    l->o.model = l->path;
    if (strcmp(l->o.dtype, "auto") == 0)
        l->o.dtype = NULL; /* the engine then uses the dtype of a packed checkpoint, or its default */
    if (l->no_prefix_caching)
        l->o.prefix_index = "none";
    return l->pack_cache ? packing_cache(l, e) : 0;
}

int load_engine(struct load *l, struct checkpoint *model, struct gallop **g, struct err *e)
{
    struct print_bar bar = {.what = "loading"};
    int rc;

    l->o.progress = print_progress;
    l->o.progress_ctx = &bar;
    rc = engine_open(g, &l->o, model, e);
    print_bar_end(&bar);
    if (rc == 0 && engine_info(*g)->model->no_generation && !l->headless) {
        rc = err_set(e, ERR_UNSUPPORTED, "%s", engine_info(*g)->model->no_generation);
        gallop_close(*g);
        *g = NULL;
    }
    return rc;
}
