// The arithmetic for x86-64-v4; cmake/rooms/nn.cmake gives this file the flags of the level.
#define TCC_NN_LEVEL v4
#include "nn/kernels/table.h"
