/* tokbytes.c - the alphabet as arithmetic: 33..126, 161..172 and 174..255 are themselves; 0..32 are 256..288,
 * 127..160 are 289..322 and 173 is 323. The order is that of GPT-2's bytes_to_unicode().
 */
#include "text/tokbytes.h"

#include "base/utf8.h"

uint32_t tokbytes_letter(unsigned char b)
{
    if (b <= 32)
        return 256u + b;
    if (b >= 127 && b <= 160)
        return 289u + (b - 127u);
    return b == 173 ? 323u : b;
}

int tokbytes_byte(uint32_t letter)
{
    if (letter < 256)
        return letter <= 32 || (letter >= 127 && letter <= 160) || letter == 173 ? -1 : (int)letter;
    if (letter <= 288)
        return (int)(letter - 256);
    if (letter <= 322)
        return (int)(letter - 289 + 127);
    return letter == 323 ? 173 : -1;
}

size_t tokbytes_spell(const char *bytes, size_t n, char *out)
{
    char *o = out;

    for (size_t i = 0; i < n; i++)
        o += utf8_encode(tokbytes_letter((unsigned char)bytes[i]), o);
    return (size_t)(o - out);
}

bool tokbytes_read(const char *letters, size_t n, char *out, size_t *n_out)
{
    size_t i = 0, m = 0;

    while (i < n) {
        size_t step;
        int b = tokbytes_byte(utf8_decode(letters + i, &step));

        if (b < 0)
            return false;
        out[m++] = (char)b;
        i += step;
    }
    *n_out = m;
    return true;
}
