/* load.c - from the name of a model to its path, its tokenizer or an engine. */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "app/load.h"
#include "app/options.h"
#include "app/packing.h"
#include "app/print.h"
#include "base/opt.h"
#include "base/utf8.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "engine/find_model.h"

/* What is shown of a download: one line for the file that comes, in megabytes. */
struct fetch_bar {
    struct print_bar bar;
    char what[96];
};

static int show_fetch(void *ctx, const char *file, uint64_t done, uint64_t total)
{
    struct fetch_bar *f = ctx;
    char what[sizeof(f->what)];

    snprintf(what, sizeof(what), "fetching %.60s, MB", file);
    utf8_printable(what); /* the hub chose the name */
    if (strcmp(what, f->what) != 0) {
        print_bar_end(&f->bar);
        memcpy(f->what, what, sizeof(what));
    }
    print_progress(&f->bar, (size_t)(done / 1000000), (size_t)((total + 999999) / 1000000));
    return 0;
}

/* True if REST beside the file EXE is there: its path is in PATH then. */
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
    return err_set(e, ERR_INPUT,
                   "no model is named (-m), and the demo model is not where the program looks for it");
}

static int find_model(const struct opt_values *v, enum hub_want want, char *path, size_t size, struct err *e)
{
    struct fetch_bar f = {.what = ""};
    const struct find_model_options o = {
        .revision = opt_string(v, "revision"), .want = want, .progress = show_fetch, .progress_ctx = &f};
    int rc;

    if (!opt_string(v, "model"))
        return opt_given(v, "revision")
                   ? err_set(e, ERR_USAGE,
                             "--revision: no model is named (-m), and the demo model has no revisions")
                   : demo_path(path, size, e);
    f.bar.what = f.what;
    rc = find_model_path(path, size, opt_string(v, "model"), &o, e);
    print_bar_end(&f.bar);
    return rc;
}

static struct folder folder_of(const struct opt_values *v, const char *path)
{
    return (struct folder){.path = path, .allow_links = opt_flag(v, "allow-links")};
}

int load_text(const struct opt_values *v, struct checkpoint *model, struct err *e)
{
    char path[4096];
    int rc;

    if (model->in.path)
        return 0;
    rc = find_model(v, HUB_TEXT, path, sizeof(path), e);
    return rc ? rc : checkpoint_open(model, folder_of(v, path), e);
}

int load_checkpoint(const struct opt_values *v, const struct load *l, struct checkpoint *model, struct err *e)
{
    return checkpoint_open(model, folder_of(v, l->path), e);
}

int load_options(const struct opt_values *v, struct load *l, struct err *e)
{
    struct gallop_options *o = &l->o;
    int rc;

    gallop_options_init(o);
    l->headless = false;
    if ((rc = options_check_engine(v, e)) != 0 ||
        (rc = find_model(v, HUB_MODEL, l->path, sizeof(l->path), e)) != 0)
        return rc;
    options_remark_cache(v);
    o->model = l->path;
    o->allow_links = opt_flag(v, "allow-links");
    o->dtype = opt_choice(v, "dtype") ? opt_string(v, "dtype") : NULL; /* a packed checkpoint has its own */
    o->quant = opt_given(v, "quant") ? opt_string(v, "quant") : NULL;
    o->scales = opt_string(v, "scales");
    o->kv_cache_type = opt_string(v, "kv-cache-type");
    o->kv_cache_dtype = opt_string(v, "kv-cache-dtype");
    o->op_config = opt_string(v, "op-config");
    o->attention_backend = opt_string(v, "attention-backend");
    o->isa = opt_string(v, "isa");
    o->threads = (int)opt_int(v, "threads");
    o->max_model_len = opt_int(v, "max-model-len");
    o->kv_cache_memory = opt_float(v, "kv-cache-memory");
    o->kv_cache_unbounded = 1;
    o->kv_cache_layout = opt_string(v, "kv-cache-layout");
    o->block_size = opt_int(v, "block-size");
    o->bmc_splits = opt_int(v, "bmc-splits");
    o->kv_sparse = opt_string(v, "kv-sparse");
    o->kv_store = opt_string(v, "kv-store");
    o->kv_store_size = opt_float(v, "kv-store-size");
    o->max_batched_tokens = opt_int(v, "max-num-batched-tokens");
    return opt_flag(v, "pack-cache") ? packing_cache(l, e) : 0;
}

void load_scheduling(const struct opt_values *v, struct gallop_options *o)
{
    o->max_num_seqs = opt_int(v, "max-num-seqs");
    o->scheduling_policy = opt_string(v, "scheduling-policy");
    o->scheduler = opt_string(v, "scheduler");
    o->admission = opt_string(v, "admission");
    o->tpot_target_ms = opt_float(v, "tpot-target-ms");
    o->max_num_queued_reqs = opt_int(v, "max-num-queued-reqs");
    o->max_num_queued_tokens = opt_int(v, "max-num-queued-tokens");
    o->prefix_index = options_prefix_index(v);
}

int load_engine(struct load *l, struct checkpoint *model, struct gallop **g, struct err *e)
{
    struct print_bar bar = {.what = "loading"};
    int rc;

    l->o.progress = print_progress;
    l->o.progress_ctx = &bar;
    rc = engine_open(g, &l->o, model, e);
    print_bar_end(&bar);
    if (rc == 0 && engine_info(*g)->headless && !l->headless) {
        rc = err_set(e, ERR_UNSUPPORTED, "%s", engine_info(*g)->headless);
        gallop_close(*g);
        *g = NULL;
    }
    return rc;
}
