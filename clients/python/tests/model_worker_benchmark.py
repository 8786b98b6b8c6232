"""What a ModelWorker costs around its estimator: 100,000 x 64 rows, scikit-learn's LogisticRegression.

    FULCRUM=build/release/bin/fulcrum PYTHONPATH=build/release/python \\
        python3 clients/python/tests/model_worker_benchmark.py [LABELS [ROUNDS]]

Prints the seconds of the estimator and of everything around it, and their ratio; exit code 1 if it is above 0.25. Needs
numpy and scikit-learn; without them it says so and ends with 77. Around it: taking a task that is ready, reading labels and
rows, and returning the probabilities until they are on disk.
"""

import sys
import tempfile
import threading
import time

import fulcrum
from support import Daemon

ROWS, FEATURES, CLASSES = 100_000, 64, 10
MOST = 0.25


def main():
    try:
        import numpy
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    labels = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    numbers = numpy.random.default_rng(1)
    answers = numbers.integers(0, CLASSES, ROWS)
    centres = 0.5 * numbers.normal(size=(CLASSES, FEATURES))
    pool = centres[answers] + numbers.normal(size=(ROWS, FEATURES))
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(folder)
        client = fulcrum.Client(daemon.address)
        try:
            campaign = client.create_campaign(
                "benchmark", pool.astype("f4"), [str(each) for each in range(CLASSES)], seed=1, start=False,
                stop={"rounds": rounds}, selection={"strategy": "margin", "batch": 100},
                classifier={"external": {}, "tune": 2})
            known = numbers.choice(ROWS, labels, replace=False)
            campaign.import_labels({row: answers[row] for row in known})
            campaign.start()
            worker = fulcrum.Worker(client, campaign, lambda task: str(answers[int(task.id)]))
            labeling = threading.Thread(target=worker.run, daemon=True)
            labeling.start()
            model = fulcrum.ModelWorker(client, campaign, LogisticRegression(max_iter=200))
            begun = time.perf_counter()
            model.run()
            wall = time.perf_counter() - begun
            labeling.join(60)
        finally:
            client.close()
            daemon.kill()
    seconds = model.seconds
    own = seconds["fit"] + seconds["predict"]
    around = seconds["acquire"] + seconds["read"] + seconds["submit"]
    print(f"{ROWS} x {FEATURES}, {CLASSES} classes, {labels} labels and {model.rounds} rounds: {wall:.2f} s in all")
    print("  ".join(f"{name} {value:.3f} s" for name, value in seconds.items()))
    print(f"estimator {own:.3f} s, around it {around:.3f} s: {around / own:.3f} (at most {MOST})")
    return 0 if around <= MOST * own else 1


if __name__ == "__main__":
    sys.exit(main())
