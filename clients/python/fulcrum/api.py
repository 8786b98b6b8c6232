"""The messages and calls of fulcrum.v1, made at import time from a compiled description of the .proto files.

No generated code is involved, so any protobuf runtime from 3.20 on works. The description is `api.binpb`, made by
`protoc --descriptor_set_out` when the package is built.
"""

import pathlib
from typing import Any, Dict

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_POOL = descriptor_pool.DescriptorPool()
_FILES = descriptor_pb2.FileDescriptorSet.FromString((pathlib.Path(__file__).parent / "api.binpb").read_bytes())
for _file in _FILES.file:
    _POOL.Add(_file) if hasattr(_POOL, "Add") else _POOL.AddSerializedFile(_file.SerializeToString())


def message(name: str) -> Any:
    """Returns the class of a message, such as "fulcrum.v1.CampaignSpec"."""
    descriptor = _POOL.FindMessageTypeByName(name)
    factory: Any = message_factory  # which has one function or the other
    if hasattr(factory, "GetMessageClass"):
        return factory.GetMessageClass(descriptor)
    return factory.MessageFactory(_POOL).GetPrototype(descriptor)


def enum_value(enum: str, name: str) -> int:
    """Returns the number of a value, such as ("fulcrum.v1.ItemState", "ITEM_STATE_LABELED")."""
    return _POOL.FindEnumTypeByName(enum).values_by_name[name].number


def enum_name(enum: str, number: int) -> str:
    """Returns the name of a value."""
    return _POOL.FindEnumTypeByName(enum).values_by_number[number].name


def methods(service: str) -> Dict[str, Any]:
    """Returns the methods of a service of fulcrum.v1 by name."""
    return {method.name: method for method in _POOL.FindServiceByName("fulcrum.v1." + service).methods}
