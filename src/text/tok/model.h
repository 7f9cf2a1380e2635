/* model.h - from words to ids: the vocabulary and the added tokens, and the two kinds of model that cut a
 * word into entries of the vocabulary, byte-pair encoding and unigram.
 *
 * What is built never changes once it is sealed; what an encoding writes lies in a struct of its own, one a
 * thread.
 */
#ifndef GALLOP_TEXT_TOK_MODEL_H
#define GALLOP_TEXT_TOK_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json_pull.h"
#include "base/mem.h"
#include "text/tok/tok.h"

/* ---- the vocabulary (vocabulary.c): strings and their ids, both ways. Strings are copied in; ids may have
 * gaps. ---- */

enum {
    VOCAB_MAX_ID = (1 << 22) - 1, /* larger ids are refused: no vocabulary comes near */
    VOCAB_BATCH = 64,
};

#define VOCAB_NONE UINT32_MAX

struct vocab_entry {
    uint32_t off, n; /* of bytes; off UINT32_MAX: no string has this id */
};

struct vocab {
    struct vocab_entry *str; /* [n_ids] by id */
    size_t n_ids, cap;       /* n_ids is the largest id + 1 */
    size_t n;                /* different strings */
    size_t longest;          /* bytes of the longest one */
    struct buf bytes;
    uint64_t *slot; /* hash << 32 | id + 1; 0: free */
    size_t n_slots; /* a power of two, or 0 */
};

void vocab_init(struct vocab *v);
void vocab_fini(struct vocab *v); /* a zeroed one is fine */

/* Room for N strings, so that the table need not grow on the way. false: out of memory, which need not be an
 * error yet. */
bool vocab_reserve(struct vocab *v, size_t n);

/* Stores S under ID. A string that is there already moves to the new id. ERR_INPUT (id too large, or taken by
 * another string; message without a file name) or ERR_NOMEM. */
int vocab_add(struct vocab *v, const char *s, size_t n, int64_t id, struct err *e);

/* The same, and ERR_INPUT for a string that is there already. */
int vocab_add_new(struct vocab *v, const char *s, size_t n, int64_t id, struct err *e);

struct vocab_query {
    const char *s;
    size_t n;
    uint32_t id; /* the answer; VOCAB_NONE: not there */
};

/* Answers N queries (at most VOCAB_BATCH) with their cache misses overlapped. */
void vocab_find_all(const struct vocab *v, struct vocab_query *q, size_t n);

bool vocab_find(const struct vocab *v, const char *s, size_t n, uint32_t *id);

/* The ids of the pieces <0x00> ... <0xFF> that stand for bytes, or VOCAB_NONE; false: V does not have them
 * all. */
bool vocab_find_bytes(const struct vocab *v, uint32_t id[256]);

/* The string of ID, borrowed until the next vocab_add(); false: none. */
bool vocab_str(const struct vocab *v, size_t id, const char **s, size_t *n);

/* A trie of strings: which of them begin at a place of a text? Zeroed = empty. Its edges are a hash table,
 * since a vocabulary of 250 000 pieces has 1.5 million of them. An edge is one number: the node it leaves,
 * its byte, and the node it leads to; 0 is a free slot, for none leads to the root, which is node 0. */
enum { VOCAB_NODE_BITS = 28 };

struct vocab_trie {
    uint64_t *edge; /* [n_slots] a power of two */
    size_t n_slots, n_nodes, cap;
    uint32_t *value; /* [n_nodes] of the string that ends at the node, or VOCAB_NONE */
};

/* Adds S; a string that is there already keeps its value. false: out of memory, or of numbers for nodes. */
bool vocab_trie_add(struct vocab_trie *x, const char *s, size_t n, uint32_t value);
void vocab_trie_fini(struct vocab_trie *x);

/* The slot of the edge that begins with KEY, a node and a byte, or the free one where it would go. */
static inline uint64_t *vocab_trie_slot(const struct vocab_trie *x, uint64_t key)
{
    size_t mask = x->n_slots - 1, i = (size_t)((key * 0x9e3779b97f4a7c15u) >> 29) & mask;

    while (x->edge[i] && x->edge[i] >> VOCAB_NODE_BITS != key)
        i = (i + 1) & mask;
    return &x->edge[i];
}

/* Goes from *NODE along BYTE; false: no string goes on so. X is not empty. */
static inline bool vocab_trie_step(const struct vocab_trie *x, uint32_t *node, char byte)
{
    uint64_t edge = *vocab_trie_slot(x, (uint64_t)*node << 8 | (unsigned char)byte);

    *node = (uint32_t)edge & ((1u << VOCAB_NODE_BITS) - 1);
    return edge != 0;
}

/* ---- added tokens (vocabulary.c), which are cut out of a text before the model sees it ----
 *
 * They are two sets, as in the Hugging Face library: those looked for in the text as it came, and those
 * looked for after normalization. In either, the leftmost match wins, and the longest among those that begin
 * at the same place. */
struct tok_added {
    uint32_t id;
    bool special, lstrip, rstrip, single_word, normalized;
    struct json_str normal; /* what it is decoded as, where normalization changes its content; borrowed */
};

struct tok_added_patterns { /* of one set */
    struct vocab_trie trie; /* to the index of the token */
    bool begins[256];       /* a pattern begins with this byte */
    size_t longest;         /* bytes of the longest pattern */
};

struct tok_added_set { /* zeroed but for NAMES = none */
    struct tok_added *token;
    size_t n, cap;
    struct vocab names; /* content -> id, and back */
    uint32_t *by_id;    /* [n_by_id] index of the token + 1; 0: no added token has this id */
    size_t n_by_id, by_id_cap;
    struct tok_added_patterns raw, normalized;
};

/* One cut of a text: a token, or the stretch in front of the next one (token NULL). */
struct tok_added_cut {
    const struct tok_added *token;
    size_t begin, end;
};

struct tok_added_iter {
    const struct tok_added_set *a;
    const struct tok_added_patterns *patterns;
    const char *s;
    size_t n, at, done; /* at: where to look on; done: how far cuts have been given out */
    const char *origin; /* [n] of tok_encode_marked(), or NULL */
    bool plain, have;
    struct tok_added_cut next;
};

void tok_added_fini(struct tok_added_set *a); /* a zeroed one is fine */

/* Adds a token that reads CONTENT. T.id must be set; a token that is there already stays as it is. An id
 * above VOCAB_MAX_ID or taken by another added token is ERR_INPUT. */
int tok_added_add(struct tok_added_set *a, struct tok_added t, const char *content, size_t n, struct err *e);

/* Makes PATTERN (the content, or its normal form) findable for token I. An empty pattern is not. */
int tok_added_index(struct tok_added_set *a, size_t i, const char *pattern, size_t n, struct err *e);

/* NULL: no added token has this id. */
const struct tok_added *tok_added_get(const struct tok_added_set *a, size_t id);

/* Goes through S. PLAIN: special tokens are left in the text. */
void tok_added_start(struct tok_added_iter *it, const struct tok_added_set *a, bool normalized, bool plain,
                     const char *s, size_t n);

/* false: the end. Empty stretches are left out. */
bool tok_added_next(struct tok_added_iter *it, struct tok_added_cut *cut);

/* Appends N ids; false: out of memory, nothing appended. */
static inline bool tok_ids_add(struct tok_ids *to, const uint32_t *id, size_t n)
{
    if (n == 0)
        return true;
    if (to->cap - to->n < n && !mem_grow((void **)&to->id, &to->cap, to->n + n, sizeof(*to->id), MEM_TEXT))
        return false;
    memcpy(to->id + to->n, id, n * sizeof(*id));
    to->n += n;
    return true;
}

/* ---- byte-pair encoding (bpe.c): symbols, and the rules by which the pair with the lowest rank merges,
 * leftmost first, until none is left (Sennrich et al. 2016; the details are those of Hugging Face's BPE) ----
 *
 * The words are bytes where `byte_level` is set (the vocabulary is spelled in GPT-2's letters for bytes
 * (unicode.h)) and characters otherwise. Merges are rules between ids, so a tokenizer.json, a tiktoken file,
 * a SentencePiece model and a GGUF vocabulary all end in the same table. */
struct bpe_rule {
    uint32_t left, right, rank, merged; /* in the hash table LEFT is stored plus one, 0 is a free slot */
};

enum { BPE_MAX_SUFFIX = 64 }; /* bytes */

struct bpe { /* zeroed, then the settings below, then merges, then bpe_seal() */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool has_unk;
    uint32_t unk; /* VOCAB_NONE: one is named but not there, so a word that needs it is an error */

    struct json_str suffix; /* end_of_word_suffix; borrowed, none with byte_level */

    struct bpe_rule *added; /* [n_added] in the order of adding, until bpe_seal() */
    size_t n_added, added_cap;
    struct bpe_rule *rule; /* [n_slots] a hash table in memory of its own; n_slots is a power of two */
    size_t n_slots;

    const struct vocab *vocab; /* borrowed; set by bpe_seal() */
    uint32_t symbol[256];      /* of a byte (byte_level) or an ASCII character, or VOCAB_NONE */
    bool all_fallback;         /* byte_fallback, and there are all 256 */
    uint32_t fallback[256];    /* of <0x00> ... <0xFF>, with byte_fallback; VOCAB_NONE: not there */
    uint64_t *junction;        /* a bit for each hash of two characters that a merge joins; NULL: never cut */
    size_t junction_mask;
};

/* Adds the rule LEFT RIGHT -> MERGED; a lower RANK goes first. Of two rules for a pair the later one
 * counts. */
int bpe_add_rule(struct bpe *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t merged, struct err *e);

/* Adds every rule that two entries of V make a third with. RANK[id] is that of the result; VOCAB_NONE: no
 * such result and no such part (control tokens); RANK NULL: ids are ranks. For sources without merges. */
int bpe_derive(struct bpe *b, const struct vocab *v, const uint32_t *rank, struct err *e);

/* Looks up symbols in V (which must outlive B) and builds what encoding needs. */
int bpe_seal(struct bpe *b, const struct vocab *v, struct err *e);

void bpe_fini(struct bpe *b); /* a zeroed one is fine */

/* Merges given as pairs of strings become rules between ids. */
struct bpe_merges {
    struct bpe *bpe;                      /* borrowed: gets the rules, in the order of ranks */
    const struct vocab *vocab;            /* borrowed */
    struct vocab_query part[VOCAB_BATCH]; /* left and right by turns */
    size_t n;                             /* parts that wait */
    struct buf whole;
    uint32_t rank, last; /* of the next merge; the last result */
};

void bpe_merges_init(struct bpe_merges *m, struct bpe *b, const struct vocab *v);
void bpe_merges_fini(struct bpe_merges *m);

/* Adds one merge; the strings must stay until bpe_merges_end(). ERR_INPUT (without a file name) when a part
 * or the result of an earlier merge is not in the vocabulary, or ERR_NOMEM. */
int bpe_merges_add(struct bpe_merges *m, const char *left, size_t n_left, const char *right, size_t n_right,
                   struct err *e);

/* The same for a merge written as two tokens with a blank between. */
int bpe_merges_add_line(struct bpe_merges *m, const char *s, size_t n, struct err *e);

/* Adds what waits. */
int bpe_merges_end(struct bpe_merges *m, struct err *e);

struct bpe_work; /* cache and arrays of one thread; used with one struct bpe only */

struct bpe_work *bpe_work_new(const struct bpe *b); /* NULL: out of memory */
void bpe_work_free(struct bpe_work *w);             /* NULL is fine */

/* Appends the ids of the word S (good UTF-8 unless byte_level). ERR_NOMEM, or ERR_INPUT for a word of 2
 * GiB. */
int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *s, size_t n, struct tok_ids *out,
               struct err *e);

/* ---- the unigram language model (unigram.c): of all ways to cut a word into pieces, the one with the
 * highest sum of scores (Kudo 2018; Viterbi over the pieces that begin at each place, as SentencePiece and
 * Hugging Face do it) ---- */

struct unigram { /* zeroed, then the settings, then unigram_seal() */
    bool has_unk, byte_fallback;
    bool single; /* sums are taken in float, as sentencepiece does; else in double, as Hugging Face does */
    uint32_t unk;
    double *score; /* [n_score] by id; owned */
    bool *usable;  /* [n_score] false: never chosen (control, byte); owned, NULL: all are usable */
    size_t n_score, score_cap;

    const struct vocab *vocab; /* borrowed; set by unigram_seal() */
    uint32_t fallback[256];
    double unk_score;
    struct vocab_trie trie; /* of the usable pieces, to their ids */
};

/* A place of a word, and the last piece of the best path to it. */
struct unigram_place {
    double sum;
    uint32_t from, piece; /* where the piece begins; VOCAB_NONE: no path leads here */
    uint32_t next;        /* on the best path of the whole word */
};

struct unigram_work { /* zeroed = empty; one a thread */
    struct unigram_place *place;
    size_t cap;
};

/* Builds the trie of V (which must outlive U). ERR_INPUT when V and the scores do not fit, ERR_NOMEM. */
int unigram_seal(struct unigram *u, const struct vocab *v, struct err *e);
void unigram_fini(struct unigram *u); /* a zeroed one is fine */
void unigram_work_fini(struct unigram_work *w);

/* Appends the ids of the word S (good UTF-8). ERR_NOMEM; ERR_INPUT for a character that no piece covers in a
 * model without an unknown piece, or a word of 2 GiB. */
int unigram_encode(const struct unigram *u, struct unigram_work *w, const char *s, size_t n,
                   struct tok_ids *out, struct err *e);

#endif
