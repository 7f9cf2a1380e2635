/* shorttexts.c - languages of short texts as sets of 63 bits. */
#include "shorttexts.h"

uint32_t short_dice(uint32_t n)
{
    static uint64_t seed = 88172645463325252u;

    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % n;
}

size_t short_text(unsigned number, char out[SHORT_LONGEST])
{
    size_t n = 0;

    while ((2u << n) - 1 <= number)
        n++;
    for (size_t i = 0; i < n; i++)
        out[i] = "ab"[(number + 1) >> (n - 1 - i) & 1];
    return n;
}

unsigned short_number(const char *text, size_t n)
{
    unsigned v = 1;

    for (size_t i = 0; i < n; i++)
        v = 2 * v + (text[i] == 'b');
    return v - 1;
}

uint64_t short_concat(uint64_t a, uint64_t b)
{
    uint64_t out = 0;
    char text[2 * SHORT_LONGEST];

    for (unsigned i = 0; i < SHORT_TEXTS; i++)
        for (unsigned j = 0; (a >> i & 1) && j < SHORT_TEXTS; j++) {
            size_t n = short_text(i, text);

            if (b >> j & 1 && (n += short_text(j, text + n)) <= SHORT_LONGEST)
                out |= UINT64_C(1) << short_number(text, n);
        }
    return out;
}

uint64_t short_repeat(uint64_t a, unsigned least, unsigned most)
{
    uint64_t power = 1, out = 0;

    /* 6 repetitions of texts that are not empty are too long, and more add nothing */
    for (unsigned i = 0; i <= (most < 12 ? most : 12); i++, power = short_concat(power, a))
        out |= i >= least ? power : 0;
    return out;
}
