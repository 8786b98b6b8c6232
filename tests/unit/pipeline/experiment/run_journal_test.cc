#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "pipeline/experiment/curves.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

JournalEntry Entry(std::size_t run) {
  JournalEntry entry{.fingerprint = 0xfeedf00d00000000 + run};
  entry.curve = {.task = "digit1", .strategy = "alevs", .run = run, .points = {}};
  entry.curve.points.push_back({.round = 0,
                                .labels = 4,
                                .accuracy = 1.0 / 3,
                                .f1 = 0.1,
                                .queried_positive_share = std::numeric_limits<double>::quiet_NaN()});
  entry.curve.points.push_back(
      {.round = 1, .labels = 5, .accuracy = 0.9, .f1 = 0.8, .queried_positive_share = 1, .select_seconds = 1e-5});
  return entry;
}

class RunJournalTest : public ::testing::Test {
 protected:
  std::string Read() const {
    std::ifstream stream(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void Append(std::size_t count) {
    const auto journal = RunJournal::Open(path_);
    ASSERT_TRUE(journal.ok()) << journal.status();
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE((*journal)->Append(Entry((*journal)->entries().size() + i)).ok());
    }
  }

  testing::TemporaryDirectory folder_;
  const std::string path_ = folder_.File("journal.tsv");
};

TEST_F(RunJournalTest, GivesBackWhatWasWrittenToTheLastBit) {
  Append(2);
  Append(1);
  const auto journal = RunJournal::Open(path_);
  ASSERT_EQ((*journal)->entries().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const JournalEntry expected = Entry(i);
    const JournalEntry& entry = (*journal)->entries()[i];
    EXPECT_EQ(entry.fingerprint, expected.fingerprint);
    EXPECT_EQ(entry.curve.task, "digit1");
    EXPECT_EQ(entry.curve.strategy, "alevs");
    EXPECT_EQ(entry.curve.run, i);
    ASSERT_EQ(entry.curve.points.size(), 2u);
    EXPECT_EQ(entry.curve.points[0].accuracy, 1.0 / 3);
    EXPECT_TRUE(std::isnan(entry.curve.points[0].queried_positive_share));
    EXPECT_EQ(entry.curve.points[1].select_seconds, 1e-5);
    EXPECT_EQ(entry.curve.points[1].labels, 5u);
  }
}

TEST_F(RunJournalTest, ALineCutAtAnyPlaceIsForgottenAndTheNextOneIsWhole) {
  Append(2);
  const std::string whole = Read();
  const std::size_t first_line = whole.find('\n') + 1;
  for (std::size_t length = first_line; length < whole.size(); length += 7) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << whole.substr(0, length);
    {
      const auto journal = RunJournal::Open(path_);
      ASSERT_TRUE(journal.ok()) << journal.status();
      ASSERT_EQ((*journal)->entries().size(), 1u) << "cut after " << length << " bytes";
      ASSERT_TRUE((*journal)->Append(Entry(1)).ok());
    }
    ASSERT_EQ(Read(), whole) << "cut after " << length << " bytes";
  }
}

TEST_F(RunJournalTest, ADamagedLineIsNotBelieved) {
  Append(2);
  std::string text = Read();
  text[text.size() - 3] = text[text.size() - 3] == '1' ? '2' : '1';
  std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  EXPECT_EQ((*RunJournal::Open(path_))->entries().size(), 1u);
}

TEST_F(RunJournalTest, TwoProgramsDoNotWriteToOne) {
  const auto journal = RunJournal::Open(path_);
  ASSERT_TRUE(journal.ok());
  EXPECT_THAT(std::string(RunJournal::Open(path_).status().message()), HasSubstr("another experiment is writing"));
}

}  // namespace
}  // namespace fulcrum::pipeline
