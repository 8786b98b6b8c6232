#!/usr/bin/env python3
"""Checks the compose file against its configuration and the Dockerfile, and with docker if it is installed."""

import os
import re
import shutil
import subprocess

import yaml_files

FOLDER = yaml_files.folder("deploy/docker")


def load(name):
    [document] = yaml_files.documents(os.path.join(FOLDER, name))
    return document


def main():
    compose, config = load("compose.yaml"), load("fulcrum.yaml")
    service = compose["services"]["fulcrum"]
    mounts = {volume.split(":")[1]: volume.split(":")[0] for volume in service["volumes"]}
    for path in (config["data"], config["pools"], config["tls"]["cert"], config["tls"]["key"]):
        assert path in mounts, f"{path} of fulcrum.yaml is not mounted"
    assert mounts[config["data"]] in compose["volumes"], "the data must be on a volume that survives the container"
    assert int(service["stop_grace_period"].rstrip("s")) > config["stop_seconds"]
    header = open(os.path.join(yaml_files.folder("pipeline/operation"), "daemon.h"), encoding="utf-8").read()
    campaigns = int(re.search(r"most_campaigns = ([0-9']+);", header)[1].replace("'", ""))
    tasks = 2 * campaigns + 1000
    assert service["pids_limit"] >= tasks, f"{campaigns} campaigns need {tasks} threads"
    with open(os.path.join(yaml_files.folder("deploy/systemd"), "fulcrum.service"), encoding="utf-8") as unit:
        assert int(re.search(r"^TasksMax=(\d+)$", unit.read(), re.M)[1]) >= tasks
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    dockerfile = os.path.normpath(os.path.join(FOLDER, service["build"]["context"], service["build"]["dockerfile"]))
    with open(dockerfile, encoding="utf-8") as text:
        lines = text.read().splitlines()
    assert sum(line.startswith("FROM ") for line in lines) == 2, "expected a build stage and a runtime stage"
    user = next(line for line in lines if line.startswith("USER "))
    assert user not in ("USER root", "USER 0"), user
    exposed = next(line for line in lines if line.startswith("EXPOSE ")).split()[1:]
    assert exposed == [config[name].rsplit(":", 1)[1] for name in ("listen", "metrics", "web")]
    assert [port.split(":")[1:] for port in service["ports"]] == [[port, port] for port in exposed]
    assert all(config[name].startswith("0.0.0.0:") for name in ("listen", "metrics", "web")), "not reachable from outside"
    with open(dockerfile + ".dockerignore", encoding="utf-8") as text:
        left_out = text.read().splitlines()
    assert "build" in left_out and ".git" in left_out, "build and .git must not be part of the build context"
    if shutil.which("docker") and subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        subprocess.run(["docker", "compose", "-f", os.path.join(FOLDER, "compose.yaml"), "config", "-q"], check=True)


if __name__ == "__main__":
    main()
