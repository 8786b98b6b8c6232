"""The client for asyncio: the same methods as coroutines.

    async with fulcrum.aio.Client("127.0.0.1:7410") as client:
        campaign = await client.create_campaign("digits", pool=X, classes=["3", "5"])
        async for event in campaign.events():
            ...

Calls run on threads, `concurrency` at a time, and streams of events on others, so the event loop is never blocked; a call
that is cancelled is not waited for. Worker.run_async labels inside an event loop.
"""

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, Sequence

from . import campaign as _campaign
from . import client as _client

__all__ = ["Campaign", "Client"]

_END = object()


class Client:
    """A server; see fulcrum.Client for the arguments."""

    def __init__(self, address: str = "127.0.0.1:7410", token: Optional[str] = None, ca: Optional[str] = None,
                 retry_seconds: float = 60, concurrency: int = 16):
        #: The client whose methods are called on threads. Worker takes it.
        self.sync = _client.Client(address, token, ca, retry_seconds)
        self._threads = ThreadPoolExecutor(concurrency, "fulcrum-client")

    @property
    def connection(self) -> Any:
        """The connection, so that Worker takes this client too."""
        return self.sync.connection

    async def run(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Calls a function on one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, functools.partial(function, *arguments, **named))

    async def close(self) -> None:
        """Closes the connection; calls that are under way fail."""
        self.sync.close()
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def version(self) -> str:
        """Returns the version of the server."""
        version: str = await self.run(self.sync.version)
        return version

    async def campaign(self, name: str) -> "Campaign":
        """Returns an existing campaign. FulcrumError NOT_FOUND if there is none of that name."""
        return Campaign(self, await self.run(self.sync.campaign, name))

    async def campaigns(self) -> List["Campaign"]:
        """Returns all campaigns, by name."""
        return [Campaign(self, each) for each in await self.run(self.sync.campaigns)]

    async def create_campaign(self, name: str, pool: Any, classes: Sequence[Any], **arguments: Any) -> "Campaign":
        """Sends the pool, creates a campaign with it, and starts it; see fulcrum.Client.create_campaign."""
        return Campaign(self, await self.run(self.sync.create_campaign, name, pool, classes, **arguments))


class Campaign:
    """A campaign on a server; see fulcrum.Campaign for what each method does."""

    def __init__(self, client: Client, campaign: _campaign.Campaign):
        self.client = client
        #: The campaign whose methods are called on threads.
        self.sync = campaign
        #: Its name.
        self.name = campaign.name

    def __repr__(self) -> str:
        return f"<fulcrum.aio.Campaign {self.name!r}>"

    async def state(self) -> str:
        """Returns its state in lower case, such as "waiting" or "done"."""
        state: str = await self.client.run(lambda: self.sync.state)
        return state

    async def describe(self) -> Any:
        """Returns the whole fulcrum.v1.Campaign message."""
        return await self.client.run(self.sync.describe)

    async def start(self, reason: str = "") -> "Campaign":
        """Selects the first batch, or continues after a failure."""
        await self.client.run(self.sync.start, reason)
        return self

    async def pause(self, reason: str = "") -> "Campaign":
        """Stops offering tasks."""
        await self.client.run(self.sync.pause, reason)
        return self

    async def resume(self, reason: str = "") -> "Campaign":
        """Continues after a pause."""
        await self.client.run(self.sync.resume, reason)
        return self

    async def stop(self, reason: str = "") -> "Campaign":
        """Ends it; its results remain."""
        await self.client.run(self.sync.stop, reason)
        return self

    async def delete(self) -> None:
        """Moves it to the server's trash."""
        await self.client.run(self.sync.delete)

    async def update(self, **spec: Any) -> "Campaign":
        """Changes its specification while it runs."""
        await self.client.run(lambda: self.sync.update(**spec))
        return self

    async def events(self, after_sequence: int = 0) -> AsyncIterator[Any]:
        """Yields its models so far, then its state, then its events, until it is done."""
        events = self.sync.events(after_sequence)
        # A stream waits for as long as the campaign takes: it has a thread of its own, and no call waits for it.
        thread = ThreadPoolExecutor(1, "fulcrum-events")
        try:
            while True:
                event = await asyncio.get_running_loop().run_in_executor(thread, next, events, _END)
                if event is _END:
                    return
                yield event
        finally:
            thread.shutdown(wait=False)

    async def watch(self, out: Any = None) -> "Campaign":
        """Shows a progress bar until the campaign is done, or has failed or is quarantined."""
        thread = ThreadPoolExecutor(1, "fulcrum-watch")
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self.sync.watch, out)
        finally:
            thread.shutdown(wait=False)
        return self

    async def curve(self) -> Any:
        """Returns the learning curve, one row per model."""
        return await self.client.run(self.sync.curve)

    async def labels(self) -> Any:
        """Returns all labels in the order in which they were given."""
        return await self.client.run(self.sync.labels)

    async def annotators(self) -> Any:
        """Returns one row per annotator, with its quality."""
        return await self.client.run(self.sync.annotators)

    async def items(self, state: str = "") -> Any:
        """Returns the items in a state."""
        return await self.client.run(self.sync.items, state)

    async def item(self, name: Any) -> Any:
        """Returns everything about an item."""
        return await self.client.run(self.sync.item, name)

    async def payload(self, name: Any) -> bytes:
        """Returns the whole payload of an item."""
        payload: bytes = await self.client.run(self.sync.payload, name)
        return payload

    async def resolve(self, name: Any, label: Any, reason: str = "") -> Any:
        """Decides an item."""
        return await self.client.run(self.sync.resolve, name, label, reason)

    async def return_item(self, name: Any, reason: str = "") -> Any:
        """Offers an item again that was set aside or is disputed."""
        return await self.client.run(self.sync.return_item, name, reason)

    async def predict(self, rows: Any, round: int = 0) -> Any:  # noqa: A002
        """Predicts rows with the last model, or with that of a round."""
        return await self.client.run(self.sync.predict, rows, round)

    async def append(self, rows: Any, ids: Optional[Sequence[Any]] = None) -> Dict[str, Any]:
        """Adds examples to the pool."""
        added: Dict[str, Any] = await self.client.run(self.sync.append, rows, ids)
        return added

    async def offer(self, rows: Any, ids: Optional[Sequence[Any]] = None,
                    payloads: Optional[Sequence[str]] = None) -> Any:
        """Offers rows of a stream, which are decided at once."""
        return await self.client.run(self.sync.offer, rows, ids, payloads)

    async def import_labels(self, labels: Mapping[Any, Any], source: str = "python") -> int:
        """Adds labels that you have already, by id."""
        imported: int = await self.client.run(self.sync.import_labels, labels, source)
        return imported

    async def export_model(self, path: Any, round: int = 0) -> Any:  # noqa: A002
        """Writes the file of a model, by default the last."""
        return await self.client.run(self.sync.export_model, path, round)
