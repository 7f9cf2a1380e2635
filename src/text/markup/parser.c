/* parser.c - the state machine of plain text and its marks, and the interface of the parser.
 *
 * Text stays in `in` while it may have to be read again: a call is parsed from its mark on. If it turns
 * out not to be a call, the mark is plain text and parsing continues after the mark. At each byte a
 * machine decides from the bytes up to it, or reports that it needs more text. Therefore the result does
 * not depend on how the text was split.
 */
#include "text/markup/parser.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "text/markup/parser_priv.h"
#include "text/tok/tok.h"

/* ---- pieces ---- */

void parser_put(struct parser *a, enum parser_kind kind, const char *s, size_t n)
{
    struct parser_slot *last = a->n_slots ? &a->slot[a->n_slots - 1] : NULL;
    unsigned call = kind >= PARSER_CALL ? a->n_calls - 1 : 0;

    if (a->muted || a->o.is_silent || (kind >= PARSER_CALL && a->o.one_call && call > 0) ||
        (kind == PARSER_CONTENT && a->o.calls && a->o.is_forced))
        return;
    if (n == 0 && kind != PARSER_CALL && kind != PARSER_CALL_END)
        return;
    if (!last || last->kind != kind || last->call != call || a->n_slots == a->taken ||
        kind == PARSER_CALL_END) {
        void *slots = a->slot;

        if (!mem_grow(&slots, &a->slots_cap, a->n_slots + 1, sizeof(*a->slot), MEM_TEXT)) {
            a->out.oom = true;
            return;
        }
        a->slot = slots;
        last = &a->slot[a->n_slots++];
        *last = (struct parser_slot){.kind = kind, .call = call, .at = a->out.len};
    }
    buf_add(&a->out, s, n);
    last->len += n;
}

static void put_id(const struct parser *a, struct parser_slot *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    bool brief = a->o.calls && a->o.calls->short_id;
    size_t n = brief ? 9 : 24, at = 0;
    uint32_t random[4] = {0};

    if (!brief) {
        memcpy(s->id, "call_", 5);
        at = 5;
    }
    for (size_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            rng_block(a->o.seed, s->call, i / 4, random);
        s->id[at + i] = letters[random[i % 4] % (sizeof(letters) - 1)];
    }
    s->id[at + n] = 0;
}

void parser_put_call(struct parser *a, const char *name, size_t n)
{
    size_t before = a->n_slots;

    a->n_calls++;
    parser_put(a, PARSER_CALL, name, n);
    if (a->n_slots > before)
        put_id(a, &a->slot[before]);
}

void parser_put_call_end(struct parser *a, bool complete)
{
    size_t before = a->n_slots;

    parser_put(a, PARSER_CALL_END, "", 0);
    if (a->n_slots > before)
        a->slot[before].complete = complete;
}

bool parser_take(struct parser *a, struct parser_piece *p)
{
    const struct parser_slot *s;

    if (a->taken == a->n_slots)
        return false;
    s = &a->slot[a->taken++];
    *p = (struct parser_piece){.kind = s->kind,
                               .call = s->call,
                               .text = a->out.data ? a->out.data + s->at : "",
                               .len = s->len,
                               .complete = s->complete};
    memcpy(p->id, s->id, sizeof(p->id));
    return true;
}

enum parser_place parser_place(const struct parser *a)
{
    if (a->mode == PARSER_REASONING)
        return a->machine == CALL ? PARSER_AT_CALL : PARSER_IN_REASONING;
    return a->content_begun ? PARSER_IN_TEXT : PARSER_BEFORE;
}

/* ---- plain text ---- */

/* Emits the white space that was held back as content. If a->separate is set, emits one line end instead, because the
 * white space after a tool call belongs to the markup. */
static void put_blanks(struct parser *a)
{
    size_t skip = 0;

    while (a->after_reasoning && skip < a->blanks.len && a->blanks.data[skip] == '\n')
        skip++;
    if (a->separate)
        parser_put(a, PARSER_CONTENT, "\n", 1);
    else if (a->blanks.len > skip)
        parser_put(a, PARSER_CONTENT, a->blanks.data + skip, a->blanks.len - skip);
    a->separate = false;
    a->blanks.len = 0;
}

static void plain_content(struct parser *a, char c)
{
    if (utf8_is_blank(c) && a->blanks.len < PARSER_MAX_BLANKS &&
        (a->o.calls || !a->content_begun || a->separate || a->in_text)) {
        buf_char(&a->blanks, c);
        return;
    }
    put_blanks(a);
    a->after_reasoning = false;
    a->content_begun = true;
    parser_put(a, PARSER_CONTENT, &c, 1);
}

static void put_line_ends(struct parser *a)
{
    if (a->reasoning_begun)
        for (; a->line_ends; a->line_ends--)
            parser_put(a, PARSER_REASONING, "\n", 1);
    a->line_ends = 0;
    if (a->blanks.len)
        parser_put(a, PARSER_REASONING, a->blanks.data, a->blanks.len);
    a->blanks.len = 0;
}

static void plain(struct parser *a, char c)
{
    if (a->mode == PARSER_CONTENT) {
        plain_content(a, c);
    } else if (c == '\n' && a->line_ends < PARSER_MAX_BLANKS) {
        a->line_ends++;
    } else if (!a->reasoning_begun && utf8_is_blank(c) && a->blanks.len < PARSER_MAX_BLANKS) {
        buf_char(&a->blanks, c); /* the opening mark may follow */
    } else {
        put_line_ends(a);
        a->reasoning_begun = true;
        parser_put(a, PARSER_REASONING, &c, 1);
    }
}

/* ---- marks ---- */

/* Adds MARK (NULL: none) to a->special if it begins with a special token, or has one after MARKUP_ANY. */
static void add_special_mark(struct parser *a, const char *mark)
{
    size_t from = 0, n = mark ? tok_special_prefix(a->o.tok, mark) : 0;

    if (mark && !n && !markup_fixed(mark)) {
        from = (size_t)(strchr(mark, MARKUP_ANY) - mark) + 1;
        n = tok_special_prefix(a->o.tok, mark + from);
    }
    ASSERT(a->n_special < PARSER_MAX_SPECIAL);
    if (n)
        a->special[a->n_special++] = (struct parser_mark){mark, from, n};
}

/* Of the first N bytes at offset AT of `in`, MARK requires some to be written by special tokens. Returns whether they
 * are. */
static bool is_written(const struct parser *a, size_t at, const char *mark, size_t n)
{
    for (size_t i = 0; i < a->n_special; i++) {
        const struct parser_mark *s = &a->special[i];
        size_t skip = s->from;

        if (s->mark != mark)
            continue;
        if (skip) { /* the token begins where its first byte occurs after the text for MARKUP_ANY */
            const char *found = memchr(a->in.data + at + skip - 1, mark[skip], n < skip ? 0 : n - skip + 1);

            if (!found)
                return true;
            skip = (size_t)(found - a->in.data) - at;
        }
        return n <= skip || !memchr(a->origin.data + at + skip, 0, n - skip < s->n ? n - skip : s->n);
    }
    return true;
}

enum parser_found parser_match(const struct parser *a, size_t at, const char *mark, size_t *len)
{
    size_t left = a->in.len - at;
    bool more;

    *len = mark ? markup_match(a->in.data + at, left, mark, &more) : 0;
    if (!mark || (*len == 0 && !more) || !is_written(a, at, mark, *len ? *len : left))
        return NO_MATCH;
    return *len ? IS_MATCH : a->finishing ? NO_MATCH : MAY_MATCH;
}

enum parser_found parser_match_any(const struct parser *a, size_t at, const char *const *marks, size_t n,
                                   size_t *len)
{
    enum parser_found found = NO_MATCH;

    *len = 0;
    for (size_t i = 0; i < n && marks[i] && found == NO_MATCH; i++)
        found = parser_match(a, at, marks[i], len);
    return found;
}

bool parser_knows(const struct parser *a, const char *name, size_t n)
{
    for (size_t i = 0; i < a->o.n_names; i++)
        if (strlen(a->o.names[i]) == n && memcmp(a->o.names[i], name, n) == 0)
            return true;
    return false;
}

enum mark_kind { MARK_CALLS, MARK_CALL, MARK_OPEN, MARK_CLOSE, MARK_TEXT, MARK_TEXT_END, MARK_SKIP };

/* The marks that are valid at a position. */
struct marks {
    const char *mark[MARKUP_MAX_OPEN + 4 * MARKUP_MAX_MARKS + 2];
    enum mark_kind kind[MARKUP_MAX_OPEN + 4 * MARKUP_MAX_MARKS + 2];
    size_t n;
};

static void add_marks(struct marks *m, const char *const *marks, size_t n, enum mark_kind kind)
{
    for (size_t i = 0; i < n && marks[i]; i++) {
        m->mark[m->n] = marks[i];
        m->kind[m->n++] = kind;
    }
}

/* Collects the marks that are valid at this position. Reasoning can open only before any content, because
 * content may mention the mark. In formats with marks around content, it can also open between two parts of
 * content. */
static struct marks marks_here(const struct parser *a)
{
    const struct markup_reasoning *r = a->o.reasoning;
    const struct markup_calls *row = a->o.calls;
    bool reasoning = a->mode == PARSER_REASONING, in_words = a->content_begun && !a->separate;
    bool has_text = r && r->text_open[0];
    struct marks m;

    m.n = 0;
    if (r && (reasoning ? !a->reasoning_begun : has_text ? !a->in_text : !a->content_begun))
        add_marks(&m, &r->open, 1, MARK_OPEN);
    if (r && (reasoning || a->ended_by_call))
        add_marks(&m, &r->close, 1, MARK_CLOSE);
    if (has_text && !a->in_text)
        add_marks(&m, r->text_open, MARKUP_MAX_MARKS, MARK_TEXT);
    if (has_text && !reasoning)
        add_marks(&m, r->text_close, MARKUP_MAX_MARKS, MARK_TEXT_END);
    if (has_text && !a->in_text && !reasoning)
        add_marks(&m, r->skip, MARKUP_MAX_MARKS, MARK_SKIP);
    if (row && a->n_calls < PARSER_MAX_CALLS) {
        /* a mark that begins with MARKUP_ANY must not take the last word of content or reasoning for its
         * beginning */
        add_marks(&m, row->open, MARKUP_MAX_OPEN, MARK_CALLS);
        while (m.n && *m.mark[m.n - 1] == MARKUP_ANY && (a->in_text || reasoning || in_words))
            m.n--;
        if (a->in_section || !row->needs_open)
            add_marks(&m, row->call, MARKUP_MAX_MARKS, MARK_CALL);
    }
    return m;
}

/* Begins a call at a mark of LEN bytes. */
static void begin_call(struct parser *a, size_t len, enum parser_call_state state)
{
    struct parser_call *c = &a->call;

    c->start = a->at;
    c->mark_len = len;
    c->bare = c->list = c->named = c->begun = false;
    c->held.len = 0;
    c->holds = 0;
    call_json_object(c);
    c->state = state;
    a->machine = CALL;
    a->source = a->at += len;
}

/* Skips a mark of the reasoning row, of LEN bytes. */
static void enter(struct parser *a, enum mark_kind kind, size_t len)
{
    bool was_reasoning = a->mode == PARSER_REASONING;

    a->at += len;
    if (kind == MARK_OPEN) {
        a->mode = PARSER_REASONING;
        a->line_ends = a->reasoning_begun;
        a->blanks.len = 0;
        return;
    }
    if (was_reasoning || kind != MARK_CLOSE)
        a->blanks.len = 0;
    a->after_reasoning |= was_reasoning;
    a->ended_by_call = false;
    a->mode = PARSER_CONTENT;
    a->in_text = kind == MARK_TEXT;
    a->separate |= kind != MARK_CLOSE && a->content_begun;
    a->line_ends = 0;
}

/* Skips a repetition of the calls at the current position, if there is one. Returns false if more text is
 * needed. */
static bool skip_echo(struct parser *a)
{
    size_t len;
    enum parser_found m = parser_match(a, a->at, a->echo.data, &len);

    if (m == MAY_MATCH)
        return false;
    a->at += len;
    a->echo.len = 0;
    return true;
}

/* Reads one byte or mark of plain text. Returns false if more text is needed. */
static bool text_step(struct parser *a)
{
    struct marks m = marks_here(a);
    const char bare = a->o.calls ? a->o.calls->bare : 0;
    size_t len;

    if (a->echo.len)
        return skip_echo(a);
    for (size_t i = 0; i < m.n; i++) {
        enum parser_found found = parser_match(a, a->at, m.mark[i], &len);

        if (found == MAY_MATCH)
            return false;
        if (found != IS_MATCH)
            continue;
        if (m.kind[i] > MARK_CALL) {
            enter(a, m.kind[i], len);
            a->text_mark = m.kind[i] == MARK_TEXT_END ? m.mark[i] : NULL;
        } else {
            a->in_section |= m.kind[i] == MARK_CALLS;
            begin_call(a, len, m.kind[i] == MARK_CALLS && a->o.calls->call[0] ? AT_OPEN : AT_HEAD);
        }
        return true;
    }
    if (bare && a->mode == PARSER_CONTENT && !a->content_begun && a->in.data[a->at] == bare &&
        a->n_calls < PARSER_MAX_CALLS) {
        begin_call(a, 1, AT_HEAD);
        a->at = a->call.start;
        a->call.bare = true;
    } else {
        a->text_mark = utf8_is_blank(a->in.data[a->at]) ? a->text_mark : NULL;
        plain(a, a->in.data[a->at++]);
    }
    return true;
}

static void finish_text(struct parser *a)
{
    if (a->mode == PARSER_REASONING)
        put_line_ends(a);
    else if (a->n_calls == 0 && !a->separate)
        put_blanks(a);
}

/* ---- calls ---- */

/* Returns to plain text, because the text is not a call: the first mark_len bytes are plain, and parsing
 * continues after them. */
static void give_up(struct parser *a)
{
    struct parser_call *c = &a->call;

    a->machine = TEXT;
    a->at = c->start;
    for (; c->mark_len; c->mark_len--)
        plain(a, a->in.data[a->at++]);
}

void parser_end_call(struct parser *a, size_t behind, bool complete)
{
    struct parser_call *c = &a->call;

    parser_put_call_end(a, complete);
    a->separate |= a->content_begun;
    c->begun = false;
    c->start = behind;
    c->mark_len = 0;
    c->state = AT_CLOSE;
}

void parser_misfit(struct parser *a)
{
    struct parser_call *c = &a->call;

    if (!c->begun) {
        give_up(a);
        return;
    }
    a->at = c->start;
    parser_end_call(a, c->start, true);
}

void parser_begin_call(struct parser *a)
{
    struct parser_call *c = &a->call;

    if (a->mode == PARSER_REASONING) {
        a->mode = PARSER_CONTENT;
        a->ended_by_call = true;
        a->line_ends = 0;
        a->blanks.len = 0;
    }
    if (a->n_calls)
        a->blanks.len = 0; /* white space between two calls */
    a->text_mark = NULL;
    parser_put_call(a, c->name.data, c->name.len);
    c->begun = true;
}

void parser_args(struct parser *a, const char *s, size_t n)
{
    if (a->call.holds || !a->call.begun)
        buf_add(&a->call.held, s, n);
    else
        parser_put(a, PARSER_ARGUMENTS, s, n);
}

/* Returns whether the arguments are being emitted. From then on the text of the call cannot become content. */
static bool streaming(const struct parser_call *c)
{
    return c->begun && !c->args_done;
}

/* Reads a mark after a call: one that closes the call, or one that closes all calls. */
static enum parser_found close_match(struct parser *a)
{
    const struct markup_calls *row = a->o.calls;
    size_t len;
    enum parser_found m = parser_match_any(a, a->at, row->close, MARKUP_MAX_MARKS, &len);

    if (m == IS_MATCH) {
        a->at += len;
        if (row->echoes)
            buf_add(&a->echo, a->in.data + a->source + 1, a->at - a->source - 1);
        a->machine = TEXT;
        a->in_section = false;
        return m;
    }
    if (m == NO_MATCH &&
        (m = parser_match_any(a, a->at, row->call_close, MARKUP_MAX_MARKS, &len)) == IS_MATCH)
        a->call.start = a->at += len;
    return m;
}

/* Reads the mark of a call after the mark that opens calls. */
static enum parser_found open_match(struct parser *a)
{
    size_t len;
    enum parser_found m = parser_match_any(a, a->at, a->o.calls->call, MARKUP_MAX_MARKS, &len);

    if (m == IS_MATCH) {
        a->at += len;
        a->call.state = AT_HEAD;
    }
    return m;
}

static bool call_step(struct parser *a)
{
    struct parser_call *c = &a->call;
    enum parser_found m = c->state == AT_CLOSE  ? close_match(a)
                          : c->state == AT_OPEN ? open_match(a)
                                                : NO_MATCH;
    char ch = a->in.data[a->at];

    if (m != NO_MATCH)
        return m == IS_MATCH;
    if (!streaming(c) && a->at - c->start >= PARSER_MAX_HELD) {
        c->mark_len = c->begun ? 0 : a->at - c->start;
        parser_misfit(a);
        return true;
    }
    if (c->state == AT_OPEN && !utf8_is_blank(ch) && !(ch == '{' && a->o.calls->shapes & MARKUP_OBJECT) &&
        !(ch == '[' && a->o.calls->shapes & MARKUP_LIST)) {
        parser_misfit(a);
        return true;
    }
    return c->state >= WORDS_KEY     ? call_words_step(a)
           : c->state >= XML_NEXT    ? call_xml_step(a)
           : c->state == IN_FUNCTION ? call_name_step(a)
                                     : call_json_step(a);
}

/* Ends a call that is incomplete at the end of the text. */
static void finish_call(struct parser *a)
{
    struct parser_call *c = &a->call;

    if (streaming(c)) {
        if (c->state >= XML_NEXT && c->state < WORDS_KEY)
            call_xml_finish(a);
        else
            parser_put_call_end(a, false);
        a->machine = TEXT;
    } else {
        for (const char *p = c->begun ? NULL : a->text_mark; p && *p; p++)
            plain(a, *p); /* no text is lost */
        a->text_mark = NULL;
        parser_misfit(a);
        if (a->machine == CALL)
            give_up(a);
    }
}

/* ---- the parser ---- */

static bool step(struct parser *a)
{
    switch (a->machine) {
    case TEXT: return text_step(a);
    case CALL: return call_step(a);
    default: return channels_step(a);
    }
}

static void parser_run(struct parser *a)
{
    while (a->at < a->in.len && step(a))
        ;
}

/* Removes from `in` the text that the parser will not read again. */
static void compact(struct parser *a)
{
    size_t keep = a->at;

    if (a->machine == HEADER)
        keep = a->header;
    else if (a->machine == CALL && !streaming(&a->call))
        keep = a->call.start;
    if (a->machine == CALL && a->o.calls->echoes && keep > a->source)
        keep = a->source;
    if (keep == 0)
        return;
    memmove(a->in.data, a->in.data + keep, a->in.len - keep);
    a->in.len -= keep;
    if (a->n_special) {
        memmove(a->origin.data, a->origin.data + keep, a->in.len);
        a->origin.len = a->in.len;
    }
    a->at -= keep;
    a->header = 0;
    a->call.start -= a->call.start < keep ? a->call.start : keep;
    a->source -= a->source < keep ? a->source : keep;
}

static int check(const struct parser *a, struct err *e)
{
    const struct parser_call *c = &a->call;

    if (a->in.oom || a->origin.oom || a->out.oom || a->blanks.oom || a->echo.oom || c->word.oom ||
        c->name.oom || c->held.oom)
        return err_nomem(e, "the parts of an answer");
    return 0;
}

int parser_feed(struct parser *a, const char *text, const char *special, size_t n, struct err *e)
{
    int rc = check(a, e);

    if (rc)
        return rc;
    if (a->taken == a->n_slots) {
        buf_clear(&a->out);
        a->n_slots = a->taken = 0;
    }
    buf_add(&a->in, text, n);
    for (size_t i = 0; i < n && a->n_special; i++)
        buf_char(&a->origin, !special || special[i]);
    if (!a->in.oom && !a->origin.oom) {
        parser_run(a);
        compact(a);
    }
    return check(a, e);
}

/* Returns whether a complete call is followed only by separators, by the beginning of its closing mark, or by the
 * beginning of another call whose mark has been read. */
static bool behind_call(const struct parser *a)
{
    const struct parser_call *c = &a->call;
    const struct markup_calls *row = a->o.calls;
    size_t len;

    if (a->machine != CALL || c->begun || c->mark_len)
        return false;
    if (c->state == AT_CLOSE)
        return a->at == a->in.len ||
               parser_match_any(a, a->at, row->close, MARKUP_MAX_MARKS, &len) == MAY_MATCH ||
               parser_match_any(a, a->at, row->call_close, MARKUP_MAX_MARKS, &len) == MAY_MATCH;
    return c->list || c->bare || (c->state == IN_FUNCTION && row->shapes & MARKUP_PYTHON);
}

/* Ends the call, or drops it with the white space before it if its arguments are incomplete. */
static void drop_call(struct parser *a)
{
    buf_clear(&a->blanks);
    if (a->call.begun)
        parser_put_call_end(a, a->call.args_done);
    a->at = a->in.len;
    a->machine = TEXT;
}

int parser_finish(struct parser *a, enum parser_end end, struct err *e)
{
    if (end != PARSER_ENDED && behind_call(a)) {
        a->at = a->in.len;
        a->machine = TEXT;
    }
    a->finishing = true;
    a->end = end;
    parser_run(a);
    if (end == PARSER_STOPPED && a->machine == CALL)
        drop_call(a);
    while (a->machine == CALL) {
        finish_call(a);
        parser_run(a);
    }
    if (a->machine == TEXT)
        finish_text(a);
    else
        channels_finish(a);
    return check(a, e);
}

static bool has_channels(const struct parser_options *o)
{
    return (o->calls && o->calls->channels) || (o->reasoning && o->reasoning->channels);
}

/* Begins in content or in reasoning. */
static void parser_begin(struct parser *a)
{
    const struct parser_options *o = &a->o;
    enum markup_place place =
        markup_place(o->reasoning, o->prompt, o->prompt_len, o->continued, o->n_continued);

    a->mode = markup_reasons(place) ? PARSER_REASONING : PARSER_CONTENT;
    a->in_text = markup_in_text(o->reasoning, o->prompt, o->prompt_len);
    a->reasoning_begun = place == MARKUP_INSIDE;
    a->content_begun = place == MARKUP_CONTENT;
}

static void add_special_marks(struct parser *a, const char *const *marks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_special_mark(a, marks[i]);
}

/* Finds the marks that special tokens write. */
static void find_special_marks(struct parser *a)
{
    const struct markup_calls *c = a->o.calls;
    const struct markup_reasoning *r = a->o.reasoning;
    const char *mark[MARKUP_MOST_MARKS];

    if (c)
        add_special_marks(a, mark, markup_calls_marks(c, mark));
    if (r) {
        add_special_mark(a, r->open);
        add_special_mark(a, r->close);
        add_special_marks(a, r->text_open, MARKUP_MAX_MARKS);
        add_special_marks(a, r->text_close, MARKUP_MAX_MARKS);
        add_special_marks(a, r->skip, MARKUP_MAX_MARKS);
    }
    for (size_t i = 0; has_channels(&a->o) && channels_marks[i]; i++)
        add_special_mark(a, channels_marks[i]);
}

int parser_open(struct parser **out, const struct parser_options *o, struct err *e)
{
    struct parser *a = mem_zalloc(1, sizeof(*a), MEM_TEXT);
    int rc = 0;

    *out = NULL;
    if (!a)
        return err_nomem(e, "the parts of an answer");
    a->in.tag = a->out.tag = a->blanks.tag = a->origin.tag = MEM_TEXT;
    a->call.word.tag = a->call.name.tag = a->echo.tag = MEM_TEXT;
    a->call.held.tag = MEM_TEXT;
    a->o = *o;
    a->o.tools = o->calls && o->calls->shapes & (MARKUP_XML | MARKUP_BRACES)
                     ? json_incref((json_t *)(uintptr_t)o->tools)
                     : NULL;
    if (o->tok)
        find_special_marks(a);
    if (has_channels(o))
        rc = channels_read_prompt(a, e);
    else
        parser_begin(a);
    a->o.prompt = a->o.continued = NULL;
    a->o.tok = NULL;
    if (rc)
        parser_close(a);
    else
        *out = a;
    return rc;
}

void parser_close(struct parser *a)
{
    if (!a)
        return;
    buf_fini(&a->in);
    buf_fini(&a->origin);
    buf_fini(&a->out);
    buf_fini(&a->blanks);
    buf_fini(&a->call.word);
    buf_fini(&a->call.name);
    buf_fini(&a->call.held);
    buf_fini(&a->echo);
    json_decref((json_t *)(uintptr_t)a->o.tools);
    mem_free(a->slot);
    mem_free(a);
}
