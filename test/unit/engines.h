/* engines.h - engines on small models, their logits, and the answers to their requests. */
#ifndef GALLOP_TEST_ENGINES_H
#define GALLOP_TEST_ENGINES_H

#include "engine/engine_priv.h"
#include "gallop.h"

/* Returns the path of the model NAME: a golden of test/golden, "demo" for the bundled model, or a path
 * itself. The text is valid for the next three calls. */
const char *engines_path(const char *name);

/* Returns the options of a small engine: fp32, one thread, blocks of 16 rows. */
struct gallop_options engines_options(int64_t seqs, int64_t step_tokens, int64_t longest);

/* Calls gallop_open() for the model NAME with O, whose own model is ignored. engines_open() fails the test
 * unless the model opens. */
int engines_try(struct gallop **g, const char *name, const struct gallop_options *o, char *err);
struct gallop *engines_open(const char *name, const struct gallop_options *o);

/* Makes tokens [pos, pos + n) of text number TEXT: ids from 3 to 152. */
void engines_text(size_t text, size_t pos, size_t n, int32_t *ids);

/* ---- computing without requests ---- */

/* Computes tokens [pos, pos + n) of a sequence in SLOT, CHUNK in each step. m->logits holds the logits of the
 * last one. The sequence is announced with N_TOTAL tokens, all of them prompt. */
void engines_compute(struct llm *m, size_t slot, const int32_t *ids, size_t pos, size_t n, size_t chunk,
                     size_t n_total);

/* Returns the logits of the last LAST positions of IDS [n], CHUNK in each step (0: as many as fit), and the
 * hidden states if HIDDEN is not NULL. [last, V], free(). */
float *engines_logits(struct llm *m, const int32_t *ids, size_t n, size_t last, size_t chunk, float *hidden);

/* Checks the block counts of the cache. */
void engines_check_cache(struct gallop *g);

/* ---- requests ---- */

enum { ENGINES_MOST_TOKENS = 1024 };

/* The answer to a request. */
struct engines_answer {
    size_t n;
    int32_t token[ENGINES_MOST_TOKENS];
    float logprob[ENGINES_MOST_TOKENS];
    size_t n_top; /* the number of alternatives of the last token */
    char text[512];
    bool ended;
    struct gallop_event end;
};

/* Submits IDS [n] for N_NEW greedy tokens, including end tokens. WHICH is the number of the answer. */
uint64_t engines_submit(struct gallop *g, const int32_t *ids, size_t n, int64_t n_new, size_t which);

/* The same with the tokens of text number WHICH. */
uint64_t engines_submit_text(struct gallop *g, size_t n, int64_t n_new, size_t which);

/* Adds one event to ALL. Answer number I of a request has the index I + user pointer of the request. */
void engines_take(struct engines_answer *all, const struct gallop_event *ev);

/* Takes all events until no request is left. */
void engines_run(struct gallop *g, struct engines_answer *all);

/* Returns whether N answers differ in a token, in their texts or in their ends, and writes the difference to SAYS. */
bool engines_differ(const struct engines_answer *a, const struct engines_answer *b, size_t n, char says[256]);

struct gallop_stats engines_stats(const struct gallop *g);

#endif
