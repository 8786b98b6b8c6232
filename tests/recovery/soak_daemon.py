"""The daemon of the soak: its process, its disk, its clock, and the ledger of what it has acknowledged."""

import collections
import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
import time

ROWS, FEATURES = 400, 6
DISK_MIB = 256
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def rows_text(first, count, seed, header=True):
    """Rows of two Gaussian clouds as CSV, with ids from r<first> on."""
    source = random.Random(seed)
    lines = ["id,label," + ",".join(f"f{i}" for i in range(FEATURES))] if header else []
    for row in range(first, first + count):
        sign = 1 if row % 2 else -1
        values = ",".join(f"{sign + source.gauss(0, 1):.4f}" for _ in range(FEATURES))
        lines.append(f"r{row},{'pos' if sign > 0 else 'neg'},{values}")
    return "\n".join(lines) + "\n"


def convert(source, target):
    """A file in another format, by the program itself."""
    subprocess.run([os.environ["FULCRUM"], "convert", "--quiet", source, target], check=True)
    return target


class Ledger:
    """What the daemon has acknowledged, and what was sent without a known outcome."""

    def __init__(self):
        self.lock = threading.Lock()
        self.created = set()
        self.deleted = set()  # from before the call that deletes on
        self.acknowledged = collections.defaultdict(dict)  # campaign -> (item, annotator) -> value
        self.sent = collections.defaultdict(lambda: collections.defaultdict(set))  # -> (item, annotator) -> values
        self.appended = collections.Counter()  # campaign -> rows
        self.errors = []

    def fail(self, text):
        with self.lock:
            self.errors.append(text)
        print("FAILED:", text, flush=True)

    def expected(self):
        """Campaigns that must exist."""
        with self.lock:
            return self.created - self.deleted


class Daemon:
    def __init__(self, folder, ledger):
        self.folder, self.ledger = folder, ledger
        self.pools = os.path.join(folder, "pools")
        os.makedirs(self.pools)
        self.data = os.path.join(folder, "disk", "data")
        os.makedirs(self.data)
        self.has_disk = self.mount_disk()
        self.has_clock = os.path.exists(FAKETIME)
        self.clock_file = os.path.join(folder, "clock")
        self.set_clock("+0")
        self.port, self.metrics, self.web = self.ports = free_port(), free_port(), free_port()
        self.lock = threading.Lock()
        self.process = None
        self.kills = 0

    def mount_disk(self):
        disk = os.path.join(self.folder, "disk")
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", disk], check=False,
                                 stderr=subprocess.DEVNULL).returncode == 0
        os.makedirs(self.data, exist_ok=True)
        return mounted

    def set_clock(self, offset):
        with open(self.clock_file, "w", encoding="utf-8") as out:
            out.write(offset + "\n")

    def start(self):
        environment = dict(os.environ)
        if self.has_clock:
            environment.update(LD_PRELOAD=FAKETIME, FAKETIME_TIMESTAMP_FILE=self.clock_file,
                               FAKETIME_CACHE_DURATION="1", FAKETIME_DONT_FAKE_MONOTONIC="1")
        with open(os.path.join(self.folder, "daemon.log"), "ab") as log:
            self.process = subprocess.Popen(
                [os.environ["FULCRUM"], "serve", "--data", self.data, "--pools", self.pools,
                 "--listen", f"127.0.0.1:{self.port}", "--metrics", f"127.0.0.1:{self.metrics}",
                 "--web", f"127.0.0.1:{self.web}", "--no-tokens"],
                stdout=log, stderr=log, env=environment)

    def log_tail(self):
        with open(os.path.join(self.folder, "daemon.log"), errors="replace", encoding="utf-8") as log:
            return "".join(log.readlines()[-15:])

    def check_alive(self):
        with self.lock:
            code = self.process.poll()
            if code is None:
                return
            self.ledger.fail(f"the daemon ended by itself with {code}:\n{self.log_tail()}")
            self.start()

    def kill(self, sign):
        with self.lock:
            if self.process.poll() is not None:
                self.ledger.fail(f"the daemon ended by itself with {self.process.returncode}:\n{self.log_tail()}")
            self.process.send_signal(sign)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.ledger.fail(f"the daemon did not end within 60 s of signal {sign}:\n{self.log_tail()}")
                self.process.kill()
                self.process.wait()
            self.kills += 1
            self.start()

    def fill_disk(self, seconds, kill):
        """No space for some seconds; with `kill` the daemon is also killed and started meanwhile."""
        filler = os.path.join(self.folder, "disk", "filler")
        try:
            with open(filler, "wb", buffering=0) as out:
                for size in (1 << 20, 1 << 12):
                    try:
                        while True:
                            out.write(bytes(size))
                    except OSError:
                        pass
            if kill:
                self.kill(signal.SIGKILL)
            time.sleep(seconds)
        finally:
            os.remove(filler)

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        self.unmount()

    def unmount(self):
        if self.has_disk:
            subprocess.run(["umount", "-l", os.path.join(self.folder, "disk")], check=False)


def free_port():
    """A port below those that the system gives to connections, so that it stays free while nobody listens there."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = random.SystemRandom().randrange(20000, 32768)
            probe.bind(("127.0.0.1", port))
            return port
