/* traffic.h - requests with times of arrival, for `bench --serve` and `simulate`: read from a trace, or generated.
 *
 * A trace is a file of lines. It is CSV with one of these headers (other columns are ignored):
 *   TIMESTAMP,ContextTokens,GeneratedTokens            Azure's LLM inference traces; dates or seconds
 *   arrived_at,num_prefill_tokens,num_decode_tokens    Vidur's; seconds. Without arrived_at all come at once
 * or JSON objects, one on each line, with Mooncake's timestamp (milliseconds), input_length, output_length and
 * hash_ids, each of which stands for 512 tokens of the prompt, so that requests whose lists begin alike share a
 * prefix. Traces have lengths and times only: tokens are generated from the number of the request, or the hash. */
#ifndef GALLOP_LAB_BENCH_TRAFFIC_H
#define GALLOP_LAB_BENCH_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"

enum { TRAFFIC_HASH_TOKENS = 512 };

struct traffic_request {
    double at_s; /* ascending from the first one; 0 for later turns */
    size_t n_prompt, n_output;
    size_t first_hash, n_hashes; /* in traffic.hash, of each TRAFFIC_HASH_TOKENS of the prompt */
    size_t n_shared;             /* first tokens, which all requests of GROUP share */
    uint32_t group;
    /* Of conversations: a prompt begins with the prompt and the answer of the turn before. */
    unsigned turn;       /* from 0 */
    size_t before;       /* the request of the turn before, if TURN > 0 */
    size_t next;         /* the request of the next turn, which is sent after this one is answered; 0: none */
    size_t first_answer; /* in traffic.answer, if there is a next turn */
};

struct traffic {
    struct traffic_request *request; /* [n] */
    size_t n, cap;
    size_t n_first;  /* first turns, in order of arrival; later turns follow them */
    int32_t *answer; /* answers of turns that others follow */
    uint64_t *hash;  /* [n_hashes] */
    size_t n_hashes, cap_hashes;
};

/* Parameters of generated requests. Lengths are uniform between two limits. */
struct traffic_plan {
    size_t n;
    double rate;                 /* requests per second; 0: all at once */
    double burstiness;           /* shape of the gamma distribution of gaps: 1 is Poisson, less is burstier */
    size_t prompt[2], output[2]; /* tokens of the prompt beyond shared and earlier ones; of the answer */
    size_t shared, groups;       /* shared tokens of a group; number of groups */
    size_t turns;                /* of each conversation; 1: single requests */
    uint64_t seed;
};

/* Reads at most MOST requests (0: all) of the trace TEXT [n], with SPEED times the request rate. TEXT is terminated by
 * zero and is modified. ERR_INPUT names PATH and the line. */
int traffic_parse(struct traffic *t, char *text, size_t n, const char *path, size_t most, double speed,
                  struct err *e);
int traffic_make(struct traffic *t, const struct traffic_plan *plan, struct err *e);
size_t traffic_longest(const struct traffic *t); /* tokens of the longest request, prompt and answer */
void traffic_fini(struct traffic *t);

/* The values of the options of traffic. */
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

/* Records that request I got TOKEN as number K of its answer. */
void traffic_answered(struct traffic *t, size_t i, size_t k, int32_t token);

/* Writes the prompt of request I to IDS [n_prompt], with ids below N_VOCAB. Earlier turns must be answered. */
void traffic_tokens(const struct traffic *t, size_t i, size_t n_vocab, int32_t *ids);

#endif
