/* common.h - what the verbs share: option rows, opening a model with a progress bar, failing with one
 * sentence. */
#ifndef GALLOP_APP_COMMON_H
#define GALLOP_APP_COMMON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/opt.h"
#include "engine/gallop_in.h"
#include "engine/locate.h"

/* Ids of shared option rows; a verb's own begin at COMMON_OWN. */
enum common_opt {
    OPT_MODEL,
    OPT_REVISION,
    OPT_ALLOW_LINKS,
    OPT_DTYPE,
    OPT_QUANT,
    OPT_KV_TYPE,
    OPT_KV_DTYPE,
    OPT_OP_CONFIG,
    OPT_ATTENTION,
    OPT_THREADS,
    OPT_ISA,
    OPT_MAX_LEN,
    OPT_SEED,
    OPT_KV_MEMORY,
    OPT_KV_LAYOUT,
    OPT_BLOCK_SIZE,
    OPT_BMC_SPLITS,
    OPT_KV_SPARSE,
    OPT_MAX_BATCHED,
    OPT_QUIET,
    OPT_JSON,
    OPT_HELP,
    OPT_MAX_NEW,
    OPT_MIN_NEW,
    OPT_DO_SAMPLE,
    OPT_GREEDY,
    OPT_TEMPERATURE,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_MIN_P,
    OPT_REPETITION,
    OPT_FREQUENCY,
    OPT_PRESENCE,
    OPT_LOGIT_BIAS,
    OPT_STOP,
    OPT_STOP_TOKEN,
    OPT_IGNORE_EOS,
    OPT_LOGPROBS,
    OPT_FORCE,
    COMMON_OWN
};

/* Rows to put into a verb's table. */
#define COMMON_REVISION_ROW                                                               \
    {                                                                                     \
        .id = OPT_REVISION, .name = "revision", .type = OPT_STRING, .arg = "REV",         \
        .help = "branch, tag or commit of a model on the Hugging Face hub; default: main" \
    }
#define COMMON_LINKS_ROW                                                                     \
    {                                                                                        \
        .id = OPT_ALLOW_LINKS, .name = "allow-links", .type = OPT_FLAG,                      \
        .help = "follow links of the model's folder that lead out of it (to shared storage)" \
    }
#define COMMON_MODEL_ROWS                                                                                  \
    {.id = OPT_MODEL,                                                                                      \
     .name = "model",                                                                                      \
     .brief = 'm',                                                                                         \
     .type = OPT_STRING,                                                                                   \
     .arg = "MODEL",                                                                                       \
     .env = "GALLOP_MODEL",                                                                                \
     .help = "checkpoint folder, .gguf file, or org/name[@revision][:FILE.gguf] on the Hugging Face hub; " \
             "without it, the bundled demo model"},                                                        \
        COMMON_REVISION_ROW, COMMON_LINKS_ROW,                                                             \
        {.id = OPT_DTYPE,                                                                                  \
         .name = "dtype",                                                                                  \
         .type = OPT_CHOICE,                                                                               \
         .choices = "fp32|bf16",                                                                           \
         .fallback = "bf16",                                                                               \
         .env = "GALLOP_DTYPE",                                                                            \
         .help = "computing type of linears and KV; fp32 is the exact mode"},                              \
        {.id = OPT_QUANT,                                                                                  \
         .name = "quant",                                                                                  \
         .type = OPT_STRING,                                                                               \
         .arg = "none",                                                                                    \
         .fallback = "none",                                                                               \
         .help = "weights of the linears: none, which is what the checkpoint has"},                        \
        {.id = OPT_KV_TYPE,                                                                                \
         .name = "kv-cache-type",                                                                          \
         .type = OPT_CHOICE,                                                                               \
         .choices = "dynamic|bmc|slab_pool|paged",                                                         \
         .fallback = "slab_pool",                                                                          \
         .env = "GALLOP_KV_CACHE_TYPE",                                                                    \
         .help = "where the KV cache lies: one pool of blocks, pages that can be shared, or a region a "   \
                 "sequence that doubles or grows in splits"},                                              \
        {.id = OPT_KV_DTYPE,                                                                               \
         .name = "kv-cache-dtype",                                                                         \
         .type = OPT_CHOICE,                                                                               \
         .choices = "auto|fp32|bf16|int8",                                                                 \
         .fallback = "auto",                                                                               \
         .help = "type of the cached rows; auto is the computing type"},                                   \
        {.id = OPT_OP_CONFIG,                                                                              \
         .name = "op-config",                                                                              \
         .type = OPT_STRING,                                                                               \
         .arg = "JSON",                                                                                    \
         .help = "backend per operator kind, e.g. {\"norm\":\"native\"}"},                                 \
        {.id = OPT_ATTENTION,                                                                              \
         .name = "attention-backend",                                                                      \
         .type = OPT_STRING,                                                                               \
         .arg = "NAME",                                                                                    \
         .help = "attention backend: auto, gallop, native, or as in PACE jit, slab, paged; default: "      \
                 "what --op-config says, else auto"},                                                      \
        {.id = OPT_THREADS,                                                                                \
         .name = "threads",                                                                                \
         .type = OPT_INT,                                                                                  \
         .arg = "N",                                                                                       \
         .range = "[1,1024]",                                                                              \
         .env = "GALLOP_THREADS",                                                                          \
         .help = "compute threads; default: physical cores of the allowed set"},                           \
        {.id = OPT_ISA,                                                                                    \
         .name = "isa",                                                                                    \
         .type = OPT_STRING,                                                                               \
         .arg = "NAME",                                                                                    \
         .env = "GALLOP_ISA",                                                                              \
         .help = "at most this instruction set: ref, avx2, avx512, avx512vnni or avx512bf16; default: "    \
                 "the fastest here"},                                                                      \
        {.id = OPT_MAX_LEN,                                                                                \
         .name = "max-model-len",                                                                          \
         .type = OPT_INT,                                                                                  \
         .arg = "N",                                                                                       \
         .range = "[2,1073741824]",                                                                        \
         .help = "longest sequence, prompt and answer; default: the model's"},                             \
        {.id = OPT_KV_MEMORY,                                                                              \
         .name = "kv-cache-memory",                                                                        \
         .type = OPT_FLOAT,                                                                                \
         .arg = "GIB",                                                                                     \
         .range = "(0,1048576]",                                                                           \
         .env = "GALLOP_KV_CACHE_MEMORY",                                                                  \
         .help = "memory of the KV cache, taken at once; default: what the sequences can need, within "    \
                 "half of what weights and scratch leave, taken as it fills"},                             \
        {.id = OPT_KV_LAYOUT,                                                                              \
         .name = "kv-cache-layout",                                                                        \
         .type = OPT_CHOICE,                                                                               \
         .choices = "head_major|block_major",                                                              \
         .fallback = "head_major",                                                                         \
         .env = "GALLOP_KV_CACHE_LAYOUT",                                                                  \
         .help = "order of heads and blocks in slab_pool and paged"},                                      \
        {.id = OPT_BLOCK_SIZE,                                                                             \
         .name = "block-size",                                                                             \
         .type = OPT_INT,                                                                                  \
         .arg = "N",                                                                                       \
         .range = "[16,256]",                                                                              \
         .help = "rows of a KV block, a power of two; default: by the level 2 cache and windows"},         \
        {.id = OPT_BMC_SPLITS,                                                                             \
         .name = "bmc-splits",                                                                             \
         .type = OPT_INT,                                                                                  \
         .arg = "N",                                                                                       \
         .range = "[1,1073741824]",                                                                        \
         .env = "GALLOP_BMC_SPLITS",                                                                       \
         .help = "in how many parts a bmc cache grows; default: the root of the longest sequence"},        \
        {.id = OPT_KV_SPARSE,                                                                              \
         .name = "kv-sparse",                                                                              \
         .type = OPT_STRING,                                                                               \
         .arg = "SPEC",                                                                                    \
         .env = "GALLOP_KV_SPARSE",                                                                        \
         .help = "sink=4,window=1024: keep and see only the first 4 and the last 1024 rows of a sequence " \
                 "(StreamingLLM); default: all"},                                                          \
    {                                                                                                      \
        .id = OPT_MAX_BATCHED, .name = "max-num-batched-tokens", .type = OPT_INT, .arg = "N",              \
        .range = "[1,65536]",                                                                              \
        .help = "rows of a step, of requests at most 512 (so that a step stays short) or one a sequence; " \
                "longer prompts are computed in chunks of it; default 512"                                 \
    }
#define COMMON_HELP_ROWS                                                                                   \
    {.id = OPT_QUIET, .name = "quiet", .brief = 'q', .type = OPT_FLAG, .help = "no progress, no remarks"}, \
    {                                                                                                      \
        .id = OPT_HELP, .name = "help", .brief = 'h', .type = OPT_FLAG, .help = "print this page"          \
    }
#define COMMON_OUTPUT_ROWS                                                                               \
    {.id = OPT_JSON, .name = "json", .type = OPT_FLAG, .help = "print JSON and nothing else on stdout"}, \
        COMMON_HELP_ROWS
#define COMMON_SAMPLING_ROWS                                                                              \
    {.id = OPT_MAX_NEW,                                                                                   \
     .name = "max-new-tokens",                                                                            \
     .brief = 'n',                                                                                        \
     .type = OPT_INT,                                                                                     \
     .arg = "N",                                                                                          \
     .range = "[0,2147483647]",                                                                           \
     .help = "most tokens to generate, 0: none; default: what the model's generation config "             \
             "says, else 512 in run and until the context is full in chat"},                              \
        {.id = OPT_MIN_NEW,                                                                               \
         .name = "min-new-tokens",                                                                        \
         .type = OPT_INT,                                                                                 \
         .arg = "N",                                                                                      \
         .range = "[0,2147483647]",                                                                       \
         .help = "no end before so many tokens"},                                                         \
        {.id = OPT_DO_SAMPLE,                                                                             \
         .name = "do-sample",                                                                             \
         .type = OPT_FLAG,                                                                                \
         .help = "draw tokens at random instead of the likeliest"},                                       \
        {.id = OPT_GREEDY,                                                                                \
         .name = "greedy",                                                                                \
         .type = OPT_FLAG,                                                                                \
         .help = "always the likeliest token, whatever else is said"},                                    \
        {.id = OPT_TEMPERATURE,                                                                           \
         .name = "temperature",                                                                           \
         .type = OPT_FLOAT,                                                                               \
         .arg = "T",                                                                                      \
         .range = "[0,inf)",                                                                              \
         .help = "divide logits by T; below 1e-5 is greedy"},                                             \
        {.id = OPT_TOP_K,                                                                                 \
         .name = "top-k",                                                                                 \
         .type = OPT_INT,                                                                                 \
         .arg = "K",                                                                                      \
         .range = "[0,2147483647]",                                                                       \
         .help = "keep the K likeliest tokens; 0: all"},                                                  \
        {.id = OPT_TOP_P,                                                                                 \
         .name = "top-p",                                                                                 \
         .type = OPT_FLOAT,                                                                               \
         .arg = "P",                                                                                      \
         .range = "(0,1]",                                                                                \
         .help = "keep the likeliest tokens that make up mass P"},                                        \
        {.id = OPT_MIN_P,                                                                                 \
         .name = "min-p",                                                                                 \
         .type = OPT_FLOAT,                                                                               \
         .arg = "P",                                                                                      \
         .range = "[0,1]",                                                                                \
         .help = "drop tokens less likely than P times the likeliest"},                                   \
        {.id = OPT_REPETITION,                                                                            \
         .name = "repetition-penalty",                                                                    \
         .type = OPT_FLOAT,                                                                               \
         .arg = "R",                                                                                      \
         .range = "(0,inf)",                                                                              \
         .help = "divide (multiply) positive (negative) logits of tokens seen in prompt and output"},     \
        {.id = OPT_FREQUENCY,                                                                             \
         .name = "frequency-penalty",                                                                     \
         .type = OPT_FLOAT,                                                                               \
         .arg = "F",                                                                                      \
         .help = "subtract F for each time a token was put out"},                                         \
        {.id = OPT_PRESENCE,                                                                              \
         .name = "presence-penalty",                                                                      \
         .type = OPT_FLOAT,                                                                               \
         .arg = "F",                                                                                      \
         .help = "subtract F once from tokens that were put out"},                                        \
        {.id = OPT_LOGIT_BIAS,                                                                            \
         .name = "logit-bias",                                                                            \
         .type = OPT_STRING,                                                                              \
         .repeat = true,                                                                                  \
         .arg = "ID=V",                                                                                   \
         .help = "add V to the logit of token ID"},                                                       \
        {.id = OPT_STOP,                                                                                  \
         .name = "stop",                                                                                  \
         .type = OPT_STRING,                                                                              \
         .repeat = true,                                                                                  \
         .arg = "STR",                                                                                    \
         .help = "end at this text, which is cut off"},                                                   \
        {.id = OPT_STOP_TOKEN,                                                                            \
         .name = "stop-token",                                                                            \
         .type = OPT_INT,                                                                                 \
         .repeat = true,                                                                                  \
         .arg = "ID",                                                                                     \
         .range = "[0,2147483647]",                                                                       \
         .help = "end at this token"},                                                                    \
        {.id = OPT_IGNORE_EOS, .name = "ignore-eos", .type = OPT_FLAG, .help = "go on after end tokens"}, \
        {.id = OPT_LOGPROBS,                                                                              \
         .name = "logprobs",                                                                              \
         .type = OPT_INT,                                                                                 \
         .arg = "K",                                                                                      \
         .range = "[0,1024]",                                                                             \
         .help = "log-probability of each token and of the K likeliest (with --json)"},                   \
    {                                                                                                     \
        .id = OPT_SEED, .name = "seed", .type = OPT_UINT, .arg = "N", .fallback = "0",                    \
        .help = "seed of random draws"                                                                    \
    }

/* For verbs that write files (output.h). */
#define COMMON_FORCE_ROW                                                                         \
    {                                                                                            \
        .id = OPT_FORCE, .name = "force", .type = OPT_FLAG,                                      \
        .help = "replace what is there: a file that exists, files of a folder that is not empty" \
    }

void common_init(void); /* library hooks, signal dispositions; once, first */

/* Parses a verb's options. -1: go on; otherwise the exit status (help was printed, or usage was wrong).
 * TAIL: what stands behind the verb in the usage line, e.g. "[options] [\"prompt\"]". */
int common_parse(const char *verb, const char *tail, const struct opt_row *rows, size_t n, int argc,
                 char **argv, struct opt_values *v);

/* Wrong usage: prints "gallop: VERB: SENTENCE" on stderr and returns 2. */
int common_usage(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints "gallop: SENTENCE" on stderr and returns 1, or 2 where it is ERR_USAGE. Says nothing when the reader
 * of stdout is gone (out.h). */
int common_fail(const struct err *e);

/* The path of the model named by -m, fetched from the hub if it is there and not here, or that of the bundled
 * demo model. */
const char *common_model(const struct opt_values *v, enum hub_want want, char *buf, size_t size,
                         struct err *e);

/* MODEL with what the options say of its links. */
struct folder common_folder(const struct opt_values *v, const char *model);

/* Options shared by model verbs into O. What is not built in yet is refused by name; a value that no model
 * could be opened with is ERR_USAGE, before one is looked for. */
int common_options(const struct opt_values *v, struct gallop_options *o, char *path, size_t path_size,
                   struct err *e);

/* Sampling options that were given, as a record marked accordingly; lists live in A. */
int common_sampling(const struct opt_values *v, struct sampling *s, struct arena *a, struct err *e);

/* "1,2,3" or "1 2 3" into IDS (freed by tok_ids_fini); anything else is ERR_USAGE. */
int common_ids(const char *text, struct tok_ids *ids, struct err *e);

/* The whole file ("-": standard input) into OUT; ERR_INPUT where it does not end within COMMON_FILE_MAX
 * bytes. */
enum { COMMON_FILE_MAX = 256 << 20 };
int common_read_file(const char *path, struct buf *out, struct err *e);

/* The same, and proves that it is UTF-8. */
int common_read_text(const char *path, struct buf *out, struct err *e);

/* ERR_INPUT with line and byte (both from 1, the byte in its line) of what is not UTF-8 in TEXT. WHAT names
 * the text: a file, an option, "the prompt". */
int common_utf8(const char *what, const char *text, size_t len, struct err *e);

/* Prints O as one line of JSON and drops it. */
void common_print_json(json_t *o);

/* A bar on stderr, on a terminal only, once a second has passed. Pass as progress with a zeroed struct
 * common_bar. */
struct common_bar {
    double start;
    bool shown, quiet;
    const char *what;
};
void common_progress(void *bar, size_t done, size_t total);
void common_bar_end(struct common_bar *bar); /* wipes the line */

#endif
