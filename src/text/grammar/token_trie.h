/* token_trie.h - the texts of all tokens of a vocabulary as a trie, flat and in depth-first order.
 *
 * A token's text is the bytes that it adds to an answer, which may be part of a character. A control token
 * (a special token of the tokenizer) adds no text: its bytes are TOKEN_TRIE_CONTROL, the name of the token,
 * TOKEN_TRIE_CONTROL, so that a grammar can ask for it, and no text that a model spells out is taken for it.
 * Tokens that no valid UTF-8 contains are left out. Immutable once it is open.
 */
#ifndef GALLOP_TEXT_GRAMMAR_TOKEN_TRIE_H
#define GALLOP_TEXT_GRAMMAR_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/tok/tok.h"

/* A byte that no UTF-8 contains. */
enum { TOKEN_TRIE_CONTROL = 0xff };

struct token_trie_node {
    uint32_t skip;   /* nodes of the subtree, with this one: the next sibling is at i + skip */
    int32_t token;   /* the lowest token whose text ends here, or -1 */
    uint32_t parent; /* UINT32_MAX: none */
    uint16_t depth;  /* bytes before this one */
    uint8_t byte;
    bool has_more; /* other tokens have the same text as TOKEN */
};

/* Longer tokens are left out. */
enum { TOKEN_TRIE_LONGEST = 4096 };

struct token_trie {
    struct token_trie_node *node; /* [n] */
    size_t n;
    int32_t *same;    /* [n_vocab] the next token with the same text, or -1 */
    uint32_t *ending; /* [n_vocab] node where the token's text ends; UINT32_MAX: the token is left out */
    size_t n_vocab;   /* of the tokenizer */
    size_t depth;     /* bytes of the longest text */
};

/* The trie of the tokens of T. FIRST: their texts at the beginning of an answer, where some tokenizers drop a
 * blank. ERR_NOMEM. */
int token_trie_open(struct token_trie *t, const struct tok *tok, bool first, struct err *e);

/* The same from texts: token i is text[i] [len[i]]; one of length 0 is left out. For tests and other sources
 * of vocabularies. */
int token_trie_make(struct token_trie *t, const char *const *text, const size_t *len, size_t n,
                    struct err *e);

void token_trie_close(struct token_trie *t); /* a zeroed one is fine */

/* The bytes of TOKEN to OUT [t->depth]. Returns their number; 0: the token is left out. */
size_t token_trie_text(const struct token_trie *t, int32_t token, uint8_t *out);

#endif
