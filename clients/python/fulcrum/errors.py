"""What went wrong, with the server's details."""

from typing import Any, Dict, List, Optional, Tuple

import grpc

from . import api


class FulcrumError(Exception):
    """A call that the server refused, or that did not reach it."""

    def __init__(self, code: str, message: str, fields: Optional[List[Tuple[str, str]]] = None,
                 retry_seconds: Optional[float] = None):
        # Some messages have them already.
        places = "".join(f"\n  {field}: {reason}" for field, reason in fields or [] if f"{field}: {reason}" not in message)
        super().__init__(f"{code}: {message}{places}")
        #: Name of the gRPC status code, such as "NOT_FOUND".
        self.code = code
        #: The server's message.
        self.message = message
        #: The fields of a request that are wrong, each with the reason.
        self.fields = fields or []
        #: Seconds after which the server asks to retry, if it does.
        self.retry_seconds = retry_seconds


class Skip(Exception):
    """Raised or returned by a labeling function to skip an item; the reason is "unsure", "bad_item" or "not_now"."""

    def __init__(self, reason: str = "unsure"):
        if reason not in ("unsure", "bad_item", "not_now"):
            raise ValueError(f"the reason of a skip is 'unsure', 'bad_item' or 'not_now', not '{reason}'")
        super().__init__(reason)
        self.reason = reason


def code_name(number: int) -> str:
    """Returns the name of a code of google.rpc, such as "ABORTED"."""
    names = {code.value[0]: code.name for code in grpc.StatusCode}
    return names.get(number, str(number))


def from_details(code: str, message: str, details: bytes) -> FulcrumError:
    """Makes an error from a serialised google.rpc.Status, which can be empty."""
    fields: List[Tuple[str, str]] = []
    retry: Optional[float] = None
    for detail in api.message("google.rpc.Status").FromString(details or b"").details:
        kind = detail.type_url.rpartition("/")[2]
        if kind == "google.rpc.BadRequest":
            bad = api.message(kind).FromString(detail.value)
            fields += [(each.field, each.description) for each in bad.field_violations]
        elif kind == "google.rpc.RetryInfo":
            delay = api.message(kind).FromString(detail.value).retry_delay
            retry = delay.seconds + delay.nanos * 1e-9
    return FulcrumError(code, message, fields, retry)


def from_rpc(error: grpc.RpcError) -> FulcrumError:
    """Makes an error from one of gRPC."""
    pairs: Any = error.trailing_metadata() or ()
    trailers: Dict[str, Any] = dict(pairs)
    return from_details(error.code().name, error.details() or "", trailers.get("grpc-status-details-bin", b""))
