/* constraint.c - compiles the source of a constraint (schema, regex, grammar ...), and keeps the recognizer's
 * row after each token of an answer. */
#include "text/grammar/constraint.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/json/json_pull.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/grammar/automata/pattern.h"
#include "text/grammar/automata/recognizer.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/places.h"
#include "text/grammar/preface.h"
#include "text/grammar/schema/json_text.h"
#include "text/grammar/schema/schema.h"
#include "text/grammar/tags.h"
#include "text/grammar/token_masks.h"
#include "text/grammar/token_trie.h"
#include "text/grammar/tool_calls.h"

/* The limits of steps. A step computes one new transition, in about 100 ns. */
enum {
    COMPILE_STEPS = 20000000, /* for compiling a source: about 2 s, also the limit of processor time */
    /* A mask or token that takes more is not followed by guesses. Successive tokens take similar work, so guesses stay
     * far from CONSTRAINT_MASK_STEPS. */
    GUESS_STEPS = CONSTRAINT_MASK_STEPS / 64,
};

#define COMPILE_NS UINT64_C(2000000000)

struct constraint_vocabulary {
    struct token_trie trie, first_trie; /* FIRST_TRIE: texts of tokens at the start of an answer */
    bool differs;                       /* FIRST_TRIE differs from TRIE; otherwise it is empty */
    /* [is_compact] Results of the walks inside any JSON string and inside any property name (token_masks.h),
     * which nearly all schemas need and which take the most time. */
    struct token_masks_walk string[2], name[2];
};

struct constraint {
    const struct constraint_vocabulary *v;
    struct grammar g;
    struct recognizer r;
    struct token_masks masks, first_masks;
    struct constraint_budget *budget; /* memory budget shared with other constraints; NULL: none */
    size_t n_counted;                 /* bytes counted in the budget */
    size_t last_steps;                /* steps of the last mask or token */
    struct places places;             /* the schema from which each rule comes, for error messages */
    char **warning;                   /* [n_warnings] sentences about keywords that are not enforced */
    size_t n_warnings, cap_warnings;
    _Atomic bool is_spent; /* see constraint_is_spent() */
};

/* ---- vocabularies ---- */

static bool is_same_trie(const struct token_trie *a, const struct token_trie *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; i < a->n && same; i++)
        same = a->node[i].token == b->node[i].token && a->node[i].byte == b->node[i].byte &&
               a->node[i].skip == b->node[i].skip;
    return same && memcmp(a->ending, b->ending, a->n_vocab * sizeof(*a->ending)) == 0;
}

/* Sets *STRING to the regular expression for the rest of any JSON string, and *NAME to that for the rest of
 * any property name. IS_COMPACT: the answers have no white space between JSON tokens. */
static void common_strings(struct regex_store *s, bool is_compact, uint32_t *string, uint32_t *name)
{
    uint32_t quote = regex_range(s, '"', '"'), colon = regex_range(s, ':', ':');
    struct json_text j;

    json_text_init(&j, s, is_compact);
    *string = regex_concat(s, j.string, quote);
    *name = regex_concat(s, *string, regex_concat(s, colon, j.space));
}

static int walk_strings(struct constraint_vocabulary *v, struct err *e)
{
    int rc = 0;

    for (int is_compact = 0; is_compact < 2 && rc == 0; is_compact++) {
        uint32_t string, name;
        struct grammar g;

        if (grammar_open(&g, CONSTRAINT_MAX_BYTES, COMPILE_STEPS) != 0)
            return err_nomem(e, "the token masks of a vocabulary");
        common_strings(&g.regex, is_compact, &string, &name);
        rc = token_masks_walk_open(&v->string[is_compact], &g, string, &v->trie, e);
        rc = rc ? rc : token_masks_walk_open(&v->name[is_compact], &g, name, &v->trie, e);
        grammar_close(&g);
    }
    return rc;
}

int constraint_vocabulary_new(struct constraint_vocabulary **out, const struct tok *tok, struct err *e)
{
    struct constraint_vocabulary *v = mem_zalloc(1, sizeof(*v), MEM_TEXT);
    int rc = v ? token_trie_open(&v->trie, tok, false, e) : err_nomem(e, "the trie of the vocabulary");

    rc = rc ? rc : token_trie_open(&v->first_trie, tok, true, e);
    rc = rc ? rc : walk_strings(v, e);
    if (rc) {
        constraint_vocabulary_free(v);
        return rc;
    }
    v->differs = !is_same_trie(&v->trie, &v->first_trie);
    if (!v->differs)
        token_trie_close(&v->first_trie);
    *out = v;
    return 0;
}

void constraint_vocabulary_free(struct constraint_vocabulary *v)
{
    if (!v)
        return;
    token_trie_close(&v->trie);
    token_trie_close(&v->first_trie);
    for (int is_compact = 0; is_compact < 2; is_compact++) {
        token_masks_walk_close(&v->string[is_compact]);
        token_masks_walk_close(&v->name[is_compact]);
    }
    mem_free(v);
}

size_t constraint_mask_words(const struct constraint_vocabulary *v)
{
    return (v->trie.n_vocab + 31) / 32;
}

/* ---- sources ---- */

static int read_regex(struct grammar *g, const struct constraint_source *s, uint32_t *start, struct err *e)
{
    uint32_t regex = REGEX_NOTHING;
    int rc = pattern_read(&g->regex, s->text, s->n, regex_characters, PATTERN_WHOLE, &regex, e);

    *start = rc ? GRAMMAR_NEVER : grammar_term(g, regex);
    return rc;
}

static int read_choices(struct grammar *g, const struct constraint_source *s, uint32_t *start, struct err *e)
{
    json_t *list = NULL;
    uint32_t *regex = NULL;
    size_t n = 0;
    int rc = json_pull_load(&list, s->text, s->n, "the choices", e);

    if (rc == 0 && (!json_is_array(list) || json_array_size(list) == 0))
        rc = err_set(e, ERR_INPUT, "the choices are %s, expected a list of one or more strings",
                     json_is_array(list) ? "an empty list" : "not a list");
    regex = rc ? NULL : mem_alloc(json_array_size(list) * sizeof(*regex), MEM_TEXT);
    if (rc == 0 && !regex)
        rc = err_nomem(e, "the choices");
    for (; rc == 0 && n < json_array_size(list); n++) {
        const json_t *text = json_array_get(list, n);

        if (!json_is_string(text) || json_string_length(text) == 0)
            rc = err_set(e, ERR_INPUT, "choice %zu is %s, expected a string that is not empty", n,
                         json_is_string(text) ? "empty" : "not a string");
        else
            regex[n] = regex_literal(&g->regex, json_string_value(text), json_string_length(text));
    }
    *start = rc ? GRAMMAR_NEVER : grammar_term(g, regex_union(&g->regex, regex, n));
    mem_free(regex);
    json_decref(list);
    return rc;
}

/* The context of compiling schemas: their options, and the place of the last error. */
struct schemas {
    struct schema_options options;
    struct constraint_fault *fault;
    struct constraint *c; /* receives the warnings */
};

static struct schema_options schema_options_of(const struct constraint_source *s)
{
    return (struct schema_options){.is_loose = s->is_lax,
                                   .without_space = s->is_compact,
                                   .space_pattern = s->whitespace,
                                   .every_spelling = s->every_spelling,
                                   .is_open = s->is_open};
}

static int add_warning(struct constraint *c, const char *sentence, struct err *e)
{
    char *copy = mem_strndup(sentence, strlen(sentence), MEM_TEXT);

    if (!copy ||
        !mem_grow((void **)&c->warning, &c->cap_warnings, c->n_warnings + 1, sizeof(*c->warning), MEM_TEXT)) {
        mem_free(copy);
        return err_nomem(e, "a constraint");
    }
    c->warning[c->n_warnings++] = copy;
    return 0;
}

enum { MOST_WARNINGS = 64 /* of a constraint, which may have many schemas */ };

/* Adds a warning to C and to the log for each keyword of a schema that is not enforced, up to MOST_WARNINGS, and
 * one more if there are further keywords. */
static int add_warnings(struct constraint *c, const struct schema_report *report, struct err *e)
{
    char sentence[SCHEMA_KEYWORD_BYTES + SCHEMA_POINTER_BYTES + 80];
    size_t n_added = 0;
    int rc = 0;

    for (size_t i = 0; i < report->n && c->n_warnings < MOST_WARNINGS && rc == 0; i++, n_added++) {
        const struct schema_place *p = &report->warning[i];

        snprintf(sentence, sizeof(sentence),
                 "JSON schema: the keyword %s at %s is not supported and is ignored", p->keyword,
                 p->pointer[0] ? p->pointer : "the root");
        log_warn("%s", sentence);
        rc = add_warning(c, sentence, e);
    }
    if (rc || c->n_warnings > MOST_WARNINGS || (!report->has_more && n_added == report->n))
        return rc;
    return add_warning(c, "JSON schema: more keywords are ignored", e);
}

/* Records that the rules from number FIRST on come from the schema at POINTER, and those in REPORT from its
 * subschemas. FUNCTION: the function whose parameters the schema describes; NULL: none. */
static int add_places(struct constraint *c, size_t first, const struct schema_report *report,
                      const char *function, const char *pointer, struct err *e)
{
    int rc =
        places_add(&c->places, (uint32_t)first, (uint32_t)c->g.n_rules, function, pointer ? pointer : "", e);

    for (size_t i = 0; i < report->n_rules && rc == 0; i++)
        rc = places_add(&c->places, report->rule[i].number, report->rule[i].number + 1, function,
                        report->rule[i].pointer, e);
    return rc;
}

/* Compiles SCHEMA, which describes the parameters of FUNCTION (NULL: it belongs to no function). */
static int compile_schema(struct schemas *s, const struct schema_options *o, struct grammar *g,
                          const json_t *schema, const char *function, uint32_t *start, struct err *e)
{
    struct schema_report report = {.n = 0};
    size_t first = g->n_rules;
    int rc = schema_compile(g, schema, o, start, &report, e);

    snprintf(s->fault->keyword, sizeof(s->fault->keyword), "%s", report.fault.keyword);
    snprintf(s->fault->pointer, sizeof(s->fault->pointer), "%s", report.fault.pointer);
    rc = rc ? rc : add_warnings(s->c, &report, e);
    rc = rc ? rc : add_places(s->c, first, &report, function, o->pointer, e);
    schema_report_fini(&report);
    return rc;
}

/* Compiles a schema inside a structural tag, or a whole schema (type tags_schema). */
static int read_schema(void *context, struct grammar *g, const json_t *schema, uint32_t *start, struct err *e)
{
    struct schemas *s = context;

    return compile_schema(s, &s->options, g, schema, NULL, start, e);
}

/* Compiles the JSON Schema of FUNCTION's parameters (type tool_calls_schema). */
static int read_parameters(void *context, struct grammar *g, const struct tool_calls_function *function,
                           uint32_t *start, struct err *e)
{
    struct schemas *s = context;
    struct schema_options o = s->options;
    json_t *any = function->parameters ? NULL : json_pack("{s:s}", "type", "object");
    int rc;

    o.is_loose |= function->is_lax;
    o.pointer = function->pointer;
    o.is_object = !function->value_close;
    o.excluded = function->value_close;
    rc = function->parameters || any
             ? compile_schema(s, &o, g, function->parameters ? function->parameters : any, function->name,
                              start, e)
             : err_nomem(e, "a grammar of tool calls");
    json_decref(any);
    return rc;
}

/* Reads a source in JSON: a schema ({"type":"object"} for any object) or a structural tag. */
static int read_json(struct constraint *c, const struct constraint_source *s, uint32_t *start,
                     struct constraint_fault *fault, struct err *e)
{
    static const char object[] = "{\"type\":\"object\"}";
    bool is_object = s->kind == CONSTRAINT_JSON_OBJECT, is_tag = s->kind == CONSTRAINT_TAG;
    struct schemas context = {schema_options_of(s), fault, c};
    json_t *value = NULL;
    int rc = json_pull_load_exact(&value, is_object ? object : s->text, is_object ? sizeof(object) - 1 : s->n,
                                  is_tag ? "the structural tag" : "the JSON schema", e);

    if (rc == 0)
        rc = is_tag ? tags_read(&c->g, value, read_schema, &context, start, e)
                    : read_schema(&context, &c->g, value, start, e);
    json_decref(value);
    return rc;
}

static int read_source(struct constraint *c, const struct constraint_source *s, uint32_t *start,
                       struct constraint_fault *fault, struct err *e)
{
    struct grammar *g = &c->g;

    switch (s->kind) {
    case CONSTRAINT_REGEX: return read_regex(g, s, start, e);
    case CONSTRAINT_CHOICE: return read_choices(g, s, start, e);
    case CONSTRAINT_GRAMMAR: return gbnf_read(g, s->text, s->n, start, e);
    case CONSTRAINT_NONE: return 0;
    case CONSTRAINT_JSON_OBJECT:
    case CONSTRAINT_JSON_SCHEMA:
    case CONSTRAINT_TAG: break;
    }
    return read_json(c, s, start, fault, e);
}

/* Reads the tool calls of S. *START is the expression of whole answers. */
static int read_tools(struct constraint *c, const struct constraint_source *s, struct tool_calls *calls,
                      uint32_t *start, struct constraint_fault *fault, struct err *e)
{
    struct schemas context = {schema_options_of(s), fault, c};
    json_t *value = NULL;
    int rc = strlen(s->tools) > CONSTRAINT_MAX_SOURCE
                 ? err_set(e, ERR_INPUT, "the functions have %zu bytes, expected at most %d",
                           strlen(s->tools), CONSTRAINT_MAX_SOURCE)
                 : json_pull_load_exact(&value, s->tools, strlen(s->tools), "the tool calls", e);

    rc = rc ? rc : tool_calls_read(&c->g, value, &c->v->trie, read_parameters, &context, calls, start, e);
    json_decref(value);
    return rc;
}

/* Compiles S, and the text that may precede the constrained part: reasoning or harmony messages. */
static int read_answer(struct constraint *c, const struct constraint_source *s, uint32_t *start,
                       struct constraint_fault *fault, struct err *e)
{
    const struct token_trie *trie = &c->v->trie;
    struct tool_calls calls = {.n = 0};
    struct grammar *g = &c->g;
    uint32_t marks, x;
    int rc = read_source(c, s, start, fault, e);

    calls.content = *start;
    if (rc == 0 && s->tools) {
        rc = read_tools(c, s, &calls, start, fault, e);
        fault->is_in_tools = rc != 0;
    }
    if (rc)
        return rc;
    if (s->has_channels && !calls.markup.name)
        *start = preface_messages(g, trie, false, preface_final(g, trie, *start));
    if (!s->after)
        return 0;
    marks = calls.markup.name ? tool_calls_marks(&g->regex, &calls.markup) : REGEX_NOTHING;
    x = s->open ? preface_between(g, trie, s->open, s->after, marks, *start)
                : preface_after(g, trie, s->after, marks, *start);
    /* If tool calls may occur anywhere in free text, an answer without the end of reasoning is valid too. */
    if (calls.markup.mark && calls.is_free && s->kind == CONSTRAINT_NONE)
        x = grammar_either(g, *start, x);
    *start = x;
    return 0;
}

/* ---- constraints ---- */

/* Lets C use the vocabulary's walks inside strings. */
static void share_walks(struct constraint *c, bool is_compact)
{
    uint32_t string, name;

    common_strings(&c->g.regex, is_compact, &string, &name);
    token_masks_share(&c->masks, string, &c->v->string[is_compact]);
    token_masks_share(&c->masks, name, &c->v->name[is_compact]);
}

/* Finishes the grammar of C, in which START is the expression of whole answers to the source S, and opens the
 * recognizer and the token masks. Error messages begin with the schema, if all rules come from one. */
static int make_ready(struct constraint *c, const struct constraint_source *s, uint32_t start,
                      struct constraint_fault *fault, struct err *e)
{
    const struct constraint_vocabulary *v = c->v;
    int rc = grammar_finish(&c->g, start, e);

    rc = rc ? rc : recognizer_open(&c->r, &c->g, e);
    rc = rc ? rc : token_masks_open(&c->masks, &c->r, &v->trie, e);
    if (rc == 0 && v->differs)
        rc = token_masks_open(&c->first_masks, &c->r, &v->first_trie, e);
    if (rc == 0)
        share_walks(c, s->is_compact);
    rc = rc ? rc : grammar_fault(&c->g, e);
    fault->is_in_tools = rc && s->kind == CONSTRAINT_NONE;
    if (rc && rc != ERR_NOMEM && e && places_only(&c->places))
        err_prefix(e, "%s", places_only(&c->places));
    return rc;
}

int constraint_new(struct constraint **out, const struct constraint_source *source,
                   const struct constraint_vocabulary *v, struct constraint_fault *fault, struct err *e)
{
    struct constraint_fault ignored;
    struct constraint *c;
    uint32_t start = GRAMMAR_NEVER;
    int rc;

    fault = fault ? fault : &ignored;
    *fault = (struct constraint_fault){0};
    if (source->n > CONSTRAINT_MAX_SOURCE)
        return err_set(e, ERR_INPUT, "the source has %zu bytes; the maximum is %d", source->n,
                       CONSTRAINT_MAX_SOURCE);
    c = mem_zalloc(1, sizeof(*c), MEM_TEXT);
    if (!c || grammar_open(&c->g, CONSTRAINT_MAX_BYTES, COMPILE_STEPS) != 0) {
        mem_free(c);
        return err_nomem(e, "a constraint");
    }
    c->v = v;
    c->g.regex.max_ns = c->g.regex.pause_ns = COMPILE_NS;
    rc = read_answer(c, source, &start, fault, e);
    rc = rc ? rc : make_ready(c, source, start, fault, e);
    if (rc) {
        constraint_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void constraint_free(struct constraint *c)
{
    if (!c)
        return;
    if (c->budget)
        atomic_fetch_sub(&c->budget->bytes, c->n_counted);
    token_masks_close(&c->masks);
    token_masks_close(&c->first_masks);
    places_close(&c->places);
    recognizer_close(&c->r);
    grammar_close(&c->g);
    for (size_t i = 0; i < c->n_warnings; i++)
        mem_free(c->warning[i]);
    mem_free(c->warning);
    mem_free(c);
}

const char *const *constraint_warnings(const struct constraint *c, size_t *n)
{
    *n = c->n_warnings;
    return (const char *const *)c->warning;
}

size_t constraint_bytes(const struct constraint *c)
{
    return sizeof(*c) + c->g.regex.bytes;
}

int constraint_error(const struct constraint *c, struct err *e)
{
    const struct regex_store *s = &c->g.regex;
    int rc = grammar_fault(&c->g, e);

    if (rc == ERR_NOSPACE && (s->fault != REGEX_OVER_MEMORY || s->max_bytes == CONSTRAINT_MAX_BYTES)) {
        rc = ERR_UNSUPPORTED;
        if (e)
            e->code = rc;
    }
    return rc;
}

bool constraint_matches(struct constraint *c, const char *text, size_t n)
{
    regex_allow(&c->g.regex, COMPILE_STEPS, COMPILE_STEPS);
    return recognizer_matches(&c->r, text, n);
}

bool constraint_is_spent(const struct constraint *c)
{
    return atomic_load(&c->is_spent);
}

bool constraint_is_paused(const struct constraint *c)
{
    return c->g.regex.fault == REGEX_PAUSED;
}

/* ---- answers ---- */

/* Updates C's share of the budget to the memory that C uses now. */
static void count_bytes(struct constraint *c)
{
    size_t bytes = constraint_bytes(c);

    atomic_fetch_add(&c->budget->bytes,
                     bytes - c->n_counted); /* wraps if the memory shrank; the sum is right */
    c->n_counted = bytes;
}

void constraint_share(struct constraint *c, struct constraint_budget *budget)
{
    c->budget = budget;
    count_bytes(c);
}

/* The memory accounting of a thread, which is saved before it works on an answer and restored afterwards. */
struct payer {
    enum mem_charge charge;
    uint32_t client;
};

/* Charges the memory that this thread allocates to the request of R, until pay_no_more(). */
static struct payer pay_for(const struct constraint_run *r)
{
    return (struct payer){mem_charge(MEM_CHARGE_OLD), mem_set_client(r->client)};
}

static void pay_no_more(struct payer before)
{
    mem_charge(before.charge);
    mem_set_client(before.client);
}

/* Sets the limits for the next mask or token of R: the steps, and the memory that is left in the budget. */
static void limit_use(const struct constraint_run *r)
{
    struct constraint *c = r->c;
    struct regex_store *s = &c->g.regex;
    bool is_bounded = c->budget && !mem_budget();
    size_t used = is_bounded ? atomic_load(&c->budget->bytes) : 0, left = !is_bounded ? CONSTRAINT_MAX_BYTES
                                                                          : used < c->budget->most
                                                                              ? c->budget->most - used
                                                                              : 0;

    regex_allow(s, r->steps ? r->steps->left : CONSTRAINT_MASK_STEPS, CONSTRAINT_MASK_STEPS);
    s->max_bytes = s->bytes < CONSTRAINT_MAX_BYTES && left < CONSTRAINT_MAX_BYTES - s->bytes
                       ? s->bytes + left
                       : CONSTRAINT_MAX_BYTES;
}

/* Updates the budget, and records the work and whether C can be used for more answers. */
static void note_use(const struct constraint_run *r)
{
    struct constraint *c = r->c;
    bool is_paused = constraint_is_paused(c);

    c->last_steps = c->g.regex.steps + CONSTRAINT_MASK_STEPS - c->g.regex.max_steps;
    if (r->steps) {
        r->steps->left -= c->last_steps < r->steps->left ? c->last_steps : r->steps->left;
        r->steps->done += c->last_steps;
    }
    if (is_paused) /* the steps that it needs are not known */
        c->last_steps = SIZE_MAX;
    if (c->budget)
        count_bytes(c);
    if ((c->g.regex.fault != REGEX_FINE && !is_paused) || c->g.regex.bytes > CONSTRAINT_MAX_BYTES / 2)
        atomic_store(&c->is_spent, true);
}

int constraint_run_open(struct constraint_run *r, struct constraint *c, size_t cap, struct err *e)
{
    *r = (struct constraint_run){.c = c, .client = mem_client(), .cap = cap};
    r->row = cap < SIZE_MAX / sizeof(*r->row) ? mem_alloc((cap + 1) * sizeof(*r->row), MEM_TEXT) : NULL;
    if (!r->row)
        return err_nomem(e, "the rows of a constrained answer");
    r->row[0] = RECOGNIZER_BEGIN;
    return 0;
}

void constraint_run_close(struct constraint_run *r)
{
    mem_free(r->row);
    *r = (struct constraint_run){0};
}

/* Returns the masks for the next token: at the start of an answer, some tokens have other texts. */
static struct token_masks *masks_of(const struct constraint_run *r)
{
    return r->n == 0 && r->c->v->differs ? &r->c->first_masks : &r->c->masks;
}

size_t constraint_run_mask(struct constraint_run *r, uint32_t *mask, struct err *e)
{
    struct payer before = pay_for(r);
    size_t n;

    limit_use(r);
    n = token_masks_get(masks_of(r), r->row[r->n], mask);
    note_use(r);
    pay_no_more(before);
    if (n == 0)
        constraint_run_error(r, e);
    return n;
}

int constraint_run_error(const struct constraint_run *r, struct err *e)
{
    const struct constraint *c = r->c;
    int rc = constraint_error(c, e);
    const struct recognizer_scan *scan;
    const char *place = NULL;
    size_t n = rc ? recognizer_scans(&c->r, r->row[r->n], &scan) : 0;

    for (size_t i = 0; i < n && !place; i++)
        place = places_of(&c->places, scan[i].rule);
    return place && e ? err_prefix(e, "%s", place) : rc;
}

/* Returns the longest token of MASK if the text of every other token of MASK is a prefix of its text, else -1. */
static int32_t longest_of_one_text(const struct token_trie *t, const uint32_t *mask)
{
    uint32_t last = 0; /* the deepest node so far; its value is unused until FOUND is set */
    int32_t found = -1;

    for (size_t id = 0; id < t->n_vocab; id++) {
        uint32_t at;

        if (mask[id / 32] == 0) {
            id |= 31;
            continue;
        }
        if (!(mask[id / 32] >> id % 32 & 1) || (at = t->ending[id]) == UINT32_MAX)
            continue;
        if (found < 0 || (at > last && at < last + t->node[last].skip)) {
            last = at;
            found = (int32_t)id;
        } else if (at != last && !(last > at && last < at + t->node[at].skip)) {
            return -1;
        }
    }
    return found;
}

bool constraint_run_may_guess(const struct constraint_run *r)
{
    return r->c->last_steps <= GUESS_STEPS && !constraint_is_spent(r->c);
}

size_t constraint_run_guess(struct constraint_run *r, uint32_t *mask, int32_t *token, size_t most)
{
    const struct token_masks *masks = masks_of(r);
    size_t begin = r->n, n = 0;
    struct err e = {0};

    for (; n < most && !constraint_run_may_end(r); n++) {
        memset(mask, 0, constraint_mask_words(r->c->v) * sizeof(*mask));
        if (constraint_run_mask(r, mask, &e) == 0 ||
            (token[n] = longest_of_one_text(masks->trie, mask)) < 0 || !constraint_run_may_guess(r) ||
            !constraint_run_add(r, token[n]))
            break;
        masks = masks_of(r);
    }
    constraint_run_truncate(r, begin);
    return n;
}

bool constraint_run_may_end(const struct constraint_run *r)
{
    return recognizer_may_end(&r->c->r, r->row[r->n]);
}

bool constraint_run_add(struct constraint_run *r, int32_t token)
{
    struct payer before;
    uint32_t row;

    if (r->n == r->cap)
        return false;
    before = pay_for(r);
    limit_use(r);
    row = token_masks_next(masks_of(r), r->row[r->n], token);
    note_use(r);
    pay_no_more(before);
    if (row == RECOGNIZER_DEAD)
        return false;
    r->row[++r->n] = row;
    return true;
}

void constraint_run_truncate(struct constraint_run *r, size_t n)
{
    ASSERT(n <= r->n, "%zu %zu", n, r->n);
    r->n = n;
}
