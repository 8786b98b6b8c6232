// The options by which every client command finds its server and shows who it is.
#pragma once

#include "CLI/App.hpp"
#include "pipeline/client/server_connection.h"

namespace fulcrum::pipeline {

/// --server, --token-file, --tls-ca, --tls-cert, --tls-key. `options` must live as long as the app.
void AddConnectionOptions(CLI::App& app, ConnectionOptions& options);

}  // namespace fulcrum::pipeline
