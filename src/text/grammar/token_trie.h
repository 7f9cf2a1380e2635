/* token_trie.h - a trie of the texts of all tokens of a vocabulary, as a flat array in depth-first order.
 *
 * The text of a token is the bytes that it adds to an answer, possibly an incomplete character. A control
 * token (a special token of the tokenizer) adds no text. In the trie it has the text TOKEN_TRIE_CONTROL,
 * name, TOKEN_TRIE_CONTROL, so that a grammar can require the token, and ordinary text never counts as it.
 * Tokens with bytes that valid UTF-8 cannot contain are left out. Immutable once it is open.
 */
#ifndef GALLOP_TEXT_GRAMMAR_TOKEN_TRIE_H
#define GALLOP_TEXT_GRAMMAR_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tok;

/* The byte around the name of a control token. It does not occur in UTF-8. */
enum { TOKEN_TRIE_CONTROL = 0xff };

struct token_trie_node {
    uint32_t skip;   /* number of nodes in this node's subtree; the next sibling is node i + skip */
    int32_t token;   /* the lowest token whose text ends here; -1: none */
    uint32_t parent; /* UINT32_MAX: the node has no parent */
    uint16_t depth;  /* number of bytes of the text before this node */
    uint8_t byte;
    bool has_more; /* more tokens have the same text: see token_trie.same */
};

/* Maximum bytes of a token's text. Longer tokens are left out. */
enum { TOKEN_TRIE_LONGEST = 4096 };

struct token_trie {
    struct token_trie_node *node; /* [n] */
    size_t n;
    int32_t *same;    /* [n_vocab] the next token with the same text; -1: none */
    uint32_t *ending; /* [n_vocab] the node where the token's text ends; UINT32_MAX: the trie lacks it */
    size_t n_vocab;   /* number of ids of the tokenizer */
    size_t depth;     /* bytes of the longest text */
};

/* Makes the trie of the tokens of TOK. FIRST: uses the texts that tokens have at the start of an answer,
 * where some tokenizers drop a blank. ERR_NOMEM. */
int token_trie_open(struct token_trie *t, const struct tok *tok, bool first, struct err *e);

/* Makes a trie from texts: token i has text[i], of len[i] bytes; a token of length 0 is left out. For tests
 * and other sources of vocabularies. */
int token_trie_make(struct token_trie *t, const char *const *text, const size_t *len, size_t n,
                    struct err *e);

/* Returns the length of the longest name of a control token that is a prefix of TEXT; 0: there is none. */
size_t token_trie_control(const struct token_trie *t, const char *text);

void token_trie_close(struct token_trie *t); /* T may be zeroed */

/* Writes the text of TOKEN to OUT [t->depth]. Returns its length; 0: the token is left out. */
size_t token_trie_text(const struct token_trie *t, int32_t token, uint8_t *out);

#endif
