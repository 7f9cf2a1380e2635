/* open.c - finds the format of a tokenizer. In a folder, known file names are searched in order; the format
 * of a file is recognized by its first bytes. */
#include <string.h>
#include <sys/stat.h>

#include "text/settings.h"
#include "text/tok/build.h"
#include "text/tok/formats/readers.h"
#include "text/tok/tok.h"

/* Sets t->eos to the id of the eos_token that the configuration names. */
static void find_eos(struct tok *t, const struct settings *conf)
{
    const struct settings_text *eos = settings_find(&conf->tokens, "eos_token");

    if (eos && !tok_id_of(t, eos->text, eos->n, &t->eos))
        t->eos = -1;
}

/* Reads the file NAME of the folder IN in any format; NAME NULL: reads the file in.path, without configuration. */
static int read_one(struct tok *t, struct folder in, const char *name, struct err *e)
{
    struct settings conf;
    struct folder_text f;
    bool pieces, ranks;
    int rc = folder_read(&f, in, name, NULL, e);

    if (rc)
        return rc;
    pieces = tok_is_sentencepiece(f.bytes, f.len);
    ranks = !pieces && tok_is_tiktoken(f.bytes, f.len);
    settings_init(&conf);
    if (name)
        rc = settings_read(&conf, in, SETTINGS_FOR_TOKENIZER, e);
    if (rc == 0 && (pieces || ranks)) {
        rc = (pieces ? tok_read_sentencepiece : tok_read_tiktoken)(t, f.bytes, f.len, &conf, e);
        if (rc)
            err_prefix(e, "%s", f.path);
    } else if (rc == 0) {
        rc = tok_read_json(t, f.bytes, f.len, f.path, name ? &conf : NULL, e);
    }
    if (rc == 0)
        find_eos(t, &conf);
    settings_fini(&conf);
    folder_text_fini(&f);
    return rc;
}

static bool is_there(struct folder in, const char *name)
{
    char path[FOLDER_PATH_MAX];
    struct stat st;

    if (in.archive)
        return folder_has(in, name);
    return folder_join(path, sizeof(path), in.path, name, NULL) == 0 && lstat(path, &st) == 0;
}

static int read_folder(struct tok *t, struct folder in, struct err *e)
{
    static const char *const name[] = {"tokenizer.json", "tokenizer.model", "tiktoken.model"};
    struct folder_names tiktoken;
    struct settings conf;
    int rc;

    if (strlen(in.path) > 1000)
        return err_set(e, ERR_INPUT, "%s: the path is too long", in.path);
    for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
        if (is_there(in, name[i]))
            return read_one(t, in, name[i], e);
    if ((rc = folder_list(&tiktoken, in, NULL, ".tiktoken", e)) != 0)
        return rc;
    if (tiktoken.n) {
        rc = read_one(t, in, tiktoken.name[0], e);
        folder_names_fini(&tiktoken);
        return rc;
    }
    if (!is_there(in, "vocab.json"))
        return err_set(
            e, ERR_INPUT,
            "%s: the folder has no tokenizer (tokenizer.json, tokenizer.model, tiktoken.model, *.tiktoken, or "
            "vocab.json with merges.txt)",
            in.path);
    rc = settings_read(&conf, in, SETTINGS_FOR_TOKENIZER, e);
    if (rc == 0)
        rc = tok_read_gpt2(t, in, &conf, e);
    if (rc == 0)
        find_eos(t, &conf);
    settings_fini(&conf);
    return rc;
}

static int read_path(struct tok *t, struct folder in, struct err *e)
{
    struct stat st;

    if (in.archive)
        return read_folder(t, in, e);
    if (stat(in.path, &st) != 0)
        return err_os(e, "open", in.path);
    return S_ISDIR(st.st_mode) ? read_folder(t, in, e) : read_one(t, in, NULL, e);
}

/* Stores T in *OUT, or closes it if RC is an error. */
static int finish(struct tok **out, struct tok *t, int rc)
{
    *out = rc ? NULL : t;
    if (rc)
        tok_close(t);
    return rc;
}

int tok_open(struct tok **out, struct folder in, struct err *e)
{
    struct tok *t = tok_new();

    return finish(out, t, t ? read_path(t, in, e) : err_nomem(e, in.path));
}

int tok_open_json(struct tok **out, const char *text, size_t len, const char *path, struct err *e)
{
    struct tok *t = tok_new();

    return finish(out, t, t ? tok_read_json(t, text, len, path, NULL, e) : err_nomem(e, path));
}
