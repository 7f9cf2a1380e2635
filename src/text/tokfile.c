/* tokfile.c - a folder is searched for the known names in order; a file is judged by how it begins. */
#include "text/tokfile.h"

#include <string.h>
#include <sys/stat.h>

#include "text/spm.h"
#include "text/tokconf.h"
#include "text/tokgpt2.h"
#include "text/tokjson.h"
#include "text/toktik.h"

/* Reads NAME of the folder IN, or the file IN itself, of any form. Beside a file that was named by itself no
 * configuration is looked for. */
static int read_one(struct tok *t, struct folder in, const char *name, struct err *e)
{
    struct folder conf_in = {.path = name ? in.path : "", .allow_links = in.allow_links};
    struct tokconf conf = {0};
    struct folder_text f;
    int rc = folder_read(&f, in, name, NULL, e);

    if (rc)
        return rc;
    if (spm_looks_like(f.bytes, f.len)) {
        rc = tokconf_read(&conf, conf_in, e);
        rc = rc ? rc : spm_read(t, f.bytes, f.len, f.path, &conf, e);
    } else if (toktik_looks_like(f.bytes, f.len)) {
        rc = tokconf_read(&conf, conf_in, e);
        rc = rc ? rc : toktik_read(t, f.bytes, f.len, f.path, &conf, e);
    } else {
        rc = tokjson_read(t, f.bytes, f.len, f.path, e);
    }
    tokconf_fini(&conf);
    folder_text_fini(&f);
    return rc;
}

static bool is_there(struct folder in, const char *name)
{
    char path[FOLDER_PATH_MAX];
    struct stat st;

    return folder_join(path, sizeof(path), in.path, name, NULL) == 0 && lstat(path, &st) == 0;
}

static int read_folder(struct tok *t, struct folder in, struct err *e)
{
    static const char *const name[] = {"tokenizer.json", "tokenizer.model", "tiktoken.model"};
    struct folder_names tiktoken;
    struct tokconf conf;
    int rc;

    if (strlen(in.path) > 1000)
        return err_set(e, ERR_INPUT, "%s: the path is too long", in.path);
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
        if (is_there(in, name[i]))
            return read_one(t, in, name[i], e);
    if ((rc = folder_list(&tiktoken, in.path, ".tiktoken", e)) != 0)
        return rc;
    if (tiktoken.n) {
        rc = read_one(t, in, tiktoken.name[0], e);
        folder_names_fini(&tiktoken);
        return rc;
    }
    if (!is_there(in, "vocab.json"))
        return err_set(
            e, ERR_INPUT,
            "%s: there is no tokenizer here (tokenizer.json, tokenizer.model, tiktoken.model, *.tiktoken, or "
            "vocab.json with merges.txt)",
            in.path);
    rc = tokconf_read(&conf, in, e);
    if (rc == 0)
        rc = tokgpt2_read(t, in, &conf, e);
    tokconf_fini(&conf);
    return rc;
}

int tokfile_read(struct tok *t, struct folder in, struct err *e)
{
    struct stat st;

    if (stat(in.path, &st) != 0)
        return err_os(e, "open", in.path);
    return S_ISDIR(st.st_mode) ? read_folder(t, in, e) : read_one(t, in, NULL, e);
}
