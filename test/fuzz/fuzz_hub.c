/* fuzz_hub.c - any bytes as the hub's list of files, as a name on a hub and as an ETag: whatever is accepted
 * is a plain name of a file, or of one in additional_chat_templates/. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/hubcache.h"
#include "ckpt/hublist.h"

static void must_be_plain(const char *s)
{
    ASSERT(*s && *s != '.' && !strpbrk(s, "/\\:"), "%s", s);
    for (; *s; s++)
        ASSERT((unsigned char)*s >= 0x20 && *s != 0x7f);
}

static void read_name(const char *text)
{
    char folder[2 * HUBID_REPO_MAX], etag[HUBCACHE_ETAG_MAX], quoted[3 * HUBID_REVISION_MAX];
    struct hubid id;

    if (hubcache_etag(text, etag))
        must_be_plain(etag);
    if (!hubid_parse(&id, text))
        return;
    ASSERT(hubid_folder(&id, folder, sizeof(folder)));
    must_be_plain(folder);
    if (id.file[0])
        must_be_plain(id.file);
    ASSERT(id.revision[0] && id.revision[0] != '/' && id.revision[0] != '.' && !strstr(id.revision, ".."));
    ASSERT(hubid_quote(id.revision, quoted, sizeof(quoted)) && !strpbrk(quoted, "/?#"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct hublist l;
    struct err e;
    bool is_index;
    char *copy;

    if (hublist_read(&l, text, size, "fuzz", &e) == 0) {
        const char *weights = hublist_weights(&l, &is_index);

        ASSERT(hubid_is_commit(l.commit));
        for (size_t i = 0; i < l.n; i++) {
            const char *name = l.name[i], folder[] = "additional_chat_templates/";

            must_be_plain(strncmp(name, folder, sizeof(folder) - 1) == 0 ? name + sizeof(folder) - 1 : name);
            (void)hublist_is_text(l.name[i]);
        }
        ASSERT(!weights || hublist_has(&l, weights));
        if (hublist_gguf(&l, "Q4_K_M", &weights, &e) == 0)
            ASSERT(hublist_has(&l, weights));
        ASSERT(!hublist_has_tokenizer(&l) || l.n);
        hublist_close(&l);
    }
    copy = mem_strndup(text, size, MEM_BASE);
    if (copy)
        read_name(copy);
    mem_free(copy);
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
