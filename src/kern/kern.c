/* kern.c - fills the kernel table from kern.def.
 *
 * Rows come best first: a function gets the first row that the machine can run and the cap allows. The ref
 * rows are complete and need nothing, so no field stays empty. Knows the rows' names only; their types come
 * from struct kern.
 */
#include "kern/kern.h"

#include "base/err.h"

#define KERN(fn, rows, level, class) extern __typeof__(*((struct kern *)0)->fn) rows##_##fn;
#include "kern/kern.def"
#undef KERN

struct kern kern;

static struct {
    enum cpu_isa isa;
    const char *class;
} chosen[KERN_N_FUNCTIONS];

#define NAME(name, ret, params) #name,
static const char *const names[KERN_N_FUNCTIONS] = {KERN_FUNCTIONS(NAME)};
#undef NAME

void kern_init(enum cpu_isa cap)
{
    kern = (struct kern){0};
#define KERN(fn, rows, level, name)                   \
    if (!kern.fn && level <= cap && cpu_has(level)) { \
        kern.fn = rows##_##fn;                        \
        chosen[KERN_FN_##fn].isa = level;             \
        chosen[KERN_FN_##fn].class = name;            \
    }
#include "kern/kern.def"
#undef KERN
}

bool kern_rows(enum cpu_isa isa, struct kern *out)
{
    bool any = false;

    *out = (struct kern){0};
#define KERN(fn, rows, level, class) \
    if (level == isa) {              \
        out->fn = rows##_##fn;       \
        any = true;                  \
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

enum cpu_isa kern_isa(enum kern_fn f)
{
    ASSERT(f < KERN_N_FUNCTIONS && chosen[f].class, "kernel %d, before kern_init()", (int)f);
    return chosen[f].isa;
}

const char *kern_class(enum kern_fn f)
{
    ASSERT(f < KERN_N_FUNCTIONS && chosen[f].class, "kernel %d, before kern_init()", (int)f);
    return chosen[f].class;
}
