/* list.c - reads the list of a repository's files, and chooses the weights and GGUF files among them.
 *
 * The list comes from the network, and its names become paths on this machine. This file drops every name
 * that is not a plain file name in a known folder, so that no later path contains "../". Weights are chosen
 * in the order of weights.h.
 */
#include "hub/list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/files/folder.h"
#include "base/json/json_pull.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/gguf/set.h"

enum { MAX_FILES = 100000 };

/* Returns true for additional_chat_templates/NAME.jinja. */
static bool is_template(const char *s, size_t n)
{
    static const char folder[] = "additional_chat_templates/", tail[] = ".jinja";
    size_t head = sizeof(folder) - 1, t = sizeof(tail) - 1;

    return n > head + t && memcmp(s, folder, head) == 0 && memcmp(s + n - t, tail, t) == 0 &&
           hub_name_is_plain(s + head, n - head);
}

static bool ends(const char *s, size_t n, const char *tail)
{
    size_t t = strlen(tail);

    return n > t && memcmp(s + n - t, tail, t) == 0;
}

/* Returns true for the files of a module of sentence-transformers, whose folder begins with the module's
 * number: "1_Pooling/config.json", or "2_Dense/model.safetensors". */
static bool is_module(const char *s, size_t n)
{
    const char *slash = memchr(s, '/', n);
    size_t folder = slash ? (size_t)(slash - s) : 0, digits = 0;

    while (digits < folder && s[digits] >= '0' && s[digits] <= '9')
        digits++;
    return digits && s[digits] == '_' && hub_name_is_plain(s, folder) &&
           (ends(s, n, "/config.json") || (ends(s, folder, "_Dense") && ends(s, n, "/model.safetensors"))) &&
           hub_name_is_plain(slash + 1, n - folder - 1);
}

/* Returns true for a name that is ignored but harmless: it is in a subfolder, or a component of it begins
 * with a dot. */
static bool is_elsewhere(const char *s, size_t n)
{
    bool elsewhere = false;

    for (size_t at = 0; at <= n;) {
        const char *end = memchr(s + at, '/', n - at);
        size_t len = end ? (size_t)(end - s) - at : n - at, dot = len && s[at] == '.';

        if (!hub_name_is_plain(s + at + dot, len - dot))
            return false;
        elsewhere = elsewhere || end || dot;
        at += len + 1;
    }
    return elsewhere;
}

static int add_name(struct hub_list *l, const char *s, size_t n)
{
    if (!mem_grow((void **)&l->name, &l->cap, l->n + 1, sizeof(*l->name), MEM_CKPT))
        return ERR_NOMEM;
    l->name[l->n] = arena_strndup(&l->arena, s, n);
    if (!l->name[l->n])
        return ERR_NOMEM;
    l->n++;
    return 0;
}

static void list_init(struct hub_list *l)
{
    *l = (struct hub_list){0};
    arena_init(&l->arena, MEM_CKPT);
}

static void read_file(struct hub_list *l, struct json_pull *j)
{
    struct json_str key, name = {0};
    bool inside;

    for (json_pull_enter_object(j); json_pull_key(j, &key);)
        if (json_str_is(&key, "rfilename"))
            json_pull_string(j, &name);
        else
            json_pull_skip(j);
    if (json_pull_rc(j) || !name.s)
        return;
    inside = is_template(name.s, name.n) || is_module(name.s, name.n) || hub_name_is_gguf(name.s, name.n);
    if (is_elsewhere(name.s, name.n) && !inside)
        return;
    if (!hub_name_is_plain(name.s, name.n) && !inside)
        l->n_refused++;
    else if (l->n == MAX_FILES)
        json_pull_fail(j, "more than %d files are listed", MAX_FILES);
    else if (add_name(l, name.s, name.n) != 0)
        j->rc = err_nomem(j->e, "the list of a repository's files");
}

int hub_list_read(struct hub_list *l, const char *text, size_t len, const char *what, struct err *e)
{
    struct json_str key, sha;
    struct json_pull j;
    int rc;

    list_init(l);
    json_pull_open(&j, text, len, what, &l->arena, e);
    for (json_pull_enter_object(&j); json_pull_key(&j, &key);)
        if (json_str_is(&key, "sha") && json_pull_peek(&j) == JSON_PULL_STRING &&
            json_pull_string(&j, &sha) && sha.n == HUB_NAME_COMMIT)
            memcpy(l->commit, sha.s, HUB_NAME_COMMIT);
        else if (json_str_is(&key, "siblings") && json_pull_peek(&j) == JSON_PULL_ARRAY)
            for (json_pull_enter_array(&j); json_pull_elem(&j);)
                read_file(l, &j);
        else
            json_pull_skip(&j);
    rc = json_pull_finish(&j);
    if (rc == 0 && !hub_name_is_commit(l->commit))
        rc = err_set(e, ERR_INPUT,
                     "%s: the answer is not that of a Hugging Face hub: it has no commit (\"sha\")", what);
    if (rc)
        hub_list_close(l);
    return rc;
}

/* Adds the GGUF files of the folder DIR/NAME. Does nothing if DIR/NAME is not a folder. */
static int add_ggufs_below(struct hub_list *l, const char *dir, const char *name)
{
    char path[FOLDER_PATH_MAX];
    const struct dirent *d;
    DIR *folder;
    int rc = 0, n = snprintf(path, sizeof(path), "%s/%s", dir, name);

    if (n < 0 || (size_t)n >= sizeof(path) || !(folder = opendir(path)))
        return 0;
    while (rc == 0 && (d = readdir(folder)) != NULL) {
        n = snprintf(path, sizeof(path), "%s/%s", name, d->d_name);
        if (n > 0 && (size_t)n < sizeof(path) && hub_name_is_gguf(path, (size_t)n))
            rc = add_name(l, path, (size_t)n);
    }
    closedir(folder);
    return rc;
}

int hub_list_read_folder(struct hub_list *l, const char *dir, struct err *e)
{
    const struct dirent *d;
    DIR *folder = opendir(dir);
    int rc = 0;

    list_init(l);
    if (!folder)
        return errno == ENOENT ? 0 : err_os(e, "read the folder", dir);
    while (rc == 0 && (d = readdir(folder)) != NULL)
        if (hub_name_is_plain(d->d_name, strlen(d->d_name)) &&
            (rc = add_name(l, d->d_name, strlen(d->d_name))) == 0)
            rc = add_ggufs_below(l, dir, d->d_name);
    closedir(folder);
    if (rc) {
        hub_list_close(l);
        return err_nomem(e, "the list of a folder's files");
    }
    return 0;
}

void hub_list_close(struct hub_list *l)
{
    mem_free(l->name);
    arena_fini(&l->arena);
    *l = (struct hub_list){0};
}

bool hub_list_has(const struct hub_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->name[i], name) == 0)
            return true;
    return false;
}

static bool is_one_of(const char *name, const char *const *known, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(known[i], name) == 0)
            return true;
    return folder_name_ends(name, ".tiktoken");
}

bool hub_list_is_text(const char *name)
{
    static const char *const known[] = {
        "tokenizer.json",     "tokenizer.model",        "tiktoken.model",          "vocab.json",
        "merges.txt",         "tokenizer_config.json",  "special_tokens_map.json", "added_tokens.json",
        "chat_template.json", "generation_config.json", "chat_template.jinja"};

    return is_one_of(name, known, sizeof(known) / sizeof(known[0])) || is_template(name, strlen(name));
}

bool hub_list_is_beside(const char *name)
{
    static const char *const known[] = {
        "modules.json",         "sentence_bert_config.json", "config_sentence_transformers.json",
        "quantize_config.json", "quant_config.json",         "adapter_config.json"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i], name) == 0)
            return true;
    return is_module(name, strlen(name));
}

bool hub_list_has_tokenizer(const struct hub_list *l)
{
    static const char *const main_file[] = {"tokenizer.json", "tokenizer.model", "tiktoken.model",
                                            "vocab.json"};

    for (size_t i = 0; i < l->n; i++)
        if (is_one_of(l->name[i], main_file, sizeof(main_file) / sizeof(main_file[0])))
            return true;
    return false;
}

const char *hub_list_weights(const struct hub_list *l, bool *is_index)
{
    static const char *const order[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    const char *only = NULL;
    size_t n = 0;

    *is_index = false;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (hub_list_has(l, order[i])) {
            *is_index = i % 2 == 1;
            return order[i];
        }
    for (size_t i = 0; i < l->n; i++)
        if (folder_name_ends(l->name[i], ".safetensors") && !strchr(l->name[i], '/')) {
            only = l->name[i];
            n++;
        }
    return n == 1 ? only : NULL;
}

/* ---- GGUF ---- */

/* Returns NAME without its folder. */
static const char *base_of(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash ? slash + 1 : name;
}

const char *hub_list_next_gguf(const struct hub_list *l, size_t *at)
{
    int64_t no, count;

    while (*at < l->n) {
        const char *name = l->name[(*at)++];

        if (folder_name_ends(name, ".gguf") && strncasecmp(base_of(name), "mmproj", 6) != 0 &&
            strncasecmp(base_of(name), "imatrix", 7) != 0 &&
            (!gguf_set_split_name(name, &no, &count) || (no == 1 && count > 0)))
            return name;
    }
    return NULL;
}

/* Returns true if NAME contains WHAT, in any case, bounded on the left by the beginning or one of "-./", and
 * on the right by one of "-./". */
static bool has_part(const char *name, const char *what)
{
    size_t n = strlen(what);

    for (const char *p = name; (p = strcasestr(p, what)) != NULL; p++)
        if ((p == name || strchr("-./", p[-1])) && p[n] && strchr("-./", p[n]))
            return true;
    return false;
}

const char *hub_list_ggufs(const struct hub_list *l, char *out, size_t size)
{
    static const char more[] = ", ...";
    size_t len = 0, at = 0;
    const char *name;

    out[0] = 0;
    while ((name = hub_list_next_gguf(l, &at)) != NULL) {
        if (len + strlen(name) + 2 * sizeof(more) > size) {
            strcpy(out + len, more);
            break;
        }
        len += (size_t)sprintf(out + len, "%s%s", len ? ", " : "", name);
    }
    return out;
}

int hub_list_gguf(const struct hub_list *l, const char *what, const char **found, struct err *e)
{
    size_t at = 0, n = 0;
    const char *name, *second = NULL;
    char all[700];

    while ((name = hub_list_next_gguf(l, &at)) != NULL) {
        if (strcmp(name, what) == 0) {
            *found = name;
            return 0;
        }
        if (!has_part(name, what) && strcmp(base_of(name), what) != 0)
            continue;
        if (n++)
            second = name;
        else
            *found = name;
    }
    if (n == 1)
        return 0;
    if (n > 1)
        return err_set(e, ERR_INPUT, "\"%s\" matches %s and %s%s; the whole name of one file is expected",
                       what, *found, second, n > 2 ? " and others" : "");
    hub_list_ggufs(l, all, sizeof(all));
    if (!all[0])
        return err_set(e, ERR_INPUT, "there is no file %s, nor any GGUF file", what);
    return err_set(e, ERR_INPUT, "there is no GGUF file %s; there are %s", what, all);
}
