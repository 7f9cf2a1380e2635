/* crash_table.h - the table of requests that the crash report reads. */
#ifndef GALLOP_API_CRASH_TABLE_H
#define GALLOP_API_CRASH_TABLE_H

#include "api/api_priv.h"
#include "api/request.h"
#include "base/err.h"

int crash_table_open(struct api *a, struct err *e);
void crash_table_close(struct api *a);
void crash_table_begin(struct request *c); /* C is prepared */
void crash_table_end(struct request *c);

#endif
