#include "pipeline/experiment/simulated_stream.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

#include "stages/core/random.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// A stream is compared with rows that are known: a tenth of them, and no more than so many.
constexpr std::size_t kMostKnown = 200;
constexpr std::uint64_t kOrderStream = 41;

}  // namespace

SimulatedStream::SimulatedStream(double share, const RunData& data, std::uint64_t seed)
    : share_(share), data_(data), known_(data.start()) {
  RowList rows(data.rows());
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  std::ranges::sort(known_);
  arriving_ = RowsOnlyIn(rows, known_);
  Random random = Random::Fork(seed, kOrderStream);
  random.Shuffle(std::span(arriving_));
  const auto known = static_cast<std::ptrdiff_t>(std::min(kMostKnown, arriving_.size() / 10));
  known_.insert(known_.end(), arriving_.begin(), arriving_.begin() + known);
  arriving_.erase(arriving_.begin(), arriving_.begin() + known);
}

absl::Status SimulatedStream::UseModel(const ClassifierChoice& choice, const classify::SvmModel& model,
                                       std::span<const ClassIndex> labels) {
  if (!features_ || normalized_ != choice.normalize) {
    RowList all(data_.rows());
    std::iota(all.begin(), all.end(), RowIndex{0});
    FULCRUM_ASSIGN_OR_RETURN(ingest::PoolFeatures rows, data_.RawRows(all));
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, data_.NormalizerFor(choice.normalize));
    normalizer->Apply(rows);
    rows.MakeDense();
    features_.emplace(std::move(rows.dense()));
    normalized_ = choice.normalize;
  }
  RowList rows = known_;
  rows.insert(rows.end(), arriving_.begin(), arriving_.begin() + static_cast<std::ptrdiff_t>(arrived_));
  std::ranges::sort(rows);
  FULCRUM_ASSIGN_OR_RETURN(
      auto stream_model,
      stream::StreamModel::Make({.features = *features_, .labels = labels, .classifier = &model, .rows = rows}, {}));
  if (selector_) return selector_->UseModel(std::move(stream_model));
  FULCRUM_ASSIGN_OR_RETURN(stream::StreamSelector selector,
                           stream::StreamSelector::Make(std::move(stream_model), {.budget = {.share = share_}}));
  selector_.emplace(std::move(selector));
  return absl::OkStatus();
}

absl::StatusOr<RowList> SimulatedStream::Next(const ClassifierChoice& choice, const classify::SvmModel& model,
                                              std::span<const ClassIndex> labels, std::size_t count) {
  FULCRUM_RETURN_IF_ERROR(UseModel(choice, model, labels));
  RowList taken;
  while (taken.size() < count && arrived_ < arriving_.size()) {
    const RowIndex row = arriving_[arrived_++];
    FULCRUM_ASSIGN_OR_RETURN(const stream::Decision decision, selector_->Offer(features_->values().row(row), 0));
    if (decision.take) taken.push_back(row);
  }
  return taken;
}

}  // namespace fulcrum::pipeline
