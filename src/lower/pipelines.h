// The pipelines that lower.cpp defines. Private to the room.
#pragma once

#include "tcc/lower/pass.h"

namespace tcc::lower {

const Pipeline& cpu_pipeline();
const Pipeline& cuda_pipeline();

}  // namespace tcc::lower
