/* chatconf.c - which file wins over which is transformers' order; see chat.h. Files that are not there are
 * no fault. */
#include "text/chatconf.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_pull.h"
#include "base/mem.h"

enum { TEMPLATES_MAX = 64 };

struct reader {
    struct chatconf *c;
    struct err *e;
    struct folder in;
    bool has_table; /* tokenizer_config.json has added_tokens_decoder */
};

const struct chatconf_pair *chatconf_find(const struct chatconf_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->v[i].name, name) == 0)
            return &l->v[i];
    return NULL;
}

/* Sets NAME to TEXT, both copied. */
static int put(struct reader *r, struct chatconf_list *l, const struct json_str *name, const char *text,
               size_t n)
{
    struct chatconf_pair p = {.name = arena_strndup(&r->c->arena, name->s, name->n),
                              .text = arena_strndup(&r->c->arena, text, n),
                              .n = n};
    size_t i = 0;

    if (!p.name || !p.text)
        return err_nomem(r->e, "a chat template");
    while (i < l->n && strcmp(l->v[i].name, p.name) != 0)
        i++;
    if (i == l->n) {
        if (!mem_grow((void **)&l->v, &l->cap, l->n + 1, sizeof(*l->v), MEM_TEXT))
            return err_nomem(r->e, "a chat template");
        l->n++;
    }
    l->v[i] = p;
    return 0;
}

static bool ends_in(const struct json_str *s, const char *end)
{
    size_t n = strlen(end);

    return s->n >= n && memcmp(s->s + s->n - n, end, n) == 0;
}

/* A token: a string, or an object that has it as its content; anything else is none. */
static int read_token(struct reader *r, struct json_pull *j, const struct json_str *name)
{
    struct json_str key, text = {.s = NULL};

    if (json_pull_peek(j) == JSON_PULL_STRING) {
        json_pull_string(j, &text);
    } else if (json_pull_peek(j) == JSON_PULL_OBJECT) {
        for (json_pull_enter_object(j); json_pull_key(j, &key);) {
            if (json_str_is(&key, "content") && json_pull_peek(j) == JSON_PULL_STRING)
                json_pull_string(j, &text);
            else
                json_pull_skip(j);
        }
    } else {
        json_pull_skip(j);
    }
    return text.s && !json_pull_rc(j) ? put(r, &r->c->tokens, name, text.s, text.n) : json_pull_rc(j);
}

static int read_extra_tokens(struct reader *r, struct json_pull *j)
{
    struct json_str name;
    int rc = 0;

    if (json_pull_peek(j) != JSON_PULL_OBJECT) {
        json_pull_skip(j);
        return json_pull_rc(j);
    }
    for (json_pull_enter_object(j); rc == 0 && json_pull_key(j, &name);)
        rc = read_token(r, j, &name);
    return rc ? rc : json_pull_rc(j);
}

static int read_flag(struct json_pull *j, enum chatconf_flag *flag)
{
    bool b = false;

    if (json_pull_peek(j) == JSON_PULL_TRUE || json_pull_peek(j) == JSON_PULL_FALSE) {
        json_pull_bool(j, &b);
        *flag = b ? CHATCONF_YES : CHATCONF_NO;
    } else {
        json_pull_skip(j);
    }
    return json_pull_rc(j);
}

static int put_template(struct reader *r, struct json_pull *j, const struct json_str *name)
{
    struct json_str text;

    if (r->c->templates.n == TEMPLATES_MAX)
        return json_pull_fail(j, "there are more than %d chat templates", TEMPLATES_MAX);
    if (!json_pull_string(j, &text))
        return json_pull_rc(j);
    return put(r, &r->c->templates, name, text.s, text.n);
}

/* One {"name": ..., "template": ...} of a list. */
static int read_named_template(struct reader *r, struct json_pull *j)
{
    struct json_str key, name = {.s = NULL}, text = {.s = NULL};

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "name"))
            json_pull_string(j, &name);
        else if (json_str_is(&key, "template"))
            json_pull_string(j, &text);
        else
            json_pull_skip(j);
    }
    if (json_pull_rc(j))
        return json_pull_rc(j);
    if (!name.s || !text.s)
        return json_pull_fail(j, "an entry of chat_template needs a name and a template");
    if (r->c->templates.n == TEMPLATES_MAX)
        return json_pull_fail(j, "there are more than %d chat templates", TEMPLATES_MAX);
    return put(r, &r->c->templates, &name, text.s, text.n);
}

/* chat_template: a text, a list of named ones, or an object of them. */
static int read_template(struct reader *r, struct json_pull *j)
{
    static const struct json_str by_default = {"default", 7};
    struct json_str name;
    int rc = 0;

    switch (json_pull_peek(j)) {
    case JSON_PULL_STRING: return put_template(r, j, &by_default);
    case JSON_PULL_ARRAY:
        for (json_pull_enter_array(j); rc == 0 && json_pull_elem(j);)
            rc = read_named_template(r, j);
        return rc ? rc : json_pull_rc(j);
    case JSON_PULL_OBJECT:
        for (json_pull_enter_object(j); rc == 0 && json_pull_key(j, &name);)
            rc = put_template(r, j, &name);
        return rc ? rc : json_pull_rc(j);
    default: json_pull_skip(j); return json_pull_rc(j);
    }
}

static int read_tokenizer_config(struct reader *r, struct json_pull *j)
{
    struct json_str key;
    int rc = 0;

    for (json_pull_enter_object(j); rc == 0 && json_pull_key(j, &key);) {
        if (json_str_is(&key, "chat_template"))
            rc = read_template(r, j);
        else if (json_str_is(&key, "add_bos_token"))
            rc = read_flag(j, &r->c->add_bos);
        else if (json_str_is(&key, "add_eos_token"))
            rc = read_flag(j, &r->c->add_eos);
        else if (json_str_is(&key, "extra_special_tokens"))
            rc = read_extra_tokens(r, j);
        else if (ends_in(&key, "_token"))
            rc = read_token(r, j, &key);
        else {
            r->has_table |= json_str_is(&key, "added_tokens_decoder");
            json_pull_skip(j);
        }
    }
    return rc;
}

static int read_token_map(struct reader *r, struct json_pull *j)
{
    struct json_str key;
    int rc = 0;

    for (json_pull_enter_object(j); rc == 0 && json_pull_key(j, &key);) {
        if (json_str_is(&key, "extra_special_tokens"))
            rc = read_extra_tokens(r, j);
        else if (ends_in(&key, "_token"))
            rc = read_token(r, j, &key);
        else
            json_pull_skip(j);
    }
    return rc;
}

static int read_template_json(struct reader *r, struct json_pull *j)
{
    struct json_str key;
    int rc = 0;

    for (json_pull_enter_object(j); rc == 0 && json_pull_key(j, &key);) {
        if (json_str_is(&key, "chat_template"))
            rc = read_template(r, j);
        else
            json_pull_skip(j);
    }
    return rc;
}

typedef int read_fn(struct reader *r, struct json_pull *j);

static int read_json_text(struct reader *r, const char *text, size_t len, const char *path, read_fn *read)
{
    struct json_pull j;
    int rc = json_pull_open(&j, text, len, path, &r->c->arena, r->e);

    if (rc == 0)
        rc = read(r, &j);
    return rc ? rc : json_pull_finish(&j);
}

static int read_json(struct reader *r, const char *name, read_fn *read)
{
    struct folder_text f;
    bool there;
    int rc = folder_read(&f, r->in, name, &there, r->e);

    if (rc || !there)
        return rc;
    rc = read_json_text(r, f.bytes, f.len, f.path, read);
    folder_text_fini(&f);
    return rc;
}

/* The template in file NAME, known as AS; *there says whether it exists. */
static int read_template_file(struct reader *r, const char *name, const struct json_str *as, bool *there)
{
    struct folder_text f;
    int rc = folder_read(&f, r->in, name, there, r->e);

    if (rc || !*there)
        return rc;
    if (r->c->templates.n == TEMPLATES_MAX)
        rc = err_set(r->e, ERR_INPUT, "%s: there are more than %d chat templates", r->in.path, TEMPLATES_MAX);
    else
        rc = put(r, &r->c->templates, as, f.bytes, f.len);
    folder_text_fini(&f);
    return rc;
}

static int read_additional(struct reader *r, bool *some)
{
    static const char additional[] = "additional_chat_templates";
    char path[FOLDER_PATH_MAX];
    struct folder_names l;
    struct stat st;
    int rc = folder_join(path, sizeof(path), r->in.path, additional, r->e);

    if (rc || stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return rc;
    if ((rc = folder_list(&l, path, ".jinja", r->e)) != 0)
        return rc;
    for (size_t i = 0; i < l.n && rc == 0; i++) {
        struct json_str name = {l.name[i], strlen(l.name[i]) - strlen(".jinja")};
        bool there;

        snprintf(path, sizeof(path), "%s/%s", additional, l.name[i]);
        rc = read_template_file(r, path, &name, &there);
        *some |= rc == 0 && there;
    }
    folder_names_fini(&l);
    return rc;
}

/* Template files of their own replace those of tokenizer_config.json altogether. */
static int read_template_files(struct reader *r)
{
    static const struct json_str by_default = {"default", 7};
    struct chatconf_list configured = r->c->templates;
    bool own = false, some = false;
    int rc;

    r->c->templates = (struct chatconf_list){.v = NULL};
    rc = read_template_file(r, "chat_template.jinja", &by_default, &own);
    if (rc == 0)
        rc = read_additional(r, &some);
    if (rc == 0 && !own && !some) {
        mem_free(r->c->templates.v);
        r->c->templates = configured;
        return 0;
    }
    mem_free(configured.v);
    return rc;
}

int chatconf_read(struct chatconf *c, struct folder in, struct err *e)
{
    struct reader r = {.c = c, .e = e, .in = in};
    int rc;

    *c = (struct chatconf){.add_bos = CHATCONF_UNSAID};
    arena_init(&c->arena, MEM_TEXT);
    rc = read_json(&r, "tokenizer_config.json", read_tokenizer_config);
    if (rc == 0 && !r.has_table)
        rc = read_json(&r, "special_tokens_map.json", read_token_map);
    if (rc == 0)
        rc = read_template_files(&r);
    if (rc == 0 && c->templates.n == 0)
        rc = read_json(&r, "chat_template.json", read_template_json);
    if (rc)
        chatconf_fini(c);
    return rc;
}

int chatconf_read_text(struct chatconf *c, const char *text, size_t len, const char *path, struct err *e)
{
    struct reader r = {.c = c, .e = e, .in = folder_at(path)};
    int rc;

    *c = (struct chatconf){.add_bos = CHATCONF_UNSAID};
    arena_init(&c->arena, MEM_TEXT);
    if ((rc = read_json_text(&r, text, len, path, read_tokenizer_config)) != 0)
        chatconf_fini(c);
    return rc;
}

void chatconf_fini(struct chatconf *c)
{
    mem_free(c->tokens.v);
    mem_free(c->templates.v);
    arena_fini(&c->arena);
    *c = (struct chatconf){.add_bos = CHATCONF_UNSAID};
}
