#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "pipeline/commands/select/select_stream.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

StreamAnswer AnswerOf(std::uint64_t id) {
  return {.id = id, .content = id * 7, .score = 0.1 * static_cast<double>(id), .threshold = 0.5, .take = id % 3 == 0};
}

std::vector<StreamAnswer> AnswersOf(std::uint64_t first, std::uint64_t count) {
  std::vector<StreamAnswer> answers;
  for (std::uint64_t id = first; id < first + count; ++id) answers.push_back(AnswerOf(id));
  return answers;
}

class StreamJournalTest : public ::testing::Test {
 protected:
  std::unique_ptr<StreamJournal> Open(const StreamJournal::Limits& limits = {}) const {
    auto journal = StreamJournal::Open(path_, limits);
    EXPECT_TRUE(journal.ok()) << journal.status();
    return journal.ok() ? *std::move(journal) : nullptr;
  }
  std::string Content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Replace(const std::string& content) const { std::ofstream(path_, std::ios::binary) << content; }

  testing::TemporaryDirectory folder_;
  std::string path_ = folder_.File("stream.state");
};

TEST_F(StreamJournalTest, GivesBackWhatWasAppended) {
  EXPECT_EQ(Open()->state(), "");
  {
    const auto journal = Open();
    ASSERT_TRUE(journal->Append(AnswersOf(0, 10), "first").ok());
    ASSERT_TRUE(journal->Append(AnswersOf(10, 5), "second").ok());
  }
  const auto journal = Open();
  EXPECT_EQ(journal->state(), "second");
  for (std::uint64_t id = 0; id < 15; ++id) {
    const StreamAnswer* const answer = journal->Find(id);
    ASSERT_NE(answer, nullptr) << id;
    EXPECT_EQ(answer->content, id * 7);
    EXPECT_EQ(answer->score, AnswerOf(id).score);
    EXPECT_EQ(answer->threshold, 0.5);
    EXPECT_EQ(answer->take, id % 3 == 0);
  }
  EXPECT_EQ(journal->Find(15), nullptr);
}

TEST_F(StreamJournalTest, AFileThatEndsAnywhereHasTheWholeRecordsBefore) {
  std::vector<std::size_t> ends;
  {
    const auto journal = Open();
    for (std::uint64_t record = 0; record < 3; ++record) {
      ASSERT_TRUE(journal->Append(AnswersOf(record * 2, 2), "state " + std::to_string(record)).ok());
      ends.push_back(Content().size());
    }
  }
  const std::string whole = Content();
  const std::size_t header = whole.find('\n') + 1;
  for (std::size_t size = header; size <= whole.size(); ++size) {
    Replace(whole.substr(0, size));
    const auto records = static_cast<std::uint64_t>(std::ranges::upper_bound(ends, size) - ends.begin());
    const auto journal = Open();
    ASSERT_NE(journal, nullptr) << size;
    EXPECT_EQ(journal->state(), records == 0 ? "" : "state " + std::to_string(records - 1)) << size;
    EXPECT_EQ(journal->Find(2 * records), nullptr) << size;
    ASSERT_TRUE(journal->Append(AnswersOf(100, 1), "after").ok());
  }
  const auto journal = Open();
  EXPECT_EQ(journal->state(), "after");
}

TEST_F(StreamJournalTest, DamageBeforeTheEndIsAnError) {
  {
    const auto journal = Open();
    ASSERT_TRUE(journal->Append(AnswersOf(0, 3), "one").ok());
    ASSERT_TRUE(journal->Append(AnswersOf(3, 3), "two").ok());
  }
  const std::string whole = Content();
  const std::size_t header = whole.find('\n') + 1;
  std::string damaged = whole;
  damaged[header + 30] = static_cast<char>(damaged[header + 30] ^ 1);
  Replace(damaged);
  EXPECT_EQ(StreamJournal::Open(path_, {}).status().code(), absl::StatusCode::kDataLoss);
  Replace("id,label\nr1,pos\nand a few more lines\n");
  EXPECT_EQ(StreamJournal::Open(path_, {}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(StreamJournalTest, OneProcessAtATime) {
  const auto journal = Open();
  EXPECT_EQ(StreamJournal::Open(path_, {}).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(StreamJournalTest, AFileThatHasGrownIsRewrittenWithTheLatestAnswers) {
  const StreamJournal::Limits limits = {.remembered = 20, .compact_bytes = 4000};
  std::uint64_t largest = 0;
  {
    const auto journal = Open(limits);
    for (std::uint64_t id = 0; id < 500; ++id) {
      ASSERT_TRUE(journal->Append(AnswersOf(id, 1), "state of " + std::to_string(id)).ok());
      largest = std::max<std::uint64_t>(largest, std::filesystem::file_size(path_));
    }
  }
  EXPECT_LT(largest, 4200U);
  const auto journal = Open(limits);
  EXPECT_EQ(journal->state(), "state of 499");
  EXPECT_NE(journal->Find(480), nullptr);
  EXPECT_EQ(journal->Find(479), nullptr);
}

}  // namespace
}  // namespace fulcrum::pipeline
