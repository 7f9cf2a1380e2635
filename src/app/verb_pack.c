/* verb_pack.c - `gallop pack` and `gallop quantize`: a checkpoint as a file that later starts map. */
#include <jansson.h>
#include <string.h>

#include "app/load.h"
#include "app/options.h"
#include "app/packing.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"

static const struct opt_row rows[] = {
    {"output", 'o', OPT_STRING, "F.gallop", EVERYDAY, .help = "the file that is written"},
    {"split-size", 0, OPT_FLOAT, "GIB", EVERYDAY,
     .help = "weights go to further files F.gallop.1, F.gallop.2, ... of at most so many GiB",
     .otherwise = "one file", .range = "[0.001,1000000]",
     .manual = "A matrix that is larger has a file of its own."},
    {0}};

static void pack_print(const char *path, const struct packing_result *r, const struct opt_values *v)
{
    if (opt_flag(v, "json"))
        print_json(json_pack("{s:s,s:I,s:I,s:s,s:s}", "file", path, "files", (json_int_t)r->n_files, "bytes",
                             (json_int_t)r->bytes, "dtype", r->dtype, "quant", r->quant));
    else if (!opt_flag(v, "quiet"))
        print_fmt("%s: %.1f MB in %zu file%s, dtype %s, quant %s\n", path, (double)r->bytes / 1e6, r->n_files,
                  r->n_files == 1 ? "" : "s", r->dtype, r->quant);
}

static int run_as(const char *verb, const struct opt_values *v, struct err *e)
{
    const char *path = opt_string(v, "output");
    struct packing_result done;
    struct load l;
    int rc;

    if (!path)
        return err_set(e, ERR_USAGE, "%s: -o F.gallop is needed", verb);
    if (opt_flag(v, "pack-cache"))
        return err_set(e, ERR_USAGE, "%s: --pack-cache keeps what others run; -o says where this one goes",
                       verb);
    if (strcmp(verb, "quantize") == 0 &&
        (!opt_string(v, "quant") || strcmp(opt_string(v, "quant"), "none") == 0))
        return err_set(
            e, ERR_USAGE,
            "quantize: --quant is needed, as in int8; without one, or with none, gallop pack is meant");
    if ((rc = load_options(v, &l, e)) != 0 ||
        (rc = packing_write(&l, path, opt_float(v, "split-size"), opt_flag(v, "force"), &done, e)) != 0)
        return rc;
    pack_print(path, &done, v);
    return 0;
}

static int run_pack(const struct opt_values *v, struct err *e)
{
    return run_as("pack", v, e);
}

static int run_quantize(const struct opt_values *v, struct err *e)
{
    return run_as("quantize", v, e);
}

#define PACK_OPTIONS                                                                                     \
    (const struct opt_part[])                                                                            \
    {                                                                                                    \
        OPT_OTHER(options_model), OPT_OTHER(rows), OPT_OTHER(options_source), OPT_OTHER(options_engine), \
            OPT_OTHER(options_force), OPT_OTHER(options_json), OPT_OTHER(options_help),                  \
        {                                                                                                \
            0                                                                                            \
        }                                                                                                \
    }

const struct verb verb_pack = {
    .name = "pack",
    .summary = "a checkpoint as one file that starts at once",
    .arguments = "-m MODEL -o F.gallop [options]",
    .no_words = "options only",
    .manual =
        "Writes what a start makes of a checkpoint: its weights in the order in which they are computed with, in the "
        "type of --dtype and --quant, with its config, tokenizer and chat template. Other verbs take the file as "
        "their model (-m). They map it, so that several processes share one copy in memory, and need not prepare "
        "anything. It is the same on every processor. A file that was altered or cut is refused. Replace it, do not "
        "write into it: programs that run see what is written.",
    .options = PACK_OPTIONS,
    .run = run_pack,
};

const struct verb verb_quantize = {
    .name = "quantize",
    .summary = "the same with quantised weights (--quant)",
    .arguments = "-m MODEL --quant int8 -o F.gallop [options]",
    .no_words = "options only",
    .manual = "As gallop pack, which takes --quant too.",
    .options = PACK_OPTIONS,
    .run = run_quantize,
};
