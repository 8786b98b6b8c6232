"""What a Worker does when labels fail, when it is stopped, and when the server cannot be reached.

FULCRUM is the program. With the argument `interrupted` the file is a worker process, which the test interrupts.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import fulcrum
from fulcrum import api
from fulcrum.leases import Leases
from support import DaemonTest, answer


class WorkerTest(DaemonTest):
    def acquire(self, campaign, annotator, seconds):
        request = api.message("fulcrum.v1.AcquireTasksRequest")(
            campaign=campaign.name, annotator=annotator, request_id=annotator, max_tasks=10, wait={"seconds": seconds})
        return self.client.connection.call("AcquireTasks", request)

    def test_a_label_that_always_fails_ends_the_work(self):
        campaign = self.create("clouds", rounds=1)
        calls = []

        def label(task):
            calls.append(task.id)
            raise RuntimeError("the service refuses the key")

        worker = fulcrum.Worker(self.client, campaign, label, concurrency=3, most_errors=8)
        self.assertEqual(worker.run(), 0)
        self.assertLess(len(calls), 8 + 1 + 3, "most_errors counts calls")
        self.assertGreater(len(calls), 8)
        self.assertLessEqual(set(worker.errors), set(calls))
        self.assertEqual(len(self.rows(campaign.items("leased"))), 0)
        fulcrum.Worker(self.client, campaign, answer, annotator="other").run()
        self.assertEqual(campaign.state, "done")

    def test_items_that_fail_delay_no_others_and_go_to_another_annotator(self):
        campaign = self.create("clouds", rounds=1)
        calls = []

        def label(task):
            calls.append(task.id)
            if task.id in calls[:2]:
                raise RuntimeError("cannot be read")
            return answer(task)

        worker = fulcrum.Worker(self.client, campaign, label, concurrency=2)
        events = campaign.events()
        next(events)  # from now on all of them
        running = threading.Thread(target=worker.run)
        running.start()
        for _ in events:
            if campaign.describe().round_settled == 4:
                break
        # The other annotator gets the two only after this one has declined or passed on them; it labels what is left.
        fulcrum.Worker(self.client, campaign, answer, annotator="other").run()
        running.join(60)
        self.assertFalse(running.is_alive())
        self.assertEqual(worker.labels, 4)
        self.assertEqual(set(worker.errors), set(calls[:2]))
        for item in calls[:2]:
            self.assertLessEqual(calls.count(item), 3)
        by_annotator = {row["id"]: row["annotator"] for row in self.rows(campaign.labels())}
        self.assertEqual({item for item, name in by_annotator.items() if name == "other"}, set(calls[:2]))

    def test_leases_are_renewed_while_a_label_runs(self):
        campaign = self.create("clouds", rounds=1, labeling={"lease_time": {"seconds": 5}})
        begun, gate = threading.Semaphore(0), threading.Event()

        def label(task):
            begun.release()
            gate.wait(60)
            return answer(task)

        # renew_seconds is left at a minute: the expiry of the leases decides.
        worker = fulcrum.Worker(self.client, campaign, label, concurrency=6)
        running = threading.Thread(target=worker.run)
        running.start()
        try:
            for _ in range(6):
                self.assertTrue(begun.acquire(timeout=60))
            # An expired lease would be offered to it within these seconds.
            self.assertEqual(len(self.acquire(campaign, "other", 8).tasks), 0)
            self.assertEqual(len(self.rows(campaign.items("leased"))), 6)
        finally:
            worker.stop()
            gate.set()
            running.join(60)
        self.assertEqual((worker.labels, worker.errors), (6, {}))

    def test_a_wrong_clock_causes_no_flood_of_renewals(self):
        leases = Leases(lambda _: [])
        self.addCleanup(leases.close)
        before = time.monotonic()
        leases.add([mock.Mock(lease_id=7, epoch=1, expires_at=mock.Mock(seconds=0, nanos=0))])
        self.assertGreaterEqual(leases._due[7], before + 1)

    def test_large_payloads_are_there(self):
        campaign, texts = self.create_with_large_payloads("large")
        seen = {}

        def label(task):
            seen[task.id] = task.payload.decode().strip()
            return answer(task)

        async def label_in_a_loop(task):
            with mock.patch.object(self.client.connection, "payload", side_effect=AssertionError("in the event loop")):
                seen[task.id] = task.payload.decode().strip()
            return answer(task)

        worker = fulcrum.Worker(self.client, campaign, label, concurrency=1)
        worker._label = lambda task: (label(task), worker.stop())[0]
        worker.run()
        self.assertEqual(len(seen), 1)
        other = fulcrum.Worker(self.client, campaign, label_in_a_loop, concurrency=1)
        other.run()
        self.assertEqual((worker.errors, other.errors), ({}, {}))
        self.assertEqual(len(seen), 8)
        self.assertEqual(seen, texts)
        self.assertEqual(campaign.payload("5").decode().strip(), texts["5"])

    def test_temporary_results_are_asked_for_again_with_the_same_request(self):
        campaign = self.create("clouds", rounds=1)
        calls = self.client.connection._calls
        submit, seen = calls["SubmitLabels"], []

        def busy(request, **options):
            seen.append((request.request_id, request.SerializeToString(deterministic=True)))
            if len(seen) > 2:
                return submit(request, **options)
            response = api.message("fulcrum.v1.SubmitLabelsResponse")()
            for number, _ in enumerate(request.labels):
                response.results.add().status.code = (8, 14)[number % 2]
            return response

        calls["SubmitLabels"] = busy
        worker = fulcrum.Worker(self.client, campaign, answer, concurrency=6)
        self.assertEqual(worker.run(), 6)
        self.assertEqual(worker.errors, {})
        self.assertEqual(len(set(seen[:3])), 1)
        self.assertEqual(len(self.rows(campaign.labels())), 6)

    def test_labels_found_while_the_server_is_away_are_sent_by_the_next_run(self):
        campaign = self.create("clouds", rounds=1)
        begun, gate = threading.Barrier(4), threading.Event()

        def label(task):
            begun.wait(60)
            gate.wait(60)
            return answer(task)

        impatient = fulcrum.Client(self.daemon.address, retry_seconds=0.2)
        worker = fulcrum.Worker(impatient, campaign.name, label, concurrency=3)
        failures = []

        def run():
            try:
                worker.run()
            except fulcrum.FulcrumError as error:
                failures.append(error.code)

        running = threading.Thread(target=run)
        running.start()
        begun.wait(60)
        self.daemon.kill()
        gate.set()
        running.join(60)
        self.assertEqual(failures, ["UNAVAILABLE"])
        self.assertEqual(worker.labels, 0)
        self.daemon.start()
        worker._label = answer
        with fulcrum.Client(self.daemon.address) as client:
            worker._connection = client.connection
            self.assertEqual(worker.run(), 6)
        self.assertEqual(len(self.rows(campaign.labels())), 6)
        impatient.close()

    def test_a_cancelled_coroutine_is_a_failure_of_its_item(self):
        campaign = self.create("clouds", rounds=1)
        cancelled = []

        async def label(task):
            if not cancelled:
                cancelled.append(task.id)
                raise asyncio.CancelledError
            return answer(task)

        worker = fulcrum.Worker(self.client, campaign, label, concurrency=2)
        self.assertEqual(worker.run(), 6)
        self.assertEqual(list(worker.errors), cancelled)

    def test_an_interrupt_loses_no_label(self):
        campaign = self.create("clouds", rounds=1)
        process = subprocess.Popen([sys.executable, __file__, "interrupted", self.daemon.address, "clouds"],
                                   env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        begun = {process.stdout.readline().strip() for _ in range(3)}
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stdout.readline().strip(), "stopping")
        output, errors = process.communicate("go\n", timeout=60)
        self.assertEqual(output.strip(), "interrupted with 3 labels", errors)
        self.assertEqual({row["id"] for row in self.rows(campaign.labels())}, begun)
        self.assertEqual(len(self.rows(campaign.items("leased"))), 0)


def interrupted(address, name):
    """A worker process whose labels wait for a line on the standard input."""
    gate = threading.Event()

    def tell(line):
        # One system call per line: print() writes the end of the line apart, so that lines of several threads mix.
        os.write(sys.stdout.fileno(), f"{line}\n".encode())

    def label(task):
        tell(task.id)
        gate.wait(60)
        return answer(task)

    class Tells(fulcrum.Worker):
        def stop(self):
            super().stop()
            tell("stopping")
            threading.Thread(target=lambda: sys.stdin.readline() and gate.set()).start()

    worker = Tells(fulcrum.Client(address), name, label, concurrency=3)
    try:
        worker.run()
    except KeyboardInterrupt:
        tell(f"interrupted with {worker.labels} labels")


if __name__ == "__main__":
    if sys.argv[1:2] == ["interrupted"]:
        interrupted(*sys.argv[2:4])
    else:
        unittest.main()
