#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/select/select_inputs.h"
#include "pipeline/round/memory_budget.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/normalize.h"

namespace fulcrum::pipeline {

absl::StatusOr<SelectOptions> AgreeOnMemory(const SelectOptions& options, const Communicator& peers) {
  if (peers.is_alone()) return options;
  const absl::StatusOr<std::size_t> own = MemoryOf(options);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, own.status()));
  SelectOptions agreed = options;
  agreed.memory = absl::StrCat(std::ranges::min(ShareValue(peers, *own)));
  if (!options.memory.empty()) return agreed;
  // Names are gathered at the root, which counts them for all.
  std::vector<int> sharing;
  const std::vector<std::string> hosts = peers.Gather(peers.host());
  for (const std::string& host : hosts) sharing.push_back(static_cast<int>(std::ranges::count(hosts, host)));
  BroadcastValues(peers, sharing);
  agreed.processes_here = sharing[static_cast<std::size_t>(peers.rank())];
  return agreed;
}

absl::StatusOr<std::optional<MappedSource>> MapPool(const SelectOptions& options, const Communicator& peers) {
  FULCRUM_ASSIGN_OR_RETURN(
      const auto steps,
      ingest::ParseNormalization(TunesClassifier(options) ? "none" : absl::string_view(options.normalize)));
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t memory, MemoryOf(options));
  if (peers.is_alone()) return MapLargePool(options.pool, steps, memory);
  return MapPoolShare(options.pool, steps, memory, static_cast<std::size_t>(peers.rank()),
                      static_cast<std::size_t>(peers.size()));
}

absl::Status CheckSameInputs(const Communicator& peers, const std::string& fingerprint) {
  std::string of_root = fingerprint;
  peers.Broadcast(of_root);
  absl::Status status;
  if (fingerprint != of_root) {
    const bool same_pool = fingerprint.substr(0, fingerprint.find('-')) == of_root.substr(0, of_root.find('-'));
    status = absl::DataLossError(absl::StrCat(same_pool ? "the labels" : "the pool",
                                              " here and on rank 0 are not the same; use the same files on every "
                                              "machine, or a shared file system"));
  }
  return AgreeOn(peers, status);
}

absl::StatusOr<std::shared_ptr<const TunedSettings>> ChooseTogether(
    const Communicator& peers, const std::function<absl::StatusOr<std::shared_ptr<const TunedSettings>>()>& choose) {
  if (peers.is_alone()) return choose();
  absl::StatusOr<std::shared_ptr<const TunedSettings>> chosen = nullptr;
  if (peers.is_root()) chosen = choose();
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, chosen.status()));
  auto settings = std::make_shared<TunedSettings>(*chosen == nullptr ? TunedSettings() : **chosen);
  peers.Broadcast(settings->chosen.normalize);
  peers.Broadcast(settings->chosen.classifier);
  settings->chosen.kernel = BroadcastValue(peers, settings->chosen.kernel);
  settings->chosen.c = BroadcastValue(peers, settings->chosen.c);
  BroadcastValues(peers, settings->chosen.class_weights);
  settings->leverage_kernel = BroadcastValue(peers, settings->leverage_kernel);
  return settings;
}

namespace {

/// A source for an imported pool of which this process has a share: rows of others are read from the files.
class PoolFeatureSource final : public FeatureSource {
 public:
  explicit PoolFeatureSource(const storage::MappedPool& pool) : pool_(pool) {}
  std::size_t rows() const override { return static_cast<std::size_t>(pool_.rows()); }
  absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const override {
    RowList ascending(rows.begin(), rows.end());
    std::ranges::sort(ascending);
    ascending.erase(std::ranges::unique(ascending).begin(), ascending.end());
    FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> values, RowsOfPool(pool_, ascending));
    RowList places;
    for (const RowIndex row : rows) {
      places.push_back(static_cast<RowIndex>(std::ranges::lower_bound(ascending, row) - ascending.begin()));
    }
    return ingest::PoolFeatures(CopyRows(values.view(), places));
  }
  absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(const std::string& normalize) const override {
    FULCRUM_ASSIGN_OR_RETURN(const auto steps, ingest::ParseNormalization(normalize));
    FULCRUM_ASSIGN_OR_RETURN(ingest::Normalizer normalizer, NormalizerOfPool(pool_, steps));
    return std::make_shared<const ingest::Normalizer>(std::move(normalizer));
  }
  absl::StatusOr<PreparedFeatures> Prepare(const std::string&) const override {
    return absl::UnimplementedError("a process has a share of these rows only");
  }

 private:
  const storage::MappedPool& pool_;
};

}  // namespace

std::unique_ptr<FeatureSource> SourceOfWholePool(const storage::MappedPool& pool) {
  return std::make_unique<PoolFeatureSource>(pool);
}

absl::Status KeepShare(SelectInputs& inputs) {
  const kernel::DenseFeatures* const dense = inputs.features->in_memory();
  if (dense == nullptr) {
    return absl::InvalidArgumentError(
        "the features of the pool are sparse, and only dense pools can be spread over processes\n  what to do: "
        "--normalize zscore makes them dense; or run it in one process");
  }
  inputs.features = std::make_unique<kernel::DenseFeatures>(
      Matrix<double>::CopyOf(dense->values().Rows(inputs.share.first, inputs.share.count)), dense->precision());
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
