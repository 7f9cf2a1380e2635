/* preface.h - grammars of the text before the constrained part of an answer: reasoning between two marks (delimiters
 * such as <think>), or messages with headers in OpenAI's harmony format.
 *
 * A mark that is a control token of the tokenizer must be generated as this token; other marks may be generated as any
 * tokens with the same text. Free text never contains the text of a mark, because a parser that does not know the
 * tokens of an answer would take it for the mark.
 */
#ifndef GALLOP_TEXT_GRAMMAR_PREFACE_H
#define GALLOP_TEXT_GRAMMAR_PREFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "text/grammar/automata/grammar.h"

struct token_trie;

/* Returns the regular expression of TEXT. In TEXT, the name of a control token of TRIE matches only this token, and a
 * tab matches an optional blank. A tag with MARKUP_ANY before its '>' matches the control tokens that have any suffix
 * there; if there are none, it matches the tag without a suffix. TRIE NULL: there are no control tokens. */
uint32_t preface_mark(struct regex_store *s, const struct token_trie *trie, const char *text);

/* Returns the regular expression of MARK as plain text, with any word in the place of MARKUP_ANY. */
uint32_t preface_plain(struct regex_store *s, const char *mark);

/* Returns the expression of reasoning whose opening mark is already written: free text, the mark CLOSE, white
 * space, and then REST. The free text contains no match of the regular expression EXCLUDED. */
uint32_t preface_after(struct grammar *g, const struct token_trie *trie, const char *close, uint32_t excluded,
                       uint32_t rest);

/* Returns the expression of the mark OPEN followed by preface_after(), or of REST alone. */
uint32_t preface_between(struct grammar *g, const struct token_trie *trie, const char *open,
                         const char *close, uint32_t excluded, uint32_t rest);

/* ---- harmony: an answer is a list of messages with headers; the prompt ends with "<|start|>assistant" ---- */

/* Returns the expression of any number of messages followed by REST, which begins with a header. The messages are
 * in the channel `analysis`. If IS_FREE, they may be in `commentary` too, and a message may also end the answer. */
uint32_t preface_messages(struct grammar *g, const struct token_trie *trie, bool is_free, uint32_t rest);

/* Returns the expression of a message in the channel `final` with the content CONTENT. */
uint32_t preface_final(struct grammar *g, const struct token_trie *trie, uint32_t content);

/* Returns the expression of a message's text: any text without harmony's marks. */
uint32_t preface_message_text(struct grammar *g);

/* Returns the expression of the header of a tool call message. NAME is the expression of the function's name. */
uint32_t preface_call_header(struct grammar *g, const struct token_trie *trie, uint32_t name);

#endif
