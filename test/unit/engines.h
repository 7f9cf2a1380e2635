/* engines.h - engines on small models, what they compute, and what becomes of their requests. */
#ifndef GALLOP_TEST_ENGINES_H
#define GALLOP_TEST_ENGINES_H

#include "engine/engine_priv.h"

/* Where the model NAME lies: a golden of test/golden by its name, "demo" the bundled one; a path stays
 * itself. The text of one of the last four calls. */
const char *engines_path(const char *name);

/* Options of a small engine: fp32, one thread, blocks of 16 rows. */
struct gallop_options engines_options(int64_t seqs, int64_t step_tokens, int64_t longest);

/* gallop_open() of the model NAME with O, whose own model does not count. The second fails the test unless it
 * opens. */
int engines_try(struct gallop **g, const char *name, const struct gallop_options *o, char *err);
struct gallop *engines_open(const char *name, const struct gallop_options *o);

/* Tokens [pos, pos + n) of the text number TEXT: ids from 3 to 152. */
void engines_text(size_t text, size_t pos, size_t n, int32_t *ids);

/* ---- computing without requests ---- */

/* Tokens [pos, pos + n) of a sequence into SLOT, CHUNK a step. The logits of the last stand in m->logits. The
 * sequence is said to have N_TOTAL tokens in the end, all of them prompt. */
void engines_compute(struct llm *m, size_t slot, const int32_t *ids, size_t pos, size_t n, size_t chunk,
                     size_t n_total);

/* Logits of the last LAST positions of IDS [n], CHUNK a step (0: as many as it takes), and the hidden states
 * where HIDDEN is not NULL. [last, V], free(). */
float *engines_logits(struct llm *m, const int32_t *ids, size_t n, size_t last, size_t chunk, float *hidden);

/* The blocks of the cache are counted right. */
void engines_check_cache(struct gallop *g);

/* ---- requests ---- */

enum { ENGINES_MOST_TOKENS = 1024 };

/* What came of a request. */
struct engines_answer {
    size_t n;
    int32_t token[ENGINES_MOST_TOKENS];
    float logprob[ENGINES_MOST_TOKENS];
    size_t n_top; /* alternatives told with the last token */
    char text[512];
    bool ended;
    struct gallop_event end;
};

/* Submits IDS [n] for N_NEW greedy tokens, whatever they are; WHICH is the number of its answer. */
uint64_t engines_submit(struct gallop *g, const int32_t *ids, size_t n, int64_t n_new, size_t which);

/* The same with tokens of the text number WHICH. */
uint64_t engines_submit_text(struct gallop *g, size_t n, int64_t n_new, size_t which);

/* One event into ALL, whose places are the requests' user pointers. */
void engines_take(struct engines_answer *all, const struct gallop_event *ev);

/* All events until nothing is left. */
void engines_run(struct gallop *g, struct engines_answer *all);

/* Where N answers differ: in a token, or in how they end. False: they are the same. */
bool engines_differ(const struct engines_answer *a, const struct engines_answer *b, size_t n, char says[256]);

struct gallop_stats engines_stats(const struct gallop *g);

#endif
