"""A daemon with a web address, and calls to it as JSON over HTTP."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.request

PROGRAM = os.environ["FULCRUM"]


def free_port():
    """A port below those that the system gives to connections, so that it stays free while nobody listens there."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = random.SystemRandom().randrange(20000, 32768)
            probe.bind(("127.0.0.1", port))
            return port


class WebDaemon:
    def __init__(self, *options, listen="127.0.0.1:0"):
        self.folder = tempfile.TemporaryDirectory()
        self.pools = pathlib.Path(self.folder.name, "pools")
        self.pools.mkdir()
        self.options = options
        self.listen = listen
        self.data = str(pathlib.Path(self.folder.name, "data"))
        self.process = None
        self.port = free_port()  # the same after a restart
        self.grpc_port = 0
        self.metrics_port = 0
        self.log = ""  # when it has stopped

    def start(self):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--data", self.data, "--pools", str(self.pools), "--listen", self.listen, "--metrics", "127.0.0.1:0",
             "--web", f"127.0.0.1:{self.port}", "--log", "json", *self.options], stderr=subprocess.PIPE, text=True)
        log = ""
        for line in self.process.stderr:
            log += line
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("message") == "listening":
                self.port = entry["web_port"]
                self.grpc_port = entry["port"]
                self.metrics_port = entry["metrics_port"]
                self.reader = threading.Thread(target=self.read_log)
                self.reader.start()
                return self
        raise RuntimeError(f"the daemon ended with {self.process.wait()}:\n{log}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.reader.join()
        return self.process.wait(timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def read_log(self):
        with self.process.stderr as log:
            self.log = log.read()

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            return answer.read().decode()

    def peak_memory(self):
        """The most bytes that the process has ever had in memory."""
        return 1024 * int(pathlib.Path(f"/proc/{self.process.pid}/status").read_text().partition("VmHWM:")[2].split()[0])

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
