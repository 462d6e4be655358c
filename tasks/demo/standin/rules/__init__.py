"""The stand-in's rules, one file for each prompt, named after the prompt."""
