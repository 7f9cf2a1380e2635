/* gallop.h - LLM inference on CPUs: open a Hugging Face checkpoint, submit requests, take events.
 *
 * This is the only public header; every name in it begins with gallop_. An engine belongs to one thread at a
 * time. gallop_submit() may be called from any thread at any time, and gallop_cancel() also from signal
 * handlers. The functions about text may be called from any thread, too. A process may hold many engines, of
 * different models and options, and run them at the same time. The thread that opens or runs an engine takes part
 * in computing. No function needs more than 1 MiB of stack.
 *
 * Functions that can fail return GALLOP_OK (0) or another gallop_code, and write one sentence to ERR, a buffer
 * of GALLOP_ERR_SIZE bytes or NULL. The sentence names the file, tensor, member or argument at fault, what was
 * found and what was expected.
 *
 * A struct that a program fills in is set by its _init() function first, and then member by member. _init() sets every
 * member to its default, which the member's comment gives in [brackets]; without brackets it is 0 or NULL. The length
 * of a text is SIZE_MAX by default: up to the terminating zero. Members of struct gallop_sampling are not given by
 * default: -1, or NaN for doubles. A struct without _init() is filled in whole.
 *
 *     struct gallop *g;
 *     struct gallop_options o;
 *     struct gallop_request r;
 *     struct gallop_event ev;
 *     char err[GALLOP_ERR_SIZE];
 *
 *     gallop_options_init(&o);
 *     o.model = "models/demo";
 *     if (gallop_open(&g, &o, err) != 0) ...
 *     gallop_request_init(&r);
 *     r.text = "Once upon a time";
 *     r.sampling.max_new_tokens = 40;
 *     if (gallop_submit(g, &r, NULL, err) != 0) ...
 *     while (gallop_next(g, &ev))
 *         if (ev.type == GALLOP_TEXT) fwrite(ev.text, 1, ev.text_len, stdout);
 *     gallop_close(g);
 */
#ifndef GALLOP_H
#define GALLOP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GALLOP_API __attribute__((visibility("default")))
#else
#define GALLOP_API
#endif

enum { GALLOP_ERR_SIZE = 1024 };

enum gallop_code {
    GALLOP_OK = 0,
    GALLOP_BAD_INPUT,   /* a file, a request or an argument is wrong */
    GALLOP_UNSUPPORTED, /* the input is well-formed, but this library cannot serve it */
    GALLOP_OS_ERROR,    /* a system call failed */
    GALLOP_NO_MEMORY,   /* an allocation failed */
    GALLOP_NO_SPACE,    /* the KV cache, the context or the queue is full */
    GALLOP_CANCELLED,   /* a callback asked to stop */
};

/* ---- engine ---- */

struct gallop;

/* Options of gallop_open(). gallop_options_init() sets every member to NULL, 0 or 0.0, which means the default that the
 * member's comment gives in [brackets]. gallop_open() checks names and ranges. */
struct gallop_options {
    /* The model: a checkpoint folder, a .gguf or packed .gallop file, or the name of a model on a Hugging Face
     * hub, org/name[@revision][:FILE.gguf]. Required. */
    const char *model;
    /* Branch, tag or commit, if `model` is the name of a model on a hub ["main"]. */
    const char *revision;
    /* 1: symbolic links in the model's folder may point to any file. 0: they may leave the folder only for
     * the blobs of the hub cache [0]. */
    int allow_links;
    /* Number format of the arithmetic of linears, and of the KV cache unless kv_cache_dtype is given: "fp32",
     * "bf16" or "auto" (the dtype of a packed checkpoint, else "bf16") ["auto"]. */
    const char *dtype;
    /* Quantization of the linears' weights:
     *   "none"         No quantization: weights have the format `dtype`.
     *   "int8"         W8A8: 8-bit weights with a scale for each column; activations are rounded at run
     *                  time to 8-bit integers with a scale for each row.
     *   "int8-static"  W8A8 with activation scales from the file `scales`.
     *   "int4"         W4A8: 4-bit weights in groups of 32, each with an integer scale and zero point
     *                  that map its weights to 8-bit integers; activations are rounded as with "int8".
     *   "int4-g128"    Like "int4", with groups of 128.
     *   "mxfp4"        OCP MXFP4: 4-bit weights in groups of 32 with a power of two as their scale.
     * A JSON object maps "qkv_projection", "out_projection", "mlp" and "lm_head" to these names; a kind
     * that is missing keeps the default. Routers, and experts that are stored in MXFP4, are never
     * quantized again. [The stored format: weights that a GGUF file or a quantized checkpoint stores as
     * integers are multiplied as integers unless `dtype` is "fp32"; other weights are treated as with
     * "none".] */
    const char *quant;
    /* File of activation statistics that `gallop calibrate` wrote. "int8-static" requires it; "int4" rounds
     * weights with less error if it is given (GPTQ) [none]. */
    const char *scales;
    /* How memory of the KV cache is allocated: "slab_pool" (a pool of KV blocks), "paged" (a pool whose
     * blocks sequences share), "dynamic" (a region for each sequence, which doubles) or "bmc" (a region that
     * grows in bmc_splits steps); for executors also "extern" (the caller's blocks) ["slab_pool"]. */
    const char *kv_cache_type;
    /* Number format of the KV cache: "auto" (the format `dtype`), "fp32", "bf16", "int8" or "int4"
     * ["auto"]. */
    const char *kv_cache_dtype;
    /* JSON object that maps kinds of operators to backends, {"norm":"native"} for instance, or AMD PACE's
     * form of it, {"mlp_backend":"TPP"} [the backend of each kind is chosen automatically]. */
    const char *op_config;
    /* Backend of attention: "auto", "gallop" or "native"; PACE's names "jit", "slab" and "paged" are accepted
     * ["auto"]. */
    const char *attention_backend;
    /* Highest instruction set that kernels use: "ref", "avx2", "avx512", "avx512vnni", "avx512bf16" or "amx" [the
     * fastest of this machine]. */
    const char *isa;
    /* Compute threads, 1 to 1024 [one for each physical core that the process may use]. */
    int threads;
    /* Another engine whose compute threads this engine uses, so that a draft model and its target share
     * threads for instance; `threads` must then be 0 or their number. Each engine has its own isa, dtype and
     * cache. Engines that share threads may be closed in any order, but this one not before gallop_open() returns;
     * several threads may open and run them: steps and openings wait for each other, in the order in which they were
     * called. An executor that shares threads
     * must not be opened or run while another thread does so. [NULL: the engine starts threads of its own] */
    struct gallop *share_pool;
    /* Context length: maximum number of tokens of prompt and output of one sequence, 2 to 1073741824 [the
     * model's context length]. */
    int64_t max_model_len;
    /* Maximum number of sequences that are computed at the same time, 1 to 4096 [32]. */
    int64_t max_num_seqs;
    /* Maximum number of rows (tokens) of a step, 1 to 65536, but at least max_num_seqs; longer prompts are
     * computed in chunks. An engine limits it to 512, or to max_num_seqs if that is more, so that a
     * cancellation takes effect soon; an executor does not [512]. */
    int64_t max_batched_tokens;
    /* Maximum number of rows of logits that a step returns for scored prompts and for executors, 1 to 65536,
     * but at least max_num_seqs. Each row takes 4 bytes for each token of the vocabulary [max_num_seqs +
     * 16]. */
    int64_t max_logits;
    /* Size of the KV cache in rows (tokens) of all sequences together. A cache that cannot hold one sequence
     * of max_model_len tokens is refused. [max_num_seqs x max_model_len, but at most 4 GiB and half of the
     * memory that is free beside weights and scratch; the default is never less than one sequence of
     * max_model_len] */
    int64_t kv_cache_tokens;
    /* Size of the KV cache in GiB; takes precedence over kv_cache_tokens [the size that kv_cache_tokens
     * gives]. */
    double kv_cache_memory;
    /* 1: the default size of the KV cache is not limited to 4 GiB, for programs that answer one request [0].
     * A cache whose size is given is allocated by the compute threads when the engine is opened; a cache of
     * the default size takes memory when rows are first written. */
    int kv_cache_unbounded;
    /* How the prefix cache of pooled KV caches finds the rows of earlier prompts and answers for a request
     * with the same beginning: "radix" (every row), "hash" (whole blocks) or "none" (no prefix cache). Output
     * does not depend on it ["radix"]. */
    const char *prefix_index;
    /* Store of KV blocks outside the process, which engines of the same model and options share and find
     * again after a restart: a folder, which is created if it is missing, or "redis://host[:port][/db]".
     * Pooled caches only; docs/SCHEDULING.md has the details. [NULL: no store] */
    const char *kv_store;
    /* Maximum size in GiB of a `kv_store` that is a folder; the least recently used blocks are deleted first
     * [16]. */
    double kv_store_size;
    /* Memory order of pooled caches: "head_major" ([heads][blocks]) or "block_major" ([blocks][heads])
     * ["block_major"]. */
    const char *kv_cache_layout;
    /* Rows of a KV block, a power of two from 16 to 256 [chosen by the size of the level 2 cache and the
     * model's windows]. */
    int64_t block_size;
    /* Maximum number of times that the region of a sequence in a "bmc" cache grows
     * [floor(sqrt(max_model_len))]. */
    int64_t bmc_splits;
    /* "sink=4,window=1024": layers without a smaller window keep and see only the first 4 and the last 1024
     * rows of a sequence (StreamingLLM, https://arxiv.org/abs/2309.17453) [all rows]. */
    const char *kv_sparse;
    /* Speculative decoding: a JSON object with vLLM's names, {"method":"ngram"} for instance, that says how
     * tokens are guessed. A step verifies guesses, so that right ones save steps; tokens, log-probabilities and
     * ends of answers do not depend on it. docs/SAMPLING.md lists the members [NULL: none]. */
    const char *speculative_config;
    /* What computes steps: "eager" (this library's kernels, operator by operator) or "pjrt" (a device behind a PJRT
     * plugin, in frames of fixed shapes; docs/EXECUTORS.md). With "pjrt", KV rows have the format `dtype`, weights
     * that of `dtype`, int8 or int4, and kv_sparse, kv_store and the method "self" of speculative_config are refused
     * ["eager"]. */
    const char *executor;
    /* With executor "pjrt": path of the plugin, a shared library, or a name without a slash of the environment
     * variable PJRT_NAMES_AND_LIBRARY_PATHS, "name:path,name:path". [the environment variable GALLOP_PJRT_PLUGIN, which
     * is read in the same way, or the first plugin of PJRT_NAMES_AND_LIBRARY_PATHS; one of them is required] */
    const char *pjrt_plugin;
    /* With executor "pjrt": options of the plugin's client, a JSON object whose values are strings, integers, other
     * numbers, booleans or lists of integers, {"memory_fraction":0.9} for instance [none]. */
    const char *pjrt_options;
    /* With executor "pjrt": number of the device of the plugin, from 0 [0]. */
    int pjrt_device;
    /* With executor "pjrt": 1: the plugin runs in a process of its own, whose end is an error of a step and not the end
     * of this process; it is started again. The process is the program `gallop` of the same version: that of the
     * environment variable GALLOP_PROGRAM, or else it is looked for near the library and this program (., bin, ../bin
     * and ../../bin), and in PATH. It inherits no open file [0]. */
    int executor_process;
    /* With executor "pjrt": ascending numbers, separated by commas, for which programs are compiled: rows of a prompt
     * or chunk of it, sequences that decode together, and rows of the cache that a step reads. The maximum of each is
     * always one of them ["16,64,256,...", "1,4,16,...", "512,2048,8192,..."]. */
    const char *prompt_buckets, *batch_buckets, *context_buckets;
    /* Order in which waiting requests are admitted: "fcfs", "priority" or "fair" (docs/SCHEDULING.md) ["fcfs"]. */
    const char *scheduling_policy;
    /* What a step computes: "continuous_batch" (decoding sequences and chunks of prompts), "continuous_prefill_first"
     * (prompts alone while there are any) or "iterative" (one answer, or one beam search, at a time)
     * ["continuous_batch"]. */
    const char *scheduler;
    /* When a waiting request starts: "optimistic" (when its prompt fits into the cache; if the cache fills
     * up, the youngest sequence is preempted and computed again later) or "worst-case" (when prompt and
     * longest possible output fit, so that pooled caches never preempt; "dynamic" and "bmc" caches still may)
     * ["optimistic"]. */
    const char *admission;
    /* Target of the time per output token in milliseconds. Chunks of prompts are sized so that the expected
     * time of a step with decoding sequences, estimated from earlier steps, stays below it [700]. */
    double tpot_target_ms;
    /* Maximum number of waiting requests, and of the tokens of their prompts together. Further requests are
     * refused with GALLOP_NO_SPACE [no limit]. */
    int64_t max_num_queued_reqs, max_num_queued_tokens;
    /* 1: `seed` is the seed of requests that draw tokens at random and have no seed of their own. 0: each of them gets
     * a fresh one, so that equal requests get different answers [0]. */
    int has_seed;
    uint64_t seed;
    /* Called while weights are packed: DONE of TOTAL layers are packed; CTX is progress_ctx. It must not open, run or
     * ask for the statistics of engines that share the threads of share_pool [NULL]. */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *progress_ctx;
    /* Called while FILE is downloaded from a hub: DONE of TOTAL bytes are complete (TOTAL 0: unknown); CTX is
     * download_ctx. A result other than 0 ends the download, and gallop_open() returns GALLOP_CANCELLED
     * [NULL]. */
    int (*download)(void *ctx, const char *file, uint64_t done, uint64_t total);
    void *download_ctx;
};

/* Sets every member to its default. */
GALLOP_API void gallop_options_init(struct gallop_options *o);

/* Opens a model as *G: maps the checkpoint, computes the sizes of weights, scratch and cache, packs the
 * weights and closes the files, of which only a packed checkpoint stays mapped. If these sizes and the other
 * engines of the process exceed the memory, it fails before a weight is read. A tensor that contains an
 * infinity or NaN is refused by name. A file that is truncated or changed while it is read is an error, not
 * a crash: gallop_open() installs a SIGBUS handler for this, which passes other faults on to the previous
 * handler. Strings of O may be freed after the call. A model on a hub is downloaded into Hugging Face's
 * cache first; the environment variables of huggingface_hub (HF_HOME, HF_TOKEN, HF_HUB_OFFLINE ...) apply.
 * Returns a gallop_code. */
GALLOP_API int gallop_open(struct gallop **g, const struct gallop_options *o, char *err);

/* Closes an engine and drops its requests without further events. NULL is allowed. With the executor "pjrt" it returns
 * within 2 seconds: a call of the plugin that hangs in this process then keeps its thread and the engine's memory. */
GALLOP_API void gallop_close(struct gallop *g);

/* ---- requests ---- */

/* When a beam search ends, if as many outputs as beams have ended: if the best running output, scored with its present
 * length, is not better than they are; at once; or if it cannot become better up to max_new_tokens. In JSON these are
 * false, true and "never". */
enum gallop_early { GALLOP_EARLY_FALSE, GALLOP_EARLY_TRUE, GALLOP_EARLY_NEVER };

/* Sampling parameters, named as in Hugging Face's generation config. A member is not given if it is -1
 * (integers and flags) or NaN (doubles), as gallop_request_init() sets it; then the value of the model's
 * generation_config.json applies, and without a value there the parameter has no effect. Decoding is greedy
 * unless do_sample is 1. Giving temperature, top_k, top_p, min_p, typical_p, top_n_sigma or
 * xtc_probability, but not do_sample, sets do_sample to 1. */
struct gallop_sampling {
    /* Maximum number of tokens to generate, 0 or more. 0: the prompt is processed, and the request ends with
     * GALLOP_FINISH_LENGTH; the prompt may then fill the context. [max_new_tokens of the model, else its
     * max_length, which limits prompt and output together and refuses a prompt of that length; else no limit but
     * the context] */
    int64_t max_new_tokens;
    /* Minimum number of tokens to generate, 0 or more: until then, end tokens, stop tokens and stop strings
     * do not end the output. */
    int64_t min_new_tokens;
    /* Maximum number of tokens of reasoning, 0 or more. After so many tokens, the text reasoning_close of the
     * request is generated next, which ends the reasoning. Requires reasoning_close. [no limit] */
    int64_t thinking_token_budget;
    /* 1: draw tokens at random; 0: take the likeliest. */
    int do_sample;
    /* 1: the model's end tokens do not end the output. */
    int ignore_eos;
    /* Temperature, 0 or more: logits are divided by it. Below 1e-5 decoding is greedy. */
    double temperature;
    /* Number of likeliest tokens that remain candidates, 0 or more; 0: all. */
    int64_t top_k;
    /* Nucleus sampling: the likeliest tokens that together have this probability remain candidates; above 0,
     * at most 1. */
    double top_p;
    /* Tokens whose probability is below min_p times that of the likeliest token are dropped, 0 to 1. */
    double min_p;
    /* Locally typical sampling: the tokens whose information (-log of the probability) is nearest to the
     * entropy remain candidates, up to this total probability; above 0, at most 1. */
    double typical_p;
    /* Tokens whose logit is more than this number of standard deviations of the logits below the largest are
     * dropped. 0 or less, down to -1: none. */
    double top_n_sigma;
    /* With this chance, 0 to 1, all tokens with a probability of at least xtc_threshold (0 to 1) [0.1] are
     * dropped, except the least likely of them. The choice depends on the seed and the number of the token. */
    double xtc_probability, xtc_threshold;
    /* Positive logits of tokens of prompt and output are divided by repetition_penalty, a number above 0, and
     * negative ones multiplied by it. frequency_penalty is subtracted from a logit for each time that its token
     * was generated, presence_penalty once. */
    double repetition_penalty, frequency_penalty, presence_penalty;
    /* If the last N tokens of prompt and output occurred before, and N is at least dry_allowed_length (0 to
     * 1024 [2]), then dry_multiplier (0 or more) times dry_base (1 or more [1.75]) to the power of N -
     * dry_allowed_length is subtracted from the logit of the token that would continue the repetition.
     * dry_penalty_last_n tokens are searched, [-1: all]. */
    double dry_multiplier, dry_base;
    int64_t dry_allowed_length, dry_penalty_last_n;
    /* [n_dry_sequence_breakers] texts at which a repetition ends; at most 32, of 1 to 40 bytes. NULL: the value of
     * generation_config.json, else a line end, colon, quotation mark and asterisk. A list that is not NULL, with the
     * number 0: there are none. */
    const char *const *dry_sequence_breakers;
    size_t n_dry_sequence_breakers;
    /* 1: `seed` is the seed of this request. 0: that of gallop_options, or a fresh one. */
    int has_seed;
    uint64_t seed;
    /* Beam search, as in Hugging Face: num_beams outputs (1 to 32), or `n` of them if num_beams is not given, are
     * extended side by side; the `n` outputs with the best scores are the answers, answer 0 the best.
     * use_beam_search 1 asks for it, and so does num_beams above 1. The score is the sum of the output's
     * log-probabilities divided by (number of its tokens ^ length_penalty), -100 to 100. early_stopping is an
     * enum gallop_early. All events of the answers come at the end. Parameters that draw tokens, log-probabilities
     * of other tokens than the chosen ones, constraints and thinking_token_budget are refused; penalties and biases
     * change log-probabilities instead of logits. */
    int use_beam_search;
    int64_t num_beams;
    double length_penalty;
    int early_stopping;
    /* 0 to 1024: TOKEN events have the log-probability of the token, and this many of the likeliest tokens
     * with their log-probabilities. */
    int64_t logprobs;
    /* Logit bias: bias[i] is added to the logit of token bias_id[i]; each id appears once. Both are [n_bias]. */
    const int32_t *bias_id;
    const float *bias;
    size_t n_bias;
    /* [n_stop] stop strings: the first to appear ends the text and is cut off; at most 64, of 1 to 1024
     * bytes. */
    const char *const *stop;
    size_t n_stop;
    /* [n_stop_token] stop tokens, which end the output; at most 4096. */
    const int32_t *stop_token;
    size_t n_stop_token;
    /* [n_bad_words] texts that are never generated, with or without a leading space: if the output ends with
     * all tokens of a text but the last, the last token is not chosen. Tokens of the prompt do not count. At
     * most 256, of 1 to 128 bytes. */
    const char *const *bad_words;
    size_t n_bad_words;
};

/* How the hidden states after the final norm are pooled into an embedding: no embedding, the state of the
 * prompt's last token, or the mean of the states of all tokens. AUTO: as the model's files say (those of
 * sentence-transformers 6.2, pooling_type of GGUF), else as LAST; the default prompt, the chat template and the
 * maximum length of these files are then applied to the prompt, and gallop_embedding() applies the rest
 * (docs/MODELS.md). The bits of an embedding do not depend on other requests, chunks, the cache or the number of
 * threads. */
enum gallop_pooling { GALLOP_POOL_NONE, GALLOP_POOL_LAST, GALLOP_POOL_MEAN, GALLOP_POOL_AUTO };

/* Constraint on the text of an answer, named as in vLLM: at most one of json, regex, choice, grammar,
 * json_object and structural_tag is given; tool_calls may be given alone or beside it. Tokens that would make
 * the text invalid are not chosen; a valid text is cut short only by max_new_tokens, the context or a stop
 * string. docs/STRUCTURED-OUTPUT.md lists what is supported. */
struct gallop_structured_outputs {
    const char *json;          /* a JSON Schema that the answer satisfies, as JSON */
    const char *regex;         /* a regular expression that the whole answer matches */
    const char *const *choice; /* [n_choice] texts; the answer is one of them */
    size_t n_choice;
    const char *grammar;        /* a grammar in GBNF or EBNF */
    const char *structural_tag; /* a structural tag of vLLM (xgrammar), as JSON */
    int json_object;            /* 1: the answer is a JSON object */
    int disable_any_whitespace; /* 1: JSON is written without white space between its tokens */
    /* A regular expression that white space between tokens of JSON matches; none comes before a colon or comma. NULL:
     * at most one line end and 40 blanks. */
    const char *whitespace_pattern;
    /* 1: unsupported keywords of a JSON Schema are ignored, and `warnings` of the FINISHED event names them. 0: they
     * are errors. */
    int ignore_unsupported;
    /* 1: objects may have any further property that the JSON Schema allows. 0: objects of schemas with `properties` or
     * `patternProperties`, and without `additionalProperties`, have only properties that the schema describes. */
    int allow_additional_properties;
    /* The constraint applies to the text after the first occurrence of this text, for instance of the mark
     * that ends a model's reasoning. NULL: it applies to the whole answer. */
    const char *begins_after;
    /* The mark with which an answer may begin reasoning; begins_after is the mark that ends it. If an answer
     * does not begin with this mark, the constraint applies to the whole answer. NULL: every answer begins
     * inside reasoning, because the prompt ends with the mark. */
    const char *may_begin_with;
    /* 1: the prompt ends with "<|start|>assistant", and the model writes messages of OpenAI's harmony. The
     * constraint applies to the message of the channel final, which messages of the channel analysis may
     * precede. */
    int has_channels;
    /* A constraint on tool calls, as a JSON object. "markup" is a name of --tool-call-parser, or
     * mistral_list. "functions" is a list of objects with "name", "parameters" (a JSON Schema; missing: any
     * object), "strict" (false: unsupported keywords are ignored) and "pointer" (a JSON pointer to the
     * parameters, for messages). "required" true: the answer consists of tool calls. "parallel" true: an
     * answer may contain several tool calls. An answer without a tool call satisfies the other constraint, if
     * there is one. NULL: none. */
    const char *tool_calls;
};

struct gallop_request {
    /* The prompt as UTF-8 text of text_len bytes (SIZE_MAX: up to the terminating zero). NULL: `ids` is the
     * prompt. */
    const char *text;
    size_t text_len;
    /* The text behind a gap, of suffix_len bytes (SIZE_MAX: up to the terminating zero): the output fills the
     * gap between `text` and it. Only for models with tokens for this (Qwen, CodeLlama, StarCoder, DeepSeek,
     * Codestral ...). NULL: there is no gap. */
    const char *suffix;
    size_t suffix_len;
    /* 1: tokens that end such a filling besides the model's end tokens, such as <EOT>, end the output, too.
     * With `suffix` they always do. */
    int infill;
    /* The prompt as [n_ids] tokens. NULL: `text` is the prompt. */
    const int32_t *ids;
    /* [n_ids] attention mask of `ids` that are padded on the left (0: padding), or NULL: no padding. */
    const int8_t *mask;
    size_t n_ids;
    /* 1: the tokenizer adds no BOS or other special tokens to `text`. */
    int no_special;
    /* 1: output text includes special tokens. */
    int keep_special;
    struct gallop_sampling sampling;
    /* Number of answers, 1 to 128. They share the computed prompt; each has its own events, and answer number
     * I (from 0) draws tokens with seed + I [1]. */
    int64_t n;
    /* 0 to 1024: the first answer has GALLOP_PROMPT_TOKEN events with this many of the likeliest tokens [-1:
     * no such events]. */
    int64_t prompt_logprobs;
    /* 1: TOKEN events have `logits`, the row of raw logits from which the token was chosen; `probs`, the
     * probabilities after penalties, masks, temperature and cuts; and PROMPT_TOKEN events have `logits`. A row takes
     * 4 bytes for each token of the vocabulary. When a request first runs, it allocates a row for each of the first
     * two (and one for each token that may be guessed), and for the third as many rows as the prompt has tokens, but
     * at most gallop_options.max_logits; its prompt is then computed in chunks of so many tokens. With
     * return_prompt_logits, prompt_logprobs -1 counts as 0. Not with beam search and `pooling` [0]. */
    int return_logits, return_probs, return_prompt_logits;
    /* Requests a GALLOP_EMBEDDING event; max_new_tokens must be 0 and n 1. Models without a language model
     * head, and models with bidirectional attention, accept only such requests [GALLOP_POOL_NONE]. */
    enum gallop_pooling pooling;
    /* With scheduling_policy "priority" or "fair": requests with a smaller number start first [0]. */
    int priority;
    /* With scheduling_policy "fair": the name of the client, such as an API key or a user [NULL: no
     * client]. */
    const char *key;
    /* The prefix cache shares rows only among requests with equal salts [NULL: among requests without a
     * salt]. */
    const char *cache_salt;
    /* Seconds after submission at which the request ends with GALLOP_FINISH_DEADLINE [0: never]. */
    double deadline_s;
    /* How the model marks reasoning, "<think>" and "</think>" for instance, for thinking_token_budget. An
     * answer begins inside reasoning if the prompt ends with reasoning_open, or reasoning_begun is 1. [NULL:
     * the marks are unknown] */
    const char *reasoning_open, *reasoning_close;
    int reasoning_begun;
    /* How the model marks tool calls, "<tool_call>" and "</tool_call>" for instance: a tool call ends reasoning,
     * too. [NULL: the marks are unknown; without a closing mark, a name may follow the opening one] */
    const char *tool_call_open[2], *tool_call_close;
    /* 0: the tokens of this request are not guessed, whatever gallop_options.speculative_config says [1]. */
    int speculative;
    /* A pointer of the caller's, which the events of the request return. */
    void *user;
    struct gallop_structured_outputs structured_outputs;
};

/* Sets every member to its default. */
GALLOP_API void gallop_request_init(struct gallop_request *r);

/* Queues a copy of request R and writes its id, which its events carry, to *ID (may be NULL). May be called
 * from any thread; the calling thread tokenizes the text and allocates all memory that the request will need.
 * Returns a gallop_code. A request is refused if it has neither `text` nor `ids` or both, a token outside the
 * vocabulary, a prompt as long as the context, or a sampling member outside its range, or if the queue is
 * full (GALLOP_NO_SPACE); other requests are not affected. */
GALLOP_API int gallop_submit(struct gallop *g, const struct gallop_request *r, uint64_t *id, char *err);

/* Cancels request ID, or all requests submitted so far if ID is 0. After the current step each gets a
 * GALLOP_FINISHED event with GALLOP_FINISH_CANCELLED. Unknown ids are ignored. May be called from any thread
 * and from signal handlers. Returns 0, or -1 if 256 cancellations are pending: call it again after the next
 * gallop_next(). */
GALLOP_API int gallop_cancel(struct gallop *g, uint64_t id);

/* ---- events ---- */

enum gallop_event_type {
    /* A token was chosen. */
    GALLOP_TOKEN,
    /* Output text: whole UTF-8 characters that cannot belong to a stop string. */
    GALLOP_TEXT,
    /* The last event of a request, or of one of its answers. */
    GALLOP_FINISHED,
    /* The next token of the prompt, from the second on, with its log-probability. */
    GALLOP_PROMPT_TOKEN,
    /* The pooled hidden state of a request with `pooling`, before FINISHED. */
    GALLOP_EMBEDDING,
};

enum gallop_finish {
    GALLOP_FINISH_STOP,   /* an end token, a stop token or a stop string */
    GALLOP_FINISH_LENGTH, /* max_new_tokens, the model's max_length, or the context */
    GALLOP_FINISH_CANCELLED,
    GALLOP_FINISH_ERROR, /* `error` of the event has the reason */
    GALLOP_FINISH_DEADLINE,
};

struct gallop_logprob {
    int32_t id;
    float logprob; /* natural logarithm of the probability */
};

enum { GALLOP_MAX_DRAFT_TOKENS = 32 /* maximum number of guessed tokens of a sequence in a step */ };

/* Counts of speculative decoding. */
struct gallop_speculation {
    /* Steps that gave tokens of the answer, and those of them that computed guessed tokens. */
    uint64_t n_steps, n_drafts;
    /* Guessed tokens that were computed, and those of them that were right. */
    uint64_t n_draft_tokens, n_accepted_tokens;
    /* [n_positions] the right tokens by their position in the guess. n_positions 0: there was no speculative
     * decoding. */
    uint32_t accepted_per_pos[GALLOP_MAX_DRAFT_TOKENS];
    size_t n_positions;
};

/* An event. A member is set only in the events that its comment names first, or in all events if it names
 * none. Pointers are valid until the next call of gallop_next(), gallop_take() or gallop_step(). */
struct gallop_event {
    enum gallop_event_type type;
    uint64_t request;
    void *user;
    /* Number of the answer, from 0. */
    unsigned choice;
    /* TOKEN, PROMPT_TOKEN: the token. */
    int32_t token;
    /* TOKEN of a request with logprobs, PROMPT_TOKEN: the token's log-probability. */
    float logprob;
    /* PROMPT_TOKEN: the token's rank: the number of tokens at least as likely, including itself. */
    size_t rank;
    /* TOKEN of a request with logprobs, PROMPT_TOKEN: [n_top] the likeliest tokens, in descending order. */
    const struct gallop_logprob *top;
    size_t n_top;
    /* TOKEN with return_logits: [vocab_size] the raw logits of the row that chose the token, of which the
     * log-probabilities are the log-softmax. PROMPT_TOKEN with return_prompt_logits: those that predict the token.
     * Otherwise NULL. Like `probs`, it stays valid until the events of the next step are taken, but not after the
     * call of gallop_take() or gallop_next() that follows the request's FINISHED event. */
    const float *logits;
    /* TOKEN with return_probs: [vocab_size] the probabilities with which the token was drawn, whose sum is 1; tokens
     * that were dropped have 0. With greedy decoding: the softmax of the logits after penalties, biases and masks. */
    const float *probs;
    /* EMBEDDING: [n_embedding], which is hidden_size: the pooled hidden state, of which gallop_embedding() makes the
     * embedding. */
    const float *embedding;
    size_t n_embedding;
    /* TEXT: [text_len] bytes without a terminating zero. */
    const char *text;
    size_t text_len;
    /* TEXT: [text_len] 1 for each byte of `text` that a special token wrote, else 0. */
    const char *special;
    /* FINISHED: the reason why the answer ended. */
    enum gallop_finish finish;
    /* FINISHED: the stop string that was found, or NULL. */
    const char *stop_string;
    /* FINISHED: the stop token that ended the output, or -1. A model's end token does not count as a stop
     * token. */
    int32_t stop_token;
    /* FINISHED: 1 if the context ended the output before max_new_tokens did. */
    int context_full;
    /* FINISHED with GALLOP_FINISH_ERROR: the reason. */
    const char *error;
    /* FINISHED with GALLOP_FINISH_ERROR: 1 if the request itself (bad words, logit bias, a constraint)
     * excluded every token; 2 if its constraint has reached a limit. */
    int forbids_all;
    /* FINISHED of a result of beam search: has_score is 1, and the answer has this score and sum of log-probabilities,
     * which penalties and biases may have changed. */
    int has_score;
    double score, cumulative_logprob;
    /* FINISHED: [n_warnings] sentences about unsupported keywords of the request's JSON Schema that were ignored
     * (ignore_unsupported). */
    const char *const *warnings;
    size_t n_warnings;
    /* FINISHED: number of tokens of the prompt and of the output. */
    size_t n_prompt, n_output;
    /* FINISHED: number of prompt tokens whose rows came from the prefix cache, the KV store or the first
     * answer. */
    size_t n_cached;
    /* FINISHED: number of prompt tokens whose rows were read from the KV store; they are part of n_cached. */
    size_t n_stored;
    /* FINISHED: prefill_s is the seconds from the start of computation to the first token (with
     * max_new_tokens 0: to the end of the prompt), decode_s the seconds from the first token to the last. */
    double prefill_s, decode_s;
    /* FINISHED: what speculative decoding did for the answer. */
    struct gallop_speculation speculation;
};

/* Computes steps until there is an event, and writes the event to *EV. Returns 1, or 0 if no request is
 * queued or running. */
GALLOP_API int gallop_next(struct gallop *g, struct gallop_event *ev);

/* gallop_next() in two parts, for programs with a loop of their own. gallop_step() accepts submissions and
 * cancellations and computes one step, unless events of the last step are left. If no request can be
 * computed, it waits up to WAIT_S seconds for a submission. It returns 0 if there is still no request to
 * compute and no event to take, else 1. gallop_take() writes the next event of the step to *EV and returns 1,
 * or returns 0 if none is left. */
GALLOP_API int gallop_step(struct gallop *g, double wait_s);
GALLOP_API int gallop_take(struct gallop *g, struct gallop_event *ev);

/* ---- text: describe a model, tokenize, render chats, parse answers ---- */

/* The functions of this section read data that do not change while the engine is open. They may be called from
 * any thread, from several threads at once, and while another thread runs the engine; but not while the engine
 * is closed. Texts are UTF-8. A length of SIZE_MAX means: up to the terminating zero. */

/* Frees memory that a function of this header allocated for the caller and that its comment names. NULL is
 * allowed. May be called from any thread, also after the engine was closed. */
GALLOP_API void gallop_free(void *p);

/* A special token of a model. */
struct gallop_special_token {
    int32_t id;
    /* The token as it is written in texts: text_len bytes, then a terminating zero. */
    const char *text;
    size_t text_len;
    /* Its name in tokenizer_config.json, "eos_token" for instance. NULL: it has no name. */
    const char *name;
};

/* The description of an open model. Strings are terminated; they and the arrays live as long as the engine. */
struct gallop_model_info {
    /* The name of the model on a hub, or the last part of the path from which it was opened; and this path. */
    const char *name, *path;
    /* architectures[0] and model_type of config.json: "LlamaForCausalLM" and "llama" for instance. */
    const char *architecture, *model_type;
    /* Number of parameters, and bytes of the packed weights. */
    size_t n_params, weight_bytes;
    /* Sizes of the model. A pooled hidden state has hidden_size numbers, a row of logits vocab_size. */
    size_t n_layers, hidden_size, intermediate_size, n_heads, n_kv_heads, vocab_size;
    /* Context length in tokens: of the model, and of this engine (gallop_options.max_model_len). */
    size_t context_length, max_model_len;
    /* The largest number of rows (tokens) of a step. */
    size_t max_step_tokens;
    /* Names as in struct gallop_options; quant is "gguf" if weights keep a quantized format of a GGUF file. */
    const char *dtype, *quant, *kv_cache_type, *kv_cache_dtype, *isa;
    int threads;
    /* The reason why the model cannot generate tokens and accepts requests with `pooling` only. NULL: it can. */
    const char *no_generation;
    /* The kind of the tokenizer, "bpe (byte-level)" for instance. NULL: the checkpoint has no tokenizer, and
     * no_tokenizer says why; texts are then refused. */
    const char *tokenizer, *no_tokenizer;
    /* Number of ids that the tokenizer knows: its largest id plus one. Often less than vocab_size. */
    size_t n_tokenizer_ids;
    /* The tokens that tokenizer_config.json, or the tokenizer's class, names; bos_id and pad_id else those of
     * generation_config.json. -1: none. */
    int32_t bos_id, eos_id, unk_id, pad_id;
    /* [n_end_ids] the tokens that end an answer: those of generation_config.json (else of config.json), and
     * eos_id. */
    const int32_t *end_ids;
    size_t n_end_ids;
    /* [n_special_tokens] the special tokens of the tokenizer, in ascending order of their ids. */
    const struct gallop_special_token *special_tokens;
    size_t n_special_tokens;
    /* The source text of the chat template, in Jinja. NULL: the model has none. With several templates it is
     * the one called "default". */
    const char *chat_template;
    /* The reason why chats cannot be rendered with the model's own template. NULL: they can. */
    const char *no_chat_template;
    /* 1: the chat template writes tools into the prompt. */
    int has_tools;
    /* The markup in which the model writes tool calls and reasoning, as the chat template shows it; named as in
     * vLLM's options --tool-call-parser and --reasoning-parser. NULL: unknown, and none is parsed. */
    const char *tool_call_parser, *reasoning_parser;
};

/* Returns the description of the model of G. It lives as long as G and does not change. */
GALLOP_API const struct gallop_model_info *gallop_describe(const struct gallop *g);

/* Flags of gallop_tokenize(), gallop_detokenize() and gallop_detokenizer_new(), to be joined by |. */
enum gallop_token_flags {
    /* Tokenizing: add BOS and other special tokens that the tokenizer puts around a text, as requests with
     * `text` do. */
    GALLOP_ADD_SPECIAL = 1,
    /* Tokenizing: special tokens that are written in the text, "<|im_end|>" for instance, are ordinary text. */
    GALLOP_PLAIN_TEXT = 2,
    /* Detokenizing: special tokens are part of the text, as with gallop_request.keep_special. */
    GALLOP_KEEP_SPECIAL = 4,
};

/* Tokenizes TEXT [len bytes]. *IDS gets a new array of *N tokens, which the caller frees with gallop_free(); it is
 * NULL if there is no token. GALLOP_UNSUPPORTED: the model has no tokenizer. GALLOP_BAD_INPUT: the text is not
 * UTF-8, or FLAGS has an unknown flag. On failure *IDS is NULL. */
GALLOP_API int gallop_tokenize(const struct gallop *g, const char *text, size_t len, unsigned flags,
                               int32_t **ids, size_t *n, char *err);

/* Converts IDS [n] to text. *TEXT gets a new string of *LEN bytes and a terminating zero, which the caller frees with
 * gallop_free(). Bytes that are not UTF-8, such as those of an incomplete character, become U+FFFD. Ids below
 * vocab_size that are no tokens are skipped. GALLOP_BAD_INPUT: an id is negative, or vocab_size or more.
 * GALLOP_UNSUPPORTED: the model has no tokenizer. On failure *TEXT is NULL. */
GALLOP_API int gallop_detokenize(const struct gallop *g, const int32_t *ids, size_t n, unsigned flags,
                                 char **text, size_t *len, char *err);

/* Returns the token that the vocabulary writes as PIECE [len bytes], with the letters of a byte-level vocabulary
 * ("\xc4\xa0the" for " the"), or the special token PIECE. -1: there is none. */
GALLOP_API int32_t gallop_token_id(const struct gallop *g, const char *piece, size_t len);

/* Sets *PIECE and *LEN to the token ID as the vocabulary writes it: *LEN bytes without a terminating zero, which
 * live as long as G. Returns 1, or 0 if there is no such token. */
GALLOP_API int gallop_token_piece(const struct gallop *g, int32_t id, const char **piece, size_t *len);

/* Writes the bytes of the token ID inside a text (" the") to OUT [size], without a terminating zero. They may be
 * a part of a UTF-8 character. Returns their number, at most SIZE; 0 if there is no such token. */
GALLOP_API size_t gallop_token_bytes(const struct gallop *g, int32_t id, char *out, size_t size);

/* Makes the embedding of STATE [hidden_size], the pooled hidden state in the EMBEDDING event of a request with this
 * POOLING. AUTO applies the Dense modules of a folder of sentence-transformers and keeps the first truncate_dim
 * elements; LAST and MEAN keep STATE as it is. NORMALIZE 1: the embedding is then scaled to Euclidean length 1 (zeros
 * stay zeros). *EMBEDDING gets a new array of *N numbers without a unit, which the caller frees with gallop_free(). The
 * server returns the same numbers at /v1/embeddings. GALLOP_BAD_INPUT: POOLING is none of the three, or the model's
 * files are damaged; GALLOP_UNSUPPORTED: the files ask for what is not supported. On failure *EMBEDDING is NULL. */
GALLOP_API int gallop_embedding(const struct gallop *g, enum gallop_pooling pooling, const float *state,
                                int normalize, float **embedding, size_t *n, char *err);

/* A detokenizer converts the tokens of one sequence to text as they come. Its pieces, joined, are what
 * gallop_detokenize() gives for all tokens; each piece is whole UTF-8 characters. Bytes of an incomplete character
 * are held back until the next tokens complete it. One thread at a time may use a detokenizer; it is freed before
 * its engine is closed. */
struct gallop_detokenizer;

/* Creates a detokenizer *D. FLAGS is 0 or GALLOP_KEEP_SPECIAL. */
GALLOP_API int gallop_detokenizer_new(struct gallop_detokenizer **d, const struct gallop *g, unsigned flags,
                                      char *err);
/* Frees a detokenizer. NULL is allowed. */
GALLOP_API void gallop_detokenizer_free(struct gallop_detokenizer *d);

/* Adds IDS [n] and sets *TEXT to the text that has become final: *LEN bytes and a terminating zero, valid until the
 * next call with D. *LEN may be 0. Ids are checked as in gallop_detokenize(); a refused call changes nothing. */
GALLOP_API int gallop_detokenizer_put(struct gallop_detokenizer *d, const int32_t *ids, size_t n,
                                      const char **text, size_t *len, char *err);

/* Ends the sequence: sets *TEXT and *LEN to the text that was held back, as in gallop_detokenizer_put(). The next
 * gallop_detokenizer_put() begins a new sequence. */
GALLOP_API int gallop_detokenizer_end(struct gallop_detokenizer *d, const char **text, size_t *len,
                                      char *err);

/* A conversation that a chat template turns into a prompt. gallop_chat_init() sets every member to NULL or 0, which
 * means the default. The strings are borrowed during calls. */
struct gallop_chat {
    /* The messages in OpenAI's format, as a JSON array: [{"role":"user","content":"Hi"}]. `content` is a string,
     * null or a list of text parts. Tool calls (`tool_calls`), results (role "tool", `tool_call_id`) and `reasoning`
     * are accepted. Required. */
    const char *messages;
    /* The functions that the model may call, as a JSON array in OpenAI's format:
     * [{"type":"function","function":{"name":"f","description":"...","parameters":{JSON Schema}}}] [NULL: none]. */
    const char *tools;
    /* "auto", "none" (as without tools), "required" (the answer calls functions), or a JSON object as in OpenAI's API:
     * {"type":"function","function":{"name":"f"}}, or one of the type allowed_tools [NULL: "auto"]. */
    const char *tool_choice;
    /* 1: the answer has one tool call at most (parallel_tool_calls false). */
    int one_call;
    /* The markup of tool calls and of reasoning: names as in gallop_model_info, "auto" or "none" [NULL: "auto", the
     * markup that the chat template shows]. gallop_render() does not use them. */
    const char *tool_call_parser, *reasoning_parser;
    /* Further variables of the template, as a JSON object: {"enable_thinking":false} for instance. They replace the
     * special tokens and other variables of that name, but not messages and tools [NULL: none]. */
    const char *variables;
    /* A Jinja template that replaces the model's. The last 8 templates of an engine are kept, so that it is parsed
     * and examined once, which takes 0.2 ms for that of Qwen 3 [NULL: the model's own template]. */
    const char *chat_template;
    /* The name of one of the model's templates [NULL: "tool_use" if there are tools and the model has it, else
     * "default"]. */
    const char *template_name;
    /* 1: the prompt does not end with the beginning of the model's answer. */
    int no_generation_prompt;
    /* 1: the model continues the last message, whose end the prompt lacks. Requires no_generation_prompt. */
    int continue_final_message;
    /* 0: messages are converted as the server does, so that the template writes all of them: lists of parts become
     * one text, system messages move to where the template accepts them, and arguments of tool calls become objects
     * or JSON text. 1: messages are passed on as they are, as apply_chat_template() of transformers does. */
    int verbatim;
    /* 1: special tokens that are written in messages, "<|im_end|>" for instance, are tokenized as ordinary text. */
    int plain_user_text;
    /* 1: gallop_render() gives no ids. */
    int text_only;
    /* The time that the template's strftime_now() formats, in seconds since 1970 (UTC) [0: now]. */
    int64_t now_s;
};

/* Sets every member to its default. */
GALLOP_API void gallop_chat_init(struct gallop_chat *c);

/* A rendered conversation. */
struct gallop_prompt {
    /* The text: text_len bytes, then a terminating zero. */
    char *text;
    size_t text_len;
    /* [n_ids] the tokens of the text, for gallop_request.ids. NULL: the model has no tokenizer, or text_only is 1. */
    int32_t *ids;
    size_t n_ids;
    /* Private: memory of gallop_ask(). */
    void *memory;
};

/* Renders the conversation C. *P gets its text and tokens; the caller frees them with gallop_prompt_fini(). The
 * tokens, not the text, are the prompt for a request: the template writes BOS itself, and plain_user_text cannot be
 * seen in the text. GALLOP_BAD_INPUT: a member of C is not JSON or has a wrong form (the sentence begins with its
 * name), or the template refuses the messages or cannot be parsed. GALLOP_UNSUPPORTED: the template does not write
 * tools, or the messages have parts that are not text. On failure *P is zeroed. */
GALLOP_API int gallop_render(const struct gallop *g, const struct gallop_chat *c, struct gallop_prompt *p,
                             char *err);

/* Frees the members of P, which may be zeroed, and zeroes them. */
GALLOP_API void gallop_prompt_fini(struct gallop_prompt *p);

/* Prepares the request R to answer the prompt P, which gallop_render() made of C. Sets in R: the ids; keep_special, if
 * marks of tool calls or reasoning may be special tokens; the marks of reasoning and tool calls; further stop tokens
 * behind those of R, if the markup has some; and what structured_outputs needs, which is a constraint on tool calls
 * (with a tool_choice, functions with "strict":true, or another constraint of R) and the place where a constraint of R
 * begins. Call it once for a request that gallop_request_init() has set, after setting structured_outputs and
 * stop_token. R then has pointers into P, which must live until gallop_submit(); of an answer, all text is to be given
 * to a parser. GALLOP_BAD_INPUT: `tools` or `tool_choice` has a wrong form, or both tool_choice and R constrain the
 * answer. GALLOP_UNSUPPORTED: C has tools, and the template does not show how the model writes tool calls. On failure
 * R does not change. */
GALLOP_API int gallop_ask(const struct gallop *g, const struct gallop_chat *c, struct gallop_prompt *p,
                          struct gallop_request *r, char *err);

/* How a text that a model generated is parsed. gallop_parser_options_init() sets prompt_len to SIZE_MAX, and every
 * other member to NULL or 0, which means the default. Strings are borrowed during calls. */
struct gallop_parser_options {
    /* The markup of tool calls: a name as in gallop_model_info, "auto" or "none" [NULL: "auto", the markup that the
     * chat template shows]. */
    const char *tool_call_parser;
    /* The markup of reasoning, likewise. */
    const char *reasoning_parser;
    /* The template that rendered the prompt, if it is not the model's, for "auto" [NULL: the model's]. */
    const char *chat_template;
    /* The functions as in gallop_chat. NULL or an empty array: tool calls are not parsed, and stay text. */
    const char *tools;
    /* As in gallop_chat. If it forces tool calls, text beside them, which is the beginning of another one that was cut,
     * is dropped; a function that it names is called once [NULL: "auto"]. */
    const char *tool_choice;
    /* The prompt of the text, which tells whether the text begins inside reasoning [NULL: an empty prompt], and its
     * length [SIZE_MAX: up to the terminating zero]. */
    const char *prompt;
    size_t prompt_len;
    /* The messages as in gallop_chat, if the text continues the last one (continue_final_message), whose text then
     * tells whether it begins inside reasoning [NULL: the text is a new message]. */
    const char *messages;
    /* [len] For gallop_parse(): gallop_event.special of its text. A mark that is a special token of the model then
     * counts only where this token wrote it [NULL: unknown, and marks count wherever they are]. */
    const char *special;
    /* 1: tool calls after the first are dropped. */
    int one_call;
    /* Seed of the ids of tool calls, which are random [0]. */
    uint64_t seed;
};

/* Sets every member to its default. */
GALLOP_API void gallop_parser_options_init(struct gallop_parser_options *o);

/* Why a text ended. */
enum gallop_parser_end {
    GALLOP_PARSER_ENDED,   /* the model ended it (GALLOP_FINISH_STOP) */
    GALLOP_PARSER_CUT,     /* a limit ended it: GALLOP_FINISH_LENGTH, a cancellation or a deadline */
    GALLOP_PARSER_STOPPED, /* a stop string ended it: a tool call that is incomplete is dropped */
};

/* Parses TEXT [len], a complete generated text with its special tokens (GALLOP_KEEP_SPECIAL), and sets *JSON to a new
 * string with the message: {"role":"assistant","content":"...","reasoning":"...","tool_calls":[{"id":"...",
 * "type":"function","function":{"name":"...","arguments":"{...}"}}]}. `reasoning` and `tool_calls` are missing if
 * there are none; `content` is null if there are tool calls and no content. Arguments are the text that the model
 * wrote, and need not be JSON. No text is lost: text that is not a tool call is content. The message can be appended
 * to gallop_chat.messages. The caller frees *JSON with gallop_free(). GALLOP_BAD_INPUT: TEXT is not UTF-8, `tools`
 * has a wrong form, or a name of a markup is unknown. */
GALLOP_API int gallop_parse(const struct gallop *g, const struct gallop_parser_options *o, const char *text,
                            size_t len, enum gallop_parser_end end, char **json, char *err);

/* A parser separates a text into content, reasoning and tool calls while it is generated. The joined pieces do not
 * depend on how the text was divided. One thread at a time may use a parser. It does not use the engine after it was
 * opened, and may outlive it. */
struct gallop_parser;

enum gallop_piece_kind {
    GALLOP_PIECE_CONTENT,
    GALLOP_PIECE_REASONING,
    GALLOP_PIECE_CALL,      /* a tool call begins: its name and id are known */
    GALLOP_PIECE_ARGUMENTS, /* the next part of its arguments */
    GALLOP_PIECE_CALL_END,
};

enum { GALLOP_CALL_ID_SIZE = 32 };

/* A piece of a text. */
struct gallop_piece {
    enum gallop_piece_kind kind;
    /* CALL, ARGUMENTS, CALL_END: number of the tool call in the text, from 0. */
    unsigned call;
    /* CONTENT, REASONING, ARGUMENTS: the text; CALL: the name of the function. [len] bytes without a terminating zero,
     * valid until the next gallop_parser_feed() or gallop_parser_finish(). */
    const char *text;
    size_t len;
    /* CALL: the id, terminated: "call_" and 24 letters and digits, or 9 letters and digits for Mistral's models. */
    char id[GALLOP_CALL_ID_SIZE];
    /* CALL_END: 1 if the arguments were complete, 0 if they were cut off. */
    int complete;
};

/* Opens a parser *P. Errors are those of gallop_parse(). */
GALLOP_API int gallop_parser_open(struct gallop_parser **p, const struct gallop *g,
                                  const struct gallop_parser_options *o, char *err);
/* Closes a parser. NULL is allowed. */
GALLOP_API void gallop_parser_close(struct gallop_parser *p);

/* Feeds the next TEXT [len], which may end at any character. Marks count wherever they are. Pieces that were not taken
 * stay available. The only errors are a text that is not UTF-8, and GALLOP_NO_MEMORY. */
GALLOP_API int gallop_parser_feed(struct gallop_parser *p, const char *text, size_t len, char *err);

/* Does the same for the text of an event with its SPECIAL [len]: a mark that is a special token of the model counts
 * only where this token wrote it, so that text in which a model quotes marks is no tool call. */
GALLOP_API int gallop_parser_feed_special(struct gallop_parser *p, const char *text, const char *special,
                                          size_t len, char *err);

/* Ends the text: decides about text that was held back because a mark could follow. */
GALLOP_API int gallop_parser_finish(struct gallop_parser *p, enum gallop_parser_end end, char *err);

/* Writes the next piece to *PIECE and returns 1, or returns 0 if there is none now. Adjacent pieces of one kind are
 * joined. */
GALLOP_API int gallop_parser_take(struct gallop_parser *p, struct gallop_piece *piece);

/* ---- requests in the forms of vendors' APIs ---- */

/* Answers BODY [len bytes], the JSON body of a request to PATH, as `gallop serve` answers it: "/v1/chat/completions",
 * "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages" and the other paths that compute an answer
 * (docs/API.md). The model has the name of gallop_describe() and its path; template, markup and embeddings are as its
 * files say. Computes steps until the answer is complete, so it belongs to the thread that runs G, and G must have no
 * other request. *STATUS is set to the HTTP status, and *ANSWER to a new string of *ANSWER_LEN bytes and a terminating
 * zero, the JSON of the answer or, with another STATUS than 200, of the error; the caller frees it with gallop_free().
 * `stream` true is refused. Returns 0 for both; GALLOP_BAD_INPUT: G has other requests; GALLOP_NO_MEMORY. On failure
 * *ANSWER is NULL. */
GALLOP_API int gallop_answer(struct gallop *g, const char *path, const char *body, size_t len, int *status,
                             char **answer, size_t *answer_len, char *err);

/* ---- statistics ---- */

/* Work of one kind of operator since the engine was opened. */
struct gallop_operator {
    /* "norm", "qkv_projection", "rope", "attention", "out_projection", "mlp", "lm_head" or "other". */
    const char *name;
    double seconds;
    /* Bytes of weights and KV rows that the operators had to read, and floating-point operations of their
     * matrix products; 0 for kinds without weights and products. */
    double bytes, flops;
};

enum { GALLOP_N_OPERATORS = 8, GALLOP_N_DURATIONS = 23 };

/* Histogram of the durations of one kind of work. */
struct gallop_durations {
    /* count[i]: number of durations above 2^(i-1) and at most 2^i microseconds; count[0] counts all durations
     * up to 1 microsecond, the last count all longer durations. */
    uint64_t count[GALLOP_N_DURATIONS];
    /* The sum of all durations. */
    double seconds;
};

/* State and counters of an engine. Counters start at 0 when it is opened. */
struct gallop_stats {
    /* Waiting requests, and running sequences. */
    size_t n_waiting, n_running;
    /* Steps, computed prompt tokens, generated tokens, and finished sequences. */
    uint64_t n_steps, n_prompt_tokens, n_output_tokens, n_finished;
    /* Prompt tokens whose rows were found in the prefix cache or the KV store. */
    uint64_t n_cached_tokens;
    /* Prompt tokens whose rows were read from the KV store; they are part of n_cached_tokens. */
    uint64_t n_stored_tokens;
    /* Preemptions: the KV blocks of a running sequence were taken because the cache was full. */
    uint64_t n_preempted;
    /* Tokens that were computed again after a preemption; they are not part of n_prompt_tokens and
     * n_output_tokens. */
    uint64_t n_recomputed_tokens;
    /* KV blocks written to the KV store, read from it, not written because the store was too slow or failed,
     * and found in it with a wrong checksum. */
    uint64_t n_store_written, n_store_read, n_store_dropped, n_store_damaged;
    /* Bytes of packed weights, of the KV cache, and of the scratch of steps. */
    size_t weight_bytes, kv_bytes, scratch_bytes;
    /* The part of kv_bytes that running sequences hold. */
    size_t kv_used_bytes;
    /* The limit of kv_bytes. "dynamic" and "bmc" caches grow up to it; other types have this size from the
     * start. */
    size_t kv_budget_bytes;
    size_t max_model_len, vocab_size;
    /* Seconds that gallop_open() took. */
    double load_s;
    int threads;
    /* Names as in struct gallop_options; quant is "gguf" if weights keep a quantized format of a GGUF
     * file. */
    const char *dtype, *quant, *isa;
    struct gallop_operator operators[GALLOP_N_OPERATORS];
    /* Seconds that the calling thread waited for other compute threads; not part of `seconds` of any
     * operator. */
    double waited_s;
    /* Number of requests with a constraint on their answers, and how many of these constraints were found
     * compiled in the cache. */
    uint64_t n_grammar_queries, n_grammar_hits;
    /* Times to compile a constraint, and to compute one token mask of a constrained answer. */
    struct gallop_durations grammar_compile, grammar_mask;
    /* Speculative decoding: how often guessed tokens of a sequence were computed, the number of these tokens, and
     * the number of those that were right, also by position: [n_draft_positions] are used. */
    uint64_t n_drafts, n_draft_tokens, n_accepted_tokens, n_accepted_per_pos[GALLOP_MAX_DRAFT_TOKENS];
    size_t n_draft_positions;
};

/* Writes the state and counters of G to *S. May be called from any thread: it waits for the end of
 * the current step and, with share_pool, of the steps and openings that were called before. */
GALLOP_API void gallop_stats(const struct gallop *g, struct gallop_stats *s);

/* The version of the library: "0.1.0". */
GALLOP_API const char *gallop_version(void);

/* ---- executor ---- */

/* An executor computes steps for a scheduler outside of the library; it has no requests, queue, admission or
 * prefix cache. Each run computes new rows (tokens) of several sequences and returns the logits of chosen
 * rows, or chooses tokens. A row depends only on the tokens before it: not on the other rows of the run,
 * their order, the division of the sequence into runs, or the place of its rows in memory. Results equal
 * those of an engine, bit for bit. An executor belongs to one thread at a time. docs/SCHEDULING.md has a guide
 * for callers.
 *
 * KV rows are stored in slots or in the caller's blocks:
 *
 *   slots   (any kv_cache_type but "extern") A sequence has a slot from its first run to its last; the
 *           slot holds its computed rows. The new rows of a run are appended to them, or begin at an
 *           earlier position and replace all rows from there on.
 *   blocks  (kv_cache_type "extern") A block holds block_size rows in all layers. The caller manages
 *           blocks 1 .. n_blocks - 1: it lists in each run the blocks of each sequence, shares full
 *           blocks among sequences with the same beginning, and decides when a block is reused. The
 *           executor never frees a block, not even below a window. Block 0 contains zeros and is never
 *           written; in a list it can replace a block that is below the windows of all layers.
 *
 * RoPE that depends on the length of a sequence (longrope, dynamic NTK) uses max_model_len as the length,
 * since rows must stay valid when the sequence grows. */
struct gallop_executor;

/* Version of the structs and functions of this section. */
enum { GALLOP_EXECUTOR_VERSION = 1 };

/* Opens a model as an executor *X, as gallop_open() does. max_num_seqs is the number of slots and the maximum
 * number of sequences of a run; max_batched_tokens is the maximum number of rows of a run, and is not limited
 * to 512. With "extern", kv_cache_tokens or kv_cache_memory determines n_blocks. With executor "pjrt" there are
 * slots, a run has one prompt or decoding sequences, and `mixes` and `max_prompts` say so. Options of the engine's
 * queue, scheduler and prefix cache must not be given: prefix_index, kv_store, kv_store_size,
 * scheduling_policy, scheduler, admission, tpot_target_ms, max_num_queued_reqs, max_num_queued_tokens.
 * VERSION is GALLOP_EXECUTOR_VERSION; GALLOP_UNSUPPORTED is returned if the library has another version. All
 * memory that runs need is allocated here; pages of the blocks of kv_cache_tokens come when they are written. */
GALLOP_API int gallop_executor_open(struct gallop_executor **x, int version, const struct gallop_options *o,
                                    char *err);

/* Closes an executor. NULL is allowed. */
GALLOP_API void gallop_executor_close(struct gallop_executor *x);

/* Limits and sizes of an executor. */
struct gallop_executor_caps {
    size_t n_layers, vocab_size;
    size_t max_model_len; /* maximum number of positions of a sequence */
    size_t max_seqs;      /* maximum number of sequences of a run */
    size_t max_rows;      /* maximum number of rows of a run, of all sequences together */
    size_t max_wanted;    /* maximum number of rows of logits of a run: max_logits */
    size_t max_prompts;   /* maximum number of sequences of a run with more than one row; 0: no limit */
    int mixes;            /* 1: a run may contain sequences with one row and sequences with more */
    int chunks;           /* 1: a prompt may be computed in several runs */
    int picks;            /* 1: gallop_rows.pick is supported */
    size_t n_slots;       /* number of slots; 0: rows are stored in the caller's blocks */
    size_t n_blocks;      /* number of the caller's blocks, including block 0; 0: rows are stored in slots */
    size_t block_size;    /* rows of a block */
    size_t block_bytes;   /* bytes of a block in all layers, K and V */
    size_t kv_bytes, weight_bytes, scratch_bytes;
    int threads;
    const char *dtype, *kv_cache_type, *kv_cache_dtype, *isa;
};

/* Writes the limits and sizes of X to *CAPS; its strings live as long as X. */
GALLOP_API void gallop_executor_describe(const struct gallop_executor *x, struct gallop_executor_caps *caps);

/* New rows of one sequence. Members for slots are zero if the executor has blocks, and members for blocks are
 * zero if it has slots. */
struct gallop_rows {
    /* [n] the tokens; n is 1 or more. */
    const int32_t *ids;
    size_t n;
    /* Position of the first row; row i has position pos + i. */
    size_t pos;
    /* With slots: the number of the slot; no other sequence of the run has it. It must hold at least `pos`
     * rows. */
    size_t slot;
    /* With blocks: [n_blocks] the blocks that hold rows 0 .. pos + n - 1. Further entries are not read. */
    const int32_t *blocks;
    size_t n_blocks;
    /* The run returns the logits of the last n_wanted rows, 0 to n. */
    size_t n_wanted;
    /* Sampling parameters with which the run chooses the token that follows the last row, as an engine does;
     * n_wanted must be at least 1. Members that are not given have the values of generation_config.json and
     * gallop_options.seed. max_new_tokens, thinking_token_budget, stop, stop_token, bad_words,
     * dry_sequence_breakers, bias, and logprobs above 0 must not be given, since the caller decides when a text
     * ends and has the logits; ignore_eos has no effect. NULL: no token is chosen. */
    const struct gallop_sampling *pick;
    /* With `pick`: the length of the prompt, at most pos + n. The first drawn token follows row n_prompt -
     * 1. */
    size_t n_prompt;
    /* With a `pick` that has a penalty: [pos + n] all tokens of the sequence, beginning with the prompt. */
    const int32_t *tokens;
};

struct gallop_pick {
    int32_t id;    /* the token; -1 without gallop_rows.pick, or if a logit is NaN or +infinity */
    float logprob; /* the token's log-probability, if logprobs of `pick` is 0 */
};

/* The result of a run; valid until the next run. */
struct gallop_outcome {
    const float *logits;             /* [sum of n_wanted, vocab_size], in the order of the rows */
    const struct gallop_pick *picks; /* [n], one for each sequence */
};

/* Computes ROWS [n], each of a different sequence, and writes the results to *OUT. A run is refused, and
 * changes nothing, if it exceeds a limit of gallop_executor_caps; if it has a token outside the vocabulary or
 * a position of max_model_len or above; if two sequences have the same slot, a slot has fewer rows than
 * `pos`, or a window has dropped rows that position `pos` attends to; or if a list of blocks is too short,
 * has a block outside the pool, has block 0 where rows are written or seen, or has a block that is written
 * twice. GALLOP_NO_SPACE: the cache has no room for these rows now; truncate other slots and try again. A
 * sequence may read blocks that another sequence writes in the same run. With blocks the caller is
 * responsible for the rows before `pos`: they are read unchecked. Nothing is allocated, except that regions
 * of "dynamic" and "bmc" caches grow.
 * GALLOP_OS_ERROR: the executor has failed, with the sentence of its device. The rows of all slots are lost: every
 * slot is empty, and sequences begin again at position 0, with which they get the same results. The next run opens
 * the executor again first, which may take seconds, and returns GALLOP_OS_ERROR again if that fails. */
GALLOP_API int gallop_executor_run(struct gallop_executor *x, const struct gallop_rows *rows, size_t n,
                                   struct gallop_outcome *out, char *err);

/* A row of logits from which gallop_executor_choose() chooses a token, or by which it scores one. */
struct gallop_choice {
    /* [vocab_size] a row of gallop_outcome.logits, or a copy that the caller has changed. */
    const float *logits;
    /* Sampling parameters with which a token is chosen, limited as those of gallop_rows.pick. NULL: the token
     * `id` is scored. */
    const struct gallop_sampling *sampling;
    /* With `sampling`: [(vocab_size + 31) / 32] bit i % 32 of word i / 32 is 1 if token i may be chosen. NULL:
     * every token may be chosen. */
    const uint32_t *allowed;
    /* With `sampling`: the number of tokens of the sequence up to this row, and how many of them are the prompt.
     * The chosen token is output token number n_tokens - n_prompt, which selects its random numbers. */
    size_t n_tokens, n_prompt;
    /* With a penalty in `sampling`: [n_tokens] the tokens. */
    const int32_t *tokens;
    /* -1: only a token is chosen. 0 to 1024: the token's log-probability and rank, and this many of the likeliest
     * tokens, are computed from the logits without penalties and `allowed`. */
    int64_t logprobs;
    /* The token. A chosen one is -1 if a logit is NaN or +infinity, or if `allowed` excludes every token. */
    int32_t id;
    float logprob; /* the token's log-probability; NaN if it is not computed */
    size_t rank;   /* number of tokens at least as likely, including the token; 0 if it is not computed */
    /* [logprobs] memory of the caller, to which the likeliest tokens are written in descending order; n_top are
     * written. */
    struct gallop_logprob *top;
    size_t n_top;
};

/* Chooses or scores a token for each of CHOICES [n] on the compute threads, and writes `id`, `logprob`, `rank`,
 * `top` and `n_top` of each. For schedulers that know masks of tokens or drafts only after a run, or that report
 * log-probabilities. Chosen tokens equal those of gallop_rows.pick with the same logits. If a choice has a member
 * outside of its range, nothing is written. Nothing is allocated. */
GALLOP_API int gallop_executor_choose(struct gallop_executor *x, struct gallop_choice *choices, size_t n,
                                      char *err);

/* With slots: drops the rows of SLOT from row N on; N 0 empties the slot. Refused if the slot has fewer than
 * N rows, or if a window has dropped rows that a new row N would attend to. */
GALLOP_API int gallop_executor_truncate(struct gallop_executor *x, size_t slot, size_t n, char *err);

/* With blocks: copies the rows of block FROM to block TO in all layers, before a sequence appends rows to a
 * block that is partly filled and shared. */
GALLOP_API int gallop_executor_copy_block(struct gallop_executor *x, size_t from, size_t to, char *err);

#ifdef __cplusplus
}
#endif

#endif
