"""test_page.py - the server's page in a headless Chromium: what a user does and sees, and what the
page protects from.

The page comes from a real `gallop serve`. Answers are scripted (scripted.py), except in the last
test. If GALLOP_PICTURES is set to a folder, the pictures of the documents are written there.
"""
import gzip
import json
import os
import pathlib
import re
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import browser
from scripted import CUT, End, Fail, Refuse, Scripted

SOURCE = pathlib.Path(os.environ["GALLOP_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "test/cli"))
from _server import Server  # noqa: E402

PICTURES = os.environ.get("GALLOP_PICTURES")
ANSWER = "[...document.querySelectorAll('.answer')].at(-1)"

HOSTILE = [
    "<script>window.harmed = 1</script>", "<img src=x onerror='window.harmed=1'>",
    "<svg onload=window.harmed=1><style>*{display:none}</style>", "[a](javascript:window.harmed=1)",
    "[a](JaVaScRiPt:window.harmed=1)", "[a](data:text/html,<script>window.harmed=1</script>)",
    "![x](http://192.0.2.1/steal.png)", "<style>body{background:url(http://192.0.2.1/)}</style>",
    "<iframe src=http://192.0.2.1></iframe>",
    "<a href='javascript:window.harmed=1' style='position:fixed;inset:0'>x</a>",
    "<form action=http://192.0.2.1><input name=q></form>",
    "```x\" onclick=\"window.harmed=1\nx\n```", "![\" onerror=\"window.harmed=1](x)",
    "[x](http://a.b/\"onmouseover=\"window.harmed=1)", "<div id=log class=notice>x</div>",
    "<math><mtext><table><mglyph><style><img src onerror=window.harmed=1>",
    "```html\n<img src=x onerror=window.harmed=1>\n```", "[a](/metrics)",
    "<link rel=stylesheet href=http://192.0.2.1/a.css>", "# <b onclick=window.harmed=1>h</b>",]

# Returns what must not be in a message's body, as text; [] if there is nothing.
HARM = """(root => [...root.querySelectorAll('*')].flatMap(e => [
    ...(/^(A|B|BLOCKQUOTE|BR|BUTTON|CODE|DEL|DIV|EM|H[3-6]|HR|LI|OL|P|PRE|SPAN|STRONG|TABLE|TBODY|TD|TH|THEAD|TR|UL)$/
        .test(e.tagName) ? [] : ['element ' + e.tagName]),
    ...[...e.attributes].filter(a => !/^(align|class|href|rel|target|start|role|tabindex|type|aria-label)$/.test(a.name))
        .map(a => 'attribute ' + a.name),
    ...(e.href && !/^(https?|mailto):/.test(e.href) ? ['link ' + e.href] : []),
    ...(e.getAttribute('href')?.startsWith('/') ? ['link within the server'] : []),
]))"""

# Returns texts whose contrast with the background is below 4.5.
FAINT = """(() => {
    const parts = c => c.match(/[\\d.]+/g).map(Number);
    const light = c => { const [r, g, b] = parts(c).map(x => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (parts(c).length < 4 || parts(c)[3] > 0) return c; } return 'rgb(255, 255, 255)'; };
    return [...document.querySelectorAll('body *')].filter(e => e.checkVisibility({visibilityProperty: true}) &&
        [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
        const a = light(getComputedStyle(e).color), b = light(ground(e));
        return [e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 30), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
    }).filter(([, ratio]) => ratio < 4.5);
})()"""

# Everything that is wider than a narrow screen: a long word in every part of a text, lines of code,
# tables.
LONG = "w" * 200
WIDE = [
    f"{LONG}\n\n- {LONG}\n\n> {LONG}\n\n# {LONG}\n\n**{LONG}** [{LONG}](http://a.b/) http://a.b/{LONG} `{LONG}`\n\n",
    f"```c\n{LONG}\n```\n\n    {LONG}\n\n",
    "|" + " wide |" * 30 + "\n|" + "--|" * 30 + f"\n\n| a | {LONG} |\n|--|--|\n"]

# Returns elements of the conversation that the screen cuts, or their text, except inside a box that
# scrolls.
CUT_OFF = """(() => {
    const range = document.createRange();
    const right = n => (n.nodeType === 3 ? (range.selectNodeContents(n), range) : n).getBoundingClientRect().right;
    return [...document.querySelectorAll('#log *')].filter(e => !e.parentElement.closest('.code pre, .wide') &&
        [e, ...e.childNodes].some(n => (n === e || n.nodeType === 3) && right(n) > document.documentElement.clientWidth))
        .map(e => e.tagName);
})()"""

# Returns for each such box of the last answer whether its right end can be reached, and whether the
# words of a table's head are complete.
BOXES = f"""(() => {{
    const range = document.createRange(), pieces = e => (range.selectNodeContents(e), range.getClientRects().length);
    return [...{ANSWER}.querySelectorAll('.code pre, .wide')].map(e => {{
        e.scrollLeft = 1e6;
        return e.scrollLeft > 0 && e.scrollLeft + e.clientWidth >= e.scrollWidth - 1 &&
            [...e.querySelectorAll('th')].every(h => pieces(h) === 1);
    }});
}})()"""

METRICS = """# HELP vllm:num_requests_running r
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a,b\\"}"} 3
vllm:num_requests_waiting{engine="0",model_name="m"} 1
vllm:num_requests_waiting{engine="1",model_name="m"} 4
vllm:kv_cache_usage_perc{engine="0"} 0.4321
vllm:prefix_cache_queries_total{engine="0"} 200
vllm:prefix_cache_hits_total{engine="0"} 50
vllm:generation_tokens_total{engine="0"} %d
vllm:prompt_tokens_total{engine="0"} 1000
vllm:request_success_total{engine="0",finished_reason="stop"} 7
vllm:request_success_total{engine="0",finished_reason="length"} 2
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} 0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.2"} 6
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.4"} 9
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 10
vllm:request_time_per_output_token_seconds_bucket{engine="0",le="0.01"} 1
vllm:request_time_per_output_token_seconds_bucket{engine="0",le="0.02"} 8
vllm:request_time_per_output_token_seconds_bucket{engine="0",le="0.04"} 10
vllm:request_time_per_output_token_seconds_bucket{engine="0",le="+Inf"} 10
gallop:operator_seconds_total{engine="0",operator="mlp"} %g
gallop:operator_bytes_total{engine="0",operator="mlp"} %g
gallop:operator_flops_total{engine="0",operator="mlp"} %g
gallop:operator_seconds_total{engine="0",operator="norm"} %g
gallop:roof_bytes_per_second 2e10
gallop:roof_flops_per_second 1e11
"""


def metrics(n):
    """Returns the metrics after N seconds: 20 tokens, .75 s of MLPs that read 6 GB and compute
    15 GFLOP, .25 s of norms."""
    return METRICS % (1000 + 20 * n, .75 * n, 6e9 * n, 15e9 * n, .25 * n)


def setUpModule():
    global chromium, real, scripted
    real = Server()
    scripted = Scripted(f"127.0.0.1:{real.port}")
    chromium = browser.Browser(browser.find())


def tearDownModule():
    chromium.close()
    scripted.close()
    real.end()


class OnPage(unittest.TestCase):
    def setUp(self):
        scripted.reset()
        self.expected = None  # a pattern of the errors that a test causes
        self.page = browser.Page(chromium)
        self.addCleanup(self.finish)

    def finish(self):
        complaints = [c for c in self.page.complaints
                      if not (self.expected and re.search(self.expected, c))]
        foreign = [url for url in self.page.asked if not url.startswith(
            (scripted.url, "blob:", "about:", f"http://127.0.0.1:{real.port}/"))]
        self.page.close()
        self.assertEqual((complaints, foreign), ([], []))

    def open(self, path=""):
        self.page.open(scripted.url + path)
        self.page.wait("document.body.dataset.view && !document.querySelector('#model').hidden")

    def ask(self, text):
        self.page.run("document.querySelector('#input').focus()")
        self.page.type(text)
        self.page.press("Enter")

    def state(self, state):
        self.page.wait(f"{ANSWER}?.dataset.state === '{state}'")

    # innerText is empty while the browser has not drawn the answer (content-visibility).
    def text(self):
        return self.page.run(f"{ANSWER}.querySelector('.body').textContent.trim()")

    def note(self):
        return self.page.run(f"{ANSWER}.querySelector('.note').textContent")


class PageTest(OnPage):
    # ---- answers ----

    def test_text_is_shown_while_it_comes_and_as_markdown(self):
        more = threading.Event()
        scripted.answers["hi"] = ["**Bold**\n\n```python\nx = 1\n",
                                  "```\n\n| a |\n|--|\n| 1 |\n\nen", more, "d", End()]
        self.open()
        self.page.wait("document.querySelector('#model').innerText")
        self.ask("hi")
        self.page.wait(f"{ANSWER}.querySelector('table')")
        self.state("writing")
        self.assertTrue(self.text().endswith("en"))
        more.set()
        self.state("done")
        self.assertEqual(self.page.run(f"{ANSWER}.querySelector('strong').textContent"), "Bold")
        self.page.wait(f"{ANSWER}.querySelector('.hljs-number')")
        self.assertIn("3 tokens, first text after",
                      self.page.run(f"{ANSWER}.querySelector('.figures').textContent"))
        self.assertIn("End of the answer.",
                      self.page.run("document.querySelector('#spoken').textContent"))
        self.assertEqual(scripted.asked[0],
                         {"model": "scripted", "messages": [{"role": "user", "content": "hi"}],
                          "stream": True, "stream_options": {"include_usage": True}})

    def test_stop_ends_the_request_and_keeps_the_text(self):
        scripted.answers["hi"] = ["kept", threading.Event()]
        self.open()
        self.ask("hi")
        self.page.wait(f"{ANSWER}.innerText.includes('kept')")
        self.page.click("#stop")
        self.state("stopped")
        self.assertTrue(scripted.gone.wait(10))
        self.assertEqual((self.text(), self.note()), ("kept", "Stopped."))
        self.assertFalse(self.page.run("document.querySelector('#send').hidden"))

    def test_a_reload_in_mid_answer_keeps_what_came_and_offers_a_retry(self):
        scripted.answers["hi"] = ["first part", threading.Event()]
        self.open()
        self.ask("hi")
        self.page.wait(f"{ANSWER}.innerText.includes('first part')")
        self.page.call("Page.reload")
        self.state("interrupted")
        self.assertTrue(scripted.gone.wait(10))
        self.assertEqual((self.text(), self.note()[:12]), ("first part", "Interrupted."))
        scripted.answers["hi"] = ["whole", End()]
        self.page.run(
            f"[...{ANSWER}.querySelectorAll('button')].find(b => b.textContent === 'Retry').click()")
        self.state("done")
        self.assertEqual((self.text(), self.page.run(
            "document.querySelectorAll('.answer').length")), ("whole", 1))
        self.assertEqual(scripted.asked[1]["messages"], [{"role": "user", "content": "hi"}])

    def test_errors_are_shown_with_the_sentence_of_the_server(self):
        self.expected = r"status of (400|429)|ERR_(INCOMPLETE|EMPTY|CONNECTION)"
        scripted.answers.update({"a": [Refuse(400, "temperature: expected a number.")],
                                 "b": [Refuse(429, "The queue is full.", Retry_After="7")],
                                 "c": ["some", Fail("The engine stopped.")], "d": ["part", CUT]})
        self.open()
        for text, state, note in (("a", "failed", "No answer. temperature: expected a number."),
                                  ("b", "failed",
                                   "No answer. The queue is full. Try again in 7 s."),
                                  ("c", "interrupted", "Interrupted. The engine stopped."),
                                  ("d", "interrupted",
                                   "Interrupted. The connection ended before the answer was complete.")):
            self.page.click("#new")
            self.ask(text)
            self.state(state)
            self.assertEqual(self.note(), note)

    def test_a_key_is_asked_for_and_kept_by_the_tab_only(self):
        self.expected = "status of 401"
        scripted.key = "secret"
        scripted.answers["hi"] = ["yes", End()]
        self.open()
        self.page.wait("document.querySelector('#notice button')")
        self.page.click("#notice button")
        self.page.wait("document.activeElement.name === 'key'")
        self.page.type("secret")
        self.page.click("#settings-form [type=submit]")
        self.page.wait("document.querySelector('#model').innerText === 'scripted'")
        self.ask("hi")
        self.state("done")
        self.assertEqual(self.page.run("sessionStorage.getItem('gallop.key')"), "secret")
        self.assertNotIn("secret", self.page.run("JSON.stringify(localStorage)"))

    def test_reasoning_stands_apart_from_the_answer(self):
        self.open()
        got = self.page.run("""import('/page/answer.js').then(async ({Answer}) => {
            const event = delta => `data: ${JSON.stringify({choices: [{delta, finish_reason: delta.end}]})}\\n\\n`;
            globalThis.fetch = async () => new Response(event({reasoning: 'hm'}) + event({content: 'yes'}) +
                event({end: 'length'}) + 'data: [DONE]\\n\\n');
            const c = {system: '', messages: [{role: 'assistant', content: '', state: 'writing'}]};
            await new Answer(c, () => {}, () => {}).run({}, '');
            const {content, reasoning, state} = c.messages[0];
            return [content, reasoning, state]; })""")
        self.assertEqual(got, ["yes", "hm", "length"])

    # ---- protection from model output ----

    def test_hostile_answers_do_no_harm(self):
        scripted.answers["hi"] = [part for text in HOSTILE
                                  for part in (text, "\n\n")] + ["end", End()]
        self.open()
        self.ask("hi")
        self.state("done")
        self.page.wait(f"{ANSWER}.innerText.includes('end')")
        self.assertEqual(self.page.run(f"{HARM}({ANSWER}.querySelector('.body'))"), [])
        for link in range(
                self.page.run(f"{ANSWER}.querySelectorAll('.body a:not([href])').length")):
            self.page.run(f"{ANSWER}.querySelectorAll('.body a:not([href])')[{link}].click()")
        self.assertIsNone(self.page.run("window.harmed"))
        self.assertIn("<script>window.harmed = 1</script>", self.text())

    def test_the_check_for_harm_sees_it(self):
        self.open()
        got = self.page.run(f"""(() => {{ const div = document.createElement('div'), a = document.createElement('a');
            a.href = 'javascript:1'; a.setAttribute('style', ''); div.append(a, document.createElement('img'));
            return {HARM}(div); }})()""")
        self.expected = "style"
        self.assertEqual(got, ["attribute style", "link javascript:1", "element IMG"])

    def test_scripts_within_html_do_not_run(self):
        self.open()
        self.expected = "TrustedHTML|Trusted|Content Security Policy"
        with self.assertRaises(browser.BrowserError):
            self.page.run(
                "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.harmed=1>')")
        self.assertIsNone(self.page.run("window.harmed"))

    # ---- formulas ----

    def formulas(self):
        """Returns the TeX of each formula, and whether it is a block."""
        return self.page.run(
            f"[...{ANSWER}.querySelectorAll('.body .katex')].map(e => "
            "[e.querySelector('annotation').textContent, Boolean(e.closest('.katex-display'))])")

    def test_formulas_are_drawn_and_prices_are_not(self):
        scripted.answers["hi"] = [
            "Inline $a_1*b$ and \\(x^2*y*\\); it costs $5 and $10, US$3-$4, \\$7.\n\n",
            "$$\n\\sum_{i=1}^n i = \\frac{n(n+1)}{2}\n$$\n\n\\[ \\sqrt{x} \\]\n\nBy the way $$y$$ too. $$open\n",
            End()]
        self.open()
        self.ask("hi")
        self.state("done")
        self.page.wait(f"{ANSWER}.querySelectorAll('.katex').length === 5")
        self.assertEqual(self.formulas(), [["a_1*b", False], ["x^2*y*", False], [
            "\\sum_{i=1}^n i = \\frac{n(n+1)}{2}", True], ["\\sqrt{x}", True], ["y", True]])
        text = self.text()
        for kept in ("it costs $5 and $10, US$3-$4, $7.", "$$open"):
            self.assertIn(kept, text)
        self.page.wait(
            "document.fonts.check('16px KaTeX_Main') && [...document.fonts].some(f => f.family === 'KaTeX_Math' && f.status === 'loaded')")
        fonts = [url for url in self.page.asked if "/fonts/" in url]
        self.assertTrue(fonts and all(url.endswith(".woff2") for url in fonts), fonts)
        box = self.page.run(
            f"(b => [b.width, b.height])({ANSWER}.querySelector('.katex-display .mfrac').getBoundingClientRect())")
        self.assertGreater(box[1], 20)  # A fraction is two lines high if the style sheet is loaded.

    def test_arrows_of_vectors_have_their_width(self):
        scripted.answers["hi"] = ["$\\vec{v}$", End()]
        self.open()
        # KaTeX sets this one as an attribute, and the page corrects it.
        self.expected = "inline style"
        self.ask("hi")
        self.state("done")
        self.page.wait(f"{ANSWER}.querySelector('.katex svg')")
        self.assertGreater(
            self.page.run(f"{ANSWER}.querySelector('.katex svg').getBoundingClientRect().width"), 5)

    def test_no_formula_is_found_in_code(self):
        scripted.answers["hi"] = [
            "`$a$` and `\\(b\\)` and ``$$c$$`` `x` costs $`y`$\n\n```sh\necho $HOME $PATH$\n$$\nx\n$$\n\\[ z \\]\n```\n\n",
            "    $$indented$$\n\n    \\[ indented \\]\n\nend", End()]
        self.open()
        self.ask("hi")
        self.state("done")
        self.assertEqual(self.formulas(), [])
        self.assertEqual(self.page.run(f"[...{ANSWER}.querySelectorAll('.formula')].length"), 0)
        self.assertIn("echo $HOME $PATH$\n$$\nx\n$$\n\\[ z \\]", self.text())
        self.assertEqual([url for url in self.page.asked if "katex" in url], [],
                         "KaTeX is loaded for a formula only")

    def test_a_formula_is_drawn_when_it_is_complete(self):
        more = threading.Event()
        scripted.answers["hi"] = ["$$\nx = ", more, "1\n$$\n\nend", End()]
        self.open()
        self.ask("hi")
        self.page.wait(f"{ANSWER}.innerText.includes('x =')")
        self.assertEqual(self.formulas(), [])
        more.set()
        self.state("done")
        self.page.wait(f"{ANSWER}.querySelector('.katex-display')")
        self.assertEqual(self.formulas(), [["x = 1", True]])

    def test_hostile_and_wrong_formulas_do_no_harm(self):
        hostile = ["\\href{javascript:window.harmed=1}{x}", "\\url{http://192.0.2.1/}",
                   "\\includegraphics{http://192.0.2.1/a.png}", "\\htmlId{log}{x}",
                   "\\htmlClass{notice}{x}", "\\htmlStyle{position:fixed}{x}", "\\htmlData{a=b}{x}",
                   "<img src=x onerror=window.harmed=1>", "\\def\\x{\\x\\x}\\x",
                   "\\text{<script>window.harmed=1</script>}", "\\rule{1e9em}{1e9em}", "\\frac{",
                   "}", "\\unknown", "\\color{red;position:fixed}{x}"]
        scripted.answers["hi"] = ["\n\n".join(f"${x}$\n\n$${x}$$" for x in hostile) + "\n\nend",
                                  End()]
        self.open()
        self.ask("hi")
        self.state("done")
        self.page.wait(f"{ANSWER}.innerText.includes('end') && {ANSWER}.querySelector('.katex')")
        self.assertEqual(self.page.run(f"""[...{ANSWER}.querySelectorAll('.body *')].flatMap(e => [...e.attributes].map(a => a.name).filter(
            name => /^(on.*|href|src|id|data-.*|action|srcdoc)$/.test(name)))"""), [])
        self.assertEqual(self.page.run(
            f"{ANSWER}.querySelectorAll('a, img, script, iframe, .notice').length"), 0)
        self.assertIsNone(self.page.run("window.harmed"))
        self.assertEqual(self.page.run(
            f"[...{ANSWER}.querySelectorAll('.body *')].filter(e => getComputedStyle(e).position === 'fixed').length"),
                         0)
        self.assertLess(self.page.run(f"{ANSWER}.scrollHeight"), 10000)
        self.assertIn("$\\frac{$", self.text())  # Invalid formulas are shown as they were written.
        self.assertIn("$$\\unknown$$", self.text())

    def test_without_katex_formulas_stay_as_written(self):
        scripted.replaced[
            "/page/libraries.js"] = b'export const libraries = [["marked", "4", "MIT"], ["dompurify", "2", "MPL"]];'
        scripted.answers["hi"] = ["**b** $a_1 b_1$\n\n$$\nx_1*y*\n$$\n\n\\(z\\)", End()]
        self.open()
        self.ask("hi")
        self.state("done")
        self.page.wait(f"{ANSWER}.querySelector('strong')")
        self.assertEqual("".join(self.text().split()), "b$a_1b_1$$$x_1*y*$$\\(z\\)")
        self.assertEqual([url for url in self.page.asked if "katex" in url], [])

    # ---- figures ----

    def figures(self):
        return self.page.run(f"{ANSWER}.querySelector('.figures').textContent")

    def test_a_rate_is_shown_only_where_it_says_something(self):
        scripted.answers.update({"one": ["a", End()], "burst": [*"abcdefgh", End()],
                                 "slow": [x for c in "abcdef" for x in (c, .08)] + [End()]})
        self.open()
        for question, tokens in (("one", "1 token,"), ("burst", "8 tokens,"),
                                 ("slow", "6 tokens,")):
            self.ask(question)
            self.page.wait(
                f"{ANSWER}?.dataset.state === 'done' && {ANSWER}.querySelector('.figures').textContent.startsWith('{tokens}')")
            if question == "one":
                self.assertNotIn("tokens/s", self.figures())
        rate = float(re.search(r"([\d.]+) tokens/s", self.figures())[1])
        self.assertTrue(0 < rate < 15, rate)  # five pauses of 80 ms between six tokens
        self.assertEqual(self.page.run("""import('/page/answer.js').then(({tokenRate}) => [
            tokenRate(1, 1, 0), tokenRate(1, 1, 5000), tokenRate(2, 2, 1), tokenRate(100, 100, 199), tokenRate(100, 2, 500),
            tokenRate(100, 49, 500), tokenRate(101, 101, 500), tokenRate(0, 10, 500), tokenRate(3, 3, 500), tokenRate(5, 4, 200)])"""),
            [0, 0, 0, 0, 0, 0, 200, 0, 0, 20])

    def test_the_context_that_is_used_is_shown(self):
        scripted.context_length = 1000
        scripted.answers.update({"hi": ["a", "b", End()], "more": ["c", End("length")]})
        self.open()
        self.page.wait("document.querySelector('#model').innerText")
        self.assertTrue(self.page.run("document.querySelector('#context').hidden"))
        self.ask("hi")
        self.state("done")
        self.page.wait("!document.querySelector('#context').hidden")
        shown = "[document.querySelector('#context').innerText.trim(), document.querySelector('#context-meter').value, document.querySelector('#context-meter').max]"
        self.assertEqual(self.page.run(shown), ["7 of 1,000 tokens", 7, 1000])
        self.page.call("Page.reload")
        self.page.wait(
            "document.querySelector('#context') && !document.querySelector('#context').hidden")
        self.assertEqual(self.page.run(shown), ["7 of 1,000 tokens", 7, 1000])
        self.ask("more")
        self.state("length")
        self.assertEqual(self.note(), "The answer reached its maximum length.")
        self.page.click("#new")
        self.assertTrue(self.page.run("document.querySelector('#context').hidden"))

    def test_a_full_context_says_what_to_do(self):
        scripted.context_length = 6
        scripted.answers["hi"] = ["a", End("length")]
        self.open()
        self.page.wait("document.querySelector('#model').innerText")
        self.ask("hi")
        self.state("length")
        self.assertEqual(
            self.note(),
            "The context is full. Start a new conversation, or edit an earlier message.")

    # ---- conversations and settings ----

    def test_an_edited_message_replaces_what_follows(self):
        scripted.answers.update({"one": ["1", End()], "two": ["2", End()], "three": ["3", End()]})
        self.open()
        for text in ("one", "two"):
            self.ask(text)
            self.page.wait(
                f"document.querySelectorAll('.answer[data-state=done]').length === {1 + (text == 'two')}")
        self.page.run("document.querySelector('.question .actions button').click()")
        self.page.run("document.querySelector('.edit textarea').value = 'three'")
        self.page.click(".edit .strong")
        self.page.wait(
            "document.querySelectorAll('.message').length === 2 && document.querySelector('.answer').dataset.state === 'done'")
        self.assertEqual(scripted.asked[-1]["messages"], [{"role": "user", "content": "three"}])
        self.assertEqual(self.text(), "3")

    def test_enter_sends_an_edited_message(self):
        scripted.answers.update({"one": ["1", End()], "one\ntwo": ["2", End()]})
        self.open()
        self.ask("one")
        self.state("done")
        self.page.wait(
            "document.querySelector('.edit') || document.querySelector('.question .actions button').click()")
        self.page.wait("document.activeElement.matches('.edit textarea')")
        self.page.press("Enter", shift=True)
        self.page.type("two")
        self.assertEqual(self.page.run("document.querySelector('.edit textarea').value"),
                         "one\ntwo")
        self.assertEqual(len(scripted.asked), 1)
        self.page.press("Enter")
        self.page.wait(
            "!document.querySelector('.edit') && document.querySelectorAll('.message').length === 2")
        self.page.wait(f"{ANSWER}.innerText.includes('2')")
        self.assertEqual(scripted.asked[-1]["messages"], [{"role": "user", "content": "one\ntwo"}])

    def test_enter_on_cancel_of_an_edit_sends_nothing(self):
        scripted.answers["one"] = ["1", End()]
        self.open()
        self.ask("one")
        self.state("done")
        self.page.wait(
            "document.querySelector('.edit') || document.querySelector('.question .actions button').click()")
        self.page.run("document.querySelector('.edit .row button').focus()")
        self.page.press("Enter")
        self.page.wait("!document.querySelector('.edit')")
        self.assertEqual(len(scripted.asked), 1)

    def test_settings_and_system_prompt_reach_the_server(self):
        scripted.answers["hi"] = ["a", End()]
        self.open()
        self.page.wait("document.querySelector('#model').innerText")
        self.page.click("#open-settings")
        self.page.run("""(() => { for (const [name, value] of Object.entries({temperature: '0.5', top_k: '7', seed: '3',
            stop: 'x\\ny', model: 'other', top_p: '9', typical_p: '0.9', top_n_sigma: '1.5', xtc_probability: '0.2',
            xtc_threshold: '2', dry_multiplier: '0.8', dry_allowed_length: '3'})) document.querySelector(`[name=${name}]`).value = value;
            document.querySelector('#settings-form').dispatchEvent(new Event('change')); })()""")
        self.page.click("#settings-form [type=submit]")
        self.page.call("Page.reload")
        self.page.wait("document.querySelector('#model')?.innerText === 'other'")
        self.page.run("""(() => { const s = document.querySelector('#system'); s.value = 'Be brief.';
            s.dispatchEvent(new Event('input')); })()""")
        self.ask("hi")
        self.state("done")
        asked = {k: v for k,
                 v in scripted.asked[0].items() if k not in ("stream", "stream_options")}
        self.assertEqual(asked, {"model": "other", "temperature": 0.5, "top_k": 7,
                                 "seed": 3, "stop": ["x", "y"], "typical_p": 0.9,
                                 "top_n_sigma": 1.5, "xtc_probability": 0.2,
                                 "dry_multiplier": 0.8, "dry_allowed_length": 3,
                                 "messages": [{"role": "system", "content": "Be brief."},
                                              {"role": "user", "content": "hi"}]})

    def test_conversations_are_exported_deleted_and_imported(self):
        scripted.answers["hi"] = ["kept", End()]
        self.open()
        self.ask("hi")
        self.state("done")
        with tempfile.TemporaryDirectory() as folder:
            chromium.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder,
                          browserContextId=self.page.context)
            self.page.click("#export")
            path = pathlib.Path(folder)
            for _ in range(500):
                if files := list(path.glob("*.json")):
                    break
                threading.Event().wait(0.02)
            self.assertEqual(json.loads(
                files[0].read_text())["conversations"][0]["messages"][1]["content"], "kept")
            self.page.click("#list .remove")
            self.page.wait("document.querySelectorAll('#list li').length === 0")
            self.assertEqual(len(self.page.dialogs), 1)
            self.page.choose_file("#file", files[0])
            self.page.wait(
                "document.querySelector('#notice').innerText === '1 conversation was imported.'")
            self.page.click("#list .title")
            self.page.wait(f"{ANSWER}.innerText.includes('kept')")
            (path / "bad.json").write_text(
                '{"format": "gallop-conversations", "version": 1, "conversations": [{"id": 3}]}')
            self.page.choose_file("#file", path / "bad.json")
            self.page.wait(
                "document.querySelector('#notice').innerText.includes('Conversation 1 of the file is damaged')")

    # ---- live view ----

    def test_the_live_view_shows_the_metrics(self):
        n = iter(range(1000))
        scripted.metrics = lambda: metrics(next(n))
        self.open("#live")
        self.page.wait("/^[1-9]/.test(document.querySelectorAll('#live dd')[4].innerText)")
        tiles = self.page.run("[...document.querySelectorAll('#live dd')].map(e => e.innerText)")
        self.assertEqual(tiles[:4] + tiles[6:7], ["3", "5", "43.2 %", "25.0 %", "9"])
        self.assertIn("p50 183 ms", self.page.run("document.querySelector('#live').innerText"))
        rows = self.page.run(
            "[...document.querySelectorAll('[aria-label=\"Operators, table\"] tbody tr')]"
            ".map(e => [...e.children].map(c => c.textContent))")
        self.assertEqual(rows, [["mlp", "75.0 %", "8.00", "20.0", "40.0 %"],
                                ["norm", "25.0 %", "–", "–", "–"]])
        self.page.run("document.querySelectorAll('#live details')[2].open = true")
        self.page.wait(
            "document.querySelectorAll('#live details')[2].innerText.includes('≤ 200 ms\\t6')")
        self.page.wait("document.querySelector('#live canvas').width > 100")
        self.page.click("#to-chat")
        self.page.wait("!document.querySelector('#chat').hidden")
        asked = scripted.n_metrics
        threading.Event().wait(2.5)
        self.assertLessEqual(scripted.n_metrics - asked, 1)

    def test_waiting_has_a_row_of_its_own_and_no_share_is_above_100_percent(self):
        n = iter(range(1000))

        def grown():
            k = next(n)
            return (metrics(k).replace("gallop:roof_bytes_per_second 2e10",
                                       "gallop:roof_bytes_per_second 1e9")
                    + f'gallop:operator_waiting_seconds_total{{engine="0"}} {k}\n')
        scripted.metrics = grown
        self.open("#live")
        table = "[...document.querySelectorAll('[aria-label=\"Operators, table\"] tbody tr')].map(e => [...e.children].map(c => c.textContent))"
        self.page.wait(f"{table}.length === 3")
        self.assertEqual(self.page.run(table), [["mlp", "37.5 %", "8.00", "20.0", "100.0 %"], [
            "norm", "12.5 %", "–", "–", "–"], ["waiting", "50.0 %", "–", "–", "–"]])

    def test_two_samples_at_once_give_no_rate(self):
        self.open()
        self.assertEqual(self.page.run("""import('/page/live.js').then(({Live}) => {
            const live = new Live(document.createElement('div'), {});
            const at = (ms, tokens) => ({at: ms, value: new Map([['t', tokens]])});
            live.samples = [at(0, 0), at(2, 50), at(1000, 100)];
            return [live.rate('t', 0), live.rate('t', 1), live.rate('t', 2)].map(String); })"""), ["NaN", "NaN", "100"])

    # ---- accessibility ----

    def test_without_libraries_text_and_tables_remain(self):
        scripted.replaced["/page/libraries.js"] = b"export const libraries = [];"
        scripted.metrics = lambda: metrics(5)
        scripted.answers["hi"] = ["**not** ", "<b>bold</b>", End()]
        self.open()
        self.ask("hi")
        self.state("done")
        self.assertEqual(self.text(), "**not** <b>bold</b>")
        self.page.click("#to-live")
        self.page.wait("document.querySelector('#live').innerText.includes('≤ 200 ms')")
        self.assertEqual([url for url in self.page.asked if "/library/" in url], [])

    def test_a_narrow_screen_needs_no_scrolling_to_the_side(self):
        scripted.metrics = lambda: metrics(5)
        scripted.answers[LONG] = [*WIDE, Fail(LONG)]
        for width in (320, 390):
            self.page.resize(width, 640)
            self.open()
            self.ask(LONG)
            self.state("interrupted")
            self.page.wait(f"{ANSWER}.querySelector('.wide')")
            self.assertEqual(self.page.run(
                "(e => e.scrollWidth - e.clientWidth)(document.querySelector('#log'))"), 0)
            self.assertEqual(self.page.run(CUT_OFF), [])
            self.assertEqual(self.page.run(BOXES), [True] * 4)
            for view in ("#to-chat", "#to-live"):
                self.page.click(view)
                self.page.wait(f"location.hash === '#{view[4:]}'")
                self.assertLessEqual(self.page.run("document.documentElement.scrollWidth"), width)
                self.assertLessEqual(self.page.run(
                    "Math.max(...[...document.querySelectorAll('.top *, #composer *, .tiles *')]"
                    ".map(e => e.getBoundingClientRect().right))"), width)
            self.page.click("#to-chat")
            self.page.click("#menu")
            self.page.wait("document.activeElement.id === 'new'")
            self.page.press("Escape")
            self.assertFalse(self.page.run("document.querySelector('#new').checkVisibility()"))
            self.page.click("#menu")  # the live view has no button that closes the list
            self.page.click("#to-live")
            self.page.wait("!document.querySelector('#new').checkVisibility()")
            self.assertTrue(self.page.run("document.querySelector('#live').checkVisibility()"))
            self.page.click("#to-chat")
        self.page.run(
            """document.querySelectorAll('.body').forEach(e => { e.style.overflowWrap = 'normal'; })""")
        self.assertIn("P", self.page.run(CUT_OFF))  # The check detects it.
        self.page.run(
            """document.querySelectorAll('.wide').forEach(e => { e.style.overflowWrap = 'anywhere'; })""")
        self.assertIn(False, self.page.run(BOXES))

    def test_all_can_be_done_by_keyboard(self):
        scripted.answers["hi"] = ["part", threading.Event()]
        self.open()
        self.page.press("Tab")
        self.assertEqual(self.page.run("document.activeElement.id"), "skip")
        self.page.press("Enter")
        self.page.wait("document.activeElement.id === 'input'")
        self.page.type("hi")
        self.page.press("Enter", shift=True)
        self.assertEqual(scripted.asked, [])
        self.page.run("document.querySelector('#input').value = 'hi'")
        self.page.press("Enter")
        self.page.wait(f"{ANSWER}?.innerText.includes('part')")
        self.page.press("Escape")
        self.state("stopped")
        self.assertEqual(self.page.run("document.activeElement.id"), "input")

    def test_everything_has_a_name_and_enough_contrast(self):
        scripted.metrics = lambda: metrics(5)
        scripted.answers["hi"] = [
            "text `code`\n\n```python\ndef f(): return 'a' # b\n```\n\n> quote\n\n[l](http://a.b)",
            CUT]
        self.expected = "ERR_"
        self.open()
        self.ask("hi")
        self.state("interrupted")
        self.page.wait(f"{ANSWER}.querySelector('.hljs-comment')")
        for scheme in ("light", "dark"):
            self.page.media(prefers_color_scheme=scheme)
            for step in ("#to-chat", "#open-settings", "#settings-form [type=submit]", "#to-live"):
                self.page.click(step)
                nameless = [role for role, name in self.page.accessible()
                            if role in ("button", "textbox", "link", "combobox", "spinbutton",
                                        "img", "dialog", "log") and not name]
                self.assertEqual((step, nameless), (step, []))
                self.assertEqual((scheme, step, self.page.run(FAINT)), (scheme, step, []))

    def test_the_check_of_contrast_sees_faint_text(self):
        self.open()
        self.page.run("document.querySelector('h1').style.color = 'rgb(150, 150, 150)'")
        self.assertEqual(len(self.page.run(FAINT)), 1)

    def test_an_answer_is_drawn_ten_times_a_second_however_fast_it_comes(self):
        scripted.answers["hi"] = [step for i in range(500) for step in (f"*{i}* ", .002)] + [End()]
        self.open()
        self.page.run("""import('/page/markdown.js').then(({Markdown}) => {
            const show = Markdown.prototype.show;
            Markdown.prototype.show = function (...all) { window.drawn++; return show.apply(this, all); };
            window.drawn = 0; window.begun = performance.now(); })""")
        self.ask("hi")
        self.state("done")
        drawn, ms = self.page.run("[window.drawn, performance.now() - window.begun]")
        self.assertLess(drawn, ms / 100 + 5)
        self.assertEqual(self.text(), " ".join(map(str, range(500))))
        self.assertEqual(self.page.run(f"{ANSWER}.querySelectorAll('em').length"), 500)

    # ---- the server itself ----

    def test_the_page_of_the_server_talks_to_the_model(self):
        self.page.open(f"http://127.0.0.1:{real.port}/")
        self.page.wait("document.querySelector('#model').innerText === 'demo'")
        self.ask("What is 3 plus 4?")
        self.page.wait(f"['done', 'length'].includes({ANSWER}?.dataset.state)", 100)
        self.assertNotEqual(self.text(), "")
        self.page.click("#to-live")
        self.page.wait("document.querySelectorAll('#live dd')[6].innerText === '1'")

    def test_files_have_their_headers_and_are_not_sent_twice(self):
        def get(path, **headers):
            request = urllib.request.Request(f"http://127.0.0.1:{real.port}{path}", headers=headers)
            try:
                with urllib.request.urlopen(request) as r:
                    return r.status, r.headers, r.read()
            except urllib.error.HTTPError as e:
                return e.code, e.headers, e.read()

        status, headers, body = get("/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'; script-src 'self'", headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])
        self.assertEqual((headers["X-Content-Type-Options"], headers["Referrer-Policy"]),
                         ("nosniff", "no-referrer"))
        self.assertEqual(get("/", **{"If-None-Match": headers["ETag"]})[0], 304)
        self.assertEqual(get("/", **{"If-None-Match": '"other"'})[0], 200)
        packed = get("/", **{"Accept-Encoding": "gzip"})
        self.assertEqual((packed[1]["Content-Encoding"], gzip.decompress(packed[2])),
                         ("gzip", body))
        self.assertNotEqual(packed[1]["ETag"], headers["ETag"])
        self.assertIsNone(get("/", **{"Accept-Encoding": "gzip;q=0, br"})[1]["Content-Encoding"])
        self.assertEqual(get("/page/none.js")[0], 404)
        font = get("/page/library/fonts/KaTeX_Main-Regular.woff2", **{"Accept-Encoding": "gzip"})
        if font[0] == 200:  # already compressed
            self.assertEqual((font[1]["Content-Type"], font[1]["Content-Encoding"], font[2][:4]),
                             ("font/woff2", None, b"wOF2"))


@unittest.skipUnless(PICTURES, "GALLOP_PICTURES names no folder")
class Pictures(OnPage):
    def test_pictures(self):
        scripted.context_length = 1024
        n = iter(range(1000))
        scripted.metrics = lambda: metrics(next(n))
        question = "How do I read a file line by line in C?"
        scripted.answers[question] = [
            "`getline` grows its buffer as needed:\n\n```c\nchar *line = NULL;\nsize_t cap = 0;\n\n"
            "while (getline(&line, &cap, f) != -1)\n    handle(line); /* ends in a newline */\nfree(line);\n```\n\n",
            "| returns | when |\n| --: | --- |\n| length | a line was read |\n| -1 | the end, or an error |\n\n",
            "**One buffer** serves all lines, so there is one `free`.", End()]
        self.page.resize(1000, 700)
        self.open()
        self.ask(question)
        self.state("done")
        self.page.wait(f"{ANSWER}.querySelector('.hljs-comment')")
        self.page.picture(f"{PICTURES}/page-chat.png")
        self.page.media(prefers_color_scheme="dark")
        self.page.resize(390, 760)
        self.page.picture(f"{PICTURES}/page-phone.png")
        self.page.resize(1000, 860)
        self.page.click("#to-live")
        threading.Event().wait(8)
        self.page.picture(f"{PICTURES}/page-live.png")


if __name__ == "__main__":
    if not browser.find():
        print("skipped: no browser is installed (Debian's package chromium-headless-shell)")
        sys.exit(77)
    unittest.main()
