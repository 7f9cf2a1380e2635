/* tokcomp.c - a table of field names. */
#include "text/tokcomp.h"

#include <string.h>

#include "base/utf8.h"

static void read_string(struct json_pull *j, struct json_str *s)
{
    if (!json_pull_null(j))
        json_pull_string(j, s);
}

static void read_flag(struct json_pull *j, enum tokcomp_flag *f)
{
    bool v;

    if (!json_pull_null(j) && json_pull_bool(j, &v))
        *f = v ? TOKCOMP_YES : TOKCOMP_NO;
}

static void read_pattern(struct json_pull *j, struct tokcomp *c)
{
    struct json_str key;

    if (json_pull_null(j))
        return;
    if (json_pull_peek(j) == JSON_PULL_STRING) { /* as some writers have it */
        json_pull_string(j, &c->literal);
        return;
    }
    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "String"))
            json_pull_string(j, &c->literal);
        else if (json_str_is(&key, "Regex"))
            json_pull_string(j, &c->regex);
        else
            json_pull_fail(j, "a pattern is a String or a Regex, not a \"%.*s\"",
                           (int)(key.n < 60 ? key.n : 60), key.s);
    }
}

static bool read_field(struct json_pull *j, const struct json_str *key, struct tokcomp *c)
{
    const struct {
        const char *name;
        struct json_str *to;
    } string[] =
        {
            {"type", &c->type},
            {"content", &c->content},
            {"prepend", &c->prepend},
            {"replacement", &c->replacement},
            {"prepend_scheme", &c->prepend_scheme},
            {"behavior", &c->behavior},
            {"suffix", &c->suffix},
            {"delimiter", &c->delimiter},
            {"precompiled_charsmap", &c->charsmap},
        },
      raw[] = {
          {"normalizers", &c->list}, {"pretokenizers", &c->list},
          {"decoders", &c->list},    {"processors", &c->list},
          {"single", &c->single},    {"special_tokens", &c->special_tokens},
          {"sep", &c->sep},          {"cls", &c->cls},
      };
    const struct {
        const char *name;
        enum tokcomp_flag *to;
    } flag[] = {
        {"add_prefix_space", &c->add_prefix_space},
        {"use_regex", &c->use_regex},
        {"split", &c->split},
        {"individual_digits", &c->individual_digits},
        {"invert", &c->invert},
        {"strip_left", &c->strip_left},
        {"strip_right", &c->strip_right},
        {"clean_text", &c->clean_text},
        {"handle_chinese_chars", &c->handle_chinese_chars},
        {"strip_accents", &c->strip_accents},
        {"lowercase", &c->lowercase},
    };

    for (size_t i = 0; i < sizeof(string) / sizeof(*string); i++)
        if (json_str_is(key, string[i].name))
            return read_string(j, string[i].to), true;
    for (size_t i = 0; i < sizeof(raw) / sizeof(*raw); i++)
        if (json_str_is(key, raw[i].name))
            return *raw[i].to = json_pull_raw(j), true;
    for (size_t i = 0; i < sizeof(flag) / sizeof(*flag); i++)
        if (json_str_is(key, flag[i].name))
            return read_flag(j, flag[i].to), true;
    if (json_str_is(key, "start"))
        return json_pull_i64(j, &c->start);
    return json_str_is(key, "stop") && json_pull_i64(j, &c->stop);
}

void tokcomp_read(struct json_pull *j, struct tokcomp *c)
{
    struct json_str key;

    *c = (struct tokcomp){
        .add_prefix_space = TOKCOMP_UNSET,
        .use_regex = TOKCOMP_UNSET,
        .individual_digits = TOKCOMP_UNSET,
        .split = TOKCOMP_UNSET,
        .invert = TOKCOMP_UNSET,
        .strip_left = TOKCOMP_UNSET,
        .strip_right = TOKCOMP_UNSET,
        .clean_text = TOKCOMP_UNSET,
        .handle_chinese_chars = TOKCOMP_UNSET,
        .strip_accents = TOKCOMP_UNSET,
        .lowercase = TOKCOMP_UNSET,
    };
    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "pattern"))
            read_pattern(j, c);
        else if (!read_field(j, &key, c) && !json_pull_rc(j))
            json_pull_skip(j);
    }
    if (!json_pull_rc(j) && !c->type.s)
        json_pull_fail(j, "a component without a type");
}

void tokcomp_stop(struct json_pull *j, int rc, const char *section)
{
    if (rc == 0 || j->rc)
        return;
    j->rc = rc;
    j->p = j->end;
    err_prefix(j->e, "%s: %s", j->path, section);
}

int tokcomp_unknown(struct json_pull *j, const char *section, const struct tokcomp *c)
{
    if (!j->rc) {
        j->rc = err_set(j->e, ERR_UNSUPPORTED, "%s: the %s \"%.*s\" is not understood", j->path, section,
                        (int)(c->type.n < 60 ? c->type.n : 60), c->type.s);
        j->p = j->end;
    }
    return j->rc;
}

void tokcomp_each(struct json_pull *j, const struct tokcomp *c,
                  void (*read)(struct json_pull *member, void *ctx), void *ctx)
{
    struct json_pull list;

    if (j->rc)
        return;
    if (!c->list.s) {
        json_pull_fail(j, "a Sequence without members");
        return;
    }
    json_pull_open(&list, c->list.s, c->list.n, j->path, j->arena, j->e);
    list.depth = j->depth; /* so that nesting stays limited */
    for (json_pull_enter_array(&list); json_pull_elem(&list);)
        read(&list, ctx);
    if (list.rc) {
        j->rc = list.rc;
        j->p = j->end;
    }
}

int tokcomp_behavior(const struct json_str *s)
{
    static const char *const name[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                       "MergedWithNext"};

    for (int i = 0; s->s && i < 5; i++)
        if (json_str_is(s, name[i]))
            return i;
    return -1;
}

bool tokcomp_char(const struct json_str *s, uint32_t *c)
{
    size_t len;

    if (!s->s || s->n == 0)
        return false;
    *c = utf8_decode(s->s, &len);
    return len == s->n;
}
