/* reasoning.c - follows the marks of reasoning in the text of an answer, and counts the tokens between them. */
#include "engine/sampling/reasoning.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { PROMPT_END = 32 /* tokens of a prompt that are searched for a mark at its end */ };

/* Returns whether the prompt ends with the mark TEXT. White space before and after the mark is ignored. */
static bool prompt_ends_with(const struct tok *tok, const int32_t *ids, size_t n, const char *text)
{
    struct buf end = {.tag = MEM_ENGINE};
    size_t length = strlen(text), skip = n > PROMPT_END ? n - PROMPT_END : 0;
    bool found;

    tok_decode(tok, ids + skip, n - skip, false, &end, NULL);
    while (end.len && utf8_is_blank(end.data[end.len - 1]))
        end.len--;
    while (length && utf8_is_blank(text[length - 1]))
        length--;
    found = length && end.len >= length && memcmp(end.data + end.len - length, text, length) == 0;
    buf_fini(&end);
    return found;
}

/* Copies the tokens of the closing mark. */
static int read_forced(struct reasoning *r, struct arena *a, struct err *e)
{
    struct tok_ids ids = {0};
    int32_t *copy = NULL;
    int rc = tok_encode(r->tok, r->close.text, strlen(r->close.text), 0, &ids, e);

    if (rc == 0 && ids.n == 0)
        rc = err_about(e, ERR_UNSUPPORTED, "reasoning_close", "the tokenizer makes no token of %s",
                       r->close.text);
    if (rc == 0 && !(copy = arena_alloc(a, ids.n * sizeof(*copy))))
        rc = err_nomem(e, "a request");
    if (rc == 0)
        memcpy(copy, ids.id, ids.n * sizeof(*copy));
    r->forced = copy;
    r->n_forced = ids.n;
    tok_ids_fini(&ids);
    return rc;
}

/* Copies the mark FROM, which may be NULL, to *TO. */
static int copy_mark(struct reasoning_mark *to, const char *from, const struct tok *tok, const char *subject,
                     struct arena *a, struct err *e)
{
    if (!from)
        return 0;
    if (!*from || strlen(from) > REASONING_MAX_MARK)
        return err_about(e, ERR_INPUT, subject, "expected marks of 1 to %d bytes", REASONING_MAX_MARK);
    to->n_special = tok_special_prefix(tok, from);
    to->text = arena_strndup(a, from, strlen(from));
    return to->text ? 0 : err_nomem(e, "a request");
}

int reasoning_init(struct reasoning *r, const struct reasoning_request *q, const int32_t *ids, size_t n,
                   const struct tok *tok, struct arena *a, struct err *e)
{
    int rc;

    *r = (struct reasoning){.budget = q->budget};
    if (!q->is_limited)
        return 0;
    if (!tok || !q->open || !q->close)
        return err_about(e, ERR_UNSUPPORTED, "thinking_token_budget", "%s",
                         tok ? "no marks of this model's reasoning are known"
                             : "this model has no tokenizer");
    if ((rc = copy_mark(&r->open, q->open, tok, "reasoning_open", a, e)) != 0 ||
        (rc = copy_mark(&r->close, q->close, tok, "reasoning_close", a, e)) != 0 ||
        (rc = copy_mark(&r->call_close, q->call_close, tok, "tool_call_close", a, e)) != 0)
        return rc;
    for (size_t i = 0; i < REASONING_CALLS; i++)
        if ((rc = copy_mark(&r->call[i], q->call[i], tok, "tool_call_open", a, e)) != 0)
            return rc;
    r->tok = tok;
    r->begins_inside = q->begun || prompt_ends_with(tok, ids, n, q->open);
    return read_forced(r, a, e);
}

int reasoning_run_open(struct reasoning_run *s, const struct reasoning *r)
{
    *s = (struct reasoning_run){
        .text = {.tag = MEM_ENGINE}, .special = {.tag = MEM_ENGINE}, .held = {.tag = MEM_ENGINE}};
    if (!r->tok)
        return 0;
    s->r = r;
    s->is_inside = r->begins_inside;
    return buf_reserve(&s->text, REASONING_MAX_MARK) && buf_reserve(&s->held, 2 * CALL_HEAD_MOST) &&
                   buf_reserve(&s->special, 2 * CALL_HEAD_MOST)
               ? tok_stream_new(&s->stream, r->tok, false, NULL)
               : ERR_NOMEM;
}

void reasoning_run_close(struct reasoning_run *s)
{
    tok_stream_free(s->stream);
    buf_fini(&s->text);
    buf_fini(&s->special);
    buf_fini(&s->held);
    *s = (struct reasoning_run){0};
}

int32_t reasoning_run_forced(const struct reasoning_run *s)
{
    if (!s->r || !s->is_inside || (s->n_spent < s->r->budget && !s->n_forced) ||
        (s->place == REASONING_AT_CALL && s->n_spent - s->r->budget < CALL_HEAD_MOST))
        return -1;
    return s->r->forced[s->n_forced];
}

size_t reasoning_run_free(const struct reasoning_run *s)
{
    if (!s->r || s->place == REASONING_CONTENT)
        return SIZE_MAX;
    return s->n_spent < s->r->budget && !s->n_forced ? s->r->budget - s->n_spent - 1 : 0;
}

/* Advances a Knuth-Morris-Pratt search: the text ends with the first N bytes of MARK, and the byte C is
 * appended, which a special token wrote if IS_SPECIAL. Returns how many first bytes of MARK the text then ends
 * with. */
static size_t match(const struct reasoning_mark *mark, size_t n, char c, bool is_special)
{
    const char *text = mark->text;

    while (text[n] != c || (n < mark->n_special && !is_special)) {
        size_t k = n;

        if (n == 0)
            return 0;
        do /* try the next shorter beginning of the mark that the text ends with */
            k--;
        while (memcmp(text, text + n - k, k) != 0);
        n = k;
    }
    return n + 1;
}

static void go_to(struct reasoning_run *s, enum reasoning_place place, bool is_inside)
{
    if (place == REASONING_AT_CALL)
        s->n_before_call = s->n_spent;
    if (place == REASONING_IN_CALL)
        s->n_spent = s->n_before_call;
    s->place = place;
    s->is_inside = is_inside;
    memset(s->matched, 0, sizeof(s->matched));
    s->n_begun = 0;
    s->head = (struct call_head){.takes_name = !s->r->call_close.text};
}

/* Searches C for the marks that may follow here: the one that opens or closes reasoning, and those of tool calls. */
static void search_marks(struct reasoning_run *s, char c, bool is_special)
{
    const struct reasoning_mark *const marks[1 + REASONING_CALLS] = {
        s->is_inside ? &s->r->close : &s->r->open, &s->r->call[0], &s->r->call[1]};
    bool may_match = false;

    if (!s->is_inside && s->n_begun == 0 && utf8_is_blank(c))
        return;
    s->n_begun++;
    for (size_t i = 0; i < 1 + REASONING_CALLS; i++) {
        if (!marks[i]->text)
            continue;
        s->matched[i] = match(marks[i], s->matched[i], c, is_special);
        may_match |= s->matched[i] == s->n_begun;
        if (!marks[i]->text[s->matched[i]]) {
            if (i == 0)
                go_to(s, REASONING_AT_MARK, !s->is_inside);
            else
                go_to(s, REASONING_AT_CALL, s->is_inside);
            return;
        }
    }
    if (!s->is_inside && !may_match)
        go_to(s, REASONING_CONTENT, false);
}

/* Reads C, a byte after the mark of tool calls. */
static void read_call(struct reasoning_run *s, char c)
{
    switch (call_head_add(&s->head, c)) {
    case CALL_HEAD_OPEN: break;
    case CALL_HEAD_CALL: go_to(s, REASONING_IN_CALL, false); break;
    case CALL_HEAD_MENTION:
        go_to(s, s->is_inside ? REASONING_AT_MARK : REASONING_CONTENT, s->is_inside);
        s->at = 0; /* the bytes may have marks */
        break;
    }
}

/* Drops the bytes that were read, which are no part of what may be a tool call. */
static void drop_read(struct reasoning_run *s)
{
    s->held.len -= s->at;
    s->special.len -= s->at;
    memmove(s->held.data, s->held.data + s->at, s->held.len);
    memmove(s->special.data, s->special.data + s->at, s->special.len);
    s->at = 0;
}

static void read_byte(struct reasoning_run *s, char c, bool is_special)
{
    const struct reasoning_mark *close = &s->r->call_close;

    switch (s->place) {
    case REASONING_AT_MARK:
        search_marks(s, c, is_special);
        if (s->place == REASONING_AT_CALL)
            drop_read(s);
        break;
    case REASONING_AT_CALL: read_call(s, c); break;
    case REASONING_IN_CALL:
        if (close->text && !close->text[s->matched[0] = match(close, s->matched[0], c, is_special)])
            go_to(s, REASONING_AT_MARK, false);
        break;
    case REASONING_CONTENT: break;
    }
}

int reasoning_run_add(struct reasoning_run *s, int32_t id, struct err *e)
{
    bool was_forced = s->r && reasoning_run_forced(s) == id, was_inside = s->is_inside;
    size_t n_special;
    int rc;

    if (!s->r)
        return 0;
    buf_clear(&s->text);
    if ((rc = tok_stream_put(s->stream, id, &s->text, e)) != 0)
        return rc;
    n_special = tok_stream_n_special(s->stream);
    for (size_t i = 0; i < s->text.len; i++) {
        buf_char(&s->held, s->text.data[i]);
        buf_char(&s->special, i + n_special >= s->text.len);
        while (s->at < s->held.len) {
            size_t at = s->at++;

            read_byte(s, s->held.data[at], s->special.data[at]);
        }
        if (s->place != REASONING_AT_CALL)
            drop_read(s);
    }
    s->n_spent += was_inside && s->is_inside && !was_forced;
    s->n_forced = was_forced ? s->n_forced + 1 : 0;
    if (s->n_forced == s->r->n_forced && s->is_inside) /* the text of all forced tokens is not the mark */
        go_to(s, REASONING_AT_MARK, false);
    if (!s->is_inside)
        s->n_forced = 0;
    return 0;
}
