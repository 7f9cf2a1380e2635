/* test_dialect.c - answers in blocks: which piece goes into which block, whatever comes in one event. */
#include <math.h>

#include "api/answer.h"
#include "api/anthropic.h"
#include "api/request.h"
#include "api/responses.h"
#include "base/buf.h"

static struct buf said; /* what was written, in short */

static void open_block(struct request *c, struct request_choice *h, const char *id, const char *name,
                       struct buf *out)
{
    buf_fmt(out, "[%s%s ",
            h->block == DIALECT_CALL   ? "call "
            : h->block == DIALECT_TEXT ? "text"
                                       : "reasoning",
            name ? name : "");
}

static void add(struct request *c, struct request_choice *h, const char *text, size_t n, struct buf *out)
{
    buf_add(out, text, n);
}

static void close_block(struct request *c, struct request_choice *h, struct buf *out)
{
    buf_str(out, "]");
}

static const struct dialect_blocks blocks = {open_block, add, close_block};

/* One event of H. */
static void event(struct request_choice *h, const char *reasoning, const char *text, const char *calls)
{
    buf_str(&h->reasoning, reasoning);
    buf_str(&h->text, text);
    buf_str(&h->calls, calls);
    dialect_put_blocks(NULL, h, &blocks, &said);
    dialect_sent(h);
    assert_false(said.oom);
}

static int begin(void **state)
{
    static struct request_choice h;

    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    h = (struct request_choice){.text.tag = MEM_API,
                                .reasoning.tag = MEM_API,
                                .calls.tag = MEM_API,
                                .head.tag = MEM_API,
                                .said.tag = MEM_API,
                                .items.tag = MEM_API};
    said = (struct buf){.tag = MEM_API};
    *state = &h;
    return 0;
}

static int end(void **state)
{
    struct request_choice *h = *state;

    buf_fini(&h->text);
    buf_fini(&h->reasoning);
    buf_fini(&h->calls);
    buf_fini(&h->head);
    buf_fini(&h->said);
    buf_fini(&h->items);
    buf_fini(&said);
    return 0;
}

#define CALL(n, name, arguments) \
    "{\"index\":" n ",\"id\":\"i\",\"function\":{\"name\":\"" name "\",\"arguments\":\"" arguments "\"}}"
#define REST(n, arguments) "{\"index\":" n ",\"function\":{\"arguments\":\"" arguments "\"}}"

static void pieces_alone_are_blocks_one_behind_another(void **state)
{
    struct request_choice *h = *state;

    event(h, "why", "", "");
    event(h, "", "a", "");
    event(h, "", "b", "");
    event(h, "", "", CALL("0", "f", "{"));
    event(h, "", "", REST("0", "}"));
    h->ended = true;
    event(h, "", "", CALL("1", "g", "{}"));
    assert_string_equal(said.data, "[reasoning why][text ab][call f {}][call g {}]");
}

/* The rest of a call's arguments belongs to it, also where text that stood behind the call comes with it. */
static void the_rest_of_a_call_does_not_become_text(void **state)
{
    struct request_choice *h = *state;

    event(h, "", "", CALL("0", "f", "{1"));
    h->ended = true;
    event(h, "", "done", REST("0", "2}") "," CALL("1", "g", "{}"));
    assert_string_equal(said.data, "[call f {12}][text done][call g {}]");
}

/* Where the answer is cut, the items in front of its last are whole, as they are in a stream. */
static void only_the_last_item_of_a_cut_response_is_incomplete(void **state)
{
    static const char *const names[] = {"m"};
    struct request_choice *h = *state;
    struct api a = {.opt = {.name = names, .n_names = 1}};
    struct request_prompt p = {.n_cached = 0};
    struct request c = {.api = &a, .prompt = &p, .choice = h, .f = {.temperature = NAN, .top_p = NAN}};

    buf_str(&h->reasoning, "why");
    buf_str(&h->text, "becau");
    h->ended = true;
    h->finish = GALLOP_FINISH_LENGTH;
    responses_form.whole(&c, &said);
    assert_non_null(strstr(said.data, "\"type\":\"reasoning\",\"status\":\"completed\""));
    assert_non_null(strstr(said.data, "\"type\":\"message\",\"status\":\"incomplete\""));
}

/* What clients tell errors apart by: the type in OpenAI's form and in Anthropic's. */
static void an_error_has_the_type_of_another_status(void **state)
{
    static const struct {
        int status;
        const char *openai, *anthropic;
    } types[] = {{400, "BadRequestError", "invalid_request_error"},
                 {401, "AuthenticationError", "authentication_error"},
                 {403, "PermissionDeniedError", "permission_error"},
                 {404, "NotFoundError", "not_found_error"},
                 {405, "MethodNotAllowedError", "invalid_request_error"},
                 {408, "RequestTimeoutError", "invalid_request_error"},
                 {413, "PayloadTooLargeError", "request_too_large"},
                 {415, "UnsupportedMediaTypeError", "invalid_request_error"},
                 {429, "RateLimitError", "rate_limit_error"},
                 {431, "HeadersTooLargeError", "invalid_request_error"},
                 {500, "InternalServerError", "api_error"},
                 {501, "NotImplementedError", "api_error"},
                 {503, "ServiceUnavailableError", "overloaded_error"},
                 {504, "TimeoutError", "timeout_error"}};
    char wanted[300];

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        buf_clear(&said);
        answer_chat_form.error(&said, types[i].status, "so", i % 2 ? "n" : NULL);
        snprintf(wanted, sizeof(wanted),
                 "{\"error\":{\"message\":\"so\",\"type\":\"%s\",\"param\":%s,\"code\":%d}}", types[i].openai,
                 i % 2 ? "\"n\"" : "null", types[i].status);
        assert_string_equal(said.data, wanted);
        buf_clear(&said);
        anthropic_form.error(&said, types[i].status, "so", i % 2 ? "n" : NULL);
        snprintf(wanted, sizeof(wanted),
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"so\",\"param\":%s}}",
                 types[i].anthropic, i % 2 ? "\"n\"" : "null");
        assert_string_equal(said.data, wanted);
    }
}

static const char *reason_of(const char *sentence, char out[DIALECT_REASON])
{
    memset(out, 'x', DIALECT_REASON);
    dialect_reason(sentence, out, DIALECT_REASON);
    return out;
}

static void reasons_for_the_log_hold_no_text_of_prompts(void **state)
{
    char out[DIALECT_REASON], text[600], quoted[600];

    assert_string_equal(reason_of("", out), "");
    assert_string_equal(reason_of("n: found 0, expected 1 to 128", out), "n: found 0, expected 1 to 128");
    assert_string_equal(reason_of("Only 'application/json', `a` or \"b\"", out),
                        "Only 'application/json', `a` or \"b\"");
    assert_string_equal(reason_of("a 'two words' b `x\ty` c \"\n\".", out), "a '...' b `...` c \"...\".");
    assert_string_equal(reason_of("it's one", out), "it's one");
    for (size_t n = 64; n <= 65; n++) {
        snprintf(text, sizeof(text), "'%0*d'", (int)n, 7);
        assert_string_equal(reason_of(text, out), n == 64 ? text : "'...'");
    }
    assert_string_equal(reason_of("tokenizer_config.json: chat_template line 3: what you said: secret", out),
                        "tokenizer_config.json: chat_template line 3: ...");
    assert_string_equal(reason_of("tools: the model's chat template does not support them", out),
                        "tools: the model's chat template does not support them");
    for (size_t n = 0; n < 500; n++) { /* cut, and ended within its room */
        memset(text, 'y', n);
        text[n] = 0;
        assert_true(strlen(reason_of(text, out)) < DIALECT_REASON && strncmp(text, out, strlen(out)) == 0);
        snprintf(quoted, sizeof(quoted), "%.*s'a b' chat_template: z", (int)(n < 400 ? n : 400), text);
        assert_true(strlen(reason_of(quoted, out)) < DIALECT_REASON && !strchr(out, 'z') &&
                    !strstr(out, "a b"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces_alone_are_blocks_one_behind_another, begin, end),
        cmocka_unit_test_setup_teardown(the_rest_of_a_call_does_not_become_text, begin, end),
        cmocka_unit_test_setup_teardown(an_error_has_the_type_of_another_status, begin, end),
        cmocka_unit_test(reasons_for_the_log_hold_no_text_of_prompts),
        cmocka_unit_test_setup_teardown(only_the_last_item_of_a_cut_response_is_incomplete, begin, end)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
