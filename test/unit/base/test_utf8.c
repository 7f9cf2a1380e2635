/* test_utf8.c - well-formed and ill-formed UTF-8: all characters, all short sequences, and the examples of
 * the Unicode standard. */
#include "base/utf8.h"

/* Returns the length of the character at S, or 0, by the ranges of Unicode's table 3-7. */
static size_t reference(const unsigned char *s, size_t n)
{
    static const struct {
        unsigned char lo[4], hi[4];
        size_t len;
    } row[] = {
        {{0x00}, {0x7f}, 1},
        {{0xc2, 0x80}, {0xdf, 0xbf}, 2},
        {{0xe0, 0xa0, 0x80}, {0xe0, 0xbf, 0xbf}, 3},
        {{0xe1, 0x80, 0x80}, {0xec, 0xbf, 0xbf}, 3},
        {{0xed, 0x80, 0x80}, {0xed, 0x9f, 0xbf}, 3},
        {{0xee, 0x80, 0x80}, {0xef, 0xbf, 0xbf}, 3},
        {{0xf0, 0x90, 0x80, 0x80}, {0xf0, 0xbf, 0xbf, 0xbf}, 4},
        {{0xf1, 0x80, 0x80, 0x80}, {0xf3, 0xbf, 0xbf, 0xbf}, 4},
        {{0xf4, 0x80, 0x80, 0x80}, {0xf4, 0x8f, 0xbf, 0xbf}, 4},
    };

    for (size_t r = 0; r < sizeof(row) / sizeof(row[0]); r++) {
        size_t i = 0;
        while (i < row[r].len && i < n && s[i] >= row[r].lo[i] && s[i] <= row[r].hi[i])
            i++;
        if (i == row[r].len)
            return i;
    }
    return 0;
}

static void every_character_survives_encoding_and_decoding(void **state)
{
    for (uint32_t c = 0; c < 0x110000; c++) {
        char s[4];
        size_t n, len;
        bool good;

        if (c >= 0xd800 && c < 0xe000)
            continue;
        n = utf8_encode(c, s);
        assert_int_equal(n, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        assert_int_equal(utf8_decode(s, &len), c);
        assert_int_equal(len, n);
        assert_int_equal(utf8_sequence(s, n, &good), n);
        assert_true(good);
        assert_int_equal(utf8_valid_prefix(s, n), n);
        for (size_t cut = 1; cut < n; cut++) {
            assert_true(utf8_is_partial(s, cut));
            assert_int_equal(utf8_sequence(s, cut, &good), cut);
            assert_false(good);
        }
        assert_false(utf8_is_partial(s, n));
    }
}

static void every_sequence_of_three_bytes_is_judged_by_the_table(void **state)
{
    for (uint32_t v = 0; v < 1u << 24; v += v % 0x10000 < 0x8000 || v >= 0xe00000 ? 1 : 7) {
        unsigned char s[3] = {(unsigned char)(v >> 16), (unsigned char)(v >> 8), (unsigned char)v};
        size_t want = reference(s, 3);
        bool good;
        size_t n = utf8_sequence((const char *)s, 3, &good);

        if (good != (want > 0) || (good && n != want) || n < 1 || n > 3)
            fail_msg("%02x %02x %02x: good %d, length %zu, the table says %zu", s[0], s[1], s[2], good, n,
                     want);
    }
}

static void four_byte_sequences_end_at_10ffff(void **state)
{
    for (unsigned a = 0xee; a < 0x100; a++)
        for (unsigned b = 0; b < 0x100; b++)
            for (unsigned k = 0; k < 16; k++) {
                unsigned char s[4] = {(unsigned char)a, (unsigned char)b, k & 1 ? 0xbf : 0x80,
                                      k & 2 ? 0x80 : 0xc0};
                bool good;
                size_t n = utf8_sequence((const char *)s, 4, &good), want = reference(s, 4);

                assert_true(good == (want > 0) && (!good || n == want));
            }
}

/* Returns how many U+FFFD replace the ill-formed parts of S. */
static size_t replacements(const char *s, size_t n)
{
    size_t count = 0;
    bool good;

    for (size_t i = 0; i < n; i += utf8_sequence(s + i, n - i, &good), count += !good)
        ;
    return count;
}

static void ill_formed_parts_are_as_long_as_unicode_says(void **state)
{
    /* The examples are tables 3-8 to 3-11 of Unicode 15. */
    assert_int_equal(replacements("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", 9), 8);
    assert_int_equal(replacements("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", 9), 8);
    assert_int_equal(replacements("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", 9), 7);
    assert_int_equal(replacements("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9), 4);
}

static void the_first_bad_byte_is_found_wherever_it_stands(void **state)
{
    char s[64];

    for (size_t n = 1; n < 40; n++)
        for (size_t at = 0; at < n; at++) {
            memset(s, 'a', n);
            s[at] = (char)0x80;
            assert_int_equal(utf8_valid_prefix(s, n), at);
            s[at] = (char)0xe2; /* a character that the end of the text or an 'a' truncates */
            assert_int_equal(utf8_valid_prefix(s, n), at);
            if (at + 3 <= n) {
                memcpy(s + at, "\xe2\x82\xac", 3);
                assert_int_equal(utf8_valid_prefix(s, n), n);
            }
        }
    assert_int_equal(utf8_valid_prefix("", 0), 0);
}

static void a_part_that_nothing_can_complete_is_not_partial(void **state)
{
    assert_true(utf8_is_partial("\xf0\x9f\x98", 3));
    assert_false(utf8_is_partial("\xf0\x9f\x98\x80", 4));
    assert_false(utf8_is_partial("\xf0\x9f\x41", 3));
    assert_false(utf8_is_partial("\xed\xa0", 2)); /* would be a surrogate */
    assert_false(utf8_is_partial("\xc0", 1));
    assert_false(utf8_is_partial("\x80", 1));
    assert_false(utf8_is_partial("a", 1));
    assert_false(utf8_is_partial("\xc3\xa9\xc3", 3)); /* The first character is complete. */
}

/* Returns the result of utf8_printable() for TEXT. */
static const char *shown(const char *text)
{
    static char s[64];
    size_t n;

    strcpy(s, text);
    n = utf8_printable(s);
    assert_int_equal(n, strlen(s));
    return s;
}

static void what_a_terminal_would_obey_is_not_shown(void **state)
{
    assert_string_equal(shown(""), "");
    assert_string_equal(shown("a\tb\nc d~"), "a\tb\nc d~");
    assert_string_equal(shown("\x1b[2J\x07\x7f\r"), "?[2J???");
    assert_string_equal(shown("\xc2\x80|\xc2\x9b"
                              "31m|\xc2\x9f|\xc2\xa0"),
                        "?|?31m|?|\xc2\xa0"); /* C1 control characters */
    assert_string_equal(shown("\x9b"
                              "31m\xff."),
                        "?31m?."); /* the same as single bytes */
    /* text directions and BOM */
    assert_string_equal(shown("x\xe2\x80\xaey\xe2\x81\xa6z\xef\xbb\xbf."), "x?y?z?.");
    assert_string_equal(shown("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb \xe4\xb8\xad \xc3\xa9"),
                        "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb \xe4\xb8\xad \xc3\xa9");
    assert_string_equal(shown("cut \xe4\xb8"), "cut ");
}

static void digits_and_blanks_are_told_from_every_other_byte(void **state)
{
    static const char digits[] = "0123456789abcdefABCDEF", blanks[] = " \t\r\n";

    for (int c = -128; c < 256; c++) {
        const char *digit = (char)c ? strchr(digits, (char)c) : NULL;
        int value = !digit ? -1 : digit - digits < 16 ? (int)(digit - digits) : (int)(digit - digits) - 6;

        assert_int_equal(utf8_hex_digit((char)c), value);
        assert_true(utf8_is_blank((char)c) == ((char)c && strchr(blanks, (char)c)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_survives_encoding_and_decoding),
        cmocka_unit_test(every_sequence_of_three_bytes_is_judged_by_the_table),
        cmocka_unit_test(four_byte_sequences_end_at_10ffff),
        cmocka_unit_test(ill_formed_parts_are_as_long_as_unicode_says),
        cmocka_unit_test(the_first_bad_byte_is_found_wherever_it_stands),
        cmocka_unit_test(a_part_that_nothing_can_complete_is_not_partial),
        cmocka_unit_test(what_a_terminal_would_obey_is_not_shown),
        cmocka_unit_test(digits_and_blanks_are_told_from_every_other_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
