/* fuzz_parser.c - any text as the output of a model, parsed with any pair of rows of the two tables.
 *
 * The first two bytes select the rows, the third the cuts. The parts must not depend on the cuts; without a
 * mark the content must be the text; and content, reasoning and arguments must contain only what the text
 * contains in this order.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "text/markup/parser.h"
#include "text/tok/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct found {
    struct buf all;     /* each part after a byte of its kind; neighbouring parts of one kind are joined */
    struct buf text[2]; /* content, reasoning */
    int last;
    unsigned n_calls;
};

static void collect(struct found *f, struct parser *a)
{
    struct parser_piece p;

    while (parser_take(a, &p)) {
        if (f->last != (int)p.kind)
            buf_char(&f->all, (char)('A' + p.kind));
        f->last = p.kind;
        buf_add(&f->all, p.text, p.len);
        if (p.kind <= PARSER_REASONING)
            buf_add(&f->text[p.kind], p.text, p.len);
        f->n_calls += p.kind == PARSER_CALL;
        ASSERT(p.call + 1 == f->n_calls || p.kind < PARSER_CALL);
        ASSERT(p.len <= PARSER_MAX_NAME || p.kind != PARSER_CALL);
        if (p.kind == PARSER_CALL_END)
            buf_char(&f->all, p.complete ? '1' : '0');
    }
}

/* EVERY: 0: the whole text; 1: byte by byte; otherwise pieces of a random length below it. */
static void take_apart(struct found *f, const struct parser_options *o, const char *text, const char *special,
                       size_t n, uint32_t every, uint64_t seed)
{
    struct parser *a;
    uint32_t random[4];

    *f = (struct found){.last = -1};
    ASSERT(parser_open(&a, o, NULL) == 0);
    for (size_t at = 0, len; at < n; at += len) {
        rng_block(seed, 0, at, random);
        len = every ? 1 + random[0] % every : n;
        len = len < n - at ? len : n - at;
        ASSERT(parser_feed(a, text + at, o->tok ? special + at : NULL, len, NULL) == 0);
        collect(f, a);
    }
    ASSERT(parser_finish(a, (enum parser_end)(seed % 3), NULL) == 0);
    collect(f, a);
    parser_close(a);
}

static void found_fini(struct found *f)
{
    buf_fini(&f->all);
    buf_fini(&f->text[0]);
    buf_fini(&f->text[1]);
}

static bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Returns whether PART is in TEXT [n] in this order, apart from line ends, which may be added between
 * messages. */
static bool is_of(const struct buf *part, const char *text, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < part->len; i++) {
        const char *p = part->data[i] == '\n' ? text : memchr(text + at, part->data[i], n - at);

        if (!p)
            return false;
        if (part->data[i] != '\n')
            at = (size_t)(p - text) + 1;
    }
    return true;
}

/* Returns whether TEXT [n] has the first letter of a mark of MARKS [n_marks]. */
static bool may_have(const char *const *marks, size_t n_marks, const char *text, size_t n)
{
    for (size_t i = 0; i < n_marks && marks[i]; i++)
        if (*marks[i] == MARKUP_ANY || memchr(text, *marks[i], n))
            return true;
    return false;
}

/* Without a row there is no mark, and without the first letter of a mark neither. */
static bool has_no_mark(const struct parser_options *o, const char *text, size_t n)
{
    const struct markup_calls *c = o->calls;
    const struct markup_reasoning *r = o->reasoning;

    if (c && (may_have(c->open, MARKUP_MAX_OPEN, text, n) || may_have(c->call, MARKUP_MAX_MARKS, text, n) ||
              (c->bare && memchr(text, c->bare, n))))
        return false;
    return !r || !(r->implied || may_have(&r->open, 1, text, n) ||
                   may_have(r->text_open, MARKUP_MAX_MARKS, text, n) ||
                   may_have(r->text_close, MARKUP_MAX_MARKS, text, n) ||
                   may_have(r->skip, MARKUP_MAX_MARKS, text, n));
}

/* Opens a tokenizer that has some of the marks as special tokens. */
static struct tok *tokenizer(void)
{
    static const char json[] = "{\"model\":{\"merges\":[],\"vocab\":{\"a\":0}},\"added_tokens\":["
                               "{\"id\":1,\"content\":\"<tool_call>\",\"special\":true},"
                               "{\"id\":2,\"content\":\"</think>\",\"special\":true},"
                               "{\"id\":3,\"content\":\"[TOOL_CALLS]\",\"special\":true},"
                               "{\"id\":4,\"content\":\"<|message|>\",\"special\":true},"
                               "{\"id\":5,\"content\":\"<|channel|>\",\"special\":true},"
                               "{\"id\":6,\"content\":\"<|channel>\",\"special\":true}]}";
    struct tok *t;

    ASSERT(tok_open_json(&t, json, strlen(json), "t", NULL) == 0);
    return t;
}

/* Returns the parameters of the function f: a value of each type. */
static json_t *schema(void)
{
    return json_pack("{s:s,s:{s:{s:s},s:{s:s},s:{s:[s,s]},s:{s:s},s:{s:s},s:{s:s,s:{s:{s:s}}}}}", "type",
                     "object", "properties", "a", "type", "string", "b", "type", "integer", "c", "type",
                     "string", "null", "d", "type", "number", "l", "type", "array", "o", "type", "object",
                     "properties", "a", "type", "boolean");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"f"};
    struct parser_options o = {.names = names, .n_names = 1};
    const char *text = (const char *)data + 3;
    char *special;
    struct found whole, other;
    size_t n = size - 3;
    json_t *tools;

    if (size < 3)
        return 0;
    o.calls = markup_calls_row(data[0] % (markup_n_calls_rows + 1));
    o.reasoning = markup_reasoning_row(data[1] % (markup_n_reasoning_rows + 1));
    o.tools = tools =
        json_pack("[{s:s,s:{s:s,s:o}}]", "type", "function", "function", "name", "f", "parameters", schema());
    o.one_call = data[2] & 8;
    if (data[2] & 16)
        o.tok = tokenizer();
    special = mem_zalloc(n + 1, 1, MEM_TEXT);
    for (size_t i = 0; i < n; i++)
        special[i] = !(data[2] & 32) || (data[2] ^ i / 16) & 1;
    take_apart(&whole, &o, text, special, n, 0, data[2]);
    for (uint32_t every = 1; every <= 30; every = every * 2 + 5) {
        take_apart(&other, &o, text, special, n, every, data[2]);
        ASSERT(same(&whole.all, &other.all), "pieces of up to %u bytes", every);
        found_fini(&other);
    }
    /* A role or a space may precede the header, which a message of a channel lacks. */
    if (has_no_mark(&o, text, n) && !memmem(text, n, "to=", 3) && !memmem(text, n, "assistant", 9) &&
        !(o.calls && o.calls->channels) && !(o.reasoning && o.reasoning->channels))
        ASSERT(whole.text[0].len == n && (n == 0 || memcmp(whole.text[0].data, text, n) == 0));
    ASSERT(is_of(&whole.text[0], text, n) && is_of(&whole.text[1], text, n));
    found_fini(&whole);
    mem_free(special);
    json_decref(tools);
    tok_close((struct tok *)o.tok);
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
