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
    {"model", 'm', OPT_STRING, "MODEL", EVERYDAY,
     .help = "checkpoint folder, .gguf or packed .gallop file, or org/name[@revision][:FILE.gguf] on the hub",
     .otherwise = "the bundled demo model", .env = "GALLOP_MODEL",
     .manual =
         "A name is looked for on the hub where there is no folder or file of that name. Of a repository "
         "of GGUF files one is named behind a colon, by its name (org/name:FILE.gguf) or its quantisation "
         "(org/name:Q4_K_M).",
     OPT_INTO(struct load, name), OPT_SOURCE(struct load, name_source)},
    {0}};

const struct opt_row options_source[] = {
    {"revision", 0, OPT_STRING, "REV", MODEL,
     .help = "branch, tag or commit of a model on the Hugging Face hub", .otherwise = "main",
     OPT_INTO(struct load, revision)},
    {"allow-links", 0, OPT_FLAG, NULL, MODEL,
     .help = "follow links of the model's folder that lead out of it, as to shared storage",
     .manual = "Otherwise they are refused, but for those of the Hugging Face cache.",
     OPT_INTO(struct load, o.allow_links)},
    {0}};

/* The names that vLLM and PyTorch have for the types. */
static const struct opt_word dtype_words[] = {{"bfloat16", "bf16", NULL},
                                              {"float32", "fp32", NULL},
                                              {"float", "fp32", NULL},
                                              {"float16", NULL, FLOAT16_REFUSAL},
                                              {"half", NULL, FLOAT16_REFUSAL},
                                              {"fp16", NULL, FLOAT16_REFUSAL},
                                              {NULL, NULL, NULL}};

const struct opt_row options_engine[] = {
    {"dtype", 0, OPT_CHOICE, NULL, EVERYDAY,
     .help = "computing type of linears and KV cache: auto is bf16, or what a packed checkpoint has; fp32 is "
             "the exact mode",
     .choices = "auto|fp32|bf16", .words = dtype_words, .fallback = "auto", .env = "GALLOP_DTYPE",
     .manual = "bfloat16 and float32 are other names of bf16 and fp32. Checkpoints stored in float16 are "
               "computed in bf16 or fp32.",
     OPT_INTO(struct load, o.dtype)},
    {"quant", 0, OPT_STRING, "Q", EVERYDAY,
     .help = "weights of the linears: none, int8, int8-static, int4, int4-g128, mxfp4, or an object of JSON "
             "by kind of operator",
     .otherwise = "what the checkpoint has", .env = "GALLOP_QUANT",
     .manual =
         "Weights that a GGUF file has in a quantized format keep their bits "
         "and their size unless fp32 (--dtype) or none is asked for, and what goes into them becomes integers of 8 "
         "bits, 32 with a scale of their own. int8 computes linears in integers: weights with a scale a column, what "
         "goes into them with a scale a row, found as it comes (dynamic W8A8). int8-static takes scales that gallop "
         "calibrate found (--scales). int4: weights of 4 bits, 32 with a multiple and an offset of their own on the "
         "grid of int8 (W4A8), rounded by what gallop calibrate saw, if --scales is given; int4-g128: 128. mxfp4: "
         "weights of 4 bits, 32 with a power of two; what goes into them becomes integers as it does for GGUF's, or "
         "stays fp32 with --dtype fp32. What a GGUF file has in two to six bits keeps them under int4. The "
         "language model head is int8 with int4 and mxfp4. An object "
         "says it for each kind of operator, qkv_projection, out_projection, mlp and "
         "lm_head: {\"mlp\":\"int4\",\"qkv_projection\":\"int8\"}; kinds that it leaves out stay as the checkpoint has "
         "them. Routers, and experts stored in MXFP4, stay as they are.",
     OPT_INTO(struct load, o.quant)},
    {"scales", 0, OPT_STRING, "F", MODEL,
     .help = "what gallop calibrate wrote, for --quant int8-static or int4", .env = "GALLOP_SCALES",
     .manual =
         "int8-static needs it; int4 rounds with a fraction of the loss. A checkpoint that is packed with it needs it "
         "no more.",
     OPT_INTO(struct load, o.scales)},
    {"pack-cache", 0, OPT_FLAG, NULL, MODEL,
     .help =
         "start from a packed copy of the checkpoint (gallop pack) in the cache, which the first start makes",
     .env = "GALLOP_PACK_CACHE",
     .manual =
         "It lies in gallop/packed under $XDG_CACHE_HOME or ~/.cache, one for each checkpoint, --dtype, --quant and "
         "--op-config, and is as large as the weights. Another is made when a file of the checkpoint changes; what is "
         "not used any more may be deleted.",
     OPT_INTO(struct load, pack_cache)},
    {"max-model-len", 0, OPT_INT, "N", EVERYDAY, .help = "context length: tokens of prompt and answer",
     .otherwise = "the model's", .range = "[2,1073741824]",
     .manual = "A KV cache that cannot hold one such sequence is refused.",
     OPT_INTO(struct load, o.max_model_len)},
    {"kv-cache-type", 0, OPT_CHOICE, NULL, CACHE,
     .help =
         "where the KV cache lies: one pool of blocks, pages that can be shared, or a region a sequence that doubles "
         "or grows in splits",
     .choices = "dynamic|bmc|slab_pool|paged", .fallback = "slab_pool", .env = "GALLOP_KV_CACHE_TYPE",
     OPT_INTO(struct load, o.kv_cache_type)},
    {"kv-cache-dtype", 0, OPT_CHOICE, NULL, CACHE,
     .help = "type of the cached rows; auto is the computing type, int4 loses much on small models",
     .choices = "auto|fp32|bf16|int8|int4", .words = dtype_words, .fallback = "auto",
     OPT_INTO(struct load, o.kv_cache_dtype)},
    {"kv-cache-memory", 0, OPT_FLOAT, "GIB", CACHE, .help = "memory of the KV cache, taken at once",
     .otherwise =
         "what the sequences can need, within half of what weights and scratch leave, taken as it fills",
     .range = "(0,1048576]", .env = "GALLOP_KV_CACHE_MEMORY", OPT_INTO(struct load, o.kv_cache_memory)},
    {"kv-cache-layout", 0, OPT_CHOICE, NULL, CACHE,
     .help = "order of heads and blocks in slab_pool and paged", .choices = "head_major|block_major",
     .fallback = "block_major", .env = "GALLOP_KV_CACHE_LAYOUT", OPT_INTO(struct load, o.kv_cache_layout),
     OPT_SOURCE(struct load, layout_source)},
    {"kv-store", 0, OPT_STRING, "DIR", CACHE,
     .help =
         "keep blocks of the KV cache in this folder, or on redis://host[:port][/db], for later and for others",
     .otherwise = "nowhere", .env = "GALLOP_KV_STORE",
     .manual =
         "Only for slab_pool and paged with a prefix index. Programs that compute the same model in the same "
         "way may share it. What is read is checked, but whoever can write there can make answers wrong.",
     OPT_INTO(struct load, o.kv_store)},
    {"kv-store-size", 0, OPT_FLOAT, "GIB", CACHE, .help = "most that a folder of --kv-store may hold",
     .fallback = "16", .range = "(0,1048576]", .env = "GALLOP_KV_STORE_SIZE",
     OPT_INTO(struct load, o.kv_store_size)},
    {"block-size", 0, OPT_INT, "N", CACHE, .help = "rows of a KV block, a power of two",
     .otherwise = "by the level 2 cache and windows", .range = "[16,256]",
     OPT_INTO(struct load, o.block_size), OPT_SOURCE(struct load, block_size_source)},
    {"bmc-splits", 0, OPT_INT, "N", CACHE, .help = "in how many parts a bmc cache grows",
     .otherwise = "the root of the longest sequence", .range = "[1,1073741824]", .env = "GALLOP_BMC_SPLITS",
     OPT_INTO(struct load, o.bmc_splits), OPT_SOURCE(struct load, splits_source)},
    {"kv-sparse", 0, OPT_STRING, "SPEC", CACHE,
     .help = "keep and see only the first 4 and the last 1024 rows of a sequence (sink=4,window=1024)",
     .otherwise = "all", .env = "GALLOP_KV_SPARSE",
     .manual = "This is StreamingLLM. The two come in either order, and hold in all layers without a smaller "
               "window of their own. Memory and time of a token stop growing with the sequence; what lies "
               "between is forgotten. Not for models with learned positions or a dynamic rope.",
     OPT_INTO(struct load, o.kv_sparse)},
    {"threads", 0, OPT_INT, "N", EVERYDAY, .help = "compute threads",
     .otherwise = "physical cores of the allowed set", .range = "[1,1024]", .env = "GALLOP_THREADS",
     OPT_INTO(struct load, o.threads)},
    {"isa", 0, OPT_STRING, "NAME", COMPUTING,
     .help = "at most this instruction set: ref, avx2, avx512, avx512vnni, avx512bf16 or amx",
     .otherwise = "the fastest here", .env = "GALLOP_ISA",
     .manual = "The fastest need not be the highest that the machine has.", OPT_INTO(struct load, o.isa)},
    {"max-num-batched-tokens", 0, OPT_INT, "N", COMPUTING,
     .help =
         "rows of a step, of requests at most 512 (so that a step stays short) or one a sequence; longer prompts are "
         "computed in chunks of it",
     .otherwise = "512", .range = "[1,65536]", OPT_INTO(struct load, o.max_batched_tokens)},
    {"op-config", 0, OPT_STRING, "JSON", COMPUTING,
     .help = "backend per operator kind, e.g. {\"norm\":\"native\"}",
     .manual =
         "The kinds are norm, qkv_projection, rope, attention, out_projection, mlp and lm_head, or PACE's "
         "names of them (mlp_backend). Every kind has gallop and native, the portable reference; the linears "
         "also tpp (LIBXSMM) and jit (oneDNN), where this build has them, and mlp imbps, which cuts the "
         "intermediate of a dense MLP into splits that stay in cache, in fp32 and bf16.",
     OPT_INTO(struct load, o.op_config)},
    {"attention-backend", 0, OPT_STRING, "NAME", COMPUTING,
     .help = "attention backend: auto, gallop, native, or as in PACE jit, slab, paged",
     .otherwise = "what --op-config says, else auto", OPT_INTO(struct load, o.attention_backend)},
    {0}};

const struct opt_row options_scheduling[] = {
    {"max-num-seqs", 0, OPT_INT, "N", SCHEDULING, .help = "requests computed at once", .fallback = "32",
     .range = "[1,4096]", OPT_INTO(struct load, o.max_num_seqs), OPT_SOURCE(struct load, max_num_seqs_given)},
    {"scheduling-policy", 0, OPT_CHOICE, NULL, SCHEDULING,
     .help = "who is next: by arrival, by priority, or the keys of requests in turn",
     .choices = "fcfs|priority|fair", .fallback = "fcfs",
     .manual =
         "A smaller priority goes first, and a request gains one for each minute it waits. The turns of keys are "
         "counted in computed tokens (deficit round robin).",
     OPT_INTO(struct load, o.scheduling_policy)},
    {"scheduler", 0, OPT_CHOICE, NULL, SCHEDULING,
     .help =
         "what a step computes: streams and chunks of prompts, nothing but prompts while there are some, or one "
         "request at a time",
     .choices = "continuous_batch|continuous_prefill_first|iterative", .fallback = "continuous_batch",
     OPT_INTO(struct load, o.scheduler)},
    {"admission", 0, OPT_CHOICE, NULL, SCHEDULING,
     .help =
         "begin requests when there is room for what they have, or for all they may become, so that none is "
         "computed twice",
     .choices = "optimistic|worst-case", .fallback = "optimistic", OPT_INTO(struct load, o.admission)},
    {"tpot-target-ms", 0, OPT_FLOAT, "MS", SCHEDULING,
     .help = "size chunks of prompts so that a step in which streams go on stays below", .fallback = "700",
     .range = "(0,1000000]", OPT_INTO(struct load, o.tpot_target_ms)},
    {"max-num-queued-reqs", 0, OPT_INT, "N", SCHEDULING, .help = "requests that may wait; more are refused",
     .otherwise = "any number; in serve 1024", .range = "[1,2147483647]",
     OPT_INTO(struct load, o.max_num_queued_reqs)},
    {"max-num-queued-tokens", 0, OPT_INT, "N", SCHEDULING, .help = "tokens of prompts that may wait",
     .otherwise = "any number", .range = "[1,2147483647]", OPT_INTO(struct load, o.max_num_queued_tokens)},
    {"prefix-index", 0, OPT_CHOICE, NULL, CACHE,
     .help =
         "what slab_pool and paged reuse of earlier prompts and answers where a request begins alike: every row "
         "(radix), whole blocks only (hash), or nothing",
     .choices = "radix|hash|none", .fallback = "radix", OPT_INTO(struct load, o.prefix_index)},
    {"enable-prefix-caching", 0, OPT_FLAG, NULL, CACHE,
     .help = "vLLM's name for what is on by itself; --prefix-index says how"},
    {"no-enable-prefix-caching", 0, OPT_FLAG, NULL, CACHE, .help = "vLLM's name for --prefix-index none",
     OPT_INTO(struct load, no_prefix_caching)},
    {0}};

/* ---- sampling fields: the rows of engine/sampling.def ---- */

/* clang-format off */
#define BOOL        OPT_FLAG
#define COUNT       OPT_INT
#define UINT64      OPT_UINT
#define INTEGER     OPT_INT
#define NUMBER      OPT_FLOAT
#define DRAW_COUNT  OPT_INT
#define DRAW_NUMBER OPT_FLOAT
#define STRINGS     OPT_STRING, NULL
#define IDS         OPT_INT, "[0,2147483647]"
#define BIASES      OPT_STRING, NULL
#define ANY()            NULL
#define FROM(lo)         "[" #lo ",inf)"
#define ABOVE(lo)        "(" #lo ",inf)"
#define FROM_TO(lo, hi)  "[" #lo "," #hi "]"
#define ABOVE_TO(lo, hi) "(" #lo "," #hi "]"
#define FLAG(...) __VA_ARGS__
#define ROW(...)  ROW_OF(__VA_ARGS__)
#define ROW_OF(type, range_, help_, name, brief, arg, ...) \
    {name, brief, type, arg, __VA_ARGS__, .help = help_, .range = range_
#define INTO(field, member) \
    OPT_INTO(struct options_sampling, s.member), OPT_MARK(struct options_sampling, s.given, SAMPLING_##field)
#define SAMPLING_FIELD(field, member, kind, range, neutral, access, help, flag, request) \
    ROW(kind, range, help, flag), INTO(field, member)},
#define SAMPLING_LIST(field, name, member, kind, most, bytes, access, help, flag) \
    ROW(kind, help, flag), .repeat = true, OPT_INTO(struct options_sampling, name)},
const struct opt_row options_sampling[] = {
#include "engine/sampling.def"
    {0}};
#undef BOOL
#undef COUNT
#undef UINT64
#undef INTEGER
#undef NUMBER
#undef DRAW_COUNT
#undef DRAW_NUMBER
#undef STRINGS
#undef IDS
#undef BIASES
/* clang-format on */

const struct opt_row options_force[] = {
    {"force", 0, OPT_FLAG, NULL, OUTPUT,
     .help = "replace an existing file, or the files of a folder that is not empty",
     OPT_INTO(struct options_output, force)},
    {0}};

const struct opt_row options_json[] = {{"json", 0, OPT_FLAG, NULL, EVERYDAY,
                                        .help = "print JSON and nothing else on standard output",
                                        OPT_INTO(struct options_output, json)},
                                       {0}};

const struct opt_row options_help[] = {
    {"quiet", 'q', OPT_FLAG, NULL, OUTPUT, .help = "print no progress, remarks or warnings",
     OPT_INTO(struct options_output, quiet)},
    {"help", 'h', OPT_STRING, "[all]", EVERYDAY, .help = "print this page; all: with every option",
     .bare = true, OPT_INTO(struct options_output, help)},
    {0}};

const struct opt_row *const options_shared[] = {options_model,      options_source,   options_engine,
                                                options_scheduling, options_sampling, options_force,
                                                options_json,       options_help,     NULL};

/* ---- the options of an engine ---- */

/* The engine checks the same, but treats options as input; here errors are wrong usage. */
int options_check_engine(const struct gallop_options *o, struct err *e)
{
    struct op_config ops = {0};
    struct kv_sparse sparse;
    struct quant_map quant;
    char guess[64];
    enum cpu_isa level;
    int rc;

    if (o->isa && !cpu_isa_of_name(o->isa, &level))
        return err_set(e, ERR_USAGE,
                       "--isa: found '%s', expected one of ref, avx2, avx512, avx512vnni, avx512bf16, amx%s",
                       o->isa,
                       opt_guess(o->isa, "ref|avx2|avx512|avx512vnni|avx512bf16|amx", guess, sizeof(guess)));
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

/* Returns the value X of a list F as JSON; NULL and an error in E if it is not valid. */
static json_t *list_item(const struct sampling_row *f, const struct opt_value *x, struct err *e)
{
    char *end, *stop;
    double value;
    long id;

    if (f->kind == SAMPLING_AS_IDS)
        return json_integer(x->i);
    if (f->kind == SAMPLING_AS_STRINGS && err_utf8(e, "the text", x->text, strlen(x->text)) == 0)
        return json_string(x->text);
    if (f->kind == SAMPLING_AS_STRINGS)
        return err_subject(e, f->name), NULL;
    id = strtol(x->text, &end, 10);
    value = *end == '=' ? strtod(end + 1, &stop) : 0;
    if (end != x->text && *end == '=' && stop != end + 1 && *stop == 0 && isfinite(value))
        return json_pack("[I,f]", (json_int_t)id, value);
    err_about(e, ERR_USAGE, f->name, "found '%s', expected ID=V", x->text);
    return NULL;
}

/* Adds the values of the list F to ALL. */
static void add_list(json_t *all, enum sampling_field f, const struct opt_list *list, struct err *e)
{
    json_t *values = json_array();

    for (size_t i = 0; i < list->n && e->code == 0; i++)
        if (json_array_append_new(values, list_item(&sampling_row[f], &list->value[i], e)) != 0 && !e->code)
            err_nomem(e, "options");
    if (list->n)
        json_object_set(all, sampling_row[f].name, values);
    json_decref(values);
}

/* Reads the repeatable options as the JSON that a line of a batch would have, so that there is one reader of lists,
 * which sorts them and checks their limits. */
static int read_lists(struct options_sampling *o, struct arena *a, struct err *e)
{
    struct err why = {0}; /* *E may hold an earlier error that was handled */
    json_t *all = json_object();

#define SAMPLING_LIST(field, name, ...) add_list(all, SAMPLING_##field, &o->name, &why);
#include "engine/sampling.def"
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

            snprintf(flag, sizeof(flag), "%s", sampling_row[f].name);
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

/* Members of struct gallop_options whose options have other names. */
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

/* True for characters of words, file names and quotations, at which the name of an option does not begin or end. */
static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_-./\"'", c));
}

void options_error_text(const struct opt_part *list, const struct err *e, char *out, size_t size)
{
    const struct opt_row *r = row_of_member(list, e->subject, strlen(e->subject));
    struct buf text = {.tag = MEM_APP};

    if (!e->subject[0]) { /* it is about a file, not an option */
        err_text(e, out, size);
        return;
    }
    buf_fmt(&text, "%s%s: ", r ? "--" : "", r ? r->name : e->subject);
    for (const char *at = e->msg, *end; *at; at = end) { /* other options that the sentence names */
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
