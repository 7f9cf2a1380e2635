"""browser.py - a headless Chromium, driven over the DevTools protocol through two pipes.
Standard library only.

https://chromedevtools.github.io/devtools-protocol/ - messages are JSON, each followed by a NUL.
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

BINARIES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WAIT_S = 30


class BrowserError(Exception):
    pass


def find():
    """Returns the path of a browser, or None."""
    return next((path for path in map(shutil.which, BINARIES) if path), None)


class Browser:
    def __init__(self, binary):
        self.folder = tempfile.mkdtemp(prefix="gallop-page-")
        self.answers, self.listeners, self.last_id = {}, {}, 0
        self.changed = threading.Condition()
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()
        flags = ["--headless", "--remote-debugging-pipe", f"--user-data-dir={self.folder}",
                 "--no-first-run", "--disable-gpu", "--disable-background-networking",
                 "--disable-component-update", "--hide-scrollbars", "--disable-dev-shm-usage",
                 "--lang=en-GB"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")

        # The browser reads descriptor 3 and writes 4, whatever numbers the pipes have here.
        shell = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$0" "$@"'
        self.process = subprocess.Popen(["bash", "-c", shell, binary, *flags, "about:blank"],
                                        pass_fds=(to_browser, from_browser),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        rest = b""
        while part := os.read(self.inp, 1 << 16):
            *messages, rest = (rest + part).split(b"\0")
            for message in map(json.loads, messages):
                with self.changed:
                    if "id" in message:
                        self.answers[message["id"]] = message
                    else:
                        listener = self.listeners.get(message.get("sessionId"))
                        if listener:
                            listener(message["method"], message["params"])
                    self.changed.notify_all()

    def post(self, method, session=None, **params):
        """Sends a command and does not wait for its answer; returns its id."""
        with self.changed:
            self.last_id += 1
            message = {"id": self.last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        return message["id"]

    def call(self, method, session=None, **params):
        ident = self.post(method, session, **params)
        with self.changed:
            if not self.changed.wait_for(lambda: ident in self.answers, WAIT_S):
                raise BrowserError(f"{method}: no answer within {WAIT_S} s")
            answer = self.answers.pop(ident)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def close(self):
        try:
            self.call("Browser.close")
        except (BrowserError, OSError):
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Page:
    """A tab with its own storage. Errors that the browser reports are in `complaints`, requested
    addresses in `asked`."""

    def __init__(self, browser, width=1200, height=800, context=None):
        self.browser = browser
        self.complaints, self.asked, self.dialogs = [], [], []
        self.owns = context is None
        self.context = context or browser.call("Target.createBrowserContext")["browserContextId"]
        self.target = browser.call("Target.createTarget", url="about:blank",
                                   browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target,
                                    flatten=True)["sessionId"]
        browser.listeners[self.session] = self._listen
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def _listen(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(" ".join(str(a.get("value", a.get("description")))
                                            for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self.browser.post("Page.handleJavaScriptDialog", self.session, accept=True)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)

    def media(self, **features):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, code):
        """Returns the value of the expression CODE. A promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(answer["exceptionDetails"].get("exception",
                                                              {}).get("description", code))
        return answer["result"].get("value")

    def wait(self, code, seconds=WAIT_S):
        """Waits until CODE is true. Fails with what the page shows then."""
        end = time.monotonic() + seconds
        while True:
            try:
                if self.run(f"Boolean({code})"):
                    return
            except BrowserError:
                pass  # The page is loading.
            if time.monotonic() > end:
                raise BrowserError(
                    f"not true within {seconds} s: {code}\npage: {self.run('document.body.innerText')}\n"
                    f"complaints: {self.complaints}")
            time.sleep(0.02)

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key, shift=False):
        codes = {"Enter": 13, "Tab": 9, "Escape": 27}
        params = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key],
                  "modifiers": 8 if shift else 0}
        if key == "Enter":
            params["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **params)
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def choose_file(self, selector, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def accessible(self):
        """Returns (role, name) of everything in the accessibility tree."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes
                if not n.get("ignored")]

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.browser.listeners.pop(self.session, None)
        self.browser.call("Target.closeTarget", targetId=self.target)
        if self.owns:
            self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
