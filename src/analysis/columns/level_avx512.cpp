// The loops of array programs for the level avx512; cmake/rooms/analysis.cmake gives this file its flags.
#define TCC_COLUMN_LEVEL avx512
#include "analysis/columns/kernel.h"
