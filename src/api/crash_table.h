/* crash_table.h - the requests that are computed or wait, in a table that the handler of a crash may read at
 * any moment: its rows stay where they are, and a row is marked as used only while it is complete.
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
    _Atomic size_t n_prompt, n_output; /* tokens */
};

struct crash_table {
    struct crash_table_row *row; /* [n] */
    size_t n, next;
};

/* Makes a table for N requests, or for as many as it may have rows. */
int crash_table_open(struct crash_table *t, size_t n, struct err *e);
void crash_table_close(struct crash_table *t);

/* Takes a row for the request ID with a prompt of N_PROMPT tokens. NULL: the table is full. */
struct crash_table_row *crash_table_add(struct crash_table *t, const char *id, size_t n_prompt);

/* Gives ROW back; NULL is fine. */
void crash_table_remove(struct crash_table_row *row);

#endif
