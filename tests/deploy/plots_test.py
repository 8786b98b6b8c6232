#!/usr/bin/env python3
"""The plots of the documents: positions by the logarithm, means over runs, and names that are missing."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

SOURCE = pathlib.Path(os.environ["FULCRUM_SOURCE"])
sys.path.insert(0, str(SOURCE / "deploy"))
from svg_plot import Line, Panel, write_panels  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


class PlotsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def drawing(self):
        return ElementTree.parse(self.folder / "out.svg").getroot()

    def lines(self):
        """The points of every line, by its name."""
        found = {}
        for line in self.drawing().iter(SVG + "polyline"):
            points = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
            found[line.find(SVG + "title").text] = points
        return found

    def texts(self):
        return [text.text for text in self.drawing().iter(SVG + "text")]

    def curves(self, *arguments, **options):
        return subprocess.run([sys.executable, SOURCE / "deploy/strategy_curves.py", self.folder, self.folder / "out.svg",
                               *arguments], capture_output=True, text=True, check=False, **options)

    def test_equal_ratios_are_equal_distances(self):
        points = [(1000, 0.02), (10_000, 0.2), (100_000, 2)]
        write_panels(self.folder / "out.svg", [Panel("a < b", [Line("one & two", [(100, 0), *points]), Line("none", [])]),
                                               Panel("empty", [Line("none", [])])], "rows", "seconds", logarithmic=True)
        lines = self.lines()
        self.assertEqual(list(lines), ["one & two"])
        (x0, y0), (x1, y1), (x2, y2) = lines["one & two"]
        self.assertAlmostEqual(x1 - x0, x2 - x1, delta=0.2)
        self.assertAlmostEqual(y0 - y1, y1 - y2, delta=0.2)
        self.assertTrue(x0 < x1 and y0 > y1)
        for text in ("a < b", "one & two", "rows", "seconds", "1,000", "100,000", "0.01", "10"):
            self.assertIn(text, self.texts())
        self.assertNotIn("empty", self.texts())
        width, height = map(float, self.drawing().get("viewBox").split()[2:])
        for x, y in lines["one & two"]:
            self.assertTrue(0 < x < width and 0 < y < height)
        with self.assertRaises(ValueError):
            write_panels(self.folder / "out.svg", [Panel("empty", [])], "x", "y")

    def write_curves(self):
        rows = ["task,strategy,run,round,labels,accuracy,f1"]
        for strategy, better in (("margin", 0.0), ("random", -0.1)):
            for run, shift in ((0, -0.02), (1, 0.02)):
                for number in range(3):
                    rows.append(f"moons,{strategy},{run},{number},{10 + 10 * number},{0.6 + 0.1 * number + better + shift},")
        rows += ["moons,full-data,0,0,500,0.9,", "rings,margin,0,0,10,0.5,", "rings,margin,0,1,20,0.7,"]
        (self.folder / "curves.csv").write_text("\n".join(rows) + "\n")

    def test_curves_are_means_over_the_runs(self):
        self.write_curves()
        shown = self.curves("--tasks", "moons", "--bands", "random")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        lines = self.lines()
        self.assertEqual(list(lines), ["margin", "random", "all labels"])
        ys = {name: [y for _, y in points] for name, points in lines.items()}
        # 10 points of accuracy are the same distance in the line and between the lines.
        self.assertAlmostEqual(ys["margin"][0] - ys["margin"][1], ys["random"][0] - ys["margin"][0], delta=0.2)
        self.assertAlmostEqual(ys["margin"][2] - ys["all labels"][0], ys["margin"][1] - ys["margin"][2], delta=0.2)
        self.assertEqual(len(list(self.drawing().iter(SVG + "polygon"))), 1, "the band")
        self.assertEqual(self.curves("--strategies", "margin").returncode, 0)
        self.assertIn("rings", self.texts())

    def test_unknown_names_are_refused(self):
        self.write_curves()
        for arguments in (("--strategies", "margin,best"), ("--bands", "best"), ("--tasks", "best")):
            shown = self.curves(*arguments)
            self.assertEqual(shown.returncode, 1)
            self.assertIn("has no 'best'", shown.stderr)
            self.assertIn("moons, rings", shown.stderr)


if __name__ == "__main__":
    unittest.main()
