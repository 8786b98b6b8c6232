"""Reads YAML files of the repository for the checks of deploy/. Skips the check if python3-yaml is missing."""

import os
import sys

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)


def folder(name):
    """Returns the path of a folder, given relative to the root of the repository."""
    return os.path.join(os.environ["FULCRUM_SOURCE"], name)


def documents(path):
    """Returns all documents of a file."""
    with open(path, encoding="utf-8") as text:
        return list(yaml.safe_load_all(text))


def documents_of(text):
    """Returns all documents of a string."""
    return list(yaml.safe_load_all(text))
