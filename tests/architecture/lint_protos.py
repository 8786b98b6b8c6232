#!/usr/bin/env python3
"""Checks the rules that the .proto files of the public API follow.

    lint_protos.py PROTOC FOLDER FILE...     FILE relative to FOLDER; prints one line per violation, exit code 1 if any
    lint_protos.py --self-test PROTOC        checks that each rule finds what it should find

- A method has one request and one response message of its own, named after it.
- Everything has a comment: services, methods, messages, fields, oneofs, enumerations and their values.
- Names are PascalCase (messages, enumerations, methods) and snake_case (fields); values begin with the enumeration's
  name, and the value 0 ends in _UNSPECIFIED.
- A request refers to a campaign by `campaign`, and every method that changes something takes a `request_id`.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

READING = ("Get", "List", "Watch", "Export", "Predict")
FIELD, NESTED, ENUM, ONEOF = 2, 3, 4, 8  # field numbers within DescriptorProto, for paths of comments


def upper_snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


class Linter:
    def __init__(self, files):
        self.files = files
        self.problems = []
        self.messages = {}
        for file in files:
            self.collect("." + file.package, file.message_type)

    def collect(self, scope, messages):
        for message in messages:
            self.messages[f"{scope}.{message.name}"] = message
            self.collect(f"{scope}.{message.name}", message.nested_type)

    def problem(self, what):
        self.problems.append(f"{self.file.name}: {what}")

    def commented(self, path, what):
        if not self.comments.get(tuple(path), "").strip():
            self.problem(f"{what} has no comment")

    def run(self):
        used = {}
        for self.file in self.files:
            self.comments = {tuple(place.path): place.leading_comments + place.trailing_comments
                             for place in self.file.source_code_info.location}
            for i, message in enumerate(self.file.message_type):
                self.message(message, [4, i])
            for i, enum in enumerate(self.file.enum_type):
                self.enum(enum, [5, i], enum.name)
            for i, service in enumerate(self.file.service):
                self.commented([6, i], service.name)
                for j, method in enumerate(service.method):
                    self.commented([6, i, 2, j], f"{service.name}.{method.name}")
                    self.method(service, method, used)
        return self.problems

    def method(self, service, method, used):
        name = f"{service.name}.{method.name}"
        if not re.fullmatch(r"([A-Z][a-z0-9]*)+", method.name):
            self.problem(f"{name} is not PascalCase")
        for of, message in (("Request", method.input_type), ("Response", method.output_type)):
            if message.rpartition(".")[2] != method.name + of:
                self.problem(f"{name} has the message {message}, not {method.name}{of}")
            if message in used:
                self.problem(f"{name} shares the message {message} with {used[message]}")
            used[message] = name
        request = self.messages.get(method.input_type)
        if request is None:
            return
        if any(field.name == "name" for field in request.field):
            self.problem(f"{name} has a field 'name'; say what it names, such as 'campaign'")
        if not method.name.startswith(READING) and not self.has_request_id(request):
            self.problem(f"{name} changes something and has no request_id")

    def has_request_id(self, message):
        if any(field.name == "request_id" for field in message.field):
            return True
        parts = [self.messages.get(field.type_name) for field in message.field if field.HasField("oneof_index")]
        return any(part is not None and self.has_request_id(part) for part in parts)

    def message(self, message, path):
        self.commented(path, message.name)
        if not re.fullmatch(r"([A-Z][a-z0-9]*)+", message.name):
            self.problem(f"{message.name} is not PascalCase")
        for i, field in enumerate(message.field):
            self.commented(path + [FIELD, i], f"{message.name}.{field.name}")
            if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", field.name):
                self.problem(f"{message.name}.{field.name} is not snake_case")
        optional = {field.oneof_index for field in message.field if field.proto3_optional}
        for i, oneof in enumerate(message.oneof_decl):
            if i not in optional:
                self.commented(path + [ONEOF, i], f"{message.name}.{oneof.name}")
        for i, nested in enumerate(message.nested_type):
            self.message(nested, path + [NESTED, i])
        for i, enum in enumerate(message.enum_type):
            self.enum(enum, path + [ENUM, i], f"{message.name}.{enum.name}")

    def enum(self, enum, path, name):
        self.commented(path, name)
        for i, value in enumerate(enum.value):
            self.commented(path + [2, i], f"{name}.{value.name}")
            if not value.name.startswith(upper_snake(enum.name) + "_"):
                self.problem(f"{name}.{value.name} does not begin with {upper_snake(enum.name)}_")
            if value.number == 0 and value.name != upper_snake(enum.name) + "_UNSPECIFIED":
                self.problem(f"{name}.{value.name} is 0 and not {upper_snake(enum.name)}_UNSPECIFIED")


def lint(protoc, folder, names):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run([protoc, "--proto_path", folder, "--include_source_info", "--descriptor_set_out", out.name,
                        *names], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
    return Linter(list(files.file)).run()


GOOD = """syntax = "proto3";
package test;
// Things.
service Things {
  // Makes one.
  rpc MakeThing(MakeThingRequest) returns (MakeThingResponse);
}
// To make.
message MakeThingRequest {
  // Which.
  string thing = 1;
  // Once.
  string request_id = 2;
  // How.
  Way way = 3;
}
// Made.
message MakeThingResponse {}
// How.
enum Way {
  // Any.
  WAY_UNSPECIFIED = 0;
  // Fast.
  WAY_FAST = 1;
}
"""
# What is replaced, by what, and what must be found.
FAULTS = [
    ("  // Which.\n", "", "MakeThingRequest.thing has no comment"),
    ("// Made.\n", "", "MakeThingResponse has no comment"),
    ("  // Fast.\n", "", "Way.WAY_FAST has no comment"),
    ("  // Makes one.\n", "", "Things.MakeThing has no comment"),
    ("WAY_UNSPECIFIED", "WAY_ANY", "is 0 and not WAY_UNSPECIFIED"),
    ("WAY_FAST", "FAST", "does not begin with WAY_"),
    ("returns (MakeThingResponse)", "returns (MakeThingRequest)", "not MakeThingResponse"),
    ("returns (MakeThingResponse)", "returns (MakeThingRequest)", "shares the message"),
    ("string request_id", "string requested_id", "has no request_id"),
    ("string thing ", "string name ", "has a field 'name'"),
    ("string thing ", "string theThing ", "is not snake_case"),
]


def self_test(protoc):
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "test.proto")
        for old, new, wanted in [("", "", None), *FAULTS]:
            path.write_text(GOOD.replace(old, new) if old else GOOD)
            problems = lint(protoc, folder, ["test.proto"])
            if wanted is None and problems:
                failures.append(f"the good file has problems: {problems}")
            elif wanted is not None and not any(wanted in problem for problem in problems):
                failures.append(f"'{old.strip()}' -> '{new.strip()}' should give '{wanted}', and gives {problems}")
    return failures


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        found = self_test(sys.argv[2])
    else:
        found = lint(sys.argv[1], sys.argv[2], sys.argv[3:])
    print("\n".join(found))
    sys.exit(1 if found else 0)
