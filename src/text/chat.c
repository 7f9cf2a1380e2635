/* chat.c - parses the chat templates of a folder, and makes the variables for rendering them. */
#include "text/chat.h"

#include <string.h>

#include "text/jinja/jinja.h"
#include "text/settings.h"

struct chat_template {
    struct jinja *jinja; /* NULL: the template could not be parsed */
    struct err fault;    /* the parser's error if JINJA is NULL */
};

struct chat {
    struct settings conf;
    struct chat_template *v; /* [n] in the order of conf.templates */
    size_t n;
};

static int parse_all(struct chat *c, struct err *e)
{
    const struct settings_texts *l = &c->conf.templates;

    c->v = mem_zalloc(l->n, sizeof(*c->v), MEM_TEXT);
    if (!c->v)
        return err_nomem(e, "chat templates");
    for (size_t i = 0; i < l->n; i++) {
        struct chat_template *t = &c->v[c->n++];
        char label[120] = "chat_template";

        if (strcmp(l->v[i].name, "default") != 0)
            snprintf(label, sizeof(label), "chat_template %.90s", l->v[i].name);
        if (jinja_parse(&t->jinja, l->v[i].text, l->v[i].n, label, NULL, &t->fault) == ERR_NOMEM)
            return err_nomem(e, "chat templates");
    }
    return 0;
}

/* Opens the tokenizer_config.json in TEXT or, if TEXT is NULL, the files of IN. */
static int open_chat(struct chat **out, struct folder in, const char *text, size_t len, struct err *e)
{
    struct chat *c = mem_zalloc(1, sizeof(*c), MEM_TEXT);
    int rc;

    *out = NULL;
    if (!c)
        return err_nomem(e, "a chat template");
    rc = text ? settings_read_text(&c->conf, text, len, in.path, e)
              : settings_read(&c->conf, in, SETTINGS_FOR_CHAT, e);
    if (rc == 0)
        rc = parse_all(c, e);
    if (rc)
        chat_close(c);
    else
        *out = c;
    return rc;
}

int chat_open(struct chat **out, struct folder in, struct err *e)
{
    return open_chat(out, in, NULL, 0, e);
}

int chat_open_text(struct chat **out, const char *text, size_t len, const char *path, struct err *e)
{
    return open_chat(out, folder_at(path), text, len, e);
}

void chat_close(struct chat *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++)
        jinja_free(c->v[i].jinja);
    mem_free(c->v);
    settings_fini(&c->conf);
    mem_free(c);
}

bool chat_has_template(const struct chat *c)
{
    return c->n > 0;
}

const char *chat_template_source(const struct chat *c, const char *name)
{
    const struct settings_text *t = settings_find(&c->conf.templates, name);

    return t ? t->text : NULL;
}

const char *chat_token(const struct chat *c, const char *name, size_t *n)
{
    const struct settings_text *t = settings_find(&c->conf.tokens, name);

    *n = t ? t->n : 0;
    return t ? t->text : NULL;
}

const char *chat_response_template(const struct chat *c)
{
    return c->conf.response_template;
}

const char *chat_token_name(const struct chat *c, size_t i)
{
    return i < c->conf.tokens.n ? c->conf.tokens.v[i].name : NULL;
}

/* Chooses the template. Returns NULL after an error. */
static const struct jinja *choose_template(const struct chat *c, const char *name, bool tools, struct err *e)
{
    const struct settings_text *found = NULL;
    const struct chat_template *t;

    if (c->n == 0) {
        err_at(e, ERR_INPUT, c->conf.path,
               "this model has no chat template (looked into tokenizer_config.json, chat_template.jinja and "
               "chat_template.json)");
        return NULL;
    }
    if (!name && tools)
        found = settings_find(&c->conf.templates, "tool_use");
    if (!found)
        found = settings_find(&c->conf.templates, name ? name : "default");
    t = found ? &c->v[found - c->conf.templates.v] : NULL;
    if (!t)
        err_at(e, ERR_INPUT, c->conf.path, "none of the model's %zu chat templates is called '%s'", c->n,
               name ? name : "default");
    else if (!t->jinja)
        err_at(e, ERR_INPUT, c->conf.path, "%s", t->fault.msg);
    return t ? t->jinja : NULL;
}

/* Returns the reasoning of a message: the first of the members NAMES that is not null. NULL: no reasoning. */
static json_t *reasoning(json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *v = json_object_get(message, names[i]);

        if (v && !json_is_null(v))
            return v;
    }
    return NULL;
}

/* Returns a copy of MESSAGE without null members, with its reasoning as both `thinking` and
 * `reasoning_content`. NULL: no memory. */
static json_t *prepare_message(json_t *message)
{
    json_t *copy = json_object(), *thinking = reasoning(message), *v;
    int rc = copy ? 0 : -1;
    const char *key;
    size_t n;

    if (rc == 0 && thinking)
        rc = json_object_set(copy, "thinking", thinking);
    json_object_keylen_foreach(message, key, n, v)
    {
        if (rc == 0 && !json_is_null(v))
            rc = json_object_setn(copy, key, n, v);
    }
    if (rc == 0 && thinking)
        rc = json_object_set(copy, "reasoning_content", thinking);
    if (rc == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

static int prepare_messages(json_t *messages, json_t **out, struct err *e)
{
    json_t *list, *m;
    size_t i;

    *out = NULL;
    if (!json_is_array(messages))
        return err_set(e, ERR_INPUT, "messages: expected a list of messages");
    if (json_array_size(messages) == 0)
        return err_set(e, ERR_INPUT, "messages: the conversation is empty; at least one message is needed");
    json_array_foreach(messages, i, m) if (!json_is_object(m)) return err_set(
        e, ERR_INPUT, "messages[%zu]: a message must be an object", i);
    list = json_array();
    json_array_foreach(messages, i, m)
    {
        if (!list || json_array_append_new(list, prepare_message(m)) != 0) {
            json_decref(list);
            return err_nomem(e, "messages");
        }
    }
    *out = list;
    return 0;
}

/* Checks that the member WHAT of OBJECT is a list of objects, is null or is missing. */
static int check_objects(json_t *object, const char *what, struct err *e)
{
    json_t *list = json_object_get(object, what), *v;
    size_t i;

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "%s: expected a list of objects", what);
    json_array_foreach(list, i, v) if (!json_is_object(v)) return err_set(
        e, ERR_INPUT, "%s[%zu]: expected an object", what, i);
    return 0;
}

static int set_tokens(const struct chat *c, json_t *variables)
{
    int rc = 0;

    for (size_t i = 0; i < c->conf.tokens.n && rc == 0; i++) {
        const struct settings_text *p = &c->conf.tokens.v[i];

        rc = json_object_set_new(variables, p->name, json_stringn(p->text, p->n));
    }
    return rc;
}

int chat_variables(const struct chat *c, json_t *messages, bool add_generation_prompt, json_t **out,
                   struct err *e)
{
    bool object = json_is_object(messages);
    json_t *list = object ? json_object_get(messages, "messages") : messages, *prepared, *v;
    int rc;

    *out = NULL;
    if (object && !list)
        return err_set(
            e, ERR_INPUT,
            "messages: expected a list of messages, or an object with such a list as its member messages");
    if (object && ((rc = check_objects(messages, "documents", e)) != 0 ||
                   (rc = check_objects(messages, "tools", e)) != 0))
        return rc;
    rc = prepare_messages(list, &prepared, e);
    if (rc)
        return rc;
    v = json_object();
    if (!v || set_tokens(c, v) != 0 || json_object_set_new(v, "tools", json_null()) != 0 ||
        json_object_set_new(v, "documents", json_null()) != 0 ||
        json_object_set_new(v, "add_generation_prompt", json_boolean(add_generation_prompt)) != 0 ||
        (object && json_object_update(v, messages) != 0) || json_object_set(v, "messages", prepared) != 0)
        rc = -1;
    json_decref(prepared);
    if (rc) {
        json_decref(v);
        return err_nomem(e, "the variables of a chat template");
    }
    *out = v;
    return 0;
}

int chat_render(const struct chat *c, const struct jinja *jinja, json_t *variables, const char *template_name,
                const struct tm *now, struct buf *out, struct buf *origin, struct err *e)
{
    const json_t *tools = json_object_get(variables, "tools");
    json_t *own;
    int rc;

    if (!jinja && !(jinja = choose_template(c, template_name, tools && !json_is_null(tools), e)))
        return ERR_INPUT;
    if (!origin)
        return jinja_render(jinja, variables, now, NULL, out, e);
    own = json_object();
    rc = own && set_tokens(c, own) == 0 ? jinja_render_marked(jinja, variables, own, now, out, origin, e)
                                        : err_nomem(e, "the variables of a chat template");
    json_decref(own);
    return rc;
}
