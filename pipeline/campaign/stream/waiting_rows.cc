#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/builder.h"
#include "arrow/table.h"
#include "pipeline/campaign/model/campaign_models.h"
#include "pipeline/campaign/stream/campaign_stream.h"
#include "pipeline/round/round.h"
#include "stages/core/files.h"
#include "stages/core/matrix.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/table_writer.h"
#include "storage/rules/label_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostOfferedNumbers = 1 << 22;  // features of a request

std::string ContentOf(const OfferRequest& request) {
  Checksum sum;
  const auto add = [&](const std::string& bytes) {
    sum.Add(absl::StrCat(bytes.size(), ":"));
    sum.Add(bytes);
  };
  for (const v1::OfferedItem& item : request.items) add(item.SerializeAsString());
  for (const std::string& name : request.feature_names) add(name);
  return sum.ToText();
}

absl::Status CheckOffer(const CampaignPool& pool, const OfferRequest& request) {
  if (pool.ids().are_row_numbers()) {
    return absl::FailedPreconditionError(
        "the examples of this campaign are known by their row numbers; rows of a stream need a pool with ids");
  }
  if (pool.sparse() || pool.feature_names().empty()) {
    return absl::FailedPreconditionError("the features of this pool are sparse; rows of a stream need dense ones");
  }
  const auto rows = static_cast<std::size_t>(request.items.size());
  const std::size_t most = std::min(kMostOfferedRows, kMostOfferedNumbers / pool.features().dims());
  if (rows < 1 || rows > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request has ", rows, " rows; it must be 1 to ", most, " of them at a time"));
  }
  for (int i = 0; i < request.items.size(); ++i) {
    const absl::Status named = storage::CheckText("item_id", request.items[i].item_id());
    if (!named.ok()) return absl::Status(named.code(), absl::StrCat("items[", i, "]: ", named.message()));
  }
  return storage::CheckText("name of who offers", request.by);
}

/// Values that no round could compute with must not get into the pool.
absl::Status CheckOfferedKernels(const CampaignPlan& plan, const kernel::Features& features) {
  RowList all(features.rows());
  std::iota(all.begin(), all.end(), RowIndex{0});
  const absl::Status kernels = CheckKernels(plan.round, features, all);
  for (const RowIndex row : all) {
    if (kernels.ok() || CheckKernels(plan.round, features, {&row, 1}).ok()) continue;
    return absl::Status(kernels.code(), absl::StrCat("items[", row, "]: ", kernels.message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OfferedRows> ReadOfferRequest(const CampaignPlan& plan, const CampaignPool& pool,
                                             const OfferRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckOffer(pool, request));
  OfferedRows offered{.content = ContentOf(request)};
  FULCRUM_ASSIGN_OR_RETURN(const FeatureRows reader, FeatureRows::Make(pool, request.feature_names));
  Matrix<double> values(static_cast<std::size_t>(request.items.size()), pool.features().dims());
  for (std::size_t i = 0; i < values.rows(); ++i) {
    const v1::OfferedItem& item = request.items[static_cast<int>(i)];
    FULCRUM_RETURN_IF_ERROR(reader.Read(item.features(), absl::StrCat("items[", i, "]"), values.row(i)));
    OfferedRow& row = offered.rows.emplace_back();
    row = {.id = item.item_id(), .payload = item.payload(), .cost = item.cost()};
    row.features.assign(values.row(i).begin(), values.row(i).end());
  }
  FULCRUM_ASSIGN_OR_RETURN(offered.features, pool.PrepareRows(ingest::PoolFeatures(std::move(values))));
  FULCRUM_RETURN_IF_ERROR(CheckOfferedKernels(plan, *offered.features));
  return offered;
}

namespace {

/// A name that no feature has.
std::string FreeName(std::string name, const std::vector<std::string>& features) {
  while (std::ranges::find(features, name) != features.end()) name.push_back('_');
  return name;
}

template <typename Builder, typename ValueOf>
arrow::Result<std::shared_ptr<arrow::Array>> ColumnOf(const std::vector<const OfferedRow*>& rows, ValueOf value_of) {
  Builder builder;
  ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<std::int64_t>(rows.size())));
  for (const OfferedRow* const row : rows) ARROW_RETURN_NOT_OK(builder.Append(value_of(*row)));
  return builder.Finish();
}

arrow::Result<std::shared_ptr<arrow::Table>> TableOf(const ingest::ColumnOptions& names,
                                                     const std::vector<std::string>& features,
                                                     const std::vector<const OfferedRow*>& rows) {
  std::vector<std::shared_ptr<arrow::Field>> fields = {arrow::field(names.id, arrow::utf8())};
  std::vector<std::shared_ptr<arrow::Array>> columns(1);
  ARROW_ASSIGN_OR_RAISE(columns[0], (ColumnOf<arrow::StringBuilder>(rows, [](const auto& row) { return row.id; })));
  if (!names.payload.empty()) {
    fields.push_back(arrow::field(names.payload, arrow::binary()));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(),
                          (ColumnOf<arrow::BinaryBuilder>(rows, [](const auto& row) { return row.payload; })));
  }
  if (!names.cost.empty()) {
    fields.push_back(arrow::field(names.cost, arrow::float64()));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(),
                          (ColumnOf<arrow::DoubleBuilder>(rows, [](const auto& row) { return row.cost; })));
  }
  for (std::size_t feature = 0; feature < features.size(); ++feature) {
    fields.push_back(arrow::field(features[feature], arrow::float32()));
    ARROW_ASSIGN_OR_RAISE(
        columns.emplace_back(),
        (ColumnOf<arrow::FloatBuilder>(rows, [feature](const auto& row) { return row.features[feature]; })));
  }
  return arrow::Table::Make(arrow::schema(std::move(fields)), columns);
}

}  // namespace

absl::StatusOr<OfferedTable> MakeOfferedTable(const CampaignPool& pool, const std::vector<const OfferedRow*>& rows) {
  OfferedTable made{.columns = pool.columns()};
  made.columns.ignored.clear();
  const std::vector<std::string>& features = pool.feature_names();
  if (made.columns.id.empty()) made.columns.id = "id";
  const bool payloads = std::ranges::any_of(rows, [](const auto* row) { return !row->payload.empty(); });
  if (payloads && made.columns.payload.empty()) made.columns.payload = FreeName("payload", features);
  const bool costs = std::ranges::any_of(rows, [](const auto* row) { return row->cost != 0; });
  if (costs && made.columns.cost.empty()) made.columns.cost = FreeName("cost", features);
  // The column of labels, which rows of a stream do not have.
  made.columns.roles_may_be_missing = true;
  FULCRUM_ASSIGN_OR_RETURN(const auto table,
                           ingest::FromArrow(TableOf(made.columns, features, rows), "preparing rows of a stream"));
  FULCRUM_ASSIGN_OR_RETURN(made.bytes, ingest::SerializeTable(ingest::TableFormat::kIpcStream, *table));
  return made;
}

namespace {

std::size_t BytesOf(const OfferedRow& row) {
  return sizeof(OfferedRow) + 2 * row.id.size() + row.payload.size() + row.features.size() * sizeof(float);
}

}  // namespace

void WaitingRows::Add(const OfferedRow& row, std::int64_t sequence) {
  const std::scoped_lock lock(mutex_);
  if (!rows_.emplace(row.id, Waiting{row, sequence, ++last_number_}).second) return;
  bytes_ += BytesOf(row);
  if (sequence == kNotCommitted) uncommitted_.push_back(row.id);
}

void WaitingRows::Commit(std::int64_t sequence) {
  const std::scoped_lock lock(mutex_);
  for (const std::string& id : uncommitted_) rows_.at(id).sequence = sequence;
  uncommitted_.clear();
  committed_ = sequence;
}

void WaitingRows::ForgetUncommitted() {
  const std::scoped_lock lock(mutex_);
  for (const std::string& id : uncommitted_) {
    const auto found = rows_.find(id);
    bytes_ -= BytesOf(found->second.row);
    rows_.erase(found);
  }
  uncommitted_.clear();
}

bool WaitingRows::Has(absl::string_view item) const {
  const std::scoped_lock lock(mutex_);
  return rows_.contains(item);
}

std::optional<std::string> WaitingRows::PayloadOf(absl::string_view item) const {
  const std::scoped_lock lock(mutex_);
  const auto found = rows_.find(item);
  if (found == rows_.end()) return std::nullopt;
  return found->second.row.payload;
}

std::optional<std::size_t> WaitingRows::PayloadBytes(absl::string_view item) const {
  const std::scoped_lock lock(mutex_);
  const auto found = rows_.find(item);
  if (found == rows_.end()) return std::nullopt;
  return found->second.row.payload.size();
}

std::size_t WaitingRows::size() const {
  const std::scoped_lock lock(mutex_);
  return rows_.size();
}

std::size_t WaitingRows::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

absl::Status WaitingRows::Store(const GrowingPool& pool, PoolAppender& appender) {
  const std::scoped_lock one_at_a_time(storing_);
  std::vector<const Waiting*> waiting;
  std::int64_t through = 0;
  {
    const std::scoped_lock lock(mutex_);
    through = committed_;
    for (const auto& [id, row] : rows_) {
      if (row.sequence <= through) waiting.push_back(&row);
    }
  }
  if (waiting.empty()) return absl::OkStatus();
  std::ranges::sort(waiting, {}, &Waiting::number);
  std::vector<const OfferedRow*> rows;
  for (const Waiting* const entry : waiting) rows.push_back(&entry->row);
  FULCRUM_ASSIGN_OR_RETURN(const auto upload, appender.BeginUpload());
  FULCRUM_ASSIGN_OR_RETURN(const OfferedTable table, MakeOfferedTable(*pool.now(), rows));
  FULCRUM_RETURN_IF_ERROR(upload->Add(table.bytes));
  FULCRUM_RETURN_IF_ERROR(upload->Finish());
  FULCRUM_RETURN_IF_ERROR(appender.StoreOffered(upload->file(), table.columns, through));
  // The pool has them now; every row is found in one of the two places.
  const std::scoped_lock lock(mutex_);
  for (const Waiting* const entry : waiting) {
    bytes_ -= BytesOf(entry->row);
    rows_.erase(rows_.find(entry->row.id));
  }
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
