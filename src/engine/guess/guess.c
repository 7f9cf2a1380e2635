/* guess.c - counts results of guesses, and estimates the chances that guesses are right. */
#include "engine/guess/guess.h"

/* Factor by which each new result reduces the weight of the older ones: after 64 results it is about 1/e. */
static const float decay = 1 - 1.0F / 64;

/* Each chance starts as if `prior` results had been seen, of which the share `prior_share` was right, so that a new
 * engine tries guesses. */
static const float prior = 4, prior_share = 0.75F;

const char *guess_source_name(enum guess_source source)
{
    static const char *const name[GUESS_SOURCES] = {"forced", "ngram", "suffix", "draft_model",
                                                    "pard",   "self",  "oracle"};

    return name[source];
}

void guess_counts_add(struct guess_counts *c, size_t n_guessed, size_t n_accepted)
{
    c->n_drafts++;
    c->n_guessed += n_guessed;
    c->n_accepted += n_accepted;
}

void guess_chances_init(struct guess_chances *c)
{
    for (int s = 0; s < GUESS_SOURCES; s++)
        for (int m = 0; m < GUESS_MATCHES; m++)
            for (int i = 0; i < GUESS_MOST; i++) {
                c->tried[s][m][i] = prior;
                c->right[s][m][i] = prior * prior_share;
            }
}

/* Returns the class of a match of N tokens: 0, 1, 2, 3, 4 to 5, 6 to 9, 10 to 17, 18 or more. */
static size_t class_of(size_t n)
{
    size_t class = n < 4 ? n : 4;

    for (size_t most = 5; n > most && class + 1 < GUESS_MATCHES; most = 2 * most - 1)
        class ++;
    return class;
}

void guess_chances_set(const struct guess_chances *c, struct guess *g)
{
    size_t m = class_of(g->match);
    float product = 1;

    for (size_t i = 0; i < g->n; i++) {
        product *= c->right[g->source][m][i] / c->tried[g->source][m][i];
        g->chance[i] = product;
    }
}

void guess_chances_learn(struct guess_chances *c, const struct guess *g, size_t n_tried, size_t n_right)
{
    size_t m = class_of(g->match);

    for (size_t i = 0; i < n_tried && i <= n_right; i++) {
        float *tried = &c->tried[g->source][m][i], *right = &c->right[g->source][m][i];

        *tried = *tried * decay + 1;
        *right = *right * decay + (i < n_right);
    }
}
