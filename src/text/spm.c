/* spm.c - ModelProto: pieces (1), TrainerSpec (2), NormalizerSpec (3), as in sentencepiece_model.proto. What
 * becomes of them is spmbuild.c's.
 */
#include "text/spm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/spmbuild.h"
#include "text/spmproto.h"
#include "text/tokcore.h"

enum { MAX_PIECE = 1024 };
enum model_type { UNIGRAM = 1, BPE, WORD, CHARACTER };

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
    unsigned char type = SPMBUILD_NORMAL;
    int rc;

    while (spmproto_next(&p, &f)) {
        if (f.number == 1 && f.wire == 2)
            text = f;
        else if (f.number == 2 && f.wire == 5)
            score = spmproto_float(&f);
        else if (f.number == 3 && f.wire == 0)
            type = (unsigned char)(f.value < 256 ? f.value : 0);
    }
    if (p.bad || type < SPMBUILD_NORMAL || type > SPMBUILD_BYTE || !isfinite(score) || text.n == 0 ||
        text.n > MAX_PIECE || utf8_valid_prefix(text.s, text.n) != text.n)
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

static int check(const struct model *m)
{
    if (m->model_type != UNIGRAM && m->model_type != BPE)
        return err_set(m->e, ERR_UNSUPPORTED,
                       "%s: a sentencepiece model of type %llu (word or character) is not understood",
                       m->path, (unsigned long long)m->model_type);
    if (m->unk_id < 0 || (size_t)m->unk_id >= m->n)
        return err_set(m->e, ERR_INPUT, "%s: unk_id %lld is not one of the %zu pieces", m->path,
                       (long long)m->unk_id, m->n);
    if (m->space_as_suffix || !m->escape)
        return err_set(m->e, ERR_UNSUPPORTED,
                       "%s: treat_whitespace_as_suffix or unescaped whitespace is not understood", m->path);
    for (size_t i = 0; m->model_type == BPE && i < m->n; i++)
        if (m->type[i] == SPMBUILD_UNUSED)
            return err_set(m->e, ERR_UNSUPPORTED,
                           "%s: a BPE model with unused pieces (%zu) is not understood", m->path, i);
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

    if (rc == 0 && (rc = check(&m)) == 0) {
        struct spmbuild b = {.t = t,
                             .score = m.score,
                             .type = m.type,
                             .n = m.n,
                             .unigram = m.model_type == UNIGRAM,
                             .byte_fallback = m.byte_fallback,
                             .dummy_prefix = m.dummy_prefix,
                             .every_stretch = conf->legacy == 1,
                             .squeeze = m.squeeze,
                             .unk_id = m.unk_id,
                             .bos_id = conf->add_bos != 0 ? m.bos_id : -1,
                             .eos_id = conf->add_eos == 1 ? m.eos_id : -1,
                             .map = m.map,
                             .n_map = m.n_map,
                             .path = path,
                             .e = e};

        rc = spmbuild_run(&b);
    }
    if (rc == 0)
        rc = tokconf_add_tokens(conf, t, e);
    if (rc == 0 && (rc = tokcore_seal(t, e)) != 0)
        err_prefix(e, "%s", path);
    mem_free(m.score);
    mem_free(m.type);
    return rc;
}
