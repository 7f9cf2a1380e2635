/* settings.c - reads the files of settings.h. All files share the functions that read a member, because a
 * member has the same meaning in each file. The files have the same precedence as in transformers. */
#include "text/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/json/json_pull.h"
#include "base/strmap.h"

enum { TEMPLATES_MAX = 64 };

static const struct json_str default_name = {"default", 7};

struct reader {
    struct settings *c;
    struct err *e;
    struct folder in;
    enum settings_use use;
    bool in_object;           /* the current member is an object of special tokens */
    bool in_map;              /* the current file is special_tokens_map.json, which has no templates */
    struct strmap by_content; /* content -> index in c->added, until these tokens are sorted */
};

const struct settings_text *settings_find(const struct settings_texts *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->v[i].name, name) == 0)
            return &l->v[i];
    return NULL;
}

/* Sets the text of NAME to TEXT. Both are copied. */
static int set_text(struct reader *r, struct settings_texts *l, const struct json_str *name,
                    const struct json_str *text)
{
    struct settings_text p = {.name = arena_strndup(&r->c->arena, name->s, name->n),
                              .text = arena_strndup(&r->c->arena, text->s, text->n),
                              .n = text->n};
    const struct settings_text *old = p.name ? settings_find(l, p.name) : NULL;

    if (l == &r->c->templates && l->n == TEMPLATES_MAX)
        return err_set(r->e, ERR_INPUT, "%s: the model has more than %d chat templates", r->in.path,
                       TEMPLATES_MAX);
    if (!p.name || !p.text || (!old && !mem_grow((void **)&l->v, &l->cap, l->n + 1, sizeof(*l->v), MEM_TEXT)))
        return err_nomem(r->e, "a chat template");
    l->v[old ? (size_t)(old - l->v) : l->n++] = p;
    return 0;
}

/* A function that reads the value of the member KEY. J is at the value. */
typedef int member_fn(struct reader *r, struct json_pull *j, const struct json_str *key);

/* Reads all members of the object at J with READ. */
static int read_members(struct reader *r, struct json_pull *j, member_fn *read)
{
    struct json_str key;
    int rc = 0;

    for (json_pull_enter_object(j); rc == 0 && json_pull_key(j, &key);)
        rc = read(r, j, &key);
    return rc;
}

/* ---- added tokens ---- */

/* Reads a token: a string, or an object with content and flags. For any other value, CONTENT is NULL. */
static void read_token(struct json_pull *j, struct json_str *content, struct settings_token *t)
{
    struct json_str key;

    *content = (struct json_str){NULL, 0};
    if (json_pull_peek(j) == JSON_PULL_STRING) {
        json_pull_string(j, content);
        return;
    }
    if (json_pull_peek(j) != JSON_PULL_OBJECT) {
        json_pull_skip(j);
        return;
    }
    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        bool *flag = json_str_is(&key, "special")       ? &t->special
                     : json_str_is(&key, "lstrip")      ? &t->lstrip
                     : json_str_is(&key, "rstrip")      ? &t->rstrip
                     : json_str_is(&key, "single_word") ? &t->single_word
                     : json_str_is(&key, "normalized")  ? &t->normalized
                                                        : NULL;
        enum json_pull_type type = json_pull_peek(j);

        if (flag && (type == JSON_PULL_TRUE || type == JSON_PULL_FALSE))
            json_pull_bool(j, flag);
        else if (json_str_is(&key, "content") && type == JSON_PULL_STRING)
            json_pull_string(j, content);
        else
            json_pull_skip(j);
    }
}

/* Merges T into OLD, the token of the same content that was read before. */
static void add_again(struct settings *c, struct settings_token *old, struct settings_token t)
{
    t.special = old->special || t.special;
    if (old->id >= 0)
        t.id = old->id;
    c->n_of_class -= old->of_class && !t.of_class;
    t.of_class = old->of_class && t.of_class;
    t.is_named = old->is_named || t.is_named;
    t.only = old->only == t.only ? t.only : SETTINGS_OTHERS;
    if (t.in_table && !old->in_table) { /* the flags of the table take precedence */
        t.content = old->content;
        t.n = old->n;
        t.order = old->order;
        t.rank = old->rank < t.rank ? old->rank : t.rank;
        *old = t;
    }
    old->of_class = t.of_class;
    old->is_named = t.is_named;
    old->only = t.only;
    old->id = t.id;
    old->special = t.special;
    old->rank = old->rank < t.rank ? old->rank : t.rank;
}

/* Adds the token T, or merges T into the token that has this content. */
static int add_token(struct reader *r, const struct json_str *content, struct settings_token t)
{
    struct settings *c = r->c;
    uint64_t at;

    if (!content->s || content->n == 0)
        return 0;
    if (strmap_get(&r->by_content, content->s, content->n, &at)) {
        add_again(c, &c->added[at], t);
        return 0;
    }
    t.content = arena_strndup(&c->arena, content->s, content->n);
    t.n = content->n;
    t.order = c->n_added;
    if (!t.content ||
        !mem_grow((void **)&c->added, &c->added_cap, c->n_added + 1, sizeof(*c->added), MEM_TEXT) ||
        strmap_put(&r->by_content, t.content, t.n, c->n_added) < 0)
        return err_nomem(r->e, "added tokens");
    c->added[c->n_added++] = t;
    c->n_of_class += t.of_class;
    return 0;
}

/* Reads an entry of added_tokens_decoder, a token under its id: "5": {"content": ...}. */
static int read_decoder(struct reader *r, struct json_pull *j, const struct json_str *key)
{
    struct settings_token t = {.id = 0, .normalized = true, .in_table = true};
    bool good = key->n > 0 && key->n <= 9;
    struct json_str content;

    for (size_t i = 0; i < key->n && good; i++) {
        good = key->s[i] >= '0' && key->s[i] <= '9';
        t.id = t.id * 10 + (key->s[i] - '0');
    }
    if (!good)
        return json_pull_fail(j, "the id \"%.*s\" of an added token is not a number of 1 to 9 digits",
                              (int)(key->n < 60 ? key->n : 60), key->s);
    read_token(j, &content, &t);
    return json_pull_rc(j) ? 0 : add_token(r, &content, t);
}

/* The attributes of a tokenizer whose values are special tokens. */
enum { N_NAMES = 7 };
static const char *const special_name[N_NAMES] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                                  "sep_token", "cls_token", "mask_token"};

/* The order in which new tokens get their ids: first in the order of SPECIAL_TOKENS_ATTRIBUTES in transformers (not of
 * the file), then other attributes, then those of an object, and last the tokens of lists. */
static const unsigned special_rank[N_NAMES + 1] = {0, 1, 2, 4, 3, 5, 6, N_NAMES};
enum { RANK_OF_OBJECTS = N_NAMES + 1, RANK_OF_LISTS };

/* Returns the index of the attribute KEY in special_name, or N_NAMES. */
static size_t special_number(const struct json_str *key)
{
    size_t i = 0;

    while (i < N_NAMES && !json_str_is(key, special_name[i]))
        i++;
    return i;
}

/* Reads a special token: the value of the attribute NAME, or (NAME NULL) an element of a list. */
static int read_named(struct reader *r, struct json_pull *j, const struct json_str *name,
                      enum settings_source only)
{
    size_t number = name ? special_number(name) : N_NAMES;
    struct settings_token t = {
        .id = -1, .rank = name ? special_rank[number] : RANK_OF_LISTS, .is_named = true, .only = only};
    struct json_str content;
    int rc = 0;

    if (name && number == N_NAMES && r->in_object)
        t.rank = RANK_OF_OBJECTS;
    if (name && json_pull_peek(j) == JSON_PULL_NULL)
        r->c->no_token |= 1u << number;
    read_token(j, &content, &t);
    t.special = true;
    if (json_pull_rc(j) || !content.s)
        return json_pull_rc(j);
    r->c->ignores[SETTINGS_SPECIFIC] |= name && number == N_NAMES && only == SETTINGS_OTHERS;
    r->c->ignores[SETTINGS_ADDITIONAL] |= !name && only == SETTINGS_OTHERS;
    if (name)
        rc = set_text(r, &r->c->tokens, name, &content);
    return rc ? rc : add_token(r, &content, t);
}

static int read_special(struct reader *r, struct json_pull *j, const struct json_str *name)
{
    return read_named(r, j, name, SETTINGS_OTHERS);
}

static int read_specific(struct reader *r, struct json_pull *j, const struct json_str *name)
{
    return read_named(r, j, name, SETTINGS_SPECIFIC);
}

/* Reads a list of special tokens, or an object of special tokens under their attributes. */
static int read_specials(struct reader *r, struct json_pull *j, enum settings_source only)
{
    int rc = 0;

    if (json_pull_peek(j) == JSON_PULL_OBJECT) {
        r->in_object = true;
        rc = read_members(r, j, only == SETTINGS_SPECIFIC ? read_specific : read_special);
        r->in_object = false;
    } else if (json_pull_peek(j) == JSON_PULL_ARRAY && only != SETTINGS_SPECIFIC)
        for (json_pull_enter_array(j); rc == 0 && json_pull_elem(j);)
            rc = read_named(r, j, NULL, only);
    else
        json_pull_skip(j);
    return rc;
}

/* ---- templates ---- */

/* Reads "name": "text". */
static int read_template_text(struct reader *r, struct json_pull *j, const struct json_str *name)
{
    struct json_str text;

    return json_pull_string(j, &text) ? set_text(r, &r->c->templates, name, &text) : json_pull_rc(j);
}

/* Reads an entry of a list of templates: {"name": ..., "template": ...}. */
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
        return json_pull_fail(j, "an entry of chat_template has no name or no template");
    return set_text(r, &r->c->templates, &name, &text);
}

/* Reads chat_template: a text, a list of named texts, or an object of texts under their names. */
static int read_template(struct reader *r, struct json_pull *j)
{
    int rc = 0;

    switch (json_pull_peek(j)) {
    case JSON_PULL_STRING: return read_template_text(r, j, &default_name);
    case JSON_PULL_ARRAY:
        for (json_pull_enter_array(j); rc == 0 && json_pull_elem(j);)
            rc = read_named_template(r, j);
        return rc;
    case JSON_PULL_OBJECT: return read_members(r, j, read_template_text);
    default: json_pull_skip(j); return json_pull_rc(j);
    }
}

/* Keeps the JSON of response_template. */
static int read_response(struct reader *r, struct json_pull *j)
{
    bool is_null = json_pull_peek(j) == JSON_PULL_NULL;
    struct json_str raw = json_pull_raw(j);

    if (json_pull_rc(j) || is_null)
        return json_pull_rc(j);
    r->c->response_template = arena_strndup(&r->c->arena, raw.s, raw.n);
    return r->c->response_template ? 0 : err_nomem(r->e, "a response_template");
}

/* ---- files ---- */

static void read_word(struct json_pull *j, char *to, size_t size)
{
    struct json_str s;

    if (json_pull_peek(j) != JSON_PULL_STRING)
        json_pull_skip(j);
    else if (json_pull_string(j, &s))
        snprintf(to, size, "%.*s", (int)(s.n < size ? s.n : size - 1), s.s);
}

static void read_flag(struct json_pull *j, enum settings_flag *flag)
{
    bool b = false;

    if (json_pull_peek(j) != JSON_PULL_TRUE && json_pull_peek(j) != JSON_PULL_FALSE)
        json_pull_skip(j);
    else if (json_pull_bool(j, &b))
        *flag = b ? SETTINGS_YES : SETTINGS_NO;
}

static enum settings_flag *flag_of(struct settings *c, const struct json_str *key)
{
    return json_str_is(key, "add_bos_token")          ? &c->add_bos
           : json_str_is(key, "add_eos_token")        ? &c->add_eos
           : json_str_is(key, "add_prefix_space")     ? &c->add_prefix_space
           : json_str_is(key, "legacy")               ? &c->legacy
           : json_str_is(key, "split_special_tokens") ? &c->split_special
           : json_str_is(key, "fix_mistral_regex")    ? &c->fix_mistral_regex
                                                      : NULL;
}

/* Reads a member of tokenizer_config.json or special_tokens_map.json. */
static int read_configuration(struct reader *r, struct json_pull *j, const struct json_str *key)
{
    bool chat = r->use == SETTINGS_FOR_CHAT, table = json_str_is(key, "added_tokens_decoder");
    enum settings_flag *flag = flag_of(r->c, key);

    r->c->has_table |= table;
    if (flag)
        read_flag(j, flag);
    else if (json_str_is(key, "tokenizer_class"))
        read_word(j, r->c->class, sizeof(r->c->class));
    else if (chat && !r->in_map && json_str_is(key, "chat_template"))
        return read_template(r, j);
    else if (chat && json_str_is(key, "response_template"))
        return read_response(r, j);
    else if (json_str_is(key, "extra_special_tokens"))
        return read_specials(r, j, SETTINGS_OTHERS);
    else if (json_str_is(key, "model_specific_special_tokens"))
        return read_specials(r, j, SETTINGS_SPECIFIC);
    else if (!chat && json_str_is(key, "additional_special_tokens"))
        return read_specials(r, j, SETTINGS_ADDITIONAL);
    else if (!chat && table)
        return read_members(r, j, read_decoder);
    else if (key->n >= 6 && memcmp(key->s + key->n - 6, "_token", 6) == 0)
        return read_special(r, j, key);
    else
        json_pull_skip(j);
    return 0;
}

/* Reads a member of added_tokens.json: the id of the token KEY. */
static int read_added(struct reader *r, struct json_pull *j, const struct json_str *key)
{
    struct settings_token t = {.id = -1, .normalized = true, .in_table = true};

    return json_pull_i64(j, &t.id) ? add_token(r, key, t) : 0;
}

/* Reads a member of chat_template.json. */
static int read_only_template(struct reader *r, struct json_pull *j, const struct json_str *key)
{
    if (json_str_is(key, "chat_template"))
        return read_template(r, j);
    json_pull_skip(j);
    return 0;
}

/* Reads a member of config.json. */
static int read_model(struct reader *r, struct json_pull *j, const struct json_str *key)
{
    struct settings *c = r->c;

    c->has_config = true;
    if (json_str_is(key, "model_type"))
        read_word(j, c->model_type, sizeof(c->model_type));
    else if (json_str_is(key, "tokenizer_class"))
        read_word(j, c->model_class, sizeof(c->model_class));
    else if (json_str_is(key, "transformers_version"))
        read_word(j, c->version, sizeof(c->version));
    else
        json_pull_skip(j);
    return 0;
}

static int read_json_text(struct reader *r, const char *text, size_t len, const char *path, member_fn *read)
{
    struct json_pull j;
    int rc = json_pull_open(&j, text, len, path, &r->c->arena, r->e);

    if (rc == 0)
        rc = read_members(r, &j, read);
    return rc ? rc : json_pull_finish(&j);
}

static int read_json(struct reader *r, const char *name, member_fn *read)
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

/* Reads the file NAME as the template called AS. Sets *FOUND if the file exists. */
static int read_template_file(struct reader *r, const char *name, const struct json_str *as, bool *found)
{
    struct folder_text f;
    bool there;
    int rc = folder_read(&f, r->in, name, &there, r->e);

    if (rc || !there)
        return rc;
    *found = true;
    rc = set_text(r, &r->c->templates, as, &(struct json_str){f.bytes, f.len});
    folder_text_fini(&f);
    return rc;
}

static int read_additional(struct reader *r, bool *found)
{
    static const char additional[] = "additional_chat_templates";
    char path[FOLDER_PATH_MAX];
    struct folder_names l;
    struct stat st;
    int rc = folder_join(path, sizeof(path), r->in.path, additional, r->e);

    if (rc || (!r->in.archive && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))))
        return rc;
    if ((rc = folder_list(&l, r->in, additional, ".jinja", r->e)) != 0)
        return rc;
    for (size_t i = 0; i < l.n && rc == 0; i++) {
        struct json_str name = {l.name[i], strlen(l.name[i]) - strlen(".jinja")};

        snprintf(path, sizeof(path), "%s/%s", additional, l.name[i]);
        rc = read_template_file(r, path, &name, found);
    }
    folder_names_fini(&l);
    return rc;
}

static int read_template_files(struct reader *r)
{
    struct settings_texts configured = r->c->templates, unused;
    bool found = false;
    int rc;

    r->c->templates = (struct settings_texts){.v = NULL};
    rc = read_template_file(r, "chat_template.jinja", &default_name, &found);
    if (rc == 0)
        rc = read_additional(r, &found);
    unused = configured;
    if (rc == 0 && !found) {
        unused = r->c->templates;
        r->c->templates = configured;
    }
    mem_free(unused.v);
    return rc ? rc : r->c->templates.n ? 0 : read_json(r, "chat_template.json", read_only_template);
}

static int by_id(const void *x, const void *y)
{
    const struct settings_token *a = x, *b = y;

    if ((a->id < 0) != (b->id < 0))
        return a->id < 0 ? 1 : -1;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static int read_tokenizer_files(struct reader *r)
{
    int rc = r->c->has_table ? 0 : read_json(r, "added_tokens.json", read_added);

    if (rc == 0 && r->c->n_added)
        qsort(r->c->added, r->c->n_added, sizeof(*r->c->added), by_id);
    return rc;
}

/* ---- the classes of transformers ---- */

/* The classes that build their own steps from the vocabulary of a tokenizer.json, and their default special tokens. */
static const struct class
{
    const char *names;          /* names without "Fast", with a blank before and after each */
    const char *token[N_NAMES]; /* the default special tokens; NULL: none */
} classes[] = {
    {" GPT2Tokenizer CodeGenTokenizer ", {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}},
    {" GPTNeoXTokenizer ", {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", "<|padding|>"}},
    {" Qwen2Tokenizer Qwen3_5Tokenizer ", {NULL, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}},
    {" LlamaTokenizer ", {"<s>", "</s>", "<unk>"}},
    {" GemmaTokenizer ", {"<bos>", "<eos>", "<unk>", "<pad>", [N_NAMES - 1] = "<mask>"}},
    {" CohereTokenizer ",
     {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<PAD>", "<SEP>", "<CLS>", "<MASK_TOKEN>"}},
};

/* The class of each model type in transformers 5; "": a class that takes the steps from the
 * tokenizer.json. */
static const struct {
    const char *class, *types; /* TYPES: with a blank before and after each type */
} registered[] = {
    {"GPT2Tokenizer", " blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip "
                      "instructblipvideo jais2 opt phi starcoder2 "},
    {"GPTNeoXTokenizer", " falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm "},
    {"Qwen2Tokenizer",
     " audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr "
     "moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe "
     "qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice "},
    {"Qwen3_5Tokenizer", " qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp "},
    {"LlamaTokenizer", " idefics idefics2 "},
    {"GemmaTokenizer",
     " diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
     "shieldgemma2 t5gemma zaya "},
    {"CohereTokenizer", " aya_vision cohere cohere2 "},
    {"",
     " arctic aria beam canary chatlm ernie4_5 ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v "
     "glm4v_moe glm_image glmasr got_ocr2 gpt_bigcode granite granitemoe granitemoehybrid granitemoeshared "
     "h2ovl_chat hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear llava "
     "llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 ministral "
     "ministral3 mistral mistral3 mistral_large4 mixtral modernbert modernbert-decoder molmo molmo2 nemotron nvfp4 "
     "olmo2 olmo3 olmo_hybrid opencua openvla paddleocr_vl persimmon phi3 phi3_v phimoe pixtral smolvlm stablelm "
     "step3_vl vipllava voxtral voxtral_realtime "}};

/* Model types with a class in REGISTERED whose checkpoints often name another class; the named class is ignored. */
static const char misnamed[] = " hyperclovax_vision_v2 qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp ";

/* Returns true if the list NAMES, with a blank before and after each, has the first N bytes of NAME. */
static bool is_listed(const char *names, const char *name, size_t n)
{
    char word[80];

    return n > 0 && (size_t)snprintf(word, sizeof(word), " %.*s ", (int)n, name) < sizeof(word) &&
           strstr(names, word) != NULL;
}

static const struct class *class_called(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
        if (is_listed(classes[i].names, name, n))
            return &classes[i];
    return NULL;
}

/* Sets *OUT to whether the tokenizer.json has a ByteLevel step, by the same search as in transformers. */
static int has_byte_level(struct reader *r, bool *out)
{
    static const char sign[] = "\"ByteLevel\"";
    struct folder_text f;
    bool there;
    int rc = folder_read(&f, r->in, "tokenizer.json", &there, r->e);

    *out = false;
    if (rc || !there)
        return rc;
    *out = memmem(f.bytes, f.len, sign, sizeof(sign) - 1) != NULL;
    folder_text_fini(&f);
    return 0;
}

/* Sets c->loaded by tokenizer_class, model_type and the tokenizer.json, with the rules of AutoTokenizer. */
static int find_class(struct reader *r)
{
    struct settings *c = r->c;
    const char *named = *c->class ? c->class : c->model_class, *chosen = named, *own = NULL;
    size_t n = strlen(named);
    bool bytes = false;
    int rc = 0;

    if (n > 4 && strcmp(named + n - 4, "Fast") == 0)
        n -= 4;
    for (size_t i = 0; i < sizeof(registered) / sizeof(*registered); i++)
        if (is_listed(registered[i].types, c->model_type, strlen(c->model_type)))
            own = registered[i].class;
    if (own && (n == 0 || is_listed(misnamed, c->model_type, strlen(c->model_type)) || !*own)) {
        chosen = own;
        n = strlen(own);
    }
    if (n == 14 && memcmp(chosen, "LlamaTokenizer", n) == 0 && (rc = has_byte_level(r, &bytes)) != 0)
        return rc;
    if (!bytes && class_called(chosen, n))
        snprintf(c->loaded, sizeof(c->loaded), "%.*s", (int)n, chosen);
    return 0;
}

/* Adds the class's default for each special token that the files neither name nor set to null. */
static int add_class_tokens(struct reader *r)
{
    struct settings_token t = {.id = -1, .special = true, .of_class = true, .is_named = true};
    const struct class *found = class_called(r->c->loaded, strlen(r->c->loaded));
    int rc = 0;

    for (size_t i = 0; found && i < N_NAMES && rc == 0; i++) {
        struct json_str name = {special_name[i], strlen(special_name[i])}, text = {found->token[i], 0};

        if (!text.s || settings_find(&r->c->tokens, special_name[i]) || ((r->c->no_token >> i) & 1))
            continue;
        text.n = strlen(text.s);
        t.rank = special_rank[i];
        rc = set_text(r, &r->c->tokens, &name, &text);
        if (rc == 0)
            rc = add_token(r, &text, t);
    }
    return rc;
}

static int open_reader(struct reader *r, struct settings *c)
{
    settings_init(c);
    strmap_init(&r->by_content, MEM_TEXT);
    r->c = c;
    c->path = arena_strndup(&c->arena, r->in.path, strlen(r->in.path));
    return c->path ? 0 : err_nomem(r->e, r->in.path);
}

void settings_init(struct settings *c)
{
    *c = (struct settings){.path = "",
                           .add_bos = SETTINGS_UNSET,
                           .add_eos = SETTINGS_UNSET,
                           .add_prefix_space = SETTINGS_UNSET,
                           .legacy = SETTINGS_UNSET,
                           .split_special = SETTINGS_UNSET,
                           .fix_mistral_regex = SETTINGS_UNSET};
    arena_init(&c->arena, MEM_TEXT);
}

int settings_read(struct settings *c, struct folder in, enum settings_use use, struct err *e)
{
    struct reader r = {.e = e, .in = in, .use = use};
    int rc = open_reader(&r, c);

    if (rc == 0)
        rc = read_json(&r, "tokenizer_config.json", read_configuration);
    r.in_map = true;
    if (rc == 0 && !c->has_table)
        rc = read_json(&r, "special_tokens_map.json", read_configuration);
    if (rc == 0)
        rc = read_json(&r, "config.json", read_model);
    if (rc == 0 && (rc = find_class(&r)) == 0)
        rc = add_class_tokens(&r);
    if (rc == 0)
        rc = use == SETTINGS_FOR_TOKENIZER ? read_tokenizer_files(&r) : read_template_files(&r);
    strmap_fini(&r.by_content);
    return rc;
}

int settings_read_text(struct settings *c, const char *text, size_t len, const char *path, struct err *e)
{
    struct reader r = {.e = e, .in = folder_at(path), .use = SETTINGS_FOR_CHAT};
    int rc = open_reader(&r, c);

    if (rc == 0)
        rc = read_json_text(&r, text, len, path, read_configuration);
    strmap_fini(&r.by_content);
    return rc;
}

void settings_fini(struct settings *c)
{
    mem_free(c->tokens.v);
    mem_free(c->templates.v);
    mem_free(c->added);
    arena_fini(&c->arena);
    *c = (struct settings){0};
}
