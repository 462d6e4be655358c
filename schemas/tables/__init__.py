"""One file a Parquet table: columns, types, units, meaning. `schemas.table.all_tables()` finds them by itself."""
