#include "cli/report_page.h"

#include <map>

#include "tcc/support/check.h"
#include "tcc/support/hash.h"

// Symbols of cmake/rooms/cli.cmake.
#define TCC_EMBEDDED(part) extern "C" const char tcc_report_##part##_begin[], tcc_report_##part##_end[];
TCC_EMBEDDED(page_html)
TCC_EMBEDDED(report_css)
TCC_EMBEDDED(report_js)
#ifdef TCC_WITH_D3
TCC_EMBEDDED(d3)
TCC_EMBEDDED(d3_licence)
#endif
#undef TCC_EMBEDDED

namespace tcc::cli {
namespace {

#define TCC_EMBEDDED(part) \
  std::string_view(tcc_report_##part##_begin, static_cast<size_t>(tcc_report_##part##_end - tcc_report_##part##_begin))

// The template with each {{name}} replaced, in one pass: what is put in is not looked at again.
std::string filled(std::string_view text, const std::map<std::string_view, std::string>& parts) {
  std::string out;
  while (!text.empty()) {
    const size_t at = std::min(text.find("{{"), text.size());
    out += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    const size_t end = text.find("}}");
    TCC_CHECK(end != text.npos, "the report's template has an open {{");
    const auto part = parts.find(text.substr(2, end - 2));
    TCC_CHECK(part != parts.end(), "the report's template names an unknown part");
    out += part->second;
    text.remove_prefix(end + 2);
  }
  return out;
}

}  // namespace

std::string html_text(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_json(const Json& json) {
  std::string out;
  for (char c : json.dump(-1, ' ', true, Json::error_handler_t::replace)) {  // ASCII only
    if (c == '<' || c == '>' || c == '&')
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out;
}

#ifdef TCC_WITH_D3

Result<void> check_report_page() {
  return {};
}

Result<std::string> report_page(const Json& data) {
  const std::string json = script_json(data);
  // Only scripts that carry this word run; a name in a model cannot know it.
  const std::string nonce = fmt::format("{:016x}", hash_bytes(json));
  return filled(TCC_EMBEDDED(page_html), {{"title", html_text(data.value("title", ""))},
                                          {"nonce", nonce},
                                          {"css", std::string(TCC_EMBEDDED(report_css))},
                                          {"d3", std::string(TCC_EMBEDDED(d3))},
                                          {"licence", html_text(std::string(TCC_EMBEDDED(d3_licence)))},
                                          {"script", std::string(TCC_EMBEDDED(report_js))},
                                          {"data", json}});
}

#else

Result<void> check_report_page() {
  return make_error(ErrorClass::kEnvironment, "this tcc was built without the report page: its build did not find d3",
                    "install Debian's package node-d3 and build tcc again");
}

Result<std::string> report_page(const Json&) {
  TCC_TRY_VOID(check_report_page());
  return std::string();
}

#endif

}  // namespace tcc::cli
