/* fuzz_tokenizer.c - hostile tokenizer files and hostile texts.
 *
 * The input up to the first byte 0xff is a tokenizer (a tokenizer.json, a sentencepiece model or a tiktoken
 * file, recognized as when a file is opened), and the rest is a text for it. Without that byte the first byte
 * selects one of the small test tokenizers, and the rest is the text. There must be no fault of memory or
 * arithmetic, the same ids twice, ids inside the vocabulary, and pieces that join to the whole decoding.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/settings.h"
#include "text/tok/added.h"
#include "text/tok/build.h"
#include "text/tok/formats/readers.h"
#include "text/tok/ids.h"
#include "text/tok/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_decoding(const struct tok *t, const struct tok_ids *ids)
{
    struct buf whole = {.tag = MEM_TEXT}, joined = {.tag = MEM_TEXT};
    struct tok_stream *d;
    int rc;

    if (tok_decode(t, ids->id, ids->n, false, &whole, NULL) != 0) {
        buf_fini(&whole);
        return; /* a pattern that gives up */
    }
    rc = tok_stream_new(&d, t, false, NULL);
    ASSERT(rc == 0);
    for (size_t i = 0; i < ids->n; i++) {
        rc = tok_stream_put(d, ids->id[i], &joined, NULL);
        ASSERT(rc == 0);
    }
    rc = tok_stream_end(d, &joined, NULL);
    ASSERT(rc == 0);
    /* ids of a text are those of characters, but a tokenizer may cut them into bytes that are none */
    if (whole.len && !memmem(whole.data, whole.len, "\xef\xbf\xbd", 3))
        ASSERT(joined.len == whole.len && memcmp(joined.data, whole.data, whole.len) == 0);
    tok_stream_free(d);
    buf_fini(&whole);
    buf_fini(&joined);
}

static void use(const struct tok *t, const char *text, size_t n)
{
    for (unsigned flags = 0; flags < 4; flags++) {
        struct tok_ids once = {0}, twice = {0};
        int rc = tok_encode(t, text, n, flags, &once, NULL),
            again = tok_encode(t, text, n, flags, &twice, NULL);

        ASSERT(rc == again && once.n == twice.n);
        ASSERT(once.n == 0 || memcmp(once.id, twice.id, once.n * sizeof(*once.id)) == 0);
        for (size_t i = 0; i < once.n; i++)
            ASSERT(once.id[i] >= 0 && (flags & TOK_ADD_SPECIAL || (size_t)once.id[i] < t->vocab.n_ids ||
                                       tok_added_get(&t->added, (size_t)once.id[i])));
        if (rc == 0)
            check_decoding(t, &once);
        tok_ids_fini(&once);
        tok_ids_fini(&twice);
    }
}

static int open_any(struct tok *t, const char *s, size_t n, struct err *e)
{
    struct settings conf;

    settings_init(&conf); /* Nothing is stored in it, so it is not freed. */
    strcpy(conf.class, "TikTokenTokenizer");
    if (tok_is_sentencepiece(s, n))
        return tok_read_sentencepiece(t, s, n, &conf, e);
    if (tok_is_tiktoken(s, n))
        return tok_read_tiktoken(t, s, n, &conf, e);
    return tok_read_json(t, s, n, "fuzz", NULL, e);
}

static void hostile_file(const uint8_t *data, size_t n, const char *text, size_t n_text)
{
    struct tok *t = tok_new();
    struct err e = {0};
    int rc;

    ASSERT(t);
    rc = open_any(t, (const char *)data, n, &e);
    if (rc == 0)
        use(t, text, n_text);
    else
        ASSERT(e.msg[0] && strlen(e.msg) < sizeof(e.msg));
    tok_close(t);
}

static void hostile_text(const uint8_t *data, size_t size)
{
    static const char *const name[] = {"gpt2.json",          "llama3.json",    "falcon.json",  "llama2.json",
                                       "mistral.json",       "gemma.json",     "unigram.json", "neox.json",
                                       "o200k.json",         "metaspace.json", "suffix.json",  "bert.json",
                                       "unigram-bytes.json", "sp-bpe.model",   "accents.json"};
    static struct tok *tok[sizeof(name) / sizeof(*name)];
    size_t k = data[0] % (sizeof(name) / sizeof(*name));
    char path[1024];
    struct err e = {0};
    int rc = 0;

    snprintf(path, sizeof(path), "%s/test/data/tokenizers/%s", GALLOP_SOURCE_DIR, name[k]);
    if (!tok[k])
        rc = tok_open(&tok[k], folder_at(path), &e);
    ASSERT(rc == 0, "%s", e.msg);
    use(tok[k], (const char *)data + 1, size - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0xff, size) : NULL;

    if (end)
        hostile_file(data, (size_t)(end - data), (const char *)end + 1, size - (size_t)(end - data) - 1);
    else if (size)
        hostile_text(data, size);
    return 0;
}
