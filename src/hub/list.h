/* list.h - the list of a repository's files. */
#ifndef GALLOP_HUB_LIST_H
#define GALLOP_HUB_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "hub/name.h"

/* The names of the files that a model may need: files in the top folder, FOLDER/NAME.gguf,
 * additional_chat_templates/NAME.jinja, and modules of sentence-transformers. A zeroed list is closed. */
struct hub_list {
    char commit[HUB_NAME_COMMIT + 1]; /* "" for the list of a folder */
    const char **name; /* [n] file names, without a folder (hub_name_is_plain()) or in a folder named above */
    size_t n, cap;
    size_t n_refused; /* number of ignored names that could lead out of the folder */
    struct arena arena;
};

/* Reads the hub's description of a revision: {"sha": commit, "siblings": [{"rfilename": name}, ...], ...}.
 * Names in subfolders that struct hub_list does not list are ignored; names that could lead out of the folder
 * are ignored and counted. Errors begin with WHAT, the address of the hub. */
int hub_list_read(struct hub_list *l, const char *text, size_t len, const char *what, struct err *e);

/* Reads the names of the files in the folder DIR, and of FOLDER/NAME.gguf below it. If DIR does not exist,
 * the list is empty. */
int hub_list_read_folder(struct hub_list *l, const char *dir, struct err *e);

void hub_list_close(struct hub_list *l);

bool hub_list_has(const struct hub_list *l, const char *name);

/* Returns true if NAME is a file of the tokenizer, of chat templates or of generation settings. */
bool hub_list_is_text(const char *name);

/* Returns true if NAME is one of the other small files that opening a model reads: quantization configs,
 * modules.json of sentence-transformers, and the files of its modules. */
bool hub_list_is_beside(const char *name);

/* Returns true if the list contains the main file of a tokenizer. */
bool hub_list_has_tokenizer(const struct hub_list *l);

/* Returns the file that weights_open() would read: the weights or, with *is_index set, the index of the
 * weight files. NULL if the list has neither. */
const char *hub_list_weights(const struct hub_list *l, bool *is_index);

/* Returns the next GGUF checkpoint at or after index *at and sets *at to the following index; NULL at the
 * end. Of a split checkpoint, only the first file is returned. Projectors (mmproj-*) and importance matrices
 * (imatrix*) are skipped. */
const char *hub_list_next_gguf(const struct hub_list *l, size_t *at);

/* Finds the GGUF checkpoint WHAT: the name of a file, with or without its folder, or a part of the name
 * between '/', '-' and '.', such as the quantization (q4_k_m); the part is compared without regard to case.
 * ERR_INPUT, with a list of candidates, unless exactly one file matches. */
int hub_list_gguf(const struct hub_list *l, const char *what, const char **name, struct err *e);

/* Writes the names of the GGUF checkpoints to out[size] as "a.gguf, b.gguf", followed by ", ..." if not all
 * fit, and returns out. */
const char *hub_list_ggufs(const struct hub_list *l, char *out, size_t size);

#endif
