"""Streams written by hand. The references are the Arrow of the daemon, and pyarrow where it is installed."""

import io
import random
import threading
import unittest
from unittest import mock

import numpy

import fulcrum
from fulcrum import api, arrow_stream
from fulcrum.arrow_stream import Column, array_columns, frame_columns, write_stream
from support import DaemonTest


def stream(columns):
    out = io.BytesIO()
    write_stream(columns, out)
    return out.getvalue()


class DaemonReadsTest(DaemonTest):
    def test_the_daemon_reads_the_values_that_were_written(self):
        """Features as a model process gets them, payloads and ids as annotators do, in many record batches."""
        pandas = self.need("pandas")
        numbers = numpy.random.RandomState(4)
        rows = numbers.normal(size=(500, 5)).astype("f4")
        texts = [None if row % 7 == 3 else "é" * (row % 11) + f" {row}" for row in range(500)]
        frame = pandas.DataFrame(rows, columns=list("abcde"))
        frame["whole"] = numbers.randint(-9, 9, size=500)
        frame["wide"] = numbers.normal(size=500)
        frame["text"] = texts
        frame.index = [f"row {row}" for row in range(500)]
        with mock.patch.object(arrow_stream, "_BATCH_BYTES", 4000):
            campaign = self.client.create_campaign("frame", frame, ["yes", "no"], payload_column="text",
                                                   stop={"rounds": 3}, selection={"batch": 60}, seed=1,
                                                   classifier={"external": {}})
        seen, payloads = [], {}

        class Reads:
            def fit(self, matrix, labels):
                self.classes_ = sorted(set(labels))

            def predict_proba(self, matrix):
                seen.append(numpy.array(matrix))
                return numpy.full((len(matrix), len(self.classes_)), 1 / len(self.classes_))

        def label(task):
            payloads[task.id] = task.payload.decode()
            return "yes" if len(payloads) % 2 else "no"

        labeling = threading.Thread(target=fulcrum.Worker(self.client, campaign, label).run, daemon=True)
        labeling.start()
        fulcrum.ModelWorker(self.client, campaign, Reads()).run()
        labeling.join(60)
        numpy.testing.assert_array_equal(seen[0], numpy.column_stack([rows, frame["whole"], frame["wide"]]).astype("f4"))
        self.assertGreaterEqual(len(payloads), 120)
        for name, payload in payloads.items():
            self.assertEqual(payload, texts[int(name.split()[1])] or "")
        with mock.patch.object(arrow_stream, "_BATCH_BYTES", 4000):
            idle = self.client.create_campaign("idle", frame, ["yes", "no"], payload_column="text", start=False)
            added = idle.append(frame[490:].rename(index=lambda name: "more " + name))
        self.assertEqual((added["added"], added["pool_rows"]), (10, 510))


class ModelInArrowTest(DaemonTest):
    """A process with a model that exchanges Arrow batches with the daemon, in both directions."""

    def setUp(self):
        super().setUp()
        self.X = numpy.random.RandomState(4).normal(size=(400, 7)).astype("f4")
        self.ids = [f"r{row}" for row in range(400)]
        self.campaign = self.client.create_campaign(
            "arrow", self.X, ["neg", "pos"], ids=self.ids, start=False, selection={"strategy": "margin", "batch": 5},
            classifier={"external": {"lease_time": "1h"}})
        self.campaign.import_labels({f"r{row}": ("neg", "pos")[row % 2] for row in range(20)})
        self.campaign.start()
        self.task = self.client.connection.call("AcquireModelTask", self.request(
            "AcquireModelTask", process="arrow", request_id="acquire", wait={"seconds": 60})).task

    def request(self, method, **fields):
        return api.message(f"fulcrum.v1.{method}Request")(campaign="arrow", **fields)

    def submit(self, *streams):
        message = api.message("fulcrum.v1.SubmitPredictionsRequest")
        begin = {"campaign": "arrow", "process": "arrow", "request_id": f"submit {hash(streams)}",
                 "lease_id": self.task.lease_id, "epoch": self.task.epoch}
        parts = [message(begin=begin), *(message(arrow=each) for each in streams), message(end=True)]
        return self.client.connection.send("SubmitPredictions", lambda: iter(parts))

    def test_rows_and_probabilities_are_arrow_batches(self):
        arrow = api.enum_value("fulcrum.v1.RowFormat", "ROW_FORMAT_ARROW")
        parts = list(self.client.connection.stream("GetModelRows", self.request(
            "GetModelRows", task_id=self.task.task_id, first_row=3, format=arrow)))
        ends = [part.first_row for part in parts[1:]] + [400]
        self.assertEqual(parts[0].first_row, 3)
        for part, end in zip(parts, ends):
            # The lists of 32-bit floats of a batch are one buffer; the ids are another one.
            self.assertIn(self.X[part.first_row:end].astype("<f4").tobytes(), part.arrow)
            self.assertIn("".join(self.ids[part.first_row:end]).encode(), part.arrow)
            self.assertTrue(part.arrow.startswith(b"\xff\xff\xff\xff"))
        positive = numpy.random.RandomState(5).uniform(0.01, 0.99, size=400)
        # Columns in another order, of both kinds, over two streams, one of them with ids.
        first = [Column("id", self.ids[:150]), Column("pos", positive[:150]), Column("neg", 1 - positive[:150])]
        second = [Column("neg", (1 - positive[150:]).astype("f4")), Column("pos", positive[150:].astype("f4"))]
        with mock.patch.object(arrow_stream, "_BATCH_BYTES", 1000):
            self.assertFalse(self.submit(stream(first), stream(second)).late)
        task = self.client.connection.call("AcquireTasks", self.request(
            "AcquireTasks", annotator="a", request_id="a", max_tasks=5, wait={"seconds": 60})).tasks
        free = numpy.arange(20, 400)
        expected = free[numpy.argsort(numpy.abs(positive[free] - 0.5), kind="stable")][:5]
        self.assertEqual({each.item_id for each in task}, {f"r{row}" for row in expected})
        found = self.rows(self.campaign.predict(self.ids))
        numpy.testing.assert_allclose([row["probability pos"] for row in found], positive, atol=1e-6)

    def test_batches_that_do_not_fit_are_refused(self):
        half = numpy.full(400, 0.5)
        names = list(self.ids)
        names[7], names[8] = names[8], names[7]
        for columns, pattern in (
                ([Column("id", names), Column("neg", half), Column("pos", half)], "row 7: its id is 'r8'"),
                ([Column("neg", ["0.5"] * 400), Column("pos", half)], "'neg' is of the type string"),
                ([Column("neg", half)], "pos"),
                ([Column("neg", half), Column("pos", 2 * half)], "row 0"),
                ([Column("neg", half[:399]), Column("pos", half[:399])], "399")):
            with self.subTest(pattern), self.assertRaises(fulcrum.FulcrumError) as refused:
                self.submit(stream(columns))
            self.assertEqual(refused.exception.code, "INVALID_ARGUMENT")
            self.assertRegex(refused.exception.message, pattern)


class PyarrowReadsTest(unittest.TestCase):
    def setUp(self):
        try:
            import pyarrow
            import pyarrow.ipc
        except ImportError:
            self.skipTest("pyarrow is not installed")
        self.pyarrow = pyarrow

    def read(self, columns):
        table = self.pyarrow.ipc.open_stream(stream(columns)).read_all()
        table.validate(full=True)
        return table

    def test_columns_of_every_kind_in_batches_of_every_size(self):
        numbers = random.Random(1)
        for batch_bytes in (1, 100, 5000, 1 << 20):
            rows = numbers.randrange(1, 300)
            columns = [
                Column("text ü", [None if numbers.random() < 0.2 else "ö" * numbers.randrange(9) for _ in range(rows)]),
                Column("bytes", [None if numbers.random() < 0.2 else bytes(numbers.randrange(9)) for _ in range(rows)]),
                Column("whole", numpy.arange(rows) - 5), Column("", numpy.arange(rows, dtype="f4") / 7),
                Column("wide", numpy.arange(rows) / 7), Column("strided", numpy.arange(3 * rows).reshape(rows, 3)[:, 1] / 3)]
            with self.subTest(batch_bytes), mock.patch.object(arrow_stream, "_BATCH_BYTES", batch_bytes):
                table = self.read(columns)
                self.assertEqual(table.num_rows, rows)
                self.assertEqual(table.column_names, [column.name for column in columns])
                for place, column in enumerate(columns):
                    values = column.values if isinstance(column.values, list) else column.values.tolist()
                    self.assertEqual(table.column(place).to_pylist(), values)

    def test_arrays_of_every_type(self):
        X = numpy.random.RandomState(2).uniform(0, 99, size=(40, 3))
        for kind in ("f2", "f4", "f8", ">f8", "u1", "i8", "?"):
            array = X.astype(kind)
            table = self.read(array_columns(array, range(40)))
            self.assertEqual(table.column("id").to_pylist(), [str(row) for row in range(40)])
            numpy.testing.assert_array_equal(numpy.column_stack([table.column(f"f{place}") for place in range(3)]), array)

    def test_frames_are_what_pyarrow_makes_of_them(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 2], "c": ["x", None, "z"], "d": [b"\0", None, b"zz"],
                                  5: numpy.array([1, 2, 3], "f4")})
        theirs = self.pyarrow.Table.from_pandas(frame.rename(columns=str), preserve_index=False)
        ours = self.read(frame_columns(frame, None))
        # Which of its types of text pyarrow takes depends on the release of pandas.
        self.assertEqual([str(each) for each in ours.schema.types],
                         [str(each).replace("large_", "") for each in theirs.schema.types])
        self.assertEqual(ours.drop(["b"]).to_pydict(), theirs.drop(["b"]).to_pydict())


if __name__ == "__main__":
    unittest.main()
