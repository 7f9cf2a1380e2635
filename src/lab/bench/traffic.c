/* traffic.c - reads traces and generates requests. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/input.h"
#include "app/options.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/rng.h"
#include "lab/bench/traffic.h"

static const size_t longest = 1 << 24;        /* maximum number of tokens of a prompt or an answer */
static const double latest_s = 1000000000000; /* maximum absolute value of a time in a trace, in seconds */

void traffic_fini(struct traffic *t)
{
    mem_free(t->request);
    mem_free(t->hash);
    mem_free(t->answer);
    *t = (struct traffic){0};
}

static struct traffic_request *traffic_add(struct traffic *t)
{
    if (!mem_grow((void **)&t->request, &t->cap, t->n + 1, sizeof(*t->request), MEM_APP))
        return NULL;
    t->request[t->n] = (struct traffic_request){0};
    return &t->request[t->n++];
}

/* ---- CSV ---- */

/* The indexes of the columns of a CSV trace; -1: missing. */
struct columns {
    int at, prompt, output;
};

/* Splits the next field off *LINE: replaces its comma by a zero byte, advances *LINE, and returns the field;
 * NULL at the end of the line. */
static char *next_field(char **line)
{
    char *field = *line, *comma;

    if (!field)
        return NULL;
    comma = strchr(field, ',');
    if (comma)
        *comma = '\0';
    *line = comma ? comma + 1 : NULL;
    return field;
}

/* Finds the columns by the header LINE. Returns false if the columns of the prompt length and output length
 * are missing. */
static bool read_header(char *line, struct columns *c)
{
    char *field;

    *c = (struct columns){-1, -1, -1};
    for (int i = 0; (field = next_field(&line)) != NULL; i++) {
        if (strcmp(field, "TIMESTAMP") == 0 || strcmp(field, "arrived_at") == 0)
            c->at = i;
        else if (strcmp(field, "ContextTokens") == 0 || strcmp(field, "num_prefill_tokens") == 0)
            c->prompt = i;
        else if (strcmp(field, "GeneratedTokens") == 0 || strcmp(field, "num_decode_tokens") == 0)
            c->output = i;
    }
    return c->prompt >= 0 && c->output >= 0;
}

static bool read_number(const char *text, double *x)
{
    char *end;

    *x = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*x);
}

/* Reads seconds, or a date such as 2023-11-16 18:17:03.9799600. */
static bool read_time(const char *text, double *seconds)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
    double fraction = 0;

    if (!rest)
        return read_number(text, seconds);
    if (*rest == '.' && !read_number(rest, &fraction))
        return false;
    *seconds = (double)timegm(&tm) + fraction;
    return *rest == '\0' || *rest == '.';
}

static bool read_row(char *line, const struct columns *c, struct traffic_request *r)
{
    double prompt = -1, output = -1;
    char *field;
    int n = 0;

    for (; (field = next_field(&line)) != NULL; n++)
        if ((n == c->at && !read_time(field, &r->at_s)) || (n == c->prompt && !read_number(field, &prompt)) ||
            (n == c->output && !read_number(field, &output)))
            return false;
    if (n <= c->at ||
        !(prompt >= 1 && prompt <= (double)longest && output >= 0 && output <= (double)longest) ||
        floor(prompt) < prompt || floor(output) < output)
        return false;
    r->n_prompt = (size_t)prompt;
    r->n_output = (size_t)output;
    return true;
}

/* ---- JSON ---- */

/* Returns true if LIST is NULL or an array of integers. */
static bool are_hashes(const json_t *list)
{
    const json_t *hash;
    size_t i;

    json_array_foreach(list, i, hash) if (!json_is_integer(hash)) return false;
    return !list || json_is_array(list);
}

static bool add_hashes(struct traffic *t, struct traffic_request *r, const json_t *list)
{
    r->first_hash = t->n_hashes;
    r->n_hashes = json_array_size(list);
    if (!mem_grow((void **)&t->hash, &t->cap_hashes, t->n_hashes + r->n_hashes, sizeof(*t->hash), MEM_APP))
        return false;
    for (size_t i = 0; i < r->n_hashes; i++)
        t->hash[t->n_hashes++] = (uint64_t)json_integer_value(json_array_get(list, i));
    return true;
}

static int read_object(const char *line, struct traffic *t, struct traffic_request *r)
{
    json_int_t prompt, output;
    json_t *o, *at, *hashes;
    int rc = json_pull_load(&o, line, strlen(line), "", NULL);

    if (rc)
        return rc;
    at = json_object_get(o, "timestamp");
    hashes = json_object_get(o, "hash_ids");
    prompt = json_integer_value(json_object_get(o, "input_length"));
    output = json_integer_value(json_object_get(o, "output_length"));
    r->at_s = json_number_value(at) / 1000;
    r->n_prompt = (size_t)prompt;
    r->n_output = (size_t)output;
    if (prompt < 1 || (size_t)prompt > longest || output < 0 || (size_t)output > longest ||
        !json_is_integer(json_object_get(o, "output_length")) || (at && !json_is_number(at)) ||
        !are_hashes(hashes))
        rc = ERR_INPUT;
    else if (!add_hashes(t, r, hashes))
        rc = ERR_NOMEM;
    json_decref(o);
    return rc;
}

/* ---- files ---- */

/* Returns the line at *AT, whose line end is replaced by a zero byte, and moves *AT to the next line (NULL
 * after the last line). */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');

    *at = end && end[1] ? end + 1 : NULL;
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

static int read_line(struct traffic *t, char *line, const struct columns *c, const char *path, size_t number,
                     struct err *e)
{
    struct traffic_request *r;
    int rc;

    if (line[0] != '{' && c->prompt < 0)
        return err_set(
            e, ERR_INPUT,
            "%s: line %zu is neither a header with the columns of a trace (TIMESTAMP, ContextTokens, "
            "GeneratedTokens or arrived_at, num_prefill_tokens, num_decode_tokens) nor a JSON object",
            path, number);
    if (!(r = traffic_add(t)))
        return err_nomem(e, "a trace");
    rc = line[0] == '{' ? read_object(line, t, r) : read_row(line, c, r) ? 0 : ERR_INPUT;
    if (rc == 0 && fabs(r->at_s) > latest_s)
        rc = ERR_INPUT;
    if (rc == ERR_NOMEM)
        return err_nomem(e, "a trace");
    return rc == 0
               ? 0
               : err_set(e, ERR_INPUT,
                         "%s: line %zu is not a valid request: expected are a prompt of 1 to %zu tokens, an "
                         "answer of 0 to %zu tokens, a numeric time, and hashes that are integers",
                         path, number, longest, longest);
}

static int read_lines(struct traffic *t, char *text, const char *path, size_t most, struct err *e)
{
    struct columns c = {-1, -1, -1};
    int rc = 0;

    for (size_t number = 1; rc == 0 && text && (most == 0 || t->n < most); number++) {
        char *line = next_line(&text);

        if (line[0] && !(number == 1 && line[0] != '{' && read_header(line, &c)))
            rc = read_line(t, line, &c, path, number, e);
    }
    return rc;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct traffic_request *)a)->at_s, y = ((const struct traffic_request *)b)->at_s;

    return (x > y) - (x < y);
}

int traffic_parse(struct traffic *t, char *text, size_t n, const char *path, size_t most, double speed,
                  struct err *e)
{
    double first;
    int rc;

    *t = (struct traffic){0};
    if (strlen(text) < n)
        return err_set(e, ERR_INPUT, "%s: byte %zu is NUL; a text file is expected", path, strlen(text));
    if ((rc = read_lines(t, text, path, most, e)) == 0 && t->n == 0)
        rc = err_set(e, ERR_INPUT, "%s: the trace contains no request", path);
    if (rc) {
        traffic_fini(t);
        return rc;
    }
    qsort(t->request, t->n, sizeof(*t->request), by_time);
    first = t->request[0].at_s;
    for (size_t i = 0; i < t->n; i++)
        t->request[i].at_s = (t->request[i].at_s - first) / speed;
    t->n_first = t->n;
    return 0;
}

static int read_trace(struct traffic *t, const char *path, size_t most, double speed, struct err *e)
{
    struct buf text;
    int rc;

    buf_init(&text, MEM_APP);
    if ((rc = input_file(path, &text, e)) == 0)
        rc = traffic_parse(t, text.data, text.len, path, most, speed, e);
    buf_fini(&text);
    return rc;
}

/* ---- generated requests ---- */

/* Draws a number of the gamma distribution with SHAPE and mean 1 (Marsaglia and Tsang, 2000). Uses the random
 * numbers of SEED from number *INDEX on and advances *INDEX. */
static double gamma_number(uint64_t seed, uint64_t *index, double shape)
{
    double d = (shape < 1 ? shape + 1 : shape) - 1. / 3, c = 1 / sqrt(9 * d), boost = 1;

    if (shape < 1)
        boost = pow(1 - rng_uniform(seed, (*index)++), 1 / shape);
    for (;;) {
        double x = rng_normal(seed, *index), v = 1 + c * x, u = 1 - rng_uniform(seed, *index);

        ++*index;
        v = v * v * v;
        if (v > 0 && log(u) < x * x / 2 + d - d * v + d * log(v))
            return d * v * boost / shape;
    }
}

/* Maps U from [0, 1) to an integer from range[0] to range[1]. */
static size_t between(const size_t range[2], double u)
{
    return range[0] + (size_t)(u * (double)(range[1] - range[0] + 1));
}

/* Generates the first turns, in order of arrival. */
static bool make_first(struct traffic *t, const struct traffic_plan *plan)
{
    uint64_t index = 0;
    double at = 0;

    for (size_t i = 0; i < plan->n; i++) {
        struct traffic_request *r = traffic_add(t);

        if (!r)
            return false;
        r->at_s = at;
        r->n_prompt = plan->shared + between(plan->prompt, rng_uniform(plan->seed + 1, 3 * i));
        r->n_output = between(plan->output, rng_uniform(plan->seed + 1, 3 * i + 1));
        r->n_shared = plan->shared;
        r->group =
            plan->groups ? (uint32_t)(rng_uniform(plan->seed + 1, 3 * i + 2) * (double)plan->groups) : 0;
        if (plan->rate > 0)
            at += gamma_number(plan->seed, &index, plan->burstiness) / plan->rate;
    }
    t->n_first = t->n;
    return true;
}

/* Appends the later turns: first turn 1 of all conversations, then turn 2 of all, and so on. */
static bool make_further(struct traffic *t, const struct traffic_plan *plan)
{
    size_t n_answer = 0;

    for (size_t i = plan->n; i < plan->n * plan->turns; i++) {
        struct traffic_request *r = traffic_add(t), *before;

        if (!r)
            return false;
        before = &t->request[i - plan->n];
        before->next = i;
        before->first_answer = n_answer;
        n_answer += before->n_output;
        r->turn = before->turn + 1;
        r->before = i - plan->n;
        r->n_prompt =
            before->n_prompt + before->n_output + between(plan->prompt, rng_uniform(plan->seed + 1, 3 * i));
        r->n_output = between(plan->output, rng_uniform(plan->seed + 1, 3 * i + 1));
    }
    t->answer = mem_zalloc(n_answer, sizeof(*t->answer), MEM_APP);
    return t->answer;
}

int traffic_make(struct traffic *t, const struct traffic_plan *plan, struct err *e)
{
    *t = (struct traffic){0};
    if (make_first(t, plan) && make_further(t, plan))
        return 0;
    traffic_fini(t);
    return err_nomem(e, "requests");
}

size_t traffic_longest(const struct traffic *t)
{
    size_t longest_request = 1;

    for (size_t i = 0; i < t->n; i++) {
        size_t n = t->request[i].n_prompt + t->request[i].n_output;

        longest_request = n > longest_request ? n : longest_request;
    }
    return longest_request;
}

/* ---- tokens ---- */

/* Writes N random token ids below N_VOCAB to IDS. */
static void fill(uint64_t seed, uint64_t stream, size_t n, size_t n_vocab, int32_t *ids)
{
    uint32_t r[4];

    for (size_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            rng_block(seed, stream, i / 4, r);
        ids[i] = (int32_t)((uint64_t)r[i % 4] * n_vocab >> 32);
    }
}

void traffic_answered(struct traffic *t, size_t i, size_t k, int32_t token)
{
    if (t->request[i].next && k < t->request[i].n_output)
        t->answer[t->request[i].first_answer + k] = token;
}

void traffic_tokens(const struct traffic *t, size_t i, size_t n_vocab, int32_t *ids)
{
    const struct traffic_request *r = &t->request[i];
    size_t said = 0;

    if (r->turn) {
        const struct traffic_request *before = &t->request[r->before];

        said = before->n_prompt + before->n_output;
        traffic_tokens(t, r->before, n_vocab, ids);
        memcpy(ids + before->n_prompt, t->answer + before->first_answer, before->n_output * sizeof(*ids));
    }
    fill(1, i, r->n_prompt - said, n_vocab, ids + said);
    fill(2, r->group, r->n_shared, n_vocab, ids);
    for (size_t k = 0; k < r->n_hashes && k * TRAFFIC_HASH_TOKENS < r->n_prompt; k++) {
        size_t at = k * TRAFFIC_HASH_TOKENS, left = r->n_prompt - at;

        fill(3, t->hash[r->first_hash + k], left < TRAFFIC_HASH_TOKENS ? left : TRAFFIC_HASH_TOKENS, n_vocab,
             ids + at);
    }
}

/* ---- options ---- */

#define INTO(member)       OPT_INTO(struct traffic_options, member)
#define GIVEN_INTO(member) OPT_SOURCE(struct traffic_options, given.member)

const struct opt_row traffic_options[] = {
    {"trace", 0, PARAM_TEXT, "[FILE]", LOAD, .bare = true,
     .help =
         "read the requests from a trace (CSV as of Azure or Vidur, or JSON lines as of Mooncake); in bench, --trace "
         "without a file prints the time of each operator instead",
     .otherwise = "generated requests", INTO(trace)},
    {"num-prompts", 0, PARAM_INT, "N", LOAD, .help = "number of requests, or of generated conversations",
     .otherwise = "all of a trace; 100 generated ones", .values = "[1,100000000]", INTO(plan.n),
     GIVEN_INTO(n)},
    {"speed", 0, PARAM_REAL, "X", LOAD, .help = "divide the times of arrival in a trace by X",
     .fallback = "1", .values = "[0.000001,1000000]", INTO(speed), GIVEN_INTO(speed)},
    {"request-rate", 0, PARAM_REAL, "R", LOAD, .help = "mean number of generated requests per second",
     .otherwise = "all arrive at once", .values = "[0.000001,1000000000]", INTO(plan.rate), GIVEN_INTO(rate)},
    {"burstiness", 0, PARAM_REAL, "K", LOAD,
     .help =
         "how requests arrive, 1 is Poisson, lower is burstier: the shape of the gamma distribution of the times "
         "between arrivals, whose mean follows from --request-rate; above 1 requests arrive more evenly",
     .fallback = "1", .values = "(0,1000000]", INTO(plan.burstiness), GIVEN_INTO(burstiness)},
    {"input-len", 0, PARAM_TEXT, "N[:M]", LOAD, .help = "length of generated prompts in tokens, N or N to M",
     .fallback = "512", INTO(prompt), GIVEN_INTO(prompt)},
    {"output-len", 0, PARAM_TEXT, "N[:M]", LOAD, .help = "length of generated answers in tokens, N or N to M",
     .fallback = "128", INTO(output), GIVEN_INTO(output)},
    {"prefix-len", 0, PARAM_INT, "N", LOAD,
     .help =
         "number of first tokens that prompts of a group share; like a system message, they precede --input-len tokens",
     .fallback = "0", .values = "[0,16777216]", INTO(plan.shared), GIVEN_INTO(shared)},
    {"prefix-groups", 0, PARAM_INT, "N", LOAD,
     .help = "number of groups of prompts; each has its own --prefix-len tokens", .fallback = "1",
     .values = "[1,1000000]", INTO(plan.groups), GIVEN_INTO(groups)},
    {"turns", 0, PARAM_INT, "N", LOAD,
     .help =
         "number of turns of each generated conversation; a turn is sent when the previous turn is answered, and its "
         "prompt is the conversation so far and --input-len more tokens",
     .fallback = "1", .values = "[1,1000]", INTO(plan.turns), GIVEN_INTO(turns)},
    {"seed", 0, PARAM_BITS, "N", LOAD, .help = "seed of the generated requests", .fallback = "0",
     INTO(plan.seed), GIVEN_INTO(seed)},
    {0}};

/* Reads the value TEXT of the option FLAG, "512" or "64:512", as minimum and maximum. */
static int read_range(const char *text, const char *flag, size_t least, size_t range[2], struct err *e)
{
    char *end;

    range[0] = range[1] = strtoul(text, &end, 10);
    if (end != text && *end == ':')
        range[1] = strtoul(end + 1, &end, 10);
    if (end == text || *end || range[0] < least || range[1] < range[0] || range[1] > longest)
        return err_set(e, ERR_USAGE, "--%s: found '%s', expected N or N:M with %zu <= N <= M <= %zu", flag,
                       text, least, longest);
    return 0;
}

void traffic_options_init(struct traffic_options *o)
{
    *o = (struct traffic_options){.plan.n = 100};
}

const char *traffic_trace_file(const struct traffic_options *o)
{
    return o->trace && *o->trace ? o->trace : NULL;
}

/* Warns of options for generated requests if there is a trace, and of --speed if there is none. */
static void warn_of_idle(const struct traffic_options *o)
{
    const struct {
        bool given;
        const char *flag;
    } made_up[] = {{o->given.rate, "request-rate"}, {o->given.burstiness, "burstiness"},
                   {o->given.prompt, "input-len"},  {o->given.output, "output-len"},
                   {o->given.shared, "prefix-len"}, {o->given.groups, "prefix-groups"},
                   {o->given.turns, "turns"},       {o->given.seed, "seed"}};

    if (!traffic_trace_file(o) && o->given.speed)
        log_warn("--speed changes nothing without --trace");
    for (size_t i = 0; i < sizeof(made_up) / sizeof(made_up[0]); i++)
        if (traffic_trace_file(o) && made_up[i].given)
            log_warn("--%s changes nothing with --trace", made_up[i].flag);
}

int traffic_of_options(struct traffic *t, const struct traffic_options *o, struct err *e)
{
    struct traffic_plan plan = o->plan;
    int rc;

    *t = (struct traffic){0};
    if ((rc = read_range(o->prompt, "input-len", 1, plan.prompt, e)) != 0 ||
        (rc = read_range(o->output, "output-len", 0, plan.output, e)) != 0)
        return rc;
    warn_of_idle(o);
    if (traffic_trace_file(o))
        return read_trace(t, o->trace, o->given.n ? plan.n : 0, o->speed, e);
    return traffic_make(t, &plan, e);
}
