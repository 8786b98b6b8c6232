#!/usr/bin/env python3
"""Compares the time of one query with scikit-activeml, modAL and small-text, and fulcrum.core with `fulcrum select`.

For each method, number of rows and size of the batch, every package gets the same array with the same 100 labels and is
asked for the next batch, in a process of its own: the best of three times, or of as many as fit into 10 seconds (of a
short query the mean of several). Times are processor times of all threads together, which do not depend on what else the
machine does. They include fitting the classifier (logistic regression with a linear kernel) if the method has one, and not
the imports and the loading of the array. Fulcrum runs with fixed settings like the others, and, in a column of its own,
with its defaults, which tune the classifier first. A query that takes more than --limit seconds is ended; larger ones of
the same kind are not tried then. Packages that are not installed are left out, by name. With --check the exit code is 1 if another package is quicker than
Fulcrum with fixed settings anywhere, or fulcrum.core takes more than 1.1 times the time or 1.2 times the memory of the
command.

With --plot FILE only the time over the rows of the pool is measured, for generated arrays with 64 features (--sizes), one
query of 100: as a table with the peak memory of the process, and as a log-log plot.

Arrays: generated ones, or, with --mnist FILE (CSV with a column `label`), 2,000 and all of its rows. The largest
is generated: 100,000 rows with 64 features.
"""
import argparse
import csv
import gzip
import importlib.util
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

from svg_plot import Line, Panel, write_panels

METHODS = ("uncertainty", "quire", "k-center", "typiclust", "badge")
PACKAGES = {"fulcrum": "fulcrum", "fulcrum tuned": "fulcrum", "scikit-activeml": "skactiveml", "modAL": "modAL",
            "small-text": "small_text"}
# Packages that do not have all methods.
ONLY = {"modAL": ("uncertainty",), "small-text": ("uncertainty", "k-center")}
LABELS = 100
MOST_TIME, MOST_MEMORY = 1.1, 1.2
REPEAT_SECONDS = 10
SHORTEST_SECONDS = 0.2
FULCRUM_NAMES = {"uncertainty": "margin", "quire": "quire", "k-center": "k-center", "typiclust": "typical",
                 "badge": "badge"}


def query_of(package, method, X, y, batch):
    """The function that makes one query."""
    labeled, unlabeled = np.flatnonzero(~np.isnan(y)), np.flatnonzero(np.isnan(y))
    if package.startswith("fulcrum"):
        from fulcrum import core
        fixed = {} if package.endswith("tuned") else {
            "normalize": "none", "classifier": "logistic", "svm_kernel": "rbf" if method == "quire" else "linear",
            "svm_c": 1.0}
        if method == "quire" and fixed:
            fixed["svm_sigma"] = float(np.sqrt(X.shape[1]))
        return lambda: core.select(X, y, strategy=FULCRUM_NAMES[method], batch=batch, **fixed).indices
    from sklearn.linear_model import LogisticRegression
    if package == "scikit-activeml":
        from skactiveml import classifier, pool
        clf = classifier.SklearnClassifier(LogisticRegression(max_iter=1000), classes=[0, 1], random_state=0)
        if method == "uncertainty":
            strategy = pool.UncertaintySampling(method="margin_sampling", random_state=0)
            return lambda: strategy.query(X, y, clf=clf, batch_size=batch)
        if method == "badge":
            return lambda: pool.Badge(random_state=0).query(X, y, clf=clf, batch_size=batch)
        kinds = {"k-center": pool.CoreSet, "typiclust": pool.TypiClust}
        if method == "quire":
            gamma = 1.0 / X.shape[1]
            strategy = pool.Quire(classes=[0, 1], metric_dict={"gamma": gamma}, random_state=0)
            return lambda: strategy.query(X, y, batch_size=batch)
        return lambda: kinds[method](random_state=0).query(X, y, batch_size=batch)
    if package == "modAL":
        from modAL.models import ActiveLearner
        from modAL.uncertainty import margin_sampling

        def query():
            learner = ActiveLearner(LogisticRegression(max_iter=1000), margin_sampling, X[labeled], y[labeled])
            return unlabeled[learner.query(X[unlabeled], n_instances=batch)[0]]
        return query
    if package == "small-text":
        import small_text
        from scipy import sparse
        if method == "k-center":
            return lambda: unlabeled[small_text.greedy_coreset(X, unlabeled, labeled, batch, distance_metric="euclidean")]
        truth = np.where(np.isnan(y), small_text.LABEL_UNLABELED, y).astype(int)
        data = small_text.SklearnDataset(sparse.csr_matrix(X), truth, target_labels=np.array([0, 1]))

        def query():
            clf = small_text.SklearnClassifier(LogisticRegression(max_iter=1000), 2)
            clf.fit(data[labeled])
            return small_text.BreakingTies().query(clf, data, unlabeled, labeled, truth[labeled], n=batch)
        return query
    raise ValueError(package)


def measure(path, package, method, batch):
    """In a process of its own: prints the seconds of one query."""
    data = np.load(path)
    query = query_of(package, method, data["X"], data["y"], batch)

    def seconds(times):
        begun = time.process_time()
        for _ in range(times):
            rows = np.asarray(query())
        spent = (time.process_time() - begun) / times
        assert len(set(rows.tolist())) == batch and np.isnan(data["y"][rows]).all(), "not a batch of unlabeled rows"
        return spent

    until = time.process_time() + REPEAT_SECONDS
    best = seconds(1)
    # Short queries several times, because the clock of the processor is coarse on some machines.
    times = max(1, min(50, round(SHORTEST_SECONDS / max(best, 1e-3))))
    if times > 1:
        best = seconds(times)
    for _ in range(2):
        if time.process_time() > until:
            break
        best = min(best, seconds(times))
    print(json.dumps({"seconds": best, "mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}))


def run(arguments, limit):
    """The seconds that a query took and the MiB of its process, or "limit" if it did not finish."""
    # Imports and loading take a few seconds of it.
    most = int(limit + 10)
    done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--one", *map(str, arguments)], capture_output=True,
                          text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5)))
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "limit", None
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        return ("failed" if done.returncode > 0 and "MemoryError" not in done.stderr else "out of memory"), None
    found = json.loads(done.stdout.splitlines()[-1])
    return ("limit" if found["seconds"] > limit else found["seconds"]), found["mebibytes"]


def text_of(result, limit):
    if result is None:
        return "-"
    if result == "limit":
        return f"not in {limit:g} s"
    return result if isinstance(result, str) else f"{result:.3f}" if result < 1 else f"{result:.2f}"


def generated(rows, dims, seed=1):
    random = np.random.RandomState(seed)
    truth = random.randint(2, size=rows)
    centers = random.normal(size=(20, dims))
    X = centers[2 * random.randint(10, size=rows) + truth] + 1.2 * random.normal(size=(rows, dims))
    return X, truth


def read_csv(path):
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rt") as file:
        rows = csv.reader(file)
        label = next(rows).index("label")
        values = np.array(list(rows), float)
    classes = np.unique(values[:, label])
    return np.delete(values, label, axis=1), np.searchsorted(classes, values[:, label])


def arrays(mnist):
    if mnist:
        X, truth = read_csv(mnist)
        # As people scale pixels.
        X = X / max(1.0, X.max())
    else:
        X, truth = generated(13454, 784)
    some = np.sort(np.random.RandomState(2).choice(len(X), 2000, replace=False))
    yield f"2,000 x {X.shape[1]}", X[some], truth[some]
    yield "{:,} x {}".format(*X.shape), X, truth
    yield "100,000 x 64", *generated(100_000, 64)


def save(path, X, truth):
    """The array with the labels of some rows."""
    y = np.full(len(X), np.nan)
    labeled = np.random.RandomState(1).choice(len(X), LABELS, replace=False)
    y[labeled] = truth[labeled]
    np.savez(path, X=X, y=y)


def over_rows(options, present):
    """The table and the plot of the time over the rows of the pool."""
    print(f"| method | rows | {' | '.join(present)} |")
    print("|---|---|" + "---|" * len(present))
    panels = []
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data.npz"
        for method in options.methods:
            lines, ended = {package: [] for package in present}, set()
            for rows in options.sizes:
                save(data, *generated(rows, 64))
                cells = []
                for package in present:
                    result, mebibytes = None, None
                    if method in ONLY.get(package, METHODS):
                        result = "limit"
                        if package not in ended:
                            result, mebibytes = run([data, package, method, 100], options.limit)
                    if isinstance(result, float):
                        lines[package].append((rows, result))
                    elif result is not None:
                        ended.add(package)
                    cells.append(text_of(result, options.limit) + (f" s, {mebibytes:,} MiB" if isinstance(result, float) else ""))
                print(f"| {method} | {rows:,} | {' | '.join(cells)} |", flush=True)
            panels.append(Panel(method, [Line(package, points) for package, points in lines.items()]))
    write_panels(options.plot, panels, "rows of the pool", "seconds", logarithmic=True)


def core_against_command(program, folder, X, truth, strategy, repeats):
    """Prints the processor time and the peak memory of fulcrum.core next to those of `fulcrum select`, the time without
    its reading. Returns what is above the limits."""
    labeled = np.random.RandomState(1).choice(len(X), LABELS, replace=False)
    pool, labels = folder / "pool.csv", folder / "labels.csv"
    np.savetxt(pool, X, delimiter=",", fmt="%.9g", header=",".join(f"f{i}" for i in range(X.shape[1])), comments="")
    labels.write_text("id,label\n" + "".join(f"{row},{truth[row]}\n" for row in labeled))
    # What the command reads, so that both select from the same numbers.
    y = np.full(len(X), np.nan)
    y[labeled] = truth[labeled]
    np.savez(folder / "both.npz", X=np.loadtxt(pool, delimiter=",", skiprows=1), y=y)
    script = ("import sys, time, json, resource, numpy as np\nfrom fulcrum import core\n"
              "data = np.load(sys.argv[1]); X, y = data['X'], data['y']\n"
              "t = time.process_time(); rows = core.select(X, y, strategy=sys.argv[2]).indices\n"
              "print(json.dumps([time.process_time() - t, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,"
              " rows.tolist()]))")

    def command(*options):
        pid = os.spawnv(os.P_NOWAIT, program, [program, "select", "--pool", str(pool), "--labels", str(labels), "--out",
                                               str(folder / "batch.csv"), "--quiet", *options])
        _, status, usage = os.wait4(pid, 0)
        assert status == 0, "fulcrum select failed"
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss

    ours, theirs, reading = [], [], []
    for _ in range(repeats):
        done = subprocess.run([sys.executable, "-c", script, folder / "both.npz", strategy], check=True,
                              capture_output=True, text=True)
        seconds, memory, rows = json.loads(done.stdout)
        ours.append(seconds)
        # A random batch of features that are not scaled takes nothing but the reading.
        reading.append(command("--strategy", "random", "--normalize", "none")[0])
        seconds, command_memory = command("--strategy", strategy)
        theirs.append(seconds)
        batch = [int(row["id"]) for row in csv.DictReader(open(folder / "batch.csv", encoding="utf-8"))]
        assert batch == rows, "fulcrum.core and fulcrum select differ"
    without_reading = min(theirs) - min(reading)
    print(f"| {strategy} | {min(ours):.2f} | {without_reading:.2f} | {min(ours) / without_reading:.2f} | {memory >> 10} | "
          f"{command_memory >> 10} | {memory / command_memory:.2f} |", flush=True)
    return ([f"{strategy}: time"] if min(ours) > MOST_TIME * without_reading else []) + (
        [f"{strategy}: memory"] if memory > MOST_MEMORY * command_memory else [])


def not_ahead(cells):
    """Whether Fulcrum has no time, or another package has a lower one."""
    others = [cell for package, cell in cells.items() if not package.startswith("fulcrum") and isinstance(cell, float)]
    own = cells.get("fulcrum")
    return not isinstance(own, float) or any(cell < own for cell in others)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=pathlib.Path, help="CSV file of the first two arrays")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a query may take (default: 120)")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--program", default="build/release/bin/fulcrum", help="compare fulcrum.core with this program")
    parser.add_argument("--repeats", type=int, default=3, help="of the comparison with the program; 0 leaves it out")
    parser.add_argument("--check", action="store_true", help="exit code 1 if Fulcrum is behind anywhere")
    parser.add_argument("--plot", type=pathlib.Path, help="measure the time over the rows instead, and draw it here (SVG)")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default="1000,10000,100000",
                        help="with --plot: rows of the arrays; default: %(default)s")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        path, package, method, batch = options.one
        return measure(path, package, method, int(batch))
    missing = [name for name, module in PACKAGES.items() if importlib.util.find_spec(module) is None]
    present = [name for name in PACKAGES if name not in missing]
    if missing:
        print(f"not installed, and left out: {', '.join(missing)}", file=sys.stderr)
    if options.plot:
        over_rows(options, present)
        return 0
    behind = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        sets = list(arrays(options.mnist))
        if options.repeats:
            print("| strategy | fulcrum.core s | fulcrum select s | ratio | core MiB | select MiB | ratio |")
            print("|---|---|---|---|---|---|---|")
            for strategy in ("adaptive-herding", "dbalevs"):
                behind += core_against_command(options.program, folder, *sets[1][1:], strategy, options.repeats)
            print()
        print(f"| method | rows | batch | {' | '.join(present)} |")
        print("|---|---|---|" + "---|" * len(present))
        for method in options.methods:
            ended = set()
            for name, X, truth in sets:
                save(folder / "data.npz", X, truth)
                for batch in (1, 100):
                    cells = {}
                    for package in present:
                        if package in ended:
                            result = "limit"
                        elif method not in ONLY.get(package, METHODS):
                            result = None
                        else:
                            result, _ = run([folder / "data.npz", package, method, batch], options.limit)
                        if isinstance(result, str):
                            ended.add(package)
                        cells[package] = result
                    shown = (text_of(cells[package], options.limit) for package in present)
                    print(f"| {method} | {name} | {batch} | {' | '.join(shown)} |", flush=True)
                    if not_ahead(cells):
                        behind.append(f"{method}, {name}, batch {batch}")
    if options.check and behind:
        print("Fulcrum is behind: " + "; ".join(behind), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
