#include "pipeline/commands/connection_options.h"

namespace fulcrum::pipeline {

void AddConnectionOptions(CLI::App& app, ConnectionOptions& options) {
  constexpr char kGroup[] = "Server";
  app.add_option("--server", options.server, "Address of the server")
      ->type_name("HOST:PORT")
      ->envname("FULCRUM_SERVER")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--token-file", options.token_file,
                 "File with the access token; without it the variable FULCRUM_TOKEN")
      ->type_name("FILE")
      ->envname("FULCRUM_TOKEN_FILE")
      ->group(kGroup);
  app.add_option("--tls-ca", options.tls_ca, "Certificates to know the server by, in PEM format; switches TLS on")
      ->type_name("FILE")
      ->envname("FULCRUM_TLS_CA")
      ->group(kGroup);
  app.add_option("--tls-cert", options.tls_cert, "Own certificate, for a server that asks for one (mutual TLS)")
      ->type_name("FILE")
      ->envname("FULCRUM_TLS_CERT")
      ->group(kGroup);
  app.add_option("--tls-key", options.tls_key, "Private key of --tls-cert")
      ->type_name("FILE")
      ->envname("FULCRUM_TLS_KEY")
      ->group(kGroup);
}

}  // namespace fulcrum::pipeline
