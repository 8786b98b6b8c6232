#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/maintenance/maintenance.h"

namespace fulcrum::storage {
namespace {

class Differences {
 public:
  explicit Differences(std::size_t most) : most_(most) {}

  void Lacks(const char* table, const std::string& row) { Add(table, "lacks", row); }
  void HasTooMuch(const char* table, const std::string& row) { Add(table, "has, but the log does not say so,", row); }
  void Line(std::string line) {
    if (lines_.size() < most_) lines_.push_back(std::move(line));
  }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  void Add(const char* table, const char* what, const std::string& row) {
    Line(absl::StrCat("table ", table, ": ", what, " (", row, ")"));
  }

  const std::size_t most_;
  std::vector<std::string> lines_;
};

void CompareItems(Checkpoint& checkpoint, const CampaignState& state, Differences& differences) {
  std::size_t known = 0;
  checkpoint.VisitItems([&](const StoredItem& stored) {
    const Item* const item = state.items().Find(stored.item.id);
    if (item == nullptr) return differences.HasTooMuch("item", Describe(stored));
    ++known;
    const StoredItem expected = WithLeases(*item, state.leases());
    if (expected == stored) return;
    differences.HasTooMuch("item", Describe(stored));
    differences.Lacks("item", Describe(expected));
  });
  // Keys are unique, so equal numbers mean that no row is missing.
  if (known == state.items().size() || !checkpoint.damage().ok()) return;
  state.items().Visit([&](const Item& item) {
    if (!checkpoint.FindItem(item.id)) differences.Lacks("item", Describe(WithLeases(item, state.leases())));
  });
}

void CompareRounds(Checkpoint& checkpoint, const CampaignState& state, Differences& differences) {
  std::int64_t known = 0;
  checkpoint.VisitRounds([&](const Round& round) {
    const Round* const expected = state.rounds().Find(round.number);
    if (expected != nullptr) ++known;
    if (expected != nullptr && *expected == round) return;
    differences.HasTooMuch("round", Describe(round));
    if (expected != nullptr) differences.Lacks("round", Describe(*expected));
  });
  if (known != state.rounds().count()) {
    differences.Line(absl::StrCat("table round: has ", known, " of ", state.rounds().count(), " rounds"));
  }
}

void CompareModels(Checkpoint& checkpoint, const CampaignState& state, Differences& differences) {
  std::vector<StoredModel> expected;
  state.rounds().VisitModels([&](const StoredModel& model) { expected.push_back(model); });
  std::size_t known = 0;
  checkpoint.VisitModels([&](const StoredModel& model) {
    const bool same = known < expected.size() && expected[known] == model;
    ++known;
    if (!same) differences.HasTooMuch("model", absl::StrCat(model.sequence, ", ", model.round, ", ", model.file));
  });
  if (known < expected.size()) {
    differences.Line(absl::StrCat("table model: has ", known, " of ", expected.size(), " models"));
  }
}

void CompareRequests(Checkpoint& checkpoint, const CampaignState& state, Differences& differences) {
  std::size_t known = 0;
  checkpoint.VisitRequests([&](const KnownRequest& request) {
    if (state.requests().Find(request.key) == request.sequence) {
      ++known;
    } else {
      differences.HasTooMuch("request", absl::StrCat("event ", request.sequence));
    }
  });
  if (known != state.requests().size()) {
    differences.Line(absl::StrCat("table request: has ", known, " of ", state.requests().size(), " requests"));
  }
}

void CompareHistories(Checkpoint& checkpoint, Differences& differences) {
  const auto row = [](const std::string& item, std::int64_t sequence) { return absl::StrCat(item, ", ", sequence); };
  checkpoint.VisitHistoryDifferences(
      [&](const std::string& item, std::int64_t sequence) { differences.Lacks("item_event", row(item, sequence)); },
      [&](const std::string& item, std::int64_t sequence) {
        differences.HasTooMuch("item_event", row(item, sequence));
      });
}

void CompareFigures(const Checkpoint& checkpoint, const CampaignState& state, Differences& differences) {
  for (const auto& [name, value] : ExpectedFigures(state, checkpoint.position())) {
    const auto found = checkpoint.figures().find(name);
    if (found != checkpoint.figures().end() && found->second == value) continue;
    if (found != checkpoint.figures().end()) {
      differences.HasTooMuch("derived", absl::StrCat(name, ", ", found->second));
    }
    differences.Lacks("derived", absl::StrCat(name, ", ", value));
  }
}

}  // namespace

std::vector<std::string> FindDifferences(Checkpoint& checkpoint, const CampaignState& state, std::size_t most) {
  Differences differences(most);
  CompareItems(checkpoint, state, differences);
  CompareRounds(checkpoint, state, differences);
  CompareModels(checkpoint, state, differences);
  CompareRequests(checkpoint, state, differences);
  CompareHistories(checkpoint, differences);
  CompareFigures(checkpoint, state, differences);
  for (const std::string& row : checkpoint.damaged_rows()) differences.Line(row);
  return differences.Take();
}

}  // namespace fulcrum::storage
