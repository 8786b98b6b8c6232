// How good predictions are. Pure functions, thread-safe.
#pragma once

#include <span>

#include "stages/core/rows.h"

namespace fulcrum::pipeline {

/// The share of predictions that are right; 0 of nothing.
double Accuracy(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth);

/// 2 TP / (2 TP + FP + FN) of the class `positive`; 0 where it is neither there nor predicted.
double F1Score(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth, ClassIndex positive);

}  // namespace fulcrum::pipeline
