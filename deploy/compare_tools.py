#!/usr/bin/env python3
"""Compares Fulcrum with Python libraries for active learning: accuracy per label, and time and memory per query.

Every tool gets the same pool, the same ten random labels to begin with and the same test rows, asks for ten more labels per
round, and predicts the test rows with its own classifier: Fulcrum with its default settings, modAL and scikit-activeml as
their introductions show it, by margin sampling with scikit-learn's LogisticRegression on z-scored features. `random` is
LogisticRegression on random labels. Tools that are not installed are left out (pip install modAL-python scikit-activeml).

    ./dev compare tools                   accuracy per label, then time and memory
    ./dev compare tools --sizes 1000,10000,100000,1000000 --runs 5
"""
import argparse
import csv
import multiprocessing
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from compare import SETS, np, predict_with_fulcrum, z_scored  # noqa: E402  exits if scikit-learn is missing
from sklearn.linear_model import LogisticRegression  # noqa: E402

BATCH, START, ROUNDS = 10, 10, 10


def write_table(path, features):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"f{i}" for i in range(features.shape[1])])
        writer.writerows(features.tolist())


class Fulcrum:
    def __init__(self, program, folder, features, pool_rows):
        self.program, self.folder, self.pool_rows = program, folder, pool_rows
        write_table(folder / "pool.csv", features[pool_rows])
        # The same with the test rows, which no query sees.
        write_table(folder / "all.csv", features)

    def query(self, features, labels, known):
        places = {row: i for i, row in enumerate(self.pool_rows)}
        with open(self.folder / "labels.csv", "w") as file:
            file.write("id,label\n" + "".join(f"{places[row]},{labels[row]}\n" for row in known))
        subprocess.run([self.program, "select", "--pool", self.folder / "pool.csv", "--labels", self.folder / "labels.csv",
                        "--batch", str(BATCH), "--out", self.folder / "batch.csv", "--quiet"], check=True)
        with open(self.folder / "batch.csv", newline="") as file:
            return [self.pool_rows[int(row["id"])] for row in csv.DictReader(file)]

    def predict(self, features, labels, known, test):
        return predict_with_fulcrum(self.program, self.folder, self.folder / "all.csv", known, labels, [])[test]


class WithLogisticRegression:
    """A query strategy on rows of z-scored features, and scikit-learn's classifier."""

    def __init__(self, select):
        self.select = select

    def query(self, features, labels, known, pool_rows=None):
        pool = np.setdiff1d(pool_rows, known)
        return [int(pool[i]) for i in self.select(features[known], labels[known], features[pool])]

    def predict(self, features, labels, known, test):
        return LogisticRegression(max_iter=2000).fit(features[known], labels[known]).predict(features[test])


def select_at_random(seed):
    random = np.random.RandomState(seed)
    return lambda known, labels, pool: random.permutation(len(pool))[:BATCH]


def select_with_modal(known, labels, pool):
    from modAL.models import ActiveLearner
    from modAL.uncertainty import margin_sampling
    learner = ActiveLearner(LogisticRegression(max_iter=2000), margin_sampling, known, labels)
    return np.atleast_1d(learner.query(pool, n_instances=BATCH)[0])


def select_with_skactiveml(known, labels, pool):
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import UncertaintySampling
    classes = np.unique(labels)
    features = np.r_[known, pool]
    answers = np.r_[labels.astype(float), np.full(len(pool), np.nan)]
    strategy = UncertaintySampling(method="margin_sampling", random_state=0)
    chosen = strategy.query(features, answers, SklearnClassifier(LogisticRegression(max_iter=2000), classes=classes),
                            batch_size=BATCH)
    return chosen - len(known)


def libraries():
    found = {}
    for name, module, select in (("modAL", "modAL", select_with_modal),
                                 ("scikit-activeml", "skactiveml", select_with_skactiveml)):
        try:
            __import__(module)
            found[name] = select
        except ImportError as error:
            print(f"{name} is left out: {error}")
    return found


def curve(tool, features, labels, pool_rows, test, start):
    known, points = list(start), []
    for _ in range(ROUNDS):
        more = {"pool_rows": pool_rows} if isinstance(tool, WithLogisticRegression) else {}
        known += tool.query(features, labels, known, **more)
        points.append((tool.predict(features, labels, known, test) == labels[test]).mean())
    return points


def first_labels(labels, pool_rows, run):
    """Random rows, of at least two classes."""
    order = np.random.RandomState(100 + run).permutation(pool_rows)
    while len(np.unique(labels[order[:START]])) < 2:
        order = np.roll(order, 1)
    return [int(row) for row in order[:START]]


def compare_accuracy(program, names, runs):
    tools = libraries()
    titles = ["fulcrum", *tools, "random"]
    print(f"Test accuracy in percent, mean of {ROUNDS} rounds of {BATCH} labels and of {runs} runs")
    print(f"{'data set':16}" + "".join(f"{title:>18}" for title in titles))
    rows = []
    for name in names:
        features, labels = SETS[name]()
        scaled = z_scored(features)
        means = {title: [] for title in titles}
        for run in range(runs):
            order = np.random.RandomState(run).permutation(len(labels))
            pool_rows, test = np.sort(order[len(order) // 3:]), np.sort(order[:len(order) // 3])
            start = first_labels(labels, pool_rows, run)
            with tempfile.TemporaryDirectory() as folder:
                everything = {"fulcrum": Fulcrum(program, pathlib.Path(folder), features, pool_rows),
                              **{title: WithLogisticRegression(select) for title, select in tools.items()},
                              "random": WithLogisticRegression(select_at_random(run))}
                for title, tool in everything.items():
                    inputs = features if title == "fulcrum" else scaled
                    means[title].append(100 * np.mean(curve(tool, inputs, labels, pool_rows, test, start)))
        rows.append([np.mean(means[title]) for title in titles])
        print(f"{name:16}" + "".join(f"{value:18.1f}" for value in rows[-1]), flush=True)
    print(f"{'mean':16}" + "".join(f"{value:18.1f}" for value in np.mean(rows, axis=0)))


def in_child(function, *arguments):
    """Seconds that the function reports, and the peak memory of the child process in MiB."""
    def call(queue):
        seconds = function(*arguments)
        own = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        queue.put((seconds, own / 1024))
    queue = multiprocessing.get_context("fork").Queue()
    process = multiprocessing.get_context("fork").Process(target=call, args=(queue,))
    process.start()
    answer = queue.get()
    process.join()
    return answer


def time_fulcrum(program, folder, rows):
    start = time.monotonic()
    child = subprocess.Popen([program, "select", "--pool", folder / f"pool-{rows}", "--labels", folder / "labels.csv", "--batch",
                              str(BATCH), "--out", folder / "batch.csv", "--quiet"])
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0
    return time.monotonic() - start, usage.ru_maxrss / 1024


def time_library(select, features, labels, rows):
    known = np.arange(100)
    start = time.monotonic()
    select(features[known], labels[known], features[100:rows])
    return time.monotonic() - start


def best_of_three(measure, *arguments):
    return min(measure(*arguments) for _ in range(3))


def compare_time(program, sizes):
    tools = libraries()
    print(f"\nSeconds and peak memory (MiB) of one query of {BATCH} with 100 labels, the best of three; 20 features")
    print(f"{'rows':>10}{'fulcrum':>24}" + "".join(f"{title:>24}" for title in tools))
    random = np.random.RandomState(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for rows in sizes:
            labels = random.randint(2, size=rows)
            features = random.randn(rows, 20) * np.where(labels, 1, 2)[:, None]
            write_table(folder / "pool.csv", features)
            (folder / "labels.csv").write_text("id,label\n" + "".join(f"{i},{labels[i]}\n" for i in range(100)))
            subprocess.run([program, "import", folder / "pool.csv", "--out", folder / f"pool-{rows}", "--quiet"], check=True,
                           stdout=subprocess.DEVNULL)
            cells = [best_of_three(time_fulcrum, program, folder, rows)]
            cells += [best_of_three(in_child, time_library, select, features, labels, rows) for select in tools.values()]
            print(f"{rows:10d}" + "".join(f"{seconds:15.2f} s {memory:6.0f}" for seconds, memory in cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/fulcrum", help="the program; default: %(default)s")
    parser.add_argument("--sets", default="digits,breast-cancer,wine,embeddings,many-classes,moons,imbalance",
                        help="data sets of compare.py; default: %(default)s")
    parser.add_argument("--runs", type=int, default=3, help="runs per data set; default: %(default)s")
    parser.add_argument("--sizes", default="1000,10000,100000", help="rows of the pools that are timed; default: %(default)s")
    options = parser.parse_args()
    if options.runs > 0:
        compare_accuracy(options.program, options.sets.split(","), options.runs)
    if options.sizes:
        compare_time(options.program, [int(size) for size in options.sizes.split(",")])


if __name__ == "__main__":
    main()
