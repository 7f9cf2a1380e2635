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
static void take_apart(struct found *f, const struct parser_options *o, const char *text, size_t n,
                       uint32_t every, uint64_t seed)
{
    struct parser *a;
    uint32_t random[4];

    *f = (struct found){.last = -1};
    ASSERT(parser_open(&a, o, NULL) == 0);
    for (size_t at = 0, len; at < n; at += len) {
        rng_block(seed, 0, at, random);
        len = every ? 1 + random[0] % every : n;
        len = len < n - at ? len : n - at;
        ASSERT(parser_feed(a, text + at, len, NULL) == 0);
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

/* Without a row there is no mark, and without the first letter of a mark neither. */
static bool has_no_mark(const struct parser_options *o, const char *text, size_t n)
{
    if (!o->calls && !o->reasoning)
        return true;
    return !memchr(text, '<', n) && !memchr(text, '[', n) && !memchr(text, '{', n) && !memchr(text, 'f', n) &&
           !(o->reasoning && o->reasoning->implied);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"f"};
    struct parser_options o = {.names = names, .n_names = 1};
    const char *text = (const char *)data + 3;
    struct found whole, other;
    size_t n = size - 3;

    if (size < 3)
        return 0;
    o.calls = markup_calls_row(data[0] % 8);
    o.reasoning = markup_reasoning_row(data[1] % 8);
    o.one_call = data[2] & 8;
    take_apart(&whole, &o, text, n, 0, data[2]);
    for (uint32_t every = 1; every <= 30; every = every * 2 + 5) {
        take_apart(&other, &o, text, n, every, data[2]);
        ASSERT(same(&whole.all, &other.all), "pieces of up to %u bytes", every);
        found_fini(&other);
    }
    /* A role or a space may precede the header, which a message of a channel lacks. */
    if (has_no_mark(&o, text, n) && !memmem(text, n, "to=", 3) && !memmem(text, n, "assistant", 9) &&
        !(o.calls && o.calls->channels) && !(o.reasoning && o.reasoning->channels))
        ASSERT(whole.text[0].len == n && (n == 0 || memcmp(whole.text[0].data, text, n) == 0));
    ASSERT(is_of(&whole.text[0], text, n) && is_of(&whole.text[1], text, n));
    found_fini(&whole);
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
