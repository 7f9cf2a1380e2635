/* bpe.h - byte-pair encoding: symbols, and the rules by which the pair with the lowest rank merges, leftmost
 * first, until no rule applies (Sennrich et al. 2016; the details are those of Hugging Face's BPE).
 *
 * The words are bytes if `byte_level` is set (the vocabulary is then spelled in GPT-2's letters for bytes,
 * unicode.h) and characters otherwise. Merges are rules between ids, so a tokenizer.json, a tiktoken file, a
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
#include "text/tok/tok.h"
#include "text/tok/vocabulary.h"

struct bpe_rule {
    uint32_t left; /* in the hash table: plus one, because 0 is a free slot */
    uint32_t right, rank, merged;
};

enum { BPE_MAX_SUFFIX = 64 }; /* bytes */

/* Zeroed, then the settings are set, then the merges are added, then bpe_seal() is called. */
struct bpe {
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool has_unk;
    uint32_t unk; /* VOCAB_NONE: its name is not in the vocabulary, so a word that needs it is an error */

    struct json_str suffix; /* end_of_word_suffix, borrowed; none with byte_level */

    struct bpe_rule *added; /* [n_added] in the order of adding, until bpe_seal() */
    size_t n_added, added_cap;
    struct bpe_rule *rule; /* [n_slots] a hash table in memory of its own; n_slots is a power of two */
    size_t n_slots;

    const struct vocab *vocab; /* borrowed; set by bpe_seal() */
    uint32_t symbol[256];      /* the id of a byte (byte_level) or an ASCII character, or VOCAB_NONE */
    bool all_fallback;         /* byte_fallback is set, and all 256 byte pieces exist */
    uint32_t fallback[256];    /* byte_fallback: the ids of <0x00> ... <0xFF>, or VOCAB_NONE */
    uint64_t *junction;        /* a bit for each hash of two characters that a merge joins; NULL: never cut */
    size_t junction_mask;
};

/* Adds the rule LEFT RIGHT -> MERGED; a lower RANK merges first. Of two rules for a pair the later one
 * counts. */
int bpe_add_rule(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t merged, struct err *e);

/* Adds every rule by which two entries of V make a third, for files without merges. RANK[id] is the rank of
 * the result; VOCAB_NONE: the entry is neither a result nor a part (control tokens). RANK NULL: ids are
 * ranks. */
int bpe_derive(struct bpe *b, const struct vocab *v, const uint32_t *rank, struct err *e);

/* Looks up symbols in V (which must outlive B) and builds the tables for encoding. */
int bpe_seal(struct bpe *b, const struct vocab *v, struct err *e);

void bpe_fini(struct bpe *b); /* a zeroed B is fine */

/* Turns merges that are given as pairs of strings into rules between ids. */
struct bpe_merges {
    struct bpe *bpe;                      /* borrowed: gets the rules, in the order of ranks */
    const struct vocab *vocab;            /* borrowed */
    struct vocab_query part[VOCAB_BATCH]; /* left and right parts in turn */
    size_t n;                             /* the number of parts that wait for their look-up */
    struct buf whole;
    uint32_t rank; /* of the next merge */
    uint32_t last; /* the id of the last result */
};

void bpe_merges_init(struct bpe_merges *m, struct bpe *b, const struct vocab *v);
void bpe_merges_fini(struct bpe_merges *m);

/* Adds one merge; the strings must stay until bpe_merges_end(). ERR_INPUT (without a file name) when a part
 * or the result of an earlier merge is not in the vocabulary, or ERR_NOMEM. */
int bpe_merges_add(struct bpe_merges *m, const char *left, size_t n_left, const char *right, size_t n_right,
                   struct err *e);

/* The same for a merge that is written as two tokens with a blank between them. */
int bpe_merges_add_line(struct bpe_merges *m, const char *s, size_t n, struct err *e);

/* Adds the rules of the merges that wait. */
int bpe_merges_end(struct bpe_merges *m, struct err *e);

/* The cache and the arrays of one thread, for one struct bpe. */
struct bpe_work;

struct bpe_work *bpe_work_new(const struct bpe *b); /* NULL: out of memory */
void bpe_work_free(struct bpe_work *w);             /* NULL is fine */

/* Appends the ids of the word S (valid UTF-8 unless byte_level). ERR_NOMEM, or ERR_INPUT for a word of 2
 * GiB. */
int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct tok_ids *out,
               struct err *e);

#endif
