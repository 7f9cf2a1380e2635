/* runner.h - an engine with a thread of its own, for bindings to other languages.
 *
 * The thread opens the engine, computes its steps and collects the output of each answer. It never calls back into the
 * language (except for the progress of opening), so no step waits for an interpreter's lock. The caller waits
 * for a request in runner_wait(), or watches the file descriptor of a channel in its own event loop, and fetches
 * the collected output with runner_take().
 *
 * All functions may be called from any thread, but only one thread at a time may take the output of one request, or
 * the requests of one channel. A function that makes an object writes it to a place of the caller's, so that a language
 * can own the place before the object exists. A process that was forked must not use the runners of its parent. */
#ifndef GALLOP_PYTHON_RUNNER_H
#define GALLOP_PYTHON_RUNNER_H

#include <stddef.h>
#include <stdint.h>

#include "gallop.h"

/* An engine and its thread. */
struct runner;

/* A submitted request. */
struct runner_request;

/* The requests of one event loop, with a file descriptor that is readable while one of them has news. */
struct runner_channel;

/* Starts the thread, which opens an engine with O. The strings of O must stay valid until runner_opened() returns
 * another value than 0. SHARE is NULL, or a runner whose compute threads the engine uses; such engines take turns.
 * *R stays NULL if the thread could not be started. */
void runner_new(const struct gallop_options *o, struct runner *share, struct runner **r);

/* Waits up to SECONDS for the end of opening. Returns 0 if the engine is still being opened, 1 if it is open, and -1
 * if opening failed; then *CODE is a gallop_code, and the sentence is written to ERR [GALLOP_ERR_SIZE]. */
int runner_opened(struct runner *r, double seconds, int *code, char *err);

/* Ends all requests as cancelled, stops the thread after its current step, and closes the engine. Every function may
 * still be called. A second call waits for the end of the first. */
void runner_close(struct runner *r);

/* Closes and releases R. Its requests and channels may still be used. NULL is allowed. */
void runner_free(struct runner *r);

/* Writes the engine for functions that may be called from any thread to *ENGINE, or NULL if R is closing. Closing
 * waits for runner_leave(), which sets *ENGINE to NULL, and does nothing if it is NULL already. */
void runner_enter(struct runner *r, struct gallop **engine);
void runner_leave(struct runner *r, struct gallop **engine);

/* ---- requests ---- */

/* Submits REQUEST, whose member `user` is not used. STREAMS 1: every step that adds output is news; 0: only the end of
 * the last answer is. CHANNEL is NULL, or the channel that reports the request with the number KEY. Writes the request
 * to *OUT and returns 0; or leaves *OUT alone and returns a gallop_code, with the sentence in ERR [GALLOP_ERR_SIZE]. */
int runner_submit(struct runner *r, const struct gallop_request *request, int streams,
                  struct runner_channel *channel, uint64_t key, struct runner_request **out, char *err);

/* Waits up to SECONDS for news of Q since the last call. Returns 1 if there is news, else 0. */
int runner_wait(struct runner_request *q, double seconds);

struct runner_token {
    float logprob;   /* set if the request asked for log-probabilities */
    size_t rank;     /* of tokens of the prompt: the number of tokens at least as likely */
    size_t text_end; /* length of runner_output.text up to this token's text */
    size_t top_end;  /* number of entries of runner_output.top up to those of this token */
};

/* A part of an answer. Text after the last token's text_end was held back until the end of the answer. */
struct runner_output {
    int32_t *ids;                /* [n_tokens] */
    struct runner_token *tokens; /* [n_tokens] */
    size_t n_tokens;
    char *text, *special; /* [text_len] whole UTF-8 characters, and gallop_event.special */
    size_t text_len;
    struct gallop_logprob *top; /* [n_top] the likeliest tokens in place of each token */
    size_t n_top;
};

/* Moves the output that answer I (from 0) of Q has gained since the last call to *OUT, whose pointers are valid
 * until the next call for this answer. Returns the FINISHED event of the answer, which lives as long as Q, or
 * NULL if the answer is not finished. */
const struct gallop_event *runner_take(struct runner_request *q, unsigned i, struct runner_output *out);

/* Writes the tokens of the prompt with their log-probabilities to *OUT, after the first answer has a token. */
void runner_prompt(struct runner_request *q, struct runner_output *out);

/* Returns the pooled hidden state of a finished request, for gallop_embedding(). NULL: there is none. */
const float *runner_pooled(const struct runner_request *q);

/* Cancels a request after the current step. The request ends as any other. */
void runner_cancel(struct runner_request *q);

/* Releases a request, and cancels it if it is not finished. NULL is allowed. */
void runner_release(struct runner_request *q);

/* ---- channels ---- */

/* Opens a channel. *CHANNEL stays NULL if there is no memory or file descriptor. */
void runner_channel_new(struct runner *r, struct runner_channel **channel);
int runner_channel_fd(const struct runner_channel *channel);

/* Writes the keys of up to N requests with news to KEYS, and returns their number. Makes the file descriptor unreadable
 * if no request with news is left. */
size_t runner_channel_take(struct runner_channel *channel, uint64_t *keys, size_t n);

/* Closes the file descriptor. The channel and its requests can still be used: no news are reported. May be called twice. */
void runner_channel_close(struct runner_channel *channel);

/* Closes and releases the channel. Its requests can still be used. NULL is allowed. */
void runner_channel_free(struct runner_channel *channel);

/* For tests: makes the N-th allocation from now fail. */
void runner_fail_at(long n);

#endif
