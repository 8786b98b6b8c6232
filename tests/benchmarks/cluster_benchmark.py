#!/usr/bin/env python3
"""Rounds over MPI next to one process: the same batches, the time and the memory of each rank.

    FULCRUM=build/mpi/bin/fulcrum tests/benchmarks/cluster_benchmark.py batches ROWS DIMS [RANKS,...]
    FULCRUM=build/mpi/bin/fulcrum tests/benchmarks/cluster_benchmark.py batches FILE [RANKS,...]     # columns label, f0, ...
    FULCRUM=build/mpi/bin/fulcrum tests/benchmarks/cluster_benchmark.py costs ROWS DIMS

`batches` compares the batch of every strategy for each number of ranks with that of one process, and exits with 1 if one
differs. `costs` runs one process of two threads and two ranks of one thread, three times each in turn, and prints the seconds
of the wall and of the processors and the peak memory of every process. Processor seconds are what counts if the machine is
not idle. The pool is kept in $FULCRUM_BENCHMARK_FOLDER, if that is set, for the next run."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

STRATEGIES = ("random", "uncertainty", "margin", "alevs", "dbalevs", "hybrid", "herding", "top-lev", "adaptive-herding")
RANKS = (1, 2, 3, 4, 8)
LABELS = 200
PROGRAM = os.environ.get("FULCRUM", "build/mpi/bin/fulcrum")
# Runs a rank and notes what it took: mpirun itself has no such account.
NOTE = """import json, os, resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1] + os.environ.get("OMPI_COMM_WORLD_RANK", "0"), "w") as note:
    json.dump({"processor": used.ru_utime + used.ru_stime, "mebibytes": used.ru_maxrss / 1024}, note)
sys.exit(code)
"""


def run(*words):
    done = subprocess.run([str(word) for word in words], text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")


def mpirun(ranks, words):
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", ranks, *words]


def make_pool(folder, words):
    """An imported pool of generated rows or of a file, and labels of its first rows."""
    csv, pool = folder / "pool.csv", folder / ("pool-" + "-".join(words).replace("/", "_"))
    labels = pool.with_suffix(".labels.csv")
    if not labels.exists():
        if words[0].isdigit():
            run(PROGRAM, "generate", "ringnorm", "--rows", words[0], "--dims", words[1], "--seed", 1, "--out", csv)
        else:
            run(PROGRAM, "convert", words[0], csv)
        run(PROGRAM, "import", csv, "--label", "label", "--out", pool)
        with csv.open() as lines:
            column = next(lines).strip().split(",").index("label")
            known = [next(lines).strip().split(",")[column] for _ in range(LABELS)]
        labels.write_text("id,label\n" + "".join(f"{row},{label}\n" for row, label in enumerate(known)))
        csv.unlink()
    return pool, labels


def select_words(pool, labels, out, *more):
    return [PROGRAM, "select", "--pool", pool, "--labels", labels, "--batch", 100, "--tune", "off", "--quiet", *more, "--out", out]


def compare_batches(folder, pool, labels, counts):
    differing = 0
    for strategy in STRATEGIES:
        more = ("--strategy", strategy, "--threads", 1, "--engine", "landmark", "--no-refine")
        run(*select_words(pool, labels, folder / "one.csv", *more))
        one, verdicts = (folder / "one.csv").read_bytes(), []
        for ranks in counts:
            run(*mpirun(ranks, select_words(pool, labels, folder / "several.csv", *more)))
            same = (folder / "several.csv").read_bytes() == one
            differing += not same
            verdicts.append(f"{ranks}: {'same' if same else 'DIFFERS'}")
        print(f"{strategy:18} {', '.join(verdicts)}", flush=True)
    return differing


def measure_once(folder, words, ranks):
    for old in folder.glob("note*"):
        old.unlink()
    noted = ["python3", folder / "note.py", folder / "note", *words]
    start = time.monotonic()
    run(*(mpirun(ranks, noted) if ranks > 1 else noted))
    wall = time.monotonic() - start
    return wall, [json.loads(note.read_text()) for note in sorted(folder.glob("note[0-9]*"))]


def compare_costs(folder, pool, labels):
    (folder / "note.py").write_text(NOTE)
    more = ("--strategy", "dbalevs", "--engine", "landmark", "--no-refine")
    results = {}
    for turn in range(3):
        for name, ranks, threads in (("1 process of 2 threads", 1, 2), ("2 ranks of 1 thread", 2, 1)):
            words = select_words(pool, labels, folder / "batch.csv", *more, "--threads", threads)
            wall, notes = measure_once(folder, words, ranks)
            processor = sum(note["processor"] for note in notes)
            peaks = [note["mebibytes"] for note in notes]
            results.setdefault(name, []).append((processor, wall, max(peaks)))
            print(f"turn {turn + 1}, {name}: {wall:.1f} s wall, {processor:.1f} s processor, "
                  f"{' and '.join(f'{peak:.0f} MiB' for peak in peaks)}", flush=True)
    one, two = (sorted(runs) for runs in results.values())
    print(f"ratio of the medians: {two[1][0] / one[1][0]:.2f} processor, {two[1][2] / one[1][2]:.2f} memory per rank; "
          f"smallest wall {min(run[1] for run in two) / min(run[1] for run in one):.2f}")


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("batches", "costs"):
        sys.exit(__doc__)
    what, words = sys.argv[1], sys.argv[2:]
    given = words[:2] if words[0].isdigit() else words[:1]
    counts = [int(count) for count in words[len(given)].split(",")] if len(words) > len(given) else RANKS
    kept = os.environ.get("FULCRUM_BENCHMARK_FOLDER")
    place = contextlib.nullcontext(kept) if kept else tempfile.TemporaryDirectory(prefix="fulcrum-cluster-")
    with place as name:
        folder = pathlib.Path(name)
        pool, labels = make_pool(folder, given)
        if what == "costs":
            compare_costs(folder, pool, labels)
        elif compare_batches(folder, pool, labels, counts):
            sys.exit("batches differ")


if __name__ == "__main__":
    main()
