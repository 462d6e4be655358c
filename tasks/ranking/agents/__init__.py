"""Ways of asking a language model that several systems share. They see only the documents that are passed to them."""
