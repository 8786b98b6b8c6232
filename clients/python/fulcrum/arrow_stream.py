"""Arrow IPC streams of arrays and data frames, written without pyarrow.

Only what pools need: columns of 32-bit and 64-bit floats and integers, lists of these, text and bytes. The format is that of
https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format; its metadata are FlatBuffers.
"""

import struct
from typing import Any, BinaryIO, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy

_BATCH_BYTES = 16 << 20
_VERSION_5, _SCHEMA, _RECORD_BATCH = 4, 1, 3
_INT, _FLOAT, _BINARY, _UTF8, _LIST = 2, 3, 4, 5, 12


class Lists:
    """Lists of numbers: list i is values[ends[i]:ends[i + 1]]."""

    def __init__(self, ends: Any, values: Any):
        self.ends = ends
        self.values = values

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, rows: slice) -> "Lists":
        return Lists(self.ends[rows.start:rows.stop + 1], self.values)


class Column(NamedTuple):
    """A column: its name, and its values as an array of floats or integers of 32 or 64 bits, as Lists of these, or as a list
    of str, or of bytes, with None for missing ones."""

    name: str
    values: Any


class _FlatBuffer:
    """Writes a FlatBuffer from its end to its beginning. Places are distances from the end."""

    def __init__(self) -> None:
        self._reversed = bytearray()

    def _align(self, size: int, following: int = 0) -> None:
        self._reversed.extend(b"\0" * (-(len(self._reversed) + following) % size))

    def _put(self, form: str, *values: Any) -> None:
        self._reversed.extend(reversed(struct.pack("<" + form, *values)))

    def _put_offset(self, place: int) -> None:
        self._align(4)
        self._put("I", len(self._reversed) + 4 - place)

    def text(self, text: str) -> int:
        data = text.encode() + b"\0"
        self._align(4, len(data))
        self._reversed.extend(reversed(data))
        self._put("I", len(data) - 1)
        return len(self._reversed)

    def offsets(self, places: Sequence[int]) -> int:
        self._align(4)
        for place in reversed(places):
            self._put_offset(place)
        self._put("I", len(places))
        return len(self._reversed)

    def pairs(self, pairs: Sequence[Tuple[int, int]]) -> int:
        """A vector of structures of two 64-bit numbers."""
        self._align(8)
        for pair in reversed(pairs):
            self._put("qq", *pair)
        self._put("I", len(pairs))
        return len(self._reversed)

    def table(self, *fields: Tuple[str, Any]) -> int:
        """A table. A field is its form, as of struct or "offset", and its value; None leaves it out."""
        end, places = len(self._reversed), [0] * len(fields)
        sizes = [4 if form == "offset" else struct.calcsize(form) for form, _ in fields]
        for number in sorted(range(len(fields)), key=lambda number: -sizes[number]):
            form, value = fields[number]
            if value is None:
                continue
            if form == "offset":
                self._put_offset(value)
            else:
                self._align(sizes[number])
                self._put(form, value)
            places[number] = len(self._reversed)
        self._align(4)
        own = len(self._reversed) + 4
        # The table begins with the distance of its list of places, which comes before it.
        self._put("i", 4 + 2 * len(fields))
        self._put(f"{2 + len(fields)}H", 4 + 2 * len(fields), own - end, *(own - place if place else 0 for place in places))
        return own

    def finish(self, root: int) -> bytes:
        self._align(8, 4)
        self._put_offset(root)
        return bytes(reversed(self._reversed))


def _message(kind: int, header: int, flat: _FlatBuffer, body_bytes: int) -> bytes:
    message = flat.finish(flat.table(("h", _VERSION_5), ("B", kind), ("offset", header), ("q", body_bytes)))
    message += b"\0" * (-len(message) % 8)
    return struct.pack("<Ii", 0xFFFFFFFF, len(message)) + message


def _type_of(values: Any, flat: _FlatBuffer) -> Tuple[int, int]:
    if isinstance(values, Lists):
        return _LIST, flat.table()
    if isinstance(values, list):
        kind = _BINARY if any(isinstance(each, bytes) for each in values) else _UTF8
        return kind, flat.table()
    if values.dtype.kind == "i":
        return _INT, flat.table(("i", 8 * values.dtype.itemsize), ("B", 1))
    return _FLOAT, flat.table(("h", 1 if values.dtype == numpy.float32 else 2))


def _field(column: Column, flat: _FlatBuffer) -> int:
    inside = [_field(Column("item", column.values.values), flat)] if isinstance(column.values, Lists) else []
    name, children = flat.text(column.name), flat.offsets(inside)
    kind, type_place = _type_of(column.values, flat)
    return flat.table(("offset", name), ("B", 1), ("B", kind), ("offset", type_place), ("offset", None),
                      ("offset", children))


def _schema(columns: Sequence[Column]) -> bytes:
    flat = _FlatBuffer()
    fields = [_field(column, flat) for column in columns]
    return _message(_SCHEMA, flat.table(("h", 0), ("offset", flat.offsets(fields))), flat, 0)


def _buffers(values: Any) -> Tuple[List[Tuple[int, int]], List[bytes]]:
    """The numbers of values and of missing ones, of lists also those of their elements, and the buffers: validity,
    offsets of texts and lists, values."""
    if isinstance(values, Lists):
        begin, end = int(values.ends[0]), int(values.ends[-1])
        nodes, buffers = _buffers(values.values[begin:end])
        return [(len(values), 0), *nodes], [b"", (values.ends - begin).astype("<i4").tobytes(), *buffers]
    if not isinstance(values, list):
        return [(len(values), 0)], [b"", numpy.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()]
    data = [b"" if each is None else each.encode() if isinstance(each, str) else each for each in values]
    there = numpy.array([each is not None for each in values], bool)
    missing = len(values) - int(there.sum())
    ends = numpy.concatenate([[0], numpy.cumsum([len(each) for each in data])])
    validity = numpy.packbits(there, bitorder="little").tobytes() if missing else b""
    return [(len(values), missing)], [validity, ends.astype("<i4").tobytes(), b"".join(data)]


def _batch(columns: Sequence[Column], first: int, last: int) -> Iterator[bytes]:
    nodes: List[Tuple[int, int]] = []
    places, body = [], []
    size = 0
    for column in columns:
        counts, buffers = _buffers(column.values[first:last])
        nodes += counts
        for buffer in buffers:
            places.append((size, len(buffer)))
            body += [buffer, b"\0" * (-len(buffer) % 8)]
            size += len(buffer) + -len(buffer) % 8
    flat = _FlatBuffer()
    header = flat.table(("q", last - first), ("offset", flat.pairs(nodes)), ("offset", flat.pairs(places)))
    yield _message(_RECORD_BATCH, header, flat, size)
    yield from body


def _bytes(values: Any) -> int:
    """About the size of a column."""
    if isinstance(values, Lists):
        return 8 * len(values) + int(values.values.nbytes)
    return sum(16 + len(each or "") for each in values) if isinstance(values, list) else 8 * len(values)


def write_stream(columns: Sequence[Column], out: BinaryIO) -> None:
    """Writes columns of the same length as an Arrow IPC stream."""
    rows = len(columns[0].values) if columns else 0
    out.write(_schema(columns))
    row_bytes = sum(_bytes(column.values) // max(1, rows) for column in columns)
    at_once = max(1, _BATCH_BYTES // max(1, row_bytes))
    for first in range(0, rows, at_once):
        for part in _batch(columns, first, min(first + at_once, rows)):
            out.write(part)
    out.write(struct.pack("<Ii", 0xFFFFFFFF, 0))


def as_numbers(rows: Any, names: Optional[Sequence[Any]] = None) -> Any:
    """An array of numbers with two dimensions; masked values are nan. ValueError names the first value that is not a number, its
    column by its name if there are `names`."""
    array = rows.filled(numpy.nan) if isinstance(rows, numpy.ma.MaskedArray) and rows.dtype.kind == "f" else numpy.asarray(rows)
    if array.ndim != 2:
        raise ValueError(f"an array must have two dimensions, rows and features, not the shape {array.shape}")
    if array.dtype.kind in "fiub":
        return array
    if array.dtype.kind in "OUS":
        try:
            return array.astype(numpy.float64)
        except (TypeError, ValueError):
            pass
    for row, column in numpy.ndindex(*array.shape):
        try:
            if array.dtype.kind in "OUS":
                float(array[row, column])
                continue
        except (TypeError, ValueError):
            pass
        called = f"column {names[column]!r}" if names is not None else f"column {column} (counted from 0)"
        value = array[row, column].item() if hasattr(array[row, column], "item") else array[row, column]
        raise ValueError(f"{called} has {value!r} in row {row}: features must be numbers; convert the column, or "
                         "leave it out")
    return array.astype(numpy.float64)


def array_columns(rows: Any, ids: Optional[Sequence[Any]]) -> List[Column]:
    """The columns id (if there are ids), f0, f1, ... of a two-dimensional array."""
    array = as_numbers(rows)
    if ids is not None and len(ids) != len(array):
        raise ValueError(f"there are {len(ids)} ids and {len(array)} rows")
    # 32 bits hold small integers and half floats exactly.
    small = array.dtype.itemsize <= 2 or array.dtype == numpy.float32
    array = array.astype(numpy.float32 if small else numpy.float64, copy=False)
    columns = [] if ids is None else [Column("id", [str(each) for each in ids])]
    return columns + [Column(f"f{number}", array[:, number]) for number in range(array.shape[1])]


def sparse_columns(rows: Any, ids: Optional[Sequence[Any]]) -> List[Column]:
    """The columns id (if there are ids), indices and values of a scipy.sparse matrix."""
    matrix = rows.tocsr()
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"a sparse matrix must have numbers, not values of the type {matrix.dtype}")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if ids is not None and len(ids) != matrix.shape[0]:
        raise ValueError(f"there are {len(ids)} ids and {matrix.shape[0]} rows")
    ends = matrix.indptr.astype(numpy.int64)
    columns = [] if ids is None else [Column("id", [str(each) for each in ids])]
    return [*columns, Column("indices", Lists(ends, matrix.indices.astype(numpy.int32, copy=False))),
            Column("values", Lists(ends, matrix.data.astype(numpy.float32, copy=False)))]


def frame_columns(frame: Any, ids: Optional[Sequence[Any]]) -> List[Column]:
    """The columns of a data frame, and the column id if there are ids."""
    if ids is not None and len(ids) != len(frame):
        raise ValueError(f"there are {len(ids)} ids and {len(frame)} rows")
    if ids is not None:
        frame = frame.assign(id=[str(each) for each in ids])
    return [Column(str(name), _frame_values(frame.iloc[:, place])) for place, name in enumerate(frame.columns)]


def _frame_values(series: Any) -> Any:
    kind = getattr(series.dtype, "kind", "O")
    # Not all numbers of 64 bits without a sign are numbers with one.
    whole = kind in "ib" or (kind == "u" and series.dtype.itemsize < 8)
    if whole and not series.isna().any():
        return series.to_numpy(dtype=numpy.int64)
    if kind in "fiub":
        return series.to_numpy(dtype=numpy.float32 if series.dtype == numpy.float32 else numpy.float64,
                               na_value=numpy.nan)
    missing = series.isna()
    if kind == "O" and len(series) > 0 and _all_numbers(series):
        return series.to_numpy(dtype=numpy.float64, na_value=numpy.nan)
    if kind == "O" and len(series) > 0 and isinstance(series.iloc[0], (list, tuple, numpy.ndarray)):
        return _lists(series)
    values = [None if lost else each if isinstance(each, bytes) else str(each)
              for each, lost in zip(series.tolist(), missing)]
    if any(isinstance(each, bytes) for each in values):
        values = [each.encode() if isinstance(each, str) else each for each in values]
    return values


def _lists(series: Any) -> Lists:
    """A column of lists or arrays of numbers, such as embeddings."""
    try:
        numbers = as_numbers(numpy.stack([numpy.asarray(each) for each in series.tolist()]))
    except ValueError as error:
        first = len(series.iloc[0])
        for row, each in enumerate(series.tolist()):
            if not isinstance(each, (list, tuple, numpy.ndarray)) or len(each) != first:
                text = repr(each)
                raise ValueError(f"column {str(series.name)!r} has {text if len(text) < 100 else text[:100] + '...'} in row {row}, "
                                 f"and a list of {first} numbers in row 0: all must be as long") from None
        raise ValueError(f"column {str(series.name)!r}: {error}") from None
    small = numbers.dtype.itemsize <= 2 or numbers.dtype == numpy.float32
    flat = numbers.astype(numpy.float32 if small else numpy.float64).reshape(-1)
    return Lists(numpy.arange(len(numbers) + 1, dtype=numpy.int64) * numbers.shape[1], flat)


def _all_numbers(series: Any) -> bool:
    """Whether a column of objects has numbers, as after rows were put together from several sources."""
    import numbers
    return all(isinstance(each, numbers.Number) and not isinstance(each, complex) for each in series.dropna().tolist())


__all__ = ["Column", "Lists", "array_columns", "as_numbers", "frame_columns", "sparse_columns", "write_stream"]
