/* verb_pack.c - `gallop pack` and `gallop quantize`: write a checkpoint as a packed file. When gallop is
 * started with that file, the weights are mapped into memory. */
#include <jansson.h>
#include <string.h>

#include "app/load.h"
#include "app/options.h"
#include "app/packing.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"

struct pack_options {
    struct load load;
    struct options_output out;
    const char *output;
    double split_gib; /* 0: one file */
};

#define INTO(member) OPT_INTO(struct pack_options, member)

static const struct opt_row rows[] = {
    {"output", 'o', PARAM_TEXT, "F.gallop", EVERYDAY, .help = "packed file to write", INTO(output)},
    {"split-size", 0, PARAM_REAL, "GIB", EVERYDAY,
     .help =
         "write the weights to further files F.gallop.1, F.gallop.2, ..., each of at most this size in GiB",
     .otherwise = "one file", .values = "[0.001,1000000]",
     .manual = "A matrix that is larger has a file of its own.", INTO(split_gib)},
    {0}};

static void pack_print(const char *path, const struct packing_result *r, const struct options_output *out)
{
    if (out->json)
        print_json(json_pack("{s:o,s:I,s:I,s:s,s:s}", "file", print_json_text(path), "files",
                             (json_int_t)r->n_files, "bytes", (json_int_t)r->bytes, "dtype", r->dtype,
                             "quant", r->quant));
    else if (!out->quiet)
        print_fmt("%s: %.1f MB in %zu file%s, dtype %s, quant %s\n", path, (double)r->bytes / 1e6, r->n_files,
                  r->n_files == 1 ? "" : "s", r->dtype, r->quant);
}

static int run_as(const char *verb, const struct opt_values *v, struct err *e)
{
    struct pack_options o = {.output = NULL};
    const struct gallop_options *engine = &o.load.o;
    struct packing_result done;
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    if (!o.output)
        return err_set(e, ERR_USAGE, "%s: -o F.gallop is needed", verb);
    if (o.load.pack_cache)
        return err_set(e, ERR_USAGE,
                       "%s: --pack-cache is for verbs that run a model, expected -o F.gallop alone", verb);
    if (strcmp(verb, "quantize") == 0 && (!engine->quant || strcmp(engine->quant, "none") == 0))
        return err_set(
            e, ERR_USAGE,
            "quantize: --quant is needed, such as --quant int8; gallop pack writes a checkpoint without it");
    if ((rc = load_prepare(&o.load, e)) != 0 ||
        (rc = packing_write(&o.load, o.output, o.split_gib, o.out.force, &done, e)) != 0)
        return rc;
    pack_print(o.output, &done, &o.out);
    return 0;
}

static const struct opt_part table[] = {
    OPT_PART(struct pack_options, load, options_model),  OPT_OWN(struct pack_options, rows),
    OPT_PART(struct pack_options, load, options_source), OPT_PART(struct pack_options, load, options_engine),
    OPT_PART(struct pack_options, out, options_force),   OPT_PART(struct pack_options, out, options_json),
    OPT_PART(struct pack_options, out, options_help),    OPT_END};

static int run_pack(const struct opt_values *v, struct err *e)
{
    return run_as("pack", v, e);
}

static int run_quantize(const struct opt_values *v, struct err *e)
{
    return run_as("quantize", v, e);
}

const struct verb verb_pack = {
    .name = "pack",
    .summary = "write a checkpoint as one packed file that loads at once",
    .arguments = "-m MODEL -o F.gallop [options]",
    .no_words = "options only",
    .manual =
        "Writes a packed checkpoint: the weights in the order in which kernels read them, in the types of --dtype and "
        "--quant, with the config, the tokenizer and the chat template. Other verbs take the file as their model "
        "(-m). They map it into memory, so loading takes no time and several processes share one copy. The file is "
        "the same on every processor. A file that was altered or truncated is refused. Replace a packed file that is "
        "in use instead of writing into it, because running programs would see the change.",
    .options = table,
    .run = run_pack,
};

const struct verb verb_quantize = {
    .name = "quantize",
    .summary = "write a packed file with quantized weights (--quant)",
    .arguments = "-m MODEL --quant int8 -o F.gallop [options]",
    .no_words = "options only",
    .manual = "Writes a packed checkpoint with quantized weights: gallop pack, but --quant is required.",
    .options = table,
    .run = run_quantize,
};
