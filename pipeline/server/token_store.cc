#include "pipeline/server/token_store.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
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
  FULCRUM_ASSIGN_OR_RETURN(auto database, storage::SqliteDatabase::Open(data_folder + "/tokens.db"));
  FULCRUM_RETURN_IF_ERROR(database.Execute(kSchema));
  return std::unique_ptr<TokenStore>(new TokenStore(std::move(database)));
}

absl::StatusOr<std::string> TokenStore::Create(const std::string& name, Role role) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string token, NewToken());
  const std::scoped_lock lock(mutex_);
  FULCRUM_ASSIGN_OR_RETURN(auto insert, database_.Prepare("INSERT INTO token (name, role, hash) VALUES (?1, ?2, ?3)"));
  FULCRUM_RETURN_IF_ERROR(insert.Bind(1, name));
  FULCRUM_RETURN_IF_ERROR(insert.Bind(2, RoleName(role)));
  FULCRUM_RETURN_IF_ERROR(insert.Bind(3, HashOf(token)));
  if (const absl::Status status = insert.Run(); !status.ok()) {
    if (status.code() != absl::StatusCode::kAlreadyExists) return status;
    return absl::AlreadyExistsError(absl::StrCat("'", name, "' has a token; revoke it first to make a new one"));
  }
  return token;
}

std::vector<TokenEntry> TokenStore::List() {
  const std::scoped_lock lock(mutex_);
  std::vector<TokenEntry> entries;
  auto query = database_.Prepare("SELECT name, role, made_at FROM token ORDER BY name");
  while (query.ok()) {
    const auto row = query->Step();
    if (!row.ok() || !*row) break;
    const auto role = ParseRole(std::string(query->ColumnText(1)));
    entries.push_back({.name = std::string(query->ColumnText(0)),
                       .role = role.ok() ? *role : Role::kReader,
                       .made_at = std::string(query->ColumnText(2))});
  }
  return entries;
}

absl::Status TokenStore::Revoke(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  FULCRUM_ASSIGN_OR_RETURN(auto erase, database_.Prepare("DELETE FROM token WHERE name = ?1"));
  FULCRUM_RETURN_IF_ERROR(erase.Bind(1, name));
  FULCRUM_RETURN_IF_ERROR(erase.Run());
  if (database_.changes() > 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("'", name, "' has no token; `fulcrum token list` shows who has one"));
}

std::optional<TokenEntry> TokenStore::Find(const std::string& token) {
  const std::scoped_lock lock(mutex_);
  auto query = database_.Prepare("SELECT name, role, made_at FROM token WHERE hash = ?1");
  if (!query.ok() || !query->Bind(1, HashOf(token)).ok()) return std::nullopt;
  const auto row = query->Step();
  if (!row.ok() || !*row) return std::nullopt;
  const auto role = ParseRole(std::string(query->ColumnText(1)));
  if (!role.ok()) return std::nullopt;
  return TokenEntry{
      .name = std::string(query->ColumnText(0)), .role = *role, .made_at = std::string(query->ColumnText(2))};
}

}  // namespace fulcrum::pipeline
