/* token_trie.c - decodes every token to find its text, and builds the trie from the sorted texts. */
#include "text/grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tok/tok.h"

/* ---- the trie of given texts ---- */

struct entry {
    const char *text;
    size_t n;
    int32_t token;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->text, y->text, n) : 0;

    if (order == 0)
        order = (x->n > y->n) - (x->n < y->n);
    return order ? order : (x->token > y->token) - (x->token < y->token);
}

static size_t common_prefix(const struct entry *x, const struct entry *y)
{
    size_t n = 0;

    while (n < x->n && n < y->n && x->text[n] == y->text[n])
        n++;
    return n;
}

/* Builds the nodes for the sorted ENTRIES. PATH [depth] is scratch: the nodes from the root down. */
static void trie_lay_out(struct token_trie *t, const struct entry *entries, size_t n, uint32_t *path)
{
    size_t depth = 0;

    for (size_t i = 0; i < n; i++) {
        const struct entry *x = &entries[i];
        size_t shared = i == 0 ? 0 : common_prefix(x - 1, x);
        uint32_t last;

        for (; depth > shared; depth--)
            t->node[path[depth - 1]].skip = (uint32_t)(t->n - path[depth - 1]);
        for (; depth < x->n; depth++) {
            t->node[t->n] = (struct token_trie_node){.token = -1,
                                                     .depth = (uint16_t)depth,
                                                     .parent = depth ? path[depth - 1] : UINT32_MAX,
                                                     .byte = (uint8_t)x->text[depth]};
            path[depth] = (uint32_t)t->n++;
        }
        last = path[depth - 1];
        t->ending[x->token] = last;
        if (t->node[last].token < 0) {
            t->node[last].token = x->token;
        } else { /* the previous entry has the same text */
            t->same[(x - 1)->token] = x->token;
            t->node[last].has_more = true;
        }
    }
    for (; depth > 0; depth--)
        t->node[path[depth - 1]].skip = (uint32_t)(t->n - path[depth - 1]);
}

int token_trie_make(struct token_trie *t, const char *const *text, const size_t *len, size_t n, struct err *e)
{
    struct entry *entries = mem_zalloc(n, sizeof(*entries), MEM_TEXT);
    uint32_t *path = NULL;
    size_t n_entries = 0, n_nodes = 0;
    bool is_complete = false;

    *t = (struct token_trie){.n_vocab = n};
    t->same = mem_alloc((n + 1) * sizeof(*t->same), MEM_TEXT);
    t->ending = mem_alloc((n + 1) * sizeof(*t->ending), MEM_TEXT);
    if (!entries || !t->same || !t->ending)
        goto out;
    for (size_t i = 0; i < n; i++) {
        t->same[i] = -1;
        t->ending[i] = UINT32_MAX;
        if (len[i] == 0 || len[i] > TOKEN_TRIE_LONGEST)
            continue;
        entries[n_entries++] = (struct entry){text[i], len[i], (int32_t)i};
        t->depth = len[i] > t->depth ? len[i] : t->depth;
    }
    if (n_entries)
        qsort(entries, n_entries, sizeof(*entries), compare_entries);
    for (size_t i = 0; i < n_entries; i++)
        n_nodes += entries[i].n - (i ? common_prefix(&entries[i - 1], &entries[i]) : 0);
    t->node = mem_zalloc(n_nodes + 1, sizeof(*t->node), MEM_TEXT);
    path = mem_alloc((t->depth + 1) * sizeof(*path), MEM_TEXT);
    is_complete = t->node && path;
    if (is_complete)
        trie_lay_out(t, entries, n_entries, path);
out:
    mem_free(entries);
    mem_free(path);
    if (is_complete)
        return 0;
    token_trie_close(t);
    return err_nomem(e, "the trie of the vocabulary");
}

void token_trie_close(struct token_trie *t)
{
    mem_free(t->node);
    mem_free(t->same);
    mem_free(t->ending);
    *t = (struct token_trie){0};
}

size_t token_trie_text(const struct token_trie *t, int32_t token, uint8_t *out)
{
    uint32_t at = token >= 0 && (size_t)token < t->n_vocab ? t->ending[token] : UINT32_MAX;
    size_t n = 0;

    for (; at != UINT32_MAX; at = t->node[at].parent)
        out[n++] = t->node[at].byte;
    for (size_t i = 0; i < n / 2; i++) {
        uint8_t swapped = out[i];

        out[i] = out[n - 1 - i];
        out[n - 1 - i] = swapped;
    }
    return n;
}

/* Returns the child of node AT (UINT32_MAX: the root) for BYTE. UINT32_MAX: there is no such child. */
static uint32_t find_child(const struct token_trie *t, uint32_t at, uint8_t byte)
{
    size_t i = at == UINT32_MAX ? 0 : at + 1, end = at == UINT32_MAX ? t->n : at + t->node[at].skip;

    for (; i < end; i += t->node[i].skip)
        if (t->node[i].byte == byte)
            return (uint32_t)i;
    return UINT32_MAX;
}

size_t token_trie_control(const struct token_trie *t, const char *text)
{
    uint32_t at = find_child(t, UINT32_MAX, TOKEN_TRIE_CONTROL), end;
    size_t found = 0;

    for (size_t n = 0; at != UINT32_MAX; at = find_child(t, at, (uint8_t)text[n++])) {
        end = n > 0 ? find_child(t, at, TOKEN_TRIE_CONTROL) : UINT32_MAX;
        if (end != UINT32_MAX && t->node[end].token >= 0)
            found = n;
        if (!text[n])
            break;
    }
    return found;
}

/* ---- the texts of a tokenizer's tokens ---- */

/* The state of finding the texts of tokens. */
struct reader {
    const struct tok *tok;
    struct tok_stream *stream;
    int32_t neutral;  /* token of letters, decoded before tokens that are not the answer's first; -1: none */
    size_t n_neutral; /* bytes of the text of the token NEUTRAL */
    bool first;
    struct buf text, bytes;
    struct err *e;
};

/* Decodes the tokens ID [n], as a whole sequence, into r->text. */
static int decode(struct reader *r, const int32_t *id, size_t n)
{
    int rc = 0;

    buf_clear(&r->text);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = tok_stream_put(r->stream, id[i], &r->text, r->e);
    return rc ? rc : tok_stream_end(r->stream, &r->text, r->e);
}

static int find_neutral(struct reader *r, size_t n_vocab)
{
    int rc = 0;

    r->neutral = -1;
    if (tok_id_of(r->tok, "a", 1, &r->neutral)) {
        rc = decode(r, &r->neutral, 1);
        r->n_neutral = r->text.len;
        return rc;
    }
    for (size_t i = 0; i < n_vocab && r->neutral < 0 && rc == 0; i++) {
        int32_t id = (int32_t)i;

        if (tok_is_special(r->tok, id))
            continue;
        rc = decode(r, &id, 1);
        if (r->text.len == 1 && (r->text.data[0] | 0x20) >= 'a' && (r->text.data[0] | 0x20) <= 'z') {
            r->neutral = id;
            r->n_neutral = 1;
        }
    }
    return rc;
}

/* True if valid UTF-8 can contain the N bytes at S. */
static bool is_part_of_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)s[i];

        if (c == 0xc0 || c == 0xc1 || c >= 0xf5)
            return false;
    }
    return true;
}

/* Appends the text of token ID to r->bytes. */
static int add_token(struct reader *r, int32_t id)
{
    const char *name;
    size_t n_name, before;
    struct buf part = {.tag = MEM_TEXT};
    int rc;

    if (tok_is_special(r->tok, id)) {
        if (tok_piece(r->tok, id, &name, &n_name) && n_name) {
            buf_char(&r->bytes, (char)TOKEN_TRIE_CONTROL);
            buf_add(&r->bytes, name, n_name);
            buf_char(&r->bytes, (char)TOKEN_TRIE_CONTROL);
        }
        return 0;
    }
    tok_bytes(r->tok, id, &part);
    if (part.len || part.oom) {
        if (is_part_of_utf8(part.data, part.len))
            buf_add(&r->bytes, part.data, part.len);
        rc = part.oom ? err_nomem(r->e, "the trie of the vocabulary") : 0;
        buf_fini(&part);
        return rc;
    }
    if (r->first || r->neutral < 0)
        rc = decode(r, &id, 1);
    else
        rc = decode(r, (int32_t[]){r->neutral, id}, 2);
    before = r->first || r->neutral < 0 ? 0 : r->n_neutral;
    if (rc == 0 && r->text.len > before)
        buf_add(&r->bytes, r->text.data + before, r->text.len - before);
    return rc;
}

int token_trie_open(struct token_trie *t, const struct tok *tok, bool first, struct err *e)
{
    struct reader r = {.tok = tok, .first = first, .e = e, .text.tag = MEM_TEXT, .bytes.tag = MEM_TEXT};
    size_t n_vocab = tok_n_ids(tok), *at = mem_alloc((n_vocab + 1) * sizeof(*at), MEM_TEXT),
           *len = mem_alloc((n_vocab + 1) * sizeof(*len), MEM_TEXT);
    const char **text = mem_alloc((n_vocab + 1) * sizeof(*text), MEM_TEXT);
    int rc = at && len && text ? tok_stream_new(&r.stream, tok, false, e)
                               : err_nomem(e, "the trie of the vocabulary");

    *t = (struct token_trie){0};
    rc = rc ? rc : find_neutral(&r, n_vocab);
    for (size_t i = 0; i < n_vocab && rc == 0; i++) {
        at[i] = r.bytes.len;
        rc = add_token(&r, (int32_t)i);
        len[i] = r.bytes.len - at[i];
    }
    if (rc == 0 && r.bytes.oom)
        rc = err_nomem(e, "the trie of the vocabulary");
    for (size_t i = 0; i < n_vocab && rc == 0; i++)
        text[i] = r.bytes.data ? r.bytes.data + at[i] : "";
    rc = rc ? rc : token_trie_make(t, text, len, n_vocab, e);
    tok_stream_free(r.stream);
    buf_fini(&r.text);
    buf_fini(&r.bytes);
    mem_free(at);
    mem_free(len);
    mem_free(text);
    return rc;
}
