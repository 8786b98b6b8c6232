// The extension module fulcrum._core: arrays of Python in, arrays of Python out. fulcrum/core.py is its only caller and
// has the documentation of every argument.
#include "clients/python/core/core_module.h"

#include <dlfcn.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stages/kernel/kernel_function.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/select/strategy.h"

namespace fulcrum::python {
namespace {

namespace py = pybind11;

using IntArray = py::array_t<std::int32_t, py::array::c_style>;
using FloatArray = py::array_t<float, py::array::c_style>;

/// The exception of Python that fits the status.
[[noreturn]] void Raise(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      PyErr_SetString(PyExc_MemoryError, message.c_str());
      throw py::error_already_set();
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kOutOfRange:
      throw py::value_error(message);
    default:
      throw std::runtime_error(message);
  }
}

template <typename T>
T ValueOrRaise(absl::StatusOr<T> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

template <typename T>
MatrixView<const T> ViewOf(const py::array_t<T>& array) {
  if (array.ndim() != 2) throw py::value_error("X must have two dimensions, rows and features");
  const auto rows = static_cast<std::size_t>(array.shape(0)), cols = static_cast<std::size_t>(array.shape(1));
  const py::ssize_t size = sizeof(T);
  const bool usable = (array.strides(1) == size || cols <= 1) && array.strides(0) % size == 0 &&
                      array.strides(0) >= static_cast<py::ssize_t>(cols) * size;
  if (!usable && rows > 1) throw py::value_error("the rows of X must be contiguous: use numpy.ascontiguousarray(X)");
  return {array.data(), rows, cols, rows > 1 ? static_cast<std::size_t>(array.strides(0) / size) : cols};
}

/// A sparse matrix is the tuple (indptr, indices, data, columns).
Examples ExamplesOf(const py::object& x) {
  if (py::isinstance<py::tuple>(x)) {
    const auto parts = x.cast<py::tuple>();
    const auto offsets = parts[0].cast<py::array_t<std::int64_t, py::array::c_style>>();
    const auto columns = parts[1].cast<IntArray>();
    const auto values = parts[2].cast<py::array_t<double, py::array::c_style>>();
    return CsrView{parts[3].cast<std::size_t>(),
                   {offsets.data(), static_cast<std::size_t>(offsets.size())},
                   {columns.data(), static_cast<std::size_t>(columns.size())},
                   {values.data(), static_cast<std::size_t>(values.size())}};
  }
  if (py::isinstance<py::array_t<float>>(x)) return ViewOf(x.cast<py::array_t<float>>());
  if (py::isinstance<py::array_t<double>>(x)) return ViewOf(x.cast<py::array_t<double>>());
  throw py::type_error("X must be an array of float64 or float32, or a sparse matrix");
}

template <typename T>
void Take(const py::dict& given, const char* name, T& to) {
  if (given.contains(name)) to = given[name].cast<T>();
}

void TakeKernel(const py::dict& given, const std::string& prefix, kernel::KernelFunction& to) {
  if (given.contains((prefix + "kernel").c_str())) {
    to.type = ValueOrRaise(kernel::ParseKernelType(given[(prefix + "kernel").c_str()].cast<std::string>()));
  }
  Take(given, (prefix + "sigma").c_str(), to.sigma);
  Take(given, (prefix + "poly_c").c_str(), to.offset);
  Take(given, (prefix + "degree").c_str(), to.degree);
}

/// What is not given has the default of `fulcrum select`.
Settings SettingsOf(const py::dict& given) {
  Settings settings;
  pipeline::RoundSpec& spec = settings.spec;
  spec.strategy = given.contains("predictions_given") ? "dbalevs" : select::kDefaultStrategy;
  Take(given, "strategy", spec.strategy);
  Take(given, "batch", spec.batch);
  Take(given, "alpha", spec.alpha);
  Take(given, "tau", spec.tau);
  Take(given, "engine", spec.engine);
  Take(given, "landmarks", spec.landmarks);
  Take(given, "refine", spec.refine_landmarks);
  Take(given, "seed", spec.seed);
  spec.svm.seed = spec.seed;
  if (given.contains("leverage_scale")) {
    spec.leverage_scale = ValueOrRaise(select::ParseLeverageScale(given["leverage_scale"].cast<std::string>()));
  }
  TakeKernel(given, "", spec.leverage_kernel);
  Take(given, "normalize_kernel", spec.leverage_kernel.normalize);
  TakeKernel(given, "svm_", spec.svm.kernel);
  Take(given, "svm_c", spec.svm.c);
  Take(given, "classifier", spec.svm.classifier);
  Take(given, "class_weights", spec.svm.class_weights);
  Take(given, "normalize", settings.normalize);
  Take(given, "tune", settings.tune);
  Take(given, "leverage_given", settings.leverage_given);
  Take(given, "memory", settings.memory_bytes);
  Take(given, "threads", settings.threads);
  if (const absl::Status status = pipeline::ValidateRoundSpec(spec); !status.ok()) Raise(status);
  return settings;
}

std::span<const ClassIndex> SpanOf(const IntArray& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

void CheckCount(const Examples& examples, const IntArray& array, const char* name) {
  if (static_cast<std::size_t>(array.size()) == RowsOf(examples)) return;
  throw py::value_error(absl::StrCat("X has ", RowsOf(examples), " rows and ", name, " has ", array.size()));
}

/// The array takes the memory over.
template <typename T>
py::array_t<T> ToArray(std::vector<T> values) {
  auto* const owned = new std::vector<T>(std::move(values));
  const py::capsule owner(owned, [](void* memory) { delete static_cast<std::vector<T>*>(memory); });
  // Strides are given because pybind11 2.10 cannot ask numpy 2 for the size of an element.
  return py::array_t<T>({static_cast<py::ssize_t>(owned->size())}, {static_cast<py::ssize_t>(sizeof(T))}, owned->data(),
                        owner);
}

py::array_t<double> ToArray(ConstMatrixView matrix) {
  const auto rows = static_cast<py::ssize_t>(matrix.rows()), cols = static_cast<py::ssize_t>(matrix.cols());
  const auto size = static_cast<py::ssize_t>(sizeof(double));
  py::array_t<double> array({rows, cols}, {cols * size, size});
  CopyMatrix<double>(matrix, {array.mutable_data(), matrix.rows(), matrix.cols()});
  return array;
}

py::dict ToDict(const std::vector<pipeline::StageSeconds>& seconds) {
  py::dict stages;
  for (const auto& [stage, spent] : seconds) {
    const double before = stages.contains(stage.c_str()) ? stages[stage.c_str()].cast<double>() : 0.0;
    stages[stage.c_str()] = before + spent;
  }
  return stages;
}

py::dict ToDict(const pipeline::ClassifierChoice& choice) {
  py::dict dict;
  dict["normalize"] = choice.normalize;
  dict["classifier"] = choice.classifier;
  dict["svm_kernel"] = std::string(kernel::KernelTypeName(choice.kernel.type));
  dict["svm_sigma"] = choice.kernel.sigma;
  dict["svm_poly_c"] = choice.kernel.offset;
  dict["svm_degree"] = choice.kernel.degree;
  dict["svm_c"] = choice.c;
  return dict;
}

py::list ToList(const std::vector<pipeline::ClassReport>& reports) {
  py::list list;
  for (const pipeline::ClassReport& report : reports) {
    py::dict dict;
    dict["class"] = report.class_index;
    dict["m"] = report.rows;
    dict["labeled"] = report.labeled;
    dict["k"] = report.rank;
    dict["tau_reached"] = report.trace_share;
    dict["engine"] = report.engine;
    dict["reason"] = report.reason;
    dict["degenerate_cut"] = report.degenerate_cut;
    list.append(std::move(dict));
  }
  return list;
}

py::dict Select(const py::object& x, const IntArray& labels, std::size_t class_count,
                const std::optional<IntArray>& predictions, const std::optional<FloatArray>& probabilities,
                const RowList& barred, const py::dict& given) {
  const Examples examples = ExamplesOf(x);
  CheckCount(examples, labels, "y");
  Labels input{.class_count = class_count, .by_row = SpanOf(labels), .barred = barred};
  if (predictions) {
    CheckCount(examples, *predictions, "predictions");
    input.predictions = SpanOf(*predictions);
  }
  if (probabilities) input.probabilities = {probabilities->data(), static_cast<std::size_t>(probabilities->size())};
  const Settings settings = SettingsOf(given);
  if (predictions) {
    const absl::Status usable = pipeline::CheckUsesPredictions(settings.spec.strategy, /*may_ignore=*/false);
    if (!usable.ok()) Raise(usable);
  }
  Selected selected = ValueOrRaise(RunInterruptibly(
      [&](std::stop_token stop) { return SelectInMemory(examples, input, settings, std::move(stop)); }));
  std::vector<std::int64_t> rows;
  std::vector<ClassIndex> classes;
  std::vector<double> leverage, gains;
  for (const select::Pick& pick : selected.round.selection.picks) {
    rows.push_back(pick.row);
    classes.push_back(pick.class_index);
    leverage.push_back(pick.leverage);
    gains.push_back(pick.gain);
  }
  py::dict result;
  result["rows"] = ToArray(std::move(rows));
  result["classes"] = ToArray(std::move(classes));
  result["leverage"] = ToArray(std::move(leverage));
  result["gains"] = ToArray(std::move(gains));
  result["predicted"] = ToArray(std::move(selected.round.predicted));
  result["scores"] = ToArray(std::move(selected.round.leverage));
  result["reports"] = ToList(selected.round.classes);
  result["tuning"] = selected.tuned == nullptr ? py::object(py::none()) : py::object(ToDict(selected.tuned->chosen));
  result["seconds"] = ToDict(selected.seconds);
  return result;
}

Predictor TrainModel(const py::object& x, const IntArray& labels, std::size_t class_count, const py::dict& given) {
  const Examples examples = ExamplesOf(x);
  CheckCount(examples, labels, "y");
  const Labels input{.class_count = class_count, .by_row = SpanOf(labels)};
  const Settings settings = SettingsOf(given);
  return ValueOrRaise(
      RunInterruptibly([&](std::stop_token stop) { return Train(examples, input, settings, std::move(stop)); }));
}

py::tuple PredictWith(const Predictor& predictor, const py::object& x, std::size_t threads) {
  const Examples examples = ExamplesOf(x);
  Predictions predictions = ValueOrRaise(
      RunInterruptibly([&](std::stop_token stop) { return Predict(predictor, examples, threads, std::move(stop)); }));
  return py::make_tuple(ToArray(std::move(predictions.classes)), ToArray(predictions.decisions.view()),
                        ToArray(predictions.probabilities.view()));
}

py::list Strategies() {
  py::list list;
  for (const select::StrategyEntry& entry : select::Strategies()) {
    list.append(py::make_tuple(entry.name, entry.summary, entry.when_to_use));
  }
  return list;
}

#if FULCRUM_BLAS_MKL
/// The library ends the process if MKL is missing when it is first used; a module must not.
void RequireMkl() {
  if (dlopen("libmkl_core.so", RTLD_LAZY | RTLD_GLOBAL) != nullptr) return;
  if (dlopen(FULCRUM_MKL_DIRECTORY "/libmkl_core.so", RTLD_LAZY | RTLD_GLOBAL) != nullptr) return;
  throw py::import_error(
      "fulcrum.core needs Intel MKL (on Debian: libmkl-core, libmkl-sequential, libmkl-intel-lp64), or must be built "
      "with FULCRUM_BLAS=OpenBLAS");
}
#endif

}  // namespace

PYBIND11_MODULE(_core, module) {
#if FULCRUM_BLAS_MKL
  RequireMkl();
#endif
  module.doc() = "Rounds of active learning on arrays; see fulcrum.core.";
  module.def("select", &Select);
  module.def("strategies", &Strategies);
  module.def("engines", [] {
    std::vector<std::string> names;
    for (const leverage::Engine& engine : leverage::Engines()) names.push_back(engine.name);
    return names;
  });
  py::class_<Predictor>(module, "Predictor")
      .def_property_readonly("choice", [](const Predictor& predictor) { return ToDict(predictor.choice); })
      .def_property_readonly("cols", [](const Predictor& predictor) { return predictor.cols; })
      .def_property_readonly("pairs",
                             [](const Predictor& predictor) {
                               std::vector<std::pair<ClassIndex, ClassIndex>> pairs;
                               for (const auto& pair : predictor.svm.model.pairs) {
                                 pairs.emplace_back(pair.first, pair.second);
                               }
                               return pairs;
                             })
      .def("predict", &PredictWith);
  module.def("train", &TrainModel);
}

}  // namespace fulcrum::python
