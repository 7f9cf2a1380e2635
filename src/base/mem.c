/* mem.c - puts a header with size and tag before each allocation, so that accounting is exact. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { HEADER_BYTES = 16, HEAP_BYTES = 8, HEAP_ALIGN = 16, MAGIC_LIVE = 0x6d454d21, MAGIC_DEAD = 0x64454144 };

struct header {
    size_t bytes;
    uint16_t tag;
    uint16_t charged; /* the allocation counts against the budget */
    uint32_t magic;
};
_Static_assert(sizeof(struct header) <= HEADER_BYTES, "the header fits in front of a block");

static atomic_size_t live_bytes[MEM_N_TAGS];
static atomic_size_t live_blocks;
static atomic_long fail_countdown; /* 0: off; n: the n-th allocation from now fails */
static atomic_bool has_failed;
static atomic_size_t charged_bytes, budget_bytes; /* budget 0: no limit */
static _Thread_local int guard_depth;
static _Thread_local bool lib_failed, over_budget;
static _Thread_local enum mem_charge charging;

/* ---- the budget of requests ---- */

/* Returns the heap memory that an allocation of BYTES uses, with all overhead. */
static size_t cost(size_t bytes)
{
    return (bytes + HEADER_BYTES + HEAP_BYTES + HEAP_ALIGN - 1) & ~(size_t)(HEAP_ALIGN - 1);
}

enum mem_charge mem_charge(enum mem_charge c)
{
    enum mem_charge before = charging;

    charging = c;
    return before;
}

void mem_set_budget(size_t bytes)
{
    atomic_store(&budget_bytes, bytes);
}

size_t mem_charged_bytes(void)
{
    return atomic_load(&charged_bytes);
}

bool mem_over_budget(void)
{
    bool over = over_budget;

    over_budget = false;
    return over;
}

/* Charges N more bytes to the budget. False: the budget does not have them. */
static bool charge(size_t n)
{
    size_t most = atomic_load_explicit(&budget_bytes, memory_order_relaxed),
           old = atomic_load_explicit(&charged_bytes, memory_order_relaxed);

    if (charging == MEM_CHARGE_NEW)
        most -= most / 8;
    do
        if (most && (n > most || old > most - n)) {
            over_budget = true;
            return false;
        }
    while (!atomic_compare_exchange_weak_explicit(&charged_bytes, &old, old + n, memory_order_relaxed,
                                                  memory_order_relaxed));
    return true;
}

static void discharge(size_t n)
{
    atomic_fetch_sub_explicit(&charged_bytes, n, memory_order_relaxed);
}

/* ---- allocations ---- */

static bool should_fail(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) <= 0)
        return false;
    if (atomic_fetch_sub(&fail_countdown, 1) != 1)
        return false;
    atomic_store(&has_failed, true);
    return true;
}

static struct header *header_of(void *p)
{
    struct header *h = (struct header *)((char *)p - HEADER_BYTES);

    ASSERT(h->magic == MAGIC_LIVE, "block %p was freed or is not ours", p);
    return h;
}

static void *account(struct header *h, size_t bytes, enum mem_tag tag, bool charged)
{
    *h = (struct header){.bytes = bytes, .tag = (uint16_t)tag, .charged = charged, .magic = MAGIC_LIVE};
    atomic_fetch_add_explicit(&live_bytes[tag], bytes, memory_order_relaxed);
    return (char *)h + HEADER_BYTES;
}

static void *get(size_t bytes, enum mem_tag tag, bool zeroed)
{
    bool charged = charging != MEM_CHARGE_NONE;
    struct header *h;

    ASSERT(guard_depth == 0, "%zu bytes (%s) asked for inside a step", bytes, mem_tag_name(tag));
    if (should_fail() || bytes > SIZE_MAX - 4 * HEADER_BYTES || (charged && !charge(cost(bytes))))
        return NULL;
    h = zeroed ? calloc(1, bytes + HEADER_BYTES) : malloc(bytes + HEADER_BYTES);
    if (!h) {
        discharge(charged ? cost(bytes) : 0);
        return NULL;
    }
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return account(h, bytes, tag, charged);
}

void *mem_alloc(size_t bytes, enum mem_tag tag)
{
    return get(bytes, tag, false);
}

void *mem_zalloc(size_t n, size_t size, enum mem_tag tag)
{
    size_t bytes;

    return __builtin_mul_overflow(n, size, &bytes) ? NULL : get(bytes, tag, true);
}

void *mem_realloc(void *p, size_t bytes, enum mem_tag tag)
{
    struct header *h, *moved;
    size_t old, more;
    bool charged;

    if (!p)
        return mem_alloc(bytes, tag);
    ASSERT(guard_depth == 0, "realloc to %zu bytes (%s) inside a step", bytes, mem_tag_name(tag));
    h = header_of(p);
    if (should_fail() || bytes > SIZE_MAX - 4 * HEADER_BYTES)
        return NULL;
    old = h->bytes;
    charged = h->charged;
    tag = (enum mem_tag)h->tag;
    more = charged && cost(bytes) > cost(old) ? cost(bytes) - cost(old) : 0;
    if (more && !charge(more))
        return NULL;
    moved = realloc(h, bytes + HEADER_BYTES);
    if (!moved) {
        discharge(more);
        return NULL;
    }
    if (charged && cost(bytes) < cost(old))
        discharge(cost(old) - cost(bytes));
    atomic_fetch_sub_explicit(&live_bytes[tag], old, memory_order_relaxed);
    return account(moved, bytes, tag, charged);
}

bool mem_grow(void **p, size_t *cap, size_t need, size_t size, enum mem_tag tag)
{
    size_t want = *cap ? *cap : 8, bytes;
    void *grown;

    if (need <= *cap)
        return true;
    while (want < need)
        if (__builtin_mul_overflow(want, (size_t)2, &want))
            return false;
    if (__builtin_mul_overflow(want, size, &bytes))
        return false;
    grown = mem_realloc(*p, bytes, tag);
    if (!grown)
        return false;
    *p = grown;
    *cap = want;
    return true;
}

void mem_free(void *p)
{
    struct header *h;

    if (!p)
        return;
    ASSERT(guard_depth == 0, "free inside a step");
    h = header_of(p);
    h->magic = MAGIC_DEAD;
    if (h->charged)
        discharge(cost(h->bytes));
    atomic_fetch_sub_explicit(&live_bytes[h->tag], h->bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    free(h);
}

char *mem_strndup(const char *s, size_t n, enum mem_tag tag)
{
    char *d = n < SIZE_MAX ? mem_alloc(n + 1, tag) : NULL;

    if (d) {
        memcpy(d, s, n);
        d[n] = 0;
    }
    return d;
}

char *mem_strdup(const char *s, enum mem_tag tag)
{
    return mem_strndup(s, strlen(s), tag);
}

void *mem_lib_alloc(size_t bytes)
{
    void *p = mem_alloc(bytes, MEM_LIB);

    lib_failed = lib_failed || !p;
    return p;
}

bool mem_lib_failed(void)
{
    bool failed = lib_failed;

    lib_failed = false;
    return failed;
}

size_t mem_tag_bytes(enum mem_tag tag)
{
    return atomic_load(&live_bytes[tag]);
}

size_t mem_live_bytes(void)
{
    size_t sum = 0;

    for (int t = 0; t < MEM_N_TAGS; t++)
        sum += mem_tag_bytes((enum mem_tag)t);
    return sum;
}

size_t mem_live_blocks(void)
{
    return atomic_load(&live_blocks);
}

const char *mem_tag_name(enum mem_tag tag)
{
    static const char *const name[MEM_N_TAGS] = {"base", "text",   "net", "ckpt", "model",
                                                 "kv",   "engine", "api", "app",  "lib"};
    return name[tag];
}

void mem_fail_at(long n)
{
    atomic_store(&has_failed, false);
    atomic_store(&fail_countdown, n);
}

bool mem_failed(void)
{
    return atomic_load(&has_failed);
}

void mem_guard_up(void)
{
    guard_depth++;
}

void mem_guard_down(void)
{
    ASSERT(guard_depth > 0);
    guard_depth--;
}

bool mem_guarded(void)
{
    return guard_depth > 0;
}
