/* spm.c - ModelProto: pieces (1), TrainerSpec (2), NormalizerSpec (3), as in sentencepiece_model.proto.
 *
 * A BPE model there merges the two neighbours whose union is the piece with the highest score: each way to
 * cut a piece into two pieces becomes a rule, and pieces of equal score have equal rank. A unigram model sums
 * its scores in float. Control and user-defined pieces are cut out of the text first, as transformers does
 * with such a model; sentencepiece itself would read control pieces as plain text.
 */
#include "text/spm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/spmproto.h"
#include "text/tokcore.h"
#include "text/tokids.h"

enum { MAX_PIECE = 1024 };
enum piece_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum model_type { UNIGRAM = 1, BPE, WORD, CHARACTER };

static const char meta_space[] = "\xe2\x96\x81";

struct model {
    struct tok *t;
    const char *path;
    struct err *e;
    float *score;
    unsigned char *type;
    size_t n, score_cap, type_cap; /* pieces */
    uint64_t model_type;
    bool byte_fallback, space_as_suffix, dummy_prefix, squeeze, escape;
    int64_t unk_id, bos_id, eos_id;
    const char *map;
    size_t n_map;
};

bool spm_looks_like(const char *bytes, size_t n)
{
    return n > 4 && bytes[0] == '\n' && bytes[2] == '\n'; /* a piece that begins with its string */
}

static int read_piece(struct model *m, const char *s, size_t n)
{
    struct spmproto p = {.p = s, .end = s + n};
    struct spmproto_field f, text = {.s = "", .n = 0};
    float score = 0;
    unsigned char type = NORMAL;
    int rc;

    while (spmproto_next(&p, &f)) {
        if (f.number == 1 && f.wire == 2)
            text = f;
        else if (f.number == 2 && f.wire == 5)
            score = spmproto_float(&f);
        else if (f.number == 3 && f.wire == 0)
            type = (unsigned char)(f.value < 256 ? f.value : 0);
    }
    if (p.bad || type < NORMAL || type > BYTE || !isfinite(score) || text.n == 0 || text.n > MAX_PIECE ||
        utf8_valid_prefix(text.s, text.n) != text.n)
        return err_set(m->e, ERR_INPUT, "%s: piece %zu is damaged", m->path, m->n);
    if (!mem_grow((void **)&m->score, &m->score_cap, m->n + 1, sizeof(*m->score), MEM_TEXT) ||
        !mem_grow((void **)&m->type, &m->type_cap, m->n + 1, 1, MEM_TEXT))
        return err_nomem(m->e, m->path);
    m->score[m->n] = score;
    m->type[m->n] = type;
    rc = tokvocab_add(&m->t->vocab, text.s, text.n, (int64_t)m->n, m->e);
    if (rc)
        err_prefix(m->e, "%s", m->path);
    m->n++;
    if (rc == 0 && m->t->vocab.n != m->n)
        return err_set(m->e, ERR_INPUT, "%s: piece %zu \"%.*s\" is there twice", m->path, m->n - 1,
                       (int)(text.n < 60 ? text.n : 60), text.s);
    return rc;
}

static int64_t id_of(uint64_t value)
{
    return (int64_t)(int32_t)(uint32_t)value; /* an int32 field; negative: there is none */
}

static void trainer(struct model *m, const struct spmproto_field *f)
{
    switch (f->number) {
    case 3: m->model_type = f->value; break;
    case 24: m->space_as_suffix = f->value != 0; break;
    case 35: m->byte_fallback = f->value != 0; break;
    case 40: m->unk_id = id_of(f->value); break;
    case 41: m->bos_id = id_of(f->value); break;
    case 42: m->eos_id = id_of(f->value); break;
    default: break;
    }
}

static void normalizer(struct model *m, const struct spmproto_field *f)
{
    switch (f->number) {
    case 2:
        m->map = f->s;
        m->n_map = f->n;
        break;
    case 3: m->dummy_prefix = f->value != 0; break;
    case 4: m->squeeze = f->value != 0; break;
    case 5: m->escape = f->value != 0; break;
    default: break;
    }
}

static int read_message(struct model *m, const char *s, size_t n,
                        void (*field)(struct model *m, const struct spmproto_field *f))
{
    struct spmproto p = {.p = s, .end = s + n};
    struct spmproto_field f;

    while (spmproto_next(&p, &f))
        field(m, &f);
    return p.bad ? err_set(m->e, ERR_INPUT, "%s: its settings are damaged", m->path) : 0;
}

static int read_model(struct model *m, const char *bytes, size_t n)
{
    struct spmproto p = {.p = bytes, .end = bytes + n};
    struct spmproto_field f;
    int rc = 0;

    while (rc == 0 && spmproto_next(&p, &f)) {
        if (f.number == 1 && f.wire == 2)
            rc = read_piece(m, f.s, f.n);
        else if (f.number == 2 && f.wire == 2)
            rc = read_message(m, f.s, f.n, trainer);
        else if (f.number == 3 && f.wire == 2)
            rc = read_message(m, f.s, f.n, normalizer);
    }
    if (rc == 0 && (p.bad || m->n == 0))
        rc = err_set(m->e, ERR_INPUT, "%s: this is no sentencepiece model", m->path);
    return rc;
}

struct scored {
    float score;
    uint32_t id;
};

static int by_score(const void *x, const void *y)
{
    const struct scored *a = x, *b = y;

    return a->score > b->score ? -1 : a->score < b->score ? 1 : a->id < b->id ? -1 : a->id > b->id;
}

/* Ranks in the order of falling scores; BPE_NONE for what merging does not make. */
static int rank_pieces(const struct model *m, uint32_t *rank)
{
    struct scored *list = mem_alloc(m->n * sizeof(*list), MEM_TEXT);
    size_t k = 0;

    if (!list)
        return err_nomem(m->e, m->path);
    for (size_t i = 0; i < m->n; i++) {
        rank[i] = BPE_NONE;
        if (m->type[i] == NORMAL)
            list[k++] = (struct scored){m->score[i], (uint32_t)i};
    }
    qsort(list, k, sizeof(*list), by_score);
    for (size_t i = 0, r = 0; i < k; i++) {
        if (i > 0 && list[i].score != list[i - 1].score)
            r = i;
        rank[list[i].id] = (uint32_t)r;
    }
    mem_free(list);
    return 0;
}

static int build_bpe(const struct model *m)
{
    struct bpe *b = &m->t->bpe;
    uint32_t *rank = mem_alloc(m->n * sizeof(*rank), MEM_TEXT);
    int rc = rank ? rank_pieces(m, rank) : err_nomem(m->e, m->path);

    for (size_t i = 0; i < m->n && rc == 0; i++)
        if (m->type[i] == UNUSED)
            rc = err_set(m->e, ERR_UNSUPPORTED, "%s: a BPE model with unused pieces (%zu) is not understood",
                         m->path, i);
    if (rc == 0)
        rc = bpe_derive(b, &m->t->vocab, rank, m->e);
    mem_free(rank);
    m->t->model = TOKCORE_BPE;
    b->byte_fallback = m->byte_fallback;
    b->fuse_unk = true;
    b->has_unk = true;
    b->unk = (uint32_t)m->unk_id;
    return rc;
}

static int build_unigram(const struct model *m)
{
    struct unigram *u = &m->t->uni;

    m->t->model = TOKCORE_UNIGRAM;
    u->score = mem_alloc(m->n * sizeof(*u->score), MEM_TEXT);
    u->usable = mem_alloc(m->n, MEM_TEXT);
    u->n_score = m->n;
    if (!u->score || !u->usable)
        return err_nomem(m->e, m->path);
    for (size_t i = 0; i < m->n; i++) {
        u->score[i] = (double)m->score[i];
        u->usable[i] = m->type[i] == NORMAL;
    }
    u->single = true;
    u->byte_fallback = m->byte_fallback;
    u->has_unk = true;
    u->unk = (uint32_t)m->unk_id;
    return 0;
}

static int add_step(struct model *m, enum normalize_kind kind, const char *find, const char *text)
{
    struct normalize_step s = {.kind = kind};

    if ((find && !normalize_copy(&s.find, &s.n_find, find, strlen(find))) ||
        !normalize_copy(&s.text, &s.n_text, text, strlen(text))) {
        mem_free(s.find);
        return err_nomem(m->e, m->path);
    }
    return normalize_add(&m->t->norm, s, m->e);
}

/* The marker in front: before every stretch between special tokens, as transformers' legacy way has it, or
 * once. */
static int add_prefix(struct model *m, bool every)
{
    struct pretok_step s = {.kind = PRETOK_PREPEND, .n_text = sizeof(meta_space) - 1};

    if (every)
        return add_step(m, NORMALIZE_PREPEND, NULL, meta_space);
    s.text = mem_strdup(meta_space, MEM_TEXT);
    return s.text ? pretok_add(&m->t->pre, s, m->e) : err_nomem(m->e, m->path);
}

static int build_text(struct model *m, const struct tokconf *conf)
{
    struct normalize_step map = {.kind = NORMALIZE_MAP_SPM};
    int rc = 0;

    if (m->space_as_suffix || !m->escape)
        return err_set(m->e, ERR_UNSUPPORTED,
                       "%s: treat_whitespace_as_suffix or unescaped whitespace is not understood", m->path);
    if (m->n_map) {
        if ((rc = spmmap_new(&map.map, m->map, m->n_map, m->e)) != 0) {
            err_prefix(m->e, "%s", m->path);
            return rc;
        }
        rc = normalize_add(&m->t->norm, map, m->e);
    }
    if (rc == 0 && m->squeeze)
        rc = add_step(m, NORMALIZE_BLANKS, NULL, "");
    if (rc == 0 && m->dummy_prefix)
        rc = add_prefix(m, conf->legacy == 1);
    if (rc == 0)
        rc = add_step(m, NORMALIZE_REPLACE, " ", meta_space);
    return rc;
}

static int build_decoder(struct model *m)
{
    struct detokchain_step s = {.kind = DETOKCHAIN_REPLACE, .n_find = sizeof(meta_space) - 1, .n_text = 1};
    int rc;

    s.find = mem_strdup(meta_space, MEM_TEXT);
    s.text = mem_strdup(" ", MEM_TEXT);
    if (!s.find || !s.text) {
        mem_free(s.find);
        mem_free(s.text);
        return err_nomem(m->e, m->path);
    }
    rc = detokchain_add(&m->t->chain, s, m->e);
    if (rc == 0)
        rc = detokchain_add(&m->t->chain, (struct detokchain_step){.kind = DETOKCHAIN_BYTE_FALLBACK}, m->e);
    if (rc == 0)
        rc = detokchain_add(&m->t->chain, (struct detokchain_step){.kind = DETOKCHAIN_FUSE}, m->e);
    if (rc == 0 && m->dummy_prefix)
        rc = detokchain_add(&m->t->chain,
                            (struct detokchain_step){.kind = DETOKCHAIN_STRIP, .ch = ' ', .start = 1}, m->e);
    return rc;
}

static int add_tokens(struct model *m, const struct tokconf *conf)
{
    int rc = 0;

    for (size_t i = 0; i < m->n && rc == 0; i++) {
        struct tokadded_token a = {.id = (uint32_t)i, .special = m->type[i] != USER_DEFINED};
        const char *s;
        size_t n;

        if ((m->type[i] == CONTROL || m->type[i] == USER_DEFINED || m->type[i] == UNKNOWN) &&
            tokvocab_str(&m->t->vocab, i, &s, &n))
            rc = tokcore_add_token_at(m->t, a, s, n, m->e);
    }
    return rc ? rc : tokconf_add_tokens(conf, m->t, m->e);
}

static int add_around(struct model *m, const struct tokconf *conf)
{
    uint32_t id;

    if (m->bos_id >= 0 && (size_t)m->bos_id < m->n && conf->add_bos != 0) {
        id = (uint32_t)m->bos_id;
        if (!tokids_add(&m->t->prefix, &id, 1))
            return err_nomem(m->e, m->path);
    }
    if (m->eos_id >= 0 && (size_t)m->eos_id < m->n && conf->add_eos == 1) {
        id = (uint32_t)m->eos_id;
        if (!tokids_add(&m->t->suffix, &id, 1))
            return err_nomem(m->e, m->path);
    }
    return 0;
}

int spm_read(struct tok *t, const char *bytes, size_t n, const char *path, const struct tokconf *conf,
             struct err *e)
{
    struct model m = {.t = t,
                      .path = path,
                      .e = e,
                      .model_type = UNIGRAM,
                      .dummy_prefix = true,
                      .squeeze = true,
                      .escape = true,
                      .unk_id = 0,
                      .bos_id = 1,
                      .eos_id = 2};
    int rc = read_model(&m, bytes, n);

    if (rc == 0 && m.model_type != UNIGRAM && m.model_type != BPE)
        rc = err_set(e, ERR_UNSUPPORTED,
                     "%s: a sentencepiece model of type %llu (word or character) is not understood", path,
                     (unsigned long long)m.model_type);
    if (rc == 0 && (m.unk_id < 0 || (size_t)m.unk_id >= m.n))
        rc = err_set(e, ERR_INPUT, "%s: unk_id %lld is not one of the %zu pieces", path, (long long)m.unk_id,
                     m.n);
    if (rc == 0)
        rc = m.model_type == BPE ? build_bpe(&m) : build_unigram(&m);
    if (rc == 0 && (rc = build_text(&m, conf)) == 0 && (rc = build_decoder(&m)) == 0 &&
        (rc = add_tokens(&m, conf)) == 0)
        rc = add_around(&m, conf);
    if (rc == 0 && (rc = tokcore_seal(t, e)) != 0)
        err_prefix(e, "%s", path);
    mem_free(m.score);
    mem_free(m.type);
    return rc;
}
