/* tokmerge.c - look-ups in batches, for a file of 446 000 merges is 1.3 million of them and each misses the
 * cache. */
#include "text/tokmerge.h"

#include <string.h>

void tokmerge_init(struct tokmerge *m, struct bpe *b, const struct tokvocab *v, size_t skip)
{
    *m = (struct tokmerge){.bpe = b, .vocab = v, .skip = skip};
    buf_init(&m->whole, MEM_TEXT);
}

void tokmerge_fini(struct tokmerge *m)
{
    buf_fini(&m->whole);
}

static int not_there(const char *s, size_t n, struct err *e)
{
    return err_set(e, ERR_INPUT, "the token \"%.*s\" of a merge is not in the vocabulary",
                   (int)(n < 60 ? n : 60), s);
}

/* The id of LEFT followed by RIGHT. Merges mostly come in the order of their results, so the last result and
 * the id behind it are tried first. */
static bool find_result(struct tokmerge *m, const char *left, size_t n_left, const char *right,
                        size_t n_right)
{
    for (uint32_t id = m->last; id <= m->last + 1; id++) {
        const char *s;
        size_t n;

        if (tokvocab_str(m->vocab, id, &s, &n) && n == n_left + n_right && memcmp(s, left, n_left) == 0 &&
            memcmp(s + n_left, right, n_right) == 0) {
            m->last = id;
            return true;
        }
    }
    buf_clear(&m->whole);
    buf_add(&m->whole, left, n_left);
    buf_add(&m->whole, right, n_right);
    return !m->whole.oom && tokvocab_find(m->vocab, m->whole.data, m->whole.len, &m->last);
}

int tokmerge_end(struct tokmerge *m, struct err *e)
{
    int rc = 0;

    tokvocab_find_all(m->vocab, m->part, m->n);
    for (size_t i = 0; i < m->n && rc == 0; i += 2) {
        const struct tokvocab_query *l = &m->part[i], *r = l + 1;
        size_t skip = m->skip < r->n ? m->skip : r->n;

        if (l->id == TOKVOCAB_NONE)
            rc = not_there(l->s, l->n, e);
        else if (r->id == TOKVOCAB_NONE)
            rc = not_there(r->s, r->n, e);
        else if (find_result(m, l->s, l->n, r->s + skip, r->n - skip))
            rc = bpe_add_rule(m->bpe, l->id, r->id, m->rank++, m->last, e);
        else
            rc = m->whole.oom ? err_nomem(e, "merges") : not_there(m->whole.data, m->whole.len, e);
    }
    m->n = 0;
    return rc;
}

int tokmerge_add(struct tokmerge *m, const char *left, size_t n_left, const char *right, size_t n_right,
                 struct err *e)
{
    m->part[m->n++] = (struct tokvocab_query){.s = left, .n = n_left};
    m->part[m->n++] = (struct tokvocab_query){.s = right, .n = n_right};
    return m->n + 2 > TOKVOCAB_BATCH ? tokmerge_end(m, e) : 0;
}
