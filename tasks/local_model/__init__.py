"""A small language model on this machine, behind the endpoint of llama.cpp's own server.

What belongs here: finding the model's file, starting and ending the server. What does not: asking it (`tasks.llm`), and
the stand-in, which is no model (`tasks.demo.standin`).
"""
