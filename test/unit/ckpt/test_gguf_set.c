/* test_gguf_set.c - paths that name GGUF files, files in several parts, and their weights and configs. */
#include "ckpthelp.h"
#include "text/chat.h"

#include <sys/inotify.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "ckpt/config.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/weights.h"
#include "ggufwrite.h"

enum { HIDDEN = 8, HEADS = 2 };

static void put_llama(struct ggufwrite *w)
{
    ggufwrite_init(w);
    ggufwrite_str(w, "general.architecture", "llama");
    ggufwrite_u32(w, "llama.block_count", 1);
    ggufwrite_u32(w, "llama.context_length", 32);
    ggufwrite_u32(w, "llama.embedding_length", HIDDEN);
    ggufwrite_u32(w, "llama.feed_forward_length", 16);
    ggufwrite_u32(w, "llama.attention.head_count", HEADS);
}

static void put_split(struct ggufwrite *w, uint32_t no, uint32_t count, uint32_t tensors)
{
    ggufwrite_u32(w, "split.no", no);
    ggufwrite_u32(w, "split.count", count);
    ggufwrite_u32(w, "split.tensors.count", tensors);
}

/* Writes x-00001-of-00002.gguf and x-00002-of-00002.gguf into DIR. */
static void write_pair(const char *dir, uint32_t second_no, uint32_t stated)
{
    struct ggufwrite w;

    put_llama(&w);
    put_split(&w, 0, 2, stated);
    ggufwrite_f32_tensor(&w, "token_embd.weight", (const size_t[]){4, HIDDEN, 0}, NULL);
    ggufwrite_file(&w, dir, "x-00001-of-00002.gguf");
    ggufwrite_fini(&w);
    ggufwrite_init(&w);
    put_split(&w, second_no, 2, stated);
    ggufwrite_f32_tensor(&w, "output_norm.weight", (const size_t[]){HIDDEN, 0}, NULL);
    ggufwrite_file(&w, dir, "x-00002-of-00002.gguf");
    ggufwrite_fini(&w);
}

static void write_one(const char *dir, const char *name)
{
    struct ggufwrite w;

    put_llama(&w);
    ggufwrite_f32_tensor(&w, "token_embd.weight", (const size_t[]){4, HIDDEN, 0}, NULL);
    ggufwrite_file(&w, dir, name);
    ggufwrite_fini(&w);
}

static bool means(const char *dir, const char *name, int *rc, struct err *e)
{
    char path[300];

    snprintf(path, sizeof(path), "%s%s%s", dir, *name ? "/" : "", name);
    return gguf_set_means(folder_at(path), rc, e);
}

static void a_file_or_a_lonely_file_in_a_folder_means_gguf(void **state)
{
    const char *dir = files_folder();
    struct err e;
    int rc;

    assert_false(means(dir, "", &rc, &e));
    write_one(dir, "m.gguf");
    assert_true(means(dir, "m.gguf", &rc, &e) && rc == 0);
    assert_true(means(dir, "not-there.gguf", &rc, &e) && rc == 0);
    assert_true(means(dir, "", &rc, &e) && rc == 0);
    assert_false(means(dir, "m.safetensors", &rc, &e));
    write_one(dir, "sha256-0f"); /* Some stores name files by their hash. */
    assert_true(means(dir, "sha256-0f", &rc, &e) && rc == 0);
    files_write_in(dir, "GGU", "GGU", 3);
    assert_false(means(dir, "GGU", &rc, &e));
    write_one(dir, "n.gguf");
    assert_true(means(dir, "", &rc, &e));
    help_refused(rc, ERR_INPUT, &e, dir, "2 .gguf files", NULL);
    files_write_in(dir, "config.json", "{}", 2);
    assert_false(means(dir, "", &rc, &e));
}

static void parts_are_opened_together_from_any_of_them(void **state)
{
    static const char *const names[] = {"/x-00001-of-00002.gguf", "/x-00002-of-00002.gguf", ""};
    struct checkpoint c;
    const char *dir = files_folder();
    char path[128];
    struct weights *w;
    struct err e;

    write_pair(dir, 1, 2);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s%s", dir, names[i]);
        if (checkpoint_open(&c, folder_at(path), &e) != 0 || checkpoint_weights(&w, &c, &e) != 0)
            fail_msg("%s", e.msg);
        assert_string_equal(weights_kind(w), "GGUF, 2 shards");
        assert_int_equal(weights_unused(w, NULL, 0), 2);
        assert_non_null(weights_get(w, "model.embed_tokens.weight"));
        assert_non_null(strstr(weights_get(w, "model.norm.weight")->file, "x-00002"));
        weights_close(w);
        checkpoint_close(&c);
    }
}

static void parts_that_do_not_fit_are_refused_by_name(void **state)
{
    const char *dir = files_folder();
    char path[128], other[128];
    struct gguf_set s;
    struct err e;

    snprintf(path, sizeof(path), "%s/x-00001-of-00002.gguf", dir);
    write_pair(dir, 0, 2);
    help_refused(gguf_set_open(&s, folder_at(path), &e), ERR_INPUT, &e, "x-00002-of-00002.gguf",
                 "split.no is 0", NULL);
    write_pair(dir, 1, 3);
    help_refused(gguf_set_open(&s, folder_at(path), &e), ERR_INPUT, &e, "split.tensors.count is 3",
                 "2 tensors", NULL);
    snprintf(other, sizeof(other), "%s/x-00002-of-00002.gguf", dir);
    assert_int_equal(remove(other), 0);
    help_refused(gguf_set_open(&s, folder_at(path), &e), ERR_OS, &e, "x-00002-of-00002.gguf", NULL);
    write_pair(dir, 1, 2);
    snprintf(other, sizeof(other), "%s/renamed.gguf", dir);
    assert_int_equal(rename(path, other), 0);
    help_refused(gguf_set_open(&s, folder_at(other), &e), ERR_INPUT, &e, "renamed.gguf", "split.count is 2",
                 NULL);
}

static void a_file_without_a_tokenizer_says_so(void **state)
{
    const char *dir = files_folder();
    char path[128];
    struct checkpoint c;
    struct tok *t;
    struct err e;

    write_one(dir, "m.gguf");
    snprintf(path, sizeof(path), "%s/m.gguf", dir);
    assert_int_equal(checkpoint_open(&c, folder_at(path), &e), 0);
    assert_false(checkpoint_has_tokenizer(&c));
    help_refused(checkpoint_tokenizer(&t, &c, &e), ERR_INPUT, &e, path, "no tokenizer", NULL);
    checkpoint_close(&c);
}

static int open_all(void *arg, struct err *e)
{
    struct weights *w = NULL;
    struct config *c = NULL;
    struct chat *chat = NULL;
    const struct buf *text;
    struct checkpoint from;
    int rc = checkpoint_open(&from, folder_at(arg), e);

    if (rc == 0 && (rc = checkpoint_config(&c, &from, e)) == 0 &&
        (rc = checkpoint_weights(&w, &from, e)) == 0 && (rc = checkpoint_let_go(&from, e)) == 0 &&
        (rc = checkpoint_chat(&chat, &from, e)) == 0)
        rc = checkpoint_generation(&text, &from, e);
    chat_close(chat);
    config_close(c);
    weights_close(w);
    checkpoint_close(&from);
    return rc;
}

/* Returns how often a file of DIR was opened since INOTIFY was created. */
static size_t count_opened(int inotify)
{
    _Alignas(struct inotify_event) char bytes[8192];
    ssize_t n = read(inotify, bytes, sizeof(bytes));
    size_t count = 0;

    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *ev = (const void *)(bytes + at);

        count += !(ev->mask & IN_ISDIR);
        at += (ssize_t)(sizeof(*ev) + ev->len);
    }
    return count;
}

static void the_files_are_opened_once_whatever_is_taken_from_them(void **state)
{
    int inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    struct err e = {0};
    const char *dir = files_folder();

    assert_true(inotify >= 0);
    write_pair(dir, 1, 2);
    assert_true(inotify_add_watch(inotify, dir, IN_OPEN) >= 0);
    if (open_all((void *)dir, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(count_opened(inotify), 2); /* Each part is opened once. */
    close(inotify);
}

static void texts_stay_when_the_files_are_let_go_and_gone(void **state)
{
    const char *dir = files_folder();
    char path[128];
    const struct buf *text;
    struct checkpoint c;
    struct chat *chat;
    struct err e;

    write_one(dir, "m.gguf");
    snprintf(path, sizeof(path), "%s/m.gguf", dir);
    assert_int_equal(checkpoint_open(&c, folder_at(path), &e), 0);
    assert_int_equal(checkpoint_let_go(&c, &e), 0);
    assert_int_equal(remove(path), 0);
    assert_int_equal(checkpoint_chat(&chat, &c, &e), 0);
    assert_int_equal(checkpoint_generation(&text, &c, &e), 0);
    assert_string_equal(text->data, "{}");
    chat_close(chat);
    checkpoint_close(&c);
}

static void every_allocation_may_fail(void **state)
{
    const char *dir = files_folder();

    /* The program sets the same functions, so that allocations of jansson fail as well. */
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    write_pair(dir, 1, 2);
    help_every_allocation(open_all, (void *)dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_or_a_lonely_file_in_a_folder_means_gguf),
        cmocka_unit_test(parts_are_opened_together_from_any_of_them),
        cmocka_unit_test(parts_that_do_not_fit_are_refused_by_name),
        cmocka_unit_test(a_file_without_a_tokenizer_says_so),
        cmocka_unit_test(the_files_are_opened_once_whatever_is_taken_from_them),
        cmocka_unit_test(texts_stay_when_the_files_are_let_go_and_gone),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests_name("ckpt/gguf_set", tests, NULL, NULL);
}
