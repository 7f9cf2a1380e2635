/* gallop_submit.c - the functions of gallop.h and engine.h that submit requests: checks a request, and turns it into
 * sequences, which it posts to the inbox (gallop_events.c). Any thread may call them.
 */
#include <string.h>

#include "base/buf.h"
#include "base/digest.h"
#include "engine/beams/ask.h"
#include "engine/constraints/constraints.h"
#include "engine/embeddings/embed.h"
#include "engine/embeddings/embedder.h"
#include "engine/gallop_priv.h"
#include "engine/guess/sources.h"
#include "engine/sampling/public_sampling.h"
#include "engine/sampling/sampling.h"
#include "engine/seq.h"
#include "engine/step.h"
#include "text/tok/ids.h"
#include "text/tok/infill.h"
#include "text/tok/tok.h"

int engine_embedder(const struct gallop *g, enum gallop_pooling pooling, const struct embedder **out,
                    struct err *e)
{
    *out = pooling == GALLOP_POOL_AUTO ? g->embedder : NULL;
    ASSERT(!*out || g->embedder->pooling || g->embedder_missing.code,
           "an engine that gallop_open() did not open");
    if (*out && g->embedder_missing.code && e)
        *e = g->embedder_missing;
    return *out ? g->embedder_missing.code : 0;
}

void gallop_request_init(struct gallop_request *r)
{
    *r = (struct gallop_request){
        .text_len = SIZE_MAX, .suffix_len = SIZE_MAX, .n = 1, .prompt_logprobs = -1, .speculative = 1};
    public_sampling_init(&r->sampling);
}

/* Sets *FIRST to the index of the first token after the left padding. */
static int skip_padding(const struct gallop_request *r, size_t *first, struct err *e)
{
    *first = 0;
    if (!r->mask)
        return 0;
    while (*first < r->n_ids && r->mask[*first] == 0)
        ++*first;
    for (size_t i = *first; i < r->n_ids; i++)
        if (r->mask[i] == 0)
            return err_set(
                e, ERR_INPUT,
                "the attention mask has a 0 at position %zu behind a 1; padding is supported on the left only",
                i);
    return 0;
}

/* Writes the texts of o->choice to OUT as a JSON array. */
static int write_choices(const struct gallop_structured_outputs *o, struct buf *out, struct err *e)
{
    buf_json_begin(out, '[');
    for (size_t i = 0; i < o->n_choice; i++) {
        if (!o->choice || !o->choice[i])
            return err_about(e, ERR_INPUT, "structured_outputs", "choice: text %zu of %zu is NULL", i,
                             o->n_choice);
        buf_json_str(out, o->choice[i], strlen(o->choice[i]));
    }
    buf_json_end(out, ']');
    return out->oom ? err_nomem(e, "a request") : 0;
}

/* Describes the constraint of R in *SOURCE, which may borrow text from CHOICES. Sets *IS_GIVEN to whether R has a
 * constraint. */
static int describe_constraint(const struct gallop_request *r, struct constraint_source *source,
                               struct buf *choices, bool *is_given, struct err *e)
{
    const struct gallop_structured_outputs *o = &r->structured_outputs;
    const struct {
        bool is_given;
        enum constraint_kind kind;
        const char *text;
    } way[] = {{o->json, CONSTRAINT_JSON_SCHEMA, o->json},
               {o->regex, CONSTRAINT_REGEX, o->regex},
               {o->choice || o->n_choice, CONSTRAINT_CHOICE, NULL},
               {o->grammar, CONSTRAINT_GRAMMAR, o->grammar},
               {o->json_object, CONSTRAINT_JSON_OBJECT, ""},
               {o->structural_tag, CONSTRAINT_TAG, o->structural_tag}};
    int n = 0, rc = 0;

    *source = (struct constraint_source){.kind = CONSTRAINT_NONE,
                                         .is_lax = o->ignore_unsupported != 0,
                                         .is_compact = o->disable_any_whitespace != 0,
                                         .is_open = o->allow_additional_properties != 0,
                                         .whitespace = o->whitespace_pattern,
                                         .after = o->begins_after,
                                         .open = o->may_begin_with,
                                         .has_channels = o->has_channels != 0,
                                         .tools = o->tool_calls};
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++)
        if (way[i].is_given) {
            source->kind = way[i].kind;
            source->text = way[i].text;
            n++;
        }
    *is_given = n > 0 || o->tool_calls;
    if (!*is_given)
        return 0;
    if (n > 1 || r->pooling)
        return err_about(e, ERR_INPUT, "structured_outputs",
                         n > 1 ? "found %d constraints, expected one" : "embeddings cannot have a constraint",
                         n);
    if (source->kind == CONSTRAINT_CHOICE && (rc = write_choices(o, choices, e)) == 0)
        source->text = choices->data;
    source->n = rc || !source->text ? 0 : strlen(source->text);
    if (rc)
        err_subject(e, "structured_outputs");
    return rc;
}

/* Compiles the constraint of R, if any, or takes it from the cache, and sets it in SR. */
static int read_constraint(struct gallop *g, const struct gallop_request *r, struct seq_request *sr,
                           struct err *e)
{
    struct constraint_fault fault = {.is_in_tools = false};
    struct buf choices = {.tag = MEM_ENGINE};
    struct constraint_source source;
    bool is_given;
    int rc = describe_constraint(r, &source, &choices, &is_given, e);

    if (rc == 0 && is_given) {
        sr->constraints = g->constraints;
        rc = constraints_get(g->constraints, &source, &sr->constraint, &fault, e);
        if (rc)
            err_subject(e, fault.is_in_tools ? "structured_outputs.tool_calls" : "structured_outputs");
    }
    buf_fini(&choices);
    return rc;
}

bool engine_is_compiled(struct gallop *g, const struct gallop_request *r)
{
    struct buf choices = {.tag = MEM_ENGINE};
    struct constraint_source source;
    struct err e = {0};
    bool is_given, has;

    has = describe_constraint(r, &source, &choices, &is_given, &e) != 0 || !is_given ||
          constraints_has(g->constraints, &source);
    buf_fini(&choices);
    return has;
}

/* Refuses a beam search of SR if the number of tokens that USER asks for cannot fit into the KV cache. A search whose
 * request gives no max_new_tokens is not refused: it may end before the cache is full. */
static int check_beams(const struct gallop *g, const struct sampling *user, const struct seq_request *sr,
                       struct err *e)
{
    size_t room = g->model.max_model_len - sr->n_ids,
           n = user->max_new_tokens < room ? user->max_new_tokens : room;

    if (!sr->n_beams || !sampling_given(user, SAMPLING_MAX_NEW_TOKENS) || sr->n_ids == 0 ||
        sr->n_ids > g->model.max_model_len || n == 0)
        return 0; /* seq_new() refuses invalid requests */
    return ask_fits(&g->step->x->caps, sr->n_ids, n, sr->n_beams, e);
}

/* Reads which rows of logits and probabilities the events of R contain. */
static int read_kept(const struct gallop *g, const struct gallop_request *r, struct seq_request *sr,
                     struct err *e)
{
    const char *name = r->return_logits          ? "return_logits"
                       : r->return_probs         ? "return_probs"
                       : r->return_prompt_logits ? "return_prompt_logits"
                                                 : NULL;

    if (name && (sr->n_beams || r->pooling))
        return err_about(e, ERR_UNSUPPORTED, name, "%s has no rows of logits",
                         r->pooling ? "an embedding" : "beam search");
    sr->keeps_logits = r->return_logits != 0;
    sr->keeps_probs = r->return_probs != 0;
    sr->n_kept_prompt = r->return_prompt_logits ? g->step->x->caps.max_logits : 0;
    if (r->return_prompt_logits && sr->prompt_logprobs < 0)
        sr->prompt_logprobs = 0;
    return 0;
}

/* Validates R and SR and creates the list of sequences of all answers to R. X: see read_ids(). */
static int new_answers(struct gallop *g, const struct gallop_request *r, const struct embedder *x,
                       const struct sampling *user, struct sampling *merged, struct seq_request *sr,
                       struct seq **out, struct err *e)
{
    uint8_t salt[DIGEST_BYTES]; /* the prefix cache uses the first 16 bytes */
    int rc = r->cache_salt ? digest_sha256(r->cache_salt, strlen(r->cache_salt), salt, e) : 0;

    sr->salt = r->cache_salt ? salt : NULL;
    *out = NULL;
    if (r->n < 0 || r->n > SEQ_MAX_ANSWERS)
        return err_about(e, ERR_INPUT, "n", "found %lld, expected 1 to %d answers", (long long)r->n,
                         SEQ_MAX_ANSWERS);
    if (r->prompt_logprobs < -1 || r->prompt_logprobs > SAMPLING_MAX_LOGPROBS)
        return err_about(e, ERR_INPUT, "prompt_logprobs", "found %lld, expected 0 to %d, or -1 for none",
                         (long long)r->prompt_logprobs, SAMPLING_MAX_LOGPROBS);
    if ((unsigned)r->pooling > GALLOP_POOL_AUTO ||
        (r->pooling && (r->n > 1 || r->prompt_logprobs >= 0 || sr->sampling->max_new_tokens != 0)))
        return err_about(
            e, ERR_INPUT, "pooling",
            "an embedding needs n 1 and max_new_tokens 0, and prompt_logprobs must not be given");
    if (r->pooling && g->step->x->caps.n_hidden == 0)
        return err_about(e, ERR_UNSUPPORTED, "pooling", "this executor computes no embeddings");
    if (!r->pooling && g->model.no_generation)
        return err_set(e, ERR_UNSUPPORTED, "this model %s, so it can only compute embeddings",
                       g->info.is_bidirectional ? "has bidirectional attention"
                                                : "has no language model head (lm_head.weight is missing)");
    if (g->info.is_bidirectional && sr->n_ids > g->model.max_step_tokens)
        return err_set(
            e, ERR_INPUT,
            "the prompt has %zu tokens, expected at most max_batched_tokens, %zu, because a model with bidirectional "
            "attention computes the whole prompt in one step",
            sr->n_ids, g->model.max_step_tokens);
    sr->pooling = (enum seq_pooling)(x ? x->pooling : r->pooling);
    sr->n_hidden = g->model.hidden_size;
    if (!(r->deadline_s >= 0))
        return err_about(e, ERR_INPUT, "deadline_s", "found %g, expected 0 or more", r->deadline_s);
    sr->prompt_logprobs = (int)r->prompt_logprobs;
    rc = rc ? rc : ask_read(r, user, merged, &g->step->x->caps, g->step->opt.max_seqs, &sr->n_beams, e);
    rc = rc ? rc : check_beams(g, user, sr, e);
    rc = rc ? rc : read_kept(g, r, sr, e);
    rc = rc ? rc : read_constraint(g, r, sr, e);
    return rc ? rc
              : seq_new(out, sr, r->n ? (size_t)r->n : 1, g->info.tok, g->model.vocab_size,
                        g->model.max_model_len, e);
}

/* Sets the prompt of SR to the ids of R, or to the tokens of the text of R, which are stored in IDS. X: the settings
 * for the prompt of an embedding; NULL: none. */
static int read_ids(const struct gallop *g, const struct gallop_request *r, const struct embedder *x,
                    struct seq_request *sr, struct tok_ids *ids, struct err *e)
{
    unsigned flags = r->no_special ? 0 : TOK_ADD_SPECIAL;
    size_t first, n, n_cut;
    int rc;

    if (r->suffix && !r->text)
        return err_about(e, ERR_INPUT, "suffix", "the text before the gap, `text`, is missing");
    if (!r->text) {
        if ((rc = skip_padding(r, &first, e)) == 0) {
            sr->ids = r->ids ? r->ids + first : NULL;
            sr->n_ids = r->n_ids - first;
            if (x)
                embed_ids(x, &sr->ids, &sr->n_ids);
        }
        return rc;
    }
    if (r->ids || r->n_ids)
        return err_set(e, ERR_INPUT, "the prompt is given as text and as ids; one of them is expected");
    if (!g->info.tok)
        return err_set(e, ERR_INPUT, "a prompt that is text needs a tokenizer: %s", g->model.no_tokenizer);
    n = r->text_len == SIZE_MAX ? strlen(r->text) : r->text_len;
    rc = r->suffix
             ? infill_encode(g->info.tok, r->text, n, r->suffix,
                             r->suffix_len == SIZE_MAX ? strlen(r->suffix) : r->suffix_len, flags, ids, e)
         : x ? embed_text(x, g->info.tok, r->text, n, !r->no_special, ids, &n_cut, e)
             : tok_encode(g->info.tok, r->text, n, flags, ids, e);
    sr->ids = ids->id;
    sr->n_ids = ids->n;
    return rc;
}

/* Adds the tokens that end the middle of a fill-in-the-middle prompt to the end tokens of S. Memory is allocated in
 * A. */
static int add_infill_ends(const struct gallop *g, const struct gallop_request *r, struct sampling *s,
                           struct arena *a, struct err *e)
{
    int32_t id[INFILL_MAX_ENDS];
    size_t n = (r->suffix || r->infill) && g->info.tok ? infill_ends(g->info.tok, id) : 0;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        if ((size_t)id[i] < g->step->x->caps.n_vocab)
            rc = sampling_add_eos(s, id[i], a, e);
    return rc;
}

int engine_submit(struct gallop *g, const struct gallop_request *r, const struct sampling *user, uint64_t *id,
                  struct err *e)
{
    struct seq_request sr = {.keep_special = r->keep_special != 0,
                             .user = r->user,
                             .priority = r->priority,
                             .key = waiting_key(r->key, r->key ? strlen(r->key) : 0),
                             .limit_s = r->deadline_s,
                             .most_guesses = r->speculative && g->step->guesser ? g->step->guesser->most : 0,
                             .lookup_length = g->guesses ? guess_sources_lookup(g->guesses) : 0};
    const struct embedder *x = NULL;
    struct tok_ids ids = {0};
    struct sampling merged;
    struct arena arena;
    struct seq *s = NULL;
    int rc;

    arena_init(&arena, MEM_ENGINE);
    sampling_merge(&merged, user, g->config);
    if (!sampling_given(&merged, SAMPLING_SEED))
        merged.seed = rng_seeds_next(&g->seeds);
    sr.sampling = &merged;
    /* A budget of the model's generation config is ignored if the marks of its reasoning are not known, and
     * with beam search. */
    sr.reasoning = (struct reasoning_request){
        .is_limited = merged.thinking_token_budget != SIZE_MAX && !sampling_is_search(user) &&
                      (r->reasoning_close || sampling_given(user, SAMPLING_THINKING_TOKEN_BUDGET)),
        .budget = merged.thinking_token_budget,
        .open = r->reasoning_open,
        .close = r->reasoning_close,
        .call = {r->tool_call_open[0], r->tool_call_open[1]},
        .call_close = r->tool_call_close,
        .begun = r->reasoning_begun != 0};
    rc = engine_embedder(g, r->pooling, &x, e);
    if (rc == 0 && (rc = read_ids(g, r, x, &sr, &ids, e)) == 0 &&
        (rc = add_infill_ends(g, r, &merged, &arena, e)) == 0 &&
        (rc = new_answers(g, r, x, user, &merged, &sr, &s, e)) == 0 &&
        (rc = step_take_place(g->step, sr.n_ids, e)) != 0)
        seq_free_list(s);
    if (rc == 0) {
        uint64_t own = engine_post(g, s);

        if (id)
            *id = own;
    }
    tok_ids_fini(&ids);
    arena_fini(&arena);
    return rc;
}

int gallop_submit(struct gallop *g, const struct gallop_request *r, uint64_t *id, char *err)
{
    struct sampling user;
    struct err e = {0};
    struct arena arena;
    int rc;

    arena_init(&arena, MEM_ENGINE);
    if ((rc = public_sampling_read(&r->sampling, &user, &arena, &e)) == 0)
        rc = engine_submit(g, r, &user, id, &e);
    arena_fini(&arena);
    return engine_give(err, &e, rc);
}
