"""Installs the package with pip, from the folder, a source package and a wheel, into a virtual environment."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = HERE.parents[1]
# What is installed, and nothing of the source tree or of PYTHONPATH.
TRY = """
import fulcrum, fulcrum.api, pathlib, sys
assert pathlib.Path(fulcrum.__file__).is_relative_to(sys.prefix), fulcrum.__file__
assert (pathlib.Path(fulcrum.__file__).parent / "py.typed").exists()
spec = fulcrum.api.message("fulcrum.v1.CampaignSpec")(name="x", stop={"labels": 3})
assert spec.FromString(spec.SerializeToString()) == spec
print(fulcrum.__version__)
"""


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    assert done.returncode == 0, f"{words} failed with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout


class InstallTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # The build writes next to setup.py.
        self.source = self.folder / "repository" / "clients" / "python"
        shutil.copytree(HERE, self.source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "api.binpb",
                                                                         "core", "tests"))
        shutil.copytree(REPOSITORY / "proto", self.folder / "repository" / "proto")
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def build(self, *words):
        run(sys.executable, "setup.py", "-q", *words, "-d", self.folder / "made", cwd=self.source, env=self.environment)
        made, = (self.folder / "made").iterdir()
        return made

    def check_installed(self, what):
        venv = self.folder / "venv"
        # The tools of the distribution build; nothing is downloaded.
        run(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", venv, env=self.environment)
        run(venv / "bin" / "python", "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps", what, env=self.environment)
        version = run(venv / "bin" / "python", "-c", TRY, cwd=self.folder, env=self.environment)
        shutil.rmtree(venv)
        self.assertRegex(version, r"^\d+\.\d+\.\d+\n$")

    def test_from_the_folder(self):
        self.check_installed(self.source)

    def test_from_a_source_package(self):
        archive = self.build("sdist")
        self.assertRegex(archive.name, r"^fulcrum-[\d.]+\.tar\.gz$")
        shutil.rmtree(self.folder / "repository" / "proto")  # it has the description of the API
        self.check_installed(archive)

    def test_from_a_wheel_for_every_python(self):
        wheel = self.build("bdist_wheel")
        self.assertRegex(wheel.name, r"^fulcrum-[\d.]+-py3-none-any\.whl$")
        self.check_installed(wheel)

    def test_pip_gets_a_compiler_of_protos_if_there_is_none(self):
        asks = "from setuptools import build_meta; print(build_meta.get_requires_for_build_wheel())"
        for path, needed in ((os.environ["PATH"], False), ("/nonexistent", True)):
            answer = run(sys.executable, "-c", asks, cwd=self.source, env=dict(self.environment, PATH=path))
            self.assertEqual("grpcio-tools" in answer, needed, answer)


if __name__ == "__main__":
    for tool in ("venv", "pip", "wheel"):
        try:
            __import__(tool)
        except ImportError:
            print(f"skipped: {tool} is not installed")
            raise SystemExit(77) from None
    unittest.main()
