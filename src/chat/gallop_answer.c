/* gallop_answer.c - implements gallop_answer() of gallop.h: answers a request body without a server. */
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "chat/endpoint.h"
#include "chat/once.h"
#include "chat/prepare/prepare.h"
#include "chat/prepare/refuse.h"
#include "chat/request.h"
#include "chat/texts.h"
#include "engine/engine.h"
#include "gallop.h"

/* Runs steps of the engine until all answers to Q have ended. */
static void compute(struct request *q)
{
    struct gallop_event ev;

    while (gallop_next(q->service->engine, &ev))
        if (!request_take(ev.user, &ev))
            prepare_cancel(q);
}

/* Answers Q, which endpoint_open() has opened, with the request body BODY [len]. */
static void answer(struct request *q, const char *body, size_t len)
{
    if (prepare_read(q, body, len) != 0 || prepare_whole(q) != 0 || prepare_check(q) != 0 ||
        prepare_prompts(q) != 0)
        return;
    if (prepare_submit(q, NULL) != 0)
        prepare_cancel(q);
    fields_forget(&q->field, q->endpoint);
    compute(q);
    if (!q->status)
        q->status = request_write(q, &q->reply);
}

int gallop_answer(struct gallop *g, const char *path, const char *body, size_t len, int *status, char **text,
                  size_t *text_len, char *err)
{
    struct request q = {.status = 0};
    struct rng_seeds seeds;
    struct once once;
    struct err e = {0};
    int rc = 0;

    *text = NULL;
    if (!engine_is_idle(g))
        return engine_give(err, &e, err_set(&e, ERR_INPUT, "the engine has other requests, expected none"));
    once_init(&once);
    rng_seeds_init(&seeds);
    if (endpoint_open(&q, &engine_texts(g)->service, path, strlen(path)) == 0) {
        q.once = &once;
        q.seeds = &seeds;
        answer(&q, body, len == SIZE_MAX ? strlen(body) : len);
    }
    if (q.reply.oom)
        refuse_memory(&q);
    *status = q.status;
    rc = texts_give(&q.reply, text, text_len, &e);
    request_fini(&q);
    once_fini(&once);
    return engine_give(err, &e, rc);
}
