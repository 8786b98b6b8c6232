#!/usr/bin/env python3
"""The manual pages and the completion that the packages have, made from the program, and the version in every place."""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["FULCRUM_SOURCE"])
PROGRAM = os.environ["FULCRUM"]


def project_version():
    return re.search(r"^project\(fulcrum VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)[1]


class ManualTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.share = pathlib.Path(cls.folder.name)
        subprocess.run([sys.executable, SOURCE / "deploy/package/command_manual.py", PROGRAM, cls.share, "9.8.7"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def complete(self, *words):
        """What bash offers for the last of the words."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fulcrum; printf "%s\\n" "${COMPREPLY[@]}"')
        shown = subprocess.run(["bash", "-c", script, "bash", self.share / "bash-completion/completions/fulcrum", *words],
                               capture_output=True, text=True, check=True, cwd=self.share)
        return shown.stdout.split()

    def test_every_command_has_a_page(self):
        help_text = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
        for name in ("select", "serve", "campaign", "work", "token", "experiment", "generate", "backup"):
            self.assertIn(f"  {name} ", help_text)
            page = gzip.decompress((self.share / f"man/man1/fulcrum-{name}.1.gz").read_bytes()).decode()
            self.assertIn("9.8.7", page)
            for section in ("NAME", "SYNOPSIS", "OPTIONS"):
                self.assertIn(f".SH {section}", page)
        campaign = gzip.decompress((self.share / "man/man1/fulcrum-campaign.1.gz").read_bytes()).decode()
        self.assertIn(".SH FULCRUM CAMPAIGN CREATE", campaign)
        self.assertIn(r"\-\-upload", campaign)

    def test_pages_are_valid(self):
        for page in sorted((self.share / "man/man1").iterdir()):
            text = gzip.decompress(page.read_bytes()).decode()
            self.assertNotRegex(text, r"(?m)^\.(?!TH|SH|SS|TP|B |BR|PP|nf|fi|br)", page.name)
            self.assertNotIn("-- ", re.sub(r"\\-", "", text.replace(r"\-\-", "")), page.name)

    def test_commands_and_options_are_completed(self):
        self.assertEqual(self.complete("fulcrum", "camp"), ["campaign"])
        self.assertIn("create", self.complete("fulcrum", "campaign", ""))
        self.assertEqual(self.complete("fulcrum", "select", "--strat"), ["--strategy"])
        self.assertEqual(self.complete("fulcrum", "campaign", "create", "--upl"), ["--upload"])
        self.assertEqual(self.complete("fulcrum", "select", "--pool", "man"), ["man"], "a file")

    def test_every_command_and_option_is_completed(self):
        """Against the commands and options as the program itself knows them: what it says of an unknown one."""
        source = (SOURCE / "pipeline/commands/command_line.cc").read_text()
        registered = re.findall(r"\b(\w+)Command\(\)", source[source.index("const std::vector<Command>& Commands()"):])
        self.assertGreater(len(registered), 15)
        commands = self.complete("fulcrum", "")
        self.assertEqual(sorted(commands), sorted(name.lower() for name in registered))
        pending = [[name] for name in commands]
        while pending:
            words = pending.pop()
            help_text = subprocess.run([PROGRAM, *words, "--help"], capture_output=True, text=True, check=True).stdout
            with self.subTest(" ".join(words)):
                offered = self.complete("fulcrum", *words, "--")
                shown = re.findall(r"(?m)^  (?:-\w,)?(--[a-z][\w-]*)", help_text)
                self.assertIn("--help", shown)
                self.assertEqual(sorted(set(shown) - set(offered)), [])
            below = re.search(r"(?ms)^Subcommands:\n(.*?)(?:\n\n|\Z)", help_text)
            names = re.findall(r"(?m)^  ([a-z][a-z-]*)(?:\s|$)", below[1]) if below else []
            self.assertEqual(sorted(set(names) - set(self.complete("fulcrum", *words, "") if names else [])), [])
            pending += [[*words, name] for name in names]


class VersionTest(unittest.TestCase):
    def test_every_place_has_the_version_of_the_project(self):
        version = project_version()
        shown = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertIn(f"fulcrum {version}", shown)
        self.assertIn(f'\nversion = "{version}"', (SOURCE / "clients/python/pyproject.toml").read_text())
        self.assertIn(f'\n__version__ = "{version}"', (SOURCE / "clients/python/fulcrum/__init__.py").read_text())
        # Its notes: those of the next release until there is one of this version.
        self.assertRegex((SOURCE / "CHANGELOG.md").read_text(), rf"(?m)^## \[(Unreleased|{re.escape(version)})\]")


if __name__ == "__main__":
    unittest.main()
