#!/usr/bin/env python3
"""The bill of materials and the checksums that ./dev package makes, from the built program and a small stage."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["FULCRUM_SOURCE"])
PROGRAM = os.environ["FULCRUM"]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class ReleaseFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def libraries(self):
        """The paths of the libraries of the program, by name."""
        shown = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
        return {pathlib.Path(path).name: pathlib.Path(path) for path in re.findall(r"=> (/\S+)", shown)}

    def test_the_bill_of_materials_lists_everything_once(self):
        libraries = self.libraries()
        bundled = [name for name in libraries if name.startswith(("libarrow", "libparquet"))]
        self.assertTrue(bundled)
        for name, path in [("bin/fulcrum", PROGRAM), *((f"lib/fulcrum/{name}", libraries[name]) for name in bundled)]:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.folder / name)
        output = self.folder / "bill.json"
        subprocess.run([sys.executable, SOURCE / "deploy/package/bill_of_materials.py", self.folder, "9.8.7", output], check=True)
        bill = json.loads(output.read_text())
        for key in ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo"):
            self.assertIn(key, bill)
        identifiers = [each["SPDXID"] for each in bill["packages"]]
        self.assertEqual(len(set(identifiers)), len(identifiers))
        known = {*identifiers, bill["SPDXID"]}
        for relation in bill["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, known)
        licenses = {each["licenseId"] for each in bill["hasExtractedLicensingInfos"]} | {"NOASSERTION"}
        listed = {each["name"]: each for each in bill["packages"]}
        for each in bill["packages"]:
            self.assertTrue(each["licenseConcluded"] in licenses or re.fullmatch(r"[A-Za-z0-9.-]+", each["licenseConcluded"]))
        self.assertEqual(listed["fulcrum"]["versionInfo"], "9.8.7")
        for name in ("fulcrum", *bundled):
            place = self.folder / ("bin" if name == "fulcrum" else "lib/fulcrum") / name
            self.assertEqual(listed[name]["checksums"], [{"algorithm": "SHA256", "checksumValue": sha256(place)}])
        # All other libraries belong to Debian packages, which are listed with their versions.
        needed = {relation["relatedSpdxElement"] for relation in bill["relationships"] if relation["relationshipType"] == "DEPENDS_ON"}
        packages = [each for each in bill["packages"] if each["SPDXID"] in needed]
        for each in packages:
            self.assertRegex(each["externalRefs"][0]["referenceLocator"], r"^pkg:deb/debian/[^@]+@[^?]+\?upstream=.+")
        owned = subprocess.run(["dpkg-query", "-L", *(each["name"] for each in packages)], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        owned = {pathlib.Path(path).name for path in owned}
        for name, path in libraries.items():
            if name not in bundled and not str(path).startswith(("/opt", str(pathlib.Path.home()), "/usr/local")):
                self.assertIn(path.resolve().name, owned, f"no package of the bill has {path}")

    def test_release_notes_are_the_section_of_the_version(self):
        (self.folder / "build/packages").mkdir(parents=True)
        (self.folder / "CMakeLists.txt").write_text("project(fulcrum VERSION 1.2.3 LANGUAGES CXX)\n")
        changes = self.folder / "CHANGELOG.md"
        script = '. "$1/deploy/package/package.sh" && release_notes'
        make = ["bash", "-euc", script, "bash", SOURCE]
        later, earlier = "## [Unreleased]\n\n- later\n", "## [1.2.2] - 2020-01-01\n\n- earlier\n"
        notes = self.folder / "build/packages/fulcrum-1.2.3-notes.md"
        changes.write_text(f"# Changelog\n\n{later}\n## [1.2.3] - 2021-01-01\n\n- this\n- and that\n\n{earlier}")
        subprocess.run(make, cwd=self.folder, check=True)
        self.assertEqual(notes.read_text(), "# Fulcrum 1.2.3\n\n- this\n- and that\n")
        changes.write_text(f"# Changelog\n\n{later}\n{earlier}")
        subprocess.run(make, cwd=self.folder, check=True)
        self.assertEqual(notes.read_text(), "# Fulcrum 1.2.3\n\n- later\n")
        changes.write_text(f"# Changelog\n\n{earlier}")
        self.assertIn("neither", subprocess.run(make, cwd=self.folder, capture_output=True, text=True, check=False).stderr)

    def test_checksums_are_of_every_file_and_notice_a_change(self):
        packages = self.folder / "build/packages"
        packages.mkdir(parents=True)
        (packages / "a.deb").write_bytes(b"one")
        (packages / "b b.whl").write_bytes(b"two")
        script = '. "$1/deploy/package/package.sh" && checksums'
        subprocess.run(["bash", "-euc", script, "bash", SOURCE], cwd=self.folder, check=True)
        lines = (packages / "SHA256SUMS").read_text().splitlines()
        self.assertEqual(lines, [f"{sha256(packages / name)}  {name}" for name in ("a.deb", "b b.whl")])
        check = ["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"]
        subprocess.run(check, cwd=packages, check=True)
        (packages / "a.deb").write_bytes(b"another")
        self.assertNotEqual(subprocess.run(check, cwd=packages, capture_output=True, check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
