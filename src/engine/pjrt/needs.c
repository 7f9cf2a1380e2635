/* needs.c - compares the memory that weights and caches need with that of the device. */
#include "engine/pjrt/needs.h"

#include <stdio.h>

/* Writes BYTES in GiB, MiB or KiB to OUT. */
static const char *amount(size_t bytes, char out[24])
{
    const double b = (double)bytes;

    if (bytes >= (size_t)1 << 30)
        snprintf(out, 24, "%.2f GiB", b / (1 << 30));
    else if (bytes >= 1 << 20)
        snprintf(out, 24, "%.2f MiB", b / (1 << 20));
    else
        snprintf(out, 24, "%.1f KiB", b / 1024);
    return out;
}

/* Writes the memory that N needs, in words, to OUT. */
static void say_needs(const struct needs *n, char *out, size_t size)
{
    char weights[24], caches[24];

    snprintf(out, size, "weights need %s, and caches of %zu slots x %zu rows %s",
             amount(n->weight_bytes, weights), n->n_slots, n->context, amount(n->cache_bytes, caches));
}

/* Returns how many slots, or rows of a slot, fit into ROOM bytes beside the scratch slot or row. CACHE_BYTES is the
 * size of N of them and the scratch one. */
static size_t fit(size_t room, size_t cache_bytes, size_t n)
{
    size_t part = cache_bytes / (n + 1), parts = part ? room / part : n + 1;

    return parts ? parts - 1 : 0;
}

int needs_check(const struct needs *n, struct err *e)
{
    char what[160], has[24], all[24];
    size_t room = n->free_bytes > n->weight_bytes ? n->free_bytes - n->weight_bytes : 0;

    if (n->memory_bytes == 0 || n->cache_bytes <= room)
        return 0;
    say_needs(n, what, sizeof(what));
    amount(n->free_bytes, has);
    amount(n->memory_bytes, all);
    if (n->weight_bytes >= n->free_bytes)
        return err_set(
            e, ERR_NOMEM,
            "pjrt: %s, but the device has %s free of %s, which is too little for the weights alone", what,
            has, all);
    return err_set(e, ERR_NOMEM,
                   "pjrt: %s, but the device has %s free of %s; %zu slots (max_num_seqs) of %zu rows fit, or "
                   "%zu slots of %zu rows (max_model_len)",
                   what, has, all, fit(room, n->cache_bytes, n->n_slots), n->context, n->n_slots,
                   fit(room, n->cache_bytes, n->context));
}

void needs_add(const struct needs *n, struct err *e)
{
    const struct err device = *e;
    char what[160];

    say_needs(n, what, sizeof(what));
    err_set(e, device.code, "%.700s; %s", device.msg, what);
}
