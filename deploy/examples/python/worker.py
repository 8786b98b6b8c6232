#!/usr/bin/env python3
"""A labeling worker in Python that depends only on the published .proto files.

Generate the stubs once, next to this file (requires protobuf-compiler, protobuf-compiler-grpc and python3-grpcio):

  protoc -I PATH/TO/proto --python_out=. --grpc_out=. --plugin=protoc-gen-grpc=$(command -v grpc_python_plugin) \\
      fulcrum/v1/labeling_service.proto fulcrum/v1/campaign.proto fulcrum/v1/campaign_spec.proto

Then implement answer() with your own model, rule or form, and run it:

  ./worker.py --server 127.0.0.1:7410 --campaign rings --annotator robot --answers answers.csv
"""

import argparse
import csv
import itertools
import os
import sys
import time
import uuid

import grpc
from fulcrum.v1 import labeling_service_pb2 as v1
from fulcrum.v1 import labeling_service_pb2_grpc as v1_grpc

# The server is unavailable or overloaded. Retry with the same request id: the request takes effect once.
TRANSIENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)


def read_answers(path):
    """Returns labels by item id, from a CSV file with the columns id and label."""
    with open(path, newline="", encoding="utf-8") as lines:
        return {row["id"]: row["label"] for row in csv.DictReader(lines)}


def answer(task, answers):
    """Returns one of task.classes for task.payload, or None if unsure. Replace this with your own implementation."""
    return answers.get(task.item_id)


class Worker:
    def __init__(self, channel, campaign, annotator, token):
        self.stub = v1_grpc.LabelingServiceStub(channel)
        self.who = {"campaign": campaign, "annotator": annotator}
        self.metadata = [("authorization", f"Bearer {token}")] if token else []
        self.prefix = uuid.uuid4().hex
        self.numbers = itertools.count()

    def call(self, method, request):
        """Retries transient errors. All attempts have the same request id, so the request takes effect once."""
        request.request_id = f"{self.prefix}-{next(self.numbers)}"
        for attempt in itertools.count():
            try:
                return method(request, timeout=60, metadata=self.metadata, wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() not in TRANSIENT:
                    raise
                time.sleep(min(0.1 * 2**attempt, 5))

    def submit(self, labeled):
        request = v1.SubmitLabelsRequest(**self.who)
        for task, value in labeled:
            lease = v1.LeaseRef(lease_id=task.lease_id, epoch=task.epoch)
            request.labels.add(lease=lease, item_id=task.item_id, value=value)
        results = self.call(self.stub.SubmitLabels, request).results
        for (task, _), result in zip(labeled, results):
            if result.status.code:
                print(f"{task.item_id}: {result.status.message}", file=sys.stderr)
        return sum(result.status.code == 0 for result in results)

    def skip(self, tasks):
        request = v1.SkipTasksRequest(**self.who)
        for task in tasks:
            lease = v1.LeaseRef(lease_id=task.lease_id, epoch=task.epoch)
            request.skips.add(lease=lease, reason=v1.SKIP_REASON_UNSURE)
        self.call(self.stub.SkipTasks, request)

    def work(self, answers, tasks_at_once):
        """Labels until the campaign is over. Returns the number of labels that the server has stored."""
        labels = 0
        while True:
            request = v1.AcquireTasksRequest(max_tasks=tasks_at_once, **self.who)
            request.wait.seconds = 30
            batch = self.call(self.stub.AcquireTasks, request)
            if batch.campaign_over:
                return labels
            answered = [(task, answer(task, answers)) for task in batch.tasks]
            labeled = [(task, value) for task, value in answered if value is not None]
            unsure = [task for task, value in answered if value is None]
            if labeled:
                labels += self.submit(labeled)
            if unsure:
                self.skip(unsure)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="127.0.0.1:7410")
    parser.add_argument("--campaign", required=True)
    parser.add_argument("--annotator", default="python")
    parser.add_argument("--answers", required=True, help="CSV file with the columns id and label")
    parser.add_argument("--tasks", type=int, default=10, help="maximum number of tasks per request")
    parser.add_argument("--tls-ca", help="PEM file with the certificate authorities of the server; default: no TLS")
    return parser.parse_args()


def open_channel(options):
    if not options.tls_ca:
        return grpc.insecure_channel(options.server)
    with open(options.tls_ca, "rb") as authorities:
        return grpc.secure_channel(options.server, grpc.ssl_channel_credentials(authorities.read()))


def main():
    options = parse_arguments()
    with open_channel(options) as channel:
        # Not a command-line option, because every user of the machine can read command lines.
        worker = Worker(channel, options.campaign, options.annotator, os.environ.get("FULCRUM_TOKEN"))
        labels = worker.work(read_answers(options.answers), options.tasks)
    print(f"{labels} labels")


if __name__ == "__main__":
    main()
