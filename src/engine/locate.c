/* locate.c - decides between path and hub, and judges config.json before weights are fetched. */
#include "engine/locate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/gguf/gguf.h"
#include "model/model.h"

/* A config that names its model_type only is left to model_open(). */
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
                     "architecture %s is not supported (known: %s); its weights were not fetched", name[0],
                     model_arch_names(known, sizeof(known)));
    config_close(c);
    return rc;
}

/* A path that is mistyped can look like a name on the hub: org is a folder here. */
static bool may_be_path(const char *model)
{
    char org[HUB_NAME_REPO_MAX];

    return snprintf(org, sizeof(org), "%.*s", (int)strcspn(model, "/"), model) > 0 && access(org, F_OK) == 0;
}

/* What stands at the path MODEL can be a model, or its texts where these are all that is wanted. */
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
                   ? err_set(e, ERR_INPUT,
                             "%s: there is no such folder or file here, and org/name is what a "
                             "model on the hub is called",
                             model)
                   : err_os(e, "open", model);
    if (S_ISDIR(st.st_mode) || pack_means(folder_at(model)) || gguf_set_means(folder_at(model), &rc, NULL))
        return 0;
    if (folder_name_ends(model, ".safetensors") || folder_name_ends(model, ".bin") ||
        folder_name_ends(model, ".pt") || folder_name_ends(model, ".pth"))
        return err_set(
            e, ERR_INPUT,
            "%s: this is a file of weights alone; name the folder that holds it and its config.json", model);
    if ((rc = folder_map(&m, path, folder_at(model), NULL, e)) != 0) /* a pointer of Git LFS */
        return rc;
    map_file_close(&m);
    if (want == HUB_MODEL)
        return err_set(
            e, ERR_INPUT,
            "%s: this file is no model: a GGUF file, a packed checkpoint, or the folder of a checkpoint, is expected",
            model);
    return 0;
}

int locate_model(char *out, size_t size, const char *model, const struct locate_options *o, struct err *e)
{
    const struct hub_options h = {
        .want = o->want, .check = check_arch, .progress = o->progress, .progress_ctx = o->progress_ctx};
    struct hub_name id;
    int n, rc;

    if (access(model, F_OK) == 0 || !hub_name_parse(&id, model)) {
        if ((rc = check_path(model, o->want, e)) != 0)
            return rc;
        if (o->revision)
            return err_set(e, ERR_INPUT, "%s: revision %s is asked for, but only a name on the hub has one",
                           model, o->revision);
        n = snprintf(out, size, "%s", model);
        return n >= 0 && (size_t)n < size ? 0
                                          : err_set(e, ERR_INPUT, "%.200s...: the path is too long", model);
    }
    if (o->revision && strchr(model, '@') && strcmp(o->revision, id.revision) != 0)
        return err_set(e, ERR_INPUT, "%s: revision %s is asked for too; one of the two is expected", model,
                       o->revision);
    if (o->revision && (rc = hub_name_set_revision(&id, o->revision, e)) != 0)
        return rc;
    rc = hub_fetch(out, size, &id, &h, e);
    if (rc && may_be_path(model))
        err_prefix(e, "%s is no folder here, and from the hub", model);
    return rc;
}
