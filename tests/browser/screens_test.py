#!/usr/bin/env python3
"""Every screen of the page in a real Chromium, at the widths of a desk and of a phone, light and dark: nothing is wrong in
the console and nothing is wider than the window. axe_test.py looks at the same screens for violations of accessibility.

FULCRUM_SCREENSHOTS=FOLDER keeps a picture of every screen."""
import os
import pathlib
import unittest

from page_screens import SIZES, PageScreens
from web_browser import Annotator, By, PageTest, resize, screenshot

# What the test itself provokes: requests without a session, and those that it blocks.
EXPECTED = ("401", "ERR_BLOCKED_BY_CLIENT")


class Screens(PageScreens):
    folder = os.environ.get("FULCRUM_SCREENSHOTS")

    def check(self, name, width, dark):
        with self.subTest(screen=name, width=width, dark=dark):
            if self.folder:
                screenshot(self.browser, pathlib.Path(self.folder, f"{name}-{width}-{'dark' if dark else 'light'}.png"))
            errors = [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
            self.assertEqual([text for text in errors if not any(one in text for one in EXPECTED)], [])
            # A phone shows a page that is too wide in a smaller scale, so that its own width says nothing.
            too_wide = self.browser.execute_script("return document.documentElement.scrollWidth") - width
            self.assertLessEqual(too_wide, 0, "the screen must be scrolled sideways")
            self.assertEqual(self.browser.execute_script("return document.querySelectorAll('main').length"), 1)

    def test_every_screen_is_in_order(self):
        for width, height, dark in SIZES:
            resize(self.browser, width, height, dark)
            for name in self.screens():
                self.check(name, width, dark)

    def test_titles_and_focus_follow_the_screen(self):
        self.sign_in()
        titles = {}
        for path, selector in [("#/campaign/c", ".figures"), ("#/campaign/c/items", "tbody tr"), ("#/access", "tbody tr"), ("#/label/c", ".payload")]:
            self.browser.execute_script("location.hash = arguments[0]", path)
            self.sees(selector)
            titles[path] = self.browser.title
        self.assertEqual(titles, {"#/campaign/c": "c · Fulcrum", "#/campaign/c/items": "Examples of c · Fulcrum", "#/access": "Access · Fulcrum",
                                  "#/label/c": "Label c · Fulcrum"})
        focused = "return document.activeElement.className || document.activeElement.id"
        self.assertEqual(self.browser.execute_script(focused), "payload")
        before = self.person.shown()
        self.person.press("1")
        self.wait.until(lambda _: self.person.shown() not in (None, before))
        self.assertEqual(self.browser.execute_script(focused), "payload")
        self.assertIn(f"text number {self.person.shown()}", self.person.text_of("#announcer"))
        self.browser.execute_script("location.hash = '#/'")
        self.sees(".campaign-card")
        self.assertEqual(self.browser.execute_script(focused), "main")
        # The link that skips the header moves the focus and stays on the screen.
        self.browser.execute_script("document.querySelector('.skip-link').click()")
        self.assertEqual(self.browser.execute_script(focused), "main")
        self.assertEqual(self.browser.title, "Campaigns · Fulcrum")

    def test_roles_see_what_they_may_do(self):
        self.sign_in(self.reader)
        self.sees(".campaign-card")
        links = lambda: set(self.browser.execute_script("return [...document.querySelectorAll('nav a, .campaign-card a')].map((one) => one.textContent)"))
        self.assertEqual(links(), {"Campaigns", "Progress"})
        self.open("#/campaign/c")
        self.sees(".figures")
        buttons = self.browser.execute_script("return [...document.querySelectorAll('.steer *')].map((one) => one.textContent)")
        self.assertIn("Export labels", buttons)
        for text in ("Pause", "Stop", "Extend", "Label"):
            self.assertNotIn(text, buttons)
        self.open("#/campaign/c/items")
        self.sees("tbody button").click()
        self.sees("section .payload")
        self.assertNotIn("Decide its label", self.person.text_of("section"))
        self.sign_in(self.headers["ben"]["Authorization"].split()[1])
        self.sees(".campaign-card")
        self.assertEqual(links(), {"Campaigns", "Label"})
        self.open("#/create")
        self.reads("h1", "Campaigns")

    def test_a_session_that_ends_asks_for_a_token_and_keeps_the_answers(self):
        token = self.daemon.token("zoe", "annotator")
        self.sign_in(token)
        self.open("#/label/c")
        self.sees(".payload")
        self.daemon.call("AccessService/RevokeToken", {"owner": "zoe", "requestId": "now"}, self.bearer)
        self.wait.until(lambda _: self.daemon.call("AccessService/GetCaller", headers={"Authorization": f"Bearer {token}"})[0] == 401)
        item = self.person.shown()
        self.person.press("1")
        self.sees("#token").send_keys(self.daemon.token("zoe", "annotator") + "\n")
        self.wait.until(lambda _: any(vote["annotator"] == "zoe" for vote in self.daemon.call(
            "ItemService/GetItem", {"campaign": "c", "itemId": item}, self.bearer)[1]["item"].get("votes", [])))


class WithoutTokens(PageTest):
    def test_annotators_name_themselves(self):
        self.create([f"example {i}" for i in range(20)])
        for width, height, dark in SIZES:
            resize(self.browser, width, height, dark)
            self.browser.get("about:blank")
            self.browser.get(f"http://127.0.0.1:{self.daemon.port}/#/label/c")
            self.wait.until(lambda page: page.find_elements(By.ID, "annotator"))
            if folder := os.environ.get("FULCRUM_SCREENSHOTS"):
                screenshot(self.browser, pathlib.Path(folder, f"name-{width}-{'dark' if dark else 'light'}.png"))
            self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth - innerWidth"), 0)
        Annotator(self.browser, self.daemon.port).begin("c", "anna")
        first = self.wait.until(lambda _: self.anna.shown())
        # Somebody else at the same browser.
        self.wait.until(lambda page: page.find_element(By.XPATH, "//header//button[.='Change name']")).click()
        self.wait.until(lambda page: page.find_element(By.ID, "annotator")).send_keys("ben\n")
        item = self.wait.until(lambda _: self.anna.shown())
        self.assertIn("ben", self.anna.text_of("header"))
        self.anna.press("1")
        self.wait.until(lambda _: self.labels() == 1)
        votes = self.daemon.call("ItemService/GetItem", {"campaign": "c", "itemId": item})[1]["item"]["votes"]
        self.assertEqual([vote["annotator"] for vote in votes], ["ben"])
        self.assertEqual(first, item, "the tasks of the one before were not released")


if __name__ == "__main__":
    unittest.main()
