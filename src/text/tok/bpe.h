/* bpe.h - byte-pair encoding (BPE): a word starts as symbols; of all neighbours that a rule can merge, the
 * pair with the lowest rank merges, the leftmost first, until no rule applies (Sennrich et al. 2016; details
 * as in Hugging Face's BPE).
 *
 * Symbols are bytes if `byte_level` is set (the vocabulary then spells bytes in GPT-2's letters, see
 * unicode.h) and characters otherwise. Merge rules are between ids, so a tokenizer.json, a tiktoken file, a
 * SentencePiece model and a GGUF vocabulary all become the same table. A sealed model is immutable; each
 * thread encodes with a struct bpe_work of its own.
 */
#ifndef GALLOP_TEXT_TOK_BPE_H
#define GALLOP_TEXT_TOK_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "text/tok/vocabulary.h"

struct tok_ids;

struct bpe_rule {
    uint32_t left; /* id; in the hash table id + 1, because 0 marks a free slot */
    uint32_t right, rank, merged;
};

enum { BPE_MAX_SUFFIX = 64 }; /* maximum bytes of the suffix */

/* A BPE model. Zero it, set the flags, add the merges, then call bpe_seal(). */
struct bpe {
    bool byte_level, byte_fallback, fuse_unk, ignore_merges; /* as in tokenizer.json */
    bool has_unk;                                            /* the model has an unk_token */
    /* The unk_token's id. VOCAB_NONE: the vocabulary lacks it, so encoding an unknown symbol is an error. */
    uint32_t unk;

    struct json_str suffix; /* end_of_word_suffix, borrowed; empty if byte_level is set */

    struct bpe_rule *added; /* [n_added] rules in the order of adding; NULL after bpe_seal() */
    size_t n_added, added_cap;
    /* [n_slots] hash table by (left, right), in mapped memory; n_slots is a power of two. */
    struct bpe_rule *rule;
    size_t n_slots;

    const struct vocab *vocab; /* borrowed; set by bpe_seal() */
    uint32_t symbol[256];      /* [byte] (byte_level) or [ASCII character]: id of the symbol, or VOCAB_NONE */
    bool all_fallback;         /* byte_fallback is set, and all 256 byte pieces exist */
    uint32_t fallback[256];    /* [byte] byte_fallback: the ids of <0x00> ... <0xFF>, or VOCAB_NONE */
    /* A bit for each hash of two characters between which a merge is possible. NULL: words are not cut. */
    uint64_t *junction;
    size_t junction_mask;
};

/* Adds the rule that merges the ids LEFT and RIGHT to MERGED. Rules with a lower RANK apply first. A later
 * rule for the same pair replaces this rule. */
int bpe_add_rule(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t merged, struct err *e);

/* Derives the rules of a file without merges: one for each way to cut an entry of V into two entries.
 * RANK[id] is the rank of the rules whose result is ID; VOCAB_NONE: the entry is not part of any rule
 * (control tokens). RANK NULL: the rank is the id. */
int bpe_derive(struct bpe *b, const struct vocab *v, const uint32_t *rank, struct err *e);

/* Looks up the symbols in V (which must outlive B) and builds the tables for encoding. */
int bpe_seal(struct bpe *b, const struct vocab *v, struct err *e);

void bpe_fini(struct bpe *b); /* B may be zeroed */

/* Turns merges given as pairs of strings into rules between ids, with look-ups in batches. */
struct bpe_merges {
    struct bpe *bpe;           /* borrowed: receives the rules, in the order of their ranks */
    const struct vocab *vocab; /* borrowed */
    /* Queries for the left and the right string of each pending merge. */
    struct vocab_query part[VOCAB_BATCH];
    size_t n;         /* number of pending queries in PART */
    struct buf whole; /* scratch: the left and the right string joined */
    uint32_t rank;    /* the rank of the next merge */
    uint32_t last;    /* the id that the last merge produced */
};

void bpe_merges_init(struct bpe_merges *m, struct bpe *b, const struct vocab *v);
void bpe_merges_fini(struct bpe_merges *m);

/* Adds one merge; the strings must live until bpe_merges_end(). ERR_INPUT (the message has no file name): a
 * string of this merge or of a pending one, or the result, is not in the vocabulary. */
int bpe_merges_add(struct bpe_merges *m, const char *left, size_t n_left, const char *right, size_t n_right,
                   struct err *e);

/* Adds the merge in the line S: two tokens with a blank between them. */
int bpe_merges_add_line(struct bpe_merges *m, const char *s, size_t n, struct err *e);

/* Looks up the pending merges and adds their rules. */
int bpe_merges_end(struct bpe_merges *m, struct err *e);

/* The word cache and the scratch arrays of one thread, for one struct bpe. */
struct bpe_work;

struct bpe_work *bpe_work_new(const struct bpe *b); /* NULL: out of memory */
void bpe_work_free(struct bpe_work *w);             /* may be NULL */

/* Appends the ids of the word S (valid UTF-8 unless byte_level is set) to OUT. ERR_INPUT: the word has 2 GiB
 * or more, or an unknown symbol that the model cannot encode. */
int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct tok_ids *out,
               struct err *e);

#endif
