/* settings.h - the small files beside a tokenizer: what they say of the added tokens, of what stands around a
 * text, and of how a chat is written.
 *
 * Reads what transformers reads: tokenizer_config.json and special_tokens_map.json; for a tokenizer also
 * added_tokens.json and the model type of config.json; for a chat also chat_template.jinja and
 * additional_chat_templates/NAME.jinja, which replace the templates of tokenizer_config.json altogether, and
 * chat_template.json when there is no other. Special tokens that the files do not name are those of the
 * tokenizer's class. Every one of the files may be missing. Members that are not known, or
 * have a value of an unexpected type, are passed over: these files hold much that is said for others.
 */
#ifndef GALLOP_TEXT_SETTINGS_H
#define GALLOP_TEXT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/folder.h"

enum settings_flag { SETTINGS_UNSET = -1, SETTINGS_NO, SETTINGS_YES };

struct settings_text { /* a token by its attribute, or a template by its name; both terminated */
    const char *name, *text;
    size_t n; /* bytes of the text */
};

struct settings_texts {
    struct settings_text *v;
    size_t n, cap;
};

struct settings_token {
    const char *content;
    size_t n, order; /* order: of reading */
    int64_t id;      /* -1: not said */
    bool special, lstrip, rstrip, single_word, normalized;
    bool in_table; /* added_tokens_decoder or added_tokens.json has it */
    bool of_class; /* it is what the tokenizer's class has where the files say nothing */
};

struct settings {
    struct arena arena;  /* what everything here lives in */
    const char *path;    /* the folder, for messages */
    char class[64];      /* tokenizer_class, "" if not said */
    char model_type[64]; /* of config.json, "" if not said */
    enum settings_flag add_bos, add_eos, add_prefix_space, legacy, split_special;
    struct settings_texts tokens;    /* bos_token, eos_token ... and those of the model's own */
    unsigned no_token;               /* a bit for each name that the files give as null */
    struct settings_texts templates; /* those that count */
    struct settings_token *added;    /* added tokens, those with ids in ascending order first */
    size_t n_added, added_cap, n_of_class;
};

/* What the answer is for decides which files and members are read. */
enum settings_use { SETTINGS_FOR_TOKENIZER, SETTINGS_FOR_CHAT };

/* One that says nothing. */
void settings_init(struct settings *c);

/* Reads the folder IN. C needs settings_fini() also when this fails. */
int settings_read(struct settings *c, struct folder in, enum settings_use use, struct err *e);

/* Reads the text of a tokenizer_config.json for a chat, and nothing else. PATH is for messages. */
int settings_read_text(struct settings *c, const char *text, size_t len, const char *path, struct err *e);

void settings_fini(struct settings *c); /* a zeroed one is fine */

/* The entry called NAME, or NULL. */
const struct settings_text *settings_find(const struct settings_texts *l, const char *name);

#endif
