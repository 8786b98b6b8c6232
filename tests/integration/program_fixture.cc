#include "tests/integration/program_fixture.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"

namespace fulcrum::testing {
namespace {

std::vector<std::string> Split(const std::string& line) {
  std::vector<std::string> values(1);
  for (char character : line) {
    if (character == ',') {
      values.emplace_back();
    } else {
      values.back().push_back(character);
    }
  }
  return values;
}

}  // namespace

ProcessResult ProgramTest::Run(std::vector<std::string> words, const ProcessOptions& options) {
  words.insert(words.begin(), FULCRUM_PROGRAM);
  return RunProcess(words, options);
}

ProcessResult ProgramTest::Select(const std::vector<std::string>& options) const {
  std::vector<std::string> words = {"select", "--pool", File("pool.csv"), "--labels", File("labels.csv")};
  words.insert(words.end(), options.begin(), options.end());
  return Run(words);
}

std::string ProgramTest::RowId(std::size_t row) {
  return absl::StrCat("r", row);
}

std::string ProgramTest::PoolText(std::size_t rows) {
  Random random(11);
  std::ostringstream text;
  text << "id,label,f0,f1,f2,f3\n";
  for (std::size_t row = 0; row < rows; ++row) {
    const bool positive = row % 2 == 1;
    text << RowId(row) << (positive ? ",pos" : ",neg");
    for (int col = 0; col < 4; ++col) text << "," << (positive ? 1 : -1) + 0.6 * random.Normal();
    text << "\n";
  }
  return text.str();
}

std::string ProgramTest::LabelText(std::size_t count) {
  std::ostringstream text;
  text << "id,label\n";
  for (std::size_t row = 0; row < count; ++row) text << RowId(row) << (row % 2 == 1 ? ",pos\n" : ",neg\n");
  return text.str();
}

std::string ProgramTest::Read(const std::string& name) const {
  std::ostringstream text;
  text << std::ifstream(File(name), std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> ProgramTest::Files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

CsvRows ProgramTest::ParseCsv(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> names = Split(line);
  CsvRows rows;
  while (std::getline(lines, line)) {
    const std::vector<std::string> values = Split(line);
    EXPECT_EQ(values.size(), names.size()) << line;
    for (std::size_t i = 0; i < std::min(names.size(), values.size()); ++i) {
      if (i == 0) rows.emplace_back();
      rows.back()[names[i]] = values[i];
    }
  }
  return rows;
}

}  // namespace fulcrum::testing
