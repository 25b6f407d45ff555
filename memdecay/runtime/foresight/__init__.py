"""Foreseeing how much later tokens will attend to a token, from the norms of its keys and values.

Attention that a token got so far says little of a token that has just been read, and nothing of one
that will be needed once, much later. What a language model thinks of a token at the time it reads
it shows in how long its keys and values are, head by head. A linear head over the logarithms of
those norms, fitted to the attention that tokens really got later, knows more, and costs nothing
beside the model.
"""
