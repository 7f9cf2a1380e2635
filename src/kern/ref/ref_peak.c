/* ref_peak.c - the loops of peak.h in plain C, for machines without a faster version. */
#include "kern/peak.h"

#include <string.h>

enum { CHAINS = 32 };

double ref_peak_fma(size_t n)
{
    float acc[CHAINS], sum = 0;
    volatile float sink;

    for (int c = 0; c < CHAINS; c++)
        acc[c] = (float)c + 0.5f;
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < CHAINS; c++)
            acc[c] = acc[c] * 0.875f + 0.125f;
    for (int c = 0; c < CHAINS; c++)
        sum += acc[c];
    sink = sum;
    (void)sink;
    return (double)n * CHAINS * 2;
}

uint64_t ref_peak_read(const void *p, size_t bytes)
{
    uint64_t sum[8] = {0}, w[8];

    for (size_t i = 0; i + sizeof w <= bytes; i += sizeof w) {
        memcpy(w, (const char *)p + i, sizeof w);
        for (int c = 0; c < 8; c++)
            sum[c] += w[c];
    }
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
}
