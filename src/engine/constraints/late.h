/* late.h - deferred token masks: masks that take long are computed on threads of their own, while the steps go on
 * without their sequences.
 *
 * The engine's thread computes the masks of the next tokens before a step, with limited work (masks.h). A mask that is
 * then incomplete is deferred: the constraint and the runs of all its sequences with deferred masks go to a thread of
 * late_work, which alone uses them until it returns them. Meanwhile the steps leave out the sequences of this
 * constraint. A mask depends only on the text before it, so that answers do not depend on the thread that computes the
 * mask, or on the time.
 *
 * The threads make one mask at a time. They serve the clients in turn (base/threads/turns.h), however many constraints
 * a client has, and the constraints of a client in turn.
 *
 * All functions are called by the engine's thread. A sequence may end while a thread has its run: its late_mask then
 * stays with the thread until the constraint is returned.
 */
#ifndef GALLOP_ENGINE_CONSTRAINTS_LATE_H
#define GALLOP_ENGINE_CONSTRAINTS_LATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/threads/thread.h"
#include "base/threads/turns.h"
#include "text/grammar/constraint.h"

struct constraints;
struct constraints_entry;

enum { LATE_THREADS = 2 };

/* The mask of the token after the known tokens of a sequence, complete or not. */
struct late_mask {
    struct late_mask *next;      /* next mask of the same job */
    bool is_lent;                /* a thread owns RUN and the members below it */
    bool was_lent;               /* a thread has released it, and no step has read it yet */
    bool is_orphan;              /* a thread owns it, and the sequence has ended */
    struct constraint_run run;   /* the sequence's run while a thread uses the constraint */
    struct constraint_run *home; /* the member of the sequence to which RUN returns */
    bool has_token;              /* the run lacks TOKEN, the last known token of the sequence */
    bool is_made;                /* the members below are set for all known tokens */
    int32_t token;
    size_t n_allowed;
    uint32_t *mask; /* [mask_words] without end tokens; stored after this struct in the same allocation */
    struct err err; /* the constraint has reached a limit; code 0: no */
    double seconds; /* time that threads have spent on it */
};

struct late_job;

struct late_work {
    struct constraints *constraints; /* borrowed; NULL: no sequence has had a deferred mask */
    struct thread thread[LATE_THREADS];
    size_t n_threads;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t work, done;
    struct turns turns; /* the waiting jobs; a job waits again after each mask */
    struct late_job *finished;
    _Atomic size_t n_finished; /* jobs in `finished`, read without the lock */
    bool stops;
    uint64_t n_masks; /* deferred masks so far */
    size_t n_turns;   /* turns of jobs so far */
    /* For tests: called by a thread before each mask, with the number of the turn and the client. NULL: not called. */
    void (*door)(void *ctx, size_t turn, uint32_t client);
    void *door_ctx;
};

struct late_mask *late_mask_new(size_t mask_words);
void late_mask_free(struct late_mask *x); /* X may be NULL; while a thread has X, it is freed later */

/* Adds x->token to RUN if RUN lacks it, and computes the mask of X. Returns false if the work limit of RUN ends the
 * computation; otherwise sets x->is_made, and x->err if the constraint has reached one of its own limits. */
bool late_mask_make(struct late_mask *x, struct constraint_run *run);

/* Hands the constraint ENTRY of C to the threads in three calls: late_begin(), late_add() for each sequence with a
 * deferred MASK and its RUN, and late_lend(). late_begin() returns NULL, and nothing changes, if memory is exhausted or
 * no thread can be started. */
struct late_job *late_begin(struct late_work *w, struct constraints *c, struct constraints_entry *entry);
void late_add(struct late_job *job, struct late_mask *mask, struct constraint_run *run);
void late_lend(struct late_work *w, struct late_job *job);

/* Takes the constraints back whose masks are made, and returns the runs to their sequences. Runs of ended sequences are
 * freed. */
void late_take(struct late_work *w);

/* Waits at most SECONDS until all masks of some constraint are made. */
void late_wait(struct late_work *w, double seconds);

/* Waits for the masks that are being made, and ends the threads. All sequences have ended. W may be zeroed. */
void late_close(struct late_work *w);

#endif
