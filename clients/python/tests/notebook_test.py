"""Executes the notebook of the documentation against a real daemon."""

import os
import pathlib
import unittest

from support import DaemonTest

NOTEBOOK = pathlib.Path(__file__).resolve().parents[3] / "docs" / "embeddings-to-model.ipynb"


class NotebookTest(DaemonTest):
    def test_the_notebook_runs_and_its_model_is_good(self):
        self.need("nbformat")
        self.need("ipykernel")
        self.need("pandas")
        nbclient = self.need("nbclient")
        import nbformat
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        lines = [line for cell in notebook.cells if cell.cell_type == "code" for line in cell.source.splitlines()]
        self.assertLessEqual(sum(bool(line.strip()) for line in lines), 30)
        os.environ["FULCRUM_SERVER"] = self.daemon.address
        nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": self.folder.name}}).execute()
        outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
        text = "".join(output.get("text", "") for output in outputs)
        self.assertRegex(text, "60 labels, accuracy 0.9|60 labels, accuracy 1")
        pages = [output.data.get("text/html", "") for output in outputs if "data" in output]
        self.assertTrue(any("<svg" in page for page in pages), "the campaign shows its learning curve")
        self.assertTrue(any("<progress" in page for page in pages), "watch shows a bar")
        self.assertTrue(os.path.exists(os.path.join(self.folder.name, "animals.model")))


if __name__ == "__main__":
    unittest.main()
