/* guess.h - speculative decoding: the guessed next tokens of a sequence, the interface of their sources, and the
 * learned chances that guesses are right.
 *
 * A step computes the rows of the last known token of a sequence and of the guesses after it. Row j then gives the
 * logits of the token after guess j. The step draws the rows in order, each with the number of its own token, and keeps
 * the drawn tokens up to the first that differs from the guess. A drawn token is a function of logits, parameters, seed
 * and number only, so an answer has the same tokens with and without guesses; guesses only determine the number of
 * tokens of a step. Rejection sampling, which other programs use, is not needed: it would make the tokens depend on the
 * guesses.
 */
#ifndef GALLOP_ENGINE_GUESS_GUESS_H
#define GALLOP_ENGINE_GUESS_GUESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GUESS_MOST = 32,   /* maximum number of guesses of a sequence in a step */
    GUESS_MATCHES = 8, /* classes of match lengths, for the learned chances */
};

enum guess_source {
    GUESS_FORCED, /* tokens that a constraint forces */
    GUESS_NGRAM,  /* tokens that followed an earlier occurrence of the last tokens in the sequence */
    GUESS_SUFFIX, /* the same, in all sequences of the engine */
    GUESS_DRAFT,  /* a draft model, one token after another */
    GUESS_PARD,   /* a draft model, all tokens in one pass */
    GUESS_SELF,   /* the model itself with int4 weights */
    GUESS_ORACLE, /* guesses of which a known share is right, for measurements */
    GUESS_SOURCES
};

const char *guess_source_name(enum guess_source source);

/* The guesses of a sequence for its next step. The tokens are in seq.token, after the known ones. */
struct guess {
    size_t most; /* maximum number that the step can use */
    size_t n;    /* number of guesses */
    enum guess_source source;
    size_t match;  /* lookup: number of tokens that match; otherwise 0 */
    size_t part;   /* draft models: one thread draws the guesses of all sequences with this number */
    float *chance; /* [n] chance that guess j and all guesses before it are right; borrowed from the step */
};

/* Counters of an engine, or of one sequence. */
struct guess_counts {
    uint64_t n_steps; /* in a sequence only: steps that generated tokens */
    /* number of times that guesses were verified, one for each step of a sequence with guesses */
    uint64_t n_drafts;
    uint64_t n_guessed, n_accepted; /* verified guesses, and the correct ones among them */
};

void guess_counts_add(struct guess_counts *c, size_t n_guessed, size_t n_accepted);

struct seq;

/* A source of guesses. The functions are called by the engine's thread between runs, and do not allocate. */
struct guess_maker {
    void *ctx;
    size_t most;   /* maximum number of guesses of a sequence, at most GUESS_MOST */
    bool adaptive; /* the step computes only guesses that are expected to pay */
    /* For a draft model, whose guesses take time. DRAFT: its source; GUESS_SOURCES: there is none. PASS_S: the
     * measured seconds of a pass; 0: unknown. IS_PARALLEL: one pass makes all guesses. DEPTH: the maximum number of
     * its guesses in the next step, set by the step. */
    enum guess_source draft;
    double pass_s;
    bool is_parallel;
    size_t depth;
    /* Writes up to guess.most guesses of each of SEQ [n] after its known tokens; sets guess.n, source and match. */
    void (*propose)(void *ctx, struct seq **seq, size_t n);
    /* Called when SEQ has left its slot and its rows are lost. NULL: not needed. */
    void (*leave)(void *ctx, const struct seq *seq);
};

/* ---- chances ---- */

/* Estimates, from decayed counts, of the chance that a guess is right if all guesses before it are, by source, class
 * of the match length, and position. */
struct guess_chances {
    float tried[GUESS_SOURCES][GUESS_MATCHES][GUESS_MOST], right[GUESS_SOURCES][GUESS_MATCHES][GUESS_MOST];
};

void guess_chances_init(struct guess_chances *c);
/* Sets g->chance [g->n] to the estimates of C. */
void guess_chances_set(const struct guess_chances *c, struct guess *g);
/* Counts the result of G: its first N_TRIED guesses were compared, of which the first N_RIGHT were right. */
void guess_chances_learn(struct guess_chances *c, const struct guess *g, size_t n_tried, size_t n_right);

#endif
