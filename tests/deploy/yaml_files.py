"""YAML files of the repository as the checks of deploy/ read them; without python3-yaml the check is skipped."""

import os
import sys

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)


def folder(name):
    """A folder of the repository by its path from the root."""
    return os.path.join(os.environ["FULCRUM_SOURCE"], name)


def documents(path):
    """All documents of a file."""
    with open(path, encoding="utf-8") as text:
        return list(yaml.safe_load_all(text))


def documents_of(text):
    """All documents of a text."""
    return list(yaml.safe_load_all(text))
