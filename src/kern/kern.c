/* kern.c - fills the kernel tables from kern.def, one for each level.
 *
 * Kernels are listed best first: a function gets the first kernel that the machine can run and the level
 * allows. The ref kernels are complete and run everywhere, so no field stays NULL. This file declares the
 * kernels by name; their types are in the headers that kern.h includes.
 */
#include "kern/kern.h"

#include <pthread.h>

#include "base/err.h"

#define KERN(fn, rows, level, class) extern kern_##fn##_fn rows##_##fn;
#include "kern/kern.def"
#undef KERN

static struct kern table[CPU_N_ISAS]; /* constant after fill_tables() */
static pthread_once_t filled = PTHREAD_ONCE_INIT;

#define NAME(name) #name,
static const char *const names[KERN_N_FUNCTIONS] = {KERN_FUNCTIONS(NAME)};
#undef NAME

static void fill_table(struct kern *k, enum cpu_isa cap)
{
#define KERN(fn, rows, level, name)                 \
    if (!k->fn && level <= cap && cpu_has(level)) { \
        k->fn = rows##_##fn;                        \
        k->row[KERN_FN_##fn].isa = level;           \
        k->row[KERN_FN_##fn].class = name;          \
    }
#include "kern/kern.def"
#undef KERN
}

static void fill_tables(void)
{
    for (int cap = 0; cap < CPU_N_ISAS; cap++)
        fill_table(&table[cap], (enum cpu_isa)cap);
}

const struct kern *kern_table(enum cpu_isa cap)
{
    ASSERT(cap < CPU_N_ISAS, "level %d", (int)cap);
    pthread_once(&filled, fill_tables);
    return &table[cap];
}

bool kern_rows(enum cpu_isa isa, struct kern *out)
{
    bool any = false;

    *out = (struct kern){0};
#define KERN(fn, rows, level, name)          \
    if (level == isa) {                      \
        out->fn = rows##_##fn;               \
        out->row[KERN_FN_##fn].isa = level;  \
        out->row[KERN_FN_##fn].class = name; \
        any = true;                          \
    }
#include "kern/kern.def"
#undef KERN
    return any;
}

const char *kern_name(enum kern_fn f)
{
    ASSERT(f < KERN_N_FUNCTIONS, "kernel %d", (int)f);
    return names[f];
}

enum cpu_isa kern_isa(const struct kern *k, enum kern_fn f)
{
    ASSERT(f < KERN_N_FUNCTIONS && k->row[f].class, "kernel %d", (int)f);
    return k->row[f].isa;
}

const char *kern_class(const struct kern *k, enum kern_fn f)
{
    ASSERT(f < KERN_N_FUNCTIONS && k->row[f].class, "kernel %d", (int)f);
    return k->row[f].class;
}
