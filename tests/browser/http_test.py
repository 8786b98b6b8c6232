#!/usr/bin/env python3
"""The API as JSON over HTTP: the Connect protocol, sessions, and what must be refused."""
import base64
import json
import socket
import struct
import unittest

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

    def test_files_are_media_inside_the_folder_of_pools(self):
        status, headers, body = self.daemon.request("GET", "/files/dot.png", headers=self.bearer)
        self.assertEqual((status, headers["Content-Type"], body[:4]), (200, "image/png", b"\x89PNG"))
        self.assertIn("sandbox", headers["Content-Security-Policy"])
        self.assertEqual(self.daemon.request("GET", "/files/dot.png", headers={**self.bearer, "Range": "bytes=1-3"})[2], b"PNG")
        self.assertEqual(self.daemon.request("GET", "/files/dot.png")[0], 401)
        outside = self.daemon.pools.parent / "secret.png"
        outside.write_bytes(b"secret")
        (self.daemon.pools / "link.png").symlink_to(outside)
        for path in ("pool.csv", "../secret.png", "%2e%2e/secret.png", "..%2fsecret.png", "/etc/x.png", "link.png", "dot.png%00"):
            with self.subTest(path=path):
                status, _, body = self.daemon.request("GET", f"/files/{path}", headers=self.bearer)
                self.assertIn(status, (400, 404))
                self.assertNotIn(b"secret\n", body)

    def test_the_page_has_a_strict_policy(self):
        status, headers, body = self.daemon.request("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn(b"/app.js", body)
        self.assertIn("script-src 'self'", headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])
        self.assertEqual(self.daemon.request("GET", "/", headers={"If-None-Match": headers["ETag"]})[0], 304)

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
