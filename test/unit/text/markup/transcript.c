/* transcript.c - answers as text. */
#include "transcript.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"

static void label(struct transcript *t, enum parser_kind kind, const char *name)
{
    if (!t->begun || t->last != kind)
        buf_str(&t->text, name);
    t->begun = true;
    t->last = kind;
}

void transcript_take(struct transcript *t, struct parser *a)
{
    struct parser_piece p;

    while (parser_take(a, &p)) {
        bool in_call = t->begun && (t->last == PARSER_CALL || t->last == PARSER_ARGUMENTS);

        ASSERT(in_call == (p.kind == PARSER_ARGUMENTS || p.kind == PARSER_CALL_END), "piece %d after %d",
               p.kind, t->last);
        ASSERT(p.len > 0 || p.kind == PARSER_CALL_END);
        switch (p.kind) {
        case PARSER_CONTENT: label(t, p.kind, "[content]"); break;
        case PARSER_REASONING: label(t, p.kind, "[reasoning]"); break;
        case PARSER_CALL:
            ASSERT(p.call == t->n_calls && p.id[0]);
            buf_fmt(&t->text, "[call %.*s]", (int)p.len, p.text);
            t->n_calls++;
            label(t, p.kind, "");
            continue;
        case PARSER_ARGUMENTS: label(t, p.kind, ""); break;
        case PARSER_CALL_END: label(t, p.kind, p.complete ? "[end]" : "[cut]"); break;
        }
        ASSERT(p.kind < PARSER_CALL || p.call == t->n_calls - 1);
        buf_add(&t->text, p.text, p.len);
    }
}

char *transcript_of(const struct parser_options *o, const char *text, size_t n,
                    bool (*cut)(const void *ctx, size_t at), const void *ctx, bool cut_short)
{
    struct transcript t = {0};
    struct parser *a = NULL;
    size_t from = 0;
    int rc = parser_open(&a, o, NULL);

    buf_init(&t.text, MEM_API);
    buf_str(&t.text, "");
    for (size_t at = 1; rc == 0 && at <= n; at++) {
        if (at < n && !cut(ctx, at))
            continue;
        rc = parser_feed(a, text + from, NULL, at - from, NULL);
        if (rc == 0)
            transcript_take(&t, a);
        from = at;
    }
    if (rc == 0)
        rc = parser_finish(a, cut_short ? PARSER_CUT : PARSER_ENDED, NULL);
    if (rc == 0)
        transcript_take(&t, a);
    parser_close(a);
    buf_char(&t.text, 0);
    if (rc == 0 && !t.text.oom)
        return t.text.data;
    buf_fini(&t.text);
    return NULL;
}
