#!/usr/bin/env python3
"""agents.py - Claude Code and Codex, from their wheels, work with the server: a model made by
scripted.py writes a tool call, the program runs the tool, and the model answers to its result.
Nothing leaves this machine: their proxy receives no request. test/clients/run runs it."""
import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "test", "net"), os.path.join(ROOT, "test", "cli")]
import scripted  # noqa: E402
from _cli import check, expect, run_all  # noqa: E402
from _server import Server  # noqa: E402

# A server of the Model Context Protocol with one tool, as an agent starts it.
if sys.argv[1:] == ["mcp"]:
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {"initialize": lambda p: {"protocolVersion": p["protocolVersion"],
                                           "capabilities": {"tools": {}},
                                           "serverInfo": {"name": "weather", "version": "1"}},
                  "tools/list": lambda p: {"tools": [
                      {"name": "look", "description": "Looks out of the window.", "inputSchema": {
                      "type": "object", "properties": {"city": {"type": "string"}}}}]},
                  "tools/call": lambda p: {
                      "content": [{"type": "text", "text": f"<seen {p['arguments']['city']}>"}]},
                  "ping": lambda p: {}}.get(asked.get("method"))
        if "id" in asked:
            out = {"result": answer(asked.get("params"))} if answer else {
                "error": {"code": -32601, "message": "no such method"}}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **out}), flush=True)
    sys.exit(0)

KEY, MODEL = "a-key", "small"
work = tempfile.TemporaryDirectory()
home, folder = os.path.join(work.name, "home"), os.path.join(work.name, "model")
os.makedirs(os.path.join(home, ".codex"))
with open(os.path.join(work.name, "note.txt"), "w", encoding="utf-8") as f:
    f.write("<note>")


def _call(name, **arguments):
    """Returns the tokens of a tool call. Both contain its arguments, so that they belong to this
    call only."""
    text = "<tool_call>" + json.dumps({"name": name, "arguments": arguments}) + "</tool_call>"
    cut = text.index("}}</tool_call>") - 4
    return [text[:cut], text[cut:]]


# System messages are written first, wherever they are. The last message comes last and begins a
# script.
TEMPLATE = (
    "{# <tool_call> arguments </think> #}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages if m.role == 'system' %}"
    "{{ m.content }}{% endfor %}{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content | trim }}{% for c in m.tool_calls %}"
    "({{ c.function.name }} {{ c.function.arguments | tojson }}){% endfor %}{% endfor %}")
SCRIPTS = [["<bash>", "<think>\n", "A command.", "\n</think>\n\n",
            *_call("Bash", command="echo '<ran' 'by claude>'")],
           ["<ran by claude>", "The command ", "ran."],
           ["<read>", *_call("Read", file_path=os.path.join(work.name, "note.txt"))],
           ["<note>", "A note."],
           ["<search>", *_call("ToolSearch", query="select:mcp__weather__look")],
           ["The tool mcp__weather__look is available.", *_call("mcp__weather__look", city="Oslo")],
           ["<seen Oslo>", "It rains ", "in Oslo."],
           ["<exec>", "<think>\nA shell.", "\n</think>\n\nLet me see.\n",
            *_call("exec_command", cmd="echo '<ran' 'by codex>'")],
           ["<ran by codex>", "The shell ", "works."],
           ["<look>", *_call("mcp__weather__look", city="Rome")],
           ["<seen Rome>", "The sun shines ", "in Rome."]]
scripted.make(folder, SCRIPTS, TEMPLATE, context=131072)
server = Server("--dtype", "fp32", "--served-model-name", MODEL, "--api-key", KEY, model=folder)
BASE = f"http://127.0.0.1:{server.port}"
MCP = [sys.executable, os.path.abspath(__file__), "mcp"]

# Every connection to another machine goes to this proxy, which counts it and does not answer.
proxy, heard = socket.create_server(("127.0.0.1", 0)), []


def _hear():
    while True:
        try:
            link = proxy.accept()[0]
        except OSError:
            return
        heard.append(link.recv(200))
        link.close()


threading.Thread(target=_hear, daemon=True).start()
PROXY = f"http://127.0.0.1:{proxy.getsockname()[1]}"
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": work.name,
               "NO_PROXY": "127.0.0.1,localhost", **{name: PROXY for name in (
                   "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy")}}


def _binary(pattern):
    found = glob.glob(os.path.join(sys.prefix, "lib", "python*", "site-packages", pattern))
    check(found, f"{pattern} is installed")
    return found[0]


def _appears(of, text, seconds=60):
    end = time.monotonic() + seconds
    while not any(text in line for line in list(of.log)) and time.monotonic() < end:
        time.sleep(.01)
    return any(text in line for line in list(of.log))


def _run(command, asks=server, **environment):
    """Returns the lines of JSON that an agent writes, and the log lines of the server that it
    calls."""
    before = len(asks.log)
    r = subprocess.run(command, cwd=work.name, env=ENVIRONMENT | environment,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, timeout=100)
    expect(r.returncode, 0, f"{command[0]}: {r.stdout[-2000:]}\n{r.stderr[-2000:]}")
    last = f"behind-{before}"  # a request whose line follows those of the agent
    expect(asks.request("POST", "/tokenize", {"prompt": "x"},
                        {"X-Request-Id": last, "X-Api-Key": KEY})[0], 200, "the server answers")
    check(_appears(asks, last), "the log has all requests")
    asked = [line for line in asks.log[before:] if '"POST /v1/' in line]
    check(asked and all('" 200 ' in line for line in asked), f"every request was answered: {asked}")
    return [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")], asked


# ---- Claude Code ----

def _claude(prompt, tools, *options):
    said, asked = _run([_binary("claude_agent_sdk/_bundled/claude"), "-p", prompt,
                        "--output-format", "stream-json", "--verbose", "--allowedTools", tools,
                        *options], ANTHROPIC_BASE_URL=BASE, ANTHROPIC_AUTH_TOKEN=KEY,
                       ANTHROPIC_MODEL=MODEL, ANTHROPIC_DEFAULT_HAIKU_MODEL=MODEL,
                       CLAUDE_CODE_AUTO_COMPACT_WINDOW="131072", IS_SANDBOX="1",
                       CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_TELEMETRY="1",
                       DISABLE_ERROR_REPORTING="1", DISABLE_AUTOUPDATER="1")
    blocks = [b for line in said if line["type"] in ("assistant", "user")
              for b in line["message"]["content"]]
    end = said[-1]
    expect((end["type"], end["subtype"], end["is_error"], end["stop_reason"]),
           ("result", "success", False, "end_turn"), f"{end}")
    return blocks, end, asked


def claude_code_runs_a_command():
    blocks, end, asked = _claude("<bash>", "Bash")
    expect([b["type"] for b in blocks], ["thinking", "tool_use", "tool_result", "text"], "blocks")
    expect((blocks[0]["thinking"], blocks[1]["name"], blocks[1]["input"]["command"]),
           ("A command.", "Bash", "echo '<ran' 'by claude>'"), "a call")
    expect((blocks[2]["tool_use_id"], blocks[2]["content"], bool(blocks[2]["is_error"])),
           (blocks[1]["id"], "<ran by claude>", False), "its result")
    expect((end["result"], end["num_turns"], len(asked)), ("The command ran.", 2, 2), "the answer")
    usage = end["usage"]
    check(usage["cache_read_input_tokens"] > usage["input_tokens"] / 2 > 1000,
          f"the second request finds the first one's rows: {usage}")


def claude_code_reads_a_file():
    blocks, end, _ = _claude("<read>", "Read")
    expect([b["type"] for b in blocks], ["tool_use", "tool_result", "text"], "blocks")
    check("<note>" in blocks[1]["content"], f"{blocks[1]}")
    expect(end["result"], "A note.", "the answer")


def claude_code_finds_a_tool_of_an_mcp_server():
    config = json.dumps({"mcpServers": {"weather": {"command": MCP[0], "args": MCP[1:]}}})
    blocks, end, asked = _claude("<search>", "mcp__weather__look", "--mcp-config", config,
                                 "--strict-mcp-config")
    expect([(b["type"], b.get("name")) for b in blocks],
           [("tool_use", "ToolSearch"), ("tool_result", None), ("tool_use", "mcp__weather__look"),
            ("tool_result", None), ("text", None)], f"{blocks}")
    expect((end["result"], len(asked)), ("It rains in Oslo.", 3), "the answer")


# ---- Codex ----

ALONE = """check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
"""
CONFIG = """model = "%s"
model_context_window = 131072
model_provider = "gallop"
""" % MODEL + ALONE + """[model_providers.gallop]
name = "Gallop"
base_url = "%s/v1"
env_key = "GALLOP_API_KEY"
wire_api = "responses"
[mcp_servers.weather]
command = %s
args = %s
""" % (BASE, json.dumps(MCP[0]), json.dumps(MCP[1:]))


def _codex(prompt, *options, config=CONFIG, asks=server, **environment):
    with open(os.path.join(home, ".codex", "config.toml"), "w", encoding="utf-8") as f:
        f.write(config)
    said, asked = _run([_binary("codex_cli_bin/bin/codex"), "exec", "--json",
                        "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
                        *options, prompt], asks, CODEX_HOME=os.path.join(home, ".codex"),
                       GALLOP_API_KEY=KEY, **environment)
    check(all(line["type"] not in ("error", "turn.failed") for line in said), f"{said}")
    return [line["item"] for line in said if line["type"] == "item.completed"
            and line["item"]["type"] != "error"], said[-1], asked


def codex_runs_a_command():
    items, end, asked = _codex("<exec>")
    items = [i for i in items if i["type"] != "reasoning"]
    expect([i["type"] for i in items], ["agent_message", "command_execution", "agent_message"],
           f"{items}")
    first, ran, last = items
    expect((first["text"], ran["exit_code"], ran["aggregated_output"].strip(), last["text"]),
           ("Let me see.", 0, "<ran by codex>", "The shell works."),
           "a call, its result and the answer")
    expect((end["type"], len(asked)), ("turn.completed", 2), "two requests")
    check(end["usage"]["cached_input_tokens"] > 1000,
          f"the second request finds the first one's rows: {end}")


def codex_calls_a_tool_of_an_mcp_server():
    """Codex sends the tools of the server as a namespace."""
    items, end, asked = _codex("<look>")
    calls = [i for i in items if i["type"] == "mcp_tool_call"]
    expect([(i["server"], i["tool"], i["arguments"], i["status"]) for i in calls],
           [("weather", "look", {"city": "Rome"}, "completed")], f"{items}")
    expect((items[-1]["text"], len(asked)), ("The sun shines in Rome.", 2), "the answer")


def codex_takes_the_server_for_that_of_ollama():
    with Server("--dtype", "fp32", "--served-model-name", MODEL, model=folder) as other:
        items, end, _ = _codex("<exec>", "--oss", "--local-provider", "ollama", "-m",
                               MODEL, config=ALONE, asks=other,
                               CODEX_OSS_BASE_URL=f"http://127.0.0.1:{other.port}/v1")
    expect((items[-1]["text"], end["type"]), ("The shell works.", "turn.completed"), "the answer")


def nothing_left_this_machine():
    expect(heard, [], "what the proxy heard")


if __name__ == "__main__":
    chosen = sys.argv[1:]
    try:
        run_all([(n, t) for n, t in globals().items() if not chosen or n in chosen])
    finally:
        expect(server.end(), 0, "the server ends with 0")
        proxy.close()
        work.cleanup()
