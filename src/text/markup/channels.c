/* channels.c - the state machine of OpenAI's harmony format, whose messages have a header with a channel and
 * a recipient. */
#include <string.h>

#include "base/utf8.h"
#include "text/markup/parser_priv.h"

enum { MAX_HEADER = 1024 };

static const char message_mark[] = "<|message|>", start_mark[] = "<|start|>", channel_mark[] = "<|channel|>",
                  end_mark[] = "<|end|>", call_mark[] = "<|call|>", return_mark[] = "<|return|>",
                  role[] = "assistant";

const char *const channels_marks[] = {message_mark, start_mark,  channel_mark, end_mark,
                                      call_mark,    return_mark, NULL};

/* Returns the mark of MARKS [n] that begins at the next byte, or NULL. *MORE: a mark may begin there, but
 * more text is needed to decide. */
static const char *match_any(const struct parser *a, const char *const *marks, size_t n, bool *more)
{
    size_t len;

    *more = false;
    for (size_t i = 0; i < n; i++) {
        enum parser_found m = parser_match(a, a->at, marks[i], &len);

        if (m == IS_MATCH)
            return marks[i];
        *more |= m == MAY_MATCH;
    }
    return NULL;
}

static void begin_header(struct parser *a)
{
    a->header = a->at;
    a->machine = HEADER;
}

static void begin_body(struct parser *a, enum parser_kind kind)
{
    a->machine = BODY;
    a->mode = kind;
    a->separate = kind == PARSER_CONTENT ? a->content_begun : a->reasoning_begun;
}

/* Finds the word after MARK in the header: <|channel|>NAME or to=RECIPIENT, in either order. HEADER is a copy
 * of it. Returns the length of the word; 0: none. */
static size_t header_word(const struct parser *a, const char *header, const char *mark, const char **word)
{
    const char *at = strstr(header, mark);
    size_t len;

    while (at && parser_match(a, a->header + (size_t)(at - header), mark, &len) != IS_MATCH)
        at = strstr(at + 1, mark);
    *word = at ? at + strlen(mark) : "";
    return strcspn(*word, " \t\r\n<");
}

/* Handles <|message|>, which ends the header before the next byte. A message to a function is a tool call.
 * A message in the channel analysis, or to a built-in tool of the model, is reasoning. Any other message is
 * content. */
static void open_message(struct parser *a)
{
    static const char functions[] = "functions.", analysis[] = "analysis";
    char header[MAX_HEADER + 1];
    size_t n = a->at - a->header, n_channel, n_name;
    const char *channel, *name;
    bool function;

    memcpy(header, a->in.data + a->header, n);
    header[n] = 0;
    n_channel = header_word(a, header, channel_mark, &channel);
    n_name = header_word(a, header, "to=", &name);
    function = n_name > strlen(functions) && memcmp(name, functions, strlen(functions)) == 0;
    if (function) {
        name += strlen(functions);
        n_name -= strlen(functions);
    }
    if (a->o.calls && n_name <= PARSER_MAX_NAME && a->n_calls < PARSER_MAX_CALLS &&
        (function || parser_knows(a, name, n_name))) {
        begin_body(a, PARSER_ARGUMENTS);
        parser_put_call(a, name, n_name);
        a->call.has_args = a->call.args_done = false;
        a->call.nesting = (struct parser_nesting){0};
    } else if ((n_channel == strlen(analysis) && memcmp(channel, analysis, n_channel) == 0) ||
               (n_name && !function)) {
        begin_body(a, PARSER_REASONING);
    } else {
        begin_body(a, PARSER_CONTENT);
    }
}

static void body_byte(struct parser *a, char c)
{
    if (a->mode == PARSER_ARGUMENTS) {
        a->call.has_args |= !utf8_is_blank(c);
        a->call.args_done |= call_nest(&a->call.nesting, c);
    } else if (a->separate) {
        parser_put(a, a->mode, "\n", 1);
        a->separate = false;
    }
    a->content_begun |= a->mode == PARSER_CONTENT;
    a->reasoning_begun |= a->mode == PARSER_REASONING;
    parser_put(a, a->mode, &c, 1);
}

static void close_message(struct parser *a, bool complete)
{
    if (a->mode != PARSER_ARGUMENTS)
        return;
    complete |= a->call.args_done;
    if (complete && !a->call.has_args)
        parser_put(a, PARSER_ARGUMENTS, "{}", 2);
    parser_put_call_end(a, complete);
}

/* Treats the text of an invalid header as content, except for the role at its beginning. */
static void header_is_content(struct parser *a)
{
    size_t at = a->header, n = strlen(role);

    begin_body(a, PARSER_CONTENT);
    a->separate &= !a->in_body;
    if (a->at - at >= n && memcmp(a->in.data + at, role, n) == 0)
        at += n;
    for (; at < a->at; at++)
        body_byte(a, a->in.data[at]);
}

/* Skips MARK, which ends a message. <|channel|> is not skipped, because it belongs to the next header. After <|start|>
 * and <|channel|>, a header begins. */
static void pass(struct parser *a, const char *mark)
{
    a->in_body = a->machine == BODY && a->mode == PARSER_CONTENT && mark == channel_mark;
    if (mark != channel_mark)
        a->at += strlen(mark);
    if (mark == channel_mark || mark == start_mark)
        begin_header(a);
    else
        a->machine = BETWEEN;
}

/* Decides whether the answer begins with a header or with content. Returns false if more text is needed. */
static bool first_step(struct parser *a)
{
    static const char *const headers[] = {channel_mark, message_mark, start_mark, role, " to=", "to="};
    bool more, found = match_any(a, headers, sizeof(headers) / sizeof(headers[0]), &more) != NULL;

    if (!found && more)
        return false;
    a->fresh = false;
    if (!found)
        begin_body(a, PARSER_CONTENT);
    return true;
}

static bool header_step(struct parser *a)
{
    static const char *const marks[] = {message_mark, start_mark, end_mark, call_mark, return_mark};
    const char *mark;
    bool more;

    mark = match_any(a, marks, sizeof(marks) / sizeof(marks[0]), &more);
    if (mark == message_mark) {
        open_message(a);
        a->at += strlen(mark);
    } else if (mark) {
        header_is_content(a);
        pass(a, mark);
    } else if (more) {
        return false;
    } else if (a->at - a->header == MAX_HEADER) {
        header_is_content(a);
    } else {
        a->at++;
    }
    return true;
}

/* Returns whether the mark of LEN bytes at the current position, inside a JSON string of arguments, ends the message:
 * the answer must end or the next message must begin after it. */
static enum parser_found ends_string(const struct parser *a, size_t len)
{
    static const char *const next[] = {start_mark, channel_mark};
    size_t at = a->at + len, n;

    if (at == a->in.len)
        return a->finishing ? IS_MATCH : MAY_MATCH;
    return parser_match_any(a, at, next, 2, &n);
}

static bool body_step(struct parser *a)
{
    static const char *const marks[] = {end_mark, call_mark, return_mark, start_mark, channel_mark};
    const char *mark;
    bool more;

    mark = match_any(a, marks, sizeof(marks) / sizeof(marks[0]), &more);
    if (!mark && more)
        return false;
    if (mark && mark != start_mark && mark != channel_mark && a->machine == BODY &&
        a->mode == PARSER_ARGUMENTS && a->call.nesting.quoted) {
        enum parser_found m = ends_string(a, strlen(mark));

        if (m == MAY_MATCH)
            return false;
        mark = m == IS_MATCH ? mark : NULL;
    }
    if (mark) {
        if (a->machine == BODY)
            close_message(a, true);
        pass(a, mark);
    } else if (a->machine == BODY) {
        body_byte(a, a->in.data[a->at++]);
    } else if (utf8_is_blank(a->in.data[a->at])) {
        a->at++;
    } else {
        begin_body(a, PARSER_CONTENT);
    }
    return true;
}

bool channels_step(struct parser *a)
{
    if (a->machine != HEADER)
        return body_step(a);
    return a->fresh ? first_step(a) : header_step(a);
}

/* Reads the beginning of the last message, which the prompt already contains: a header and perhaps text. */
int channels_read_prompt(struct parser *a, struct err *e)
{
    const char *prompt = a->o.prompt;
    size_t n = strlen(start_mark), at = a->o.prompt_len;
    int rc = 0;

    a->machine = HEADER;
    a->muted = true;
    for (bool found = false; at >= n && !found; at--) {
        found = memcmp(prompt + at - n, start_mark, n) == 0;
        if (found)
            rc = parser_feed(a, prompt + at, NULL, a->o.prompt_len - at, e);
    }
    a->muted = false;
    a->fresh = a->machine == HEADER;
    return rc;
}

void channels_finish(struct parser *a)
{
    size_t len = 0;
    bool calls = false;

    if (a->machine == BODY)
        close_message(a, a->end == PARSER_ENDED);
    if (a->machine != HEADER)
        return;
    for (size_t at = a->header; at < a->in.len && a->end == PARSER_CUT && !calls; at++)
        calls = parser_match(a, at, "to=", &len) == IS_MATCH;
    /* an incomplete header is dropped, but content that mentions a mark, and a call without a complete name,
     * are kept */
    if (a->in_body || calls)
        header_is_content(a);
}
