"""fulcrum.core against `fulcrum select` on the same examples, and inside the loops of other packages."""

import csv
import importlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import fulcrum

if os.environ.get("FULCRUM_CORE"):
    # The folder of the extension module, which has a build tree of its own.
    fulcrum.__path__.append(os.environ["FULCRUM_CORE"])
try:
    from fulcrum import core
except ImportError as missing:
    print(f"skipped: {missing}")
    raise SystemExit(77) from None  # ctest reports it as skipped

PROGRAM = os.environ["FULCRUM"]


def rings(rows=400, dims=6, classes=2, seed=5):
    """Clouds of different widths, and labels for every tenth row."""
    random = np.random.RandomState(seed)
    truth = np.arange(rows) % classes
    X = random.normal(size=(rows, dims)) * (1 + truth[:, None]) + 0.8 * truth[:, None]
    y = np.full(rows, np.nan)
    y[::10] = truth[::10]
    y[1::10] = truth[1::10]
    return X, y, truth


def need(test, module):
    try:
        return importlib.import_module(module)
    except ImportError:
        return test.skipTest(f"{module} is not installed")


class SelectTest(unittest.TestCase):
    def command(self, X, y, *options):
        """The rows and gains that `fulcrum select` gives, its scores, and its report."""
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/pool.csv", "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([f"f{column}" for column in range(X.shape[1])])
                writer.writerows([[repr(float(value)) for value in row] for row in X])
            with open(folder + "/labels.csv", "w", encoding="utf-8") as file:
                file.write("id,label\n")
                file.writelines(f"{row},{int(y[row])}\n" for row in np.flatnonzero(~np.isnan(y)))
            subprocess.run([PROGRAM, "select", "--pool", folder + "/pool.csv", "--labels", folder + "/labels.csv",
                            "--out", folder + "/out.csv", "--scores", folder + "/scores.csv", "--report",
                            folder + "/report.json", "--quiet", *options], check=True)
            with open(folder + "/out.csv", encoding="utf-8") as file:
                batch = list(csv.DictReader(file))
            with open(folder + "/scores.csv", encoding="utf-8") as file:
                scores = [float(row["leverage"] or "nan") for row in csv.DictReader(file)]
            with open(folder + "/report.json", encoding="utf-8") as file:
                return ([int(row["id"]) for row in batch], [float(row["gain"]) for row in batch], np.array(scores),
                        json.load(file))

    def test_the_same_rows_as_the_command_by_default(self):
        X, y, _ = rings()
        rows, gains, _, report = self.command(X, y)
        chosen = core.select(X, y)
        self.assertEqual(chosen.indices.tolist(), rows)
        np.testing.assert_allclose(chosen.gains, gains, rtol=1e-9)
        self.assertEqual(chosen.tuning["normalize"], report["tuning"]["normalize"])
        self.assertEqual(chosen.tuning["classifier"], report["tuning"]["classifier"])

    def test_the_same_rows_as_the_command_with_every_strategy(self):
        X, y, _ = rings(rows=150)
        for strategy in core.strategies():
            with self.subTest(strategy):
                rows, gains, scores, _ = self.command(X, y, "--strategy", strategy, "--batch", "7")
                chosen = core.select(X, y, strategy=strategy, batch=7)
                self.assertEqual(chosen.indices.tolist(), rows)
                np.testing.assert_allclose(chosen.gains, gains, rtol=1e-7, atol=1e-12)
                if len(chosen.scores):
                    np.testing.assert_allclose(chosen.scores, scores, rtol=1e-7, atol=1e-12)

    def test_the_same_rows_as_the_command_with_settings(self):
        X, y, _ = rings(classes=3)
        for given in ({"strategy": "dbalevs", "normalize": "none", "kernel": "rbf", "sigma": 3.0, "svm_c": 2.0},
                      {"strategy": "alevs", "batch": 1, "tau": 0.8, "engine": "dense"},
                      {"strategy": "hybrid", "seed": 9, "svm_kernel": "linear"},
                      {"strategy": "dbalevs", "alpha": 0.2, "leverage_scale": "max", "class_weights": "balanced"}):
            with self.subTest(given):
                options = [part for name, value in given.items() for part in ("--" + name.replace("_", "-"), str(value))]
                self.assertEqual(core.select(X, y, **given).indices.tolist(), self.command(X, y, *options)[0])

    def test_float32_and_sparse_give_what_dense_gives(self):
        X, y, _ = rings()
        X = np.round(X, 2).astype(np.float32)
        by_float = core.select(X, y, strategy="margin").indices
        self.assertEqual(by_float.tolist(), core.select(X.astype(np.float64), y, strategy="margin").indices.tolist())
        self.assertEqual(core.select(np.asfortranarray(X), y, strategy="margin").indices.tolist(), by_float.tolist())
        sparse = need(self, "scipy.sparse")
        few = np.where(np.abs(X) > 1.5, X, 0).astype(np.float64)
        given = {"strategy": "dbalevs", "normalize": "none", "kernel": "rbf", "sigma": 3.0}
        dense = core.select(few, y, **given)
        np.testing.assert_array_equal(core.select(sparse.csr_matrix(few), y, **given).indices, dense.indices)
        np.testing.assert_array_equal(core.select(sparse.csc_matrix(few), y, **given).indices, dense.indices)

    def test_labels_of_every_kind(self):
        X, y, _ = rings()
        names = np.array(["ten", "nine"], object)
        texts = np.array([None if np.isnan(label) else str(int(label)) for label in y], object)
        expected = core.select(X, y, strategy="dbalevs").indices.tolist()
        self.assertEqual(core.select(X, texts, strategy="dbalevs").indices.tolist(), expected)
        words = np.array([None if np.isnan(label) else names[int(label)] for label in y], object)
        chosen = core.select(X, words, strategy="dbalevs", batch=4)
        self.assertLessEqual(set(chosen.classes), {"ten", "nine"})
        self.assertEqual(core.select(X, np.where(np.isnan(y), -1, y).astype(int), missing_label=-1,
                                     strategy="dbalevs").indices.tolist(), expected)

    def test_candidates_and_predictions(self):
        X, y, truth = rings()
        allowed = np.arange(200, 240)
        chosen = core.select(X, y, strategy="margin", batch=5, candidates=allowed)
        self.assertLessEqual(set(chosen.indices), set(allowed[np.isnan(y[allowed])]))
        predicted = core.select(X, y, predictions=truth.astype(float))
        np.testing.assert_array_equal(predicted.predicted.astype(float), truth)
        with self.assertRaisesRegex(ValueError, "margin"):
            core.select(X, y, predictions=truth.astype(float), strategy="margin")
        with self.assertRaisesRegex(ValueError, "'k-center' does not use predictions"):
            core.select(X, y, predictions=truth.astype(float), strategy="k-center")

    def test_probabilities_of_another_model(self):
        X, y, _ = rings()
        doubt = np.random.RandomState(3).uniform(0.5, 1, size=len(X))
        given = np.column_stack([1 - doubt, doubt])
        free = np.flatnonzero(np.isnan(y))
        expected = free[np.argsort(doubt[free], kind="stable")][:5]
        chosen = core.select(X, y, strategy="margin", batch=5, predictions=given, classes=[0.0, 1.0])
        self.assertEqual(chosen.indices.tolist(), expected.tolist())
        turned = core.select(X, y, strategy="margin", batch=5, predictions=given[:, ::-1], classes=[1.0, 0.0])
        self.assertEqual(turned.indices.tolist(), expected.tolist())
        with self.assertRaisesRegex(ValueError, "name the columns"):
            core.select(X, y, predictions=given)
        with self.assertRaisesRegex(ValueError, "row 0 .* do not sum to 1"):
            core.select(X, y, predictions=2 * given, classes=[0.0, 1.0])

    def test_leverage_scores_by_definition(self):
        X, y, _ = rings(rows=120)
        for engine in ("dense", "krylov", "auto"):
            scores = core.leverage_scores(X, kernel="rbf", sigma=2.0, tau=0.7, engine=engine)
            distances = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
            values, vectors = np.linalg.eigh(np.exp(-distances / 4.0))
            values, vectors = values[::-1], vectors[:, ::-1]
            rank = int(np.searchsorted(np.cumsum(values) / values.sum(), 0.7)) + 1
            np.testing.assert_allclose(scores, (vectors[:, :rank] ** 2).sum(axis=1), atol=1e-6)
            self.assertAlmostEqual(scores.sum(), rank, places=6)
        by_command = self.command(X, y, "--strategy", "lev-on-all", "--normalize", "none", "--kernel", "linear")[2]
        np.testing.assert_allclose(core.leverage_scores(X, kernel="linear"), by_command, atol=1e-9)

    def test_errors_name_what_is_wrong(self):
        X, y, _ = rings()
        for pattern, call in (
                ("unknown strategy 'best'", lambda: core.select(X, y, strategy="best")),
                ("tau is 7", lambda: core.select(X, y, tau=7.0)),
                ("batch is 0", lambda: core.select(X, y, batch=0)),
                ("400 rows and y has 10", lambda: core.select(X, y[:10])),
                ("two dimensions", lambda: core.select(X[0], y)),
                ("memory is 'lots'", lambda: core.select(X, y, memory="lots")),
                ("tune='auto' chooses", lambda: core.select(X, y, tune="auto", svm_c=1.0)),
                ("all 40 rows", lambda: core.select(X[y == y][:40], y[y == y][:40]))):
            with self.assertRaisesRegex(ValueError, pattern):
                call()
        bad = X.copy()
        bad[3, 2] = np.nan
        with self.assertRaisesRegex(ValueError, r"X\[3, 2\] is NaN"):
            core.select(bad, y)
        with self.assertRaises(MemoryError):
            core.select(X, y, memory="100MiB")

    def test_the_result_does_not_depend_on_threads_and_the_array_is_left_alone(self):
        X, y, _ = rings(rows=1500)
        before = X.copy()
        one = core.select(X, y, strategy="dbalevs", batch=20, threads=1)
        two = core.select(X, y, strategy="dbalevs", batch=20, threads=2)
        np.testing.assert_array_equal(one.indices, two.indices)
        np.testing.assert_array_equal(X, before)

    def test_other_threads_run_meanwhile(self):
        X = np.random.RandomState(0).normal(size=(2500, 60))
        ticks, ended = [], threading.Event()

        def tick():
            while not ended.wait(0.002):
                ticks.append(time.monotonic())

        ticker = threading.Thread(target=tick)
        ticker.start()
        begun = time.monotonic()
        core.leverage_scores(X, kernel="rbf", sigma=2.0, tau=0.99, engine="dense")
        during = sum(begun < each for each in ticks)
        ended.set()
        ticker.join()
        self.assertGreater(during, 10)

class ProcessTest(unittest.TestCase):
    """What a call does to its process: each in a process of its own."""

    PRELUDE = """
import os, signal, threading, time
import numpy as np
import fulcrum
if os.environ.get("FULCRUM_CORE"):
    fulcrum.__path__.append(os.environ["FULCRUM_CORE"])
from fulcrum import core
"""

    def alone(self, script):
        """What the script prints, as JSON. None of them takes longer than a minute unless something is wrong."""
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", self.PRELUDE + script], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return json.loads(done.stdout.splitlines()[-1])

    def test_ctrl_c_ends_a_computation_and_the_process_goes_on(self):
        # Each would take many minutes.
        for call in ("core.leverage_scores(X, kernel='rbf', sigma=2.0, tau=0.999, engine='dense')",
                     "core.select(X, y, strategy='quire', batch=2000, tune='off')",
                     "core.select(X, y, strategy='dbalevs', batch=2000, kernel='rbf', sigma=2.0, engine='tiled', tau=0.99)"):
            with self.subTest(call):
                seen = self.alone(f"""
X = np.random.RandomState(0).normal(size=(14000, 60))
y = np.full(len(X), np.nan)
y[:200] = np.arange(200) % 2
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    {call}
    seen = "a result"
except KeyboardInterrupt:
    seen = "KeyboardInterrupt"
print('["%s", %d]' % (seen, len(core.select(X[:400], y[:400], batch=3))))
""")
                self.assertEqual(seen, ["KeyboardInterrupt", 3])

    # Bytes by which the peak of the process grows while it selects, divided by those of X.
    GROWTH = """
import resource
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def growth(X, size, **given):
    y = np.full(X.shape[0], np.nan)
    y[:20] = np.arange(20) % 2
    given = dict(strategy="margin", batch=5, svm_kernel="linear", svm_c=1.0, **given)
    core.select(X[:500], y[:500], **given)  # loads what is loaded once
    before = peak()
    assert len(core.select(X, y, **given)) == 5
    return (peak() - before) / size
random = np.random.RandomState(0)
"""

    def test_arrays_are_used_where_they_are(self):
        # Made in parts, so that making them is not the peak.
        grown = self.alone(self.GROWTH + """
X = np.empty((100_000, 256))
for first in range(0, len(X), 1000):
    X[first:first + 1000] = random.normal(size=(1000, 256))
print([growth(X, X.nbytes, normalize="none"), growth(X, X.nbytes, normalize="zscore")])
""")
        self.assertLess(grown[0], 0.3, "float64 in rows is not copied")
        self.assertGreater(grown[1], 0.9, "this test sees a copy")

    def test_csr_matrices_are_used_where_they_are(self):
        need(self, "scipy.sparse")
        grown = self.alone(self.GROWTH + """
import scipy.sparse
rows, each, columns = 100_000, 150, 3000
values = np.empty(rows * each)
places = np.empty(rows * each, np.int32)
for first in range(0, rows * each, each * 1000):
    values[first:first + each * 1000] = random.normal(size=each * 1000)
    # Ascending within a row.
    places[first:first + each * 1000] = np.tile(np.arange(each) * (columns // each), 1000)
X = scipy.sparse.csr_matrix((values, places, np.arange(0, rows * each + 1, each)), shape=(rows, columns))
X.has_canonical_format = True
size = values.nbytes + places.nbytes
print([growth(X, size, normalize="none"), growth(X, size, normalize="unit")])
""")
        self.assertLess(grown[0], 0.4, "CSR is not copied")
        self.assertGreater(grown[1], 0.9, "this test sees a copy")

    def test_threads_limits_the_threads(self):
        if (os.cpu_count() or 1) < 2:
            self.skipTest("this machine has one processor")
        used = {}
        for threads in (1, 2):
            # Processor time per second of the call. What else runs can only make it smaller.
            used[threads] = self.alone(f"""
X = np.random.RandomState(0).normal(size=(60000, 200))
y = np.full(len(X), np.nan)
y[:3000] = np.arange(3000) % 2
wall, processor = time.monotonic(), time.process_time()
core.select(X, y, strategy="margin", svm_kernel="rbf", svm_sigma=14.0, svm_c=1.0, normalize="none", threads={threads})
print((time.process_time() - processor) / (time.monotonic() - wall))
""")
        self.assertLess(used[1], 1.1, used)
        print(f"processors in use: {used[1]:.2f} with threads=1, {used[2]:.2f} with threads=2", file=sys.stderr)


class EstimatorTest(unittest.TestCase):
    def test_the_classifier_passes_the_checks_of_scikit_learn(self):
        need(self, "sklearn")
        from sklearn.utils.estimator_checks import check_estimator
        from fulcrum.estimators import FulcrumClassifier
        check_estimator(FulcrumClassifier())

    def test_the_classifier_predicts_and_is_pickled(self):
        need(self, "sklearn")
        from fulcrum.estimators import FulcrumClassifier
        for classes in (2, 3):
            X, _, truth = rings(rows=600, classes=classes)
            model = FulcrumClassifier().fit(X[:300], truth[:300])
            self.assertGreater(model.score(X[300:], truth[300:]), 0.6)
            np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
            copy = pickle.loads(pickle.dumps(model))
            np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
            decisions = model.decision_function(X)
            best = (decisions > 0).astype(int) if classes == 2 else decisions.argmax(axis=1)
            np.testing.assert_array_equal(model.classes_[best], model.predict(X))

    def test_the_query_strategy_in_the_loop_of_scikit_activeml(self):
        need(self, "skactiveml")
        from skactiveml.classifier import ParzenWindowClassifier
        from skactiveml.utils import unlabeled_indices
        from fulcrum.estimators import FulcrumQueryStrategy
        X, y, truth = rings()
        y[:] = np.nan
        query = FulcrumQueryStrategy("adaptive-herding")
        clf = ParzenWindowClassifier(classes=[0, 1])
        for _ in range(4):
            rows = query.query(X, y, clf, batch_size=6)
            self.assertEqual(len(set(rows)), 6)
            self.assertLessEqual(set(rows), set(unlabeled_indices(y)))
            y[rows] = truth[rows]
        rows, utilities = query.query(X, y, batch_size=3, candidates=[5, 6, 7, 8], return_utilities=True)
        self.assertLessEqual(set(rows), {5, 6, 7, 8})
        self.assertEqual(utilities.shape, (3, 400))
        self.assertTrue(np.isfinite(utilities[range(3), rows]).all())
        outside = query.query(X[:300], y[:300], candidates=X[300:], batch_size=2)
        self.assertTrue((outside < 100).all())
        for strategy in ("dbalevs", "margin"):
            theirs = FulcrumQueryStrategy(strategy, use_clf=True).query(X, y, clf, batch_size=4)
            self.assertEqual(len(set(theirs)), 4)


if __name__ == "__main__":
    unittest.main()
