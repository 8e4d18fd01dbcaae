// What `tcc bench` says of a library. Private to the room.
#pragma once

#include "cli/command.h"
#include "tcc/driver/library.h"
#include "tcc/driver/machine_facts.h"

namespace tcc::cli {

// `host`: with measured rates. A library for GPUs is compared with its device's instead.
void print_times(const Common& common, const driver::BenchReport& report, const target::Target& host);

// What the fastest kernel in fp32 would reach on all cores of the host, operations per second; 0: it is not known.
double best_rate(const driver::BenchReport& report, const target::Target& host);

}  // namespace tcc::cli
