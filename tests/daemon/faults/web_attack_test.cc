// Large and unfinished requests on the web port: who only announces much keeps nobody out, and what has come of all
// large requests together is limited.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/raw_connections.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kWebMebibyte = std::size_t{1} << 20;

std::string Head(const std::string& length) {
  return absl::StrCat("POST /fulcrum.v1.ServerService/GetVersion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
                      "Content-Type: application/json\r\n", length, "\r\n\r\n");
}

std::string Chunk(std::size_t bytes) {
  return absl::StrCat(absl::Hex(bytes), "\r\n", std::string(bytes, ' '), "\r\n");
}

class WebAttackTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    pipeline::DaemonOptions options = Options();
    options.web.address = "127.0.0.1:0";
    StartDaemon(options);
  }

  /// A call whose JSON is followed by a mebibyte of spaces.
  std::string LargeCall() const {
    const std::string body = "{}" + std::string(kWebMebibyte, ' ');
    RawConnections connection(daemon_->web_port());
    connection.Open(Head(absl::StrCat("Content-Length: ", body.size())) + body);
    return connection.size() == 1 ? connection.ReadAll(0) : "";
  }
};

TEST_F(WebAttackTest, RequestsThatOnlyAnnounceALargeBodyKeepNoClientOut) {
  RawConnections slow(daemon_->web_port());
  for (int i = 0; i < 50; ++i) {
    slow.Open(Head("Transfer-Encoding: chunked") + Chunk(10));
    slow.Open(Head(absl::StrCat("Content-Length: ", 5 * kWebMebibyte)) + "{");
  }
  ASSERT_EQ(slow.size(), 100u);
  EXPECT_THAT(LargeCall(), StartsWith("HTTP/1.1 200"));
}

TEST_F(WebAttackTest, AChunkedBodyIsReadWhole) {
  RawConnections connection(daemon_->web_port());
  connection.Open(Head("Transfer-Encoding: chunked") + "1\r\n{\r\n");
  ASSERT_TRUE(connection.Send(0, Chunk(kWebMebibyte)));
  ASSERT_TRUE(connection.Send(0, "1\r\n}\r\n0\r\n\r\n"));
  EXPECT_THAT(connection.ReadAll(0), StartsWith("HTTP/1.1 200"));
}

TEST_F(WebAttackTest, WhatHasComeOfAllLargeRequestsIsLimited) {
  {
    RawConnections greedy(daemon_->web_port());
    // The last ones are small enough to take what is left.
    for (std::size_t i = 0; i < 40; ++i) {
      greedy.Open(Head("Transfer-Encoding: chunked"));
      greedy.Send(i, Chunk(i < 30 ? 5 * kWebMebibyte : kWebMebibyte / 2));
    }
    std::string answer;
    do answer = LargeCall();
    while (!answer.starts_with("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("too many large requests"));
  }
  // When they have gone there is room again.
  std::string answer;
  do answer = LargeCall();
  while (!answer.starts_with("HTTP/1.1 200"));
}

}  // namespace
}  // namespace fulcrum::testing
