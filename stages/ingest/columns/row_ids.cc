#include "stages/ingest/columns/row_ids.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/builder.h"
#include "stages/core/parallel.h"
#include "tbb/parallel_sort.h"

namespace fulcrum::ingest {
namespace {

constexpr std::uint64_t kHashHalf = 0xffffffff00000000;
constexpr std::size_t kIdsPerTask = 1 << 14;
// A string array's offsets have 31 bits.
constexpr std::size_t kChunkBytes = std::size_t{1} << 30;

std::uint64_t HashOf(absl::string_view id) {
  return absl::Hash<absl::string_view>()(id) & kHashHalf;
}

std::vector<std::shared_ptr<arrow::Array>> ToChunks(const std::vector<std::string>& ids) {
  std::vector<std::shared_ptr<arrow::Array>> chunks;
  arrow::StringBuilder builder;
  const auto finish = [&] { chunks.push_back(builder.Finish().ValueOrDie()); };
  for (const std::string& id : ids) {
    if (builder.value_data_length() + static_cast<std::int64_t>(id.size()) > static_cast<std::int64_t>(kChunkBytes)) {
      finish();
    }
    if (!builder.Append(id).ok()) throw std::bad_alloc();
  }
  finish();
  return chunks;
}

}  // namespace

RowIds::RowIds(const std::vector<std::string>& ids) : RowIds(ToChunks(ids)) {}

RowIds::RowIds(std::vector<std::shared_ptr<arrow::Array>> ids) : chunks_(std::move(ids)) {
  for (const auto& chunk : chunks_) {
    chunk_begins_.push_back(rows_);
    rows_ += static_cast<std::size_t>(chunk->length());
  }
  indices_.push_back(std::make_shared<Index>(0, rows_));
}

RowIds RowIds::With(const RowIds& more) const {
  if (are_row_numbers()) return RowIds(rows_ + more.rows_);
  std::vector<std::shared_ptr<arrow::Array>> chunks = chunks_;
  chunks.insert(chunks.end(), more.chunks_.begin(), more.chunks_.end());
  RowIds joined(std::move(chunks));
  // Each index covers at least twice as many rows as the next one: there are few of them, and each row is indexed again
  // only a few times.
  std::vector<std::shared_ptr<Index>> indices = indices_;
  std::size_t first = rows_;
  while (indices.size() > 1 && indices.back()->count < 2 * (joined.rows_ - first)) {
    first = indices.back()->first;
    indices.pop_back();
  }
  indices.push_back(std::make_shared<Index>(first, joined.rows_ - first));
  joined.indices_ = std::move(indices);
  return joined;
}

absl::string_view RowIds::ViewOf(RowIndex row) const {
  const auto after = std::upper_bound(chunk_begins_.begin(), chunk_begins_.end(), row);
  const auto chunk = static_cast<std::size_t>(after - chunk_begins_.begin()) - 1;
  const auto& ids = static_cast<const arrow::StringArray&>(*chunks_[chunk]);
  const auto id = ids.GetView(static_cast<std::int64_t>(row - chunk_begins_[chunk]));
  return {id.data(), id.size()};
}

const std::vector<std::uint64_t>& RowIds::EntriesOf(Index& index) const {
  std::call_once(index.made, [&] {
    std::vector<std::uint64_t> entries(index.count);
    ParallelForBlocks(index.count, kIdsPerTask, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        const std::size_t row = index.first + i;
        entries[i] = HashOf(ViewOf(static_cast<RowIndex>(row))) | row;
      }
    });
    tbb::this_task_arena::isolate([&] { tbb::parallel_sort(entries.begin(), entries.end()); });
    index.entries = std::move(entries);
  });
  return index.entries;
}

std::string RowIds::TextOf(RowIndex row) const {
  return are_row_numbers() ? absl::StrCat(row) : std::string(ViewOf(row));
}

std::optional<RowIndex> RowIds::Find(absl::string_view id) const {
  if (are_row_numbers()) {
    RowIndex row = 0;
    // Only the number's usual form: "007" and "+7" may be meant for ids that this pool does not have.
    if (!absl::SimpleAtoi(id, &row) || row >= rows_ || absl::StrCat(row) != id) return std::nullopt;
    return row;
  }
  const std::uint64_t hash = HashOf(id);
  for (const std::shared_ptr<Index>& index : indices_) {
    const std::vector<std::uint64_t>& entries = EntriesOf(*index);
    for (auto entry = std::lower_bound(entries.begin(), entries.end(), hash);
         entry != entries.end() && (*entry & kHashHalf) == hash; ++entry) {
      const auto row = static_cast<RowIndex>(*entry & ~kHashHalf);
      if (ViewOf(row) == id) return row;
    }
  }
  return std::nullopt;
}

std::vector<RowIds::Repeated> RowIds::FindRepeated(std::size_t most) const {
  std::vector<Repeated> repeated;
  if (are_row_numbers()) return repeated;
  Index whole(0, rows_);
  Index& index = indices_.size() == 1 ? *indices_[0] : whole;
  const std::vector<std::uint64_t>& entries = EntriesOf(index);
  std::vector<RowIndex> distinct;  // of the rows with one hash, those whose id none of the earlier ones has
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0 && (entries[i] & kHashHalf) != (entries[i - 1] & kHashHalf)) distinct.clear();
    const auto row = static_cast<RowIndex>(entries[i] & ~kHashHalf);
    const auto first =
        std::find_if(distinct.begin(), distinct.end(), [&](RowIndex other) { return ViewOf(other) == ViewOf(row); });
    if (first == distinct.end()) {
      distinct.push_back(row);
    } else {
      repeated.push_back({*first, row});
    }
  }
  std::sort(repeated.begin(), repeated.end(), [](const Repeated& a, const Repeated& b) { return a.again < b.again; });
  if (repeated.size() > most) repeated.resize(most);
  return repeated;
}

}  // namespace fulcrum::ingest
