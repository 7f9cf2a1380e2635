/* test_tok_stream.c - decoder chains, token by token: the text after each token. Text that is held back is
 * neither lost nor shown too early. */
#include "base/buf.h"
#include "base/mem.h"
#include "text/tok/tok.h"

#define BYTES          "{\"type\":\"ByteFallback\"}"
#define FUSE           "{\"type\":\"Fuse\"}"
#define SEQUENCE(list) "{\"type\":\"Sequence\",\"decoders\":[" list "]}"
#define REPLACE(from, to) \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":\"" to "\"}"
#define STRIP(c, start) "{\"type\":\"Strip\",\"content\":\"" c "\",\"start\":" #start ",\"stop\":0}"

/* Streams TOKENS through DECODER. PIECES has the text after each token, and finally the text at the end. */
static void expect(const char *decoder, const char *const *tokens, const char *const *pieces)
{
    struct buf json = {.tag = MEM_TEXT}, out = {.tag = MEM_TEXT};
    struct err e = {0};
    struct tok_stream *d;
    struct tok *t;
    size_t n = 0;

    buf_fmt(&json, "{\"decoder\":%s,\"model\":{\"merges\":[],\"vocab\":{", decoder);
    for (; tokens[n]; n++) {
        size_t first = 0;

        while (strcmp(tokens[first], tokens[n]) != 0)
            first++;
        if (first < n)
            continue;
        buf_str(&json, n ? "," : "");
        buf_json_str(&json, tokens[n], strlen(tokens[n]));
        buf_fmt(&json, ":%zu", n);
    }
    buf_str(&json, "}}}");
    if (tok_open_json(&t, json.data, json.len, "t", &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(tok_stream_new(&d, t, false, &e), 0);
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i <= n; i++) {
            int32_t id = 0;

            buf_clear(&out);
            if (i < n)
                assert_true(tok_id_of(t, tokens[i], strlen(tokens[i]), &id));
            assert_int_equal(i < n ? tok_stream_put(d, id, &out, &e) : tok_stream_end(d, &out, &e), 0);
            if (strcmp(out.data ? out.data : "", pieces[i]) != 0)
                fail_msg("%s: step %zu shows \"%s\", not \"%s\"", decoder, i, out.data ? out.data : "",
                         pieces[i]);
        }
    }
    tok_stream_free(d);
    tok_close(t);
    buf_fini(&json);
    buf_fini(&out);
    assert_int_equal(mem_live_blocks(), 0);
}

#define TOKENS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SHOWS(...)  ((const char *const[]){__VA_ARGS__})
#define BAD         "\xef\xbf\xbd"

static void half_a_character_waits_for_its_other_half(void **state)
{
    /* U+00F0 U+0141 U+0132 U+0130 are the letters of the bytes F0 9F 90 8E. */
    expect("{\"type\":\"ByteLevel\"}", TOKENS("a\xc3\xb0\xc5\x81", "\xc4\xb2", "\xc4\xb0x", "y"),
           SHOWS("a", "", "\xf0\x9f\x90\x8ex", "y", ""));
    expect("{\"type\":\"ByteLevel\"}", TOKENS("\xc3\xb0\xc5\x81", "a", "\xc3\xa2"),
           SHOWS("", BAD "a", "", BAD));
    expect("{\"type\":\"ByteLevel\"}", TOKENS("\xc3\xa2", "\xc3\xa2", "\xc3\xbf"),
           SHOWS("", BAD, BAD BAD, ""));
}

static void a_token_outside_the_alphabet_stands_for_itself(void **state)
{
    expect("{\"type\":\"ByteLevel\"}",
           TOKENS("\xc4\xa0"
                  "a",
                  "\xc4\xa0 a", "\xe9\xa6\xac"),
           SHOWS(" a", "\xc4\xa0 a", "\xe9\xa6\xac", ""));
}

/* Characters of a run of byte pieces are shown when they are complete, so that a stop string in a long run ends the
 * answer at once. */
static void a_character_of_a_run_of_bytes_is_held_back(void **state)
{
    expect(SEQUENCE(BYTES "," FUSE), TOKENS("<0xE9>", "<0xA6>", "<0xAC>", "a", "<0x41>"),
           SHOWS("", "", "\xe9\xa6\xac", "a", "A", ""));
    expect(SEQUENCE(BYTES "," FUSE), TOKENS("<0x41>", "<0xE9>", "b"), SHOWS("A", "", BAD "b", ""));
    expect(SEQUENCE(BYTES "," FUSE), TOKENS("<0x41>", "<0xE9>", "<0xA6>"), SHOWS("A", "", "", BAD BAD));
    expect(SEQUENCE(BYTES "," FUSE), TOKENS("<0xE9>", "<0xA6>", "<0x42>", "<0xFF>", "<0x43>"),
           SHOWS("", "", BAD BAD BAD, BAD, BAD, ""));
    expect(SEQUENCE(BYTES "," FUSE), TOKENS("<0x41>", "<0xFF>", "<0x42>", "b", "<0x43>"),
           SHOWS("A", BAD, BAD, "b", "C", ""));
    expect(SEQUENCE(BYTES "," FUSE), TOKENS("<0xe9>", "<0xA>", "<0xGG>"),
           SHOWS("", BAD "<0xA>", "<0xGG>", ""));
}

/* A whole text is that of Hugging Face's library: a run that is not UTF-8 has no characters at all. */
static void a_run_of_bytes_is_text_as_a_whole_or_not_at_all(void **state)
{
    static const char vocabulary[] = "{\"decoder\":" SEQUENCE(
        BYTES "," FUSE) ",\"model\":{\"merges\":[],\"vocab\":{"
                        "\"<0xE9>\":0,\"<0xA6>\":1,\"<0xAC>\":2,\"a\":3,\"<0x41>\":4}}}";
    static const struct {
        int32_t id[6];
        size_t n;
        const char *text;
    } cases[] = {{{0, 1, 2, 3, 4},
                  5,
                  "\xe9\xa6\xac"
                  "aA"},
                 {{4, 0, 3}, 3, BAD BAD "a"},
                 {{4, 0}, 2, BAD BAD},
                 {{0, 1, 2, 4, 0, 1}, 6, BAD BAD BAD BAD BAD BAD},
                 {{3, 4, 3, 0}, 4, "aAa" BAD}};
    struct err e = {0};
    struct tok *t;

    if (tok_open_json(&t, vocabulary, sizeof(vocabulary) - 1, "t", &e) != 0)
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out = {.tag = MEM_TEXT};

        assert_int_equal(tok_decode(t, cases[i].id, cases[i].n, false, &out, &e), 0);
        buf_char(&out, 0);
        assert_string_equal(out.data, cases[i].text);
        buf_fini(&out);
    }
    tok_close(t);
}

static void the_first_space_is_stripped_and_no_other(void **state)
{
    expect(SEQUENCE(REPLACE("_", " ") "," BYTES "," FUSE "," STRIP(" ", 1)), TOKENS("__a", "_b", "_"),
           SHOWS(" a", " b", " ", ""));
    expect(SEQUENCE(FUSE "," STRIP(" ", 2)), TOKENS(" ", " ", " ", "x"), SHOWS("", "", " ", "x", ""));
    expect(SEQUENCE(STRIP("a", 1)), TOKENS("aab", "ab", "b"), SHOWS("ab", "b", "b", ""));
}

static void a_match_is_sought_in_each_token_alone(void **state)
{
    expect(SEQUENCE(REPLACE("abc", "X")), TOKENS("ab", "c", "abc"), SHOWS("ab", "c", "X", ""));
    expect("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"-\"}", TOKENS("a", "aab"),
           SHOWS("-", "-b", ""));
}

static void the_first_token_loses_its_marks(void **state)
{
    expect("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}",
           TOKENS("_a_", "_b"), SHOWS("a", " b", ""));
    expect("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"}", TOKENS("_a_", "_b"),
           SHOWS(" a ", " b", ""));
}

static void a_suffix_is_a_space_except_in_the_last_token(void **state)
{
    expect("{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", TOKENS("a", "b</w>", "c</w>"),
           SHOWS("", "a", "b ", "c"));
}

/* Streams TOKENS, of which "<s>" and "<t>" are special tokens, through DECODER. PIECES has the text after each
 * token, and finally the text at the end; a | is before the part that a special token wrote. */
static void expect_special(const char *decoder, const char *const *tokens, const char *const *pieces)
{
    struct buf json = {.tag = MEM_TEXT}, out = {.tag = MEM_TEXT}, shown = {.tag = MEM_TEXT};
    struct tok_stream *d, *copy;
    struct tok *t;
    struct err e;
    int32_t id;
    size_t n = 0;

    buf_fmt(
        &json,
        "{\"decoder\":%s,\"model\":{\"merges\":[],\"vocab\":{\"a\":0,\"b</w>\":1,\"<0x3C>\":2,\"\u00e2\":3}},"
        "\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true},"
        "{\"id\":5,\"content\":\"<t>\",\"special\":true},{\"id\":6,\"content\":\"<x>\",\"special\":false}]}",
        decoder);
    if (tok_open_json(&t, json.data, json.len, "t", &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(tok_stream_new(&d, t, false, &e), 0);
    for (bool more = true; more; n++) {
        size_t n_special;

        assert_int_equal(tok_stream_new(&copy, t, false, &e), 0); /* a copy goes on in the same way */
        assert_int_equal(tok_stream_copy(copy, d, &e), 0);
        tok_stream_free(d);
        d = copy;
        more = tokens[n] != NULL;
        buf_clear(&out);
        buf_clear(&shown);
        if (more)
            assert_true(tok_id_of(t, tokens[n], strlen(tokens[n]), &id));
        assert_int_equal(more ? tok_stream_put(d, id, &out, &e) : tok_stream_end(d, &out, &e), 0);
        n_special = tok_stream_n_special(d);
        assert_true(n_special <= out.len);
        buf_add(&shown, out.data, out.len - n_special);
        if (n_special)
            buf_char(&shown, '|');
        buf_add(&shown, out.data ? out.data + out.len - n_special : "", n_special);
        if (strcmp(shown.data ? shown.data : "", pieces[n]) != 0)
            fail_msg("%s: step %zu shows \"%s\", not \"%s\"", decoder, n, shown.data ? shown.data : "",
                     pieces[n]);
    }
    tok_stream_free(d);
    tok_close(t);
    buf_fini(&json);
    buf_fini(&out);
    buf_fini(&shown);
}

static void special_tokens_are_told_from_ordinary_text(void **state)
{
    expect_special("{\"type\":\"ByteLevel\"}", TOKENS("a", "<s>", "<x>", "<t>", "\xc3\xa2", "<s>", "a"),
                   SHOWS("a", "|<s>", "<x>", "|<t>", "", "|" BAD "<s>", "a", ""));
    expect_special(SEQUENCE(BYTES "," FUSE), TOKENS("<0x3C>", "<s>", "<0x3C>", "a", "<t>"),
                   SHOWS("<", "|<s>", "<", "a", "|<t>", ""));
    expect_special("{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", TOKENS("b</w>", "<s>", "<t>", "a", "<s>"),
                   SHOWS("", "b ", "|<s>", "|<t>", "a", "|<s>"));
    expect_special("null", TOKENS("a", "<s>", "a"), SHOWS("a", " |<s>", " a", ""));
}

/* A stream that leaves special tokens out has none in its texts. */
static void a_token_that_is_left_out_writes_nothing(void **state)
{
    static const char json[] = "{\"model\":{\"merges\":[],\"vocab\":{\"a\":0}},\"added_tokens\":"
                               "[{\"id\":1,\"content\":\"<s>\",\"special\":true}]}";
    struct buf out = {.tag = MEM_TEXT};
    struct tok_stream *d;
    struct tok *t;

    assert_int_equal(tok_open_json(&t, json, strlen(json), "t", NULL), 0);
    assert_int_equal(tok_stream_new(&d, t, true, NULL), 0);
    for (int32_t id = 0; id < 2; id++) {
        assert_int_equal(tok_stream_put(d, id, &out, NULL), 0);
        assert_int_equal(tok_stream_n_special(d), 0);
    }
    assert_string_equal(out.data, "a");
    tok_stream_free(d);
    assert_int_equal(tok_stream_new(&d, t, false, NULL), 0);
    assert_int_equal(tok_stream_put(d, 1, &out, NULL), 0);
    assert_int_equal(tok_stream_n_special(d), 3);
    assert_int_equal(tok_stream_put(d, 99, &out, NULL), 0); /* there is no such token */
    assert_int_equal(tok_stream_n_special(d), 0);
    assert_int_equal(tok_special_prefix(t, "<s>x"), 3);
    assert_int_equal(tok_special_prefix(t, "a<s>"), 0);
    assert_int_equal(tok_special_prefix(t, ""), 0);
    tok_stream_free(d);
    tok_close(t);
    buf_fini(&out);
}

static void without_a_decoder_tokens_stand_apart(void **state)
{
    expect("null", TOKENS("a", "b", "c"), SHOWS("a", " b", " c", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_character_waits_for_its_other_half),
        cmocka_unit_test(a_token_outside_the_alphabet_stands_for_itself),
        cmocka_unit_test(a_character_of_a_run_of_bytes_is_held_back),
        cmocka_unit_test(a_run_of_bytes_is_text_as_a_whole_or_not_at_all),
        cmocka_unit_test(the_first_space_is_stripped_and_no_other),
        cmocka_unit_test(a_match_is_sought_in_each_token_alone),
        cmocka_unit_test(the_first_token_loses_its_marks),
        cmocka_unit_test(a_suffix_is_a_space_except_in_the_last_token),
        cmocka_unit_test(special_tokens_are_told_from_ordinary_text),
        cmocka_unit_test(a_token_that_is_left_out_writes_nothing),
        cmocka_unit_test(without_a_decoder_tokens_stand_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
