/* jinjacase.c - see jinjacase.h. */
#include "jinjacase.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/files/folder.h"
#include "base/json/json_pull.h"
#include "text/jinja/jinja.h"

const struct tm jinjacase_now = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_hour = 12};

const char *jinjacase_path(const char *name)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/test/data/templates/%s", GALLOP_SOURCE_DIR, name);
    return path;
}

char *jinjacase_read(const char *name, size_t *n)
{
    struct folder_text t;
    struct err e = {0};

    if (folder_read(&t, folder_at(jinjacase_path(name)), NULL, NULL, &e) != 0)
        fail_msg("%s", e.msg);
    *n = t.len;
    return t.bytes;
}

/* Renders J with the members of a JSON text of N bytes as variables. */
static int render(const struct jinja *j, const char *text, size_t n, struct buf *out, struct err *e)
{
    json_t *variables;
    int rc;

    assert_int_equal(json_pull_load_exact(&variables, text, n, "variables", NULL), 0);
    rc = jinja_render(j, variables, &jinjacase_now, NULL, out, e);
    json_decref(variables);
    return rc;
}

int jinjacase_render(const char *template, const char *variables, struct buf *out, struct err *e)
{
    struct jinja *j;
    int rc;

    buf_init(out, MEM_TEXT);
    rc = jinja_parse(&j, template, strlen(template), "t", NULL, e);
    if (rc == 0)
        rc = render(j, variables, strlen(variables), out, e);
    jinja_free(j);
    return rc;
}

/* Runs one case: a template and the expected text S. If S is NULL, the template must be refused with a
 * message that contains REFUSED. */
struct expected {
    struct json_str template, output, refused;
};

static void read_case(struct json_pull *j, struct expected *x)
{
    struct json_str key;

    *x = (struct expected){.output = {NULL, 0}, .refused = {"", 0}};
    for (json_pull_enter_object(j); json_pull_key(j, &key);) {
        if (json_str_is(&key, "template"))
            json_pull_string(j, &x->template);
        else if (json_str_is(&key, "output"))
            json_pull_string(j, &x->output);
        else if (json_str_is(&key, "refused"))
            json_pull_string(j, &x->refused);
        else
            json_pull_skip(j);
    }
}

static bool run_case(const struct expected *x, const struct json_str *variables, bool show)
{
    struct buf out = {.tag = MEM_TEXT};
    struct err e = {0};
    struct jinja *j;
    int rc = jinja_parse(&j, x->template.s, x->template.n, "t", NULL, &e);
    bool good;

    if (rc == 0)
        rc = render(j, variables->s, variables->n, &out, &e);
    jinja_free(j);
    good = x->output.s ? rc == 0 && out.len == x->output.n &&
                             memcmp(out.data ? out.data : "", x->output.s, out.len) == 0
                       : rc == ERR_INPUT && memmem(e.msg, strlen(e.msg), x->refused.s, x->refused.n);
    if (!good && show)
        print_error("%.*s\n  gives %s\n  not   %.*s\n", (int)x->template.n, x->template.s,
                    rc         ? e.msg
                    : out.data ? out.data
                               : "",
                    (int)(x->output.s ? x->output.n : x->refused.n),
                    x->output.s ? x->output.s : x->refused.s);
    buf_fini(&out);
    return good;
}

size_t jinjacase_run(const char *text, size_t n, size_t *n_cases, bool show)
{
    struct json_str key, variables = {"{}", 2};
    struct arena arena;
    struct err e = {0};
    struct json_pull j;
    size_t bad = 0;

    *n_cases = 0;
    arena_init(&arena, MEM_TEXT);
    assert_int_equal(json_pull_open(&j, text, n, "fixture", &arena, &e), 0);
    for (json_pull_enter_object(&j); json_pull_key(&j, &key);) {
        if (json_str_is(&key, "context")) {
            variables = json_pull_raw(&j);
        } else if (json_str_is(&key, "cases")) {
            for (json_pull_enter_array(&j); json_pull_elem(&j); ++*n_cases) {
                struct expected x;

                read_case(&j, &x);
                bad += !run_case(&x, &variables, show);
            }
        } else {
            json_pull_skip(&j);
        }
    }
    if (json_pull_finish(&j) != 0)
        fail_msg("%s", e.msg);
    arena_fini(&arena);
    return bad;
}

bool jinjacase_gives(const char *template, const char *variables, const char *text)
{
    struct err e = {0};
    struct buf out;
    int rc = jinjacase_render(template, variables, &out, &e);
    bool same = rc == 0 && out.len == strlen(text) && memcmp(out.data ? out.data : "", text, out.len) == 0;

    if (!same)
        print_error("%s\n  gives %s\n  not   %s\n", template, rc ? e.msg : out.data ? out.data : "", text);
    buf_fini(&out);
    return same;
}

bool jinjacase_refused(const char *template, const char *variables, const char *words)
{
    struct err e = {0};
    struct buf out;
    int rc = jinjacase_render(template, variables, &out, &e);
    bool good = rc == ERR_INPUT && strstr(e.msg, words) && out.len == 0;

    if (!good)
        print_error("%s\n  gives %s\n  not an error with '%s'\n", template,
                    rc         ? e.msg
                    : out.data ? out.data
                               : "",
                    words);
    buf_fini(&out);
    return good;
}
