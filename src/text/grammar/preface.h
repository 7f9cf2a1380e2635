/* preface.h - grammars of the text before the constrained part of an answer: reasoning between two marks, or
 * the messages and headers of OpenAI's harmony.
 *
 * A mark that is a control token of the tokenizer is that token; other marks are spelled out. Free text
 * contains no spelled-out mark, because parsers of answers could not tell it from a mark.
 */
#ifndef GALLOP_TEXT_GRAMMAR_PREFACE_H
#define GALLOP_TEXT_GRAMMAR_PREFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "text/grammar/automata/grammar.h"
#include "text/grammar/token_trie.h"

/* Returns the regular expression of TEXT, in which a name of a control token of TRIE means that token, and a
 * tab means an optional blank. TRIE NULL: there are no control tokens. */
uint32_t preface_mark(struct regex_store *s, const struct token_trie *trie, const char *text);

/* Returns free text up to the mark CLOSE, some white space, and then REST. The free text has no match of the
 * regular expression EXCLUDED. A mark that is a control token may also be spelled out. */
uint32_t preface_after(struct grammar *g, const struct token_trie *trie, const char *close, uint32_t excluded,
                       uint32_t rest);

/* Returns preface_after() behind the mark OPEN, or REST alone. */
uint32_t preface_between(struct grammar *g, const struct token_trie *trie, const char *open,
                         const char *close, uint32_t excluded, uint32_t rest);

/* ---- harmony: an answer is messages, each with a header; the prompt ends with "<|start|>assistant" ---- */

/* Returns any number of messages of the channel analysis and, if IS_FREE, commentary, and then REST, which
 * begins with a header. If IS_FREE, an answer may also end with such a message. */
uint32_t preface_messages(struct grammar *g, const struct token_trie *trie, bool is_free, uint32_t rest);

/* Returns a message of the channel final with CONTENT. */
uint32_t preface_final(struct grammar *g, const struct token_trie *trie, uint32_t content);

/* Returns the text of a message, which contains no mark of harmony. */
uint32_t preface_message_text(struct grammar *g);

/* Returns the header of a message that calls the function NAME, an expression of the grammar. */
uint32_t preface_call_header(struct grammar *g, const struct token_trie *trie, uint32_t name);

#endif
