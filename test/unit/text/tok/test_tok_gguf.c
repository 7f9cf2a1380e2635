/* test_tok_gguf.c - tokenizers of test/data/tokenizers in the form of GGUF give Hugging Face's answers, and
 * metadata without a valid tokenizer are refused with the name of the field. */
#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/tok/build.h"
#include "text/tok/infill.h"
#include "text/tok/tok.h"

enum { MAX_TOKENS = 600, MAX_MERGES = 1000 };

/* A tokenizer.json as the arrays of GGUF. */
struct parser {
    json_t *json;
    struct json_str token[MAX_TOKENS], merge[MAX_MERGES];
    int32_t type[MAX_TOKENS];
    float score[MAX_TOKENS];
    char joined[MAX_MERGES][64];
    struct tok_gguf g;
};

static json_t *load(const char *name)
{
    char path[1024];
    json_error_t je;
    json_t *j;

    snprintf(path, sizeof(path), "%s/test/data/tokenizers/%s", GALLOP_SOURCE_DIR, name);
    j = json_load_file(path, JSON_ALLOW_NUL, &je);
    if (!j)
        fail_msg("%s: %s", path, je.text);
    return j;
}

static size_t id_of(const json_t *vocab, const char *s, size_t n)
{
    const json_t *id = json_object_getn(vocab, s, n);

    assert_non_null(id);
    return (size_t)json_integer_value(id);
}

/* Reads merges as "left right". A piece that is made earlier has a higher score. */
static void take_merges(struct parser *p, const json_t *model)
{
    const json_t *vocab = json_object_get(model, "vocab"), *m;
    size_t i;

    json_array_foreach(json_object_get(model, "merges"), i, m)
    {
        char *to = p->joined[i], whole[64];
        const char *blank;

        assert_true(i < MAX_MERGES);
        if (json_is_array(m))
            snprintf(to, 64, "%s %s", json_string_value(json_array_get(m, 0)),
                     json_string_value(json_array_get(m, 1)));
        else
            snprintf(to, 64, "%s", json_string_value(m));
        p->merge[i] = (struct json_str){to, strlen(to)};
        blank = strchr(to + 1, ' ');
        snprintf(whole, sizeof(whole), "%.*s%s", (int)(blank - to), to, blank + 1);
        if (p->score[id_of(vocab, whole, strlen(whole))] == 0)
            p->score[id_of(vocab, whole, strlen(whole))] = -1 - (float)i;
    }
    p->g.n_merges = i;
}

static void take_tokens(struct parser *p)
{
    json_t *model = json_object_get(p->json, "model"), *v;
    const char *key;
    size_t i, n;

    json_object_keylen_foreach(json_object_get(model, "vocab"), key, n, v)
    {
        size_t id = (size_t)json_integer_value(v);

        assert_true(id < MAX_TOKENS);
        p->token[id] = (struct json_str){key, n};
        p->type[id] = n == 6 && strncmp(key, "<0x", 3) == 0 ? TOK_PIECE_BYTE : TOK_PIECE_NORMAL;
        p->g.n_tokens = id + 1 > p->g.n_tokens ? id + 1 : p->g.n_tokens;
    }
    json_array_foreach(json_object_get(p->json, "added_tokens"), i, v)
    {
        size_t id = (size_t)json_integer_value(json_object_get(v, "id"));
        json_t *content = json_object_get(v, "content");

        assert_true(id < MAX_TOKENS);
        p->token[id] = (struct json_str){json_string_value(content), json_string_length(content)};
        p->type[id] =
            json_is_true(json_object_get(v, "special")) ? TOK_PIECE_CONTROL : TOK_PIECE_USER_DEFINED;
        p->g.n_tokens = id + 1 > p->g.n_tokens ? id + 1 : p->g.n_tokens;
    }
}

static struct parser *take(const char *name, const char *model, const char *pre)
{
    struct parser *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    p->json = load(name);
    p->g = (struct tok_gguf){.path = "m.gguf",
                             .model = {model, strlen(model)},
                             .pre = {pre, pre ? strlen(pre) : 0},
                             .token = p->token,
                             .type = (const char *)p->type,
                             .merge = p->merge,
                             .bos = TOK_UNSET,
                             .eos = TOK_UNSET,
                             .unk = TOK_UNSET,
                             .add_bos = TOK_UNSET,
                             .add_eos = TOK_UNSET,
                             .add_space = TOK_UNSET,
                             .squeeze = TOK_UNSET};
    take_tokens(p);
    take_merges(p, json_object_get(p->json, "model"));
    if (strcmp(model, "llama") == 0)
        p->g.score = (const char *)p->score;
    return p;
}

static void put_back(struct parser *p)
{
    json_decref(p->json);
    free(p);
}

static struct tok *must_open(const struct parser *p)
{
    struct tok *t;
    struct err e;

    if (tok_open_gguf(&t, &p->g, &e) != 0)
        fail_msg("%s", e.msg);
    return t;
}

/* Returns true if TEXT contains an added token with flags that GGUF does not have. */
static bool beyond_gguf(const struct parser *p, const char *text)
{
    const json_t *v;
    size_t i;

    json_array_foreach(json_object_get(p->json, "added_tokens"), i, v)
    {
        bool plain = json_is_false(json_object_get(v, "lstrip")) &&
                     json_is_false(json_object_get(v, "rstrip")) &&
                     json_is_false(json_object_get(v, "single_word")) &&
                     json_is_false(json_object_get(v, "normalized"));

        if (!plain && strstr(text, json_string_value(json_object_get(v, "content"))))
            return true;
    }
    return false;
}

static bool same_ids(const struct tok *t, const json_t *text, unsigned flags, const json_t *want)
{
    struct tok_ids ids = {0};
    bool same;

    assert_int_equal(tok_encode(t, json_string_value(text), json_string_length(text), flags, &ids, NULL), 0);
    same = ids.n == json_array_size(want);
    for (size_t i = 0; same && i < ids.n; i++)
        same = ids.id[i] == json_integer_value(json_array_get(want, i));
    tok_ids_fini(&ids);
    return same;
}

/* Returns the number of answers of T that differ. *asked is the number of comparisons. */
static size_t differences(const struct parser *p, const struct tok *t, const char *answers, size_t *asked)
{
    json_t *a = load(answers), *row;
    size_t i, bad = 0;

    *asked = 0;
    json_array_foreach(json_object_get(a, "rows"), i, row)
    {
        const json_t *text = json_object_get(row, "text");

        if (beyond_gguf(p, json_string_value(text)))
            continue;
        bad += !same_ids(t, text, 0, json_object_get(row, "ids"));
        ++*asked;
    }
    json_array_foreach(json_object_get(a, "decode"), i, row)
    {
        const json_t *list = json_object_get(row, "ids"), *want = json_object_get(row, "text");
        int32_t ids[128];
        struct buf text;

        buf_init(&text, MEM_TEXT);
        assert_true(json_array_size(list) <= 128);
        for (size_t k = 0; k < json_array_size(list); k++)
            ids[k] = (int32_t)json_integer_value(json_array_get(list, k));
        assert_int_equal(tok_decode(t, ids, json_array_size(list), false, &text, NULL), 0);
        bad += text.len != json_string_length(want) ||
               memcmp(text.data ? text.data : "", json_string_value(want), text.len) != 0;
        buf_fini(&text);
        ++*asked;
    }
    json_decref(a);
    return bad;
}

static const struct {
    const char *name, *model, *pre;
    int add_space;
} fixture[] = {
    {"gpt2", "gpt2", "gpt-2", TOK_UNSET},      {"llama3", "gpt2", "llama-bpe", TOK_UNSET},
    {"o200k", "gpt2", "gpt-4o", TOK_UNSET},    {"neox", "gpt2", "command-r", TOK_UNSET},
    {"llama2", "llama", "default", TOK_UNSET}, {"gemma", "llama", "default", 0},
};
enum { N_FIXTURES = sizeof(fixture) / sizeof(*fixture) };

static void answers_are_hugging_faces(void **state)
{
    for (size_t i = 0; i < N_FIXTURES; i++) {
        char json[64], answers[64];
        struct parser *p;
        struct tok *t;
        size_t asked, bad;

        snprintf(json, sizeof(json), "%s.json", fixture[i].name);
        snprintf(answers, sizeof(answers), "%s.answers.json", fixture[i].name);
        p = take(json, fixture[i].model, fixture[i].pre);
        p->g.add_space = fixture[i].add_space;
        t = must_open(p);
        bad = differences(p, t, answers, &asked);
        if (bad || asked < 35)
            fail_msg("%s: %zu of %zu answers differ", fixture[i].name, bad, asked);
        tok_close(t);
        put_back(p);
    }
}

static void another_pattern_gives_other_answers(void **state)
{
    struct parser *p = take("llama3.json", "gpt2", "gpt-2");
    struct tok *t = must_open(p);
    size_t asked;

    assert_true(differences(p, t, "llama3.answers.json", &asked) > 0);
    tok_close(t);
    put_back(p);
}

static void a_file_that_names_no_way_to_cut_words_is_not_cut_as_by_default(void **state)
{
    static const char text[] = "walking 15 miles";
    static const char *const pre[] = {NULL, "default", "gpt-2"};
    struct parser *p = take("gpt2.json", "gpt2", "gpt-2");
    struct tok_ids ids[3] = {{0}};
    struct err e;

    for (size_t i = 0; i < 3; i++) {
        struct tok *t;

        p->g.pre = (struct json_str){pre[i], pre[i] ? strlen(pre[i]) : 0};
        t = must_open(p);
        assert_int_equal(tok_encode(t, text, strlen(text), 0, &ids[i], &e), 0);
        tok_close(t);
    }
    assert_int_equal(ids[0].n, ids[1].n);
    assert_memory_equal(ids[0].id, ids[1].id, ids[0].n * sizeof(*ids[0].id));
    assert_true(ids[2].n != ids[1].n || memcmp(ids[2].id, ids[1].id, ids[2].n * sizeof(*ids[2].id)) != 0);
    for (size_t i = 0; i < 3; i++)
        tok_ids_fini(&ids[i]);
    put_back(p);
}

static void bos_stands_in_front_where_it_shall(void **state)
{
    struct parser *p = take("llama3.json", "gpt2", "llama-bpe");
    json_t *text = json_string("a"), *with = json_pack("[i,i]", 330, 64), *without = json_pack("[i]", 64);
    int32_t a;
    struct tok *t;

    p->g.bos = 330;
    t = must_open(p);
    assert_true(tok_id_of(t, "a", 1, &a));
    json_array_set_new(with, 1, json_integer(a));
    json_array_set_new(without, 0, json_integer(a));
    assert_true(same_ids(t, text, TOK_ADD_SPECIAL, with)); /* llama-bpe adds BOS by default. */
    tok_close(t);
    p->g.add_bos = 0;
    t = must_open(p);
    assert_true(same_ids(t, text, TOK_ADD_SPECIAL, without));
    tok_close(t);
    p->g.pre = (struct json_str){"gpt-2", 5};
    p->g.add_bos = 1;
    t = must_open(p);
    assert_true(same_ids(t, text, TOK_ADD_SPECIAL, with));
    tok_close(t);
    put_back(p);
    json_decref(text);
    json_decref(with);
    json_decref(without);
}

static void the_end_token_is_the_files(void **state)
{
    struct parser *p = take("llama3.json", "gpt2", "llama-bpe");
    struct tok *t = must_open(p);

    assert_int_equal(tok_eos(t), -1);
    tok_close(t);
    p->g.eos = 0;
    t = must_open(p);
    assert_int_equal(tok_eos(t), 0);
    tok_close(t);
    put_back(p);
}

static void user_defined_runs_of_spaces_are_found_in_spaces(void **state)
{
    static const struct json_str tokens[] = {
        {"<unk>", 5}, {"\xe2\x96\x81", 3}, {"a", 1}, {"  ", 2}, {"   ", 3}};
    static const int32_t types[] = {2, 1, 1, 4, 4};
    static const float scores[5] = {0};
    struct tok_gguf g = {.path = "m.gguf",
                         .model = {"llama", 5},
                         .token = tokens,
                         .type = (const char *)types,
                         .score = (const char *)scores,
                         .n_tokens = 5,
                         .bos = TOK_UNSET,
                         .eos = TOK_UNSET,
                         .unk = 0};
    json_t *text = json_string("a     a"), *want = json_pack("[i,i,i,i]", 2, 3, 4, 2);
    struct tok *t;
    struct err e;

    if (tok_open_gguf(&t, &g, &e) != 0)
        fail_msg("%s", e.msg);
    assert_true(same_ids(t, text, 0, want));
    tok_close(t);
    json_decref(text);
    json_decref(want);
}

/* The file's numbers count more than names, and are ignored if one is missing or no token. */
static void a_file_names_the_tokens_for_filling_a_gap(void **state)
{
    static const struct json_str tokens[] = {{"<unk>", 5}, {"\xe2\x96\x81", 3}, {"a", 1}, {"x", 1}, {"y", 1},
                                             {"z", 1}};
    static const int32_t types[] = {2, 1, 1, 3, 3, 3};
    static const int64_t numbers[][3] = {{3, 4, 5}, {5, 3, 4}, {3, 4, TOK_UNSET},
                                         {3, 4, 6}, {3, 3, 5}, {0, 0, 0}};
    static const float scores[6] = {0};
    struct tok_gguf g = {.path = "m.gguf",
                         .model = {"llama", 5},
                         .token = tokens,
                         .type = (const char *)types,
                         .score = (const char *)scores,
                         .n_tokens = 6,
                         .bos = TOK_UNSET,
                         .eos = TOK_UNSET,
                         .add_space = 0};

    for (size_t i = 0; i < 6; i++) {
        struct tok_ids ids = {0};
        struct tok *t;
        struct err e;

        memcpy(g.infill, numbers[i], sizeof(g.infill));
        if (tok_open_gguf(&t, &g, &e) != 0)
            fail_msg("%s", e.msg);
        assert_int_equal(infill_is_known(t), i < 2);
        if (i < 2) {
            assert_int_equal(infill_encode(t, "a", 1, "aa", 2, TOK_ADD_SPECIAL, &ids, &e), 0);
            assert_true(ids.n == 6 && ids.id[0] == numbers[i][0] && ids.id[1] == 2);
            assert_true(ids.id[2] == numbers[i][1] && ids.id[4] == 2 && ids.id[5] == numbers[i][2]);
        }
        tok_ids_fini(&ids);
        tok_close(t);
    }
}

static void refused(const struct tok_gguf *g, int code, const char *word)
{
    struct tok *t = (struct tok *)1;
    struct err e = {.msg = ""};

    assert_int_equal(tok_open_gguf(&t, g, &e), code);
    assert_null(t);
    if (!strstr(e.msg, word) || !strstr(e.msg, "m.gguf"))
        fail_msg("\"%s\" does not name %s", e.msg, word);
}

static void what_makes_no_tokenizer_is_refused_by_field(void **state)
{
    struct parser *p = take("gpt2.json", "gpt2", "gpt-2");
    struct tok_gguf g = p->g;
    struct json_str token = p->token[5], merge = p->merge[0];

    g.model = (struct json_str){"bert", 4};
    refused(&g, ERR_UNSUPPORTED, "tokenizer.ggml.model \"bert\"");
    g = p->g;
    g.pre = (struct json_str){"my-own", 6};
    refused(&g, ERR_UNSUPPORTED, "tokenizer.ggml.pre \"my-own\"");
    g = p->g;
    g.n_tokens = 0;
    refused(&g, ERR_INPUT, "tokenizer.ggml.tokens");
    g = p->g;
    g.bos = (int64_t)g.n_tokens;
    refused(&g, ERR_INPUT, "tokenizer.ggml.bos_token_id");
    g = p->g;
    g.add_bos = 1;
    refused(&g, ERR_INPUT, "add_bos_token");
    p->token[5] = p->token[4];
    refused(&p->g, ERR_INPUT, "token 5");
    p->token[5] = (struct json_str){"\xff", 1};
    refused(&p->g, ERR_INPUT, "token 5");
    p->token[5] = token;
    p->type[3] = 9;
    refused(&p->g, ERR_INPUT, "tokenizer.ggml.token_type of token 3");
    p->type[3] = 1;
    p->merge[0] = (struct json_str){"ab", 2};
    refused(&p->g, ERR_INPUT, "tokenizer.ggml.merges: the merge \"ab\"");
    p->merge[0] = (struct json_str){"qq zz", 5};
    refused(&p->g, ERR_INPUT, "tokenizer.ggml.merges");
    p->merge[0] = merge;
    g = p->g;
    g.n_merges = 0;
    refused(&g, ERR_INPUT, "tokenizer.ggml.merges is missing or empty");
    g.merge = NULL;
    refused(&g, ERR_INPUT, "tokenizer.ggml.merges is missing or empty");
    g = p->g;
    g.model = (struct json_str){"llama", 5};
    refused(&g, ERR_INPUT, "tokenizer.ggml.scores");
    put_back(p);
}

static void every_allocation_may_fail(void **state)
{
    for (size_t i = 0; i < N_FIXTURES; i += 4) { /* There is one for each kind of model. */
        char json[64];
        struct parser *p;
        struct tok *t;
        struct err e;
        long n = 0;

        snprintf(json, sizeof(json), "%s.json", fixture[i].name);
        p = take(json, fixture[i].model, fixture[i].pre);
        do {
            size_t before = mem_live_blocks();

            mem_fail_at(++n);
            if (tok_open_gguf(&t, &p->g, &e) == 0)
                tok_close(t);
            else
                assert_int_equal(e.code, ERR_NOMEM);
            assert_int_equal(mem_live_blocks(), before);
        } while (mem_failed());
        mem_fail_at(0);
        assert_true(n > 10);
        put_back(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_hugging_faces),
        cmocka_unit_test(another_pattern_gives_other_answers),
        cmocka_unit_test(a_file_that_names_no_way_to_cut_words_is_not_cut_as_by_default),
        cmocka_unit_test(bos_stands_in_front_where_it_shall),
        cmocka_unit_test(the_end_token_is_the_files),
        cmocka_unit_test(user_defined_runs_of_spaces_are_found_in_spaces),
        cmocka_unit_test(a_file_names_the_tokens_for_filling_a_gap),
        cmocka_unit_test(what_makes_no_tokenizer_is_refused_by_field),
        cmocka_unit_test(every_allocation_may_fail),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests_name("text/tok_gguf", tests, NULL, NULL);
}
