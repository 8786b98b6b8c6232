"""Compiles the description of the API, fulcrum/api.binpb, from proto/ of the repository. A source package has it."""

import pathlib
import shutil
import subprocess
import sys

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"


def describe_api():
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("*/*/*.proto"))
    protoc = [shutil.which("protoc")] if shutil.which("protoc") else [sys.executable, "-m", "grpc_tools.protoc"]
    subprocess.run([*protoc, f"-I{PROTO}", "--include_imports",
                    f"--descriptor_set_out={HERE / 'fulcrum' / 'api.binpb'}", *files], check=True)


if PROTO.is_dir():
    describe_api()
setup()
