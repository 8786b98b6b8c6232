// Blocks of a pass over rows, moved by a flow graph with a limiter (bounded_flow.h): the next blocks are worked on
// while one is taken, and none begins before there is room for it. For stages that run as nodes of the round's graph.
#pragma once

#include "stages/core/block_stream.h"

namespace fulcrum::pipeline {

const BlockStream& BlocksInFlow();

}  // namespace fulcrum::pipeline
