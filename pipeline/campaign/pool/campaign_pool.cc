#include "pipeline/campaign/pool/campaign_pool.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "pipeline/round/pool_source.h"
#include "stages/classify/svm_model.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/features.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::pipeline {
namespace {

absl::StatusOr<std::vector<ClassIndex>> ClassesOf(const std::vector<std::string>& labels,
                                                  const std::vector<std::string>& classes) {
  std::vector<ClassIndex> indices;
  indices.reserve(labels.size());
  for (const std::string& label : labels) {
    const auto found = std::find(classes.begin(), classes.end(), label);
    if (found == classes.end()) {
      return absl::DataLossError(absl::StrCat("the validation set has the label '", label,
                                              "', which is not one of the campaign's classes (",
                                              absl::StrJoin(classes, ", "), ")"));
    }
    indices.push_back(static_cast<ClassIndex>(found - classes.begin()));
  }
  return indices;
}

const SparseMatrix& SparseOf(const kernel::Features& features) {
  return features.sparse()->values();
}

ConstMatrixView DenseOf(const kernel::Features& features) {
  return features.in_memory()->values();
}

/// Puts the columns of a matrix into another order.
void InOrder(const std::vector<std::size_t>& columns, Matrix<double>& matrix) {
  std::vector<double> row(matrix.cols());
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    const std::span<double> values = matrix.row(i);
    for (std::size_t column = 0; column < columns.size(); ++column) row[column] = values[columns[column]];
    std::copy(row.begin(), row.end(), values.begin());
  }
}

SparseMatrix Joined(const SparseMatrix& first, const SparseMatrix& second) {
  SparseMatrix joined = first;
  joined.columns.insert(joined.columns.end(), second.columns.begin(), second.columns.end());
  joined.values.insert(joined.values.end(), second.values.begin(), second.values.end());
  for (std::size_t row = 0; row < second.rows(); ++row) {
    joined.offsets.push_back(first.nonzeros() + second.offsets[row + 1]);
  }
  return joined;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CampaignPool>> CampaignPool::Load(const CampaignPlan& plan,
                                                                       const storage::CampaignFolder& folder,
                                                                       std::size_t memory_bytes) {
  std::shared_ptr<CampaignPool> loaded(new CampaignPool());
  loaded->tuned_ = plan.round.tune;
  loaded->folders_ = {folder.imported_pool()};
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool imported, storage::MappedPool::Open(folder.imported_pool()));
  loaded->DescribeColumns(plan, imported.shape());
  FULCRUM_ASSIGN_OR_RETURN(const bool is_mapped, loaded->MapRows(plan, memory_bytes));
  if (!is_mapped) FULCRUM_RETURN_IF_ERROR(loaded->LoadRows(plan, imported));
  loaded->learned_rows_ = loaded->rows();
  if (!plan.validation_sources.empty()) FULCRUM_RETURN_IF_ERROR(loaded->LoadValidation(plan, folder));
  return std::shared_ptr<const CampaignPool>(std::move(loaded));
}

absl::StatusOr<bool> CampaignPool::MapRows(const CampaignPlan& plan, std::size_t memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(auto mapped, MapLargePool(folders_[0], plan.normalize, memory_bytes));
  if (!mapped) return false;
  normalizer_ = std::make_shared<const ingest::Normalizer>(mapped->features->normalizer());
  ids_ = std::move(mapped->ids);
  feature_names_ = std::move(mapped->feature_names);
  mapped_ = mapped->features.get();
  features_ = std::move(mapped->features);
  Part part{.folder = folders_[0]};
  FULCRUM_ASSIGN_OR_RETURN(part.costs, mapped->pool.Costs());
  part.mapped = std::move(mapped->pool);
  AddPart(std::move(part), 0);
  return true;
}

absl::Status CampaignPool::LoadRows(const CampaignPlan& plan, const storage::MappedPool& imported) {
  // Rows that are appended find room behind these.
  const auto spare = static_cast<std::size_t>(imported.rows());
  FULCRUM_ASSIGN_OR_RETURN(ingest::Pool pool, imported.Load(/*keep_labels=*/false, /*keep_payloads=*/true, spare));
  if (tuned_) MakeDenseIfWorthwhile(pool.features);
  FULCRUM_ASSIGN_OR_RETURN(ingest::Normalizer normalizer,
                           ingest::Normalizer::FitInPlace(plan.normalize, pool.features));
  normalizer_ = std::make_shared<const ingest::Normalizer>(std::move(normalizer));
  ids_ = std::move(pool.ids);
  feature_names_ = std::move(pool.feature_names);
  AddPart({.folder = folders_[0], .payloads = std::move(pool.payloads), .costs = std::move(pool.costs)}, 0);
  sparse_ = pool.features.is_sparse();
  features_ = MakeFeatures(std::move(pool.features));
  return absl::OkStatus();
}

void CampaignPool::DescribeColumns(const CampaignPlan& plan, const storage::PoolShape& shape) {
  columns_ = ColumnsOf(plan);
  if (shape.has_cost && columns_.cost.empty()) columns_.cost = "cost";
  if (shape.has_payload && columns_.payload.empty()) columns_.payload = "payload";
}

absl::StatusOr<std::vector<std::size_t>> CampaignPool::MatchFeatures(const std::vector<std::string>& names) const {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!places.emplace(names[i], i).second) {
      return absl::InvalidArgumentError(absl::StrCat("the column '", names[i], "' comes twice"));
    }
  }
  std::vector<std::size_t> columns;
  std::vector<std::string> missing;
  for (const std::string& name : feature_names_) {
    const auto found = places.find(name);
    if (found == places.end()) {
      missing.push_back(name);
    } else {
      columns.push_back(found->second);
      places.erase(found);
    }
  }
  constexpr std::size_t kMostNames = 10;
  const auto list = [](std::vector<std::string> some) {
    const bool more = some.size() > kMostNames;
    if (more) some.resize(kMostNames);
    return absl::StrCat("'", absl::StrJoin(some, "', '"), more ? "', ..." : "'");
  };
  if (!missing.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rows lack ", missing.size(), " of the pool's features: ", list(missing)));
  }
  if (places.empty()) return columns;
  std::vector<std::string> unknown;
  for (const auto& [name, place] : places) unknown.push_back(name);
  return absl::InvalidArgumentError(absl::StrCat("the rows have ", unknown.size(),
                                                 " columns that are not features of the ", "pool: ", list(unknown),
                                                 "; remove them"));
}

absl::Status CampaignPool::CheckFeatures(const std::vector<std::string>& names) const {
  if (names == feature_names_) return absl::OkStatus();
  FULCRUM_RETURN_IF_ERROR(MatchFeatures(names).status());
  const auto [expected, given] = std::mismatch(feature_names_.begin(), feature_names_.end(), names.begin());
  return absl::InvalidArgumentError(
      absl::StrCat("the rows have the features of the pool in another order: feature ", given - names.begin() + 1,
                   " is '", *given, "', and that of the pool is '", *expected, "'; put the columns into its order"));
}

absl::StatusOr<std::unique_ptr<kernel::Features>> CampaignPool::PrepareRows(ingest::PoolFeatures rows) const {
  // Text without the pool's last words is as wide as the pool all the same.
  if (rows.is_sparse() && rows.cols() < features_->dims()) rows.sparse().cols = features_->dims();
  if (rows.cols() != features_->dims()) {
    return absl::InvalidArgumentError(absl::StrCat("the rows have ", rows.cols(), " features and the pool ",
                                                   features_->dims(), "; they must be the same columns"));
  }
  if (sparse_ && !rows.is_sparse()) {
    return absl::InvalidArgumentError("the pool is sparse and the rows are not; give both in the same form");
  }
  if (!sparse_) rows.MakeDense();
  normalizer_->Apply(rows);
  return MakeFeatures(std::move(rows));
}

absl::StatusOr<std::shared_ptr<const CampaignPool>> CampaignPool::With(const std::string& folder) const {
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool more, storage::MappedPool::Open(folder));
  std::shared_ptr<CampaignPool> grown(new CampaignPool());
  grown->folders_ = folders_;
  grown->folders_.push_back(folder);
  grown->columns_ = columns_;
  grown->feature_names_ = feature_names_;
  grown->normalizer_ = normalizer_;
  grown->sparse_ = sparse_;
  grown->tuned_ = tuned_;
  grown->learned_rows_ = learned_rows_;
  grown->tuned_normalizers_ = tuned_normalizers_;
  grown->validation_ = validation_;
  grown->parts_ = parts_;
  grown->has_payloads_ = has_payloads_;
  FULCRUM_RETURN_IF_ERROR(mapped_ == nullptr ? grown->JoinLoaded(*this, more) : grown->JoinMapped(*this, more));
  return std::shared_ptr<const CampaignPool>(std::move(grown));
}

absl::Status CampaignPool::JoinLoaded(const CampaignPool& first, const storage::MappedPool& more) {
  FULCRUM_ASSIGN_OR_RETURN(ingest::Pool rows, more.Load(/*keep_labels=*/false, /*keep_payloads=*/true));
  FULCRUM_ASSIGN_OR_RETURN(const auto features, first.PrepareRows(std::move(rows.features)));
  ids_ = first.ids_.With(rows.ids);
  AddPart({.folder = more.folder(), .payloads = std::move(rows.payloads), .costs = std::move(rows.costs)},
          first.rows());
  if (sparse_) {
    features_ = std::make_unique<kernel::SparseFeatures>(Joined(SparseOf(*first.features_), SparseOf(*features)));
  } else {
    features_ = first.features_->in_memory()->With(DenseOf(*features));
  }
  return absl::OkStatus();
}

absl::Status CampaignPool::JoinMapped(const CampaignPool& first, const storage::MappedPool& more) {
  FULCRUM_RETURN_IF_ERROR(more.Verify());
  FULCRUM_ASSIGN_OR_RETURN(auto features, first.mapped_->With(more));
  mapped_ = features.get();
  features_ = std::move(features);
  FULCRUM_ASSIGN_OR_RETURN(const ingest::RowIds ids, more.Ids());
  ids_ = first.ids_.With(ids);
  Part part{.folder = more.folder(), .mapped = more};
  FULCRUM_ASSIGN_OR_RETURN(part.costs, more.Costs());
  AddPart(std::move(part), first.rows());
  return absl::OkStatus();
}

absl::Status CampaignPool::LoadValidation(const CampaignPlan& plan, const storage::CampaignFolder& folder) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::MappedPool imported, storage::MappedPool::Open(folder.validation_pool()));
  FULCRUM_ASSIGN_OR_RETURN(ingest::Pool pool, imported.Load(/*keep_labels=*/true));
  if (!pool.labels) return absl::DataLossError("the validation set has no column of labels");
  auto set = std::make_shared<ValidationSet>();
  FULCRUM_ASSIGN_OR_RETURN(set->labels, ClassesOf(*pool.labels, plan.classes));
  const auto explained = [](const absl::Status& status) {
    return absl::DataLossError(absl::StrCat("the validation set does not fit: ", status.message()));
  };
  if (!feature_names_.empty() && !pool.features.is_sparse()) {
    const auto columns = MatchFeatures(pool.feature_names);
    if (!columns.ok()) return explained(columns.status());
    InOrder(*columns, pool.features.dense());
  }
  auto features = PrepareRows(std::move(pool.features));
  if (!features.ok()) return explained(features.status());
  set->features = *std::move(features);
  validation_ = std::move(set);
  return absl::OkStatus();
}

std::size_t CampaignPool::bytes() const {
  // A round of a tuned classifier has the rows normalised as well.
  const std::size_t copies = tuned_ && mapped_ == nullptr ? 2 : 1;
  std::size_t bytes = copies * features_->bytes();
  for (const auto& part : parts_) bytes += part->payload_bytes;
  if (validation_ != nullptr) bytes += validation_->features->bytes();
  return bytes;
}

void CampaignPool::AddPart(Part part, std::size_t first_row) {
  part.first_row = first_row;
  part.payload_bytes = part.payloads.size() * sizeof(std::string);
  for (const std::string& payload : part.payloads) part.payload_bytes += payload.size();
  has_payloads_ = has_payloads_ || !part.payloads.empty() || (part.mapped && part.mapped->shape().has_payload);
  parts_.push_back(std::make_shared<const Part>(std::move(part)));
}

const CampaignPool::Part& CampaignPool::PartOf(RowIndex row) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), std::size_t{row},
                                      [](std::size_t wanted, const auto& part) { return wanted < part->first_row; });
  return **(after - 1);
}

bool CampaignPool::has_costs() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return !part->costs.empty(); });
}

double CampaignPool::CostOf(RowIndex row) const {
  const Part& part = PartOf(row);
  return part.costs.empty() ? 0 : part.costs[row - part.first_row];
}

std::string CampaignPool::PayloadOf(const std::string& item) const {
  if (!has_payloads_) return {};
  const auto row = ids_.Find(item);
  if (!row) return {};
  const Part& part = PartOf(*row);
  const std::size_t place = *row - part.first_row;
  if (part.mapped) return part.mapped->PayloadOf(static_cast<std::int64_t>(place)).value_or("");
  return part.payloads.empty() ? std::string() : part.payloads[place];
}

std::string CampaignPool::PayloadPart(const std::string& item, std::size_t first, std::size_t most) const {
  const auto row = has_payloads_ ? ids_.Find(item) : std::nullopt;
  if (!row) return {};
  const Part& part = PartOf(*row);
  const std::size_t place = *row - part.first_row;
  if (part.mapped) return part.mapped->PayloadPart(static_cast<std::int64_t>(place), first, most).value_or("");
  const bool beyond = part.payloads.empty() || first >= part.payloads[place].size();
  return beyond ? std::string() : part.payloads[place].substr(first, most);
}

std::size_t CampaignPool::PayloadBytes(const std::string& item) const {
  // Asked for every task: most pools have nothing to show.
  if (!has_payloads_) return 0;
  const auto row = ids_.Find(item);
  if (!row) return 0;
  const Part& part = PartOf(*row);
  const std::size_t place = *row - part.first_row;
  if (part.mapped) return part.mapped->PayloadBytes(static_cast<std::int64_t>(place)).value_or(0);
  return part.payloads.empty() ? 0 : part.payloads[place].size();
}

absl::StatusOr<std::optional<std::uint64_t>> CampaignPool::ContentOf(absl::string_view id, OpenFolders& opened) const {
  const auto row = ids_.Find(id);
  if (!row) return std::nullopt;
  const Part& part = PartOf(*row);
  const auto place = static_cast<std::int64_t>(*row - part.first_row);
  if (part.mapped) return part.mapped->ContentFingerprint(place);
  auto pool = opened.find(part.folder);
  if (pool == opened.end()) {
    FULCRUM_ASSIGN_OR_RETURN(storage::MappedPool folder, storage::MappedPool::Open(part.folder));
    pool = opened.emplace(part.folder, std::move(folder)).first;
  }
  return pool->second.ContentFingerprint(place);
}

void CampaignPool::CopyRow(RowIndex row, std::span<double> to) const {
  if (mapped_ != nullptr) {
    std::vector<float> values(to.size());
    features_->CopyRows({&row, 1}, MatrixView<float>(values.data(), 1, values.size()));
    std::copy(values.begin(), values.end(), to.begin());
    return;
  }
  if (!sparse_) {
    const std::span<const double> values = DenseOf(*features_).row(row);
    std::copy(values.begin(), values.end(), to.begin());
    return;
  }
  const SparseMatrix& matrix = SparseOf(*features_);
  std::fill(to.begin(), to.end(), 0.0);
  const auto columns = matrix.ColumnsOf(row);
  const auto values = matrix.ValuesOf(row);
  for (std::size_t i = 0; i < columns.size(); ++i) to[static_cast<std::size_t>(columns[i])] = values[i];
}

namespace {

ingest::PoolFeatures CopyOf(const kernel::Features& features, bool sparse) {
  if (sparse) return ingest::PoolFeatures(SparseMatrix(SparseOf(features)));
  return ingest::PoolFeatures(Matrix<double>::CopyOf(DenseOf(features)));
}

}  // namespace

absl::StatusOr<std::optional<double>> CampaignPool::Accuracy(const classify::SvmModel& model,
                                                             const kernel::Features& support,
                                                             const std::string& normalize) const {
  if (validation_ == nullptr) return std::nullopt;
  const kernel::Features* features = validation_->features.get();
  std::unique_ptr<kernel::Features> normalized;
  if (!normalize.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, NormalizerFor(normalize));
    ingest::PoolFeatures copy = CopyOf(*features, sparse_);
    normalizer->Apply(copy);
    normalized = MakeFeatures(std::move(copy));
    features = normalized.get();
  }
  const Matrix<double> decisions = classify::DecisionValues(model, support, *features);
  const std::vector<ClassIndex> predicted = classify::VoteClasses(model, decisions.view());
  std::size_t right = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) right += predicted[i] == validation_->labels[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(predicted.size());
}

absl::StatusOr<ingest::PoolFeatures> CampaignPool::RawRows(std::span<const RowIndex> rows) const {
  if (mapped_ != nullptr) return MappedFeatureSource(*mapped_, *parts_[0]->mapped).RawRows(rows);
  if (sparse_) return ingest::PoolFeatures(CopyRows(SparseOf(*features_), rows));
  return ingest::PoolFeatures(CopyRows(DenseOf(*features_), rows));
}

absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> CampaignPool::NormalizerFor(
    const std::string& normalize) const {
  const std::scoped_lock lock(tuned_normalizers_->mutex);
  std::shared_ptr<const ingest::Normalizer>& known = tuned_normalizers_->by_normalization[normalize];
  if (known != nullptr) return known;
  if (mapped_ != nullptr) {
    FULCRUM_ASSIGN_OR_RETURN(known, MappedFeatureSource(*mapped_, *parts_[0]->mapped).NormalizerFor(normalize));
    return known;
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto steps, ingest::ParseNormalization(normalize));
  absl::StatusOr<ingest::Normalizer> fitted = absl::InternalError("not fitted");
  if (sparse_) {
    RowList first(learned_rows_);
    std::iota(first.begin(), first.end(), RowIndex{0});
    fitted = ingest::Normalizer::Fit(steps, CopyRows(SparseOf(*features_), first));
  } else {
    fitted = ingest::Normalizer::Fit(steps, DenseOf(*features_).Rows(0, learned_rows_));
  }
  FULCRUM_RETURN_IF_ERROR(fitted.status());
  known = std::make_shared<const ingest::Normalizer>(*std::move(fitted));
  return known;
}

absl::StatusOr<PreparedFeatures> CampaignPool::Prepare(const std::string& normalize) const {
  FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, NormalizerFor(normalize));
  std::shared_ptr<const kernel::Features> features;
  if (mapped_ != nullptr) {
    features = mapped_->NormalizedWith(*normalizer);
  } else {
    ingest::PoolFeatures copy = CopyOf(*features_, sparse_);
    normalizer->Apply(copy);
    features = MakeFeatures(std::move(copy));
  }
  return PreparedFeatures{features, features};
}

std::shared_ptr<const CampaignPool> GrowingPool::now() const {
  const std::scoped_lock lock(mutex_);
  return pool_;
}

absl::StatusOr<std::shared_ptr<const CampaignPool>> GrowingPool::Follow(
    const std::vector<storage::AppendedRows>& appended, const storage::CampaignFolder& folder,
    std::shared_ptr<const CampaignPool> prepared) {
  const std::scoped_lock growing(growing_);
  std::shared_ptr<const CampaignPool> pool = now();
  // The first folder is the one that the campaign was made with.
  while (pool->folders().size() < appended.size() + 1) {
    const std::string next = folder.File(appended[pool->folders().size() - 1].folder);
    const bool fits = prepared != nullptr && prepared->folders().size() == pool->folders().size() + 1 &&
                      prepared->folders().back() == next;
    if (fits) {
      pool = std::exchange(prepared, nullptr);
    } else {
      FULCRUM_ASSIGN_OR_RETURN(pool, pool->With(next));
    }
  }
  const std::scoped_lock lock(mutex_);
  pool_ = pool;
  return pool;
}

}  // namespace fulcrum::pipeline
