/* load.c - computes gauges from the flights, the engine's statistics and the server. */
#include "api/http/load.h"

#include <math.h>
#include <stdio.h>

#include "api/api_priv.h"
#include "api/flight.h"
#include "api/http/keys.h"
#include "base/clock.h"
#include "net/server.h"

void load_gauges(const struct api *a, struct metrics_now *now)
{
    size_t n = 0;

    for (const struct flight *f = a->first; f; f = f->next)
        n += f->places.n;
    *now = a->now;
    now->model = a->opt.service.name[0];
    now->n_running = n < now->stats.n_running ? n : now->stats.n_running;
    now->n_waiting = n - now->n_running;
    now->n_connections = a->server ? server_n_connections(a->server) : 0;
    now->request_bytes = mem_charged_bytes();
    now->max_request_bytes = a->opt.max_request_bytes;
    now->n_over_memory = atomic_load(&a->n_over_memory);
    now->engine = a->opt.service.engine;
    if (a->opt.service.engine) /* tests compute gauges without an engine */
        engine_executor_state(a->opt.service.engine, &now->executor);
    now->bodies_bytes = a->server ? server_bodies_bytes(a->server) : 0;
    now->n_failed_handshakes = a->server ? server_n_failed_handshakes(a->server) : 0;
}

void load_limits(const struct api *a, const char *key, char out[LOAD_LIMITS])
{
    static const char *const names[2] = {"requests", "tokens"};
    struct keys_state state[2];
    int n = 0;

    out[0] = 0;
    if (!key[0])
        return;
    keys_look(a->opt.keys, key, clock_seconds(), state);
    for (int i = 0; i < 2; i++)
        if (state[i].most > 0)
            n +=
                snprintf(out + n, LOAD_LIMITS - (size_t)n,
                         "x-ratelimit-limit-%s: %.0f\r\nx-ratelimit-remaining-%s: %.0f\r\n"
                         "x-ratelimit-reset-%s: %.3fs\r\n",
                         names[i], state[i].most, names[i], floor(state[i].left), names[i], state[i].reset_s);
}

double load_retry_s(const struct api *a)
{
    struct metrics_now now;
    double s;

    load_gauges(a, &now);
    s = a->mean_s * (double)now.n_waiting / (double)(a->opt.max_running ? a->opt.max_running : 1);
    return s < 1 ? 1 : s > 60 ? 60 : s;
}
