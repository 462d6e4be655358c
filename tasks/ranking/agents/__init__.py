"""Ways of asking a language model that several systems share; they see no documents but those they are handed."""
