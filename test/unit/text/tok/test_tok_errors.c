/* test_tok_errors.c - tokenizer files that are refused with a sentence that names the file and the fault, and
 * unusual forms that are accepted. */
#include "base/files/folder.h"
#include "base/mem.h"
#include "files.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

static void refuse(const char *json, const char *why)
{
    struct tok *t = (struct tok *)8;
    struct err e = {0};
    int rc = tok_open_json(&t, json, strlen(json), "some/tokenizer.json", &e);

    if (rc == 0 || t)
        fail_msg("%s is accepted", json);
    if (!strstr(e.msg, "some/tokenizer.json") || !strstr(e.msg, why))
        fail_msg("%s: \"%s\" lacks \"%s\"", json, e.msg, why);
    assert_int_equal(mem_live_blocks(), 0);
}

static void components_that_are_not_understood_are_named(void **state)
{
    refuse("{\"normalizer\":{\"type\":\"ByteLevel\"}," MODEL "}", "normalizer \"ByteLevel\"");
    refuse("{\"normalizer\":{\"type\":\"Rot13\"}," MODEL "}", "normalizer \"Rot13\"");
    refuse("{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," MODEL "}", "pre_tokenizer \"UnicodeScripts\"");
    refuse("{\"decoder\":{\"type\":\"CTC\"}," MODEL "}", "decoder \"CTC\"");
    refuse("{\"post_processor\":{\"type\":\"Odd\"}," MODEL "}", "post_processor \"Odd\"");
    refuse("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", "model \"WordPiece\"");
    refuse("{\"model\":{\"vocab\":{\"a\":0}}}", "model \"without type\"");
    refuse(
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"X\"}]}," MODEL
        "}",
        "normalizer \"X\"");
    refuse("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{Klingon}\"},"
           "\"behavior\":\"Removed\"}," MODEL "}",
           "the property");
    refuse("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
           "\"behavior\":\"Sideways\"}," MODEL "}",
           "behavior \"Sideways\"");
    refuse("{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
           "\"prepend_scheme\":\"often\"}," MODEL "}",
           "prepend_scheme \"often\"");
    refuse("{\"normalizer\":{\"type\":\"Sequence\"}," MODEL "}", "a Sequence without members");
    refuse("{\"decoder\":{\"type\":\"Sequence\"}," MODEL "}", "a Sequence without members");
    refuse(
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Glob\":\"a\"},\"behavior\":\"Removed\"}," MODEL
        "}",
        "\"Glob\"");
}

static void damaged_models_are_refused(void **state)
{
    refuse("", "byte 0");
    refuse("{", "byte 1");
    refuse("{\"version\":\"1.0\"}", "no model");
    refuse("{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", "no vocab");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":{}}}", "an array is expected");
    refuse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "merges");
    refuse("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "\"b\" of a merge");
    refuse("{\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}", "\"ab\" of a merge");
    refuse("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "two tokens");
    refuse("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "pair of strings");
    refuse("{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "is -1");
    refuse("{\"model\":{\"vocab\":{\"a\":99999999999},\"merges\":[]}}", "is 99999999999");
    refuse("{\"model\":{\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]}}", "share the id 1");
    refuse("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", "dropout");
    refuse("{\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[[\"a\",0]]}}", "unk_id 3");
    refuse("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "a string and a score");
    refuse("{\"added_tokens\":[{\"id\":1}]," MODEL "}", "an added token has no content");
    refuse("{\"post_processor\":{\"type\":\"TemplateProcessing\","
           "\"single\":[{\"SpecialToken\":{\"id\":\"s\"}},{\"Sequence\":{\"id\":"
           "\"A\"}}],\"special_tokens\":{}}," MODEL "}",
           "\"s\" is not among");
    refuse("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
           "{\"type\":\"ByteLevel\"}]}," MODEL "}",
           "two ByteLevel");
    refuse("{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[],"
           "\"end_of_word_suffix\":\"</w>\"}}",
           "end_of_word_suffix");
    refuse("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"continuing_subword_prefix\":\"##\"}}",
           "continuing_subword_prefix");
    refuse(
        "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}]}," MODEL
        "}",
        "another step than a Strip");
    refuse("{\"decoder\":{\"type\":\"Strip\",\"content\":\"a\",\"start\":1,\"stop\":1}," MODEL "}",
           "a start of 0..1048576");
    refuse("{\"decoder\":{\"type\":\"Strip\",\"content\":\"a\",\"start\":1048577,\"stop\":0}," MODEL "}",
           "a start of 0..1048576");
    refuse("{" MODEL "} x", "follows");
}

static void expect(const char *json, const char *text, unsigned flags, const int32_t *want, size_t n)
{
    struct tok_ids ids = {0};
    struct tok *t = NULL;
    struct err e = {0};

    if (tok_open_json(&t, json, strlen(json), "t", &e) != 0 ||
        tok_encode(t, text, strlen(text), flags, &ids, &e) != 0)
        fail_msg("%s: %s", json, e.msg);
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.id, want, n * sizeof(*want));
    tok_ids_fini(&ids);
    tok_close(t);
}

static void a_word_of_the_vocabulary_is_merged_though_merges_are_ignored(void **state)
{
    static const char words[] =
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,"
        "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"abc\":3,\"\u0120ab\":4,\"\u0120\":5},\"merges\":[]}}";
    static const int32_t whole[] = {3, 4, 3}, cut[] = {0, 1, 2, 5, 0, 1, 3};
    char json[300];

    snprintf(json, sizeof(json), words, "true");
    expect(json, "abc", 0, whole, 1);
    expect(json, "abc ab", 0, whole, 2);
    snprintf(json, sizeof(json), words, "false");
    expect(json, "abc ab", 0, cut, 6);
}

static void members_may_come_in_any_order(void **state)
{
    static const int32_t ab[] = {2, 0}, special[] = {7, 2, 8};

    expect("{" MODEL "}", "aba", 0, ab, 2);
    expect("{\"model\":{\"merges\":[[\"a\",\"b\"]],\"vocab\":{\"b\":1,\"ab\":2,\"a\":0}}}", "aba", 0, ab, 2);
    expect(
        "{\"model\":{\"merges\":[\"a b\"],\"continuing_subword_prefix\":\"\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}}}",
        "aba", 0, ab, 2);
    expect("{" MODEL ",\"post_processor\":{\"special_tokens\":{\"e\":{\"ids\":[8]},\"s\":{\"ids\":[7]}},"
           "\"single\":[{\"SpecialToken\":"
           "{\"id\":\"s\"}},{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"e\"}}],"
           "\"type\":\"TemplateProcessing\"}}",
           "ab", TOK_ADD_SPECIAL, special, 3);
}

static void a_strip_takes_blanks_at_both_ends_unless_it_is_told_otherwise(void **state)
{
    static const int32_t blank_a_blank[] = {1, 0, 1};
#define STRIPPED(sides) \
    "{\"normalizer\":{\"type\":\"Strip\"" sides "},\"model\":{\"vocab\":{\"a\":0,\" \":1},\"merges\":[]}}"

    expect(STRIPPED(""), " a ", 0, blank_a_blank + 1, 1);
    expect(STRIPPED(",\"strip_left\":null,\"strip_right\":true"), " a ", 0, blank_a_blank + 1, 1);
    expect(STRIPPED(",\"strip_left\":false"), " a ", 0, blank_a_blank, 2);
    expect(STRIPPED(",\"strip_right\":false"), " a ", 0, blank_a_blank + 1, 2);
    expect(STRIPPED(",\"strip_left\":false,\"strip_right\":false"), " a ", 0, blank_a_blank, 3);
}

static void added_tokens_beyond_the_vocabulary_get_the_next_ids(void **state)
{
    static const int32_t want[] = {4, 2, 3};

    /* The ids in the file are ignored. */
    expect("{\"added_tokens\":[{\"id\":50,\"content\":\"<x>\",\"special\":true,\"normalized\":false},"
           "{\"id\":51,\"content\":\"<y>\","
           "\"special\":false},{\"id\":2,\"content\":\"ab\",\"special\":false}]," MODEL "}",
           "<y>ab<x>", 0, want, 3);
}

static void a_text_outside_a_vocabulary_without_unknown_gives_an_error_or_nothing(void **state)
{
    static const char no_unk[] = "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"<unk>\"}}";
    static const char unigram[] = "{\"model\":{\"type\":\"Unigram\",\"unk_id\":null,\"vocab\":[[\"a\",-1]]}}";
    struct tok_ids ids = {0};
    struct err e = {0};
    struct tok *t;

    expect("{" MODEL "}", "xyz", 0, NULL, 0);
    assert_int_equal(tok_open_json(&t, no_unk, strlen(no_unk), "t", &e), 0);
    assert_int_equal(tok_encode(t, "aa", 2, 0, &ids, &e), 0);
    assert_int_equal(ids.n, 2);
    assert_int_equal(tok_encode(t, "ab", 2, 0, &ids, &e), ERR_INPUT);
    assert_int_equal(ids.n, 2);
    ids.n = 0;
    tok_close(t);
    assert_int_equal(tok_open_json(&t, unigram, strlen(unigram), "t", &e), 0);
    assert_int_equal(tok_encode(t, "ab", 2, 0, &ids, &e), ERR_INPUT);
    assert_int_equal(ids.n, 0);
    tok_ids_fini(&ids);
    tok_close(t);
}

static void characters_whose_bytes_are_not_all_there_are_unknown(void **state)
{
    static const char bpe[] =
        "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"u\",\"merges\":[],"
        "\"vocab\":{\"a\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"u\":3}}}";
    static const char unigram[] =
        "{\"model\":{\"type\":\"Unigram\",\"byte_fallback\":true,\"unk_id\":3,\"vocab\":"
        "[[\"a\",-1],[\"<0xC3>\",-2],[\"<0xA9>\",-2],[\"u\",-3]]}}";
    static const int32_t want[] = {0, 1, 2, 0, 3};

    expect(bpe,
           "a\xc3\xa9"
           "a\xc3\xa8",
           0, want, 5);
    expect(unigram,
           "a\xc3\xa9"
           "a\xc3\xa8",
           0, want, 5);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[1200];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    files_write_text(path, text);
}

static void refuse_path(const char *path, const char *why)
{
    struct err e = {0};
    struct tok *t;

    if (tok_open(&t, folder_at(path), &e) == 0 || !strstr(e.msg, path) || !strstr(e.msg, why))
        fail_msg("%s: \"%s\" lacks \"%s\"", path, e.msg, why);
    assert_int_equal(mem_live_blocks(), 0);
}

static void folders_and_files_without_a_tokenizer_are_refused(void **state)
{
    const char *folder = files_folder();
    char path[1200];

    refuse_path(folder, "the folder has no tokenizer");
    snprintf(path, sizeof(path), "%s/none.json", folder);
    refuse_path(path, "No such file");
    write_file(folder, "vocab.json", "{\"a\":0}");
    refuse_path(folder, "merges.txt");
    write_file(folder, "merges.txt", "#version: 0.2\na\n");
    refuse_path(folder, "line 2");
    write_file(folder, "merges.txt", "#version: 0.2\n");
    write_file(folder, "tokenizer_config.json", "{\"tokenizer_class\":\"XyzTokenizer\"}");
    refuse_path(folder, "XyzTokenizer");
    write_file(folder, "x.tiktoken", "YQ== 0\nYg== 1\n");
    refuse_path(folder, "2 ranks");
    write_file(folder, "x.tiktoken", "YQ== 0\nYg== x\n");
    refuse_path(folder, "line 2");
    write_file(folder, "tokenizer.model",
               "\n\x07\n\x03"
               "abc");
    refuse_path(folder, "not a sentencepiece model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(components_that_are_not_understood_are_named),
        cmocka_unit_test(damaged_models_are_refused),
        cmocka_unit_test(a_word_of_the_vocabulary_is_merged_though_merges_are_ignored),
        cmocka_unit_test(members_may_come_in_any_order),
        cmocka_unit_test(a_strip_takes_blanks_at_both_ends_unless_it_is_told_otherwise),
        cmocka_unit_test(added_tokens_beyond_the_vocabulary_get_the_next_ids),
        cmocka_unit_test(a_text_outside_a_vocabulary_without_unknown_gives_an_error_or_nothing),
        cmocka_unit_test(characters_whose_bytes_are_not_all_there_are_unknown),
        cmocka_unit_test(folders_and_files_without_a_tokenizer_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
