#!/usr/bin/env python3
"""Compares the tuned classifier of Fulcrum with scikit-learn's classifiers on the same random labels.

For each data set, number of labels and run, the same rows are labeled for every classifier. Fulcrum predicts the other
rows with `fulcrum select`, once tuned (the default) and once with the fixed settings of version 1 (--tune off). The
scikit-learn classifiers are SVC and LogisticRegression on z-scored features (on tf-idf for counts of words as well), and
RandomForestClassifier, all with default parameters. The last columns of the table compare with the best of the three,
chosen per data set in hindsight.

With --active the default strategy is compared with scikit-activeml and modAL instead (compare_active.py).

Data sets are those that scikit-learn ships and generated ones; --data adds files.
"""
import argparse
import csv
import gzip
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from sklearn import datasets
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC
except ImportError as error:
    sys.exit(f"compare: skipped, because scikit-learn is not installed ({error}); apt-get install python3-sklearn")

ROWS = 1500


def shipped(load):
    data = load()
    return data.data, data.target


def words(classes, seed, strength):
    """Counts of words with a Zipf vocabulary; each class prefers a quarter of the words."""
    random = np.random.RandomState(seed)
    base = 1 / np.arange(1, 1501) ** 1.05
    base /= base.sum()
    topics = []
    for _ in range(classes):
        topic = base * np.exp(1.2 * random.randn(1500)) * (random.rand(1500) < 0.25)
        topics.append(topic / topic.sum())
    labels = random.randint(classes, size=ROWS)
    lengths = np.maximum(5, random.lognormal(np.log(50), 0.6, size=ROWS)).astype(int)
    rows = [random.multinomial(n, (1 - strength) * base + strength * topics[y]) for n, y in zip(lengths, labels)]
    return np.array(rows, float), labels


def classification(seed, **settings):
    return datasets.make_classification(n_samples=ROWS, random_state=seed, **settings)


def with_outliers(seed):
    features, labels = classification(seed, n_features=12, n_informative=5, n_classes=3, flip_y=0.02)
    random = np.random.RandomState(seed)
    hit = random.rand(*features.shape) < 0.03
    features[hit] *= random.lognormal(3, 1, size=hit.sum())
    return features, labels


def with_unequal_scales(seed):
    features, labels = classification(seed, n_features=10, n_informative=4, n_clusters_per_class=3, flip_y=0.02)
    return features * 10 ** np.random.RandomState(seed).uniform(-2, 3, 10), labels


def with_duplicates(seed):
    features, labels = datasets.make_classification(300, n_features=8, n_informative=5, n_classes=4, random_state=seed)
    rows = np.random.RandomState(seed).randint(300, size=ROWS)
    return features[rows], labels[rows]


def embeddings(seed):
    """Many columns of low rank, as the embeddings of a neural network."""
    random = np.random.RandomState(seed)
    points, labels = datasets.make_blobs(ROWS, n_features=6, centers=12, cluster_std=3.5, random_state=seed)
    return points @ random.randn(6, 64) + 0.3 * random.randn(ROWS, 64), labels % 6


def categories(seed):
    features = np.random.RandomState(seed).randint(3, size=(ROWS, 9)).astype(float)
    votes = (features[:, 0] == features[:, 4]).astype(int) + (features[:, 2] == 2) + (features[:, 6] == features[:, 7])
    return features, (votes >= 2).astype(int)


def rings(seed):
    features, labels = datasets.make_circles(ROWS, noise=0.12, factor=0.55, random_state=seed)
    return np.c_[features, 0.3 * np.random.RandomState(seed).randn(ROWS, 4)], labels


def ringnorm(seed):
    random = np.random.RandomState(seed)
    labels = random.randint(2, size=ROWS)
    features = random.randn(ROWS, 20)
    features[labels == 0] *= 2
    features[labels == 1] += 2 / np.sqrt(20)
    return features, labels


SETS = {
    "iris": lambda: shipped(datasets.load_iris),
    "wine": lambda: shipped(datasets.load_wine),
    "breast-cancer": lambda: shipped(datasets.load_breast_cancer),
    "digits": lambda: shipped(datasets.load_digits),
    "ringnorm": lambda: ringnorm(21),
    "moons": lambda: datasets.make_moons(ROWS, noise=0.25, random_state=22),
    "rings": lambda: rings(23),
    "many-classes": lambda: classification(24, n_features=20, n_informative=12, n_classes=15, n_clusters_per_class=1),
    "imbalance": lambda: classification(25, n_features=15, n_informative=6, weights=[0.88]),
    "label-noise": lambda: classification(26, n_features=20, n_informative=8, flip_y=0.25),
    "outliers": lambda: with_outliers(27),
    "scales": lambda: with_unequal_scales(28),
    "duplicates": lambda: with_duplicates(29),
    "embeddings": lambda: embeddings(30),
    "categories": lambda: categories(31),
    "words-2": lambda: words(2, 32, 0.15),
    "words-8": lambda: words(8, 33, 0.25),
    "linear": lambda: classification(34, n_features=30, n_informative=10, n_clusters_per_class=1, class_sep=0.6),
}


def read_file(path):
    """A CSV file with a column `label`, or LIBSVM text; either may be compressed with gzip."""
    if ".svm" in pathlib.Path(path).suffixes:
        features, names = datasets.load_svmlight_file(path)
        return features.toarray(), np.unique(names, return_inverse=True)[1]
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="") as file:
        rows = list(csv.reader(file))
    if "label" not in rows[0]:
        sys.exit(f"compare: {path} has no column `label`; its columns are {', '.join(rows[0][:10])}")
    label = rows[0].index("label")
    features = [[float(v) for i, v in enumerate(row) if i != label] for row in rows[1:]]
    names = [row[label] for row in rows[1:]]
    return np.array(features), np.unique(names, return_inverse=True)[1]


def z_scored(features):
    deviations = features.std(axis=0)
    return (features - features.mean(axis=0)) / np.where(deviations > 1e-9, deviations, 1)


def are_counts(features):
    return (features >= 0).all() and (features == 0).mean() > 0.8 and features.shape[1] > 200


def tfidf(features):
    weights = np.log((1 + len(features)) / (1 + (features > 0).sum(axis=0))) + 1
    weighted = features * weights
    return weighted / np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-12)


def predict_with_fulcrum(program, folder, pool, rows, labels, options):
    label_file = folder / "labels.csv"
    with open(label_file, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label"])
        writer.writerows((int(row), int(labels[row])) for row in rows)
    scores = folder / "scores.csv"
    command = [program, "select", "--pool", pool, "--labels", label_file, "--strategy", "uncertainty", "--batch", "1",
               "--out", "/dev/null", "--scores", scores, "--quiet", *options]
    subprocess.run([str(part) for part in command], check=True)
    with open(scores, newline="") as file:
        return np.array([int(row["class"]) for row in csv.DictReader(file)])


def compare(program, name, features, labels, count, run, folder, pool):
    """Accuracy of every classifier on the rows without labels."""
    order = np.random.RandomState(1000 * run + count).permutation(len(labels))
    while len(np.unique(labels[order[:count]])) < 2:
        order = np.roll(order, 1)
    known, rest = order[:count], order[count:]
    accuracy = {}
    for title, options in (("fulcrum", []), ("fixed", ["--tune", "off"])):
        predicted = predict_with_fulcrum(program, folder, pool, known, labels, options)
        accuracy[title] = (predicted[rest] == labels[rest]).mean()
    scaled = z_scored(features)
    candidates = [("SVC", SVC(), scaled), ("LR", LogisticRegression(max_iter=2000), scaled),
                  ("RF", RandomForestClassifier(random_state=run), features)]
    if are_counts(features):
        candidates += [("SVC", SVC(kernel="linear"), tfidf(features)), ("LR", LogisticRegression(), tfidf(features))]
    for title, model, inputs in candidates:
        found = (model.fit(inputs[known], labels[known]).predict(inputs[rest]) == labels[rest]).mean()
        accuracy[title] = max(found, accuracy.get(title, 0))
    return accuracy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/fulcrum", help="the program; default: %(default)s")
    parser.add_argument("--labels", default="20,50,100,200", help="numbers of labels; default: %(default)s")
    parser.add_argument("--runs", type=int, default=3, help="runs per data set; default: %(default)s")
    parser.add_argument("--sets", help="names of data sets, separated by commas; default: all")
    parser.add_argument("--data", action="append", default=[], help="a CSV file with a column `label`, or LIBSVM text, also compressed with gzip; may be repeated")
    parser.add_argument("--out", help="write all accuracies to this CSV file")
    parser.add_argument("--active", action="store_true", help="compare active learning, also with other libraries")
    parser.add_argument("--rounds", type=int, default=10, help="with --active: batches; default: %(default)s")
    parser.add_argument("--batch", type=int, default=10, help="with --active: labels per batch; default: %(default)s")
    options = parser.parse_args()
    counts = [int(text) for text in options.labels.split(",")]
    sets = {name: SETS[name] for name in (options.sets.split(",") if options.sets else SETS)} if options.sets != "" else {}
    for path in options.data:
        sets[pathlib.Path(path).name.split(".")[0]] = lambda path=path: read_file(path)
    if options.active:
        import compare_active
        with tempfile.TemporaryDirectory() as temporary:
            compare_active.compare_active(options.program, sets, z_scored, options.runs, options.rounds, options.batch,
                                          pathlib.Path(temporary))
        return
    columns = ["fulcrum", "fixed", "SVC", "LR", "RF"]
    print(f"{'data set':18} {'labels':>6} " + " ".join(f"{title:>8}" for title in columns) + f" {'best':>8} {'behind':>8}")
    records, behind = [], {count: [] for count in counts}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name, make in sets.items():
            features, labels = make()
            pool = folder / "pool.csv"
            with open(pool, "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([f"f{i}" for i in range(features.shape[1])])
                writer.writerows(features.tolist())
            for count in counts:
                if count > 0.6 * len(labels):
                    continue
                runs = [compare(options.program, name, features, labels, count, run, folder, pool)
                        for run in range(options.runs)]
                mean = {title: 100 * np.mean([run[title] for run in runs]) for title in columns}
                best = max(mean[title] for title in ("SVC", "LR", "RF"))
                behind[count].append((mean["fulcrum"] - best, mean["fulcrum"] - mean["fixed"]))
                records.append([name, count] + [mean[title] for title in columns])
                print(f"{name:18} {count:6d} " + " ".join(f"{mean[title]:8.1f}" for title in columns) +
                      f" {best:8.1f} {mean['fulcrum'] - best:8.1f}", flush=True)
    for count in counts:
        if behind[count]:
            gaps, gains = np.array(behind[count]).T
            print(f"{count} labels, {len(gaps)} sets: {gaps.mean():+.2f} points against the best in hindsight, "
                  f"worst {gaps.min():+.1f}; {gains.mean():+.1f} against the fixed settings")
    if options.out:
        with open(options.out, "w", newline="") as file:
            csv.writer(file).writerows([["set", "labels"] + columns] + records)


if __name__ == "__main__":
    main()
