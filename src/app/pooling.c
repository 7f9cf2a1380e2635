/* pooling.c - reads how a folder of sentence-transformers turns hidden states into embeddings.
 *
 * modules.json lists the modules in the order in which they are applied. A Transformer, a Pooling, several
 * Dense and a Normalize are supported; any other module is refused by name. The config.json of the Pooling
 * has its mode: since version 5.4 of sentence-transformers as pooling_mode, before that as one boolean for
 * each mode. */
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "app/pooling.h"
#include "base/json/json_pull.h"
#include "base/log.h"
#include "ckpt/checkpoint.h"
#include "ckpt/gguf/gguf.h"
#include "engine/dense.h"
#include "engine/engine.h"

enum { PATH_MAX_BYTES = 256 };

/* Reads FILE of the folder IN, which must hold a JSON value of TYPE. *OUT is NULL if there is no such file. */
static int read_json(json_t **out, struct folder in, const char *file, json_type type, struct err *e)
{
    struct folder_text t;
    bool there;
    int rc = folder_read(&t, in, file, &there, e);

    *out = NULL;
    if (rc || !there)
        return rc;
    rc = json_pull_load(out, t.bytes, t.len, t.path, e);
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
                       "(--pooling last or mean serves the model without the modules after the Transformer)",
                       path, class);
    *stage = s;
    if (s == POOLING)
        snprintf(out, PATH_MAX_BYTES, "%.200s", path);
    return s == DENSE ? dense_add(dense, in, path, e) : 0;
}

/* Writes the folder of the Pooling module to OUT (from modules.json, else the default name), and reads the
 * Dense modules. */
static int find_pooling(struct folder in, char out[PATH_MAX_BYTES], struct dense *dense, struct err *e)
{
    enum stage stage = TRANSFORMER;
    json_t *modules, *m;
    size_t i;
    int rc = read_json(&modules, in, "modules.json", JSON_ARRAY, e);

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

void pooling_left_out(struct folder in)
{
    char names[4 * PATH_MAX_BYTES] = "";
    json_t *modules, *m;
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
        log_warn(
            "modules.json: --pooling leaves out %s, so embeddings are not those of sentence-transformers",
            names);
    json_decref(modules);
}

/* Returns the pooling mode in CONFIG, the config.json of the Pooling module, or NULL if it enables several
 * modes. */
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

/* Refuses models whose texts sentence-transformers changes before the tokenizer; warns about a default prompt. */
static int check_text(struct folder in, struct err *e)
{
    json_t *about, *lower, *prompt;
    int rc = read_json(&about, in, "sentence_bert_config.json", JSON_OBJECT, e);

    lower = json_object_get(about, "do_lower_case");
    if (rc == 0 && json_is_true(lower))
        rc = err_set(e, ERR_UNSUPPORTED,
                     "sentence_bert_config.json: do_lower_case is not supported (with --pooling last or "
                     "mean, the model embeds texts without it)");
    json_decref(about);
    if (rc || (rc = read_json(&about, in, "config_sentence_transformers.json", JSON_OBJECT, e)) != 0)
        return rc;
    prompt = json_object_get(about, "default_prompt_name");
    if (json_is_string(prompt))
        log_warn(
            "config_sentence_transformers.json: sentence-transformers puts the prompt \"%.100s\" before each text "
            "by default; here clients have to do that",
            json_string_value(prompt));
    json_decref(about);
    return 0;
}

int pooling_read(enum gallop_pooling *out, struct dense *dense, struct folder in, struct err *e)
{
    char path[PATH_MAX_BYTES], file[PATH_MAX_BYTES + 16];
    const char *mode;
    json_t *config;
    int rc;

    *out = GALLOP_POOL_LAST;
    if ((rc = check_text(in, e)) != 0 || (rc = find_pooling(in, path, dense, e)) != 0 || !*path)
        return rc;
    snprintf(file, sizeof(file), "%s/config.json", path);
    if ((rc = read_json(&config, in, file, JSON_OBJECT, e)) != 0 || !config)
        return rc;
    mode = mode_of(config);
    if (mode && strcmp(mode, "mean") == 0)
        *out = GALLOP_POOL_MEAN;
    else if (!mode || strcmp(mode, "lasttoken") != 0)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: pooling %.60s is not supported, expected mean or lasttoken (--pooling last or mean "
                     "decides instead)",
                     file, mode ? mode : "of several modes");
    json_decref(config);
    return rc;
}

int pooling_read_gguf(enum gallop_pooling *out, struct gguf_set *s, struct err *e)
{
    enum { NONE, MEAN, CLS, LAST, RANK };
    static const char *const names[] = {"none", "mean", "cls", "last", "rank"};
    const struct gguf_arch *arch;
    int64_t type;
    int rc;

    *out = GALLOP_POOL_LAST;
    if ((rc = gguf_arch_of(&arch, s, e)) != 0 ||
        (rc = gguf_arch_int(arch, s, "pooling_type", LAST, NONE, RANK, &type, e)) != 0)
        return rc;
    if (type == MEAN)
        *out = GALLOP_POOL_MEAN;
    return type == CLS || type == RANK
               ? err_set(
                     e, ERR_UNSUPPORTED,
                     "%s: pooling_type %s is not supported, expected mean or last (--pooling last or mean "
                     "decides instead)",
                     s->part[0].path, names[type])
               : 0;
}
