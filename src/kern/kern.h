/* kern.h - the kernel table: for each job a pure function on pointers, in the fastest version that the
 * machine can run.
 *
 * A kernel allocates nothing, locks nothing, logs nothing and cannot fail. It has no notion of models or
 * threads: callers divide the work. Each job has a portable kernel in ref/ and faster kernels in the folders
 * of instruction sets; kern.def lists them. The contracts are in gemm.h, quant.h, attention.h and vector.h.
 *
 * Order of arithmetic. Each output element has one canonical sum. It is the same in every kernel of an
 * arithmetic class, for every M, every tile and every caller, so that results are equal bit for bit:
 *   - gemm: one fp32 accumulator for each element, K ascending (gemm.h; the classes "bf16 dot" and "bf16 tile
 *     dot" have their own orders);
 *   - quantized gemm: sums of integers, exact in any order, and one formula that turns a sum into a float
 *     (quant.h);
 *   - 16-lane sums (norms, softmax): lane i adds the elements i, i + 16, i + 32, ... in ascending order. Then the
 *     lanes are folded: s[i] += s[i + 8] for i < 8, s[i] += s[i + 4] for i < 4, then the same with 2 and with 1;
 *   - exp, tanh, erf and everything that uses them: the formulas of kmath.h, operation by operation.
 * Subnormals are kept, except inside VDPBF16PS and TDPBF16PS. Products and sums are never contracted
 * (-ffp-contract=off); fused multiply-adds are written as fma. The sign and payload of NaNs are unspecified.
 */
#ifndef GALLOP_KERN_KERN_H
#define GALLOP_KERN_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "kern/attention.h"
#include "kern/functions.def"
#include "kern/gemm.h"
#include "kern/quant.h"
#include "kern/vector.h"

#define KERN_ENUM(name) KERN_FN_##name,
enum kern_fn { KERN_FUNCTIONS(KERN_ENUM) KERN_N_FUNCTIONS };
#undef KERN_ENUM

/* A table of kernels: a function pointer for each job. row[] holds, for each enum kern_fn, the
 * kernel's instruction set and its arithmetic class (kernels of one class give the same bits). */
#define KERN_FIELD(name) kern_##name##_fn *name;
struct kern {
    KERN_FUNCTIONS(KERN_FIELD)
    struct {
        enum cpu_isa isa;
        const char *class;
    } row[KERN_N_FUNCTIONS];
};
#undef KERN_FIELD

/* Returns the table of the fastest kernels that the machine can run and whose level is at most CAP. The
 * tables of all levels are filled at the first call in a process and constant afterwards, so engines of
 * several levels may compute at once. An engine keeps the pointer and hands it down as an argument. */
const struct kern *kern_table(enum cpu_isa cap);

/* Returns the name of function F: "gemm_bf16". */
const char *kern_name(enum kern_fn f);

/* Returns the instruction set of the kernel F in K. */
enum cpu_isa kern_isa(const struct kern *k, enum kern_fn f);

/* Returns the arithmetic class of the kernel F in K: "fp32", "bf16", ... */
const char *kern_class(const struct kern *k, enum kern_fn f);

/* Returns the largest number of rows for which the gemm F of K should be called at once; SIZE_MAX: no limit.
 * The gemms of level amx keep that many input rows in the cache of the core while they read the panels from
 * memory. Callers should not split rows further, because each call reads all panels again. */
static inline size_t kern_gemm_most(const struct kern *k, enum kern_fn f)
{
    return k->row[f].isa == CPU_AMX ? KERN_TOGETHER : SIZE_MAX;
}

/* Returns the bytes of scratch that the gemm F of K needs in kern_gemm.sums. Gemms of level amx store the
 * sums of several panels there; the others need none, because their sums are in registers or on the stack. */
static inline size_t kern_gemm_sums_bytes(const struct kern *k, enum kern_fn f)
{
    return k->row[f].isa == CPU_AMX ? KERN_PANELS * KERN_TOGETHER * KERN_NR * sizeof(float) : 0;
}

/* Fills OUT with the kernels of ISA alone; functions without such a kernel are NULL. Returns false if ISA is
 * not built in. Callers check with cpu_has() that the machine can run them. For tests and benchmarks. */
bool kern_rows(enum cpu_isa isa, struct kern *out);

#endif
