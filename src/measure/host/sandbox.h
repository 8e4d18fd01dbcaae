// What the process that runs a candidate may not do, where the system has seccomp filters.
#pragma once

namespace tcc::measure {

// From here on the calling process, and threads that it starts, get EPERM for: sockets of any kind, new processes and
// programs, opening files to write, changing names or modes of files, looking into other processes, and the calls that
// change namespaces, mounts or the kernel. False: the system has no such filters, and nothing changed.
bool enter_sandbox();

// The same for a process that holds a device and goes on taking jobs. It may still send on `socket`, and open files to
// write that exist: drivers open devices in this way.
bool enter_device_sandbox(int socket);

}  // namespace tcc::measure
