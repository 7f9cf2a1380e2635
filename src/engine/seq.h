/* seq.h - one request on its way: its tokens, what it asked for, what it still holds back.
 *
 * Everything is allocated when the request is submitted (one arena, one detokenizer), so that a step adds a
 * token without allocating. States go one way: waiting, running, done; preemption leads back to waiting with
 * nothing computed.
 */
#ifndef GALLOP_ENGINE_SEQ_H
#define GALLOP_ENGINE_SEQ_H

#include "base/mem.h"
#include "engine/sample.h"
#include "engine/sampling.h"
#include "engine/stop.h"
#include "text/tok/tok.h"

enum seq_state { SEQ_WAITING, SEQ_RUNNING, SEQ_DONE };

struct seq {
    struct seq *next; /* in order of arrival */
    uint64_t id;
    void *user;
    struct arena arena;
    struct sampling sampling; /* merged and proved */
    int32_t *token;           /* [cap] prompt, then output */
    size_t n_prompt, n_known, cap;
    size_t n_computed; /* rows in the cache */
    size_t n_reached;  /* the most rows it ever had there: those below are computed again */
    size_t last_total; /* n_known of the last forward */
    size_t slot;       /* number in the cache while running */
    enum seq_state state;
    struct sample_history history;
    struct stop stop;
    struct tok_stream *detok; /* NULL: no tokenizer, tokens only */
    struct buf piece;         /* scratch between detokenizer and stop strings */
    struct buf text;          /* bytes of the last step's TEXT events */
    bool context_cuts;        /* the context ends it, not a limit that was asked for */
    bool cancelled;
    struct err fault;                /* code set: ended by an error */
    double t_first, t_token, t_last; /* clock: first computed, first token, latest token */
};

struct seq_request {
    const int32_t *ids;
    size_t n_ids;
    const struct sampling
        *sampling; /* merged, with its seed; arrays may be borrowed from the caller: they are copied */
    bool keep_special;
    void *user;
};

/* Proves the request against the vocabulary and MAX_LEN positions and allocates all it will need. */
int seq_new(struct seq **out, const struct seq_request *r, const struct tok *tok, size_t n_vocab,
            size_t max_len, struct err *e);
void seq_free(struct seq *s); /* NULL is fine */

size_t seq_n_output(const struct seq *s);
size_t seq_most_rows(const struct seq *s); /* that it can need: its last token is not computed */

#endif
