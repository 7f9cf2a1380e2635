/* mem.h - the heap, with accounting, a memory budget for requests, and failing allocations for tests.
 *
 * All allocations of Gallop use these functions, and so do libraries with allocation hooks (jansson, PCRE2).
 * Each allocation has a tag and is counted. Tests can make it fail, and it aborts inside a step. Large
 * regions for weights and KV rows come from map.h instead. If memory runs out, functions return NULL and the
 * caller reports ERR_NOMEM. Allocations are aligned to 16 bytes. arena.h and buf.h use this header.
 */
#ifndef GALLOP_BASE_MEM_H
#define GALLOP_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mem_tag {
    MEM_BASE,
    MEM_TEXT,
    MEM_NET,
    MEM_CKPT,
    MEM_MODEL,
    MEM_KV,
    MEM_ENGINE,
    MEM_API,
    MEM_APP,
    MEM_LIB,
    MEM_N_TAGS
};

/* Allocates BYTES, which may be 0. NULL: out of memory, over the budget, or chosen by mem_fail_at(). */
void *mem_alloc(size_t bytes, enum mem_tag tag);

/* Allocates N * SIZE zeroed bytes. NULL also if the product overflows. */
void *mem_zalloc(size_t n, size_t size, enum mem_tag tag);

/* Like realloc(). P may be NULL. On failure P is unchanged. */
void *mem_realloc(void *p, size_t bytes, enum mem_tag tag);

/* Grows the array *P to NEED elements of SIZE bytes by doubling *CAP. False: out of memory, no change. */
bool mem_grow(void **p, size_t *cap, size_t need, size_t size, enum mem_tag tag);

void mem_free(void *p); /* P may be NULL */
char *mem_strdup(const char *s, enum mem_tag tag);
char *mem_strndup(const char *s, size_t n, enum mem_tag tag);

/* Allocates for libraries with allocation hooks. */
void *mem_lib_alloc(size_t bytes);

/* Returns whether mem_lib_alloc() has failed on this thread since the last call of this function. Some
 * libraries ignore such failures: jansson then loses bytes of a string. */
bool mem_lib_failed(void);

/* Makes freed blocks of 128 KiB and more return to the system at once. Otherwise glibc raises this bound up to 32 MiB
 * when such blocks are freed, and a long-lived process may hold several times the memory that it uses. */
void mem_return_large(void);

/* ---- the budget of requests ---- */

/* Whether allocations of a thread count against the common budget of all requests. A charged allocation
 * counts, with its growth, until any thread frees it. */
enum mem_charge {
    MEM_CHARGE_NONE, /* not charged: the default of a thread */
    /* Charged for a request before it is accepted. An eighth of the budget is reserved for accepted requests. */
    MEM_CHARGE_NEW,
    MEM_CHARGE_OLD, /* charged for an accepted request */
};

/* Sets how allocations of this thread are charged; charged ones fail if they exceed the budget. Returns the old
 * value. */
enum mem_charge mem_charge(enum mem_charge c);
/* Sets the client (shares.h) for which charged allocations of this thread count. Returns the old value. A block that
 * grows still counts for the client that allocated it. */
uint32_t mem_set_client(uint32_t client);
uint32_t mem_client(void); /* the client of this thread; 0 by default */
/* Sets the budget. 0, the default: no limit, but charged allocations are still counted. */
void mem_set_budget(size_t bytes);
size_t mem_budget(void);
/* Sets whether the clients share the budget fairly (shares.h). False, the default: one may take everything. */
void mem_share_budget(bool fair);
/* Returns the bytes that are charged now, including the heap's overhead. */
size_t mem_charged_bytes(void);
size_t mem_client_bytes(uint32_t client); /* the charged bytes of CLIENT */

/* Returns whether an allocation on this thread exceeded the budget since the last call of this function. */
bool mem_over_budget(void);

const char *mem_tag_name(enum mem_tag tag);

/* For tests: bytes and number of allocations that exist now. */
size_t mem_live_bytes(void);
size_t mem_live_blocks(void);
size_t mem_tag_bytes(enum mem_tag tag);

/* For tests: makes only the N-th allocation from now (1: the next) return NULL. 0: no allocation. */
void mem_fail_at(long n);
/* For tests: returns whether the allocation chosen by mem_fail_at() has failed. */
bool mem_failed(void);

/* While the guard of this thread is up (inside a step), every allocation and free aborts. Guards nest. */
void mem_guard_up(void);
void mem_guard_down(void);
bool mem_guarded(void);

#endif
