/* linear_native.c - backend "native": the portable reference rows, whatever the machine. Slow; every other
 * backend is tested against it. */
#include "ops/panel.h"

static bool accepts(const struct linear_desc *d, const char **why_not)
{
    *why_not = "it computes in fp32 and bf16 only";
    return d->dtype == DT_F32 || d->dtype == DT_BF16;
}

static void run(const struct linear *l, const void *x, size_t ldx, float *y, size_t ldy, size_t m, size_t p0,
                size_t p1, void *scratch)
{
    const struct kern_gemm g = {.a = x,
                                .lda = ldx,
                                .b = l->packed,
                                .c = y,
                                .ldc = ldy,
                                .bias = l->bias,
                                .m = m,
                                .k = l->k,
                                .n = l->n};

    (void)scratch;
    if (l->dtype == DT_F32)
        kern_table(CPU_REF)->gemm_f32(&g, p0, p1);
    else
        kern_table(CPU_REF)->gemm_bf16(&g, p0, p1);
}

const struct linear_backend linear_native = {
    .name = "native", .accepts = accepts, .packed_bytes = panel_bytes, .pack = panel_pack, .run = run};
