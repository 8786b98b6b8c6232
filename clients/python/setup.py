"""Compiles the description of the API, fulcrum/api.binpb, from proto/ of the repository. A source package has it.

A wheel has the extension module fulcrum._core if it was built before (./dev package does that); such a wheel is for this
kind of processor and this release of Python only.
"""

import pathlib
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
PROTOC = shutil.which("protoc")


class WithModule(Distribution):
    """A package that is more than Python if there is an extension module in it."""

    def has_ext_modules(self):
        return any((HERE / "fulcrum").glob("_core*.so"))


def describe_api():
    if not PROTO.is_dir():
        return
    files = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("*/*/*.proto"))
    protoc = [PROTOC] if PROTOC else [sys.executable, "-m", "grpc_tools.protoc"]
    subprocess.run([*protoc, f"-I{PROTO}", "--include_imports",
                    f"--descriptor_set_out={HERE / 'fulcrum' / 'api.binpb'}", *files], check=True)


class BuildWithApi(build_py):
    def run(self):
        describe_api()
        super().run()


class SourceWithApi(sdist):
    def run(self):
        describe_api()
        super().run()


# pip installs what is in setup_requires before it builds.
setup(distclass=WithModule, cmdclass={"build_py": BuildWithApi, "sdist": SourceWithApi},
      setup_requires=["grpcio-tools"] if PROTO.is_dir() and not PROTOC else [])
