/* embedder.c - reads from a model's files how it makes embeddings.
 *
 * modules.json lists the modules in the order in which they are applied. A Transformer, a Pooling, several
 * Dense and a Normalize are supported; any other module is refused by name. The config.json of the Pooling
 * has its mode: since version 5.4 of sentence-transformers as pooling_mode, before that as one boolean for
 * each mode. sentence_bert_config.json says how texts are changed before the model, and
 * config_sentence_transformers.json has the default prompt and the number of elements. Of a GGUF file only
 * the pooling mode is read. */
#include "engine/embeddings/embedder.h"

#include <stdio.h>
#include <string.h>

#include "base/json/json_pull.h"
#include "base/log.h"
#include "ckpt/checkpoint.h"
#include "text/chat.h"

enum { PATH_MAX_BYTES = 256 };

/* Reads FILE of the folder IN, which must hold a JSON value of TYPE. *OUT is NULL if there is no such file.
 * Integers above 64 bits are reals: a tokenizer without a limit has a model_max_length of 31 digits. */
static int read_json(json_t **out, struct folder in, const char *file, json_type type, struct err *e)
{
    struct folder_text t;
    bool there;
    int rc = folder_read(&t, in, file, &there, e);

    *out = NULL;
    if (rc || !there)
        return rc;
    rc = json_pull_load_large(out, t.bytes, t.len, t.path, NULL, e);
    if (rc == 0 && json_typeof(*out) != type) {
        json_decref(*out);
        *out = NULL;
        rc = err_set(e, ERR_INPUT, "%s: expected %s", t.path, type == JSON_ARRAY ? "a list" : "an object");
    }
    folder_text_fini(&t);
    return rc;
}

/* The supported modules, in the order in which modules.json must have them. Several Dense may follow each other. */
enum stage { TRANSFORMER, POOLING, DENSE, NORMALIZE };

/* Checks that the module CLASS may follow a module of the stage *STAGE, and sets *STAGE to the stage of
 * CLASS. Copies the PATH of a Pooling module to OUT; adds a Dense module to DENSE. */
static int take_module(const char *class, const char *path, enum stage *stage, char out[PATH_MAX_BYTES],
                       struct dense *dense, struct folder in, struct err *e)
{
    static const char *const names[] = {"Transformer", "Pooling", "Dense", "Normalize"};
    enum stage s = TRANSFORMER;

    while (s <= NORMALIZE && strcmp(names[s], class) != 0)
        s++;
    if (s > NORMALIZE || s < *stage)
        return err_set(e, ERR_UNSUPPORTED,
                       "modules.json: module \"%.100s\" of type %.100s is not supported here, so embeddings "
                       "would be wrong; expected Transformer, Pooling, Dense and Normalize, in this order "
                       "(pooling last or mean does without the modules after the Transformer)",
                       path, class);
    *stage = s;
    if (s == POOLING)
        snprintf(out, PATH_MAX_BYTES, "%.200s", path);
    return s == DENSE ? dense_add(dense, in, path, e) : 0;
}

/* Writes the folder of the Pooling module to OUT (from modules.json, else the default name), and reads the
 * Dense modules. *IS_KNOWN: there is a modules.json. */
static int find_pooling(struct folder in, char out[PATH_MAX_BYTES], struct dense *dense, bool *is_known,
                        struct err *e)
{
    enum stage stage = TRANSFORMER;
    json_t *modules, *m;
    size_t i;
    int rc = read_json(&modules, in, "modules.json", JSON_ARRAY, e);

    *is_known = modules != NULL;
    snprintf(out, PATH_MAX_BYTES, "%s", modules ? "" : "1_Pooling");
    json_array_foreach(modules, i, m)
    {
        const char *type = json_string_value(json_object_get(m, "type"));
        const char *path = json_string_value(json_object_get(m, "path")), *dot;

        if (rc)
            break;
        if (!type || !path) {
            rc = err_set(e, ERR_INPUT, "modules.json: module %zu: expected the strings type and path", i);
            break;
        }
        dot = strrchr(type, '.');
        rc = take_module(dot ? dot + 1 : type, path, &stage, out, dense, in, e);
    }
    json_decref(modules);
    return rc;
}

/* Returns the pooling mode in CONFIG, the config.json of the Pooling module, or NULL if it enables several modes. */
static const char *mode_of(const json_t *config)
{
    static const struct {
        const char *key, *mode;
    } older[] = {{"pooling_mode_cls_token", "cls"},
                 {"pooling_mode_max_tokens", "max"},
                 {"pooling_mode_mean_tokens", "mean"},
                 {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
                 {"pooling_mode_weightedmean_tokens", "weightedmean"},
                 {"pooling_mode_lasttoken", "lasttoken"}};
    const json_t *mode = json_object_get(config, "pooling_mode");
    const char *found = NULL;

    if (json_is_array(mode))
        return json_array_size(mode) == 1 ? json_string_value(json_array_get(mode, 0)) : NULL;
    if (mode && !json_is_null(mode))
        return json_string_value(mode);
    for (size_t i = 0; i < sizeof(older) / sizeof(older[0]); i++) {
        if (!json_is_true(json_object_get(config, older[i].key)))
            continue;
        if (found)
            return NULL;
        found = older[i].mode;
    }
    return found ? found : "mean"; /* the default of sentence-transformers */
}

/* ---- texts ---- */

enum { LARGEST_LENGTH = 1 << 30 };

/* Reads the member KEY of OBJECT, the content of FILE: a number from 1 on. *OUT stays unchanged if it is
 * missing, null, or so large that it means no limit. */
static int read_length(const json_t *object, const char *key, const char *file, size_t *out, struct err *e)
{
    const json_t *v = json_object_get(object, key);

    if (!v || json_is_null(v))
        return 0;
    if (!json_is_number(v) || json_number_value(v) < 1)
        return err_set(e, ERR_INPUT, "%s: %s: expected a number from 1 on", file, key);
    if (json_number_value(v) <= LARGEST_LENGTH)
        *out = (size_t)json_number_value(v);
    return 0;
}

/* Reads from tokenizer_config.json and config.json how many tokens sentence-transformers keeps of a text. GIVEN: the
 * number in sentence_bert_config.json; 0: none. */
static int read_limit(struct embedder *x, struct folder in, size_t given, struct err *e)
{
    size_t position = 0;
    json_t *config, *side;
    int rc = read_json(&config, in, "tokenizer_config.json", JSON_OBJECT, e);

    side = json_object_get(config, "truncation_side");
    x->keeps_end = json_is_string(side) && strcmp(json_string_value(side), "left") == 0;
    x->most = given;
    if (rc == 0 && !given)
        rc = read_length(config, "model_max_length", "tokenizer_config.json", &x->most, e);
    json_decref(config);
    if (rc || given || (rc = read_json(&config, in, "config.json", JSON_OBJECT, e)) != 0)
        return rc;
    if (json_number_value(json_object_get(config, "max_position_embeddings")) != -1)
        rc = read_length(config, "max_position_embeddings", "config.json", &position, e);
    if (position && (x->most == 0 || position < x->most))
        x->most = position;
    json_decref(config);
    return rc;
}

/* Reads the length and the variables of the chat template that KWARGS, processing_kwargs of
 * sentence_bert_config.json, gives for every text. */
static int read_kwargs(struct embedder *x, const json_t *kwargs, size_t *most, struct err *e)
{
    static const char *const groups[] = {"common", "text", "chat_template"}; /* later ones take precedence */
    static const char *const sizes[] = {"padding", "truncation", "max_length", "return_tensors",
                                        "restore_suffix"};
    const json_t *chat = json_object_get(kwargs, "chat_template");
    int rc = 0;

    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups) && rc == 0; i++)
        rc = read_length(json_object_get(kwargs, groups[i]), "max_length", "sentence_bert_config.json", most,
                         e);
    if (rc || !json_is_object(chat))
        return rc;
    x->drops_behind = json_is_false(json_object_get(chat, "restore_suffix"));
    x->variables = json_deep_copy(chat);
    if (!x->variables)
        return err_nomem(e, "sentence_bert_config.json");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        json_object_del(x->variables, sizes[i]);
    return 0;
}

/* Reads from MESSAGE, which is modality_config.message of sentence_bert_config.json, how a text becomes a chat message.
 * Sets *IS_AUTO if the chat template decides about has_parts. */
static int read_message(struct embedder *x, const json_t *message, bool *is_auto, struct err *e)
{
    const char *format = json_string_value(json_object_get(message, "format"));

    x->is_message = true;
    x->has_parts = format && strcmp(format, "structured") == 0;
    *is_auto = !format || strcmp(format, "auto") == 0;
    if (*is_auto || strcmp(format, "flat") == 0 || x->has_parts)
        return 0;
    return err_set(
        e, ERR_UNSUPPORTED,
        "sentence_bert_config.json: modality_config: message has the format %.60s, expected flat, auto or "
        "structured (pooling last or mean does without the chat template)",
        format);
}

/* Reads sentence_bert_config.json. *IS_AUTO: see read_message(). */
static int read_text_settings(struct embedder *x, struct folder in, bool *is_auto, struct err *e)
{
    json_t *about, *message, *kwargs;
    size_t most = 0;
    int rc = read_json(&about, in, "sentence_bert_config.json", JSON_OBJECT, e);

    x->is_known |= about != NULL;
    if (rc == 0 && json_is_true(json_object_get(about, "do_lower_case")))
        rc = err_set(e, ERR_UNSUPPORTED,
                     "sentence_bert_config.json: do_lower_case is not supported (pooling last or mean does "
                     "without it)");
    message = json_object_get(json_object_get(about, "modality_config"), "message");
    if (rc == 0 && message)
        rc = read_message(x, message, is_auto, e);
    /* Older files name the arguments of the tokenizer tokenizer_args. */
    kwargs = json_object_get(about, "processor_kwargs");
    kwargs = kwargs ? kwargs : json_object_get(about, "tokenizer_args");
    if (rc == 0 && (rc = read_length(about, "max_seq_length", "sentence_bert_config.json", &most, e)) == 0 &&
        (rc = read_length(kwargs, "model_max_length", "sentence_bert_config.json", &most, e)) == 0)
        rc = read_kwargs(x, json_object_get(about, "processing_kwargs"), &most, e);
    json_decref(about);
    return rc || !x->is_known ? rc : read_limit(x, in, most, e);
}

/* Reads the default prompt and the number of elements from config_sentence_transformers.json. */
static int read_about(struct embedder *x, struct folder in, struct err *e)
{
    static const char file[] = "config_sentence_transformers.json";
    json_t *about, *prompt;
    const char *name;
    int rc = read_json(&about, in, file, JSON_OBJECT, e);

    x->is_known |= about != NULL;
    name = json_string_value(json_object_get(about, "default_prompt_name"));
    prompt = name ? json_object_get(json_object_get(about, "prompts"), name) : NULL;
    if (json_string_length(prompt))
        x->prompt = json_incref(prompt);
    else if (name && !json_is_string(prompt) && strcmp(name, "query") != 0 && strcmp(name, "document") != 0)
        rc =
            err_set(e, ERR_INPUT, "%s: prompts: \"%.100s\", the default_prompt_name, is missing", file, name);
    if (rc == 0)
        rc = read_length(about, "truncate_dim", file, &x->dimensions, e);
    json_decref(about);
    return rc;
}

/* Opens the chat template. IS_AUTO: it decides about has_parts. */
static int open_template(struct embedder *x, struct checkpoint *c, bool is_auto, struct err *e)
{
    /* Strings in templates that expect content to be a list; sentence-transformers looks for the same ones. */
    static const char *const signs[] = {"content[0]", ".type", "'type'", "\"type\"", "message.content["};
    const char *source;
    int rc = checkpoint_chat(&x->chat, c, e);

    if (rc)
        return rc;
    if (!(source = chat_template_source(x->chat, "default")))
        return err_set(
            e, ERR_INPUT,
            "sentence_bert_config.json: texts are rendered by the chat template, which the model lacks "
            "(pooling last or mean does without it)");
    for (size_t i = 0; i < sizeof(signs) / sizeof(*signs) && is_auto; i++)
        x->has_parts |= strstr(source, signs[i]) != NULL;
    return 0;
}

/* Sets the pooling mode from CONFIG, the config.json of the Pooling module. FILE is the path for errors. */
static int read_mode(struct embedder *x, const json_t *config, const char *file, struct err *e)
{
    const char *mode = mode_of(config);

    if (mode && strcmp(mode, "mean") == 0)
        x->pooling = GALLOP_POOL_MEAN;
    else if (!mode || strcmp(mode, "lasttoken") != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: pooling %.60s is not supported, expected mean or lasttoken (pooling last or mean "
                       "decides instead)",
                       file, mode ? mode : "of several modes");
    if (x->prompt && !x->is_message && x->pooling == GALLOP_POOL_MEAN &&
        json_is_false(json_object_get(config, "include_prompt")))
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s: include_prompt false is not supported with a default prompt, expected true (pooling "
            "last or mean does without the prompt)",
            file);
    return 0;
}

static int read_folder(struct embedder *x, struct checkpoint *c, struct err *e)
{
    char path[PATH_MAX_BYTES], file[PATH_MAX_BYTES + 16];
    bool is_auto = false;
    json_t *config;
    int rc;

    if ((rc = find_pooling(c->in, path, &x->dense, &x->is_known, e)) != 0 ||
        (rc = read_about(x, c->in, e)) != 0 || (rc = read_text_settings(x, c->in, &is_auto, e)) != 0)
        return rc;
    snprintf(file, sizeof(file), "%s/config.json", path);
    if (*path && (rc = read_json(&config, c->in, file, JSON_OBJECT, e)) == 0 && config) {
        rc = read_mode(x, config, file, e);
        json_decref(config);
    }
    return rc || !x->is_message ? rc : open_template(x, c, is_auto, e);
}

int embedder_open(struct embedder *x, struct checkpoint *c, struct err *e)
{
    const struct buf *text;
    json_t *config = NULL;
    int rc;

    *x = (struct embedder){.pooling = GALLOP_POOL_LAST};
    if ((rc = checkpoint_pooling(&text, c, e)) != 0 || !text)
        return rc ? rc : read_folder(x, c, e);
    if ((rc = json_pull_load(&config, text->data, text->len, c->in.path, e)) == 0)
        rc = read_mode(x, config, c->in.path, e);
    json_decref(config);
    return rc;
}

void embedder_close(struct embedder *x)
{
    json_decref(x->prompt);
    json_decref(x->variables);
    chat_close(x->chat);
    dense_close(&x->dense);
    *x = (struct embedder){.is_known = false};
}

void embedder_left_out(struct folder in)
{
    char names[4 * PATH_MAX_BYTES] = "";
    json_t *modules, *m;
    struct embedder x = {0};
    bool is_auto;
    size_t i, n = 0;

    read_json(&modules, in, "modules.json", JSON_ARRAY, NULL);
    json_array_foreach(modules, i, m)
    {
        const char *type = json_string_value(json_object_get(m, "type"));
        const char *path = json_string_value(json_object_get(m, "path"));
        const char *dot = type ? strrchr(type, '.') : NULL, *class = dot ? dot + 1 : type;

        if (class && path && strcmp(class, "Transformer") != 0 && strcmp(class, "Pooling") != 0 &&
            strcmp(class, "Normalize") != 0 && n < sizeof(names))
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%.100s", n ? ", " : "", path);
    }
    if (n)
        log_warn("modules.json: pooling leaves out %s, so embeddings are not those of sentence-transformers",
                 names);
    json_decref(modules);
    read_about(&x, in, NULL); /* errors are ignored, because the contents are not used */
    if (x.prompt)
        log_warn(
            "config_sentence_transformers.json: pooling leaves out the default prompt, so embeddings are not those of "
            "sentence-transformers");
    read_text_settings(&x, in, &is_auto, NULL);
    if (x.is_message)
        log_warn(
            "sentence_bert_config.json: pooling leaves out the chat template, so embeddings are not those of "
            "sentence-transformers");
    embedder_close(&x);
}
