#!/usr/bin/env python3
"""The page in Chromium: a campaign labeled by keyboard, and payloads that try to run scripts."""
import shutil
import sys
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

from web_daemon import WebDaemon

if webdriver is None or not shutil.which("chromium") or not shutil.which("chromedriver"):
    print("skipped: chromium, chromium-driver or python3-selenium is not installed")
    sys.exit(77)

HOSTILE = [
    "<script>window.ran=1</script>", "<img src=x onerror=window.ran=1>", "<svg onload=window.ran=1></svg>",
    "javascript:window.ran=1", "[link](javascript:window.ran=1) **x**", "# <iframe srcdoc='<script>parent.ran=1</script>'>",
    "data:image/svg+xml,<svg/onload=window.ran=1>", "data:text/html,<script>window.ran=1</script>",
    "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0id2luZG93LnJhbj0xIi8+",
    '{"<img src=x onerror=window.ran=1>": "<script>window.ran=1</script>"}', '{"__proto__": {"ran": 1}}',
    "https://x/'onerror='window.ran=1.png", "\u202egnp.exe", "x" * 300000, "[" * 5000, "```\n<script>window.ran=1</script>\n```",
]


def browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1440,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options)


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


class Page(unittest.TestCase):
    def setUp(self):
        self.daemon = WebDaemon("--no-tokens").start()
        self.browser = browser()
        self.wait = WebDriverWait(self.browser, 30, poll_frequency=0.02)

    def tearDown(self):
        self.browser.quit()
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.folder.cleanup()

    def start(self, payloads, **more):
        rows = "".join(f"{i},{i % 5},{quoted(payload)}\n" for i, payload in enumerate(payloads))
        (self.daemon.pools / "pool.csv").write_text("id,x,text\n" + rows)
        self.daemon.create_campaign({"name": "c", "question": "Even or odd?\n**Guidelines**: look", "classes": ["even", "odd"],
                                     "pool": {"sources": ["pool.csv"], "idColumn": "id", "payloadColumn": "text"}, **more})
        self.browser.get(f"http://127.0.0.1:{self.daemon.port}/#/label/c")
        name = self.wait.until(lambda page: page.find_element(By.ID, "annotator"))
        name.send_keys("anna\n")

    def shown(self):
        """The id of the example on the screen; None if there is none."""
        return self.browser.execute_script("return document.querySelector('.payload:not(.earlier)')?.dataset.item ?? null")

    def text_of(self, selector):
        """Read by a script, because the page may replace the element between finding and reading it."""
        return self.browser.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def press(self, key):
        self.browser.find_element(By.TAG_NAME, "body").send_keys(key)

    def label_all(self, count):
        before = None
        seen = []
        for _ in range(count):
            before = self.wait.until(lambda _: self.shown() if self.shown() != before else None)
            seen.append(before)
            self.press("1" if int(before) % 2 == 0 else "2")
        return seen

    def labels(self):
        return int(self.daemon.call("CampaignService/GetCampaign", {"campaign": "c"})[1]["campaign"].get("labels", 0))

    def test_a_campaign_is_labeled_by_keyboard(self):
        self.start([f"example {i}" for i in range(40)], selection={"batch": 4}, stop={"labels": "12"})
        self.assertEqual(len(set(self.label_all(12))), 12)
        self.wait.until(lambda _: "done" in self.text_of("h1"))
        self.assertEqual(self.labels(), 12)
        items = self.daemon.call("ItemService/ListItems", {"campaign": "c", "state": "ITEM_STATE_LABELED"})[1]["items"]
        self.assertEqual({item["itemId"]: item["label"] for item in items},
                         {item["itemId"]: "even" if int(item["itemId"]) % 2 == 0 else "odd" for item in items})
        self.assertEqual([entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"], [])

    def test_an_answer_can_be_changed_and_a_task_skipped(self):
        self.start([f"example {i}" for i in range(20)], selection={"batch": 4})
        first = self.wait.until(lambda _: self.shown())
        self.press("1")
        self.wait.until(lambda _: self.labels() == 1)
        self.press("u")
        self.wait.until(lambda page: page.find_elements(By.CSS_SELECTOR, ".payload.earlier"))
        self.press("2")
        item = lambda _: self.daemon.call("ItemService/GetItem", {"campaign": "c", "itemId": first})[1]["item"]
        self.wait.until(lambda page: item(page).get("label") == "odd")
        second = self.wait.until(lambda _: self.shown())
        self.press("s")
        self.wait.until(lambda page: page.find_element(By.TAG_NAME, "dialog")).send_keys("1")
        self.wait.until(lambda _: self.shown() not in (None, second))

    def test_answers_given_while_the_daemon_is_away_arrive_once(self):
        self.start([f"example {i}" for i in range(40)], selection={"batch": 8}, stop={"labels": "8"})
        self.label_all(2)
        self.wait.until(lambda _: self.labels() == 2)
        self.wait.until(lambda page: page.execute_script("return !!document.querySelector('.payload')"))
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.process.stderr.close()
        before = self.shown()
        self.press("1" if int(before) % 2 == 0 else "2")
        self.wait.until(lambda _: "kept here" in self.text_of(".label-status"))
        self.daemon.start()
        for _ in range(5):
            before = self.wait.until(lambda _, last=before: self.shown() if self.shown() != last else None)
            self.press("1" if int(before) % 2 == 0 else "2")
        self.wait.until(lambda _: "done" in self.text_of("h1"))
        self.assertEqual(self.labels(), 8)

    def test_hostile_payloads_are_shown_and_never_run(self):
        self.start(HOSTILE, selection={"batch": len(HOSTILE)}, stop={"labels": str(len(HOSTILE))})
        for _ in HOSTILE:
            item = self.wait.until(lambda _: self.shown())
            self.assertIsNone(self.browser.execute_script("return window.ran ?? Object.prototype.ran ?? null"), HOSTILE[int(item)][:80])
            self.assertEqual(self.browser.execute_script("return document.querySelectorAll('.payload script, .payload iframe, .payload svg').length"), 0)
            self.press("1")
            self.wait.until(lambda _, last=item: self.shown() != last)
        self.wait.until(lambda _: self.labels() == len(HOSTILE))


if __name__ == "__main__":
    unittest.main()
