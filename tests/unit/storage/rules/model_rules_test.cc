#include "storage/rules/model_rules.h"

#include "storage/campaign_files.h"
#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

constexpr std::chrono::milliseconds kLease{60'000};
constexpr std::int64_t kTaskRows = 3;

class ModelRulesTest : public StoreTest {
 protected:
  void SetUp() override {
    Create();
    ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning}).ok());
  }
  ModelTask Open(std::int64_t rows = kTaskRows) {
    const auto task = store_->Run(OpenModelTask, {.round = store_->status()->round + 1, .rows = rows});
    EXPECT_TRUE(task.ok()) << task.status();
    return task.value_or(ModelTask{});
  }
  absl::StatusOr<AcquireModelAnswer> Acquire(const std::string& process, const std::string& id = "") {
    const std::int64_t task = store_->status()->model_task ? store_->status()->model_task->id : 0;
    return store_->Run(
        AcquireModelTask,
        {.process = process, .request_id = id.empty() ? NewId() : id, .task = task, .lease_time = kLease});
  }
  ModelLeaseRequest Lease(const std::string& process, const AcquireModelAnswer& lease, const std::string& id = "") {
    return {.process = process,
            .request_id = id.empty() ? NewId() : id,
            .lease = lease.lease,
            .epoch = lease.epoch,
            .lease_time = kLease};
  }
  /// Writes predictions and stores them.
  absl::StatusOr<StorePredictionsAnswer> Store(const ModelLeaseRequest& lease, float p = 0.25F,
                                               const ModelFeatures& features = {}) {
    auto writer = PredictionFileWriter::Create(store_->folder(), 1, lease.lease, 2);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (std::int64_t row = 0; row < kTaskRows; ++row) {
      const float values[] = {p, 1 - p};
      EXPECT_TRUE(writer->Add(values).ok());
    }
    EXPECT_TRUE(writer->Finish().ok());
    return store_->Run(StorePredictions, {.lease = lease,
                                          .file = writer->name(),
                                          .checksum = writer->checksum(),
                                          .features_file = features.file,
                                          .features_checksum = features.checksum});
  }
  const ModelTask& Task() const { return *store_->status()->model_task; }
};

TEST_F(ModelRulesTest, ATaskHasOneLeaseAtATimeAndEpochsGrow) {
  const ModelTask task = Open();
  EXPECT_EQ(Open().id, task.id) << "opening it again changes nothing";
  const auto first = Acquire("a", "once");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Acquire("b")->lease, 0);
  EXPECT_EQ(Acquire("a", "once")->lease, first->lease) << "a repeated request gets the same lease";

  EXPECT_EQ(store_->Run(RenewModelLease, Lease("b", *first)).status().code(), absl::StatusCode::kPermissionDenied);
  clock_.Advance(kLease / 2);
  EXPECT_TRUE(store_->Run(RenewModelLease, Lease("a", *first)).ok());
  clock_.Advance(kLease * 3 / 4);
  EXPECT_EQ(Acquire("b")->lease, 0) << "it was renewed";
  clock_.Advance(kLease / 2);
  const auto second = Acquire("b");
  EXPECT_GT(second->lease, 0);
  EXPECT_GT(second->epoch, first->epoch);
  EXPECT_EQ(store_->Run(RenewModelLease, Lease("a", *first)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->Run(ReleaseModelLease, Lease("a", *first)).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(store_->Run(ReleaseModelLease, Lease("b", *second)).ok());
  EXPECT_GT(Acquire("a")->lease, 0);
}

TEST_F(ModelRulesTest, PredictionsAreKeptOverARestartAndByTheCheckpoint) {
  Open();
  const auto lease = Acquire("a");
  const auto stored = Store(Lease("a", *lease, "predictions"));
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_FALSE(stored->late);
  const ModelTask task = Task();
  ASSERT_TRUE(store_->WriteCheckpoint().ok());
  Reopen();
  EXPECT_EQ(Task(), task);
  const auto read = ReadPredictionFile(store_->folder(), task.file, task.checksum);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->rows, 3u);
  EXPECT_EQ(read->row(2)[0], 0.25F);
  const auto repeated = Store(Lease("a", *lease, "predictions"));
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_TRUE(repeated->repeated);
  EXPECT_EQ(repeated->sequence, stored->sequence);
  EXPECT_EQ(Store(Lease("a", *lease, "predictions"), 0.5F).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Store(Lease("a", *lease)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Task().file, task.file);

  store_.reset();
  auto report = CheckCampaign(Folder());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->problems.empty()) << report->problems.front();
}

TEST_F(ModelRulesTest, FeaturesAreThoseOfLaterRoundsUntilOthersCome) {
  Open();
  ModelFeatures first{.round = 1, .rows = kTaskRows};
  {
    const auto lease = Acquire("a");
    auto writer = PredictionFileWriter::Create(store_->folder(), 1, lease->lease, 2, ModelFileKind::kFeatures);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const float rows[] = {1, 2, 3, 4, 5, 6};
    ASSERT_TRUE(writer->Add(rows).ok());
    ASSERT_TRUE(writer->Finish().ok());
    first.file = writer->name();
    first.checksum = writer->checksum();
    const ModelLeaseRequest request = Lease("a", *lease, "features");
    ASSERT_TRUE(Store(request, 0.25F, first).ok());
    EXPECT_TRUE(Store(request, 0.25F, first)->repeated);
    EXPECT_EQ(Store(request, 0.25F).status().code(), absl::StatusCode::kAlreadyExists) << "without the features";
  }
  EXPECT_EQ(Task().features, first);
  EXPECT_TRUE(Task().before.empty()) << "they are not for the round that they came with";
  // The same round again, since the pool has grown: no round used them yet.
  Open(kTaskRows + 1);
  EXPECT_TRUE(Task().features.empty());
  EXPECT_TRUE(Task().before.empty());
}

TEST_F(ModelRulesTest, FeaturesOfAnEarlierRoundAreKeptBackedUpAndChecked) {
  Open();
  const auto lease = Acquire("a");
  auto writer = PredictionFileWriter::Create(store_->folder(), 1, lease->lease, 2, ModelFileKind::kFeatures);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const float rows[] = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(writer->Add(rows).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const ModelFeatures features{1, kTaskRows, writer->name(), writer->checksum()};
  ASSERT_TRUE(Store(Lease("a", *lease), 0.25F, features).ok());
  Batch({"x"});
  LabelNext("w", "v");
  ASSERT_TRUE(store_->Run(AdvanceRound, {.round = 1}).ok());
  Open();
  EXPECT_EQ(Task().before, features);
  ASSERT_TRUE(store_->WriteCheckpoint().ok());
  Reopen();
  EXPECT_EQ(Task().before, features);
  RemoveFeatureFilesBefore(store_->folder(), Task().before.round);
  const auto read = ReadFeatureFile(store_->folder(), features.file, features.checksum);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->rows(), 3u);
  EXPECT_EQ((*read)(2, 1), 6);
  EXPECT_EQ(ReadPredictionFile(store_->folder(), features.file, features.checksum).status().code(),
            absl::StatusCode::kDataLoss)
      << "they are no predictions";

  store_.reset();
  EXPECT_TRUE(CheckCampaign(Folder())->problems.empty());
  ASSERT_TRUE(BackUpCampaign(Folder(), directory_.File("backup")).ok());
  ASSERT_TRUE(RestoreCampaign(directory_.File("backup"), directory_.File("restored")).ok());
  EXPECT_TRUE(ReadFeatureFile(CampaignFolder(directory_.File("restored")), features.file, features.checksum).ok());
  RemoveFeatureFilesBefore(CampaignFolder(Folder()), 2);
  EXPECT_EQ(CheckCampaign(Folder())->problems.size(), 1u);
}

TEST_F(ModelRulesTest, LatePredictionsCountIfNoOthersHaveArrived) {
  Open();
  const auto lost = Acquire("a");
  clock_.Advance(2 * kLease);
  const auto taken = Acquire("b");
  const auto stored = Store(Lease("a", *lost));
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_TRUE(stored->late);
  EXPECT_EQ(Task().process, "a");
  EXPECT_EQ(Store(Lease("b", *taken)).status().code(), absl::StatusCode::kAborted);
}

TEST_F(ModelRulesTest, TheTimeOfATaskRunsFromTheLastStartAndNotWhileTheStoreIsClosed) {
  Open();
  const auto close = [&] {
    return *store_->Run(CloseModelTask, {.round = 1, .timeout = std::chrono::minutes(10), .reason = "too late"});
  };
  clock_.Advance(std::chrono::minutes(9));
  EXPECT_FALSE(close());
  store_.reset();
  clock_.Advance(std::chrono::hours(5));
  Reopen();
  EXPECT_FALSE(close());
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kPaused}).ok());
  clock_.Advance(std::chrono::hours(5));
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning}).ok());
  EXPECT_FALSE(close());
  clock_.Advance(std::chrono::minutes(10));
  EXPECT_TRUE(close());
  EXPECT_EQ(Task().closed, "too late");
  EXPECT_EQ(Acquire("a")->lease, 0);
  EXPECT_EQ(Open().closed, "too late") << "the round does without it";
}

TEST_F(ModelRulesTest, AnAnsweredTaskIsOpenedAgainIfThePoolHasGrown) {
  const ModelTask first = Open();
  const auto lease = Acquire("a");
  ASSERT_TRUE(Store(Lease("a", *lease)).ok());
  EXPECT_EQ(Open().id, first.id);
  const ModelTask second = Open(kTaskRows + 1);
  EXPECT_GT(second.id, first.id);
  EXPECT_TRUE(second.open());
  EXPECT_EQ(store_->Run(FindModelTask, Lease("a", *lease))->has_value(), false);
}

TEST_F(ModelRulesTest, DamagedPredictionsAreFound) {
  Open();
  ASSERT_TRUE(Store(Lease("a", *Acquire("a"))).ok());
  const ModelTask task = Task();
  store_.reset();
  directory_.Write("campaign/" + task.file, "not what it was");
  const CampaignFolder folder(Folder());
  EXPECT_EQ(ReadPredictionFile(folder, task.file, task.checksum).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadPredictionFile(folder, "models/none", "").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(CheckCampaign(Folder())->problems.empty());
}

}  // namespace
}  // namespace fulcrum::storage
