#include "stages/select/shortlist.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stages/core/parallel.h"

namespace fulcrum::select {
namespace {

// Two megabytes of features at 64 floats each: a thread's part of a matrix-vector product.
constexpr std::size_t kMembersPerBlock = 8192;

RowList RowsOf(const std::vector<Shortlist::Member>& members) {
  RowList rows;
  rows.reserve(members.size());
  for (const Shortlist::Member& member : members) rows.push_back(member.row);
  return rows;
}

}  // namespace

Shortlist::Shortlist(const kernel::KernelFunction& kernel, const kernel::Features& features,
                     std::vector<Member> members, double factor)
    : members_(std::move(members)),
      open_(members_.size(), 1),
      factor_(factor),
      columns_(kernel, features, RowsOf(members_)) {
  FindBest(std::nullopt);
}

double Shortlist::GainOf(const Member& member) const {
  return std::fma(-factor_, member.similarity, member.score + 1);
}

bool Shortlist::IsBetter(const Best& a, const Best& b) const {
  return a.gain != b.gain ? a.gain > b.gain : members_[a.index].row < members_[b.index].row;
}

std::optional<Shortlist::Best> Shortlist::SeeAndFindBest(std::size_t first, std::size_t count,
                                                         std::optional<RowIndex> chosen) {
  std::vector<float> similarity(chosen ? count : 0);
  if (chosen) columns_.WriteRow(*chosen, first, similarity);
  std::optional<Best> best;
  for (std::size_t i = 0; i < count; ++i) {
    Member& member = members_[first + i];
    if (chosen) member.similarity += static_cast<double>(std::max(similarity[i], 0.0F));
    if (!open_[first + i]) continue;
    const Best candidate{first + i, GainOf(member)};
    if (!best || IsBetter(candidate, *best)) best = candidate;
  }
  return best;
}

void Shortlist::FindBest(std::optional<RowIndex> chosen) {
  std::vector<std::optional<Best>> best_of_block(members_.size() / kMembersPerBlock + 1);
  ParallelForBlocks(members_.size(), kMembersPerBlock, [&](std::size_t first, std::size_t count) {
    best_of_block[first / kMembersPerBlock] = SeeAndFindBest(first, count, chosen);
  });
  best_ = std::nullopt;
  for (const std::optional<Best>& candidate : best_of_block) {
    if (candidate && (!best_ || IsBetter(*candidate, *best_))) best_ = candidate;
  }
}

void Shortlist::Choose() {
  open_[best_->index] = 0;
  FindBest(members_[best_->index].row);
}

}  // namespace fulcrum::select
