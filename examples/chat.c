/* chat.c - a conversation: every message is answered with the messages before it in view, and the answer is printed
 * as it is generated. usage: chat [MODEL_DIR [MESSAGE ...]] */
#include <gallop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DEMO /* The Makefile in this folder sets the installed one. */
#define DEMO "models/demo"
#endif

enum { MOST = 1 << 16 };

/* The conversation as a JSON array of messages, without the closing bracket. */
static char messages[MOST] = "[";

/* Appends TEXT to the conversation. */
static void add(const char *text)
{
    if (strlen(messages) + strlen(text) + 2 > MOST) {
        fprintf(stderr, "the conversation is longer than %d bytes\n", MOST);
        exit(EXIT_FAILURE);
    }
    strcat(messages, text);
}

/* Appends a message of the user: TEXT as a JSON string. */
static void add_user_message(const char *text)
{
    char one[8];

    add(messages[1] ? ",{\"role\":\"user\",\"content\":\"" : "{\"role\":\"user\",\"content\":\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        snprintf(one, sizeof(one), c == '"' || c == '\\' ? "\\%c" : c < 32 ? "\\u%04x" : "%c", c);
        add(one);
    }
    add("\"}");
}

/* Prints and collects the answer, and appends it to the conversation. Returns a gallop_code. */
static int read_answer(struct gallop *engine, const struct gallop_prompt *prompt, char *err)
{
    struct gallop_parser_options options;
    struct gallop_event event;
    static char answer[MOST], special[MOST];
    size_t n = 0;
    char *json;
    int rc;

    while (gallop_next(engine, &event))
        if (event.type == GALLOP_TEXT && n + event.text_len < sizeof(answer)) {
            memcpy(answer + n, event.text, event.text_len);
            memcpy(special + n, event.special, event.text_len);
            n += event.text_len;
            fwrite(event.text, 1, event.text_len, stdout);
            fflush(stdout);
        }
    printf("\n");

    /* An answer may contain reasoning, which the next prompt needs in a member of its own. */
    gallop_parser_options_init(&options);
    options.prompt = prompt->text;
    options.prompt_len = prompt->text_len;
    options.special = special;
    rc = gallop_parse(engine, &options, answer, n, GALLOP_PARSER_ENDED, &json, err);
    if (rc == 0) {
        add(",");
        add(json);
        gallop_free(json);
    }
    return rc;
}

/* Renders the conversation and generates the next message. Returns a gallop_code. */
static int answer_messages(struct gallop *engine, char *err)
{
    struct gallop_chat chat;
    struct gallop_prompt prompt;
    struct gallop_request request;
    size_t end = strlen(messages);
    int rc;

    gallop_chat_init(&chat);
    add("]");
    chat.messages = messages;
    rc = gallop_render(engine, &chat, &prompt, err);
    if (rc == 0) {
        gallop_request_init(&request);
        request.sampling.max_new_tokens = 60;
        rc = gallop_ask(engine, &chat, &prompt, &request, err);
        messages[end] = 0;
    }
    if (rc == 0)
        rc = gallop_submit(engine, &request, NULL, err);
    if (rc == 0)
        rc = read_answer(engine, &prompt, err);
    gallop_prompt_fini(&prompt);
    return rc;
}

int main(int argc, char **argv)
{
    static char *usual[] = {"Tell me a story about a \"fox\".", "And then?"};
    struct gallop_options options;
    struct gallop *engine;
    char err[GALLOP_ERR_SIZE], **text = argc > 2 ? argv + 2 : usual;
    int n = argc > 2 ? argc - 2 : 2, rc;

    gallop_options_init(&options);
    options.model = argc > 1 ? argv[1] : DEMO;
    rc = gallop_open(&engine, &options, err);
    for (int i = 0; i < n && rc == 0; i++) {
        printf("> %s\n", text[i]);
        add_user_message(text[i]);
        rc = answer_messages(engine, err);
    }
    if (rc)
        fprintf(stderr, "%s\n", err);
    gallop_close(engine);
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
