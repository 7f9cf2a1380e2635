/* answers.h - what a request got: all that its events said, and how two of these differ. */
#ifndef GALLOP_TEST_PAIRS_ANSWERS_H
#define GALLOP_TEST_PAIRS_ANSWERS_H

#include "gallop.h"

/* a growing list of bytes */
struct bytes {
    char *at;
    size_t n, cap;
};

enum { ANSWERS_MAX_CHOICES = 6 };

struct choice {
    struct bytes ids;    /* the tokens */
    struct bytes tokens; /* of each token: id, log-probability, likeliest tokens, logits and probabilities */
    struct bytes prompt; /* the same for the tokens of the prompt */
    struct bytes embedding;     /* the pooled hidden state */
    struct bytes text, special; /* the text, and for each byte whether a special token wrote it */
    bool ended;
    /* members of the last event */
    enum gallop_finish finish;
    size_t n_prompt, n_output, n_warnings;
    int32_t stop_token;
    int context_full, forbids_all, has_score;
    double score, sum;
    char stop[40], error[200];
    size_t n_cached, n_stored; /* These are not compared. */
};

struct answer {
    int code; /* the gallop_code with which the request was refused; 0: it was accepted */
    char reason[GALLOP_ERR_SIZE];
    struct choice choice[ANSWERS_MAX_CHOICES];
};

/* Adds an event to A. N_VOCAB is the length of rows of logits. */
void answers_add(struct answer *a, const struct gallop_event *ev, size_t n_vocab);

void answers_clear(struct answer *a);

/* Returns whether A, an answer in company, differs in a bit from B, the answer to the same request alone, and writes
 * the difference to SAYS. B was not cancelled. A was cancelled when a choice had CANCEL_AT tokens (SIZE_MAX: never),
 * and then has the first of its tokens. */
bool answers_differ(const struct answer *a, const struct answer *b, size_t cancel_at, char says[256]);

#endif
