/* test_hub.c - names of models on a hub, lists of files, Hugging Face's cache on disk, and downloads without
 * a hub. test/net/test_hub.py has tests with a hub. */
#include "base/files/map.h"
#include "files.h"
#include "help.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/files/folder.h"
#include "base/log.h"
#include "base/mem.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/environment.h"
#include "hub/hub.h"
#include "hub/list.h"
#include "hub/name.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static struct hub_cache must_open(const char *dir)
{
    struct hub_cache c;
    struct hub_name id;
    struct err e;

    assert_true(hub_name_parse(&id, "org/name"));
    assert_int_equal(hub_cache_open(&c, dir, &id, &e), 0);
    return c;
}

/* Puts a file into the cache as a download would. */
static void put_file(const struct hub_cache *c, const char *file, const char *etag, const char *text)
{
    char path[HUB_CACHE_PATH_MAX], *slash;
    struct err e;

    assert_int_equal(hub_cache_blob(c, etag, false, path, &e), 0);
    slash = strrchr(path, '/');
    *slash = 0;
    files_write_in(path, slash + 1, text, strlen(text));
    assert_int_equal(hub_cache_link(c, COMMIT, file, etag, &e), 0);
}

static struct hub_cache racing;

/* Links the file NAME to its own blob 2000 times, beside another thread that does the same with another file. */
static void *link_often(void *name)
{
    char path[HUB_CACHE_PATH_MAX], target[HUB_CACHE_PATH_MAX], etag[16], wanted[64];
    struct err e;

    snprintf(etag, sizeof(etag), "etag%.8s", (const char *)name);
    snprintf(wanted, sizeof(wanted), "../../blobs/%s", etag);
    hub_cache_file(&racing, COMMIT, name, path, sizeof(path), &e);
    for (int i = 0; i < 2000; i++) {
        ssize_t n;

        if (hub_cache_link(&racing, COMMIT, name, etag, &e) != 0)
            return name;
        n = readlink(path, target, sizeof(target) - 1);
        if (n < 0 || (target[n] = 0, strcmp(target, wanted) != 0))
            return name;
    }
    return NULL;
}

static void links_of_two_threads_end_at_their_own_blobs(void **state)
{
    static char one[] = "config.json", two[] = "tokenizer.json";
    pthread_t thread;
    void *failed;

    racing = must_open(files_folder());
    assert_int_equal(pthread_create(&thread, NULL, link_often, one), 0);
    assert_null(link_often(two));
    pthread_join(thread, &failed);
    assert_null(failed);
}

/* ---- names ---- */

static void names_and_revisions_are_told_from_paths(void **state)
{
    static const char *const good[] = {"org/name",
                                       "a/b",
                                       "Org-1/na.me_2-x",
                                       "org/name@v1",
                                       "_a/b_",
                                       "org/name:x.gguf",
                                       "org/name@v1:Q4_K_M",
                                       "org/name:BF16/x-BF16.gguf"};
    static const char *const bad[] = {"",
                                      "name",
                                      "/abs/path",
                                      "./org/name",
                                      "../name",
                                      "org/name/",
                                      "org/a/b",
                                      "org/",
                                      "/name",
                                      "org/..",
                                      "org/.hidden",
                                      "o--g/name",
                                      "org/na..me",
                                      "org/name.",
                                      "org/-name",
                                      "org/na me",
                                      "org/name@",
                                      "org/name@../x",
                                      "~/name",
                                      "org/n\xc3\xa4me",
                                      "org\\name",
                                      "org/x:",
                                      "org/x:a/b",
                                      "org/x:.y",
                                      "org/x:y:z",
                                      "o:x/y",
                                      "@main",
                                      "a@b/c",
                                      "org/name@a b",
                                      "org/name@/x"};
    struct hub_name id;
    char folder[64];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(hub_name_parse(&id, good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (hub_name_parse(&id, bad[i]))
            fail_msg("%s is taken for a name on a hub", bad[i]);
    assert_true(hub_name_parse(&id, "org/name@refs/pr/1"));
    assert_string_equal(id.repo, "org/name");
    assert_string_equal(id.revision, "refs/pr/1");
    assert_true(hub_name_parse(&id, "org/name"));
    assert_string_equal(id.revision, "main");
    assert_string_equal(id.file, "");
    assert_true(hub_name_folder(&id, folder, sizeof(folder)));
    assert_string_equal(folder, "models--org--name");
    assert_true(hub_name_parse(&id, "org/name@refs/pr/1:a@b.gguf"));
    assert_string_equal(id.repo, "org/name");
    assert_string_equal(id.revision, "refs/pr/1");
    assert_string_equal(id.file, "a@b.gguf");
    assert_false(hub_name_folder(&id, folder, 10));
}

static void a_file_is_one_folder_deep_at_most(void **state)
{
    static const char *const bad[] = {"b/c",        "b/c/d.gguf", "b/../d.gguf", "../d.gguf",
                                      "./d.gguf",   "/d.gguf",    "b/.gguf",     "b/.d.gguf",
                                      "b\\/d.gguf", "b/",         "b//d.gguf",   ".b/d.gguf"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (hub_name_is_gguf(bad[i], strlen(bad[i])))
            fail_msg("%s is taken for a GGUF file of a repository", bad[i]);
    assert_true(hub_name_is_gguf("b/d.gguf", 8));
    assert_true(hub_name_is_gguf("Q4_K_M", 6));
}

static void revisions_that_no_repository_has_are_refused(void **state)
{
    static const char *const bad[] = {"",    "/x",   "x/",  "a//b", "..",     "a/../b", ".x",  "a/.x",
                                      "-x",  "a~1",  "a^b", "a b",  "a\nb",   "a:b",    "a?b", "a*b",
                                      "a[b", "a\\b", "a@{", "x.",   "x.lock", "a\x7f"};
    struct hub_name id;
    struct err e;

    assert_true(hub_name_parse(&id, "org/name"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        help_refused(hub_name_set_revision(&id, bad[i], &e), ERR_INPUT, &e, "org/name",
                     "cannot be a revision", NULL);
    assert_int_equal(hub_name_set_revision(&id, "v1.0-rc+2/\xc3\xa4", &e), 0);
    assert_true(hub_name_is_commit(COMMIT));
    assert_false(hub_name_is_commit("0123456789ABCDEF0123456789abcdef01234567"));
    assert_false(hub_name_is_commit(COMMIT "0"));
    assert_false(hub_name_is_commit("0123"));
}

static void a_revision_is_one_segment_of_an_address(void **state)
{
    char out[32];

    assert_true(hub_name_quote("refs/pr/1", out, sizeof(out)));
    assert_string_equal(out, "refs%2Fpr%2F1");
    assert_true(hub_name_quote("a-b_c.~?#%", out, sizeof(out)));
    assert_string_equal(out, "a-b_c.~%3F%23%25");
    assert_false(hub_name_quote("/////", out, 14));
}

/* ---- lists ---- */

static void names_that_lead_out_of_the_folder_are_left_out(void **state)
{
    static const char text[] =
        "{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"../x\"},{\"rfilename\":\"/etc/passwd\"},"
        "{\"rfilename\":\"a\\\\b\"},{\"rfilename\":\"..\"},{\"rfilename\":\"\"},{\"rfilename\":\"a\\u0000b\"},"
        "{\"rfilename\":\"a\\nb\"},{\"rfilename\":\"c:d\"},{\"rfilename\":\"x/../y\"},{\"rfilename\":\"x//y\"},"
        "{\"rfilename\":\"sub/ok.json\"},{\"rfilename\":\".gitattributes\"},{\"rfilename\":\"config.json\"},"
        "{\"size\":7},{\"rfilename\":\"tokenizer.json\",\"size\":1}],\"gated\":false}";
    struct hub_list l;
    struct err e;

    assert_int_equal(hub_list_read(&l, text, sizeof(text) - 1, "hub", &e), 0);
    assert_string_equal(l.commit, COMMIT);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.n_refused, 10);
    assert_true(hub_list_has(&l, "config.json"));
    assert_true(hub_list_has_tokenizer(&l));
    assert_false(hub_list_has(&l, "ok.json"));
    hub_list_close(&l);
}

static void answers_that_are_no_list_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "{\"sha\":7}",
                                      "{\"siblings\":[]}",
                                      "{\"sha\":\"main\"}",
                                      "<html>",
                                      "{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":7}]}",
                                      "{\"sha\":\"" COMMIT "\",\"siblings\":[7]}"};
    struct hub_list l;
    struct err e;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        help_refused(hub_list_read(&l, bad[i], strlen(bad[i]), "https://hub", &e), ERR_INPUT, &e,
                     "https://hub", NULL);
    assert_int_equal(mem_live_blocks(), 0);
}

static void read_names(struct hub_list *l, const char *names)
{
    char text[2048], list[1024] = "", copy[512];
    struct err e;

    for (char *p = strtok(strcpy(copy, names), " "); p; p = strtok(NULL, " "))
        sprintf(list + strlen(list), "%s{\"rfilename\":\"%s\"}", *list ? "," : "", p);
    snprintf(text, sizeof(text), "{\"sha\":\"" COMMIT "\",\"siblings\":[%s]}", list);
    assert_int_equal(hub_list_read(l, text, strlen(text), "hub", &e), 0);
}

static const char *pick(const char *names, bool *is_index)
{
    static char kept[64];
    struct hub_list l;
    const char *found;

    read_names(&l, names);
    found = hub_list_weights(&l, is_index);
    if (found)
        found = strcpy(kept, found);
    hub_list_close(&l);
    return found;
}

static void safetensors_come_before_pickles(void **state)
{
    bool index;

    assert_string_equal(pick("pytorch_model.bin model.safetensors", &index), "model.safetensors");
    assert_false(index);
    assert_string_equal(pick("pytorch_model.bin model.safetensors.index.json x.safetensors", &index),
                        "model.safetensors.index.json");
    assert_true(index);
    assert_string_equal(pick("pytorch_model.bin.index.json", &index), "pytorch_model.bin.index.json");
    assert_true(index);
    assert_string_equal(pick("config.json pytorch_model.bin", &index), "pytorch_model.bin");
    assert_string_equal(pick("a.safetensors config.json", &index), "a.safetensors");
    assert_null(pick("a.safetensors b.safetensors", &index));
    assert_null(pick("config.json", &index));
    assert_true(hub_list_is_text("qwen.tiktoken") && hub_list_is_text("merges.txt"));
    assert_false(hub_list_is_text("README.md") || hub_list_is_text("model.safetensors"));
}

static void of_subfolders_only_chat_templates_are_listed(void **state)
{
    struct hub_list l;

    read_names(&l, "additional_chat_templates/a.jinja additional_chat_templates/b.txt a/c.jinja "
                   "additional_chat_templates/.jinja additional_chat_templates/.d.jinja "
                   "additional_chat_templates/e/f.jinja additional_chat_templates/../g.jinja "
                   "additional_chat_templates/h:i.jinja additional_chat_templatesx/j.jinja");
    assert_int_equal(l.n, 1);
    assert_int_equal(l.n_refused, 2);
    assert_string_equal(l.name[0], "additional_chat_templates/a.jinja");
    assert_true(hub_list_is_text(l.name[0]));
    assert_false(hub_list_is_text("a.jinja") || hub_list_is_text("additional_chat_templates"));
    assert_false(hub_list_is_beside("tokenizer.json") || hub_list_is_beside("Pooling/config.json"));
    assert_true(hub_list_is_beside("modules.json") && hub_list_is_beside("quantize_config.json"));
    assert_true(hub_list_is_beside("sentence_bert_config.json") &&
                hub_list_is_beside("config_sentence_transformers.json"));
    assert_true(hub_list_is_beside("quant_config.json") && hub_list_is_beside("adapter_config.json"));
    hub_list_close(&l);
}

/* Modules of sentence-transformers are in folders that begin with their number. */
static void configs_of_modules_are_taken_from_their_folders(void **state)
{
    static const char *const wanted[] = {"1_Pooling/config.json", "12_Dense/config.json",
                                         "2_Dense/model.safetensors", "config.json"};
    bool is_index;
    struct hub_list l;

    read_names(&l,
               "1_Pooling/config.json 12_Dense/config.json 2_Dense/model.safetensors Pooling/config.json "
               "1_Pooling/model.safetensors 0_Transformer/model.safetensors 2_Dense/x/model.safetensors "
               "1_/x/config.json 1Pooling/config.json 1_Pooling/config.jsonx onnx/config.json config.json");
    assert_int_equal(l.n, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(l.name[i], wanted[i]);
        assert_int_equal(hub_list_is_beside(l.name[i]), i < 3);
    }
    assert_null(hub_list_weights(&l, &is_index)); /* The weights of a module are not those of the model. */
    hub_list_close(&l);
}

static void a_gguf_is_found_by_its_name_or_its_kind(void **state)
{
    static const char *const found[][2] = {{"a-Q8_0.gguf", "a-Q8_0.gguf"},
                                           {"q8_0", "a-Q8_0.gguf"},
                                           {"IQ4_XS", "b.IQ4_XS-00001-of-00002.gguf"},
                                           {"b.IQ4_XS-00001-of-00002.gguf", "b.IQ4_XS-00001-of-00002.gguf"},
                                           {"Q4_K_M", "a-Q4_K_M.gguf"},
                                           {"b", "b.IQ4_XS-00001-of-00002.gguf"}};
    static const char *const none[] = {
        "Q8", "8_0", "K_M", "XS", "mmproj", "BF16", "gguf", "A-q8_0.gguf", "b.IQ4_XS-00002-of-00002.gguf"};
    struct hub_list l;
    const char *name;
    size_t at = 0;
    char all[100], few[30];
    struct err e;

    read_names(&l, "a-Q8_0.gguf a-Q4_K_M.gguf b.IQ4_XS-00001-of-00002.gguf b.IQ4_XS-00002-of-00002.gguf "
                   "mmproj-BF16.gguf imatrix.gguf x-00001-of-00000.gguf config.json Q8_0 .gguf");
    assert_string_equal(hub_list_next_gguf(&l, &at), "a-Q8_0.gguf");
    assert_string_equal(hub_list_ggufs(&l, all, sizeof(all)),
                        "a-Q8_0.gguf, a-Q4_K_M.gguf, b.IQ4_XS-00001-of-00002.gguf");
    assert_string_equal(hub_list_ggufs(&l, few, sizeof(few)), "a-Q8_0.gguf, ...");
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
        if (hub_list_gguf(&l, found[i][0], &name, &e) != 0)
            fail_msg("%s: %s", found[i][0], e.msg);
        assert_string_equal(name, found[i][1]);
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        help_refused(hub_list_gguf(&l, none[i], &name, &e), ERR_INPUT, &e, none[i], "there are a-Q8_0.gguf",
                     NULL);
    help_refused(hub_list_gguf(&l, "a", &name, &e), ERR_INPUT, &e, "a-Q8_0.gguf and a-Q4_K_M.gguf", NULL);
    hub_list_close(&l);
}

static void a_gguf_in_a_folder_is_found(void **state)
{
    static const char *const found[][2] = {
        {"BF16", "BF16/a-BF16-00001-of-00002.gguf"},
        {"BF16/a-BF16-00001-of-00002.gguf", "BF16/a-BF16-00001-of-00002.gguf"},
        {"a-BF16-00001-of-00002.gguf", "BF16/a-BF16-00001-of-00002.gguf"},
        {"q6_k", "Q6_K/model.gguf"},
        {"model.gguf", "Q6_K/model.gguf"},
        {"Q8_0", "a-Q8_0.gguf"}};
    struct hub_list l;
    const char *name;
    struct err e;

    read_names(&l,
               "a-Q8_0.gguf BF16/a-BF16-00001-of-00002.gguf BF16/a-BF16-00002-of-00002.gguf Q6_K/model.gguf "
               "Q6_K/mmproj-F32.gguf Q6_K/README.md x/y/z-Q2_K.gguf");
    assert_int_equal(l.n, 5);
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
        if (hub_list_gguf(&l, found[i][0], &name, &e) != 0)
            fail_msg("%s: %s", found[i][0], e.msg);
        assert_string_equal(name, found[i][1]);
    }
    help_refused(hub_list_gguf(&l, "Q2_K", &name, &e), ERR_INPUT, &e,
                 "there are a-Q8_0.gguf, BF16/a-BF16-00001-of-00002.gguf, Q6_K/model.gguf", NULL);
    hub_list_close(&l);
}

/* ---- the cache ---- */

static void an_etag_becomes_a_plain_name(void **state)
{
    static const char *const bad[] = {"", "\"\"", "\"../x\"", "\"a/b\"", "\".x\"", "\"a b\"", "W/\"a\"b\""};
    char out[HUB_CACHE_ETAG_MAX], text[200];

    assert_true(hub_cache_etag("\"abc\"", out));
    assert_string_equal(out, "abc");
    assert_true(hub_cache_etag("W/\"abc-1\"", out));
    assert_string_equal(out, "abc-1");
    assert_true(hub_cache_etag("abc", out));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(hub_cache_etag(bad[i], out));
    memset(text, 'a', sizeof(text));
    text[199] = 0;
    assert_false(hub_cache_etag(text, out));
}

static void the_layout_is_hugging_faces(void **state)
{
    const char *dir = files_folder();
    char path[512], link[128];
    struct hub_cache c;
    char opened[FOLDER_PATH_MAX];
    struct map_file m;
    ssize_t n;
    struct err e;

    c = must_open(dir);
    put_file(&c, "config.json", "ab12", "{}");
    snprintf(path, sizeof(path), "%s/models--org--name/snapshots/" COMMIT "/config.json", dir);
    n = readlink(path, link, sizeof(link) - 1);
    assert_true(n > 0);
    link[n] = 0;
    assert_string_equal(link, "../../blobs/ab12");
    put_file(&c, "config.json", "cd34", "{ }"); /* An existing link is replaced. */
    assert_int_equal(readlink(path, link, sizeof(link)), n);
    assert_memory_equal(link, "../../blobs/cd34", (size_t)n);
    put_file(&c, "additional_chat_templates/a.jinja", "ef56", "x");
    snprintf(path, sizeof(path),
             "%s/models--org--name/snapshots/" COMMIT "/additional_chat_templates/a.jinja", dir);
    assert_int_equal(readlink(path, link, sizeof(link)), n + 3);
    assert_memory_equal(link, "../../../blobs/ef56", (size_t)n + 3);
    snprintf(path, sizeof(path), "%s/models--org--name/snapshots/" COMMIT, dir);
    assert_true(folder_has(folder_at(path), "config.json"));
    assert_int_equal(folder_map(&m, opened, folder_at(path), "config.json", &e), 0);
    map_file_close(&m);
}

static void refs_are_remembered_and_only_commits_believed(void **state)
{
    const char *dir = files_folder();
    char path[128], commit[HUB_NAME_COMMIT + 1];
    struct hub_cache c;
    struct err e;

    c = must_open(dir);
    assert_false(hub_cache_commit(&c, "main", commit));
    assert_int_equal(hub_cache_set_commit(&c, "refs/pr/1", COMMIT, &e), 0);
    assert_true(hub_cache_commit(&c, "refs/pr/1", commit));
    assert_string_equal(commit, COMMIT);
    assert_false(hub_cache_commit(&c, "refs", commit));
    assert_true(hub_cache_commit(&c, "ffffffffffffffffffffffffffffffffffffffff", commit));
    assert_int_equal(hub_cache_set_commit(&c, COMMIT, COMMIT, &e), 0);
    snprintf(path, sizeof(path), "%s/models--org--name/refs", dir);
    files_write_in(path, "main", COMMIT "\n", HUB_NAME_COMMIT + 1);
    assert_true(hub_cache_commit(&c, "main", commit));
    files_write_in(path, "main", "../../../../../../../../../../etc/passwd0", HUB_NAME_COMMIT);
    assert_false(hub_cache_commit(&c, "main", commit));
    files_write_in(path, "main", COMMIT "ab", HUB_NAME_COMMIT + 2);
    assert_false(hub_cache_commit(&c, "main", commit));
}

static void hashes_are_git_and_sha256(void **state)
{
    /* The results of `git hash-object` and `sha256sum` for "hello" and a line end. */
    static const char git[] = "ce013625030ba8dba906f756967f9e9ca394464a";
    static const char sha[] = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    const char *dir = files_folder();
    char path[128];
    struct err e;

    files_write_in(dir, "f", "hello\n", 6);
    snprintf(path, sizeof(path), "%s/f", dir);
    assert_true(hub_cache_is_hash(git) && hub_cache_is_hash(sha) && !hub_cache_is_hash("ab12"));
    assert_int_equal(hub_cache_verify(path, git, &e), 0);
    assert_int_equal(hub_cache_verify(path, sha, &e), 0);
    files_write_in(dir, "f", "hallo\n", 6);
    help_refused(hub_cache_verify(path, git, &e), ERR_INPUT, &e, path, git, NULL);
    help_refused(hub_cache_verify(path, sha, &e), ERR_INPUT, &e, path, sha, NULL);
    assert_int_equal(remove(path), 0);
    help_refused(hub_cache_verify(path, sha, &e), ERR_OS, &e, path, NULL);
}

static void a_lock_is_held_by_one(void **state)
{
    int one, two, rc;
    const char *dir = files_folder();
    struct hub_cache c;
    struct err e;

    c = must_open(dir);
    assert_true(hub_cache_try_lock(&c, "ab12", &one, &rc, &e));
    assert_true(one >= 0);
    assert_false(hub_cache_try_lock(&c, "ab12", &two, &rc, &e));
    assert_int_equal(rc, 0);
    close(one);
    assert_true(hub_cache_try_lock(&c, "ab12", &two, &rc, &e));
    close(two);
}

static void what_all_models_share_may_be_linked_to(void **state)
{
    const char *dir = files_folder();
    char path[512], out[FOLDER_PATH_MAX];
    struct map_file m;
    struct hub_cache c;
    struct err e;

    c = must_open(dir);
    put_file(&c, "config.json", "ab12", "{}");
    snprintf(path, sizeof(path), "%s/blobs", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    files_write_in(path, "shared", "x", 1);
    files_write_in(dir, "secret", "x", 1);
    snprintf(path, sizeof(path), "%s/models--org--name/blobs/cd34", dir);
    assert_int_equal(symlink("../../blobs/shared", path), 0);
    assert_int_equal(hub_cache_link(&c, COMMIT, "model.safetensors", "cd34", &e), 0);
    snprintf(path, sizeof(path), "%s/models--org--name/blobs/ef56", dir);
    assert_int_equal(symlink("../../secret", path), 0);
    assert_int_equal(hub_cache_link(&c, COMMIT, "evil.safetensors", "ef56", &e), 0);
    snprintf(path, sizeof(path), "%s/models--org--name/snapshots/" COMMIT, dir);
    assert_int_equal(folder_map(&m, out, folder_at(path), "model.safetensors", &e), 0);
    map_file_close(&m);
    help_refused(folder_map(&m, out, folder_at(path), "evil.safetensors", &e), ERR_INPUT, &e, "leads out",
                 NULL);
}

/* ---- the environment ---- */

static void clear_environment(void)
{
    static const char *const names[] = {"HF_HOME",
                                        "HF_HUB_CACHE",
                                        "HUGGINGFACE_HUB_CACHE",
                                        "XDG_CACHE_HOME",
                                        "HF_ENDPOINT",
                                        "HF_TOKEN",
                                        "HF_TOKEN_PATH",
                                        "HUGGING_FACE_HUB_TOKEN",
                                        "HF_HUB_OFFLINE",
                                        "TRANSFORMERS_OFFLINE",
                                        "HF_HUB_ETAG_TIMEOUT",
                                        "HF_HUB_DOWNLOAD_TIMEOUT",
                                        "HF_HUB_DISABLE_IMPLICIT_TOKEN"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    setenv("HOME", "/nowhere/home", 1);
}

static void the_environment_is_read_as_huggingface_hub_does(void **state)
{
    const char *dir = files_folder();
    struct hub_environment h;
    struct err e;

    clear_environment();
    assert_int_equal(hub_environment_read(&h, &e), 0);
    assert_string_equal(h.cache, "/nowhere/home/.cache/huggingface/hub");
    assert_string_equal(h.endpoint, "https://huggingface.co");
    assert_string_equal(h.token, "");
    assert_false(h.offline);
    assert_int_equal(h.stall_seconds, 10);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    assert_int_equal(hub_environment_read(&h, &e), 0);
    assert_string_equal(h.cache, "/xdg/huggingface/hub");
    files_write_in(dir, "token", " hf_file\n", 9);
    setenv("HF_HOME", dir, 1);
    setenv("HF_ENDPOINT", "http://mirror//", 1);
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", "3", 1);
    setenv("TRANSFORMERS_OFFLINE", "True", 1);
    assert_int_equal(hub_environment_read(&h, &e), 0);
    assert_memory_equal(h.cache, dir, strlen(dir));
    assert_string_equal(h.cache + strlen(dir), "/hub");
    assert_string_equal(h.endpoint, "http://mirror");
    assert_string_equal(h.token, "hf_file");
    assert_true(h.offline);
    assert_int_equal(h.stall_seconds, 3);
    setenv("HF_HUB_CACHE", "~/c", 1);
    setenv("HF_TOKEN", "hf_env", 1);
    assert_int_equal(hub_environment_read(&h, &e), 0);
    assert_string_equal(h.cache, "/nowhere/home/c");
    assert_string_equal(h.token, "hf_env");
    setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
    assert_int_equal(hub_environment_read(&h, &e), 0);
    assert_string_equal(h.token, "");
    clear_environment();
}

static void variables_that_make_no_sense_are_named(void **state)
{
    static const char *const bad[][2] = {{"HF_ENDPOINT", "file:///etc"},
                                         {"HF_TOKEN", "a\r\nHost: b"},
                                         {"HF_TOKEN", "t\xc3\xb6ken"},
                                         {"HF_HUB_DOWNLOAD_TIMEOUT", "soon"},
                                         {"HF_HUB_ETAG_TIMEOUT", "0"}};
    static char longest[5000];
    struct hub_environment h;
    struct err e;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        clear_environment();
        setenv(bad[i][0], bad[i][1], 1);
        help_refused(hub_environment_read(&h, &e), ERR_INPUT, &e, bad[i][0], NULL);
    }
    clear_environment();
    memset(longest, 'x', sizeof(longest) - 1);
    setenv("HF_HOME", longest, 1);
    help_refused(hub_environment_read(&h, &e), ERR_INPUT, &e, "HF_HOME", "longer", NULL);
    clear_environment();
}

/* ---- without a hub ---- */

static int fetch_offline(void *arg, struct err *e)
{
    const struct hub_options o = {.want = HUB_MODEL};
    char out[HUB_CACHE_PATH_MAX];
    struct hub_name id;

    (void)arg;
    assert_true(hub_name_parse(&id, "org/name"));
    return hub_fetch(out, sizeof(out), &id, &o, e);
}

static void offline_only_a_whole_model_is_found(void **state)
{
    static const char index[] =
        "{\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}}";
    const struct hub_options text = {.want = HUB_TEXT};
    const char *dir = files_folder();
    char out[HUB_CACHE_PATH_MAX];
    struct hub_cache c;
    struct hub_name id;
    struct err e;

    clear_environment();
    setenv("HF_HUB_CACHE", dir, 1);
    setenv("HF_HUB_OFFLINE", "1", 1);
    c = must_open(dir);
    help_refused(fetch_offline(NULL, &e), ERR_INPUT, &e, "org/name", "HF_HUB_OFFLINE", "revision main", NULL);
    assert_int_equal(hub_cache_set_commit(&c, "main", COMMIT, &e), 0);
    help_refused(fetch_offline(NULL, &e), ERR_INPUT, &e, "HF_HUB_OFFLINE", "config.json", NULL);
    put_file(&c, "config.json", "01", "{}");
    help_refused(fetch_offline(NULL, &e), ERR_INPUT, &e, "lacks the weights", NULL);
    put_file(&c, "model.safetensors.index.json", "02", index);
    put_file(&c, "model-1.safetensors", "03", "x");
    help_refused(fetch_offline(NULL, &e), ERR_INPUT, &e, "lacks model-2.safetensors", NULL);
    put_file(&c, "model-2.safetensors", "04", "x");
    assert_int_equal(fetch_offline(NULL, &e), 0);
    help_every_allocation(fetch_offline, NULL);
    assert_true(hub_name_parse(&id, "org/name@" COMMIT));
    help_refused(hub_fetch(out, sizeof(out), &id, &text, &e), ERR_INPUT, &e, "lacks a tokenizer", NULL);
    put_file(&c, "tokenizer.json", "05", "{}");
    assert_int_equal(hub_fetch(out, sizeof(out), &id, &text, &e), 0);
    assert_string_equal(strrchr(out, '/') + 1, COMMIT);
    unsetenv("HF_HUB_OFFLINE"); /* No request is sent for a commit that is complete. */
    setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1);
    assert_int_equal(hub_fetch(out, sizeof(out), &id, &(struct hub_options){.want = HUB_MODEL}, &e), 0);
    clear_environment();
}

static int read_list(void *arg, struct err *e)
{
    static const char text[] =
        "{\"sha\":\"" COMMIT "\",\"siblings\":[{\"rfilename\":\"a\"},{\"rfilename\":\"\\u0062\"}]}";
    struct hub_list l;
    int rc = hub_list_read(&l, text, sizeof(text) - 1, "hub", e);

    (void)arg;
    hub_list_close(&l);
    return rc;
}

static void every_failed_allocation_is_an_error(void **state)
{
    help_every_allocation(read_list, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configs_of_modules_are_taken_from_their_folders),
        cmocka_unit_test(names_and_revisions_are_told_from_paths),
        cmocka_unit_test(a_file_is_one_folder_deep_at_most),
        cmocka_unit_test(revisions_that_no_repository_has_are_refused),
        cmocka_unit_test(a_revision_is_one_segment_of_an_address),
        cmocka_unit_test(names_that_lead_out_of_the_folder_are_left_out),
        cmocka_unit_test(answers_that_are_no_list_are_refused),
        cmocka_unit_test(safetensors_come_before_pickles),
        cmocka_unit_test(of_subfolders_only_chat_templates_are_listed),
        cmocka_unit_test(a_gguf_is_found_by_its_name_or_its_kind),
        cmocka_unit_test(a_gguf_in_a_folder_is_found),
        cmocka_unit_test(an_etag_becomes_a_plain_name),
        cmocka_unit_test(the_layout_is_hugging_faces),
        cmocka_unit_test(refs_are_remembered_and_only_commits_believed),
        cmocka_unit_test(hashes_are_git_and_sha256),
        cmocka_unit_test(a_lock_is_held_by_one),
        cmocka_unit_test(what_all_models_share_may_be_linked_to),
        cmocka_unit_test(links_of_two_threads_end_at_their_own_blobs),
        cmocka_unit_test(the_environment_is_read_as_huggingface_hub_does),
        cmocka_unit_test(variables_that_make_no_sense_are_named),
        cmocka_unit_test(offline_only_a_whole_model_is_found),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
