/* engines.c - see engines.h. */
#include "engines.h"

#include "base/err.h"
#include "engine/executor.h"
#include "engine/llm.h"
#include "engine/score.h"
#include "gallop.h"
#include "kv/kv.h"

const char *engines_path(const char *name)
{
    static _Thread_local char path[4][4096];
    static _Thread_local size_t turn;
    char *out = path[turn++ % 4];

    if (strchr(name, '/'))
        snprintf(out, sizeof(path[0]), "%s", name);
    else if (strcmp(name, "demo") == 0)
        snprintf(out, sizeof(path[0]), "%s/models/demo", GALLOP_SOURCE_DIR);
    else
        snprintf(out, sizeof(path[0]), "%s/test/golden/%s", GALLOP_SOURCE_DIR, name);
    return out;
}

struct gallop_options engines_options(int64_t seqs, int64_t step_tokens, int64_t longest)
{
    struct gallop_options o;

    gallop_options_init(&o);
    o.dtype = "fp32";
    o.threads = 1;
    o.block_size = 16;
    o.max_num_seqs = seqs;
    o.max_batched_tokens = step_tokens;
    o.max_model_len = longest;
    return o;
}

int engines_try(struct gallop **g, const char *name, const struct gallop_options *o, char *err)
{
    struct gallop_options with = *o;

    with.model = engines_path(name);
    return gallop_open(g, &with, err);
}

struct gallop *engines_open(const char *name, const struct gallop_options *o)
{
    struct gallop *g;
    char err[GALLOP_ERR_SIZE];

    if (engines_try(&g, name, o, err) != 0)
        fail_msg("%s: %s", name, err);
    return g;
}

void engines_text(size_t text, size_t pos, size_t n, int32_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(3 + (text * 61 + (pos + i) * (pos + i) * 5 + (pos + i) * 37) % 150);
}

/* ---- computing without requests ---- */

void engines_compute(struct llm *m, size_t slot, const int32_t *ids, size_t pos, size_t n, size_t chunk,
                     size_t n_total)
{
    for (size_t at = 0, len; at < n; at += len) {
        struct executor_rows r = {
            .slot = slot, .id = ids + at, .pos = pos + at, .n_prompt = n_total, .n_total = n_total};

        r.n = len = n - at < chunk ? n - at : chunk;
        r.n_wanted = at + len == n;
        assert_int_equal(kv_reserve(&m->kv, slot, r.pos + len), 0);
        llm_forward(m, &r, 1);
        kv_advance(&m->kv, slot, r.pos + len);
    }
}

struct rows {
    float *x;
    size_t V, n;
};

static int keep(void *ctx, size_t pos, size_t n, const float *logits)
{
    struct rows *r = ctx;

    memcpy(r->x + r->n * r->V, logits, n * r->V * sizeof(float));
    r->n += n;
    return 0;
}

float *engines_logits(struct llm *m, const int32_t *ids, size_t n, size_t last, size_t chunk, float *hidden)
{
    struct rows r = {.V = m->model.info.vocab};
    struct score_request q = {
        .ids = ids, .n = n, .last = last, .chunk = chunk, .hidden = hidden, .rows = keep, .ctx = &r};
    struct err e = {0};

    assert_non_null(r.x = malloc(last * r.V * sizeof(float)));
    if (score_run(m, &q, &e) != 0)
        fail_msg("%s: %s", m->model.arch->class_name, e.msg);
    assert_int_equal(r.n, last);
    return r.x;
}

void engines_check_cache(struct gallop *g)
{
    struct err e = {0};

    if (kv_check(&engine_llm(g)->kv, &e) != 0)
        fail_msg("%s", e.msg);
}

/* ---- requests ---- */

uint64_t engines_submit(struct gallop *g, const int32_t *ids, size_t n, int64_t n_new, size_t which)
{
    struct gallop_request r;
    char err[GALLOP_ERR_SIZE];
    uint64_t id;

    gallop_request_init(&r);
    r.ids = ids;
    r.n_ids = n;
    r.sampling.max_new_tokens = n_new;
    r.sampling.ignore_eos = 1;
    r.sampling.do_sample = 0;
    r.user = (void *)which;
    if (gallop_submit(g, &r, &id, err) != 0)
        fail_msg("%s", err);
    return id;
}

uint64_t engines_submit_text(struct gallop *g, size_t n, int64_t n_new, size_t which)
{
    int32_t ids[ENGINES_MOST_TOKENS];

    assert_true(n <= ENGINES_MOST_TOKENS);
    engines_text(which, 0, n, ids);
    return engines_submit(g, ids, n, n_new, which);
}

void engines_take(struct engines_answer *all, const struct gallop_event *ev)
{
    struct engines_answer *a = &all[(size_t)ev->user + ev->choice];

    assert_false(a->ended);
    if (ev->type == GALLOP_TOKEN) {
        assert_true(a->n < ENGINES_MOST_TOKENS);
        a->logprob[a->n] = ev->logprob;
        a->token[a->n++] = ev->token;
        a->n_top = ev->n_top;
    } else if (ev->type == GALLOP_TEXT) {
        snprintf(a->text + strlen(a->text), sizeof(a->text) - strlen(a->text), "%.*s", (int)ev->text_len,
                 ev->text);
    } else {
        a->ended = true;
        a->end = *ev;
        assert_int_equal(ev->n_output, a->n);
        assert_true(ev->prefill_s >= 0 && ev->decode_s >= 0);
        assert_true(a->n < 2 || ev->decode_s > 0);
    }
}

void engines_run(struct gallop *g, struct engines_answer *all)
{
    struct gallop_event ev;

    while (gallop_next(g, &ev))
        engines_take(all, &ev);
}

bool engines_differ(const struct engines_answer *a, const struct engines_answer *b, size_t n, char says[256])
{
    for (size_t q = 0; q < n; q++) {
        size_t i = 0;

        if (a[q].ended != b[q].ended || a[q].end.finish != b[q].end.finish || a[q].n != b[q].n)
            return snprintf(says, 256, "answer %zu ends behind %zu tokens (%d), expected %zu (%d)", q, a[q].n,
                            (int)a[q].end.finish, b[q].n, (int)b[q].end.finish);
        while (i < a[q].n && a[q].token[i] == b[q].token[i])
            i++;
        if (i < a[q].n)
            return snprintf(says, 256, "token %zu of answer %zu is %d, expected %d", i, q, a[q].token[i],
                            b[q].token[i]);
        if (strcmp(a[q].text, b[q].text) != 0)
            return snprintf(says, 256, "the text of answer %zu is %.90s, expected %.90s", q, a[q].text,
                            b[q].text);
        if (memcmp(a[q].logprob, b[q].logprob, a[q].n * sizeof(a[q].logprob[0])) != 0)
            return snprintf(says, 256, "log-probabilities of answer %zu differ", q);
    }
    return false;
}

struct gallop_stats engines_stats(const struct gallop *g)
{
    struct gallop_stats s;

    gallop_stats(g, &s);
    return s;
}
