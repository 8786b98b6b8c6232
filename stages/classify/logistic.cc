// Kernel logistic regression as a classifier: its examples, warm starts, and its model as pairs of classes.
#include <algorithm>
#include <map>
#include <utility>

#include "stages/classify/classifier.h"
#include "stages/classify/logistic_solver.h"
#include "stages/core/status_macros.h"

namespace fulcrum::classify {
namespace {

class Logistic final : public Classifier {
 public:
  Logistic(const SvmParameters& parameters, const kernel::Features& features)
      : parameters_(parameters), features_(&features), gram_(parameters_.kernel, features) {}

  absl::StatusOr<SvmModel> Train(std::span<const ClassIndex> labels, std::size_t class_count) override {
    FULCRUM_ASSIGN_OR_RETURN(present_, CheckTraining(parameters_, *features_, labels, class_count));
    RowList rows;
    for (std::size_t row = 0; row < labels.size(); ++row) {
      if (labels[row] != kUnlabeled) rows.push_back(static_cast<RowIndex>(row));
    }
    report_ = {.labels = rows.size(), .support_vectors = rows.size()};
    report_.kernel_update = gram_.Update(rows);
    ListExamples(labels);
    const LogisticProblem problem{gram_.matrix(), classes_, present_.size(), costs_, parameters_.tolerance};
    LogisticSolver solver(problem, Start());
    solver.Solve();
    const Functions fitted = solver.result();
    report_.iterations = solver.products();
    report_.objective = solver.objective();
    report_.converged = solver.converged();
    Remember(fitted);
    return AssembleModel(fitted, class_count);
  }

  absl::Status FitProbabilities(SvmModel& model) const override {
    const bool same = present_.size() >= 2 && model.support_rows.size() == gram_.rows().size() &&
                      model.pairs.front().rho ==
                          last_intercepts_.of_class.at(present_[1]) - last_intercepts_.of_class.at(present_[0]);
    if (!same) {
      return absl::FailedPreconditionError(
          "probabilities can be fitted only to the model of the last training; train again first");
    }
    std::vector<std::uint32_t> by_row;  // the folds do not depend on the order of the matrix
    for (const RowIndex row : model.support_rows) by_row.push_back(static_cast<std::uint32_t>(gram_.PositionOf(row)));
    FULCRUM_ASSIGN_OR_RETURN(const ClassifierEntry* const entry, FindClassifier("logistic"));
    const GramExamples examples{gram_.matrix(), by_row, classes_, present_.size(), class_costs_, weights_of_};
    const double temperature = FitTemperature(*entry, examples, parameters_.seed);
    for (SvmPair& pair : model.pairs) pair.platt = {-temperature, 0};
    return absl::OkStatus();
  }

  void MoveTo(const kernel::Features& grown) override {
    features_ = &grown;
    gram_.MoveTo(grown);
  }

  void Reset() override {
    gram_ = kernel::RowSetKernel(parameters_.kernel, *features_);
    last_.clear();
    report_ = {};
  }

  const TrainingReport& report() const override { return report_; }

 private:
  /// The functions of the last training by row and class, so that they survive changes of labels and of the order.
  struct Coefficients {
    std::map<ClassIndex, double> of_class;
  };

  void ListExamples(std::span<const ClassIndex> labels) {
    class_costs_.clear();
    for (const ClassIndex index : present_) {
      const double weight =
          parameters_.class_weights.empty() ? 1 : parameters_.class_weights[static_cast<std::size_t>(index)];
      class_costs_.push_back(weight * parameters_.c);
    }
    classes_.clear();
    costs_.clear();
    weights_of_.clear();
    for (const RowIndex row : gram_.rows()) {
      const auto at = std::ranges::lower_bound(present_, labels[row]);
      classes_.push_back(static_cast<std::size_t>(at - present_.begin()));
      weights_of_.push_back(WeightOf(row));
      costs_.push_back(CostFactor(present_.size()) * class_costs_[classes_.back()] * weights_of_.back());
    }
  }

  Functions Start() {
    Functions start(gram_.rows().size(), present_.size());
    for (std::size_t i = 0; i < gram_.rows().size(); ++i) {
      const auto known = last_.find(gram_.rows()[i]);
      if (known == last_.end()) continue;
      report_.warm = true;
      for (std::size_t k = 0; k < present_.size(); ++k) {
        const auto value = known->second.of_class.find(present_[k]);
        if (value != known->second.of_class.end()) start.alpha(k, i) = value->second;
      }
    }
    for (std::size_t k = 0; k < present_.size(); ++k) {
      const auto value = last_intercepts_.of_class.find(present_[k]);
      if (value != last_intercepts_.of_class.end()) start.intercepts[k] = value->second;
    }
    return start;
  }

  void Remember(const Functions& fitted) {
    last_.clear();
    last_intercepts_ = {};
    for (std::size_t k = 0; k < present_.size(); ++k) {
      last_intercepts_.of_class[present_[k]] = fitted.intercepts[k];
      for (std::size_t i = 0; i < gram_.rows().size(); ++i) {
        last_[gram_.rows()[i]].of_class[present_[k]] = fitted.alpha(k, i);
      }
    }
  }

  SvmModel AssembleModel(const Functions& fitted, std::size_t class_count) const {
    SvmModel model;
    model.class_count = class_count;
    model.kernel = parameters_.kernel;
    model.support_rows.assign(gram_.rows().begin(), gram_.rows().end());
    std::ranges::sort(model.support_rows);
    for (std::size_t a = 0; a < present_.size(); ++a) {
      for (std::size_t b = a + 1; b < present_.size(); ++b) {
        model.pairs.push_back({.first = present_[a],
                               .second = present_[b],
                               .rho = fitted.intercepts[b] - fitted.intercepts[a],
                               .support_count = model.support_rows.size(),
                               .converged = report_.converged,
                               .has_platt = true,
                               .platt = {-1, 0}});
      }
    }
    // What was computed once is noted with the first pair, so that sums over the pairs are right.
    model.pairs.front().objective = report_.objective;
    model.pairs.front().iterations = report_.iterations;
    model.coefficients = Matrix<double>(model.support_rows.size(), model.pairs.size());
    for (std::size_t s = 0; s < model.support_rows.size(); ++s) {
      const std::size_t at = gram_.PositionOf(model.support_rows[s]);
      std::size_t pair = 0;
      for (std::size_t a = 0; a < present_.size(); ++a) {
        for (std::size_t b = a + 1; b < present_.size(); ++b) {
          model.coefficients(s, pair++) = fitted.alpha(a, at) - fitted.alpha(b, at);
        }
      }
    }
    return model;
  }

  SvmParameters parameters_;
  const kernel::Features* features_;
  kernel::RowSetKernel gram_;
  // Of the last training, the examples in the order of gram_.
  std::vector<ClassIndex> present_;
  std::vector<std::size_t> classes_;  // places in present_
  std::vector<double> costs_;         // by example
  std::vector<double> weights_of_;    // by example
  std::vector<double> class_costs_;   // by place in present_
  std::map<RowIndex, Coefficients> last_;
  Coefficients last_intercepts_;
  TrainingReport report_;
};

}  // namespace

std::unique_ptr<Classifier> MakeLogistic(const SvmParameters& parameters, const kernel::Features& features) {
  return std::make_unique<Logistic>(parameters, features);
}

}  // namespace fulcrum::classify
