#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "stages/stream/stream_selector.h"

namespace fulcrum::stream {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastSlack = 1;
constexpr double kSlackShare = 0.005;
// The threshold of a share b is the quantile of so many scores above it.
constexpr double kScoresAbove = 10;
constexpr std::size_t kLeastWindow = 200, kMostWindow = 4000;
// With fewer scores, and fewer than one of them is above the quantile, there is none to speak of.
constexpr std::size_t kFirstScores = 20;
constexpr double kRounding = 1e-9;
constexpr double kGapMemory = 0.01;
constexpr double kLeastShare = 1e-6;

std::size_t WindowFor(const Budget& budget) {
  if (budget.share <= 0) return kMostWindow / 4;
  const double wanted = kScoresAbove / budget.share;
  if (wanted >= static_cast<double>(kMostWindow)) return kMostWindow;
  return std::max(kLeastWindow, static_cast<std::size_t>(wanted));
}

}  // namespace

absl::Status ValidateBudget(const Budget& budget) {
  const bool share = budget.share != 0, rate = budget.per_second != 0;
  if (share == rate)
    return absl::InvalidArgumentError("a budget is a share of the rows, or labels per time: one of the two");
  if (share && !(budget.share > 0 && budget.share <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the share of rows to take is ", budget.share, "; it must be above 0 and at most 1"));
  }
  if (rate && !(budget.per_second > 0 && std::isfinite(budget.per_second))) {
    return absl::InvalidArgumentError("the labels per time must be above 0");
  }
  return absl::OkStatus();
}

BudgetThreshold::BudgetThreshold(const Budget& budget) : budget_(budget), window_size_(WindowFor(budget)) {
  window_.reserve(window_size_);
  sorted_.reserve(window_size_);
}

double BudgetThreshold::Slack() const {
  return std::max(kLeastSlack, kSlackShare * due_);
}

void BudgetThreshold::Accrue(double seconds) {
  ++rows_;
  if (budget_.share > 0) {
    due_ = budget_.share * static_cast<double>(rows_);
    return;
  }
  if (rows_ == 1) latest_ = seconds;
  const double passed = std::max(0.0, seconds - latest_);
  // A clock that was set back starts anew where it is: otherwise nothing would be due until it is where it was.
  latest_ = seconds;
  gap_ = rows_ <= 2 ? passed : gap_ + kGapMemory * (passed - gap_);
  due_ += passed * budget_.per_second;
  due_ = std::min(due_, static_cast<double>(taken_) + Slack());
}

double BudgetThreshold::WantedShare() const {
  const double usual = budget_.share > 0 ? budget_.share : std::clamp(gap_ * budget_.per_second, kLeastShare, 1.0);
  const double balance = (due_ - static_cast<double>(taken_)) / Slack();
  if (balance >= 1) return 1;
  if (balance >= 0) return std::pow(usual, 1 - balance);
  return std::max(0.0, usual * (1 + balance));
}

std::size_t BudgetThreshold::FirstScores() const {
  if (budget_.share <= 0 || 1 / budget_.share >= static_cast<double>(kFirstScores)) return kFirstScores;
  return static_cast<std::size_t>(std::ceil(1 / budget_.share));
}

double BudgetThreshold::ThresholdFor(double share) const {
  if (share >= 1) return -kInfinity;
  // One more label must not lead out of the slack: at most the budget rounded up while that is one label.
  const bool may_take = static_cast<double>(taken_ + 1) < due_ + Slack() - kRounding;
  if (share <= 0 || !may_take || sorted_.size() < FirstScores()) return kInfinity;
  const auto above = static_cast<std::size_t>(share * static_cast<double>(sorted_.size()));
  return sorted_[sorted_.size() - 1 - std::min(above, sorted_.size() - 1)];
}

void BudgetThreshold::Remember(double score) {
  if (window_.size() < window_size_) {
    window_.push_back(score);
  } else {
    double& place = window_[oldest_];
    sorted_.erase(std::ranges::lower_bound(sorted_, place));
    place = score;
    oldest_ = (oldest_ + 1) % window_size_;
  }
  sorted_.insert(std::ranges::upper_bound(sorted_, score), score);
}

BudgetThreshold::Answer BudgetThreshold::Offer(double score, double seconds) {
  Accrue(seconds);
  Answer answer;
  answer.threshold = ThresholdFor(WantedShare());
  answer.take = score >= answer.threshold;
  if (answer.take) ++taken_;
  Remember(score);
  return answer;
}

void BudgetThreshold::Repeat(double score, double seconds, bool taken) {
  Accrue(seconds);
  if (taken) ++taken_;
  Remember(score);
}

void BudgetThreshold::ForgetScores() {
  window_.clear();
  sorted_.clear();
  oldest_ = 0;
}

void BudgetThreshold::Write(classify::ByteWriter& out) const {
  out.Put(budget_.share);
  out.Put(budget_.per_second);
  out.Put(rows_);
  out.Put(taken_);
  for (const double value : {due_, latest_, gap_}) out.Put(value);
  out.Put(static_cast<std::uint64_t>(oldest_));
  out.Put(static_cast<std::uint64_t>(window_.size()));
  out.PutDoubles(window_);
}

absl::Status BudgetThreshold::Read(classify::ByteReader& in) {
  BudgetThreshold read(budget_);
  const auto share = in.Get<double>(), per_second = in.Get<double>();
  if (share != budget_.share || per_second != budget_.per_second) {
    return absl::InvalidArgumentError("the state is that of another budget");
  }
  read.rows_ = in.Get<std::uint64_t>();
  read.taken_ = in.Get<std::uint64_t>();
  for (double* const value : {&read.due_, &read.latest_, &read.gap_}) *value = in.Get<double>();
  const auto oldest = in.Get<std::uint64_t>(), size = in.Get<std::uint64_t>();
  if (size > window_size_ || oldest > size) return absl::InvalidArgumentError("the window of the threshold is damaged");
  read.oldest_ = oldest;
  read.window_.resize(size);
  in.GetDoubles(read.window_);
  if (!in.ok() || std::ranges::any_of(read.window_, [](double score) { return !std::isfinite(score); })) {
    return absl::InvalidArgumentError("the state of the threshold is damaged");
  }
  read.sorted_ = read.window_;
  std::ranges::sort(read.sorted_);
  *this = std::move(read);
  return absl::OkStatus();
}

}  // namespace fulcrum::stream
