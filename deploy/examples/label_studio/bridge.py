#!/usr/bin/env python3
"""Labels a Fulcrum campaign in Label Studio: its batches become tasks there, and annotations come back as labels.

  bridge.py config  --campaign digits                     print the labeling configuration of the project
  bridge.py tasks   --campaign digits --out tasks.json    take tasks, as a file that Label Studio imports
  bridge.py import  --campaign digits export.json         send the annotations of an export (format JSON)
  bridge.py serve   --campaign digits --listen 0.0.0.0:9090
                    [--label-studio http://HOST:8080 --project 1]

`serve` is a webhook and an ML backend: it takes annotations as they are made, predicts tasks with the campaign's model,
renews leases, and, if it is told where Label Studio is, adds the next batch to the project when annotators run out of
tasks. The token of Label Studio (an access token of either kind) is read from LABEL_STUDIO_TOKEN, that of Fulcrum from
FULCRUM_TOKEN. If BRIDGE_SECRET is set, requests must have it in the header X-Fulcrum-Secret or as the password of basic
authentication, which Label Studio offers for ML backends.

Each task has its item and lease in `data.fulcrum`, so that nothing needs to be stored here: at its start `serve` reads the
project, sends annotations that it has missed, and goes on with the others. A label that arrives after the lease has
expired still counts, and an annotation that is sent twice takes effect once.
"""

import argparse
import base64
import hmac
import http.server
import json
import os
import sys
import threading
import urllib.request
from typing import Any, Callable, Dict, List, Optional, Set
from xml.sax.saxutils import quoteattr

import fulcrum
from fulcrum import api
from fulcrum.campaign import message
from fulcrum.connection import new_request_id
from fulcrum.errors import code_name

CHOICE, OBJECT = "label", "item"


class Bridge:
    """A campaign, as Label Studio sees it. Thread-safe."""

    def __init__(self, client: Any, campaign: str, annotator: str = "label-studio", image: bool = False):
        self.campaign = client.campaign(campaign)
        self.image = image
        self._connection = client.connection
        self._who = {"campaign": campaign, "annotator": annotator}
        self._lock = threading.Lock()
        self._held: Dict[str, Dict[str, int]] = {}  # item -> its lease; the items that are in Label Studio
        self._ended: Set[str] = set()               # items that are there, too, but whose lease has ended

    def _call(self, method: str, request_id: Optional[str] = None, **fields: Any) -> Any:
        request = message(method + "Request", request_id=request_id or new_request_id(), **self._who, **fields)
        if method in ("SubmitLabels", "SkipTasks", "ChangeLabels"):
            return self._connection.call_items(method, request)
        return self._connection.call(method, request)

    def config(self) -> str:
        """Returns the labeling configuration: a text or an image, and one choice per class."""
        spec = self.campaign.describe().spec
        shown = f'<Image name="{OBJECT}" value="$image"/>' if self.image else f'<Text name="{OBJECT}" value="$text"/>'
        choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in spec.classes)
        return (f"<View>\n  <Header value={quoteattr(spec.question or 'Label')}/>\n  {shown}\n"
                f'  <Choices name="{CHOICE}" toName="{OBJECT}" choice="single" showInLine="true">\n{choices}\n'
                "  </Choices>\n</View>\n")

    def tasks(self, most: int = 1000, wait_seconds: int = 0) -> List[Dict[str, Any]]:
        """Takes tasks of the campaign, in the format that Label Studio imports. Tasks that are in Label Studio already
        are not among them; only their leases are new."""
        response = self._call("AcquireTasks", max_tasks=min(most, 1000), wait={"seconds": wait_seconds})
        tasks = []
        for task in response.tasks:
            lease = {"lease_id": task.lease_id, "epoch": task.epoch}
            with self._lock:
                known = task.item_id in self._held or task.item_id in self._ended
                self._ended.discard(task.item_id)
                self._held[task.item_id] = lease
            if not known:
                payload = task.payload
                if task.large_payload_bytes:
                    payload = self._connection.payload(self.campaign.name, task.item_id)
                shown = payload.decode("utf-8", "replace") or task.item_id
                tasks.append({"data": {"image" if self.image else "text": shown, "fulcrum": {
                    "campaign": self.campaign.name, "item": task.item_id, "lease": task.lease_id,
                    "epoch": task.epoch}}})
        return tasks

    def add(self, most: int, send: Callable[[List[Dict[str, Any]]], None], wait_seconds: int = 0) -> int:
        """Takes tasks and gives them to `send`, which imports them. If that fails, they go back to the campaign."""
        tasks = self.tasks(most, wait_seconds)
        if tasks:
            try:
                send(tasks)
            except BaseException:
                with self._lock:
                    leases = [self._held.pop(task["data"]["fulcrum"]["item"]) for task in tasks]
                self._call("ReleaseTasks", leases=leases)
                raise
        return len(tasks)

    def restore(self, tasks: List[Dict[str, Any]]) -> Dict[str, int]:
        """Takes in what a project has: annotations are sent, and the leases of tasks without one are renewed from now
        on. Returns how many had which outcome."""
        for task in tasks:
            origin = self._origin(task)
            if origin.get("campaign") == self.campaign.name and not task.get("annotations"):
                with self._lock:
                    self._held[str(origin["item"])] = {"lease_id": int(origin["lease"]), "epoch": int(origin["epoch"])}
        return self.take_export(tasks)

    @staticmethod
    def _origin(task: Dict[str, Any]) -> Dict[str, Any]:
        origin = (task.get("data") or {}).get("fulcrum") or {}
        return json.loads(origin) if isinstance(origin, str) else origin  # a text is what a CSV import makes of it

    def take(self, task: Dict[str, Any], annotation: Dict[str, Any]) -> str:
        """Sends one annotation of a task. Returns what became of it: "labeled", "changed", "skipped" or "ignored: ..."."""
        origin = self._origin(task)
        if origin.get("campaign") != self.campaign.name:
            return "ignored: not a task of this campaign"
        item = str(origin["item"])
        with self._lock:
            # A lease that was given to the same item later is the one that counts.
            lease = self._held.get(item) or {"lease_id": int(origin["lease"]), "epoch": int(origin["epoch"])}
        # The same annotation has the same request id, and an updated one another.
        request_id = f"label-studio-{annotation.get('id')}-{annotation.get('updated_at', '')}"
        if annotation.get("was_cancelled"):
            reason = api.enum_value("fulcrum.v1.SkipReason", "SKIP_REASON_UNSURE")
            status = self._call("SkipTasks", request_id, skips=[{"lease": lease, "reason": reason}]).results[0]
            outcome = "skipped"
        else:
            chosen = [choice for part in annotation.get("result") or [] if part.get("type") == "choices"
                      and part.get("from_name") == CHOICE for choice in part["value"]["choices"]]
            if len(chosen) != 1:
                return f"ignored: {len(chosen)} choices instead of one"
            status = self._call("SubmitLabels", request_id, labels=[
                {"lease": lease, "item_id": item, "value": chosen[0]}]).results[0].status
            outcome = "labeled"
            if code_name(status.code) == "FAILED_PRECONDITION":  # labeled before: this is a change
                status = self._call("ChangeLabels", request_id + "-change", changes=[
                    {"item_id": item, "value": chosen[0]}]).results[0].status
                outcome = "changed"
        with self._lock:
            self._held.pop(item, None)
            self._ended.discard(item)
        return outcome if status.code == 0 else f"ignored: {code_name(status.code)}: {status.message}"

    def take_export(self, tasks: List[Dict[str, Any]]) -> Dict[str, int]:
        """Sends all annotations of an export; returns how many had which outcome."""
        outcomes: Dict[str, int] = {}
        for task in tasks:
            for annotation in sorted(task.get("annotations") or [], key=lambda each: each.get("updated_at") or ""):
                outcome = self.take(task, annotation)
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
        return outcomes

    def take_event(self, event: Dict[str, Any]) -> List[str]:
        """Takes the body of a webhook."""
        action = event.get("action", "")
        if action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED"):
            return [self.take(event.get("task") or {}, event.get("annotation") or {})]
        if action == "ANNOTATIONS_CREATED":
            # Label Studio sends lists under the names of one.
            tasks = {task["id"]: task for task in event.get("task") or []}
            return [self.take(tasks.get(each.get("task"), {}), each) for each in event.get("annotation") or []]
        return [f"ignored: action {action}"]

    def predict(self, tasks: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """Returns predictions for tasks in the format of an ML backend; an empty one for a task of another origin or
        before there is a model."""
        results: List[Dict[str, Any]] = [{"result": [], "score": 0.0} for _ in tasks]
        origins = [self._origin(task) for task in tasks]
        ours = [number for number, each in enumerate(origins) if each.get("campaign") == self.campaign.name]
        if not ours:
            return results
        try:
            response = self._connection.call("Predict", message(
                "PredictRequest", campaign=self.campaign.name, item_ids=[str(origins[number]["item"]) for number in ours]))
        except fulcrum.FulcrumError as error:
            if error.code == "NOT_FOUND":  # no model yet
                return results
            raise
        for number, prediction in zip(ours, response.predictions):
            score = max(prediction.probabilities, default=0.0)
            results[number] = {"model_version": f"round {response.round}", "score": score, "result": [
                {"from_name": CHOICE, "to_name": OBJECT, "type": "choices", "value": {"choices": [prediction.value]}}]}
        return results

    def renew(self) -> None:
        """Renews the leases of the tasks that are in Label Studio."""
        with self._lock:
            held = sorted(self._held.items())
        for begin in range(0, len(held), 1000):
            part = held[begin:begin + 1000]
            results = self._call("RenewLeases", leases=[lease for _, lease in part]).results
            with self._lock:
                for (item, lease), result in zip(part, results):
                    # Its task stays in Label Studio, and an annotation still counts. If the item is offered again, only
                    # its lease is new.
                    if result.status.code and self._held.get(item) == lease:
                        self._ended.add(item)
                        del self._held[item]

    def waiting(self) -> int:
        """Returns how many tasks are in Label Studio without an annotation, as far as this process knows."""
        with self._lock:
            return len(self._held)


def make_server(bridge: Bridge, host: str, port: int, secret: str = "") -> http.server.ThreadingHTTPServer:
    """Returns the HTTP server of the webhook and the ML backend."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Quiet: what goes wrong is in the answers."""

        def do_GET(self) -> None:
            known = self.path.rstrip("/") in ("", "/health")
            self._answer(200 if known else 404, {"status": "UP", "model_class": "Fulcrum"} if known else {})

        def do_POST(self) -> None:
            try:
                body = json.loads(self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 64 << 20)) or b"{}")
                path = self.path.rstrip("/")
                if not self._may():
                    return self._answer(403, {"error": "the header X-Fulcrum-Secret is missing or wrong"})
                if path == "/setup":
                    self._answer(200, {"model_version": f"fulcrum {bridge.campaign.name}"})
                elif path == "/predict":
                    self._answer(200, {"results": bridge.predict(body.get("tasks") or [])})
                elif path in ("", "/webhook", "/train"):
                    self._answer(201, {"status": "ok", "outcomes": bridge.take_event(body)})
                else:
                    self._answer(404, {"error": f"there is no {path}"})
            except fulcrum.FulcrumError as error:
                self._answer(503, {"error": str(error)})  # Label Studio shows it; the annotation is in its export
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self._answer(400, {"error": f"not a message of Label Studio: {error!r}"})
            return None

        def _may(self) -> bool:
            given = self.headers.get("X-Fulcrum-Secret") or ""
            kind, _, basic = (self.headers.get("Authorization") or "").partition(" ")
            if kind.lower() == "basic":
                given = base64.b64decode(basic).decode("utf-8", "replace").partition(":")[2]
            return not secret or hmac.compare_digest(given.encode(), secret.encode())

        def _answer(self, code: int, body: Dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return http.server.ThreadingHTTPServer((host, port), Handler)


class Project:
    """A project of Label Studio, through its API."""

    def __init__(self, url: str, number: int, token: str):
        self._url, self._number, self._token = url.rstrip("/"), number, token

    def add(self, tasks: List[Dict[str, Any]]) -> None:
        """Imports tasks."""
        self._call(f"/api/projects/{self._number}/import", tasks)

    def tasks(self) -> List[Dict[str, Any]]:
        """Returns all tasks with their annotations."""
        found: List[Dict[str, Any]] = []
        while True:
            page = self._call(f"/api/tasks?project={self._number}&fields=all&page_size=100&page={len(found) // 100 + 1}")
            found += page["tasks"]
            if not page["tasks"] or len(found) >= page["total"]:
                return found

    def _call(self, path: str, body: Any = None) -> Any:
        return self._request(path, body, self._authorization())

    def _authorization(self) -> str:
        if self._token.count(".") != 2:
            return f"Token {self._token}"
        # A personal access token (since Label Studio 1.17) gives one that is valid for some minutes.
        return "Bearer " + self._request("/api/token/refresh", {"refresh": self._token}, "")["access"]

    def _request(self, path: str, body: Any, authorization: str) -> Any:
        headers = {"Content-Type": "application/json", **({"Authorization": authorization} if authorization else {})}
        request = urllib.request.Request(self._url + path, None if body is None else json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read())


def serve(bridge: Bridge, options: argparse.Namespace) -> None:
    host, _, port = options.listen.rpartition(":")
    server = make_server(bridge, host, int(port), os.environ.get("BRIDGE_SECRET", ""))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on {options.listen}", flush=True)
    project = restored = None
    if options.label_studio:
        project = Project(options.label_studio, options.project, os.environ["LABEL_STUDIO_TOKEN"])
    while True:
        try:
            if project and not restored:
                restored = True, bridge.restore(project.tasks())
                print(f"the project has {bridge.waiting()} tasks without an annotation", flush=True)
            bridge.renew()
            if project and bridge.waiting() < options.keep:
                bridge.add(options.keep, project.add, wait_seconds=30)
        except (fulcrum.FulcrumError, OSError) as error:
            print(f"bridge: {error}; trying again", file=sys.stderr, flush=True)
        threading.Event().wait(options.renew_seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("config", "tasks", "import", "serve"))
    parser.add_argument("export", nargs="?", help="import: the file that Label Studio exported as JSON")
    parser.add_argument("--server", default="127.0.0.1:7410")
    parser.add_argument("--ca", help="PEM file of the server's authority")
    parser.add_argument("--campaign", required=True)
    parser.add_argument("--annotator", default="label-studio", help="who gives the labels, in Fulcrum")
    parser.add_argument("--image", action="store_true", help="payloads are addresses of images")
    parser.add_argument("--most", type=int, default=1000, help="tasks: at most so many")
    parser.add_argument("--out", default="-", help="tasks: the file to write")
    parser.add_argument("--listen", default="127.0.0.1:9090")
    parser.add_argument("--label-studio", help="serve: its address")
    parser.add_argument("--project", type=int, default=1)
    parser.add_argument("--keep", type=int, default=20, help="serve: add tasks if fewer than so many are left")
    parser.add_argument("--renew-seconds", type=float, default=20)
    options = parser.parse_args()
    bridge = Bridge(fulcrum.Client(options.server, ca=options.ca), options.campaign, options.annotator, options.image)
    if options.command == "config":
        print(bridge.config(), end="")
    elif options.command == "tasks":
        text = json.dumps(bridge.tasks(options.most), indent=2, ensure_ascii=False) + "\n"
        if options.out == "-":
            print(text, end="")
        else:
            with open(options.out, "w", encoding="utf-8") as file:
                file.write(text)
    elif options.command == "import":
        if not options.export:
            parser.error("import needs the file that Label Studio exported as JSON")
        with open(options.export, encoding="utf-8") as file:
            for outcome, count in sorted(bridge.take_export(json.load(file)).items()):
                print(f"{count:6} {outcome}")
    else:
        serve(bridge, options)


if __name__ == "__main__":
    try:
        main()
    except fulcrum.FulcrumError as error:
        sys.exit(f"bridge: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
