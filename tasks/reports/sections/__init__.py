"""Parts of the report, one file each: each reads the source and gives sections, none when it has nothing to say."""
