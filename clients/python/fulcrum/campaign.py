"""A campaign on a server: its progress, its results, its model."""

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import api, display
from .connection import TRANSIENT, new_request_id
from .errors import FulcrumError
from .spec import fields_of, paths_of
from .upload import as_file, ids_of_index

if TYPE_CHECKING:
    import pandas

    from .client import Client

#: A data frame if pandas is installed, otherwise a list of dictionaries.
Table = Union["pandas.DataFrame", List[Dict[str, Any]]]

_CHUNK = 1 << 20
_PREDICT_AT_ONCE = 1000
_PREDICT_BYTES = 2 << 20
_OFFER_AT_ONCE = 1000


def message(name: str, **fields: Any) -> Any:
    """Returns a message of fulcrum.v1."""
    return api.message("fulcrum.v1." + name)(**fields)


def _table(rows: List[Dict[str, Any]], columns: Sequence[str]) -> Table:
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows, columns=list(columns))


def _enum(enum: str, number: int) -> str:
    """The name of a value in lower case without its prefix, such as "waiting"."""
    prefix = "".join("_" + letter if letter.isupper() else letter for letter in enum)[1:].upper() + "_"
    return api.enum_name("fulcrum.v1." + enum, number)[len(prefix):].lower()


def _rows_to_predict(rows: Any, pool_columns: Callable[[], Any]) -> Tuple[Optional[List[str]], List[Any], Any]:
    """Returns names of features (if known), what the rows are called, and the rows as an array; None for ids."""
    if hasattr(rows, "to_pandas"):
        rows = rows.to_pandas()
    if hasattr(rows, "to_numpy") and hasattr(rows, "columns"):
        # The frame that made the pool has columns that are no features.
        id_column, others = pool_columns()
        ids = list(rows[id_column] if id_column in rows.columns else rows.index)
        rows = rows[[name for name in rows.columns if name != id_column and name not in others]]
        values = rows.to_numpy()
        if values.shape[1] == 1 and len(values) > 0 and hasattr(values[0, 0], "__len__") and not isinstance(values[0, 0], str):
            return None, ids, [list(each) for each in values[:, 0]]  # a column of lists, such as embeddings
        return [str(name) for name in rows.columns], ids, values
    if hasattr(rows, "tocsr"):
        return None, list(range(rows.shape[0])), rows.tocsr()
    if hasattr(rows, "shape") and len(rows.shape) == 2:
        return None, list(range(len(rows))), rows
    if hasattr(rows, "tolist"):
        rows = rows.tolist()
    rows = list(rows)
    if rows and not isinstance(rows[0], (str, bytes)) and hasattr(rows[0], "__len__"):
        return None, list(range(len(rows))), rows
    return None, [str(each) for each in rows], None


def _width(rows: Any) -> int:
    return max(1, rows.shape[1] if hasattr(rows, "shape") else len(rows[0]))


def _feature_rows(rows: Any, names: Optional[Sequence[str]] = None) -> List[Dict[str, Any]]:
    if hasattr(rows, "indptr"):
        parts = zip(rows.indptr[:-1], rows.indptr[1:])
        # Without indices, which an empty row has not, a row has all its features.
        return [{"values": rows.data[a:b].tolist() or [0.0], "indices": rows.indices[a:b].tolist() or [0]} for a, b in parts]
    return [{"values": [_number(value, row, column, names) for column, value in enumerate(values)]}
            for row, values in enumerate(rows)]


def _number(value: Any, row: int, column: int, names: Optional[Sequence[str]]) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        called = f"column '{names[column]}'" if names else f"feature {column} (counted from 0)"
        raise ValueError(f"{called} has {value!r} in row {row}, which is not a number") from None


class Campaign:
    """A campaign on a server. Client.create_campaign and Client.campaign return it."""

    def __init__(self, client: "Client", name: str):
        self.client = client
        #: Its name.
        self.name = name

    def __repr__(self) -> str:
        return f"<fulcrum.Campaign {self.name!r}>"

    def _call(self, method: str, **fields: Any) -> Any:
        return self.client.connection.call(method, message(method + "Request", campaign=self.name, **fields))

    def _steer(self, method: str, **more: str) -> "Campaign":
        self._call(method, request_id=new_request_id(), **more)
        return self

    def describe(self) -> Any:
        """Returns the whole fulcrum.v1.Campaign message."""
        return self._call("GetCampaign").campaign

    @property
    def state(self) -> str:
        """Its state in lower case, such as "waiting" or "done"."""
        return _enum("CampaignState", self.describe().state)

    def start(self, reason: str = "") -> "Campaign":
        """Selects the first batch, or continues after a failure. The reason is stored with the change, as in the others."""
        return self._steer("StartCampaign", reason=reason)

    def pause(self, reason: str = "") -> "Campaign":
        """Stops offering tasks."""
        return self._steer("PauseCampaign", reason=reason)

    def resume(self, reason: str = "") -> "Campaign":
        """Continues after a pause."""
        return self._steer("ResumeCampaign", reason=reason)

    def stop(self, reason: str = "") -> "Campaign":
        """Ends it; its results remain."""
        return self._steer("StopCampaign", reason=reason)

    def delete(self) -> None:
        """Moves it to the server's trash."""
        self._steer("DeleteCampaign")

    def update(self, **spec: Any) -> "Campaign":
        """Changes its specification while it runs: `update(stop={"labels": 500}, question="Which digit?")`. Only what is
        given changes; None sets a field to its default. FulcrumError INVALID_ARGUMENT names what cannot change."""
        descriptor = message("CampaignSpec").DESCRIPTOR
        self._call("UpdateCampaign", request_id=new_request_id(), spec=fields_of(descriptor, spec),
                   update_mask={"paths": paths_of(descriptor, spec)})
        return self

    def events(self, after_sequence: int = 0) -> Generator[Any, None, None]:
        """Yields its models so far, then its state, then its events, fulcrum.v1.CampaignEvent, until it is done.

        A connection that is lost is made again, and events continue after the last one; FulcrumError when that fails for
        as long as the client retries calls.
        """
        while True:
            request = message("WatchCampaignRequest", campaign=self.name, after_sequence=after_sequence)
            try:
                for response in self.client.connection.stream("WatchCampaign", request):
                    after_sequence = max(after_sequence, response.event.sequence)
                    yield response.event
                return
            except FulcrumError as error:
                if error.code not in (*TRANSIENT, "CANCELLED"):
                    raise
                self.describe()  # returns when the server can be reached again, or raises

    def watch(self, out: Any = None) -> "Campaign":
        """Shows a progress bar until the campaign is done, or has failed or is quarantined, with the reason: in a notebook,
        on a terminal, or as lines in another file.

        Ctrl-C ends the watching, not the campaign.
        """
        bar = display.progress_bar(out)
        progress = display.Progress(self.name)
        events = self.events()
        try:
            for event in events:
                if progress.update(event):
                    bar.show(progress)
                if progress.state in ("failed", "quarantined"):
                    break
        except KeyboardInterrupt:
            pass
        finally:
            events.close()
        bar.close(progress)
        return self

    def curve(self) -> Table:
        """Returns the learning curve, one row per model: round, labels, accuracy, changed_share, train_seconds."""
        return _table(self._models(), ("round", "labels", "accuracy", "changed_share", "train_seconds"))

    def _models(self) -> List[Dict[str, Any]]:
        rows = []
        for event in self.events():
            if not event.HasField("model"):
                break
            model = event.model
            rows.append({"round": model.round, "labels": model.labels,
                         "accuracy": model.accuracy if model.HasField("accuracy") else None,
                         "changed_share": model.changed_share, "train_seconds": model.train_seconds})
        return rows

    def labels(self, errors: bool = False) -> Table:
        """Returns all labels in the order in which they were given; `decision` is what became of the item,
        `confidence` the probability that this is right, and `suggested` the class that it should perhaps have instead
        if its label is likely wrong. With `errors` such labels are looked for as by `label_errors()`."""
        rows: List[Dict[str, Any]] = []
        request = message("ExportLabelsRequest", campaign=self.name, errors=errors)
        for page in self.client.connection.stream("ExportLabels", request):
            rows += [{"id": each.item_id, "label": each.value, "annotator": each.annotator,
                      "time": each.time.ToDatetime(), "round": each.round, "counts": each.counts,
                      "decision": each.decision,
                      "confidence": each.confidence if each.HasField("confidence") else None,
                      "suggested": each.suggested}
                     for each in page.labels]
        return _table(rows, ("id", "label", "annotator", "time", "round", "counts", "decision", "confidence",
                             "suggested"))

    def annotators(self) -> Table:
        """Returns one row per annotator: votes, estimated accuracy with its 95 percent interval, agreement with others,
        drift, speed, skips and cost; `paused` is why it gets no tasks. Reads the whole log of the campaign."""
        columns = ("name", "votes", "accuracy", "accuracy_low", "accuracy_high", "gold_votes", "gold_right", "kappa",
                   "drift", "drift_z", "answer_seconds", "labels", "skips", "skip_rate", "expired_leases", "cost",
                   "paused")
        rows = []
        for each in self._call("ListAnnotators").annotators:
            row = {"name": each.name, "paused": each.paused_reason}
            for column in columns[1:-1]:
                field = each.DESCRIPTOR.fields_by_name[column]
                absent = field.containing_oneof is not None and not each.HasField(column)
                row[column] = None if absent else getattr(each, column)
            rows.append(row)
        return _table(rows, columns)

    def items(self, state: str = "") -> Table:
        """Returns the items in a state: "unlabeled", "open", "leased", "labeled", "disputed" or "set_aside"; by default
        all that were selected or labeled. `votes` has the answer of each annotator, None if it was withdrawn."""
        try:
            number = api.enum_value("fulcrum.v1.ItemState", "ITEM_STATE_" + state.upper()) if state else 0
        except KeyError:
            raise ValueError(f"there is no state '{state}' of items; it must be unlabeled, open, leased, labeled, "
                             "disputed or set_aside") from None
        rows, token = [], ""
        while True:
            page = self._call("ListItems", state=number, page_size=1000, page_token=token)
            rows += [{"id": each.item_id, "state": _enum("ItemState", each.state), "label": each.label,
                      "round": each.round, "rank": each.rank, "prediction": each.prediction, "reason": each.reason,
                      "votes": {vote.annotator: None if vote.withdrawn else vote.value for vote in each.votes},
                      "agreement": each.agreement if each.HasField("agreement") else None}
                     for each in page.items]
            token = page.next_page_token
            if not token:
                return _table(rows, ("id", "state", "label", "round", "rank", "prediction", "reason", "votes",
                                     "agreement"))

    def item(self, name: Any) -> Any:
        """Returns everything about an item: its state and votes, its history, and why it was selected, as the message
        fulcrum.v1.GetItemResponse. A payload of more than 1 MiB is not in it."""
        return self._call("GetItem", item_id=str(name))

    def payload(self, name: Any) -> bytes:
        """Returns the whole payload of an item."""
        return self.client.connection.payload(self.name, str(name))

    def resolve(self, name: Any, label: Any, reason: str = "") -> Any:
        """Decides an item, such as a disputed one, whatever its votes are; returns it as fulcrum.v1.Item."""
        return self._call("ResolveItem", item_id=str(name), value=str(label), reason=reason,
                          request_id=new_request_id()).item

    def return_item(self, name: Any, reason: str = "") -> Any:
        """Offers an item again that was set aside, or that is disputed and has no annotator left; returns it as
        fulcrum.v1.Item."""
        return self._call("ReturnItem", item_id=str(name), reason=reason, request_id=new_request_id()).item

    def _pool_columns(self) -> Tuple[str, List[str]]:
        """The column of ids, and those of the pool that are neither ids nor features."""
        pool = self.describe().spec.pool
        return pool.id_column, [pool.label_column or "label", pool.payload_column, pool.cost_column,
                                *pool.ignored_columns]

    def predict(self, rows: Any, round: int = 0) -> Table:  # noqa: A002
        """Predicts rows with the last model, or with that of a round.

        `rows` is a two-dimensional array, a list of lists or a sparse matrix (features in the order of the pool), a data
        frame or an Arrow table (features by name; the pool's columns that are no features are left out), or a list of ids
        of the pool. The result has the column `id` (the ids, the pool's column of ids or the index of the data frame, or the
        numbers of the rows), `label`, and `probability CLASS` if the model has probabilities.
        """
        names, ids, values = _rows_to_predict(rows, self._pool_columns)
        at_once = _PREDICT_AT_ONCE
        if values is not None:
            at_once = max(1, min(at_once, _PREDICT_BYTES // (8 * _width(values))))
        results: List[Dict[str, Any]] = []
        for begin in range(0, len(ids), at_once):
            fields: Dict[str, Any] = {"item_ids": ids[begin:begin + at_once]}
            if values is not None:
                fields = {"rows": _feature_rows(values[begin:begin + at_once], names), "feature_names": names or []}
            response = self._call("Predict", round=round, **fields)
            for name, each in zip(ids[begin:begin + at_once], response.predictions):
                row = {"id": name, "label": each.value}
                row.update(zip((f"probability {label}" for label in response.classes), each.probabilities))
                results.append(row)
        return _table(results, list(results[0]) if results else ["id", "label"])

    def export_model(self, path: Union[str, "os.PathLike[str]"], round: int = 0) -> Any:  # noqa: A002
        """Writes the file of a model, by default the last; returns its description, fulcrum.v1.ModelDescription."""
        description = None
        path = os.fspath(path)
        temporary = path + ".part"
        request = message("GetModelRequest", campaign=self.name, round=round)
        with open(temporary, "wb") as file:
            for part in self.client.connection.stream("GetModel", request):
                description = part.description if part.HasField("description") else description
                file.write(part.chunk)
        if description is None or os.path.getsize(temporary) != description.bytes:
            os.remove(temporary)
            raise FulcrumError("DATA_LOSS", "the server did not send the whole model")
        os.replace(temporary, path)
        return description

    def append(self, rows: Any, ids: Optional[Sequence[Any]] = None) -> Dict[str, Any]:
        """Adds examples to the pool: a data frame, an array, an Arrow table, record batches, or an Arrow IPC file.

        The columns have the names of the pool's; those of an array are f0, f1, ... as in create_campaign. Returns the
        numbers of rows that were read, added, existing and rejected, reasons for the rejected ones, and the size of the
        pool.
        """
        request_id = new_request_id()

        def parts(path: str) -> Iterator[Any]:
            yield message("AppendItemsRequest", begin={"campaign": self.name, "request_id": request_id})
            with open(path, "rb") as file:
                for chunk in iter(lambda: file.read(_CHUNK), b""):
                    yield message("AppendItemsRequest", chunk=chunk)
            yield message("AppendItemsRequest", end=True)

        if ids is None and self._pool_columns()[0] == "id":
            ids = ids_of_index(rows)
        with as_file(rows, ids) as path:
            response = self.client.connection.send("AppendItems", lambda: parts(path))
        return {"read": response.read, "added": response.added, "existing": response.existing,
                "rejected": response.rejected, "rejected_examples": list(response.rejected_examples),
                "pool_rows": response.pool_rows}

    def offer(self, rows: Any, ids: Optional[Sequence[Any]] = None, payloads: Optional[Sequence[str]] = None) -> Table:
        """Offers rows of a stream: a data frame, an Arrow table or an array, with ids of their own.

        Needs `selection: {stream: ...}` in the campaign's specification. The rows are decided in their order, and those
        with the decision "label" are tasks. The result has the columns `id`, `decision` ("label", "skip", or "existing"
        for an id that the pool has), `score` and `threshold`. When it is returned, the decisions are on the server's disk.
        """
        names, own_ids, values = _rows_to_predict(rows, self._pool_columns)
        if values is None:
            raise ValueError("give rows of features: a data frame, an Arrow table or an array")
        ids = list(ids) if ids is not None else own_ids
        payloads = list(payloads) if payloads is not None else None
        if len(ids) != len(own_ids) or (payloads is not None and len(payloads) != len(ids)):
            raise ValueError("there must be as many ids and payloads as rows")
        features = _feature_rows(values, names)
        at_once = max(1, min(_OFFER_AT_ONCE, _PREDICT_BYTES // (8 * _width(values))))
        results: List[Dict[str, Any]] = []
        for begin in range(0, len(ids), at_once):
            items = [{"item_id": str(ids[i]), "features": features[i], "payload": str(payloads[i]) if payloads is not None else ""}
                     for i in range(begin, min(begin + at_once, len(ids)))]
            request = message("OfferItemsRequest", campaign=self.name, request_id=new_request_id(), items=items,
                              feature_names=names or [])
            for answer in self.client.connection.exchange("OfferItems", request).answers:
                results.append({"id": answer.item_id, "decision": _enum("OfferDecision", answer.decision),
                                "score": answer.score, "threshold": answer.threshold})
        return _table(results, ["id", "decision", "score", "threshold"])

    def import_labels(self, labels: Mapping[Any, Any], source: str = "python") -> int:
        """Adds labels that you have already, by id. They decide their items. Returns how many were imported."""
        entries = [{"item_id": str(name), "value": str(value)} for name, value in labels.items()]
        imported = 0
        for begin in range(0, len(entries), 1000):
            response = self._call("ImportLabels", source=source, request_id=new_request_id(),
                                  labels=entries[begin:begin + 1000])
            imported += response.imported
        return imported

    def _repr_html_(self) -> str:
        campaign = self.describe()
        return display.campaign_html(campaign, _enum("CampaignState", campaign.state), self._models())


__all__ = ["Campaign", "Table"]
