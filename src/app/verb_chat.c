/* verb_chat.c - `gallop chat`: a conversation in the terminal. Ctrl-C stops the answer, not the program;
 * Ctrl-D or /quit ends.
 *
 * Each turn renders the whole conversation with the model's own template. Line editing and history by
 * libedit, on a terminal only; otherwise lines are read from standard input, so that a conversation can be
 * piped in.
 */
#include <histedit.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/common.h"
#include "app/verbs.h"
#include "base/log.h"
#include "ckpt/source.h"

enum { CHAT_SYSTEM = COMMON_OWN };

static const struct opt_row rows[] = {
    COMMON_MODEL_ROWS,
    COMMON_SAMPLING_ROWS,
    {.id = CHAT_SYSTEM,
     .name = "system",
     .type = OPT_STRING,
     .arg = "TEXT",
     .help = "a system message to begin with"},
    COMMON_OUTPUT_ROWS,
};

static struct gallop *volatile interrupted_engine; /* for the signal handler only */

static void on_interrupt(int sig)
{
    (void)sig;
    if (interrupted_engine)
        gallop_cancel(interrupted_engine, 0);
}

struct talk {
    struct gallop *g;
    struct chat *chat;
    json_t *messages;
    struct sampling sampling;
    const char *system;
    EditLine *el; /* NULL: not a terminal */
    History *history;
};

static const char help_text[] = "/help     this list\n"
                                "/new      begin a new conversation\n"
                                "/system T begin a new conversation with the system message T\n"
                                "/stats    what the engine did so far\n"
                                "/quit     leave (Ctrl-D does too); Ctrl-C stops an answer\n";

static int start(struct talk *t, struct err *e)
{
    json_decref(t->messages);
    t->messages = json_array();
    if (t->messages && t->system)
        json_array_append_new(t->messages, json_pack("{s:s,s:s}", "role", "system", "content", t->system));
    return t->messages ? 0 : err_nomem(e, "the conversation");
}

/* The conversation so far as a prompt; submits it. */
static int submit(struct talk *t, struct err *e)
{
    struct gallop_request r;
    time_t now = time(NULL);
    struct buf text;
    struct tm tm;
    int rc;

    localtime_r(&now, &tm);
    buf_init(&text, MEM_APP);
    if ((rc = chat_render(t->chat, t->messages, NULL, true, &tm, &text, e)) == 0) {
        gallop_request_init(&r);
        r.text = text.data ? text.data : "";
        r.text_len = text.len;
        r.no_special = 1; /* the template writes its own */
        rc = gallop_submit_sampling(t->g, &r, &t->sampling, NULL, e);
    }
    buf_fini(&text);
    return rc;
}

/* Prints the answer as it comes and adds it to the conversation. */
static int answer(struct talk *t, struct err *e)
{
    struct gallop_event ev;
    struct buf text;
    int rc;

    buf_init(&text, MEM_APP);
    if ((rc = submit(t, e)) == 0) {
        interrupted_engine = t->g;
        while (gallop_next(t->g, &ev)) {
            if (ev.type == GALLOP_TEXT) {
                buf_add(&text, ev.text, ev.text_len);
                fwrite(ev.text, 1, ev.text_len, stdout);
                fflush(stdout);
            } else if (ev.type == GALLOP_FINISHED) {
                if (ev.finish == GALLOP_FINISH_CANCELLED)
                    fputs(" [stopped]", stdout);
                else if (ev.context_full)
                    fputs(" [the context is full: /new begins another conversation]", stdout);
                else if (ev.finish == GALLOP_FINISH_ERROR)
                    rc = err_set(e, ERR_INPUT, "%s", ev.error);
            }
        }
        interrupted_engine = NULL;
        fputc('\n', stdout);
        json_array_append_new(t->messages, json_pack("{s:s,s:s%}", "role", "assistant", "content",
                                                     text.data ? text.data : "", text.len));
    }
    buf_fini(&text);
    return rc;
}

static void print_stats(const struct talk *t)
{
    struct gallop_stats s;

    gallop_stats(t->g, &s);
    printf("%llu prompt tokens and %llu answer tokens in %llu steps; weights %.1f MiB, KV cache %.1f MiB\n",
           (unsigned long long)s.n_prompt_tokens, (unsigned long long)s.n_output_tokens,
           (unsigned long long)s.n_steps, (double)s.weight_bytes / 1048576, (double)s.kv_bytes / 1048576);
}

/* A line that begins with a slash. False: leave. */
static bool command(struct talk *t, char *line, struct err *e)
{
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        return false;
    if (strcmp(line, "/new") == 0) {
        start(t, e);
    } else if (strncmp(line, "/system ", 8) == 0) {
        t->system = NULL;
        start(t, e);
        json_array_append_new(t->messages, json_pack("{s:s,s:s}", "role", "system", "content", line + 8));
    } else if (strcmp(line, "/stats") == 0) {
        print_stats(t);
    } else {
        if (strcmp(line, "/help") != 0)
            printf("there is no command %s\n", line);
        fputs(help_text, stdout);
    }
    return true;
}

static char *prompt(EditLine *el)
{
    static char text[] = "> ";

    (void)el;
    return text;
}

/* The next line without its end, in OUT. False: no more. */
static bool read_line(struct talk *t, struct buf *out)
{
    const char *line;
    int n = 0;

    buf_clear(out);
    if (!t->el) {
        char piece[1024];

        while (fgets(piece, sizeof(piece), stdin)) {
            n = 1;
            buf_str(out, piece);
            if (strchr(piece, '\n'))
                break;
        }
    } else {
        line = el_gets(t->el, &n);
        if (line && n > 0) {
            HistEvent he;

            buf_add(out, line, (size_t)n);
            if (n > 1)
                history(t->history, &he, H_ENTER, line);
        } else if (n < 0) { /* Ctrl-C at the prompt: a new line */
            fputc('\n', stdout);
            buf_char(out, '\n');
            n = 1;
        }
    }
    while (out->len && (out->data[out->len - 1] == '\n' || out->data[out->len - 1] == '\r'))
        out->data[--out->len] = 0;
    return n > 0;
}

static void open_editor(struct talk *t)
{
    HistEvent he;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return;
    t->el = el_init("gallop", stdin, stdout, stderr);
    t->history = history_init();
    if (!t->el || !t->history)
        return;
    history(t->history, &he, H_SETSIZE, 1000);
    el_set(t->el, EL_PROMPT, prompt);
    el_set(t->el, EL_EDITOR, "emacs");
    el_set(t->el, EL_HIST, history, t->history);
    el_set(t->el, EL_SIGNAL, 0);
    el_source(t->el, NULL);
}

static int talk(struct talk *t, struct err *e)
{
    struct sigaction sa = {.sa_handler = on_interrupt};
    struct buf line;
    int rc = start(t, e), worst = 0;

    sigaction(SIGINT, &sa, NULL); /* without SA_RESTART, so that a read at the prompt returns */
    open_editor(t);
    if (t->el)
        fputs("Type a message; /help lists commands.\n", stdout);
    buf_init(&line, MEM_APP);
    while (rc == 0 && read_line(t, &line)) {
        if (line.len == 0)
            continue;
        if (line.data[0] == '/') {
            if (!command(t, line.data, e))
                break;
            continue;
        }
        json_array_append_new(t->messages,
                              json_pack("{s:s%,s:s}", "content", line.data, line.len, "role", "user"));
        if (answer(t, e) != 0) { /* said, and the conversation goes on without this message */
            log_error("%s", e->msg);
            json_array_remove(t->messages, json_array_size(t->messages) - 1);
            worst = 1;
        }
    }
    buf_fini(&line);
    if (t->history)
        history_end(t->history);
    if (t->el)
        el_end(t->el);
    return rc ? rc : worst ? -1 : 0;
}

static int run(const struct opt_values *v, struct err *e)
{
    struct common_bar bar = {.what = "loading", .quiet = opt_flag(v, OPT_QUIET)};
    struct talk t = {.system = opt_string(v, CHAT_SYSTEM)};
    char path[4096], err[GALLOP_ERR_SIZE];
    struct gallop_options o;
    struct arena a;
    int rc;

    arena_init(&a, MEM_APP);
    if ((rc = common_options(v, &o, path, sizeof(path), e)) == 0 &&
        (rc = common_sampling(v, &t.sampling, &a, e)) == 0 && (rc = source_chat(&t.chat, o.model, e)) == 0) {
        o.max_num_seqs = 1;
        o.progress = common_progress;
        o.progress_ctx = &bar;
        if (!chat_has_template(t.chat))
            rc = err_set(e, ERR_INPUT, "%s: this model has no chat template", o.model);
        else if ((rc = gallop_open(&t.g, &o, err)) != 0)
            err_set(e, rc, "%s", err);
        common_bar_end(&bar);
        if (rc == 0 && !gallop_llm(t.g)->tok)
            rc = err_set(e, ERR_INPUT, "%s", gallop_llm(t.g)->tok_missing.msg);
        if (rc == 0)
            rc = talk(&t, e);
    }
    json_decref(t.messages);
    gallop_close(t.g);
    chat_close(t.chat);
    arena_fini(&a);
    return rc;
}

int verb_chat(int argc, char **argv)
{
    struct opt_values v;
    struct err e = {0};
    int rc = common_parse("chat", "[options]", rows, sizeof(rows) / sizeof(rows[0]), argc, argv, &v);

    if (rc >= 0)
        return rc;
    rc = run(&v, &e);
    if (rc > 0)
        common_fail(&e);
    opt_fini(&v);
    return rc ? 1 : 0;
}
