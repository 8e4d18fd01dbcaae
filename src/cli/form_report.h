// The forms of convolutions, in reports (tcc/driver/forms.h).
#pragma once

#include <string>
#include <vector>

#include "tcc/driver/tune.h"

namespace tcc::cli {

// Which form each tuned task takes, and the times of the others; "": no task has several. `numbers`: of the tasks.
std::string forms_text(const driver::TuneReport& report, const std::vector<std::string>& numbers);

// Forms that are too inaccurate for a task: warnings where the user asked for one form, else told with -v.
void print_refused_forms(const std::vector<driver::RefusedForm>& refused, bool asked);

}  // namespace tcc::cli
