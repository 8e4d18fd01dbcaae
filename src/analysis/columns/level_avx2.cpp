// The loops of array programs for the level avx2; cmake/rooms/analysis.cmake gives this file its flags.
#define TCC_COLUMN_LEVEL avx2
#include "analysis/columns/kernel.h"
