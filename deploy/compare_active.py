"""Active learning: Fulcrum's default next to scikit-activeml and modAL, on the same splits and first labels.

Part of compare.py (--active). Half of a data set is the pool, the other half is only predicted. Every learner begins
with the same labels, one per class, and asks for batches. Fulcrum runs with its defaults. The other libraries use their
margin sampling with the best of three scikit-learn classifiers, chosen per data set in hindsight; modAL's batches are
ranked. A library that is not installed is skipped, and the report says so.
"""
import csv
import subprocess
import warnings

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

# SVC(probability=True) is what these libraries expect; newer versions of scikit-learn announce its end.
warnings.filterwarnings("ignore", category=FutureWarning)

CLASSIFIERS = {"SVC": lambda: SVC(probability=True, random_state=0), "LR": lambda: LogisticRegression(max_iter=1000),
               "RF": lambda: RandomForestClassifier(random_state=0)}


def find_libraries():
    """The peers that are installed, by name, and why the others are not."""
    peers, missing = {}, {}
    try:
        from skactiveml.classifier import SklearnClassifier
        from skactiveml.pool import UncertaintySampling

        def ask(make, features, labels, known, count, classes):
            partial = np.full(len(labels), np.nan)
            partial[known] = labels[known]
            model = SklearnClassifier(make(), classes=classes, random_state=0)
            query = UncertaintySampling(method="margin_sampling", random_state=0)
            return query.query(X=features, y=partial, clf=model, batch_size=count)
        peers["scikit-activeml"] = ask
    except ImportError as error:
        missing["scikit-activeml"] = str(error)
    try:
        from modAL.models import ActiveLearner
        from modAL.uncertainty import margin_sampling

        def ask_modal(make, features, labels, known, count, classes):
            rest = np.setdiff1d(np.arange(len(labels)), known)
            learner = ActiveLearner(make(), query_strategy=margin_sampling, X_training=features[known],
                                    y_training=labels[known])
            found = learner.query(features[rest], n_instances=count)
            return rest[np.ravel(found[0])]
        peers["modAL"] = ask_modal
    except ImportError as error:
        missing["modAL"] = str(error)
    return peers, missing


def write_csv(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


class Fulcrum:
    """Batches and predictions of `fulcrum select`; rows are named by their number."""

    def __init__(self, program, folder, pool, everything):
        self.program, self.folder, self.files = program, folder, {}
        for title, rows in (("pool", pool), ("everything", everything)):
            self.files[title] = folder / f"active-{title}.csv"
            write_csv(self.files[title], [f"f{i}" for i in range(rows.shape[1])], rows.tolist())

    def _select(self, title, known, labels, *options):
        write_csv(self.folder / "labels.csv", ["id", "label"], [(int(row), int(labels[row])) for row in known])
        command = [self.program, "select", "--pool", self.files[title], "--labels", self.folder / "labels.csv",
                   "--quiet", *options]
        subprocess.run([str(part) for part in command], check=True)

    def ask(self, known, labels, count):
        self._select("pool", known, labels, "--batch", count, "--out", self.folder / "batch.csv")
        with open(self.folder / "batch.csv", newline="") as file:
            return [int(row["id"]) for row in csv.DictReader(file)]

    def predict(self, known, labels):
        self._select("everything", known, labels, "--strategy", "margin", "--batch", 1, "--out", "/dev/null",
                     "--scores", self.folder / "scores.csv")
        with open(self.folder / "scores.csv", newline="") as file:
            return np.array([int(row["class"]) for row in csv.DictReader(file)])


def curve(known, pool_size, rounds, batch, ask, judge):
    """Accuracy after every round, and how many rounds there were before the pool ran out."""
    known, points = list(known), [judge(known)]
    for done in range(rounds):
        count = min(batch, pool_size - len(known))
        if count == 0:
            return points, done
        known += [int(row) for row in ask(known, count)]
        points.append(judge(known))
    return points, rounds


def compare_active(program, sets, scale, runs, rounds, batch, folder):
    peers, missing = find_libraries()
    for name, reason in missing.items():
        print(f"{name}: skipped, because it is not installed ({reason}); pip install {name.replace('modAL', 'modAL-python')}")
    titles = ["fulcrum"] + list(peers)
    print(f"{'data set':18} " + " ".join(f"{title:>20}" for title in titles) + "   mean accuracy of the curve (its last point)")
    gaps = {title: [] for title in peers}
    for name, make in sets.items():
        features, labels = make()
        results, ran_out = {}, None
        for run in range(runs):
            order = np.random.RandomState(run).permutation(len(labels))
            half = len(order) // 2
            shuffled, truth = features[order], labels[order]
            scaled = scale(shuffled)
            pool_truth, test_truth = truth[:half], truth[half:]
            start = [int(np.flatnonzero(pool_truth == c)[0]) for c in np.unique(pool_truth)]
            ours = Fulcrum(program, folder, shuffled[:half], shuffled)
            points, done = curve(start, half, rounds, batch, lambda known, count: ours.ask(known, pool_truth, count),
                                 lambda known: (ours.predict(known, pool_truth)[half:] == test_truth).mean())
            results.setdefault(("fulcrum", ""), []).append(points)
            ran_out = done if done < rounds else ran_out
            for title, ask in peers.items():
                for kind, make_model in CLASSIFIERS.items():
                    def judge(known, make_model=make_model):
                        model = make_model().fit(scaled[known], pool_truth[known])
                        return (model.predict(scaled[half:]) == test_truth).mean()
                    points, _ = curve(start, half, rounds, batch,
                                      lambda known, count, ask=ask, make_model=make_model: ask(
                                          make_model, scaled[:half], pool_truth, np.array(known), count,
                                          np.unique(pool_truth)), judge)
                    results.setdefault((title, kind), []).append(points)
        best = {}
        for (title, kind), curves in results.items():
            mean, last = 100 * np.mean([np.mean(points) for points in curves]), 100 * np.mean([p[-1] for p in curves])
            best[title] = max(best.get(title, (0, 0, "")), (mean, last, kind))
        cells = [f"{best[title][0]:6.1f} ({best[title][1]:5.1f}) {best[title][2]:>4}" for title in titles]
        note = f"   the pool ran out after {ran_out} of {rounds} rounds" if ran_out is not None else ""
        print(f"{name:18} " + " ".join(f"{cell:>20}" for cell in cells) + note, flush=True)
        for title in peers:
            gaps[title].append(best["fulcrum"][0] - best[title][0])
    for title, values in gaps.items():
        print(f"Fulcrum against {title}: {np.mean(values):+.2f} points of the mean accuracy, ahead on "
              f"{sum(value > 0 for value in values)} of {len(values)} sets, worst {min(values):+.1f}")
