/* gallop.h - LLM inference on CPUs: open a Hugging Face checkpoint, submit requests, take events.
 *
 * This is the only public header; every name in it begins with gallop_. An engine belongs to one thread at a
 * time. gallop_submit() may be called from any thread at any time, and gallop_cancel() also from signal
 * handlers. A process may hold many engines, of different models and options, and run them at the same time.
 * The thread that opens or runs an engine takes part in computing and needs 1 MiB of stack.
 *
 * Functions that can fail return GALLOP_OK (0) or another gallop_code, and write one sentence to ERR, a buffer
 * of GALLOP_ERR_SIZE bytes or NULL. The sentence names the file, tensor, member or argument at fault, what was
 * found and what was expected.
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

/* What an engine is opened with. NULL, 0 or 0.0, which gallop_options_init() sets everywhere, stands for the
 * default, which each comment gives in brackets. Names and ranges are checked by gallop_open(). */
struct gallop_options {
    /* The model: a checkpoint folder, a .gguf or packed .gallop file, or the name of a model on a Hugging Face
     * hub, org/name[@revision][:FILE.gguf]. Required. */
    const char *model;
    /* Branch, tag or commit of a model that is named as on the hub ["main"]. */
    const char *revision;
    /* 1: symbolic links may lead out of the model's folder [0: only to the blobs of the hub cache]. */
    int allow_links;
    /* Computing type of linears and KV cache: "auto" (that of a packed checkpoint, else "bf16"), "fp32" or "bf16"
     * ["auto"]. */
    const char *dtype;
    /* Quantization of the linears' weights:
     *   "none"         weights are computed with in `dtype`.
     *   "int8"         W8A8: 8-bit weights with a scale for each column; activations become 8-bit integers with a
     *                  scale for each row, found while computing.
     *   "int8-static"  W8A8 with the activation scales of the file `scales`.
     *   "int4"         W4A8: 4-bit weights in groups of 32, each with a scale and a zero point on the grid of
     *                  int8; activations as with "int8".
     *   "int4-g128"    The same in groups of 128.
     *   "mxfp4"        OCP MXFP4: 4-bit weights in groups of 32 with a power of two as their scale.
     * A JSON object gives one of these for each of "qkv_projection", "out_projection", "mlp" and "lm_head"; kinds
     * that it leaves out keep the default. Routers, and experts that are stored in MXFP4, are never changed.
     * [The stored format: quantized formats of GGUF files and of quantized checkpoints are computed with as
     * integers unless `dtype` is "fp32"; other weights as with "none".] */
    const char *quant;
    /* File that `gallop calibrate` wrote. "int8-static" needs it, and "int4" rounds weights by it [none]. */
    const char *scales;
    /* Where the rows of the KV cache lie: "dynamic", "bmc", "slab_pool" or "paged"; for executors also "extern"
     * ["slab_pool"]. */
    const char *kv_cache_type;
    /* Type of the rows of the KV cache: "auto" (that of `dtype`), "fp32", "bf16", "int8" or "int4" ["auto"]. */
    const char *kv_cache_dtype;
    /* JSON object of operator kind to backend, such as {"norm":"native"}, or with the names of AMD PACE,
     * {"mlp_backend":"TPP"} [every kind is automatic]. */
    const char *op_config;
    /* Backend of attention: "auto", "gallop" or "native"; PACE's names "jit", "slab" and "paged" are accepted
     * ["auto"]. */
    const char *attention_backend;
    /* Highest instruction set that kernels use: "ref", "avx2", "avx512", "avx512vnni", "avx512bf16" or "amx" [the
     * fastest of this machine]. */
    const char *isa;
    /* Compute threads, 1 to 1024 [one for each physical core that the process may use]. */
    int threads;
    /* Compute on the threads of this engine instead of own ones, as a draft model does beside the model it
     * drafts for; `threads` must be 0 or their number. Each engine keeps its own isa, dtype and cache. Engines
     * that share threads may be closed in any order, but only one of them may be opened, run or closed at a
     * time: two calls at once abort the process. [NULL: own threads] */
    struct gallop *share_pool;
    /* Context length: tokens of prompt and output of one sequence, 2 to 1073741824 [the model's]. */
    int64_t max_model_len;
    /* Sequences that are computed at the same time, 1 to 4096 [32]. */
    int64_t max_num_seqs;
    /* Rows (tokens) of a step, 1 to 65536, but at least max_num_seqs; longer prompts are cut into chunks. Steps
     * of an engine have at most 512 rows, or max_num_seqs if that is more, so that a cancellation takes effect
     * soon [512]. */
    int64_t max_batched_tokens;
    /* Rows of logits that a step can give to scored prompts and to executors, 1 to 65536, but at least
     * max_num_seqs. Each takes 4 bytes for each token of the vocabulary [max_num_seqs + 16]. */
    int64_t max_logits;
    /* Size of the KV cache in rows (tokens) of all sequences together. A cache that cannot hold one sequence of
     * max_model_len is refused. [max_num_seqs x max_model_len, but no more than 4 GiB or one such sequence take,
     * and within half of the memory that weights and scratch leave, or more of it if one sequence needs it] */
    int64_t kv_cache_tokens;
    /* The same in GiB; takes precedence over kv_cache_tokens. */
    double kv_cache_memory;
    /* 1: the default size of the KV cache is not limited to 4 GiB, for a program that answers once and ends [0].
     * The memory of a cache whose size is given is taken when the engine is opened, by the threads that will read
     * it; that of a default size is taken as rows are first written. */
    int kv_cache_unbounded;
    /* How rows of earlier prompts and answers in pooled caches are found by requests with the same beginning:
     * "radix" (every row), "hash" (whole blocks) or "none" (not at all). Output does not depend on it ["radix"]. */
    const char *prefix_index;
    /* Keeps KV blocks of a pooled cache outside the process, for later engines and for others that compute the
     * same model in the same way: a folder, which is created if it is missing, or "redis://host[:port][/db]".
     * docs/SERVING.md has the details. [NULL: nowhere] */
    const char *kv_store;
    /* Largest size of a folder `kv_store` in GiB; the least recently used blocks are deleted first [16]. */
    double kv_store_size;
    /* Order of rows in pooled caches: "head_major" or "block_major" ["block_major"]. */
    const char *kv_cache_layout;
    /* Rows of a KV block, a power of two from 16 to 256 [by the level 2 cache and the model's windows]. */
    int64_t block_size;
    /* Number of parts in which a "bmc" cache grows [floor(sqrt(max_model_len))]. */
    int64_t bmc_splits;
    /* "sink=4,window=1024": layers without a smaller window of their own keep and see only the first 4 and the
     * last 1024 rows of a sequence (StreamingLLM, https://arxiv.org/abs/2309.17453) [all rows]. */
    const char *kv_sparse;
    /* Order in which waiting requests are admitted: "fcfs", "priority" or "fair" (docs/SERVING.md) ["fcfs"]. */
    const char *scheduling_policy;
    /* What a step computes: "continuous_batch" (decoding sequences and chunks of prompts), "continuous_prefill_first"
     * (prompts alone while there are any) or "iterative" (one request at a time, as with max_num_seqs 1)
     * ["continuous_batch"]. */
    const char *scheduler;
    /* When a request starts: "optimistic" (there is room for its prompt; if the cache fills up, the last sequence is
     * preempted and computed again later) or "worst-case" (there is room for its longest output, so that pooled
     * caches never preempt; regions of "dynamic" and "bmc" grow ahead of that) ["optimistic"]. */
    const char *admission;
    /* Time per output token to aim for, in milliseconds: chunks of prompts are sized so that a step with decoding
     * sequences is expected to take no longer, by the measured time of earlier steps [700]. */
    double tpot_target_ms;
    /* Largest number of waiting requests, and of tokens of their prompts. Further requests are refused with
     * GALLOP_NO_SPACE [no limit]. */
    int64_t max_num_queued_reqs, max_num_queued_tokens;
    /* Seed of requests that draw at random and give no seed [0]. */
    uint64_t seed;
    /* Called while the model is loaded with DONE of TOTAL layers, and PROGRESS_CTX as CTX [NULL]. */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *progress_ctx;
    /* Called while FILE is fetched from a hub with DONE of TOTAL bytes (0: unknown), and DOWNLOAD_CTX as CTX. A
     * result other than 0 ends the download, and gallop_open() returns GALLOP_CANCELLED [NULL]. */
    int (*download)(void *ctx, const char *file, uint64_t done, uint64_t total);
    void *download_ctx;
};

/* Sets every member to the value that stands for its default. */
GALLOP_API void gallop_options_init(struct gallop_options *o);

/* Opens a model as *G: maps the checkpoint, sizes weights, scratch and cache, packs the weights and releases the
 * files. What does not fit into memory beside the other engines of the process is refused before a weight is
 * read. A tensor with an infinity or NaN is refused by name when it is packed. A file that is truncated or
 * changed while it is read is an error: for that, gallop_open() installs a handler of SIGBUS, which passes
 * faults in other memory on to the handler that was there. Strings of O may be freed when it returns. A model on a
 * hub is fetched into Hugging Face's cache first; the variables of huggingface_hub (HF_HOME, HF_TOKEN,
 * HF_HUB_OFFLINE ...) have their meaning there. Returns a gallop_code. */
GALLOP_API int gallop_open(struct gallop **g, const struct gallop_options *o, char *err);

/* Closes an engine and drops its requests without further events. NULL is allowed. */
GALLOP_API void gallop_close(struct gallop *g);

/* ---- requests ---- */

/* Sampling parameters, named as in Hugging Face's generation config. A member that is not given - a whole number
 * or flag of -1, a double of NaN, as gallop_request_init() sets them - has the value of the model's
 * generation_config.json, or else changes nothing. Decoding is greedy unless do_sample is 1; giving temperature,
 * top_k, top_p or min_p without do_sample sets it. */
struct gallop_sampling {
    /* Maximum number of tokens to generate, 0 or more. 0: the prompt is processed, and the request ends with
     * GALLOP_FINISH_LENGTH; the prompt may then fill the context. [max_new_tokens of the model, else its
     * max_length, which limits prompt and output together and refuses a prompt of that length; else no limit but
     * the context] */
    int64_t max_new_tokens;
    /* Minimum number of tokens to generate, 0 or more: no end token or stop ends the output before. */
    int64_t min_new_tokens;
    /* 1: draw tokens at random; 0: take the likeliest. */
    int do_sample;
    /* 1: the model's end tokens do not end the output. */
    int ignore_eos;
    /* Logits are divided by it, 0 or more; below 1e-5 decoding is greedy. */
    double temperature;
    /* Number of the likeliest tokens that are kept, 0 or more; 0: all. */
    int64_t top_k;
    /* Probability mass of the likeliest tokens that are kept, more than 0 and at most 1. */
    double top_p;
    /* Tokens less likely than this times the likeliest are dropped, 0 to 1. */
    double min_p;
    /* Positive logits of tokens of prompt and output are divided by repetition_penalty, a number above 0, and
     * negative ones multiplied by it. frequency_penalty is subtracted from a logit for each time that its token
     * was generated, presence_penalty once. */
    double repetition_penalty, frequency_penalty, presence_penalty;
    /* 1: `seed` is the seed of this request. */
    int has_seed;
    uint64_t seed;
    /* K from 0 to 1024: the log-probability of each token, and the K likeliest tokens with theirs. */
    int64_t logprobs;
    /* Logit bias: bias[i] is added to the logit of token bias_id[i]; each id appears once. Both are [n_bias]. */
    const int32_t *bias_id;
    const float *bias;
    size_t n_bias;
    /* [n_stop] strings that end the text and are cut from it; at most 64 of 1 to 1024 bytes. */
    const char *const *stop;
    size_t n_stop;
    /* [n_stop_token] tokens that end the output; at most 4096. */
    const int32_t *stop_token;
    size_t n_stop_token;
    /* [n_bad_words] texts that are not generated, with or without a blank in front: the last token of each is
     * not chosen behind the others. The end of the prompt does not count. At most 256 of 1 to 128 bytes. */
    const char *const *bad_words;
    size_t n_bad_words;
};

/* What an embedding is made of: the hidden states behind the last norm, that of the prompt's last token or the
 * mean of all. Its bits do not depend on other requests, chunks, the cache or the number of threads. */
enum gallop_pooling { GALLOP_POOL_NONE, GALLOP_POOL_LAST, GALLOP_POOL_MEAN };

/* What an answer must look like, named as in vLLM: at most one of json, regex, choice, grammar, json_object and
 * structural_tag. The answer is generated token by token so that it is always the beginning of a valid text; it
 * is cut only by max_new_tokens, the context or a stop string. docs/GENERATION.md says what is served. */
struct gallop_structured_outputs {
    const char *json;          /* a JSON schema */
    const char *regex;         /* a regular expression that the whole answer matches */
    const char *const *choice; /* [n_choice] texts, of which the answer is one */
    size_t n_choice;
    const char *grammar;        /* a grammar in GBNF or EBNF */
    const char *structural_tag; /* as JSON */
    int json_object;            /* 1: any JSON object */
    int disable_any_whitespace; /* 1: of JSON, no white space between its tokens */
    /* Of JSON: a regular expression of the white space between tokens, or NULL. */
    const char *whitespace_pattern;
    /* 1: keywords of a schema that are not served are left out, and `warnings` of the last event names them. 0: they
     * are errors. */
    int ignore_unsupported;
    /* The constraint begins after the first place where this text stands, the end of a model's reasoning for
     * instance. NULL: it holds for the whole answer. */
    const char *begins_after;
};

struct gallop_request {
    /* The prompt as text in UTF-8 of text_len bytes (SIZE_MAX: up to the terminating zero). NULL: `ids` is it. */
    const char *text;
    size_t text_len;
    /* The prompt as [n_ids] tokens. */
    const int32_t *ids;
    /* [n_ids] attention mask of a row that is padded on the left (0: padding), or NULL. */
    const int8_t *mask;
    size_t n_ids;
    /* 1: the tokenizer adds no BOS or other special tokens to `text`. */
    int no_special;
    /* 1: special tokens are part of the output text. */
    int keep_special;
    struct gallop_sampling sampling;
    /* Number of answers, 1 to 128, which share the computed prompt and have events of their own; answer I draws
     * with seed + I [1]. */
    int64_t n;
    /* K from 0 to 1024: GALLOP_PROMPT_TOKEN events with the K likeliest tokens, of the first answer [-1: none]. */
    int64_t prompt_logprobs;
    /* Gives a GALLOP_EMBEDDING event; max_new_tokens must be 0 and n 1. A model without a head, or whose
     * attention goes in both directions, serves no other requests [GALLOP_POOL_NONE]. */
    enum gallop_pooling pooling;
    /* Of the policies "priority" and "fair": requests with a smaller number start first [0]. */
    int priority;
    /* Of the policy "fair": the client that the request belongs to, an API key or a user [NULL: no client]. */
    const char *key;
    /* Computed rows are shared only among requests with the same salt [NULL: among those without one]. */
    const char *cache_salt;
    /* Seconds after submission at which the request ends with GALLOP_FINISH_DEADLINE [0: never]. */
    double deadline_s;
    /* Is returned in the events of the request. */
    void *user;
    struct gallop_structured_outputs structured_outputs;
};

/* Sets every member to the value that stands for its default. */
GALLOP_API void gallop_request_init(struct gallop_request *r);

/* Queues a request, which is copied, and gives the number that names it in events as *ID (may be NULL). May be
 * called from any thread; the text is tokenized, and all memory that the request will need is allocated, in the
 * calling thread. Returns a gallop_code. A refused request leaves the others alone: no prompt or two (text and
 * ids), a token outside the vocabulary, a prompt as long as the context, a sampling member outside its range, or
 * a full queue (GALLOP_NO_SPACE). */
GALLOP_API int gallop_submit(struct gallop *g, const struct gallop_request *r, uint64_t *id, char *err);

/* Ends request ID, or all that were submitted so far if ID is 0, after the step that is being computed: each ends
 * with GALLOP_FINISHED and GALLOP_FINISH_CANCELLED. Unknown ids are ignored. May be called from any thread and
 * from signal handlers. Returns 0, or -1 if 256 cancellations are pending: then call it again after a
 * gallop_next(). */
GALLOP_API int gallop_cancel(struct gallop *g, uint64_t id);

/* ---- events ---- */

enum gallop_event_type {
    /* A token was chosen. */
    GALLOP_TOKEN,
    /* Text that can be shown: whole UTF-8 characters, none of which a stop string may still take back. */
    GALLOP_TEXT,
    /* The last event of a request, or of one of its answers. */
    GALLOP_FINISHED,
    /* The next token of the prompt, from the second on, with its log-probability. */
    GALLOP_PROMPT_TOKEN,
    /* The embedding that `pooling` asked for, before FINISHED. */
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

/* An event. Each member is set in the events that its comment names. Pointers are valid until the next
 * gallop_next(), gallop_take() or gallop_step(). */
struct gallop_event {
    enum gallop_event_type type;
    uint64_t request;
    void *user;
    /* Number of the answer, from 0. */
    unsigned choice;
    /* TOKEN, PROMPT_TOKEN. */
    int32_t token;
    /* TOKEN if logprobs were asked for, and PROMPT_TOKEN. */
    float logprob;
    /* PROMPT_TOKEN: number of tokens that are at least as likely, including itself. */
    size_t rank;
    /* As logprob: the [n_top] likeliest tokens, the likeliest first. */
    const struct gallop_logprob *top;
    size_t n_top;
    /* EMBEDDING: [n_embedding] the vector. */
    const float *embedding;
    size_t n_embedding;
    /* TEXT: [text_len] bytes, not terminated. */
    const char *text;
    size_t text_len;
    /* FINISHED. */
    enum gallop_finish finish;
    /* FINISHED: the stop string that was found, or NULL. */
    const char *stop_string;
    /* FINISHED: the stop token that was chosen, or -1. End tokens of the model are no stop tokens. */
    int32_t stop_token;
    /* FINISHED: 1 if the context ended the output before max_new_tokens did. */
    int context_full;
    /* FINISHED with GALLOP_FINISH_ERROR: the reason. */
    const char *error;
    /* FINISHED with GALLOP_FINISH_ERROR: 1 if allowed tokens, bad words and other members of the request itself
     * left no token to choose. */
    int forbids_all;
    /* FINISHED: [n_warnings] sentences about what was left out of the constraint on the answer: keywords of a schema
     * that are not served (ignore_unsupported). */
    const char *const *warnings;
    size_t n_warnings;
    /* FINISHED: tokens of prompt and output. */
    size_t n_prompt, n_output;
    /* FINISHED: tokens of the prompt whose rows other requests, or the first answer, had computed. */
    size_t n_cached;
    /* FINISHED: those of n_cached whose rows were read from the KV store. */
    size_t n_stored;
    /* FINISHED: seconds from the start of computation to the first token (to the end of the prompt if no token was
     * asked for), and from there to the last token. */
    double prefill_s, decode_s;
};

/* Computes as far as needed and gives the next event. Returns 0 if no request is queued or running, else 1. */
GALLOP_API int gallop_next(struct gallop *g, struct gallop_event *ev);

/* gallop_next() in two parts, for programs with a loop of their own. gallop_step() takes over what was submitted and
 * cancelled and computes one step; while events are left, it computes nothing. If there is nothing to compute, it
 * waits up to WAIT_S seconds for a submission. It returns 0 if there still is nothing to compute and no event to
 * take, else 1. gallop_take() gives the events of the step one by one and returns 0 if there are no more. */
GALLOP_API int gallop_step(struct gallop *g, double wait_s);
GALLOP_API int gallop_take(struct gallop *g, struct gallop_event *ev);

/* ---- statistics ---- */

/* Work of one kind of operator since the engine was opened. */
struct gallop_operator {
    /* "norm", "qkv_projection", "rope", "attention", "out_projection", "mlp", "lm_head" or "other". */
    const char *name;
    double seconds;
    /* Bytes of weights and KV rows that it had to read, and floating-point operations of its products. Both are 0
     * for a kind that has neither. */
    double bytes, flops;
};

enum { GALLOP_N_OPERATORS = 8, GALLOP_N_DURATIONS = 23 };

/* Durations of one kind of work. */
struct gallop_durations {
    /* count[i]: durations of at most 2^i microseconds that are in no earlier count; the last one: all longer ones. */
    uint64_t count[GALLOP_N_DURATIONS];
    /* The sum of all. */
    double seconds;
};

/* State and counters of an engine. Counters start at 0 when it is opened. */
struct gallop_stats {
    /* Requests that wait, and sequences that run. */
    size_t n_waiting, n_running;
    /* Steps, computed tokens of prompts, generated tokens, and finished sequences. */
    uint64_t n_steps, n_prompt_tokens, n_output_tokens, n_finished;
    /* Tokens of prompts whose rows were found in the prefix cache. */
    uint64_t n_cached_tokens;
    /* Those of n_cached_tokens whose rows were read from the KV store. */
    uint64_t n_stored_tokens;
    /* Preemptions: a running sequence gave its KV blocks back because the cache was full. */
    uint64_t n_preempted;
    /* Tokens that were computed again after a preemption; they are not part of n_prompt_tokens and
     * n_output_tokens. */
    uint64_t n_recomputed_tokens;
    /* Blocks that were written to the KV store and read from it; that were not written because the store was too
     * slow or failed; and that were found, but with other contents than were written. */
    uint64_t n_store_written, n_store_read, n_store_dropped, n_store_damaged;
    /* Bytes of packed weights, of the KV cache, and of everything that steps use besides. */
    size_t weight_bytes, kv_bytes, scratch_bytes;
    /* The part of kv_bytes that running sequences hold. */
    size_t kv_used_bytes;
    /* The largest value of kv_bytes: "dynamic" and "bmc" grow up to it; other types begin with it. */
    size_t kv_budget_bytes;
    size_t max_model_len, vocab_size;
    /* Seconds that opening took. */
    double load_s;
    int threads;
    /* dtype and isa are as in struct gallop_options. quant is, too, or "gguf" if weights keep a format of GGUF. */
    const char *dtype, *quant, *isa;
    struct gallop_operator operators[GALLOP_N_OPERATORS];
    /* Seconds that the calling thread waited for other compute threads inside operators; no operator counts them. */
    double waited_s;
    /* Requests with a constraint on their answers, and those whose compiled constraint was kept from before. */
    uint64_t n_grammar_queries, n_grammar_hits;
    /* Time to compile a constraint, and to compute the token mask of one constrained answer. */
    struct gallop_durations grammar_compile, grammar_mask;
};

/* Fills S. To be called by the thread that runs the engine. */
GALLOP_API void gallop_stats(const struct gallop *g, struct gallop_stats *s);

/* The version of the library: "0.1.0". */
GALLOP_API const char *gallop_version(void);

/* ---- executor ---- */

/* An executor computes without requests, queue, admission and prefix cache, for a scheduler outside of the library.
 * Each run computes new rows (tokens) of several sequences and gives the logits of the rows that are wanted, or
 * chooses tokens. A row depends on the tokens before it and on nothing else: not on the other rows of the run,
 * their order, how a sequence was cut into runs, or where its rows lie. It equals what an engine computes, bit
 * for bit. An executor belongs to one thread at a time. docs/SERVING.md has what a caller must know.
 *
 * Rows lie in slots or in the caller's blocks:
 *
 *   slots   (any kv_cache_type but "extern") A sequence has a slot while it lives; the slot holds the rows that were
 *           computed. New rows follow them, or begin at an earlier position, from which on all rows are computed
 *           anew.
 *   blocks  (kv_cache_type "extern") Block b holds block_size rows in all layers. The caller numbers blocks
 *           1 .. n_blocks - 1, names in each run the blocks that hold the rows of a sequence, shares full blocks
 *           among sequences with the same beginning, and reuses them. The executor owns, frees and drops no block,
 *           also where layers see a window only. Block 0 holds zeros and is never written: it may stand for blocks
 *           that no layer sees any more.
 *
 * RoPE that depends on the length of a sequence (longrope, dynamic NTK) takes max_model_len for it: rows must hold
 * when the sequence becomes longer. */
struct gallop_executor;

/* Version of the records and functions of this section. */
enum { GALLOP_EXECUTOR_VERSION = 1 };

/* Opens a model as an executor *X, as gallop_open() does. max_num_seqs is the number of sequences of a run and of
 * slots, max_batched_tokens that of rows of a run, without a smaller limit than that. With "extern",
 * kv_cache_tokens or kv_cache_memory give n_blocks. Options of the engine's queue, scheduler and prefix cache are
 * refused by name: prefix_index, kv_store, kv_store_size, scheduling_policy, scheduler, admission, tpot_target_ms,
 * max_num_queued_reqs, max_num_queued_tokens. VERSION is the caller's GALLOP_EXECUTOR_VERSION; GALLOP_UNSUPPORTED:
 * this library does not serve it. All memory that runs need is allocated here. */
GALLOP_API int gallop_executor_open(struct gallop_executor **x, int version, const struct gallop_options *o,
                                    char *err);

/* Closes an executor. NULL is allowed. */
GALLOP_API void gallop_executor_close(struct gallop_executor *x);

/* Limits and sizes of an executor. */
struct gallop_executor_caps {
    size_t n_layers, vocab_size;
    size_t max_model_len; /* positions of a sequence */
    size_t max_seqs;      /* sequences of a run */
    size_t max_rows;      /* rows of a run, of all sequences together */
    size_t max_wanted;    /* rows of logits of a run: max_logits */
    size_t max_prompts;   /* sequences of a run with more than one row; 0: no limit */
    int mixes;            /* 1: sequences with one row and with more may share a run */
    int chunks;           /* 1: a prompt may come in several runs */
    int picks;            /* 1: gallop_rows.pick is served */
    size_t n_slots;       /* 0: rows lie in the caller's blocks */
    size_t n_blocks;      /* the caller's blocks, including block 0; 0: rows lie in slots */
    size_t block_size;    /* rows of a block */
    size_t block_bytes;   /* bytes of a block in all layers, K and V */
    size_t kv_bytes, weight_bytes, scratch_bytes;
    int threads;
    const char *dtype, *kv_cache_type, *kv_cache_dtype, *isa;
};

/* Fills CAPS; its strings live as long as X. */
GALLOP_API void gallop_executor_describe(const struct gallop_executor *x, struct gallop_executor_caps *caps);

/* New rows of one sequence. Members whose comment does not ask for them are zero. */
struct gallop_rows {
    /* [n] the tokens; n is 1 or more. */
    const int32_t *ids;
    size_t n;
    /* Position of the first row; row i has position pos + i. */
    size_t pos;
    /* With slots: the slot of the sequence, which appears once in a run. It must hold at least `pos` rows. */
    size_t slot;
    /* With blocks: [n_blocks] the blocks of rows 0 .. pos + n - 1. Further entries are not read. */
    const int32_t *blocks;
    size_t n_blocks;
    /* Logits of the last n_wanted rows are wanted, 0 to n. */
    size_t n_wanted;
    /* NULL, or how the token behind the last row is chosen, whose logits must be wanted: as an engine does it, with
     * generation_config.json and gallop_options.seed for what is not given. The scheduler ends texts and has the
     * logits: max_new_tokens, stop, stop_token, bad_words, bias and logprobs above 0 must not be given, and
     * ignore_eos changes nothing. */
    const struct gallop_sampling *pick;
    /* With `pick`: the token behind row n_prompt - 1 is the first that is drawn; at most pos + n. */
    size_t n_prompt;
    /* With a `pick` that has a penalty: [pos + n] all tokens of the sequence, beginning with the prompt. */
    const int32_t *tokens;
};

struct gallop_pick {
    int32_t id;    /* -1: none was asked for, or none can be chosen because a logit is NaN or +infinity */
    float logprob; /* set if logprobs is 0 */
};

/* The result of a run; valid until the next one. */
struct gallop_outcome {
    const float *logits;             /* [sum of n_wanted, vocab_size], in the order of the rows */
    const struct gallop_pick *picks; /* [n], one for each sequence */
};

/* Computes ROWS [n], each of another sequence, into OUT. A run is refused with a sentence, and nothing has changed, if
 * it exceeds gallop_executor_caps; has a token outside the vocabulary or a position beyond max_model_len; names
 * a slot twice or one with fewer rows than `pos`, or a position whose window has lost rows; or has a table that is
 * too short, a block outside the pool, block 0 where rows are written or seen, or a block into which two
 * sequences (or one twice) write. GALLOP_NO_SPACE: the cache of the slots has no room for these rows now; end or
 * truncate other slots and try again. A sequence may read blocks that another one writes in the same run. With
 * blocks the caller answers for the rows before `pos`: their contents are read whatever they are. Allocates
 * nothing, except that regions of "dynamic" and "bmc" grow. */
GALLOP_API int gallop_executor_run(struct gallop_executor *x, const struct gallop_rows *rows, size_t n,
                                   struct gallop_outcome *out, char *err);

/* With slots: drops the rows of SLOT from row N on; N 0 empties the slot. Refused if it has fewer rows, or if a window
 * has dropped rows that a row at N would see. */
GALLOP_API int gallop_executor_truncate(struct gallop_executor *x, size_t slot, size_t n, char *err);

/* With blocks: copies the rows of block FROM in all layers to block TO, for a sequence that continues in a block which
 * it shares in part. */
GALLOP_API int gallop_executor_copy_block(struct gallop_executor *x, size_t from, size_t to, char *err);

#ifdef __cplusplus
}
#endif

#endif
