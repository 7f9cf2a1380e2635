/* verb_serve.c - `gallop serve`: OpenAI's API over HTTP, until a signal ends it.
 *
 * After the first SIGTERM or SIGINT new requests are refused, and running ones have --shutdown-timeout to
 * finish before they are aborted. The second signal ends the program at once. An alarm limits the time of the
 * shutdown in both cases. SIGHUP reads the files of keys and certificates again. */
#include <jansson.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "api/crash_table.h"
#include "api/http/keys.h"
#include "app/answering.h"
#include "app/crash.h"
#include "app/input.h"
#include "app/load.h"
#include "app/options.h"
#include "app/verb.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json/json_pull.h"
#include "base/json/json_tree.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/threads/pool.h"
#include "ckpt/checkpoint.h"
#include "engine/engine.h"
#include "kern/roof.h"
#include "net/cors.h"
#include "net/server.h"
#include "net/systemd.h"
#include "net/tls/tls.h"
#include "page/page.h"
#include "text/chat.h"
#include "text/markup/markup.h"

/* The options for client keys, or for admin keys. */
struct key_options {
    struct param_list keys;
    const char *file; /* path of a file with further keys; NULL: none */
    const char *flag; /* the option that gives KEYS, for messages */
};

struct serve_options {
    struct load load;
    struct options_output out;
    struct api_options api;
    struct server_options server;
    struct tls_options tls;
    struct key_options client_keys, admin_keys;
    const char *uds;
    const char *origins, *methods, *headers; /* values of the CORS options; NULL: not given */
    struct answering_options answering;
    const char *chat_template;
    double request_gib, shutdown_s;
    bool allow_no_keys, allow_credentials, tokenizer_info, measure_roof, log_json, has_seed;
};

#define INTO(member) OPT_INTO(struct serve_options, member)

static const struct opt_row rows[] = {
    {"host", 0, PARAM_TEXT, "ADDR", EVERYDAY, .help = "address to listen on", .fallback = "127.0.0.1",
     .env = "GALLOP_HOST",
     .manual = "A server that other machines can reach needs --api-key, --api-key-file or --allow-no-keys.",
     INTO(server.host)},
    {"port", 0, PARAM_INT, "N", EVERYDAY, .help = "port to listen on; 0: any free port", .fallback = "8000",
     .values = "[0,65535]", .env = "GALLOP_PORT", INTO(server.port)},
    {"uds", 0, PARAM_TEXT, "PATH", SERVER, .help = "Unix socket to listen on, instead of --host and --port",
     INTO(uds)},
    {"api-key", 0, PARAM_TEXT, "KEY", EVERYDAY,
     .help = "API key that clients must send; with several keys, any of them", .repeat = true,
     .env = "GALLOP_API_KEY",
     .manual =
         "For a moment at the start, other users of the machine may see the option in the list of processes; with "
         "--api-key-file or the environment variable they do not. Clients send the key as a bearer token "
         "or in X-Api-Key. With API keys, every path except the page, /health, /ready, /version and /api/version "
         "needs one. Requests of different keys share no KV blocks, and --scheduling-policy fair divides the time "
         "among the keys.",
     INTO(client_keys.keys)},
    {"api-key-file", 0, PARAM_TEXT, "F", SERVER,
     .help =
         "file with API keys, one on each line; lines that begin with # are comments; the server reads the file "
         "again at SIGHUP",
     .manual =
         "After a key, a line may have requests_per_minute=N and tokens_per_minute=N (of prompts and answers), which "
         "limit the clients of the key. Requests beyond a limit are answered with 429 and Retry-After.",
     INTO(client_keys.file)},
    {"admin-api-key", 0, PARAM_TEXT, "KEY", SERVER,
     .help =
         "key for /metrics, /load and the status of the server; without it, API keys give access to these paths",
     .env = "GALLOP_ADMIN_API_KEY",
     .manual =
         "With an admin key, /metrics, /load and the status of the server need it, and API keys do not give access "
         "to them. An admin key cannot be used for inference. It can cancel the requests of all keys by their ids. "
         "/health, /ready, /version and /api/version need no key.",
     INTO(admin_keys.keys)},
    {"admin-api-key-file", 0, PARAM_TEXT, "F", SERVER,
     .help = "file with admin keys, one on each line; the server reads the file again at SIGHUP",
     INTO(admin_keys.file)},
    {"allow-no-keys", 0, PARAM_FLAG, NULL, SERVER,
     .help = "let other machines use the server without API keys", INTO(allow_no_keys)},
    {"allowed-origins", 0, PARAM_TEXT, "LIST", SERVER,
     .help =
         "origins of web pages that may use the server (CORS): a JSON list, or separated by commas; *: all",
     .otherwise = "only pages of the server itself",
     .manual =
         "Browsers do not let pages of other origins read answers unless the server allows it. vLLM's default is *. "
         "API keys are needed in any case.",
     INTO(origins)},
    {"allowed-methods", 0, PARAM_TEXT, "LIST", SERVER,
     .help = "HTTP methods that pages of --allowed-origins may use", .otherwise = "all", INTO(methods)},
    {"allowed-headers", 0, PARAM_TEXT, "LIST", SERVER,
     .help = "headers that pages of --allowed-origins may send", .otherwise = "all", INTO(headers)},
    {"allow-credentials", 0, PARAM_FLAG, NULL, SERVER,
     .help =
         "let pages of --allowed-origins send credentials; these are what the browser keeps, such as cookies of a "
         "proxy",
     INTO(allow_credentials)},
    {"ssl-certfile", 0, PARAM_TEXT, "F.pem", SERVER,
     .help =
         "serve HTTPS with the certificate in this PEM file; the certificates of its chain follow it in the file",
     .manual =
         "TLS 1.2 and 1.3. SIGHUP reads the files of --ssl-certfile, --ssl-keyfile and --ssl-ca-certs again, for "
         "new connections. If a file cannot be used, the server logs an error and keeps the old certificate.",
     INTO(tls.certificate)},
    {"ssl-keyfile", 0, PARAM_TEXT, "F.pem", SERVER,
     .help = "private key of the certificate, without a passphrase", .otherwise = "the key in --ssl-certfile",
     INTO(tls.key)},
    {"ssl-ca-certs", 0, PARAM_TEXT, "F.pem", SERVER,
     .help = "CA certificates to check client certificates against", INTO(tls.authorities)},
    {"ssl-cert-reqs", 0, PARAM_INT, "N", SERVER,
     .help = "whether clients must send a certificate: 0 it is not requested, 1 optional, 2 required",
     .fallback = "0", .values = "[0,2]",
     .manual = "The numbers are those of Python's ssl module. A certificate does not replace an API key.",
     INTO(tls.clients)},
    {"chat-template", 0, PARAM_TEXT, "F.jinja", SERVER,
     .help = "file with a chat template that replaces the model's", INTO(chat_template)},
    OPTION_USER_TEXT(SERVER, INTO(api.service.plain_user_text)),
    {"enable-auto-tool-choice", 0, PARAM_FLAG, NULL, SERVER,
     .help = "accepted for compatibility with vLLM; tool calls are parsed in any case"},
    {"generation-config", 0, PARAM_CHOICE, NULL, SERVER,
     .help =
         "source of sampling defaults: the model's generation_config.json (auto); neutral values (vllm); or "
         "neutral values, with greedy answers to requests without a temperature (pace)",
     .values = "auto|vllm|pace", .fallback = "auto", INTO(api.service.defaults)},
    {"max-logprobs", 0, PARAM_INT, "K", SERVER,
     .help = "maximum number of log-probabilities for each token; requests for more are refused",
     .fallback = "20", .values = "[0,1024]", INTO(api.service.max_logprobs)},
    {"seed", 0, PARAM_BITS, "N", SERVER, .help = "seed of requests that give none",
     .otherwise = "a random one for each request, which is logged",
     OPT_INTO(struct serve_options, load.o.seed), OPT_SOURCE(struct serve_options, has_seed)},
    {"request-timeout", 0, PARAM_REAL, "S", SERVER, .help = "maximum time of a request in seconds",
     .otherwise = "no limit", .values = "(0,1000000]", INTO(api.service.request_timeout_s)},
    {"shutdown-timeout", 0, PARAM_REAL, "S", SERVER,
     .help = "seconds for running requests to finish at shutdown; SIGTERM or SIGINT starts it",
     .fallback = "30", .values = "[0,1000000]", INTO(shutdown_s)},
    {"step-timeout", 0, PARAM_REAL, "S", SERVER,
     .help = "seconds after which a step counts as stuck; 0: never", .fallback = "120",
     .values = "[0,1000000]",
     .manual =
         "Until a stuck step ends, /health and /ready answer 503, and the watchdog of a service manager is not "
         "notified.",
     INTO(api.step_timeout_s)},
    {"max-connections", 0, PARAM_INT, "N", SERVER,
     .help = "maximum number of connections; further connections are answered with 503", .fallback = "4096",
     .values = "[1,1000000]", INTO(server.max_connections)},
    {"max-body-bytes", 0, PARAM_INT, "N", SERVER, .help = "maximum size of a request body in bytes",
     .fallback = "33554432", .values = "[1024,1073741824]", INTO(server.max_body_bytes)},
    {"max-bodies-bytes", 0, PARAM_INT, "N", SERVER,
     .help = "maximum size of all request bodies together in bytes; further requests are answered with 503",
     .otherwise = "8 times --max-body-bytes", .values = "[1024,1099511627776]",
     .manual = "Only bodies larger than 16 KiB count, from their arrival until their requests are answered.",
     INTO(server.max_bodies_bytes)},
    {"max-request-memory", 0, PARAM_REAL, "GIB", SERVER,
     .help = "memory for all requests and their answers in GiB; further requests are answered with 429",
     .fallback = "2", .values = "[0.001,1000000]",
     .manual =
         "This memory holds the JSON, prompts, tokens and penalties of waiting and running requests, and the text of "
         "their answers. The KV cache and incoming bodies (--max-bodies-bytes) have limits of their own.",
     INTO(request_gib)},
    {"stall-timeout", 0, PARAM_REAL, "S", SERVER,
     .help = "seconds that a client may pause within a request; after that the request is answered with 408",
     .fallback = "10", .values = "(0,1000000]",
     .manual =
         "A whole request must arrive within 30 seconds, and 30 more for each MiB of its body that has arrived.",
     INTO(server.stall_s)},
    {"api-threads", 0, PARAM_INT, "N", SERVER,
     .help =
         "threads that parse and tokenize requests; they also render chat templates and write long answers, and as "
         "many, but at least two, compile constraints on answers",
     .fallback = "3", .values = "[1,64]", INTO(api.n_threads)},
    {"enable-tokenizer-info-endpoint", 0, PARAM_FLAG, NULL, SERVER,
     .help = "serve /tokenizer_info (tokenizer_config.json and the chat template)", INTO(tokenizer_info)},
    {"measure-roof", 0, PARAM_FLAG, NULL, SERVER,
     .help =
         "measure memory and arithmetic rates at the start (0.5 s); the live view then shows how much of them is "
         "reached",
     INTO(measure_roof)},
    {"log-format", 0, PARAM_CHOICE, NULL, SERVER,
     .help = "format of the log on standard error; json: a JSON object on each line", .values = "text|json",
     .fallback = "text", .env = "GALLOP_LOG_FORMAT", INTO(log_json)},
    {"no-access-log", 0, PARAM_FLAG, NULL, SERVER, .help = "do not write a log line for each request",
     INTO(api.quiet)},
    {0}};

enum {
    QUEUED = 1024,          /* default of --max-num-queued-reqs */
    SPARE_DESCRIPTORS = 64, /* open files besides connections */
    LAST_S = 5,             /* maximum seconds for the threads to end once the server quits */
    CLOSE_S = 30,           /* maximum further seconds to free memory and close files */
};

#define ROOF_S  0.3 /* seconds of one measurement of peak bandwidth or peak arithmetic rate */
#define FLUSH_S 3.0 /* seconds to send finished answers, also to clients that do not read */

/* A run of the verb. */
struct serve {
    struct arena secrets; /* the keys of the options */
    struct serve_options o;
    struct checkpoint model;
    struct gallop *engine;
    struct answering answering;
    struct buf tokenizer_info; /* terminated; empty: /tokenizer_info is not served */
    struct keys keys, admin;
    struct cors cors;
    struct tls *tls; /* NULL: none */
    struct api *api;
    struct server *server;
    int passed[SYSTEMD_MAX_SOCKETS]; /* [n_passed] listening sockets, passed by systemd or opened here */
    size_t n_passed;
    bool owns_path;           /* the socket at --uds was opened here */
    double watchdog_s, fed_s; /* watchdog's interval in seconds (0: none), time of the last notification */
    double abort_s, quit_s;   /* times at which requests are aborted, and the server quits; 0: not set */
};

/* ---- signals ---- */

static struct server *volatile serving; /* the server, for the signal handler */
static volatile sig_atomic_t n_signals, reload;

static struct api *volatile computing; /* the API, for the crash report */

/* Writes the running requests to the crash report, without their texts. */
static void describe_requests(void)
{
    const struct crash_table_row *r = NULL;
    size_t n = 0;

    if (computing)
        r = api_running(computing, &n);
    for (size_t i = 0; i < n; i++) {
        struct crash_line l = {.n = 0};

        if (!atomic_load(&r[i].used))
            continue;
        crash_put(&l, "request ");
        crash_put(&l, r[i].id);
        crash_put(&l, ": ");
        crash_put_number(&l, atomic_load(&r[i].n_prompt), 10);
        crash_put(&l, " tokens of prompt, ");
        crash_put_number(&l, atomic_load(&r[i].n_output), 10);
        crash_put(&l, " of answers");
        crash_end(&l);
    }
}

static volatile sig_atomic_t grace_s; /* seconds after which an alarm ends a slow shutdown */

/* The handler of the alarm: the shutdown took too long. */
static void on_overdue(int sig)
{
    static const char line[] =
        "gallop: shutting down took too long: a thread is stuck, the program exits now\n";
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    (void)sig;
    if (poll(&p, 1, 0) > 0 && write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
        _exit(1); /* standard error cannot be written */
    _exit(1);
}

/* Records the signal for on_wake(). An alarm limits the time of the shutdown, even if a thread is stuck. */
static void on_signal(int sig)
{
    if (sig == SIGHUP)
        reload = 1;
    else if (++n_signals <= 2) /* further signals do not extend the time */
        alarm(n_signals > 1 ? LAST_S : (unsigned)grace_s);
    if (serving)
        server_wake(serving);
}

/* The path of --uds, for the handler while the model is loaded. */
static const char *early_path;

/* Removes the socket and lets the signal end the program. */
static void on_early_signal(int sig)
{
    unlink(early_path);
    raise(sig); /* SA_RESETHAND has restored the default action, which follows on return */
}

static void catch_early_signals(const char *path)
{
    struct sigaction sa = {.sa_handler = on_early_signal, .sa_flags = (int)SA_RESETHAND};

    early_path = path;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
}

static bool has_key_file(const struct serve_options *o)
{
    return o->client_keys.file || o->admin_keys.file;
}

/* Sets the handlers. Without files of keys or certificates, SIGHUP comes from a closed terminal and keeps its
 * default, which ends the program; but with a service manager it is caught, since the manager sends SIGHUP to
 * every server that it reloads. */
static void catch_signals(const struct serve *s)
{
    struct sigaction sa = {.sa_handler = on_signal}, overdue = {.sa_handler = on_overdue};

    serving = s->server;
    grace_s = (sig_atomic_t)(ceil(s->o.shutdown_s + FLUSH_S) + LAST_S);
    sigemptyset(&sa.sa_mask);
    sigemptyset(&overdue.sa_mask);
    sigaction(SIGALRM, &overdue, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    if (s->tls || has_key_file(&s->o) || systemd_is_there())
        sigaction(SIGHUP, &sa, NULL);
}

/* Notifies the watchdog of the service manager as long as the event loop runs and the engine is not stuck. */
static void feed_watchdog(struct serve *s)
{
    double now = clock_seconds();

    if (s->watchdog_s <= 0 || now - s->fed_s < s->watchdog_s / 4 || api_stalled(s->api))
        return;
    systemd_notify("WATCHDOG=1");
    s->fed_s = now;
}

static void tell_reloading(void)
{
    char state[64];

    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)(clock_ns() / 1000));
    systemd_notify(state);
}

static void read_again(struct serve *s);

/* Runs on the server's thread several times a second: notifies the watchdog, reads files again after SIGHUP,
 * and advances the shutdown. */
static void on_wake(void *ctx)
{
    struct serve *s = ctx;
    double now;

    feed_watchdog(s);
    if (reload) {
        reload = 0;
        tell_reloading();
        read_again(s);
        systemd_notify("READY=1");
    }
    if (!n_signals)
        return;
    now = clock_seconds();
    if (!s->abort_s) {
        systemd_notify("STOPPING=1");
        log_info("shutting down: waiting up to %.0f s for %zu request%s to finish", s->o.shutdown_s,
                 api_n_requests(s->api), api_n_requests(s->api) == 1 ? "" : "s");
        api_drain(s->api);
        s->abort_s = now + s->o.shutdown_s;
    }
    if (n_signals > 1) {
        server_quit(s->server);
        return;
    }
    if (now >= s->abort_s && api_n_requests(s->api))
        api_abort(s->api);
    if (now >= s->abort_s + FLUSH_S) /* requests that still run now cannot be aborted */
        server_quit(s->server);
    if (api_n_requests(s->api) == 0 || (now >= s->abort_s && api_n_computing(s->api) == 0)) {
        s->quit_s = s->quit_s > 0 ? s->quit_s : now + FLUSH_S;
        if (server_n_connections(s->server) == 0 ||
            (now >= s->quit_s && (now >= s->abort_s || server_n_writing(s->server) == 0)))
            server_quit(s->server);
    }
}

/* ---- reading and checking the options ---- */

/* Moves the keys of O from the arguments, which every user of the machine can read, to memory of A. */
static int hide_keys(struct key_options *o, struct arena *a, struct err *e)
{
    struct param_value *hidden = arena_zalloc(a, o->keys.n, sizeof(*hidden));

    for (size_t i = 0; hidden && i < o->keys.n; i++) {
        const char *text = o->keys.value[i].text;

        hidden[i] = o->keys.value[i];
        hidden[i].text = arena_strndup(a, text, strlen(text));
        if (!hidden[i].text)
            return err_nomem(e, "keys");
        memset((char *)(uintptr_t)text, '*', strlen(text));
    }
    o->keys.value = hidden;
    return hidden ? 0 : err_nomem(e, "keys");
}

/* Adds the keys of O and of its file to K. *N_FILE: the number of keys in the file. */
static int read_keys(struct keys *k, const struct key_options *o, size_t *n_file, struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < o->keys.n && rc == 0; i++)
        rc = keys_add(k, o->keys.value[i].text, o->flag, e);
    if (rc == ERR_INPUT)
        return e->code = ERR_USAGE;
    *n_file = k->n;
    if (rc == 0 && o->file) {
        struct buf text = {.tag = MEM_APP};

        if ((rc = input_file(o->file, &text, e)) == 0)
            rc = keys_add_lines(k, text.data ? text.data : "", text.len, o->file, e);
        buf_fini(&text);
    }
    *n_file = k->n - *n_file;
    return rc;
}

/* Reads the keys of O at the start of the program. Here a file without a key is refused; when it is read
 * again, it is accepted. */
static int read_first_keys(struct keys *k, const struct key_options *o, struct err *e)
{
    size_t n_file;
    int rc = read_keys(k, o, &n_file, e);

    if (rc == 0 && o->file && n_file == 0)
        return err_set(e, ERR_INPUT, "%s: the file holds no key, expected at least one", o->file);
    return rc;
}

/* Reads client keys and admin keys, and refuses a key that is both. */
static int read_all_keys(struct serve *s, struct err *e)
{
    int rc;

    if ((rc = read_first_keys(&s->keys, &s->o.client_keys, e)) != 0 ||
        (rc = read_first_keys(&s->admin, &s->o.admin_keys, e)) != 0)
        return rc;
    return keys_overlap(&s->keys, &s->admin)
               ? err_set(
                     e, ERR_USAGE,
                     "--admin-api-key: found a key that is also a client's key (--api-key), expected another")
               : 0;
}

/* Finds the addresses of --host and --port, which the caller frees. */
static int find_addresses(struct addrinfo **found, const struct serve *s, struct err *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_ADDRCONFIG};
    char port[16];
    int rc;

    snprintf(port, sizeof(port), "%d", s->o.server.port);
    if ((rc = getaddrinfo(s->o.server.host, port, &hints, found)) == 0)
        return 0;
    return err_set(e, ERR_INPUT, "--host %s: %s", s->o.server.host, gai_strerror(rc));
}

static int refuse_host(const struct serve *s, struct err *e)
{
    return err_set(
        e, ERR_USAGE,
        "--host %s: other machines can reach this address, which needs --api-key or --api-key-file, or "
        "--allow-no-keys",
        s->o.server.host);
}

/* Refuses an address that other machines can reach if there are no API keys, unless --allow-no-keys is
 * given. */
static int check_exposure(const struct serve *s, struct err *e)
{
    struct addrinfo *found;
    bool is_local = true;
    int rc;

    if (s->keys.n || s->o.allow_no_keys)
        return 0;
    for (size_t i = 0; i < s->n_passed; i++)
        if (!server_is_local(s->passed[i]))
            return err_set(
                e, ERR_USAGE,
                "LISTEN_FDS: other machines can reach socket %d, which needs --api-key or --api-key-file, or "
                "--allow-no-keys",
                s->passed[i]);
    if (s->n_passed || s->o.uds)
        return 0;
    if ((rc = find_addresses(&found, s, e)) != 0)
        return rc;
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        is_local &= server_is_loopback(at->ai_addr);
    freeaddrinfo(found);
    return is_local ? 0 : refuse_host(s, e);
}

/* Checks that a body of the largest allowed size fits into the memory for all bodies. */
static int check_bodies(const struct server_options *o, struct err *e)
{
    if (o->max_bodies_bytes && o->max_bodies_bytes < o->max_body_bytes)
        return err_set(e, ERR_USAGE, "--max-bodies-bytes: found %zu, expected at least --max-body-bytes %zu",
                       o->max_bodies_bytes, o->max_body_bytes);
    return 0;
}

/* Opens the certificate of O. Without --ssl-certfile *OUT is NULL. */
static int read_tls(struct tls **out, const struct tls_options *o, struct err *e)
{
    *out = NULL;
    if (!o->certificate && (o->key || o->authorities || o->clients))
        return err_set(e, ERR_USAGE, "%s needs --ssl-certfile",
                       o->key           ? "--ssl-keyfile"
                       : o->authorities ? "--ssl-ca-certs"
                                        : "--ssl-cert-reqs");
    if (o->clients && !o->authorities)
        return err_set(e, ERR_USAGE, "--ssl-cert-reqs %d needs --ssl-ca-certs", (int)o->clients);
    if (o->authorities && !o->clients)
        log_warn(
            "--ssl-ca-certs changes nothing without --ssl-cert-reqs 1 or 2: clients are not asked for certificates");
    return o->certificate ? tls_open(out, o, e) : 0;
}

/* Reads the keys again while requests are served. A file that contains no key any more is accepted; its
 * earlier keys are removed. OTHER: the keys of the other kind (client or admin), which must be different. */
static int read_keys_again(struct keys *k, const struct key_options *o, size_t *n_file,
                           const struct keys *other, struct err *e)
{
    struct stat st;
    int rc;

    if (stat(o->file, &st) != 0)
        return err_os(e, "read", o->file);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INPUT, "%s: this is not a regular file, so it cannot be read again", o->file);
    k->closed = true;
    if ((rc = read_keys(k, o, n_file, e)) == 0 && keys_overlap(k, other))
        return err_set(e, ERR_INPUT, "%s: a client's key is also an admin key", o->file);
    return rc;
}

static void replace_keys(struct keys *k, const struct key_options *o, const struct keys *other)
{
    struct keys keys = {.n = 0};
    struct err e = {.code = 0};
    size_t n_file;

    if (!o->file)
        return;
    if (read_keys_again(&keys, o, &n_file, other, &e) != 0) {
        keys_fini(&keys);
        log_error("%s; the old keys stay in use", e.msg);
        return;
    }
    keys_keep_used(&keys, k);
    keys_fini(k);
    *k = keys;
    if (n_file)
        log_info("%s: read again, %zu keys in all", o->file, k->n);
    else if (k->n)
        log_error("%s: read again, but the file holds no key; only the %zu of %s are left", o->file, k->n,
                  o->flag);
    else
        log_error("%s: read again, but the file holds no key; all requests are refused until it holds one",
                  o->file);
}

/* Reads keys and certificates again. If reading one of them fails, its old values stay in use. Running
 * requests and connections continue. */
static void read_again(struct serve *s)
{
    struct tls *tls;
    struct err e = {.code = 0};

    if (!has_key_file(&s->o) && !s->tls)
        log_info("SIGHUP: there are no files of keys or certificates to read again");
    replace_keys(&s->keys, &s->o.client_keys, &s->admin);
    replace_keys(&s->admin, &s->o.admin_keys, &s->keys);
    if (s->tls && read_tls(&tls, &s->o.tls, &e) == 0) {
        server_set_tls(s->server, tls);
        tls_close(s->tls);
        s->tls = tls;
        log_info("%s: read again, for new connections", s->o.tls.certificate);
    } else if (s->tls) {
        log_error("%s; the old certificate stays in use", e.msg);
    }
}

/* Makes all checks that need no model, before the server listens. */
static int check_options(struct serve *s, struct err *e)
{
    const struct serve_options *o = &s->o;
    int rc;

    if ((rc = check_bodies(&o->server, e)) != 0 ||
        (rc = answering_open(&s->answering, &o->answering, e)) != 0 ||
        (rc = options_check_engine(&o->load.o, e)) != 0 || (rc = read_tls(&s->tls, &o->tls, e)) != 0)
        return rc;
    return cors_open(&s->cors, o->origins, o->methods, o->headers, o->allow_credentials, e);
}

/* Returns a copy of V in which each object that describes a token, such as {"content": "<s>", ...}, is
 * replaced by its string "content". NULL: out of memory. */
static json_t *with_plain_tokens(json_t *v)
{
    json_t *content = json_object_get(v, "content"), *out, *member;
    const char *key;
    size_t i;
    int bad = 0;

    if (json_is_string(content))
        return json_incref(content);
    if ((!json_is_object(v) && !json_is_array(v)) || json_large_text(v, &i))
        return json_incref(v);
    out = json_is_object(v) ? json_object() : json_array();
    json_object_foreach(v, key, member) bad |= json_object_set_new(out, key, with_plain_tokens(member));
    json_array_foreach(v, i, member)
    {
        bad |= json_array_append_new(out, with_plain_tokens(member));
    }
    if (bad) {
        json_decref(out);
        out = NULL;
    }
    return out;
}

/* Prepares the answer of /tokenizer_info: the contents of the model's tokenizer_config.json, if there is one,
 * with the chat template that the server uses. */
static int read_tokenizer_info(struct serve *s, struct err *e)
{
    struct folder_text t = {.bytes = NULL};
    json_t *file = NULL, *info;
    bool there = false;
    int rc = 0;

    if (!s->o.tokenizer_info)
        return 0;
    if (!s->model.gguf.n && (rc = folder_read(&t, s->model.in, "tokenizer_config.json", &there, e)) == 0 &&
        there)
        rc = json_pull_load_exact(&file, t.bytes, t.len, t.path, e);
    folder_text_fini(&t);
    if (rc)
        return rc;
    info = json_is_object(file) ? with_plain_tokens(file) : json_object();
    if (!json_object_get(info, "tokenizer_class"))
        json_object_set_new(info, "tokenizer_class", json_string("PreTrainedTokenizerFast"));
    if (s->answering.template.template.source)
        json_object_set_new(info, "chat_template", json_string(s->answering.template.template.source));
    s->tokenizer_info.tag = MEM_APP;
    s->tokenizer_info.oom = info == NULL;
    if (info)
        buf_json_tree(&s->tokenizer_info, info, false);
    buf_char(&s->tokenizer_info, 0);
    json_decref(info);
    json_decref(file);
    return s->tokenizer_info.oom ? err_nomem(e, "tokenizer_config.json") : 0;
}

/* ---- from options to a running server ---- */

/* Returns N, or fewer if the system allows fewer open files. */
static size_t count_connections(size_t n)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0)
        return n;
    if (lim.rlim_cur < lim.rlim_max && lim.rlim_cur < n + SPARE_DESCRIPTORS) {
        lim.rlim_cur = lim.rlim_max < n + SPARE_DESCRIPTORS ? lim.rlim_max : n + SPARE_DESCRIPTORS;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
    if (lim.rlim_cur < n + SPARE_DESCRIPTORS) {
        n = lim.rlim_cur > 2 * SPARE_DESCRIPTORS ? (size_t)lim.rlim_cur - SPARE_DESCRIPTORS
                                                 : SPARE_DESCRIPTORS;
        log_warn(
            "--max-connections: the system allows %llu open files, so at most %zu connections are accepted",
            (unsigned long long)lim.rlim_cur, n);
    }
    return n;
}

/* Measures memory bandwidth and arithmetic rate (the roofs) with the threads and the number format of the
 * engine. Takes about half a second. */
static int measure_roof(const struct serve *s, struct api_options *o, struct err *e)
{
    struct gallop_stats stats;
    struct roof_meter roofs;
    struct roof roof;
    struct pool *pool;
    int rc;

    gallop_stats(s->engine, &stats);
    if ((rc = pool_new(&pool, stats.threads, e)) != 0)
        return rc;
    if ((rc = roof_meter_open(&roofs, pool, e)) == 0)
        roof_meter_measure(&roofs, ROOF_S, &roof);
    roof_meter_close(&roofs);
    pool_free(pool);
    if (rc)
        return rc;
    o->roof_bytes = roof.dram_bytes;
    o->roof_flops = strcmp(stats.dtype, "bf16") == 0 ? roof.bf16_flops : roof.fp32_flops;
    log_info("roof: %.1f GB/s, %.0f GFLOP/s", o->roof_bytes / 1e9, o->roof_flops / 1e9);
    return 0;
}

static int open_api(struct serve *s, size_t max_queued, struct err *e)
{
    const char *policy = s->o.load.o.scheduling_policy;
    struct api_options *o = &s->o.api;
    int rc;

    answering_serve(&s->answering, s->engine, &o->service);
    o->tokenizer_info = s->tokenizer_info.data;
    o->keys = &s->keys;
    o->admin = &s->admin;
    o->max_running = strcmp(s->o.load.o.scheduler, "iterative") == 0 ? 1 : (size_t)s->o.load.o.max_num_seqs;
    o->max_queued = max_queued ? max_queued : QUEUED;
    o->max_request_bytes = (size_t)(s->o.request_gib * 1073741824.0);
    o->fair = strcmp(policy, "fair") == 0;
    o->service.priorities = strcmp(policy, "fcfs") != 0;
    o->cors = s->o.origins ? &s->cors : NULL;
    o->page = page_answer;
    o->page_has = page_has;
    if (s->o.measure_roof && (rc = measure_roof(s, o, e)) != 0)
        return rc;
    return api_open(&s->api, o, e);
}

static int bind_port(struct serve *s, struct err *e)
{
    const char *host = s->o.server.host;
    struct addrinfo *found;
    char where[300];
    int fd, rc, one = 1;

    snprintf(where, sizeof(where), strchr(host, ':') ? "[%.255s]:%d" : "%.255s:%d", host, s->o.server.port);
    if ((rc = find_addresses(&found, s, e)) != 0)
        return rc;
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    rc = fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
         bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0;
    freeaddrinfo(found);
    if (rc)
        return err_os(e, "listen on", where);
    if (!s->keys.n && !s->o.allow_no_keys && !server_is_local(fd)) { /* the host's address has changed */
        close(fd);
        return refuse_host(s, e);
    }
    s->passed[s->n_passed++] = fd;
    return 0;
}

/* Listens at --uds, or at --host and --port, before the model is loaded. An address in use is reported at
 * once, and clients that connect during the loading wait until the server is ready. */
static int bind_address(struct serve *s, struct err *e)
{
    int rc;

    if (s->n_passed) /* the sockets of a service manager */
        return 0;
    if (!s->o.uds)
        return bind_port(s, e);
    if ((rc = server_listen_path(s->o.uds, &s->passed[0], e)) == 0) {
        s->owns_path = true;
        catch_early_signals(s->o.uds);
        s->n_passed = 1;
    }
    return rc;
}

static int open_server(struct serve *s, struct err *e)
{
    struct server_options *o = &s->o.server;
    int rc;

    o->fd = s->passed;
    o->n_fds = s->n_passed;
    o->tls = s->tls;
    o->max_connections = count_connections(o->max_connections);
    api_handle(s->api, o);
    if ((rc = server_open(&s->server, o, e)) != 0)
        return rc;
    api_on_wake(s->api, on_wake, s);
    return api_start(s->api, s->server, e);
}

/* Opens the engine, and reads the chat template, markup and pooling of the model for the API. */
static int open_model(struct serve *s, struct err *e)
{
    struct load *l = &s->o.load;
    size_t max_queued = (size_t)l->o.max_num_queued_reqs;
    int rc;

    if ((rc = load_prepare(l, e)) != 0 || (rc = load_checkpoint(l, &s->model, e)) != 0)
        return rc;
    answering_name(&s->answering, l);
    if ((rc = answering_read(&s->answering, &s->model, s->o.chat_template, e)) != 0 ||
        (rc = read_tokenizer_info(s, e)) != 0)
        return rc;
    l->headless = true;
    l->o.kv_cache_unbounded = 0; /* a server eventually fills its pool */
    s->o.api.max_queued_tokens = (size_t)l->o.max_num_queued_tokens;
    l->o.max_num_queued_reqs = l->o.max_num_queued_tokens =
        0; /* the API limits the queue, before tokenizing */
    if ((rc = load_engine(l, &s->model, &s->engine, e)) != 0 ||
        (rc = answering_check(&s->answering, s->engine, e)) != 0)
        return rc;
    return open_api(s, max_queued, e);
}

static int serve(struct serve *s, struct err *e)
{
    int rc;

    if ((rc = hide_keys(&s->o.client_keys, &s->secrets, e)) != 0 ||
        (rc = hide_keys(&s->o.admin_keys, &s->secrets, e)) != 0 ||
        (rc = systemd_sockets(s->passed, &s->n_passed, e)) != 0 || (rc = read_all_keys(s, e)) != 0 ||
        (rc = check_exposure(s, e)) != 0 || (rc = check_options(s, e)) != 0 ||
        (rc = bind_address(s, e)) != 0 || (rc = open_model(s, e)) != 0)
        return rc;
    if ((rc = open_server(s, e)) == 0) {
        computing = s->api;
        catch_signals(s);
        log_info("%s is served at %s", s->answering.name[0], server_address(s->server));
        answering_log_markup(&s->answering);
        s->watchdog_s = systemd_watchdog_s();
        systemd_notify("READY=1\nSTATUS=accepting requests");
        server_run(s->server);
        serving = NULL;
    }
    api_stop(s->api);
    if (n_signals)
        alarm(CLOSE_S);
    return rc;
}

static int serve_run(const struct opt_values *v, struct err *e)
{
    struct serve s = {.o.client_keys.flag = "--api-key", .o.admin_keys.flag = "--admin-api-key"};
    int rc;

    arena_init(&s.secrets, MEM_APP);
    load_init(&s.o.load);
    opt_read(v, &s.o, sizeof(s.o));
    s.o.load.o.has_seed = s.o.has_seed;
    if (log_level() == LOG_WARN) /* not --quiet */
        log_set_level(LOG_INFO);
    log_set_dropping(true);
    mem_return_large();
    crash_watch(describe_requests);
    log_set_format(s.o.log_json ? LOG_JSON : LOG_TIMED);
    rc = serve(&s, e);
    computing = NULL;
    if (s.owns_path) /* first: once the socket is closed, a different server may take the path */
        unlink(s.o.uds);
    server_close(s.server);
    tls_close(s.tls);
    api_close(s.api);
    gallop_close(s.engine);
    answering_close(&s.answering);
    checkpoint_close(&s.model);
    arena_fini(&s.secrets);
    keys_fini(&s.keys);
    keys_fini(&s.admin);
    cors_close(&s.cors);
    buf_fini(&s.tokenizer_info);
    return rc;
}

const struct verb verb_serve = {
    .name = "serve",
    .summary = "serve a model over HTTP with OpenAI's API",
    .arguments = "[options]",
    .no_words = "options only; -m names the model",
    .manual =
        "Serves OpenAI's API (/v1/completions, /v1/chat/completions and more, streaming or not) with vLLM's "
        "extensions, names and defaults, and Anthropic's and Ollama's APIs; docs/API.md lists every field. The page "
        "at / shows a chat and a live view. After the first SIGTERM or SIGINT the server finishes the running "
        "requests, for at most --shutdown-timeout seconds, and exits. A second signal ends it at once.",
    .options = (const struct opt_part[]){OPT_PART(struct serve_options, load, options_model),
                                         OPT_OWN(struct serve_options, rows),
                                         OPT_PART(struct serve_options, answering, answering_rows),
                                         OPT_PART(struct serve_options, load, options_source),
                                         OPT_PART(struct serve_options, load, options_engine),
                                         OPT_PART(struct serve_options, load, options_scheduling),
                                         OPT_PART(struct serve_options, out, options_help), OPT_END},
    .run = serve_run,
};
