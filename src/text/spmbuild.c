/* spmbuild.c - ranks from scores, and the steps around them. */
#include "text/spmbuild.h"

#include <stdlib.h>
#include <string.h>

#include "text/tokcore.h"
#include "text/tokids.h"

static const char meta_space[] = "\xe2\x96\x81";

struct scored {
    float score;
    uint32_t id;
};

static int by_score(const void *x, const void *y)
{
    const struct scored *a = x, *b = y;

    return a->score > b->score ? -1 : a->score < b->score ? 1 : a->id < b->id ? -1 : a->id > b->id;
}

/* The ranks of runs of the marker, the shortest first: behind them the others begin. */
static uint32_t rank_blanks(const struct spmbuild *b, uint32_t *rank)
{
    uint32_t most = 0;

    for (size_t i = 0; i < b->n; i++) {
        const char *s;
        size_t n;

        rank[i] = BPE_NONE;
        if (b->type[i] != SPMBUILD_BLANKS || !tokvocab_str(&b->t->vocab, i, &s, &n))
            continue;
        rank[i] = (uint32_t)(n / (sizeof(meta_space) - 1));
        most = rank[i] > most ? rank[i] : most;
    }
    return most + 1;
}

/* Ranks in the order of falling scores; BPE_NONE for what merging does not make. */
static int rank_pieces(const struct spmbuild *b, uint32_t *rank)
{
    struct scored *list = mem_alloc(b->n * sizeof(*list), MEM_TEXT);
    uint32_t first;
    size_t k = 0;

    if (!list)
        return err_nomem(b->e, b->path);
    first = rank_blanks(b, rank);
    for (size_t i = 0; i < b->n; i++)
        if (b->type[i] == SPMBUILD_NORMAL)
            list[k++] = (struct scored){b->score[i], (uint32_t)i};
    qsort(list, k, sizeof(*list), by_score);
    for (size_t i = 0, r = 0; i < k; i++) {
        if (i > 0 && list[i].score != list[i - 1].score)
            r = i;
        rank[list[i].id] = first + (uint32_t)r;
    }
    mem_free(list);
    return 0;
}

static int build_bpe(const struct spmbuild *b)
{
    struct bpe *to = &b->t->bpe;
    uint32_t *rank = mem_alloc(b->n * sizeof(*rank), MEM_TEXT);
    int rc = rank ? rank_pieces(b, rank) : err_nomem(b->e, b->path);

    if (rc == 0)
        rc = bpe_derive(to, &b->t->vocab, rank, b->e);
    mem_free(rank);
    b->t->model = TOKCORE_BPE;
    to->byte_fallback = b->byte_fallback;
    to->fuse_unk = true;
    to->has_unk = b->unk_id >= 0;
    to->unk = b->unk_id >= 0 ? (uint32_t)b->unk_id : 0;
    return rc;
}

static int build_unigram(const struct spmbuild *b)
{
    struct unigram *u = &b->t->uni;

    b->t->model = TOKCORE_UNIGRAM;
    u->score = mem_alloc(b->n * sizeof(*u->score), MEM_TEXT);
    u->usable = mem_alloc(b->n, MEM_TEXT);
    u->n_score = b->n;
    if (!u->score || !u->usable)
        return err_nomem(b->e, b->path);
    for (size_t i = 0; i < b->n; i++) {
        u->score[i] = (double)b->score[i];
        u->usable[i] = b->type[i] == SPMBUILD_NORMAL;
    }
    u->single = true;
    u->byte_fallback = b->byte_fallback;
    u->has_unk = b->unk_id >= 0;
    u->unk = b->unk_id >= 0 ? (uint32_t)b->unk_id : 0;
    return 0;
}

static int add_step(const struct spmbuild *b, enum normalize_kind kind, const char *find, const char *text)
{
    struct normalize_step s = {.kind = kind};

    if ((find && !normalize_copy(&s.find, &s.n_find, find, strlen(find))) ||
        !normalize_copy(&s.text, &s.n_text, text, strlen(text))) {
        mem_free(s.find);
        return err_nomem(b->e, b->path);
    }
    return normalize_add(&b->t->norm, s, b->e);
}

/* The marker in front: before every stretch between special tokens, as transformers' legacy way has it, or
 * once. */
static int add_prefix(const struct spmbuild *b)
{
    struct pretok_step s = {.kind = PRETOK_PREPEND, .n_text = sizeof(meta_space) - 1};

    if (b->every_stretch)
        return add_step(b, NORMALIZE_PREPEND, NULL, meta_space);
    s.text = mem_strdup(meta_space, MEM_TEXT);
    return s.text ? pretok_add(&b->t->pre, s, b->e) : err_nomem(b->e, b->path);
}

static int build_text(const struct spmbuild *b)
{
    struct normalize_step map = {.kind = NORMALIZE_MAP_SPM};
    int rc = 0;

    if (b->n_map) {
        if ((rc = spmmap_new(&map.map, b->map, b->n_map, b->e)) != 0) {
            err_prefix(b->e, "%s", b->path);
            return rc;
        }
        rc = normalize_add(&b->t->norm, map, b->e);
    }
    if (rc == 0 && b->squeeze)
        rc = add_step(b, NORMALIZE_BLANKS, NULL, "");
    if (rc == 0 && b->dummy_prefix)
        rc = add_prefix(b);
    if (rc == 0)
        rc = add_step(b, NORMALIZE_REPLACE, " ", meta_space);
    return rc;
}

static int build_decoder(const struct spmbuild *b)
{
    struct detokchain *chain = &b->t->chain;
    struct detokchain_step s = {.kind = DETOKCHAIN_REPLACE, .n_find = sizeof(meta_space) - 1, .n_text = 1};
    int rc;

    s.find = mem_strdup(meta_space, MEM_TEXT);
    s.text = mem_strdup(" ", MEM_TEXT);
    if (!s.find || !s.text) {
        mem_free(s.find);
        mem_free(s.text);
        return err_nomem(b->e, b->path);
    }
    rc = detokchain_add(chain, s, b->e);
    if (rc == 0)
        rc = detokchain_add(chain, (struct detokchain_step){.kind = DETOKCHAIN_BYTE_FALLBACK}, b->e);
    if (rc == 0)
        rc = detokchain_add(chain, (struct detokchain_step){.kind = DETOKCHAIN_FUSE}, b->e);
    if (rc == 0 && b->dummy_prefix)
        rc = detokchain_add(chain, (struct detokchain_step){.kind = DETOKCHAIN_STRIP, .ch = ' ', .start = 1},
                            b->e);
    return rc;
}

static int add_tokens(const struct spmbuild *b)
{
    int rc = 0;

    for (size_t i = 0; i < b->n && rc == 0; i++) {
        bool defined = b->type[i] == SPMBUILD_USER_DEFINED || b->type[i] == SPMBUILD_BLANKS;
        struct tokadded_token a = {.id = (uint32_t)i, .special = !defined};
        const char *s;
        size_t n;

        if ((defined || b->type[i] == SPMBUILD_CONTROL || b->type[i] == SPMBUILD_UNKNOWN) &&
            tokvocab_str(&b->t->vocab, i, &s, &n))
            rc = tokcore_add_token_at(b->t, a, s, n, b->e);
    }
    return rc;
}

static int add_around(const struct spmbuild *b)
{
    uint32_t bos = (uint32_t)b->bos_id, eos = (uint32_t)b->eos_id;

    if ((b->bos_id >= 0 && (size_t)b->bos_id < b->n && !tokids_add(&b->t->prefix, &bos, 1)) ||
        (b->eos_id >= 0 && (size_t)b->eos_id < b->n && !tokids_add(&b->t->suffix, &eos, 1)))
        return err_nomem(b->e, b->path);
    return 0;
}

int spmbuild_run(const struct spmbuild *b)
{
    int rc = b->unigram ? build_unigram(b) : build_bpe(b);

    if (rc == 0 && (rc = build_text(b)) == 0 && (rc = build_decoder(b)) == 0 && (rc = add_tokens(b)) == 0)
        rc = add_around(b);
    return rc;
}
