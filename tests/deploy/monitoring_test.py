#!/usr/bin/env python3
"""Checks that every metric of the dashboard, the alert rules and docs/operation.md is one that a daemon reports.

The daemon runs a campaign of one round, because histograms appear with their first observation.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import yaml_files

PROGRAM = os.environ["FULCRUM"]
FOLDER = yaml_files.folder("deploy/monitoring")
NAME = re.compile(r"\b(?:fulcrum|process)_[a-z_]+\b")
SPECIFICATION = """
name: rings
pool: {sources: [pool.csv]}
classes: ["-1", "1"]
selection: {strategy: random, batch: 5}
stop: {rounds: 1}
"""


def run(*arguments, **more):
    subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, timeout=60, **more)


def listening(daemon):
    """Returns the log entry that has the daemon's ports."""
    for line in daemon.stderr:
        entry = json.loads(line)
        if entry["message"] == "listening":
            return entry
    raise AssertionError("the daemon does not start")


def reported_metrics():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "pools"))
        run("generate", "ringnorm", "--rows", "200", "--seed", "1", "--out", "pools/pool.csv", cwd=folder)
        with open(os.path.join(folder, "rings.yaml"), "w", encoding="utf-8") as text:
            text.write(SPECIFICATION)
        daemon = subprocess.Popen(
            [PROGRAM, "serve", "--data", "data", "--pools", "pools", "--no-tokens", "--listen", "127.0.0.1:0",
             "--metrics", "127.0.0.1:0", "--log", "json"], cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            entry = listening(daemon)
            server = {**os.environ, "FULCRUM_SERVER": f"127.0.0.1:{entry['port']}"}
            run("campaign", "create", "rings.yaml", cwd=folder, env=server)
            run("campaign", "start", "rings", cwd=folder, env=server)
            run("work", "--campaign", "rings", "--annotator", "anna", "--oracle", "pools/pool.csv", "--quiet",
                cwd=folder, env=server)
            with urllib.request.urlopen(f"http://127.0.0.1:{entry['metrics_port']}/metrics", timeout=30) as answer:
                return set(re.findall(r"^# TYPE (\S+)", answer.read().decode(), re.M))
        finally:
            daemon.terminate()
            daemon.stderr.close()
            daemon.wait(timeout=60)


def used_metrics():
    """Returns the names of metrics by the file that uses them."""
    used = {}
    with open(os.path.join(FOLDER, "grafana-dashboard.json"), encoding="utf-8") as text:
        dashboard = json.load(text)
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > 10
    used["grafana-dashboard.json"] = expressions
    [rules] = yaml_files.documents(os.path.join(FOLDER, "alerts.yaml"))
    used["alerts.yaml"] = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    with open(os.path.join(yaml_files.folder("docs"), "operation.md"), encoding="utf-8") as text:
        used["operation.md"] = [line.split("|")[1] for line in text if re.match(r"\| `(fulcrum|process)_", line)]
    return {name: {found for text in texts for found in NAME.findall(text)} for name, texts in used.items()}


def family(name):
    return re.sub(r"_(bucket|sum|count)$", "", name)


def main():
    reported, used, problems = reported_metrics(), used_metrics(), []
    for file, names in used.items():
        problems += [f"{file}: the daemon does not report {name}" for name in sorted(names) if family(name) not in reported]
    problems += [f"operation.md does not describe {name}" for name in sorted(reported - used["operation.md"])]
    [rules] = yaml_files.documents(os.path.join(FOLDER, "alerts.yaml"))
    for rule in rules["groups"][0]["rules"]:
        if not {"summary", "action"} <= rule["annotations"].keys() or "severity" not in rule["labels"]:
            problems.append(f"alerts.yaml: {rule['alert']} needs a severity, a summary and an action")
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "rules", os.path.join(FOLDER, "alerts.yaml")], check=True)
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
