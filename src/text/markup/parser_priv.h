/* parser_priv.h - the state of a parser, and the functions that its parts share: parser.c (text and marks), a
 * part for each shape of calls (call_json.c, call_xml.c, call_words.c), call_name.c, call_values.c (values as
 * JSON), and channels.c.
 *
 * The step function of a part reads the next byte or mark, and returns false if it needs more text for that.
 * Until the name of a call and the beginning of its arguments are known, the text may have to be read again
 * as plain text. Then parser_begin_call() emits the call, and what follows is read only once.
 */
#ifndef GALLOP_TEXT_MARKUP_PARSER_PRIV_H
#define GALLOP_TEXT_MARKUP_PARSER_PRIV_H

#include "base/buf.h"
#include "text/markup/parser.h"

enum {
    PARSER_MAX_BLANKS = 4096,
    PARSER_MAX_SPECIAL = 40, /* marks of two rows that begin with a special token */
    PARSER_MAX_DEPTH = 32,   /* depth of lists and objects in arguments that are not JSON */
};

enum parser_machine { TEXT, CALL, HEADER, BODY, BETWEEN };

enum parser_call_state {
    AT_OPEN,     /* after the mark that opens tool calls: the mark of a call follows */
    AT_HEAD,     /* after the mark of a call */
    AT_CLOSE,    /* after a complete call: a closing mark or another call may follow */
    IN_FUNCTION, /* inside the name of a function that is not in JSON (call_name.c) */
    /* call_json.c */
    AT_ITEM,     /* in a list of calls: '{' must follow */
    AT_KEY,      /* after '{' or ',': a key follows */
    IN_KEY,      /* inside a key string */
    AT_COLON,    /* after a key */
    AT_VALUE,    /* after ':' */
    IN_NAME,     /* inside the string value of "name" */
    IN_VALUE,    /* inside the value of a member other than name and arguments */
    IN_ARGS,     /* inside arguments that are an object */
    IN_QUOTED,   /* inside arguments that are a string with JSON text */
    AFTER_VALUE, /* ',' or '}' must follow */
    AFTER_ITEM,  /* ',' or ']' must follow */
    AT_ARGS,     /* after the mark that ends a name: '{' must follow */
    /* call_xml.c */
    XML_NEXT,  /* a key or the end of the call follows */
    XML_KEY,   /* inside a key */
    XML_OPEN,  /* after a key: the mark of the value follows */
    XML_BEGIN, /* before the first byte of the value */
    XML_VALUE, /* inside the value */
    XML_CDATA, /* inside <![CDATA[ of the value */
    /* call_words.c */
    WORDS_KEY,    /* a key or the end of an object follows */
    WORDS_IN_KEY, /* inside a key without quotes */
    WORDS_COLON,  /* after a key in quotes */
    WORDS_VALUE,  /* a value follows */
    WORDS_STRING, /* inside a string */
    WORDS_BARE,   /* inside a number or a word */
    WORDS_AFTER,  /* ',' or the end of a list or object must follow */
    WORDS_NEXT,   /* after a call: another one or the end of the list may follow */
};

enum parser_member { MEMBER_OTHER, MEMBER_NAME, MEMBER_ARGS };

/* Position inside a JSON value: depth of lists and objects, and whether inside a string. */
struct parser_nesting {
    size_t depth;
    bool quoted, escaped;
};

/* State of decoding the escapes of a string of JSON or Python. */
struct parser_escapes {
    bool begun; /* a backslash was read */
    int digits; /* number of digits of \uXXXX still to be read */
    uint32_t unit, high;
};

/* Bits: the JSON types that a value may have. */
enum parser_type {
    VALUE_NULL = 1,
    VALUE_INTEGER = 2,
    VALUE_NUMBER = 4,
    VALUE_BOOLEAN = 8,
    VALUE_OBJECT = 16,
    VALUE_ARRAY = 32,
    VALUE_STRING = 64,
    VALUE_ANY = 63, /* all types but strings */
};

/* An object or a list of the arguments that is being written. */
struct parser_level {
    const json_t *schema; /* NULL: unknown */
    char close;           /* '}' or ']'; 0: not known yet (MARKUP_TREE) */
    char end;             /* the byte that ends this object or list in the markup, for call_words.c */
    bool has_member;
    /* In an object that is held back: offsets of the last key and its value in `held`, and whether the key was
     * repeated */
    size_t key, n_key, value;
    bool is_repeated;
};

struct parser_call {
    enum parser_call_state state;
    size_t start; /* offset in `in` from which text is plain if this is not a call */
    /* if this is not a call: number of bytes at START that become plain text and are not searched for marks
     * again */
    size_t mark_len;
    bool bare, list, named;
    enum parser_member member;
    struct buf word; /* a key, a name, or a value whose type is not decided yet */
    struct buf name; /* name of the function; empty: unknown yet */
    struct parser_nesting nesting;
    struct parser_escapes escapes;
    bool begun;    /* the piece PARSER_CALL was emitted */
    bool has_args; /* the arguments have begun */
    bool args_done;
    /* The following members are used for arguments that are not JSON. */
    struct parser_level level[PARSER_MAX_DEPTH];
    size_t depth;         /* number of levels */
    unsigned types;       /* types of the value that is being read */
    const json_t *schema; /* schema of this value */
    /* Arguments that are held back: all arguments until the function's name is known; later a value without a schema at
     * level HOLDS (0: none), because the values of a repeated key become a list */
    struct buf held;
    size_t holds;
    bool is_held;           /* the value is emitted when it ends, because its type is not decided */
    bool is_led;            /* a line end at the beginning of the value was dropped */
    bool has_line_end;      /* a line end of the value is held back */
    bool is_key, is_triple; /* call_words.c: IS_KEY: the string is a key. IS_TRIPLE: it has triple quotes */
    char quote;             /* call_words.c: the quote of the string */
};

struct parser_slot {
    enum parser_kind kind;
    unsigned call;
    bool complete;
    size_t at, len; /* offset and length in `out` */
    char id[PARSER_ID_SIZE];
};

/* A mark that contains a special token: the N bytes at offset FROM of the mark. */
struct parser_mark {
    const char *mark;
    size_t from, n;
};

struct parser {
    struct parser_options o;
    struct buf in, out, blanks; /* BLANKS: white space that is held back because a mark may follow */
    struct parser_mark special[PARSER_MAX_SPECIAL]; /* [n_special] */
    size_t n_special;
    struct buf origin; /* for each byte of `in`, if n_special: whether a special token may have written it */
    size_t at;         /* offset of the next byte in `in` */
    struct parser_slot *slot;
    size_t n_slots, slots_cap, taken;
    enum parser_machine machine;
    enum parser_kind mode; /* kind of plain text: CONTENT or REASONING; in BODY also ARGUMENTS */
    bool finishing, muted;
    enum parser_end end; /* how the answer ended; only if FINISHING */
    bool content_begun, reasoning_begun;
    bool after_reasoning; /* drop line ends now: they belong to the mark that closed the reasoning */
    bool ended_by_call;   /* a call ended the reasoning, whose closing mark may still follow */
    bool in_text;         /* between the marks around content */
    bool in_section;      /* after a mark that opens tool calls */
    size_t line_ends;     /* number of line ends held back in reasoning: the closing mark may follow */
    unsigned n_calls;
    struct parser_call call;
    size_t source;         /* offset in `in` of the text after the mark that opens tool calls */
    struct buf echo;       /* text that the model may repeat now, after its calls (markup_calls.echoes) */
    const char *text_mark; /* the mark that ended content right before a call that has not begun; or NULL */
    /* put a line end before further content, because a tool call, a mark or a message separates it from
     * earlier */
    bool separate;
    /* The following members are used only for the channels of harmony. */
    size_t header; /* offset of the header in `in` */
    bool fresh;    /* no byte of the answer was read yet */
    bool in_body;  /* the header began inside content, with <|channel|> */
};

/* ---- parser.c ---- */

void parser_put(struct parser *a, enum parser_kind kind, const char *s, size_t n);
void parser_put_call(struct parser *a, const char *name, size_t n);
void parser_put_call_end(struct parser *a, bool complete);

enum parser_found { NO_MATCH, MAY_MATCH, IS_MATCH };

/* Returns whether MARK (NULL: NO_MATCH) begins at offset AT of `in`, and its length in *LEN. MAY_MATCH is not returned
 * when no more text follows. */
enum parser_found parser_match(const struct parser *a, size_t at, const char *mark, size_t *len);

/* Does the same for the first of MARKS [n] that matches. */
enum parser_found parser_match_any(const struct parser *a, size_t at, const char *const *marks, size_t n,
                                   size_t *len);

/* Returns whether a function of the request is called NAME. */
bool parser_knows(const struct parser *a, const char *name, size_t n);

/* Emits the beginning of the call of the function c->name. */
void parser_begin_call(struct parser *a);

/* Ends the call, whose text ends at offset BEHIND of `in`. */
void parser_end_call(struct parser *a, size_t behind, bool complete);

/* Handles a byte that cannot be part of the call: ends a call that has begun, or treats the text as plain. */
void parser_misfit(struct parser *a);

/* Appends the text S [n] to the arguments, or to c->held. */
void parser_args(struct parser *a, const char *s, size_t n);

/* ---- the shapes ---- */

bool call_json_step(struct parser *a);
bool call_xml_step(struct parser *a);
bool call_words_step(struct parser *a);
void call_xml_finish(struct parser *a); /* no more text follows, and the arguments have begun */

/* Reads a byte of the name of a function, or its end. Returns false if more text is needed. */
bool call_name_step(struct parser *a);

/* Returns whether C may be part of a name in the calls of ROW. */
bool call_is_name(const struct markup_calls *row, char c);

/* Trims the text in c->word or, if names are attributes (row->quoted), takes its first value without quotes. Sets *WORD
 * to the result and *REST to the text after it. Returns the length of *WORD. */
size_t call_word(struct parser *a, char **word, const char **rest);

/* Returns whether a mark before a key begins at offset AT, and its length in *LEN. With MARKUP_TREE, a mark followed by
 * `/` ends a value and does not match. */
enum parser_found call_xml_key(const struct parser *a, size_t at, size_t *len);

/* Begins an object of call_json.c. */
void call_json_object(struct parser_call *c);

/* Advances N by the byte C of a JSON value. Returns true if C ends the value. */
bool call_nest(struct parser_nesting *n, char c);

/* Decodes the byte C of a JSON string into OUT [8] and returns the number of bytes. */
size_t call_decode(struct parser_escapes *s, char c, char *out);

/* ---- call_values.c ---- */

/* Returns the types that SCHEMA allows; VALUE_STRING if nothing is known. ROOT resolves references. */
unsigned call_types(const json_t *root, const json_t *schema);

/* Returns the type called WORD [n]; 0: there is none. */
unsigned call_type_named(const char *word, size_t n);

/* Emits the call and the beginning of its arguments, unless they were emitted before. */
void call_open(struct parser *a);

/* Begins the arguments of the call: its first level is the object of the arguments of c->name. */
void call_levels(struct parser *a);

/* Opens a list or an object, and closes the innermost one. Without room for it, call_push() returns false. */
bool call_push(struct parser *a, char open, char close, char end);
void call_pop(struct parser *a);

/* Emits the arguments that are held back. */
void call_release(struct parser *a);

/* Writes the key S [n] and the JSON syntax before it (in a list, only a comma), and sets c->types to the
 * types of its value. */
void call_key(struct parser *a, const char *s, size_t n);

/* Appends S [n] to a JSON string. */
void call_string(struct parser *a, const char *s, size_t n);

/* Writes the text S [n] as a value of one of TYPES, or as a string. */
void call_value(struct parser *a, unsigned types, const char *s, size_t n);

/* Write a text that is read byte by byte. IS_HELD: the text is held back until it ends, and then becomes a
 * value of c->types. Otherwise each byte becomes part of a JSON string at once. call_text_cut() ends a text
 * that was cut off. */
void call_text_begin(struct parser *a, bool is_held);
void call_text(struct parser *a, char ch);
void call_text_end(struct parser *a);
void call_text_cut(struct parser *a);

/* Writes the number or literal S [n] of JSON or Python. Returns false if S is neither. */
bool call_literal(struct parser *a, const char *s, size_t n);

/* ---- channels.c ---- */

bool channels_step(struct parser *a);
void channels_finish(struct parser *a); /* no more text follows */
int channels_read_prompt(struct parser *a, struct err *e);
extern const char *const channels_marks[]; /* all marks, then NULL */

#endif
