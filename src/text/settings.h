/* settings.h - the small files beside a tokenizer: added tokens, BOS and EOS, and chat templates.
 *
 * The files are those that transformers reads: tokenizer_config.json and special_tokens_map.json; for a
 * tokenizer also added_tokens.json; for a chat also chat_template.jinja and
 * additional_chat_templates/NAME.jinja, which replace all templates of tokenizer_config.json, and
 * chat_template.json if there is no other template. A special token that the files do not name has the
 * default of the tokenizer's class, which follows from tokenizer_class and from the model_type of config.json
 * as in transformers 5. Each of the files may be missing. Unknown members, and values of an unexpected type,
 * are ignored, because these files contain many members for other programs.
 */
#ifndef GALLOP_TEXT_SETTINGS_H
#define GALLOP_TEXT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/folder.h"

/* A boolean of the configuration; UNSET: the files do not have it. */
enum settings_flag { SETTINGS_UNSET = -1, SETTINGS_NO, SETTINGS_YES };

/* The text of a special token under its attribute's name ("eos_token"), or a template under its name. Both
 * strings are terminated by NUL. */
struct settings_text {
    const char *name, *text;
    size_t n; /* the number of bytes of TEXT */
};

struct settings_texts {
    struct settings_text *v;
    size_t n, cap;
};

/* The members that name tokens. The tokens of some members are ignored in certain cases. */
enum settings_source {
    SETTINGS_OTHERS, /* other members */
    /* additional_special_tokens: its tokens do not count if extra_special_tokens is a list */
    SETTINGS_ADDITIONAL,
    /* model_specific_special_tokens: its tokens do not count if another member sets an attribute that only this model
     * has */
    SETTINGS_SPECIFIC,
};

/* An added token. */
struct settings_token {
    const char *content;
    size_t n, order; /* N: bytes of CONTENT; ORDER: number of tokens that were read before this token */
    /* For tokens without an id: the rank of the attribute in transformers' order; else the last rank. */
    unsigned rank;
    int64_t id; /* -1: the files have no id */
    bool special, lstrip, rstrip, single_word, normalized;
    bool in_table;             /* the token is in added_tokens_decoder or added_tokens.json */
    bool of_class;             /* only the tokenizer's class names the token, as a default */
    bool is_named;             /* an attribute or a list of special tokens names the token */
    enum settings_source only; /* the only member that names the token */
};

struct settings {
    struct arena arena; /* owns the memory of the strings below */
    const char *path;   /* the folder, for messages */
    char class[64];     /* tokenizer_class, "" if missing */
    /* The class by which transformers loads the tokenizer, without "Fast", if this class builds its own
     * steps; "": a class that takes them from the tokenizer.json. */
    char loaded[64];
    /* Of config.json, "" if missing: model_type, tokenizer_class, and the version of transformers that wrote
     * it. */
    char model_type[64], model_class[64], version[32];
    bool has_config;                     /* there is a config.json */
    bool has_table;                      /* tokenizer_config.json has added_tokens_decoder */
    bool ignores[SETTINGS_SPECIFIC + 1]; /* [enum settings_source] tokens of this source do not count */
    enum settings_flag add_bos, add_eos, add_prefix_space, legacy, split_special, fix_mistral_regex;
    /* bos_token, eos_token and the like, and attributes that only this model has. */
    struct settings_texts tokens;
    unsigned no_token;               /* bit i: the files set attribute i to null */
    struct settings_texts templates; /* the templates in effect, by the precedence of files */
    const char *response_template;   /* JSON of the template; NULL: there is none */
    struct settings_token *added; /* [n_added] tokens with ids in ascending order, then tokens without ids */
    size_t n_added, added_cap, n_of_class; /* N_OF_CLASS: number of tokens that have OF_CLASS set */
};

/* The purpose of the settings, which selects the files and the members to read. */
enum settings_use { SETTINGS_FOR_TOKENIZER, SETTINGS_FOR_CHAT };

/* Sets C to settings without values. */
void settings_init(struct settings *c);

/* Reads the folder IN. C needs settings_fini() even after an error. */
int settings_read(struct settings *c, struct folder in, enum settings_use use, struct err *e);

/* Reads TEXT, the contents of a tokenizer_config.json, for a chat; no file is read. PATH is for messages. */
int settings_read_text(struct settings *c, const char *text, size_t len, const char *path, struct err *e);

void settings_fini(struct settings *c); /* C may be zeroed */

/* Returns the entry called NAME, or NULL. */
const struct settings_text *settings_find(const struct settings_texts *l, const char *name);

#endif
