// Mapped files that lose their end while they are read.
#pragma once

namespace tcc {

// From now on a large file that another program truncates under its reader (MappedFile; small files are copies) ends
// this process with one message that names the file and with exit status 1, instead of with SIGBUS. For programs, not
// for libraries: it sets the process's handler of that signal.
void report_truncated_files();

}  // namespace tcc
