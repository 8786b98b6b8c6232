#!/usr/bin/env python3
"""Writes docs/specification.md and docs/api.md from the comments of the .proto files and the ranges of their numbers.

    docs/write_reference.py              writes both
    docs/write_reference.py --check      exit code 1 if one of them is not what would be written
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIELD, NESTED, ENUM = 2, 3, 4  # field numbers within DescriptorProto, for paths of comments
Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {Field.TYPE_STRING: "text", Field.TYPE_BOOL: "true or false", Field.TYPE_BYTES: "bytes", Field.TYPE_DOUBLE: "number",
           Field.TYPE_FLOAT: "number"}
NOTICE = "\n<!-- Written by docs/write_reference.py from proto/fulcrum/v1. Change the comments there, then run it. -->\n\n"


class Api:
    """The messages, enumerations and services of the API with their comments."""

    def __init__(self):
        names = sorted(str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto/fulcrum/v1").glob("*.proto"))
        with tempfile.NamedTemporaryFile() as out:
            subprocess.run([shutil.which("protoc") or "protoc", "-I", ROOT / "proto", "--include_source_info",
                            "--descriptor_set_out", out.name, *names], check=True)
            files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
        self.messages, self.enums, self.services, self.comments, self.heads = {}, {}, [], {}, {}
        for file in files.file:
            self.read_file(file)
        self.limits = read_limits()
        # Their fields are described with the call.
        self.of_calls = {type_name for _, _, methods in self.services for method, _ in methods
                         for type_name in (method.input_type, method.output_type)}

    def read_file(self, file):
        comments = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        for place in file.source_code_info.location:
            if list(place.path) == [12]:  # the line "syntax": its comment describes the file
                self.heads[file.name] = joined(place.leading_comments)
        scope = "." + file.package
        for i, message in enumerate(file.message_type):
            self.read_message(scope, message, (4, i), comments)
        for i, enum in enumerate(file.enum_type):
            self.read_enum(scope, enum, (5, i), comments)
        for i, service in enumerate(file.service):
            methods = [(method, joined(comments.get((6, i, 2, j), ""))) for j, method in enumerate(service.method)]
            self.services.append((service.name, joined(comments.get((6, i), "")), methods))

    def read_message(self, scope, message, path, comments):
        name = f"{scope}.{message.name}"
        self.messages[name] = message
        self.comments[name] = joined(comments.get(path, ""))
        for i, field in enumerate(message.field):
            self.comments[f"{name}.{field.name}"] = joined(comments.get((*path, FIELD, i), ""))
        for i, nested in enumerate(message.nested_type):
            self.read_message(name, nested, (*path, NESTED, i), comments)
        for i, enum in enumerate(message.enum_type):
            self.read_enum(name, enum, (*path, ENUM, i), comments)

    def read_enum(self, scope, enum, path, comments):
        name = f"{scope}.{enum.name}"
        self.enums[name] = [(value.name, joined(comments.get((*path, 2, i), ""))) for i, value in enumerate(enum.value)]
        self.comments[name] = joined(comments.get(path, ""))


def joined(comment):
    return " ".join(comment.split())


def read_limits():
    """The range of every number, from the table that the daemon checks requests against."""
    text = (ROOT / "pipeline/campaign/field_limits.cc").read_text(encoding="utf-8")
    table = re.search(r"kLimits\[\] = \{(.*?)\n\};", text, re.S)[1]
    return {name: (low.strip(), high.strip(), "above_low=*/true" in more, "below_high=*/true" in more)
            for name, low, high, more in re.findall(r'\{"([\w.]+)", ([^,]+), ([^,}]+)([^}]*)\}', table)}


UNITS = {"kYear": "1 year", "10 * kYear": "10 years", "kDay": "1 day"}


def limit_text(limits, name):
    if name not in limits:
        return ""
    low, high, above, below = limits[name]
    low, high = UNITS.get(low, low), UNITS.get(high, high)
    if high in ("18446744073709551615.0", "kLargestId"):
        return ""
    high = {"1 << 30": "2^30"}.get(high, high).replace("'", ",")
    if high in UNITS.values() and low != "0":
        low += " s"
    return f"{'above' if above else 'from'} {low} {'and below' if below else 'to'} {high}"


def short(type_name):
    return type_name.removeprefix(".fulcrum.v1.")


def value_name(enum_name, value):
    """How a value is written in YAML: lower case, without the prefix of its enumeration."""
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum_name.rpartition(".")[2]).upper() + "_"
    return value.removeprefix(prefix).lower()


def kind(api, field):
    if field.type_name == ".google.protobuf.Duration":
        text = "duration"
    elif field.type_name == ".google.protobuf.Timestamp":
        text = "time"
    elif field.type == Field.TYPE_ENUM:
        text = "name"
    elif field.type == Field.TYPE_MESSAGE:
        text = f"[{short(field.type_name)}](#{short(field.type_name).lower().replace('.', '')})" \
            if field.type_name in api.messages.keys() - api.of_calls else short(field.type_name).removeprefix('.')
    else:
        text = SCALARS.get(field.type, "whole number")
    return f"list of {text}" if field.label == Field.LABEL_REPEATED else text


def specification_rows(api, message_name, prefix):
    """The fields of a message with those below them, by their path in the YAML file."""
    for field in api.messages[message_name].field:
        path = f"{prefix}{field.name}"
        comment = api.comments[f"{message_name}.{field.name}"]
        if field.type == Field.TYPE_MESSAGE and field.type_name in api.messages:
            yield path, "section", comment
            yield from specification_rows(api, field.type_name, path + ".")
            continue
        limit = limit_text(api.limits, f"{short(message_name)}.{field.name}")
        text = comment + (f" Range: {limit}." if limit else "")
        if field.type == Field.TYPE_ENUM:
            values = [f"`{value_name(field.type_name, name)}`: {about}" for name, about in api.enums[field.type_name][1:]]
            text += " Values: " + " ".join(values)
        yield path, re.sub(r"\[(.*)\]\(.*\)", r"\1", kind(api, field)), text


def specification(api):
    spec = ".fulcrum.v1.CampaignSpec"
    parts = ["# The specification of a campaign\n", NOTICE,
             "`fulcrum campaign create FILE.yaml` reads a YAML file with the fields below; clients send the same fields as the\n"
             "message `CampaignSpec`. Only `name`, `pool.sources` and `classes` are required. `fulcrum campaign update` changes\n"
             "fields of a campaign that exists.\n\n"
             "A duration is written like `90s`, `10m` or `2h`. Everything that is wrong with a file is reported at once.\n\n"
             "```yaml\n"
             "name: digits\n"
             "question: Which digit is this?\n"
             "pool: {sources: [digits.parquet], id_column: image}\n"
             "classes: [\"3\", \"5\"]\n"
             "selection: {batch: 20}\n"
             "labeling: {overlap: 2, lease_time: 10m}\n"
             "stop: {labels: 500, accuracy: {sources: [held_out.parquet], target: 0.97}}\n"
             "```\n"]
    for field in api.messages[spec].field:
        comment = api.comments[f"{spec}.{field.name}"]
        if field.type == Field.TYPE_MESSAGE and field.type_name in api.messages:
            parts.append(f"\n## {field.name}\n\n{comment} {api.comments[field.type_name]}\n\n| field | type | meaning |\n|---|---|---|\n")
            parts += [f"| `{path}` | {what} | {cell(text)} |\n"
                      for path, what, text in specification_rows(api, field.type_name, field.name + ".")]
        else:
            limit = limit_text(api.limits, f"CampaignSpec.{field.name}")
            parts.append(f"\n## {field.name}\n\n{kind(api, field).capitalize()}. {comment}{f' Range: {limit}.' if limit else ''}\n")
    return "".join(parts)


def cell(text):
    return text.replace("|", "\\|")


def api_page(api):
    parts = ["# The API\n", NOTICE,
             "The package `fulcrum.v1` over gRPC (port 7410) and, for every call except those that stream requests, as JSON over\n"
             "HTTP (port 7412) by the [Connect protocol](https://connectrpc.com/docs/protocol): `POST /fulcrum.v1.SERVICE/CALL`\n"
             "with the request as JSON and `Authorization: Bearer TOKEN`. Names in JSON are in lowerCamelCase.\n"
             "[docs/http-api.md](http-api.md) has examples with curl, [docs/specification.md](specification.md) the fields of\n"
             "`CampaignSpec`.\n"]
    for name, comment, methods in sorted(api.services, key=lambda service: service[0] not in ("CampaignService", "LabelingService")):
        parts.append(f"\n## {name}\n\n{comment}\n")
        for method, about in methods:
            streams = {(True, True): " (streams in both directions)", (True, False): " (streams requests)",
                       (False, True): " (streams responses)"}.get((method.client_streaming, method.server_streaming), "")
            parts.append(f"\n### {name}.{method.name}{streams}\n\n{about}\n")
            for title, type_name in (("Request", method.input_type), ("Response", method.output_type)):
                fields = list(field_rows(api, type_name))
                if fields:
                    parts.append(f"\n| {title} | type | meaning |\n|---|---|---|\n")
                    parts += fields
    parts.append("\n## Messages\n")
    for name in sorted(api.messages):
        if name in api.of_calls or "Spec" in name or "Rule" in name:
            continue
        rows = list(field_rows(api, name))
        parts.append(f"\n### {short(name)}\n\n{api.comments[name]}\n")
        if rows:
            parts += ["\n| field | type | meaning |\n|---|---|---|\n", *rows]
    return "".join(parts)


def field_rows(api, message_name):
    for field in api.messages[message_name].field:
        text = api.comments[f"{message_name}.{field.name}"]
        limit = limit_text(api.limits, f"{short(message_name)}.{field.name}")
        what = kind(api, field)
        if "Spec]" in what or "Rule]" in what:
            what = re.sub(r"\[(.*)\]\(.*\)", r"[\1](specification.md)", what)
        if field.type == Field.TYPE_ENUM:
            text += " Values: " + ", ".join(f"`{value}`" for value, _ in api.enums[field.type_name][1:]) + "."
        yield f"| `{field.name}` | {what} | {cell(text)}{f' Range: {limit}.' if limit else ''} |\n"


def main():
    api = Api()
    stale = []
    for name, text in (("specification.md", specification(api)), ("api.md", api_page(api))):
        path = ROOT / "docs" / name
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(f"docs/{name} is stale: run docs/write_reference.py")
        else:
            path.write_text(text, encoding="utf-8")
    print("\n".join(stale), end="\n" if stale else "")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
