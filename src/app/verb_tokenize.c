/* verb_tokenize.c - `gallop tokenize`: converts a text, or each line of a JSON Lines file, to token ids or back. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/verb.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/log.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "text/tok/tok.h"

/* The options of the verb. Its -m also accepts tokenizer files. */
struct tokenize_options {
    struct load load;
    struct options_output out;
    const char *file, *batch, *ids;
    bool pieces, decode, no_special, plain, skip_special, stream;
};

#define INTO(member) OPT_INTO(struct tokenize_options, member)

static const struct opt_row model_or_file[] = {
    {"model", 'm', PARAM_TEXT, "PATH", EVERYDAY,
     .help =
         "tokenizer to use: a checkpoint folder, a .gguf file, a model on the Hugging Face hub "
         "(org/name[@revision][:FILE.gguf]), a tokenizer.json, a sentencepiece .model file or a tiktoken file",
     .otherwise = "the bundled demo model", .env = "GALLOP_MODEL", OPT_INTO(struct load, name)},
    {0}};

static const struct opt_row rows[] = {
    {"file", 0, PARAM_TEXT, "F", EVERYDAY, .help = "file to read the text from (-: standard input)",
     INTO(file)},
    {"batch", 0, PARAM_TEXT, "F.jsonl", EVERYDAY,
     .help = "file with a JSON string, {\"text\":...} or {\"ids\":[...]} on each line", INTO(batch)},
    {"pieces", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help = "also print the vocabulary's string of each token beside its id", INTO(pieces)},
    {"decode", 0, PARAM_FLAG, NULL, EVERYDAY, .help = "convert token ids (--ids, or the argument) to text",
     INTO(decode)},
    {"ids", 0, PARAM_TEXT, "1,2,3", EVERYDAY, .help = "token ids to decode, separated by commas", INTO(ids)},
    {"no-special", 0, PARAM_FLAG, NULL, PROMPT, .help = "do not add BOS or other special tokens to the text",
     INTO(no_special)},
    {"plain", 0, PARAM_FLAG, NULL, PROMPT, .help = "read special tokens in the text as ordinary text",
     INTO(plain)},
    {"skip-special", 0, PARAM_FLAG, NULL, OUTPUT, .help = "leave special tokens out of the decoded text",
     INTO(skip_special)},
    {"stream", 0, PARAM_FLAG, NULL, OUTPUT, .help = "decode token by token, as generated text is streamed",
     INTO(stream)},
    {0}};

/* A run of the verb. */
struct job {
    const struct tokenize_options *o;
    const char *text; /* the argument; NULL: none */
    struct tok *t;
    bool json; /* print JSON */
    struct err *e;
};

/* Prints O as a line of JSON and releases it. */
static int print_object(struct job *j, json_t *o)
{
    if (!o)
        return err_nomem(j->e, "an answer");
    print_json(o);
    return print_flush(j->e);
}

/* Returns the vocabulary's string of the token ID as JSON, or JSON null if the vocabulary has no such token. */
static json_t *piece_of(const struct job *j, int32_t id)
{
    const char *s;
    size_t n;

    return tok_piece(j->t, id, &s, &n) ? print_json_string(s, n) : json_null();
}

static int print_pieces(struct job *j, const struct tok_ids *ids)
{
    json_t *pieces = json_array();

    for (size_t i = 0; i < ids->n; i++)
        json_array_append_new(pieces, piece_of(j, ids->id[i]));
    if (j->json)
        return print_object(j, json_pack("{s:o,s:o}", "ids", print_json_ids(ids), "pieces", pieces));
    print_ids(ids);
    print_text("\n");
    for (size_t i = 0; i < ids->n; i++) {
        print_text(i ? " " : "");
        print_json_value(json_array_get(pieces, i));
    }
    json_decref(pieces);
    print_text("\n");
    return print_flush(j->e);
}

static int encode(struct job *j, const char *text, size_t len)
{
    unsigned flags = (j->o->no_special ? 0 : TOK_ADD_SPECIAL) | (j->o->plain ? TOK_PLAIN : 0);
    struct tok_ids ids = {0};
    int rc = tok_encode(j->t, text, len, flags, &ids, j->e);

    if (rc == 0 && j->o->pieces) {
        rc = print_pieces(j, &ids);
    } else if (rc == 0) { /* JSON is printed directly: building a tree would take longer than tokenizing */
        print_text(j->json ? "{\"ids\":[" : "");
        print_ids(&ids);
        print_text(j->json ? "]}\n" : "\n");
        rc = print_flush(j->e);
    }
    tok_ids_fini(&ids);
    return rc;
}

static int decode_stream(struct job *j, const struct tok_ids *ids)
{
    json_t *pieces = json_array();
    struct tok_stream *d;
    struct buf piece;
    int rc = tok_stream_new(&d, j->t, j->o->skip_special, j->e);

    buf_init(&piece, MEM_APP);
    for (size_t i = 0; i < ids->n && rc == 0; i++) {
        buf_clear(&piece);
        rc = tok_stream_put(d, ids->id[i], &piece, j->e);
        if (rc == 0 && i + 1 == ids->n)
            rc = tok_stream_end(d, &piece, j->e);
        if (rc == 0 &&
            (piece.oom || json_array_append_new(pieces, print_json_string(piece.data, piece.len)) != 0))
            rc = err_nomem(j->e, "an answer");
    }
    if (rc == 0)
        rc = print_object(j, json_pack("{s:O}", "pieces", pieces));
    json_decref(pieces);
    buf_fini(&piece);
    tok_stream_free(d);
    return rc;
}

/* Refuses ids outside the vocabulary. In lines of --batch, ids above the vocabulary are only reported, and
 * decoding skips them, as transformers does: a model whose embedding table is larger than its tokenizer's
 * vocabulary may generate such ids. */
static int check_vocabulary(struct job *j, const struct tok_ids *ids, const char *what)
{
    size_t first = 0, n = 0, size = tok_n_ids(j->t);

    for (size_t i = 0; i < ids->n; i++) {
        if (ids->id[i] >= 0 && (size_t)ids->id[i] < size)
            continue;
        if (ids->id[i] < 0 || !j->o->batch)
            return err_set(j->e, ERR_INPUT,
                           "%s: ids[%zu]: found %d, expected ids of the vocabulary, from 0 to %zu", what, i,
                           ids->id[i], size - 1);
        first = n++ ? first : i;
    }
    if (n)
        log_warn("%s: ids[%zu] is %d, but ids of the vocabulary are 0 to %zu: %zu %s skipped", what, first,
                 ids->id[first], size - 1, n, n == 1 ? "id is" : "ids are");
    return 0;
}

/* Error sentences begin with WHAT. */
static int decode(struct job *j, const struct tok_ids *ids, const char *what)
{
    struct buf text;
    int rc = check_vocabulary(j, ids, what);

    if (rc)
        return rc;
    if (j->o->stream)
        return decode_stream(j, ids);
    buf_init(&text, MEM_APP);
    rc = tok_decode(j->t, ids->id, ids->n, j->o->skip_special, &text, j->e);
    if (rc == 0 && text.oom) {
        rc = err_nomem(j->e, "an answer");
    } else if (rc == 0 && j->json) {
        rc = print_object(j, json_pack("{s:o}", "text", print_json_string(text.data, text.len)));
    } else if (rc == 0) {
        print_foreign(text.data, text.len);
        print_text("\n");
        rc = print_flush(j->e);
    }
    buf_fini(&text);
    return rc;
}

/* Decodes the array of integers LIST. Error sentences begin with WHAT. */
static int decode_list(struct job *j, const json_t *list, const char *what)
{
    struct tok_ids ids = {0};
    int rc = input_json_ids(list, "ids", INT32_MIN, &ids, j->e);

    if (rc == ERR_INPUT)
        err_prefix(j->e, "%s", what);
    rc = rc ? rc : decode(j, &ids, what);
    tok_ids_fini(&ids);
    return rc;
}

static int one_line(void *ctx, const char *p, size_t len, const char *what)
{
    struct job *j = ctx;
    const json_t *text;
    json_t *o;
    int rc = json_pull_load(&o, p, len, what, j->e);

    if (rc)
        return rc;
    text = json_is_string(o) ? o : json_object_get(o, "text");
    if (j->o->decode)
        rc = decode_list(j, json_is_array(o) ? o : json_object_get(o, "ids"), what);
    else if (json_is_string(text))
        rc = encode(j, json_string_value(text), json_string_length(text));
    else
        rc = err_set(j->e, ERR_INPUT, "%s: expected a string, or an object with the string text", what);
    json_decref(o);
    return rc;
}

static int single(struct job *j)
{
    struct tok_ids ids = {0};
    struct buf text;
    int rc;

    if (j->o->decode) {
        rc = input_ids(j->o->ids ? j->o->ids : j->text, &ids, j->e);
        rc = rc ? rc : decode(j, &ids, "--ids");
        tok_ids_fini(&ids);
        return rc;
    }
    if (!j->o->file)
        return encode(j, j->text, strlen(j->text));
    buf_init(&text, MEM_APP);
    if ((rc = input_text(j->o->file, &text, j->e)) == 0)
        rc = encode(j, text.data, text.len);
    buf_fini(&text);
    return rc;
}

static int check_combination(const struct tokenize_options *o, const struct opt_values *v, struct err *e)
{
    const struct {
        const char *name;
        bool given, decodes; /* DECODES: the option has an effect only with --decode */
    } way[] = {{"no-special", o->no_special, false},
               {"plain", o->plain, false},
               {"pieces", o->pieces, false},
               {"skip-special", o->skip_special, true},
               {"stream", o->stream, true}};
    bool ids = o->ids, file = o->file, batch = o->batch;

    if (v->n_args > 1)
        return err_set(e, ERR_USAGE, "found %zu arguments, expected one text (quote it)", v->n_args);
    if (ids + file + batch + (v->n_args > 0) != 1)
        return err_set(e, ERR_USAGE,
                       "expected one of a text, --file, --batch and --decode --ids; found %s%s%s%s%s",
                       v->n_args ? "a text " : "", file ? "--file " : "", ids ? "--ids " : "",
                       batch ? "--batch" : "", ids + file + batch + v->n_args == 0 ? "none" : "");
    if (ids && !o->decode)
        return err_set(e, ERR_USAGE, "--ids needs --decode");
    if (file && o->decode)
        return err_set(e, ERR_USAGE, "--decode needs --ids or --batch, but --file gives a text");
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++)
        if (way[i].given && way[i].decodes != o->decode)
            log_warn("--%s changes nothing with%s --decode", way[i].name, o->decode ? "" : "out");
    return v->n_args && !o->decode ? err_utf8(e, "the text", v->args[0], strlen(v->args[0])) : 0;
}

static int tokenize_run(const struct opt_values *v, struct err *e)
{
    struct tokenize_options o = {.file = NULL};
    struct job j = {.o = &o, .text = v->n_args ? v->args[0] : NULL, .e = e};
    struct checkpoint model = {.in.path = NULL};
    int rc;

    load_init(&o.load);
    opt_read(v, &o, sizeof(o));
    j.json = o.out.json || o.batch;
    if ((rc = check_combination(&o, v, e)) == 0 && (rc = load_text(&o.load, &model, e)) == 0 &&
        (rc = checkpoint_tokenizer(&j.t, &model, e)) == 0)
        rc = o.batch ? input_lines(o.batch, one_line, &j, e) : single(&j);
    tok_close(j.t);
    checkpoint_close(&model);
    return rc;
}

const struct verb verb_tokenize = {
    .name = "tokenize",
    .summary = "convert text to token ids and back",
    .arguments = "[options] [\"text\"]",
    .manual = "Converts text to token ids, and with --decode ids to text. The text is an argument, a file "
              "(--file), or the lines of a file (--batch).",
    .options = (const struct opt_part[]){OPT_PART(struct tokenize_options, load, model_or_file),
                                         OPT_OWN(struct tokenize_options, rows),
                                         OPT_PART(struct tokenize_options, load, options_source),
                                         OPT_PART(struct tokenize_options, out, options_json),
                                         OPT_PART(struct tokenize_options, out, options_help), OPT_END},
    .run = tokenize_run,
};
