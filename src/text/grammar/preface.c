/* preface.c - builds the grammars of reasoning between two marks and of harmony's message headers. */
#include "text/grammar/preface.h"

#include <string.h>

#include "text/grammar/free_text.h"

enum { MOST_BLANKS = 4 /* maximum characters of white space after reasoning */ };

static const char control[] = {(char)TOKEN_TRIE_CONTROL};

/* ---- marks ---- */

static uint32_t fenced(struct regex_store *s, const char *name, size_t n)
{
    uint32_t fence = regex_literal(s, control, sizeof(control));

    return regex_concat(s, fence, regex_concat(s, regex_literal(s, name, n), fence));
}

uint32_t preface_mark(struct regex_store *s, const struct token_trie *trie, const char *text)
{
    uint32_t x = REGEX_EMPTY, part;
    size_t n;

    for (; *text; text += n) {
        n = trie ? token_trie_control(trie, text) : 0;
        part = n > 0           ? fenced(s, text, n)
               : *text == '\t' ? regex_or(s, REGEX_EMPTY, regex_literal(s, " ", 1))
                               : regex_literal(s, text, 1);
        n = n > 0 ? n : 1;
        x = regex_concat(s, x, part);
    }
    return x;
}

static uint32_t mark(struct grammar *g, const struct token_trie *trie, const char *text)
{
    return grammar_term(g, preface_mark(&g->regex, trie, text));
}

/* ---- reasoning ---- */

uint32_t preface_after(struct grammar *g, const struct token_trie *trie, const char *close, uint32_t excluded,
                       uint32_t rest)
{
    struct regex_store *s = &g->regex;
    uint32_t spelled = regex_literal(s, close, strlen(close)),
             blanks = regex_repeat(s, regex_or(s, regex_range(s, '\t', '\n'), regex_literal(s, " ", 1)), 0,
                                   MOST_BLANKS);

    return grammar_sequence(
        g, grammar_term(g, free_text(s, regex_or(s, spelled, excluded))),
        grammar_sequence(g, mark(g, trie, close), grammar_sequence(g, grammar_term(g, blanks), rest)));
}

uint32_t preface_between(struct grammar *g, const struct token_trie *trie, const char *open,
                         const char *close, uint32_t excluded, uint32_t rest)
{
    return grammar_either(
        g, rest, grammar_sequence(g, mark(g, trie, open), preface_after(g, trie, close, excluded, rest)));
}

/* ---- harmony ---- */

static const char final_header[] = "<|channel|>final", message_mark[] = "<|message|>",
                  next_message[] = "<|end|><|start|>assistant";

uint32_t preface_message_text(struct grammar *g)
{
    static const char *const marks[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};
    struct regex_store *s = &g->regex;
    uint32_t x = REGEX_NOTHING;

    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
        x = regex_or(s, x, regex_literal(s, marks[i], strlen(marks[i])));
    return grammar_term(g, free_text(s, x));
}

uint32_t preface_messages(struct grammar *g, const struct token_trie *trie, bool is_free, uint32_t rest)
{
    uint32_t header = mark(g, trie, "<|channel|>analysis<|message|>"), rule = grammar_rule(g), message;

    if (is_free)
        header = grammar_either(g, header, mark(g, trie, "<|channel|>commentary<|message|>"));
    message = grammar_sequence(g, header, preface_message_text(g));
    rest = is_free ? grammar_either(g, rest, message) : rest;
    grammar_define(g, rule,
                   grammar_either(g, rest,
                                  grammar_sequence(g, message,
                                                   grammar_sequence(g, mark(g, trie, next_message),
                                                                    grammar_call(g, rule)))));
    return grammar_call(g, rule);
}

uint32_t preface_final(struct grammar *g, const struct token_trie *trie, uint32_t content)
{
    uint32_t format = grammar_either(g, GRAMMAR_END, mark(g, trie, "\t<|constrain|>json"));

    return grammar_sequence(
        g, mark(g, trie, final_header),
        grammar_sequence(g, format, grammar_sequence(g, mark(g, trie, message_mark), content)));
}

uint32_t preface_call_header(struct grammar *g, const struct token_trie *trie, uint32_t name)
{
    uint32_t to = grammar_sequence(g, mark(g, trie, " to=functions."), name),
             channel = mark(g, trie, "<|channel|>commentary"),
             format = grammar_either(g, mark(g, trie, "\t<|constrain|>json"), mark(g, trie, " json")),
             order = grammar_either(g, grammar_sequence(g, channel, to), grammar_sequence(g, to, channel));

    return grammar_sequence(g, order, grammar_sequence(g, format, mark(g, trie, message_mark)));
}
