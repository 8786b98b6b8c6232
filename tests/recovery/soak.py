#!/usr/bin/env python3
"""One daemon under random load and random faults, checked against a ledger that is kept outside of it.

Simulated workers label campaigns with random valid specifications while the daemon is killed and restarted, its disk
fills up, its clock jumps, and invalid specifications, damaged files, malformed frames and half-sent requests arrive. At
the end: the daemon never ended unless it was killed, every campaign is there, every acknowledged label is stored exactly
once, and the memory of the last process did not grow.

Environment: FULCRUM (the program), FULCRUM_SOURCE (the repository), PROTOC and GRPC_PYTHON_PLUGIN.
"""

import argparse
import collections
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

SKIPPED = 77
try:
    import grpc
except ImportError:
    print("skipped: python3-grpcio is not installed")
    sys.exit(SKIPPED)

ROWS, FEATURES, CAMPAIGNS, WORKERS = 400, 6, 6, 8
DISK_MIB = 256
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


def generate_stubs(folder):
    subprocess.run(
        [os.environ["PROTOC"], f"-I{os.environ['FULCRUM_SOURCE']}/proto", f"--python_out={folder}",
         f"--grpc_out={folder}", f"--plugin=protoc-gen-grpc={os.environ['GRPC_PYTHON_PLUGIN']}",
         "fulcrum/v1/labeling_service.proto", "fulcrum/v1/campaign_service.proto", "fulcrum/v1/campaign_spec.proto"],
        check=True)
    sys.path.insert(0, folder)


def write_pool(path, seed):
    source = random.Random(seed)
    with open(path, "w", encoding="utf-8") as out:
        out.write("id,label," + ",".join(f"f{i}" for i in range(FEATURES)) + "\n")
        for row in range(ROWS):
            sign = 1 if row % 2 else -1
            values = ",".join(f"{sign + source.gauss(0, 1):.4f}" for _ in range(FEATURES))
            out.write(f"r{row},{'pos' if sign > 0 else 'neg'},{values}\n")


class Ledger:
    """What the daemon has acknowledged, and what was sent without a known outcome."""

    def __init__(self):
        self.lock = threading.Lock()
        self.acknowledged = collections.defaultdict(dict)  # campaign -> (item, annotator) -> value
        self.sent = collections.defaultdict(dict)
        self.deleted = set()
        self.errors = []

    def fail(self, text):
        with self.lock:
            self.errors.append(text)
        print("FAILED:", text, flush=True)


class Daemon:
    def __init__(self, folder, ledger):
        self.folder, self.ledger = folder, ledger
        self.data = os.path.join(folder, "disk", "data")
        os.makedirs(self.data)
        self.has_disk = self.mount_disk()
        self.has_clock = os.path.exists(FAKETIME)
        self.clock_file = os.path.join(folder, "clock")
        self.set_clock("+0")
        self.port, self.metrics = free_port(), free_port()
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
        log = open(os.path.join(self.folder, "daemon.log"), "ab")
        self.process = subprocess.Popen(
            [os.environ["FULCRUM"], "serve", "--data", self.data, "--pools", os.path.join(self.folder, "pools"),
             "--listen", f"127.0.0.1:{self.port}", "--metrics", f"127.0.0.1:{self.metrics}", "--no-tokens"],
            stdout=log, stderr=log, env=environment)

    def check_alive(self):
        with self.lock:
            code = self.process.poll()
            if code is None:
                return
            with open(os.path.join(self.folder, "daemon.log"), errors="replace", encoding="utf-8") as log:
                tail = "".join(log.readlines()[-15:])
            self.ledger.fail(f"the daemon ended by itself with {code}:\n{tail}")
            self.start()

    def kill(self, sign):
        with self.lock:
            self.process.send_signal(sign)
            self.process.wait(timeout=60)
            self.kills += 1
            self.start()

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        if self.has_disk:
            subprocess.run(["umount", "-l", os.path.join(self.folder, "disk")], check=False)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Soak:
    def __init__(self, folder, seconds, seed):
        self.folder, self.seconds, self.random = folder, seconds, random.Random(seed)
        self.ledger = Ledger()
        self.daemon = Daemon(folder, self.ledger)
        self.stop = threading.Event()
        self.names = []
        self.names_lock = threading.Lock()
        self.counts = collections.Counter()
        os.makedirs(os.path.join(folder, "pools"), exist_ok=True)
        for number in range(3):
            write_pool(os.path.join(folder, "pools", f"pool{number}.csv"), number)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.daemon.port}", options=[
            ("grpc.max_reconnect_backoff_ms", 500), ("grpc.initial_reconnect_backoff_ms", 100)])

    def call(self, method, request, deadline=120):
        """Repeats what is transient, unchanged. None if the run ends first."""
        end = time.monotonic() + deadline
        while not self.stop.is_set():
            try:
                return method(request, timeout=20, wait_for_ready=True)
            except grpc.RpcError as error:
                transient = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
                                             grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED)
                if not transient or time.monotonic() > end:
                    raise
                time.sleep(0.1)
        return None

    def valid_spec(self, name):
        r = self.random
        spec = spec_pb2.CampaignSpec(name=name, classes=["neg", "pos"], seed=r.randrange(1000))
        spec.pool.sources.append(f"pool{r.randrange(3)}.csv")
        spec.pool.id_column = "id"
        spec.selection.strategy = r.choice(["dbalevs", "alevs", "hybrid", "random", "uncertainty", "quire", "top-lev", "adaptive-herding",
                                              "margin", "badge", "committee", "k-center", "typical"])
        spec.selection.batch = r.choice([1, 3, 10, 25])
        spec.labeling.overlap = r.choice([1, 1, 2])
        spec.labeling.lease_time.seconds = r.choice([1, 3, 30])
        spec.stop.rounds = r.choice([5, 20, 1000])
        return spec

    def invalid_spec(self, name):
        spec = self.valid_spec(name)
        r = self.random
        mutations = [
            lambda: setattr(spec.labeling, "overlap", r.choice([0, -1, 2**31 - 1])),
            lambda: setattr(spec.labeling.lease_time, "seconds", r.choice([-5, 80000000 * 3600])),
            lambda: setattr(spec.selection, "tau", r.choice([float("nan"), -1, 2, 1e308])),
            lambda: setattr(spec.selection, "alpha", r.choice([float("inf"), -0.1, 1.5])),
            lambda: setattr(spec.selection, "batch", r.choice([0, -7, 2**31 - 1])),
            lambda: setattr(spec.selection, "strategy", "\x1b[31mno\x00such"),
            lambda: setattr(spec.selection.kernel, "sigma", r.choice([0, -1, float("nan"), float("inf")])),
            lambda: setattr(spec.classifier, "c", r.choice([0, float("nan"), float("inf")])),
            lambda: spec.pool.sources.__setitem__(0, r.choice(["../../etc/passwd", "absent.csv", "pool0.csv\x00"])),
            lambda: spec.classes.__delitem__(slice(1, None)),
            lambda: setattr(spec, "name", r.choice(["", "a" * 200, "../up", "A B"])),
        ]
        r.choice(mutations)()
        return spec

    def run_campaigns(self):
        stub = campaign_grpc.CampaignServiceStub(self.channel)
        number = 0
        while not self.stop.is_set():
            try:
                self.counts["invalid"] += self.send_invalid_spec(stub)
                if len(self.names) < CAMPAIGNS:
                    number += 1
                    self.create(stub, f"c{number}")
                else:
                    self.change_one(stub)
            except grpc.RpcError as error:
                self.counts[f"campaign call: {error.code().name}"] += 1
            self.stop.wait(0.5)

    def send_invalid_spec(self, stub):
        try:
            created = self.call(stub.CreateCampaign, campaign_pb2.CreateCampaignRequest(
                spec=self.invalid_spec(f"bad{uuid.uuid4().hex[:8]}")))
        except grpc.RpcError as error:
            allowed = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED,
                       grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE,
                       grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)
            if error.code() not in allowed:
                self.ledger.fail(f"invalid specification: {error.code().name}: {error.details()}")
            return 1
        if created is not None:
            self.ledger.fail(f"an invalid specification was accepted: {created.spec}")
        return 1

    def create(self, stub, name):
        try:
            self.call(stub.CreateCampaign, campaign_pb2.CreateCampaignRequest(spec=self.valid_spec(name)))
        except grpc.RpcError as error:
            # A create that was cut off by a kill may have happened.
            if error.code() != grpc.StatusCode.ALREADY_EXISTS:
                raise
        self.call(stub.StartCampaign, campaign_pb2.CampaignRequest(name=name))
        with self.names_lock:
            self.names.append(name)

    def change_one(self, stub):
        name = self.random.choice(self.names)
        action = self.random.choice(["pause", "get", "list", "delete", "start"])
        request = campaign_pb2.CampaignRequest(name=name)
        if action == "pause":
            self.call(stub.PauseCampaign, request)
            self.call(stub.ResumeCampaign, request)
        elif action == "start":
            self.call(stub.StartCampaign, request)
        elif action == "get":
            self.call(stub.GetCampaign, campaign_pb2.GetCampaignRequest(name=name))
        elif action == "list":
            self.call(stub.ListCampaigns, campaign_pb2.ListCampaignsRequest())
        elif action == "delete" and self.random.random() < 0.5:
            with self.names_lock:
                self.names.remove(name)
            with self.ledger.lock:
                self.ledger.deleted.add(name)
            self.call(stub.StopCampaign, request)
            self.call(stub.DeleteCampaign, request)
            self.counts["deleted"] += 1

    def run_worker(self, annotator):
        stub = labeling_grpc.LabelingServiceStub(self.channel)
        source = random.Random(annotator)
        while not self.stop.is_set():
            with self.names_lock:
                name = source.choice(self.names) if self.names else None
            if name is None:
                self.stop.wait(0.2)
                continue
            try:
                self.label_some(stub, source, name, annotator)
            except grpc.RpcError as error:
                self.counts[f"labeling call: {error.code().name}"] += 1
                self.stop.wait(0.2)

    def label_some(self, stub, source, name, annotator):
        who = {"campaign": name, "annotator": annotator}
        request = labeling_pb2.AcquireTasksRequest(max_tasks=source.choice([1, 4, 10]), request_id=uuid.uuid4().hex, **who)
        request.wait.seconds = 1
        batch = self.call(stub.AcquireTasks, request)
        if batch is None or not batch.tasks or source.random() < 0.05:  # some workers leave with their tasks
            return
        submit = labeling_pb2.SubmitLabelsRequest(request_id=uuid.uuid4().hex, **who)
        for task in batch.tasks:
            value = source.choice(task.classes)
            with self.ledger.lock:
                self.ledger.sent[name].setdefault((task.item_id, annotator), value)
            submit.labels.add(lease=labeling_pb2.LeaseRef(lease_id=task.lease_id, epoch=task.epoch),
                              item_id=task.item_id, value=value)
        reply = self.call(stub.SubmitLabels, submit)
        for label, result in zip(submit.labels, reply.results if reply else ()):
            if result.status.code == 0:
                with self.ledger.lock:
                    self.ledger.acknowledged[name][(label.item_id, annotator)] = label.value
                self.counts["labels"] += 1

    def run_attacks(self):
        stub = campaign_grpc.CampaignServiceStub(self.channel)
        while not self.stop.is_set():
            attack = self.random.choice([self.send_garbage, self.send_frames, self.send_half_request])
            try:
                attack()
                self.append_garbage(stub)
            except OSError:
                pass  # refused, or the daemon is being restarted
            self.counts["attacks"] += 1
            self.stop.wait(0.2)

    def send_garbage(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=2) as connection:
            connection.sendall(self.random.randbytes(self.random.randrange(1, 4096)))

    def send_frames(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=2) as connection:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)[:3] + b"\x04\x00" + bytes(4))
            for _ in range(200):
                length = self.random.randrange(0, 64)
                head = length.to_bytes(3, "big") + bytes([self.random.randrange(12), self.random.randrange(256)])
                connection.sendall(head + self.random.randrange(2**31).to_bytes(4, "big") + self.random.randbytes(length))

    def send_half_request(self):
        with socket.create_connection(("127.0.0.1", self.daemon.metrics), timeout=2) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
            self.stop.wait(0.2)

    def append_garbage(self, stub):
        if not self.names:
            return
        name = self.random.choice(self.names)
        parts = [campaign_pb2.AppendItemsRequest(begin={"name": name, "request_id": uuid.uuid4().hex}),
                 campaign_pb2.AppendItemsRequest(chunk=self.random.choice([b"PAR1", b"ARROW1\0\0", b""]) +
                                                 self.random.randbytes(500)),
                 campaign_pb2.AppendItemsRequest(end=True)]
        try:
            stub.AppendItems(iter(parts), timeout=10)
            self.ledger.fail("bytes that are not Arrow were appended")
        except grpc.RpcError as error:
            self.counts[f"append of garbage: {error.code().name}"] += 1

    def inject_fault(self):
        fault = self.random.choice(["kill", "kill", "stop", "disk", "clock"])
        if fault == "kill":
            self.daemon.kill(signal.SIGKILL)
        elif fault == "stop":
            self.daemon.kill(signal.SIGTERM)
        elif fault == "disk" and self.daemon.has_disk:
            self.fill_disk()
        elif fault == "clock" and self.daemon.has_clock:
            self.daemon.set_clock(self.random.choice(["+0", "+3600", "-3600", "+315360000", "-86400"]))
        self.counts[f"fault: {fault}"] += 1

    def fill_disk(self):
        filler = os.path.join(self.folder, "disk", "filler")
        try:
            with open(filler, "wb") as out:
                while True:
                    out.write(bytes(1 << 20))
        except OSError:
            pass
        self.stop.wait(3)
        os.remove(filler)

    def run(self):
        self.daemon.start()
        threads = [threading.Thread(target=self.run_campaigns), threading.Thread(target=self.run_attacks)]
        threads += [threading.Thread(target=self.run_worker, args=(f"w{i}",)) for i in range(WORKERS)]
        for thread in threads:
            thread.start()
        begin = time.monotonic()
        # In the last part nothing ends the process, so that its memory can be compared with itself.
        faults_end = begin + self.seconds * 0.6
        while time.monotonic() < faults_end:
            time.sleep(self.random.uniform(1, 4))
            self.daemon.check_alive()
            self.inject_fault()
        self.daemon.set_clock("+0")
        self.daemon.kill(signal.SIGKILL)
        settle = min(60, self.seconds * 0.2)
        time.sleep(settle)
        first = self.daemon.resident_kib()
        while time.monotonic() < begin + self.seconds:
            time.sleep(0.5)
            self.daemon.check_alive()
        last = self.daemon.resident_kib()
        self.stop.set()
        for thread in threads:
            thread.join()
        print(f"memory {first // 1024} MiB -> {last // 1024} MiB", flush=True)
        if self.seconds >= 600 and last > 1.2 * first:
            self.ledger.fail(f"resident memory grew from {first} to {last} KiB")
        self.verify()

    def verify(self):
        stub = campaign_grpc.CampaignServiceStub(self.channel)
        self.stop.clear()
        for name, labels in sorted(self.ledger.acknowledged.items()):
            if name in self.ledger.deleted:
                continue
            self.call(stub.GetCampaign, campaign_pb2.GetCampaignRequest(name=name))
            stored = collections.Counter()
            for line in stub.ExportLabels(campaign_pb2.CampaignRequest(name=name), timeout=60):
                key = (line.item_id, line.annotator)
                stored[key] += line.kind == "label"
                if self.ledger.sent[name].get(key) != line.value:
                    self.ledger.fail(f"{name}: {key} is stored as '{line.value}', sent was {self.ledger.sent[name].get(key)}")
            for key in labels:
                if stored[key] != 1:
                    self.ledger.fail(f"{name}: the acknowledged label {key} is stored {stored[key]} times")
            self.counts["verified"] += len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = tempfile.mkdtemp(prefix="fulcrum-soak-")
    generate_stubs(folder)
    global spec_pb2, campaign_pb2, campaign_grpc, labeling_pb2, labeling_grpc
    from fulcrum.v1 import campaign_service_pb2 as campaign_pb2, campaign_service_pb2_grpc as campaign_grpc
    from fulcrum.v1 import campaign_spec_pb2 as spec_pb2
    from fulcrum.v1 import labeling_service_pb2 as labeling_pb2, labeling_service_pb2_grpc as labeling_grpc
    soak = Soak(folder, options.seconds, options.seed)
    if not soak.daemon.has_disk:
        print("without full disks: a file system cannot be mounted here")
    if not soak.daemon.has_clock:
        print("without clock jumps: faketime is not installed")
    try:
        soak.run()
    finally:
        soak.daemon.close()
    for what, count in sorted(soak.counts.items()):
        print(f"{count:8d} {what}")
    if not soak.counts["verified"]:
        soak.ledger.fail("no label was verified")
    print(f"{soak.daemon.kills} restarts, {len(soak.ledger.errors)} failures")
    if not soak.ledger.errors:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if soak.ledger.errors else 0


if __name__ == "__main__":
    sys.exit(main())
