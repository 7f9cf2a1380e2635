/* ways.h - random engines: a model in a number format, which decides the bits of answers, and options that do not:
 * caches, schedulers, guesses, threads and executors. A new option enters here before it gets tests of its own. */
#ifndef GALLOP_TEST_PAIRS_WAYS_H
#define GALLOP_TEST_PAIRS_WAYS_H

#include "answers.h"
#include "draws.h"
#include "engine/dying.h"
#include "engine/static_shapes.h"
#include "requests.h"

#include "engine/guess/oracle.h"

/* What decides the bits of answers. */
struct ways_model {
    const char *name, *path;
    const char *dtype, *quant, *kv_dtype, *kv_sparse; /* as in struct gallop_options */
    bool on_plugin;                                   /* frames on the plugin of test/pjrt/fake.c */
    struct requests_kind kind;
};

enum ways_executor { WAYS_USUAL, WAYS_STATIC, WAYS_DYING };

enum ways_guesses { WAYS_NO_GUESSES, WAYS_ORACLE, WAYS_CONFIG };

/* What must not change a bit. */
struct way {
    struct gallop_options o;
    enum ways_executor executor;
    enum ways_guesses guesses;
    size_t n_guesses;              /* WAYS_ORACLE: number of guessed tokens of a step */
    double accept;                 /* WAYS_ORACLE: chance that a guess is right */
    uint64_t dies;                 /* WAYS_DYING: each run whose number is a multiple of it fails */
    uint64_t n_no_opens, n_laters; /* WAYS_DYING: as in struct dying */
    bool stores;                   /* a KV store on disk, which an engine leaves for the next */
};

/* An engine in its way. */
struct ways_engine {
    struct gallop *g;
    struct static_shapes shapes;
    struct dying dying;
    struct oracle oracle;
};

/* Draws a model and its number format. */
void ways_draw_model(struct ways_model *m, struct draws *d);

/* Draws a way for the model M. */
void ways_draw(struct way *w, const struct ways_model *m, struct draws *d);

/* Sets W to the way in which requests are answered one at a time: without prefix cache and guesses. */
void ways_alone(struct way *w, const struct ways_model *m);

/* Opens an engine for M in the way W. Guesses of WAYS_ORACLE are the tokens of ANSWER, by the `user` member of a
 * request. STORE is the folder of its store, if it has one. Returns a gallop_code. */
int ways_open(struct ways_engine *e, const struct ways_model *m, const struct way *w, struct answer *answer,
              const char *store, char err[GALLOP_ERR_SIZE]);

/* Returns whether W can compute Q: the beams of a search run at the same time, and executors of static shapes have one
 * row of logits for a prompt and no searches. */
bool ways_serves(const struct way *w, const struct request *q);

/* Write a description in one line to OUT. */
void ways_describe_model(const struct ways_model *m, char *out, size_t size);
void ways_describe(const struct way *w, char *out, size_t size);

#endif
