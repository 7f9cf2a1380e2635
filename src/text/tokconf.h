/* tokconf.h - what lies beside a vocabulary that is no tokenizer.json: tokenizer_config.json,
 * added_tokens.json, special_tokens_map.json and the model type of config.json. Every one of them may be
 * missing.
 */
#ifndef GALLOP_TEXT_TOKCONF_H
#define GALLOP_TEXT_TOKCONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/folder.h"
#include "base/mem.h"

struct tok;

enum { TOKCONF_UNSET = -1 };

struct tokconf_token {
    const char *content;
    size_t n;
    int64_t id; /* -1: not said */
    bool special, lstrip, rstrip, single_word, normalized;
};

struct tokconf {
    struct arena arena;
    char path[1024];                                /* the folder, for messages */
    char class[64];                                 /* tokenizer_class, "" if not said */
    char model_type[64];                            /* of config.json, "" if not said */
    int add_bos, add_eos, add_prefix_space, legacy; /* TOKCONF_UNSET, 0, 1 */
    struct tokconf_token bos, eos;                  /* content NULL: not said */
    struct tokconf_token *token; /* added tokens, those with ids in ascending order first */
    size_t n_tokens, cap;
};

/* Reads the files of the folder IN (path "": none). The zeroed or failed one needs tokconf_fini() too. */
int tokconf_read(struct tokconf *c, struct folder in, struct err *e);
void tokconf_fini(struct tokconf *c);

/* Adds the added tokens to T: at their id where one is said, else at the model's or the next free one. */
int tokconf_add_tokens(const struct tokconf *c, struct tok *t, struct err *e);

#endif
