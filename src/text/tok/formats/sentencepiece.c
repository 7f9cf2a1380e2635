/* sentencepiece.c - reads a SentencePiece model (tokenizer.model), a protobuf of pieces with scores and of
 * the normalization; and builds the tokenizer of a SentencePiece vocabulary from any file (.model or GGUF).
 *
 * ModelProto: pieces (1), TrainerSpec (2), NormalizerSpec (3), as in sentencepiece_model.proto. The wire
 * format is https://protobuf.dev/programming-guides/encoding/; groups (wire types 3 and 4) are refused.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/settings.h"
#include "text/tok/bpe.h"
#include "text/tok/build.h"
#include "text/tok/formats/readers.h"
#include "text/tok/normalize.h"
#include "text/tok/steps.h"
#include "text/tok/tok.h"
#include "text/tok/unigram.h"
#include "text/tok/vocabulary.h"

/* ---- protobuf ---- */

struct message {
    const char *p, *end;
    bool bad; /* the bytes are not a valid message */
};

struct field {
    uint32_t number, wire; /* wire type: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes */
    uint64_t value;        /* the value of wire types 0, 1 and 5 */
    const char *s;         /* the bytes of wire type 2 */
    size_t n;
};

static bool varint(struct message *m, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; shift < 64 && m->p < m->end; shift += 7) {
        unsigned char b = (unsigned char)*m->p++;

        *v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return true;
    }
    return false;
}

static bool fixed(struct message *m, size_t n, uint64_t *v)
{
    *v = 0;
    if ((size_t)(m->end - m->p) < n)
        return false;
    memcpy(v, m->p, n); /* little-endian, like the supported machines */
    m->p += n;
    return true;
}

static bool read_field(struct message *m, struct field *f)
{
    uint64_t key, n;

    if (!varint(m, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return false;
    *f = (struct field){.number = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7)};
    switch (f->wire) {
    case 0: return varint(m, &f->value);
    case 1: return fixed(m, 8, &f->value);
    case 5: return fixed(m, 4, &f->value);
    case 2:
        if (!varint(m, &n) || n > (uint64_t)(m->end - m->p))
            return false;
        f->s = m->p;
        f->n = (size_t)n;
        m->p += n;
        return true;
    default: return false;
    }
}

static bool message_next(struct message *m, struct field *f)
{
    if (m->bad || m->p == m->end)
        return false;
    m->bad = !read_field(m, f);
    return !m->bad;
}

static float message_float(const struct field *f)
{
    uint32_t bits = (uint32_t)f->value;
    float v;

    memcpy(&v, &bits, 4);
    return v;
}

/* ---- the tokenizer of a vocabulary ---- */

static const struct json_str marker = {"\xe2\x96\x81", 3}, space = {" ", 1}; /* U+2581 stands for a space */

struct scored {
    float score;
    uint32_t id;
};

static int by_score(const void *x, const void *y)
{
    const struct scored *a = x, *b = y;

    return a->score > b->score ? -1 : a->score < b->score ? 1 : a->id < b->id ? -1 : a->id > b->id;
}

/* Gives the first ranks to runs of the marker, the shortest run first. Returns the next free rank. */
static uint32_t rank_blanks(const struct tok_pieces *b, uint32_t *rank)
{
    uint32_t most = 0;

    for (size_t i = 0; i < b->n; i++) {
        const char *s;
        size_t n;

        rank[i] = VOCAB_NONE;
        if (b->type[i] != TOK_PIECE_BLANKS || !vocab_str(&b->t->vocab, i, &s, &n))
            continue;
        rank[i] = (uint32_t)(n / marker.n);
        most = rank[i] > most ? rank[i] : most;
    }
    return most + 1;
}

/* Ranks normal pieces by falling score, after runs of the marker. VOCAB_NONE: merging never makes it. */
static int rank_pieces(const struct tok_pieces *b, uint32_t *rank)
{
    struct scored *list = mem_alloc(b->n * sizeof(*list), MEM_TEXT);
    uint32_t first;
    size_t k = 0;

    if (!list)
        return err_nomem(b->e, "pieces");
    first = rank_blanks(b, rank);
    for (size_t i = 0; i < b->n; i++)
        if (b->type[i] == TOK_PIECE_NORMAL)
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

static int build_bpe(const struct tok_pieces *b)
{
    struct bpe *to = &b->t->bpe;
    uint32_t *rank = mem_alloc(b->n * sizeof(*rank), MEM_TEXT);
    int rc = rank ? rank_pieces(b, rank) : err_nomem(b->e, "pieces");

    if (rc == 0)
        rc = bpe_derive(to, &b->t->vocab, rank, b->e);
    mem_free(rank);
    b->t->model = TOK_BPE;
    to->byte_fallback = b->byte_fallback;
    to->fuse_unk = true;
    to->has_unk = b->unk_id >= 0;
    to->unk = b->unk_id >= 0 ? (uint32_t)b->unk_id : 0;
    return rc;
}

static int build_unigram(const struct tok_pieces *b)
{
    struct unigram *u = &b->t->uni;

    b->t->model = TOK_UNIGRAM;
    u->score = mem_alloc(b->n * sizeof(*u->score), MEM_TEXT);
    u->usable = mem_alloc(b->n, MEM_TEXT);
    u->n_score = b->n;
    if (!u->score || !u->usable)
        return err_nomem(b->e, "pieces");
    for (size_t i = 0; i < b->n; i++) {
        u->score[i] = (double)b->score[i];
        u->usable[i] = b->type[i] == TOK_PIECE_NORMAL;
    }
    u->single = true;
    u->byte_fallback = b->byte_fallback;
    u->has_unk = b->unk_id >= 0;
    u->unk = b->unk_id >= 0 ? (uint32_t)b->unk_id : 0;
    return 0;
}

static int build_steps(const struct tok_pieces *b)
{
    struct normalize_map *map = NULL;
    int rc = b->map.n ? normalize_map_new(&map, &b->t->arena, b->map.s, b->map.n, b->e) : 0;
    /* The marker is put before each part between special tokens (transformers' legacy mode), or once. */
    bool each = b->dummy_prefix && b->every_stretch, once = b->dummy_prefix && !b->every_stretch;
    struct steps *norm = &b->t->norm, *pre = &b->t->pre.steps, *chain = &b->t->chain;
    const struct {
        bool wanted;
        struct steps *to;
        struct step step;
    } steps[] = {
        {map, norm, {.kind = NORMALIZE_MAP_SPM, .map = map}},
        {b->squeeze, norm, {.kind = NORMALIZE_BLANKS}},
        {each, norm, {.kind = NORMALIZE_PREPEND, .text = marker}},
        {once, pre, {.kind = SPLIT_PREPEND, .text = marker, .first = true}},
        {true, norm, {.kind = NORMALIZE_REPLACE, .find = space, .text = marker}},
        {true, chain, {.kind = DECODE_REPLACE, .find = marker, .text = space}},
        {true, chain, {.kind = DECODE_BYTE_FALLBACK}},
        {true, chain, {.kind = DECODE_FUSE}},
        {b->dummy_prefix, chain, {.kind = DECODE_STRIP, .ch = ' ', .start = 1}},
    };

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps) && rc == 0; i++)
        if (steps[i].wanted)
            rc = tok_add_step(steps[i].to, steps[i].step, "pieces", b->e);
    return rc;
}

static int add_tokens(const struct tok_pieces *b)
{
    int rc = 0;

    for (size_t i = 0; i < b->n && rc == 0; i++) {
        bool defined = b->type[i] == TOK_PIECE_USER_DEFINED || b->type[i] == TOK_PIECE_BLANKS;
        struct tok_added a = {.id = (uint32_t)i, .special = !defined};
        const char *s;
        size_t n;

        if ((defined || b->type[i] == TOK_PIECE_CONTROL || b->type[i] == TOK_PIECE_UNKNOWN) &&
            vocab_str(&b->t->vocab, i, &s, &n))
            rc = tok_add_token(b->t, a, s, n, b->e);
    }
    return rc;
}

/* Returns ID, or -1 if it is not the id of a piece. */
static int64_t piece_or_none(const struct tok_pieces *b, int64_t id)
{
    return id >= 0 && (size_t)id < b->n ? id : -1;
}

int tok_build_pieces(const struct tok_pieces *b)
{
    int rc = b->unigram ? build_unigram(b) : build_bpe(b);

    if (rc == 0 && (rc = build_steps(b)) == 0 && (rc = add_tokens(b)) == 0)
        rc = tok_add_around(b->t, piece_or_none(b, b->bos_id), piece_or_none(b, b->eos_id), b->e);
    return rc;
}

/* ---- the file ---- */

enum { MAX_PIECE = 1024 };
enum model_type { UNIGRAM = 1, BPE, WORD, CHARACTER };

struct model {
    struct tok_pieces b; /* settings and pieces for tok_build_pieces() */
    float *score;
    unsigned char *type;
    size_t score_cap, type_cap;
    uint64_t model_type;
    bool space_as_suffix, escape;
};

bool tok_is_sentencepiece(const char *bytes, size_t n)
{
    return n > 4 && bytes[0] == '\n' &&
           bytes[2] == '\n'; /* the first field is a piece that begins with its string */
}

static int read_piece(struct model *m, const struct field *piece)
{
    struct message p = {.p = piece->s, .end = piece->s + piece->n};
    struct field f, text = {.s = "", .n = 0};
    struct tok_pieces *b = &m->b;
    unsigned char type = TOK_PIECE_NORMAL;
    float score = 0;

    while (message_next(&p, &f)) {
        if (f.number == 1 && f.wire == 2)
            text = f;
        else if (f.number == 2 && f.wire == 5)
            score = message_float(&f);
        else if (f.number == 3 && f.wire == 0)
            type = (unsigned char)(f.value < 256 ? f.value : 0);
    }
    if (p.bad || type < TOK_PIECE_NORMAL || type > TOK_PIECE_BYTE || !isfinite(score) || text.n == 0 ||
        text.n > MAX_PIECE || utf8_valid_prefix(text.s, text.n) != text.n)
        return err_set(b->e, ERR_INPUT, "piece %zu of the sentencepiece model is damaged", b->n);
    if (!mem_grow((void **)&m->score, &m->score_cap, b->n + 1, sizeof(*m->score), MEM_TEXT) ||
        !mem_grow((void **)&m->type, &m->type_cap, b->n + 1, 1, MEM_TEXT))
        return err_nomem(b->e, "pieces");
    m->score[b->n] = score;
    m->type[b->n] = type;
    return vocab_add_new(&b->t->vocab, text.s, text.n, (int64_t)b->n++, b->e);
}

static int64_t id_of(uint64_t value)
{
    return (int64_t)(int32_t)(uint32_t)value; /* the field is an int32; a negative value means none */
}

static void read_trainer(struct model *m, const struct field *f)
{
    switch (f->number) {
    case 3: m->model_type = f->value; break;
    case 24: m->space_as_suffix = f->value != 0; break;
    case 35: m->b.byte_fallback = f->value != 0; break;
    case 40: m->b.unk_id = id_of(f->value); break;
    case 41: m->b.bos_id = id_of(f->value); break;
    case 42: m->b.eos_id = id_of(f->value); break;
    default: break;
    }
}

static void read_normalizer(struct model *m, const struct field *f)
{
    switch (f->number) {
    case 2: m->b.map = (struct json_str){f->s, f->n}; break;
    case 3: m->b.dummy_prefix = f->value != 0; break;
    case 4: m->b.squeeze = f->value != 0; break;
    case 5: m->escape = f->value != 0; break;
    default: break;
    }
}

static int read_settings(struct model *m, const struct field *message,
                         void (*read)(struct model *m, const struct field *f))
{
    struct message p = {.p = message->s, .end = message->s + message->n};
    struct field f;

    while (message_next(&p, &f))
        read(m, &f);
    return p.bad ? err_set(m->b.e, ERR_INPUT, "the trainer_spec or normalizer_spec is damaged") : 0;
}

static int read_model(struct model *m, const char *bytes, size_t n)
{
    struct message p = {.p = bytes, .end = bytes + n};
    struct field f;
    int rc = 0;

    while (rc == 0 && message_next(&p, &f)) {
        if (f.wire != 2)
            continue;
        if (f.number == 1)
            rc = read_piece(m, &f);
        else if (f.number == 2)
            rc = read_settings(m, &f, read_trainer);
        else if (f.number == 3)
            rc = read_settings(m, &f, read_normalizer);
    }
    if (rc == 0 && (p.bad || m->b.n == 0))
        rc = err_set(m->b.e, ERR_INPUT, "the file is not a sentencepiece model");
    return rc;
}

static int check_model(const struct model *m)
{
    const struct tok_pieces *b = &m->b;

    if (m->model_type != UNIGRAM && m->model_type != BPE)
        return err_set(
            b->e, ERR_UNSUPPORTED,
            "a sentencepiece model of type %llu is not supported; supported are 1 (unigram) and 2 (BPE)",
            (unsigned long long)m->model_type);
    if (b->unk_id < 0 || (size_t)b->unk_id >= b->n)
        return err_set(b->e, ERR_INPUT, "unk_id is %lld, but the model has %zu pieces", (long long)b->unk_id,
                       b->n);
    if (m->space_as_suffix || !m->escape)
        return err_set(b->e, ERR_UNSUPPORTED,
                       "treat_whitespace_as_suffix and unescaped whitespace are not supported");
    for (size_t i = 0; m->model_type == BPE && i < b->n; i++)
        if (m->type[i] == TOK_PIECE_UNUSED)
            return err_set(b->e, ERR_UNSUPPORTED,
                           "piece %zu of a BPE model is unused, which is not supported", i);
    return 0;
}

int tok_read_sentencepiece(struct tok *t, const char *bytes, size_t n, const struct settings *conf,
                           struct err *e)
{
    struct tok_pieces unsaid = {
        .t = t, .e = e, .dummy_prefix = true, .squeeze = true, .bos_id = 1, .eos_id = 2};
    struct model m = {.b = unsaid, .model_type = UNIGRAM, .escape = true};
    int rc = read_model(&m, bytes, n);

    if (rc == 0 && (rc = check_model(&m)) == 0) {
        m.b.score = m.score;
        m.b.type = m.type;
        m.b.unigram = m.model_type == UNIGRAM;
        m.b.every_stretch = conf->legacy == SETTINGS_YES;
        if (conf->add_bos == SETTINGS_NO)
            m.b.bos_id = -1;
        if (conf->add_eos != SETTINGS_YES)
            m.b.eos_id = -1;
        rc = tok_build_pieces(&m.b);
    }
    if (rc == 0 && (rc = tok_add_settings(t, conf, e)) == 0)
        rc = tok_seal(t, e);
    mem_free(m.score);
    mem_free(m.type);
    return rc;
}
