/* sched.c - decode first, then prompts by arrival. */
#include "engine/sched.h"

/* Adds picks of sequences that lack one token (ONE) or more, keeping OUT sorted by seq. */
static size_t take(const struct sched_seq *seq, size_t n, int one, size_t chunk, size_t *budget,
                   size_t max_seqs, struct sched_pick *out, size_t n_out)
{
    for (size_t i = 0; i < n && n_out < max_seqs && *budget; i++) {
        size_t lack = seq[i].known - seq[i].computed, give, at;

        if ((lack == 1) != one)
            continue;
        give = lack < chunk ? lack : chunk;
        give = give < *budget ? give : *budget;
        *budget -= give;
        for (at = n_out++; at > 0 && out[at - 1].seq > i; at--)
            out[at] = out[at - 1];
        out[at] = (struct sched_pick){i, give};
    }
    return n_out;
}

size_t sched_plan(const struct sched_seq *seq, size_t n, const struct sched_limits *lim,
                  struct sched_pick *out)
{
    size_t budget = lim->max_tokens, chunk = lim->max_chunk ? lim->max_chunk : lim->max_tokens, n_out;

    n_out = take(seq, n, 1, chunk, &budget, lim->max_seqs, out, 0);
    return take(seq, n, 0, chunk, &budget, lim->max_seqs, out, n_out);
}
