/* match.h - finds an earlier occurrence of the last tokens of a sequence in it, and guesses that the same tokens follow
 * (prompt lookup, "ngram").
 *
 * The tokens of one sequence are indexed as a suffix tree of the reversed text: a path from the root spells the last
 * token, the one before it, and so on, up to max_length tokens. A node stands for the tokens on its path and remembers
 * the end of their most recent occurrence. Adding a token walks down the path of its context, compares the text along
 * the edges, moves the ends that it passes, and adds at most two nodes. The deepest point that existed before is the
 * longest match, so finding it costs nothing more. The result is exact: of the suffixes with at most max_length tokens
 * the longest that occurred before, and its most recent occurrence, which may overlap the suffix. The children of a
 * node are found by hashing.
 *
 * Several answers to one prompt share the index of the prompt, which is searched in addition to the index of the tokens
 * after it. The results are those of one index of all tokens.
 *
 * Adding a token looks at most at max_length tokens and nodes, whatever the text. The hashes have a secret seed, on
 * which no result depends. The memory is known in advance, and nothing is allocated afterwards. The text itself stays
 * with the caller. An index belongs to one thread at a time.
 */
#ifndef GALLOP_ENGINE_GUESS_MATCH_H
#define GALLOP_ENGINE_GUESS_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MATCH_MAX_LENGTH = 128,     /* longest match that an index can find */
    MATCH_MAX_TOKENS = 1 << 30, /* maximum number of tokens of an index */
    MATCH_MAX_OCCURRENCES = 16, /* maximum number of occurrences of a match that are read */
    MATCH_MAX_GAP = 2,          /* maximum number of tokens after an interrupted match */
    MATCH_MIN_INTERRUPTED = 4,  /* shortest interrupted match */
};

struct match_node;

struct match {
    /* These arrays are in the caller's memory. */
    struct match_node *node; /* [2 capacity + 1] node 0 is the root */
    uint32_t *head;          /* [n_heads] first node of each chain of nodes with equal hashes; 0: none */
    uint32_t *older;         /* [capacity + 1] for each end: where its own longest match ended */
    uint16_t *longest;       /* [capacity + 1] for each end: the length of its longest match */
    size_t capacity, max_length;
    /* the index of the first n_base tokens, borrowed; NULL: none, and n_base is 0 */
    const struct match *base;
    size_t n_base;
    size_t n_tokens; /* tokens in the index, including those of `base` */
    uint32_t n_nodes;
    unsigned shift; /* 64 - log2(n_heads) */
    uint64_t seed;
};

/* The rules for guesses after a match. */
struct match_rule {
    size_t min_length; /* shorter matches are ignored; 0 is taken as 1 */
    size_t n_most;     /* maximum number of guesses */
    double factor;     /* maximum number of guesses for each token of the match */
    /* Guesses may go beyond the end of the known tokens by copying earlier guesses, so that a period continues.
     * Otherwise the guesses end with the last known token, as vLLM's do. */
    bool repeats;
    /* Minimum share of the match's occurrences that continue with a guess and all guesses before it (suffix.h); 0: no
     * condition. */
    double min_share;
};

/* Returns the bytes that an index of CAPACITY tokens needs, at most about 56 for each. */
size_t match_bytes(size_t capacity);

/* Initializes an index of at most CAPACITY <= MATCH_MAX_TOKENS tokens that finds matches of at most MAX_LENGTH tokens
 * (1 to MATCH_MAX_LENGTH). MEMORY: match_bytes(CAPACITY) bytes that are zero, aligned to 8, borrowed. */
void match_init(struct match *m, void *memory, size_t capacity, size_t max_length, uint64_t seed);

/* Makes M, which is empty, the index of the tokens after those of BASE. BASE must be full when M is searched, and must
 * not change afterwards. */
void match_follow(struct match *m, const struct match *base);

/* Returns true if the first N tokens, and no more, are in the index. */
bool match_has(const struct match *m, size_t n);

/* Adds the tokens of TOKEN [n] that are not in the index yet; TOKEN begins with the indexed tokens. Tokens beyond the
 * capacity are left out, and a longer sequence gets no guesses. */
void match_add(struct match *m, const int32_t *token, size_t n);

/* Returns the length of the longest suffix of the indexed tokens that occurred before, and sets *END to
 * the end of its most recent occurrence: the number of tokens up to there. 0: none. */
size_t match_longest(const struct match *m, size_t *end);

/* Returns the number of guesses that RULE allows after a match of LENGTH tokens. */
size_t match_depth(const struct match_rule *rule, size_t length);

/* Writes guesses for the tokens after TOKEN to GUESS [rule->n_most]: the tokens that followed the match. All of TOKEN
 * must be in the index. Sets *LENGTH, which may be NULL, to the length of the match. Returns the number of guesses. */
size_t match_guess(const struct match *m, const int32_t *token, size_t n, const struct match_rule *rule,
                   int32_t *guess, size_t *length);

/* Finds the latest match of at least MATCH_MIN_INTERRUPTED tokens that ended G = 1 to MATCH_MAX_GAP tokens ago. Sets
 * *END to the position G tokens after the end of its occurrence: the text continues there if the last G tokens have
 * replaced as many others. Returns the length of the match. 0: none. */
size_t match_interrupted(const struct match *m, size_t *end);

/* Writes ends of occurrences of the longest match to END, at most MATCH_MAX_OCCURRENCES, the most recent first, and
 * returns their number. Each further one is the most recent occurrence of the longest match at the end before it. */
size_t match_occurrences(const struct match *m, size_t *end);

#endif
