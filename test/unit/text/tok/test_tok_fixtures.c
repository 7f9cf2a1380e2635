/* test_tok_fixtures.c - the small tokenizers of test/data/tokenizers compared with the answers of the
 * reference libraries (NAME.answers.json, made by test/make/tok-fixtures): encoding in three ways, decoding, and
 * streaming. */
#include <jansson.h>
#include <pthread.h>

#include "base/buf.h"
#include "base/files/folder.h"
#include "base/utf8.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

static const char *const fixture[] = {
    "accents.json",
    "bert.json",
    "blank-tokens.json",
    "empty-token.json",
    "falcon.json",
    "first-longer.json",
    "first-removed.json",
    "first-stripped.json",
    "gemma.json",
    "gpt2.json",
    "llama2.json",
    "llama3.json",
    "metaspace-never.json",
    "metaspace.json",
    "mistral.json",
    "neox.json",
    "nested.json",
    "nfkd.json",
    "o200k.json",
    "punctuation.json",
    "regex.json",
    "roberta.json",
    "sp-bpe.model",
    "sp-unigram.model",
    "sp-rules.model",
    "precompiled.json",
    "precompiled-first.json",
    "split-contiguous-inverted.json",
    "split-contiguous.json",
    "split-isolated-inverted.json",
    "split-isolated.json",
    "split-merged-with-next-inverted.json",
    "split-merged-with-next.json",
    "split-merged-with-previous-inverted.json",
    "split-merged-with-previous.json",
    "split-removed-inverted.json",
    "split-removed.json",
    "suffix.json",
    "unigram-bytes.json",
    "unigram.json",
    "gpt2-files",
    "tiktoken-files",
};

enum { N_FIXTURES = sizeof(fixture) / sizeof(*fixture) };

static struct tok *open_fixture(const char *name)
{
    struct tok *t = NULL;
    struct err e = {0};
    char path[1024];

    snprintf(path, sizeof(path), "%s/test/data/tokenizers/%s", GALLOP_SOURCE_DIR, name);
    if (tok_open(&t, folder_at(path), &e) != 0)
        fail_msg("%s", e.msg);
    return t;
}

static json_t *open_answers(const char *name)
{
    const char *dot = strrchr(name, '.');
    char path[1024];
    json_error_t je;
    json_t *j;

    snprintf(path, sizeof(path), "%s/test/data/tokenizers/%.*s.answers.json", GALLOP_SOURCE_DIR,
             (int)(dot ? (size_t)(dot - name) : strlen(name)), name);
    j = json_load_file(path, JSON_ALLOW_NUL, &je);
    if (!j)
        fail_msg("%s: %s", path, je.text);
    return j;
}

static bool same_ids(const struct tok_ids *ids, const json_t *want)
{
    bool same = json_is_array(want) && ids->n == json_array_size(want);

    for (size_t i = 0; same && i < ids->n; i++)
        same = ids->id[i] == json_integer_value(json_array_get(want, i));
    return same;
}

static bool same_text(const struct buf *b, const json_t *want)
{
    return json_is_string(want) && b->len == json_string_length(want) &&
           memcmp(b->data ? b->data : "", json_string_value(want), b->len) == 0;
}

static void show_ids(const char *what, const struct tok_ids *ids)
{
    print_error("%s:", what);
    for (size_t i = 0; i < ids->n; i++)
        print_error(" %d", ids->id[i]);
    print_error("\n");
}

static void expect_ids(const char *name, const struct tok *t, const json_t *text, unsigned flags,
                       const json_t *want)
{
    struct tok_ids ids = {0};
    struct err e = {0};

    if (tok_encode(t, json_string_value(text), json_string_length(text), flags, &ids, &e) != 0)
        fail_msg("%s: %s", name, e.msg);
    if (!same_ids(&ids, want)) {
        show_ids("here", &ids);
        fail_msg("%s: flags %u, text \"%s\"; there %s", name, flags, json_string_value(text),
                 json_dumps(want, JSON_COMPACT));
    }
    tok_ids_fini(&ids);
}

/* Streams the ids. Every piece must be UTF-8. */
static void stream(const struct tok *t, const struct tok_ids *ids, bool skip, struct buf *joined)
{
    struct tok_stream *d;

    assert_int_equal(tok_stream_new(&d, t, skip, NULL), 0);
    for (size_t i = 0; i <= ids->n; i++) {
        size_t before = joined->len;

        assert_int_equal(
            i < ids->n ? tok_stream_put(d, ids->id[i], joined, NULL) : tok_stream_end(d, joined, NULL), 0);
        if (joined->len > before)
            assert_int_equal(utf8_valid_prefix(joined->data + before, joined->len - before),
                             joined->len - before);
    }
    tok_stream_free(d);
}

static void expect_text(const char *name, const struct tok *t, const json_t *list, bool skip,
                        const json_t *want)
{
    struct buf whole = {.tag = MEM_TEXT}, joined = {.tag = MEM_TEXT};
    struct tok_ids ids = {0};

    assert_true(mem_grow((void **)&ids.id, &ids.cap, json_array_size(list) + 1, sizeof(*ids.id), MEM_TEXT));
    for (size_t i = 0; i < json_array_size(list); i++)
        ids.id[ids.n++] = (int32_t)json_integer_value(json_array_get(list, i));
    assert_int_equal(tok_decode(t, ids.id, ids.n, skip, &whole, NULL), 0);
    stream(t, &ids, skip, &joined);
    /* In a stream a run of byte pieces that is not UTF-8 keeps the characters in it (test_tok_stream). */
    if (!same_text(&whole, want) ||
        (!same_text(&joined, want) && !strstr(json_string_value(want), "\xef\xbf\xbd"))) {
        show_ids("ids", &ids);
        fail_msg("%s: decoded \"%s\", streamed \"%s\", there \"%s\"", name, whole.data, joined.data,
                 json_string_value(want));
    }
    tok_ids_fini(&ids);
    buf_fini(&whole);
    buf_fini(&joined);
}

static void compare(const char *name, const struct tok *t, const json_t *answers)
{
    const json_t *row, *other;
    size_t i;

    json_array_foreach(json_object_get(answers, "rows"), i, row)
    {
        const json_t *text = json_object_get(row, "text"), *ids = json_object_get(row, "ids");

        expect_ids(name, t, text, 0, ids);
        other = json_object_get(row, "special");
        expect_ids(name, t, text, TOK_ADD_SPECIAL, other ? other : ids);
        other = json_object_get(row, "plain");
        expect_ids(name, t, text, TOK_PLAIN, other ? other : ids);
        if ((other = json_object_get(row, "decoded")) != NULL)
            expect_text(name, t, ids, false, other);
    }
    json_array_foreach(json_object_get(answers, "decode"), i, row)
    {
        const json_t *ids = json_object_get(row, "ids"), *text = json_object_get(row, "text");

        expect_text(name, t, ids, false, text);
        other = json_object_get(row, "skip");
        expect_text(name, t, ids, true, other ? other : text);
    }
}

static void every_fixture_answers_as_the_reference_does(void **state)
{
    for (size_t i = 0; i < N_FIXTURES; i++) {
        struct tok *t = open_fixture(fixture[i]);
        json_t *answers = open_answers(fixture[i]);

        assert_true(json_array_size(json_object_get(answers, "rows")) > 10);
        compare(fixture[i], t, answers);
        json_decref(answers);
        tok_close(t);
    }
    assert_int_equal(mem_live_blocks(), 0);
}

static void the_comparison_can_fail(void **state)
{
    struct tok_ids ids = {0};
    struct buf text = {.tag = MEM_TEXT};
    json_t *want = json_pack("[i,i]", 5, 6), *string = json_string("ab");
    uint32_t some[] = {5, 7};

    assert_false(same_ids(&ids, want));
    assert_true(mem_grow((void **)&ids.id, &ids.cap, 2, sizeof(*ids.id), MEM_TEXT));
    memcpy(ids.id, some, sizeof(some));
    ids.n = 2;
    assert_false(same_ids(&ids, want));
    ids.id[1] = 6;
    assert_true(same_ids(&ids, want));
    buf_str(&text, "ac");
    assert_false(same_text(&text, string));
    json_decref(want);
    json_decref(string);
    tok_ids_fini(&ids);
    buf_fini(&text);
}

/* Opens, encodes, decodes and closes. Any allocation may fail. Returns the first code that is not 0. */
static int whole_life(const char *name)
{
    static const char text[] =
        "It's <s> Caf\xc3\xa9 e\xcc\x81 123 \xe9\xa6\xac<tool> theretheretherewhetherwhethertheretherethere the.";
    struct tok *t = NULL;
    struct tok_ids ids = {0};
    struct buf out = {.tag = MEM_TEXT};
    struct err e = {0};
    char path[1024];
    int rc;

    snprintf(path, sizeof(path), "%s/test/data/tokenizers/%s", GALLOP_SOURCE_DIR, name);
    rc = tok_open(&t, folder_at(path), &e);
    assert_true((rc == 0) == (t != NULL));
    if (rc == 0)
        rc = tok_encode(t, text, sizeof(text) - 1, TOK_ADD_SPECIAL, &ids, &e);
    if (rc == 0)
        rc = tok_decode(t, ids.id, ids.n, false, &out, &e);
    if (rc)
        assert_true(e.msg[0] != 0);
    tok_close(t);
    tok_ids_fini(&ids);
    buf_fini(&out);
    return rc;
}

static void any_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    for (size_t i = 0; i < N_FIXTURES; i++) {
        for (long n = 1;; n++) {
            int rc;
            bool failed;

            mem_fail_at(n);
            rc = whole_life(fixture[i]);
            failed = mem_failed();
            mem_fail_at(0);
            if (mem_live_blocks() != 0)
                fail_msg("%s: allocation %ld failed and %zu blocks leaked", fixture[i], n, mem_live_blocks());
            if (!failed) {
                assert_int_equal(rc, 0);
                break;
            }
            if (rc != 0 && rc != ERR_NOMEM)
                fail_msg("%s: allocation %ld failed and the code was %d", fixture[i], n, rc);
        }
    }
}

static void text_that_is_not_utf8_is_refused_with_the_byte_that_is_not(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"\xff", "byte 0xff at position 0"},       {"twelve bytes\xff", "byte 0xff at position 12"},
        {"\xe2\x82 x", "byte 0xe2 at position 0"}, {"caf\xc3\xa9 \xf0\x9f\x90", "byte 0xf0 at position 6"},
        {"a\xc0\xaf", "byte 0xc0 at position 1"},  {"a\xed\xa0\x80", "byte 0xed at position 1"},
        {"<s>\x80<s>", "byte 0x80 at position 3"},
    };
    struct tok *t = open_fixture("llama3.json");

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct tok_ids ids = {0};
        struct err e = {0};
        char want[64];

        snprintf(want, sizeof(want), "the text is not UTF-8: %s", bad[i].words);
        assert_int_equal(tok_encode(t, "the", 3, 0, &ids, NULL), 0);
        assert_int_equal(tok_encode(t, bad[i].text, strlen(bad[i].text), TOK_ADD_SPECIAL, &ids, &e),
                         ERR_INPUT);
        assert_string_equal(e.msg, want);
        assert_int_equal(ids.n, 1); /* The text did not change. */
        tok_ids_fini(&ids);
    }
    tok_close(t);
}

static void ids_are_appended_and_pieces_found_again(void **state)
{
    struct tok *t = open_fixture("llama3.json");
    struct tok_ids ids = {0};
    int32_t id, n_ids;
    const char *s;
    size_t n;

    assert_int_equal(tok_encode(t, "the", 3, TOK_ADD_SPECIAL, &ids, NULL), 0);
    assert_int_equal(tok_encode(t, "the", 3, 0, &ids, NULL), 0);
    assert_true(ids.n >= 3 && ids.id[0] != ids.id[1]);
    assert_true(tok_is_special(t, ids.id[0]));
    assert_false(tok_is_special(t, ids.id[1]));
    assert_false(tok_is_special(t, -1));
    assert_false(tok_is_special(t, INT32_MAX));
    for (n_ids = 0; tok_piece(t, n_ids, &s, &n); n_ids++) {
        assert_true(tok_id_of(t, s, n, &id));
        assert_int_equal(id, n_ids);
    }
    assert_true(n_ids > 300);
    assert_false(tok_id_of(t, "no such piece", 13, &id));
    assert_string_equal(tok_kind(t), "bpe (byte-level)");
    tok_ids_fini(&ids);
    tok_close(t);
}

/* Checks that TEXT, repeated up to MORE bytes, has at least as many ids as the bound says. */
static void expect_bound(const char *name, const struct tok *t, const char *text, size_t n, size_t more)
{
    size_t most = tok_most_bytes(t);
    struct buf all = {.tag = MEM_TEXT};
    struct tok_ids ids = {0};
    struct err e = {0};

    if (most == SIZE_MAX)
        return;
    for (size_t i = 0; i == 0 || all.len < more; i++)
        buf_add(&all, text, n);
    if (n && tok_encode(t, all.data, all.len, 0, &ids, &e) == 0 &&
        ids.n < all.len / most + (all.len % most != 0))
        fail_msg("%s: %zu ids of %zu bytes like '%.*s', more than %zu bytes each", name, ids.n, all.len,
                 (int)(n < 60 ? n : 60), text, most);
    buf_fini(&all);
    tok_ids_fini(&ids);
}

/* If a normalizer shortens a text, a model drops a part of it, or one token covers it, the bound holds or is
 * SIZE_MAX. */
static void no_id_takes_up_more_bytes_than_are_said(void **state)
{
    static const struct {
        const char *name;
        size_t most;
    } bound[] = {{"gpt2.json", 6},
                 {"falcon.json", 6},
                 {"nested.json", 6},
                 {"gpt2-files", 6},
                 {"tiktoken-files", 6},
                 {"sp-bpe.model", 9},
                 {"neox.json", 8 * 9},
                 {"bert.json", SIZE_MAX},
                 {"nfkd.json", SIZE_MAX},
                 {"llama3.json", SIZE_MAX},
                 {"precompiled.json", SIZE_MAX},
                 {"split-removed.json", SIZE_MAX},
                 {"unigram.json", SIZE_MAX},
                 {"sp-unigram.model", SIZE_MAX},
                 {"suffix.json", SIZE_MAX}};
    static const char *const texts[] = {" ",        "\n",        "a",    "\xe2\x84\xaa", "\xf0\x9f\xa6\x99",
                                        "\xcd\xbe", "e\xcc\x81", "\x01", "<mask>   "};

    for (size_t i = 0; i < N_FIXTURES; i++) {
        struct tok *t = open_fixture(fixture[i]);
        json_t *answers = open_answers(fixture[i]), *row;
        const char *s;
        size_t n, k;

        json_array_foreach(json_object_get(answers, "rows"), k, row)
            expect_bound(fixture[i], t, json_string_value(json_object_get(row, "text")),
                         json_string_length(json_object_get(row, "text")), 0);
        for (k = 0; k < sizeof(texts) / sizeof(*texts); k++)
            expect_bound(fixture[i], t, texts[k], strlen(texts[k]), 5000);
        for (k = 0; k < 3000 && tok_piece(t, (int32_t)k, &s, &n); k++)
            expect_bound(fixture[i], t, s, n, 0);
        for (k = 0; k < sizeof(bound) / sizeof(*bound); k++)
            if (strcmp(bound[k].name, fixture[i]) == 0)
                assert_true(tok_most_bytes(t) == bound[k].most);
        json_decref(answers);
        tok_close(t);
    }
}

/* Each part of a tokenizer that may shorten or drop text removes the bound on its own. */
static void whatever_may_shrink_a_text_leaves_no_bound(void **state)
{
    static const struct {
        const char *added, *normalizer, *pre, *fuse;
        size_t most;
    } way[] = {
        {"", "null", "null", "false", 4},
        {"", "null", "null", "true", SIZE_MAX},
        {"{\"id\":3,\"content\":\"<long>\"}", "null", "null", "false", 6},
        {"{\"id\":3,\"content\":\"<long>\",\"normalized\":true}", "null", "null", "false", 6},
        {"{\"id\":3,\"content\":\"<m>\",\"lstrip\":true}", "null", "null", "false", SIZE_MAX},
        {"{\"id\":3,\"content\":\"<m>\",\"rstrip\":true}", "null", "null", "false", SIZE_MAX},
        {"", "{\"type\":\"NFC\"}", "null", "false", 36},
        {"", "{\"type\":\"NFKC\"}", "null", "false", SIZE_MAX},
        {"", "{\"type\":\"Lowercase\"}", "null", "false", SIZE_MAX},
        {"", "{\"type\":\"Prepend\",\"prepend\":\"a\"}", "null", "false", 4},
        {"", "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"bb\"}", "null", "false", 4},
        {"", "{\"type\":\"Replace\",\"pattern\":{\"String\":\"aa\"},\"content\":\"b\"}", "null", "false",
         SIZE_MAX},
        {"", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"b\"}", "null", "false",
         SIZE_MAX},
        {"", "null", "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Isolated\"}", "false",
         4},
        {"", "null", "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Removed\"}", "false",
         SIZE_MAX},
        {"", "null", "{\"type\":\"Whitespace\"}", "false", SIZE_MAX},
    };
    char json[1000];

    for (size_t i = 0; i < sizeof(way) / sizeof(*way); i++) {
        struct tok *t = NULL;
        struct err e = {0};

        snprintf(
            json, sizeof(json),
            "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":{\"type\":\"BPE\","
            "\"unk_token\":\"<u>\",\"fuse_unk\":%s,\"vocab\":{\"a\":0,\"b\":1,\"<u>\":2},\"merges\":[]}}",
            way[i].added, way[i].normalizer, way[i].pre, way[i].fuse);
        if (tok_open_json(&t, json, strlen(json), "t", &e) != 0)
            fail_msg("%s: %s", json, e.msg);
        if (tok_most_bytes(t) != way[i].most)
            fail_msg("%s: at most %zu bytes, not %zu", json, way[i].most, tok_most_bytes(t));
        tok_close(t);
    }
}

/* A BPE of single letters that writes x as a, with the special token <x>. The token is searched for in the
 * text or in its normal form. */
static struct tok *open_special(bool normalized)
{
    char json[600];
    struct err e = {0};
    struct tok *t;

    snprintf(json, sizeof(json),
             "{\"added_tokens\":[{\"id\":4,\"content\":\"<x>\",\"special\":true,\"normalized\":%s}],"
             "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"a\"},"
             "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"<\":2,\">\":3},\"merges\":[]}}",
             normalized ? "true" : "false");
    if (tok_open_json(&t, json, strlen(json), "t", &e) != 0)
        fail_msg("%s: %s", json, e.msg);
    return t;
}

static void a_special_token_is_cut_out_of_a_users_words(void **state)
{
    static const struct {
        bool normalized;
        const char *text, *origin; /* 1: the byte comes from the user */
        int32_t id[8];
        size_t n;
    } way[] = {{false, "<x>b<x>", "0000000", {4, 1, 4}, 3},
               {false, "<x>b<x>", "0001111", {4, 1, 2, 0, 3}, 5},
               {false, "<x>b<x>", "1111000", {2, 0, 3, 1, 4}, 5},
               {false, "<x>b<x>", "0100000", {2, 0, 3, 1, 4}, 5},
               {true, "<x>b<a>", "0000000", {4, 1, 4}, 3},
               /* There is no such token if the user wrote a part of it. */
               {true, "<x>b<a>", "0001000", {2, 0, 3, 1, 2, 0, 3}, 7}};

    for (size_t i = 0; i < sizeof(way) / sizeof(*way); i++) {
        struct tok *t = open_special(way[i].normalized);
        struct tok_ids ids = {0};
        char origin[8];

        for (size_t k = 0; k < 7; k++)
            origin[k] = way[i].origin[k] == '1';
        assert_int_equal(tok_encode_marked(t, way[i].text, origin, 7, 0, &ids, NULL), 0);
        if (ids.n != way[i].n || memcmp(ids.id, way[i].id, ids.n * sizeof(*ids.id)) != 0)
            fail_msg("%s, %s: %zu other ids", way[i].text, way[i].origin, ids.n);
        tok_ids_fini(&ids);
        tok_close(t);
    }
}

/* As in transformers, a token that was found in the normal form is decoded as its normal form. */
static void a_token_that_is_normalized_is_decoded_as_it_was_written(void **state)
{
    static const int32_t ids[] = {1, 4};

    for (int normalized = 0; normalized < 2; normalized++) {
        struct tok *t = open_special(normalized);
        struct buf text = {.tag = MEM_TEXT};
        int32_t id;

        assert_int_equal(tok_decode(t, ids, 2, false, &text, NULL), 0);
        buf_char(&text, 0);
        assert_string_equal(text.data, normalized ? "b <a>" : "b <x>"); /* There is no decoder. */
        assert_true(tok_id_of(t, "<x>", 3, &id) && id == 4);
        buf_fini(&text);
        tok_close(t);
    }
}

struct worker {
    const struct tok *t;
    const json_t *rows;
    size_t wrong;
};

static void *encode_all(void *arg)
{
    struct worker *w = arg;

    for (int turn = 0; turn < 20; turn++) {
        const json_t *row;
        size_t i;

        json_array_foreach(w->rows, i, row)
        {
            const json_t *text = json_object_get(row, "text");
            struct tok_ids ids = {0};

            if (tok_encode(w->t, json_string_value(text), json_string_length(text), 0, &ids, NULL) != 0 ||
                !same_ids(&ids, json_object_get(row, "ids")))
                w->wrong++;
            tok_ids_fini(&ids);
        }
    }
    return NULL;
}

static void many_threads_may_encode_at_once(void **state)
{
    enum { N = 12 }; /* This is more than the number of idle scratches. */
    struct tok *t = open_fixture("llama2.json");
    json_t *answers = open_answers("llama2.json");
    struct worker w[N];
    pthread_t thread[N];

    for (int i = 0; i < N; i++) {
        w[i] = (struct worker){.t = t, .rows = json_object_get(answers, "rows")};
        assert_int_equal(pthread_create(&thread[i], NULL, encode_all, &w[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(w[i].wrong, 0);
    }
    json_decref(answers);
    tok_close(t);
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fixture_answers_as_the_reference_does),
        cmocka_unit_test(the_comparison_can_fail),
        cmocka_unit_test(any_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(text_that_is_not_utf8_is_refused_with_the_byte_that_is_not),
        cmocka_unit_test(ids_are_appended_and_pieces_found_again),
        cmocka_unit_test(no_id_takes_up_more_bytes_than_are_said),
        cmocka_unit_test(whatever_may_shrink_a_text_leaves_no_bound),
        cmocka_unit_test(a_special_token_is_cut_out_of_a_users_words),
        cmocka_unit_test(a_token_that_is_normalized_is_decoded_as_it_was_written),
        cmocka_unit_test(many_threads_may_encode_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
