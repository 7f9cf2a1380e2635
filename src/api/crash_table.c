/* crash_table.c - the requests in the house, in a table that a handler of a crash may read at any moment: its
 * rows stay where they are, and one is shown only when it is whole. The server's thread writes it.
 */
#include <stdio.h>

#include "api/crash_table.h"

enum { MOST_ROWS = 4096 };

int crash_table_open(struct api *a, struct err *e)
{
    size_t n = a->opt.max_running + a->opt.max_queued;

    a->n_rows = n < MOST_ROWS ? n : MOST_ROWS;
    a->row = mem_zalloc(a->n_rows, sizeof(*a->row), MEM_API);
    return a->row ? 0 : err_nomem(e, "the server");
}

void crash_table_close(struct api *a)
{
    mem_free(a->row);
}

void crash_table_begin(struct request *c)
{
    struct api *a = c->api;

    for (size_t tried = 0; tried < a->n_rows && !c->row; tried++) {
        struct api_running *r = &a->row[a->next_row++ % a->n_rows];

        if (atomic_load(&r->used))
            continue;
        snprintf(r->id, sizeof(r->id), "%s", c->request_id);
        atomic_store(&r->n_prompt, c->n_prompt_tokens);
        atomic_store(&r->n_output, 0);
        atomic_store(&r->used, true);
        c->row = r;
    }
}

void crash_table_end(struct request *c)
{
    if (c->row)
        atomic_store(&c->row->used, false);
    c->row = NULL;
}

const struct api_running *api_running(const struct api *a, size_t *n)
{
    *n = a->n_rows;
    return a->row;
}
