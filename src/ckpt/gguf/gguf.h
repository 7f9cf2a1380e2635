/* gguf.h - GGUF checkpoints: one file as a table, the files of a checkpoint, and their contents in the form
 * of a Hugging Face folder. This header is the contract of the files of this folder.
 *
 * Versions 2 and 3, little-endian. The whole head of a file is checked before any value is used: every length
 * and offset is inside the file, no key or tensor is there twice, tensors are aligned, have the size of their
 * shape and type, and do not overlap. Nothing is copied: keys, strings and arrays point into the file's
 * bytes. Each getter marks its key, so that keys that were not understood can be found afterwards. Format:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 */
#ifndef GALLOP_CKPT_GGUF_H
#define GALLOP_CKPT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/strmap.h"
#include "ckpt/gguf/set.h"
#include "ckpt/tensor_file.h"
#include "tensor/view.h"
#include "text/tok/tok.h"

/* ---- one file ---- */

enum { GGUF_MAX_DIMS = 4 };

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_N_TYPES
};

struct gguf_kv {
    struct json_str key;
    enum gguf_type type; /* the type of the value, or of the elements of an array */
    bool is_array;
    bool asked;       /* a getter has read it */
    size_t n;         /* the number of elements; 1 if it is not an array */
    const char *data; /* the first element, at any alignment */
};

struct gguf_tensor {
    struct json_str name;
    struct view view; /* contiguous, outermost dimension first; name and file are not set */
};

struct gguf {
    const char *path; /* borrowed, for messages */
    uint32_t version;
    struct gguf_kv *kv;
    size_t n_kv, cap_kv;
    struct gguf_tensor *tensor; /* in the order of their bytes */
    size_t n_tensors, cap_tensors;
    size_t kv_end;      /* the size of the file up to the end of the last entry */
    struct strmap key;  /* key -> index into kv[] */
    struct strmap name; /* name -> index into tensor[] */
};

/* True if the bytes begin like a GGUF file. */
bool gguf_is(const char *bytes, size_t len);

/* Reads the head of the file in bytes[len]. The bytes and PATH must outlive G. On failure G is closed and *e
 * names the file and the field. */
int gguf_read(struct gguf *g, const char *bytes, size_t len, const char *path, struct err *e);

void gguf_close(struct gguf *g); /* a zeroed one is fine */

/* Finds the entry KEY and marks it. NULL: missing. */
const struct gguf_kv *gguf_get(struct gguf *g, const char *key);

/* The tensor NAME, or NULL. */
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name);

/* The getters return the default for a missing key. Another type or a value out of range is ERR_INPUT, with a
 * sentence that names the file and the key, what was found and what is expected. */

/* Reads an integer of any width, or an array of equal integers (GGUF has some numbers for each layer). */
int gguf_int(struct gguf *g, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v, struct err *e);

/* Reads a finite number. */
int gguf_float(struct gguf *g, const char *key, double def, double *v, struct err *e);
int gguf_bool(struct gguf *g, const char *key, bool def, bool *v, struct err *e);

/* Reads a string in UTF-8 without NUL characters; missing: V->s is NULL. */
int gguf_text(struct gguf *g, const char *key, struct json_str *v, struct err *e);

/* Reads an array of strings of any bytes into a list in A; missing: *v is NULL and *n is 0. */
int gguf_strs(struct gguf *g, const char *key, struct arena *a, const struct json_str **v, size_t *n,
              struct err *e);

/* Reads an array of TYPE (four bytes an element), borrowed; missing: *v is NULL. */
int gguf_words(struct gguf *g, const char *key, enum gguf_type type, const char **v, size_t *n,
               struct err *e);

/* Writes "a string", "an array of 5 i32" and the like to OUT, for messages. Returns OUT. */
const char *gguf_kv_text(const struct gguf_kv *kv, char *out, size_t size);

/* Appends the metadata of S to OUT as a GGUF file without tensors. */
int gguf_metadata(struct buf *out, const struct gguf_set *s, struct err *e);

/* ---- architectures ---- */

enum gguf_arch_id {
    GGUF_ARCH_LLAMA,
    GGUF_ARCH_MIXTRAL, /* GGUF calls it llama, too */
    GGUF_ARCH_QWEN2,
    GGUF_ARCH_QWEN3,
    GGUF_ARCH_QWEN3MOE,
    GGUF_ARCH_PHI3,
    GGUF_ARCH_GEMMA3,
    GGUF_ARCH_GPT2,
    GGUF_ARCH_GPT_OSS,
};

struct gguf_arch {
    enum gguf_arch_id id;
    const char *name;       /* general.architecture, and the prefix of its keys */
    bool experts;           /* for files whose expert_count is not 0 */
    const char *class_name; /* architectures[0] of a config.json */
    const char *model_type;
};

/* Finds the architecture of S. ERR_UNSUPPORTED names an architecture that is not in the table. */
int gguf_arch_of(const struct gguf_arch **a, struct gguf_set *s, struct err *e);

/* Reads the integer NAME.KEY of the metadata ("attention.head_count"), as gguf_int(). */
int gguf_arch_int(const struct gguf_arch *a, struct gguf_set *s, const char *key, int64_t def, int64_t lo,
                  int64_t hi, int64_t *v, struct err *e);

/* ---- as a Hugging Face folder ---- */

/* The next three functions append a JSON object to OUT. This one appends the config.json of the model's own
 * checkpoint, so that no model file knows the source of its numbers. A key of the architecture that is not
 * understood is an error, like an unknown key of config.json. */
int gguf_config(struct buf *out, struct gguf_set *s, const struct gguf_arch *a, struct err *e);

/* Appends a tokenizer_config.json: chat_template, the special tokens, add_bos_token, add_eos_token. */
int gguf_tokenizer_config(struct buf *out, struct gguf_set *s, struct err *e);

/* Appends a generation_config.json: bos_token_id, every token that ends a text as eos_token_id, and the
 * sampling parameters of general.sampling.*. */
int gguf_generation(struct buf *out, struct gguf_set *s, struct err *e);

/* Fills and seals s->file[] from s->part[], with the names and layouts of Hugging Face. The changes of GGUF's
 * converters are undone in the views: rows of Llama's q and k go back to halves, GPT-2's matrices back to
 * [in, out], Gemma's norm weights back to w - 1, stacked experts become one tensor each. No bytes are moved,
 * except for Gemma's norms. An unknown tensor keeps its GGUF name, so that it is reported as unused. */
int gguf_names_fill(struct gguf_set *s, const struct gguf_arch *a, struct err *e);

/* True if the metadata have a tokenizer: a model other than "none" and "no_vocab" is named. */
bool gguf_has_tokenizer(struct gguf_set *s);

/* Opens the tokenizer, which does not borrow from S. */
int gguf_tokenizer_open(struct tok **out, struct gguf_set *s, struct err *e);

#endif
