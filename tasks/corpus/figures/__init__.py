"""Figures of papers: their sources, the checks of every picture, and the mind-maps read off them."""
