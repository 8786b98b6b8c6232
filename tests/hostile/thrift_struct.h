// Thrift's compact protocol, as far as Parquet's headers need it, for writing what no library would write.
//
// A plain value. Fields are added in ascending order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fulcrum::hostile {

class ThriftStruct {
 public:
  enum Width : char { k32Bits = 5, k64Bits = 6 };

  ThriftStruct& Number(int field, std::int64_t value, Width width = k32Bits) {
    Begin(field, width);
    return Zigzag(value);
  }
  ThriftStruct& Text(int field, const std::string& text) {
    Begin(field, kBinary);
    return Counted(text);
  }
  ThriftStruct& Struct(int field, const ThriftStruct& other) {
    Begin(field, kStruct);
    bytes_ += other.ToBytes();
    return *this;
  }
  ThriftStruct& Numbers(int field, const std::vector<std::int64_t>& numbers) {
    BeginList(field, numbers.size(), k32Bits);
    for (const std::int64_t number : numbers) Zigzag(number);
    return *this;
  }
  ThriftStruct& Texts(int field, const std::vector<std::string>& texts) {
    BeginList(field, texts.size(), kBinary);
    for (const std::string& text : texts) Counted(text);
    return *this;
  }
  ThriftStruct& Structs(int field, const std::vector<ThriftStruct>& others) {
    BeginList(field, others.size(), kStruct);
    for (const ThriftStruct& other : others) bytes_ += other.ToBytes();
    return *this;
  }

  std::string ToBytes() const { return bytes_ + '\0'; }

 private:
  static constexpr char kBinary = 8, kList = 9, kStruct = 12;

  void Begin(int field, char type) {
    bytes_ += static_cast<char>((field - last_field_) << 4 | type);
    last_field_ = field;
  }
  void BeginList(int field, std::size_t size, char type) {
    Begin(field, kList);
    bytes_ += static_cast<char>(0xf0 | type);
    Varint(size);
  }
  ThriftStruct& Zigzag(std::int64_t value) {
    return Varint(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
  }
  ThriftStruct& Counted(const std::string& text) {
    Varint(text.size());
    bytes_ += text;
    return *this;
  }
  ThriftStruct& Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }

  std::string bytes_;
  int last_field_ = 0;
};

}  // namespace fulcrum::hostile
