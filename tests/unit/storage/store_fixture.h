// A campaign in a folder of the test's own, with a clock that the test moves.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/campaign_store.h"
#include "storage/rules/label_rules.h"
#include "storage/rules/lease_rules.h"
#include "storage/rules/round_rules.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {

class StoreTest : public ::testing::Test {
 protected:
  static CampaignSettings Settings() { return {.lease_time = std::chrono::minutes(10)}; }

  std::string Folder() const { return directory_.File("campaign"); }
  StoreOptions Options() const { return {.clock = &clock_}; }

  void Create(const CampaignSettings& settings = Settings()) {
    auto store = CampaignStore::Create(Folder(), settings, Options());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  /// Closes the store and opens it again.
  void Reopen() {
    store_.reset();
    auto store = CampaignStore::Open(Folder(), Options());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  /// Commits the next round with these items.
  void Batch(const std::vector<std::string>& items, double cost = 0) {
    CommitBatchRequest request{.round = store_->status()->round + 1};
    for (const std::string& item : items) request.items.push_back({item, cost});
    const auto answer = store_->Run(CommitBatch, request);
    ASSERT_TRUE(answer.ok()) << answer.status();
  }

  std::string NewId() { return absl::StrCat("id-", ++ids_); }

  absl::StatusOr<AcquireAnswer> Acquire(const std::string& annotator, std::int64_t most = 1) {
    return store_->Run(AcquireTasks, {.annotator = annotator, .request_id = NewId(), .most = most});
  }

  /// The only lease that this annotator gets; fails the test where there is none.
  GrantedLease Lease(const std::string& annotator) {
    const auto answer = Acquire(annotator);
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok() || answer->leases.size() != 1) {
      ADD_FAILURE() << annotator << " got no task";
      return {};
    }
    return answer->leases.front();
  }

  absl::StatusOr<LabelAnswer> Submit(const std::string& annotator, const GrantedLease& lease,
                                     const std::string& value) {
    return store_->Run(SubmitLabel, {.annotator = annotator,
                                     .request_id = NewId(),
                                     .lease = lease.lease,
                                     .epoch = lease.epoch,
                                     .item = lease.item,
                                     .value = value});
  }

  /// Leases the next task and answers it.
  void LabelNext(const std::string& annotator, const std::string& value) {
    const auto answer = Submit(annotator, Lease(annotator), value);
    ASSERT_TRUE(answer.ok()) << answer.status();
  }

  LeaseRequest Request(const std::string& annotator, const GrantedLease& lease) {
    return {.annotator = annotator, .request_id = NewId(), .lease = lease.lease, .epoch = lease.epoch};
  }

  absl::StatusOr<LabelAnswer> Skip(const std::string& annotator, const GrantedLease& lease, SkipReason reason) {
    return store_->Run(
        SkipTask,
        {.annotator = annotator, .request_id = NewId(), .lease = lease.lease, .epoch = lease.epoch, .reason = reason});
  }

  /// The item as the log has it, replayed by a reader of its own.
  Item ItemNow(const std::string& id);

  testing::TemporaryDirectory directory_;
  testing::ManualClock clock_;
  std::unique_ptr<CampaignStore> store_;
  int ids_ = 0;
};

}  // namespace fulcrum::storage
