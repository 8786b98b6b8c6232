#include "tests/hostile/mutation.h"

#include <algorithm>

namespace fulcrum::hostile {
namespace {

std::size_t PlaceIn(const std::string& bytes, Random& random) {
  // Formats keep what they say about themselves at their ends.
  constexpr std::size_t kNearTheEnd = 400;
  if (random.Below(2) == 0 && bytes.size() > kNearTheEnd) return bytes.size() - 1 - random.Below(kNearTheEnd);
  return random.Below(bytes.size());
}

void FlipBits(std::string& bytes, Random& random) {
  for (std::uint64_t flips = 1 + random.Below(8); flips > 0; --flips) {
    char& byte = bytes[PlaceIn(bytes, random)];
    byte = static_cast<char>(byte ^ (1 << random.Below(8)));
  }
}

void WriteExtremes(std::string& bytes, Random& random) {
  constexpr unsigned char kExtremes[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
  const std::size_t place = PlaceIn(bytes, random);
  const std::size_t count = std::min<std::size_t>(1 + random.Below(8), bytes.size() - place);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[place + i] = static_cast<char>(kExtremes[random.Below(sizeof(kExtremes))]);
  }
}

void CutEnd(std::string& bytes, Random& random) {
  bytes.resize(random.Below(bytes.size()));
}

void CutPiece(std::string& bytes, Random& random) {
  bytes.erase(PlaceIn(bytes, random), 1 + random.Below(64));
}

void RepeatPiece(std::string& bytes, Random& random) {
  const std::string piece = bytes.substr(PlaceIn(bytes, random), 1 + random.Below(128));
  bytes.insert(random.Below(bytes.size()), piece);
}

void Splice(std::string& bytes, const std::string& other, Random& random) {
  const std::string& from = other.empty() ? bytes : other;
  const std::string piece = from.substr(random.Below(from.size()), 1 + random.Below(256));
  bytes.replace(PlaceIn(bytes, random), piece.size(), piece);
}

}  // namespace

std::string Mutate(std::string bytes, const std::string& other, Random& random) {
  for (std::uint64_t damages = 1 + random.Below(4); damages > 0 && !bytes.empty(); --damages) {
    switch (random.Below(8)) {
      case 0:
        CutEnd(bytes, random);
        break;
      case 1:
        CutPiece(bytes, random);
        break;
      case 2:
        RepeatPiece(bytes, random);
        break;
      case 3:
        Splice(bytes, other, random);
        break;
      case 4:
      case 5:
        WriteExtremes(bytes, random);
        break;
      default:
        FlipBits(bytes, random);
    }
  }
  return bytes;
}

}  // namespace fulcrum::hostile
