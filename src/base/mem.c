/* mem.c - puts a header with size and tag before each allocation, so that accounting is exact. */
#include "base/mem.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/shares.h"

enum { HEADER_BYTES = 16, HEAP_BYTES = 8, HEAP_ALIGN = 16, MAGIC_LIVE = 0x6d454d21, MAGIC_DEAD = 0x64454144 };

struct header {
    size_t bytes;
    uint16_t tag;
    /* 1 + the client for which the allocation counts against the budget; 0: it does not count */
    uint16_t payer;
    uint32_t magic;
};
_Static_assert(sizeof(struct header) <= HEADER_BYTES, "the header fits in front of a block");

static atomic_size_t live_bytes[MEM_N_TAGS];
static atomic_size_t live_blocks;
static atomic_long fail_countdown; /* 0: off; n: the n-th allocation from now fails */
static atomic_bool has_failed;
static struct shares charged;      /* bytes that count against the budget */
static atomic_size_t budget_bytes; /* 0: no limit */
static _Thread_local int guard_depth;
static _Thread_local bool lib_failed, over_budget;
static _Thread_local enum mem_charge charging;
static _Thread_local uint32_t client_of_thread;

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

size_t mem_budget(void)
{
    return atomic_load_explicit(&budget_bytes, memory_order_relaxed);
}

void mem_share_budget(bool fair)
{
    charged.fair = fair;
}

uint32_t mem_set_client(uint32_t client)
{
    uint32_t before = client_of_thread;

    ASSERT(client < SHARES_CLIENTS);
    client_of_thread = client;
    return before;
}

uint32_t mem_client(void)
{
    return client_of_thread;
}

size_t mem_charged_bytes(void)
{
    return atomic_load(&charged.n);
}

size_t mem_client_bytes(uint32_t client)
{
    return atomic_load(&charged.of[client]);
}

bool mem_over_budget(void)
{
    bool over = over_budget;

    over_budget = false;
    return over;
}

/* Charges N more bytes of PAYER to the budget. False: fewer are left of the budget or of the payer's share. */
static bool charge(uint16_t payer, size_t n)
{
    size_t most = mem_budget();

    if (most == 0)
        most = SIZE_MAX;
    else if (charging == MEM_CHARGE_NEW)
        most -= most / 8;
    if (payer == 0 || shares_take(&charged, payer - 1u, n, most, 0))
        return true;
    over_budget = true;
    return false;
}

static void discharge(uint16_t payer, size_t n)
{
    if (payer)
        shares_give(&charged, payer - 1u, n);
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

static void *account(struct header *h, size_t bytes, enum mem_tag tag, uint16_t payer)
{
    *h = (struct header){.bytes = bytes, .tag = (uint16_t)tag, .payer = payer, .magic = MAGIC_LIVE};
    atomic_fetch_add_explicit(&live_bytes[tag], bytes, memory_order_relaxed);
    return (char *)h + HEADER_BYTES;
}

static void *block_get(size_t bytes, enum mem_tag tag, bool zeroed)
{
    uint16_t payer = charging == MEM_CHARGE_NONE ? 0 : (uint16_t)(client_of_thread + 1);
    struct header *h;

    ASSERT(guard_depth == 0, "%zu bytes (%s) asked for inside a step", bytes, mem_tag_name(tag));
    if (should_fail() || bytes > SIZE_MAX - 4 * HEADER_BYTES || !charge(payer, cost(bytes)))
        return NULL;
    h = zeroed ? calloc(1, bytes + HEADER_BYTES) : malloc(bytes + HEADER_BYTES);
    if (!h) {
        discharge(payer, cost(bytes));
        return NULL;
    }
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return account(h, bytes, tag, payer);
}

void *mem_alloc(size_t bytes, enum mem_tag tag)
{
    return block_get(bytes, tag, false);
}

void *mem_zalloc(size_t n, size_t size, enum mem_tag tag)
{
    size_t bytes;

    return __builtin_mul_overflow(n, size, &bytes) ? NULL : block_get(bytes, tag, true);
}

void *mem_realloc(void *p, size_t bytes, enum mem_tag tag)
{
    struct header *h, *moved;
    size_t old, more;
    uint16_t payer;

    if (!p)
        return mem_alloc(bytes, tag);
    ASSERT(guard_depth == 0, "realloc to %zu bytes (%s) inside a step", bytes, mem_tag_name(tag));
    h = header_of(p);
    if (should_fail() || bytes > SIZE_MAX - 4 * HEADER_BYTES)
        return NULL;
    old = h->bytes;
    payer = h->payer;
    tag = (enum mem_tag)h->tag;
    more = cost(bytes) > cost(old) ? cost(bytes) - cost(old) : 0;
    if (more && !charge(payer, more))
        return NULL;
    moved = realloc(h, bytes + HEADER_BYTES);
    if (!moved) {
        discharge(payer, more);
        return NULL;
    }
    if (cost(bytes) < cost(old))
        discharge(payer, cost(old) - cost(bytes));
    atomic_fetch_sub_explicit(&live_bytes[tag], old, memory_order_relaxed);
    return account(moved, bytes, tag, payer);
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
    discharge(h->payer, cost(h->bytes));
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

void mem_return_large(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
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
