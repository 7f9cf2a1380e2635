/* preface.c - builds the grammars of reasoning between two marks and of harmony's message headers. */
#include "text/grammar/preface.h"

#include <string.h>

#include "text/grammar/free_text.h"
#include "text/grammar/token_trie.h"
#include "text/markup/markup.h"

enum { MOST_BLANKS = 4 /* maximum characters of white space after reasoning */ };

static const char control[] = {(char)TOKEN_TRIE_CONTROL};

/* ---- marks ---- */

static uint32_t fenced(struct regex_store *s, const char *name, size_t n)
{
    uint32_t fence = regex_literal(s, control, sizeof(control));

    return regex_concat(s, fence, regex_concat(s, regex_literal(s, name, n), fence));
}

/* Returns the regular expression of the control tokens whose names match MARK [n], a tag with MARKUP_ANY at its end. If
 * there are none, returns the regular expression of the tag without MARKUP_ANY. */
static uint32_t suffixed(struct regex_store *s, const struct token_trie *t, const char *mark, size_t n)
{
    char tag[MARKUP_MOST_ANY + 1], text[TOKEN_TRIE_LONGEST + 1];
    uint32_t x = REGEX_NOTHING;
    bool more;

    if (n > MARKUP_MOST_ANY)
        return x;
    memcpy(tag, mark, n);
    tag[n] = 0;
    for (size_t i = 0, skip; t && i < t->n; i += skip) {
        const struct token_trie_node *node = &t->node[i];
        size_t at = node->depth;
        bool fits =
            at == 0 ? node->byte == TOKEN_TRIE_CONTROL : at > n - 2 || (char)node->byte == tag[at - 1];

        text[at] = (char)node->byte;
        skip = fits ? 1 : node->skip;
        if (fits && at > 1 && node->byte == TOKEN_TRIE_CONTROL &&
            markup_match(text + 1, at - 1, tag, &more) == at - 1)
            x = regex_or(s, x, fenced(s, text + 1, at - 1));
    }
    memmove(tag + n - 2, tag + n - 1, 2);
    return x == REGEX_NOTHING ? regex_literal(s, tag, n - 1) : x;
}

uint32_t preface_mark(struct regex_store *s, const struct token_trie *trie, const char *text)
{
    static const char end[] = {MARKUP_ANY, 0};
    uint32_t x = REGEX_EMPTY, part;
    size_t n;

    for (; *text; text += n) {
        size_t any = *text == '<' ? strcspn(text + 1, "<") : 0, at = *text == '<' ? strcspn(text, end) : 0;

        n = trie ? token_trie_control(trie, text) : 0;
        if (at && at <= any && text[at] && text[at + 1] == '>') {
            n = at + 2;
            part = suffixed(s, trie, text, n);
        } else if (n) {
            part = fenced(s, text, n);
        } else {
            part = *text == '\t' ? regex_or(s, REGEX_EMPTY, regex_literal(s, " ", 1))
                                 : regex_literal(s, text, 1);
            n = 1;
        }
        x = regex_concat(s, x, part);
    }
    return x;
}

uint32_t preface_plain(struct regex_store *s, const char *mark)
{
    static const char any[] = {MARKUP_ANY, 0};
    uint32_t x = REGEX_EMPTY;

    for (;;) {
        size_t n = strcspn(mark, any);
        struct regex_set word = {{0}};

        x = regex_concat(s, x, regex_literal(s, mark, n));
        if (!mark[n])
            return x;
        for (const char *c = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-:."; *c; c++)
            regex_set_add(&word, (uint8_t)*c);
        x = regex_concat(s, x, regex_repeat(s, regex_bytes(s, &word), 0, REGEX_NO_LIMIT));
        mark += n + 1;
    }
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
    uint32_t spelled = preface_plain(s, close),
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
