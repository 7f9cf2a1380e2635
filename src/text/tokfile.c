/* tokfile.c - a folder is searched for the known names in order; a file is judged by how it begins. */
#include "text/tokfile.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "text/spm.h"
#include "text/tokconf.h"
#include "text/tokgpt2.h"
#include "text/tokjson.h"
#include "text/toktik.h"

/* Reads a file of any form; CONF_FOLDER is where its configuration may lie. */
static int read_one(struct tok *t, const char *path, const char *conf_folder, struct err *e)
{
    struct tokconf conf = {0};
    struct map_file m;
    const char *s;
    int rc = map_file_open(&m, path, e);

    if (rc)
        return rc;
    s = m.bytes ? m.bytes : "";
    if (spm_looks_like(s, m.len)) {
        rc = tokconf_read(&conf, conf_folder, e);
        rc = rc ? rc : spm_read(t, s, m.len, path, &conf, e);
    } else if (toktik_looks_like(s, m.len)) {
        rc = tokconf_read(&conf, conf_folder, e);
        rc = rc ? rc : toktik_read(t, s, m.len, path, &conf, e);
    } else {
        rc = tokjson_read(t, s, m.len, path, e);
    }
    tokconf_fini(&conf);
    map_file_close(&m);
    return rc;
}

/* The file of FOLDER whose name ends in ".tiktoken"; the first by name if there are several. */
static bool find_tiktoken(const char *folder, char *path, size_t size)
{
    DIR *d = opendir(folder);
    struct dirent *x;
    char name[256] = "";

    while (d && (x = readdir(d)) != NULL) {
        size_t n = strlen(x->d_name);

        if (n > 9 && strcmp(x->d_name + n - 9, ".tiktoken") == 0 && (!*name || strcmp(x->d_name, name) < 0))
            snprintf(name, sizeof(name), "%s", x->d_name);
    }
    if (d)
        closedir(d);
    snprintf(path, size, "%s/%s", folder, name);
    return *name != 0;
}

static int read_folder(struct tok *t, const char *folder, struct err *e)
{
    static const char *const name[] = {"tokenizer.json", "tokenizer.model", "tiktoken.model"};
    struct tokconf conf;
    char path[1200];
    int rc;

    if (strlen(folder) > 1000)
        return err_set(e, ERR_INPUT, "%s: the path is too long", folder);
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, name[i]);
        if (access(path, F_OK) == 0)
            return read_one(t, path, folder, e);
    }
    if (find_tiktoken(folder, path, sizeof(path)))
        return read_one(t, path, folder, e);
    snprintf(path, sizeof(path), "%s/vocab.json", folder);
    if (access(path, F_OK) != 0)
        return err_set(
            e, ERR_INPUT,
            "%s: there is no tokenizer here (tokenizer.json, tokenizer.model, tiktoken.model, *.tiktoken, or "
            "vocab.json with merges.txt)",
            folder);
    rc = tokconf_read(&conf, folder, e);
    if (rc == 0)
        rc = tokgpt2_read(t, folder, &conf, e);
    tokconf_fini(&conf);
    return rc;
}

int tokfile_read(struct tok *t, const char *path, struct err *e)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return err_os(e, "open", path);
    return S_ISDIR(st.st_mode) ? read_folder(t, path, e) : read_one(t, path, "", e);
}
