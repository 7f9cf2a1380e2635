/* verb_chat.c - `gallop chat`: a conversation in the terminal. Ctrl-C stops the answer, not the program;
 * Ctrl-D or /quit ends.
 *
 * Each turn renders the whole conversation with the model's own template. A turn that fails, or is stopped
 * before the first text of its answer, leaves the conversation as it was. Line editing and history by
 * libedit, on a terminal only; otherwise lines are read from standard input, so that a conversation can be
 * piped in.
 */
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "app/app.h"
#include "base/err.h"
#include "base/utf8.h"

static const struct opt_row rows[] = {
    OPTION_USER_TEXT(EVERYDAY),
    {"system", 0, OPT_STRING, "TEXT", EVERYDAY, .help = "a system message to begin with"},
    {"chat-template", 0, OPT_STRING, "F.jinja", PROMPT,
     .help = "use this chat template instead of the model's", .aliases = "template"},
    {0}};

enum { LINE_MAX_BYTES = 16 << 20 }; /* more than the longest contexts hold */

static struct gallop *volatile answering; /* for the signal handlers only */
static volatile sig_atomic_t interrupted;
static struct termios terminal; /* as it was before the editor took it */

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
    if (answering)
        gallop_cancel(answering, 0);
}

/* The program is ended by a signal: the terminal becomes what it was. */
static void on_end(int sig)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    raise(sig); /* SA_RESETHAND: now it ends the program */
}

/* What was typed and the editor has not taken yet: during an answer, too. */
struct keys {
    struct buf typed;
    size_t at;     /* of typed: taken */
    bool replaced; /* something in the line was not UTF-8, and U+FFFD stands for it */
};

struct talk {
    struct gallop *g;
    struct input_template template;
    json_t *messages;
    bool plain_user_text; /* --user-text plain */
    struct sampling sampling;
    struct buf system; /* empty: none */
    size_t line;       /* lines read */
    bool faults;       /* something could not be answered */
    EditLine *el;      /* NULL: not a terminal */
    History *history;
    struct keys keys;
};

static const char help_text[] =
    "/help     this list\n"
    "/new      begin a new conversation; the system message stays\n"
    "/system T begin a new conversation with the system message T; without T, with none\n"
    "/stats    what the engine did so far\n"
    "/quit     leave; Ctrl-D does too\n"
    "//text    send /text: a message that begins with a slash\n"
    "Ctrl-C stops an answer. What was shown of it stays in the conversation; before its first word, your message\n"
    "is taken back as if it had not been sent. So is one that cannot be answered. The arrow up brings lines back.\n";

/* ---- the conversation ---- */

static int add_message(struct talk *t, const char *role, const char *text, size_t len, struct err *e)
{
    json_t *m = json_pack("{s:s,s:s%}", "role", role, "content", text, len);

    return m && json_array_append_new(t->messages, m) == 0 ? 0 : err_nomem(e, "the conversation");
}

static int start(struct talk *t, struct err *e)
{
    json_decref(t->messages);
    t->messages = json_array();
    if (!t->messages || t->system.oom)
        return err_nomem(e, "the conversation");
    return t->system.len ? add_message(t, "system", t->system.data, t->system.len, e) : 0;
}

/* The conversation so far as a prompt; submits it. */
static int submit(struct talk *t, struct err *e)
{
    struct buf text = {.tag = MEM_APP}, origin = {.tag = MEM_APP};
    const struct input_messages m = {
        .messages = t->messages, .generate = true, .origin = t->plain_user_text ? &origin : NULL};
    struct tok_ids ids = {0};
    struct gallop_request r;
    int rc;

    if ((rc = input_render(&t->template, &m, &text, e)) == 0 && /* the template writes its own BOS */
        (rc = tok_encode_marked(gallop_llm(t->g)->tok, text.data ? text.data : "", origin.data, text.len, 0,
                                &ids, e)) == 0) {
        gallop_request_init(&r);
        r.ids = ids.id;
        r.n_ids = ids.n;
        rc = gallop_submit_sampling(t->g, &r, &t->sampling, NULL, e);
    }
    tok_ids_fini(&ids);
    buf_fini(&origin);
    buf_fini(&text);
    return rc;
}

/* Waits until there is something to read; false: Ctrl-C. SIGINT comes in ppoll alone, because one that came
 * between a look at `interrupted` and the wait would not end the wait. */
static bool wait_typed(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t sigint, before;
    bool ready = false;

    sigemptyset(&sigint);
    sigaddset(&sigint, SIGINT);
    pthread_sigmask(SIG_BLOCK, &sigint, &before);
    while (!ready && !interrupted)
        ready = ppoll(&p, 1, NULL, &before) > 0 || errno != EINTR;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ready;
}

/* What is there to be read, at least one byte: waits. 0: no more; -1: Ctrl-C. */
static int read_typed(struct keys *k)
{
    char bytes[4096];
    ssize_t n;

    if (k->at == k->typed.len) {
        buf_clear(&k->typed);
        k->at = 0;
    }
    if (!wait_typed())
        return -1;
    do
        n = read(STDIN_FILENO, bytes, sizeof(bytes));
    while (n < 0 && errno == EINTR);
    if (n > 0)
        buf_add(&k->typed, bytes, (size_t)n);
    return k->typed.oom ? 0 : n > 0 ? 1 : (int)n;
}

/* What is typed during an answer is for the next prompt: it is taken out of the terminal's queue, in which
 * Ctrl-C would wait behind it. */
static void type_ahead(struct talk *t)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

    if (t->el && poll(&p, 1, 0) > 0 && (p.revents & POLLIN))
        read_typed(&t->keys);
}

/* The answer's text as it comes, shown and in TEXT. *STOPPED: by Ctrl-C. */
static int take_answer(struct talk *t, struct buf *text, bool *stopped, struct err *e)
{
    struct gallop_event ev;
    int rc = 0;

    while (rc == 0 && gallop_next(t->g, &ev)) {
        if (ev.type == GALLOP_TEXT) {
            buf_add(text, ev.text, ev.text_len);
            print_bytes(ev.text, ev.text_len);
        } else if (ev.type == GALLOP_FINISHED) {
            *stopped = ev.finish == GALLOP_FINISH_CANCELLED;
            if (ev.finish == GALLOP_FINISH_ERROR)
                rc = err_set(e, ERR_INPUT, "%s", ev.error);
            else if (*stopped)
                print_text(text->len ? " [stopped]" : "[stopped; your message is taken back]");
            else if (ev.context_full)
                print_text(" [the context is full: /new begins another conversation]");
        }
        type_ahead(t);
        rc = rc ? rc : print_flush(e);
    }
    print_text("\n");
    return rc || !text->oom ? rc : err_nomem(e, "the answer");
}

/* Sends a message and shows the answer. Without one, the conversation is what it was before. */
static int turn(struct talk *t, const char *message, size_t len, struct err *e)
{
    size_t before = json_array_size(t->messages);
    bool stopped = false;
    struct buf text;
    int rc;

    buf_init(&text, MEM_APP);
    interrupted = 0;
    if ((rc = add_message(t, "user", message, len, e)) == 0 && (rc = submit(t, e)) == 0) {
        answering = t->g;
        if (interrupted) /* before the handler knew whom to stop */
            gallop_cancel(t->g, 0);
        rc = take_answer(t, &text, &stopped, e);
        answering = NULL;
        if (rc == 0 && (text.len || !stopped))
            rc = add_message(t, "assistant", text.data ? text.data : "", text.len, e);
    }
    if (rc || (stopped && !text.len))
        while (json_array_size(t->messages) > before)
            json_array_remove(t->messages, json_array_size(t->messages) - 1);
    buf_fini(&text);
    return rc;
}

/* ---- lines ---- */

static void print_stats(const struct talk *t)
{
    struct gallop_stats s;

    gallop_stats(t->g, &s);
    print_fmt(
        "%llu prompt tokens and %llu answer tokens in %llu steps; weights %.1f MiB, KV cache %.1f MiB\n",
        (unsigned long long)s.n_prompt_tokens, (unsigned long long)s.n_output_tokens,
        (unsigned long long)s.n_steps, (double)s.weight_bytes / 1048576, (double)s.kv_bytes / 1048576);
}

/* A line that begins with one slash. *LEAVE: the conversation is over. */
static int command(struct talk *t, const char *line, bool *leave, struct err *e)
{
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0) {
        *leave = true;
    } else if (strcmp(line, "/new") == 0) {
        return start(t, e);
    } else if (strncmp(line, "/system", 7) == 0 && (line[7] == ' ' || line[7] == 0)) {
        buf_clear(&t->system);
        buf_str(&t->system, line + 7 + strspn(line + 7, " "));
        return start(t, e);
    } else if (strcmp(line, "/stats") == 0) {
        print_stats(t);
    } else if (strcmp(line, "/help") == 0) {
        print_text(help_text);
    } else {
        return err_set(e, ERR_INPUT,
                       "there is no command %.*s, and nothing was sent; //... sends a message that begins "
                       "with a slash, /help lists the commands",
                       (int)strcspn(line, " \t") < 60 ? (int)strcspn(line, " \t") : 60, line);
    }
    return 0;
}

/* Whether a line can be sent: it is whole, and it is UTF-8. */
static int check_line(const struct talk *t, const struct buf *line, struct err *e)
{
    size_t good = utf8_valid_prefix(line->data, line->len);

    if (line->oom)
        return err_nomem(e, "a line");
    if (line->len > LINE_MAX_BYTES)
        return err_set(e, ERR_INPUT, "line %zu is longer than %d MiB, and was not sent", t->line,
                       LINE_MAX_BYTES >> 20);
    if (good < line->len)
        return err_set(
            e, ERR_INPUT,
            "line %zu, byte %zu: 0x%02x begins no UTF-8 character; text has to be UTF-8, and the line was "
            "not sent",
            t->line, good + 1, (unsigned)(unsigned char)line->data[good]);
    if (t->keys.replaced && strstr(line->data, "\xef\xbf\xbd"))
        return err_set(e, ERR_INPUT,
                       "what was typed is not UTF-8 where \xef\xbf\xbd stands, and was not sent");
    return 0;
}

static int take_line(struct talk *t, const struct buf *line, bool *leave, struct err *e)
{
    int rc;

    if (line->len == 0 && !line->oom)
        return 0;
    if ((rc = check_line(t, line, e)) != 0)
        return rc;
    if (line->data[0] != '/')
        return turn(t, line->data, line->len, e);
    if (line->data[1] == '/')
        return turn(t, line->data + 1, line->len - 1, e);
    return command(t, line->data, leave, e);
}

static char *prompt(EditLine *el)
{
    static char text[] = "> ";

    (void)el;
    return text;
}

/* The next character for the editor. Its own way of reading silently drops what is not UTF-8. */
static int read_key(EditLine *el, wchar_t *out)
{
    struct keys *k;
    const char *s;
    size_t n, len;
    bool good;
    int rc;

    el_get(el, EL_CLIENTDATA, &k);
    while ((n = k->typed.len - k->at) == 0 || utf8_is_partial(k->typed.data + k->at, n))
        if ((rc = read_typed(k)) <= 0)
            return rc;
    s = k->typed.data + k->at;
    len = utf8_sequence(s, n, &good);
    k->at += len;
    k->replaced |= !good;
    *out = good ? (wchar_t)utf8_decode(s, &len) : 0xfffd;
    return 1;
}

/* Between lines the terminal stays as the editor has it: no echo in answers, no end of lines at 4095
 * bytes. */
static void hold_terminal(struct talk *t)
{
    el_set(t->el, EL_PREP_TERM, 1);
}

/* Puts a line where the arrow up finds it. */
static void remember(struct talk *t, const char *line, size_t len)
{
    HistEvent he;

    if (len && line[0] != '\n')
        history(t->history, &he, H_ENTER, line);
}

/* A line of the terminal. False: no more. */
static bool edit_line(struct talk *t, struct buf *out)
{
    const char *line;
    int n = 0;

    t->keys.replaced = false;
    interrupted = 0;
    line = el_gets(t->el, &n);
    hold_terminal(t);
    if (interrupted) { /* Ctrl-C at the prompt: an empty one, and what stood there is in the history */
        const LineInfo *li = el_line(t->el);

        buf_add(out, li->buffer, (size_t)(li->lastchar - li->buffer));
        remember(t, out->data ? out->data : "", out->len);
        buf_clear(out);
        print_text("\n");
        return true;
    }
    if (!line || n <= 0) {
        print_text("\n");
        return false;
    }
    buf_add(out, line, (size_t)n);
    remember(t, line, (size_t)n);
    return true;
}

/* A line of a pipe or file; of one that is too long, a byte more than is allowed. False: no more. */
static bool plain_line(struct buf *out)
{
    bool any = false;
    int c;

    while ((c = getc_unlocked(stdin)) != EOF) {
        any = true;
        if (c == '\n')
            break;
        if (out->len <= LINE_MAX_BYTES)
            buf_char(out, (char)c);
    }
    return any;
}

/* The next line without its end, in OUT. False: no more. */
static bool read_line(struct talk *t, struct buf *out)
{
    buf_clear(out);
    t->line++;
    if (!(t->el ? edit_line(t, out) : plain_line(out)))
        return false;
    while (out->len && (out->data[out->len - 1] == '\n' || out->data[out->len - 1] == '\r'))
        out->data[--out->len] = 0;
    return true;
}

static void open_editor(struct talk *t)
{
    const struct sigaction end = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};
    HistEvent he;

    /* libedit speaks in characters of the locale, models in UTF-8 */
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !setlocale(LC_CTYPE, "C.UTF-8") ||
        tcgetattr(STDIN_FILENO, &terminal) != 0)
        return;
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGHUP, &end, NULL);
    t->el = el_init("gallop", stdin, stdout, stderr);
    t->history = history_init();
    if (!t->el || !t->history)
        return;
    history(t->history, &he, H_SETSIZE, 1000);
    el_set(t->el, EL_PROMPT, prompt);
    el_set(t->el, EL_EDITOR, "emacs");
    el_set(t->el, EL_SETTY, "-d", "+noflsh", NULL); /* Ctrl-C ends an answer, not what is typed meanwhile */
    el_set(t->el, EL_HIST, history, t->history);
    el_set(t->el, EL_SIGNAL, 0);
    el_set(t->el, EL_CLIENTDATA, &t->keys);
    el_set(t->el, EL_GETCFN, read_key);
    el_source(t->el, NULL);
    hold_terminal(t);
}

static void close_editor(struct talk *t)
{
    if (t->history)
        history_end(t->history);
    if (t->el)
        el_end(t->el);
}

/* Line by line to the end. What fails is said, and the conversation goes on, as long as it can be shown. */
static int talk(struct talk *t, bool quiet, struct err *e)
{
    struct sigaction sa = {.sa_handler = on_interrupt};
    struct buf line;
    bool leave = false;
    int rc = start(t, e);

    sigaction(SIGINT, &sa, NULL); /* without SA_RESTART, so that a read of a pipe returns */
    open_editor(t);
    if (t->el && !quiet)
        print_text("Type a message; /help lists commands.\n");
    buf_init(&line, MEM_APP);
    while (rc == 0 && (rc = print_flush(e)) == 0 && !leave && read_line(t, &line)) {
        struct err fault = {0};

        if (take_line(t, &line, &leave, &fault) != 0 && print_flush(NULL) == 0) {
            log_error("%s", fault.msg);
            t->faults = true;
        }
    }
    buf_fini(&line);
    close_editor(t);
    return rc ? rc : t->faults ? -1 : 0; /* something was not answered, and that was said */
}

static int run(const struct opt_values *v, struct err *e)
{
    const char *system = opt_given(v, "system") ? opt_string(v, "system") : "";
    struct talk t = {.system.tag = MEM_APP,
                     .keys.typed.tag = MEM_APP,
                     .plain_user_text = opt_choice(v, "user-text") == USER_TEXT_PLAIN};
    struct checkpoint model = {.in.path = NULL};
    struct arena a;
    struct load l;
    int rc;

    if (opt_given(v, "logprobs"))
        log_warn("--logprobs changes nothing in chat");
    arena_init(&a, MEM_APP);
    buf_str(&t.system, system);
    if ((rc = err_utf8(e, "--system", system, strlen(system))) == 0 && (rc = load_options(v, &l, e)) == 0 &&
        (rc = options_read_sampling(v, &t.sampling, &a, e)) == 0 &&
        (rc = load_checkpoint(v, &l, &model, e)) == 0 &&
        (rc = input_template_open(&t.template, &model, opt_string(v, "chat-template"), e)) == 0) {
        l.o.max_num_seqs = 1;
        if ((rc = load_engine(&l, &model, &t.g, e)) == 0 && !gallop_llm(t.g)->tok)
            rc = err_set(e, ERR_INPUT, "%s", gallop_llm(t.g)->tok_missing.msg);
        if (rc == 0)
            rc = talk(&t, opt_flag(v, "quiet"), e);
    }
    json_decref(t.messages);
    buf_fini(&t.system);
    buf_fini(&t.keys.typed);
    gallop_close(t.g);
    checkpoint_close(&model);
    input_template_close(&t.template);
    arena_fini(&a);
    return rc;
}

const struct verb verb_chat = {
    .name = "chat",
    .summary = "talk to a model in the terminal",
    .arguments = "[options]",
    .no_words = "options only; messages are typed",
    .manual =
        "A conversation in the terminal, with line editing and history. Ctrl-C stops an answer; what was "
        "shown of it stays in the conversation. Ctrl-D ends, `/help` lists the commands, `//text` sends "
        "a message that begins with a slash. A message that cannot be answered leaves the conversation "
        "as it was.",
    .options = (const struct opt_row *const[]){options_model, rows, options_source, options_sampling,
                                               options_engine, options_help, NULL},
    .run = run,
};
