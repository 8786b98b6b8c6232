#!/usr/bin/env python3
"""Checks that every `fulcrum` command in deploy/ and the README exists and has the given options."""

import os
import re
import subprocess
import sys

ROOT = os.environ["FULCRUM_SOURCE"]
PROGRAM = os.environ["FULCRUM"]
FILES = (
    "README.md",
    "deploy/README.md",
    "deploy/docker/compose.yaml",
    "deploy/docker/Dockerfile",
    "deploy/systemd/fulcrum.service",
    "deploy/kubernetes/statefulset.yaml",
    "deploy/kubernetes/select-cronjob.yaml",
    "deploy/kubernetes/first-token.yaml",
    "deploy/airflow/fulcrum_select.py",
)
PROGRAMS = ("deploy/airflow/fulcrum_select.py", "deploy/examples/python/worker.py")


def joined(text):
    """Returns the text with continuation lines joined and argument lists as command lines."""
    text = re.sub(r"\\+\n\s*", " ", text)
    text = re.sub(r"args:\n((?:\s+- .*\n)+)", lambda found: "fulcrum " + re.sub(r"\s+- ", " ", found[1]) + "\n", text)
    text = re.sub(r"(?:args: |CMD )\[(serve[^\]]*)\]", lambda found: "fulcrum " + found[1].replace(",", " "), text)
    return re.sub(r'(?:CMD )\["serve", ([^\]]*)\]', lambda found: "fulcrum serve " + found[1].replace(",", " "), text)


def commands(text):
    for line in joined(text).splitlines():
        for found in re.finditer(r"(?:^|[\s;&(=`/])fulcrum ((?:[a-z]+ )*[a-z]+)(?= |$)([^`#|;&>]*)", line):
            yield found[1].split(), re.findall(r"(?<=\s)--[a-z][a-z-]*", found[0])


def help_of(words):
    """Returns the help of the longest prefix of `words` that is a command, or None."""
    for count in range(min(len(words), 2), 0, -1):
        shown = subprocess.run([PROGRAM, *words[:count], "--help"], capture_output=True, text=True, check=False)
        if shown.returncode == 0:
            return shown.stdout
    return None


def main():
    problems, seen = [], 0
    names = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
    for path in FILES:
        with open(os.path.join(ROOT, path), encoding="utf-8") as text:
            for words, options in commands(text.read()):
                if not options or not re.search(rf"^\s+{words[0]}\b", names, re.M):
                    continue
                text_of_help = help_of(words)
                seen += 1
                problems += [f"{path}: fulcrum {' '.join(words)} has no option {option}"
                             for option in options if not re.search(rf"{option}\b", text_of_help)]
    for path in PROGRAMS:
        with open(os.path.join(ROOT, path), encoding="utf-8") as text:
            compile(text.read(), path, "exec")
    if seen < 10:
        problems.append(f"only {seen} commands were found: this test no longer parses the files correctly")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
