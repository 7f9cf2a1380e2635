/* mem.h - the heap with its accounting, its budget of requests, and its switches for tests.
 *
 * All our allocations use these functions, and so do those of libraries that have hooks for it (jansson,
 * PCRE2). Each one is tagged and counted, can be made to fail, and aborts inside a step. Large regions for
 * weights and KV come from map.h instead. Out of memory is never an abort: functions return NULL and the
 * caller reports ERR_NOMEM. Allocations are aligned to 16 bytes. arena.h and buf.h build on this header.
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

/* NULL: out of memory, or this allocation was asked to fail. Zero bytes give a valid pointer. */
void *mem_alloc(size_t bytes, enum mem_tag tag);

/* N x SIZE zeroed bytes. NULL also if the product overflows. */
void *mem_zalloc(size_t n, size_t size, enum mem_tag tag);

/* As realloc(). P may be NULL. On failure P is unchanged. */
void *mem_realloc(void *p, size_t bytes, enum mem_tag tag);

/* Grows an array to at least NEED elements of SIZE bytes, doubling *CAP. False: out of memory, nothing
 * changed. */
bool mem_grow(void **p, size_t *cap, size_t need, size_t size, enum mem_tag tag);

void mem_free(void *p); /* NULL is fine */
char *mem_strdup(const char *s, enum mem_tag tag);
char *mem_strndup(const char *s, size_t n, enum mem_tag tag);

/* For libraries with hooks for malloc and free. */
void *mem_lib_alloc(size_t bytes);

/* True if mem_lib_alloc() has failed on this thread since this was last called. Some libraries do not report
 * it: jansson then loses bytes of a string. */
bool mem_lib_failed(void);

/* ---- the budget of requests ---- */

/* Whose allocations count against the common budget of all requests. An allocation that was charged counts
 * until it is freed, by any thread, and also if it grows later. */
enum mem_charge {
    MEM_CHARGE_NONE, /* of no request: the default of a thread */
    /* Of a request that is not yet accepted: an eighth of the budget stays for accepted ones. */
    MEM_CHARGE_NEW,
    MEM_CHARGE_OLD, /* of accepted requests */
};

/* Sets how allocations of this thread are charged. They fail when the budget is used up. Returns the previous
 * value. */
enum mem_charge mem_charge(enum mem_charge c);
/* 0: no limit, the default. Charged allocations are counted in any case. */
void mem_set_budget(size_t bytes);
/* Bytes that are charged now, with the heap's overhead. */
size_t mem_charged_bytes(void);

/* True if the budget has refused an allocation on this thread since this was last called. */
bool mem_over_budget(void);

const char *mem_tag_name(enum mem_tag tag);

/* Tests: allocations that exist now. */
size_t mem_live_bytes(void);
size_t mem_live_blocks(void);
size_t mem_tag_bytes(enum mem_tag tag);

/* Tests: the N-th allocation from now (1: the next), and only that one, returns NULL. 0 switches this off. */
void mem_fail_at(long n);
/* Tests: true once the allocation chosen by mem_fail_at() has failed. */
bool mem_failed(void);

/* While the guard is up on this thread, every allocation or free aborts: nothing may allocate inside a step.
 * Guards nest. */
void mem_guard_up(void);
void mem_guard_down(void);
bool mem_guarded(void);

#endif
