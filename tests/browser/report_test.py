#!/usr/bin/env python3
"""The report of `fulcrum experiment` in a real Chromium, with more strategies than there are colours: at the widths of a
desk and of a phone, light and dark, nothing is wrong in the console, nothing is wider than the window, no two curves look
the same, and a click shows the bands of one or two strategies.

FULCRUM_SCREENSHOTS=FOLDER keeps a picture of every width."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from web_browser import By, open_browser, resize, screenshot

SIZES = [(1280, 900, False), (1280, 900, True), (390, 844, False), (390, 844, True)]
STRATEGIES = ["adaptive-herding", "alevs", "dbalevs", "margin", "entropy", "uncertainty", "least-confident", "herding",
              "hybrid", "k-center", "typical", "badge", "random"]
SPEC = f"""name: colours
title: Report with many strategies
description: Thirteen strategies on two generated problems.
runs: 2
rounds: 4
batch: 5
seed: 1
tune: off
strategies: [{", ".join(STRATEGIES)}]
compare:
  subject: alevs
  spans: [[1, 2], [3, 4]]
tasks:
  - name: twonorm
    generate: {{problem: twonorm, rows: 200, dims: 5, seed: 1}}
    leverage_kernel: {{type: rbf, sigma: 1}}
    tau: 0.5
  - name: ringnorm
    generate: {{problem: ringnorm, rows: 200, dims: 5, seed: 1}}
    leverage_kernel: {{type: rbf, sigma: 1}}
    tau: 0.5
"""
LOOKS = """return [...document.querySelectorAll("#curves figure")].map((figure) =>
  [...figure.querySelectorAll("g.series .curve")].map((curve) => {
    const style = getComputedStyle(curve);
    return style.stroke + " " + style.strokeDasharray;
  }))"""
BANDS = """return [...document.querySelectorAll("#curves figure:first-child g.series")].filter(
  (group) => Number(getComputedStyle(group.querySelector(".band")).opacity) > 0).length"""


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="fulcrum-report-")
        place = pathlib.Path(cls.folder.name)
        (place / "spec.yaml").write_text(SPEC)
        subprocess.run([os.environ["FULCRUM"], "experiment", "--spec", place / "spec.yaml", "--out", place / "out"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.address = (place / "out/report.html").as_uri()
        cls.browser = open_browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.folder.cleanup()

    def test_at_every_width(self):
        for width, height, dark in SIZES:
            with self.subTest(width=width, dark=dark):
                resize(self.browser, width, height, dark)
                self.browser.get(self.address)
                if folder := os.environ.get("FULCRUM_SCREENSHOTS"):
                    screenshot(self.browser, pathlib.Path(folder, f"report-{width}-{'dark' if dark else 'light'}.png"))
                too_wide = self.browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
                self.assertLessEqual(too_wide, 0, "the report must be scrolled sideways")
                severe = [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
                self.assertEqual(severe, [])
                for looks in self.browser.execute_script(LOOKS):
                    self.assertEqual(len(looks), len(STRATEGIES))
                    self.assertEqual(len(set(looks)), len(STRATEGIES), "two curves look the same")

    def test_a_click_shows_bands_of_up_to_two(self):
        resize(self.browser, 1280, 900, False)
        self.browser.get(self.address)
        self.assertEqual(self.browser.execute_script(BANDS), 0)
        # The first and the eleventh have the same colour.
        chips = self.browser.find_elements(By.CSS_SELECTOR, "button.chip")
        self.assertEqual([chip.text for chip in chips], STRATEGIES)
        for clicked, shown in ((0, 1), (10, 2), (5, 2), (5, 1)):
            self.browser.execute_script("arguments[0].click()", chips[clicked])
            self.assertEqual(self.browser.execute_script(BANDS), shown, f"after a click on {STRATEGIES[clicked]}")


if __name__ == "__main__":
    unittest.main()
