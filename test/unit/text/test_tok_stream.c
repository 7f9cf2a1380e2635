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

static void a_run_of_bytes_is_text_as_a_whole_or_not_at_all(void **state)
{
    expect(SEQUENCE(BYTES "," FUSE), TOKENS("<0xE9>", "<0xA6>", "<0xAC>", "a", "<0x41>"),
           SHOWS("", "", "",
                 "\xe9\xa6\xac"
                 "a",
                 "", "A"));
    expect(SEQUENCE(BYTES "," FUSE), TOKENS("<0x41>", "<0xE9>", "b"), SHOWS("", "", BAD BAD "b", ""));
    expect(SEQUENCE(BYTES "," FUSE), TOKENS("<0xe9>", "<0xA>", "<0xGG>"),
           SHOWS("", BAD "<0xA>", "<0xGG>", ""));
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

static void without_a_decoder_tokens_stand_apart(void **state)
{
    expect("null", TOKENS("a", "b", "c"), SHOWS("a", " b", " c", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_character_waits_for_its_other_half),
        cmocka_unit_test(a_token_outside_the_alphabet_stands_for_itself),
        cmocka_unit_test(a_run_of_bytes_is_text_as_a_whole_or_not_at_all),
        cmocka_unit_test(the_first_space_is_stripped_and_no_other),
        cmocka_unit_test(a_match_is_sought_in_each_token_alone),
        cmocka_unit_test(the_first_token_loses_its_marks),
        cmocka_unit_test(a_suffix_is_a_space_except_in_the_last_token),
        cmocka_unit_test(without_a_decoder_tokens_stand_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
