/* traffic.h - requests with times of arrival, for `bench --serve` and `simulate`: read from a trace, or
 * generated.
 *
 * A trace is a text file in one of three formats:
 *   Azure      CSV with the columns TIMESTAMP (a date, or seconds), ContextTokens and GeneratedTokens
 *   Vidur      CSV with the columns arrived_at (seconds; without it all requests arrive at once),
 *              num_prefill_tokens and num_decode_tokens
 *   Mooncake   JSON lines with timestamp (milliseconds), input_length, output_length and hash_ids: one
 *              hash for each 512 tokens of the prompt, so that requests whose lists begin with equal
 *              hashes share a prefix
 * Other columns and keys are ignored. Traces contain no tokens; tokens are generated from the hashes, or
 * from the number of the request. */
#ifndef GALLOP_LAB_BENCH_TRAFFIC_H
#define GALLOP_LAB_BENCH_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"

enum { TRAFFIC_HASH_TOKENS = 512 };

struct traffic_request {
    double at_s; /* seconds from the first arrival, ascending; 0 for later turns */
    size_t n_prompt, n_output;
    size_t first_hash,
        n_hashes;    /* hashes of the prompt: n_hashes entries of traffic.hash from index first_hash on */
    size_t n_shared; /* number of tokens at the beginning of the prompt that all requests of `group` share */
    uint32_t group;
    /* In conversations, the prompt of a turn begins with the prompt and the answer of the previous turn. */
    unsigned turn; /* number of the turn, from 0 */
    size_t before; /* index of the request of the previous turn, if turn > 0 */
    size_t next;   /* index of the request of the next turn, sent when this request is answered; 0: none */
    size_t first_answer; /* index of the answer's first token in traffic.answer, if there is a next turn */
};

struct traffic {
    struct traffic_request *request; /* [n] */
    size_t n, cap;
    size_t n_first;  /* number of first turns; they precede all later turns, in order of arrival */
    int32_t *answer; /* tokens of the answers that are part of later prompts */
    uint64_t *hash;  /* [n_hashes] */
    size_t n_hashes, cap_hashes;
};

/* Parameters of generated requests. Lengths are uniformly distributed between two limits. */
struct traffic_plan {
    size_t n;                    /* number of requests or conversations */
    double rate;                 /* requests per second; 0: all arrive at once */
    double burstiness;           /* shape of the gamma distribution of the times between arrivals */
    size_t prompt[2], output[2]; /* minimum and maximum number of new tokens of a prompt, and of tokens of an
                            * answer */
    size_t shared, groups;       /* shared tokens in each group, and number of groups */
    size_t turns;                /* turns of each conversation; 1: single requests */
    uint64_t seed;
};

/* Reads at most MOST requests (0: all) of the trace TEXT [n] and divides their times by SPEED. A zero byte
 * follows the N bytes of TEXT; TEXT is modified. ERR_INPUT names PATH and the line. */
int traffic_parse(struct traffic *t, char *text, size_t n, const char *path, size_t most, double speed,
                  struct err *e);
/* Generates the requests of PLAN. */
int traffic_make(struct traffic *t, const struct traffic_plan *plan, struct err *e);
/* Returns the number of tokens of the longest request, prompt and answer. */
size_t traffic_longest(const struct traffic *t);
void traffic_fini(struct traffic *t);

/* The values that were given for the command-line options of the table traffic_options. */
struct traffic_options {
    const char *trace;           /* value of --trace; "": --trace without a file; NULL: no --trace */
    const char *prompt, *output; /* values of --input-len and --output-len: "N" or "N:M" tokens */
    double speed;
    struct traffic_plan plan;
    struct {
        bool n, speed, rate, burstiness, prompt, output, shared, groups, turns, seed;
    } given; /* the options that the user gave */
};

extern const struct opt_row traffic_options[];
void traffic_options_init(struct traffic_options *o);
/* Returns the file of --trace, or NULL if there is none. */
const char *traffic_trace_file(const struct traffic_options *o);
/* Reads or generates the requests that the options describe. */
int traffic_of_options(struct traffic *t, const struct traffic_options *o, struct err *e);

/* Records that request I got TOKEN as number K of its answer. */
void traffic_answered(struct traffic *t, size_t i, size_t k, int32_t token);

/* Writes the prompt of request I to IDS [n_prompt], with token ids below N_VOCAB. Earlier turns must be
 * answered. */
void traffic_tokens(const struct traffic *t, size_t i, size_t n_vocab, int32_t *ids);

#endif
