"""Ways of widening a search without a language model, which several systems share; all of them use the desk alone."""
