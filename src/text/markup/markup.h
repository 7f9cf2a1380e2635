/* markup.h - the markup by which model families mark tool calls and reasoning in generated text.
 *
 * There are two tables, for tool calls and for reasoning, with a row for each markup. A mark is a delimiter such as
 * <tool_call>. Rows have the names of vLLM's parsers, so that the server's options tool-call-parser and
 * reasoning-parser mean the same as in vLLM. A row is found by its name, or by the marks in the source of the model's
 * chat template, which writes earlier answers in the same markup. parser.h applies a row to generated text.
 */
#ifndef GALLOP_TEXT_MARKUP_MARKUP_H
#define GALLOP_TEXT_MARKUP_MARKUP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

/* Bits: the forms of the text after the marks that open tool calls. */
enum markup_shape {
    MARKUP_OBJECT =
        1, /* {"name": "f", "arguments": {...}} in any order; `parameters` is read like `arguments` */
    MARKUP_LIST = 2,     /* [object, object ...] */
    MARKUP_KEYED = 4,    /* the objects are {"f": {...}} */
    MARKUP_NAMED = 8,    /* a name, a mark after it, and the arguments as JSON */
    MARKUP_XML = 16,     /* a name, and keys and values between marks */
    MARKUP_TREE = 32,    /* with MARKUP_XML: a value may consist of keys and values */
    MARKUP_PYTHON = 64,  /* f(a="x", b=1), perhaps in a list */
    MARKUP_BRACES = 128, /* call:f{a:1,b:{...}} */
};

/* Bytes that stand for variable text in the marks of a row and in the texts of markup_calls.form. */
enum {
    MARKUP_ANY =
        1, /* a text of at most MARKUP_MOST_ANY characters without white space, brackets, quotes and bars */
    MARKUP_TYPE = 2,     /* in a form: the type of the value that follows */
    MARKUP_NUMBER = 3,   /* in a form, before a digit: any number, such as the index of a call */
    MARKUP_BLANK = '\t', /* in a form: an optional blank */
    MARKUP_MOST_ANY = 64
};

enum { MARKUP_MAX_OPEN = 3, MARKUP_MAX_MARKS = 2, MARKUP_MAX_STOP = 2 };

/* Unused marks are NULL. An answer has, with white space anywhere between marks:
 *
 *     OPEN (CALL name NAME_END arguments CALL_CLOSE) (CALL ...) CLOSE */
struct markup_calls {
    const char *name;
    const char *aliases; /* further names of vLLM for the same markup, "a|b", or NULL */
    unsigned shapes;
    const char *open[MARKUP_MAX_OPEN];  /* marks that open tool calls */
    const char *call[MARKUP_MAX_MARKS]; /* marks before each call; they open tool calls, too */
    /* Marks after a call, optional in an answer; with MARKUP_XML the first ends the call */
    const char *call_close[MARKUP_MAX_MARKS];
    const char *close[MARKUP_MAX_MARKS];    /* marks that close tool calls, optional in an answer */
    const char *name_key, *args_key;        /* OBJECT, LIST: further names of the members */
    const char *name_open;                  /* a prefix of names that is dropped */
    const char *name_end[MARKUP_MAX_MARKS]; /* marks after a name */
    const char *key_open[MARKUP_MAX_MARKS], *key_end, *value_open, *value_close; /* XML */
    /* XML: an optional mark before VALUE_OPEN, with the type of the value in the place of MARKUP_ANY */
    const char *value_type;
    const char *type_attribute; /* XML: the attribute of a key that gives the type of its value */
    const char *quote;          /* BRACES: the mark around strings */
    /* '{' or '[': an answer that begins with it may consist of calls without marks, separated by ';' */
    char bare;
    bool needs_open;  /* the marks CALL count only after OPEN */
    bool quoted;      /* names and keys are attributes: "f", 'f' or f, and further attributes may follow */
    bool is_numbered; /* NAMED: names end in ":" and a number */
    bool trims_lines; /* XML: one line end on both sides of a value belongs to the markup */
    bool echoes;      /* after CLOSE, models may repeat the calls without their first byte; this is dropped */
    bool no_mark;     /* NAMED: the arguments may follow the function's name without a mark */
    bool special;     /* marks may be special tokens, so special tokens must be kept in the text */
    /* OpenAI's harmony format: a header before each message states its channel and recipient */
    bool channels;
    bool short_id; /* ids of calls have 9 letters and digits, as the family's templates require */
    /* How a call is written: OPEN (BEFORE name BETWEEN arguments AFTER) SEPARATOR (BEFORE name ...) CLOSE. Arguments
     * that are not JSON have, for each key, its mark, the key, KEY_BETWEEN, the value and VALUE_AFTER. */
    struct {
        const char *open, *before, *between, *after, *close;
    } form;
    const char *key_between, *value_after;
    const char *separator; /* text between two calls; NULL: a default for the row's shapes */
    /* Tokens that end an answer after a tool call, besides the model's end tokens. */
    const char *stop[MARKUP_MAX_STOP];
    const char *models; /* families that write this markup, for documentation */
};

struct markup_reasoning {
    const char *name;
    const char *aliases;      /* as in markup_calls */
    const char *open, *close; /* marks around the reasoning; NULL if CHANNELS is set */
    /* Marks around content, and marks between the parts of an answer */
    const char *text_open[MARKUP_MAX_MARKS], *text_close[MARKUP_MAX_MARKS], *skip[MARKUP_MAX_MARKS];
    bool implied;  /* an answer begins inside reasoning unless its prompt closes it, as with DeepSeek R1 */
    bool special;  /* as in markup_calls */
    bool channels; /* OpenAI's harmony format, as in markup_calls */
    const char *models; /* families that write this markup, for documentation */
};

/* The rows, [n]; formats.c. */
extern const struct markup_calls markup_calls_rows[];
extern const struct markup_reasoning markup_reasoning_rows[];
extern const size_t markup_n_calls_rows, markup_n_reasoning_rows;

/* Returns the number of bytes of S [n] that MARK matches at its beginning; 0: none. Sets *MORE if S is too short to
 * decide whether it begins with MARK. */
size_t markup_match(const char *s, size_t n, const char *mark, bool *more);

/* Appends a call of f with a = 1 as ROW writes it, for documentation and tests. */
void markup_example(const struct markup_calls *row, struct buf *out);

/* Returns MARK if its text is fixed, so that it can be searched and generated literally; otherwise, and for NULL,
 * returns NULL. */
const char *markup_fixed(const char *mark);

enum { MARKUP_MOST_MARKS = MARKUP_MAX_OPEN + 5 * MARKUP_MAX_MARKS + 5 };

/* Sets MARK [MARKUP_MOST_MARKS] to the marks of ROW, and returns their number. */
size_t markup_calls_marks(const struct markup_calls *row, const char **mark);

/* Returns row I of the table, or NULL if I is beyond the last row. */
const struct markup_calls *markup_calls_row(size_t i);
const struct markup_reasoning *markup_reasoning_row(size_t i);

/* Returns the row called NAME, or NULL. */
const struct markup_calls *markup_calls_named(const char *name);
const struct markup_reasoning *markup_reasoning_named(const char *name);

/* Returns the row whose markup occurs in TEMPLATE, the source of a chat template, or NULL. */
const struct markup_calls *markup_calls_shown(const char *template);
const struct markup_reasoning *markup_reasoning_shown(const char *template);

/* Sets *OUT to the rows of markup_calls_shown() and markup_reasoning_shown(), and their origins. */
struct markup;
void markup_shown(const char *template, struct markup *out);

/* Appends the names of all rows, "hermes, llama3_json, ...", for messages. */
void markup_calls_names(struct buf *out);
void markup_reasoning_names(struct buf *out);

/* How a row was chosen. */
enum markup_origin {
    MARKUP_NO_ORIGIN, /* no row was chosen */
    MARKUP_NAMED_ROW, /* by its name */
    MARKUP_RENDERED,  /* its parser reads the text that the chat template renders */
    MARKUP_SHOWN,     /* its marks are in the source of the chat template */
    MARKUP_DESCRIBED, /* the response_template of the checkpoint describes it */
};

/* Returns the words for an origin: "none", "as configured", "rendered", "shown in the template" or "described in
 * response_template". */
const char *markup_origin_name(enum markup_origin origin);

/* The rows chosen for the served model. */
struct markup {
    const struct markup_calls *calls;         /* NULL: no tool calls are parsed */
    bool plain_calls;                         /* "none" was chosen: tool calls stay text */
    const struct markup_reasoning *reasoning; /* NULL: no reasoning is parsed */
    enum markup_origin calls_origin, reasoning_origin;
};

/* Returns a new object with the names of the rows and how they were chosen: tool_call_parser, reasoning_parser,
 * tool_call_parser_from and reasoning_parser_from. NULL: out of memory. */
json_t *markup_json(const struct markup *m);

/* Chooses the rows called CALLS and REASONING. "none" chooses no row; "auto" chooses the row of FOUND, the
 * markup of the chat template (detect.h; NULL: no template). ERR_USAGE: a name is unknown; the subject is
 * tool_call_parser or reasoning_parser. */
int markup_choose(struct markup *out, const char *calls, const char *reasoning, const struct markup *found,
                  struct err *e);

/* Where an answer begins. */
enum markup_place {
    MARKUP_BEFORE,  /* before any text: reasoning may open */
    MARKUP_OPENED,  /* after the mark that opens reasoning */
    MARKUP_INSIDE,  /* inside reasoning that has text */
    MARKUP_CLOSED,  /* after the mark that closes reasoning */
    MARKUP_CONTENT, /* in content */
};

/* Returns where the answer to a rendered prompt begins. CONTINUED [n_continued] is the text of the last
 * message if the answer continues it: its last mark decides, and text without a mark is content. NULL or
 * white space: the answer is a new message. Its reasoning is open if the prompt ends with the opening mark,
 * or if R->implied is set and the prompt does not end with the closing mark, by which templates switch
 * thinking off. R may be NULL. */
enum markup_place markup_place(const struct markup_reasoning *r, const char *prompt, size_t n,
                               const char *continued, size_t n_continued);

/* Returns whether PROMPT [n] ends with a mark that opens content. R may be NULL. */
bool markup_in_text(const struct markup_reasoning *r, const char *prompt, size_t n);

/* Returns whether an answer that begins at PLACE begins with reasoning. */
bool markup_reasons(enum markup_place place);

#endif
