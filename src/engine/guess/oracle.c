/* oracle.c - chooses right and wrong tokens by a hash of the position. */
#include "engine/guess/oracle.h"

#include "base/rng.h"
#include "engine/seq.h"

static void propose_one(struct oracle *o, struct seq *s)
{
    size_t n = 0, n_output = seq_n_output(s);
    const int32_t *answer = o->answer(o->ctx, s, &n);

    s->guess.n = 0;
    s->guess.source = GUESS_ORACLE;
    s->guess.match = 0;
    for (; answer && s->guess.n < s->guess.most && n_output + s->guess.n < n; s->guess.n++) {
        size_t at = n_output + s->guess.n;
        bool is_right = rng_uniform(o->seed + s->choice, s->id * 65536 + at) < o->accept;

        s->token[s->n_known + s->guess.n] =
            is_right ? answer[at] : (int32_t)(((size_t)answer[at] + 1) % o->n_vocab);
    }
}

static void propose(void *ctx, struct seq **seq, size_t n)
{
    for (size_t i = 0; i < n; i++)
        propose_one(ctx, seq[i]);
}

void oracle_init(struct oracle *o, size_t most)
{
    o->guesser = (struct guess_maker){.ctx = o, .most = most, .draft = GUESS_SOURCES, .propose = propose};
}
