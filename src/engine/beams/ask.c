/* ask.c - reads and checks the fields of a request that concern beam search. */
#include "engine/beams/ask.h"

#include "engine/beams/beam.h"
#include "engine/executor.h"
#include "gallop.h"
#include "kern/attention.h"

/* Refuses fields of R that beam search does not support. */
static int check_fields(const struct gallop_request *r, const struct sampling *user, struct err *e)
{
    const struct gallop_structured_outputs *o = &r->structured_outputs;
    int rc = sampling_check_search(user, e);

    if (rc)
        return rc;
    if (r->pooling)
        return err_about(e, ERR_INPUT, "pooling", "embeddings cannot be searched for with beams");
    if (o->json || o->regex || o->n_choice || o->grammar || o->structural_tag || o->json_object ||
        o->tool_calls)
        return err_about(e, ERR_UNSUPPORTED, "structured_outputs",
                         "beam search does not support constraints on the answer");
    if (sampling_given(user, SAMPLING_THINKING_TOKEN_BUDGET))
        return err_about(e, ERR_UNSUPPORTED, "thinking_token_budget",
                         "beam search does not support a budget");
    if (user->n_logprob_ids || (sampling_given(user, SAMPLING_LOGPROBS) && user->logprobs > 0))
        return err_about(e, ERR_UNSUPPORTED, "logprobs",
                         "beam search reports log-probabilities of the chosen tokens only; 0 is expected");
    return 0;
}

int ask_read(const struct gallop_request *r, const struct sampling *user, struct sampling *merged,
             const struct executor_caps *caps, size_t most, size_t *width, struct err *e)
{
    bool has_width = sampling_given(user, SAMPLING_NUM_BEAMS);
    size_t n = r->n ? (size_t)r->n : 1, beams = has_width ? user->num_beams : n;
    int rc;

    *width = 0;
    if (has_width && (beams < 1 || beams > BEAM_MOST))
        return err_about(e, ERR_INPUT, "num_beams", "found %zu, expected 1 to %d", beams, BEAM_MOST);
    if (!sampling_is_search(user))
        return 0;
    if (beams > BEAM_MOST)
        return err_about(e, ERR_INPUT, "n", "found %zu, expected at most %d with beam search", n, BEAM_MOST);
    if (n > beams)
        return err_about(e, ERR_INPUT, "n", "found %zu, expected at most %zu, the number of beams", n, beams);
    if (beams > most)
        return err_about(
            e, ERR_INPUT, has_width ? "num_beams" : "n",
            "found %zu beams, expected at most max_num_seqs, %zu, because all beams are computed together",
            beams, most);
    if (!caps->chunks)
        return err_about(
            e, ERR_UNSUPPORTED, "use_beam_search",
            "this executor computes a prompt as a whole and cannot continue it with several beams");
    if ((rc = check_fields(r, user, e)) != 0)
        return rc;
    merged->do_sample = false;
    merged->logprobs = 0;
    merged->n_logprob_ids = 0;
    merged->thinking_token_budget = SIZE_MAX;
    *width = beams;
    return 0;
}

int ask_fits(const struct executor_caps *caps, size_t n_prompt, size_t n_new, size_t width, struct err *e)
{
    /* A cache that shares no blocks gives each sequence a region of whole tiles. */
    size_t block = caps->shares ? caps->block : KERN_TILE, most = caps->pool_rows, end = n_prompt + n_new - 1,
           shared = caps->shares ? (n_prompt - 1) / block * block : 0,
           own = (end - shared + block - 1) / block * block;

    if (most == 0 || (shared <= most && own <= (most - shared) / width))
        return 0;
    return err_about(
        e, ERR_INPUT, "max_new_tokens",
        "%zu beams of %zu tokens behind a prompt of %zu need %zu rows of the KV cache, which has %zu: "
        "fewer beams or tokens are expected",
        width, n_new, n_prompt, shared + width * own, most);
}
