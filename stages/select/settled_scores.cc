#include "stages/select/settled_scores.h"

#include <numeric>
#include <utility>

namespace fulcrum::select {
namespace {

// Asking for some at a time costs more than asking for all at once.
constexpr std::size_t kMostAskedOneOf = 3;

}  // namespace

SettledScores::SettledScores(std::span<const double> scores, double slack, ExactScores exact)
    : at_most_(scores.begin(), scores.end()), exact_(std::move(exact)) {
  if (!(slack > 0)) return;
  settled_.assign(scores.size(), 0);
  for (double& score : at_most_) score += slack;
}

bool SettledScores::Settle(std::span<const std::size_t> positions) {
  if (settled_.empty()) return false;
  std::vector<std::size_t> open;
  for (const std::size_t position : positions) {
    if (!settled_[position]) open.push_back(position);
  }
  if (open.empty()) return false;
  if ((settled_count_ + open.size()) * kMostAskedOneOf > at_most_.size()) {
    open.resize(at_most_.size());
    std::iota(open.begin(), open.end(), std::size_t{0});
  }
  Ask(open);
  return true;
}

void SettledScores::Ask(std::span<const std::size_t> positions) {
  const std::vector<double> scores = exact_(positions);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    at_most_[positions[i]] = scores[i];
    settled_[positions[i]] = 1;
  }
  settled_count_ += positions.size();
  if (positions.size() == at_most_.size()) settled_.clear();
}

}  // namespace fulcrum::select
