/* serve.h - measures how an engine in this process serves a load of many requests. */
#ifndef GALLOP_LAB_BENCH_SERVE_H
#define GALLOP_LAB_BENCH_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/opt.h"
#include "lab/bench/traffic.h"

struct load;

/* The values of the options bench_serve_options. */
struct bench_serve_options {
    bool serve;
    size_t max_concurrency; /* 0: no limit */
};

extern const struct opt_row bench_serve_options[];

/* Opens the engine of L, submits the requests of TRAFFIC to it, and prints the results. */
int bench_serve(const struct bench_serve_options *o, const struct traffic_options *traffic, struct load *l,
                bool json, struct err *e);

#endif
