#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "stages/ingest/columns/column_values.h"

namespace fulcrum::ingest {
namespace {

constexpr std::size_t kTransposedRows = 21, kStride = 11;  // whole tiles and a rest; rows wider than the columns

struct Table {
  std::vector<std::vector<float>> columns;
  std::array<const float*, kColumnsTogether> pointers = {};
  std::vector<float> rows = std::vector<float>(kTransposedRows * kStride, -1.0F);

  Table() {
    for (std::size_t col = 0; col < kColumnsTogether; ++col) {
      columns.emplace_back();
      for (std::size_t row = 0; row < kTransposedRows; ++row)
        columns[col].push_back(static_cast<float>(100 * col + row));
    }
    for (std::size_t col = 0; col < kColumnsTogether; ++col) pointers[col] = columns[col].data();
  }
  bool Transpose() { return TransposeFinite(pointers, kTransposedRows, rows.data(), kStride); }
};

TEST(TransposeTest, EveryValueComesToItsPlaceAndNoneBeside) {
  Table table;
  table.columns[3][5] = std::numeric_limits<float>::max();
  table.columns[4][20] = -std::numeric_limits<float>::denorm_min();
  ASSERT_TRUE(table.Transpose());
  for (std::size_t row = 0; row < kTransposedRows; ++row) {
    for (std::size_t col = 0; col < kStride; ++col) {
      const float expected = col < kColumnsTogether ? table.columns[col][row] : -1.0F;
      EXPECT_EQ(table.rows[row * kStride + col], expected) << row << ", " << col;
    }
  }
}

TEST(TransposeTest, FindsAValueThatIsNotFiniteWhereverItIs) {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (std::size_t cell = 0; cell < kTransposedRows * kColumnsTogether; ++cell) {
      Table table;
      table.columns[cell % kColumnsTogether][cell / kColumnsTogether] = bad;
      EXPECT_FALSE(table.Transpose()) << bad << " in cell " << cell;
    }
  }
}

}  // namespace
}  // namespace fulcrum::ingest
