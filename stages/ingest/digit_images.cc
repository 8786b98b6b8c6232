#include "stages/ingest/digit_images.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::ingest {
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

/// The checksum of PNG.
std::uint32_t Crc(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

std::string BigEndian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift & 0xFF));
  return bytes;
}

std::string Chunk(std::string_view kind, const std::string& data) {
  std::string body(kind);
  body += data;
  return absl::StrCat(BigEndian(static_cast<std::uint32_t>(data.size())), body, BigEndian(Crc(body)));
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
