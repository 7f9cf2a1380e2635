/* bytes.c - the alphabet as arithmetic: 33..126, 161..172 and 174..255 are themselves; 0..32 are 256..288,
 * 127..160 are 289..322 and 173 is 323. The order is that of GPT-2's bytes_to_unicode().
 */
#include "text/tok/bytes.h"

#include "base/utf8.h"

uint32_t bytes_letter(unsigned char b)
{
    if (b <= 32)
        return 256u + b;
    if (b >= 127 && b <= 160)
        return 289u + (b - 127u);
    return b == 173 ? 323u : b;
}

int bytes_byte(uint32_t letter)
{
    if (letter < 256)
        return letter <= 32 || (letter >= 127 && letter <= 160) || letter == 173 ? -1 : (int)letter;
    if (letter <= 288)
        return (int)(letter - 256);
    if (letter <= 322)
        return (int)(letter - 289 + 127);
    return letter == 323 ? 173 : -1;
}

size_t bytes_spell(const char *bytes, size_t n, char *out)
{
    char *o = out;

    for (size_t i = 0; i < n; i++)
        o += utf8_encode(bytes_letter((unsigned char)bytes[i]), o);
    return (size_t)(o - out);
}

bool bytes_read(const char *letters, size_t n, char *out, size_t *n_out)
{
    size_t i = 0, m = 0;

    while (i < n) {
        size_t step;
        int b = bytes_byte(utf8_decode(letters + i, &step));

        if (b < 0)
            return false;
        out[m++] = (char)b;
        i += step;
    }
    *n_out = m;
    return true;
}

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

bool bytes_from_base64(const char *s, size_t n, char *out, size_t *n_out)
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
