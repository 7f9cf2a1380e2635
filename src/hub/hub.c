/* hub.c - the protocol of a hub: requests the list of a revision's files, then downloads the missing files.
 *
 *     GET   ENDPOINT/api/models/ORG/NAME/revision/REVISION
 *           The answer has the commit and the names of its files.
 *     HEAD  ENDPOINT/ORG/NAME/resolve/COMMIT/FILE
 *           The answer has X-Linked-Etag or ETag, X-Linked-Size and X-Repo-Commit.
 *     GET   the same address
 *           The answer has the bytes, often after a redirect to another host.
 *
 * config.json is downloaded first, and the architecture is checked before anything large is downloaded.
 * Weights are downloaded last, so that a folder with weights is complete. Transient errors are retried with
 * growing pauses; an interrupted download is resumed.
 */
#include "hub/hub.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/files/folder.h"
#include "base/log.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/gguf/set.h"
#include "ckpt/shards.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/environment.h"
#include "hub/list.h"

enum { MAX_LISTING = 64 << 20 };

/* ---- from the cache ---- */

/* Checks that the folder DIR, with the files L, has all files of weights. */
static int check_weights(const struct hub_list *l, const char *dir, struct err *e)
{
    bool is_index = false;
    const char *weights = hub_list_weights(l, &is_index);
    struct shards s;
    int rc;

    if (!weights || !folder_has(folder_at(dir), weights))
        return err_set(e, ERR_INPUT, "the cache %s lacks %s", dir, weights ? weights : "the weights");
    if (!is_index)
        return 0;
    if ((rc = shards_open(&s, folder_at(dir), weights, e)) != 0)
        return rc;
    for (size_t i = 0; i < s.n_files && rc == 0; i++)
        if (!folder_has(folder_at(dir), s.file[i]))
            rc = err_set(e, ERR_INPUT, "the cache %s lacks %s", dir, s.file[i]);
    shards_close(&s);
    return rc;
}

/* Checks that the folder DIR has the files for WANT. With HUB_MODEL a tokenizer is required only if ALL is set. */
static int check_whole(const char *dir, enum hub_want want, bool all, struct err *e)
{
    struct hub_list l;
    int rc = hub_list_read_folder(&l, dir, e);

    if (rc == 0 && want == HUB_MODEL && !folder_has(folder_at(dir), "config.json"))
        rc = err_set(e, ERR_INPUT, "the cache %s lacks config.json", dir);
    if (rc == 0 && want == HUB_MODEL)
        rc = check_weights(&l, dir, e);
    if (rc == 0 && (all || want == HUB_TEXT) && !hub_list_has_tokenizer(&l))
        rc = err_set(e, ERR_INPUT, "the cache %s lacks a tokenizer", dir);
    hub_list_close(&l);
    return rc;
}

/* Returns an error with the message WHY. If REPO has GGUF files, appends their names and the syntax to
 * request one of them. */
static int say_ggufs(const struct hub_list *l, const char *repo, const char *why, struct err *e)
{
    char all[600];
    size_t at = 0;
    const char *first = hub_list_next_gguf(l, &at);

    if (!first)
        return err_set(e, ERR_UNSUPPORTED, "%s", why);
    return err_set(e, ERR_UNSUPPORTED,
                   "%s; it holds GGUF files, of which one is requested by a name like %s:%s: %s", why, repo,
                   first, hub_list_ggufs(l, all, sizeof(all)));
}

/* Appends the name of a GGUF file to the path DIR of its folder. */
static int enter_gguf(char *dir, size_t size, const char *name, struct err *e)
{
    size_t n = strlen(dir);

    if ((size_t)snprintf(dir + n, size - n, "/%s", name) >= size - n)
        return err_set(e, ERR_INPUT, "%.200s...: the path is longer than %zu bytes", dir, size);
    return 0;
}

/* Replaces DIR, the path of a snapshot, by the path of the GGUF file of this snapshot that ID names. Fails if
 * a part of a split file is missing. */
static int gguf_from_cache(const struct hub_name *id, char *dir, size_t size, struct err *e)
{
    char part[HUB_NAME_FILE_MAX];
    int64_t no, count = 1;
    const char *name;
    struct hub_list l;
    int rc = hub_list_read_folder(&l, dir, e);

    if (rc)
        return rc;
    if ((rc = hub_list_gguf(&l, id->file, &name, e)) != 0)
        err_prefix(e, "the cache %s", dir);
    else if (gguf_set_split_name(name, &no, &count))
        for (int64_t i = 1; i <= count && rc == 0; i++)
            if (!gguf_set_part_name(part, sizeof(part), name, (size_t)i, (size_t)count) ||
                !folder_has(folder_at(dir), part))
                rc = err_set(e, ERR_INPUT, "the cache %s lacks %s", dir, part);
    if (rc == 0)
        rc = enter_gguf(dir, size, name, e);
    hub_list_close(&l);
    return rc;
}

/* Writes the path of the cached snapshot, or of the GGUF file in it, to out[size]. Fails if the cache does
 * not know the revision or lacks a file that WANT and ALL require (check_whole()). */
static int from_cache(const struct hub_download *g, enum hub_want want, bool all, char *out, size_t size,
                      struct err *e)
{
    char commit[HUB_NAME_COMMIT + 1];
    int rc;

    if (!hub_cache_commit(&g->cache, g->id->revision, commit))
        return err_set(e, ERR_INPUT, "the cache %s does not contain revision %s", g->cache.repo,
                       g->id->revision);
    rc = hub_cache_snapshot(&g->cache, commit, out, size, e);
    if (rc)
        return rc;
    return g->id->file[0] ? gguf_from_cache(g->id, out, size, e) : check_whole(out, want, all, e);
}

/* ---- from the hub ---- */

static bool clear_listing(void *ctx, uint64_t first)
{
    buf_clear(ctx);
    return first == 0;
}

static bool add_listing(void *ctx, const char *bytes, size_t n)
{
    buf_add(ctx, bytes, n);
    return !((struct buf *)ctx)->oom;
}

/* Requests the list of files. Sets *passes if the model may exist on the hub in spite of the error (a
 * transient error, or access is denied); the cached model may then be used. */
static int ask_list(struct hub_download *g, struct hub_list *l, bool *passes, struct err *e)
{
    char url[2048], quoted[3 * HUB_NAME_REVISION_MAX];
    struct http_reply r;
    struct buf text;
    struct http_request q = {.url = url,
                             .bearer = hub_download_token(g),
                             .follow = HUB_DOWNLOAD_REDIRECTS,
                             .max_bytes = MAX_LISTING,
                             .begin = clear_listing,
                             .body = add_listing,
                             .ctx = &text};
    int rc;

    buf_init(&text, MEM_CKPT);
    hub_name_quote(g->id->revision, quoted, sizeof(quoted));
    snprintf(url, sizeof(url), "%s/api/models/%s/revision/%s", g->env.endpoint, g->id->repo, quoted);
    rc = hub_download_ask(g, &q, false, &r, e);
    *passes = r.transient || r.status == 401 || r.status == 403;
    if (text.oom)
        rc = err_nomem(e, "the list of a repository's files");
    else if (rc == 0 && r.status != 200)
        rc = hub_download_refused(g, &r, NULL, e);
    else if (rc == 0)
        rc = hub_list_read(l, text.data ? text.data : "", text.len, g->env.endpoint, e);
    http_reply_fini(&r);
    buf_fini(&text);
    return rc;
}

static bool has_texts(const struct hub_list *l)
{
    size_t i = 0;

    while (i < l->n && !hub_list_is_text(l->name[i]))
        i++;
    return i < l->n;
}

static int fetch_texts(struct hub_download *g, const struct hub_list *l, enum hub_want want, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < l->n && rc == 0; i++)
        if (hub_list_is_text(l->name[i]) || (want == HUB_MODEL && hub_list_is_beside(l->name[i])))
            rc = hub_download_file(g, l->name[i], e);
    return rc;
}

static int fetch_shards(struct hub_download *g, const struct hub_list *l, const char *dir, const char *index,
                        struct err *e)
{
    struct shards s;
    int rc = shards_open(&s, folder_at(dir), index, e);

    if (rc)
        return rc;
    for (size_t i = 0; i < s.n_files && rc == 0; i++) {
        if (!hub_list_has(l, s.file[i]))
            rc = err_set(e, ERR_INPUT, "%s names %.200s, which the repository does not hold", index,
                         s.file[i]);
        else
            rc = hub_download_file(g, s.file[i], e);
    }
    shards_close(&s);
    return rc;
}

static int fetch_weights(struct hub_download *g, const struct hub_list *l, const char *dir, struct err *e)
{
    bool is_index;
    const char *weights = hub_list_weights(l, &is_index);
    int rc;

    if (!weights)
        return say_ggufs(l, g->id->repo,
                         "the repository holds neither model.safetensors nor pytorch_model.bin", e);
    rc = hub_download_file(g, weights, e);
    return rc || !is_index ? rc : fetch_shards(g, l, dir, weights, e);
}

/* Downloads the GGUF file that the name of the model gives, with the other parts of a split file, and appends
 * its name to the path in DIR. */
static int fetch_gguf(struct hub_download *g, const struct hub_list *l, char *dir, size_t size, struct err *e)
{
    char part[HUB_NAME_FILE_MAX];
    int64_t no, count = 1;
    const char *name;
    int rc = hub_list_gguf(l, g->id->file, &name, e);

    if (rc)
        return rc;
    if (!gguf_set_split_name(name, &no, &count))
        rc = hub_download_file(g, name, e);
    else
        for (int64_t i = 1; i <= count && rc == 0; i++)
            if (gguf_set_part_name(part, sizeof(part), name, (size_t)i, (size_t)count) &&
                hub_list_has(l, part))
                rc = hub_download_file(g, part, e);
            else
                rc = err_set(e, ERR_INPUT, "%s has %lld files, but the repository does not hold %s", name,
                             (long long)count, part);
    return rc ? rc : enter_gguf(dir, size, name, e);
}

static int fetch_all(struct hub_download *g, const struct hub_list *l, const struct hub_options *o,
                     const char *dir, struct err *e)
{
    int rc;

    if (o->want == HUB_MODEL && hub_list_has(l, "adapter_config.json"))
        return err_set(
            e, ERR_UNSUPPORTED,
            "the repository holds an adapter (adapter_config.json: LoRA or its like), which is not "
            "supported: merge it into its base model (merge_and_unload() of peft) and name the folder "
            "of the result");
    if (o->want == HUB_MODEL && !hub_list_has(l, "config.json"))
        return say_ggufs(l, g->id->repo, "the repository holds no config.json", e);
    if (o->want == HUB_TEXT && !has_texts(l))
        return say_ggufs(l, g->id->repo, "the repository holds no tokenizer and no chat template", e);
    if (hub_list_has(l, "config.json") && (rc = hub_download_file(g, "config.json", e)) != 0)
        return rc;
    if (o->want == HUB_MODEL && o->check && (rc = o->check(o->check_ctx, dir, e)) != 0)
        return rc;
    if ((rc = fetch_texts(g, l, o->want, e)) != 0 || o->want != HUB_MODEL)
        return rc;
    return fetch_weights(g, l, dir, e);
}

/* Requests the current commit of the revision from the hub and downloads its missing files. */
static int from_hub(struct hub_download *g, const struct hub_options *o, char *out, size_t size,
                    struct err *e)
{
    struct hub_list l = {0};
    struct err why = {0};
    bool passes = false;
    int rc = ask_list(g, &l, &passes, &why);

    if (rc) {
        if (passes && from_cache(g, o->want, false, out, size, NULL) == 0) {
            log_warn("%s: using the copy in the cache: %s", g->id->repo, why.msg);
            return 0;
        }
        if (e)
            *e = why;
        return rc;
    }
    if (l.n_refused)
        log_warn("%s: ignored %zu file name%s in the hub's list that could lead out of the model's folder",
                 g->id->repo, l.n_refused, l.n_refused == 1 ? "" : "s");
    memcpy(g->commit, l.commit, sizeof(g->commit));
    if ((rc = hub_cache_snapshot(&g->cache, g->commit, out, size, e)) == 0 &&
        (rc = g->id->file[0] ? fetch_gguf(g, &l, out, size, e) : fetch_all(g, &l, o, out, e)) == 0 &&
        hub_cache_set_commit(&g->cache, g->id->revision, g->commit, &why) != 0)
        log_info("%s", why.msg); /* only logged: the files can be used even if the cache cannot be written */
    hub_list_close(&l);
    return rc;
}

bool hub_is_cached(const struct hub_name *id)
{
    struct hub_environment env;
    struct hub_cache cache;

    return hub_environment_read(&env, NULL) == 0 && hub_cache_open(&cache, env.cache, id, NULL) == 0 &&
           access(cache.repo, F_OK) == 0;
}

int hub_fetch(char *out, size_t size, const struct hub_name *id, const struct hub_options *o, struct err *e)
{
    struct hub_download g = {.id = id, .progress = o->progress, .progress_ctx = o->progress_ctx};
    int rc = hub_environment_read(&g.env, e);

    if (rc == 0)
        rc = hub_cache_open(&g.cache, g.env.cache, id, e);
    if (rc)
        return rc;
    if (g.env.offline) {
        rc = from_cache(&g, o->want, false, out, size, e);
        if (rc && rc != ERR_NOMEM)
            err_prefix(e, "%s: HF_HUB_OFFLINE is set", id->repo);
    } else if (!hub_name_is_commit(id->revision) || from_cache(&g, o->want, true, out, size, NULL) != 0) {
        if ((rc = http_open(&g.http, e)) == 0)
            rc = from_hub(&g, o, out, size, e);
        http_close(g.http);
        if (rc && rc != ERR_NOMEM)
            err_prefix(e, "%s", id->repo);
    }
    return rc;
}
