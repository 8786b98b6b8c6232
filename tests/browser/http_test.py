#!/usr/bin/env python3
"""The API as JSON over HTTP: the Connect protocol, sessions, and what must be refused."""
import base64
import gzip
import http.client
import json
import re
import socket
import ssl
import struct
import subprocess
import tempfile
import unittest

import numpy

from web_daemon import WebDaemon

JSON = {"Content-Type": "application/json"}
CALLER = "/fulcrum.v1.AccessService/GetCaller"


def envelope(message):
    text = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(text)) + text


def open_envelopes(body):
    messages = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        messages.append((flags, json.loads(body[5:5 + size])))
        body = body[5 + size:]
    return messages


class WithTokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = WebDaemon().start()
        cls.admin = cls.daemon.token("ada", "admin")
        cls.annotator = cls.daemon.token("ben", "annotator")
        cls.bearer = {"Authorization": f"Bearer {cls.admin}"}
        (cls.daemon.pools / "pool.csv").write_text("x,label\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(60)))
        (cls.daemon.pools / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
        cls.daemon.create_campaign({"name": "c", "pool": {"sources": ["pool.csv"]}, "classes": ["0", "1"],
                                    "selection": {"batch": 2}}, cls.bearer)

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0, "the daemon does not stop in order"
        cls.daemon.folder.cleanup()

    def sign_in(self, token):
        status, headers, _ = self.daemon.request("POST", "/session", json.dumps({"token": token}), JSON)
        return status, headers.get("Set-Cookie", "")

    def test_calls_need_a_token_and_have_roles(self):
        status, answer = self.daemon.call("AccessService/GetCaller")
        self.assertEqual((status, answer["code"]), (401, "unauthenticated"))
        status, answer = self.daemon.call("AccessService/GetCaller", headers=self.bearer)
        self.assertEqual((status, answer), (200, {"caller": "ada", "role": "ROLE_ADMIN", "tokens": True}))
        status, answer = self.daemon.call("AccessService/ListTokens", headers={"Authorization": f"Bearer {self.annotator}"})
        self.assertEqual((status, answer["code"]), (403, "permission_denied"))

    def test_a_label_is_given_once(self):
        headers = {"Authorization": f"Bearer {self.annotator}"}
        _, answer = self.daemon.call("LabelingService/AcquireTasks", {
            "campaign": "c", "requestId": "a1", "maxTasks": 1, "wait": "10s"}, headers)
        task = answer["tasks"][0]
        submit = {"campaign": "c", "requestId": "s1", "labels": [
            {"lease": {"leaseId": task["leaseId"], "epoch": task["epoch"]}, "itemId": task["itemId"], "value": "1"}]}
        first = self.daemon.call("LabelingService/SubmitLabels", submit, headers)
        self.assertEqual(first, self.daemon.call("LabelingService/SubmitLabels", submit, headers))
        self.assertIn("sequence", first[1]["results"][0])
        _, answer = self.daemon.call("CampaignService/GetCampaign", {"campaign": "c"}, self.bearer)
        self.assertEqual(answer["campaign"]["labels"], "1")

    def test_errors_follow_the_protocol(self):
        status, answer = self.daemon.call("CampaignService/GetCampaign", {"campaign": "none"}, self.bearer)
        self.assertEqual((status, answer["code"]), (404, "not_found"))
        status, answer = self.daemon.call("CampaignService/GetCampaign", {"campagn": "c"}, self.bearer)
        self.assertEqual((status, answer["code"]), (400, "invalid_argument"))
        self.assertIn("campagn", answer["message"])
        status, answer = self.daemon.call("CampaignService/CreateCampaign", {"spec": {"name": "d"}}, self.bearer)
        detail = answer["details"][0]
        self.assertEqual((status, detail["type"]), (400, "google.rpc.BadRequest"))
        self.assertIn(b"classes", base64.b64decode(detail["value"] + "=" * (-len(detail["value"]) % 4)))
        self.assertIn("classes", [problem["field"] for problem in detail["debug"]["fieldViolations"]])
        self.assertEqual(self.daemon.call("LabelingService/Work", headers=self.bearer)[0], 501)
        self.assertEqual(self.daemon.call("AccessService/Nothing", headers=self.bearer)[0], 404)
        for header, wanted in [(("Connect-Protocol-Version", "2"), 400), (("Connect-Timeout-Ms", "x"), 400),
                               (("Content-Encoding", "br"), 501), (("Content-Type", "text/plain"), 415)]:
            with self.subTest(header=header):
                self.assertEqual(self.daemon.request("POST", CALLER, "{}", {**JSON, **self.bearer, header[0]: header[1]})[0], wanted)
        self.assertEqual(self.daemon.request("GET", CALLER)[0], 405)

    def test_a_timeout_ends_a_call_that_waits(self):
        status, answer = self.daemon.call("LabelingService/AcquireTasks", {
            "campaign": "c", "requestId": "slow", "maxTasks": 0}, self.bearer)
        self.assertEqual(status, 400, answer)
        # More tasks than the batch has: the second call finds none and waits.
        headers = {"Authorization": f"Bearer {self.annotator}"}
        self.daemon.call("LabelingService/AcquireTasks", {"campaign": "c", "requestId": "all", "maxTasks": 9}, headers)
        status, answer = self.daemon.call("LabelingService/AcquireTasks", {
            "campaign": "c", "requestId": "late", "maxTasks": 1, "wait": "60s"}, {**headers, "Connect-Timeout-Ms": "300"})
        self.assertEqual((status, answer["code"]), (504, "deadline_exceeded"))

    def test_streams_are_enveloped(self):
        headers = {"Content-Type": "application/connect+json", **self.bearer}
        path = "/fulcrum.v1.CampaignService/ExportLabels"
        status, _, body = self.daemon.request("POST", path, envelope({"campaign": "c"}), headers)
        self.assertEqual((status, open_envelopes(body)[-1]), (200, (2, {})))
        _, _, body = self.daemon.request("POST", path, envelope({"campaign": "none"}), headers)
        self.assertEqual(open_envelopes(body)[-1][1]["error"]["code"], "not_found")
        _, _, body = self.daemon.request("POST", path, b"\0\0\0\0\x7f{}", headers)
        self.assertEqual(open_envelopes(body)[-1][1]["error"]["code"], "invalid_argument")

    def test_a_session_is_a_cookie_that_only_the_page_can_use(self):
        status, cookie = self.sign_in(self.admin)
        self.assertEqual(status, 200)
        for attribute in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="):
            self.assertIn(attribute, cookie)
        self.assertEqual(self.sign_in("fulcrum_wrong")[0], 401)
        self.assertEqual(self.sign_in("a\r\nSet-Cookie: x=y")[0], 400)
        session = {**JSON, "Cookie": cookie.split(";")[0]}
        own = f"http://127.0.0.1:{self.daemon.port}"
        for origin, wanted in [(own, 200), ("http://evil.example", 403), ("null", 403), (None, 403)]:
            with self.subTest(origin=origin):
                headers = session if origin is None else {**session, "Origin": origin}
                self.assertEqual(self.daemon.request("POST", CALLER, "{}", headers)[0], wanted)
        foreign = {**session, "Origin": own, "Cookie": f"fulcrum-1={self.admin}"}
        self.assertEqual(self.daemon.request("POST", CALLER, "{}", foreign)[0], 401)

    def test_a_session_behind_a_proxy_with_tls_is_never_sent_without_it(self):
        headers = {"Content-Type": "application/json", "Host": "label.example", "Origin": "https://label.example"}
        for body, method in [(json.dumps({"token": self.admin}), "POST"), (None, "DELETE")]:
            status, answer, _ = self.daemon.request(method, "/session", body, headers)
            self.assertEqual(status, 200)
            self.assertIn("; Secure", answer["Set-Cookie"])
        self.assertNotIn("Secure", self.sign_in(self.admin)[1])

    def test_files_are_media_inside_the_folder_of_pools(self):
        status, headers, body = self.daemon.request("GET", "/files/dot.png", headers=self.bearer)
        self.assertEqual((status, headers["Content-Type"], body[:4]), (200, "image/png", b"\x89PNG"))
        self.assertIn("sandbox", headers["Content-Security-Policy"])
        self.assertEqual(self.daemon.request("GET", "/files/dot.png", headers={**self.bearer, "Range": "bytes=1-3"})[2], b"PNG")
        self.assertEqual(self.daemon.request("GET", "/files/dot.png")[0], 401)
        outside = self.daemon.pools.parent / "secret.png"
        outside.write_bytes(b"content of another folder")
        (self.daemon.pools / "link.png").symlink_to(outside)
        for path in ("pool.csv", "../secret.png", "%2e%2e/secret.png", "..%2fsecret.png", "/etc/x.png", "link.png", "dot.png%00"):
            with self.subTest(path=path):
                status, _, body = self.daemon.request("GET", f"/files/{path}", headers=self.bearer)
                self.assertIn(status, (400, 404))
                self.assertNotIn(b"content of another folder", body)

    def test_large_files_are_sent_in_parts_and_by_range(self):
        content = bytes(range(256)) * 20000  # five parts, the last one not whole
        (self.daemon.pools / "film.mp4").write_bytes(content)
        size = len(content)
        status, headers, body = self.daemon.request("GET", "/files/film.mp4", headers=self.bearer)
        self.assertEqual((status, headers["Accept-Ranges"], body == content), (200, "bytes", True))
        for given, first, last in [("bytes=0-", 0, size - 1), ("bytes=3000000-", 3000000, size - 1), ("bytes=5-9", 5, 9),
                                   ("bytes=1048570-3145733", 1048570, 3145733), (f"bytes={size - 3}-{size + 50}", size - 3, size - 1)]:
            with self.subTest(range=given):
                status, headers, body = self.daemon.request("GET", "/files/film.mp4", headers={**self.bearer, "Range": given})
                self.assertEqual((status, headers["Content-Range"]), (206, f"bytes {first}-{last}/{size}"))
                self.assertTrue(body == content[first:last + 1])
        # More than the 64 MiB that were once the limit, without holding them in memory: only the beginning is taken.
        with (self.daemon.pools / "long.mp4").open("wb") as file:
            file.truncate(3 << 30)
        request = f"GET /files/long.mp4 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.admin}\r\nRange: bytes=0-\r\n\r\n".encode()
        before = self.daemon.peak_memory()
        players = []
        for _ in range(20):
            player = socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30)
            player.sendall(request)
            players.append(player)
        for player in players:
            self.assertIn(b" 206 ", player.recv(20))
        self.assertLess(self.daemon.peak_memory() - before, 200 << 20)
        for player in players:
            player.close()
        self.assertEqual(self.daemon.request("GET", "/files/dot.png", headers=self.bearer)[0], 200)
        self.assertEqual(self.daemon.request("HEAD", "/files/dot.png", headers=self.bearer)[0], 405)

    def test_a_watch_sends_the_state_of_the_campaign(self):
        body = envelope({"campaign": "c"})
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30) as watch:
            watch.sendall((f"POST /fulcrum.v1.CampaignService/WatchCampaign HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.admin}\r\n"
                           f"Content-Type: application/connect+json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
            with watch.makefile("rb") as answer:
                while answer.readline().strip():
                    pass
                size = int(answer.readline(), 16)
                [(flags, message)] = open_envelopes(answer.read(size))
        self.assertEqual((flags, message["event"]["campaign"]["name"]), (0, "c"))

    def test_calls_are_counted_like_those_of_grpc(self):
        count = lambda: sum(int(float(value)) for value in re.findall(r'fulcrum_calls_total\{[^}]*GetCaller[^}]*\} (\S+)', self.daemon.metrics()))
        before = count()
        for _ in range(3):
            self.daemon.call("AccessService/GetCaller", headers=self.bearer)
        # A call is counted when it is over, which may be after its answer has arrived.
        for _ in range(1000):
            if count() >= before + 3:
                break
        self.assertEqual(count(), before + 3)

    def test_the_page_has_a_strict_policy(self):
        status, headers, body = self.daemon.request("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn(b"/app.js", body)
        self.assertIn("script-src 'self'", headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])
        self.assertEqual(self.daemon.request("GET", "/", headers={"If-None-Match": headers["ETag"]})[0], 304)

    def test_the_first_load_is_small(self):
        seen, waiting, size = set(), ["/"], 0
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            status, headers, body = self.daemon.request("GET", path, headers={"Accept-Encoding": "gzip"})
            self.assertEqual((status, headers["Content-Encoding"]), (200, "gzip"), path)
            size += len(body)
            text = gzip.decompress(body).decode()
            waiting += re.findall(r'(?:src|href)="(/[a-z]+\.(?:js|css))"', text) + ["/" + name for name in re.findall(r'from "\./([a-z]+\.js)"', text)]
        self.assertGreater(len(seen), 10)
        self.assertLess(size, 250_000)

    def test_a_pool_is_previewed_and_nothing_outside_of_its_folder(self):
        _, answer = self.daemon.call("PoolService/ListPoolFiles", headers=self.bearer)
        self.assertEqual([file["path"] for file in answer["files"]], ["pool.csv"])
        (self.daemon.pools / "mixed.csv").write_text("id,size,kind,note\n" + "".join(f"{i},{i % 9},{'ab'[i % 2]},n {i}\n" for i in range(30)))
        _, answer = self.daemon.call("PoolService/GetPoolPreview", {"sources": ["mixed.csv"], "labelColumn": "kind", "payloadColumn": "gone"}, self.bearer)
        self.assertEqual([(column["name"], column.get("role", "").replace("COLUMN_ROLE_", "")) for column in answer["columns"]],
                         [("id", "ID"), ("size", "FEATURE"), ("kind", "LABEL"), ("note", "FEATURE")])
        self.assertEqual([answer["rows"], answer["rowsKnown"]], ["30", True])
        self.assertEqual({one["value"]: one["rows"] for one in answer["classes"]}, {"a": "15", "b": "15"})
        warnings = " ".join(answer["warnings"])
        self.assertIn("there is no column 'gone'", warnings)
        self.assertIn("column 'note' would be a feature, and its values are not numbers, such as 'n 0'", warnings)
        self.assertTrue(answer["engine"])
        _, answer = self.daemon.call("PoolService/GetPoolPreview", {"sources": ["mixed.csv"], "ignoredColumns": ["note", "kind", "lost"]}, self.bearer)
        self.assertEqual([column["role"] for column in answer["columns"]],
                         ["COLUMN_ROLE_ID", "COLUMN_ROLE_FEATURE", "COLUMN_ROLE_IGNORED", "COLUMN_ROLE_IGNORED"])
        self.assertEqual(answer["features"], "1")
        self.assertIn("there is no column 'lost'", " ".join(answer["warnings"]))
        for source in ("../data", "/etc/passwd", "../pools/../data"):
            self.assertEqual(self.daemon.call("PoolService/GetPoolPreview", {"sources": [source]}, self.bearer)[0], 400)
            self.assertEqual(self.daemon.call("PoolService/ListPoolFiles", {"folder": source}, self.bearer)[0], 400)
        status, answer = self.daemon.call("PoolService/ListPoolFiles", headers={"Authorization": f"Bearer {self.annotator}"})
        self.assertEqual((status, answer["code"]), (403, "permission_denied"))

    def test_large_and_malformed_requests_are_refused(self):
        self.assertEqual(self.daemon.request("POST", CALLER, b" " * (7 << 20), {**JSON, **self.bearer})[0], 413)
        self.assertEqual(self.daemon.request("GET", "/", headers={"X": "x" * 20000})[0], 431)
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30) as raw:
            raw.sendall(b"this is not HTTP\r\n\r\n")
            self.assertIn(b" 400 ", raw.recv(1000))

    def test_a_client_that_sends_nothing_is_closed(self):
        with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30) as slow:
            slow.sendall(b"POST /session HTTP/1.1\r\n")
            self.assertEqual(slow.recv(1000), b"")  # after ten seconds
        self.assertEqual(self.daemon.call("AccessService/GetCaller", headers=self.bearer)[0], 200)

    def test_five_hundred_watches_are_open_at_once(self):
        head = (f"POST /fulcrum.v1.CampaignService/WatchCampaign HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.admin}\r\n"
                "Content-Type: application/connect+json\r\n").encode()
        body = envelope({"campaign": "c"})
        watches = []
        for _ in range(500):
            watch = socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30)
            watch.sendall(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            watches.append(watch)
        for watch in watches:
            self.assertIn(b" 200 ", watch.recv(20))
        self.assertEqual(self.daemon.call("AccessService/GetCaller", headers=self.bearer)[0], 200)
        for watch in watches:
            watch.close()


class Reports(unittest.TestCase):
    """Two annotators, who disagree about some examples, and a pool with two clusters."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = WebDaemon("--no-tokens").start()
        rows = [(f"i{i}", 10 * (i % 2) + (i * 7 % 5) / 5, (i * 11 % 7) / 7) for i in range(200)]
        (cls.daemon.pools / "pool.csv").write_text("id,x,y\n" + "".join(f"{name},{x},{y}\n" for name, x, y in rows))
        cls.daemon.create_campaign({"name": "c", "pool": {"sources": ["pool.csv"], "idColumn": "id"}, "classes": ["left", "right"],
                                    "selection": {"batch": 5}, "labeling": {"overlap": 2, "mostVotes": 2}})
        cls.given = {}
        for turn in range(20):
            for name in ("ann", "bob"):
                _, answer = cls.daemon.call("LabelingService/AcquireTasks", {
                    "campaign": "c", "annotator": name, "requestId": f"a{turn}{name}", "maxTasks": 1, "wait": "10s"})
                for task in answer.get("tasks", []):
                    number = int(task["itemId"][1:])
                    value = ["left", "right"][(number + (name == "bob" and number % 6 == 0)) % 2]
                    cls.given[name, task["itemId"]] = value
                    cls.daemon.call("LabelingService/SubmitLabels", {"campaign": "c", "annotator": name, "requestId": f"s{turn}{name}", "labels": [
                        {"lease": {"leaseId": task["leaseId"], "epoch": task["epoch"]}, "itemId": task["itemId"], "value": value}]})

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0, "the daemon does not stop in order"
        cls.daemon.folder.cleanup()

    def test_labels_are_summed_up(self):
        _, report = self.daemon.call("ReportService/GetLabelReport", {"campaign": "c"})
        count = lambda test: sum(1 for who, value in self.given.items() if test(who, value))
        self.assertEqual(int(report["labels"]), len(self.given))
        self.assertEqual({one["value"]: int(one.get("labels", 0)) for one in report["classes"]},
                         {value: count(lambda _, given: given == value) for value in ("left", "right")})
        self.assertEqual({one["annotator"]: int(one["labels"]) for one in report["annotators"]},
                         {name: count(lambda who, _: who[0] == name) for name in ("ann", "bob")})
        last = report["periods"][-1]
        self.assertEqual(sum(int(one) for one in last["classes"]), len(self.given))
        self.assertEqual(sum(int(one) for one in last["annotators"]), len(self.given))
        shared = [item for name, item in self.given if name == "ann" and ("bob", item) in self.given]
        agree = sum(1.0 if self.given["ann", item] == self.given["bob", item] else 0.5 for item in shared)
        self.assertEqual(int(report["sharedItems"]), len(shared))
        self.assertAlmostEqual(report["agreement"], agree / len(shared))
        self.assertGreater(sum(int(one["items"]) for one in report["calibration"]), 0)

    def test_the_picture_separates_the_clusters(self):
        _, picture = self.daemon.call("ReportService/GetPoolMap", {"campaign": "c"})
        points = {point["itemId"]: point for point in picture["points"]}
        self.assertEqual(len(points), 200)
        self.assertNotIn("density", picture)
        sides = [{points[f"i{i}"].get("x", 0) > 0 for i in range(start, 200, 2)} for start in (0, 1)]
        self.assertEqual([len(side) for side in sides], [1, 1])
        self.assertNotEqual(sides[0], sides[1])
        _, items = self.daemon.call("ItemService/ListItems", {"campaign": "c", "state": "ITEM_STATE_LABELED", "pageSize": 1000})
        self.assertEqual({name for name, point in points.items() if point.get("label")}, {item["itemId"] for item in items["items"]})
        self.assertEqual(sum(1 for point in points.values() if point.get("selected")), 5)

    def test_the_picture_has_the_leverage_of_a_strategy_without_scores(self):
        self.daemon.create_campaign({"name": "plain", "pool": {"sources": ["pool.csv"], "idColumn": "id"}, "classes": ["left", "right"],
                                     "features": {"normalize": ["NORMALIZATION_NONE"]}, "selection": {"kernel": {"type": "TYPE_RBF", "sigma": 0.5}}})
        _, picture = self.daemon.call("ReportService/GetPoolMap", {"campaign": "plain"})
        rows = numpy.array([(10 * (i % 2) + (i * 7 % 5) / 5, (i * 11 % 7) / 7) for i in range(200)])
        kernel = numpy.exp(-((rows[:, None] - rows[None]) ** 2).sum(axis=2) / 0.5 ** 2)
        values, vectors = numpy.linalg.eigh(kernel)
        values, vectors = values[::-1], vectors[:, ::-1]
        # The leading eigenvectors with half of the trace; all rows are landmarks, so that the scores are exact.
        rank = int(numpy.searchsorted(numpy.cumsum(values), 0.5 * values.sum() * (1 - 1e-12))) + 1
        exact = (vectors[:, :rank] ** 2).sum(axis=1)
        shown = {point["itemId"]: point.get("leverage", 0) for point in picture["points"]}
        numpy.testing.assert_allclose([shown[f"i{i}"] for i in range(200)], exact, rtol=1e-3, atol=1e-6)

    def test_a_large_pool_is_shown_as_density(self):
        _, picture = self.daemon.call("ReportService/GetPoolMap", {"campaign": "c", "maxPoints": 60})
        self.assertIn(len(picture["points"]), range(30, 61))
        self.assertEqual(sum(cell["count"] for cell in picture["density"]["cells"]), 200)

    def test_items_are_searched(self):
        _, answer = self.daemon.call("ItemService/ListItems", {"campaign": "c", "state": "ITEM_STATE_UNLABELED", "search": "I19"})
        self.assertTrue(answer["items"])
        self.assertTrue(all("i19" in item["itemId"] for item in answer["items"]))
        _, answer = self.daemon.call("ItemService/ListItems", {"campaign": "c", "search": "BOB", "pageSize": 1000})
        self.assertEqual({item["itemId"] for item in answer["items"]}, {item for name, item in self.given if name == "bob"})
        self.assertEqual(self.daemon.call("ItemService/ListItems", {"campaign": "c", "search": "x" * 201})[0], 400)

    def test_models_have_the_times_of_their_stages(self):
        status, _, body = self.daemon.request("POST", "/fulcrum.v1.CampaignService/GetModel", envelope({"campaign": "c"}),
                                              {"Content-Type": "application/connect+json"})
        self.assertEqual(status, 200)
        stages = open_envelopes(body)[0][1]["description"]["trained"]["effort"]["stages"]
        self.assertLessEqual({"STAGE_TUNE", "STAGE_TRAIN", "STAGE_PREDICT", "STAGE_SELECT"}, {one["stage"] for one in stages})


class WithTls(unittest.TestCase):
    def test_a_session_over_tls_is_never_sent_without_it(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = f"{folder}/server.pem", f"{folder}/server.key"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                            "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
            daemon = WebDaemon("--tls-cert", certificate, "--tls-key", key).start()
            token = daemon.token("ada", "admin")
            connection = http.client.HTTPSConnection("127.0.0.1", daemon.port, timeout=30, context=ssl.create_default_context(cafile=certificate))
            connection.request("POST", "/session", json.dumps({"token": token}), {**JSON, "Origin": f"https://127.0.0.1:{daemon.port}"})
            answer = connection.getresponse()
            cookie = answer.headers["Set-Cookie"]
            answer.read()
            for attribute in ("__Host-", "HttpOnly", "SameSite=Strict", "; Secure", "Path=/"):
                self.assertIn(attribute, cookie)
            connection.request("POST", CALLER, "{}", {**JSON, "Cookie": cookie.split(";")[0], "Origin": f"https://127.0.0.1:{daemon.port}"})
            self.assertEqual(json.loads(connection.getresponse().read())["caller"], "ada")
            connection.close()
            with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertNotIn(b" 200 ", plain.recv(1000))
            self.assertEqual(daemon.stop(), 0)
            daemon.folder.cleanup()


class Log(unittest.TestCase):
    def test_the_log_names_the_client_of_a_call_over_http(self):
        daemon = WebDaemon().start()
        self.addCleanup(daemon.folder.cleanup)
        bearer = {"Authorization": f"Bearer {daemon.token('ada', 'admin')}"}
        (daemon.pools / "pool.csv").write_text("x\n" + "".join(f"{i % 7}\n" for i in range(60)))
        daemon.create_campaign({"name": "c", "pool": {"sources": ["pool.csv"]}, "classes": ["0", "1"]}, bearer)
        # Nobody else can say where a call comes from.
        daemon.call("CampaignService/PauseCampaign", {"campaign": "c"}, {**bearer, "fulcrum-origin": "x/10.0.0.1"})
        daemon.call("CampaignService/PauseCampaign", {"campaign": "c"}, {"Authorization": "Bearer fulcrum_wrong"})
        self.assertEqual(daemon.stop(), 0)
        entries = [json.loads(line) for line in daemon.log.splitlines() if line.startswith("{")]
        calls = [entry for entry in entries if entry["message"] == "admin call"]
        self.assertLessEqual({"CreateCampaign", "StartCampaign", "PauseCampaign"}, {entry["call"] for entry in calls})
        refused = [entry for entry in entries if entry["message"] == "call refused"]
        self.assertEqual(len(refused), 1)
        self.assertEqual({entry["from"] for entry in calls + refused}, {"http:127.0.0.1"})


class WithoutTokens(unittest.TestCase):
    def test_only_pages_of_this_server_reach_it(self):
        daemon = WebDaemon("--no-tokens").start()
        self.assertEqual(daemon.request("POST", CALLER, "{}", JSON)[0], 200)
        # A site that lets its name point to this machine, and a form of another site.
        self.assertEqual(daemon.request("POST", CALLER, "{}", {**JSON, "Host": "evil.example", "Origin": "http://evil.example"})[0], 403)
        self.assertEqual(daemon.request("POST", CALLER, "{}", {**JSON, "Origin": "http://evil.example"})[0], 403)
        self.assertEqual(daemon.stop(), 0)
        daemon.folder.cleanup()


if __name__ == "__main__":
    unittest.main()
