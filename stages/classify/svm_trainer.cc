#include "stages/classify/svm_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"

namespace fulcrum::classify {
namespace {

// The solver needs bounds above 0.
constexpr double kLeastWeight = 1e-6;

double BoundOf(const SvmParameters& parameters, ClassIndex class_index) {
  if (parameters.class_weights.empty()) return parameters.c;
  return parameters.c * parameters.class_weights[static_cast<std::size_t>(class_index)];
}

}  // namespace

PairProblem MakePairProblem(ClassIndex first, ClassIndex second, const kernel::RowSetKernel& gram,
                            std::span<const ClassIndex> labels, const SvmParameters& parameters) {
  PairProblem pair;
  pair.first = first;
  pair.second = second;
  const double bounds[] = {BoundOf(parameters, first), BoundOf(parameters, second)};
  for (std::uint32_t position = 0; position < gram.rows().size(); ++position) {
    const RowIndex row = gram.rows()[position];
    const bool is_first = labels[row] == first;
    if (!is_first && labels[row] != second) continue;
    pair.positions.push_back(position);
    pair.rows.push_back(row);
    pair.y.push_back(is_first ? 1 : -1);
    pair.c.push_back(bounds[is_first ? 0 : 1]);
  }
  return pair;
}

std::vector<std::uint32_t> ExamplesByRow(const PairProblem& pair) {
  std::vector<std::uint32_t> examples(pair.rows.size());
  std::iota(examples.begin(), examples.end(), 0u);
  std::sort(examples.begin(), examples.end(),
            [&](std::uint32_t a, std::uint32_t b) { return pair.rows[a] < pair.rows[b]; });
  return examples;
}

namespace {

RowList LabeledRows(std::span<const ClassIndex> labels) {
  RowList rows;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] != kUnlabeled) rows.push_back(static_cast<RowIndex>(row));
  }
  return rows;
}

RowList SupportRows(std::span<const PairProblem> pairs) {
  RowList rows;
  for (const PairProblem& pair : pairs) {
    for (std::size_t t = 0; t < pair.rows.size(); ++t) {
      if (pair.solution.alpha[t] > 0) rows.push_back(pair.rows[t]);
    }
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace

SvmTrainer::SvmTrainer(SvmParameters parameters, const kernel::Features& features)
    : parameters_(std::move(parameters)), features_(&features), gram_(parameters_.kernel, features) {}

void SvmTrainer::MoveTo(const kernel::Features& grown) {
  features_ = &grown;
  gram_.MoveTo(grown);
}

void SvmTrainer::Reset() {
  gram_ = kernel::RowSetKernel(parameters_.kernel, *features_);
  last_.clear();
  report_ = {};
}

SmoOptions SvmTrainer::Options() const {
  return {parameters_.tolerance, parameters_.shrinking, 0};
}

const PairProblem* SvmTrainer::LastOf(ClassIndex first, ClassIndex second) const {
  for (const PairProblem& pair : last_) {
    if (pair.first == first && pair.second == second) return &pair;
  }
  return nullptr;
}

bool SvmTrainer::SolvePair(PairProblem& pair) const {
  const PairProblem* previous = LastOf(pair.first, pair.second);
  if (previous == nullptr) {
    pair.solution = SolveSmo(pair.View(gram_), Options());
    return false;
  }
  const CarriedMultipliers start = CarryMultipliers(*previous, pair, gram_);
  if (!start.products.empty()) pair.starts_since_full_products = previous->starts_since_full_products + 1;
  pair.solution = SolveSmo(pair.View(gram_), Options(), start.View());
  return true;
}

absl::StatusOr<SvmModel> SvmTrainer::Train(std::span<const ClassIndex> labels, std::size_t class_count) {
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<ClassIndex> classes,
                           CheckTraining(parameters_, *features_, labels, class_count));
  const RowList rows = LabeledRows(labels);
  report_ = {};
  report_.labels = rows.size();
  report_.kernel_update = gram_.Update(rows);

  std::vector<std::pair<ClassIndex, ClassIndex>> names;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    for (std::size_t j = i + 1; j < classes.size(); ++j) names.emplace_back(classes[i], classes[j]);
  }
  std::vector<PairProblem> pairs(names.size());
  std::vector<char> warm(names.size(), 0);
  ParallelForBlocks(names.size(), 1, [&](std::size_t index, std::size_t) {
    pairs[index] = MakePairProblem(names[index].first, names[index].second, gram_, labels, parameters_);
    for (std::size_t t = 0; t < pairs[index].rows.size(); ++t) {
      pairs[index].c[t] *= std::max(WeightOf(pairs[index].rows[t]), kLeastWeight);
    }
    warm[index] = SolvePair(pairs[index]);
  });
  last_ = std::move(pairs);

  SvmModel model = AssembleModel(class_count);
  report_.warm = std::find(warm.begin(), warm.end(), 1) != warm.end();
  report_.iterations = model.iterations();
  report_.objective = model.objective();
  report_.support_vectors = model.support_rows.size();
  report_.converged = model.converged();
  return model;
}

SvmModel SvmTrainer::AssembleModel(std::size_t class_count) const {
  SvmModel model;
  model.class_count = class_count;
  model.kernel = parameters_.kernel;
  model.support_rows = SupportRows(last_);
  model.coefficients = Matrix<double>::Zero(model.support_rows.size(), last_.size());
  for (std::size_t p = 0; p < last_.size(); ++p) {
    const PairProblem& pair = last_[p];
    SvmPair summary;
    summary.first = pair.first;
    summary.second = pair.second;
    summary.rho = pair.solution.rho;
    summary.objective = pair.solution.objective;
    summary.iterations = pair.solution.iterations;
    summary.converged = pair.solution.converged;
    for (std::size_t t = 0; t < pair.rows.size(); ++t) {
      if (pair.solution.alpha[t] == 0) continue;
      const auto at = std::lower_bound(model.support_rows.begin(), model.support_rows.end(), pair.rows[t]);
      model.coefficients(static_cast<std::size_t>(at - model.support_rows.begin()), p) =
          pair.y[t] * pair.solution.alpha[t];
      ++summary.support_count;
    }
    model.pairs.push_back(summary);
  }
  return model;
}

absl::Status SvmTrainer::FitProbabilities(SvmModel& model) const {
  bool same = model.pairs.size() == last_.size();
  for (std::size_t p = 0; p < last_.size() && same; ++p) {
    same = model.pairs[p].first == last_[p].first && model.pairs[p].second == last_[p].second &&
           model.pairs[p].rho == last_[p].solution.rho;
  }
  if (!same || last_.empty()) {
    return absl::FailedPreconditionError(
        "probabilities can be fitted only to the model of this trainer's last training; train again first");
  }
  ParallelForBlocks(last_.size(), 1, [&](std::size_t p, std::size_t) {
    const PairProblem& pair = last_[p];
    const std::uint64_t stream =
        static_cast<std::uint64_t>(pair.first) * model.class_count + static_cast<std::uint64_t>(pair.second);
    const std::vector<double> decisions =
        CrossValidatedDecisions(pair.View(gram_), Options(), {pair.solution.alpha, pair.solution.products},
                                ExamplesByRow(pair), parameters_.seed, stream);
    std::vector<double> weights;
    for (const RowIndex row : pair.rows) weights.push_back(WeightOf(row));
    model.pairs[p].platt = FitSigmoid(decisions, pair.y, weights);
    model.pairs[p].has_platt = true;
  });
  return absl::OkStatus();
}

namespace {

// Updated products accumulate rounding errors; they are recomputed after this many starts.
constexpr std::size_t kStartsBetweenFullProducts = 64;
// Number of kernel rows of removed examples that are computed at once.
constexpr std::size_t kLeaversAtOnce = 64;

/// Finds the rows of a solved pair.
class RowLookup {
 public:
  explicit RowLookup(const PairProblem& pair) : pair_(pair), by_row_(ExamplesByRow(pair)) {}

  std::optional<std::uint32_t> Find(RowIndex row) const {
    const auto found =
        std::lower_bound(by_row_.begin(), by_row_.end(), row,
                         [&](std::uint32_t example, RowIndex wanted) { return pair_.rows[example] < wanted; });
    if (found == by_row_.end() || pair_.rows[*found] != row) return std::nullopt;
    return *found;
  }

 private:
  const PairProblem& pair_;
  std::vector<std::uint32_t> by_row_;
};

/// Examples of the earlier solution with a non-zero multiplier that were removed or changed sides.
struct Leavers {
  RowList rows;
  std::vector<double> beta;
};

void SubtractLeavers(const Leavers& leavers, const PairProblem& next, const kernel::RowSetKernel& gram,
                     std::vector<double>& products) {
  for (std::size_t first = 0; first < leavers.rows.size(); first += kLeaversAtOnce) {
    const std::size_t count = std::min(kLeaversAtOnce, leavers.rows.size() - first);
    Matrix<double> values(count, next.rows.size());
    kernel::ComputeKernelBlock(gram.kernel(), gram.features(), std::span(leavers.rows).subspan(first, count), next.rows,
                               values.view());
    for (std::size_t k = 0; k < count; ++k) {
      const auto row = values.row(k);
      for (std::size_t t = 0; t < products.size(); ++t) products[t] -= leavers.beta[first + k] * row[t];
    }
  }
}

double ProductOf(std::size_t example, const PairProblem& next, std::span<const double> alpha, ConstMatrixView gram) {
  const auto row = gram.row(next.positions[example]);
  double sum = 0;
  for (std::size_t s = 0; s < alpha.size(); ++s) {
    if (alpha[s] != 0) sum += next.y[s] * alpha[s] * row[next.positions[s]];
  }
  return sum;
}

}  // namespace

CarriedMultipliers CarryMultipliers(const PairProblem& previous, const PairProblem& next,
                                    const kernel::RowSetKernel& gram) {
  const std::size_t count = next.rows.size();
  const RowLookup lookup(previous);
  CarriedMultipliers start{std::vector<double>(count, 0), std::vector<double>(count, 0)};
  std::vector<bool> stayed(previous.rows.size(), false);
  std::vector<std::size_t> newcomers;
  bool lowered = false;  // an example weighs less than before
  for (std::size_t t = 0; t < count; ++t) {
    const auto known = lookup.Find(next.rows[t]);
    if (!known || previous.y[*known] != next.y[t]) {
      newcomers.push_back(t);
      continue;
    }
    stayed[*known] = true;
    start.alpha[t] = std::min(previous.solution.alpha[*known], next.c[t]);
    start.products[t] = previous.solution.products[*known];
    lowered = lowered || start.alpha[t] < previous.solution.alpha[*known];
  }
  Leavers leavers;
  for (std::size_t s = 0; s < stayed.size(); ++s) {
    if (stayed[s] || previous.solution.alpha[s] == 0) continue;
    leavers.rows.push_back(previous.rows[s]);
    leavers.beta.push_back(previous.y[s] * previous.solution.alpha[s]);
  }
  const bool much_changed = newcomers.size() + leavers.rows.size() > count / 8;
  if (much_changed || lowered || previous.starts_since_full_products >= kStartsBetweenFullProducts) {
    start.products.clear();
    return start;
  }
  SubtractLeavers(leavers, next, gram, start.products);
  for (std::size_t t : newcomers) start.products[t] = ProductOf(t, next, start.alpha, gram.matrix());
  return start;
}

// Scores for cross-validation.

namespace {

/// Votes and summed decision values of held-out examples, pair by pair.
class PairVotes {
 public:
  PairVotes(const GramExamples& examples, std::span<const std::uint32_t> held_out, double penalty)
      : examples_(examples),
        penalty_(penalty),
        held_out_(held_out),
        members_(examples.class_count),
        votes_(Matrix<double>::Zero(held_out.size(), examples.class_count)),
        sums_(Matrix<double>::Zero(held_out.size(), examples.class_count)) {
    for (const std::uint32_t position : examples.positions) members_[examples.classes[position]].push_back(position);
  }

  Matrix<double> Scores() {
    for (std::size_t a = 0; a < members_.size(); ++a) {
      for (std::size_t b = a + 1; b < members_.size(); ++b) {
        if (!members_[a].empty() && !members_[b].empty()) AddPair(a, b);
      }
    }
    const auto present = std::ranges::count_if(members_, [](const auto& rows) { return !rows.empty(); });
    Matrix<double> scores(held_out_.size(), members_.size());
    for (std::size_t t = 0; t < held_out_.size(); ++t) {
      for (std::size_t k = 0; k < members_.size(); ++k) {
        const double sum = sums_(t, k);
        // With two classes the decision value; with more the votes, and decision values between equal numbers of them.
        scores(t, k) = members_[k].empty() ? kAbsentScore
                       : present == 2      ? std::clamp(sum, kAbsentScore, -kAbsentScore)
                                           : votes_(t, k) + sum / (3 * (std::abs(sum) + 1));
      }
    }
    return scores;
  }

 private:
  void AddPair(std::size_t a, std::size_t b) {
    std::vector<std::uint32_t> positions = members_[a];
    positions.insert(positions.end(), members_[b].begin(), members_[b].end());
    std::vector<double> y(positions.size(), -1.0), bounds(positions.size(), penalty_ * examples_.costs[b]);
    std::fill_n(y.begin(), members_[a].size(), 1.0);
    std::fill_n(bounds.begin(), members_[a].size(), penalty_ * examples_.costs[a]);
    for (std::size_t s = 0; s < positions.size(); ++s) {
      bounds[s] *= std::max(examples_.WeightOf(positions[s]), kLeastWeight);
    }
    const SmoSolution solution = SolveSmo({examples_.gram, positions, y, bounds}, {});
    for (std::size_t t = 0; t < held_out_.size(); ++t) {
      const std::span<const double> row = examples_.gram.row(held_out_[t]);
      double decision = -solution.rho;
      for (std::size_t s = 0; s < positions.size(); ++s) decision += y[s] * solution.alpha[s] * row[positions[s]];
      votes_(t, decision > 0 ? a : b) += 1;
      sums_(t, a) += decision;
      sums_(t, b) -= decision;
    }
  }

  const GramExamples& examples_;
  const double penalty_;
  std::span<const std::uint32_t> held_out_;
  std::vector<std::vector<std::uint32_t>> members_;  // by class
  Matrix<double> votes_, sums_;                      // held out x classes
};

}  // namespace

std::vector<Matrix<double>> ScoreWithSvm(const GramExamples& examples, std::span<const std::uint32_t> held_out,
                                         std::span<const double> penalties) {
  std::vector<Matrix<double>> scores;
  for (const double penalty : penalties) scores.push_back(PairVotes(examples, held_out, penalty).Scores());
  return scores;
}

std::unique_ptr<Classifier> MakeSvm(const SvmParameters& parameters, const kernel::Features& features) {
  return std::make_unique<SvmTrainer>(parameters, features);
}

}  // namespace fulcrum::classify
