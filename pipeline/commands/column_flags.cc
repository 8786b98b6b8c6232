#include "pipeline/commands/column_flags.h"

namespace fulcrum::pipeline {

void AddColumnFlags(CLI::App& app, ingest::ColumnOptions& columns) {
  const char* group = "Columns";
  app.add_option("--id", columns.id, "What rows are called; 'id' where there is one, else row numbers")
      ->type_name("COLUMN")
      ->group(group);
  app.add_option("--label", columns.label, "Their class; 'label' where there is one")
      ->type_name("COLUMN")
      ->group(group);
  app.add_option("--cost", columns.cost, "What labeling one costs")->type_name("COLUMN")->group(group);
  app.add_option("--payload", columns.payload, "What a person needs to see to label it; carried along untouched")
      ->type_name("COLUMN")
      ->group(group);
  app.add_option("--features", columns.features, "The features, joined by commas; all other columns unless given")
      ->delimiter(',')
      ->type_name("COLUMNS")
      ->group(group);
}

}  // namespace fulcrum::pipeline
