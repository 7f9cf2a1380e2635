/* test_plugin_file.c - shared libraries that were cut short: loading one of them would end the process. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "base/err.h"
#include "engine/pjrt/plugin_file.h"
#include "files.h"

static char *library;
static size_t length;

static int read_library(void **state)
{
    library = files_read(FAKE_PJRT, &length);
    assert_true(library && length > 4096);
    return 0;
}

static int free_library(void **state)
{
    free(library);
    return 0;
}

/* Returns the offset behind the last byte of the segments. */
static size_t end_of_segments(void)
{
    const ElfW(Ehdr) *head = (const void *)library;
    const ElfW(Phdr) *segment = (const void *)(library + head->e_phoff);
    size_t end = 0;

    for (size_t i = 0; i < head->e_phnum; i++)
        if (segment[i].p_type == PT_LOAD && segment[i].p_offset + segment[i].p_filesz > end)
            end = segment[i].p_offset + segment[i].p_filesz;
    return end;
}

static void expect(const char *what, int code, const char *says)
{
    struct err e = {0};
    int rc = plugin_file_check("./cut.so", &e);

    if (rc != code || !strstr(e.msg, says))
        fail_msg("%s: code %d: %s", what, rc, e.msg);
}

/* What passes the check can be given to dlopen(), which refuses it with a sentence or loads it. */
static void a_library_that_was_cut_short_is_refused(void **state)
{
    const size_t end = end_of_segments(),
                 cut[] = {0, 3, 63, 64, 65, 500, 4096, end / 2, end - 1, end, end + 1, length};
    char says[100];

    for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
        bool is_head = cut[i] < sizeof(ElfW(Ehdr)), is_cut = !is_head && cut[i] < end;

        files_write("cut.so", library, cut[i]);
        snprintf(says, sizeof(says), "pjrt: ./cut.so is cut short: it has %zu bytes, but", cut[i]);
        expect("cut", is_cut ? ERR_INPUT : 0, is_cut ? says : "");
        if (!is_cut) {
            void *loaded = dlopen("./cut.so", RTLD_NOW | RTLD_LOCAL);

            assert_int_equal(loaded != NULL, cut[i] >= end);
            if (loaded)
                dlclose(loaded);
        }
    }
}

static void numbers_of_the_head_are_checked(void **state)
{
    ElfW(Ehdr) *head = (void *)library, good = *head;
    ElfW(Phdr) *segment = (void *)(library + head->e_phoff), first = *segment;

    for (int what = 0; what < 4; what++) {
        head->e_phoff = what == 0 ? UINT64_MAX - 8 : what == 1 ? length : good.e_phoff;
        segment->p_type = PT_LOAD;
        segment->p_offset = what == 2 ? UINT64_MAX - 8 : what == 3 ? length - 1 : first.p_offset;
        segment->p_filesz = what >= 2 ? 16 : first.p_filesz;
        files_write("cut.so", library, length);
        expect("a wrong number", ERR_INPUT, "is cut short");
        *head = good;
        *segment = first;
    }
}

static void what_is_no_library_is_left_to_the_loader(void **state)
{
    struct err e = {0};

    files_write("cut.so", "no library, but a text that is longer than the head of one, so that it is read",
                78);
    expect("a text", 0, "");
    assert_int_equal(plugin_file_check("./missing.so", &e), 0);
    assert_int_equal(plugin_file_check("/dev/zero", &e), 0);
    assert_int_equal(plugin_file_check("/", &e), 0);
    files_write("cut.so", library, 500);
    assert_int_equal(plugin_file_check("cut.so", &e), 0); /* a name that the loader looks for elsewhere */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_was_cut_short_is_refused),
        cmocka_unit_test(numbers_of_the_head_are_checked),
        cmocka_unit_test(what_is_no_library_is_left_to_the_loader),
    };

    return cmocka_run_group_tests(tests, read_library, free_library);
}
