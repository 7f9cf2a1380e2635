/* crash_table.h - a table of the requests in the engine that a crash handler may read at any moment: rows
 * do not move, and a row is marked as used only while its other members are valid.
 */
#ifndef GALLOP_API_CRASH_TABLE_H
#define GALLOP_API_CRASH_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

struct crash_table_row {
    _Atomic bool used;
    char id[160];
    _Atomic size_t n_prompt, n_output; /* number of prompt tokens and of generated tokens */
};

struct crash_table {
    struct crash_table_row *row; /* [n]; member NEXT: index at which the search for a free row starts */
    size_t n, next;
};

/* Allocates a table for N requests, at most 4096. */
int crash_table_open(struct crash_table *t, size_t n, struct err *e);
void crash_table_close(struct crash_table *t);

/* Returns a row for the request ID with N_PROMPT prompt tokens and N_OUTPUT generated ones. NULL: the table is
 * full. */
struct crash_table_row *crash_table_add(struct crash_table *t, const char *id, size_t n_prompt,
                                        size_t n_output);

/* Frees ROW for another request. ROW may be NULL. */
void crash_table_remove(struct crash_table_row *row);

#endif
