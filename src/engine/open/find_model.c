/* find_model.c - decides whether a model is a path or a name on a hub, and checks the architecture before
 * weights are downloaded. */
#include "engine/open/find_model.h"
#include "ckpt/config.h"
#include "ckpt/pack/pack.h"
#include "hub/name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/gguf/gguf.h"
#include "ckpt/gguf/set.h"
#include "model/model.h"

/* Callback of hub_fetch(): refuses an unsupported architecture. A config with a model_type only is checked
 * later, by model_open(). */
static int check_arch(void *ctx, const char *dir, struct err *e)
{
    const char *name[8];
    char known[1024];
    struct config *c;
    size_t n = 0;
    int rc = config_open(&c, folder_at(dir), "config.json", e);

    (void)ctx;
    if (rc == 0)
        rc = config_strs(c, "architectures", name, 8, &n, e);
    if (rc == 0 && n && !model_arch_known(name[0]))
        rc = err_set(e, ERR_UNSUPPORTED,
                     "architecture %s is not supported (supported: %s); its weights were not downloaded",
                     name[0], model_arch_names(known, sizeof(known)));
    config_close(c);
    return rc;
}

/* Returns true if MODEL, which has the syntax of a name on the hub, may be a mistyped path: its text before
 * the slash is the name of an existing folder. */
static bool may_be_path(const char *model)
{
    char org[HUB_NAME_REPO_MAX];

    return snprintf(org, sizeof(org), "%.*s", (int)strcspn(model, "/"), model) > 0 && access(org, F_OK) == 0;
}

/* Returns true if TEXT begins with an address of the hub, and sets *REST to the text after the address. */
static bool begins_with_hub(const char *text, const char **rest)
{
    static const char *const schemes[] = {"https://", "http://", ""}, *const hosts[] = {"huggingface.co/",
                                                                                        "hf.co/"};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        for (size_t k = 0; k < sizeof(hosts) / sizeof(hosts[0]); k++) {
            size_t n = strlen(schemes[i]), m = strlen(hosts[k]);

            if (strncmp(text, schemes[i], n) == 0 && strncasecmp(text + n, hosts[k], m) == 0) {
                *rest = text + n + m;
                return true;
            }
        }
    return false;
}

bool find_model_address(const char *model, char *out, size_t size)
{
    static const char *const pages[] = {"tree/", "blob/", "resolve/"};
    const char *rest, *tail;
    size_t repo, revision, file;
    int n;

    if (!begins_with_hub(model, &rest))
        return false;
    repo = strcspn(rest, "/?#");
    repo += rest[repo] == '/' ? 1 + strcspn(rest + repo + 1, "/?#") : 0;
    tail = rest + repo + (rest[repo] == '/');
    n = snprintf(out, size, "%.*s", (int)repo, rest);
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        if (strncmp(tail, pages[i], strlen(pages[i])) == 0) {
            tail += strlen(pages[i]);
            revision = strcspn(tail, "/?#");
            file = tail[revision] == '/' ? strcspn(tail + revision + 1, "?#") : 0;
            n = snprintf(out, size, "%.*s@%.*s%s%.*s", (int)repo, rest, (int)revision, tail, file ? ":" : "",
                         (int)file, file ? tail + revision + 1 : "");
            break;
        }
    return n > 0 && (size_t)n < size;
}

void find_model_name(const char *model, const char *path, char *out, size_t size)
{
    size_t n = strlen(path), from;
    char hub[512];
    struct stat st;

    if (model && find_model_address(model, hub, sizeof(hub)))
        model = hub;
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (from = n; from && path[from - 1] != '/'; from--)
        ;
    if (model && lstat(model, &st) != 0)
        snprintf(out, size, "%s", model);
    else
        snprintf(out, size, "%.*s", (int)(n - from), path + from);
}

/* Checks that the path MODEL is a folder or a model file or, with HUB_TEXT, any readable file. */
static int check_path(const char *model, enum hub_want want, struct err *e)
{
    char path[FOLDER_PATH_MAX];
    struct map_file m;
    struct stat st;
    int rc;

    if (!*model)
        return err_set(e, ERR_INPUT,
                       "the name of the model is empty; a folder, a .gguf file or org/name is expected");
    if (stat(model, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? err_set(
                         e, ERR_INPUT,
                         "%s: there is no such folder or file; the name of a model on the hub has the form "
                         "org/name or org/name:FILE.gguf",
                         model)
                   : err_os(e, "open", model);
    if (S_ISDIR(st.st_mode) || pack_means(folder_at(model)) || gguf_set_means(folder_at(model), &rc, NULL))
        return 0;
    if (folder_name_ends(model, ".safetensors") || folder_name_ends(model, ".bin") ||
        folder_name_ends(model, ".pt") || folder_name_ends(model, ".pth"))
        return err_set(
            e, ERR_INPUT,
            "%s: this file has weights only; the folder with the file and its config.json is expected",
            model);
    if ((rc = folder_map(&m, path, folder_at(model), NULL, e)) != 0) /* fails for a Git LFS pointer */
        return rc;
    map_file_close(&m);
    if (want == HUB_MODEL)
        return err_set(
            e, ERR_INPUT,
            "%s: this file is not a model; a GGUF file, a packed checkpoint or the folder of a checkpoint is expected",
            model);
    return 0;
}

/* Sets the error for MODEL, which parses as the name ID but is probably a mistyped path (may_be_path()). */
static int refuse_path(const struct hub_name *id, const char *model, struct err *e)
{
    return err_set(
        e, ERR_INPUT,
        "%s: the folder %.*s exists, but contains no such file or folder (for a model on the hub, use hf.co/%s)",
        model, (int)strcspn(id->repo, "/"), id->repo, model);
}

/* Checks the path MODEL and copies it to out[size]. */
static int take_path(char *out, size_t size, const char *model, const struct find_model_options *o,
                     struct err *e)
{
    int n, rc = check_path(model, o->want, e);

    if (rc)
        return rc;
    if (o->revision)
        return err_set(e, ERR_INPUT,
                       "%s: found revision %s, but only the name of a model on the hub can have a revision",
                       model, o->revision);
    n = snprintf(out, size, "%s", model);
    return n >= 0 && (size_t)n < size ? 0 : err_set(e, ERR_INPUT, "%.200s...: the path is too long", model);
}

/* Appends to E, the error of a hub with the code RC, that the folder MODEL does not exist either, because MODEL may be
 * a mistyped path. Returns RC. */
static int add_path(int rc, const char *model, struct err *e)
{
    size_t n = e ? strlen(e->msg) : 0;

    if (e && (rc == ERR_INPUT || rc == ERR_OS))
        snprintf(e->msg + n, sizeof(e->msg) - n, " (and there is no folder %s here)", model);
    return rc;
}

int find_model_path(char *out, size_t size, const char *model, const struct find_model_options *o,
                    struct err *e)
{
    const struct hub_options h = {
        .want = o->want, .check = check_arch, .progress = o->progress, .progress_ctx = o->progress_ctx};
    char name[HUB_NAME_REPO_MAX + HUB_NAME_REVISION_MAX + HUB_NAME_FILE_MAX];
    bool address = find_model_address(model, name, sizeof(name));
    struct hub_name id;
    int rc;

    if (address && !hub_name_parse(&id, name))
        return err_set(e, ERR_INPUT, "%s: expected the address of a model on the hub, such as hf.co/org/name",
                       model);
    if (!address && (access(model, F_OK) == 0 || !hub_name_parse(&id, model)))
        return take_path(out, size, model, o, e);
    if (o->revision && strchr(address ? name : model, '@') && strcmp(o->revision, id.revision) != 0)
        return err_set(e, ERR_INPUT,
                       "%s: found a different revision, %s, in the options; one of them is expected", model,
                       o->revision);
    if (o->revision && (rc = hub_name_set_revision(&id, o->revision, e)) != 0)
        return rc;
    if (!address && may_be_path(model) && !hub_is_cached(&id))
        return refuse_path(&id, model, e);
    rc = hub_fetch(out, size, &id, &h, e);
    return address || hub_is_cached(&id) ? rc : add_path(rc, model, e);
}
