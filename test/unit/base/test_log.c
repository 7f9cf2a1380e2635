/* test_log.c - lines of the log: what is escaped, replaced and cut in both formats; each line is one write,
 * also if several threads log. Standard error is a socket here, and each of its packets is one write. */
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"

static int end, old; /* the other end of standard error, and the original standard error */

static int redirect(void **state)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
        return -1;
    old = dup(STDERR_FILENO);
    dup2(pair[1], STDERR_FILENO);
    close(pair[1]);
    end = pair[0];
    log_set_level(LOG_INFO);
    return 0;
}

static int restore(void **state)
{
    dup2(old, STDERR_FILENO);
    close(old);
    close(end);
    log_set_level(LOG_WARN);
    log_set_format(LOG_TEXT);
    return 0;
}

/* Returns the next write, or "" if there is none. */
static const char *next(void)
{
    static char text[16384];
    ssize_t n = recv(end, text, sizeof(text) - 1, MSG_DONTWAIT);

    text[n > 0 ? n : 0] = 0;
    return text;
}

/* Returns the next write, which must be one line of JSON. */
static json_t *next_json(void)
{
    const char *text = next();
    json_error_t e;
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, &e);

    if (!json_is_object(o) || strlen(text) > PIPE_BUF || strchr(text, '\n') != text + strlen(text) - 1)
        fail_msg("%s: %.200s", o ? "no line" : e.text, text);
    return o;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    if (!text)
        fail_msg("there is no text \"%s\"", key);
    return text;
}

static void a_line_of_text_is_one_line(void **state)
{
    log_info("%s", "one\ntwo\tthree \x1b[31mred\x07 \xff\xc3\xa4 \"\\");
    assert_string_equal(next(), "gallop: one\\ntwo\\tthree ?[31mred? ?\xc3\xa4 \"\\\n");
    log_warn("%d", 1);
    assert_string_equal(next(), "gallop: warning: 1\n");
    log_fields(LOG_INFO, (const struct log_field[]){{"a", "x", 0, 0}}, 1, "for people");
    assert_string_equal(next(), "gallop: for people\n");
    log_set_level(LOG_ERROR);
    log_warn("not said");
    assert_string_equal(next(), "");
}

static void a_line_of_a_server_begins_with_the_time(void **state)
{
    const char *said;
    char before[24], after[24];
    time_t now = time(NULL);

    strftime(before, sizeof(before), "%Y-%m-%dT%H:%M:%S", gmtime(&now));
    log_set_format(LOG_TIMED);
    log_warn("%s", "one\ntwo");
    said = next();
    now = time(NULL);
    strftime(after, sizeof(after), "%Y-%m-%dT%H:%M:%S", gmtime(&now));
    assert_true(strncmp(said, before, 19) >= 0 && strncmp(said, after, 19) <= 0);
    assert_true(said[19] == '.' && strspn(said + 20, "0123456789") == 3);
    assert_string_equal(said + 23, "Z gallop: warning: one\\ntwo\n");
    log_set_format(LOG_TEXT);
}

static void a_line_of_json_is_an_object(void **state)
{
    static const struct log_field fields[] = {{"client", "1.2.3.4", 0, 0},
                                              {"path", "/a\"b\\c\n\x1b\xff", 0, 0},
                                              {"status", NULL, 200, 0},
                                              {"seconds", NULL, 0.1234567, 6}};
    json_t *o;

    log_set_format(LOG_JSON);
    log_fields(LOG_INFO, fields, 4, "a \"quoted\" \\ line\n%s", "\x01 end");
    o = next_json();
    assert_string_equal(text_of(o, "level"), "info");
    assert_string_equal(text_of(o, "message"), "a \"quoted\" \\ line\n? end");
    assert_string_equal(text_of(o, "client"), "1.2.3.4");
    assert_string_equal(text_of(o, "path"), "/a\"b\\c\n??");
    assert_int_equal(json_integer_value(json_object_get(o, "status")), 200);
    assert_true(json_real_value(json_object_get(o, "seconds")) == 0.123457);
    assert_int_equal(strlen(text_of(o, "time")), strlen("2026-01-31T12:00:00.000Z"));
    json_decref(o);
}

/* Returns S repeated N times. */
static char *repeated(const char *s, size_t n)
{
    size_t len = strlen(s);
    char *text = malloc(n * len + 1);

    for (size_t i = 0; i < n; i++)
        memcpy(text + i * len, s, len);
    text[n * len] = 0;
    return text;
}

static void what_is_too_long_is_cut_and_stays_a_line(void **state)
{
    static const char *const parts[] = {"x", "\"", "\\", "\n", "\xc3\xa4", "\xf0\x9f\x98\x80", "\xff"};
    struct log_field fields[40];

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (size_t n = 2030; n < 2060; n += 1 + (n < 2040 || n > 2050)) {
            char *text = repeated(parts[i], n);
            const char *said;
            json_t *o;

            log_set_format(LOG_TEXT);
            log_info("%s", text);
            said = next();
            assert_true(strlen(said) > 1000 && strlen(said) <= PIPE_BUF);
            assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
            log_set_format(LOG_JSON);
            for (int k = 0; k < 40; k++)
                fields[k] =
                    k % 2 ? (struct log_field){"text", text, 0, 0} : (struct log_field){"x", NULL, 1e300, 9};
            for (size_t k = 0; k <= 2; k++) {
                log_fields(LOG_INFO, fields, k, "%s", text);
                o = next_json();
                assert_true(strlen(text_of(o, "message")) > 300);
                json_decref(o);
            }
            log_fields(LOG_INFO, fields, 40, "%s", text);
            said = next();
            assert_true(strlen(said) <= PIPE_BUF && strstr(said, "\"message\":\""));
            o = json_loads(said, 0, NULL); /* The members appear twice. */
            assert_true(strlen(text_of(o, "message")) > 300);
            json_decref(o);
            free(text);
        }
}

static void *chatter(void *ctx)
{
    for (int i = 0; i < 200; i++)
        log_fields(LOG_INFO, (const struct log_field[]){{"who", ctx, 0, 0}, {"i", NULL, i, 0}}, 2,
                   "line %d of %s", i, (const char *)ctx);
    return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state)
{
    static char names[3][3] = {"a", "bb", "c"};
    int seen[3] = {0};
    pthread_t t[3];

    log_set_format(LOG_JSON);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, chatter, names[i]);
    for (int n = 0; n < 600;) {
        char wanted[40];
        json_t *o;
        int who;

        if (recv(end, wanted, 1, MSG_PEEK) != 1)
            continue;
        o = next_json();
        who = text_of(o, "who")[0] - 'a';
        snprintf(wanted, sizeof(wanted), "line %d of %s", seen[who]++, names[who]);
        assert_string_equal(text_of(o, "message"), wanted);
        json_decref(o);
        n++;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    assert_string_equal(next(), "");
}

static void where_nothing_can_be_said_work_goes_on(void **state)
{
    int full = open("/dev/full", O_WRONLY);

    dup2(full, STDERR_FILENO);
    close(full);
    log_error("nobody hears this");
    close(STDERR_FILENO);
    log_error("nor this");
}

/* A pipe without a reader takes lines until it is full. Further lines are dropped, which is logged when there
 * is room again. */
static void a_full_pipe_blocks_nobody(void **state)
{
    size_t n_written = 0, n_said = 5000, n_missing = 0;
    int pipes[2], other = dup(STDERR_FILENO);
    char text[8192], *note;
    ssize_t n;

    assert_int_equal(pipe(pipes), 0);
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    dup2(pipes[1], STDERR_FILENO);
    log_set_format(LOG_TEXT);
    log_set_dropping(true);
    for (size_t i = 0; i < n_said; i++)
        log_info("line %06zu of many that are said", i);
    while ((n = read(pipes[0], text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++)
            n_written += text[i] == '\n';
    assert_true(n_written > 100 && n_written < n_said);
    log_info("behind them");
    n = read(pipes[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = 0;
    note = strstr(text, "full: ");
    assert_true(note && sscanf(note, "full: %zu lines", &n_missing) == 1);
    assert_int_equal(n_written + n_missing, n_said);
    assert_string_equal(strchr(text, '\n'), "\ngallop: behind them\n");
    log_info("again");
    n = read(pipes[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = 0;
    assert_string_equal(text, "gallop: again\n");
    log_set_dropping(false);
    dup2(other, STDERR_FILENO);
    close(other);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, redirect, restore)
    const struct CMUnitTest tests[] = {TEST(a_line_of_text_is_one_line),
                                       TEST(a_line_of_a_server_begins_with_the_time),
                                       TEST(a_line_of_json_is_an_object),
                                       TEST(what_is_too_long_is_cut_and_stays_a_line),
                                       TEST(lines_of_several_threads_do_not_mix),
                                       TEST(where_nothing_can_be_said_work_goes_on),
                                       TEST(a_full_pipe_blocks_nobody)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
