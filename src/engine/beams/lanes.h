/* lanes.h - the sequences of a beam search: their tokens and their rows in the executor.
 *
 * A request with beam search has a sequence for each beam, its lanes. They are admitted, preempted and ended together:
 * the queue and the lists of the step contain only the first lane, the head, which has a slot for each lane. A lane
 * holds the tokens and rows of one running hypothesis, in any order; seq_beams.running has the order of beam.h.
 *
 * At first, the head computes the prompt as any sequence, and the other lanes are empty. After each step in which every
 * running lane has drawn, lanes_step() re-arranges them: if several continuations of a hypothesis are kept, it is
 * forked into lanes whose own hypotheses were dropped. Then every running lane lacks one row, and a step computes
 * either all of these rows or none. After a preemption, or if a fork fails, a lane lacks more rows. Then the lanes
 * compute them one after another up to the last row, which they compute together.
 */
#ifndef GALLOP_ENGINE_BEAMS_LANES_H
#define GALLOP_ENGINE_BEAMS_LANES_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/seq.h"

struct executor;
struct seq;

/* These functions accept every sequence: without beam search, S is its own head and its only lane. */
struct seq *lanes_head(struct seq *s);
size_t lanes_n(const struct seq *s); /* number of lanes, each of which has a slot while the sequence runs */
struct seq *lanes_at(struct seq *s, size_t i);
bool lanes_hold_rows(struct seq *s); /* returns true if a lane of S has rows */

static inline bool lanes_search(const struct seq *s)
{
    return s->common->rules.width > 0;
}

/* Returns true if each running lane of HEAD lacks only the row of its last token. */
bool lanes_are_level(const struct seq *head);

/* Returns the lane that computes rows next, or NULL if lanes_are_level(). A lane without rows first gets the rows of
 * another lane or of the prefix cache. */
struct seq *lanes_behind(struct seq *head, const struct executor *x);

/* Releases the rows of the lanes of S, except those of the head. */
void lanes_drop_rows(struct seq *s, const struct executor *x);

/* Extends the running hypotheses of HEAD by the candidates that the step has written to seq.list of each running lane.
 * Returns true if the search has ended. */
bool lanes_step(struct seq *head, const struct executor *x);

/* Gives all lanes of HEAD, which has ended and left its slots, the state of HEAD. If the search is complete, the lanes
 * that are results get the finished hypotheses, the head the best one; a result without a hypothesis gets an error.
 * Otherwise the outputs of all lanes become empty. */
void lanes_end(struct seq *head);

#endif
