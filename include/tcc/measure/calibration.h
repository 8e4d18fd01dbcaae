// A fixed kernel that tells whether two machines of one model are equally fast.
#pragma once

namespace tcc::measure {

// Seconds that the kernel takes at best, on the calling thread: a chain of dependent operations, which follows the
// core's clock, and a loop that fills the core's ports. Looks for about a second.
double calibration_seconds();

}  // namespace tcc::measure
