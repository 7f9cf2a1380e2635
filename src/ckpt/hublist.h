/* hublist.h - which files a repository of a hub holds, and which of them a model is made of. */
#ifndef GALLOP_CKPT_HUBLIST_H
#define GALLOP_CKPT_HUBLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "ckpt/hubid.h"

/* Names of files in the top folder, and additional_chat_templates/NAME.jinja. A zeroed one is closed. */
struct hublist {
    char commit[HUBID_COMMIT + 1]; /* "" from a folder */
    const char **name;             /* each a plain name (hubid_name_is_plain()), but for that folder */
    size_t n, cap;
    size_t n_refused; /* names that could lead out of the folder */
    struct arena arena;
};

/* Reads the hub's description of a revision: {"sha": commit, "siblings": [{"rfilename": name}, ...], ...}.
 * Names in other subfolders are left out, names that lead elsewhere are counted. WHAT is for messages. */
int hublist_read(struct hublist *l, const char *text, size_t len, const char *what, struct err *e);

/* The same from the top of the folder DIR; a folder that is not there is empty. */
int hublist_read_folder(struct hublist *l, const char *dir, struct err *e);

void hublist_close(struct hublist *l);

bool hublist_has(const struct hublist *l, const char *name);

/* A file beside the weights that a model is made of: tokenizer, chat template, generation settings. */
bool hublist_is_text(const char *name);

/* One of the names is that of a tokenizer's main file. */
bool hublist_has_tokenizer(const struct hublist *l);

/* The file that holds the weights, or the index of the files that do (*is_index): the one weights_open()
 * would read. NULL if there is none. */
const char *hublist_weights(const struct hublist *l, bool *is_index);

/* The next GGUF checkpoint from *at on, which moves behind it; NULL: no more. Of one in several files it is
 * the first; projectors (mmproj-*) and importance matrices (imatrix*) are none. */
const char *hublist_next_gguf(const struct hublist *l, size_t *at);

/* The GGUF checkpoint that WHAT means to *name: by its name, or by a part of it between '-' and '.', in any
 * case, as quantisations are named (Q4_K_M). ERR_INPUT, with a sentence that names the choice, unless it is
 * one. */
int hublist_gguf(const struct hublist *l, const char *what, const char **name, struct err *e);

/* "a.gguf, b.gguf, ...", as many as fit, to out[size]; returns out. "" if there is none. */
const char *hublist_ggufs(const struct hublist *l, char *out, size_t size);

#endif
