"""Pools as files: data frames, arrays, Arrow tables and paths, and how they are sent to a server."""

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

    `ids` become the column "id" of an array or a data frame.
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


def _write_arrow(rows: Any, ids: Optional[Sequence[Any]], path: str) -> None:
    if hasattr(rows, "tocsr"):
        raise TypeError("a sparse matrix is sent as a file: sklearn.datasets.dump_svmlight_file writes one")
    is_frame = hasattr(rows, "to_csv")
    if is_frame or (hasattr(rows, "shape") and not hasattr(rows, "to_batches")):
        from .arrow_stream import array_columns, frame_columns, write_stream
        columns = frame_columns(rows, ids) if is_frame else array_columns(rows, ids)
        if len(rows) == 0:
            raise ValueError("there are no rows")
        with open(path, "wb") as file:
            write_stream(columns, file)
        return
    if ids is not None:
        raise ValueError("ids are for arrays and data frames; name the id column of an Arrow table with id_column")
    _write_batches(iter(rows.to_batches() if hasattr(rows, "to_batches") else rows), path)


def _write_batches(batches: Iterator[Any], path: str) -> None:
    import pyarrow
    import pyarrow.ipc
    first = next(batches, None)
    if first is None:
        raise ValueError("there are no rows")
    if not hasattr(first, "schema"):
        raise TypeError(f"a pool is a data frame, an array, an Arrow table, record batches or a path, not an iterable of "
                        f"{type(first).__name__}")
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
