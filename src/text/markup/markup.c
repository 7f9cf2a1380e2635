/* markup.c - the two tables of markup, and how a row is chosen from a chat template. */
#include "text/markup/markup.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"

static const struct markup_calls calls[] = {
    {.name = "hermes",
     .open = {"<tool_call>"},
     .close = "</tool_call>",
     .shapes = MARKUP_OBJECT | MARKUP_LIST,
     .special = true,
     .example = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"},
    {.name = "llama3_json",
     .alias = "llama4_json",
     .open = {"<|python_tag|>"},
     .shapes = MARKUP_OBJECT,
     .bare = true,
     .special = true,
     .example = "{\"name\": \"f\", \"parameters\": {\"a\": 1}}"},
    {.name = "mistral",
     .open = {"[TOOL_CALLS]"},
     .shapes = MARKUP_OBJECT | MARKUP_LIST | MARKUP_NAMED,
     .special = true,
     .short_id = true,
     .example = "[TOOL_CALLS]f[ARGS]{\"a\": 1}"},
    {.name = "phi4_mini_json",
     .open = {"functools", "<|tool_call|>"},
     .close = "<|/tool_call|>",
     .shapes = MARKUP_LIST,
     .special = true,
     .example = "functools[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]"},
    {.name = "openai",
     .special = true,
     .channels = true,
     .stop = {"<|call|>", "<|return|>"},
     .example = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>"},
};

static const struct markup_reasoning reasoning[] = {
    {.name = "deepseek_r1", .open = "<think>", .close = "</think>", .implied = true},
    {.name = "qwen3", .open = "<think>", .close = "</think>"},
    {.name = "mistral", .open = "[THINK]", .close = "[/THINK]", .special = true},
    {.name = "gemma4", .open = "<|channel>thought\n", .close = "<channel|>", .special = true},
    {.name = "openai_gptoss", .special = true, .channels = true},
};

enum {
    N_CALLS = sizeof(calls) / sizeof(calls[0]),
    N_REASONING = sizeof(reasoning) / sizeof(reasoning[0]),
};

const struct markup_calls *markup_calls_row(size_t i)
{
    return i < N_CALLS ? &calls[i] : NULL;
}

const struct markup_reasoning *markup_reasoning_row(size_t i)
{
    return i < N_REASONING ? &reasoning[i] : NULL;
}

const struct markup_calls *markup_calls_named(const char *name)
{
    for (size_t i = 0; i < N_CALLS; i++)
        if (strcmp(calls[i].name, name) == 0 || (calls[i].alias && strcmp(calls[i].alias, name) == 0))
            return &calls[i];
    return NULL;
}

const struct markup_reasoning *markup_reasoning_named(const char *name)
{
    for (size_t i = 0; i < N_REASONING; i++)
        if (strcmp(reasoning[i].name, name) == 0)
            return &reasoning[i];
    return NULL;
}

static bool shows(const char *template, const char *what)
{
    return strstr(template, what) != NULL;
}

static bool shows_channels(const char *template)
{
    return shows(template, "<|channel|>") && shows(template, "<|message|>");
}

const struct markup_calls *markup_calls_shown(const char *template)
{
    if (shows_channels(template))
        return markup_calls_named("openai");
    if (shows(template, "[TOOL_CALLS]"))
        return markup_calls_named("mistral");
    /* Other models put XML between these marks: Qwen3-Coder <function=...>, GLM <arg_key>. */
    if (shows(template, "<tool_call>") && shows(template, "arguments") && !shows(template, "<function=") &&
        !shows(template, "<arg_key>"))
        return markup_calls_named("hermes");
    if (shows(template, "<|tool|>") && shows(template, "<|/tool|>"))
        return markup_calls_named("phi4_mini_json");
    if (shows(template, "<|start_header_id|>") && shows(template, "\"name\": function name, \"parameters\":"))
        return markup_calls_named("llama3_json");
    return NULL;
}

const struct markup_reasoning *markup_reasoning_shown(const char *template)
{
    if (shows_channels(template))
        return markup_reasoning_named("openai_gptoss");
    if (shows(template, "[THINK]"))
        return markup_reasoning_named("mistral");
    if (shows(template, "<|channel>thought"))
        return markup_reasoning_named("gemma4");
    if (shows(template, "</think>"))
        return markup_reasoning_named(shows(template, "<｜Assistant｜>") ? "deepseek_r1" : "qwen3");
    return NULL;
}

void markup_calls_names(struct buf *out)
{
    for (size_t i = 0; i < N_CALLS; i++)
        buf_fmt(out, "%s%s", i ? ", " : "", calls[i].name);
}

void markup_reasoning_names(struct buf *out)
{
    for (size_t i = 0; i < N_REASONING; i++)
        buf_fmt(out, "%s%s", i ? ", " : "", reasoning[i].name);
}

int markup_choose(struct markup *out, const char *calls_name, const char *reasoning_name,
                  const char *template, struct err *e)
{
    bool shown = template && strcmp(calls_name, "auto") == 0, known = strcmp(calls_name, "auto") == 0;
    struct buf names;
    int rc = 0;

    out->calls = shown ? markup_calls_shown(template) : markup_calls_named(calls_name);
    out->plain_calls = strcmp(calls_name, "none") == 0;
    known |= out->plain_calls || out->calls;
    buf_init(&names, MEM_TEXT);
    if (!known) {
        markup_calls_names(&names);
        rc = err_about(e, ERR_USAGE, "tool_call_parser", "found '%.40s', expected auto, none, %s", calls_name,
                       names.data);
    }
    shown = template && strcmp(reasoning_name, "auto") == 0;
    out->reasoning = shown ? markup_reasoning_shown(template) : markup_reasoning_named(reasoning_name);
    known = out->reasoning || strcmp(reasoning_name, "auto") == 0 || strcmp(reasoning_name, "none") == 0;
    if (rc == 0 && !known) {
        markup_reasoning_names(&names);
        rc = err_about(e, ERR_USAGE, "reasoning_parser", "found '%.40s', expected auto, none, %s",
                       reasoning_name, names.data);
    }
    buf_fini(&names);
    return rc;
}

/* Returns the length of S [n] without trailing white space. */
static size_t trimmed(const char *s, size_t n)
{
    while (n && utf8_is_blank(s[n - 1]))
        n--;
    return n;
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    size_t len = trimmed(end, strlen(end));

    return n >= len && memcmp(s + n - len, end, len) == 0;
}

bool markup_begins_inside(const struct markup_reasoning *r, const char *prompt, size_t n)
{
    if (!r || r->channels)
        return false;
    n = trimmed(prompt, n);
    if (ends_with(prompt, n, r->open))
        return true;
    return r->implied && !ends_with(prompt, n, r->close);
}

bool markup_is_closed(const struct markup_reasoning *r, const char *prompt, size_t n)
{
    return ends_with(prompt, trimmed(prompt, n), r->close);
}
