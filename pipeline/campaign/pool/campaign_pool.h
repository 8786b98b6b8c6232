// A campaign's examples, with the validation set if there is one: from the campaign's own folder, in memory, or left on
// the disk if they are large compared with the machine's memory. They are normalised as the campaign's plan says, or
// kept as they are in the files if the classifier is tuned: then a round asks for the normalisation that was chosen.
//
// Immutable and thread-safe: a pool that grows is a new one, and rounds that began with the old one keep it. What rows
// that come later are normalised with was learned from the rows that were there first, so that those never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/upload_store.h"
#include "pipeline/round/pool_source.h"
#include "pipeline/round/tuning.h"
#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/columns/row_ids.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"
#include "storage/campaign_folder.h"
#include "storage/pool/mapped_pool.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::pipeline {

class CampaignPool final : public FeatureSource {
 public:
  /// Opens what ImportOwnPool has put into the folder. Rows that would take more than an eighth of `memory_bytes` stay
  /// on the disk.
  static absl::StatusOr<std::shared_ptr<const CampaignPool>> Load(const CampaignPlan& plan,
                                                                  const storage::CampaignFolder& folder,
                                                                  std::size_t memory_bytes);

  /// This pool with the rows of an imported one behind its own. InvalidArgument if they do not fit.
  absl::StatusOr<std::shared_ptr<const CampaignPool>> With(const std::string& folder) const;

  const ingest::RowIds& ids() const { return ids_; }
  const kernel::Features& features() const { return *features_; }
  std::size_t rows() const override { return features_->rows(); }
  /// Memory that features and payloads take.
  std::size_t bytes() const;
  /// Of dense features, in order; empty for sparse ones.
  const std::vector<std::string>& feature_names() const { return feature_names_; }
  bool sparse() const { return sparse_; }
  /// What a person needs to see of an example; empty if the pool has nothing to show.
  std::string PayloadOf(const std::string& item) const;
  /// At most `most` bytes of it, from `first` on.
  std::string PayloadPart(const std::string& item, std::size_t first, std::size_t most) const;
  std::size_t PayloadBytes(const std::string& item) const;
  /// Of one label.
  bool has_costs() const;
  double CostOf(RowIndex row) const;
  /// Folders that were opened to read rows, by path.
  using OpenFolders = std::map<std::string, storage::MappedPool>;
  /// The fingerprint of what a row has besides its id; nothing for an id that the pool does not have. Only of pools
  /// with ids; reads the row from its file, which stays in `opened`.
  absl::StatusOr<std::optional<std::uint64_t>> ContentOf(absl::string_view id, OpenFolders& opened) const;

  /// Imported pools that its rows are from, in order: the campaign's first, and what was appended to it.
  const std::vector<std::string>& folders() const { return folders_; }
  /// What the columns of a table mean whose rows are to join it.
  const ingest::ColumnOptions& columns() const { return columns_; }

  /// InvalidArgument, with names, unless these are the features of the pool in their order. Not for sparse pools.
  absl::Status CheckFeatures(const std::vector<std::string>& names) const;
  /// Where each feature of the pool is among columns with these names. InvalidArgument, with names, if some are missing
  /// or are no features of the pool. Not for sparse pools.
  absl::StatusOr<std::vector<std::size_t>> MatchFeatures(const std::vector<std::string>& names) const;
  /// Rows as they stand in files, prepared as the pool's own were; they need as many features.
  absl::StatusOr<std::unique_ptr<kernel::Features>> PrepareRows(ingest::PoolFeatures rows) const;
  /// A row of the pool with all its zeros, prepared.
  void CopyRow(RowIndex row, std::span<double> to) const;
  /// What prepares rows, unless the classifier is tuned.
  const ingest::Normalizer& normalizer() const { return *normalizer_; }
  /// Prepares dense rows in place; they must have as many columns as the pool.
  void Normalize(MutableMatrixView rows) const { normalizer_->Apply(rows); }

  // For tuned classifiers, whose pool is kept as it is in the files.
  std::size_t learned_rows() const override { return learned_rows_; }
  absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const override;
  absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(const std::string& normalize) const override;
  absl::StatusOr<PreparedFeatures> Prepare(const std::string& normalize) const override;

  /// Share of the validation set that the model predicts right; nothing without a validation set. `support` are the
  /// features that the model was trained on, `normalize` how they were normalised if it was tuned, otherwise empty.
  absl::StatusOr<std::optional<double>> Accuracy(const classify::SvmModel& model, const kernel::Features& support,
                                                 const std::string& normalize) const;

 private:
  struct ValidationSet {
    std::unique_ptr<kernel::Features> features;
    std::vector<ClassIndex> labels;
  };

  /// What rounds and predictions asked for so far.
  struct NormalizerCache {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const ingest::Normalizer>> by_normalization;  // guarded by mutex
  };

  CampaignPool() = default;
  /// The rows of one folder, without their features. Shared by all pools that have them.
  struct Part {
    std::string folder = {};
    std::size_t first_row = 0;
    std::vector<std::string> payloads = {};  ///< empty if they are on the disk, or there are none
    std::size_t payload_bytes = 0;           ///< that those take
    std::vector<double> costs = {};
    std::optional<storage::MappedPool> mapped = {};  ///< if its rows are on the disk
  };
  /// The part that has a row.
  const Part& PartOf(RowIndex row) const;
  void AddPart(Part part, std::size_t first_row);
  void DescribeColumns(const CampaignPlan& plan, const storage::PoolShape& shape);
  /// False if the rows should be in memory.
  absl::StatusOr<bool> MapRows(const CampaignPlan& plan, std::size_t memory_bytes);
  absl::Status LoadRows(const CampaignPlan& plan, const storage::MappedPool& imported);
  absl::Status LoadValidation(const CampaignPlan& plan, const storage::CampaignFolder& folder);
  /// Takes the rows of both.
  absl::Status JoinLoaded(const CampaignPool& first, const storage::MappedPool& more);
  absl::Status JoinMapped(const CampaignPool& first, const storage::MappedPool& more);

  std::vector<std::string> folders_;
  ingest::ColumnOptions columns_;
  ingest::RowIds ids_;
  std::vector<std::string> feature_names_;
  std::vector<std::shared_ptr<const Part>> parts_;  // by folder
  bool has_payloads_ = false;                       // some part has
  std::shared_ptr<const ingest::Normalizer> normalizer_;
  bool sparse_ = false;
  bool tuned_ = false;
  std::size_t learned_rows_ = 0;  // those of the first folder
  std::shared_ptr<NormalizerCache> tuned_normalizers_ = std::make_shared<NormalizerCache>();  // shared with grown pools
  std::unique_ptr<kernel::Features> features_;
  const storage::MappedFeatures* mapped_ = nullptr;  // features_, if they and the payloads are on the disk
  std::shared_ptr<const ValidationSet> validation_;
};

// A campaign's pool as its log says that it is: the sources, and the rows that were appended.
//
// Growing makes a new pool; holders of the old one keep it. Thread-safe.

class GrowingPool {
 public:
  explicit GrowingPool(std::shared_ptr<const CampaignPool> pool) : pool_(std::move(pool)) {}

  std::shared_ptr<const CampaignPool> now() const;

  /// The pool with all that was appended, in order. What is missing is read from the campaign's folder, or taken from
  /// `prepared`, which is the pool with one folder more. DataLoss if a folder is not what it was.
  absl::StatusOr<std::shared_ptr<const CampaignPool>> Follow(const std::vector<storage::AppendedRows>& appended,
                                                             const storage::CampaignFolder& folder,
                                                             std::shared_ptr<const CampaignPool> prepared = nullptr);

 private:
  mutable std::mutex mutex_;
  std::mutex growing_;  // one at a time, without keeping readers waiting
  std::shared_ptr<const CampaignPool> pool_;
};

// A campaign's own copy of its pool and of its validation set, made once, when the campaign is.
//
// From then on the sources are not read: they may change, move or go away. Stateless; one campaign is handled by one
// thread.

/// What the plan says about the columns of its sources.
ingest::ColumnOptions ColumnsOf(const CampaignPlan& plan);

/// InvalidArgument for the first row from `first` on whose id is longer than the log takes. Its number in the message
/// counts from `first`.
absl::Status CheckIdLengths(const ingest::RowIds& ids, std::size_t first);

/// Imports the plan's sources, which are uploads or lie inside the folder of pools, into the campaign's folder, on the
/// disk when it is OK. An existing pool stays as it is; a campaign that was restored without its pool gets it back.
/// InvalidArgument for a source outside of that folder, NotFound for an upload that does not exist, DataLoss for one
/// with a row that cannot be taken, whatever its share: rows without ids are known by their numbers, which must not
/// shift. Cancelled if `control` ends it.
absl::Status ImportOwnPool(const CampaignPlan& plan, const PoolPlaces& places, const storage::CampaignFolder& folder,
                           const ImportControl& control = {});

// A new campaign's folder: its own pool and an empty log, made under another name first.
//
// A process that is killed halfway leaves a folder with a name that no campaign can have, which
// RemoveUnfinishedCampaigns removes. One thread at a time for each folder.

/// Imports the plan's sources and begins the log; on the disk when it is OK. AlreadyExists if the folder exists. An
/// error leaves nothing behind.
absl::Status MakeCampaignFolder(const std::string& folder, const CampaignPlan& plan, const PoolPlaces& places,
                                const ImportControl& control);

/// Removes what a process that was killed while making a campaign left in the folder of campaigns.
void RemoveUnfinishedCampaigns(const std::string& campaigns_folder);

}  // namespace fulcrum::pipeline
