"""A browser without a window on the dashboard of a real daemon, and what holds after every test of the page.

main() is unittest.main() for these tests: where there is no Chromium, or the daemon holds no page, the program exits with
77, which CTest reports as skipped. TUNEFARM_REQUIRE_BROWSER=1, which .ci/run sets, turns that into a failure.
"""

import base64
import json
import os
import pathlib
import re
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(os.environ["TUNEFARM_SOURCE_DIR"]) / "tests" / "e2e"))
from farm import BIN, Farm, wait_until  # noqa: E402

CHROMIUM = pathlib.Path("/usr/bin/chromium")
DRIVER = pathlib.Path("/usr/bin/chromedriver")
try:
    from selenium import webdriver
    from selenium.common.exceptions import ElementClickInterceptedException, StaleElementReferenceException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

SCREENSHOTS = pathlib.Path(os.environ.get("TUNEFARM_SCREENSHOTS") or BIN.parent / "screenshots")
# What `tunefarm dashboard` prints.
LOGIN = re.compile(r"https?://\S+#login=[0-9a-f]{64}")

# Visible elements by role and name, below another one: arguments[0], "" for any role; a name is a text, or {pattern}.
FIND = """
const [role, name, below] = arguments;
const selectors = {button: "button", link: "a[href]", heading: "h1,h2,h3", table: "table", row: "tr", cell: "td,th",
                   region: "section,[role=region]", dialog: "dialog[open]", alert: "[role=alert]", status: "[role=status]",
                   field: "input,select,textarea", image: "[role=img],img,svg,canvas"};
const text = e => (e.innerText ?? e.textContent ?? "").trim().replace(/\\s+/g, " ");
const byId = e => (e.getAttribute("aria-labelledby") ?? "").split(" ").map(id => document.getElementById(id))
                    .filter(Boolean).map(text).join(" ");
const nameOf = e => e.getAttribute("aria-label") || byId(e) || (e.labels?.[0] && text(e.labels[0])) ||
                    (e.tagName === "TABLE" && e.caption && text(e.caption)) || text(e);
const fits = n => name === null || (typeof name === "string" ? n === name : new RegExp(name.pattern).test(n));
return [...(below ?? document).querySelectorAll(selectors[role] ?? role)]
  .filter(e => e.checkVisibility() && fits(nameOf(e)));
"""
# Texts that are hard to read: their contrast to the ground is below that of WCAG 2.2 AA.
FAINT = r"""
const rgb = c => { const m = c.match(/[\d.]+/g).map(Number); return c.startsWith("color(") ? m.map((v, i) => i < 3 ? v * 255 : v) : m; };
const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
                     return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const over = (top, under) => { const a = top[3] ?? 1; return [0, 1, 2].map(i => top[i] * a + under[i] * (1 - a)); };
const ground = e => { if (!e) return rgb(getComputedStyle(document.documentElement).colorScheme.includes("dark") &&
                        matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(18, 18, 18)" : "rgb(255, 255, 255)");
                      const own = rgb(getComputedStyle(e).backgroundColor);
                      return (own[3] ?? 1) === 1 ? own : over(own, ground(e.parentElement)); };
const faint = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walk.nextNode());) {
  const e = node.parentElement;
  if (!node.data.trim() || !e.checkVisibility({opacityProperty: true}) || e.closest("[disabled],[aria-hidden=true],script,style")) continue;
  const style = getComputedStyle(e), under = ground(e);
  const color = e.closest("svg") && style.fill.startsWith("rgb") ? style.fill : style.color;
  const a = light(over(rgb(color), under)), b = light(under);
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
  if (contrast < (isLarge ? 3 : 4.5)) faint.push(`${node.data.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
}
return faint;
"""


def unusable():
    """Why no test of the page can run here; empty if they can."""
    if webdriver is None:
        return "Python's selenium is not installed (Debian: python3-selenium)"
    for program, package in ((CHROMIUM, "chromium"), (DRIVER, "chromium-driver")):
        if not program.exists():
            return f"{program} does not exist (Debian: {package})"
    return ""


def main():
    reason = unusable()
    if not reason:
        with Dashboard() as farm:
            farm.start()
            shown = farm.cli("dashboard", check=False)
            if shown.returncode != 0:
                reason = f"the daemon has no page: {shown.stderr.strip()}"
    if reason:
        print(f"NOT TESTED: {reason}", flush=True)
        sys.exit(1 if os.environ.get("TUNEFARM_REQUIRE_BROWSER") == "1" else 77)
    unittest.main(verbosity=2)


class Dashboard(Farm):
    """A daemon whose page is looked at."""

    def login(self, *options):
        """An address that logs in, once."""
        done = self.cli("dashboard", *options)
        return LOGIN.search(done.stdout + done.stderr)[0]


class Browser:
    """One browser with a profile of its own: `with Browser() as browser:`. Waits end when something is seen, never by time
    alone, except that what takes very long counts as hung. `logs`: what assert_clean() reads; keeping it takes the browser's
    time and memory."""

    def __init__(self, logs=True):
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in ("--headless=new", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1280,900"):
            options.add_argument(flag)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        if logs:
            options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(str(DRIVER)), options=options)
        self.clicks = 0
        self.origins = set()  # what the page may ask
        self.expected = []  # patterns of messages of the console that a test provokes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    # --- Where it is

    def open(self, address):
        """Another address; of the same page only the fragment may differ."""
        parts = urllib.parse.urlsplit(address)
        self.origins.add(f"{parts.scheme}://{parts.netloc}")
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.driver.get(address)

    def log_in(self, address):
        self.open(address)
        self.wait_for("link", "Jobs")

    def view(self, fragment):
        """A view by its address, drawn."""
        self.driver.get(f"{self.origin}/{fragment}")
        return self.drawn()

    def drawn(self):
        """Waits until the view has its content, and returns the text of it."""
        wait_until(lambda: "Loading …" not in self.text() and self.text().strip(), f"the content of {self.driver.current_url}")
        return self.text()

    # --- What it shows

    def text(self, selector="main"):
        return self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def find(self, role, name=None, below=None):
        """All visible elements of a role whose name is `name`, or matches it if it is a compiled pattern."""
        if isinstance(name, re.Pattern):
            name = {"pattern": name.pattern}
        return self.driver.execute_script(FIND, role, name, below)

    def wait_for(self, role, name=None, below=None):
        what = f"{role} {name!r} at {self.driver.current_url}"
        try:
            return wait_until(lambda: self.find(role, name, below), what)[0]
        except AssertionError:
            print(f"--- {what} is missing; the page shows ---\n{self.text('body')[:4000]}")
            raise

    def wait_gone(self, role, name=None):
        wait_until(lambda: not self.find(role, name), f"the end of {role} {name!r}")

    def wait_text(self, pattern, selector="main"):
        """Waits for text that the pattern finds, and returns the match."""
        try:
            return wait_until(lambda: re.search(pattern, self.text(selector)), f"{pattern!r} at {self.driver.current_url}")
        except AssertionError:
            print(f"--- {pattern!r} is missing; the page shows ---\n{self.text('body')[:4000]}")
            raise

    # --- What is done to it

    def click(self, role, name=None, below=None):
        def clicked():
            try:
                found = self.find(role, name, below)
                return bool(found) and (found[0].click() or True)
            except (StaleElementReferenceException, ElementClickInterceptedException):
                return False  # the page has replaced the element
        try:
            wait_until(clicked, f"a click on {role} {name!r}")
        except AssertionError:
            print(f"--- {role} {name!r} is missing; the page shows ---\n{self.text('body')[:4000]}")
            raise
        self.clicks += 1

    def type(self, field, text):
        """In place of what the field holds, with Enter at its end."""
        field.send_keys(Keys.CONTROL + "a", Keys.NULL, text, Keys.ENTER)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def clipboard(self):
        self.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        return self.driver.execute_async_script(
            "const done = arguments[0]; navigator.clipboard.readText().then(done, e => done(String(e)));")

    # --- How it looks

    def resize(self, width, height=900, scale=1):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False})

    def color_scheme(self, scheme):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def screenshot(self, path, height_max=6000):
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height_max), "scale": 1}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def wait_fits(self):
        """Waits until the page is not wider than its window, which takes some frames after a resize."""
        wider = "const e = document.documentElement; return e.scrollWidth - e.clientWidth"
        wait_until(lambda: self.driver.execute_script(wider) <= 0, "a page that is as wide as its window", 60)

    def faint_texts(self):
        return self.driver.execute_script(FAINT)

    def nameless(self):
        """What can be operated, and has no name for those who cannot see it."""
        return [e.get_attribute("outerHTML")[:200] for e in self.find("a[href],button,input,select,textarea,dialog[open]", "")]

    # --- What it must not do

    def assert_clean(self):
        """No error and no report of the content security policy in the console, and no other host was asked."""
        for entry in self.driver.get_log("browser"):
            message = entry["message"]
            if (entry["level"] == "SEVERE" or "Content Security Policy" in message or "TrustedHTML" in message) and \
                    not any(re.search(pattern, message) for pattern in self.expected):
                raise AssertionError(f"the console says: {message}")
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] not in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                continue
            url = message["params"].get("request", message["params"])["url"]
            parts = urllib.parse.urlsplit(url)
            if parts.scheme in ("http", "https", "ws", "wss") and f"{parts.scheme}://{parts.netloc}" not in self.origins:
                raise AssertionError(f"the page asked {url}")


class PageTest(unittest.TestCase):
    """Tests with one daemon, which has tuned a kernel that works and one that fails in every way, and one browser, which is
    logged in. Job 1: matmul_host, job 2: faulty_host. After each test the page must have been clean."""

    FLAGS = ()
    ROLES = ("--role", "lookup,submit,admin")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.farm = Dashboard(*cls.FLAGS)
        cls.addClassCleanup(cls.farm.__exit__, None, None, None)
        cls.farm.start()
        cls.fill()
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.__exit__)
        cls.browser.log_in(cls.farm.login(*cls.ROLES))

    @classmethod
    def fill(cls):
        """What the daemon holds before the browser comes."""
        cls.farm.cli("tune", "matmul_host", *SMALL, "--policy", "fast", "--max-trials", "40", "--strategy", "random", "--seed", "1")
        cls.farm.cli("tune", "faulty_host", "--policy", "fast", "--dim", "N=4096", check=False)
        for n in ("96", "96", "160"):
            cls.farm.cli("best", "matmul_host", "--dim", "M=64", "--dim", f"N={n}", "--dim", "K=64")

    def setUp(self):
        self.browser.clicks = 0
        self.browser.expected = []
        self.addCleanup(self.browser.assert_clean)

    def submit(self, *arguments):
        """Queues a job and returns its number."""
        return self.farm.cli("submit", "--quiet", *arguments).stdout.strip()

    def state(self, job):
        return self.farm.json("jobs", "show", job)["state"].removeprefix("JOB_STATE_")


SMALL = ("--dim", "M=64", "--dim", "N=64", "--dim", "K=64")
