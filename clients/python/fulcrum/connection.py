"""The way to a server: calls by name, with a token, and retries with the same request id."""

import random
import time
import uuid
from typing import Any, Callable, Dict, Iterator, Optional, Sequence

import grpc

from . import api
from .errors import FulcrumError, from_rpc

TRANSIENT = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")
# Codes of parts of a request (ItemStatus) that ask for the same request again: RESOURCE_EXHAUSTED and UNAVAILABLE.
TEMPORARY_ITEMS = (8, 14)
SERVICES = ("AnnotatorService", "CampaignService", "ItemService", "LabelingService", "ModelService", "OperationService",
            "ServerService", "UploadService")


def new_request_id() -> str:
    """Returns an id that no other request has."""
    return uuid.uuid4().hex


class Connection:
    """Calls of fulcrum.v1 on one channel. Thread-safe."""

    def __init__(self, address: str, token: Optional[str], ca: Optional[str], retry_seconds: float):
        local = address.startswith(("127.", "localhost:", "[::1]:", "unix:"))
        if token and not ca and not local:
            raise ValueError("refusing to send a token unencrypted: give `ca`, the PEM file of the server's authority, or "
                             "'system' for the public authorities")
        # A restarted server is reached again within a second. A network that has gone without a word is noticed by pings;
        # servers refuse more than one in five minutes.
        options = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.initial_reconnect_backoff_ms", 100),
                   ("grpc.keepalive_time_ms", 330_000), ("grpc.keepalive_timeout_ms", 20_000)]
        if ca == "system":
            self.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(), options)
        elif ca:
            with open(ca, "rb") as file:
                credentials = grpc.ssl_channel_credentials(file.read())
            self.channel = grpc.secure_channel(address, credentials, options)
        else:
            self.channel = grpc.insecure_channel(address, options)
        self.metadata = [("authorization", f"Bearer {token}")] if token else []
        self.retry_seconds = retry_seconds
        self._calls: Dict[str, Callable[..., Any]] = {}
        for service in SERVICES:
            for name, method in api.methods(service).items():
                self._calls[name] = self._bind(service, method)

    def _bind(self, service: str, method: Any) -> Callable[..., Any]:
        streams = {"WatchCampaign", "ExportLabels", "GetModel", "GetPayload", "GetModelLabels", "GetModelRows"}
        make = self.channel.unary_stream if method.name in streams else self.channel.unary_unary
        make = self.channel.stream_unary if method.name in ("AppendItems", "SubmitPredictions") else make
        make = self.channel.stream_stream if method.name == "OfferItems" else make
        return make(f"/fulcrum.v1.{service}/{method.name}",
                    request_serializer=lambda message: message.SerializeToString(),
                    response_deserializer=api.message(method.output_type.full_name).FromString)

    def call(self, method: str, request: Any, timeout: float = 60,
             keep_trying: Optional[Callable[[], bool]] = None) -> Any:
        """Makes a unary call. Repeats it unchanged while the error may pass, so it needs a request id if it changes
        something. Gives up after `retry_seconds`, or when `keep_trying` returns False."""
        return self._retry(lambda: self._calls[method](request, timeout=timeout, metadata=self.metadata),
                           TRANSIENT, keep_trying)

    def call_items(self, method: str, request: Any, keep_trying: Optional[Callable[[], bool]] = None) -> Any:
        """Like call(), for a request whose parts have results of their own. Repeats it unchanged while one of them is
        temporary: parts that took effect get the same result again."""
        def make() -> Any:
            response = self._calls[method](request, timeout=60, metadata=self.metadata)
            for result in response.results:
                status = getattr(result, "status", result)
                if status.code in TEMPORARY_ITEMS:
                    raise FulcrumError("UNAVAILABLE", status.message)
            return response
        return self._retry(make, TRANSIENT, keep_trying)

    def _retry(self, make: Callable[[], Any], transient: Sequence[str],
               keep_trying: Optional[Callable[[], bool]] = None) -> Any:
        until = time.monotonic() + self.retry_seconds
        pause = 0.05
        while True:
            try:
                return make()
            except grpc.RpcError as caught:
                error = from_rpc(caught)
            except FulcrumError as caught:
                error = caught
            if error.code not in transient or time.monotonic() > until or (keep_trying and not keep_trying()):
                raise error
            time.sleep(max(error.retry_seconds or 0, pause * random.uniform(0.5, 1)))
            pause = min(2 * pause, 2)

    def stream(self, method: str, request: Any) -> Iterator[Any]:
        """Makes a call whose response is a stream."""
        call = self._calls[method](request, metadata=self.metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise from_rpc(error) from None
        finally:
            call.cancel()

    def send(self, method: str, requests: Callable[[], Iterator[Any]]) -> Any:
        """Makes a call whose request is a stream. `requests` makes the same stream again for a repeat."""
        return self._retry(lambda: self._calls[method](requests(), metadata=self.metadata), (*TRANSIENT, "ABORTED"))

    def payload(self, campaign: str, item_id: str) -> bytes:
        """Returns the whole payload of an item. Repeats the call while the error may pass."""
        request = api.message("fulcrum.v1.GetPayloadRequest")(campaign=campaign, item_id=item_id)

        def make() -> bytes:
            parts = list(self.stream("GetPayload", request))
            found = b"".join(part.chunk for part in parts)
            if parts and len(found) != parts[0].payload_bytes:
                raise FulcrumError("UNAVAILABLE", "the server did not send the whole payload")
            return found
        return bytes(self._retry(make, TRANSIENT))

    def exchange(self, method: str, request: Any) -> Any:
        """Makes a call whose messages are answered one by one, with one message. It needs a request id."""
        def make() -> Any:
            call = self._calls[method](iter([request]), timeout=60, metadata=self.metadata)
            responses = list(call)
            if not responses:
                raise FulcrumError("UNAVAILABLE", "the server has not answered")
            return responses[0]
        return self._retry(make, (*TRANSIENT, "ABORTED"))


__all__ = ["Connection", "FulcrumError", "new_request_id"]
