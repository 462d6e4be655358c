"""The offline stand-in for a language model: a local endpoint that answers this project's prompts by rule."""
