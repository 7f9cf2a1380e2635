/* gallop.h - LLM inference on CPUs: open a Hugging Face checkpoint, submit requests, take events.
 *
 * The only public header. Every name begins with gallop_. An engine belongs to one thread at a time;
 * gallop_submit() may be called from any thread at any time, gallop_cancel() from signal handlers, too. A
 * process may hold many engines, of different models and options, and run them at once. The thread that opens
 * or runs an engine computes, too: it needs 1 MiB of stack. Functions that can fail return 0 or a code below
 * and leave one sentence in ERR (size GALLOP_ERR_SIZE is always enough; NULL is allowed) that names the file,
 * tensor, field or argument, what was found and what was expected.
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
    GALLOP_BAD_INPUT,   /* a file, request or argument is wrong */
    GALLOP_UNSUPPORTED, /* well-formed, but nothing here can serve it */
    GALLOP_OS_ERROR,
    GALLOP_NO_MEMORY,
    GALLOP_NO_SPACE, /* the KV cache or the context is used up */
    GALLOP_CANCELLED,
};

/* ---- engine ---- */

struct gallop;

/* NULL, 0 or -1 as gallop_options_init() sets it means the default in brackets. */
struct gallop_options {
    const char *model;    /* checkpoint folder or .gguf file; else org/name[@revision][:FILE.gguf] on a hub */
    const char *revision; /* of a name on a hub: branch, tag or commit ["main"] */
    int allow_links;      /* 1: links of the folder may lead out of it [0: only to the hub cache's blobs] */
    const char *dtype;    /* "fp32" or "bf16": computing type of linears and KV ["bf16"] */
    /* "int8": the linears' weights become 8-bit integers with a scale a column, and what goes into them with
     * a scale a row ("dynamic W8A8"). "int8-static": with scales found before (scales). "int4", "int4-g128":
     * weights of 4 bits, 32 or 128 with a multiple and an offset on the grid of int8 (W4A8). "mxfp4": weights
     * of 4 bits, 32 with a power of two, computed with in dtype. A JSON object: one of these for each of
     * "qkv_projection", "out_projection", "mlp" and "lm_head". Routers, and experts stored in MXFP4, stay as
     * they are. "none": weights are computed with in dtype. [as they are stored: integers of a GGUF file,
     * unless dtype is fp32, stay so, and what goes into them becomes 8-bit integers, 32 with a scale; else
     * "none"] */
    const char *quant;
    const char *scales; /* file of gallop calibrate: "int8-static" needs it, "int4" rounds by it [none] */
    /* "dynamic", "bmc", "slab_pool", "paged"; of executors "extern", too ["slab_pool"] */
    const char *kv_cache_type;
    const char *kv_cache_dtype; /* "auto", "fp32", "bf16", "int8", "int4" ["auto": as dtype] */
    const char *op_config; /* JSON object of operator kind to backend, e.g. {"norm":"native"}, or as in PACE
                    * {"mlp_backend":"TPP"} [all automatic] */
    const char
        *attention_backend; /* "auto", "gallop", "native"; "jit", "slab", "paged" as in PACE ["auto"] */
    /* At most this level of kernels: "ref", "avx2", "avx512", "avx512vnni", "avx512bf16" [the fastest] */
    const char *isa;
    int threads; /* compute threads [physical cores of the allowed set] */
    /* Compute on the threads of this engine instead of own ones, as a draft model does beside the model it
     * drafts for; `threads` must then be 0 or as many. Engines that share threads may be closed in any order,
     * but are opened, run and closed by one thread at a time, all of them together: two calls at once abort
     * the process. Each keeps its own isa, dtype and cache. [its own threads] */
    struct gallop *share_pool;
    int64_t max_model_len; /* longest sequence, prompt and output [the model's] */
    int64_t max_num_seqs;  /* sequences computed at once [32] */
    /* Rows of a step, at least max_num_seqs; longer prompts are cut into chunks. Steps of requests have at
     * most 512 (or max_num_seqs, if that is more), so that a cancel is seen soon [512]. */
    int64_t max_batched_tokens;
    /* Rows of logits that a step can give, at least max_num_seqs: of scored prompts, and of executors; each
     * takes memory for the whole vocabulary [max_num_seqs + 16] */
    int64_t max_logits;
    /* Budget of the KV cache in rows of all sequences [max_num_seqs x max_model_len, but not more than 4 GiB
     * or one such sequence take, and within half of the memory that weights and scratch leave, or more of it
     * where one sequence needs it]. A cache that cannot hold one sequence of max_model_len is refused. */
    int64_t kv_cache_tokens;
    double kv_cache_memory; /* the same in GiB, goes before kv_cache_tokens */
    /* Pages of a pool whose size is given are taken at open, by the threads that will read them; those of one
     * whose size is not come as they are first written. 1: the 4 GiB do not count then, for a program that
     * answers once [0]. */
    int kv_cache_unbounded;
    /* "radix", "hash", "none": pooled caches keep the rows of prompts and answers, and a request that begins
     * alike is computed from there. "radix" reuses every row, "hash" whole blocks only. What comes of a
     * request does not depend on it ["radix"] */
    const char *prefix_index;
    /* Keeps blocks of a pooled cache beyond its memory, for this engine, later ones and others that compute
     * the same model in the same way: a folder, which is made if it is missing, or "redis://host[:port][/db]"
     * (docs/SERVING.md) [nothing is kept]. kv_store_size: GiB of a folder at most, then the blocks that were
     * not used for longest go [16]. */
    const char *kv_store;
    double kv_store_size;
    const char *kv_cache_layout; /* of pooled caches: "head_major", "block_major" ["block_major"] */
    int64_t block_size; /* rows of a KV block, a power of two from 16 to 256 [by level 2 cache and windows] */
    int64_t bmc_splits; /* in how many parts a bmc cache grows [floor(sqrt(max_model_len))] */
    /* "sink=4,window=1024": layers without a smaller window of their own keep and see the first 4 and the
     * last 1024 rows of a sequence, whatever its length [all rows]. */
    const char *kv_sparse;
    /* ---- who is computed when ---- */
    const char *scheduling_policy; /* "fcfs", "priority", "fair" [fcfs]: docs/SERVING.md has their meaning */
    /* "continuous_batch": prompts in chunks beside the streams that run; "continuous_prefill_first": while
     * there are prompts, nothing else; "iterative": one request at a time, max_num_seqs counts as 1
     * ["continuous_batch"] */
    const char *scheduler;
    /* "optimistic": requests begin when there is room for what they have; if it runs out, the last one is
     * computed again later. "worst-case": when there is room for all they may become, so that this never
     * happens in pooled caches; regions of dynamic and bmc grow ahead of that ["optimistic"] */
    const char *admission;
    /* Chunks of prompts are sized so that a step in which streams go on stays below, by what steps took
     * before [700] */
    double tpot_target_ms;
    /* Requests that have not begun, and tokens of their prompts; more are refused with GALLOP_NO_SPACE [any
     * number] */
    int64_t max_num_queued_reqs, max_num_queued_tokens;
    uint64_t seed; /* for requests that sample and give no seed [0] */
    void (*progress)(void *ctx, size_t done, size_t total); /* layers loaded so far */
    void *progress_ctx;
    /* Bytes of FILE that have come from a hub, of TOTAL (0: not known). Not 0: give up, GALLOP_CANCELLED. */
    int (*download)(void *ctx, const char *file, uint64_t done, uint64_t total);
    void *download_ctx;
};

GALLOP_API void gallop_options_init(struct gallop_options *o);

/* Opens the model: maps the checkpoint, sizes weights, scratch and cache, packs the weights, lets go of the
 * files. What does not fit into memory, beside the other engines of the process, is refused before a weight
 * is read; so is, by name, a tensor that holds an infinity or NaN when it is packed. A file that is cut or
 * changed meanwhile is an error: while files are mapped, a handler of SIGBUS stands in front of the process's
 * own, which is given what concerns other memory. Strings may go when it returns. A name on a hub is fetched
 * into Hugging Face's cache first; the HF_* variables (HF_HOME, HF_TOKEN, HF_HUB_OFFLINE ...) mean what they
 * mean to huggingface_hub. */
GALLOP_API int gallop_open(struct gallop **g, const struct gallop_options *o, char *err);
GALLOP_API void gallop_close(struct gallop *g); /* requests that run are dropped; NULL is fine */

/* ---- requests ---- */

/* Sampling, named as in Hugging Face's generation config. What is not given (as gallop_request_init() sets
 * it: -1, or NaN for doubles) comes from the model's generation_config.json, else is neutral; decoding is
 * greedy unless do_sample. */
struct gallop_sampling {
    /* 0: the prompt is computed and the request ends, with finish reason LENGTH; it may then fill the context
     * [max_new_tokens of the model, else its max_length, which counts prompt and output together and refuses
     * a prompt that is as long; else until the context is full] */
    int64_t max_new_tokens;
    int64_t min_new_tokens;
    int do_sample;      /* 0 or 1 */
    int ignore_eos;     /* 0 or 1 */
    double temperature; /* >= 0; below 1e-5 means greedy */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0 < p <= 1 */
    double min_p;       /* 0 <= p <= 1 */
    double repetition_penalty, frequency_penalty, presence_penalty;
    int has_seed; /* 1: seed counts */
    uint64_t seed;
    int64_t logprobs;       /* K from 0 to 1024: log-probability of each token and of the K likeliest */
    const int32_t *bias_id; /* [n_bias] logit bias; each id once */
    const float *bias;
    size_t n_bias;
    const char *const *stop; /* [n_stop] strings that end the text and are cut from it */
    size_t n_stop;
    const int32_t *stop_token; /* [n_stop_token] */
    size_t n_stop_token;
    /* [n_bad_words] texts that are not put out: with and without a blank in front, of each the last token is
     * not chosen behind the others; at most 256 of 128 bytes. What the prompt ends with does not count. */
    const char *const *bad_words;
    size_t n_bad_words;
};

/* The hidden state behind the last norm: of the prompt's last token, or the mean of all. Its bits do not
 * depend on company, chunks, cache or threads. */
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
    /* 1: keywords of a schema that are not served are left out. 0: they are errors. */
    int ignore_unsupported;
    /* The constraint begins after the first place where this text stands, the end of a model's reasoning for
     * instance. NULL: it holds for the whole answer. */
    const char *begins_after;
};

struct gallop_request {
    const char *text;   /* the prompt as text (UTF-8), or NULL and ids */
    size_t text_len;    /* SIZE_MAX: up to the terminating zero */
    const int32_t *ids; /* [n_ids] */
    const int8_t *mask; /* [n_ids] attention mask of a left-padded row (0: padding), or NULL */
    size_t n_ids;
    int no_special;   /* 1: the tokenizer adds no BOS or other special tokens to text */
    int keep_special; /* 1: special tokens are written into the output text */
    struct gallop_sampling sampling;
    /* Answers, which share the computed prompt [1]. Each has events of its own; answer I samples with seed +
     * I. At most 128. */
    int64_t n;
    int64_t
        prompt_logprobs; /* K from 0 to 1024: GALLOP_PROMPT_TOKEN events, of the first answer [-1: none] */
    /* GALLOP_EMBEDDING comes; max_new_tokens is then 0, and n 1. A model without a head, or whose attention
     * goes in both directions, takes no other requests [none] */
    enum gallop_pooling pooling;
    int priority;    /* of the policies "priority" and "fair": smaller goes first [0] */
    const char *key; /* of the policy "fair": whose request it is, an API key or user [nobody's] */
    const char
        *cache_salt;   /* rows are shared among requests with the same one only [with those that have none] */
    double deadline_s; /* from submission on; the request then ends where it is [0: none] */
    void *user;        /* comes back in events */
    struct gallop_structured_outputs structured_outputs;
};

GALLOP_API void gallop_request_init(struct gallop_request *r);

/* Queues a request; everything is copied. *ID (may be NULL) names it in events. May be called from any
 * thread: the text is tokenized and all that the request will need is allocated there. A refused request
 * leaves the others alone: no prompt or two (text and ids), token outside the vocabulary, prompt as long as
 * the context, bad sampling field, or GALLOP_NO_SPACE: the queue is full. */
GALLOP_API int gallop_submit(struct gallop *g, const struct gallop_request *r, uint64_t *id, char *err);

/* The request ends with GALLOP_FINISHED and finish reason GALLOP_FINISH_CANCELLED, behind the step that is
 * being computed; ID 0 cancels all that were submitted so far, and none that comes later. Unknown ids are
 * ignored. May be called from any thread and from signal handlers. Returns 0, or -1 when 256 cancellations
 * are pending already: call again after a gallop_next(). */
GALLOP_API int gallop_cancel(struct gallop *g, uint64_t id);

/* ---- events ---- */

enum gallop_event_type {
    GALLOP_TOKEN, /* a token was chosen */
    GALLOP_TEXT, /* text that can be shown: whole UTF-8 characters, nothing a stop string may still take back */
    GALLOP_FINISHED,     /* the last event of a request, or of one of its answers */
    GALLOP_PROMPT_TOKEN, /* the next token of the prompt, from the second on, with its log-probability */
    GALLOP_EMBEDDING,    /* what `pooling` asked for, in front of FINISHED */
};

enum gallop_finish {
    GALLOP_FINISH_STOP,   /* an end token, a stop token or a stop string */
    GALLOP_FINISH_LENGTH, /* max_new_tokens, the model's max_length, or the context */
    GALLOP_FINISH_CANCELLED,
    GALLOP_FINISH_ERROR, /* ev.error says why */
    GALLOP_FINISH_DEADLINE,
};

struct gallop_logprob {
    int32_t id;
    float logprob;
};

/* Pointers are valid until the next gallop_next(), gallop_take() or gallop_step(). */
struct gallop_event {
    enum gallop_event_type type;
    uint64_t request;
    void *user;
    unsigned choice; /* number of the answer, from 0 */
    int32_t token;   /* TOKEN, PROMPT_TOKEN */
    float logprob;   /* TOKEN, if logprobs were asked for; PROMPT_TOKEN */
    size_t rank;     /* PROMPT_TOKEN: so many tokens are as likely or likelier, itself among them */
    const struct gallop_logprob *top; /* the same: [n_top] likeliest, best first */
    size_t n_top;
    const float *embedding; /* EMBEDDING: [n_embedding] */
    size_t n_embedding;
    const char *text; /* TEXT: not terminated */
    size_t text_len;
    enum gallop_finish finish; /* FINISHED */
    const char *stop_string;   /* FINISHED: the stop string that was found, or NULL */
    int32_t stop_token;        /* FINISHED: the stop token (not an end token) that was chosen, or -1 */
    int context_full;          /* FINISHED: the context ended it before max_new_tokens did */
    const char *error;         /* FINISHED with GALLOP_FINISH_ERROR, */
    int forbids_all; /* which is 1 where the request itself leaves no token to choose: allowed and bad words */
    size_t n_prompt, n_output; /* FINISHED: tokens */
    size_t
        n_cached; /* FINISHED: of the prompt, whose rows were there, from other requests or the first answer */
    size_t n_stored; /* FINISHED: of n_cached, whose rows were read from the KV store */
    /* FINISHED: seconds from first computed to first token (to the end of the prompt, if none was asked for),
     * and from there to the last */
    double prefill_s, decode_s;
};

/* The next event, computing as far as needed. 0: nothing is queued or running. */
GALLOP_API int gallop_next(struct gallop *g, struct gallop_event *ev);

/* The same in two parts, for loops of their own. gallop_step() takes over what was submitted and cancelled
 * and computes one step; gallop_take() then gives its events one by one (0: there are no more). While events
 * are left, gallop_step() computes nothing. If there is nothing to compute, it waits up to WAIT_S seconds for
 * a submission. Returns 0 if there still is nothing to compute and no event to take, else 1. */
GALLOP_API int gallop_step(struct gallop *g, double wait_s);
GALLOP_API int gallop_take(struct gallop *g, struct gallop_event *ev);

/* ---- looking inside ---- */

/* What one kind of operator took so far: "norm", "qkv_projection", "rope", "attention", "out_projection",
 * "mlp", "lm_head" or "other". bytes are those of weights and KV rows that it had to read, flops the
 * operations of its products; of what has neither both are 0. */
struct gallop_operator {
    const char *name;
    double seconds, bytes, flops;
};

enum { GALLOP_N_OPERATORS = 8 };

struct gallop_stats {
    size_t n_waiting, n_running;
    uint64_t n_steps, n_prompt_tokens, n_output_tokens, n_finished; /* tokens that were computed */
    uint64_t n_cached_tokens;                                       /* of prompts, that did not have to be */
    uint64_t n_stored_tokens;                                       /* of these, from the KV store */
    uint64_t n_preempted; /* how often a running request gave its rows back because the KV cache was full */
    uint64_t n_recomputed_tokens; /* of those that were computed again after that; not in the two above */
    /* Blocks that were written to the KV store and read from it; not written, because it did not keep up or
     * failed; and that were there, but not as they had been written. */
    uint64_t n_store_written, n_store_read, n_store_dropped, n_store_damaged;
    size_t weight_bytes, kv_bytes, scratch_bytes;
    size_t kv_used_bytes; /* of kv_bytes: what running requests hold */
    /* The most that kv_bytes may become. "dynamic" and "bmc" grow up to it; other types begin with it. */
    size_t kv_budget_bytes;
    size_t max_model_len, vocab_size;
    double load_s;
    int threads;
    const char *dtype, *quant, *isa; /* quant: as in the options, or "gguf": as in the file */
    struct gallop_operator operators[GALLOP_N_OPERATORS];
    double
        waited_s; /* the calling thread, for other compute threads, within operators: in none of their seconds */
};

GALLOP_API void gallop_stats(const struct gallop *g, struct gallop_stats *s);

/* "0.1.0" */
GALLOP_API const char *gallop_version(void);

/* ---- executor ---- */

/* What computes, without requests, queue, admission and prefix cache: for a scheduler that has its own. Each
 * run computes new rows (tokens) of several sequences and gives the logits of those that are wanted, or
 * picks. What comes of a row depends on the tokens in front of it and on nothing else: not on the other rows
 * of the run, their order, how a sequence was cut into runs, or where its rows lie; and it is what an engine
 * gives, bit for bit. An executor belongs to one thread at a time. docs/SERVING.md has what a caller must
 * know.
 *
 * Rows lie in slots or in the caller's blocks:
 *
 *   slots   (any kv_cache_type but "extern") a sequence has a slot while it lives, and its rows there are
 *           those that were computed. Rows that follow go on behind them, or at a position in front, from
 *           where on all is computed anew.
 *   blocks  (kv_cache_type "extern") block b holds block_size rows in all layers. The caller numbers blocks
 *           1 .. n_blocks - 1, says with each run which hold the rows of a sequence, shares full ones among
 *           sequences that begin alike, and reuses them; here nothing is owned, freed or dropped, also where
 *           layers see a window only. Block 0 holds zeros and is never written: it may stand for blocks
 *           that no layer sees any more.
 *
 * A rope that goes by the length of a sequence (longrope, dynamic NTK) goes by max_model_len: longer
 * sequences may come later, and rows of before must still hold. */
struct gallop_executor;

/* Version of the records and calls of this section. */
enum { GALLOP_EXECUTOR_VERSION = 1 };

/* gallop_open() for an executor. max_num_seqs are the sequences of a run and the slots, max_batched_tokens
 * the rows of a run, with no smaller bound than that. With "extern", kv_cache_tokens or kv_cache_memory give
 * n_blocks. Options of what is not here are refused by name: prefix_index, kv_store, scheduling_policy,
 * scheduler, admission, tpot_target_ms, max_num_queued_reqs, max_num_queued_tokens. VERSION is
 * GALLOP_EXECUTOR_VERSION as the caller was compiled with it; GALLOP_UNSUPPORTED: this library does not serve
 * it. All that runs need is allocated here. */
GALLOP_API int gallop_executor_open(struct gallop_executor **x, int version, const struct gallop_options *o,
                                    char *err);
GALLOP_API void gallop_executor_close(struct gallop_executor *x); /* NULL is fine */

/* What it allows. */
struct gallop_executor_caps {
    size_t n_layers, vocab_size;
    size_t max_model_len; /* positions of a sequence */
    size_t max_seqs;      /* sequences of a run */
    size_t max_rows;      /* rows of a run, of all sequences */
    size_t max_wanted;    /* rows of logits of a run: max_logits */
    size_t max_prompts;   /* sequences of a run with more than one row; 0: any number */
    int mixes;            /* 1: such sequences and others may share a run */
    int chunks;           /* 1: a prompt may come in several runs */
    int picks;            /* 1: gallop_rows.pick is obeyed */
    size_t n_slots;       /* 0: rows lie in the caller's blocks */
    size_t n_blocks;      /* of the caller, block 0 among them; 0: rows lie in slots */
    size_t block_size;    /* rows of a block */
    size_t block_bytes;   /* of one in all layers, K and V */
    size_t kv_bytes, weight_bytes, scratch_bytes;
    int threads;
    const char *dtype, *kv_cache_type, *kv_cache_dtype, *isa;
};

GALLOP_API void gallop_executor_describe(const struct gallop_executor *x, struct gallop_executor_caps *caps);

/* New rows of one sequence. Zeros where a member is not said to be needed. */
struct gallop_rows {
    const int32_t *ids; /* [n] its tokens */
    size_t n;           /* 1 or more */
    size_t pos;         /* position of the first; row i has position pos + i */
    size_t slot;        /* of slots: where it lives, once in a run. At most the rows that are there: POS */
    /* Of blocks: [n_blocks] those of rows 0 .. pos + n - 1. What is behind them is not read. */
    const int32_t *blocks;
    size_t n_blocks;
    size_t n_wanted; /* logits of the last N_WANTED rows are wanted, 0 to n */
    /* NULL, or how the token behind the last row is chosen, whose logits must be wanted: as an engine does,
     * with what generation_config.json says where something is not given, and gallop_options.seed. The
     * scheduler ends texts: max_new_tokens, stop and stop_token must not be given, nor may bad_words, bias
     * and more than 0 logprobs (it has the logits); ignore_eos changes nothing. */
    const struct gallop_sampling *pick;
    size_t n_prompt; /* of pick: the token behind row n_prompt - 1 is the first drawn; at most pos + n */
    /* Of pick with a penalty: [pos + n] all tokens of the sequence, the prompt first; else NULL is fine. */
    const int32_t *tokens;
};

struct gallop_pick {
    int32_t id;    /* -1: none was asked for, or none can be chosen: a logit is NaN or +infinity */
    float logprob; /* with logprobs 0 */
};

/* What came of a run; valid until the next one. */
struct gallop_outcome {
    const float *logits;             /* [sum of n_wanted, vocab_size], in the order of the rows */
    const struct gallop_pick *picks; /* [n], one a sequence */
};

/* Computes ROWS [n], each of another sequence. Refused with a sentence, and nothing has changed: more than
 * gallop_executor_caps allows, a token outside the vocabulary, a position behind max_model_len, a slot that
 * comes twice or has fewer rows than POS, or lost rows that one at POS sees to a window; a table that is too
 * short, a block outside the pool, block 0 where rows are written or seen, a block that two sequences (or one
 * twice) write into. GALLOP_NO_SPACE: the slots' cache has no room for all these rows as things stand; end or
 * shorten other slots and come again. A sequence may read blocks that another one writes in the same run.
 * That the rows in front of POS were computed is the caller's word where the blocks are its own: what lies in
 * them is read whatever it is. Allocates nothing, but for the regions of dynamic and bmc that grow. */
GALLOP_API int gallop_executor_run(struct gallop_executor *x, const struct gallop_rows *rows, size_t n,
                                   struct gallop_outcome *out, char *err);

/* Of slots: rows from N on are not needed; 0: the slot is empty. Refused: it has fewer rows, or a window has
 * dropped some that one at N would see. */
GALLOP_API int gallop_executor_truncate(struct gallop_executor *x, size_t slot, size_t n, char *err);

/* Of blocks: what is in block FROM, into TO, in all layers; for a sequence that goes on in a block which is
 * shared in part. */
GALLOP_API int gallop_executor_copy_block(struct gallop_executor *x, size_t from, size_t to, char *err);

#ifdef __cplusplus
}
#endif

#endif
