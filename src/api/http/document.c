/* document.c - docs/API.md, which `gallop help --api` prints. */
#include "api/http/document.h"

#include "api/fields.h"
#include "api/http/routes.h"
#include "base/buf.h"

static const char preface[] =
    "# The API of `gallop serve`\n"
    "\n"
    "Made by `gallop help --api` from the tables that the server reads requests by. OpenAI's paths and names, with\n"
    "vLLM's additions and defaults.\n"
    "\n"
    "An error is `{\"error\": {\"message\", \"type\", \"param\", \"code\"}}`; `param` names the field. 400:\n"
    "a field is wrong, or would change the answer and is not built. 401: no valid key. 404: no such path or model.\n"
    "408: the request came too slowly. 413: the body is too large. 415: it is not `application/json`\n"
    "(below `/v1/`; elsewhere, or where no type is given, only a page of another site is refused). 429: the queue\n"
    "is full, the key has as many places of it as `--scheduling-policy fair` leaves to one, too many tokens of\n"
    "prompts wait, all requests together hold as much memory as is allowed (`--max-request-memory`), or the limit\n"
    "of the key is reached; each with `Retry-After`. 431: too many or too long headers. 503:\n"
    "shutting down, too many connections, too many bytes of bodies (`--max-bodies-bytes`), no memory, or\n"
    "embeddings whose computing was ended.\n"
    "504: `--request-timeout` has passed. Paths of Anthropic's and Ollama's have their forms of errors, with\n"
    "`param`. 501: Ollama's `/api/pull`, `push`, `create`, `copy`, `delete` and `blobs`: there is the model that\n"
    "the server was started with. Its clients look for a server by `HEAD /`, which is 200: the page for browsers\n"
    "is there.\n"
    "\n"
    "A field that is null is as if it were not there, but for `max_tokens` of `/v1/completions`. So is an empty\n"
    "string where one of at most some length is taken. Fields that are not listed are taken, change nothing, and\n"
    "are said once in the server's log. Of a field that is there twice the last one counts. JSON has\n"
    "at most 64 levels, 65536 lists and objects, and 4259840 values. Whole numbers may be written as floats\n"
    "(`16.0`), and a UTF-8 byte order mark in front of a body is passed over.\n"
    "\n"
    "A limit of tokens beyond what the context leaves behind the prompt (`max_tokens` and its like) is what it\n"
    "leaves: the answer ends there with `length`. A prompt that leaves no room for a token is refused with 400.\n"
    "\n"
    "Streams are server-sent events, one for each token (several are one where the client reads slowly,\n"
    "or where they were there before the stream began), the last with `finish_reason`, then `usage` if asked for,\n"
    "then `[DONE]`; `: ping` lines while a prompt is computed. A chat begins with an event of the role alone for\n"
    "each answer, when the first token is there, so that who measures the first event measures that. A\n"
    "request whose client leaves, or closes its sending side, is not computed any further.\n"
    "\n"
    "Clients that are tried against it (`make test-clients`): Claude Code and Codex (docs/OPERATIONS.md says how\n"
    "they are told of the server), openai, anthropic, ollama, LangChain, LlamaIndex, LiteLLM, lm-eval,\n"
    "guidellm. lm-eval's `local-completions` wants `tokenizer=` the model's folder and sends ids,\n"
    "to which nothing is added: `add_bos_token=True` where the model wants BOS. With\n"
    "`tokenized_requests=False` the server adds BOS, which lm-eval does not count: scores of choices are wrong.\n"
    "`tokenizer_backend=remote` (with --enable-tokenizer-info-endpoint) asks `/tokenize` for ids without special\n"
    "tokens whatever `add_bos_token` says, so that prompts have no BOS, here as at vLLM: other scores.\n"
    "\n"
    "Where keys are needed, the last column but one says which: `admin` is the key of `--admin-api-key`, and any\n"
    "other does not open these paths then; without that option an ordinary one does. The admin key opens nothing\n"
    "else, but that `/abort_requests` and `/v1/status/*` reach requests of all keys with it.\n"
    "\n"
    "| method | path | key needed | |\n"
    "| --- | --- | --- | --- |\n";

void document_write(struct buf *out)
{
    static const char *const access[] = {
        [ROUTE_KEY] = "yes", [ROUTE_OPEN] = "no", [ROUTE_ADMIN] = "admin", [ROUTE_OWNER] = "yes"};
    size_t n;
    const struct route *r = routes_all(&n);

    buf_str(out, preface);
    for (size_t i = 0; i < n; i++)
        buf_fmt(out, "| %s | `%s` | %s | %s |\n", r[i].method, r[i].path, access[r[i].access], r[i].says);
    fields_document(out);
}
