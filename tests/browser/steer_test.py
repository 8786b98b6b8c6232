#!/usr/bin/env python3
"""Running campaigns in a real Chromium: creating, pausing, extending, deciding about examples and annotators, exports."""
import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

from page_screens import PageScreens
from web_browser import By
from web_daemon import PROGRAM

# Every section, with the names of constants that are two words, lists of them, and sections without fields.
FULL = {
    "question": "Even: \"or\" odd?\n- yes: #1", "classes": ["even", "no", "3"], "pool": {"sources": ["pool.csv"], "idColumn": "id", "payloadColumn": "text"},
    "features": {"normalize": ["NORMALIZATION_ZSCORE", "NORMALIZATION_UNIT"]},
    "classifier": {"kernel": {"type": "TYPE_POLY", "offset": 1.5, "degree": 3}, "c": 10, "fullEvery": 5, "tune": "TUNING_OFF",
                   "external": {"timeout": "1800s", "fallback": "FALLBACK_BUILTIN", "leaseTime": "60s"}},
    "selection": {"strategy": "dbalevs", "batch": 25, "kernel": {"type": "TYPE_RBF", "sigma": 0.2}, "tau": 0.9, "alpha": 0.25,
                  "leverageScale": "LEVERAGE_SCALE_MEAN", "engine": "ENGINE_DENSE", "memoryMib": "64"},
    "labeling": {"overlap": 3, "mostVotes": 7, "leaseTime": "90.500s", "mostAttempts": 4, "disputeTime": "86400s",
                 "consensus": "CONSENSUS_DAWID_SKENE", "gold": {}, "quality": {"pauseBelow": 0.5, "minVotes": 30}},
    "advance": {"softTime": "90s", "softShare": 0.8, "hardTime": "7200s", "hardMinimum": 2},
    "stop": {"labels": "5000000000", "rounds": 20, "stable": {"rounds": 3, "share": 0.002}},
    "retention": {"scores": 20, "models": 10}, "seed": "18446744073709551615",
}


class Steering(PageScreens):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.downloads = tempfile.TemporaryDirectory()
        cls.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": cls.downloads.name})

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.downloads.cleanup()

    def downloaded(self, name):
        path = pathlib.Path(self.downloads.name, name)
        self.wait.until(lambda _: path.exists())
        return path

    def item(self, item_id, campaign="c"):
        return self.daemon.call("ItemService/GetItem", {"campaign": campaign, "itemId": item_id}, self.bearer)[1]

    def choose_pool(self, name):
        self.open("#/create")
        self.sees(f"#pool-file option[value='{name}']")
        self.browser.execute_script(
            """const files = document.getElementById("pool-file"); files.value = arguments[0]; files.dispatchEvent(new Event("change"));""", name)

    def test_a_campaign_is_created_from_a_file_on_the_server(self):
        self.sign_in()
        self.choose_pool("other.csv")
        # The roles that the names and values of columns suggest, and the classes of the known labels.
        self.reads("pre.yaml", 'payload_column: "text"')
        self.assertEqual(self.browser.execute_script("return document.getElementById('field-classes').value"), "even, odd")
        self.assertIn("300", self.person.text_of(".create .figures"))
        self.click("Create and start")
        self.wait.until(lambda page: page.current_url.endswith("#/campaign/other"))
        self.reads(".badge", "waiting")

    def test_creating_again_after_a_lost_answer_is_no_error(self):
        self.sign_in()
        self.choose_pool("other.csv")
        self.reads("pre.yaml", 'payload_column: "text"')
        self.browser.execute_script("const name = document.getElementById('field-name'); name.value = 'lost'; name.dispatchEvent(new Event('input', { bubbles: true }))")
        self.reads("pre.yaml", '"lost"')
        self.block("*/GetOperation", "*/StartCampaign")
        self.click("Create and start")
        self.reads(".create .problem", "cannot be reached")
        self.block()
        self.click("Create and start")
        self.wait.until(lambda page: page.current_url.endswith("#/campaign/lost"))
        self.reads(".badge", "waiting")

    def test_wrong_fields_are_named(self):
        self.sign_in()
        self.choose_pool("other.csv")
        self.reads("pre.yaml", 'payload_column: "text"')
        self.browser.execute_script("""
          for (const [name, value] of [["name", "wrong"], ["strategy", "best"], ["overlap", "5000000"]]) {
            const field = document.getElementById(`field-${name}`);
            field.value = value;
            field.dispatchEvent(new Event("input", { bubbles: true }));
          }""")
        self.click("Create only")
        self.sees(".create .problem li")
        named = self.browser.execute_script("return [...document.querySelectorAll('.create .problem code')].map((one) => one.textContent)")
        self.assertTrue(any("overlap" in field or "strategy" in field for field in named), named)

    def test_a_file_is_uploaded(self):
        self.sign_in()
        self.open("#/create")
        with tempfile.NamedTemporaryFile(suffix=".csv", mode="w") as file:
            file.write("x,note\n" + "".join(f"{i},n{i}\n" for i in range(50)))
            file.flush()
            self.wait.until(lambda page: page.find_element(By.ID, "pool-upload")).send_keys(file.name)
            self.wait.until(lambda _: "upload:" in self.person.text_of("pre.yaml") and "note" in self.person.text_of(".columns"))
        self.assertIn("50", self.person.text_of(".create .figures"))

    def test_an_upload_goes_on_when_the_connection_is_back(self):
        self.sign_in()
        self.open("#/create")
        rows = 200_000
        with tempfile.NamedTemporaryFile(suffix=".csv", mode="w") as file:
            file.write("x,y\n" + "".join(f"{i},{i % 7}.25\n" for i in range(rows)))
            file.flush()
            self.block("*/WriteUpload")
            self.wait.until(lambda page: page.find_element(By.ID, "pool-upload")).send_keys(file.name)
            self.reads(".create", "reconnecting")
            self.block()
            self.wait.until(lambda _: "upload:" in self.person.text_of("pre.yaml"))
        self.wait.until(lambda _: f"{rows:,}" in self.person.text_of(".create .figures") or "20,000" in self.person.text_of(".create .figures"))

    def test_the_last_choice_of_a_pool_is_the_one_that_counts(self):
        (self.daemon.pools / "slow.csv").write_text("id,slow,text\n" + "".join(f"{i},{i % 3},a\n" for i in range(30)))
        self.sign_in()
        self.open("#/create")
        self.sees("#pool-file option[value='slow.csv']")
        # The answer about this file is held back.
        self.browser.execute_script("""
          const real = window.fetch;
          window.fetch = async (path, options) => {
            const answer = await real(path, options);
            if (path.endsWith("/GetPoolPreview") && options.body.includes("slow.csv")) await new Promise((resolve) => (window.release = resolve));
            return answer;
          };""")
        choose = """const files = document.getElementById("pool-file"); files.value = arguments[0]; files.dispatchEvent(new Event("change"));"""
        self.browser.execute_script(choose, "slow.csv")
        self.wait.until(lambda page: page.execute_script("return typeof window.release") == "function")
        self.browser.execute_script(choose, "other.csv")
        self.reads("pre.yaml", 'payload_column: "text"')
        self.browser.execute_async_script("const done = arguments[0]; window.release(); fetch('/api.js').then((answer) => answer.text()).then(() => setTimeout(done))")
        self.assertIn("other.csv", self.person.text_of("pre.yaml"))
        self.assertNotIn("slow", self.person.text_of(".columns"))

    def test_a_table_with_texts_and_dates_becomes_a_campaign(self):
        (self.daemon.pools / "wide.csv").write_text("when,x,text,note,y\n" + "".join(
            f"2024-01-{1 + i % 28:02},{i % 7},the text of example {i},n{i % 3},{i % 5}\n" for i in range(60)))
        self.sign_in()
        self.choose_pool("wide.csv")
        self.reads("pre.yaml", 'ignored_columns: ["when", "note"]')
        self.reads("pre.yaml", 'payload_column: "text"')
        roles = lambda: self.browser.execute_script(
            "return [...document.querySelectorAll('.columns select')].map((one) => one.selectedOptions[0].textContent)")
        self.wait.until(lambda _: roles() == ["not used", "feature", "shown to annotators", "not used", "feature"])
        # By hand: a feature that is not wanted.
        self.browser.execute_script("""const role = document.querySelector("[aria-label='Role of y']"); role.value = "ignoredColumns"; role.dispatchEvent(new Event("change"));""")
        self.wait.until(lambda _: roles()[4] == "not used")
        self.browser.execute_script("""const field = document.getElementById("field-classes"); field.value = "a, b"; field.dispatchEvent(new Event("input", { bubbles: true }));""")
        self.click("Create and start")
        self.wait.until(lambda page: page.current_url.endswith("#/campaign/wide"))
        self.reads(".badge", "waiting")
        _, answer = self.daemon.call("CampaignService/GetCampaign", {"campaign": "wide"}, self.bearer)
        self.assertEqual(answer["campaign"]["spec"]["pool"]["ignoredColumns"], ["when", "note", "y"])

    def chart(self, title):
        """The figures of a chart as it says them to screen readers, row by row."""
        return self.browser.execute_script("""
          const caption = [...document.querySelectorAll("caption")].find((one) => one.textContent === arguments[0]);
          return caption ? [...caption.parentElement.rows].map((row) => [...row.cells].map((cell) => cell.textContent)) : [];""", title)

    def test_charts_show_the_figures_of_the_report(self):
        # Two rounds, so that the examples of the second were selected with a model.
        self.create("charts", batch=12, labels=36)
        self.label("charts", 24, names=("ben",))
        report = lambda: self.daemon.call("ReportService/GetLabelReport", {"campaign": "charts"}, self.bearer)[1]
        self.wait.until(lambda _: report().get("labels") == "24" and report().get("calibration"))
        wanted = report()
        self.sign_in()
        self.open("#/campaign/charts")
        self.wait.until(lambda _: self.chart("Labels by class"))
        self.assertEqual({name: int(count) for name, count in self.chart("Labels by class")},
                         {one["value"]: int(one["labels"]) for one in wanted["classes"]})
        last = wanted["periods"][-1]
        for title, names, counts in (("Labels by class over time", [one["value"] for one in wanted["classes"]], last["classes"]),
                                     ("Labels by annotator over time", ["ben"], last["annotators"])):
            shown = {name: int(count) for name, _, count in self.chart(title)}  # the last one of each name
            self.assertEqual(shown, dict(zip(names, map(int, counts))), title)
        self.assertEqual(self.chart("Share of correct predictions by certainty"),
                         [["correct predictions", f"{100 * one['certainty']:.0f}%", f"{100 * int(one.get('correct', 0)) / int(one['items']):.0f}%"]
                          for one in wanted["calibration"]])
        flow = self.wait.until(lambda page: page.find_element(By.CSS_SELECTOR, ".flow")).get_attribute("aria-label")
        # This strategy computes no scores.
        timed = {"train", "predict", "partition", "select"}
        for stage in timed:
            self.assertRegex(flow, rf"\b{stage} \d")
        self.assertLessEqual(timed | {"whole round"}, {name for name, _, _ in self.chart("Time of rounds by stage")})

    def test_a_campaign_with_a_stream_shows_what_it_decided(self):
        self.daemon.create_campaign({"name": "stream", "classes": ["even", "odd"], "selection": {"stream": {"share": 0.1}},
                                     "pool": {"sources": ["pool.csv"], "idColumn": "id", "payloadColumn": "text"}}, self.bearer)
        rows = pathlib.Path(self.downloads.name, "offered.csv")
        rows.write_text("id,x,y,text\n" + "".join(f"new-{i},{i % 7},{(i * i) % 11},text {i}\n" for i in range(100)))
        run = subprocess.run([PROGRAM, "campaign", "offer", "stream", "--rows", str(rows), "--id", "id", "--payload", "text", "--server", f"127.0.0.1:{self.daemon.grpc_port}"],
                             env={**os.environ, "FULCRUM_TOKEN": self.admin}, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        wanted = self.daemon.call("CampaignService/GetCampaign", {"campaign": "stream"}, self.bearer)[1]["campaign"]["stream"]
        self.assertEqual(wanted["rows"], "100")
        self.sign_in()
        self.open("#/campaign/stream")
        self.reads(".figures", "Rows of the stream100")
        self.reads(".figures", f"Taken to be labeled{wanted['taken']}")
        self.reads(".figures", f"Windows with drift{wanted.get('driftAlarms', '0')}")

    def watches(self):
        return self.browser.execute_script("return performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/WatchCampaign')).length")

    def test_a_finished_campaign_is_asked_for_again_only_now_and_then(self):
        self.create("over", batch=2, labels=2)
        self.label("over", 2, names=("ben",))
        self.sign_in()
        note = self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": """
          window.delays = [];
          const real = window.setTimeout;
          window.setTimeout = (act, delay, ...more) => { window.delays.push(delay); return real(act, delay, ...more); };"""})
        self.addCleanup(self.browser.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", note)
        self.open("#/campaign/over")
        self.reads(".badge", "done")
        self.wait.until(lambda page: page.execute_script("return window.delays.includes(15000)"))
        # It goes on when it is extended here.
        watches = self.watches()
        self.click("Extend the budget")
        field = self.wait.until(lambda page: page.find_element(By.ID, "asked"))
        field.clear()
        field.send_keys("20\n")
        self.wait.until(lambda _: self.watches() > watches or "waiting" in self.person.text_of(".badge"))
        self.reads(".badge", "waiting")

    def test_hidden_tabs_hold_no_connection(self):
        self.create("tabs", batch=2, labels=50)
        self.sign_in()
        first = self.browser.current_window_handle
        tabs = []
        try:
            # A browser has six connections to a server for all its tabs.
            for _ in range(8):
                self.browser.switch_to.new_window("tab")
                tabs.append(self.browser.current_window_handle)
                self.open("#/campaign/tabs")
                self.reads(".figures", "Labels")
            # A tab that is seen again goes on from where it was.
            self.label("tabs", 1, names=("ben",))
            self.browser.switch_to.window(tabs[0])
            self.browser.execute_cdp_cmd("Page.bringToFront", {})
            self.wait.until(lambda _: "Labels1 / 50" in self.person.text_of(".figures"))
        finally:
            for tab in tabs:
                self.browser.switch_to.window(tab)
                self.browser.close()
            self.browser.switch_to.window(first)

    def test_a_campaign_is_paused_resumed_and_extended(self):
        self.sign_in()
        self.open("#/campaign/c")
        self.click("Pause")
        self.reads(".badge", "paused")
        self.click("Resume")
        self.reads(".badge", "waiting")
        self.click("Extend the budget")
        field = self.wait.until(lambda page: page.find_element(By.ID, "asked"))
        field.clear()
        field.send_keys("333\n")
        self.reads(".figures", "/ 333")

    def test_every_limit_can_be_extended(self):
        self.daemon.create_campaign({"name": "limits", "classes": ["even", "odd"], "stop": {"labels": "50", "rounds": 7, "cost": 99.5},
                                     "pool": {"sources": ["pool.csv"], "idColumn": "id", "payloadColumn": "text"}}, self.bearer)
        self.sign_in()
        self.open("#/campaign/limits")
        for key, value in [("1", "60"), ("2", "9"), ("3", "120.5")]:
            self.click("Extend the budget")
            self.sees("dialog[open]").send_keys(key)
            field = self.wait.until(lambda page: page.find_element(By.ID, "asked"))
            field.clear()
            field.send_keys(value + "\n")
            self.reads("#toast", f"after {value} ")
        _, answer = self.daemon.call("CampaignService/GetCampaign", {"campaign": "limits"}, self.bearer)
        self.assertEqual(answer["campaign"]["spec"]["stop"], {"labels": "60", "rounds": 9, "cost": 120.5})

    def test_a_finished_campaign_goes_on_with_more_labels(self):
        self.create("more", batch=2, labels=2)
        self.label("more", 2, names=("ben",))
        self.sign_in()
        self.open("#/label/more")
        self.reads("h1", "is done")
        self.daemon.call("CampaignService/UpdateCampaign", {"campaign": "more", "spec": {"stop": {"labels": "10"}}, "updateMask": "stop.labels",
                                                            "requestId": "more"}, self.bearer)
        # Without a reload.
        self.wait.until(lambda _: self.person.shown())

    def test_stopping_rules_are_drawn(self):
        self.sign_in()
        self.daemon.create_campaign({"name": "curve", "classes": ["even", "odd"], "selection": {"batch": 5}, "stop": {"labels": "60", "stable": {"rounds": 9, "share": 0.25}},
                                     "pool": {"sources": ["pool.csv"], "idColumn": "id", "payloadColumn": "text"}}, self.bearer)
        self.label("curve", 12, names=("ben",))
        self.open("#/campaign/curve")
        self.wait.until(lambda page: len(page.find_elements(By.CSS_SELECTOR, ".rule")) == 2)
        texts = self.browser.execute_script("return [...document.querySelectorAll('.rule-text')].map((one) => one.textContent)")
        self.assertEqual(set(texts), {"ends at 60 labels", "ends if stable for 9 rounds"})
        # At three quarters of the height, since a quarter of the predictions may change, and at the right edge.
        lines = self.browser.execute_script("return [...document.querySelectorAll('.rule')].map((one) => ['x1', 'x2', 'y1', 'y2'].map((name) => one[name].baseVal.value))")
        axes = self.browser.execute_script("return [...document.querySelector('.rule').closest('svg').querySelectorAll('.axis')].map((one) => one.y1.baseVal.value)")
        level = next(one for one in lines if one[2] == one[3])
        self.assertAlmostEqual(level[2], 0.25 * max(axes) + 0.75 * min(axes), delta=0.5)

    def test_the_yaml_of_a_campaign_makes_the_same_campaign(self):
        for name, spec in {"full": FULL, "ended": None}.items():
            with self.subTest(spec=name):
                if spec:
                    status, answer = self.daemon.call("CampaignService/CreateCampaign", {"spec": {"name": name, **spec}}, self.bearer)
                    self.assertEqual(status, 200, answer)
                    operation = {"operation": answer["operation"]["name"]}
                    self.wait.until(lambda _: "SUCCEEDED" in self.daemon.call("OperationService/GetOperation", operation, self.bearer)[1]["operation"]["state"])
                self.sign_in()
                self.open(f"#/campaign/{name}")
                self.click("Download as YAML")
                text = self.downloaded(f"{name}.yaml").read_text().replace(f'name: "{name}"', f"name: {name}-copy")
                file = pathlib.Path(self.downloads.name, f"{name}-copy.yaml")
                file.write_text(text)
                run = subprocess.run([PROGRAM, "campaign", "create", str(file), "--server", f"127.0.0.1:{self.daemon.grpc_port}"],
                                     env={**os.environ, "FULCRUM_TOKEN": self.admin}, capture_output=True, text=True)
                self.assertEqual(run.returncode, 0, f"{run.stderr}\n{text}")
                specs = [self.daemon.call("CampaignService/GetCampaign", {"campaign": one}, self.bearer)[1]["campaign"]["spec"] for one in (name, f"{name}-copy")]
                for one in specs:
                    del one["name"]
                self.assertEqual(specs[0], specs[1])

    def test_labels_and_model_are_exported(self):
        self.sign_in()
        self.open("#/campaign/c")
        self.click("Export labels")
        with self.downloaded("c-labels.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        items = [self.item(item) for item in {row["id"] for row in rows}]
        votes = {(each["item"]["itemId"], vote["annotator"], vote["value"]) for each in items for vote in each["item"].get("votes", [])}
        self.assertEqual({(row["id"], row["annotator"], row["label"]) for row in rows if row["annotator"] in ("ben", "cleo") and row["counts"] == "true"},
                         {vote for vote in votes if vote[1] in ("ben", "cleo")})
        # The columns and cells of the command.
        run = subprocess.run([PROGRAM, "campaign", "export", "c", "--errors", "--server", f"127.0.0.1:{self.daemon.grpc_port}"],
                             env={**os.environ, "FULCRUM_TOKEN": self.admin}, capture_output=True, text=True, check=True)
        self.assertGreaterEqual(len(rows[0]), 20)
        self.assertEqual(rows, [{name: row[name] for name in rows[0]} for row in csv.DictReader(run.stdout.splitlines())])
        for key, name, wanted in [("1", "c.onnx", b"features"), ("2", "c.libsvm", b"svm_type"), ("3", "c.model", b"FULCRUMSVM")]:
            self.click("Download the model")
            self.sees("dialog[open]").send_keys(key)
            self.assertIn(wanted, self.downloaded(name).read_bytes())

    def test_tokens_are_created_and_revoked(self):
        self.sign_in()
        self.open("#/access")
        self.wait.until(lambda page: page.find_element(By.ID, "owner")).send_keys("zoe\n")
        secret = self.wait.until(lambda _: self.person.text_of("pre.yaml"))
        bearer = {"Authorization": f"Bearer {secret}"}
        self.assertEqual(self.daemon.call("AccessService/GetCaller", headers=bearer)[1]["role"], "ROLE_ANNOTATOR")
        self.wait.until(lambda page: page.find_element(By.XPATH, "//tr[td[1]='zoe']//button")).click()
        self.wait.until(lambda page: page.find_element(By.CSS_SELECTOR, "dialog .danger")).click()
        self.wait.until(lambda _: self.daemon.call("AccessService/GetCaller", headers=bearer)[0] == 401)

    def test_items_are_searched(self):
        self.sign_in()
        self.open("#/campaign/c/items")
        self.wait.until(lambda page: page.find_element(By.ID, "search")).send_keys("cleo\n")
        self.reads("main", "found")
        _, answer = self.daemon.call("ItemService/ListItems", {"campaign": "c", "search": "CLEO"}, self.bearer)
        self.assertTrue(all(any(vote["annotator"] == "cleo" for vote in item["votes"]) for item in answer["items"]))
        self.wait.until(lambda page: len(page.find_elements(By.CSS_SELECTOR, "tbody tr")) == len(answer["items"]))

    def test_disputes_are_decided_and_returned(self):
        _, answer = self.daemon.call("ItemService/ListItems", {"campaign": "c", "state": "ITEM_STATE_DISPUTED"}, self.bearer)
        decided, returned = [item["itemId"] for item in answer["items"]][:2]
        self.sign_in()
        self.open(f"#/campaign/c/items/{decided}")
        # Why it was selected.
        why = self.item(decided)["selection"]
        self.reads("section .half", why["strategy"])
        rows = self.browser.execute_script("return Object.fromEntries([...document.querySelectorAll('section .half tr')].map((row) => [...row.cells].map((cell) => cell.textContent)))")
        self.assertEqual((rows["Round"], rows["Strategy"]), (why["round"], why["strategy"]))
        self.click("Decide its label")
        self.sees("dialog[open]").send_keys("2")
        self.reads("section .badge", "labeled")
        self.assertEqual((self.item(decided)["item"]["state"], self.item(decided)["item"]["label"]), ("ITEM_STATE_LABELED", "odd"))
        self.open(f"#/campaign/c/items/{returned}")
        self.reads("section .badge", "disputed")
        self.click("Return it to the pool")
        self.wait.until(lambda _: self.item(returned)["item"]["state"] != "ITEM_STATE_DISPUTED")
        self.wait.until(lambda _: "disputed" not in self.person.text_of("section .badge"))

    def test_a_large_example_is_shown_whole(self):
        text = "".join(f"part {i} of many " for i in range(90000))
        (self.daemon.pools / "large.csv").write_text('id,x,text\n' + "".join(f'{i},{i},"{text if i == 0 else "short"}"\n' for i in range(20)))
        self.daemon.create_campaign({"name": "large", "classes": ["even", "odd"], "pool": {"sources": ["large.csv"], "idColumn": "id", "payloadColumn": "text"}}, self.bearer)
        self.sign_in(self.reader)
        self.open("#/campaign/large/items/0")
        self.wait.until(lambda _: f"Show all {len(text):,}" in self.person.text_of("section .payload"))

    def test_annotators_are_paused_with_a_reason_and_resumed(self):
        self.sign_in()
        self.open("#/campaign/c/annotators")
        _, wanted = self.daemon.call("AnnotatorService/ListAnnotators", {"campaign": "c"}, self.bearer)
        self.wait.until(lambda page: page.find_elements(By.CSS_SELECTOR, ".quality tbody tr"))
        for one in wanted["annotators"]:
            self.assertIn(one["name"], self.person.text_of(".quality"))
            self.assertIn(f"{100 * one['accuracy']:.0f}%", self.person.text_of(".quality"))
        find = lambda text: self.wait.until(lambda page: page.find_element(By.CSS_SELECTOR, f"button[aria-label='{text} cleo']"))
        paused = lambda: {one["name"]: one.get("pausedReason", "") for one in self.daemon.call(
            "AnnotatorService/ListAnnotators", {"campaign": "c"}, self.bearer)[1]["annotators"]}["cleo"]
        find("Pause").click()
        self.wait.until(lambda page: page.find_element(By.ID, "asked")).send_keys("answers at random\n")
        self.wait.until(lambda _: paused() == "answers at random")
        self.reads(".quality .more p", "")
        self.wait.until(lambda _: "answers at random" in self.person.text_of(".quality"))
        find("Resume").click()
        self.wait.until(lambda page: page.find_element(By.ID, "asked")).send_keys("talked to her\n")
        self.wait.until(lambda _: paused() == "")
        find("Pause")
        _, errors = self.daemon.call("AnnotatorService/ListLabelErrors", {"campaign": "c"}, self.bearer)
        self.reads("main", f"{errors['totalSize']} of {errors['labels']} labels")
        listed = self.browser.execute_script("return [...document.querySelectorAll('[aria-label=\"Likely label errors\"] tbody a')].map((one) => one.textContent)")
        self.assertEqual(listed, [one["itemId"] for one in errors["errors"]])
        self.browser.find_element(By.CSS_SELECTOR, "[aria-label='Likely label errors'] tbody a").click()
        self.reads("section h2", listed[0])


if __name__ == "__main__":
    unittest.main()
