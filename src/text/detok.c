/* detok.c - ids to strings, strings through the decoder's chain. */
#include "text/detok.h"

#include "text/detokchain.h"
#include "text/tok.h"
#include "text/tokcore.h"

struct detok {
    const struct tok *t; /* borrowed */
    bool skip_special;
    struct detokchain_run *run;
};

int detok_new(struct detok **out, const struct tok *t, bool skip_special, struct err *e)
{
    struct detok *d = mem_zalloc(1, sizeof(*d), MEM_TEXT);

    *out = NULL;
    if (!d || !(d->run = detokchain_run_new(&t->chain))) {
        mem_free(d);
        return err_nomem(e, "decoder");
    }
    d->t = t;
    d->skip_special = skip_special;
    *out = d;
    return 0;
}

void detok_free(struct detok *d)
{
    if (!d)
        return;
    detokchain_run_free(d->run);
    mem_free(d);
}

int detok_put(struct detok *d, int32_t id, struct buf *out, struct err *e)
{
    const char *s;
    size_t n;

    if ((d->skip_special && tok_is_special(d->t, id)) || !tok_piece(d->t, id, &s, &n))
        return 0;
    return detokchain_put(d->run, s, n, out, e);
}

int detok_end(struct detok *d, struct buf *out, struct err *e)
{
    return detokchain_end(d->run, out, e);
}
