"""A real Chromium for the tests of the page, and what its tests do all the time. Ends with code 77 if a tool is missing."""
import base64
import shutil
import sys
import unittest

try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

from web_daemon import WebDaemon

if webdriver is None or not shutil.which("chromium") or not shutil.which("chromedriver"):
    print("skipped: chromium, chromium-driver or python3-selenium is not installed")
    sys.exit(77)


def open_browser(width=1440, height=900, dark=False):
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--hide-scrollbars", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options)
    resize(browser, width, height, dark)
    return browser


def resize(browser, width, height, dark):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})


def screenshot(browser, path):
    """The whole page, not only what fits the window."""
    picture = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
    path.write_bytes(base64.b64decode(picture["data"]))


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


class Annotator:
    """A person who labels in a browser of their own."""

    def __init__(self, browser, port):
        self.browser = browser
        self.port = port
        self.wait = WebDriverWait(browser, 30, poll_frequency=0.02)

    def begin(self, campaign, name):
        self.browser.get(f"http://127.0.0.1:{self.port}/#/label/{campaign}")
        self.wait.until(lambda page: page.find_element(By.ID, "annotator")).send_keys(name + "\n")

    def shown(self):
        """The id of the example on the screen; None if there is none."""
        return self.browser.execute_script("return document.querySelector('.payload:not(.earlier)')?.dataset.item ?? null")

    def text_of(self, selector):
        """Read by a script, because the page may replace the element between finding and reading it."""
        return self.browser.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def press(self, key):
        self.browser.find_element(By.TAG_NAME, "body").send_keys(key)

    def is_done(self):
        return "is done" in self.text_of("h1")


class PageTest(unittest.TestCase):
    """A daemon without tokens and one browser."""

    def setUp(self):
        self.daemon = WebDaemon("--no-tokens").start()
        self.browser = open_browser()
        self.anna = Annotator(self.browser, self.daemon.port)
        self.wait = self.anna.wait

    def tearDown(self):
        self.browser.quit()
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.folder.cleanup()

    def create(self, payloads, **more):
        rows = "".join(f"{i},{i % 5},{quoted(payload)}\n" for i, payload in enumerate(payloads))
        (self.daemon.pools / "pool.csv").write_text("id,x,text\n" + rows)
        self.daemon.create_campaign({"name": "c", "question": "Even or odd?\n**Guidelines**: look", "classes": ["even", "odd"],
                                     "pool": {"sources": ["pool.csv"], "idColumn": "id", "payloadColumn": "text"}, **more})

    def start(self, payloads, **more):
        self.create(payloads, **more)
        self.anna.begin("c", "anna")

    def labels(self):
        return int(self.daemon.call("CampaignService/GetCampaign", {"campaign": "c"})[1]["campaign"].get("labels", 0))

    def errors_in_console(self):
        return [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
