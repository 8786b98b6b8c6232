"""The package with old and new Pythons, protobuf and grpcio: the other tests, with releases from the registry of packages.

    FULCRUM=build/release/bin/fulcrum FULCRUM_RUNTIMES="python3.9 python3.13" python3 clients/python/tests/runtimes_test.py

Each Python, by default the one that runs this file, gets the newest releases that there are for it, and the oldest protobuf
with an old grpcio. Only wheels are installed: where the registry has none, or cannot be reached, that pair is skipped, by name.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NEW: list = []
OLD = ["protobuf==3.20.*", "grpcio<1.60"]
UNREACHABLE = ("No matching distribution", "Connection", "Temporary failure", "Read timed out")
TESTS = ("client", "worker", "spec", "model_worker")


def run(*words, **options):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)


def try_one(python, requirements, folder):
    """Returns whether the tests pass; None if the registry does not have the wheels."""
    venv = folder / "venv"
    pip = (venv / "bin" / "pip", "install", "-q", "--retries", "1", "--timeout", "20")
    for command in ((python, "-m", "venv", "--clear", venv),
                    (*pip, "--only-binary=:all:", *(requirements or ["protobuf", "grpcio"])),
                    (*pip, folder / "source")):
        done = run(*command)
        if done.returncode != 0:
            missing = any(reason in done.stdout for reason in UNREACHABLE)
            print(f"{python} with {' '.join(requirements) or 'the newest releases'}: "
                  f"{'skipped, the registry has no wheels for it' if missing else done.stdout[-3000:]}", flush=True)
            return None if missing else False
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
    pythons = os.environ.get("FULCRUM_RUNTIMES", "").split() or [sys.executable]
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
            for requirements in (NEW, OLD):
                results.append(try_one(python, requirements, folder))
    if True not in results and False not in results:
        print("skipped: the registry of packages has no wheels of grpcio and protobuf for this Python, or cannot be reached")
        return 77
    return 1 if False in results else 0


if __name__ == "__main__":
    sys.exit(main())
