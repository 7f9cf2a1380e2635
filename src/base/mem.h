/* mem.h - the heap with its accounting, its budget of requests, and its switches for tests.
 *
 * Every allocation of ours passes here, and so do those of the libraries that let us (jansson, PCRE2); it is
 * tagged, counted, made to fail on demand, and refused inside a step. Large regions for weights and KV come
 * from map.h instead. Nothing here aborts on exhaustion: NULL comes back and the caller reports ERR_NOMEM.
 * Allocations are aligned to 16 bytes. arena.h and buf.h build on this header.
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

/* NULL when out of memory or when this allocation was asked to fail. Zero bytes give a valid block. */
void *mem_alloc(size_t bytes, enum mem_tag tag);

/* N x SIZE zeroed bytes; NULL also when the product overflows. */
void *mem_zalloc(size_t n, size_t size, enum mem_tag tag);

/* As realloc(); P may be NULL. On failure P is untouched. */
void *mem_realloc(void *p, size_t bytes, enum mem_tag tag);

/* Grows an array to hold at least NEED elements of SIZE bytes, doubling *CAP. false: out of memory, nothing
 * changed. */
bool mem_grow(void **p, size_t *cap, size_t need, size_t size, enum mem_tag tag);

void mem_free(void *p); /* NULL is fine */
char *mem_strdup(const char *s, enum mem_tag tag);
char *mem_strndup(const char *s, size_t n, enum mem_tag tag);

/* For libraries that take malloc/free hooks. */
void *mem_lib_alloc(size_t bytes);

/* True if that has failed on this thread since it was asked last: not every library tells its caller, jansson
 * for instance loses bytes of a string then. */
bool mem_lib_failed(void);

/* ---- what requests hold ---- */

/* Whose allocations count against the budget of all requests together. A block that was charged counts until
 * it is freed, on whatever thread, also where it grows later. */
enum mem_charge {
    MEM_CHARGE_NONE, /* of no request: the default of a thread */
    MEM_CHARGE_NEW,  /* a request that is not accepted yet: it leaves an eighth of the budget to the others */
    MEM_CHARGE_OLD,  /* requests that are */
};

/* Allocations of this thread are charged like this from now on; they fail where the budget is used up.
 * Returns what it was before. */
enum mem_charge mem_charge(enum mem_charge c);
void mem_set_budget(size_t bytes); /* 0: none, which is the default; what is held is counted in any case */
size_t mem_charged_bytes(void);    /* that are held now, with what the heap needs to keep them apart */

/* True if the budget has refused an allocation on this thread since it was asked last. */
bool mem_over_budget(void);

const char *mem_tag_name(enum mem_tag tag);

/* Tests: what is held now. */
size_t mem_live_bytes(void);
size_t mem_live_blocks(void);
size_t mem_tag_bytes(enum mem_tag tag);

/* Tests: the N-th allocation from now (1 = the next), and only it, returns NULL. 0 switches off. */
void mem_fail_at(long n);
/* Tests: true once the allocation chosen by mem_fail_at() has failed. */
bool mem_failed(void);

/* While the guard is up on this thread, any allocation or free aborts: nothing may allocate inside a step.
 * Nests. */
void mem_guard_up(void);
void mem_guard_down(void);
bool mem_guarded(void);

#endif
