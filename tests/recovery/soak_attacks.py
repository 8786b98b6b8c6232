"""What the soak sends to the daemon that no honest client would: specifications, frames, requests and files."""

import os
import socket
import struct

EXTREME = [float("nan"), float("inf"), float("-inf"), 1e-320, 1e-155, 1e30, 1e308, -0.0, 2.0**53, -1.0]
WHOLE = [-1, 0, 1, 2**31 - 1, -2**31, 2**63 - 1]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04\x00" + bytes(4)
# Indexed headers: POST, http, a path that does not exist.
REQUEST = b"\x83\x86\x44\x01/\x41\x01a"


def invalid_spec(spec, r):
    """A specification that must be refused."""
    mutations = [
        lambda: setattr(spec.labeling, "overlap", r.choice([-5, -1, 2**31 - 1])),
        lambda: setattr(spec.labeling.lease_time, "seconds", r.choice([-5, 80000000 * 3600])),
        lambda: setattr(spec.selection, "tau", r.choice([float("nan"), -1, 2, 1e308])),
        lambda: setattr(spec.selection, "alpha", r.choice([float("inf"), -0.1, 1.5])),
        lambda: setattr(spec.selection, "batch", r.choice([0, -7, 2**31 - 1])),
        lambda: setattr(spec.selection, "strategy", "\x1b[31mno\x00such"),
        lambda: setattr(spec.selection.kernel, "sigma", r.choice([0, -1, float("nan"), float("inf")])),
        lambda: setattr(spec.classifier, "c", r.choice([0, float("nan"), float("inf")])),
        lambda: spec.pool.sources.__setitem__(0, r.choice(["../../etc/passwd", "absent.csv", "pool0.csv\x00"])),
        lambda: spec.classes.__delitem__(slice(1, None)),
        lambda: setattr(spec, "name", r.choice(["", "a" * 200, "../up", "A B"])),
    ]
    r.choice(mutations)()
    return spec


def fuzzed_spec(spec, r):
    """A specification with extreme numbers in any of its fields: to be refused, or to be run."""
    places = [(spec, spec.DESCRIPTOR)]
    for message, descriptor in places:
        for field in descriptor.fields:
            if field.message_type and field.label != field.LABEL_REPEATED:
                places.append((getattr(message, field.name), field.message_type))
    numbers = [(message, field) for message, descriptor in places for field in descriptor.fields
               if field.label != field.LABEL_REPEATED and not field.message_type
               and field.cpp_type not in (field.CPPTYPE_STRING, field.CPPTYPE_BOOL)]
    for message, field in r.sample(numbers, r.choice([1, 1, 2, 4])):
        floats = field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT)
        try:
            setattr(message, field.name, r.choice(EXTREME if floats else WHOLE))
        except ValueError:
            pass  # out of the range of its type, or not a value of an enum
    return spec


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def flood(r):
    """Frames of one of the kinds that cost the client nothing."""
    kind = r.choice(["reset", "ping", "settings", "continuation", "random"])
    parts = [PREFACE]
    for i in range(500):
        stream = 2 * i + 1
        if kind == "reset":
            parts += [frame(1, 4, stream, REQUEST), frame(3, 0, stream, bytes(4))]
        elif kind == "ping":
            parts.append(frame(6, 0, 0, bytes(8)))
        elif kind == "settings":
            parts.append(frame(4, 0, 0, b"\x00\x04\x00\x00\xff\xff"))
        elif kind == "continuation":
            parts.append(frame(1 if i == 0 else 9, 0, 1, b"\x00\x01x\x01y" if i else b""))
        else:
            parts.append(frame(r.randrange(12), r.randrange(256), r.randrange(2**31), r.randbytes(r.randrange(64))))
    return b"".join(parts)


def web_request(r):
    """A request to the web port that is half, damaged, or announces more than comes."""
    method = r.choice(["fulcrum.v1.CampaignService/ListCampaigns", "fulcrum.v1.CampaignService/CreateCampaign",
                       "fulcrum.v1.LabelingService/SubmitLabels", "no.such.Service/Call", "../../etc/passwd"])
    head = f"POST /{method} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
    json = r.choice([b"{}", b"{", b'{"spec":{"name":"x","selection":{"tau":"NaN"}}}', b"[" * 5000, b'{"spec":null}',
                     b'{"campaign":"' + b"\\u0000" * 100 + b'"}', r.randbytes(r.randrange(1, 4096)),
                     b'{"spec":{"seed":1e999}}', b'{"max":' + b"9" * 5000 + b"}"])
    kind = r.choice(["half", "chunked", "endless", "length", "json", "json", "get"])
    if kind == "half":
        return head[:r.randrange(len(head))]
    if kind == "chunked":
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(
            f"{len(json):x}\r\n".encode() + json + b"\r\n" for _ in range(r.randrange(1, 50))) + b"0\r\n\r\n"
    if kind == "endless":
        size = r.choice([b"ffffffffffffffff\r\n", b"-1\r\n", b"600000\r\n"])
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + size + json
    if kind == "length":
        announced = r.choice([-1, 0, 10**6, 6 * 2**20, 2**40, 2**64])
        return head + f"Content-Length: {announced}\r\n\r\n".encode() + json
    if kind == "get":
        return b"GET /" + r.randbytes(r.randrange(1, 64)).hex().encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    return head + f"Content-Length: {len(json)}\r\n\r\n".encode() + json


def send(port, data):
    """Sends and waits a little for what the server says to it; refusal is fine."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(data)
            connection.settimeout(0.05)
            connection.recv(1 << 16)
    except OSError:
        pass


def damaged(path, r):
    """The bytes of a file with a few of them changed, cut or repeated."""
    with open(path, "rb") as source:
        data = bytearray(source.read())
    for _ in range(r.choice([1, 3, 20])):
        at = r.randrange(len(data))
        change = r.choice(["flip", "set", "cut", "repeat"])
        if change == "flip":
            data[at] ^= 1 << r.randrange(8)
        elif change == "set":
            data[at:at + 4] = r.randbytes(4)
        elif change == "cut" and len(data) > 64:
            del data[at:at + r.randrange(1, 64)]
        else:
            data[at:at] = data[at:at + r.randrange(1, 64)]
        data = data or bytearray(b"x")
    return bytes(data)


def put(path, data):
    """A file that appears complete, as a watched folder expects."""
    with open(path + ".part", "wb") as out:
        out.write(data)
    os.rename(path + ".part", path)
