"""Labels a campaign with a function: a rule, a model, or a call of another service."""

import asyncio
import contextlib
import inspect
import logging
import queue
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import api
from .connection import new_request_id
from .errors import FulcrumError, Skip, code_name
from .leases import Leases

_log = logging.getLogger("fulcrum")
_FAILURES_PER_ITEM = 3


class _Answers(NamedTuple):
    """A request with answers, sent until the server has taken it."""

    method: str
    request: Any
    tasks: List[Any]    # in the order of the request
    counted: List[Any]  # those that are labels or meant to be skips


class _GracefulInterrupt:
    """In the main thread the first Ctrl-C calls `stop`, and KeyboardInterrupt is raised at the end; a second one raises
    at once. Elsewhere, and if the program handles Ctrl-C itself, nothing changes."""

    def __init__(self, stop: Callable[[], None]):
        self._stop = stop
        self._interrupted = False
        self._active = False

    def __enter__(self) -> None:
        if (threading.current_thread() is threading.main_thread()
                and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
            self._active = True
            signal.signal(signal.SIGINT, self._handle)

    def _handle(self, *_: Any) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
        self._stop()

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._active:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._interrupted and kind is None:
                raise KeyboardInterrupt


async def _awaited(answer: Any) -> Any:
    return await answer


class Task:
    """An item to label. `fetch` returns the payload of an item whose payload is too large to be in the message."""

    def __init__(self, message: Any, fetch: Optional[Callable[[str], bytes]] = None):
        self._message = message
        self._fetch = fetch
        self._payload: Optional[bytes] = None if message.large_payload_bytes and fetch else message.payload
        #: The item's name in the pool.
        self.id: str = message.item_id
        #: The answers to choose from.
        self.classes: List[str] = list(message.classes)
        #: The campaign's question.
        self.question: str = message.question
        #: The round that selected it.
        self.round: int = message.round

    @property
    def payload(self) -> bytes:
        """What to look at, as in the pool's payload column. One of more than 1 MiB is fetched at the first use."""
        if self._payload is None:
            assert self._fetch is not None
            self._payload = self._fetch(self.id)
        return self._payload


class Worker:
    """Takes tasks of a campaign and answers them with `label`, `concurrency` at a time, until the campaign is over.

    `label(task)` returns one of `task.classes`. To skip the task it returns None or a Skip, or raises Skip. It can be an
    `async def`; all coroutines then run on one event loop, `concurrency` at a time, and can share sessions and locks.

    If `label` raises anything else, or returns something that is not one of the classes, the task goes back to the
    campaign, for other workers and later for this one again; after the third failure this annotator is not asked again,
    as after a skip. While every call of `label` fails, the worker waits before it takes tasks, up to 10 seconds; more
    than `most_errors` failures end the work. `errors` has the last failure of each item.

    Leases are renewed while `label` runs, at the latest after `renew_seconds`. A label is sent with the same request id
    until the server has it on disk. `stop()`, from any thread or a signal handler, lets running labels finish.
    """

    def __init__(self, client: Any, campaign: Any, label: Callable[[Task], Any], *, annotator: str = "python",
                 concurrency: int = 8, renew_seconds: float = 60, most_errors: int = 100):
        if concurrency < 1:
            raise ValueError("concurrency must be 1 or more")
        self._connection = client.connection
        self._who = {"campaign": getattr(campaign, "name", campaign), "annotator": annotator}
        self._label = label
        self._concurrency = concurrency
        self._renew_seconds = renew_seconds
        self._most_errors = most_errors
        # A SimpleQueue can be used in a signal handler, unlike a lock. Everything that the loop waits for is put into it.
        self._wake: "queue.SimpleQueue[None]" = queue.SimpleQueue()
        self._stopping = False
        self._running: Dict[int, Tuple[Any, "Future[Any]"]] = {}
        self._unsent: List[_Answers] = []
        self._failures: Dict[str, int] = {}
        self._failed = 0
        self._failed_turns = 0
        self._resume_at = 0.0
        #: Labels that the server has on disk.
        self.labels = 0
        #: Tasks that were skipped.
        self.skips = 0
        #: Errors of `label` and refusals of the server, by item id.
        self.errors: Dict[str, Exception] = {}

    def stop(self) -> None:
        """Lets run() return soon. Running labels are finished and sent."""
        self._stopping = True
        self._wake.put(None)

    def run(self) -> int:
        """Works until the campaign is over or stop() is called. Returns the number of labels given.

        Ctrl-C in the main thread stops it gracefully: running labels are finished and sent, then KeyboardInterrupt is
        raised. A second Ctrl-C does not wait; leases that are lost in this way expire, and others get the tasks. If the
        server cannot be reached for as long as the client retries, FulcrumError is raised; labels that were not sent
        are kept, and the next run() sends them first.
        """
        with _GracefulInterrupt(self.stop):
            if not inspect.iscoroutinefunction(self._label):
                with ThreadPoolExecutor(self._concurrency, "fulcrum-labels") as pool:
                    return self._run(lambda message: pool.submit(self._answer, message))
            loop = asyncio.new_event_loop()
            runner = threading.Thread(target=loop.run_forever, name="fulcrum-labels", daemon=True)
            runner.start()
            try:
                return self._run(lambda message: asyncio.run_coroutine_threadsafe(self._await_label(message), loop))
            finally:
                loop.call_soon_threadsafe(loop.stop)
                runner.join()
                loop.close()

    async def run_async(self) -> int:
        """Like run(), inside a running event loop, on which an `async def` label runs too. Cancelling it stops the work
        gracefully."""
        loop = asyncio.get_running_loop()
        if inspect.iscoroutinefunction(self._label):
            def begin(message: Any) -> "Future[Any]":
                return asyncio.run_coroutine_threadsafe(self._await_label(message), loop)
            work = loop.run_in_executor(None, self._run, begin)
        else:
            work = loop.run_in_executor(None, self.run)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.stop()
            await work
            raise

    def _run(self, begin: Callable[[Any], "Future[Any]"]) -> int:
        """`begin` starts the labeling of a task."""
        leases = Leases(self._renew, self._renew_seconds)
        over = False
        try:
            while True:
                self._send(leases)
                if not self._running and (over or self._stopping):
                    return self.labels
                free = self._concurrency - len(self._running)
                if free and not over and not self._stopping and time.monotonic() >= self._resume_at:
                    tasks, over = self._acquire(free, wait=not self._running)
                    leases.add(tasks)
                    for task in tasks:
                        future = begin(task)
                        self._running[task.lease_id] = (task, future)
                        future.add_done_callback(lambda _: self._wake.put(None))
                    if not self._running:
                        continue
                self._await_event()
        except FulcrumError:
            # What still runs is finished, so that a later run() can send it.
            while self._running:
                self._await_event()
                self._collect()
            raise
        finally:
            leases.close()
            if self._running:  # a second Ctrl-C
                for _, future in self._running.values():
                    future.cancel()
                self._running.clear()
            self._stopping = False

    def _await_event(self) -> None:
        """Returns when a label has been found, when stop() was called, or when tasks may be taken again."""
        with contextlib.suppress(queue.Empty):
            pause = self._resume_at - time.monotonic()
            self._wake.get(timeout=pause if pause > 0 and not self._stopping else None)
            while True:
                self._wake.get_nowait()

    def _task(self, message: Any) -> Task:
        return Task(message, lambda item: self._connection.payload(self._who["campaign"], item))

    async def _await_label(self, message: Any) -> Any:
        task = self._task(message)
        if message.large_payload_bytes:  # not in the event loop
            await asyncio.get_running_loop().run_in_executor(None, lambda: task.payload)
        return await self._label(task)

    def _answer(self, message: Any) -> Any:
        answer = self._label(self._task(message))
        # An object with an asynchronous __call__, for example.
        return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer

    def _request(self, method: str, **fields: Any) -> Any:
        return api.message(f"fulcrum.v1.{method}Request")(request_id=new_request_id(), **self._who, **fields)

    def _acquire(self, most: int, wait: bool) -> Any:
        fields: Dict[str, Any] = {"max_tasks": min(most, 1000)}
        if wait:
            fields["wait"] = {"seconds": 1}
        try:
            response = self._connection.call("AcquireTasks", self._request("AcquireTasks", **fields),
                                             keep_trying=lambda: not self._stopping)
        except FulcrumError:
            if self._stopping:
                return [], False
            raise
        return list(response.tasks), response.campaign_over

    def _renew(self, leases: List[Dict[str, int]]) -> Any:
        return self._connection.call("RenewLeases", self._request("RenewLeases", leases=leases)).results

    def _send(self, leases: Leases) -> None:
        """Sends what has been answered. Answers stay in `_unsent` until the server has them."""
        self._collect()
        while self._unsent:
            answers = self._unsent[0]
            response = self._connection.call_items(answers.method, answers.request)
            del self._unsent[0]
            leases.drop(answers.tasks)
            self._note(answers, response.results)

    def _collect(self) -> None:
        """Turns the labels that were found into requests."""
        done = [(task, future) for task, future in self._running.values() if future.done()]
        if not done:
            return
        labels, skips, tasks, skipped = [], [], [], []
        failed, succeeded = 0, False
        for task, future in done:
            answer = self._outcome(task, future)
            lease = Leases.of(task)
            if isinstance(answer, str):
                tasks.append(task)
                labels.append({"lease": lease, "item_id": task.item_id, "value": answer})
                succeeded = True
                continue
            if isinstance(answer, Skip):
                reason, succeeded = answer.reason, True
            else:
                failed += 1
                failures = self._failures[task.item_id] = self._failures.get(task.item_id, 0) + 1
                reason = "unsure" if failures >= _FAILURES_PER_ITEM else "not_now"
            skipped.append((task, isinstance(answer, Skip)))
            skips.append({"lease": lease, "reason": api.enum_value("fulcrum.v1.SkipReason",
                                                                   "SKIP_REASON_" + reason.upper())})
        if labels:
            self._unsent.append(_Answers("SubmitLabels", self._request("SubmitLabels", labels=labels), tasks, tasks))
        if skips:
            self._unsent.append(_Answers("SkipTasks", self._request("SkipTasks", skips=skips),
                                         [task for task, _ in skipped], [task for task, meant in skipped if meant]))
        for task, _ in done:
            del self._running[task.lease_id]
        self._failed_turns = 0 if succeeded else self._failed_turns + 1
        self._resume_at = 0.0 if succeeded else time.monotonic() + min(10, 0.1 * 2 ** min(self._failed_turns - 1, 10))
        self._count_errors(failed)

    def _outcome(self, task: Any, future: "Future[Any]") -> Any:
        """The label as text, a Skip, or the error."""
        error: Optional[BaseException]
        error = asyncio.CancelledError("the label was cancelled") if future.cancelled() else future.exception()
        if isinstance(error, Skip):
            return error
        if error is None:
            answer = future.result()
            if answer is None or isinstance(answer, Skip):
                return answer or Skip()
            if str(answer) in task.classes or not task.classes:
                return str(answer)
            error = ValueError(f"the label {answer!r} of item {task.item_id} is not one of {list(task.classes)}")
        _log.warning("item %s: %r", task.item_id, error)
        self.errors[task.item_id] = error if isinstance(error, Exception) else RuntimeError(repr(error))
        return self.errors[task.item_id]

    def _note(self, answers: "_Answers", results: Any) -> None:
        refused = 0
        for task, result in zip(answers.tasks, results):
            status = getattr(result, "status", result)
            if not any(task is each for each in answers.counted):
                continue  # the error of `label` is in `errors`
            if status.code:
                self.errors[task.item_id] = FulcrumError(code_name(status.code), status.message)
                refused += 1
            else:
                self.labels += answers.method == "SubmitLabels"
                self.skips += answers.method == "SkipTasks"
        self._count_errors(refused)

    def _count_errors(self, errors: int) -> None:
        self._failed += errors
        if self._failed > self._most_errors and not self._stopping:
            _log.error("more than %d errors: the worker stops", self._most_errors)
            self.stop()
