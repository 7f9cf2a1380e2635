/* settings.h - the small files beside a tokenizer: added tokens, the ids around a text, and chat templates.
 *
 * The files are those that transformers reads: tokenizer_config.json and special_tokens_map.json; for a
 * tokenizer also added_tokens.json and the model type of config.json; for a chat also chat_template.jinja and
 * additional_chat_templates/NAME.jinja, which replace the templates of tokenizer_config.json altogether, and
 * chat_template.json if there is no other template. Special tokens that the files do not name are those of
 * the tokenizer's class. Each of the files may be missing. Unknown members, and values of an unexpected type,
 * are ignored, because these files have much that is meant for other programs.
 */
#ifndef GALLOP_TEXT_SETTINGS_H
#define GALLOP_TEXT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/files/folder.h"

enum settings_flag { SETTINGS_UNSET = -1, SETTINGS_NO, SETTINGS_YES };

/* A token with its attribute, or a template with its name. Both strings are terminated. */
struct settings_text {
    const char *name, *text;
    size_t n; /* the bytes of the text */
};

struct settings_texts {
    struct settings_text *v;
    size_t n, cap;
};

struct settings_token {
    const char *content;
    size_t n, order; /* order: the position in the order of reading */
    unsigned rank; /* among tokens without an id: the attribute's place in transformers' order, or the last */
    int64_t id;    /* -1: not in the files */
    bool special, lstrip, rstrip, single_word, normalized;
    bool in_table; /* the token is in added_tokens_decoder or added_tokens.json */
    bool of_class; /* the token is the default of the tokenizer's class */
};

struct settings {
    struct arena arena;  /* the memory of everything below */
    const char *path;    /* the folder, for messages */
    char class[64];      /* tokenizer_class, "" if missing */
    char model_type[64]; /* model_type of config.json, "" if missing */
    enum settings_flag add_bos, add_eos, add_prefix_space, legacy, split_special;
    struct settings_texts tokens;    /* bos_token, eos_token and the like, and the model's own attributes */
    unsigned no_token;               /* a bit for each attribute that the files set to null */
    struct settings_texts templates; /* the templates after precedence */
    struct settings_token *added;    /* added tokens; those with ids come first, in ascending order */
    size_t n_added, added_cap, n_of_class;
};

/* The purpose of the settings, which selects the files and members. */
enum settings_use { SETTINGS_FOR_TOKENIZER, SETTINGS_FOR_CHAT };

/* Sets C to settings that have no values. */
void settings_init(struct settings *c);

/* Reads the folder IN. C needs settings_fini() even after an error. */
int settings_read(struct settings *c, struct folder in, enum settings_use use, struct err *e);

/* Reads the text of a tokenizer_config.json for a chat, and nothing else. PATH is for messages. */
int settings_read_text(struct settings *c, const char *text, size_t len, const char *path, struct err *e);

void settings_fini(struct settings *c); /* a zeroed one is fine */

/* The entry called NAME, or NULL. */
const struct settings_text *settings_find(const struct settings_texts *l, const char *name);

#endif
