/* vocabulary.c - compares the strings of tokens, id by id. */
#include "engine/guess/vocabulary.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "text/tok/tok.h"

/* Appends the string of token ID as a JSON string, or "no token". */
static void show(struct buf *out, const struct tok *t, int32_t id)
{
    const char *s;
    size_t n;

    if (tok_piece(t, id, &s, &n))
        buf_json_str(out, s, n);
    else
        buf_str(out, "no token");
    buf_char(out, 0);
}

static int token_refuse(const struct tok *draft, const struct tok *target, int32_t id, struct err *e)
{
    struct buf own = {.tag = MEM_TEXT}, other = {.tag = MEM_TEXT};
    int rc;

    show(&own, draft, id);
    show(&other, target, id);
    rc = own.oom || other.oom
             ? err_nomem(e, "a message")
             : err_set(
                   e, ERR_INPUT,
                   "the draft has another vocabulary than the model: its token %d is %.200s, expected %.200s",
                   (int)id, own.data, other.data);
    buf_fini(&own);
    buf_fini(&other);
    return rc;
}

int vocabulary_same(const struct tok *draft, const struct tok *target, struct err *e)
{
    size_t a = tok_n_ids(draft), b = tok_n_ids(target);

    for (int32_t id = 0; (size_t)id < (a < b ? a : b); id++) {
        const char *s = NULL, *t = NULL;
        size_t n = 0, m = 0;
        bool has = tok_piece(draft, id, &s, &n), other_has = tok_piece(target, id, &t, &m);

        if (tok_is_special(draft, id) || tok_is_special(target, id))
            continue;
        if (has != other_has || n != m || (n && memcmp(s, t, n) != 0))
            return token_refuse(draft, target, id, e);
    }
    return 0;
}
