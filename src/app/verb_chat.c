/* verb_chat.c - `gallop chat`: a conversation in the terminal. Ctrl-C stops the answer, not the program;
 * Ctrl-D or /quit ends the program.
 *
 * Each turn renders the whole conversation with the model's own template. A turn that fails, or that is stopped
 * before the first text of its answer, does not change the conversation. On a terminal libedit provides line
 * editing and history; otherwise lines are read from standard input, so that a conversation can be piped in.
 */
#include <errno.h>
#include <histedit.h>
#include <jansson.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/print.h"
#include "app/save.h"
#include "app/verb.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/utf8.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "text/jinja/jinja.h"
#include "text/tok/tok.h"

struct chat_options {
    struct load load;
    struct options_sampling sampling;
    struct options_output out;
    const char *system, *chat_template;
    bool plain_user_text;
};

#define INTO(member) OPT_INTO(struct chat_options, member)

static const struct opt_row rows[] = {OPTION_USER_TEXT(EVERYDAY, INTO(plain_user_text)),
                                      {"system", 0, PARAM_TEXT, "TEXT", EVERYDAY,
                                       .help = "system message at the beginning of the conversation",
                                       INTO(system)},
                                      {"chat-template", 0, PARAM_TEXT, "F.jinja", PROMPT,
                                       .help = "file with a chat template that replaces the model's",
                                       .aliases = "template", INTO(chat_template)},
                                      {0}};

enum { LINE_MAX_BYTES = 16 << 20 }; /* maximum bytes of a line, more than the longest contexts can hold */

static struct gallop *volatile answering; /* engine that computes an answer, for on_interrupt(); NULL: none */
static volatile sig_atomic_t interrupted, resized, resumed;
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";
static const char *prompt_text = "> ";
static struct termios terminal; /* settings of the terminal before the editor changed them */

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
    if (answering)
        gallop_cancel(answering, 0);
}

/* Writes HOW, paste_on or paste_off, to the terminal. In bracketed paste mode the terminal marks where pasted
 * text begins and ends. Signal handlers call this function, too. */
static void tell_pastes(const char *how)
{
    if (write(STDOUT_FILENO, how, strlen(how)) < 0)
        return; /* an error does not matter */
}

/* The handler of signals that end the program: restores the terminal. */
static void on_end(int sig)
{
    tell_pastes(paste_off);
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    raise(sig); /* SA_RESETHAND has restored the default, which ends the program */
}

static void on_resize(int sig)
{
    (void)sig;
    resized = 1;
}

/* The handler of Ctrl-Z: restores the terminal for the shell, and the editor's settings after fg. */
static void on_stop(int sig)
{
    const struct sigaction stop = {.sa_handler = SIG_DFL}, again = {.sa_handler = on_stop};
    struct termios editing;
    int saved = errno;
    sigset_t one;

    tcgetattr(STDIN_FILENO, &editing);
    tell_pastes(paste_off);
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    sigaction(SIGTSTP, &stop, NULL);
    sigemptyset(&one);
    sigaddset(&one, SIGTSTP);
    raise(sig);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL); /* the program stops here until SIGCONT */
    sigaction(SIGTSTP, &again, NULL);
    tcsetattr(STDIN_FILENO, TCSANOW, &editing);
    tell_pastes(paste_on);
    resumed = 1;
    errno = saved;
}

/* Typed bytes that the editor has not read yet. They may have been typed while an answer was generated. */
struct keys {
    struct buf typed;
    size_t at;     /* number of bytes of TYPED that the editor has read */
    bool replaced; /* bytes of the line that were not UTF-8 were replaced by U+FFFD */
};

/* A conversation. */
struct talk {
    struct gallop *g;
    struct input_template template;
    json_t *messages;
    bool plain_user_text; /* --user-text plain */
    struct sampling sampling;
    struct buf system; /* the system message; empty: none */
    size_t line;       /* number of lines read, for error messages */
    bool faults;       /* a message could not be answered, so the exit status is 1 */
    bool literal;      /* the message was a block between """, so it is not a command */
    bool again;        /* the last message is answered again (/regen) */
    uint64_t n_drawn;  /* number of answers with --seed or /set seed; answer I uses seed + I */
    bool quiet;
    struct arena arena;       /* holds the lists of the sampling options */
    json_t *settings;         /* object of the parameters that /set has set */
    char file[SAVE_PATH_MAX]; /* the file that /save wrote or /load read; "": none */
    struct gallop_event end;  /* counts and times of the last answer */
    size_t n_prompt;          /* tokens of the prompt */
    uint64_t n_before;        /* number of prompt tokens that the engine had processed before this answer */
    struct print_bar bar;     /* progress of a long prompt */
    EditLine *el;             /* NULL: not a terminal */
    History *history;
    struct keys keys;
};

static const char help_text[] =
    "/help       this list\n"
    "/new        begin a new conversation; the system message stays\n"
    "/system T   begin a new conversation with the system message T; without T,\n"
    "            with none\n"
    "/regen      answer the last message again\n"
    "/set N V    set a sampling parameter, as in /set temperature 0.7; without N,\n"
    "            list what was set\n"
    "/save F     write the conversation to a file of JSON\n"
    "/load F     continue a conversation that was saved\n"
    "/stats      show numbers of tokens and steps so far, and the memory in use\n"
    "/quit       end the program, as Ctrl-D does\n"
    "//text      send the message /text, which begins with a slash\n"
    "A message of several lines: paste it, end a line with \\, or put it between\n"
    "two \"\"\".\n"
    "Ctrl-C stops an answer. The text shown so far stays in the conversation; if there\n"
    "is none yet, your message is taken back as if it had not been sent. A message\n"
    "that cannot be answered is taken back, too. The up arrow recalls earlier lines.\n";

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

/* Converts the rendered conversation TEXT to tokens, and refuses it if it leaves no room for an answer.
 * ORIGIN: the origin of each byte of TEXT (jinja_render_marked()), or NULL. */
static int tokenize(struct talk *t, const struct buf *text, const char *origin, struct tok_ids *ids,
                    struct err *e)
{
    const struct engine_info *m = engine_info(t->g);
    int rc = tok_encode_marked(m->tok, text->data ? text->data : "", origin, text->len, 0, ids, e);

    if (rc == 0 && ids->n >= m->model->max_model_len)
        return err_set(
            e, ERR_INPUT,
            "the conversation with this message has %zu tokens, but the context holds %zu: /new begins "
            "another conversation, and a larger --max-model-len helps if the model allows it",
            ids->n, m->model->max_model_len);
    return rc;
}

/* Submits the conversation so far as a prompt. */
static int submit(struct talk *t, struct sampling *s, struct err *e)
{
    struct buf text = {.tag = MEM_APP}, origin = {.tag = MEM_APP};
    struct conversation c = {.add_generation_prompt = true, .origin = t->plain_user_text ? &origin : NULL};
    struct tok_ids ids = {0};
    struct gallop_request r;
    struct gallop_stats stats;
    int rc;

    if ((rc = input_render(&t->template, &c, t->messages, &text, e)) == 0 &&
        (rc = tokenize(t, &text, origin.data, &ids, e)) == 0) {
        gallop_stats(t->g, &stats);
        t->n_before = stats.n_prompt_tokens + stats.n_cached_tokens;
        t->n_prompt = ids.n;
        gallop_request_init(&r); /* adds no special tokens: the template writes them */
        r.ids = ids.id;
        r.n_ids = ids.n;
        rc = input_reasoning(&t->template, &text, &r, e);
        rc = rc ? rc : engine_submit(t->g, &r, s, NULL, e);
    }
    tok_ids_fini(&ids);
    buf_fini(&origin);
    buf_fini(&text);
    return rc;
}

/* Redraws the input line after the size of the terminal changed, or after Ctrl-Z and fg. */
static void show_again(EditLine *el)
{
    if (resized)
        el_resize(el);
    if (el && (resized || resumed))
        el_set(el, EL_REFRESH);
    resized = resumed = 0;
}

/* Waits until standard input can be read. Returns false after Ctrl-C. Signals are unblocked in ppoll() only,
 * because a signal between the check of the flags and the wait would not end the wait. EL: the editor; NULL:
 * during an answer. */
static bool wait_typed(EditLine *el)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t signals, before;
    bool ready = false;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGWINCH);
    sigaddset(&signals, SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    while (!ready && !interrupted) {
        if (el && (resized || resumed))
            show_again(el);
        ready = ppoll(&p, 1, NULL, &before) > 0 || errno != EINTR;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ready;
}

/* Waits for input and appends it to k->typed. Returns 1, 0 at the end of input, or -1 after Ctrl-C. */
static int read_typed(struct keys *k, EditLine *el)
{
    char bytes[4096];
    ssize_t n;

    if (k->at == k->typed.len) {
        buf_clear(&k->typed);
        k->at = 0;
    }
    if (!wait_typed(el))
        return -1;
    do
        n = read(STDIN_FILENO, bytes, sizeof(bytes));
    while (n < 0 && errno == EINTR);
    if (n > 0)
        buf_add(&k->typed, bytes, (size_t)n);
    return k->typed.oom ? 0 : n > 0 ? 1 : (int)n;
}

/* Reads text that is typed during an answer, for the next prompt. If it stayed in the terminal's queue, the
 * terminal would not process a Ctrl-C after it. */
static void type_ahead(struct talk *t)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

    if (t->el && poll(&p, 1, 0) > 0 && (p.revents & POLLIN))
        read_typed(&t->keys, NULL);
}

/* Prints the text of the answer as it is generated, and adds it to TEXT. *STOPPED: Ctrl-C ended the answer. */
static int take_answer(struct talk *t, struct buf *text, bool *stopped, struct err *e)
{
    struct gallop_event ev;
    int rc = 0;

    while (rc == 0 && print_next_event(&t->bar, t->g, t->n_before, t->n_prompt, &ev)) {
        if (ev.type == GALLOP_TEXT) {
            buf_add(text, ev.text, ev.text_len);
            print_foreign(ev.text, ev.text_len);
        } else if (ev.type == GALLOP_FINISHED) {
            *stopped = ev.finish == GALLOP_FINISH_CANCELLED;
            t->end = ev;
            if (ev.finish == GALLOP_FINISH_ERROR)
                rc = err_set(e, ERR_INPUT, "%s", ev.error);
            else if (*stopped)
                print_text(text->len  ? " [stopped]"
                           : t->again ? "[stopped; the answer stays as it was]"
                                      : "[stopped; your message is taken back]");
            else if (ev.context_full)
                print_text(" [the context is full: /new begins another conversation]");
        }
        type_ahead(t);
        rc = rc ? rc : print_flush(e);
    }
    print_text("\n");
    return rc || !text->oom ? rc : err_nomem(e, "the answer");
}

/* Prints the speed of the answer, how full the context is, and, if tokens were drawn at random, the seed. */
static void say_end(const struct talk *t, const struct sampling *s, bool drawn)
{
    const struct gallop_event *ev = &t->end;
    char rate[48] = "", seed[48] = "";

    if (drawn)
        snprintf(seed, sizeof(seed), "; seed %llu", (unsigned long long)s->seed);
    if (ev->n_output > 1 && ev->decode_s > 0)
        snprintf(rate, sizeof(rate), ", %.1f tokens/s", (double)(ev->n_output - 1) / ev->decode_s);
    if (t->el && !t->quiet)
        print_fmt("[%zu tokens%s; context %zu of %zu%s]\n", ev->n_output, rate, ev->n_prompt + ev->n_output,
                  engine_info(t->g)->model->max_model_len, seed);
    else if (drawn && !sampling_given(&t->sampling, SAMPLING_SEED))
        print_remark("the seed is %llu", (unsigned long long)s->seed);
}

/* Generates an answer to the conversation, which ends with a user's message. Sets *ANSWERED if the answer was
 * added to the conversation. */
static int answer(struct talk *t, bool *answered, struct err *e)
{
    struct sampling s = t->sampling;
    bool stopped = false, drawn = false;
    struct buf text;
    int rc;

    *answered = false;
    buf_init(&text, MEM_APP);
    interrupted = 0;
    t->bar = (struct print_bar){.what = "processing the prompt, tokens"};
    if (sampling_given(&s, SAMPLING_SEED))
        s.seed += t->n_drawn++;
    if ((rc = options_draw_seed(&s, engine_info(t->g)->defaults, &drawn, e)) == 0 &&
        (rc = submit(t, &s, e)) == 0) {
        answering = t->g;
        if (interrupted) /* Ctrl-C came before ANSWERING was set: the handler did not cancel the answer */
            gallop_cancel(t->g, 0);
        rc = take_answer(t, &text, &stopped, e);
        answering = NULL;
        print_bar_end(&t->bar);
        if (rc == 0 && (text.len || !stopped) &&
            (rc = add_message(t, "assistant", text.data ? text.data : "", text.len, e)) == 0) {
            *answered = true;
            say_end(t, &s, drawn);
        }
    }
    buf_fini(&text);
    return rc;
}

/* Adds a user's message to the conversation and shows the answer. If no answer is generated, the message is
 * removed again. */
static int send_message(struct talk *t, const char *message, size_t len, struct err *e)
{
    size_t before = json_array_size(t->messages);
    bool answered = false;
    int rc = add_message(t, "user", message, len, e);

    t->again = false;
    if (rc == 0)
        rc = answer(t, &answered, e);
    while (!answered && json_array_size(t->messages) > before)
        json_array_remove(t->messages, json_array_size(t->messages) - 1);
    return rc;
}

/* /regen: replaces the last answer by a new answer. If no new answer is generated, the old answer stays. */
static int regenerate(struct talk *t, struct err *e)
{
    size_t n = json_array_size(t->messages);
    json_t *old = n ? json_array_get(t->messages, n - 1) : NULL;
    const char *role = json_string_value(json_object_get(old, "role"));
    bool answered;
    int rc;

    if (n < 2 || !role || strcmp(role, "assistant") != 0)
        return err_set(e, ERR_INPUT, "/regen: there is no answer yet");
    json_incref(old);
    json_array_remove(t->messages, n - 1);
    t->again = true;
    rc = answer(t, &answered, e);
    if (!answered && json_array_append(t->messages, old) != 0 && rc == 0)
        rc = err_nomem(e, "the conversation");
    json_decref(old);
    return rc;
}

/* ---- /set, /save, /load ---- */

/* Returns TEXT parsed as JSON (a number, true, a list), or if it is not JSON, as a JSON string. */
static json_t *setting(const char *text)
{
    struct err ignored = {0};
    json_t *v = NULL;

    return json_pull_load_exact(&v, text, strlen(text), "/set", &ignored) == 0 ? v : json_string(text);
}

/* /set: TEXT is "N V", which sets the sampling parameter N to V, or "", which prints the parameters that were set. */
static int set(struct talk *t, const char *text, struct err *e)
{
    struct sampling s = t->sampling;
    json_t *o = json_object();
    char name[64];
    size_t n;
    int rc;

    if (strncmp(text, "parameter ", 10) == 0) /* as in ollama */
        text += 10 + strspn(text + 10, " ");
    n = strcspn(text, " ");
    snprintf(name, sizeof(name), "%.*s", (int)n, text);
    text += n + strspn(text + n, " ");
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : *p;
    if (sampling_name(name) != name)
        snprintf(name, sizeof(name), "%s", sampling_name(name));
    if (!name[0]) {
        print_json_value(t->settings);
        print_text("\n");
        rc = 0;
    } else if (!*text) {
        rc = err_set(e, ERR_INPUT, "/set %s: expected a value, as in /set temperature 0.7", name);
    } else if (json_object_set_new(o, name, setting(text)) != 0) {
        rc = err_nomem(e, "/set");
    } else if ((rc = sampling_set_json(&s, o, "/set", &t->arena, e)) == 0) {
        t->sampling = s;
        t->n_drawn = json_object_get(o, "seed") ? 0 : t->n_drawn;
        json_object_update(t->settings, o);
    }
    json_decref(o);
    return rc;
}

static bool read_line(struct talk *t, struct buf *out);

/* Asks whether to replace an existing file. Returns false if standard input is not a terminal. */
static bool asks_to_replace(struct talk *t)
{
    struct buf reply = {.tag = MEM_APP};
    bool yes;

    if (!t->el)
        return false;
    prompt_text = "the file exists; replace it? [y/N] ";
    yes = read_line(t, &reply) && reply.len && (reply.data[0] | 32) == 'y';
    prompt_text = "> ";
    buf_fini(&reply);
    return yes;
}

/* Writes the conversation. An existing file is replaced if this conversation was saved to it before, or if the user
 * says so. */
static int save(struct talk *t, const char *path, struct err *e)
{
    json_t *o = json_pack("{s:O}", "messages", t->messages);
    char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    bool own = strcmp(path, t->file) == 0;
    struct save file = {0};
    int rc = 0;

    if (!*path)
        rc = err_set(e, ERR_INPUT, "/save: expected the name of a file");
    else if (!own && access(path, F_OK) == 0 && !(own = asks_to_replace(t)))
        rc = err_set(e, ERR_INPUT, "/save %s: the file exists; expected another name", path);
    else if (!text)
        rc = err_nomem(e, "the conversation");
    else if ((rc = save_open(&file, path, own, e)) == 0 &&
             (rc = save_write(&file, text, strlen(text), e)) == 0 &&
             (rc = save_write(&file, "\n", 1, e)) == 0)
        rc = save_commit(&file, e);
    save_abort(&file);
    if (rc == 0)
        snprintf(t->file, sizeof(t->file), "%s", path);
    mem_free(text);
    json_decref(o);
    return rc;
}

/* Checks that LIST is a list of messages whose `role` and `content` are strings. */
static int check_messages(const json_t *list, const char *path, struct err *e)
{
    size_t i;
    json_t *m;

    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "/load %s: expected a list of messages, or an object with `messages`",
                       path);
    json_array_foreach(list, i, m)
    {
        if (!json_is_string(json_object_get(m, "role")) || !json_is_string(json_object_get(m, "content")))
            return err_set(e, ERR_INPUT, "/load %s: message %zu: expected the strings role and content", path,
                           i);
    }
    return 0;
}

static int load(struct talk *t, const char *path, struct err *e)
{
    json_t *o = NULL, *list, *first;
    int rc = *path ? input_json(path, &o, e) : err_set(e, ERR_INPUT, "/load: expected the name of a file");

    if (rc)
        return rc;
    list = json_is_object(o) ? json_object_get(o, "messages") : o;
    if ((rc = check_messages(list, path, e)) == 0) {
        json_decref(t->messages);
        t->messages = json_incref(list);
        first = json_array_get(list, 0);
        buf_clear(&t->system);
        if (first && strcmp(json_string_value(json_object_get(first, "role")), "system") == 0)
            buf_str(&t->system, json_string_value(json_object_get(first, "content")));
        snprintf(t->file, sizeof(t->file), "%s", path);
        print_fmt("%zu messages\n", json_array_size(list));
    }
    json_decref(o);
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

/* Returns the text after the command NAME in LINE; NULL: LINE is another command. */
static const char *behind(const char *line, const char *name)
{
    size_t n = strlen(name);

    return strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == 0) ? line + n + strspn(line + n, " ")
                                                                           : NULL;
}

/* Runs a line that begins with one slash. *LEAVE: the program ends. */
static int command(struct talk *t, const char *line, bool *leave, struct err *e)
{
    const char *text;

    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0) {
        *leave = true;
    } else if (strcmp(line, "/new") == 0) {
        return start(t, e);
    } else if ((text = behind(line, "/system")) != NULL) {
        buf_clear(&t->system);
        buf_str(&t->system, text);
        return start(t, e);
    } else if (strcmp(line, "/regen") == 0) {
        return regenerate(t, e);
    } else if ((text = behind(line, "/set")) != NULL) {
        return set(t, text, e);
    } else if ((text = behind(line, "/save")) != NULL) {
        return save(t, text, e);
    } else if ((text = behind(line, "/load")) != NULL) {
        return load(t, text, e);
    } else if (strcmp(line, "/stats") == 0) {
        print_stats(t);
    } else if (strcmp(line, "/help") == 0) {
        print_text(help_text);
    } else {
        return err_set(e, ERR_INPUT,
                       "there is no command %.*s, and nothing was sent; //text sends a message that begins "
                       "with a slash, /help lists the commands",
                       (int)strcspn(line, " \t") < 60 ? (int)strcspn(line, " \t") : 60, line);
    }
    return 0;
}

/* Checks that a line can be sent: it is complete and UTF-8. */
static int check_line(const struct talk *t, const struct buf *line, struct err *e)
{
    size_t good = utf8_valid_prefix(line->data, line->len);

    if (line->oom)
        return err_nomem(e, "a line");
    if (line->len > LINE_MAX_BYTES)
        return err_set(e, ERR_INPUT, "line %zu is longer than %d MiB, so it was not sent", t->line,
                       LINE_MAX_BYTES >> 20);
    if (good < line->len)
        return err_set(e, ERR_INPUT,
                       "line %zu, byte %zu: 0x%02x begins no UTF-8 character, so the line was not sent",
                       t->line, good + 1, (unsigned)(unsigned char)line->data[good]);
    if (t->keys.replaced && strstr(line->data, "\xef\xbf\xbd"))
        return err_set(e, ERR_INPUT, "the line was not sent: it is not UTF-8 where \xef\xbf\xbd is shown");
    return 0;
}

static int take_line(struct talk *t, const struct buf *line, bool *leave, struct err *e)
{
    int rc;

    if (line->len == 0 && !line->oom)
        return 0;
    if ((rc = check_line(t, line, e)) != 0)
        return rc;
    if (t->literal || line->data[0] != '/' || memchr(line->data, '\n', line->len))
        return send_message(t, line->data, line->len, e);
    if (line->data[1] == '/')
        return send_message(t, line->data + 1, line->len - 1, e);
    return command(t, line->data, leave, e);
}

static char *prompt(EditLine *el)
{
    static char text[48];

    (void)el;
    snprintf(text, sizeof(text), "%s", prompt_text);
    return text;
}

/* Reads the next character for the editor. The editor's own reader silently drops bytes that are not UTF-8. */
static int read_key(EditLine *el, wchar_t *out)
{
    struct keys *k;
    const char *s;
    size_t n, len;
    bool good;
    int rc;

    el_get(el, EL_CLIENTDATA, &k);
    while ((n = k->typed.len - k->at) == 0 || utf8_is_partial(k->typed.data + k->at, n))
        if ((rc = read_typed(k, el)) <= 0)
            return rc;
    s = k->typed.data + k->at;
    len = utf8_sequence(s, n, &good);
    k->at += len;
    k->replaced |= !good;
    *out = good ? (wchar_t)utf8_decode(s, &len) : 0xfffd;
    return 1;
}

/* Inserts pasted text with its line breaks into the input line. The terminal marks the end of the text. */
static unsigned char take_paste(EditLine *el, int c)
{
    static const char end[] = "\033[201~";
    struct buf text = {.tag = MEM_APP};
    size_t n = 0;
    wchar_t w;

    (void)c;
    while (text.len <= LINE_MAX_BYTES && read_key(el, &w) == 1) {
        char bytes[MB_LEN_MAX];
        int len = wctomb(bytes, w);

        buf_add(&text, bytes, len > 0 ? (size_t)len : 0);
        if (text.len >= sizeof(end) - 1 &&
            memcmp(text.data + text.len - (sizeof(end) - 1), end, sizeof(end) - 1) == 0) {
            text.len -= sizeof(end) - 1;
            break;
        }
    }
    for (size_t i = 0; i < text.len; i++) {
        bool cr = text.data[i] == '\r';

        if (text.data[i] && !(cr && i + 1 < text.len && text.data[i + 1] == '\n'))
            text.data[n++] = cr ? '\n' : text.data[i];
    }
    if (text.len && !text.oom) {
        text.data[n] = 0;
        el_insertstr(el, text.data);
    }
    buf_fini(&text);
    return CC_REFRESH;
}

/* Keeps the editor's settings of the terminal between lines: no echo during answers, and no limit of 4095 bytes
 * for a line. */
static void hold_terminal(struct talk *t)
{
    el_set(t->el, EL_PREP_TERM, 1);
}

/* Adds a line to the editor's history. */
static void remember(struct talk *t, const char *line, size_t len)
{
    HistEvent he;

    if (len && line[0] != '\n')
        history(t->history, &he, H_ENTER, line);
}

/* Reads a line from the terminal. False: end of input. */
static bool edit_line(struct talk *t, struct buf *out)
{
    const char *line;
    int n = 0;

    t->keys.replaced = false;
    interrupted = 0;
    line = el_gets(t->el, &n);
    hold_terminal(t);
    if (interrupted) { /* Ctrl-C at the prompt: the line moves to the history, and an empty one is returned */
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

/* Reads a line from a pipe or file. A line that is too long is cut one byte after the limit. False: end of input. */
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

/* Reads the next line to OUT, without its line end. False: end of input. */
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

/* True if the message continues on the next line: LINE ends with an odd number of backslashes. */
static bool goes_on(const struct buf *line)
{
    size_t n = 0;

    while (n < line->len && line->data[line->len - 1 - n] == '\\')
        n++;
    return n % 2 == 1;
}

static bool ends_block(const struct buf *line)
{
    return line->len >= 3 && memcmp(line->data + line->len - 3, "\"\"\"", 3) == 0;
}

/* Reads the next message or command to OUT: a line, several lines of which all but the last end with a
 * backslash, or a block between two """. Returns false at the end of input. After Ctrl-C, OUT is empty. */
static bool read_message(struct talk *t, struct buf *out)
{
    struct buf line = {.tag = MEM_APP};
    bool more = true, got = false;

    buf_clear(out);
    t->literal = false;
    for (size_t n = 0; more && (got = read_line(t, &line)); n++) {
        size_t skip = 0;

        if (n == 0 && line.len >= 3 && memcmp(line.data, "\"\"\"", 3) == 0) {
            t->literal = true;
            skip = 3;
        }
        more = t->literal ? line.len < skip + 3 || !ends_block(&line) : goes_on(&line);
        if (out->len <= LINE_MAX_BYTES)
            buf_add(out, line.data + skip, line.len - skip - (t->literal ? more ? 0 : 3 : more));
        if (more && !(n == 0 && skip == line.len))
            buf_char(out, '\n');
        out->oom |= line.oom;
        prompt_text = more ? "... " : "> ";
        if (t->el && interrupted) { /* Ctrl-C */
            buf_clear(out);
            break;
        }
    }
    prompt_text = "> ";
    while (t->literal && out->len && out->data[out->len - 1] == '\n')
        out->data[--out->len] = 0;
    buf_fini(&line);
    return got || out->len;
}

static void open_editor(struct talk *t)
{
    const struct sigaction end = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};
    const struct sigaction resize = {.sa_handler = on_resize}, stop = {.sa_handler = on_stop};
    HistEvent he;

    /* libedit uses the encoding of the locale, and models use UTF-8 */
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !setlocale(LC_CTYPE, "C.UTF-8") ||
        tcgetattr(STDIN_FILENO, &terminal) != 0)
        return;
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGHUP, &end, NULL);
    sigaction(SIGWINCH, &resize, NULL);
    sigaction(SIGTSTP, &stop, NULL);
    t->el = el_init("gallop", stdin, stdout, stderr);
    t->history = history_init();
    if (!t->el || !t->history)
        return;
    history(t->history, &he, H_SETSIZE, 1000);
    el_set(t->el, EL_PROMPT, prompt);
    el_set(t->el, EL_EDITOR, "emacs");
    el_set(t->el, EL_SETTY, "-d", "+noflsh", NULL); /* Ctrl-C does not discard typed text */
    el_set(t->el, EL_HIST, history, t->history);
    el_set(t->el, EL_SIGNAL, 0);
    el_set(t->el, EL_CLIENTDATA, &t->keys);
    el_set(t->el, EL_GETCFN, read_key);
    el_source(t->el, NULL);
    /* The narrow el_set() makes copies of the words and never frees them. */
    el_wset(t->el, EL_ADDFN, L"gallop-paste", L"take what is pasted as it is", take_paste);
    el_set(t->el, EL_BIND, "\\e[200~", "gallop-paste", NULL);
    hold_terminal(t);
    tell_pastes(paste_on);
}

static void close_editor(struct talk *t)
{
    if (t->history)
        history_end(t->history);
    if (t->el) {
        tell_pastes(paste_off);
        el_end(t->el);
    }
}

/* Runs the conversation to the end of input. A message that fails is reported, and the conversation continues as
 * long as output is possible. */
static int talk(struct talk *t, struct err *e)
{
    struct sigaction sa = {.sa_handler = on_interrupt};
    struct buf line;
    bool leave = false;
    int rc = start(t, e);

    sigaction(SIGINT, &sa, NULL); /* without SA_RESTART, so that a read of a pipe returns */
    open_editor(t);
    if (t->el && !t->quiet)
        print_text("Type a message; /help lists commands.\n");
    buf_init(&line, MEM_APP);
    while (rc == 0 && (rc = print_flush(e)) == 0 && !leave && read_message(t, &line)) {
        char text[sizeof(struct err)];
        struct err fault = {0};

        if (take_line(t, &line, &leave, &fault) != 0 && print_flush(NULL) == 0) {
            options_error_text(verb_chat.options, &fault, text, sizeof(text));
            log_error("%s", text);
            t->faults = true;
        }
    }
    buf_fini(&line);
    close_editor(t);
    return rc ? rc : t->faults ? -1 : 0; /* -1: a failure that was reported already */
}

static int open_talk(struct talk *t, struct chat_options *o, struct checkpoint *model, struct err *e)
{
    int rc;

    if ((rc = err_utf8(e, "--system", o->system, strlen(o->system))) != 0 ||
        (rc = options_sampling_finish(&o->sampling, &t->arena, e)) != 0 ||
        (rc = load_prepare(&o->load, e)) != 0 || (rc = load_checkpoint(&o->load, model, e)) != 0 ||
        (rc = input_template_open(&t->template, model, o->chat_template, e)) != 0)
        return rc;
    t->sampling = o->sampling.s;
    o->load.o.max_num_seqs = 1;
    if ((rc = load_engine(&o->load, model, &t->g, e)) == 0 && !engine_info(t->g)->tok)
        rc = err_set(e, ERR_INPUT, "%s", engine_info(t->g)->model->no_tokenizer);
    return rc;
}

static int chat_run(const struct opt_values *v, struct err *e)
{
    struct chat_options o = {.system = ""};
    struct talk t = {.system.tag = MEM_APP, .keys.typed.tag = MEM_APP};
    struct checkpoint model = {.in.path = NULL};
    int rc;

    load_init(&o.load);
    options_sampling_init(&o.sampling);
    opt_read(v, &o, sizeof(o));
    if (sampling_given(&o.sampling.s, SAMPLING_LOGPROBS))
        log_warn("--logprobs changes nothing in chat");
    if (sampling_is_search(&o.sampling.s))
        return err_set(e, ERR_USAGE,
                       "--%s: beam search knows the first token only at the end, and chat prints an answer "
                       "while it is made",
                       o.sampling.s.use_beam_search ? "use-beam-search" : "num-beams");
    t.quiet = o.out.quiet;
    t.plain_user_text = o.plain_user_text;
    arena_init(&t.arena, MEM_APP);
    t.settings = json_object();
    buf_str(&t.system, o.system);
    if ((rc = open_talk(&t, &o, &model, e)) == 0)
        rc = talk(&t, e);
    json_decref(t.messages);
    json_decref(t.settings);
    buf_fini(&t.system);
    buf_fini(&t.keys.typed);
    gallop_close(t.g);
    checkpoint_close(&model);
    input_template_close(&t.template);
    arena_fini(&t.arena);
    return rc;
}

const struct verb verb_chat = {
    .name = "chat",
    .summary = "chat with a model in the terminal",
    .arguments = "[options]",
    .no_words = "options only; messages are typed",
    .manual =
        "Chats with a model in the terminal, with line editing and history. Ctrl-C stops an answer; the text shown so "
        "far stays in the conversation. Pasted text is one message, with its line breaks. To type a message of "
        "several lines, end each line but the last with a backslash, or put the message between two \"\"\". Ctrl-D "
        "ends the program, `/help` lists the commands, and `//text` sends a message that begins with a slash. A "
        "message that cannot be answered is not added to the conversation.",
    .options = (const struct opt_part[]){OPT_PART(struct chat_options, load, options_model),
                                         OPT_OWN(struct chat_options, rows),
                                         OPT_PART(struct chat_options, load, options_source),
                                         OPT_PART(struct chat_options, sampling, options_sampling),
                                         OPT_PART(struct chat_options, load, options_engine),
                                         OPT_PART(struct chat_options, out, options_help), OPT_END},
    .run = chat_run,
};
