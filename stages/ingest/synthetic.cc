#include "stages/ingest/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "stages/core/files.h"
#include "stages/core/random.h"

namespace fulcrum::ingest {
namespace {

using Features = std::span<double>;

/// What is the same for all rows of a data set has streams of its own, which no row number reaches.
Random SharedRandom(const SyntheticSpec& spec, std::uint64_t stream) {
  return Random::Fork(spec.seed ^ 0x9e3779b97f4a7c15, stream);
}

void FillNormal(Random& random, Features features, double mean = 0, double deviation = 1) {
  for (double& value : features) value = mean + deviation * random.Normal();
}

/// A cluster around the center of class `index`; centers are `distance` from the origin on average.
void FillCluster(const SyntheticSpec& spec, std::uint64_t index, double distance, Random& random, Features features) {
  Random center = SharedRandom(spec, index);
  const double scale = distance / std::sqrt(static_cast<double>(features.size()));
  for (double& value : features) value = scale * center.Normal() + random.Normal();
}

int Sign(bool positive) {
  return positive ? 1 : -1;
}

int Twonorm(const SyntheticSpec& spec, Random& random, Features features) {
  const bool first = random.Uniform() < 0.5;
  const double a = spec.mean_factor / std::sqrt(static_cast<double>(features.size()));
  FillNormal(random, features, first ? a : -a);
  return Sign(first);
}

int Ringnorm(const SyntheticSpec& spec, Random& random, Features features) {
  const bool first = random.Uniform() < 0.5;
  const double a = spec.mean_factor / std::sqrt(static_cast<double>(features.size()));
  FillNormal(random, features, first ? 0 : a, first ? 2 : 1);
  return Sign(first);
}

int ManyClasses(const SyntheticSpec& spec, Random& random, Features features) {
  const std::uint64_t index = random.Below(20);
  FillCluster(spec, index, 4, random, features);
  return static_cast<int>(index);
}

int Imbalance(const SyntheticSpec& spec, Random& random, Features features) {
  const bool rare = random.Uniform() < 0.1;
  FillCluster(spec, rare ? 1 : 0, 2, random, features);
  return Sign(rare);
}

/// Word number w has weight 1 / (w + 1), as in a text; each class has a quarter of the words more often.
int Words(const SyntheticSpec& spec, Random& random, Features features) {
  const std::uint64_t index = random.Below(4);
  Random topic = SharedRandom(spec, index);
  std::vector<double> sums(features.size());
  double sum = 0;
  for (std::size_t word = 0; word < sums.size(); ++word) {
    const double preference = topic.Uniform() < 0.25 ? 3 * topic.Uniform() : 0;
    sums[word] = sum += (1 + preference) / static_cast<double>(word + 1);
  }
  std::ranges::fill(features, 0.0);
  for (std::uint64_t length = 20 + random.Below(60); length > 0; --length) {
    const auto word = std::ranges::lower_bound(sums, random.Uniform() * sum) - sums.begin();
    features[std::min(static_cast<std::size_t>(word), sums.size() - 1)] += 1;
  }
  return static_cast<int>(index);
}

/// Six clusters in five dimensions, seen through a random projection to all columns, with a little noise.
int Embeddings(const SyntheticSpec& spec, Random& random, Features features) {
  const std::uint64_t index = random.Below(6);
  double latent[5];
  FillCluster(spec, index, 4, random, latent);
  Random projection = SharedRandom(spec, 100);
  for (double& value : features) {
    value = 0.3 * random.Normal();
    for (const double coordinate : latent) value += coordinate * projection.Normal();
  }
  return static_cast<int>(index);
}

/// Three clusters; 200 rows in all, each of which comes again and again.
int Duplicates(const SyntheticSpec& spec, Random& random, Features features) {
  Random copy = SharedRandom(spec, 1000 + random.Below(200));
  const std::uint64_t index = copy.Below(3);
  FillCluster(spec, index, 3, copy, features);
  return static_cast<int>(index);
}

int Outliers(const SyntheticSpec& spec, Random& random, Features features) {
  const std::uint64_t index = random.Below(3);
  FillCluster(spec, index, 4, random, features);
  for (double& value : features) {
    if (random.Uniform() < 0.03) value *= std::exp(3 + random.Normal());
  }
  return static_cast<int>(index);
}

int LabelNoise(const SyntheticSpec& spec, Random& random, Features features) {
  const int label = Twonorm(spec, random, features);
  return random.Uniform() < 0.2 ? -label : label;
}

// The next ones are about the first two columns; the others are noise.

void SetPoint(double x, double y, Random& random, Features features) {
  FillNormal(random, features, 0, 0.3);
  features[0] = x;
  if (features.size() > 1) features[1] = y;
}

int Rings(const SyntheticSpec&, Random& random, Features features) {
  const bool inner = random.Uniform() < 0.5;
  const double angle = 2 * std::numbers::pi * random.Uniform();
  const double radius = (inner ? 1 : 2) + 0.2 * random.Normal();
  SetPoint(radius * std::cos(angle), radius * std::sin(angle), random, features);
  return Sign(inner);
}

int Moons(const SyntheticSpec&, Random& random, Features features) {
  const bool upper = random.Uniform() < 0.5;
  const double angle = std::numbers::pi * random.Uniform();
  const double x = upper ? std::cos(angle) : 1 - std::cos(angle), y = upper ? std::sin(angle) : 0.5 - std::sin(angle);
  SetPoint(x + 0.2 * random.Normal(), y + 0.2 * random.Normal(), random, features);
  return Sign(upper);
}

int Spirals(const SyntheticSpec&, Random& random, Features features) {
  const bool first = random.Uniform() < 0.5;
  const double turn = 3 * std::numbers::pi * random.Uniform(), radius = 0.3 + 0.2 * turn;
  const double angle = turn + (first ? 0 : std::numbers::pi);
  SetPoint(radius * std::cos(angle) + 0.1 * random.Normal(), radius * std::sin(angle) + 0.1 * random.Normal(), random,
           features);
  return Sign(first);
}

int Xor(const SyntheticSpec&, Random& random, Features features) {
  const double x = random.Normal(), y = random.Normal();
  SetPoint(x, y, random, features);
  return Sign((x > 0) == (y > 0));
}

int Checkerboard(const SyntheticSpec&, Random& random, Features features) {
  const double x = 4 * random.Uniform(), y = 4 * random.Uniform();
  SetPoint(x, y, random, features);
  return Sign((static_cast<int>(x) + static_cast<int>(y)) % 2 == 0);
}

/// Codes 0 to 3; the class is the majority of three comparisons between columns.
int Categories(const SyntheticSpec&, Random& random, Features features) {
  for (double& value : features) value = static_cast<double>(random.Below(4));
  const auto at = [&](std::size_t column) { return features[column % features.size()]; };
  const int votes = (at(0) == 2 ? 1 : 0) + (at(1) == at(2) ? 1 : 0) + (at(3) == 0 || at(3) == 3 ? 1 : 0);
  return Sign(votes >= 2);
}

int Scales(const SyntheticSpec& spec, Random& random, Features features) {
  const std::uint64_t index = random.Below(3);
  FillCluster(spec, index, 3, random, features);
  Random scale = SharedRandom(spec, 100);
  for (double& value : features) value *= std::pow(10, 5 * scale.Uniform() - 2);
  return static_cast<int>(index);
}

int DigitImages(const SyntheticSpec&, Random& random, Features features) {
  return DrawDigit(random, features);
}

using Generator = int (*)(const SyntheticSpec&, Random&, Features);

// Parallel to kEntries.
constexpr Generator kGenerators[] = {Twonorm,    Ringnorm,   ManyClasses, Imbalance,    Words,      Embeddings,
                                     Duplicates, Outliers,   LabelNoise,  Rings,        Moons,      Spirals,
                                     Xor,        Categories, Scales,      Checkerboard, DigitImages};
constexpr SyntheticEntry kEntries[] = {
    {"twonorm", "class 1 from N((a,...,a), I), class -1 from N(-(a,...,a), I), a = 2/sqrt(dims)"},
    {"ringnorm", "class 1 from N(0, 4 I), class -1 from N((a,...,a), I), a = 1/sqrt(dims)"},
    {"many-classes", "20 clusters, a class each"},
    {"imbalance", "two clusters; class 1 has a tenth of the rows"},
    {"words", "counts of words in texts on 4 topics; most are zero if there are many columns"},
    {"embeddings", "6 clusters in 5 dimensions, projected to all columns"},
    {"duplicates", "3 clusters of 200 different rows in all"},
    {"outliers", "3 clusters; 3 percent of the values are much too large"},
    {"label-noise", "twonorm with a fifth of the labels wrong"},
    {"rings", "two rings in the first two columns, the others are noise"},
    {"moons", "two half circles in the first two columns, the others are noise"},
    {"spirals", "two spirals in the first two columns, the others are noise"},
    {"xor", "whether the first two columns have the same sign, the others are noise"},
    {"categories", "codes of four categories; the majority of three comparisons"},
    {"scales", "3 clusters; columns of very unequal scale"},
    {"checkerboard", "4 x 4 squares in the first two columns, the others are noise"},
    {"digits", "10 digits as images; the features are the pixels, the column image shows them"}};
static_assert(std::size(kEntries) == std::size(kGenerators));

}  // namespace

std::span<const SyntheticEntry> SyntheticProblems() {
  return kEntries;
}

absl::StatusOr<SyntheticProblem> ParseSyntheticProblem(absl::string_view name) {
  std::string names;
  for (std::size_t i = 0; i < std::size(kEntries); ++i) {
    if (name == kEntries[i].name) return static_cast<SyntheticProblem>(i);
    absl::StrAppend(&names, i == 0 ? "" : i + 1 == std::size(kEntries) ? " or " : ", ", kEntries[i].name);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown problem '", name, "'; it must be ", names));
}

double BreimanMeanFactor(SyntheticProblem problem) {
  return problem == SyntheticProblem::kRingnorm ? 1 : 2;
}

int GenerateRow(const SyntheticSpec& spec, std::uint64_t row, std::span<double> features) {
  Random random = Random::Fork(spec.seed, row);
  return kGenerators[static_cast<std::size_t>(spec.problem)](spec, random, features);
}

namespace {

struct Dot {
  double x = 0, y = 0;
};
using Stroke = std::vector<Dot>;

Stroke Arc(double x, double y, double radius_x, double radius_y, double from, double to) {
  Stroke stroke;
  constexpr int kParts = 10;
  for (int i = 0; i <= kParts; ++i) {
    const double angle = from + (to - from) * i / kParts;
    stroke.push_back({x + radius_x * std::cos(angle), y + radius_y * std::sin(angle)});
  }
  return stroke;
}

/// In the unit square, y downwards.
const std::vector<std::vector<Stroke>>& Digits() {
  constexpr double kTurn = 6.283185307179586;
  static const auto* const digits = new std::vector<std::vector<Stroke>>{
      {Arc(0.5, 0.5, 0.26, 0.38, 0, kTurn)},
      {{{0.35, 0.28}, {0.54, 0.12}, {0.54, 0.88}}},
      {Arc(0.5, 0.33, 0.24, 0.21, -0.52 * kTurn, 0.08 * kTurn), {{0.69, 0.44}, {0.27, 0.88}, {0.76, 0.88}}},
      {Arc(0.47, 0.31, 0.24, 0.19, -0.45 * kTurn, 0.25 * kTurn),
       Arc(0.47, 0.69, 0.26, 0.2, -0.25 * kTurn, 0.45 * kTurn)},
      {{{0.6, 0.12}, {0.24, 0.62}, {0.78, 0.62}}, {{0.6, 0.38}, {0.6, 0.9}}},
      {{{0.72, 0.13}, {0.34, 0.13}, {0.31, 0.45}}, Arc(0.48, 0.65, 0.25, 0.23, -0.37 * kTurn, 0.4 * kTurn)},
      {{{0.64, 0.12}, {0.36, 0.44}, {0.27, 0.66}}, Arc(0.5, 0.67, 0.23, 0.21, 0, kTurn)},
      {{{0.25, 0.14}, {0.74, 0.14}, {0.43, 0.9}}},
      {Arc(0.5, 0.3, 0.2, 0.18, 0, kTurn), Arc(0.5, 0.69, 0.24, 0.2, 0, kTurn)},
      {Arc(0.49, 0.33, 0.22, 0.21, 0, kTurn), {{0.71, 0.34}, {0.66, 0.6}, {0.5, 0.89}}}};
  return *digits;
}

double SquaredDistance(const Dot& from, const Dot& to, double x, double y) {
  const double dx = to.x - from.x, dy = to.y - from.y;
  const double length = dx * dx + dy * dy;
  const double part = length > 0 ? std::clamp(((x - from.x) * dx + (y - from.y) * dy) / length, 0.0, 1.0) : 0;
  const double ex = x - from.x - part * dx, ey = y - from.y - part * dy;
  return ex * ex + ey * ey;
}

std::string BigEndian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift & 0xFF));
  return bytes;
}

std::string Chunk(std::string_view kind, const std::string& data) {
  std::string body(kind);
  body += data;
  Crc32 checksum;
  checksum.Add(body);
  return absl::StrCat(BigEndian(static_cast<std::uint32_t>(data.size())), body, BigEndian(checksum.value()));
}

/// A zlib stream of blocks that are not compressed: such small images would gain nothing.
std::string Stored(const std::string& data) {
  constexpr std::size_t kLongestBlock = 65535;
  std::string out = "\x78\x01";
  std::uint32_t a = 1, b = 0;
  for (const char byte : data) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  for (std::size_t first = 0; first < data.size(); first += kLongestBlock) {
    const std::size_t size = std::min(kLongestBlock, data.size() - first);
    out.push_back(first + size == data.size() ? 1 : 0);
    for (const std::size_t length : {size, ~size}) {
      out.push_back(static_cast<char>(length & 0xFF));
      out.push_back(static_cast<char>(length >> 8 & 0xFF));
    }
    out += data.substr(first, size);
  }
  return out + BigEndian(b << 16 | a);
}

}  // namespace

std::size_t ImageSide(std::size_t count) {
  auto side = static_cast<std::size_t>(std::sqrt(static_cast<double>(count)));
  while (side * side > count) --side;
  return side;
}

int DrawDigit(Random& random, std::span<double> pixels) {
  const std::size_t side = ImageSide(pixels.size());
  const auto digit = static_cast<int>(random.Below(Digits().size()));
  const double turn = 0.13 * random.Normal(), slant = 0.12 * random.Normal();
  const double width = 0.95 + 0.1 * random.Normal(), height = 1 + 0.08 * random.Normal();
  const double right = 0.04 * random.Normal(), down = 0.04 * random.Normal();
  const double pen = 0.045 + 0.02 * random.Uniform(), ink = 0.8 + 0.2 * random.Uniform();
  std::fill(pixels.begin(), pixels.end(), 0.0);
  for (std::size_t row = 0; row < side; ++row) {
    for (std::size_t column = 0; column < side; ++column) {
      // From the pixel back to the unit square of the strokes.
      const double u = (static_cast<double>(column) + 0.5) / static_cast<double>(side) - 0.5 - right;
      const double v = (static_cast<double>(row) + 0.5) / static_cast<double>(side) - 0.5 - down;
      const double y = (std::cos(turn) * v - std::sin(turn) * u) / height;
      const double x = (std::cos(turn) * u + std::sin(turn) * v) / width + slant * y;
      double nearest = 1;
      for (const Stroke& stroke : Digits()[static_cast<std::size_t>(digit)]) {
        for (std::size_t i = 1; i < stroke.size(); ++i) {
          nearest = std::min(nearest, SquaredDistance(stroke[i - 1], stroke[i], x + 0.5, y + 0.5));
        }
      }
      const double edge = 0.6 / static_cast<double>(side);
      const double dark = ink * std::clamp((pen + edge - std::sqrt(nearest)) / (2 * edge), 0.0, 1.0);
      // 8 bits, so that the image shows exactly what the features are.
      const double value = std::clamp(dark + 0.06 * random.Normal(), 0.0, 1.0);
      pixels[row * side + column] = std::round(255 * value) / 255;
    }
  }
  return digit;
}

std::string ImageUrl(std::span<const double> pixels) {
  const std::size_t side = ImageSide(pixels.size());
  std::string rows;
  for (std::size_t i = 0; i < side * side; ++i) {
    if (i % side == 0) rows.push_back(0);  // no filter
    rows.push_back(static_cast<char>(std::lround(255 * (1 - std::clamp(pixels[i], 0.0, 1.0)))));
  }
  const std::string size = BigEndian(static_cast<std::uint32_t>(side));
  const std::string png = absl::StrCat("\x89PNG\r\n\x1a\n", Chunk("IHDR", size + size + std::string("\x08\0\0\0\0", 5)),
                                       Chunk("IDAT", Stored(rows)), Chunk("IEND", ""));
  return absl::StrCat("data:image/png;base64,", absl::Base64Escape(png));
}

}  // namespace fulcrum::ingest
