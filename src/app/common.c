/* common.c - options to engine settings, errors to sentences, progress to a bar. */
#include "app/common.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/out.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/opconf.h"
#include "engine/sparse.h"
#include "net/http.h"

void common_init(void)
{
    json_set_alloc_funcs(mem_lib_alloc, mem_free);
    http_use_mem();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe shows as a write error */
    out_init();
}

int common_usage(const char *verb, const char *fmt, ...)
{
    struct err e = {0};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e.msg, sizeof(e.msg), fmt, ap);
    va_end(ap);
    log_error("%s: %s", verb, e.msg);
    return 2;
}

int common_fail(const struct err *e)
{
    out_flush(NULL);
    if (!out_reader_gone())
        log_error("%s", e->msg);
    return e->code == ERR_USAGE ? 2 : 1;
}

static void print_help(const char *verb, const char *tail, const struct opt_row *rows, size_t n)
{
    struct buf b;

    buf_init(&b, MEM_APP);
    buf_fmt(&b, "usage: gallop %s %s\n\n", verb, tail);
    opt_help(rows, n, &b);
    out_bytes(b.data, b.len);
    buf_fini(&b);
}

int common_parse(const char *verb, const char *tail, const struct opt_row *rows, size_t n, int argc,
                 char **argv, struct opt_values *v)
{
    struct err e = {0};

    if (opt_parse(rows, n, argc, argv, v, &e) != 0) {
        log_error("%s: %s", verb, e.msg);
        opt_fini(v);
        return 2;
    }
    if (opt_flag(v, OPT_HELP)) {
        print_help(verb, tail, rows, n);
        opt_fini(v);
        return 0;
    }
    if (opt_flag(v, OPT_QUIET))
        log_set_level(LOG_ERROR);
    return -1;
}

/* ---- where the model is ---- */

/* What is shown of a download: one line for the file that comes, in megabytes. */
struct fetch_bar {
    struct common_bar bar;
    char what[96];
};

static int show_fetch(void *ctx, const char *file, uint64_t done, uint64_t total)
{
    struct fetch_bar *f = ctx;
    char what[sizeof(f->what)];

    snprintf(what, sizeof(what), "fetching %.60s, MB", file);
    utf8_printable(what); /* the hub chose the name */
    if (strcmp(what, f->what) != 0) {
        common_bar_end(&f->bar);
        memcpy(f->what, what, sizeof(what));
    }
    common_progress(&f->bar, (size_t)(done / 1000000), (size_t)((total + 999999) / 1000000));
    return 0;
}

static const char *locate(const struct opt_values *v, enum hub_want want, char *buf, size_t size,
                          struct err *e)
{
    struct fetch_bar f = {.bar.quiet = opt_flag(v, OPT_QUIET), .what = ""};
    const struct locate_options o = {
        .revision = opt_string(v, OPT_REVISION), .want = want, .progress = show_fetch, .progress_ctx = &f};
    int rc;

    f.bar.what = f.what;
    rc = locate_model(buf, size, opt_string(v, OPT_MODEL), &o, e);
    common_bar_end(&f.bar);
    return rc ? NULL : buf;
}

static const char *beside(char *buf, size_t size, const char *exe, const char *rest)
{
    const char *slash = strrchr(exe, '/');

    if (!slash || (size_t)snprintf(buf, size, "%.*s/%s", (int)(slash - exe), exe, rest) >= size)
        return NULL;
    return access(buf, R_OK) == 0 ? buf : NULL;
}

const char *common_model(const struct opt_values *v, enum hub_want want, char *buf, size_t size,
                         struct err *e)
{
    static const char *const places[] = {"../models/demo", "../../models/demo",
                                         "../share/gallop/models/demo"};
    char exe[4096];
    ssize_t n;

    if (opt_string(v, OPT_MODEL))
        return locate(v, want, buf, size, e);
    if (opt_given(v, OPT_REVISION)) {
        err_set(e, ERR_USAGE, "--revision: no model is named (-m), and the demo model has no revisions");
        return NULL;
    }
    n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    exe[n > 0 ? n : 0] = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (beside(buf, size, exe, places[i]))
            return buf;
    err_set(e, ERR_INPUT, "no model is named (-m), and the demo model is not where the program looks for it");
    return NULL;
}

struct folder common_folder(const struct opt_values *v, const char *model)
{
    return (struct folder){.path = model, .allow_links = opt_flag(v, OPT_ALLOW_LINKS)};
}

/* ---- options ---- */

static int check_quant(const char *quant, struct err *e)
{
    static const char *const later[] = {"int8", "int8-static", "int4", "mxfp4"};

    if (!quant || strcmp(quant, "none") == 0)
        return 0;
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
        if (strcmp(quant, later[i]) == 0)
            return err_set(e, ERR_UNSUPPORTED, "--quant %s is not built in yet (none)", quant);
    return err_set(e, ERR_USAGE, "--quant: found '%s', expected none", quant);
}

/* What is wrong with the words of an option and does not depend on the model. The engine would say it too,
 * but to it an option is input like any other. */
static int check_words(const struct opt_values *v, struct err *e)
{
    int64_t block = opt_int(v, OPT_BLOCK_SIZE);
    const char *isa = opt_string(v, OPT_ISA);
    struct opconf ops = {0};
    struct sparse sparse;
    enum cpu_isa level;
    int rc;

    if (isa && !cpu_isa_of_name(isa, &level))
        return err_set(e, ERR_USAGE,
                       "--isa: found '%s', expected one of ref, avx2, avx512, avx512vnni, avx512bf16", isa);
    if (block & (block - 1))
        return err_set(e, ERR_USAGE, "--block-size: found %lld, expected a power of two", (long long)block);
    if ((rc = sparse_read(&sparse, opt_string(v, OPT_KV_SPARSE), e)) == 0) {
        rc = opconf_read(&ops, opt_string(v, OPT_OP_CONFIG), opt_string(v, OPT_ATTENTION), e);
        opconf_fini(&ops);
    }
    return rc == ERR_INPUT ? (e->code = ERR_USAGE) : rc;
}

/* Options of one kind of cache, beside another kind. */
static void say_idle_cache_options(const struct opt_values *v)
{
    static const struct {
        int opt;
        const char *name, *types;
        bool pooled;
    } own[] = {{OPT_BLOCK_SIZE, "block-size", "slab_pool and paged", true},
               {OPT_KV_LAYOUT, "kv-cache-layout", "slab_pool and paged", true},
               {OPT_BMC_SPLITS, "bmc-splits", "bmc", false}};
    const char *type = opt_string(v, OPT_KV_TYPE);

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (opt_source(v, own[i].opt) == OPT_GIVEN &&
            !(own[i].pooled ? kv_type_pooled(type) : strcmp(type, "bmc") == 0))
            log_warn("--%s changes nothing with --kv-cache-type %s; it is for %s", own[i].name, type,
                     own[i].types);
}

int common_options(const struct opt_values *v, struct gallop_options *o, char *path, size_t path_size,
                   struct err *e)
{
    int rc;

    gallop_options_init(o);
    if ((rc = check_quant(opt_string(v, OPT_QUANT), e)) != 0 || (rc = check_words(v, e)) != 0)
        return rc;
    o->model = common_model(v, HUB_MODEL, path, path_size, e);
    if (!o->model)
        return e->code;
    say_idle_cache_options(v);
    o->allow_links = opt_flag(v, OPT_ALLOW_LINKS);
    o->dtype = opt_string(v, OPT_DTYPE);
    o->kv_cache_type = opt_string(v, OPT_KV_TYPE);
    o->kv_cache_dtype = opt_string(v, OPT_KV_DTYPE);
    o->op_config = opt_string(v, OPT_OP_CONFIG);
    o->attention_backend = opt_string(v, OPT_ATTENTION);
    o->isa = opt_string(v, OPT_ISA);
    o->threads = (int)opt_int(v, OPT_THREADS);
    o->max_model_len = opt_int(v, OPT_MAX_LEN);
    o->kv_cache_memory = opt_float(v, OPT_KV_MEMORY);
    o->kv_cache_lazy = 1;
    o->kv_cache_layout = opt_string(v, OPT_KV_LAYOUT);
    o->block_size = opt_int(v, OPT_BLOCK_SIZE);
    o->bmc_splits = opt_int(v, OPT_BMC_SPLITS);
    o->kv_sparse = opt_string(v, OPT_KV_SPARSE);
    o->max_batched_tokens = opt_int(v, OPT_MAX_BATCHED);
    return 0;
}

/* One value of a repeatable option as JSON; NULL with the sentence in E if it is no such value. */
static json_t *list_item(int opt, const struct opt_value *x, struct err *e)
{
    char *end, *stop;
    double value;
    long id;

    if (opt == OPT_STOP_TOKEN)
        return json_integer(x->i);
    if (opt == OPT_STOP)
        return common_utf8("--stop", x->text, strlen(x->text), e) == 0 ? json_string(x->text) : NULL;
    id = strtol(x->text, &end, 10);
    value = *end == '=' ? strtod(end + 1, &stop) : 0;
    if (end != x->text && *end == '=' && stop != end + 1 && *stop == 0 && isfinite(value))
        return json_pack("[I,f]", (json_int_t)id, value);
    err_set(e, ERR_USAGE, "--logit-bias: found '%s', expected ID=V", x->text);
    return NULL;
}

/* The options that may be repeated, as the JSON that a line of a batch would have: there is one reader of
 * lists, which brings them into order and knows what is too many. */
static json_t *lists_json(const struct opt_values *v, struct err *e)
{
    static const struct {
        int opt;
        enum sampling_field field;
    } list[] = {{OPT_LOGIT_BIAS, SAMPLING_LOGIT_BIAS},
                {OPT_STOP, SAMPLING_STOP},
                {OPT_STOP_TOKEN, SAMPLING_STOP_TOKEN}};
    json_t *all = json_object();

    for (size_t l = 0; l < sizeof(list) / sizeof(list[0]) && e->code == 0; l++) {
        json_t *values = json_array();

        for (size_t i = 0; i < opt_count(v, list[l].opt) && e->code == 0; i++)
            if (json_array_append_new(values, list_item(list[l].opt, opt_at(v, list[l].opt, i), e)) != 0 &&
                !e->code)
                err_nomem(e, "options");
        if (json_array_size(values))
            json_object_set(all, sampling_name(list[l].field), values);
        json_decref(values);
    }
    return all;
}

static int read_lists(const struct opt_values *v, struct sampling *s, struct arena *a, struct err *e)
{
    struct err why = {0}; /* *e may still hold what was overcome */
    json_t *lists = lists_json(v, &why);

    if (why.code == 0)
        sampling_set_json(s, lists, "the options", a, &why);
    json_decref(lists);
    if (why.code)
        *e = why;
    return why.code == ERR_INPUT ? (e->code = ERR_USAGE) : why.code;
}

/* --greedy goes before whatever shapes a draw. */
static void say_idle_sampling_options(const struct opt_values *v)
{
    static const struct {
        int opt;
        const char *name;
    } drawing[] = {{OPT_DO_SAMPLE, "do-sample"},
                   {OPT_TEMPERATURE, "temperature"},
                   {OPT_TOP_K, "top-k"},
                   {OPT_TOP_P, "top-p"},
                   {OPT_MIN_P, "min-p"}};

    for (size_t i = 0; opt_flag(v, OPT_GREEDY) && i < sizeof(drawing) / sizeof(drawing[0]); i++)
        if (opt_given(v, drawing[i].opt))
            log_warn("--%s changes nothing with --greedy", drawing[i].name);
}

int common_sampling(const struct opt_values *v, struct sampling *s, struct arena *a, struct err *e)
{
    sampling_default(s);
    say_idle_sampling_options(v);
#define TAKE(opt, field, value, bit)          \
    do {                                      \
        if (opt_given(v, opt)) {              \
            s->field = value;                 \
            sampling_mark(s, SAMPLING_##bit); \
        }                                     \
    } while (0)
    TAKE(OPT_MAX_NEW, max_new_tokens, (size_t)opt_int(v, OPT_MAX_NEW), MAX_NEW_TOKENS);
    TAKE(OPT_MIN_NEW, min_new_tokens, (size_t)opt_int(v, OPT_MIN_NEW), MIN_NEW_TOKENS);
    TAKE(OPT_DO_SAMPLE, do_sample, true, DO_SAMPLE);
    TAKE(OPT_GREEDY, greedy, true, GREEDY);
    TAKE(OPT_TEMPERATURE, temperature, opt_float(v, OPT_TEMPERATURE), TEMPERATURE);
    TAKE(OPT_TOP_K, top_k, (size_t)opt_int(v, OPT_TOP_K), TOP_K);
    TAKE(OPT_TOP_P, top_p, opt_float(v, OPT_TOP_P), TOP_P);
    TAKE(OPT_MIN_P, min_p, opt_float(v, OPT_MIN_P), MIN_P);
    TAKE(OPT_REPETITION, repetition_penalty, opt_float(v, OPT_REPETITION), REPETITION_PENALTY);
    TAKE(OPT_FREQUENCY, frequency_penalty, opt_float(v, OPT_FREQUENCY), FREQUENCY_PENALTY);
    TAKE(OPT_PRESENCE, presence_penalty, opt_float(v, OPT_PRESENCE), PRESENCE_PENALTY);
    TAKE(OPT_IGNORE_EOS, ignore_eos, true, IGNORE_EOS);
    TAKE(OPT_LOGPROBS, logprobs, (int)opt_int(v, OPT_LOGPROBS), LOGPROBS);
    TAKE(OPT_SEED, seed, opt_uint(v, OPT_SEED), SEED);
#undef TAKE
    return read_lists(v, s, a, e);
}

/* Behind what separates two ids: blanks, one comma, or both. */
static const char *skip_separator(const char *p)
{
    p += strspn(p, " \t\r\n");
    if (*p == ',')
        p++;
    return p + strspn(p, " \t\r\n");
}

int common_ids(const char *text, struct tok_ids *ids, struct err *e)
{
    const char *p = text + strspn(text, " \t\r\n");

    *ids = (struct tok_ids){0};
    do {
        char *end;
        long id;

        errno = 0;
        id = strtol(p, &end, 10);
        if (end == p || errno || id < INT32_MIN || id > INT32_MAX || (*end && !strchr(", \t\r\n", *end))) {
            tok_ids_fini(ids);
            return err_set(e, ERR_USAGE, "--ids: found '%.40s', expected token ids such as 1,2,3", p);
        }
        if (!mem_grow((void **)&ids->id, &ids->cap, ids->n + 1, sizeof(*ids->id), MEM_TEXT)) {
            tok_ids_fini(ids);
            return err_nomem(e, "token ids");
        }
        ids->id[ids->n++] = (int32_t)id;
        p = skip_separator(end);
    } while (*p);
    return 0;
}

int common_read_file(const char *path, struct buf *out, struct err *e)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char chunk[65536];
    size_t n, len = 0;
    int rc = 0;

    if (!f)
        return err_os(e, "open", path);
    while (len <= COMMON_FILE_MAX && (n = fread(chunk, 1, sizeof(chunk), f)) > 0) {
        buf_add(out, chunk, n);
        len += n;
    }
    if (ferror(f))
        rc = err_os(e, "read", path);
    else if (len > COMMON_FILE_MAX)
        rc = err_set(e, ERR_INPUT, "%s: this is longer than %d MiB, the most that is read", path,
                     COMMON_FILE_MAX >> 20);
    else if (out->oom)
        rc = err_nomem(e, path);
    if (f != stdin)
        fclose(f);
    return rc;
}

int common_read_text(const char *path, struct buf *out, struct err *e)
{
    int rc = common_read_file(path, out, e);

    return rc ? rc : common_utf8(path, out->data ? out->data : "", out->len, e);
}

int common_utf8(const char *what, const char *text, size_t len, struct err *e)
{
    size_t good = utf8_valid_prefix(text, len), line = 1, begin = 0;

    if (good == len)
        return 0;
    for (const char *p; (p = memchr(text + begin, '\n', good - begin)) != NULL; line++)
        begin = (size_t)(p - text) + 1;
    return err_set(e, ERR_INPUT,
                   "%s: line %zu, byte %zu: 0x%02x begins no UTF-8 character; text has to be UTF-8", what,
                   line, good - begin + 1, (unsigned)(unsigned char)text[good]);
}

static int print_piece(const char *text, size_t n, void *ctx)
{
    (void)ctx;
    out_bytes(text, n);
    return 0;
}

void common_print_json(json_t *o)
{
    json_dump_callback(o, print_piece, NULL, JSON_COMPACT | JSON_REAL_PRECISION(9));
    out_text("\n");
    json_decref(o);
}

/* ---- progress ---- */

void common_progress(void *ctx, size_t done, size_t total)
{
    struct common_bar *b = ctx;
    int width = 30, full;

    if (b->start == 0)
        b->start = clock_seconds();
    if (b->quiet || !isatty(STDERR_FILENO) || clock_seconds() - b->start < 1 || total == 0)
        return;
    b->shown = true;
    full = (int)((double)width * (double)done / (double)total);
    fprintf(stderr, "\r%s [%.*s%*s] %zu/%zu", b->what, full, "##############################", width - full,
            "", done, total);
    fflush(stderr);
}

void common_bar_end(struct common_bar *b)
{
    if (b->shown)
        fputs("\r\033[K", stderr);
    b->shown = false;
}
