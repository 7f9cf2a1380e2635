/* list.h - the list of a repository's files. */
#ifndef GALLOP_HUB_LIST_H
#define GALLOP_HUB_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "hub/name.h"

/* The names of the files that a model may need: those in the top folder, FOLDER/NAME.gguf,
 * additional_chat_templates/NAME.jinja, and modules of sentence-transformers. A zeroed list is closed. */
struct hub_list {
    char commit[HUB_NAME_COMMIT + 1]; /* "" for the list of a folder */
    const char **name; /* plain names (hub_name_is_plain()), except for files of the subfolders above */
    size_t n, cap;
    size_t n_refused; /* the number of names that could lead out of the folder */
    struct arena arena;
};

/* Reads the hub's description of a revision: {"sha": commit, "siblings": [{"rfilename": name}, ...], ...}.
 * Names in other subfolders are left out; names that lead elsewhere are counted. WHAT is for messages. */
int hub_list_read(struct hub_list *l, const char *text, size_t len, const char *what, struct err *e);

/* The same for the folder DIR: its top, and FOLDER/NAME.gguf. A folder that does not exist is empty. */
int hub_list_read_folder(struct hub_list *l, const char *dir, struct err *e);

void hub_list_close(struct hub_list *l);

bool hub_list_has(const struct hub_list *l, const char *name);

/* True for the files of a model beside its weights: tokenizer, chat template, generation settings. */
bool hub_list_is_text(const char *name);

/* True for files about the weights or about embeddings: how they are quantized or pooled. */
bool hub_list_is_beside(const char *name);

/* True if a main file of a tokenizer is in the list. */
bool hub_list_has_tokenizer(const struct hub_list *l);

/* The file with the weights, or the index of the files with them (*is_index): the file that weights_open()
 * would read. NULL if there is none. */
const char *hub_list_weights(const struct hub_list *l, bool *is_index);

/* The next GGUF checkpoint from *at on; *at then follows it. NULL: no more. A checkpoint in several files is
 * listed as its first file. Projectors (mmproj-*) and importance matrices (imatrix*) are not checkpoints. */
const char *hub_list_next_gguf(const struct hub_list *l, size_t *at);

/* Finds the GGUF checkpoint that WHAT means: by its name, with or without the folder, or by a part of it
 * between '/', '-' and '.', in any case, such as the quantization (Q4_K_M). ERR_INPUT, with a sentence that
 * lists the choice, unless exactly one fits. */
int hub_list_gguf(const struct hub_list *l, const char *what, const char **name, struct err *e);

/* Writes "a.gguf, b.gguf, ...", as many as fit, to out[size] and returns out. "" if there are none. */
const char *hub_list_ggufs(const struct hub_list *l, char *out, size_t size);

#endif
