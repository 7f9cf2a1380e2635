/* test_texts.c - the functions of gallop.h about text: the description names what the files say, texts and
 * tokens agree with those of requests, chats are rendered as the server renders them, answers are parsed
 * whole and in pieces, all while another thread runs the engine, and with every allocation failing once. */
#include <jansson.h>
#include <pthread.h>

#include "base/mem.h"
#include "chat/texts.h"
#include "engine/engine.h"
#include "engines.h"
#include "gallop.h"

/* Bytes of stack that a sanitizer's frames take in addition. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__has_feature)
#define MORE_STACK ((size_t)31 << 20)
#else
#define MORE_STACK 0
#endif

static struct gallop *demo;
static char err[GALLOP_ERR_SIZE];

static int open_demo(void **state)
{
    struct gallop_options o = engines_options(4, 64, 128);

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    demo = engines_open("demo", &o);
    return 0;
}

static int close_demo(void **state)
{
    gallop_close(demo);
    return 0;
}

/* Checks that the sentence of the last error has PART. */
static void assert_says(const char *part)
{
    if (!strstr(err, part))
        fail_msg("the error is \"%s\", expected \"%s\" in it", err, part);
}

/* ---- the description ---- */

static void the_description_is_that_of_the_files(void **state)
{
    const struct gallop_model_info *m = gallop_describe(demo);

    assert_string_equal(m->name, "demo");
    assert_non_null(strstr(m->path, "models/demo"));
    assert_string_equal(m->architecture, "LlamaForCausalLM");
    assert_string_equal(m->model_type, "llama");
    assert_int_equal(m->vocab_size, 2048);
    assert_int_equal(m->context_length, 1024);
    assert_int_equal(m->max_model_len, 128);
    assert_int_equal(m->hidden_size, 192);
    assert_int_equal(m->intermediate_size, 512);
    assert_int_equal(m->n_layers, 5);
    assert_int_equal(m->n_heads, 6);
    assert_int_equal(m->n_kv_heads, 2);
    assert_true(m->n_params > 1000000 && m->weight_bytes > m->n_params);
    assert_string_equal(m->dtype, "fp32");
    assert_string_equal(m->kv_cache_dtype, "fp32");
    assert_string_equal(m->quant, "none");
    assert_int_equal(m->threads, 1);
    assert_null(m->no_generation);
    assert_non_null(m->tokenizer);
    assert_null(m->no_tokenizer);
    assert_non_null(strstr(m->chat_template, "add_generation_prompt"));
    assert_null(m->no_chat_template);
    assert_int_equal(m->has_tools, 0);
    assert_null(m->tool_call_parser);
    assert_null(m->reasoning_parser);
    assert_ptr_equal(m, gallop_describe(demo));
}

static void special_tokens_have_ids_texts_and_names(void **state)
{
    const struct gallop_model_info *m = gallop_describe(demo);

    assert_int_equal(m->bos_id, 1);
    assert_int_equal(m->eos_id, 2);
    assert_int_equal(m->pad_id, 0);
    assert_int_equal(m->unk_id, -1);
    assert_int_equal(m->n_end_ids, 1);
    assert_int_equal(m->end_ids[0], 2);
    assert_int_equal(m->n_special_tokens, 6);
    assert_int_equal(m->special_tokens[2].id, 2);
    assert_string_equal(m->special_tokens[2].text, "<|end|>");
    assert_int_equal(m->special_tokens[2].text_len, 7);
    assert_string_equal(m->special_tokens[2].name, "eos_token");
    assert_string_equal(m->special_tokens[5].text, "<|assistant|>");
    assert_null(m->special_tokens[5].name);
}

static void a_model_without_tokenizer_says_so(void **state)
{
    struct gallop_options o = engines_options(1, 16, 32);
    struct gallop *g = engines_open("qwen3", &o);
    const struct gallop_model_info *m = gallop_describe(g);
    struct gallop_detokenizer *d;
    struct gallop_chat c;
    struct gallop_prompt p;
    int32_t *ids, id = 1;
    const char *piece;
    char *text, byte;
    size_t n;

    assert_null(m->tokenizer);
    assert_non_null(m->no_tokenizer);
    assert_null(m->chat_template);
    assert_non_null(m->no_chat_template);
    assert_int_equal(m->eos_id, -1);
    assert_int_equal(m->n_special_tokens, 0);
    assert_int_equal(gallop_tokenize(g, "a", 1, 0, &ids, &n, err), GALLOP_UNSUPPORTED);
    assert_says("no tokenizer");
    assert_null(ids);
    assert_int_equal(gallop_detokenize(g, &id, 1, 0, &text, &n, err), GALLOP_UNSUPPORTED);
    assert_null(text);
    assert_int_equal(gallop_detokenizer_new(&d, g, 0, err), GALLOP_UNSUPPORTED);
    assert_null(d);
    assert_int_equal(gallop_token_id(g, "a", 1), -1);
    assert_int_equal(gallop_token_piece(g, 1, &piece, &n), 0);
    assert_int_equal(gallop_token_bytes(g, 1, &byte, 1), 0);
    gallop_chat_init(&c);
    c.messages = "[{\"role\":\"user\",\"content\":\"a\"}]";
    assert_int_equal(gallop_render(g, &c, &p, err), GALLOP_BAD_INPUT);
    assert_says("no chat template");
    c.chat_template = "{% for m in messages %}<{{ m.content }}>{% endfor %}";
    assert_int_equal(gallop_render(g, &c, &p, err), GALLOP_OK);
    assert_string_equal(p.text, "<a>");
    assert_null(p.ids);
    gallop_prompt_fini(&p);
    gallop_close(g);
}

/* ---- tokens ---- */

static void tokens_are_those_of_requests(void **state)
{
    static const char text[] = "Once upon a time<|end|> there was \xc3\xa9";
    struct gallop_request r;
    struct gallop_event ev = {0};
    int32_t *with, *without, *plain;
    size_t n_with, n_without, n_plain;

    assert_int_equal(gallop_tokenize(demo, text, SIZE_MAX, GALLOP_ADD_SPECIAL, &with, &n_with, err), 0);
    assert_int_equal(gallop_tokenize(demo, text, strlen(text), 0, &without, &n_without, err), 0);
    assert_int_equal(gallop_tokenize(demo, text, SIZE_MAX, GALLOP_PLAIN_TEXT, &plain, &n_plain, err), 0);
    assert_int_equal(n_with, n_without + 1);
    assert_int_equal(with[0], 1);
    assert_memory_equal(with + 1, without, n_without * sizeof(*without));
    assert_true(n_plain > n_without);
    for (size_t i = 0; i < n_plain; i++)
        assert_int_not_equal(plain[i], 2);
    gallop_request_init(&r);
    r.text = text;
    r.sampling.max_new_tokens = 0;
    assert_int_equal(gallop_submit(demo, &r, NULL, err), 0);
    while (gallop_next(demo, &ev))
        ;
    assert_int_equal(ev.n_prompt, n_with);
    gallop_free(with);
    gallop_free(without);
    gallop_free(plain);
}

static void an_empty_text_has_no_tokens(void **state)
{
    int32_t *ids = (int32_t *)1;
    char *text = NULL;
    size_t n = 7;

    assert_int_equal(gallop_tokenize(demo, "", 0, 0, &ids, &n, err), 0);
    assert_null(ids);
    assert_int_equal(n, 0);
    assert_int_equal(gallop_detokenize(demo, NULL, 0, 0, &text, &n, err), 0);
    assert_string_equal(text, "");
    assert_int_equal(n, 0);
    gallop_free(text);
    gallop_free(NULL);
}

static void wrong_texts_flags_and_ids_are_refused(void **state)
{
    static const int32_t below[] = {-1}, last[] = {2047}, above[] = {5, 2048};
    struct gallop_detokenizer *d;
    const char *piece;
    int32_t *ids;
    char *text;
    size_t n;

    assert_int_equal(gallop_tokenize(demo, "\xff", 1, 0, &ids, &n, err), GALLOP_BAD_INPUT);
    assert_null(ids);
    assert_int_equal(gallop_tokenize(demo, "a", 1, GALLOP_KEEP_SPECIAL, &ids, &n, err), GALLOP_BAD_INPUT);
    assert_says("flags");
    assert_int_equal(gallop_detokenize(demo, last, 1, 8, &text, &n, err), GALLOP_BAD_INPUT);
    assert_int_equal(gallop_detokenize(demo, below, 1, 0, &text, &n, err), GALLOP_BAD_INPUT);
    assert_says("ids");
    assert_int_equal(gallop_detokenize(demo, above, 2, 0, &text, &n, err), GALLOP_BAD_INPUT);
    assert_says("2048 at position 1");
    assert_null(text);
    assert_int_equal(gallop_detokenize(demo, last, 1, 0, &text, &n, NULL), 0);
    gallop_free(text);
    assert_int_equal(gallop_detokenizer_new(&d, demo, GALLOP_ADD_SPECIAL, err), GALLOP_BAD_INPUT);
    assert_int_equal(gallop_detokenizer_new(&d, demo, 0, err), 0);
    assert_int_equal(gallop_detokenizer_put(d, above, 2, &piece, &n, err), GALLOP_BAD_INPUT);
    assert_int_equal(gallop_detokenizer_end(d, &piece, &n, err), 0);
    assert_int_equal(n, 0); /* the refused call changed nothing */
    gallop_detokenizer_free(d);
    gallop_detokenizer_free(NULL);
    assert_int_equal(gallop_token_piece(demo, -1, &piece, &n), 0);
    assert_int_equal(gallop_token_piece(demo, 2048, &piece, &n), 0);
}

static void a_token_is_found_by_its_piece_and_has_bytes(void **state)
{
    const char *piece;
    char bytes[64];
    int32_t *ids;
    size_t n;

    assert_int_equal(gallop_tokenize(demo, "a time", 6, 0, &ids, &n, err), 0);
    assert_int_equal(gallop_token_piece(demo, ids[n - 1], &piece, &n), 1);
    assert_int_equal(gallop_token_id(demo, piece, n), ids[1]);
    assert_int_equal(gallop_token_bytes(demo, ids[1], bytes, sizeof(bytes)), 5);
    assert_memory_equal(bytes, " time", 5);
    assert_int_equal(gallop_token_bytes(demo, -1, bytes, sizeof(bytes)), 0);
    assert_int_equal(gallop_token_id(demo, "<|end|>", SIZE_MAX), 2);
    assert_int_equal(gallop_token_id(demo, "no such token", SIZE_MAX), -1);
    gallop_free(ids);
}

/* Detokenizes IDS [n] with calls of STEP ids, and compares with WHOLE. Each piece is UTF-8. */
static void compare_stream(const int32_t *ids, size_t n, size_t step, unsigned flags, const char *whole)
{
    struct gallop_detokenizer *d;
    char text[512] = "";
    const char *piece;
    size_t len, at = 0;

    assert_int_equal(gallop_detokenizer_new(&d, demo, flags, err), 0);
    for (int again = 0; again < 2; again++) {
        at = 0;
        for (size_t i = 0; i < n; i += step) {
            assert_int_equal(
                gallop_detokenizer_put(d, ids + i, n - i < step ? n - i : step, &piece, &len, err), 0);
            assert_int_equal(strlen(piece), len);
            assert_int_equal(err_utf8(NULL, NULL, piece, len), 0);
            memcpy(text + at, piece, len + 1);
            at += len;
        }
        assert_int_equal(gallop_detokenizer_end(d, &piece, &len, err), 0);
        memcpy(text + at, piece, len + 1);
        assert_string_equal(text, whole);
    }
    gallop_detokenizer_free(d);
}

static void streamed_text_is_that_of_all_tokens(void **state)
{
    static const char text[] = "caf\xc3\xa9 \xf0\x9f\x90\xb4<|end|> a \xe2\x82\xac";
    static const unsigned flags[] = {0, GALLOP_KEEP_SPECIAL};
    int32_t *ids;
    size_t n, len;
    char *whole;

    assert_int_equal(gallop_tokenize(demo, text, SIZE_MAX, GALLOP_ADD_SPECIAL, &ids, &n, err), 0);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(gallop_detokenize(demo, ids, n, flags[k], &whole, &len, err), 0);
        assert_int_equal(strlen(whole), len);
        assert_true(strstr(whole, "<|end|>") ? k == 1 : k == 0);
        assert_non_null(strstr(whole, "\xf0\x9f\x90\xb4"));
        for (size_t step = 1; step <= n; step++)
            compare_stream(ids, n, step, flags[k], whole);
        gallop_free(whole);
    }
    gallop_free(ids);
}

static void an_incomplete_character_is_held_back(void **state)
{
    struct gallop_detokenizer *d;
    const char *piece;
    int32_t *ids;
    size_t n, len;

    assert_int_equal(gallop_tokenize(demo, "\xf0\x9f\x90\xb4", 4, 0, &ids, &n, err), 0);
    assert_true(n > 1); /* the vocabulary lacks the character */
    assert_int_equal(gallop_detokenizer_new(&d, demo, 0, err), 0);
    assert_int_equal(gallop_detokenizer_put(d, ids, n - 1, &piece, &len, err), 0);
    assert_int_equal(len, 0);
    assert_int_equal(gallop_detokenizer_put(d, ids + n - 1, 1, &piece, &len, err), 0);
    assert_string_equal(piece, "\xf0\x9f\x90\xb4");
    assert_int_equal(gallop_detokenizer_put(d, ids, n - 1, &piece, &len, err), 0);
    assert_int_equal(gallop_detokenizer_end(d, &piece, &len, err), 0);
    assert_string_equal(piece, "\xef\xbf\xbd");
    gallop_detokenizer_free(d);
    gallop_free(ids);
}

/* ---- chats ---- */

static const char hi[] = "[{\"role\":\"user\",\"content\":\" Hi \"}]";
static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}]";
static const char tool_template[] =
    "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}<tool_call> arguments{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}"
    "({{ c.function.name }} {{ c.function.arguments | tojson }}){% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if think %}<think>{% endif %}{% endif %}";

/* Renders C and compares the text, and the tokens with those of the text. */
static void assert_renders(const struct gallop_chat *c, const char *expected)
{
    struct gallop_prompt p;
    int32_t *ids;
    size_t n;
    int rc = gallop_render(demo, c, &p, err);

    if (rc)
        fail_msg("%s", err);
    assert_string_equal(p.text, expected);
    assert_int_equal(p.text_len, strlen(expected));
    if (!c->plain_user_text && !c->text_only) {
        assert_int_equal(gallop_tokenize(demo, expected, SIZE_MAX, 0, &ids, &n, err), 0);
        assert_int_equal(p.n_ids, n);
        assert_memory_equal(p.ids, ids, n * sizeof(*ids));
        gallop_free(ids);
    }
    gallop_prompt_fini(&p);
    assert_null(p.text);
}

static void a_chat_is_rendered_by_the_template(void **state)
{
    struct gallop_chat c;

    gallop_chat_init(&c);
    c.messages = hi;
    assert_renders(&c, "<|bos|><|user|>Hi<|end|><|assistant|>");
    c.no_generation_prompt = 1;
    assert_renders(&c, "<|bos|><|user|>Hi<|end|>");
    c.messages =
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":\"Once upon\"}]";
    c.continue_final_message = 1;
    assert_renders(&c, "<|bos|><|user|>a\nb<|end|><|assistant|>Once upon");
    gallop_chat_init(&c);
    c.messages = hi;
    c.text_only = 1;
    c.variables = "{\"bos_token\":\"\",\"unused\":1}";
    assert_renders(&c, "<|user|>Hi<|end|><|assistant|>");
}

/* Renders template number I, and checks its text. */
static bool renders_number(unsigned i)
{
    char source[100], expected[100];
    struct gallop_chat c;
    struct gallop_prompt p;
    bool fine;

    gallop_chat_init(&c);
    c.messages = hi;
    c.chat_template = source;
    c.text_only = 1;
    snprintf(source, sizeof(source), "%u{%% for m in messages %%}{{ m.content }}{%% endfor %%}", i);
    snprintf(expected, sizeof(expected), "%u Hi ", i);
    fine = gallop_render(demo, &c, &p, NULL) == 0 && strcmp(p.text, expected) == 0;
    gallop_prompt_fini(&p);
    return fine;
}

static void *render_many(void *first)
{
    for (unsigned i = 0; i < 100; i++)
        if (!renders_number(*(unsigned *)first + i % 12))
            return first;
    return NULL;
}

/* A template is parsed once, unless 8 others were used since. */
static void templates_of_programs_are_kept(void **state)
{
    const struct template_cache *c = &engine_texts(demo)->templates;
    uint64_t before = c->n_parsed;
    unsigned first[3] = {0, 5, 0};
    pthread_t thread[3];
    void *wrong;

    for (unsigned i = 0; i < 24; i++)
        assert_true(renders_number(i % TEMPLATE_CACHE_ENTRIES));
    assert_int_equal(c->n_parsed - before, TEMPLATE_CACHE_ENTRIES);
    assert_true(renders_number(8)); /* instead of number 0 */
    assert_true(renders_number(1));
    assert_int_equal(c->n_parsed - before, 9);
    assert_true(renders_number(0)); /* instead of number 2 */
    assert_true(renders_number(1));
    assert_int_equal(c->n_parsed - before, 10);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, render_many, &first[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
}

static void text_of_users_may_stay_plain(void **state)
{
    struct gallop_chat c;
    struct gallop_prompt p;
    size_t n_end[2] = {0, 0};

    gallop_chat_init(&c);
    c.messages = "[{\"role\":\"user\",\"content\":\"a<|end|>\"}]";
    for (int plain = 0; plain < 2; plain++) {
        c.plain_user_text = plain;
        assert_int_equal(gallop_render(demo, &c, &p, err), 0);
        for (size_t i = 0; i < p.n_ids; i++)
            n_end[plain] += p.ids[i] == 2;
        gallop_prompt_fini(&p);
    }
    assert_int_equal(n_end[0], 2);
    assert_int_equal(n_end[1], 1);
}

static void another_template_takes_tools_and_variables(void **state)
{
    struct gallop_chat c;

    gallop_chat_init(&c);
    c.chat_template = tool_template;
    c.messages =
        "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
        "\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}}]}]";
    c.tools = tools;
    c.variables = "{\"think\":true,\"tools\":[]}"; /* the member `tools` has precedence */
    assert_renders(
        &c,
        "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\"}}}"
        "<tool_call> arguments<user>x<assistant>(f {\"a\": 1})<assistant><think>");
    c.tools = "[]";
    c.verbatim = 1; /* the arguments stay text */
    assert_renders(&c, "<user>x<assistant>(f \"{\\\"a\\\": 1}\")<assistant><think>");
}

/* Renders C, which is refused with CODE and a sentence that has PART. */
static void assert_refused(const struct gallop_chat *c, int code, const char *part)
{
    struct gallop_prompt p;

    assert_int_equal(gallop_render(demo, c, &p, err), code);
    assert_says(part);
    assert_null(p.text);
    assert_null(p.ids);
}

static void wrong_chats_are_refused(void **state)
{
    struct gallop_chat c;

    gallop_chat_init(&c);
    assert_refused(&c, GALLOP_BAD_INPUT, "messages");
    c.messages = "[";
    assert_refused(&c, GALLOP_BAD_INPUT, "messages");
    c.messages = "{}";
    assert_refused(&c, GALLOP_BAD_INPUT, "messages");
    c.messages = "[]";
    assert_refused(&c, GALLOP_BAD_INPUT, "messages");
    c.messages = "[{\"role\":\"tool\",\"content\":\"x\"}]";
    assert_refused(&c, GALLOP_BAD_INPUT, "The roles of this model are");
    c.messages = "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]";
    assert_refused(&c, GALLOP_UNSUPPORTED, "messages[0].content[0]");
    c.messages = hi;
    c.tools = "{}";
    assert_refused(&c, GALLOP_BAD_INPUT, "tools");
    c.tools = tools;
    assert_refused(&c, GALLOP_UNSUPPORTED, "tools");
    c.tools = NULL;
    c.variables = "[]";
    assert_refused(&c, GALLOP_BAD_INPUT, "variables");
    c.variables = NULL;
    c.continue_final_message = 1;
    assert_refused(&c, GALLOP_BAD_INPUT, "continue_final_message");
    c.continue_final_message = 0;
    c.template_name = "rag";
    assert_refused(&c, GALLOP_BAD_INPUT, "rag");
    c.template_name = NULL;
    c.chat_template = "{% if %}";
    assert_refused(&c, GALLOP_BAD_INPUT, "chat_template");
}

/* ---- answers ---- */

static const char answer[] =
    "<think>\nhm\n</think>\n\nA <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"\xc3\xa9\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b";

static struct gallop_parser_options hermes(void)
{
    struct gallop_parser_options o;

    gallop_parser_options_init(&o);
    o.tool_call_parser = "hermes";
    o.reasoning_parser = "qwen3";
    o.tools = tools;
    return o;
}

/* Parses TEXT and compares the message, in which ids of calls are "ID". */
static void assert_parses(const struct gallop_parser_options *o, const char *text, enum gallop_parser_end end,
                          const char *expected)
{
    char *json, *id;
    int rc = gallop_parse(demo, o, text, SIZE_MAX, end, &json, err);

    if (rc)
        fail_msg("%s", err);
    while ((id = strstr(json, "call_")) && strlen(id) > 29 && id[29] == '"') {
        memcpy(id, "ID", 2);
        memmove(id + 2, id + 29, strlen(id + 29) + 1);
    }
    assert_string_equal(json, expected);
    gallop_free(json);
}

static void an_answer_becomes_a_message(void **state)
{
    struct gallop_parser_options o = hermes();

    assert_parses(&o, "plain", GALLOP_PARSER_ENDED, "{\"role\":\"assistant\",\"content\":\"plain\"}");
    assert_parses(&o, "", GALLOP_PARSER_ENDED, "{\"role\":\"assistant\",\"content\":\"\"}");
    assert_parses(
        &o, answer, GALLOP_PARSER_CUT,
        "{\"role\":\"assistant\",\"content\":\"A\",\"reasoning\":\"hm\",\"tool_calls\":[{\"id\":\"ID\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": \\\"\xc3\xa9\\\"}\"}},{\"id\":\"ID\","
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"b\"}}]}");
    o.one_call = 1;
    o.prompt = "<think>";
    assert_parses(
        &o,
        "hm</think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"f\"}",
        GALLOP_PARSER_ENDED,
        "{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"hm\",\"tool_calls\":[{\"id\":\"ID\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}");
    o.tools = NULL;
    o.reasoning_parser = "none";
    assert_parses(&o, "<tool_call>", GALLOP_PARSER_ENDED,
                  "{\"role\":\"assistant\",\"content\":\"<tool_call>\"}");
    gallop_parser_options_init(&o); /* the model's template shows no markup */
    o.tools = tools;
    assert_parses(&o, "<think>", GALLOP_PARSER_ENDED, "{\"role\":\"assistant\",\"content\":\"<think>\"}");
    o.chat_template = tool_template;
    assert_parses(
        &o, "<tool_call>{\"name\": \"f\", \"arguments\": {}}", GALLOP_PARSER_ENDED,
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"ID\",\"type\":\"function\",\"function\":{"
        "\"name\":\"f\",\"arguments\":\"{}\"}}]}");
}

static void wrong_options_of_a_parser_are_refused(void **state)
{
    struct gallop_parser_options o = hermes();
    struct gallop_parser *p = (struct gallop_parser *)1;
    char *json = (char *)1;

    o.tool_call_parser = "unheard_of";
    assert_int_equal(gallop_parser_open(&p, demo, &o, err), GALLOP_BAD_INPUT);
    assert_says("tool_call_parser");
    assert_null(p);
    o = hermes();
    o.reasoning_parser = "";
    assert_int_equal(gallop_parse(demo, &o, "a", 1, GALLOP_PARSER_ENDED, &json, err), GALLOP_BAD_INPUT);
    assert_says("reasoning_parser");
    assert_null(json);
    o = hermes();
    o.tools = "[{}]";
    assert_int_equal(gallop_parser_open(&p, demo, &o, err), GALLOP_BAD_INPUT);
    assert_says("tools[0]");
    o = hermes();
    assert_int_equal(gallop_parse(demo, &o, "\xff", 1, GALLOP_PARSER_ENDED, &json, err), GALLOP_BAD_INPUT);
    gallop_parser_close(NULL);
}

/* Writes the pieces of P that can be taken now to OUT, as text. */
static void take_pieces(struct gallop_parser *p, char *out)
{
    static const char *const names[] = {"content ", "reasoning ", "call ", "arguments ", "end "};
    static int last;
    struct gallop_piece piece;

    last = out[0] ? last : -1;
    while (gallop_parser_take(p, &piece)) {
        if ((int)piece.kind != last || piece.kind == GALLOP_PIECE_CALL)
            sprintf(out + strlen(out), "|%s%u ", names[piece.kind], piece.call);
        last = (int)piece.kind;
        if (piece.kind == GALLOP_PIECE_CALL)
            assert_int_equal(strlen(piece.id), 29);
        if (piece.kind == GALLOP_PIECE_CALL_END)
            strcat(out, piece.complete ? "complete" : "cut");
        else
            sprintf(out + strlen(out), "%.*s", (int)piece.len, piece.text);
    }
}

static void pieces_do_not_depend_on_the_division(void **state)
{
    struct gallop_parser_options o = hermes();

    for (size_t step = 1; step < sizeof(answer); step++) {
        struct gallop_parser *p;
        char got[512] = "";

        assert_int_equal(gallop_parser_open(&p, demo, &o, err), 0);
        for (size_t at = 0, n; at < strlen(answer); at += n) {
            n = strlen(answer) - at < step ? strlen(answer) - at : step;
            while ((answer[at + n] & 0xc0) == 0x80) /* whole characters */
                n++;
            assert_int_equal(gallop_parser_feed(p, answer + at, n, err), 0);
            take_pieces(p, got);
        }
        assert_int_equal(gallop_parser_finish(p, GALLOP_PARSER_CUT, err), 0);
        take_pieces(p, got);
        assert_string_equal(
            got, "|reasoning 0 hm|content 0 A|call 0 f|arguments 0 {\"a\": \"\xc3\xa9\"}|end 0 complete"
                 "|call 1 f|arguments 1 {\"b|end 1 cut");
        gallop_parser_close(p);
    }
}

/* ---- requests ---- */

/* Renders a conversation with tools and prepares a request with the tool choice CHOICE. */
static int ask(const char *choice, bool has_tools, struct gallop_prompt *p, struct gallop_request *r)
{
    struct gallop_chat c;

    gallop_chat_init(&c);
    c.chat_template = tool_template;
    c.messages = hi;
    c.tools = has_tools ? tools : NULL;
    c.tool_choice = choice;
    c.reasoning_parser = "qwen3";
    c.variables = "{\"think\":true}";
    assert_int_equal(gallop_render(demo, &c, p, err), 0);
    return gallop_ask(demo, &c, p, r, err);
}

static void a_request_gets_the_marks_of_the_model(void **state)
{
    struct gallop_request r;
    struct gallop_prompt p;

    gallop_request_init(&r);
    r.text = "not used";
    assert_int_equal(ask(NULL, true, &p, &r), 0);
    assert_null(r.text);
    assert_ptr_equal(r.ids, p.ids);
    assert_int_equal(r.n_ids, p.n_ids);
    assert_int_equal(r.keep_special, 1);
    assert_string_equal(r.tool_call_open[0], "<tool_call>");
    assert_string_equal(r.tool_call_close, "</tool_call>");
    assert_string_equal(r.reasoning_close, "</think>");
    assert_int_equal(r.reasoning_begun, 1);
    assert_null(r.structured_outputs.tool_calls); /* nothing is forced */
    gallop_prompt_fini(&p);
    gallop_request_init(&r);
    assert_int_equal(ask("none", true, &p, &r), 0);
    assert_null(strstr(p.text, "parameters"));
    assert_null(r.tool_call_open[0]);
    assert_int_equal(r.keep_special, 0);
    gallop_prompt_fini(&p);
    gallop_request_init(&r);
    r.structured_outputs.json_object = 1;
    assert_int_equal(ask(NULL, true, &p, &r), 0);
    assert_non_null(r.structured_outputs.tool_calls);
    assert_string_equal(r.structured_outputs.begins_after, "</think>");
    gallop_prompt_fini(&p);
}

static void a_continued_message_tells_where_its_answer_begins(void **state)
{
    static const struct {
        const char *messages, *begins_after, *message;
        int begun;
    } cases[] = {
        {"[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"It is\"}]", NULL,
         "{\"role\":\"assistant\",\"content\":\" a</think>b\"}", 0},
        {"[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"<think>I\"}]",
         "</think>", "{\"role\":\"assistant\",\"content\":\"b\",\"reasoning\":\" a\"}", 1},
    };

    for (size_t i = 0; i < 2; i++) {
        struct gallop_parser_options o;
        struct gallop_request r;
        struct gallop_prompt p;
        struct gallop_chat c;

        gallop_chat_init(&c);
        c.messages = cases[i].messages;
        c.reasoning_parser = "deepseek_r1";
        c.no_generation_prompt = c.continue_final_message = 1;
        assert_int_equal(gallop_render(demo, &c, &p, err), 0);
        gallop_request_init(&r);
        r.structured_outputs.json_object = 1;
        assert_int_equal(gallop_ask(demo, &c, &p, &r, err), 0);
        assert_int_equal(r.reasoning_begun, cases[i].begun);
        assert_null(r.structured_outputs.may_begin_with);
        if (cases[i].begins_after)
            assert_string_equal(r.structured_outputs.begins_after, cases[i].begins_after);
        else
            assert_null(r.structured_outputs.begins_after);
        gallop_parser_options_init(&o);
        o.reasoning_parser = c.reasoning_parser;
        o.prompt = p.text;
        o.messages = c.messages;
        assert_parses(&o, " a</think>b", GALLOP_PARSER_ENDED, cases[i].message);
        gallop_prompt_fini(&p);
    }
}

/* The text of an event tells which of its bytes special tokens wrote, also where the beginning of a stop string is
 * held back. */
static void events_tell_what_special_tokens_wrote(void **state)
{
    static const char *const stops[] = {"<|user|>a<|user|>b", "a<|system|><"};

    for (int stop = 0; stop < 3; stop++) {
        struct gallop_event ev;
        struct gallop_request r;
        int32_t ids[2] = {gallop_token_id(demo, "<|user|>", 8), gallop_token_id(demo, "a", 1)};
        const float bias[2] = {1000, 1000};
        char text[1024] = "", special[1024];
        size_t n = 0;

        gallop_request_init(&r);
        r.text = "x";
        r.keep_special = 1;
        r.sampling.max_new_tokens = 40;
        r.sampling.ignore_eos = r.sampling.do_sample = r.sampling.has_seed = 1;
        r.sampling.temperature = 100;
        r.sampling.seed = 3;
        r.sampling.bias_id = ids;
        r.sampling.bias = bias;
        r.sampling.n_bias = 2;
        r.sampling.stop = &stops[stop - (stop == 2)];
        r.sampling.n_stop = stop > 0;
        assert_int_equal(gallop_submit(demo, &r, NULL, err), 0);
        while (gallop_next(demo, &ev))
            if (ev.type == GALLOP_TEXT) {
                assert_true(n + ev.text_len < sizeof(text));
                memcpy(text + n, ev.text, ev.text_len);
                memcpy(special + n, ev.special, ev.text_len);
                n += ev.text_len;
            }
        assert_true(n > 40 && memchr(text, 'a', n)); /* both tokens were drawn */
        for (size_t i = 0, length; i < n; i += length) {
            length = text[i] == '<' ? 8 : 1;
            for (size_t k = i; k < i + length; k++)
                assert_int_equal(special[k], length == 8);
        }
    }
}

static void a_forced_tool_call_is_written_and_parsed(void **state)
{
    static const char *const choices[] = {"required",
                                          "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"};

    for (int i = 0; i < 2; i++) {
        struct gallop_parser_options o = hermes();
        struct gallop_request r;
        struct gallop_event ev;
        struct gallop_prompt p;
        char *json, text[512] = "<think>";

        gallop_request_init(&r);
        r.sampling.max_new_tokens = 90;
        r.sampling.thinking_token_budget = 2;
        assert_int_equal(ask(choices[i], true, &p, &r), 0);
        assert_int_equal(gallop_submit(demo, &r, NULL, err), 0);
        gallop_prompt_fini(&p);
        while (gallop_next(demo, &ev))
            if (ev.type == GALLOP_TEXT)
                strncat(text, ev.text, ev.text_len);
        assert_int_equal(gallop_parse(demo, &o, text, SIZE_MAX, GALLOP_PARSER_CUT, &json, err), 0);
        if (!strstr(json, "\"name\":\"f\""))
            fail_msg("%s gives %s", text, json);
        gallop_free(json);
    }
}

static void a_function_that_is_named_is_called_once(void **state)
{
    static const struct {
        const char *choice, *part;
    } cases[] = {{"{\"type\":\"function\",\"function\":{\"name\":\"f\"}}", "\"parallel\":false"},
                 {"required", "\"parallel\":true"}};

    for (int i = 0; i < 2; i++) {
        struct gallop_parser_options o = hermes();
        struct gallop_request r;
        struct gallop_prompt p;
        char expected[400];

        gallop_request_init(&r);
        assert_int_equal(ask(cases[i].choice, true, &p, &r), 0);
        assert_non_null(strstr(r.structured_outputs.tool_calls, cases[i].part));
        gallop_prompt_fini(&p);
        o.tool_choice = cases[i].choice;
        snprintf(
            expected, sizeof(expected),
            "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"ID\",\"type\":\"function\","
            "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}%s]}",
            i ? ",{\"id\":\"ID\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}"
              : "");
        assert_parses(
            &o,
            "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"f\", "
            "\"arguments\": {}}</tool_call><tool_call>{\"name\": \"",
            GALLOP_PARSER_CUT, expected);
        o.tools = NULL; /* without functions nothing is parsed or dropped */
        assert_parses(&o, "a", GALLOP_PARSER_CUT, "{\"role\":\"assistant\",\"content\":\"a\"}");
    }
}

static void a_wrong_tool_choice_is_refused_and_changes_nothing(void **state)
{
    static const struct {
        const char *choice, *part;
        bool has_tools;
    } wrong[] = {{"required", "tool_choice", false},
                 {"{\"type\":\"function\",\"function\":{\"name\":\"g\"}}", "'g'", true}};
    struct gallop_request r, before;
    struct gallop_prompt p;
    struct gallop_chat c;

    gallop_request_init(&r);
    before = r;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(wrong[i].choice, wrong[i].has_tools, &p, &r), GALLOP_BAD_INPUT);
        assert_says(wrong[i].part);
        assert_memory_equal(&r, &before, sizeof(r));
        gallop_prompt_fini(&p);
    }
    gallop_chat_init(&c);
    c.messages = hi;
    c.tool_choice = "perhaps";
    assert_refused(&c, GALLOP_BAD_INPUT, "tool_choice");
    assert_int_equal(gallop_ask(demo, &c, &p, &r, err), GALLOP_BAD_INPUT); /* P has no tokens */
    c.tool_choice = NULL;
    c.tools = tools;
    c.chat_template = "{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}";
    assert_int_equal(gallop_render(demo, &c, &p, err), 0);
    assert_int_equal(gallop_ask(demo, &c, &p, &r, err), GALLOP_UNSUPPORTED);
    assert_says("tool_call_parser");
    c.tool_call_parser = "none";
    assert_int_equal(gallop_ask(demo, &c, &p, &r, err), 0);
    c.tool_choice = "required";
    assert_int_equal(gallop_ask(demo, &c, &p, &r, err), GALLOP_UNSUPPORTED);
    assert_says("tool-call-parser is none");
    c.tool_call_parser = "gemma4"; /* also a format whose arguments are no JSON is constrained */
    assert_int_equal(gallop_ask(demo, &c, &p, &r, err), 0);
    assert_non_null(strstr(r.structured_outputs.tool_calls, "\"gemma4\""));
    gallop_prompt_fini(&p);
}

/* Tools that a template gets as they are may have any shape, but calls of them can only be forced if they are
 * OpenAI's. */
static void tools_of_another_shape_are_not_forced(void **state)
{
    static const char *const shapes[] = {"[{\"type\":\"function\"}]",
                                         "[5]",
                                         "[null]",
                                         "[[]]",
                                         "[{\"type\":\"function\",\"function\":{\"name\":7}}]",
                                         "[{\"type\":\"function\",\"function\":{}}]"};
    static const char *const choices[] = {"auto", "none", "required",
                                          "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes) * 4; i++) {
        struct gallop_request r;
        struct gallop_prompt p;
        struct gallop_chat c;

        gallop_chat_init(&c);
        gallop_request_init(&r);
        c.messages = hi;
        c.verbatim = 1;
        c.tool_call_parser = "hermes";
        c.chat_template =
            "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}{{ tools|tojson }}{% endif %}";
        c.tools = shapes[i / 4];
        c.tool_choice = choices[i % 4];
        if (gallop_render(demo, &c, &p, err) != 0) { /* a list of what is no object is refused at once */
            assert_int_not_equal(shapes[i / 4][1], '{');
            assert_says("tools[0]");
            continue;
        }
        assert_int_equal(gallop_ask(demo, &c, &p, &r, err), i % 4 < 2 ? 0 : GALLOP_BAD_INPUT);
        if (i % 4 >= 2)
            assert_says("tools");
        gallop_prompt_fini(&p);
    }
}

/* ---- threads ---- */

static void *use_texts(void *given)
{
    bool *stops = given;
    struct gallop_parser_options o = hermes();
    struct gallop_chat c;
    size_t wrong = 0;

    gallop_chat_init(&c);
    c.messages = hi;
    while (!__atomic_load_n(stops, __ATOMIC_RELAXED)) {
        struct gallop_prompt p;
        char *json, *text;
        int32_t *ids;
        size_t n, len;

        wrong += gallop_render(demo, &c, &p, NULL) != 0 ||
                 strcmp(p.text, "<|bos|><|user|>Hi<|end|><|assistant|>") != 0;
        wrong += gallop_tokenize(demo, "Once upon", 9, 0, &ids, &n, NULL) != 0;
        wrong += gallop_detokenize(demo, ids, n, 0, &text, &len, NULL) != 0 || strcmp(text, "Once upon") != 0;
        wrong += gallop_parse(demo, &o, answer, SIZE_MAX, GALLOP_PARSER_CUT, &json, NULL) != 0;
        wrong += gallop_describe(demo)->eos_id != 2;
        gallop_prompt_fini(&p);
        gallop_free(ids);
        gallop_free(text);
        gallop_free(json);
    }
    return (void *)(uintptr_t)wrong;
}

static void other_threads_use_texts_while_the_engine_runs(void **state)
{
    struct gallop_request r;
    struct gallop_event ev;
    pthread_t thread[2];
    bool stops = false;

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use_texts, &stops), 0);
    gallop_request_init(&r);
    r.text = "Once upon a time";
    r.sampling.max_new_tokens = 40;
    r.sampling.ignore_eos = 1;
    for (int i = 0; i < 4; i++)
        assert_int_equal(gallop_submit(demo, &r, NULL, err), 0);
    while (gallop_next(demo, &ev))
        ;
    __atomic_store_n(&stops, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) {
        void *wrong;

        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
}

/* ---- memory ---- */

static int render_once(void)
{
    struct gallop_chat c;
    struct gallop_prompt p;
    int rc;

    gallop_chat_init(&c);
    c.messages = hi;
    c.tools = tools;
    c.chat_template = tool_template;
    c.plain_user_text = 1;
    rc = gallop_render(demo, &c, &p, err);
    gallop_prompt_fini(&p);
    return rc;
}

static int ask_once(void)
{
    struct gallop_request r;
    struct gallop_prompt p = {0};
    struct gallop_chat c;
    int rc;

    gallop_chat_init(&c);
    c.chat_template = tool_template;
    c.messages = hi;
    c.tools = tools;
    c.tool_choice = "required";
    gallop_request_init(&r);
    if ((rc = gallop_render(demo, &c, &p, err)) == 0)
        rc = gallop_ask(demo, &c, &p, &r, err);
    gallop_prompt_fini(&p);
    return rc;
}

static int tokenize_once(void)
{
    struct gallop_detokenizer *d = NULL;
    const char *piece;
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n, len;
    int rc;

    if ((rc = gallop_tokenize(demo, answer, SIZE_MAX, 0, &ids, &n, err)) == 0 &&
        (rc = gallop_detokenize(demo, ids, n, 0, &text, &len, err)) == 0 &&
        (rc = gallop_detokenizer_new(&d, demo, 0, err)) == 0 &&
        (rc = gallop_detokenizer_put(d, ids, n, &piece, &len, err)) == 0)
        rc = gallop_detokenizer_end(d, &piece, &len, err);
    gallop_detokenizer_free(d);
    gallop_free(ids);
    gallop_free(text);
    return rc;
}

static int parse_once(void)
{
    struct gallop_parser_options o = hermes();
    char *json;
    int rc = gallop_parse(demo, &o, answer, SIZE_MAX, GALLOP_PARSER_CUT, &json, err);

    gallop_free(json);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    int (*const run[])(void) = {render_once, ask_once, tokenize_once, parse_once};

    for (size_t k = 0; k < sizeof(run) / sizeof(run[0]); k++) {
        size_t blocks;
        bool failed = true;

        assert_int_equal(run[k](), 0);
        blocks = mem_live_blocks();
        for (long n = 1; failed; n++) {
            int rc;

            err[0] = 0;
            mem_fail_at(n);
            rc = run[k]();
            failed = mem_failed();
            mem_fail_at(0);
            assert_int_equal(rc, failed ? GALLOP_NO_MEMORY : 0);
            assert_true(!failed || strlen(err) > 10);
            assert_int_equal(mem_live_blocks(), blocks);
        }
    }
}

static void opening_texts_may_fail_at_every_allocation(void **state)
{
    bool failed = true;
    size_t blocks = mem_live_blocks();

    for (long n = 1; failed; n++) {
        struct texts *t;
        struct err e = {0};
        int rc;

        mem_fail_at(n);
        rc = texts_open(&t, demo, &e);
        failed = mem_failed();
        mem_fail_at(0);
        if (rc == 0 && !failed)
            assert_string_equal(t->info.name, "demo");
        if (rc == 0)
            texts_close(t);
        else
            assert_int_equal(rc, ERR_NOMEM);
        assert_true(rc == 0 || strlen(e.msg) > 10);
        assert_int_equal(mem_live_blocks(), blocks);
    }
}

/* Some allocations of each part of gallop_open(); all of the engine's are in test_oom.c. */
static void opening_an_engine_may_fail(void **state)
{
    struct gallop_options o = engines_options(1, 16, 32);
    bool failed = true;
    size_t blocks = mem_live_blocks();

    o.model = GALLOP_SOURCE_DIR "/models/demo";
    for (long n = 1; failed; n += 53) {
        struct gallop *g = (struct gallop *)1;
        int rc;

        mem_fail_at(n);
        rc = gallop_open(&g, &o, err);
        failed = mem_failed();
        mem_fail_at(0);
        assert_true(rc ? failed && !g : g != NULL);
        gallop_close(g);
        assert_int_equal(mem_live_blocks(), blocks);
    }
}

/* ---- the stack ---- */

/* Uses each part of gallop.h with the worst inputs for the stack: nested messages, templates without an
 * end. */
static void *use_little_stack(void *nothing)
{
    static char nested[4096], regex[2048];
    struct gallop_options o = engines_options(1, 16, 64);
    struct gallop_parser_options of_parser = hermes();
    struct gallop_request r;
    struct gallop_chat c;
    struct gallop_prompt p;
    struct gallop_event ev;
    struct gallop *g;
    char *json;
    int rc;

    o.model = GALLOP_SOURCE_DIR "/models/demo";
    if (gallop_open(&g, &o, err) != 0)
        return err;
    gallop_chat_init(&c);
    c.messages = hi;
    c.chat_template =
        "{% macro a(n) %}{% if n %}{{ [a(n + 1) | trim] | tojson }}{% endif %}{% endmacro %}{{ a(1) }}";
    rc = gallop_render(g, &c, &p, err) == GALLOP_BAD_INPUT ? 0 : 1; /* the nesting has a limit */
    c.chat_template = tool_template;
    strcpy(nested, "[{\"role\":\"user\",\"content\":\"a\",\"b\":");
    memset(nested + strlen(nested), '[', 1500);
    rc += gallop_render(g, &c, &p, err);
    gallop_prompt_fini(&p);
    c.messages = nested;
    rc += gallop_render(g, &c, &p, err) == GALLOP_BAD_INPUT ? 0 : 1;
    rc += gallop_parse(g, &of_parser, answer, SIZE_MAX, GALLOP_PARSER_CUT, &json, err);
    gallop_free(json);
    gallop_request_init(&r);
    r.text = "Once";
    r.sampling.max_new_tokens = 4;
    r.sampling.logprobs = 1024;
    memset(regex, '(', 1000);
    r.structured_outputs.regex = regex;
    rc += gallop_submit(g, &r, NULL, err) == GALLOP_UNSUPPORTED ? 0 : 1; /* so does this one */
    r.structured_outputs.regex = "(a|b(c|d)*)+";
    rc += gallop_submit(g, &r, NULL, err);
    while (gallop_next(g, &ev))
        rc += ev.type == GALLOP_FINISHED && ev.finish == GALLOP_FINISH_ERROR;
    gallop_close(g);
    return rc ? (void *)1 : NULL;
}

static void a_mebibyte_of_stack_suffices(void **state)
{
    const size_t bytes = MORE_STACK + ((size_t)1 << 20);
    pthread_attr_t attr;
    pthread_t thread;
    void *wrong;

    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, bytes), 0);
    assert_int_equal(pthread_create(&thread, &attr, use_little_stack, NULL), 0);
    pthread_join(thread, &wrong);
    pthread_attr_destroy(&attr);
    assert_null(wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_description_is_that_of_the_files),
        cmocka_unit_test(special_tokens_have_ids_texts_and_names),
        cmocka_unit_test(a_model_without_tokenizer_says_so),
        cmocka_unit_test(tokens_are_those_of_requests),
        cmocka_unit_test(an_empty_text_has_no_tokens),
        cmocka_unit_test(wrong_texts_flags_and_ids_are_refused),
        cmocka_unit_test(a_token_is_found_by_its_piece_and_has_bytes),
        cmocka_unit_test(streamed_text_is_that_of_all_tokens),
        cmocka_unit_test(an_incomplete_character_is_held_back),
        cmocka_unit_test(a_chat_is_rendered_by_the_template),
        cmocka_unit_test(templates_of_programs_are_kept),
        cmocka_unit_test(text_of_users_may_stay_plain),
        cmocka_unit_test(another_template_takes_tools_and_variables),
        cmocka_unit_test(wrong_chats_are_refused),
        cmocka_unit_test(an_answer_becomes_a_message),
        cmocka_unit_test(wrong_options_of_a_parser_are_refused),
        cmocka_unit_test(pieces_do_not_depend_on_the_division),
        cmocka_unit_test(a_request_gets_the_marks_of_the_model),
        cmocka_unit_test(a_continued_message_tells_where_its_answer_begins),
        cmocka_unit_test(events_tell_what_special_tokens_wrote),
        cmocka_unit_test(a_forced_tool_call_is_written_and_parsed),
        cmocka_unit_test(a_function_that_is_named_is_called_once),
        cmocka_unit_test(a_wrong_tool_choice_is_refused_and_changes_nothing),
        cmocka_unit_test(other_threads_use_texts_while_the_engine_runs),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(opening_texts_may_fail_at_every_allocation),
        cmocka_unit_test(opening_an_engine_may_fail),
        cmocka_unit_test(a_mebibyte_of_stack_suffices),
        cmocka_unit_test(tools_of_another_shape_are_not_forced),
    };

    return cmocka_run_group_tests(tests, open_demo, close_demo);
}
