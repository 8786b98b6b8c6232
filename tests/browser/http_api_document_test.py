#!/usr/bin/env python3
"""The examples of docs/http-api.md run as they are written, and the OpenAPI document describes what the daemon serves."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from web_daemon import WebDaemon

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "http-api.md"

if not shutil.which("curl") or not shutil.which("jq"):
    print("skipped: curl or jq is not installed")
    sys.exit(77)


class ApiDocument(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = WebDaemon().start()
        cls.token = cls.daemon.token("ada", "admin")

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0, "the daemon does not stop in order"
        cls.daemon.folder.cleanup()

    def test_the_examples_run(self):
        blocks = re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(), re.S)
        self.assertGreaterEqual(len(blocks), 7)
        script = "\n".join(block for block in blocks).replace("127.0.0.1:7412", f"127.0.0.1:{self.daemon.port}")
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True, timeout=120,
                                 env={"PATH": "/usr/bin:/bin", "TOKEN": self.token})
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        for wanted in ('"caller": "ada"', '"UPLOAD_STATE_COMPLETE"', '"COLUMN_ROLE_PAYLOAD"', "CAMPAIGN_STATE_", "Leaf number", '"sequence"',
                       ": oak", '"poolRows": "40"', "\n12\n", "CAMPAIGN_STATE_PAUSED", '"itemId":"leaf-', '"code":"not_found"'):
            self.assertIn(wanted, run.stdout)

    def test_the_openapi_document_has_every_call_and_field(self):
        status, headers, body = self.daemon.request("GET", "/openapi.json")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        document = json.loads(body)
        wanted = set()
        for file in (ROOT / "proto/fulcrum/v1").glob("*.proto"):
            text = file.read_text()
            for service, calls in re.findall(r"\nservice (\w+) \{(.*?)\n\}", text, re.S):
                for name, stream in re.findall(r"rpc (\w+)\((stream )?", calls):
                    if not stream:
                        wanted.add(f"/fulcrum.v1.{service}/{name}")
        self.assertEqual(set(document["paths"]), wanted)
        for path, methods in document["paths"].items():
            self.assertTrue(methods["post"]["description"], path)
        schemas = document["components"]["schemas"]
        self.assertEqual(schemas["fulcrum.v1.CampaignSpec"]["properties"]["name"]["type"], "string")
        self.assertIn("Which digit", schemas["fulcrum.v1.CampaignSpec"]["properties"]["question"]["description"])
        self.assertEqual(schemas["fulcrum.v1.Task"]["properties"]["leaseId"], {**schemas["fulcrum.v1.Task"]["properties"]["leaseId"], "type": "string"})
        # Every reference leads somewhere.
        for name in re.findall(r'"#/components/schemas/([^"]+)"', body.decode()):
            self.assertIn(name, schemas)


if __name__ == "__main__":
    unittest.main()
