/* api.c - opens, starts, drains and closes the server's API, and connects its parts. */
#include "api/api.h"

#include <string.h>
#include <time.h>

#include "api/api_priv.h"
#include "api/flight.h"
#include "api/http/access.h"
#include "api/http/routes.h"
#include "api/http/status.h"
#include "base/buf.h"
#include "base/clock.h"
#include "net/server.h"

static void set_options(struct api *a, const struct api_options *o)
{
    a->opt = *o;
    service_complete(&a->opt.service);
    a->opt.n_threads = o->n_threads ? o->n_threads : 3;
    a->opt.ping_s = o->ping_s > 0 ? o->ping_s : 10;
}

int api_open(struct api **out, const struct api_options *o, struct err *e)
{
    struct api *a = mem_zalloc(1, sizeof(*a), MEM_API);
    struct gallop_stats stats;

    *out = NULL;
    if (!a)
        return err_nomem(e, "the server");
    set_options(a, o);
    buf_init(&a->scratch, MEM_API);
    once_init(&a->once);
    queue_init(&a->queue, o->max_running + o->max_queued, o->max_queued_tokens, o->fair);
    if (!o->service.max_answers)
        a->opt.service.max_answers = queue_most_places(&a->queue);
    rng_seeds_init(&a->seeds);
    json_object_seed(0); /* must run before threads are started */
    gallop_stats(o->service.engine, &stats);
    a->max_len = stats.max_model_len;
    a->now.stats = stats;
    a->now.roof_bytes = o->roof_bytes;
    a->now.roof_flops = o->roof_flops;
    a->opt.service.created = (int64_t)time(NULL);
    a->started_s = clock_seconds();
    if (crash_table_open(&a->crash_table, o->max_running + o->max_queued, e) != 0) {
        api_close(a);
        return ERR_NOMEM;
    }
    mem_set_budget(a->opt.max_request_bytes);
    mem_share_budget(o->fair);
    *out = a;
    return 0;
}

bool api_stalled(struct api *a)
{
    return status_stalled(a);
}

/* Called on the server's thread at each tick, and after a worker or the engine has called wake(). */
static void on_wake(void *ctx)
{
    struct api *a = ctx;
    double now = clock_seconds();

    flight_advance(a);
    status_stalled(a);
    if (now >= a->ping_s) {
        a->ping_s = now + a->opt.ping_s / 10;
        flight_ping(a, now);
    }
    if (a->woken)
        a->woken(a->woken_ctx);
}

static void on_written(void *ctx)
{
    flight_written(ctx);
}

static void on_gone(void *ctx, struct server_exchange *x)
{
    (void)ctx;
    if (server_user(x))
        flight_gone(server_user(x));
}

static void on_drained(void *ctx, struct server_exchange *x)
{
    (void)ctx;
    if (server_user(x))
        flight_drained(server_user(x));
}

/* Returns the number of the client whose share of memory the body of a request uses. */
static uint32_t client_of(void *ctx, const struct http_head *h, const char *peer)
{
    char key[KEYS_NAME];

    access_key(ctx, h, key);
    return access_client(key, peer);
}

void api_handle(struct api *a, struct server_options *o)
{
    o->handle = routes_handle;
    o->wants_body = routes_wants_body;
    o->client = client_of;
    o->gone = on_gone;
    o->drained = on_drained;
    o->written = on_written;
    o->woken = on_wake;
    o->refusal = routes_refusal;
    o->ctx = a;
    o->cors = a->opt.cors;
}

/* Wakes the server's thread. Called on the engine's thread and on workers. */
static void wake(void *ctx)
{
    server_wake(((struct api *)ctx)->server);
}

int api_start(struct api *a, struct server *s, struct err *e)
{
    int rc;

    a->server = s;
    if ((rc = workers_open(&a->workers, a->opt.n_threads, wake, a, e)) == 0)
        rc = event_ring_open(&a->event_ring, a->opt.service.engine, flight_lost, wake, a, e);
    return rc;
}

void api_drain(struct api *a)
{
    a->draining = true;
    server_drain(a->server);
}

void api_abort(struct api *a)
{
    for (struct flight *f = a->first; f; f = f->next) {
        atomic_store(&f->q.unwanted, true);
        flight_abort(f);
    }
}

void api_on_wake(struct api *a, void (*woken)(void *ctx), void *ctx)
{
    a->woken = woken;
    a->woken_ctx = ctx;
}

size_t api_n_requests(const struct api *a)
{
    return a->n_flights;
}

size_t api_n_computing(const struct api *a)
{
    return atomic_load(&a->queue.places.n);
}

const struct crash_table_row *api_running(const struct api *a, size_t *n)
{
    *n = a->crash_table.n;
    return a->crash_table.row;
}

void api_stop(struct api *a)
{
    workers_close(&a->workers);
    event_ring_close(&a->event_ring);
}

void api_close(struct api *a)
{
    if (!a)
        return;
    flight_free_all(a);
    mem_set_budget(0);
    mem_share_budget(false);
    crash_table_close(&a->crash_table);
    buf_fini(&a->scratch);
    once_fini(&a->once);
    queue_fini(&a->queue);
    mem_free(a);
}
