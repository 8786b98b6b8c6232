"""The leases of the tasks that a process works on, renewed in time."""

import logging
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

from .errors import FulcrumError

_log = logging.getLogger("fulcrum")
_LEAST_SECONDS = 1.0  # between two renewals: a clock that is wrong must not cause a flood of calls


class Leases:
    """Renews leases after a third of the time that is left, on a thread of its own, until close(). Thread-safe.

    `renew` takes a list of leases and returns the results of RenewLeases. The time that is left is measured with the clock
    of this machine; should that differ from the server's, leases are renewed at least every `most_seconds`. `failed` is
    called with the error if a renewal fails: the leases expire then, and late labels count.
    """

    def __init__(self, renew: Callable[[List[Dict[str, int]]], Any], most_seconds: float = 60,
                 failed: Optional[Callable[[FulcrumError], None]] = None):
        self._renew = renew
        self._most_seconds = most_seconds
        self._failed = failed or (lambda error: _log.warning("leases were not renewed: %s", error))
        self._held: Dict[int, Any] = {}
        self._due: Dict[int, float] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="fulcrum-leases", daemon=True)
        self._thread.start()

    @staticmethod
    def of(task: Any) -> Dict[str, int]:
        """Returns the fields of the LeaseRef of a task."""
        return {"lease_id": task.lease_id, "epoch": task.epoch}

    def add(self, tasks: Iterable[Any]) -> None:
        """Renews the leases of these tasks from now on."""
        with self._changed:
            for task in tasks:
                self._held[task.lease_id] = self.of(task)
                self._schedule(task.lease_id, task)
            self._changed.notify()

    def drop(self, tasks: Iterable[Any]) -> None:
        """Renews the leases of these tasks no more."""
        with self._changed:
            for task in tasks:
                self._held.pop(task.lease_id, None)
                self._due.pop(task.lease_id, None)

    def close(self) -> None:
        """Renews no lease any more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _schedule(self, lease: int, expiring: Any) -> None:
        left = expiring.expires_at.seconds + expiring.expires_at.nanos * 1e-9 - time.time()
        self._due[lease] = time.monotonic() + max(_LEAST_SECONDS, min(left / 3, self._most_seconds))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed:
                    next_due = min(self._due.values(), default=None)
                    if next_due is not None and next_due <= time.monotonic():
                        break
                    self._changed.wait(None if next_due is None else next_due - time.monotonic())
                if self._closed:
                    return
                # One call for all that would be due soon.
                soon = time.monotonic() + 0.5 * self._most_seconds
                leases = [self._held[lease] for lease, due in self._due.items() if due <= soon][:1000]
            try:
                results = self._renew(leases)
            except FulcrumError as error:
                self._failed(error)
                results = []
            with self._changed:
                for number, lease in enumerate(leases):
                    name = lease["lease_id"]
                    if name not in self._held:
                        continue
                    if number >= len(results):  # not renewed: again in a while
                        self._due[name] = time.monotonic() + 1
                    elif results[number].status.code:  # it has ended
                        del self._held[name], self._due[name]
                    else:
                        self._schedule(name, results[number])


__all__ = ["Leases"]
