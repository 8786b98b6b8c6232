"""Exported ONNX models predict what the daemon predicts.

The graph is evaluated by a few lines of numpy, and by ONNX Runtime. That is not in Debian: it is the one that is installed,
or one that pip installs once into the cache of ./dev setup. Where pip has none, the test says so and uses numpy alone.
Environment: FULCRUM (the program), FULCRUM_SOURCE (the repository), PROTOC.
"""

import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy

RUNTIME = "onnxruntime==1.31.1"


def runtime():
    """The module; None if it is out of reach."""
    try:
        import onnxruntime
        return onnxruntime
    except ImportError:
        pass
    # As in deploy/setup/steps.sh.
    cache = os.environ.get("FULCRUM_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "fulcrum")
    target = os.path.join(cache, RUNTIME.replace("==", "-"))
    if not os.path.exists(target):
        # Without what it depends on: of that it needs numpy only.
        with tempfile.TemporaryDirectory(dir=cache if os.path.isdir(cache) else None) as folder:
            run = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--retries", "1", "--timeout", "30", "--target",
                                  f"{folder}/runtime", RUNTIME], capture_output=True, text=True)
            if run.returncode != 0:
                print(f"without ONNX Runtime: pip cannot install {RUNTIME}: {run.stderr.strip()[-300:]}", flush=True)
                return None
            os.makedirs(cache, exist_ok=True)
            try:
                os.rename(f"{folder}/runtime", target)
            except OSError as error:
                print(f"without ONNX Runtime: it cannot be kept in {target}: {error}", flush=True)
                return None
    sys.path.append(target)
    try:
        import onnxruntime
    except ImportError as error:
        print(f"without ONNX Runtime: {error}", flush=True)
        return None
    return onnxruntime


onnxruntime = runtime()

TYPES = {1: numpy.float32, 7: numpy.int64, 9: numpy.bool_, 11: numpy.float64}


def load(path, folder):
    source = os.path.join(os.environ["FULCRUM_SOURCE"], "pipeline", "onnx")
    subprocess.run([os.environ["PROTOC"], f"-I{source}", f"--python_out={folder}", "onnx.proto"], check=True)
    sys.path.insert(0, folder)
    import onnx_pb2
    with open(path, "rb") as file:
        return onnx_pb2.ModelProto.FromString(file.read())


def constant(tensor):
    if tensor.data_type == 8:
        return numpy.array([text.decode() for text in tensor.string_data])
    return numpy.frombuffer(tensor.raw_data, TYPES[tensor.data_type]).reshape(list(tensor.dims))


def evaluate(model, features):
    """The outputs of a model by name, each operator as ONNX defines it."""
    values = {tensor.name: constant(tensor) for tensor in model.graph.initializer}
    values["features"] = features
    for node in model.graph.node:
        inputs = [values[name] for name in node.input]
        attributes = {a.name: list(a.ints) if a.type == 7 else a.i for a in node.attribute}
        operators = {
            "Add": numpy.add, "Sub": numpy.subtract, "Mul": numpy.multiply, "Div": numpy.divide,
            "MatMul": numpy.matmul, "Max": numpy.maximum, "Min": numpy.minimum, "Pow": numpy.power, "Where": numpy.where,
            "Equal": numpy.equal, "GreaterOrEqual": numpy.greater_equal, "Greater": numpy.greater, "Exp": numpy.exp, "Sqrt": numpy.sqrt, "Abs": numpy.abs,
            "Identity": lambda x: x, "Clip": numpy.clip, "Sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
            "Cast": lambda x: x.astype(TYPES[attributes["to"]]),
            "Gather": lambda x, i: numpy.take(x, i, axis=attributes.get("axis", 0)),
            "Concat": lambda *x: numpy.concatenate(x, axis=attributes["axis"]),
            "Reshape": lambda x, shape: x.reshape(list(shape)),
            "Transpose": lambda x: numpy.transpose(x, attributes["perm"]),
            "ReduceSum": lambda x, axes: x.sum(axis=tuple(axes), keepdims=bool(attributes["keepdims"])),
            "ReduceMax": lambda x: x.max(axis=tuple(attributes["axes"]), keepdims=bool(attributes["keepdims"])),
            "ArgMax": lambda x: x.argmax(axis=attributes["axis"]),
        }
        values[node.output[0]] = operators[node.op_type](*inputs)
    return {output.name: values[output.name] for output in model.graph.output}


def table(label, columns):
    """A pool with the labels c0, c1, ... and columns by name."""
    names = list(columns)
    rows = zip(label, *(columns[name] for name in names))
    return ",".join(["id", "label", *names]) + "\n" + "".join(f"{i},c{int(row[0])}," + ",".join(f"{v:.4f}" for v in row[1:]) + "\n" for i, row in enumerate(rows))


def coded_categories(random):
    """Classes that depend on the categories one by one, in no order of their numbers."""
    x = random.integers(0, 6, size=(400, 4))
    return table(((x[:, 0] % 2) + (x[:, 1] % 2) >= 1) & (x[:, 2] % 2 == 0) | (x[:, 3] == 1), {f"f{i}": x[:, i] for i in range(4)})


def intervals(random):
    """Classes that take turns along a column."""
    x = random.uniform(0, 5, size=(400, 3))
    return table(numpy.floor(x[:, 0]) % 2 == 0, {f"f{i}": x[:, i] for i in range(3)})


def heavy_tails(random):
    """Values over many orders of magnitude, of which the logarithm counts."""
    x = random.normal(size=(400, 3))
    return table(x.sum(axis=1) > 0, {f"f{i}": (numpy.sign(x) * numpy.exp(4 * numpy.abs(x)))[:, i] for i in range(3)})


def pool_text(classes, seed):
    """Overlapping groups, one per class; a column of categories, and one without any variation."""
    random = numpy.random.default_rng(seed)
    lines = ["id,label,f0,f1,f2,kind,flat"]
    for row in range(300):
        group = row % classes
        x = random.normal(size=3) + 2.0 * numpy.eye(3)[group % 3] * (1 + group // 3)
        lines.append(f"{row},c{group},{x[0]:.4f},{x[1]:.4f},{x[2]:.4f},{(group + random.integers(2)) % 4},7")
    return "\n".join(lines) + "\n"


def rule_text():
    """A rule of two thresholds among columns that say nothing."""
    random = numpy.random.default_rng(3)
    names = [f"f{i}" for i in range(16)]
    lines = ["id,label," + ",".join(names)]
    for row in range(400):
        x = numpy.round(random.random(16), 4)
        lines.append(f"{row},c{int(x[3] > 0.6 or x[7] > 0.7)}," + ",".join(map(str, x)))
    return "\n".join(lines) + "\n"


class OnnxModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.makedirs(cls.path("pools"))
        cls.daemon = subprocess.Popen(
            [os.environ["FULCRUM"], "serve", "--data", cls.path("data"), "--pools", cls.path("pools"), "--no-tokens",
             "--listen", "127.0.0.1:0", "--web", "off", "--metrics", "off"], stderr=subprocess.PIPE, text=True)
        for line in cls.daemon.stderr:
            found = re.search(r"message=listening .* port=(\d+)", line)
            if found:
                cls.server = f"127.0.0.1:{found.group(1)}"
                break

    @classmethod
    def tearDownClass(cls):
        cls.daemon.terminate()
        cls.daemon.stderr.close()
        cls.daemon.wait(60)
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def fulcrum(self, *arguments):
        run = subprocess.run([os.environ["FULCRUM"], *arguments, "--server", self.server], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, f"{arguments}: {run.stderr}")
        return run.stdout

    def check(self, name, classes, classifier, text=None, batch=40):
        """Whether the model has probabilities, and how its features are normalised if that was tuned."""
        pool = self.path(f"pools/{name}.csv")
        with open(pool, "w") as file:
            file.write(text or pool_text(classes, len(name)))
        with open(self.path("spec.yaml"), "w") as file:
            file.write(f"name: {name}\npool: {{sources: [{name}.csv]}}\n"
                       f"classes: [{', '.join(f'c{i}' for i in range(classes))}]\n"
                       f"selection: {{strategy: random, batch: {batch}}}\nstop: {{rounds: 2}}\n{classifier}\n")
        self.fulcrum("campaign", "create", self.path("spec.yaml"))
        self.fulcrum("campaign", "start", name)
        self.fulcrum("work", "--campaign", name, "--annotator", "ann", "--oracle", pool)
        described = json.loads(self.fulcrum("campaign", "model", name, "--format", "onnx", "--out", self.path("model.onnx"), "--json"))
        self.fulcrum("campaign", "predict", name, "--rows", pool, "--out", self.path("predicted.csv"))
        with open(self.path("predicted.csv")) as file:
            rows = list(csv.DictReader(file))
        with open(pool) as file:
            features = numpy.array([[float(value) for key, value in row.items() if key not in ("id", "label")]
                                    for row in csv.DictReader(file)], numpy.float32)
        decisions = numpy.array([[float(v) for k, v in row.items() if k.startswith("decision ")] for row in rows])
        probabilities = numpy.array([[float(v) for k, v in row.items() if k.startswith("probability ")] for row in rows])
        answers = [evaluate(load(self.path("model.onnx"), self.folder.name), features)]
        if onnxruntime is not None:
            session = onnxruntime.InferenceSession(self.path("model.onnx"), providers=["CPUExecutionProvider"])
            names = [output.name for output in session.get_outputs()]
            answers.append(dict(zip(names, session.run(names, {"features": features}))))
        for answer in answers:
            self.assertEqual(list(answer["label"]), [row["class"] for row in rows])
            numpy.testing.assert_allclose(answer["decision_values"], decisions, rtol=1e-5, atol=1e-5)
            if probabilities.size:
                numpy.testing.assert_allclose(answer["probabilities"], probabilities, rtol=1e-5, atol=1e-5)
        # Behind the @ are the weights of its columns.
        normalize = described["trained"].get("tuning", {}).get("chosen", {}).get("normalize", "").partition("@")[0]
        return bool(probabilities.size), normalize

    def test_a_tuned_classifier_of_two_classes(self):
        self.assertTrue(self.check("tuned2", 2, "")[0])

    def test_a_tuned_classifier_of_five_classes(self):
        self.assertTrue(self.check("tuned5", 5, "")[0])

    def test_what_only_a_tuned_classifier_chooses(self):
        for normalize, pool, batch in (("onehot", coded_categories, 60), ("bins", intervals, 150), ("quantile", heavy_tails, 60)):
            with self.subTest(normalize=normalize):
                self.assertEqual(self.check(normalize, 2, "", pool(numpy.random.default_rng(1)), batch), (True, normalize))

    def test_columns_weighed_by_relevance(self):
        self.assertTrue(self.check("rule", 2, "", rule_text())[0])
        with open(self.path("model.onnx"), "rb") as file:
            self.assertRegex(file.read(), rb"bins@[0-9a-f]{240}")

    def test_every_kernel_and_normalisation(self):
        for number, (kernel, normalize) in enumerate([
                ("{type: rbf, sigma: 2}", "[zscore]"), ("{type: linear}", "[robust]"),
                ("{type: poly, degree: 3}", "[zscore, unit]"), ("{type: cosine}", "[none]"),
                ("{type: linear}", "[tfidf, unit]")]):
            with self.subTest(kernel=kernel, normalize=normalize):
                self.check(f"given{number}", 3, f"classifier: {{kernel: {kernel}}}\nfeatures: {{normalize: {normalize}}}")


if __name__ == "__main__":
    unittest.main()
