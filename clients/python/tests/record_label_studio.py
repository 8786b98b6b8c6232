"""Records what a real Label Studio sends to the bridge, as the files that label_studio_test.py replays.

    label-studio start --port 8899 --username ann@example.org --password ... --user-token TOKEN &
    FULCRUM=build/release/bin/fulcrum PYTHONPATH=build/release/python \\
        python3 clients/python/tests/record_label_studio.py http://127.0.0.1:8899 TOKEN

Label Studio must be allowed to send to this machine (SSRF_PROTECTION_ENABLED=false, ML_BLOCK_LOCAL_IP=false) and to take this token
(LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN=true). The script makes a project for a campaign with two batches, and annotates,
changes, skips, deletes and predicts there. It writes every kind of message as it was sent, to
deploy/examples/label_studio/messages, and checks that the labels arrived in the campaign.
"""

import http.server
import json
import sys
import tempfile
import threading
import urllib.error
import urllib.request

import fulcrum
from label_studio_test import EXAMPLE, bridge_module
from support import Daemon, answer, clouds


class Recorder:
    """Passes requests on to the bridge, and keeps them."""

    def __init__(self, target):
        self.bodies = {}  # name of the file -> the last body
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                self.forward(None)

            def do_POST(self):
                self.forward(self.rfile.read(int(self.headers["Content-Length"])))

            def forward(self, body):
                if body is not None:
                    recorder.keep(self.path.strip("/"), json.loads(body))
                names = [name for name in ("Content-Type", "X-Fulcrum-Secret", "Authorization") if name in self.headers]
                request = urllib.request.Request(target + self.path, body, {name: self.headers[name] for name in names})
                try:
                    with urllib.request.urlopen(request, timeout=60) as response:
                        code, content = response.status, response.read()
                except urllib.error.HTTPError as error:
                    code, content = error.code, error.read()
                print(f"{self.path} {code} {content[:200].decode()}")
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def keep(self, path, body):
        name = path
        if path == "webhook":
            name = body["action"].lower()
            if name == "annotation_created" and body["annotation"]["was_cancelled"]:
                name = "annotation_skipped"
        self.bodies[name] = body


def choice(label):
    return [{"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [label]}}]


def main():
    url, token = sys.argv[1:3]

    def studio(path, body=None, method=None):
        request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(), {
            "Authorization": f"Token {token}", "Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as response:
            content = response.read()
            return json.loads(content) if content else None

    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(folder)
        client = fulcrum.Client(daemon.address)
        try:
            record(url, token, studio, client, folder)
        finally:
            client.close()
            daemon.kill()


def record(url, token, studio, client, folder):
    pool = folder + "/clouds.csv"
    with open(pool, "w", encoding="utf-8") as file:
        file.write("f0,f1,f2,f3\n")
        file.writelines(",".join(map(repr, row)) + "\n" for row in clouds(200))
    campaign = client.create_campaign("clouds", pool, ["neg", "pos"], seed=3, stop={"rounds": 2},
                                      selection={"strategy": "dbalevs", "batch": 6}, question="Which cloud?")
    bridge = bridge_module.Bridge(client, "clouds")
    server = bridge_module.make_server(bridge, "127.0.0.1", 0, "secret")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    recorder = Recorder(f"http://127.0.0.1:{server.server_port}")
    number = studio("/api/projects", {"title": "clouds", "label_config": bridge.config()})["id"]
    studio("/api/webhooks/", {"project": number, "url": recorder.url + "/webhook", "send_payload": True,
                              "send_for_all_actions": True, "headers": {"X-Fulcrum-Secret": "secret"}})
    project = bridge_module.Project(url, number, token)

    def annotate(task, label, cancelled=False):
        return studio(f"/api/tasks/{task['id']}/annotations", {
            "result": [] if cancelled else choice(label), "was_cancelled": cancelled, "lead_time": 4.1})

    def label_of(task):
        return answer(type("Item", (), {"id": task["data"]["fulcrum"]["item"]}))

    assert bridge.add(20, project.add, wait_seconds=30) == 6
    tasks = project.tasks()
    first = annotate(tasks[0], "pos" if label_of(tasks[0]) == "neg" else "neg")
    studio(f"/api/annotations/{first['id']}", {"result": choice(label_of(tasks[0]))}, "PATCH")
    annotate(tasks[1], "", cancelled=True)
    for task in tasks[2:]:
        last = annotate(task, label_of(task))
    studio(f"/api/annotations/{last['id']}", None, "DELETE")
    # What was skipped is for another annotator; then the next batch is selected with a model.
    other = fulcrum.Worker(client, campaign, lambda task: other.stop() or answer(task), annotator="other", concurrency=1)
    other.run()
    assert bridge.add(20, project.add, wait_seconds=30) == 6
    studio("/api/ml", {"project": number, "url": recorder.url, "title": "fulcrum", "auth_method": "BASIC_AUTH",
                       "basic_auth_user": "bridge", "basic_auth_pass": "secret"})
    everything = {"selectedItems": {"all": True, "excluded": []}}
    studio(f"/api/dm/actions?id=retrieve_tasks_predictions&project={number}", everything)
    waiting = [task for task in project.tasks() if not task["annotations"] and not task["cancelled_annotations"]]
    batch = [task for task in waiting if task["id"] > tasks[-1]["id"]]
    assert len(batch) == 6, batch
    selected = {"selectedItems": {"all": False, "included": [task["id"] for task in batch[:4]]}}
    studio(f"/api/dm/actions?id=predictions_to_annotations&project={number}", selected)
    for task in batch[4:]:
        annotate(task, label_of(task))
    messages = dict(recorder.bodies, export=studio(f"/api/projects/{number}/export?exportType=JSON"),
                    tasks=studio(f"/api/tasks?project={number}&fields=all&page_size=100&page=1"))
    for name in ("annotation_created", "annotation_skipped", "annotation_updated", "annotations_created",
                 "annotations_deleted", "export", "predict", "setup", "tasks"):
        with open(EXAMPLE / "messages" / f"{name}.json", "w", encoding="utf-8") as file:
            json.dump(messages[name], file, indent=1, ensure_ascii=False)
            file.write("\n")
    version = studio("/api/version")
    print(f"recorded from Label Studio {version.get('release') or version}: {sorted(messages)}")
    labels = campaign.labels()
    rows = labels if isinstance(labels, list) else labels.to_dict("records")
    assert campaign.state == "done" and len({row["id"] for row in rows if row["counts"]}) == 12, rows
    studio(f"/api/projects/{number}", None, "DELETE")


if __name__ == "__main__":
    main()
