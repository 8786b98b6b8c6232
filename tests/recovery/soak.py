#!/usr/bin/env python3
"""One daemon under random load and random faults, checked against a ledger that is kept outside of it.

Simulated workers label campaigns with random specifications while the daemon is killed and restarted, its disk
fills up, its clock jumps, and invalid specifications, damaged files, floods of frames and half-sent requests arrive, on
all of its ports. At the end: the daemon never ended unless it was killed, every campaign exists and none with an honest
specification has failed, every acknowledged label is stored exactly once and every acknowledged row is in its pool, and
the memory of the last process did not grow. The figures are printed at the end.

A run of ten minutes or more needs a disk that can be filled (the right to mount one) and a clock that can be set
(faketime); without one of them it is skipped, unless --without names it.

Environment: FULCRUM (the program), FULCRUM_SOURCE (the repository), PROTOC and GRPC_PYTHON_PLUGIN.
"""

import argparse
import collections
import os
import random
import resource
import shutil
import signal
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

import soak_attacks as attacks
from soak_daemon import ROWS, Daemon, Ledger, convert, rows_text
from soak_services import OtherServices
from soak_verify import verify

CAMPAIGNS, WORKERS = 6, 8
MEMORY_AFTER_SECONDS = 60
LONG_RUN_SECONDS = 600
REFUSED = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED,
           grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
           grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED)


def generate_stubs(folder):
    subprocess.run(
        [os.environ["PROTOC"], f"-I{os.environ['FULCRUM_SOURCE']}/proto", f"--python_out={folder}",
         f"--grpc_out={folder}", f"--plugin=protoc-gen-grpc={os.environ['GRPC_PYTHON_PLUGIN']}",
         *(f"fulcrum/v1/{name}" for name in os.listdir(f"{os.environ['FULCRUM_SOURCE']}/proto/fulcrum/v1"))],
        check=True)
    sys.path.insert(0, folder)


class OperationFailed(grpc.RpcError):
    def __init__(self, error):
        super().__init__(error.message)
        self.error = error

    def code(self):
        return next(code for code in grpc.StatusCode if code.value[0] == self.error.code)

    def details(self):
        return self.error.message


class Soak:
    def __init__(self, folder, seconds, seed):
        self.folder, self.seconds, self.random = folder, seconds, random.Random(seed)
        self.ledger = Ledger()
        self.daemon = Daemon(folder, self.ledger)
        self.stop = threading.Event()
        self.names = []
        self.names_lock = threading.Lock()
        self.counts = collections.Counter()
        self.next_row = ROWS
        for number in range(3):
            attacks.put(self.pool_file(f"pool{number}.csv"), rows_text(0, ROWS, number).encode())
        self.samples = [convert(self.pool_file("pool0.csv"), os.path.join(folder, f"sample.{ending}"))
                        for ending in ("parquet", "arrow", "arrows", "csv", "svm")]
        os.makedirs(self.pool_file("watched"))
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.daemon.port}", options=[
            ("grpc.max_reconnect_backoff_ms", 500), ("grpc.initial_reconnect_backoff_ms", 100)])
        self.campaigns = campaign_grpc.CampaignServiceStub(self.channel)
        self.labeling = labeling_grpc.LabelingServiceStub(self.channel)
        self.others = OtherServices(self.channel, self.call)

    def pool_file(self, name):
        return os.path.join(self.daemon.pools, name)

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

    # Campaigns: created, changed, deleted.

    def valid_spec(self, name):
        r = self.random
        spec = spec_pb2.CampaignSpec(name=name, classes=["neg", "pos"], seed=r.randrange(1000))
        spec.pool.sources.append(f"pool{r.randrange(3)}.csv")
        spec.pool.id_column = "id"
        if r.random() < 0.3:
            spec.pool.watch = "watched"
        spec.selection.strategy = r.choice(["dbalevs", "alevs", "hybrid", "random", "uncertainty", "quire", "top-lev",
                                            "adaptive-herding", "margin", "badge", "committee", "k-center", "typical"])
        spec.selection.batch = r.choice([1, 3, 10, 25])
        spec.labeling.overlap = r.choice([1, 1, 2])
        spec.labeling.lease_time.seconds = r.choice([1, 3, 30])
        spec.stop.rounds = r.choice([5, 20, 1000])
        if r.random() < 0.15:
            spec.classifier.external.timeout.seconds = 3
            spec.classifier.external.fallback = spec_pb2.ExternalModelSpec.FALLBACK_BUILTIN
        return spec

    def run_campaigns(self):
        number = 0
        while not self.stop.is_set():
            try:
                self.refuse(attacks.invalid_spec(self.valid_spec(f"bad{uuid.uuid4().hex[:8]}"), self.random))
                if len(self.names) < CAMPAIGNS:
                    number += 1
                    self.create(self.valid_spec(f"c{number}"))
                elif len(self.names) < CAMPAIGNS + 3:
                    number += 1
                    self.try_unusual(number)
                else:
                    self.change_one()
            except grpc.RpcError as error:
                self.counts[f"campaign call: {error.code().name}"] += 1
            self.stop.wait(0.5)

    def refuse(self, spec):
        self.counts["invalid specifications"] += 1
        try:
            created = self.create_campaign(spec)
        except grpc.RpcError as error:
            if error.code() not in REFUSED:
                self.ledger.fail(f"invalid specification: {error.code().name}: {error.details()}")
            return
        if created is not None:
            self.ledger.fail(f"an invalid specification was accepted: {created.result.spec}")

    def create_campaign(self, spec):
        """Waits for the operation, across kills of the daemon. None if the run ends first."""
        request = campaign_pb2.CreateCampaignRequest(spec=spec, request_id=uuid.uuid4().hex)
        reply = self.call(self.campaigns.CreateCampaign, request)
        get = operation_grpc.OperationServiceStub(self.channel).GetOperation
        while reply and not reply.operation.HasField("ended_at"):
            if self.stop.wait(0.05):
                return None
            reply = self.call(get, operation_pb2.GetOperationRequest(operation=reply.operation.name))
        if reply and reply.operation.error.code:
            raise OperationFailed(reply.operation.error)
        return reply and reply.operation

    def create(self, spec):
        if self.create_campaign(spec) is None:
            return
        with self.ledger.lock:
            self.ledger.created.add(spec.name)
        with self.names_lock:
            self.names.append(spec.name)
        self.call(self.campaigns.StartCampaign, campaign_pb2.StartCampaignRequest(campaign=spec.name))

    def try_unusual(self, number):
        """Extreme numbers, or a damaged file: refused, or it runs like any other campaign."""
        spec = self.valid_spec(f"u{number}")
        if self.random.random() < 0.5:
            attacks.fuzzed_spec(spec, self.random)
            spec.name = f"u{number}"
        else:
            sample = self.random.choice(self.samples)
            name = f"damaged{number}{os.path.splitext(sample)[1]}"
            attacks.put(self.pool_file(name), attacks.damaged(sample, self.random))
            spec.pool.sources[0] = name
            if name.endswith(".svm"):
                spec.pool.id_column = ""
                spec.ClearField("features")
        self.counts["unusual campaigns"] += 1
        try:
            self.create(spec)
            self.counts["unusual campaigns, created"] += 1
        except grpc.RpcError as error:
            if error.code() not in (*REFUSED, grpc.StatusCode.DATA_LOSS):
                self.ledger.fail(f"unusual campaign: {error.code().name}: {error.details()}: {spec}")

    def change_one(self):
        with self.names_lock:
            name = self.random.choice(self.names)
        action = self.random.choice(["pause", "get", "list", "delete", "delete", "start", "append", "watch",
                                     "other", "other", "other"])
        for call in {"pause": ("Pause", "Resume"), "start": ("Start",), "get": ("Get",)}.get(action, ()):
            request = getattr(campaign_pb2, f"{call}CampaignRequest")(campaign=name)
            self.call(getattr(self.campaigns, f"{call}Campaign"), request)
        if action == "list":
            self.call(self.campaigns.ListCampaigns, campaign_pb2.ListCampaignsRequest())
        elif action == "other":
            problem = self.others.call_any(name, self.new_rows("csv"), self.random)
            if problem:
                self.ledger.fail(problem)
            self.counts["calls of other services"] += 1
        elif action == "append":
            self.append(name, self.new_rows("arrow"))
        elif action == "watch":
            attacks.put(self.pool_file(f"watched/{uuid.uuid4().hex}.csv"), self.new_rows("csv"))
        elif action == "delete":
            with self.names_lock:
                self.names.remove(name)
            with self.ledger.lock:
                self.ledger.deleted.add(name)
            self.call(self.campaigns.StopCampaign, campaign_pb2.StopCampaignRequest(campaign=name))
            request = campaign_pb2.DeleteCampaignRequest(campaign=name, request_id=uuid.uuid4().hex)
            self.call(self.campaigns.DeleteCampaign, request)
            self.counts["deleted"] += 1

    def new_rows(self, ending):
        """Ten rows that no pool has."""
        text = rows_text(self.next_row, 10, self.next_row)
        self.next_row += 10
        path = os.path.join(self.folder, "rows.csv")
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        if ending != "csv":
            path = convert(path, os.path.join(self.folder, f"rows.{ending}"))
        with open(path, "rb") as rows:
            return rows.read()

    def append(self, name, data):
        parts = [campaign_pb2.AppendItemsRequest(begin={"campaign": name, "request_id": uuid.uuid4().hex}),
                 campaign_pb2.AppendItemsRequest(chunk=data), campaign_pb2.AppendItemsRequest(end=True)]
        reply = self.call(lambda _, **options: self.campaigns.AppendItems(iter(parts), **options), None, deadline=30)
        if reply is None:
            return
        with self.ledger.lock:
            self.ledger.appended[name] += reply.added
        self.counts["rows appended"] += reply.added

    # Workers.

    def run_worker(self, annotator):
        source = random.Random(annotator)
        while not self.stop.is_set():
            with self.names_lock:
                name = source.choice(self.names) if self.names else None
            if name is None:
                self.stop.wait(0.2)
                continue
            try:
                self.label_some(source, name, annotator)
            except grpc.RpcError as error:
                self.counts[f"labeling call: {error.code().name}"] += 1
                self.stop.wait(0.2)

    def label_some(self, source, name, annotator):
        who = {"campaign": name, "annotator": annotator}
        request = labeling_pb2.AcquireTasksRequest(max_tasks=source.choice([1, 4, 10]), request_id=uuid.uuid4().hex,
                                                   **who)
        request.wait.seconds = 1
        batch = self.call(self.labeling.AcquireTasks, request)
        if batch is None or not batch.tasks or source.random() < 0.05:  # some workers leave with their tasks
            return
        if source.random() < 0.05:
            release = labeling_pb2.ReleaseTasksRequest(request_id=uuid.uuid4().hex, **who)
            for task in batch.tasks:
                release.leases.add(lease_id=task.lease_id, epoch=task.epoch)
            self.call(self.labeling.ReleaseTasks, release)
            self.counts["tasks released"] += len(batch.tasks)
            return
        submit = labeling_pb2.SubmitLabelsRequest(request_id=uuid.uuid4().hex, **who)
        for task in batch.tasks:
            value = source.choice(task.classes)
            with self.ledger.lock:
                self.ledger.sent[name][(task.item_id, annotator)].add(value)
            submit.labels.add(lease=labeling_pb2.LeaseRef(lease_id=task.lease_id, epoch=task.epoch),
                              item_id=task.item_id, value=value)
        reply = self.call(self.labeling.SubmitLabels, submit)
        for label, result in zip(submit.labels, reply.results if reply else ()):
            if result.status.code == 0:
                with self.ledger.lock:
                    self.ledger.acknowledged[name][(label.item_id, annotator)] = label.value
                self.counts["labels"] += 1

    # Attacks and faults.

    def run_attacks(self):
        r = self.random
        while not self.stop.is_set():
            attack = r.choice(["garbage", "flood", "half", "append", "watch", "web", "web"])
            if attack == "garbage":
                attacks.send(r.choice(self.daemon.ports), r.randbytes(r.randrange(1, 4096)))
            elif attack == "web":
                attacks.send(self.daemon.web, attacks.web_request(r))
            elif attack == "flood":
                attacks.send(self.daemon.port, attacks.flood(r))
            elif attack == "half":
                attacks.send(self.daemon.metrics, b"GET /metrics HTTP/1.1\r\nHost:")
            elif attack == "watch":
                sample = r.choice(self.samples)
                attacks.put(self.pool_file(f"watched/damaged{os.path.splitext(sample)[1]}"), attacks.damaged(sample, r))
            elif attack == "append":
                self.append_damaged(r)
            self.counts[f"attack: {attack}"] += 1
            self.stop.wait(0.2)

    def append_damaged(self, r):
        with self.names_lock:
            name = r.choice(self.names) if self.names else None
        if name is None:
            return
        try:
            self.append(name, attacks.damaged(r.choice(self.samples), r))
        except grpc.RpcError as error:
            self.counts[f"append of a damaged file: {error.code().name}"] += 1
            if error.code() not in REFUSED:
                self.ledger.fail(f"append of a damaged file: {error.code().name}: {error.details()}")

    def inject_fault(self):
        fault = self.random.choice(["kill", "kill", "stop", "disk", "disk and kill", "clock"])
        if fault == "kill":
            self.daemon.kill(signal.SIGKILL)
        elif fault == "stop":
            self.daemon.kill(signal.SIGTERM)
        elif fault == "clock" and self.daemon.has_clock:
            self.daemon.set_clock(self.random.choice(["+0", "+3600", "-3600", "+315360000", "-86400"]))
        elif self.daemon.has_disk:
            # Sometimes for longer than a campaign would retry if it counted its attempts.
            long = self.seconds >= LONG_RUN_SECONDS and self.random.random() < 0.1
            self.daemon.fill_disk(60 if long else 3, kill=fault == "disk and kill")
            self.counts["disk faults of 60 s"] += long
        self.counts[f"fault: {fault}"] += 1

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
        time.sleep(self.memory_after())
        first = self.daemon.resident_kib()
        while time.monotonic() < begin + self.seconds:
            time.sleep(0.5)
            self.daemon.check_alive()
        last = self.daemon.resident_kib()
        self.stop.set()
        for thread in threads:
            thread.join()
        self.stop.clear()
        verify(self)
        print(f"memory of the last process: {first / 1024:.1f} MiB {self.memory_after():.0f} s after its start, "
              f"{last / 1024:.1f} MiB at the end ({last / first:.2f} times)", flush=True)
        if self.seconds >= LONG_RUN_SECONDS and last > 1.2 * first:
            self.ledger.fail(f"resident memory grew from {first} to {last} KiB")

    def memory_after(self):
        return min(MEMORY_AFTER_SECONDS, self.seconds * 0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", action="append", default=[], choices=["disk", "clock"])
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = tempfile.mkdtemp(prefix="fulcrum-soak-")
    generate_stubs(folder)
    global spec_pb2, resource_pb2, campaign_pb2, campaign_grpc, labeling_pb2, labeling_grpc
    global operation_pb2, operation_grpc
    from fulcrum.v1 import campaign_service_pb2 as campaign_pb2, campaign_service_pb2_grpc as campaign_grpc
    from fulcrum.v1 import campaign_pb2 as resource_pb2, campaign_spec_pb2 as spec_pb2
    from fulcrum.v1 import operation_service_pb2 as operation_pb2, operation_service_pb2_grpc as operation_grpc
    from fulcrum.v1 import labeling_service_pb2 as labeling_pb2, labeling_service_pb2_grpc as labeling_grpc
    soak = Soak(folder, options.seconds, options.seed)
    missing = [what for what, found in (("disk", soak.daemon.has_disk), ("clock", soak.daemon.has_clock)) if not found]
    for what in missing:
        why = {"disk": "full disks: a file system cannot be mounted here",
               "clock": "clock jumps: faketime is not installed"}
        print(f"without {why[what]}")
    if options.seconds >= LONG_RUN_SECONDS and set(missing) - set(options.without):
        print(f"skipped: the long run needs {' and '.join(missing)}; --without leaves one out")
        soak.daemon.unmount()
        return SKIPPED
    try:
        soak.run()
    finally:
        soak.stop.set()
        soak.daemon.close()
    for what, count in sorted(soak.counts.items()):
        print(f"{count:8d} {what}")
    if not soak.counts["labels verified"]:
        soak.ledger.fail("no label was verified")
    print(f"{options.seconds:.0f} s, {soak.daemon.kills} restarts, {soak.counts['labels']} labels acknowledged, "
          f"{soak.counts['labels verified']} of them in campaigns that still exist; {soak.counts['labels lost']} lost, "
          f"{soak.counts['labels doubled']} doubled; {len(soak.ledger.errors)} failures")
    if not soak.ledger.errors:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if soak.ledger.errors else 0


if __name__ == "__main__":
    sys.exit(main())
