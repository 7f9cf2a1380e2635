/* embed.c - renders, encodes and cuts texts, and makes embeddings of pooled states. */
#include "engine/embeddings/embed.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "engine/embeddings/embedder.h"
#include "text/markup/conversation.h"
#include "text/markup/template.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

size_t embed_ids(const struct embedder *x, const int32_t **ids, size_t *n)
{
    size_t cut = x->most && *n > x->most ? *n - x->most : 0;

    *ids += x->keeps_end ? cut : 0;
    *n -= cut;
    return cut;
}

/* Cuts IDS to the maximum length; the first N_BEFORE and the last N_BEHIND tokens are kept. Returns the number of
 * tokens that were cut. */
static size_t cut_text(const struct embedder *x, struct tok_ids *ids, size_t n_before, size_t n_behind)
{
    size_t around = n_before + n_behind, keep = x->most > around ? x->most - around : 0, n = ids->n - around,
           cut;

    if (x->most == 0 || n <= keep)
        return 0;
    cut = n - keep;
    if (x->keeps_end)
        memmove(ids->id + n_before, ids->id + n_before + cut, (keep + n_behind) * sizeof(*ids->id));
    else
        memmove(ids->id + n_before + keep, ids->id + n_before + n, n_behind * sizeof(*ids->id));
    ids->n -= cut;
    return cut;
}

/* Appends a message of ROLE with TEXT [n] to the list MESSAGES. */
static bool add_message(const struct embedder *x, json_t *messages, const char *role, const char *text,
                        size_t n)
{
    json_t *message = x->has_parts ? json_pack("{s:s,s:[{s:s,s:s%}]}", "role", role, "content", "type",
                                               "text", "text", text, n)
                                   : json_pack("{s:s,s:s%}", "role", role, "content", text, n);

    return json_array_append_new(messages, message) == 0;
}

/* Renders TEXT [n] as a message of the user and appends the tokens to IDS. */
static int encode_message(const struct embedder *x, const struct tok *tok, const char *text, size_t n,
                          struct tok_ids *ids, struct err *e)
{
    const struct template template = {.chat = x->chat};
    const struct conversation c = {
        .template = &template, .variables = x->variables, .messages = json_array(), .verbatim = true};
    struct buf out = {.tag = MEM_ENGINE};
    int rc = 0;

    if ((x->prompt && !add_message(x, c.messages, "system", json_string_value(x->prompt),
                                   json_string_length(x->prompt))) ||
        !add_message(x, c.messages, "user", text, n))
        rc = err_nomem(e, "a text");
    if (rc == 0 && (rc = conversation_render(&c, &out, e)) == 0)
        rc = tok_encode(tok, out.data ? out.data : "", out.len, 0, ids, e);
    json_decref(c.messages);
    buf_fini(&out);
    return rc;
}

/* Encodes a short message into BEHIND, and sets *N_BEHIND to the number of tokens at its end that the template writes
 * after a message: the longest common end of the tokens of two short messages. 0 if the messages do not differ. */
static int find_behind(const struct embedder *x, const struct tok *tok, struct tok_ids *behind,
                       size_t *n_behind, struct err *e)
{
    struct tok_ids other = {0};
    size_t n = 0;
    int rc = encode_message(x, tok, "0", 1, behind, e);

    if (rc == 0)
        rc = encode_message(x, tok, "1 2 3 4", 7, &other, e);
    while (rc == 0 && n < behind->n && n < other.n &&
           behind->id[behind->n - 1 - n] == other.id[other.n - 1 - n])
        n++;
    *n_behind = rc == 0 && n < behind->n && n < other.n ? n : 0;
    tok_ids_fini(&other);
    return rc;
}

/* Cuts the tokens IDS of a message. As in sentence-transformers, the tokens that the template writes after a message
 * then replace the last kept tokens. */
static int cut_message(const struct embedder *x, const struct tok *tok, struct tok_ids *ids, size_t *n_cut,
                       struct err *e)
{
    struct tok_ids behind = {0};
    size_t n;
    int rc = 0;

    *n_cut = cut_text(x, ids, 0, 0);
    if (*n_cut && !x->drops_behind && (rc = find_behind(x, tok, &behind, &n, e)) == 0) {
        n = n < ids->n ? n : ids->n;
        if (n)
            memcpy(ids->id + ids->n - n, behind.id + behind.n - n, n * sizeof(*ids->id));
    }
    tok_ids_fini(&behind);
    return rc;
}

int embed_text(const struct embedder *x, const struct tok *tok, const char *text, size_t n, bool special,
               struct tok_ids *ids, size_t *n_cut, struct err *e)
{
    struct buf whole = {.tag = MEM_ENGINE};
    size_t n_before = 0, n_behind = 0;
    int rc;

    *n_cut = 0;
    if (x->is_message) {
        if ((rc = err_utf8(e, NULL, text, n)) == 0 && (rc = encode_message(x, tok, text, n, ids, e)) == 0)
            rc = cut_message(x, tok, ids, n_cut, e);
        return rc;
    }
    if (x->prompt) {
        buf_add(&whole, json_string_value(x->prompt), json_string_length(x->prompt));
        buf_add(&whole, text, n);
        text = whole.data;
        n = whole.len;
    }
    rc = whole.oom ? err_nomem(e, "a text") : tok_encode(tok, text, n, special ? TOK_ADD_SPECIAL : 0, ids, e);
    buf_fini(&whole);
    if (rc)
        return rc;
    if (special)
        tok_n_around(tok, &n_before, &n_behind);
    *n_cut = cut_text(x, ids, n_before, n_behind);
    return 0;
}

size_t embed_size(const struct embedder *x, size_t n)
{
    size_t all = x ? dense_features(&x->dense, n) : n;

    return x && x->dimensions && x->dimensions < all ? x->dimensions : all;
}

float *embed_vector(const struct embedder *x, const float *state, size_t n, bool normalize)
{
    const struct dense none = {.n = 0};
    float *v = dense_apply(x ? &x->dense : &none, state, n);
    double sum = 0, scale;

    if (!v || !normalize)
        return v;
    n = embed_size(x, n);
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] * scale);
    return v;
}
