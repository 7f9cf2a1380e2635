/* api.c - open, start, drain, close: the parts of the server's side put together. */
#include "api/api.h"

#include <string.h>
#include <sys/random.h>

#include "api/api_priv.h"
#include "api/crash_table.h"
#include "api/request.h"
#include "api/routes.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"

int api_open(struct api **out, const struct api_options *o, struct err *e)
{
    struct api *a = mem_zalloc(1, sizeof(*a), MEM_API);
    struct gallop_stats stats;

    *out = NULL;
    if (!a)
        return err_nomem(e, "the server");
    a->opt = *o;
    a->opt.n_threads = o->n_threads ? o->n_threads : 2;
    a->opt.ping_s = o->ping_s > 0 ? o->ping_s : 10;
    a->opt.max_logprobs = o->max_logprobs >= 0 ? o->max_logprobs : 20;
    buf_init(&a->scratch, MEM_API);
    pthread_mutex_init(&a->unknown_lock, NULL);
    pthread_mutex_init(&a->places_lock, NULL);
    json_object_seed(0); /* before there are threads */
    if (getrandom(&a->secret, sizeof(a->secret), 0) != (ssize_t)sizeof(a->secret))
        a->secret = clock_ns();
    gallop_stats(o->engine, &stats);
    a->max_len = stats.max_model_len;
    a->now.stats = stats;
    a->now.roof_bytes = o->roof_bytes;
    a->now.roof_flops = o->roof_flops;
    a->created = (int64_t)time(NULL);
    a->started_s = clock_seconds();
    if (crash_table_open(a, e) != 0) {
        api_close(a);
        return ERR_NOMEM;
    }
    mem_set_budget(a->opt.max_request_bytes);
    *out = a;
    return 0;
}

bool api_stalled(struct api *a)
{
    uint64_t begun = engine_thread_step_ns(&a->relay), now = clock_ns();
    double s = begun && begun < now ? (double)(now - begun) * 1e-9 : 0;

    if (a->stalled_ns && begun != a->stalled_ns) {
        log_warn("the step that took too long has ended, about %.0f s after it began",
                 (double)(now - a->stalled_ns) * 1e-9);
        a->stalled_ns = 0;
    }
    if (a->stalled_ns || !(a->opt.step_timeout_s > 0) || s <= a->opt.step_timeout_s)
        return a->stalled_ns != 0;
    log_error("the engine has been in one step for %.1f s (--step-timeout is %g); %zu requests wait for it",
              s, a->opt.step_timeout_s, a->n_calls);
    a->metrics.n_stalls++;
    a->stalled_ns = begun;
    return true;
}

/* The server's tick, and each time the front or the engine is done with something. */
static void on_wake(void *ctx)
{
    struct api *a = ctx;
    double now = clock_seconds();

    request_advance(a);
    api_stalled(a);
    if (now >= a->ping_s) {
        a->ping_s = now + a->opt.ping_s / 10;
        request_ping(a, now);
    }
    if (a->woken)
        a->woken(a->woken_ctx);
}

static void on_written(void *ctx)
{
    request_written(ctx);
}

static void on_gone(void *ctx, struct server_exchange *x)
{
    (void)ctx;
    if (server_user(x))
        request_gone(server_user(x));
}

static void on_drained(void *ctx, struct server_exchange *x)
{
    (void)ctx;
    if (server_user(x))
        request_drained(server_user(x));
}

void api_handle(struct api *a, struct server_options *o)
{
    o->handle = routes_handle;
    o->wants_body = routes_wants_body;
    o->gone = on_gone;
    o->drained = on_drained;
    o->written = on_written;
    o->woken = on_wake;
    o->refusal = routes_refusal;
    o->ctx = a;
    o->cors = a->opt.cors;
}

/* From the engine's thread, or one of the front. */
static void wake(void *ctx)
{
    server_wake(((struct api *)ctx)->server);
}

int api_start(struct api *a, struct server *s, struct err *e)
{
    int rc;

    a->server = s;
    if ((rc = workers_open(&a->front, a->opt.n_threads, wake, a, e)) == 0)
        rc = engine_thread_open(&a->relay, a->opt.engine, request_lost, wake, a, e);
    return rc;
}

void api_drain(struct api *a)
{
    a->draining = true;
    server_drain(a->server);
}

void api_abort(struct api *a)
{
    for (struct request *c = a->first; c; c = c->next) {
        atomic_store(&c->unwanted, true);
        request_abort(c);
    }
}

void api_on_wake(struct api *a, void (*woken)(void *ctx), void *ctx)
{
    a->woken = woken;
    a->woken_ctx = ctx;
}

size_t api_n_calls(const struct api *a)
{
    return a->n_calls;
}

size_t api_n_computing(const struct api *a)
{
    return atomic_load(&a->n_reserved);
}

void api_stop(struct api *a)
{
    workers_close(&a->front);
    engine_thread_close(&a->relay);
}

void api_close(struct api *a)
{
    if (!a)
        return;
    request_forget_all(a);
    mem_set_budget(0);
    crash_table_close(a);
    buf_fini(&a->scratch);
    pthread_mutex_destroy(&a->unknown_lock);
    pthread_mutex_destroy(&a->places_lock);
    mem_free(a);
}
