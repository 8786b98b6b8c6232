#include <cstring>
#include <string_view>

#include "absl/strings/escaping.h"
#include "pipeline/campaign/stream/campaign_stream.h"
#include "stages/classify/model_file.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::uint32_t kVersion = 1;

void PutText(std::string_view text, classify::ByteWriter& out) {
  out.Put(static_cast<std::uint64_t>(text.size()));
  out.PutText(text);
}

std::string GetText(classify::ByteReader& in) {
  const auto size = in.Get<std::uint64_t>();
  return in.GetText(size);
}

}  // namespace

std::string EncodeRecord(const OfferRecord& record) {
  classify::ByteWriter out;
  out.Put(kVersion);
  out.Put(record.model);
  out.Put(record.seconds);
  PutText(record.state, out);
  out.Put(static_cast<std::uint64_t>(record.answers.size()));
  for (const RowAnswer& answer : record.answers) {
    out.Put(static_cast<std::uint8_t>(answer.decision));
    out.Put(answer.score);
    out.Put(answer.threshold);
  }
  out.Put(static_cast<std::uint64_t>(record.kept.size()));
  for (const OfferRecord::Kept& kept : record.kept) {
    out.Put(kept.place);
    PutText(kept.row.id, out);
    PutText(kept.row.payload, out);
    out.Put(kept.row.cost);
    const std::vector<float>& features = kept.row.features;
    PutText({reinterpret_cast<const char*>(features.data()), features.size() * sizeof(float)}, out);
  }
  return absl::Base64Escape(out.bytes());
}

absl::StatusOr<OfferRecord> DecodeRecord(absl::string_view text) {
  const absl::Status damaged = absl::DataLossError("a record of decisions in the log cannot be read; restore a backup");
  std::string bytes;
  if (!absl::Base64Unescape(text, &bytes)) return damaged;
  classify::ByteReader in(bytes);
  if (in.Get<std::uint32_t>() != kVersion) return damaged;
  OfferRecord record;
  record.model = in.Get<std::uint64_t>();
  record.seconds = in.Get<double>();
  record.state = GetText(in);
  const auto answers = in.Get<std::uint64_t>();
  for (std::uint64_t i = 0; in.ok() && i < answers; ++i) {
    RowAnswer& answer = record.answers.emplace_back();
    answer.decision = static_cast<RowDecision>(in.Get<std::uint8_t>());
    answer.score = in.Get<double>();
    answer.threshold = in.Get<double>();
  }
  const auto kept = in.Get<std::uint64_t>();
  for (std::uint64_t i = 0; in.ok() && i < kept; ++i) {
    OfferRecord::Kept& row = record.kept.emplace_back();
    row.place = in.Get<std::uint32_t>();
    row.row.id = GetText(in);
    row.row.payload = GetText(in);
    row.row.cost = in.Get<double>();
    const std::string features = GetText(in);
    row.row.features.resize(features.size() / sizeof(float));
    std::memcpy(row.row.features.data(), features.data(), row.row.features.size() * sizeof(float));
    if (row.place >= answers) return damaged;
  }
  if (!in.ok() || in.remaining() > 0) return damaged;
  return record;
}

}  // namespace fulcrum::pipeline
