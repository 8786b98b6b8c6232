// Saving and loading a model together with the features of its support vectors, so that it predicts without its pool.
//
// The format is binary and little-endian: the text "FULCRUMSVM", a version, the model, a checksum over all of it. Pure
// functions, thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::classify {

/// A model that was saved. Its support_rows are rows of its own `features`, 0, 1, 2, ...
struct SavedSvm {
  SvmModel model;
  std::unique_ptr<const kernel::DenseFeatures> features;
  RowList pool_rows;  ///< the support rows in the pool that the model was trained on
};

/// `support_features` is the pool that the model was trained on. Sparse support vectors are written as dense rows.
absl::StatusOr<std::string> SerializeSvm(const SvmModel& model, const kernel::Features& support_features);

/// InvalidArgument if the bytes are not a model or of a newer version, DataLoss if they are damaged or truncated.
absl::StatusOr<SavedSvm> ParseSvm(std::string_view bytes);

absl::Status SaveSvm(const SvmModel& model, const kernel::Features& support_features, const std::string& path);
absl::StatusOr<SavedSvm> LoadSvm(const std::string& path);

// Little-endian encoding of numbers for the model format. Not thread-safe.

static_assert(std::endian::native == std::endian::little, "the model format is little-endian");

class ByteWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void Put(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void PutDoubles(std::span<const double> values) {
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void PutText(std::string_view text) { bytes_.append(text); }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reading past the end returns zeros and sets ok() to false: check once after a group of reads.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  requires std::is_arithmetic_v<T> T Get() {
    T value{};
    Copy(&value, sizeof(value));
    return value;
  }
  void GetDoubles(std::span<double> values) { Copy(values.data(), values.size_bytes()); }
  /// A text whose length came before it; empty if there is less.
  std::string GetText(std::uint64_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_; }
  std::size_t remaining() const { return bytes_.size(); }

 private:
  void Copy(void* to, std::size_t size) {
    if (size > bytes_.size()) {
      ok_ = false;
      std::memset(to, 0, size);
      return;
    }
    if (size > 0) std::memcpy(to, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }

  std::string_view bytes_;
  bool ok_ = true;
};

// Export of a model to LIBSVM's text format, for svm-predict and all bindings of LIBSVM. Pure functions, thread-safe.

/// Returns the text of a model that svm_load_model reads, with the same decision values. LIBSVM's labels are
/// `class_labels` by class index, or the class indices if it is empty. rbf has gamma = 1 / sigma^2, poly gamma = 1. A
/// cosine model becomes a linear model on unit rows: its input must be scaled to unit length. Returns InvalidArgument
/// for a normalised kernel, which LIBSVM does not have, and Unimplemented if only the inner
/// products of the features are known.
absl::StatusOr<std::string> FormatLibsvmModel(const SvmModel& model, const kernel::Features& support_features,
                                              std::span<const int> class_labels = {});

absl::Status ExportLibsvmModel(const SvmModel& model, const kernel::Features& support_features, const std::string& path,
                               std::span<const int> class_labels = {});

}  // namespace fulcrum::classify
