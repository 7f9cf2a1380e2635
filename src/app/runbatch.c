/* runbatch.c - submits all, collects events by request, prints in input order. */
#include "app/runbatch.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "app/out.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/source.h"

struct runbatch_item {
    const char *text; /* NULL: ids */
    size_t len;
    const int32_t *ids;
    size_t n_ids;
    struct sampling sampling;
    bool own_sampling;
    bool done;
    struct err fault; /* refused or failed */
    struct tok_ids out;
    struct buf answer;
    json_t *logprobs;
    struct gallop_event end; /* strings in the arena */
};

void runbatch_init(struct runbatch *b)
{
    *b = (struct runbatch){0};
    arena_init(&b->arena, MEM_APP);
    sampling_default(&b->sampling);
}

void runbatch_fini(struct runbatch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        tok_ids_fini(&b->item[i].out);
        buf_fini(&b->item[i].answer);
        json_decref(b->item[i].logprobs);
    }
    gallop_close(b->engine);
    mem_free(b->item);
    arena_fini(&b->arena);
}

static struct runbatch_item *add(struct runbatch *b, struct err *e)
{
    struct runbatch_item *it;

    if (!mem_grow((void **)&b->item, &b->cap, b->n + 1, sizeof(*b->item), MEM_APP)) {
        err_nomem(e, "requests");
        return NULL;
    }
    it = &b->item[b->n++];
    *it = (struct runbatch_item){0};
    buf_init(&it->answer, MEM_APP);
    return it;
}

int runbatch_add_text(struct runbatch *b, const char *text, size_t len, struct err *e)
{
    struct runbatch_item *it = add(b, e);

    if (!it)
        return ERR_NOMEM;
    it->text = arena_strndup(&b->arena, text, len);
    it->len = len;
    return it->text ? 0 : err_nomem(e, "requests");
}

int runbatch_add_ids(struct runbatch *b, const int32_t *ids, size_t n, struct err *e)
{
    struct runbatch_item *it = add(b, e);
    int32_t *copy = arena_zalloc(&b->arena, n + 1, sizeof(*ids));

    if (!it || !copy)
        return err_nomem(e, "requests");
    if (n)
        memcpy(copy, ids, n * sizeof(*ids));
    it->ids = copy;
    it->n_ids = n;
    return 0;
}

/* ---- reading a batch file ---- */

static int read_ids(struct runbatch *b, struct runbatch_item *it, const json_t *list, const char *what,
                    struct err *e)
{
    size_t n = json_array_size(list);
    int32_t *ids = arena_zalloc(&b->arena, n + 1, sizeof(*ids));

    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "%s: ids is not a list", what);
    if (!ids)
        return err_nomem(e, "requests");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);

        if (!json_is_integer(v) || json_integer_value(v) > INT32_MAX || json_integer_value(v) < INT32_MIN)
            return err_set(e, ERR_INPUT, "%s: ids[%zu] is not a token id", what, i);
        ids[i] = (int32_t)json_integer_value(v);
    }
    it->ids = ids;
    it->n_ids = n;
    return 0;
}

static int read_request(struct runbatch *b, struct runbatch_item *it, json_t *o, const char *what,
                        struct err *e)
{
    json_t *prompt = json_object_get(o, "prompt"), *ids = json_object_get(o, "ids");
    int rc = 0;

    if (!json_is_object(o))
        return err_set(e, ERR_INPUT, "%s: an object is expected", what);
    if (!prompt == !ids)
        return err_set(e, ERR_INPUT, "%s: either prompt or ids is expected", what);
    if (ids)
        rc = read_ids(b, it, ids, what, e);
    else if (!json_is_string(prompt))
        rc = err_set(e, ERR_INPUT, "%s: prompt is not a string", what);
    else if (!(it->text = arena_strndup(&b->arena, json_string_value(prompt), json_string_length(prompt))))
        rc = err_nomem(e, "requests");
    if (rc)
        return rc;
    it->len = prompt ? json_string_length(prompt) : 0;
    json_object_del(o, "prompt");
    json_object_del(o, "ids");
    it->sampling = b->sampling;
    it->own_sampling = true;
    return sampling_set_json(&it->sampling, o, what, &b->arena, e);
}

int runbatch_read(struct runbatch *b, const char *path, struct err *e)
{
    struct buf text;
    size_t line = 0;
    int rc;

    buf_init(&text, MEM_APP);
    rc = common_read_file(path, &text, e);
    for (char *p = text.data, *end; rc == 0 && p && p < text.data + text.len; p = end + 1) {
        struct runbatch_item *it;
        char what[256];
        json_error_t je;
        json_t *o;

        end = memchr(p, '\n', (size_t)(text.data + text.len - p));
        end = end ? end : text.data + text.len;
        line++;
        if (strspn(p, " \t\r") >= (size_t)(end - p))
            continue;
        snprintf(what, sizeof(what), "%s: line %zu", path, line);
        if (!(it = add(b, e))) {
            rc = ERR_NOMEM;
            break;
        }
        o = json_loadb(p, (size_t)(end - p), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
        if (!o)
            err_set(&it->fault, ERR_INPUT, "%s: %s", what, je.text);
        else
            read_request(b, it, o, what, &it->fault);
        json_decref(o);
        if (it->fault.code == ERR_NOMEM)
            rc = err_nomem(e, "requests");
    }
    buf_fini(&text);
    return rc;
}

int runbatch_size(const struct runbatch *b, struct gallop_options *o, struct err *e)
{
    if (b->n == 0)
        return err_set(e, ERR_INPUT, "the batch holds no request");
    o->max_num_seqs = (int64_t)(b->n < 32 ? b->n : 32);
    return 0;
}

/* ---- running ---- */

static int wrap_in_template(struct runbatch *b, const char *model, struct err *e)
{
    struct chat *chat = NULL;
    time_t now = time(NULL);
    struct tm tm;
    int rc = source_chat(&chat, model, e);

    localtime_r(&now, &tm);
    if (rc == 0 && !chat_has_template(chat))
        rc = err_set(e, ERR_INPUT, "%s: this model has no chat template", model);
    for (size_t i = 0; i < b->n && rc == 0; i++) {
        struct runbatch_item *it = &b->item[i];
        struct buf out;
        json_t *list;

        if (!it->text)
            continue;
        buf_init(&out, MEM_APP);
        list = json_pack("[{s:s,s:s%}]", "role", "user", "content", it->text, it->len);
        rc = list ? chat_render(chat, list, NULL, true, &tm, &out, e) : err_nomem(e, "a message");
        json_decref(list);
        if (rc == 0) {
            it->len = out.len;
            it->text = arena_strndup(&b->arena, out.data ? out.data : "", out.len);
            rc = it->text ? 0 : err_nomem(e, "a message");
        }
        buf_fini(&out);
    }
    chat_close(chat);
    return rc;
}

static void submit(struct runbatch *b, struct runbatch_item *it)
{
    struct gallop_request r;

    gallop_request_init(&r);
    r.text = it->text;
    r.text_len = it->len;
    r.ids = it->ids;
    r.n_ids = it->n_ids;
    r.no_special = b->no_special || (b->chat && it->text); /* a template writes its own BOS */
    r.keep_special = b->keep_special;
    r.user = (void *)(it - b->item);
    if (!it->fault.code)
        gallop_submit_sampling(b->engine, &r, it->own_sampling ? &it->sampling : &b->sampling, NULL,
                               &it->fault);
}

static void take_logprob(struct runbatch_item *it, const struct gallop_event *ev)
{
    json_t *top = json_array(), *o;

    if (!it->logprobs)
        it->logprobs = json_array();
    for (size_t i = 0; i < ev->n_top; i++)
        json_array_append_new(top, json_pack("[i,f]", (int)ev->top[i].id, (double)ev->top[i].logprob));
    o = json_pack("{s:i,s:f,s:o}", "id", (int)ev->token, "logprob", (double)ev->logprob, "top", top);
    json_array_append_new(it->logprobs, o);
}

static void take_event(struct runbatch *b, const struct gallop_event *ev)
{
    struct runbatch_item *it = &b->item[(size_t)ev->user];
    const struct sampling *s = it->own_sampling ? &it->sampling : &b->sampling;

    switch (ev->type) {
    case GALLOP_TOKEN:
        if (mem_grow((void **)&it->out.id, &it->out.cap, it->out.n + 1, sizeof(*it->out.id), MEM_TEXT))
            it->out.id[it->out.n++] = ev->token;
        if (s->logprobs >= 0)
            take_logprob(it, ev);
        break;
    case GALLOP_TEXT:
        buf_add(&it->answer, ev->text, ev->text_len);
        if (b->stream && !b->json)
            out_bytes(ev->text, ev->text_len);
        break;
    case GALLOP_FINISHED:
        it->end = *ev;
        it->done = true;
        if (ev->stop_string)
            it->end.stop_string = arena_strndup(&b->arena, ev->stop_string, strlen(ev->stop_string));
        if (ev->error)
            err_set(&it->fault, ERR_INPUT, "%s", ev->error);
    }
}

/* ---- printing ---- */

static json_t *ids_json(const int32_t *id, size_t n)
{
    json_t *a = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_integer(id[i]));
    return a;
}

static json_t *prompt_json(struct runbatch *b, const struct runbatch_item *it)
{
    struct tok_ids ids = {0};
    json_t *a;

    if (!it->text)
        return ids_json(it->ids, it->n_ids);
    tok_encode(gallop_llm(b->engine)->tok, it->text, it->len, b->no_special || b->chat ? 0 : TOK_ADD_SPECIAL,
               &ids, NULL);
    a = ids_json(ids.id, ids.n);
    tok_ids_fini(&ids);
    return a;
}

static void print_json(struct runbatch *b, size_t i)
{
    const struct runbatch_item *it = &b->item[i];
    const struct gallop_event *ev = &it->end;
    json_t *o = json_object();

    json_object_set_new(o, "index", json_integer((json_int_t)i));
    if (it->fault.code) {
        json_object_set_new(o, "error", json_string(it->fault.msg));
        common_print_json(o);
        return;
    }
    json_object_set_new(o, "prompt_ids", prompt_json(b, it));
    json_object_set_new(o, "output_ids", ids_json(it->out.id, it->out.n));
    if (gallop_llm(b->engine)->tok)
        json_object_set_new(o, "text", json_stringn(it->answer.data ? it->answer.data : "", it->answer.len));
    json_object_set_new(o, "finish_reason",
                        json_string(ev->finish == GALLOP_FINISH_LENGTH ? "length" : "stop"));
    json_object_set_new(o, "stop_reason",
                        ev->stop_string       ? json_string(ev->stop_string)
                        : ev->stop_token >= 0 ? json_integer(ev->stop_token)
                                              : json_null());
    if (it->logprobs)
        json_object_set(o, "logprobs", it->logprobs);
    json_object_set_new(o, "timing",
                        json_pack("{s:f,s:f,s:f,s:I,s:I}", "load_s", gallop_llm(b->engine)->load_s,
                                  "prefill_s", ev->prefill_s, "decode_s", ev->decode_s, "prompt_tokens",
                                  (json_int_t)ev->n_prompt, "output_tokens", (json_int_t)ev->n_output));
    common_print_json(o);
}

static void print_ids(const struct runbatch_item *it)
{
    for (size_t i = 0; i < it->out.n; i++)
        out_fmt(i ? ",%d" : "%d", (int)it->out.id[i]);
    out_text("\n");
}

static void print(struct runbatch *b, size_t i)
{
    const struct runbatch_item *it = &b->item[i];

    if (it->fault.code) {
        if (b->n > 1)
            log_error("request %zu: %s", i, it->fault.msg);
        else
            log_error("%s", it->fault.msg);
        b->n_failed++;
    } else if (it->end.context_full) {
        log_warn("request %zu: the context of %zu tokens is full after %zu new tokens", i,
                 gallop_llm(b->engine)->max_len, it->end.n_output);
    }
    if (b->json)
        print_json(b, i);
    else if (!gallop_llm(b->engine)->tok)
        print_ids(it); /* nothing else can be shown */
    else if (b->stream && it->answer.len)
        out_text("\n");
    else if (!b->stream && !it->fault.code)
        out_fmt("--- %zu\n%s\n", i, it->answer.data ? it->answer.data : "");
}

int runbatch_run(struct runbatch *b, const char *model, struct err *e)
{
    struct gallop_event ev;
    size_t printed = 0;
    int rc;

    if (b->chat && (rc = wrap_in_template(b, model, e)) != 0)
        return rc;
    for (size_t i = 0; i < b->n; i++) {
        submit(b, &b->item[i]);
        b->item[i].done = b->item[i].fault.code != 0;
    }
    for (bool more = true; more;) {
        for (; printed < b->n && b->item[printed].done; printed++)
            print(b, printed);
        if ((rc = out_flush(e)) != 0)
            return rc; /* closing the engine drops what still runs */
        more = gallop_next(b->engine, &ev) != 0;
        if (more)
            take_event(b, &ev);
    }
    return b->n_failed ? -1 : 0;
}
