#!/usr/bin/env python3
"""axe-core finds no serious violation of accessibility on any screen or dialog of the page, in the light and in the dark
scheme, at the widths of a desk and of a phone.

axe-core is not in Debian. It is taken from FULCRUM_AXE (the path of axe.min.js), from the cache, or once from the npm
registry (NPM_CONFIG_REGISTRY if it is set), and checked. Without all of them the test is skipped: exit code 77."""
import hashlib
import io
import os
import pathlib
import sys
import tarfile
import unittest
import urllib.request

from page_screens import SIZES, PageScreens
from web_browser import resize

VERSION = "4.10.3"
SHA256 = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"  # of the package


def cache_folder():
    """As in deploy/setup/steps.sh."""
    if folder := os.environ.get("FULCRUM_CACHE"):
        return pathlib.Path(folder)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "fulcrum")


def axe_script():
    """The text of axe.min.js; None if it is out of reach."""
    if path := os.environ.get("FULCRUM_AXE"):
        return pathlib.Path(path).read_text()
    cached = cache_folder() / f"axe-core-{VERSION}.tgz"
    package = cached.read_bytes() if cached.exists() else b""
    if hashlib.sha256(package).hexdigest() != SHA256:
        registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
        try:
            with urllib.request.urlopen(f"{registry}/axe-core/-/axe-core-{VERSION}.tgz", timeout=60) as answer:
                package = answer.read()
        except OSError as error:
            print(f"skipped: axe-core {VERSION} cannot be fetched from {registry}: {error}")
            return None
        assert hashlib.sha256(package).hexdigest() == SHA256, f"{registry} has another axe-core {VERSION}"
        cached.parent.mkdir(parents=True, exist_ok=True)
        cached.write_bytes(package)
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


AXE = axe_script()
if AXE is None:
    sys.exit(77)


class Accessibility(PageScreens):
    def violations(self):
        self.browser.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
        found = self.browser.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run(document).then((result) => done([result.violations, result.passes.length]))")
        self.assertGreater(found[1], 5, "axe-core did not look at the screen")
        return [(one["id"], one["help"], [node["html"][:150] for node in one["nodes"][:3]])
                for one in found[0] if one["impact"] in ("serious", "critical")]

    def test_no_screen_has_a_serious_violation(self):
        for width, height, dark in SIZES:
            resize(self.browser, width, height, dark)
            for name in self.screens():
                with self.subTest(screen=name, width=width, dark=dark):
                    self.assertEqual(self.violations(), [])

    def test_a_violation_would_be_found(self):
        self.sign_in()
        self.browser.execute_script("document.getElementById('main').innerHTML = '<input><img src=\"data:,\">'")
        self.assertEqual({name for name, _, _ in self.violations()} & {"label", "image-alt"}, {"label", "image-alt"})


if __name__ == "__main__":
    unittest.main()
