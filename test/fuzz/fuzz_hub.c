/* fuzz_hub.c - any bytes as the list of files of a hub, as the name of a model, and as an ETag: whatever is
 * accepted is a plain name of a file, or a path whose folders and file all have plain names. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "hub/cache.h"
#include "hub/list.h"
#include "hub/name.h"

static void must_be_plain(const char *s)
{
    ASSERT(*s && *s != '.' && !strpbrk(s, "/\\:"), "%s", s);
    for (; *s; s++)
        ASSERT((unsigned char)*s >= 0x20 && *s != 0x7f);
}

/* Checks every folder of a path, and the name of its file. */
static void must_be_plain_path(const char *path)
{
    char part[HUB_NAME_FILE_MAX];
    size_t n;

    for (; (n = strcspn(path, "/")), path[n]; path += n + 1) {
        ASSERT(n < sizeof(part), "%s", path);
        memcpy(part, path, n);
        part[n] = 0;
        must_be_plain(part);
    }
    must_be_plain(path);
}

static void read_name(const char *text)
{
    char folder[2 * HUB_NAME_REPO_MAX], etag[HUB_CACHE_ETAG_MAX], quoted[3 * HUB_NAME_REVISION_MAX];
    struct hub_name id;

    if (hub_cache_etag(text, etag))
        must_be_plain(etag);
    if (!hub_name_parse(&id, text))
        return;
    ASSERT(hub_name_folder(&id, folder, sizeof(folder)));
    must_be_plain(folder);
    if (id.file[0])
        must_be_plain_path(id.file);
    ASSERT(id.revision[0] && id.revision[0] != '/' && id.revision[0] != '.' && !strstr(id.revision, ".."));
    ASSERT(hub_name_quote(id.revision, quoted, sizeof(quoted)) && !strpbrk(quoted, "/?#"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct hub_list l;
    struct err e;
    bool is_index;
    char *copy;

    if (hub_list_read(&l, text, size, "fuzz", &e) == 0) {
        const char *weights = hub_list_weights(&l, &is_index);

        ASSERT(hub_name_is_commit(l.commit));
        for (size_t i = 0; i < l.n; i++) {
            must_be_plain_path(l.name[i]);
            (void)hub_list_is_text(l.name[i]);
        }
        ASSERT(!weights || hub_list_has(&l, weights));
        if (hub_list_gguf(&l, "Q4_K_M", &weights, &e) == 0)
            ASSERT(hub_list_has(&l, weights));
        ASSERT(!hub_list_has_tokenizer(&l) || l.n);
        hub_list_close(&l);
    }
    copy = mem_strndup(text, size, MEM_BASE);
    if (copy)
        read_name(copy);
    mem_free(copy);
    ASSERT(mem_live_blocks() == 0);
    return 0;
}
