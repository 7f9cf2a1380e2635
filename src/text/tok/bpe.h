/* bpe.h - byte-pair encoding: symbols, and the rules by which the pair with the lowest rank merges, leftmost
 * first, until none is left (Sennrich et al. 2016; the details are those of Hugging Face's BPE model).
 *
 * The words are bytes where `byte_level` is set (the vocabulary is spelled in GPT-2's letters for bytes
 * (unicode.h)) and characters otherwise. Merges are rules between ids, so a tokenizer.json, a tiktoken file,
 * a SentencePiece model and a GGUF vocabulary all end in the same table.
 */
#ifndef GALLOP_TEXT_TOK_BPE_H
#define GALLOP_TEXT_TOK_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/tok/tok.h"
#include "text/tok/vocabulary.h"

struct bpe_rule {
    uint32_t left, right, rank, merged; /* in the hash table LEFT is stored plus one, 0 is a free slot */
};

enum { BPE_MAX_AFFIX = 64 }; /* bytes of a prefix or suffix */

struct bpe { /* zeroed, then the settings below, then merges, then bpe_seal() */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool has_unk;
    uint32_t unk; /* VOCAB_NONE: one is named but not there, so a word that needs it is an error */

    /* continuing_subword_prefix, end_of_word_suffix; borrowed, none with byte_level */
    struct json_str prefix, suffix;

    struct bpe_rule *added; /* [n_added] in the order of adding, until bpe_seal() */
    size_t n_added, added_cap;
    struct bpe_rule *rule; /* [n_slots] a hash table in memory of its own; n_slots is a power of two */
    size_t n_slots;

    const struct vocab *vocab; /* borrowed; set by bpe_seal() */
    uint32_t symbol[256];      /* of a byte (byte_level) or an ASCII character, or VOCAB_NONE */
    uint32_t fallback[256];    /* of <0x00> ... <0xFF> */
    bool all_fallback;
    uint64_t *junction; /* a bit for each hash of two characters that a merge joins; NULL: never cut */
    size_t junction_mask;
};

/* Adds the rule LEFT RIGHT -> MERGED; a lower RANK goes first. Of two rules for a pair the later one
 * counts. */
int bpe_add_rule(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t merged, struct err *e);

/* Adds every rule that two entries of V make a third with. RANK[id] is that of the result; VOCAB_NONE: no
 * such result and no such part (control tokens). For sources that list pieces and scores but no merges. */
int bpe_derive(struct bpe *b, const struct vocab *v, const uint32_t *rank, struct err *e);

/* Looks up symbols in V (which must outlive B) and builds what encoding needs. */
int bpe_seal(struct bpe *b, const struct vocab *v, struct err *e);

void bpe_fini(struct bpe *b); /* a zeroed one is fine */

/* Merges given as pairs of strings become rules between ids. */
struct bpe_merges {
    struct bpe *bpe;                      /* borrowed: gets the rules, in the order of ranks */
    const struct vocab *vocab;            /* borrowed */
    size_t skip;                          /* bytes of a subword prefix that the right part loses */
    struct vocab_query part[VOCAB_BATCH]; /* left and right by turns */
    size_t n;                             /* parts that wait */
    struct buf whole;
    uint32_t rank, last; /* of the next merge; the last result */
};

void bpe_merges_init(struct bpe_merges *m, struct bpe *b, const struct vocab *v, size_t skip);
void bpe_merges_fini(struct bpe_merges *m);

/* Adds one merge; the strings must stay until bpe_merges_end(). ERR_INPUT (without a file name) when a part
 * or the result of an earlier merge is not in the vocabulary, or ERR_NOMEM. */
int bpe_merges_add(struct bpe_merges *m, const char *left, size_t n_left, const char *right, size_t n_right,
                   struct err *e);

/* Adds what waits. */
int bpe_merges_end(struct bpe_merges *m, struct err *e);

struct bpe_work; /* cache and arrays of one thread; used with one struct bpe only */

struct bpe_work *bpe_work_new(const struct bpe *b); /* NULL: out of memory */
void bpe_work_free(struct bpe_work *w);             /* NULL is fine */

/* Appends the ids of the word S (good UTF-8 unless byte_level). ERR_NOMEM, or ERR_INPUT for a word of 2
 * GiB. */
int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct tok_ids *out,
               struct err *e);

#endif
