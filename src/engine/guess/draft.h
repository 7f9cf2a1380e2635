/* draft.h - guesses of a draft model: a small model with the vocabulary of the model that it serves (the target), which
 * guesses one token after another, or all tokens in one pass (PARD, https://arxiv.org/abs/2504.18583).
 *
 * A guess is drawn from the draft's logits as the target draws its token: with the parameters, the seed and the number
 * of that token. Both draws then use the same noise, so that similar distributions mostly give the same token
 * (sample.h). A draft of PARD gets mask tokens after the known tokens, each of which predicts one more token; their
 * rows are dropped after the pass.
 *
 * The draft keeps rows of each running sequence, up to a limit that holds for every sequence at the same time. A longer
 * sequence is cut: the draft then sees its first tokens and its last ones, at positions without a gap. A sequence whose
 * rows are missing (a new prompt, after a preemption or a cut) gets no guesses until its rows are computed, a limited
 * number of them in each step.
 */
#ifndef GALLOP_ENGINE_GUESS_DRAFT_H
#define GALLOP_ENGINE_GUESS_DRAFT_H

#include "engine/guess/guess.h"

struct err;
struct llm;

struct draft_options {
    const struct gallop_options *engine; /* the target's; isa, allow_links, download and progress are used */
    const char *model, *revision;        /* as in struct gallop_options */
    const char *quant;    /* NULL: as stored if the checkpoint is quantized or packed, otherwise int8 */
    size_t max_model_len; /* 0: the smaller context length of target and draft model, at most DRAFT_ROWS */
    double kv_memory; /* GiB of the KV cache; 0: enough for max_model_len rows of all sequences, at most 4 */
    bool is_parallel; /* a draft that was trained for it guesses all tokens in one pass */
    bool must_be_parallel; /* a draft that was not trained for it is an error */
    size_t most;           /* maximum number of guesses of a sequence; 0: the default */
};

enum {
    DRAFT_ROWS = 2048,    /* default limit of the rows of a sequence */
    DRAFT_SINK = 4,       /* first tokens of a sequence that is cut */
    DRAFT_CATCH_UP = 256, /* maximum number of missing rows that a step computes */
    DRAFT_USUAL = 4,      /* default number of guesses, one by one */
    DRAFT_USUAL_PARD = 12,
};

struct draft;

/* Opens the draft model of O for TARGET, whose threads it uses; both are borrowed. The caller has unblocked SIGBUS.
 * ERR_INPUT: the vocabularies differ; ERR_UNSUPPORTED: the model cannot be a draft; or an error of llm_open(). */
int draft_open(struct draft **out, const struct draft_options *o, struct llm *target, struct err *e);
void draft_close(struct draft *d); /* D may be NULL */

/* Functions of struct guess_maker. Each guess.most is at most draft_most(). */
void draft_propose(struct draft *d, struct seq **seq, size_t n);
void draft_leave(struct draft *d, const struct seq *seq);

enum guess_source draft_source(const struct draft *d); /* GUESS_DRAFT or GUESS_PARD */
size_t draft_most(const struct draft *d);              /* the maximum number of guesses of a sequence */
/* Returns the mean time in seconds of a pass that gives guesses; passes that compute rows of long prompts do not count.
 * 0: not known yet. */
double draft_pass_s(const struct draft *d);
const struct llm *draft_llm(const struct draft *d); /* for measurements of memory and time */

#endif
