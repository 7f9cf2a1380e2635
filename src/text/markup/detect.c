/* detect.c - renders test conversations and parses them with each row. */
#include "text/markup/detect.h"

#include <string.h>

#include "base/json/json_pull.h"
#include "base/utf8.h"
#include "text/markup/message.h"
#include "text/markup/probe.h"
#include "text/markup/tools.h"

static const char answer_text[] = "probe_answer", reason_text[] = "probe_reason",
                  result_text[] = "probe_result";
static const char *const arguments[] = {"{\"probe_key\": \"Some text\", \"probe_count\": 3}",
                                        "{\"probe_key\": \"More\", \"probe_count\": 4}"};

enum { N_CALLS = 2, NO_MATCH = -1 };

/* The test conversations of one template. */
struct detector {
    struct probe p;
    const struct tools_style *style;
    json_t *tools;
    struct buf plain; /* the rendered conversation with ANSWER_TEXT */
};

/* ---- conversations ---- */

static json_t *tool(void)
{
    json_t *t = probe_tool(),
           *properties =
               json_object_get(json_object_get(json_object_get(t, "function"), "parameters"), "properties");

    json_object_set_new(properties, "probe_count",
                        json_pack("{s:s,s:s}", "type", "integer", "description", "d"));
    return t;
}

/* Returns the tool calls number 0 to N - 1. IS_NUMBERED: their ids are "functions.NAME:I", which some
 * templates write in the place of the name. */
static json_t *tool_calls(size_t n, bool is_numbered)
{
    static const char *const ids[][N_CALLS] = {{"abcdefgh1", "abcdefgh2"},
                                               {"functions." PROBE_NAME ":0", "functions." PROBE_NAME ":1"}};
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", ids[is_numbered][i], "type",
                                              "function", "function", "name", PROBE_NAME, "arguments",
                                              arguments[i]));
    return list;
}

/* Renders a question and the message ANSWER, which is released, and with HAS_RESULTS the results of its
 * calls. */
static bool render(struct detector *d, json_t *answer, bool has_results)
{
    json_t *list = json_pack("[{s:s,s:s},o]", "role", "user", "content", "u", answer), *call, *given;
    size_t i;
    int rc;

    json_array_foreach(list ? json_object_get(answer, "tool_calls") : NULL, i, call)
    {
        if (has_results)
            json_array_append_new(list, json_pack("{s:s,s:O,s:s,s:s}", "role", "tool", "tool_call_id",
                                                  json_object_get(call, "id"), "name", PROBE_NAME, "content",
                                                  result_text));
    }
    rc = list ? tools_fit(d->style, list, NULL, d->p.e) : ERR_NOMEM;
    given = json_pack("{s:o,s:O}", "messages", list, "tools", d->tools);
    if (rc) {
        d->p.rc = rc == ERR_NOMEM ? rc : d->p.rc;
        json_decref(given);
        return false;
    }
    return probe_render(&d->p, given);
}

/* ---- the text of an answer ---- */

/* Returns the offset of the last occurrence of WHAT in B; B->len: there is none. */
static size_t last_of(const struct buf *b, const char *what)
{
    size_t n = strlen(what);

    for (size_t at = b->len >= n ? b->len - n + 1 : 0; at-- > 0;)
        if (memcmp(b->data + at, what, n) == 0)
            return at;
    return b->len;
}

/* Returns the offset at which the answer begins in the latest rendering. This is the end of the prefix that
 * the rendering shares with `plain`, moved back to the end of a mark, a blank or a line end. */
static size_t begin_of(const struct detector *d)
{
    const struct buf *a = &d->plain, *b = &d->p.out;
    size_t n = 0;

    while (n < a->len && n < b->len && a->data[n] == b->data[n])
        n++;
    while (n && !strchr(">]) \n", b->data[n - 1]))
        n--;
    return n;
}

/* Returns the offset at which the answer, which begins at FROM, ends in the latest rendering: before the
 * first tool result, or before the suffix that the rendering shares with `plain`. */
static size_t end_of(const struct detector *d, size_t from)
{
    const struct buf *a = &d->plain, *b = &d->p.out;
    size_t tail = a->len - last_of(a, answer_text), n = 0, end = b->len, result;

    tail -= tail < strlen(answer_text) ? tail : strlen(answer_text);
    while (n < tail && end - n > from && a->data[a->len - n - 1] == b->data[end - n - 1])
        n++;
    result = last_of(b, result_text);
    for (size_t at = result; at < end && at > from; at--) /* the first result */
        if (b->len - at >= strlen(result_text) && memcmp(b->data + at, result_text, strlen(result_text)) == 0)
            result = at;
    return result < end - n ? result : end - n;
}

/* ---- reading back ---- */

/* Returns whether C are the first N calls that were rendered. */
static bool are_meant(const struct message_calls *c, size_t n)
{
    bool same = c->n == n;

    for (size_t i = 0; i < n && same; i++) {
        const struct message_call *v = &c->v[i];
        json_t *found = NULL, *meant = NULL;
        struct err e;

        same = v->n_name == strlen(PROBE_NAME) && strcmp(message_call_name(c, v), PROBE_NAME) == 0 &&
               json_pull_load_exact(&found, message_call_arguments(c, v), v->n_arguments, "", &e) == 0 &&
               json_pull_load_exact(&meant, arguments[i], strlen(arguments[i]), "", &e) == 0 &&
               json_equal(found, meant);
        json_decref(found);
        json_decref(meant);
    }
    return same;
}

/* Returns the number of bytes in B that are not white space. */
static int n_text(const struct buf *b)
{
    int n = 0;

    for (size_t i = 0; i < b->len; i++)
        n += !utf8_is_blank(b->data[i]);
    return n;
}

static bool is_text(const struct buf *b, const char *text)
{
    return n_text(b) == (int)strlen(text) && last_of(b, text) < b->len;
}

/* Parses the answer in the latest rendering with the given rows. NO_MATCH: the parser does not return its N_MEANT
 * calls or, if N_MEANT is 0, its reasoning. Otherwise returns the number of bytes of content that are not part of
 * the test conversation: marks that the rows do not know. */
static int surprises(struct detector *d, const struct markup_calls *calls,
                     const struct markup_reasoning *reasoning, size_t n_meant)
{
    static const char *const names[] = {PROBE_NAME};
    size_t from = begin_of(d), end = end_of(d, from);
    const struct parser_options o = {.calls = calls,
                                     .reasoning = reasoning,
                                     .prompt = d->p.out.data,
                                     .prompt_len = from,
                                     .names = names,
                                     .n_names = 1,
                                     .tools = d->tools};
    struct parser *a = NULL;
    struct message m;
    int rc = parser_open(&a, &o, d->p.e), n;

    message_init(&m, MEM_TEXT);
    rc = rc ? rc : parser_feed(a, d->p.out.data + from, NULL, end - from, d->p.e);
    rc = rc ? rc : parser_finish(a, PARSER_ENDED, d->p.e);
    if (rc == 0 && message_take(&m, a, false) != 0)
        rc = err_nomem(d->p.e, "a chat template");
    d->p.rc = rc ? rc : d->p.rc;
    n = n_text(&m.text);
    if (n_meant ? !are_meant(&m.calls, n_meant) : !is_text(&m.reasoning, reason_text))
        n = NO_MATCH;
    else if (!n_meant)
        n = last_of(&m.text, answer_text) < m.text.len ? n - (int)strlen(answer_text) : NO_MATCH;
    parser_close(a);
    message_fini(&m);
    return rc ? NO_MATCH : n;
}

/* ---- choosing ---- */

/* Returns the row with which the parser finds the N calls of the latest rendering and leaves the least markup
 * in the content; NULL: there is none. */
static const struct markup_calls *calls_read(struct detector *d, size_t n)
{
    const struct markup_calls *best = NULL, *row;
    int least = 0;

    for (size_t i = 0; (row = markup_calls_row(i)) != NULL && d->p.rc == 0; i++) {
        int found = surprises(d, row, NULL, n);

        if (found != NO_MATCH && (!best || found < least)) {
            best = row;
            least = found;
        }
    }
    return best;
}

/* Returns whether the answer in the latest rendering has the first mark of ROW. */
static bool writes_marks(const struct detector *d, const struct markup_calls *row)
{
    const char *mark = row->open[0] ? row->open[0] : row->call[0];
    size_t from = begin_of(d), end = end_of(d, from);

    return mark && end - from >= strlen(mark) && memmem(d->p.out.data + from, end - from, mark, strlen(mark));
}

/* Sets the row of tool calls of OUT. Some templates render tool calls only in messages of a certain kind, so
 * variants of the test conversation are tried until the calls of one can be parsed. */
static void detect_calls(struct detector *d, const char *source, struct markup *out)
{
    static const struct {
        size_t n;
        bool is_numbered, has_results;
        /* IS_NULL: the content is null. IS_OTHER: arguments are JSON text where the style has objects, and
         * vice versa */
        bool is_null, is_other;
    } ways[] = {{.n = 2},
                {.n = 2, .is_null = true},
                {.n = 2, .is_numbered = true},
                {.n = 2, .has_results = true},
                {.n = 2, .is_null = true, .is_other = true},
                {.n = 1},
                {.n = 1, .has_results = true},
                {.n = 1, .is_null = true, .is_other = true}};
    struct tools_style other = *d->style;
    const struct tools_style *own = d->style;
    const struct markup_calls *shown = markup_calls_shown(source);

    other.text_arguments = !own->text_arguments;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && !out->calls && d->p.rc == 0; i++) {
        json_t *content = ways[i].is_null ? json_null() : json_string(""),
               *answer = json_pack("{s:s,s:o,s:o}", "role", "assistant", "content", content, "tool_calls",
                                   tool_calls(ways[i].n, ways[i].is_numbered));

        d->style = ways[i].is_other ? &other : own;
        if (!render(d, answer, ways[i].has_results) || !probe_shows(&d->p, "Some text"))
            continue;
        out->calls = calls_read(d, ways[i].n);
        if (!out->calls && shown && writes_marks(d, shown))
            shown = NULL; /* the template writes the marks, but something else between them */
    }
    d->style = own;
    out->calls_origin = out->calls ? MARKUP_RENDERED : MARKUP_NO_ORIGIN;
    if (!out->calls && (out->calls = shown) != NULL)
        out->calls_origin = MARKUP_SHOWN;
}

/* Sets the row of reasoning of OUT. */
static void detect_reasoning(struct detector *d, const char *source, struct markup *out)
{
    const struct markup_reasoning *shown = markup_reasoning_shown(source), *row;
    int least = 0;

    if (render(d,
               json_pack("{s:s,s:s,s:s,s:s,s:s}", "role", "assistant", "reasoning_content", reason_text,
                         "reasoning", reason_text, "thinking", reason_text, "content", answer_text),
               false) &&
        probe_shows(&d->p, reason_text))
        for (size_t i = 0; (row = markup_reasoning_row(i)) != NULL && d->p.rc == 0; i++) {
            /* earlier answers do not show whether a new answer begins inside reasoning (IMPLIED): such a row
             * is tried only if the template's source has its marks */
            int found =
                row->implied && !row->text_open[0] && row != shown ? NO_MATCH : surprises(d, NULL, row, 0);

            if (found != NO_MATCH && (!out->reasoning || found < least)) {
                out->reasoning = row;
                least = found;
            }
        }
    out->reasoning_origin = out->reasoning ? MARKUP_RENDERED : MARKUP_NO_ORIGIN;
    if (!out->reasoning && (out->reasoning = shown) != NULL)
        out->reasoning_origin = MARKUP_SHOWN;
}

int markup_detect(const struct chat *chat, const struct jinja *template, const char *source,
                  const struct tools_style *style, struct markup *out, struct err *e)
{
    struct detector d = {.p = {.chat = chat, .template = template, .out = {.tag = MEM_TEXT}, .e = e},
                         .style = style,
                         .plain = {.tag = MEM_TEXT}};

    *out = (struct markup){.calls = NULL};
    if (!source)
        return 0;
    d.tools = json_pack("[o]", tool());
    if (render(&d, json_pack("{s:s,s:s}", "role", "assistant", "content", answer_text), false))
        buf_add(&d.plain, d.p.out.data, d.p.out.len);
    if (!d.tools || d.plain.oom)
        d.p.rc = err_nomem(e, "a chat template");
    if (d.p.rc == 0)
        detect_calls(&d, source, out);
    if (d.p.rc == 0)
        detect_reasoning(&d, source, out);
    json_decref(d.tools);
    buf_fini(&d.p.out);
    buf_fini(&d.plain);
    return d.p.rc;
}
