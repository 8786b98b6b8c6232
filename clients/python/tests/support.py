"""What the tests of the package share: a daemon, and a pool whose labels are known. FULCRUM is the program."""

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


class Daemon:
    """`fulcrum serve` as a process that can be killed and started again on the same port."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(os.path.join(folder, "pools"), exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % probe.getsockname()[1]
        self.start()

    def start(self, *options):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--data", self.folder + "/data", "--pools", self.folder + "/pools", "--no-tokens",
             "--listen", self.address, "--metrics", "off", *options], stderr=subprocess.PIPE)
        for line in self.process.stderr:
            if b"listening" in line:
                break
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

    @staticmethod
    def rows(table):
        return table if isinstance(table, list) else table.to_dict("records")

    def need(self, module):
        """The module, or the test is skipped by its name."""
        try:
            return importlib.import_module(module)
        except ImportError:
            return self.skipTest(f"{module} is not installed")
