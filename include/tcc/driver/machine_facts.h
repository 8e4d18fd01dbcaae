// What this machine reaches, measured once and kept in the user's cache folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tcc/support/result.h"
#include "tcc/target/probe.h"
#include "tcc/target/target.h"

namespace tcc::driver {

// For commands that want the rates beside other work: about a second, setting up included.
inline constexpr target::ProbeOptions kBriefProbe{.seconds = 0.7, .repeats = 3, .threads = 0};

struct MachineFacts {
  std::string machine;    // target::host_identity() of it
  target::Target target;  // the host with measured rates
  target::ProbeResult probe;
  double fork_join_seconds = 0;  // one parallel launch over fork_join_threads that does nothing
  int64_t fork_join_threads = 0;
  int64_t unix_seconds = 0;        // when it was measured
  double beaten_by = 0;            // fp32 operations/s that programs reached before it was measured again; 0 = none did
  bool cached = false;             // read from the file rather than measured now
  double seconds = 0;              // that measuring took; 0 when cached
  std::string file;                // where it is kept; "" = nowhere
  std::vector<std::string> notes;  // about the file, for the user
};

struct MachineFactsOptions {
  std::string folder;  // "" = measured now and not kept
  bool refresh = false;
  target::ProbeOptions probe;
  // What probes; empty: target::probe_host.
  std::function<Result<target::ProbeResult>(const target::Target&, const target::ProbeOptions&)> prober = {};
};

// Other programs had the machine for a part of the measurements that the rates do not absorb.
bool is_disturbed(const MachineFacts& facts);

// A file that is damaged, or that another machine wrote, is measured over, with a note; one that cannot be written is a
// note as well. A disturbed measurement is repeated, at once twice at most, and by the next call. Errors: the memory
// for measuring cannot be had.
Result<MachineFacts> machine_facts(const MachineFactsOptions& options);

// Facts that a program has beaten were measured while the machine was busy: measured again, with a note. A rate that
// was looked into once is not looked into again: other types (bf16) and other algorithms (Winograd) may exceed the
// peak. `rate`: operations per second that a program reached, as its fp32 operations are counted, scaled to all cores.
Result<MachineFacts> remeasure_if_beaten(MachineFacts facts, double rate, const MachineFactsOptions& options);

// What the file holds.
std::string machine_facts_to_json(const MachineFacts& facts);

}  // namespace tcc::driver
