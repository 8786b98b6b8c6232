"""Campaigns and workers against a real daemon. FULCRUM is the program."""

import os
import subprocess
import sys
import threading
import time
import unittest

import fulcrum
from support import DaemonTest, answer, clouds


class ClientTest(DaemonTest):
    def batches(self, campaign):
        batches = {}
        for label in self.rows(campaign.labels()):
            batches.setdefault(label["round"], set()).add(label["id"])
        return batches

    def test_a_campaign_from_pool_to_model(self):
        campaign = self.create("clouds")
        self.assertEqual(fulcrum.Worker(self.client, campaign, answer).run(), 24)
        self.assertEqual(campaign.state, "done")
        self.assertEqual(len(self.rows(campaign.labels())), 24)
        self.assertEqual(len(self.rows(campaign.items("labeled"))), 24)
        self.assertGreaterEqual(len(self.rows(campaign.curve())), 2)
        predicted = self.rows(campaign.predict([str(row) for row in range(200)]))
        right = sum(row["label"] == ("neg" if number % 2 == 0 else "pos") for number, row in enumerate(predicted))
        self.assertGreater(right, 150)
        path = os.path.join(self.folder.name, "model")
        self.assertEqual(campaign.export_model(path).bytes, os.path.getsize(path))
        with open(path, "rb") as file:
            self.assertTrue(file.read().startswith(b"FULCRUMSVM"))
        self.assertIn("24 labels", campaign._repr_html_())
        self.assertEqual([each.name for each in self.client.campaigns()], ["clouds"])

    def test_arrays_and_data_frames_are_pools(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        rows = numpy.array(clouds(200))
        by_array = self.client.create_campaign("array", rows, ["neg", "pos"], ids=range(200), start=False)
        self.assertEqual(by_array.describe().pool_rows, 200)
        with self.assertRaisesRegex(ValueError, "two dimensions"):
            self.client.create_campaign("flat", rows[0], ["neg", "pos"])
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed: data frames were not tried")
        frame = pandas.DataFrame(rows, columns=list("abcd"))
        self.assertEqual(self.client.create_campaign("frame", frame, ["neg", "pos"]).describe().pool_rows, 200)

    def test_rows_of_a_stream_are_decided_at_once(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        rows = numpy.array(clouds(400))
        campaign = self.client.create_campaign("stream", rows[:200], ["neg", "pos"], ids=[str(i) for i in range(200)],
                                               selection={"stream": {"share": 0.1}})
        ids = [f"new-{number}" for number in range(200)]
        offered = self.rows(campaign.offer(rows[200:], ids=ids, payloads=[f"text of {name}" for name in ids]))
        self.assertEqual([row["id"] for row in offered], ids)
        taken = {row["id"] for row in offered if row["decision"] == "label"}
        self.assertIn(len(taken), (19, 20))
        self.assertEqual({row["decision"] for row in offered}, {"label", "skip"})
        self.assertEqual(campaign.describe().pool_rows, 200 + len(taken))
        again = self.rows(campaign.offer(rows[200:], ids=ids))
        self.assertEqual({row["id"] for row in again if row["decision"] == "existing"}, taken)
        with self.assertRaisesRegex(ValueError, "as many ids"):
            campaign.offer(rows[200:], ids=ids[1:])

    def test_errors_have_the_servers_details(self):
        with self.assertRaises(fulcrum.FulcrumError) as missing:
            self.client.campaign("nowhere")
        self.assertEqual(missing.exception.code, "NOT_FOUND")
        with self.assertRaises(fulcrum.FulcrumError) as refused:
            self.client.create_campaign("bad", self.pool(), ["neg", "pos"], selection={"tau": 7.0})
        self.assertEqual(refused.exception.code, "INVALID_ARGUMENT")
        self.assertIn("selection.tau", [field for field, _ in refused.exception.fields])
        bad = os.path.join(self.folder.name, "bad.csv")
        with open(bad, "w", encoding="utf-8") as file:
            file.write("f0,f1\n1,2\n3,nan\n")
        with self.assertRaises(fulcrum.FulcrumError) as lost:
            self.client.create_campaign("bad", bad, ["neg", "pos"])
        self.assertEqual(lost.exception.code, "DATA_LOSS")
        self.assertIn("bad.csv", lost.exception.message)
        self.assertEqual(os.listdir(self.folder.name + "/data/uploads"), [], "uploads of failed campaigns are deleted")

    def test_a_worker_skips_keeps_errors_and_takes_coroutines(self):
        campaign = self.create("clouds", rounds=2)
        failed = set()

        async def label(task):
            if task.id not in failed and len(failed) < 2:
                failed.add(task.id)
                raise RuntimeError("try again")
            return answer(task)

        worker = fulcrum.Worker(self.client, campaign, label, concurrency=3)
        self.assertEqual(worker.run(), 12)
        self.assertEqual(set(worker.errors), failed)
        other = self.create("skipped", rounds=1)

        def skip(task):
            if int(task.id) % 2 == 0:
                raise fulcrum.Skip("bad_item")
            return answer(task)

        worker = fulcrum.Worker(self.client, other, skip)
        worker.run()
        self.assertEqual(worker.labels + worker.skips, 6)
        self.assertEqual(len(self.rows(other.items("set_aside"))), worker.skips)

    def test_encrypted_connections(self):
        folder = self.folder.name
        key, certificate = folder + "/key.pem", folder + "/certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                        certificate], check=True, capture_output=True)
        self.daemon.kill()
        self.daemon.start("--tls-cert", certificate, "--tls-key", key)
        with fulcrum.Client(self.daemon.address, ca=certificate) as client:
            self.assertTrue(client.version())
        # The authorities of the system are those that this variable names, read once per process.
        for authorities, trusted in ((certificate, True), (None, False)):
            environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
            if authorities:
                environment["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = authorities
            done = subprocess.run([sys.executable, "-c", "import fulcrum, sys; print(fulcrum.Client(sys.argv[1], "
                                   "ca='system', retry_seconds=0).version())", self.daemon.address], env=environment,
                                  check=False, capture_output=True, text=True)
            self.assertEqual(done.returncode == 0, trusted, done.stderr)
        with self.assertRaisesRegex(ValueError, "unencrypted"):
            fulcrum.Client("example.org:7410", "secret")

    def test_stop_finishes_what_runs(self):
        campaign = self.create("clouds", rounds=1)
        worker = fulcrum.Worker(self.client, campaign, lambda task: worker.stop() or answer(task), concurrency=3)
        self.assertEqual(worker.run(), 3)
        self.assertEqual(worker.errors, {})
        self.assertEqual(len(self.rows(campaign.labels())), 3)
        self.assertEqual(len(self.rows(campaign.items("leased"))), 0)

    def test_killed_daemons_lose_and_double_nothing(self):
        reference = self.create("reference")
        fulcrum.Worker(self.client, reference, answer).run()
        campaign = self.create("killed")
        worker = fulcrum.Worker(self.client, campaign, lambda task: time.sleep(0.05) or answer(task), concurrency=2)
        running = threading.Thread(target=worker.run)
        running.start()
        for _ in range(3):
            running.join(0.7)
            self.daemon.kill()
            self.daemon.start()
            # Two deaths in one round quarantine a campaign.
            if campaign.state == "quarantined":
                campaign.start()
        running.join(120)
        self.assertFalse(running.is_alive())
        labels = [label["id"] for label in self.rows(campaign.labels())]
        self.assertEqual(len(labels), 24)
        self.assertEqual(len(set(labels)), 24)
        self.assertEqual(worker.labels, 24)
        self.assertEqual(self.batches(campaign), self.batches(reference))


if __name__ == "__main__":
    unittest.main()
