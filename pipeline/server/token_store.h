// Who may call the daemon: bearer tokens with a name and a role, kept hashed.
//
// A token is 32 random bytes as text, shown once when it is made; only its SHA-256 is stored, so that the file gives
// nobody access. Several processes may use one store (the daemon reads while `fulcrum token` writes): a change is seen
// by the next call. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
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
  std::string hash = {};  ///< of the token; names the token without giving access
};

class TokenStore {
 public:
  /// Opens or makes DATA/tokens.db, which only its owner may read.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(const std::string& data_folder);

  /// The new token. AlreadyExists for a name that has one, Unavailable if tokens cannot be changed now.
  absl::StatusOr<std::string> Create(const std::string& name, Role role);
  /// By name. Unavailable if they cannot be read now.
  absl::StatusOr<std::vector<TokenEntry>> List();
  /// NotFound for a name that has none, Unavailable if tokens cannot be changed now.
  absl::Status Revoke(const std::string& name);
  /// The owner of a token; NotFound if it is unknown or revoked, Unavailable if the tokens cannot be read now.
  absl::StatusOr<TokenEntry> Find(const std::string& token);
  /// The same for a token's hash.
  absl::StatusOr<TokenEntry> FindByHash(const std::string& hash);

 private:
  TokenStore(storage::SqliteDatabase database, storage::SqliteStatement version)
      : database_(std::move(database)), version_(std::move(version)) {}
  absl::StatusOr<std::vector<TokenEntry>> ReadAll();
  /// Executes a statement with these parameters.
  absl::Status Change(const char* sql, const std::vector<std::string>& values);
  /// Reads the tokens again if another process has changed them. Unavailable if they cannot be read now.
  absl::Status Refresh();

  std::mutex mutex_;
  storage::SqliteDatabase database_;
  storage::SqliteStatement version_;  // changes with every change by another connection
  std::optional<std::int64_t> known_version_;
  std::unordered_map<std::string, TokenEntry> known_;  // by hash, as of that version
};

}  // namespace fulcrum::pipeline
