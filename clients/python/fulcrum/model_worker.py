"""Your own model in a campaign: anything with `fit` and `predict_proba` predicts the pool in every round."""

import array
import inspect
import logging
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

import grpc

from . import api
from .connection import TRANSIENT, new_request_id
from .errors import FulcrumError, from_rpc

try:
    import numpy
except ImportError:  # Rows are lists then.
    numpy = None  # type: ignore[assignment]

_log = logging.getLogger("fulcrum")
_BYTES_PER_PART = 1 << 20


def _floats(data: bytes) -> "array.array[float]":
    numbers = array.array("f")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _takes_ids(function: Any) -> bool:
    try:
        return "ids" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # there is none, or it says nothing about itself
        return False


def _matrix_bytes(rows: Any) -> bytes:
    """A matrix as 32-bit floats, row after row."""
    if numpy is not None:
        if hasattr(rows, "toarray"):
            rows = rows.toarray()
        data: bytes = numpy.asarray(rows, dtype="<f4").tobytes()
        return data
    numbers = array.array("f", (value for row in rows for value in row))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _bytes(rows: Any, columns: Sequence[Optional[int]]) -> bytes:
    """Probabilities as 32-bit floats, one per class of the campaign; None is a class that the model does not know."""
    if numpy is not None:
        given = numpy.asarray(rows, dtype="<f4")
        if list(columns) == list(range(given.shape[1])):
            return given.tobytes()
        found = numpy.zeros((len(given), len(columns)), dtype="<f4")
        for place, column in enumerate(columns):
            if column is not None:
                found[:, place] = given[:, column]
        return found.tobytes()
    numbers = array.array("f", (0.0 if column is None else row[column] for row in rows for column in columns))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


class _Rows:
    """The rows of a pool that were read so far. They never change, so each is read once."""

    def __init__(self) -> None:
        self.pool_id = ""
        self.count = 0
        self.ids: List[str] = []
        self._matrix: Any = None
        self._parts: List[Any] = []

    def use(self, task: Any) -> None:
        if task.pool_id != self.pool_id:
            self.__init__()  # type: ignore[misc]
            self.pool_id = task.pool_id

    def add(self, block: Any, task: Any, ids: Sequence[str] = ()) -> None:
        self._parts.append(self._decode(block, task))
        self.count += block.rows
        self.ids += ids

    def matrix(self) -> Any:
        if self._parts:
            parts = ([] if self._matrix is None else [self._matrix]) + self._parts
            self._matrix, self._parts = self._join(parts), []
            if hasattr(self._matrix, "flags"):
                # They are kept for the next rounds. An estimator that works in place is refused, whatever the size.
                self._matrix.flags.writeable = False
        return self._matrix

    @staticmethod
    def _join(parts: List[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        if numpy is None:
            return [row for part in parts for row in part]
        if isinstance(parts[0], numpy.ndarray):
            return numpy.concatenate(parts)
        import scipy.sparse
        return scipy.sparse.vstack(parts, format="csr")

    @staticmethod
    def _decode(block: Any, task: Any) -> Any:
        width = task.features
        if not task.sparse:
            if numpy is not None:
                return numpy.frombuffer(block.values, dtype="<f4").reshape(block.rows, width)
            values = _floats(block.values)
            return [list(values[row * width:(row + 1) * width]) for row in range(block.rows)]
        if numpy is not None:
            values = numpy.frombuffer(block.values, dtype="<f4")
            indices = numpy.frombuffer(block.indices, dtype="<i4")
            ends = numpy.concatenate([[0], numpy.cumsum(numpy.frombuffer(block.lengths, dtype="<i4"))])
            try:
                import scipy.sparse
                return scipy.sparse.csr_matrix((values, indices, ends), shape=(block.rows, width))
            except ImportError:
                dense = numpy.zeros((block.rows, width), dtype="f4")
                dense[numpy.repeat(numpy.arange(block.rows), numpy.diff(ends)), indices] = values
                return dense
        raise RuntimeError("the pool is sparse: install numpy, and scipy if it has many features")


class ModelWorker:
    """Trains `estimator` on the labels of a campaign and returns its class probabilities, round after round.

    The campaign needs `classifier={"external": {}}` in its specification. `estimator` has `fit(X, y)` and
    `predict_proba(X)`, as in scikit-learn: X are the rows of the pool as they were given (an array of float32, a
    scipy.sparse matrix for sparse pools, lists without numpy), y the names of the classes, and the columns of the
    result are in the order of `estimator.classes_`, or of the sorted names if it has none. A class without labels so
    far gets the probability 0. The rows are read once and kept; `predict_rows` are predicted at a time.

    If `fit` or `predict_proba` has a parameter `ids`, it gets the names of the rows in the pool, for example to look up
    texts or images: `fit(X, y, ids=...)`, `predict_proba(X, ids=...)`.

    With `features` the model also returns new features (embeddings) of the rows: True calls `estimator.transform(X)` after
    `fit`, a function is called with X in its place; a parameter `ids` is filled as above. From the next round on, the
    server computes the distances between rows from these features; X stays what was given as the pool. Rows of a
    scipy.sparse matrix are returned with their zeros.

    The lease of the task is renewed while the estimator works. If the process dies, another one gets the task when the
    lease expires; start as many as you like. If the estimator raises an exception, the task is returned to the campaign
    and run() raises it. `stop()`, from any thread or a signal handler, ends run() after the current task.
    """

    def __init__(self, client: Any, campaign: Any, estimator: Any, *, process: str = "python-model",
                 predict_rows: int = 200_000, features: Union[bool, Callable[..., Any], None] = None):
        if features is True and not callable(getattr(estimator, "transform", None)):
            raise TypeError(f"features=True calls the method transform of the estimator, which {type(estimator).__name__} "
                            "does not have; give a function that returns the features of rows")
        if features not in (None, True, False) and not callable(features):
            raise TypeError(f"features is True or a function that returns the features of rows, not {features!r}")
        self._connection = client.connection
        self._campaign = getattr(campaign, "name", campaign)
        self._process = process
        self._estimator = estimator
        self._predict_rows = predict_rows
        for method in ("fit", "predict_proba"):
            if not callable(getattr(estimator, method, None)):
                raise TypeError(f"the estimator needs the methods fit and predict_proba; {type(estimator).__name__} has no "
                                f"{method}")
        self._features: Any = estimator.transform if features is True else features or None
        self._fit_takes_ids = _takes_ids(estimator.fit)
        self._predict_takes_ids = _takes_ids(estimator.predict_proba)
        self._features_take_ids = self._features is not None and _takes_ids(self._features)
        self._stopping = threading.Event()
        self._rows = _Rows()
        #: Rounds whose predictions the server has on disk.
        self.rounds = 0
        #: Seconds so far: in the estimator ("fit", "predict", "features"), and around it ("acquire", "read", "submit"). Waiting for
        #: labels is not counted.
        self.seconds: Dict[str, float] = {"acquire": 0.0, "read": 0.0, "fit": 0.0, "predict": 0.0, "features": 0.0,
                                          "submit": 0.0}

    def stop(self) -> None:
        """Lets run() return after the current task."""
        self._stopping.set()

    def run(self) -> int:
        """Works until the campaign is over or stop() is called. Returns the number of rounds predicted."""
        while not self._stopping.is_set():
            begun = time.perf_counter()
            response = self._call("AcquireModelTask")
            if response.HasField("task"):
                self.seconds["acquire"] += time.perf_counter() - begun
            elif not response.campaign_over:
                # Returns when there is a task: it waits for labels, not for this worker.
                response = self._call("AcquireModelTask", wait={"seconds": 1})
            if response.HasField("task"):
                self._work(response.task)
            elif response.campaign_over:
                break
        return self.rounds

    async def run_async(self) -> int:
        """The same inside an event loop: works on a thread. If it is cancelled, it ends after the current task."""
        import asyncio
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self.run)
        except asyncio.CancelledError:
            self.stop()
            raise

    def _call(self, method: str, request_id: str = "", **fields: Any) -> Any:
        request = api.message(f"fulcrum.v1.{method}Request")(
            campaign=self._campaign, process=self._process, request_id=request_id or new_request_id(), **fields)
        return self._connection.call(method, request)

    def _work(self, task: Any) -> None:
        ended = threading.Event()
        renewer = threading.Thread(target=self._renew, args=(task, ended), daemon=True)
        renewer.start()
        try:
            labels, names = self._read(task)
            self._timed("fit", lambda: self._fit(labels, names))
            self._submit(task, sorted(set(names)))
            self.rounds += 1
        except FulcrumError as error:
            if error.code != "ABORTED":
                self._release(task)
                raise
            # Another process was quicker, the campaign stopped waiting, or the server was restarted.
            _log.warning("round %d: %s", task.round, error.message)
            self._release(task)
        except BaseException:
            self._release(task)
            raise
        finally:
            ended.set()
            renewer.join()

    def _timed(self, stage: str, act: Any) -> Any:
        begun = time.perf_counter()
        try:
            return act()
        finally:
            self.seconds[stage] += time.perf_counter() - begun

    def _read(self, task: Any) -> Any:
        begun = time.perf_counter()
        self._rows.use(task)
        # What was received before an error is kept: the next stream begins behind it.
        self._retry(lambda: self._read_rows(task))
        rows: List[int] = []
        classes: List[int] = []
        self._retry(lambda: self._read_labels(task, rows, classes))
        self._rows.matrix()
        self.seconds["read"] += time.perf_counter() - begun
        return rows, [task.classes[index] for index in classes]

    def _read_rows(self, task: Any) -> None:
        if self._rows.count >= task.rows:
            return
        request = api.message("fulcrum.v1.GetModelRowsRequest")(
            campaign=self._campaign, task_id=task.task_id, first_row=self._rows.count,
            with_ids=self._fit_takes_ids or self._predict_takes_ids or self._features_take_ids)
        for part in self._connection.stream("GetModelRows", request):
            self._rows.add(part.plain, task, part.item_ids)
        if self._rows.count != task.rows:
            raise FulcrumError("DATA_LOSS", f"the server sent {self._rows.count} of {task.rows} rows")

    def _read_labels(self, task: Any, rows: List[int], classes: List[int]) -> None:
        rows.clear()
        classes.clear()
        request = api.message("fulcrum.v1.GetModelLabelsRequest")(campaign=self._campaign, task_id=task.task_id)
        for part in self._connection.stream("GetModelLabels", request):
            rows += part.rows
            classes += part.classes

    def _retry(self, act: Any) -> Any:
        until = time.monotonic() + self._connection.retry_seconds
        pause = 0.05
        while True:
            try:
                return act()
            except FulcrumError as error:
                if error.code not in TRANSIENT or time.monotonic() > until:
                    raise
                time.sleep(max(error.retry_seconds or 0, pause))
                pause = min(2 * pause, 2)

    def _fit(self, rows: List[int], names: List[str]) -> None:
        matrix = self._rows.matrix()
        more = {"ids": [self._rows.ids[row] for row in rows]} if self._fit_takes_ids else {}
        if numpy is None:
            self._estimator.fit([matrix[row] for row in rows], names, **more)
        else:
            self._estimator.fit(matrix[numpy.asarray(rows)], numpy.asarray(names), **more)

    def _submit(self, task: Any, known: List[str]) -> None:
        columns: Optional[List[Optional[int]]] = None
        names: List[str] = []
        parts: List[bytes] = []
        features: List[Any] = []
        matrix = self._rows.matrix()
        for first in range(0, task.rows, self._predict_rows):
            last = min(first + self._predict_rows, task.rows)
            rows = matrix if last - first == self._rows.count else matrix[first:last]
            more = {"ids": self._rows.ids[first:last]} if self._predict_takes_ids else {}
            found = self._timed("predict", lambda rows=rows, more=more: self._estimator.predict_proba(rows, **more))
            if columns is None:
                names = [str(each) for each in getattr(self._estimator, "classes_", known)]
                places = {name: place for place, name in enumerate(names)}
                columns = [places.get(name) for name in task.classes]
            begun = time.perf_counter()
            if len(found) != last - first:
                raise ValueError(f"predict_proba returned {len(found)} rows for {last - first} rows")
            if len(found[0]) != len(names):
                raise ValueError(f"predict_proba returned {len(found[0])} columns for {len(names)} classes")
            parts.append(_bytes(found, columns))
            self.seconds["submit"] += time.perf_counter() - begun
            if self._features is None:
                continue
            more = {"ids": self._rows.ids[first:last]} if self._features_take_ids else {}
            found = self._timed("features", lambda rows=rows, more=more: self._features(rows, **more))
            given = found.shape[0] if hasattr(found, "shape") else len(found)
            if given != last - first:
                raise ValueError(f"there are features of {given} rows for {last - first} rows")
            begun = time.perf_counter()
            features.append((given, _matrix_bytes(found)))
            self.seconds["submit"] += time.perf_counter() - begun
        # The same request id and content in every attempt: they take effect once.
        begun = time.perf_counter()
        request_id = new_request_id()
        self._retry(lambda: self._send(self._requests(task, request_id, parts, features)))
        self.seconds["submit"] += time.perf_counter() - begun

    def _requests(self, task: Any, request_id: str, parts: List[bytes], features: List[Any]) -> Iterator[Any]:
        request = api.message("fulcrum.v1.SubmitPredictionsRequest")
        yield request(begin={"campaign": self._campaign, "process": self._process, "request_id": request_id,
                             "lease_id": task.lease_id, "epoch": task.epoch})
        size = max(1, _BYTES_PER_PART // (4 * len(task.classes))) * 4 * len(task.classes)
        for part in parts:
            for first in range(0, len(part), size):
                yield request(plain=part[first:first + size])
        for rows, data in features:
            row_bytes = len(data) // rows
            at_once = max(1, _BYTES_PER_PART // max(1, row_bytes))
            for begin in range(0, rows, at_once):
                end = min(begin + at_once, rows)
                yield request(plain_features={"rows": end - begin, "values": data[begin * row_bytes:end * row_bytes]})
        yield request(end=True)

    def _send(self, requests: Iterator[Any]) -> Any:
        try:
            return self._connection._calls["SubmitPredictions"](requests, metadata=self._connection.metadata)
        except grpc.RpcError as error:
            raise from_rpc(error) from None

    def _release(self, task: Any) -> None:
        try:
            self._call("ReleaseModelTask", lease_id=task.lease_id, epoch=task.epoch)
        except FulcrumError:
            pass  # The lease expires.

    def _renew(self, task: Any, ended: threading.Event) -> None:
        pause = max(0.05, (task.lease_time.seconds + task.lease_time.nanos * 1e-9) / 3)
        while not ended.wait(pause):
            try:
                self._call("RenewModelTask", lease_id=task.lease_id, epoch=task.epoch)
            except FulcrumError as error:
                # The predictions count all the same if no others have arrived.
                _log.warning("the lease of the model task was not renewed: %s", error)
