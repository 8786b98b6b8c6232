"""Pools as files: data frames, arrays, Arrow tables and paths, and how they are sent to a server."""

import contextlib
import csv
import os
import tempfile
import zlib
from typing import Any, Iterator, Optional, Sequence

from . import api
from .connection import Connection, new_request_id
from .errors import FulcrumError

_CHUNK = 1 << 20


@contextlib.contextmanager
def as_file(rows: Any, ids: Optional[Sequence[Any]] = None) -> Iterator[str]:
    """Gives the path of a file with these rows: the path itself, or a temporary file.

    A data frame or an array becomes CSV, which needs no other package; an Arrow table or an iterable of record batches
    becomes an Arrow IPC stream. `ids` become the column "id" of an array or a data frame.
    """
    if isinstance(rows, (str, os.PathLike)):
        yield os.fspath(rows)
        return
    with tempfile.TemporaryDirectory(prefix="fulcrum-") as folder:
        if hasattr(rows, "to_csv"):
            path = os.path.join(folder, "rows.csv")
            frame = rows if ids is None else rows.assign(id=list(ids))
            frame.to_csv(path, index=False)
        elif hasattr(rows, "shape"):
            path = os.path.join(folder, "rows.csv")
            _write_array(rows, ids, path)
        else:
            path = os.path.join(folder, "rows.arrows")
            _write_arrow(rows, path)
        yield path


def _write_array(rows: Any, ids: Optional[Sequence[Any]], path: str) -> None:
    if len(rows.shape) != 2:
        raise ValueError(f"an array must have two dimensions, rows and features, not the shape {rows.shape}")
    if ids is not None and len(ids) != rows.shape[0]:
        raise ValueError(f"there are {len(ids)} ids and {rows.shape[0]} rows")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [f"f{column}" for column in range(rows.shape[1])]
        writer.writerow(names if ids is None else ["id", *names])
        for number, row in enumerate(rows):
            values = row.tolist()
            writer.writerow(values if ids is None else [ids[number], *values])


def _write_arrow(rows: Any, path: str) -> None:
    try:
        import pyarrow
    except ImportError:
        raise TypeError(f"a {type(rows).__name__} can be sent only if pyarrow is installed; "
                        "otherwise use a data frame, an array or a path") from None
    batches = iter(rows.to_batches() if hasattr(rows, "to_batches") else rows)
    first = next(batches, None)
    if first is None:
        raise ValueError("there are no rows")
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
