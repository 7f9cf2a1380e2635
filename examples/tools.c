/* tools.c - a tool call: the model is asked to call a function, the call is taken out of its answer piece by piece, the
 * function is run, and its result goes back into the conversation. usage: tools [MODEL_DIR] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

#define QUESTION "{\"role\":\"user\",\"content\":\"Is it warm in Rome?\"}"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"The weather of a city.\","
    "\"strict\":true,\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\","
    "\"enum\":[\"Paris\",\"Rome\"]}},\"required\":[\"city\"],\"additionalProperties\":false}}}]";

/* A template for models that were not trained with tools. The bundled model is one; its calls mean little, but they
 * are well-formed, because they are forced. */
static const char plain_template[] =
    "{{ bos_token }}{% if tools %}{{ tools | tojson }} A call: <tool_call>{\"name\": ..., \"arguments\": ...}"
    "</tool_call>{% endif %}{% for m in messages %}<|{{ 'user' if m.role == 'tool' else m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{{ eos_token }}{% endfor %}<|assistant|>";

/* The tool call of an answer. */
struct call {
    char name[64], id[GALLOP_CALL_ID_SIZE], arguments[512];
    int complete;
};

/* Generates the answer to CHAT. Its first tool call goes to *CALL, its text to standard output. */
static int answer(struct gallop *engine, const struct gallop_chat *chat, struct call *call, char *err)
{
    struct gallop_parser_options options;
    struct gallop_request request;
    struct gallop_prompt prompt;
    struct gallop_parser *parser = NULL;
    struct gallop_piece piece;
    struct gallop_event event;
    int rc = gallop_render(engine, chat, &prompt, err);

    memset(call, 0, sizeof(*call));
    gallop_request_init(&request);
    request.sampling.max_new_tokens = 120;
    gallop_parser_options_init(&options);
    options.tools = tools;
    options.chat_template = chat->chat_template;
    options.prompt = prompt.text;
    options.prompt_len = prompt.text_len;
    options.one_call = 1;
    if (rc == 0)
        rc = gallop_ask(engine, chat, &prompt, &request, err);
    if (rc == 0)
        rc = gallop_parser_open(&parser, engine, &options, err);
    if (rc == 0)
        rc = gallop_submit(engine, &request, NULL, err);
    while (rc == 0 && gallop_next(engine, &event)) {
        if (event.type == GALLOP_TEXT)
            rc = gallop_parser_feed_special(parser, event.text, event.special, event.text_len, err);
        else if (event.type == GALLOP_FINISHED)
            rc = gallop_parser_finish(
                parser, event.finish == GALLOP_FINISH_STOP ? GALLOP_PARSER_ENDED : GALLOP_PARSER_CUT, err);
        while (rc == 0 && gallop_parser_take(parser, &piece))
            switch (piece.kind) {
            case GALLOP_PIECE_CONTENT: fwrite(piece.text, 1, piece.len, stdout); break;
            case GALLOP_PIECE_REASONING: break;
            case GALLOP_PIECE_CALL:
                snprintf(call->name, sizeof(call->name), "%.*s", (int)piece.len, piece.text);
                snprintf(call->id, sizeof(call->id), "%s", piece.id);
                break;
            case GALLOP_PIECE_ARGUMENTS:
                if (strlen(call->arguments) + piece.len < sizeof(call->arguments))
                    strncat(call->arguments, piece.text, piece.len);
                break;
            case GALLOP_PIECE_CALL_END: call->complete = piece.complete;
            }
    }
    gallop_parser_close(parser);
    gallop_prompt_fini(&prompt);
    return rc;
}

/* Answers the question with the result of CALL. */
static int tell_result(struct gallop *engine, struct gallop_chat *chat, struct call *call, char *err)
{
    const char *city = strstr(call->arguments, "Rome") ? "Rome" : "Paris";
    char messages[2048];

    printf("%s(%s), id %s\n", call->name, call->arguments, call->id);
    /* The arguments are JSON in a JSON string. Names of cities need no escapes but those of the quotes. */
    snprintf(messages, sizeof(messages),
             "[" QUESTION
             ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"%s\",\"type\":\"function\","
             "\"function\":{\"name\":\"%s\",\"arguments\":\"{\\\"city\\\":\\\"%s\\\"}\"}}]},"
             "{\"role\":\"tool\",\"tool_call_id\":\"%s\",\"content\":\"It is 31 degrees in %s.\"}]",
             call->id, call->name, city, call->id, city);
    chat->messages = messages;
    chat->tool_choice = "none";
    return answer(engine, chat, call, err);
}

int main(int argc, char **argv)
{
    struct gallop_options options;
    struct gallop_chat chat;
    struct gallop *engine;
    struct call call;
    char err[GALLOP_ERR_SIZE];
    int rc;

    gallop_options_init(&options);
    options.model = argc > 1 ? argv[1] : DEMO;
    if (gallop_open(&engine, &options, err) != 0) {
        fprintf(stderr, "%s\n", err);
        return EXIT_FAILURE;
    }
    gallop_chat_init(&chat);
    chat.messages = "[" QUESTION "]";
    chat.tools = tools;
    chat.tool_choice = "required";
    chat.one_call = 1;
    if (!gallop_describe(engine)->tool_call_parser)
        chat.chat_template = plain_template;
    if ((rc = answer(engine, &chat, &call, err)) == 0 && call.complete)
        rc = tell_result(engine, &chat, &call, err);
    else if (rc == 0)
        rc = snprintf(err, sizeof(err), "the answer has no complete tool call");
    printf("\n");
    if (rc)
        fprintf(stderr, "%s\n", err);
    gallop_close(engine);
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
