"""ModelWorker against a real daemon: an estimator in the campaign, and everything killed again and again.

FULCRUM is the program. With the argument `model` or `label` the file is a worker process, which the test kills.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

import fulcrum
from support import DaemonTest, answer, clouds


class NearestCentroid:
    """Class probabilities by the distances to the means of the classes, as scikit-learn's estimators give them."""

    def fit(self, rows, labels):
        rows, labels = [[float(value) for value in row] for row in rows], [str(label) for label in labels]
        self.classes_ = sorted(set(labels))
        self.means = {}
        for name in self.classes_:
            own = [row for row, label in zip(rows, labels) if label == name]
            self.means[name] = [sum(column) / len(own) for column in zip(*own)]
        return self

    def predict_proba(self, rows):
        found = []
        for row in rows:
            squares = [sum((float(a) - b) ** 2 for a, b in zip(row, self.means[name])) for name in self.classes_]
            weights = [2.718281828459045 ** (min(squares) - square) for square in squares]
            found.append([weight / sum(weights) for weight in weights])
        return found

    def transform(self, rows):
        """The rows relative to the means of the classes: other features in every round."""
        return [[float(value) - mean for name in self.classes_ for value, mean in zip(row, self.means[name])] for row in rows]


def estimator():
    """scikit-learn's if it is installed: the results differ, the test does not."""
    try:
        from sklearn.linear_model import LogisticRegression
        return LogisticRegression()
    except ImportError:
        return NearestCentroid()


class ModelWorkerTest(DaemonTest):
    def create(self, name, rounds=4, strategy="margin", classes=("neg", "pos"), **external):
        return self.client.create_campaign(name, self.pool(), list(classes), seed=3, stop={"rounds": rounds},
                                           selection={"strategy": strategy, "batch": 6}, labeling={"lease_time": "1s"},
                                           classifier={"external": {"lease_time": "0.5s", **external}})

    def batches(self, campaign):
        batches = {}
        for label in self.rows(campaign.labels()):
            batches.setdefault(label["round"], set()).add(label["id"])
        return batches

    def label_all(self, campaign):
        thread = threading.Thread(target=fulcrum.Worker(self.client, campaign, answer).run, daemon=True)
        thread.start()
        return thread

    def test_an_estimator_predicts_every_round(self):
        for strategy in ("margin", "adaptive-herding", "badge", "entropy", "dbalevs"):
            with self.subTest(strategy):
                campaign = self.create(strategy, rounds=3, strategy=strategy)
                labels = self.label_all(campaign)
                worker = fulcrum.ModelWorker(self.client, campaign, estimator(), process="mine")
                self.assertGreaterEqual(worker.run(), 2)
                labels.join(30)
                self.assertEqual(campaign.state, "done")
                curve = self.rows(campaign.curve())
                self.assertEqual(len(curve), worker.rounds)
                self.assertEqual(worker._rows.count, 200)
        # Its probabilities are what the server answers.
        found = self.rows(campaign.predict([str(row) for row in range(200)]))
        matrix = worker._rows.matrix()
        own = worker._estimator.predict_proba(matrix)
        names = [str(name) for name in worker._estimator.classes_]
        for row in (0, 57, 199):
            self.assertAlmostEqual(found[row]["probability neg"], float(own[row][names.index("neg")]), places=5)
        right = sum(row["label"] == ("neg" if number % 2 == 0 else "pos") for number, row in enumerate(found))
        self.assertGreater(right, 150)

    def test_a_class_without_labels_and_the_rows_as_they_were_given(self):
        campaign = self.create("three", rounds=3, classes=("neg", "other", "pos"))
        labels = self.label_all(campaign)
        seen = []

        class Remembers(NearestCentroid):
            def predict_proba(self, rows):
                seen.append([[float(value) for value in row] for row in rows])
                return super().predict_proba(rows)

        fulcrum.ModelWorker(self.client, campaign, Remembers()).run()
        labels.join(30)
        for row, expected in zip(seen[0], clouds(200)):
            for value, wanted in zip(row, expected):
                self.assertAlmostEqual(value, wanted, places=5)
        predicted = self.rows(campaign.predict(["3"]))[0]
        self.assertEqual(predicted["probability other"], 0)

    def test_an_estimator_that_fails_returns_the_task(self):
        campaign = self.create("fails", rounds=2, lease_time="1h")
        labels = self.label_all(campaign)

        class Broken:
            def fit(self, rows, labels):
                raise RuntimeError("no convergence")

            def predict_proba(self, rows):
                raise AssertionError("it was not trained")

        with self.assertRaisesRegex(RuntimeError, "no convergence"):
            fulcrum.ModelWorker(self.client, campaign, Broken(), process="broken").run()
        # The lease would end after an hour.
        other = fulcrum.ModelWorker(self.client, campaign, NearestCentroid(), process="other")
        running = threading.Thread(target=other.run, daemon=True)
        running.start()
        for thread in (running, labels):
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(campaign.state, "done")

    def test_an_estimator_gets_the_names_of_rows_if_it_takes_them(self):
        names = [f"row {row}" for row in range(200)]
        rows = self.need("numpy").array(clouds(200))
        campaign = self.client.create_campaign("named", rows, ["neg", "pos"], ids=names, stop={"rounds": 3},
                                               selection={"strategy": "margin", "batch": 6},
                                               classifier={"external": {"lease_time": "1h"}})
        labels = threading.Thread(target=fulcrum.Worker(
            self.client, campaign, lambda task: answer(type("Row", (), {"id": task.id[4:]}))).run, daemon=True)
        labels.start()
        fitted, predicted = [], []

        class LooksUp(NearestCentroid):
            def fit(self, rows, labels, ids):
                fitted.extend(zip(ids, labels))
                return super().fit(rows, labels)

            def predict_proba(self, rows, ids=None):
                predicted.append((len(rows), ids))
                return super().predict_proba(rows)

        fulcrum.ModelWorker(self.client, campaign, LooksUp(), predict_rows=150).run()
        labels.join(60)
        self.assertFalse(labels.is_alive())
        self.assertTrue(fitted)
        for name, label in fitted:
            self.assertEqual(label, "neg" if int(name[4:]) % 2 == 0 else "pos")
        self.assertEqual(predicted[:2], [(150, names[:150]), (50, names[150:])])

    def test_new_features_are_those_of_the_next_rounds(self):
        """Six rows that nobody was asked about get features far from all others: k-center selects exactly these, one round
        later. A list of lists, a method, and a function that gets the names of rows."""

        class Embeds(NearestCentroid):
            far = frozenset()

            def transform(self, rows):
                places = sorted(self.far)
                return [[10.0 if row in self.far and places[axis] == row else 0.0 for axis in range(6)]
                        for row in range(len(rows))]

        plain = self.create("plain", 6, "k-center")
        labels = self.label_all(plain)
        fulcrum.ModelWorker(self.client, plain, NearestCentroid()).run()
        labels.join(60)
        first = min(self.models(plain))
        asked = {int(row) for batch in self.batches(plain).values() for row in batch}
        Embeds.far = frozenset([row for row in range(200) if row not in asked][:6])
        by_name = Embeds()
        for name, given in (("method", True), ("function", lambda rows, ids: by_name.transform([*map(int, ids)]))):
            with self.subTest(name):
                campaign = self.create(name, 6, "k-center")
                labels = self.label_all(campaign)
                worker = fulcrum.ModelWorker(self.client, campaign, Embeds(), features=given)
                worker.run()
                labels.join(60)
                batches = self.batches(campaign)
                self.assertEqual(batches[first], self.batches(plain)[first], "not yet in the round that they came with")
                self.assertEqual({int(row) for row in batches[first + 1]}, Embeds.far)
                self.assertGreater(worker.seconds["features"], 0)
                rounds = self.models(campaign)
                self.assertEqual(rounds[first], 0)
                self.assertEqual([rounds[number] for number in rounds if number > first],
                                 [number - 1 for number in rounds if number > first])

    def models(self, campaign):
        """By round: the round whose features were used."""
        found = {}
        for event in campaign.events():
            if not event.HasField("model"):
                return found
            found[event.model.round] = event.model.features_round
        return found

    def test_wrong_features_return_the_task_and_say_what_is_wrong(self):
        campaign = self.create("wrong", rounds=2, lease_time="1h")
        labels = self.label_all(campaign)
        nan = float("nan")
        for features, error, text in (
                (lambda rows: [[1.0]] * (len(rows) - 1), ValueError, "199 rows for 200"),
                (lambda rows: [[1.0, nan]] * len(rows), fulcrum.FulcrumError, r"row 0: feature 1 \(counted from 0\) is nan")):
            with self.assertRaisesRegex(error, text):
                fulcrum.ModelWorker(self.client, campaign, NearestCentroid(), features=features).run()
        plain = type("Plain", (), {"fit": NearestCentroid.fit, "predict_proba": NearestCentroid.predict_proba})()
        with self.assertRaisesRegex(TypeError, "method transform.*Plain"):
            fulcrum.ModelWorker(self.client, campaign, plain, features=True)
        with self.assertRaisesRegex(TypeError, "features is True or a function"):
            fulcrum.ModelWorker(self.client, campaign, NearestCentroid(), features=3)
        with self.assertRaisesRegex(TypeError, "int has no fit"):
            fulcrum.ModelWorker(self.client, campaign, 3)
        campaign.stop()
        labels.join(30)

    def test_it_works_in_an_event_loop(self):
        campaign = self.create("loop", rounds=3)
        labels = self.label_all(campaign)
        worker = fulcrum.ModelWorker(self.client, campaign, NearestCentroid())
        self.assertEqual(asyncio.run(worker.run_async()), worker.rounds)
        labels.join(30)
        self.assertEqual(campaign.state, "done")

    def test_refused_probabilities_return_the_task_at_once(self):
        campaign = self.create("refused", rounds=2, lease_time="1h")
        labels = self.label_all(campaign)

        class Doubles(NearestCentroid):
            def predict_proba(self, rows):
                return [[2 * value for value in row] for row in super().predict_proba(rows)]

        with self.assertRaises(fulcrum.FulcrumError) as refused:
            fulcrum.ModelWorker(self.client, campaign, Doubles(), process="doubles").run()
        self.assertEqual(refused.exception.code, "INVALID_ARGUMENT")
        other = fulcrum.ModelWorker(self.client, campaign, NearestCentroid(), process="other")
        self.assertTrue(other._call("AcquireModelTask").HasField("task"))
        campaign.stop()
        labels.join(30)

    def test_rows_are_kept_as_they_are(self):
        numpy = self.need("numpy")
        campaign = self.create("in-place", rounds=2)
        labels = self.label_all(campaign)

        class Scales(NearestCentroid):
            def predict_proba(self, rows):
                numpy.multiply(rows, 0, out=rows)

        with self.assertRaisesRegex(ValueError, "read-only"):
            fulcrum.ModelWorker(self.client, campaign, Scales()).run()
        campaign.stop()
        labels.join(30)

    def test_stop_ends_a_worker_that_waits(self):
        campaign = self.create("stops", rounds=2)
        worker = fulcrum.ModelWorker(self.client, campaign, NearestCentroid())
        running = threading.Thread(target=worker.run)
        running.start()
        time.sleep(0.2)
        worker.stop()
        running.join(10)
        self.assertFalse(running.is_alive())

    def test_killed_workers_models_and_daemons_lose_nothing(self):
        """The labeling worker and the model process are killed every second, the daemon every five."""
        rounds = 8
        # Its distances are those of the features that the model returns.
        reference = self.create("reference", rounds, "adaptive-herding")
        labels = self.label_all(reference)
        fulcrum.ModelWorker(self.client, reference, NearestCentroid(), features=True).run()
        labels.join(30)
        expected = self.batches(reference)
        self.assertEqual(len(expected), rounds)

        campaign = self.create("killed", rounds, "adaptive-herding")
        over = threading.Event()
        kills = {"label": 0, "model": 0, "daemon": 0}
        # The last round is not labeled before both kinds were killed often enough.
        enough = os.path.join(self.folder.name, "enough")
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), ENOUGH=enough, LAST_ROUND=str(rounds))

        def kill_again_and_again(kind):
            numbers = random.Random(kind)
            while not over.is_set():
                process = subprocess.Popen([sys.executable, __file__, kind, self.daemon.address, "killed"],
                                           env=environment, stdout=subprocess.PIPE)
                process.stdout.readline()  # it is connected, or has ended
                over.wait(numbers.uniform(0.5, 1.5))
                process.send_signal(signal.SIGKILL)
                process.wait()
                process.stdout.close()
                kills[kind] += 1
                if min(kills["label"], kills["model"]) >= 3:
                    open(enough, "w", encoding="utf-8").close()

        killers = [threading.Thread(target=kill_again_and_again, args=(kind,)) for kind in ("label", "model")]
        for killer in killers:
            killer.start()
        until = time.monotonic() + 300
        try:
            while campaign.state != "done" and time.monotonic() < until:
                over.wait(5)
                self.daemon.kill()
                self.daemon.start()
                kills["daemon"] += 1
                # Two deaths in one round quarantine a campaign.
                if campaign.state == "quarantined":
                    campaign.start()
        finally:
            over.set()
            for killer in killers:
                killer.join()
        self.assertEqual(campaign.state, "done", f"kills: {kills}, waits for: {campaign.describe().waiting_for}")
        self.assertGreaterEqual(min(kills["model"], kills["label"]), 3, f"both kinds were killed: {kills}")
        labels = self.rows(campaign.labels())
        self.assertEqual(len(labels), 6 * rounds)
        self.assertEqual(len({label["id"] for label in labels}), 6 * rounds, "no item was labeled twice")
        self.assertEqual(self.batches(campaign), expected)
        print(f"kills: {kills}", file=sys.stderr)


def work(kind, address, name):
    """A worker process."""
    client = fulcrum.Client(address)
    client.version()
    print("ready", flush=True)
    if kind == "model":
        class Slow(NearestCentroid):
            def fit(self, rows, labels):
                time.sleep(0.3)
                return super().fit(rows, labels)
        fulcrum.ModelWorker(client, name, Slow(), process="model", features=True).run()
    else:
        def label(task):
            time.sleep(0.02)
            while task.round == int(os.environ["LAST_ROUND"]) and not os.path.exists(os.environ["ENOUGH"]):
                time.sleep(0.05)
            return answer(task)
        fulcrum.Worker(client, name, label, concurrency=2).run()


if __name__ == "__main__":
    if sys.argv[1:2] in (["model"], ["label"]):
        work(*sys.argv[1:4])
    else:
        unittest.main()
