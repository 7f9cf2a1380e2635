/* chatconf.h - reading the files of a checkpoint folder that say how a chat is written: template texts and
 * tokens. */
#ifndef GALLOP_TEXT_CHATCONF_H
#define GALLOP_TEXT_CHATCONF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/folder.h"
#include "base/mem.h"

struct chatconf_pair { /* a token by its attribute, or a template by its name; both terminated */
    const char *name, *text;
    size_t n; /* bytes of the text */
};

struct chatconf_list {
    struct chatconf_pair *v;
    size_t n, cap;
};

enum chatconf_flag { CHATCONF_UNSAID, CHATCONF_NO, CHATCONF_YES };

struct chatconf {
    struct arena arena; /* what everything here lives in */
    struct chatconf_list
        tokens; /* bos_token, eos_token ... and those of the model's own; sorted by nothing */
    struct chatconf_list templates; /* those that count */
    enum chatconf_flag add_bos, add_eos;
};

/* Reads the folder IN. On failure *c is closed. */
int chatconf_read(struct chatconf *c, struct folder in, struct err *e);

/* Reads the text of a tokenizer_config.json, and nothing else. PATH is for messages. */
int chatconf_read_text(struct chatconf *c, const char *text, size_t len, const char *path, struct err *e);

void chatconf_fini(struct chatconf *c);

/* The entry called NAME, or NULL. */
const struct chatconf_pair *chatconf_find(const struct chatconf_list *l, const char *name);

#endif
