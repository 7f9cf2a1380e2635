/* infill.c - finds the fill-in-the-middle tokens of a vocabulary, and encodes prompts with them. */
#include "text/tok/infill.h"

#include <string.h>

#include "text/tok/build.h"
#include "text/tok/tok.h"

/* The fill-in-the-middle tokens of a vocabulary. */
struct marks {
    int32_t before, behind; /* the tokens before the prefix and before the suffix */
    int32_t end;            /* token at the end of the prompt; -1: none */
    bool behind_first;      /* the suffix comes before the prefix */
};

static bool token_find(const struct tok *t, const char *name, int32_t *id)
{
    *id = -1;
    return !name || tok_id_of(t, name, strlen(name), id);
}

static bool find_marks(const struct tok *t, struct marks *m)
{
    static const struct {
        const char *before, *behind, *end; /* END NULL: none */
    } names[] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
        {"\xe2\x96\x81<PRE>", "\xe2\x96\x81<SUF>", "\xe2\x96\x81<MID>"},
        {"<\xef\xbd\x9c"
         "fim\xe2\x96\x81"
         "begin\xef\xbd\x9c>",
         "<\xef\xbd\x9c"
         "fim\xe2\x96\x81"
         "hole\xef\xbd\x9c>",
         "<\xef\xbd\x9c"
         "fim\xe2\x96\x81"
         "end\xef\xbd\x9c>"},
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
        {"[PREFIX]", "[SUFFIX]", NULL},
    };

    if (t->has_infill) {
        *m = (struct marks){.before = t->infill[0], .behind = t->infill[1], .end = t->infill[2]};
        return true;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (token_find(t, names[i].before, &m->before) && token_find(t, names[i].behind, &m->behind) &&
            token_find(t, names[i].end, &m->end)) {
            m->behind_first = !names[i].end;
            return true;
        }
    return false;
}

bool infill_is_known(const struct tok *t)
{
    struct marks m;

    return find_marks(t, &m);
}

int infill_refuse(struct err *e)
{
    return err_about(e, ERR_UNSUPPORTED, "suffix",
                     "the model's vocabulary has no tokens for filling a gap, such as <|fim_prefix|>");
}

/* Appends the ids of TEXT as if it continued a text. Models that are not byte-level put a blank before a text, which is
 * wrong here; so a character is put before TEXT, and its ids are removed. If the ids do not begin with those of the
 * character, TEXT is encoded alone. */
static int encode_inside(const struct tok *t, const char *text, size_t n, struct tok_ids *out, struct err *e)
{
    static const char other[] = "\xe2\x98\xba"; /* U+263A, as in Meta's code for CodeLlama */
    struct tok_ids alone = {0}, both = {0};
    struct buf joined = {.tag = MEM_TEXT};
    int rc = 0;

    if (t->bpe.byte_level)
        return tok_encode(t, text, n, 0, out, e);
    buf_str(&joined, other);
    buf_add(&joined, text, n);
    if (joined.oom)
        rc = err_nomem(e, "a prompt");
    if (rc == 0 && (rc = tok_encode(t, other, strlen(other), 0, &alone, e)) == 0)
        rc = tok_encode(t, joined.data, joined.len, 0, &both, e);
    if (rc == 0 && both.n >= alone.n && memcmp(both.id, alone.id, alone.n * sizeof(*alone.id)) == 0)
        rc = tok_ids_add(out, (const uint32_t *)both.id + alone.n, both.n - alone.n)
                 ? 0
                 : err_nomem(e, "a prompt");
    else if (rc == 0)
        rc = tok_encode(t, text, n, 0, out, e);
    buf_fini(&joined);
    tok_ids_fini(&alone);
    tok_ids_fini(&both);
    return rc;
}

static int add_one(int32_t id, struct tok_ids *out, struct err *e)
{
    return id < 0 || tok_ids_add(out, (const uint32_t *)&id, 1) ? 0 : err_nomem(e, "a prompt");
}

int infill_encode(const struct tok *t, const char *prefix, size_t n_prefix, const char *suffix,
                  size_t n_suffix, unsigned flags, struct tok_ids *out, struct err *e)
{
    size_t begin = out->n;
    struct marks m;
    int rc = 0;

    if (!find_marks(t, &m))
        return infill_refuse(e);
    if (flags & TOK_ADD_SPECIAL && !tok_ids_add(out, (const uint32_t *)t->prefix.id, t->prefix.n))
        rc = err_nomem(e, "a prompt");
    for (int first = 1; first >= 0 && rc == 0; first--) {
        bool behind = m.behind_first == (first == 1);

        if ((rc = add_one(behind ? m.behind : m.before, out, e)) == 0)
            rc = behind ? encode_inside(t, suffix, n_suffix, out, e)
                        : tok_encode(t, prefix, n_prefix, 0, out, e);
    }
    if (rc == 0)
        rc = add_one(m.end, out, e);
    if (rc)
        out->n = begin;
    return rc;
}

size_t infill_ends(const struct tok *t, int32_t id[INFILL_MAX_ENDS])
{
    static const char *const names[] = {"\xe2\x96\x81<EOT>", "<EOT>",        "<|fim_pad|>",
                                        "<fim_pad>",         "<fim-pad>",    "<|repo_name|>",
                                        "<reponame>",        "<|file_sep|>", "<file_sep>"};
    size_t n = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        n += tok_id_of(t, names[i], strlen(names[i]), &id[n]);
    return n;
}
