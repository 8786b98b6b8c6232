// What was decided about the rows of one request, as it is kept in the log: the answers, the rows that join the pool,
// and what the next decisions continue with.
//
// Binary and little-endian, written as text in base64, because the log has texts. A plain value; stateless functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace fulcrum::pipeline {

/// A row that joins the pool.
struct OfferedRow {
  std::string id = {};
  std::string payload = {};
  double cost = 0;
  std::vector<float> features = {};  ///< as in the pool's files
};

enum class RowDecision : std::uint8_t { kLabel = 1, kSkip = 2, kExisting = 3 };

struct RowAnswer {
  RowDecision decision = RowDecision::kSkip;
  double score = 0;
  double threshold = 0;
};

struct OfferRecord {
  struct Kept {
    std::uint32_t place = 0;  ///< in the request
    OfferedRow row = {};
  };
  std::uint64_t model = 0;  ///< its fingerprint
  double seconds = 0;       ///< when it was decided
  /// After the last row: all of the selector's state, or what does not follow from the record and the state before.
  std::string state = {};
  std::vector<RowAnswer> answers = {};  ///< in the order of the request
  std::vector<Kept> kept = {};          ///< in the order of the request
};

std::string EncodeRecord(const OfferRecord& record);
/// DataLoss if EncodeRecord did not write it.
absl::StatusOr<OfferRecord> DecodeRecord(absl::string_view text);

}  // namespace fulcrum::pipeline
