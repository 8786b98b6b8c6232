#!/usr/bin/env python3
"""Payloads in a real Chromium are shown as what they are, and the tasks of a tab that is closed go to others."""
import json
import struct
import subprocess
import unittest
import zlib

from web_browser import By, PageTest
from web_daemon import PROGRAM


def png(width, height):
    """A grey image."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + b"\x80" * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) + chunk(
        b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def wav(samples):
    data = b"\x80" * samples
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data" + struct.pack(
        "<I", len(data)) + data


class Payloads(PageTest):
    def show_all(self, payloads):
        """Labels everything; what the page has for each payload, as (selector counts) looked up by `look`."""
        self.start(payloads, selection={"batch": len(payloads)}, stop={"labels": str(len(payloads))})
        seen = {}
        for _ in payloads:
            item = self.wait.until(lambda _: self.anna.shown())
            self.wait.until(lambda page: not page.execute_script(
                "return [...document.querySelectorAll('.payload img')].some((image) => !image.complete)"))
            seen[int(item)] = self.browser.execute_script("""
              const all = (selector) => [...document.querySelectorAll(".payload " + selector)];
              return { images: all("img").map((image) => image.naturalWidth), sounds: all("audio").map((sound) => new URL(sound.src).pathname),
                       videos: all("video").length, heads: all("th").map((cell) => cell.textContent), cells: all("td").map((cell) => cell.textContent),
                       strong: all(".markdown strong").map((one) => one.textContent), items: all("li").length, text: all(".plain").map((one) => one.textContent),
                       broken: all(".problem").length, links: all("a").map((one) => one.getAttribute("href")) };""")
            self.anna.press("1")
            self.wait.until(lambda _, last=item: self.anna.shown() != last)
        return [seen[i] for i in range(len(payloads))]

    def test_payloads_are_shown_as_what_they_are(self):
        (self.daemon.pools.parent / "secret.png").write_bytes(png(3, 3))
        (self.daemon.pools / "d.png").write_bytes(png(11, 5))
        (self.daemon.pools / "e.wav").write_bytes(wav(800))
        shown = self.show_all([
            "plain text\nwith a second line", '{"name": "Ada", "age": 36, "tags": ["x", "y"]}', "# Title\n\n- one **two**\n- three",
            "d.png", "e.wav", json.dumps(["d.png", "e.wav"]), json.dumps({"front": "d.png", "sound": "e.wav", "note": "both"}),
            "../secret.png", "https://example.invalid/page", "clip.mp4",
            json.dumps({"type": "image", "source": "scan 7", "page": 3}), json.dumps({"type": "text", "text": "# no heading\n**x**"}),
            json.dumps([{"type": "markdown", "text": "**y**"}]), json.dumps({"type": "image", "source": "javascript:window.ran=1"}),
            json.dumps({"type": "constructor", "source": "d.png"})])
        self.assertEqual(shown[0]["text"], ["plain text\nwith a second line"])
        self.assertEqual(shown[1]["heads"], ["name", "age", "tags"])
        self.assertEqual(shown[1]["cells"][:2], ["Ada", "36"])
        self.assertEqual((shown[2]["strong"], shown[2]["items"]), (["two"], 2))
        self.assertEqual(shown[3]["images"], [11])
        self.assertEqual(shown[4]["sounds"], ["/files/e.wav"])
        self.assertEqual((shown[5]["images"], shown[5]["sounds"]), ([11], ["/files/e.wav"]))
        self.assertEqual((shown[6]["images"], shown[6]["heads"]), ([11], ["front", "sound", "note"]))
        # Refused by the daemon: it is not inside the folder of pools.
        self.assertEqual((shown[7]["images"], shown[7]["broken"]), ([], 1))
        self.assertEqual(shown[8]["links"], ["https://example.invalid/page"])
        self.assertEqual(shown[9]["videos"] + shown[9]["broken"], 1)
        # A type that JSON names: the daemon serves no file without a known ending, so that it is the page that asked for it.
        self.assertEqual((shown[10]["broken"], shown[10]["heads"], shown[10]["cells"]), (1, ["page"], ["3"]))
        self.assertEqual((shown[11]["text"], shown[11]["strong"]), (["# no heading\n**x**"], []))
        self.assertEqual(shown[12]["strong"], ["y"])
        self.assertEqual((shown[13]["images"], shown[13]["heads"]), ([], ["type", "source"]))
        self.assertEqual((shown[14]["images"], shown[14]["heads"]), ([11], ["type", "source"]))

    def test_text_of_an_older_encoding_can_be_read(self):
        rows = b"".join(b"%d,%d,caf\xe9 \x93number\x94 %d\n" % (i, i % 5, i) for i in range(9))
        (self.daemon.pools / "latin.csv").write_bytes(b"id,x,text\n" + rows)
        self.daemon.create_campaign({"name": "c", "classes": ["even", "odd"], "pool": {"sources": ["latin.csv"], "idColumn": "id", "payloadColumn": "text"}})
        self.anna.begin("c", "anna")
        item = self.wait.until(lambda _: self.anna.shown())
        self.assertEqual(self.anna.text_of(".payload .plain"), f"café “number” {item}")
        self.assertIn("not UTF-8", self.anna.text_of(".payload .muted"))

    def test_digits_are_images_with_their_own_keys(self):
        pool = self.daemon.pools / "digits.csv"
        subprocess.run([PROGRAM, "generate", "digits", "--rows", "30", "--out", str(pool)], check=True)
        known = [line.partition(",")[0] for line in pool.read_text().splitlines()[1:]]
        self.daemon.create_campaign({"name": "c", "question": "Which digit?", "classes": [str(i) for i in range(10)], "selection": {"batch": 5},
                                     "stop": {"labels": "5"}, "pool": {"sources": ["digits.csv"], "payloadColumn": "image"}})
        self.anna.begin("c", "anna")
        before = None
        for _ in range(5):
            before = self.wait.until(lambda _, last=before: self.anna.shown() if self.anna.shown() != last else None)
            self.wait.until(lambda page: page.execute_script("return document.querySelector('.payload img')?.naturalWidth") == 16)
            self.anna.press(known[int(before)])
        self.wait.until(lambda _: self.anna.is_done())
        items = self.daemon.call("ItemService/ListItems", {"campaign": "c", "state": "ITEM_STATE_LABELED"})[1]["items"]
        self.assertEqual({item["itemId"]: item["label"] for item in items}, {item["itemId"]: known[int(item["itemId"])] for item in items})

    def test_closing_the_tab_releases_its_tasks(self):
        self.start([f"example {i}" for i in range(20)], selection={"batch": 4})
        self.wait.until(lambda _: self.anna.shown())
        leased = lambda: int(self.daemon.call("CampaignService/GetCampaign", {"campaign": "c"})[1]["campaign"].get("liveLeases", 0))
        self.assertEqual(leased(), 4)
        first = self.browser.current_window_handle
        self.browser.switch_to.new_window("tab")
        other = self.browser.current_window_handle
        self.browser.switch_to.window(first)
        self.browser.close()
        self.browser.switch_to.window(other)
        self.wait.until(lambda _: leased() == 0)

    def test_an_idle_screen_says_what_it_waits_for(self):
        self.start([f"example {i}" for i in range(20)], selection={"batch": 2}, labeling={"overlap": 2})
        before = None
        for _ in range(2):
            before = self.wait.until(lambda _, last=before: self.anna.shown() if self.anna.shown() != last else None)
            self.anna.press("1")
        self.wait.until(lambda _: "Nothing to label" in self.anna.text_of("h1"))
        self.assertIn("waits for", self.anna.text_of(".notice"))
        # Also what was answered last.
        self.wait.until(lambda _: "2 of" in self.anna.text_of(".label-status") or "2 labels" in self.anna.text_of(".label-status"))
        # The time for another annotator is a day: the page says which.
        self.assertRegex(self.anna.text_of(".notice li"), r"until \w+ \d+, \d{4}")
        self.assertTrue(self.browser.find_elements(By.CSS_SELECTOR, ".notice li"))


if __name__ == "__main__":
    unittest.main()
