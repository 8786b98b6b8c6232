// Who may call the daemon: bearer tokens with a name and a role, kept hashed.
//
// A token is 32 random bytes as text, shown once when it is made; only its SHA-256 is stored, so the file gives nobody
// access. Several processes may use one book (the daemon reads while `fulcrum token` writes). Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sqlite/sqlite.h"

namespace fulcrum::pipeline {

enum class Role { kReader, kAnnotator, kAdmin };
/// "reader", "annotator", "admin"
std::string RoleName(Role role);
absl::StatusOr<Role> ParseRole(const std::string& name);

struct TokenEntry {
  std::string name = {};
  Role role = Role::kReader;
  std::string made_at = {};
};

class TokenStore {
 public:
  /// Opens or makes DATA/tokens.db.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(const std::string& data_folder);

  /// The new token. AlreadyExists for a name that has one.
  absl::StatusOr<std::string> Create(const std::string& name, Role role);
  std::vector<TokenEntry> List();
  /// NotFound for a name that has none.
  absl::Status Revoke(const std::string& name);
  /// Whose token this is; nothing where it is nobody's.
  std::optional<TokenEntry> Find(const std::string& token);

 private:
  explicit TokenStore(storage::SqliteDatabase database) : database_(std::move(database)) {}

  std::mutex mutex_;
  storage::SqliteDatabase database_;
};

}  // namespace fulcrum::pipeline
