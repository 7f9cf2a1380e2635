/* mem.h - memory: the heap with its accounting, arenas that end at once, and growing runs of bytes.
 *
 * Every allocation of ours passes here, and so do those of the libraries that let us (jansson, PCRE2); it is
 * tagged, counted, made to fail on demand, and refused inside a step. Large regions for weights and KV come
 * from map.h instead. Nothing here aborts on exhaustion: NULL comes back and the caller reports ERR_NOMEM.
 * Blocks are aligned to 16 bytes. Arenas and buffers belong to one thread at a time.
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

/* ---- arenas ---- */

/* Many small allocations with one end of life (a request, a parsed file): memory comes in chunks and goes
 * back all at once. */
struct arena_chunk;

struct arena {
    struct arena_chunk *chunk; /* newest first */
    size_t used;               /* bytes used of the newest chunk */
    enum mem_tag tag;
};

void arena_init(struct arena *a, enum mem_tag tag);
void *arena_alloc(struct arena *a, size_t bytes);              /* NULL: out of memory; contents undefined */
void *arena_zalloc(struct arena *a, size_t n, size_t size);    /* zeroed; NULL also on overflow */
char *arena_strndup(struct arena *a, const char *s, size_t n); /* terminated copy */
void arena_fini(struct arena *a);                              /* frees everything; a zeroed arena is fine */

/* ---- growing runs of bytes ---- */

/* Running out of memory is sticky: appends become no-ops and `oom` stays set, so a writer checks once at its
 * end. data is terminated by a zero byte that len does not count (NULL while empty). */
struct buf {
    char *data;
    size_t len, cap;
    enum mem_tag tag;
    bool oom;
};

void buf_init(struct buf *b, enum mem_tag tag);
/* The next N bytes need no memory; false, and oom: out of memory. */
bool buf_reserve(struct buf *b, size_t n);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b); /* keeps the memory; forgets oom */
void buf_fini(struct buf *b);  /* a zeroed buf is fine */

/* ---- JSON, written into a buffer; a comma is put where the bytes before end a value ---- */

void buf_json_begin(struct buf *b, char bracket); /* '{' or '[' */
void buf_json_end(struct buf *b, char bracket);   /* '}' or ']' */
void buf_json_key(struct buf *b, const char *key);
void buf_json_int(struct buf *b, int64_t v);
void buf_json_real(struct buf *b, double v); /* finite; with a point or an exponent, and all of its digits */
void buf_json_float(struct buf *b, float v); /* the same for a float, which has fewer */
void buf_json_bool(struct buf *b, bool v);
void buf_json_null(struct buf *b);

/* The bytes as a JSON string literal with quotes: escapes what JSON must and the line ends U+0085, U+2028
 * and U+2029, keeps other UTF-8 as it is, and writes U+FFFD for each maximal ill-formed sequence, so that
 * what comes out is always valid JSON on one line. */
void buf_json_str(struct buf *b, const char *s, size_t n);

#endif
