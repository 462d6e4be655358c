"""Systems that answer questions over papers, one file each."""
