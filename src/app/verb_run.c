/* verb_run.c - `gallop run`: generates from one prompt, or from many at once.
 *
 * Only a bounded number of requests is read ahead of the engine (batch/requests.h). Each result is printed as
 * soon as it is complete, with --json in the order of input. A refused or failed request is reported on
 * stderr (and in its JSON line), and the others continue. SIGINT and SIGTERM cancel running requests;
 * finished results are printed completely. */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/answering.h"
#include "app/batch/own.h"
#include "app/batch/requests.h"
#include "app/batch/resume.h"
#include "app/batch/served.h"
#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/save.h"
#include "app/structured_options.h"
#include "app/verb.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"

enum { SEQS = 32, AHEAD = 2 * SEQS, PATIENCE_MS = 3000 };

struct run_options {
    struct load load;
    struct options_sampling sampling;
    struct options_output out;
    struct structured_options structured;
    struct answering_options answering;
    const char *prompt, *suffix, *system, *chat_template, *file, *ids, *batch, *output;
    bool chat, plain_user_text, resume, no_special, keep_special;
};

#define INTO(member) OPT_INTO(struct run_options, member)

static const struct opt_row rows[] = {
    {"prompt", 'p', PARAM_TEXT, "TEXT", EVERYDAY, .help = "the prompt; it may also be given without -p",
     INTO(prompt)},
    {"chat", 0, PARAM_FLAG, NULL, EVERYDAY, .help = "wrap the prompt in the model's chat template",
     INTO(chat)},
    OPTION_USER_TEXT(EVERYDAY, INTO(plain_user_text)),
    {"system", 0, PARAM_TEXT, "TEXT", EVERYDAY, .help = "system message before the prompt; implies --chat",
     INTO(system)},
    {"file", 0, PARAM_TEXT, "F", EVERYDAY, .help = "file to read the prompt from (-: standard input)",
     INTO(file)},
    {"ids", 0, PARAM_TEXT, "1,2,3", EVERYDAY,
     .help = "the prompt as token ids, separated by commas, instead of text", INTO(ids)},
    {"batch", 0, PARAM_TEXT, "F.jsonl", EVERYDAY,
     .help = "file with many requests, a JSON object on each line (-: standard input): {\"prompt\":...}, "
             "{\"ids\":[...]} or {\"messages\":[...]} with sampling fields, or lines of OpenAI's batch files",
     INTO(batch)},
    {"output", 'o', PARAM_TEXT, "F", EVERYDAY,
     .help = "file to write the results to; it gets its name when it is complete", INTO(output)},
    {"resume", 0, PARAM_FLAG, NULL, EVERYDAY,
     .help =
         "continue an interrupted batch (with --batch, --json and -o): requests whose results are already in the "
         "output file are skipped, and the other results are appended",
     .manual =
         "The file has its name from the beginning and is written line by line. After a crash the same command "
         "continues the batch. Requests whose result is an error or an incomplete last line are computed again. "
         "Results are matched by `index`, or by `custom_id` in OpenAI's format.",
     INTO(resume)},
    {"chat-template", 0, PARAM_TEXT, "F.jinja", PROMPT,
     .help = "file with a chat template that replaces the model's; implies --chat", .aliases = "template",
     INTO(chat_template)},
    {"suffix", 0, PARAM_TEXT, "TEXT", PROMPT,
     .help = "fill the gap between the prompt and this text; needs a model that is trained for it",
     INTO(suffix)},
    {"no-special", 0, PARAM_FLAG, NULL, PROMPT,
     .help = "do not add BOS or other special tokens to the prompt", INTO(no_special)},
    {"keep-special", 0, PARAM_FLAG, NULL, OUTPUT, .help = "keep special tokens in the text of the answer",
     INTO(keep_special)},
    {0}};

/* The progress bar of a batch. */
struct progress {
    struct print_bar bar;
    size_t n_done, n_all; /* finished and all requests; n_all 0: their number is unknown, no bar */
    double shown_s;       /* time at which the bar was last drawn */
};

/* A run of the verb. */
struct run_prompts {
    struct requests in;
    struct arena arena; /* holds the lists of the sampling options */
    struct checkpoint model;
    struct gallop *engine; /* owned */
    bool json;
    bool stream;             /* one request, whose text is printed as it is generated */
    size_t n_open, n_failed; /* numbers of running answers and of failed requests */
    int signal;              /* number of the signal that ended the work; 0: none */
    struct resume resume;
    struct served served;
    struct progress progress;
    struct print_bar prompt_bar; /* if PROGRESS is not shown: processed tokens of the prompts */
    size_t n_prompt;             /* tokens of the submitted prompts */
};

/* ---- signals ---- */

static struct {
    volatile sig_atomic_t signal; /* number of the first signal; 0: none */
    struct gallop *volatile engine;
    struct sigaction before_int, before_term;
} stop;

/* Cancels all requests and restores the old handlers, so that a second signal ends the program. */
static void on_signal(int sig)
{
    int saved = errno;

    stop.signal = sig;
    if (stop.engine)
        gallop_cancel(stop.engine, 0);
    sigaction(SIGINT, &stop.before_int, NULL);
    sigaction(SIGTERM, &stop.before_term, NULL);
    errno = saved;
}

static void catch_signals(struct gallop *engine)
{
    struct sigaction sa = {.sa_handler = on_signal};

    stop.signal = 0;
    stop.engine = engine;
    sigaction(SIGINT, NULL, &stop.before_int);
    sigaction(SIGTERM, NULL, &stop.before_term);
    if (stop.before_int.sa_handler != SIG_IGN) /* nohup and background jobs of scripts ignore signals */
        sigaction(SIGINT, &sa, NULL);
    if (stop.before_term.sa_handler != SIG_IGN)
        sigaction(SIGTERM, &sa, NULL);
}

static void release_signals(void)
{
    sigaction(SIGINT, &stop.before_int, NULL);
    sigaction(SIGTERM, &stop.before_term, NULL);
    stop.engine = NULL;
}

/* ---- running ---- */

static void submit(struct run_prompts *r, struct batch_request *q)
{
    r->n_prompt += served_submit(&r->served, q, r->engine);
    r->n_open += q->n_open;
}

static void take_event(struct run_prompts *r, const struct gallop_event *ev)
{
    served_take(ev);
    r->n_open -= ev->type == GALLOP_FINISHED;
    if (ev->type == GALLOP_TEXT && r->stream && !r->json)
        print_foreign(ev->text, ev->text_len);
}

/* ---- printing ---- */

static void print_served(const struct batch_request *q)
{
    struct buf line = {.tag = MEM_APP};

    served_put_line(q, &line);
    if (line.oom)
        print_json(NULL); /* reports that a line of output is missing */
    else
        print_bytes(line.data, line.len);
    buf_fini(&line);
}

/* Prints remarks about answer I to Q on stderr. */
static void say(const struct run_prompts *r, const struct batch_request *q, size_t i)
{
    const struct gallop_event *end = &q->end[i];
    char which[300] = "", number[40] = "";

    if (q->n > 1)
        snprintf(number, sizeof(number), ", answer %zu", i);
    if (q->where[0])
        snprintf(which, sizeof(which), "%s%s: ", q->where, number);
    if (end->context_full)
        log_warn("%sthe context of %zu tokens is full after %zu generated tokens", which,
                 engine_info(r->engine)->model->max_model_len, end->n_output);
    else if (q->default_limit && end->finish == GALLOP_FINISH_LENGTH)
        log_warn("%sthe answer was cut after %zu generated tokens; -n sets another limit", which,
                 end->n_output);
}

/* Reports the seed that the program chose; JSON lines of a batch contain it. */
static void say_seed(const struct run_prompts *r, const struct batch_request *q)
{
    if (r->stream)
        print_remark("the seed is %llu; --seed %llu gives the same answer again", (unsigned long long)q->seed,
                     (unsigned long long)q->seed);
    else if (!r->json)
        print_remark("%s: the seed is %llu", q->where, (unsigned long long)q->seed);
}

/* Prints the texts of Q after lines with its index. The text of a prompt of the command line was printed while it was
 * generated, unless the model has no tokenizer. */
static void print_texts(const struct run_prompts *r, const struct batch_request *q)
{
    const struct answer *a = &q->q.answer;
    bool is_streamed = r->stream && engine_info(r->engine)->tok;
    size_t n = is_streamed || q->fault.code ? 0 : served_n_texts(q);
    struct buf text = {.tag = MEM_APP};

    if (is_streamed && a->n_choices && a->choice[0].said.text.len)
        print_text("\n");
    for (size_t i = 0; i < n; i++) {
        if (!r->stream)
            print_fmt(n > 1 ? "--- %zu.%zu\n" : "--- %zu\n", q->index, i);
        buf_clear(&text);
        served_put_text(q, i, &text);
        print_foreign(text.data ? text.data : "", text.len);
        print_text("\n");
    }
    buf_fini(&text);
}

/* Prints the result of Q. A cancelled request has no result: only the line of its streamed text is ended. */
static void run_print(struct run_prompts *r, const struct batch_request *q)
{
    bool cancelled = !q->fault.code && q->cancelled;
    char text[sizeof(q->fault)];

    if (cancelled && !r->stream)
        return;
    if (q->fault.code) {
        options_error_text(verb_run.options, &q->fault, text, sizeof(text));
        log_error("%s", text);
    }
    r->n_failed += q->fault.code != 0;
    if (!cancelled && !q->fault.code && q->random_seed)
        say_seed(r, q);
    for (size_t i = 0; q->is_own && !cancelled && !q->fault.code && i < q->n; i++)
        say(r, q, i);
    if (!r->json)
        print_texts(r, q);
    else if (!cancelled)
        (q->is_own ? own_print : print_served)(q);
}

/* Prints and frees finished requests; JSON is printed in input order. */
static void print_ready(struct run_prompts *r)
{
    struct batch_request **at = &r->in.first, *before = NULL;

    while (*at) {
        struct batch_request *q = *at;

        if (q->done) {
            print_bar_end(&r->progress.bar);
            r->progress.n_done++;
            run_print(r, q);
            *at = q->next;
            r->in.last = r->in.last == q ? before : r->in.last;
            requests_free(q);
        } else if (r->json) {
            return;
        } else {
            before = q;
            at = &q->next;
        }
    }
}

/* Submits a request for each available line of the batch. If no request is running, waits for a line. */
static int supply(struct run_prompts *r, struct err *e)
{
    bool got = true;
    int rc = 0;

    while (r->in.lines && got && rc == 0 && r->n_open < AHEAD && !stop.signal) {
        struct batch_request *before = r->in.last;

        if ((rc = requests_read_line(&r->in, r->n_open == 0, &got, e)) == 0 && got)
            submit(r, r->in.last);
        if (r->in.last != before && r->in.last->done) /* the request was refused; work() reports it */
            break;
    }
    return rc;
}

/* Shows the progress of a batch from a file, ten times a second. */
static void show_progress(struct progress *p)
{
    double now = p->n_all ? clock_seconds() : 0;

    if (p->n_all == 0 || now - p->shown_s < 0.1)
        return;
    p->shown_s = now;
    print_progress(&p->bar, p->n_done, p->n_all);
}

/* Runs until all requests are answered. After an error, the caller closes the engine, which drops running
 * requests. */
static int work(struct run_prompts *r, struct err *e)
{
    struct gallop_event ev;
    int rc = 0;

    for (bool more = true; more || (r->in.lines && !stop.signal);) {
        if (stop.signal) /* cancel again, for requests that were submitted after the signal */
            gallop_cancel(r->engine, 0);
        print_ready(r);
        if ((rc = print_flush(e)) != 0 ||
            (rc = supply(r, e)) != 0) /* finished results are flushed before supply() waits */
            return rc;
        more = r->progress.n_all ? gallop_next(r->engine, &ev) != 0
                                 : print_next_event(&r->prompt_bar, r->engine, 0, r->n_prompt, &ev);
        if (more)
            take_event(r, &ev);
        show_progress(&r->progress);
    }
    print_bar_end(&r->progress.bar);
    print_ready(r);
    return print_flush(e);
}

/* Answers all requests. Returns 0, an error code, or -1 if a signal came or requests failed; both were
 * reported already. */
static int answer(struct run_prompts *r, struct err *e)
{
    int rc;

    catch_signals(r->engine);
    for (struct batch_request *q = r->in.first; q; q = q->next)
        submit(r, q);
    rc = work(r, e);
    release_signals();
    r->signal = (int)stop.signal;
    if (rc == 0 && r->in.n == 0 && !r->signal)
        return err_set(e, ERR_INPUT, "--batch: the file holds no request");
    return rc ? rc : r->n_failed || r->signal ? -1 : 0;
}

/* ---- the command line ---- */

static bool wants_chat(const struct run_options *o)
{
    return o->chat || o->system || o->chat_template;
}

/* True if text is piped into the program, as in `echo hi | gallop run`. */
static bool is_piped(void)
{
    struct stat s;

    return fstat(STDIN_FILENO, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISREG(s.st_mode) || S_ISSOCK(s.st_mode));
}

/* Checks that prompts have one source, and sets o->prompt if the prompt is an argument. */
static int check_sources(struct run_options *o, const struct opt_values *v, struct err *e)
{
    bool ids = o->ids, file = o->file, batch = o->batch;
    size_t n_prompts = v->n_args + (o->prompt != NULL);

    if (n_prompts > 1)
        return err_set(e, ERR_USAGE, "one prompt is expected, %zu were given (quote it)", n_prompts);
    if (ids + file + batch + (n_prompts > 0) > 1)
        return err_set(e, ERR_USAGE, "one of a prompt, --file, --ids and --batch is expected, found %s%s%s%s",
                       n_prompts ? "a prompt " : "", file ? "--file " : "", ids ? "--ids " : "",
                       batch ? "--batch" : "");
    if (!ids && !file && !batch && !n_prompts && !is_piped())
        return err_set(e, ERR_USAGE, "a prompt is needed: text, --file, --ids or --batch");
    if (v->n_args)
        o->prompt = v->args[0];
    return 0;
}

static int check_resume(const struct run_options *o, struct err *e)
{
    if (!o->resume)
        return 0;
    if (!o->batch || !o->out.json || !o->output)
        return err_set(e, ERR_USAGE, "--resume is for --batch with --json and -o");
    if (o->out.force)
        return err_set(e, ERR_USAGE,
                       "--resume keeps the results in %s and --force replaces them, expected one of the two",
                       o->output);
    return 0;
}

/* Refuses options that contradict each other, and warns of options without an effect. */
static int check_combination(struct run_options *o, const struct opt_values *v, struct err *e)
{
    int rc = check_sources(o, v, e);

    if (rc)
        return rc;
    if (o->ids && wants_chat(o))
        return err_set(e, ERR_USAGE,
                       "--chat, --system and --chat-template need text, but --ids gives token ids");
    if (o->suffix && (o->ids || o->batch || wants_chat(o)))
        return err_set(e, ERR_USAGE, "--suffix needs a prompt that is text, but %s",
                       o->ids     ? "--ids gives token ids"
                       : o->batch ? "lines of --batch have a `suffix` of their own"
                                  : "--chat, --system and --chat-template make a conversation of it");
    if (o->no_special && (o->ids || wants_chat(o)))
        log_warn("--no-special changes nothing: %s",
                 o->ids ? "nothing is added to --ids" : "the chat template writes the special tokens");
    if (sampling_given(&o->sampling.s, SAMPLING_LOGPROBS) && !o->out.json)
        log_warn("--logprobs changes nothing without --json");
    if (o->out.force && !o->output)
        log_warn("--force changes nothing without --output");
    if (!o->batch && answering_is_given(&o->answering))
        log_warn(
            "--served-model-name, --default-chat-template-kwargs, --tool-call-parser, --reasoning-parser, "
            "--reasoning-field and --pooling change nothing without --batch");
    return check_resume(o, e);
}

/* Tells the user if a pipe stays open without data. */
static void say_waiting(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

    if (poll(&p, 1, PATIENCE_MS) == 0)
        print_remark(
            "waiting for the end of standard input, which is put before the prompt; use `< /dev/null` if there "
            "is none");
}

/* Appends the text from the pipe, without its last line break, which programs such as echo add. */
static int add_piped(struct buf *text, bool prompt_follows, struct err *e)
{
    int rc;

    if (prompt_follows)
        say_waiting();
    if ((rc = input_text("-", text, e)) != 0)
        return rc;
    text->len -= text->len && text->data[text->len - 1] == '\n';
    text->len -= text->len && text->data[text->len - 1] == '\r';
    return 0;
}

/* Reads the prompt: a file, or the text from the pipe and the text of the command line, with a blank between them. */
static int read_text(const struct run_options *o, struct buf *text, struct err *e)
{
    const char *prompt = o->prompt;
    int rc;

    if (o->file)
        return input_text(o->file, text, e);
    if (prompt && (rc = err_utf8(e, "the prompt", prompt, strlen(prompt))) != 0)
        return rc;
    if (is_piped() && (rc = add_piped(text, prompt != NULL, e)) != 0)
        return rc;
    if (!prompt && !text->len)
        return err_set(e, ERR_USAGE, "a prompt is needed: text, --file, --ids or --batch");
    if (prompt && *prompt && text->len)
        buf_char(text, ' ');
    buf_str(text, prompt ? prompt : "");
    return text->oom ? err_nomem(e, "the prompt") : 0;
}

/* Adds the member NAME with the text VALUE [n] to BODY. */
static void put_string_member(struct buf *body, const char *name, const char *value, size_t n)
{
    buf_json_key(body, name);
    buf_json_str(body, value, n);
}

/* Makes the prompt of the command line the BODY of a request. */
static int put_prompt(const struct run_options *o, struct buf *body, struct err *e)
{
    struct buf text = {.tag = MEM_APP};
    struct tok_ids ids = {0};
    int rc = o->ids ? input_ids(o->ids, &ids, e) : read_text(o, &text, e);

    if (rc == 0 && o->suffix)
        rc = err_utf8(e, "--suffix", o->suffix, strlen(o->suffix));
    buf_json_begin(body, '{');
    if (o->ids) {
        buf_json_key(body, "ids");
        buf_json_begin(body, '[');
        for (size_t i = 0; i < ids.n; i++)
            buf_json_int(body, ids.id[i]);
        buf_json_end(body, ']');
    } else {
        put_string_member(body, "prompt", text.data ? text.data : "", text.len);
    }
    if (o->suffix)
        put_string_member(body, "suffix", o->suffix, strlen(o->suffix));
    buf_json_end(body, '}');
    buf_fini(&text);
    tok_ids_fini(&ids);
    return rc || !body->oom ? rc : err_nomem(e, "the prompt");
}

/* Reads the prompt into R, or opens the file of the batch. This does not need the model. */
static int read_requests(struct requests *r, const struct run_options *o, struct err *e)
{
    struct buf body = {.tag = MEM_APP};
    int rc;

    if (o->batch)
        return requests_open_lines(r, o->batch, e);
    if ((rc = put_prompt(o, &body, e)) == 0)
        rc = requests_add_own(r, body.data, body.len, e);
    buf_fini(&body);
    return rc;
}

/* Returns the number of sequences that the requests of R need: one for each beam of a beam search, else one
 * for each answer. */
static size_t n_sequences(const struct requests *r)
{
    size_t n = 0;

    for (const struct batch_request *q = r->first; q; q = q->next) {
        const struct sampling *s = q->q.field.sampling;

        n += s && sampling_is_search(s) && sampling_given(s, SAMPLING_NUM_BEAMS) ? s->num_beams : q->n;
    }
    return n;
}

/* Sets *N to the number of sequences that the engine computes at once: SEQS, or fewer if all lines can be
 * read without waiting and their requests need fewer. */
static int count_sequences(struct requests *r, int64_t *n, struct err *e)
{
    bool waits = r->lines && !requests_never_wait(r), got = requests_never_wait(r);
    const char *name = requests_name(r);
    int rc = 0;

    while (got && r->n_answers < SEQS && rc == 0)
        rc = requests_read_line(r, false, &got, e);
    if (rc == 0 && r->n == 0 && !waits)
        return err_set(e, ERR_INPUT, "%s: the batch holds no request", name);
    *n = waits || n_sequences(r) > SEQS ? SEQS : (int64_t)n_sequences(r);
    return rc;
}

/* Answers all requests and writes the answers to FILE, the file of --output. If a batch is cancelled, its
 * finished results are kept. The file does not change if the only request was cancelled or failed. */
static int answer_into(struct run_prompts *r, struct save *file, struct err *e)
{
    int rc;

    print_to(file);
    rc = answer(r, e);
    print_to(NULL);
    if (rc <= 0 && !(r->stream && (r->signal || r->n_failed))) {
        int rc_file = save_commit(file, e);

        rc = rc_file ? rc_file : rc;
    }
    return rc;
}

/* Opens the file of --output. With --resume, results are appended to it, and requests that have results are
 * skipped. */
static int open_output(struct run_prompts *r, const struct run_options *o, struct save *file, struct err *e)
{
    int rc;

    if (!o->output)
        return 0;
    if (!o->resume)
        return save_open(file, o->output, o->out.force, e);
    if ((rc = resume_open(&r->resume, o->output, e)) != 0 || (rc = save_append(file, o->output, e)) != 0)
        return rc;
    r->in.resume = &r->resume;
    if (r->resume.n)
        print_remark("%s has %zu results, which are kept", o->output, r->resume.n);
    return 0;
}

/* Reads the options and the requests, and opens the files of the model. */
static int prepare(struct run_prompts *r, struct run_options *o, struct err *e)
{
    struct served *s = &r->served;
    int rc;

    if ((rc = options_sampling_finish(&o->sampling, &r->arena, e)) != 0 ||
        (o->system && (rc = err_utf8(e, "--system", o->system, strlen(o->system))) != 0))
        return rc;
    r->in.served = s;
    r->in.stop = &stop.signal;
    s->no_special = o->no_special;
    s->keep_special = o->keep_special;
    s->json = r->json;
    s->wrap = wants_chat(o);
    s->system = o->system;
    s->template_file = o->chat_template;
    s->model = &r->model;
    s->sampling = o->sampling.s;
    own_init(s, o->plain_user_text);
    if ((rc = answering_open(&s->answering, &o->answering, e)) != 0 ||
        (rc = structured_options_read(&o->structured, &s->structured, &r->arena, e)) != 0 ||
        (rc = read_requests(&r->in, o, e)) != 0 || (rc = load_prepare(&o->load, e)) != 0 ||
        (rc = load_checkpoint(&o->load, &r->model, e)) != 0)
        return rc;
    answering_name(&s->answering, &o->load);
    s->service = (struct service){.name = s->answering.name,
                                  .n_names = s->answering.n_names,
                                  .path_name = s->answering.path_name,
                                  .plain_user_text = o->plain_user_text,
                                  .structured = &s->structured,
                                  .priorities = strcmp(o->load.o.scheduling_policy, "fcfs") != 0,
                                  .max_logprobs = -1,
                                  .created = (int64_t)time(NULL)};
    service_complete(&s->service);
    return s->wrap ? input_template_open(&s->answering.template, s->model, s->template_file, e) : 0;
}

static int run_requests(struct run_prompts *r, struct run_options *o, struct err *e)
{
    struct save file = {0};
    int64_t n_seqs = 1;
    int rc;

    if ((rc = prepare(r, o, e)) != 0 || (rc = open_output(r, o, &file, e)) != 0) {
        save_abort(&file);
        return rc;
    }
    r->progress.bar.what = "requests";
    r->prompt_bar.what = "processing the prompt, tokens";
    if (isatty(STDERR_FILENO))
        requests_count_lines(&r->in, &r->progress.n_all);
    rc = count_sequences(&r->in, &n_seqs, e);
    if (!o->load.max_num_seqs_given)
        o->load.o.max_num_seqs = n_seqs;
    if (rc == 0 && n_seqs == 0) { /* the output file has the results of all requests already */
        rc = save_commit(&file, e);
    } else if (rc == 0 && (rc = load_engine(&o->load, &r->model, &r->engine, e)) == 0) {
        r->progress.n_done = r->in.n_skipped;
        rc = file.f ? answer_into(r, &file, e) : answer(r, e);
    }
    save_abort(&file);
    return rc;
}

static int run_prompts(const struct opt_values *v, struct err *e)
{
    struct run_options o = {.prompt = NULL};
    struct run_prompts r = {.json = false};
    int rc;

    load_init(&o.load);
    options_sampling_init(&o.sampling);
    opt_read(v, &o, sizeof(o));
    o.load.headless = o.batch != NULL; /* lines may ask for embeddings */
    if ((rc = check_combination(&o, v, e)) != 0)
        return rc;
    r.json = o.out.json;
    r.stream = !o.batch;
    arena_init(&r.arena, MEM_APP);
    once_init(&r.served.once);
    rng_seeds_init(&r.served.seeds);
    rc = run_requests(&r, &o, e);
    requests_close(&r.in);
    answering_close(&r.served.answering);
    once_fini(&r.served.once);
    resume_close(&r.resume);
    gallop_close(r.engine);
    checkpoint_close(&r.model);
    arena_fini(&r.arena);
    return rc < 0 && r.signal ? -(128 + r.signal) : rc; /* -1: failures that were reported already */
}

const struct verb verb_run = {
    .name = "run",
    .summary = "generate text from a prompt",
    .arguments = "[options] [\"prompt\"]",
    .manual =
        "Generates text from a prompt and streams it to standard output, by whole characters. The prompt is the text "
        "on the command line, or text from a pipe (without its last line break), or both (the text from the pipe, a "
        "blank, the text on the command line), or the bytes of a file (--file), or token ids (--ids). Text must be "
        "UTF-8.\n--batch computes many requests together, one for each line of a file. A line has `prompt`, `ids` or "
        "`messages` (for the chat template, with `tools` and `documents`) and any of these fields: `suffix`, the text "
        "behind a gap in front of which `prompt` stands, for models that fill gaps; sampling fields, "
        "named with underscores or as in OpenAI's API (max_tokens, max_completion_tokens, min_tokens, top_logprobs); "
        "`allowed_token_ids`; `response_format` and `structured_outputs`, which constrain the answer; `n`, the number "
        "of answers (up to 128), which are drawn with the request's seed, seed + 1, ...; `prompt_logprobs`, a number "
        "K: the result (with --json) has the log-probability of each token of the prompt and of the K most likely "
        "tokens in its place, and null for the first token; `custom_id`, which is repeated in the result; `priority` "
        "and `user`, which --scheduling-policy uses; `cache_salt`: requests with different values share no KV blocks. "
        "Lines of OpenAI's batch files (custom_id, method, url, body) are answered as `gallop serve` answers their "
        "bodies, for every path that it computes (/v1/chat/completions, /v1/completions, /v1/embeddings, "
        "/v1/responses and more; docs/API.md); with --json they have the format of OpenAI's result files (id, "
        "custom_id, response, error), and `response` has the `seed` that was chosen for a body without one. Options "
        "of sampling are the defaults of these lines. A batch is for one model: without --served-model-name, the "
        "first `model` that a line names is a name of the model, and other names are refused."
        "\nLines are read when they are needed. Without --json an answer is written as soon as "
        "it is complete, after a line with its index (INDEX.NUMBER if n is more than 1). With --json the results are "
        "written in input order, one line for each request; `choices` has all answers, each with its `index`, and the "
        "fields of a single answer are those of the first. A faulty line is reported with its number, and the other "
        "requests continue. SIGINT and SIGTERM cancel running requests and keep finished results.",
    .options = (const struct opt_part[]){OPT_PART(struct run_options, load, options_model),
                                         OPT_OWN(struct run_options, rows),
                                         OPT_PART(struct run_options, answering, answering_rows),
                                         OPT_PART(struct run_options, sampling, options_sampling),
                                         OPT_PART(struct run_options, structured, structured_rows),
                                         OPT_PART(struct run_options, load, options_source),
                                         OPT_PART(struct run_options, load, options_engine),
                                         OPT_PART(struct run_options, load, options_scheduling),
                                         OPT_PART(struct run_options, out, options_force),
                                         OPT_PART(struct run_options, out, options_json),
                                         OPT_PART(struct run_options, out, options_help), OPT_END},
    .run = run_prompts,
};
