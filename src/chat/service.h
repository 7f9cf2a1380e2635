/* service.h - the data for answering requests: an open engine, the names of its model, its chat template, and the
 * default values of request fields.
 */
#ifndef GALLOP_CHAT_SERVICE_H
#define GALLOP_CHAT_SERVICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct embedder;
struct gallop;
struct gallop_structured_outputs;
struct markup;
struct sampling;
struct template;

/* The defaults of sampling parameters: those of generation_config.json; neutral ones, which sample at temperature 1; or
 * neutral ones at temperature 0. */
enum service_defaults { SERVICE_DEFAULTS_MODEL, SERVICE_DEFAULTS_NEUTRAL, SERVICE_DEFAULTS_GREEDY };

/* All pointers are borrowed. [X]: the value that service_complete() sets if the member is zero. */
struct service {
    struct gallop *engine;

    int64_t created; /* Unix time in seconds since which the model is served */

    /* names of the model */
    const char *const *name; /* [n_names] names; answers contain the first name */
    size_t n_names;
    /* also accepted as the model's name, but not shown to clients, as it may be a path; NULL: none */
    const char *path_name;

    /* chat templates and parsers */
    const struct template *template; /* the chat template; its `chat` is NULL if none can be used [none] */
    const char *chat_missing;        /* why no template can be used */
    /* special tokens in the text of messages are read as plain text (--user-text plain) */
    bool plain_user_text;
    const json_t *template_kwargs; /* default variables of the chat template; NULL: none */
    const struct markup *markup;   /* markup of tool calls and reasoning in generated text [none] */
    const char *reasoning_field;   /* JSON member with the reasoning of an answer ["reasoning"] */

    /* sampling, embeddings and limits */
    /* The constraint of requests without their own; NULL: none. */
    const struct gallop_structured_outputs *structured;
    const struct sampling *sampling; /* parameters that requests do not give; NULL: neutral ones */
    const char *embedder_missing;    /* why no embeddings can be made; NULL: they can */
    const struct embedder *embedder; /* how embeddings are made; NULL: last-token pooling */
    enum service_defaults defaults;  /* defaults of sampling parameters [the model's] */
    int64_t max_logprobs;            /* maximum of the request field logprobs; below 0: 20 */
    bool priorities;                 /* the scheduling policy uses priorities */
    size_t max_answers;              /* maximum number of answers to a request [no limit] */
    double request_timeout_s;        /* seconds from arrival after which a request fails [no limit] */
};

/* Sets the members of S that are not given. */
void service_complete(struct service *s);

#endif
