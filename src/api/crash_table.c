/* crash_table.c - adds requests to the table for crash reports, and removes them. Freed rows are reused in
 * rotation. Only the server's thread writes rows. */
#include "api/crash_table.h"

#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

enum { MOST_ROWS = 4096 };

int crash_table_open(struct crash_table *t, size_t n, struct err *e)
{
    t->n = n < MOST_ROWS ? n : MOST_ROWS;
    t->row = mem_zalloc(t->n, sizeof(*t->row), MEM_API);
    return t->row ? 0 : err_nomem(e, "the server");
}

void crash_table_close(struct crash_table *t)
{
    mem_free(t->row);
}

struct crash_table_row *crash_table_add(struct crash_table *t, const char *id, size_t n_prompt,
                                        size_t n_output)
{
    for (size_t tried = 0; tried < t->n; tried++) {
        struct crash_table_row *r = &t->row[t->next++ % t->n];

        if (atomic_load(&r->used))
            continue;
        snprintf(r->id, sizeof(r->id), "%s", id);
        atomic_store(&r->n_prompt, n_prompt);
        atomic_store(&r->n_output, n_output);
        atomic_store(&r->used, true);
        return r;
    }
    return NULL;
}

void crash_table_remove(struct crash_table_row *row)
{
    if (row)
        atomic_store(&row->used, false);
}
