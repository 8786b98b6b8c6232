#!/usr/bin/env python3
"""What happens to tasks and answers in a real Chromium: leases are renewed while somebody is there and released when not,
earlier answers can be seen again, and answers that were not sent are sent later, from whatever screen."""
import base64
import http.server
import io
import json
import pathlib
import random
import tempfile
import threading
import unittest
import wave

from web_browser import By, PageTest
from payload_test import png

REFUSED = "return Object.keys(localStorage).filter((key) => key.startsWith('fulcrum/refused/'))"
HISTORY = "return JSON.parse(localStorage.getItem('fulcrum/history/c/anna'))"
LATER = "const now = Date.now.bind(Date); Date.now = () => now() + 4 * 60 * 1000"
STORED = "return Object.keys(localStorage).filter((key) => key.startsWith('fulcrum/outbox/')).length"


class Ingress(http.server.ThreadingHTTPServer):
    """A proxy in front of a daemon, which answers the calls in `lost` with a page of its own and this status."""

    def __init__(self, daemon):
        self.lost = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status = self.server.lost.get(self.path.rpartition("/")[2])
                if status is None:
                    status, headers, content = daemon.request(self.command, self.path, body, dict(self.headers))
                else:
                    headers, content = {"Content-Type": "text/html"}, b"<html><h1>nothing here</h1></html>"
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = forward

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Work(PageTest):
    def block(self, *addresses):
        """Requests to these fail as without a connection; to none if none is given."""
        self.browser.execute_cdp_cmd("Network.enable", {})
        self.browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": list(addresses)})

    def calls(self, method):
        """How often the page has called it."""
        return self.browser.execute_script(
            "return performance.getEntriesByType('resource').filter((one) => one.name.endsWith(arguments[0])).length", f"/{method}")

    def history(self, item):
        _, answer = self.daemon.call("ItemService/GetItem", {"campaign": "c", "itemId": item})
        return [event["kind"].removeprefix("ITEM_EVENT_KIND_").lower() for event in answer["history"]]

    def answer(self, key="1"):
        item = self.wait.until(lambda _: self.anna.shown())
        self.anna.press(key)
        self.wait.until(lambda _: self.anna.shown() != item)
        return item

    def test_the_last_tasks_of_a_round_keep_their_leases(self):
        # Fewer tasks than the page wants to hold, so that it asks for more all the time.
        self.start([f"example {i}" for i in range(20)], selection={"batch": 2}, labeling={"leaseTime": "10s"})
        first = self.wait.until(lambda _: self.anna.shown())
        # A renewal each third of that time: the fourth is after the first lease would have ended.
        self.wait.until(lambda _: self.calls("RenewLeases") >= 4)
        self.assertEqual(self.anna.shown(), first)
        self.assertEqual(self.history(first).count("lease_granted"), 1, self.history(first))
        self.anna.press("1")
        self.wait.until(lambda _: self.labels() == 1)
        second = self.wait.until(lambda _: self.anna.shown())
        renewed = self.calls("RenewLeases")
        self.wait.until(lambda _: self.calls("RenewLeases") >= renewed + 4)
        self.assertEqual(self.anna.shown(), second)
        self.assertEqual(self.history(second).count("lease_granted"), 1, self.history(second))
        self.anna.press("1")
        self.wait.until(lambda _: self.labels() == 2)
        self.assertEqual([kind for kind in self.history(second) if "expire" in kind], [])

    def test_leases_are_renewed_while_answers_follow_each_other(self):
        # More than can be answered meanwhile.
        self.start([f"example {i}" for i in range(6000)], selection={"strategy": "random", "batch": 5000}, labeling={"leaseTime": "10s"})
        self.browser.execute_script("performance.setResourceTimingBufferSize(100000)")  # calls are counted by it
        last = None
        while self.calls("RenewLeases") < 4:
            # Faster than a lease ends, always.
            last = self.answer()
            self.wait.until(lambda _: self.browser.execute_script(STORED) == 0)
        self.assertEqual([kind for kind in self.history(last) if "expire" in kind], [])

    def test_a_lease_that_has_ended_is_no_second_copy(self):
        self.start([f"example {i}" for i in range(20)], selection={"batch": 2}, labeling={"leaseTime": "2s"})
        first = self.wait.until(lambda _: self.anna.shown())
        # The page itself is the one to whom the server offers the example again.
        self.block("*/RenewLeases")
        self.wait.until(lambda _: self.history(first).count("lease_granted") == 2)
        self.block()
        self.assertEqual(self.anna.shown(), first)
        seen = [self.answer(), self.answer()]
        self.assertEqual(len(set(seen)), 2, "an example was shown twice")
        self.wait.until(lambda _: self.labels() == 2)
        self.assertNotIn("refused", self.anna.text_of("#toast"))

    def test_tasks_go_to_others_when_nobody_is_there(self):
        self.start([f"example {i}" for i in range(20)], selection={"batch": 2}, labeling={"leaseTime": "10s"})
        first = self.wait.until(lambda _: self.anna.shown())
        self.browser.execute_script(LATER)
        self.browser.execute_script(LATER)
        self.wait.until(lambda _: "still there" in self.anna.text_of(".label-status"))
        # What somebody may still read stays.
        self.assertEqual(self.anna.shown(), first)
        _, answer = self.daemon.call("LabelingService/AcquireTasks", {"campaign": "c", "annotator": "ben", "requestId": "b", "maxTasks": 2, "wait": "10s"})
        self.assertIn(first, [task["itemId"] for task in answer["tasks"]])
        self.daemon.call("LabelingService/ReleaseTasks", {"campaign": "c", "annotator": "ben", "requestId": "r", "leases": [
            {"leaseId": task["leaseId"], "epoch": task["epoch"]} for task in answer["tasks"]]})
        self.anna.press("x")
        self.wait.until(lambda _: "still there" not in self.anna.text_of(".label-status"))
        self.assertEqual(self.anna.shown(), first)
        self.answer()
        self.wait.until(lambda _: self.labels() == 1)
        self.assertEqual(self.history(first).count("label_submitted"), 1)

    def test_who_reads_or_watches_is_there(self):
        sound = io.BytesIO()
        with wave.open(sound, "wb") as file:
            file.setparams((1, 1, 8000, 0, "NONE", ""))
            file.writeframes(bytes(8000))
        (self.daemon.pools / "tone.wav").write_bytes(sound.getvalue())
        self.start(["tone.wav"] * 20, selection={"batch": 2}, labeling={"leaseTime": "10s"})
        first = self.wait.until(lambda _: self.anna.shown())
        # The events of a person, as the browser sends them; a scrolled part does not tell those around it.
        acts = {name: f"document.querySelector('.payload').dispatchEvent(new Event('{name}', {{ bubbles: {bubbles} }}))"
                for name, bubbles in (("wheel", "true"), ("pointermove", "true"), ("scroll", "false"))}
        acts["a sound that plays"] = """
            const sound = document.querySelector(".payload audio");
            Object.assign(sound, { muted: true, loop: true });
            sound.play();"""
        for name, act in acts.items():
            with self.subTest(name):
                self.browser.execute_script(LATER)
                self.browser.execute_script(act)
                # The page renews leases only as long as somebody is there.
                renewed = self.calls("RenewLeases")
                self.wait.until(lambda _: self.calls("RenewLeases") >= renewed + 3 or "still there" in self.anna.text_of(".label-status"))
                self.assertNotIn("still there", self.anna.text_of(".label-status"))
        # The sound goes on.
        self.browser.execute_script(LATER)
        self.browser.execute_script(LATER)
        renewed = self.calls("RenewLeases")
        self.wait.until(lambda _: self.calls("RenewLeases") >= renewed + 3 or "still there" in self.anna.text_of(".label-status"))
        self.assertNotIn("still there", self.anna.text_of(".label-status"))
        self.assertEqual(self.anna.shown(), first)

    def test_large_examples_can_be_seen_again(self):
        generator = random.Random(3)
        noise = "".join(generator.choice("abcdefgh ") for _ in range(40000))
        image = "data:image/png;base64," + base64.b64encode(png(37, 20)).decode()
        self.start([noise, image], selection={"batch": 2}, stop={"labels": "2"})
        shown = "return document.querySelector('.payload.earlier')?.textContent.trim() || document.querySelector('.payload.earlier img')?.naturalWidth"
        given = [self.answer(), self.answer()]
        wanted = [noise.strip() if item == "0" else 37 for item in reversed(given)]
        for reload in (False, True):
            with self.subTest(reload=reload):
                if reload:
                    self.browser.refresh()
                self.wait.until(lambda _: "done" in self.anna.text_of("h1"))
                for text in wanted:
                    self.anna.press("u")
                    self.wait.until(lambda page, text=text: page.execute_script(shown) == text)
                self.anna.press("\ue00c")  # Escape
        self.assertEqual(self.anna.text_of(".label-status").count("You: 2"), 1)

    def test_answers_are_sent_from_other_screens_and_after_a_reload(self):
        self.start([f"example {i}" for i in range(40)], selection={"batch": 8})
        self.wait.until(lambda _: self.anna.shown())
        self.block("*/SubmitLabels")
        given = [self.answer(), self.answer()]
        self.wait.until(lambda _: "2 answers kept here" in self.anna.text_of(".label-status"))
        self.browser.get("about:blank")
        self.browser.get(f"http://127.0.0.1:{self.daemon.port}/#/")
        self.wait.until(lambda _: "2 of your answers not sent yet" in self.anna.text_of(".campaign-card"))
        self.assertEqual(self.labels(), 0)
        self.block()
        self.wait.until(lambda _: self.labels() == 2)
        self.wait.until(lambda _: "not sent" not in self.anna.text_of(".campaign-card"))
        self.assertEqual(self.browser.execute_script(STORED), 0)
        for item in given:
            self.assertEqual(self.history(item).count("label_submitted"), 1)

    def test_pages_of_a_proxy_are_no_answers_of_the_server(self):
        ingress = Ingress(self.daemon)
        self.addCleanup(ingress.server_close)
        self.addCleanup(ingress.shutdown)
        self.anna.port = ingress.server_address[1]
        self.start([f"example {i}" for i in range(40)], selection={"batch": 8})
        for count, status in enumerate((404, 403, 200, 502), 1):
            with self.subTest(status=status):
                ingress.lost["SubmitLabels"] = status
                item = self.answer()
                self.wait.until(lambda _: "1 answer kept here" in self.anna.text_of(".label-status"))
                self.assertEqual(self.browser.execute_script(STORED), 1)
                ingress.lost.clear()
                self.wait.until(lambda _: self.labels() == count)
                self.wait.until(lambda _: self.browser.execute_script(STORED) == 0)
                self.assertEqual(self.history(item).count("label_submitted"), 1)
        self.assertEqual(self.browser.execute_script(REFUSED), [])

    def home(self):
        self.browser.execute_script("location.hash = '#/'")
        return self.wait.until(lambda page: page.find_element(By.CSS_SELECTOR, ".refused"))

    def test_an_answer_that_is_refused_is_kept_and_told(self):
        self.create([f"example {i}" for i in range(40)], selection={"batch": 1}, labeling={"leaseTime": "2s"})
        # Anna labels with two devices: the page gets the example when the lease of the other device has ended.
        _, answer = self.daemon.call("LabelingService/AcquireTasks", {"campaign": "c", "annotator": "anna", "requestId": "a", "maxTasks": 1, "wait": "10s"})
        task = answer["tasks"][0]
        self.anna.begin("c", "anna")
        self.wait.until(lambda _: self.anna.shown() == task["itemId"])
        self.daemon.call("LabelingService/SubmitLabels", {"campaign": "c", "annotator": "anna", "requestId": "s", "labels": [
            {"lease": {"leaseId": task["leaseId"], "epoch": task["epoch"]}, "itemId": task["itemId"], "value": "odd"}]})
        self.anna.press("1")
        self.wait.until(lambda _: f"answer about {task['itemId']} was refused: " in self.anna.text_of("#toast"))
        self.assertNotIn("[object", self.anna.text_of("#toast"))
        self.wait.until(lambda _: "You: 0" in self.anna.text_of(".label-status"))
        self.assertEqual(self.browser.execute_script(HISTORY), {"answered": 0, "answers": []})
        notice = self.home()
        self.assertIn("1 answer was refused", notice.text)
        with tempfile.TemporaryDirectory() as folder:
            self.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
            notice.find_element(By.XPATH, ".//button[.='Download']").click()
            path = pathlib.Path(folder, "refused-answers.json")
            self.wait.until(lambda _: path.exists())
            entries = json.loads(path.read_text())
        self.assertEqual([(entry["itemId"], entry["request"]["labels"][0]["value"]) for entry in entries], [(task["itemId"], "even")])
        self.assertTrue(entries[0]["message"])
        notice.find_element(By.XPATH, ".//button[.='Remove']").click()
        self.wait.until(lambda page: page.find_element(By.CSS_SELECTOR, "dialog .danger")).click()
        self.wait.until(lambda page: not page.find_elements(By.CSS_SELECTOR, ".refused"))
        self.assertEqual(self.browser.execute_script(REFUSED), [])

    def test_calls_that_are_refused_as_a_whole_take_answers_and_changes_back(self):
        self.start([f"example {i}" for i in range(40)], selection={"batch": 8})
        first = self.answer()
        self.wait.until(lambda _: self.labels() == 1)
        self.block("*/SubmitLabels", "*/ChangeLabels")
        second = self.answer()
        self.anna.press("u")
        self.anna.press("u")
        self.wait.until(lambda _: first == self.browser.execute_script("return document.querySelector('.payload.earlier')?.dataset.item"))
        self.anna.press("2")
        self.wait.until(lambda _: "2 answers kept here" in self.anna.text_of(".label-status"))
        for method in ("Stop", "Delete"):
            status, answer = self.daemon.call(f"CampaignService/{method}Campaign", {"campaign": "c", "requestId": method})
            self.assertEqual(status, 200, answer)
        # From another screen, too.
        self.browser.execute_script("location.hash = '#/'")
        self.block()
        self.wait.until(lambda page: "2 answers were refused" in self.anna.text_of(".refused"))
        self.assertIn("was refused", self.anna.text_of("#toast"))
        self.assertEqual({key.split("/")[2] for key in self.browser.execute_script(REFUSED)}, {"c"})
        self.assertNotEqual(first, second)
        history = self.browser.execute_script(HISTORY)
        self.assertEqual((history["answered"], [(one["itemId"], one["value"]) for one in history["answers"]]), (1, [(first, "even")]))

    def test_a_full_storage_loses_no_answer(self):
        self.start([f"example {i}" for i in range(40)], selection={"batch": 8})
        self.answer()
        self.wait.until(lambda _: self.labels() == 1)
        full = """
          for (let size = 1 << 20; size > 0; size >>= 1) {
            for (let i = 0; ; i++) {
              try { localStorage.setItem(`filler-${size}-${i}`, "x".repeat(size)); } catch { break; }
            }
          }
          try { localStorage.setItem("one more", "xxxxxxxxxxxxxxxxxxxxxxxx"); return false; } catch { return true; }"""
        self.assertTrue(self.browser.execute_script(full))
        self.block("*/SubmitLabels")
        given = [self.answer(), self.answer(), self.answer()]
        self.wait.until(lambda _: "3 answers kept here" in self.anna.text_of(".label-status"))
        self.block()
        self.wait.until(lambda _: self.labels() == 4)
        for item in given:
            self.assertEqual(self.history(item).count("label_submitted"), 1)

    def test_the_next_image_is_loaded_before_it_is_shown(self):
        names = [f"{i}.png" for i in range(6)]
        for i, name in enumerate(names):
            (self.daemon.pools / name).write_bytes(png(5 + i, 5))
        self.start(names, selection={"batch": 6})
        self.wait.until(lambda _: self.anna.shown())
        loaded = lambda: set(self.browser.execute_script(
            "return performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname).filter((path) => path.startsWith('/files/'))"))
        self.wait.until(lambda _: len(loaded()) == 2)
        self.answer()
        self.wait.until(lambda page: page.execute_script("return document.querySelector('.payload img')?.complete"))
        self.assertEqual(int(self.anna.shown()) + 5, self.browser.execute_script("return document.querySelector('.payload img').naturalWidth"))

    def test_digits_of_the_upper_row_work_on_every_layout(self):
        self.start([f"example {i}" for i in range(20)])
        item = self.wait.until(lambda _: self.anna.shown())
        # As a French keyboard: the key of "2" types "é".
        self.browser.execute_script("document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'é', code: 'Digit2', bubbles: true }))")
        self.wait.until(lambda _: self.labels() == 1)
        self.assertEqual(self.daemon.call("ItemService/GetItem", {"campaign": "c", "itemId": item})[1]["item"]["label"], "odd")

    def test_a_paused_annotator_is_told_and_goes_on_when_resumed(self):
        self.start([f"example {i}" for i in range(20)], selection={"batch": 2})
        self.wait.until(lambda _: self.anna.shown())
        self.daemon.call("AnnotatorService/PauseAnnotator", {"campaign": "c", "annotator": "anna", "reason": "too <b>fast</b>", "requestId": "p"})
        self.answer()
        self.answer()
        self.wait.until(lambda _: "too <b>fast</b>" in self.anna.text_of(".notice"))
        self.wait.until(lambda _: self.labels() == 2)
        self.daemon.call("AnnotatorService/ResumeAnnotator", {"campaign": "c", "annotator": "anna", "reason": "slower now", "requestId": "q"})
        self.wait.until(lambda _: self.anna.shown())

    def test_a_finger_is_enough(self):
        self.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        self.start([f"example {i}" for i in range(20)])
        item = self.wait.until(lambda _: self.anna.shown())
        place = self.browser.execute_script(
            "const box = document.querySelectorAll('.class-button')[1].getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]")
        self.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": place[0], "y": place[1]}]})
        self.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        self.wait.until(lambda _: self.labels() == 1)
        self.assertEqual(self.daemon.call("ItemService/GetItem", {"campaign": "c", "itemId": item})[1]["item"]["label"], "odd")


class HostileNames(PageTest):
    def test_names_of_classes_annotators_and_reasons_never_run(self):
        run = "<img src=x onerror=window.ran=1>"
        rows = "".join(f'"{run}{i}",{i % 5},"{run}"\n' for i in range(30))
        (self.daemon.pools / "pool.csv").write_text("id,x,text\n" + rows)
        self.daemon.create_campaign({"name": "c", "question": f"{run}\n{run} [x](javascript:window.ran=1) **{run}**", "classes": [run, "other"],
                                     "selection": {"batch": 4}, "stop": {"labels": "20"}, "labeling": {"overlap": 2},
                                     "pool": {"sources": ["pool.csv"], "idColumn": "id", "payloadColumn": "text"}})
        for name in (run, "ben"):
            _, answer = self.daemon.call("LabelingService/AcquireTasks", {"campaign": "c", "annotator": name, "requestId": f"a{len(name)}", "maxTasks": 4, "wait": "10s"})
            self.daemon.call("LabelingService/SubmitLabels", {"campaign": "c", "annotator": name, "requestId": f"s{len(name)}", "labels": [
                {"lease": {"leaseId": task["leaseId"], "epoch": task["epoch"]}, "itemId": task["itemId"], "value": run if len(name) > 3 or i else "other"}
                for i, task in enumerate(answer["tasks"])]})
        self.daemon.call("AnnotatorService/PauseAnnotator", {"campaign": "c", "annotator": run, "reason": run, "requestId": "p"})
        self.anna.begin("c", "anna")
        item = self.wait.until(lambda _: self.anna.shown())
        self.assertIn(run, item)
        self.assertEqual(self.anna.text_of("h1"), run)
        self.assertIn(run, self.anna.text_of(".class-button"))
        for path, selector in [("#/", ".campaign-card"), ("#/campaign/c", ".figures dd"), ("#/campaign/c/items", "tbody tr"), ("#/campaign/c/annotators", ".quality tbody tr")]:
            self.browser.execute_script("location.hash = arguments[0]", path)
            self.wait.until(lambda page, wanted=selector: page.find_elements(By.CSS_SELECTOR, wanted))
        self.wait.until(lambda _: run in self.anna.text_of(".quality"))
        self.assertEqual(self.browser.execute_script("return [window.ran ?? null, document.querySelectorAll('main img, main [onerror], main a[href^=javascript]').length]"), [None, 0])
        # No violation of the policy either: a call that is refused (there are too few labels for likely errors) is none.
        self.assertEqual([entry for entry in self.errors_in_console() if "/ListLabelErrors" not in entry["message"]], [])


if __name__ == "__main__":
    unittest.main()
