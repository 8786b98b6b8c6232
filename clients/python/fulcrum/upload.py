"""Pools as files: data frames, arrays, sparse matrices, Arrow tables and paths, and how they are sent to a server."""

import contextlib
import os
import tempfile
import zlib
from typing import Any, Iterator, List, Optional, Sequence

from . import api
from .connection import Connection, new_request_id
from .errors import FulcrumError

_CHUNK = 1 << 20


@contextlib.contextmanager
def as_file(rows: Any, ids: Optional[Sequence[Any]] = None) -> Iterator[str]:
    """Gives the path of a file with these rows: the path itself, or a temporary file, an Arrow IPC stream.

    `ids` become the column "id" of an array, a sparse matrix or a data frame.
    """
    if isinstance(rows, (str, os.PathLike)):
        yield os.fspath(rows)
        return
    with tempfile.TemporaryDirectory(prefix="fulcrum-") as folder:
        path = os.path.join(folder, "rows.arrows")
        _write_arrow(rows, ids, path)
        yield path


def ids_of_index(rows: Any) -> Optional[List[str]]:
    """Returns the index of a data frame as ids, or None if it says nothing: if it counts rows from 0 or is not unique, or
    if the frame has a column "id"."""
    if not hasattr(rows, "to_csv") or "id" in rows.columns or not rows.index.is_unique:
        return None
    # Every second row of a frame has an index of this kind, too.
    counts = type(rows.index).__name__ == "RangeIndex" and rows.index.start == 0 and rows.index.step == 1
    return None if counts else [str(each) for each in rows.index]


def column_names(rows: Any) -> Optional[List[str]]:
    """Returns the names of the columns of a data frame or an Arrow table; None for anything else."""
    if hasattr(rows, "to_csv"):
        return [str(name) for name in rows.columns]
    return list(rows.column_names) if hasattr(rows, "column_names") else None


def without_columns(rows: Any, names: Sequence[str]) -> Any:
    """Returns a data frame or an Arrow table without these columns; anything else as it is."""
    if not names or column_names(rows) is None:
        return rows
    kept = [place for place, name in enumerate(column_names(rows) or []) if name not in names]
    return rows.iloc[:, kept] if hasattr(rows, "iloc") else rows.select(kept)


def _write_arrow(rows: Any, ids: Optional[Sequence[Any]], path: str) -> None:
    if hasattr(rows, "to_frame") and not hasattr(rows, "columns"):
        raise TypeError("a pool is a data frame, not one column of it; to_frame() makes a frame of a column")
    if hasattr(rows, "schema") and hasattr(rows, "to_pydict") and not hasattr(rows, "to_batches"):
        _write_batches(iter([rows]), path)  # one record batch
        return
    known = any(hasattr(rows, name) for name in ("to_csv", "to_batches", "read_next_batch"))
    if not known and hasattr(rows, "__arrow_c_stream__"):
        import pyarrow
        rows = pyarrow.table(rows)  # such as a data frame of polars
    if isinstance(rows, list) and rows and isinstance(rows[0], (list, tuple)):
        array: Any = _as_array(rows)
        return _write_arrow(array, ids, path)
    is_frame, is_sparse = hasattr(rows, "to_csv"), hasattr(rows, "tocsr")
    if is_frame or is_sparse or (hasattr(rows, "shape") and not hasattr(rows, "to_batches")):
        from .arrow_stream import array_columns, frame_columns, sparse_columns, write_stream
        make = frame_columns if is_frame else sparse_columns if is_sparse else array_columns
        columns = make(rows, ids)
        if rows.shape[0] == 0:
            raise ValueError("there are no rows")
        with open(path, "wb") as file:
            write_stream(columns, file)
        return
    if ids is not None:
        raise ValueError("ids are for arrays, matrices and data frames; name the id column of an Arrow table with id_column")
    batches = rows.to_batches() if hasattr(rows, "to_batches") else rows
    if not hasattr(batches, "__iter__"):
        raise TypeError(_wrong_pool(f"the {type(rows).__name__} {rows!r}"))
    _write_batches(iter(batches), path)


def _wrong_pool(given: str) -> str:
    return f"a pool is a data frame, an array, a sparse matrix, an Arrow table, record batches or a path, not {given}"


def _as_array(rows: List[Any]) -> Any:
    import numpy
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        odd = next(number for number, row in enumerate(rows) if len(row) != len(rows[0]))
        raise ValueError(f"row {odd} has {len(rows[odd])} features, and the rows before it {len(rows[0])}")
    return numpy.asarray(rows)


def _write_batches(batches: Iterator[Any], path: str) -> None:
    first = next(batches, None)
    if first is None:
        raise ValueError("there are no rows")
    if not hasattr(first, "schema"):
        raise TypeError(_wrong_pool(f"an iterable of {type(first).__name__}"))
    import pyarrow
    import pyarrow.ipc
    with pyarrow.OSFile(path, "wb") as sink, pyarrow.ipc.new_stream(sink, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def send_file(connection: Connection, path: str) -> str:
    """Sends a file, and returns the name that a campaign's source has then. Interruptions are continued."""
    size = os.path.getsize(path)
    checksum = 0
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            checksum = zlib.crc32(chunk, checksum)
        request = api.message("fulcrum.v1.CreateUploadRequest")(
            file_name=os.path.basename(path), size_bytes=size, request_id=new_request_id())
        upload = connection.call("CreateUpload", request).upload
        complete = api.enum_value("fulcrum.v1.UploadState", "UPLOAD_STATE_COMPLETE")
        while upload.state != complete:
            file.seek(upload.received_bytes)
            chunk = file.read(_CHUNK)
            part = api.message("fulcrum.v1.WriteUploadRequest")(
                upload=upload.id, offset_bytes=upload.received_bytes, chunk=chunk)
            if upload.received_bytes + len(chunk) == size:
                part.checksum = f"crc32:{checksum:08x}"
            elif not chunk:
                raise FulcrumError("DATA_LOSS", f"'{path}' became shorter while it was sent")
            upload = connection.call("WriteUpload", part).upload
    return "upload:" + upload.id
