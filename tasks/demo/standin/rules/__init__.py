"""How the stand-in answers, one file a prompt; the file is named as the prompt is."""
