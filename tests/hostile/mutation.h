// Damage to files: what disks, networks and people with bad intentions do to bytes. The same seed, the same damage.
#pragma once

#include <string>

#include "stages/core/random.h"

namespace fulcrum::hostile {

/// One to four kinds of damage, one after the other: bits flipped, bytes replaced by extreme ones, pieces cut out,
/// moved, repeated or overwritten by pieces of `other`, the end missing.
std::string Mutate(std::string bytes, const std::string& other, Random& random);

}  // namespace fulcrum::hostile
