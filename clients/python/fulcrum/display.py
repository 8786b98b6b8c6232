"""What people see of a campaign: a progress bar on a terminal or in a notebook, and a summary with the learning curve."""

import html
import sys
from typing import Any, Dict, List, Optional, Protocol, Tuple

_WIDTH = 30


class Progress:
    """What the events of a campaign say about its progress so far."""

    def __init__(self, name: str):
        self.name = name
        self.state = ""
        self.reason = ""
        self.labels = 0
        self.budget = 0
        self.round = 0
        self.settled = 0
        self.items = 0
        self.stage = ""
        self.accuracy: Optional[float] = None

    def update(self, event: Any) -> bool:
        """Takes an event in. Returns whether something changed that is shown."""
        before = self.text()
        if event.HasField("campaign"):
            campaign = event.campaign
            descriptor = campaign.DESCRIPTOR.fields_by_name["state"].enum_type
            self.state = descriptor.values_by_number[campaign.state].name.replace("CAMPAIGN_STATE_", "").lower()
            self.reason = campaign.state_reason
            self.labels, self.round = campaign.labels, campaign.round
            self.settled, self.items = campaign.round_settled, campaign.round_items
            self.budget = campaign.spec.stop.labels
            self.stage = ""
        elif event.HasField("stage"):
            stage = event.stage.DESCRIPTOR.fields_by_name["stage"].enum_type.values_by_number[event.stage.stage]
            self.stage = stage.name.replace("STAGE_", "").lower()
        elif event.HasField("batch"):
            self.round, self.items, self.settled, self.stage = event.batch.round, event.batch.items, 0, ""
        elif event.HasField("labels"):
            self.labels = event.labels.labels
            self.settled, self.items = event.labels.round_settled, event.labels.round_items
        elif event.HasField("model") and event.model.HasField("accuracy"):
            self.accuracy = event.model.accuracy
        return self.text() != before

    def share(self) -> float:
        """From 0 to 1: of the budget of labels if there is one, otherwise of the round."""
        done, all_of_it = (self.labels, self.budget) if self.budget else (self.settled, self.items)
        if self.state == "done":
            return 1.0
        return min(1.0, done / all_of_it) if all_of_it else 0.0

    def text(self) -> str:
        """One line for people."""
        labels = f"{self.labels} of {self.budget} labels" if self.budget else f"{self.labels} labels"
        parts = [labels, f"round {self.round}: {self.settled} of {self.items}"]
        if self.accuracy is not None:
            parts.append(f"accuracy {self.accuracy:.3f}")
        if self.stage or self.state not in ("", "waiting"):
            parts.append(self.stage or self.state + (f" ({self.reason})" if self.reason else ""))
        return f"{self.name}: " + ", ".join(parts)


class _Bar(Protocol):
    def show(self, progress: Progress) -> None:
        """Shows the current progress."""

    def close(self, progress: Progress) -> None:
        """Leaves the last state visible."""


class _TerminalBar:
    def __init__(self, out: Any):
        self._out = out
        self._shown = 0

    def show(self, progress: Progress) -> None:
        filled = round(_WIDTH * progress.share())
        line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {progress.text()}"
        self._out.write("\r" + line + " " * max(0, self._shown - len(line)))
        self._out.flush()
        self._shown = len(line)

    def close(self, progress: Progress) -> None:
        self.show(progress)
        self._out.write("\n")
        self._out.flush()


class _Lines:
    """For files and pipes: a line whenever a round ends or the state changes."""

    def __init__(self, out: Any):
        self._out = out
        self._last: Tuple[Any, ...] = ()

    def show(self, progress: Progress) -> None:
        now = (progress.round, progress.state)
        if now != self._last:
            self._out.write(progress.text() + "\n")
            self._out.flush()
        self._last = now

    def close(self, progress: Progress) -> None:
        self._last = ()
        self.show(progress)


class _NotebookBar:
    def __init__(self) -> None:
        from IPython.display import HTML, display
        self._html = HTML
        self._handle = display(HTML(""), display_id=True)

    def show(self, progress: Progress) -> None:
        self._handle.update(self._html(f'<progress value="{progress.share():.3f}" max="1"></progress> '
                                       + html.escape(progress.text())))

    close = show


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def progress_bar(out: Any = None) -> _Bar:
    """Returns the bar that fits: of the notebook, of a terminal, or lines for a file."""
    if out is None and _in_notebook():
        return _NotebookBar()
    out = out or sys.stderr
    return _TerminalBar(out) if out.isatty() else _Lines(out)


def curve_svg(points: List[Tuple[float, float]], y_label: str) -> str:
    """Returns a line chart of (labels, value) as SVG; values lie in [0, 1]."""
    width, height, left, bottom, top = 420, 180, 46, 30, 10
    most = max(1.0, max(x for x, _ in points))
    lowest = min(y for _, y in points)
    floor = 0.0 if lowest < 0.5 else 0.5
    x_of = lambda x: left + (width - left - 10) * x / most  # noqa: E731
    y_of = lambda y: top + (height - top - bottom) * (1 - (y - floor) / (1 - floor))  # noqa: E731
    line = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.5" fill="#2563a8">'
                   f"<title>{x:g} labels: {y:.3f}</title></circle>" for x, y in points)
    marks = "".join(f'<text x="{left - 6}" y="{y_of(mark) + 4:.1f}" text-anchor="end">{mark:g}</text>'
                    f'<line x1="{left}" x2="{width - 10}" y1="{y_of(mark):.1f}" y2="{y_of(mark):.1f}" stroke="#ddd"/>'
                    for mark in (floor, (floor + 1) / 2, 1.0))
    return (f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-size="11" '
            f'font-family="sans-serif" role="img" aria-label="learning curve">{marks}'
            f'<polyline points="{line}" fill="none" stroke="#2563a8" stroke-width="1.5"/>{dots}'
            f'<text x="{left}" y="{height - 8}">0</text>'
            f'<text x="{width - 10}" y="{height - 8}" text-anchor="end">{most:g} labels</text>'
            f'<text x="{(left + width) / 2}" y="{height - 8}" text-anchor="middle">{html.escape(y_label)}</text></svg>')


def campaign_html(campaign: Any, state: str, models: List[Dict[str, Any]]) -> str:
    """Returns the summary of a campaign with its learning curve: the accuracy if there is a validation set, otherwise
    the share of predictions that the last labels did not change."""
    text = (f"<b>{html.escape(campaign.name)}</b>: {html.escape(state)}, {campaign.labels} labels, "
            f"round {campaign.round}, {campaign.pool_rows} examples")
    if campaign.state_reason:
        text += f"<br>{html.escape(campaign.state_reason)}"
    measured = [(model["labels"], model["accuracy"]) for model in models if model["accuracy"] is not None]
    stable = [(model["labels"], 1 - model["changed_share"]) for model in models]
    if measured:
        return f"<div>{text}<br>{curve_svg(measured, 'accuracy on the validation set')}</div>"
    if stable:
        return f"<div>{text}<br>{curve_svg(stable, 'share of predictions unchanged by the last labels')}</div>"
    return f"<div>{text}<br>no model yet</div>"
