#!/usr/bin/env python3
"""The files of .github: valid YAML, a workflow that runs what .ci/run runs, forms that GitHub accepts."""
import os
import pathlib
import sys

import yaml

SOURCE = pathlib.Path(os.environ["FULCRUM_SOURCE"])


def problems():
    workflow = yaml.safe_load((SOURCE / ".github/workflows/ci.yaml").read_text())
    if True not in workflow:  # YAML 1.1 reads the key `on` as true
        yield "ci.yaml: no `on`"
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    if not any(".ci/run" in command for command in commands):
        yield "ci.yaml: .ci/run is not run"
    for name, job in workflow["jobs"].items():
        if "timeout-minutes" not in job:
            yield f"ci.yaml: the job {name} has no timeout"
        for step in job["steps"]:
            if ("run" in step) == ("uses" in step):
                yield f"ci.yaml: a step of {name} needs either `run` or `uses`"
    for path in sorted((SOURCE / ".github/ISSUE_TEMPLATE").glob("*.yaml")):
        form = yaml.safe_load(path.read_text())
        for key in ("name", "description", "body"):
            if not form.get(key):
                yield f"{path.name}: no {key}"
        identifiers = [part["id"] for part in form["body"] if part["type"] != "markdown"]
        if len(set(identifiers)) != len(identifiers):
            yield f"{path.name}: an id is used twice"


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found))
    sys.exit(1 if found else 0)
