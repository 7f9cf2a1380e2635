/* fuzz_chat.c - a hostile tokenizer_config.json: its tokens and templates are read from a folder, and one
 * conversation is rendered. Nothing may be leaked. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "text/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64], file[128];

static void remove_folder(void)
{
    unlink(file);
    rmdir(folder);
}

static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "fuzz-chat-%ld", (long)getpid());
    snprintf(file, sizeof(file), "%s/tokenizer_config.json", folder);
    if (mkdir(folder, 0700) != 0)
        abort();
    atexit(remove_folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char request[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"reasoning\":\"r\"}],\"tools\":[{}]}";
    const struct tm now = {.tm_year = 126, .tm_mday = 1};
    struct err e = {0};
    struct chat *c;
    struct buf out;
    json_t *q, *variables;
    int fd;

    if (!folder[0])
        make_folder();
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
    buf_init(&out, MEM_TEXT);
    if (chat_open(&c, folder_at(folder), &e) == 0) {
        q = json_loads(request, 0, NULL);
        if (q && size < 400 && chat_variables(c, q, true, &variables, &e) == 0) {
            chat_render(c, NULL, variables, NULL, &now, &out, NULL,
                        &e); /* Another fuzzer renders long templates. */
            json_decref(variables);
        }
        json_decref(q);
    }
    chat_close(c);
    buf_fini(&out);
    if (mem_live_blocks())
        abort();
    return 0;
}
