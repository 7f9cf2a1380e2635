/* fuzz_detok.c - any ids in any order through the decoders of the small test tokenizers.
 *
 * The first byte selects the tokenizer and whether special tokens are skipped, then two bytes make an id.
 * Every piece must be UTF-8, and the joined pieces must equal the whole decoding, also when the same streamer
 * is used again. A text in which bytes are no character may differ in the characters U+FFFD.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "base/utf8.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct tok *chosen(size_t k)
{
    static const char *const name[] = {"gpt2.json",      "llama2.json",        "gemma.json",
                                       "metaspace.json", "suffix.json",        "nfkd.json",
                                       "bert.json",      "regex.json",         "accents.json",
                                       "sp-bpe.model",   "unigram-bytes.json", "metaspace-never.json"};
    static struct tok *tok[sizeof(name) / sizeof(*name)];
    char path[1024];
    struct err e = {0};
    int rc = 0;

    k %= sizeof(name) / sizeof(*name);
    snprintf(path, sizeof(path), "%s/test/data/tokenizers/%s", GALLOP_SOURCE_DIR, name[k]);
    if (!tok[k])
        rc = tok_open(&tok[k], folder_at(path), &e);
    ASSERT(rc == 0, "%s", e.msg);
    return tok[k];
}

static int32_t id_at(const uint8_t *data, size_t i)
{
    /* Some ids are negative, and some are beyond the end. */
    return (int32_t)(data[1 + 2 * i] << 8 | data[2 + 2 * i]) - 3;
}

static void stream(struct tok_stream *d, const uint8_t *data, size_t n, struct buf *joined)
{
    for (size_t i = 0; i <= n; i++) {
        size_t before = joined->len;
        int rc = i < n ? tok_stream_put(d, id_at(data, i), joined, NULL) : tok_stream_end(d, joined, NULL);

        ASSERT(rc == 0);
        if (joined->len > before)
            ASSERT(utf8_valid_prefix(joined->data + before, joined->len - before) == joined->len - before);
    }
}

static bool same_text(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static bool has_replacement(const struct buf *text)
{
    return text->len && memmem(text->data, text->len, "\xef\xbf\xbd", 3) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = {.tag = MEM_TEXT}, joined = {.tag = MEM_TEXT};
    struct tok_ids ids = {0};
    const struct tok *t;
    struct tok_stream *d;
    size_t n;
    bool skip;
    int rc;

    if (size < 1)
        return 0;
    t = chosen(data[0] >> 1);
    skip = data[0] & 1;
    n = (size - 1) / 2;
    rc = mem_grow((void **)&ids.id, &ids.cap, n + 1, sizeof(*ids.id), MEM_TEXT) ? 0 : ERR_NOMEM;
    ASSERT(rc == 0);
    for (size_t i = 0; i < n; i++)
        ids.id[ids.n++] = id_at(data, i);
    rc = tok_decode(t, ids.id, ids.n, skip, &whole, NULL);
    ASSERT(rc == 0);
    rc = tok_stream_new(&d, t, skip, NULL);
    ASSERT(rc == 0);
    for (int turn = 0; turn < 2; turn++) {
        buf_clear(&joined);
        stream(d, data, n, &joined);
        /* they differ only where bytes are no text, which both show as U+FFFD */
        ASSERT(same_text(&joined, &whole) || (has_replacement(&joined) && has_replacement(&whole)));
    }
    tok_stream_free(d);
    tok_ids_fini(&ids);
    buf_fini(&whole);
    buf_fini(&joined);
    return 0;
}
