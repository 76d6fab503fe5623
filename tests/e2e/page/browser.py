# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium over the DevTools protocol, with nothing but the standard library.

The protocol is spoken over two pipes (--remote-debugging-pipe): JSON messages that end
in a NUL byte. No port, no socket.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from harness import PATIENCE_S


def find():
    """Path of a Chromium, or None."""
    named = os.environ.get("ORRERY_CHROMIUM")
    for name in [named] if named else ["chromium", "chromium-browser", "google-chrome", "chrome"]:
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    def __init__(self, path, width=1440, height=1000):
        self.profile = tempfile.mkdtemp(prefix="orrery-page-")
        to_read, self.writer = os.pipe()
        self.reader, to_write = os.pipe()

        def pipes():
            # first out of the way of 3 and 4, then there
            a, b = os.dup(to_read), os.dup(to_write)
            high = [os.dup(a), os.dup(b)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.log = open(os.path.join(self.profile, "stderr"), "wb")
        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-extensions", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", f"--window-size={width},{height}", "about:blank"],
            close_fds=False, preexec_fn=pipes, stdout=subprocess.DEVNULL, stderr=self.log)
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.n_sent = 0
        self.events = []
        self.session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(domain + ".enable")
        self.resize(width, height)

    def receive(self, timeout):
        while b"\0" not in self.buffer:
            if not select.select([self.reader], [], [], timeout)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.reader, 1 << 20)
            if not got:
                raise EOFError("the browser is gone")
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, timeout=PATIENCE_S, **params):
        self.n_sent += 1
        call = {"id": self.n_sent, "method": method, "params": params}
        if self.session:
            call["sessionId"] = self.session
        os.write(self.writer, json.dumps(call).encode() + b"\0")
        while True:
            message = self.receive(timeout)
            if message.get("method") == "Inspector.targetCrashed":
                raise EOFError("the page is gone")
            if message.get("id") != self.n_sent:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    def eval(self, expression, timeout=PATIENCE_S):
        """The value of a JavaScript expression; a promise is awaited."""
        result = self.send("Runtime.evaluate", timeout=timeout, expression=expression,
                           returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def open(self, url, ready="window.orrery && window.orrery.ready", timeout=PATIENCE_S):
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.until(ready, f"{url} did not become ready", timeout)

    def until(self, condition, what, timeout=PATIENCE_S):
        """Return once the expression is true: what the browser is told reaches the page later."""
        end = time.monotonic() + timeout
        while not self.eval(f"!!({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: {self.problems()}")
            time.sleep(0.02)

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y, count=1):
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=count)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        if key in ("Tab", "Enter"):  # what the browser itself acts on goes by number
            text = {"code": key, "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13}[key]}
        if key == "Enter":
            text["text"] = "\r"
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def resize(self, width, height=1000):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def theme(self, name, media=""):
        self.send("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path, full=False):
        data = self.send("Page.captureScreenshot", captureBeyondViewport=full)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def problems(self):
        """Exceptions and complaints of the page since it was opened."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str(params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def requests(self):
        """Everything that the page asked of a network since it was opened."""
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def close(self):
        try:
            self.session = None
            self.send("Browser.close", timeout=PATIENCE_S)
        except (TimeoutError, EOFError, RuntimeError, OSError):
            pass
        try:
            self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.reader)
        os.close(self.writer)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)
