// A campaign whose annotators differ, for tests of rules.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "storage/campaign_reader.h"
#include "storage/rules/annotator_rules.h"
#include "storage/state/campaign_state.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {

class CrowdStoreTest : public StoreTest {
 protected:
  static CampaignSettings Adaptive() {
    CampaignSettings settings = Settings();
    settings.consensus = CampaignSettings::Consensus::kDawidSkene;
    settings.classes = {"cat", "dog"};
    settings.confidence = 0.95;
    settings.most_votes = 5;
    return settings;
  }

  static std::string TruthOf(const std::string& item) { return item.back() % 2 == 0 ? "cat" : "dog"; }

  /// Every annotator asks for tasks until there are none; `accuracy` by annotator. Wrong answers are the other class.
  void AnswerAll(const std::map<std::string, double>& accuracy, Random& random) {
    for (bool any = true; any;) {
      any = false;
      for (const auto& [name, share] : accuracy) {
        const auto answer = Acquire(name);
        if (!answer.ok() || answer->leases.empty()) continue;
        any = true;
        const std::string truth = TruthOf(answer->leases[0].item);
        const bool right = random.Uniform() < share;
        const auto submitted = Submit(name, answer->leases[0], right ? truth : truth == "cat" ? "dog" : "cat");
        ASSERT_TRUE(submitted.ok()) << submitted.status();
      }
    }
  }

  std::vector<std::string> Items(const std::string& prefix, int count) {
    std::vector<std::string> items;
    for (int i = 0; i < count; ++i) items.push_back(absl::StrCat(prefix, i));
    return items;
  }

  /// The state from the log alone.
  CampaignState Replayed() {
    auto reader = CampaignReader::Open(Folder());
    EXPECT_TRUE(reader.ok()) << reader.status();
    CampaignState state;
    EXPECT_TRUE((*reader)->VisitEvents(1, kEndOfLog, [&](const Event& event) { return state.Apply(event); }).ok());
    return state;
  }
};

}  // namespace fulcrum::storage
