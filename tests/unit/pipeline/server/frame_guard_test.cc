#include "pipeline/server/transport/frame_guard.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/http2_frames.h"

namespace fulcrum::pipeline {
namespace {

using testing::Frame;
using testing::kHttp2Preface;
using testing::RequestFrame;
using testing::ResetFrame;
using Clock = FrameCounter::Clock;

/// What the counter says to these bytes, given in pieces of this size.
const char* Verdict(const std::string& bytes, std::size_t piece, FrameLimits limits = {}) {
  FrameCounter counter(limits);
  const Clock::time_point now = Clock::now();
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const std::string part = bytes.substr(at, piece);
    const char* const flood = counter.Take({reinterpret_cast<const std::uint8_t*>(part.data()), part.size()}, now);
    if (flood != nullptr) return flood;
  }
  return nullptr;
}

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// A limit for all connections that no test meets, because it is shared by all tests.
FrameLimits OwnLimits() {
  FrameLimits limits;
  limits.all_resets = limits.all_unacknowledged_headers = {.burst = 1e9, .per_second = 1e9};
  return limits;
}

TEST(FrameCounter, FindsAFloodHoweverTheBytesArrive) {
  const FrameLimits limits = OwnLimits();
  const std::string request = RequestFrame(1, "/a/b"), reset = ResetFrame(1);
  const std::vector<std::pair<std::string, std::string>> floods = {
      {Frame(4, 1, 0, "") + Repeat(request + reset, 201), "resets of streams"},
      {Repeat(Frame(6, 0, 0, std::string(8, 'p')), 101), "frames that carry nothing"},
      {Repeat(Frame(4, 0, 0, ""), 101), "frames that carry nothing"},
      {Repeat(Frame(0, 0, 1, ""), 101), "frames that carry nothing"},
      {Repeat(Frame(200, 0, 1, "x"), 101), "frames that carry nothing"},
      {Frame(1, 0, 1, "") + Repeat(Frame(9, 0, 1, "x"), 9), "continuations of headers"},
      {Frame(4, 0, 0, "") + Repeat(request, 201), "streams before an acknowledgement of SETTINGS"},
  };
  for (const auto& [bytes, flood] : floods) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, bytes.size() + 100}) {
      EXPECT_STREQ(Verdict(kHttp2Preface + bytes, piece, limits), flood.c_str()) << piece;
    }
  }
}

TEST(FrameCounter, LetsOrdinaryTrafficPass) {
  const FrameLimits limits = OwnLimits();
  const std::string data = Frame(0, 1, 1, std::string(5000, 'd'));
  const std::string call = RequestFrame(1, "/a/b") + data + Frame(8, 0, 0, "abcd");
  const std::string acknowledgement = Frame(4, 1, 0, "");
  EXPECT_EQ(Verdict(kHttp2Preface + acknowledgement + Repeat(call, 20'000), 10'000, limits), nullptr);
  EXPECT_EQ(Verdict(kHttp2Preface + Repeat(call, 200) + acknowledgement + Repeat(call, 20'000), 10'000, limits),
            nullptr);
  EXPECT_EQ(Verdict(kHttp2Preface + Repeat(Frame(4, 1, 0, ""), 10'000), 1000, limits), nullptr) << "acknowledgements";
  EXPECT_EQ(Verdict(kHttp2Preface + Repeat(RequestFrame(1, "/a/b") + ResetFrame(1), 200), 1000, limits), nullptr);
  EXPECT_EQ(Verdict(Repeat(ResetFrame(1), 10'000), 1000, limits), nullptr) << "not HTTP/2: gRPC's business";
}

TEST(FrameCounter, WhatIsAllowedComesBackWithTime) {
  FrameCounter counter(OwnLimits());
  Clock::time_point now = Clock::now();
  const auto take = [&](const std::string& bytes) {
    return counter.Take({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, now);
  };
  EXPECT_EQ(take(kHttp2Preface + Repeat(ResetFrame(1), 200)), nullptr);
  now += std::chrono::seconds(1);
  EXPECT_EQ(take(Repeat(ResetFrame(1), 100)), nullptr);
  EXPECT_STREQ(take(ResetFrame(1)), "resets of streams");
}

TEST(FrameCounter, DuringAFloodOfOthersOnlyThoseAreClosedThatHaveSentManyResetsOfLate) {
  FrameLimits limits;
  limits.all_resets = {.burst = 0, .per_second = 0};  // others have spent it all
  Clock::time_point now = Clock::now();
  const auto take = [&](FrameCounter& counter, const std::string& bytes) {
    return counter.Take({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, now);
  };
  FrameCounter patient(limits), hasty(limits);
  EXPECT_EQ(take(patient, kHttp2Preface + Frame(4, 1, 0, "")), nullptr);
  for (int i = 0; i < 1000; ++i, now += std::chrono::seconds(1)) {
    ASSERT_EQ(take(patient, RequestFrame(1, "/a/b") + ResetFrame(1)), nullptr) << i;
  }
  EXPECT_EQ(take(hasty, kHttp2Preface + Repeat(ResetFrame(1), 20)), nullptr);
  EXPECT_STREQ(take(hasty, ResetFrame(1)), "resets of streams, with others");
}

TEST(FrameCounter, DuringAFloodOfOthersAClientThatAcknowledgesNothingOpensAFewStreams) {
  FrameLimits limits;
  limits.all_unacknowledged_headers = {.burst = 0, .per_second = 0};  // others have spent it all
  const std::string request = RequestFrame(1, "/a/b");
  EXPECT_EQ(Verdict(kHttp2Preface + Repeat(request, 10), 100, limits), nullptr);
  EXPECT_STREQ(Verdict(kHttp2Preface + Repeat(request, 11), 100, limits),
               "streams before an acknowledgement of SETTINGS, with others");
  EXPECT_EQ(Verdict(kHttp2Preface + Frame(4, 1, 0, "") + Repeat(request, 100), 100, limits), nullptr);
}

}  // namespace
}  // namespace fulcrum::pipeline
