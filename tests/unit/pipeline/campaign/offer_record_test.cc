#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "pipeline/campaign/stream/campaign_stream.h"

namespace fulcrum::pipeline {
namespace {

OfferRecord SomeRecord() {
  OfferRecord record{.model = 0xFEDCBA9876543210, .seconds = 1.5e9, .state = std::string("a\0b", 3)};
  record.answers = {{RowDecision::kSkip, 0.25, std::numeric_limits<double>::infinity()},
                    {RowDecision::kLabel, 3.5, -std::numeric_limits<double>::infinity()},
                    {RowDecision::kExisting, 0, 0}};
  record.kept = {{1, {.id = "row, 1", .payload = "what\nto see", .cost = 0.5, .features = {1, -2.5F, 0}}}};
  return record;
}

TEST(OfferRecord, ComesBackAsItWas) {
  const std::string text = EncodeRecord(SomeRecord());
  const auto record = DecodeRecord(text);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->model, 0xFEDCBA9876543210);
  EXPECT_EQ(record->seconds, 1.5e9);
  EXPECT_EQ(record->state.size(), 3U);
  ASSERT_EQ(record->answers.size(), 3U);
  EXPECT_EQ(record->answers[1].decision, RowDecision::kLabel);
  EXPECT_EQ(record->answers[1].score, 3.5);
  EXPECT_EQ(record->answers[0].threshold, std::numeric_limits<double>::infinity());
  ASSERT_EQ(record->kept.size(), 1U);
  EXPECT_EQ(record->kept[0].place, 1U);
  EXPECT_EQ(record->kept[0].row.id, "row, 1");
  EXPECT_EQ(record->kept[0].row.payload, "what\nto see");
  EXPECT_EQ(record->kept[0].row.features, (std::vector<float>{1, -2.5F, 0}));
  EXPECT_EQ(EncodeRecord(*record), text);
}

TEST(OfferRecord, WhatWasNotWrittenIsRefused) {
  const std::string text = EncodeRecord(SomeRecord());
  EXPECT_FALSE(DecodeRecord("").ok());
  EXPECT_FALSE(DecodeRecord("not base64!").ok());
  for (std::size_t size = 0; size < text.size(); size += 4) {
    EXPECT_FALSE(DecodeRecord(text.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeRecord(text + "AAAA").ok());
}

}  // namespace
}  // namespace fulcrum::pipeline
