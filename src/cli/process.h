// What the process needs around a command, whatever the command is.
#pragma once

namespace tcc::cli {

// Standard descriptors that were closed are opened on /dev/null, so that no file of ours gets their numbers. A reader
// that goes away and a limit on file sizes become errors of the write instead of signals; a model that is truncated
// while it is read becomes a message. Memory that runs out on a thread other than the caller's, or where exceptions may
// not pass (support/memory.h), ends the process with a message; elsewhere it is std::bad_alloc.
void prepare_process(int argc, char** argv);

inline constexpr const char* kMemoryHint =
    "free memory, raise the limit on it (ulimit -v), or use a smaller model or batch; records measured so far are kept";
// "`tcc tune net.onnx`" for messages.
const char* command_text();

}  // namespace tcc::cli
