/* preface.h - what a model writes before the part of an answer that is constrained: reasoning between two marks,
 * or the messages and headers of OpenAI's harmony.
 *
 * Marks are written as the tokenizer has them: a mark that is a control token is that token, and others are
 * spelled out. Free text has no mark spelled out in it, since readers of answers could not tell it from a mark.
 */
#ifndef GALLOP_TEXT_GRAMMAR_PREFACE_H
#define GALLOP_TEXT_GRAMMAR_PREFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "text/grammar/automata/grammar.h"
#include "text/grammar/token_trie.h"

/* The regular expression of TEXT, in which names of control tokens of TRIE stand for these tokens, and a tab for
 * a blank that may be missing. TRIE may be NULL: there are no control tokens. */
uint32_t preface_mark(struct regex_store *s, const struct token_trie *trie, const char *text);

/* REST, behind free text up to the mark CLOSE and some white space. No text of EXCLUDED, a regular expression,
 * stands before CLOSE. A mark that is a control token may be spelled out as well. */
uint32_t preface_after(struct grammar *g, const struct token_trie *trie, const char *close, uint32_t excluded,
                       uint32_t rest);

/* The same, or REST alone, where an answer may begin with the mark OPEN. */
uint32_t preface_between(struct grammar *g, const struct token_trie *trie, const char *open,
                         const char *close, uint32_t excluded, uint32_t rest);

/* ---- harmony: an answer is messages, each with a header; the prompt ends with "<|start|>assistant" ---- */

/* REST, behind any number of messages of the channel analysis and, where IS_FREE, commentary. REST begins with a
 * header. Where IS_FREE an answer may end with such a message, too. */
uint32_t preface_messages(struct grammar *g, const struct token_trie *trie, bool is_free, uint32_t rest);

/* A message of the channel final with CONTENT. */
uint32_t preface_final(struct grammar *g, const struct token_trie *trie, uint32_t content);

/* The text of a message: no mark of harmony stands in it. */
uint32_t preface_message_text(struct grammar *g);

/* The header of a message to the function that NAME, an expression of the grammar, calls. */
uint32_t preface_call_header(struct grammar *g, const struct token_trie *trie, uint32_t name);

#endif
