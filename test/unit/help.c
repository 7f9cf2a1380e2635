/* help.c - see help.h. */
#include "help.h"

#include <unistd.h>

#include "base/mem.h"

void help_refused(int rc, int code, const struct err *e, ...)
{
    const char *word;
    va_list ap;

    if (rc != code)
        fail_msg("code %d instead of %d: %s", rc, code, rc ? e->msg : "");
    assert_int_equal(e->code, code);
    va_start(ap, e);
    while ((word = va_arg(ap, const char *)) != NULL)
        if (!strstr(e->msg, word))
            fail_msg("\"%s\" does not say \"%s\"", e->msg, word);
    va_end(ap);
}

void help_every_allocation(int (*open)(void *arg, struct err *e), void *arg)
{
    size_t blocks = mem_live_blocks(), bytes = mem_live_bytes();
    bool failed;
    struct err e;
    int rc;

    for (long n = 1;; n++) {
        mem_fail_at(n);
        rc = open(arg, &e);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(mem_live_blocks(), blocks);
        assert_int_equal(mem_live_bytes(), bytes);
        if (rc == 0) {
            assert_true(n > 1 && !failed);
            return;
        }
        if (rc != ERR_NOMEM)
            fail_msg("allocation %ld: %s", n, e.msg);
    }
}

static struct {
    FILE *file;
    int error; /* the standard error of the program */
} heard;

void help_listen(void)
{
    heard.file = tmpfile();
    heard.error = dup(STDERR_FILENO);
    assert_true(heard.file && heard.error >= 0);
    dup2(fileno(heard.file), STDERR_FILENO);
}

const char *help_said(void)
{
    static char text[2048];
    ssize_t n = pread(fileno(heard.file), text, sizeof(text) - 1, 0);

    dup2(heard.error, STDERR_FILENO);
    close(heard.error);
    fclose(heard.file);
    text[n > 0 ? n : 0] = 0;
    return text;
}
