/* openapi.c - /openapi.json: paths from the table of routes, bodies from the table of fields, answers from
 * the schemas below. OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0), whose schemas are JSON Schema's.
 */
#include <string.h>

#include "api/fields.h"
#include "api/openapi.h"
#include "api/routes.h"
#include "base/buf.h"

/* JSON with ' in place of ". */
struct schema {
    const char *name, *text;
};

static const struct schema answers[] = {
    {"Error", "{'type':'object','required':['error'],'properties':{'error':{'type':'object',"
              "'required':['message','type','param','code'],'properties':{'message':{'type':'string'},"
              "'type':{'type':'string'},'param':{'type':['string','null']},'code':{'type':'integer'}}}}}"},
    {"Usage", "{'type':'object','required':['prompt_tokens','completion_tokens','total_tokens'],"
              "'properties':{'prompt_tokens':{'type':'integer'},'completion_tokens':{'type':'integer'},"
              "'total_tokens':{'type':'integer'},'prompt_tokens_details':{'type':'object'}}}"},
    {"FinishReason", "{'enum':['stop','length','tool_calls','abort']}"},
    {"Completion",
     "{'type':'object','required':['id','object','created','model','choices','usage'],"
     "'properties':{'id':{'type':'string'},'object':{'const':'text_completion'},"
     "'created':{'type':'integer'},'model':{'type':'string'},"
     "'usage':{'$ref':'#/components/schemas/Usage'},'choices':{'type':'array',"
     "'items':{'type':'object','required':['index','text','finish_reason'],"
     "'properties':{'index':{'type':'integer'},'text':{'type':'string'},"
     "'finish_reason':{'$ref':'#/components/schemas/FinishReason'},'logprobs':{'type':['object',"
     "'null']}}}}}}"},
    {"ChatCompletion",
     "{'type':'object','required':['id','object','created','model','choices','usage'],"
     "'properties':{'id':{'type':'string'},'object':{'const':'chat.completion'},"
     "'created':{'type':'integer'},'model':{'type':'string'},"
     "'usage':{'$ref':'#/components/schemas/Usage'},'choices':{'type':'array',"
     "'items':{'type':'object','required':['index','message','finish_reason'],"
     "'properties':{'index':{'type':'integer'},"
     "'finish_reason':{'$ref':'#/components/schemas/FinishReason'},'logprobs':{'type':['object',"
     "'null']},'message':{'type':'object','required':['role','content'],"
     "'properties':{'role':{'const':'assistant'},'content':{'type':['string','null']},"
     "'tool_calls':{'type':'array','items':{'type':'object'}}}}}}}}}"},
    {"Model", "{'type':'object','required':['id','object','created','owned_by','max_model_len'],"
              "'properties':{'id':{'type':'string'},'object':{'const':'model'},'created':{'type':'integer'},"
              "'owned_by':{'type':'string'},'max_model_len':{'type':'integer'}}}"},
    {"Models", "{'type':'object','required':['object','data'],'properties':{'object':{'const':'list'},"
               "'data':{'type':'array','items':{'$ref':'#/components/schemas/Model'}}}}"},
    {"Tokens", "{'type':'object','required':['count','max_model_len','tokens'],"
               "'properties':{'count':{'type':'integer'},'max_model_len':{'type':'integer'},"
               "'tokens':{'type':'array','items':{'type':'integer'}},'token_strs':{'type':['array','null'],"
               "'items':{'type':'string'}}}}"},
    {"Text", "{'type':'object','required':['prompt'],'properties':{'prompt':{'type':'string'}}}"},
    {"Aborted", "{'type':'object','required':['aborted'],'properties':{'aborted':{'type':'integer'}}}"},
    {"Version", "{'type':'object','required':['version'],'properties':{'version':{'type':'string'}}}"},
    {"Load", "{'type':'object','required':['server_load'],'properties':{'server_load':{'type':'integer'}}}"},
    {"OpenAPI", "{'type':'object','required':['openapi','info','paths']}"},
    {"PaceHealth", "{'type':'object','required':['status','service','queue_size','active_requests']}"},
    {"PaceQueue", "{'type':'object','required':['queue_size','active_requests']}"},
    {"PaceMetrics", "{'type':'object','required':['sched_session_ttft','sched_session_tpot']}"},
    {"PaceStatus", "{'type':'object','required':['request_id','status','prompt_tokens','generated_tokens']}"},
    {"AnthropicError",
     "{'type':'object','required':['type','error'],'properties':{'type':{'const':'error'},"
     "'error':{'type':'object','required':['type','message'],'properties':{'type':{'type':'string'},"
     "'message':{'type':'string'}}}}}"},
    {"Message",
     "{'type':'object','required':['id','type','role','model','content','stop_reason','stop_sequence',"
     "'usage'],'properties':{'id':{'type':'string'},'type':{'const':'message'},"
     "'role':{'const':'assistant'},'model':{'type':'string'},'content':{'type':'array',"
     "'items':{'type':'object','required':['type']}},'stop_reason':{'enum':['end_turn','max_tokens',"
     "'stop_sequence','tool_use','abort']},'stop_sequence':{'type':['string','null']},"
     "'usage':{'type':'object','required':['input_tokens','output_tokens'],"
     "'properties':{'input_tokens':{'type':'integer'},'output_tokens':{'type':'integer'}}}}}"},
    {"Count",
     "{'type':'object','required':['input_tokens'],'properties':{'input_tokens':{'type':'integer'}}}"},
    {"Response",
     "{'type':'object','required':['id','object','created_at','status','model','output','usage'],"
     "'properties':{'id':{'type':'string'},'object':{'const':'response'},"
     "'created_at':{'type':'integer'},'status':{'enum':['completed','incomplete','cancelled']},"
     "'model':{'type':'string'},'output':{'type':'array','items':{'type':'object','required':['type',"
     "'id']}},'usage':{'type':'object','required':['input_tokens','output_tokens','total_tokens'],"
     "'properties':{'input_tokens':{'type':'integer'},'output_tokens':{'type':'integer'},"
     "'total_tokens':{'type':'integer'}}}}}"},
    {"Embeddings",
     "{'type':'object','required':['object','model','data','usage'],"
     "'properties':{'object':{'const':'list'},'model':{'type':'string'},"
     "'usage':{'$ref':'#/components/schemas/Usage'},'data':{'type':'array','items':{'type':'object',"
     "'required':['object','index','embedding'],'properties':{'object':{'const':'embedding'},"
     "'index':{'type':'integer'},'embedding':{'type':['array','string'],"
     "'items':{'type':'number'}}}}}}}"},
    {"OllamaError", "{'type':'object','required':['error'],'properties':{'error':{'type':'string'}}}"},
    {"OllamaAnswer",
     "{'type':'object','required':['model','created_at','done','done_reason','eval_count',"
     "'prompt_eval_count'],'properties':{'model':{'type':'string'},'created_at':{'type':'string'},"
     "'done':{'type':'boolean'},'response':{'type':'string'},'message':{'type':'object',"
     "'required':['role','content'],'properties':{'role':{'const':'assistant'},"
     "'content':{'type':'string'}}}}}"},
    {"OllamaRunning", "{'type':'object','required':['models'],'properties':{'models':{'type':'array',"
                      "'items':{'type':'object','required':['name','model','size','digest','details',"
                      "'expires_at','size_vram','context_length']}}}}"},
    {"OllamaShow",
     "{'type':'object','required':['template','details','model_info','capabilities'],"
     "'properties':{'template':{'type':'string'},'details':{'type':'object'},"
     "'model_info':{'type':'object'},'capabilities':{'type':'array','items':{'type':'string'}}}}"},
    {"OllamaEmbed", "{'type':'object','required':['model','embeddings','prompt_eval_count'],"
                    "'properties':{'model':{'type':'string'},'prompt_eval_count':{'type':'integer'},"
                    "'embeddings':{'type':'array','items':{'type':'array','items':{'type':'number'}}}}}"},
    {"OllamaEmbedding", "{'type':'object','required':['embedding'],'properties':{'embedding':{"
                        "'type':'array','items':{'type':'number'}}}}"},
    {"TokenizerInfo", "{'type':'object','required':['tokenizer_class'],'properties':{"
                      "'tokenizer_class':{'type':'string'},'chat_template':{'type':'string'}}}"},
    {"OllamaTags", "{'type':'object','required':['models'],'properties':{'models':{'type':'array',"
                   "'items':{'type':'object','required':['name','model','modified_at','size','details']}}}}"},
};

/* TEXT with " in place of '. */
static void openapi_put(struct buf *out, const char *text)
{
    for (; *text; text++)
        buf_char(out, *text == '\'' ? '"' : *text);
}

static void put_ref(struct buf *out, const char *name)
{
    openapi_put(out, "{'$ref':'#/components/schemas/");
    buf_fmt(out, "%s\"}", name);
}

/* ---- answers of an operation ---- */

/* HEADERS: a member more, or "". */
static void put_status(int status, const char *says, const char *headers, const char *error, struct buf *out)
{
    char key[8];

    snprintf(key, sizeof(key), "%d", status);
    buf_json_key(out, key);
    openapi_put(out, "{'description':'");
    openapi_put(out, says);
    openapi_put(out, "'");
    openapi_put(out, headers);
    openapi_put(out, ",'content':{'application/json':{'schema':");
    put_ref(out, error);
    openapi_put(out, "}}}");
}

#define COUNT(name)   "'x-ratelimit-" name "':{'schema':{'type':'integer','minimum':0}}"
#define SECONDS(name) "'x-ratelimit-" name "':{'schema':{'type':'string','pattern':'^[0-9.]+s$'}}"
#define RETRY         "'Retry-After':{'schema':{'type':'integer','minimum':1}}"
#define LIMITS                                                                                         \
    COUNT("limit-requests")                                                                            \
    "," COUNT("remaining-requests") "," SECONDS("reset-requests") "," COUNT("limit-tokens") "," COUNT( \
        "remaining-tokens") "," SECONDS("reset-tokens")

/* A key has a limit of its own. */
static bool has_limits(const struct api *a)
{
    return a->opt.keys && keys_have_limits(a->opt.keys);
}

/* What an answer that is none says, by its status. */
static void put_refusals(const struct api *a, const struct route *r, struct buf *out)
{
    static const char later[] = ",'headers':{" RETRY "}", limits[] = ",'headers':{" RETRY "," LIMITS "}",
                      who[] = ",'headers':{'WWW-Authenticate':{'schema':{'type':'string'}}}";
    bool computes = r->endpoint && !r->answer, named = r->path[strlen(r->path) - 1] == '*';
    const char *error = r->form ? r->form->error_schema : "Error";

    put_status(400, "a field or the form of the request is wrong, or asks for what is not built", "", error,
               out);
    if (routes_needs_key(a, r))
        put_status(401, "no valid key", who, error, out);
    if (computes || named)
        put_status(404, "there is nothing of that name", "", error, out);
    put_status(408, "the request came too slowly", "", error, out);
    put_status(413, "the body is too large", "", error, out);
    if (r->endpoint)
        put_status(415, "the body is not application/json", "", error, out);
    if (computes)
        put_status(429,
                   has_limits(a)
                       ? "the queue or the memory of requests is full, or the limit of the key is reached"
                       : "the queue or the memory of requests is full",
                   has_limits(a) ? limits : later, error, out);
    put_status(431, "too many or too long headers", "", error, out);
    if (computes)
        put_status(500, "the answer could not be computed", "", error, out);
    put_status(503, "shutting down, too many connections, or no memory", later, error, out);
    if (computes)
        put_status(504, "--request-timeout has passed", "", error, out);
}

static void put_answer(const struct route *r, struct buf *out)
{
    bool streams = r->endpoint & (FIELDS_COMPLETIONS | FIELDS_CHAT | FIELDS_MESSAGES | FIELDS_RESPONSES);

    buf_json_key(out, "200");
    openapi_put(out, "{'description':'OK'");
    if (strcmp(r->gives, ROUTE_TEXT) == 0) {
        openapi_put(out, ",'content':{'text/plain':{'schema':{'type':'string'}}}");
    } else if (r->gives[0]) {
        openapi_put(out, ",'content':{'application/json':{'schema':");
        put_ref(out, r->gives);
        openapi_put(out, streams ? "},'text/event-stream':{}}"
                         : r->endpoint & (FIELDS_GENERATE | FIELDS_OLLAMA_CHAT)
                             ? "},'application/x-ndjson':{}}"
                             : "}}");
    }
    openapi_put(out, "}");
}

/* ---- operations ---- */

static void put_parameters(const struct route *r, struct buf *out)
{
    buf_json_key(out, "parameters");
    if (r->path[strlen(r->path) - 1] == '*')
        openapi_put(out,
                    "[{'name':'name','in':'path','required':true,'schema':{'type':'string','minLength':1}}]");
    else if (r->endpoint && !r->answer)
        openapi_put(
            out, "[{'name':'X-Request-Id','in':'header','required':false,'schema':{'type':'string','pattern':"
                 "'^[!-~]{1,128}$'}}]");
    else
        openapi_put(out, "[]");
}

/* The names that are served, and null, as JSON. */
static void put_models(const struct api *a, struct buf *out)
{
    buf_json_begin(out, '[');
    for (size_t i = 0; i < a->opt.n_names; i++)
        buf_json_str(out, a->opt.name[i], strlen(a->opt.name[i]));
    buf_json_null(out);
    buf_json_end(out, ']');
}

static void put_body(const struct api *a, const struct route *r, struct buf *out)
{
    struct buf models = {.tag = MEM_API};

    put_models(a, &models);
    out->oom |= models.oom;
    buf_json_key(out, "requestBody");
    openapi_put(out, "{'required':true,'content':{'application/json':{'schema':");
    fields_schema(r->endpoint, models.oom ? "[]" : models.data, out);
    buf_str(out, "}}}");
    buf_fini(&models);
}

static void put_operation(const struct api *a, const struct route *r, struct buf *out)
{
    buf_json_key(out, strcmp(r->method, "GET") == 0 ? "get" : "post");
    buf_json_begin(out, '{');
    buf_json_key(out, "summary");
    buf_json_str(out, r->says, strlen(r->says));
    put_parameters(r, out);
    if (r->endpoint)
        put_body(a, r, out);
    if (routes_needs_key(a, r)) {
        buf_json_key(out, "security");
        openapi_put(out, "[{'bearer':[]},{'key':[]}]");
    }
    buf_json_key(out, "responses");
    buf_json_begin(out, '{');
    put_answer(r, out);
    put_refusals(a, r, out);
    buf_json_end(out, '}');
    buf_json_end(out, '}');
}

void openapi_write(const struct api *a, struct buf *out)
{
    size_t n;
    const struct route *r = routes_all(&n);

    openapi_put(out, "{'openapi':'3.1.0','info':{'title':'gallop serve','version':'");
    buf_fmt(out, "%s\"},\"paths\":", gallop_version());
    buf_json_begin(out, '{');
    for (size_t i = 0; i < n; i++) { /* no path has two methods */
        size_t len = strlen(r[i].path);
        char path[64];

        if (!routes_offers(a, &r[i]))
            continue;

        snprintf(path, sizeof(path), "%.*s%s", (int)(len - (r[i].path[len - 1] == '*')), r[i].path,
                 r[i].path[len - 1] == '*' ? "{name}" : "");
        buf_json_key(out, path);
        buf_json_begin(out, '{');
        put_operation(a, &r[i], out);
        buf_json_end(out, '}');
    }
    buf_json_end(out, '}');
    openapi_put(
        out,
        ",'components':{'securitySchemes':{'bearer':{'type':'http','scheme':'bearer'},'key':{'type':'apiKey',"
        "'in':'header','name':'X-Api-Key'}},'schemas':");
    buf_json_begin(out, '{');
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        buf_json_key(out, answers[i].name);
        openapi_put(out, answers[i].text);
    }
    openapi_put(out, "}}}");
}
