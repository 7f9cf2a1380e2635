/* serve.h - a load of many requests. */
#ifndef GALLOP_LAB_BENCH_SERVE_H
#define GALLOP_LAB_BENCH_SERVE_H

#include "base/err.h"
#include "base/opt.h"

extern const struct opt_row bench_serve_options[];
int bench_serve(const struct opt_values *v, struct err *e);

#endif
