#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pipeline/server/access_control.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kTokenBytes = 32;
constexpr char kSchema[] = R"(
  CREATE TABLE IF NOT EXISTS token (
    name    TEXT PRIMARY KEY,
    role    TEXT NOT NULL,
    hash    TEXT NOT NULL UNIQUE,
    made_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
  );)";

/// The token has 256 random bits, so a plain hash is enough: there is nothing to guess.
std::string HashOf(const std::string& token) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  EVP_Digest(token.data(), token.size(), digest.data(), &length, EVP_sha256(), nullptr);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest.data()), length));
}

absl::StatusOr<std::string> NewToken() {
  std::array<unsigned char, kTokenBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return absl::UnavailableError("the system gives no random numbers for a token; try again");
  }
  std::string text;
  absl::WebSafeBase64Escape(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), &text);
  return absl::StrCat("fulcrum_", text);
}

/// Nothing that SQLite says is the caller's fault.
absl::Status CannotBe(const char* what, const absl::Status& why) {
  if (why.ok()) return why;
  return absl::UnavailableError(absl::StrCat("tokens cannot be ", what, "; retry later (", why.message(), ")"));
}

/// Before SQLite makes the file; what it puts next to it gets the same permissions.
absl::Status MakePrivate(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return absl::UnavailableError(absl::StrCat("cannot open '", path, "': ", std::strerror(errno)));
  }
  // A file of an older version; that of another user stays as it is.
  static_cast<void>(fchmod(descriptor, 0600) == 0);
  close(descriptor);
  for (const char* const suffix : {"-wal", "-shm"}) static_cast<void>(chmod((path + suffix).c_str(), 0600) == 0);
  return absl::OkStatus();
}

}  // namespace

std::string RoleName(Role role) {
  switch (role) {
    case Role::kReader:
      return "reader";
    case Role::kAnnotator:
      return "annotator";
    case Role::kAdmin:
      return "admin";
  }
  return "reader";
}

absl::StatusOr<Role> ParseRole(const std::string& name) {
  for (const Role role : {Role::kReader, Role::kAnnotator, Role::kAdmin}) {
    if (name == RoleName(role)) return role;
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no role '", name, "'; choose reader, annotator or admin"));
}

absl::StatusOr<std::unique_ptr<TokenStore>> TokenStore::Open(const std::string& data_folder) {
  const std::string path = data_folder + "/tokens.db";
  FULCRUM_RETURN_IF_ERROR(MakePrivate(path));
  FULCRUM_ASSIGN_OR_RETURN(auto database, storage::SqliteDatabase::Open(path));
  FULCRUM_RETURN_IF_ERROR(database.Execute(kSchema));
  FULCRUM_ASSIGN_OR_RETURN(auto version, database.Prepare("PRAGMA data_version"));
  return std::unique_ptr<TokenStore>(new TokenStore(std::move(database), std::move(version)));
}

absl::StatusOr<std::vector<TokenEntry>> TokenStore::ReadAll() {
  std::vector<TokenEntry> entries;
  FULCRUM_ASSIGN_OR_RETURN(auto query, database_.Prepare("SELECT name, role, made_at, hash FROM token ORDER BY name"));
  while (true) {
    FULCRUM_ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return entries;
    const auto role = ParseRole(std::string(query.ColumnText(1)));
    entries.push_back({.name = std::string(query.ColumnText(0)),
                       .role = role.ok() ? *role : Role::kReader,
                       .made_at = std::string(query.ColumnText(2)),
                       .hash = std::string(query.ColumnText(3))});
  }
}

absl::Status TokenStore::Refresh() {
  version_.Reset();
  const auto row = version_.Step();
  const std::optional<std::int64_t> version = row.ok() && *row ? std::optional(version_.ColumnInt64(0)) : std::nullopt;
  version_.Reset();
  if (version && version == known_version_) return absl::OkStatus();
  absl::StatusOr<std::vector<TokenEntry>> entries = ReadAll();
  if (!entries.ok()) return CannotBe("read", entries.status());
  known_.clear();
  for (TokenEntry& entry : *entries) known_.emplace(entry.hash, std::move(entry));
  known_version_ = version;
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenStore::Create(const std::string& name, Role role) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string token, NewToken());
  const std::scoped_lock lock(mutex_);
  const absl::Status inserted =
      Change("INSERT INTO token (name, role, hash) VALUES (?1, ?2, ?3)", {name, RoleName(role), HashOf(token)});
  if (absl::IsAlreadyExists(inserted)) {
    return absl::AlreadyExistsError(absl::StrCat("'", name, "' has a token; revoke it first to make a new one"));
  }
  FULCRUM_RETURN_IF_ERROR(CannotBe("changed", inserted));
  return token;
}

absl::Status TokenStore::Change(const char* sql, const std::vector<std::string>& values) {
  FULCRUM_ASSIGN_OR_RETURN(auto change, database_.Prepare(sql));
  for (std::size_t i = 0; i < values.size(); ++i) {
    FULCRUM_RETURN_IF_ERROR(change.Bind(static_cast<int>(i) + 1, values[i]));
  }
  // The version tells of other connections only.
  known_version_.reset();
  return change.Run();
}

absl::StatusOr<std::vector<TokenEntry>> TokenStore::List() {
  const std::scoped_lock lock(mutex_);
  absl::StatusOr<std::vector<TokenEntry>> entries = ReadAll();
  if (!entries.ok()) return CannotBe("read", entries.status());
  return entries;
}

absl::Status TokenStore::Revoke(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  FULCRUM_RETURN_IF_ERROR(CannotBe("changed", Change("DELETE FROM token WHERE name = ?1", {name})));
  if (database_.changes() > 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("'", name, "' has no token; `fulcrum token list` shows who has one"));
}

absl::StatusOr<TokenEntry> TokenStore::Find(const std::string& token) {
  return FindByHash(HashOf(token));
}

absl::StatusOr<TokenEntry> TokenStore::FindByHash(const std::string& hash) {
  const std::scoped_lock lock(mutex_);
  FULCRUM_RETURN_IF_ERROR(Refresh());
  const auto found = known_.find(hash);
  if (found == known_.end()) return absl::NotFoundError("unknown or revoked token");
  return found->second;
}

}  // namespace fulcrum::pipeline
