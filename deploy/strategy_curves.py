#!/usr/bin/env python3
"""Draws the learning curves of an experiment for the documents: means over the runs, some with their 95 percent bands.

    fulcrum experiment --spec experiments/quick.yaml --out quick
    deploy/strategy_curves.py quick docs/images/strategies-quick.svg [--bands a,b] [--strategies a,b,c] [--tasks x,y]

It reads curves.csv of the result. The level that all labels give is a line of its own, "all labels".
"""
import argparse
import collections
import csv
import math
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from svg_plot import Line, Panel, write_panels  # noqa: E402

# Two-sided quantiles of the t distribution at 95 percent, by degrees of freedom; the normal one above.
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09)


def read_curves(path, metric):
    """{task: {strategy: {round: [(labels, value) of each run]}}} in the order of the file."""
    curves = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row[metric]:
                curves[row["task"]][row["strategy"]][int(row["round"])].append((int(row["labels"]), float(row[metric])))
    return curves


def line_of(name, rounds):
    """Means and bands in percent, over the rounds that all runs have."""
    runs = len(rounds[min(rounds)])
    points, band = [], []
    for number in sorted(rounds):
        if len(rounds[number]) < runs:
            break
        labels = statistics.fmean(labels for labels, _ in rounds[number])
        values = [100 * value for _, value in rounds[number]]
        mean = statistics.fmean(values)
        points.append((labels, mean))
        if runs > 1:
            half = (T_95[runs - 2] if runs - 2 < len(T_95) else 1.96) * statistics.stdev(values) / math.sqrt(runs)
            band.append((labels, mean - half, mean + half))
    return Line(name, points, band)


def panels_of(curves, tasks, strategies, bands):
    panels = []
    for task, by_strategy in curves.items():
        if tasks and task not in tasks:
            continue
        lines = [line_of(name, rounds) for name, rounds in by_strategy.items()
                 if name != "full-data" and (not strategies or name in strategies)]
        for line in lines:
            line.band = line.band if line.name in bands else None
        if "full-data" in by_strategy and lines:
            level = line_of("", by_strategy["full-data"]).points[0][1]
            first, last = min(line.points[0][0] for line in lines), max(line.points[-1][0] for line in lines)
            lines.append(Line("all labels", [(first, level), (last, level)]))
        panels.append(Panel(task, lines))
    return panels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=pathlib.Path, help="the folder of `fulcrum experiment --out`")
    parser.add_argument("output", type=pathlib.Path, help="the SVG file")
    parser.add_argument("--tasks", type=lambda text: text.split(","), help="only these; default: all")
    parser.add_argument("--strategies", type=lambda text: text.split(","), help="only these; default: all")
    parser.add_argument("--bands", type=lambda text: text.split(","), default=[],
                        help="strategies with bands, two at most, since more of them hide each other; default: none")
    parser.add_argument("--metric", default="accuracy", choices=("accuracy", "f1", "macro_f1"))
    options = parser.parse_args()
    curves = read_curves(options.result / "curves.csv", options.metric)
    known = {name for by_strategy in curves.values() for name in by_strategy}
    for name in (options.strategies or []) + options.bands + [task for task in options.tasks or [] if task not in curves]:
        if name not in known:
            sys.exit(f"{parser.prog}: {options.result}/curves.csv has no '{name}'; it has the tasks {', '.join(curves)} and the "
                     f"strategies {', '.join(sorted(known))}")
    write_panels(options.output, panels_of(curves, options.tasks, options.strategies, options.bands), "labels",
                 options.metric.replace("_", "-") + ", percent", marks=False)


if __name__ == "__main__":
    main()
