/* verb_tokenize.c - `gallop tokenize`: text to ids and back, one text or a line of JSON each. */
#include <stdio.h>
#include <string.h>

#include "app/common.h"
#include "app/out.h"
#include "app/verbs.h"
#include "base/err.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "text/tok/tok.h"

enum {
    TOK_IDS_OPT = COMMON_OWN,
    TOK_NO_SPECIAL,
    TOK_PIECES,
    TOK_BATCH,
    TOK_PLAIN_OPT,
    TOK_DECODE,
    TOK_STREAM,
    TOK_SKIP,
    TOK_FILE
};

static const struct opt_row rows[] = {
    {.id = OPT_MODEL,
     .name = "model",
     .brief = 'm',
     .type = OPT_STRING,
     .arg = "PATH",
     .env = "GALLOP_MODEL",
     .help =
         "checkpoint folder, .gguf file, org/name[@revision][:FILE.gguf] on the Hugging Face hub, tokenizer.json, "
         "sentencepiece .model or tiktoken file; default: the demo model"},
    COMMON_REVISION_ROW,
    COMMON_LINKS_ROW,
    {.id = TOK_NO_SPECIAL,
     .name = "no-special",
     .type = OPT_FLAG,
     .help = "add no BOS or other special tokens"},
    {.id = TOK_PLAIN_OPT,
     .name = "plain",
     .type = OPT_FLAG,
     .help = "read special tokens inside the text as ordinary text"},
    {.id = TOK_PIECES,
     .name = "pieces",
     .type = OPT_FLAG,
     .help = "print the vocabulary's strings beside the ids"},
    {.id = TOK_FILE,
     .name = "file",
     .type = OPT_STRING,
     .arg = "F",
     .help = "read the text from a file (-: standard input)"},
    {.id = TOK_BATCH,
     .name = "batch",
     .type = OPT_STRING,
     .arg = "F.jsonl",
     .help = "a JSON string, {\"text\":...} or {\"ids\":[...]} a line"},
    {.id = TOK_DECODE, .name = "decode", .type = OPT_FLAG, .help = "ids to text"},
    {.id = TOK_IDS_OPT, .name = "ids", .type = OPT_STRING, .arg = "1,2,3", .help = "the ids to decode"},
    {.id = TOK_SKIP,
     .name = "skip-special",
     .type = OPT_FLAG,
     .help = "leave special tokens out of decoded text"},
    {.id = TOK_STREAM,
     .name = "stream",
     .type = OPT_FLAG,
     .help = "decode token by token, as a streamer shows it"},
    COMMON_OUTPUT_ROWS,
};

struct job {
    const struct opt_values *v;
    struct tok *t;
    bool json, decode;
    struct buf out; /* one answer */
    struct err *e;
};

static int print_out(struct job *j)
{
    buf_char(&j->out, '\n');
    if (j->out.oom)
        return err_nomem(j->e, "an answer");
    out_bytes(j->out.data, j->out.len);
    buf_clear(&j->out);
    return out_flush(j->e);
}

static void add_piece(struct job *j, int32_t id)
{
    const char *s;
    size_t n;

    if (tok_piece(j->t, id, &s, &n))
        buf_json_str(&j->out, s, n);
    else
        buf_str(&j->out, "null");
}

static int encode(struct job *j, const char *text, size_t len)
{
    unsigned flags = (opt_flag(j->v, TOK_NO_SPECIAL) ? 0 : TOK_ADD_SPECIAL) |
                     (opt_flag(j->v, TOK_PLAIN_OPT) ? TOK_PLAIN : 0);
    struct tok_ids ids = {0};
    int rc = tok_encode(j->t, text, len, flags, &ids, j->e);

    if (rc)
        return rc;
    buf_str(&j->out, j->json ? "{\"ids\":[" : "");
    for (size_t i = 0; i < ids.n; i++)
        buf_fmt(&j->out, i ? ",%d" : "%d", (int)ids.id[i]);
    buf_str(&j->out, j->json ? "]" : "");
    if (opt_flag(j->v, TOK_PIECES)) {
        buf_str(&j->out, j->json ? ",\"pieces\":[" : "\n");
        for (size_t i = 0; i < ids.n; i++) {
            buf_str(&j->out, i ? (j->json ? "," : " ") : "");
            add_piece(j, ids.id[i]);
        }
        buf_str(&j->out, j->json ? "]" : "");
    }
    buf_str(&j->out, j->json ? "}" : "");
    tok_ids_fini(&ids);
    return print_out(j);
}

static int decode_stream(struct job *j, const int32_t *ids, size_t n)
{
    struct tok_stream *d;
    struct buf piece;
    int rc = tok_stream_new(&d, j->t, opt_flag(j->v, TOK_SKIP), j->e);

    buf_init(&piece, MEM_APP);
    buf_str(&j->out, "{\"pieces\":[");
    for (size_t i = 0; i < n && rc == 0; i++) {
        buf_clear(&piece);
        rc = tok_stream_put(d, ids[i], &piece, j->e);
        if (rc == 0 && i + 1 == n)
            rc = tok_stream_end(d, &piece, j->e);
        buf_str(&j->out, i ? "," : "");
        buf_json_str(&j->out, piece.data ? piece.data : "", piece.len);
    }
    buf_str(&j->out, "]}");
    if (rc == 0)
        rc = piece.oom ? err_nomem(j->e, "an answer") : print_out(j);
    buf_fini(&piece);
    tok_stream_free(d);
    return rc;
}

static int decode(struct job *j, const int32_t *ids, size_t n)
{
    struct buf text;
    int rc;

    if (opt_flag(j->v, TOK_STREAM))
        return decode_stream(j, ids, n);
    buf_init(&text, MEM_APP);
    rc = tok_decode(j->t, ids, n, opt_flag(j->v, TOK_SKIP), &text, j->e);
    if (j->json) {
        buf_str(&j->out, "{\"text\":");
        buf_json_str(&j->out, text.data ? text.data : "", text.len);
        buf_str(&j->out, "}");
    } else {
        buf_add(&j->out, text.data ? text.data : "", text.len);
    }
    if (rc == 0)
        rc = print_out(j);
    buf_fini(&text);
    return rc;
}

static int decode_list(struct job *j, const json_t *list, const char *what)
{
    size_t n = json_array_size(list);
    int32_t *ids = mem_zalloc(n + 1, sizeof(*ids), MEM_APP);
    int rc = 0;

    if (!ids)
        return err_nomem(j->e, "token ids");
    if (!json_is_array(list))
        rc = err_set(j->e, ERR_INPUT, "%s: a list of ids is expected", what);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const json_t *id = json_array_get(list, i);

        if (!json_is_integer(id))
            rc = err_set(j->e, ERR_INPUT, "%s: ids[%zu] is not an integer", what, i);
        ids[i] = json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX
                     ? -1
                     : (int32_t)json_integer_value(id);
    }
    if (rc == 0)
        rc = decode(j, ids, n);
    mem_free(ids);
    return rc;
}

static int one_line(struct job *j, const char *p, size_t len, const char *what)
{
    json_error_t je;
    json_t *o = json_loadb(p, len, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &je);
    const json_t *text = json_is_string(o) ? o : json_object_get(o, "text");
    int rc;

    if (!o)
        return err_set(j->e, ERR_INPUT, "%s: %s", what, je.text);
    if (j->decode)
        rc = decode_list(j, json_is_array(o) ? o : json_object_get(o, "ids"), what);
    else if (json_is_string(text))
        rc = encode(j, json_string_value(text), json_string_length(text));
    else
        rc = err_set(j->e, ERR_INPUT, "%s: a string or an object with text is expected", what);
    json_decref(o);
    return rc;
}

static int batch(struct job *j, const char *path)
{
    struct buf text;
    size_t line = 0;
    int rc;

    buf_init(&text, MEM_APP);
    rc = common_read_text(path, &text, j->e);
    for (char *p = text.data, *end; rc == 0 && p && p < text.data + text.len; p = end + 1) {
        char what[256];

        end = memchr(p, '\n', (size_t)(text.data + text.len - p));
        end = end ? end : text.data + text.len;
        snprintf(what, sizeof(what), "%s: line %zu", path, ++line);
        if (end > p)
            rc = one_line(j, p, (size_t)(end - p), what);
    }
    buf_fini(&text);
    return rc;
}

static int single(struct job *j)
{
    const struct opt_values *v = j->v;
    struct tok_ids ids = {0};
    struct buf text;
    int rc;

    if (j->decode) {
        const char *list = opt_given(v, TOK_IDS_OPT) ? opt_string(v, TOK_IDS_OPT) : v->args[0];

        if ((rc = common_ids(list, &ids, j->e)) == 0)
            rc = decode(j, ids.id, ids.n);
        tok_ids_fini(&ids);
        return rc;
    }
    if (!opt_given(v, TOK_FILE))
        return encode(j, v->args[0], strlen(v->args[0]));
    buf_init(&text, MEM_APP);
    if ((rc = common_read_text(opt_string(v, TOK_FILE), &text, j->e)) == 0)
        rc = encode(j, text.data ? text.data : "", text.len);
    buf_fini(&text);
    return rc;
}

static int check_combination(const struct opt_values *v, struct err *e)
{
    static const struct {
        int id;
        const char *name;
        bool decodes; /* it is for the way back */
    } way[] = {{TOK_NO_SPECIAL, "no-special", false},
               {TOK_PLAIN_OPT, "plain", false},
               {TOK_PIECES, "pieces", false},
               {TOK_SKIP, "skip-special", true},
               {TOK_STREAM, "stream", true}};
    bool decodes = opt_flag(v, TOK_DECODE), ids = opt_given(v, TOK_IDS_OPT), file = opt_given(v, TOK_FILE),
         batch = opt_given(v, TOK_BATCH);

    if (v->n_args > 1)
        return err_set(e, ERR_USAGE, "one text is expected, %zu were given (quote it)", v->n_args);
    if (ids + file + batch + (v->n_args > 0) != 1)
        return err_set(e, ERR_USAGE,
                       "one of a text, --file, --batch and --decode --ids is expected, found %s%s%s%s%s",
                       v->n_args ? "a text " : "", file ? "--file " : "", ids ? "--ids " : "",
                       batch ? "--batch" : "", ids + file + batch + v->n_args == 0 ? "none" : "");
    if (ids && !decodes)
        return err_set(e, ERR_USAGE, "--ids is for --decode");
    if (file && decodes)
        return err_set(e, ERR_USAGE, "--decode takes --ids or --batch, --file is a text");
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++)
        if (opt_flag(v, way[i].id) && way[i].decodes != decodes)
            log_warn("--%s changes nothing with%s --decode", way[i].name, decodes ? "" : "out");
    return v->n_args && !decodes ? common_utf8("the text", v->args[0], strlen(v->args[0]), e) : 0;
}

int verb_tokenize(int argc, char **argv)
{
    struct opt_values v;
    struct err e = {0};
    char path[4096];
    const char *found;
    struct checkpoint model = {.in.path = NULL};
    struct job j = {.v = &v, .e = &e};
    int rc = common_parse("tokenize", "[options] [\"text\"]", rows, sizeof(rows) / sizeof(rows[0]), argc,
                          argv, &v);

    if (rc >= 0)
        return rc;
    j.decode = opt_flag(&v, TOK_DECODE);
    j.json = opt_flag(&v, OPT_JSON) || opt_given(&v, TOK_BATCH);
    buf_init(&j.out, MEM_APP);
    if ((rc = check_combination(&v, &e)) == 0) {
        found = common_model(&v, HUB_TEXT, path, sizeof(path), &e);
        rc = found ? checkpoint_open(&model, common_folder(&v, found), &e) : e.code;
        if (rc == 0)
            rc = checkpoint_tokenizer(&j.t, &model, &e);
        checkpoint_close(&model);
    }
    if (rc == 0)
        rc = opt_given(&v, TOK_BATCH) ? batch(&j, opt_string(&v, TOK_BATCH)) : single(&j);
    tok_close(j.t);
    buf_fini(&j.out);
    opt_fini(&v);
    return rc ? common_fail(&e) : 0;
}
