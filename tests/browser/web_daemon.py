"""A daemon with a web address, and calls to it as JSON over HTTP."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile

PROGRAM = os.environ["FULCRUM"]


class WebDaemon:
    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory()
        self.pools = pathlib.Path(self.folder.name, "pools")
        self.pools.mkdir()
        self.options = options
        self.data = str(pathlib.Path(self.folder.name, "data"))
        self.process = None
        self.port = 0

    def start(self):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--data", self.data, "--pools", str(self.pools), "--listen", "127.0.0.1:0", "--metrics", "off",
             "--web", f"127.0.0.1:{self.port}", "--log", "json", *self.options], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("message") == "listening":
                self.port = entry["web_port"]
                return self
        raise RuntimeError("the daemon does not start")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        with self.process.stderr as log:
            log.read()
        return self.process.wait(timeout=60)

    def token(self, name, role):
        return subprocess.run([PROGRAM, "token", "create", "--data", self.data, "--name", name, "--role", role],
                              check=True, capture_output=True, text=True).stdout.strip()

    def request(self, method, path, body=None, headers=()):
        """Status, headers and body. No header is added but the length and, unless it is given, the host."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def call(self, method, message=None, headers=()):
        """Status and body of a unary call."""
        status, _, body = self.request("POST", f"/fulcrum.v1.{method}", json.dumps(message or {}),
                                       {"Content-Type": "application/json", **dict(headers)})
        return status, json.loads(body)

    def create_campaign(self, spec, headers=()):
        status, answer = self.call("CampaignService/CreateCampaign", {"spec": spec}, headers)
        assert status == 200, answer
        name = answer["operation"]["name"]
        while answer["operation"]["state"] in ("OPERATION_STATE_QUEUED", "OPERATION_STATE_RUNNING"):
            _, answer = self.call("OperationService/GetOperation", {"operation": name}, headers)
        assert answer["operation"]["state"] == "OPERATION_STATE_SUCCEEDED", answer
        status, answer = self.call("CampaignService/StartCampaign", {"campaign": spec["name"]}, headers)
        assert status == 200, answer
