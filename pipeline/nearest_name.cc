#include "pipeline/nearest_name.h"

#include <algorithm>

namespace fulcrum::pipeline {

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> distance(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      distance[i][j] = std::min({replaced, distance[i - 1][j] + 1, distance[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

std::string NearestName(std::string_view word, const std::vector<std::string>& names) {
  std::string nearest;
  // A third of the letters wrong is a typo; more is another word.
  std::size_t smallest = word.size() / 3 + 1;
  for (const std::string& name : names) {
    if (const std::size_t distance = EditDistance(word, name); distance < smallest) {
      smallest = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace fulcrum::pipeline
