"""deploy/examples/label_studio against messages that Label Studio has sent (record_label_studio.py), and a real daemon.

Messages are as they were recorded, but for the data of their tasks: the items and leases are those of the daemon.
"""

import base64
import importlib.util
import json
import pathlib
import threading
import unittest
import urllib.error
import urllib.request
import xml.etree.ElementTree

import fulcrum
from support import DaemonTest, answer

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "examples" / "label_studio"
SPEC = importlib.util.spec_from_file_location("bridge", EXAMPLE / "bridge.py")
bridge_module = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bridge_module)


def read(name, *data):
    """A message; its first tasks get this data."""
    message = json.loads((EXAMPLE / "messages" / name).read_text(encoding="utf-8"))
    tasks = message
    if isinstance(message, dict):
        tasks = message.get("tasks") or message.get("task") or []
    for task, own in zip(tasks if isinstance(tasks, list) else [tasks], data):
        task["data"] = own
    return message


def item_of(task):
    return task["data"]["fulcrum"]["item"]


class LabelStudioTest(DaemonTest):
    def setUp(self):
        super().setUp()
        self.campaign = self.create("clouds", rounds=2, question="Which cloud?")
        self.bridge = bridge_module.Bridge(self.client, "clouds")
        self.server = bridge_module.make_server(self.bridge, "127.0.0.1", 0, "secret")
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def post(self, path, body, secret="secret"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.server_port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "X-Fulcrum-Secret": secret})
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read())

    def tasks(self):
        for _ in range(30):
            tasks = self.bridge.tasks(wait_seconds=2)  # until a round has ended
            if tasks:
                return tasks
        raise AssertionError("the campaign offers no tasks")

    def label_of(self, item):
        return [row for row in self.rows(self.campaign.labels()) if row["id"] == item and row["counts"]]

    def test_large_payloads_are_in_the_tasks(self):
        campaign, texts = self.create_with_large_payloads("large")
        tasks = bridge_module.Bridge(self.client, campaign.name).tasks(wait_seconds=30)
        self.assertTrue(tasks)
        for task in tasks:
            self.assertEqual(task["data"]["text"].strip(), texts[item_of(task)])

    def test_annotations_arrive_by_webhook_once_and_can_change(self):
        tasks = self.tasks()
        self.assertEqual(len(tasks), 6)
        data = tasks[0]["data"]
        item = data["fulcrum"]["item"]
        self.assertEqual(self.post("/webhook", read("annotation_created.json", data))["outcomes"], ["labeled"])
        self.assertEqual(self.post("/webhook", read("annotation_created.json", data))["outcomes"], ["labeled"])
        first, second = (read(f"annotation_{kind}.json")["annotation"]["result"][0]["value"]["choices"][0]
                         for kind in ("created", "updated"))
        self.assertNotEqual(first, second)
        self.assertEqual([row["label"] for row in self.label_of(item)], [first])
        self.assertEqual(self.post("/webhook", read("annotation_updated.json", data))["outcomes"], ["changed"])
        self.assertEqual([row["label"] for row in self.label_of(item)], [second])
        skipped = read("annotation_skipped.json", tasks[1]["data"])
        self.assertEqual(self.post("/webhook", skipped)["outcomes"], ["skipped"])
        self.assertEqual(self.label_of(tasks[1]["data"]["fulcrum"]["item"]), [])
        self.assertRegex(self.post("/webhook", read("annotations_deleted.json"))["outcomes"][0], "^ignored: action")
        self.assertRegex(self.post("/webhook", read("annotation_created.json", {"text": "x"}))["outcomes"][0], "^ignored")

    def test_annotations_that_are_made_at_once_arrive(self):
        tasks = self.tasks()
        event = read("annotations_created.json", *(task["data"] for task in tasks))
        self.assertEqual(event["action"], "ANNOTATIONS_CREATED")
        # Annotations are in an order of their own.
        event["annotation"].reverse()
        self.assertEqual(self.post("/webhook", event)["outcomes"], ["labeled"] * len(event["task"]))
        by_task = {each["task"]: each["result"][0]["value"]["choices"][0] for each in event["annotation"]}
        for task in event["task"]:
            self.assertEqual([row["label"] for row in self.label_of(item_of(task))], [by_task[task["id"]]])
        self.assertEqual(self.bridge.waiting(), 6 - len(event["task"]))

    def test_tasks_that_cannot_be_imported_go_back_to_the_campaign(self):
        def fail(tasks):
            raise OSError("Label Studio is down")

        with self.assertRaisesRegex(OSError, "down"):
            self.bridge.add(20, fail, wait_seconds=30)
        self.assertEqual(self.bridge.waiting(), 0)
        self.assertEqual(len(self.rows(self.campaign.items("leased"))), 0)
        imported = []
        self.assertEqual(self.bridge.add(20, imported.extend), 6)
        self.assertEqual((len(imported), self.bridge.waiting()), (6, 6))

    def test_a_new_bridge_sends_what_was_missed_and_imports_nothing_twice(self):
        tasks = self.tasks()
        # Four were annotated while no bridge ran, and one was skipped.
        project = read("tasks.json")["tasks"][:6]
        self.assertEqual([len(task["annotations"]) for task in project], [1, 1, 1, 1, 1, 0])
        for listed, task in zip(project, tasks):
            listed["data"] = task["data"]
        other = bridge_module.Bridge(self.client, "clouds")
        self.assertEqual(other.restore(project), {"labeled": 4, "skipped": 1})
        self.assertEqual(other.restore(project), {"labeled": 4, "skipped": 1})
        self.assertEqual({item_of(task) for task in project if self.label_of(item_of(task))},
                         {item_of(task) for task in project[:1] + project[2:5]})
        self.assertEqual(other.waiting(), 1)
        other.renew()
        self.assertEqual(other.waiting(), 1)
        # The lease ends, and the campaign offers the item again: it is in Label Studio already.
        last = project[5]
        other._call("ReleaseTasks", leases=[other._held[item_of(last)]])
        other.renew()
        self.assertEqual(other.waiting(), 0)
        imported = []
        self.assertEqual((other.add(20, imported.extend), imported), (0, []))
        self.assertEqual(other.waiting(), 1)
        event = read("annotation_created.json", last["data"])
        self.assertEqual(other.take_event(event), ["labeled"])
        self.assertEqual(len(self.rows(self.campaign.items("leased"))), 0)

    def test_a_campaign_through_files(self):
        rounds = 0
        while self.campaign.state != "done":
            export = []
            for number, task in enumerate(self.tasks()):
                exported = read("export.json", task["data"])[0]
                annotation = exported["annotations"][0]
                annotation["id"] = 1000 * rounds + number
                item = type("Item", (), {"id": item_of(task)})
                annotation["result"][0]["value"]["choices"] = [answer(item)]
                export.append(exported)
            self.assertEqual(self.bridge.take_export(export), {"labeled": len(export)})
            rounds += 1
            for event in self.campaign.events():
                if event.HasField("campaign") and (event.campaign.open_tasks or event.campaign.state == 5):
                    break
        self.assertEqual(rounds, 2)
        self.assertEqual(len(self.rows(self.campaign.labels())), 12)

    def test_predictions_as_an_ml_backend(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.server_port}/health", timeout=30) as response:
            self.assertEqual(json.loads(response.read())["status"], "UP")
        self.assertIn("model_version", self.post("/setup", read("setup.json")))
        before = self.tasks()
        self.assertEqual(self.post("/predict", read("predict.json", before[0]["data"]))["results"][0]["result"], [])
        self.bridge._call("ReleaseTasks", leases=[
            {"lease_id": task["data"]["fulcrum"]["lease"], "epoch": task["data"]["fulcrum"]["epoch"]} for task in before])
        fulcrum.Worker(self.client, self.campaign, answer).run()
        result = self.post("/predict", read("predict.json", before[0]["data"]))["results"][0]
        self.assertIn(result["result"][0]["value"]["choices"], (["neg"], ["pos"]))
        self.assertEqual((result["result"][0]["from_name"], result["result"][0]["to_name"]), ("label", "item"))

    def test_the_configuration_has_the_names_that_annotations_refer_to(self):
        view = xml.etree.ElementTree.fromstring(self.bridge.config())
        choices = view.find("Choices")
        self.assertEqual((choices.get("name"), choices.get("toName")), ("label", view.find("Text").get("name")))
        self.assertEqual([choice.get("value") for choice in choices], ["neg", "pos"])
        self.assertEqual(view.find("Header").get("value"), "Which cloud?")

    def test_bad_requests_are_refused(self):
        for path, body, secret, code in (("/webhook", {}, "wrong", 403), ("/predict", {}, "wrong", 403),
                                         ("/setup", {}, "", 403), ("/nowhere", {}, "secret", 404),
                                         ("/webhook", [1], "secret", 400)):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.post(path, body, secret)
            self.assertEqual(refused.exception.code, code)
            refused.exception.close()

    def test_the_secret_can_be_the_password_of_basic_authentication(self):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.server_port}/predict", json.dumps({"tasks": []}).encode(),
            {"Authorization": "Basic " + base64.b64encode(b"anyone:secret").decode()})
        with urllib.request.urlopen(request, timeout=30) as response:
            self.assertEqual(json.loads(response.read()), {"results": []})

    def test_leases_are_renewed_and_ended_ones_forgotten(self):
        tasks = self.tasks()
        self.assertEqual(self.bridge.waiting(), 6)
        self.bridge.renew()
        self.assertEqual(self.bridge.waiting(), 6)
        self.bridge._call("ReleaseTasks", leases=[self.bridge._held[item_of(tasks[0])]])
        self.bridge.renew()
        self.assertEqual(self.bridge.waiting(), 5)


if __name__ == "__main__":
    unittest.main()
