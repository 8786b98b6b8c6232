#include "pipeline/campaign/campaign_items.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"
#include "storage/rules/round_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kNearest = 3;
constexpr std::size_t kDistanceBlock = 1024;
// Multiplications for the nearest labeled examples of a batch: a fraction of a second.
constexpr double kMostDistanceWork = 3e8;

/// Among the unlabeled rows of the picks' predicted classes: how many there are, and how many have a higher leverage.
void RankInClass(const RoundResult& result, std::span<const ClassIndex> labels, storage::RoundBatch& batch) {
  const auto& picks = result.selection.picks;
  batch.rank_in_class.assign(picks.size(), 0);
  batch.class_size.assign(picks.size(), 0);
  if (result.leverage.empty() || result.predicted.empty()) return;
  std::map<ClassIndex, std::vector<double>> thresholds;  // ascending, per class
  for (const select::Pick& pick : picks) thresholds[pick.class_index].push_back(pick.leverage);
  std::map<ClassIndex, std::vector<std::int64_t>> above;  // rows between two thresholds
  std::map<ClassIndex, std::int64_t> sizes;
  for (auto& [index, values] : thresholds) {
    std::sort(values.begin(), values.end());
    above[index].assign(values.size() + 1, 0);
  }
  for (std::size_t row = 0; row < result.leverage.size() && row < labels.size(); ++row) {
    const auto found = thresholds.find(result.predicted[row]);
    if (labels[row] != kUnlabeled || found == thresholds.end()) continue;
    ++sizes[found->first];
    const auto place = std::lower_bound(found->second.begin(), found->second.end(), result.leverage[row]);
    ++above[found->first][static_cast<std::size_t>(place - found->second.begin())];
  }
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const std::vector<double>& values = thresholds[picks[i].class_index];
    const auto place = std::upper_bound(values.begin(), values.end(), picks[i].leverage) - values.begin();
    const std::vector<std::int64_t>& counts = above[picks[i].class_index];
    batch.rank_in_class[i] = 1;
    for (auto k = static_cast<std::size_t>(place); k < counts.size(); ++k) batch.rank_in_class[i] += counts[k];
    batch.class_size[i] = sizes[picks[i].class_index];
  }
}

/// 1 at the boundary between two classes, towards 0 far from it; below zero without a model.
double UncertaintyOf(const RoundResult& result, ClassIndex predicted, std::span<const double> decisions) {
  if (!result.model || decisions.empty()) return -1;
  double closest = INFINITY;
  for (std::size_t pair = 0; pair < decisions.size() && pair < result.model->pairs.size(); ++pair) {
    const classify::SvmPair& classes = result.model->pairs[pair];
    if (classes.first != predicted && classes.second != predicted) continue;
    closest = std::min(closest, std::abs(decisions[pair]));
  }
  return 1 - std::tanh(closest);
}

/// 1 if the two most likely classes are equally likely, 0 if one is certain.
double UncertaintyOf(std::span<const float> probabilities) {
  float first = 0, second = 0;
  for (const float p : probabilities) {
    second = std::max(second, std::min(first, p));
    first = std::max(first, p);
  }
  return std::clamp(1.0 - (first - second), 0.0, 1.0);
}

using Near = std::pair<double, RowIndex>;  ///< squared distance and row

/// The nearest of `others` to each row of `picked`, the nearest first.
std::vector<std::vector<Near>> FindNearest(const kernel::Features& features, std::span<const RowIndex> picked,
                                           std::span<const RowIndex> others) {
  std::vector<std::vector<Near>> nearest(picked.size());
  const kernel::PackedRows packed = features.Pack(picked);
  for (std::size_t first = 0; first < others.size(); first += kDistanceBlock) {
    const auto block = others.subspan(first, std::min(kDistanceBlock, others.size() - first));
    Matrix<double> products(picked.size(), block.size());
    kernel::MultiplyRows(packed, 0, features.Pack(block), 0, products.view());
    for (std::size_t i = 0; i < picked.size(); ++i) {
      for (std::size_t j = 0; j < block.size(); ++j) {
        const double square = features.squared_norms()[static_cast<std::size_t>(picked[i])] +
                              features.squared_norms()[static_cast<std::size_t>(block[j])] - 2 * products.row(i)[j];
        const Near near(std::max(0.0, square), block[j]);
        std::vector<Near>& list = nearest[i];
        list.insert(std::upper_bound(list.begin(), list.end(), near), near);
        if (list.size() > kNearest) list.pop_back();
      }
    }
  }
  return nearest;
}

/// The nearest labeled rows of each pick, in the features of the model, as lines "id<tab>label<tab>distance".
std::vector<std::string> NearestLabeled(const CampaignPlan& plan, const CampaignPool& pool,
                                        const kernel::Features& features, const RoundResult& result,
                                        std::span<const ClassIndex> labels) {
  RowList picked, labeled;
  for (const select::Pick& pick : result.selection.picks) picked.push_back(pick.row);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] != kUnlabeled) labeled.push_back(static_cast<RowIndex>(row));
  }
  std::vector<std::string> texts(picked.size());
  const double work = static_cast<double>(picked.size() + 1) * static_cast<double>(labeled.size()) *
                      static_cast<double>(features.dims());
  if (labeled.empty() || work > kMostDistanceWork) return texts;
  const std::vector<std::vector<Near>> nearest = FindNearest(features, picked, labeled);
  for (std::size_t i = 0; i < picked.size(); ++i) {
    for (const auto& [square, row] : nearest[i]) {
      absl::StrAppend(&texts[i], pool.ids().TextOf(row), "\t", plan.ClassName(labels[row]), "\t", std::sqrt(square),
                      "\n");
    }
  }
  return texts;
}

}  // namespace

storage::RoundBatch RecordBatch(const CampaignPlan& plan, const CampaignPool& pool, const kernel::Features& features,
                                const RoundResult& result, std::span<const ClassIndex> labels,
                                ConstMatrixView decisions, std::span<const float> given) {
  storage::RoundBatch batch;
  batch.strategy = plan.round.strategy;
  for (std::size_t i = 0; i < result.selection.picks.size(); ++i) {
    const select::Pick& pick = result.selection.picks[i];
    batch.items.push_back(pool.ids().TextOf(pick.row));
    batch.predicted.push_back(plan.ClassName(pick.class_index));
    batch.leverage.push_back(pick.leverage);
    batch.gain.push_back(pick.gain);
    const bool known = i < decisions.rows();
    const std::size_t classes = plan.classes.size();
    batch.uncertainty.push_back(
        given.empty() ? UncertaintyOf(result, pick.class_index, known ? decisions.row(i) : std::span<const double>())
                      : UncertaintyOf(given.subspan(pick.row * classes, classes)));
  }
  RankInClass(result, labels, batch);
  batch.nearest = NearestLabeled(plan, pool, features, result, labels);
  return batch;
}

storage::RoundScores RecordScores(const CampaignPlan& plan, const CampaignPool& pool, const RoundResult& result,
                                  std::span<const ClassIndex> labels) {
  storage::RoundScores scores;
  for (std::size_t row = 0; row < pool.rows(); ++row) {
    scores.items.push_back(pool.ids().TextOf(static_cast<RowIndex>(row)));
    scores.predicted.push_back(result.predicted.empty() ? std::string() : plan.ClassName(result.predicted[row]));
    scores.labeled.push_back(labels[row] != kUnlabeled);
    scores.leverage.push_back(result.leverage.empty() ? 0 : result.leverage[row]);
  }
  return scores;
}

v1::ItemState ItemStateOf(const storage::FoundItem& found) {
  switch (found.item.status) {
    case storage::ItemStatus::kInPool:
      return v1::ITEM_STATE_UNLABELED;
    case storage::ItemStatus::kOffered:
      return found.leased ? v1::ITEM_STATE_LEASED : v1::ITEM_STATE_OPEN;
    case storage::ItemStatus::kLabeled:
      return v1::ITEM_STATE_LABELED;
    case storage::ItemStatus::kDisputed:
      return v1::ITEM_STATE_DISPUTED;
    case storage::ItemStatus::kSetAside:
      return v1::ITEM_STATE_SET_ASIDE;
  }
  return v1::ITEM_STATE_UNSPECIFIED;
}

namespace {

using google::protobuf::util::TimeUtil;

constexpr std::size_t kMostHistory = 1000;
constexpr std::size_t kLargestPayload = std::size_t{1} << 20;
// Rows of the pool that are looked at for one page of unlabeled examples.
constexpr std::size_t kMostScanned = 200'000;
constexpr std::size_t kScanStep = 2'000;
constexpr std::size_t kLongestSearch = 200;

v1::Item Describe(const storage::FoundItem& found) {
  const storage::Item& item = found.item;
  v1::Item described;
  described.set_item_id(item.id);
  described.set_state(ItemStateOf(found));
  if (item.status == storage::ItemStatus::kLabeled) described.set_label(item.value);
  described.set_reason(item.reason);
  described.set_round(item.round);
  described.set_rank(item.rank);
  described.set_cost(item.cost);
  described.set_imported(!item.imported.empty());
  for (const storage::Vote& vote : item.votes) {
    v1::Vote& added = *described.add_votes();
    added.set_annotator(vote.annotator);
    if (!vote.withdrawn) added.set_value(vote.value);
    added.set_withdrawn(vote.withdrawn);
    added.set_sequence(vote.sequence);
  }
  if (const auto agreement = storage::AgreementOf(item)) described.set_agreement(*agreement);
  if (found.confidence) described.set_confidence(*found.confidence);
  for (const std::string& annotator : item.declined_by) described.add_declined_by(annotator);
  return described;
}

/// Adds what the latest model predicts; nothing happens if there is none.
void AddPredictions(Campaign& campaign, google::protobuf::RepeatedPtrField<v1::Item>& items) {
  v1::PredictRequest request;
  std::vector<v1::Item*> asked;
  const auto pool = campaign.pool();
  for (v1::Item& item : items) {
    // A row of a stream may be in no file of the pool yet.
    if (!pool->ids().Find(item.item_id())) continue;
    request.add_item_ids(item.item_id());
    asked.push_back(&item);
  }
  if (asked.empty()) return;
  const auto predicted = campaign.Predict(request);
  if (!predicted.ok()) return;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    asked[i]->set_prediction(predicted->predictions(static_cast<int>(i)).value());
  }
}

storage::ListItemsRequest WantedItems(const v1::ListItemsRequest& request, std::size_t page_size) {
  storage::ListItemsRequest wanted{
      .after = request.page_token(), .search = absl::AsciiStrToLower(request.search()), .most = page_size + 1};
  switch (request.state()) {
    case v1::ITEM_STATE_OPEN:
    case v1::ITEM_STATE_LEASED:
      wanted.statuses = {storage::ItemStatus::kOffered};
      wanted.leased = request.state() == v1::ITEM_STATE_LEASED;
      break;
    case v1::ITEM_STATE_LABELED:
      wanted.statuses = {storage::ItemStatus::kLabeled};
      break;
    case v1::ITEM_STATE_DISPUTED:
      wanted.statuses = {storage::ItemStatus::kDisputed};
      break;
    case v1::ITEM_STATE_SET_ASIDE:
      wanted.statuses = {storage::ItemStatus::kSetAside};
      break;
    default:
      wanted.statuses = {storage::ItemStatus::kOffered, storage::ItemStatus::kLabeled, storage::ItemStatus::kDisputed,
                         storage::ItemStatus::kSetAside};
  }
  return wanted;
}

std::int64_t TotalOf(const v1::ItemCounts& counts, v1::ItemState state) {
  switch (state) {
    case v1::ITEM_STATE_UNLABELED:
      return counts.unlabeled();
    case v1::ITEM_STATE_OPEN:
      return counts.open();
    case v1::ITEM_STATE_LEASED:
      return counts.leased();
    case v1::ITEM_STATE_LABELED:
      return counts.labeled();
    case v1::ITEM_STATE_DISPUTED:
      return counts.disputed();
    case v1::ITEM_STATE_SET_ASIDE:
      return counts.set_aside();
    default:
      return counts.open() + counts.leased() + counts.labeled() + counts.disputed() + counts.set_aside();
  }
}

/// In the order of the pool; the token is the number of the next row.
absl::StatusOr<v1::ListItemsResponse> ListUnlabeled(Campaign& campaign, const v1::ListItemsRequest& request,
                                                    std::size_t page_size) {
  const std::string& token = request.page_token();
  const std::string search = absl::AsciiStrToLower(request.search());
  const std::shared_ptr<const CampaignPool> pool = campaign.pool();
  std::size_t row = 0;
  if (!token.empty() && !absl::SimpleAtoi(token, &row)) {
    return absl::InvalidArgumentError("'page_token' is not one of this list");
  }
  v1::ListItemsResponse response;
  const std::size_t last = std::min(pool->rows(), row + kMostScanned);
  while (row < last && static_cast<std::size_t>(response.items_size()) < page_size) {
    std::vector<std::string> ids;
    for (std::size_t i = row; i < std::min(last, row + kScanStep); ++i) {
      ids.push_back(pool->ids().TextOf(static_cast<RowIndex>(i)));
    }
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<storage::FoundItem> found,
                             campaign.store().Run(storage::FindItems, {.ids = ids}));
    for (const storage::FoundItem& item : found) {
      if (static_cast<std::size_t>(response.items_size()) == page_size) break;
      ++row;
      if (item.item.status != storage::ItemStatus::kInPool || !storage::Matches(item.item, search)) continue;
      *response.add_items() = Describe(item);
    }
  }
  if (row < pool->rows()) response.set_next_page_token(absl::StrCat(row));
  return response;
}

absl::StatusOr<storage::FoundItem> FindOne(Campaign& campaign, const std::string& id) {
  FULCRUM_RETURN_IF_ERROR(campaign.CheckItem(id));
  FULCRUM_ASSIGN_OR_RETURN(std::vector<storage::FoundItem> found,
                           campaign.store().Run(storage::FindItems, {.ids = {id}}));
  return std::move(found.front());
}

/// The value of the same name; unspecified for an event that names no item.
v1::ItemEventKind ItemEventKindOf(storage::EventKind kind) {
  const std::string name = absl::StrCat("ITEM_EVENT_KIND_", absl::AsciiStrToUpper(storage::EventKindName(kind)));
  v1::ItemEventKind found = v1::ITEM_EVENT_KIND_UNSPECIFIED;
  v1::ItemEventKind_Parse(name, &found);
  return found;
}

absl::Status AddHistory(const Campaign& campaign, const std::string& item, v1::GetItemResponse& response) {
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(campaign.folder()));
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<storage::EventRow> events, reader->EventsOfItem(item, kMostHistory));
  for (const storage::EventRow& event : events) {
    v1::ItemEvent& added = *response.add_history();
    added.set_sequence(event.sequence);
    *added.mutable_time() = TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(event.at));
    added.set_kind(ItemEventKindOf(event.kind));
    added.set_annotator(event.annotator);
    added.set_value(event.value);
    added.set_reason(event.reason);
    added.set_round(event.round);
  }
  return absl::OkStatus();
}

/// From the record of the item's last round. A record that cannot be read is no error: the rest is known.
void AddSelection(Campaign& campaign, const storage::Item& item, v1::GetItemResponse& response) {
  if (item.round == 0) return;
  const auto batch = storage::ReadRoundBatch(campaign.store().folder(), item.round);
  if (!batch.ok()) return;
  const auto found = std::find(batch->items.begin(), batch->items.end(), item.id);
  if (found == batch->items.end()) return;
  const auto i = static_cast<std::size_t>(found - batch->items.begin());
  v1::ItemSelection& selection = *response.mutable_selection();
  selection.set_round(item.round);
  selection.set_rank(static_cast<std::int64_t>(i) + 1);
  selection.set_strategy(batch->strategy);
  selection.set_predicted(batch->predicted[i]);
  selection.set_leverage(batch->leverage[i]);
  selection.set_gain(batch->gain[i]);
  if (batch->rank_in_class.size() <= i) return;  // a round of an older version
  selection.set_rank_in_class(batch->rank_in_class[i]);
  selection.set_class_size(batch->class_size[i]);
  if (batch->uncertainty[i] >= 0) selection.set_uncertainty(batch->uncertainty[i]);
  for (const absl::string_view line : absl::StrSplit(batch->nearest[i], '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, '\t');
    double distance = 0;
    if (parts.size() != 3 || !absl::SimpleAtod(parts[2], &distance)) continue;
    v1::NearestItem& near = *selection.add_nearest_labeled();
    near.set_item_id(parts[0]);
    near.set_label(parts[1]);
    near.set_distance(distance);
  }
}

}  // namespace

absl::StatusOr<v1::ListItemsResponse> ListItems(Campaign& campaign, const v1::ListItemsRequest& request,
                                                std::size_t page_size) {
  if (request.search().size() > kLongestSearch) {
    return absl::InvalidArgumentError(absl::StrCat("'search' is longer than ", kLongestSearch, " characters"));
  }
  v1::ListItemsResponse response;
  if (request.state() == v1::ITEM_STATE_UNLABELED) {
    FULCRUM_ASSIGN_OR_RETURN(response, ListUnlabeled(campaign, request, page_size));
  } else {
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<storage::FoundItem> found,
                             campaign.store().Run(storage::ListItems, WantedItems(request, page_size)));
    for (std::size_t i = 0; i < std::min(found.size(), page_size); ++i) *response.add_items() = Describe(found[i]);
    if (found.size() > page_size) response.set_next_page_token(found[page_size - 1].item.id);
  }
  AddPredictions(campaign, *response.mutable_items());
  response.set_total_size(TotalOf(campaign.Describe().items(), request.state()));
  return response;
}

absl::StatusOr<v1::GetItemResponse> GetItem(Campaign& campaign, const v1::GetItemRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(const storage::FoundItem found, FindOne(campaign, request.item_id()));
  google::protobuf::RepeatedPtrField<v1::Item> items;
  *items.Add() = Describe(found);
  AddPredictions(campaign, items);
  v1::GetItemResponse response;
  *response.mutable_item() = items[0];
  std::string payload = campaign.PayloadOf(request.item_id());
  response.set_payload_bytes(static_cast<std::int64_t>(payload.size()));
  payload.resize(std::min(payload.size(), kLargestPayload));
  response.set_payload(std::move(payload));
  FULCRUM_RETURN_IF_ERROR(AddHistory(campaign, request.item_id(), response));
  AddSelection(campaign, found.item, response);
  return response;
}

absl::StatusOr<v1::Item> ResolveItem(Campaign& campaign, const v1::ResolveItemRequest& request,
                                     const ChangeOrder& order) {
  FULCRUM_RETURN_IF_ERROR(campaign.CheckItem(request.item_id()));
  const std::vector<std::string> classes = campaign.plan()->classes;
  if (std::find(classes.begin(), classes.end(), request.value()) == classes.end()) {
    return absl::InvalidArgumentError(absl::StrCat("'", request.value().substr(0, 100),
                                                   "' is not one of the classes: ", absl::StrJoin(classes, ", ")));
  }
  const storage::ItemRequest item{
      .item = request.item_id(), .by = order.by, .reason = request.reason(), .request_id = order.request_id};
  FULCRUM_RETURN_IF_ERROR(
      campaign.store().Run(storage::ResolveItem, {.item = item, .value = request.value()}).status());
  FULCRUM_ASSIGN_OR_RETURN(const storage::FoundItem found, FindOne(campaign, request.item_id()));
  return Describe(found);
}

absl::StatusOr<v1::Item> ReturnItem(Campaign& campaign, const v1::ReturnItemRequest& request,
                                    const ChangeOrder& order) {
  FULCRUM_RETURN_IF_ERROR(campaign.CheckItem(request.item_id()));
  FULCRUM_RETURN_IF_ERROR(
      campaign.store()
          .Run(storage::ReturnItem,
               {.item = request.item_id(), .by = order.by, .reason = request.reason(), .request_id = order.request_id})
          .status());
  FULCRUM_ASSIGN_OR_RETURN(const storage::FoundItem found, FindOne(campaign, request.item_id()));
  return Describe(found);
}

}  // namespace fulcrum::pipeline
