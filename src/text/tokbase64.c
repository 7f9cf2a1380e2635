/* tokbase64.c - four characters are three bytes. */
#include "text/tokbase64.h"

#include <stdint.h>

static int sextet(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool tokbase64_read(const char *s, size_t n, char *out, size_t *n_out)
{
    size_t end = n, m = 0;
    uint32_t bits = 0;
    int have = 0;

    while (end > 0 && s[end - 1] == '=' && n - end < 2)
        end--;
    for (size_t i = 0; i < end; i++) {
        int v = sextet(s[i]);

        if (v < 0)
            return false;
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[m++] = (char)(bits >> have & 0xff);
        }
    }
    *n_out = m;
    return have < 6;
}
