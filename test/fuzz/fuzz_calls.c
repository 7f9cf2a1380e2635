/* fuzz_calls.c - an answer that the grammar of tool calls allows, parsed as the server does it.
 *
 * The first byte says whether the answer may contain text and several calls, the second selects the markup. Each
 * further byte is the next one of the answer, or stands for the next larger byte that the grammar allows there. The
 * parser must find the calls that the grammar has written: of a known function, with a JSON object as arguments and,
 * if calls are forced, with nothing else. Whole answers and answers in pieces must be parsed alike.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/schema/schema.h"
#include "text/grammar/tool_calls.h"
#include "text/markup/parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"f", "f2"};

static int any_object(void *context, struct grammar *g, const struct tool_calls_function *function,
                      uint32_t *start, struct err *e)
{
    const struct schema_options o = {.without_space = *(const bool *)context,
                                     .is_object = !function->value_close,
                                     .excluded = function->value_close};
    struct schema_report report = {0};
    int rc = schema_compile(g, function->parameters, &o, start, &report, e);

    schema_report_fini(&report);
    return rc;
}

/* Writes to TEXT an answer of the grammar as DATA [n] chooses it. Returns whether the answer is complete. */
static bool write_answer(struct recognizer *r, const uint8_t *data, size_t n, struct buf *text)
{
    uint32_t row = RECOGNIZER_BEGIN;

    for (size_t i = 0; i < n; i++) {
        uint32_t next = RECOGNIZER_DEAD;
        unsigned byte = data[i];

        for (unsigned k = 0; k < 256 && next == RECOGNIZER_DEAD; k++) {
            byte = (data[i] + k) % 256;
            next = recognizer_next(r, row, (uint8_t)byte);
        }
        if (next == RECOGNIZER_DEAD) /* the answer is complete, or the grammar is out of memory */
            break;
        row = next;
        buf_char(text, (char)byte);
    }
    return recognizer_may_end(r, row);
}

/* What the parser has found. */
struct seen {
    struct buf all; /* each piece after a byte of its kind */
    struct buf arguments;
    int last;
    size_t n_calls, n_complete, n_content; /* N_CONTENT: bytes of content that are no white space */
};

static void check_arguments(struct seen *f)
{
    json_t *v = NULL;

    ASSERT(json_pull_load_exact(&v, f->arguments.data, f->arguments.len, "fuzz", NULL) == 0 &&
               json_is_object(v),
           "%.*s", (int)f->arguments.len, f->arguments.data);
    json_decref(v);
}

static void take_piece(struct seen *f, const struct parser_piece *p, bool is_whole)
{
    if (f->last != (int)p->kind)
        buf_char(&f->all, (char)('A' + p->kind));
    f->last = p->kind;
    buf_add(&f->all, p->text, p->len);
    if (p->kind == PARSER_CONTENT)
        for (size_t i = 0; i < p->len; i++)
            f->n_content += !strchr(" \t\r\n", p->text[i]) || !p->text[i];
    if (p->kind == PARSER_CALL) {
        size_t i = 0;

        while (i < 2 && (strlen(names[i]) != p->len || memcmp(names[i], p->text, p->len) != 0))
            i++;
        ASSERT(i < 2, "%.*s", (int)p->len, p->text);
        f->n_calls++;
        buf_clear(&f->arguments);
    }
    if (p->kind == PARSER_ARGUMENTS)
        buf_add(&f->arguments, p->text, p->len);
    if (p->kind == PARSER_CALL_END) {
        buf_char(&f->all, p->complete ? '1' : '0');
        f->n_complete += p->complete;
        if (is_whole && p->complete)
            check_arguments(f);
    }
}

/* EVERY: bytes of a piece; 0: all. */
static void parse(struct seen *f, const struct markup_calls *markup, const struct buf *text, size_t every,
                  bool is_whole)
{
    const struct parser_options o = {.calls = markup,
                                     .names = names,
                                     .n_names = 2,
                                     .prompt = "<|start|>assistant",
                                     .prompt_len = strlen("<|start|>assistant")};
    struct parser_piece p;
    struct parser *a;

    *f = (struct seen){.last = -1};
    ASSERT(parser_open(&a, &o, NULL) == 0);
    for (size_t at = 0, n; at < text->len; at += n) {
        n = every && every < text->len - at ? every : text->len - at;
        ASSERT(parser_feed(a, text->data + at, NULL, n, NULL) == 0);
        while (parser_take(a, &p))
            take_piece(f, &p, is_whole);
    }
    ASSERT(parser_finish(a, is_whole ? PARSER_ENDED : PARSER_CUT, NULL) == 0);
    while (parser_take(a, &p))
        take_piece(f, &p, is_whole);
    parser_close(a);
}

static void check(const struct tool_calls *calls, const struct buf *text, bool is_whole)
{
    const char *name = calls->markup.name;
    const struct markup_calls *markup = markup_calls_named(name);
    struct seen whole, pieces;

    parse(&whole, markup, text, 0, is_whole);
    for (size_t every = 1; every < 20; every = 3 * every + 1) {
        parse(&pieces, markup, text, every, is_whole);
        ASSERT(pieces.all.len == whole.all.len &&
                   (whole.all.len == 0 || memcmp(pieces.all.data, whole.all.data, whole.all.len) == 0),
               "%s: pieces of %zu bytes of %.*s", name, every, (int)text->len, text->data);
        buf_fini(&pieces.all);
        buf_fini(&pieces.arguments);
    }
    if (is_whole) {
        ASSERT(whole.n_complete == whole.n_calls, "%s: %.*s", name, (int)text->len, text->data);
        ASSERT(calls->is_free || (whole.n_calls > 0 && whole.n_content == 0), "%s: %.*s", name,
               (int)text->len, text->data);
        ASSERT(calls->is_parallel || whole.n_calls <= 1, "%s: %.*s", name, (int)text->len, text->data);
    }
    buf_fini(&whole.all);
    buf_fini(&whole.arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tool_calls_function function[2] = {{.name = names[0]}, {.name = names[1]}};
    struct tool_calls calls = {.function = function, .n = 2, .content = GRAMMAR_NEVER};
    struct buf text = {.tag = MEM_TEXT};
    struct grammar g;
    struct recognizer r;
    bool is_compact, is_whole;
    uint32_t start;
    json_t *schema, *properties;

    if (size < 2)
        return 0;
    ASSERT(tool_calls_markup_named(markup_calls_row(data[1] % markup_n_calls_rows)->name, &calls.markup));
    calls.is_free = data[0] & 32;
    calls.is_parallel = data[0] & 64;
    is_compact = data[0] & 128;
    schema = json_pack("{s:s}", "type", "object");
    properties = json_pack("{s:s,s:{s:{s:s},s:{s:s},s:{s:s,s:[s,s]},s:{s:s}},s:[s]}", "type", "object",
                           "properties", "s", "type", "string", "n", "type", "number", "e", "type", "string",
                           "enum", "x", "y z", "o", "type", "object", "required", "s");
    function[0].parameters = schema;
    function[1].parameters = properties;
    ASSERT(grammar_open(&g, 16 << 20, 1 << 20) == 0);
    ASSERT(tool_calls_grammar(&g, &calls, NULL, any_object, &is_compact, &start, NULL) == 0);
    ASSERT(grammar_finish(&g, start, NULL) == 0 && recognizer_open(&r, &g, NULL) == 0);
    is_whole = write_answer(&r, data + 2, size - 2, &text);
    check(&calls, &text, is_whole && g.regex.fault == REGEX_FINE);
    recognizer_close(&r);
    grammar_close(&g);
    json_decref(schema);
    json_decref(properties);
    buf_fini(&text);
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
