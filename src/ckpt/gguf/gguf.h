/* gguf.h - GGUF checkpoints: one file as a table, the files of a checkpoint, and what they say in the terms
 * of a folder of Hugging Face's.
 *
 * Versions 2 and 3, little-endian. Reading proves the whole head of a file before anyone sees a value: every
 * length and offset lies inside the file, no key or tensor is there twice, tensors are aligned, as long as
 * their shape and type say, and do not overlap. Nothing is copied: keys, strings and arrays point into the
 * file's bytes. Each getter marks its key, so that keys that were not understood can be found afterwards.
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 */
#ifndef GALLOP_CKPT_GGUF_H
#define GALLOP_CKPT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_pull.h"
#include "base/strmap.h"
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
    enum gguf_type type; /* of the value; of the elements where it is an array */
    bool is_array;
    bool asked;       /* a getter was asked for it */
    size_t n;         /* elements; 1 if it is no array */
    const char *data; /* the first of them, at any alignment */
};

struct gguf_tensor {
    struct json_str name;
    struct view view; /* contiguous, outermost dimension first; its name and file are not set */
};

struct gguf {
    const char *path; /* borrowed, for messages */
    uint32_t version;
    struct gguf_kv *kv;
    size_t n_kv, cap_kv;
    struct gguf_tensor *tensor; /* in the order of their bytes */
    size_t n_tensors, cap_tensors;
    size_t kv_end;      /* bytes of the file up to the end of the last entry */
    struct strmap key;  /* -> place in kv[] */
    struct strmap name; /* -> place in tensor[] */
};

/* True if the bytes begin like a GGUF file. */
bool gguf_is(const char *bytes, size_t len);

/* Reads the head of the file in bytes[len], which must outlive G, as must PATH. On failure G is closed and *e
 * names the file and the field. */
int gguf_read(struct gguf *g, const char *bytes, size_t len, const char *path, struct err *e);

void gguf_close(struct gguf *g); /* a zeroed one is fine */

/* The entry KEY, marked; NULL: there is none. */
const struct gguf_kv *gguf_get(struct gguf *g, const char *key);

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name); /* NULL: there is none */

/* Getters. Missing: the default. Of another type or out of range: ERR_INPUT, and the sentence names the file
 * and the key, what was found and what is expected. */

/* An integer of any width, or an array of equal ones (GGUF gives some numbers per layer). */
int gguf_int(struct gguf *g, const char *key, int64_t def, int64_t lo, int64_t hi, int64_t *v, struct err *e);
int gguf_float(struct gguf *g, const char *key, double def, double *v, struct err *e); /* finite */
int gguf_bool(struct gguf *g, const char *key, bool def, bool *v, struct err *e);

/* A string without NUL characters, in UTF-8; missing: V->s NULL. */
int gguf_text(struct gguf *g, const char *key, struct json_str *v, struct err *e);

/* An array of strings of any bytes, listed in A; missing: *v NULL, *n 0. */
int gguf_strs(struct gguf *g, const char *key, struct arena *a, const struct json_str **v, size_t *n,
              struct err *e);

/* An array of TYPE (of four bytes an element), borrowed; missing: *v NULL. */
int gguf_words(struct gguf *g, const char *key, enum gguf_type type, const char **v, size_t *n,
               struct err *e);

/* "a string", "an array of 5 i32", ... for messages; returns OUT. */
const char *gguf_kv_text(const struct gguf_kv *kv, char *out, size_t size);

/* ---- the files of one checkpoint ---- */

/* One file, or NAME-00001-of-0000N.gguf and its fellows. The first (split.no 0) holds the metadata, each
 * holds tensors. Files are mapped read-only and stay mapped as long as the set is open. */
struct gguf_set {
    struct tensor_file *file; /* [n] the maps; without tensors until gguf_names_fill() */
    struct gguf *part;        /* [n] their tables; part[0] has the metadata */
    size_t n;
};

/* True if IN, a folder or a file, means a GGUF checkpoint: a file whose name ends in .gguf or that begins
 * like one, or a folder without config.json in which one such checkpoint lies. *rc: ERR_INPUT when it is a
 * folder that could mean several, or 0. */
bool gguf_set_means(struct folder in, int *rc, struct err *e);

/* NO (from 1) and COUNT of a name like x-00001-of-00002.gguf; false of any other. */
bool gguf_set_split_name(const char *path, int64_t *no, int64_t *count);

/* The name of file NO of COUNT to out[size], PATH being that of any of them. False if it does not fit. */
bool gguf_set_part_name(char *out, size_t size, const char *path, size_t no, size_t count);

/* Opens IN (gguf_set_means() said yes) with all its files. On failure *S is closed. */
int gguf_set_open(struct gguf_set *s, struct folder in, struct err *e);

/* As tensor_file_checked(), of all files of S. */
int gguf_set_checked(const struct gguf_set *s, int rc, struct err *e);

/* Tests and fuzzers: the same over bytes of the caller's, which must outlive S, as the only file; PATH is for
 * messages. */
int gguf_set_open_bytes(struct gguf_set *s, const char *bytes, size_t len, const char *path, struct err *e);

/* Closes tables and maps. What the files were named, and the tensors' names, shapes and types, stays until
 * the end. */
void gguf_set_let_go(struct gguf_set *s);

void gguf_set_close(struct gguf_set *s); /* a zeroed one is fine */

/* The metadata of S as the bytes of a GGUF file without tensors, into OUT. */
int gguf_metadata(struct buf *out, const struct gguf_set *s, struct err *e);

/* The tensor NAME of any file, or NULL. */
const struct gguf_tensor *gguf_set_tensor(const struct gguf_set *s, const char *name);

/* ---- architectures ---- */

enum gguf_arch_id {
    GGUF_ARCH_LLAMA,
    GGUF_ARCH_MIXTRAL, /* GGUF calls it llama too */
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
    bool experts;           /* its expert_count is not 0 */
    const char *class_name; /* architectures[0] of a config.json */
    const char *model_type;
};

/* What the metadata of S describe. ERR_UNSUPPORTED names an architecture that is not in the table. */
int gguf_arch_of(const struct gguf_arch **a, struct gguf_set *s, struct err *e);

/* The integer NAME.KEY of the metadata ("attention.head_count"), as gguf_int(). */
int gguf_arch_int(const struct gguf_arch *a, struct gguf_set *s, const char *key, int64_t def, int64_t lo,
                  int64_t hi, int64_t *v, struct err *e);

/* ---- as a folder of Hugging Face's ---- */

/* The next three append a JSON object to OUT. This one is the config.json that the model's own checkpoint
 * has, so that no model file knows where its numbers come from. A key of the architecture that is not
 * understood is an error, as an unknown key of config.json is. */
int gguf_config(struct buf *out, struct gguf_set *s, const struct gguf_arch *a, struct err *e);

/* As tokenizer_config.json: chat_template, the special tokens, add_bos_token, add_eos_token. */
int gguf_tokenizer_config(struct buf *out, struct gguf_set *s, struct err *e);

/* As generation_config.json: bos_token_id, every token that ends a text as eos_token_id, and the sampling
 * that general.sampling.* recommend. */
int gguf_generation(struct buf *out, struct gguf_set *s, struct err *e);

/* Fills and seals s->file[] from s->part[], under the names and in the layout that Hugging Face gives the
 * tensors. What GGUF's converters change is undone in the view: rows of Llama's q and k go back to halves,
 * GPT-2's matrices back to [in, out], Gemma's norm weights back to w - 1, stacked experts become one tensor
 * each. Bytes stay where they are, but for Gemma's norms. A tensor that is not known keeps its GGUF name, so
 * that it is reported as unused. */
int gguf_names_fill(struct gguf_set *s, const struct gguf_arch *a, struct err *e);

/* True if the metadata hold a tokenizer: a model other than "none" and "no_vocab" is named. */
bool gguf_has_tokenizer(struct gguf_set *s);

/* The tokenizer; free of S when this returns. */
int gguf_tokenizer_open(struct tok **out, struct gguf_set *s, struct err *e);

#endif
