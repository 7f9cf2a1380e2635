/* goldens.c - see goldens.h. */
#include "goldens.h"

int golden_try_open(struct gallop **g, const char *name, struct gallop_options *o, char *err)
{
    char dir[4096];
    int rc;

    snprintf(dir, sizeof(dir), "%s/test/golden/%s", GALLOP_SOURCE_DIR, name);
    o->model = dir;
    rc = gallop_open(g, o, err);
    o->model = NULL;
    return rc;
}

struct gallop *golden_open(const char *name, struct gallop_options *o)
{
    struct gallop *g;
    char err[GALLOP_ERR_SIZE];

    if (golden_try_open(&g, name, o, err) != 0)
        fail_msg("%s", err);
    return g;
}

uint64_t golden_submit(struct gallop *g, const int32_t *ids, size_t n, int64_t n_new, size_t request)
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
    r.user = (void *)request;
    if (gallop_submit(g, &r, &id, err) != 0)
        fail_msg("%s", err);
    return id;
}
