/* options.c - the option rows that several verbs share, and checks of their values that need no model. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "app/load.h"
#include "app/options.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "engine/kv_sparse.h"
#include "engine/op_config.h"
#include "model/quant.h"

const char *const options_headings[] = {[EVERYDAY] = "Everyday",
                                        [SERVER] = "Server",
                                        [PROMPT] = "Prompt",
                                        [SAMPLING] = "Sampling",
                                        [LOAD] = "Load",
                                        [MODEL] = "Model",
                                        [SCHEDULING] = "Scheduling",
                                        [CACHE] = "Cache and memory",
                                        [COMPUTING] = "Computing",
                                        [OUTPUT] = "Output",
                                        NULL};

#define FLOAT16_REFUSAL                                                                                      \
    "but nothing is computed in float16: expected bf16 (as fast, and large values do not overflow) or fp32 " \
    "(exact)"

const struct opt_row options_model[] = {
    {"model", 'm', PARAM_TEXT, "MODEL", EVERYDAY,
     .help =
         "model to use: a checkpoint folder, a .gguf file, a packed .gallop file, or the name of a model on the "
         "Hugging Face hub, org/name[@revision][:FILE.gguf]",
     .otherwise = "the bundled demo model", .env = "GALLOP_MODEL",
     .manual =
         "A name is looked up on the hub if there is no folder or file of that name. A colon chooses a file of a "
         "repository with several GGUF files, by its name (org/name:FILE.gguf) or its quantization "
         "(org/name:Q4_K_M).",
     OPT_INTO(struct load, name), OPT_SOURCE(struct load, name_source)},
    {0}};

/* ---- macros that make option rows from the rows of options.def and sampling.def ---- */

/* clang-format off */
#define FLAG(...) __VA_ARGS__
#define ROW(...)  ROW_OF(__VA_ARGS__)
#define ROW_OF(type, values_, help_, name, brief, arg, ...) \
    {name, brief, type, arg, __VA_ARGS__, .help = help_, .values = values_
/* clang-format on */

/* ---- engine options: the rows of engine/options.def ---- */

/* vLLM's and PyTorch's names of the data types. */
static const struct opt_word dtype_words[] = {{"bfloat16", "bf16", NULL},
                                              {"float32", "fp32", NULL},
                                              {"float", "fp32", NULL},
                                              {"float16", NULL, FLOAT16_REFUSAL},
                                              {"half", NULL, FLOAT16_REFUSAL},
                                              {"fp16", NULL, FLOAT16_REFUSAL},
                                              {NULL, NULL, NULL}};

/* clang-format off */
#define SOURCE(member) OPT_SOURCE(struct load, member)
#define ENGINE_ROW(member, type, values, place, help, flag) \
    ROW(type, values, help, flag), OPT_INTO(struct load, o.member)},
const struct opt_row options_source[] = {
#define SOURCE_OPTION ENGINE_ROW
#include "engine/options.def"
    {0}};

const struct opt_row options_engine[] = {
#define ENGINE_OPTION ENGINE_ROW
#include "engine/options.def"
    {"pack-cache", 0, PARAM_FLAG, NULL, MODEL,
     .help =
         "load fast from a packed copy of the checkpoint; the first start writes the copy, as gallop pack does",
     .env = "GALLOP_PACK_CACHE",
     .manual =
         "The copies lie in gallop/packed under $XDG_CACHE_HOME or ~/.cache: one for each combination of checkpoint, "
         "--dtype, --quant and --op-config, as large as the weights. When a file of the checkpoint changes, a new "
         "copy is written. Copies that are not used any more may be deleted.",
     OPT_INTO(struct load, pack_cache)},
    {0}};

const struct opt_row options_scheduling[] = {
#define SCHEDULING_OPTION ENGINE_ROW
#include "engine/options.def"
    {"enable-prefix-caching", 0, PARAM_FLAG, NULL, CACHE,
     .help = "accepted for compatibility with vLLM; prefix caching is on by default, see --prefix-index"},
    {"no-enable-prefix-caching", 0, PARAM_FLAG, NULL, CACHE,
     .help = "turn prefix caching off; vLLM's name for --prefix-index none",
     OPT_INTO(struct load, no_prefix_caching)},
    {0}};
/* clang-format on */

/* ---- sampling fields: the rows of engine/sampling/sampling.def ---- */

/* clang-format off */
#define OF_STRINGS PARAM_TEXT, NULL
#define OF_IDS     PARAM_INT, "[0,2147483647]"
#define OF_BIASES  PARAM_TEXT, NULL
#define INTO(field, member) \
    OPT_INTO(struct options_sampling, s.member), OPT_MARK(struct options_sampling, s.given, SAMPLING_##field)
#define SAMPLING_FIELD(field, member, draws, kind, type, values, neutral, access, help, flag, request) \
    ROW(type, values, help, flag), INTO(field, member)},
#define SAMPLING_LIST(field, name, member, kind, most, bytes, access, help, flag) \
    ROW(OF_##kind, help, flag), .repeat = true, OPT_INTO(struct options_sampling, name)},
const struct opt_row options_sampling[] = {
#include "engine/sampling/sampling.def"
    {0}};
/* clang-format on */

const struct opt_row options_force[] = {
    {"force", 0, PARAM_FLAG, NULL, OUTPUT,
     .help = "overwrite existing files; otherwise an existing file or a folder that is not empty is refused",
     OPT_INTO(struct options_output, force)},
    {0}};

const struct opt_row options_json[] = {
    {"json", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help = "print the results as JSON, and nothing else on standard output",
     OPT_INTO(struct options_output, json)},
    {0}};

const struct opt_row options_help[] = {
    {"quiet", 'q', PARAM_FLAG, NULL, OUTPUT, .help = "print no progress, remarks or warnings",
     OPT_INTO(struct options_output, quiet)},
    {"help", 'h', PARAM_TEXT, "[all]", EVERYDAY, .help = "print this page; --help all explains every option",
     .values = "all", .bare = true, OPT_INTO(struct options_output, help)},
    {0}};

const struct opt_row *const options_shared[] = {options_model,      options_source,   options_engine,
                                                options_scheduling, options_sampling, options_force,
                                                options_json,       options_help,     NULL};

/* ---- the options of an engine ---- */

/* The engine makes the same checks when it is opened, but returns ERR_INPUT. Wrong options on the command
 * line are ERR_USAGE. */
int options_check_engine(const struct gallop_options *o, struct err *e)
{
    struct op_config ops = {0};
    struct kv_sparse sparse;
    struct quant_map quant;
    int rc;

    if (o->block_size & (o->block_size - 1))
        return err_set(e, ERR_USAGE, "--block-size: found %lld, expected a power of two",
                       (long long)o->block_size);
    if ((rc = quant_read(&quant, o->quant, e)) == 0 && (rc = kv_sparse_read(&sparse, o->kv_sparse, e)) == 0) {
        rc = op_config_read(&ops, o->op_config, o->attention_backend, e);
        op_config_fini(&ops);
    }
    return rc == ERR_INPUT ? (e->code = ERR_USAGE) : rc;
}

/* ---- the options of sampling ---- */

/* Returns X, a value of the repeatable option F, as JSON. NULL: X is not valid, and E has the error. */
static json_t *list_item(const struct sampling_row *f, const struct param_value *x, struct err *e)
{
    char *end, *stop;
    double value;
    long id;

    if (f->list == SAMPLING_IDS)
        return json_integer(x->i);
    if (f->list == SAMPLING_STRINGS && err_utf8(e, "the text", x->text, strlen(x->text)) == 0)
        return json_string(x->text);
    if (f->list == SAMPLING_STRINGS)
        return err_subject(e, f->param.name), NULL;
    id = strtol(x->text, &end, 10);
    value = *end == '=' ? strtod(end + 1, &stop) : 0;
    if (end != x->text && *end == '=' && stop != end + 1 && *stop == 0 && isfinite(value))
        return json_pack("[I,f]", (json_int_t)id, value);
    err_about(e, ERR_USAGE, f->param.name, "found '%s', expected ID=V", x->text);
    return NULL;
}

/* Adds LIST, the values of the repeatable option F, to the JSON object ALL. */
static void add_list(json_t *all, enum sampling_field f, const struct param_list *list, struct err *e)
{
    json_t *values = json_array();

    for (size_t i = 0; i < list->n && e->code == 0; i++)
        if (json_array_append_new(values, list_item(&sampling_row[f], &list->value[i], e)) != 0 && !e->code)
            err_nomem(e, "options");
    if (list->n)
        json_object_set(all, sampling_row[f].param.name, values);
    json_decref(values);
}

/* Converts the values of repeatable options to the JSON of a batch line, and reads this JSON. So one function
 * sorts and checks lists from the command line and from requests. */
static int read_lists(struct options_sampling *o, struct arena *a, struct err *e)
{
    struct err why = {0}; /* *E may still hold an earlier error, which was handled */
    json_t *all = json_object();

#define SAMPLING_LIST(field, name, ...) add_list(all, SAMPLING_##field, &o->name, &why);
#include "engine/sampling/sampling.def"
    if (why.code == 0)
        sampling_set_json(&o->s, all, "the options", a, &why);
    json_decref(all);
    if (why.code)
        *e = why;
    return why.code == ERR_INPUT ? (e->code = ERR_USAGE) : why.code;
}

/* Warns of options that --greedy overrides. */
static void remark_greedy(const struct sampling *s)
{
    for (int f = 0; f < SAMPLING_N_FIELDS && s->greedy; f++)
        if ((sampling_row[f].draws || f == SAMPLING_DO_SAMPLE) && sampling_given(s, (enum sampling_field)f)) {
            char flag[64];

            snprintf(flag, sizeof(flag), "%s", sampling_row[f].param.name);
            for (char *p = flag; *p; p++)
                *p = (char)(*p == '_' ? '-' : *p);
            log_warn("--%s changes nothing with --greedy", flag);
        }
}

void options_sampling_init(struct options_sampling *o)
{
    *o = (struct options_sampling){.stop.n = 0};
    sampling_default(&o->s);
}

int options_sampling_finish(struct options_sampling *o, struct arena *a, struct err *e)
{
    remark_greedy(&o->s);
    return read_lists(o, a, e);
}

int options_draw_seed(struct sampling *s, const struct sampling *config, bool *drawn, struct err *e)
{
    struct sampling merged;
    uint32_t seed;

    sampling_merge(&merged, s, config);
    *drawn = !sampling_is_greedy(&merged);
    if (!*drawn || sampling_given(&merged, SAMPLING_SEED))
        return 0;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        return err_os(e, "read", "the system's random numbers");
    s->seed = seed;
    sampling_mark(s, SAMPLING_SEED);
    return 0;
}

/* ---- errors of the engine ---- */

/* Members of struct gallop_options whose command-line options have different names. */
static const struct {
    const char *member, *flag;
} flags[] = {{"max_batched_tokens", "max-num-batched-tokens"}};

/* Returns the row of LIST for MEMBER [n] of struct gallop_options, or NULL. */
static const struct opt_row *row_of_member(const struct opt_part *list, const char *member, size_t n)
{
    char flag[ERR_SUBJECT_BYTES];

    if (n == 0 || n >= sizeof(flag))
        return NULL;
    for (size_t i = 0; i < n; i++)
        flag[i] = member[i] == '_' ? '-' : member[i];
    flag[n] = 0;
    for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]); k++)
        if (strlen(flags[k].member) == n && memcmp(flags[k].member, member, n) == 0)
            snprintf(flag, sizeof(flag), "%s", flags[k].flag);
    for (; list->rows; list++)
        for (const struct opt_row *r = list->rows; r->name; r++)
            if (strcmp(r->name, flag) == 0)
                return r;
    return NULL;
}

/* Returns whether C can be part of a word, file name or quotation. If such a character stands beside a name
 * in an error sentence, the name is only a part of a longer word, and does not name an option. */
static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_-./\"'", c));
}

void options_error_text(const struct opt_part *list, const struct err *e, char *out, size_t size)
{
    const struct opt_row *r = row_of_member(list, e->subject, strlen(e->subject));
    struct buf text = {.tag = MEM_APP};

    if (!e->subject[0]) { /* the error is about a file, not about an option */
        err_text(e, out, size);
        return;
    }
    buf_fmt(&text, "%s%s: ", r ? "--" : "", r ? r->name : e->subject);
    for (const char *at = e->msg, *end; *at;
         at = end) { /* replaces the names of further members in the sentence */
        for (end = at + 1; is_of_word(*at) && is_of_word(*end);)
            end++;
        r = memchr(at, '_', (size_t)(end - at)) ? row_of_member(list, at, (size_t)(end - at)) : NULL;
        if (r)
            buf_fmt(&text, "--%s", r->name);
        else
            buf_add(&text, at, (size_t)(end - at));
    }
    if (text.oom || !text.data)
        err_text(e, out, size);
    else
        snprintf(out, size, "%s", text.data);
    buf_fini(&text);
}
