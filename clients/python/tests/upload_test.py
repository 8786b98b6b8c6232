"""Pools of every kind as files, without a server, and what the server says of values that it cannot use."""

import decimal
import io
import unittest

import numpy

import fulcrum
from fulcrum.arrow_stream import frame_columns
from fulcrum.upload import as_file
from support import DaemonTest


def written(rows, ids=None):
    """The bytes of the file."""
    with as_file(rows, ids) as path, open(path, "rb") as file:
        return file.read()


class ArraysTest(unittest.TestCase):
    def test_every_layout_and_type_of_the_same_numbers_gives_the_same_file(self):
        rows = numpy.arange(12, dtype="f4").reshape(4, 3)
        wide = numpy.zeros((8, 6), "f4")
        wide[::2, ::2] = rows
        expected = written(rows)
        for name, same in {"Fortran order": numpy.asfortranarray(rows), "strided": wide[::2, ::2],
                           "reversed": rows[::-1, ::-1][::-1, ::-1], "small integers": rows.astype("i2"),
                           "half floats": rows.astype("f2")}.items():
            with self.subTest(name):
                self.assertEqual(written(same), expected)
        expected = written(rows.astype("f8"))
        for name, same in {"integers": rows.astype("i8"), "big endian": rows.astype(">f8"), "lists": rows.tolist(),
                           "objects": rows.astype(object), "texts": rows.astype(str)}.items():
            with self.subTest(name):
                self.assertEqual(written(same), expected)

    def test_what_is_no_number_is_named_with_its_place(self):
        rows = numpy.ones((3, 2), object)
        rows[2, 1] = "cat"
        for bad, text in ((rows, r"column 1 \(counted from 0\) has 'cat' in row 2"),
                          ([[1, 2], [3, "x"]], "column 1 .* has 'x' in row 1"),
                          (numpy.zeros((2, 2), "M8[s]"), "column 0 .* in row 0"), (numpy.zeros((2, 2), complex), "column 0"),
                          ([[1, 2], [3]], "row 1 has 1 features, and the rows before it 2"),
                          (numpy.zeros(3), r"two dimensions, .* not the shape \(3,\)"),
                          (numpy.zeros((0, 3)), "no rows"), ([], "no rows")):
            with self.assertRaisesRegex(ValueError, text):
                written(bad)
        with self.assertRaisesRegex(ValueError, "there are 1 ids and 3 rows"):
            written(numpy.zeros((3, 2)), ids=["a"])
        for bad in (5, {"a": [1]}, iter([numpy.zeros((2, 2))])):
            with self.assertRaisesRegex(TypeError, "a pool is a data frame, an array"):
                written(bad)

    def test_masked_values_are_missing(self):
        masked = numpy.ma.masked_array([[1.0, 2.0]], mask=[[False, True]])
        self.assertEqual(written(masked), written(numpy.array([[1.0, numpy.nan]])))


class FramesTest(unittest.TestCase):
    def setUp(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        self.pandas = pandas

    def values(self, values, **options):
        column, = frame_columns(self.pandas.DataFrame({"a": self.pandas.Series(values, **options)}), None)
        return column.values

    def test_columns_of_numbers(self):
        nan = numpy.nan
        for values, dtype, expected in (
                ([True, False], bool, [1, 0]), ([1, None], "Int64", [1, nan]), ([True, None], "boolean", [1, nan]),
                ([1, 2.5, decimal.Decimal("3.5")], object, [1, 2.5, 3.5]), ([1, None, 2], object, [1, nan, 2]),
                ([2**63 + 2**20, 1], "u8", [2**63 + 2**20, 1]), ([1.5, nan], "f4", [1.5, nan]),
                ([1, 2], self.pandas.CategoricalDtype(), [1, 2])):
            with self.subTest(dtype):
                found = self.values(values, dtype=dtype)
                self.assertIn(found.dtype.kind, "if")
                numpy.testing.assert_array_equal(found, expected)

    def test_columns_of_text(self):
        self.assertEqual(self.values(["x", "y"], dtype="category"), ["x", "y"])
        self.assertEqual(self.values(["x", None], dtype=object), ["x", None])
        self.assertEqual(self.values(["x", b"y"], dtype=object), [b"x", b"y"])

    def test_a_column_of_lists(self):
        rows = numpy.arange(6.0).reshape(3, 2)
        for given in (list(rows), rows.tolist(), [tuple(row) for row in rows.tolist()]):
            found = self.values(given, dtype=object)
            numpy.testing.assert_array_equal(found.values, rows.ravel())
            numpy.testing.assert_array_equal(found.ends, [0, 2, 4, 6])
        with self.assertRaisesRegex(ValueError, r"column 'a' has \[3\] in row 1, and a list of 2 numbers in row 0"):
            self.values([[1, 2], [3]], dtype=object)
        with self.assertRaisesRegex(ValueError, "column 'a'.* has 'x' in row 1"):
            self.values([[1, 2], [3, "x"]], dtype=object)

    def test_a_single_column_is_no_pool(self):
        with self.assertRaisesRegex(TypeError, "to_frame"):
            written(self.pandas.Series([1, 2]))


class ArrowTest(unittest.TestCase):
    def setUp(self):
        try:
            import pyarrow
            import pyarrow.ipc
        except ImportError:
            self.skipTest("pyarrow is not installed")
        self.pyarrow = pyarrow

    def test_tables_batches_readers_and_generators_are_the_same(self):
        table = self.pyarrow.table({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]})
        batch, = table.to_batches()
        reader = self.pyarrow.RecordBatchReader.from_batches(table.schema, [batch])
        for given in (table, batch, [batch], (each for each in [batch]), reader):
            with self.subTest(type(given).__name__):
                read = self.pyarrow.ipc.open_stream(io.BytesIO(written(given))).read_all()
                self.assertEqual(read, table)


class RefusedTest(DaemonTest):
    def refused(self, rows, **options):
        with self.assertRaises(fulcrum.FulcrumError) as refused:
            self.client.create_campaign("refused", rows, ["yes", "no"], **options)
        return refused.exception.message

    def test_the_server_names_the_column_and_the_row(self):
        rows = numpy.ones((6, 3))
        rows[4, 1] = numpy.nan
        message = self.refused(rows)
        self.assertRegex(message, "'?f1'?")
        self.assertRegex(message, "row 4")
        pandas = self.need("pandas")
        frame = pandas.DataFrame({"size": [1.0, 2, 3], "color": pandas.Categorical(["red", "green", "red"]),
                                  "seen": pandas.to_datetime(["2024-01-01"] * 3)})
        message = self.refused(frame)
        self.assertRegex(message, "color|seen")
        twice = pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["a", "a"])
        self.assertRegex(self.refused(twice), "'a'")
        same = pandas.DataFrame({"a": [1.0, 2.0], "name": ["x", "x"]})
        self.assertRegex(self.refused(same, id_column="name"), r"row 1, column 'id': .* \(x\)")

    def test_a_frame_with_a_column_of_embeddings(self):
        pandas = self.need("pandas")
        rows = numpy.random.RandomState(3).normal(size=(60, 4))
        truth = ["yes" if row[0] > 0 else "no" for row in rows]
        frame = pandas.DataFrame({"name": [f"n{row}" for row in range(60)], "vector": list(rows)})
        campaign = self.client.create_campaign("vectors", frame, ["yes", "no"], id_column="name", stop={"labels": 20})
        fulcrum.Worker(self.client, campaign, lambda task: truth[int(task.id[1:])]).run()
        by_frame, by_id = campaign.predict(frame), campaign.predict(list(frame["name"]))
        self.assertEqual(self.rows(by_frame), self.rows(by_id))


if __name__ == "__main__":
    unittest.main()
