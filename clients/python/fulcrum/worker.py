"""Labels a campaign with a function: a rule, a model, or a call of another service."""

import asyncio
import inspect
import logging
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional

from . import api
from .connection import new_request_id
from .errors import FulcrumError, Skip

_log = logging.getLogger("fulcrum")


class Task:
    """An item to label."""

    def __init__(self, message: Any):
        self._message = message
        #: The item's name in the pool.
        self.id: str = message.item_id
        #: What to look at, as in the pool's payload column.
        self.payload: bytes = message.payload
        #: The answers to choose from.
        self.classes: List[str] = list(message.classes)
        #: The campaign's question.
        self.question: str = message.question
        #: The round that selected it.
        self.round: int = message.round


class Worker:
    """Takes tasks of a campaign and answers them with `label`, `concurrency` at a time, until the campaign is over.

    `label(task)` returns one of `task.classes`, or None, or raises Skip, to skip the task. It can be an `async def`. If
    it raises anything else, the task is returned to the campaign for other workers, and the error is kept in `errors`;
    more than `most_errors` of them end the work. Leases are renewed while `label` runs. `stop()`, from any thread or a
    signal handler, lets running labels finish and returns the other tasks.
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
        self._stopping = threading.Event()
        self._held: Dict[int, Any] = {}
        self._lock = threading.Lock()
        #: Labels that the server has on disk.
        self.labels = 0
        #: Tasks that were skipped.
        self.skips = 0
        #: Errors of `label` and refusals of the server, by item id.
        self.errors: Dict[str, Exception] = {}

    def stop(self) -> None:
        """Lets run() return soon. Running labels are finished and sent."""
        self._stopping.set()

    def run(self) -> int:
        """Works until the campaign is over or stop() is called. Returns the number of labels given."""
        done: "queue.Queue[Any]" = queue.Queue()
        renewer = threading.Thread(target=self._renew, daemon=True)
        ended = self._ended = threading.Event()
        renewer.start()
        try:
            with ThreadPoolExecutor(self._concurrency) as pool:
                running = 0
                over = False
                while running or not (over or self._stopping.is_set()):
                    free = self._concurrency - running
                    if free and not over and not self._stopping.is_set():
                        tasks, over = self._acquire(free, wait=not running)
                        for task in tasks:
                            pool.submit(self._answer, task).add_done_callback(
                                lambda future, task=task: done.put((task, future)))
                        running += len(tasks)
                    if not running:
                        continue
                    finished = [done.get()]
                    while not done.empty():
                        finished.append(done.get())
                    running -= len(finished)
                    self._send(finished)
                    if len(self.errors) > self._most_errors:
                        self.stop()
        finally:
            ended.set()
            renewer.join()
        return self.labels

    def _answer(self, message: Any) -> Any:
        answer = self._label(Task(message))
        return asyncio.run(answer) if inspect.isawaitable(answer) else answer

    def _call(self, method: str, kind: str, **fields: Any) -> Any:
        request = api.message(f"fulcrum.v1.{kind}")(request_id=new_request_id(), **self._who, **fields)
        return self._connection.call(method, request)

    def _acquire(self, most: int, wait: bool) -> Any:
        fields: Dict[str, Any] = {"max_tasks": min(most, 1000)}
        if wait:
            fields["wait"] = {"seconds": 1}
        response = self._call("AcquireTasks", "AcquireTasksRequest", **fields)
        with self._lock:
            self._held.update({task.lease_id: task for task in response.tasks})
        return list(response.tasks), response.campaign_over

    @staticmethod
    def _lease(task: Any) -> Dict[str, int]:
        return {"lease_id": task.lease_id, "epoch": task.epoch}

    def _send(self, finished: List[Any]) -> None:
        labels, skips, releases = [], [], []
        for task, future in finished:
            answer = self._outcome(task, future)
            if isinstance(answer, Skip):
                reason = api.enum_value("fulcrum.v1.SkipReason", "SKIP_REASON_" + answer.reason.upper())
                skips.append((task, {"lease": self._lease(task), "reason": reason}))
            elif isinstance(answer, Exception):
                releases.append((task, self._lease(task)))
            else:
                labels.append((task, {"lease": self._lease(task), "item_id": task.item_id, "value": answer}))
        if labels:
            response = self._call("SubmitLabels", "SubmitLabelsRequest", labels=[each for _, each in labels])
            self.labels += self._note(labels, [result.status for result in response.results])
        if skips:
            response = self._call("SkipTasks", "SkipTasksRequest", skips=[each for _, each in skips])
            self.skips += self._note(skips, response.results)
        if releases:
            self._call("ReleaseTasks", "ReleaseTasksRequest", leases=[each for _, each in releases])
        with self._lock:
            for task, _ in finished:
                self._held.pop(task.lease_id, None)

    def _outcome(self, task: Any, future: "Future[Any]") -> Any:
        error = future.exception()
        if error is None:
            answer = future.result()
            return Skip() if answer is None else str(answer)
        if not isinstance(error, Skip):
            _log.warning("item %s: %r", task.item_id, error)
            self.errors[task.item_id] = error if isinstance(error, Exception) else RuntimeError(repr(error))
            return self.errors[task.item_id]
        return error

    def _note(self, sent: List[Any], statuses: Any) -> int:
        for (task, _), status in zip(sent, statuses):
            if status.code:
                self.errors[task.item_id] = FulcrumError(str(status.code), status.message)
        return sum(status.code == 0 for status in statuses)

    def _renew(self) -> None:
        while not self._ended.wait(self._renew_seconds):
            with self._lock:
                leases = [self._lease(task) for task in self._held.values()]
            try:
                if leases:
                    self._call("RenewLeases", "RenewLeasesRequest", leases=leases)
            except FulcrumError as error:
                # The leases expire then, and late labels count.
                _log.warning("leases were not renewed: %s", error)
