#include "cli/form_report.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "cli/output.h"
#include "tcc/driver/forms.h"

namespace tcc::cli {

std::string forms_text(const driver::TuneReport& report, const std::vector<std::string>& numbers) {
  std::string text;
  for (size_t i = 0; i < report.tasks.size(); ++i) {
    const driver::TunedTask& t = report.tasks[i];
    if (t.forms.empty()) continue;
    text += fmt::format("task {}: {} is built", numbers.at(i), driver::form_of(t.result.workload));
    for (const driver::TunedForm& form : t.forms)
      text += fmt::format("; {} {}, {}{}", form.form, format_seconds(form.best_seconds), plural(form.trials, "trial"),
                          form.beaten ? ", beaten" : "");
    text += "\n";
  }
  return text;
}

void print_refused_forms(const std::vector<driver::RefusedForm>& refused, bool asked) {
  for (const driver::RefusedForm& r : refused) {
    const std::string text = driver::refusal_text(r);
    if (asked)
      print_warning(text);
    else
      spdlog::info("{}", text);
  }
}

}  // namespace tcc::cli
