#include "pipeline/onnx/onnx_export.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/text/version.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using onnx::TensorProto;

constexpr std::int64_t kIrVersion = 7;  // that of opset 13
constexpr std::int64_t kOpset = 13;
constexpr double kLeastProbability = 1e-7;  // as in the predictor
// Newton's iteration doubles the correct digits in each step, after about 2 log2 of the condition number of a matrix,
// of which there is no more than 1e12 here.
constexpr int kInverseSteps = 60;

OnnxValue UnitRows(OnnxGraph& graph, const OnnxValue& x) {
  const OnnxValue length = graph.Apply("Sqrt", {graph.SumOfLast(graph.Multiply(x, x))});
  const OnnxValue is_zero = graph.Apply("Equal", {length, graph.Number(0)});
  return graph.Divide(x, graph.Apply("Where", {is_zero, graph.Number(1), length}));
}

/// Columns of categories become a column per category; the others get a z-score.
OnnxValue OneHot(OnnxGraph& graph, const OnnxValue& x, const ingest::Normalizer& normalizer) {
  std::vector<std::int64_t> sources;
  std::vector<double> values, scales, means, deviations;
  std::vector<bool> is_category;
  for (std::size_t column = 0; column < normalizer.categories().size(); ++column) {
    const ingest::Normalizer::Categories& categories = normalizer.categories()[column];
    const std::size_t count = std::max<std::size_t>(categories.values.size(), 1);
    for (std::size_t i = 0; i < count; ++i) {
      sources.push_back(static_cast<std::int64_t>(column));
      is_category.push_back(!categories.values.empty());
      values.push_back(categories.values.empty() ? 0 : categories.values[i]);
      scales.push_back(categories.scale);
      means.push_back(normalizer.means()[column]);
      deviations.push_back(normalizer.deviations()[column]);
    }
  }
  const OnnxValue spread =
      graph.Apply("Gather", {x, graph.Integers(sources)}, {OnnxGraph::Attribute("axis", std::int64_t{1})});
  const OnnxValue has_value = graph.Apply("Equal", {spread, graph.Row(values)});
  const OnnxValue category = graph.Apply("Where", {has_value, graph.Row(scales), graph.Number(0)});
  const OnnxValue number = graph.Divide(graph.Subtract(spread, graph.Row(means)), graph.Row(deviations));
  return graph.Apply("Where", {graph.Booleans(is_category), category, number});
}

/// A column per threshold, as QuantileColumns has them.
OnnxValue Bins(OnnxGraph& graph, const OnnxValue& x, const ingest::QuantileColumns& quantiles) {
  std::vector<std::int64_t> sources;
  std::vector<double> thresholds, scales;
  for (std::size_t column = 0; column < quantiles.columns().size(); ++column) {
    const ingest::QuantileColumns::Column& learned = quantiles.columns()[column];
    for (std::size_t i = 0; i < std::max<std::size_t>(learned.values.size(), 1); ++i) {
      sources.push_back(static_cast<std::int64_t>(column));
      // A column without thresholds stays zero.
      thresholds.push_back(learned.values.empty() ? std::numeric_limits<double>::infinity() : learned.values[i]);
      scales.push_back(learned.values.empty() ? 1 : learned.steps[i]);
    }
  }
  const OnnxValue spread =
      graph.Apply("Gather", {x, graph.Integers(sources)}, {OnnxGraph::Attribute("axis", std::int64_t{1})});
  const OnnxValue above = graph.Apply("GreaterOrEqual", {spread, graph.Row(thresholds)});
  return graph.Apply("Where", {above, graph.Row(scales), graph.Number(0)});
}

/// The sum of the parts of the value that lie in each segment between learned values, times the slope there.
OnnxValue NormalQuantiles(OnnxGraph& graph, const OnnxValue& x, const ingest::QuantileColumns& quantiles) {
  const std::vector<ingest::QuantileColumns::Column>& columns = quantiles.columns();
  std::size_t segments = 1;
  for (const auto& column : columns) segments = std::max(segments, column.values.size());
  Matrix<double> starts = Matrix<double>::Zero(columns.size(), segments);
  Matrix<double> lengths = Matrix<double>::Zero(columns.size(), segments);
  Matrix<double> slopes = Matrix<double>::Zero(columns.size(), segments);
  std::vector<double> lowest;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const auto& [values, scores, steps] = columns[c];
    lowest.push_back(scores.empty() ? 0 : scores.front());
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      starts(c, i) = values[i];
      lengths(c, i) = values[i + 1] - values[i];
      slopes(c, i) = (scores[i + 1] - scores[i]) / lengths(c, i);
    }
  }
  const auto width = static_cast<std::int64_t>(columns.size());
  const std::vector<std::int64_t> as_stack = {-1, width, 1}, as_rows = {-1, width};
  const OnnxValue stacked = graph.Apply("Reshape", {x, graph.Integers(as_stack)});
  const OnnxValue beyond = graph.Apply("Max", {graph.Subtract(stacked, graph.Table(starts.view())), graph.Number(0)});
  const OnnxValue inside = graph.Apply("Min", {beyond, graph.Table(lengths.view())});
  const OnnxValue sums = graph.SumOfLast(graph.Multiply(inside, graph.Table(slopes.view())));
  return graph.Add(graph.Apply("Reshape", {sums, graph.Integers(as_rows)}), graph.Row(lowest));
}

OnnxValue Prepare(OnnxGraph& graph, OnnxValue x, const ingest::Normalizer& normalizer) {
  for (const ingest::NormalizeStep& step : normalizer.steps()) {
    switch (step.kind) {
      case ingest::NormalizeStep::kUnit:
        x = UnitRows(graph, x);
        break;
      case ingest::NormalizeStep::kTfidf:
        x = graph.Multiply(x, graph.Row(normalizer.inverse_frequencies()));
        break;
      case ingest::NormalizeStep::kOneHot:
        x = OneHot(graph, x, normalizer);
        break;
      case ingest::NormalizeStep::kQuantile:
        x = NormalQuantiles(graph, x, normalizer.quantiles());
        break;
      case ingest::NormalizeStep::kBins:
        x = Bins(graph, x, normalizer.quantiles());
        break;
      case ingest::NormalizeStep::kZscore:
      case ingest::NormalizeStep::kRobust:
        x = graph.Divide(graph.Subtract(x, graph.Row(normalizer.means())), graph.Row(normalizer.deviations()));
        if (step == ingest::NormalizeStep::kRobust) {
          x = graph.Apply("Clip", {x, graph.Number(-ingest::kLargestRobust), graph.Number(ingest::kLargestRobust)});
        }
        break;
    }
  }
  return x;
}

Matrix<double> Transposed(ConstMatrixView from) {
  Matrix<double> to(from.cols(), from.rows());
  for (std::size_t row = 0; row < from.rows(); ++row) {
    for (std::size_t col = 0; col < from.cols(); ++col) to(col, row) = from(row, col);
  }
  return to;
}

/// A linear model needs one weight per feature and pair, not its support vectors.
OnnxValue LinearDecisions(OnnxGraph& graph, const OnnxValue& x, ConstMatrixView support, ConstMatrixView coefficients) {
  Matrix<double> weights = Matrix<double>::Zero(support.cols(), coefficients.cols());
  for (std::size_t s = 0; s < support.rows(); ++s) {
    for (std::size_t feature = 0; feature < support.cols(); ++feature) {
      for (std::size_t p = 0; p < coefficients.cols(); ++p) {
        weights(feature, p) += support(s, feature) * coefficients(s, p);
      }
    }
  }
  return graph.Product(x, graph.Table(weights.view()));
}

OnnxValue KernelDecisions(OnnxGraph& graph, const OnnxValue& x, const kernel::KernelFunction& kernel,
                          ConstMatrixView support, ConstMatrixView coefficients) {
  OnnxValue values = graph.Product(x, graph.Table(Transposed(support).view()));
  if (kernel.type == kernel::KernelType::kRbf) {
    std::vector<double> norms(support.rows(), 0.0);
    for (std::size_t s = 0; s < support.rows(); ++s) {
      for (const double value : support.row(s)) norms[s] += value * value;
    }
    const OnnxValue sums = graph.Add(graph.SumOfLast(graph.Multiply(x, x)), graph.Row(norms));
    const OnnxValue squares = graph.Subtract(sums, graph.Multiply(values, graph.Number(2)));
    const OnnxValue distances = graph.Apply("Max", {squares, graph.Number(0)});
    values = graph.Apply("Exp", {graph.Multiply(distances, graph.Number(-1 / (kernel.sigma * kernel.sigma)))});
  } else {
    values = graph.Apply("Pow", {graph.Add(values, graph.Number(kernel.offset)), graph.Number(kernel.degree)});
  }
  return graph.Product(values, graph.Table(coefficients));
}

OnnxValue Decisions(OnnxGraph& graph, OnnxValue x, const classify::SavedSvm& saved, Matrix<double> support) {
  const classify::SvmModel& model = saved.model;
  const kernel::KernelType type = model.kernel.type;
  if (type == kernel::KernelType::kCosine) {
    x = UnitRows(graph, x);
    for (std::size_t s = 0; s < support.rows(); ++s) {
      const double norm = std::sqrt(saved.features->squared_norms()[model.support_rows[s]]);
      for (double& value : support.row(s)) value /= norm > 0 ? norm : 1;
    }
  }
  const bool linear = type == kernel::KernelType::kLinear || type == kernel::KernelType::kCosine;
  const OnnxValue sums = linear ? LinearDecisions(graph, x, support.view(), model.coefficients.view())
                                : KernelDecisions(graph, x, model.kernel, support.view(), model.coefficients.view());
  std::vector<double> offsets;
  for (const classify::SvmPair& pair : model.pairs) offsets.push_back(pair.rho);
  return graph.Subtract(sums, graph.Row(offsets));
}

/// A table of pairs x columns with a 1 at `column_of(pair)` in each row.
template <typename ColumnOf>
OnnxValue OnePerPair(OnnxGraph& graph, const classify::SvmModel& model, std::size_t columns, ColumnOf column_of) {
  Matrix<double> table = Matrix<double>::Zero(model.pairs.size(), columns);
  for (std::size_t p = 0; p < model.pairs.size(); ++p) table(p, column_of(model.pairs[p])) = 1;
  return graph.Table(table.view());
}

/// The class with the most votes, the first one of several.
OnnxValue Vote(OnnxGraph& graph, const OnnxValue& decisions, const classify::SvmModel& model) {
  const OnnxValue for_first = graph.Cast(graph.Apply("Greater", {decisions, graph.Number(0)}), TensorProto::DOUBLE);
  const OnnxValue for_second = graph.Subtract(graph.Number(1), for_first);
  const auto first = [](const classify::SvmPair& pair) { return static_cast<std::size_t>(pair.first); };
  const auto second = [](const classify::SvmPair& pair) { return static_cast<std::size_t>(pair.second); };
  const OnnxValue votes = graph.Add(graph.Product(for_first, OnePerPair(graph, model, model.class_count, first)),
                                    graph.Product(for_second, OnePerPair(graph, model, model.class_count, second)));
  return graph.Apply(
      "ArgMax", {votes},
      {OnnxGraph::Attribute("axis", std::int64_t{1}), OnnxGraph::Attribute("keepdims", std::int64_t{0})});
}

/// P(first | first or second) of every pair.
OnnxValue PairProbabilities(OnnxGraph& graph, const OnnxValue& decisions, const classify::SvmModel& model) {
  std::vector<double> a, b;
  for (const classify::SvmPair& pair : model.pairs) {
    a.push_back(-pair.platt.a);
    b.push_back(-pair.platt.b);
  }
  const OnnxValue p = graph.Apply("Sigmoid", {graph.Add(graph.Multiply(decisions, graph.Row(a)), graph.Row(b))});
  return graph.Apply("Clip", {p, graph.Number(kLeastProbability), graph.Number(1 - kLeastProbability)});
}

/// The inverse of every matrix of a stack of symmetric positive definite ones, by Newton's iteration.
OnnxValue Inverse(OnnxGraph& graph, const OnnxValue& matrices, std::size_t size) {
  Matrix<double> twice_identity = Matrix<double>::Zero(size, size);
  for (std::size_t i = 0; i < size; ++i) twice_identity(i, i) = 2;
  const OnnxValue two = graph.Table(twice_identity.view());
  // Symmetric matrices: the largest row sum bounds the largest eigenvalue, so A / bound^2 starts a contraction.
  const OnnxValue bound = graph.Apply("ReduceMax", {graph.SumOfLast(graph.Apply("Abs", {matrices}))},
                                      {OnnxGraph::Attribute("axes", std::vector<std::int64_t>{1, 2}),
                                       OnnxGraph::Attribute("keepdims", std::int64_t{1})});
  OnnxValue inverse = graph.Divide(matrices, graph.Multiply(bound, bound));
  for (int step = 0; step < kInverseSteps; ++step) {
    inverse = graph.Product(inverse, graph.Subtract(two, graph.Product(matrices, inverse)));
  }
  return inverse;
}

/// Couples the probabilities of the pairs as CoupleProbabilities does. The p that minimises p'Qp with sum 1 is
/// (Q + 11')^-1 1, scaled to sum 1.
OnnxValue Couple(OnnxGraph& graph, const OnnxValue& pairs, const classify::SvmModel& model,
                 const std::vector<ClassIndex>& classes) {
  const std::size_t count = classes.size();
  const auto slot = [&](ClassIndex index) {
    return static_cast<std::size_t>(std::lower_bound(classes.begin(), classes.end(), index) - classes.begin());
  };
  const auto upper = [&](const classify::SvmPair& pair) { return slot(pair.first) * count + slot(pair.second); };
  const auto lower = [&](const classify::SvmPair& pair) { return slot(pair.second) * count + slot(pair.first); };
  const OnnxValue flat =
      graph.Add(graph.Product(pairs, OnePerPair(graph, model, count * count, upper)),
                graph.Product(graph.Subtract(graph.Number(1), pairs), OnePerPair(graph, model, count * count, lower)));
  const auto size = static_cast<std::int64_t>(count);
  const std::vector<std::int64_t> shape = {-1, size, size};
  const OnnxValue r = graph.Apply("Reshape", {flat, graph.Integers(shape)});
  const OnnxValue transposed =
      graph.Apply("Transpose", {r}, {OnnxGraph::Attribute("perm", std::vector<std::int64_t>{0, 2, 1})});
  Matrix<double> identity = Matrix<double>::Zero(count, count);
  for (std::size_t i = 0; i < count; ++i) identity(i, i) = 1;
  const OnnxValue diagonal =
      graph.Multiply(graph.SumOfLast(graph.Multiply(transposed, transposed)), graph.Table(identity.view()));
  const OnnxValue q = graph.Subtract(diagonal, graph.Multiply(r, transposed));
  const OnnxValue solved = graph.SumOfLast(Inverse(graph, graph.Add(q, graph.Number(1)), count));
  const std::vector<std::int64_t> rows = {-1, size};
  const OnnxValue p = graph.Apply("Max", {graph.Apply("Reshape", {solved, graph.Integers(rows)}), graph.Number(0)});
  return graph.Divide(p, graph.SumOfLast(p));
}

OnnxValue Probabilities(OnnxGraph& graph, const OnnxValue& decisions, const classify::SvmModel& model) {
  const OnnxValue pairs = PairProbabilities(graph, decisions, model);
  const std::vector<ClassIndex> classes = model.classes_present();
  OnnxValue p;
  if (classes.size() == 2) {
    p = graph.Apply("Concat", {pairs, graph.Subtract(graph.Number(1), pairs)},
                    {OnnxGraph::Attribute("axis", std::int64_t{1})});
  } else {
    p = Couple(graph, pairs, model, classes);
  }
  // A class without labels has the probability zero.
  Matrix<double> places = Matrix<double>::Zero(classes.size(), model.class_count);
  for (std::size_t i = 0; i < classes.size(); ++i) places(i, static_cast<std::size_t>(classes[i])) = 1;
  return graph.Product(p, graph.Table(places.view()));
}

void AddMetadata(const OnnxDescription& description, onnx::ModelProto& model) {
  const auto add = [&](const std::string& key, const std::string& value) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("classes", absl::StrJoin(description.classes, "\n"));
  if (!description.feature_names.empty()) add("feature_names", absl::StrJoin(description.feature_names, "\n"));
  for (const auto& [key, value] : description.metadata) add(key, value);
}

}  // namespace

absl::StatusOr<std::string> FormatOnnxModel(const classify::SavedSvm& saved, const ingest::Normalizer& normalizer,
                                            const OnnxDescription& description) {
  const classify::SvmModel& svm = saved.model;
  if (svm.kernel.normalize && !kernel::AlwaysInUnitInterval(svm.kernel) &&
      svm.kernel.type != kernel::KernelType::kCosine) {
    return absl::InvalidArgumentError(absl::StrCat("the kernel ", kernel::DescribeKernel(svm.kernel),
                                                   " is normalised, which an exported model cannot express; train "
                                                   "without normalising the kernel to export a model"));
  }
  FULCRUM_ASSIGN_OR_RETURN(Matrix<double> support, classify::SupportVectors(svm, *saved.features));
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("fulcrum");
  model.set_producer_version(ProgramVersion());
  model.add_opset_import()->set_version(kOpset);
  AddMetadata(description, model);
  model.mutable_graph()->set_name("classifier");

  OnnxGraph graph(*model.mutable_graph());
  graph.AddInput("features", TensorProto::FLOAT, description.features, "Rows as they are in the files of the pool");
  const OnnxValue x = Prepare(graph, graph.Cast("features", TensorProto::DOUBLE), normalizer);
  const OnnxValue decisions = Decisions(graph, x, saved, std::move(support));
  const OnnxValue label = graph.Apply("Gather", {graph.Texts(description.classes), Vote(graph, decisions, svm)});
  graph.AddOutput(label, "label", TensorProto::STRING, 0, "The predicted class");
  if (svm.has_probabilities()) {
    const OnnxValue probabilities = graph.Cast(Probabilities(graph, decisions, svm), TensorProto::FLOAT);
    graph.AddOutput(probabilities, "probabilities", TensorProto::FLOAT, svm.class_count, "Of each class");
  }
  graph.AddOutput(graph.Cast(decisions, TensorProto::FLOAT), "decision_values", TensorProto::FLOAT, svm.pairs.size(),
                  "Of each pair of classes: positive for the first one");
  return model.SerializeAsString();
}

}  // namespace fulcrum::pipeline
