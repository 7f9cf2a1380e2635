/* test_tok_goldens.c - real tokenizers compared with reference answers, if the large test data exists: 348
 * texts for each tokenizer.json (goldens/tokenizers), and the vectors of other projects
 * (data/token-vectors). */
#include <jansson.h>

#include "base/buf.h"
#include "files.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"
#include "tokshared.h"

static size_t n_compared;

static json_t *read_json(const char *name)
{
    size_t n;
    char *s = tokshared_read(name, &n);
    json_error_t je;
    json_t *j = s ? json_loadb(s, n, JSON_ALLOW_NUL, &je) : NULL;

    free(s);
    return j;
}

static bool encodes_to(const struct tok *t, const char *text, size_t len, unsigned flags, const int32_t *want,
                       size_t n)
{
    struct tok_ids ids = {0};
    bool same = tok_encode(t, text, len, flags, &ids, NULL) == 0 && ids.n == n &&
                (n == 0 || memcmp(ids.id, want, n * sizeof(*want)) == 0);

    tok_ids_fini(&ids);
    n_compared++;
    return same;
}

static size_t ids_of(const json_t *list, int32_t **ids)
{
    size_t n = json_array_size(list);

    *ids = malloc((n + 1) * sizeof(**ids));
    for (size_t i = 0; i < n; i++) {
        json_int_t v = json_integer_value(json_array_get(list, i));
        (*ids)[i] = v > INT32_MAX ? INT32_MAX : (int32_t)v;
    }
    return n;
}

static bool decodes_to(const struct tok *t, const int32_t *ids, size_t n, bool skip, const char *want,
                       size_t len)
{
    struct buf out = {.tag = MEM_TEXT};
    bool same = tok_decode(t, ids, n, skip, &out, NULL) == 0 && out.len == len &&
                (len == 0 || memcmp(out.data, want, len) == 0);

    buf_fini(&out);
    n_compared++;
    return same;
}

static void compare_text(const char *name, const struct tok *t, const json_t *gold, const json_t *text,
                         size_t i)
{
    const json_t *ids = json_array_get(json_object_get(gold, "ids"), i), *other;
    const char *s = json_string_value(text), *want = s;
    size_t n = json_string_length(text), len = n;
    int32_t *id;
    size_t n_id = ids_of(ids, &id);
    char key[32];

    if (!encodes_to(t, s, n, 0, id, n_id))
        fail_msg("%s: text %zu", name, i);
    other = json_array_get(json_object_get(gold, "decoded"), i);
    if (json_is_string(other)) {
        want = json_string_value(other);
        len = json_string_length(other);
    }
    if (!decodes_to(t, id, n_id, false, want, len))
        fail_msg("%s: decoding of text %zu", name, i);
    free(id);
    snprintf(key, sizeof(key), "%zu", i);
    other = json_object_get(json_object_get(gold, "ids_plain"), key);
    n_id = ids_of(other ? other : ids, &id);
    if (!encodes_to(t, s, n, TOK_PLAIN, id, n_id))
        fail_msg("%s: plain text %zu", name, i);
    free(id);
}

static void compare_decodings(const char *name, const struct tok *t, const json_t *gold)
{
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(gold, "decode"), i, row)
    {
        const json_t *text = json_object_get(row, "text"), *skip = json_object_get(row, "skip");
        int32_t *id;
        size_t n = ids_of(json_object_get(row, "ids"), &id);

        if (!decodes_to(t, id, n, false, json_string_value(text), json_string_length(text)))
            fail_msg("%s: decoding %zu", name, i);
        if (skip && !decodes_to(t, id, n, true, json_string_value(skip), json_string_length(skip)))
            fail_msg("%s: decoding %zu without special tokens", name, i);
        free(id);
    }
}

static void tokenizers_answer_as_the_reference_does(void **state)
{
    static const char *const name[] = {
        "falcon",     "gpt-neox",   "gpt-oss",        "gpt2",         "llama2",  "llama3",
        "mistral-v3", "phi-3-mini", "phi-4-mini",     "roberta-base", "qwen2.5", "small-hw_doc_summarizer",
        "smollm2",    "phi-4",      "small-sqlpilot",
    };
    json_t *texts = read_json("goldens/tokenizers/texts.json");

    if (!texts)
        skip();
    for (size_t k = 0; k < sizeof(name) / sizeof(*name); k++) {
        const char *source;
        char path[300];
        struct tok *t;
        json_t *gold, *row;
        size_t i;

        snprintf(path, sizeof(path), "goldens/tokenizers/%s.json", name[k]);
        gold = read_json(path);
        source = json_string_value(json_object_get(gold, "source"));
        assert_non_null(source);
        t = tokshared_open(source + strlen("tokenizers/"));
        assert_non_null(t);
        json_array_foreach(texts, i, row) compare_text(name[k], t, gold, json_object_get(row, "text"), i);
        compare_decodings(name[k], t, gold);
        tok_close(t);
        json_decref(gold);
    }
    json_decref(texts);
    assert_true(n_compared > 15000);
}

/* Reads the ids of one line, separated by blanks or commas. */
static size_t line_ids(const char *s, const char *end, int32_t *id)
{
    size_t n = 0;

    while (s < end) {
        if (*s >= '0' && *s <= '9')
            id[n++] = (int32_t)strtol(s, (char **)(uintptr_t)&s, 10);
        else
            s++;
    }
    return n;
}

static void llama_cpp(const char *vectors, const char *tokenizer)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    struct tok *t = tokshared_open(tokenizer);
    char path[300], *in, *out, *s, *line;
    size_t n_in, n_out, k = 0;
    int32_t *id;

    snprintf(path, sizeof(path), "data/token-vectors/llama.cpp/ggml-vocab-%s.gguf.inp", vectors);
    in = s = tokshared_read(path, &n_in);
    snprintf(path, sizeof(path), "data/token-vectors/llama.cpp/ggml-vocab-%s.gguf.out", vectors);
    out = line = tokshared_read(path, &n_out);
    assert_true(t && in && out);
    id = malloc(n_out * sizeof(*id) + 1);
    for (; line < out + n_out; k++) {
        char *end = memmem(s, (size_t)(in + n_in - s), mark, sizeof(mark) - 1), *nl = strchr(line, '\n');
        char *stop = end ? end : in + n_in, *line_end = nl ? nl : out + n_out;

        if (!encodes_to(t, s, (size_t)(stop - s), 0, id, line_ids(line, line_end, id)))
            fail_msg("%s with %s: case %zu", vectors, tokenizer, k);
        s = end ? end + sizeof(mark) - 1 : stop;
        line = line_end + 1;
    }
    assert_true(k >= 46);
    free(id);
    free(in);
    free(out);
    tok_close(t);
}

static void vectors_of_llama_cpp_agree(void **state)
{
    llama_cpp("gpt-2", "gpt2/tokenizer.json");
    llama_cpp("gpt-2", "gpt2/.");
    llama_cpp("llama-bpe", "llama3/tokenizer.json");
    llama_cpp("llama-bpe", "llama3/tokenizer.model");
    llama_cpp("llama-spm", "llama2/tokenizer.json");
    llama_cpp("llama-spm", "llama2/tokenizer.model");
    llama_cpp("qwen2", "qwen2/tokenizer.json");
    llama_cpp("deepseek-r1-qwen", "qwen2.5/tokenizer.json");
    llama_cpp("falcon", "falcon/tokenizer.json");
    llama_cpp("phi-3", "phi-3-mini/tokenizer.json");
    llama_cpp("mpt", "gpt-neox/tokenizer.json");
    llama_cpp("roberta-bpe", "roberta-base/tokenizer.json");
}

/* Replaces \n \s \x (newline, space, nothing) in place. Returns the new length. */
static size_t unescape(char *s, size_t n)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        char next = i + 1 < n ? s[i + 1] : 0;

        if (s[i] != '\\' || (next != 'n' && next != 's' && next != 'x')) {
            s[m++] = s[i];
            continue;
        }
        if (next != 'x')
            s[m++] = next == 'n' ? '\n' : ' ';
        i++;
    }
    return m;
}

static void kitoken(const char *folder, const char *kind, const char *name, const char *tokenizer)
{
    struct tok *t = tokshared_open(tokenizer);
    char path[300], *in, *out, *s, *line;
    size_t n_in, n_out, k = 0;
    int32_t *id;

    snprintf(path, sizeof(path), "data/token-vectors/kitoken/%s_input.txt", kind);
    in = s = tokshared_read(path, &n_in);
    snprintf(path, sizeof(path), "data/token-vectors/kitoken/%s/%s_tokens_%s.txt", folder, kind, name);
    out = line = tokshared_read(path, &n_out);
    assert_true(t && in && out);
    id = malloc(n_out * sizeof(*id) + 1);
    while (s < in + n_in && line < out + n_out) {
        char *nl = strchr(s, '\n'), *stop = nl ? nl : in + n_in, *end = strchr(line, '\n');

        if (stop > s) {
            size_t n = unescape(s, (size_t)(stop - s));

            end = end ? end : out + n_out;
            if (!encodes_to(t, s, n, 0, id, line_ids(line, end, id)))
                fail_msg("%s %s with %s: line %zu", kind, name, tokenizer, k);
            line = end + 1;
            k++;
        }
        s = stop + 1;
    }
    assert_true(k >= 20);
    free(id);
    free(in);
    free(out);
    tok_close(t);
}

static void vectors_of_kitoken_agree(void **state)
{
    static const struct {
        const char *folder, *name, *tokenizer;
    } row[] = {
        {"tokenizers", "gpt2", "gpt2/tokenizer.json"},
        {"tokenizers", "llama32", "llama3/tokenizer.json"},
        {"tokenizers", "llama33", "llama3/tokenizer.llama3.3-array-merges.json"},
        {"tokenizers", "gpt_oss", "gpt-oss/tokenizer.json"},
        {"tokenizers", "llama2", "llama2/tokenizer.json"},
        {"tokenizers", "mistral01", "mistral-v1/tokenizer.json"},
        {"tokenizers", "mistral03", "mistral-v3/tokenizer.json"},
        {"tokenizers", "gpt_neox", "gpt-neox/tokenizer.json"},
        {"tiktoken", "o200k_base", "gpt-oss/o200k_base.tiktoken"},
        {"tiktoken", "cl100k_base", "phi-4/cl100k_base.tiktoken"},
    };

    for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
        kitoken(row[i].folder, "small", row[i].name, row[i].tokenizer);
        kitoken(row[i].folder, "mixed", row[i].name, row[i].tokenizer);
    }
    kitoken("sentencepiece", "mixed", "llama2", "llama2/tokenizer.model");
    kitoken("sentencepiece", "mixed", "mistral01", "mistral-v1/tokenizer.model");
    kitoken("sentencepiece", "mixed", "mistral03", "mistral-v3/tokenizer.model");
}

static void a_wrong_id_is_seen(void **state)
{
    struct tok *t = tokshared_open("gpt2/tokenizer.json");
    int32_t hello[] = {31373}, other[] = {31374};

    assert_true(encodes_to(t, "hello", 5, 0, hello, 1));
    assert_false(encodes_to(t, "hello", 5, 0, other, 1));
    assert_false(encodes_to(t, "hello", 5, 0, hello, 0));
    assert_true(decodes_to(t, hello, 1, false, "hello", 5));
    assert_false(decodes_to(t, hello, 1, false, "hallo", 5));
    tok_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenizers_answer_as_the_reference_does),
        cmocka_unit_test(vectors_of_llama_cpp_agree),
        cmocka_unit_test(vectors_of_kitoken_agree),
        cmocka_unit_test(a_wrong_id_is_seen),
    };

    if (!tokshared_exists())
        return 77; /* skipped */
    files_enter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
