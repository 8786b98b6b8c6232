#!/usr/bin/env python3
"""Two people in browsers and a gRPC worker label while the daemon is killed ten times: every acknowledged label is there
once. A label is acknowledged when the page has removed it from its outbox, or when the worker counts it as accepted."""
import os
import re
import subprocess
import threading
import unittest
from collections import Counter

from web_browser import Annotator, open_browser
from web_daemon import PROGRAM, WebDaemon, free_port

KILLS = 10
ROWS = 4000  # more than can be labeled meanwhile
# What the page has sent and the daemon has acknowledged, noted by the page's own events.
NOTE_ACKNOWLEDGED = """
window.acknowledged = [];
const remove = Storage.prototype.removeItem;
Storage.prototype.removeItem = function (key) {
  if (key.startsWith("fulcrum/outbox/")) {
    const { method, request } = JSON.parse(this.getItem(key));
    if (method === "SubmitLabels") window.acknowledged.push([request.labels[0].itemId, request.labels[0].value, request.requestId]);
  }
  return remove.call(this, key);
};
"""


class Crash(unittest.TestCase):
    def label(self, name):
        """Labels in a browser until the test says that it is enough and everything was sent."""
        browser = open_browser()
        person = Annotator(browser, self.daemon.port)
        try:
            person.begin("c", name)
            browser.execute_script(NOTE_ACKNOWLEDGED)
            before = None
            while not self.enough.is_set():
                item = person.shown()
                if item is None or item == before:
                    self.enough.wait(0.02)
                    continue
                before = item
                self.labeled[name] += 1
                person.press("1" if int(item) % 2 == 0 else "2")
            person.wait.until(lambda _: browser.execute_script(
                "return Object.keys(localStorage).filter((key) => key.startsWith('fulcrum/outbox/')).length") == 0)
            self.acknowledged[name] = browser.execute_script("return window.acknowledged")
        except Exception as error:  # told by the test's own thread
            self.failures.append(error)
        finally:
            browser.quit()

    def test_every_acknowledged_label_is_there_once(self):
        self.daemon = WebDaemon("--no-tokens", listen=f"127.0.0.1:{free_port()}").start()
        self.addCleanup(self.daemon.folder.cleanup)
        (self.daemon.pools / "pool.csv").write_text(
            "id,x,label,text\n" + "".join(f"{i},{i % 5},{'odd' if i % 2 else 'even'},example {i}\n" for i in range(ROWS)))
        self.daemon.create_campaign({
            "name": "c", "question": "Even or odd?", "classes": ["even", "odd"], "selection": {"batch": 12}, "labeling": {"leaseTime": "5s"},
            "pool": {"sources": ["pool.csv"], "idColumn": "id", "payloadColumn": "text"}})
        self.enough = threading.Event()
        self.labeled, self.acknowledged, self.failures = Counter(), {}, []
        people = [threading.Thread(target=self.label, args=(name,)) for name in ("anna", "ben")]
        worker = subprocess.Popen(
            [PROGRAM, "work", "--campaign", "c", "--annotator", "robot", "--oracle", str(self.daemon.pools / "pool.csv"), "--delay", "150ms",
             "--batch", "2"], env={**os.environ, "FULCRUM_SERVER": self.daemon.listen}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for person in people:
                person.start()
            for kill in range(1, KILLS + 1):
                # Each kill is in the middle of work: both people have labeled since the last one.
                while not self.failures and any(self.labeled[name] < 3 * kill for name in ("anna", "ben")):
                    if self.enough.wait(0.02):
                        break
                if self.failures:
                    break
                self.daemon.kill()
                self.daemon.start()
        finally:
            self.enough.set()
            for person in people:
                person.join()
            worker.terminate()
            said, _ = worker.communicate()
        self.assertEqual(self.failures, [])
        given = self.labels()
        for name in ("anna", "ben"):
            self.assertGreaterEqual(len(self.acknowledged[name]), 2 * KILLS)
            for item, value, request in self.acknowledged[name]:
                self.assertEqual(given[(name, item)], [value], f"{name} answered {item} with request {request}")
        # Every label that it counts is there, and at most those of a call whose answer it did not wait for besides.
        accepted = int(re.search(r"robot: (\d+) labels accepted", said).group(1))
        self.assertGreaterEqual(accepted, KILLS)
        self.assertIn(sum(1 for name, _ in given if name == "robot"), range(accepted, accepted + 3))
        self.assertEqual({who: values for who, values in given.items() if len(values) != 1}, {})
        self.assertEqual(self.daemon.stop(), 0)

    def labels(self):
        """The values that the log has, by annotator and item."""
        given = {}
        text = subprocess.run([PROGRAM, "export", f"{self.daemon.data}/campaigns/c", "--out", "-"], capture_output=True, text=True)
        self.assertEqual(text.returncode, 0, text.stderr)
        lines = [line.split(",") for line in text.stdout.splitlines()]
        columns = {title: i for i, title in enumerate(lines[0])}
        for line in lines[1:]:
            if line[columns["kind"]] == "label":
                given.setdefault((line[columns["annotator"]], line[columns["id"]]), []).append(line[columns["label"]])
        return given


if __name__ == "__main__":
    unittest.main()
