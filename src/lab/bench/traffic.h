/* traffic.h - requests with times of arrival, for `bench --serve` and `simulate`: read from a trace, or
 * made up.
 *
 * A trace is a file of lines. CSV with one of these headers (others' columns may stand between and behind):
 *   TIMESTAMP,ContextTokens,GeneratedTokens            Azure's LLM inference traces; dates or seconds
 *   arrived_at,num_prefill_tokens,num_decode_tokens    Vidur's; seconds. Without arrived_at all come at once
 * or JSON objects, one a line: Mooncake's timestamp (milliseconds), input_length, output_length, hash_ids,
 * each of which names 512 tokens of the prompt, so that requests whose lists begin alike share a prefix. Only
 * lengths and times are in a trace: tokens are made up from the request's number, or the hash. */
#ifndef GALLOP_LAB_BENCH_TRAFFIC_H
#define GALLOP_LAB_BENCH_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"

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

/* What the options say that describe the traffic. */
struct traffic_options {
    const char *trace;           /* file; "": --trace without one; NULL: traffic is generated */
    const char *prompt, *output; /* "N" or "N:M" tokens, of PLAN */
    double speed;
    struct traffic_plan plan;
    struct {
        bool n, speed, rate, burstiness, prompt, output, shared, groups, turns, seed;
    } given;
};

extern const struct opt_row traffic_options[];
void traffic_options_init(struct traffic_options *o);
const char *traffic_trace_file(const struct traffic_options *o); /* of --trace; NULL: none */
int traffic_of_options(struct traffic *t, const struct traffic_options *o, struct err *e);

/* Request I got TOKEN as number K of its answer. */
void traffic_answered(struct traffic *t, size_t i, size_t k, int32_t token);

/* The prompt of request number I [n_prompt], ids below N_VOCAB. The turns before it are answered. */
void traffic_tokens(const struct traffic *t, size_t i, size_t n_vocab, int32_t *ids);

#endif
