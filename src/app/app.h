/* app.h - what the files of the command line share: a verb, its options, the model they name, what is read,
 * printed and saved. Each section is the file of its name.
 */
#ifndef GALLOP_APP_APP_H
#define GALLOP_APP_APP_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "api/markup/markup.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "engine/dense.h"
#include "engine/engine.h"
#include "engine/find_model.h"
#include "model/quant.h"
#include "text/jinja/jinja.h"

/* ---- verb_*.c: one file a verb, listed in main.c ---- */

struct verb {
    const char *name, *summary;
    const char *arguments; /* behind the name in the usage line: "[options] [\"prompt\"]" */
    const char *no_words;  /* what is expected instead of an argument; NULL: the verb takes arguments */
    const char *manual;    /* its paragraph of the manual page, as manual.c reads it */
    const struct opt_row *const *options; /* arrays of rows; NULL ends the list */
    /* 0: done; a code: the work failed, and E says why; below 0: minus the exit status, and all was said. */
    int (*run)(const struct opt_values *v, struct err *e);
};

extern const struct verb verb_run, verb_chat, verb_logits, verb_ppl, verb_tokenize, verb_render, verb_sample,
    verb_inspect, verb_bench, verb_simulate, verb_synth, verb_serve, verb_pack, verb_quantize, verb_calibrate;

/* The verbs in the order of `gallop --help`: an entry without a verb is a heading over those that follow. */
struct verb_entry {
    const char *heading;
    const struct verb *verb;
};

/* ---- manual.c: the pages that are made from the tables ---- */

void manual_overview(const struct verb_entry *verbs, size_t n, struct buf *out); /* gallop --help */
/* gallop VERB --help: the options of every day, and the names of the others; ALL: --help all. */
void manual_verb(const struct verb *verb, bool all, struct buf *out);
void manual_page(const struct verb_entry *verbs, size_t n, struct buf *out); /* gallop help --man, in troff */

/* ---- options.c: rows that several verbs have ---- */

/* Groups of a help page, in its order. */
enum options_group { EVERYDAY, SERVER, PROMPT, SAMPLING, LOAD, MODEL, SCHEDULING, CACHE, COMPUTING, OUTPUT };
extern const char *const options_headings[]; /* NULL ends the list */

extern const struct opt_row options_model[]; /* --model */
/* Whether text of messages may hold special tokens, for verbs that render chats. */
#define OPTION_USER_TEXT(group)                                                                                \
    {                                                                                                          \
        "user-text", 0, OPT_CHOICE, NULL, group,                                                               \
            .help = "special tokens in the text of messages: special reads them as such, plain as text",       \
            .choices = "special|plain", .fallback = "special",                                                 \
            .manual =                                                                                          \
                "plain keeps what a chat template is given - messages, tools, documents and variables - from " \
                "writing the model's control tokens; those that the template writes itself stay. Added "       \
                "tokens that are not special are read as tokens in any case."                                  \
    }
enum { USER_TEXT_SPECIAL, USER_TEXT_PLAIN }; /* its choices */

extern const struct opt_row options_source[];                 /* how it is found */
extern const struct opt_row options_engine[];                 /* what an engine is opened with */
extern const struct opt_row options_scheduling[];             /* who of many is computed when */
const char *options_prefix_index(const struct opt_values *v); /* which of its two names was used */
extern const struct opt_row options_sampling[];               /* fields of a request */
extern const struct opt_row options_force[];                  /* for verbs that write files (save.c) */
extern const struct opt_row options_json[];
extern const struct opt_row options_help[];
extern const struct opt_row *const options_shared[]; /* all of them; NULL ends the list */

/* Refuses values of options_engine that are wrong with any model (ERR_USAGE) or not built in yet. */
int options_check_engine(const struct opt_values *v, struct err *e);

/* Remarks on options of one kind of cache that were given beside another kind. */
void options_remark_cache(const struct opt_values *v);

/* Sampling options that were given, as a record marked accordingly; lists live in A. */
/* The sentence of E to OUT [size]. Where E has a subject, it and the options of LIST that the sentence names as struct
 * gallop_options does become flags: "--kv-cache-memory: ..., or --max-model-len 512 or less". */
void options_error_text(const struct opt_row *const *list, const struct err *e, char *out, size_t size);

int options_read_sampling(const struct opt_values *v, struct sampling *s, struct arena *a, struct err *e);

/* Gives S a random seed of 32 bits where it has none, nor has CONFIG, and tokens are drawn at random. *DRAWN:
 * they are. */
int options_draw_seed(struct sampling *s, const struct sampling *config, bool *drawn, struct err *e);

/* ---- crash.c: what is said of a fault before it ends the program ---- */

struct crash_line {
    char text[480];
    size_t n;
};

/* From now on SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL, on any thread (that has run out of its stack: on
 * the main thread only), write a report to standard error
 * (signal, address, thread, version, what DESCRIBE says, the calls that led there), and then end the program
 * as they do by default. One that has a handler, as a sanitizer's, is left alone. DESCRIBE writes lines by
 * the functions below and calls nothing that a signal handler may not; NULL: nothing more. */
void crash_watch(void (*describe)(void));

void crash_put(struct crash_line *l, const char *s); /* '?' for what is no printable ASCII */
void crash_put_number(struct crash_line *l, uint64_t x, unsigned base);
void crash_end(struct crash_line *l);

/* ---- load.c: the model that the options name ---- */

/* The model is that of -m, fetched from the hub if it is there and not here, or the bundled demo model. */

/* What an engine is opened with. */
struct load {
    struct gallop_options o;
    char path[4096]; /* of the model */
    bool headless;   /* a model without a head is taken, too */
};

/* Checks options_engine, finds the model and sets L. */
int load_options(const struct opt_values *v, struct load *l, struct err *e);

/* Adds what options_scheduling says. */
void load_scheduling(const struct opt_values *v, struct gallop_options *o);

/* The files of that model, for those who need more of them than an engine. */
int load_checkpoint(const struct opt_values *v, const struct load *l, struct checkpoint *model,
                    struct err *e);

/* Opens an engine, with a progress bar. MODEL is what load_checkpoint() opened and outlives the engine, or
 * NULL. */
int load_engine(struct load *l, struct checkpoint *model, struct gallop **g, struct err *e);

/* ---- pooling.c ---- */

/* How the files of sentence-transformers in the folder say that embeddings are pooled, without them by the
 * last token, and what follows in DENSE, which is the caller's to close. ERR_UNSUPPORTED names a mode or a
 * module that is not computed here. */
int pooling_read(enum gallop_pooling *out, struct dense *dense, struct folder in, struct err *e);

/* The same of GGUF files, which have a pooling_type. */
int pooling_read_gguf(enum gallop_pooling *out, struct gguf_set *s, struct err *e);

/* ---- packing.c: packed checkpoints (ckpt/pack/pack.h) ---- */

struct packing_result {
    size_t n_files, bytes;
    const char *dtype;
    char quant[QUANT_TEXT_MAX];
};

/* Writes what L says as PATH, and with SPLIT_GIB above 0 as PATH.1, PATH.2, ... Without FORCE a file that
 * exists is refused. */
int packing_write(const struct load *l, const char *path, double split_gib, bool force,
                  struct packing_result *done, struct err *e);

/* Makes the packed form of L's model in the cache, unless it is there, and the model of L. */
int packing_cache(struct load *l, struct err *e);

/* The files of a model of which tokenizer and templates are wanted; nothing if it is open. */
int load_text(const struct opt_values *v, struct checkpoint *model, struct err *e);

/* ---- input.c: what is read: files, text, lists of token ids, messages ---- */

enum { INPUT_MAX_BYTES = 256 << 20 };

/* The whole file ("-": standard input) into OUT, whose data is a string then; ERR_INPUT where it does not end
 * within INPUT_MAX_BYTES. */
int input_file(const char *path, struct buf *out, struct err *e);

/* The same, and proves that it is UTF-8. */
int input_text(const char *path, struct buf *out, struct err *e);

/* A file of one JSON value. */
int input_json(const char *path, json_t **out, struct err *e);

/* "1,2,3" or "1 2 3" into IDS (freed by tok_ids_fini); anything else is ERR_USAGE. */
int input_ids(const char *text, struct tok_ids *ids, struct err *e);

/* The member KEY of a JSON object, a list of integers from LEAST to INT32_MAX, behind what is in IDS. */
int input_json_ids(const json_t *list, const char *key, int32_t least, struct tok_ids *ids, struct err *e);

/* False: out of memory. */
bool input_add_id(struct tok_ids *ids, int32_t id);

/* Adds the tokens that T puts in front of a text: those of an empty one, if they do not include an end. */
int input_bos(const struct tok *t, struct tok_ids *prefix, struct err *e);

/* Windows of CTX tokens, PREFIX of them in front, are no longer than CONTEXT and have room for text. */
int input_check_window(size_t ctx, size_t prefix, size_t context, struct err *e);

/* A template that makes text of messages: a model's own chat template, or a file with its variables. */
struct input_template {
    struct chat *chat;
    struct jinja *jinja; /* NULL: the model's own */
};

/* FILE may be NULL; then the model must have a template. */
int input_template_open(struct input_template *t, struct checkpoint *model, const char *file, struct err *e);
void input_template_close(struct input_template *t); /* a zeroed one is fine */

struct input_messages {
    json_t *messages;     /* a list, or an object with further variables; borrowed */
    const char *file;     /* they came from, which sentences about their shape begin with; NULL: none */
    const char *name;     /* of one of the model's named templates; NULL: the one that fits */
    bool generate;        /* the assistant's turn is opened */
    const struct tm *now; /* NULL: the clock's */
    struct buf
        *origin; /* gets where each byte of the text came from, see jinja_render_marked(); NULL: nothing */
};
int input_render(const struct input_template *t, const struct input_messages *m, struct buf *out,
                 struct err *e);

/* A template of a file. */
int input_jinja(const char *path, struct jinja **j, struct err *e);

/* ---- print.c: standard output, and the progress bar on stderr ----
 *
 * What is printed arrives, or the program says so and exits with 1. Printing never fails where it is done:
 * the first failure is kept, and what follows is dropped. A verb that goes on for long calls print_flush()
 * after each line or piece and stops when it fails; main() asks for the rest in print_finish(). A reader that
 * is gone (`gallop ... | head`) ends the work too, but without a sentence. Diagnostics are base/err.h's.
 *
 *     print_fmt("%zu tokens\n", n);
 *     if ((rc = print_flush(e)) != 0)
 *         return rc;                      the verb ends as for any other error
 */

/* Once, before any file is opened: makes sure that no file becomes descriptor 0, 1 or 2 because it was closed
 * when the program began. Printing to a closed standard output then fails. */
void print_init(void);

void print_bytes(const void *bytes, size_t n);
void print_text(const char *text);
void print_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* O as one line of JSON; drops O. The other one drops nothing and ends no line. */
void print_json(json_t *o); /* takes O; NULL is said once, and the exit status becomes 1 */
void print_json_value(const json_t *o);

/* A string for print_json() of what may not be UTF-8: U+FFFD stands where it is not. */
json_t *print_json_string(const char *text, size_t n);
json_t *print_json_ids(const struct tok_ids *ids);

void print_ids(const struct tok_ids *ids); /* "1,2,3" */

/* Writes what is held back. ERR_OS with a sentence when something printed so far is lost; ERR_CANCELLED when
 * the reader is gone, seen even if there was nothing to write. */
int print_flush(struct err *e);
bool print_reader_gone(void); /* seen by a flush: nothing is worth saying any more */

/* From now on what is printed goes to FILE, or with NULL to standard output again; what is held back and was
 * not flushed is dropped. */
struct save;
void print_to(struct save *file);

/* The program's exit status: STATUS, or 1 when results were lost, which is said here unless a caller of
 * print_flush() has the sentence. */
int print_finish(int status);

/* A line on standard error that is no warning; nothing with --quiet. */
void print_remark(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A bar on a terminal once a second has passed, unless --quiet. Begins zeroed but for WHAT. */
struct print_bar {
    const char *what;
    double start;
    bool shown;
};
void print_progress(void *bar, size_t done, size_t total); /* a gallop_progress */
void print_bar_end(struct print_bar *bar);                 /* wipes the line */

/* ---- save.c: files that a verb writes, whole under their name or not there at all ----
 *
 * A file is written under a temporary name in the folder of its own (".gallop-PID-N.part"), and takes its
 * name when it is complete and on the disk: other programs see the old file or the new one. An error, SIGINT,
 * SIGTERM, SIGHUP, SIGPIPE and exit() remove what is unfinished; the handlers are set only where a signal
 * would end the program by default. A link is replaced by the file, and what it leads to stays as it was.
 * What is no regular file (/dev/null, /dev/stdout, a fifo) is written to directly.
 */

enum { SAVE_PATH_MAX = 4096, SAVE_FOLDER_FILES = 8 };

/* A zeroed one is closed. It must stay where it is while it is open. */
struct save {
    FILE *f; /* any function of stdio may write to it: the first error is remembered */
    int error;
    int fd;
    bool direct; /* no temporary: written under its own name */
    char path[SAVE_PATH_MAX], part[SAVE_PATH_MAX];
    struct save *next; /* of those that are open */
};

/* Opens PATH for writing behind what it holds, under its own name from the beginning. */
int save_append(struct save *s, const char *path, struct err *e);

/* Opens PATH for writing. Without REPLACE, a PATH that exists is refused, and the sentence names --force;
 * what is no regular file needs no REPLACE. */
int save_open(struct save *s, const char *path, bool replace, struct err *e);

int save_write(struct save *s, const void *p, size_t n, struct err *e);

/* What was written so far reaches the file, or the first error that writing met is said. */
int save_flush(struct save *s, struct err *e);

/* The beginning of a file of safetensors: the length of HEADER in eight bytes and HEADER, filled up with
 * blanks to a multiple of eight. The tensors' bytes follow. */
int save_safetensors_header(struct save *s, const json_t *header, struct err *e);

/* The file is complete: it takes its name. After an error it is gone. S is closed either way; closed before,
 * nothing happens. */
int save_commit(struct save *s, struct err *e);

/* Removes what was written. Closed before or committed, nothing happens. */
void save_abort(struct save *s);

/* Several files of one folder, which take their names together. */
struct save_folder {
    char path[SAVE_PATH_MAX];
    bool made; /* the folder was not there before */
    size_t n;
    struct save file[SAVE_FOLDER_FILES];
    struct save_folder *next; /* of those that are open */
};

/* Makes the folder PATH, or takes an empty one; without FORCE, one that holds anything is refused. With it,
 * files of the names that are written are replaced and others stay. D must stay where it is. */
int save_folder_open(struct save_folder *d, const char *path, bool force, struct err *e);

/* Opens the file NAME of the folder; *s is closed by D. Files take their names in reverse order, so the one
 * that makes the folder usable (config.json) is opened first. */
int save_folder_file(struct save_folder *d, const char *name, struct save **s, struct err *e);

int save_folder_commit(struct save_folder *d, struct err *e);
void save_folder_abort(struct save_folder *d);

/* ---- npy.c: NumPy's file format, version 1.0: little-endian float32 arrays in C order ----
 * https://numpy.org/neps/nep-0001-npy-format.html */

/* Opens S for an array of SHAPE and writes the head; the elements follow with save_write(). A file that is
 * there is replaced at save_commit(). */
int npy_create(struct save *s, const char *path, const size_t *shape, int n_dims, struct err *e);

enum { NPY_MAX_DIMS = 8 };
struct npy_array {
    float *x; /* [count], to be freed with mem_free() */
    size_t shape[NPY_MAX_DIMS], count;
    int n_dims;
};

/* Reads a float32 array whole ("-": standard input). ERR_INPUT names the file and what of its header, or of
 * its length, is not as the format has it. */
int npy_read(const char *path, struct npy_array *out, struct err *e);

/* "[3, 2048]" for messages. */
const char *npy_shape_text(const struct npy_array *a, char *out, size_t size);

/* ---- requests.c: what `gallop run` is asked for: one prompt of the command line, or the lines of a batch as
 * they come.
 *
 * A batch is read a line at a time, so that it may be a pipe that never ends. A line that is wrong is a
 * request with a fault, which names the line.
 */

struct answer {
    struct tok_ids ids;
    struct buf text;
    json_t *logprobs; /* NULL: none */
    struct gallop_event end;
    char *stop_string; /* in the request's arena */
};

/* The form of a line, and of its result. */
enum request_form {
    REQUEST_OWN,
    REQUEST_OPENAI_CHAT, /* of OpenAI's batch files: url /v1/chat/completions, */
    REQUEST_OPENAI_TEXT, /* or /v1/completions */
};

struct request {
    struct request *next;
    size_t index;
    enum request_form form;
    char where[256];    /* "F: line 3"; empty: the command line */
    bool is_text;       /* the prompt is text, */
    bool rendered;      /* which a template wrote, with its own BOS */
    struct buf text;    /* of the prompt */
    struct buf origin;  /* of its bytes, with --user-text plain: see jinja_render_marked() */
    struct tok_ids ids; /* of the prompt; of a text from verb_run.c on */
    json_t *custom_id;
    json_t *model;     /* what an OpenAI line calls it; NULL: nothing */
    json_t *tools;     /* that an OpenAI line brings, whose names are in tool; NULL: none */
    const char **tool; /* [n_tools] in the arena */
    size_t n_tools;
    struct arena arena; /* lists of the sampling */
    struct sampling sampling;
    size_t n;            /* answers, which draw with seed, seed + 1, ... */
    int prompt_logprobs; /* -1: none */
    int priority;
    const char *user, *salt; /* in the arena; NULL: not given */
    struct err fault;        /* refused or failed */

    /* The answers, which verb_run.c fills. */
    bool default_limit;    /* max_new_tokens is the program's */
    bool skipped;          /* its result is in the file of --resume */
    bool drawn;            /* tokens are drawn at random: the seed counts */
    bool random_seed;      /* and the program chose it */
    bool done;             /* all of them, or refused */
    bool cancelled;        /* one of them */
    size_t n_open;         /* of them run */
    struct answer *answer; /* [n], in the arena; NULL: refused */
    json_t *scored;        /* log-probabilities of the prompt's tokens; NULL: not asked for */
};

struct requests {
    /* Set by the caller, who lends what is pointed to. */
    struct checkpoint *model;          /* for the template */
    const char *template_file;         /* instead of the model's own template; NULL: none */
    const char *system;                /* message in front of a prompt; NULL: none */
    bool wrap;                         /* prompts are wrapped in the template */
    bool plain_user_text;              /* --user-text plain */
    struct sampling sampling;          /* what a request has that says nothing else */
    const volatile sig_atomic_t *stop; /* not 0: waiting for a line ends */
    struct resume *resume;             /* requests that have their result are left out; NULL: none have */

    size_t n_skipped;               /* that were left out */
    struct request *first, *last;   /* in input order; what is answered is taken out */
    size_t n, n_answers;            /* requests so far, and the answers they ask for */
    struct requests_lines *lines;   /* owned; NULL: all requests are there */
    struct input_template template; /* open when something was rendered */
    bool template_is_open;
};

void requests_close(struct requests *r); /* a zeroed one is fine */

/* A prompt as text, which is UTF-8, or as ids. */
int requests_add_text(struct requests *r, const char *text, size_t len, struct err *e);
int requests_add_ids(struct requests *r, const struct tok_ids *ids, struct err *e);

/* Opens the template and wraps the prompt that was added. */
int requests_wrap(struct requests *r, struct err *e);

/* Lines of PATH ("-": standard input) are requests: JSON objects with "prompt", "ids" or "messages" and
 * sampling fields by their names with underscores or by OpenAI's; also lines of OpenAI's batch files. */
int requests_open_lines(struct requests *r, const char *path, struct err *e);

/* How many requests the file of lines holds. False: that cannot be told, it is no file. */
bool requests_count_lines(const struct requests *r, size_t *n);

/* The name of the file of lines, "standard input", or "--batch" when it is closed. */
const char *requests_name(const struct requests *r);
bool requests_never_wait(const struct requests *r); /* reading a line takes no time: it is a file */

/* Takes the next line if there is one, and closes the file behind the last; WAIT: waits for it. *GOT: there
 * was. */
int requests_read_line(struct requests *r, bool wait, bool *got, struct err *e);

void requests_free(struct request *q); /* one that was taken out */

/* ---- resume.c: the results that an earlier run of a batch has written ---- */

struct resume {
    const char *path;
    json_t *by_index; /* index -> custom_id or null */
    json_t *by_id;    /* custom_id of OpenAI's form -> number of results */
    size_t n;
};

/* Reads the results in the file PATH, if there is one, and takes out of it what is no whole result. */
int resume_open(struct resume *r, const char *path, struct err *e);
void resume_close(struct resume *r); /* a zeroed one is fine */
int resume_has(struct resume *r, const struct request *q, bool *has, struct err *e);

/* ---- openai.c: lines of OpenAI's result files ---- */

struct openai_form {
    bool is_open;
    bool keep_special;     /* special tokens stay in the texts of answers */
    const struct tok *tok; /* NULL: none */
    struct markup markup;
};

/* T is the template that wrote the prompts, if any were written. */
int openai_open(struct openai_form *f, const struct tok *tok, const struct input_template *t, struct err *e);

/* Whether the text of the answers to Q has to keep special tokens, because they are marks. */
bool openai_keeps_special(const struct openai_form *f, const struct request *q);

/* {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"} of a request that is
 * done. SEED: of its draws; NULL: nothing was drawn. NULL: out of memory. */
json_t *openai_line(const struct openai_form *f, const struct request *q, json_t *seed);

/* ---- shapes.c: shapes of real models, by name, for `gallop synth`: which tensors they have and what their
 * config says.
 */

struct shape {
    const char *name;
    const char *family; /* the file of src/model that computes it */
    size_t layers, hidden, inner, heads, kv, head_dim, vocab, context;
    double theta, eps;
    bool tied;
    double llama3;         /* factor of the rope of Llama 3.1 and later; 0: another rope */
    size_t experts, top_k; /* of the mixtures; INNER is an expert's */
};

size_t shapes_n(void);
const struct shape *shapes_at(size_t i);
const struct shape *shapes_of_name(const char *name); /* NULL: unknown */

/* config.json of S with LAYERS layers and stored DTYPE ("bfloat16", ...). NULL: out of memory. */
json_t *shapes_config(const struct shape *s, size_t layers, const char *dtype);

/* Bytes are MXFP4: nibbles, and scales that give them the spread of the other weights; stored as U8
 * whatever the rest is. */
enum shapes_fill { SYNTH_RANDOM, SYNTH_ONES, SYNTH_ZEROS, SYNTH_NIBBLES, SYNTH_SCALES };

struct shapes_tensor {
    const char *name;
    size_t shape[4]; /* ends with the first 0 */
    enum shapes_fill fill;
};

/* Calls FN for each tensor. Stops at the first non-zero return and gives it back. */
typedef int shapes_fn(void *ctx, const struct shapes_tensor *t);
int shapes_tensors(const struct shape *s, size_t layers, shapes_fn *fn, void *ctx);

#endif
