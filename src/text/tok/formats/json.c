/* json.c - reads a tokenizer.json: the JSON of the Hugging Face tokenizers library, version 1.0.
 *
 * The file is read in one pass: the vocabulary and the merges go into their tables directly. Members that
 * depend on a later member (merges before the vocabulary, added tokens before the model) are kept as JSON
 * text and read at the end. Objects are read into structs by tables of members, because members may come in
 * any order. "truncation" and "padding" are left to the caller and ignored, as in transformers.
 */
#include <string.h>

#include "base/arena.h"
#include "base/json/json_pull.h"
#include "base/utf8.h"
#include "text/settings.h"
#include "text/tok/build.h"
#include "text/tok/formats/readers.h"
#include "text/tok/normalize.h"
#include "text/tok/pattern.h"
#include "text/tok/steps.h"

/* ---- helpers of all sections ---- */

static const char normalizer[] = "normalizer", pre_tokenizer[] = "pre_tokenizer",
                  post_processor[] = "post_processor", decoder[] = "decoder";

/* Stores RC, the result of a function that does not read JSON, as the error of J, and puts the file and
 * SECTION before its sentence. RC 0: does nothing. */
static void stop(struct json_pull *j, int rc, const char *section)
{
    if (rc == 0 || j->rc)
        return;
    j->rc = rc;
    j->p = j->end;
    err_prefix(j->e, "%s: %s", j->path, section);
}

static void add_step(struct json_pull *j, struct steps *to, struct step step, const char *section)
{
    if (!j->rc)
        stop(j, tok_add_step(to, step, section, j->e), section);
}

static int shown_bytes(const struct json_str *s)
{
    return (int)(s->n < 60 ? s->n : 60);
}

/* Copies the string S into memory of T. */
static void keep(struct json_pull *j, struct tok *t, struct json_str *s, const char *section)
{
    s->s = arena_strndup(&t->arena, s->s, s->n);
    if (!s->s)
        stop(j, err_nomem(j->e, section), section);
}

/* Returns a reader of TEXT, a part of J's text that J skipped before. */
static struct json_pull open_part(const struct json_pull *j, const struct json_str *text)
{
    struct json_pull part = *j;

    part.p = text->s;
    part.end = text->s + text->n;
    return part;
}

static void close_part(struct json_pull *j, const struct json_pull *part)
{
    if (!part->rc || j->rc)
        return;
    j->rc = part->rc;
    j->p = j->end;
}

/* ---- objects, read by a table ---- */

enum flag { UNSET, NO, YES }; /* UNSET is also the value of null */

/* The type of a JSON member, which gives the C type of its field. STRING: struct json_str. FLAG: enum flag. BOOL: bool.
 * NUMBER: int64_t. RAW: struct json_str with the member's JSON text. null leaves all but RAW unchanged. */
enum kind { STRING, FLAG, BOOL, NUMBER, RAW };

struct member {
    const char *name; /* NULL ends a table */
    enum kind kind;
    size_t at; /* the offset of the field in the struct */
};

static void read_field(struct json_pull *j, enum kind kind, void *to)
{
    bool b;

    if (kind == RAW)
        *(struct json_str *)to = json_pull_raw(j);
    else if (json_pull_null(j))
        return;
    else if (kind == NUMBER)
        json_pull_i64(j, to);
    else if (kind == STRING)
        json_pull_string(j, to);
    else if (kind == BOOL)
        json_pull_bool(j, to);
    else if (json_pull_bool(j, &b))
        *(enum flag *)to = b ? YES : NO;
}

/* Reads the value of the member KEY into a field of TO. False: TABLE lacks KEY, and nothing was read. */
static bool read_known(struct json_pull *j, const struct member *table, const struct json_str *key, void *to)
{
    while (table->name && !json_str_is(key, table->name))
        table++;
    if (table->name)
        read_field(j, table->kind, (char *)to + table->at);
    return table->name;
}

/* ---- components: {"type": ..., ...} ---- */

/* The fields of a component of any type: its type may come last. Missing or null strings have S NULL. */
struct component {
    struct json_str type;
    struct json_str literal, regex; /* "pattern": {"String": ...} or {"Regex": ...} */
    struct json_str content, prepend, replacement, prepend_scheme, behavior, suffix, delimiter, charsmap;
    enum flag add_prefix_space, use_regex, individual_digits, split, invert, strip_left, strip_right;
    enum flag clean_text, handle_chinese_chars, strip_accents, lowercase;
    int64_t start, stop;
    struct json_str list;                             /* members of a Sequence, as JSON text */
    struct json_str single, special_tokens, sep, cls; /* parts of post-processors, as JSON text */
};

static const struct member fields[] = {
    {"type", STRING, offsetof(struct component, type)},
    {"content", STRING, offsetof(struct component, content)},
    {"prepend", STRING, offsetof(struct component, prepend)},
    {"replacement", STRING, offsetof(struct component, replacement)},
    {"prepend_scheme", STRING, offsetof(struct component, prepend_scheme)},
    {"behavior", STRING, offsetof(struct component, behavior)},
    {"suffix", STRING, offsetof(struct component, suffix)},
    {"delimiter", STRING, offsetof(struct component, delimiter)},
    {"precompiled_charsmap", STRING, offsetof(struct component, charsmap)},
    {"normalizers", RAW, offsetof(struct component, list)},
    {"pretokenizers", RAW, offsetof(struct component, list)},
    {"decoders", RAW, offsetof(struct component, list)},
    {"processors", RAW, offsetof(struct component, list)},
    {"single", RAW, offsetof(struct component, single)},
    {"special_tokens", RAW, offsetof(struct component, special_tokens)},
    {"sep", RAW, offsetof(struct component, sep)},
    {"cls", RAW, offsetof(struct component, cls)},
    {"add_prefix_space", FLAG, offsetof(struct component, add_prefix_space)},
    {"use_regex", FLAG, offsetof(struct component, use_regex)},
    {"split", FLAG, offsetof(struct component, split)},
    {"individual_digits", FLAG, offsetof(struct component, individual_digits)},
    {"invert", FLAG, offsetof(struct component, invert)},
    {"strip_left", FLAG, offsetof(struct component, strip_left)},
    {"strip_right", FLAG, offsetof(struct component, strip_right)},
    {"clean_text", FLAG, offsetof(struct component, clean_text)},
    {"handle_chinese_chars", FLAG, offsetof(struct component, handle_chinese_chars)},
    {"strip_accents", FLAG, offsetof(struct component, strip_accents)},
    {"lowercase", FLAG, offsetof(struct component, lowercase)},
    {"start", NUMBER, offsetof(struct component, start)},
    {"stop", NUMBER, offsetof(struct component, stop)},
    {.name = NULL},
};

static void read_pattern(struct json_pull *j, struct component *c)
{
    struct json_str key;

    if (json_pull_null(j))
        return;
    if (json_pull_peek(j) == JSON_PULL_STRING) { /* some writers use a plain string */
        json_pull_string(j, &c->literal);
        return;
    }
    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "String"))
            json_pull_string(j, &c->literal);
        else if (json_str_is(&key, "Regex"))
            json_pull_string(j, &c->regex);
        else
            json_pull_fail(j, "a pattern is a String or a Regex, not a \"%.*s\"", shown_bytes(&key), key.s);
    }
}

/* Reads the component at J. False: an error. Unknown fields are ignored, as Hugging Face's reader does. */
static bool read_component(struct json_pull *j, struct component *c)
{
    struct json_str key;

    *c = (struct component){.start = 0};
    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "pattern"))
            read_pattern(j, c);
        else if (!read_known(j, fields, &key, c))
            json_pull_skip(j);
    }
    if (!j->rc && !c->type.s)
        json_pull_fail(j, "a component has no type");
    return !j->rc;
}

static void refuse_type(struct json_pull *j, const char *section, const struct json_str *type)
{
    if (j->rc)
        return;
    j->rc = err_set(j->e, ERR_UNSUPPORTED, "%s: the %s \"%.*s\" is not supported", j->path, section,
                    shown_bytes(type), type->s);
    j->p = j->end;
}

/* Reads the pattern and the replacement of a Replace. */
static void read_replace(struct json_pull *j, struct tok *t, const struct component *c, struct steps *to,
                         struct step step, const char *section)
{
    step.find = c->literal;
    step.text = c->content;
    if (!c->content.s || (!c->regex.s && !c->literal.s) || (c->literal.s && c->literal.n == 0)) {
        json_pull_fail(j, "a Replace has no pattern or no content");
        return;
    }
    keep(j, t, &step.text, section);
    if (c->regex.s) {
        stop(j, pattern_add(&t->patterns, c->regex.s, c->regex.n, j->e), section);
        step.re = t->patterns;
    } else {
        keep(j, t, &step.find, section);
    }
    add_step(j, to, step, section);
}

/* Reads S, which must be a single character, into *C. False: it is not. */
static bool is_char(const struct json_str *s, uint32_t *c)
{
    size_t len;

    if (!s->s || s->n == 0)
        return false;
    *c = utf8_decode(s->s, &len);
    return len == s->n;
}

/* The components without fields. A component in two rows has two steps. */
static const struct {
    const char *section, *type;
    struct step step;
} plain[] = {
    {normalizer, "NFC", {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFC}},
    {normalizer, "NFD", {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFD}},
    {normalizer, "NFKC", {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFKC}},
    {normalizer, "NFKD", {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFKD}},
    {normalizer, "Lowercase", {.kind = NORMALIZE_LOWERCASE}},
    {normalizer, "StripAccents", {.kind = NORMALIZE_DROP_MARKS}},
    {normalizer, "Nmt", {.kind = NORMALIZE_NMT}},
    {pre_tokenizer,
     "Whitespace",
     {.kind = SPLIT_CHARS, .class = SPLIT_RUNS, .behavior = SPLIT_REMOVED, .invert = true}},
    {pre_tokenizer,
     "WhitespaceSplit",
     {.kind = SPLIT_CHARS, .class = SPLIT_BLANK, .behavior = SPLIT_REMOVED}},
    {pre_tokenizer,
     "BertPreTokenizer",
     {.kind = SPLIT_CHARS, .class = SPLIT_BLANK, .behavior = SPLIT_REMOVED}},
    {pre_tokenizer, "BertPreTokenizer", {.kind = SPLIT_CHARS, .class = SPLIT_PUNCTUATION}},
    {decoder, "ByteLevel", {.kind = DECODE_BYTE_LEVEL}},
    {decoder, "ByteFallback", {.kind = DECODE_BYTE_FALLBACK}},
    {decoder, "Fuse", {.kind = DECODE_FUSE}},
};

static bool add_plain(struct json_pull *j, struct steps *to, const char *section, const struct component *c)
{
    bool found = false;

    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        if (plain[i].section == section && json_str_is(&c->type, plain[i].type)) {
            add_step(j, to, plain[i].step, section);
            found = true;
        }
    return found;
}

typedef void component_reader(struct json_pull *j, struct tok *t, const struct component *c);

/* Reads the component at J with READ or, if it is a Sequence, each of its members. TO: the list of steps of
 * SECTION, or NULL if it has none. */
static void read_section(struct json_pull *j, struct tok *t, const char *section, struct steps *to,
                         component_reader *read)
{
    struct component c;
    struct json_pull list;

    if ((section != decoder && json_pull_null(j)) || !read_component(j, &c) || add_plain(j, to, section, &c))
        return;
    if (!json_str_is(&c.type, "Sequence")) {
        read(j, t, &c);
    } else if (!c.list.s) {
        json_pull_fail(j, "a Sequence without members");
    } else {
        size_t begin = to ? to->n : 0, n = 0;

        list = open_part(j, &c.list);
        for (json_pull_enter_array(&list); json_pull_elem(&list); n++) {
            read_section(&list, t, section, to, read);
            if (n == 0 && section == pre_tokenizer)
                t->n_first = to->n - begin;
        }
        close_part(j, &list);
    }
}

/* ---- normalizer ---- */

static void add_bert(struct json_pull *j, struct tok *t, const struct component *c)
{
    bool lower = c->lowercase != NO,
         accents = c->strip_accents == YES || (c->strip_accents == UNSET && lower);
    const struct {
        bool wanted;
        struct step step;
    } steps[] = {
        {c->clean_text != NO, {.kind = NORMALIZE_CLEAN}},
        {c->handle_chinese_chars != NO, {.kind = NORMALIZE_IDEOGRAPHS}},
        {accents, {.kind = NORMALIZE_FORM, .form = NORMALIZE_NFD}},
        {accents, {.kind = NORMALIZE_DROP_MN}},
        {lower, {.kind = NORMALIZE_LOWERCASE}},
    };

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
        if (steps[i].wanted)
            add_step(j, &t->norm, steps[i].step, normalizer);
}

static void add_map(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct normalize_map *map = NULL;
    char *bytes;
    size_t n;
    int rc;

    if (!c->charsmap.s || c->charsmap.n == 0)
        return; /* the map is empty */
    bytes = mem_alloc(c->charsmap.n, MEM_TEXT);
    if (!bytes)
        rc = err_nomem(j->e, normalizer);
    else if (!tok_from_base64(c->charsmap.s, c->charsmap.n, bytes, &n))
        rc = err_set(j->e, ERR_INPUT, "the precompiled_charsmap is not base64");
    else
        rc = normalize_map_new(&map, &t->arena, bytes, n, j->e);
    mem_free(bytes);
    stop(j, rc, normalizer);
    add_step(j, &t->norm, (struct step){.kind = NORMALIZE_MAP_HF, .map = map}, normalizer);
}

static void read_normalizer(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct step step = {.kind = NORMALIZE_PREPEND, .text = c->prepend};

    if (json_str_is(&c->type, "Replace")) {
        read_replace(j, t, c, &t->norm, (struct step){.kind = NORMALIZE_REPLACE}, normalizer);
    } else if (json_str_is(&c->type, "Prepend")) {
        if (!c->prepend.s)
            json_pull_fail(j, "a Prepend has no field prepend");
        else
            keep(j, t, &step.text, normalizer);
        add_step(j, &t->norm, step, normalizer);
    } else if (json_str_is(&c->type, "Strip")) {
        step = (struct step){
            .kind = NORMALIZE_STRIP, .left = c->strip_left != NO, .right = c->strip_right != NO};
        add_step(j, &t->norm, step, normalizer);
    } else if (json_str_is(&c->type, "BertNormalizer")) {
        add_bert(j, t, c);
    } else if (json_str_is(&c->type, "Precompiled")) {
        add_map(j, t, c);
    } else {
        refuse_type(j, normalizer, &c->type);
    }
}

/* ---- pre_tokenizer ---- */

static enum step_behavior behavior_of(struct json_pull *j, const struct component *c)
{
    static const char *const name[] = {[SPLIT_ISOLATED] = "Isolated",
                                       [SPLIT_REMOVED] = "Removed",
                                       [SPLIT_CONTIGUOUS] = "Contiguous",
                                       [SPLIT_MERGED_PREVIOUS] = "MergedWithPrevious",
                                       [SPLIT_MERGED_NEXT] = "MergedWithNext"};

    for (size_t i = 0; c->behavior.s && i < sizeof(name) / sizeof(*name); i++)
        if (json_str_is(&c->behavior, name[i]))
            return (enum step_behavior)i;
    json_pull_fail(j, "the behavior \"%.*s\" is not supported", shown_bytes(&c->behavior),
                   c->behavior.s ? c->behavior.s : "");
    return SPLIT_ISOLATED;
}

static void add_literal(struct json_pull *j, struct tok *t, struct step step)
{
    keep(j, t, &step.find, pre_tokenizer);
    add_step(j, &t->pre.steps, step, pre_tokenizer);
}

static void read_split(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct step step = {
        .kind = SPLIT_MATCHES, .behavior = behavior_of(j, c), .invert = c->invert == YES, .find = c->literal};

    if (j->rc)
        return;
    if (c->regex.s)
        stop(j, tok_add_split(t, c->regex.s, c->regex.n, step, j->e), pre_tokenizer);
    else if (c->literal.s && c->literal.n)
        add_literal(j, t, step);
    else
        json_pull_fail(j, "a Split has no pattern");
}

/* Metaspace: replaces each space by a certain character, puts this character in front of the text, and cuts
 * before each occurrence of it. */
static void read_metaspace(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct step replace = {.kind = SPLIT_REPLACE, .find = {" ", 1}, .text = c->replacement},
                prepend = {.kind = SPLIT_PREPEND, .missing = true},
                split = {.kind = SPLIT_MATCHES, .behavior = SPLIT_MERGED_NEXT};
    const struct json_str *scheme = &c->prepend_scheme;
    bool never = scheme->s ? json_str_is(scheme, "never") : c->add_prefix_space == NO;
    uint32_t ch;

    if (!is_char(&c->replacement, &ch)) {
        json_pull_fail(j, "the replacement of a Metaspace is not one character");
        return;
    }
    prepend.first = scheme->s && json_str_is(scheme, "first");
    if (scheme->s && !never && !prepend.first && !json_str_is(scheme, "always"))
        json_pull_fail(j, "the prepend_scheme \"%.*s\" is not supported", (int)(scheme->n & 63), scheme->s);
    if (c->add_prefix_space == NO && !never)
        json_pull_fail(j, "add_prefix_space and prepend_scheme of a Metaspace contradict each other");
    if (!j->rc)
        keep(j, t, &replace.text, pre_tokenizer);
    prepend.text = split.find = replace.text;
    add_step(j, &t->pre.steps, replace, pre_tokenizer);
    if (!never)
        add_step(j, &t->pre.steps, prepend, pre_tokenizer);
    if (c->split != NO)
        add_step(j, &t->pre.steps, split, pre_tokenizer);
}

static void read_pre_tokenizer(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct step chars = {.kind = SPLIT_CHARS};

    if (json_str_is(&c->type, "ByteLevel")) {
        stop(j, tok_add_byte_level(t, c->add_prefix_space == YES, c->use_regex != NO, j->e), pre_tokenizer);
    } else if (json_str_is(&c->type, "Split")) {
        read_split(j, t, c);
    } else if (json_str_is(&c->type, "Metaspace")) {
        read_metaspace(j, t, c);
    } else if (json_str_is(&c->type, "Digits")) {
        chars.class = SPLIT_NUMERIC;
        chars.behavior = c->individual_digits == YES ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        add_step(j, &t->pre.steps, chars, pre_tokenizer);
    } else if (json_str_is(&c->type, "Punctuation")) {
        chars.class = SPLIT_PUNCTUATION;
        chars.behavior = c->behavior.s ? behavior_of(j, c) : SPLIT_ISOLATED;
        add_step(j, &t->pre.steps, chars, pre_tokenizer);
    } else if (json_str_is(&c->type, "CharDelimiterSplit") && c->delimiter.s && c->delimiter.n) {
        add_literal(j, t,
                    (struct step){.kind = SPLIT_MATCHES, .behavior = SPLIT_REMOVED, .find = c->delimiter});
    } else {
        refuse_type(j, pre_tokenizer, &c->type);
    }
}

/* ---- post_processor: the ids around a text (offsets and pairs of texts are not supported) ---- */

static void append(struct json_pull *j, struct tok_ids *to, const struct tok_ids *ids)
{
    if (!tok_ids_add(to, (const uint32_t *)ids->id, ids->n))
        stop(j, err_nomem(j->e, post_processor), post_processor);
}

static void append_id(struct json_pull *j, struct tok_ids *to, int64_t id)
{
    append(j, to, &(struct tok_ids){.id = &(int32_t){(int32_t)id}, .n = 1});
}

/* Puts the ids BEFORE in front of t->prefix. */
static void put_before(struct json_pull *j, struct tok *t, struct tok_ids before)
{
    append(j, &before, &t->prefix);
    tok_ids_fini(&t->prefix);
    t->prefix = before;
}

static void read_ids(struct json_pull *j, struct tok_ids *to)
{
    for (json_pull_enter_array(j); json_pull_elem(j);) {
        int64_t id;

        if (!json_pull_i64(j, &id))
            break;
        if (id < 0 || id > VOCAB_MAX_ID)
            json_pull_fail(j, "the id %lld is outside 0..%d", (long long)id, (int)VOCAB_MAX_ID);
        else
            append_id(j, to, id);
    }
}

/* Appends the ids of the token NAME, as the table special_tokens has them. */
static void look_up(struct json_pull *j, const struct component *c, const struct json_str *name,
                    struct tok_ids *to)
{
    struct json_pull table;
    struct json_str key;
    bool found = false;

    if (!c->special_tokens.s) {
        json_pull_fail(j, "a TemplateProcessing has no special_tokens");
        return;
    }
    table = open_part(j, &c->special_tokens);
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
        json_pull_fail(j, "the template's token \"%.*s\" is not among its special_tokens", shown_bytes(name),
                       name->s);
}

/* Reads {"SpecialToken": {"id": name}} or {"Sequence": {"id": "A"}}. */
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
                           shown_bytes(&key), key.s);
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
        json_pull_fail(j, "a TemplateProcessing has no field single");
        return;
    }
    list = open_part(j, &c->single);
    for (json_pull_enter_array(&list); json_pull_elem(&list);) {
        struct json_str token, sequence;

        read_piece(&list, &token, &sequence);
        if (list.rc)
            break;
        if (sequence.s && (text || !json_str_is(&sequence, "A")))
            json_pull_fail(&list, "a template for one text must contain the sequence A exactly once");
        else if (sequence.s)
            text = true;
        else if (token.s)
            look_up(&list, c, &token, text ? &after : &before);
    }
    if (!text)
        json_pull_fail(&list, "a template for one text must contain the sequence A exactly once");
    close_part(j, &list);
    put_before(j, t, before); /* ids of earlier processors stay nearer to the text */
    append(j, &t->suffix, &after);
    tok_ids_fini(&after);
}

/* Reads a token with its id: ["</s>", 2]. */
static void read_pair(struct json_pull *j, const struct json_str *text, struct tok_ids *to)
{
    struct json_pull pair;
    struct json_str name;
    int64_t id = -1;

    if (!text->s) {
        json_pull_fail(j, "a post_processor has no sep or no cls");
        return;
    }
    pair = open_part(j, text);
    json_pull_enter_array(&pair);
    if (json_pull_elem(&pair) && json_pull_string(&pair, &name) && json_pull_elem(&pair) &&
        json_pull_i64(&pair, &id))
        json_pull_elem(&pair);
    if (id < 0 || id > VOCAB_MAX_ID)
        json_pull_fail(&pair, "sep and cls must be a token and its id");
    close_part(j, &pair);
    if (!j->rc)
        append_id(j, to, id);
}

static void read_post_processor(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct tok_ids before = {0};

    if (json_str_is(&c->type, "TemplateProcessing")) {
        read_template(j, t, c);
    } else if (json_str_is(&c->type, "RobertaProcessing") || json_str_is(&c->type, "BertProcessing")) {
        read_pair(j, &c->cls, &before);
        put_before(j, t, before);
        read_pair(j, &c->sep, &t->suffix);
    } else if (!json_str_is(&c->type, "ByteLevel")) { /* ByteLevel changes offsets only */
        refuse_type(j, post_processor, &c->type);
    }
}

/* ---- decoder ---- */

static void read_strip(struct json_pull *j, struct step *step, const struct component *c)
{
    enum { MAX_STRIP = 1 << 20 };

    *step = (struct step){.kind = DECODE_STRIP, .start = (size_t)c->start};
    if (!is_char(&c->content, &step->ch))
        json_pull_fail(j, "the content of a Strip is not one character");
    else if (c->start < 0 || c->start > MAX_STRIP || c->stop)
        json_pull_fail(j, "a Strip is supported only with a start of 0..%d and a stop of 0", (int)MAX_STRIP);
}

static void read_decoder(struct json_pull *j, struct tok *t, const struct component *c)
{
    struct step step = {.kind = DECODE_REPLACE};

    if (json_str_is(&c->type, "Replace")) {
        read_replace(j, t, c, &t->chain, step, decoder);
        return;
    }
    if (json_str_is(&c->type, "Strip")) {
        read_strip(j, &step, c);
    } else if (json_str_is(&c->type, "Metaspace")) {
        step.kind = DECODE_METASPACE;
        step.first =
            !(c->prepend_scheme.s ? json_str_is(&c->prepend_scheme, "never") : c->add_prefix_space == NO);
        if (!is_char(&c->replacement, &step.ch))
            json_pull_fail(j, "the replacement of a Metaspace is not one character");
    } else if (json_str_is(&c->type, "BPEDecoder")) {
        step = (struct step){.kind = DECODE_SUFFIX, .find = {"</w>", 4}};
        if (c->suffix.s)
            step.find = c->suffix;
        if (step.find.n == 0)
            json_pull_fail(j, "the suffix of a BPEDecoder is empty");
        else
            keep(j, t, &step.find, decoder);
    } else {
        refuse_type(j, decoder, &c->type);
    }
    add_step(j, &t->chain, step, decoder);
}

/* ---- model ---- */

struct model {
    struct json_str type, unk_token, prefix, suffix;
    struct json_str merges; /* JSON text of merges that are read after the vocabulary; S NULL: none */
    bool has_vocab, list_vocab, has_merges, byte_fallback, fuse_unk, ignore_merges;
    int64_t unk_id; /* -1: none */
};

static const struct member model_fields[] = {
    {"type", STRING, offsetof(struct model, type)},
    {"unk_token", STRING, offsetof(struct model, unk_token)},
    {"continuing_subword_prefix", STRING, offsetof(struct model, prefix)},
    {"end_of_word_suffix", STRING, offsetof(struct model, suffix)},
    {"byte_fallback", BOOL, offsetof(struct model, byte_fallback)},
    {"fuse_unk", BOOL, offsetof(struct model, fuse_unk)},
    {"ignore_merges", BOOL, offsetof(struct model, ignore_merges)},
    {"unk_id", NUMBER, offsetof(struct model, unk_id)},
    {.name = NULL},
};

static void read_vocab(struct json_pull *j, struct tok *t)
{
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        int64_t id;

        if (json_pull_i64(j, &id))
            stop(j, vocab_add(&t->vocab, key.s, key.n, id, j->e), "model.vocab");
    }
}

/* Reads the vocabulary of a unigram model: [["piece", -1.5], ...]. */
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
            json_pull_fail(j, "an entry of a unigram vocabulary must be a string and a score");
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

/* Reads one merge: "a b", or ["a", "b"]. */
static void read_merge(struct json_pull *j, struct bpe_merges *to)
{
    struct json_str left, right;

    if (json_pull_peek(j) == JSON_PULL_STRING) {
        json_pull_string(j, &left);
        stop(j, j->rc ? 0 : bpe_merges_add_line(to, left.s, left.n, j->e), "model.merges");
        return;
    }
    json_pull_enter_array(j);
    if (json_pull_elem(j) && json_pull_string(j, &left) && json_pull_elem(j) && json_pull_string(j, &right) &&
        !json_pull_elem(j) && !j->rc)
        stop(j, bpe_merges_add(to, left.s, left.n, right.s, right.n, j->e), "model.merges");
    else
        json_pull_fail(j, "a merge must be a pair of strings");
}

static void read_merges(struct json_pull *j, struct tok *t)
{
    struct bpe_merges to;

    bpe_merges_init(&to, &t->bpe, &t->vocab);
    for (json_pull_enter_array(j); json_pull_elem(j);)
        read_merge(j, &to);
    if (!j->rc)
        stop(j, bpe_merges_end(&to, j->e), "model.merges");
    bpe_merges_fini(&to);
}

static void read_dropout(struct json_pull *j)
{
    double d = 0;

    if (!json_pull_null(j) && json_pull_f64(j, &d) && d != 0)
        json_pull_fail(j, "a BPE dropout of %g makes encoding random, which is not supported", d);
}

static void read_model_member(struct json_pull *j, struct tok *t, struct model *m, const struct json_str *key)
{
    if (json_str_is(key, "vocab")) {
        m->has_vocab = true;
        m->list_vocab = json_pull_peek(j) == JSON_PULL_ARRAY;
        if (m->list_vocab)
            read_scored_vocab(j, t);
        else
            read_vocab(j, t);
    } else if (json_str_is(key, "merges")) {
        m->has_merges = true;
        if (m->has_vocab && !m->list_vocab)
            read_merges(j, t);
        else
            m->merges = json_pull_raw(j);
    } else if (json_str_is(key, "dropout")) {
        read_dropout(j);
    } else if (!read_known(j, model_fields, key, m)) {
        json_pull_skip(j);
    }
}

static void finish_bpe(struct json_pull *j, struct tok *t, const struct model *m)
{
    struct bpe *b = &t->bpe;
    struct json_pull merges;

    if (m->prefix.n)
        stop(j,
             err_set(j->e, ERR_UNSUPPORTED, "a BPE model with a continuing_subword_prefix is not supported"),
             "model");
    if (m->suffix.n > BPE_MAX_SUFFIX)
        json_pull_fail(j, "the end_of_word_suffix has %zu bytes; the maximum is %d", m->suffix.n,
                       (int)BPE_MAX_SUFFIX);
    t->model = TOK_BPE;
    b->byte_fallback = m->byte_fallback;
    b->fuse_unk = m->fuse_unk;
    b->ignore_merges = m->ignore_merges;
    b->has_unk = m->unk_token.s != NULL;
    b->unk = VOCAB_NONE;
    if (b->has_unk)
        vocab_find(&t->vocab, m->unk_token.s, m->unk_token.n, &b->unk);
    b->suffix = m->suffix;
    if (m->suffix.n)
        keep(j, t, &b->suffix, "model");
    if (j->rc || !m->merges.s)
        return;
    merges = open_part(j, &m->merges);
    read_merges(&merges, t);
    close_part(j, &merges);
}

static void finish_unigram(struct json_pull *j, struct tok *t, const struct model *m)
{
    t->model = TOK_UNIGRAM;
    t->uni.byte_fallback = m->byte_fallback;
    t->uni.has_unk = m->unk_id != -1;
    if (m->unk_id < -1 || m->unk_id >= (int64_t)t->vocab.n_ids)
        json_pull_fail(j, "unk_id %lld is not in the vocabulary", (long long)m->unk_id);
    t->uni.unk = (uint32_t)m->unk_id;
}

static void read_model(struct json_pull *j, struct tok *t)
{
    struct model m = {.unk_id = -1};
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);)
        read_model_member(j, t, &m, &key);
    if (j->rc)
        return;
    if (!m.has_vocab)
        json_pull_fail(j, "the model has no vocab");
    else if (m.type.s ? json_str_is(&m.type, "BPE") : m.has_merges) {
        if (m.list_vocab || !m.has_merges)
            json_pull_fail(j, "a BPE model must have a vocab object and merges");
        else
            finish_bpe(j, t, &m);
    } else if (m.type.s ? json_str_is(&m.type, "Unigram") : m.list_vocab) {
        if (!m.list_vocab)
            json_pull_fail(j, "a Unigram model must have a vocab list of pairs");
        else
            finish_unigram(j, t, &m);
    } else {
        static const struct json_str none = {"without type", 12};

        refuse_type(j, "model", m.type.s ? &m.type : &none);
    }
}

/* ---- added tokens ---- */

struct added {
    struct tok_added token;
    struct json_str content;
};

static const struct member added_fields[] = {
    {"content", STRING, offsetof(struct added, content)},
    {"special", BOOL, offsetof(struct added, token.special)},
    {"lstrip", BOOL, offsetof(struct added, token.lstrip)},
    {"rstrip", BOOL, offsetof(struct added, token.rstrip)},
    {"single_word", BOOL, offsetof(struct added, token.single_word)},
    {"normalized", BOOL, offsetof(struct added, token.normalized)},
    {.name = NULL},
};

static void read_added_token(struct json_pull *j, struct tok *t)
{
    struct added a = {.token = {.id = VOCAB_NONE, .normalized = true}};
    struct json_str key;

    for (json_pull_enter_object(j); json_pull_key(j, &key);)
        if (!read_known(j, added_fields, &key, &a))
            json_pull_skip(j);
    if (!j->rc && !a.content.s)
        json_pull_fail(j, "an added token has no content");
    if (!j->rc)
        stop(j, tok_add_token(t, a.token, a.content.s, a.content.n, j->e), "added_tokens");
}

/* Reads TEXT, the JSON text of added_tokens, after the model. */
static void read_added(struct json_pull *j, struct tok *t, const struct json_str *text)
{
    struct json_pull list;

    if (j->rc || !text->s)
        return;
    list = open_part(j, text);
    if (!json_pull_null(&list))
        for (json_pull_enter_array(&list); json_pull_elem(&list);)
            read_added_token(&list, t);
    close_part(j, &list);
}

/* Reads a tokenizer.json. CLASS_ADDS: its added tokens do not count. */
static int read_file(struct json_pull *j, struct tok *t, bool class_adds)
{
    static const struct step joined = {.kind = DECODE_JOIN}; /* the decoder if the file has none */
    struct json_str key, added = {NULL, 0};
    bool has_model = false, has_decoder = false;

    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "added_tokens")) {
            added = json_pull_raw(j);
        } else if (json_str_is(&key, "normalizer")) {
            read_section(j, t, normalizer, &t->norm, read_normalizer);
        } else if (json_str_is(&key, "pre_tokenizer")) {
            read_section(j, t, pre_tokenizer, &t->pre.steps, read_pre_tokenizer);
        } else if (json_str_is(&key, "post_processor")) {
            read_section(j, t, post_processor, NULL, read_post_processor);
        } else if (json_str_is(&key, "decoder")) {
            has_decoder = true;
            if (json_pull_null(j))
                add_step(j, &t->chain, joined, decoder);
            else
                read_section(j, t, decoder, &t->chain, read_decoder);
        } else if (json_str_is(&key, "model") && !has_model) {
            has_model = true;
            read_model(j, t);
        } else {
            json_pull_skip(j);
        }
    }
    json_pull_finish(j);
    if (!j->rc && !has_model)
        json_pull_fail(j, "the file has no model");
    if (!j->rc && !has_decoder)
        add_step(j, &t->chain, joined, decoder);
    if (!class_adds)
        read_added(j, t, &added);
    return j->rc;
}

int tok_read_json(struct tok *t, const char *text, size_t len, const char *path, const struct settings *conf,
                  struct err *e)
{
    struct arena arena;
    struct json_pull j;
    int rc;

    arena_init(&arena, MEM_TEXT);
    rc = json_pull_open(&j, text, len, path, &arena, e);
    if (rc == 0 && len > 1 << 20)
        vocab_reserve(&t->vocab,
                      len / 64); /* an estimate; a later allocation reports it if memory runs out here */
    if (rc == 0)
        rc = read_file(&j, t, conf && *conf->loaded && conf->has_table);
    if (rc == 0 && conf && (rc = tok_configure(t, conf, e)) != 0)
        err_prefix(e, "%s", path);
    if (rc == 0 && (rc = tok_seal(t, e)) != 0)
        err_prefix(e, "%s", path);
    arena_fini(&arena);
    return rc;
}
