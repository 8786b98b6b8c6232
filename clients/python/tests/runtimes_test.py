"""The package with old and new Pythons, protobuf and grpcio: the other tests, with releases from the registry of packages.

    FULCRUM=build/release/bin/fulcrum FULCRUM_RUNTIMES="python3.9 python3.13" python3 clients/python/tests/runtimes_test.py

Each Python gets the newest releases that there are for it, and the oldest of protobuf that it can run. Without
FULCRUM_RUNTIMES, or without a registry, it is skipped.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
OLD = ["protobuf==3.20.*", "grpcio<1.60"]
TESTS = ("client", "worker", "spec", "model_worker")


def run(*words, **options):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)


def version_of(python):
    return tuple(map(int, run(python, "-c", "import sys; print(*sys.version_info[:2])").stdout.split()))


def try_one(python, requirements, folder):
    """Returns whether the tests pass; None if the registry cannot be reached."""
    venv = folder / "venv"
    for command in ((python, "-m", "venv", "--clear", venv),
                    (venv / "bin" / "pip", "install", "-q", *requirements, folder / "source")):
        done = run(*command)
        if done.returncode != 0:
            print(done.stdout[-3000:])
            return None if "No matching distribution" in done.stdout or "Connection" in done.stdout else False
    installed = run(venv / "bin" / "pip", "list", "--format=freeze").stdout.split()
    print(python, *(line for line in installed if line.startswith(("grpcio==", "protobuf=="))), flush=True)
    passed = True
    for test in TESTS:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = run(venv / "bin" / "python", HERE / f"{test}_test.py", env=environment)
        print(f"  {test}: {done.stdout.strip().splitlines()[-1]}", flush=True)
        if done.returncode != 0:
            print(done.stdout[-3000:])
            passed = False
    return passed


def main():
    pythons = os.environ.get("FULCRUM_RUNTIMES", "").split()
    if not pythons:
        print("skipped: FULCRUM_RUNTIMES names no Pythons")
        return 77
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "source").mkdir()
        # Files that a build writes do not belong into the tree.
        run("cp", "-r", HERE.parent / "fulcrum", HERE.parent / "setup.py", HERE.parent / "pyproject.toml",
            HERE.parent / "README.md", folder / "source")
        proto = HERE.parents[2] / "proto"
        described = run("protoc", f"-I{proto}", "--include_imports",
                        f"--descriptor_set_out={folder / 'source' / 'fulcrum' / 'api.binpb'}", *proto.glob("*/*/*.proto"))
        assert described.returncode == 0, described.stdout
        for python in pythons:
            results.append(try_one(python, [], folder))
            if version_of(python) < (3, 11):  # newer ones have no wheels of these
                results.append(try_one(python, OLD, folder))
    if None in results:
        print("skipped: the registry of packages does not have what is needed, or cannot be reached")
    return 1 if False in results else 77 if None in results else 0


if __name__ == "__main__":
    sys.exit(main())
