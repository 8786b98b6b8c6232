"""Labels a campaign in a notebook: `fulcrum.widget.LabelingWidget(client, campaign)` as the last line of a cell.

Needs ipywidgets: pip install "fulcrum[notebook]".
"""

import functools
import html
import json
import threading
from typing import Any, Callable, Dict, List, Optional

import ipywidgets

from . import api
from .campaign import message
from .connection import new_request_id
from .errors import FulcrumError, code_name
from .leases import Leases
from .worker import Task

_PAGE = 5


def show_payload(task: Task) -> str:
    """Returns HTML for a payload: an image for the address of one, indented JSON, otherwise the text. Nothing in a
    payload is interpreted as HTML."""
    if not task.payload:
        return f"<b>{html.escape(task.id)}</b>"
    try:
        text = task.payload.decode("utf-8")
    except UnicodeDecodeError:
        return f"<i>{len(task.payload)} bytes that are not text</i>"
    address = text.strip()
    if address.startswith(("http://", "https://", "data:image/")) and "\n" not in address:
        if address.startswith("data:image/") or address.lower().rpartition(".")[2] in ("png", "jpg", "jpeg", "gif", "webp"):
            return f'<img src="{html.escape(address, quote=True)}" style="max-width:100%;max-height:24em">'
        return f'<a href="{html.escape(address, quote=True)}" target="_blank">{html.escape(address)}</a>'
    try:
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        pass
    return f'<pre style="white-space:pre-wrap">{html.escape(text)}</pre>'


class LabelingWidget(ipywidgets.VBox):
    """One task at a time with a button per class. Labels are on the server's disk when the next task is shown.

    Tasks are taken a few at a time and their leases renewed; `close()` returns what was not answered. `show(task)` makes
    the HTML for a task, by default `show_payload`.
    """

    def __init__(self, client: Any, campaign: Any, *, annotator: str = "notebook",
                 show: Callable[[Task], str] = show_payload, renew_seconds: float = 60):
        self._connection = client.connection
        self._who = {"campaign": getattr(campaign, "name", campaign), "annotator": annotator}
        self._show = show
        self._tasks: List[Any] = []
        self._lock = threading.RLock()
        self._closed = False
        #: Labels given in this widget.
        self.labels = 0
        self._question = ipywidgets.HTML()
        self._payload = ipywidgets.HTML()
        self._buttons = ipywidgets.HBox(layout={"flex_flow": "row wrap"})
        self._status = ipywidgets.HTML()
        super().__init__([self._question, self._payload, self._buttons, self._status])
        self._leases = Leases(lambda leases: self._call("RenewLeases", leases=leases).results, renew_seconds,
                              self._not_renewed)
        self._next()

    def _call(self, method: str, **fields: Any) -> Any:
        request = message(method + "Request", request_id=new_request_id(), **self._who, **fields)
        if method in ("SubmitLabels", "SkipTasks"):
            return self._connection.call_items(method, request)
        return self._connection.call(method, request)

    @property
    def task(self) -> Optional[Task]:
        """The task that is shown, or None."""
        return self._task(self._tasks[0]) if self._tasks else None

    def _task(self, message: Any) -> Task:
        return Task(message, lambda item: self._connection.payload(self._who["campaign"], item))

    def answer(self, label: str) -> None:
        """Labels the task that is shown, as its button does."""
        lease = Leases.of(self._tasks[0])
        self._finish(lambda: self._call("SubmitLabels", labels=[
            {"lease": lease, "item_id": self._tasks[0].item_id, "value": label}]).results[0].status)

    def skip(self, reason: str = "unsure") -> None:
        """Skips the task that is shown: "unsure", "bad_item" or "not_now"."""
        number = api.enum_value("fulcrum.v1.SkipReason", "SKIP_REASON_" + reason.upper())
        lease = Leases.of(self._tasks[0])
        self._finish(lambda: self._call("SkipTasks", skips=[{"lease": lease, "reason": number}]).results[0], counts=False)

    def _finish(self, send: Callable[[], Any], counts: bool = True) -> None:
        for button in self._buttons.children:
            button.disabled = True
        try:
            status = send()
        except FulcrumError as error:
            # The task stays, so that it can be answered again.
            for button in self._buttons.children:
                button.disabled = False
            self._status.value = f"<b>not saved:</b> {html.escape(str(error))}"
            return
        note = "" if status.code == 0 else f"{code_name(status.code)}: {status.message}"
        with self._lock:
            self._leases.drop([self._tasks.pop(0)])
        self.labels += counts and status.code == 0
        self._next(note)

    def _next(self, note: str = "") -> None:
        over, waiting = False, ""
        if not self._tasks:
            try:
                response = self._call("AcquireTasks", max_tasks=_PAGE, wait={"seconds": 2})
            except FulcrumError as error:
                note = str(error)
            else:
                with self._lock:
                    self._tasks = list(response.tasks)
                    self._leases.add(self._tasks)
                over = response.campaign_over
                waiting = "; ".join(each.text for each in response.waiting_for)
        if note:
            note = f"<b>{html.escape(note)}</b>, "
        self._status.value = f"{note}{self.labels} labels given here"
        if self._tasks:
            task = self._task(self._tasks[0])
            self._question.value = html.escape(task.question)
            try:
                self._payload.value = self._show(task)
            except FulcrumError as error:
                self._payload.value = f"<i>The payload cannot be loaded: {html.escape(str(error))}</i>"
            self._buttons.children = [self._button(name, functools.partial(self.answer, name)) for name in task.classes] + [
                self._button("skip: unsure", self.skip, "warning"),
                self._button("skip: bad item", lambda: self.skip("bad_item"), "warning")]
            return
        self._question.value = ""
        self._payload.value = ("<i>The campaign is over.</i>" if over else
                               f"<i>No task now. {html.escape(waiting)}</i>")
        self._buttons.children = [] if over else [self._button("look again", self._next)]

    @staticmethod
    def _button(text: str, act: Callable[[], Any], style: str = "") -> Any:
        button = ipywidgets.Button(description=text, tooltip=text, button_style=style)
        button.on_click(lambda _: act())
        return button

    def _not_renewed(self, error: FulcrumError) -> None:
        self._status.value = f"leases were not renewed: {html.escape(str(error))}; a late label still counts"

    def close(self) -> None:
        """Returns the tasks that were not answered, and removes the widget."""
        if not self._closed:
            self._closed = True
            self._leases.close()
            leases = [Leases.of(task) for task in self._tasks]
            self._tasks = []
            if leases:
                self._call("ReleaseTasks", leases=leases)
        super().close()


__all__ = ["LabelingWidget", "show_payload"]
