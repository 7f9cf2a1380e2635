/* fuzz_guesses.c - a speculative configuration, and behind a zero byte tokens, in which the configuration's lookup
 * guesses after each token. A configuration that is accepted keeps its ranges, and guesses are tokens of the text.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "engine/guess/config.h"
#include "engine/guess/lookup.h"
#include "engine/guess/suffix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_TOKENS = 600 };

static void check_config(const struct guess_config *c)
{
    ASSERT(c->n_methods > 0 && c->n_methods <= GUESS_SOURCES && c->most <= GUESS_MOST, "%zu", c->n_methods);
    ASSERT(c->lookup_min >= 1 && c->lookup_min <= c->lookup_max && c->max_tree_depth >= 1, "%zu",
           c->lookup_min);
    for (size_t n = 0; n < 100; n++)
        ASSERT(guess_config_most(c, c->method[0], n) <= GUESS_MOST, "%zu", n);
}

static void guess(const struct guess_config *c, const uint8_t *data, size_t n)
{
    const struct match_rule rule = {.min_length = c->lookup_min,
                                    .n_most = GUESS_MOST,
                                    .factor = c->max_spec_factor,
                                    .repeats = c->adaptive,
                                    .min_share = c->min_token_prob};
    struct guess_lookup *l = guess_lookup_new(NULL, n, c->lookup_max, NULL, 0);
    int32_t token[MOST_TOKENS], out[GUESS_MOST];
    struct history h;
    struct err e = {0};

    ASSERT(l && history_open(&h, HISTORY_MIN_BYTES, 8, 1, &e) == 0, "%s", e.msg);
    for (size_t i = 0; i < n; i++) {
        size_t n_own, n_suffix;

        token[i] = data[i] % 8;
        match_add(&l->own, token, i + 1);
        history_write(&h, &l->writer, token, i + 1, i + 1 == n || data[i] == 255);
        n_own = match_guess(&l->own, token, i + 1, &rule, out, NULL);
        for (size_t k = 0; k < n_own; k++)
            ASSERT(out[k] >= 0 && out[k] < 8, "%d", out[k]);
        n_suffix = suffix_guess(&l->own, &h, &l->writer, token, i + 1, &rule, out, NULL);
        for (size_t k = 0; k < n_suffix; k++)
            ASSERT(out[k] >= 0 && out[k] < 8, "%d", out[k]);
        ASSERT(n_own <= GUESS_MOST && n_suffix <= GUESS_MOST, "%zu %zu", n_own, n_suffix);
    }
    history_close(&h);
    guess_lookup_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    size_t n = end ? (size_t)(end - data) : size, n_tokens = end ? size - n - 1 : 0;
    char *text = malloc(n + 1);
    struct guess_config c;
    struct err e = {0};
    struct arena a;

    if (!text)
        return 0;
    memcpy(text, data, n);
    text[n] = 0;
    arena_init(&a, MEM_ENGINE);
    if (guess_config_read(&c, text, &a, &e) == 0) {
        check_config(&c);
        guess(&c, data + n + 1, n_tokens < MOST_TOKENS ? n_tokens : MOST_TOKENS);
    } else {
        ASSERT(e.msg[0], "an error without a sentence");
    }
    arena_fini(&a);
    free(text);
    return 0;
}
