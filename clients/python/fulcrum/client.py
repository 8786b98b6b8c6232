"""A server, and the creation of campaigns on it."""

import os
import time
from typing import Any, List, Optional, Sequence

from . import api
from .campaign import Campaign, message
from .connection import Connection, new_request_id
from .errors import FulcrumError, code_name, from_details
from .spec import fields_of
from .upload import as_file, column_names, ids_of_index, send_file, without_columns


def _ignored_columns(pool: Any, features: Optional[Sequence[str]], ignore: Sequence[str],
                     roles: Sequence[str]) -> List[str]:
    """The columns that are not used: those that were named, and those that are no features if the features were."""
    ignored = [ignore] if isinstance(ignore, str) else [str(each) for each in ignore]
    if features is None:
        return ignored
    names = column_names(pool)
    if names is None:
        raise ValueError("features names columns of a data frame or an Arrow table; name the other columns with ignore")
    wanted = [features] if isinstance(features, str) else [str(each) for each in features]
    missing = [each for each in wanted if each not in names]
    if missing:
        raise ValueError(f"the pool has no columns {missing}; its columns are {names}")
    return [*ignored, *(each for each in names if each not in wanted and each not in roles and each not in ignored)]


class Client:
    """A server.

    `token` defaults to the environment variable FULCRUM_TOKEN. `ca` is a PEM file with the authorities of the server's
    certificate, or "system" for the public authorities that gRPC knows; without it the connection is not encrypted. Calls
    are repeated for `retry_seconds` while the server cannot be reached, with the same request id, so that each takes effect
    once.
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
        return self.connection.call("GetVersion", message("GetVersionRequest")).version

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
            page = self.connection.call("ListCampaigns", message("ListCampaignsRequest", page_token=token))
            found += [Campaign(self, each.name) for each in page.campaigns]
            token = page.next_page_token
            if not token:
                return found

    def create_campaign(self, name: str, pool: Any, classes: Sequence[Any], *, ids: Optional[Sequence[Any]] = None,
                        id_column: str = "", payload_column: str = "", label_column: str = "", cost_column: str = "",
                        features: Optional[Sequence[str]] = None, ignore: Sequence[str] = (), validation: Any = None,
                        question: str = "", start: bool = True, **spec: Any) -> "Campaign":
        """Sends the pool to the server, creates a campaign with it, and starts it.

        `pool` is a data frame, a two-dimensional array, a scipy.sparse matrix, an Arrow table, an iterable of record
        batches, or the path of a local file of any format that Fulcrum reads. `ids` name the rows of an array, a matrix or
        a data frame; otherwise `id_column` does, or the index of a data frame if it is more than numbers from 0 and unique;
        otherwise rows are named by their numbers. Columns without a role are features, except those that `ignore` names;
        `features` names the features instead, of a data frame or an Arrow table. `validation` are labeled rows with the same
        columns (a data frame, an Arrow table or a path) on which every model's accuracy is measured.

        Other arguments are fields of CampaignSpec, such as
        `selection={"strategy": "margin", "batch": 20}, stop={"labels": 200}, labeling={"lease_time": "10m"}`, with values
        as in a YAML file; durations can be a timedelta or seconds, too. The server checks them before the pool is sent.
        """
        fields = fields_of(message("CampaignSpec").DESCRIPTOR, spec)
        if ids is None and not id_column:
            ids = ids_of_index(pool)
        roles = {"id_column": id_column or ("id" if ids is not None else ""), "label_column": label_column,
                 "payload_column": payload_column, "cost_column": cost_column}
        ignored = _ignored_columns(pool, features, ignore, [*roles.values(), "id", label_column or "label"])
        order = api.message("fulcrum.v1.CampaignSpec")(**dict(
            fields, name=name, classes=[str(each) for each in classes], question=question,
            pool={"sources": ["upload:pool"], "ignored_columns": ignored, **roles}))
        if validation is not None and order.stop.accuracy.sources:
            raise ValueError("give either validation or stop={'accuracy': {'sources': ...}}")
        if validation is not None:
            order.stop.accuracy.sources.append("upload:validation")
        self.connection.call("CreateCampaign", message("CreateCampaignRequest", spec=order, validate_only=True))
        uploads: List[str] = []
        try:
            uploads.append(self._send(without_columns(pool, ignored), ids))
            order.pool.sources[:] = uploads
            if validation is not None:
                uploads.append(self._send(without_columns(validation, ignored), None))
                order.stop.accuracy.sources[:] = uploads[1:]
            request = message("CreateCampaignRequest", request_id=new_request_id(), spec=order)
            self._await(self.connection.call("CreateCampaign", request).operation)
        finally:
            # The campaign has its own copy. An upload that cannot be deleted now expires.
            for source in uploads:
                try:
                    self.connection.call("DeleteUpload", message("DeleteUploadRequest", upload=source.partition(":")[2]))
                except FulcrumError:
                    pass
        campaign = Campaign(self, name)
        if start:
            campaign.start()
        return campaign

    def _send(self, rows: Any, ids: Optional[Sequence[Any]]) -> str:
        with as_file(rows, ids) as path:
            return send_file(self.connection, path)

    def _await(self, operation: Any) -> None:
        pause = 0.02
        try:
            while not operation.HasField("ended_at"):
                time.sleep(pause)
                pause = min(2 * pause, 0.5)
                request = message("GetOperationRequest", operation=operation.name)
                operation = self.connection.call("GetOperation", request).operation
        except KeyboardInterrupt:
            self.connection.call("CancelOperation", message("CancelOperationRequest", operation=operation.name))
            raise
        if operation.HasField("error"):
            error = operation.error
            raise from_details(code_name(error.code), error.message, error.details)


__all__ = ["Campaign", "Client"]
