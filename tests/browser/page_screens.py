"""A daemon with campaigns in every state and a browser that can go to every screen and dialog of the page."""
import os
import tempfile
import unittest

from web_browser import Annotator, By, StaleElementReferenceException, WebDriverWait, open_browser
from web_daemon import WebDaemon

SIZES = [(1440, 900, False), (1440, 900, True), (390, 844, False), (390, 844, True)]


class PageScreens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = WebDaemon().start()
        cls.admin = cls.daemon.token("ada", "admin")
        cls.bearer = {"Authorization": f"Bearer {cls.admin}"}
        cls.headers = {name: {"Authorization": f"Bearer {cls.daemon.token(name, 'annotator')}"} for name in ("ben", "cleo")}
        cls.reader = cls.daemon.token("rita", "reader")
        rows = "".join(f"{i},{i % 7},{(i * i) % 11},{'odd' if i % 2 else 'even'},text number {i}\n" for i in range(300))
        for name in ("pool.csv", "other.csv"):
            (cls.daemon.pools / name).write_text("id,x,y,label,text\n" + rows)
        cls.create("c", batch=20, labels=200, overlap=2)
        cls.create("ended", batch=2, labels=2)
        cls.create("shared", batch=2, labels=100, overlap=2)
        cls.create("many", batch=20, labels=100, classes=[f"species {i}" for i in range(200)])
        cls.label("c", 40)
        cls.label("ended", 2, names=("ben",))
        cls.browser = open_browser()
        cls.person = Annotator(cls.browser, cls.daemon.port)
        cls.wait = cls.person.wait

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        assert cls.daemon.stop() == 0, "the daemon does not stop in order"
        cls.daemon.folder.cleanup()

    @classmethod
    def create(cls, name, batch, labels, overlap=1, classes=("even", "odd")):
        cls.daemon.create_campaign({"name": name, "question": "Even or odd?\nGuidelines: **look**", "classes": list(classes),
                                    "selection": {"batch": batch}, "stop": {"labels": str(labels)}, "labeling": {"overlap": overlap},
                                    "pool": {"sources": ["pool.csv"], "idColumn": "id", "payloadColumn": "text"}}, cls.bearer)

    @classmethod
    def label(cls, campaign, count, names=("ben", "cleo")):
        """Annotators answer; they disagree about every seventh example."""
        for turn in range(count):
            for name in names:
                headers = cls.headers[name]
                _, answer = cls.daemon.call("LabelingService/AcquireTasks", {
                    "campaign": campaign, "requestId": f"a{name}{turn}", "maxTasks": 1, "wait": "10s"}, headers)
                for task in answer.get("tasks", []):
                    number = int(task["itemId"])
                    value = "odd" if (number % 2 == 1) != (name == "cleo" and number % 7 == 0) else "even"
                    cls.daemon.call("LabelingService/SubmitLabels", {"campaign": campaign, "requestId": f"s{name}{turn}", "labels": [{
                        "lease": {"leaseId": task["leaseId"], "epoch": task["epoch"]}, "itemId": task["itemId"], "value": value}]}, headers)

    def open(self, path):
        self.browser.get("about:blank")
        self.browser.get(f"http://127.0.0.1:{self.daemon.port}/{path}")

    def sign_in(self, token=None):
        """As the administrator, or with another token."""
        self.open("")
        self.browser.delete_all_cookies()
        self.open("")
        self.wait.until(lambda page: page.find_element(By.ID, "token")).send_keys((token or self.admin) + "\n")
        self.wait.until(lambda page: page.find_elements(By.CSS_SELECTOR, "header nav"))

    def sees(self, selector):
        return self.wait.until(lambda page: page.find_elements(By.CSS_SELECTOR, selector))[0]

    def click(self, text):
        def clicked(page):
            page.find_element(By.XPATH, f"//button[normalize-space()='{text}']").click()
            return True

        # The page may draw the button again between finding it and clicking it.
        WebDriverWait(self.browser, 30, poll_frequency=0.02, ignored_exceptions=[StaleElementReferenceException]).until(clicked)

    def reads(self, selector, text):
        self.wait.until(lambda _: text in self.person.text_of(selector))

    def block(self, *addresses):
        """Requests to these fail as without a connection; to none if none is given."""
        self.browser.execute_cdp_cmd("Network.enable", {})
        self.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": list(addresses)})

    def screens(self):
        """Goes to every screen and dialog in turn; yields its name when it is there."""
        self.open("")
        self.browser.delete_all_cookies()
        self.open("")
        self.sees("#token")
        yield "sign-in"
        self.sign_in()
        for path, selector, name in [
                ("#/", ".campaign-card", "campaigns"), ("#/campaign/c", ".map circle", "campaign"), ("#/campaign/c/items", "tbody tr", "items"),
                ("#/campaign/c/items/DISPUTED", "tbody", "disputed"), ("#/campaign/c/annotators", "tbody tr", "annotators"),
                ("#/create", "#pool-file option:nth-child(2)", "create"), ("#/access", "tbody tr", "access")]:
            self.open(path)
            self.sees(selector)
            yield name
        self.open("#/campaign/c/items")
        self.sees("tbody button").click()
        self.sees("section .badge")
        yield "example"
        self.open("#/create")
        self.sees("#pool-file option[value='other.csv']")
        self.browser.execute_script("""const files = document.getElementById("pool-file"); files.value = "other.csv"; files.dispatchEvent(new Event("change"));""")
        self.sees(".columns tbody tr")
        self.browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
        yield "create-preview"
        self.open("#/campaign/c")
        self.click("Stop")
        self.sees("dialog[open]")
        yield "confirm"
        self.open("#/label/c")
        self.sees(".payload")
        yield "label"
        self.person.press("s")
        self.sees("dialog[open]")
        yield "skip"
        self.sees("dialog[open]").send_keys("3")
        self.wait.until(lambda page: not page.find_elements(By.CSS_SELECTOR, "dialog"))
        before = self.wait.until(lambda _: self.person.shown())
        self.person.press("1")
        self.wait.until(lambda _: self.person.shown() != before)
        self.person.press("h")
        self.sees(".history[open]")
        yield "history"
        self.click("Close")
        self.person.press("u")
        self.sees(".payload.earlier")
        yield "earlier"
        self.open("#/label/c")
        self.sees(".payload")
        self.block("*/SubmitLabels", "*/AcquireTasks")
        self.person.press("1")
        self.reads(".label-status", "kept here")
        yield "offline"
        self.block()
        self.wait.until(lambda _: "kept here" not in self.person.text_of(".label-status"))
        self.open("#/label/many")
        self.sees("#find-class").send_keys("ies 19")
        self.wait.until(lambda page: len(page.find_elements(By.CSS_SELECTOR, ".class-button:not([hidden])")) == 11)
        yield "many-classes"
        self.open("#/label/ended")
        self.reads("h1", "is done")
        yield "done"
        self.browser.execute_script("""localStorage.setItem("fulcrum/refused/c/ada/1", JSON.stringify({ method: "SubmitLabels", itemId: "7",
          message: "it has a label", request: { campaign: "c", annotator: "ada", labels: [{ itemId: "7", value: "odd" }] } }))""")
        self.open("#/")
        self.sees(".refused")
        self.sees(".campaign-card")
        yield "refused"
        self.browser.execute_script("localStorage.removeItem('fulcrum/refused/c/ada/1')")
        self.open("#/label/shared")
        self.wait.until(lambda _: self.person.shown() or "Nothing to label" in self.person.text_of("h1"))
        while self.person.shown():
            before = self.person.shown()
            self.person.press("1")
            self.wait.until(lambda _, last=before: self.person.shown() != last)
        self.reads("h1", "Nothing to label")
        self.sees(".notice li")
        yield "waiting"
