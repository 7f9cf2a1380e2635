/* pretokre.c - PCRE2 10.42, UTF and UCP, multi-line anchors, newline = LF.
 *
 * Texts are proved to be UTF-8 before they come here, so matches run without PCRE2's own check. The JIT stack
 * grows to 16 MiB (the default of 32 KiB fails on long runs of one character); the match limit turns a
 * pattern that backtracks without end into an error. Without JIT (a kernel that forbids executable pages) the
 * interpreter does the same work.
 */
#include "text/pretokre.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"
#include "text/pretokonig.h"

enum {
    JIT_STACK_FIRST = 64 << 10,
    JIT_STACK_MOST = 16 << 20,
    MATCH_LIMIT = 50000000,
    HEAP_LIMIT_KB = 256 << 10
};

struct pretokre {
    pcre2_code *code;
    bool jit;
    char *source; /* as given */
    size_t n_source;
};

struct pretokre_work {
    pcre2_general_context *general;
    pcre2_match_context *match;
    pcre2_match_data *data;
    pcre2_jit_stack *stack;
};

static void *hook_alloc(size_t bytes, void *unused)
{
    (void)unused;
    return mem_lib_alloc(bytes);
}

static void hook_free(void *p, void *unused)
{
    (void)unused;
    mem_free(p);
}

static int compile(struct pretokre *r, const char *pattern, size_t n, struct err *e)
{
    pcre2_general_context *general = pcre2_general_context_create(hook_alloc, hook_free, NULL);
    pcre2_compile_context *cc = general ? pcre2_compile_context_create(general) : NULL;
    PCRE2_SIZE where = 0;
    PCRE2_UCHAR why[160];
    int code = PCRE2_ERROR_NOMEMORY, rc = 0;

    if (cc) {
        pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
        r->code =
            pcre2_compile((PCRE2_SPTR)pattern, n, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &where, cc);
    }
    if (!r->code && code == PCRE2_ERROR_NOMEMORY) {
        rc = err_nomem(e, "pattern");
    } else if (!r->code) {
        /* PCRE2 calls a failed allocation while compiling an error of its own, 121 */
        pcre2_get_error_message(code, why, sizeof(why));
        rc = code == PCRE2_ERROR_HEAP_FAILED
                 ? err_nomem(e, "pattern")
                 : err_set(e, ERR_UNSUPPORTED, "the pattern %.*s cannot be compiled: %s",
                           (int)(r->n_source < 300 ? r->n_source : 300), r->source, (const char *)why);
    } else {
        r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    }
    pcre2_compile_context_free(cc);
    pcre2_general_context_free(general);
    return rc;
}

int pretokre_new(struct pretokre **out, const char *pattern, size_t n, bool onig, struct err *e)
{
    struct pretokre *r = mem_zalloc(1, sizeof(*r), MEM_TEXT);
    struct buf translated = {.tag = MEM_TEXT};
    int rc = 0;

    *out = NULL;
    if (!r || !(r->source = mem_strndup(pattern, n, MEM_TEXT))) {
        mem_free(r);
        return err_nomem(e, "pattern");
    }
    r->n_source = n;
    if (onig) {
        rc = pretokonig_translate(pattern, n, &translated, e);
        if (rc == 0)
            rc = compile(r, translated.data ? translated.data : "", translated.len, e);
    } else {
        rc = compile(r, pattern, n, e);
    }
    buf_fini(&translated);
    if (rc)
        pretokre_free(r);
    else
        *out = r;
    return rc;
}

void pretokre_free(struct pretokre *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    mem_free(r->source);
    mem_free(r);
}

bool pretokre_same(const struct pretokre *r, const char *pattern, size_t n)
{
    return r->n_source == n && memcmp(r->source, pattern, n) == 0;
}

struct pretokre_work *pretokre_work_new(void)
{
    struct pretokre_work *w = mem_zalloc(1, sizeof(*w), MEM_TEXT);

    if (!w)
        return NULL;
    w->general = pcre2_general_context_create(hook_alloc, hook_free, NULL);
    if (w->general) {
        w->match = pcre2_match_context_create(w->general);
        w->data = pcre2_match_data_create(1, w->general);
        w->stack =
            pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, w->general); /* NULL: no JIT here */
    }
    if (!w->match || !w->data) {
        pretokre_work_free(w);
        return NULL;
    }
    pcre2_set_match_limit(w->match, MATCH_LIMIT);
    pcre2_set_heap_limit(w->match, HEAP_LIMIT_KB);
    pcre2_jit_stack_assign(w->match, NULL, w->stack);
    return w;
}

void pretokre_work_free(struct pretokre_work *w)
{
    if (!w)
        return;
    pcre2_jit_stack_free(w->stack);
    pcre2_match_data_free(w->data);
    pcre2_match_context_free(w->match);
    pcre2_general_context_free(w->general);
    mem_free(w);
}

void pretokre_start(struct pretokre_iter *it, const struct pretokre *re, struct pretokre_work *work,
                    const char *s, size_t n)
{
    *it = (struct pretokre_iter){.re = re, .work = work, .s = n ? s : "", .n = n};
}

static int failed(const struct pretokre *re, int code, struct err *e)
{
    PCRE2_UCHAR why[160];

    if (code == PCRE2_ERROR_NOMEMORY)
        return -err_nomem(e, "pattern matching");
    pcre2_get_error_message(code, why, sizeof(why));
    return -err_set(e, ERR_INPUT, "the pattern %.*s gives up on this text: %s",
                    (int)(re->n_source < 300 ? re->n_source : 300), re->source, (const char *)why);
}

int pretokre_next(struct pretokre_iter *it, size_t *begin, size_t *end, struct err *e)
{
    const struct pretokre_work *w = it->work;
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(w->data);

    while (it->at <= it->n) {
        int code = it->re->jit && w->stack
                       ? pcre2_jit_match(it->re->code, (PCRE2_SPTR)it->s, it->n, it->at, 0, w->data, w->match)
                       : pcre2_match(it->re->code, (PCRE2_SPTR)it->s, it->n, it->at, PCRE2_NO_UTF_CHECK,
                                     w->data, w->match);

        if (code == PCRE2_ERROR_NOMATCH)
            return 0;
        if (code < 0)
            return failed(it->re, code, e);
        if (range[0] != range[1] || !it->any || it->last != range[1]) {
            *begin = range[0];
            *end = it->at = it->last = range[1];
            it->any = true;
            return 1;
        }
        do /* an empty match behind the last one: try again one character on */
            it->at++;
        while (it->at < it->n && ((unsigned char)it->s[it->at] & 0xc0) == 0x80);
    }
    return 0;
}
