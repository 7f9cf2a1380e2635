/* score.c - computes a prompt in chunks and passes the wanted logits to a callback. */
#include "engine/score.h"

#include <math.h>

#include "base/err.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "kv/kv.h"
#include "ops/eager/eager.h"

static int score_check(const struct llm *m, const struct score_request *r, struct err *e)
{
    if (r->n == 0)
        return err_set(e, ERR_INPUT, "the prompt is empty");
    if (r->n > m->max_len)
        return err_set(e, ERR_INPUT, "the prompt has %zu tokens, but the context length is %zu", r->n,
                       m->max_len);
    for (size_t i = 0; i < r->n; i++)
        if (r->ids[i] < 0 || (size_t)r->ids[i] >= m->model.info.vocab)
            return err_set(e, ERR_INPUT, "token %d at position %zu is outside the vocabulary of %zu tokens",
                           r->ids[i], i, m->model.info.vocab);
    return 0;
}

/* Returns the chunk that begins at POS. It has at most max_wanted rows with logits. */
static struct executor_rows next_chunk(const struct llm *m, const struct score_request *r, size_t pos)
{
    size_t from = r->n - (r->last < r->n ? r->last : r->n),
           n = r->chunk && r->chunk < m->max_tokens ? r->chunk : m->max_tokens;
    struct executor_rows rows = {.id = r->ids + pos, .pos = pos, .n_prompt = r->n, .n_total = r->n};

    if (n > r->n - pos)
        n = r->n - pos;
    if (pos + n > from) {
        size_t first = from > pos ? from : pos;

        if (pos + n - first > m->max_wanted)
            n = first + m->max_wanted - pos;
        rows.n_wanted = pos + n - first;
    }
    rows.n = n;
    return rows;
}

int score_run(struct llm *m, const struct score_request *r, struct err *e)
{
    int rc = llm_check_computes(m, e);

    if (rc == 0)
        rc = score_check(m, r, e);
    if (rc)
        return rc;
    for (size_t pos = 0; pos < r->n && rc == 0;) {
        struct executor_rows rows = next_chunk(m, r, pos);

        if ((rc = kv_reserve(&m->kv, 0, pos + rows.n)) != 0) {
            err_set(e, rc, "the KV cache has no room for %zu tokens", r->n);
            break;
        }
        eager_capture(m->eager, r->hidden, r->n, pos);
        llm_forward(m, &rows, 1);
        if (rows.n_wanted)
            rc = r->rows(r->ctx, pos + rows.n - rows.n_wanted, rows.n_wanted, m->logits);
        pos += rows.n;
        kv_advance(&m->kv, 0, pos);
    }
    eager_capture(m->eager, NULL, 0, 0);
    kv_release(&m->kv, 0);
    return rc;
}

double score_logsumexp(const float *x, size_t n)
{
    double max = -INFINITY, sum = 0;

    for (size_t i = 0; i < n; i++)
        max = (double)x[i] > max ? (double)x[i] : max;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - max);
    return max + log(sum);
}
