/* requests.h - the random request: features of gallop_request beside each other. A new feature of requests enters here
 * before it gets tests of its own. */
#ifndef GALLOP_TEST_PAIRS_REQUESTS_H
#define GALLOP_TEST_PAIRS_REQUESTS_H

#include "answers.h"
#include "draws.h"
#include "gallop.h"

enum {
    REQUESTS_LONGEST = 480, /* the largest number of tokens of a prompt and its answer */
    REQUESTS_MAX_NEW = 24,
};

struct request {
    struct gallop_request r; /* with pointers into this struct */
    int32_t ids[REQUESTS_LONGEST];
    int8_t mask[REQUESTS_LONGEST];
    int32_t bias_id[3], stop_token[2];
    float bias[3];
    size_t cancel_at; /* the request is cancelled after this many tokens; SIZE_MAX: never */
};

/* What a request may ask for, which depends on the model. */
struct requests_kind {
    size_t longest;   /* number of tokens of a prompt and its answer, at most REQUESTS_LONGEST */
    int32_t poison;   /* a token whose rows are NaN; 0: there is none */
    bool has_schemas; /* the tokenizer has tokens for any text */
    bool greedy;      /* nothing but tokens that are chosen greedily */
};

/* Makes request I. BEFORE [i] are the requests before it and ANSWER [i] their answers, from which prompts are made. */
void requests_make(struct request *q, size_t i, const struct request *before, const struct answer *answer,
                   const struct requests_kind *kind, struct draws *d);

/* Writes a description of Q in one line to OUT. */
void requests_describe(const struct request *q, char *out, size_t size);

#endif
