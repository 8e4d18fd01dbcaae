// Data as one HTML file that needs no network: the template in src/cli/report, d3 and its licence, and the data as a
// block of JSON, from which the page draws itself. Private to the room.
#pragma once

#include <string>

#include "cli/json.h"
#include "tcc/support/result.h"

namespace tcc::cli {

// Text as a part of HTML.
std::string html_text(const std::string& text);
// JSON that may be inside of a <script> element, whatever its strings hold.
std::string script_json(const Json& json);

// Error (environment): this program was built without d3.
Result<void> check_report_page();
// data: docs/report.md; its title is valid UTF-8. Errors: those of check_report_page().
Result<std::string> report_page(const Json& data);

}  // namespace tcc::cli
