/* bench.h - what `gallop bench` measures with: the least a step costs, contexts that are filled instead of
 * computed, the machine's roofs, and the rows of the kernels and linears of the backends beside them. Each
 * section is the file of its name.
 */
#ifndef GALLOP_APP_BENCH_BENCH_H
#define GALLOP_APP_BENCH_BENCH_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "base/threads/pool.h"
#include "engine/engine_priv.h"
#include "engine/llm.h"
#include "kern/peak.h"

/* ---- roof.c: what this machine can do for long, measured just now ----
 *
 * The denominators of every share that a benchmark prints. A roof is measured beside the work, in the same
 * minute and on the same threads, because neighbours, clocks and power limits move it.
 */

/* Medians of rounds: what is sustained, not what the best moment had. Work that takes less than its roof
 * says was done in better moments than those of the rounds. */
struct bench_roof {
    double fp32_flops; /* a second, fused multiply-adds counted as two, on all threads of the pool */
    double bf16_flops; /* of the bf16 dot, where linears take it; else fp32_flops, bf16 being widened */
    double int8_ops;   /* with VNNI; 0 where the processor lacks it */
    double dram_bytes; /* read a second, by all threads at once */
    bool bf16_native;  /* bf16_flops is the dot's: known from the processor, not from the clock */
};

/* The buffer that is read, 256 MB or more: each thread has a range of its own, which it has filled itself, so
 * that the pages lie in its node's memory, and reads from end to end, as a step reads weights. */
struct bench_roofs {
    struct pool *pool; /* borrowed */
    struct peak peak;
    bool dot; /* linears take the bf16 dot */
    char *p;
    size_t bytes;
};

int bench_roofs_open(struct bench_roofs *r, struct pool *p, struct err *e);
void bench_roofs_close(struct bench_roofs *r); /* a zeroed one is fine */

/* Rounds for about SECONDS, three at least: each reads all of the buffer once and computes a few milliseconds
 * with each loop. The pool must be idle. */
void bench_roofs_measure(struct bench_roofs *r, double seconds, struct bench_roof *out);

/* Operations a second with numbers of type T; without int8 dots int8 is widened. */
double bench_roof_flops(const struct bench_roof *r, enum dtype t);

/* What lies between A and B. */
struct bench_roof bench_roof_between(const struct bench_roof *a, const struct bench_roof *b);

/* One line about the machine and R, or the JSON line "roof". */
void bench_roof_print(const struct bench_roof *r, int threads, const char *isa, bool json);

/* Work that is timed in turns with the roofs above it. On a machine that others share, memory and clocks
 * change by twice within minutes, and a share of a roof that was measured a minute ago says little. So every
 * round reads memory, computes on registers and then works, a few milliseconds each and on all threads at
 * once, and the share is formed within the round; medians over the rounds count. */
struct bench_round {
    struct pool *pool;
    void *const *work;                              /* [threads] of each thread's own */
    void (*call)(void *work);                       /* once */
    const char *(*piece)(void *work, size_t bytes); /* memory to read that is in no cache; 64-byte aligned */
    double bytes, flops; /* of one call on one thread; flops 0: no roof is measured */
    peak_loop *loop;     /* its arithmetic at its best */
    peak_reader *read;
};

struct bench_round_result {
    double seconds; /* of one call */
    double share; /* the time that its bytes or its operations take at least, over SECONDS; 0 without flops */
    bool memory;  /* it is the bytes that take longer */
};

/* About SECONDS of rounds, three at least. */
struct bench_round_result bench_roof_rounds(const struct bench_round *b, double seconds);

/* ---- cost.c: what a step takes at least, the numerator of every share of a roof ----
 *
 * The model's own forward is run with a sink that counts and computes nothing (ops/timed.h), so every
 * linear, attention of every layer with its own window, and mixtures of experts count as what they are.
 * Counted is what an ideal machine cannot avoid: weights once a step (of experts those that the rows are
 * expected to choose), rows of the KV cache once for each sequence and layer that sees them (also where
 * layers share them), the products. Activations, tables and what caches could keep are not counted.
 *
 * Operators run one after the other, so the ideal time of a step is the sum over them of the longer of
 * bytes / bandwidth and operations / peak.
 */

enum { BENCH_MAX_SEQS = 257 };

struct bench_cost_model {
    const struct model *model; /* borrowed */
    struct work *work;         /* borrowed; is not written */
    enum dtype kv_dtype;
    const struct bench_roof *roof; /* borrowed; a roof of 0 bounds nothing */
};

struct bench_cost {
    double bytes, flops;
    double seconds;        /* the ideal time */
    double memory_seconds; /* of it, of what memory bounds */
};

/* N_SEQS sequences alike: N tokens each behind POS rows; the last WANTED of each give logits. */
struct bench_rows {
    size_t n_seqs, pos, n, wanted;
};

/* One step of all ROWS [n_rows], BENCH_MAX_SEQS sequences at most. Rows that are written count as rows that
 * are read. */
struct bench_cost bench_cost_step(const struct bench_cost_model *m, const struct bench_rows *rows,
                                  size_t n_rows);

/* STEPS such steps one after the other, each from where the one before ended. */
struct bench_cost bench_cost_steps(const struct bench_cost_model *m, const struct bench_rows *rows,
                                   size_t n_rows, size_t steps);

/* A prompt of N tokens in steps of at most CHUNK; only the last token gives logits. */
struct bench_cost bench_cost_prefill(const struct bench_cost_model *m, size_t n, size_t chunk);

/* What OP takes at least, added to COST. */
void bench_cost_add_op(struct bench_cost *cost, const struct bench_roof *roof, const struct timed_op *op);

/* ---- trace.c: where the time of steps goes, operator by operator ---- */

enum { BENCH_TRACE_ROWS = 64, BENCH_NAME_MAX = 56 };

/* Calls of one operator, all layers together. */
struct bench_trace_row {
    int kind;
    char name[BENCH_NAME_MAX]; /* of the linear or the module without its layer, else of the operator */
    size_t calls;
    double seconds;
    struct bench_cost cost;
};

struct bench_trace_sum {
    struct bench_trace_row row[BENCH_TRACE_ROWS];
    size_t n_rows, n_steps;
    double seconds; /* of the steps */
};

struct bench_trace {
    struct timed *timed; /* borrowed */
    struct timed_op *op; /* [cap] of the step that runs */
    size_t n_ops, cap;
};

/* From now on the operators of M's steps are recorded. T must stay where it is. */
int bench_trace_open(struct bench_trace *t, struct llm *m, struct err *e);
void bench_trace_close(struct bench_trace *t); /* a zeroed one is fine; while its model is open */

/* The step that took SECONDS is over: its operators are added to S. Without any it was none. */
void bench_trace_step(struct bench_trace *t, double seconds, const struct bench_roof *roof,
                      struct bench_trace_sum *s);

/* NAME without its layer, "mlp.down_proj"; of a module, NAME being that of one of its linears, "mlp". */
void bench_trace_name(const char *name, bool is_module, char *out, size_t size);

/* Means of a step, kind by kind: a table, or with OF, whose keys say of what, JSON lines "kind", "operator"
 * and "step". Takes OF. */
void bench_trace_print(const struct bench_trace_sum *s, json_t *of);

/* ---- fill.c: long contexts without the time that computing them takes ----
 *
 * The first rows of one prompt, at most 512, are really computed. Every sequence is then filled with copies
 * of them, over and over up to the length that is asked for: the speed of attention does not depend on what
 * the rows hold, only on where they lie, and each sequence has memory of its own. Positions of copies are
 * wrong, so what is computed from them means nothing.
 */

struct bench_fill {
    struct llm *m; /* borrowed */
    size_t n;      /* rows that were computed; a multiple of 16 unless no context is longer */
    char *tile;    /* [L][K, V][n_kv][ceil(n / 16)] tiles: their copies */
    size_t bytes;
    size_t *len; /* [max_seqs] rows that each sequence was filled with, 0: none */
};

/* Computes the rows in sequence 0, which must be empty and is again afterwards. IDS holds at least min(512,
 * LONGEST) tokens; LONGEST is the longest context that will be asked for. */
int bench_fill_open(struct bench_fill *f, struct llm *m, const int32_t *ids, size_t longest, struct err *e);
void bench_fill_close(struct bench_fill *f); /* a zeroed one is fine; sequences keep their rows */

/* Gives SEQ exactly N rows, keeping of what it was filled with before as much as it can; what was computed
 * behind that is gone. ERR_NOSPACE, ERR_NOMEM: SEQ is empty. */
int bench_fill_sequence(struct bench_fill *f, size_t seq, size_t n, struct err *e);

/* Empties SEQ. */
void bench_fill_drop(struct bench_fill *f, size_t seq);

/* ---- kernels.c: how fast every row of every kernel is here ----
 *
 * Times every row of kern.def that this machine can run on THREADS threads at once, each with work of its
 * own, about SECONDS_PER_ROW for each shape, and prints a table, or JSON lines
 * {"kernel","isa","class","shape","us","gb_s","gflop_s","roof","roof_share"}, to stdout. The roofs of all
 * threads come first ("kernel":"roof"). Only
 * kernels whose names begin with ONLY. Returns 0, or the code of what could not be had. */
int bench_kernels(int threads, const char *only, bool json, double seconds_per_row, struct err *e);

/* ---- backends.c: every linear backend of the build on a model's linears ---- */

enum { BENCH_BACKENDS_ROWS = 24, BENCH_BACKENDS_REPS = 100 };

struct bench_backends {
    size_t rows[BENCH_BACKENDS_ROWS]; /* [n_rows] of a call: of streams, and behind N_BATCHES of prompts */
    size_t n_rows, n_batches;
    size_t reps;
    double roof_seconds;
    bool json;
};

/* Prints the roofs, and then a table or JSON lines "backend" with the keys of bench_trace_print()'s
 * operators, with "over_auto", the time of the backend that the engine chooses by itself over this one's,
 * and, of the chosen one, "behind", the fastest of those that are more than 3 % ahead of it. Of O counts what
 * says the model, its types and the threads. */
int bench_backends(const struct bench_backends *b, const struct gallop_options *o, struct err *e);

/* ---- serve.c: a load of many requests ---- */

extern const struct opt_row bench_serve_options[];
int bench_serve(const struct opt_values *v, struct err *e);

/* ---- traffic.c: requests with times of arrival, for `bench --serve` and `simulate`: read from a trace, or
 * made up.
 *
 * A trace is a file of lines. CSV with one of these headers (others' columns may stand between and behind):
 *   TIMESTAMP,ContextTokens,GeneratedTokens            Azure's LLM inference traces; dates or seconds
 *   arrived_at,num_prefill_tokens,num_decode_tokens    Vidur's; seconds. Without arrived_at all come at once
 * or JSON objects, one a line: Mooncake's timestamp (milliseconds), input_length, output_length, hash_ids,
 * each of which names 512 tokens of the prompt, so that requests whose lists begin alike share a prefix. Only
 * lengths and times are in a trace: tokens are made up from the request's number, or the hash.
 */

enum { TRAFFIC_HASH_TOKENS = 512 };

struct traffic_request {
    double at_s; /* from the first on, ascending; of a further turn 0 */
    size_t n_prompt, n_output;
    size_t first_hash, n_hashes; /* of the prompt's pieces of TRAFFIC_HASH_TOKENS, in traffic.hash */
    size_t n_shared;             /* first tokens that all requests of GROUP have */
    uint32_t group;
    /* The turns of a conversation: a prompt begins with the prompt and the answer of the turn before. */
    unsigned turn;       /* from 0 */
    size_t before;       /* the turn before, if it is not the first */
    size_t next;         /* the turn behind it, which is sent when this one is answered; 0: none */
    size_t first_answer; /* its tokens, in traffic.answer, if there is a next turn */
};

struct traffic {
    struct traffic_request *request; /* [n] */
    size_t n, cap;
    size_t n_first;  /* those that come by themselves, in order of arrival; further turns stand behind them */
    int32_t *answer; /* of turns that others follow */
    uint64_t *hash;  /* [n_hashes] */
    size_t n_hashes, cap_hashes;
};

/* Traffic that is made up. Lengths are uniform from .. to. */
struct traffic_plan {
    size_t n;
    double rate;                 /* requests a second; 0: all at once */
    double burstiness;           /* shape of the gamma distribution of gaps: 1 is Poisson, less is burstier */
    size_t prompt[2], output[2]; /* tokens behind those that are shared or were said before; of an answer */
    size_t shared, groups;       /* first tokens that the requests of a group share; number of groups */
    size_t turns;                /* of each conversation; 1: none */
    uint64_t seed;
};

/* At most MOST requests of the trace TEXT [n] (0: all), as many times as fast as SPEED says. A zero ends
 * TEXT, which is cut into lines. ERR_INPUT names PATH and the line. */
int traffic_parse(struct traffic *t, char *text, size_t n, const char *path, size_t most, double speed,
                  struct err *e);
int traffic_make(struct traffic *t, const struct traffic_plan *plan, struct err *e);
size_t traffic_longest(const struct traffic *t); /* tokens of the longest request, prompt and answer */
void traffic_fini(struct traffic *t);            /* a zeroed one is fine */

/* The options that say what is sent, and what they say. */
extern const struct opt_row traffic_options[];
const char *traffic_trace_file(const struct opt_values *v); /* of --trace; NULL: none */
int traffic_of_options(struct traffic *t, const struct opt_values *v, struct err *e);

/* Request I got TOKEN as number K of its answer. */
void traffic_answered(struct traffic *t, size_t i, size_t k, int32_t token);

/* The prompt of request number I [n_prompt], ids below N_VOCAB. The turns before it are answered. */
void traffic_tokens(const struct traffic *t, size_t i, size_t n_vocab, int32_t *ids);

/* ---- serving.c: what people who serve models ask: times to the first token and between tokens, rates,
 * shares of hits.
 *
 * Notes the moments of each request, by a real or a simulated clock, and sums them up with the names and
 * definitions of `vllm bench serve`: ttft from sending (when a request is due and
 * may be sent) to the first token; tpot (last - first) / (tokens - 1)
 * of a request with two and more; itl the gaps between tokens of a request; e2el from sending to the last
 * token. What vllm has not: hits of the prefix cache, and full_batch_throughput, tokens a second of the steps
 * in which as many streams went on as ever did at once (full_batch): without beginning and end of a load.
 */

struct serving_request {
    double sent_s, first_s, last_s; /* clock; the last two if tokens came */
    size_t n_output, n_cached;
    bool ended, failed;
};

struct serving {
    struct traffic *traffic;         /* borrowed */
    struct serving_request *request; /* [traffic->n] */
    double *gap;                     /* [n_gaps] seconds */
    size_t n_gaps, cap_gaps;
    size_t n_sent, n_ended, n_failed, n_too_long, most_open;
    size_t places; /* requests that may be open at once; SIZE_MAX: any number */
    size_t n_computed,
        n_told; /* open while the last step was computed, and when all that came of it was told */
    size_t n_second, most_a_second;       /* tokens of the second that runs, of the fullest one */
    size_t n_streams;                     /* that have their first token and not their last */
    size_t n_step_streams, n_step_tokens; /* streams when the step began; tokens that came of it */
    size_t n_full,
        n_full_tokens;     /* the most streams there were; tokens of the steps that began with as many */
    double full_s, step_s; /* time of those; end of the last step */
    double token_s, end_s; /* of the last token; of the last that happened */
};

/* With at most PLACES requests open at once. */
int serving_open(struct serving *s, struct traffic *t, size_t places, struct err *e);
void serving_close(struct serving *s); /* a zeroed one is fine */

/* Request I is sent at NOW. False: with its answer it is longer than MAX_LEN tokens, and has failed. */
bool serving_sent(struct serving *s, size_t i, double now_s, size_t max_len);

/* The moment at which the next request to be sent, which was due at DUE_S, found a place: DUE_S if one was
 * empty while the last step was computed and is so still, else the end of that step, which emptied it. */
double serving_place(const struct serving *s, double due_s);

/* A step was computed; what came of it is told next. */
void serving_computed(struct serving *s);

/* Request I got a TOKEN at NOW. ERR_NOMEM: the gap is lost. */
int serving_token(struct serving *s, size_t i, int32_t token, double now_s);

/* All that came of the step which ended at NOW is told. */
void serving_step(struct serving *s, double now_s);
void serving_ended(struct serving *s, size_t i, double now_s, size_t n_cached, bool failed);

/* Limits of goodput in seconds; 0: none. */
struct serving_limits {
    double ttft_s, tpot_s, e2el_s;
};

/* Percentiles are those at P [n_p] percent; sorts the gaps. New reference; NULL: out of memory. */
json_t *serving_summary(const struct serving *s, const struct serving_limits *lim, const double *p,
                        size_t n_p);

/* O as JSON, or as a table of what people look for; drops it. MAX_LEN is that of serving_sent(). */
void serving_print(json_t *o, size_t max_len, bool json);

#endif
