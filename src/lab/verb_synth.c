/* verb_synth.c - `gallop synth`: writes a checkpoint folder with random weights in the shape of a real model
 * and a byte-level tokenizer, for measurements of speed without a download. Equal seeds give equal files. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "app/options.h"
#include "app/print.h"
#include "app/save.h"
#include "app/verb.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "ckpt/checkpoint.h"
#include "lab/shapes.h"
#include "tensor/dtype.h"
#include "text/tok/unicode.h"

enum { CHUNK = 1 << 16 };

static const struct opt_word dtype_words[] = {{"bfloat16", "bf16", NULL}, {"float16", "fp16", NULL},
                                              {"half", "fp16", NULL},     {"float32", "fp32", NULL},
                                              {"float", "fp32", NULL},    {NULL, NULL, NULL}};

struct synth_options {
    struct options_output out;
    const char *output;
    bool list;
    size_t layers; /* 0: the number of layers of the shape */
    int stored;    /* index into the choices of --dtype */
    uint64_t seed;
};

#define INTO(member) OPT_INTO(struct synth_options, member)

static const struct opt_row rows[] = {
    {"output", 'o', PARAM_TEXT, "DIR", EVERYDAY, .help = "folder to write the checkpoint to", INTO(output)},
    {"list", 0, PARAM_FLAG, NULL, EVERYDAY, .help = "list the names of the shapes and end", INTO(list)},
    {"layers", 0, PARAM_INT, "N", EVERYDAY, .help = "number of layers", .otherwise = "the model's",
     .values = "[1,4096]", INTO(layers)},
    {"dtype", 0, PARAM_CHOICE, NULL, EVERYDAY, .help = "number format of the stored weights",
     .values = "bf16|fp16|fp32", .words = dtype_words, .fallback = "bf16", INTO(stored)},
    {"seed", 0, PARAM_BITS, "N", EVERYDAY, .help = "seed of the random weights", .fallback = "0", INTO(seed)},
    {0}};

struct synth {
    struct save_folder out;
    enum dtype dtype;
    uint64_t seed, index; /* index: number of the current tensor */
    size_t bytes, done;   /* bytes of all tensors, and of the tensors that are written already */
    json_t *header;       /* header of model.safetensors */
    struct print_bar bar;
    struct err *e;
    char chunk[CHUNK * 4];
};

/* ---- weights ---- */

static bool is_bytes(const struct shapes_tensor *t)
{
    return t->fill == SYNTH_NIBBLES || t->fill == SYNTH_SCALES;
}

/* Returns the number of elements of T, and sets *INPUTS to the size of its last dimension (1 for vectors). */
static size_t elements(const struct shapes_tensor *t, size_t *inputs)
{
    size_t n = 1;

    *inputs = 1;
    for (int d = 0; d < 4 && t->shape[d]; d++) {
        n *= t->shape[d];
        *inputs = d ? t->shape[d] : 1;
    }
    return n;
}

static int add_header(void *ctx, const struct shapes_tensor *t)
{
    struct synth *s = ctx;
    size_t inputs, n = elements(t, &inputs) * (is_bytes(t) ? 1 : dtype_bytes(s->dtype));
    json_t *shape = json_array(), *tensor;

    for (int d = 0; d < 4 && t->shape[d]; d++)
        json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
    tensor = json_pack("{s:s,s:o,s:[I,I]}", "dtype", is_bytes(t) ? "U8" : dtype_name(s->dtype), "shape",
                       shape, "data_offsets", (json_int_t)s->bytes, (json_int_t)(s->bytes + n));
    s->bytes += n;
    return json_object_set_new(s->header, t->name, tensor) == 0 ? 0 : err_nomem(s->e, "the header");
}

/* Writes elements FIRST to FIRST + N - 1 of the current tensor to the chunk: uniform within +-AMPLITUDE, from
 * 16 random bits each. An amplitude of sqrt(3 / inputs) gives a standard deviation of 1 / sqrt(inputs). */
static void fill_random(struct synth *s, size_t first, size_t n, float amplitude)
{
    for (size_t i = 0; i < n; i += 8) {
        uint32_t u[4];

        rng_block(s->seed, s->index, (first + i) / 8, u);
        for (size_t k = 0; k < 8 && i + k < n; k++) {
            float v = amplitude * ((float)(u[k / 2] >> (16 * (k % 2)) & 0xffff) / 32768.0f - 1.0f);
            uint16_t h = s->dtype == DT_BF16 ? dtype_f32_to_bf16(v) : dtype_f32_to_f16(v);

            if (s->dtype == DT_F32)
                memcpy(s->chunk + (i + k) * 4, &v, 4);
            else
                memcpy(s->chunk + (i + k) * 2, &h, 2);
        }
    }
}

static void fill_same(struct synth *s, size_t n, float v)
{
    uint16_t h = s->dtype == DT_BF16 ? dtype_f32_to_bf16(v) : dtype_f32_to_f16(v);

    for (size_t i = 0; i < n; i++)
        if (s->dtype == DT_F32)
            memcpy(s->chunk + i * 4, &v, 4);
        else
            memcpy(s->chunk + i * 2, &h, 2);
}

/* Writes random nibbles, or scales of 2^-8 to 2^-6, to the chunk. MXFP4 nibbles have a standard deviation of
 * about 3, so the weights have one of about 1 / sqrt(3000), as random weights with 3000 inputs have. */
static void fill_bytes(struct synth *s, size_t first, size_t n, bool scales)
{
    for (size_t i = 0; i < n; i += 16) {
        uint32_t u[4];

        rng_block(s->seed, s->index, (first + i) / 16, u);
        for (size_t k = 0; k < 16 && i + k < n; k++) {
            unsigned byte = u[k / 4] >> (8 * (k % 4)) & 0xff;

            s->chunk[i + k] = (char)(scales ? 119 + byte % 3 : byte);
        }
    }
}

/* Returns the file model.safetensors, which was opened last. */
static struct save *weights(struct synth *s)
{
    return &s->out.file[s->out.n - 1];
}

static int add_data(void *ctx, const struct shapes_tensor *t)
{
    struct synth *s = ctx;
    size_t inputs, n = elements(t, &inputs), es = is_bytes(t) ? 1 : dtype_bytes(s->dtype);
    float amplitude = sqrtf(3.0f / (float)inputs);
    int rc = 0;

    s->index++;
    for (size_t at = 0; at < n && rc == 0; at += CHUNK) {
        size_t len = n - at < CHUNK ? n - at : CHUNK;

        if (is_bytes(t))
            fill_bytes(s, at, len, t->fill == SYNTH_SCALES);
        else if (t->fill == SYNTH_RANDOM)
            fill_random(s, at, len, amplitude);
        else
            fill_same(s, len, t->fill == SYNTH_ONES ? 1.0f : 0.0f);
        rc = save_write(weights(s), s->chunk, len * es, s->e);
        s->done += len * es;
        print_progress(&s->bar, s->done, s->bytes);
    }
    return rc;
}

static int write_weights(struct synth *s, const struct shape *shape, size_t layers)
{
    struct save *o;
    int rc;

    if ((rc = shapes_tensors(shape, layers, add_header, s)) == 0 &&
        (rc = save_folder_file(&s->out, "model.safetensors", &o, s->e)) == 0 &&
        (rc = save_safetensors_header(o, s->header, s->e)) == 0)
        rc = shapes_tensors(shape, layers, add_data, s);
    print_bar_end(&s->bar);
    return rc;
}

/* ---- the small files ---- */

static int write_json(struct synth *s, const char *name, json_t *json)
{
    struct save *o;
    int rc = json ? save_folder_file(&s->out, name, &o, s->e) : err_nomem(s->e, name);

    if (rc == 0 && json_dumpf(json, o->f, JSON_INDENT(2)) != 0)
        rc = save_flush(o, s->e) ? s->e->code : err_nomem(s->e, name);
    json_decref(json);
    return rc;
}

static json_t *added(int id, const char *content)
{
    return json_pack("{s:i,s:s,s:b,s:b,s:b,s:b,s:b}", "id", id, "content", content, "single_word", 0,
                     "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1);
}

static json_t *tokenizer(void)
{
    json_t *vocab = json_object();

    for (int b = 0; b < 256; b++) {
        char s[5];

        s[utf8_encode(unicode_letter_of((unsigned char)b), s)] = 0;
        json_object_set_new(vocab, s, json_integer(b));
    }
    return json_pack("{s:s,s:n,s:n,s:[o,o],s:n,s:{s:s,s:b,s:b,s:b},s:n,s:{s:s,s:b,s:b,s:b},"
                     "s:{s:s,s:n,s:n,s:n,s:n,s:b,s:b,s:b,s:o,s:[]}}",
                     "version", "1.0", "truncation", "padding", "added_tokens", added(256, "<|begin|>"),
                     added(257, "<|end|>"), "normalizer", "pre_tokenizer", "type", "ByteLevel",
                     "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "post_processor", "decoder",
                     "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model",
                     "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                     "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges");
}

static int write_all(struct synth *s, const struct shape *shape, const struct synth_options *o)
{
    static const char *const torch_name[] = {"bfloat16", "float16", "float32"};
    size_t layers = o->layers ? o->layers : shape->layers;
    int rc;

    if ((rc = save_folder_open(&s->out, o->output, o->out.force, s->e)) != 0 ||
        (rc = write_json(s, "config.json", shapes_config(shape, layers, torch_name[o->stored]))) != 0 ||
        (rc = write_json(
             s, "generation_config.json",
             json_pack("{s:i,s:i,s:b}", "bos_token_id", 256, "eos_token_id", 257, "do_sample", 0))) != 0 ||
        (rc = write_json(s, "tokenizer.json", tokenizer())) != 0 ||
        (rc = write_weights(s, shape, layers)) != 0)
        return rc;
    return save_folder_commit(&s->out, s->e);
}

static void list_shapes(bool json)
{
    json_t *names = json_array();

    for (size_t i = 0; i < shapes_n(); i++) {
        const struct shape *s = shapes_at(i);

        json_array_append_new(names, json_string(s->name));
        if (!json)
            print_fmt("%-16s %s, %zu layers, hidden %zu, %zu heads (%zu kv), vocabulary %zu\n", s->name,
                      s->family, s->layers, s->hidden, s->heads, s->kv, s->vocab);
    }
    if (json)
        print_json(json_incref(names));
    json_decref(names);
}

static int write_shape(const struct shape *shape, const struct synth_options *o, struct err *e)
{
    static const enum dtype dtype[] = {DT_BF16, DT_F16, DT_F32};
    struct synth *s = mem_zalloc(1, sizeof(*s), MEM_APP);
    int rc;

    if (!s)
        return err_nomem(e, "a buffer");
    s->e = e;
    s->dtype = dtype[o->stored];
    s->seed = o->seed;
    s->bar.what = "writing";
    s->header = json_object();
    rc = write_all(s, shape, o);
    if (rc == 0 && o->out.json)
        print_json(json_pack("{s:s,s:I}", "folder", o->output, "bytes", (json_int_t)s->bytes));
    else if (rc == 0 && !o->out.quiet)
        print_fmt("%s: %.1f MB of random weights in the shape of %s\n", o->output, (double)s->bytes / 1e6,
                  shape->name);
    save_folder_abort(&s->out);
    json_decref(s->header);
    mem_free(s);
    return rc;
}

static int synth_run(const struct opt_values *v, struct err *e)
{
    struct synth_options o = {.output = NULL};
    const struct shape *shape;

    opt_read(v, &o, sizeof(o));
    if (o.list) {
        list_shapes(o.out.json);
        return 0;
    }
    if (v->n_args != 1 || !o.output)
        return err_set(e, ERR_USAGE,
                       "synth: the name of a shape and -o DIR are expected; --list shows the shapes");
    if (!(shape = shapes_of_name(v->args[0])))
        return err_set(e, ERR_USAGE, "synth: there is no shape %s; --list shows the shapes", v->args[0]);
    return write_shape(shape, &o, e);
}

const struct verb verb_synth = {
    .name = "synth",
    .summary = "write a checkpoint with random weights in a real model's shape",
    .arguments = "SHAPE -o DIR [options]",
    .manual =
        "Writes a checkpoint with random weights in the shape of a real model, so that speed can be measured without a "
        "download. --list shows the shapes. A folder that is not empty is an error, unless --force is given, which "
        "replaces files of the same names.",
    .options = (const struct opt_part[]){OPT_OWN(struct synth_options, rows),
                                         OPT_PART(struct synth_options, out, options_force),
                                         OPT_PART(struct synth_options, out, options_json),
                                         OPT_PART(struct synth_options, out, options_help), OPT_END},
    .run = synth_run,
};
