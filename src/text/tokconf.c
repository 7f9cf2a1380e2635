/* tokconf.c - small files, read with the pull reader; unknown members are passed over, for these files hold
 * much that is not the tokenizer's business.
 */
#include "text/tokconf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_pull.h"
#include "text/tokcore.h"

static void keep(struct tokconf *c, struct json_pull *j, const struct json_str *s, struct tokconf_token *to)
{
    to->content = arena_strndup(&c->arena, s->s, s->n);
    to->n = s->n;
    if (!to->content && !j->rc) {
        j->rc = err_nomem(j->e, "tokenizer_config.json");
        j->p = j->end;
    }
}

/* A token as a string, or as an object with content and flags. */
static void read_token(struct tokconf *c, struct json_pull *j, struct tokconf_token *t)
{
    struct json_str key, s = {NULL, 0};

    if (json_pull_null(j))
        return;
    if (json_pull_peek(j) == JSON_PULL_STRING) {
        if (json_pull_string(j, &s))
            keep(c, j, &s, t);
        return;
    }
    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "content")) {
            if (json_pull_string(j, &s))
                keep(c, j, &s, t);
        } else if (json_str_is(&key, "special")) {
            json_pull_bool(j, &t->special);
        } else if (json_str_is(&key, "lstrip")) {
            json_pull_bool(j, &t->lstrip);
        } else if (json_str_is(&key, "rstrip")) {
            json_pull_bool(j, &t->rstrip);
        } else if (json_str_is(&key, "single_word")) {
            json_pull_bool(j, &t->single_word);
        } else if (json_str_is(&key, "normalized")) {
            json_pull_bool(j, &t->normalized);
        } else {
            json_pull_skip(j);
        }
    }
}

/* Adds a token, or its id to one that is there. */
static void add(struct tokconf *c, struct json_pull *j, const struct tokconf_token *t)
{
    if (j->rc || !t->content || t->n == 0)
        return;
    for (size_t i = 0; i < c->n_tokens; i++) {
        if (c->token[i].n != t->n || memcmp(c->token[i].content, t->content, t->n) != 0)
            continue;
        if (c->token[i].id < 0)
            c->token[i].id = t->id;
        c->token[i].special = c->token[i].special || t->special;
        return;
    }
    if (!mem_grow((void **)&c->token, &c->cap, c->n_tokens + 1, sizeof(*c->token), MEM_TEXT)) {
        j->rc = err_nomem(j->e, "added tokens");
        j->p = j->end;
        return;
    }
    c->token[c->n_tokens++] = *t;
}

static void read_decoder(struct tokconf *c, struct json_pull *j)
{
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        struct tokconf_token t = {.id = 0, .normalized = true};

        if (key.n == 0 || key.n > 9)
            json_pull_fail(j, "the id \"%.*s\" of an added token is no id", (int)(key.n < 60 ? key.n : 60),
                           key.s);
        for (size_t i = 0; i < key.n && !j->rc; i++) {
            if (key.s[i] < '0' || key.s[i] > '9')
                json_pull_fail(j, "the id \"%.*s\" of an added token is no id", (int)key.n, key.s);
            t.id = t.id * 10 + (key.s[i] - '0');
        }
        read_token(c, j, &t);
        add(c, j, &t);
    }
}

static void read_word(struct json_pull *j, char *to, size_t size)
{
    struct json_str s;

    if (!json_pull_null(j) && json_pull_string(j, &s))
        snprintf(to, size, "%.*s", (int)(s.n < size ? s.n : size - 1), s.s);
}

static void read_flag(struct json_pull *j, int *to)
{
    bool v;

    if (!json_pull_null(j) && json_pull_bool(j, &v))
        *to = v;
}

static void special(struct tokconf *c, struct json_pull *j, struct tokconf_token *keep_as)
{
    struct tokconf_token t = {.id = -1, .special = true};

    read_token(c, j, &t);
    t.special = true;
    add(c, j, &t);
    if (keep_as && t.content)
        *keep_as = t;
}

static bool is_special_name(const struct json_str *key)
{
    static const char *const name[] = {"unk_token", "pad_token", "sep_token", "cls_token", "mask_token"};

    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
        if (json_str_is(key, name[i]))
            return true;
    return false;
}

/* tokenizer_config.json and special_tokens_map.json: their members have the same names. */
static void read_config(struct tokconf *c, struct json_pull *j)
{
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "tokenizer_class"))
            read_word(j, c->class, sizeof(c->class));
        else if (json_str_is(&key, "add_bos_token"))
            read_flag(j, &c->add_bos);
        else if (json_str_is(&key, "add_eos_token"))
            read_flag(j, &c->add_eos);
        else if (json_str_is(&key, "add_prefix_space"))
            read_flag(j, &c->add_prefix_space);
        else if (json_str_is(&key, "legacy"))
            read_flag(j, &c->legacy);
        else if (json_str_is(&key, "added_tokens_decoder"))
            read_decoder(c, j);
        else if (json_str_is(&key, "bos_token"))
            special(c, j, &c->bos);
        else if (json_str_is(&key, "eos_token"))
            special(c, j, &c->eos);
        else if (is_special_name(&key))
            special(c, j, NULL);
        else if (json_str_is(&key, "additional_special_tokens") && json_pull_peek(j) == JSON_PULL_ARRAY)
            for (json_pull_enter_array(j); json_pull_elem(j);)
                special(c, j, NULL);
        else
            json_pull_skip(j);
    }
}

static void read_added(struct tokconf *c, struct json_pull *j)
{
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        struct tokconf_token t = {.id = -1, .normalized = true};

        keep(c, j, &key, &t);
        if (json_pull_i64(j, &t.id))
            add(c, j, &t);
    }
}

static void read_model_type(struct tokconf *c, struct json_pull *j)
{
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "model_type"))
            read_word(j, c->model_type, sizeof(c->model_type));
        else
            json_pull_skip(j);
    }
}

static int read_file(struct tokconf *c, struct folder in, const char *name,
                     void (*read)(struct tokconf *c, struct json_pull *j), struct err *e)
{
    struct folder_text f;
    struct json_pull j;
    bool there;
    int rc = folder_read(&f, in, name, &there, e);

    if (rc || !there)
        return rc;
    rc = json_pull_open(&j, f.bytes, f.len, f.path, &c->arena, e);
    if (rc == 0) {
        read(c, &j);
        rc = json_pull_finish(&j);
    }
    folder_text_fini(&f);
    return rc;
}

static int by_id(const void *x, const void *y)
{
    const struct tokconf_token *a = x, *b = y;

    if ((a->id < 0) != (b->id < 0))
        return a->id < 0 ? 1 : -1;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->content < b->content ? -1 : a->content > b->content; /* the order of reading, near enough */
}

int tokconf_read(struct tokconf *c, struct folder in, struct err *e)
{
    int rc;

    *c = (struct tokconf){.add_bos = TOKCONF_UNSET,
                          .add_eos = TOKCONF_UNSET,
                          .add_prefix_space = TOKCONF_UNSET,
                          .legacy = TOKCONF_UNSET};
    arena_init(&c->arena, MEM_TEXT);
    if (!*in.path)
        return 0;
    if (strlen(in.path) >= sizeof(c->path))
        return err_set(e, ERR_INPUT, "%s: the path is too long", in.path);
    snprintf(c->path, sizeof(c->path), "%s", in.path);
    if ((rc = read_file(c, in, "tokenizer_config.json", read_config, e)) != 0 ||
        (rc = read_file(c, in, "special_tokens_map.json", read_config, e)) != 0 ||
        (rc = read_file(c, in, "added_tokens.json", read_added, e)) != 0 ||
        (rc = read_file(c, in, "config.json", read_model_type, e)) != 0)
        return rc;
    if (c->n_tokens)
        qsort(c->token, c->n_tokens, sizeof(*c->token), by_id);
    return 0;
}

void tokconf_fini(struct tokconf *c)
{
    mem_free(c->token);
    arena_fini(&c->arena);
    *c = (struct tokconf){0};
}

int tokconf_add_tokens(const struct tokconf *c, struct tok *t, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < c->n_tokens && rc == 0; i++) {
        const struct tokconf_token *x = &c->token[i];
        struct tokadded_token a = {.special = x->special,
                                   .lstrip = x->lstrip,
                                   .rstrip = x->rstrip,
                                   .single_word = x->single_word,
                                   .normalized = x->normalized};

        if (x->id > TOKVOCAB_MAX_ID)
            return err_set(e, ERR_INPUT, "%s: the id %lld of the added token %.*s is larger than %d", c->path,
                           (long long)x->id, (int)(x->n < 60 ? x->n : 60), x->content, (int)TOKVOCAB_MAX_ID);
        a.id = (uint32_t)x->id;
        rc = x->id < 0 ? tokcore_add_token(t, a, x->content, x->n, e)
                       : tokcore_add_token_at(t, a, x->content, x->n, e);
        if (rc)
            err_prefix(e, "%s: added tokens", c->path);
    }
    return rc;
}
