/* mem.h - the one door to the heap: tagged, counted, made to fail on demand, and shut inside a step.
 *
 * Every allocation of ours passes here, and so do those of the libraries that let us (jansson, PCRE2). Large
 * regions for weights and KV come from map.h instead. Nothing here aborts on exhaustion: NULL comes back and
 * the caller reports ERR_NOMEM. Blocks are aligned to 16 bytes.
 */
#ifndef GALLOP_BASE_MEM_H
#define GALLOP_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

enum mem_tag { MEM_BASE, MEM_TEXT, MEM_CKPT, MEM_MODEL, MEM_KV, MEM_ENGINE, MEM_APP, MEM_LIB, MEM_N_TAGS };

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

size_t mem_live_bytes(void);
size_t mem_live_blocks(void);
size_t mem_tag_bytes(enum mem_tag tag);
const char *mem_tag_name(enum mem_tag tag);

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
