// `fulcrum token`: the tokens that callers of the daemon need.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/server/access_control.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kTokenFooter[] = R"(Roles:
  annotator   takes and labels tasks under its own name
  reader      reads, watches and exports campaigns
  admin       may do everything

A token is shown once, on standard output; only its hash is stored. Revoking takes effect immediately, without a restart of the daemon.

Example:
  fulcrum token create --data ./data --name ada --role annotator > ada.token)";

struct TokenFlags {
  std::string data = {};
  std::string name = {};
  std::string role = "annotator";
};

absl::StatusOr<std::unique_ptr<TokenStore>> OpenTokens(const TokenFlags& flags) {
  std::error_code error;
  std::filesystem::create_directories(flags.data, error);
  if (error)
    return absl::InvalidArgumentError(absl::StrCat("--data: cannot create '", flags.data, "': ", error.message()));
  return TokenStore::Open(flags.data);
}

absl::Status CreateToken(const TokenFlags& flags) {
  FULCRUM_ASSIGN_OR_RETURN(const Role role, ParseRole(flags.role));
  FULCRUM_ASSIGN_OR_RETURN(const auto tokens, OpenTokens(flags));
  FULCRUM_ASSIGN_OR_RETURN(const std::string token, tokens->Create(flags.name, role));
  std::printf("%s\n", token.c_str());
  return absl::OkStatus();
}

absl::Status ListTokens(const TokenFlags& flags) {
  FULCRUM_ASSIGN_OR_RETURN(const auto tokens, OpenTokens(flags));
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<TokenEntry> entries, tokens->List());
  for (const TokenEntry& entry : entries) {
    std::printf("%-24s %-10s %s\n", entry.name.c_str(), RoleName(entry.role).c_str(), entry.made_at.c_str());
  }
  return absl::OkStatus();
}

absl::Status RevokeToken(const TokenFlags& flags) {
  FULCRUM_ASSIGN_OR_RETURN(const auto tokens, OpenTokens(flags));
  return tokens->Revoke(flags.name);
}

}  // namespace

Command TokenCommand() {
  return {.name = "token",
          .group = "Daemon",
          .summary = "Create, list and revoke the tokens that callers of the daemon need",
          .add = [](CLI::App& app) -> CommandRun {
            const auto flags = std::make_shared<TokenFlags>();
            const auto chosen = std::make_shared<absl::Status (*)(const TokenFlags&)>(nullptr);
            const auto add = [&](const std::string& name, const std::string& help,
                                 absl::Status (*run)(const TokenFlags&)) {
              CLI::App* sub = app.add_subcommand(name, help);
              sub->add_option("--data", flags->data, "The daemon's data folder")->type_name("DIR")->required();
              sub->callback([chosen, run] { *chosen = run; });
              return sub;
            };
            CLI::App* create = add("create", "Create a token and print it", CreateToken);
            create->add_option("--name", flags->name, "Owner of the token; annotators act under this name")->required();
            create->add_option("--role", flags->role, "annotator, reader or admin")->capture_default_str();
            add("list", "List the owners of tokens", ListTokens);
            add("revoke", "Revoke a token", RevokeToken)
                ->add_option("--name", flags->name, "Owner of the token")
                ->required();
            app.require_subcommand(1);
            app.footer(kTokenFooter);
            return [flags, chosen] { return (*chosen)(*flags); };
          }};
}

}  // namespace fulcrum::pipeline
