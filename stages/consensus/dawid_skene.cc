#include <algorithm>
#include <cmath>
#include <numeric>

#include "stages/consensus/consensus.h"
#include "stages/core/parallel.h"

namespace fulcrum::consensus {
namespace {

// Products of likelihoods are scaled up before they lose precision.
constexpr double kSmallProduct = 1e-200;
constexpr double kLeastLikelihood = 1e-6;
// Of a class in what a classifier says: it is never as sure as that a few votes could not say otherwise.
constexpr double kLeastProbability = 1e-3;
constexpr std::size_t kMostBlocks = 16;
constexpr std::size_t kLeastItemsPerBlock = 4096;
// What the partial sums of all blocks may take.
constexpr std::size_t kMostPartialBytes = std::size_t{256} << 20;

void Normalize(std::span<double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
}

void KeepFromUnderflow(std::span<double> values) {
  const double largest = *std::ranges::max_element(values);
  if (largest >= kSmallProduct) return;
  if (largest <= 0) {
    std::ranges::fill(values, 1.0);
    return;
  }
  for (double& value : values) value /= largest;
}

/// Class priors become what is known of an item whose class a classifier has predicted.
void AddVoice(const ClassifierVoice& voice, std::span<double> priors) {
  for (std::size_t c = 0; c < priors.size() && !voice.probabilities.empty(); ++c) {
    const double probability = std::max(voice.probabilities[c], kLeastProbability);
    priors[c] = std::pow(priors[c], 1 - voice.weight) * std::pow(probability, voice.weight);
  }
}

double Entropy(std::span<const double> shares) {
  double entropy = 0;
  for (const double share : shares) entropy -= share > 0 ? share * std::log(share) : 0;
  return entropy;
}

/// The votes item by item, with where each vote's likelihoods are in the table.
struct VotesByItem {
  explicit VotesByItem(const ConsensusProblem& problem) : first(problem.items + 1, 0), column(problem.votes.size()) {
    for (const Vote& vote : problem.votes) ++first[vote.item + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<std::size_t> next(first.begin(), first.end() - 1);
    for (const Vote& vote : problem.votes) {
      column[next[vote.item]++] =
          static_cast<std::uint32_t>(vote.annotator * problem.classes + static_cast<std::size_t>(vote.value));
    }
  }
  std::vector<std::size_t> first;     ///< of each item's votes, and their end
  std::vector<std::uint32_t> column;  ///< annotator * classes + answer
};

/// Expected numbers: answers by annotator, answer and true class, and items by class.
struct ExpectedCounts {
  ExpectedCounts(std::size_t annotators, std::size_t classes)
      : answers(annotators * classes * classes, 0.0), items(classes, 0.0) {}
  std::vector<double> answers;  ///< annotator x answer x true class
  std::vector<double> items;
};

class Estimator {
 public:
  Estimator(const ConsensusProblem& problem, const AnnotatorModel* start)
      : problem_(problem), votes_(problem), classes_(problem.classes), posterior_(problem.items, problem.classes) {
    const std::size_t table_bytes = sizeof(double) * problem.annotators * classes_ * classes_;
    const std::size_t affordable = std::max<std::size_t>(kMostPartialBytes / std::max<std::size_t>(table_bytes, 1), 1);
    blocks_ = std::clamp<std::size_t>(problem.items / kLeastItemsPerBlock, 1, std::min(kMostBlocks, affordable));
    model_ = PriorModel(classes_, problem.prior);
    if (start != nullptr && start->classes == classes_) {
      Adopt(*start);
    } else {
      StartFromShares();
    }
  }

  Consensus Run(const ConsensusLimits& limits) {
    Consensus result;
    while (result.iterations < limits.iterations && !result.converged) {
      ThrowIfStopRequested();
      ++result.iterations;
      const AnnotatorModel before = model_;
      Maximize(Expect());
      result.converged = Change(before) <= limits.tolerance;
    }
    Expect();
    result.model = std::move(model_);
    result.posterior = std::move(posterior_);
    return result;
  }

 private:
  /// Annotators that `start` does not know begin like the others.
  void Adopt(const AnnotatorModel& start) {
    model_ = start;
    for (std::size_t a = model_.annotators(); a < problem_.annotators; ++a) {
      model_.accuracy.push_back(start.crowd_accuracy);
      for (std::size_t c = 0; c < classes_; ++c) {
        for (std::size_t v = 0; v < classes_; ++v) model_.confusion.push_back(start.Likelihood(a, c, v));
      }
    }
    model_.accuracy.resize(problem_.annotators);
    model_.confusion.resize(problem_.annotators * classes_ * classes_);
  }

  /// The posterior of the first iteration is the share of each answer, with one vote spread over all classes.
  void StartFromShares() {
    model_.accuracy.assign(problem_.annotators, model_.crowd_accuracy);
    model_.confusion.assign(problem_.annotators * classes_ * classes_, 0.0);
    const double spread = 1 / static_cast<double>(classes_);
    ForBlocks([&](std::size_t, std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const std::span<double> row = posterior_.row(i);
        std::ranges::fill(row, spread);
        for (std::size_t k = votes_.first[i]; k < votes_.first[i + 1]; ++k) row[votes_.column[k] % classes_] += 1;
        FixKnown(i, row);
        Normalize(row);
      }
    });
    Maximize(CountAll());
  }

  template <typename Body>
  void ForBlocks(const Body& body) const {
    const std::size_t size = (problem_.items + blocks_ - 1) / std::max<std::size_t>(blocks_, 1);
    ParallelForBlocks(blocks_, 1, [&](std::size_t block, std::size_t) {
      body(block, std::min(block * size, problem_.items), std::min((block + 1) * size, problem_.items));
    });
  }

  bool FixKnown(std::size_t item, std::span<double> row) const {
    if (problem_.known.empty() || problem_.known[item] == kUnlabeled) return false;
    std::ranges::fill(row, 0.0);
    row[static_cast<std::size_t>(problem_.known[item])] = 1;
    return true;
  }

  /// What is known of an item before its votes.
  void FillPrior(std::size_t item, std::span<double> row) const {
    std::ranges::copy(model_.priors, row.begin());
    if (problem_.classifier.rows() == 0) return;
    AddVoice({problem_.classifier.row(item), problem_.classifier_weight}, row);
  }

  /// Likelihoods by annotator and answer, true classes next to each other.
  void FillTable() {
    table_.resize(problem_.annotators * classes_ * classes_);
    for (std::size_t a = 0; a < problem_.annotators; ++a) {
      for (std::size_t c = 0; c < classes_; ++c) {
        for (std::size_t v = 0; v < classes_; ++v) {
          table_[(a * classes_ + v) * classes_ + c] = model_.confusion[(a * classes_ + c) * classes_ + v];
        }
      }
    }
  }

  void AddTo(ExpectedCounts& counts, std::size_t item) const {
    const bool known = !problem_.known.empty() && problem_.known[item] != kUnlabeled;
    if (votes_.first[item + 1] - votes_.first[item] < (known ? 1 : 2)) return;
    const std::span<const double> row = posterior_.row(item);
    for (std::size_t k = votes_.first[item]; k < votes_.first[item + 1]; ++k) {
      double* const cell = counts.answers.data() + votes_.column[k] * classes_;
      for (std::size_t c = 0; c < classes_; ++c) cell[c] += row[c];
    }
    for (std::size_t c = 0; c < classes_; ++c) counts.items[c] += row[c];
  }

  /// Blocks depend on the number of items only, and their sums are added in order.
  template <typename PerItem>
  ExpectedCounts Count(const PerItem& per_item) {
    std::vector<ExpectedCounts> parts(blocks_, ExpectedCounts(problem_.annotators, classes_));
    ForBlocks([&](std::size_t block, std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        per_item(i);
        AddTo(parts[block], i);
      }
    });
    for (std::size_t b = 1; b < parts.size(); ++b) {
      for (std::size_t k = 0; k < parts[0].answers.size(); ++k) parts[0].answers[k] += parts[b].answers[k];
      for (std::size_t c = 0; c < classes_; ++c) parts[0].items[c] += parts[b].items[c];
    }
    return std::move(parts[0]);
  }

  ExpectedCounts CountAll() {
    return Count([](std::size_t) {});
  }

  ExpectedCounts Expect() {
    FillTable();
    return Count([&](std::size_t i) {
      const std::span<double> row = posterior_.row(i);
      if (FixKnown(i, row)) return;
      FillPrior(i, row);
      for (std::size_t k = votes_.first[i]; k < votes_.first[i + 1]; ++k) {
        const double* const likelihood = table_.data() + votes_.column[k] * classes_;
        for (std::size_t c = 0; c < classes_; ++c) row[c] *= likelihood[c];
        if ((k - votes_.first[i]) % 16 == 15) KeepFromUnderflow(row);
      }
      KeepFromUnderflow(row);
      Normalize(row);
    });
  }

  void Maximize(const ExpectedCounts& counts) {
    const ConsensusPrior& prior = problem_.prior;
    for (std::size_t c = 0; c < classes_; ++c) model_.priors[c] = counts.items[c] + prior.class_items;
    Normalize(model_.priors);
    // Expected right answers, per annotator and of all.
    std::vector<double> right(problem_.annotators, 0.0), total(problem_.annotators, 0.0);
    for (std::size_t a = 0; a < problem_.annotators; ++a) {
      for (std::size_t v = 0; v < classes_; ++v) {
        const double* const cell = counts.answers.data() + (a * classes_ + v) * classes_;
        right[a] += cell[v];
        for (std::size_t c = 0; c < classes_; ++c) total[a] += cell[c];
      }
    }
    const double all = std::accumulate(total.begin(), total.end(), 0.0);
    model_.crowd_accuracy = (std::accumulate(right.begin(), right.end(), 0.0) + prior.accuracy * prior.crowd_votes) /
                            (all + prior.crowd_votes);
    const double others = 1 / static_cast<double>(classes_ - 1);
    for (std::size_t a = 0; a < problem_.annotators; ++a) {
      const double accuracy =
          (right[a] + prior.annotator_votes * model_.crowd_accuracy) / (total[a] + prior.annotator_votes);
      model_.accuracy[a] = accuracy;
      for (std::size_t c = 0; c < classes_; ++c) {
        const std::span<double> row(model_.confusion.data() + (a * classes_ + c) * classes_, classes_);
        for (std::size_t v = 0; v < classes_; ++v) {
          row[v] = counts.answers[(a * classes_ + v) * classes_ + c] +
                   prior.row_votes * (v == c ? accuracy : (1 - accuracy) * others);
        }
        for (double& value : row) value = std::max(value, kLeastLikelihood);
        Normalize(row);
      }
    }
  }

  /// The largest change of a class prior, the mean change of the accuracies, and that of the confusion matrices: among
  /// many thousands of entries, the few that rest on a handful of votes take long to settle.
  double Change(const AnnotatorModel& before) const {
    const auto mean_change = [](std::span<const double> now, std::span<const double> then) {
      double sum = 0;
      for (std::size_t k = 0; k < now.size(); ++k) sum += std::abs(now[k] - then[k]);
      return now.empty() ? 0 : sum / static_cast<double>(now.size());
    };
    double change =
        std::max(mean_change(model_.accuracy, before.accuracy), mean_change(model_.confusion, before.confusion));
    for (std::size_t c = 0; c < classes_; ++c) change = std::max(change, std::abs(model_.priors[c] - before.priors[c]));
    return change;
  }

  const ConsensusProblem& problem_;
  const VotesByItem votes_;
  const std::size_t classes_;
  std::size_t blocks_ = 1;
  Matrix<double> posterior_;
  AnnotatorModel model_;
  std::vector<double> table_;
};

}  // namespace

AnnotatorModel PriorModel(std::size_t classes, const ConsensusPrior& prior) {
  AnnotatorModel model;
  model.classes = classes;
  model.priors.assign(classes, 1 / static_cast<double>(classes));
  model.crowd_accuracy = prior.accuracy;
  return model;
}

Consensus EstimateConsensus(const ConsensusProblem& problem, const AnnotatorModel* start,
                            const ConsensusLimits& limits) {
  return Estimator(problem, start).Run(limits);
}

double ExpectedInformation(const AnnotatorModel& model, std::size_t annotator, std::span<const double> belief) {
  std::vector<double> after(belief.size());
  double left = 0;
  for (std::size_t answer = 0; answer < belief.size(); ++answer) {
    double chance = 0;
    for (std::size_t c = 0; c < belief.size(); ++c) {
      chance += after[c] = belief[c] * model.Likelihood(annotator, c, answer);
    }
    if (chance <= 0) continue;
    for (double& value : after) value /= chance;
    left += chance * Entropy(after);
  }
  return std::max(Entropy(belief) - left, 0.0);
}

std::vector<double> ItemPosterior(const AnnotatorModel& model, std::span<const ItemVote> votes,
                                  const ClassifierVoice& voice) {
  std::vector<double> posterior = model.priors;
  AddVoice(voice, posterior);
  for (const ItemVote& vote : votes) {
    for (std::size_t c = 0; c < model.classes; ++c) posterior[c] *= model.Likelihood(vote.annotator, c, vote.value);
    KeepFromUnderflow(posterior);
  }
  Normalize(posterior);
  return posterior;
}

}  // namespace fulcrum::consensus
