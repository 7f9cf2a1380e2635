/* test_normalize.c - the normal forms compared with those of utf8proc, which orders marks in quadratic time;
 * and the time of a hostile run of marks. */
#include <time.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "base/json/json_pull.h"
#include "base/utf8.h"
#include "text/tok/normalize.h"
#include "text/tok/steps.h"
#include "text/tok/unicode.h"

static uint64_t seed = 2463534242u;

static uint32_t dice(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % n;
}

static const utf8proc_option_t how[] = {
    [NORMALIZE_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
    [NORMALIZE_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
    [NORMALIZE_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [NORMALIZE_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

/* Appends S in FORM to GOT. Returns whether S changed. */
static bool to_form(int form, struct normalize_work *w, const char *s, size_t n, struct buf *got)
{
    struct step step = {.kind = NORMALIZE_FORM, .form = (enum step_form)form};
    struct json_str text = {s, n};

    assert_int_equal(normalize_run(&(struct steps){.step = &step, .n = 1, .cap = 1}, w, &text, NULL, NULL),
                     0);
    buf_add(got, text.s, text.n);
    return text.s != s;
}

static void compare(struct normalize_work *w, const char *s, size_t n)
{
    for (int form = NORMALIZE_NFC; form <= NORMALIZE_NFKD; form++) {
        struct buf got = {.tag = MEM_TEXT};
        utf8proc_uint8_t *want = NULL;
        utf8proc_ssize_t len =
            utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &want, how[form]);
        bool same;

        assert_true(len >= 0);
        to_form(form, w, s, n, &got);
        same = got.len == (size_t)len && memcmp(got.data ? got.data : "", want, got.len) == 0;
        if (!same)
            fail_msg("form %d of %.*s is %s, not %s", form, (int)n, s, got.data, (const char *)want);
        free(want);
        buf_fini(&got);
    }
}

static void every_character_alone_and_behind_another(void **state)
{
    static const uint32_t before[] = {'e', 0xe9, 0x304b, 0x1100, 0xac00, 0x9ac, 0x1e63};
    struct normalize_work w = {0};

    for (uint32_t c = 1; c < 0x30000; c += c < 0x3400 || c > 0xa000 ? 1 : 97) {
        char s[16];
        size_t n;

        if ((c >= 0xd800 && c < 0xe000) || unicode_is_young(c))
            continue;
        n = utf8_encode(before[c % 7], s);
        n += utf8_encode(c, s + n);
        compare(&w, s, n);
    }
    normalize_work_fini(&w);
}

static void random_heaps_of_marks_and_letters(void **state)
{
    static const uint32_t some[] = {'a',    'e',    ' ',    0xe9,   0x300,   0x301,  0x316,  0x323,  0x327,
                                    0x345,  0x1100, 0x1161, 0x11a8, 0xac00,  0xac01, 0x304b, 0x3099, 0x309a,
                                    0xfb01, 0x2126, 0x212b, 0x9c7,  0x9be,   0xf71,  0xf72,  0xf73,  0x1d15e,
                                    0x5d0,  0x5b7,  0x5bc,  0x4e2d, 0x2f800, 0x3d2,  0x1e9b, 0xfdfa};
    struct normalize_work w = {0};

    for (int k = 0; k < 20000; k++) {
        char s[400];
        size_t n = 0, want = k % 50 == 0 ? 60 : 1 + dice(12);

        for (size_t i = 0; i < want; i++)
            n += utf8_encode(some[dice(sizeof(some) / sizeof(*some))], s + n);
        compare(&w, s, n);
    }
    normalize_work_fini(&w);
    assert_int_equal(mem_live_blocks(), 0);
}

/* In Unicode 11, U+10F4D has the class 220, and an acute has 230. Newer tables would reorder them. */
static void characters_after_unicode_9_move(void **state)
{
    static const char *const same[] = {"q\xcc\x81\xf0\x90\xbd\x8d", /* an acute, and a mark of Unicode 11 */
                                       "\xf0\x90\xbd\x8d\xcc\x81", "\xf0\x90\xbd\x8d\xcc\x81\xf0\x90\xbd\x8d",
                                       "e\xf0\x90\xbd\x8d\xcc\x81", /* Composition does not cross it. */
                                       "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0"};
    struct normalize_work w = {0};

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        struct buf got = {.tag = MEM_TEXT};

        to_form(NORMALIZE_NFC, &w, same[i], strlen(same[i]), &got);
        assert_int_equal(got.len, strlen(same[i]));
        assert_memory_equal(got.data, same[i], got.len);
        buf_fini(&got);
    }
    normalize_work_fini(&w);
}

static void plain_text_is_left_as_it_is(void **state)
{
    static const char *const plain[] = {"", "abc", "\xc3\xa9\xc4\x80\xca\xaf",
                                        "\xd0\x96 \xe4\xb8\xad\xe6\x96\x87 \xea\xb0\x80"};
    struct normalize_work w = {0};
    struct buf got = {.tag = MEM_TEXT};

    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
        assert_false(to_form(NORMALIZE_NFC, &w, plain[i], strlen(plain[i]), &got));
        buf_clear(&got);
    }
    assert_true(to_form(NORMALIZE_NFD, &w, plain[2], strlen(plain[2]), &got));
    buf_fini(&got);
    normalize_work_fini(&w);
}

static void a_megabyte_of_marks_is_ordered_in_linear_time(void **state)
{
    size_t n = 1 << 20;
    char *s = malloc(n + 1);
    struct normalize_work w = {0};
    struct buf out = {.tag = MEM_TEXT};
    double begin = (double)clock() / CLOCKS_PER_SEC;

    s[0] = 'a';
    for (size_t i = 1; i + 1 < n; i += 2)
        memcpy(s + i, i < n / 2 ? "\xcc\x81" : "\xcc\x96", 2); /* class 230, then 220 */
    to_form(NORMALIZE_NFC, &w, s, n - 1, &out);
    assert_false(out.oom);
    assert_memory_equal(out.data, "\xc3\xa1\xcc\x96\xcc\x96",
                        6); /* The first acute composes. Then the marks of the lower class follow. */
    assert_true((double)clock() / CLOCKS_PER_SEC - begin < 5); /* An exchange sort takes 10^11 steps. */
    normalize_work_fini(&w);
    buf_fini(&out);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_alone_and_behind_another),
        cmocka_unit_test(random_heaps_of_marks_and_letters),
        cmocka_unit_test(characters_after_unicode_9_move),
        cmocka_unit_test(plain_text_is_left_as_it_is),
        cmocka_unit_test(a_megabyte_of_marks_is_ordered_in_linear_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
