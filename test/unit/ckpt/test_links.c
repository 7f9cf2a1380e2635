/* test_links.c - every file of a checkpoint as a symbolic link, one file at a time: a link that leaves the
 * folder is refused by name, and a link inside the folder or Hugging Face's cache is followed. */
#include "ckpt/config.h"
#include "ckpt/weights.h"
#include "ckpthelp.h"
#include "text/chat.h"
#include "text/tok/tok.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/files/folder.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "engine/sampling/sampling.h"
#include "ggufwrite.h"

#define TOKENIZERS GALLOP_SOURCE_DIR "/test/data/tokenizers/"

/* ---- functions that open files ---- */

typedef int open_fn(struct folder in, struct err *e);

static int weights(struct folder in, struct err *e)
{
    struct checkpoint from;
    struct weights *w;
    int rc = checkpoint_open(&from, in, e);

    if (rc == 0 && (rc = checkpoint_weights(&w, &from, e)) == 0)
        weights_close(w);
    checkpoint_close(&from);
    return rc;
}

static int config(struct folder in, struct err *e)
{
    struct checkpoint from;
    struct config *c = NULL;
    int rc = checkpoint_open(&from, in, e);

    if (rc == 0)
        rc = checkpoint_config(&c, &from, e);
    config_close(c);
    checkpoint_close(&from);
    return rc;
}

static int tokenizer(struct folder in, struct err *e)
{
    struct checkpoint from;
    struct tok *t = NULL;
    int rc = checkpoint_open(&from, in, e);

    if (rc == 0)
        rc = checkpoint_tokenizer(&t, &from, e);
    tok_close(t);
    checkpoint_close(&from);
    return rc;
}

static int chat(struct folder in, struct err *e)
{
    struct checkpoint from;
    struct chat *c = NULL;
    int rc = checkpoint_open(&from, in, e);

    if (rc == 0)
        rc = checkpoint_chat(&c, &from, e);
    chat_close(c);
    checkpoint_close(&from);
    return rc;
}

static int generation(struct folder in, struct err *e)
{
    struct sampling s;
    struct arena a;
    int rc;

    arena_init(&a, MEM_ENGINE);
    rc = sampling_from_generation_config(in, SIZE_MAX, &s, &a, e);
    arena_fini(&a);
    return rc;
}

/* ---- the files ---- */

static const struct {
    const char *name; /* the name in the folder */
    const char *like; /* the path of a file with the same content, or '=' and the content */
} contents[] = {
    {"config.json", "={\"model_type\":\"gpt2\"}"},
    {"generation_config.json", "={\"top_k\":3}"},
    {"tokenizer_config.json", "={\"tokenizer_class\":\"GPT2Tokenizer\"}"},
    {"special_tokens_map.json", "={}"},
    {"added_tokens.json", "={}"},
    {"chat_template.jinja", "=hello"},
    {"chat_template.json", "={\"chat_template\":\"hello\"}"},
    {"additional_chat_templates/tool.jinja", "=hello"},
    {"tokenizer.json", TOKENIZERS "gpt2.json"},
    {"tokenizer.model", TOKENIZERS "sp-bpe.model"},
    {"tiktoken.model", TOKENIZERS "sp-bpe.model"},
    {"x.tiktoken", TOKENIZERS "sp-bpe.model"},
    {"vocab.json", TOKENIZERS "gpt2-files/vocab.json"},
    {"merges.txt", TOKENIZERS "gpt2-files/merges.txt"},
    {"model.safetensors", FIXTURES "/safetensors/model.safetensors"},
    {"other.safetensors", FIXTURES "/safetensors/model.safetensors"},
    {"pytorch_model.bin", FIXTURES "/zip/pytorch_model.bin"},
    {"model.safetensors.index.json", FIXTURES "/shards-safetensors/model.safetensors.index.json"},
    {"model-00001-of-00003.safetensors", FIXTURES "/shards-safetensors/model-00001-of-00003.safetensors"},
    {"model-00002-of-00003.safetensors", FIXTURES "/shards-safetensors/model-00002-of-00003.safetensors"},
    {"model-00003-of-00003.safetensors", FIXTURES "/shards-safetensors/model-00003-of-00003.safetensors"},
    {"pytorch_model.bin.index.json", FIXTURES "/shards-bin/pytorch_model.bin.index.json"},
    {"pytorch_model-00001-of-00002.bin", FIXTURES "/shards-bin/pytorch_model-00001-of-00002.bin"},
    {"pytorch_model-00002-of-00002.bin", FIXTURES "/shards-bin/pytorch_model-00002-of-00002.bin"},
    {"m.gguf", "gguf 0 1"},
    {"m-00001-of-00002.gguf", "gguf 0 2"},
    {"m-00002-of-00002.gguf", "gguf 1 2"},
};

enum { MAX_FILES = 6 };

/* A folder is a list of files, all of which OPEN reads. */
static const struct {
    open_fn *open;
    const char *file[MAX_FILES];
} folders[] = {
    {config, {"config.json"}},
    {generation, {"generation_config.json"}},
    {tokenizer, {"tokenizer.json"}},
    {tokenizer, {"tokenizer.model", "added_tokens.json"}},
    {tokenizer, {"tiktoken.model"}},
    {tokenizer, {"x.tiktoken"}},
    {tokenizer,
     {"vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
      "config.json"}},
    {chat, {"tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"}},
    {chat, {"additional_chat_templates/tool.jinja"}},
    {chat, {"chat_template.json"}},
    {weights, {"model.safetensors"}},
    {weights, {"other.safetensors"}},
    {weights, {"pytorch_model.bin"}},
    {weights,
     {"model.safetensors.index.json", "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
      "model-00003-of-00003.safetensors"}},
    {weights,
     {"pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin",
      "pytorch_model-00002-of-00002.bin"}},
    {weights, {"m.gguf"}},
    {config, {"m.gguf"}},
    {chat, {"m.gguf"}},
    {weights, {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}},
};

enum { N_FOLDERS = sizeof(folders) / sizeof(folders[0]) };

/* ---- files and links ---- */

static char root[64], dir[128];

static void shell(const char *format, const char *a)
{
    char command[400];

    snprintf(command, sizeof(command), format, a);
    assert_int_equal(system(command), 0);
}

static void write_gguf(const char *path, unsigned no, unsigned count)
{
    struct ggufwrite w;
    struct buf out;

    ggufwrite_init(&w);
    if (no == 0) {
        ggufwrite_str(&w, "general.architecture", "llama");
        ggufwrite_u32(&w, "llama.block_count", 1);
        ggufwrite_u32(&w, "llama.context_length", 32);
        ggufwrite_u32(&w, "llama.embedding_length", 8);
        ggufwrite_u32(&w, "llama.feed_forward_length", 16);
        ggufwrite_u32(&w, "llama.attention.head_count", 2);
    }
    ggufwrite_u32(&w, "split.no", no);
    ggufwrite_u32(&w, "split.count", count);
    ggufwrite_f32_tensor(&w, no ? "output_norm.weight" : "token_embd.weight",
                         no ? (const size_t[]){8, 0} : (const size_t[]){4, 8, 0}, NULL);
    buf_init(&out, MEM_CKPT);
    ggufwrite_finish(&w, &out);
    files_write(path, out.data, out.len);
    buf_fini(&out);
    ggufwrite_fini(&w);
}

/* Writes the content of the file NAME to PATH. */
static void write_content(const char *name, const char *path)
{
    unsigned no, count;

    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        const char *like = contents[i].like;
        size_t len = strlen(like);

        if (strcmp(contents[i].name, name) != 0)
            continue;
        if (sscanf(like, "gguf %u %u", &no, &count) == 2) {
            write_gguf(path, no, count);
        } else if (*like == '=') {
            files_write(path, like + 1, len - 1);
        } else {
            char *bytes = files_read(like, &len);

            files_write(path, bytes, len);
            free(bytes);
        }
        return;
    }
    fail_msg("the test does not know what belongs into %s", name);
}

/* Makes an empty root with the folders outside/ and SUB. */
static void begin(const char *sub)
{
    static const char *folder;

    folder = folder ? folder : files_folder();
    snprintf(root, sizeof(root), "%s/root", folder);
    snprintf(dir, sizeof(dir), "%s/%s", root, sub);
    shell("mkdir -p %s/additional_chat_templates", dir);
    shell("mkdir %s/outside", root);
}

static void end(void)
{
    shell("rm -rf %s", root);
}

static size_t n_files(size_t f)
{
    size_t n = 0;

    while (n < MAX_FILES && folders[f].file[n])
        n++;
    return n;
}

/* Writes the files of the folder. The file LINKED is written to TARGET, and becomes a link to TARGET or, if
 * FROM_HERE is not NULL, to that relative path. */
static void fill(size_t f, size_t linked, const char *target, const char *from_here)
{
    char path[300];

    for (size_t i = 0; i < n_files(f); i++) {
        const char *name = folders[f].file[i];

        snprintf(path, sizeof(path), "%s/%s", dir, name);
        write_content(name, i == linked ? target : path);
        if (i == linked)
            assert_int_equal(symlink(from_here ? from_here : target, path), 0);
    }
}

static void expect_open(size_t f, size_t linked, bool allow_links, const char *what)
{
    struct err e = {0};

    if (folders[f].open((struct folder){.path = dir, .allow_links = allow_links}, &e) != 0)
        fail_msg("%s as a link %s: %s", folders[f].file[linked], what, e.msg);
}

static void a_file_as_a_link_out_of_the_folder_is_refused_by_name(void **state)
{
    for (size_t f = 0; f < N_FOLDERS; f++)
        for (size_t i = 0; i < n_files(f); i++) {
            struct err e = {0};
            char target[200];

            begin("model");
            snprintf(target, sizeof(target), "%s/outside/file", root);
            fill(f, i, target, NULL);
            if (folders[f].open(folder_at(dir), &e) != ERR_INPUT || !strstr(e.msg, folders[f].file[i]) ||
                !strstr(e.msg, target) || !strstr(e.msg, "allow_links"))
                fail_msg("%s as a link out of the folder: \"%s\"", folders[f].file[i], e.msg);
            expect_open(f, i, true, "that is allowed");
            end();
        }
}

static void links_that_stay_in_the_folder_are_followed(void **state)
{
    char target[200];

    for (size_t f = 0; f < N_FOLDERS; f++)
        for (size_t i = 0; i < n_files(f); i++) {
            begin("model");
            snprintf(target, sizeof(target), "%s/kept", dir);
            fill(f, i, target, NULL);
            expect_open(f, i, false, "inside the folder");
            end();
        }
}

static void links_into_the_blobs_of_the_cache_are_followed(void **state)
{
    char target[200];

    for (size_t f = 0; f < N_FOLDERS; f++)
        for (size_t i = 0; i < n_files(f); i++) {
            begin("models--org--name/snapshots/0f");
            shell("mkdir %s/models--org--name/blobs", root);
            snprintf(target, sizeof(target), "%s/models--org--name/blobs/12ab", root);
            fill(f, i, target, strchr(folders[f].file[i], '/') ? "../../../blobs/12ab" : "../../blobs/12ab");
            expect_open(f, i, false, "into the cache");
            end();
        }
}

/* A file that the user names directly may be a link, and so may the other files beside it. */
static void a_file_that_is_named_itself_may_be_a_link(void **state)
{
    static const struct {
        open_fn *open;
        const char *name;
    } c[] = {{tokenizer, "tokenizer.json"},
             {tokenizer, "tokenizer.model"},
             {weights, "m.gguf"},
             {config, "m.gguf"}};
    char target[200], path[200];

    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct err e = {0};

        begin("model");
        snprintf(target, sizeof(target), "%s/outside/file", root);
        snprintf(path, sizeof(path), "%s/%s", dir, c[i].name);
        write_content(c[i].name, target);
        assert_int_equal(symlink(target, path), 0);
        if (c[i].open(folder_at(path), &e) != 0)
            fail_msg("%s", e.msg);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_as_a_link_out_of_the_folder_is_refused_by_name),
        cmocka_unit_test(links_that_stay_in_the_folder_are_followed),
        cmocka_unit_test(links_into_the_blobs_of_the_cache_are_followed),
        cmocka_unit_test(a_file_that_is_named_itself_may_be_a_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
