/* json.c - reads a tokenizer.json: the JSON of the Hugging Face tokenizers library, version 1.0.
 *
 * One pass: the vocabulary and the merges go into their tables as they are read. Only members that come
 * before what they need (merges before the vocabulary, added tokens before the model) are remembered as text
 * and read afterwards. "truncation" and "padding" are a caller's choice and not read, as transformers does
 * not apply them either.
 */
#include <string.h>

#include "base/json_pull.h"
#include "base/utf8.h"
#include "text/tok/build.h"
#include "text/tok/bytes.h"

/* ---- the fields of a component ---- */

enum component_flag { COMPONENT_UNSET = -1, COMPONENT_NO, COMPONENT_YES }; /* null counts as unset */

struct component { /* a string that is missing or null has s NULL */
    struct json_str type;
    struct json_str literal, regex; /* "pattern": {"String": ...} or {"Regex": ...} */
    struct json_str content, prepend, replacement, prepend_scheme, behavior, suffix, delimiter, charsmap;
    enum component_flag add_prefix_space, use_regex, individual_digits, split, invert, strip_left,
        strip_right;
    enum component_flag clean_text, handle_chinese_chars, strip_accents, lowercase;
    int64_t start, stop;
    struct json_str list;                             /* members of a Sequence, as JSON text */
    struct json_str single, special_tokens, sep, cls; /* of post-processors, as JSON text */
};

static void read_string(struct json_pull *j, struct json_str *s)
{
    if (!json_pull_null(j))
        json_pull_string(j, s);
}

static void read_flag(struct json_pull *j, enum component_flag *f)
{
    bool v;

    if (!json_pull_null(j) && json_pull_bool(j, &v))
        *f = v ? COMPONENT_YES : COMPONENT_NO;
}

static void read_pattern(struct json_pull *j, struct component *c)
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

static bool read_field(struct json_pull *j, const struct json_str *key, struct component *c)
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
        enum component_flag *to;
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

static void component_read(struct json_pull *j, struct component *c)
{
    struct json_str key;

    *c = (struct component){
        .add_prefix_space = COMPONENT_UNSET,
        .use_regex = COMPONENT_UNSET,
        .individual_digits = COMPONENT_UNSET,
        .split = COMPONENT_UNSET,
        .invert = COMPONENT_UNSET,
        .strip_left = COMPONENT_UNSET,
        .strip_right = COMPONENT_UNSET,
        .clean_text = COMPONENT_UNSET,
        .handle_chinese_chars = COMPONENT_UNSET,
        .strip_accents = COMPONENT_UNSET,
        .lowercase = COMPONENT_UNSET,
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

static void component_stop(struct json_pull *j, int rc, const char *section)
{
    if (rc == 0 || j->rc)
        return;
    j->rc = rc;
    j->p = j->end;
    err_prefix(j->e, "%s: %s", j->path, section);
}

static int component_unknown(struct json_pull *j, const char *section, const struct component *c)
{
    if (!j->rc) {
        j->rc = err_set(j->e, ERR_UNSUPPORTED, "%s: the %s \"%.*s\" is not understood", j->path, section,
                        (int)(c->type.n < 60 ? c->type.n : 60), c->type.s);
        j->p = j->end;
    }
    return j->rc;
}

static void component_each(struct json_pull *j, const struct component *c,
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

static int component_behavior(const struct json_str *s)
{
    static const char *const name[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                       "MergedWithNext"};

    for (int i = 0; s->s && i < 5; i++)
        if (json_str_is(s, name[i]))
            return i;
    return -1;
}

static bool component_char(const struct json_str *s, uint32_t *c)
{
    size_t len;

    if (!s->s || s->n == 0)
        return false;
    *c = utf8_decode(s->s, &len);
    return len == s->n;
}

static const char normalizer_section[] = "normalizer";

static void normalizer_add(struct json_pull *j, struct tok *t, struct normalize_step step)
{
    component_stop(j, normalize_add(&t->norm, step, j->e), normalizer_section);
}

static void normalizer_add_replace(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct normalize_step step = {.kind = NORMALIZE_REPLACE};
    int rc = 0;

    if ((!c->literal.s && !c->regex.s) || !c->content.s || (c->literal.s && c->literal.n == 0)) {
        json_pull_fail(j, "a Replace needs a pattern and a content");
        return;
    }
    if (c->regex.s)
        rc = pattern_new(&step.re, c->regex.s, c->regex.n, true, j->e);
    else if (!normalize_copy(&step.find, &step.n_find, c->literal.s, c->literal.n))
        rc = err_nomem(j->e, normalizer_section);
    if (rc == 0 && !normalize_copy(&step.text, &step.n_text, c->content.s, c->content.n))
        rc = err_nomem(j->e, normalizer_section);
    if (rc == 0) {
        normalizer_add(j, t, step);
        return;
    }
    mem_free(step.find);
    pattern_free(step.re);
    component_stop(j, rc, normalizer_section);
}

static void add_prepend(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct normalize_step step = {.kind = NORMALIZE_PREPEND};

    if (!c->prepend.s)
        json_pull_fail(j, "a Prepend needs the field prepend");
    else if (!normalize_copy(&step.text, &step.n_text, c->prepend.s, c->prepend.n))
        component_stop(j, err_nomem(j->e, normalizer_section), normalizer_section);
    else
        normalizer_add(j, t, step);
}

static void add_bert(struct json_pull *j, struct tok *t, const struct component *c)
{
    bool lower = c->lowercase != COMPONENT_NO;

    if (c->clean_text != COMPONENT_NO)
        normalizer_add(j, t, (struct normalize_step){.kind = NORMALIZE_CLEAN});
    if (c->handle_chinese_chars != COMPONENT_NO)
        normalizer_add(j, t, (struct normalize_step){.kind = NORMALIZE_IDEOGRAPHS});
    if (c->strip_accents == COMPONENT_YES || (c->strip_accents == COMPONENT_UNSET && lower)) {
        normalizer_add(j, t, (struct normalize_step){.kind = NORMALIZE_FORM, .form = NORMALIZE_NFD});
        normalizer_add(j, t, (struct normalize_step){.kind = NORMALIZE_DROP_MN});
    }
    if (lower)
        normalizer_add(j, t, (struct normalize_step){.kind = NORMALIZE_LOWERCASE});
}

static void add_map(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct normalize_step step = {.kind = NORMALIZE_MAP_HF};
    char *bytes;
    size_t n;
    int rc;

    if (!c->charsmap.s || c->charsmap.n == 0)
        return; /* a map of nothing */
    bytes = mem_alloc(c->charsmap.n, MEM_TEXT);
    if (!bytes)
        rc = err_nomem(j->e, normalizer_section);
    else if (!bytes_from_base64(c->charsmap.s, c->charsmap.n, bytes, &n))
        rc = err_set(j->e, ERR_INPUT, "the precompiled_charsmap is not base64");
    else
        rc = normalize_map_new(&step.map, bytes, n, j->e);
    mem_free(bytes);
    if (rc)
        component_stop(j, rc, normalizer_section);
    else
        normalizer_add(j, t, step);
}

/* The types that need nothing but their name. */
static bool add_simple(struct json_pull *j, struct tok *t, const struct component *c)
{
    static const struct {
        const char *type;
        struct normalize_step step;
    } simple[] = {
        {"NFC", {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFC}},
        {"NFD", {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFD}},
        {"NFKC", {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFKC}},
        {"NFKD", {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFKD}},
        {"Lowercase", {.kind = NORMALIZE_LOWERCASE}},
        {"StripAccents", {.kind = NORMALIZE_DROP_MARKS}},
        {"Nmt", {.kind = NORMALIZE_NMT}},
    };

    for (size_t i = 0; i < sizeof(simple) / sizeof(*simple); i++)
        if (json_str_is(&c->type, simple[i].type))
            return normalizer_add(j, t, simple[i].step), true;
    return false;
}

static void read_normalizer(struct json_pull *j, struct tok *t);

static void normalizer_member(struct json_pull *j, void *ctx)
{
    read_normalizer(j, ctx);
}

static void read_normalizer(struct json_pull *j, struct tok *t)
{
    struct component c;

    if (json_pull_null(j))
        return;
    component_read(j, &c);
    if (j->rc || add_simple(j, t, &c))
        return;
    if (t->spelled) {
        json_pull_fail(j, "a normalizer behind ByteLevel is not understood");
    } else if (json_str_is(&c.type, "Sequence")) {
        component_each(j, &c, normalizer_member, t);
    } else if (json_str_is(&c.type, "Replace")) {
        normalizer_add_replace(j, t, &c);
    } else if (json_str_is(&c.type, "Prepend")) {
        add_prepend(j, t, &c);
    } else if (json_str_is(&c.type, "Strip")) {
        normalizer_add(j, t,
                       (struct normalize_step){.kind = NORMALIZE_STRIP,
                                               .left = c.strip_left != COMPONENT_NO,
                                               .right = c.strip_right != COMPONENT_NO});
    } else if (json_str_is(&c.type, "BertNormalizer")) {
        add_bert(j, t, &c);
    } else if (json_str_is(&c.type, "Precompiled")) {
        add_map(j, t, &c);
    } else if (json_str_is(&c.type, "ByteLevel")) {
        t->spelled = true;
        normalizer_add(j, t, (struct normalize_step){.kind = NORMALIZE_SPELL});
    } else {
        component_unknown(j, normalizer_section, &c);
    }
}

static const char pre_tokenizer_section[] = "pre_tokenizer";

static void pre_tokenizer_add(struct json_pull *j, struct tok *t, struct split_step step)
{
    component_stop(j, split_add(&t->pre, step, j->e), pre_tokenizer_section);
}

static bool take_behavior(struct json_pull *j, const struct component *c, enum split_behavior *b)
{
    int found = component_behavior(&c->behavior);

    if (found < 0) {
        json_pull_fail(j, "the behavior \"%.*s\" is not understood",
                       (int)(c->behavior.n < 60 ? c->behavior.n : 60), c->behavior.s ? c->behavior.s : "");
        return false;
    }
    *b = (enum split_behavior)found;
    return true;
}

static void add_literal(struct json_pull *j, struct tok *t, struct split_step step, const struct json_str *s)
{
    step.kind = SPLIT_LITERAL;
    step.n_text = s->n;
    step.text = mem_strndup(s->s, s->n, MEM_TEXT);
    if (!step.text)
        component_stop(j, err_nomem(j->e, pre_tokenizer_section), pre_tokenizer_section);
    else
        pre_tokenizer_add(j, t, step);
}

static void pre_tokenizer_add_split(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct split_step step = {.kind = SPLIT_PATTERN, .invert = c->invert == COMPONENT_YES};
    int rc;

    if (!take_behavior(j, c, &step.behavior))
        return;
    if (c->regex.s) {
        rc = pattern_new(&step.re, c->regex.s, c->regex.n, true, j->e);
        if (rc)
            component_stop(j, rc, pre_tokenizer_section);
        else
            pre_tokenizer_add(j, t, step);
    } else if (c->literal.s && c->literal.n) {
        add_literal(j, t, step, &c->literal);
    } else {
        json_pull_fail(j, "a Split needs a pattern");
    }
}

static void pre_tokenizer_add_metaspace(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct split_step step = {.kind = SPLIT_METASPACE,
                              .behavior = SPLIT_MERGED_NEXT,
                              .scheme = SPLIT_ALWAYS,
                              .split = c->split != COMPONENT_NO};
    uint32_t ch;

    if (!component_char(&c->replacement, &ch)) {
        json_pull_fail(j, "the replacement of a Metaspace is one character");
        return;
    }
    if (c->prepend_scheme.s && json_str_is(&c->prepend_scheme, "first"))
        step.scheme = SPLIT_FIRST;
    else if (c->prepend_scheme.s && json_str_is(&c->prepend_scheme, "never"))
        step.scheme = SPLIT_NEVER;
    else if (c->prepend_scheme.s && !json_str_is(&c->prepend_scheme, "always"))
        json_pull_fail(j, "the prepend_scheme \"%.*s\" is not understood", (int)(c->prepend_scheme.n & 63),
                       c->prepend_scheme.s);
    if (c->add_prefix_space == COMPONENT_NO && !c->prepend_scheme.s)
        step.scheme = SPLIT_NEVER;
    else if (c->add_prefix_space == COMPONENT_NO && step.scheme != SPLIT_NEVER)
        json_pull_fail(j, "add_prefix_space and prepend_scheme of a Metaspace contradict each other");
    if (j->rc)
        return;
    step.n_text = c->replacement.n;
    step.text = mem_strndup(c->replacement.s, c->replacement.n, MEM_TEXT);
    if (!step.text)
        component_stop(j, err_nomem(j->e, pre_tokenizer_section), pre_tokenizer_section);
    else
        pre_tokenizer_add(j, t, step);
}

static void add_punctuation(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct split_step step = {.kind = SPLIT_CHARS, .cls = SPLIT_PUNCTUATION, .behavior = SPLIT_ISOLATED};

    if (!c->behavior.s || take_behavior(j, c, &step.behavior))
        pre_tokenizer_add(j, t, step);
}

static void read_pre_tokenizer(struct json_pull *j, struct tok *t);

static void pre_tokenizer_member(struct json_pull *j, void *ctx)
{
    read_pre_tokenizer(j, ctx);
}

static void read_pre_tokenizer(struct json_pull *j, struct tok *t)
{
    static const struct split_step blanks = {
        .kind = SPLIT_CHARS, .cls = SPLIT_BLANK, .behavior = SPLIT_REMOVED};
    struct component c;

    if (json_pull_null(j))
        return;
    component_read(j, &c);
    if (j->rc)
        return;
    if (json_str_is(&c.type, "Sequence")) {
        component_each(j, &c, pre_tokenizer_member, t);
    } else if (json_str_is(&c.type, "ByteLevel")) {
        component_stop(j,
                       split_add_byte_level(&t->pre, c.add_prefix_space == COMPONENT_YES,
                                            c.use_regex != COMPONENT_NO, j->e),
                       pre_tokenizer_section);
    } else if (json_str_is(&c.type, "Split")) {
        pre_tokenizer_add_split(j, t, &c);
    } else if (json_str_is(&c.type, "Metaspace")) {
        pre_tokenizer_add_metaspace(j, t, &c);
    } else if (json_str_is(&c.type, "Digits")) {
        pre_tokenizer_add(j, t,
                          (struct split_step){.kind = SPLIT_CHARS,
                                              .cls = SPLIT_NUMERIC,
                                              .behavior = c.individual_digits == COMPONENT_YES
                                                              ? SPLIT_ISOLATED
                                                              : SPLIT_CONTIGUOUS});
    } else if (json_str_is(&c.type, "Punctuation")) {
        add_punctuation(j, t, &c);
    } else if (json_str_is(&c.type, "Whitespace")) {
        pre_tokenizer_add(j, t, (struct split_step){.kind = SPLIT_RUNS});
    } else if (json_str_is(&c.type, "WhitespaceSplit")) {
        pre_tokenizer_add(j, t, blanks);
    } else if (json_str_is(&c.type, "BertPreTokenizer")) {
        pre_tokenizer_add(j, t, blanks);
        pre_tokenizer_add(
            j, t,
            (struct split_step){.kind = SPLIT_CHARS, .cls = SPLIT_PUNCTUATION, .behavior = SPLIT_ISOLATED});
    } else if (json_str_is(&c.type, "CharDelimiterSplit") && c.delimiter.s && c.delimiter.n) {
        add_literal(j, t, (struct split_step){.behavior = SPLIT_REMOVED}, &c.delimiter);
    } else {
        component_unknown(j, pre_tokenizer_section, &c);
    }
}

static const char post_processor_section[] = "post_processor";

static void append(struct json_pull *j, struct tok_ids *to, const struct tok_ids *ids)
{
    if (ids->n && !tok_ids_add(to, (const uint32_t *)ids->id, ids->n))
        component_stop(j, err_nomem(j->e, post_processor_section), post_processor_section);
}

static void open_part(struct json_pull *part, const struct json_pull *j, const struct json_str *text)
{
    json_pull_open(part, text->s, text->n, j->path, j->arena, j->e);
}

static void close_part(struct json_pull *j, const struct json_pull *part)
{
    if (part->rc && !j->rc) {
        j->rc = part->rc;
        j->p = j->end;
    }
}

static void read_ids(struct json_pull *j, struct tok_ids *to)
{
    for (json_pull_enter_array(j); json_pull_elem(j);) {
        int64_t v;
        uint32_t id;

        if (!json_pull_i64(j, &v))
            break;
        id = (uint32_t)v;
        if (v < 0 || v > VOCAB_MAX_ID)
            json_pull_fail(j, "the id %lld is outside 0..%d", (long long)v, (int)VOCAB_MAX_ID);
        else if (!tok_ids_add(to, &id, 1))
            component_stop(j, err_nomem(j->e, post_processor_section), post_processor_section);
    }
}

/* Appends the ids that the table of special tokens has for NAME. */
static void look_up(struct json_pull *j, const struct component *c, const struct json_str *name,
                    struct tok_ids *to)
{
    struct json_pull table;
    struct json_str key;
    bool found = false;

    if (!c->special_tokens.s) {
        json_pull_fail(j, "a template without special_tokens");
        return;
    }
    open_part(&table, j, &c->special_tokens);
    for (json_pull_enter_object(&table); json_pull_key(&table, &key);) {
        bool is_it = key.n == name->n && memcmp(key.s, name->s, key.n) == 0;

        for (json_pull_enter_object(&table); json_pull_key(&table, &key);) {
            if (is_it && json_str_is(&key, "ids"))
                read_ids(&table, to);
            else
                json_pull_skip(&table);
        }
        found = found || is_it;
    }
    close_part(j, &table);
    if (!found)
        json_pull_fail(j, "the template's token \"%.*s\" is not among its special_tokens",
                       (int)(name->n < 60 ? name->n : 60), name->s);
}

/* {"SpecialToken": {"id": name}} or {"Sequence": {"id": "A"}}. */
static void read_piece(struct json_pull *j, struct json_str *token, struct json_str *sequence)
{
    struct json_str key, inner;

    *token = *sequence = (struct json_str){NULL, 0};
    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        struct json_str *to = json_str_is(&key, "SpecialToken") ? token
                              : json_str_is(&key, "Sequence")   ? sequence
                                                                : NULL;

        if (!to) {
            json_pull_fail(j, "a template piece is a SpecialToken or a Sequence, not a \"%.*s\"",
                           (int)(key.n < 60 ? key.n : 60), key.s);
            return;
        }
        for (json_pull_enter_object(j); json_pull_key(j, &inner);) {
            if (json_str_is(&inner, "id"))
                json_pull_string(j, to);
            else
                json_pull_skip(j);
        }
    }
}

static void read_template(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct tok_ids before = {0}, after = {0};
    struct json_pull list;
    bool text = false;

    if (!c->single.s) {
        json_pull_fail(j, "a TemplateProcessing needs the field single");
        return;
    }
    open_part(&list, j, &c->single);
    for (json_pull_enter_array(&list); json_pull_elem(&list);) {
        struct json_str token, sequence;

        read_piece(&list, &token, &sequence);
        if (list.rc)
            break;
        if (sequence.s && (text || !json_str_is(&sequence, "A")))
            json_pull_fail(&list, "a template for one text must have the sequence A once");
        else if (sequence.s)
            text = true;
        else if (token.s)
            look_up(&list, c, &token, text ? &after : &before);
    }
    if (!text)
        json_pull_fail(&list, "a template for one text must have the sequence A once");
    close_part(j, &list);
    append(j, &before, &t->prefix); /* what earlier processors put around the text stays nearer to it */
    append(j, &t->suffix, &after);
    tok_ids_fini(&t->prefix);
    t->prefix = before;
    tok_ids_fini(&after);
}

/* ["</s>", 2] */
static void read_pair(struct json_pull *j, const struct json_str *text, struct tok_ids *to)
{
    struct json_pull pair;
    struct json_str name;
    int64_t v = -1;
    uint32_t id;

    if (!text->s) {
        json_pull_fail(j, "a post_processor without its sep or cls");
        return;
    }
    open_part(&pair, j, text);
    json_pull_enter_array(&pair);
    if (json_pull_elem(&pair) && json_pull_string(&pair, &name) && json_pull_elem(&pair) &&
        json_pull_i64(&pair, &v))
        json_pull_elem(&pair);
    if (v < 0 || v > VOCAB_MAX_ID)
        json_pull_fail(&pair, "sep and cls are a token and its id");
    close_part(j, &pair);
    id = (uint32_t)v;
    if (!j->rc && !tok_ids_add(to, &id, 1))
        component_stop(j, err_nomem(j->e, post_processor_section), post_processor_section);
}

static void read_fixed(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct tok_ids before = {0};

    read_pair(j, &c->cls, &before);
    append(j, &before, &t->prefix);
    tok_ids_fini(&t->prefix);
    t->prefix = before;
    read_pair(j, &c->sep, &t->suffix);
}

static void read_post_processor(struct json_pull *j, struct tok *t);

static void post_processor_member(struct json_pull *j, void *ctx)
{
    read_post_processor(j, ctx);
}

static void read_post_processor(struct json_pull *j, struct tok *t)
{
    struct component c;

    if (json_pull_null(j))
        return;
    component_read(j, &c);
    if (j->rc || json_str_is(&c.type, "ByteLevel")) /* ByteLevel moves offsets only */
        return;
    if (json_str_is(&c.type, "Sequence"))
        component_each(j, &c, post_processor_member, t);
    else if (json_str_is(&c.type, "TemplateProcessing"))
        read_template(j, t, &c);
    else if (json_str_is(&c.type, "RobertaProcessing") || json_str_is(&c.type, "BertProcessing"))
        read_fixed(j, t, &c);
    else
        component_unknown(j, post_processor_section, &c);
}

enum { MAX_STRIP = 1 << 20 };

static const char decoder_section[] = "decoder";

static void decoder_add(struct json_pull *j, struct tok *t, struct decode_step step)
{
    component_stop(j, decode_add(&t->chain, step, j->e), decoder_section);
}

static bool decoder_copy(struct json_pull *j, char **to, size_t *n_to, const struct json_str *s)
{
    *n_to = s->n;
    *to = mem_strndup(s->s, s->n, MEM_TEXT);
    if (!*to)
        component_stop(j, err_nomem(j->e, decoder_section), decoder_section);
    return *to != NULL;
}

static void decoder_add_replace(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct decode_step step = {.kind = DECODE_REPLACE};
    int rc;

    if (!c->content.s || (!c->regex.s && (!c->literal.s || c->literal.n == 0))) {
        json_pull_fail(j, "a Replace needs a pattern and a content");
        return;
    }
    if (!decoder_copy(j, &step.text, &step.n_text, &c->content))
        return;
    if (c->regex.s) {
        rc = pattern_new(&step.re, c->regex.s, c->regex.n, true, j->e);
        component_stop(j, rc, decoder_section);
    } else {
        decoder_copy(j, &step.find, &step.n_find, &c->literal);
    }
    if (j->rc)
        mem_free(step.text);
    else
        decoder_add(j, t, step);
}

static void add_strip(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct decode_step step = {.kind = DECODE_STRIP, .start = (size_t)c->start, .stop = (size_t)c->stop};

    if (!component_char(&c->content, &step.ch))
        json_pull_fail(j, "the content of a Strip is one character");
    else if (c->start < 0 || c->start > MAX_STRIP || c->stop < 0 || c->stop > MAX_STRIP)
        json_pull_fail(j, "start and stop of a Strip are 0..%d", (int)MAX_STRIP);
    else
        decoder_add(j, t, step);
}

static void decoder_add_metaspace(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct decode_step step = {.kind = DECODE_METASPACE, .drop_first = true};

    if (!component_char(&c->replacement, &step.ch)) {
        json_pull_fail(j, "the replacement of a Metaspace is one character");
        return;
    }
    if (c->prepend_scheme.s ? json_str_is(&c->prepend_scheme, "never") : c->add_prefix_space == COMPONENT_NO)
        step.drop_first = false;
    decoder_add(j, t, step);
}

static void add_suffix(struct json_pull *j, struct tok *t, const struct component *c)
{
    static const struct json_str usual = {"</w>", 4};
    struct decode_step step = {.kind = DECODE_SUFFIX};

    if (c->suffix.s && c->suffix.n == 0)
        json_pull_fail(j, "the suffix of a BPEDecoder is empty");
    else if (decoder_copy(j, &step.find, &step.n_find, c->suffix.s ? &c->suffix : &usual))
        decoder_add(j, t, step);
}

static void decoder_one(struct json_pull *j, struct tok *t);

static void decoder_member(struct json_pull *j, void *ctx)
{
    decoder_one(j, ctx);
}

static void decoder_one(struct json_pull *j, struct tok *t)
{
    struct component c;

    component_read(j, &c);
    if (j->rc)
        return;
    if (json_str_is(&c.type, "Sequence"))
        component_each(j, &c, decoder_member, t);
    else if (json_str_is(&c.type, "ByteLevel"))
        decoder_add(j, t, (struct decode_step){.kind = DECODE_BYTE_LEVEL});
    else if (json_str_is(&c.type, "ByteFallback"))
        decoder_add(j, t, (struct decode_step){.kind = DECODE_BYTE_FALLBACK});
    else if (json_str_is(&c.type, "Fuse"))
        decoder_add(j, t, (struct decode_step){.kind = DECODE_FUSE});
    else if (json_str_is(&c.type, "Replace"))
        decoder_add_replace(j, t, &c);
    else if (json_str_is(&c.type, "Strip"))
        add_strip(j, t, &c);
    else if (json_str_is(&c.type, "Metaspace"))
        decoder_add_metaspace(j, t, &c);
    else if (json_str_is(&c.type, "BPEDecoder"))
        add_suffix(j, t, &c);
    else
        component_unknown(j, decoder_section, &c);
}

static void read_decoder(struct json_pull *j, struct tok *t)
{
    if (json_pull_null(j))
        decoder_add(j, t, (struct decode_step){.kind = DECODE_JOIN});
    else
        decoder_one(j, t);
}

struct model {
    struct json_str type, unk_token, prefix, suffix, merges; /* merges: their text */
    bool has_vocab, list_vocab, has_merges, merges_read, byte_fallback;
    int64_t unk_id;
    bool has_unk_id;
};

static void stop(struct json_pull *j, int rc, const char *where)
{
    component_stop(j, rc, where);
}

static void read_vocab(struct json_pull *j, struct tok *t)
{
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        int64_t id;

        if (json_pull_i64(j, &id))
            stop(j, vocab_add(&t->vocab, key.s, key.n, id, j->e), "model.vocab");
    }
}

/* [["piece", -1.5], ...]: the unigram form. */
static void read_scored_vocab(struct json_pull *j, struct tok *t)
{
    struct unigram *u = &t->uni;

    for (json_pull_enter_array(j); json_pull_elem(j);) {
        struct json_str s;
        double score = 0;
        bool pair;

        json_pull_enter_array(j);
        pair = json_pull_elem(j) && json_pull_string(j, &s) && json_pull_elem(j) && json_pull_f64(j, &score);
        if (!pair || json_pull_elem(j)) {
            json_pull_fail(j, "an entry of a unigram vocabulary is a string and a score");
            return;
        }
        if (!mem_grow((void **)&u->score, &u->score_cap, u->n_score + 1, sizeof(*u->score), MEM_TEXT)) {
            stop(j, err_nomem(j->e, "model.vocab"), "model.vocab");
            return;
        }
        u->score[u->n_score] = score;
        stop(j, vocab_add(&t->vocab, s.s, s.n, (int64_t)u->n_score, j->e), "model.vocab");
        u->n_score++;
    }
}

/* One merge: "a b", or ["a", "b"]. */
static bool read_merge(struct json_pull *j, struct json_str *left, struct json_str *right)
{
    const char *space;

    if (json_pull_peek(j) == JSON_PULL_ARRAY) {
        json_pull_enter_array(j);
        if (json_pull_elem(j) && json_pull_string(j, left) && json_pull_elem(j) &&
            json_pull_string(j, right) && !json_pull_elem(j))
            return !j->rc;
        json_pull_fail(j, "a merge is a pair of strings");
        return false;
    }
    if (!json_pull_string(j, left))
        return false;
    space = memchr(left->s, ' ', left->n);
    if (!space || memchr(space + 1, ' ', left->n - (size_t)(space + 1 - left->s))) {
        json_pull_fail(j, "the merge \"%.*s\" is not two tokens with a space between",
                       (int)(left->n < 60 ? left->n : 60), left->s);
        return false;
    }
    right->s = space + 1;
    right->n = left->n - (size_t)(space + 1 - left->s);
    left->n = (size_t)(space - left->s);
    return true;
}

static void read_merges(struct json_pull *j, struct tok *t, const struct model *m)
{
    struct bpe_merges to;

    t->bpe.n_added = 0;
    bpe_merges_init(&to, &t->bpe, &t->vocab, m->prefix.n);
    for (json_pull_enter_array(j); json_pull_elem(j);) {
        struct json_str left, right;

        if (read_merge(j, &left, &right))
            stop(j, bpe_merges_add(&to, left.s, left.n, right.s, right.n, j->e), "model.merges");
    }
    if (!j->rc)
        stop(j, bpe_merges_end(&to, j->e), "model.merges");
    bpe_merges_fini(&to);
}

static void read_bool(struct json_pull *j, bool *f)
{
    if (!json_pull_null(j))
        json_pull_bool(j, f);
}

static void read_name(struct json_pull *j, struct json_str *s)
{
    if (!json_pull_null(j))
        json_pull_string(j, s);
}

static void read_dropout(struct json_pull *j)
{
    double d = 0;

    if (!json_pull_null(j) && json_pull_f64(j, &d) && d != 0)
        json_pull_fail(j, "a BPE dropout of %g makes encoding random, which is not supported", d);
}

static void model_field(struct json_pull *j, struct tok *t, struct model *m, const struct json_str *key)
{
    if (json_str_is(key, "vocab")) {
        m->has_vocab = true;
        m->list_vocab = json_pull_peek(j) == JSON_PULL_ARRAY;
        if (m->list_vocab)
            read_scored_vocab(j, t);
        else
            read_vocab(j, t);
    } else if (json_str_is(key, "merges")) {
        json_pull_peek(j);
        m->has_merges = true;
        m->merges_read = m->has_vocab && !m->list_vocab;
        m->merges.s = j->p;
        if (m->merges_read)
            read_merges(j, t, m);
        else
            json_pull_skip(j);
    } else if (json_str_is(key, "type")) {
        read_name(j, &m->type);
    } else if (json_str_is(key, "unk_token")) {
        read_name(j, &m->unk_token);
    } else if (json_str_is(key, "continuing_subword_prefix")) {
        read_name(j, &m->prefix);
        m->merges_read = m->merges_read && m->prefix.n == 0; /* they were read in ignorance of it */
    } else if (json_str_is(key, "end_of_word_suffix")) {
        read_name(j, &m->suffix);
    } else if (json_str_is(key, "dropout")) {
        read_dropout(j);
    } else if (json_str_is(key, "fuse_unk")) {
        read_bool(j, &t->bpe.fuse_unk);
    } else if (json_str_is(key, "byte_fallback")) {
        read_bool(j, &m->byte_fallback);
    } else if (json_str_is(key, "ignore_merges")) {
        read_bool(j, &t->bpe.ignore_merges);
    } else if (json_str_is(key, "unk_id")) {
        m->has_unk_id = !json_pull_null(j) && json_pull_i64(j, &m->unk_id);
    } else {
        json_pull_skip(j);
    }
}

static bool keep_affix(struct json_pull *j, const struct json_str *s, char **to, size_t *n_to)
{
    if (!s->s || s->n == 0)
        return true;
    if (s->n > BPE_MAX_AFFIX) {
        json_pull_fail(j, "a subword prefix or suffix of %zu bytes; at most %d are read", s->n,
                       (int)BPE_MAX_AFFIX);
        return false;
    }
    *n_to = s->n;
    *to = mem_strndup(s->s, s->n, MEM_TEXT);
    if (!*to)
        stop(j, err_nomem(j->e, "model"), "model");
    return *to != NULL;
}

static void finish_bpe(struct json_pull *j, struct tok *t, const struct model *m)
{
    struct bpe *b = &t->bpe;
    struct json_pull merges;

    t->model = TOK_BPE;
    b->byte_fallback = m->byte_fallback;
    b->has_unk = m->unk_token.s != NULL;
    b->unk = BPE_NONE;
    if (b->has_unk)
        vocab_find(&t->vocab, m->unk_token.s, m->unk_token.n, &b->unk);
    if (!keep_affix(j, &m->prefix, &b->prefix, &b->n_prefix) ||
        !keep_affix(j, &m->suffix, &b->suffix, &b->n_suffix))
        return;
    if (j->rc || m->merges_read)
        return;
    merges = *j;
    merges.p = m->merges.s;
    read_merges(&merges, t, m);
    if (merges.rc)
        *j = merges;
}

static void finish_unigram(struct json_pull *j, struct tok *t, const struct model *m)
{
    t->model = TOK_UNIGRAM;
    t->uni.byte_fallback = m->byte_fallback;
    t->uni.has_unk = m->has_unk_id;
    if (m->has_unk_id && (m->unk_id < 0 || (uint64_t)m->unk_id >= t->vocab.n_ids))
        json_pull_fail(j, "unk_id %lld is not in the vocabulary", (long long)m->unk_id);
    t->uni.unk = (uint32_t)m->unk_id;
}

static void read_model(struct json_pull *j, struct tok *t)
{
    struct model m = {0};
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);)
        model_field(j, t, &m, &key);
    if (j->rc)
        return;
    if (!m.has_vocab)
        json_pull_fail(j, "the model has no vocab");
    else if (m.type.s ? json_str_is(&m.type, "BPE") : m.has_merges) {
        if (m.list_vocab || !m.has_merges)
            json_pull_fail(j, "a BPE model has a vocab object and merges");
        else
            finish_bpe(j, t, &m);
    } else if (m.type.s ? json_str_is(&m.type, "Unigram") : m.list_vocab) {
        if (!m.list_vocab)
            json_pull_fail(j, "a Unigram model has a vocab of pairs");
        else
            finish_unigram(j, t, &m);
    } else {
        struct component c = {.type = m.type.s ? m.type : (struct json_str){"without type", 12}};
        component_unknown(j, "model", &c);
    }
}

static void read_added_token(struct json_pull *j, struct tok *t)
{
    struct tok_added a = {.normalized = true};
    struct json_str key, content = {NULL, 0};

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "content"))
            json_pull_string(j, &content);
        else if (json_str_is(&key, "special"))
            json_pull_bool(j, &a.special);
        else if (json_str_is(&key, "lstrip"))
            json_pull_bool(j, &a.lstrip);
        else if (json_str_is(&key, "rstrip"))
            json_pull_bool(j, &a.rstrip);
        else if (json_str_is(&key, "single_word"))
            json_pull_bool(j, &a.single_word);
        else if (json_str_is(&key, "normalized"))
            json_pull_bool(j, &a.normalized);
        else
            json_pull_skip(j);
    }
    if (!j->rc && !content.s)
        json_pull_fail(j, "an added token without content");
    if (!j->rc)
        stop(j, tok_add_token(t, a, content.s, content.n, j->e), "added_tokens");
}

/* Reads the added tokens, whose place in the file is TEXT, once the model is there. */
static void read_added(struct json_pull *j, struct tok *t, const struct json_str *text)
{
    struct json_pull list = *j;

    if (j->rc || !text->s)
        return;
    list.p = text->s;
    if (!json_pull_null(&list))
        for (json_pull_enter_array(&list); json_pull_elem(&list);)
            read_added_token(&list, t);
    if (list.rc)
        *j = list;
}

static int read_file(struct json_pull *j, struct tok *t)
{
    struct json_str key, added = {NULL, 0};
    bool model = false, decoder = false;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "added_tokens")) {
            added = json_pull_raw(j);
        } else if (json_str_is(&key, "normalizer")) {
            read_normalizer(j, t);
        } else if (json_str_is(&key, "pre_tokenizer")) {
            read_pre_tokenizer(j, t);
        } else if (json_str_is(&key, "post_processor")) {
            read_post_processor(j, t);
        } else if (json_str_is(&key, "decoder")) {
            decoder = true;
            read_decoder(j, t);
        } else if (json_str_is(&key, "model") && !model) {
            model = true;
            read_model(j, t);
        } else {
            json_pull_skip(j);
        }
    }
    json_pull_finish(j);
    if (!j->rc && !model)
        json_pull_fail(j, "there is no model in this tokenizer.json");
    if (!j->rc && !decoder)
        stop(j, decode_add(&t->chain, (struct decode_step){.kind = DECODE_JOIN}, j->e), "decoder");
    read_added(j, t, &added);
    return j->rc;
}

int tok_read_json(struct tok *t, const char *text, size_t len, const char *path, struct err *e)
{
    struct arena arena;
    struct json_pull j;
    int rc;

    arena_init(&arena, MEM_TEXT);
    rc = json_pull_open(&j, text, len, path, &arena, e);
    if (rc == 0 && len > 1 << 20)
        vocab_reserve(&t->vocab, len / 64); /* a guess; if it fails, so will something that reports it */
    if (rc == 0)
        rc = read_file(&j, t);
    if (rc == 0 && (rc = tok_seal(t, e)) != 0)
        err_prefix(e, "%s", path);
    arena_fini(&arena);
    return rc;
}
