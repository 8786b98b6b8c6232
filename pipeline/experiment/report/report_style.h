// The style sheet and the script of the report: constants of the page.
#pragma once

namespace fulcrum::pipeline {

extern const char kReportStyle[];
extern const char kReportScript[];

}  // namespace fulcrum::pipeline
