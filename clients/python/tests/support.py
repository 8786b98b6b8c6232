"""What the tests of the package share: a daemon, and a pool whose labels are known. FULCRUM is the program."""

import contextlib
import importlib
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import fulcrum

PROGRAM = os.environ["FULCRUM"]


def clouds(rows):
    """Two clouds: even rows are "neg", odd ones "pos"."""
    numbers = random.Random(7)
    return [[(-0.7 if row % 2 == 0 else 0.7) + numbers.gauss(0, 1) for _ in range(4)] for row in range(rows)]


def answer(task):
    return "neg" if int(task.id) % 2 == 0 else "pos"


def free_port():
    """A port below those that the system gives to connections, so that it stays free while nobody listens there."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = random.SystemRandom().randrange(20000, 32768)
            probe.bind(("127.0.0.1", port))
            return port


class Daemon:
    """`fulcrum serve` as a process that can be killed and started again on the same port."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(os.path.join(folder, "pools"), exist_ok=True)
        self.address = f"127.0.0.1:{free_port()}"
        self.start()

    def start(self, *options):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--data", self.folder + "/data", "--pools", self.folder + "/pools", "--no-tokens",
             "--listen", self.address, "--metrics", "off", *options], stderr=subprocess.PIPE)
        log = b""
        for line in self.process.stderr:
            log += line
            if b"listening" in line:
                break
        else:
            raise RuntimeError(f"the daemon ended with {self.process.wait()}:\n{log.decode(errors='replace')}")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class DaemonTest(unittest.TestCase):
    """A test with a daemon of its own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.daemon = Daemon(self.folder.name)
        # Also if the setUp of a test of its own fails.
        self.addCleanup(lambda: self.daemon.kill())
        self.client = fulcrum.Client(self.daemon.address)
        self.addCleanup(self.client.close)

    def pool(self, rows=200):
        path = os.path.join(self.folder.name, "clouds.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write("f0,f1,f2,f3\n")
            file.writelines(",".join(map(repr, row)) + "\n" for row in clouds(rows))
        return path

    def create(self, name, rounds=4, **spec):
        return self.client.create_campaign(name, self.pool(), ["neg", "pos"], seed=3, stop={"rounds": rounds},
                                           selection={"strategy": "dbalevs", "batch": 6}, **spec)

    def create_with_large_payloads(self, name):
        """Each payload is more than fits into a task: 1 MiB."""
        texts = {str(row): f"{row} " * 600_000 for row in range(8)}
        frame = self.need("pandas").DataFrame({"f0": range(8), "text": list(texts.values())}, index=list(texts))
        campaign = self.client.create_campaign(name, frame, ["neg", "pos"], payload_column="text", selection={"batch": 4},
                                               stop={"rounds": 2})
        return campaign, {row: text.strip() for row, text in texts.items()}

    @staticmethod
    def rows(table):
        return table if isinstance(table, list) else table.to_dict("records")

    def need(self, module):
        """The module, or the test is skipped by its name."""
        try:
            return importlib.import_module(module)
        except ImportError:
            return self.skipTest(f"{module} is not installed")
