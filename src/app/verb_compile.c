/* verb_compile.c - `gallop compile`: compiles the programs of a model for a PJRT device into the cache folder. */
#include <jansson.h>
#include <stdbool.h>

#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/err.h"
#include "engine/engine_priv.h"
#include "engine/pjrt/frames.h"

struct compile_options {
    struct load load;
    struct options_output out;
};

static int compile_run(const struct opt_values *v, struct err *e)
{
    struct compile_options o = {.out.json = false};
    struct frames_stats s;
    struct gallop *g = NULL;
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    o.load.o.executor = "pjrt";
    if ((rc = load_prepare(&o.load, e)) != 0 || (rc = load_engine(&o.load, NULL, &g, e)) != 0)
        return rc;
    frames_stats(engine_frames(g), &s);
    if (s.n_kept + s.n_loaded < s.n_programs)
        rc = err_set(e, ERR_OS, "compile: %zu of %zu programs could not be kept in the cache folder",
                     s.n_programs - s.n_kept - s.n_loaded, s.n_programs);
    else if (o.out.json)
        print_json(json_pack("{s:I,s:I,s:I,s:f}", "programs", (json_int_t)s.n_programs, "compiled",
                             (json_int_t)s.n_compiled, "loaded", (json_int_t)s.n_loaded, "compile_s",
                             s.compile_s));
    else
        print_fmt("%zu programs for %s: %zu compiled, %zu already in the cache folder, %.2f s\n",
                  s.n_programs, s.kind, s.n_compiled, s.n_loaded, s.compile_s);
    gallop_close(g);
    return rc;
}

const struct verb verb_compile = {
    .name = "compile",
    .summary = "compile a model for a PJRT device, ahead of --executor pjrt",
    .arguments = "-m MODEL --pjrt-plugin PATH [options]",
    .no_words = "options only",
    .manual =
        "Compiles the programs that --executor pjrt needs for a model and the same options, and keeps them in the "
        "cache folder (gallop/pjrt under $XDG_CACHE_HOME or ~/.cache), so that a later start only reads them. "
        "Programs that are there already are not compiled again. The options that programs depend on are --dtype, "
        "--max-model-len, --max-num-seqs, --max-num-batched-tokens and the buckets.",
    .options = (const struct opt_part[]){OPT_PART(struct compile_options, load, options_model),
                                         OPT_PART(struct compile_options, load, options_source),
                                         OPT_PART(struct compile_options, load, options_engine),
                                         OPT_PART(struct compile_options, load, options_scheduling),
                                         OPT_PART(struct compile_options, out, options_json),
                                         OPT_PART(struct compile_options, out, options_help), OPT_END},
    .run = compile_run,
};
