/* checkpoint.c - opens a checkpoint with the readers of GGUF files or of folders. The files in a packed
 * checkpoint are read like the files of a folder. */
#include "ckpt/checkpoint.h"
#include "ckpt/config.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/pack/pack.h"
#include "ckpt/weights.h"
#include "text/chat.h"
#include "text/tok/tok.h"

#include <string.h>

static bool is_gguf(const struct checkpoint *c)
{
    return c->gguf.n > 0;
}

static int open_packed(struct checkpoint *c, struct err *e)
{
    int rc;

    if (!(c->pack = mem_zalloc(1, sizeof(*c->pack), MEM_CKPT)))
        return err_nomem(e, c->in.path);
    if ((rc = pack_open(c->pack, c->in, e)) != 0)
        return rc;
    c->in.archive = &c->pack->files;
    for (size_t i = 0; i < c->in.archive->n && rc == 0; i++) {
        const struct folder_member *m = &c->in.archive->member[i];

        if (strcmp(m->name, PACK_GGUF) == 0)
            rc = gguf_set_open_bytes(&c->gguf, m->bytes, m->len, c->in.path, e);
    }
    return rc;
}

int checkpoint_open(struct checkpoint *c, struct folder in, struct err *e)
{
    int rc = 0;

    *c = (struct checkpoint){.in.allow_links = in.allow_links};
    buf_init(&c->chat.json, MEM_CKPT);
    buf_init(&c->generation.json, MEM_CKPT);
    buf_init(&c->pooling.json, MEM_CKPT);
    if (!(c->in.path = mem_strdup(in.path, MEM_CKPT)))
        return err_nomem(e, in.path);
    if (pack_means(c->in))
        rc = open_packed(c, e);
    else if (gguf_set_means(c->in, &rc, e) && rc == 0)
        rc = gguf_set_open(&c->gguf, c->in, e);
    if (rc)
        checkpoint_close(c);
    return rc;
}

void checkpoint_close(struct checkpoint *c)
{
    gguf_set_close(&c->gguf);
    if (c->pack)
        pack_close(c->pack);
    mem_free(c->pack);
    buf_fini(&c->chat.json);
    buf_fini(&c->generation.json);
    buf_fini(&c->pooling.json);
    mem_free((char *)c->in.path);
    *c = (struct checkpoint){.in.path = NULL};
}

/* Finds the last folder in DIR, in byte order, whose name begins with BEGIN. Writes its name to NAME. */
static bool find_folder(const char *dir, const char *begin, char *name, size_t size)
{
    struct folder_names l;
    bool found = false;

    if (folder_list(&l, folder_at(dir), NULL, "", NULL) != 0)
        return false;
    for (size_t i = 0; i < l.n; i++)
        if (l.name[i][0] != '.' && strncmp(l.name[i], begin, strlen(begin)) == 0) {
            snprintf(name, size, "%s", l.name[i]);
            found = true;
        }
    folder_names_fini(&l);
    return found;
}

/* Finds the snapshot of the main branch, or else the last snapshot by name, in ROOT, a model's folder in a
 * hub's cache. */
static bool find_snapshot(const char *root, char *name, size_t size)
{
    char dir[FOLDER_PATH_MAX + 16], file[FOLDER_PATH_MAX];
    struct folder_text t = {.bytes = NULL};
    bool there, found = false;

    snprintf(dir, sizeof(dir), "%s/snapshots", root);
    if (folder_read(&t, folder_at(root), "refs/main", &there, NULL) == 0 && there &&
        folder_name_is_plain(t.bytes) &&
        (size_t)snprintf(file, sizeof(file), "%s/config.json", t.bytes) < sizeof(file) &&
        folder_has(folder_at(dir), file))
        found = (size_t)snprintf(name, size, "%s", t.bytes) < size;
    folder_text_fini(&t);
    return found || find_folder(dir, "", name, size);
}

static int check_adapter(const struct checkpoint *c, struct err *e)
{
    const char *base = NULL;
    struct config *about = NULL;
    struct err why;
    int rc;

    if (!folder_has(c->in, "adapter_config.json"))
        return 0;
    if (config_open(&about, c->in, "adapter_config.json", &why) == 0 &&
        config_str(about, "base_model_name_or_path", NULL, &base, &why) != 0)
        base = NULL;
    rc = err_set(
        e, ERR_UNSUPPORTED,
        "%s/adapter_config.json: this folder holds an adapter%s%.200s%s (LoRA or its like), which is not "
        "supported: merge it into its base model (merge_and_unload() of peft) and name the folder of "
        "the result%s",
        c->in.path, base ? " of '" : "", base ? base : "", base ? "'" : "",
        folder_has(c->in, "config.json") ? ", or remove the file to run the base model alone" : "");
    config_close(about);
    return rc;
}

int checkpoint_check(const struct checkpoint *c, struct err *e)
{
    char name[300];

    if (is_gguf(c) || c->pack)
        return 0;
    if (folder_has(c->in, "adapter_config.json"))
        return check_adapter(c, e);
    if (folder_has(c->in, "config.json"))
        return 0;
    if (find_snapshot(c->in.path, name, sizeof(name)))
        return err_set(e, ERR_INPUT,
                       "%s: this folder of a hub's cache holds the revisions of a model; name one of them, "
                       "%s/snapshots/%s, or the model as org/name",
                       c->in.path, c->in.path, name);
    if (find_folder(c->in.path, "models--", name, sizeof(name)))
        return err_set(e, ERR_INPUT,
                       "%s: this folder is a hub's cache of models, such as %s; name one of them as org/name",
                       c->in.path, name);
    if (folder_has(c->in, "params.json"))
        return err_set(
            e, ERR_UNSUPPORTED,
            "%s/params.json: this is a model in its vendor's own format (consolidated.*) without "
            "config.json; fetch it in the format of Hugging Face, or convert it with "
            "convert_llama_weights_to_hf.py (Meta) or convert_mistral_weights_to_hf.py (Mistral) of "
            "transformers",
            c->in.path);
    return 0;
}

int checkpoint_config(struct config **out, struct checkpoint *c, struct err *e)
{
    const struct gguf_arch *arch;
    struct buf text;
    int rc;

    *out = NULL;
    if (!is_gguf(c) || c->pack)
        return config_open(out, c->in, "config.json", e);
    buf_init(&text, MEM_CKPT);
    if ((rc = gguf_arch_of(&arch, &c->gguf, e)) == 0)
        rc = gguf_config(&text, &c->gguf, arch, e);
    if ((rc = gguf_set_checked(&c->gguf, rc, e)) == 0)
        rc = config_open_text(out, text.data, text.len, c->in.path, e);
    buf_fini(&text);
    return rc;
}

int checkpoint_tokenizer(struct tok **out, struct checkpoint *c, struct err *e)
{
    int rc;

    *out = NULL;
    if (!is_gguf(c))
        return tok_open(out, c->in, e);
    if ((rc = gguf_set_checked(&c->gguf, gguf_tokenizer_open(out, &c->gguf, e), e)) != 0) {
        tok_close(*out);
        *out = NULL;
    }
    return rc;
}

bool checkpoint_has_tokenizer(struct checkpoint *c)
{
    return is_gguf(c) ? gguf_has_tokenizer(&c->gguf) : folder_has(c->in, "tokenizer.json");
}

int checkpoint_weights(struct weights **out, struct checkpoint *c, struct err *e)
{
    return c->pack      ? weights_of_pack(out, c->pack, e)
           : is_gguf(c) ? weights_of_gguf(out, &c->gguf, e)
                        : weights_open(out, c->in, e);
}

/* ---- texts made from GGUF ---- */

typedef int make_fn(struct buf *out, struct gguf_set *s, struct err *e);

static int make(struct checkpoint *c, struct checkpoint_text *t, make_fn *fn)
{
    if (!t->made) {
        t->made = true;
        t->rc = gguf_set_checked(&c->gguf, fn(&t->json, &c->gguf, &t->e), &t->e);
    }
    return t->rc;
}

static int say(const struct checkpoint_text *t, struct err *e)
{
    if (t->rc && e)
        *e = t->e;
    return t->rc;
}

int checkpoint_chat(struct chat **out, struct checkpoint *c, struct err *e)
{
    *out = NULL;
    if (!is_gguf(c))
        return chat_open(out, c->in, e);
    if (make(c, &c->chat, gguf_tokenizer_config) != 0)
        return say(&c->chat, e);
    return chat_open_text(out, c->chat.json.data, c->chat.json.len, c->in.path, e);
}

/* Sets *OUT to T, a JSON text of the GGUF checkpoint C, which FN makes at the first call. NULL: C is not GGUF. */
static int give(const struct buf **out, struct checkpoint *c, struct checkpoint_text *t, make_fn *fn,
                struct err *e)
{
    *out = NULL;
    if (!is_gguf(c))
        return 0;
    if (make(c, t, fn) != 0)
        return say(t, e);
    *out = &t->json;
    return 0;
}

int checkpoint_generation(const struct buf **out, struct checkpoint *c, struct err *e)
{
    return give(out, c, &c->generation, gguf_generation, e);
}

int checkpoint_pooling(const struct buf **out, struct checkpoint *c, struct err *e)
{
    return give(out, c, &c->pooling, gguf_pooling, e);
}

int checkpoint_let_go(struct checkpoint *c, struct err *e)
{
    int rc = 0;

    if (!is_gguf(c))
        return 0;
    if (make(c, &c->chat, gguf_tokenizer_config) == ERR_NOMEM)
        rc = say(&c->chat, e);
    if (make(c, &c->generation, gguf_generation) == ERR_NOMEM)
        rc = say(&c->generation, e);
    if (make(c, &c->pooling, gguf_pooling) == ERR_NOMEM)
        rc = say(&c->pooling, e);
    gguf_set_let_go(&c->gguf);
    return rc;
}

/* ---- packing ---- */

/* All files besides weights that are read from a folder. */
static const char *const files[] = {"config.json",
                                    "generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "tokenizer.model",
                                    "tiktoken.model",
                                    "vocab.json",
                                    "merges.txt",
                                    "added_tokens.json",
                                    "special_tokens_map.json",
                                    "chat_template.jinja",
                                    "chat_template.json",
                                    "modules.json",
                                    "1_Pooling/config.json",
                                    "sentence_bert_config.json",
                                    "config_sentence_transformers.json"};

static int pack_one(struct checkpoint *c, struct pack_writer *w, const char *name, struct err *e)
{
    struct folder_text t;
    bool there;
    int rc = folder_read(&t, c->in, name, &there, e);

    if (rc || !there)
        return rc;
    rc = pack_file(w, name, t.bytes, t.len, e);
    folder_text_fini(&t);
    return rc;
}

static int pack_names(struct checkpoint *c, struct pack_writer *w, const char *sub, const char *suffix,
                      struct err *e)
{
    char name[FOLDER_PATH_MAX];
    struct folder_names l;
    int rc = folder_list(&l, c->in, sub, suffix, sub ? NULL : e);

    if (rc)
        return sub && rc != ERR_NOMEM ? 0 : rc; /* the subfolder does not exist */
    for (size_t i = 0; i < l.n && rc == 0; i++) {
        snprintf(name, sizeof(name), "%s%s%.1000s", sub ? sub : "", sub ? "/" : "", l.name[i]);
        rc = pack_one(c, w, name, e);
    }
    folder_names_fini(&l);
    return rc;
}

static int pack_gguf(struct checkpoint *c, struct pack_writer *w, struct err *e)
{
    const struct gguf_arch *arch;
    struct buf text;
    int rc;

    buf_init(&text, MEM_CKPT);
    if ((rc = gguf_arch_of(&arch, &c->gguf, e)) == 0 && (rc = gguf_config(&text, &c->gguf, arch, e)) == 0)
        rc = pack_file(w, "config.json", text.data, text.len, e);
    buf_clear(&text);
    if (rc == 0 && (rc = gguf_metadata(&text, &c->gguf, e)) == 0)
        rc = pack_file(w, PACK_GGUF, text.data, text.len, e);
    buf_fini(&text);
    return rc;
}

int checkpoint_pack_files(struct checkpoint *c, struct pack_writer *w, struct err *e)
{
    int rc = 0;

    if (is_gguf(c))
        return pack_gguf(c, w, e);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && rc == 0; i++)
        rc = pack_one(c, w, files[i], e);
    if (rc == 0)
        rc = pack_names(c, w, NULL, ".tiktoken", e);
    return rc ? rc : pack_names(c, w, "additional_chat_templates", ".jinja", e);
}
