"""A page of another port of the same machine can neither read from the daemon, nor change anything in it, nor frame it, even
if it knows a token."""

import http.server
import re
import threading
import unittest

from browser import SMALL, Browser, Dashboard, main, wait_until

PAGE = b"""<!doctype html><title>foreign</title><iframe name="answer"></iframe><iframe id="frame"></iframe>
<form method="post" enctype="text/plain" target="answer"><input name='{"name":"jobs/1", "x":"' value='"}'></form>"""
# Tries a call in a way; answers with what came of it.
CALL = """
const [url, options, done] = arguments;
fetch(url, options).then(r => r.text().then(text => done(`${r.type} ${r.status} ${text}`)), e => done(`refused: ${e}`));
"""


class Foreign(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


class ForeignPage(unittest.TestCase):
    def setUp(self):
        self.farm = Dashboard()
        self.addCleanup(self.farm.__exit__, None, None, None)
        self.farm.start()
        self.farm.cli("submit", "matmul_host", *SMALL, "--quiet")
        self.farm.cli("jobs", "pause", "1")
        self.token = self.farm.cli("token", "create", "stolen", "--role", "lookup,submit").stdout.strip()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.foreign = f"http://127.0.0.1:{server.server_port}/"
        self.browser = Browser()
        self.addCleanup(self.browser.__exit__)
        self.browser.log_in(self.farm.login())
        self.daemon = self.browser.origin

    def state(self):
        return self.farm.json("jobs", "show", 1)["state"]

    def tried(self, call, **options):
        return self.browser.driver.execute_async_script(CALL, f"{self.daemon}/api/tunefarm.v1.TuningService/{call}", options)

    def test_a_foreign_page_can_do_nothing(self):
        self.browser.driver.get(self.foreign)
        self.assertEqual(self.browser.driver.execute_script("return JSON.stringify(localStorage)"), "{}")
        json_call = {"method": "POST", "body": '{"name":"jobs/1"}', "headers": {"Content-Type": "application/json"}}
        stolen = dict(json_call, headers=dict(json_call["headers"], Authorization=f"Bearer {self.token}"))
        plain = {"method": "POST", "body": '{"name":"jobs/1"}', "headers": {"Content-Type": "text/plain"}}
        for options in (json_call, stolen, plain, {"method": "GET"}, dict(json_call, credentials="include")):
            self.assertTrue(self.tried("GetJob", **options).startswith("refused: "), options)
            self.assertTrue(self.tried("CancelJob", **options).startswith("refused: "), options)
        # What a page may send without asking first, and whose answer it cannot read.
        for call in ("CancelJob", "DeleteJob"):
            self.assertRegex(self.tried(call, mode="no-cors", **plain), "^(opaque 0 $|refused: )")
        self.assertEqual(self.state(), "JOB_STATE_PAUSED")

    def test_a_form_of_a_foreign_page_changes_nothing(self):
        driver = self.browser.driver
        driver.get(self.foreign)
        driver.execute_script("document.forms[0].action = arguments[0]; document.forms[0].submit()",
                              f"{self.daemon}/api/tunefarm.v1.TuningService/CancelJob")
        # The frame is of another origin as soon as the daemon has answered.
        wait_until(lambda: driver.execute_script("try { return frames.answer.document === null } catch { return true }"), "an answer")
        self.assertEqual(self.state(), "JOB_STATE_PAUSED")

    def test_a_foreign_page_cannot_frame_it(self):
        driver = self.browser.driver
        driver.get(self.foreign)
        driver.execute_script("document.getElementById('frame').src = arguments[0]", self.daemon + "/")
        messages = []

        def is_refused():
            messages.extend(entry["message"] for entry in driver.get_log("browser"))
            return any(re.search("frame-ancestors|X-Frame-Options", message) for message in messages)

        wait_until(is_refused, "the refusal of the frame")
        driver.switch_to.frame("frame")
        self.assertEqual(driver.execute_script("return document.getElementById('app')"), None)


if __name__ == "__main__":
    main()
