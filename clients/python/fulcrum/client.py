"""Campaigns on a server."""

import html
import os
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence

from . import api
from .connection import Connection, new_request_id
from .errors import FulcrumError, from_details
from .upload import as_file, send_file

_CHUNK = 1 << 20
_PREDICT_AT_ONCE = 1000


def _message(name: str, **fields: Any) -> Any:
    return api.message("fulcrum.v1." + name)(**fields)


def _table(rows: List[Dict[str, Any]], columns: Sequence[str]) -> Any:
    """A pandas data frame if pandas is installed, otherwise the list of rows."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows, columns=list(columns))


class Client:
    """A server.

    `token` defaults to the environment variable FULCRUM_TOKEN. `ca` is a PEM file with the authorities of the server's
    certificate; without it the connection is not encrypted. Calls are repeated for `retry_seconds` while the server
    cannot be reached, with the same request id, so that each takes effect once.
    """

    def __init__(self, address: str = "127.0.0.1:7410", token: Optional[str] = None, ca: Optional[str] = None,
                 retry_seconds: float = 60):
        self.connection = Connection(address, token or os.environ.get("FULCRUM_TOKEN"), ca, retry_seconds)

    def close(self) -> None:
        """Closes the connection."""
        self.connection.channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def version(self) -> str:
        """Returns the version of the server."""
        return self.connection.call("GetVersion", _message("GetVersionRequest")).version

    def campaign(self, name: str) -> "Campaign":
        """Returns an existing campaign. FulcrumError NOT_FOUND if there is none of that name."""
        campaign = Campaign(self, name)
        campaign.state  # noqa: B018 (checks that it exists)
        return campaign

    def campaigns(self) -> List["Campaign"]:
        """Returns all campaigns, by name."""
        found: List[Campaign] = []
        token = ""
        while True:
            page = self.connection.call("ListCampaigns", _message("ListCampaignsRequest", page_token=token))
            found += [Campaign(self, each.name) for each in page.campaigns]
            token = page.next_page_token
            if not token:
                return found

    def create_campaign(self, name: str, pool: Any, classes: Sequence[Any], *, ids: Optional[Sequence[Any]] = None,
                        id_column: str = "", payload_column: str = "", question: str = "", start: bool = True,
                        **spec: Any) -> "Campaign":
        """Sends the pool to the server, creates a campaign with it, and starts it.

        `pool` is a data frame, a two-dimensional array, an Arrow table, an iterable of record batches, or the path of a
        local file of any format that Fulcrum reads. `ids` name the rows of an array or a data frame; otherwise
        `id_column` does, or rows are named by their numbers. Other arguments are fields of CampaignSpec, such as
        `selection={"strategy": "margin", "batch": 20}, stop={"labels": 200}`.
        """
        with as_file(pool, ids) as path:
            source = send_file(self.connection, path)
        upload = source.partition(":")[2]
        try:
            request = _message("CreateCampaignRequest", request_id=new_request_id(), spec=dict(
                name=name, classes=[str(each) for each in classes], question=question,
                pool={"sources": [source], "id_column": id_column or ("id" if ids is not None else ""),
                      "payload_column": payload_column}, **spec))
            self._await(self.connection.call("CreateCampaign", request).operation)
        finally:
            # The campaign has its own copy. An upload that cannot be deleted now expires.
            try:
                self.connection.call("DeleteUpload", _message("DeleteUploadRequest", upload=upload))
            except FulcrumError:
                pass
        campaign = Campaign(self, name)
        if start:
            campaign.start()
        return campaign

    def _await(self, operation: Any) -> None:
        pause = 0.02
        try:
            while not operation.HasField("ended_at"):
                time.sleep(pause)
                pause = min(2 * pause, 0.5)
                request = _message("GetOperationRequest", operation=operation.name)
                operation = self.connection.call("GetOperation", request).operation
        except KeyboardInterrupt:
            self.connection.call("CancelOperation", _message("CancelOperationRequest", operation=operation.name))
            raise
        if operation.HasField("error"):
            import grpc
            names = {code.value[0]: code.name for code in grpc.StatusCode}
            error = operation.error
            raise from_details(names.get(error.code, str(error.code)), error.message, error.details)


class Campaign:
    """A campaign on a server. Client.create_campaign and Client.campaign return it."""

    def __init__(self, client: Client, name: str):
        self.client = client
        #: Its name.
        self.name = name

    def _call(self, method: str, **fields: Any) -> Any:
        return self.client.connection.call(method, _message(method + "Request", campaign=self.name, **fields))

    def _steer(self, method: str) -> "Campaign":
        self._call(method, request_id=new_request_id())
        return self

    def describe(self) -> Any:
        """Returns the whole fulcrum.v1.Campaign message."""
        return self._call("GetCampaign").campaign

    @property
    def state(self) -> str:
        """Its state in lower case, such as "waiting" or "done"."""
        name = api.enum_name("fulcrum.v1.CampaignState", self.describe().state)
        return name[len("CAMPAIGN_STATE_"):].lower()

    def start(self) -> "Campaign":
        """Selects the first batch, or continues after a failure."""
        return self._steer("StartCampaign")

    def pause(self) -> "Campaign":
        """Stops offering tasks."""
        return self._steer("PauseCampaign")

    def resume(self) -> "Campaign":
        """Continues after a pause."""
        return self._steer("ResumeCampaign")

    def stop(self) -> "Campaign":
        """Ends it; its results remain."""
        return self._steer("StopCampaign")

    def delete(self) -> None:
        """Moves it to the server's trash."""
        self._steer("DeleteCampaign")

    def events(self, after_sequence: int = 0) -> Iterator[Any]:
        """Yields its events, fulcrum.v1.CampaignEvent, until it is done."""
        request = _message("WatchCampaignRequest", campaign=self.name, after_sequence=after_sequence)
        for response in self.client.connection.stream("WatchCampaign", request):
            yield response.event

    def watch(self, out: Any = None) -> "Campaign":
        """Prints one line that follows the labels, until the campaign is done. Ctrl-C ends the watching only."""
        out = out or sys.stderr
        try:
            for event in self.events():
                if event.HasField("labels"):
                    labels = event.labels
                    out.write(f"\r{self.name}: {labels.labels} labels, {labels.round_settled} of "
                              f"{labels.round_items} of this round ")
                    out.flush()
        except KeyboardInterrupt:
            pass
        out.write("\n")
        return self

    def curve(self) -> Any:
        """Returns the learning curve, one row per model: round, labels, accuracy, changed_share, train_seconds."""
        rows = []
        for event in self.events():
            if not event.HasField("model"):
                break
            model = event.model
            rows.append({"round": model.round, "labels": model.labels,
                         "accuracy": model.accuracy if model.HasField("accuracy") else None,
                         "changed_share": model.changed_share, "train_seconds": model.train_seconds})
        return _table(rows, ("round", "labels", "accuracy", "changed_share", "train_seconds"))

    def labels(self) -> Any:
        """Returns all labels in the order in which they were given."""
        rows = []
        request = _message("ExportLabelsRequest", campaign=self.name)
        for page in self.client.connection.stream("ExportLabels", request):
            rows += [{"id": each.item_id, "label": each.value, "annotator": each.annotator,
                      "time": each.time.ToDatetime(), "round": each.round, "counts": each.counts,
                      "decision": each.decision} for each in page.labels]
        return _table(rows, ("id", "label", "annotator", "time", "round", "counts", "decision"))

    def items(self, state: str = "") -> Any:
        """Returns the items in a state, such as "disputed"; by default all that were selected or labeled."""
        number = api.enum_value("fulcrum.v1.ItemState", "ITEM_STATE_" + state.upper()) if state else 0
        rows, token = [], ""
        while True:
            page = self._call("ListItems", state=number, page_size=1000, page_token=token)
            for each in page.items:
                name = api.enum_name("fulcrum.v1.ItemState", each.state)[len("ITEM_STATE_"):].lower()
                rows.append({"id": each.item_id, "state": name, "label": each.label, "round": each.round,
                             "rank": each.rank, "prediction": each.prediction, "reason": each.reason})
            token = page.next_page_token
            if not token:
                return _table(rows, ("id", "state", "label", "round", "rank", "prediction", "reason"))

    def predict(self, rows: Any) -> Any:
        """Predicts rows with the last model: a two-dimensional array (features in the order of the pool), or a list of
        ids of the pool."""
        if hasattr(rows, "to_numpy"):
            rows = rows.to_numpy()
        by_id = not hasattr(rows, "shape")
        results: List[Dict[str, Any]] = []
        for begin in range(0, len(rows), _PREDICT_AT_ONCE):
            part = rows[begin:begin + _PREDICT_AT_ONCE]
            fields = {"item_ids": [str(each) for each in part]} if by_id else {
                "rows": [{"values": [float(value) for value in row]} for row in part]}
            response = self._call("Predict", **fields)
            for number, each in enumerate(response.predictions):
                row = {"id": str(rows[begin + number]) if by_id else begin + number, "label": each.value}
                row.update(zip((f"probability {name}" for name in response.classes), each.probabilities))
                results.append(row)
        columns = list(results[0]) if results else ["id", "label"]
        return _table(results, columns)

    def export_model(self, path: str, round: int = 0) -> Any:  # noqa: A002
        """Writes the file of a model, by default the last; returns its description."""
        description = None
        temporary = path + ".part"
        request = _message("GetModelRequest", campaign=self.name, round=round)
        with open(temporary, "wb") as file:
            for part in self.client.connection.stream("GetModel", request):
                description = part.description if part.HasField("description") else description
                file.write(part.chunk)
        if description is None or os.path.getsize(temporary) != description.bytes:
            os.remove(temporary)
            raise FulcrumError("DATA_LOSS", "the server did not send the whole model")
        os.replace(temporary, path)
        return description

    def append(self, path: str) -> Any:
        """Adds the rows of an Arrow IPC file to the pool; returns what became of them."""
        def parts() -> Iterator[Any]:
            yield _message("AppendItemsRequest", begin={"campaign": self.name, "request_id": new_request_id()})
            with open(path, "rb") as file:
                for chunk in iter(lambda: file.read(_CHUNK), b""):
                    yield _message("AppendItemsRequest", chunk=chunk)
            yield _message("AppendItemsRequest", end=True)
        return self.client.connection.send("AppendItems", parts())

    def _repr_html_(self) -> str:
        campaign = self.describe()
        state = api.enum_name("fulcrum.v1.CampaignState", campaign.state)[len("CAMPAIGN_STATE_"):].lower()
        return (f"<b>{html.escape(self.name)}</b>: {html.escape(state)}, {campaign.labels} labels, "
                f"round {campaign.round}, {campaign.pool_rows} examples")


__all__ = ["Campaign", "Client"]
