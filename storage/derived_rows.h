// The rows of the derived tables, made from the state: the one place that says what is in a column.
//
// Values are text; SQLite's column types turn numbers into numbers. Stateless and thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "storage/campaign_state.h"

namespace fulcrum::storage {

using DerivedRow = std::vector<std::string>;

/// Tables in the order in which RowsOfItem and AllRows use them.
enum class DerivedTable : std::size_t { kItem, kSlot, kLease, kRound, kFigure };
struct DerivedTableInfo {
  const char* name;
  std::size_t columns;
  std::optional<std::size_t> item_column = {};  ///< where its rows are about an item
};
const std::vector<DerivedTableInfo>& DerivedTableInfos();

DerivedRow RowOf(const Item& item);
DerivedRow RowOf(const Item& item, const Slot& slot);
DerivedRow RowOf(const Lease& lease);
DerivedRow RowOf(const Round& round);
/// Name and value: how far the tables go, and the campaign's totals.
std::vector<DerivedRow> FigureRows(const CampaignState& state);

/// Every row a table should have.
std::vector<DerivedRow> AllRows(const CampaignState& state, DerivedTable table);

}  // namespace fulcrum::storage
